/* table.c: the operations as a table, for those who call one at a time: caches, tests, benchmarks.
 *
 * Compiled once for each instruction set (LAP_ISA in lanes.h). */
#include "kernels/general.h"
#include "kernels/kernels.h"
#include "kernels/kv_planes.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

static void rms_norm(const float *x, const float *w, int n, float eps, float *y) {
  LAP_ISA(lap_rms_norm)(x, w, n, eps, y);
}

static void quantize_row(const float *x, int n, int block, const lap_qrow *row) {
  lap_quantize_row_general(x, n, block, row);
}

#ifdef LAP_HAVE_WOVEN
static void quantize_woven(const float *x, int n, int block, const lap_qrows *rows, int row) {
  lap_quantize_columns(x, 0, n, block, rows, row);
}
#endif

static void matmul_quantized(const lap_qmatrix *w, const lap_qrows *x, int x_first, int x_rows, int first,
                             int last, float *y, size_t y_stride) {
  lap_matmul_quantized_general(w, x, x_first, x_rows, first, last, y, y_stride);
}

static void matmul_dense(const lap_dmatrix *w, const float *x, size_t x_stride, int x_rows, int first,
                         int last, float *y, size_t y_stride) {
  lap_matmul_dense_general(w, x, x_stride, x_rows, first, last, y, y_stride);
}

static void matmul_int16(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows, int rows,
                         float *y, size_t y_stride) {
  LAP_ISA(lap_matmul_int16)(w, x, x_stride, x_rows, rows, y, y_stride);
}

static void geglu(const float *gate, const float *up, int n, float *y) {
  LAP_ISA(lap_geglu)(gate, up, n, y);
}

static void softcap(float *y, int n, float cap) {
  LAP_ISA(lap_softcap)(y, n, cap);
}

static float exponential(float x) {
  return lap_exp_portable(x);
}

static void rope(float *x, int head_dim, int pairs, const float *cosine, const float *sine) {
  lap_rope_apply(x, head_dim, pairs, cosine, sine);
}

static float softmax_block(float *s, int first, int last, float *m, float *l) {
  return LAP_ISA(lap_softmax_block)(s, first, last, m, l);
}

static void values(const lap_kv_view *kv, int queries, int64_t slot, int n, const float *p, float *acc,
                   float *bias_acc) {
  lap_values_general(kv, queries, slot, n, p, acc, bias_acc);
}

static void attend_span(const lap_kv_view *kv, const lap_attend_queries *queries, int64_t begin, int64_t end,
                        const lap_attend_state *state, float *scratch) {
  lap_attend_span_general(kv, queries, begin, end, state, scratch);
}

static void attend_fold(int queries, int head_dim, const lap_attend_state *state,
                        const lap_attend_state *later) {
  lap_attend_fold(queries, head_dim, state, later);
}

static void attend_finish(int queries, int head_dim, const lap_attend_state *state, float *out) {
  lap_attend_finish(queries, head_dim, state, out);
}

static void affine_quantize_row(const float *x, int n, int bits, int group_size, lap_format format,
                                unsigned char *codes, void *scales, void *biases) {
  lap_affine_quantize_row(x, n, bits, group_size, format, codes, scales, biases);
}

static void kv_write(int bits, int group_size, int head_dim, int kv_heads, const lap_kv_planes *planes,
                     int64_t position, int kv_head, const float *k, const float *v) {
  lap_kv_write(bits, group_size, head_dim, kv_heads, planes, position, kv_head, k, v);
}

const lap_kernels LAP_ISA(lap_kernels) = {
    .name = LAP_ISA_NAME,
    .flags = LAP_ISA_FLAGS,
    .rms_norm = rms_norm,
    .quantize_row = quantize_row,
#ifdef LAP_HAVE_WOVEN
    .quantize_woven = quantize_woven,
#endif
    .matmul_quantized = matmul_quantized,
    .matmul_dense = matmul_dense,
    .matmul_int16 = matmul_int16,
    .geglu = geglu,
    .softcap = softcap,
    .exp = exponential,
    .rope = rope,
    .softmax_block = softmax_block,
    .values = values,
    .attend_span = attend_span,
    .attend_fold = attend_fold,
    .attend_finish = attend_finish,
    .affine_quantize_row = affine_quantize_row,
    .kv_write = kv_write,
};
