/* number.h: numbers and text, as Python spells and reads them. All expect the C locale's decimal point,
 * which compiling and rendering set for their thread. */
#ifndef LAP_JINJA_NUMBER_H
#define LAP_JINJA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  LAP_JINJA_NUMBER_BYTES = 32
};

/* repr(float): the shortest digits that read back as the same double, and of those the closest; bytes
 * written to `out` [LAP_JINJA_NUMBER_BYTES], terminated. */
size_t lap_jinja_spell_real(double real, char *out);

/* float(text), int(text, base): surrounding whitespace, single underscores between digits, decimal digits of
 * any script. False if the text is no number; an integer beyond int64_t gives true and `*overflow`. */
bool lap_jinja_read_real(const char *text, size_t length, double *out);
bool lap_jinja_read_integer(const char *text, size_t length, int base, int64_t *out, bool *overflow);

/* a ** b for b >= 0; false if it overflows. */
bool lap_jinja_integer_power(int64_t a, int64_t b, int64_t *out);
/* a / b for b != 0, correctly rounded. */
double lap_jinja_divide(int64_t a, int64_t b);

#endif
