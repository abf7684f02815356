/* mask_cache.c: a hash table of lists under one lock; the clock algorithm drops entries.
 *
 * The lock is held for look-ups only; entries do not change once they are in, and those in use stay. */
#include "grammar/mask_cache.h"

#include <pthread.h>
#include <stdlib.h>

enum {
  BUCKETS = 1 << 10
};

struct lap_mask_cache {
  pthread_mutex_t lock;
  size_t bytes, max_bytes;
  size_t hand; /* the bucket to consider next */
  lap_mask_entry *buckets[BUCKETS];
};

lap_status lap_mask_cache_create(size_t max_bytes, lap_mask_cache **out, lap_error *error) {
  lap_mask_cache *cache = calloc(1, sizeof *cache);
  if (cache && pthread_mutex_init(&cache->lock, NULL) != 0) {
    free(cache);
    cache = NULL;
  }
  *out = cache;
  if (!cache) return lap_fail(error, LAP_ERROR_MEMORY, "grammar: out of memory");
  cache->max_bytes = max_bytes;
  return LAP_OK;
}

void lap_mask_entry_free(lap_mask_entry *entry) {
  if (!entry) return;
  free(entry->bits);
  free(entry->ids);
  free(entry->exits);
  free(entry);
}

void lap_mask_cache_destroy(lap_mask_cache *cache) {
  if (!cache) return;
  for (size_t i = 0; i < BUCKETS; i++) {
    for (lap_mask_entry *entry = cache->buckets[i], *next; entry; entry = next) {
      next = entry->next;
      lap_mask_entry_free(entry);
    }
  }
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

static lap_mask_entry **bucket_of(lap_mask_cache *cache, uint64_t key) {
  return &cache->buckets[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

/* With the lock held. */
static lap_mask_entry *find(lap_mask_cache *cache, uint64_t key) {
  lap_mask_entry *entry = *bucket_of(cache, key);
  while (entry && entry->key != key) entry = entry->next;
  if (!entry) return NULL;
  entry->users++;
  entry->used = true;
  return entry;
}

lap_mask_entry *lap_mask_cache_find(lap_mask_cache *cache, uint64_t key) {
  pthread_mutex_lock(&cache->lock);
  lap_mask_entry *entry = find(cache, key);
  pthread_mutex_unlock(&cache->lock);
  return entry;
}

/* Drops from one bucket what nobody uses and nobody has used since the hand was here last. */
static void sweep(lap_mask_cache *cache, lap_mask_entry **link) {
  while (*link) {
    lap_mask_entry *entry = *link;
    if (entry->users > 0 || entry->used) {
      entry->used = false;
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    cache->bytes -= entry->bytes;
    lap_mask_entry_free(entry);
  }
}

lap_mask_entry *lap_mask_cache_enter(lap_mask_cache *cache, lap_mask_entry *entry) {
  pthread_mutex_lock(&cache->lock);
  lap_mask_entry *there = find(cache, entry->key);
  if (there) {
    lap_mask_entry_free(entry);
  } else {
    /* Twice around: the first time only takes the marks away. What is in use may stay above the limit. */
    for (int turns = 2 * BUCKETS; turns > 0 && cache->bytes + entry->bytes > cache->max_bytes; turns--)
      sweep(cache, &cache->buckets[cache->hand++ % BUCKETS]);
    lap_mask_entry **bucket = bucket_of(cache, entry->key);
    entry->next = *bucket;
    entry->users = 1;
    entry->used = true;
    *bucket = entry;
    cache->bytes += entry->bytes;
    there = entry;
  }
  pthread_mutex_unlock(&cache->lock);
  return there;
}

void lap_mask_cache_release(lap_mask_cache *cache, lap_mask_entry *entry) {
  pthread_mutex_lock(&cache->lock);
  entry->users--;
  pthread_mutex_unlock(&cache->lock);
}

size_t lap_mask_cache_bytes(lap_mask_cache *cache) {
  pthread_mutex_lock(&cache->lock);
  size_t bytes = cache->bytes;
  pthread_mutex_unlock(&cache->lock);
  return bytes;
}
