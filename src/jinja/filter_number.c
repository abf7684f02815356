/* filter_number.c: filters about numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/arithmetic.h"
#include "jinja/call.h"
#include "jinja/number.h"
#include "jinja/operators.h"
#include "jinja/tables.h"

static value integer_of_real(state *s, double real) {
  if (!(real > -0x1p63 && real < 0x1p63)) lap_jinja_fail(s, "the number does not fit 64 bits");
  return lap_jinja_integer((int64_t)real);
}

static value filter_abs(state *s, call *c) {
  value v = c->self;
  if (v.type == LAP_JINJA_REAL) return lap_jinja_real(fabs(v.real));
  int64_t integer = lap_jinja_as_integer(s, v);
  return integer < 0 ? lap_jinja_negate(s, v) : lap_jinja_positive(s, v);
}

/* int() of a text, or of the float that it spells. */
static bool read_integer(state *s, const string *text, int base, value *out) {
  int64_t integer;
  bool overflow;
  double real;
  lap_jinja_step_bytes(s, text->length);
  if (lap_jinja_read_integer(text->text, text->length, base, &integer, &overflow)) {
    if (overflow) lap_jinja_fail(s, "the number does not fit 64 bits");
    *out = lap_jinja_integer(integer);
    return true;
  }
  if (!lap_jinja_read_real(text->text, text->length, &real) || isnan(real)) return false;
  *out = integer_of_real(s, real);
  return true;
}

static value filter_int(state *s, call *c) {
  value v = c->self, otherwise = c->given[0] ? c->argument[0] : lap_jinja_integer(0);
  int64_t base = c->given[1] && c->argument[1].type == LAP_JINJA_INTEGER ? c->argument[1].integer : 10;
  if (v.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, v);
  if (v.type == LAP_JINJA_STRING) {
    if (base != 0 && (base < 2 || base > 36)) base = 10; /* an error in int(), after which a float is tried */
    return read_integer(s, v.string, (int)base, &v) ? v : otherwise;
  }
  if (v.type == LAP_JINJA_REAL) return isnan(v.real) ? otherwise : integer_of_real(s, v.real);
  return lap_jinja_is_number(v) ? lap_jinja_positive(s, v) : otherwise;
}

static value filter_float(state *s, call *c) {
  value v = c->self, otherwise = c->given[0] ? c->argument[0] : lap_jinja_real(0);
  double real;
  if (v.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, v);
  if (v.type == LAP_JINJA_REAL) return v;
  if (lap_jinja_is_number(v)) return lap_jinja_real(lap_jinja_real_of(v));
  if (v.type != LAP_JINJA_STRING) return otherwise;
  lap_jinja_step_bytes(s, v.string->length);
  return lap_jinja_read_real(v.string->text, v.string->length, &real) ? lap_jinja_real(real) : otherwise;
}

/* ---- round ---- */

/* round(integer, -digits): to a multiple of ten to the `digits`, halves to even. */
static value round_integer(state *s, int64_t integer, int64_t digits) {
  int64_t unit;
  if (!lap_jinja_integer_power(10, digits, &unit)) return lap_jinja_integer(0);
  int64_t rest = integer % unit, lower;
  if (rest < 0) rest += unit;
  if (__builtin_sub_overflow(integer, rest, &lower)) lap_jinja_fail(s, "the number does not fit 64 bits");
  bool even = (lower / unit) % 2 == 0;
  bool up = rest > unit - rest || (rest == unit - rest && !even);
  if (up && __builtin_add_overflow(lower, unit, &lower)) lap_jinja_fail(s, "the number does not fit 64 bits");
  return lap_jinja_integer(lower);
}

enum {
  MAX_ROUND_DIGITS = 323, /* behind the point of the smallest double */
  ROUND_BYTES = 800       /* 309 digits before the point and as many behind it */
};

/* To a multiple of ten to the `digits`: that many fewer of the digits before the point are kept. */
static double round_whole(double real, int digits) {
  char text[ROUND_BYTES];
  snprintf(text, sizeof text, "%.0f", trunc(fabs(real)));
  int kept = (int)strlen(text) - digits;
  if (kept > 0) {
    snprintf(text, sizeof text, "%.*e", kept - 1, real);
    return strtod(text, NULL);
  }
  double unit = pow(10, digits);
  return copysign(kept == 0 && fabs(real) > unit / 2 ? unit : 0, real);
}

/* As Python does it: correctly, through decimal digits. */
static value round_real(state *s, double real, int64_t digits) {
  char text[ROUND_BYTES];
  if (!isfinite(real) || digits > MAX_ROUND_DIGITS) return lap_jinja_real(real);
  if (digits < -MAX_ROUND_DIGITS) return lap_jinja_real(copysign(0, real));
  double result;
  if (digits < 0) {
    result = round_whole(real, (int)-digits);
  } else {
    snprintf(text, sizeof text, "%.*f", (int)digits, real);
    result = strtod(text, NULL);
  }
  if (isinf(result)) lap_jinja_fail(s, "rounded value too large to represent");
  return lap_jinja_real(result);
}

static value filter_round(state *s, call *c) {
  static const string common = {.text = "common", .length = 6};
  const string *method = c->given[1] ? lap_jinja_text_argument(s, c, 1) : &common;
  bool none = c->given[0] && c->argument[0].type == LAP_JINJA_NONE;
  int64_t digits = none ? 0 : lap_jinja_integer_argument(s, c, 0, 0);
  value v = c->self;
  if (v.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, v);
  if (!lap_jinja_is_number(v)) lap_jinja_fail(s, "round: '%s' is no number", lap_jinja_type_name(v));
  if (v.type == LAP_JINJA_BOOLEAN) v = lap_jinja_positive(s, v);
  if (lap_jinja_text_is(method, "common")) {
    if (v.type == LAP_JINJA_INTEGER) return digits < 0 ? round_integer(s, v.integer, -digits) : v;
    return none ? integer_of_real(s, nearbyint(v.real)) : round_real(s, v.real, digits);
  }
  bool ceiling = lap_jinja_text_is(method, "ceil");
  if (!ceiling && !lap_jinja_text_is(method, "floor"))
    lap_jinja_fail(s, "round: the method must be common, ceil or floor");
  value unit = lap_jinja_operate(s, OPERATION_POWER, lap_jinja_integer(10), lap_jinja_integer(digits));
  value scaled = lap_jinja_operate(s, OPERATION_MULTIPLY, v, unit);
  if (scaled.type == LAP_JINJA_REAL)
    scaled = integer_of_real(s, ceiling ? ceil(scaled.real) : floor(scaled.real));
  return lap_jinja_operate(s, OPERATION_DIVIDE, scaled, unit);
}

static value filter_filesizeformat(state *s, call *c) {
  static const char *const prefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  const size_t last = sizeof prefixes / sizeof *prefixes - 1;
  bool binary = lap_jinja_truth_argument(s, c, 0, false);
  double bytes, base = binary ? 1024 : 1000;
  char text[400];
  if (lap_jinja_is_number(c->self))
    bytes = lap_jinja_real_of(c->self);
  else if (c->self.type != LAP_JINJA_STRING ||
           !lap_jinja_read_real(c->self.string->text, c->self.string->length, &bytes))
    lap_jinja_fail(s, "filesizeformat: this is no number");
  if (bytes == 1) return lap_jinja_literal(&s->arena, "1 Byte", false);
  if (bytes < base) {
    snprintf(text, sizeof text, "%lld Bytes", (long long)integer_of_real(s, bytes).integer);
  } else {
    double unit = base * base;
    size_t i = 0;
    for (; i < last && !(bytes < unit); i++) unit *= base;
    const char *prefix = binary && i == 0 ? "K" : prefixes[i];
    snprintf(text, sizeof text, "%.1f %s%sB", base * bytes / unit, prefix, binary ? "i" : "");
  }
  return lap_jinja_text(&s->arena, text, strlen(text), false);
}

const builtin lap_jinja_number_filters[] = {{"abs", "", filter_abs},
                                            {"filesizeformat", "binary?", filter_filesizeformat},
                                            {"float", "default?", filter_float},
                                            {"int", "default? base?", filter_int},
                                            {"round", "precision? method?", filter_round},
                                            {0}};
