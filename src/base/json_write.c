/* json_write.c: calls of YAJL's generator, whose failures become the text's.
 *
 * Invariant: what was written is a JSON document or its beginning: a value that YAJL refuses (nested too
 * deep) marks the text as failed, and no more is printed. */
#include "base/json_write.h"

#include <math.h>
#include <string.h>
#include <yajl/yajl_gen.h>

static void print(void *context, const char *bytes, size_t length) {
  lap_text_append(context, bytes, length);
}

static void note(lap_json_writer *writer, yajl_gen_status status) {
  if (status != yajl_gen_status_ok) writer->text->failed = true;
}

static bool is_writing(lap_json_writer *writer, const char *key) {
  if (!writer->generator || writer->text->failed) return false;
  if (key) note(writer, yajl_gen_string(writer->generator, (const unsigned char *)key, strlen(key)));
  return !writer->text->failed;
}

void lap_write_begin(lap_json_writer *writer, lap_text *text) {
  *writer = (lap_json_writer){.generator = yajl_gen_alloc(NULL), .text = text};
  if (!writer->generator)
    text->failed = true;
  else
    yajl_gen_config(writer->generator, yajl_gen_print_callback, print, text);
}

void lap_write_begin_indented(lap_json_writer *writer, lap_text *text) {
  lap_write_begin(writer, text);
  if (!writer->generator) return;
  yajl_gen_config(writer->generator, yajl_gen_beautify, 1);
  yajl_gen_config(writer->generator, yajl_gen_indent_string, "  ");
}

void lap_write_end(lap_json_writer *writer) {
  if (writer->generator) yajl_gen_free(writer->generator);
  writer->generator = NULL;
}

void lap_write_object(lap_json_writer *writer, const char *key) {
  if (is_writing(writer, key)) note(writer, yajl_gen_map_open(writer->generator));
}

void lap_write_end_object(lap_json_writer *writer) {
  if (is_writing(writer, NULL)) note(writer, yajl_gen_map_close(writer->generator));
}

void lap_write_array(lap_json_writer *writer, const char *key) {
  if (is_writing(writer, key)) note(writer, yajl_gen_array_open(writer->generator));
}

void lap_write_end_array(lap_json_writer *writer) {
  if (is_writing(writer, NULL)) note(writer, yajl_gen_array_close(writer->generator));
}

void lap_write_null(lap_json_writer *writer, const char *key) {
  if (is_writing(writer, key)) note(writer, yajl_gen_null(writer->generator));
}

void lap_write_boolean(lap_json_writer *writer, const char *key, bool value) {
  if (is_writing(writer, key)) note(writer, yajl_gen_bool(writer->generator, value));
}

void lap_write_integer(lap_json_writer *writer, const char *key, int64_t value) {
  if (is_writing(writer, key)) note(writer, yajl_gen_integer(writer->generator, value));
}

/* A generator's numbers are printed as they are handed over. */
void lap_write_raw(lap_json_writer *writer, const char *key, const char *json, size_t length) {
  if (is_writing(writer, key)) note(writer, yajl_gen_number(writer->generator, json, length));
}

void lap_write_real(lap_json_writer *writer, const char *key, double value, int digits) {
  if (!isfinite(value)) {
    lap_write_null(writer, key);
    return;
  }
  lap_text digits_text = {0};
  lap_text_add(&digits_text, "%.*g", digits, value);
  if (digits_text.failed) writer->text->failed = true;
  if (!digits_text.failed) lap_write_raw(writer, key, digits_text.data, digits_text.length);
  lap_text_free(&digits_text);
}

void lap_write_bytes(lap_json_writer *writer, const char *key, const char *value, size_t length) {
  if (is_writing(writer, key))
    note(writer, yajl_gen_string(writer->generator, (const unsigned char *)value, length));
}

void lap_write_string(lap_json_writer *writer, const char *key, const char *value) {
  if (value)
    lap_write_bytes(writer, key, value, strlen(value));
  else
    lap_write_null(writer, key);
}

/* ---- copies of parsed values ----------------------------------------------------------------- */

static void open_or_write(lap_json_writer *writer, const char *key, const lap_json *value) {
  switch (value->type) {
    case LAP_JSON_NULL:
      lap_write_null(writer, key);
      break;
    case LAP_JSON_BOOL:
      lap_write_boolean(writer, key, value->boolean);
      break;
    case LAP_JSON_INTEGER:
      lap_write_integer(writer, key, value->integer);
      break;
    case LAP_JSON_REAL:
      lap_write_real(writer, key, value->real, 17);
      break;
    case LAP_JSON_STRING:
      lap_write_bytes(writer, key, value->string, value->length);
      break;
    case LAP_JSON_ARRAY:
      lap_write_array(writer, key);
      break;
    case LAP_JSON_OBJECT:
      lap_write_object(writer, key);
      break;
  }
}

static void close(lap_json_writer *writer, const lap_json *value) {
  if (value->type == LAP_JSON_ARRAY) lap_write_end_array(writer);
  if (value->type == LAP_JSON_OBJECT) lap_write_end_object(writer);
}

/* Down to the first child, on to the next sibling, up to the parent: no recursion. */
void lap_write_value(lap_json_writer *writer, const char *key, const lap_json *value) {
  const lap_json *at = value;
  open_or_write(writer, key, at);
  for (;;) {
    if (at->child) {
      at = at->child;
    } else {
      close(writer, at);
      while (at != value && !at->next) close(writer, at = at->parent);
      if (at == value) return;
      at = at->next;
    }
    open_or_write(writer, at->key, at);
  }
}
