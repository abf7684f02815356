/* cache.c: planes of slots.
 *
 * Codes and scales of K and V, and for quantized caches their biases, are planes with the same slot
 * numbering: [capacity, kv_heads, row]. A growing cache and a ring differ only in how capacity is
 * chosen and in what trimming may ask for; plain and quantized differ only in how a row is written.
 *
 * Scales and biases are f32, the type of the activations that were quantized: with bf16 ones the
 * rounding of a scale, times a code of up to 255, would exceed the quantization step itself
 * (docs/numerics.md has the measurement). */
#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>

enum {
  FIRST_STEP = 64
};

struct lap_cache {
  lap_device *device;
  lap_cache_place place;
  int planes;                       /* 4 if plain, else 6 */
  size_t slot_bytes[LAP_KV_PLANES]; /* all KV heads of one position */
  int64_t length;
  int64_t oldest;
};

/* Returns the number of planes. */
static int lay_out(const lap_cache_shape *shape, size_t slot_bytes[LAP_KV_PLANES]) {
  int planes = lap_kv_plane_count(shape->bits);
  for (int i = 0; i < planes; i++)
    slot_bytes[i] =
        (size_t)shape->kv_heads * lap_kv_head_bytes(shape->bits, shape->group_size, shape->head_dim, i);
  return planes;
}

lap_status lap_cache_create(lap_device *device, const lap_cache_shape *shape, lap_cache **out,
                            lap_error *error) {
  lap_cache *cache = calloc(1, sizeof *cache);
  *out = cache;
  if (!cache) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a KV cache");
  cache->device = device;
  cache->place.shape = *shape;
  cache->planes = lay_out(shape, cache->slot_bytes);
  return LAP_OK;
}

static void release_planes(lap_device *device, lap_address plane[LAP_KV_PLANES]) {
  for (int i = 0; i < LAP_KV_PLANES; i++) {
    if (plane[i]) device->driver->release(device, plane[i]);
    plane[i] = 0;
  }
}

void lap_cache_destroy(lap_cache *cache) {
  if (!cache) return;
  release_planes(cache->device, cache->place.plane);
  free(cache);
}

const lap_cache_shape *lap_cache_get_shape(const lap_cache *cache) {
  return &cache->place.shape;
}

lap_device *lap_cache_get_device(const lap_cache *cache) {
  return cache->device;
}

int64_t lap_cache_length(const lap_cache *cache) {
  return cache->length;
}

int64_t lap_cache_oldest(const lap_cache *cache) {
  return cache->oldest;
}

int64_t lap_cache_capacity(const lap_cache *cache) {
  return cache->place.capacity;
}

size_t lap_cache_position_bytes(const lap_cache_shape *shape) {
  size_t slot_bytes[LAP_KV_PLANES], bytes = 0;
  int planes = lay_out(shape, slot_bytes);
  for (int i = 0; i < planes; i++) bytes += slot_bytes[i];
  return bytes;
}

size_t lap_cache_bytes(const lap_cache *cache) {
  return (size_t)cache->place.capacity * lap_cache_position_bytes(&cache->place.shape);
}

/* Copies positions [from, to) of a plane between two layouts of slots: whole runs of consecutive slots. */
static lap_status copy_positions(lap_device *device, lap_address source, int64_t source_capacity,
                                 lap_address target, int64_t target_capacity, size_t slot_bytes, int64_t from,
                                 int64_t to, lap_error *error) {
  lap_status status = LAP_OK;
  while (status == LAP_OK && from < to) {
    int64_t a = from % source_capacity, b = from % target_capacity;
    int64_t n = to - from;
    if (n > source_capacity - a) n = source_capacity - a;
    if (n > target_capacity - b) n = target_capacity - b;
    status = device->driver->copy(device, source + (size_t)a * slot_bytes, target + (size_t)b * slot_bytes,
                                  (size_t)n * slot_bytes, error);
    from += n;
  }
  return status;
}

static lap_status copy_planes(const lap_cache *source, const lap_address *target, int64_t target_capacity,
                              int64_t from, int64_t to, lap_error *error) {
  lap_status status = LAP_OK;
  for (int i = 0; status == LAP_OK && i < source->planes; i++)
    status = copy_positions(source->device, source->place.plane[i], source->place.capacity, target[i],
                            target_capacity, source->slot_bytes[i], from, to, error);
  return status;
}

static lap_status no_memory(const lap_cache_shape *shape, int64_t capacity, lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY,
                  "out of memory: a KV cache of %lld positions needs %zu bytes for each", (long long)capacity,
                  lap_cache_position_bytes(shape));
}

static lap_status resize(lap_cache *cache, int64_t capacity, lap_error *error) {
  const lap_driver *driver = cache->device->driver;
  lap_address plane[LAP_KV_PLANES] = {0};
  lap_status status = LAP_OK;
  for (int i = 0; status == LAP_OK && i < cache->planes; i++) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)capacity, cache->slot_bytes[i], &bytes) ||
        driver->allocate(cache->device, bytes, &plane[i], NULL) != LAP_OK)
      status = no_memory(&cache->place.shape, capacity, error);
  }
  if (status == LAP_OK && cache->length > cache->oldest)
    status = copy_planes(cache, plane, capacity, cache->oldest, cache->length, error);
  if (status != LAP_OK) {
    release_planes(cache->device, plane);
    return status;
  }
  release_planes(cache->device, cache->place.plane);
  memcpy(cache->place.plane, plane, sizeof plane);
  cache->place.capacity = capacity;
  return LAP_OK;
}

/* The capacity to grow to when `needed` is more than there is: in steps of an eighth, so that a long
 * sequence is copied a few dozen times at most and never holds much more than it uses. */
static int64_t grown(int64_t capacity, int64_t needed) {
  int64_t step = capacity / 8 > FIRST_STEP ? capacity / 8 : FIRST_STEP;
  int64_t target = needed > capacity + step ? needed : capacity + step;
  return (target + FIRST_STEP - 1) / FIRST_STEP * FIRST_STEP;
}

/* The capacity that makes room for `needed`: at most `limit` >= needed where it has to grow. */
static int64_t room_for(int64_t capacity, int64_t needed, int64_t limit) {
  if (needed <= capacity) return capacity;
  int64_t target = grown(capacity, needed);
  return target < limit ? target : limit;
}

static lap_status make_room(lap_cache *cache, int64_t needed, int64_t limit, lap_error *error) {
  int64_t capacity = room_for(cache->place.capacity, needed, limit);
  return capacity == cache->place.capacity ? LAP_OK : resize(cache, capacity, error);
}

/* The first of `count` new positions sees window - 1 before it; the last must not overwrite them. */
static int64_t capacity_limit(const lap_cache_shape *shape, int64_t count) {
  return shape->window ? shape->window - 1 + count : INT64_MAX;
}

size_t lap_cache_most_bytes(const lap_cache_shape *shape, int64_t length, int64_t count) {
  int64_t most = grown(length, length), limit = capacity_limit(shape, count);
  return (size_t)(most < limit ? most : limit) * lap_cache_position_bytes(shape);
}

int64_t lap_cache_capacity_for(const lap_cache_shape *shape, int64_t capacity, int64_t length,
                               int64_t count) {
  int64_t needed = length + count, limit = capacity_limit(shape, count);
  return room_for(capacity, needed < limit ? needed : limit, limit);
}

lap_status lap_cache_reserve(lap_cache *cache, int64_t count, lap_error *error) {
  int64_t capacity = lap_cache_capacity_for(&cache->place.shape, cache->place.capacity, cache->length, count);
  return capacity == cache->place.capacity ? LAP_OK : resize(cache, capacity, error);
}

void lap_cache_commit(lap_cache *cache, int64_t count) {
  cache->length += count;
  if (cache->length - cache->place.capacity > cache->oldest)
    cache->oldest = cache->length - cache->place.capacity;
}

lap_cache_place lap_cache_get_place(const lap_cache *cache) {
  return cache->place;
}

int64_t lap_cache_run(const lap_cache *cache, int64_t from, int64_t to, int64_t *slot) {
  *slot = from % cache->place.capacity;
  int64_t n = cache->place.capacity - *slot;
  return n < to - from ? n : to - from;
}

int64_t lap_cache_lowest(const lap_cache *cache, int64_t count) {
  int64_t oldest = cache->oldest, overwritten = cache->length + count - cache->place.capacity;
  if (overwritten > oldest) oldest = overwritten;
  return oldest > 0 ? oldest + cache->place.shape.window - 1 : 0;
}

bool lap_cache_can_trim(const lap_cache *cache, int64_t length) {
  if (length < 0 || length > cache->length) return false;
  return length == cache->length || length >= lap_cache_lowest(cache, 0);
}

lap_status lap_cache_trim(lap_cache *cache, int64_t length, lap_error *error) {
  if (!lap_cache_can_trim(cache, length))
    return lap_fail(
        error, LAP_ERROR_STATE,
        "cannot trim to %lld of %lld tokens: the ring holds positions from %lld on, the window is %lld",
        (long long)length, (long long)cache->length, (long long)cache->oldest,
        (long long)cache->place.shape.window);
  cache->length = length;
  if (cache->oldest > length) cache->oldest = length;
  return LAP_OK;
}

lap_status lap_cache_convert(lap_cache *cache, int bits, int group_size, lap_error *error) {
  if (cache->place.shape.bits != LAP_PLAIN_BITS)
    return lap_fail(error, LAP_ERROR_STATE, "the KV cache is quantized already");
  lap_cache converted = {.device = cache->device,
                         .place.shape = cache->place.shape,
                         .oldest = cache->oldest,
                         .length = cache->oldest};
  converted.place.shape.bits = bits;
  converted.place.shape.group_size = group_size;
  converted.planes = lay_out(&converted.place.shape, converted.slot_bytes);
  lap_status status = LAP_OK;
  if (cache->place.capacity) status = resize(&converted, cache->place.capacity, error);
  if (status == LAP_OK)
    status = cache->device->driver->convert(cache->device, &cache->place, &converted.place, cache->oldest,
                                            cache->length, error);
  if (status != LAP_OK) {
    release_planes(converted.device, converted.place.plane);
    return status;
  }
  converted.length = cache->length;
  release_planes(cache->device, cache->place.plane);
  *cache = converted;
  return LAP_OK;
}

int lap_cache_planes(const lap_cache *cache) {
  return cache->planes;
}

size_t lap_cache_plane_bytes(const lap_cache *cache, int index) {
  return cache->slot_bytes[index];
}

lap_status lap_cache_read(const lap_cache *cache, int index, int64_t from, int64_t to, unsigned char *out,
                          lap_error *error) {
  const size_t slot_bytes = cache->slot_bytes[index];
  lap_status status = LAP_OK;
  while (status == LAP_OK && from < to) {
    int64_t slot, n = lap_cache_run(cache, from, to, &slot);
    status = cache->device->driver->read(cache->device, cache->place.plane[index] + (size_t)slot * slot_bytes,
                                         out, (size_t)n * slot_bytes, error);
    out += (size_t)n * slot_bytes;
    from += n;
  }
  return status;
}

/* Slots that positions [oldest, length) take. */
static int64_t slots(const lap_cache *cache, int64_t oldest, int64_t length) {
  return cache->place.shape.window ? length - oldest : length;
}

lap_status lap_cache_load_begin(lap_cache *cache, int64_t oldest, int64_t length, lap_error *error) {
  cache->length = cache->oldest = 0;
  int64_t needed = slots(cache, oldest, length);
  lap_status status = make_room(cache, needed, cache->place.shape.window ? needed : INT64_MAX, error);
  if (status != LAP_OK) return status;
  cache->oldest = oldest;
  cache->length = length;
  return LAP_OK;
}

int64_t lap_cache_first_needed(const lap_cache *cache, int64_t length) {
  int64_t from = cache->place.shape.window ? length - cache->place.shape.window : 0;
  return from > cache->oldest ? from : cache->oldest;
}

lap_status lap_cache_copy(lap_cache *cache, const lap_cache *source, int64_t oldest, int64_t length,
                          lap_error *error) {
  int64_t needed = slots(cache, oldest, length);
  lap_status status = make_room(cache, needed, cache->place.shape.window ? needed : INT64_MAX, error);
  if (status != LAP_OK) return status;
  status = copy_planes(source, cache->place.plane, cache->place.capacity, oldest, length, error);
  cache->oldest = status == LAP_OK ? oldest : 0;
  cache->length = status == LAP_OK ? length : 0;
  return status;
}

lap_status lap_cache_load(lap_cache *cache, int index, const unsigned char *in, lap_error *error) {
  const size_t slot_bytes = cache->slot_bytes[index];
  lap_status status = LAP_OK;
  for (int64_t from = cache->oldest; status == LAP_OK && from < cache->length;) {
    int64_t slot, n = lap_cache_run(cache, from, cache->length, &slot);
    status =
        cache->device->driver->write(cache->device, cache->place.plane[index] + (size_t)slot * slot_bytes, in,
                                     (size_t)n * slot_bytes, error);
    in += (size_t)n * slot_bytes;
    from += n;
  }
  return status;
}
