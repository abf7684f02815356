/* stream.c: pieces of the data section, each drawn and written by one task.
 *
 * A piece is a range of the file, whatever tensors it cuts: so writes are large and equal even where
 * tensors are small, and a task needs nothing but its index. Every thread has one buffer of a piece;
 * that, and the list of tensors, is all the memory there is. Writing inside the tasks lets one thread
 * draw while another waits for the disk. */
#include "forge/stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"

enum {
  PIECE_BYTES = 2 << 20,
  MAX_THREADS = 16,      /* so that buffers stay below 32 MiB */
  PIECES_PER_THREAD = 16 /* between two looks at the progress */
};

typedef struct stream {
  int fd;
  uint64_t begin; /* of the data in the file */
  const lap_forge_tensors *tensors;
  uint64_t first_piece; /* of this run of the pool */
  unsigned char *buffers;
  atomic_int write_error; /* errno of the first failed write; pieces after it are left out */
} stream;

/* The tensor that holds byte `at` of the data. */
static const lap_forge_tensor *tensor_at(const lap_forge_tensors *tensors, uint64_t at) {
  int32_t low = 0, high = tensors->count - 1;
  while (low < high) {
    int32_t middle = low + (high - low + 1) / 2;
    if (tensors->tensor[middle].offset <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return &tensors->tensor[low];
}

static void draw_piece(const lap_forge_tensors *tensors, uint64_t at, uint64_t end, unsigned char *out) {
  for (const lap_forge_tensor *tensor = tensor_at(tensors, at); at < end; tensor++) {
    uint64_t tensor_end = tensor->offset + tensor->bytes;
    uint64_t stop = tensor_end < end ? tensor_end : end;
    lap_draw_bytes(&tensor->draw, at - tensor->offset, (size_t)(stop - at), out);
    out += stop - at;
    at = stop;
  }
}

static int write_all(int fd, const unsigned char *data, size_t count, uint64_t at) {
  while (count) {
    ssize_t written = pwrite(fd, data, count, (off_t)at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    data += written;
    count -= (size_t)written;
    at += (uint64_t)written;
  }
  return 0;
}

static void write_piece(void *context, int task, int thread) {
  stream *s = context;
  uint64_t at = (s->first_piece + (uint64_t)task) * PIECE_BYTES;
  uint64_t left = s->tensors->bytes - at, count = left < PIECE_BYTES ? left : PIECE_BYTES;
  unsigned char *buffer = s->buffers + (size_t)thread * PIECE_BYTES;
  if (atomic_load(&s->write_error)) return;
  draw_piece(s->tensors, at, at + count, buffer);
  int failed = write_all(s->fd, buffer, (size_t)count, s->begin + at);
  if (failed) atomic_store(&s->write_error, failed);
}

static lap_status write_pieces(stream *s, lap_pool *pool, const char *path, const lap_forge_options *options,
                               lap_error *error) {
  uint64_t pieces = (s->tensors->bytes + PIECE_BYTES - 1) / PIECE_BYTES;
  uint64_t at_once = (uint64_t)lap_pool_threads(pool) * PIECES_PER_THREAD;
  while (s->first_piece < pieces) {
    uint64_t left = pieces - s->first_piece, count = left < at_once ? left : at_once;
    lap_pool_run(pool, (int)count, write_piece, s);
    int failed = atomic_load(&s->write_error);
    if (failed) return lap_fail(error, LAP_ERROR_IO, "%s: cannot be written: %s", path, strerror(failed));
    s->first_piece += count;
    uint64_t done = s->first_piece < pieces ? s->first_piece * PIECE_BYTES : s->tensors->bytes;
    if (options->progress && !options->progress(options->context, (int64_t)done, (int64_t)s->tensors->bytes))
      return lap_fail(error, LAP_ERROR_STATE, "%s: interrupted", path);
  }
  return LAP_OK;
}

lap_status lap_forge_stream(int fd, const char *path, uint64_t begin, const lap_forge_tensors *tensors,
                            const lap_forge_options *options, lap_error *error) {
  stream s = {.fd = fd, .begin = begin, .tensors = tensors};
  lap_pool *pool = NULL;
  int threads = options->threads ? options->threads : lap_available_cores();
  lap_status status = lap_pool_create(threads < MAX_THREADS ? threads : MAX_THREADS, &pool, error);
  if (status != LAP_OK) return status;
  s.buffers = malloc((size_t)lap_pool_threads(pool) * PIECE_BYTES);
  if (s.buffers)
    status = write_pieces(&s, pool, path, options, error);
  else
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for the buffers", path);
  free(s.buffers);
  lap_pool_destroy(pool);
  return status;
}
