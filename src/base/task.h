/* task.h: a piece of parallel work, as the thread pool runs it. Depends on nothing, so that generated code
 * can include it. */
#ifndef LAP_BASE_TASK_H
#define LAP_BASE_TASK_H

typedef struct lap_pool lap_pool;

/* `thread` is 0 for the caller and identifies scratch memory. Which thread runs which task is not defined,
 * so a task writes only what belongs to its index. */
typedef void lap_task(void *context, int task, int thread);

#endif
