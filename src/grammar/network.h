/* network.h: a grammar as deterministic automata that call each other.
 *
 * Each rule is an automaton over bytes, special tokens and calls of rules, deterministic in each of the
 * three; what remains to be guessed is only which of the ways through calls and bytes the text takes. No rule
 * matches the empty text (where its source does, its callers have a way around the call), none begins with
 * itself, and from each state that an edge leads to the end of its rule can be reached. So a matcher whose
 * set of states is not empty has not lost, and following calls ends.
 *
 * A rule's text is its automaton's, `min` to `max` times in a row; for all but counted repetitions once. */
#ifndef LAP_GRAMMAR_NETWORK_H
#define LAP_GRAMMAR_NETWORK_H

#include "grammar/nfa.h"

typedef struct lap_edge {
  uint32_t next;
  uint8_t low, high;
} lap_edge;

typedef struct lap_call_edge {
  uint32_t rule, next;
} lap_call_edge;

typedef struct lap_token_edge {
  int32_t id;
  uint32_t next;
} lap_token_edge;

typedef struct lap_state {
  uint32_t rule;
  uint32_t first_edge, edges; /* in order of bytes, disjoint */
  uint32_t first_call, calls;
  uint32_t first_token, tokens;
  uint32_t row;    /* in `rows`, or LAP_NO_ROW */
  bool accepts;    /* the automaton may end here */
  bool ends;       /* and does: nothing leads on and the rule counts nothing */
  bool reads;      /* there are edges or tokens */
  bool only_reads; /* and there is nothing else: no calls, no end */
} lap_state;

#define LAP_NO_ROW   UINT32_MAX
#define LAP_NO_STATE UINT32_MAX

/* A set of bytes. */
typedef struct lap_byte_set {
  uint64_t words[4];
} lap_byte_set;

static inline bool lap_byte_set_holds(const lap_byte_set *set, uint8_t byte) {
  return set->words[byte / 64] >> byte % 64 & 1;
}

typedef struct lap_network_rule {
  uint32_t start;
  uint32_t min, max;
  lap_byte_set follow; /* bytes that can stand behind it, wherever it is called */
} lap_network_rule;

/* Rule 0 is the root. */
typedef struct lap_network {
  lap_network_rule *rules;
  lap_state *states;
  lap_edge *edges;
  lap_call_edge *calls;
  lap_token_edge *tokens;
  uint32_t (*rows)[256]; /* the next state for each byte, of states with many edges */
  size_t rule_count, state_count, edge_count, call_count, token_count, row_count;
  size_t rule_capacity, state_capacity, edge_capacity, call_capacity, token_capacity, row_capacity;
  bool matches_empty; /* the root's source does */
} lap_network;

/* Builds from the rule `root`. Errors: FORMAT (left recursion, through rules->refuse; no text matches),
 * UNSUPPORTED (too large), MEMORY, naming `name` or a rule. To be freed in either case. */
lap_status lap_network_build(const lap_rules *rules, uint32_t root, const char *name, lap_network *out,
                             lap_error *error);
void lap_network_free(lap_network *network);

size_t lap_network_bytes(const lap_network *network);

/* The state behind `byte`, or LAP_NO_STATE. */
static inline uint32_t lap_network_step(const lap_network *network, const lap_state *state, uint8_t byte) {
  if (state->row != LAP_NO_ROW) return network->rows[state->row][byte];
  for (uint32_t i = 0; i < state->edges; i++) {
    const lap_edge *edge = &network->edges[state->first_edge + i];
    if (byte <= edge->high) return byte >= edge->low ? edge->next : LAP_NO_STATE;
  }
  return LAP_NO_STATE;
}

/* ---- the parts of building, for network.c ---- */

/* Appends the states, edges, calls and tokens of all rules of `nfa` (dfa.c). States from which the end cannot
 * be reached may be among them. */
lap_status lap_network_determinize(const lap_nfa *nfa, const char *name, lap_network *network,
                                   lap_error *error);

#endif
