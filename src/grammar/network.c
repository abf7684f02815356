/* network.c: what has to hold for every grammar, and what a matcher wants to know about it.
 *
 * After the automata are made, left recursion is refused, edges that lead nowhere are dropped (a rule may
 * never end, or match only the empty text, which is no longer its own business), and for each rule the bytes
 * that can follow it are collected. Each step looks at each state, edge and call a bounded number of times.
 */
#include "grammar/network.h"

#include <stdlib.h>
#include <string.h>

enum {
  ROW_EDGES = 4,     /* states with more edges get a row of 256, */
  MAX_ROWS = 1 << 13 /* as long as there are not too many (8 MiB) */
};

static lap_status no_memory(const char *name, lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
}

/* ---- rules that match something ---------------------------------------------------------------- */

/* A search from all starts: edges and tokens can be passed, and calls once their rule is known to end; until
 * then what follows them waits in that rule's list. */
typedef struct search {
  const lap_network *network;
  bool *productive;  /* [rules] */
  bool *reached;     /* [states] */
  uint32_t *pending; /* [states]: a stack */
  size_t pending_count;
  uint32_t *waiting;      /* [rules]: the first call that waits for it, or UINT32_MAX */
  uint32_t *waiting_next; /* [calls] */
} search;

static void reach(search *s, uint32_t state) {
  if (s->reached[state]) return;
  s->reached[state] = true;
  s->pending[s->pending_count++] = state;
}

static void found_productive(search *s, uint32_t rule) {
  s->productive[rule] = true;
  for (uint32_t call = s->waiting[rule]; call != UINT32_MAX; call = s->waiting_next[call])
    reach(s, s->network->calls[call].next);
  s->waiting[rule] = UINT32_MAX;
}

static void search_on(search *s, const lap_state *state) {
  const lap_network *n = s->network;
  if (state->accepts) found_productive(s, state->rule);
  for (uint32_t i = 0; i < state->edges; i++) reach(s, n->edges[state->first_edge + i].next);
  for (uint32_t i = 0; i < state->tokens; i++) reach(s, n->tokens[state->first_token + i].next);
  for (uint32_t i = state->first_call; i < state->first_call + state->calls; i++) {
    lap_call_edge call = n->calls[i];
    if (s->productive[call.rule]) {
      reach(s, call.next);
    } else {
      s->waiting_next[i] = s->waiting[call.rule];
      s->waiting[call.rule] = i;
    }
  }
}

static bool find_productive(const lap_network *n, bool *productive) {
  search s = {.network = n, .productive = productive};
  s.reached = calloc(n->state_count, sizeof *s.reached);
  s.pending = malloc(n->state_count * sizeof *s.pending);
  s.waiting = malloc(n->rule_count * sizeof *s.waiting);
  s.waiting_next = malloc((n->call_count + 1) * sizeof *s.waiting_next);
  bool done = s.reached && s.pending && s.waiting && s.waiting_next;
  if (done) {
    memset(s.waiting, 0xff, n->rule_count * sizeof *s.waiting);
    for (size_t i = 0; i < n->rule_count; i++) reach(&s, n->rules[i].start);
    while (s.pending_count > 0) search_on(&s, &n->states[s.pending[--s.pending_count]]);
  }
  free(s.reached);
  free(s.pending);
  free(s.waiting);
  free(s.waiting_next);
  return done;
}

/* ---- states from which the end can be reached -------------------------------------------------- */

/* Edges backwards, as linked lists. */
typedef struct reversed {
  uint32_t *first; /* [states]: a link + 1; 0: none */
  struct link {
    uint32_t from, next;
  } * links;
  size_t count;
  bool *live;        /* [states] */
  uint32_t *pending; /* [states] */
} reversed;

static void add_link(reversed *r, uint32_t from, uint32_t to) {
  r->links[r->count] = (struct link){from, r->first[to]};
  r->first[to] = (uint32_t)++r->count;
}

static void reverse_state(reversed *r, const lap_network *n, const bool *productive, uint32_t at) {
  const lap_state *state = &n->states[at];
  for (uint32_t i = 0; i < state->edges; i++) add_link(r, at, n->edges[state->first_edge + i].next);
  for (uint32_t i = 0; i < state->tokens; i++) add_link(r, at, n->tokens[state->first_token + i].next);
  for (uint32_t i = 0; i < state->calls; i++) {
    const lap_call_edge *call = &n->calls[state->first_call + i];
    if (productive[call->rule]) add_link(r, at, call->next);
  }
}

static void find_live(reversed *r, const lap_network *n, const bool *productive) {
  size_t pending = 0;
  for (uint32_t i = 0; i < n->state_count; i++) {
    reverse_state(r, n, productive, i);
    r->live[i] = n->states[i].accepts;
    if (r->live[i]) r->pending[pending++] = i;
  }
  while (pending > 0) {
    for (uint32_t link = r->first[r->pending[--pending]]; link; link = r->links[link - 1].next) {
      uint32_t from = r->links[link - 1].from;
      if (r->live[from]) continue;
      r->live[from] = true;
      r->pending[pending++] = from;
    }
  }
}

static void drop_dead_edges(lap_network *n, const bool *productive, const bool *live) {
  for (size_t s = 0; s < n->state_count; s++) {
    lap_state *state = &n->states[s];
    uint32_t edges = state->edges, tokens = state->tokens, calls = state->calls;
    state->edges = state->tokens = state->calls = 0;
    for (uint32_t i = state->first_edge; i < state->first_edge + edges; i++)
      if (live[n->edges[i].next]) n->edges[state->first_edge + state->edges++] = n->edges[i];
    for (uint32_t i = state->first_token; i < state->first_token + tokens; i++)
      if (live[n->tokens[i].next]) n->tokens[state->first_token + state->tokens++] = n->tokens[i];
    for (uint32_t i = state->first_call; i < state->first_call + calls; i++)
      if (productive[n->calls[i].rule] && live[n->calls[i].next])
        n->calls[state->first_call + state->calls++] = n->calls[i];
  }
}

static bool drop_dead(lap_network *n, const bool *productive) {
  reversed r = {0};
  size_t links = n->edge_count + n->token_count + n->call_count;
  r.first = calloc(n->state_count, sizeof *r.first);
  r.links = malloc((links + 1) * sizeof *r.links);
  r.live = calloc(n->state_count, sizeof *r.live);
  r.pending = malloc(n->state_count * sizeof *r.pending);
  bool done = r.first && r.links && r.live && r.pending;
  if (done) {
    find_live(&r, n, productive);
    drop_dead_edges(n, productive, r.live);
  }
  free(r.first);
  free(r.links);
  free(r.live);
  free(r.pending);
  return done;
}

/* ---- left recursion ---------------------------------------------------------------------------- */

/* Puts the rules in an order in which each stands behind those that it may begin with. Returns a rule that
 * may begin with itself, or UINT32_MAX. A rule matches no empty text, so only calls from start states count.
 * `stack` and `next_call` are scratch [rules]. */
static uint32_t order_rules(const lap_network *n, uint32_t *order, uint32_t *stack, uint32_t *next_call) {
  size_t ordered = 0;
  for (uint32_t i = 0; i < n->rule_count; i++) next_call[i] = UINT32_MAX; /* not visited */
  for (uint32_t root = 0; root < n->rule_count; root++) {
    if (next_call[root] != UINT32_MAX) continue;
    size_t depth = 0;
    next_call[root] = 0;
    stack[depth++] = root;
    while (depth > 0) {
      uint32_t rule = stack[depth - 1];
      const lap_state *start = &n->states[n->rules[rule].start];
      if (next_call[rule] == start->calls) {
        order[ordered++] = rule;
        next_call[rule]++; /* done: beyond the number of calls */
        depth--;
        continue;
      }
      uint32_t called = n->calls[start->first_call + next_call[rule]++].rule;
      uint32_t progress = next_call[called];
      if (progress == UINT32_MAX) {
        next_call[called] = 0;
        stack[depth++] = called;
      } else if (progress <= n->states[n->rules[called].start].calls) {
        return called; /* it is on the stack */
      }
    }
  }
  return UINT32_MAX;
}

/* ---- what can follow --------------------------------------------------------------------------- */

static bool join(lap_byte_set *into, const lap_byte_set *set) {
  bool changed = false;
  for (int i = 0; i < 4; i++) {
    changed |= (set->words[i] & ~into->words[i]) != 0;
    into->words[i] |= set->words[i];
  }
  return changed;
}

/* The bytes with which a text from this state can begin; `first` [rules] has those of what it calls. */
static lap_byte_set first_bytes(const lap_network *n, const lap_state *state, const lap_byte_set *first) {
  lap_byte_set set = {{0}};
  for (uint32_t i = 0; i < state->edges; i++) {
    const lap_edge *edge = &n->edges[state->first_edge + i];
    for (unsigned byte = edge->low; byte <= edge->high; byte++)
      set.words[byte / 64] |= UINT64_C(1) << byte % 64;
  }
  for (uint32_t i = 0; i < state->calls; i++) join(&set, &first[n->calls[state->first_call + i].rule]);
  return set;
}

/* What follows a rule that calls at its end follows the called rule too: passed on until nothing changes,
 * over one list of (called rule, next) for each caller. */
typedef struct heirs {
  uint32_t *first; /* [rules]: a link + 1; 0: none */
  struct heir {
    uint32_t rule, next;
  } * links; /* [calls] */
  size_t count;
  uint32_t *pending; /* [rules]: a stack; each at most once */
  bool *is_pending;  /* [rules] */
  size_t pending_count;
} heirs;

static void add_heir(heirs *h, uint32_t caller, uint32_t called) {
  h->links[h->count] = (struct heir){called, h->first[caller]};
  h->first[caller] = (uint32_t)++h->count;
}

static void add_pending(heirs *h, uint32_t rule) {
  if (h->is_pending[rule]) return;
  h->is_pending[rule] = true;
  h->pending[h->pending_count++] = rule;
}

static void follow_calls(lap_network *n, const lap_byte_set *first, heirs *h, const lap_state *state) {
  for (uint32_t i = 0; i < state->calls; i++) {
    lap_call_edge call = n->calls[state->first_call + i];
    const lap_state *next = &n->states[call.next];
    lap_byte_set set = first_bytes(n, next, first);
    join(&n->rules[call.rule].follow, &set);
    if (!next->accepts) continue;
    add_heir(h, state->rule, call.rule);
    if (n->rules[state->rule].max > 1) join(&n->rules[call.rule].follow, &first[state->rule]);
  }
}

static void pass_on(lap_network *n, heirs *h) {
  for (uint32_t i = 0; i < n->rule_count; i++) add_pending(h, i);
  while (h->pending_count > 0) {
    uint32_t caller = h->pending[--h->pending_count];
    h->is_pending[caller] = false;
    for (uint32_t link = h->first[caller]; link; link = h->links[link - 1].next) {
      uint32_t called = h->links[link - 1].rule;
      if (join(&n->rules[called].follow, &n->rules[caller].follow)) add_pending(h, called);
    }
  }
}

static bool find_follow(lap_network *n, const uint32_t *order) {
  heirs h = {0};
  lap_byte_set *first = calloc(n->rule_count, sizeof *first);
  h.first = calloc(n->rule_count, sizeof *h.first);
  h.links = malloc((n->call_count + 1) * sizeof *h.links);
  h.pending = malloc(n->rule_count * sizeof *h.pending);
  h.is_pending = calloc(n->rule_count, sizeof *h.is_pending);
  bool done = first && h.first && h.links && h.pending && h.is_pending;
  if (done) {
    for (size_t i = 0; i < n->rule_count; i++)
      first[order[i]] = first_bytes(n, &n->states[n->rules[order[i]].start], first);
    for (size_t i = 0; i < n->state_count; i++) follow_calls(n, first, &h, &n->states[i]);
    pass_on(n, &h);
  }
  free(first);
  free(h.first);
  free(h.links);
  free(h.pending);
  free(h.is_pending);
  return done;
}

/* ---- states as the matcher wants them ---------------------------------------------------------- */

static bool add_row(lap_network *n, lap_state *state) {
  if (!lap_reserve(&n->rows, n->row_count + 1, &n->row_capacity, sizeof *n->rows)) return false;
  uint32_t *row = n->rows[n->row_count];
  for (int byte = 0; byte < 256; byte++) row[byte] = lap_network_step(n, state, (uint8_t)byte);
  state->row = (uint32_t)n->row_count++;
  return true;
}

static bool finish_states(lap_network *n) {
  for (size_t i = 0; i < n->state_count; i++) {
    lap_state *state = &n->states[i];
    state->reads = state->edges > 0 || state->tokens > 0;
    state->ends = state->accepts && !state->reads && state->calls == 0 && n->rules[state->rule].max == 1;
    state->only_reads = state->reads && !state->accepts && state->calls == 0;
    if (state->edges > ROW_EDGES && n->row_count < MAX_ROWS && !add_row(n, state)) return false;
  }
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static lap_status keep_productive(lap_network *n, const char *name, lap_error *error) {
  bool *productive = calloc(n->rule_count, sizeof *productive);
  bool done = productive && find_productive(n, productive) && drop_dead(n, productive);
  bool any = done && (productive[0] || n->matches_empty);
  free(productive);
  if (!done) return no_memory(name, error);
  return any ? LAP_OK : lap_fail(error, LAP_ERROR_FORMAT, "%s: there is no text that it allows", name);
}

/* `scratch` has room for three numbers for each rule. */
static lap_status analyze(lap_network *n, const lap_rules *rules, const lap_nfa *nfa, const char *name,
                          uint32_t *scratch, lap_error *error) {
  uint32_t *order = scratch;
  uint32_t guilty = order_rules(n, order, scratch + n->rule_count, scratch + 2 * n->rule_count);
  if (guilty != UINT32_MAX)
    return rules->refuse(rules->reader, &rules->rules[nfa->rules[guilty].source],
                         "begins with itself, and left recursion is not supported", error);
  lap_status status = keep_productive(n, name, error);
  if (status == LAP_OK && !(find_follow(n, order) && finish_states(n))) status = no_memory(name, error);
  return status;
}

lap_status lap_network_build(const lap_rules *rules, uint32_t root, const char *name, lap_network *out,
                             lap_error *error) {
  *out = (lap_network){0};
  lap_nfa nfa;
  uint32_t *scratch = NULL;
  lap_status status = lap_nfa_build(rules, root, name, &nfa, error);
  if (status == LAP_OK) status = lap_network_determinize(&nfa, name, out, error);
  if (status == LAP_OK) {
    out->matches_empty = nfa.rules[0].nullable;
    scratch = malloc(3 * out->rule_count * sizeof *scratch);
    status = scratch ? analyze(out, rules, &nfa, name, scratch, error) : no_memory(name, error);
  }
  free(scratch);
  lap_nfa_free(&nfa);
  return status;
}

void lap_network_free(lap_network *network) {
  free(network->rules);
  free(network->states);
  free(network->edges);
  free(network->calls);
  free(network->tokens);
  free(network->rows);
  *network = (lap_network){0};
}

size_t lap_network_bytes(const lap_network *network) {
  return network->rule_capacity * sizeof *network->rules + network->state_capacity * sizeof *network->states +
         network->edge_capacity * sizeof *network->edges + network->call_capacity * sizeof *network->calls +
         network->token_capacity * sizeof *network->tokens + network->row_capacity * sizeof *network->rows;
}
