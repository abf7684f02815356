/* The numerics contract: the same bits whatever the threads, chunks, prefill or decode, batch,
 * instruction set, snapshot. For every structure and every KV setting, at every position over two
 * windows. */
#include <unistd.h>

#include "engine/session.h"
#include "support/check.h"

typedef struct structure {
  const char *name;
  const char *directory;
  int tokens;   /* more than two windows */
  int kv_modes; /* of config, plain, 8, 4: the first so many */
} structure;

static const structure structures[] = {
    {"E4B (e-tiny)", GOLDENS "/checkpoints/e-tiny", 2 * 32 + 7, 4},
    {"E2B (e2-tiny)", GOLDENS "/checkpoints/e2-tiny", 2 * 16 + 7, 4},
    {"31B and 12B (dense-tiny)", GOLDENS "/checkpoints/dense-tiny", 2 * 40 + 7, 4},
    {"26B-A4B (moe-tiny)", GOLDENS "/checkpoints/moe-tiny", 2 * 32 + 7, 4},
    {"Pebble", SOURCE_DIR "/models/pebble", 2 * 128 + 7, 1},
};
enum {
  STRUCTURES = 5
};

static const lap_kv_mode kv_modes[] = {LAP_KV_CONFIG, LAP_KV_PLAIN, LAP_KV_8, LAP_KV_4};
static const char *const kv_names[] = {"config", "plain", "8", "4"};

static lap_model *open_model(const structure *s, lap_kv_mode kv, const char *isa) {
  lap_model *model;
  lap_error error;
  expect_ok(lap_model_open(s->directory, &(lap_model_options){.kv = kv, .isa = isa}, &model, &error), &error);
  return model;
}

static int32_t *tokens_for(const lap_model *model, int count) {
  random_source source = {7};
  int32_t *ids = malloc((size_t)count * sizeof *ids);
  for (int i = 0; i < count; i++) ids[i] = i ? random_below(&source, lap_model_vocab_size(model)) : 2;
  return ids;
}

static lap_session *open_session(lap_model *model, int threads, int chunk) {
  lap_session *session;
  lap_error error;
  lap_session_options options = {.threads = threads, .chunk = chunk};
  expect_ok(lap_session_create(model, &options, &session, &error), &error);
  return session;
}

/* All logits of one evaluation. */
static float *evaluate(lap_model *model, const int32_t *ids, int count, int threads, int chunk) {
  lap_error error;
  lap_session *session = open_session(model, threads, chunk);
  float *logits = malloc((size_t)count * (size_t)lap_model_vocab_size(model) * sizeof *logits);
  expect_ok(lap_session_eval(session, ids, count, count, logits, &error), &error);
  lap_session_destroy(session);
  return logits;
}

static void expect_equal_bits(const float *a, const float *b, int rows, int vocab, const char *what) {
  for (int row = 0; row < rows; row++)
    if (memcmp(a + (size_t)row * (size_t)vocab, b + (size_t)row * (size_t)vocab, (size_t)vocab * sizeof *a) !=
        0)
      fail_msg("%s: first difference at position %d", what, row);
}

typedef void check(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                   const float *expected);

static void for_all(check *function) {
  /* Sanitizer builds are slow: there one KV setting of the sharing structure with the smallest window and
   * of the one with experts. */
  bool quick = getenv("LAPIDARY_TEST_QUICK") != NULL;
  for (int i = quick; i < STRUCTURES - quick; i += 1 + quick)
    for (int k = 0; k < (quick ? 1 : structures[i].kv_modes); k++) {
      lap_model *model = open_model(&structures[i], kv_modes[k], NULL);
      int32_t *ids = tokens_for(model, structures[i].tokens);
      float *expected = evaluate(model, ids, structures[i].tokens, 1, structures[i].tokens);
      function(&structures[i], kv_names[k], model, ids, expected);
      free(expected), free(ids);
      lap_model_close(model);
    }
}

static void check_threads(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                          const float *expected) {
  static const int threads[] = {2, 3, 8};
  for (int i = 0; i < 3; i++) {
    float *logits = evaluate(model, ids, s->tokens, threads[i], s->tokens);
    expect_equal_bits(logits, expected, s->tokens, lap_model_vocab_size(model),
                      path_of("%s, kv %s, %d threads", s->name, kv, threads[i]));
    free(logits);
  }
}

static void check_chunks(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                         const float *expected) {
  static const int chunks[] = {1, 3, 7, 16, 64};
  for (int i = 0; i < 5; i++) {
    float *logits = evaluate(model, ids, s->tokens, 2, chunks[i]);
    expect_equal_bits(logits, expected, s->tokens, lap_model_vocab_size(model),
                      path_of("%s, kv %s, chunks of %d", s->name, kv, chunks[i]));
    free(logits);
  }
}

/* Each token by its own call, and each logits row asked for alone after a prefill of all before it
 * (the path that leaves rows out in sharers and in the last donor layer). */
static void check_decode(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                         const float *expected) {
  lap_error error;
  int vocab = lap_model_vocab_size(model);
  float *row = malloc((size_t)vocab * sizeof *row);
  lap_session *session = open_session(model, 2, 0);
  for (int i = 0; i < s->tokens; i++) {
    expect_ok(lap_session_eval(session, ids + i, 1, 1, row, &error), &error);
    expect_equal_bits(row, expected + (size_t)i * (size_t)vocab, 1, vocab,
                      path_of("%s, kv %s, decode at %d", s->name, kv, i));
  }
  lap_session_destroy(session);
  for (int i = 1; i <= s->tokens; i += 1 + s->tokens / 9) {
    session = open_session(model, 2, 11);
    expect_ok(lap_session_eval(session, ids, i, 1, row, &error), &error);
    expect_equal_bits(row, expected + (size_t)(i - 1) * (size_t)vocab, 1, vocab,
                      path_of("%s, kv %s, last logits of %d", s->name, kv, i));
    lap_session_destroy(session);
  }
  free(row);
}

static void check_portable(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                           const float *expected) {
  lap_model *portable = open_model(s, model->plan->kv_mode, "portable");
  float *logits = evaluate(portable, ids, s->tokens, 2, 64);
  expect_equal_bits(logits, expected, s->tokens, lap_model_vocab_size(model),
                    path_of("%s, kv %s, portable", s->name, kv));
  free(logits);
  lap_model_close(portable);
}

static void check_snapshot(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                           const float *expected) {
  lap_error error;
  int vocab = lap_model_vocab_size(model);
  const char *path = path_of(BINARY_DIR "/test_equal_bits.%d.snapshot", (int)getpid());
  static const int cuts[] = {5, 31, 40};
  float *logits = malloc((size_t)s->tokens * (size_t)vocab * sizeof *logits);
  for (int i = 0; i < 3; i++) {
    int cut = i < 2 ? cuts[i] : s->tokens - 3, rest = s->tokens - cut;
    lap_session *first = open_session(model, 2, 9), *second = open_session(model, 1, 0);
    expect_ok(lap_session_eval(first, ids, cut, 0, NULL, &error), &error);
    expect_ok(lap_session_save(first, path, &error), &error);
    expect_ok(lap_session_eval(second, ids + 1, 3, 0, NULL, &error), &error); /* to be replaced */
    expect_ok(lap_session_restore(second, path, &error), &error);
    int64_t count;
    assert_memory_equal(lap_session_tokens(second, &count), ids, (size_t)cut * sizeof *ids);
    assert_int_equal(count, cut);
    expect_ok(lap_session_eval(second, ids + cut, rest, rest, logits, &error), &error);
    expect_equal_bits(logits, expected + (size_t)cut * (size_t)vocab, rest, vocab,
                      path_of("%s, kv %s, restored at %d", s->name, kv, cut));
    lap_session_destroy(first);
    lap_session_destroy(second);
  }
  unlink(path);
  free(logits);
}

/* Three sequences of different lengths in one pass, one of them far ahead. */
static void check_batch(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                        const float *expected) {
  lap_error error;
  int vocab = lap_model_vocab_size(model), n = s->tokens;
  lap_session *sessions[3];
  const int before[] = {0, n / 2, n - 2}, now[] = {9, 1, 2};
  lap_segment segments[3];
  float *logits = malloc((size_t)(9 + 1 + 2) * (size_t)vocab * sizeof *logits), *next = logits;
  for (int i = 0; i < 3; i++) {
    sessions[i] = open_session(model, 2, 0);
    if (before[i]) expect_ok(lap_session_eval(sessions[i], ids, before[i], 0, NULL, &error), &error);
    int from = i == 0 ? 4 : 0; /* the first wants only its last five */
    segments[i] = (lap_segment){.kv = sessions[i]->sequence->kv,
                                .ids = ids + before[i],
                                .count = now[i],
                                .logits_from = from,
                                .logits = next};
    next += (now[i] - from) * vocab;
  }
  expect_ok(lap_forward_run(lap_batch_passes(sessions[0]->batch)->forward, segments, 3, &error), &error);
  for (int i = 0; i < 3; i++) {
    int from = segments[i].logits_from;
    expect_equal_bits(segments[i].logits, expected + (size_t)(before[i] + from) * (size_t)vocab,
                      now[i] - from, vocab, path_of("%s, kv %s, batch row %d", s->name, kv, i));
  }
  for (int i = 0; i < 3; i++) lap_session_destroy(sessions[i]);
  free(logits);
}

/* Trim where the ring allows it, then go on as if the dropped tokens had never been. */
static void check_trim(const structure *s, const char *kv, lap_model *model, const int32_t *ids,
                       const float *expected) {
  lap_error error;
  int vocab = lap_model_vocab_size(model), refused = 0, done = 0;
  float *row = malloc((size_t)vocab * sizeof *row);
  for (int length = s->tokens - 1; length >= 0; length -= 1 + s->tokens / 12) {
    lap_session *session = open_session(model, 2, 16);
    expect_ok(lap_session_eval(session, ids, s->tokens - 1, 0, NULL, &error), &error);
    lap_status status = lap_session_trim(session, length, &error);
    if (status == LAP_OK) {
      expect_ok(lap_session_eval(session, ids + length, 1, 1, row, &error), &error);
      expect_equal_bits(row, expected + (size_t)length * (size_t)vocab, 1, vocab,
                        path_of("%s, kv %s, trimmed to %d", s->name, kv, length));
      done++;
    } else {
      int64_t count;
      assert_int_equal(status, LAP_ERROR_STATE);
      lap_session_tokens(session, &count);
      assert_int_equal(count, s->tokens - 1);
      expect_ok(lap_session_eval(session, ids + count, 1, 1, row, &error), &error);
      expect_equal_bits(row, expected + (size_t)count * (size_t)vocab, 1, vocab, "after a refused trim");
      refused++;
    }
    lap_session_destroy(session);
  }
  assert_true(done > 0 && refused > 0); /* both happen over two windows */
  free(row);
}

/* More than two spans of 512 positions: with one thread a task walks its spans, with more a decode step's
 * spans are computed apart and folded. */
static void contexts_of_several_spans_do_not_change_bits(void **state) {
  (void)state;
  enum {
    LONG = 1200,
    LAST = 4
  };
  static const struct {
    int threads, chunk, single;
  } ways[] = {{1, LONG, 0}, {1, 64, LAST}, {2, 200, LAST}, {3, 512, 1}, {2, LONG, 0}};
  lap_error error;
  lap_model *model = open_model(&structures[STRUCTURES - 1], LAP_KV_CONFIG, NULL);
  size_t vocab = (size_t)lap_model_vocab_size(model);
  int32_t *ids = tokens_for(model, LONG);
  float *logits[2] = {malloc(LAST * vocab * sizeof(float)), malloc(LAST * vocab * sizeof(float))};
  for (int w = 0; w < 5; w++) {
    float *out = logits[w > 0];
    int single = ways[w].single; /* so many of the last tokens one by one */
    lap_session *session = open_session(model, ways[w].threads, ways[w].chunk);
    expect_ok(lap_session_eval(session, ids, LONG - single, LAST - single, out, &error), &error);
    for (int i = single; i > 0; i--)
      expect_ok(lap_session_eval(session, ids + LONG - i, 1, 1, out + (size_t)(LAST - i) * vocab, &error),
                &error);
    if (w > 0) expect_equal_bits(logits[0], out, LAST, (int)vocab, path_of("long context, way %d", w));
    lap_session_destroy(session);
  }
  free(ids), free(logits[0]), free(logits[1]);
  lap_model_close(model);
}

static void threads_do_not_change_bits(void **state) {
  (void)state;
  for_all(check_threads);
}

static void chunks_do_not_change_bits(void **state) {
  (void)state;
  for_all(check_chunks);
}

static void decode_equals_prefill_at_every_position(void **state) {
  (void)state;
  for_all(check_decode);
}

static void portable_equals_the_processors_own_form(void **state) {
  (void)state;
  for_all(check_portable);
}

static void a_restored_prompt_equals_a_computed_one(void **state) {
  (void)state;
  for_all(check_snapshot);
}

static void a_row_in_a_batch_equals_the_row_alone(void **state) {
  (void)state;
  for_all(check_batch);
}

static void a_trimmed_sequence_equals_one_that_never_went_further(void **state) {
  (void)state;
  for_all(check_trim);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_do_not_change_bits),
      cmocka_unit_test(contexts_of_several_spans_do_not_change_bits),
      cmocka_unit_test(chunks_do_not_change_bits),
      cmocka_unit_test(decode_equals_prefill_at_every_position),
      cmocka_unit_test(portable_equals_the_processors_own_form),
      cmocka_unit_test(a_restored_prompt_equals_a_computed_one),
      cmocka_unit_test(a_row_in_a_batch_equals_the_row_alone),
      cmocka_unit_test(a_trimmed_sequence_equals_one_that_never_went_further),
  };
  cmocka_set_test_filter(
      getenv("LAPIDARY_TEST_FILTER")); /* for the thread sanitizer, under which all take long */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
