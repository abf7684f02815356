/* json_write.h: JSON printed into a text, value after value.
 *
 * YAJL's generator prints; this module gives it a growing text to print into and takes a member's key along
 * with its value. Inside arrays, and at the top, `key` is NULL. Calls report nothing: the first failure is
 * remembered in the text (text_buffer.h). Strings are bytes of UTF-8, which callers vouch for. */
#ifndef LAP_BASE_JSON_WRITE_H
#define LAP_BASE_JSON_WRITE_H

#include "base/json.h"
#include "base/text_buffer.h"

typedef struct lap_json_writer {
  struct yajl_gen_t *generator;
  lap_text *text;
} lap_json_writer;

/* Starts a document at the end of `text`, which the caller keeps; to be ended, also after failures. */
void lap_write_begin(lap_json_writer *writer, lap_text *text);
/* The same for people to read: a line for each member, indented by two spaces a level. */
void lap_write_begin_indented(lap_json_writer *writer, lap_text *text);
void lap_write_end(lap_json_writer *writer);

void lap_write_object(lap_json_writer *writer, const char *key);
void lap_write_end_object(lap_json_writer *writer);
void lap_write_array(lap_json_writer *writer, const char *key);
void lap_write_end_array(lap_json_writer *writer);

void lap_write_null(lap_json_writer *writer, const char *key);
void lap_write_boolean(lap_json_writer *writer, const char *key, bool value);
void lap_write_integer(lap_json_writer *writer, const char *key, int64_t value);
/* With at most `digits` digits; what JSON cannot say (NaN, infinities) becomes null. */
void lap_write_real(lap_json_writer *writer, const char *key, double value, int digits);
/* NULL is written as null. */
void lap_write_string(lap_json_writer *writer, const char *key, const char *value);
void lap_write_bytes(lap_json_writer *writer, const char *key, const char *value, size_t length);

/* A parsed value and all below it. */
void lap_write_value(lap_json_writer *writer, const char *key, const lap_json *value);
/* A text that is JSON already. */
void lap_write_raw(lap_json_writer *writer, const char *key, const char *json, size_t length);

#endif
