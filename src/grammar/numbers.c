/* numbers.c: decimal numbers in an interval, digit by digit.
 *
 * A number of k digits is compared with a bound of k digits from the left: as long as all its digits were
 * those of the bound it is tight, and the next digit is limited by the bound's; afterwards everything is
 * free. So an interval is a union, over the number of digits in front of the point, of expressions that
 * branch only along the bounds. Behind the point goes the same, where missing digits are zeros. Negative
 * numbers are the positive ones of the mirrored interval behind a minus sign. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/spelling.h"

enum {
  MAX_DIGITS = 18,  /* in front of the point */
  MAX_FRACTION = 17 /* behind it */
};

/* ---- decimals ---------------------------------------------------------------------------------- */

/* From significant digits and the power of ten of the first one. */
static bool place_point(const char *digits, int exponent, lap_decimal *out) {
  int count = (int)strlen(digits), front = 0, behind = 0;
  for (int power = exponent > 0 ? exponent : 0; power > exponent - count || power >= 0; power--) {
    int index = exponent - power;
    char digit = '0';
    if (index >= 0 && index < count) digit = digits[index];
    if (front == LAP_MAX_DECIMAL || behind == LAP_MAX_DECIMAL) return false;
    if (power >= 0)
      out->digits[front++] = digit;
    else
      out->fraction[behind++] = digit;
  }
  while (behind > 0 && out->fraction[behind - 1] == '0') behind--;
  out->digits[front] = out->fraction[behind] = '\0';
  return true;
}

/* Writes `value` >= 0 as d.ddde+xx with the fewest digits that read as the same. */
static void print_shortest(double value, char *out, size_t size) {
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t previous = plain ? uselocale(plain) : (locale_t)0;
  int precision = 0;
  do snprintf(out, size, "%.*e", precision, value);
  while (++precision < 17 && strtod(out, NULL) != value);
  if (!plain) return;
  uselocale(previous);
  freelocale(plain);
}

bool lap_decimal_from(double value, lap_decimal *out) {
  char printed[40], digits[40];
  *out = (lap_decimal){.negative = value < 0};
  print_shortest(fabs(value), printed, sizeof printed);
  size_t count = 0;
  const char *c = printed;
  for (; *c && *c != 'e'; c++)
    if (*c >= '0' && *c <= '9') digits[count++] = *c;
  digits[count] = '\0';
  int exponent = *c == 'e' ? (int)strtol(c + 1, NULL, 10) : 0;
  return place_point(digits, exponent, out);
}

lap_decimal lap_decimal_from_integer(int64_t value) {
  lap_decimal d = {.negative = value < 0};
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  snprintf(d.digits, sizeof d.digits, "%llu", (unsigned long long)magnitude);
  return d;
}

static bool is_zero(const lap_decimal *d) {
  return strcmp(d->digits, "0") == 0 && d->fraction[0] == '\0';
}

static int compare_magnitudes(const lap_decimal *a, const lap_decimal *b) {
  size_t x = strlen(a->digits), y = strlen(b->digits);
  if (x != y) return x < y ? -1 : 1;
  int order = strcmp(a->digits, b->digits);
  return order != 0 ? order : strcmp(a->fraction, b->fraction);
}

int lap_decimal_compare(const lap_decimal *a, const lap_decimal *b) {
  if (is_zero(a) && is_zero(b)) return 0;
  if (a->negative != b->negative) return a->negative ? -1 : 1;
  int order = compare_magnitudes(a, b);
  return a->negative ? -order : order;
}

/* ---- digits ------------------------------------------------------------------------------------ */

/* An interval of magnitudes, of which those with `length` digits in front of the point are being written. */
typedef struct bounds {
  lap_rules *rules;
  const lap_decimal *low, *high; /* high NULL: none */
  bool low_excluded, high_excluded;
  bool integers;
  size_t length;
} bounds;

static const lap_expression *digit(lap_rules *rules, char first, char last) {
  lap_characters set = {0};
  lap_characters_add(&rules->arena, &set, (unsigned char)first, (unsigned char)last);
  return lap_expr_character(rules, &set);
}

static const lap_expression *digits(lap_rules *rules, size_t min, size_t max) {
  return lap_expr_repetition(rules, digit(rules, '0', '9'), (uint32_t)min, (uint32_t)max);
}

/* What follows the first `position` digits of a number, given which bounds are tight. */
typedef const lap_expression *digits_from(const bounds *b, size_t position, bool low, bool high);

/* One digit from first (the lower bound's, if that is tight) to last, and the rest, which depends on whether
 * the digit is that of a bound. */
static const lap_expression *branch(const bounds *b, size_t position, bool low, bool high, char first,
                                    char last, digits_from *rest) {
  lap_parts parts = {0};
  for (char d = first, end; d <= last; d = end) {
    bool tight_low = low && d == first, tight_high = high && d == last;
    for (end = (char)(d + 1); end <= last && !tight_low && !tight_high && !(high && end == last);) end++;
    const lap_expression *chosen = digit(b->rules, d, (char)(end - 1));
    lap_parts_add(b->rules, &parts,
                  lap_expr_then(b->rules, chosen, rest(b, position + 1, tight_low, tight_high)));
  }
  return lap_expr_choice(b->rules, &parts);
}

/* ---- behind the point -------------------------------------------------------------------------- */

static char fraction_digit(const lap_decimal *d, size_t position) {
  return '0' + (char)(position < strlen(d->fraction) ? d->fraction[position] - '0' : 0);
}

/* May the number end here? Its missing digits are zeros. */
static bool may_end(const bounds *b, size_t position, bool low, bool high) {
  if (low && (position < strlen(b->low->fraction) || b->low_excluded)) return false;
  return !high || position < strlen(b->high->fraction) || !b->high_excluded;
}

static const lap_expression *fraction(const bounds *b, size_t position, bool low, bool high);

/* At least one more digit. */
static const lap_expression *more_fraction(const bounds *b, size_t position, bool low, bool high) {
  if (position >= MAX_FRACTION) return lap_expr_nothing();
  if (!low && !high) return digits(b->rules, 1, MAX_FRACTION - position);
  char first = low ? fraction_digit(b->low, position) : '0';
  return branch(b, position, low, high, first, high ? fraction_digit(b->high, position) : '9', fraction);
}

static const lap_expression *fraction(const bounds *b, size_t position, bool low, bool high) {
  const lap_expression *more = more_fraction(b, position, low, high);
  return may_end(b, position, low, high) ? lap_expr_optional(b->rules, more) : more;
}

static const lap_expression *point_and_fraction(const bounds *b, bool low, bool high) {
  const lap_expression *with = lap_expr_nothing();
  if (!b->integers)
    with = lap_expr_then(b->rules, lap_expr_text(b->rules, "."), more_fraction(b, 0, low, high));
  return may_end(b, 0, low, high) ? lap_expr_optional(b->rules, with) : with;
}

/* ---- in front of it ---------------------------------------------------------------------------- */

static const lap_expression *whole(const bounds *b, size_t position, bool low, bool high) {
  size_t left = b->length - position;
  if (left == 0) return point_and_fraction(b, low, high);
  if (position > 0 && !low && !high)
    return lap_expr_then(b->rules, digits(b->rules, left, left), point_and_fraction(b, false, false));
  char first = position == 0 && left > 1 ? '1' : '0';
  return branch(b, position, low, high, low ? b->low->digits[position] : first,
                high ? b->high->digits[position] : '9', whole);
}

static const lap_expression *magnitudes(bounds b) {
  if (b.high && strlen(b.high->digits) > MAX_DIGITS) b.high = NULL; /* above all that is written */
  size_t shortest = strlen(b.low->digits), longest = b.high ? strlen(b.high->digits) : MAX_DIGITS;
  lap_parts parts = {0};
  for (b.length = shortest; b.length <= longest && b.length <= MAX_DIGITS; b.length++)
    lap_parts_add(b.rules, &parts, whole(&b, 0, b.length == shortest, b.high && b.length == longest));
  return lap_expr_choice(b.rules, &parts);
}

/* ---- intervals --------------------------------------------------------------------------------- */

static const lap_decimal zero = {.digits = "0"};

static const lap_expression *positive_part(lap_rules *rules, const lap_interval *i) {
  if (i->has_high && i->high.negative) return lap_expr_nothing();
  bool from_zero = !i->has_low || i->low.negative;
  return magnitudes((bounds){.rules = rules,
                             .low = from_zero ? &zero : &i->low,
                             .low_excluded = !from_zero && i->low_excluded,
                             .high = i->has_high ? &i->high : NULL,
                             .high_excluded = i->high_excluded,
                             .integers = i->integers});
}

static const lap_expression *negative_part(lap_rules *rules, const lap_interval *i) {
  if (i->has_low && !i->low.negative) return lap_expr_nothing();
  bool from_zero = !i->has_high || !i->high.negative;
  /* There is no integer -0; of other numbers it is as good as 0. */
  bool zero_excluded = i->integers || (i->has_high && i->high_excluded && is_zero(&i->high));
  return magnitudes((bounds){.rules = rules,
                             .low = from_zero ? &zero : &i->high,
                             .low_excluded = from_zero ? zero_excluded : i->high_excluded,
                             .high = i->has_low ? &i->low : NULL,
                             .high_excluded = i->low_excluded,
                             .integers = i->integers});
}

const lap_expression *lap_spell_interval(lap_rules *rules, const lap_interval *interval) {
  if (interval->has_low && interval->has_high) {
    int order = lap_decimal_compare(&interval->low, &interval->high);
    if (order > 0 || (order == 0 && (interval->low_excluded || interval->high_excluded)))
      return lap_expr_nothing();
  }
  const lap_expression *negative = negative_part(rules, interval);
  return lap_expr_or(rules, positive_part(rules, interval),
                     lap_expr_then(rules, lap_expr_text(rules, "-"), negative));
}

const lap_expression *lap_spell_any_number(lap_rules *rules, bool integers) {
  const lap_expression *number = lap_spell_interval(rules, &(lap_interval){.integers = integers});
  if (integers) return number;
  lap_characters e = {0}, sign = {0};
  lap_characters_add(&rules->arena, &e, 'E', 'E');
  lap_characters_add(&rules->arena, &e, 'e', 'e');
  lap_characters_add(&rules->arena, &sign, '+', '+');
  lap_characters_add(&rules->arena, &sign, '-', '-');
  const lap_expression *power =
      lap_expr_then(rules, lap_expr_optional(rules, lap_expr_character(rules, &sign)), digits(rules, 1, 2));
  return lap_expr_then(rules, number,
                       lap_expr_optional(rules, lap_expr_then(rules, lap_expr_character(rules, &e), power)));
}
