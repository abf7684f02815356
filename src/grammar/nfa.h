/* nfa.h: rules as nondeterministic automata, and which of them match the empty text.
 *
 * Rule 0 is the root. The rules here are those of the source that the root reaches and that were not put in
 * place of their calls, and one for each repetition that is counted and not written out: its body is matched
 * min to max times. */
#ifndef LAP_GRAMMAR_NFA_H
#define LAP_GRAMMAR_NFA_H

#include "grammar/expression.h"

typedef enum lap_nfa_kind {
  LAP_NFA_BYTE,  /* a byte from low to high, then next */
  LAP_NFA_TOKEN, /* the token `other`, then next */
  LAP_NFA_CALL,  /* the rule `other`, then next */
  LAP_NFA_FORK,  /* next or other */
  LAP_NFA_STUCK, /* no way on */
  LAP_NFA_ACCEPT /* the end of the rule `other` */
} lap_nfa_kind;

typedef struct lap_nfa_node {
  uint32_t next, other;
  uint8_t kind, low, high;
} lap_nfa_node;

typedef struct lap_nfa_rule {
  const lap_expression *body;
  uint32_t source; /* number in lap_rules; of a repetition, that of the rule which holds it */
  uint32_t start;  /* node */
  uint32_t min, max;
  bool nullable; /* the body matches the empty text */
} lap_nfa_rule;

typedef struct lap_nfa {
  lap_nfa_node *nodes;
  size_t node_count, node_capacity;
  lap_nfa_rule *rules;
  size_t rule_count, rule_capacity;
} lap_nfa;

/* Builds from the rule `root`. All rules are defined. Errors: UNSUPPORTED (too large), MEMORY, naming
 * `name`. To be freed in either case. */
lap_status lap_nfa_build(const lap_rules *rules, uint32_t root, const char *name, lap_nfa *out,
                         lap_error *error);
void lap_nfa_free(lap_nfa *nfa);

#endif
