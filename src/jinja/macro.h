/* macro.h: calling a macro. */
#ifndef LAP_JINJA_MACRO_H
#define LAP_JINJA_MACRO_H

#include "jinja/run.h"

/* For the language, see builtin.h. */
value lap_jinja_call_macro(state *s, const lap_jinja_macro *macro, const lap_jinja_arguments *arguments);

#endif
