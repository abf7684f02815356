/* text.c: bytes and their marks grow together, in one allocation: data, then marks. */
#include "jinja/text.h"

enum {
  FIRST_BYTES = 64
};

static void make_room(state *s, lap_jinja_out *out, size_t bytes) {
  if (out->max_bytes && bytes > out->max_bytes - out->length)
    lap_jinja_fail_with(s, LAP_ERROR_UNSUPPORTED, "the output is longer than %zu bytes", out->max_bytes);
  lap_jinja_step_bytes(s, bytes);
  if (out->capacity - out->length >= bytes) return;
  size_t wanted = out->length + bytes > 2 * out->capacity ? out->length + bytes : 2 * out->capacity;
  if (wanted < FIRST_BYTES) wanted = FIRST_BYTES;
  char *data = lap_jinja_take_array(&s->arena, wanted, 2);
  unsigned char *marks = (unsigned char *)data + wanted;
  if (out->length) {
    memcpy(data, out->data, out->length);
    memcpy(marks, out->marks, out->length);
  }
  out->data = data;
  out->marks = marks;
  out->capacity = wanted;
}

void lap_jinja_add(state *s, lap_jinja_out *out, const char *text, size_t length, bool from_template) {
  if (!length) return;
  make_room(s, out, length);
  memcpy(out->data + out->length, text, length);
  memset(out->marks + out->length, from_template, length);
  out->length += length;
}

void lap_jinja_add_made(state *s, lap_jinja_out *out, const char *text) {
  lap_jinja_add(s, out, text, strlen(text), false);
}

void lap_jinja_add_part(state *s, lap_jinja_out *out, const string *text, size_t begin, size_t length) {
  if (!length) return;
  lap_jinja_add(s, out, text->text + begin, length, text->from_template);
  if (text->marks) memcpy(out->marks + out->length - length, text->marks + begin, length);
}

void lap_jinja_add_string(state *s, lap_jinja_out *out, const string *text) {
  lap_jinja_add_part(s, out, text, 0, text->length);
}

void lap_jinja_add_repeated(state *s, lap_jinja_out *out, const string *text, size_t count) {
  if (!text->length) return;
  size_t total;
  if (__builtin_mul_overflow(text->length, count, &total)) total = SIZE_MAX / 4;
  make_room(s, out, total); /* so that a text too long fails before it is written */
  for (; count; count--) lap_jinja_add_string(s, out, text);
}

void lap_jinja_add_spaces(state *s, lap_jinja_out *out, size_t count) {
  static const string space = {.text = " ", .length = 1};
  lap_jinja_add_repeated(s, out, &space, count);
}

const string *lap_jinja_new_spaces(state *s, int64_t count) {
  lap_jinja_out out = {0};
  lap_jinja_add_spaces(s, &out, count > 0 ? (size_t)count : 0);
  return lap_jinja_out_value(s, &out).string;
}

bool lap_jinja_mark_at(const string *text, size_t index) {
  return text->marks ? text->marks[index] != 0 : text->from_template;
}

value lap_jinja_out_value(state *s, const lap_jinja_out *out) {
  bool first = out->length && out->marks[0];
  value v = lap_jinja_over(&s->arena, out->data, out->length, first);
  if (out->length && memchr(out->marks, !first, out->length)) {
    string *mixed = lap_jinja_take(&s->arena, sizeof *mixed);
    *mixed = *v.string;
    mixed->marks = out->marks;
    v.string = mixed;
  }
  return v;
}
