/* peak_neon.c: the measuring loops with NEON, which every 64-bit Arm has: smlal and smlal2 multiply 8
 * of int16, fmla 4 of f32. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "bench/peak.h"

enum {
  READ_AHEAD = 2048
};

static uint64_t read_neon(const unsigned char *data, size_t bytes) {
  uint64x2_t sum[8];
  for (int i = 0; i < 8; i++) sum[i] = vdupq_n_u64(0);
  for (size_t at = 0; at < bytes; at += 128) {
    __builtin_prefetch(data + at + READ_AHEAD);
    __builtin_prefetch(data + at + 64 + READ_AHEAD);
    for (int i = 0; i < 8; i++)
      sum[i] = vaddq_u64(sum[i], vreinterpretq_u64_u8(vld1q_u8(data + at + 16 * i)));
  }
  for (int i = 1; i < 8; i++) sum[0] = vaddq_u64(sum[0], sum[i]);
  return vaddvq_u64(sum[0]);
}

static float multiply_f32_neon(const float *operands, int64_t passes) {
  float32x4_t sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS];
  const float *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
    for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = vdupq_n_f32(0.0f);
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 4) {
      float32x4_t column[LAP_BENCH_PEAK_COLUMNS];
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
        column[j] = vld1q_f32(columns + j * LAP_BENCH_PEAK_LENGTH + k);
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
        float32x4_t row = vld1q_f32(operands + i * LAP_BENCH_PEAK_LENGTH + k);
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = vfmaq_f32(sum[i][j], row, column[j]);
      }
    }
  for (int i = 1; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS; i++)
    sum[0][0] = vaddq_f32(sum[0][0], sum[i / LAP_BENCH_PEAK_COLUMNS][i % LAP_BENCH_PEAK_COLUMNS]);
  return vaddvq_f32(sum[0][0]);
}

static int32_t multiply_int16_neon(const int16_t *operands, int64_t passes) {
  int32x4_t sum[LAP_BENCH_PEAK_ROWS][LAP_BENCH_PEAK_COLUMNS];
  const int16_t *columns = operands + LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_LENGTH;
  for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++)
    for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) sum[i][j] = vdupq_n_s32(0);
  for (int64_t pass = 0; pass < passes; pass++)
    for (int k = 0; k < LAP_BENCH_PEAK_LENGTH; k += 8) {
      int16x8_t column[LAP_BENCH_PEAK_COLUMNS];
      for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++)
        column[j] = vld1q_s16(columns + j * LAP_BENCH_PEAK_LENGTH + k);
      for (int i = 0; i < LAP_BENCH_PEAK_ROWS; i++) {
        int16x8_t row = vld1q_s16(operands + i * LAP_BENCH_PEAK_LENGTH + k);
        for (int j = 0; j < LAP_BENCH_PEAK_COLUMNS; j++) {
          sum[i][j] = vmlal_s16(sum[i][j], vget_low_s16(row), vget_low_s16(column[j]));
          sum[i][j] = vmlal_high_s16(sum[i][j], row, column[j]);
        }
      }
    }
  for (int i = 1; i < LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS; i++)
    sum[0][0] = vaddq_s32(sum[0][0], sum[i / LAP_BENCH_PEAK_COLUMNS][i % LAP_BENCH_PEAK_COLUMNS]);
  return vaddvq_s32(sum[0][0]);
}

const lap_bench_peak lap_bench_peak_neon = {
    .isa = "neon",
    .read = read_neon,
    .multiply_f32 = multiply_f32_neon,
    .multiply_int16 = multiply_int16_neon,
};
#else
typedef int lap_no_neon_here; /* a file may not be empty */
#endif
