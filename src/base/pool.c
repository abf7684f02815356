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
 * Other processes may want the same cores. A worker that waits offers its core again and again: on a busy
 * machine it is often the very one that the caller would run on. And workers with an index below `active`
 * take part, the others rest until they are called: a worker pays as long as the tasks that it does save more
 * time than the caller spends waiting for it, which is reckoned up over some milliseconds, and only where the
 * caller had to wait at all. Those that do not pay rest, for a time that doubles each time that it proves too
 * short. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"

enum {
  SPIN_ROUNDS = 4000, /* for the next run, */
  OFFER_ROUNDS = 256, /* between two offers of the core to whoever wants it */
  JOIN_ROUNDS = 100,  /* for workers that are about to end: not counted as waiting */
  CLOCK_ROUNDS = 32   /* between two looks at the clock */
};
static const double YIELD_SECONDS = 50e-6, /* who waits so long offers its core */
    WINDOW_SECONDS = 20e-3, IDLE_SECONDS = 5e-3, FIRST_REST = 10e-3, LONGEST_REST = 640e-3;

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
  atomic_int active;
  pthread_mutex_t mutex;
  pthread_cond_t wake;   /* of those that sleep between runs */
  pthread_cond_t called; /* of those that rest */

  /* the caller's own: seconds, and what was done since the window began */
  double window, last_run, waited;
  int64_t done, done_by_caller;
  double rest; /* of workers that do not pay, next time */
  double called_at, resting_until;
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

/* Returns the number of tasks that this thread has done. */
static int work(lap_pool *pool, int thread) {
  for (int done = 0;; done++) {
    int task = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
    if (task >= pool->tasks) return done;
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
    if (round % OFFER_ROUNDS == 0) sched_yield(); /* the caller may be waiting for this very core */
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

static bool rests(lap_pool *pool, int thread) {
  return thread >= atomic_load(&pool->active) && !atomic_load(&pool->stop);
}

static void rest(lap_pool *pool, int thread) {
  pthread_mutex_lock(&pool->mutex);
  while (rests(pool, thread)) pthread_cond_wait(&pool->called, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker(void *argument) {
  worker_start start = *(worker_start *)argument;
  free(argument);
  lap_pool *pool = start.pool;
  uint32_t seen = 0;
  while (!atomic_load(&pool->stop)) {
    if (rests(pool, start.index)) rest(pool, start.index);
    wait_for_generation(pool, seen);
    uint64_t state = atomic_load(&pool->state);
    seen = generation_of(state);
    if (rests(pool, start.index) || !enter(pool, state)) continue;
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
  *pool = (lap_pool){.threads = threads, .active = threads, .rest = FIRST_REST};
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->called, NULL);
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

static void call_all(lap_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  pthread_cond_broadcast(&pool->called);
  pthread_mutex_unlock(&pool->mutex);
}

void lap_pool_destroy(lap_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  call_all(pool);
  start_generation(pool, 0);
  for (int i = 1; i <= pool->started; i++) pthread_join(pool->thread[i], NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_cond_destroy(&pool->called);
  pthread_mutex_destroy(&pool->mutex);
  free(pool);
}

int lap_pool_threads(const lap_pool *pool) {
  return pool->threads;
}

int lap_pool_active(const lap_pool *pool) {
  return atomic_load_explicit(&pool->active, memory_order_relaxed);
}

/* ---- cores that others have taken ---- */

static void begin_window(lap_pool *pool, double now) {
  pool->window = now;
  pool->waited = 0;
  pool->done = pool->done_by_caller = 0;
}

/* A run begins. */
static void note_run(lap_pool *pool, double now) {
  if (now - pool->last_run > IDLE_SECONDS || now - pool->window > WINDOW_SECONDS) begin_window(pool, now);
  pool->last_run = now;
  if (lap_pool_active(pool) == pool->threads || now < pool->resting_until) return;
  begin_window(pool, now);
  pool->called_at = now;
  atomic_store(&pool->active, pool->threads);
  call_all(pool);
}

/* Without workers the caller would have done all tasks, at the pace that it has when it does not wait. */
static bool workers_pay(const lap_pool *pool, double now) {
  const double elapsed = now - pool->window, worked = elapsed - pool->waited;
  return worked * (double)pool->done > elapsed * (double)pool->done_by_caller;
}

/* So many workers have kept runs waiting: as many rest. The time is the longer the sooner it comes again. */
static void begin_rest(lap_pool *pool, int workers, double now) {
  const int left = lap_pool_active(pool) - workers;
  pool->rest = now - pool->called_at < 2 * WINDOW_SECONDS ? 2 * pool->rest : FIRST_REST;
  if (pool->rest > LONGEST_REST) pool->rest = LONGEST_REST;
  pool->resting_until = now + pool->rest;
  atomic_store(&pool->active, left > 1 ? left : 1);
}

/* ---- running ---- */

static int inside(lap_pool *pool) {
  return (int)(atomic_load_explicit(&pool->state, memory_order_acquire) & INSIDE);
}

/* Waits for the workers that are in a closed generation. */
static void wait_for_workers(lap_pool *pool) {
  for (int round = 0; round < JOIN_ROUNDS; round++) {
    if (!inside(pool)) return;
    relax();
  }
  const double begin = lap_seconds();
  double now = begin;
  int late = 0;
  for (int workers; (workers = inside(pool)) > 0;) {
    if (now - begin > YIELD_SECONDS) {
      if (!late) late = workers;
      sched_yield(); /* a worker lost its core inside a task: let it have this one */
    } else {
      for (int round = 0; round < CLOCK_ROUNDS && inside(pool); round++) relax();
    }
    now = lap_seconds();
  }
  pool->waited += now - begin;
  if (late && !workers_pay(pool, now)) begin_rest(pool, late, now);
}

void lap_pool_run(lap_pool *pool, int tasks, lap_task *function, void *context) {
  if (tasks <= 0) return;
  if (pool->started > 0 && tasks > 1) note_run(pool, lap_seconds());
  if (lap_pool_active(pool) == 1 || tasks == 1) {
    for (int task = 0; task < tasks; task++) function(context, task, 0);
    return;
  }
  pool->function = function;
  pool->context = context;
  pool->tasks = tasks;
  atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
  start_generation(pool, OPEN);
  pool->done_by_caller += work(pool, 0);
  pool->done += tasks;
  atomic_fetch_and(&pool->state, ~OPEN);
  wait_for_workers(pool);
}
