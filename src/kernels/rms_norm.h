/* rms_norm.h: y = x / sqrt(mean(x^2) + eps) * w, w as it is (no 1 + w).
 *
 * The sum of squares is in 16 lanes (lanes.h). Without weights y = x * r. */
#ifndef LAP_KERNELS_RMS_NORM_H
#define LAP_KERNELS_RMS_NORM_H

#include "kernels/lanes.h"

LAP_INLINE float lap_square_sum_portable(const float *x, int n) {
  float lane[LAP_LANES] = {0};
  for (int i = 0; i < n; i++) lane[i % LAP_LANES] = lap_fma(x[i], x[i], lane[i % LAP_LANES]);
  return lap_tree16_portable(lane);
}

LAP_INLINE float lap_rms_factor(float square_sum, int n, float eps) {
  return 1.0f / sqrtf(square_sum / (float)n + eps);
}

/* x, y [n]; w [n] or NULL; y may be x. */
LAP_INLINE void lap_rms_norm_portable(const float *x, const float *w, int n, float eps, float *y) {
  float r = lap_rms_factor(lap_square_sum_portable(x, n), n, eps);
  if (w) {
    for (int i = 0; i < n; i++) y[i] = x[i] * r * w[i];
  } else {
    for (int i = 0; i < n; i++) y[i] = x[i] * r;
  }
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE float lap_square_sum_avx2(const float *x, int n) {
  __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  if (n % LAP_LANES == 0) return lap_tree16_avx2(low, high);
  float lane[LAP_LANES];
  _mm256_storeu_ps(lane, low);
  _mm256_storeu_ps(lane + 8, high);
  for (; i < n; i++) lane[i % LAP_LANES] = lap_fma(x[i], x[i], lane[i % LAP_LANES]);
  return lap_tree16_portable(lane);
}

LAP_INLINE void lap_rms_norm_avx2(const float *x, const float *w, int n, float eps, float *y) {
  float r = lap_rms_factor(lap_square_sum_avx2(x, n), n, eps);
  if (w) {
    for (int i = 0; i < n; i++) y[i] = x[i] * r * w[i];
  } else {
    for (int i = 0; i < n; i++) y[i] = x[i] * r;
  }
}
#endif

#ifdef LAP_HAVE_NEON
LAP_INLINE float lap_square_sum_neon(const float *x, int n) {
  float32x4_t l[4];
  for (int k = 0; k < 4; k++) l[k] = vdupq_n_f32(0.0f);
  int i = 0;
  for (; i + LAP_LANES <= n; i += LAP_LANES)
    for (int k = 0; k < 4; k++) {
      float32x4_t v = vld1q_f32(x + i + 4 * k);
      l[k] = vfmaq_f32(l[k], v, v);
    }
  if (n % LAP_LANES == 0) return lap_tree16_neon(l);
  float lane[LAP_LANES];
  lap_store16_neon(lane, l);
  for (; i < n; i++) lane[i % LAP_LANES] = lap_fma(x[i], x[i], lane[i % LAP_LANES]);
  return lap_tree16_portable(lane);
}

LAP_INLINE void lap_rms_norm_neon(const float *x, const float *w, int n, float eps, float *y) {
  float r = lap_rms_factor(lap_square_sum_neon(x, n), n, eps);
  if (w) {
    for (int i = 0; i < n; i++) y[i] = x[i] * r * w[i];
  } else {
    for (int i = 0; i < n; i++) y[i] = x[i] * r;
  }
}
#endif

#ifdef LAP_HAVE_AVX512
LAP_INLINE float lap_square_sum_avx512(const float *x, int n) {
  __m512 l = _mm512_setzero_ps();
  for (int i = 0; i < n; i += LAP_LANES) {
    const __mmask16 live = lap_first_avx512(n - i);
    __m512 v = _mm512_maskz_loadu_ps(live, x + i);
    l = _mm512_mask3_fmadd_ps(v, v, l, live);
  }
  return lap_tree16_avx512(l);
}

LAP_INLINE void lap_rms_norm_avx512(const float *x, const float *w, int n, float eps, float *y) {
  const float r = lap_rms_factor(lap_square_sum_avx512(x, n), n, eps);
  for (int i = 0; i < n; i += LAP_LANES) {
    const __mmask16 live = lap_first_avx512(n - i);
    __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(live, x + i), _mm512_set1_ps(r));
    if (w) v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(live, w + i));
    _mm512_mask_storeu_ps(y + i, live, v);
  }
}
#endif

#endif
