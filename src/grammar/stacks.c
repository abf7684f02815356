/* stacks.c: closing sets, and frames that are equal if their contents are.
 *
 * A set is closed by working through the list of positions that it has come by. A call whose caller has
 * nothing left to do gets the caller's own frame: right recursion takes no room. When a set has become large,
 * positions that differ in their frames only are made one. */
#include "grammar/stacks.h"

#include <stdlib.h>
#include <string.h>

enum {
  LARGE = 32, /* sets with more are looked through for positions to be united */
  FEW = 8,    /* positions among which a new one is looked for one by one */
  STAMPS = 2 * LAP_MAX_POSITIONS,
  FIRST_HEADS = 64,
  EXPAND_STEPS =
      8, /* what closing over a position costs, and looking for its like, in steps of reading a byte */
  UNITE_STEPS = 32,
  FEW_FRAMES = 256 /* are not worth tidying up */
};

/* An entry counts if its stamp is the current one: the table is never cleared. */
struct lap_stamp {
  uint32_t stamp, index;
};

bool lap_stacks_init(lap_stacks *s, const lap_network *network) {
  *s = (lap_stacks){.network = network};
  if (!lap_reserve(&s->frames, 2, &s->frame_capacity, sizeof *s->frames)) return false;
  s->frames[LAP_BOTTOM] = s->frames[LAP_BASE] = (lap_frame){0};
  s->frame_count = 2;
  s->heads = calloc(FIRST_HEADS, sizeof *s->heads);
  s->head_count = FIRST_HEADS;
  return s->heads != NULL;
}

void lap_stacks_free(lap_stacks *s) {
  free(s->positions);
  free(s->frames);
  free(s->members);
  free(s->heads);
  free(s->visited);
  free(s->stamps);
  *s = (lap_stacks){0};
}

bool lap_stacks_copy(lap_stacks *to, const lap_stacks *from) {
  *to = (lap_stacks){.network = from->network, .head_count = from->head_count};
  to->heads = malloc(from->head_count * sizeof *to->heads);
  if (!to->heads || !lap_reserve(&to->positions, from->count + 1, &to->capacity, sizeof *to->positions) ||
      !lap_reserve(&to->frames, from->frame_count, &to->frame_capacity, sizeof *to->frames) ||
      !lap_reserve(&to->members, from->member_count + 1, &to->member_capacity, sizeof *to->members))
    return false;
  memcpy(to->heads, from->heads, from->head_count * sizeof *to->heads);
  memcpy(to->frames, from->frames, from->frame_count * sizeof *to->frames);
  if (from->count > 0) memcpy(to->positions, from->positions, from->count * sizeof *to->positions);
  if (from->member_count > 0) memcpy(to->members, from->members, from->member_count * sizeof *to->members);
  to->member_count = from->member_count;
  to->count = from->count;
  to->frame_count = from->frame_count;
  return true;
}

/* ---- frames ------------------------------------------------------------------------------------ */

static uint64_t mix(uint32_t a, uint32_t b, uint32_t c) {
  uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ h >> 31 ^ c) * UINT64_C(0xd6e8feb86659fd93);
  return h ^ h >> 32;
}

static bool is_union(const lap_frame *frame) {
  return frame->next == LAP_NO_STATE;
}

static uint32_t *head_of(const lap_stacks *s, const lap_frame *frame) {
  uint64_t hash = frame->count;
  if (!is_union(frame)) hash = mix(frame->next, frame->count, frame->parent);
  /* A union by its members, not by where they stand. */
  for (uint32_t i = 0; is_union(frame) && i < frame->count; i++)
    hash = mix((uint32_t)hash, (uint32_t)(hash >> 32), s->members[frame->parent + i]);
  return &s->heads[hash & (s->head_count - 1)];
}

static bool same_frame(const lap_stacks *s, const lap_frame *a, const lap_frame *b) {
  if (a->next != b->next || a->count != b->count) return false;
  if (!is_union(a)) return a->parent == b->parent;
  return memcmp(&s->members[a->parent], &s->members[b->parent], a->count * sizeof *s->members) == 0;
}

/* Enters a frame that stands in the array at `index`. */
static void chain(lap_stacks *s, uint32_t index) {
  uint32_t *head = head_of(s, &s->frames[index]);
  s->frames[index].chain = *head;
  *head = index;
}

static bool grow_heads(lap_stacks *s) {
  uint32_t *heads = calloc(2 * s->head_count, sizeof *heads);
  if (!heads) return false;
  free(s->heads);
  s->heads = heads;
  s->head_count *= 2;
  for (uint32_t i = 2; i < s->frame_count; i++) chain(s, i);
  return true;
}

/* The known frame of this content, or 0. */
static uint32_t find_frame(const lap_stacks *s, const lap_frame *frame) {
  uint32_t at = *head_of(s, frame);
  while (at && !same_frame(s, &s->frames[at], frame)) at = s->frames[at].chain;
  return at;
}

/* A new frame; 0 for want of memory. */
static uint32_t add_frame(lap_stacks *s, lap_frame frame) {
  if ((s->frame_count >= s->head_count && !grow_heads(s)) ||
      !lap_reserve(&s->frames, s->frame_count + 1, &s->frame_capacity, sizeof *s->frames)) {
    s->failed = true;
    return 0;
  }
  uint32_t index = (uint32_t)s->frame_count++;
  s->frames[index] = frame;
  chain(s, index);
  return index;
}

/* The frame for a call; 0 if there is none because the stack is too deep (the way ends here), or for want of
 * memory. */
static uint32_t call_frame(lap_stacks *s, lap_frame frame) {
  uint32_t known = find_frame(s, &frame);
  frame.depth = s->frames[frame.parent].depth + 1;
  return known || frame.depth > LAP_MAX_FRAMES_DEEP ? known : add_frame(s, frame);
}

void lap_stacks_truncate(lap_stacks *s, size_t count, size_t frames) {
  s->count = count;
  /* The last frame is always the head of its chain, and the last union's members stand last. */
  while (s->frame_count > frames) {
    lap_frame *last = &s->frames[--s->frame_count];
    *head_of(s, last) = last->chain;
    if (is_union(last)) s->member_count = last->parent;
  }
}

/* ---- unions ------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
  uint32_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

/* Appends a frame, or what it unites, to the members. */
static bool add_members(lap_stacks *s, uint32_t frame) {
  const lap_frame *f = &s->frames[frame];
  uint32_t count = is_union(f) ? f->count : 1;
  if (!lap_reserve(&s->members, s->member_count + count, &s->member_capacity, sizeof *s->members))
    return false;
  for (uint32_t i = 0; i < count; i++)
    s->members[s->member_count++] = is_union(f) ? s->members[f->parent + i] : frame;
  return true;
}

/* Sorts the members from `first` on, drops those that occur twice, and returns their union; 0: no memory. */
static uint32_t unite_members(lap_stacks *s, size_t first) {
  qsort(s->members + first, s->member_count - first, sizeof *s->members, by_value);
  lap_frame frame = {.next = LAP_NO_STATE, .parent = (uint32_t)first};
  for (size_t i = first; i < s->member_count; i++) {
    uint32_t member = s->members[i];
    if (frame.count > 0 && s->members[first + frame.count - 1] == member) continue;
    s->members[first + frame.count++] = member;
    if (s->frames[member].depth > frame.depth) frame.depth = s->frames[member].depth;
  }
  s->member_count = first + frame.count;
  uint32_t known = find_frame(s, &frame);
  if (known) s->member_count = first;
  return known ? known : add_frame(s, frame);
}

static int by_state(const void *a, const void *b) {
  const lap_position *x = a, *y = b;
  if (x->state != y->state) return x->state < y->state ? -1 : 1;
  if (x->count != y->count) return x->count < y->count ? -1 : 1;
  return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Makes positions [from, count) that differ in their frames only one. */
static void unite(lap_stacks *s, size_t from) {
  size_t kept = from;
  s->steps += UNITE_STEPS * (s->count - from);
  qsort(s->positions + from, s->count - from, sizeof *s->positions, by_state);
  for (size_t i = from, end; i < s->count; i = end) {
    lap_position one = s->positions[i];
    size_t first = s->member_count;
    for (end = i + 1; end < s->count; end++)
      if (s->positions[end].state != one.state || s->positions[end].count != one.count) break;
    for (size_t k = i; k < end && end - i > 1; k++) s->failed |= !add_members(s, s->positions[k].frame);
    if (end - i > 1 && !s->failed) one.frame = unite_members(s, first);
    s->positions[kept++] = one;
  }
  s->count = kept;
}

/* ---- sets -------------------------------------------------------------------------------------- */

static bool same(lap_position a, lap_position b) {
  return a.state == b.state && a.count == b.count && a.frame == b.frame;
}

static bool add_visited(lap_stacks *s, lap_position position) {
  if (s->visited_count == LAP_MAX_POSITIONS ||
      !lap_reserve(&s->visited, s->visited_count + 1, &s->visited_capacity, sizeof *s->visited)) {
    s->failed = true;
    return false;
  }
  s->visited[s->visited_count++] = position;
  return true;
}

/* Where a position's index stands or belongs in the table. */
static struct lap_stamp *stamp_of(const lap_stacks *s, lap_position position) {
  size_t at = mix(position.state, position.count, position.frame) & (STAMPS - 1);
  while (s->stamps[at].stamp == s->stamp && !same(s->visited[s->stamps[at].index], position))
    at = (at + 1) & (STAMPS - 1);
  return &s->stamps[at];
}

/* Moves the few visited positions to the table. */
static bool begin_stamps(lap_stacks *s) {
  if (!s->stamps || s->stamp == UINT32_MAX) {
    free(s->stamps);
    s->stamps = calloc(STAMPS, sizeof *s->stamps);
    s->stamp = 0;
    if (!s->stamps) return false;
  }
  s->stamp++;
  for (uint32_t i = 0; i < s->visited_count; i++)
    *stamp_of(s, s->visited[i]) = (struct lap_stamp){s->stamp, i};
  return true;
}

/* Puts a position on the list, if it is not there. */
static void visit(lap_stacks *s, lap_position position) {
  if (s->failed) return;
  if (s->visited_count < FEW) {
    for (size_t i = 0; i < s->visited_count; i++)
      if (same(s->visited[i], position)) return;
    add_visited(s, position);
    return;
  }
  if (s->visited_count == FEW && !begin_stamps(s)) {
    s->failed = true;
    return;
  }
  struct lap_stamp *stamp = stamp_of(s, position);
  if (stamp->stamp == s->stamp || !add_visited(s, position)) return;
  *stamp = (struct lap_stamp){s->stamp, (uint32_t)s->visited_count - 1};
}

static void keep_position(lap_stacks *s, lap_position position) {
  if (!lap_reserve(&s->positions, s->count + 1, &s->capacity, sizeof *s->positions))
    s->failed = true;
  else
    s->positions[s->count++] = position;
}

static void leave_one(lap_stacks *s, uint32_t frame) {
  const lap_frame *f = &s->frames[frame];
  if (frame == LAP_BOTTOM)
    s->ended = true;
  else if (frame == LAP_BASE)
    s->left = true;
  else
    visit(s, (lap_position){f->next, f->count, f->parent});
}

static void leave(lap_stacks *s, uint32_t frame) {
  const lap_frame *f = &s->frames[frame];
  if (!is_union(f)) leave_one(s, frame);
  for (uint32_t i = 0; is_union(f) && i < f->count; i++) leave_one(s, s->members[f->parent + i]);
}

/* The rule's automaton may end here: another round, or the end of the rule, or both. */
static void finish_round(lap_stacks *s, lap_position at) {
  const lap_network_rule *rule = &s->network->rules[s->network->states[at.state].rule];
  uint32_t count = at.count + 1;
  if (count < rule->max) {
    /* Without an upper bound nothing depends on the count once it has reached the lower one. */
    uint32_t kept = rule->max == LAP_ENDLESS && count > rule->min ? rule->min : count;
    visit(s, (lap_position){rule->start, kept, at.frame});
  }
  if (count >= rule->min) leave(s, at.frame);
}

static void expand(lap_stacks *s, lap_position at) {
  const lap_network *n = s->network;
  const lap_state *state = &n->states[at.state];
  s->steps += EXPAND_STEPS;
  if (state->reads) keep_position(s, at);
  for (uint32_t i = 0; i < state->calls; i++) {
    lap_call_edge call = n->calls[state->first_call + i];
    uint32_t frame = at.frame;
    if (!n->states[call.next].ends) {
      frame = call_frame(s, (lap_frame){.next = call.next, .count = at.count, .parent = at.frame});
      if (frame == 0) continue;
    }
    visit(s, (lap_position){n->rules[call.rule].start, 0, frame});
  }
  if (state->accepts) finish_round(s, at);
}

/* Works through the list from `done` on. */
static void close_set(lap_stacks *s, size_t done) {
  for (; done < s->visited_count && !s->failed; done++) expand(s, s->visited[done]);
}

void lap_stacks_begin(lap_stacks *s) {
  s->visited_count = 0;
  s->ended = s->left = false;
}

void lap_stacks_enter(lap_stacks *s, lap_position position) {
  size_t done = s->visited_count;
  visit(s, position);
  close_set(s, done);
}

void lap_stacks_leave(lap_stacks *s, uint32_t frame) {
  size_t done = s->visited_count;
  leave(s, frame);
  close_set(s, done);
}

void lap_stacks_read_byte(lap_stacks *s, size_t from, size_t to, uint8_t byte) {
  lap_stacks_begin(s);
  for (size_t i = from; i < to && !s->failed; i++) {
    lap_position at = s->positions[i];
    at.state = lap_network_step(s->network, &s->network->states[at.state], byte);
    if (at.state != LAP_NO_STATE) lap_stacks_enter(s, at);
  }
  s->steps += to - from;
  if (s->count - to > LARGE && !s->failed) unite(s, to);
}

void lap_stacks_read_token(lap_stacks *s, size_t from, size_t to, int32_t id) {
  const lap_network *n = s->network;
  lap_stacks_begin(s);
  for (size_t i = from; i < to && !s->failed; i++) {
    lap_position at = s->positions[i];
    const lap_state *state = &n->states[at.state];
    for (uint32_t k = 0; k < state->tokens; k++) {
      lap_token_edge edge = n->tokens[state->first_token + k];
      if (edge.id == id) lap_stacks_enter(s, (lap_position){edge.next, at.count, at.frame});
    }
  }
  if (s->count - to > LARGE && !s->failed) unite(s, to);
}

/* ---- tidying up -------------------------------------------------------------------------------- */

/* Marks what the positions refer to, directly or not: what a frame refers to has a smaller number. */
static void mark_frames(const lap_stacks *s, uint32_t *marks) {
  for (size_t i = 0; i < s->count; i++) marks[s->positions[i].frame] = 1;
  for (size_t i = s->frame_count; i-- > 2;) {
    const lap_frame *f = &s->frames[i];
    if (!marks[i]) continue;
    if (!is_union(f)) marks[f->parent] = 1;
    for (uint32_t k = 0; is_union(f) && k < f->count; k++) marks[s->members[f->parent + k]] = 1;
  }
}

/* Numbers the marked frames anew, in the same order. */
static bool drop_unused_frames(lap_stacks *s) {
  uint32_t *number = calloc(s->frame_count, sizeof *number);
  if (!number) return false;
  mark_frames(s, number);
  memset(s->heads, 0, s->head_count * sizeof *s->heads);
  uint32_t kept = 2;
  s->member_count = 0;
  number[LAP_BOTTOM] = LAP_BOTTOM;
  number[LAP_BASE] = LAP_BASE;
  for (size_t i = 2; i < s->frame_count; i++) {
    if (!number[i]) continue;
    lap_frame frame = s->frames[i];
    uint32_t first = (uint32_t)s->member_count;
    for (uint32_t k = 0; is_union(&frame) && k < frame.count; k++)
      s->members[s->member_count++] = number[s->members[frame.parent + k]];
    frame.parent = is_union(&frame) ? first : number[frame.parent];
    number[i] = kept;
    s->frames[kept] = frame;
    chain(s, kept++);
  }
  s->frame_count = kept;
  for (size_t i = 0; i < s->count; i++) s->positions[i].frame = number[s->positions[i].frame];
  free(number);
  return true;
}

void lap_stacks_keep(lap_stacks *s, size_t from) {
  s->count -= from;
  if (s->count > 0) memmove(s->positions, s->positions + from, s->count * sizeof *s->positions);
  if (s->frame_count <= FEW_FRAMES || s->frame_count <= 4 * s->tidy_count || !drop_unused_frames(s)) return;
  s->tidy_count = s->frame_count;
  s->tidied++;
}
