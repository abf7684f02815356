/* format_field.c: a text or a number in a field of some width, for both of Python's ways of formatting. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/format.h"
#include "jinja/number.h"
#include "jinja/unicode.h"

enum {
  MAX_PRECISION = 300,
  MAX_SPELLED = 1024 /* 309 digits before the point, MAX_PRECISION behind it, separators */
};

/* A number in three parts, so that zeros can stand between them. */
typedef struct spelled {
  char sign;      /* or 0 */
  char prefix[3]; /* 0x and the like */
  char digits[MAX_SPELLED];
} spelled;

const string *lap_jinja_character(state *s, int64_t code) {
  char encoded[4];
  size_t bytes = code >= 0 && code <= 0x10ffff ? lap_jinja_encode((uint32_t)code, encoded) : 0;
  if (!bytes) lap_jinja_fail(s, "%lld is no character", (long long)code);
  return lap_jinja_text(&s->arena, encoded, bytes, false).string;
}

static void add_fill(state *s, lap_jinja_out *out, const string *fill, size_t count) {
  if (fill)
    lap_jinja_add_repeated(s, out, fill, count);
  else
    lap_jinja_add_spaces(s, out, count);
}

void lap_jinja_add_field(state *s, lap_jinja_out *out, const string *text, const lap_jinja_field *field,
                         char align) {
  size_t bytes = field->precision >= 0
                     ? lap_jinja_byte_offset(text->text, text->length, (size_t)field->precision)
                     : text->length;
  lap_jinja_step_bytes(s, text->length);
  size_t length = lap_jinja_count_characters(text->text, bytes);
  size_t room = field->width > length ? field->width - length : 0;
  if (field->align) align = field->align;
  size_t before = align == '>' ? room : align == '^' ? room / 2 : 0;
  add_fill(s, out, field->fill, before);
  lap_jinja_add_part(s, out, text, 0, bytes);
  add_fill(s, out, field->fill, room - before);
}

/* ---- digits ---- */

static void spell_integer(state *s, spelled *number, int64_t v, const lap_jinja_field *field) {
  int base = field->conversion == 'o'            ? 8
             : tolower(field->conversion) == 'x' ? 16
             : field->conversion == 'b'          ? 2
                                                 : 10;
  const char *symbols = field->conversion == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  uint64_t magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;
  char reversed[64];
  size_t count = 0, used = 0;
  do {
    reversed[count++] = symbols[magnitude % (unsigned)base];
    magnitude /= (unsigned)base;
  } while (magnitude);
  if (field->precision > MAX_PRECISION)
    lap_jinja_fail(s, "a precision of more than %d digits", MAX_PRECISION);
  while (field->precision > 0 && used + count < (size_t)field->precision) number->digits[used++] = '0';
  while (count) number->digits[used++] = reversed[--count];
  number->digits[used] = '\0';
  number->sign = v < 0 ? '-' : '\0';
  if (field->alternate && base != 10)
    snprintf(number->prefix, sizeof number->prefix, "0%c", field->conversion);
}

/* A float without a conversion but with a precision: as %g, but always recognisable as a float. */
static void spell_general(char *digits, double magnitude, int precision) {
  if (precision == 0) precision = 1;
  snprintf(digits, MAX_SPELLED, "%.*e", precision - 1, magnitude);
  int exponent = atoi(strchr(digits, 'e') + 1); /* NOLINT(cert-err34-c): printf wrote it */
  if (exponent >= -4 && exponent < precision - 1) {
    snprintf(digits, MAX_SPELLED, "%.*g", precision, magnitude);
    if (!strchr(digits, '.')) strcat(digits, ".0"); /* NOLINT: there is room */
    return;
  }
  char *e = strchr(digits, 'e'), *last = e;
  if (!memchr(digits, '.', (size_t)(e - digits))) return;
  while (last[-1] == '0') last--;
  if (last[-1] == '.') last--;
  memmove(last, e, strlen(e) + 1);
}

static void spell_real(state *s, spelled *number, double v, const lap_jinja_field *field) {
  if (field->precision > MAX_PRECISION)
    lap_jinja_fail(s, "a precision of more than %d digits", MAX_PRECISION);
  double magnitude = fabs(v);
  number->sign = signbit(v) && !isnan(v) ? '-' : '\0';
  if (!isfinite(v)) {
    bool capitals = field->conversion && isupper(field->conversion);
    const char *word = isnan(v) ? capitals ? "NAN" : "nan" : capitals ? "INF" : "inf";
    snprintf(number->digits, sizeof number->digits, "%s", word);
    return;
  }
  if (!field->conversion && field->precision < 0) {
    lap_jinja_spell_real(magnitude, number->digits);
  } else if (!field->conversion) {
    spell_general(number->digits, magnitude, (int)field->precision);
  } else {
    char pattern[8];
    snprintf(pattern, sizeof pattern, "%%%s.*%c", field->alternate ? "#" : "", field->conversion);
    int precision = field->precision < 0 ? 6 : (int)field->precision;
    snprintf(number->digits, sizeof number->digits, pattern, precision, magnitude);
  }
}

/* Puts `separator` between groups of `size` digits of the integer part. */
static void group_digits(char *digits, char separator, size_t size) {
  char grouped[MAX_SPELLED];
  size_t whole = strspn(digits, "0123456789abcdefABCDEF"), used = 0;
  if (size == 3) whole = strspn(digits, "0123456789");
  for (size_t i = 0; i < whole; i++) {
    if (i && (whole - i) % size == 0) grouped[used++] = separator;
    grouped[used++] = digits[i];
  }
  snprintf(grouped + used, sizeof grouped - used, "%s", digits + whole);
  snprintf(digits, MAX_SPELLED, "%s", grouped);
}

/* ---- the number in its field ---- */

void lap_jinja_add_number_field(state *s, lap_jinja_out *out, value number, const lap_jinja_field *field) {
  spelled parts = {0};
  if (number.type == LAP_JINJA_REAL)
    spell_real(s, &parts, number.real, field);
  else
    spell_integer(s, &parts, number.integer, field);
  if (!parts.sign && (field->sign == '+' || field->sign == ' ')) parts.sign = field->sign;
  if (field->grouping)
    group_digits(parts.digits, field->grouping,
                 strchr("xXob", field->conversion) && field->conversion ? 4 : 3);

  char head[4];
  size_t head_length =
      (size_t)snprintf(head, sizeof head, "%.*s%s", parts.sign != '\0', &parts.sign, parts.prefix);
  size_t length = head_length + strlen(parts.digits);
  size_t room = field->width > length ? field->width - length : 0;
  static const string zero = {.text = "0", .length = 1};
  bool inner_zeros = field->zeros && !field->align;
  char align = field->align ? field->align : inner_zeros ? '=' : '>';
  const string *fill = field->fill ? field->fill : field->zeros && align == '=' ? &zero : NULL;
  size_t before = align == '>' ? room : align == '^' ? room / 2 : 0, inside = align == '=' ? room : 0;
  add_fill(s, out, fill, before);
  lap_jinja_add(s, out, head, head_length, number.from_template);
  add_fill(s, out, fill, inside);
  lap_jinja_add(s, out, parts.digits, strlen(parts.digits), number.from_template);
  add_fill(s, out, fill, room - before - inside);
}
