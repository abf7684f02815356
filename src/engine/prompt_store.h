/* prompt_store.h: sequences in a directory, so that they survive the process.
 *
 * A file is a snapshot (cache/snapshot.h) named after what it holds. Files are written whole or not at all,
 * and believed only as far as the snapshot's own checks go; a file that cannot be used is counted and left
 * alone. The files of other checkpoints and of other processes may stand in the same directory.
 *
 * The index in memory holds the keys of each file and not its keys and values: a few bytes for a token that
 * takes thousands in the file. The directory's size is bounded by removing the files that were used least
 * recently, by their time, whoever wrote them, if they are named as ours are. */
#ifndef LAP_ENGINE_PROMPT_STORE_H
#define LAP_ENGINE_PROMPT_STORE_H

#include "engine/sequence.h"
#include "model/model.h"

typedef struct lap_prompt_store lap_prompt_store;

/* Opens or makes `directory` (its parent must exist), readable by its owner only, and reads the heads of the
 * files in it. Errors: IO (it cannot be made or listed), MEMORY. */
lap_status lap_prompt_store_open(lap_model *model, const char *directory, uint64_t bytes,
                                 lap_prompt_store **out, lap_error *error);
void lap_prompt_store_close(lap_prompt_store *store);

/* The largest number of `keys` [count] that a file serves; *common gets the largest number that a file begins
 * with. `*file` is valid until the next load or save. */
int64_t lap_prompt_store_find(const lap_prompt_store *store, lap_keys keys, int64_t count, int *file,
                              int64_t *common);

/* The sequence of a file; `total` as in lap_mark. NULL if the file turns out not to be usable, or memory is
 * short: it is counted, and found no more. */
lap_sequence *lap_prompt_store_load(lap_prompt_store *store, int file, size_t *total);

/* Writes a sequence, unless a file holds it already or it is larger than the bound; removes what it makes
 * superfluous. Failure is counted. */
void lap_prompt_store_save(lap_prompt_store *store, const lap_sequence *sequence);

lap_store_stats lap_prompt_store_stats(const lap_prompt_store *store);

#endif
