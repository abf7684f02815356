/* access.h: object.name, object[key] and slices, by Jinja's rules. */
#ifndef LAP_JINJA_ACCESS_H
#define LAP_JINJA_ACCESS_H

#include "jinja/run.h"

/* Undefined if there is no such thing. */
value lap_jinja_attribute(state *s, value object, const string *name);
value lap_jinja_item(state *s, value object, value key);
value lap_jinja_slice_of(state *s, value object, value begin, value end, value step);
/* The attribute alone, never an item; false if there is none. */
bool lap_jinja_own_attribute(state *s, value object, const string *name, value *out);

#endif
