/* Forged checkpoints are checkpoints: they have the published structures, compute sane logits in every
 * way of evaluating, and are the same bytes whoever draws them. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/session.h"
#include "forge/draw.h"
#include "forge/forge.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define CONFIGS SOURCE_DIR "/models/configs"

enum {
  VOCAB = 384,
  TOKENS = 40,
  DECODED = 8
};

/* docs/gemma4.md, section 1.2. Arrays are by lap_attention. */
typedef struct structure {
  const char *name;
  int32_t hidden, layers, period, intermediate, sharer_width, heads, kv_heads[2], window, first_sharer,
      donor[2], per_layer_width, experts, top_k, expert_width, context;
  bool k_eq_v;
} structure;

static const structure sizes[] = {
    {"e2b", 1536, 35, 5, 6144, 12288, 8, {1, 1}, 512, 15, {13, 14}, 256, 0, 0, 0, 131072, false},
    {"e4b", 2560, 42, 6, 10240, 10240, 8, {2, 2}, 512, 24, {22, 23}, 256, 0, 0, 0, 131072, false},
    {"12b", 3840, 48, 6, 15360, 15360, 16, {8, 1}, 1024, 48, {-1, -1}, 0, 0, 0, 0, 262144, true},
    {"26b-a4b", 2816, 30, 6, 2112, 2112, 16, {8, 2}, 1024, 30, {-1, -1}, 0, 128, 8, 704, 262144, true},
    {"31b", 5376, 60, 6, 21504, 21504, 32, {16, 4}, 1024, 60, {-1, -1}, 0, 0, 0, 0, 262144, true},
};

enum {
  SIZES = sizeof sizes / sizeof *sizes
};

static bool is_quick(void) {
  return getenv("LAPIDARY_TEST_QUICK") != NULL;
}

static lap_forge_options options_of(const char *name) {
  return (lap_forge_options){.config = path_of("%s/%s.json", CONFIGS, name),
                             .kv_config = path_of("%s/%s.kv_config.json", CONFIGS, name),
                             .seed = 7,
                             .vocab = VOCAB,
                             .scale = 64,
                             .bits = 2,
                             .group = 128};
}

static char *forged(const lap_forge_options *options) {
  lap_error error;
  lap_forge_result result;
  char *directory = make_directory();
  expect_ok(lap_forge(directory, options, &result, &error), &error);
  return directory;
}

static lap_plan *plan_of(const char *directory) {
  lap_error error;
  lap_tensors *tensors;
  lap_plan *plan;
  expect_ok(lap_tensors_open(directory, &tensors, &error), &error);
  expect_ok(lap_plan_build(directory, tensors, LAP_KV_CONFIG, &plan, &error), &error);
  lap_tensors_close(tensors);
  return plan;
}

/* ---- structure ---- */

/* Widths as published, divided and rounded as --scale says. */
static int32_t divided(int32_t width, int32_t scale) {
  return (width / scale + (width % scale != 0) + 127) / 128 * 128;
}

static void check_layer(const structure *s, const lap_plan *plan, int32_t i, int32_t scale) {
  const lap_layer *layer = &plan->layer[i];
  bool full = i % s->period == s->period - 1, sharer = i >= s->first_sharer;
  lap_attention type = full ? LAP_FULL : LAP_SLIDING;
  assert_int_equal(layer->attention, type);
  assert_int_equal(layer->sharer, sharer);
  assert_int_equal(layer->donor, sharer ? s->donor[type] : i);
  assert_int_equal(layer->window, full ? 0 : s->window);
  assert_int_equal(layer->head_dim, full ? 512 : 256);
  assert_int_equal(layer->heads, s->heads);
  assert_int_equal(layer->kv_heads, s->kv_heads[type]);
  assert_int_equal(layer->k_eq_v, s->k_eq_v && full);
  assert_int_equal(layer->linear[LAP_K_PROJ].present, !sharer);
  assert_int_equal(layer->linear[LAP_V_PROJ].present, !sharer && !layer->k_eq_v);
  /* A wide MLP is twice the width that a donor's has after rounding. */
  int32_t width = divided(s->intermediate, scale);
  assert_int_equal(layer->mlp_width, sharer && s->sharer_width != s->intermediate ? 2 * width : width);
  assert_int_equal(layer->moe, s->experts > 0);
  assert_true(layer->has_layer_scalar);
  assert_true(layer->kv_bits == 4 || layer->kv_bits == 8);
}

static void each_size_has_its_published_structure(void **state) {
  (void)state;
  for (int n = 0; n < SIZES; n++) {
    const structure *s = &sizes[n];
    lap_forge_options options = options_of(s->name);
    char *directory = forged(&options);
    lap_plan *plan = plan_of(directory);
    assert_int_equal(plan->layers, s->layers);
    assert_int_equal(plan->hidden_size, divided(s->hidden, options.scale));
    assert_int_equal(plan->first_sharer, s->first_sharer);
    assert_int_equal(plan->caches, s->first_sharer);
    assert_int_equal(plan->per_layer_width, s->per_layer_width);
    assert_int_equal(plan->num_experts, s->experts);
    assert_int_equal(plan->top_k_experts, s->top_k);
    assert_int_equal(plan->moe_width, s->experts ? divided(s->expert_width, options.scale) : 0);
    assert_int_equal(plan->max_position_embeddings, s->context);
    assert_int_equal(plan->vocab_size, VOCAB);
    assert_true(plan->tied_head);
    assert_int_equal(plan->rope[LAP_FULL].rotated_pairs, 64);
    assert_int_equal(plan->rope[LAP_SLIDING].rotated_pairs, 128);
    for (int32_t i = 0; i < plan->layers; i++) check_layer(s, plan, i, options.scale);
    lap_plan_free(plan);
    remove_directory(directory);
  }
}

static void fewer_layers_leave_every_sharer_its_donor(void **state) {
  (void)state;
  for (int n = 0; n < 2; n++) {
    for (int32_t layers = 1; layers <= sizes[n].layers; layers += layers < 14 ? 1 : 7) {
      lap_forge_options options = options_of(sizes[n].name);
      options.layers = layers;
      char *directory = forged(&options);
      lap_plan *plan = plan_of(directory);
      assert_int_equal(plan->layers, layers);
      if (layers >= 2 * sizes[n].period) assert_true(plan->first_sharer < layers);
      lap_plan_free(plan);
      remove_directory(directory);
    }
  }
}

static void bits_and_groups_of_the_map_and_of_the_options_count(void **state) {
  (void)state;
  static const int32_t bits[] = {0, 2, 3, 4, 5, 6, 8, LAP_FORGE_DENSE};
  for (int i = 0; i < 8; i++) {
    lap_forge_options options = options_of("26b-a4b");
    options.layers = 1;
    options.bits = bits[i];
    options.group = i % 2 ? 32 : 0;
    char *directory = forged(&options);
    lap_plan *plan = plan_of(directory);
    const lap_linear *q = &plan->layer[0].linear[LAP_Q_PROJ], *router = &plan->layer[0].linear[LAP_ROUTER];
    int32_t shown = bits[i] == LAP_FORGE_DENSE ? 0 : bits[i];
    assert_int_equal(q->bits, i ? shown : 4);
    assert_int_equal(router->bits, i ? shown : 8); /* the map's own exception */
    assert_int_equal(q->group_size, !q->bits ? 0 : i % 2 ? 32 : 64);
    lap_plan_free(plan);
    remove_directory(directory);
  }
}

/* A flat configuration, a head of its own, no map: names and shapes change place. */
static void a_flat_dense_configuration_with_an_untied_head_is_forged(void **state) {
  (void)state;
  static const char text[] =
      "{\"model_type\": \"gemma4_text\", \"hidden_size\": 64, \"num_hidden_layers\": 3, "
      "\"intermediate_size\": 96, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 32, "
      "\"global_head_dim\": 64, \"vocab_size\": 50, \"tie_word_embeddings\": false, \"note\": \"a\\n\\\"b\"}";
  char *source = make_directory();
  write_file(source, "config.json", text, strlen(text));
  lap_forge_options options = {.config = path_of("%s/config.json", source)};
  char *directory = forged(&options);
  lap_plan *plan = plan_of(directory);
  assert_false(plan->tied_head);
  assert_int_equal(plan->embed.bits, 0);
  assert_int_equal(plan->layer[2].mlp_width, 96);
  lap_plan_free(plan);
  remove_directory(directory);
  remove_directory(source);
}

/* ---- numbers ---- */

static float *evaluate(lap_model *model, const int32_t *ids, int prompt) {
  lap_error error;
  lap_session *session;
  lap_session_options options = {.threads = 2};
  size_t vocab = (size_t)lap_model_vocab_size(model);
  float *logits = malloc(TOKENS * vocab * sizeof *logits);
  assert_non_null(logits);
  expect_ok(lap_session_create(model, &options, &session, &error), &error);
  expect_ok(lap_session_eval(session, ids, prompt, prompt, logits, &error), &error);
  for (int i = prompt; i < TOKENS; i++)
    expect_ok(lap_session_eval(session, ids + i, 1, 1, logits + (size_t)i * vocab, &error), &error);
  lap_session_destroy(session);
  return logits;
}

static double deviation_of(const float *row, int n) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) {
    assert_true(isfinite(row[i]));
    sum += (double)row[i];
    squares += (double)row[i] * (double)row[i];
  }
  return sqrt(squares / n - sum / n * (sum / n));
}

static void check_logits(const char *name, const float *logits) {
  for (int i = 0; i < TOKENS; i++) {
    const float *row = logits + i * VOCAB;
    double deviation = deviation_of(row, VOCAB);
    if (deviation < 1 || deviation > 10) fail_msg("%s: row %d deviates by %g", name, i, deviation);
    if (i) assert_true(rms_distance(row, row - VOCAB, VOCAB) > 0.1);
  }
}

static void logits_are_finite_spread_and_the_same_decoded(void **state) {
  (void)state;
  for (int n = 0; n < SIZES; n++) {
    lap_error error;
    lap_model *model;
    random_source source = {11};
    int32_t ids[TOKENS];
    lap_forge_options options = options_of(sizes[n].name);
    options.layers = sizes[n].per_layer_width ? 2 * sizes[n].period : sizes[n].period;
    options.scale = is_quick() ? 64 : 12;
    options.bits = options.group = 0;
    char *directory = forged(&options);
    expect_ok(lap_model_open(directory, NULL, &model, &error), &error);
    for (int i = 0; i < TOKENS; i++) ids[i] = random_below(&source, VOCAB);
    float *at_once = evaluate(model, ids, TOKENS), *decoded = evaluate(model, ids, TOKENS - DECODED);
    check_logits(sizes[n].name, at_once);
    assert_memory_equal(at_once, decoded, TOKENS * VOCAB * sizeof *at_once);
    free(at_once);
    free(decoded);
    lap_model_close(model);
    remove_directory(directory);
  }
}

/* Every layer of the deepest ones: activations must not grow or vanish on the way. */
static void logits_stay_spread_through_all_layers(void **state) {
  (void)state;
  for (int n = 0; n < SIZES; n++) {
    lap_error error;
    lap_model *model;
    random_source source = {13};
    int32_t ids[TOKENS];
    lap_forge_options options = options_of(sizes[n].name);
    char *directory = forged(&options);
    expect_ok(lap_model_open(directory, NULL, &model, &error), &error);
    for (int i = 0; i < TOKENS; i++) ids[i] = random_below(&source, VOCAB);
    float *logits = evaluate(model, ids, TOKENS);
    check_logits(sizes[n].name, logits);
    free(logits);
    lap_model_close(model);
    remove_directory(directory);
  }
}

/* ---- bytes ---- */

static unsigned char *weights_of(const char *directory, size_t *length) {
  struct stat status;
  const char *path = path_of("%s/model.safetensors", directory);
  assert_int_equal(stat(path, &status), 0);
  *length = (size_t)status.st_size;
  unsigned char *bytes = malloc(*length);
  FILE *file = fopen(path, "rb");
  assert_non_null(bytes);
  assert_non_null(file);
  assert_int_equal(fread(bytes, 1, *length, file), *length);
  fclose(file);
  return bytes;
}

static unsigned char *bytes_for(uint64_t seed, int threads, size_t *length) {
  lap_forge_options options = options_of("e4b");
  options.layers = 12;
  options.bits = 5;
  options.seed = seed;
  options.threads = threads;
  char *directory = forged(&options);
  unsigned char *bytes = weights_of(directory, length);
  remove_directory(directory);
  return bytes;
}

static void bytes_depend_on_the_seed_and_not_on_threads(void **state) {
  (void)state;
  size_t length, other_length;
  unsigned char *one = bytes_for(1, 1, &length);
  unsigned char *three = bytes_for(1, 3, &other_length);
  assert_int_equal(length, other_length);
  assert_true(length > 4 << 20); /* several pieces */
  assert_int_equal(memcmp(one, three, length), 0);
  unsigned char *other = bytes_for(2, 3, &other_length);
  assert_int_equal(length, other_length);
  size_t equal = 0;
  for (size_t i = length / 2; i < length; i++) equal += one[i] == other[i];
  assert_true(equal < length / 4);
  free(one);
  free(three);
  free(other);
}

static void any_range_of_a_tensor_is_drawn_alike(void **state) {
  (void)state;
  unsigned char whole[96], part[96];
  for (int kind = LAP_DRAW_CODES; kind <= LAP_DRAW_BIASES; kind++) {
    const lap_draw draw = {
        .kind = (lap_draw_kind)kind, .key = 5, .centre = 1, .spread = 0.25f, .scales_key = 6, .middle = 7.5f};
    lap_draw_bytes(&draw, 0, sizeof whole, whole);
    for (size_t from = 0; from <= sizeof whole; from++) {
      for (size_t count = 0; from + count <= sizeof whole; count++) {
        lap_draw_bytes(&draw, from, count, part);
        assert_memory_equal(part, whole + from, count);
      }
    }
  }
}

/* ---- refusals ---- */

static void expect_refused(const char *directory, const lap_forge_options *options, const char *text) {
  lap_error error;
  lap_forge_result result;
  assert_int_not_equal(lap_forge(directory, options, &result, &error), LAP_OK);
  if (!strstr(error.message, text)) fail_msg("'%s' does not say '%s'", error.message, text);
  assert_int_not_equal(access(path_of("%s/config.json", directory), F_OK), 0);
  assert_int_not_equal(access(path_of("%s/model.safetensors.part", directory), F_OK), 0);
}

static bool stop_at_once(void *context, int64_t done, int64_t total) {
  (void)context;
  (void)done;
  (void)total;
  return false;
}

static void what_is_wrong_is_named_and_nothing_is_left(void **state) {
  (void)state;
  char *parent = make_directory();
  char directory[64]; /* path_of's own buffers do not last as long */
  snprintf(directory, sizeof directory, "%s/new", parent);
  lap_forge_options good = options_of("e4b");
  good.config = CONFIGS "/e4b.json";
  good.kv_config = CONFIGS "/e4b.kv_config.json";
  lap_forge_options bad = good;
  bad.layers = 43;
  expect_refused(directory, &bad, "--layers: 43");
  bad = good;
  bad.vocab = 100;
  expect_refused(directory, &bad, "--vocab: 100 leaves out token 106");
  bad = good;
  bad.config = "/nowhere/config.json";
  expect_refused(directory, &bad, "/nowhere/config.json");
  bad = good;
  bad.kv_config = "/nowhere/kv.json";
  expect_refused(directory, &bad, "/nowhere/kv.json");
  bad = good;
  bad.tokenizer = "/nowhere/tokenizer.json";
  expect_refused(directory, &bad, "/nowhere/tokenizer.json");
  bad = good;
  bad.kv_config = CONFIGS "/12b.kv_config.json";
  expect_refused(directory, &bad, "kv_config.json: [24]: layer_idx: layer 24");
  bad = good;
  bad.progress = stop_at_once;
  expect_refused(directory, &bad, "interrupted");
  assert_int_not_equal(access(directory, F_OK), 0);
  remove_directory(parent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_size_has_its_published_structure),
      cmocka_unit_test(fewer_layers_leave_every_sharer_its_donor),
      cmocka_unit_test(bits_and_groups_of_the_map_and_of_the_options_count),
      cmocka_unit_test(a_flat_dense_configuration_with_an_untied_head_is_forged),
      cmocka_unit_test(logits_are_finite_spread_and_the_same_decoded),
      cmocka_unit_test(logits_stay_spread_through_all_layers),
      cmocka_unit_test(bytes_depend_on_the_seed_and_not_on_threads),
      cmocka_unit_test(any_range_of_a_tensor_is_drawn_alike),
      cmocka_unit_test(what_is_wrong_is_named_and_nothing_is_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
