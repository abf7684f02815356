/* warming.h: a thread that touches mapped weights before the first pass reads them.
 *
 * What a first pass over mapped files costs is mostly the page faults, which need no arithmetic: they can be
 * taken while the program does something else. */
#ifndef LAP_CPU_WARMING_H
#define LAP_CPU_WARMING_H

#include <pthread.h>
#include <stdatomic.h>

#include "checkpoint/plan.h"

/* All zero: not begun. */
typedef struct lap_warming {
  const lap_plan *plan;
  const lap_tensors *tensors;
  atomic_bool stop;
  bool begun; /* the thread is to be joined */
  pthread_t thread;
} lap_warming;

/* Begins, unless it has begun before, the weights do not fit into memory, or the process has one core. `plan`
 * and `tensors` must outlive lap_warming_end. A thread that cannot be started is no error: nothing is warmed.
 */
void lap_warming_begin(lap_warming *warming, const lap_plan *plan, const lap_tensors *tensors);

/* Asks it to end soon; any number of times, from any thread. */
void lap_warming_stop(lap_warming *warming);

/* Asks it to end, and waits. */
void lap_warming_end(lap_warming *warming);

#endif
