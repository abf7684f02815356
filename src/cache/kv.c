/* kv.c: a set of caches that moves as one. Snapshots stand in snapshot.c. */
#include "cache/kv.h"

#include <stdlib.h>

lap_cache_shape lap_kv_shape(const lap_layer *layer, bool plain) {
  plain = plain || layer->kv_bits == 0;
  return (lap_cache_shape){
      .kv_heads = layer->kv_heads,
      .head_dim = layer->head_dim,
      .window = layer->window,
      .bits = plain ? LAP_PLAIN_BITS : layer->kv_bits,
      .group_size = plain ? lap_plain_group(layer->head_dim) : layer->kv_group_size,
  };
}

lap_status lap_kv_create(const lap_bound *bound, bool plain_start, lap_kv **out, lap_error *error) {
  const lap_plan *plan = bound->plan;
  *out = NULL;
  lap_kv *kv = calloc(1, sizeof *kv);
  if (kv) kv->cache = calloc((size_t)plan->caches, sizeof(lap_cache *));
  if (!kv || !kv->cache) {
    free(kv);
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the KV caches");
  }
  kv->caches = plan->caches;
  kv->bound = bound;
  kv->plain_until_converted = plain_start;
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    lap_cache_shape shape = lap_kv_shape(layer, plain_start);
    lap_status status = lap_cache_create(bound->device, &shape, &kv->cache[layer->cache], error);
    if (status != LAP_OK) {
      lap_kv_destroy(kv);
      return status;
    }
  }
  *out = kv;
  return LAP_OK;
}

void lap_kv_destroy(lap_kv *kv) {
  if (!kv) return;
  for (int i = 0; i < kv->caches; i++) lap_cache_destroy(kv->cache[i]);
  free(kv->cache);
  free(kv);
}

int64_t lap_kv_length(const lap_kv *kv) {
  return lap_cache_length(kv->cache[0]);
}

size_t lap_kv_bytes(const lap_kv *kv) {
  size_t bytes = 0;
  for (int i = 0; i < kv->caches; i++) bytes += lap_cache_bytes(kv->cache[i]);
  return bytes;
}

void lap_kv_foresee(const lap_plan *plan, lap_kv_forecast *forecast, int64_t count) {
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    const lap_cache_shape shape = lap_kv_shape(layer, false);
    const uint64_t position_bytes = lap_cache_position_bytes(&shape);
    int64_t *held = &forecast->capacity[layer->cache];
    int64_t capacity = lap_cache_capacity_for(&shape, *held, forecast->length, count);
    if (capacity == *held) continue;
    uint64_t both = forecast->bytes + (uint64_t)capacity * position_bytes;
    if (both > forecast->peak_bytes) forecast->peak_bytes = both;
    forecast->bytes = both - (uint64_t)*held * position_bytes;
    *held = capacity;
  }
  forecast->length += count;
}

lap_status lap_kv_reserve(lap_kv *kv, int64_t count, lap_error *error) {
  for (int i = 0; i < kv->caches; i++) {
    lap_status status = lap_cache_reserve(kv->cache[i], count, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

void lap_kv_commit(lap_kv *kv, int64_t count) {
  for (int i = 0; i < kv->caches; i++) lap_cache_commit(kv->cache[i], count);
}

bool lap_kv_can_trim(const lap_kv *kv, int64_t length) {
  for (int i = 0; i < kv->caches; i++)
    if (!lap_cache_can_trim(kv->cache[i], length)) return false;
  return true;
}

lap_status lap_kv_trim(lap_kv *kv, int64_t length, lap_error *error) {
  bool possible = lap_kv_can_trim(kv, length);
  for (int i = 0; i < kv->caches; i++) {
    if (!possible && lap_cache_can_trim(kv->cache[i], length)) continue;
    lap_status status = lap_cache_trim(kv->cache[i], length, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

lap_status lap_kv_convert(lap_kv *kv, lap_error *error) {
  if (!kv->plain_until_converted) return LAP_OK;
  const lap_plan *plan = kv->bound->plan;
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer || layer->kv_bits == 0) continue;
    lap_cache *cache = kv->cache[layer->cache];
    if (lap_cache_get_shape(cache)->bits != LAP_PLAIN_BITS)
      continue; /* converted before an earlier failure */
    lap_status status = lap_cache_convert(cache, layer->kv_bits, layer->kv_group_size, error);
    if (status != LAP_OK) return status;
  }
  kv->plain_until_converted = false;
  return LAP_OK;
}
