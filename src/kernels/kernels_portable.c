/* kernels_portable.c: the operations in plain C, the reference that every other form must equal. */
#include "kernels/affine.h"
#include "kernels/kernels.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

#define LAP_ISA(name) name##_portable
#define LAP_ISA_NAME  "portable"

static void matmul_quantized(const lap_qmatrix *w, const lap_qrows *x, int x_first, int x_rows, int first,
                             int last, float *y, size_t y_stride) {
  lap_matmul_quantized_portable(w, x, x_first, x_rows, first, last, y, y_stride);
}

static void matmul_dense(const lap_dmatrix *w, const float *x, size_t x_stride, int x_rows, int first,
                         int last, float *y, size_t y_stride) {
  lap_matmul_dense_portable(w, x, x_stride, x_rows, first, last, y, y_stride);
}

static void values(const lap_kv_view *kv, int queries, int64_t slot, int n, const float *p, float *acc,
                   float *bias_acc) {
  for (int t = 0; t < queries; t++)
    lap_values_portable(kv, slot, n, p + t * LAP_KEY_BLOCK, acc + t * kv->head_dim,
                        bias_acc + t * lap_kv_bias_groups(kv));
}

#include "kernels/table.inc.h"
