/* print.h: str() and repr(). */
#ifndef LAP_JINJA_PRINT_H
#define LAP_JINJA_PRINT_H

#include "jinja/text.h"

/* These append. */
void lap_jinja_print(state *s, lap_jinja_out *out, value v);
void lap_jinja_repr(state *s, lap_jinja_out *out, value v);
/* str(): the string itself if it is one. */
const string *lap_jinja_to_text(state *s, value v);

#endif
