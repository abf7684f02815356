/* Every task runs exactly once, whatever the number of threads; runs follow each other at once or after
 * the workers went to sleep. Built with TSan too. */
#include <time.h>

#include "base/pool.h"
#include "support/check.h"

static void count_task(void *context, int task, int thread) {
  int *counts = context;
  (void)thread;
  counts[task]++; /* no two tasks share an element */
}

static void every_task_runs_exactly_once(void **state) {
  (void)state;
  static const int thread_counts[] = {1, 2, 3, 8};
  for (int i = 0; i < 4; i++) {
    lap_error error;
    lap_pool *pool;
    expect_ok(lap_pool_create(thread_counts[i], &pool, &error), &error);
    assert_int_equal(lap_pool_threads(pool), thread_counts[i]);
    int counts[97] = {0};
    for (int run = 0; run < 2000; run++) lap_pool_run(pool, run % 98, count_task, counts);
    for (int task = 0; task < 97; task++) {
      int expected = 0;
      for (int run = 0; run < 2000; run++) expected += run % 98 > task;
      assert_int_equal(counts[task], expected);
    }
    lap_pool_destroy(pool);
  }
}

static void sleeping_workers_wake_up(void **state) {
  (void)state;
  lap_error error;
  lap_pool *pool;
  int counts[64] = {0};
  struct timespec pause = {.tv_nsec = 3000000};
  expect_ok(lap_pool_create(4, &pool, &error), &error);
  for (int run = 0; run < 30; run++) {
    nanosleep(&pause, NULL);
    lap_pool_run(pool, 64, count_task, counts);
  }
  for (int task = 0; task < 64; task++) assert_int_equal(counts[task], 30);
  lap_pool_destroy(pool);
}

static void remember_thread(void *context, int task, int thread) {
  int *threads = context;
  threads[task] = thread;
}

static void thread_numbers_stay_within_the_pool(void **state) {
  (void)state;
  lap_error error;
  lap_pool *pool;
  int threads[500];
  expect_ok(lap_pool_create(3, &pool, &error), &error);
  lap_pool_run(pool, 500, remember_thread, threads);
  for (int task = 0; task < 500; task++) assert_in_range(threads[task], 0, 2);
  lap_pool_destroy(pool);
}

static void impossible_thread_counts_are_refused(void **state) {
  (void)state;
  static const int counts[] = {0, -1, LAP_MAX_THREADS + 1};
  for (int i = 0; i < 3; i++) {
    lap_error error;
    lap_pool *pool;
    assert_int_equal(lap_pool_create(counts[i], &pool, &error), LAP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "threads"));
    assert_null(pool);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_task_runs_exactly_once),
      cmocka_unit_test(sleeping_workers_wake_up),
      cmocka_unit_test(thread_numbers_stay_within_the_pool),
      cmocka_unit_test(impossible_thread_counts_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
