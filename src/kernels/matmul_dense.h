/* matmul_dense.h: y = x W^T over bf16, f16 or f32 weights, x in f32.
 *
 * Each output is a sum over 16 lanes (lanes.h): element i to lane i mod 16, FMA in ascending order,
 * lanes added by halves. The same bodies compute attention scores over plain caches. */
#ifndef LAP_KERNELS_MATMUL_DENSE_H
#define LAP_KERNELS_MATMUL_DENSE_H

#include "kernels/format.h"

typedef struct lap_dmatrix {
  const unsigned char *weight; /* row r at weight + r * row_bytes */
  size_t row_bytes;
  int cols;
  lap_format format;
} lap_dmatrix;

LAP_INLINE float lap_ddot_portable(const lap_format format, const lap_dmatrix *w, int row, const float *x) {
  const unsigned char *p = w->weight + (size_t)row * w->row_bytes;
  float lane[LAP_LANES] = {0};
  for (int i = 0; i < w->cols; i++)
    lane[i % LAP_LANES] = lap_fma(x[i], lap_format_load(format, p, (size_t)i), lane[i % LAP_LANES]);
  return lap_tree16_portable(lane);
}

/* x [x_rows] rows of x_stride floats; y[t * y_stride + r] for rows first..last-1 of W. */
LAP_INLINE void lap_matmul_dense_portable(const lap_format format, const lap_dmatrix *w, const float *x,
                                          size_t x_stride, int x_rows, int first, int last, float *y,
                                          size_t y_stride) {
  for (int t = 0; t < x_rows; t++)
    for (int r = first; r < last; r++)
      y[(size_t)t * y_stride + (size_t)r] = lap_ddot_portable(format, w, r, x + (size_t)t * x_stride);
}

#ifdef LAP_HAVE_AVX2
enum {
  LAP_D_TILE = 4
};

LAP_INLINE void lap_ddots_avx2(const lap_format format, const int tokens, const lap_dmatrix *w, int row,
                               const float *x, size_t x_stride, float *out) {
  const unsigned char *p = w->weight + (size_t)row * w->row_bytes;
  __m256 low[LAP_D_TILE], high[LAP_D_TILE];
  for (int t = 0; t < tokens; t++) low[t] = high[t] = _mm256_setzero_ps();
  int i = 0;
  for (; i + 16 <= w->cols; i += 16) {
    _mm_prefetch((const char *)p + (size_t)i * lap_format_bytes(format) + 2048, _MM_HINT_T0);
    __m256 a = lap_format_load8_avx2(format, p, (size_t)i);
    __m256 b = lap_format_load8_avx2(format, p, (size_t)i + 8);
    for (int t = 0; t < tokens; t++) {
      const float *v = x + (size_t)t * x_stride + i;
      low[t] = _mm256_fmadd_ps(_mm256_loadu_ps(v), a, low[t]);
      high[t] = _mm256_fmadd_ps(_mm256_loadu_ps(v + 8), b, high[t]);
    }
  }
  for (int t = 0; t < tokens; t++) {
    if (w->cols % LAP_LANES == 0) {
      out[t] = lap_tree16_avx2(low[t], high[t]);
      continue;
    }
    float lane[LAP_LANES];
    _mm256_storeu_ps(lane, low[t]);
    _mm256_storeu_ps(lane + 8, high[t]);
    for (int rest = i; rest < w->cols; rest++)
      lane[rest % LAP_LANES] = lap_fma(x[(size_t)t * x_stride + (size_t)rest],
                                       lap_format_load(format, p, (size_t)rest), lane[rest % LAP_LANES]);
    out[t] = lap_tree16_portable(lane);
  }
}

LAP_INLINE void lap_matmul_dense_avx2(const lap_format format, const lap_dmatrix *w, const float *x,
                                      size_t x_stride, int x_rows, int first, int last, float *y,
                                      size_t y_stride) {
  enum {
    STRIP = 16
  };
  for (int strip = first; strip < last; strip += STRIP) {
    int end = strip + STRIP < last ? strip + STRIP : last;
    for (int t = 0; t < x_rows;) {
      int tokens = x_rows - t >= LAP_D_TILE ? LAP_D_TILE : 1;
      const float *v = x + (size_t)t * x_stride;
      float out[LAP_D_TILE];
      for (int r = strip; r < end; r++) {
        if (tokens == LAP_D_TILE) {
          lap_ddots_avx2(format, LAP_D_TILE, w, r, v, x_stride, out);
        } else {
          lap_ddots_avx2(format, 1, w, r, v, x_stride, out);
        }
        for (int i = 0; i < tokens; i++) y[(size_t)(t + i) * y_stride + (size_t)r] = out[i];
      }
      t += tokens;
    }
  }
}
#endif

#ifdef LAP_HAVE_NEON
enum {
  LAP_D_TILE = 4
};

/* One row of W against `tokens` rows of x: y[t * y_stride]. */
LAP_INLINE void lap_ddots_neon(const lap_format format, const int tokens, const lap_dmatrix *w, int row,
                               const float *x, size_t x_stride, float *y, size_t y_stride) {
  const unsigned char *p = w->weight + (size_t)row * w->row_bytes;
  float32x4_t l[LAP_D_TILE][4];
  for (int t = 0; t < tokens; t++)
    for (int k = 0; k < 4; k++) l[t][k] = vdupq_n_f32(0.0f);
  int i = 0;
  for (; i + LAP_LANES <= w->cols; i += LAP_LANES)
    for (int k = 0; k < 4; k++) {
      float32x4_t a = lap_format_load4_neon(format, p, (size_t)(i + 4 * k));
      for (int t = 0; t < tokens; t++)
        l[t][k] = vfmaq_f32(l[t][k], vld1q_f32(x + (size_t)t * x_stride + i + 4 * k), a);
    }
  for (int t = 0; t < tokens; t++) {
    float lane[LAP_LANES];
    lap_store16_neon(lane, l[t]);
    for (int rest = i; rest < w->cols; rest++)
      lane[rest % LAP_LANES] = lap_fma(x[(size_t)t * x_stride + (size_t)rest],
                                       lap_format_load(format, p, (size_t)rest), lane[rest % LAP_LANES]);
    y[(size_t)t * y_stride] = w->cols % LAP_LANES == 0 ? lap_tree16_neon(l[t]) : lap_tree16_portable(lane);
  }
}

/* A row of W stays in the first cache while the rows of x pass. */
LAP_INLINE void lap_matmul_dense_neon(const lap_format format, const lap_dmatrix *w, const float *x,
                                      size_t x_stride, int x_rows, int first, int last, float *y,
                                      size_t y_stride) {
  for (int r = first; r < last; r++) {
    int t = 0;
    for (; t + LAP_D_TILE <= x_rows; t += LAP_D_TILE)
      lap_ddots_neon(format, LAP_D_TILE, w, r, x + (size_t)t * x_stride, x_stride,
                     y + (size_t)t * y_stride + r, y_stride);
    for (; t < x_rows; t++)
      lap_ddots_neon(format, 1, w, r, x + (size_t)t * x_stride, x_stride, y + (size_t)t * y_stride + r,
                     y_stride);
  }
}
#endif

#endif
