/* workspace.c: how work is cut into tasks. */
#include "model/workspace.h"

#include <stdlib.h>

enum {
  ROW_STEP = 16,        /* rows of a weight in a task are a multiple of a cache line of outputs */
  TASKS_A_THREAD = 8,   /* slack for threads that lose their core for a while */
  TASK_WEIGHTS = 16384, /* but no task of less than a microsecond: taking one costs a tenth of that */
  ALIGNMENT = 64
};

static size_t aligned(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

lap_status lap_buffer_need(lap_buffer *buffer, size_t count, size_t size, const char *what,
                           lap_error *error) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %s", what);
  if (bytes <= buffer->bytes) return LAP_OK;
  void *data = aligned_alloc(ALIGNMENT, aligned(bytes));
  if (!data) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory: %s needs %zu bytes", what, bytes);
  free(buffer->data);
  buffer->data = data;
  buffer->bytes = aligned(bytes);
  return LAP_OK;
}

void lap_buffer_free(lap_buffer *buffer) {
  free(buffer->data);
  *buffer = (lap_buffer){0};
}

static int padded_width(int width) {
  return (width + 63) / 64 * 64;
}

static size_t form_bytes(int rows, int width, int block) {
  size_t cells = (size_t)rows * (size_t)padded_width(width),
         blocks = (size_t)rows * (size_t)(width / block + 1);
  return 2 * aligned(cells * sizeof(int16_t)) + 3 * aligned(blocks * sizeof(float));
}

size_t lap_input_bytes(int rows, int width) {
  return form_bytes(rows, width, 64) + form_bytes(rows, width, 32);
}

void lap_input_place(lap_input *input, void *memory, int rows, int width) {
  unsigned char *at = memory;
  for (int form = 0; form < 2; form++) {
    int block = form ? 32 : 64;
    size_t cells = (size_t)rows * (size_t)padded_width(width),
           blocks = (size_t)rows * (size_t)(width / block + 1);
    lap_qrows *q = &input->q[form];
    *q = (lap_qrows){.cols = width, .padded = padded_width(width), .block = block};
    q->q = (void *)at;
    at += aligned(cells * sizeof(int16_t));
    q->nibble = (void *)at;
    at += aligned(cells * sizeof(int16_t));
    q->scale = (void *)at;
    at += aligned(blocks * sizeof(float));
    q->scaled_sum = (void *)at;
    at += aligned(blocks * sizeof(float));
    q->sum = (void *)at;
    at += aligned(blocks * sizeof(float));
  }
  input->width = width;
}

/* ---- rows ---- */

typedef struct row_run {
  lap_row_task *function;
  void *context;
  int rows;
  int step;
} row_run;

static void row_task(void *context, int task, int thread) {
  const row_run *run = context;
  (void)thread;
  int end = (task + 1) * run->step < run->rows ? (task + 1) * run->step : run->rows;
  for (int row = task * run->step; row < end; row++) run->function(run->context, row);
}

void lap_for_rows(const lap_workspace *workspace, int rows, lap_row_task *function, void *context) {
  int tasks = lap_pool_threads(workspace->pool) * TASKS_A_THREAD;
  int step = (rows + tasks - 1) / tasks;
  row_run run = {function, context, rows, step > 0 ? step : 1};
  lap_pool_run(workspace->pool, (rows + run.step - 1) / run.step, row_task, &run);
}

typedef struct fill_run {
  const lap_workspace *workspace;
  lap_input *input;
  bool nibble[2];
} fill_run;

static void fill_row(void *context, int row) {
  const fill_run *fill = context;
  const lap_input *input = fill->input;
  const float *x = input->x + (size_t)row * (size_t)input->width;
  for (int form = 0; form < 2; form++) {
    if (!input->has[form]) continue;
    lap_qrow q = lap_qrows_at(&input->q[form], row);
    if (!fill->nibble[form]) q.nibble = NULL;
    fill->workspace->kernels->quantize_row(x, input->width, input->q[form].block, &q);
  }
}

void lap_input_fill(const lap_workspace *workspace, lap_input *input, const float *x, int rows,
                    const lap_weight *const readers[], int reader_count) {
  fill_run fill = {.workspace = workspace, .input = input};
  input->x = x;
  input->has[0] = input->has[1] = false;
  for (int i = 0; i < reader_count; i++) {
    if (!readers[i] || readers[i]->block == 0) continue;
    int form = readers[i]->block == 64 ? 0 : 1;
    input->has[form] = true;
    if (readers[i]->bits == 4) fill.nibble[form] = true;
  }
  if (input->has[0] || input->has[1]) lap_for_rows(workspace, rows, fill_row, &fill);
}

/* ---- products ---- */

typedef struct product_run {
  const lap_workspace *workspace;
  const lap_product *products;
  int count;
  int step; /* rows of a weight in a task */
} product_run;

static int tasks_of(const lap_product *product, int step) {
  return (product->weight->rows + step - 1) / step;
}

static void multiply_rows(const lap_workspace *workspace, const lap_product *p, int first, int last) {
  const lap_weight *w = p->weight;
  if (w->bits) {
    workspace->kernels->matmul_quantized(&w->quantized, &p->input->q[w->block == 64 ? 0 : 1],
                                         p->first_input_row, p->input_rows, first, last, p->y, p->y_stride);
    return;
  }
  const float *x = p->input->x + (size_t)p->first_input_row * (size_t)p->input->width;
  workspace->kernels->matmul_dense(&w->dense, x, (size_t)p->input->width, p->input_rows, first, last, p->y,
                                   p->y_stride);
}

static void product_task(void *context, int task, int thread) {
  const product_run *run = context;
  (void)thread;
  const lap_product *p = run->products;
  for (; task >= tasks_of(p, run->step); p++) task -= tasks_of(p, run->step);
  int first = task * run->step, rows = p->weight->rows;
  multiply_rows(run->workspace, p, first, first + run->step < rows ? first + run->step : rows);
}

void lap_multiply(const lap_workspace *workspace, const lap_product *products, int count) {
  int64_t rows = 0, weights = 0;
  for (int i = 0; i < count; i++) {
    rows += products[i].weight->rows;
    weights += (int64_t)products[i].weight->rows * products[i].weight->cols * products[i].input_rows;
  }
  int64_t threads = lap_pool_threads(workspace->pool), tasks_wanted = threads * TASKS_A_THREAD;
  if (weights / tasks_wanted < TASK_WEIGHTS)
    tasks_wanted = weights / TASK_WEIGHTS > 1 ? weights / TASK_WEIGHTS : 1;
  int64_t step = (rows / tasks_wanted + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
  product_run run = {workspace, products, count, step > ROW_STEP ? (int)step : ROW_STEP};
  int tasks = 0;
  for (int i = 0; i < count; i++) tasks += tasks_of(&products[i], run.step);
  lap_pool_run(workspace->pool, tasks, product_task, &run);
}
