/* parallel.h: how a pass divides its work over threads: rows of activations, and rows of weights.
 *
 * Each output element is computed whole by one task, so results do not depend on the division. Quantized
 * forms of activations (lap_input) stand here too: they are what products read. */
#ifndef LAP_PASS_PARALLEL_H
#define LAP_PASS_PARALLEL_H

#include "kernels/forms.h"
#include "kernels/matmul_woven.h"
#include "pass/pass.h"

enum {
  LAP_ROW_STEP = 16,       /* rows of a weight in a task are a multiple of a cache line of outputs */
  LAP_TASKS_A_THREAD = 8,  /* slack for threads that lose their core for a while */
  LAP_TASK_WEIGHTS = 16384 /* but no task of less than a microsecond: taking one costs a tenth of that */
};

/* The next `bytes` of memory that is being divided; NULL while bytes are only added up. */
LAP_INLINE void *lap_take(unsigned char *base, size_t *used, size_t bytes) {
  void *at = base ? base + *used : NULL;
  *used += lap_aligned(bytes);
  return at;
}

/* ---- activations ---- */

/* Rows of activations with their quantized forms. */
typedef struct lap_input {
  const float *x; /* [rows, width]; read by dense weights */
  int width;
  lap_qrows q[2]; /* in blocks of 64, of 32 */
} lap_input;

LAP_INLINE lap_qrows lap_qrows_place(const int width, const int block, const int natural, const int nibble,
                                     unsigned char **at, int rows, int woven) {
  const size_t codes = (size_t)rows * (size_t)lap_padded(width) * sizeof(int16_t);
  const size_t blocks = (size_t)rows * lap_aligned((size_t)(width / block) * sizeof(float));
  const int both = nibble && lap_wants_natural(width, natural, nibble);
  lap_qrows q = {.cols = width, .padded = lap_padded(width), .block = block, .woven = woven};
  int16_t *first = (int16_t *)(void *)*at;
  *at += codes;
  if (both || !(nibble && LAP_NIBBLE_ORDER)) q.q = first;
  if (nibble && LAP_NIBBLE_ORDER) q.nibble = both ? (int16_t *)(void *)*at : first;
  if (both) *at += codes;
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
  if (forms & (LAP_FORM_64 | LAP_FORM_64_NIBBLE))
    input.q[0] =
        lap_qrows_place(width, 64, forms & LAP_FORM_64, forms & LAP_FORM_64_NIBBLE, &memory, rows, woven);
  if (forms & (LAP_FORM_32 | LAP_FORM_32_NIBBLE))
    input.q[1] =
        lap_qrows_place(width, 32, forms & LAP_FORM_32, forms & LAP_FORM_32_NIBBLE, &memory, rows, woven);
  return input;
}

/* The block sizes that an input has, for those who do not know it by heart. */
LAP_INLINE int lap_input_forms(const lap_input *input) {
  return (input->q[0].scale ? LAP_FORM_64 : 0) | (input->q[1].scale ? LAP_FORM_32 : 0);
}

/* Quantizes x [n], columns `column` (a multiple of 64) and following, into row `row` of the
 * forms' block sizes, in the orders that the input has; n is a multiple of 64, but at the end of the row. */
LAP_INLINE void lap_input_fill_columns(const int forms, const float *x, int column, int n,
                                       const lap_input *input, int row) {
  if (forms & (LAP_FORM_64 | LAP_FORM_64_NIBBLE)) lap_quantize_columns(x, column, n, 64, &input->q[0], row);
  if (forms & (LAP_FORM_32 | LAP_FORM_32_NIBBLE)) lap_quantize_columns(x, column, n, 32, &input->q[1], row);
}

/* Quantizes x [width] into row `row` of the forms. */
LAP_INLINE void lap_input_fill(const int width, const int forms, const float *x, const lap_input *input,
                               int row) {
  lap_input_fill_columns(forms, x, 0, width, input, row);
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
static inline void lap_run_rows(const lap_team *team, int rows, lap_row_task *function, void *context) {
  int tasks = team->threads * LAP_TASKS_A_THREAD;
  int step = (rows + tasks - 1) / tasks;
  /* Rows woven together share cache lines. */
  if (rows >= LAP_WEAVE) step = (step + LAP_WEAVE - 1) / LAP_WEAVE * LAP_WEAVE;
  lap_rows_run run = {function, context, rows, step > 0 ? step : 1};
  lap_team_run(team, (rows + run.step - 1) / run.step, lap_rows_task, &run);
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
  const float *factor;      /* of a gate alone, [input_rows, rows]: what stands for up x */
  const lap_input *result;  /* of both: what their reader reads */
  lap_pass *pass;           /* of the head, which gives logits to rows */
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

enum {
  LAP_PAIR_TILE = 32,     /* rows of x */
  LAP_PAIR_FLOATS = 2048, /* of a tile of either product: they stay in the first cache */
  LAP_PAIR_STEP = 64      /* rows of the weights in a task are whole blocks of the result */
};

/* y = some rows of a weight, n from `strip` on, times the rows of x that `part` says: [rows of x, n]. */
LAP_INLINE void lap_multiply_strip(lap_multiply *multiply, const lap_weight *weight, int strip, int n,
                                   lap_product part, float *y) {
  const lap_weight slice = lap_weight_slice(weight, strip, n);
  part.weight = &slice;
  part.rows = n;
  part.y = y;
  multiply(&part, 0, n);
}

/* gelu(gate x) * (up x), or, where `up` is NULL, times the factor; rows first..last-1 of the weights (first
 * is a multiple of LAP_PAIR_STEP), as its readers want it: in `forms` of the result, and, if there is a y, as
 * floats. Else those are never in memory as a whole. */
LAP_INLINE void lap_multiply_gated(const int forms, lap_multiply *gate, lap_multiply *up,
                                   const lap_product *p, int first, int last) {
  const int tile = p->input_rows <= LAP_WEAVE ? LAP_WEAVE : LAP_PAIR_TILE, most = LAP_PAIR_FLOATS / tile;
  float gates[LAP_PAIR_FLOATS], ups[LAP_PAIR_FLOATS];
  for (int strip = first; strip < last; strip += most) {
    const int n = last - strip < most ? last - strip : most;
    for (int row = 0; row < p->input_rows; row += tile) {
      lap_product part = *p;
      part.first_input_row = p->first_input_row + row;
      part.input_rows = p->input_rows - row < tile ? p->input_rows - row : tile;
      lap_multiply_strip(gate, p->weight, strip, n, part, gates);
      if (up) lap_multiply_strip(up, p->second, strip, n, part, ups);
      for (int t = 0; t < part.input_rows && !up; t++)
        memcpy(ups + t * n, p->factor + (size_t)(row + t) * (size_t)p->rows + strip,
               (size_t)n * sizeof(float));
      LAP_ISA(lap_geglu)(gates, ups, n * part.input_rows, gates);
      for (int t = 0; t < part.input_rows; t++) {
        lap_input_fill_columns(forms, gates + t * n, strip, n, p->result, part.first_input_row + t);
        if (p->y)
          memcpy(p->y + (size_t)(row + t) * (size_t)p->rows + strip, gates + t * n,
                 (size_t)n * sizeof(float));
      }
    }
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

/* Runs all products; they must not depend on each other, and are all gated or none. */
static inline void lap_run_products(const lap_team *team, const lap_product *products, int count) {
  const int unit = products[0].result ? LAP_PAIR_STEP : LAP_ROW_STEP;
  int64_t rows = 0, weights = 0;
  for (int i = 0; i < count; i++) {
    rows += products[i].rows;
    weights += (int64_t)products[i].rows * products[i].cols * products[i].input_rows;
  }
  int64_t tasks_wanted = (int64_t)team->threads * LAP_TASKS_A_THREAD;
  if (weights / tasks_wanted < LAP_TASK_WEIGHTS)
    tasks_wanted = weights / LAP_TASK_WEIGHTS > 1 ? weights / LAP_TASK_WEIGHTS : 1;
  int64_t step = (rows / tasks_wanted + unit - 1) / unit * unit;
  lap_products_run run = {products, step > unit ? (int)step : unit};
  int tasks = 0;
  for (int i = 0; i < count; i++) tasks += lap_tasks_of(&products[i], run.step);
  lap_team_run(team, tasks, lap_products_task, &run);
}

#endif
