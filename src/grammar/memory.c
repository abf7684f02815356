/* memory.c: chunks of 64 KiB, or of what is asked for where that is more. */
#include "grammar/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
  CHUNK_BYTES = 64 << 10,
  ALIGNMENT = 16
};

struct lap_arena_chunk {
  lap_arena_chunk *next;
  size_t used, capacity;
  _Alignas(ALIGNMENT) unsigned char data[];
};

bool lap_reserve(void *array, size_t count, size_t *capacity, size_t size) {
  if (count <= *capacity) return true;
  size_t larger = 2 * *capacity > count ? 2 * *capacity : count;
  void *old;
  memcpy(&old, array, sizeof old);
  void *grown = larger > (size_t)-1 / size ? NULL : realloc(old, larger * size);
  if (!grown) return false;
  memcpy(array, &grown, sizeof grown);
  *capacity = larger;
  return true;
}

static lap_arena_chunk *add_chunk(lap_arena *arena, size_t bytes) {
  size_t capacity = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  lap_arena_chunk *chunk = calloc(1, sizeof *chunk + capacity);
  if (!chunk) return NULL;
  chunk->capacity = capacity;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  return chunk;
}

void *lap_arena_take(lap_arena *arena, size_t bytes) {
  if (arena->failed || bytes > arena->limit - arena->taken) {
    arena->failed = true;
    return NULL;
  }
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  lap_arena_chunk *chunk = arena->chunks;
  if (!chunk || chunk->capacity - chunk->used < bytes) chunk = add_chunk(arena, bytes);
  if (!chunk) {
    arena->failed = true;
    return NULL;
  }
  void *taken = chunk->data + chunk->used;
  chunk->used += bytes;
  arena->taken += bytes < arena->limit - arena->taken ? bytes : arena->limit - arena->taken;
  return taken;
}

void lap_arena_free(lap_arena *arena) {
  for (lap_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  *arena = (lap_arena){.limit = arena->limit};
}
