/* run.h: what evaluating a template shares.
 *
 * An error ends a render by a jump to its start, so evaluation reads as if nothing could fail. That is sound
 * because a render holds nothing but its arena: no function below may own memory, a file or a lock while it
 * calls another one. Every loop over data takes steps, every allocation is the arena's, and every recursion
 * goes through lap_jinja_descend: so work, memory and stack are bounded whatever the template does. */
#ifndef LAP_JINJA_RUN_H
#define LAP_JINJA_RUN_H

#include "jinja/syntax.h"

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
  const lap_jinja_language *language;
  lap_jinja_limits limits;
  const struct tm *now;
  dict *context;
  lap_jinja_scope *scope;
  struct lap_jinja_out *out; /* where printing goes */
  value captured;            /* for NODE_CAPTURED */
  uint32_t at;               /* the place in the source that is being evaluated */
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

/* Python's name of a value's type, for messages. */
const char *lap_jinja_type_name(value v);
/* Fails for an operation that these two do not have. */
_Noreturn void lap_jinja_fail_types(state *s, lap_jinja_operation operation, value a, value b);

lap_jinja_scope *lap_jinja_new_scope(state *s, lap_jinja_scope *outer);

#endif
