/* general.h: from values that are known only at run time to bodies that want constants.
 *
 * For those who interpret: the table of operations and the monolith. The combinations that published
 * checkpoints have get constants; all others are right, not fast. */
#ifndef LAP_KERNELS_GENERAL_H
#define LAP_KERNELS_GENERAL_H

#include "kernels/attend_span.h"
#include "kernels/matmul_dense.h"
#include "kernels/matmul_woven.h"

static inline void lap_quantize_row_general(const float *x, int n, int block, const lap_qrow *row) {
  if (block == 64) {
    LAP_ISA(lap_quantize_row)(x, n, 64, row);
  } else {
    LAP_ISA(lap_quantize_row)(x, n, 32, row);
  }
}

static inline void lap_matmul_quantized_general(const lap_qmatrix *w, const lap_qrows *x, int x_first,
                                                int x_rows, int first, int last, float *y, size_t y_stride) {
  if (w->bits == 4 && w->group_size == 64) {
    lap_matmul_rows(4, 64, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 8 && w->group_size == 64) {
    lap_matmul_rows(8, 64, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 4 && w->group_size == 32) {
    lap_matmul_rows(4, 32, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 8 && w->group_size == 32) {
    lap_matmul_rows(8, 32, w, x, x_first, x_rows, first, last, y, y_stride);
  } else {
    lap_matmul_rows(w->bits, w->group_size, w, x, x_first, x_rows, first, last, y, y_stride);
  }
}

static inline void lap_matmul_dense_general(const lap_dmatrix *w, const float *x, size_t x_stride, int x_rows,
                                            int first, int last, float *y, size_t y_stride) {
  if (w->format == LAP_FORMAT_BF16) {
    LAP_ISA(lap_matmul_dense)(LAP_FORMAT_BF16, w, x, x_stride, x_rows, first, last, y, y_stride);
  } else if (w->format == LAP_FORMAT_F16) {
    LAP_ISA(lap_matmul_dense)(LAP_FORMAT_F16, w, x, x_stride, x_rows, first, last, y, y_stride);
  } else {
    LAP_ISA(lap_matmul_dense)(LAP_FORMAT_F32, w, x, x_stride, x_rows, first, last, y, y_stride);
  }
}

static inline void lap_values_general(const lap_kv_view *kv, int queries, int64_t slot, int n, const float *p,
                                      float *acc, float *bias_acc) {
  if (kv->bits == 4) {
    LAP_ISA(lap_values)(4, kv, queries, slot, n, p, acc, bias_acc);
  } else if (kv->bits == 8) {
    LAP_ISA(lap_values)(8, kv, queries, slot, n, p, acc, bias_acc);
  } else {
    LAP_ISA(lap_values)(16, kv, queries, slot, n, p, acc, bias_acc);
  }
}

static inline void lap_attend_span_general(const lap_kv_view *kv, const lap_attend_queries *queries,
                                           int64_t begin, int64_t end, const lap_attend_state *state,
                                           float *scratch) {
  if (kv->bits == 4 && kv->group_size == 64) {
    lap_attend_span(4, 64, kv, queries, begin, end, state, scratch);
  } else if (kv->bits == 8 && kv->group_size == 64) {
    lap_attend_span(8, 64, kv, queries, begin, end, state, scratch);
  } else if (kv->bits == 16) {
    lap_attend_span(16, kv->group_size, kv, queries, begin, end, state, scratch);
  } else {
    lap_attend_span(kv->bits, kv->group_size, kv, queries, begin, end, state, scratch);
  }
}

#endif
