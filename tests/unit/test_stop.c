/* test_stop.c: what a stop filter lets through, when, and what it never does. */
#include "support/check.h"
#include "text/stop.h"

enum {
  MOST_TEXT = 4096
};

typedef struct passed {
  char text[MOST_TEXT];
  size_t length;
  bool found;
} passed;

static lap_stop *open_filter(const char *const *strings, int count) {
  lap_error error;
  lap_stop *stop;
  expect_ok(lap_stop_create(strings, count, &stop, &error), &error);
  return stop;
}

static void take(passed *to, lap_stop_piece piece) {
  assert_int_equal(piece.text[piece.length], 0);
  assert_true(to->length + piece.length < MOST_TEXT);
  memcpy(to->text + to->length, piece.text, piece.length);
  to->length += piece.length;
  to->text[to->length] = '\0';
}

static void feed(lap_stop *stop, passed *to, const char *text, size_t length) {
  lap_error error;
  lap_stop_piece piece;
  expect_ok(lap_stop_text(stop, text, length, &piece, &error), &error);
  take(to, piece);
}

/* In parts of `step` bytes. */
static passed filter(const char *text, size_t length, size_t step, const char *const *strings, int count) {
  passed to = {0};
  lap_stop *stop = open_filter(strings, count);
  lap_stop_piece rest;
  for (size_t at = 0; at < length; at += step)
    feed(stop, &to, text + at, step < length - at ? step : length - at);
  lap_stop_finish(stop, &rest);
  take(&to, rest);
  to.found = lap_stop_found(stop);
  lap_stop_destroy(stop);
  return to;
}

static void check(const char *text, const char *const *strings, int count, const char *expected) {
  size_t length = strlen(text);
  for (size_t step = 1; step <= length; step++) {
    passed to = filter(text, length, step, strings, count);
    assert_string_equal(to.text, expected);
    assert_int_equal(to.found, strcmp(text, expected) != 0);
  }
}

#define STRINGS(...) \
  (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)

static void text_passes_up_to_the_first_stop_string(void **state) {
  (void)state;
  check("one two three", STRINGS("two"), "one ");
  check("one two three", STRINGS("one"), "");
  check("one two three", STRINGS("ee"), "one two thr");
  check("one two three", STRINGS("threee"), "one two three");
  check("one two three", NULL, 0, "one two three");
  check("one two three", STRINGS("three", "t", "two"), "one ");
}

static void a_beginning_inside_a_beginning_is_found(void **state) {
  (void)state;
  check("aaab", STRINGS("aab"), "a");
  check("abababc", STRINGS("ababc"), "ab");
  check("aaaa", STRINGS("aab"), "aaaa");
  check("aabaabaaab", STRINGS("aabaaa"), "aab");
}

static void of_several_that_are_complete_at_once_the_longest_counts(void **state) {
  (void)state;
  check("xabcd", STRINGS("cd", "bcd"), "xa");
  check("xabcd", STRINGS("bcd", "d"), "xa");
  /* "bc" is complete before "abcd" is. */
  check("xabcd", STRINGS("abcd", "bc"), "xa");
}

static int which_in(const char *text, const char *const *strings, int count) {
  lap_stop *stop = open_filter(strings, count);
  passed to = {0};
  for (size_t i = 0; i < strlen(text); i++) feed(stop, &to, text + i, 1);
  int which = lap_stop_which(stop);
  lap_stop_destroy(stop);
  return which;
}

static void the_string_that_counts_is_told(void **state) {
  (void)state;
  assert_int_equal(which_in("abc", (const char *const[]){"x", "y"}, 2), -1);
  assert_int_equal(which_in("abcd", (const char *const[]){"x", "cd", "bcd", "d"}, 4), 2);
  assert_int_equal(which_in("abcd", (const char *const[]){"bcd", "bc"}, 2), 1); /* complete first */
}

static void pieces_end_with_whole_characters(void **state) {
  (void)state;
  passed to = filter("x\xc3\xa9y!", 5, 5, STRINGS("\xc3\xa9y"));
  assert_string_equal(to.text, "x");
  /* A stop string that begins inside a character takes the character with it. */
  to = filter("x\xc3\xa9y!", 5, 5, STRINGS("\xa9y"));
  assert_string_equal(to.text, "x");
  assert_true(to.found);
  lap_stop *stop = open_filter(STRINGS("\xa9y"));
  to.length = 0;
  feed(stop, &to, "x\xc3\xa9", 3);
  assert_string_equal(to.text, "x");
  feed(stop, &to, "z", 1);
  assert_string_equal(to.text, "x\xc3\xa9z");
  lap_stop_destroy(stop);
}

static void nothing_waits_longer_than_it_must(void **state) {
  (void)state;
  static const size_t passed_after[] = {0, 0, 3, 4, 4, 5}; /* a b x | y | a | a */
  passed to = {0};
  lap_stop *stop = open_filter(STRINGS("abc"));
  for (int i = 0; i < 6; i++) {
    feed(stop, &to, &"abxyaa"[i], 1);
    assert_int_equal(to.length, passed_after[i]);
  }
  lap_stop_destroy(stop);
}

static void zero_bytes_are_text(void **state) {
  (void)state;
  passed to = filter("a\0b-c", 5, 1, STRINGS("-"));
  assert_true(to.found);
  assert_int_equal(to.length, 3);
  assert_memory_equal(to.text, "a\0b", 3);
  /* A string's terminator is no part of it. */
  to = filter("ab\0c", 4, 1, STRINGS("ab\0"));
  assert_int_equal(to.length, 0);
  to = filter("a\0b", 3, 3, STRINGS("ab"));
  assert_int_equal(to.length, 3);
}

static void nothing_passes_after_a_stop_string(void **state) {
  (void)state;
  passed to = {0};
  lap_stop_piece piece;
  lap_stop *stop = open_filter(STRINGS("--"));
  feed(stop, &to, "a-", 2);
  feed(stop, &to, "-b", 2);
  feed(stop, &to, "c--d", 4);
  lap_stop_finish(stop, &piece);
  assert_int_equal(piece.length, 0);
  assert_string_equal(to.text, "a");
  lap_stop_destroy(stop);
}

/* By the definition: the shortest beginning of the text that ends with a stop string, the longest such
 * string. */
static size_t expected_length(const char *text, const char *const *strings, int count) {
  for (size_t end = 1; end <= strlen(text); end++) {
    size_t longest = 0;
    for (int i = 0; i < count; i++) {
      size_t length = strlen(strings[i]);
      if (length <= end && length > longest && memcmp(text + end - length, strings[i], length) == 0)
        longest = length;
    }
    if (longest) return end - longest;
  }
  return strlen(text);
}

static void random_texts_pass_as_defined(void **state) {
  (void)state;
  random_source random = {9};
  int found = 0;
  for (int round = 0; round < 20000; round++) {
    char text[64], stops[3][16];
    const char *strings[] = {stops[0], stops[1], stops[2]};
    int length = random_below(&random, 60), count = 1 + random_below(&random, 3);
    for (int i = 0; i < length; i++) text[i] = "aab"[random_below(&random, 3)];
    text[length] = '\0';
    for (int i = 0; i < count; i++) {
      int bytes = 1 + random_below(&random, 14);
      for (int k = 0; k < bytes; k++) stops[i][k] = "aab"[random_below(&random, 3)];
      stops[i][bytes] = '\0';
    }
    size_t expected = expected_length(text, strings, count);
    passed to = filter(text, (size_t)length, 1 + (size_t)random_below(&random, 9), strings, count);
    assert_int_equal(to.length, expected);
    assert_memory_equal(to.text, text, expected);
    found += to.found;
  }
  assert_true(found > 5000 && found < 19000);
}

/* Nothing is timed: a quadratic search would not come back from this. */
static void long_stop_strings_cost_no_more_than_short_ones(void **state) {
  (void)state;
  enum {
    LENGTH = 500000
  };
  char *string = malloc(LENGTH + 1);
  assert_non_null(string);
  memset(string, 'a', LENGTH);
  string[LENGTH - 1] = 'b';
  string[LENGTH] = '\0';
  const char *strings[] = {string};
  lap_error error;
  lap_stop_piece piece;
  lap_stop *stop = open_filter(strings, 1);
  size_t let_through = 0;
  for (int i = 0; i < 2 * LENGTH; i += 1000) {
    expect_ok(lap_stop_text(stop, string, 1000, &piece, &error), &error);
    let_through += piece.length;
  }
  assert_int_equal(let_through, LENGTH + 1);
  lap_stop_destroy(stop);
  free(string);
}

static void strings_that_are_none_are_refused(void **state) {
  (void)state;
  lap_error error;
  lap_stop *stop;
  static const char *const empty[] = {"a", ""}, *const missing[] = {NULL};
  assert_int_equal(lap_stop_create(empty, 2, &stop, &error), LAP_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "stop: string 1"));
  assert_int_equal(lap_stop_create(missing, 1, &stop, &error), LAP_ERROR_ARGUMENT);
  assert_int_equal(lap_stop_create(NULL, 1, &stop, &error), LAP_ERROR_ARGUMENT);
  assert_int_equal(lap_stop_create(NULL, -1, &stop, &error), LAP_ERROR_ARGUMENT);
  assert_null(stop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_passes_up_to_the_first_stop_string),
      cmocka_unit_test(a_beginning_inside_a_beginning_is_found),
      cmocka_unit_test(of_several_that_are_complete_at_once_the_longest_counts),
      cmocka_unit_test(the_string_that_counts_is_told),
      cmocka_unit_test(pieces_end_with_whole_characters),
      cmocka_unit_test(nothing_waits_longer_than_it_must),
      cmocka_unit_test(zero_bytes_are_text),
      cmocka_unit_test(nothing_passes_after_a_stop_string),
      cmocka_unit_test(random_texts_pass_as_defined),
      cmocka_unit_test(long_stop_strings_cost_no_more_than_short_ones),
      cmocka_unit_test(strings_that_are_none_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
