/* builtin.h: filters, tests, functions and methods: C functions behind Python signatures. */
#ifndef LAP_JINJA_BUILTIN_H
#define LAP_JINJA_BUILTIN_H

#include "jinja/object.h"

typedef struct lap_jinja_state lap_jinja_state;

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
struct lap_jinja_builtin {
  const char *name;
  const char *parameters;
  lap_jinja_function *call;
};

typedef struct lap_jinja_builtin builtin;

/* NULL if there is none of that name. */
const builtin *lap_jinja_find_filter(const string *name);
const builtin *lap_jinja_find_test(const string *name);
const builtin *lap_jinja_find_function(const string *name);
/* The method of a value's type. */
const builtin *lap_jinja_find_method(value object, const string *name);

/* The row of a table that ends with a row without a name. */
const builtin *lap_jinja_find_in(const builtin *table, const string *name);

/* The tables, each in the file that defines its functions. */
extern const builtin lap_jinja_text_filters[], lap_jinja_number_filters[], lap_jinja_sequence_filters[],
    lap_jinja_select_filters[], lap_jinja_json_filters[], lap_jinja_tests[];
extern const builtin lap_jinja_text_methods[], lap_jinja_list_methods[], lap_jinja_tuple_methods[],
    lap_jinja_dict_methods[], lap_jinja_loop_methods[], lap_jinja_cycler_methods[];

#endif
