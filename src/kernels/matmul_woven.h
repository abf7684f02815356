/* matmul_woven.h: y = x W^T over affine weights for eight and more rows of x at once.
 *
 * The arithmetic and its order are those of matmul_quantized.h; what differs is how the integers inside a
 * block are added up. There, a register holds columns, and its lanes must be added at the end of every
 * block. Here it holds rows of x: eight rows are woven, two neighbouring columns of each side by side,
 *     woven[row / 8][column / 2][row mod 8][2],
 * so that one multiply-add with a pair of weights, the same for all lanes, adds two columns for eight rows,
 * and nothing is left to be added across lanes. Scales and sums are woven too, [row / 8][block][row mod 8].
 * Weights are unpacked once for a tile of rows. Rows that fill up the last eight are computed and left out.
 *
 * The order of columns is free as long as both sides have it: for 4 bits it is the nibble order of
 * quantize_row.h, for all others the natural one. */
#ifndef LAP_KERNELS_MATMUL_WOVEN_H
#define LAP_KERNELS_MATMUL_WOVEN_H

#include "kernels/matmul_quantized.h"

#ifndef LAP_IS_PORTABLE
#define LAP_HAVE_WOVEN 1
#endif

enum {
  LAP_WEAVE = 8 /* rows woven together */
};

/* Where element 2 * pair of row `row` stands, in elements. */
LAP_INLINE size_t lap_woven_at(int cols, int row, int pair) {
  return ((size_t)(row / LAP_WEAVE) * (size_t)(cols / 2) + (size_t)pair) * 2 * LAP_WEAVE +
         2 * (size_t)(row % LAP_WEAVE);
}

/* Where the scale of block `block` of row `row` stands. */
LAP_INLINE size_t lap_woven_block_at(int blocks, int row, int block) {
  return ((size_t)(row / LAP_WEAVE) * (size_t)blocks + (size_t)block) * LAP_WEAVE + (size_t)(row % LAP_WEAVE);
}

LAP_INLINE void lap_weave64(const int16_t *from, int cols, int row, int column, int16_t *to) {
  int16_t *at = to + lap_woven_at(cols, row, column / 2);
  for (int p = 0; p < 32; p++) memcpy(at + (size_t)p * 2 * LAP_WEAVE, from + 2 * p, 2 * sizeof *from);
}

/* One of the two orders of 64 columns, where some reader wants it, into either layout. */
LAP_INLINE void lap_place64(const int16_t *from, const lap_qrows *out, int row, int column, int16_t *to) {
  if (!to) return;
  if (out->woven)
    lap_weave64(from, out->cols, row, column, to);
  else
    memcpy(to + (size_t)row * (size_t)out->padded + (size_t)column, from, 64 * sizeof *from);
}

/* x [width <= 64] as it stands in every layout: in both orders, with what goes with its blocks. */
typedef struct lap_quantized64 {
  int16_t q[64], nibble[64];
  float scale[2], scaled_sum[2];
  int32_t sum[2];
} lap_quantized64;

/* Quantizes x [n], columns `column` (a multiple of 64) and following of row `row` of `out`; n is a multiple
 * of the block (32 or 64) and, but at the end of the row, of 64. There once: it is called from everywhere. */
static inline void lap_quantize_columns(const float *x, int column, int n, int block, const lap_qrows *out,
                                        int row) {
  const int blocks = out->cols / block;
  lap_quantized64 part = {0};
  const lap_qrow to = {part.q, out->nibble ? part.nibble : NULL, part.scale, part.scaled_sum, part.sum};
  for (int done = 0; done < n; done += 64) {
    const int width = n - done < 64 ? n - done : 64;
    if (block == 64)
      LAP_ISA(lap_quantize_row)(x + done, 64, 64, &to);
    else
      LAP_ISA(lap_quantize_row)(x + done, width, 32, &to);
    lap_place64(part.q, out, row, column + done, out->q);
    lap_place64(part.nibble, out, row, column + done, out->nibble);
    for (int i = 0; i < width / block; i++) {
      const int b = (column + done) / block + i;
      const size_t at =
          out->woven ? lap_woven_block_at(blocks, row, b) : (size_t)row * (size_t)blocks + (size_t)b;
      out->scale[at] = part.scale[i];
      out->scaled_sum[at] = part.scaled_sum[i];
      out->sum[at] = part.sum[i];
    }
  }
}

#ifdef LAP_HAVE_AVX2
enum {
  LAP_WOVEN_ROWS = 8,  /* rows of W in a strip */
  LAP_WOVEN_TILE = 32, /* rows of x in a tile */
  LAP_WOVEN_GROUPS = LAP_WOVEN_TILE / LAP_WEAVE
};

/* The weights of 64 columns of a strip, unpacked, and what goes with their blocks (two, if of 32). */
typedef struct lap_woven_strip {
  _Alignas(32) int16_t code[LAP_WOVEN_ROWS][64];
  float scale[LAP_WOVEN_ROWS][2], bias[LAP_WOVEN_ROWS][2];
} lap_woven_strip;

LAP_INLINE void lap_woven_unpack_avx2(const int bits, const int group_size, const lap_qmatrix *w, int row,
                                      int rows, int column, lap_woven_strip *strip) {
  const int block = lap_block_of_group(group_size);
  for (int r = 0; r < rows; r++) {
    __m256i c[4];
    lap_load_codes64_avx2(bits, w->codes + (size_t)(row + r) * w->row_bytes + (size_t)(column / 8 * bits), c);
    for (int k = 0; k < 4; k++) _mm256_store_si256((__m256i *)(void *)(strip->code[r] + 16 * k), c[k]);
    for (int i = 0; i < 64 / block; i++) {
      const size_t at = (size_t)(row + r) * w->scale_stride + (size_t)((column + i * block) / group_size);
      const float scale = lap_format_load(w->format, w->scales, at);
      const float bias = lap_format_load(w->format, w->biases, at);
      strip->scale[r][i] = scale;
      strip->bias[r][i] = bits == 8 ? lap_fma(128.0f, scale, bias) : bias;
    }
  }
}

/* Pair p of block `part` (of two, if blocks are of 32): nibble order brings the blocks to halves of each
 * sixteen, natural order has them one after the other. */
LAP_INLINE int lap_woven_pair(const int bits, const int block, int part, int p) {
  if (block == 64) return p;
  return bits == 4 ? p / 4 * 8 + 4 * part + p % 4 : 16 * part + p;
}

/* Dots of one block: `rows` rows of the strip with `groups` times eight rows of x. */
LAP_INLINE void lap_woven_dots_avx2(const int bits, const int block, const int rows, const int groups,
                                    int part, const int16_t *code, const int16_t *x, size_t x_stride,
                                    __m256i dot[4][2]) {
  for (int r = 0; r < rows; r++)
    for (int g = 0; g < groups; g++) dot[r][g] = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int i = 0; i < block / 2; i++) {
    const int p = lap_woven_pair(bits, block, part, i);
    __m256i v[2];
    for (int g = 0; g < groups; g++)
      v[g] = _mm256_loadu_si256((const __m256i *)(const void *)(x + (size_t)g * x_stride + 16 * p));
    for (int r = 0; r < rows; r++) {
      const __m256i pair = _mm256_set1_epi32((int)lap_load_u32(code + 64 * r + 2 * p));
      for (int g = 0; g < groups; g++) dot[r][g] = _mm256_add_epi32(dot[r][g], _mm256_madd_epi16(v[g], pair));
    }
  }
}

/* One block of a few rows and groups, into its lane. */
LAP_INLINE void lap_woven_block_avx2(const int bits, const int group_size, const int rows, const int groups,
                                     const lap_woven_strip *strip, int row, int part, const lap_qrows *x,
                                     int group, int column, float lane[][LAP_WOVEN_TILE], int lane_group) {
  const int block = lap_block_of_group(group_size), blocks = x->cols / block;
  const int16_t *codes = bits == 4 ? x->nibble : x->q;
  const size_t at = lap_woven_block_at(blocks, group * LAP_WEAVE, column / block + part);
  __m256i dot[4][2];
  lap_woven_dots_avx2(bits, block, rows, groups, part, strip->code[row],
                      codes + lap_woven_at(x->cols, group * LAP_WEAVE, column / 2),
                      (size_t)x->cols * LAP_WEAVE, dot);
  for (int g = 0; g < groups; g++) {
    const size_t place = at + (size_t)(g * blocks * LAP_WEAVE);
    const __m256 x_scale = _mm256_loadu_ps(x->scale + place), x_sum = _mm256_loadu_ps(x->scaled_sum + place);
    for (int r = 0; r < rows; r++) {
      float *to = lane[row + r] + (lane_group + g) * LAP_WEAVE;
      __m256i d = dot[r][g];
      if (bits == 8) {
        __m256i sum = _mm256_loadu_si256((const __m256i *)(const void *)(x->sum + place));
        d = _mm256_sub_epi32(d, _mm256_slli_epi32(sum, 7));
      }
      __m256 l = _mm256_loadu_ps(to);
      l = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(strip->scale[row + r][part]), x_scale),
                          _mm256_cvtepi32_ps(d), l);
      l = _mm256_fmadd_ps(_mm256_set1_ps(strip->bias[row + r][part]), x_sum, l);
      _mm256_storeu_ps(to, l);
    }
  }
}

/* All rows of a strip and all groups of a tile. */
LAP_INLINE void lap_woven_columns_avx2(const int bits, const int group_size, const lap_woven_strip *strip,
                                       int rows, int part, const lap_qrows *x, int group, int groups,
                                       int column, float lane[][LAP_WOVEN_TILE]) {
  for (int g = 0; g < groups; g += 2)
    for (int r = 0; r < rows; r += 4) {
      if (g + 2 <= groups && r + 4 <= rows) {
        lap_woven_block_avx2(bits, group_size, 4, 2, strip, r, part, x, group + g, column, lane, g);
        continue;
      }
      for (int i = 0; i < 2 && g + i < groups; i++)
        for (int j = 0; j < 4 && r + j < rows; j++)
          lap_woven_block_avx2(bits, group_size, 1, 1, strip, r + j, part, x, group + g + i, column, lane,
                               g + i);
    }
}

#ifdef LAP_HAVE_AVX512
/* Where eight rows of x, and eight more, have a block: its codes, and its place among scales and sums. */
typedef struct lap_woven_halves {
  const int16_t *low, *high;
  size_t low_place, high_place;
} lap_woven_halves;

/* One block of `rows` rows of the strip and `pairs` times sixteen rows of x, into its lane. */
LAP_INLINE void lap_woven_block_avx512(const int bits, const int group_size, const int rows, const int pairs,
                                       const lap_woven_strip *strip, int row, int part, const lap_qrows *x,
                                       const lap_woven_halves at[], float lane[][LAP_WOVEN_TILE]) {
  const int block = lap_block_of_group(group_size);
  __m512i dot[LAP_WOVEN_ROWS][2];
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < pairs; j++) dot[r][j] = _mm512_setzero_si512();
#pragma GCC unroll 2
  for (int i = 0; i < block / 2; i++) {
    const int p = lap_woven_pair(bits, block, part, i);
    __m512i v[2];
    for (int j = 0; j < pairs; j++)
      v[j] = lap_join_i_avx512(_mm256_loadu_si256((const __m256i *)(const void *)(at[j].low + 16 * p)),
                               _mm256_loadu_si256((const __m256i *)(const void *)(at[j].high + 16 * p)));
    for (int r = 0; r < rows; r++) {
      const __m512i pair = _mm512_set1_epi32((int)lap_load_u32(strip->code[row + r] + 2 * p));
      for (int j = 0; j < pairs; j++) dot[r][j] = _mm512_dpwssd_epi32(dot[r][j], v[j], pair);
    }
  }
  for (int j = 0; j < pairs; j++) {
    const __m512 x_scale = lap_join_avx512(_mm256_loadu_ps(x->scale + at[j].low_place),
                                           _mm256_loadu_ps(x->scale + at[j].high_place));
    const __m512 x_sum = lap_join_avx512(_mm256_loadu_ps(x->scaled_sum + at[j].low_place),
                                         _mm256_loadu_ps(x->scaled_sum + at[j].high_place));
    const __m512i sum =
        lap_join_i_avx512(_mm256_loadu_si256((const __m256i *)(const void *)(x->sum + at[j].low_place)),
                          _mm256_loadu_si256((const __m256i *)(const void *)(x->sum + at[j].high_place)));
    for (int r = 0; r < rows; r++) {
      float *to = lane[row + r] + 2 * LAP_WEAVE * j;
      __m512i d = dot[r][j];
      if (bits == 8) d = _mm512_sub_epi32(d, _mm512_slli_epi32(sum, 7));
      __m512 l = _mm512_loadu_ps(to);
      l = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(strip->scale[row + r][part]), x_scale),
                          _mm512_cvtepi32_ps(d), l);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_set1_ps(strip->bias[row + r][part]), x_sum, l));
    }
  }
}

/* All rows of a strip and all groups of a tile, two groups in a register. Where their number is odd, the last
 * one goes with itself, and its double's lanes are not read. */
LAP_INLINE void lap_woven_columns_avx512(const int bits, const int group_size, const lap_woven_strip *strip,
                                         int rows, int part, const lap_qrows *x, int group, int groups,
                                         int column, float lane[][LAP_WOVEN_TILE]) {
  const int block = lap_block_of_group(group_size), blocks = x->cols / block, pairs = (groups + 1) / 2;
  const int16_t *codes = bits == 4 ? x->nibble : x->q;
  lap_woven_halves at[LAP_WOVEN_GROUPS / 2];
  for (int j = 0; j < pairs; j++) {
    const int low = (group + 2 * j) * LAP_WEAVE;
    const int high = 2 * j + 1 < groups ? low + LAP_WEAVE : low;
    at[j].low = codes + lap_woven_at(x->cols, low, column / 2);
    at[j].high = codes + lap_woven_at(x->cols, high, column / 2);
    at[j].low_place = lap_woven_block_at(blocks, low, column / block + part);
    at[j].high_place = lap_woven_block_at(blocks, high, column / block + part);
  }
  if (rows == LAP_WOVEN_ROWS && pairs == 2) {
    lap_woven_block_avx512(bits, group_size, LAP_WOVEN_ROWS, 2, strip, 0, part, x, at, lane);
  } else if (rows == LAP_WOVEN_ROWS) {
    lap_woven_block_avx512(bits, group_size, LAP_WOVEN_ROWS, 1, strip, 0, part, x, at, lane);
  } else {
    for (int r = 0; r < rows; r++)
      if (pairs == 2) {
        lap_woven_block_avx512(bits, group_size, 1, 2, strip, r, part, x, at, lane);
      } else {
        lap_woven_block_avx512(bits, group_size, 1, 1, strip, r, part, x, at, lane);
      }
  }
}
#endif

/* The lanes of row r added by halves, [LAP_WOVEN_TILE] rows of x. */
LAP_INLINE void lap_woven_sum_avx2(float lane[8][LAP_WOVEN_ROWS][LAP_WOVEN_TILE], int r, float *out) {
  for (int t = 0; t < LAP_WOVEN_TILE; t += 8) {
    __m256 l[8];
    for (int i = 0; i < 8; i++) l[i] = _mm256_loadu_ps(&lane[i][r][t]);
    for (int half = 4; half; half /= 2)
      for (int i = 0; i < half; i++) l[i] = _mm256_add_ps(l[i], l[i + half]);
    _mm256_storeu_ps(out + t, l[0]);
  }
}

/* Rows first..last-1 of W against rows x_first..x_first + x_rows - 1 of x, which is woven. Tiles of x are the
 * outer loop: one stays in the second cache while all rows of W pass. */
LAP_INLINE void lap_matmul_woven_avx2(const int bits, const int group_size, const lap_qmatrix *w,
                                      const lap_qrows *x, int x_first, int x_rows, int first, int last,
                                      float *y, size_t y_stride) {
  const int parts = 64 / lap_block_of_group(group_size), x_last = x_first + x_rows;
  const int end_group = (x_last + LAP_WEAVE - 1) / LAP_WEAVE;
  float lane[8][LAP_WOVEN_ROWS][LAP_WOVEN_TILE];
  lap_woven_strip strip;
  for (int group = x_first / LAP_WEAVE; group < end_group; group += LAP_WOVEN_GROUPS) {
    const int groups = end_group - group < LAP_WOVEN_GROUPS ? end_group - group : LAP_WOVEN_GROUPS;
    for (int row = first; row < last; row += LAP_WOVEN_ROWS) {
      const int rows = last - row < LAP_WOVEN_ROWS ? last - row : LAP_WOVEN_ROWS;
      memset(lane, 0, sizeof lane);
      for (int column = 0; column < w->cols; column += 64) {
        lap_woven_unpack_avx2(bits, group_size, w, row, rows, column, &strip);
        for (int part = 0; part < parts; part++) {
          float(*to)[LAP_WOVEN_TILE] = lane[(column / 64 * parts + part) % 8];
          LAP_ISA(lap_woven_columns)(bits, group_size, &strip, rows, part, x, group, groups, column, to);
        }
      }
      for (int r = 0; r < rows; r++) {
        float out[LAP_WOVEN_TILE];
        lap_woven_sum_avx2(lane, r, out);
        for (int t = 0; t < groups * LAP_WEAVE; t++) {
          const int at = group * LAP_WEAVE + t - x_first;
          if (at >= 0 && at < x_rows) y[(size_t)at * y_stride + (size_t)(row + r)] = out[t];
        }
      }
    }
  }
}
#endif

#ifdef LAP_HAVE_NEON
enum {
  LAP_WOVEN_ROWS = 8, /* rows of W in a strip */
  LAP_WOVEN_GROUPS = 4
};

/* The weights of 64 columns of a strip, unpacked, and what goes with their blocks (two, if of 32). */
typedef struct lap_woven_strip {
  int16_t code[LAP_WOVEN_ROWS][64];
  float scale[LAP_WOVEN_ROWS][2], bias[LAP_WOVEN_ROWS][2];
} lap_woven_strip;

/* The eight lanes of the sums of a strip with eight rows of x. */
typedef float lap_woven_lanes[8][LAP_WOVEN_ROWS][LAP_WEAVE];

LAP_INLINE void lap_woven_unpack_neon(const int bits, const int group_size, const lap_qmatrix *w, int row,
                                      int rows, int column, lap_woven_strip *strip) {
  const int block = lap_block_of_group(group_size);
  for (int r = 0; r < rows; r++) {
    int16x8_t c[8];
    lap_load_codes64_neon(bits, w->codes + (size_t)(row + r) * w->row_bytes + (size_t)(column / 8 * bits), c);
    for (int k = 0; k < 8; k++) vst1q_s16(strip->code[r] + 8 * k, c[k]);
    for (int i = 0; i < 64 / block; i++) {
      const size_t at = (size_t)(row + r) * w->scale_stride + (size_t)((column + i * block) / group_size);
      const float scale = lap_format_load(w->format, w->scales, at);
      const float bias = lap_format_load(w->format, w->biases, at);
      strip->scale[r][i] = scale;
      strip->bias[r][i] = bits == 8 ? lap_fma(128.0f, scale, bias) : bias;
    }
  }
}

/* Dots of one block: `rows` rows of the strip with eight rows of x. A load that parts pairs gives a register
 * of eight rows' even columns and one of their odd ones. */
LAP_INLINE void lap_woven_dots_neon(const int bits, const int block, const int rows, int part,
                                    const int16_t *code, const int16_t *x, int32x4_t dot[][2]) {
  for (int r = 0; r < rows; r++) dot[r][0] = dot[r][1] = vdupq_n_s32(0);
  for (int j = 0; j < 8; j++) { /* vectors of eight columns */
    if (block == 32 && lap_vector_part_neon(bits, j) != part) continue;
    for (int p = 4 * j; p < 4 * j + 4; p++) {
      const int16x8x2_t v = vld2q_s16(x + 2 * LAP_WEAVE * p);
      for (int r = 0; r < rows; r++)
        for (int odd = 0; odd < 2; odd++) {
          const int16_t weight = code[64 * r + 2 * p + odd];
          dot[r][0] = vmlal_n_s16(dot[r][0], vget_low_s16(v.val[odd]), weight);
          dot[r][1] = vmlal_high_n_s16(dot[r][1], v.val[odd], weight);
        }
    }
  }
}

/* One block of `rows` rows of the strip, from `row` on, and eight rows of x into its lane. */
LAP_INLINE void lap_woven_block_neon(const int bits, const int group_size, const int rows,
                                     const lap_woven_strip *strip, int row, int part, const lap_qrows *x,
                                     int group, int column, float lane[][LAP_WEAVE]) {
  const int block = lap_block_of_group(group_size);
  const int16_t *codes = bits == 4 ? x->nibble : x->q;
  const size_t at = lap_woven_block_at(x->cols / block, group * LAP_WEAVE, column / block + part);
  int32x4_t dot[LAP_WOVEN_ROWS][2];
  lap_woven_dots_neon(bits, block, rows, part, strip->code[row],
                      codes + lap_woven_at(x->cols, group * LAP_WEAVE, column / 2), dot);
  for (int half = 0; half < 2; half++) {
    const size_t place = at + (size_t)(4 * half);
    const float32x4_t x_scale = vld1q_f32(x->scale + place), x_sum = vld1q_f32(x->scaled_sum + place);
    for (int r = 0; r < rows; r++) {
      float *to = lane[row + r] + 4 * half;
      int32x4_t d = dot[r][half];
      if (bits == 8) d = vsubq_s32(d, vshlq_n_s32(vld1q_s32(x->sum + place), 7));
      float32x4_t l =
          vfmaq_f32(vld1q_f32(to), vmulq_n_f32(x_scale, strip->scale[row + r][part]), vcvtq_f32_s32(d));
      vst1q_f32(to, vfmaq_n_f32(l, x_sum, strip->bias[row + r][part]));
    }
  }
}

/* Row r's lanes added by halves, for eight rows of x. */
LAP_INLINE void lap_woven_sum_neon(lap_woven_lanes lane, int r, float out[LAP_WEAVE]) {
  for (int t = 0; t < LAP_WEAVE; t += 4) {
    float32x4_t l[8];
    for (int i = 0; i < 8; i++) l[i] = vld1q_f32(&lane[i][r][t]);
    for (int half = 4; half; half /= 2)
      for (int i = 0; i < half; i++) l[i] = vaddq_f32(l[i], l[i + half]);
    vst1q_f32(out + t, l[0]);
  }
}

/* A strip of rows of W, from `row` on, against `groups` times eight rows of x. */
LAP_INLINE void lap_woven_strip_neon(const int bits, const int group_size, const lap_qmatrix *w,
                                     const lap_qrows *x, int group, int groups, int row, int rows,
                                     lap_woven_lanes lane[LAP_WOVEN_GROUPS]) {
  const int parts = 64 / lap_block_of_group(group_size);
  lap_woven_strip strip;
  memset(lane, 0, (size_t)groups * sizeof *lane);
  for (int column = 0; column < w->cols; column += 64) {
    lap_woven_unpack_neon(bits, group_size, w, row, rows, column, &strip);
    for (int g = 0; g < groups; g++)
      for (int part = 0; part < parts; part++) {
        float(*to)[LAP_WEAVE] = lane[g][(column / 64 * parts + part) % 8];
        if (rows == LAP_WOVEN_ROWS) {
          lap_woven_block_neon(bits, group_size, LAP_WOVEN_ROWS, &strip, 0, part, x, group + g, column, to);
          continue;
        }
        for (int r = 0; r < rows; r++)
          lap_woven_block_neon(bits, group_size, 1, &strip, r, part, x, group + g, column, to);
      }
  }
}

/* Rows first..last-1 of W against rows x_first..x_first + x_rows - 1 of x, which is woven. Tiles of x are the
 * outer loop: one stays in the second cache while all rows of W pass. */
LAP_INLINE void lap_matmul_woven_neon(const int bits, const int group_size, const lap_qmatrix *w,
                                      const lap_qrows *x, int x_first, int x_rows, int first, int last,
                                      float *y, size_t y_stride) {
  const int end_group = (x_first + x_rows + LAP_WEAVE - 1) / LAP_WEAVE;
  lap_woven_lanes lane[LAP_WOVEN_GROUPS];
  for (int group = x_first / LAP_WEAVE; group < end_group; group += LAP_WOVEN_GROUPS) {
    const int groups = end_group - group < LAP_WOVEN_GROUPS ? end_group - group : LAP_WOVEN_GROUPS;
    for (int row = first; row < last; row += LAP_WOVEN_ROWS) {
      const int rows = last - row < LAP_WOVEN_ROWS ? last - row : LAP_WOVEN_ROWS;
      lap_woven_strip_neon(bits, group_size, w, x, group, groups, row, rows, lane);
      for (int i = 0; i < groups * rows; i++) {
        float out[LAP_WEAVE];
        lap_woven_sum_neon(lane[i / rows], i % rows, out);
        for (int t = 0; t < LAP_WEAVE; t++) {
          const int at = (group + i / rows) * LAP_WEAVE + t - x_first;
          if (at >= 0 && at < x_rows) y[(size_t)at * y_stride + (size_t)(row + i % rows)] = out[t];
        }
      }
    }
  }
}
#endif

/* Either layout of x. */
LAP_INLINE void lap_matmul_rows(const int bits, const int group_size, const lap_qmatrix *w,
                                const lap_qrows *x, int x_first, int x_rows, int first, int last, float *y,
                                size_t y_stride) {
#ifdef LAP_HAVE_WOVEN
  if (x->woven) {
    LAP_ISA(lap_matmul_woven)(bits, group_size, w, x, x_first, x_rows, first, last, y, y_stride);
    return;
  }
#endif
  LAP_ISA(lap_matmul_quantized)(bits, group_size, w, x, x_first, x_rows, first, last, y, y_stride);
}

/* Weaving pays from eight rows on, where the instruction set has a body for it. */
LAP_INLINE int lap_weaves(int rows, int cols) {
#ifdef LAP_HAVE_WOVEN
  return rows >= LAP_WEAVE && cols % 64 == 0;
#else
  (void)rows, (void)cols;
  return 0;
#endif
}

#endif
