/* file.c: one way to open a file, for everything that is read, and one to write a text.
 *
 * A path is opened without blocking and without following a FIFO's wait for a writer, and only a regular
 * file passes. Sizes come from the open descriptor, not from the path. A text is complete in a file of its
 * own before it takes the place of what was there. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

lap_status lap_file_open(const char *path, int *descriptor, uint64_t *bytes, lap_error *error) {
  struct stat info;
  *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*descriptor < 0)
    return lap_fail(error, LAP_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  if (fstat(*descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
    *bytes = (uint64_t)info.st_size;
    return LAP_OK;
  }
  close(*descriptor);
  *descriptor = -1;
  return lap_fail(error, LAP_ERROR_IO, "%s: not a regular file", path);
}

lap_status lap_file_read_exactly(int descriptor, const char *path, char *data, size_t bytes,
                                 lap_error *error) {
  for (size_t used = 0; used < bytes;) {
    ssize_t n = read(descriptor, data + used, bytes - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lap_fail(error, LAP_ERROR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (n == 0) return lap_fail(error, LAP_ERROR_IO, "%s: became shorter while it was read", path);
    used += (size_t)n;
  }
  return LAP_OK;
}

/* Reads `bytes` bytes of an open file and closes it. */
static lap_status read_and_close(int descriptor, const char *path, size_t bytes, char **data,
                                 lap_error *error) {
  lap_status status;
  *data = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;
  if (*data)
    status = lap_file_read_exactly(descriptor, path, *data, bytes, error);
  else
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for %zu bytes", path, bytes);
  close(descriptor);
  if (status == LAP_OK) return LAP_OK;
  free(*data);
  *data = NULL;
  return status;
}

lap_status lap_file_read(const char *path, uint64_t max_bytes, char **data, size_t *bytes, lap_error *error) {
  int descriptor;
  uint64_t size;
  *data = NULL;
  *bytes = 0;
  lap_status status = lap_file_open(path, &descriptor, &size, error);
  if (status != LAP_OK) return status;
  if (size > max_bytes) {
    close(descriptor);
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: %llu bytes, more than the %llu allowed", path,
                    (unsigned long long)size, (unsigned long long)max_bytes);
  }
  status = read_and_close(descriptor, path, (size_t)size, data, error);
  if (status == LAP_OK) *bytes = (size_t)size;
  return status;
}

lap_status lap_file_read_head(const char *path, size_t wanted, char **data, size_t *bytes, uint64_t *total,
                              lap_error *error) {
  int descriptor;
  *data = NULL;
  *bytes = 0;
  *total = 0;
  lap_status status = lap_file_open(path, &descriptor, total, error);
  if (status != LAP_OK) return status;
  size_t size = *total < wanted ? (size_t)*total : wanted;
  status = read_and_close(descriptor, path, size, data, error);
  if (status == LAP_OK) *bytes = size;
  return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool write_all(int descriptor, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(descriptor, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data += n;
    bytes -= (size_t)n;
  }
  return fsync(descriptor) == 0;
}

/* errno says what went wrong. */
static bool replace(const char *path, char *temporary, const mode_t *mode, const char *data, size_t bytes) {
  int descriptor = mkostemp(temporary, O_CLOEXEC);
  if (descriptor < 0) return false;
  bool written = (!mode || fchmod(descriptor, *mode & 0777) == 0) && write_all(descriptor, data, bytes);
  int cause = errno;
  if (close(descriptor) != 0 && written) {
    written = false;
    cause = errno;
  }
  if (written && rename(temporary, path) == 0) return true;
  if (written) cause = errno;
  unlink(temporary);
  errno = cause;
  return false;
}

lap_status lap_file_write(const char *path, const char *data, size_t bytes, lap_error *error) {
  struct stat info;
  bool exists = stat(path, &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) return lap_fail(error, LAP_ERROR_IO, "%s: not a regular file", path);
  char *temporary;
  if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", path);
  lap_status status = LAP_OK;
  if (!replace(path, temporary, exists ? &info.st_mode : NULL, data, bytes))
    status = lap_fail(error, LAP_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
  free(temporary);
  return status;
}

bool lap_make_parents(char *path) {
  for (char *slash = path; *slash && (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    *slash = '/';
  }
  return true;
}
