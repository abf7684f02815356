/* test_output.c: the parser of what the model says. Each case is a text and what must be reported of it; it
 * is fed whole, byte by byte, in two parts cut at every position, and as Pebble's tokens, and the reports
 * must agree. */
#include "support/check.h"
#include "text/output.h"
#include "text/tokenizer.h"

#define PEBBLE SOURCE_DIR "/models/pebble/tokenizer.json"
#define EXAM   SOURCE_DIR "/tests/data/exam.json"
#define BROKEN "\xef\xbf\xbd"

static lap_tokenizer *pebble, *bytes_only;

/* ---- what is reported ------------------------------------------------------------------------ */

/* The events as one text: "[content]...", "[thought 0]...", "[call 0 NAME]JSON"; pieces of one text joined.
 */
typedef struct report {
  char *text;
  size_t length, capacity;
  int kind, index; /* of the last event; kind -1 at first */
  int events;
} report;

static void add(report *to, const char *text, size_t length) {
  if (to->length + length + 1 > to->capacity) {
    to->capacity = 2 * to->capacity + length + 64;
    to->text = realloc(to->text, to->capacity);
    assert_non_null(to->text);
  }
  if (length) memcpy(to->text + to->length, text, length);
  to->length += length;
  to->text[to->length] = '\0';
}

static void note(void *context, const lap_piece *event) {
  static const char *const names[] = {"content", "thought", "call"};
  report *to = context;
  char head[128];
  assert_int_equal(event->text[event->length], 0);
  assert_true(event->length > 0);
  if (event->kind == LAP_PIECE_CALL)
    snprintf(head, sizeof head, "[call %d %s]", event->index, event->name);
  else if (event->kind == LAP_PIECE_THOUGHT)
    snprintf(head, sizeof head, "[thought %d]", event->index);
  else
    snprintf(head, sizeof head, "[%s]", names[event->kind]);
  if (event->kind == LAP_PIECE_CALL || (int)event->kind != to->kind || event->index != to->index)
    add(to, head, strlen(head));
  add(to, event->text, event->length);
  to->kind = (int)event->kind;
  to->index = event->index;
  to->events++;
}

static lap_output *begin(report *to, const lap_tokenizer *tokenizer) {
  static const char *const tools[] = {"search", "get.weather", "a:b"};
  lap_error error;
  lap_output *output;
  *to = (report){.kind = -1};
  add(to, "", 0);
  const lap_output_options options = {
      .tokenizer = tokenizer, .tools = tools, .tool_count = 3, .sink = note, .context = to};
  expect_ok(lap_output_create(&options, &output, &error), &error);
  return output;
}

static void end(lap_output *output) {
  lap_error error;
  expect_ok(lap_output_finish(output, &error), &error);
  assert_true(lap_output_ended(output));
  lap_output_destroy(output);
}

static void feed(lap_output *output, const char *text, size_t length) {
  lap_error error;
  expect_ok(lap_output_text(output, text, length, &error), &error);
}

static int32_t *encode(const lap_tokenizer *tokenizer, const char *text, size_t length, bool special,
                       size_t *count) {
  lap_error error;
  int32_t *ids;
  expect_ok(lap_tokenizer_encode(tokenizer, text, length, special, &ids, count, &error), &error);
  return ids;
}

static void feed_tokens(lap_output *output, const lap_tokenizer *tokenizer, const char *text, size_t length) {
  lap_error error;
  size_t count;
  int32_t *ids = encode(tokenizer, text, length, true, &count);
  for (size_t i = 0; i < count; i++) expect_ok(lap_output_token(output, ids[i], &error), &error);
  free(ids);
}

/* ---- one text in all ways -------------------------------------------------------------------- */

static void expect_report(report *got, const char *expected, const char *how, const char *text) {
  if (strcmp(got->text, expected) != 0)
    fail_msg("%s: '%.300s'\n is read as %.600s\n instead of %.600s", how, text, got->text, expected);
  free(got->text);
}

static void prompt_with(lap_output *output, const lap_tokenizer *tokenizer, const char *prompt) {
  lap_error error;
  size_t count;
  if (!prompt) return;
  if (!tokenizer) {
    expect_ok(lap_output_prompt_text(output, prompt, strlen(prompt), &error), &error);
    return;
  }
  int32_t *ids = encode(tokenizer, prompt, strlen(prompt), true, &count);
  expect_ok(lap_output_prompt(output, ids, count, &error), &error);
  free(ids);
}

static void check_after(const char *prompt, const char *text, const char *expected) {
  report got;
  size_t length = strlen(text);
  for (size_t cut = 0; cut <= length; cut++) {
    lap_output *output = begin(&got, NULL);
    prompt_with(output, NULL, prompt);
    feed(output, text, cut);
    feed(output, text + cut, length - cut);
    end(output);
    expect_report(&got, expected, "cut", text);
  }
  lap_output *output = begin(&got, NULL);
  prompt_with(output, NULL, prompt);
  for (size_t i = 0; i < length; i++) feed(output, text + i, 1);
  end(output);
  expect_report(&got, expected, "byte by byte", text);
  /* Tokens that are markers, and tokens that spell them. */
  const lap_tokenizer *tokenizers[] = {pebble, bytes_only};
  for (int i = 0; i < 2; i++) {
    output = begin(&got, tokenizers[i]);
    prompt_with(output, tokenizers[i], prompt);
    feed_tokens(output, tokenizers[i], text, length);
    end(output);
    expect_report(&got, expected, i ? "tokens that spell" : "tokens", text);
  }
}

static void check(const char *text, const char *expected) {
  check_after(NULL, text, expected);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define NOTE                                                                                                 \
  "<|tool_call>call:note-add{body:<|\"|>say \"hi\" {x} }\n\tend<|\"|>,n:-1.5e3,flags:[true,null,{a-b:<|\"|>" \
  "<|\"|>}]}<tool_call|>"
#define NOTED "{\"body\":\"say \\\"hi\\\" {x} }\\n\\tend\",\"n\":-1.5e3,\"flags\":[true,null,{\"a-b\":\"\"}]}"
#define PING  "<|tool_call>call:ping{}<tool_call|>"

static void calls_are_reported_whole(void **state) {
  (void)state;
  check(NOTE PING, "[call 0 note-add]" NOTED "[call 1 ping]{}");
  check(PING, "[call 0 ping]{}");
  check("Wait.\n" PING "\n" NOTE "\n\nDone.\n",
        "[content]Wait.[call 0 ping]{}[call 1 note-add]" NOTED "[content]Done.\n");
}

static void a_missing_end_tag_is_seen_by_what_follows(void **state) {
  (void)state;
  check("<|tool_call>call:ping{}", "[call 0 ping]{}");
  check("<|tool_call>call:ping{}" PING, "[call 0 ping]{}[call 1 ping]{}");
  check("<|tool_call>call:ping{}<|tool_response>response:ping{}", "[call 0 ping]{}");
  check("<|tool_call>call:ping{}<turn|>", "[call 0 ping]{}");
  check("<|tool_call>call:ping{}<|channel>thought\na<channel|>b", "[call 0 ping]{}[thought 0]a[content]b");
  check("<|tool_call>call:ping{}\nIt is <|\"|>done<|\"|>.",
        "[call 0 ping]{}[content]It is <|\"|>done<|\"|>.");
}

static void malformed_calls_become_content_with_nothing_lost(void **state) {
  (void)state;
  static const char *const texts[] = {
      "<|tool_call>",
      "<|tool_call><tool_call|>",
      "<|tool_call>call:ping<tool_call|>",
      "<|tool_call>call:ping{<tool_call|>",
      "<|tool_call>call:f{x:<|\"|>a}<tool_call|>",
      "<|tool_call>call:f{x:<|\"|>a<|\"|><|\"|>b<|\"|>}<tool_call|>",
      "<|tool_call>call:f{x:1,x:2}<tool_call|>",
      "<|tool_call>{\"name\":\"f\",\"arguments\":{}}<tool_call|>",
      "<|tool_call>call:f{x:\"a}<tool_call|>",
      "<|tool_call>call:f{x:`a}<tool_call|>",
      "<|tool_call>call:f(\"a\")<tool_call|>",
      "<|tool_call>  spaces \n <tool_call|>",
      "<|tool_call>call:f{x:<|\"|>cut off",
      "<|tool_call>call:f{x:12",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[256], expected[256];
    snprintf(expected, sizeof expected, "[content]%s", texts[i]);
    check(texts[i], expected);
    /* With white space around, which is then no layout. */
    snprintf(text, sizeof text, "So: \n%s", texts[i]);
    snprintf(expected, sizeof expected, "[content]So: \n%s", texts[i]);
    check(text, expected);
  }
  check("<|tool_call>oh<tool_call|>\n\n" PING, "[content]<|tool_call>oh<tool_call|>[call 0 ping]{}");
  check("<|tool_call>oh<|tool_call>no<tool_call|> x", "[content]<|tool_call>oh<|tool_call>no<tool_call|> x");
}

static void lenient_calls_are_understood(void **state) {
  (void)state;
  check("<|tool_call>call:f{city=Paris}<tool_call|>", "[call 0 f]{\"city\":\"Paris\"}");
  check("<|tool_call>call:f{city:`Paris`}<tool_call|>", "[call 0 f]{\"city\":\"Paris\"}");
  check("<|tool_call>call:f{city:\"Paris\"}<tool_call|>", "[call 0 f]{\"city\":\"Paris\"}");
  check("<|tool_call>call:f(city:<|\"|>Paris<|\"|>)<tool_call|>", "[call 0 f]{\"city\":\"Paris\"}");
  check("<|tool_call>call:f{x:1}}<tool_call|>", "[call 0 f]{\"x\":1}[content]}");
}

static void a_name_in_a_namespace_is_that_of_the_tool(void **state) {
  (void)state;
  check("<|tool_call>call:google:mcp:search{}<tool_call|>", "[call 0 search]{}");
  check("<|tool_call>call:functions.search{}<tool_call|>", "[call 0 search]{}");
  check("<|tool_call>call:get.weather{}<tool_call|>", "[call 0 get.weather]{}");
  check("<|tool_call>call:a:b{}<tool_call|>", "[call 0 a:b]{}");
  check("<|tool_call>call:google:other{}<tool_call|>", "[call 0 google:other]{}");
}

static void other_markers_outside_their_place_say_nothing(void **state) {
  (void)state;
  check("a<tool_call|>b<channel|>c<|\"|>d", "[content]abcd");
  check("<|channel>thought\na<tool_call|>b<|\"|>c<channel|>d", "[thought 0]abc[content]d");
}

static void nothing_is_said_after_the_turn(void **state) {
  (void)state;
  check("a<turn|>b" PING "<|channel>thought\nc", "[content]a");
  check("a\n<turn|>\n", "[content]a\n");
  check("a<|turn>user\nb", "[content]a");
  check(PING "<|tool_response>response:ping{value:1}", "[call 0 ping]{}");
}

/* 10000 braces, and strings and runs far longer than anything that is held back. */
static void long_and_deep_streams_come_through(void **state) {
  (void)state;
  enum {
    BRACES = 10000,
    LONG = 200000
  };
  report got;
  static char text[LONG + 64], expected[LONG + 128];
  for (int closed = 0; closed < 2; closed++) {
    int length = sprintf(text, "<|tool_call>call:f");
    memset(text + length, '{', BRACES);
    length += BRACES;
    if (closed) length += sprintf(text + length, "<tool_call|>");
    lap_output *output = begin(&got, NULL);
    for (int i = 0; i < length; i++) feed(output, text + i, 1);
    end(output);
    text[length] = '\0';
    snprintf(expected, sizeof expected, "[content]%s", text);
    expect_report(&got, expected, "braces", "braces");
  }
  int length = sprintf(text, "<|tool_call>call:f{x:<|\"|>");
  memset(text + length, 'a', LONG - 100);
  sprintf(text + length + LONG - 100, "<|\"|>}<tool_call|>");
  lap_output *output = begin(&got, pebble);
  feed_tokens(output, pebble, text, strlen(text));
  end(output);
  assert_int_equal(got.length, strlen("[call 0 f]{\"x\":\"\"}") + LONG - 100);
  free(got.text);
  /* White space that never ends is content; a little of it at the end is too. */
  memset(text, '\n', LONG);
  memcpy(text + LONG, PING, sizeof PING);
  output = begin(&got, NULL);
  feed(output, text, strlen(text));
  end(output);
  assert_non_null(strstr(got.text, "[call 0 ping]"));
  assert_true(got.length > LONG - 1000);
  free(got.text);
}

static void a_call_beyond_the_limit_is_content_to_its_end_tag(void **state) {
  (void)state;
  report got;
  char *text = malloc(LAP_OUTPUT_MAX_CALL + 256);
  assert_non_null(text);
  size_t length = (size_t)sprintf(text, "a <|tool_call>call:f{x:<|\"|>");
  memset(text + length, 'a', LAP_OUTPUT_MAX_CALL);
  length += LAP_OUTPUT_MAX_CALL;
  length += (size_t)sprintf(text + length, "<|\"|>}<tool_call|>\n" PING);
  for (size_t step = 1 << 20; step >= 1 << 14; step /= 8) {
    lap_output *output = begin(&got, NULL);
    for (size_t at = 0; at < length; at += step)
      feed(output, text + at, step < length - at ? step : length - at);
    end(output);
    size_t content = length - strlen("\n" PING);
    assert_int_equal(got.length, strlen("[content]") + content + strlen("[call 0 ping]{}"));
    assert_memory_equal(got.text + strlen("[content]"), text, content);
    free(got.text);
  }
  free(text);
}

/* ---- thoughts -------------------------------------------------------------------------------- */

static void thoughts_are_separated(void **state) {
  (void)state;
  check("<|channel>thought\n<channel|>7", "[content]7");
  check("<|channel>thought\nabc<channel|>", "[thought 0]abc");
  check("<|channel>thought\nabc\n<channel|>7", "[thought 0]abc[content]7");
  check("<|channel>thought\nabc", "[thought 0]abc");
  check("I had a thought\nand a <channel", "[content]I had a thought\nand a <channel");
  check("<|channel>thought\na<channel|>x<|channel>thought\nb<channel|>y",
        "[thought 0]a[content]x[thought 1]b[content]y");
  check("<|channel>thought\n<channel|><|channel>thought\nb<channel|>y", "[thought 0]b[content]y");
  check("<|channel>thought\na<|channel>thought\nb<channel|>y", "[thought 0]a[thought 1]b[content]y");
  check("<|channel>thought\na\n" PING, "[thought 0]a[call 0 ping]{}");
  check("<|channel>thought\na<turn|>b", "[thought 0]a");
}

static void a_thoughts_layout_is_dropped_and_nothing_else(void **state) {
  (void)state;
  check("<|channel>thought\n\n a\n\nb \n\n<channel|>\n\n7\n", "[thought 0]\n a\n\nb \n[content]7\n");
  check("\n<|channel>thought\na<channel|>\n", "[thought 0]a");
  check("<|channel>thoughtful<channel|>", "[thought 0]thoughtful");
  check("<|channel>thought<channel|>7", "[content]7");
  check("<|channel>tho<channel|>7", "[thought 0]tho[content]7");
  check("<|channel>\nabc<channel|>", "[thought 0]\nabc");
  check("<|channel><channel|>7", "[content]7");
  check(" 7 \n", "[content] 7 \n");
}

static void an_answer_begins_where_the_prompt_ended(void **state) {
  (void)state;
#define TURN "<bos><|turn>user\nhi <|channel>thought\n<turn|>\n<|turn>model\n"
  check_after(TURN "<|channel>thought\n", "abc<channel|>7", "[thought 0]abc[content]7");
  check_after(TURN "<|channel>thought", "\nabc<channel|>7", "[thought 0]abc[content]7");
  check_after(TURN "<|channel>", "thought\nabc<channel|>7", "[thought 0]abc[content]7");
  check_after(TURN "<|channel>thought\nearlier\n", "abc<channel|>7", "[thought 0]abc[content]7");
  check_after(TURN "<|channel>thought\n<channel|>", "7", "[content]7");
  check_after(TURN "<|channel>thought\nearlier<channel|>", "\n7<|channel>thought\nb",
              "[content]7[thought 0]b");
  check_after(TURN, "7", "[content]7");
  check_after(TURN, " 7", "[content] 7");
  check_after(TURN PING "<|tool_response>response:ping{value:1}<tool_response|>", "7" PING,
              "[content]7[call 0 ping]{}");
  /* A call that the prompt began for the model. */
  check_after(TURN "<|tool_call>call:search{", "x:1}<tool_call|>", "[call 0 search]{\"x\":1}");
  check_after(TURN "<|tool_call>call:search{", "x:", "[content]<|tool_call>call:search{x:");
  check_after("", "7", "[content]7");
}

/* ---- text ------------------------------------------------------------------------------------ */

static void beginnings_of_markers_are_text(void **state) {
  (void)state;
  check("a < b <| c <|tool d <|tool_cal e <<|channe", "[content]a < b <| c <|tool d <|tool_cal e <<|channe");
  check("<<|channel>thought\n<a<channel|><", "[content]<[thought 0]<a[content]<");
  check("<|tool_c<|tool_call>call:ping{}<tool_call<tool_call|>",
        "[content]<|tool_c[call 0 ping]{}[content]<tool_call");
}

static void broken_bytes_become_replacement_characters(void **state) {
  (void)state;
  check(
      "a\xff"
      "b\xe2\x82<|channel>thought\n\xf0\x9f\x98\x80\xc3<channel|>\xe2\x82\xac\xf0\x9f",
      "[content]a" BROKEN "b" BROKEN "[thought 0]\xf0\x9f\x98\x80" BROKEN "[content]\xe2\x82\xac" BROKEN);
  check("<|tool_call>call:f{x:<|\"|>\xff<|\"|>}<tool_call|>", "[call 0 f]{\"x\":\"" BROKEN "\"}");
  check("<|tool_call>call:f{x:\xff}<tool_call|>", "[call 0 f]{\"x\":\"" BROKEN "\"}");
  report got;
  lap_output *output = begin(&got, NULL);
  feed(output, "a\0b<\0|", 6);
  end(output);
  assert_int_equal(got.length, strlen("[content]") + 6);
  assert_memory_equal(got.text + strlen("[content]"), "a\0b<\0|", 6);
  free(got.text);
}

/* Where the tokenizer has a token for a marker, other tokens that spell it are text. */
static void spelled_markers_are_text_among_tokens(void **state) {
  (void)state;
  report got;
  lap_error error;
  size_t count;
  static const char text[] = "<|channel>thought\nabc<channel|>" PING;
  int32_t *ids = encode(pebble, text, strlen(text), false, &count);
  lap_output *output = begin(&got, pebble);
  for (size_t i = 0; i < count; i++) expect_ok(lap_output_token(output, ids[i], &error), &error);
  end(output);
  expect_report(&got, "[content]<|channel>thought\nabc<channel|>" PING, "spelled", text);
  free(ids);
}

static void tokens_without_text_say_nothing(void **state) {
  (void)state;
  report got;
  lap_error error;
  lap_output *output = begin(&got, pebble);
  const int32_t ids[] = {-1, 1 << 30, lap_tokenizer_size(pebble), 0, 1, 2, 7};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    expect_ok(lap_output_token(output, ids[i], &error), &error);
  feed_tokens(output, pebble, "hi", 2);
  end(output);
  expect_report(&got, "[content]hi", "control tokens", "");
}

static void content_does_not_wait(void **state) {
  (void)state;
  report got;
  lap_output *output = begin(&got, NULL);
  static const struct {
    const char *text, *reported;
  } steps[] = {
      {"He", "[content]He"},
      {"llo ", "[content]Hello"},
      {"you", "[content]Hello you"},
      {"<|ch", "[content]Hello you"},
      {"annel>thou", "[content]Hello you"},
      {"ght\nso", "[content]Hello you[thought 0]so"},
      {"\n", "[content]Hello you[thought 0]so"},
      {"far", "[content]Hello you[thought 0]so\nfar"},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    feed(output, steps[i].text, strlen(steps[i].text));
    assert_string_equal(got.text, steps[i].reported);
  }
  assert_false(lap_output_ended(output));
  end(output);
  free(got.text);
}

/* ---- the exam -------------------------------------------------------------------------------- */

/* What the exam expects is `<|tool_call>call:get_weather{city:<|"|>CITY<|"|>}<tool_call|>` or a sum. */
static void expected_report(const char *expected, char *out, size_t size) {
  char city[64];
  int a, b;
  if (sscanf(expected, "<|tool_call>call:get_weather{city:<|\"|>%63[^<]<|\"|>}", city) == 1)
    snprintf(out, size, "[call 0 get_weather]{\"city\":\"%s\"}", city);
  else if (sscanf(expected, "<|tool_call>call:add{a:%d,b:%d}", &a, &b) == 2)
    snprintf(out, size, "[call 0 add]{\"a\":%d,\"b\":%d}", a, b);
  else
    fail_msg("unknown expectation %s", expected);
}

static int check_exam(const lap_json_document *exam, const char *kind) {
  const lap_json *cases = lap_json_get(exam, lap_json_get(exam, lap_json_root(exam), kind), "cases");
  int checked = 0;
  for (const lap_json *one = cases->child; one; one = one->next) {
    if (strcmp(lap_json_get(exam, one, "task")->string, "tool") != 0) continue;
    const char *prompt = lap_json_get(exam, one, "prompt")->string;
    const char *said = lap_json_get(exam, one, "said")->string;
    char expected[128];
    report got;
    lap_error error;
    expected_report(lap_json_get(exam, one, "expected")->string, expected, sizeof expected);
    lap_output *output = begin(&got, NULL);
    prompt_with(output, NULL, prompt);
    feed(output, said, strlen(said));
    end(output);
    expect_report(&got, expected, "as text", said);
    output = begin(&got, pebble);
    prompt_with(output, pebble, prompt);
    for (const lap_json *id = lap_json_get(exam, one, "ids")->child; id; id = id->next)
      expect_ok(lap_output_token(output, (int32_t)id->integer, &error), &error);
    end(output);
    expect_report(&got, expected, "as tokens", said);
    checked++;
  }
  return checked;
}

static void pebbles_calls_are_those_of_its_exam(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *exam;
  expect_ok(lap_json_read(EXAM, 1 << 24, &exam, &error), &error);
  assert_int_equal(check_exam(exam, "kv_bf16"), 40);
  assert_int_equal(check_exam(exam, "kv_quantized"), 40);
  lap_json_free(exam);
}

/* ---- everything at once ---------------------------------------------------------------------- */

static void any_stream_is_read_the_same_however_it_is_cut(void **state) {
  (void)state;
  static const char *const parts[] = {
      "<|channel>", "thought\n", "<channel|>", "<|tool_call>", "call:f{", "x:1",  "}",        "<tool_call|>",
      "<|\"|>",     "a",         " ",          "\n",           "<",       "\xff", "\xe2\x82", "<|",
      "é",          "x:\"b\","};
  random_source random = {77};
  for (int round = 0; round < 4000; round++) {
    char text[256] = "";
    report whole, pieces, tokens;
    for (int i = random_below(&random, 14); i > 0; i--) strcat(text, parts[random_below(&random, 18)]);
    if (round % 50 == 0) strcat(text, "<turn|>x");
    size_t length = strlen(text);
    lap_output *output = begin(&whole, NULL);
    feed(output, text, length);
    end(output);
    output = begin(&pieces, NULL);
    for (size_t at = 0, step; at < length; at += step) {
      step = (size_t)random_below(&random, 9);
      if (step > length - at) step = length - at;
      feed(output, text + at, step);
    }
    end(output);
    expect_report(&pieces, whole.text, "cut", text);
    output = begin(&tokens, round % 2 ? pebble : bytes_only);
    feed_tokens(output, round % 2 ? pebble : bytes_only, text, length);
    end(output);
    expect_report(&tokens, whole.text, "tokens", text);
    free(whole.text);
  }
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* A tokenizer of 256 byte tokens: it has no token for any marker. */
static lap_tokenizer *open_bytes_only(void) {
  char json[8192];
  int at = sprintf(json,
                   "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
                   "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
                   "\"String\":\"▁\"},\"content\":\" \"},{\"type\":\"ByteFallback\"}]},"
                   "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"▁\":256");
  for (int byte = 0; byte < 256; byte++) at += sprintf(json + at, ",\"<0x%02X>\":%d", (unsigned)byte, byte);
  sprintf(json + at, "}}}");
  lap_error error;
  lap_tokenizer *tokenizer;
  expect_ok(lap_tokenizer_open_memory(json, strlen(json), "bytes.json", &tokenizer, &error), &error);
  return tokenizer;
}

static int open_tokenizers(void **state) {
  (void)state;
  lap_error error;
  expect_ok(lap_tokenizer_open(PEBBLE, &pebble, &error), &error);
  bytes_only = open_bytes_only();
  return 0;
}

static int close_tokenizers(void **state) {
  (void)state;
  lap_tokenizer_close(pebble);
  lap_tokenizer_close(bytes_only);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_are_reported_whole),
      cmocka_unit_test(a_missing_end_tag_is_seen_by_what_follows),
      cmocka_unit_test(malformed_calls_become_content_with_nothing_lost),
      cmocka_unit_test(lenient_calls_are_understood),
      cmocka_unit_test(a_name_in_a_namespace_is_that_of_the_tool),
      cmocka_unit_test(other_markers_outside_their_place_say_nothing),
      cmocka_unit_test(nothing_is_said_after_the_turn),
      cmocka_unit_test(long_and_deep_streams_come_through),
      cmocka_unit_test(a_call_beyond_the_limit_is_content_to_its_end_tag),
      cmocka_unit_test(thoughts_are_separated),
      cmocka_unit_test(a_thoughts_layout_is_dropped_and_nothing_else),
      cmocka_unit_test(an_answer_begins_where_the_prompt_ended),
      cmocka_unit_test(beginnings_of_markers_are_text),
      cmocka_unit_test(broken_bytes_become_replacement_characters),
      cmocka_unit_test(spelled_markers_are_text_among_tokens),
      cmocka_unit_test(tokens_without_text_say_nothing),
      cmocka_unit_test(content_does_not_wait),
      cmocka_unit_test(pebbles_calls_are_those_of_its_exam),
      cmocka_unit_test(any_stream_is_read_the_same_however_it_is_cut),
  };
  return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
