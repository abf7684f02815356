/* pool.c: fork and join over a task counter.
 *
 * One run is one generation: the caller writes the job, opens the generation, works itself until no
 * task is left, closes it, and waits for the workers that are inside. A worker that has not arrived by
 * then is not waited for: on a busy machine a thread may lose its core for milliseconds, a run takes
 * microseconds. Invariant: `job` is written only while the generation is closed and nobody is inside;
 * entering is one compare-and-swap on the word that holds both facts.
 *
 * Waiting spins first (a barrier inside a decode step is about a microsecond away) and sleeps on a
 * condition variable after, so that an idle session costs no CPU.
 *
 * Where other processes want the same cores, a waiting worker may stand on the very core that the caller
 * would run on, and spin there while the caller cannot open the next run. So a worker that finds itself on
 * the caller's core offers it, every few microseconds. Only there: an offer is a system call, and on a core
 * that somebody else wants it would give away a whole slice. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
  SPIN_ROUNDS = 4000,
  OFFER_ROUNDS = 64 /* between two looks at the core that a waiting worker stands on */
};

/* state = generation << 32 | OPEN | workers inside */
static const uint64_t OPEN = (uint64_t)1 << 31;
static const uint64_t INSIDE = ((uint64_t)1 << 31) - 1;

struct lap_pool {
  int threads;
  int started;
  pthread_t thread[LAP_MAX_THREADS];

  lap_task *function;
  void *context;
  int tasks;
  _Alignas(64) atomic_int next_task;
  _Alignas(64) _Atomic uint64_t state;
  _Alignas(64) atomic_int sleepers;
  atomic_bool stop;
  atomic_int caller_core; /* where the last run began */
  pthread_mutex_t mutex;
  pthread_cond_t wake;
};

typedef struct worker_start {
  lap_pool *pool;
  int index;
} worker_start;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

int lap_available_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int cores = CPU_COUNT(&set);
  if (cores < 1) return 1;
  return cores < LAP_MAX_THREADS ? cores : LAP_MAX_THREADS;
}

static void work(lap_pool *pool, int thread) {
  for (;;) {
    int task = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
    if (task >= pool->tasks) return;
    pool->function(pool->context, task, thread);
  }
}

static uint32_t generation_of(uint64_t state) {
  return (uint32_t)(state >> 32);
}

/* Returns when the generation differs from `seen` (the pool's end opens one too). */
static void wait_for_generation(lap_pool *pool, uint32_t seen) {
  for (int round = 1; round <= SPIN_ROUNDS; round++) {
    if (generation_of(atomic_load_explicit(&pool->state, memory_order_acquire)) != seen) return;
    relax();
    if (round % OFFER_ROUNDS == 0 &&
        sched_getcpu() == atomic_load_explicit(&pool->caller_core, memory_order_relaxed))
      sched_yield();
  }
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->sleepers, 1);
  while (generation_of(atomic_load(&pool->state)) == seen) pthread_cond_wait(&pool->wake, &pool->mutex);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->mutex);
}

/* Enters the generation that `state` shows; false if it has closed. */
static bool enter(lap_pool *pool, uint64_t state) {
  uint32_t generation = generation_of(state);
  while (state & OPEN && generation_of(state) == generation)
    if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) return true;
  return false;
}

static void *worker(void *argument) {
  worker_start start = *(worker_start *)argument;
  free(argument);
  lap_pool *pool = start.pool;
  uint32_t seen = 0;
  while (!atomic_load(&pool->stop)) {
    wait_for_generation(pool, seen);
    uint64_t state = atomic_load(&pool->state);
    seen = generation_of(state);
    if (!enter(pool, state)) continue;
    work(pool, start.index);
    atomic_fetch_sub(&pool->state, 1);
  }
  return NULL;
}

/* Starts the next generation and wakes whoever went to sleep. The sequentially consistent pair
 * (state here, sleepers in wait_for_generation) makes sure that a worker either sees the new
 * generation or is seen sleeping. */
static void start_generation(lap_pool *pool, uint64_t open) {
  uint64_t state = atomic_load(&pool->state);
  atomic_store(&pool->state, ((uint64_t)(generation_of(state) + 1u) << 32) | open);
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
}

lap_status lap_pool_create(int threads, lap_pool **out, lap_error *error) {
  *out = NULL;
  if (threads < 1 || threads > LAP_MAX_THREADS)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "threads: %d is not in 1..%d", threads, LAP_MAX_THREADS);
  lap_pool *pool = aligned_alloc(64, (sizeof *pool + 63) / 64 * 64);
  if (!pool) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %d threads", threads);
  *pool = (lap_pool){.threads = threads};
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  for (int i = 1; i < threads; i++) {
    worker_start *start = malloc(sizeof *start);
    if (start) *start = (worker_start){pool, i};
    if (!start || pthread_create(&pool->thread[i], NULL, worker, start) != 0) {
      free(start);
      lap_pool_destroy(pool);
      return lap_fail(error, LAP_ERROR_IO, "threads: cannot start thread %d of %d", i + 1, threads);
    }
    pool->started++;
  }
  *out = pool;
  return LAP_OK;
}

void lap_pool_destroy(lap_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  start_generation(pool, 0);
  for (int i = 1; i <= pool->started; i++) pthread_join(pool->thread[i], NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}

int lap_pool_threads(const lap_pool *pool) {
  return pool->threads;
}

void lap_pool_run(lap_pool *pool, int tasks, lap_task *function, void *context) {
  if (tasks <= 0) return;
  if (pool->started == 0 || tasks == 1) {
    for (int task = 0; task < tasks; task++) function(context, task, 0);
    return;
  }
  atomic_store_explicit(&pool->caller_core, sched_getcpu(), memory_order_relaxed);
  pool->function = function;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
  start_generation(pool, OPEN);
  work(pool, 0);
  atomic_fetch_and(&pool->state, ~OPEN);
  for (int round = 0; atomic_load_explicit(&pool->state, memory_order_acquire) & INSIDE; round++) {
    if (round < SPIN_ROUNDS) {
      relax();
    } else {
      sched_yield(); /* a worker lost its core inside a task: let it have this one */
    }
  }
}
