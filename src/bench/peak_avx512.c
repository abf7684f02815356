/* peak_avx512.c: the measuring loops with AVX-512 and VNNI: vpdpwssd multiplies and adds 32 pairs of
 * int16 at a time, vfmadd231ps 16 of f32. Compiled with the instruction set enabled for this file alone. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "bench/peak.h"

enum {
  READ_AHEAD = 2048
};

static uint64_t read_avx512(const unsigned char *data, size_t bytes) {
  __m512i sum[4];
  for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_si512();
  for (size_t at = 0; at < bytes; at += LAP_BENCH_PEAK_READ_STEP)
    for (int i = 0; i < 4; i++) {
      __builtin_prefetch(data + at + 64 * i + READ_AHEAD);
      sum[i] = _mm512_add_epi64(sum[i], _mm512_load_si512(data + at + 64 * i));
    }
  for (int i = 1; i < 4; i++) sum[0] = _mm512_add_epi64(sum[0], sum[i]);
  return (uint64_t)_mm512_reduce_add_epi64(sum[0]);
}

static float multiply_f32_avx512(const float *operands, int64_t passes) {
  __m512 sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS];
  const float *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
    for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = _mm512_setzero_ps();
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 16) {
      __m512 column[LAP_BENCH_PEAK_COLUMNS];
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
        column[j] = _mm512_load_ps(columns + j * LAP_BENCH_PEAK_LENGTH + k);
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
        __m512 row = _mm512_load_ps(operands + i * LAP_BENCH_PEAK_LENGTH + k);
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          sum[i][j] = _mm512_fmadd_ps(row, column[j], sum[i][j]);
      }
    }
  for (int i = 1; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS; i++)
    sum[0][0] = _mm512_add_ps(sum[0][0], sum[i / LAP_BENCH_PEAK_COLUMNS][i % LAP_BENCH_PEAK_COLUMNS]);
  return _mm512_cvtss_f32(sum[0][0]);
}

/* Each product has two sums: vpdpwssd takes five cycles on some processors, and two may begin in each. */
static int32_t multiply_int16_avx512(const int16_t *operands, int64_t passes) {
  enum {
    SUMS = LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS
  };
  __m512i sum[2][SUMS];
  const int16_t *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < SUMS; i++) sum[0][i] = sum[1][i] = _mm512_setzero_si512();
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 64)
      for (int half = 0; half < 2; half++) {
        const int at = k + 32 * half;
        __m512i column[LAP_BENCH_PEAK_COLUMNS];
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          column[j] = _mm512_load_si512(columns + j * LAP_BENCH_PEAK_LENGTH + at);
        for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
          __m512i row = _mm512_load_si512(operands + i * LAP_BENCH_PEAK_LENGTH + at);
          for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) {
            __m512i *to = &sum[half][i * LAP_BENCH_PEAK_COLUMNS + j];
            *to = _mm512_dpwssd_epi32(*to, row, column[j]);
          }
        }
      }
  __m512i total = _mm512_setzero_si512();
  for (int i = 0; i < SUMS; i++) total = _mm512_add_epi32(total, _mm512_add_epi32(sum[0][i], sum[1][i]));
  return _mm512_reduce_add_epi32(total);
}

const lap_bench_peak lap_bench_peak_avx512 = {
    .isa = "avx512",
    .read = read_avx512,
    .multiply_f32 = multiply_f32_avx512,
    .multiply_int16 = multiply_int16_avx512,
};
#else
typedef int lap_no_avx512_here; /* a file may not be empty */
#endif
