/* dfa.c: the subset construction, rule by rule.
 *
 * A state is a set of nodes of the nondeterministic automaton, those that read something or accept, closed
 * under forks and under calls of rules that match the empty text. Sets are sorted lists in one pool, found
 * again through a hash table. The work is counted, because the number of sets can grow exponentially.
 *
 * Invariant: a rule's start state is not in the hash table. It never accepts (the empty text is its callers'
 * business), whereas the same set reached again later may. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "grammar/network.h"

enum {
  MAX_STATES = 1 << 18,
  MAX_EDGES = 1 << 20, /* of each kind */
  MAX_WORK = 1 << 25   /* nodes looked at */
};

typedef struct subset {
  size_t first; /* in the pool */
  uint32_t count;
} subset;

typedef struct builder {
  const lap_nfa *nfa;
  lap_network *network;
  uint32_t rule;
  size_t first_state; /* of the rule */
  uint32_t *pool;     /* nodes of the rule's subsets */
  size_t pool_count, pool_capacity;
  subset *subsets; /* by state of the rule */
  size_t subset_capacity;
  uint32_t *slots; /* states of the rule + 1, by subset; 0: free */
  size_t slot_count;
  uint64_t seed;
  uint32_t *marks; /* [nodes]: the number of the closure that reached it last */
  uint32_t mark;
  uint32_t *set; /* the closure being made: those that count */
  size_t set_count, set_capacity;
  uint32_t *pending;
  size_t pending_count, pending_capacity;
  size_t work;
  bool failed;
} builder;

/* ---- closures ---------------------------------------------------------------------------------- */

static void push(builder *b, uint32_t node) {
  if (b->marks[node] == b->mark) return;
  b->marks[node] = b->mark;
  if (!lap_reserve(&b->pending, b->pending_count + 1, &b->pending_capacity, sizeof *b->pending)) {
    b->failed = true;
    return;
  }
  b->pending[b->pending_count++] = node;
}

static void begin_closure(builder *b) {
  b->mark++;
  b->set_count = 0;
}

static void add_to_closure(builder *b, uint32_t node) {
  push(b, node);
  while (b->pending_count > 0 && !b->failed) {
    uint32_t at = b->pending[--b->pending_count];
    const lap_nfa_node *n = &b->nfa->nodes[at];
    b->failed = ++b->work > MAX_WORK;
    if (n->kind == LAP_NFA_STUCK) continue;
    if (n->kind == LAP_NFA_FORK || (n->kind == LAP_NFA_CALL && b->nfa->rules[n->other].nullable))
      push(b, n->next);
    if (n->kind == LAP_NFA_FORK) {
      push(b, n->other);
    } else if (lap_reserve(&b->set, b->set_count + 1, &b->set_capacity, sizeof *b->set)) {
      b->set[b->set_count++] = at;
    } else {
      b->failed = true;
    }
  }
}

static int by_value(const void *a, const void *b) {
  uint32_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

/* ---- states ------------------------------------------------------------------------------------ */

static uint64_t hash_set(const builder *b, const uint32_t *nodes, size_t count) {
  uint64_t h = b->seed;
  for (size_t i = 0; i < count; i++) h = (h ^ nodes[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
  return h;
}

/* The slot of a subset, or the free one where it belongs. */
static size_t find_slot(const builder *b, const uint32_t *nodes, size_t count) {
  size_t mask = b->slot_count - 1, at = (size_t)hash_set(b, nodes, count) & mask;
  for (; b->slots[at]; at = (at + 1) & mask) {
    const subset *s = &b->subsets[b->slots[at] - 1];
    if (s->count == count && memcmp(b->pool + s->first, nodes, count * sizeof *nodes) == 0) break;
  }
  return at;
}

static bool grow_slots(builder *b) {
  size_t states = b->network->state_count - b->first_state;
  if (2 * (states + 1) <= b->slot_count) return true;
  size_t larger = b->slot_count ? 2 * b->slot_count : 64;
  uint32_t *slots = calloc(larger, sizeof *slots);
  if (!slots) return false;
  free(b->slots);
  b->slots = slots;
  b->slot_count = larger;
  for (size_t i = 1; i < states; i++) /* all but the start */
    b->slots[find_slot(b, b->pool + b->subsets[i].first, b->subsets[i].count)] = (uint32_t)i + 1;
  return true;
}

static bool holds_accept(const builder *b) {
  for (size_t i = 0; i < b->set_count; i++)
    if (b->nfa->nodes[b->set[i]].kind == LAP_NFA_ACCEPT) return true;
  return false;
}

/* A new state for the closure; returns its number. */
static uint32_t add_state(builder *b, bool accepts) {
  lap_network *n = b->network;
  size_t local = n->state_count - b->first_state;
  if (n->state_count == MAX_STATES ||
      !lap_reserve(&n->states, n->state_count + 1, &n->state_capacity, sizeof *n->states) ||
      !lap_reserve(&b->subsets, local + 1, &b->subset_capacity, sizeof *b->subsets) ||
      !lap_reserve(&b->pool, b->pool_count + b->set_count, &b->pool_capacity, sizeof *b->pool)) {
    b->failed = true;
    return 0;
  }
  b->subsets[local] = (subset){b->pool_count, (uint32_t)b->set_count};
  if (b->set_count > 0) memcpy(b->pool + b->pool_count, b->set, b->set_count * sizeof *b->set);
  b->pool_count += b->set_count;
  n->states[n->state_count] = (lap_state){.rule = b->rule, .row = LAP_NO_ROW, .accepts = accepts};
  return (uint32_t)n->state_count++;
}

/* The state of the closure, which is not empty. */
static uint32_t state_of_closure(builder *b) {
  if (b->failed || !grow_slots(b)) {
    b->failed = true;
    return 0;
  }
  qsort(b->set, b->set_count, sizeof *b->set, by_value);
  size_t slot = find_slot(b, b->set, b->set_count);
  if (b->slots[slot]) return (uint32_t)(b->first_state + b->slots[slot] - 1);
  uint32_t state = add_state(b, holds_accept(b));
  if (!b->failed) b->slots[slot] = (uint32_t)(state - b->first_state + 1);
  return state;
}

/* ---- edges ------------------------------------------------------------------------------------- */

/* Room for one more edge in one of the network's arrays. */
static bool make_room(builder *b, void *array, size_t count, size_t *capacity, size_t size) {
  if (!b->failed && count < MAX_EDGES && lap_reserve(array, count + 1, capacity, size)) return true;
  b->failed = true;
  return false;
}

static void add_edge(builder *b, lap_state *state, unsigned low, unsigned high, uint32_t next) {
  lap_network *n = b->network;
  lap_edge *last = state->edges ? &n->edges[n->edge_count - 1] : NULL;
  if (last && last->next == next && last->high + 1u == low) {
    last->high = (uint8_t)high;
    return;
  }
  if (!make_room(b, &n->edges, n->edge_count, &n->edge_capacity, sizeof *n->edges)) return;
  n->edges[n->edge_count++] = (lap_edge){next, (uint8_t)low, (uint8_t)high};
  state->edges++;
}

/* The nodes of a subset of one kind; the subset itself may move while states are added. */
static const lap_nfa_node *node_at(const builder *b, subset s, uint32_t i, lap_nfa_kind kind) {
  const lap_nfa_node *node = &b->nfa->nodes[b->pool[s.first + i]];
  return node->kind == kind ? node : NULL;
}

/* Bytes between two neighbouring borders of any of the nodes' ranges lead to the same nodes. */
static void add_edges(builder *b, subset s, lap_state *state) {
  bool border[257] = {false}, any = false;
  for (uint32_t i = 0; i < s.count; i++) {
    const lap_nfa_node *node = node_at(b, s, i, LAP_NFA_BYTE);
    if (node) any = border[node->low] = border[node->high + 1] = true;
  }
  if (!any) return;
  border[0] = border[256] = true;
  for (unsigned low = 0, high; low < 256 && !b->failed; low = high) {
    for (high = low + 1; !border[high];) high++;
    begin_closure(b);
    for (uint32_t i = 0; i < s.count; i++) {
      const lap_nfa_node *node = node_at(b, s, i, LAP_NFA_BYTE);
      if (node && node->low <= low && node->high >= low) add_to_closure(b, node->next);
    }
    b->work += s.count;
    if (b->set_count > 0) add_edge(b, state, low, high - 1, state_of_closure(b));
  }
}

typedef struct pair {
  uint32_t symbol, next;
} pair;

static int by_symbol(const void *a, const void *b) {
  const pair *x = a, *y = b;
  return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

/* The symbols (rules or tokens) that a subset's nodes of one kind read, sorted, with what follows. */
static pair *collect(builder *b, subset s, lap_nfa_kind kind, size_t *count) {
  *count = 0;
  for (uint32_t i = 0; i < s.count; i++) *count += node_at(b, s, i, kind) != NULL;
  if (*count == 0) return NULL;
  pair *pairs = malloc(*count * sizeof *pairs);
  if (!pairs) {
    b->failed = true;
    return NULL;
  }
  size_t at = 0;
  for (uint32_t i = 0; i < s.count; i++) {
    const lap_nfa_node *node = node_at(b, s, i, kind);
    if (node) pairs[at++] = (pair){node->other, node->next};
  }
  qsort(pairs, *count, sizeof *pairs, by_symbol);
  return pairs;
}

static void add_call(builder *b, lap_state *state, uint32_t symbol, uint32_t next) {
  lap_network *n = b->network;
  if (!make_room(b, &n->calls, n->call_count, &n->call_capacity, sizeof *n->calls)) return;
  n->calls[n->call_count++] = (lap_call_edge){symbol, next};
  state->calls++;
}

static void add_token(builder *b, lap_state *state, uint32_t symbol, uint32_t next) {
  lap_network *n = b->network;
  if (!make_room(b, &n->tokens, n->token_count, &n->token_capacity, sizeof *n->tokens)) return;
  n->tokens[n->token_count++] = (lap_token_edge){(int32_t)symbol, next};
  state->tokens++;
}

static void add_symbols(builder *b, subset s, lap_nfa_kind kind, lap_state *state,
                        void (*add)(builder *, lap_state *, uint32_t, uint32_t)) {
  size_t count;
  pair *pairs = collect(b, s, kind, &count);
  for (size_t i = 0, end; pairs && i < count && !b->failed; i = end) {
    begin_closure(b);
    for (end = i; end < count && pairs[end].symbol == pairs[i].symbol; end++)
      add_to_closure(b, pairs[end].next);
    if (b->set_count > 0) add(b, state, pairs[i].symbol, state_of_closure(b));
  }
  free(pairs);
}

static void expand(builder *b, size_t index) {
  lap_network *n = b->network;
  subset s = b->subsets[index - b->first_state];
  lap_state state = n->states[index];
  state.first_edge = (uint32_t)n->edge_count;
  state.first_call = (uint32_t)n->call_count;
  state.first_token = (uint32_t)n->token_count;
  add_edges(b, s, &state);
  add_symbols(b, s, LAP_NFA_CALL, &state, add_call);
  add_symbols(b, s, LAP_NFA_TOKEN, &state, add_token);
  n->states[index] = state;
}

static void determinize_rule(builder *b, uint32_t rule) {
  lap_network *n = b->network;
  b->rule = rule;
  b->first_state = n->state_count;
  b->pool_count = 0;
  free(b->slots); /* not kept: clearing a large table for each of many small rules would take long */
  b->slots = NULL;
  b->slot_count = 0;
  begin_closure(b);
  add_to_closure(b, b->nfa->rules[rule].start);
  n->rules[rule].start = add_state(b, false);
  for (size_t i = b->first_state; i < n->state_count && !b->failed; i++) expand(b, i);
}

lap_status lap_network_determinize(const lap_nfa *nfa, const char *name, lap_network *network,
                                   lap_error *error) {
  builder b = {.nfa = nfa, .network = network};
  if (getrandom(&b.seed, sizeof b.seed, 0) != (ssize_t)sizeof b.seed) b.seed = (uintptr_t)&b;
  b.marks = calloc(nfa->node_count, sizeof *b.marks);
  b.failed = !b.marks ||
             !lap_reserve(&network->rules, nfa->rule_count, &network->rule_capacity, sizeof *network->rules);
  for (uint32_t i = 0; i < nfa->rule_count && !b.failed; i++) {
    const lap_nfa_rule *rule = &nfa->rules[i];
    network->rules[network->rule_count++] = (lap_network_rule){.min = rule->min, .max = rule->max};
    if (rule->nullable) network->rules[i].min = 1; /* the rounds that match nothing can be left out */
    determinize_rule(&b, i);
  }
  free(b.pool);
  free(b.subsets);
  free(b.slots);
  free(b.marks);
  free(b.set);
  free(b.pending);
  if (!b.failed) return LAP_OK;
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: too complex (more than %d states or %d edges)", name,
                  MAX_STATES, MAX_EDGES);
}
