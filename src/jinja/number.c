/* number.c: see number.h. The shortest digits are found by trying: printf rounds correctly to any number of
 * digits, strtod reads correctly, so the first precision that reads back is the shortest. One case needs more
 * care: below a power of two doubles are denser than above it, so the nearest decimal may lie outside while
 * the next one above reads back. */
#include "jinja/number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jinja/unicode.h"

enum {
  MAX_DIGITS = 17,
  MAX_TEXT_BYTES = 2048 /* of a number to read: more digits than any double has */
};

/* ---- spelling ---- */

/* Adds one to the last of the digits `d.ddd` of "%.*e", carrying; the exponent is behind them. */
static void increment(char *digits) {
  size_t last = strcspn(digits, "e");
  for (size_t i = last; i-- > 0;) {
    if (digits[i] == '.') continue;
    if (digits[i]++ != '9') return;
    digits[i] = '0';
  }
  /* 9.99 became 0.00: it is 1.00 times ten. */
  digits[0] = '1';
  int exponent = atoi(digits + last + 1) + 1; /* NOLINT(cert-err34-c): printf wrote it */
  snprintf(digits + last, LAP_JINJA_NUMBER_BYTES - last, "e%+03d", exponent);
}

static void shortest_digits(double magnitude, char *digits) {
  for (int precision = 0; precision < MAX_DIGITS; precision++) {
    snprintf(digits, LAP_JINJA_NUMBER_BYTES, "%.*e", precision, magnitude);
    double back = strtod(digits, NULL);
    if (back == magnitude) return;
    if (back < magnitude) {
      char above[LAP_JINJA_NUMBER_BYTES];
      memcpy(above, digits, sizeof above);
      increment(above);
      if (strtod(above, NULL) == magnitude) {
        memcpy(digits, above, sizeof above);
        return;
      }
    }
  }
}

size_t lap_jinja_spell_real(double real, char *out) {
  if (isnan(real)) return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, "nan");
  if (isinf(real)) return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, real < 0 ? "-inf" : "inf");
  char scientific[LAP_JINJA_NUMBER_BYTES], digits[MAX_DIGITS + 1];
  shortest_digits(fabs(real), scientific);
  int count = 0;
  const char *c = scientific;
  for (; *c != 'e'; c++)
    if (*c != '.') digits[count++] = *c;
  while (count > 1 && digits[count - 1] == '0') count--;
  digits[count] = '\0';
  int point = atoi(c + 1) + 1; /* NOLINT(cert-err34-c): digits before the decimal point */
  const char *sign = signbit(real) ? "-" : "";
  if (point > 16 || point < -3)
    return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, "%s%c%s%se%+03d", sign, digits[0],
                            count > 1 ? "." : "", digits + 1, point - 1);
  if (point <= 0)
    return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, "%s0.%.*s%s", sign, -point, "0000", digits);
  if (count > point)
    return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, "%s%.*s.%s", sign, point, digits, digits + point);
  return (size_t)snprintf(out, LAP_JINJA_NUMBER_BYTES, "%s%s%.*s.0", sign, digits, point - count,
                          "0000000000000000");
}

/* ---- reading ---- */

/* The text without surrounding whitespace and underscores, digits of all scripts as ASCII, terminated.
 * False if it is too long or an underscore does not stand between digits (or letters, where `letters`). */
static bool normalize(const char *text, size_t length, bool letters, char out[MAX_TEXT_BYTES]) {
  size_t used = 0, end = 0;
  bool underscore = false;
  for (size_t at = 0; at < length;) {
    uint32_t code;
    at += lap_jinja_decode(text + at, length - at, &code);
    if (lap_jinja_is_space(code)) {
      if (used == 0) continue;
      code = ' ';
    }
    int digit = lap_jinja_decimal_value(code);
    bool counts = digit >= 0 || (letters && code < 0x80 && isalpha((int)code));
    if (underscore && !counts) return false;
    underscore = code == '_';
    if (underscore) {
      char last = used ? out[used - 1] : ' ';
      if (!isdigit((unsigned char)last) && !(letters && isalpha((unsigned char)last))) return false;
      continue;
    }
    if (code >= 0x80 && digit < 0) return false;
    if (code == 0 || used + 1 >= MAX_TEXT_BYTES) return false;
    out[used++] = digit >= 0 ? (char)('0' + digit) : (char)code;
    if (code != ' ') end = used;
  }
  out[end] = '\0';
  return !underscore && end;
}

static bool is_special(const char *text) {
  const char *word = text + strspn(text, "+-");
  return word - text <= 1 &&
         (!strcasecmp(word, "inf") || !strcasecmp(word, "infinity") || !strcasecmp(word, "nan"));
}

bool lap_jinja_read_real(const char *text, size_t length, double *out) {
  char clean[MAX_TEXT_BYTES];
  if (!normalize(text, length, false, clean)) return false;
  /* strtod reads more than Python does: hexadecimal, nan(...). */
  if (!is_special(clean) && strspn(clean, "0123456789+-.eE") != strlen(clean)) return false;
  char *end;
  *out = strtod(clean, &end);
  return *end == '\0' && end != clean;
}

/* What stands before the digits: 0x, 0o or 0b, where the base allows it; decides the base 0. */
static const char *skip_prefix(const char *digits, int *base) {
  static const struct {
    char letter;
    int base;
  } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (digits[0] == '0' && tolower((unsigned char)digits[1]) == prefixes[i].letter &&
        (*base == 0 || *base == prefixes[i].base)) {
      *base = prefixes[i].base;
      return digits + 2;
    }
  if (*base == 0) {
    *base = 10;
    if (digits[0] == '0' && strspn(digits, "0") != strlen(digits)) return NULL; /* 007 is no literal */
  }
  return digits;
}

bool lap_jinja_read_integer(const char *text, size_t length, int base, int64_t *out, bool *overflow) {
  char clean[MAX_TEXT_BYTES];
  *overflow = false;
  if (!normalize(text, length, true, clean)) return false;
  bool negative = clean[0] == '-';
  const char *digits = skip_prefix(clean + (negative || clean[0] == '+'), &base);
  if (!digits || !*digits) return false;
  int64_t result = 0;
  for (; *digits; digits++) {
    int c = tolower((unsigned char)*digits);
    int digit = isdigit(c) ? c - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : base;
    if (digit >= base) return false;
    if (__builtin_mul_overflow(result, base, &result) ||
        __builtin_add_overflow(result, negative ? -digit : digit, &result))
      *overflow = true;
  }
  *out = result;
  return true;
}

/* ---- arithmetic ---- */

bool lap_jinja_integer_power(int64_t a, int64_t b, int64_t *out) {
  int64_t result = 1;
  for (; b; b >>= 1) {
    if ((b & 1) && __builtin_mul_overflow(result, a, &result)) return false;
    /* The last square is not used, so it may overflow. */
    if (b > 1 && __builtin_mul_overflow(a, a, &a)) return false;
  }
  *out = result;
  return true;
}

double lap_jinja_divide(int64_t a, int64_t b) {
  static const int64_t exact = (int64_t)1 << 53;
  if (a <= exact && a >= -exact && b <= exact && b >= -exact) return (double)a / (double)b;
  /* Beyond that the operands would be rounded before the quotient is. So: the quotient to 62 bits or more,
   * its last bit set where a remainder is left, which is then rounded once. */
  uint64_t n = a < 0 ? -(uint64_t)a : (uint64_t)a, d = b < 0 ? -(uint64_t)b : (uint64_t)b;
  __extension__ typedef unsigned __int128 wide;
  int shift = n ? 63 + __builtin_clzll(n) : 0;
  wide shifted = (wide)n << shift, quotient = shifted / d;
  int scale = -shift;
  bool rest = shifted % d != 0;
  while (quotient >> 63) {
    rest |= (quotient & 1) != 0;
    quotient >>= 1;
    scale++;
  }
  double result = ldexp((double)((uint64_t)quotient | rest), scale);
  return (a < 0) == (b < 0) ? result : -result;
}
