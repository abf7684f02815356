/* memory.h: how much memory a program may still take. */
#ifndef LAP_BASE_MEMORY_H
#define LAP_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that can still be had without swapping, file pages that would make room counted as free: what the
 * kernel says is available, but not more than any control group (version 1 or 2) leaves that this process is
 * in. `root` is what stands before /proc and /sys: "", or for tests a directory. 0 if the system does not
 * tell. */
uint64_t lap_available_memory(const char *root);

#endif
