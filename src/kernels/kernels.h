/* kernels.h: the operations of the forward pass, in the variant that this processor runs best.
 *
 * Every table computes the same bits. Shapes are
 * row-major, strides count elements unless they are called bytes. Functions allocate nothing and keep
 * nothing. */
#ifndef LAP_KERNELS_KERNELS_H
#define LAP_KERNELS_KERNELS_H

#include "base/error.h"
#include "kernels/attend.h"
#include "kernels/kv_planes.h"
#include "kernels/matmul_dense.h"
#include "kernels/matmul_int16.h"
#include "kernels/matmul_woven.h"

typedef struct lap_kernels {
  const char *name;
  const char *flags; /* that a compiler needs for this instruction set, divided by blanks */

  /* x [n] -> y [n], weights w [n] or NULL. */
  void (*rms_norm)(const float *x, const float *w, int n, float eps, float *y);

  /* x [n] -> blocks of `block` (32 or 64; divides n). */
  void (*quantize_row)(const float *x, int n, int block, const lap_qrow *row);

  /* The same into row `row` of rows woven together (matmul_woven.h); NULL where the instruction set has no
   * body that reads them. n is a multiple of 64. */
  void (*quantize_woven)(const float *x, int n, int block, const lap_qrows *rows, int row);

  /* y[t * y_stride + r] = row x_first + t of x times row r of w, first <= r < last. */
  void (*matmul_quantized)(const lap_qmatrix *w, const lap_qrows *x, int x_first, int x_rows, int first,
                           int last, float *y, size_t y_stride);
  void (*matmul_dense)(const lap_dmatrix *w, const float *x, size_t x_stride, int x_rows, int first, int last,
                       float *y, size_t y_stride);
  /* All rows 0..rows-1 of w. */
  void (*matmul_int16)(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows, int rows, float *y,
                       size_t y_stride);

  /* y = gelu_tanh(gate) * up, elementwise over n. */
  void (*geglu)(const float *gate, const float *up, int n, float *y);
  /* y = cap * tanh(y / cap). */
  void (*softcap)(float *y, int n, float cap);
  /* e^x. */
  float (*exp)(float x);

  void (*rope)(float *x, int head_dim, int pairs, const float *cosine, const float *sine);

  /* attention.h; p has stride LAP_KEY_BLOCK, acc head_dim, bias_acc lap_kv_bias_groups. */
  float (*softmax_block)(float *s, int first, int last, float *m, float *l);
  void (*values)(const lap_kv_view *kv, int queries, int64_t slot, int n, const float *p, float *acc,
                 float *bias_acc);
  /* attend_span.h */
  void (*attend_span)(const lap_kv_view *kv, const lap_attend_queries *queries, int64_t begin, int64_t end,
                      const lap_attend_state *state, float *scratch);
  void (*attend_fold)(int queries, int head_dim, const lap_attend_state *state,
                      const lap_attend_state *later);
  void (*attend_finish)(int queries, int head_dim, const lap_attend_state *state, float *out);

  /* affine.h */
  void (*affine_quantize_row)(const float *x, int n, int bits, int group_size, lap_format format,
                              unsigned char *codes, void *scales, void *biases);
  /* kv_planes.h */
  void (*kv_write)(int bits, int group_size, int head_dim, int kv_heads, const lap_kv_planes *planes,
                   int64_t position, int kv_head, const float *k, const float *v);
} lap_kernels;

extern const lap_kernels lap_kernels_portable;
#if defined(__x86_64__)
extern const lap_kernels lap_kernels_avx2;
extern const lap_kernels lap_kernels_avx512;
#elif defined(__aarch64__)
extern const lap_kernels lap_kernels_neon;
#endif

/* The tables that there are for this kind of processor, the fastest first, ended by NULL. */
extern const lap_kernels *const lap_kernels_built[];

/* This very processor has what the table needs. */
bool lap_kernels_run_here(const lap_kernels *kernels);

/* The table for this processor, or the one called `name` (portable, avx2, avx512, neon) if that is not NULL.
 * Errors: ARGUMENT (unknown name), UNSUPPORTED (the processor lacks it). */
lap_status lap_kernels_select(const char *name, const lap_kernels **out, lap_error *error);

#endif
