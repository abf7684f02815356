/* test_tool_call.c: what models write for a call, and the JSON that it must become. Expected values are
 * written by hand and compared as JSON trees, not as texts. */
#include <locale.h>

#include "support/check.h"
#include "text/tool_call.h"

#define Q "\xff" /* <|"|> in a body */

/* ---- comparing JSON -------------------------------------------------------------------------- */

static bool equal_json(const lap_json *a, const lap_json *b) {
  if (a->type != b->type) return false;
  if ((a->key == NULL) != (b->key == NULL) || (a->key && strcmp(a->key, b->key) != 0)) return false;
  switch (a->type) {
    case LAP_JSON_NULL:
      return true;
    case LAP_JSON_BOOL:
      return a->boolean == b->boolean;
    case LAP_JSON_INTEGER:
      return a->integer == b->integer;
    case LAP_JSON_REAL:
      return a->real == b->real;
    case LAP_JSON_STRING:
      return a->length == b->length && memcmp(a->string, b->string, a->length) == 0;
    case LAP_JSON_ARRAY:
    case LAP_JSON_OBJECT:
      break;
  }
  const lap_json *x = a->child, *y = b->child;
  for (; x && y; x = x->next, y = y->next)
    if (!equal_json(x, y)) return false;
  return !x && !y;
}

static void check_json(const char *got, size_t length, const char *expected) {
  lap_error error;
  lap_json_document *a, *b;
  expect_ok(lap_json_parse(got, length, "arguments", &a, &error), &error);
  expect_ok(lap_json_parse(expected, strlen(expected), "expected", &b, &error), &error);
  if (!equal_json(lap_json_root(a), lap_json_root(b))) fail_msg("%s instead of %s", got, expected);
  lap_json_free(a);
  lap_json_free(b);
}

static void check_call(const char *body, const char *name, const char *arguments) {
  lap_error error;
  lap_tool_call call;
  expect_ok(lap_tool_call_read(body, strlen(body), &call, &error), &error);
  if (!call.name) fail_msg("no call: %s", body);
  assert_string_equal(call.name, name);
  assert_int_equal(call.length, strlen(call.arguments));
  check_json(call.arguments, call.length, arguments);
  lap_tool_call_free(&call);
}

static void check_no_call(const char *body, size_t length) {
  lap_error error;
  lap_tool_call call;
  expect_ok(lap_tool_call_read(body, length, &call, &error), &error);
  if (call.name) fail_msg("a call of %s with %s: %s", call.name, call.arguments, body);
  assert_null(call.arguments);
}

/* The value of one argument, as the model writes it. */
static void check_value(const char *value, const char *json) {
  char body[256], arguments[256];
  snprintf(body, sizeof body, "call:f{x:%s}", value);
  snprintf(arguments, sizeof arguments, "{\"x\":%s}", json);
  check_call(body, "f", arguments);
}

/* ---- the form of the templates --------------------------------------------------------------- */

static void calls_of_the_templates_are_read(void **state) {
  (void)state;
  check_call("call:ping{}", "ping", "{}");
  check_call("call:get_weather{city:" Q "Dublin" Q "}", "get_weather", "{\"city\":\"Dublin\"}");
  check_call(
      "call:note-add{body:" Q "say \"hi\" {x} }\n\tend" Q ",n:-1.5e3,flags:[true,null,{a-b:" Q Q "}]}",
      "note-add",
      "{\"body\":\"say \\\"hi\\\" {x} }\\n\\tend\",\"n\":-1500.0,\"flags\":[true,null,{\"a-b\":\"\"}]}");
  /* Keys of nested objects may stand in quotes. */
  check_call("call:f{o:{" Q "a b" Q ":1," Q Q ":[]},p:{}}", "f", "{\"o\":{\"a b\":1,\"\":[]},\"p\":{}}");
  check_call("call:f{a:[[],[1,[2]],{}]}", "f", "{\"a\":[[],[1,[2]],{}]}");
}

static void strings_are_taken_literally(void **state) {
  (void)state;
  check_value(Q "C:\\new\\u0041" Q, "\"C:\\\\new\\\\u0041\"");
  check_value(Q "a,b:c=d]}(`'\"" Q, "\"a,b:c=d]}(`'\\\"\"");
  check_value(Q "\x01\x1f\x7f \r\n" Q, "\"\\u0001\\u001f\x7f \\r\\n\"");
  check_value(Q "caf\xc3\xa9 \xf0\x9f\x98\x80" Q, "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"");
  lap_error error;
  lap_tool_call call;
  static const char with_nul[] = "call:f{x:" Q "a\0b" Q "}";
  expect_ok(lap_tool_call_read(with_nul, sizeof with_nul - 1, &call, &error), &error);
  assert_string_equal(call.arguments, "{\"x\":\"a\\u0000b\"}");
  lap_tool_call_free(&call);
}

static void names_are_those_seen_in_the_wild(void **state) {
  (void)state;
  static const char *const names[] = {"a",    "get.weather", "google:mcp:search", "note-add", "server/tool",
                                      "f(x)", "f(x)g",       "caf\xc3\xa9",       "$f",       "ns::f"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char body[64];
    snprintf(body, sizeof body, "call:%s{x:1}", names[i]);
    check_call(body, names[i], "{\"x\":1}");
  }
  check_call(" call: f {x:1}", "f", "{\"x\":1}");
}

static void what_follows_the_arguments_is_left(void **state) {
  (void)state;
  lap_error error;
  lap_tool_call call;
  expect_ok(lap_tool_call_read("call:f{x:1}} more", 17, &call, &error), &error);
  assert_int_equal(call.used, 11);
  lap_tool_call_free(&call);
}

/* ---- numbers and constants ------------------------------------------------------------------- */

static void numbers_become_those_of_json(void **state) {
  (void)state;
  static const struct {
    const char *spelled, *printed;
  } cases[] = {
      {"0", "0"},
      {"-0", "-0"},
      {"17", "17"},
      {"-17", "-17"},
      {"+17", "17"},
      {"1.5", "1.5"},
      {".5", "0.5"},
      {"-.5", "-0.5"},
      {"5.", "5.0"},
      {"+5.", "5.0"},
      {"1e5", "1e5"},
      {"1e-05", "1e-05"},
      {"1e+16", "1e+16"},
      {"1.e3", "1.0e3"},
      {"2E8", "2E8"},
      {"0.1", "0.1"},
      {"-1.5e3", "-1.5e3"},
      {"1e+308", "1e+308"},
      {"-.5e1", "-0.5e1"},
      {"12345678901234567890123", "12345678901234567890123"},
      {"0.30000000000000004", "0.30000000000000004"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char body[64], expected[64];
    lap_error error;
    lap_tool_call call;
    snprintf(body, sizeof body, "call:f{x:%s}", cases[i].spelled);
    snprintf(expected, sizeof expected, "{\"x\":%s}", cases[i].printed);
    expect_ok(lap_tool_call_read(body, strlen(body), &call, &error), &error);
    assert_non_null(call.name);
    assert_string_equal(call.arguments, expected);
    check_value(cases[i].spelled, cases[i].printed); /* and it parses */
    lap_tool_call_free(&call);
  }
}

static void numbers_do_not_depend_on_the_locale(void **state) {
  (void)state;
  if (!use_decimal_comma()) skip();
  check_value("[1.5,.25,2]", "[1.5,0.25,2]");
  setlocale(LC_NUMERIC, "C");
}

static void constants_are_those_of_json_and_python(void **state) {
  (void)state;
  check_value("[true,True,false,False,null,None]", "[true,true,false,false,null,null]");
  check_value("[nan,-nan,NaN,inf,-inf,Infinity,-Infinity]", "[null,null,null,null,null,null,null]");
}

static void other_words_are_strings(void **state) {
  (void)state;
  static const char *const words[] = {"Paris", "New York", "10:30",    "http://a.b/c?d=e",
                                      "007",   "1_000",    "1.2.3",    "1e",
                                      "-",     ".",        "+",        "0x1F",
                                      "TRUE",  "don't",    "f(x)",     "--1",
                                      "1e+",   "-.",       "\xc3\xa9", "00.5"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char json[64];
    snprintf(json, sizeof json, "\"%s\"", words[i]);
    check_value(words[i], json);
  }
}

/* ---- deviations with one meaning ------------------------------------------------------------- */

static void known_deviations_are_understood(void **state) {
  (void)state;
  check_call("call:f{city=Paris,n=2}", "f", "{\"city\":\"Paris\",\"n\":2}");
  check_call("call:f{city=\"Paris\"}", "f", "{\"city\":\"Paris\"}");
  check_call("call:f{\"city\": \"Paris\", \"n\": [1, 2]}", "f", "{\"city\":\"Paris\",\"n\":[1,2]}");
  check_call("call:f{'city': 'Paris', 'ok': True}", "f", "{\"city\":\"Paris\",\"ok\":true}");
  check_call("call:f{code:`a \\n \"b\"`}", "f", "{\"code\":\"a \\\\n \\\"b\\\"\"}");
  check_call("call:f{x:1,}", "f", "{\"x\":1}");
  check_call("call:f{x:[1,],}", "f", "{\"x\":[1]}");
  check_call("call:f {\n  x: 1,\n  y: " Q "a" Q "\n}\n", "f", "{\"x\":1,\"y\":\"a\"}");
  check_call("call:f()", "f", "{}");
  check_call("call:f(x=1, y=\"a)b\", z=(1)", "f", "{\"x\":1,\"y\":\"a)b\",\"z\":\"(1\"}");
  check_call("call:f({x:1,y:" Q "a" Q "})", "f", "{\"x\":1,\"y\":\"a\"}");
  check_call("call:f(x:[1,{y:2}])", "f", "{\"x\":[1,{\"y\":2}]}");
}

static void plain_quotes_have_escapes(void **state) {
  (void)state;
  check_value("\"a\\\"b\\\\\\/\\b\\f\\n\\r\\t\"", "\"a\\\"b\\\\/\\b\\f\\n\\r\\t\"");
  check_value("\"\\u00e9\\u6F22\\ud83d\\ude00\"", "\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\"");
  check_value("\"\\ud83d!\"", "\"\xef\xbf\xbd!\"");
  check_value("\"\\ude00\\ud83d\\u0041\"",
              "\"\xef\xbf\xbd\xef\xbf\xbd"
              "A\"");
  check_value("\"\\d\\u12\\u12G4\"", "\"\\\\d\\\\u12\\\\u12G4\"");
  check_value("'it\\'s \"so\"'", "\"it's \\\"so\\\"\"");
  /* Quotes and line breaks inside. */
  check_value("\"say \"hi\" to\nhim\"", "\"say \\\"hi\\\" to\\nhim\"");
  check_value("\"\"", "\"\"");
  check_value("\"a \" : b\"", "\"a \\\" : b\"");
}

/* ---- no calls -------------------------------------------------------------------------------- */

static void what_has_no_or_several_meanings_is_no_call(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "",
      "call:",
      "call:f",
      "f{}",
      "Call:f{}",
      "call:{x:1}",
      "call:f g{}",
      "call:<f>{}",
      "call:f{",
      "call:f{x",
      "call:f{x:",
      "call:f{x:1",
      "call:f{x:1]",
      "call:f{x:[1}",
      "call:f{x:}",
      "call:f{x:,y:1}",
      "call:f{,}",
      "call:f{:1}",
      "call:f{x:1,,y:2}",
      "call:f{x:[,]}",
      "call:f{x:" Q "a}",
      "call:f{x:" Q "a" Q Q "b" Q "}",
      "call:f{x:" Q "a" Q " y:1}",
      "call:f{x:\"a}",
      "call:f{x:\"a" Q "\"}",
      "call:f{x:a" Q "b" Q "}",
      "call:f{x:a{b}}",
      "call:f{x:\"a\" y:1}",
      "call:f{x:1,x:2}",
      "call:f{o:{x:1,y:2,x:3}}",
      "call:f{x:1e999}",
      "call:f(\"Paris\")",
      "call:f(x=1",
      "call:f({x:1}",
      "call:f[x:1]",
      "call:f{x\x01:1}",
      "call:f{x:a\nb}",
      "{\"name\":\"f\",\"arguments\":{}}",
  };
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) check_no_call(bodies[i], strlen(bodies[i]));
  check_no_call("call:f{x\0y:1}", 13);
  check_no_call("call:f{" Q "x\0y" Q ":1}", 15);
}

/* `depth` containers, one in the other, around nothing. */
static char *nested(int depth, bool closed) {
  size_t bytes = 16 + 8 * (size_t)depth;
  char *body = malloc(bytes), *at = body;
  assert_non_null(body);
  at += sprintf(at, "call:f{");
  for (int i = 1; i < depth; i++) at += sprintf(at, i % 2 ? "x:[" : "{");
  for (int i = depth - 1; closed && i > 0; i--) *at++ = i % 2 ? ']' : '}';
  if (closed) *at++ = '}';
  *at = '\0';
  return body;
}

static void nesting_ends_where_json_is_read_back(void **state) {
  (void)state;
  lap_error error;
  lap_tool_call call;
  for (int depth = 1; depth <= 10000; depth = depth < 70 ? depth + 1 : depth * 10) {
    char *body = nested(depth, true);
    expect_ok(lap_tool_call_read(body, strlen(body), &call, &error), &error);
    assert_int_equal(call.name != NULL, depth <= LAP_JSON_MAX_DEPTH);
    lap_tool_call_free(&call);
    free(body);
    body = nested(depth, false);
    check_no_call(body, strlen(body));
    free(body);
  }
}

/* Nothing is timed: a quadratic reader would not come back from these. */
static void long_bodies_are_read_in_linear_time(void **state) {
  (void)state;
  enum {
    BYTES = 4000000
  };
  static const char *const units[] = {"\" ", "(", "x:1,", "\\", Q, "' ", "{", "\\u00"};
  for (size_t unit = 0; unit < sizeof units / sizeof *units; unit++)
    for (int quoted = 0; quoted < 2; quoted++) {
      char *body = malloc(BYTES + 32);
      assert_non_null(body);
      size_t length = (size_t)sprintf(body, quoted ? "call:f{x:\"" : "call:f{x:");
      while (length + 4 < BYTES) length += (size_t)sprintf(body + length, "%s", units[unit]);
      lap_tool_call call;
      lap_error error;
      expect_ok(lap_tool_call_read(body, length, &call, &error), &error);
      assert_null(call.name);
      free(body);
    }
}

/* Every beginning, and every change of one byte, of a good body: a call with good JSON or none. */
static void damaged_bodies_are_calls_or_none(void **state) {
  (void)state;
  static const char whole[] =
      "call:f(a){body:" Q "say \"hi\"" Q ",n=-1.5e3,flags:[true,None,{a-b:\"\\u00e9\\n\"}],w:word,}";
  for (size_t cut = 0; cut < sizeof whole - 1; cut++) check_no_call(whole, cut);
  random_source random = {5};
  for (int round = 0; round < 20000; round++) {
    char body[sizeof whole];
    lap_error error;
    lap_tool_call call;
    memcpy(body, whole, sizeof body);
    body[random_below(&random, sizeof whole - 1)] = round % 2 ? "\"'`{}[](),:=\\ \n\xff"
                                                                "e-."[random_below(&random, 19)]
                                                              : (char)random_below(&random, 128);
    expect_ok(lap_tool_call_read(body, sizeof whole - 1, &call, &error), &error);
    if (call.name) {
      lap_json_document *document;
      expect_ok(lap_json_parse(call.arguments, call.length, "arguments", &document, &error), &error);
      assert_int_equal(lap_json_root(document)->type, LAP_JSON_OBJECT);
      assert_true(call.used <= sizeof whole - 1);
      lap_json_free(document);
    }
    lap_tool_call_free(&call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_of_the_templates_are_read),
      cmocka_unit_test(strings_are_taken_literally),
      cmocka_unit_test(names_are_those_seen_in_the_wild),
      cmocka_unit_test(what_follows_the_arguments_is_left),
      cmocka_unit_test(numbers_become_those_of_json),
      cmocka_unit_test(numbers_do_not_depend_on_the_locale),
      cmocka_unit_test(constants_are_those_of_json_and_python),
      cmocka_unit_test(other_words_are_strings),
      cmocka_unit_test(known_deviations_are_understood),
      cmocka_unit_test(plain_quotes_have_escapes),
      cmocka_unit_test(what_has_no_or_several_meanings_is_no_call),
      cmocka_unit_test(nesting_ends_where_json_is_read_back),
      cmocka_unit_test(long_bodies_are_read_in_linear_time),
      cmocka_unit_test(damaged_bodies_are_calls_or_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
