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

enum {
  FIRST_STEP = 64
};

struct lap_cache {
  lap_cache_shape shape;
  int planes; /* 4 if plain, else 6 */
  lap_kv_planes memory;
  size_t slot_bytes[LAP_KV_PLANES]; /* all KV heads of one position */
  int64_t length;
  int64_t oldest;
};

/* Returns the number of planes. */
static int lay_out(const lap_cache_shape *shape, size_t slot_bytes[LAP_KV_PLANES]) {
  int planes = shape->bits == LAP_PLAIN_BITS ? LAP_K_BIASES : LAP_KV_PLANES;
  for (int i = 0; i < planes; i++)
    slot_bytes[i] =
        (size_t)shape->kv_heads * lap_kv_head_bytes(shape->bits, shape->group_size, shape->head_dim, i);
  return planes;
}

lap_status lap_cache_create(const lap_cache_shape *shape, lap_cache **out, lap_error *error) {
  lap_cache *cache = calloc(1, sizeof *cache);
  *out = cache;
  if (!cache) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a KV cache");
  cache->shape = *shape;
  cache->planes = lay_out(shape, cache->slot_bytes);
  return LAP_OK;
}

void lap_cache_destroy(lap_cache *cache) {
  if (!cache) return;
  for (int i = 0; i < cache->planes; i++) free(cache->memory.plane[i]);
  free(cache);
}

const lap_cache_shape *lap_cache_get_shape(const lap_cache *cache) {
  return &cache->shape;
}

int64_t lap_cache_length(const lap_cache *cache) {
  return cache->length;
}

int64_t lap_cache_oldest(const lap_cache *cache) {
  return cache->oldest;
}

int64_t lap_cache_capacity(const lap_cache *cache) {
  return cache->memory.capacity;
}

size_t lap_cache_position_bytes(const lap_cache_shape *shape) {
  size_t slot_bytes[LAP_KV_PLANES], bytes = 0;
  int planes = lay_out(shape, slot_bytes);
  for (int i = 0; i < planes; i++) bytes += slot_bytes[i];
  return bytes;
}

size_t lap_cache_bytes(const lap_cache *cache) {
  return (size_t)cache->memory.capacity * lap_cache_position_bytes(&cache->shape);
}

/* Copies positions [from, to) of a plane between two layouts of slots. */
static void copy_positions(const unsigned char *source, int64_t source_capacity, unsigned char *target,
                           int64_t target_capacity, size_t slot_bytes, int64_t from, int64_t to) {
  while (from < to) {
    int64_t a = from % source_capacity, b = from % target_capacity;
    int64_t n = to - from;
    if (n > source_capacity - a) n = source_capacity - a;
    if (n > target_capacity - b) n = target_capacity - b;
    memcpy(target + (size_t)b * slot_bytes, source + (size_t)a * slot_bytes, (size_t)n * slot_bytes);
    from += n;
  }
}

static lap_status no_memory(const lap_cache_shape *shape, int64_t capacity, lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY,
                  "out of memory: a KV cache of %lld positions needs %zu bytes for each", (long long)capacity,
                  lap_cache_position_bytes(shape));
}

static lap_status resize(lap_cache *cache, int64_t capacity, lap_error *error) {
  unsigned char *data[LAP_KV_PLANES] = {0};
  for (int i = 0; i < cache->planes; i++) {
    size_t bytes;
    if (!__builtin_mul_overflow((size_t)capacity, cache->slot_bytes[i], &bytes)) data[i] = malloc(bytes);
    if (!data[i]) {
      for (int j = 0; j < i; j++) free(data[j]);
      return no_memory(&cache->shape, capacity, error);
    }
  }
  for (int i = 0; i < cache->planes; i++) {
    if (cache->length > cache->oldest)
      copy_positions(cache->memory.plane[i], cache->memory.capacity, data[i], capacity, cache->slot_bytes[i],
                     cache->oldest, cache->length);
    free(cache->memory.plane[i]);
    cache->memory.plane[i] = data[i];
  }
  cache->memory.capacity = capacity;
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
  int64_t capacity = room_for(cache->memory.capacity, needed, limit);
  return capacity == cache->memory.capacity ? LAP_OK : resize(cache, capacity, error);
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
  int64_t capacity = lap_cache_capacity_for(&cache->shape, cache->memory.capacity, cache->length, count);
  return capacity == cache->memory.capacity ? LAP_OK : resize(cache, capacity, error);
}

void lap_cache_write(lap_cache *cache, const lap_kernels *kernels, int64_t position, int kv_head,
                     const float *k, const float *v) {
  const lap_cache_shape *shape = &cache->shape;
  kernels->kv_write(shape->bits, shape->group_size, shape->head_dim, shape->kv_heads, &cache->memory,
                    position, kv_head, k, v);
}

void lap_cache_commit(lap_cache *cache, int64_t count) {
  cache->length += count;
  if (cache->length - cache->memory.capacity > cache->oldest)
    cache->oldest = cache->length - cache->memory.capacity;
}

lap_kv_view lap_cache_view(const lap_cache *cache, int kv_head) {
  const lap_cache_shape *shape = &cache->shape;
  return lap_kv_planes_view(shape->bits, shape->group_size, shape->head_dim, shape->kv_heads, &cache->memory,
                            kv_head);
}

const lap_kv_planes *lap_cache_memory(const lap_cache *cache) {
  return &cache->memory;
}

int64_t lap_cache_run(const lap_cache *cache, int64_t from, int64_t to, int64_t *slot) {
  return lap_slot_run(cache->memory.capacity, from, to, slot);
}

int64_t lap_cache_lowest(const lap_cache *cache, int64_t count) {
  int64_t oldest = cache->oldest, overwritten = cache->length + count - cache->memory.capacity;
  if (overwritten > oldest) oldest = overwritten;
  return oldest > 0 ? oldest + cache->shape.window - 1 : 0;
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
        (long long)cache->shape.window);
  cache->length = length;
  if (cache->oldest > length) cache->oldest = length;
  return LAP_OK;
}

static void convert_position(const lap_cache *from, lap_cache *to, const lap_kernels *kernels,
                             int64_t position, float *k, float *v) {
  int head_dim = from->shape.head_dim;
  for (int head = 0; head < from->shape.kv_heads; head++) {
    lap_kv_view view = lap_cache_view(from, head);
    size_t row = (size_t)(position % from->memory.capacity) * view.row_bytes;
    size_t scale = (size_t)(position % from->memory.capacity) * view.scale_bytes;
    for (int d = 0; d < head_dim; d++) {
      int at = 4 * (d / view.group_size);
      k[d] = lap_load_f32(view.k_scales + scale + at) * lap_code_at(16, view.k + row, d);
      v[d] = lap_load_f32(view.v_scales + scale + at) * lap_code_at(16, view.v + row, d);
    }
    lap_cache_write(to, kernels, position, head, k, v);
  }
}

lap_status lap_cache_convert(lap_cache *cache, const lap_kernels *kernels, int bits, int group_size,
                             lap_error *error) {
  if (cache->shape.bits != 16) return lap_fail(error, LAP_ERROR_STATE, "the KV cache is quantized already");
  lap_cache converted = {.shape = cache->shape, .oldest = cache->oldest, .length = cache->oldest};
  converted.shape.bits = bits;
  converted.shape.group_size = group_size;
  converted.planes = lay_out(&converted.shape, converted.slot_bytes);
  float *row = malloc(2 * (size_t)cache->shape.head_dim * sizeof *row);
  lap_status status = row ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "out of memory to convert a KV cache");
  if (status == LAP_OK && cache->memory.capacity) status = resize(&converted, cache->memory.capacity, error);
  if (status == LAP_OK) {
    for (int64_t position = cache->oldest; position < cache->length; position++)
      convert_position(cache, &converted, kernels, position, row, row + cache->shape.head_dim);
    converted.length = cache->length;
    for (int i = 0; i < cache->planes; i++) free(cache->memory.plane[i]);
    *cache = converted;
  }
  free(row);
  return status;
}

int lap_cache_planes(const lap_cache *cache) {
  return cache->planes;
}

size_t lap_cache_plane_bytes(const lap_cache *cache, int index) {
  return cache->slot_bytes[index];
}

void lap_cache_read(const lap_cache *cache, int index, int64_t from, int64_t to, unsigned char *out) {
  const unsigned char *plane = cache->memory.plane[index];
  size_t slot_bytes = cache->slot_bytes[index];
  while (from < to) {
    int64_t slot, n = lap_cache_run(cache, from, to, &slot);
    memcpy(out, plane + (size_t)slot * slot_bytes, (size_t)n * slot_bytes);
    out += (size_t)n * slot_bytes;
    from += n;
  }
}

/* Slots that positions [oldest, length) take. */
static int64_t slots(const lap_cache *cache, int64_t oldest, int64_t length) {
  return cache->shape.window ? length - oldest : length;
}

lap_status lap_cache_load_begin(lap_cache *cache, int64_t oldest, int64_t length, lap_error *error) {
  cache->length = cache->oldest = 0;
  int64_t needed = slots(cache, oldest, length);
  lap_status status = make_room(cache, needed, cache->shape.window ? needed : INT64_MAX, error);
  if (status != LAP_OK) return status;
  cache->oldest = oldest;
  cache->length = length;
  return LAP_OK;
}

int64_t lap_cache_first_needed(const lap_cache *cache, int64_t length) {
  int64_t from = cache->shape.window ? length - cache->shape.window : 0;
  return from > cache->oldest ? from : cache->oldest;
}

lap_status lap_cache_copy(lap_cache *cache, const lap_cache *source, int64_t oldest, int64_t length,
                          lap_error *error) {
  int64_t needed = slots(cache, oldest, length);
  lap_status status = make_room(cache, needed, cache->shape.window ? needed : INT64_MAX, error);
  if (status != LAP_OK) return status;
  for (int i = 0; i < cache->planes; i++)
    copy_positions(source->memory.plane[i], source->memory.capacity, cache->memory.plane[i],
                   cache->memory.capacity, cache->slot_bytes[i], oldest, length);
  cache->oldest = oldest;
  cache->length = length;
  return LAP_OK;
}

void lap_cache_load(lap_cache *cache, int index, const unsigned char *in) {
  unsigned char *plane = cache->memory.plane[index];
  size_t slot_bytes = cache->slot_bytes[index];
  for (int64_t from = cache->oldest; from < cache->length;) {
    int64_t slot, n = lap_cache_run(cache, from, cache->length, &slot);
    memcpy(plane + (size_t)slot * slot_bytes, in, (size_t)n * slot_bytes);
    in += (size_t)n * slot_bytes;
    from += n;
  }
}
