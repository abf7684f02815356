/* method_container.c: the methods of lists, dicts, tuples and cyclers. A list or dict of the context is a
 * copy of the caller's, so a template may change it. */
#include "jinja/call.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/tables.h"

/* ---- lists and tuples ---- */

static size_t find_item(state *s, const list *l, value item) {
  for (size_t i = 0; i < l->count; i++) {
    lap_jinja_step(s, 1);
    if (lap_jinja_equal(s, l->items[i], item)) return i;
  }
  return SIZE_MAX;
}

static value list_append(state *s, call *c) {
  lap_jinja_list_push(&s->arena, c->self.list, c->argument[0]);
  return lap_jinja_none();
}

static value list_extend(state *s, call *c) {
  list *more = lap_jinja_collect(s, c->argument[0]);
  for (size_t i = 0; i < more->count; i++) lap_jinja_list_push(&s->arena, c->self.list, more->items[i]);
  return lap_jinja_none();
}

static value list_insert(state *s, call *c) {
  list *l = c->self.list;
  int64_t index = lap_jinja_as_integer(s, c->argument[0]), count = (int64_t)l->count;
  if (index < 0) index = index < -count ? 0 : index + count;
  if (index > count) index = count;
  lap_jinja_step(s, l->count);
  lap_jinja_list_push(&s->arena, l, c->argument[1]);
  memmove(&l->items[index + 1], &l->items[index], (size_t)(count - index) * sizeof *l->items);
  l->items[index] = c->argument[1];
  return lap_jinja_none();
}

static value remove_at(state *s, list *l, size_t index) {
  value removed = l->items[index];
  lap_jinja_step(s, l->count - index);
  memmove(&l->items[index], &l->items[index + 1], (l->count - index - 1) * sizeof *l->items);
  l->count--;
  return removed;
}

static value list_pop(state *s, call *c) {
  list *l = c->self.list;
  int64_t index = lap_jinja_integer_argument(s, c, 0, -1);
  if (index < 0) index += (int64_t)l->count;
  if (index < 0 || (size_t)index >= l->count) lap_jinja_fail(s, "pop index out of range");
  return remove_at(s, l, (size_t)index);
}

static value list_remove(state *s, call *c) {
  size_t index = find_item(s, c->self.list, c->argument[0]);
  if (index == SIZE_MAX) lap_jinja_fail(s, "list.remove(x): x not in list");
  remove_at(s, c->self.list, index);
  return lap_jinja_none();
}

static value list_clear(state *s, call *c) {
  (void)s;
  c->self.list->count = 0;
  return lap_jinja_none();
}

static value list_reverse(state *s, call *c) {
  lap_jinja_step(s, c->self.list->count);
  lap_jinja_list_reverse(c->self.list);
  return lap_jinja_none();
}

static value list_sort(state *s, call *c) {
  list *l = c->self.list, *keys = lap_jinja_collect(s, c->self);
  lap_jinja_sort(s, l->items, keys->items, l->count, lap_jinja_integer_argument(s, c, 0, 0) != 0);
  return lap_jinja_none();
}

static value list_copy(state *s, call *c) {
  return lap_jinja_list_value(lap_jinja_collect(s, c->self));
}

static value list_index(state *s, call *c) {
  size_t index = find_item(s, c->self.list, c->argument[0]);
  if (index == SIZE_MAX) lap_jinja_fail(s, "the value is not in the list");
  return lap_jinja_integer((int64_t)index);
}

static value list_count(state *s, call *c) {
  int64_t count = 0;
  for (size_t i = 0; i < c->self.list->count; i++) {
    lap_jinja_step(s, 1);
    count += lap_jinja_equal(s, c->self.list->items[i], c->argument[0]);
  }
  return lap_jinja_integer(count);
}

const builtin lap_jinja_list_methods[] = {{"append", "object", list_append},
                                          {"clear", "", list_clear},
                                          {"copy", "", list_copy},
                                          {"count", "value", list_count},
                                          {"extend", "iterable", list_extend},
                                          {"index", "value", list_index},
                                          {"insert", "index object", list_insert},
                                          {"pop", "index?", list_pop},
                                          {"remove", "value", list_remove},
                                          {"reverse", "", list_reverse},
                                          {"sort", "reverse?", list_sort},
                                          {0}};

const builtin lap_jinja_tuple_methods[] = {
    {"count", "value", list_count}, {"index", "value", list_index}, {0}};

/* ---- dicts ---- */

static value new_view(state *s, const call *c, lap_jinja_view_kind kind) {
  lap_jinja_view *view = lap_jinja_take(&s->arena, sizeof *view);
  *view = (lap_jinja_view){.of = c->self.dict, .kind = kind};
  return lap_jinja_object(LAP_JINJA_VIEW, view);
}

static value dict_items(state *s, call *c) {
  return new_view(s, c, VIEW_ITEMS);
}

static value dict_keys(state *s, call *c) {
  return new_view(s, c, VIEW_KEYS);
}

static value dict_values(state *s, call *c) {
  return new_view(s, c, VIEW_VALUES);
}

static value dict_get(state *s, call *c) {
  const value *found = lap_jinja_find(s, c->self.dict, c->argument[0]);
  return found ? *found : c->given[1] ? c->argument[1] : lap_jinja_none();
}

static value dict_setdefault(state *s, call *c) {
  const value *found = lap_jinja_find(s, c->self.dict, c->argument[0]);
  if (found) return *found;
  value item = c->given[1] ? c->argument[1] : lap_jinja_none();
  lap_jinja_put(s, c->self.dict, c->argument[0], item);
  return item;
}

static value dict_pop(state *s, call *c) {
  value removed;
  bool found = lap_jinja_find(s, c->self.dict, c->argument[0]) != NULL;
  if (!found && !c->given[1]) lap_jinja_fail(s, "pop: no such key");
  if (!found) return c->argument[1];
  lap_jinja_step(s, 2 * c->self.dict->count);
  lap_jinja_dict_remove(c->self.dict, c->argument[0], &removed);
  return removed;
}

static value dict_popitem(state *s, call *c) {
  dict *d = c->self.dict;
  if (!d->count) lap_jinja_fail(s, "popitem: the dict is empty");
  lap_jinja_entry last = d->entries[d->count - 1];
  value removed;
  lap_jinja_step(s, 2 * d->count);
  lap_jinja_dict_remove(d, last.key, &removed);
  return lap_jinja_pair(&s->arena, last.key, removed);
}

static value dict_update(state *s, call *c) {
  if (c->given[0]) lap_jinja_update(s, c->self.dict, c->argument[0]);
  for (size_t i = 0; i < c->rest.keyword_count; i++)
    lap_jinja_put(s, c->self.dict, lap_jinja_string_value(c->rest.keywords[i].name),
                  c->rest.keywords[i].value);
  return lap_jinja_none();
}

static value dict_clear(state *s, call *c) {
  (void)s;
  lap_jinja_dict_clear(c->self.dict);
  return lap_jinja_none();
}

static value dict_copy(state *s, call *c) {
  value copy = lap_jinja_new_dict(&s->arena);
  lap_jinja_update(s, copy.dict, c->self);
  return copy;
}

static value dict_fromkeys(state *s, call *c) {
  value result = lap_jinja_new_dict(&s->arena), key;
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->argument[0]);
  while (lap_jinja_next(s, &iterator, &key))
    lap_jinja_put(s, result.dict, key, c->given[1] ? c->argument[1] : lap_jinja_none());
  return result;
}

const builtin lap_jinja_dict_methods[] = {{"clear", "", dict_clear},
                                          {"copy", "", dict_copy},
                                          {"fromkeys", "iterable value?", dict_fromkeys},
                                          {"get", "key default?", dict_get},
                                          {"items", "", dict_items},
                                          {"keys", "", dict_keys},
                                          {"pop", "key default?", dict_pop},
                                          {"popitem", "", dict_popitem},
                                          {"setdefault", "key default?", dict_setdefault},
                                          {"update", "other? **", dict_update},
                                          {"values", "", dict_values},
                                          {0}};

/* ---- cyclers ---- */

static value cycler_next(state *s, call *c) {
  (void)s;
  lap_jinja_cycler *cycler = c->self.object;
  value item = cycler->items->items[cycler->next];
  cycler->next = (cycler->next + 1) % cycler->items->count;
  return item;
}

static value cycler_reset(state *s, call *c) {
  (void)s;
  ((lap_jinja_cycler *)c->self.object)->next = 0;
  return lap_jinja_none();
}

const builtin lap_jinja_cycler_methods[] = {{"next", "", cycler_next}, {"reset", "", cycler_reset}, {0}};
