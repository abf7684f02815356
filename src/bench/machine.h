/* machine.h: what the machine can do: the ceilings that rates are compared with.
 *
 * A ceiling is a rate of the whole machine with so many threads: bytes read from a buffer larger than the
 * caches, or multiplications (each with its addition) of operands in the first cache. */
#ifndef LAP_BENCH_MACHINE_H
#define LAP_BENCH_MACHINE_H

#include "base/pool.h"
#include "bench/peak.h"
#include "bench/sample.h"

typedef enum lap_bench_ceiling {
  LAP_BENCH_CEILING_READ,  /* bytes a second */
  LAP_BENCH_CEILING_F32,   /* multiplications a second, f32 with FMA */
  LAP_BENCH_CEILING_INT16, /* multiplications a second, int16 to int32 */
  LAP_BENCH_CEILINGS
} lap_bench_ceiling;

typedef struct lap_bench_machine {
  char processor[96];
  int cores;
  const lap_bench_peak *peak;
  unsigned char *buffer; /* what is read */
  size_t buffer_bytes;
  float *f32;                         /* operands of the loops */
  int16_t *int16;                     /* the same */
  int64_t passes[LAP_BENCH_CEILINGS]; /* over the operands of one task */
  int thread_counts;
  /* [thread_counts], 1 thread first: all that was observed in this run. */
  lap_bench_sample (*ceiling)[LAP_BENCH_CEILINGS];
} lap_bench_machine;

/* Allocates and fills the buffer. Release with lap_bench_machine_close, also after an error.
 * Errors: MEMORY, IO (threads). */
lap_status lap_bench_machine_open(int most_threads, lap_bench_machine *machine, lap_error *error);
void lap_bench_machine_close(lap_bench_machine *machine);

/* Measures every ceiling once for so many threads, which takes some tenths of a second, and adds what it
 * finds to `ceiling`. Errors: IO (threads), MEMORY. */
lap_status lap_bench_machine_observe(lap_bench_machine *machine, int threads,
                                     double rates[LAP_BENCH_CEILINGS], lap_error *error);

/* Measures reading alone, `rounds` times with so many threads, and adds what it finds to `rates`. Errors: as
 * above. */
lap_status lap_bench_machine_observe_reads(const lap_bench_machine *machine, int threads, int rounds,
                                           lap_bench_sample *rates, lap_error *error);

#endif
