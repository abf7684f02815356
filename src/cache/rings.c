/* rings.c: copies of rings, and sequences that go back by them. */
#include "cache/rings.h"

#include <stdlib.h>

static bool is_ring(const lap_cache *cache) {
  return lap_cache_get_shape(cache)->window > 0;
}

int64_t lap_reach_back(lap_reach reach, int64_t wanted) {
  if (wanted >= reach.length) return reach.length;
  return wanted >= reach.lowest ? wanted : -1;
}

lap_reach lap_kv_reach(const lap_kv *kv, int64_t count) {
  lap_reach reach = {.length = lap_kv_length(kv) + count};
  for (int i = 0; i < kv->caches; i++) {
    int64_t lowest = lap_cache_lowest(kv->cache[i], count);
    if (lowest > reach.lowest) reach.lowest = lowest;
  }
  return reach;
}

static lap_status not_served(lap_reach reach, int64_t length, lap_error *error) {
  return lap_fail(error, LAP_ERROR_STATE,
                  "cannot go back to %lld tokens: the rings serve %lld, and from %lld on", (long long)length,
                  (long long)reach.length, (long long)reach.lowest);
}

/* ---- copies ---------------------------------------------------------------------------------- */

lap_status lap_rings_create_empty(const lap_kv *kv, lap_reach reach, lap_rings **out, lap_error *error) {
  *out = NULL;
  lap_rings *rings = calloc(1, sizeof *rings);
  if (rings) rings->cache = calloc((size_t)kv->caches, sizeof(lap_cache *));
  if (!rings || !rings->cache) {
    free(rings);
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a copy of the rings");
  }
  rings->caches = kv->caches;
  rings->reach = reach;
  for (int i = 0; i < kv->caches; i++) {
    if (!is_ring(kv->cache[i])) continue;
    lap_status status = lap_cache_create(lap_cache_get_device(kv->cache[i]),
                                         lap_cache_get_shape(kv->cache[i]), &rings->cache[i], error);
    if (status != LAP_OK) {
      lap_rings_destroy(rings);
      return status;
    }
  }
  *out = rings;
  return LAP_OK;
}

lap_status lap_rings_create(const lap_kv *kv, int64_t length, lap_rings **out, lap_error *error) {
  *out = NULL;
  lap_reach reach = lap_kv_reach(kv, 0);
  if (lap_reach_back(reach, length) != length) return not_served(reach, length, error);
  lap_rings *rings;
  lap_status status = lap_rings_create_empty(kv, (lap_reach){.length = length}, &rings, error);
  for (int i = 0; status == LAP_OK && i < kv->caches; i++) {
    if (!rings->cache[i]) continue;
    status = lap_cache_copy(rings->cache[i], kv->cache[i], lap_cache_first_needed(kv->cache[i], length),
                            length, error);
    int64_t lowest = lap_cache_lowest(rings->cache[i], 0);
    if (lowest > rings->reach.lowest) rings->reach.lowest = lowest;
  }
  if (status != LAP_OK) {
    lap_rings_destroy(rings);
    return status;
  }
  *out = rings;
  return LAP_OK;
}

void lap_rings_destroy(lap_rings *rings) {
  if (!rings) return;
  for (int i = 0; i < rings->caches; i++) lap_cache_destroy(rings->cache[i]);
  free(rings->cache);
  free(rings);
}

size_t lap_rings_bytes(const lap_rings *rings) {
  size_t bytes = 0;
  for (int i = 0; i < rings->caches; i++)
    if (rings->cache[i]) bytes += lap_cache_bytes(rings->cache[i]);
  return bytes;
}

/* ---- going back ------------------------------------------------------------------------------ */

/* The error, or LAP_OK if a sequence `kv` can go back to `length` by `rings`. */
static lap_status check(const lap_kv *kv, const lap_rings *rings, int64_t length, lap_error *error) {
  lap_reach reach = rings ? rings->reach : lap_kv_reach(kv, 0);
  if (length < 0 || length > lap_kv_length(kv) || lap_reach_back(reach, length) != length)
    return not_served(reach, length, error);
  return LAP_OK;
}

lap_status lap_kv_rewind(lap_kv *kv, const lap_rings *rings, int64_t length, lap_error *error) {
  lap_status status = check(kv, rings, length, error);
  if (status != LAP_OK) return status;
  if (!rings) return lap_kv_trim(kv, length, error);
  /* What can fail comes first: a ring that is replaced has room for the copy, or is given it now. */
  lap_kv *fresh;
  status = lap_kv_create(kv->bound, kv->plain_until_converted, &fresh, error);
  for (int i = 0; status == LAP_OK && i < kv->caches; i++)
    if (rings->cache[i])
      status = lap_cache_copy(fresh->cache[i], rings->cache[i],
                              lap_cache_first_needed(rings->cache[i], length), length, error);
  for (int i = 0; status == LAP_OK && i < kv->caches; i++) {
    if (rings->cache[i]) {
      lap_cache *replaced = kv->cache[i];
      kv->cache[i] = fresh->cache[i];
      fresh->cache[i] = replaced;
    } else {
      status = lap_cache_trim(kv->cache[i], length, error);
    }
  }
  lap_kv_destroy(fresh);
  return status;
}

lap_status lap_kv_copy(const lap_kv *kv, const lap_rings *rings, int64_t length, lap_kv **out,
                       lap_error *error) {
  *out = NULL;
  lap_status status = check(kv, rings, length, error);
  lap_kv *copy = NULL;
  if (status == LAP_OK) status = lap_kv_create(kv->bound, kv->plain_until_converted, &copy, error);
  for (int i = 0; status == LAP_OK && i < kv->caches; i++) {
    const lap_cache *source = rings && rings->cache[i] ? rings->cache[i] : kv->cache[i];
    status = lap_cache_copy(copy->cache[i], source, lap_cache_first_needed(source, length), length, error);
  }
  if (status != LAP_OK) {
    lap_kv_destroy(copy);
    return status;
  }
  *out = copy;
  return LAP_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

size_t lap_kv_most_bytes(const lap_kv *kv, int64_t length, int64_t count) {
  size_t bytes = 0;
  for (int i = 0; i < kv->caches; i++)
    bytes += lap_cache_most_bytes(lap_cache_get_shape(kv->cache[i]), length, count);
  return bytes;
}

size_t lap_kv_rings_bytes(const lap_kv *kv) {
  size_t bytes = 0;
  for (int i = 0; i < kv->caches; i++) {
    const lap_cache_shape *shape = lap_cache_get_shape(kv->cache[i]);
    bytes += (size_t)shape->window * lap_cache_position_bytes(shape);
  }
  return bytes;
}

size_t lap_kv_growth_bytes(const lap_kv *kv) {
  size_t bytes = 0;
  for (int i = 0; i < kv->caches; i++)
    if (!is_ring(kv->cache[i])) bytes += lap_cache_position_bytes(lap_cache_get_shape(kv->cache[i]));
  return bytes;
}
