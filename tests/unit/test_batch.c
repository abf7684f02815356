/* Requests that share passes and beginnings: whatever runs beside a request, and whatever the prompt cache
 * had, its tokens and the bits of its logits are those of the request alone. What is expected comes from a
 * lone session that evaluates the same prompt cold. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/snapshot.h"
#include "engine/batch.h"
#include "engine/session.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define TINY(name) GOLDENS "/checkpoints/" name

enum {
  MOST_TOKENS = 64,
  PEBBLE_VOCAB = 2048
};

static bool is_quick(void) {
  return getenv("LAPIDARY_TEST_QUICK") != NULL;
}

/* ---- a request, alone and in a batch ---- */

/* What a request is, and what came of it. */
typedef struct client {
  const int32_t *ids;
  int64_t count;
  const lap_origin *origins; /* NULL: all zero */
  int64_t max_tokens;
  uint64_t seed;
  int vocab;
  int ends_after; /* choose says so after this many tokens; 0: never */
  /* results */
  int32_t token[MOST_TOKENS];
  int tokens;
  uint64_t hash; /* of all logits seen */
  bool ended;
  lap_job_record record;
  lap_job *job;
} client;

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
  return hash;
}

/* Samples by a seed: the largest of the logits with noise added, which depends on seed, place and id. */
static int32_t sample(const client *c, const float *logits) {
  int32_t best = 0;
  float top = -1e30f;
  random_source source = {c->seed * 1000003u + (uint64_t)c->tokens};
  for (int32_t id = 0; id < c->vocab; id++) {
    float value = logits[id] + random_float(&source, 0, 4);
    if (value > top) {
      top = value;
      best = id;
    }
  }
  return best;
}

static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  client *c = context;
  assert_int_equal(count, c->count + c->tokens);
  assert_memory_equal(tokens, c->ids, (size_t)c->count * sizeof *tokens);
  assert_memory_equal(tokens + c->count, c->token, (size_t)c->tokens * sizeof *tokens);
  c->hash = hash_bytes(c->hash, logits, (size_t)c->vocab * sizeof *logits);
  if (c->ends_after && c->tokens == c->ends_after) return -1;
  int32_t token = sample(c, logits);
  memset(logits, 0xff, (size_t)c->vocab * sizeof *logits); /* it may be overwritten */
  assert_true(c->tokens < MOST_TOKENS);
  return c->token[c->tokens++] = token;
}

static void ended(void *context, const lap_job_record *record) {
  client *c = context;
  assert_false(c->ended);
  c->ended = true;
  c->job = NULL;
  c->record = *record;
}

static client client_for(lap_model *model, const int32_t *ids, int64_t count, int64_t max_tokens,
                         uint64_t seed) {
  return (client){.ids = ids,
                  .count = count,
                  .max_tokens = max_tokens,
                  .seed = seed,
                  .vocab = lap_model_vocab_size(model)};
}

static void submit(lap_batch *batch, client *c) {
  lap_error error;
  const lap_job_request request = {.ids = c->ids,
                                   .count = c->count,
                                   .origins = c->origins,
                                   .max_tokens = c->max_tokens,
                                   .choose = choose,
                                   .ended = ended,
                                   .context = c};
  expect_ok(lap_batch_submit(batch, &request, &c->job, &error), &error);
  assert_int_equal(lap_job_get_record(c->job)->state, LAP_JOB_WAITING);
}

static void finish(lap_batch *batch) {
  int steps = 0;
  for (lap_batch_stats stats; stats = lap_batch_get_stats(batch), stats.running + stats.waiting > 0;) {
    assert_true(lap_batch_step(batch));
    assert_true(++steps < 20000);
  }
}

static void run_one(lap_batch *batch, client *c) {
  submit(batch, c);
  finish(batch);
  assert_true(c->ended);
  if (c->record.end == LAP_JOB_FAILED) fail_msg("%s", c->record.error.message);
}

/* The same request, cold and alone, by a session of one thread. */
static client alone(lap_model *model, const client *asked) {
  lap_error error;
  lap_session *session;
  const lap_session_options options = {.threads = 1, .chunk = 1024};
  client c = client_for(model, asked->ids, asked->count, asked->max_tokens, asked->seed);
  c.ends_after = asked->ends_after;
  float *logits = malloc((size_t)c.vocab * sizeof *logits);
  int32_t *tokens = malloc((size_t)(c.count + MOST_TOKENS) * sizeof *tokens);
  memcpy(tokens, c.ids, (size_t)c.count * sizeof *tokens);
  expect_ok(lap_session_create(model, &options, &session, &error), &error);
  expect_ok(lap_session_eval(session, c.ids, c.count, 1, logits, &error), &error);
  for (;;) {
    int32_t token = choose(&c, logits, tokens, c.count + c.tokens);
    if (token < 0 || c.tokens == c.max_tokens) break;
    tokens[c.count + c.tokens - 1] = token;
    expect_ok(lap_session_eval(session, &token, 1, 1, logits, &error), &error);
  }
  lap_session_destroy(session);
  free(logits);
  free(tokens);
  return c;
}

static void expect_as_alone(lap_model *model, const client *c, const char *what) {
  client expected = alone(model, c);
  assert_true(c->ended);
  if (c->record.end == LAP_JOB_FAILED) fail_msg("%s: %s", what, c->record.error.message);
  if (c->tokens != expected.tokens || c->hash != expected.hash ||
      memcmp(c->token, expected.token, (size_t)c->tokens * sizeof(int32_t)) != 0)
    fail_msg("%s: %d tokens, %d of a lone run, or other bits", what, c->tokens, expected.tokens);
  assert_int_equal(c->record.generated_tokens, c->tokens);
  assert_int_equal(c->record.prompt_tokens, c->count);
  assert_int_equal(c->record.cached_tokens + c->record.evaluated_tokens, c->count);
  assert_true(c->record.submitted <= c->record.started && c->record.started <= c->record.first_token &&
              c->record.first_token <= c->record.ended);
}

/* ---- models, batches, prompts ---- */

static lap_model *open_model(const char *directory, lap_kv_mode kv) {
  lap_error error;
  lap_model *model;
  expect_ok(lap_model_open(directory, &(lap_model_options){.kv = kv}, &model, &error), &error);
  return model;
}

static lap_batch *open_batch(lap_model *model, lap_batch_options options) {
  lap_error error;
  lap_batch *batch;
  if (!options.threads) options.threads = 2;
  expect_ok(lap_batch_create(model, &options, &batch, &error), &error);
  return batch;
}

/* Ids that no other seed gives. */
static int32_t *prompt_of(lap_model *model, int64_t count, uint64_t seed) {
  random_source source = {seed};
  int32_t *ids = malloc((size_t)count * sizeof *ids);
  for (int64_t i = 0; i < count; i++) ids[i] = i ? random_below(&source, lap_model_vocab_size(model)) : 2;
  return ids;
}

/* The first `kept` of `ids` and `more` others. */
static int32_t *branch_of(lap_model *model, const int32_t *ids, int64_t kept, int64_t more, uint64_t seed) {
  int32_t *branch = prompt_of(model, kept + more + 1, seed);
  memmove(branch + kept, branch + kept + 1, (size_t)more * sizeof *branch);
  memcpy(branch, ids, (size_t)kept * sizeof *ids);
  return branch;
}

/* What a client said and was told, without the last token, that its sequence does not hold. */
static int32_t *conversation_of(const client *c, int64_t *count) {
  *count = c->count + c->tokens - 1;
  int32_t *ids = malloc((size_t)(*count + 1) * sizeof *ids);
  memcpy(ids, c->ids, (size_t)c->count * sizeof *ids);
  memcpy(ids + c->count, c->token, (size_t)c->tokens * sizeof *ids);
  return ids;
}

typedef struct setting {
  const char *name;
  const char *directory;
  lap_kv_mode kv;
} setting;

static const setting settings[] = {
    {"E2B tiny, config", TINY("e2-tiny"), LAP_KV_CONFIG},
    {"E2B tiny, plain", TINY("e2-tiny"), LAP_KV_PLAIN},
    {"E2B tiny, 8", TINY("e2-tiny"), LAP_KV_8},
    {"E2B tiny, 4", TINY("e2-tiny"), LAP_KV_4},
    {"E4B tiny, config", TINY("e-tiny"), LAP_KV_CONFIG},
    {"E4B tiny, 4", TINY("e-tiny"), LAP_KV_4},
    {"dense tiny, config", TINY("dense-tiny"), LAP_KV_CONFIG},
    {"MoE tiny, config", TINY("moe-tiny"), LAP_KV_CONFIG},
    {"Pebble, config", SOURCE_DIR "/models/pebble", LAP_KV_CONFIG},
};
enum {
  SETTINGS = sizeof settings / sizeof settings[0]
};

static void for_all(void (*check)(const setting *s, lap_model *model)) {
  for (int i = 0; i < SETTINGS; i += is_quick() ? 7 : 1) {
    lap_model *model = open_model(settings[i].directory, settings[i].kv);
    check(&settings[i], model);
    lap_model_close(model);
  }
}

/* ---- batches ---- */

/* probes.md D: eight requests, staggered, one cancelled in the middle. */
static void check_eight(const setting *s, lap_model *model, int gap, lap_batch_options options) {
  static const int lengths[] = {100, 1, 7, 40, 8, 15, 9, 16};
  client clients[8];
  int32_t *ids[8];
  lap_batch *batch = open_batch(model, options);
  for (int i = 0; i < 8; i++) {
    ids[i] = prompt_of(model, lengths[i], 100 + (uint64_t)i);
    clients[i] = client_for(model, ids[i], lengths[i], 6 + 3 * i, (uint64_t)i);
    clients[i].ends_after = i % 3 == 2 ? 5 : 0;
  }
  int shared = 0;
  for (int step = 0, arrived = 0; step == 0 || lap_batch_step(batch); step++) {
    for (; arrived < 8 && step >= arrived * gap; arrived++) submit(batch, &clients[arrived]);
    if (clients[7].tokens == 4 && clients[7].job) lap_batch_cancel(batch, clients[7].job);
    shared += lap_batch_get_stats(batch).running > 1;
    assert_true(step < 1000);
  }
  assert_true(shared > 5);
  for (int i = 0; i < 7; i++)
    expect_as_alone(model, &clients[i], path_of("%s, a request every %d steps, number %d", s->name, gap, i));
  assert_int_equal(clients[7].record.end, LAP_JOB_CANCELLED);
  assert_int_equal(clients[7].tokens, 4);
  clients[7].max_tokens = 4;
  client expected = alone(model, &clients[7]);
  assert_true(clients[7].hash == expected.hash);
  lap_batch_destroy(batch);
  for (int i = 0; i < 8; i++) free(ids[i]);
}

static void check_all_eight(const setting *s, lap_model *model) {
  check_eight(s, model, 0, (lap_batch_options){.parallel = 8});
  check_eight(s, model, 1, (lap_batch_options){.parallel = 3, .chunk = 16, .chunk_beside = 5, .threads = 3});
  check_eight(s, model, 2,
              (lap_batch_options){.parallel = 8, .chunk = 32, .chunk_beside = 9, .cache_bytes = 1 << 26});
}

static void requests_answer_in_a_batch_as_alone(void **state) {
  (void)state;
  for_all(check_all_eight);
}

static void a_long_prompt_delays_an_answer_by_no_more_than_its_budget(void **state) {
  (void)state;
  enum {
    BESIDE = 24
  };
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 128, .chunk_beside = BESIDE});
  int32_t *ids[3] = {prompt_of(model, 20, 1), prompt_of(model, 3000, 2), prompt_of(model, 30, 3)};
  client talking = client_for(model, ids[0], 20, 60, 1), reading = client_for(model, ids[1], 3000, 2, 2),
         brief = client_for(model, ids[2], 30, 5, 3);
  submit(batch, &talking);
  for (int i = 0; i < 3; i++) lap_batch_step(batch);
  assert_int_equal(talking.tokens, 3);
  submit(batch, &reading);
  while (talking.tokens < 30) {
    int before = talking.tokens;
    lap_batch_step(batch);
    assert_int_equal(talking.tokens, before + 1);
    assert_int_equal(lap_batch_get_stats(batch).last_rows, 1 + BESIDE);
  }
  submit(batch, &brief); /* nor does it keep a short one waiting: half the budget is its own */
  for (int i = 0; i < 3; i++) lap_batch_step(batch);
  assert_int_equal(brief.tokens, 1);
  assert_int_equal(talking.tokens, 33);
  finish(batch);
  expect_as_alone(model, &talking, "beside a long prompt");
  expect_as_alone(model, &reading, "the long prompt");
  expect_as_alone(model, &brief, "the short one");
  lap_batch_destroy(batch);
  lap_model_close(model);
  for (int i = 0; i < 3; i++) free(ids[i]);
}

static void a_cancelled_request_frees_its_slot_at_once(void **state) {
  (void)state;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *batch = open_batch(
      model, (lap_batch_options){.parallel = 1, .chunk = 32, .kv_bytes = 1 << 26, .cache_bytes = 1 << 26});
  int32_t *long_ids = prompt_of(model, 200, 5), *ids = prompt_of(model, 12, 6);
  client in_prompt = client_for(model, long_ids, 200, 9, 1), in_answer = client_for(model, ids, 12, 50, 2),
         waiting = client_for(model, ids, 12, 5, 3), last = client_for(model, ids, 12, 7, 4);
  submit(batch, &in_prompt);
  submit(batch, &in_answer);
  submit(batch, &waiting);
  submit(batch, &last);
  lap_batch_step(batch);
  lap_batch_step(batch);
  assert_int_equal(lap_job_get_record(in_prompt.job)->state, LAP_JOB_PROMPT);
  assert_int_equal(lap_job_get_record(in_prompt.job)->evaluated_tokens, 64);
  lap_batch_cancel(batch, in_prompt.job);
  assert_true(in_prompt.ended && in_prompt.record.end == LAP_JOB_CANCELLED && in_prompt.tokens == 0);
  assert_int_equal(lap_batch_get_stats(batch).running, 0);
  assert_int_equal(lap_batch_get_stats(batch).kv_reserved, 0);
  lap_batch_step(batch);
  assert_int_equal(in_answer.tokens, 1); /* the next one has gone at once */
  lap_batch_step(batch);
  assert_int_equal(lap_job_get_record(in_answer.job)->state, LAP_JOB_ANSWER);
  lap_batch_cancel(batch, waiting.job);
  assert_true(waiting.ended && waiting.tokens == 0);
  lap_batch_cancel(batch, in_answer.job);
  finish(batch);
  expect_as_alone(model, &last, "after the cancelled ones");
  lap_batch_stats stats = lap_batch_get_stats(batch);
  assert_int_equal(stats.ended[LAP_JOB_CANCELLED], 3);
  assert_int_equal(stats.ended[LAP_JOB_LENGTH], 1);
  /* what a cancelled one had computed is not lost */
  client again = client_for(model, long_ids, 200, 4, 9);
  run_one(batch, &again);
  assert_int_equal(again.record.cached_tokens, 64);
  expect_as_alone(model, &again, "after its own cancelled run");
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(long_ids);
  free(ids);
}

/* Pebble's or a tiny model's table of per-layer inputs gets a NaN in the row of one token. */
static char *damage_row(const char *directory, const char *tensor, int64_t row) {
  size_t bytes;
  lap_error error;
  lap_tensors *tensors;
  unsigned char *data = read_all(path_of("%s/model.safetensors", directory), &bytes);
  expect_ok(lap_tensors_open_memory(data, bytes, "tiny", &tensors, &error), &error);
  const lap_tensor *table = golden(tensors, "%s", tensor);
  size_t width = (size_t)table->shape[1] * 2; /* bf16 */
  const uint16_t nan = 0x7fc0;
  memcpy(data + (table->data - data) + (size_t)row * width, &nan, sizeof nan);
  char *damaged = make_directory();
  write_file(damaged, "model.safetensors", data, bytes);
  unsigned char *config = read_all(path_of("%s/config.json", directory), &bytes);
  write_file(damaged, "config.json", config, bytes);
  lap_tensors_close(tensors);
  free(config);
  free(data);
  return damaged;
}

static void logits_that_are_not_finite_fail_one_request_only(void **state) {
  (void)state;
  enum {
    BAD = 77
  };
  char *directory =
      damage_row(SOURCE_DIR "/models/pebble", "language_model.model.embed_tokens_per_layer.scales", BAD);
  lap_model *model = open_model(directory, LAP_KV_4);
  lap_batch *batch = open_batch(model, (lap_batch_options){.parallel = 3, .cache_bytes = 1 << 26});
  int32_t *ids[3];
  client clients[3];
  for (int i = 0; i < 3; i++) {
    ids[i] = prompt_of(model, 20, 40 + (uint64_t)i);
    for (int t = 0; t < 20; t++) ids[i][t] = ids[i][t] == BAD ? BAD + 1 : ids[i][t];
    clients[i] = client_for(model, ids[i], 20, 5, (uint64_t)i);
  }
  ids[1][10] = BAD;
  for (int i = 0; i < 3; i++) submit(batch, &clients[i]);
  finish(batch);
  assert_int_equal(clients[1].record.end, LAP_JOB_FAILED);
  assert_int_equal(clients[1].record.error.status, LAP_ERROR_NUMERIC);
  assert_non_null(strstr(clients[1].record.error.message, "not finite"));
  assert_int_equal(clients[1].tokens, 0);
  for (int i = 0; i < 3; i += 2) {
    for (int t = 0; t + 1 < clients[i].tokens; t++) assert_int_not_equal(clients[i].token[t], BAD);
    expect_as_alone(model, &clients[i], "beside one that fails");
  }
  assert_int_equal(lap_batch_get_stats(batch).cache.entries, 2); /* what failed is not kept */
  lap_batch_destroy(batch);
  lap_model_close(model);
  remove_directory(directory);
  for (int i = 0; i < 3; i++) free(ids[i]);
}

static void expect_refused(lap_batch *batch, const lap_job_request *request, const char *first,
                           const char *second) {
  lap_error error;
  lap_job *job;
  assert_int_equal(lap_batch_submit(batch, request, &job, &error), LAP_ERROR_ARGUMENT);
  assert_null(job);
  if (!strstr(error.message, first) || !strstr(error.message, second))
    fail_msg("'%s' does not say %s and %s", error.message, first, second);
  assert_int_equal(lap_batch_get_stats(batch).waiting, 0);
}

static void requests_out_of_bounds_are_refused(void **state) {
  (void)state;
  lap_error error;
  lap_batch *batch;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  const lap_batch_options wrong[] = {{.parallel = -1},     {.parallel = 1000}, {.chunk = -2},
                                     {.chunk_beside = -2}, {.context = -5},    {.context = 1 << 30},
                                     {.threads = 1 << 20}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_int_equal(lap_batch_create(model, &wrong[i], &batch, &error), LAP_ERROR_ARGUMENT);
  const lap_batch_options cut = {.path = LAP_PATH_CUT};
  assert_int_equal(lap_batch_create(model, &cut, &batch, &error), LAP_ERROR_UNSUPPORTED);

  batch = open_batch(model, (lap_batch_options){.context = 50});
  int32_t *ids = prompt_of(model, 60, 1), bad[] = {2, 512};
  client c = client_for(model, ids, 51, 3, 1);
  lap_job_request request = {
      .ids = ids, .count = 51, .max_tokens = 3, .choose = choose, .ended = ended, .context = &c};
  expect_refused(batch, &request, "51", "50");
  request.count = 0;
  expect_refused(batch, &request, "no token", "");
  request = (lap_job_request){
      .ids = bad, .count = 2, .max_tokens = 3, .choose = choose, .ended = ended, .context = &c};
  expect_refused(batch, &request, "token 1", "512");
  request = (lap_job_request){
      .ids = ids, .count = 5, .max_tokens = -3, .choose = choose, .ended = ended, .context = &c};
  expect_refused(batch, &request, "max_tokens", "-3");
  const lap_origin of_nothing[5] = {[3] = {.index = 8}};
  request = (lap_job_request){.ids = ids,
                              .count = 5,
                              .origins = of_nothing,
                              .max_tokens = 3,
                              .choose = choose,
                              .ended = ended,
                              .context = &c};
  expect_refused(batch, &request, "origin 3", "8");
  /* up to the limit a request runs, and ends there */
  client fits = client_for(model, ids, 45, 0, 2), full = client_for(model, ids, 50, 0, 3);
  run_one(batch, &fits);
  run_one(batch, &full);
  assert_int_equal(fits.record.end, LAP_JOB_LENGTH);
  assert_int_equal(fits.tokens, 6);
  assert_int_equal(full.tokens, 1);
  fits.max_tokens = 6;
  expect_as_alone(model, &fits, "up to the context limit");
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids);
}

/* ---- memory ---- */

static void requests_wait_until_their_memory_is_free(void **state) {
  (void)state;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *probe = open_batch(model, (lap_batch_options){.chunk = 32});
  int32_t *ids = prompt_of(model, 100, 1), *second_ids = prompt_of(model, 100, 3),
          *other = prompt_of(model, 10, 2);
  client measured = client_for(model, ids, 100, 20, 1);
  submit(probe, &measured);
  lap_batch_step(probe);
  size_t one = lap_batch_get_stats(probe).kv_reserved;
  assert_true(one > 0);
  size_t limit = 2 * one - 1;
  lap_batch_destroy(probe);
  assert_int_equal(measured.record.end, LAP_JOB_CANCELLED);

  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 32, .kv_bytes = limit});
  lap_job_request large = {
      .ids = ids, .count = 100, .max_tokens = 1000, .choose = choose, .ended = ended, .context = NULL};
  expect_refused(batch, &large, path_of("%zu", limit), "1000");
  client first = client_for(model, ids, 100, 20, 2), second = client_for(model, second_ids, 100, 20, 3),
         third = client_for(model, other, 10, 3, 4);
  submit(batch, &first);
  submit(batch, &second);
  submit(batch, &third); /* it would fit, but does not overtake */
  bool together = false;
  int steps = 0;
  for (lap_batch_stats stats; stats = lap_batch_get_stats(batch), stats.running + stats.waiting > 0;) {
    assert_true(stats.kv_reserved <= limit);
    assert_true(stats.kv_bytes <= stats.kv_reserved);
    if (!first.ended) assert_true(stats.running <= 1);
    if (second.job && lap_job_get_record(second.job)->state == LAP_JOB_WAITING) assert_false(third.ended);
    together |= stats.running == 2;
    lap_batch_step(batch);
    assert_true(++steps < 1000);
  }
  assert_true(together); /* the second and the third */
  expect_as_alone(model, &first, "first");
  expect_as_alone(model, &second, "second");
  expect_as_alone(model, &third, "third");
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids), free(second_ids), free(other);
}

static void the_cache_keeps_to_its_bytes_and_to_what_was_used_last(void **state) {
  (void)state;
  enum {
    PROMPTS = 12,
    LENGTH = 90
  };
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *probe = open_batch(model, (lap_batch_options){.chunk = 32, .cache_bytes = 1 << 28});
  int32_t *ids[PROMPTS];
  for (int i = 0; i < PROMPTS; i++) ids[i] = prompt_of(model, LENGTH, 200 + (uint64_t)i);
  client c = client_for(model, ids[0], LENGTH, 40, 1);
  run_one(probe, &c);
  size_t one = lap_batch_get_stats(probe).cache.bytes, limit = 3 * one + one / 2;
  lap_batch_destroy(probe);

  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 32, .cache_bytes = limit});
  for (int i = 0; i < PROMPTS; i++) {
    c = client_for(model, ids[i], LENGTH, 40, 1);
    submit(batch, &c);
    do assert_true(lap_batch_get_stats(batch).cache.bytes <= limit);
    while (!c.ended && lap_batch_step(batch));
    /* the first one is asked for again and again, and so stays */
    client first = client_for(model, ids[0], LENGTH, 40, 1);
    run_one(batch, &first);
    assert_int_equal(first.record.cached_tokens, LENGTH - 1);
    assert_true(lap_batch_get_stats(batch).cache.bytes <= limit);
  }
  lap_batch_stats stats = lap_batch_get_stats(batch);
  assert_int_equal(stats.cache.entries, 3);
  assert_true(stats.cache.evicted >= PROMPTS - 3);
  c = client_for(model, ids[1], LENGTH, 4, 1);
  run_one(batch, &c);
  assert_int_equal(c.record.cached_tokens, 1); /* forgotten, but for the BOS that all share */
  expect_as_alone(model, &c, "after eviction");
  c = client_for(model, ids[PROMPTS - 1], LENGTH, 4, 1);
  run_one(batch, &c);
  assert_true(c.record.cached_tokens >= LENGTH - 8);
  lap_batch_destroy(batch);
  lap_model_close(model);
  for (int i = 0; i < PROMPTS; i++) free(ids[i]);
}

static int64_t resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long size, resident;
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2); // NOLINT: the kernel's own numbers
  fclose(file);
  return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* probes.md J. */
static void a_thousand_requests_leave_memory_as_it_was(void **state) {
  (void)state;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.parallel = 8, .cache_bytes = 2 << 20});
  random_source source = {17};
  int64_t before = 0;
  int rounds = is_quick() ? 10 : 125;
  for (int round = 0; round < rounds; round++) {
    client clients[8];
    int32_t *ids[8];
    for (int i = 0; i < 8; i++) {
      int count = 1 + random_below(&source, 40);
      ids[i] = prompt_of(model, count, random_bits(&source));
      clients[i] = client_for(model, ids[i], count, 1 + random_below(&source, 3), (uint64_t)round);
      submit(batch, &clients[i]);
    }
    finish(batch);
    for (int i = 0; i < 8; i++) {
      assert_int_equal(clients[i].record.end, LAP_JOB_LENGTH);
      free(ids[i]);
    }
    if (round == 39) before = resident_bytes();
  }
  lap_batch_stats stats = lap_batch_get_stats(batch);
  assert_int_equal(stats.ended[LAP_JOB_LENGTH], rounds * 8);
  assert_true(stats.cache.bytes <= 2 << 20);
  assert_int_equal(stats.kv_bytes, 0);
  assert_int_equal(stats.kv_reserved, 0);
  if (!is_quick()) assert_true(resident_bytes() - before < 1 << 20);
  lap_batch_destroy(batch);
  lap_model_close(model);
}

/* ---- the prompt cache ---- */

static void expect_hit(lap_model *model, const client *c, int64_t least, const char *what) {
  expect_as_alone(model, c, what);
  if (c->record.cached_tokens < least || c->record.cached_tokens >= c->count)
    fail_msg("%s: %lld of %lld tokens came from the cache, %lld at least should", what,
             (long long)c->record.cached_tokens, (long long)c->count, (long long)least);
}

/* probes.md C; `scale` makes the prompts so many times as long, so that rings wrap. */
static void check_conversation(const setting *s, lap_model *model, int scale, lap_batch_options options) {
  char *directory = make_directory();
  options.cache_directory = directory;
  options.cache_bytes = 1 << 28;
  lap_batch *batch = open_batch(model, options);
  int64_t p = 30 * scale;
  int32_t *ids = prompt_of(model, p, 50), *two_thirds = branch_of(model, ids, 20 * scale, 15, 51),
          *tenth = branch_of(model, ids, 3 * scale, 20, 52);
  client first = client_for(model, ids, p, 5, 1),
         second = client_for(model, two_thirds, 20 * scale + 15, 6, 2),
         third = client_for(model, tenth, 3 * scale + 20, 6, 3), again = client_for(model, ids, p, 12, 4);
  run_one(batch, &first);
  expect_as_alone(model, &first, s->name);
  assert_int_equal(first.record.cached_tokens, 0);
  run_one(batch, &second);
  expect_as_alone(model, &second, path_of("%s, x%d: two thirds of the prompt, and others", s->name, scale));
  run_one(batch, &third);
  expect_as_alone(model, &third, path_of("%s, x%d: a tenth of the prompt, and others", s->name, scale));
  run_one(batch, &again);
  expect_hit(model, &again, p - 1, path_of("%s, x%d: the prompt again", s->name, scale));
  /* branches that were found once are found again, wrapped rings or not */
  int32_t *fourth_ids = branch_of(model, ids, 20 * scale, 9, 53);
  client fourth = client_for(model, fourth_ids, 20 * scale + 9, 5, 5);
  run_one(batch, &fourth);
  expect_hit(model, &fourth, 20 * scale, path_of("%s, x%d: a branch found before", s->name, scale));
  /* the conversation goes on */
  int64_t said;
  int32_t *so_far = conversation_of(&again, &said), *next = branch_of(model, so_far, said, 10, 54);
  client turn = client_for(model, next, said + 10, 5, 6);
  run_one(batch, &turn);
  expect_hit(model, &turn, said, path_of("%s, x%d: the next turn", s->name, scale));
  lap_batch_destroy(batch);

  /* a new process: the turn after, an answer that comes back spelled differently, and an old branch */
  batch = open_batch(model, options);
  assert_true(lap_batch_get_stats(batch).cache.store.files >= 3);
  assert_int_equal(lap_batch_get_stats(batch).cache.entries, 0);
  int64_t said_more;
  int32_t *more = conversation_of(&turn, &said_more), *after = branch_of(model, more, said_more, 7, 55);
  client restored = client_for(model, after, said_more + 7, 5, 7);
  run_one(batch, &restored);
  expect_hit(model, &restored, said_more, path_of("%s, x%d: restored", s->name, scale));
  int32_t *respelled_ids = branch_of(model, next, said + 10, 12, 56);
  client respelled = client_for(model, respelled_ids, said + 22, 5, 8);
  run_one(batch, &respelled);
  expect_hit(model, &respelled, said + 10, path_of("%s, x%d: another spelling", s->name, scale));
  client old = client_for(model, fourth_ids, 20 * scale + 9, 8, 9);
  run_one(batch, &old);
  expect_hit(model, &old, 20 * scale, path_of("%s, x%d: an old branch restored", s->name, scale));
  assert_true(lap_batch_get_stats(batch).cache.loaded >= 1);
  lap_batch_destroy(batch);
  free(ids), free(two_thirds), free(tenth), free(fourth_ids), free(so_far), free(next), free(more),
      free(after), free(respelled_ids);
  remove_directory(directory);
}

static void check_conversations(const setting *s, lap_model *model) {
  check_conversation(s, model, 1, (lap_batch_options){.chunk = 7});
  check_conversation(s, model, 10, (lap_batch_options){.chunk = 16});
  if (!is_quick()) check_conversation(s, model, 5, (lap_batch_options){.chunk = 512});
}

static void a_hit_gives_the_bits_of_a_cold_run(void **state) {
  (void)state;
  for_all(check_conversations);
}

static void two_conversations_with_one_beginning_both_keep_theirs(void **state) {
  (void)state;
  enum {
    SYSTEM = 300,
    TURN = 40
  };
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG); /* windows of 16 */
  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 32, .cache_bytes = 1 << 28});
  int32_t *system = prompt_of(model, SYSTEM, 1);
  int32_t *ids[3];
  int64_t count[3];
  client clients[3];
  for (int i = 0; i < 3; i++) {
    ids[i] = branch_of(model, system, SYSTEM, TURN, 60 + (uint64_t)i);
    count[i] = SYSTEM + TURN;
  }
  for (int turn = 0; turn < 3; turn++)
    for (int i = 0; i < 3; i++) {
      clients[i] = client_for(model, ids[i], count[i], 20, (uint64_t)(10 * turn + i));
      run_one(batch, &clients[i]);
      /* The second one finds where it parts from the first; the third profits. Later turns lose nothing. */
      int64_t least = turn ? count[i] - TURN : i == 2 ? SYSTEM : 0;
      expect_hit(model, &clients[i], least, path_of("conversation %d, turn %d", i, turn));
      int64_t said;
      int32_t *so_far = conversation_of(&clients[i], &said);
      free(ids[i]);
      ids[i] = branch_of(model, so_far, said, TURN, 70 + (uint64_t)(10 * turn + i));
      count[i] = said + TURN;
      free(so_far);
    }
  lap_prompt_cache_stats stats = lap_batch_get_stats(batch).cache;
  assert_int_equal(stats.entries, 3);
  assert_true(stats.moved >= 6 && stats.copied >= 1);
  for (int i = 0; i < 3; i++) free(ids[i]);
  free(system);
  lap_batch_destroy(batch);
  lap_model_close(model);
}

/* The template drops thoughts: the next prompt parts from the sequence where the answer began, long ago. */
static void the_end_of_a_prompt_is_found_again_after_a_long_answer(void **state) {
  (void)state;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 8, .cache_bytes = 1 << 28});
  int32_t *ids = prompt_of(model, 100, 1), *next = branch_of(model, ids, 100, 20, 2);
  client first = client_for(model, ids, 100, 60, 1), second = client_for(model, next, 120, 5, 2);
  run_one(batch, &first);
  run_one(batch, &second);
  expect_hit(model, &second, 100, "the end of the prompt before");
  assert_true(lap_batch_get_stats(batch).cache.bytes > 0);
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids);
  free(next);
}

static void equal_prompts_at_once_are_read_once(void **state) {
  (void)state;
  enum {
    COUNT = 150
  };
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 32, .cache_bytes = 1 << 28});
  int32_t *ids = prompt_of(model, COUNT, 1), *branch = branch_of(model, ids, 100, 30, 2);
  client clients[4];
  for (int i = 0; i < 4; i++) {
    clients[i] = client_for(model, i == 3 ? branch : ids, i == 3 ? 130 : COUNT, 8, (uint64_t)i);
    submit(batch, &clients[i]);
  }
  finish(batch);
  for (int i = 0; i < 4; i++) expect_as_alone(model, &clients[i], path_of("of equal ones number %d", i));
  assert_int_equal(lap_batch_get_stats(batch).prompt_tokens, COUNT + 1 + 1 + 30);
  /* and the one that is read may leave: those that wait for it go on */
  int32_t *other = prompt_of(model, COUNT, 9);
  client reader = client_for(model, other, COUNT, 8, 1), follower = client_for(model, other, COUNT, 8, 2);
  submit(batch, &reader);
  submit(batch, &follower);
  lap_batch_step(batch);
  lap_batch_step(batch);
  assert_int_equal(lap_job_get_record(follower.job)->state, LAP_JOB_WAITING);
  lap_batch_cancel(batch, reader.job);
  finish(batch);
  expect_hit(model, &follower, 64, "after its reader left");
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids), free(branch), free(other);
}

/* ---- keys: equal ids are not the same beginning ---- */

enum {
  KEYED = 100, /* within Pebble's window: a sequence goes back to any length */
  PICTURE = 60,
  PICTURE_ROWS = 30,
  NO_ORIGINS = 5,
  WAYS = 6
};

/* One prompt, six ways: with a picture in it, with another picture, with the same a row further on, with an
 * adapter from the picture's first row on, with an adapter from the start, and with ids alone. */
static void make_ways(lap_origin ways[WAYS][KEYED]) {
  memset(ways, 0, WAYS * sizeof *ways);
  for (int i = PICTURE; i < PICTURE + PICTURE_ROWS; i++) {
    for (int way = 0; way < NO_ORIGINS; way++) {
      ways[way][i].content[15] = way == 1 ? 8 : 9;
      ways[way][i].index = i - PICTURE + (way == 2);
    }
  }
  for (int i = 0; i < KEYED; i++) {
    if (i >= PICTURE) ways[3][i].adapters = 77;
    ways[4][i].adapters = 77;
  }
}

/* How many positions two of them have in common. */
static int64_t common_of(int a, int b) {
  return a == b ? KEYED : a == 4 || b == 4 ? 0 : PICTURE;
}

static client way_client(lap_model *model, const int32_t *ids, lap_origin ways[WAYS][KEYED], int way) {
  client c = client_for(model, ids, KEYED, 4, 7);
  if (way != NO_ORIGINS) c.origins = ways[way];
  return c;
}

static void expect_cached(const client *c, int64_t expected, const char *what) {
  if (c->record.cached_tokens != expected)
    fail_msg("%s: %lld tokens came from the cache, %lld are the same", what,
             (long long)c->record.cached_tokens, (long long)expected);
}

/* Each way meets the ones before it, then itself: all but the last token. */
static void run_all_ways(lap_model *model, lap_batch *batch, const int32_t *ids,
                         lap_origin ways[WAYS][KEYED]) {
  for (int way = 0; way < WAYS; way++) {
    client c = way_client(model, ids, ways, way);
    int64_t expected = 0;
    for (int before = 0; before < way; before++)
      if (common_of(way, before) > expected) expected = common_of(way, before);
    run_one(batch, &c);
    expect_cached(&c, expected, path_of("way %d", way));
    client again = way_client(model, ids, ways, way);
    run_one(batch, &again);
    expect_cached(&again, KEYED - 1, path_of("way %d again", way));
  }
}

static void equal_ids_of_other_origin_share_nothing_in_memory(void **state) {
  (void)state;
  static lap_origin ways[WAYS][KEYED];
  lap_model *model = open_model(SOURCE_DIR "/models/pebble", LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.cache_bytes = 1 << 28});
  int32_t *ids = prompt_of(model, KEYED, 1);
  make_ways(ways);
  run_all_ways(model, batch, ids, ways);
  assert_int_equal(lap_batch_get_stats(batch).cache.entries, WAYS);
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids);
}

/* Nothing is kept: what there is to copy from is a request that is still answering, or still being read. */
static void equal_ids_of_other_origin_share_nothing_with_a_running_request(void **state) {
  (void)state;
  static lap_origin ways[WAYS][KEYED];
  lap_model *model = open_model(SOURCE_DIR "/models/pebble", LAP_KV_CONFIG);
  int32_t *ids = prompt_of(model, KEYED, 1);
  make_ways(ways);
  for (int running = 0; running < WAYS; running++)
    for (int way = 0; way < WAYS; way++)
      for (int late = 0; late < 2; late++) {
        lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 40});
        client first = way_client(model, ids, ways, running), second = way_client(model, ids, ways, way);
        first.max_tokens = 20;
        submit(batch, &first);
        for (int step = 0; step < (late ? 6 : 1); step++) lap_batch_step(batch);
        submit(batch, &second);
        finish(batch);
        int64_t common = common_of(running, way);
        expect_cached(&second, common < KEYED ? common : KEYED - 1,
                      path_of("way %d beside way %d, late %d", way, running, late));
        lap_batch_destroy(batch);
      }
  lap_model_close(model);
  free(ids);
}

static void equal_ids_of_other_origin_share_nothing_in_the_directory(void **state) {
  (void)state;
  static lap_origin ways[WAYS][KEYED];
  lap_model *model = open_model(SOURCE_DIR "/models/pebble", LAP_KV_CONFIG);
  char *directory = make_directory();
  const lap_batch_options options = {.cache_directory = directory};
  int32_t *ids = prompt_of(model, KEYED, 1);
  make_ways(ways);
  for (int way = 0; way < WAYS; way++) { /* each in a process of its own, so to speak */
    char *alone_directory = make_directory();
    lap_batch *writer =
        open_batch(model, (lap_batch_options){.cache_directory = alone_directory, .cache_bytes = 1 << 28});
    client c = way_client(model, ids, ways, way);
    run_one(writer, &c);
    lap_batch_destroy(writer);
    for (int other = 0; other < WAYS; other++) {
      lap_batch *reader = open_batch(model, (lap_batch_options){.cache_directory = alone_directory});
      client met = way_client(model, ids, ways, other);
      run_one(reader, &met);
      int64_t common = common_of(way, other);
      expect_cached(&met, common < KEYED ? common : KEYED - 1, path_of("way %d, from way %d", other, way));
      lap_batch_destroy(reader);
    }
    remove_directory(alone_directory);
  }
  /* all in one directory: a file for each, and each is found again */
  lap_batch *batch =
      open_batch(model, (lap_batch_options){.cache_directory = directory, .cache_bytes = 1 << 28});
  run_all_ways(model, batch, ids, ways);
  lap_batch_destroy(batch);
  batch = open_batch(model, options);
  assert_int_equal(lap_batch_get_stats(batch).cache.store.files, WAYS);
  for (int way = 0; way < WAYS; way++) {
    client c = way_client(model, ids, ways, way);
    run_one(batch, &c);
    expect_cached(&c, KEYED - 1, path_of("way %d, from the directory of all", way));
  }
  lap_batch_destroy(batch);
  remove_directory(directory);
  lap_model_close(model);
  free(ids);
}

/* The answer's own keys and values are the adapter's too. */
static void an_answer_has_the_adapters_of_its_prompt(void **state) {
  (void)state;
  static lap_origin ways[WAYS][KEYED], all[2 * KEYED], prompt_only[2 * KEYED];
  lap_model *model = open_model(SOURCE_DIR "/models/pebble", LAP_KV_CONFIG);
  lap_batch *batch = open_batch(model, (lap_batch_options){.cache_bytes = 1 << 28});
  int32_t *ids = prompt_of(model, KEYED, 1);
  make_ways(ways);
  client first = way_client(model, ids, ways, 4);
  run_one(batch, &first);
  int64_t said;
  int32_t *so_far = conversation_of(&first, &said), *next = branch_of(model, so_far, said, 5, 2);
  memcpy(all, ways[4], sizeof ways[4]);
  memcpy(prompt_only, ways[4], sizeof ways[4]);
  for (int64_t i = KEYED; i < said + 5; i++) all[i].adapters = 77;
  client other = client_for(model, next, said + 5, 3, 1), same = other;
  other.origins = prompt_only;
  same.origins = all;
  run_one(batch, &same);
  expect_cached(&same, said, "the same adapter");
  run_one(batch, &other);
  expect_cached(&other, KEYED, "the adapter is gone after the prompt");
  lap_batch_destroy(batch);
  lap_model_close(model);
  free(ids), free(so_far), free(next);
}

/* ---- the directory ---- */

static int list_files(const char *directory, char names[][256], int most) {
  int count = 0;
  DIR *listed = opendir(directory);
  assert_non_null(listed);
  for (const struct dirent *entry; (entry = readdir(listed)) && count < most;)
    if (entry->d_name[0] != '.') strcpy(names[count++], entry->d_name);
  closedir(listed);
  return count;
}

/* Runs one prompt in a batch of its own that keeps its sequence in `directory`. */
static client run_stored(lap_model *model, const char *directory, const int32_t *ids, int64_t count,
                         uint64_t directory_bytes, lap_store_stats *before) {
  lap_batch *batch = open_batch(model, (lap_batch_options){.chunk = 32,
                                                           .cache_bytes = 1 << 28,
                                                           .cache_directory = directory,
                                                           .directory_bytes = directory_bytes});
  if (before) *before = lap_batch_get_stats(batch).cache.store;
  client c = client_for(model, ids, count, 5, 1);
  run_one(batch, &c);
  expect_as_alone(model, &c, "with a directory");
  for (int written = 0; lap_batch_step(batch);) assert_true(++written <= 2); /* when there is nothing to do */
  lap_batch_destroy(batch);
  return c;
}

static void damaged_and_foreign_files_are_counted_and_ignored(void **state) {
  (void)state;
  lap_store_stats stats;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_8), *other = open_model(TINY("e2-tiny"), LAP_KV_4);
  char *directory = make_directory(), names[8][256];
  int32_t *ids = prompt_of(model, 80, 1);
  run_stored(model, directory, ids, 80, 0, NULL);
  assert_int_equal(list_files(directory, names, 8), 1);
  const char *path = path_of("%s/%s", directory, names[0]);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 077, 0); /* prompts are nobody else's business */
  size_t bytes;
  unsigned char *data = read_all(path, &bytes);

  write_file(directory, "lapidary-0.kv", "not a snapshot", 14);
  write_file(directory, "somebody.else", "x", 1);
  data[bytes - 100] ^= 4; /* in the keys and values: seen only when it is read */
  write_file(directory, names[0], data, bytes);
  client c = run_stored(model, directory, ids, 80, 0, &stats);
  assert_int_equal(stats.files, 1);
  assert_int_equal(stats.damaged, 1);
  assert_int_equal(stats.last.status, LAP_ERROR_FORMAT);
  assert_int_equal(c.record.cached_tokens, 0); /* not half of it: nothing */
  c = run_stored(model, directory, ids, 80, 0, NULL);
  assert_int_equal(c.record.cached_tokens, 79); /* the run in between has written it anew */

  data[8] = 1; /* the format's version: nothing is wrong with such a file */
  write_file(directory, "lapidary-1.kv", data, bytes);
  data[8] = LAP_SNAPSHOT_VERSION;
  c = run_stored(other, directory, ids, 80, 0, &stats);
  assert_int_equal(c.record.cached_tokens, 0);
  assert_int_equal(stats.foreign, 2); /* of another KV setting, of another version */
  assert_int_equal(stats.damaged, 1);
  assert_int_equal(stats.files, 0);
  c = run_stored(other, directory, ids, 80, 0, NULL);
  assert_int_equal(c.record.cached_tokens, 79);
  c = run_stored(model, directory, ids, 80, 0, NULL);
  assert_int_equal(c.record.cached_tokens, 79);
  assert_int_equal(access(path_of("%s/somebody.else", directory), F_OK), 0);
  assert_int_equal(access(path_of("%s/lapidary-1.kv", directory), F_OK), 0);

  for (size_t cut = 0; cut < bytes; cut += bytes / 17) { /* heads of every length */
    write_file(directory, names[0], data, cut);
    run_stored(model, directory, ids, 80, 0, &stats);
    assert_int_equal(stats.damaged, 2);
  }
  lap_error error;
  lap_batch *batch;
  const lap_batch_options nowhere = {.cache_directory = path_of("%s/no/such", directory)};
  assert_int_equal(lap_batch_create(model, &nowhere, &batch, &error), LAP_ERROR_IO);
  assert_non_null(strstr(error.message, "no/such"));
  free(data);
  free(ids);
  remove_directory(directory);
  lap_model_close(model);
  lap_model_close(other);
}

static void the_directory_keeps_to_its_bytes_and_to_what_was_used_last(void **state) {
  (void)state;
  enum {
    PROMPTS = 6,
    LENGTH = 80
  };
  lap_store_stats stats;
  lap_model *model = open_model(TINY("e2-tiny"), LAP_KV_CONFIG);
  char *directory = make_directory(), names[16][256];
  int32_t *ids[PROMPTS];
  for (int i = 0; i < PROMPTS; i++) ids[i] = prompt_of(model, LENGTH, 300 + (uint64_t)i);
  run_stored(model, directory, ids[0], LENGTH, 0, NULL);
  list_files(directory, names, 16);
  struct stat info;
  assert_int_equal(stat(path_of("%s/%s", directory, names[0]), &info), 0);
  uint64_t limit = 3 * (uint64_t)info.st_size + 100;
  for (int i = 1; i < PROMPTS; i++) {
    run_stored(model, directory, ids[i], LENGTH, limit, &stats);
    assert_true(stats.bytes <= limit);
    client first = run_stored(model, directory, ids[0], LENGTH, limit, &stats);
    assert_int_equal(first.record.cached_tokens, LENGTH - 1);
    assert_true(list_files(directory, names, 16) <= 3);
  }
  client gone = run_stored(model, directory, ids[1], LENGTH, limit, NULL);
  assert_int_equal(gone.record.cached_tokens, 0); /* a file is not read for a BOS */
  /* a longer conversation takes the place of its beginning */
  int64_t said;
  int32_t *so_far = conversation_of(&gone, &said), *next = branch_of(model, so_far, said, 20, 1);
  run_stored(model, directory, next, said + 20, limit, &stats);
  int64_t files = stats.files;
  client again = run_stored(model, directory, ids[1], LENGTH, limit, &stats);
  assert_true(stats.files <= files);
  assert_int_equal(again.record.cached_tokens, LENGTH - 1);
  free(so_far), free(next);
  for (int i = 0; i < PROMPTS; i++) free(ids[i]);
  remove_directory(directory);
  lap_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_answer_in_a_batch_as_alone),
      cmocka_unit_test(a_long_prompt_delays_an_answer_by_no_more_than_its_budget),
      cmocka_unit_test(a_cancelled_request_frees_its_slot_at_once),
      cmocka_unit_test(logits_that_are_not_finite_fail_one_request_only),
      cmocka_unit_test(requests_out_of_bounds_are_refused),
      cmocka_unit_test(requests_wait_until_their_memory_is_free),
      cmocka_unit_test(the_cache_keeps_to_its_bytes_and_to_what_was_used_last),
      cmocka_unit_test(a_thousand_requests_leave_memory_as_it_was),
      cmocka_unit_test(a_hit_gives_the_bits_of_a_cold_run),
      cmocka_unit_test(two_conversations_with_one_beginning_both_keep_theirs),
      cmocka_unit_test(the_end_of_a_prompt_is_found_again_after_a_long_answer),
      cmocka_unit_test(equal_prompts_at_once_are_read_once),
      cmocka_unit_test(equal_ids_of_other_origin_share_nothing_in_memory),
      cmocka_unit_test(equal_ids_of_other_origin_share_nothing_with_a_running_request),
      cmocka_unit_test(equal_ids_of_other_origin_share_nothing_in_the_directory),
      cmocka_unit_test(an_answer_has_the_adapters_of_its_prompt),
      cmocka_unit_test(damaged_and_foreign_files_are_counted_and_ignored),
      cmocka_unit_test(the_directory_keeps_to_its_bytes_and_to_what_was_used_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
