/* Rows that bring their own embeddings and see each other, against float64 references of models that look at
 * pictures (tests/data/goldens/README.md, "seeing"), and against rows that are plain tokens.
 *
 * The references' rows after the pictures were merged in are given as embeddings, so what is tested is the
 * pass: which positions a row sees, which row of the per-layer table it reads, and what it hands out. */
#include "cache/kv.h"
#include "model/forward.h"
#include "support/check.h"

enum {
  VOCAB = 128,
  IMAGE = 124, /* the id that stands for a row of a picture */
  MAX_BLOCKS = 4
};

typedef struct seer {
  lap_model *model;
  lap_forward *forward;
  lap_kv *kv;
} seer;

static seer open_seer(const char *directory, lap_path path) {
  lap_error error;
  seer s;
  expect_ok(lap_model_open(directory, &(lap_model_options){.kv = LAP_KV_PLAIN}, &s.model, &error), &error);
  expect_ok(lap_forward_create(s.model, &(lap_runner_options){.threads = 2}, &s.forward, &error), &error);
  lap_forward_set_path(s.forward, path);
  expect_ok(lap_kv_create(s.model->bound, false, &s.kv, &error), &error);
  return s;
}

static void close_seer(seer *s) {
  lap_kv_destroy(s->kv);
  lap_forward_destroy(s->forward);
  lap_model_close(s->model);
}

/* The pictures among ids[first .. end - 1]: the runs of IMAGE. */
static int find_blocks(const int32_t *ids, const float *embeds, int width, int first, int end,
                       bool sees_itself, lap_block blocks[MAX_BLOCKS]) {
  int count = 0;
  for (int i = first; i < end; i++) {
    if (ids[i] != IMAGE) continue;
    int from = i;
    while (i + 1 < end && ids[i + 1] == IMAGE) i++;
    blocks[count++] = (lap_block){.first = from - first,
                                  .count = i + 1 - from,
                                  .embeddings = embeds + (size_t)from * (size_t)width,
                                  .sees_itself = sees_itself};
  }
  return count;
}

/* Evaluates the prompt in passes that end at `borders` [count]; logits of every row. */
static void see_prompt(seer *s, const int32_t *ids, const float *embeds, bool sees_itself, const int *borders,
                       int count, float *logits) {
  lap_error error;
  for (int i = 0, first = 0; i < count; first = borders[i++]) {
    lap_block blocks[MAX_BLOCKS];
    const lap_segment segment = {.kv = s->kv,
                                 .ids = ids + first,
                                 .count = borders[i] - first,
                                 .logits = logits + (size_t)first * VOCAB,
                                 .block = blocks,
                                 .blocks = find_blocks(ids, embeds, s->model->plan->hidden_size, first,
                                                       borders[i], sees_itself, blocks)};
    expect_ok(lap_forward_run(s->forward, &segment, 1, &error), &error);
  }
}

typedef struct seen_prompt {
  const char *run, *checkpoint, *logits;
  bool sees_itself;
  int border; /* a place for a border between passes that lies in no picture */
} seen_prompt;

/* The merged rows [n, width]: stored, or (of the long run) the rows of the picture alone. */
static float *embeds_of(const lap_tensors *tensors, const int32_t *ids, int64_t n, int width) {
  if (has_golden(tensors, "embeds")) return floats_of(golden(tensors, "embeds"));
  float *soft = floats_of(golden(tensors, "soft")),
        *embeds = calloc((size_t)n * (size_t)width, sizeof *embeds);
  for (int64_t i = 0, row = 0; i < n; i++)
    if (ids[i] == IMAGE) memcpy(embeds + i * width, soft + row++ * width, (size_t)width * sizeof *embeds);
  free(soft);
  return embeds;
}

static void rows_with_embeddings_equal_the_float64_reference(void **state) {
  static const seen_prompt prompts[] = {
      {"see-e-tiny.one", "see-e-tiny", "logits", false, 5}, /* its pictures are causal, as text is */
      {"see-dense-tiny.two", "see-dense-tiny", "logits", true, 15},
      /* A picture that is longer than the window: DeepMind's rule, a window ahead as well as behind. */
      {"see-dense-tiny.long", "see-dense-tiny", "logits.two_sided", true, 30},
      {"see-dense-tiny.long", "see-dense-tiny", "logits.causal", false, 30},
  };
  (void)state;
  for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++) {
    const seen_prompt *prompt = &prompts[p];
    lap_tensors *tensors = open_golden(path_of(GOLDENS "/seeing/%s.safetensors", prompt->run));
    int64_t n;
    int32_t *ids = ids_of(golden(tensors, "ids"), &n);
    float *reference = floats_of(golden(tensors, "%s", prompt->logits));
    float *bf16 = floats_of(golden(tensors, "bf16.logits")), *hf = floats_of(golden(tensors, "logits"));
    float *whole = malloc((size_t)n * VOCAB * sizeof *whole),
          *parts = malloc((size_t)n * VOCAB * sizeof *parts);
    for (int parted = 0; parted < 2; parted++) {
      seer s = open_seer(path_of(GOLDENS "/seeing/%s", prompt->checkpoint), LAP_PATH_MONOLITH);
      float *embeds = embeds_of(tensors, ids, n, s.model->plan->hidden_size);
      const int borders[] = {parted ? prompt->border : (int)n, (int)n};
      see_prompt(&s, ids, embeds, prompt->sees_itself, borders, 1 + parted, parted ? parts : whole);
      free(embeds);
      close_seer(&s);
    }
    /* The contract of docs/numerics.md: a fiftieth of what a bfloat16 run is away from its own reference. */
    const int64_t all = n * VOCAB;
    const double rms = rms_distance(whole, reference, all), most = max_distance(whole, reference, all);
    const double rms_bound = rms_distance(bf16, hf, all) / 50, most_bound = max_distance(bf16, hf, all) / 50;
    printf("%s %s: rms %.1e (bound %.1e), max %.1e (bound %.1e)\n", prompt->run, prompt->logits, rms,
           rms_bound, most, most_bound);
    assert_true(rms < rms_bound);
    assert_true(most < most_bound);
    assert_memory_equal(whole, parts, (size_t)n * VOCAB * sizeof *whole);
    free(ids);
    free(reference);
    free(bf16);
    free(hf);
    free(whole);
    free(parts);
    lap_tensors_close(tensors);
  }
}

/* ---- against plain tokens ---- */

enum {
  TOKENS = 40
};

typedef struct seen_rows {
  float *embedding, *final; /* [TOKENS, hidden] */
  int width;
} seen_rows;

static void keep_rows(void *context, const char *name, int layer, const float *data, int rows, int width) {
  seen_rows *seen = context;
  (void)layer;
  float *to = strcmp(name, "embedding") == 0    ? seen->embedding
              : strcmp(name, "final_norm") == 0 ? seen->final
                                                : NULL;
  if (to) memcpy(to, data, (size_t)rows * (size_t)width * sizeof *to);
}

/* Pebble's cut and the monolith: an embedding that is a token's own gives the bits of the token, whatever
 * else is wanted; and the hidden rows handed out are those after the final norm. */
static void a_tokens_own_embedding_gives_the_tokens_bits(void **state) {
  static const lap_path paths[] = {LAP_PATH_MONOLITH, LAP_PATH_CUT};
  (void)state;
  for (int p = 0; p < 2; p++) {
    lap_error error;
    int32_t ids[TOKENS];
    lap_model *pebble;
    expect_ok(lap_model_open(SOURCE_DIR "/models/pebble", NULL, &pebble, &error), &error);
    const int width = pebble->plan->hidden_size, vocab = pebble->plan->vocab_size;
    /* Per-layer inputs are read at the padding id, so it is that one whose embedding is compared. */
    for (int i = 0; i < TOKENS; i++) ids[i] = i < 3 ? 2 + i : pebble->plan->pad;
    lap_forward *forward;
    expect_ok(lap_forward_create(pebble, &(lap_runner_options){.threads = 2}, &forward, &error), &error);
    lap_forward_set_path(forward, paths[p]);
    seen_rows seen = {.embedding = malloc((size_t)TOKENS * (size_t)width * sizeof(float)),
                      .final = malloc((size_t)TOKENS * (size_t)width * sizeof(float)),
                      .width = width};
    float *logits[2], *hidden = malloc((size_t)TOKENS * (size_t)width * sizeof *hidden);
    const lap_probe probe = {keep_rows, &seen};
    for (int own = 0; own < 2; own++) {
      lap_kv *kv;
      logits[own] = malloc((size_t)TOKENS * (size_t)vocab * sizeof(float));
      expect_ok(lap_kv_create(pebble->bound, false, &kv, &error), &error);
      const lap_block block = {
          .first = 3, .count = TOKENS - 3, .embeddings = seen.embedding + (size_t)3 * (size_t)width};
      lap_segment segment = {.kv = kv, .ids = ids, .count = TOKENS, .logits = logits[own]};
      if (own) {
        segment.block = &block;
        segment.blocks = 1;
        segment.hidden = hidden;
      }
      lap_forward_set_probe(forward, own ? NULL : &probe);
      expect_ok(lap_forward_run(forward, &segment, 1, &error), &error);
      assert_int_equal(lap_forward_served(forward), paths[p]);
      lap_kv_destroy(kv);
    }
    assert_memory_equal(logits[0], logits[1], (size_t)TOKENS * (size_t)vocab * sizeof(float));
    assert_memory_equal(hidden, seen.final, (size_t)TOKENS * (size_t)width * sizeof(float));

    /* Hidden rows alone, of the last five: the others may leave at the last donor, the head is not computed.
     */
    lap_kv *kv;
    expect_ok(lap_kv_create(pebble->bound, false, &kv, &error), &error);
    const lap_segment last = {
        .kv = kv, .ids = ids, .count = TOKENS, .logits_from = TOKENS - 5, .hidden = hidden};
    expect_ok(lap_forward_run(forward, &last, 1, &error), &error);
    assert_memory_equal(hidden, seen.final + (size_t)(TOKENS - 5) * (size_t)width,
                        (size_t)5 * (size_t)width * sizeof(float));
    lap_kv_destroy(kv);
    for (int i = 0; i < 2; i++) free(logits[i]);
    free(hidden);
    free(seen.embedding);
    free(seen.final);
    lap_forward_destroy(forward);
    lap_model_close(pebble);
  }
}

static void a_block_outside_its_segment_is_refused(void **state) {
  static const lap_block bad[] = {{.first = 0, .count = 0},
                                  {.first = 3, .count = 2},
                                  {.first = -1, .count = 1},
                                  {.first = 1, .count = INT32_MAX}};
  const int32_t ids[4] = {2, 3, 4, 5};
  float embeddings[8] = {0};
  lap_error error;
  (void)state;
  seer s = open_seer(GOLDENS "/seeing/see-dense-tiny", LAP_PATH_AUTO);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    lap_block block = bad[i];
    block.embeddings = embeddings;
    const lap_segment segment = {
        .kv = s.kv, .ids = ids, .count = 4, .logits_from = 4, .block = &block, .blocks = 1};
    assert_int_equal(lap_forward_run(s.forward, &segment, 1, &error), LAP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "block 0"));
    assert_int_equal(lap_kv_length(s.kv), 0);
  }
  close_seer(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_with_embeddings_equal_the_float64_reference),
      cmocka_unit_test(a_tokens_own_embedding_gives_the_tokens_bits),
      cmocka_unit_test(a_block_outside_its_segment_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
