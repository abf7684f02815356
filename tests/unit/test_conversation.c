/* test_conversation.c: turns, and what of them is computed.
 *
 * Each answer is compared with that of a fresh session which evaluates the whole conversation at once on the
 * monolith; Pebble's calls and sums with its exam. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/conversation.h"
#include "model/chat.h"
#include "support/check.h"

#define PEBBLE SOURCE_DIR "/models/pebble"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Get the weather in a "
    "city\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
    "\"description\":"
    "\"The city\"}},\"required\":[\"city\"]}}},"
    /* a function alone */
    "{\"name\":\"add\",\"description\":\"Add two "
    "numbers\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"a\":{\"type\":\"number\"},\"b\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\"]}}]";

typedef struct fixture {
  lap_model *model;
  char directory[64];
} fixture;

static int open_pebble(void **state) {
  static fixture f;
  lap_error error;
  expect_ok(lap_model_open(PEBBLE, NULL, &f.model, &error), &error);
  strcpy(f.directory, "/tmp/lapidary-conversation-XXXXXX");
  assert_non_null(mkdtemp(f.directory));
  *state = &f;
  return 0;
}

static int close_pebble(void **state) {
  fixture *f = *state;
  lap_model_close(f->model);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", f->directory);
  return system(command); /* NOLINT(cert-env33-c): the path is ours */
}

/* ---- a listener ---- */

typedef struct listener {
  lap_text content;
  lap_text thoughts;
  lap_text calls;
  int64_t stop_after; /* events; 0: never, -1: before the first token */
  int64_t events;
} listener;

static bool listen(void *context, const lap_piece *event) {
  listener *l = context;
  lap_text *text = event->kind == LAP_PIECE_TEXT      ? &l->content
                   : event->kind == LAP_PIECE_THOUGHT ? &l->thoughts
                                                      : &l->calls;
  if (event->name) lap_text_add(text, "%s ", event->name);
  lap_text_append(text, event->text, event->length);
  l->events++;
  return true;
}

static bool still_listens(void *context, int64_t done, int64_t total) {
  const listener *l = context;
  assert_true(done >= 0 && done <= total);
  return l->stop_after == 0 || l->events < l->stop_after;
}

static void forget(listener *l) {
  lap_text_free(&l->content);
  lap_text_free(&l->thoughts);
  lap_text_free(&l->calls);
  l->stop_after = l->events = 0;
}

static lap_conversation_options options_for(const fixture *f, listener *l) {
  lap_conversation_options options = {.threads = 2,
                                      .chunk = 32,
                                      .sampling = lap_model_sampling(f->model),
                                      .say = listen,
                                      .go_on = still_listens,
                                      .receiver = l};
  options.sampling.temperature = 0;
  return options;
}

static lap_conversation *open_conversation(const fixture *f, const lap_conversation_options *options) {
  lap_conversation *conversation;
  lap_error error;
  expect_ok(lap_conversation_create(f->model, options, &conversation, &error), &error);
  return conversation;
}

static lap_turn say(lap_conversation *conversation, const char *text) {
  lap_turn turn;
  lap_error error;
  expect_ok(lap_conversation_say(conversation, text, strlen(text), &turn, &error), &error);
  return turn;
}

static char *print(const lap_conversation *conversation) {
  lap_text text = {0};
  char *json;
  lap_error error;
  lap_transcript_print(lap_conversation_transcript(conversation), &text);
  expect_ok(lap_text_take(&text, &json, NULL, &error), &error);
  return json;
}

/* ---- a fresh session ---- */

static bool collect(void *context, const char *text, size_t length) {
  lap_text_append(context, text, length);
  return true;
}

/* What a session without a past says after the first `count` messages. */
static char *fresh_answer(const fixture *f, const lap_conversation *conversation, lap_sampling sampling,
                          int count, int64_t max_tokens) {
  const lap_transcript *whole = lap_conversation_transcript(conversation);
  const lap_transcript part = {
      .message = whole->message, .count = count, .tool = whole->tool, .tools = whole->tools};
  lap_text json = {0}, said = {0};
  lap_error error;
  lap_json_document *document;
  lap_chat *chat;
  lap_chat_prompt prompt;
  lap_session *session;
  lap_sampler *sampler;
  lap_generate_result result;
  char *text;
  lap_transcript_print(&part, &json);
  expect_ok(lap_json_parse(json.data, json.length, "part", &document, &error), &error);
  expect_ok(lap_model_open_chat(f->model, &chat, &error), &error);
  const lap_json *root = lap_json_root(document);
  const lap_chat_input input = {.document = document,
                                .messages = lap_json_get(document, root, "messages"),
                                .tools = lap_json_get(document, root, "tools")};
  expect_ok(lap_chat_render(chat, &input, &prompt, &error), &error);
  const lap_session_options how = {.threads = 1, .path = LAP_PATH_MONOLITH};
  expect_ok(lap_session_create(f->model, &how, &session, &error), &error);
  sampling.seed += (uint64_t)count;
  expect_ok(lap_sampler_create(f->model, &sampling, &sampler, &error), &error);
  const lap_generate_options generation = {.max_tokens = max_tokens, .text = collect, .context = &said};
  expect_ok(lap_generate(session, sampler, prompt.ids, (int64_t)prompt.count, &generation, &result, &error),
            &error);
  expect_ok(lap_text_take(&said, &text, NULL, &error), &error);
  lap_sampler_destroy(sampler);
  lap_session_destroy(session);
  lap_chat_prompt_free(&prompt);
  lap_chat_close(chat);
  lap_json_free(document);
  lap_text_free(&json);
  return text;
}

static void expect_fresh(const fixture *f, const lap_conversation *conversation,
                         const lap_conversation_options *options, const char *said) {
  int count = lap_conversation_transcript(conversation)->count;
  char *fresh = fresh_answer(f, conversation, options->sampling, count - 1, options->max_tokens);
  assert_string_equal(said, fresh);
  free(fresh);
}

/* ---- reuse ---- */

static void a_second_turn_computes_only_what_is_new(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_conversation(f, &options);
  lap_turn first = say(conversation, "What is 74 - 8?");
  assert_int_equal(first.end, LAP_TURN_ANSWERED);
  assert_string_equal(l.content.data, "66");
  assert_int_equal(first.cached_tokens, 0);
  assert_int_equal(first.evaluated_tokens, first.prompt_tokens);
  forget(&l);
  lap_turn second = say(conversation, "What is 30 + 12?");
  assert_int_equal(second.cached_tokens, first.prompt_tokens + first.generated_tokens);
  assert_int_equal(second.evaluated_tokens, second.prompt_tokens - second.cached_tokens);
  assert_true(second.evaluated_tokens < first.prompt_tokens + 8);
  expect_fresh(f, conversation, &options, l.content.data);
  forget(&l);
  lap_conversation_destroy(conversation);
}

/* Long enough for the rings (128 positions) to wrap, drawn, and twice in a row. */
static void every_answer_is_that_of_a_fresh_session(void **state) {
  const fixture *f = *state;
  listener l = {0};
  lap_conversation_options options = options_for(f, &l);
  options.sampling.temperature = 1;
  options.sampling.seed = 7;
  options.max_tokens = 70;
  lap_conversation *conversation = open_conversation(f, &options);
  static const char *const texts[] = {
      "The code of Gus is 9048. The code of Pia is 6582. The code of Vera is 1603.\nWhat is the code of Gus?",
      "Write a story about a lamp and a drum in a red barn near the hill.", "And what is the code of Pia?",
      "Write a story about a boat.", "What is 9 + 9?"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lap_turn turn = say(conversation, texts[i]);
    if (i > 0) assert_true(turn.cached_tokens > 20);
    assert_int_equal(turn.cached_tokens + turn.evaluated_tokens, turn.prompt_tokens);
    expect_fresh(f, conversation, &options, lap_text_data(&l.content));
    forget(&l);
  }
  assert_true(lap_conversation_stats(conversation).cache.bytes > 0);
  lap_conversation_destroy(conversation);
}

static void a_stopped_answer_stays_and_the_next_turn_works(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_conversation(f, &options);
  l.stop_after = 3;
  lap_turn turn = say(conversation, "Write a story about a boat.");
  assert_int_equal(turn.end, LAP_TURN_STOPPED);
  assert_false(turn.taken_back);
  const lap_transcript *transcript = lap_conversation_transcript(conversation);
  assert_int_equal(transcript->count, 2);
  assert_true(l.content.length > 0);
  assert_non_null(strstr(transcript->message[1].json, "\"role\":\"assistant\""));
  char *fresh = fresh_answer(f, conversation, options.sampling, 1, 0);
  assert_true(strncmp(fresh, l.content.data, l.content.length) == 0 && strlen(fresh) > l.content.length);
  free(fresh);
  forget(&l);
  turn = say(conversation, "What is 74 - 8?");
  assert_true(turn.cached_tokens > 0);
  expect_fresh(f, conversation, &options, l.content.data);
  forget(&l);
  lap_conversation_destroy(conversation);
}

static void a_turn_without_a_word_is_taken_back(void **state) {
  const fixture *f = *state;
  listener l = {.stop_after = -1};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_conversation(f, &options);
  lap_error error;
  expect_ok(lap_conversation_set_system(conversation, "You are a helpful assistant.", 28, &error), &error);
  char *before = print(conversation);
  lap_turn turn = say(conversation, "What is 74 - 8?");
  assert_true(turn.end == LAP_TURN_STOPPED && turn.taken_back);
  char *after = print(conversation);
  assert_string_equal(before, after);
  l.stop_after = 0;
  say(conversation, "What is 74 - 8?");
  assert_string_equal(l.content.data, "66");
  free(before);
  free(after);
  forget(&l);
  lap_conversation_destroy(conversation);
}

/* ---- the context ---- */

static void a_full_context_is_said_and_leaves_a_usable_conversation(void **state) {
  const fixture *f = *state;
  listener l = {0};
  lap_conversation_options options = options_for(f, &l);
  options.context = 60;
  lap_conversation *conversation = open_conversation(f, &options);
  say(conversation, "What is 74 - 8?");
  char *before = print(conversation), text[600];
  memset(text, 'a', sizeof text);
  for (size_t i = 1; i < sizeof text; i += 2) text[i] = ' ';
  lap_turn turn;
  lap_error error;
  expect_ok(lap_conversation_say(conversation, text, sizeof text, &turn, &error), &error);
  assert_true(turn.end == LAP_TURN_CONTEXT && turn.taken_back && turn.prompt_tokens >= 60);
  char *after = print(conversation);
  assert_string_equal(before, after);
  forget(&l);
  turn = say(conversation, "Write a story about a boat and a very old lamp.");
  assert_true(turn.end == LAP_TURN_CONTEXT && !turn.taken_back);
  assert_int_equal(lap_conversation_transcript(conversation)->count, 4);
  assert_true(l.content.length > 0);
  lap_conversation_reset(conversation);
  assert_int_equal(lap_conversation_transcript(conversation)->count, 0);
  forget(&l);
  turn = say(conversation, "What is 74 - 8?");
  assert_string_equal(l.content.data, "66");
  free(before);
  free(after);
  forget(&l);
  lap_conversation_destroy(conversation);
}

static void max_tokens_cuts_an_answer(void **state) {
  const fixture *f = *state;
  listener l = {0};
  lap_conversation_options options = options_for(f, &l);
  options.max_tokens = 5;
  lap_conversation *conversation = open_conversation(f, &options);
  lap_turn turn = say(conversation, "Write a story about a boat.");
  assert_true(turn.end == LAP_TURN_LENGTH && turn.generated_tokens == 5);
  expect_fresh(f, conversation, &options, l.content.data);
  forget(&l);
  lap_conversation_destroy(conversation);
}

/* ---- tools ---- */

static const char *write_file(const fixture *f, const char *name, const char *text) {
  const char *path = path_of("%s/%s", f->directory, name);
  lap_error error;
  expect_ok(lap_file_write(path, text, strlen(text), &error), &error);
  return path;
}

static lap_conversation *open_with_tools(const fixture *f, const lap_conversation_options *options) {
  lap_error error;
  lap_conversation *conversation = open_conversation(f, options);
  expect_ok(lap_conversation_read_tools(conversation, write_file(f, "tools.json", tools_json), &error),
            &error);
  return conversation;
}

static void a_call_is_asked_for_its_result_and_the_answer_uses_it(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_with_tools(f, &options);
  lap_error error;
  lap_turn turn = say(conversation, "What is the weather in Quito?");
  assert_int_equal(turn.end, LAP_TURN_CALLS);
  assert_string_equal(l.calls.data, "get_weather {\"city\":\"Quito\"}");
  const lap_call *call = lap_conversation_call(conversation);
  assert_string_equal(call->name, "get_weather");
  assert_string_equal(call->arguments, "{\"city\":\"Quito\"}");
  assert_int_equal(lap_conversation_go_on(conversation, &turn, &error), LAP_ERROR_STATE);
  static const char result[] = "{\"sky\":\"rain\",\"temperature\":27}";
  expect_ok(lap_conversation_result(conversation, result, strlen(result), &error), &error);
  assert_null(lap_conversation_call(conversation));
  assert_int_equal(lap_conversation_result(conversation, "x", 1, &error), LAP_ERROR_STATE);
  expect_ok(lap_conversation_go_on(conversation, &turn, &error), &error);
  assert_int_equal(turn.end, LAP_TURN_ANSWERED);
  assert_non_null(strstr(l.content.data, "27"));
  assert_non_null(strstr(l.content.data, "rain"));
  assert_true(turn.cached_tokens > 0);
  expect_fresh(f, conversation, &options, l.content.data);
  const lap_transcript *transcript = lap_conversation_transcript(conversation);
  assert_int_equal(transcript->count, 4);
  assert_string_equal(
      transcript->message[1].json,
      "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_1_0\",\"type\":"
      "\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":"
      "\"{\\\"city\\\":\\\"Quito\\\"}\"}}]}");
  assert_string_equal(transcript->message[2].json,
                      "{\"role\":\"tool\",\"tool_call_id\":\"call_1_0\",\"name\":\"get_weather\",\"content\":"
                      "\"{\\\"sky\\\":\\\"rain\\\",\\\"temperature\\\":27}\"}");
  forget(&l);
  lap_conversation_destroy(conversation);
}

static void a_call_without_a_result_is_given_up(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_with_tools(f, &options);
  assert_int_equal(say(conversation, "What is the weather in Quito?").end, LAP_TURN_CALLS);
  assert_true(lap_conversation_give_up(conversation));
  assert_int_equal(lap_conversation_transcript(conversation)->count, 0);
  assert_null(lap_conversation_call(conversation));
  assert_false(lap_conversation_give_up(conversation));
  /* and so does saying something else */
  assert_int_equal(say(conversation, "What is the weather in Quito?").end, LAP_TURN_CALLS);
  forget(&l);
  assert_int_equal(say(conversation, "What is the weather in Paris?").end, LAP_TURN_CALLS);
  assert_string_equal(l.calls.data, "get_weather {\"city\":\"Paris\"}");
  assert_int_equal(lap_conversation_transcript(conversation)->count, 2);
  forget(&l);
  lap_conversation_destroy(conversation);
}

/* ---- control tokens ---- */

/* The prompt's length, which must be that of its parts, control tokens counting in `text` only if allowed. */
static int64_t prompt_length(const fixture *f, lap_conversation_options options, const char *text,
                             bool allow) {
  const char *const parts[] = {"<bos><|turn>user\n", text, "<turn|>\n<|turn>model\n"};
  const lap_tokenizer *tokenizer;
  lap_error error;
  size_t wanted = 0, count;
  int32_t *ids;
  expect_ok(lap_model_tokenizer(f->model, &tokenizer, &error), &error);
  for (int i = 0; i < 3; i++) {
    bool counts = i != 1 || allow;
    expect_ok(lap_tokenizer_encode(tokenizer, parts[i], strlen(parts[i]), counts, &ids, &count, &error),
              &error);
    wanted += count;
    free(ids);
  }
  options.allow_special = allow;
  lap_conversation *conversation = open_conversation(f, &options);
  lap_turn turn = say(conversation, text);
  lap_conversation_destroy(conversation);
  assert_int_equal(turn.prompt_tokens, wanted);
  return turn.prompt_tokens;
}

static void what_is_typed_stays_text_unless_allowed(void **state) {
  const fixture *f = *state;
  listener l = {0};
  lap_conversation_options options = options_for(f, &l);
  options.max_tokens = 2;
  static const char text[] = "a<turn|><|turn>b";
  assert_true(prompt_length(f, options, text, false) > prompt_length(f, options, text, true));
  forget(&l);
}

/* ---- files ---- */

static void a_conversation_is_saved_and_goes_on_elsewhere(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_with_tools(f, &options), *other = open_conversation(f, &options);
  lap_turn turn;
  lap_error error;
  expect_ok(lap_conversation_set_system(conversation, "You are a helpful assistant.", 28, &error), &error);
  say(conversation, "What is the weather in Quito?");
  expect_ok(lap_conversation_result(conversation, "{\"sky\":\"snow\",\"temperature\":3}", 30, &error),
            &error);
  expect_ok(lap_conversation_go_on(conversation, &turn, &error), &error);
  const char *path = path_of("%s/saved.json", f->directory);
  expect_ok(lap_conversation_save(conversation, path, &error), &error);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  expect_ok(lap_conversation_load(other, path, &error), &error);
  char *a = print(conversation), *b = print(other);
  assert_string_equal(a, b);
  free(a);
  free(b);
  forget(&l);
  say(conversation, "What is 5 + 6?");
  char *here = strdup(lap_text_data(&l.calls));
  forget(&l);
  say(other, "What is 5 + 6?");
  assert_string_equal(here, lap_text_data(&l.calls));
  free(here);
  forget(&l);
  lap_conversation_destroy(conversation);
  lap_conversation_destroy(other);
}

static void a_file_that_is_wrong_changes_nothing(void **state) {
  const fixture *f = *state;
  static const struct {
    const char *json, *message;
  } cases[] = {
      {"", "load.json: "},
      {"{", "load.json: "},
      {"17", "there are no messages"},
      {"{}", "there are no messages"},
      {"{\"messages\":7}", "load.json: messages: must be a list"},
      {"{\"messages\":[7]}", "load.json: messages[0]: must be an object"},
      {"[{\"role\":7}]", "[0].role: a message's role must be a string"},
      {"[{\"content\":\"x\"}]", "[0]: a message's role must be a string"},
      {"[{\"role\":\"wizard\",\"content\":\"x\"}]", "[0].role: wizard is no role"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":7}]}", "messages[0].content: must be a string"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"tool_calls\":7}]}",
       "messages[1].tool_calls: must be a list"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
       "messages[0].content[0]"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":7}",
       "load.json: tools: must be a list"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\"}]}",
       "load.json: tools[0]: a function must have a name"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "load.json: "},
  };
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_with_tools(f, &options);
  say(conversation, "What is 74 - 8?");
  char *before = print(conversation);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lap_error error = {0};
    const char *path = write_file(f, "load.json", cases[i].json);
    assert_int_equal(lap_conversation_load(conversation, path, &error), LAP_ERROR_FORMAT);
    if (!strstr(error.message, cases[i].message))
      fail_msg("%s\nis not about: %s", error.message, cases[i].message);
    char *after = print(conversation);
    assert_string_equal(before, after);
    free(after);
  }
  lap_error error;
  assert_int_equal(lap_conversation_load(conversation, f->directory, &error), LAP_ERROR_IO);
  assert_int_equal(lap_conversation_load(conversation, "/nowhere/x", &error), LAP_ERROR_IO);
  assert_int_equal(lap_conversation_load(conversation, "/dev/zero", &error), LAP_ERROR_IO);
  free(before);
  forget(&l);
  lap_conversation_destroy(conversation);
}

static void a_file_is_replaced_whole_or_not_at_all(void **state) {
  const fixture *f = *state;
  const char *path = write_file(f, "kept", "before");
  lap_error error;
  size_t bytes;
  char *text;
  assert_int_equal(chmod(path, 0640), 0);
  expect_ok(lap_file_write(path, "after it", 8, &error), &error);
  expect_ok(lap_file_read(path, 100, &text, &bytes, &error), &error);
  assert_true(bytes == 8 && memcmp(text, "after it", 8) == 0);
  free(text);
  struct stat info;
  assert_true(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
  assert_int_equal(lap_file_write(f->directory, "x", 1, &error), LAP_ERROR_IO);
  assert_int_equal(lap_file_write("/dev/null", "x", 1, &error), LAP_ERROR_IO);
  assert_true(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode));
  assert_int_equal(lap_file_write(path_of("%s/no/x", f->directory), "x", 1, &error), LAP_ERROR_IO);
}

static void text_that_is_not_utf8_is_refused(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_conversation(f, &options);
  lap_turn turn;
  lap_error error;
  assert_int_equal(lap_conversation_say(conversation, "ab\xff", 3, &turn, &error), LAP_ERROR_FORMAT);
  assert_string_equal(error.message, "the text is not UTF-8 at byte 2");
  assert_int_equal(lap_conversation_set_system(conversation, "\xc3", 1, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_conversation_transcript(conversation)->count, 0);
  lap_conversation_destroy(conversation);
}

static void the_system_message_comes_and_goes(void **state) {
  const fixture *f = *state;
  listener l = {0};
  const lap_conversation_options options = options_for(f, &l);
  lap_conversation *conversation = open_conversation(f, &options);
  const lap_transcript *transcript = lap_conversation_transcript(conversation);
  lap_error error;
  say(conversation, "What is 74 - 8?");
  expect_ok(lap_conversation_set_system(conversation, "One", 3, &error), &error);
  expect_ok(lap_conversation_set_system(conversation, "Two", 3, &error), &error);
  assert_int_equal(transcript->count, 3);
  assert_string_equal(transcript->message[0].json, "{\"role\":\"system\",\"content\":\"Two\"}");
  lap_conversation_reset(conversation);
  assert_int_equal(transcript->count, 1);
  expect_ok(lap_conversation_set_system(conversation, NULL, 0, &error), &error);
  assert_int_equal(transcript->count, 0);
  forget(&l);
  lap_conversation_destroy(conversation);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_second_turn_computes_only_what_is_new),
      cmocka_unit_test(every_answer_is_that_of_a_fresh_session),
      cmocka_unit_test(a_stopped_answer_stays_and_the_next_turn_works),
      cmocka_unit_test(a_turn_without_a_word_is_taken_back),
      cmocka_unit_test(a_full_context_is_said_and_leaves_a_usable_conversation),
      cmocka_unit_test(max_tokens_cuts_an_answer),
      cmocka_unit_test(a_call_is_asked_for_its_result_and_the_answer_uses_it),
      cmocka_unit_test(a_call_without_a_result_is_given_up),
      cmocka_unit_test(what_is_typed_stays_text_unless_allowed),
      cmocka_unit_test(a_conversation_is_saved_and_goes_on_elsewhere),
      cmocka_unit_test(a_file_that_is_wrong_changes_nothing),
      cmocka_unit_test(a_file_is_replaced_whole_or_not_at_all),
      cmocka_unit_test(text_that_is_not_utf8_is_refused),
      cmocka_unit_test(the_system_message_comes_and_goes),
  };
  return cmocka_run_group_tests(tests, open_pebble, close_pebble);
}
