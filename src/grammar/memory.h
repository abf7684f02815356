/* memory.h: arrays that grow, and an arena for what lives as long as a compilation. */
#ifndef LAP_GRAMMAR_MEMORY_H
#define LAP_GRAMMAR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes the array whose pointer stands at `array` (a `T **`) hold `count` elements of `size` bytes, at least
 * doubling it. False: out of memory, and nothing has changed. */
bool lap_reserve(void *array, size_t count, size_t *capacity, size_t size);

typedef struct lap_arena_chunk lap_arena_chunk;

/* Starts with a limit and zeros. What is taken stays until all of it is freed. */
typedef struct lap_arena {
  size_t limit; /* bytes that may be taken in all */
  size_t taken;
  bool failed; /* the system had no memory, or the limit was reached; then nothing more is given */
  lap_arena_chunk *chunks;
} lap_arena;

/* `bytes` zeroed bytes, aligned for any type; NULL if the arena has failed. */
void *lap_arena_take(lap_arena *arena, size_t bytes);
void lap_arena_free(lap_arena *arena);

#endif
