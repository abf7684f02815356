/* prompt_cache.h: sequences that have ended, kept for requests that begin as they did.
 *
 * A request gets the sequence with the longest beginning in common (of keys: cache/key.h), taken back to
 * where the two part; by the numerics contract its results are those of a cold start, bit for bit. At least
 * one token is always left to compute.
 *
 * The sequence is moved where the request goes on from its end or nearly so: what is lost is a few tokens,
 * that cost about one decode step to compute again. Else it is copied, so that two conversations with a
 * common beginning both keep theirs; copying costs milliseconds where computing costs minutes. Sequences that
 * are still in use are copied from too.
 *
 * Where rings have wrapped, marks (sequence.h) make going back possible. Worth a mark are the end of each
 * prompt, since the next turn of a conversation may spell the answer differently; the place where a later
 * prompt parted from an earlier one, since a third may part there too; and every so many tokens of a long
 * prompt, so far apart that these marks take no more memory than the growing caches. Noting a place costs
 * nothing: it is copied only when the ring is about to lose it.
 *
 * `bytes` bounds the sequences kept and all marks, those of sequences in use included; what was used least
 * recently goes first. With a directory, sequences are written to it when there is nothing else to do, and
 * what is found there better than in memory is read back. */
#ifndef LAP_ENGINE_PROMPT_CACHE_H
#define LAP_ENGINE_PROMPT_CACHE_H

#include "engine/prompt_store.h"

typedef struct lap_prompt_cache lap_prompt_cache;

/* `bytes` 0: nothing is kept in memory; `directory` NULL: nor on disk. Errors: MEMORY, IO (the directory). */
lap_status lap_prompt_cache_create(lap_model *model, size_t bytes, const char *directory,
                                   uint64_t directory_bytes, lap_prompt_cache **out, lap_error *error);
/* All sequences that were taken must have been given back. Writes what is not in the directory yet. */
void lap_prompt_cache_destroy(lap_prompt_cache *cache);

/* How many tokens of a prompt `keys` [count >= 1] lap_prompt_cache_take would save. `used` [users] are
 * sequences in use; NULL ones are skipped. */
int64_t lap_prompt_cache_look(const lap_prompt_cache *cache, lap_keys keys, int64_t count,
                              lap_sequence *const *used, int users);

/* A sequence for the prompt that holds a beginning of it, at most all tokens but the last; the caller's.
 * Errors: MEMORY. */
lap_status lap_prompt_cache_take(lap_prompt_cache *cache, lap_keys keys, int64_t count,
                                 lap_sequence *const *used, int users, lap_sequence **out, lap_error *error);

/* Room in a sequence in use for `next` [count]; what is worth going back to and would be lost is marked.
 * Errors: MEMORY, after everything kept was given up. */
lap_status lap_prompt_cache_reserve(lap_prompt_cache *cache, lap_sequence *sequence, lap_keys next,
                                    int64_t count, lap_error *error);

/* Takes over a sequence that is no longer in use. */
void lap_prompt_cache_put(lap_prompt_cache *cache, lap_sequence *sequence);

/* For when there is nothing else to do: writes one sequence to the directory. False: all are written. */
bool lap_prompt_cache_write(lap_prompt_cache *cache);

/* Gives up everything kept in memory. */
void lap_prompt_cache_clear(lap_prompt_cache *cache);

lap_prompt_cache_stats lap_prompt_cache_get_stats(const lap_prompt_cache *cache);

#endif
