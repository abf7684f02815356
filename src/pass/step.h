/* step.h: what generated code knows while it runs: the pass, where its buffers stand, the layer at hand.
 *
 * Places are those that the generator laid out, in bytes for each row of the pass: a buffer of rows begins
 * at place times capacity. Generated code gives them, and widths, as constants. */
#ifndef LAP_PASS_STEP_H
#define LAP_PASS_STEP_H

#include "pass/attend_rows.h"

typedef struct lap_step {
  lap_pass *pass;
  lap_attend_memory attention;
  unsigned char *experts; /* memory of the mixture of experts */
  lap_input normed;       /* a norm's output, or the stream, in quantized form */
  lap_input embedded;     /* the embedding, for per-layer inputs */
  int layer;              /* -1 before the first */
  int cache;
  const lap_layer_weights *w;
} lap_step;

LAP_INLINE void lap_step_begin(lap_step *s, int layer, int cache) {
  s->layer = layer;
  s->cache = cache;
  s->w = &s->pass->memory.weights->layer[layer];
}

/* The norm's weights with which the layer after the one at hand begins, or, after the last, the end. */
LAP_INLINE const float *lap_step_next_norm(const lap_step *s, const int layers) {
  const lap_weights *weights = s->pass->memory.weights;
  return s->layer + 1 < layers ? weights->layer[s->layer + 1].vector[LAP_INPUT_NORM] : weights->final_norm;
}

LAP_INLINE unsigned char *lap_bytes_at(const lap_step *s, size_t place) {
  return s->pass->memory.arena + (size_t)s->pass->capacity * place;
}

LAP_INLINE float *lap_at(const lap_step *s, size_t place) {
  return (float *)(void *)lap_bytes_at(s, place);
}

/* Row `row` of a buffer. */
LAP_INLINE float *lap_row_at(const lap_step *s, size_t place, const int width, int row) {
  return lap_row_of(lap_at(s, place), row, width);
}

/* A buffer and its quantized forms. How these lie in memory depends on the number of rows still on their
 * way. */
LAP_INLINE lap_input lap_input_at(const lap_step *s, const int width, const int forms, size_t place,
                                  size_t forms_place) {
  return lap_input_place(width, forms, lap_at(s, place), lap_bytes_at(s, forms_place), s->pass->capacity,
                         lap_weaves(s->pass->rows, width));
}

/* y = x W^T for all rows, W [rows, cols]. */
LAP_INLINE lap_product lap_step_product(const lap_step *s, lap_multiply *multiply, const lap_weight *weight,
                                        int rows, int cols, const lap_input *x, size_t y) {
  return (lap_product){.multiply = multiply,
                       .weight = weight,
                       .rows = rows,
                       .cols = cols,
                       .input = x,
                       .input_rows = s->pass->rows,
                       .y = lap_at(s, y)};
}

LAP_INLINE lap_product lap_step_linear(const lap_step *s, lap_multiply *multiply, lap_layer_linear which,
                                       int rows, int cols, const lap_input *x, size_t y) {
  return lap_step_product(s, multiply, &s->w->linear[which], rows, cols, x, y);
}

LAP_INLINE void lap_step_run(const lap_step *s, lap_multiply *multiply, lap_layer_linear which, int rows,
                             int cols, const lap_input *x, size_t y) {
  const lap_product one = lap_step_linear(s, multiply, which, rows, cols, x, y);
  lap_run_products(&s->pass->team, &one, 1);
}

/* Makes `result` of a gate, or, if its readers are dense weights, as floats too. */
LAP_INLINE void lap_step_run_gate(const lap_step *s, lap_product gate, const lap_input *result,
                                  const int floats) {
  gate.result = result;
  gate.y = floats ? (float *)(uintptr_t)result->x : NULL;
  lap_run_products(&s->pass->team, &gate, 1);
}

/* gelu(gate x) * (up x) of the normed rows. */
LAP_INLINE void lap_step_gate_up(const lap_step *s, lap_multiply *multiply, int rows, int cols,
                                 const lap_input *result, const int floats) {
  lap_product pair = lap_step_linear(s, multiply, LAP_GATE_PROJ, rows, cols, &s->normed, 0);
  pair.second = &s->w->linear[LAP_UP_PROJ];
  lap_step_run_gate(s, pair, result, floats);
}

/* gelu(gate x) * factor, which stands at a place of its own. */
LAP_INLINE void lap_step_gate_per_layer(const lap_step *s, lap_multiply *multiply, int rows, int cols,
                                        const lap_input *x, size_t factor, const lap_input *result,
                                        const int floats) {
  lap_product gate = lap_step_linear(s, multiply, LAP_PLI_GATE, rows, cols, x, 0);
  gate.factor = lap_at(s, factor);
  lap_step_run_gate(s, gate, result, floats);
}

#endif
