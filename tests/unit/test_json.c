/* The tree holds exactly what the text says, and nothing that is not strict JSON becomes a tree. */
#include "support/check.h"
#include "support/checkpoint_writer.h"

static lap_json_document *parse(const char *text) {
  lap_error error;
  lap_json_document *document;
  expect_ok(lap_json_parse(text, strlen(text), "some.json", &document, &error), &error);
  return document;
}

static void expect_refused_bytes(const char *text, size_t length, const char *expected) {
  lap_error error = {0};
  lap_json_document *document;
  lap_status status = lap_json_parse(text, length, "some.json", &document, &error);
  assert_int_equal(status, LAP_ERROR_FORMAT);
  assert_int_equal(error.status, LAP_ERROR_FORMAT);
  assert_null(document);
  assert_non_null(strstr(error.message, "some.json"));
  if (!strstr(error.message, expected)) fail_msg("'%s' lacks '%s'", error.message, expected);
}

static void expect_refused(const char *text, const char *expected) {
  expect_refused_bytes(text, strlen(text), expected);
}

static void a_tree_keeps_values_and_their_order(void **state) {
  (void)state;
  lap_json_document *document = parse("{\"b\": [1, 2.5, null, true, \"x\"], \"a\": {\"c\": {}}}");
  const lap_json *root = lap_json_root(document);
  assert_int_equal(root->type, LAP_JSON_OBJECT);
  assert_int_equal(root->length, 2);
  const lap_json *b = root->child, *a = b->next;
  assert_string_equal(b->key, "b");
  assert_string_equal(a->key, "a");
  assert_null(a->next);
  assert_int_equal(b->length, 5);
  static const lap_json_type types[] = {LAP_JSON_INTEGER, LAP_JSON_REAL, LAP_JSON_NULL, LAP_JSON_BOOL,
                                        LAP_JSON_STRING};
  const lap_json *item = b->child;
  for (int i = 0; i < 5; i++, item = item->next) {
    assert_int_equal(item->type, types[i]);
    assert_ptr_equal(item->parent, b);
    assert_null(item->key);
  }
  assert_null(item);
  assert_ptr_equal(lap_json_get(document, root, "a"), a);
  assert_int_equal(lap_json_get(document, a, "c")->length, 0);
  assert_null(lap_json_get(document, root, "c"));
  assert_null(lap_json_get(document, b, "a"));
  assert_null(lap_json_get(document, NULL, "a"));
  lap_json_free(document);
}

static void integers_are_exact_and_others_are_real(void **state) {
  (void)state;
  lap_json_document *document = parse(
      "[9223372036854775807, -9223372036854775808, 9007199254740993, 0, -0, 9223372036854775808, 1e3, 1.0]");
  static const struct {
    lap_json_type type;
    int64_t integer;
  } expected[] = {{LAP_JSON_INTEGER, INT64_MAX},
                  {LAP_JSON_INTEGER, INT64_MIN},
                  {LAP_JSON_INTEGER, 9007199254740993},
                  {LAP_JSON_INTEGER, 0},
                  {LAP_JSON_INTEGER, 0},
                  {LAP_JSON_REAL, 0},
                  {LAP_JSON_REAL, 0},
                  {LAP_JSON_REAL, 0}};
  const lap_json *item = lap_json_root(document)->child;
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++, item = item->next) {
    assert_int_equal(item->type, expected[i].type);
    assert_true(item->integer == expected[i].integer);
    if (item->type == LAP_JSON_INTEGER) assert_true(item->real == (double)item->integer);
  }
  assert_null(item);
  lap_json_free(document);
}

static void strings_keep_escapes_and_inner_nul(void **state) {
  (void)state;
  lap_json_document *document = parse("[\"a\\u0000b\", \"\\ud83d\\ude00\\n\\\\u\", \"\\u2581\"]");
  const lap_json *item = lap_json_root(document)->child;
  assert_int_equal(item->length, 3);
  assert_memory_equal(item->string, "a\0b", 4);
  assert_string_equal(item->next->string, "\xf0\x9f\x98\x80\n\\u");
  assert_string_equal(item->next->next->string, "\xe2\x96\x81");
  lap_json_free(document);
}

static void text_that_is_not_strict_json_is_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"",         " ",     "{",         "[1,]",      "{\"a\":1,}", "{a:1}",
                                      "[1] 2",    "[1]]",  "nul",       "[01]",      "[+1]",       "[.5]",
                                      "[1.]",     "[NaN]", "'a'",       "[-]",       "[1e]",       "// x\n1",
                                      "[\"\t\"]", "\"abc", "{\"a\" 1}", "[\"\\x\"]", "[\"\\u12\"]"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) expect_refused(texts[i], "not valid JSON");
  expect_refused_bytes("[1]\0", 4, "not valid JSON");
  expect_refused("[\"\xff\"]", "not valid JSON");
  expect_refused("[\"\xc3\"]", "not valid JSON");
}

static void half_a_surrogate_pair_is_refused(void **state) {
  (void)state;
  expect_refused("[\"\\ud800\"]", "surrogate");
  expect_refused("[\"\\ud800x\"]", "surrogate");
  expect_refused("[\"\\udc00\"]", "surrogate");
  expect_refused("[\"\\ud800\\ud800\"]", "surrogate");
  expect_refused("{\"\\ud800\": 1}", "surrogate");
  lap_json_document *document = parse("[\"\\\\ud800\"]"); /* an escaped backslash, then letters */
  assert_string_equal(lap_json_root(document)->child->string, "\\ud800");
  lap_json_free(document);
}

static void duplicate_keys_are_refused_by_name(void **state) {
  (void)state;
  expect_refused("{\"a\":1,\"a\":2}", "a: this key occurs twice");
  expect_refused("{\"x\":{\"y\":[{\"k\":1,\"k\":{}}]}}", "x.y[0].k: this key occurs twice");
  expect_refused("{\"\":1,\"\":2}", "twice");
  lap_json_free(parse("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}]}"));
}

static void a_key_with_a_nul_is_refused(void **state) {
  (void)state;
  expect_refused("{\"a\\u0000b\": 1}", "NUL");
}

static void numbers_beyond_a_double_are_refused(void **state) {
  (void)state;
  expect_refused("{\"a\": 1e999}", "a: 1e999 is beyond the range of a double");
  char text[1200] = "[";
  memset(text + 1, '7', 1000);
  strcpy(text + 1001, "]");
  expect_refused(text, "digits");
}

static char *nested(size_t levels, char open, char close) {
  char *text = malloc(2 * levels + 1);
  assert_non_null(text);
  memset(text, open, levels);
  memset(text + levels, close, levels);
  text[2 * levels] = '\0';
  return text;
}

static void depth_has_a_limit(void **state) {
  (void)state;
  char *text = nested(LAP_JSON_MAX_DEPTH, '[', ']');
  lap_json_free(parse(text));
  free(text);
  static const size_t levels[] = {LAP_JSON_MAX_DEPTH + 1, 100000};
  for (size_t i = 0; i < 2; i++) {
    text = nested(levels[i], '[', ']');
    expect_refused(text, "nested too deep");
    free(text);
  }
}

static void large_objects_are_searched_by_hash(void **state) {
  (void)state;
  enum {
    MEMBERS = 200000
  };
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  for (int i = 0; i < MEMBERS; i++) fprintf(out, "%c\"key%d\":%d", i ? ',' : '{', i, i);
  fputc('}', out);
  fclose(out);
  lap_json_document *document = parse(text);
  for (int i = 0; i < MEMBERS; i++) {
    char key[32];
    snprintf(key, sizeof key, "key%d", i);
    assert_int_equal(lap_json_get(document, lap_json_root(document), key)->integer, i);
  }
  assert_null(lap_json_get(document, lap_json_root(document), "key200000"));
  lap_json_free(document);
  free(text);
}

static void typed_members_keep_the_default_if_missing_or_null(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *document = parse("{\"n\": null}");
  const lap_json *root = lap_json_root(document);
  static const char *const keys[] = {"n", "missing"};
  for (int i = 0; i < 2; i++) {
    int64_t integer = 7;
    double real = 0.5;
    bool boolean = true;
    const char *string = "s";
    expect_ok(lap_json_get_integer(document, root, keys[i], 0, 1, &integer, &error), &error);
    expect_ok(lap_json_get_real(document, root, keys[i], 0, 1, &real, &error), &error);
    expect_ok(lap_json_get_bool(document, root, keys[i], &boolean, &error), &error);
    expect_ok(lap_json_get_string(document, root, keys[i], &string, &error), &error);
    assert_int_equal(integer, 7);
    assert_true(real == 0.5 && boolean);
    assert_string_equal(string, "s");
  }
  lap_json_free(document);
}

static void typed_members_of_another_type_or_range_are_refused_by_path(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *document =
      parse("{\"o\": [{\"f\": 1.5, \"i\": 9, \"s\": \"x\", \"b\": true, \"z\": \"a\\u0000\"}]}");
  const lap_json *object = lap_json_get(document, lap_json_root(document), "o")->child;
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  const char *string = NULL;
  assert_int_equal(lap_json_get_integer(document, object, "f", 0, 9, &integer, &error), LAP_ERROR_FORMAT);
  assert_string_equal(error.message, "some.json: o[0].f: must be an integer");
  assert_int_equal(lap_json_get_integer(document, object, "i", 0, 8, &integer, &error), LAP_ERROR_FORMAT);
  assert_string_equal(error.message, "some.json: o[0].i: 9 is outside 0..8");
  assert_int_equal(lap_json_get_real(document, object, "s", 0, 9, &real, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_json_get_real(document, object, "i", 0, 8, &real, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_json_get_bool(document, object, "i", &boolean, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_json_get_string(document, object, "b", &string, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_json_get_string(document, object, "z", &string, NULL), LAP_ERROR_FORMAT);
  expect_ok(lap_json_get_real(document, object, "i", 0, 9, &real, &error), &error);
  assert_true(real == 9);
  lap_json_free(document);
}

static void long_names_in_messages_are_cut(void **state) {
  (void)state;
  char text[3000] = "{\"";
  for (int i = 0; i < 600; i++) strcat(text, "\xe2\x96\x81");
  strcat(text, "\": {\"a\": 1, \"a\": 2}}");
  expect_refused(text, "...");
}

static void files_are_read_whole_or_refused(void **state) {
  (void)state;
  lap_error error;
  lap_json_document *document;
  char *directory = make_directory();
  write_file(directory, "good.json", "{\"a\": 1}", 8);
  write_file(directory, "empty.json", "", 0);
  expect_ok(lap_json_read(path_of("%s/good.json", directory), 8, &document, &error), &error);
  assert_int_equal(lap_json_get(document, lap_json_root(document), "a")->integer, 1);
  lap_json_free(document);
  assert_int_equal(lap_json_read(path_of("%s/good.json", directory), 7, &document, &error), LAP_ERROR_FORMAT);
  assert_int_equal(lap_json_read(path_of("%s/empty.json", directory), 7, &document, &error),
                   LAP_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "empty.json: the file is empty"));
  assert_int_equal(lap_json_read(path_of("%s/none.json", directory), 7, &document, &error), LAP_ERROR_IO);
  assert_non_null(strstr(error.message, "none.json: cannot be opened"));
  assert_int_equal(lap_json_read(directory, 7, &document, &error), LAP_ERROR_IO);
  assert_non_null(strstr(error.message, "not a regular file"));
  assert_null(document);
  remove_directory(directory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tree_keeps_values_and_their_order),
      cmocka_unit_test(integers_are_exact_and_others_are_real),
      cmocka_unit_test(strings_keep_escapes_and_inner_nul),
      cmocka_unit_test(text_that_is_not_strict_json_is_refused),
      cmocka_unit_test(half_a_surrogate_pair_is_refused),
      cmocka_unit_test(duplicate_keys_are_refused_by_name),
      cmocka_unit_test(a_key_with_a_nul_is_refused),
      cmocka_unit_test(numbers_beyond_a_double_are_refused),
      cmocka_unit_test(depth_has_a_limit),
      cmocka_unit_test(large_objects_are_searched_by_hash),
      cmocka_unit_test(typed_members_keep_the_default_if_missing_or_null),
      cmocka_unit_test(typed_members_of_another_type_or_range_are_refused_by_path),
      cmocka_unit_test(long_names_in_messages_are_cut),
      cmocka_unit_test(files_are_read_whole_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
