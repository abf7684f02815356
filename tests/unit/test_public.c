/* test_public.c: batches, conversations and structured output as an embedder has them, on Pebble. */
#include <string.h>

#include "base/json.h"
#include "base/text_buffer.h"
#include "support/check.h"

#define PEBBLE SOURCE_DIR "/models/pebble"

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"integer\"},\"sure\":{\"type\":\"boolean\"}},"
    "\"required\":[\"sum\",\"sure\"]}";
static const char tools[] =
    "[{\"name\":\"add\",\"description\":\"Add two "
    "numbers\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}}]";

static lap_model *pebble;

static int open_pebble(void **state) {
  (void)state;
  lap_error error;
  expect_ok(lap_model_open(PEBBLE, NULL, &pebble, &error), &error);
  return 0;
}

static int close_pebble(void **state) {
  (void)state;
  lap_model_close(pebble);
  return 0;
}

static lap_grammar *read_schema(void) {
  lap_grammar *grammar;
  lap_error error;
  expect_ok(lap_grammar_read_schema(pebble, schema, sizeof schema - 1, LAP_THOUGHTS_NONE, &grammar, &error),
            &error);
  return grammar;
}

static bool add_text(void *context, const char *text, size_t length) {
  lap_text_append(context, text, length);
  return true;
}

static int32_t *encode(const char *text, size_t *count) {
  int32_t *ids;
  lap_error error;
  expect_ok(lap_model_encode(pebble, text, strlen(text), &ids, count, &error), &error);
  return ids;
}

/* ---- structured output ----------------------------------------------------------------------- */

static void expect_answer(const lap_text *text) {
  lap_json_document *document;
  lap_error error;
  expect_ok(lap_json_parse(lap_text_data(text), text->length, "answer", &document, &error), &error);
  const lap_json *root = lap_json_root(document);
  assert_int_equal(root->type, LAP_JSON_OBJECT);
  assert_int_equal(root->length, 2);
  assert_int_equal(lap_json_get(document, root, "sum")->type, LAP_JSON_INTEGER);
  assert_int_equal(lap_json_get(document, root, "sure")->type, LAP_JSON_BOOL);
  lap_json_free(document);
}

static void generated_text_is_what_the_grammar_says_at_any_temperature(void **state) {
  (void)state;
  lap_grammar *grammar = read_schema();
  size_t count;
  int32_t *ids = encode("The answer: ", &count);
  for (uint64_t seed = 0; seed < 8; seed++) {
    const lap_sampling hot = {
        .temperature = (float)seed, .top_k = 40, .top_p = 1, .repeat_penalty = 1, .seed = seed};
    lap_text text = {0};
    const lap_generate_options how = {
        .max_tokens = 400, .grammar = grammar, .ignore_eos = true, .text = add_text, .context = &text};
    lap_session *session;
    lap_sampler *sampler;
    lap_generate_result result;
    lap_error error;
    expect_ok(lap_session_create(pebble, NULL, &session, &error), &error);
    expect_ok(lap_sampler_create(pebble, &hot, &sampler, &error), &error);
    expect_ok(lap_generate(session, sampler, ids, (int64_t)count, &how, &result, &error), &error);
    if (result.finish == LAP_FINISH_EOS) expect_answer(&text);
    assert_true(seed > 0 ||
                result.finish == LAP_FINISH_EOS); /* an integer may go on for ever, but not this one */
    lap_text_free(&text);
    lap_sampler_destroy(sampler);
    lap_session_destroy(session);
  }
  free(ids);
  lap_grammar_release(grammar);
}

static void expect_refused_grammar(lap_status status, const lap_error *error, const char *begin) {
  assert_int_equal(status, LAP_ERROR_FORMAT);
  if (strncmp(error->message, begin, strlen(begin)) != 0) fail_msg("%s", error->message);
}

static void sources_that_are_wrong_are_named(void **state) {
  (void)state;
  lap_grammar *grammar;
  lap_error error;
  expect_refused_grammar(
      lap_grammar_read_schema(pebble, "{\"type\":7}", 10, LAP_THOUGHTS_NONE, &grammar, &error), &error,
      "schema: type");
  assert_null(grammar);
  expect_refused_grammar(lap_grammar_read_gbnf(pebble, "root ::= (", 10, LAP_THOUGHTS_NONE, &grammar, &error),
                         &error, "grammar: line 1");
  assert_null(grammar);
  expect_refused_grammar(lap_grammar_read_tools(pebble, "[]", 2, LAP_THOUGHTS_NONE, &grammar, &error), &error,
                         "tools: ");
  assert_null(grammar);
}

/* ---- conversations --------------------------------------------------------------------------- */

static void a_grammar_of_tools_makes_the_model_call(void **state) {
  (void)state;
  static const char question[] = "What is 74 - 8?"; /* which it answers, if it may */
  lap_conversation_options options = {
      .threads = 1, .max_tokens = 60, .sampling = lap_model_sampling(pebble), .thinking = LAP_THINKING_OFF};
  options.sampling.temperature = 0;
  lap_conversation *conversation;
  lap_grammar *grammar;
  lap_turn turn;
  lap_error error;
  expect_ok(lap_conversation_create(pebble, &options, &conversation, &error), &error);
  expect_ok(lap_conversation_set_tools(conversation, tools, sizeof tools - 1, &error), &error);
  expect_ok(lap_grammar_read_tools(pebble, tools, sizeof tools - 1, LAP_THOUGHTS_NONE, &grammar, &error),
            &error);
  expect_ok(lap_conversation_say(conversation, question, sizeof question - 1, &turn, &error), &error);
  assert_int_equal(turn.end, LAP_TURN_ANSWERED);
  lap_conversation_set_grammar(conversation, grammar);
  lap_grammar_release(grammar); /* the conversation has it */
  expect_ok(lap_conversation_say(conversation, question, sizeof question - 1, &turn, &error), &error);
  assert_int_equal(turn.end, LAP_TURN_CALLS);
  const lap_call *call = lap_conversation_call(conversation);
  assert_string_equal(call->name, "add");
  lap_json_document *arguments;
  expect_ok(lap_json_parse(call->arguments, strlen(call->arguments), "call", &arguments, &error), &error);
  assert_int_equal(lap_json_get(arguments, lap_json_root(arguments), "a")->type, LAP_JSON_INTEGER);
  assert_int_equal(lap_json_get(arguments, lap_json_root(arguments), "b")->type, LAP_JSON_INTEGER);
  lap_json_free(arguments);
  lap_conversation_destroy(conversation);
}

/* ---- batches --------------------------------------------------------------------------------- */

typedef struct client {
  lap_text text;
  lap_generate_result result;
  int ended;
  bool enough; /* wants no more */
} client;

static bool listen(void *context, const char *text, size_t length) {
  client *c = context;
  lap_text_append(&c->text, text, length);
  return !c->enough;
}

static void take_end(void *context, const lap_generate_result *result, const lap_error *error) {
  client *c = context;
  assert_int_equal(error->status, LAP_OK);
  c->result = *result;
  c->ended++;
}

static lap_batch_request request_for(client *c, const int32_t *ids, size_t count) {
  lap_batch_request request = {.ids = ids,
                               .count = (int64_t)count,
                               .sampling = lap_model_sampling(pebble),
                               .options = {.max_tokens = 20, .text = listen, .context = c},
                               .ended = take_end};
  request.sampling.temperature = 0;
  return request;
}

static lap_batch *open_batch(void) {
  lap_batch *batch;
  lap_error error;
  expect_ok(lap_batch_create(pebble, &(lap_batch_options){.threads = 1}, &batch, &error), &error);
  return batch;
}

static void requests_of_a_batch_end_each_in_its_own_way(void **state) {
  (void)state;
  client whole = {0}, left = {.enough = true}, cancelled = {0};
  lap_batch *batch = open_batch();
  lap_job *job;
  lap_error error;
  size_t count;
  int32_t *ids = encode("Once there was", &count);
  lap_batch_request request = request_for(&whole, ids, count);
  expect_ok(lap_batch_generate(batch, &request, NULL, &error), &error);
  request = request_for(&left, ids, count);
  expect_ok(lap_batch_generate(batch, &request, NULL, &error), &error);
  request = request_for(&cancelled, ids, count);
  expect_ok(lap_batch_generate(batch, &request, &job, &error), &error);
  free(ids); /* copied */
  lap_batch_cancel(batch, job);
  while (lap_batch_step(batch)) continue;
  assert_int_equal(whole.ended + left.ended + cancelled.ended, 3);
  assert_int_equal(whole.result.finish, LAP_FINISH_LENGTH);
  assert_int_equal(whole.result.generated_tokens, 20);
  assert_int_equal(left.result.finish, LAP_FINISH_CALLER);
  assert_int_equal(left.result.generated_tokens, 1);
  assert_int_equal(cancelled.result.finish, LAP_FINISH_CALLER);
  assert_int_equal(cancelled.text.length, 0);
  lap_batch_destroy(batch);
  lap_text_free(&whole.text);
  lap_text_free(&left.text);
}

static void requests_that_are_wrong_are_refused_before_they_wait(void **state) {
  (void)state;
  static const char *const stops[] = {"a", ""};
  client c = {0};
  lap_batch *batch = open_batch();
  lap_job *job;
  lap_error error;
  const int32_t ids[] = {2, 5};
  lap_batch_request request = request_for(&c, ids, 2);
  request.options.stop = stops;
  request.options.stop_count = 2;
  assert_int_equal(lap_batch_generate(batch, &request, &job, &error), LAP_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "stop"));
  request = request_for(&c, ids, 2);
  request.sampling.temperature = -1;
  assert_int_equal(lap_batch_generate(batch, &request, &job, &error), LAP_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "temperature"));
  assert_null(job);
  assert_int_equal(lap_batch_get_stats(batch).waiting, 0);
  lap_batch_destroy(batch);
  assert_int_equal(c.ended, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(generated_text_is_what_the_grammar_says_at_any_temperature),
      cmocka_unit_test(sources_that_are_wrong_are_named),
      cmocka_unit_test(a_grammar_of_tools_makes_the_model_call),
      cmocka_unit_test(requests_of_a_batch_end_each_in_its_own_way),
      cmocka_unit_test(requests_that_are_wrong_are_refused_before_they_wait),
  };
  return cmocka_run_group_tests(tests, open_pebble, close_pebble);
}
