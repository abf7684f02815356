/* text_buffer.c: an addition is printed into the room that is left; if that is too small, room is made and
 * it is printed again. Capacity doubles, so both stay rare. */
#include "base/text_buffer.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST_BYTES = 1024
};

static void fail(lap_text *text) {
  lap_text_free(text);
  text->failed = true;
}

/* Room for `bytes` more and a terminator. */
static bool make_room(lap_text *text, size_t bytes) {
  size_t capacity = 2 * text->capacity + bytes + FIRST_BYTES;
  char *grown = realloc(text->data, capacity);
  if (!grown) return false;
  text->data = grown;
  text->capacity = capacity;
  return true;
}

/* Prints behind the text what fits; returns the length that it would need, or less than 0. */
static int print_behind(const lap_text *text, const char *format, va_list arguments) {
  char *end = text->data ? text->data + text->length : NULL;
  return vsnprintf(end, text->capacity - text->length, format, arguments);
}

static bool append(lap_text *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = print_behind(text, format, arguments);
  bool done = length >= 0;
  if (done && (size_t)length >= text->capacity - text->length) {
    done = make_room(text, (size_t)length);
    if (done) print_behind(text, format, again);
  }
  va_end(again);
  if (done) text->length += (size_t)length;
  return done;
}

void lap_text_add(lap_text *text, const char *format, ...) {
  if (text->failed) return;
  /* Of the calling thread only, so nobody else notices. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) {
    fail(text);
    return;
  }
  locale_t previous = uselocale(plain);
  va_list arguments;
  va_start(arguments, format);
  bool done = append(text, format, arguments);
  va_end(arguments);
  uselocale(previous);
  freelocale(plain);
  if (!done) fail(text);
}

void lap_text_append(lap_text *text, const char *bytes, size_t length) {
  if (text->failed) return;
  if (length >= text->capacity - text->length && !make_room(text, length)) {
    fail(text);
    return;
  }
  if (length) memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = '\0';
}

lap_status lap_text_take(lap_text *text, char **out, size_t *length, lap_error *error) {
  lap_text_add(text, "%s", ""); /* so that an empty text has its terminator */
  bool failed = text->failed;
  *out = text->data;
  if (length) *length = text->length;
  *text = (lap_text){0};
  return failed ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a text") : LAP_OK;
}

void lap_text_free(lap_text *text) {
  free(text->data);
  *text = (lap_text){0};
}

bool lap_text_print(lap_text *text, FILE *out) {
  bool whole = !text->failed;
  if (whole && text->length) fwrite(text->data, 1, text->length, out);
  lap_text_free(text);
  return whole;
}
