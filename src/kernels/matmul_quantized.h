/* matmul_quantized.h: y = x W^T over affine weights (2 to 8 bits), x as int16 rows.
 *
 * w = scale * code + bias for each group. With x = s * q in blocks (quantize_row.h), a block b of a
 * row contributes
 *     (scale * s_b) * D_b  +  bias * (s_b * S_b),    D_b = sum of q * code, S_b = sum of q,
 * where D_b and S_b are exact integers. 8-bit codes are re-centred, D_b = sum of q * (code - 128), and
 * the bias becomes fma(128, scale, bias), which keeps D_b small.
 *
 * Order: block b belongs to lane b mod 8; a lane adds its blocks in ascending order with two FMAs
 * (product first, bias second); the eight lanes are added by halves (4, 2, 1). Integers are exact, so
 * their order is free: here stands every freedom that an instruction set may use.
 *
 * The same bodies compute attention scores: a row of W is then a cached key. */
#ifndef LAP_KERNELS_MATMUL_QUANTIZED_H
#define LAP_KERNELS_MATMUL_QUANTIZED_H

#include "kernels/format.h"
#include "kernels/forms.h"
#include "kernels/quantize_row.h"

typedef struct lap_qmatrix {
  const unsigned char *codes; /* row r at codes + r * row_bytes, LSB-first bit stream */
  const unsigned char *scales;
  const unsigned char *biases;
  size_t row_bytes;
  size_t scale_stride; /* elements from one row's scales to the next row's */
  int cols;
  int bits;
  int group_size;
  lap_format format; /* of scales and biases */
} lap_qmatrix;

/* Rows of x, quantized with block = min(64, group_size). */
typedef struct lap_qrows {
  int16_t *q;        /* [rows, padded]; NULL if no reader wants this order */
  int16_t *nibble;   /* [rows, padded] or NULL, likewise */
  float *scale;      /* [rows, blocks] */
  float *scaled_sum; /* [rows, blocks] */
  int32_t *sum;      /* [rows, blocks] */
  int cols;
  int padded; /* cols rounded up to 64 */
  int block;
  int woven; /* the layout of matmul_woven.h; else as above */
} lap_qrows;

LAP_INLINE lap_qrow lap_qrows_at(const lap_qrows *x, int row) {
  size_t blocks = (size_t)(x->cols / x->block);
  return (lap_qrow){
      .q = x->q ? x->q + (size_t)row * (size_t)x->padded : NULL,
      .nibble = x->nibble ? x->nibble + (size_t)row * (size_t)x->padded : NULL,
      .scale = x->scale + (size_t)row * blocks,
      .scaled_sum = x->scaled_sum + (size_t)row * blocks,
      .sum = x->sum + (size_t)row * blocks,
  };
}

/* Codes first..first+n-1 of a packed row as int16; n * bits is a multiple of 8. */
LAP_INLINE void lap_unpack_codes(int bits, const unsigned char *row, int first, int n, int16_t *codes) {
  size_t bit = (size_t)first * (size_t)bits;
  const unsigned char *p = row + bit / 8;
  uint32_t window = 0;
  int held = 0;
  uint32_t mask = (1u << bits) - 1u;
  for (int i = 0; i < n; i++) {
    while (held < bits) {
      window |= (uint32_t)*p++ << held;
      held += 8;
    }
    codes[i] = (int16_t)(window & mask);
    window >>= bits;
    held -= bits;
  }
}

/* Adds block b's contribution to its lane. */
LAP_INLINE void lap_qblock_add(int bits, float scale, float bias, float x_scale, float x_scaled_sum,
                               int32_t x_sum, int32_t dot, float *lane) {
  if (bits == 8) {
    dot -= x_sum * 128;
    bias = lap_fma(128.0f, scale, bias);
  }
  *lane = lap_fma(scale * x_scale, (float)dot, *lane);
  *lane = lap_fma(bias, x_scaled_sum, *lane);
}

LAP_INLINE float lap_qdot_portable(const int bits, const int group_size, const lap_qmatrix *w, int row,
                                   int block, const lap_qrow *x) {
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  size_t first_scale = (size_t)row * w->scale_stride;
  float lane[8] = {0};
  for (int b = 0; b < w->cols / block; b++) {
    int16_t code[64];
    lap_unpack_codes(bits, codes, b * block, block, code);
    const int16_t *q = x->q + (size_t)b * (size_t)block;
    int32_t dot = 0;
    for (int i = 0; i < block; i++) dot += (int32_t)q[i] * code[i];
    size_t g = first_scale + (size_t)(b * block / group_size);
    lap_qblock_add(bits, lap_format_load(w->format, w->scales, g), lap_format_load(w->format, w->biases, g),
                   x->scale[b], x->scaled_sum[b], x->sum[b], dot, &lane[b % 8]);
  }
  return lap_tree8_portable(lane);
}

/* y[t * y_stride + r] for rows first..last-1 of W and rows t of x. */
LAP_INLINE void lap_matmul_quantized_portable(const int bits, const int group_size, const lap_qmatrix *w,
                                              const lap_qrows *x, int x_first, int x_rows, int first,
                                              int last, float *y, size_t y_stride) {
  for (int t = 0; t < x_rows; t++) {
    lap_qrow row = lap_qrows_at(x, x_first + t);
    for (int r = first; r < last; r++)
      y[(size_t)t * y_stride + (size_t)r] = lap_qdot_portable(bits, group_size, w, r, x->block, &row);
  }
}

#ifdef LAP_HAVE_AVX2
enum {
  LAP_Q_TILE = 4,
  LAP_Q_PREFETCH_BYTES = 2048
};

/* Eight partial sums of 64 codes times 64 of q. */
LAP_INLINE __m256i lap_dot64_avx2(const __m256i c[4], const int16_t *q) {
  const __m256i *v = (const __m256i *)(const void *)q;
  __m256i s01 = _mm256_add_epi32(_mm256_madd_epi16(c[0], _mm256_loadu_si256(v)),
                                 _mm256_madd_epi16(c[1], _mm256_loadu_si256(v + 1)));
  __m256i s23 = _mm256_add_epi32(_mm256_madd_epi16(c[2], _mm256_loadu_si256(v + 2)),
                                 _mm256_madd_epi16(c[3], _mm256_loadu_si256(v + 3)));
  return _mm256_add_epi32(s01, s23);
}

/* A block of 64 at 4 bits is one load; the nibble order of q makes mask and shift enough to part it. */
LAP_INLINE void lap_part_nibbles_avx2(__m256i words, __m256i c[4]) {
  const __m256i mask = _mm256_set1_epi16(15);
  c[0] = _mm256_and_si256(words, mask);
  c[1] = _mm256_and_si256(_mm256_srli_epi16(words, 4), mask);
  c[2] = _mm256_and_si256(_mm256_srli_epi16(words, 8), mask);
  c[3] = _mm256_srli_epi16(words, 12);
}

/* The 64 codes at `p` as four vectors of 16: in nibble order for 4 bits, else in natural order. */
LAP_INLINE void lap_load_codes64_avx2(const int bits, const unsigned char *p, __m256i c[4]) {
  if (bits == 4) {
    _mm_prefetch((const char *)p + LAP_Q_PREFETCH_BYTES, _MM_HINT_T0);
    lap_part_nibbles_avx2(_mm256_loadu_si256((const __m256i *)(const void *)p), c);
  } else if (bits == 8) {
    _mm_prefetch((const char *)p + LAP_Q_PREFETCH_BYTES, _MM_HINT_T0);
    for (int k = 0; k < 4; k++)
      c[k] = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * k)));
  } else {
    int16_t code[64];
    lap_unpack_codes(bits, p, 0, 64, code);
    for (int k = 0; k < 4; k++) c[k] = _mm256_loadu_si256((const __m256i *)(const void *)(code + 16 * k));
  }
}

/* Partial sums of one 64-element chunk against q: of one block of 64, or of two blocks of 32 in the two
 * halves. Nibble order brings blocks of 32 to their halves by itself; in natural order vectors 0, 1 are
 * one block and 2, 3 the other. */
LAP_INLINE __m256i lap_chunk_dot_avx2(const int bits, const int block, const __m256i c[4], const int16_t *q) {
  if (block == 64 || bits == 4) return lap_dot64_avx2(c, q);
  const __m256i *v = (const __m256i *)(const void *)q;
  __m256i first = _mm256_add_epi32(_mm256_madd_epi16(c[0], _mm256_loadu_si256(v)),
                                   _mm256_madd_epi16(c[1], _mm256_loadu_si256(v + 1)));
  __m256i second = _mm256_add_epi32(_mm256_madd_epi16(c[2], _mm256_loadu_si256(v + 2)),
                                    _mm256_madd_epi16(c[3], _mm256_loadu_si256(v + 3)));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

/* Two neighbouring chunks for `tokens` rows of x, the first step of the reduction done: the codes are parted
 * once for all rows, and few registers are alive at a time. */
LAP_INLINE void lap_chunk_pair_avx2(const int bits, const int block, const int tokens,
                                    const unsigned char *codes, const int16_t *const q[], size_t at,
                                    __m256i sums[]) {
  __m256i c[4], first[LAP_Q_TILE];
  lap_load_codes64_avx2(bits, codes, c);
  for (int t = 0; t < tokens; t++) first[t] = lap_chunk_dot_avx2(bits, block, c, q[t] + at);
  lap_load_codes64_avx2(bits, codes + 8 * bits, c);
  for (int t = 0; t < tokens; t++)
    sums[t] = _mm256_hadd_epi32(first[t], lap_chunk_dot_avx2(bits, block, c, q[t] + at + 64));
}

/* Four chunks for one x row, reduced on the way so that few registers are alive at a time. The result's
 * halves are yet to be added (blocks of 64), or are blocks 0, 2, 4, 6 and 1, 3, 5, 7 (of 32). */
LAP_INLINE __m256i lap_half_dots_avx2(const int bits, const int block, const unsigned char *codes,
                                      const int16_t *q) {
  __m256i sum[2];
  for (int i = 0; i < 2; i++) {
    __m256i c[4], first, second;
    lap_load_codes64_avx2(bits, codes + 16 * i * bits, c);
    first = lap_chunk_dot_avx2(bits, block, c, q + 128 * i);
    lap_load_codes64_avx2(bits, codes + (16 * i + 8) * bits, c);
    second = lap_chunk_dot_avx2(bits, block, c, q + 128 * i + 64);
    sum[i] = _mm256_hadd_epi32(first, second);
  }
  return _mm256_hadd_epi32(sum[0], sum[1]);
}

/* The two halves of each argument added: [a0..a3 | b0..b3]. */
LAP_INLINE __m256i lap_join_halves_avx2(__m256i a, __m256i b) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

LAP_INLINE __m128i lap_add_halves_avx2(__m256i a) {
  return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

/* Blocks 0, 2, 4, 6 | 1, 3, 5, 7 into their order. */
LAP_INLINE __m256i lap_order_halves_avx2(__m256i a) {
  return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The dots of eight blocks, in order. */
LAP_INLINE __m256i lap_dots8_avx2(const int bits, const int block, const unsigned char *codes,
                                  const int16_t *q) {
  __m256i a = lap_half_dots_avx2(bits, block, codes, q);
  if (block == 32) return lap_order_halves_avx2(a);
  return lap_join_halves_avx2(a, lap_half_dots_avx2(bits, 64, codes + 32 * bits, q + 256));
}

/* Scales (or biases) of blocks b..b+7 from the row's first element `at`. */
LAP_INLINE __m256 lap_scales8_avx2(lap_format format, const unsigned char *array, size_t at, const int ratio,
                                   int b) {
  if (ratio == 1) return lap_format_load8_avx2(format, array, at + (size_t)b);
  __m256 four = _mm256_castps128_ps256(lap_format_load4_avx2(format, array, at + (size_t)(b / 2)));
  return _mm256_permutevar8x32_ps(four, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

LAP_INLINE __m256 lap_qblocks_add8_avx2(const int bits, __m256 scale, __m256 bias, const lap_qrow *x, int b,
                                        __m256i dot, __m256 lanes) {
  if (bits == 8) {
    __m256i sum = _mm256_loadu_si256((const __m256i *)(const void *)(x->sum + b));
    dot = _mm256_sub_epi32(dot, _mm256_slli_epi32(sum, 7));
    bias = _mm256_fmadd_ps(_mm256_set1_ps(128.0f), scale, bias);
  }
  __m256 product = _mm256_mul_ps(scale, _mm256_loadu_ps(x->scale + b));
  lanes = _mm256_fmadd_ps(product, _mm256_cvtepi32_ps(dot), lanes);
  return _mm256_fmadd_ps(bias, _mm256_loadu_ps(x->scaled_sum + b), lanes);
}

/* The same for the four blocks that follow the last eight: they have lanes 0..3. */
LAP_INLINE __m128 lap_qblocks_add4_avx2(const int bits, __m128 scale, __m128 bias, const lap_qrow *x, int b,
                                        __m128i dot, __m128 lanes) {
  if (bits == 8) {
    __m128i sum = _mm_loadu_si128((const __m128i *)(const void *)(x->sum + b));
    dot = _mm_sub_epi32(dot, _mm_slli_epi32(sum, 7));
    bias = _mm_fmadd_ps(_mm_set1_ps(128.0f), scale, bias);
  }
  __m128 product = _mm_mul_ps(scale, _mm_loadu_ps(x->scale + b));
  lanes = _mm_fmadd_ps(product, _mm_cvtepi32_ps(dot), lanes);
  return _mm_fmadd_ps(bias, _mm_loadu_ps(x->scaled_sum + b), lanes);
}

/* One row of W against `tokens` rows of x: out[t]. */
LAP_INLINE void lap_qdots_avx2(const int bits, const int group_size, const int tokens, const lap_qmatrix *w,
                               int row, const lap_qrow x[], const int16_t *const q[], float *out) {
  const int block = group_size < 64 ? group_size : 64;
  const int ratio = group_size / block;
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const size_t at = (size_t)row * w->scale_stride;
  const int blocks = w->cols / block;
  __m256 lanes[LAP_Q_TILE];
  for (int t = 0; t < tokens; t++) lanes[t] = _mm256_setzero_ps();
  int b = 0;
  for (; b + 8 <= blocks; b += 8) {
    __m256 scale = lap_scales8_avx2(w->format, w->scales, at, ratio, b);
    __m256 bias = lap_scales8_avx2(w->format, w->biases, at, ratio, b);
    if (tokens == 1) {
      __m256i dot = lap_dots8_avx2(bits, block, codes + (size_t)(b * block / 8 * bits), q[0] + b * block);
      lanes[0] = lap_qblocks_add8_avx2(bits, scale, bias, &x[0], b, dot, lanes[0]);
      continue;
    }
    __m256i sums[4][LAP_Q_TILE];
#pragma GCC unroll 1
    for (int pair = 0; pair < block / 16; pair++)
      lap_chunk_pair_avx2(bits, block, tokens, codes + (size_t)(b * block / 8 * bits + 16 * pair * bits), q,
                          b * block + 128 * pair, sums[pair]);
    for (int t = 0; t < tokens; t++) {
      __m256i dot = _mm256_hadd_epi32(sums[0][t], sums[1][t]);
      dot = block == 32 ? lap_order_halves_avx2(dot)
                        : lap_join_halves_avx2(dot, _mm256_hadd_epi32(sums[2][t], sums[3][t]));
      lanes[t] = lap_qblocks_add8_avx2(bits, scale, bias, &x[t], b, dot, lanes[t]);
    }
  }
  if (block == 64 && ratio == 1 && b + 4 <= blocks) {
    __m256i sums[2][LAP_Q_TILE];
    for (int pair = 0; pair < 2; pair++)
      lap_chunk_pair_avx2(bits, block, tokens, codes + (size_t)(8 * b * bits + 16 * pair * bits), q,
                          64 * b + 128 * pair, sums[pair]);
    __m128 scale = lap_format_load4_avx2(w->format, w->scales, at + (size_t)b);
    __m128 bias = lap_format_load4_avx2(w->format, w->biases, at + (size_t)b);
    for (int t = 0; t < tokens; t++) {
      __m128 low = lap_qblocks_add4_avx2(bits, scale, bias, &x[t], b,
                                         lap_add_halves_avx2(_mm256_hadd_epi32(sums[0][t], sums[1][t])),
                                         _mm256_castps256_ps128(lanes[t]));
      lanes[t] = _mm256_insertf128_ps(lanes[t], low, 0);
    }
    b += 4;
  }
  if (b == blocks) {
    for (int t = 0; t < tokens; t++) out[t] = lap_tree8_avx2(lanes[t]);
    return;
  }
  /* The last few blocks: 64 columns at a time, one block or two, and what is less than that in plain C. */
  float lane[LAP_Q_TILE][8];
  for (int t = 0; t < tokens; t++) _mm256_storeu_ps(lane[t], lanes[t]);
  for (; b * block + 64 <= w->cols; b += 64 / block) {
    __m256i c[4];
    lap_load_codes64_avx2(bits, codes + (size_t)(b * block / 8 * bits), c);
    for (int t = 0; t < tokens; t++) {
      int32_t part[8];
      __m256i sum = lap_chunk_dot_avx2(bits, block, c, q[t] + b * block);
      sum = _mm256_hadd_epi32(sum, sum);
      sum = _mm256_hadd_epi32(sum, sum); /* each half's own sum in all of its lanes */
      _mm256_storeu_si256((__m256i *)(void *)part, sum);
      for (int i = 0; i < 64 / block; i++) {
        const size_t scales = at + (size_t)((b + i) / ratio);
        lap_qblock_add(bits, lap_format_load(w->format, w->scales, scales),
                       lap_format_load(w->format, w->biases, scales), x[t].scale[b + i],
                       x[t].scaled_sum[b + i], x[t].sum[b + i], block == 64 ? part[0] + part[4] : part[4 * i],
                       &lane[t][(b + i) % 8]);
      }
    }
  }
  for (; b < blocks; b++) {
    int16_t code[64];
    lap_unpack_codes(bits, codes, b * block, block, code);
    const size_t scales = at + (size_t)(b / ratio);
    for (int t = 0; t < tokens; t++) {
      int32_t dot = 0;
      for (int i = 0; i < block; i++) dot += (int32_t)x[t].q[b * block + i] * code[i];
      lap_qblock_add(bits, lap_format_load(w->format, w->scales, scales),
                     lap_format_load(w->format, w->biases, scales), x[t].scale[b], x[t].scaled_sum[b],
                     x[t].sum[b], dot, &lane[t][b % 8]);
    }
  }
  for (int t = 0; t < tokens; t++) out[t] = lap_tree8_portable(lane[t]);
}

/* Scales (or biases) of blocks b..b+3 of two rows. */
LAP_INLINE __m256 lap_scales4x2_avx2(lap_format format, const unsigned char *array, size_t at, size_t stride,
                                     int b) {
  __m128 first = lap_format_load4_avx2(format, array, at + (size_t)b);
  __m128 second = lap_format_load4_avx2(format, array, at + stride + (size_t)b);
  return _mm256_insertf128_ps(_mm256_castps128_ps256(first), second, 1);
}

LAP_INLINE __m256 lap_twice_avx2(const float *p) {
  return _mm256_broadcast_ps((const __m128 *)(const void *)p);
}

enum {
  LAP_Q_SHORT_ROWS = 4
};

/* Four neighbouring rows of W against one row of x, for short rows of a multiple of four blocks of 64.
 * Such a row is shorter than the chain of latencies behind its dots (reduction, scales, tree), so the
 * dots of all four come first and the four chains run side by side; two rows share each vector. */
LAP_INLINE void lap_qdots_short_avx2(const int bits, const lap_qmatrix *w, int row, const lap_qrow *x,
                                     const int16_t *q, float *out) {
  enum {
    PAIRS = LAP_Q_SHORT_ROWS / 2
  };
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const size_t at = (size_t)row * w->scale_stride;
  const int blocks = w->cols / 64;
  __m256 lanes[LAP_Q_SHORT_ROWS], low[PAIRS], high[PAIRS];
  for (int r = 0; r < LAP_Q_SHORT_ROWS; r++) lanes[r] = _mm256_setzero_ps();
  int b = 0;
  for (; b + 8 <= blocks; b += 8) {
    __m256i dot[LAP_Q_SHORT_ROWS];
    for (int r = 0; r < LAP_Q_SHORT_ROWS; r++)
      dot[r] = lap_dots8_avx2(bits, 64, codes + (size_t)r * w->row_bytes + 8 * b * bits, q + 64 * b);
    for (int r = 0; r < LAP_Q_SHORT_ROWS; r++) {
      size_t scales = at + (size_t)r * w->scale_stride;
      lanes[r] =
          lap_qblocks_add8_avx2(bits, lap_scales8_avx2(w->format, w->scales, scales, 1, b),
                                lap_scales8_avx2(w->format, w->biases, scales, 1, b), x, b, dot[r], lanes[r]);
    }
  }
  /* Lanes 0..3 of two rows in one vector, 4..7 in the other. */
  for (int p = 0; p < PAIRS; p++) {
    low[p] = _mm256_permute2f128_ps(lanes[2 * p], lanes[2 * p + 1], 0x20);
    high[p] = _mm256_permute2f128_ps(lanes[2 * p], lanes[2 * p + 1], 0x31);
  }
  if (b < blocks) {
    __m256i dot[PAIRS];
    for (int p = 0; p < PAIRS; p++) {
      const unsigned char *c = codes + (size_t)(2 * p) * w->row_bytes + 8 * b * bits;
      dot[p] = lap_join_halves_avx2(lap_half_dots_avx2(bits, 64, c, q + 64 * b),
                                    lap_half_dots_avx2(bits, 64, c + w->row_bytes, q + 64 * b));
    }
    for (int p = 0; p < PAIRS; p++) {
      size_t scales = at + (size_t)(2 * p) * w->scale_stride;
      __m256 scale = lap_scales4x2_avx2(w->format, w->scales, scales, w->scale_stride, b);
      __m256 bias = lap_scales4x2_avx2(w->format, w->biases, scales, w->scale_stride, b);
      if (bits == 8) {
        __m256i sum = _mm256_castps_si256(lap_twice_avx2((const float *)(const void *)(x->sum + b)));
        dot[p] = _mm256_sub_epi32(dot[p], _mm256_slli_epi32(sum, 7));
        bias = _mm256_fmadd_ps(_mm256_set1_ps(128.0f), scale, bias);
      }
      __m256 product = _mm256_mul_ps(scale, lap_twice_avx2(x->scale + b));
      low[p] = _mm256_fmadd_ps(product, _mm256_cvtepi32_ps(dot[p]), low[p]);
      low[p] = _mm256_fmadd_ps(bias, lap_twice_avx2(x->scaled_sum + b), low[p]);
    }
  }
  for (int p = 0; p < PAIRS; p++) {
    __m256 l = _mm256_add_ps(low[p], high[p]);
    l = _mm256_add_ps(l, _mm256_permute_ps(l, 0x4e));
    l = _mm256_add_ps(l, _mm256_permute_ps(l, 0xb1));
    out[2 * p] = _mm256_cvtss_f32(l);
    out[2 * p + 1] = _mm_cvtss_f32(_mm256_extractf128_ps(l, 1));
  }
}

enum {
  LAP_Q_SHORT_COLS = 1024
};

/* Rows first..last-1 of W against one row of x. */
LAP_INLINE void lap_qdots_rows_avx2(const int bits, const int group_size, const lap_qmatrix *w, int first,
                                    int last, const lap_qrow *x, const int16_t *const q[], float *y) {
  int r = first;
  if (group_size == 64 && w->cols % 256 == 0 && w->cols <= LAP_Q_SHORT_COLS)
    for (; r + LAP_Q_SHORT_ROWS <= last; r += LAP_Q_SHORT_ROWS)
      lap_qdots_short_avx2(bits, w, r, x, q[0], y + r);
  for (; r < last; r++) lap_qdots_avx2(bits, group_size, 1, w, r, x, q, y + r);
}

/* Row r of W against LAP_Q_TILE rows of x. */
LAP_INLINE void lap_qdots_tile_avx2(const int bits, const int group_size, const lap_qmatrix *w, int row,
                                    const lap_qrow x[], const int16_t *const q[], float *out) {
  lap_qdots_avx2(bits, group_size, LAP_Q_TILE, w, row, x, q, out);
}

#ifdef LAP_HAVE_AVX512
/* The 64 codes (of 4 or 8 bits) at `p` as two vectors of 32: in nibble order for 4 bits, else in natural
 * order. A shift for each half of a register parts nibbles of two weights' distance at once. */
LAP_INLINE void lap_load_codes64_avx512(const int bits, const unsigned char *p, __m512i c[2]) {
  const __m256i *v = (const __m256i *)(const void *)p;
  _mm_prefetch((const char *)p + LAP_Q_PREFETCH_BYTES, _MM_HINT_T0);
  if (bits == 8) {
    c[0] = _mm512_cvtepu8_epi16(_mm256_loadu_si256(v));
    c[1] = _mm512_cvtepu8_epi16(_mm256_loadu_si256(v + 1));
    return;
  }
  const __m512i words = _mm512_broadcast_i64x4(_mm256_loadu_si256(v)), mask = _mm512_set1_epi16(15);
  const __m512i by_0_4 = lap_join_i_avx512(_mm256_setzero_si256(), _mm256_set1_epi16(4));
  const __m512i by_8_12 = lap_join_i_avx512(_mm256_set1_epi16(8), _mm256_set1_epi16(12));
  c[0] = _mm512_and_si512(_mm512_srlv_epi16(words, by_0_4), mask);
  c[1] = _mm512_and_si512(_mm512_srlv_epi16(words, by_8_12), mask);
}

/* Sixteen partial sums of 64 codes times 64 of q. */
LAP_INLINE __m512i lap_dot64_avx512(const __m512i c[2], const int16_t *q) {
  __m512i sum = _mm512_dpwssd_epi32(_mm512_setzero_si512(), c[0], _mm512_loadu_si512(q));
  return _mm512_dpwssd_epi32(sum, c[1], _mm512_loadu_si512(q + 32));
}

/* Element i of the result is the sum of the sixteen elements of s[i]. */
LAP_INLINE __m512i lap_sums16_avx512(const __m512i s[16]) {
  __m512i two[8], four[4], half[2]; /* sums of two, four vectors: in each quarter, then in each half */
  for (int i = 0; i < 8; i++)
    two[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2 * i], s[2 * i + 1]),
                              _mm512_unpackhi_epi32(s[2 * i], s[2 * i + 1]));
  for (int i = 0; i < 4; i++)
    four[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                               _mm512_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    half[i] = _mm512_add_epi32(_mm512_shuffle_i64x2(four[2 * i], four[2 * i + 1], 0x88),
                               _mm512_shuffle_i64x2(four[2 * i], four[2 * i + 1], 0xdd));
  return _mm512_add_epi32(_mm512_shuffle_i64x2(half[0], half[1], 0x88),
                          _mm512_shuffle_i64x2(half[0], half[1], 0xdd));
}

/* One row of W (groups of 64) against one row of x. */
LAP_INLINE float lap_qdot_avx512(const int bits, const lap_qmatrix *w, int row, const lap_qrow *x,
                                 const int16_t *q) {
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const size_t at = (size_t)row * w->scale_stride;
  const int blocks = w->cols / 64;
  __m256 lanes = _mm256_setzero_ps();
  int b = 0;
  for (; b + 16 <= blocks; b += 16) {
    __m512i c[2], sum[16];
    for (int i = 0; i < 16; i++) {
      lap_load_codes64_avx512(bits, codes + 8 * (b + i) * bits, c);
      sum[i] = lap_dot64_avx512(c, q + 64 * (b + i));
    }
    const __m512i dot = lap_sums16_avx512(sum);
    for (int half = 0; half < 2; half++) {
      const int first = b + 8 * half;
      lanes = lap_qblocks_add8_avx2(bits, lap_format_load8_avx2(w->format, w->scales, at + (size_t)first),
                                    lap_format_load8_avx2(w->format, w->biases, at + (size_t)first), x, first,
                                    half ? _mm512_extracti64x4_epi64(dot, 1) : _mm512_castsi512_si256(dot),
                                    lanes);
    }
  }
  if (b + 8 <= blocks) {
    lanes = lap_qblocks_add8_avx2(bits, lap_format_load8_avx2(w->format, w->scales, at + (size_t)b),
                                  lap_format_load8_avx2(w->format, w->biases, at + (size_t)b), x, b,
                                  lap_dots8_avx2(bits, 64, codes + 8 * b * bits, q + 64 * b), lanes);
    b += 8;
  }
  if (b + 4 <= blocks) {
    __m256i halves = lap_half_dots_avx2(bits, 64, codes + 8 * b * bits, q + 64 * b);
    __m128 low = lap_qblocks_add4_avx2(bits, lap_format_load4_avx2(w->format, w->scales, at + (size_t)b),
                                       lap_format_load4_avx2(w->format, w->biases, at + (size_t)b), x, b,
                                       lap_add_halves_avx2(halves), _mm256_castps256_ps128(lanes));
    lanes = _mm256_insertf128_ps(lanes, low, 0);
    b += 4;
  }
  if (b == blocks) return lap_tree8_avx2(lanes);
  float lane[8];
  _mm256_storeu_ps(lane, lanes);
  for (; b < blocks; b++) {
    __m512i c[2];
    lap_load_codes64_avx512(bits, codes + 8 * b * bits, c);
    lap_qblock_add(bits, lap_format_load(w->format, w->scales, at + (size_t)b),
                   lap_format_load(w->format, w->biases, at + (size_t)b), x->scale[b], x->scaled_sum[b],
                   x->sum[b], _mm512_reduce_add_epi32(lap_dot64_avx512(c, q + 64 * b)), &lane[b % 8]);
  }
  return lap_tree8_portable(lane);
}

/* ---- four products side by side, four lanes of each in a register: rows of W with one row of x, or rows of
 * x with one row of W. Columns are a multiple of four blocks of 64. ---- */

/* One vector of four from each. */
LAP_INLINE __m512 lap_join4_avx512(const __m128 v[4]) {
  return lap_join_avx512(_mm256_insertf128_ps(_mm256_castps128_ps256(v[0]), v[1], 1),
                         _mm256_insertf128_ps(_mm256_castps128_ps256(v[2]), v[3], 1));
}

/* What stands beside blocks b..b+3 of x, for each of the four products. */
typedef struct lap_beside_avx512 {
  __m512 scale, scaled_sum;
  __m512i sum;
} lap_beside_avx512;

/* Rows of x [4], or one row of x four times. */
LAP_INLINE lap_beside_avx512 lap_load_beside_avx512(const int rows, const lap_qrow x[], int b) {
  __m128 scale[4], scaled_sum[4], sum[4];
  for (int i = 0; i < 4; i++) {
    const lap_qrow *row = &x[rows == 4 ? i : 0];
    scale[i] = _mm_loadu_ps(row->scale + b);
    scaled_sum[i] = _mm_loadu_ps(row->scaled_sum + b);
    sum[i] = _mm_castsi128_ps(_mm_loadu_si128((const __m128i *)(const void *)(row->sum + b)));
  }
  return (lap_beside_avx512){lap_join4_avx512(scale), lap_join4_avx512(scaled_sum),
                             _mm512_castps_si512(lap_join4_avx512(sum))};
}

LAP_INLINE __m512 lap_qblocks_add4x4_avx512(const int bits, __m512 scale, __m512 bias, lap_beside_avx512 x,
                                            __m512i dot, __m512 lanes) {
  if (bits == 8) {
    dot = _mm512_sub_epi32(dot, _mm512_slli_epi32(x.sum, 7));
    bias = _mm512_fmadd_ps(_mm512_set1_ps(128.0f), scale, bias);
  }
  lanes = _mm512_fmadd_ps(_mm512_mul_ps(scale, x.scale), _mm512_cvtepi32_ps(dot), lanes);
  return _mm512_fmadd_ps(bias, x.scaled_sum, lanes);
}

/* Blocks b..b+3 of rows `row`.. of W (4 or 1) with rows of x (1 or 4) into four lanes each. */
LAP_INLINE __m512 lap_qdots4x4_avx512(const int bits, const int w_rows, const lap_qmatrix *w, int row, int b,
                                      const lap_qrow x[], const int16_t *const q[], __m512 lanes) {
  __m512i sum[16];
  __m128 scale[4], bias[4];
  for (int r = 0; r < w_rows; r++) {
    const unsigned char *codes = w->codes + (size_t)(row + r) * w->row_bytes;
    for (int i = 0; i < 4; i++) {
      __m512i c[2];
      lap_load_codes64_avx512(bits, codes + 8 * (b + i) * bits, c);
      for (int t = 0; t < 4 / w_rows; t++)
        sum[4 * (w_rows == 4 ? r : t) + i] = lap_dot64_avx512(c, q[t] + 64 * (b + i));
    }
  }
  for (int i = 0; i < 4; i++) {
    const size_t at = (size_t)(row + (w_rows == 4 ? i : 0)) * w->scale_stride + (size_t)b;
    scale[i] = lap_format_load4_avx2(w->format, w->scales, at);
    bias[i] = lap_format_load4_avx2(w->format, w->biases, at);
  }
  return lap_qblocks_add4x4_avx512(bits, lap_join4_avx512(scale), lap_join4_avx512(bias),
                                   lap_load_beside_avx512(4 / w_rows, x, b), lap_sums16_avx512(sum), lanes);
}

/* Lanes 0..3 of the four products in `low`, 4..7 in `high`: added by halves. */
LAP_INLINE __m128 lap_tree8x4_avx512(__m512 low, __m512 high) {
  __m512 l = _mm512_add_ps(low, high);
  l = _mm512_add_ps(l, _mm512_permute_ps(l, 0x4e));
  l = _mm512_add_ps(l, _mm512_permute_ps(l, 0xb1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
  return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, l));
}

LAP_INLINE __m128 lap_qdots_side_avx512(const int bits, const int w_rows, const lap_qmatrix *w, int row,
                                        const lap_qrow x[], const int16_t *const q[]) {
  __m512 lanes = _mm512_setzero_ps(), others = lanes; /* of the next four blocks, of those after them */
  int b = 0;
#pragma GCC unroll 1
  for (; b < w->cols / 64; b += 4) {
    __m512 added = lap_qdots4x4_avx512(bits, w_rows, w, row, b, x, q, lanes);
    lanes = others;
    others = added;
  }
  return b % 8 ? lap_tree8x4_avx512(others, lanes) : lap_tree8x4_avx512(lanes, others);
}

/* There are bodies for what published checkpoints have, 4 and 8 bits in groups of 64, when that is known at
 * compile time. */
LAP_INLINE int lap_has_qdots_avx512(const int bits, const int group_size) {
  return __builtin_constant_p(bits) && __builtin_constant_p(group_size) && (bits == 4 || bits == 8) &&
         group_size == 64;
}

/* Long rows one by one, as memory likes it; short ones four at a time, for the reason that
 * lap_qdots_short_avx2 gives. */
LAP_INLINE void lap_qdots_rows_avx512(const int bits, const int group_size, const lap_qmatrix *w, int first,
                                      int last, const lap_qrow *x, const int16_t *const q[], float *y) {
  if (!lap_has_qdots_avx512(bits, group_size)) {
    lap_qdots_rows_avx2(bits, group_size, w, first, last, x, q, y);
    return;
  }
  int r = first;
  if (w->cols % 256 == 0 && w->cols <= LAP_Q_SHORT_COLS)
    for (; r + 4 <= last; r += 4) _mm_storeu_ps(y + r, lap_qdots_side_avx512(bits, 4, w, r, x, q));
  for (; r < last; r++) y[r] = lap_qdot_avx512(bits, w, r, x, q[0]);
}

LAP_INLINE void lap_qdots_tile_avx512(const int bits, const int group_size, const lap_qmatrix *w, int row,
                                      const lap_qrow x[], const int16_t *const q[], float *out) {
  if (lap_has_qdots_avx512(bits, group_size) && w->cols % 256 == 0)
    _mm_storeu_ps(out, lap_qdots_side_avx512(bits, 1, w, row, x, q));
  else
    lap_qdots_tile_avx2(bits, group_size, w, row, x, q, out);
}
#endif

/* Rows first..last-1 against x rows, in tiles of LAP_Q_TILE rows of x so that codes are parted once
 * for each tile, and in strips of W that stay in the first cache levels while the tiles pass. */
LAP_INLINE void lap_matmul_quantized_avx2(const int bits, const int group_size, const lap_qmatrix *w,
                                          const lap_qrows *x, int x_first, int x_rows, int first, int last,
                                          float *y, size_t y_stride) {
  enum {
    STRIP = 32
  };
  for (int strip = first; strip < last; strip += STRIP) {
    int end = strip + STRIP < last ? strip + STRIP : last;
    for (int t = 0; t < x_rows;) {
      int tokens = x_rows - t >= LAP_Q_TILE ? LAP_Q_TILE : 1;
      float *to = y + (size_t)t * y_stride, out[LAP_Q_TILE];
      lap_qrow rows[LAP_Q_TILE];
      const int16_t *q[LAP_Q_TILE];
      for (int i = 0; i < tokens; i++) {
        rows[i] = lap_qrows_at(x, x_first + t + i);
        q[i] = bits == 4 ? rows[i].nibble : rows[i].q;
      }
      if (tokens == 1) LAP_ISA(lap_qdots_rows)(bits, group_size, w, strip, end, rows, q, to);
      for (int r = strip; r < end && tokens == LAP_Q_TILE; r++) {
        LAP_ISA(lap_qdots_tile)(bits, group_size, w, r, rows, q, out);
        for (int i = 0; i < LAP_Q_TILE; i++) to[(size_t)i * y_stride + (size_t)r] = out[i];
      }
      t += tokens;
    }
  }
}
#endif

#ifdef LAP_HAVE_NEON
enum {
  LAP_Q_TILE = 4,
  LAP_Q_PREFETCH_BYTES = 2048
};

/* The 64 codes at `p` as eight vectors of 8: in nibble order for 4 bits, else in natural order. */
LAP_INLINE void lap_load_codes64_neon(const int bits, const unsigned char *p, int16x8_t c[8]) {
  if (bits == 4) {
    const uint16x8_t mask = vdupq_n_u16(15);
    __builtin_prefetch(p + LAP_Q_PREFETCH_BYTES);
    for (int h = 0; h < 2; h++) {
      uint16x8_t words = vreinterpretq_u16_u8(vld1q_u8(p + 16 * h));
      c[h] = vreinterpretq_s16_u16(vandq_u16(words, mask));
      c[2 + h] = vreinterpretq_s16_u16(vandq_u16(vshrq_n_u16(words, 4), mask));
      c[4 + h] = vreinterpretq_s16_u16(vandq_u16(vshrq_n_u16(words, 8), mask));
      c[6 + h] = vreinterpretq_s16_u16(vshrq_n_u16(words, 12));
    }
  } else if (bits == 8) {
    __builtin_prefetch(p + LAP_Q_PREFETCH_BYTES);
    for (int k = 0; k < 4; k++) {
      uint8x16_t bytes = vld1q_u8(p + 16 * k);
      c[2 * k] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
      c[2 * k + 1] = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
    }
  } else {
    int16_t code[64];
    lap_unpack_codes(bits, p, 0, 64, code);
    for (int k = 0; k < 8; k++) c[k] = vld1q_s16(code + 8 * k);
  }
}

/* Which block of 32 of its 64 columns vector j belongs to. */
LAP_INLINE int lap_vector_part_neon(const int bits, int j) {
  return bits == 4 ? j % 2 : j / 4;
}

/* Four partial sums of a block: of all 64 columns, or of part 0 or 1 of them. */
LAP_INLINE int32x4_t lap_block_dot_neon(const int bits, const int block, const int part, const int16x8_t c[8],
                                        const int16_t *q) {
  int32x4_t low = vdupq_n_s32(0), high = vdupq_n_s32(0);
  for (int j = 0; j < 8; j++) {
    if (block == 32 && lap_vector_part_neon(bits, j) != part) continue;
    int16x8_t v = vld1q_s16(q + 8 * j);
    low = vmlal_s16(low, vget_low_s16(c[j]), vget_low_s16(v));
    high = vmlal_high_s16(high, c[j], v);
  }
  return vaddq_s32(low, high);
}

/* The dots of four blocks, in order, for each of `tokens` rows q[t] from element `at`. */
LAP_INLINE void lap_dots4_neon(const int bits, const int block, const int tokens, const unsigned char *codes,
                               const int16_t *const q[], size_t at, int32x4_t dot[]) {
  const int parts = 64 / block;
  int32x4_t sum[4][LAP_Q_TILE];
  for (int i = 0; i < 4; i += parts) {
    int16x8_t c[8];
    lap_load_codes64_neon(bits, codes + i * block / 8 * bits, c);
    for (int p = 0; p < parts; p++)
      for (int t = 0; t < tokens; t++)
        sum[i + p][t] = lap_block_dot_neon(bits, block, p, c, q[t] + at + i * block);
  }
  for (int t = 0; t < tokens; t++)
    dot[t] = vpaddq_s32(vpaddq_s32(sum[0][t], sum[1][t]), vpaddq_s32(sum[2][t], sum[3][t]));
}

/* Scales (or biases) of blocks b..b+3, b a multiple of 4, from the row's first element `at`. */
LAP_INLINE float32x4_t lap_scales4_neon(lap_format format, const unsigned char *array, size_t at,
                                        const int ratio, int b) {
  if (ratio == 1) return lap_format_load4_neon(format, array, at + (size_t)b);
  const float first = lap_format_load(format, array, at + (size_t)(b / 2));
  const float second = lap_format_load(format, array, at + (size_t)(b / 2 + 1));
  return vcombine_f32(vdup_n_f32(first), vdup_n_f32(second));
}

LAP_INLINE float32x4_t lap_qblocks_add4_neon(const int bits, float32x4_t scale, float32x4_t bias,
                                             const lap_qrow *x, int b, int32x4_t dot, float32x4_t lanes) {
  if (bits == 8) {
    dot = vsubq_s32(dot, vshlq_n_s32(vld1q_s32(x->sum + b), 7));
    bias = vfmaq_n_f32(bias, scale, 128.0f);
  }
  lanes = vfmaq_f32(lanes, vmulq_f32(scale, vld1q_f32(x->scale + b)), vcvtq_f32_s32(dot));
  return vfmaq_f32(lanes, bias, vld1q_f32(x->scaled_sum + b));
}

/* Blocks b..b+3 of one row of W and `tokens` rows of x into their four lanes. */
LAP_INLINE void lap_qdots4_neon(const int bits, const int group_size, const int tokens, const lap_qmatrix *w,
                                int row, int b, const lap_qrow x[], const int16_t *const q[],
                                float32x4_t lanes[]) {
  const int block = lap_block_of_group(group_size);
  const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
  const size_t at = (size_t)row * w->scale_stride;
  const float32x4_t scale = lap_scales4_neon(w->format, w->scales, at, group_size / block, b);
  const float32x4_t bias = lap_scales4_neon(w->format, w->biases, at, group_size / block, b);
  int32x4_t dot[LAP_Q_TILE];
  lap_dots4_neon(bits, block, tokens, codes + (size_t)(b * block / 8 * bits), q, (size_t)(b * block), dot);
  for (int t = 0; t < tokens; t++)
    lanes[t] = lap_qblocks_add4_neon(bits, scale, bias, &x[t], b, dot[t], lanes[t]);
}

/* The dot of block b alone: of a whole 64 columns' vectors, or element by element in the row's last 32. */
LAP_INLINE int32_t lap_last_dot_neon(const int bits, const int block, const unsigned char *codes, int cols,
                                     int b, const int16_t *q) {
  const int column = b * block / 64 * 64;
  if (column + 64 <= cols) {
    int16x8_t c[8];
    lap_load_codes64_neon(bits, codes + column / 8 * bits, c);
    return vaddvq_s32(b * block == column ? lap_block_dot_neon(bits, block, 0, c, q + column)
                                          : lap_block_dot_neon(bits, block, 1, c, q + column));
  }
  int16_t code[32];
  int32_t dot = 0;
  lap_unpack_codes(bits, codes, column, 32, code);
  for (int i = 0; i < 32; i++) dot += (int32_t)q[column + (bits == 4 ? i % 4 * 16 + i / 4 : i)] * code[i];
  return dot;
}

/* One row of W against `tokens` rows of x: y[t * y_stride]. */
LAP_INLINE void lap_qdots_neon(const int bits, const int group_size, const int tokens, const lap_qmatrix *w,
                               int row, const lap_qrow x[], const int16_t *const q[], float *y,
                               size_t y_stride) {
  const int block = lap_block_of_group(group_size), blocks = w->cols / block;
  float32x4_t low[LAP_Q_TILE], high[LAP_Q_TILE];
  for (int t = 0; t < tokens; t++) low[t] = high[t] = vdupq_n_f32(0.0f);
  int b = 0;
  for (; b + 8 <= blocks; b += 8) {
    lap_qdots4_neon(bits, group_size, tokens, w, row, b, x, q, low);
    lap_qdots4_neon(bits, group_size, tokens, w, row, b + 4, x, q, high);
  }
  if (b + 4 <= blocks) {
    lap_qdots4_neon(bits, group_size, tokens, w, row, b, x, q, low);
    b += 4;
  }
  for (int t = 0; t < tokens; t++) {
    float lane[8];
    vst1q_f32(lane, low[t]);
    vst1q_f32(lane + 4, high[t]);
    for (int last = b; last < blocks; last++) {
      const size_t scale = (size_t)row * w->scale_stride + (size_t)(last * block / group_size);
      const unsigned char *codes = w->codes + (size_t)row * w->row_bytes;
      lap_qblock_add(bits, lap_format_load(w->format, w->scales, scale),
                     lap_format_load(w->format, w->biases, scale), x[t].scale[last], x[t].scaled_sum[last],
                     x[t].sum[last], lap_last_dot_neon(bits, block, codes, w->cols, last, q[t]),
                     &lane[last % 8]);
    }
    y[(size_t)t * y_stride] = b == blocks ? lap_tree8_neon(low[t], high[t]) : lap_tree8_portable(lane);
  }
}

/* Rows first..last-1 against x rows, in tiles of LAP_Q_TILE rows of x so that codes are parted once
 * for each tile, and in strips of W that stay in the first cache levels while the tiles pass. */
LAP_INLINE void lap_matmul_quantized_neon(const int bits, const int group_size, const lap_qmatrix *w,
                                          const lap_qrows *x, int x_first, int x_rows, int first, int last,
                                          float *y, size_t y_stride) {
  enum {
    STRIP = 32
  };
  for (int strip = first; strip < last; strip += STRIP) {
    const int end = strip + STRIP < last ? strip + STRIP : last;
    for (int t = 0, tokens; t < x_rows; t += tokens) {
      tokens = x_rows - t >= LAP_Q_TILE ? LAP_Q_TILE : 1;
      lap_qrow rows[LAP_Q_TILE];
      const int16_t *q[LAP_Q_TILE];
      for (int i = 0; i < tokens; i++) {
        rows[i] = lap_qrows_at(x, x_first + t + i);
        q[i] = bits == 4 ? rows[i].nibble : rows[i].q;
      }
      for (int r = strip; r < end; r++) {
        float *out = y + (size_t)t * y_stride + r;
        if (tokens == LAP_Q_TILE) {
          lap_qdots_neon(bits, group_size, LAP_Q_TILE, w, r, rows, q, out, y_stride);
        } else {
          lap_qdots_neon(bits, group_size, 1, w, r, rows, q, out, y_stride);
        }
      }
    }
  }
}
#endif

#endif
