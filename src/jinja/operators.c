/* operators.c: arithmetic, comparison and containment, with the results that Python's operators have; where
 * Python's integers would outgrow 64 bits, an error. */
#include <math.h>

#include "jinja/format.h"
#include "jinja/number.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

enum {
  SLACK_FROM_BYTES = 256 /* a concatenation this long gets room to go on */
};

/* ---- strings and lists ---- */

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

value lap_jinja_repeat(state *s, value v, int64_t times) {
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

/* ---- arithmetic ---- */

static const char *spelling_of(lap_jinja_operation operation) {
  static const char *const spellings[] = {[OPERATION_ADD] = "+",
                                          [OPERATION_SUBTRACT] = "-",
                                          [OPERATION_MULTIPLY] = "*",
                                          [OPERATION_DIVIDE] = "/",
                                          [OPERATION_FLOOR_DIVIDE] = "//",
                                          [OPERATION_MODULO] = "%",
                                          [OPERATION_POWER] = "**",
                                          [OPERATION_EQUAL] = "==",
                                          [OPERATION_NOT_EQUAL] = "!=",
                                          [OPERATION_LESS] = "<",
                                          [OPERATION_LESS_EQUAL] = "<=",
                                          [OPERATION_GREATER] = ">",
                                          [OPERATION_GREATER_EQUAL] = ">=",
                                          [OPERATION_IN] = "in",
                                          [OPERATION_NOT_IN] = "not in"};
  return spellings[operation];
}

_Noreturn static void fail_types(state *s, lap_jinja_operation operation, value a, value b) {
  if (a.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, a);
  if (b.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, b);
  lap_jinja_fail(s, "unsupported types for %s: '%s' and '%s'", spelling_of(operation), lap_jinja_type_name(a),
                 lap_jinja_type_name(b));
}

/* Python's remainder has the sign of the divisor. */
static double real_modulo(double a, double b) {
  double rest = fmod(a, b);
  if (rest != 0) return (rest < 0) != (b < 0) ? rest + b : rest;
  return copysign(0, b);
}

static double real_floor_divide(double a, double b) {
  double quotient = (a - fmod(a, b)) / b;
  double rest = fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0, a / b);
  double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

static value real_power(state *s, double a, double b) {
  if (a == 0 && b < 0) lap_jinja_fail(s, "zero to a negative power");
  if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
    lap_jinja_fail(s, "a negative number to a fractional power");
  double result = pow(a, b);
  if (isinf(result) && isfinite(a) && isfinite(b)) lap_jinja_fail(s, "the result of ** is too large");
  return lap_jinja_real(result);
}

static value operate_on_reals(state *s, lap_jinja_operation operation, double a, double b) {
  bool divides =
      operation == OPERATION_DIVIDE || operation == OPERATION_FLOOR_DIVIDE || operation == OPERATION_MODULO;
  if (divides && b == 0) lap_jinja_fail(s, "division by zero");
  switch (operation) {
    case OPERATION_ADD:
      return lap_jinja_real(a + b);
    case OPERATION_SUBTRACT:
      return lap_jinja_real(a - b);
    case OPERATION_MULTIPLY:
      return lap_jinja_real(a * b);
    case OPERATION_DIVIDE:
      return lap_jinja_real(a / b);
    case OPERATION_FLOOR_DIVIDE:
      return lap_jinja_real(real_floor_divide(a, b));
    case OPERATION_MODULO:
      return lap_jinja_real(real_modulo(a, b));
    default:
      return real_power(s, a, b);
  }
}

static bool divide_integers(lap_jinja_operation operation, int64_t a, int64_t b, int64_t *out) {
  if (b == -1) { /* INT64_MIN / -1 is no int64_t */
    if (operation == OPERATION_MODULO) {
      *out = 0;
      return true;
    }
    return !__builtin_sub_overflow(0, a, out);
  }
  int64_t quotient = a / b, rest = a % b;
  bool adjust = rest != 0 && (rest < 0) != (b < 0);
  *out = operation == OPERATION_MODULO ? rest + (adjust ? b : 0) : quotient - adjust;
  return true;
}

static value operate_on_integers(state *s, lap_jinja_operation operation, int64_t a, int64_t b) {
  bool divides =
      operation == OPERATION_DIVIDE || operation == OPERATION_FLOOR_DIVIDE || operation == OPERATION_MODULO;
  if (divides && b == 0) lap_jinja_fail(s, "division by zero");
  if (operation == OPERATION_DIVIDE) return lap_jinja_real(lap_jinja_divide(a, b));
  if (operation == OPERATION_POWER && b < 0) return real_power(s, (double)a, (double)b);
  int64_t result;
  bool fits = operation == OPERATION_ADD        ? !__builtin_add_overflow(a, b, &result)
              : operation == OPERATION_SUBTRACT ? !__builtin_sub_overflow(a, b, &result)
              : operation == OPERATION_MULTIPLY ? !__builtin_mul_overflow(a, b, &result)
              : operation == OPERATION_POWER    ? lap_jinja_integer_power(a, b, &result)
                                                : divide_integers(operation, a, b, &result);
  if (!fits) lap_jinja_fail(s, "the result of %s is beyond 64 bits", spelling_of(operation));
  return lap_jinja_integer(result);
}

static value operate_on_numbers(state *s, lap_jinja_operation operation, value a, value b) {
  value result = a.type == LAP_JINJA_REAL || b.type == LAP_JINJA_REAL
                     ? operate_on_reals(s, operation, lap_jinja_real_of(a), lap_jinja_real_of(b))
                     : operate_on_integers(s, operation, lap_jinja_integer_of(a), lap_jinja_integer_of(b));
  result.from_template = a.from_template && b.from_template;
  return result;
}

static bool is_sequence(value v) {
  return v.type == LAP_JINJA_STRING || v.type == LAP_JINJA_LIST || v.type == LAP_JINJA_TUPLE;
}

static bool is_integer(value v) {
  return v.type == LAP_JINJA_INTEGER || v.type == LAP_JINJA_BOOLEAN;
}

value lap_jinja_operate(state *s, lap_jinja_operation operation, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) return operate_on_numbers(s, operation, a, b);
  if (operation == OPERATION_ADD && a.type == b.type) {
    if (a.type == LAP_JINJA_STRING) return lap_jinja_concatenate(s, a.string, b.string);
    if (a.type == LAP_JINJA_LIST || a.type == LAP_JINJA_TUPLE) return concatenate_lists(s, a, b);
  }
  if (operation == OPERATION_MULTIPLY) {
    if (is_sequence(a) && is_integer(b)) return lap_jinja_repeat(s, a, lap_jinja_integer_of(b));
    if (is_integer(a) && is_sequence(b)) return lap_jinja_repeat(s, b, lap_jinja_integer_of(a));
  }
  if (operation == OPERATION_MODULO && a.type == LAP_JINJA_STRING)
    return lap_jinja_format_percent(s, a.string, b);
  fail_types(s, operation, a, b);
}

value lap_jinja_negate(state *s, value v) {
  value result = v;
  if (v.type == LAP_JINJA_REAL) {
    result.real = -v.real;
  } else if (is_integer(v)) {
    result.type = LAP_JINJA_INTEGER;
    if (__builtin_sub_overflow(0, lap_jinja_integer_of(v), &result.integer))
      lap_jinja_fail(s, "the result of - is beyond 64 bits");
  } else {
    if (v.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, v);
    lap_jinja_fail(s, "a sign cannot be put before a '%s'", lap_jinja_type_name(v));
  }
  return result;
}

value lap_jinja_positive(state *s, value v) {
  if (v.type == LAP_JINJA_BOOLEAN) {
    value result = lap_jinja_integer(v.boolean);
    result.from_template = v.from_template;
    return result;
  }
  if (!lap_jinja_is_number(v)) lap_jinja_negate(s, v);
  return v;
}

/* ---- equality ---- */

static bool equal_lists(state *s, const list *a, const list *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (!lap_jinja_equal(s, a->items[i], b->items[i])) return false;
  return true;
}

static bool equal_dicts(state *s, const dict *a, const dict *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const value *other = lap_jinja_find(s, b, a->entries[i].key);
    if (!other || !lap_jinja_equal(s, a->entries[i].value, *other)) return false;
  }
  return true;
}

static bool equal_ranges(const lap_jinja_range *a, const lap_jinja_range *b) {
  return a->count == b->count &&
         (a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step)));
}

static bool equal_objects(state *s, value a, value b) {
  switch (a.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_NONE:
      return true;
    case LAP_JINJA_STRING:
      lap_jinja_step_bytes(s, a.string->length);
      return lap_jinja_same_text(a.string, b.string);
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
      return a.list == b.list || equal_lists(s, a.list, b.list);
    case LAP_JINJA_DICT:
      return a.dict == b.dict || equal_dicts(s, a.dict, b.dict);
    case LAP_JINJA_RANGE:
      return equal_ranges(a.object, b.object);
    default:
      return a.object == b.object;
  }
}

bool lap_jinja_equal(state *s, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) return lap_jinja_compare_numbers(a, b) == 0;
  if (a.type != b.type) return false;
  lap_jinja_descend(s);
  bool equal = equal_objects(s, a, b);
  lap_jinja_ascend(s);
  return equal;
}

bool lap_jinja_identical(value a, value b) {
  if (a.type != b.type) return false;
  switch (a.type) {
    case LAP_JINJA_NONE:
      return true;
    case LAP_JINJA_BOOLEAN:
      return a.boolean == b.boolean;
    case LAP_JINJA_INTEGER:
      return a.integer == b.integer;
    case LAP_JINJA_REAL:
      return a.real == b.real;
    case LAP_JINJA_STRING:
      return lap_jinja_same_text(a.string, b.string);
    default:
      return a.object == b.object;
  }
}

/* ---- order ---- */

static bool holds(lap_jinja_operation operation, int difference) {
  switch (operation) {
    case OPERATION_LESS:
      return difference < 0;
    case OPERATION_LESS_EQUAL:
      return difference <= 0;
    case OPERATION_GREATER:
      return difference > 0;
    default:
      return difference >= 0;
  }
}

/* UTF-8 sorts as its characters do. */
static int compare_texts(const string *a, const string *b) {
  size_t common = a->length < b->length ? a->length : b->length;
  int difference = memcmp(a->text, b->text, common);
  return difference ? difference : (a->length > b->length) - (a->length < b->length);
}

/* The first difference decides; where there is none, the lengths do. */
static bool ordered_lists(state *s, lap_jinja_operation operation, const list *a, const list *b) {
  size_t i = 0;
  while (i < a->count && i < b->count && lap_jinja_equal(s, a->items[i], b->items[i])) i++;
  if (i < a->count && i < b->count) return lap_jinja_ordered(s, operation, a->items[i], b->items[i]);
  return holds(operation, (a->count > b->count) - (a->count < b->count));
}

bool lap_jinja_ordered(state *s, lap_jinja_operation operation, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) {
    int difference = lap_jinja_compare_numbers(a, b);
    lap_jinja_step(s, 1);
    return difference != 2 && holds(operation, difference);
  }
  if (a.type != b.type) fail_types(s, operation, a, b);
  if (a.type == LAP_JINJA_STRING) {
    lap_jinja_step(s, 1);
    lap_jinja_step_bytes(s, a.string->length < b.string->length ? a.string->length : b.string->length);
    return holds(operation, compare_texts(a.string, b.string));
  }
  if (a.type != LAP_JINJA_LIST && a.type != LAP_JINJA_TUPLE) fail_types(s, operation, a, b);
  lap_jinja_descend(s);
  bool result = ordered_lists(s, operation, a.list, b.list);
  lap_jinja_ascend(s);
  return result;
}

/* ---- containment ---- */

static bool text_contains(state *s, const string *text, value part) {
  if (part.type != LAP_JINJA_STRING)
    lap_jinja_fail(s, "'in' a string needs a string on its left, not '%s'", lap_jinja_type_name(part));
  lap_jinja_step_bytes(s, text->length);
  return memmem(text->text, text->length, part.string->text, part.string->length) != NULL;
}

static bool iteration_contains(state *s, value container, value item) {
  lap_jinja_iterator iterator = lap_jinja_iterate(s, container);
  value found;
  while (lap_jinja_next(s, &iterator, &found))
    if (lap_jinja_equal(s, found, item)) return true;
  return false;
}

bool lap_jinja_contains(state *s, value container, value item) {
  if (container.type == LAP_JINJA_STRING) return text_contains(s, container.string, item);
  const dict *d = container.type == LAP_JINJA_DICT ? container.dict : NULL;
  if (container.type == LAP_JINJA_VIEW) {
    const lap_jinja_view *view = container.object;
    if (view->kind == VIEW_KEYS) d = view->of;
  }
  if (d) return lap_jinja_find(s, d, item) != NULL;
  return iteration_contains(s, container, item);
}

bool lap_jinja_compare(state *s, lap_jinja_operation operation, value a, value b) {
  switch (operation) {
    case OPERATION_EQUAL:
      return lap_jinja_equal(s, a, b);
    case OPERATION_NOT_EQUAL:
      return !lap_jinja_equal(s, a, b);
    case OPERATION_IN:
      return lap_jinja_contains(s, b, a);
    case OPERATION_NOT_IN:
      return !lap_jinja_contains(s, b, a);
    default:
      return lap_jinja_ordered(s, operation, a, b);
  }
}
