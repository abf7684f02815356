/* prompt_cache.c: see prompt_cache.h.
 *
 * Invariant: entry_bytes + mark_bytes <= limit whenever a call returns. */
#include "engine/prompt_cache.h"

#include <stdlib.h>
#include <string.h>

enum {
  SHORT_TAIL = 8,     /* so many tokens are computed in about the time of one */
  WORTH_READING = 16, /* tokens that a file must save over what is in memory */
  WINDOWS_APART = 4,  /* marks within a prompt: at least so far from each other, */
  MARKS_WITHIN = 4    /* and no more of them for one prompt */
};

typedef struct entry {
  lap_sequence *sequence;
  int64_t used; /* when, by the cache's own clock */
  bool written; /* or tried */
} entry;

struct lap_prompt_cache {
  const lap_model *model;
  lap_prompt_store *store; /* NULL: no directory */
  size_t limit;
  size_t entry_bytes; /* without marks */
  size_t mark_bytes;
  size_t rings_bytes; /* of a mark, when the rings have wrapped; 0: there are no rings */
  int64_t apart;      /* tokens between marks within a prompt */
  int64_t clock;
  entry *entry;
  int entries;
  int capacity;
  lap_prompt_cache_stats stats;
};

/* ---- what is kept ---------------------------------------------------------------------------- */

static lap_sequence *remove_entry(lap_prompt_cache *cache, int index) {
  lap_sequence *sequence = cache->entry[index].sequence;
  cache->entry_bytes -= lap_sequence_bytes(sequence);
  cache->entries--;
  memmove(cache->entry + index, cache->entry + index + 1,
          (size_t)(cache->entries - index) * sizeof *cache->entry);
  return sequence;
}

static void evict(lap_prompt_cache *cache) {
  int oldest = 0;
  for (int i = 1; i < cache->entries; i++)
    if (cache->entry[i].used < cache->entry[oldest].used) oldest = i;
  lap_sequence_destroy(remove_entry(cache, oldest));
  cache->stats.evicted++;
}

/* Evicts until `bytes` more fit; false if they cannot. */
static bool make_room(lap_prompt_cache *cache, size_t bytes) {
  if (bytes > cache->limit) return false;
  while (cache->entry_bytes + cache->mark_bytes > cache->limit - bytes) {
    if (cache->entries == 0) return false;
    evict(cache);
  }
  return true;
}

void lap_prompt_cache_clear(lap_prompt_cache *cache) {
  while (cache->entries > 0) evict(cache);
}

/* True if `longer` serves whatever `sequence` could, or nearly so. */
static bool covers(const lap_sequence *longer, const lap_sequence *sequence) {
  int64_t length = lap_sequence_length(sequence);
  return lap_sequence_common(longer, lap_sequence_keys(sequence), length) == length &&
         lap_sequence_reach(longer, length) >= length - SHORT_TAIL;
}

/* Drops entries that `sequence` covers; true if one covers it. */
static bool is_superfluous(lap_prompt_cache *cache, const lap_sequence *sequence) {
  for (int i = cache->entries - 1; i >= 0; i--) {
    if (covers(cache->entry[i].sequence, sequence)) {
      cache->entry[i].used = ++cache->clock;
      return true;
    }
    if (covers(sequence, cache->entry[i].sequence)) lap_sequence_destroy(remove_entry(cache, i));
  }
  return false;
}

static bool has_slot(lap_prompt_cache *cache) {
  if (cache->entries < cache->capacity) return true;
  int capacity = cache->capacity ? 2 * cache->capacity : 16;
  entry *grown = realloc(cache->entry, (size_t)capacity * sizeof *grown);
  if (!grown) return false;
  cache->entry = grown;
  cache->capacity = capacity;
  return true;
}

static void keep(lap_prompt_cache *cache, lap_sequence *sequence, bool written) {
  size_t bytes = lap_sequence_bytes(sequence);
  bool fits = lap_sequence_length(sequence) > 0 && bytes <= cache->limit && !is_superfluous(cache, sequence);
  /* The sequence matters more than its marks: without them it can still be continued. */
  while (fits && !make_room(cache, bytes)) fits = lap_sequence_drop_mark(sequence);
  if (!fits || !has_slot(cache)) {
    lap_sequence_destroy(sequence);
    return;
  }
  cache->entry[cache->entries++] = (entry){sequence, ++cache->clock, written};
  cache->entry_bytes += bytes;
}

void lap_prompt_cache_put(lap_prompt_cache *cache, lap_sequence *sequence) {
  keep(cache, sequence, false);
}

bool lap_prompt_cache_write(lap_prompt_cache *cache) {
  for (int i = cache->entries - 1; cache->store && i >= 0; i--) {
    if (cache->entry[i].written) continue;
    cache->entry[i].written = true;
    lap_prompt_store_save(cache->store, cache->entry[i].sequence);
    return true;
  }
  return false;
}

/* ---- what is found --------------------------------------------------------------------------- */

typedef struct found {
  int64_t length; /* that is saved */
  int64_t common; /* that some sequence has in common, whether it can go back there or not */
  int entry;      /* where the length is found: one of the three, */
  const lap_sequence *used;
  int file; /* the others are -1 or NULL */
} found;

static bool is_better(found *best, const lap_sequence *sequence, lap_keys keys, int64_t count) {
  int64_t common = lap_sequence_common(sequence, keys, count), length = lap_sequence_reach(sequence, common);
  if (common > best->common) best->common = common;
  if (length <= best->length) return false;
  best->length = length;
  return true;
}

/* Among equal ones an entry of memory is preferred, and the one put there last. */
static found find(const lap_prompt_cache *cache, lap_keys keys, int64_t count, lap_sequence *const *used,
                  int users) {
  found best = {.entry = -1, .file = -1};
  count--; /* one token is left to compute */
  for (int i = cache->entries - 1; i >= 0; i--)
    if (is_better(&best, cache->entry[i].sequence, keys, count)) best.entry = i;
  for (int i = 0; i < users; i++)
    if (used[i] && is_better(&best, used[i], keys, count)) best.used = used[i];
  int file = -1;
  int64_t common = 0;
  int64_t length = cache->store ? lap_prompt_store_find(cache->store, keys, count, &file, &common) : 0;
  if (common > best.common) best.common = common;
  if (length >= best.length + WORTH_READING) {
    best.length = length;
    best.file = file;
  }
  return best;
}

int64_t lap_prompt_cache_look(const lap_prompt_cache *cache, lap_keys keys, int64_t count,
                              lap_sequence *const *used, int users) {
  return find(cache, keys, count, used, users).length;
}

/* Notes the places of a prompt that are worth going back to. */
static void note_places(const lap_prompt_cache *cache, lap_sequence *sequence, const found *best,
                        int64_t count) {
  if (cache->limit == 0 || cache->rings_bytes == 0) return;
  int64_t apart = count / (MARKS_WITHIN + 1) + 1;
  if (apart < cache->apart) apart = cache->apart;
  for (int64_t position = apart; position < count; position += apart)
    if (position > best->length) lap_sequence_want(sequence, position);
  if (best->common > best->length) lap_sequence_want(sequence, best->common);
  lap_sequence_want(sequence, count);
}

/* Takes a sequence that is the caller's back to `length`; it is destroyed on failure. */
static lap_status rewind_to(lap_sequence *sequence, int64_t length, lap_sequence **out, lap_error *error) {
  lap_status status = lap_sequence_rewind(sequence, length, error);
  if (status == LAP_OK)
    *out = sequence;
  else
    lap_sequence_destroy(sequence);
  return status;
}

/* NULL and LAP_OK if the file proves useless. */
static lap_status read_file(lap_prompt_cache *cache, const found *best, lap_sequence **out,
                            lap_error *error) {
  lap_sequence *loaded = lap_prompt_store_load(cache->store, best->file, &cache->mark_bytes);
  if (!loaded) return LAP_OK;
  cache->stats.loaded++;
  if (lap_sequence_length(loaded) - best->length <= SHORT_TAIL)
    return rewind_to(loaded, best->length, out, error);
  lap_status status = lap_sequence_copy(loaded, best->length, out, error);
  keep(cache, loaded, true);
  return status;
}

/* Moves, copies or reads what was found; NULL and LAP_OK if a file proves useless. */
static lap_status fetch(lap_prompt_cache *cache, const found *best, lap_sequence **out, lap_error *error) {
  *out = NULL;
  if (best->length == 0) return lap_sequence_create(cache->model->bound, false, out, error);
  if (best->file >= 0) return read_file(cache, best, out, error);
  const lap_sequence *source = best->used ? best->used : cache->entry[best->entry].sequence;
  if (best->used || lap_sequence_length(source) - best->length > SHORT_TAIL) {
    cache->stats.copied++;
    return lap_sequence_copy(source, best->length, out, error);
  }
  cache->stats.moved++;
  return rewind_to(remove_entry(cache, best->entry), best->length, out, error);
}

lap_status lap_prompt_cache_take(lap_prompt_cache *cache, lap_keys keys, int64_t count,
                                 lap_sequence *const *used, int users, lap_sequence **out, lap_error *error) {
  found best;
  lap_status status;
  do { /* again where a file was found and is of no use: it is not found a second time */
    best = find(cache, keys, count, used, users);
    status = fetch(cache, &best, out, error);
  } while (status == LAP_OK && !*out);
  if (status != LAP_OK) { /* memory: give up what is kept, and start from nothing */
    lap_prompt_cache_clear(cache);
    best.length = 0;
    status = lap_sequence_create(cache->model->bound, false, out, error);
  }
  if (status != LAP_OK) return status;
  while (!make_room(cache, 0) && lap_sequence_drop_mark(*out)) continue; /* a file may have brought many */
  cache->stats.requests++;
  cache->stats.hits += best.length > 0;
  cache->stats.hit_tokens += best.length;
  note_places(cache, *out, &best, count);
  return LAP_OK;
}

lap_status lap_prompt_cache_reserve(lap_prompt_cache *cache, lap_sequence *sequence, lap_keys next,
                                    int64_t count, lap_error *error) {
  lap_status status = lap_sequence_reserve(sequence, next, count, error);
  if (status == LAP_ERROR_MEMORY && cache->entries > 0) {
    lap_prompt_cache_clear(cache);
    status = lap_sequence_reserve(sequence, next, count, error);
  }
  if (status != LAP_OK) return status;
  for (int64_t position; (position = lap_sequence_take_due(sequence, count)) >= 0;)
    if (make_room(cache, cache->rings_bytes)) /* without room or memory the place is given up */
      lap_sequence_mark(sequence, position, &cache->mark_bytes, NULL);
  return LAP_OK;
}

/* ---- the cache itself ------------------------------------------------------------------------ */

/* How far apart marks within a prompt stand: they must not cost more than the caches that grow. */
static void measure(lap_prompt_cache *cache, const lap_kv *kv) {
  int64_t window = 0;
  for (int i = 0; i < kv->caches; i++)
    if (lap_cache_get_shape(kv->cache[i])->window > window)
      window = lap_cache_get_shape(kv->cache[i])->window;
  size_t growth = lap_kv_growth_bytes(kv);
  cache->rings_bytes = lap_kv_rings_bytes(kv);
  cache->apart = WINDOWS_APART * window;
  if (growth && (int64_t)(cache->rings_bytes / growth) > cache->apart)
    cache->apart = (int64_t)(cache->rings_bytes / growth);
}

lap_status lap_prompt_cache_create(lap_model *model, size_t bytes, const char *directory,
                                   uint64_t directory_bytes, lap_prompt_cache **out, lap_error *error) {
  *out = NULL;
  lap_prompt_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompt cache");
  cache->model = model;
  cache->limit = bytes;
  lap_kv *kv = NULL;
  lap_status status = lap_kv_create(model->bound, false, &kv, error);
  if (status == LAP_OK) measure(cache, kv);
  lap_kv_destroy(kv);
  if (status == LAP_OK && directory)
    status = lap_prompt_store_open(model, directory, directory_bytes, &cache->store, error);
  if (status != LAP_OK) {
    lap_prompt_cache_destroy(cache);
    return status;
  }
  *out = cache;
  return LAP_OK;
}

void lap_prompt_cache_destroy(lap_prompt_cache *cache) {
  if (!cache) return;
  while (lap_prompt_cache_write(cache)) continue;
  lap_prompt_cache_clear(cache);
  lap_prompt_store_close(cache->store);
  free(cache->entry);
  free(cache);
}

lap_prompt_cache_stats lap_prompt_cache_get_stats(const lap_prompt_cache *cache) {
  lap_prompt_cache_stats stats = cache->stats;
  stats.entries = cache->entries;
  stats.bytes = cache->entry_bytes + cache->mark_bytes;
  if (cache->store) stats.store = lap_prompt_store_stats(cache->store);
  return stats;
}
