/* npy.c: NumPy format 1.0: magic, version, length of the header, a Python dict padded to 64, data. */
#include "cli/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  PREFIX_BYTES = 10,
  HEADER_BYTES = 128
};

static bool in_place(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static lap_status fail_io(const char *path, lap_error *error) {
  return lap_fail(error, LAP_ERROR_IO, "%s: %s", strcmp(path, "-") == 0 ? "standard output" : path,
                  strerror(errno));
}

static lap_status open_beside(lap_npy *npy, lap_error *error) {
  size_t bytes = strlen(npy->path) + 32;
  npy->temporary = malloc(bytes);
  if (!npy->temporary) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", npy->path);
  snprintf(npy->temporary, bytes, "%s.%ld.tmp", npy->path, (long)getpid());
  int descriptor = open(npy->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  npy->file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
  if (npy->file) return LAP_OK;
  lap_status status = fail_io(npy->temporary, error);
  if (descriptor >= 0) {
    close(descriptor);
    unlink(npy->temporary);
  }
  free(npy->temporary);
  npy->temporary = NULL;
  return status;
}

static lap_status open_for(lap_npy *npy, lap_error *error) {
  if (strcmp(npy->path, "-") == 0) {
    npy->file = stdout;
    return LAP_OK;
  }
  if (!in_place(npy->path)) return open_beside(npy, error);
  npy->file = fopen(npy->path, "wb");
  return npy->file ? LAP_OK : fail_io(npy->path, error);
}

/* The largest shape (two numbers of 19 digits) fits in HEADER_BYTES. */
static void make_header(int64_t rows, int64_t columns, char header[HEADER_BYTES + 1]) {
  static const char prefix[PREFIX_BYTES + 1] = {
      '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, HEADER_BYTES - PREFIX_BYTES, 0};
  memcpy(header, prefix, PREFIX_BYTES);
  int length = snprintf(header + PREFIX_BYTES, HEADER_BYTES - PREFIX_BYTES,
                        "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }", (long long)rows,
                        (long long)columns);
  memset(header + PREFIX_BYTES + length, ' ', (size_t)(HEADER_BYTES - PREFIX_BYTES - length));
  header[HEADER_BYTES - 1] = '\n';
}

lap_status lap_npy_begin(const char *path, int64_t rows, int64_t columns, lap_npy *npy, lap_error *error) {
  *npy = (lap_npy){.path = path};
  lap_status status = open_for(npy, error);
  if (status != LAP_OK) return status;
  char header[HEADER_BYTES + 1];
  make_header(rows, columns, header);
  if (fwrite(header, 1, HEADER_BYTES, npy->file) == HEADER_BYTES) return LAP_OK;
  status = fail_io(path, error);
  lap_npy_end(npy, false, NULL);
  return status;
}

lap_status lap_npy_write(lap_npy *npy, const float *values, size_t count, lap_error *error) {
  return fwrite(values, sizeof *values, count, npy->file) == count ? LAP_OK : fail_io(npy->path, error);
}

lap_status lap_npy_end(lap_npy *npy, bool keep, lap_error *error) {
  if (!npy->file) return LAP_OK;
  bool to_stdout = npy->file == stdout;
  bool failed = (to_stdout ? fflush(stdout) : fclose(npy->file)) != 0;
  npy->file = NULL;
  if (!failed && keep && npy->temporary) failed = rename(npy->temporary, npy->path) != 0;
  lap_status status = failed && keep ? fail_io(npy->path, error) : LAP_OK;
  if (npy->temporary && (failed || !keep)) unlink(npy->temporary);
  free(npy->temporary);
  npy->temporary = NULL;
  return status;
}
