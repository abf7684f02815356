/* lanes.h: what every operation shares: virtual lanes, the tree that adds them, explicit FMA.
 *
 * Sums of floats follow one written order, whatever the instruction set (docs/numerics.md): element
 * i of a row goes to lane i mod LAP_LANES, each lane adds its elements in ascending order with fused
 * multiply-adds, and the lanes are added by halves: l[i] += l[i + 8], then + 4, + 2, + 1. AVX-512
 * holds the lanes in one register, AVX2 in two, NEON in four; plain C in an array.
 *
 * Bodies are `static inline` in headers, one file for each operation, the portable variant beside the
 * others. They depend on nothing but each other, so that generated code can include them: shapes and
 * bits are parameters, and become constants where the caller passes constants. */
#ifndef LAP_KERNELS_LANES_H
#define LAP_KERNELS_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* A file that calls the bodies by LAP_ISA(name) is compiled once for each instruction set; the compiler's
 * flags say for which; LAP_PORTABLE asks for plain C whatever they are, LAP_NO_AVX512 for at most AVX2.
 * LAP_ISA_FLAGS are the flags (and those of CMakeLists.txt). */
#if defined(__aarch64__) && !defined(LAP_PORTABLE)
#define LAP_HAVE_NEON 1
#include <arm_neon.h>
#define LAP_ISA(name) name##_neon
#define LAP_ISA_NAME  "neon"
#define LAP_ISA_FLAGS ""
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && \
    defined(__AVX512VNNI__) && defined(__FMA__) && defined(__F16C__) && !defined(LAP_PORTABLE) &&        \
    !defined(LAP_NO_AVX512)
#define LAP_HAVE_AVX512 1
#define LAP_HAVE_AVX2   1
#include <immintrin.h>
#define LAP_ISA(name)               name##_avx512
#define LAP_ISA_NAME                "avx512"
#define LAP_ISA_FLAGS               "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c"
/* Products and values differ from AVX2's in their inner parts alone, dense products (f16 and bf16 weights,
 * which memory limits) in nothing: the walk around them is the same code. */
#define lap_matmul_dense_avx512     lap_matmul_dense_avx2
#define lap_matmul_int16_avx512     lap_matmul_int16_avx2
#define lap_matmul_quantized_avx512 lap_matmul_quantized_avx2
#define lap_matmul_woven_avx512     lap_matmul_woven_avx2
#define lap_values_avx512           lap_values_avx2
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(LAP_PORTABLE)
#define LAP_HAVE_AVX2 1
#include <immintrin.h>
#define LAP_ISA(name) name##_avx2
#define LAP_ISA_NAME  "avx2"
#define LAP_ISA_FLAGS "-DLAP_NO_AVX512 -mavx2 -mfma -mf16c"
#else
#define LAP_ISA(name)   name##_portable
#define LAP_ISA_NAME    "portable"
#define LAP_IS_PORTABLE 1
#define LAP_ISA_FLAGS   "-DLAP_PORTABLE"
#endif

/* Products with 4-bit weights read codes in nibble order (quantize_row.h), but for plain C's. */
#ifdef LAP_IS_PORTABLE
#define LAP_NIBBLE_ORDER 0
#else
#define LAP_NIBBLE_ORDER 1
#endif

#define LAP_INLINE static inline __attribute__((always_inline, unused))

enum {
  LAP_LANES = 16,
  LAP_MAX_HEAD_DIM = 1024
};

/* a * b + c with one rounding: an instruction where there is one, exact software where not. */
LAP_INLINE float lap_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

LAP_INLINE float lap_tree8_portable(float l[8]) {
  for (int half = 4; half; half /= 2)
    for (int i = 0; i < half; i++) l[i] += l[i + half];
  return l[0];
}

LAP_INLINE float lap_tree16_portable(float l[LAP_LANES]) {
  for (int i = 0; i < 8; i++) l[i] += l[i + 8];
  return lap_tree8_portable(l);
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE float lap_tree4_avx2(__m128 l) {
  l = _mm_add_ps(l, _mm_movehl_ps(l, l));
  l = _mm_add_ss(l, _mm_shuffle_ps(l, l, 1));
  return _mm_cvtss_f32(l);
}

LAP_INLINE float lap_tree8_avx2(__m256 l) {
  return lap_tree4_avx2(_mm_add_ps(_mm256_castps256_ps128(l), _mm256_extractf128_ps(l, 1)));
}

/* Lanes 0..7 in `low`, 8..15 in `high`. */
LAP_INLINE float lap_tree16_avx2(__m256 low, __m256 high) {
  return lap_tree8_avx2(_mm256_add_ps(low, high));
}

/* Eight bf16 values, widened. */
LAP_INLINE __m256 lap_bf16x8_avx2(const void *p) {
  __m128i h = _mm_loadu_si128((const __m128i *)p);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

LAP_INLINE __m256 lap_f16x8_avx2(const void *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
#endif

#ifdef LAP_HAVE_AVX512
LAP_INLINE float lap_tree16_avx512(__m512 l) {
  return lap_tree16_avx2(_mm512_castps512_ps256(l), _mm512_extractf32x8_ps(l, 1));
}

/* The first n lanes, all of them for 16 and more. */
LAP_INLINE __mmask16 lap_first_avx512(int n) {
  return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

/* `low` in lanes 0..7, `high` in 8..15. */
LAP_INLINE __m512 lap_join_avx512(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

LAP_INLINE __m512i lap_join_i_avx512(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
#endif

#ifdef LAP_HAVE_NEON
LAP_INLINE float lap_tree4_neon(float32x4_t l) {
  float32x2_t half = vadd_f32(vget_low_f32(l), vget_high_f32(l));
  return vget_lane_f32(half, 0) + vget_lane_f32(half, 1);
}

/* Lanes 0..3 in `low`, 4..7 in `high`. */
LAP_INLINE float lap_tree8_neon(float32x4_t low, float32x4_t high) {
  return lap_tree4_neon(vaddq_f32(low, high));
}

/* Lanes 4i..4i+3 in l[i]. */
LAP_INLINE float lap_tree16_neon(const float32x4_t l[4]) {
  return lap_tree8_neon(vaddq_f32(l[0], l[2]), vaddq_f32(l[1], l[3]));
}

LAP_INLINE void lap_store16_neon(float lane[LAP_LANES], const float32x4_t l[4]) {
  for (int i = 0; i < 4; i++) vst1q_f32(lane + 4 * i, l[i]);
}

/* Loads at any alignment. */
LAP_INLINE float32x4_t lap_f32x4_neon(const void *p) {
  return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p));
}

LAP_INLINE int16x8_t lap_i16x8_neon(const void *p) {
  return vreinterpretq_s16_u8(vld1q_u8((const uint8_t *)p));
}

LAP_INLINE float32x4_t lap_bf16x4_neon(const void *p) {
  uint16x4_t h = vreinterpret_u16_u8(vld1_u8((const uint8_t *)p));
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(h), 16));
}

LAP_INLINE float32x4_t lap_f16x4_neon(const void *p) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)p)));
}

/* Eight int16, widened. */
LAP_INLINE float32x4_t lap_low_floats_neon(int16x8_t v) {
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(v)));
}

LAP_INLINE float32x4_t lap_high_floats_neon(int16x8_t v) {
  return vcvtq_f32_s32(vmovl_high_s16(v));
}
#endif

#endif
