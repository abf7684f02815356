/* peak.h: the loops that the machine's ceilings are measured with.
 *
 * Each does one thing as fast as the instruction set allows and nothing else: read memory, or multiply
 * and add operands that lie in the first cache. A product block of LAP_BENCH_PEAK_ROWS x
 * LAP_BENCH_PEAK_COLUMNS stays in registers, so that loads are not what limits it. The results are returned
 * for the compiler's sake: work whose result nobody gets may be left out. */
#ifndef LAP_BENCH_PEAK_H
#define LAP_BENCH_PEAK_H

#include <stddef.h>
#include <stdint.h>

enum {
  LAP_BENCH_PEAK_ROWS = 3,
  LAP_BENCH_PEAK_COLUMNS = 3,
  LAP_BENCH_PEAK_OPERANDS = LAP_BENCH_PEAK_ROWS + LAP_BENCH_PEAK_COLUMNS,
  LAP_BENCH_PEAK_LENGTH = 512, /* elements of an operand: all of them take 12 KiB as f32 */
  LAP_BENCH_PEAK_READ_STEP = 256
};

/* Multiplications, each with its addition, of one pass over the operands. */
enum {
  LAP_BENCH_PEAK_WORK = LAP_BENCH_PEAK_ROWS * LAP_BENCH_PEAK_COLUMNS * LAP_BENCH_PEAK_LENGTH
};

typedef struct lap_bench_peak {
  const char *isa;
  /* Reads `bytes`, a multiple of LAP_BENCH_PEAK_READ_STEP, aligned to 64. */
  uint64_t (*read)(const unsigned char *data, size_t bytes);
  /* Operands [LAP_BENCH_PEAK_OPERANDS, LAP_BENCH_PEAK_LENGTH], aligned to 64: the first rows times the
   * others. */
  float (*multiply_f32)(const float *operands, int64_t passes);
  int32_t (*multiply_int16)(const int16_t *operands, int64_t passes);
} lap_bench_peak;

extern const lap_bench_peak lap_bench_peak_portable;
#if defined(__x86_64__)
extern const lap_bench_peak lap_bench_peak_avx2;
extern const lap_bench_peak lap_bench_peak_avx512;
#elif defined(__aarch64__)
extern const lap_bench_peak lap_bench_peak_neon;
#endif

/* The fastest variant that this processor runs, whatever LAPIDARY_ISA says: a ceiling is the machine's. */
const lap_bench_peak *lap_bench_peak_select(void);

#endif
