/* text_buffer.h: a text that grows while it is printed.
 *
 * Starts as {0}. Additions report nothing: the first that fails is remembered, what comes after it does
 * nothing, and lap_text_take says so once, at the end. Numbers are printed as in the C locale, whatever the
 * program's: texts are compared, hashed and compiled. */
#ifndef LAP_BASE_TEXT_BUFFER_H
#define LAP_BASE_TEXT_BUFFER_H

#include <stdio.h>

#include "base/error.h"

typedef struct lap_text {
  char *data;      /* [length], then a terminator; NULL as long as nothing was added */
  size_t length;   /* without the terminator */
  size_t capacity; /* with it */
  bool failed;
} lap_text;

/* Appends as printf does. */
void lap_text_add(lap_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends bytes, whatever they are. */
void lap_text_append(lap_text *text, const char *bytes, size_t length);

/* The text so far, terminated; "" where nothing was added. */
static inline const char *lap_text_data(const lap_text *text) {
  return text->data ? text->data : "";
}

/* Hands the text over: `*out`, terminated and never NULL on success, is the caller's to free; `length` may
 * be NULL. In either case `text` is empty afterwards, as at the start. Errors: MEMORY. */
lap_status lap_text_take(lap_text *text, char **out, size_t *length, lap_error *error);

/* Prints the text to `out` and drops it. False if an addition had failed: then nothing is printed. Whether
 * `out` took it is for ferror to say. */
bool lap_text_print(lap_text *text, FILE *out);

/* Drops the text; it is empty afterwards. */
void lap_text_free(lap_text *text);

#endif
