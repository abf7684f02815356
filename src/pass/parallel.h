/* parallel.h: how a pass divides its work over threads: rows of activations, and rows of weights.
 *
 * Each output element is computed whole by one task, so results do not depend on the division. Quantized
 * forms of activations (lap_input) stand here too: they are what products read. */
#ifndef LAP_PASS_PARALLEL_H
#define LAP_PASS_PARALLEL_H

#include "kernels/matmul_woven.h"
#include "pass/pass.h"

enum {
  LAP_ROW_STEP = 16,        /* rows of a weight in a task are a multiple of a cache line of outputs */
  LAP_TASKS_A_THREAD = 8,   /* slack for threads that lose their core for a while */
  LAP_TASK_WEIGHTS = 16384, /* but no task of less than a microsecond: taking one costs a tenth of that */
  LAP_ALIGNMENT = 64
};

LAP_INLINE size_t lap_aligned(size_t bytes) {
  return (bytes + LAP_ALIGNMENT - 1) / LAP_ALIGNMENT * LAP_ALIGNMENT;
}

/* The next `bytes` of memory that is being divided; NULL while bytes are only added up. */
LAP_INLINE void *lap_take(unsigned char *base, size_t *used, size_t bytes) {
  void *at = base ? base + *used : NULL;
  *used += lap_aligned(bytes);
  return at;
}

/* ---- activations ---- */

/* The quantized forms that readers may want. */
enum {
  LAP_FORM_64 = 1,        /* blocks of 64 */
  LAP_FORM_64_NIBBLE = 2, /* with the order that 4-bit weights want beside it */
  LAP_FORM_32 = 4,
  LAP_FORM_32_NIBBLE = 8,
  LAP_FORMS_ALL = 15
};

/* The form for a reader with weights of `bits` (0 = dense) in groups of `group_size`. */
LAP_INLINE int lap_form_for(int bits, int group_size) {
  if (bits == 0) return 0;
  if (lap_block_of_group(group_size) == 32) return bits == 4 ? LAP_FORM_32 | LAP_FORM_32_NIBBLE : LAP_FORM_32;
  return bits == 4 ? LAP_FORM_64 | LAP_FORM_64_NIBBLE : LAP_FORM_64;
}

/* Rows of activations with their quantized forms. */
typedef struct lap_input {
  const float *x; /* [rows, width] */
  int width;
  lap_qrows q[2]; /* in blocks of 64, of 32 */
} lap_input;

LAP_INLINE int lap_padded(int width) {
  return (width + 63) / 64 * 64;
}

/* Bytes that the forms take for each row; every array begins on a cache line whatever the rows. */
LAP_INLINE size_t lap_input_row_bytes(const int width, const int forms) {
  const size_t codes = (size_t)lap_padded(width) * sizeof(int16_t);
  size_t bytes = 0;
  if (forms & LAP_FORM_64) bytes += codes + 3 * lap_aligned((size_t)(width / 64) * sizeof(float));
  if (forms & LAP_FORM_64_NIBBLE) bytes += codes;
  if (forms & LAP_FORM_32) bytes += codes + 3 * lap_aligned((size_t)(width / 32) * sizeof(float));
  if (forms & LAP_FORM_32_NIBBLE) bytes += codes;
  return bytes;
}

LAP_INLINE lap_qrows lap_qrows_place(const int width, const int block, const int nibble, unsigned char **at,
                                     int rows, int woven) {
  const size_t codes = (size_t)rows * (size_t)lap_padded(width) * sizeof(int16_t);
  const size_t blocks = (size_t)rows * lap_aligned((size_t)(width / block) * sizeof(float));
  lap_qrows q = {.cols = width, .padded = lap_padded(width), .block = block, .woven = woven};
  q.q = (int16_t *)(void *)*at;
  *at += codes;
  if (nibble) {
    q.nibble = (int16_t *)(void *)*at;
    *at += codes;
  }
  q.scale = (float *)(void *)*at;
  q.scaled_sum = (float *)(void *)(*at + blocks);
  q.sum = (int32_t *)(void *)(*at + 2 * blocks);
  *at += 3 * blocks;
  return q;
}

/* Points the forms of x [rows, width] into `memory`. If they are `woven` (lap_weaves), rows must be a
 * multiple of LAP_WEAVE. */
LAP_INLINE lap_input lap_input_place(const int width, const int forms, const float *x, unsigned char *memory,
                                     int rows, int woven) {
  lap_input input = {.x = x, .width = width};
  if (forms & LAP_FORM_64)
    input.q[0] = lap_qrows_place(width, 64, forms & LAP_FORM_64_NIBBLE, &memory, rows, woven);
  if (forms & LAP_FORM_32)
    input.q[1] = lap_qrows_place(width, 32, forms & LAP_FORM_32_NIBBLE, &memory, rows, woven);
  return input;
}

/* Quantizes x [width] in one block size into row `row`. */
LAP_INLINE void lap_form_fill(const int width, const int block, const int nibble, const float *x,
                              const lap_qrows *rows, int row) {
  if (rows->woven) {
    lap_quantize_woven(x, width, block, nibble, rows, row);
    return;
  }
  lap_qrow q = lap_qrows_at(rows, row);
  if (!nibble) q.nibble = NULL;
  LAP_ISA(lap_quantize_row)(x, width, block, &q);
}

/* Quantizes x [width] into row `row` of the forms. */
LAP_INLINE void lap_input_fill(const int width, const int forms, const float *x, const lap_input *input,
                               int row) {
  if (forms & LAP_FORM_64) lap_form_fill(width, 64, forms & LAP_FORM_64_NIBBLE, x, &input->q[0], row);
  if (forms & LAP_FORM_32) lap_form_fill(width, 32, forms & LAP_FORM_32_NIBBLE, x, &input->q[1], row);
}

/* ---- rows ---- */

typedef void lap_row_task(void *context, int row);

typedef struct lap_rows_run {
  lap_row_task *function;
  void *context;
  int rows;
  int step;
} lap_rows_run;

static inline void lap_rows_task(void *context, int task, int thread) {
  const lap_rows_run *run = (const lap_rows_run *)context;
  (void)thread;
  int end = (task + 1) * run->step < run->rows ? (task + 1) * run->step : run->rows;
  for (int row = task * run->step; row < end; row++) run->function(run->context, row);
}

/* Calls function(context, row) for each row, in parallel where it pays. */
static inline void lap_run_rows(const lap_pass *pass, int rows, lap_row_task *function, void *context) {
  int tasks = pass->threads * LAP_TASKS_A_THREAD;
  int step = (rows + tasks - 1) / tasks;
  /* Rows woven together share cache lines. */
  if (rows >= LAP_WEAVE) step = (step + LAP_WEAVE - 1) / LAP_WEAVE * LAP_WEAVE;
  lap_rows_run run = {function, context, rows, step > 0 ? step : 1};
  pass->run(pass->pool, (rows + run.step - 1) / run.step, lap_rows_task, &run);
}

/* ---- products ---- */

/* One product y = x W^T of a parallel batch. */
typedef struct lap_product lap_product;
/* Computes rows first..last-1 of W for all rows of x. */
typedef void lap_multiply(const lap_product *product, int first, int last);
struct lap_product {
  lap_multiply *multiply;
  const lap_weight *weight;
  int rows, cols; /* of the weight */
  const lap_input *input;
  int first_input_row;
  int input_rows;
  float *y;                 /* y[t * rows + r] for row t of the input and row r of the weight */
  const lap_weight *second; /* of a pair that is computed together: gate and up */
  float *second_y;
  lap_pass *pass; /* of the head */
};

/* bits 0 means dense. */
LAP_INLINE void lap_multiply_rows(const int bits, const int group_size, const lap_format format,
                                  const int cols, const lap_weight *weight, const lap_product *p, int first,
                                  int last, float *y) {
  if (bits == 0) {
    const lap_dmatrix w = {.weight = weight->dense.weight,
                           .row_bytes = (size_t)cols * lap_format_bytes(format),
                           .cols = cols,
                           .format = format};
    LAP_ISA(lap_matmul_dense)
    (format, &w, p->input->x + (size_t)p->first_input_row * (size_t)cols, (size_t)cols, p->input_rows, first,
     last, y, (size_t)p->rows);
    return;
  }
  const int block = lap_block_of_group(group_size);
  const lap_qmatrix w = {.codes = weight->quantized.codes,
                         .scales = weight->quantized.scales,
                         .biases = weight->quantized.biases,
                         .row_bytes = (size_t)cols / 8 * (size_t)bits,
                         .scale_stride = (size_t)(cols / group_size),
                         .cols = cols,
                         .bits = bits,
                         .group_size = group_size,
                         .format = format};
  lap_qrows x = p->input->q[block == 64 ? 0 : 1];
  x.cols = cols;
  x.padded = lap_padded(cols);
  x.block = block;
  lap_matmul_rows(bits, group_size, &w, &x, p->first_input_row, p->input_rows, first, last, y,
                  (size_t)p->rows);
}

/* y = gelu(y) * second_y for rows first..last-1. */
LAP_INLINE void lap_join_pair(const lap_product *p, int first, int last) {
  for (int t = 0; t < p->input_rows; t++) {
    float *gate = p->y + (size_t)t * (size_t)p->rows + first;
    LAP_ISA(lap_geglu)(gate, p->second_y + (size_t)t * (size_t)p->rows + first, last - first, gate);
  }
}

typedef struct lap_products_run {
  const lap_product *products;
  int step; /* rows of a weight in a task */
} lap_products_run;

LAP_INLINE int lap_tasks_of(const lap_product *product, int step) {
  return (product->rows + step - 1) / step;
}

static inline void lap_products_task(void *context, int task, int thread) {
  const lap_products_run *run = (const lap_products_run *)context;
  const lap_product *p = run->products;
  (void)thread;
  for (; task >= lap_tasks_of(p, run->step); p++) task -= lap_tasks_of(p, run->step);
  int first = task * run->step;
  p->multiply(p, first, first + run->step < p->rows ? first + run->step : p->rows);
}

/* Runs all products; they must not depend on each other. */
static inline void lap_run_products(const lap_pass *pass, const lap_product *products, int count) {
  int64_t rows = 0, weights = 0;
  for (int i = 0; i < count; i++) {
    rows += products[i].rows;
    weights += (int64_t)products[i].rows * products[i].cols * products[i].input_rows;
  }
  int64_t tasks_wanted = (int64_t)pass->threads * LAP_TASKS_A_THREAD;
  if (weights / tasks_wanted < LAP_TASK_WEIGHTS)
    tasks_wanted = weights / LAP_TASK_WEIGHTS > 1 ? weights / LAP_TASK_WEIGHTS : 1;
  int64_t step = (rows / tasks_wanted + LAP_ROW_STEP - 1) / LAP_ROW_STEP * LAP_ROW_STEP;
  lap_products_run run = {products, step > LAP_ROW_STEP ? (int)step : LAP_ROW_STEP};
  int tasks = 0;
  for (int i = 0; i < count; i++) tasks += lap_tasks_of(&products[i], run.step);
  pass->run(pass->pool, tasks, lap_products_task, &run);
}

#endif
