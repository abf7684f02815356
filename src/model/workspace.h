/* workspace.h: threads, scratch memory and parallel products for one forward pass at a time.
 *
 * Buffers grow to the largest number of rows seen and are then reused. Work is divided so that each
 * output element is computed whole by one task: results do not depend on the number of threads. */
#ifndef LAP_MODEL_WORKSPACE_H
#define LAP_MODEL_WORKSPACE_H

#include "base/pool.h"
#include "model/weights.h"

/* Rows of activations, with the quantized forms that their readers want. */
typedef struct lap_input {
  const float *x; /* [rows, width] */
  int width;
  bool has[2]; /* quantized in blocks of 64, of 32 */
  lap_qrows q[2];
} lap_input;

/* One product y = x W^T of a parallel batch. */
typedef struct lap_product {
  const lap_weight *weight;
  const lap_input *input;
  int first_input_row;
  int input_rows;
  float *y; /* y[t * y_stride + r] for row t of the input and row r of the weight */
  size_t y_stride;
} lap_product;

/* A buffer that grows. */
typedef struct lap_buffer {
  void *data;
  size_t bytes;
} lap_buffer;

typedef struct lap_workspace {
  lap_pool *pool;
  const lap_kernels *kernels;
} lap_workspace;

/* Makes `buffer` at least count * size bytes (64-byte aligned); content is lost when it grows.
 * Errors: MEMORY, with `what` in the message. */
lap_status lap_buffer_need(lap_buffer *buffer, size_t count, size_t size, const char *what, lap_error *error);
void lap_buffer_free(lap_buffer *buffer);

/* Bytes that lap_input_place takes from a buffer for rows of `width`. */
size_t lap_input_bytes(int rows, int width);
/* Points the quantized forms of `input` into `memory`. */
void lap_input_place(lap_input *input, void *memory, int rows, int width);

/* Sets input->x and quantizes its rows in the forms that `readers` (NULLs allowed) want. */
void lap_input_fill(const lap_workspace *workspace, lap_input *input, const float *x, int rows,
                    const lap_weight *const readers[], int reader_count);

/* Runs all products; they must not depend on each other. */
void lap_multiply(const lap_workspace *workspace, const lap_product *products, int count);

/* Calls function(context, row) for each row, in parallel where it pays. */
typedef void lap_row_task(void *context, int row);
void lap_for_rows(const lap_workspace *workspace, int rows, lap_row_task *function, void *context);

#endif
