/* task.h: a piece of parallel work, and the team of threads that does it. Depends on nothing, so that
 * generated code can include it. */
#ifndef LAP_BASE_TASK_H
#define LAP_BASE_TASK_H

typedef struct lap_pool lap_pool;

/* `thread` is 0 for the caller and identifies scratch memory. Which thread runs which task is not defined,
 * so a task writes only what belongs to its index. */
typedef void lap_task(void *context, int task, int thread);

/* The threads that a parallel run is given to: all that code which computes needs to know of a pool, and the
 * same for a forward pass as for anything else that has rows and products. */
typedef struct lap_team {
  int threads;
  lap_pool *pool;
  void (*run)(lap_pool *pool, int tasks, lap_task *function, void *context);
} lap_team;

static inline void lap_team_run(const lap_team *team, int tasks, lap_task *function, void *context) {
  team->run(team->pool, tasks, function, context);
}

#endif
