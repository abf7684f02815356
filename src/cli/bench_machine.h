/* bench_machine.h: what the machine can do: the ceilings that rates are compared with.
 *
 * A ceiling is a rate of the whole machine with so many threads: bytes read from a buffer larger than the
 * caches, or multiplications (each with its addition) of operands in the first cache. */
#ifndef LAP_CLI_BENCH_MACHINE_H
#define LAP_CLI_BENCH_MACHINE_H

#include "base/pool.h"
#include "cli/bench_peak.h"
#include "cli/bench_sample.h"

typedef enum lap_ceiling {
  LAP_CEILING_READ,  /* bytes a second */
  LAP_CEILING_F32,   /* multiplications a second, f32 with FMA */
  LAP_CEILING_INT16, /* multiplications a second, int16 to int32 */
  LAP_CEILINGS
} lap_ceiling;

typedef struct lap_machine {
  char processor[96];
  int cores;
  const lap_peak *peak;
  unsigned char *buffer; /* what is read */
  size_t buffer_bytes;
  float *f32;                   /* operands of the loops */
  int16_t *int16;               /* the same */
  int64_t passes[LAP_CEILINGS]; /* over the operands of one task */
  int thread_counts;
  /* [thread_counts], 1 thread first: all that was observed in this run. */
  lap_sample (*ceiling)[LAP_CEILINGS];
} lap_machine;

/* Allocates and fills the buffer. Release with lap_machine_close, also after an error.
 * Errors: MEMORY, IO (threads). */
lap_status lap_machine_open(int most_threads, lap_machine *machine, lap_error *error);
void lap_machine_close(lap_machine *machine);

/* Measures every ceiling once for so many threads, which takes some tenths of a second, and adds what it
 * finds to `ceiling`. Errors: IO (threads), MEMORY. */
lap_status lap_machine_observe(lap_machine *machine, int threads, double rates[LAP_CEILINGS],
                               lap_error *error);

/* Measures reading alone, `rounds` times with so many threads, and adds what it finds to `rates`. Errors: as
 * above. */
lap_status lap_machine_observe_reads(const lap_machine *machine, int threads, int rounds, lap_sample *rates,
                                     lap_error *error);

/* The first look: 1..thread_counts threads, `rounds` times in turns. Errors: as above, and STATE when
 * interrupted. */
lap_status lap_machine_survey(lap_machine *machine, int rounds, lap_error *error);

#endif
