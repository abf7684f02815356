/* arithmetic.c: see arithmetic.h. */
#include "jinja/arithmetic.h"

#include <math.h>

#include "jinja/number.h"

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
  if (!fits) lap_jinja_fail(s, "the result of %s is beyond 64 bits", lap_jinja_spelling(operation));
  return lap_jinja_integer(result);
}

value lap_jinja_calculate(state *s, lap_jinja_operation operation, value a, value b) {
  value result = a.type == LAP_JINJA_REAL || b.type == LAP_JINJA_REAL
                     ? operate_on_reals(s, operation, lap_jinja_real_of(a), lap_jinja_real_of(b))
                     : operate_on_integers(s, operation, lap_jinja_integer_of(a), lap_jinja_integer_of(b));
  result.from_template = a.from_template && b.from_template;
  return result;
}

/* ---- signs ---- */

value lap_jinja_negate(state *s, value v) {
  value result = v;
  if (v.type == LAP_JINJA_REAL) {
    result.real = -v.real;
  } else if (lap_jinja_is_number(v)) {
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
