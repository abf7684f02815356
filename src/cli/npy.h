/* npy.h: a NumPy file of float32 rows, written as they come.
 *
 * Invariant: PATH is either what it was before or the whole array. Rows go to a file beside it, which
 * takes its name at the end; only what is no regular file (a pipe, /dev/null, "-" for stdout) is
 * written in place. */
#ifndef LAP_CLI_NPY_H
#define LAP_CLI_NPY_H

#include <stdio.h>

#include "base/error.h"

typedef struct lap_npy {
  FILE *file;
  const char *path; /* the caller's */
  char *temporary;  /* NULL if written in place */
} lap_npy;

/* Begins an array [rows, columns], NumPy format 1.0, '<f4', C order. Errors: IO, MEMORY. */
lap_status lap_npy_begin(const char *path, int64_t rows, int64_t columns, lap_npy *npy, lap_error *error);

/* Appends `count` values. Errors: IO. */
lap_status lap_npy_write(lap_npy *npy, const float *values, size_t count, lap_error *error);

/* Ends it: with `keep` the file gets its name, else it is removed. Errors: IO. */
lap_status lap_npy_end(lap_npy *npy, bool keep, lap_error *error);

#endif
