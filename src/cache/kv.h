/* kv.h: the caches of one sequence, one for each donor layer of a plan, and their snapshots.
 *
 * Invariant: all caches have the same length. Every change is all or nothing: if one cache cannot
 * grow, trim or load, none has changed. */
#ifndef LAP_CACHE_KV_H
#define LAP_CACHE_KV_H

#include "cache/cache.h"
#include "checkpoint/plan.h"

typedef struct lap_kv {
  int caches;
  lap_cache **cache; /* by lap_layer.cache */
  const lap_bound *bound;
  bool plain_until_converted; /* --kv-start prompt: plain now, the plan's kinds after lap_kv_convert */
} lap_kv;

/* The kind of cache that a donor layer has. */
lap_cache_shape lap_kv_shape(const lap_layer *layer, bool plain);

/* Empty caches on the device of `bound`, which must outlive them. With `plain_start` every cache is plain
 * until lap_kv_convert. Errors: MEMORY. */
lap_status lap_kv_create(const lap_bound *bound, bool plain_start, lap_kv **out, lap_error *error);
void lap_kv_destroy(lap_kv *kv);

int64_t lap_kv_length(const lap_kv *kv);
size_t lap_kv_bytes(const lap_kv *kv);

/* What the caches of a sequence will take, without making them. All zero: an empty sequence. */
typedef struct lap_kv_forecast {
  int64_t length;      /* positions */
  uint64_t bytes;      /* lap_kv_bytes */
  uint64_t peak_bytes; /* the most so far: a cache that grows holds its old memory beside the new */
  int64_t capacity[LAP_MAX_LAYERS]; /* by lap_layer.cache */
} lap_kv_forecast;

/* What lap_kv_reserve and lap_kv_commit of `count` positions do to the caches that lap_kv_create makes for
 * the plan.
 */
void lap_kv_foresee(const lap_plan *plan, lap_kv_forecast *forecast, int64_t count);

lap_status lap_kv_reserve(lap_kv *kv, int64_t count, lap_error *error);
void lap_kv_commit(lap_kv *kv, int64_t count);

/* Drops all positions from `length` on. Errors: STATE where a wrapped ring has lost what position
 * `length` would see; nothing has changed then. */
bool lap_kv_can_trim(const lap_kv *kv, int64_t length);
lap_status lap_kv_trim(lap_kv *kv, int64_t length, lap_error *error);

/* Ends a plain start: converts the caches that the plan quantizes. No effect otherwise.
 * Errors: MEMORY, IO (the device). */
lap_status lap_kv_convert(lap_kv *kv, lap_error *error);

enum {
  LAP_FINGERPRINT_BYTES = 32
};

/* Writes the sequence (its `tokens` [length] and all caches) to `path` by way of a temporary file
 * beside it, so that a file that was there before stays whole on failure. `fingerprint` says which
 * weights made the content. No position has an origin (key.h). Rings are written from the oldest position
 * that can still be seen. Errors: IO, MEMORY. */
lap_status lap_kv_save(const lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES],
                       const int32_t *tokens, const char *path, lap_error *error);

/* Replaces the content of `kv` by a snapshot's; `*tokens` [*count] is malloc'd and the caller's. The
 * file's version, checksum, fingerprint, cache kinds and every size are checked first.
 * Errors: IO, FORMAT (not a snapshot, damaged), STATE (another version of the format or of the numerics
 * contract, other weights or KV setting), UNSUPPORTED (positions with origins), MEMORY; `kv` has not changed
 * then. */
lap_status lap_kv_load(lap_kv *kv, const unsigned char fingerprint[LAP_FINGERPRINT_BYTES], const char *path,
                       int32_t **tokens, int64_t *count, lap_error *error);

#endif
