/* The five public sizes' own structures (layers, patterns, sharing, head ratios as published; widths tiny)
 * compute, with the same bits in every way of evaluating; and one model in many spellings is one model. */
#include <math.h>

#include "engine/session.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

enum {
  TOKENS = 70 /* more than two windows */
};

static lap_model *open_directory(const char *directory, lap_kv_mode kv, const char *isa) {
  lap_error error;
  lap_model *model;
  expect_ok(lap_model_open(directory, &(lap_model_options){.kv = kv, .isa = isa}, &model, &error), &error);
  return model;
}

static float *logits_of(lap_model *model, int threads, int chunk, bool one_by_one) {
  lap_error error;
  lap_session *session;
  lap_session_options options = {.threads = threads, .chunk = chunk};
  random_source source = {3};
  int vocab = lap_model_vocab_size(model);
  int32_t ids[TOKENS];
  float *logits = malloc(TOKENS * (size_t)vocab * sizeof *logits);
  for (int i = 0; i < TOKENS; i++) ids[i] = random_below(&source, vocab);
  expect_ok(lap_session_create(model, &options, &session, &error), &error);
  if (one_by_one) {
    for (int i = 0; i < TOKENS; i++)
      expect_ok(lap_session_eval(session, ids + i, 1, 1, logits + (size_t)i * (size_t)vocab, &error), &error);
  } else {
    expect_ok(lap_session_eval(session, ids, TOKENS, TOKENS, logits, &error), &error);
  }
  lap_session_destroy(session);
  return logits;
}

/* Equal bits, and logits that differ from row to row: a forward pass that ignores its input would not. */
static void check_ways(lap_model *model, lap_model *portable, const char *name) {
  size_t vocab = (size_t)lap_model_vocab_size(model), bytes = TOKENS * vocab * sizeof(float);
  float *expected = logits_of(model, 1, TOKENS, false);
  assert_memory_not_equal(expected, expected + vocab, vocab * sizeof(float));
  float *others[] = {logits_of(model, 3, 7, false), logits_of(model, 2, 0, true),
                     logits_of(portable, 2, 16, false)};
  for (int i = 0; i < 3; i++) {
    if (memcmp(expected, others[i], bytes) != 0) fail_msg("%s: way %d gives other bits", name, i);
    free(others[i]);
  }
  free(expected);
}

static void the_five_public_structures_give_the_same_bits_in_every_way(void **state) {
  (void)state;
  static const lap_kv_mode modes[] = {LAP_KV_PLAIN, LAP_KV_8, LAP_KV_4};
  const struct {
    const char *name;
    const checkpoint_spec *spec;
  } sizes[] = {
      {"E2B", &spec_e2b}, {"E4B", &spec_e4b}, {"12B", &spec_12b}, {"26B-A4B", &spec_26b}, {"31B", &spec_31b}};
  for (int i = 0; i < 5; i++) {
    checkpoint made = checkpoint_make(sizes[i].spec);
    char *directory = make_directory();
    checkpoint_save(&made, directory);
    for (int m = 0; m < (getenv("LAPIDARY_TEST_QUICK") ? 1 : 3); m++) {
      lap_model *model = open_directory(directory, modes[m], NULL);
      lap_model *portable = open_directory(directory, modes[m], "portable");
      check_ways(model, portable, sizes[i].name);
      lap_model_close(model);
      lap_model_close(portable);
    }
    remove_directory(directory);
    checkpoint_free(&made);
  }
}

static float *logits_of_spec(const checkpoint_spec *spec, size_t *count) {
  checkpoint made = checkpoint_make(spec);
  char *directory = make_directory();
  checkpoint_save(&made, directory);
  lap_model *model = open_directory(directory, LAP_KV_PLAIN, NULL);
  float *logits = logits_of(model, 2, 0, false);
  *count = TOKENS * (size_t)lap_model_vocab_size(model);
  lap_model_close(model);
  remove_directory(directory);
  checkpoint_free(&made);
  return logits;
}

/* probes.md A: prefixes, flat or nested, unused tensors of sharers: the same logits. */
static void one_model_in_many_spellings_has_one_result(void **state) {
  (void)state;
  static const char *const prefixes[] = {"language_model.model.", "model.", "model.language_model.", ""};
  size_t count, n;
  float *expected = logits_of_spec(&spec_e4b, &count);
  for (int i = 0; i < 8; i++) {
    checkpoint_spec spec = spec_e4b;
    spec.prefix = prefixes[i % 4];
    spec.key_prefix = i % 2 ? "model." : NULL;
    spec.nested = i < 4;
    spec.unused_sharer_kv = i % 3 == 0;
    float *logits = logits_of_spec(&spec, &n);
    assert_int_equal(n, count);
    if (memcmp(logits, expected, count * sizeof *logits) != 0) fail_msg("spelling %d gives other logits", i);
    free(logits);
  }
  free(expected);
}

/* Pebble with one weight of `tensor` replaced by `bits` (bf16). */
static lap_status evaluate_damaged(const char *tensor, uint16_t bits, lap_error *error) {
  size_t bytes, config_bytes;
  unsigned char *data = read_all(SOURCE_DIR "/models/pebble/model.safetensors", &bytes);
  unsigned char *config = read_all(SOURCE_DIR "/models/pebble/config.json", &config_bytes);
  lap_tensors *tensors;
  expect_ok(lap_tensors_open_memory(data, bytes, "pebble", &tensors, error), error);
  memcpy(data + (golden(tensors, "%s", tensor)->data - data), &bits, sizeof bits);
  char *directory = make_directory();
  write_file(directory, "model.safetensors", data, bytes);
  write_file(directory, "config.json", config, config_bytes);
  lap_model *model = open_directory(directory, LAP_KV_4, NULL);
  lap_session *session;
  expect_ok(lap_session_create(model, NULL, &session, error), error);
  static const int32_t ids[] = {2, 315, 439, 394};
  float *logits = malloc(4 * 2048 * sizeof *logits);
  lap_status status = lap_session_eval(session, ids, 4, 4, logits, error);
  free(logits);
  lap_session_destroy(session);
  lap_model_close(model);
  lap_tensors_close(tensors);
  remove_directory(directory);
  free(data);
  free(config);
  return status;
}

static void weights_that_are_not_finite_are_an_error_and_no_text(void **state) {
  (void)state;
  static const char *const tensors[] = {
      "language_model.model.norm.weight", "language_model.model.layers.0.self_attn.k_norm.weight",
      "language_model.model.layers.3.mlp.gate_proj.scales", "language_model.model.layers.7.layer_scalar"};
  for (int i = 0; i < 4; i++) {
    lap_error error;
    assert_int_equal(evaluate_damaged(tensors[i], 0x7fc0, &error), LAP_ERROR_NUMERIC); /* NaN */
    assert_non_null(strstr(error.message, "not finite"));
    assert_int_equal(evaluate_damaged(tensors[i], 0x7f80, &error), LAP_ERROR_NUMERIC); /* infinity */
    expect_ok(evaluate_damaged(tensors[i], 0x3f80, &error), &error);                   /* 1 is fine */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_five_public_structures_give_the_same_bits_in_every_way),
      cmocka_unit_test(one_model_in_many_spellings_has_one_result),
      cmocka_unit_test(weights_that_are_not_finite_are_an_error_and_no_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
