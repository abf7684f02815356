/* peak_avx2.c: the measuring loops with AVX2 and FMA: vpmaddwd multiplies 16 pairs of int16 at a
 * time, vfmadd231ps 8 of f32. Compiled with the instruction set enabled for this file alone.
 *
 * Nine sums cover the latency of a fused multiply-add on two ports (4 or 5 cycles, so 8 to 10 under way). */
#if defined(__x86_64__)
#include <immintrin.h>

#include "bench/peak.h"

enum {
  READ_AHEAD = 2048
};

static inline __m256i load(const void *at) {
  return _mm256_load_si256((const __m256i *)at);
}

static uint64_t read_avx2(const unsigned char *data, size_t bytes) {
  __m256i sum[8];
  for (int i = 0; i < 8; i++) sum[i] = _mm256_setzero_si256();
  for (size_t at = 0; at < bytes; at += LAP_BENCH_PEAK_READ_STEP) {
    for (size_t line = 0; line < LAP_BENCH_PEAK_READ_STEP; line += 64)
      __builtin_prefetch(data + at + line + READ_AHEAD);
    for (int i = 0; i < 8; i++) sum[i] = _mm256_add_epi64(sum[i], load(data + at + 32 * i));
  }
  for (int i = 1; i < 8; i++) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
  return (uint64_t)(_mm256_extract_epi64(sum[0], 0) ^ _mm256_extract_epi64(sum[0], 1) ^
                    _mm256_extract_epi64(sum[0], 2) ^ _mm256_extract_epi64(sum[0], 3));
}

static float multiply_f32_avx2(const float *operands, int64_t passes) {
  __m256 sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS];
  const float *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
    for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = _mm256_setzero_ps();
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 8) {
      __m256 column[LAP_BENCH_PEAK_COLUMNS];
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
        column[j] = _mm256_load_ps(columns + j * LAP_BENCH_PEAK_LENGTH + k);
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
        __m256 row = _mm256_load_ps(operands + i * LAP_BENCH_PEAK_LENGTH + k);
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          sum[i][j] = _mm256_fmadd_ps(row, column[j], sum[i][j]);
      }
    }
  for (int i = 1; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS; i++)
    sum[0][0] = _mm256_add_ps(sum[0][0], sum[i / LAP_BENCH_PEAK_COLUMNS][i % LAP_BENCH_PEAK_COLUMNS]);
  return _mm256_cvtss_f32(sum[0][0]);
}

static int32_t multiply_int16_avx2(const int16_t *operands, int64_t passes) {
  __m256i sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS];
  const int16_t *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
    for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = _mm256_setzero_si256();
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 16) {
      __m256i column[LAP_BENCH_PEAK_COLUMNS];
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
        column[j] = load(columns + j * LAP_BENCH_PEAK_LENGTH + k);
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
        __m256i row = load(operands + i * LAP_BENCH_PEAK_LENGTH + k);
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          sum[i][j] = _mm256_add_epi32(sum[i][j], _mm256_madd_epi16(row, column[j]));
      }
    }
  for (int i = 1; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS; i++)
    sum[0][0] = _mm256_add_epi32(sum[0][0], sum[i / LAP_BENCH_PEAK_COLUMNS][i % LAP_BENCH_PEAK_COLUMNS]);
  return _mm256_extract_epi32(sum[0][0], 0);
}

const lap_bench_peak lap_bench_peak_avx2 = {
    .isa = "avx2",
    .read = read_avx2,
    .multiply_f32 = multiply_f32_avx2,
    .multiply_int16 = multiply_int16_avx2,
};
#else
typedef int lap_no_avx2_here; /* a file may not be empty */
#endif
