/* attention.h: softmax over blocks of keys, and the weighted sum of values.
 *
 * Attention walks keys in blocks of 64 aligned to absolute position, in ascending position, with an
 * online softmax. Blocks belong to spans of 512 positions; each span is computed from nothing
 * (maximum m, sum l, accumulator acc) and spans are folded together in ascending order, so that they
 * may be computed by different threads. What a query sees is a range of positions [low, high);
 * keys outside it contribute exact zeros to l and are left out of acc, so the arithmetic of a query
 * does not depend on the other queries computed with it.
 *
 * Caches hold codes: 4 or 8 bits, affine (scale and bias for each group), or, as the plain cache, 16
 * bits signed (a scale for each group, quantize_row.h). Scales and biases are f32.
 *
 * Order within a span. Block sums of weights: 16 lanes by position mod 16, added by halves, then
 * l = fma(l, correction, sum). Each element of acc: ascending position, one FMA for each key: acc holds
 * the sum of (p * scale) * code; the sum of p * bias is kept for each group and added once at the end
 * of the span. */
#ifndef LAP_KERNELS_ATTENTION_H
#define LAP_KERNELS_ATTENTION_H

#include "kernels/exponential.h"

enum {
  LAP_KEY_BLOCK = 64,
  LAP_KEY_SPAN = 512
};

/* Keys and values of one KV head, as a kernel reads them. Position p stands in slot p mod capacity. */
typedef struct lap_kv_view {
  const unsigned char *k, *v;                                     /* codes of slot s at + s * row_bytes */
  const unsigned char *k_scales, *k_biases, *v_scales, *v_biases; /* slot s at + s * scale_bytes */
  size_t row_bytes;
  size_t scale_bytes;
  int64_t capacity;
  int head_dim;
  int bits;       /* 4, 8; 16 = plain, no biases */
  int group_size; /* 32, 64, 128 */
} lap_kv_view;

/* How many of the positions from `from` to `to` stand in consecutive slots, beginning at `*slot`. */
LAP_INLINE int64_t lap_slot_run(int64_t capacity, int64_t from, int64_t to, int64_t *slot) {
  *slot = from % capacity;
  return to - from < capacity - *slot ? to - from : capacity - *slot;
}

/* Groups that have a bias. */
LAP_INLINE int lap_kv_bias_groups(const lap_kv_view *kv) {
  return kv->bits == 16 ? 0 : kv->head_dim / kv->group_size;
}

/* Scores s[0..63] of a block, live in [first, last): updates the running maximum *m and sum *l,
 * replaces s by weights (zero where not live) and gives the factor for what was accumulated before. */
LAP_INLINE float lap_softmax_block_portable(float *s, int first, int last, float *m, float *l) {
  float top = *m;
  for (int i = first; i < last; i++) top = s[i] > top ? s[i] : top;
  float correction = lap_exp_portable(*m - top);
  float lane[LAP_LANES] = {0};
  for (int i = 0; i < LAP_KEY_BLOCK; i++) {
    s[i] = i >= first && i < last ? lap_exp_portable(s[i] - top) : 0.0f;
    lane[i % LAP_LANES] += s[i];
  }
  if (*l == 0.0f) correction = 0.0f; /* nothing accumulated yet; m was -infinity */
  *l = lap_fma(*l, correction, lap_tree16_portable(lane));
  *m = top;
  return correction;
}

LAP_INLINE float lap_code_at(int bits, const unsigned char *row, int i) {
  if (bits == 16) return (float)(int16_t)lap_load_u16(row + 2 * i);
  return (float)(bits == 8 ? row[i] : (row[i / 2] >> (4 * (i & 1))) & 15);
}

/* For each query t: adds p[t][0..n-1] (stride LAP_KEY_BLOCK) times the values of n consecutive slots from
 * `slot` to acc[t] [head_dim] and, but for plain caches, bias_acc[t] [groups]. */
LAP_INLINE void lap_values1_portable(const int bits, const lap_kv_view *kv, int64_t slot, int n,
                                     const float *p, float *acc, float *bias_acc) {
  for (int j = 0; j < n; j++) {
    const unsigned char *row = kv->v + (size_t)(slot + j) * kv->row_bytes;
    size_t at = (size_t)(slot + j) * kv->scale_bytes;
    for (int g = 0; g < kv->head_dim / kv->group_size; g++) {
      float a = p[j] * lap_load_f32(kv->v_scales + at + 4 * g);
      if (bits != 16) bias_acc[g] = lap_fma(p[j], lap_load_f32(kv->v_biases + at + 4 * g), bias_acc[g]);
      for (int d = g * kv->group_size; d < (g + 1) * kv->group_size; d++)
        acc[d] = lap_fma(a, lap_code_at(bits, row, d), acc[d]);
    }
  }
}

LAP_INLINE void lap_values_portable(const int bits, const lap_kv_view *kv, int queries, int64_t slot, int n,
                                    const float *p, float *acc, float *bias_acc) {
  for (int t = 0; t < queries; t++)
    lap_values1_portable(bits, kv, slot, n, p + t * LAP_KEY_BLOCK, acc + t * kv->head_dim,
                         bias_acc + t * lap_kv_bias_groups(kv));
}

#ifdef LAP_HAVE_AVX2
LAP_INLINE float lap_max8_avx2(__m256 v) {
  __m128 t = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  t = _mm_max_ps(t, _mm_movehl_ps(t, t));
  t = _mm_max_ss(t, _mm_shuffle_ps(t, t, 1));
  return _mm_cvtss_f32(t);
}

LAP_INLINE float lap_softmax_block_avx2(float *s, int first, int last, float *m, float *l) {
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 nothing = _mm256_set1_ps(-INFINITY);
  __m256 live[LAP_KEY_BLOCK / 8];
  __m256 best = _mm256_set1_ps(*m);
  for (int i = 0; i < LAP_KEY_BLOCK / 8; i++) {
    __m256i position = _mm256_add_epi32(steps, _mm256_set1_epi32(8 * i));
    __m256i inside = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), position),
                                         _mm256_cmpgt_epi32(_mm256_set1_epi32(last), position));
    live[i] = _mm256_castsi256_ps(inside);
    /* max returns the second operand for a NaN score: it is passed over, as in the portable variant. */
    best = _mm256_max_ps(_mm256_blendv_ps(nothing, _mm256_loadu_ps(s + 8 * i), live[i]), best);
  }
  float top = lap_max8_avx2(best);
  float correction = _mm256_cvtss_f32(lap_exp_avx2(_mm256_set1_ps(*m - top)));
  __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
  const __m256 tops = _mm256_set1_ps(top);
  for (int i = 0; i < LAP_KEY_BLOCK / 8; i++) {
    __m256 p = _mm256_and_ps(live[i], lap_exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s + 8 * i), tops)));
    _mm256_storeu_ps(s + 8 * i, p);
    if (i % 2) {
      high = _mm256_add_ps(high, p);
    } else {
      low = _mm256_add_ps(low, p);
    }
  }
  if (*l == 0.0f) correction = 0.0f;
  *l = lap_fma(*l, correction, lap_tree16_avx2(low, high));
  *m = top;
  return correction;
}

/* Sixteen codes from `p` (8, 16 or 32 bytes) as two vectors of floats. */
LAP_INLINE void lap_codes16_avx2(const int bits, const unsigned char *p, __m256 *low, __m256 *high) {
  __m128i bytes;
  if (bits == 16) {
    const __m128i *words = (const __m128i *)(const void *)p;
    *low = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(words)));
    *high = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(words + 1)));
    return;
  }
  if (bits == 8) {
    bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
  } else {
    const __m128i mask = _mm_set1_epi8(15);
    __m128i packed = _mm_loadl_epi64((const __m128i *)(const void *)p);
    bytes = _mm_unpacklo_epi8(_mm_and_si128(packed, mask), _mm_and_si128(_mm_srli_epi16(packed, 4), mask));
  }
  *low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  *high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
}

enum {
  LAP_VALUE_TILE = 4,     /* queries whose accumulators are in registers together */
  LAP_VALUE_QUERIES = 32, /* queries whose weights are prepared together */
  LAP_VALUE_COLUMNS = 16,
  LAP_MAX_KV_GROUPS = LAP_MAX_HEAD_DIM / 32
};

/* bias_acc [groups] = fma(p[j], biases of slot + j, bias_acc) for j ascending: one lane for each group. */
LAP_INLINE void lap_value_biases_avx2(const lap_kv_view *kv, int64_t slot, int n, const float *p,
                                      float *bias_acc) {
  const int groups = kv->head_dim / kv->group_size;
  const unsigned char *biases = kv->v_biases + (size_t)slot * kv->scale_bytes;
  int g = 0;
  for (; g + 8 <= groups; g += 8) {
    __m256 sum = _mm256_loadu_ps(bias_acc + g);
    for (int j = 0; j < n; j++)
      sum = _mm256_fmadd_ps(
          _mm256_broadcast_ss(p + j),
          _mm256_loadu_ps((const float *)(const void *)(biases + (size_t)j * kv->scale_bytes + 4 * g)), sum);
    _mm256_storeu_ps(bias_acc + g, sum);
  }
  for (; g + 4 <= groups; g += 4) {
    __m128 sum = _mm_loadu_ps(bias_acc + g);
    for (int j = 0; j < n; j++)
      sum = _mm_fmadd_ps(
          _mm_broadcast_ss(p + j),
          _mm_loadu_ps((const float *)(const void *)(biases + (size_t)j * kv->scale_bytes + 4 * g)), sum);
    _mm_storeu_ps(bias_acc + g, sum);
  }
  for (; g < groups; g++) {
    float sum = bias_acc[g];
    for (int j = 0; j < n; j++)
      sum = lap_fma(p[j], lap_load_f32(biases + (size_t)j * kv->scale_bytes + 4 * g), sum);
    bias_acc[g] = sum;
  }
}

/* out[j] = p[j] * scale[j] */
LAP_INLINE void lap_value_weights_avx2(const float *p, const float *scale, int n, float *out) {
  int j = 0;
  for (; j + 8 <= n; j += 8)
    _mm256_storeu_ps(out + j, _mm256_mul_ps(_mm256_loadu_ps(p + j), _mm256_loadu_ps(scale + j)));
  for (; j < n; j++) out[j] = p[j] * scale[j];
}

/* Sixteen columns of n keys into `queries` accumulators, from codes, or, if `code` is not NULL, from what was
 * made of them [n, 16]. */
LAP_INLINE void lap_value_columns_avx2(const int bits, const int queries, const int head_dim, int n,
                                       const unsigned char *rows, size_t row_bytes, const float *code,
                                       const float weight[][LAP_KEY_BLOCK], float *acc) {
  __m256 low[LAP_VALUE_TILE], high[LAP_VALUE_TILE];
  for (int t = 0; t < queries; t++) {
    low[t] = _mm256_loadu_ps(acc + t * head_dim);
    high[t] = _mm256_loadu_ps(acc + t * head_dim + 8);
  }
  for (int j = 0; j < n; j++) {
    __m256 a, b;
    if (code) {
      a = _mm256_loadu_ps(code + j * LAP_VALUE_COLUMNS);
      b = _mm256_loadu_ps(code + j * LAP_VALUE_COLUMNS + 8);
    } else {
      lap_codes16_avx2(bits, rows + (size_t)j * row_bytes, &a, &b);
    }
    for (int t = 0; t < queries; t++) {
      __m256 w = _mm256_broadcast_ss(&weight[t][j]);
      low[t] = _mm256_fmadd_ps(w, a, low[t]);
      high[t] = _mm256_fmadd_ps(w, b, high[t]);
    }
  }
  for (int t = 0; t < queries; t++) {
    _mm256_storeu_ps(acc + t * head_dim, low[t]);
    _mm256_storeu_ps(acc + t * head_dim + 8, high[t]);
  }
}

/* Sixteen columns for any number of queries: from several tiles on, codes are turned into floats once. */
LAP_INLINE void lap_value_tiles_avx2(const int bits, const int head_dim, int queries, int n,
                                     const unsigned char *rows, size_t row_bytes,
                                     const float weight[][LAP_KEY_BLOCK], float *acc) {
  float code[LAP_KEY_BLOCK * LAP_VALUE_COLUMNS];
  const int many = queries > LAP_VALUE_TILE;
  int t = 0;
  if (many) {
    for (int j = 0; j < n; j++) {
      __m256 a, b;
      lap_codes16_avx2(bits, rows + (size_t)j * row_bytes, &a, &b);
      _mm256_storeu_ps(code + j * LAP_VALUE_COLUMNS, a);
      _mm256_storeu_ps(code + j * LAP_VALUE_COLUMNS + 8, b);
    }
    for (; t + LAP_VALUE_TILE <= queries; t += LAP_VALUE_TILE)
      lap_value_columns_avx2(bits, LAP_VALUE_TILE, head_dim, n, rows, row_bytes, code, weight + t,
                             acc + t * head_dim);
    for (; t < queries; t++)
      lap_value_columns_avx2(bits, 1, head_dim, n, rows, row_bytes, code, weight + t, acc + t * head_dim);
  } else if (queries == 4) {
    lap_value_columns_avx2(bits, 4, head_dim, n, rows, row_bytes, NULL, weight, acc);
  } else if (queries == 2) {
    lap_value_columns_avx2(bits, 2, head_dim, n, rows, row_bytes, NULL, weight, acc);
  } else {
    for (; t < queries; t++)
      lap_value_columns_avx2(bits, 1, head_dim, n, rows, row_bytes, NULL, weight + t, acc + t * head_dim);
  }
}

#ifdef LAP_HAVE_AVX512
LAP_INLINE float lap_softmax_block_avx512(float *s, int first, int last, float *m, float *l) {
  const uint64_t below_last = last < 64 ? (1ull << last) - 1 : ~0ull;
  const uint64_t live = below_last & ~((1ull << first) - 1);
  __m512 best = _mm512_set1_ps(*m);
  for (int i = 0; i < LAP_KEY_BLOCK / 16; i++) /* a NaN is passed over: max returns the second operand */
    best = _mm512_mask_max_ps(best, (__mmask16)(live >> (16 * i)), _mm512_loadu_ps(s + 16 * i), best);
  const float top =
      lap_max8_avx2(_mm256_max_ps(_mm512_castps512_ps256(best), _mm512_extractf32x8_ps(best, 1)));
  float correction = _mm512_cvtss_f32(lap_exp_avx512(_mm512_set1_ps(*m - top)));
  __m512 sum = _mm512_setzero_ps();
  for (int i = 0; i < LAP_KEY_BLOCK / 16; i++) {
    __m512 p = lap_exp_avx512(_mm512_sub_ps(_mm512_loadu_ps(s + 16 * i), _mm512_set1_ps(top)));
    p = _mm512_maskz_mov_ps((__mmask16)(live >> (16 * i)), p);
    _mm512_storeu_ps(s + 16 * i, p);
    sum = _mm512_add_ps(sum, p);
  }
  if (*l == 0.0f) correction = 0.0f;
  *l = lap_fma(*l, correction, lap_tree16_avx512(sum));
  *m = top;
  return correction;
}

/* 32 codes from `p` (16, 32 or 64 bytes) as two vectors of floats. */
LAP_INLINE void lap_codes32_avx512(const int bits, const unsigned char *p, __m512 *low, __m512 *high) {
  const __m256i *v = (const __m256i *)(const void *)p;
  if (bits == 16) {
    *low = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(v)));
    *high = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(v + 1)));
    return;
  }
  __m128i first, second;
  if (bits == 8) {
    first = _mm_loadu_si128((const __m128i *)(const void *)p);
    second = _mm_loadu_si128((const __m128i *)(const void *)(p + 16));
  } else {
    const __m128i mask = _mm_set1_epi8(15), packed = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i even = _mm_and_si128(packed, mask), odd = _mm_and_si128(_mm_srli_epi16(packed, 4), mask);
    first = _mm_unpacklo_epi8(even, odd);
    second = _mm_unpackhi_epi8(even, odd);
  }
  *low = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(first));
  *high = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(second));
}

/* 32 columns of n keys into the accumulators of at most eight queries. */
LAP_INLINE void lap_value_columns_avx512(const int bits, const int queries, const int head_dim, int n,
                                         const unsigned char *rows, size_t row_bytes,
                                         const float weight[][LAP_KEY_BLOCK], float *acc) {
  __m512 low[8], high[8];
  for (int t = 0; t < queries; t++) {
    low[t] = _mm512_loadu_ps(acc + t * head_dim);
    high[t] = _mm512_loadu_ps(acc + t * head_dim + 16);
  }
  for (int j = 0; j < n; j++) {
    __m512 a, b;
    lap_codes32_avx512(bits, rows + (size_t)j * row_bytes, &a, &b);
    for (int t = 0; t < queries; t++) {
      __m512 w = _mm512_set1_ps(weight[t][j]);
      low[t] = _mm512_fmadd_ps(w, a, low[t]);
      high[t] = _mm512_fmadd_ps(w, b, high[t]);
    }
  }
  for (int t = 0; t < queries; t++) {
    _mm512_storeu_ps(acc + t * head_dim, low[t]);
    _mm512_storeu_ps(acc + t * head_dim + 16, high[t]);
  }
}

LAP_INLINE void lap_value_tiles_avx512(const int bits, const int head_dim, int queries, int n,
                                       const unsigned char *rows, size_t row_bytes,
                                       const float weight[][LAP_KEY_BLOCK], float *acc) {
  int t = 0;
  for (; t + 8 <= queries; t += 8)
    lap_value_columns_avx512(bits, 8, head_dim, n, rows, row_bytes, weight + t, acc + t * head_dim);
  for (; t + 4 <= queries; t += 4)
    lap_value_columns_avx512(bits, 4, head_dim, n, rows, row_bytes, weight + t, acc + t * head_dim);
  for (; t < queries; t++)
    lap_value_columns_avx512(bits, 1, head_dim, n, rows, row_bytes, weight + t, acc + t * head_dim);
}
#endif

enum { /* columns that lap_value_tiles adds */
#ifdef LAP_HAVE_AVX512
  LAP_VALUE_STEP = 32
#else
  LAP_VALUE_STEP = LAP_VALUE_COLUMNS
#endif
};

LAP_INLINE void lap_values_avx2(const int bits, const lap_kv_view *kv, int queries, int64_t slot, int n,
                                const float *p, float *acc, float *bias_acc) {
  const unsigned char *rows = kv->v + (size_t)slot * kv->row_bytes;
  const unsigned char *scales = kv->v_scales + (size_t)slot * kv->scale_bytes;
  const int groups = kv->head_dim / kv->group_size;
  float scale[LAP_KEY_BLOCK], weight[LAP_VALUE_QUERIES][LAP_KEY_BLOCK];
  for (int first = 0; first < queries; first += LAP_VALUE_QUERIES) {
    const int count = queries - first < LAP_VALUE_QUERIES ? queries - first : LAP_VALUE_QUERIES;
    for (int t = first; t < first + count && bits != 16; t++)
      lap_value_biases_avx2(kv, slot, n, p + t * LAP_KEY_BLOCK, bias_acc + t * groups);
    for (int g = 0; g < groups; g++) {
      for (int j = 0; j < n; j++) scale[j] = lap_load_f32(scales + (size_t)j * kv->scale_bytes + 4 * g);
      for (int t = 0; t < count; t++)
        lap_value_weights_avx2(p + (first + t) * LAP_KEY_BLOCK, scale, n, weight[t]);
      for (int d = g * kv->group_size; d < (g + 1) * kv->group_size; d += LAP_VALUE_STEP) {
        const float(*weights)[LAP_KEY_BLOCK] = (const float(*)[LAP_KEY_BLOCK])weight;
        const unsigned char *codes = rows + d * bits / 8;
        float *to = acc + first * kv->head_dim + d;
        LAP_ISA(lap_value_tiles)(bits, kv->head_dim, count, n, codes, kv->row_bytes, weights, to);
      }
    }
  }
}
#endif

#ifdef LAP_HAVE_NEON
LAP_INLINE float lap_softmax_block_neon(float *s, int first, int last, float *m, float *l) {
  static const int32_t steps[] = {0, 1, 2, 3};
  uint32x4_t live[LAP_KEY_BLOCK / 4];
  float32x4_t best = vdupq_n_f32(*m);
  for (int i = 0; i < LAP_KEY_BLOCK / 4; i++) {
    int32x4_t position = vaddq_s32(vld1q_s32(steps), vdupq_n_s32(4 * i));
    live[i] = vandq_u32(vcgeq_s32(position, vdupq_n_s32(first)), vcltq_s32(position, vdupq_n_s32(last)));
    float32x4_t score = vld1q_f32(s + 4 * i);
    best = vbslq_f32(vandq_u32(live[i], vcgtq_f32(score, best)), score, best); /* a NaN is passed over */
  }
  float top = vmaxvq_f32(best);
  float correction = vgetq_lane_f32(lap_exp_neon(vdupq_n_f32(*m - top)), 0);
  float32x4_t sum[4];
  for (int k = 0; k < 4; k++) sum[k] = vdupq_n_f32(0.0f);
  for (int i = 0; i < LAP_KEY_BLOCK / 4; i++) {
    float32x4_t p = lap_exp_neon(vsubq_f32(vld1q_f32(s + 4 * i), vdupq_n_f32(top)));
    p = vreinterpretq_f32_u32(vandq_u32(live[i], vreinterpretq_u32_f32(p)));
    vst1q_f32(s + 4 * i, p);
    sum[i % 4] = vaddq_f32(sum[i % 4], p);
  }
  if (*l == 0.0f) correction = 0.0f;
  *l = lap_fma(*l, correction, lap_tree16_neon(sum));
  *m = top;
  return correction;
}

/* Sixteen codes from `p` (8, 16 or 32 bytes) as floats. */
LAP_INLINE void lap_codes16_neon(const int bits, const unsigned char *p, float32x4_t c[4]) {
  if (bits == 16) {
    for (int h = 0; h < 2; h++) {
      int16x8_t words = lap_i16x8_neon(p + 16 * h);
      c[2 * h] = lap_low_floats_neon(words);
      c[2 * h + 1] = lap_high_floats_neon(words);
    }
    return;
  }
  uint8x16_t bytes;
  if (bits == 8) {
    bytes = vld1q_u8(p);
  } else {
    uint8x8_t packed = vld1_u8(p), low = vand_u8(packed, vdup_n_u8(15)), high = vshr_n_u8(packed, 4);
    bytes = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
  }
  int16x8_t first = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
  int16x8_t second = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  c[0] = lap_low_floats_neon(first);
  c[1] = lap_high_floats_neon(first);
  c[2] = lap_low_floats_neon(second);
  c[3] = lap_high_floats_neon(second);
}

enum {
  LAP_VALUE_TILE = 4, /* queries whose accumulators are in registers together */
  LAP_VALUE_COLUMNS = 16
};

/* bias_acc [groups] = fma(p[j], biases of slot + j, bias_acc) for j ascending: one lane for each group. */
LAP_INLINE void lap_value_biases_neon(const lap_kv_view *kv, int64_t slot, int n, const float *p,
                                      float *bias_acc) {
  const int groups = kv->head_dim / kv->group_size;
  const unsigned char *biases = kv->v_biases + (size_t)slot * kv->scale_bytes;
  int g = 0;
  for (; g + 4 <= groups; g += 4) {
    float32x4_t sum = vld1q_f32(bias_acc + g);
    for (int j = 0; j < n; j++)
      sum = vfmaq_n_f32(sum, lap_f32x4_neon(biases + (size_t)j * kv->scale_bytes + 4 * g), p[j]);
    vst1q_f32(bias_acc + g, sum);
  }
  for (; g < groups; g++) {
    float sum = bias_acc[g];
    for (int j = 0; j < n; j++)
      sum = lap_fma(p[j], lap_load_f32(biases + (size_t)j * kv->scale_bytes + 4 * g), sum);
    bias_acc[g] = sum;
  }
}

/* Sixteen columns of n keys into the accumulators of `queries` queries. */
LAP_INLINE void lap_value_columns_neon(const int bits, const int queries, const int head_dim, int n,
                                       const unsigned char *rows, size_t row_bytes,
                                       const float weight[][LAP_KEY_BLOCK], float *acc) {
  float32x4_t sum[LAP_VALUE_TILE][4];
  for (int t = 0; t < queries; t++)
    for (int k = 0; k < 4; k++) sum[t][k] = vld1q_f32(acc + t * head_dim + 4 * k);
  for (int j = 0; j < n; j++) {
    float32x4_t c[4];
    lap_codes16_neon(bits, rows + (size_t)j * row_bytes, c);
    for (int t = 0; t < queries; t++)
      for (int k = 0; k < 4; k++) sum[t][k] = vfmaq_n_f32(sum[t][k], c[k], weight[t][j]);
  }
  for (int t = 0; t < queries; t++)
    for (int k = 0; k < 4; k++) vst1q_f32(acc + t * head_dim + 4 * k, sum[t][k]);
}

/* All columns for at most a tile of queries. */
LAP_INLINE void lap_values_tile_neon(const int bits, const lap_kv_view *kv, int queries, int64_t slot, int n,
                                     const float *p, float *acc) {
  const unsigned char *rows = kv->v + (size_t)slot * kv->row_bytes;
  float weight[LAP_VALUE_TILE][LAP_KEY_BLOCK];
  for (int g = 0; g < kv->head_dim / kv->group_size; g++) {
    const unsigned char *scales = kv->v_scales + (size_t)slot * kv->scale_bytes + 4 * g;
    for (int t = 0; t < queries; t++)
      for (int j = 0; j < n; j++)
        weight[t][j] = p[t * LAP_KEY_BLOCK + j] * lap_load_f32(scales + (size_t)j * kv->scale_bytes);
    for (int d = g * kv->group_size; d < (g + 1) * kv->group_size; d += LAP_VALUE_COLUMNS) {
      const unsigned char *columns = rows + d * bits / 8;
      if (queries == LAP_VALUE_TILE) {
        lap_value_columns_neon(bits, LAP_VALUE_TILE, kv->head_dim, n, columns, kv->row_bytes,
                               (const float(*)[LAP_KEY_BLOCK])weight, acc + d);
        continue;
      }
      for (int t = 0; t < queries; t++)
        lap_value_columns_neon(bits, 1, kv->head_dim, n, columns, kv->row_bytes,
                               (const float(*)[LAP_KEY_BLOCK])weight + t, acc + t * kv->head_dim + d);
    }
  }
}

LAP_INLINE void lap_values_neon(const int bits, const lap_kv_view *kv, int queries, int64_t slot, int n,
                                const float *p, float *acc, float *bias_acc) {
  const int groups = lap_kv_bias_groups(kv);
  for (int t = 0; t < queries && bits != 16; t++)
    lap_value_biases_neon(kv, slot, n, p + t * LAP_KEY_BLOCK, bias_acc + t * groups);
  for (int t = 0; t < queries; t += LAP_VALUE_TILE)
    lap_values_tile_neon(bits, kv, queries - t < LAP_VALUE_TILE ? queries - t : LAP_VALUE_TILE, slot, n,
                         p + t * LAP_KEY_BLOCK, acc + t * kv->head_dim);
}
#endif

#endif
