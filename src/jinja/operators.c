/* operators.c: strings and lists are joined and repeated, and a string is a pattern for `%`; numbers are left
 * to arithmetic.h. */
#include "jinja/operators.h"

#include "jinja/arithmetic.h"
#include "jinja/format.h"
#include "jinja/text.h"

enum {
  SLACK_FROM_BYTES = 256 /* a concatenation this long gets room to go on */
};

static bool same_origin(const string *a, const string *b) {
  return !a->marks && !b->marks && a->from_template == b->from_template;
}

static void put_marks(unsigned char *marks, const string *from) {
  if (from->marks)
    memcpy(marks, from->marks, from->length);
  else
    memset(marks, from->from_template, from->length);
}

/* A buffer that begins with `a` and has room for `length` bytes in all, and more. */
static lap_jinja_buffer *new_buffer(state *s, const string *a, size_t length) {
  lap_jinja_buffer *buffer = lap_jinja_take(&s->arena, sizeof *buffer);
  size_t capacity = length < SLACK_FROM_BYTES ? length : 2 * length;
  char *data = lap_jinja_take_array(&s->arena, capacity, 2);
  *buffer = (lap_jinja_buffer){
      .data = data, .marks = (unsigned char *)data + capacity, .used = a->length, .capacity = capacity};
  memcpy(buffer->data, a->text, a->length);
  put_marks(buffer->marks, a);
  lap_jinja_step_bytes(s, a->length);
  return buffer;
}

/* May what follows `a` be written behind it, in its buffer? */
static bool can_extend(const string *a, size_t bytes) {
  const lap_jinja_buffer *b = a->buffer;
  return b && a->text == b->data && a->length == b->used && bytes <= b->capacity - b->used;
}

value lap_jinja_concatenate(state *s, const string *a, const string *b) {
  if (!a->length) return lap_jinja_string_value(b);
  if (!b->length) return lap_jinja_string_value(a);
  size_t length = a->length + b->length;
  lap_jinja_buffer *buffer = can_extend(a, b->length) ? a->buffer : new_buffer(s, a, length);
  lap_jinja_step_bytes(s, b->length);
  memcpy(buffer->data + a->length, b->text, b->length);
  put_marks(buffer->marks + a->length, b);
  buffer->used = length;
  string *joined = lap_jinja_take(&s->arena, sizeof *joined);
  *joined = (string){.text = buffer->data,
                     .length = length,
                     .marks = same_origin(a, b) ? NULL : buffer->marks,
                     .from_template = a->from_template,
                     .buffer = buffer};
  return lap_jinja_string_value(joined);
}

static value concatenate_lists(state *s, value a, value b) {
  list *l = lap_jinja_list_create(&s->arena, a.list->count + b.list->count);
  lap_jinja_step(s, l->capacity);
  for (size_t i = 0; i < a.list->count; i++) lap_jinja_list_push(&s->arena, l, a.list->items[i]);
  for (size_t i = 0; i < b.list->count; i++) lap_jinja_list_push(&s->arena, l, b.list->items[i]);
  return a.type == LAP_JINJA_LIST ? lap_jinja_list_value(l) : lap_jinja_tuple_value(l);
}

static value repeat(state *s, value v, int64_t times) {
  if (times < 0) times = 0;
  if (v.type == LAP_JINJA_STRING) {
    lap_jinja_out out = {0};
    lap_jinja_add_repeated(s, &out, v.string, (size_t)times);
    return lap_jinja_out_value(s, &out);
  }
  size_t count;
  if (__builtin_mul_overflow(v.list->count, (size_t)times, &count)) count = SIZE_MAX / sizeof(value);
  lap_jinja_step(s, count);
  list *l = lap_jinja_list_create(&s->arena, count);
  for (size_t i = 0; i < count; i++) lap_jinja_list_push(&s->arena, l, v.list->items[i % v.list->count]);
  return v.type == LAP_JINJA_LIST ? lap_jinja_list_value(l) : lap_jinja_tuple_value(l);
}

static bool is_sequence(value v) {
  return v.type == LAP_JINJA_STRING || v.type == LAP_JINJA_LIST || v.type == LAP_JINJA_TUPLE;
}

static bool is_integer(value v) {
  return v.type == LAP_JINJA_INTEGER || v.type == LAP_JINJA_BOOLEAN;
}

value lap_jinja_operate(state *s, lap_jinja_operation operation, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) return lap_jinja_calculate(s, operation, a, b);
  if (operation == OPERATION_ADD && a.type == b.type) {
    if (a.type == LAP_JINJA_STRING) return lap_jinja_concatenate(s, a.string, b.string);
    if (a.type == LAP_JINJA_LIST || a.type == LAP_JINJA_TUPLE) return concatenate_lists(s, a, b);
  }
  if (operation == OPERATION_MULTIPLY) {
    if (is_sequence(a) && is_integer(b)) return repeat(s, a, lap_jinja_integer_of(b));
    if (is_integer(a) && is_sequence(b)) return repeat(s, b, lap_jinja_integer_of(a));
  }
  if (operation == OPERATION_MODULO && a.type == LAP_JINJA_STRING)
    return lap_jinja_format_percent(s, a.string, b);
  lap_jinja_fail_types(s, operation, a, b);
}
