/* cache.h: keys and values of one donor layer, for one sequence.
 *
 * Four kinds behind one interface: growing (full attention) and rotating (sliding window), each plain
 * or quantized. Quantized means affine codes of 4 or 8 bits with scale and bias for each group; plain
 * means 16 bits a value, signed, with one scale for each 64 values: as small as bf16 and two hundred
 * times as exact, which the contract on accuracy needs (docs/numerics.md). K and V are quantized when
 * they are written; every query reads what the cache holds, those of its own chunk too.
 *
 * Positions are absolute and ascending. Position p stands in slot p mod capacity: a growing cache's
 * capacity always exceeds its length; a ring's stops at window - 1 + the largest chunk that was
 * reserved. Invariant: positions [oldest, length) are stored, and length - oldest <= capacity. */
#ifndef LAP_CACHE_CACHE_H
#define LAP_CACHE_CACHE_H

#include "device/device.h"

typedef struct lap_cache lap_cache;

/* An empty one in the memory of `device`, which must outlive it. Errors: MEMORY. */
lap_status lap_cache_create(lap_device *device, const lap_cache_shape *shape, lap_cache **out,
                            lap_error *error);
void lap_cache_destroy(lap_cache *cache);

const lap_cache_shape *lap_cache_get_shape(const lap_cache *cache);
lap_device *lap_cache_get_device(const lap_cache *cache);
int64_t lap_cache_length(const lap_cache *cache);
int64_t lap_cache_oldest(const lap_cache *cache);
int64_t lap_cache_capacity(const lap_cache *cache);

/* Bytes of memory held. */
size_t lap_cache_bytes(const lap_cache *cache);

/* Bytes of one position. */
size_t lap_cache_position_bytes(const lap_cache_shape *shape);

/* An upper bound of lap_cache_bytes for a cache that grows to `length` by reservations of at most `count`. */
size_t lap_cache_most_bytes(const lap_cache_shape *shape, int64_t length, int64_t count);

/* The capacity, in positions, that a cache of `capacity` which holds `length` has after lap_cache_reserve of
 * `count` more: so that memory can be foreseen without a cache. */
int64_t lap_cache_capacity_for(const lap_cache_shape *shape, int64_t capacity, int64_t length, int64_t count);

/* Makes room for the next `count` positions, so that writing them cannot fail. What is stored stays
 * readable until lap_cache_commit; on failure nothing has changed. Errors: MEMORY. */
lap_status lap_cache_reserve(lap_cache *cache, int64_t count, lap_error *error);

/* Appends: the `count` positions after length, all written, become part of the cache. */
void lap_cache_commit(lap_cache *cache, int64_t count);

/* What it is and where it stands, for a forward pass, which writes positions length .. length + reserved - 1
 * and reads all. Valid until the next reserve, load, conversion or destroy. */
lap_cache_place lap_cache_get_place(const lap_cache *cache);

/* The longest run of consecutive slots that begins at position `from` and ends before `to`:
 * walking a range of positions in ascending order takes at most two runs for each wrap. */
int64_t lap_cache_run(const lap_cache *cache, int64_t from, int64_t to, int64_t *slot);

/* The lowest length that trimming reaches once `count` more positions, for which there is room, are appended.
 */
int64_t lap_cache_lowest(const lap_cache *cache, int64_t count);

/* True if the cache can continue at `length` <= its length: every key that position `length` sees is
 * still stored. */
bool lap_cache_can_trim(const lap_cache *cache, int64_t length);

/* Drops positions from `length` on. Errors: STATE if can_trim is false. */
lap_status lap_cache_trim(lap_cache *cache, int64_t length, lap_error *error);

/* Turns a plain cache into a quantized one, position by position: what is stored is what would have
 * been stored had the floats been written to a quantized cache. Errors: STATE if it is quantized,
 * MEMORY, IO (the device); on failure nothing has changed. */
lap_status lap_cache_convert(lap_cache *cache, int bits, int group_size, lap_error *error);

/* The first position worth copying to go on at `length`: what the next position sees, and one more, so that a
 * copy can still be trimmed by its last token. */
int64_t lap_cache_first_needed(const lap_cache *cache, int64_t length);

/* Replaces the content of `cache` by positions [oldest, length) of `source`, another cache of the same shape
 * and device that stores them; `oldest` is 0 for a growing one. Errors: MEMORY: nothing has changed; IO (the
 * device): the cache is empty. */
lap_status lap_cache_copy(lap_cache *cache, const lap_cache *source, int64_t oldest, int64_t length,
                          lap_error *error);

/* Raw content for snapshots: the bytes of positions [from, to) of plane `index` (0 .. planes - 1), in
 * ascending position. `lap_cache_load` replaces the content by positions [oldest, length). Errors: IO (the
 * device). */
int lap_cache_planes(const lap_cache *cache);
size_t lap_cache_plane_bytes(const lap_cache *cache, int index); /* of one position */
lap_status lap_cache_read(const lap_cache *cache, int index, int64_t from, int64_t to, unsigned char *out,
                          lap_error *error);
/* Empties the cache and makes room for [oldest, length). Errors: MEMORY. */
lap_status lap_cache_load_begin(lap_cache *cache, int64_t oldest, int64_t length, lap_error *error);
lap_status lap_cache_load(lap_cache *cache, int index, const unsigned char *in, lap_error *error);

#endif
