/* memory.c: /proc/meminfo and the control groups, read as text; and huge pages.
 *
 * A group's limit binds all groups below it, so every group on the way up to the root is asked. In a
 * container the path that /proc/self/cgroup names may not be there, because only the container's own part is
 * mounted: what cannot be read does not limit. */
#include "base/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* One version's names, below the directory of a group. */
typedef struct group_files {
  const char *mount;
  const char *limit, *usage;
  const char *inactive, *active; /* fields of memory.stat: pages of files, which can be dropped */
} group_files;

static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
static const group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
                                      "active_file"};

/* The number behind `field` (and ':' or spaces) at the start of a line; with an empty field, of the first
 * line. False if there is none ("max" is none). */
static bool read_number(const char *path, const char *field, uint64_t *value) {
  char line[256];
  size_t length = strlen(field);
  bool found = false;
  FILE *file = fopen(path, "r");
  while (file && !found && fgets(line, sizeof line, file)) {
    const char *number = line + length;
    if (strncmp(line, field, length) != 0 || (length && !strchr(": ", *number))) continue;
    number += strspn(number, ": ");
    found = *number >= '0' && *number <= '9';
    if (found) *value = strtoull(number, NULL, 10);
    if (!length) break;
  }
  if (file) fclose(file);
  return found;
}

static bool read_of_group(const char *group, const char *name, const char *field, uint64_t *value) {
  char path[PATH_MAX];
  return snprintf(path, sizeof path, "%s/%s", group, name) < (int)sizeof path &&
         read_number(path, field, value);
}

/* Lowers `*available` to what the group leaves. */
static void apply_group(const group_files *files, const char *group, uint64_t *available) {
  uint64_t limit, usage = 0, inactive = 0, active = 0;
  if (!read_of_group(group, files->limit, "", &limit)) return;
  read_of_group(group, files->usage, "", &usage);
  read_of_group(group, "memory.stat", files->inactive, &inactive);
  read_of_group(group, "memory.stat", files->active, &active);
  uint64_t kept = usage > inactive + active ? usage - inactive - active : 0;
  uint64_t left = limit > kept ? limit - kept : 0;
  if (left < *available) *available = left;
}

static void apply_groups(const char *root, const group_files *files, const char *group, uint64_t *available) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s%s", root, files->mount);
  size_t top = (size_t)length;
  if (length < 0 || top + strlen(group) >= sizeof path) return;
  memcpy(path + top, group, strlen(group) + 1);
  for (;;) {
    char *slash = strrchr(path + top, '/');
    apply_group(files, path, available);
    if (!slash) return;
    *slash = '\0';
  }
}

/* "memory" is one of the controllers between commas. */
static bool has_memory(const char *controllers, size_t length) {
  while (length) {
    const char *comma = memchr(controllers, ',', length);
    size_t name = comma ? (size_t)(comma - controllers) : length;
    if (name == strlen("memory") && memcmp(controllers, "memory", name) == 0) return true;
    if (!comma) return false;
    controllers = comma + 1;
    length -= name + 1;
  }
  return false;
}

/* A line of /proc/self/cgroup: NUMBER:CONTROLLERS:/GROUP; version 2 has no controllers. */
static void apply_line(const char *root, char *line, uint64_t *available) {
  const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
  if (!second) return;
  line[strcspn(line, "\n")] = '\0';
  if (second == first + 1)
    apply_groups(root, &version_2, second + 1, available);
  else if (has_memory(first + 1, (size_t)(second - first - 1)))
    apply_groups(root, &version_1, second + 1, available);
}

uint64_t lap_available_memory(const char *root) {
  char path[PATH_MAX], line[PATH_MAX];
  uint64_t kilobytes;
  if (snprintf(path, sizeof path, "%s/proc/meminfo", root) >= (int)sizeof path ||
      !read_number(path, "MemAvailable", &kilobytes))
    return 0;
  uint64_t available = kilobytes * 1024;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) apply_line(root, line, &available);
  if (file) fclose(file);
  return available;
}

enum {
  HUGE_PAGE = 2 << 20
};

void *lap_large_alloc(size_t bytes) {
  if (bytes < HUGE_PAGE || bytes > SIZE_MAX - HUGE_PAGE) return malloc(bytes);
  bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  void *memory = aligned_alloc(HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
  if (memory) madvise(memory, bytes, MADV_HUGEPAGE); /* refused, it is memory all the same */
#endif
  return memory;
}

const char *lap_bytes_text(uint64_t bytes, char text[LAP_BYTES_TEXT]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  snprintf(text, LAP_BYTES_TEXT, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}
