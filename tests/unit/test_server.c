/* test_server.c: the server on Pebble, in this process, with clients on real sockets.
 *
 * Answers are compared with those that the reference implementation recorded (tests/data/exam.json), with
 * each other (streamed or not, alone or among others, with the prompt cache or without), never with
 * themselves. */
#include "server/server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/check.h"
#include "support/http_client.h"

#define PEBBLE SOURCE_DIR "/models/pebble"

typedef struct fixture {
  lap_model *model;
  lap_server *server;
  int port;
} fixture;

static void open_server(fixture *f, lap_kv_mode kv, lap_server_options options) {
  lap_error error;
  expect_ok(lap_model_open(PEBBLE, &(lap_model_options){.kv = kv}, &f->model, &error), &error);
  options.host = "127.0.0.1";
  if (!options.service.batch.parallel) options.service.batch.parallel = 4;
  if (!options.service.max_queue) options.service.max_queue = 64;
  expect_ok(lap_server_open(f->model, PEBBLE, &options, &f->server, &error), &error);
  assert_null(lap_server_without_chat(f->server));
  f->port = atoi(strrchr(lap_server_url(f->server), ':') + 1);
}

static void close_server(fixture *f, double seconds) {
  lap_server_close(f->server, seconds);
  lap_model_close(f->model);
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct answer {
  http_result result;
  lap_json_document *document;
} answer;

static answer ask(int port, const char *path, const char *body) {
  lap_error error;
  answer a = {.result = http_ask(port, body ? "POST" : "GET", path, "", body)};
  assert_true(a.result.whole);
  expect_ok(lap_json_parse(a.result.body, a.result.length, path, &a.document, &error), &error);
  return a;
}

static void forget(answer *a) {
  lap_json_free(a->document);
  http_free(&a->result);
}

/* The value at a path of keys and indices: "choices.0.message". */
static const lap_json *at(const answer *a, const char *path) {
  const lap_json *value = lap_json_root(a->document);
  while (value && *path) {
    char key[64];
    size_t length = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    if (value->type == LAP_JSON_ARRAY) {
      const lap_json *child = value->child;
      for (long i = strtol(key, NULL, 10); i > 0 && child; i--) child = child->next;
      value = child;
    } else {
      value = lap_json_get(a->document, value, key);
    }
    path += length + (path[length] == '.');
  }
  return value;
}

static const char *string_at(const answer *a, const char *path) {
  const lap_json *value = at(a, path);
  if (!value || value->type != LAP_JSON_STRING) fail_msg("no string at %s of %s", path, a->result.body);
  return value->string;
}

static int64_t integer_at(const answer *a, const char *path) {
  const lap_json *value = at(a, path);
  if (!value || value->type != LAP_JSON_INTEGER) fail_msg("no integer at %s of %s", path, a->result.body);
  return value->integer;
}

static void expect_status(const answer *a, int status) {
  if (a->result.status != status) fail_msg("status %d: %s", a->result.status, a->result.body);
}

/* A chat request: one message and more fields. */
static char *chat_body(const char *message, const char *fields) {
  lap_text text = {0};
  lap_json_writer writer;
  char *body;
  lap_text_add(&text, "{\"messages\":[{\"role\":\"user\",\"content\":");
  lap_write_begin(&writer, &text);
  lap_write_string(&writer, NULL, message);
  lap_write_end(&writer);
  lap_text_add(&text, "}]%s%s}", *fields ? "," : "", fields);
  expect_ok(lap_text_take(&text, &body, NULL, NULL), NULL);
  return body;
}

static answer chat(int port, const char *message, const char *fields) {
  char *body = chat_body(message, fields);
  answer a = ask(port, "/v1/chat/completions", body);
  free(body);
  return a;
}

static char *chat_text(int port, const char *message, const char *fields) {
  answer a = chat(port, message, fields);
  expect_status(&a, 200);
  char *text = strdup(string_at(&a, "choices.0.message.content"));
  assert_non_null(text);
  forget(&a);
  return text;
}

/* Calls `each` with the data of every event of a stream. */
typedef void on_data(void *context, const lap_json_document *document);

static void each_event(const http_result *result, on_data *each, void *context) {
  for (const char *line = result->body; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, "data: {", 7) != 0) continue;
    lap_json_document *document;
    lap_error error;
    expect_ok(lap_json_parse(line + 6, strcspn(line + 6, "\n"), "event", &document, &error), &error);
    each(context, document);
    lap_json_free(document);
  }
}

/* Every "delta" that is a string, every delta.content, delta.text, choices.0.text, in one. */
static void join_text(void *context, const lap_json_document *document) {
  const lap_json *root = lap_json_root(document), *delta = lap_json_get(document, root, "delta");
  const lap_json *choices = lap_json_get(document, root, "choices"), *text = NULL;
  if (choices && choices->child) {
    delta = lap_json_get(document, choices->child, "delta");
    text = delta ? lap_json_get(document, delta, "content") : lap_json_get(document, choices->child, "text");
  } else if (delta && delta->type == LAP_JSON_STRING) {
    text = delta;
  } else {
    text = lap_json_get(document, delta, "text");
  }
  if (text && text->type == LAP_JSON_STRING) lap_text_append(context, text->string, text->length);
}

static char *streamed_text(int port, const char *path, const char *body) {
  lap_text text = {0};
  char *joined;
  http_result result = http_ask(port, "POST", path, "", body);
  assert_int_equal(result.status, 200);
  assert_true(result.whole);
  assert_non_null(strcasestr(result.headers, "Content-Type: text/event-stream"));
  each_event(&result, join_text, &text);
  http_free(&result);
  expect_ok(lap_text_take(&text, &joined, NULL, NULL), NULL);
  return joined;
}

/* ---- what there is --------------------------------------------------------------------------- */

static void endpoints_answer(void **state) {
  fixture *f = *state;
  answer a = ask(f->port, "/health", NULL);
  expect_status(&a, 200);
  assert_string_equal(string_at(&a, "status"), "ok");
  assert_string_equal(string_at(&a, "model"), "pebble");
  assert_string_equal(string_at(&a, "kv"), "plain");
  forget(&a);
  a = ask(f->port, "/v1/models", NULL);
  assert_string_equal(string_at(&a, "data.0.id"), "pebble");
  assert_int_equal(integer_at(&a, "data.0.max_model_len"), 8192);
  forget(&a);
  a = ask(f->port, "/v1/models/pebble", NULL);
  assert_string_equal(string_at(&a, "object"), "model");
  forget(&a);
  a = ask(f->port, "/v1/models/other", NULL);
  expect_status(&a, 404);
  forget(&a);
  a = ask(f->port, "/nothing", NULL);
  expect_status(&a, 404);
  assert_string_equal(string_at(&a, "error.type"), "not_found_error");
  forget(&a);
  a = ask(f->port, "/v1/chat/completions", NULL);
  expect_status(&a, 405);
  assert_non_null(strcasestr(a.result.headers, "Allow: POST"));
  forget(&a);
  a = ask(f->port, "/v1/messages", "{\"messages\":7}");
  expect_status(&a, 400);
  assert_string_equal(string_at(&a, "type"), "error");
  forget(&a);
}

static void tokens_go_both_ways(void **state) {
  fixture *f = *state;
  answer a = ask(f->port, "/tokenize", "{\"content\":\"<|turn>Caf\\u00e9 \\ud83d\\ude00\"}");
  expect_status(&a, 200);
  assert_int_equal(integer_at(&a, "tokens.0"), 5);
  const char *list = strchr(a.result.body, '[');
  char *body;
  assert_true(asprintf(&body, "{\"tokens\":%s", list) > 0);
  answer back = ask(f->port, "/detokenize", body);
  assert_string_equal(string_at(&back, "content"), "<|turn>Caf\xc3\xa9 \xf0\x9f\x98\x80");
  free(body);
  forget(&a);
  forget(&back);
  a = ask(f->port, "/tokenize", "{\"content\":\"<|turn>\",\"parse_special\":false,\"add_special\":true}");
  assert_int_equal(integer_at(&a, "tokens.0"), 2);
  assert_true(integer_at(&a, "tokens.1") != 5);
  forget(&a);
  a = ask(f->port, "/detokenize", "{\"tokens\":[5,-1]}");
  expect_status(&a, 400);
  assert_string_equal(string_at(&a, "error.param"), "tokens[1]");
  forget(&a);
}

/* Control tokens that a user types stay text; the template's become tokens. */
static void templates_are_applied(void **state) {
  fixture *f = *state;
  answer a =
      ask(f->port, "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi <turn|>\"}]}");
  expect_status(&a, 200);
  assert_string_equal(string_at(&a, "prompt"), "<bos><|turn>user\nHi <turn|><turn|>\n<|turn>model\n");
  int turns = 0, ends = 0;
  for (const lap_json *id = at(&a, "tokens")->child; id; id = id->next) {
    turns += id->integer == 5;
    ends += id->integer == 6;
  }
  assert_int_equal(turns, 2);
  assert_int_equal(ends, 1);
  forget(&a);
}

/* ---- answers --------------------------------------------------------------------------------- */

static lap_json_document *read_exam(void) {
  lap_json_document *exam;
  lap_error error;
  expect_ok(lap_json_read(SOURCE_DIR "/tests/data/exam.json", 64 << 20, &exam, &error), &error);
  return exam;
}

/* The recorded prompt is what the template makes of one message, so that can be cut out of it. */
static char *message_of(const char *prompt) {
  static const char before[] = "<bos><|turn>user\n", after[] = "<turn|>\n<|turn>model\n";
  size_t length = strlen(prompt);
  assert_memory_equal(prompt, before, sizeof before - 1);
  assert_string_equal(prompt + length - (sizeof after - 1), after);
  return strndup(prompt + sizeof before - 1, length - (sizeof before - 1) - (sizeof after - 1));
}

static void greedy_answers_are_the_recorded_ones(void **state) {
  fixture *f = *state;
  lap_json_document *exam = read_exam();
  const lap_json *part = lap_json_get(exam, lap_json_root(exam), "kv_bf16");
  int asked = 0, index = 0;
  for (const lap_json *one = lap_json_get(exam, part, "cases")->child; one; one = one->next, index++) {
    const char *task = lap_json_get(exam, one, "task")->string;
    bool plain =
        strcmp(task, "recall_short") == 0 || strcmp(task, "sum") == 0 || strcmp(task, "question") == 0;
    if (!plain || index % 10) continue;
    char *message = message_of(lap_json_get(exam, one, "prompt")->string);
    char *text = chat_text(f->port, message, "\"temperature\":0");
    assert_string_equal(text, lap_json_get(exam, one, "said")->string);
    free(message);
    free(text);
    asked++;
  }
  assert_true(asked >= 8);
  lap_json_free(exam);
}

static void streams_say_what_whole_answers_say(void **state) {
  fixture *f = *state;
  static const struct {
    const char *path, *fields, *whole;
  } cases[] = {
      {"/v1/chat/completions",
       "\"messages\":[{\"role\":\"user\",\"content\":\"Write a story about a cat.\"}]",
       "choices.0.message.content"},
      {"/v1/completions", "\"prompt\":\"Once there was\"", "choices.0.text"},
      {"/v1/responses", "\"input\":\"Write a story about a cat.\"", "output_text"},
      {"/v1/messages", "\"messages\":[{\"role\":\"user\",\"content\":\"Write a story about a cat.\"}]",
       "content.0.text"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char body[512];
    snprintf(body, sizeof body, "{%s,\"seed\":%zu,\"max_tokens\":40,\"stream\":true}", cases[i].fields, i);
    char *streamed = streamed_text(f->port, cases[i].path, body);
    snprintf(body, sizeof body, "{%s,\"seed\":%zu,\"max_tokens\":40}", cases[i].fields, i);
    answer a = ask(f->port, cases[i].path, body);
    assert_true(strlen(streamed) > 20);
    assert_string_equal(streamed, string_at(&a, cases[i].whole));
    free(streamed);
    forget(&a);
  }
}

typedef struct client {
  pthread_t thread;
  int port;
  char message[64], fields[64];
  char *text;
} client;

static void *run_client(void *context) {
  client *c = context;
  c->text = chat_text(c->port, c->message, c->fields);
  return NULL;
}

static void answers_are_the_same_alone_and_among_others(void **state) {
  fixture *f = *state;
  enum {
    CLIENTS = 9
  };
  client clients[CLIENTS];
  char *alone[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = (client){.port = f->port};
    snprintf(clients[i].message, sizeof clients[i].message, "Write a story about %.*s.", 3 * i + 3,
             "a cat and a dog and a drum and a red barn");
    snprintf(clients[i].fields, sizeof clients[i].fields, "\"seed\":%d,\"max_tokens\":%d", i, 8 + 7 * i);
    alone[i] = chat_text(f->port, clients[i].message, clients[i].fields);
  }
  for (int i = 0; i < CLIENTS; i++) pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
  for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i].thread, NULL);
  for (int i = 0; i < CLIENTS; i++) {
    assert_string_equal(clients[i].text, alone[i]);
    free(clients[i].text);
    free(alone[i]);
  }
}

static void tools_make_a_round_trip(void **state) {
  fixture *f = *state;
  static const char tools[] =
      "\"temperature\":0,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","
      "\"description\":\"Get "
      "the weather in a "
      "city\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\","
      "\"description\":\"The city\"}},\"required\":[\"city\"]}}}]";
  answer a = chat(f->port, "What is the weather in Dublin?", tools);
  expect_status(&a, 200);
  assert_string_equal(string_at(&a, "choices.0.finish_reason"), "tool_calls");
  assert_string_equal(string_at(&a, "choices.0.message.tool_calls.0.function.name"), "get_weather");
  assert_string_equal(string_at(&a, "choices.0.message.tool_calls.0.function.arguments"),
                      "{\"city\":\"Dublin\"}");
  char body[2048];
  snprintf(body, sizeof body,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"What is the weather in "
           "Dublin?\"},{\"role\":\"assistant\","
           "\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":"
           "\"get_weather\","
           "\"arguments\":\"{\\\"city\\\":\\\"Dublin\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\","
           "\"content\":"
           "\"{\\\"sky\\\":\\\"snow\\\",\\\"temperature\\\":3}\"}],%s}",
           tools);
  answer b = ask(f->port, "/v1/chat/completions", body);
  expect_status(&b, 200);
  /* What Pebble was trained to say (models/recipe/corpus.py). */
  assert_string_equal(string_at(&b, "choices.0.message.content"),
                      "In Dublin there is snow and it is 3 degrees.");
  assert_true(integer_at(&b, "usage.prompt_tokens_details.cached_tokens") > 0);
  forget(&a);
  forget(&b);
}

static void calls_are_enforced(void **state) {
  fixture *f = *state;
#define TOOLS                                                                                             \
  "\"max_tokens\":60,\"temperature\":0,\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\"," \
  "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"     \
  "\"integer\"}},"                                                                                        \
  "\"required\":[\"a\",\"b\"]}}},{\"type\":\"function\",\"function\":{\"name\":\"stop\"}}]"
  answer a = chat(f->port, "Hello",
                  TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"add\"}}");
  expect_status(&a, 200);
  assert_string_equal(string_at(&a, "choices.0.message.tool_calls.0.function.name"), "add");
  forget(&a);
  a = chat(f->port, "Hello", TOOLS ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false");
  assert_int_equal(at(&a, "choices.0.message.tool_calls")->length, 1);
  forget(&a);
  a = chat(f->port, "Use the tool to add 4 and 5.", TOOLS ",\"tool_choice\":\"none\"");
  assert_null(at(&a, "choices.0.message.tool_calls"));
  forget(&a);
}

static void formats_are_enforced(void **state) {
  fixture *f = *state;
  answer a =
      chat(f->port, "Write a story.",
           "\"seed\":3,\"max_tokens\":80,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
           "\"schema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":10,"
           "\"maximum\":12}},\"required\":[\"n\"],\"additionalProperties\":false}}}");
  expect_status(&a, 200);
  lap_json_document *said;
  lap_error error;
  const char *text = string_at(&a, "choices.0.message.content");
  expect_ok(lap_json_parse(text, strlen(text), "said", &said, &error), &error);
  int64_t n = lap_json_get(said, lap_json_root(said), "n")->integer;
  assert_true(n >= 10 && n <= 12);
  lap_json_free(said);
  forget(&a);
  char *word = chat_text(f->port, "Write a story.", "\"grammar\":\"root ::= \\\"drum\\\" | \\\"lamp\\\"\"");
  assert_true(strcmp(word, "drum") == 0 || strcmp(word, "lamp") == 0);
  free(word);
  a = chat(f->port, "x", "\"grammar\":\"root ::= (\"");
  expect_status(&a, 400);
  assert_string_equal(string_at(&a, "error.param"), "grammar");
  forget(&a);
}

static void stop_strings_end_and_are_named(void **state) {
  fixture *f = *state;
  char *full = chat_text(f->port, "What is 74 - 8?", "\"temperature\":0");
  assert_string_equal(full, "66");
  free(full);
  answer a = ask(f->port, "/v1/messages",
                 "{\"max_tokens\":20,\"temperature\":0,\"stop_sequences\":[\"x\",\"66\"],\"messages\":[{"
                 "\"role\":\"user\","
                 "\"content\":\"What is 74 - 8?\"}]}");
  assert_string_equal(string_at(&a, "stop_reason"), "stop_sequence");
  assert_string_equal(string_at(&a, "stop_sequence"), "66");
  assert_int_equal(at(&a, "content")->length, 0);
  forget(&a);
  a = chat(f->port, "Write a story.", "\"max_tokens\":3");
  assert_string_equal(string_at(&a, "choices.0.finish_reason"), "length");
  assert_int_equal(integer_at(&a, "usage.completion_tokens"), 3);
  forget(&a);
}

static void choices_and_probabilities_are_given(void **state) {
  fixture *f = *state;
  answer a = chat(f->port, "Write a story.",
                  "\"n\":2,\"seed\":1,\"max_tokens\":12,\"logprobs\":true,\"top_logprobs\":2");
  expect_status(&a, 200);
  assert_int_equal(at(&a, "choices")->length, 2);
  assert_true(
      strcmp(string_at(&a, "choices.0.message.content"), string_at(&a, "choices.1.message.content")) != 0);
  lap_text joined = {0};
  for (const lap_json *one = at(&a, "choices.0.logprobs.content")->child; one; one = one->next) {
    const lap_json *token = lap_json_get(a.document, one, "token");
    double logprob = lap_json_get(a.document, one, "logprob")->real;
    const lap_json *top = lap_json_get(a.document, one, "top_logprobs");
    lap_text_append(&joined, token->string, token->length);
    assert_true(logprob <= 0);
    assert_int_equal(top->length, 2);
    assert_true(lap_json_get(a.document, top->child, "logprob")->real >= logprob);
  }
  assert_string_equal(lap_text_data(&joined), string_at(&a, "choices.0.message.content"));
  lap_text_free(&joined);
  /* The first choice is what the seed gives alone. */
  char *alone = chat_text(f->port, "Write a story.", "\"seed\":1,\"max_tokens\":12");
  assert_string_equal(alone, string_at(&a, "choices.0.message.content"));
  free(alone);
  forget(&a);
}

/* The tokens that come with a piece of text make up that piece. */
static void check_piece(void *context, const lap_json_document *document) {
  int *pieces = context;
  const lap_json *choices = lap_json_get(document, lap_json_root(document), "choices");
  const lap_json *choice = choices ? choices->child : NULL;
  const lap_json *content = lap_json_get(document, lap_json_get(document, choice, "delta"), "content");
  const lap_json *notes = lap_json_get(document, lap_json_get(document, choice, "logprobs"), "content");
  if (!content || content->length == 0) return;
  lap_text joined = {0};
  assert_non_null(notes);
  for (const lap_json *one = notes->child; one; one = one->next) {
    const lap_json *token = lap_json_get(document, one, "token");
    lap_text_append(&joined, token->string, token->length);
  }
  assert_string_equal(lap_text_data(&joined), content->string);
  lap_text_free(&joined);
  ++*pieces;
}

static void streamed_probabilities_belong_to_their_text(void **state) {
  fixture *f = *state;
  int pieces = 0;
  char *body = chat_body("Write a story.", "\"seed\":2,\"max_tokens\":15,\"logprobs\":true,\"stream\":true");
  http_result result = http_ask(f->port, "POST", "/v1/chat/completions", "", body);
  each_event(&result, check_piece, &pieces);
  assert_true(pieces >= 10);
  http_free(&result);
  free(body);
}

/* ---- the prompt cache ------------------------------------------------------------------------ */

static void a_second_turn_is_cached_and_the_same(void **state) {
  fixture *f = *state;
  fixture cold = {0};
  open_server(&cold, LAP_KV_PLAIN, (lap_server_options){0});
  static const char turn[] =
      "{\"seed\":4,\"max_tokens\":30,\"messages\":[{\"role\":\"user\",\"content\":\"Write a story about a "
      "lamp in a barn.\"},"
      "{\"role\":\"assistant\",\"content\":\"There was a lamp.\"},{\"role\":\"user\",\"content\":\"Write a "
      "story.\"}]}";
  char *first = chat_text(f->port, "Write a story about a lamp in a barn.", "\"seed\":9,\"max_tokens\":30");
  free(first);
  answer warm = ask(f->port, "/v1/chat/completions", turn);
  answer fresh = ask(cold.port, "/v1/chat/completions", turn);
  assert_int_equal(integer_at(&fresh, "usage.prompt_tokens_details.cached_tokens"), 0);
  assert_true(integer_at(&warm, "usage.prompt_tokens_details.cached_tokens") >= 15);
  assert_string_equal(string_at(&warm, "choices.0.message.content"),
                      string_at(&fresh, "choices.0.message.content"));
  forget(&warm);
  forget(&fresh);
  close_server(&cold, 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Never ends by itself: the end tokens are banned. */
#define ENDLESS "\"logit_bias\":{\"1\":-100,\"6\":-100,\"14\":-100},\"stream\":true"

static int64_t metric(int port, const char *name) {
  http_result result = http_ask(port, "GET", "/metrics", "", NULL);
  assert_int_equal(result.status, 200);
  char line[128];
  snprintf(line, sizeof line, "\n%s ", name);
  const char *found = strstr(result.body, line);
  int64_t value = found ? strtoll(found + strlen(line), NULL, 10) : -1;
  http_free(&result);
  return value;
}

static void wait_for_metric(int port, const char *name, int64_t wanted) {
  const struct timespec moment = {.tv_nsec = 20000000};
  double until = lap_seconds() + 20;
  while (metric(port, name) != wanted) {
    if (lap_seconds() > until) fail_msg("%s is not %lld", name, (long long)wanted);
    nanosleep(&moment, NULL);
  }
}

static int start_endless(int port) {
  char *body = chat_body("Write a story.", ENDLESS);
  int s = http_connect(port);
  http_send(s, "POST", "/v1/chat/completions", "", body);
  free(body);
  return s;
}

static void a_full_queue_says_when_to_come_back(void **state) {
  (void)state;
  fixture f = {0};
  open_server(&f, LAP_KV_CONFIG, (lap_server_options){.service = {.batch.parallel = 1, .max_queue = 1}});
  int running = start_endless(f.port);
  assert_true(http_wait_for(running, "\"content\":\""));
  int waiting = start_endless(f.port);
  wait_for_metric(f.port, "lapidary_requests_waiting", 1);
  answer a = chat(f.port, "x", "");
  expect_status(&a, 429);
  assert_string_equal(string_at(&a, "error.code"), "rate_limit_exceeded");
  assert_non_null(strcasestr(a.result.headers, "Retry-After: "));
  forget(&a);
  a = chat(f.port, "x", "\"n\":3");
  expect_status(&a, 400);
  forget(&a);
  /* Who goes makes room, running or waiting. */
  close(waiting);
  wait_for_metric(f.port, "lapidary_requests_waiting", 0);
  close(running);
  wait_for_metric(f.port, "lapidary_requests_running", 0);
  char *text = chat_text(f.port, "What is 74 - 8?", "\"temperature\":0");
  assert_string_equal(text, "66");
  free(text);
  close_server(&f, 1);
}

/* A client that reads nothing and says nothing, on a stream that rests, is noticed at its socket. */
static void a_client_that_goes_frees_its_slot(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    int s = start_endless(f->port);
    if (i == 1) assert_true(http_wait_for(s, "\"content\":\""));
    if (i == 2) shutdown(s, SHUT_WR);
    close(s);
  }
  /* Not streamed: nothing would be written until the end. */
  int s = http_connect(f->port);
  http_send(s, "POST", "/v1/chat/completions", "",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logit_bias\":{\"1\":-100,\"6\":-100,"
            "\"14\":-100}}");
  wait_for_metric(f->port, "lapidary_requests_running", 1);
  close(s);
  wait_for_metric(f->port, "lapidary_requests_running", 0);
  wait_for_metric(f->port, "lapidary_requests_waiting", 0);
}

static void what_does_not_fit_is_an_error(void **state) {
  fixture *f = *state;
  lap_text text = {0};
  for (int i = 0; i < 9000; i++) lap_text_append(&text, "a b ", 4);
  answer a = chat(f->port, text.data, "");
  expect_status(&a, 400);
  assert_string_equal(string_at(&a, "error.code"), "context_length_exceeded");
  forget(&a);
  for (int i = 0; i < 5 * 1024 * 1024; i++) lap_text_append(&text, "a b ", 4);
  a = chat(f->port, text.data, "");
  expect_status(&a, 413);
  forget(&a);
  lap_text_free(&text);
}

static void shutting_down_is_bounded(void **state) {
  (void)state;
  fixture f = {0};
  open_server(&f, LAP_KV_CONFIG, (lap_server_options){.service.batch.parallel = 2});
  int streaming = start_endless(f.port);
  assert_true(http_wait_for(streaming, "\"content\":\""));
  int silent = http_connect(f.port);
  http_send(silent, "POST", "/v1/messages", "",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":8000,\"ignore_eos\":true}");
  wait_for_metric(f.port, "lapidary_requests_running", 2);
  double start = lap_seconds();
  close_server(&f, 0.2);
  assert_true(lap_seconds() - start < 10);
  assert_true(http_wait_for(streaming, "shutting down"));
  close(streaming);
  http_result result = http_receive(silent);
  assert_int_equal(result.status, 503);
  assert_non_null(strstr(result.body, "overloaded_error"));
  http_free(&result);
}

/* ---- who may ask ----------------------------------------------------------------------------- */

static void keys_and_origins_are_asked_for(void **state) {
  (void)state;
  static const char *const origins[] = {"https://example.org"};
  fixture f = {0};
  open_server(
      &f, LAP_KV_CONFIG,
      (lap_server_options){.api_key = "secret", .origins = origins, .origin_count = 1, .name = "stone"});
  static const struct {
    const char *path, *headers;
    int status;
  } cases[] = {
      {"/v1/models", "", 401},
      {"/v1/models", "Authorization: Bearer secres\r\n", 401},
      {"/v1/models", "Authorization: Bearer secret2\r\n", 401},
      {"/v1/models", "Authorization: Bearer secret\r\n", 200},
      {"/v1/models", "x-api-key: secret\r\n", 200},
      {"/metrics", "", 401},
      {"/health", "", 200},
      {"/health", "Origin: https://elsewhere.net\r\n", 403},
      {"/health", "Origin: https://example.org\r\n", 200},
      {"/health", "Origin: http://localhost\r\n", 200}, /* the page's own: what Host says */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    http_result result = http_ask(f.port, "GET", cases[i].path, cases[i].headers, NULL);
    if (result.status != cases[i].status)
      fail_msg("%s %s: %d", cases[i].path, cases[i].headers, result.status);
    bool allowed = strcasestr(result.headers, "Access-Control-Allow-Origin: https://example.org");
    assert_int_equal(allowed, strstr(cases[i].headers, "example.org") != NULL);
    http_free(&result);
  }
  http_result result = http_ask(f.port, "OPTIONS", "/v1/messages", "Origin: https://example.org\r\n", NULL);
  assert_int_equal(result.status, 204);
  assert_non_null(strcasestr(result.headers, "Access-Control-Allow-Headers: "));
  http_free(&result);
  result = http_ask(f.port, "GET", "/v1/models", "x-api-key: secret\r\n", NULL);
  assert_non_null(strstr(result.body, "\"id\":\"stone\""));
  http_free(&result);
  close_server(&f, 1);
}

/* ---- the groups ------------------------------------------------------------------------------ */

static int open_shared(void **state) {
  static fixture shared;
  open_server(&shared, LAP_KV_PLAIN, (lap_server_options){.service.batch.cache_bytes = 64 << 20});
  *state = &shared;
  return 0;
}

static int close_shared(void **state) {
  close_server(*state, 1);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(endpoints_answer),
      cmocka_unit_test(tokens_go_both_ways),
      cmocka_unit_test(templates_are_applied),
      cmocka_unit_test(greedy_answers_are_the_recorded_ones),
      cmocka_unit_test(streams_say_what_whole_answers_say),
      cmocka_unit_test(answers_are_the_same_alone_and_among_others),
      cmocka_unit_test(tools_make_a_round_trip),
      cmocka_unit_test(calls_are_enforced),
      cmocka_unit_test(formats_are_enforced),
      cmocka_unit_test(stop_strings_end_and_are_named),
      cmocka_unit_test(choices_and_probabilities_are_given),
      cmocka_unit_test(streamed_probabilities_belong_to_their_text),
      cmocka_unit_test(a_second_turn_is_cached_and_the_same),
      cmocka_unit_test(a_client_that_goes_frees_its_slot),
      cmocka_unit_test(what_does_not_fit_is_an_error),
      cmocka_unit_test(a_full_queue_says_when_to_come_back),
      cmocka_unit_test(shutting_down_is_bounded),
      cmocka_unit_test(keys_and_origins_are_asked_for),
  };
  return cmocka_run_group_tests(tests, open_shared, close_shared);
}
