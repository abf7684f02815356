/* parser.h: from tokens to a tree, by recursive descent.
 *
 * parser.c steps over tokens, parser_expression.c reads expressions with it, and parser_statement.c the tags
 * around them. */
#ifndef LAP_JINJA_PARSER_H
#define LAP_JINJA_PARSER_H

#include "jinja/syntax.h"

/* Fills `body` of the template that is being compiled, or refuses. */
void lap_jinja_parse(lap_jinja_compiler *c);

/* ---- stepping over tokens ---- */

typedef struct lap_jinja_parser {
  lap_jinja_compiler *compiler;
  const lap_jinja_token *token; /* the next one */
  int nesting;
  int conditional; /* inside an `if`, where an unknown filter is an error only when it is reached */
  const lap_jinja_node *unknown; /* the first filter or test elsewhere that does not exist */
  int loops;                     /* around this place, inside the same macro */
  lap_jinja_node *macro;         /* the innermost macro or call block */
} lap_jinja_parser;

/* Adds to the list whose end `*end` points to. */
static inline void lap_jinja_append_node(lap_jinja_node ***end, lap_jinja_node *n) {
  **end = n;
  *end = &n->next;
}

lap_jinja_node *lap_jinja_new_node(lap_jinja_parser *p, lap_jinja_node_kind kind, uint32_t offset);
void lap_jinja_enter(lap_jinja_parser *p);
void lap_jinja_leave(lap_jinja_parser *p);
bool lap_jinja_at_operator(const lap_jinja_parser *p, const char *spelling);
bool lap_jinja_at_name(const lap_jinja_parser *p, const char *name);
/* Steps over the token if it is that one. */
bool lap_jinja_skip_operator(lap_jinja_parser *p, const char *spelling);
bool lap_jinja_skip_name(lap_jinja_parser *p, const char *name);
/* Steps over the token, which must be that one. */
void lap_jinja_expect_operator(lap_jinja_parser *p, const char *spelling);
lap_jinja_token lap_jinja_expect_name(lap_jinja_parser *p);
_Noreturn void lap_jinja_unexpected(lap_jinja_parser *p, const char *wanted);

/* ---- expressions ---- */

lap_jinja_node *lap_jinja_parse_expression(lap_jinja_parser *p);
/* One expression, or several with commas: a tuple. `conditions`: may `a if b else c` stand here?
 * `end`: a name that ends it, or NULL. */
lap_jinja_node *lap_jinja_parse_tuple(lap_jinja_parser *p, bool conditions, const char *end);
/* Names and literals only, for targets. */
lap_jinja_node *lap_jinja_parse_simple_tuple(lap_jinja_parser *p, const char *end);
/* The filters from here on, applied to `input`; the first without its bar if `inline_start`. */
lap_jinja_node *lap_jinja_parse_filters(lap_jinja_parser *p, lap_jinja_node *input, bool inline_start);

#endif
