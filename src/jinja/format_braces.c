/* format_braces.c: Python's str.format: fields in braces, with what they name, conversions and format specs,
 * which may hold fields themselves, one level deep. */
#include <ctype.h>
#include <math.h>

#include "jinja/access.h"
#include "jinja/arithmetic.h"
#include "jinja/format.h"
#include "jinja/number.h"
#include "jinja/print.h"
#include "jinja/unicode.h"

typedef struct formatting {
  state *s;
  const lap_jinja_arguments *arguments;
  int64_t automatic; /* number of the next field without a number; -1 once numbers were used */
} formatting;

static void format_all(formatting *f, lap_jinja_out *out, const string *pattern, int depth);

static string part(const string *of, size_t begin, size_t end) {
  return (string){.text = of->text + begin,
                  .length = end - begin,
                  .marks = of->marks ? of->marks + begin : NULL,
                  .from_template = of->from_template};
}

static bool is_number(const string *text) {
  for (size_t i = 0; i < text->length; i++)
    if (!isdigit((unsigned char)text->text[i])) return false;
  return text->length > 0;
}

static int64_t number_of(formatting *f, const string *text) {
  int64_t number;
  bool overflow;
  if (!lap_jinja_read_integer(text->text, text->length, 10, &number, &overflow) || overflow)
    lap_jinja_fail(f->s, "too many digits in a format string");
  return number;
}

/* ---- what a field names ---- */

static value positional(formatting *f, int64_t index) {
  if ((uint64_t)index >= f->arguments->count)
    lap_jinja_fail(f->s, "replacement index %lld out of range", (long long)index);
  return f->arguments->positional[index];
}

static value first_value(formatting *f, const string *name) {
  if (!name->length) {
    if (f->automatic < 0) lap_jinja_fail(f->s, "numbered and unnumbered fields in one format string");
    return positional(f, f->automatic++);
  }
  if (is_number(name)) {
    if (f->automatic > 0) lap_jinja_fail(f->s, "numbered and unnumbered fields in one format string");
    f->automatic = -1;
    return positional(f, number_of(f, name));
  }
  for (size_t i = 0; i < f->arguments->keyword_count; i++)
    if (lap_jinja_same_text(f->arguments->keywords[i].name, name)) return f->arguments->keywords[i].value;
  lap_jinja_fail(f->s, "no argument '%.*s' for the format string", (int)name->length, name->text);
}

static size_t span(const string *text, size_t at, const char *stops) {
  while (at < text->length && (!text->text[at] || !strchr(stops, text->text[at]))) at++;
  return at;
}

/* `name.attribute[key]...` */
static value named_value(formatting *f, const string *name) {
  size_t at = span(name, 0, ".[");
  string first = part(name, 0, at);
  value v = first_value(f, &first);
  while (at < name->length) {
    bool item = name->text[at] == '[';
    size_t end = span(name, at + 1, item ? "]" : ".[");
    if (end == at + 1 || (item && end == name->length))
      lap_jinja_fail(f->s, "empty attribute in format string");
    value key = lap_jinja_slice(&f->s->arena, name, at + 1, end - at - 1);
    if (!item)
      v = lap_jinja_attribute(f->s, v, key.string);
    else
      v = lap_jinja_item(f->s, v, is_number(key.string) ? lap_jinja_integer(number_of(f, key.string)) : key);
    at = end + item;
    if (item && at < name->length && !strchr(".[", name->text[at]))
      lap_jinja_fail(f->s, "only '.' or '[' may follow ']' in a format field");
  }
  return v;
}

/* ---- format specs ---- */

static bool is_align(char c) {
  return c && strchr("<>=^", c);
}

static int64_t parse_count(formatting *f, const string *spec, size_t *at) {
  size_t begin = *at;
  while (*at < spec->length && isdigit((unsigned char)spec->text[*at])) ++*at;
  string digits = part(spec, begin, *at);
  return digits.length ? number_of(f, &digits) : -1;
}

static bool skip(const string *spec, size_t *at, char c) {
  bool there = *at < spec->length && spec->text[*at] == c;
  *at += there;
  return there;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static lap_jinja_field parse_spec(formatting *f, const string *spec) {
  lap_jinja_field field = {.precision = -1};
  size_t at = 0;
  uint32_t code;
  size_t first = spec->length ? lap_jinja_decode(spec->text, spec->length, &code) : 0;
  if (first < spec->length && is_align(spec->text[first])) {
    field.fill = lap_jinja_slice(&f->s->arena, spec, 0, first).string;
    field.align = spec->text[first];
    at = first + 1;
  } else if (spec->length && is_align(spec->text[0])) {
    field.align = spec->text[at++];
  }
  if (at < spec->length && strchr("+- ", spec->text[at])) field.sign = spec->text[at++];
  field.alternate = skip(spec, &at, '#');
  field.zeros = skip(spec, &at, '0');
  int64_t width = parse_count(f, spec, &at);
  field.width = width < 0 ? 0 : (size_t)width;
  if (at < spec->length && strchr(",_", spec->text[at])) field.grouping = spec->text[at++];
  if (skip(spec, &at, '.') && (field.precision = parse_count(f, spec, &at)) < 0)
    lap_jinja_fail(f->s, "format specifier missing precision");
  if (at < spec->length) field.conversion = spec->text[at++];
  if (at < spec->length) lap_jinja_fail(f->s, "invalid format specifier");
  if (field.grouping && (field.zeros || field.align == '='))
    lap_jinja_fail(f->s, "zeros and separators in one format are not supported");
  return field;
}

/* A number as a percentage: 0.25 is 25.000000%. */
static void add_percentage(formatting *f, lap_jinja_out *out, value number, lap_jinja_field field) {
  lap_jinja_out digits = {0};
  lap_jinja_field plain = {.precision = field.precision, .conversion = 'f', .sign = field.sign};
  number.real *= 100;
  lap_jinja_add_number_field(f->s, &digits, number, &plain);
  lap_jinja_add_made(f->s, &digits, "%");
  field.precision = -1;
  lap_jinja_add_field(f->s, out, lap_jinja_out_value(f->s, &digits).string, &field, '>');
}

static void add_number(formatting *f, lap_jinja_out *out, value v, lap_jinja_field field) {
  char type = field.conversion == 'n' ? v.type == LAP_JINJA_REAL ? 'g' : 'd' : field.conversion;
  bool wants_real = type && strchr("eEfFgG%", type);
  if (v.type == LAP_JINJA_BOOLEAN) v = lap_jinja_positive(f->s, v);
  if (v.type == LAP_JINJA_INTEGER && wants_real) v = lap_jinja_real((double)v.integer);
  if ((type && !strchr("bcdoxXeEfFgG%", type)) || (v.type == LAP_JINJA_REAL && type && !wants_real))
    lap_jinja_fail(f->s, "unknown format code '%c' for a %s", type, lap_jinja_type_name(v));
  if (v.type == LAP_JINJA_INTEGER && field.precision >= 0)
    lap_jinja_fail(f->s, "precision not allowed in integer format");
  field.conversion = v.type == LAP_JINJA_INTEGER && !type ? 'd' : type;
  if (type == 'c') {
    lap_jinja_add_field(f->s, out, lap_jinja_character(f->s, v.integer), &field, '<');
  } else if (type == '%') {
    add_percentage(f, out, v, field);
  } else {
    lap_jinja_add_number_field(f->s, out, v, &field);
  }
}

static void add_value(formatting *f, lap_jinja_out *out, value v, const string *spec) {
  if (!spec->length) {
    lap_jinja_print(f->s, out, v);
    return;
  }
  lap_jinja_field field = parse_spec(f, spec);
  if (lap_jinja_is_number(v)) {
    add_number(f, out, v, field);
    return;
  }
  if (v.type != LAP_JINJA_STRING)
    lap_jinja_fail(f->s, "unsupported format string for a %s", lap_jinja_type_name(v));
  if (field.align == '=' || field.sign || field.alternate || field.grouping ||
      (field.conversion && field.conversion != 's'))
    lap_jinja_fail(f->s, "a format that does not suit a text");
  static const string zero = {.text = "0", .length = 1};
  if (field.zeros && !field.fill) field.fill = &zero;
  lap_jinja_add_field(f->s, out, v.string, &field, '<');
}

/* ---- the pattern ---- */

static value converted(formatting *f, value v, char conversion) {
  lap_jinja_out out = {0};
  if (conversion == 's')
    lap_jinja_print(f->s, &out, v);
  else if (conversion == 'r')
    lap_jinja_repr(f->s, &out, v);
  else
    lap_jinja_fail(f->s, "unknown conversion specifier");
  return lap_jinja_out_value(f->s, &out);
}

/* The end of the field that begins at `at`, at its closing brace. */
static size_t field_end(formatting *f, const string *pattern, size_t at) {
  for (int depth = 0; at < pattern->length; at++) {
    if (pattern->text[at] == '{') depth++;
    if (pattern->text[at] == '}' && depth-- == 0) return at;
  }
  lap_jinja_fail(f->s, "expected '}' before the end of a format string");
}

static void format_field(formatting *f, lap_jinja_out *out, const string *field, int depth) {
  size_t name_end = span(field, 0, "!:[");
  while (name_end < field->length && field->text[name_end] == '[')
    name_end = span(field, span(field, name_end, "]"), "!:[");
  string name = part(field, 0, name_end);
  value v = named_value(f, &name);
  size_t at = name_end;
  if (skip(field, &at, '!')) {
    if (at >= field->length) lap_jinja_fail(f->s, "a conversion is missing behind '!'");
    v = converted(f, v, field->text[at++]);
  }
  if (at < field->length && !skip(field, &at, ':')) lap_jinja_fail(f->s, "expected ':' in a format field");
  string spec = part(field, at, field->length);
  lap_jinja_out expanded = {0};
  format_all(f, &expanded, &spec, depth + 1);
  add_value(f, out, v, lap_jinja_out_value(f->s, &expanded).string);
}

static void format_all(formatting *f, lap_jinja_out *out, const string *pattern, int depth) {
  if (depth > 2) lap_jinja_fail(f->s, "max string recursion exceeded");
  for (size_t at = 0; at < pattern->length;) {
    size_t end = span(pattern, at, "{}");
    lap_jinja_add_part(f->s, out, pattern, at, end - at);
    at = end;
    if (at == pattern->length) break;
    lap_jinja_step(f->s, 1);
    char brace = pattern->text[at++];
    if (at < pattern->length && pattern->text[at] == brace) {
      lap_jinja_add_part(f->s, out, pattern, at++, 1);
      continue;
    }
    if (brace == '}') lap_jinja_fail(f->s, "single '}' encountered in format string");
    end = field_end(f, pattern, at);
    string field = part(pattern, at, end);
    format_field(f, out, &field, depth);
    at = end + 1;
  }
}

value lap_jinja_format_braces(state *s, const string *pattern, const lap_jinja_arguments *arguments) {
  formatting f = {.s = s, .arguments = arguments};
  lap_jinja_out out = {0};
  format_all(&f, &out, pattern, 0);
  return lap_jinja_out_value(s, &out);
}
