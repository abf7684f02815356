/* operators.h: the operators of expressions, for all types that have them. */
#ifndef LAP_JINJA_OPERATORS_H
#define LAP_JINJA_OPERATORS_H

#include "jinja/run.h"

/* ADD to POWER. */
value lap_jinja_operate(state *s, lap_jinja_operation operation, value a, value b);
value lap_jinja_concatenate(state *s, const string *a, const string *b);

#endif
