/* test_generate.c: generation with Pebble: what ends it, what of the text is shown and when. */
#include "support/check.h"
/* after the headers that cmocka wants before it */
#include <math.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/session.h"
#include "engine/speaker.h"
#include "model/model.h"
#include "support/checkpoint_writer.h"

#define PEBBLE SOURCE_DIR "/models/pebble"
#define EXAM   SOURCE_DIR "/tests/data/exam.json"
#define BROKEN "\xef\xbf\xbd"

enum {
  STORY_TOKENS = 60,
  MOST_TEXT = 65536,
  EXAM_STEP = 8
};

static const char story_prompt[] = "Once there was";
static const char chat_prompt[] = "<|turn>user\nWhat is 74 - 8?<turn|>\n<|turn>model\n";

static lap_model *pebble;
static const lap_tokenizer *pebble_tokenizer;
static const lap_sampling greedy = {.top_p = 1, .repeat_penalty = 1};

/* ---- helpers --------------------------------------------------------------------------------- */

/* What was shown, and when to end. */
typedef struct collected {
  char text[MOST_TEXT];
  size_t length;
  int pieces; /* that were not empty */
  int calls;
  int end_after_calls; /* 0 = never */
} collected;

static bool is_utf8(const char *text, size_t length) {
  for (size_t i = 0; i < length;) {
    unsigned char c = (unsigned char)text[i];
    size_t n = c < 0x80                ? 1
               : c >= 0xc2 && c < 0xe0 ? 2
               : c >= 0xe0 && c < 0xf0 ? 3
               : c >= 0xf0 && c < 0xf5 ? 4
                                       : 0;
    if (n == 0 || i + n > length) return false;
    for (size_t k = 1; k < n; k++)
      if (((unsigned char)text[i + k] & 0xc0) != 0x80) return false;
    i += n;
  }
  return true;
}

static bool collect(void *context, const char *text, size_t length) {
  collected *to = context;
  assert_true(to->length + length < MOST_TEXT);
  assert_true(is_utf8(text, length));
  assert_int_equal(text[length], 0);
  memcpy(to->text + to->length, text, length);
  to->length += length;
  to->text[to->length] = '\0';
  to->pieces += length > 0;
  return ++to->calls != to->end_after_calls;
}

/* NULL: one thread, which is the fastest for so small a model on a busy machine. */
static lap_session *start(lap_model *model, const lap_session_options *options) {
  static const lap_session_options one_thread = {.threads = 1};
  if (!options) options = &one_thread;
  lap_error error = {0};
  lap_session *session;
  if (lap_session_create(model, options, &session, &error) != LAP_OK) fail_msg("%s", error.message);
  return session;
}

static int32_t *encode(lap_model *model, const char *text, size_t *count) {
  lap_error error = {0};
  int32_t *ids;
  if (lap_model_encode(model, text, strlen(text), &ids, count, &error) != LAP_OK)
    fail_msg("%s", error.message);
  return ids;
}

static lap_generate_result generate_in(lap_session *session, const lap_sampling *sampling, const char *prompt,
                                       lap_generate_options how, collected *to) {
  lap_error error = {0};
  lap_generate_result result;
  lap_sampler *sampler;
  size_t count;
  int32_t *ids = encode(session->model, prompt, &count);
  if (lap_sampler_create(session->model, sampling, &sampler, &error) != LAP_OK) fail_msg("%s", error.message);
  how.text = collect;
  how.context = to;
  if (lap_generate(session, sampler, ids, (int64_t)count, &how, &result, &error) != LAP_OK)
    fail_msg("%s", error.message);
  assert_int_equal(result.prompt_tokens, count);
  lap_sampler_destroy(sampler);
  free(ids);
  return result;
}

/* In a session of its own, greedy. */
static lap_generate_result generate_greedy(const char *prompt, lap_generate_options how, collected *to) {
  memset(to, 0, sizeof *to);
  lap_session *session = start(pebble, NULL);
  lap_generate_result result = generate_in(session, &greedy, prompt, how, to);
  lap_session_destroy(session);
  return result;
}

static collected story, got;

static int open_pebble(void **state) {
  (void)state;
  lap_error error = {0};
  if (lap_model_open(PEBBLE, NULL, &pebble, &error) != LAP_OK ||
      lap_model_tokenizer(pebble, &pebble_tokenizer, &error) != LAP_OK) {
    fprintf(stderr, "%s\n", error.message);
    return -1;
  }
  generate_greedy(story_prompt, (lap_generate_options){.max_tokens = STORY_TOKENS}, &story);
  return 0;
}

static int close_pebble(void **state) {
  (void)state;
  lap_model_close(pebble);
  return 0;
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static void a_prompt_has_one_bos_that_a_message_cannot_write(void **state) {
  (void)state;
  lap_error error = {0};
  static const char text[] = "<bos><bos>x";
  int32_t *ids, *spelled;
  size_t count, spelled_count;
  assert_int_equal(
      lap_tokenizer_encode(pebble_tokenizer, text + 5, 6, false, &spelled, &spelled_count, &error), LAP_OK);
  /* The template's own <bos>, a message that spells another. */
  assert_int_equal(
      lap_model_encode_marked(pebble, text, 11, (const lap_range[]){{0, 5}}, 1, &ids, &count, &error),
      LAP_OK);
  assert_int_equal(count, 1 + spelled_count);
  assert_int_equal(ids[0], lap_model_bos(pebble));
  assert_memory_equal(ids + 1, spelled, spelled_count * sizeof *spelled);
  free(ids);
  /* The message alone. */
  assert_int_equal(lap_model_encode_marked(pebble, text + 5, 6, NULL, 0, &ids, &count, &error), LAP_OK);
  assert_int_equal(count, 1 + spelled_count);
  assert_int_equal(ids[0], lap_model_bos(pebble));
  assert_memory_equal(ids + 1, spelled, spelled_count * sizeof *spelled);
  free(ids), free(spelled);
  assert_int_equal(
      lap_model_encode_marked(pebble, text, 11, (const lap_range[]){{0, 12}}, 1, &ids, &count, &error),
      LAP_ERROR_ARGUMENT);
}

/* ---- what ends it ---------------------------------------------------------------------------- */

static void max_tokens_ends_it(void **state) {
  (void)state;
  for (int n = 1; n <= 3; n++) {
    lap_generate_result result = generate_greedy(story_prompt, (lap_generate_options){.max_tokens = n}, &got);
    assert_int_equal(result.finish, LAP_FINISH_LENGTH);
    assert_int_equal(result.generated_tokens, n);
    assert_memory_equal(got.text, story.text, got.length);
    assert_true(got.length > 0 && got.length < story.length);
  }
}

static void the_session_holds_all_but_the_last_token(void **state) {
  (void)state;
  memset(&got, 0, sizeof got);
  lap_session *session = start(pebble, NULL);
  lap_generate_result result =
      generate_in(session, &greedy, story_prompt, (lap_generate_options){.max_tokens = 5}, &got);
  int64_t held;
  lap_session_tokens(session, &held);
  assert_int_equal(held, result.prompt_tokens + 4);
  lap_session_destroy(session);
}

static void the_end_token_ends_it_and_is_not_shown(void **state) {
  (void)state;
  lap_generate_result result =
      generate_greedy(chat_prompt, (lap_generate_options){.show_special = true}, &got);
  assert_int_equal(result.finish, LAP_FINISH_EOS);
  assert_int_equal(result.generated_tokens, 3);
  assert_string_equal(got.text, "66");
}

static void ignore_eos_goes_on(void **state) {
  (void)state;
  lap_generate_options how = {.max_tokens = 10, .ignore_eos = true, .show_special = true};
  lap_generate_result result = generate_greedy(chat_prompt, how, &got);
  assert_int_equal(result.finish, LAP_FINISH_LENGTH);
  assert_int_equal(result.generated_tokens, 10);
  assert_int_equal(strncmp(got.text, "66<turn|>", 9), 0);
  how.show_special = false;
  generate_greedy(chat_prompt, how, &got);
  assert_null(strstr(got.text, "<turn|>"));
  assert_true(got.calls > got.pieces); /* tokens without text let the caller end, too */
}

static void the_callback_ends_it(void **state) {
  (void)state;
  memset(&got, 0, sizeof got);
  got.end_after_calls = 3;
  lap_session *session = start(pebble, NULL);
  lap_generate_result result = generate_in(session, &greedy, story_prompt, (lap_generate_options){0}, &got);
  assert_int_equal(result.finish, LAP_FINISH_CALLER);
  assert_int_equal(result.generated_tokens, 3);
  assert_int_equal(got.calls, 3);
  lap_session_destroy(session);
}

static void the_context_ends_it(void **state) {
  (void)state;
  int32_t context = pebble->plan->max_position_embeddings;
  pebble->plan->max_position_embeddings = 10;
  lap_generate_result result = generate_greedy(story_prompt, (lap_generate_options){0}, &got);
  pebble->plan->max_position_embeddings = context;
  assert_int_equal(result.finish, LAP_FINISH_LENGTH);
  /* The last token needs no room. */
  assert_int_equal(result.prompt_tokens + result.generated_tokens, 10 + 1);
  assert_memory_equal(got.text, story.text, got.length);
}

static bool end_at_once(void *context, int64_t done, int64_t total) {
  (void)context;
  (void)done;
  (void)total;
  return false;
}

static void the_progress_callback_ends_the_prompt(void **state) {
  (void)state;
  const lap_session_options options = {.threads = 1, .chunk = 2};
  lap_session *session = start(pebble, &options);
  lap_error error = {0};
  lap_generate_result result;
  lap_sampler *sampler;
  size_t count;
  int32_t *ids = encode(pebble, story_prompt, &count);
  assert_int_equal(lap_sampler_create(pebble, &greedy, &sampler, &error), LAP_OK);
  lap_session_set_progress(session, end_at_once, NULL);
  assert_int_equal(lap_generate(session, sampler, ids, (int64_t)count, NULL, &result, &error),
                   LAP_ERROR_STATE);
  int64_t held;
  lap_session_tokens(session, &held);
  assert_int_equal(held, 2);
  assert_int_equal(result.generated_tokens, 0);
  lap_sampler_destroy(sampler);
  free(ids);
  lap_session_destroy(session);
}

static void check_options_refused(lap_generate_options how, const char *field) {
  lap_session *session = start(pebble, NULL);
  lap_error error = {0};
  lap_generate_result result;
  lap_sampler *sampler;
  static const int32_t ids[] = {2};
  assert_int_equal(lap_sampler_create(pebble, &greedy, &sampler, &error), LAP_OK);
  assert_int_equal(lap_generate(session, sampler, ids, 1, &how, &result, &error), LAP_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, field, strlen(field)), 0);
  int64_t held;
  lap_session_tokens(session, &held);
  assert_int_equal(held, 0);
  lap_sampler_destroy(sampler);
  lap_session_destroy(session);
}

static void options_out_of_range_are_refused_by_name(void **state) {
  (void)state;
  static const char *const stops[] = {"a", ""};
  check_options_refused((lap_generate_options){.max_tokens = -1}, "max_tokens");
  check_options_refused((lap_generate_options){.stop = stops, .stop_count = 2}, "stop");
  check_options_refused((lap_generate_options){.stop_count = 1}, "stop");
}

/* ---- end tokens and suppressed ones ---------------------------------------------------------- */

/* Pebble with these end tokens in config.json ("" or a member with a comma) and this generation_config.json.
 */
static lap_model *open_variant(const char *eos_member, const char *defaults, char **directory) {
  static const char *const shared[] = {"model.safetensors", "tokenizer.json"};
  size_t bytes;
  unsigned char *file = read_all(PEBBLE "/config.json", &bytes);
  char *config = strndup((char *)file, bytes);
  assert_non_null(config);
  char *text = replaced(config, "\"eos_token_id\": 1,", "");
  char *whole = replaced(text, "\"eos_token_id\": [\n  1,\n  6\n ],", eos_member);
  *directory = make_directory();
  write_file(*directory, "config.json", whole, strlen(whole));
  write_file(*directory, "generation_config.json", defaults, strlen(defaults));
  for (int i = 0; i < 2; i++)
    assert_int_equal(symlink(path_of(PEBBLE "/%s", shared[i]), path_of("%s/%s", *directory, shared[i])), 0);
  free(file), free(config), free(text), free(whole);
  lap_error error;
  lap_model *model;
  expect_ok(lap_model_open(*directory, NULL, &model, &error), &error);
  return model;
}

/* Three tokens, of which `id` has by far the largest logit. */
static lap_generate_result generate_biased(lap_model *model, int32_t id, float temperature, int32_t *said) {
  const lap_logit_bias bias = {id, 100};
  lap_sampling sampling = greedy;
  sampling.temperature = temperature;
  sampling.logit_bias = &bias;
  sampling.logit_bias_count = 1;
  memset(&got, 0, sizeof got);
  lap_session *session = start(model, NULL);
  lap_generate_result result =
      generate_in(session, &sampling, "Once", (lap_generate_options){.max_tokens = 3}, &got);
  int64_t count;
  const int32_t *tokens = lap_session_tokens(session, &count);
  for (int i = 0; i < 2 && i < result.generated_tokens - 1; i++)
    said[i] = tokens[count - result.generated_tokens + 1 + i];
  said[result.generated_tokens - 1] = result.last_token;
  lap_session_destroy(session);
  return result;
}

static void every_end_token_of_the_checkpoint_ends_it_and_no_other(void **state) {
  (void)state;
  static const int32_t ids[] = {50, 106, 1, 212};
  static const struct {
    const char *config, *generation;
    bool ends[4];
  } cases[] = {
      {"\"eos_token_id\": 106,", "{}", {false, true, false, false}},
      {"\"eos_token_id\": [1, 106],", "{\"eos_token_id\": [1, 106, 50]}", {true, true, true, false}},
      {"", "{\"eos_token_id\": 50}", {true, false, false, false}},
      {"", "{\"eos_token_id\": [106, 1]}", {false, true, true, false}},
      {"", "{}", {false, false, false, false}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *directory;
    lap_model *model = open_variant(cases[i].config, cases[i].generation, &directory);
    for (int k = 0; k < 4; k++) {
      int32_t said[3];
      lap_generate_result result = generate_biased(model, ids[k], 0, said);
      assert_int_equal(result.finish, cases[i].ends[k] ? LAP_FINISH_EOS : LAP_FINISH_LENGTH);
      assert_int_equal(result.generated_tokens, cases[i].ends[k] ? 1 : 3);
      assert_int_equal(said[0], ids[k]);
    }
    lap_model_close(model);
    remove_directory(directory);
  }
}

static void suppressed_tokens_are_never_said(void **state) {
  (void)state;
  char *directory;
  lap_error error;
  lap_model *model = open_variant("", "{\"suppress_tokens\": [50, 212]}", &directory);
  for (int32_t id = 50; id <= 212; id += 162)
    for (int temperature = 0; temperature < 2; temperature++) {
      int32_t said[3];
      lap_generate_result result = generate_biased(model, id, (float)temperature, said);
      assert_int_equal(result.generated_tokens, 3);
      for (int i = 0; i < 3; i++) assert_int_not_equal(said[i], id);
    }
  float *logits = malloc((size_t)lap_model_vocab_size(model) * sizeof *logits), logprob;
  assert_non_null(logits);
  lap_session *session = start(model, NULL);
  lap_sampler *sampler;
  lap_logprob top[LAP_MAX_TOP_LOGPROBS];
  int32_t found;
  expect_ok(lap_session_eval(session, (const int32_t[]){2, 315}, 2, 1, logits, &error), &error);
  expect_ok(lap_sampler_create(model, &greedy, &sampler, &error), &error);
  expect_ok(lap_sampler_logprobs(sampler, logits, 50, &logprob, top, 20, &found, &error), &error);
  assert_true(logprob == -INFINITY);
  expect_ok(lap_sampler_logprobs(sampler, logits, top[0].id, &logprob, NULL, 0, &found, &error), &error);
  assert_true(logprob == top[0].logprob && logprob < 0 && logprob > -20);
  lap_sampler_destroy(sampler);
  lap_session_destroy(session);
  free(logits);
  lap_model_close(model);
  remove_directory(directory);
}

/* ---- stop strings ---------------------------------------------------------------------------- */

/* The text up to the first of the stop strings. */
static size_t expected_length(const char *const *stops, int count) {
  size_t first = story.length;
  for (int i = 0; i < count; i++) {
    const char *at = strstr(story.text, stops[i]);
    if (at && (size_t)(at - story.text) < first) first = (size_t)(at - story.text);
  }
  return first;
}

static void check_stop(const char *const *stops, int count) {
  lap_generate_options how = {.max_tokens = STORY_TOKENS, .stop = stops, .stop_count = count};
  lap_generate_result result = generate_greedy(story_prompt, how, &got);
  size_t expected = expected_length(stops, count);
  assert_int_equal(result.finish, expected < story.length ? LAP_FINISH_STOP : LAP_FINISH_LENGTH);
  assert_int_equal(got.length, expected);
  assert_memory_equal(got.text, story.text, expected);
}

static void any_part_of_the_text_stops_it_where_it_first_appears(void **state) {
  (void)state;
  for (size_t at = 0; at + 24 < story.length; at += 17)
    for (size_t length = 1; length <= 24; length = 3 * length + 1) {
      char stop[32] = "";
      memcpy(stop, story.text + at, length);
      check_stop((const char *[]){stop}, 1);
    }
}

static void the_first_of_several_stop_strings_counts(void **state) {
  (void)state;
  char early[16] = "", late[16] = "", never[24] = "";
  memcpy(early, story.text + 30, 9);
  memcpy(late, story.text + 50, 12);
  snprintf(never, sizeof never, "%.12s##", story.text + 20);
  check_stop((const char *[]){late, early, never}, 3);
  check_stop((const char *[]){never, late}, 2);
  /* One that is the end of another. */
  check_stop((const char *[]){early, early + 4}, 2);
}

static void text_that_only_began_a_stop_string_is_shown(void **state) {
  (void)state;
  for (size_t at = 0; at + 12 < story.length; at += 13) {
    char stop[24];
    snprintf(stop, sizeof stop, "%.12s##", story.text + at);
    check_stop((const char *[]){stop}, 1);
  }
  /* Also where the text ends within it. */
  char stop[24];
  snprintf(stop, sizeof stop, "%s##", story.text + story.length - 8);
  check_stop((const char *[]){stop}, 1);
}

/* ---- a speaker, token by token --------------------------------------------------------------- */

static bool collect_piece(void *context, const lap_piece *piece) {
  assert_int_equal(piece->kind, LAP_PIECE_TEXT);
  return collect(context, piece->text, piece->length);
}

/* What is said of bytes that come as byte tokens; all of them in `got`. */
static const char *said_of(const char *bytes, size_t length, const char *const *stops, int count,
                           bool *stopped) {
  const lap_speaker_options how = {.model = pebble,
                                   .sampling = &greedy,
                                   .stop = stops,
                                   .stop_count = count,
                                   .say = collect_piece,
                                   .context = &got};
  lap_error error;
  lap_speaker *speaker;
  memset(&got, 0, sizeof got);
  expect_ok(lap_speaker_create(&how, &speaker, &error), &error);
  for (size_t i = 0; i < length; i++) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned char)bytes[i]);
    int32_t id = lap_tokenizer_id(pebble_tokenizer, name, strlen(name));
    assert_true(id >= 0);
    lap_speaker_hear(speaker, id);
  }
  expect_ok(lap_speaker_finish(speaker, false, &error), &error);
  *stopped = lap_speaker_spoken(speaker)->finish == LAP_FINISH_STOP;
  if (*stopped) assert_string_equal(lap_speaker_spoken(speaker)->stop_string, stops[0]);
  lap_speaker_destroy(speaker);
  return got.text;
}

static void characters_appear_whole(void **state) {
  (void)state;
  static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  bool stopped;
  assert_string_equal(said_of(text, sizeof text - 1, NULL, 0, &stopped), text);
  assert_int_equal(got.pieces, 5);
}

static void an_unfinished_character_is_shown_as_broken_at_the_end(void **state) {
  (void)state;
  bool stopped;
  assert_string_equal(said_of("ab\xf0\x9f\x98", 5, NULL, 0, &stopped), "ab" BROKEN);
  assert_string_equal(said_of("ab\xc3!", 4, NULL, 0, &stopped), "ab" BROKEN "!");
}

static void stop_strings_cross_characters_and_tokens(void **state) {
  (void)state;
  bool stopped;
  assert_string_equal(said_of("x\xc3\xa9y!", 5, (const char *[]){"\xc3\xa9y"}, 1, &stopped), "x");
  assert_true(stopped);
  assert_string_equal(said_of("x\xc3\xa9", 3, (const char *[]){"\xc3\xa9y"}, 1, &stopped), "x\xc3\xa9");
  assert_false(stopped);
  /* A stop string that begins inside a character takes the character with it. */
  assert_string_equal(said_of("x\xc3\xa9y!", 5, (const char *[]){"\xa9y"}, 1, &stopped), "x");
  assert_true(stopped);
  /* One that appears only when the broken rest is written out. */
  assert_string_equal(said_of("ab\xf0\x9f", 4, (const char *[]){"b" BROKEN}, 1, &stopped), "a");
  assert_true(stopped);
}

/* ---- reproducibility ------------------------------------------------------------------------- */

static void the_text_is_that_of_all_tokens_together(void **state) {
  (void)state;
  /* So hot that bytes, control tokens and broken characters come in any order. */
  const lap_sampling hot = {.temperature = 1000, .top_p = 1, .repeat_penalty = 1, .seed = 9};
  lap_generate_options how = {.max_tokens = 400, .ignore_eos = true, .show_special = true};
  how.text = collect;
  how.context = &got;
  memset(&got, 0, sizeof got);
  lap_session *session = start(pebble, NULL);
  lap_error error = {0};
  lap_generate_result result;
  lap_sampler *sampler;
  size_t count;
  int32_t *ids = encode(pebble, story_prompt, &count);
  assert_int_equal(lap_sampler_create(pebble, &hot, &sampler, &error), LAP_OK);
  assert_int_equal(lap_generate(session, sampler, ids, (int64_t)count, &how, &result, &error), LAP_OK);
  assert_int_equal(lap_session_eval(session, &result.last_token, 1, 0, NULL, &error), LAP_OK);
  lap_detokenizer detokenizer = {0};
  char *text = NULL;
  size_t length = 0, capacity = 0;
  int64_t held;
  const int32_t *tokens = lap_session_tokens(session, &held);
  assert_int_equal(held, (int64_t)count + 400);
  for (int64_t i = (int64_t)count; i < held; i++)
    lap_detokenize(pebble_tokenizer, &detokenizer, tokens[i], true, &text, &length, &capacity, &error);
  lap_detokenize_end(&detokenizer, &text, &length, &capacity, &error);
  assert_int_equal(got.length, length);
  assert_memory_equal(got.text, text, length);
  free(text);
  free(ids);
  lap_sampler_destroy(sampler);
  lap_session_destroy(session);
}

static void same_seed_same_text_with_any_threads_and_chunks(void **state) {
  (void)state;
  static collected first;
  lap_sampling sampling = lap_model_sampling(pebble);
  sampling.seed = 5;
  for (int i = 0; i < 3; i++) {
    const lap_session_options options = {.threads = 1 + i / 2, .chunk = 1 + 2 * i};
    collected *to = i ? &got : &first;
    memset(to, 0, sizeof *to);
    lap_session *session = start(pebble, &options);
    generate_in(session, &sampling, story_prompt, (lap_generate_options){.max_tokens = 80}, to);
    lap_session_destroy(session);
    assert_string_equal(to->text, first.text);
  }
  sampling.seed = 6;
  memset(&got, 0, sizeof got);
  lap_session *session = start(pebble, NULL);
  generate_in(session, &sampling, story_prompt, (lap_generate_options){.max_tokens = 80}, &got);
  lap_session_destroy(session);
  assert_string_not_equal(got.text, first.text);
}

/* ---- the exam -------------------------------------------------------------------------------- */

static yajl_val read_exam(void) {
  FILE *file = fopen(EXAM, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(bytes + 1), message[256];
  assert_int_equal(fread(text, 1, bytes, file), bytes);
  text[bytes] = '\0';
  fclose(file);
  yajl_val exam = yajl_tree_parse(text, message, sizeof message);
  free(text);
  assert_non_null(exam);
  return exam;
}

static yajl_val member(yajl_val object, const char *name, yajl_type type) {
  yajl_val value = yajl_tree_get(object, (const char *[]){name, NULL}, type);
  assert_non_null(value);
  return value;
}

/* The tool's answer, which the model goes on to invent, holds numbers whose logits differ by less than
 * the reference's rounding to bf16; up to the call everything is decided. */
static size_t decided_length(const char *said) {
  const char *invented = strstr(said, "<|tool_response>");
  return invented ? (size_t)(invented - said) : strlen(said);
}

static void check_exam(const char *setting, lap_kv_mode mode) {
  lap_error error = {0};
  lap_model *model;
  assert_int_equal(lap_model_open(PEBBLE, &(lap_model_options){.kv = mode}, &model, &error), LAP_OK);
  yajl_val exam = read_exam();
  yajl_val cases = member(member(exam, setting, yajl_t_object), "cases", yajl_t_array);
  assert_int_equal(cases->u.array.len, 200);
  for (size_t i = 0; i < cases->u.array.len; i += EXAM_STEP) {
    yajl_val one = cases->u.array.values[i];
    const char *prompt = YAJL_GET_STRING(member(one, "prompt", yajl_t_string));
    const char *said = YAJL_GET_STRING(member(one, "said", yajl_t_string));
    size_t ids = member(one, "ids", yajl_t_array)->u.array.len;
    memset(&got, 0, sizeof got);
    lap_session *session = start(model, NULL);
    generate_in(session, &greedy, prompt,
                (lap_generate_options){.max_tokens = (int64_t)ids, .show_special = true}, &got);
    lap_session_destroy(session);
    size_t decided_bytes = decided_length(said);
    if (got.length < decided_bytes || memcmp(got.text, said, decided_bytes) != 0)
      fail_msg("case %zu: '%s' instead of '%s'", i, got.text, said);
    if (said[decided_bytes] == '\0') assert_int_equal(got.length, decided_bytes);
  }
  yajl_tree_free(exam);
  lap_model_close(model);
}

static void greedy_text_is_what_the_reference_said_with_plain_kv(void **state) {
  (void)state;
  check_exam("kv_bf16", LAP_KV_PLAIN);
}

static void greedy_text_is_what_the_reference_said_with_quantized_kv(void **state) {
  (void)state;
  check_exam("kv_quantized", LAP_KV_CONFIG);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_prompt_has_one_bos_that_a_message_cannot_write),
      cmocka_unit_test(max_tokens_ends_it),
      cmocka_unit_test(the_session_holds_all_but_the_last_token),
      cmocka_unit_test(the_end_token_ends_it_and_is_not_shown),
      cmocka_unit_test(ignore_eos_goes_on),
      cmocka_unit_test(the_callback_ends_it),
      cmocka_unit_test(the_context_ends_it),
      cmocka_unit_test(the_progress_callback_ends_the_prompt),
      cmocka_unit_test(options_out_of_range_are_refused_by_name),
      cmocka_unit_test(every_end_token_of_the_checkpoint_ends_it_and_no_other),
      cmocka_unit_test(suppressed_tokens_are_never_said),
      cmocka_unit_test(any_part_of_the_text_stops_it_where_it_first_appears),
      cmocka_unit_test(the_first_of_several_stop_strings_counts),
      cmocka_unit_test(text_that_only_began_a_stop_string_is_shown),
      cmocka_unit_test(characters_appear_whole),
      cmocka_unit_test(an_unfinished_character_is_shown_as_broken_at_the_end),
      cmocka_unit_test(stop_strings_cross_characters_and_tokens),
      cmocka_unit_test(the_text_is_that_of_all_tokens_together),
      cmocka_unit_test(same_seed_same_text_with_any_threads_and_chunks),
      cmocka_unit_test(greedy_text_is_what_the_reference_said_with_plain_kv),
      cmocka_unit_test(greedy_text_is_what_the_reference_said_with_quantized_kv),
  };
  return cmocka_run_group_tests(tests, open_pebble, close_pebble);
}
