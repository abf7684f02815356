/* loop.c: `for`, and the `loop` that its body sees.
 *
 * Items are fetched one at a time, as Python does it: a filter behind `for` runs when its item is reached,
 * and sees what the body did before. `loop.last` and `loop.nextitem` fetch one ahead; `loop.length` fetches
 * the rest, where the length is not known before. */
#include "jinja/run.h"

typedef struct lap_jinja_loop {
  const node *definition;
  lap_jinja_scope *scope; /* around the loop */
  value iterable;
  lap_jinja_iterator iterator;
  bool filtered; /* what the iterator gives was filtered already */
  value before, current, after;
  bool has_after;
  size_t index0, length;
  bool has_length;
  int64_t depth0;
  value last_changed; /* a tuple, or undefined before the first call of changed() */
} lap_jinja_loop;

/* ---- fetching ---- */

/* Does the loop's filter let the item through? */
static bool passes(state *s, const lap_jinja_loop *loop, value item) {
  const node *test = loop->definition->c;
  if (!test || loop->filtered) return true;
  lap_jinja_scope *outer = s->scope;
  s->scope = lap_jinja_new_scope(s, loop->scope);
  lap_jinja_assign(s, loop->definition->a, item);
  bool result = lap_jinja_truth(s, lap_jinja_evaluate(s, test));
  s->scope = outer;
  return result;
}

static bool fetch(state *s, lap_jinja_loop *loop, value *out) {
  while (lap_jinja_next(s, &loop->iterator, out))
    if (passes(s, loop, *out)) return true;
  return false;
}

static bool peek(state *s, lap_jinja_loop *loop) {
  if (!loop->has_after) loop->has_after = fetch(s, loop, &loop->after);
  return loop->has_after;
}

static bool advance(state *s, lap_jinja_loop *loop) {
  value item;
  if (loop->has_after)
    item = loop->after;
  else if (!fetch(s, loop, &item))
    return false;
  loop->has_after = false;
  loop->before = loop->current;
  loop->current = item;
  return true;
}

static size_t length_of(state *s, lap_jinja_loop *loop) {
  if (loop->has_length) return loop->length;
  if (lap_jinja_sized(loop->iterable) && !loop->definition->c) {
    loop->length = lap_jinja_length(s, loop->iterable);
  } else {
    list *rest = lap_jinja_list_create(&s->arena, 0);
    value item;
    while (fetch(s, loop, &item)) lap_jinja_list_push(&s->arena, rest, item);
    loop->iterator = lap_jinja_iterate(s, lap_jinja_list_value(rest));
    loop->filtered = true;
    loop->length = rest->count + loop->index0 + 1 + loop->has_after;
  }
  loop->has_length = true;
  return loop->length;
}

/* ---- executing ---- */

static lap_jinja_scope *next_scope(state *s, lap_jinja_scope *scope, lap_jinja_scope *outer) {
  if (scope->captured) return lap_jinja_new_scope(s, outer);
  lap_jinja_dict_clear(scope->variables);
  return scope;
}

/* All iterations, in scopes inside `outer`; the `else` if none came to its end. */
static lap_jinja_flow run_loop(state *s, const node *n, value iterable, lap_jinja_scope *outer,
                               int64_t depth0) {
  lap_jinja_loop *loop = lap_jinja_take(&s->arena, sizeof *loop);
  *loop = (lap_jinja_loop){.definition = n,
                           .scope = outer,
                           .iterable = iterable,
                           .iterator = lap_jinja_iterate(s, iterable),
                           .depth0 = depth0};
  value name = lap_jinja_literal(&s->arena, "loop", true);
  lap_jinja_scope *before = s->scope, *scope = lap_jinja_new_scope(s, outer);
  bool completed = false; /* Jinja's own measure: an iteration that was left early does not count */
  lap_jinja_flow flow = FLOW_NEXT;
  for (; flow != FLOW_BREAK && advance(s, loop); loop->index0++) {
    s->scope = scope = next_scope(s, scope, outer);
    s->at = n->offset;
    lap_jinja_assign(s, n->a, loop->current);
    lap_jinja_put(s, scope->variables, name, lap_jinja_object(LAP_JINJA_LOOP, loop));
    flow = lap_jinja_execute(s, n->body);
    completed |= flow == FLOW_NEXT;
  }
  flow = FLOW_NEXT; /* break and continue were this loop's; in `else` they are the outer one's */
  if (!completed && n->otherwise) {
    s->scope = lap_jinja_new_scope(s, outer);
    flow = lap_jinja_execute(s, n->otherwise);
  }
  s->scope = before;
  return flow;
}

lap_jinja_flow lap_jinja_execute_for(state *s, const node *n) {
  value iterable = lap_jinja_evaluate(s, n->b);
  s->at = n->b->offset;
  return run_loop(s, n, iterable, s->scope, 0);
}

value lap_jinja_call_loop(state *s, value object, value iterable) {
  const lap_jinja_loop *loop = object.object;
  if (!loop->definition->flag) lap_jinja_fail(s, "only a loop marked 'recursive' can be called");
  lap_jinja_out text = {.max_bytes = s->limits.output_bytes}, *out = s->out;
  lap_jinja_descend(s);
  s->out = &text;
  run_loop(s, loop->definition, iterable, loop->scope, loop->depth0 + 1);
  s->out = out;
  lap_jinja_ascend(s);
  return lap_jinja_out_value(s, &text);
}

/* ---- the loop variable ---- */

static value count(size_t n) {
  return lap_jinja_integer((int64_t)n);
}

bool lap_jinja_loop_attribute(state *s, value object, const string *name, value *out) {
  lap_jinja_loop *loop = object.object;
  if (lap_jinja_text_is(name, "index"))
    *out = count(loop->index0 + 1);
  else if (lap_jinja_text_is(name, "index0"))
    *out = count(loop->index0);
  else if (lap_jinja_text_is(name, "first"))
    *out = lap_jinja_boolean(loop->index0 == 0);
  else if (lap_jinja_text_is(name, "last"))
    *out = lap_jinja_boolean(!peek(s, loop));
  else if (lap_jinja_text_is(name, "length"))
    *out = count(length_of(s, loop));
  else if (lap_jinja_text_is(name, "revindex"))
    *out = lap_jinja_integer((int64_t)length_of(s, loop) - (int64_t)loop->index0);
  else if (lap_jinja_text_is(name, "revindex0"))
    *out = lap_jinja_integer((int64_t)length_of(s, loop) - (int64_t)loop->index0 - 1);
  else if (lap_jinja_text_is(name, "depth"))
    *out = lap_jinja_integer(loop->depth0 + 1);
  else if (lap_jinja_text_is(name, "depth0"))
    *out = lap_jinja_integer(loop->depth0);
  else if (lap_jinja_text_is(name, "previtem"))
    *out = loop->index0 ? loop->before : lap_jinja_missing(s, "there is no previous item");
  else if (lap_jinja_text_is(name, "nextitem"))
    *out = peek(s, loop) ? loop->after : lap_jinja_missing(s, "there is no next item");
  else
    return false;
  return true;
}

static value loop_cycle(state *s, call *c) {
  const lap_jinja_loop *loop = c->self.object;
  if (!c->rest.count) lap_jinja_fail(s, "no items for cycling given");
  return c->rest.positional[loop->index0 % c->rest.count];
}

static value loop_changed(state *s, call *c) {
  lap_jinja_loop *loop = c->self.object;
  list *values = lap_jinja_list_create(&s->arena, c->rest.count);
  for (size_t i = 0; i < c->rest.count; i++) lap_jinja_list_push(&s->arena, values, c->rest.positional[i]);
  value now = lap_jinja_tuple_value(values);
  if (loop->last_changed.type == LAP_JINJA_TUPLE && lap_jinja_equal(s, loop->last_changed, now))
    return lap_jinja_boolean(false);
  loop->last_changed = now;
  return lap_jinja_boolean(true);
}

const builtin lap_jinja_loop_methods[] = {{"cycle", "*", loop_cycle}, {"changed", "*", loop_changed}, {0}};
