/* expression.h: what an expression of the tree is worth. */
#ifndef LAP_JINJA_EXPRESSION_H
#define LAP_JINJA_EXPRESSION_H

#include "jinja/run.h"

value lap_jinja_evaluate(state *s, const node *n);
/* The arguments of a CALL, FILTER or TEST. */
lap_jinja_arguments lap_jinja_evaluate_arguments(state *s, const node *n);

#endif
