/* Memory does not grow with the number of requests: a thousand of them, in a session each, and in one session
 * that is taken back each time. */
#include <unistd.h>

#include "lapidary.h"
#include "support/check.h"

#define PEBBLE SOURCE_DIR "/models/pebble"

enum {
  WARM_UP = 50,
  GROWN_KILOBYTES = 64, /* that the second half of the requests may add: some 130 bytes each */
  LONGEST = 4
};

static int requests(void) {
  return getenv("LAPIDARY_TEST_QUICK") ? 200 : 1000;
}

/* The sanitizers keep what is freed. */
static bool counts_pages(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
  return false;
#endif
#endif
  return true;
}

/* KiB of this process in memory that belong to no file. Counted page by page: the sums of /proc/self/statm
 * lag behind by some dozens of pages for each processor. */
static long anonymous_kilobytes(void) {
  char line[256];
  long kilobytes = -1;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  assert_non_null(file);
  while (kilobytes < 0 && fgets(line, sizeof line, file))
    if (strncmp(line, "Anonymous:", 10) == 0) kilobytes = strtol(line + 10, NULL, 10);
  fclose(file);
  assert_true(kilobytes > 0);
  return kilobytes;
}

static lap_model *model;

static int open_pebble(void **state) {
  lap_error error;
  (void)state;
  return lap_model_open(PEBBLE, NULL, &model, &error) == LAP_OK ? 0 : -1;
}

static int close_pebble(void **state) {
  (void)state;
  lap_model_close(model);
  return 0;
}

static lap_session *new_session(void) {
  lap_error error;
  lap_session *session;
  expect_ok(lap_session_create(model, &(lap_session_options){.threads = 2}, &session, &error), &error);
  return session;
}

/* From a text to a text, as a program that serves them does. */
static lap_stats serve(lap_session *session, int request) {
  static const char text[] = "Milo found a green book in the garden.";
  const lap_generate_options how = {.max_tokens = 2, .ignore_eos = true};
  const lap_sampling sampling = {
      .temperature = 1, .top_p = 0.9f, .repeat_penalty = 1, .seed = (uint64_t)request};
  lap_error error;
  lap_generate_result result;
  lap_sampler *sampler;
  int32_t *ids;
  size_t count;
  expect_ok(lap_model_encode(model, text, 1 + (size_t)(request * 7 % 36), &ids, &count, &error), &error);
  if (count > LONGEST) count = LONGEST;
  expect_ok(lap_sampler_create(model, &sampling, &sampler, &error), &error);
  expect_ok(lap_generate(session, sampler, ids, (int64_t)count, &how, &result, &error), &error);
  lap_sampler_destroy(sampler);
  free(ids);
  return lap_session_stats(session);
}

/* Calls `request` so often; the second half must not add to what is resident. (In the first one pages of the
 * heap are touched for the first time, as threads happen to take their turns.) */
static void repeat(void (*request)(void *context, int number), void *context) {
  long before = 0;
  for (int i = 0; i < requests(); i++) {
    if (i == requests() / 2) before = anonymous_kilobytes();
    request(context, i);
  }
  long grown = anonymous_kilobytes() - before;
  if (counts_pages() && grown > GROWN_KILOBYTES)
    fail_msg("%d requests have left %ld KiB", requests() / 2, grown);
}

typedef struct seen {
  lap_session *session; /* of all requests, or NULL */
  size_t scratch_bytes, kv_bytes;
} seen;

/* Requests of the same length take the same; there are 36 lengths, all of them in the warm-up. */
static void serve_in_new_session(void *context, int number) {
  seen *first = context;
  lap_session *session = new_session();
  lap_stats stats = serve(session, number);
  lap_session_destroy(session);
  seen *mine = &first[number % 36];
  if (number < 36) *mine = (seen){.scratch_bytes = stats.scratch_bytes, .kv_bytes = stats.kv_bytes};
  assert_true(stats.scratch_bytes > 0 && stats.kv_bytes > 0);
  assert_int_equal(stats.scratch_bytes, mine->scratch_bytes);
  assert_int_equal(stats.kv_bytes, mine->kv_bytes);
}

static void serve_in_the_same_session(void *context, int number) {
  seen *s = context;
  lap_error error;
  lap_stats stats = serve(s->session, number);
  expect_ok(lap_session_trim(s->session, 0, &error), &error);
  if (number == WARM_UP) *s = (seen){s->session, stats.scratch_bytes, stats.kv_bytes};
  if (number <= WARM_UP) return;
  assert_int_equal(stats.scratch_bytes, s->scratch_bytes);
  assert_int_equal(stats.kv_bytes, s->kv_bytes);
}

static void a_thousand_sessions_leave_nothing(void **state) {
  seen first[36];
  (void)state;
  repeat(serve_in_new_session, first);
}

static void a_thousand_requests_in_one_session_take_no_more_than_fifty(void **state) {
  seen s = {.session = new_session()};
  (void)state;
  repeat(serve_in_the_same_session, &s);
  lap_session_destroy(s.session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thousand_sessions_leave_nothing),
      cmocka_unit_test(a_thousand_requests_in_one_session_take_no_more_than_fifty),
  };
  return cmocka_run_group_tests(tests, open_pebble, close_pebble);
}
