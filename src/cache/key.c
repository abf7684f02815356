/* key.c: see key.h. */
#include "cache/key.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

static const lap_origin no_origin = {0};

static_assert(sizeof(lap_origin) == LAP_CONTENT_HASH_BYTES + 16, "compared and hashed as bytes: no padding");

static bool is_same(const lap_origin *a, const lap_origin *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

static const lap_origin *origin_at(lap_keys keys, int64_t position) {
  return keys.origins ? &keys.origins[position] : &no_origin;
}

const lap_origin *lap_origins_unless_zero(const lap_origin *origins, int64_t count) {
  for (int64_t i = 0; origins && i < count; i++)
    if (!is_same(&origins[i], &no_origin)) return origins;
  return NULL;
}

bool lap_origin_is_valid(const lap_origin *origin) {
  if (memcmp(origin->content, no_origin.content, sizeof origin->content) == 0) return origin->index == 0;
  return origin->index >= 0;
}

int64_t lap_keys_common(lap_keys a, lap_keys b, int64_t count) {
  int64_t ids = 0, n = 0;
  while (ids < count && a.ids[ids] == b.ids[ids]) ids++;
  if (!a.origins && !b.origins) return ids;
  while (n < ids && is_same(origin_at(a, n), origin_at(b, n))) n++;
  return n;
}
