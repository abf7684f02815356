/* matcher.c: a set of positions is moved by tokens, and asked which ones it could be moved by.
 *
 * The mask is the union of what each position allows. For a position that consists of two parts: tokens that
 * stay within its rule, which depend on the state alone and come from the grammar's cache, and tokens that go
 * on behind the end of the rule. For those the cache knows the nodes of the trie at which the rule can have
 * ended; from there the positions that follow the position's frame walk on through the rest of the trie.
 *
 * A rule that counts its rounds depends on the count, but only near its bounds: a token has so many bytes, a
 * round needs one at least, so a bound further away than that is as good as none.
 *
 * Where rules end and begin all the time (a repetition of calls of a recursive rule) what goes on behind them
 * is most of the work. Texts come back to the same set of positions then, so the last costly masks are kept,
 * by set.
 *
 * Invariant: between calls `stacks` holds one set, [0, count), not empty unless the text is complete or
 * stuck; `complete` belongs to it. */
#include "grammar/matcher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/compiled.h"
#include "grammar/stacks.h"

enum {
  MAX_STEPS = 1 << 26,    /* for one mask: about half a second */
  COSTLY_STEPS = 1 << 15, /* a mask that took as many is kept */
  KEPT_MASKS = 8
};

/* The mask of a set of positions. */
typedef struct kept_mask {
  lap_position *positions; /* [count] */
  size_t count, capacity;
  uint32_t tidied; /* of the stacks; later, frames have other numbers */
  uint64_t *bits;
} kept_mask;

/* A node on the path of a walk, and what can read on behind it: one position, or if its state is LAP_NO_STATE
 * the set [from, to). Most often it is one, and then it need not be written to the set. */
typedef struct level {
  lap_position one;
  size_t from, to, frames;
  uint32_t end; /* of the subtree */
} level;

struct lap_matcher {
  lap_grammar *grammar;
  lap_stacks stacks;
  bool complete, finished;
  level *levels;   /* [longest + 1] */
  uint64_t *found; /* [words]: of the entry being made */
  uint64_t *mask;  /* [words]: where the caller gave no room */
  kept_mask kept[KEPT_MASKS];
  unsigned next_kept;
};

/* ---- walking the trie -------------------------------------------------------------------------- */

typedef struct walk {
  lap_matcher *matcher;
  uint64_t *bits; /* the tokens found */
  const lap_byte_set
      *exit_bytes; /* collect nodes where BASE is left and one of these goes on; NULL: do not */
  uint32_t *exits;
  size_t exit_count, exit_capacity;
} walk;

static void set_bit(uint64_t *bits, int32_t id) {
  bits[id / 64] |= UINT64_C(1) << id % 64;
}

static bool goes_on(const lap_vocabulary *v, uint32_t node, const lap_byte_set *bytes) {
  for (uint32_t child = node + 1; child < v->end[node]; child = v->end[child])
    if (lap_byte_set_holds(bytes, v->byte[child])) return true;
  return false;
}

static void add_exit(walk *w, uint32_t node) {
  const lap_vocabulary *v = w->matcher->grammar->vocabulary;
  if (!w->exit_bytes || !goes_on(v, node, w->exit_bytes)) return;
  if (lap_reserve(&w->exits, w->exit_count + 1, &w->exit_capacity, sizeof *w->exits))
    w->exits[w->exit_count++] = node;
  else
    w->matcher->stacks.failed = true;
}

static void found(walk *w, uint32_t node) {
  const lap_vocabulary *v = w->matcher->grammar->vocabulary;
  for (uint32_t i = v->first[node]; i < v->first[node + 1]; i++) set_bit(w->bits, v->ids[i]);
}

/* A position has come to `at`, whose state accepts and does nothing else, called by BASE: what the general
 * way would find, without sets. False: the next round needs them. */
static bool finish_round_alone(walk *w, lap_position at, uint32_t node, level *next, bool *reads) {
  const lap_network *n = w->matcher->stacks.network;
  const lap_network_rule *rule = &n->rules[n->states[at.state].rule];
  uint32_t count = at.count + 1;
  *reads = count < rule->max;
  if (*reads && !n->states[rule->start].only_reads) return false;
  if (rule->max == LAP_ENDLESS && count > rule->min) count = rule->min;
  next->one = (lap_position){rule->start, count, at.frame};
  found(w, node);
  if (count >= rule->min) add_exit(w, node);
  return true;
}

/* Reads the byte of a node with all that may read on behind its parent, and notes what was found. `*next` is
 * set; true if something can read on. */
static bool enter_node(walk *w, const level *parent, uint32_t node, level *next) {
  lap_stacks *s = &w->matcher->stacks;
  const lap_vocabulary *v = w->matcher->grammar->vocabulary;
  const lap_state *states = s->network->states;
  *next = (level){parent->one, parent->to, parent->to, parent->frames, v->end[node]};
  if (parent->one.state != LAP_NO_STATE) {
    next->one.state = lap_network_step(s->network, &states[parent->one.state], v->byte[node]);
    s->steps++;
    if (next->one.state == LAP_NO_STATE) return false;
    const lap_state *state = &states[next->one.state];
    if (state->only_reads) {
      found(w, node);
      return true;
    }
    bool reads;
    if (next->one.frame == LAP_BASE && !state->reads && state->calls == 0 &&
        finish_round_alone(w, next->one, node, next, &reads))
      return reads;
    lap_stacks_truncate(s, parent->to, parent->frames);
    lap_stacks_begin(s);
    lap_stacks_enter(s, next->one);
  } else {
    lap_stacks_truncate(s, parent->to, parent->frames);
    lap_stacks_read_byte(s, parent->from, parent->to, v->byte[node]);
  }
  next->to = s->count;
  next->frames = s->frame_count;
  if (next->to == next->from && !s->ended && !s->left) return false;
  next->one.state = LAP_NO_STATE;
  if (next->to - next->from == 1) next->one = s->positions[next->from];
  found(w, node);
  if (s->left) add_exit(w, node);
  return next->to > next->from;
}

/* Finds the tokens below `node` that the set [from, count) can read the rest of. */
static void walk_below(walk *w, uint32_t node, size_t from) {
  lap_stacks *s = &w->matcher->stacks;
  const lap_vocabulary *v = w->matcher->grammar->vocabulary;
  level *levels = w->matcher->levels;
  size_t depth = 0;
  levels[0] = (level){{LAP_NO_STATE, 0, 0}, from, s->count, s->frame_count, v->end[node]};
  if (s->count - from == 1) levels[0].one = s->positions[from];
  for (uint32_t at = node + 1; !s->failed && s->steps < MAX_STEPS;) {
    if (at == levels[depth].end) {
      if (depth == 0) break;
      depth--;
    } else if (!enter_node(w, &levels[depth], at, &levels[depth + 1])) {
      at = v->end[at];
    } else {
      at++;
      depth += levels[depth + 1].end > at; /* there are children */
    }
  }
  lap_stacks_truncate(s, levels[0].to, levels[0].frames);
}

/* ---- what a state allows ----------------------------------------------------------------------- */

/* A count that allows the same tokens as this one, and as many others as possible. */
static uint32_t typical_count(const lap_network_rule *rule, uint32_t count, uint32_t longest) {
  if (count < rule->min) return rule->min - count > longest + 1 ? 0 : count;
  if (rule->max == LAP_ENDLESS) return rule->min;
  return rule->max - count > longest + 1 ? rule->min : count;
}

static size_t count_bits(const uint64_t *bits, size_t words) {
  size_t count = 0;
  for (size_t i = 0; i < words; i++) count += (size_t)__builtin_popcountll(bits[i]);
  return count;
}

/* Keeps the set as a list or as it is, whichever is shorter. */
static bool store_ids(lap_mask_entry *entry, const uint64_t *bits, size_t words) {
  entry->id_count = count_bits(bits, words);
  if (entry->id_count * sizeof *entry->ids >= words * sizeof *bits) {
    entry->bits = malloc(words * sizeof *bits);
    if (entry->bits) memcpy(entry->bits, bits, words * sizeof *bits);
    entry->bytes += words * sizeof *bits;
    return entry->bits != NULL;
  }
  entry->ids = malloc((entry->id_count + 1) * sizeof *entry->ids);
  if (!entry->ids) return false;
  size_t at = 0;
  for (size_t i = 0; i < words; i++)
    for (uint64_t rest = bits[i]; rest; rest &= rest - 1)
      entry->ids[at++] = (int32_t)(i * 64 + (size_t)__builtin_ctzll(rest));
  entry->bytes += (entry->id_count + 1) * sizeof *entry->ids;
  return true;
}

/* Walks the whole trie from one state whose rule was called by anybody. NULL: failed. */
static lap_mask_entry *make_entry(lap_matcher *m, lap_position at, uint64_t key) {
  const lap_vocabulary *v = m->grammar->vocabulary;
  const lap_network *n = &m->grammar->network;
  lap_stacks *s = &m->stacks;
  size_t words = lap_vocabulary_words(v), from = s->count;
  memset(m->found, 0, words * sizeof *m->found);
  if (!lap_reserve(&s->positions, from + 1, &s->capacity, sizeof *s->positions)) return NULL;
  s->positions[s->count++] = (lap_position){at.state, at.count, LAP_BASE};
  walk w = {.matcher = m, .bits = m->found, .exit_bytes = &n->rules[n->states[at.state].rule].follow};
  walk_below(&w, 0, from);
  lap_stacks_truncate(s, from, s->frame_count);
  lap_mask_entry *entry = s->failed || s->steps >= MAX_STEPS ? NULL : calloc(1, sizeof *entry);
  if (!entry) {
    free(w.exits);
    return NULL;
  }
  *entry = (lap_mask_entry){.key = key, .exits = w.exits, .exit_count = w.exit_count};
  entry->bytes = sizeof *entry + w.exit_capacity * sizeof *w.exits;
  if (store_ids(entry, m->found, words)) return entry;
  lap_mask_entry_free(entry);
  return NULL;
}

static lap_mask_entry *entry_of(lap_matcher *m, lap_position at) {
  const lap_network *n = &m->grammar->network;
  at.count = typical_count(&n->rules[n->states[at.state].rule], at.count, m->grammar->vocabulary->longest);
  uint64_t key = (uint64_t)at.count << 32 | at.state;
  lap_mask_entry *entry = lap_mask_cache_find(m->grammar->masks, key);
  if (entry) return entry;
  entry = make_entry(m, at, key);
  return entry ? lap_mask_cache_enter(m->grammar->masks, entry) : NULL;
}

/* ---- the mask ---------------------------------------------------------------------------------- */

static void add_entry(const lap_mask_entry *entry, uint64_t *bits, size_t words) {
  if (entry->bits) {
    for (size_t i = 0; i < words; i++) bits[i] |= entry->bits[i];
  } else {
    for (size_t i = 0; i < entry->id_count; i++) set_bit(bits, entry->ids[i]);
  }
}

/* Tokens that go on behind the end of the position's rule. */
static void add_beyond(lap_matcher *m, const lap_mask_entry *entry, uint32_t frame, uint64_t *bits) {
  lap_stacks *s = &m->stacks;
  size_t from = s->count, frames = s->frame_count;
  if (entry->exit_count == 0 || frame == LAP_BOTTOM) return;
  lap_stacks_begin(s);
  lap_stacks_leave(s, frame);
  walk w = {.matcher = m, .bits = bits};
  for (size_t i = 0; i < entry->exit_count && s->count > from && !s->failed && s->steps < MAX_STEPS; i++)
    walk_below(&w, entry->exits[i], from);
  lap_stacks_truncate(s, from, frames);
}

static bool add_position(lap_matcher *m, size_t index, uint64_t *bits) {
  lap_position at = m->stacks.positions[index];
  const lap_network *n = &m->grammar->network;
  const lap_state *state = &n->states[at.state];
  for (uint32_t i = 0; i < state->tokens; i++) set_bit(bits, n->tokens[state->first_token + i].id);
  if (state->edges == 0) return true;
  lap_mask_entry *entry = entry_of(m, at);
  if (!entry) return false;
  add_entry(entry, bits, lap_vocabulary_words(m->grammar->vocabulary));
  add_beyond(m, entry, at.frame, bits);
  lap_mask_cache_release(m->grammar->masks, entry);
  return !m->stacks.failed && m->stacks.steps < MAX_STEPS;
}

/* ---- masks kept -------------------------------------------------------------------------------- */

static bool recall(const lap_matcher *m, uint64_t *bits, size_t words) {
  size_t size = m->stacks.count * sizeof *m->stacks.positions;
  for (int i = 0; i < KEPT_MASKS; i++) {
    const kept_mask *k = &m->kept[i];
    if (k->count == 0 || k->count != m->stacks.count || k->tidied != m->stacks.tidied) continue;
    if (memcmp(k->positions, m->stacks.positions, size) != 0) continue;
    memcpy(bits, k->bits, words * sizeof *bits);
    return true;
  }
  return false;
}

/* Keeps a mask in the place of the oldest one; without memory it does not. */
static void keep(lap_matcher *m, const uint64_t *bits, size_t words) {
  kept_mask *k = &m->kept[m->next_kept++ % KEPT_MASKS];
  k->count = 0;
  if (!k->bits) k->bits = malloc(words * sizeof *bits);
  if (!k->bits || !lap_reserve(&k->positions, m->stacks.count, &k->capacity, sizeof *k->positions)) return;
  memcpy(k->bits, bits, words * sizeof *bits);
  k->count = m->stacks.count;
  k->tidied = m->stacks.tidied;
  memcpy(k->positions, m->stacks.positions, k->count * sizeof *k->positions);
}

/* ---- the whole mask ---------------------------------------------------------------------------- */

/* The scratch sets may have stopped anywhere: back to the matcher's own. */
static lap_status fail_ambiguous(lap_matcher *m, size_t count, size_t frames, lap_error *error) {
  lap_stacks_truncate(&m->stacks, count, frames);
  m->stacks.failed = false;
  return lap_fail(error, LAP_ERROR_UNSUPPORTED,
                  "grammar: too ambiguous: the text so far can be read in too many ways");
}

static bool is_empty(const uint64_t *bits, size_t words) {
  for (size_t i = 0; i < words; i++)
    if (bits[i]) return false;
  return true;
}

lap_status lap_matcher_mask(lap_matcher *m, uint64_t *bits, lap_error *error) {
  const lap_vocabulary *v = m->grammar->vocabulary;
  size_t words = lap_vocabulary_words(v), count = m->stacks.count, frames = m->stacks.frame_count;
  bool kept = count > 0 && !m->finished && recall(m, bits, words);
  if (!kept) memset(bits, 0, words * sizeof *bits);
  m->stacks.steps = 0;
  for (size_t i = 0; i < count && !m->finished && !kept; i++)
    if (!add_position(m, i, bits)) return fail_ambiguous(m, count, frames, error);
  if (m->stacks.steps > COSTLY_STEPS) keep(m, bits, words);
  if (m->complete || m->finished || is_empty(bits, words))
    for (size_t i = 0; i < v->eos_count; i++) set_bit(bits, v->eos[i]);
  return LAP_OK;
}

lap_status lap_matcher_apply(lap_matcher *m, float *logits, int32_t vocab_size, lap_error *error) {
  const lap_vocabulary *v = m->grammar->vocabulary;
  lap_status status = lap_matcher_mask(m, m->mask, error);
  for (int32_t id = 0; status == LAP_OK && id < vocab_size; id++)
    if (id >= v->size || !(m->mask[id / 64] >> id % 64 & 1)) logits[id] = -INFINITY;
  return status;
}

/* ---- going on ---------------------------------------------------------------------------------- */

/* Appends the set behind a token to the matcher's own and returns where it begins; `ended` of the stacks says
 * whether the text may end there. If it is not allowed the set is empty. */
static size_t read_token(lap_matcher *m, int32_t id) {
  lap_stacks *s = &m->stacks;
  const lap_vocabulary *v = m->grammar->vocabulary;
  size_t from = 0, to = s->count;
  if (lap_tokenizer_is_special(v->tokenizer, id) || lap_vocabulary_is_eos(v, id)) { /* as in the trie */
    lap_stacks_read_token(s, from, to, id);
    return to;
  }
  char bytes[LAP_TOKEN_MAX_BYTES];
  size_t length = lap_tokenizer_token_bytes(v->tokenizer, id, bytes);
  s->ended = false;
  for (size_t i = 0; i < length && from < to; i++) {
    lap_stacks_read_byte(s, from, to, (uint8_t)bytes[i]);
    from = to;
    to = s->count;
    if (i + 1 < length) s->ended = false; /* not at the token's end */
  }
  return from < s->count || s->ended ? from : s->count;
}

/* An end token is allowed at the end, and where nothing else is. */
static bool may_finish(lap_matcher *m) {
  if (m->complete || m->finished) return true;
  const lap_vocabulary *v = m->grammar->vocabulary;
  if (v->eos_count == 0 || lap_matcher_mask(m, m->mask, NULL) != LAP_OK) return false;
  return m->mask[v->eos[0] / 64] >> v->eos[0] % 64 & 1;
}

bool lap_matcher_allows(lap_matcher *m, int32_t id) {
  lap_stacks *s = &m->stacks;
  if (id < 0 || id >= m->grammar->vocabulary->size) return false;
  if (lap_vocabulary_is_eos(m->grammar->vocabulary, id) && may_finish(m)) return true;
  if (m->finished) return false;
  size_t count = s->count, frames = s->frame_count;
  size_t from = read_token(m, id);
  bool allowed = !s->failed && (s->count > from || s->ended);
  lap_stacks_truncate(s, count, frames);
  s->failed = false;
  return allowed;
}

static lap_status refuse(int32_t id, lap_error *error) {
  return lap_fail(error, LAP_ERROR_ARGUMENT, "grammar: token %d is not allowed here", id);
}

lap_status lap_matcher_accept(lap_matcher *m, int32_t id, lap_error *error) {
  lap_stacks *s = &m->stacks;
  const lap_vocabulary *v = m->grammar->vocabulary;
  if (id < 0 || id >= v->size) return refuse(id, error);
  size_t count = s->count, frames = s->frame_count;
  if (!m->finished) {
    size_t from = read_token(m, id);
    if (s->failed) return fail_ambiguous(m, count, frames, error);
    if (s->count > from || s->ended) {
      m->complete = s->ended;
      lap_stacks_keep(s, from);
      return LAP_OK;
    }
    lap_stacks_truncate(s, count, frames);
  }
  if (!lap_vocabulary_is_eos(v, id) || !may_finish(m)) return refuse(id, error);
  m->finished = true;
  return LAP_OK;
}

bool lap_matcher_is_complete(const lap_matcher *matcher) {
  return matcher->complete;
}

bool lap_matcher_is_finished(const lap_matcher *matcher) {
  return matcher->finished;
}

/* ---- life -------------------------------------------------------------------------------------- */

static lap_status no_memory(lap_matcher *m, lap_error *error) {
  lap_matcher_destroy(m);
  return lap_fail(error, LAP_ERROR_MEMORY, "grammar: out of memory for a matcher");
}

/* All but the stacks. */
static lap_matcher *allocate(lap_grammar *grammar) {
  lap_matcher *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  lap_grammar_hold(grammar);
  m->grammar = grammar;
  m->levels = malloc((grammar->vocabulary->longest + 2) * sizeof *m->levels);
  m->found = malloc((lap_vocabulary_words(grammar->vocabulary) + 1) * sizeof *m->found);
  m->mask = malloc((lap_vocabulary_words(grammar->vocabulary) + 1) * sizeof *m->mask);
  if (m->levels && m->found && m->mask) return m;
  lap_matcher_destroy(m);
  return NULL;
}

lap_status lap_matcher_create(lap_grammar *grammar, lap_matcher **out, lap_error *error) {
  lap_matcher *m = *out = allocate(grammar);
  if (!m || !lap_stacks_init(&m->stacks, &grammar->network)) {
    *out = NULL;
    return no_memory(m, error);
  }
  lap_stacks_begin(&m->stacks);
  lap_stacks_enter(&m->stacks, (lap_position){grammar->network.rules[0].start, 0, LAP_BOTTOM});
  m->complete = grammar->network.matches_empty;
  if (!m->stacks.failed) return LAP_OK;
  *out = NULL;
  lap_matcher_destroy(m);
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "grammar: too ambiguous: it can begin in too many ways");
}

lap_status lap_matcher_copy(const lap_matcher *matcher, lap_matcher **out, lap_error *error) {
  lap_matcher *m = *out = allocate(matcher->grammar);
  if (!m || !lap_stacks_copy(&m->stacks, &matcher->stacks)) {
    *out = NULL;
    return no_memory(m, error);
  }
  m->complete = matcher->complete;
  m->finished = matcher->finished;
  return LAP_OK;
}

void lap_matcher_destroy(lap_matcher *matcher) {
  if (!matcher) return;
  lap_stacks_free(&matcher->stacks);
  lap_grammar_release(matcher->grammar);
  for (int i = 0; i < KEPT_MASKS; i++) {
    free(matcher->kept[i].positions);
    free(matcher->kept[i].bits);
  }
  free(matcher->levels);
  free(matcher->found);
  free(matcher->mask);
  free(matcher);
}
