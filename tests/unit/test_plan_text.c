/* A plan's text says everything that decides its forward pass, and nothing else: each field is varied alone,
 * and the fingerprint moves or stays. */
#include "checkpoint/plan_text.h"

#include <locale.h>
#include <math.h>
#include <nettle/sha2.h>

#include "checkpoint/fingerprint.h"
#include "support/check.h"

#define PEBBLE SOURCE_DIR "/models/pebble"
#define MOE    GOLDENS "/checkpoints/moe-tiny"

static lap_plan *plan_of(const char *directory) {
  lap_error error;
  lap_tensors *tensors;
  lap_plan *plan;
  expect_ok(lap_tensors_open(directory, &tensors, &error), &error);
  expect_ok(lap_plan_build(directory, tensors, LAP_KV_CONFIG, &plan, &error), &error);
  lap_tensors_close(tensors);
  return plan;
}

static char *text_of(const lap_plan *plan) {
  lap_error error;
  char *text;
  size_t length;
  expect_ok(lap_plan_text(plan, &text, &length, &error), &error);
  assert_int_equal(strlen(text), length);
  return text;
}

typedef char fingerprint[LAP_PLAN_FINGERPRINT_BYTES];

static const char *fingerprint_of(const lap_plan *plan, const char *versions, fingerprint out) {
  lap_error error;
  expect_ok(lap_plan_fingerprint(plan, versions, out, &error), &error);
  return out;
}

/* ---- fields ---- */

typedef enum kind {
  NUMBER, /* int32_t */
  FLAG,
  CHOICE, /* of an enumeration, with another value beside it */
  FLOAT,
  DOUBLE,
  LETTER
} kind;

typedef struct field {
  const char *name;
  size_t offset;
  kind kind;
} field;

#define FIELD(type, member, kind) \
  { #member, offsetof(type, member), kind }
#define END \
  { NULL, 0, NUMBER }

static const field plan_fields[] = {
    FIELD(lap_plan, hidden_size, NUMBER),
    FIELD(lap_plan, first_sharer, NUMBER),
    FIELD(lap_plan, caches, NUMBER),
    FIELD(lap_plan, vocab_size, NUMBER),
    FIELD(lap_plan, vocab_size_per_layer, NUMBER),
    FIELD(lap_plan, per_layer_width, NUMBER),
    FIELD(lap_plan, num_experts, NUMBER),
    FIELD(lap_plan, top_k_experts, NUMBER),
    FIELD(lap_plan, moe_width, NUMBER),
    FIELD(lap_plan, rms_norm_eps, FLOAT),
    FIELD(lap_plan, final_logit_softcapping, FLOAT),
    FIELD(lap_plan, embed_scale, FLOAT),
    FIELD(lap_plan, per_layer_embed_scale, FLOAT),
    FIELD(lap_plan, per_layer_projection_scale, FLOAT),
    FIELD(lap_plan, tied_head, FLAG),
    FIELD(lap_plan, rope[LAP_SLIDING].theta, DOUBLE),
    FIELD(lap_plan, rope[LAP_SLIDING].factor, DOUBLE),
    FIELD(lap_plan, rope[LAP_SLIDING].rotated_pairs, NUMBER),
    FIELD(lap_plan, rope[LAP_FULL].theta, DOUBLE),
    FIELD(lap_plan, rope[LAP_FULL].factor, DOUBLE),
    FIELD(lap_plan, rope[LAP_FULL].rotated_pairs, NUMBER),
    FIELD(lap_plan, head_dim[LAP_SLIDING], NUMBER),
    FIELD(lap_plan, head_dim[LAP_FULL], NUMBER),
    END,
};

static const field plan_fields_left_out[] = {
    FIELD(lap_plan, model_type[0], LETTER),
    FIELD(lap_plan, max_position_embeddings, NUMBER),
    FIELD(lap_plan, kv_mode, CHOICE),
    FIELD(lap_plan, has_kv_config, FLAG),
    FIELD(lap_plan, bos, NUMBER),
    FIELD(lap_plan, pad, NUMBER),
    FIELD(lap_plan, eos_count, NUMBER),
    FIELD(lap_plan, eos[0], NUMBER),
    FIELD(lap_plan, generation.do_sample, FLAG),
    FIELD(lap_plan, generation.temperature, FLOAT),
    FIELD(lap_plan, generation.top_k, NUMBER),
    FIELD(lap_plan, generation.top_p, FLOAT),
    FIELD(lap_plan, generation.min_p, FLOAT),
    FIELD(lap_plan, generation.repetition_penalty, FLOAT),
    FIELD(lap_plan, generation.suppress_count, NUMBER),
    FIELD(lap_plan, generation.suppress[0], NUMBER),
    END,
};

static const field layer_fields[] = {
    FIELD(lap_layer, attention, CHOICE),      FIELD(lap_layer, sharer, FLAG),
    FIELD(lap_layer, donor, NUMBER),          FIELD(lap_layer, exports_kv, FLAG),
    FIELD(lap_layer, cache, NUMBER),          FIELD(lap_layer, window, NUMBER),
    FIELD(lap_layer, heads, NUMBER),          FIELD(lap_layer, kv_heads, NUMBER),
    FIELD(lap_layer, head_dim, NUMBER),       FIELD(lap_layer, k_eq_v, FLAG),
    FIELD(lap_layer, kv_bits, NUMBER),        FIELD(lap_layer, kv_group_size, NUMBER),
    FIELD(lap_layer, mlp_width, NUMBER),      FIELD(lap_layer, moe, FLAG),
    FIELD(lap_layer, has_layer_scalar, FLAG), END,
};

static const field presence_of_linear = FIELD(lap_linear, present, FLAG);
static const field linear_fields[] = {
    FIELD(lap_linear, out_features, NUMBER),
    FIELD(lap_linear, in_features, NUMBER),
    FIELD(lap_linear, experts, NUMBER),
    FIELD(lap_linear, bits, NUMBER),
    FIELD(lap_linear, group_size, NUMBER),
    FIELD(lap_linear, dtype, CHOICE),
    END,
};
static const field linear_fields_left_out[] = {
    FIELD(lap_linear, weight, NUMBER),
    FIELD(lap_linear, scales, NUMBER),
    FIELD(lap_linear, biases, NUMBER),
    END,
};

static const field presence_of_vector = FIELD(lap_vector, present, FLAG);
static const field vector_fields[] = {
    FIELD(lap_vector, length, NUMBER),
    END,
};
static const field vector_fields_left_out[] = {
    FIELD(lap_vector, dtype, CHOICE),
    FIELD(lap_vector, tensor, NUMBER),
    END,
};

/* As little as the type allows: a text that rounds would not show it. */
static size_t vary(void *at, kind of) {
  switch (of) {
    case NUMBER:
      ++*(int32_t *)at;
      return sizeof(int32_t);
    case FLAG:
      *(bool *)at = !*(bool *)at;
      return sizeof(bool);
    case CHOICE:
      *(unsigned *)at ^= 1;
      return sizeof(unsigned);
    case FLOAT:
      *(float *)at = nextafterf(*(float *)at, INFINITY);
      return sizeof(float);
    case DOUBLE:
      *(double *)at = nextafter(*(double *)at, (double)INFINITY);
      return sizeof(double);
    case LETTER:
      ++*(char *)at;
      return 1;
  }
  return 0;
}

/* ---- walking a copy of a plan ---- */

typedef struct copy {
  lap_plan plan;
  fingerprint original;
} copy;

static copy copy_of(const lap_plan *plan) {
  copy c = {.plan = *plan};
  size_t bytes = (size_t)plan->layers * sizeof *plan->layer;
  c.plan.layer = malloc(bytes);
  assert_non_null(c.plan.layer);
  memcpy(c.plan.layer, plan->layer, bytes);
  fingerprint_of(plan, "1", c.original);
  return c;
}

/* Varies the field of the structure at `base`, a part of the copy, and puts it back. */
static void expect_field(copy *c, void *base, const field *f, bool decides, const char *where) {
  char *at = (char *)base + f->offset;
  char before[sizeof(double)];
  fingerprint varied;
  memcpy(before, at, f->kind == LETTER || f->kind == FLAG ? 1 : f->kind == DOUBLE ? 8 : 4);
  size_t bytes = vary(at, f->kind);
  fingerprint_of(&c->plan, "1", varied);
  memcpy(at, before, bytes);
  bool moved = strcmp(varied, c->original) != 0;
  if (moved != decides) fail_msg("%s%s %s", where, f->name, moved ? "counts" : "does not count");
}

static void expect_fields(copy *c, void *base, const field *fields, bool decide, const char *where) {
  for (const field *f = fields; f->name; f++) expect_field(c, base, f, decide, where);
}

static void expect_linear(copy *c, lap_linear *linear, const char *where) {
  expect_field(c, linear, &presence_of_linear, true, where);
  expect_fields(c, linear, linear_fields, linear->present, where);
  expect_fields(c, linear, linear_fields_left_out, false, where);
}

static void expect_vector(copy *c, lap_vector *vector, const char *where) {
  expect_field(c, vector, &presence_of_vector, true, where);
  expect_fields(c, vector, vector_fields, vector->present, where);
  expect_fields(c, vector, vector_fields_left_out, false, where);
}

static void expect_layer(copy *c, int32_t index) {
  lap_layer *layer = &c->plan.layer[index];
  expect_fields(c, layer, layer_fields, true, path_of("layer %d: ", index));
  for (int i = 0; i < LAP_LAYER_LINEARS; i++)
    expect_linear(c, &layer->linear[i],
                  path_of("layer %d: %s: ", index, lap_layer_linear_name((lap_layer_linear)i)));
  for (int i = 0; i < LAP_LAYER_VECTORS; i++)
    expect_vector(c, &layer->vector[i],
                  path_of("layer %d: %s: ", index, lap_layer_vector_name((lap_layer_vector)i)));
}

static void expect_plan(copy *c) {
  fingerprint again;
  expect_fields(c, &c->plan, plan_fields, true, "");
  expect_fields(c, &c->plan, plan_fields_left_out, false, "");
  expect_linear(c, &c->plan.embed, "embed: ");
  expect_linear(c, &c->plan.embed_per_layer, "embed_per_layer: ");
  expect_linear(c, &c->plan.per_layer_projection, "per_layer_projection: ");
  expect_linear(c, &c->plan.head, "head: ");
  expect_vector(c, &c->plan.final_norm, "final_norm: ");
  expect_vector(c, &c->plan.per_layer_norm, "per_layer_norm: ");
  for (int32_t i = 0; i < c->plan.layers; i++) expect_layer(c, i);
  assert_string_equal(fingerprint_of(&c->plan, "1", again), c->original);
}

/* ---- tests ---- */

/* Both plans together have every module there is. */
static void every_field_that_decides_counts_and_no_other(void **state) {
  (void)state;
  static const char *const directories[] = {PEBBLE, MOE};
  bool linears[LAP_LAYER_LINEARS] = {0}, vectors[LAP_LAYER_VECTORS] = {0};
  for (int i = 0; i < 2; i++) {
    lap_plan *plan = plan_of(directories[i]);
    for (int n = 0; n < LAP_LAYER_LINEARS; n++) linears[n] |= plan->layer[0].linear[n].present;
    for (int n = 0; n < LAP_LAYER_VECTORS; n++) vectors[n] |= plan->layer[0].vector[n].present;
    copy c = copy_of(plan);
    expect_plan(&c);
    free(c.plan.layer);
    lap_plan_free(plan);
  }
  for (int n = 0; n < LAP_LAYER_LINEARS; n++) assert_true(linears[n]);
  for (int n = 0; n < LAP_LAYER_VECTORS; n++) assert_true(vectors[n]);
}

/* Without the last layer, nothing else changed. */
static void the_number_of_layers_counts(void **state) {
  (void)state;
  lap_plan *plan = plan_of(PEBBLE);
  fingerprint all, fewer;
  fingerprint_of(plan, "1", all);
  plan->layers--;
  assert_string_not_equal(fingerprint_of(plan, "1", fewer), all);
  char *text = text_of(plan);
  assert_non_null(strstr(text, "layers 11\n"));
  free(text);
  lap_plan_free(plan);
}

static void equal_plans_have_equal_texts(void **state) {
  (void)state;
  lap_plan *one = plan_of(PEBBLE), *other = plan_of(PEBBLE);
  char *text = text_of(one), *again = text_of(other);
  fingerprint a, b;
  assert_string_equal(text, again);
  assert_string_equal(fingerprint_of(one, "1", a), fingerprint_of(other, "1", b));
  free(text);
  free(again);
  lap_plan_free(one);
  lap_plan_free(other);
}

static void the_locale_does_not_matter(void **state) {
  (void)state;
  lap_plan *plan = plan_of(PEBBLE);
  char *expected = text_of(plan);
  bool possible = use_decimal_comma();
  char *text = text_of(plan);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(text, expected);
  free(text);
  free(expected);
  lap_plan_free(plan);
  if (!possible) skip();
}

static void a_fingerprint_is_the_hash_of_versions_and_text(void **state) {
  (void)state;
  lap_plan *plan = plan_of(MOE);
  char *text = text_of(plan), expected[2 * SHA256_DIGEST_SIZE + 1];
  const char *versions = "generator 1\nkernels 2";
  struct sha256_ctx hash;
  uint8_t digest[SHA256_DIGEST_SIZE];
  fingerprint got;
  sha256_init(&hash);
  sha256_update(&hash, strlen(versions), (const uint8_t *)versions);
  sha256_update(&hash, 1, (const uint8_t *)"\n");
  sha256_update(&hash, strlen(text), (const uint8_t *)text);
  sha256_digest(&hash, sizeof digest, digest);
  for (int i = 0; i < SHA256_DIGEST_SIZE; i++) sprintf(expected + 2 * i, "%02x", digest[i]);
  expected[16] = '\0';
  assert_string_equal(fingerprint_of(plan, versions, got), expected);
  assert_string_not_equal(fingerprint_of(plan, "generator 2\nkernels 2", got), expected);
  assert_string_not_equal(fingerprint_of(plan, "", got), expected);
  free(text);
  lap_plan_free(plan);
}

static bool has_line(const char *text, const char *line) {
  size_t length = strlen(line);
  for (const char *at = text; (at = strstr(at, line)); at++)
    if ((at == text || at[-1] == '\n') && at[length] == '\n') return true;
  return false;
}

static void expect_lines(const char *directory, const char *const *lines) {
  lap_plan *plan = plan_of(directory);
  char *text = text_of(plan);
  for (; *lines; lines++)
    if (!has_line(text, *lines)) fail_msg("no line '%s' in\n%.2000s", *lines, text);
  free(text);
  lap_plan_free(plan);
}

static void the_text_can_be_read(void **state) {
  (void)state;
  static const char *const pebble[] = {
      "hidden_size 256",
      "layers 12",
      "first_sharer 8",
      "num_experts 0",
      "rms_norm_eps 0x1.0c6f7ap-20",
      "final_logit_softcapping 0x1.ep+4",
      "embed_scale 0x1p+4",
      "per_layer_embed_scale 0x1p+3",
      "per_layer_projection_scale 0x1p-4",
      "tied_head yes",
      "rope.sliding theta 0x1.388p+13 factor 0x1p+0 rotated_pairs 32 head_dim 64",
      "rope.full theta 0x1.e848p+19 factor 0x1p+0 rotated_pairs 16 head_dim 128",
      "embed_tokens experts 1 out 2048 in 256 bits 8 group_size 64 dtype BF16",
      "embed_tokens_per_layer experts 1 out 2048 in 768 bits 4 group_size 64 dtype BF16",
      "lm_head experts 1 out 2048 in 256 bits 8 group_size 64 dtype BF16",
      "norm.weight length 256",
      "layers.0 attention sliding sharer no donor 0 exports_kv no cache 0 window 128",
      "layers.0 heads 4 kv_heads 2 head_dim 64 k_eq_v no kv_bits 8 kv_group_size 64",
      "layers.0 mlp_width 768 moe no layer_scalar yes",
      "layers.5 attention full sharer no donor 5 exports_kv yes cache 5 window 0",
      "layers.2.self_attn.q_proj experts 1 out 512 in 256 bits 4 group_size 64 dtype BF16",
      "layers.2.self_attn.q_norm.weight length 128",
      "layers.8 attention full sharer yes donor 5 exports_kv no cache 5 window 0",
      "layers.11.layer_scalar length 1",
      NULL};
  static const char *const moe[] = {
      "num_experts 8",
      "top_k_experts 2",
      "moe_width 128",
      "layers.5 mlp_width 192 moe yes layer_scalar yes",
      "layers.4.experts.switch_glu.down_proj experts 8 out 128 in 128 bits 8 group_size 64 dtype BF16",
      NULL};
  expect_lines(PEBBLE, pebble);
  expect_lines(MOE, moe);
}

static void modules_that_are_not_there_have_no_line(void **state) {
  (void)state;
  lap_plan *plan = plan_of(PEBBLE);
  char *text = text_of(plan);
  assert_non_null(strstr(text, "\nlayers.7.self_attn.k_proj "));
  assert_null(strstr(text, "\nlayers.8.self_attn.k_proj "));
  assert_null(strstr(text, "router"));
  free(text);
  lap_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_field_that_decides_counts_and_no_other),
      cmocka_unit_test(the_number_of_layers_counts),
      cmocka_unit_test(equal_plans_have_equal_texts),
      cmocka_unit_test(the_locale_does_not_matter),
      cmocka_unit_test(a_fingerprint_is_the_hash_of_versions_and_text),
      cmocka_unit_test(the_text_can_be_read),
      cmocka_unit_test(modules_that_are_not_there_have_no_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
