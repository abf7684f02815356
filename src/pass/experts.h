/* experts.h: the mixture of experts of the 26B-A4B structure.
 *
 * Rows are taken in tiles. Each row's chosen experts become slots; slots are sorted by expert, so that
 * an expert's weights are read once for a tile, and all gate and up products run as one batch. The
 * weighted sum over a row's experts runs in ascending index of the expert: an order that neither the
 * batch nor the ranking of near-equal scores can change. */
#ifndef LAP_PASS_EXPERTS_H
#define LAP_PASS_EXPERTS_H

#include "kernels/exponential.h"
#include "pass/rows.h"

enum {
  LAP_EXPERT_TILE_ROWS = 32
};

typedef struct lap_experts_shape {
  int hidden, experts, top_k, width;
  float eps;
  int router_forms, forms, wide_forms; /* of the inputs of router, gate and up, down */
  int wide_floats;                     /* some layer's down is dense */
} lap_experts_shape;

typedef struct lap_slot {
  int row; /* within the tile */
  int expert;
  float weight;
} lap_slot;

/* The tasks of one shape, and the products of one layer. */
typedef struct lap_experts_code {
  lap_row_task *norm_router; /* lap_experts_norm_router */
  lap_row_task *gather;      /* lap_experts_gather */
  lap_multiply *router, *gate_up, *down;
} lap_experts_code;

typedef struct lap_experts_run {
  const lap_pass *pass;
  const lap_layer_weights *weights;
  const float *hidden;  /* the stream of the tile, which routes */
  const float *normed;  /* and what the experts see */
  float *router_normed; /* [rows, hidden] */
  float *scores;        /* [rows, experts] */
  float *gathered;      /* [slots, hidden] */
  float *gate;          /* [slots, width], where down is dense */
  float *down;          /* [slots, hidden] */
  lap_input router_input, input, wide_input;
  lap_slot *slots; /* by expert, then row */
  lap_product *products;
  lap_weight *stack; /* the matrices that products point to */
  int rows, count;
} lap_experts_run;

/* Lays a tile's buffers out in memory; with base NULL it only adds up their bytes. */
static inline size_t lap_experts_place(const lap_experts_shape s, lap_experts_run *run, unsigned char *base) {
  const size_t rows = LAP_EXPERT_TILE_ROWS, slots = rows * (size_t)s.top_k;
  const size_t hidden = (size_t)s.hidden, width = (size_t)s.width;
  size_t used = 0;
  run->router_normed = lap_take(base, &used, rows * hidden * sizeof(float));
  run->scores = lap_take(base, &used, rows * (size_t)s.experts * sizeof(float));
  run->gathered = lap_take(base, &used, slots * hidden * sizeof(float));
  run->gate = s.wide_floats ? lap_take(base, &used, slots * width * sizeof(float)) : NULL;
  run->down = lap_take(base, &used, slots * hidden * sizeof(float));
  run->slots = lap_take(base, &used, slots * sizeof(lap_slot));
  run->products = lap_take(base, &used, slots * sizeof(lap_product));
  run->stack = lap_take(base, &used, 2 * slots * sizeof(lap_weight));
  void *router = lap_take(base, &used, (rows)*lap_input_row_bytes(s.hidden, s.router_forms));
  void *input = lap_take(base, &used, (slots)*lap_input_row_bytes(s.hidden, s.forms));
  void *wide = lap_take(base, &used, (slots)*lap_input_row_bytes(s.width, s.wide_forms));
  if (base) {
    run->router_input = lap_input_place(s.hidden, s.router_forms, run->router_normed, router, (int)rows, 0);
    run->input = lap_input_place(s.hidden, s.forms, run->gathered, input, (int)slots, 0);
    run->wide_input = lap_input_place(s.width, s.wide_forms, run->gate, wide, (int)slots, 0);
  }
  return used;
}

/* ---- row by row ---- */

LAP_INLINE void lap_experts_norm_router(const lap_experts_shape s, lap_experts_run *run, int row) {
  size_t at = (size_t)row * (size_t)s.hidden;
  lap_row_norm(s.hidden, s.eps, s.router_forms, run->hidden + at, run->weights->vector[LAP_ROUTER_SCALE],
               run->router_normed + at, &run->router_input, row);
}

LAP_INLINE void lap_experts_gather(const lap_experts_shape s, lap_experts_run *run, int slot) {
  float *to = run->gathered + (size_t)slot * (size_t)s.hidden;
  memcpy(to, run->normed + (size_t)run->slots[slot].row * (size_t)s.hidden, (size_t)s.hidden * sizeof(float));
  lap_input_fill(s.hidden, s.forms, to, &run->input, slot);
}

/* ---- routing ---- */

/* The k largest scores, the lower index first among equals; their softmax times per_expert_scale. */
static inline void lap_experts_choose(const lap_experts_shape s, const lap_experts_run *run, int row,
                                      lap_slot *chosen) {
  const float *score = run->scores + (size_t)row * (size_t)s.experts;
  float sum = 0.0f;
  for (int k = 0; k < s.top_k; k++) {
    int best = -1;
    for (int i = 0; i < s.experts; i++) {
      bool taken = false;
      for (int j = 0; j < k; j++) taken = taken || chosen[j].expert == i;
      if (!taken && (best < 0 || score[i] > score[best])) best = i;
    }
    chosen[k] = (lap_slot){.row = row, .expert = best};
  }
  for (int k = 0; k < s.top_k; k++) {
    chosen[k].weight = lap_exp_portable(score[chosen[k].expert] - score[chosen[0].expert]);
    sum += chosen[k].weight;
  }
  for (int k = 0; k < s.top_k; k++)
    chosen[k].weight = chosen[k].weight / sum * run->weights->vector[LAP_PER_EXPERT_SCALE][chosen[k].expert];
}

static inline void lap_experts_show(const lap_experts_shape s, const lap_experts_run *run, int layer) {
  const lap_pass *pass = run->pass;
  float shown[2 * LAP_MAX_TOP_K];
  if (!pass->see) return;
  for (int row = 0; row < run->rows; row++) {
    for (int i = 0; i < s.top_k; i++) {
      shown[i] = (float)run->slots[row * s.top_k + i].expert;
      shown[s.top_k + i] = run->slots[row * s.top_k + i].weight;
    }
    pass->see(pass->see_context, "router", layer, shown, 1, 2 * s.top_k);
  }
}

static inline void lap_experts_sort(lap_experts_run *run) {
  for (int i = 1; i < run->count; i++) {
    lap_slot moving = run->slots[i];
    int j = i;
    for (; j > 0 && run->slots[j - 1].expert > moving.expert; j--) run->slots[j] = run->slots[j - 1];
    run->slots[j] = moving;
  }
}

static inline void lap_experts_route(const lap_experts_shape s, const lap_experts_code *code,
                                     lap_experts_run *run, int layer) {
  lap_run_rows(&run->pass->team, run->rows, code->norm_router, run);
  const lap_product product = {.multiply = code->router,
                               .weight = &run->weights->linear[LAP_ROUTER],
                               .rows = s.experts,
                               .cols = s.hidden,
                               .input = &run->router_input,
                               .input_rows = run->rows,
                               .y = run->scores};
  lap_run_products(&run->pass->team, &product, 1);
  run->count = run->rows * s.top_k;
  for (int row = 0; row < run->rows; row++) lap_experts_choose(s, run, row, run->slots + row * s.top_k);
  lap_experts_show(s, run, layer);
  lap_experts_sort(run);
}

/* ---- products ---- */

/* One product for each expert that has slots. */
static inline int lap_experts_products(lap_experts_run *run, lap_multiply *multiply, const lap_weight *weight,
                                       const lap_weight *second, int rows, int cols, const lap_input *input,
                                       const lap_input *result, float *y) {
  int count = 0;
  for (int first = 0; first < run->count; count++) {
    int end = first, expert = run->slots[first].expert;
    size_t at = (size_t)first * (size_t)rows;
    while (end < run->count && run->slots[end].expert == expert) end++;
    run->stack[2 * count] = lap_weight_expert(weight, expert);
    if (second) run->stack[2 * count + 1] = lap_weight_expert(second, expert);
    run->products[count] = (lap_product){.multiply = multiply,
                                         .weight = &run->stack[2 * count],
                                         .rows = rows,
                                         .cols = cols,
                                         .input = input,
                                         .first_input_row = first,
                                         .input_rows = end - first,
                                         .y = y ? y + at : NULL,
                                         .second = second ? &run->stack[2 * count + 1] : NULL,
                                         .result = result};
    first = end;
  }
  return count;
}

/* The weighted sum of each row's experts, in ascending index of the expert. */
static inline void lap_experts_add_up(const lap_experts_shape s, const lap_experts_run *run, float *out) {
  memset(out, 0, (size_t)run->rows * (size_t)s.hidden * sizeof(float));
  for (int i = 0; i < run->count; i++) {
    float *to = out + (size_t)run->slots[i].row * (size_t)s.hidden;
    const float *from = run->down + (size_t)i * (size_t)s.hidden;
    for (int d = 0; d < s.hidden; d++) to[d] = lap_fma(run->slots[i].weight, from[d], to[d]);
  }
}

/* All rows of layer `layer`: normed [rows, hidden] (pre_feedforward_layernorm_2 applied), routed by
 * `hidden`, is replaced by the experts' sum, tile by tile. */
static inline void lap_run_experts(const lap_experts_shape s, const lap_experts_code *code,
                                   const lap_pass *pass, int layer, unsigned char *memory,
                                   const float *hidden, float *normed) {
  const lap_layer_weights *weights = &pass->memory.weights->layer[layer];
  lap_experts_run run = {.pass = pass, .weights = weights};
  lap_experts_place(s, &run, memory);
  for (int first = 0; first < pass->rows; first += LAP_EXPERT_TILE_ROWS) {
    int left = pass->rows - first, count;
    float *tile = normed + (size_t)first * (size_t)s.hidden;
    run.rows = left < LAP_EXPERT_TILE_ROWS ? left : LAP_EXPERT_TILE_ROWS;
    run.hidden = hidden + (size_t)first * (size_t)s.hidden;
    run.normed = tile;
    lap_experts_route(s, code, &run, layer);
    lap_run_rows(&pass->team, run.count, code->gather, &run);
    count = lap_experts_products(&run, code->gate_up, &weights->linear[LAP_EXPERT_GATE],
                                 &weights->linear[LAP_EXPERT_UP], s.width, s.hidden, &run.input,
                                 &run.wide_input, run.gate);
    lap_run_products(&pass->team, run.products, count);
    count = lap_experts_products(&run, code->down, &weights->linear[LAP_EXPERT_DOWN], NULL, s.hidden, s.width,
                                 &run.wide_input, NULL, run.down);
    lap_run_products(&pass->team, run.products, count);
    lap_experts_add_up(s, &run, tile);
  }
}

#endif
