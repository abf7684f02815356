/* format_percent.c: Python's `pattern % values`.
 *
 * The values are a tuple, or a mapping if the pattern names its fields, or a single value. As in Python,
 * values that are left over are an error, except where they could have been a mapping. */
#include <ctype.h>
#include <math.h>

#include "jinja/arithmetic.h"
#include "jinja/format.h"
#include "jinja/iterate.h"
#include "jinja/number.h"
#include "jinja/print.h"
#include "jinja/unicode.h"

typedef struct formatting {
  state *s;
  const string *pattern;
  size_t at;
  value values;
  size_t next;      /* of the values */
  bool single_used; /* the values are a single one, and it was printed */
  lap_jinja_out out;
} formatting;

static bool is_mapping(value v) {
  return v.type == LAP_JINJA_DICT || v.type == LAP_JINJA_LIST || v.type == LAP_JINJA_RANGE ||
         v.type == LAP_JINJA_UNDEFINED;
}

static value next_value(formatting *f) {
  if (f->values.type == LAP_JINJA_TUPLE) {
    if (f->next < f->values.list->count) return f->values.list->items[f->next++];
  } else if (!f->single_used) {
    f->single_used = true;
    return f->values;
  }
  lap_jinja_fail(f->s, "not enough arguments for format string");
}

static char peek(const formatting *f) {
  return f->at < f->pattern->length ? f->pattern->text[f->at] : '\0';
}

/* The value of `%(name)...`: the names may hold parentheses that match. */
static value named_value(formatting *f) {
  size_t begin = ++f->at;
  int depth = 1;
  for (; f->at < f->pattern->length; f->at++) {
    char c = f->pattern->text[f->at];
    depth += (c == '(') - (c == ')');
    if (!depth) break;
  }
  if (depth) lap_jinja_fail(f->s, "incomplete format key");
  if (f->values.type != LAP_JINJA_DICT) {
    if (f->values.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(f->s, f->values);
    lap_jinja_fail(f->s, "format requires a mapping");
  }
  value name = lap_jinja_slice(&f->s->arena, f->pattern, begin, f->at - begin);
  f->at++;
  const value *found = lap_jinja_find(f->s, f->values.dict, name);
  if (!found)
    lap_jinja_fail(f->s, "no value for the format key '%.*s'", (int)name.string->length, name.string->text);
  f->single_used = true;
  return *found;
}

/* A number in the pattern, or `*`: the next value. */
static int64_t parse_count(formatting *f) {
  if (peek(f) == '*') {
    f->at++;
    value v = next_value(f);
    if (v.type != LAP_JINJA_INTEGER) lap_jinja_fail(f->s, "* wants int");
    return v.integer;
  }
  int64_t count = 0;
  for (; isdigit((unsigned char)peek(f)); f->at++)
    if (__builtin_mul_overflow(count, 10, &count) || __builtin_add_overflow(count, peek(f) - '0', &count))
      lap_jinja_fail(f->s, "a width or precision too large");
  return count;
}

static void parse_flags(formatting *f, lap_jinja_field *field) {
  for (;; f->at++) {
    switch (peek(f)) {
      case '-':
        field->align = '<';
        break;
      case '+':
        field->sign = '+';
        break;
      case ' ':
        if (!field->sign) field->sign = ' ';
        break;
      case '#':
        field->alternate = true;
        break;
      case '0':
        field->zeros = true;
        break;
      default:
        return;
    }
  }
}

static void add_character(formatting *f, const lap_jinja_field *field, value v) {
  if (v.type == LAP_JINJA_BOOLEAN) v = lap_jinja_positive(f->s, v);
  if (v.type == LAP_JINJA_INTEGER)
    v = lap_jinja_string_value(lap_jinja_character(f->s, v.integer));
  else if (v.type != LAP_JINJA_STRING || lap_jinja_count(f->s, v) != 1)
    lap_jinja_fail(f->s, "%%c requires int or char");
  lap_jinja_field whole = *field;
  whole.precision = -1;
  lap_jinja_add_field(f->s, &f->out, v.string, &whole, '>');
}

static void add_integer(formatting *f, lap_jinja_field *field, value v) {
  if (v.type == LAP_JINJA_BOOLEAN) v = lap_jinja_positive(f->s, v);
  if (v.type == LAP_JINJA_REAL && field->conversion == 'd') {
    if (!(v.real > -0x1p63 && v.real < 0x1p63)) lap_jinja_fail(f->s, "%%d: the number does not fit 64 bits");
    v = lap_jinja_integer((int64_t)v.real);
  }
  if (v.type != LAP_JINJA_INTEGER)
    lap_jinja_fail(f->s, "%%%c format: an integer is required, not %s", field->conversion,
                   lap_jinja_type_name(v));
  lap_jinja_add_number_field(f->s, &f->out, v, field);
}

static void add_real(formatting *f, const lap_jinja_field *field, value v) {
  if (!lap_jinja_is_number(v)) lap_jinja_fail(f->s, "must be real number, not %s", lap_jinja_type_name(v));
  value real = lap_jinja_real(lap_jinja_real_of(v));
  real.from_template = v.from_template;
  lap_jinja_add_number_field(f->s, &f->out, real, field);
}

static void add_text(formatting *f, const lap_jinja_field *field, value v) {
  const string *text;
  if (field->conversion == 's') {
    text = lap_jinja_to_text(f->s, v);
  } else {
    lap_jinja_out repr = {0};
    lap_jinja_repr(f->s, &repr, v);
    text = lap_jinja_out_value(f->s, &repr).string;
  }
  lap_jinja_add_field(f->s, &f->out, text, field, '>');
}

/* One `%...`; the position is behind the percent sign. */
static void format_one(formatting *f) {
  lap_jinja_field field = {.precision = -1};
  value v = {0};
  bool named = peek(f) == '(';
  if (named) v = named_value(f);
  parse_flags(f, &field);
  int64_t width = parse_count(f);
  if (width < 0) field.align = '<';
  field.width = width < 0 ? -(size_t)width : (size_t)width;
  if (peek(f) == '.') {
    f->at++;
    field.precision = parse_count(f);
    if (field.precision < 0) field.precision = 0;
  }
  while (peek(f) && strchr("hlL", peek(f))) f->at++;
  char conversion = peek(f);
  if (f->at++ >= f->pattern->length) lap_jinja_fail(f->s, "incomplete format");
  if (conversion == '%') {
    lap_jinja_add_part(f->s, &f->out, f->pattern, f->at - 1, 1);
    return;
  }
  field.conversion = conversion == 'i' || conversion == 'u' ? 'd' : conversion;
  if (!conversion || !strchr("srcdiuoxXeEfFgG", conversion))
    lap_jinja_fail(f->s, "unsupported format character '%c'", conversion);
  if (!named) v = next_value(f);
  if (conversion == 's' || conversion == 'r')
    add_text(f, &field, v);
  else if (conversion == 'c')
    add_character(f, &field, v);
  else if (strchr("eEfFgG", conversion))
    add_real(f, &field, v);
  else
    add_integer(f, &field, v);
}

value lap_jinja_format_percent(state *s, const string *pattern, value values) {
  formatting f = {.s = s, .pattern = pattern, .values = values};
  while (f.at < pattern->length) {
    const char *percent = memchr(pattern->text + f.at, '%', pattern->length - f.at);
    size_t end = percent ? (size_t)(percent - pattern->text) : pattern->length;
    lap_jinja_add_part(s, &f.out, pattern, f.at, end - f.at);
    f.at = end;
    if (!percent) break;
    f.at++;
    lap_jinja_step(s, 1);
    format_one(&f);
  }
  bool left =
      values.type == LAP_JINJA_TUPLE ? f.next < values.list->count : !f.single_used && !is_mapping(values);
  if (left) lap_jinja_fail(s, "not all arguments converted during string formatting");
  return lap_jinja_out_value(s, &f.out);
}
