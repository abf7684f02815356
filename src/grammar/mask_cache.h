/* mask_cache.h: what the states of a grammar allow, computed once.
 *
 * An entry holds for one state (and the rounds that its rule has counted, as far as they matter) whoever
 * called the rule: the tokens that are read inside of the rule, and the nodes of the trie at which the rule
 * may have ended with bytes still to come. What those bytes may be depends on the callers and is not in the
 * entry.
 *
 * The cache is shared by threads. It keeps to a number of bytes, dropping what was not used lately. */
#ifndef LAP_GRAMMAR_MASK_CACHE_H
#define LAP_GRAMMAR_MASK_CACHE_H

#include "base/error.h"

typedef struct lap_mask_entry {
  uint64_t key;
  struct lap_mask_entry *next; /* in its bucket */
  int users;
  bool used;      /* since it was last considered for dropping */
  uint64_t *bits; /* a set of ids, or NULL: then they are listed */
  int32_t *ids;   /* [id_count] */
  size_t id_count;
  uint32_t *exits; /* [exit_count]: nodes of the trie */
  size_t exit_count;
  size_t bytes;
} lap_mask_entry;

typedef struct lap_mask_cache lap_mask_cache;

lap_status lap_mask_cache_create(size_t max_bytes, lap_mask_cache **out, lap_error *error);
void lap_mask_cache_destroy(lap_mask_cache *cache);

/* The entry of a key, which stays valid until it is released; NULL if there is none. */
lap_mask_entry *lap_mask_cache_find(lap_mask_cache *cache, uint64_t key);

/* Takes over an entry of one allocation of its own and one for each of bits, ids and exits, and returns it or
 * the one that another thread entered meanwhile; to be released like one that was found. */
lap_mask_entry *lap_mask_cache_enter(lap_mask_cache *cache, lap_mask_entry *entry);
void lap_mask_cache_release(lap_mask_cache *cache, lap_mask_entry *entry);

void lap_mask_entry_free(lap_mask_entry *entry);

size_t lap_mask_cache_bytes(lap_mask_cache *cache);

#endif
