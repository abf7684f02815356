/* weights.h: a checkpoint's modules as a forward pass reads them.
 *
 * Matrices stand in the mapped files; norms and other vectors, which are small, are widened to f32 once.
 * layer[i].linear[LAP_Q_PROJ] is q_proj of layer i. Generated code takes the pointers and knows the
 * shapes; the monolith reads both. */
#ifndef LAP_PASS_WEIGHTS_H
#define LAP_PASS_WEIGHTS_H

#include "checkpoint/module_names.h"
#include "kernels/matmul_dense.h"
#include "kernels/matmul_quantized.h"

/* A linear module; of a stack of experts, the first. */
typedef struct lap_weight {
  int rows, cols;
  int bits;  /* 0 = dense */
  int block; /* of the quantized input: 64 or 32; 0 if dense */
  lap_qmatrix quantized;
  lap_dmatrix dense;
  size_t expert_weight_bytes, expert_scale_bytes; /* from one expert to the next */
} lap_weight;

typedef struct lap_layer_weights {
  lap_weight linear[LAP_LAYER_LINEARS];
  lap_weight pli_rows;                    /* this layer's rows of per_layer_model_projection */
  const float *vector[LAP_LAYER_VECTORS]; /* NULL if absent; router.scale includes hidden^-0.5 */
} lap_layer_weights;

typedef struct lap_weights {
  lap_weight embed, embed_per_layer, per_layer_projection, head;
  const float *final_norm, *per_layer_norm;
  lap_layer_weights *layer;
  float *storage;
} lap_weights;

/* Rows first .. first + rows - 1 as a matrix of their own. */
static inline lap_weight lap_weight_slice(const lap_weight *weight, int first, int rows) {
  lap_weight slice = *weight;
  slice.rows = rows;
  if (weight->bits == 0) {
    slice.dense.weight += (size_t)first * weight->dense.row_bytes;
    return slice;
  }
  size_t scales = (size_t)first * weight->quantized.scale_stride * lap_format_bytes(weight->quantized.format);
  slice.quantized.codes += (size_t)first * weight->quantized.row_bytes;
  slice.quantized.scales += scales;
  slice.quantized.biases += scales;
  return slice;
}

/* The matrix of expert `expert`. */
static inline lap_weight lap_weight_expert(const lap_weight *stack, int expert) {
  lap_weight weight = *stack;
  size_t offset = (size_t)expert * stack->expert_weight_bytes,
         scales = (size_t)expert * stack->expert_scale_bytes;
  if (weight.bits == 0) {
    weight.dense.weight += offset;
    return weight;
  }
  weight.quantized.codes += offset;
  weight.quantized.scales += scales;
  weight.quantized.biases += scales;
  return weight;
}

/* Elements first .. first + count - 1 of row `row` of a table, dequantized and multiplied by `scale`:
 * y [count]. first is a multiple of 8. */
LAP_INLINE void lap_table_row(const int bits, const int group_size, const lap_format format, const int cols,
                              const lap_weight *table, int row, int first, int count, float scale, float *y) {
  if (bits == 0) {
    const unsigned char *p = table->dense.weight + (size_t)row * (size_t)cols * lap_format_bytes(format);
    for (int i = 0; i < count; i++) y[i] = lap_format_load(format, p, (size_t)first + (size_t)i) * scale;
    return;
  }
  const unsigned char *codes = table->quantized.codes + (size_t)row * (size_t)cols / 8 * (size_t)bits;
  const size_t scales = (size_t)row * (size_t)(cols / group_size);
  while (count > 0) {
    int16_t code[128];
    size_t group = scales + (size_t)(first / group_size);
    int n = group_size - first % group_size;
    if (n > count) n = count;
    lap_unpack_codes(bits, codes, first, n, code);
    float a = lap_format_load(format, table->quantized.scales, group),
          b = lap_format_load(format, table->quantized.biases, group);
    for (int i = 0; i < n; i++) y[i] = lap_fma(a, (float)code[i], b) * scale;
    y += n;
    first += n;
    count -= n;
  }
}

#endif
