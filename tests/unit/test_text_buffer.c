/* A growing text holds what was added, whatever the locale, and reports a failure once, at the end. */
#include "base/text_buffer.h"

#include <locale.h>
#include <wchar.h>

#include "support/check.h"

static void additions_follow_each_other_across_growth(void **state) {
  (void)state;
  lap_error error;
  lap_text text = {0};
  char *expected = malloc(64 << 10), *out;
  size_t length = 0, got;
  assert_non_null(expected);
  for (int i = 0; i < 3000; i++) { /* of all lengths up to 20, so each growth begins somewhere else */
    length += (size_t)sprintf(expected + length, "%0*d,", i % 20, i);
    lap_text_add(&text, "%0*d,", i % 20, i);
    assert_int_equal(text.length, length);
  }
  expect_ok(lap_text_take(&text, &out, &got, &error), &error);
  assert_int_equal(got, length);
  assert_string_equal(out, expected);
  free(out);
  free(expected);
}

/* Among them those that just fit the room that is left, and that miss it by one. */
static void an_addition_may_have_any_length(void **state) {
  (void)state;
  for (int length = 1; length < 5000; length++) {
    lap_error error;
    lap_text text = {0};
    char *out;
    lap_text_add(&text, "a");
    lap_text_add(&text, "%*s", length, "b");
    expect_ok(lap_text_take(&text, &out, NULL, &error), &error);
    assert_int_equal(strlen(out), 1 + length);
    assert_int_equal(out[length], 'b');
    free(out);
  }
}

static void bytes_are_appended_as_they_are(void **state) {
  (void)state;
  lap_text text = {0};
  char *taken;
  size_t length;
  lap_error error;
  for (int i = 0; i < 3000; i++) {
    lap_text_append(&text, "a\0%s", 4);
    lap_text_append(&text, NULL, 0);
    assert_int_equal(text.data[text.length], 0);
  }
  assert_int_equal(lap_text_take(&text, &taken, &length, &error), LAP_OK);
  assert_int_equal(length, 4 * 3000);
  for (size_t i = 0; i < length; i++) assert_int_equal(taken[i], "a\0%s"[i % 4]);
  free(taken);
}

static void a_text_of_nothing_is_empty_and_taking_starts_anew(void **state) {
  (void)state;
  lap_error error;
  lap_text text = {0};
  char *out;
  size_t length = 1;
  expect_ok(lap_text_take(&text, &out, &length, &error), &error);
  assert_int_equal(length, 0);
  assert_string_equal(out, "");
  free(out);
  lap_text_add(&text, "dropped");
  lap_text_free(&text);
  lap_text_add(&text, "again");
  expect_ok(lap_text_take(&text, &out, &length, &error), &error);
  assert_string_equal(out, "again");
  assert_int_equal(length, 5);
  assert_null(text.data);
  free(out);
}

/* A character that the C locale cannot print fails as an allocation does. */
static void a_failure_is_remembered_and_reported_once(void **state) {
  (void)state;
  static const wchar_t unprintable[] = {0x2713, 0};
  lap_error error;
  lap_text text = {0};
  char *out;
  lap_text_add(&text, "before");
  lap_text_add(&text, "%ls", unprintable);
  lap_text_add(&text, "after");
  assert_int_equal(text.length, 0);
  assert_int_equal(lap_text_take(&text, &out, NULL, &error), LAP_ERROR_MEMORY);
  assert_null(out);
  assert_non_null(strstr(error.message, "memory"));
  lap_text_add(&text, "new");
  expect_ok(lap_text_take(&text, &out, NULL, &error), &error);
  assert_string_equal(out, "new");
  free(out);
}

static void numbers_have_a_point_in_every_locale(void **state) {
  (void)state;
  lap_error error;
  lap_text text = {0};
  char *out;
  if (!use_decimal_comma()) skip();
  lap_text_add(&text, "%a %.1f", 1.5, 2.5);
  char own[8];
  snprintf(own, sizeof own, "%.1f", 2.5);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(own, "2,5"); /* the caller's locale is what it was */
  expect_ok(lap_text_take(&text, &out, NULL, &error), &error);
  assert_string_equal(out, "0x1.8p+0 2.5");
  free(out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(additions_follow_each_other_across_growth),
      cmocka_unit_test(an_addition_may_have_any_length),
      cmocka_unit_test(bytes_are_appended_as_they_are),
      cmocka_unit_test(a_text_of_nothing_is_empty_and_taking_starts_anew),
      cmocka_unit_test(a_failure_is_remembered_and_reported_once),
      cmocka_unit_test(numbers_have_a_point_in_every_locale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
