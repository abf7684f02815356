/* quantize_row.h: a row of activations as int16 in blocks, for exact integer dot products.
 *
 * A block (64 values, or 32 where the weight's group is 32) has one scale, amax / 32767; values are
 * rounded to nearest even: q = rne(x * (32767 / amax)), |q| <= 32767. Beside q the block keeps its
 * sum as an integer and as scale * sum, which carry the weights' biases through the product.
 *
 * A block of magnitude under 1e-30 is all zero (its scale's inverse would overflow); a block that
 * holds a NaN or an infinity has scale NaN and q = 0, so that the fault shows in the logits instead
 * of hiding in an integer.
 *
 * 16-bit words of packed 4-bit weights hold elements 4i..4i+3, so masking and shifting a register of
 * them gives elements of stride four; `nibble` is q in that order: within each 64, element 4i + k
 * stands at 16k + i. It is written only if wanted. */
#ifndef LAP_KERNELS_QUANTIZE_ROW_H
#define LAP_KERNELS_QUANTIZE_ROW_H

#include "kernels/lanes.h"

/* One quantized row; [padded] = n rounded up to 64, padding zero. */
typedef struct lap_qrow {
  int16_t *q;        /* [padded] natural order */
  int16_t *nibble;   /* [padded] or NULL */
  float *scale;      /* [n / block] */
  float *scaled_sum; /* [n / block] scale * sum of q */
  int32_t *sum;      /* [n / block] */
} lap_qrow;

#define LAP_Q_MAX     32767.0f
#define LAP_Q_TINY    1e-30f
#define LAP_Q_ROUNDER 12582912.0f

/* Scale and inverse of a block from the bits of its largest magnitude (integer order of
 * non-negative floats is their order, with NaN above infinity). Returns false for a block of zeros
 * or of faults. */
LAP_INLINE int lap_qblock_scale(uint32_t amax_bits, float *scale, float *inverse) {
  float amax = lap_f32_from_bits(amax_bits);
  if (amax_bits >= 0x7f800000u) {
    *scale = lap_f32_from_bits(0x7fc00000u);
    return 0;
  }
  if (amax < LAP_Q_TINY) {
    *scale = 0.0f;
    return 0;
  }
  *scale = amax / LAP_Q_MAX;
  *inverse = LAP_Q_MAX / amax;
  return 1;
}

LAP_INLINE void lap_qblock_finish(const lap_qrow *row, int b, float scale, int32_t sum) {
  row->scale[b] = scale;
  row->sum[b] = sum;
  row->scaled_sum[b] = scale * (float)sum;
}

LAP_INLINE void lap_nibble_order_portable(const int16_t *q, int padded, int16_t *nibble) {
  for (int base = 0; base < padded; base += 64)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 16; i++) nibble[base + 16 * k + i] = q[base + 4 * i + k];
}

/* x [n], n a multiple of block, block 32 or 64. */
LAP_INLINE void lap_quantize_row_portable(const float *x, int n, int block, const lap_qrow *row) {
  int padded = (n + 63) / 64 * 64;
  for (int b = 0; b < n / block; b++) {
    const float *v = x + (size_t)b * block;
    int16_t *q = row->q + (size_t)b * block;
    uint32_t amax_bits = 0;
    for (int i = 0; i < block; i++) {
      uint32_t bits = lap_f32_bits(v[i]) & 0x7fffffffu;
      if (bits > amax_bits) amax_bits = bits;
    }
    float scale, inverse;
    int32_t sum = 0;
    if (lap_qblock_scale(amax_bits, &scale, &inverse)) {
      for (int i = 0; i < block; i++) {
        /* Adding and subtracting 1.5 * 2^23 rounds to nearest even. */
        float rounded = (v[i] * inverse + LAP_Q_ROUNDER) - LAP_Q_ROUNDER;
        q[i] = (int16_t)rounded;
        sum += q[i];
      }
    } else {
      memset(q, 0, (size_t)block * sizeof *q);
    }
    lap_qblock_finish(row, b, scale, sum);
  }
  memset(row->q + n, 0, (size_t)(padded - n) * sizeof *row->q);
  if (row->nibble) lap_nibble_order_portable(row->q, padded, row->nibble);
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE uint32_t lap_amax_bits_avx2(const float *v, int block) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i top = _mm256_setzero_si256();
  for (int i = 0; i < block; i += 8)
    top = _mm256_max_epi32(
        top, _mm256_and_si256(magnitude, _mm256_loadu_si256((const __m256i *)(const void *)(v + i))));
  __m128i t = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
  t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  t = _mm_max_epi32(t, _mm_shuffle_epi32(t, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(t);
}

LAP_INLINE int32_t lap_hsum_epi32_avx2(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

/* 64 int16 in natural order to nibble order: element 4i + k to 16k + i. */
LAP_INLINE void lap_nibble_order64_avx2(const int16_t *q, int16_t *nibble) {
  /* Within 8 values (two words of four): [0 4 | 1 5 | 2 6 | 3 7] as four 32-bit pairs. */
  const __m256i pairs = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2,
                                         3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  const __m256i gather = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i v[4];
  for (int i = 0; i < 4; i++) {
    __m256i s = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(q + 16 * i)), pairs);
    v[i] = _mm256_permutevar8x32_epi32(s, gather); /* 64-bit parts k = 0..3, four values each */
  }
  __m256i a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
  __m256i c = _mm256_unpacklo_epi64(v[2], v[3]), d = _mm256_unpackhi_epi64(v[2], v[3]);
  _mm256_storeu_si256((__m256i *)(void *)(nibble + 0), _mm256_permute2x128_si256(a, c, 0x20));
  _mm256_storeu_si256((__m256i *)(void *)(nibble + 16), _mm256_permute2x128_si256(b, d, 0x20));
  _mm256_storeu_si256((__m256i *)(void *)(nibble + 32), _mm256_permute2x128_si256(a, c, 0x31));
  _mm256_storeu_si256((__m256i *)(void *)(nibble + 48), _mm256_permute2x128_si256(b, d, 0x31));
}

LAP_INLINE void lap_quantize_row_avx2(const float *x, int n, int block, const lap_qrow *row) {
  const __m256 rounder = _mm256_set1_ps(LAP_Q_ROUNDER);
  const __m256i ones = _mm256_set1_epi16(1);
  int padded = (n + 63) / 64 * 64;
  for (int b = 0; b < n / block; b++) {
    const float *v = x + (size_t)b * block;
    int16_t *q = row->q + (size_t)b * block;
    float scale, inverse;
    int32_t sum = 0;
    if (lap_qblock_scale(lap_amax_bits_avx2(v, block), &scale, &inverse)) {
      const __m256 inverses = _mm256_set1_ps(inverse);
      __m256i sums = _mm256_setzero_si256();
      for (int i = 0; i < block; i += 16) {
        __m256 low = _mm256_mul_ps(_mm256_loadu_ps(v + i), inverses);
        __m256 high = _mm256_mul_ps(_mm256_loadu_ps(v + i + 8), inverses);
        low = _mm256_sub_ps(_mm256_add_ps(low, rounder), rounder);
        high = _mm256_sub_ps(_mm256_add_ps(high, rounder), rounder);
        __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
        packed = _mm256_permute4x64_epi64(packed, 0xd8);
        _mm256_storeu_si256((__m256i *)(void *)(q + i), packed);
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(packed, ones));
      }
      sum = lap_hsum_epi32_avx2(sums);
    } else {
      memset(q, 0, (size_t)block * sizeof *q);
    }
    lap_qblock_finish(row, b, scale, sum);
  }
  memset(row->q + n, 0, (size_t)(padded - n) * sizeof *row->q);
  if (row->nibble)
    for (int base = 0; base < padded; base += 64) lap_nibble_order64_avx2(row->q + base, row->nibble + base);
}
#endif

#ifdef LAP_HAVE_NEON
LAP_INLINE uint32_t lap_amax_bits_neon(const float *v, int block) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
  uint32x4_t top = vdupq_n_u32(0);
  for (int i = 0; i < block; i += 4)
    top = vmaxq_u32(top, vandq_u32(magnitude, vreinterpretq_u32_f32(vld1q_f32(v + i))));
  return vmaxvq_u32(top);
}

/* Every fourth value is what a load of four interleaved arrays parts. */
LAP_INLINE void lap_nibble_order64_neon(const int16_t *q, int16_t *nibble) {
  for (int half = 0; half < 2; half++) {
    int16x8x4_t parts = vld4q_s16(q + 32 * half);
    for (int k = 0; k < 4; k++) vst1q_s16(nibble + 16 * k + 8 * half, parts.val[k]);
  }
}

LAP_INLINE void lap_quantize_row_neon(const float *x, int n, int block, const lap_qrow *row) {
  int padded = (n + 63) / 64 * 64;
  for (int b = 0; b < n / block; b++) {
    const float *v = x + (size_t)b * block;
    int16_t *q = row->q + (size_t)b * block;
    float scale, inverse;
    int32_t sum = 0;
    if (lap_qblock_scale(lap_amax_bits_neon(v, block), &scale, &inverse)) {
      int32x4_t sums = vdupq_n_s32(0);
      for (int i = 0; i < block; i += 8) {
        /* Rounds to nearest even, as adding and subtracting 1.5 * 2^23 does. */
        int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(v + i), inverse));
        int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(v + i + 4), inverse));
        vst1q_s16(q + i, vmovn_high_s32(vmovn_s32(low), high));
        sums = vaddq_s32(sums, vaddq_s32(low, high));
      }
      sum = vaddvq_s32(sums);
    } else {
      memset(q, 0, (size_t)block * sizeof *q);
    }
    lap_qblock_finish(row, b, scale, sum);
  }
  memset(row->q + n, 0, (size_t)(padded - n) * sizeof *row->q);
  if (row->nibble)
    for (int base = 0; base < padded; base += 64) lap_nibble_order64_neon(row->q + base, row->nibble + base);
}
#endif

#ifdef LAP_HAVE_AVX512
/* 64 int16 in natural order to nibble order: element 4i + k to 16k + i. */
LAP_INLINE void lap_nibble_order64_avx512(const int16_t *q, int16_t *nibble) {
  static const int16_t from[64] = {
      0, 4, 8,  12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, /* k = 0 */
      1, 5, 9,  13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61, /* k = 1 */
      2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62, /* k = 2 */
      3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63, /* k = 3 */
  };
  const __m512i a = _mm512_loadu_si512(q), b = _mm512_loadu_si512(q + 32);
  _mm512_storeu_si512(nibble, _mm512_permutex2var_epi16(a, _mm512_loadu_si512(from), b));
  _mm512_storeu_si512(nibble + 32, _mm512_permutex2var_epi16(a, _mm512_loadu_si512(from + 32), b));
}

LAP_INLINE uint32_t lap_amax_bits_avx512(const float *v, int block) {
  __m512i top = _mm512_setzero_si512();
  for (int i = 0; i < block; i += 16)
    top = _mm512_max_epi32(top, _mm512_and_si512(_mm512_set1_epi32(0x7fffffff), _mm512_loadu_si512(v + i)));
  return (uint32_t)_mm512_reduce_max_epi32(top);
}

LAP_INLINE void lap_quantize_row_avx512(const float *x, int n, int block, const lap_qrow *row) {
  const __m512 rounder = _mm512_set1_ps(LAP_Q_ROUNDER);
  int padded = (n + 63) / 64 * 64;
  for (int b = 0; b < n / block; b++) {
    const float *v = x + (size_t)b * block;
    int16_t *q = row->q + (size_t)b * block;
    float scale, inverse;
    int32_t sum = 0;
    if (lap_qblock_scale(lap_amax_bits_avx512(v, block), &scale, &inverse)) {
      __m512i sums = _mm512_setzero_si512();
      for (int i = 0; i < block; i += 16) {
        __m512 product = _mm512_mul_ps(_mm512_loadu_ps(v + i), _mm512_set1_ps(inverse));
        __m512i rounded = _mm512_cvtps_epi32(_mm512_sub_ps(_mm512_add_ps(product, rounder), rounder));
        _mm256_storeu_si256((__m256i *)(void *)(q + i), _mm512_cvtepi32_epi16(rounded));
        sums = _mm512_add_epi32(sums, rounded);
      }
      sum = _mm512_reduce_add_epi32(sums);
    } else {
      memset(q, 0, (size_t)block * sizeof *q);
    }
    lap_qblock_finish(row, b, scale, sum);
  }
  memset(row->q + n, 0, (size_t)(padded - n) * sizeof *row->q);
  if (row->nibble)
    for (int base = 0; base < padded; base += 64)
      lap_nibble_order64_avx512(row->q + base, row->nibble + base);
}
#endif

#endif
