/* nfa.c: Thompson's construction, from the end to the beginning.
 *
 * Each expression is built in front of the node that follows it, so nothing has to be patched but loops.
 *
 * Calls cost: a matcher keeps a stack for them, and tokens that reach beyond the end of a rule have to be
 * looked at for each caller. So small rules that call nothing recursive are put in the place of their calls:
 * the smallest everywhere, and inside of repetitions also larger ones, if what they match is bounded (else
 * the repetition's end is met at every other token: `char*` where char is a rule). Repetitions with small
 * bounds are written out, others become rules that count.
 *
 * Invariant: only calls join rules; all nodes of a rule lead to its own ACCEPT. */
#include "grammar/nfa.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_NODES = 1 << 20,
  INLINE_SIZE = 16,       /* of rules put in place of their calls anywhere */
  INLINE_LOOP_SIZE = 256, /* and inside of repetitions */
  WRITE_OUT_SIZE = 256,   /* of repetitions */
  MAX_PROFILE_DEPTH = 64  /* rules that call each other more deeply are left as they are */
};

/* What a rule would be with all calls replaced. */
typedef struct profile {
  uint32_t size; /* UNBOUNDED: it is recursive, or too large to care */
  bool endless;  /* there is a repetition without bound */
  uint8_t state;
} profile;

#define UNBOUNDED UINT32_MAX

enum {
  NEW,
  OPEN,
  DONE
};

typedef struct counted {
  const lap_expression *repetition; /* NULL: a free slot */
  uint32_t rule;
} counted;

typedef struct builder {
  const lap_rules *rules;
  lap_nfa *nfa;
  profile *profiles; /* [rules->count] */
  uint32_t *numbers; /* [rules->count]: of source rules in the automaton, or UINT32_MAX */
  counted *counted;  /* open addressing: rules of counted repetitions */
  size_t counted_slots, counted_count;
  uint32_t source; /* the source rule being built */
  bool failed;
} builder;

/* ---- which calls to replace -------------------------------------------------------------------- */

static profile profile_of_rule(builder *b, uint32_t rule, int depth);

static void add_to_profile(builder *b, const lap_expression *e, int depth, profile *total);

static void add_parts(builder *b, const lap_expression *e, int depth, profile *total) {
  for (uint32_t i = 0; i < e->count && total->size != UNBOUNDED; i++)
    add_to_profile(b, e->parts[i], depth, total);
}

static void add_to_profile(builder *b, const lap_expression *e, int depth, profile *total) {
  /* Sizes beyond what is ever replaced need not be exact; so the walk is short too. */
  if (total->size != UNBOUNDED && (uint64_t)total->size + e->size > INLINE_LOOP_SIZE) total->size = UNBOUNDED;
  if (total->size == UNBOUNDED) return;
  switch (e->kind) {
    case LAP_CALL: {
      profile called = profile_of_rule(b, e->rule, depth + 1);
      total->endless |= called.endless;
      total->size = called.size == UNBOUNDED ? UNBOUNDED : total->size + called.size;
      return;
    }
    case LAP_SEQUENCE:
    case LAP_CHOICE:
      add_parts(b, e, depth, total);
      return;
    case LAP_LIST:
      add_to_profile(b, e->separator, depth, total);
      add_parts(b, e, depth, total);
      add_parts(b, e, depth, total);
      return;
    case LAP_REPETITION:
      total->endless |= e->max == LAP_ENDLESS;
      for (uint32_t i = 0; i < (e->max == LAP_ENDLESS ? e->min + 1 : e->max) && total->size != UNBOUNDED; i++)
        add_to_profile(b, e->part, depth, total);
      return;
    default:
      total->size += e->size;
  }
}

static profile profile_of_rule(builder *b, uint32_t rule, int depth) {
  profile *known = &b->profiles[rule];
  if (known->state == DONE) return *known;
  profile made = {.size = known->state == OPEN || depth > MAX_PROFILE_DEPTH ? UNBOUNDED : 0};
  if (made.size == UNBOUNDED) return made;
  known->state = OPEN;
  add_to_profile(b, b->rules->rules[rule].body, depth, &made);
  made.state = DONE;
  b->profiles[rule] = made;
  return made;
}

static bool is_replaced(builder *b, uint32_t rule, bool in_loop) {
  profile p = profile_of_rule(b, rule, 0);
  return p.size <= INLINE_SIZE || (in_loop && !p.endless && p.size <= INLINE_LOOP_SIZE);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static uint32_t add_node(builder *b, lap_nfa_node node) {
  lap_nfa *nfa = b->nfa;
  if (nfa->node_count == MAX_NODES ||
      !lap_reserve(&nfa->nodes, nfa->node_count + 1, &nfa->node_capacity, sizeof *nfa->nodes)) {
    b->failed = true;
    return 0;
  }
  nfa->nodes[nfa->node_count] = node;
  return (uint32_t)nfa->node_count++;
}

static uint32_t add_fork(builder *b, uint32_t next, uint32_t other) {
  return add_node(b, (lap_nfa_node){.kind = LAP_NFA_FORK, .next = next, .other = other});
}

static uint32_t add_rule(builder *b, const lap_expression *body, uint32_t min, uint32_t max) {
  lap_nfa *nfa = b->nfa;
  if (nfa->rule_count == 2 * LAP_MAX_RULES ||
      !lap_reserve(&nfa->rules, nfa->rule_count + 1, &nfa->rule_capacity, sizeof *nfa->rules)) {
    b->failed = true;
    return 0;
  }
  nfa->rules[nfa->rule_count] = (lap_nfa_rule){.body = body, .source = b->source, .min = min, .max = max};
  return (uint32_t)nfa->rule_count++;
}

static uint32_t number_of(builder *b, uint32_t rule) {
  if (b->numbers[rule] != UINT32_MAX) return b->numbers[rule];
  uint32_t outer = b->source;
  b->source = rule;
  uint32_t number = add_rule(b, b->rules->rules[rule].body, 1, 1);
  b->source = outer;
  return b->numbers[rule] = number;
}

static size_t counted_slot(const builder *b, const lap_expression *repetition) {
  size_t mask = b->counted_slots - 1;
  size_t at = (size_t)((uintptr_t)repetition * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
  while (b->counted[at].repetition && b->counted[at].repetition != repetition) at = (at + 1) & mask;
  return at;
}

static bool grow_counted(builder *b) {
  builder larger = *b;
  larger.counted_slots = b->counted_slots ? 2 * b->counted_slots : 64;
  larger.counted = calloc(larger.counted_slots, sizeof *larger.counted);
  if (!larger.counted) return false;
  for (size_t i = 0; i < b->counted_slots; i++)
    if (b->counted[i].repetition)
      larger.counted[counted_slot(&larger, b->counted[i].repetition)] = b->counted[i];
  free(b->counted);
  *b = larger;
  return true;
}

/* The rule that counts a repetition; the same expression in several places shares it. */
static uint32_t counted_rule(builder *b, const lap_expression *e) {
  if (2 * b->counted_count >= b->counted_slots && !grow_counted(b)) {
    b->failed = true;
    return 0;
  }
  counted *slot = &b->counted[counted_slot(b, e)];
  if (!slot->repetition) {
    *slot = (counted){e, add_rule(b, e->part, e->min > 1 ? e->min : 1, e->max)};
    b->counted_count++;
  }
  return slot->rule;
}

/* ---- expressions ------------------------------------------------------------------------------- */

static uint32_t build(builder *b, const lap_expression *e, uint32_t next, bool in_loop);

static uint32_t build_character(builder *b, const lap_expression *e, uint32_t next) {
  uint32_t start = UINT32_MAX;
  for (uint32_t i = 0; i < e->count; i++) {
    lap_utf8_sequence sequences[LAP_UTF8_MAX_SEQUENCES];
    int count = lap_utf8_sequences(e->ranges[i], sequences);
    for (int k = 0; k < count; k++) {
      uint32_t at = next;
      for (int byte = sequences[k].length - 1; byte >= 0; byte--)
        at = add_node(b, (lap_nfa_node){.kind = LAP_NFA_BYTE,
                                        .next = at,
                                        .low = sequences[k].low[byte],
                                        .high = sequences[k].high[byte]});
      start = start == UINT32_MAX ? at : add_fork(b, at, start);
    }
  }
  return start;
}

static uint32_t build_bytes(builder *b, const lap_expression *e, uint32_t next) {
  for (uint32_t i = e->count; i-- > 0;) {
    uint8_t byte = (uint8_t)e->bytes[i];
    next = add_node(b, (lap_nfa_node){.kind = LAP_NFA_BYTE, .next = next, .low = byte, .high = byte});
  }
  return next;
}

static uint32_t build_call(builder *b, const lap_expression *e, uint32_t next, bool in_loop) {
  if (is_replaced(b, e->rule, in_loop)) return build(b, b->rules->rules[e->rule].body, next, in_loop);
  return add_node(b, (lap_nfa_node){.kind = LAP_NFA_CALL, .next = next, .other = number_of(b, e->rule)});
}

/* `min` times, and then any number of times. */
static uint32_t build_endless(builder *b, const lap_expression *e, uint32_t next) {
  uint32_t loop = add_fork(b, next, next);
  uint32_t body = build(b, e->part, loop, true);
  if (!b->failed) b->nfa->nodes[loop].next = body;
  for (uint32_t i = 0; i < e->min && !b->failed; i++) loop = build(b, e->part, loop, true);
  return loop;
}

static uint32_t build_written_out(builder *b, const lap_expression *e, uint32_t next, bool in_loop) {
  uint32_t at = next;
  for (uint32_t i = e->max; i-- > 0 && !b->failed;) {
    at = build(b, e->part, at, in_loop);
    if (i >= e->min) at = add_fork(b, at, next);
  }
  return at;
}

static uint32_t build_counted(builder *b, const lap_expression *e, uint32_t next) {
  uint32_t rule = counted_rule(b, e);
  uint32_t call = add_node(b, (lap_nfa_node){.kind = LAP_NFA_CALL, .next = next, .other = rule});
  return e->min == 0 ? add_fork(b, call, next) : call;
}

static uint32_t build_repetition(builder *b, const lap_expression *e, uint32_t next, bool in_loop) {
  bool small = e->size <= WRITE_OUT_SIZE;
  if (e->max == LAP_ENDLESS && (small || e->min <= 1)) return build_endless(b, e, next);
  if (e->max == 1 || small) return build_written_out(b, e, next, in_loop || e->max > 1);
  return build_counted(b, e, next);
}

/* Two chains from the end to the beginning: in `some` a part has been written, so the next one needs the
 * separator; in `none` not yet. */
static uint32_t build_list(builder *b, const lap_expression *e, uint32_t next, bool in_loop) {
  uint32_t some = next, none = next;
  for (uint32_t i = e->count; i-- > 0 && !b->failed;) {
    uint32_t first = build(b, e->parts[i], some, in_loop);
    uint32_t later = build(b, e->separator, build(b, e->parts[i], some, in_loop), in_loop);
    none = e->optional[i] ? add_fork(b, first, none) : first;
    some = e->optional[i] ? add_fork(b, later, some) : later;
  }
  return none;
}

static uint32_t build(builder *b, const lap_expression *e, uint32_t next, bool in_loop) {
  if (b->failed) return 0;
  switch (e->kind) {
    case LAP_EMPTY:
      return next;
    case LAP_NOTHING:
      return add_node(b, (lap_nfa_node){.kind = LAP_NFA_STUCK});
    case LAP_BYTES:
      return build_bytes(b, e, next);
    case LAP_CHARACTER:
      return build_character(b, e, next);
    case LAP_TOKEN:
      return add_node(b, (lap_nfa_node){.kind = LAP_NFA_TOKEN, .next = next, .other = (uint32_t)e->token});
    case LAP_CALL:
      return build_call(b, e, next, in_loop);
    case LAP_SEQUENCE:
      for (uint32_t i = e->count; i-- > 0;) next = build(b, e->parts[i], next, in_loop);
      return next;
    case LAP_CHOICE: {
      uint32_t start = build(b, e->parts[e->count - 1], next, in_loop);
      for (uint32_t i = e->count - 1; i-- > 0;)
        start = add_fork(b, build(b, e->parts[i], next, in_loop), start);
      return start;
    }
    case LAP_REPETITION:
      return build_repetition(b, e, next, in_loop);
    case LAP_LIST:
      return build_list(b, e, next, in_loop);
  }
  return next;
}

/* ---- the empty text ---------------------------------------------------------------------------- */

/* A search from the starts of all rules through nodes that match nothing. A call is passed once its rule is
 * known to be nullable; until then it waits in that rule's list. Each node is looked at once. */
typedef struct search {
  lap_nfa *nfa;
  bool *reached;     /* [nodes] */
  uint32_t *pending; /* [nodes]: a stack */
  size_t pending_count;
  uint32_t *waiting;      /* [rules]: the first call that waits for it, or UINT32_MAX */
  uint32_t *waiting_next; /* [nodes] */
} search;

static void reach(search *s, uint32_t node) {
  if (s->reached[node]) return;
  s->reached[node] = true;
  s->pending[s->pending_count++] = node;
}

static void search_on(search *s, uint32_t at) {
  const lap_nfa_node *node = &s->nfa->nodes[at];
  switch (node->kind) {
    case LAP_NFA_FORK:
      reach(s, node->next);
      reach(s, node->other);
      return;
    case LAP_NFA_CALL:
      if (s->nfa->rules[node->other].nullable) {
        reach(s, node->next);
      } else {
        s->waiting_next[at] = s->waiting[node->other];
        s->waiting[node->other] = at;
      }
      return;
    case LAP_NFA_ACCEPT:
      s->nfa->rules[node->other].nullable = true;
      for (uint32_t call = s->waiting[node->other]; call != UINT32_MAX; call = s->waiting_next[call])
        reach(s, s->nfa->nodes[call].next);
      s->waiting[node->other] = UINT32_MAX;
      return;
    default:
      return;
  }
}

static bool find_nullable(lap_nfa *nfa) {
  search s = {.nfa = nfa};
  s.reached = calloc(nfa->node_count, sizeof *s.reached);
  s.pending = malloc(nfa->node_count * sizeof *s.pending);
  s.waiting = malloc(nfa->rule_count * sizeof *s.waiting);
  s.waiting_next = malloc(nfa->node_count * sizeof *s.waiting_next);
  bool done = s.reached && s.pending && s.waiting && s.waiting_next;
  if (done) {
    memset(s.waiting, 0xff, nfa->rule_count * sizeof *s.waiting);
    for (size_t i = 0; i < nfa->rule_count; i++) reach(&s, nfa->rules[i].start);
    while (s.pending_count > 0) search_on(&s, s.pending[--s.pending_count]);
  }
  free(s.reached);
  free(s.pending);
  free(s.waiting);
  free(s.waiting_next);
  return done;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void build_rules(builder *b, uint32_t root) {
  number_of(b, root);
  for (uint32_t i = 0; i < b->nfa->rule_count && !b->failed; i++) {
    lap_nfa_rule rule = b->nfa->rules[i];
    b->source = rule.source;
    uint32_t accept = add_node(b, (lap_nfa_node){.kind = LAP_NFA_ACCEPT, .other = i});
    uint32_t start = build(b, rule.body, accept, rule.max > 1);
    b->nfa->rules[i].start = start;
  }
}

lap_status lap_nfa_build(const lap_rules *rules, uint32_t root, const char *name, lap_nfa *out,
                         lap_error *error) {
  *out = (lap_nfa){0};
  builder b = {.rules = rules, .nfa = out};
  b.profiles = calloc(rules->count, sizeof *b.profiles);
  b.numbers = malloc(rules->count * sizeof *b.numbers);
  b.failed = !b.profiles || !b.numbers;
  if (!b.failed) {
    memset(b.numbers, 0xff, rules->count * sizeof *b.numbers);
    build_rules(&b, root);
  }
  b.failed = b.failed || !find_nullable(out);
  free(b.profiles);
  free(b.numbers);
  free(b.counted);
  if (!b.failed) return LAP_OK;
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: too large (more than %d nodes or %d rules)", name,
                  MAX_NODES, 2 * LAP_MAX_RULES);
}

void lap_nfa_free(lap_nfa *nfa) {
  free(nfa->nodes);
  free(nfa->rules);
  *nfa = (lap_nfa){0};
}
