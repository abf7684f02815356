/* matmul_int16.h: y = x W^T over int16 rows with a scale for each group, x in f32: the scores of a
 * plain cache.
 *
 * An element of W is scale * code, rounded once to f32; the sum has the order of matmul_dense.h:
 * element i to lane i mod 16, FMA in ascending order, lanes added by halves. */
#ifndef LAP_KERNELS_MATMUL_INT16_H
#define LAP_KERNELS_MATMUL_INT16_H

#include "kernels/lanes.h"

typedef struct lap_imatrix {
  const unsigned char *codes;  /* row r at + r * row_bytes */
  const unsigned char *scales; /* row r at + r * scale_bytes, f32 */
  size_t row_bytes;
  size_t scale_bytes;
  int cols;
  int group_size; /* a multiple of 16 */
} lap_imatrix;

/* x [x_rows] rows of x_stride floats; y[t * y_stride + r] for rows 0..rows-1 of W. */
LAP_INLINE void lap_matmul_int16_portable(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows,
                                          int rows, float *y, size_t y_stride) {
  for (int t = 0; t < x_rows; t++) {
    const float *v = x + (size_t)t * x_stride;
    for (int r = 0; r < rows; r++) {
      const unsigned char *codes = w->codes + (size_t)r * w->row_bytes;
      const unsigned char *scales = w->scales + (size_t)r * w->scale_bytes;
      float lane[LAP_LANES] = {0};
      for (int i = 0; i < w->cols; i++) {
        float scale = lap_load_f32(scales + 4 * (i / w->group_size));
        float element = scale * (float)(int16_t)lap_load_u16(codes + 2 * i);
        lane[i % LAP_LANES] = lap_fma(v[i], element, lane[i % LAP_LANES]);
      }
      y[(size_t)t * y_stride + (size_t)r] = lap_tree16_portable(lane);
    }
  }
}

#ifdef LAP_HAVE_AVX2
/* One row of W against `tokens` (at most 4) rows of x. */
LAP_INLINE void lap_idots_avx2(const int tokens, const lap_imatrix *w, int row, const float *x,
                               size_t x_stride, float *out) {
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const unsigned char *scales = w->scales + (size_t)row * w->scale_bytes;
  __m256 low[4], high[4];
  for (int t = 0; t < tokens; t++) low[t] = high[t] = _mm256_setzero_ps();
  for (int group = 0; group < w->cols; group += w->group_size, scales += 4) {
    const __m256 scale = _mm256_set1_ps(lap_load_f32(scales));
    for (int i = group; i < group + w->group_size; i += 16) {
      const __m128i *words = (const __m128i *)(const void *)(codes + 2 * i);
      __m256 a = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(words))));
      __m256 b = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(words + 1))));
      for (int t = 0; t < tokens; t++) {
        const float *v = x + (size_t)t * x_stride + i;
        low[t] = _mm256_fmadd_ps(_mm256_loadu_ps(v), a, low[t]);
        high[t] = _mm256_fmadd_ps(_mm256_loadu_ps(v + 8), b, high[t]);
      }
    }
  }
  for (int t = 0; t < tokens; t++) out[t] = lap_tree16_avx2(low[t], high[t]);
}

#ifdef LAP_HAVE_AVX512
LAP_INLINE void lap_idots_avx512(const int tokens, const lap_imatrix *w, int row, const float *x,
                                 size_t x_stride, float *out) {
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const unsigned char *scales = w->scales + (size_t)row * w->scale_bytes;
  __m512 l[4];
  for (int t = 0; t < tokens; t++) l[t] = _mm512_setzero_ps();
  for (int group = 0; group < w->cols; group += w->group_size, scales += 4) {
    const __m512 scale = _mm512_set1_ps(lap_load_f32(scales));
    for (int i = group; i < group + w->group_size; i += LAP_LANES) {
      __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(codes + 2 * i));
      __m512 a = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(words)));
      for (int t = 0; t < tokens; t++)
        l[t] = _mm512_fmadd_ps(_mm512_loadu_ps(x + (size_t)t * x_stride + i), a, l[t]);
    }
  }
  for (int t = 0; t < tokens; t++) out[t] = lap_tree16_avx512(l[t]);
}
#endif

LAP_INLINE void lap_matmul_int16_avx2(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows,
                                      int rows, float *y, size_t y_stride) {
  for (int t = 0; t < x_rows;) {
    int tokens = x_rows - t >= 4 ? 4 : 1;
    const float *v = x + (size_t)t * x_stride;
    float out[4];
    for (int r = 0; r < rows; r++) {
      if (tokens == 4) {
        LAP_ISA(lap_idots)(4, w, r, v, x_stride, out);
      } else {
        LAP_ISA(lap_idots)(1, w, r, v, x_stride, out);
      }
      for (int i = 0; i < tokens; i++) y[(size_t)(t + i) * y_stride + (size_t)r] = out[i];
    }
    t += tokens;
  }
}
#endif

#ifdef LAP_HAVE_NEON
enum {
  LAP_I_TILE = 4
};

/* One row of W against `tokens` rows of x: y[t * y_stride]. */
LAP_INLINE void lap_idots_neon(const int tokens, const lap_imatrix *w, int row, const float *x,
                               size_t x_stride, float *y, size_t y_stride) {
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const unsigned char *scales = w->scales + (size_t)row * w->scale_bytes;
  float32x4_t l[LAP_I_TILE][4];
  for (int t = 0; t < tokens; t++)
    for (int k = 0; k < 4; k++) l[t][k] = vdupq_n_f32(0.0f);
  for (int group = 0; group < w->cols; group += w->group_size, scales += 4) {
    const float scale = lap_load_f32(scales);
    for (int i = group; i < group + w->group_size; i += LAP_LANES)
      for (int k = 0; k < 4; k += 2) {
        int16x8_t words = lap_i16x8_neon(codes + 2 * (i + 4 * k));
        float32x4_t a = vmulq_n_f32(lap_low_floats_neon(words), scale);
        float32x4_t b = vmulq_n_f32(lap_high_floats_neon(words), scale);
        for (int t = 0; t < tokens; t++) {
          const float *v = x + (size_t)t * x_stride + i + 4 * k;
          l[t][k] = vfmaq_f32(l[t][k], vld1q_f32(v), a);
          l[t][k + 1] = vfmaq_f32(l[t][k + 1], vld1q_f32(v + 4), b);
        }
      }
  }
  for (int t = 0; t < tokens; t++) y[(size_t)t * y_stride] = lap_tree16_neon(l[t]);
}

LAP_INLINE void lap_matmul_int16_neon(const lap_imatrix *w, const float *x, size_t x_stride, int x_rows,
                                      int rows, float *y, size_t y_stride) {
  for (int r = 0; r < rows; r++) {
    int t = 0;
    for (; t + LAP_I_TILE <= x_rows; t += LAP_I_TILE)
      lap_idots_neon(LAP_I_TILE, w, r, x + (size_t)t * x_stride, x_stride, y + (size_t)t * y_stride + r,
                     y_stride);
    for (; t < x_rows; t++)
      lap_idots_neon(1, w, r, x + (size_t)t * x_stride, x_stride, y + (size_t)t * y_stride + r, y_stride);
  }
}
#endif

#endif
