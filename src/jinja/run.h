/* run.h: what evaluating a template shares.
 *
 * An error ends a render by a jump to its start, so evaluation reads as if nothing could fail. That is sound
 * because a render holds nothing but its arena: no function below may own memory, a file or a lock while it
 * calls another one. Every loop over data takes steps, every allocation is the arena's, and every recursion
 * goes through lap_jinja_descend: so work, memory and stack are bounded whatever the template does. */
#ifndef LAP_JINJA_RUN_H
#define LAP_JINJA_RUN_H

#include "jinja/builtin.h"
#include "jinja/syntax.h"
#include "jinja/text.h"

typedef lap_jinja_node node;
typedef lap_jinja_state state;
typedef lap_jinja_call call;

/* Variables of one block; names are looked up outwards. */
typedef struct lap_jinja_scope {
  dict *variables;
  struct lap_jinja_scope *outer;
  bool captured; /* a macro may still need it: it is not to be used again for the next iteration */
} lap_jinja_scope;

struct lap_jinja_state {
  arena arena;
  const lap_jinja_template *compiled;
  lap_jinja_limits limits;
  const struct tm *now;
  dict *context;
  lap_jinja_scope *scope;
  lap_jinja_out *out; /* where printing goes */
  value captured;     /* for NODE_CAPTURED */
  uint32_t at;        /* the place in the source that is being evaluated */
  uint64_t steps;
  int depth;
  lap_error *error;
  lap_status status;
  jmp_buf failed;
};

/* ---- failing and counting ---- */

/* Ends the render with `name:line:column: message`, status FORMAT, or the one given. */
_Noreturn void lap_jinja_fail(state *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void lap_jinja_fail_with(state *s, lap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void lap_jinja_step(state *s, uint64_t steps);
/* Steps for handling `bytes` bytes of text. */
void lap_jinja_step_bytes(state *s, size_t bytes);

void lap_jinja_descend(state *s);
void lap_jinja_ascend(state *s);

/* ---- objects that only a running template has ---- */

typedef enum lap_jinja_view_kind {
  VIEW_KEYS,
  VIEW_VALUES,
  VIEW_ITEMS
} lap_jinja_view_kind;

typedef struct lap_jinja_view {
  dict *of;
  lap_jinja_view_kind kind;
} lap_jinja_view;

typedef struct lap_jinja_range {
  int64_t start, stop, step;
  size_t count;
  bool from_template;
} lap_jinja_range;

/* What Python would compute lazily; consumed by iterating, once. */
typedef struct lap_jinja_generator {
  list *items;
  size_t next;
} lap_jinja_generator;

typedef struct lap_jinja_cycler {
  list *items;
  size_t next;
} lap_jinja_cycler;

typedef struct lap_jinja_joiner {
  value separator;
  bool used;
} lap_jinja_joiner;

typedef struct lap_jinja_macro {
  const node *definition;
  lap_jinja_scope *scope;
} lap_jinja_macro;

typedef struct lap_jinja_method {
  value object;
  const builtin *builtin;
} lap_jinja_method;

static inline value lap_jinja_object(lap_jinja_type type, void *object) {
  return (value){.type = type, .object = object};
}

/* A value that is missing; the message is formatted when it is needed. */
value lap_jinja_missing(state *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails, saying what is missing. */
_Noreturn void lap_jinja_fail_undefined(state *s, value missing);

/* Dicts, with steps for what comparing and hashing a key costs; these fail for a key that cannot be one. */
value *lap_jinja_find(state *s, const dict *d, value key);
void lap_jinja_put(state *s, dict *d, value key, value item);
/* Puts all of a mapping, or of a list of pairs. */
void lap_jinja_update(state *s, dict *d, value from);

/* ---- expressions ---- */

value lap_jinja_evaluate(state *s, const node *n);
bool lap_jinja_truth(state *s, value v);
/* Python's name of a value's type, for messages. */
const char *lap_jinja_type_name(value v);

/* object.name and object[key], by Jinja's rules; undefined if there is no such thing. */
value lap_jinja_attribute(state *s, value object, const string *name);
value lap_jinja_item(state *s, value object, value key);
value lap_jinja_slice_of(state *s, value object, value begin, value end, value step);
/* The attribute alone, never an item; false if there is none. */
bool lap_jinja_own_attribute(state *s, value object, const string *name, value *out);

/* ---- operators.c ---- */

value lap_jinja_operate(state *s, lap_jinja_operation operation, value a, value b);
value lap_jinja_negate(state *s, value v);
value lap_jinja_positive(state *s, value v);
bool lap_jinja_equal(state *s, value a, value b);
bool lap_jinja_contains(state *s, value container, value item);
/* LESS, LESS_EQUAL, GREATER, GREATER_EQUAL; fails for types that have no order. */
bool lap_jinja_ordered(state *s, lap_jinja_operation operation, value a, value b);
bool lap_jinja_compare(state *s, lap_jinja_operation operation, value a, value b);
bool lap_jinja_identical(value a, value b);
value lap_jinja_concatenate(state *s, const string *a, const string *b);
value lap_jinja_repeat(state *s, value v, int64_t times);

/* ---- iterate.c ---- */

typedef struct lap_jinja_iterator {
  value over;
  size_t next;
} lap_jinja_iterator;

bool lap_jinja_iterable(value v);
/* Fails if `v` cannot be iterated. */
lap_jinja_iterator lap_jinja_iterate(state *s, value v);
bool lap_jinja_next(state *s, lap_jinja_iterator *iterator, value *out);
list *lap_jinja_collect(state *s, value v);
bool lap_jinja_sized(value v);
size_t lap_jinja_length(state *s, value v);
value lap_jinja_new_generator(state *s, list *items);
value lap_jinja_range_item(state *s, const lap_jinja_range *range, size_t index);
/* Stable; by `keys` [count], which move along. */
void lap_jinja_sort(state *s, value *items, value *keys, size_t count, bool reverse);

/* ---- calls ---- */

/* The arguments of a CALL, FILTER or TEST. */
lap_jinja_arguments lap_jinja_evaluate_arguments(state *s, const node *n);
value lap_jinja_call_value(state *s, value callee, const lap_jinja_arguments *arguments);
value lap_jinja_call_builtin(state *s, const builtin *b, value self, const lap_jinja_arguments *arguments);
value lap_jinja_call_loop(state *s, value object, value iterable);
/* Arguments by number; the optional ones with what they are if they were not given. */
const string *lap_jinja_text_argument(state *s, const call *c, size_t index);
int64_t lap_jinja_integer_argument(state *s, const call *c, size_t index, int64_t otherwise);
bool lap_jinja_truth_argument(state *s, const call *c, size_t index, bool otherwise);
/* Given, and not None. */
bool lap_jinja_has_argument(const call *c, size_t index);
int64_t lap_jinja_as_integer(state *s, value v);

/* ---- statements ---- */

typedef enum lap_jinja_flow {
  FLOW_NEXT,
  FLOW_BREAK,
  FLOW_CONTINUE
} lap_jinja_flow;

lap_jinja_flow lap_jinja_execute(state *s, const node *body);
lap_jinja_scope *lap_jinja_new_scope(state *s, lap_jinja_scope *outer);
/* What `body` prints in a scope of its own. */
value lap_jinja_capture(state *s, const node *body, lap_jinja_scope *scope, lap_jinja_flow *flow);
/* Assigns to a target in the current scope. */
void lap_jinja_assign(state *s, const node *target, value v);

/* ---- loop.c ---- */

lap_jinja_flow lap_jinja_execute_for(state *s, const node *n);
/* An attribute of `loop`, or false. */
bool lap_jinja_loop_attribute(state *s, value loop, const string *name, value *out);

/* ---- print.c ---- */

/* str() and repr(), appended. */
void lap_jinja_print(state *s, lap_jinja_out *out, value v);
void lap_jinja_repr(state *s, lap_jinja_out *out, value v);
/* str(): the string itself if it is one. */
const string *lap_jinja_to_text(state *s, value v);

#endif
