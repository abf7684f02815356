/* path.h: the argument `attribute` of filters: "a.b.0", or "a,b" for several. */
#ifndef LAP_JINJA_PATH_H
#define LAP_JINJA_PATH_H

#include "jinja/run.h"

/* The item that a path leads to from `v`; `otherwise` (NULL: undefined) where there is none. A path of None
 * is `v` itself. */
value lap_jinja_follow(state *s, value v, value path, const value *otherwise);

/* Strings in lower case, others as they are: what filters compare unless they are told to mind the case. */
value lap_jinja_ignore_case(state *s, value v);

#endif
