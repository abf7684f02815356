/* test.c: the tests behind `is`. */
#include <math.h>

#include "jinja/call.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/tables.h"
#include "jinja/text_operation.h"

static value result(bool holds) {
  return lap_jinja_boolean(holds);
}

static bool is_string(const call *c) {
  return c->self.type == LAP_JINJA_STRING;
}

/* ---- types ---- */

static value test_defined(state *s, call *c) {
  (void)s;
  return result(c->self.type != LAP_JINJA_UNDEFINED);
}

static value test_undefined(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_UNDEFINED);
}

static value test_none(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_NONE);
}

static value test_boolean(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_BOOLEAN);
}

static value test_true(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_BOOLEAN && c->self.boolean);
}

static value test_false(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_BOOLEAN && !c->self.boolean);
}

static value test_integer(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_INTEGER);
}

static value test_float(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_REAL);
}

static value test_number(state *s, call *c) {
  (void)s;
  return result(lap_jinja_is_number(c->self));
}

static value test_string(state *s, call *c) {
  (void)s;
  return result(is_string(c));
}

static value test_mapping(state *s, call *c) {
  (void)s;
  return result(c->self.type == LAP_JINJA_DICT);
}

/* What has a length and items by number or key: so dicts and undefined values too. */
static value test_sequence(state *s, call *c) {
  (void)s;
  return result(lap_jinja_sized(c->self) && c->self.type != LAP_JINJA_VIEW);
}

static value test_iterable(state *s, call *c) {
  (void)s;
  return result(lap_jinja_iterable(c->self) || c->self.type == LAP_JINJA_LOOP);
}

static value test_callable(state *s, call *c) {
  (void)s;
  switch (c->self.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_LOOP:
    case LAP_JINJA_JOINER:
    case LAP_JINJA_MACRO:
    case LAP_JINJA_FUNCTION:
    case LAP_JINJA_METHOD:
      return result(true);
    default:
      return result(false);
  }
}

static value test_escaped(state *s, call *c) {
  (void)s, (void)c;
  return result(false);
}

/* ---- numbers ---- */

static value modulo(state *s, const call *c, value divisor) {
  return lap_jinja_operate(s, OPERATION_MODULO, c->self, divisor);
}

static value test_odd(state *s, call *c) {
  return result(lap_jinja_equal(s, modulo(s, c, lap_jinja_integer(2)), lap_jinja_integer(1)));
}

static value test_even(state *s, call *c) {
  return result(lap_jinja_equal(s, modulo(s, c, lap_jinja_integer(2)), lap_jinja_integer(0)));
}

static value test_divisibleby(state *s, call *c) {
  return result(lap_jinja_equal(s, modulo(s, c, c->argument[0]), lap_jinja_integer(0)));
}

/* ---- texts and names ---- */

static value test_lower(state *s, call *c) {
  return result(lap_jinja_has_case(s, lap_jinja_to_text(s, c->self), false));
}

static value test_upper(state *s, call *c) {
  return result(lap_jinja_has_case(s, lap_jinja_to_text(s, c->self), true));
}

/* A name that is looked up, as Python does it, in a dict. */
static void check_hashable(state *s, const call *c) {
  if (!lap_jinja_hashable(c->self)) lap_jinja_fail(s, "unhashable type: '%s'", lap_jinja_type_name(c->self));
}

static value test_filter(state *s, call *c) {
  check_hashable(s, c);
  return result(is_string(c) && lap_jinja_find_filter(s->language, c->self.string));
}

static value test_test(state *s, call *c) {
  check_hashable(s, c);
  return result(is_string(c) && lap_jinja_find_in(s->language->tests, c->self.string));
}

/* ---- comparisons ---- */

static value test_sameas(state *s, call *c) {
  (void)s;
  return result(lap_jinja_identical(c->self, c->argument[0]));
}

static value test_in(state *s, call *c) {
  return result(lap_jinja_contains(s, c->argument[0], c->self));
}

static value test_eq(state *s, call *c) {
  return result(lap_jinja_equal(s, c->self, c->argument[0]));
}

static value test_ne(state *s, call *c) {
  return result(!lap_jinja_equal(s, c->self, c->argument[0]));
}

static value test_lt(state *s, call *c) {
  return result(lap_jinja_ordered(s, OPERATION_LESS, c->self, c->argument[0]));
}

static value test_le(state *s, call *c) {
  return result(lap_jinja_ordered(s, OPERATION_LESS_EQUAL, c->self, c->argument[0]));
}

static value test_gt(state *s, call *c) {
  return result(lap_jinja_ordered(s, OPERATION_GREATER, c->self, c->argument[0]));
}

static value test_ge(state *s, call *c) {
  return result(lap_jinja_ordered(s, OPERATION_GREATER_EQUAL, c->self, c->argument[0]));
}

const builtin lap_jinja_tests[] = {{"!=", "other", test_ne},
                                   {"<", "other", test_lt},
                                   {"<=", "other", test_le},
                                   {"==", "other", test_eq},
                                   {">", "other", test_gt},
                                   {">=", "other", test_ge},
                                   {"boolean", "", test_boolean},
                                   {"callable", "", test_callable},
                                   {"defined", "", test_defined},
                                   {"divisibleby", "num", test_divisibleby},
                                   {"eq", "other", test_eq},
                                   {"equalto", "other", test_eq},
                                   {"escaped", "", test_escaped},
                                   {"even", "", test_even},
                                   {"false", "", test_false},
                                   {"filter", "", test_filter},
                                   {"float", "", test_float},
                                   {"ge", "other", test_ge},
                                   {"greaterthan", "other", test_gt},
                                   {"gt", "other", test_gt},
                                   {"in", "seq", test_in},
                                   {"integer", "", test_integer},
                                   {"iterable", "", test_iterable},
                                   {"le", "other", test_le},
                                   {"lessthan", "other", test_lt},
                                   {"lower", "", test_lower},
                                   {"lt", "other", test_lt},
                                   {"mapping", "", test_mapping},
                                   {"ne", "other", test_ne},
                                   {"none", "", test_none},
                                   {"number", "", test_number},
                                   {"odd", "", test_odd},
                                   {"sameas", "other", test_sameas},
                                   {"sequence", "", test_sequence},
                                   {"string", "", test_string},
                                   {"test", "", test_test},
                                   {"true", "", test_true},
                                   {"undefined", "", test_undefined},
                                   {"upper", "", test_upper},
                                   {0}};
