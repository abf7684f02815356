/* pool.h: the project's own threads.
 *
 * lap_pool_run gives out task indices 0..tasks-1 to the calling thread and the workers and returns
 * when all have run. Which thread runs which task is not defined, so a task must write only what
 * belongs to its index: then results cannot depend on the number of threads. Workers spin for a
 * short while after a run (the next one is microseconds away inside a forward pass), then sleep. */
#ifndef LAP_BASE_POOL_H
#define LAP_BASE_POOL_H

#include "base/error.h"
#include "base/task.h"

enum {
  LAP_MAX_THREADS = 256
};

/* The cores available to this process (its affinity mask), at least 1. */
int lap_available_cores(void);

/* `threads` counts the caller: 1 starts no thread. Errors: ARGUMENT, MEMORY, IO (thread creation). */
lap_status lap_pool_create(int threads, lap_pool **out, lap_error *error);
void lap_pool_destroy(lap_pool *pool);
int lap_pool_threads(const lap_pool *pool);

/* Not reentrant: one run at a time, from one thread. */
void lap_pool_run(lap_pool *pool, int tasks, lap_task *function, void *context);

#endif
