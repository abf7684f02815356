/* shape.c: forged into a new directory, and removed with it.
 *
 * Invariant: whatever is made is recorded in the lap_bench_shape first, so that removing it leaves nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "bench/bench.h"

/* Beside the weights: the header, the configuration, and what the file system keeps to itself. */
static const uint64_t BESIDE_WEIGHTS = 64 << 20;

/* Enough to refuse early; a disk that fills up meanwhile is an error of the forge. */
static lap_status check_room(const char *place, const lap_forge_options *options, lap_error *error) {
  char needed_text[LAP_BYTES_TEXT], free_text[LAP_BYTES_TEXT];
  struct statvfs disk;
  lap_plan *plan;
  lap_status status = lap_forge_plan(options, LAP_KV_PLAIN, &plan, error);
  if (status != LAP_OK) return status;
  uint64_t needed = lap_plan_measure(plan).weights + BESIDE_WEIGHTS;
  lap_plan_free(plan);
  if (statvfs(place, &disk) != 0) return lap_fail(error, LAP_ERROR_IO, "%s: %s", place, strerror(errno));
  uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize;
  if (room >= needed) return LAP_OK;
  return lap_fail(error, LAP_ERROR_IO, "%s: %s are needed for the checkpoint, %s are free", place,
                  lap_bytes_text(needed, needed_text), lap_bytes_text(room, free_text));
}

/* The shape's name: the last part of a path, without .json. */
static lap_status name_checkpoint(const char *shape, lap_bench_shape *out, lap_error *error) {
  const char *slash = strrchr(shape, '/'), *name = slash ? slash + 1 : shape, *dot = strrchr(name, '.');
  int length = (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
  int written = snprintf(out->checkpoint, sizeof out->checkpoint, "%s/%.*s", out->parent, length, name);
  if (written < (int)sizeof out->checkpoint) return LAP_OK;
  out->checkpoint[0] = '\0';
  return lap_fail(error, LAP_ERROR_ARGUMENT, "--shape: the path is too long");
}

static lap_status make_parent(const char *place, lap_bench_shape *out, lap_error *error) {
  if (snprintf(out->parent, sizeof out->parent, "%s/lapidary-shape-XXXXXX", place) <
          (int)sizeof out->parent &&
      mkdtemp(out->parent))
    return LAP_OK;
  out->parent[0] = '\0';
  return lap_fail(error, LAP_ERROR_IO, "%s: no directory can be made here: %s", place, strerror(errno));
}

lap_status lap_bench_shape_make(const char *name, const lap_forge_options *options, const char *place,
                                lap_bench_shape *out, lap_error *error) {
  lap_forge_result result;
  *out = (lap_bench_shape){0};
  if (!place) place = getenv("TMPDIR");
  if (!place || !*place) place = "/tmp";
  lap_status status = check_room(place, options, error);
  if (status == LAP_OK) status = make_parent(place, out, error);
  if (status == LAP_OK) status = name_checkpoint(name, out, error);
  return status == LAP_OK ? lap_forge(out->checkpoint, options, &result, error) : status;
}

void lap_bench_shape_remove(const lap_bench_shape *shape) {
  DIR *directory = *shape->checkpoint ? opendir(shape->checkpoint) : NULL;
  if (directory) {
    for (const struct dirent *entry; (entry = readdir(directory));)
      unlinkat(dirfd(directory), entry->d_name, 0); /* of . and .. it is refused */
    closedir(directory);
    rmdir(shape->checkpoint);
  }
  if (*shape->parent) rmdir(shape->parent);
}
