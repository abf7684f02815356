/* peak.c: the measuring loops in plain C, and the choice of a variant.
 *
 * The blocks are written element by element with sums side by side, which compilers turn into vectors
 * of whatever the base instruction set has. */
#include "bench/peak.h"

#include "kernels/kernels.h"

enum {
  LANES = 4,
  READ_AHEAD = 2048 /* bytes: as far as the kernels' own prefetch runs */
};

static uint64_t read_portable(const unsigned char *data, size_t bytes) {
  const uint64_t *words = (const uint64_t *)(const void *)data;
  uint64_t sum[8] = {0};
  for (size_t i = 0; i < bytes / sizeof *words; i += 8) {
    __builtin_prefetch((const char *)(words + i) + READ_AHEAD);
    for (size_t j = 0; j < 8; j++) sum[j] += words[i + j];
  }
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static float multiply_f32_portable(const float *operands, int64_t passes) {
  float sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS][LANES] = {0};
  const float *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += LANES)
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          for (int lane = 0; lane < LANES; lane++)
            sum[i][j][lane] += operands[i * LAP_BENCH_PEAK_LENGTH + k + lane] *
                               columns[j * LAP_BENCH_PEAK_LENGTH + k + lane];
  float total = 0;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS * LANES; i++)
    total += sum[i / LANES / LAP_BENCH_PEAK_COLUMNS][i / LANES % LAP_BENCH_PEAK_COLUMNS][i % LANES];
  return total;
}

static int32_t multiply_int16_portable(const int16_t *operands, int64_t passes) {
  uint32_t total = 0; /* may wrap around */
  const int16_t *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int64_t pass = 0; pass < passes; pass++) {
    int32_t sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS] = {0};
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k++)
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
          sum[i][j] += operands[i * LAP_BENCH_PEAK_LENGTH + k] * columns[j * LAP_BENCH_PEAK_LENGTH + k];
    for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) total += (uint32_t)sum[i][j];
    __asm__ volatile("" : : "r"(operands) : "memory"); /* the next pass reads its operands anew */
  }
  return (int32_t)(total & INT32_MAX);
}

const lap_bench_peak lap_bench_peak_portable = {
    .isa = "portable",
    .read = read_portable,
    .multiply_f32 = multiply_f32_portable,
    .multiply_int16 = multiply_int16_portable,
};

const lap_bench_peak *lap_bench_peak_select(void) {
#if defined(__x86_64__)
#ifdef LAP_WITH_AVX512
  if (lap_kernels_run_here(&lap_kernels_avx512)) return &lap_bench_peak_avx512;
#endif
  if (lap_kernels_run_here(&lap_kernels_avx2)) return &lap_bench_peak_avx2;
  return &lap_bench_peak_portable;
#elif defined(__aarch64__)
  return &lap_bench_peak_neon;
#else
  return &lap_bench_peak_portable;
#endif
}
