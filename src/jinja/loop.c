/* loop.c: a loop and its items.
 *
 * Items are fetched one at a time, as Python does it: a filter behind `for` runs when its item is reached,
 * and sees what the body did before. `loop.last` and `loop.nextitem` fetch one ahead; `loop.length` fetches
 * the rest, where the length is not known before. */
#include "jinja/loop.h"

#include "jinja/compare.h"
#include "jinja/tables.h"

/* ---- fetching ---- */

static bool is_wanted(state *s, const lap_jinja_loop *loop, value item) {
  return !loop->definition->c || loop->filtered || s->language->passes(s, loop, item);
}

static bool fetch(state *s, lap_jinja_loop *loop, value *out) {
  while (lap_jinja_next(s, &loop->iterator, out))
    if (is_wanted(s, loop, *out)) return true;
  return false;
}

static bool peek(state *s, lap_jinja_loop *loop) {
  if (!loop->has_after) loop->has_after = fetch(s, loop, &loop->after);
  return loop->has_after;
}

bool lap_jinja_advance(state *s, lap_jinja_loop *loop) {
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
    loop->length = lap_jinja_count(s, loop->iterable);
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

/* ---- the loop variable ---- */

size_t lap_jinja_length(state *s, value v) {
  return v.type == LAP_JINJA_LOOP ? length_of(s, v.object) : lap_jinja_count(s, v);
}

static value number(size_t n) {
  return lap_jinja_integer((int64_t)n);
}

bool lap_jinja_loop_attribute(state *s, lap_jinja_loop *loop, const string *name, value *out) {
  if (lap_jinja_text_is(name, "index"))
    *out = number(loop->index0 + 1);
  else if (lap_jinja_text_is(name, "index0"))
    *out = number(loop->index0);
  else if (lap_jinja_text_is(name, "first"))
    *out = lap_jinja_boolean(loop->index0 == 0);
  else if (lap_jinja_text_is(name, "last"))
    *out = lap_jinja_boolean(!peek(s, loop));
  else if (lap_jinja_text_is(name, "length"))
    *out = number(length_of(s, loop));
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
