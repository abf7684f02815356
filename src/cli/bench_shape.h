/* bench_shape.h: a checkpoint of random weights that lives as long as a measurement. */
#ifndef LAP_CLI_BENCH_SHAPE_H
#define LAP_CLI_BENCH_SHAPE_H

#include <limits.h>

#include "base/error.h"

/* Empty names: nothing is there. */
typedef struct lap_bench_shape {
  char parent[PATH_MAX];     /* a new directory, and */
  char checkpoint[PATH_MAX]; /* the one in it that holds the checkpoint; named after the shape */
} lap_bench_shape;

/* Forges `shape`, a name or a config.json (configs.h), below the directory `place` (NULL: $TMPDIR, else
 * /tmp), if the disk has room for it. To be removed with lap_bench_shape_remove, also after an error. Errors:
 * those of lap_find_config and lap_forge; IO (no room, no directory), STATE when interrupted. */
lap_status lap_bench_shape_make(const char *shape, const char *place, lap_bench_shape *out, lap_error *error);
void lap_bench_shape_remove(const lap_bench_shape *shape);

#endif
