/* arithmetic.h: numbers with the results that Python's operators have; where Python's integers would outgrow
 * 64 bits, an error. The origin of a result is the template's only if that of all operands is. */
#ifndef LAP_JINJA_ARITHMETIC_H
#define LAP_JINJA_ARITHMETIC_H

#include "jinja/run.h"

/* ADD to POWER, of two numbers. */
value lap_jinja_calculate(state *s, lap_jinja_operation operation, value a, value b);
/* Signs; these fail for what is no number. */
value lap_jinja_negate(state *s, value v);
value lap_jinja_positive(state *s, value v);

#endif
