/* call.h: calling, and what the called read of their arguments. */
#ifndef LAP_JINJA_CALL_H
#define LAP_JINJA_CALL_H

#include "jinja/run.h"

value lap_jinja_call_builtin(state *s, const builtin *b, value self, const lap_jinja_arguments *arguments);
/* Anything that a template may call; fails for the rest. */
value lap_jinja_call_value(state *s, value callee, const lap_jinja_arguments *arguments);

/* Arguments by number; the optional ones with what they are if they were not given. */
const string *lap_jinja_text_argument(state *s, const call *c, size_t index);
int64_t lap_jinja_integer_argument(state *s, const call *c, size_t index, int64_t otherwise);
bool lap_jinja_truth_argument(state *s, const call *c, size_t index, bool otherwise);
/* Given, and not None. */
bool lap_jinja_has_argument(const call *c, size_t index);
int64_t lap_jinja_as_integer(state *s, value v);

#endif
