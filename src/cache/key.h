/* key.h: what decides keys and values at a position of a sequence.
 *
 * K and V of a position depend on the model and on what stands there and before. Mostly that is an id of the
 * vocabulary, computed with the checkpoint's own weights, and the id says it all. It does not where a row is
 * part of a picture (many pictures, one id that stands for all their rows) nor where an adapter changes the
 * weights: such positions have an origin as well.
 *
 * Whoever takes a sequence, a mark, a snapshot or a file for the beginning of something else compares keys by
 * lap_keys_common and in no other way: two positions are the same if their ids and their origins are. */
#ifndef LAP_CACHE_KEY_H
#define LAP_CACHE_KEY_H

#include <stdbool.h>
#include <stdint.h>

enum {
  LAP_CONTENT_HASH_BYTES = 16
};

/* Beside the id. All zero: the id's own embedding, without an adapter. */
typedef struct lap_origin {
  unsigned char content[LAP_CONTENT_HASH_BYTES]; /* hash of the content that the row is a part of (a picture's
                                                  * pixels and its budget of rows); zero: of none */
  int64_t index;     /* of the row within the content, >= 0; 0 where there is none */
  uint64_t adapters; /* identity (a hash) of the set of adapters; 0: none */
} lap_origin;

/* The keys of consecutive positions, borrowed. */
typedef struct lap_keys {
  const int32_t *ids;
  const lap_origin *origins; /* NULL: all zero, the usual case, which takes no memory */
} lap_keys;

/* `origins` (may be NULL), or NULL if the first `count` of them are all zero. */
const lap_origin *lap_origins_unless_zero(const lap_origin *origins, int64_t count);

/* False where the fields contradict each other: a negative index, or one of no content. */
bool lap_origin_is_valid(const lap_origin *origin);

/* How many of the first `count` positions of both are the same, up to the first that differs. */
int64_t lap_keys_common(lap_keys a, lap_keys b, int64_t count);

/* The keys from position `from` on. */
static inline lap_keys lap_keys_from(lap_keys keys, int64_t from) {
  return (lap_keys){keys.ids + from, keys.origins ? keys.origins + from : 0};
}

#endif
