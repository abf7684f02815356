/* kernels_avx2.c: the operations for x86-64 with AVX2, FMA and F16C.
 *
 * The bodies take bits, group size and tile as constants; here stand the switches that give them
 * from run-time values. Compiled with the instruction set enabled for this file alone. */
#if defined(__x86_64__)
#include "kernels/affine.h"
#include "kernels/kernels.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

#define LAP_ISA(name) name##_avx2
#define LAP_ISA_NAME  "avx2"

static void matmul_quantized(const lap_qmatrix *w, const lap_qrows *x, int x_first, int x_rows, int first,
                             int last, float *y, size_t y_stride) {
  if (w->bits == 4 && w->group_size == 64) {
    lap_matmul_quantized_avx2(4, 64, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 8 && w->group_size == 64) {
    lap_matmul_quantized_avx2(8, 64, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 4 && w->group_size == 32) {
    lap_matmul_quantized_avx2(4, 32, w, x, x_first, x_rows, first, last, y, y_stride);
  } else if (w->bits == 8 && w->group_size == 32) {
    lap_matmul_quantized_avx2(8, 32, w, x, x_first, x_rows, first, last, y, y_stride);
  } else {
    lap_matmul_quantized_avx2(w->bits, w->group_size, w, x, x_first, x_rows, first, last, y, y_stride);
  }
}

static void matmul_dense(const lap_dmatrix *w, const float *x, size_t x_stride, int x_rows, int first,
                         int last, float *y, size_t y_stride) {
  if (w->format == LAP_FORMAT_BF16) {
    lap_matmul_dense_avx2(LAP_FORMAT_BF16, w, x, x_stride, x_rows, first, last, y, y_stride);
  } else if (w->format == LAP_FORMAT_F16) {
    lap_matmul_dense_avx2(LAP_FORMAT_F16, w, x, x_stride, x_rows, first, last, y, y_stride);
  } else {
    lap_matmul_dense_avx2(LAP_FORMAT_F32, w, x, x_stride, x_rows, first, last, y, y_stride);
  }
}

/* One tile of at most four queries. */
static inline __attribute__((always_inline)) void values_tile(const int bits, const lap_kv_view *kv,
                                                              int queries, int64_t slot, int n,
                                                              const float *p, float *acc, float *bias_acc) {
  if (queries == 4) {
    lap_values_avx2(bits, 4, kv, slot, n, p, acc, bias_acc);
  } else {
    for (int t = 0; t < queries; t++)
      lap_values_avx2(bits, 1, kv, slot, n, p + t * LAP_KEY_BLOCK, acc + t * kv->head_dim,
                      bias_acc + t * lap_kv_bias_groups(kv));
  }
}

static void values(const lap_kv_view *kv, int queries, int64_t slot, int n, const float *p, float *acc,
                   float *bias_acc) {
  int groups = lap_kv_bias_groups(kv);
  for (int t = 0; t < queries; t += 4) {
    int tile = queries - t < 4 ? queries - t : 4;
    const float *tile_p = p + t * LAP_KEY_BLOCK;
    float *tile_acc = acc + t * kv->head_dim, *tile_bias = bias_acc + t * groups;
    if (kv->bits == 4) {
      values_tile(4, kv, tile, slot, n, tile_p, tile_acc, tile_bias);
    } else if (kv->bits == 8) {
      values_tile(8, kv, tile, slot, n, tile_p, tile_acc, tile_bias);
    } else {
      values_tile(16, kv, tile, slot, n, tile_p, tile_acc, tile_bias);
    }
  }
}

#include "kernels/table.inc.h"
#endif
