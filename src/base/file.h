/* file.h: regular files, opened so that nothing in a model directory can hang or surprise the reader, and
 * written so that nothing is lost. */
#ifndef LAP_BASE_FILE_H
#define LAP_BASE_FILE_H

#include "base/error.h"

/* Opens a regular file for reading: `*descriptor` is the caller's to close, `*bytes` its size.
 * Errors: IO (missing, unreadable, a directory, a FIFO, a device), naming the path. */
lap_status lap_file_open(const char *path, int *descriptor, uint64_t *bytes, lap_error *error);

/* Reads the next `bytes` of an open file; `path` is for messages. Errors: IO (there are fewer). */
lap_status lap_file_read_exactly(int descriptor, const char *path, char *data, size_t bytes,
                                 lap_error *error);

/* Reads a whole file of at most `max_bytes`: `*data` [*bytes] is malloc'd (never NULL on success) and the
 * caller's. Read, not mapped: a file that shrinks while it is parsed must not raise a signal.
 * Errors: as above; IO (it shrank), FORMAT (too large), MEMORY. */
lap_status lap_file_read(const char *path, uint64_t max_bytes, char **data, size_t *bytes, lap_error *error);

/* Reads the first `wanted` bytes of a file, or all where it is shorter; `*total` is its size. As above
 * otherwise. */
lap_status lap_file_read_head(const char *path, size_t wanted, char **data, size_t *bytes, uint64_t *total,
                              lap_error *error);

/* Writes a file whole or not at all, by way of a temporary one beside it: one that was there before stays as
 * it is on failure, and keeps its permissions on success. A new one is for its owner only. Errors: IO (also
 * where the path names something that is no regular file), MEMORY. */
lap_status lap_file_write(const char *path, const char *data, size_t bytes, lap_error *error);

/* Makes those of the directories in `path`, up to its last '/', that are not there yet, for their owner only.
 * False, with errno: one cannot be made; `path` ends with it then. */
bool lap_make_parents(char *path);

#endif
