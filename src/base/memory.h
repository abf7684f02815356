/* memory.h: how much memory a program may still take, large pieces of it, and sizes in words. */
#ifndef LAP_BASE_MEMORY_H
#define LAP_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that can still be had without swapping, file pages that would make room counted as free: what the
 * kernel says is available, but not more than any control group (version 1 or 2) leaves that this process is
 * in. `root` is what stands before /proc and /sys: "", or for tests a directory. 0 if the system does not
 * tell. */
uint64_t lap_available_memory(const char *root);

/* Like malloc, to be freed with free; asks for huge pages where the size is worth one: fewer page faults, and
 * fewer misses of the translation buffer where it is read at random. */
void *lap_large_alloc(size_t bytes);

enum {
  LAP_BYTES_TEXT = 48
};

/* Writes a number of bytes for people, as "2.43 GiB"; returns `text`. */
const char *lap_bytes_text(uint64_t bytes, char text[LAP_BYTES_TEXT]);

#endif
