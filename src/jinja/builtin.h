/* builtin.h: filters, tests, functions and methods: C functions behind Python signatures; and the language,
 * which is all of them. */
#ifndef LAP_JINJA_BUILTIN_H
#define LAP_JINJA_BUILTIN_H

#include "jinja/object.h"

typedef struct lap_jinja_state lap_jinja_state;
struct lap_jinja_macro;
struct lap_jinja_loop;

typedef struct lap_jinja_keyword {
  const string *name;
  value value;
} lap_jinja_keyword;

/* The arguments of a call, as they were written. */
typedef struct lap_jinja_arguments {
  value *positional;
  size_t count;
  lap_jinja_keyword *keywords;
  size_t keyword_count;
} lap_jinja_arguments;

enum {
  LAP_JINJA_MAX_PARAMETERS = 6
};

/* A call of a builtin, its arguments matched with the parameters. */
typedef struct lap_jinja_call {
  const char *name;
  value self;                               /* what a filter or test is applied to; a method's object */
  value argument[LAP_JINJA_MAX_PARAMETERS]; /* undefined where not given */
  bool given[LAP_JINJA_MAX_PARAMETERS];
  lap_jinja_arguments rest; /* what the parameters `*` and `**` take */
} lap_jinja_call;

typedef value lap_jinja_function(lap_jinja_state *state, lap_jinja_call *call);

/* `parameters`: names with spaces between; those from the first with `?` on may be left out; `*` and `**`
 * take any further arguments and keywords. */
typedef struct lap_jinja_builtin {
  const char *name;
  const char *parameters;
  lap_jinja_function *call;
} builtin;

/* ---- the language ---- */

/* Everything that the language has, put together by jinja.c, the one file that knows it all. Templates call
 * themselves: a filter calls other filters by name, an attribute may be a method of any type, calling a macro
 * executes statements. So what a file needs of those above it, it finds here, and nowhere else: this is the
 * only way up. Tables end with a row without a name. */
typedef struct lap_jinja_language {
  const builtin *const *filters; /* tables, the last NULL */
  const builtin *tests, *functions;
  const builtin *methods[LAP_JINJA_METHOD + 1]; /* of each type; NULL: it has none */

  /* Calls a macro, or the `loop` of a recursive loop; what the body prints. */
  value (*call_macro)(lap_jinja_state *s, const struct lap_jinja_macro *macro,
                      const lap_jinja_arguments *arguments);
  value (*call_loop)(lap_jinja_state *s, const struct lap_jinja_loop *loop, value iterable);
  /* Does the condition behind a loop's iterable let the item through? */
  bool (*passes)(lap_jinja_state *s, const struct lap_jinja_loop *loop, value item);
} lap_jinja_language;

/* These return NULL if there is none of that name. */
const builtin *lap_jinja_find_in(const builtin *table, const string *name);
const builtin *lap_jinja_find_filter(const lap_jinja_language *language, const string *name);
/* The method of a value's type. */
const builtin *lap_jinja_find_method(const lap_jinja_language *language, value object, const string *name);

#endif
