/* exponential.h: the project's own exp and tanh, and what is built on them: GELU and softcap.
 *
 * Every step is an IEEE operation or an explicit FMA, elementwise, so that each instruction set gives
 * the same bits; libm's versions differ between releases and processors. Coefficients are those of
 * the Cephes library's expf and tanhf (relative error of both under 2e-7).
 *
 * exp: below -87 the result is 0 (no subnormals), above 88.3763 infinity, exp(0) == 1, NaN stays. */
#ifndef LAP_KERNELS_EXPONENTIAL_H
#define LAP_KERNELS_EXPONENTIAL_H

#include "kernels/lanes.h"

#define LAP_EXP_LOW   (-87.0f)
#define LAP_EXP_HIGH  (89.0f)
#define LAP_LOG2_E    1.44269504088896341f
#define LAP_LN2_HIGH  0.693359375f
#define LAP_LN2_LOW   (-2.12194440e-4f)
#define LAP_ROUNDER   12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
#define LAP_EXP_P0    1.9875691500e-4f
#define LAP_EXP_P1    1.3981999507e-3f
#define LAP_EXP_P2    8.3334519073e-3f
#define LAP_EXP_P3    4.1665795894e-2f
#define LAP_EXP_P4    1.6666665459e-1f
#define LAP_EXP_P5    5.0000001201e-1f
#define LAP_TANH_EDGE 0.625f
#define LAP_TANH_P0   (-5.70498872745e-3f)
#define LAP_TANH_P1   2.06390887954e-2f
#define LAP_TANH_P2   (-5.37397155531e-2f)
#define LAP_TANH_P3   1.33314422036e-1f
#define LAP_TANH_P4   (-3.33332819422e-1f)
#define LAP_GELU_CUBE 0.044715f
#define LAP_GELU_EDGE (-1.59576912160573f) /* -2 sqrt(2/pi) */

LAP_INLINE float lap_exp_portable(float x) {
  float bounded = LAP_EXP_HIGH < x ? LAP_EXP_HIGH : x;
  bounded = LAP_EXP_LOW > bounded ? LAP_EXP_LOW : bounded;
  float shifted = lap_fma(bounded, LAP_LOG2_E, LAP_ROUNDER);
  float n = shifted - LAP_ROUNDER;
  float r = lap_fma(n, -LAP_LN2_HIGH, bounded);
  r = lap_fma(n, -LAP_LN2_LOW, r);
  float p = LAP_EXP_P0;
  p = lap_fma(p, r, LAP_EXP_P1);
  p = lap_fma(p, r, LAP_EXP_P2);
  p = lap_fma(p, r, LAP_EXP_P3);
  p = lap_fma(p, r, LAP_EXP_P4);
  p = lap_fma(p, r, LAP_EXP_P5);
  p = lap_fma(p, r * r, r) + 1.0f;
  float power = lap_f32_from_bits((lap_f32_bits(shifted) - 0x4b400000u + 127u) << 23);
  float y = p * power;
  return x < LAP_EXP_LOW ? 0.0f : y;
}

LAP_INLINE float lap_tanh_portable(float x) {
  float magnitude = fabsf(x);
  float square = x * x;
  float p = LAP_TANH_P0;
  p = lap_fma(p, square, LAP_TANH_P1);
  p = lap_fma(p, square, LAP_TANH_P2);
  p = lap_fma(p, square, LAP_TANH_P3);
  p = lap_fma(p, square, LAP_TANH_P4);
  float near_zero = lap_fma(p * square, x, x);
  float e = lap_exp_portable(magnitude + magnitude);
  float far = copysignf(1.0f - 2.0f / (e + 1.0f), x);
  return magnitude < LAP_TANH_EDGE ? near_zero : far;
}

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as x times a logistic function, which keeps the
 * relative precision of small values. */
LAP_INLINE float lap_gelu_portable(float x) {
  float inner = lap_fma(x * x, LAP_GELU_CUBE, 1.0f);
  float e = lap_exp_portable(x * inner * LAP_GELU_EDGE);
  return x / (1.0f + e);
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE __m256 lap_exp_avx2(__m256 x) {
  const __m256 low = _mm256_set1_ps(LAP_EXP_LOW);
  const __m256 rounder = _mm256_set1_ps(LAP_ROUNDER);
  /* min and max return the second operand when one is NaN, as the comparisons above do. */
  __m256 bounded = _mm256_max_ps(low, _mm256_min_ps(_mm256_set1_ps(LAP_EXP_HIGH), x));
  __m256 shifted = _mm256_fmadd_ps(bounded, _mm256_set1_ps(LAP_LOG2_E), rounder);
  __m256 n = _mm256_sub_ps(shifted, rounder);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-LAP_LN2_HIGH), bounded);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-LAP_LN2_LOW), r);
  __m256 p = _mm256_set1_ps(LAP_EXP_P0);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(LAP_EXP_P1));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(LAP_EXP_P2));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(LAP_EXP_P3));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(LAP_EXP_P4));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(LAP_EXP_P5));
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  __m256i exponent = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127 - 0x4b400000));
  __m256 y = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  return _mm256_andnot_ps(_mm256_cmp_ps(x, low, _CMP_LT_OQ), y);
}

LAP_INLINE __m256 lap_tanh_avx2(__m256 x) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  const __m256 one = _mm256_set1_ps(1.0f);
  __m256 magnitude = _mm256_andnot_ps(sign_bit, x);
  __m256 square = _mm256_mul_ps(x, x);
  __m256 p = _mm256_set1_ps(LAP_TANH_P0);
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(LAP_TANH_P1));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(LAP_TANH_P2));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(LAP_TANH_P3));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(LAP_TANH_P4));
  __m256 near_zero = _mm256_fmadd_ps(_mm256_mul_ps(p, square), x, x);
  __m256 e = lap_exp_avx2(_mm256_add_ps(magnitude, magnitude));
  __m256 far = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
  far = _mm256_or_ps(_mm256_andnot_ps(sign_bit, far), _mm256_and_ps(sign_bit, x));
  return _mm256_blendv_ps(far, near_zero,
                          _mm256_cmp_ps(magnitude, _mm256_set1_ps(LAP_TANH_EDGE), _CMP_LT_OQ));
}

LAP_INLINE __m256 lap_gelu_avx2(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  __m256 inner = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(LAP_GELU_CUBE), one);
  __m256 e = lap_exp_avx2(_mm256_mul_ps(_mm256_mul_ps(x, inner), _mm256_set1_ps(LAP_GELU_EDGE)));
  return _mm256_div_ps(x, _mm256_add_ps(one, e));
}
#endif

/* y[i] = gelu(gate[i]) * up[i]; y may be gate or up. */
LAP_INLINE void lap_geglu_portable(const float *gate, const float *up, int n, float *y) {
  for (int i = 0; i < n; i++) y[i] = lap_gelu_portable(gate[i]) * up[i];
}

/* y[i] = cap * tanh(y[i] / cap). */
LAP_INLINE void lap_softcap_portable(float *y, int n, float cap) {
  for (int i = 0; i < n; i++) y[i] = cap * lap_tanh_portable(y[i] / cap);
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE void lap_geglu_avx2(const float *gate, const float *up, int n, float *y) {
  int i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_mul_ps(lap_gelu_avx2(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
  lap_geglu_portable(gate + i, up + i, n - i, y + i);
}

LAP_INLINE void lap_softcap_avx2(float *y, int n, float cap) {
  const __m256 caps = _mm256_set1_ps(cap);
  int i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_mul_ps(caps, lap_tanh_avx2(_mm256_div_ps(_mm256_loadu_ps(y + i), caps))));
  lap_softcap_portable(y + i, n - i, cap);
}
#endif

#ifdef LAP_HAVE_NEON
/* a * b + c */
LAP_INLINE float32x4_t lap_fma_neon(float32x4_t a, float32x4_t b, float32x4_t c) {
  return vfmaq_f32(c, a, b);
}

/* A NaN passes through min and max here, as it does through the comparisons of the portable variant. */
LAP_INLINE float32x4_t lap_exp_neon(float32x4_t x) {
  const float32x4_t low = vdupq_n_f32(LAP_EXP_LOW), rounder = vdupq_n_f32(LAP_ROUNDER);
  float32x4_t bounded = vmaxq_f32(low, vminq_f32(vdupq_n_f32(LAP_EXP_HIGH), x));
  float32x4_t shifted = lap_fma_neon(bounded, vdupq_n_f32(LAP_LOG2_E), rounder);
  float32x4_t n = vsubq_f32(shifted, rounder);
  float32x4_t r = lap_fma_neon(n, vdupq_n_f32(-LAP_LN2_HIGH), bounded);
  r = lap_fma_neon(n, vdupq_n_f32(-LAP_LN2_LOW), r);
  float32x4_t p = vdupq_n_f32(LAP_EXP_P0);
  p = lap_fma_neon(p, r, vdupq_n_f32(LAP_EXP_P1));
  p = lap_fma_neon(p, r, vdupq_n_f32(LAP_EXP_P2));
  p = lap_fma_neon(p, r, vdupq_n_f32(LAP_EXP_P3));
  p = lap_fma_neon(p, r, vdupq_n_f32(LAP_EXP_P4));
  p = lap_fma_neon(p, r, vdupq_n_f32(LAP_EXP_P5));
  p = vaddq_f32(lap_fma_neon(p, vmulq_f32(r, r), r), vdupq_n_f32(1.0f));
  int32x4_t exponent = vaddq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(127 - 0x4b400000));
  float32x4_t y = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y), vcltq_f32(x, low)));
}

LAP_INLINE float32x4_t lap_tanh_neon(float32x4_t x) {
  const float32x4_t one = vdupq_n_f32(1.0f);
  float32x4_t magnitude = vabsq_f32(x), square = vmulq_f32(x, x);
  float32x4_t p = vdupq_n_f32(LAP_TANH_P0);
  p = lap_fma_neon(p, square, vdupq_n_f32(LAP_TANH_P1));
  p = lap_fma_neon(p, square, vdupq_n_f32(LAP_TANH_P2));
  p = lap_fma_neon(p, square, vdupq_n_f32(LAP_TANH_P3));
  p = lap_fma_neon(p, square, vdupq_n_f32(LAP_TANH_P4));
  float32x4_t near_zero = lap_fma_neon(vmulq_f32(p, square), x, x);
  float32x4_t e = lap_exp_neon(vaddq_f32(magnitude, magnitude));
  float32x4_t far = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2.0f), vaddq_f32(e, one)));
  far = vbslq_f32(vdupq_n_u32(0x80000000u), x, far);
  return vbslq_f32(vcltq_f32(magnitude, vdupq_n_f32(LAP_TANH_EDGE)), near_zero, far);
}

LAP_INLINE float32x4_t lap_gelu_neon(float32x4_t x) {
  const float32x4_t one = vdupq_n_f32(1.0f);
  float32x4_t inner = lap_fma_neon(vmulq_f32(x, x), vdupq_n_f32(LAP_GELU_CUBE), one);
  float32x4_t e = lap_exp_neon(vmulq_f32(vmulq_f32(x, inner), vdupq_n_f32(LAP_GELU_EDGE)));
  return vdivq_f32(x, vaddq_f32(one, e));
}

LAP_INLINE void lap_geglu_neon(const float *gate, const float *up, int n, float *y) {
  int i = 0;
  for (; i + 4 <= n; i += 4)
    vst1q_f32(y + i, vmulq_f32(lap_gelu_neon(vld1q_f32(gate + i)), vld1q_f32(up + i)));
  lap_geglu_portable(gate + i, up + i, n - i, y + i);
}

LAP_INLINE void lap_softcap_neon(float *y, int n, float cap) {
  const float32x4_t caps = vdupq_n_f32(cap);
  int i = 0;
  for (; i + 4 <= n; i += 4)
    vst1q_f32(y + i, vmulq_f32(caps, lap_tanh_neon(vdivq_f32(vld1q_f32(y + i), caps))));
  lap_softcap_portable(y + i, n - i, cap);
}
#endif

#ifdef LAP_HAVE_AVX512
LAP_INLINE __m512 lap_exp_avx512(__m512 x) {
  const __m512 low = _mm512_set1_ps(LAP_EXP_LOW), rounder = _mm512_set1_ps(LAP_ROUNDER);
  /* min and max return the second operand when one is NaN, as in the other variants. */
  __m512 bounded = _mm512_max_ps(low, _mm512_min_ps(_mm512_set1_ps(LAP_EXP_HIGH), x));
  __m512 shifted = _mm512_fmadd_ps(bounded, _mm512_set1_ps(LAP_LOG2_E), rounder);
  __m512 n = _mm512_sub_ps(shifted, rounder);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LAP_LN2_HIGH), bounded);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-LAP_LN2_LOW), r);
  __m512 p = _mm512_set1_ps(LAP_EXP_P0);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(LAP_EXP_P1));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(LAP_EXP_P2));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(LAP_EXP_P3));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(LAP_EXP_P4));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(LAP_EXP_P5));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  __m512i exponent = _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(127 - 0x4b400000));
  __m512 y = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, low, _CMP_NLT_UQ), y);
}

LAP_INLINE __m512 lap_tanh_avx512(__m512 x) {
  const __m512 sign_bit = _mm512_set1_ps(-0.0f), one = _mm512_set1_ps(1.0f);
  __m512 magnitude = _mm512_andnot_ps(sign_bit, x), square = _mm512_mul_ps(x, x);
  __m512 p = _mm512_set1_ps(LAP_TANH_P0);
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(LAP_TANH_P1));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(LAP_TANH_P2));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(LAP_TANH_P3));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(LAP_TANH_P4));
  __m512 near_zero = _mm512_fmadd_ps(_mm512_mul_ps(p, square), x, x);
  __m512 e = lap_exp_avx512(_mm512_add_ps(magnitude, magnitude));
  __m512 far = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(e, one)));
  far = _mm512_or_ps(_mm512_andnot_ps(sign_bit, far), _mm512_and_ps(sign_bit, x));
  return _mm512_mask_mov_ps(far, _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(LAP_TANH_EDGE), _CMP_LT_OQ),
                            near_zero);
}

LAP_INLINE __m512 lap_gelu_avx512(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  __m512 inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(LAP_GELU_CUBE), one);
  __m512 e = lap_exp_avx512(_mm512_mul_ps(_mm512_mul_ps(x, inner), _mm512_set1_ps(LAP_GELU_EDGE)));
  return _mm512_div_ps(x, _mm512_add_ps(one, e));
}

LAP_INLINE void lap_geglu_avx512(const float *gate, const float *up, int n, float *y) {
  for (int i = 0; i < n; i += 16) {
    const __mmask16 live = lap_first_avx512(n - i);
    __m512 v = lap_gelu_avx512(_mm512_maskz_loadu_ps(live, gate + i));
    _mm512_mask_storeu_ps(y + i, live, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(live, up + i)));
  }
}

LAP_INLINE void lap_softcap_avx512(float *y, int n, float cap) {
  const __m512 caps = _mm512_set1_ps(cap);
  for (int i = 0; i < n; i += 16) {
    const __mmask16 live = lap_first_avx512(n - i);
    __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(live, y + i), caps);
    _mm512_mask_storeu_ps(y + i, live, _mm512_mul_ps(caps, lap_tanh_avx512(v)));
  }
}
#endif

#endif
