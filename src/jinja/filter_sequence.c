/* filter_sequence.c: filters over lists, dicts and whatever else can be gone through. */
#include "jinja/access.h"
#include "jinja/call.h"
#include "jinja/compare.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/path.h"
#include "jinja/tables.h"
#include "jinja/text_operation.h"

static value filter_length(state *s, call *c) {
  return lap_jinja_integer((int64_t)lap_jinja_length(s, c->self));
}

static value filter_list(state *s, call *c) {
  return lap_jinja_list_value(lap_jinja_collect(s, c->self));
}

static value filter_first(state *s, call *c) {
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  value item;
  if (lap_jinja_next(s, &iterator, &item)) return item;
  return lap_jinja_missing(s, "no first item, the sequence was empty");
}

static value filter_last(state *s, call *c) {
  if (!lap_jinja_sized(c->self))
    lap_jinja_fail(s, "'%s' object is not reversible", lap_jinja_type_name(c->self));
  if (c->self.type == LAP_JINJA_STRING || c->self.type == LAP_JINJA_LIST || c->self.type == LAP_JINJA_TUPLE) {
    value item = lap_jinja_item(s, c->self, lap_jinja_integer(-1));
    if (item.type != LAP_JINJA_UNDEFINED || lap_jinja_length(s, c->self)) return item;
  } else {
    list *items = lap_jinja_collect(s, c->self);
    if (items->count) return items->items[items->count - 1];
  }
  return lap_jinja_missing(s, "no last item, the sequence was empty");
}

static value filter_reverse(state *s, call *c) {
  if (c->self.type == LAP_JINJA_STRING)
    return lap_jinja_slice_of(s, c->self, lap_jinja_none(), lap_jinja_none(), lap_jinja_integer(-1));
  if (!lap_jinja_iterable(c->self)) lap_jinja_fail(s, "reverse: the argument must be iterable");
  list *items = lap_jinja_collect(s, c->self);
  lap_jinja_list_reverse(items);
  bool eager = c->self.type == LAP_JINJA_GENERATOR; /* Python can walk the others backwards */
  return eager ? lap_jinja_list_value(items) : lap_jinja_new_generator(s, items);
}

static value filter_items(state *s, call *c) {
  list *items = lap_jinja_list_create(&s->arena, 0);
  if (c->self.type == LAP_JINJA_UNDEFINED) return lap_jinja_new_generator(s, items);
  if (c->self.type != LAP_JINJA_DICT) lap_jinja_fail(s, "can only get item pairs from a mapping");
  const dict *d = c->self.dict;
  lap_jinja_step(s, d->count);
  for (size_t i = 0; i < d->count; i++)
    lap_jinja_list_push(&s->arena, items, lap_jinja_pair(&s->arena, d->entries[i].key, d->entries[i].value));
  return lap_jinja_new_generator(s, items);
}

/* ---- batch and slice ---- */

/* A batch is full when its length equals the argument, whatever that is. */
static value filter_batch(state *s, call *c) {
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  list *batches = lap_jinja_list_create(&s->arena, 0), *batch = lap_jinja_list_create(&s->arena, 0);
  value item, size = c->argument[0];
  while (lap_jinja_next(s, &iterator, &item)) {
    if (lap_jinja_equal(s, lap_jinja_integer((int64_t)batch->count), size)) {
      lap_jinja_list_push(&s->arena, batches, lap_jinja_list_value(batch));
      batch = lap_jinja_list_create(&s->arena, 0);
    }
    lap_jinja_list_push(&s->arena, batch, item);
  }
  if (batch->count) lap_jinja_list_push(&s->arena, batches, lap_jinja_list_value(batch));
  if (batch->count && lap_jinja_has_argument(c, 1))
    for (int64_t count = lap_jinja_as_integer(s, size); (int64_t)batch->count < count; lap_jinja_step(s, 1))
      lap_jinja_list_push(&s->arena, batch, c->argument[1]);
  return lap_jinja_new_generator(s, batches);
}

static value filter_slice(state *s, call *c) {
  int64_t slices = lap_jinja_as_integer(s, c->argument[0]);
  list *items = lap_jinja_collect(s, c->self), *result = lap_jinja_list_create(&s->arena, 0);
  if (slices == 0) lap_jinja_fail(s, "slice: no slices");
  size_t at = 0, size = slices > 0 ? items->count / (size_t)slices : 0;
  size_t longer = slices > 0 ? items->count % (size_t)slices : 0;
  for (int64_t i = 0; i < slices; i++) {
    list *part = lap_jinja_list_create(&s->arena, 0);
    size_t end = at + size + ((size_t)i < longer);
    lap_jinja_step(s, 1 + end - at);
    while (at < end) lap_jinja_list_push(&s->arena, part, items->items[at++]);
    if (lap_jinja_has_argument(c, 1) && (size_t)i >= longer)
      lap_jinja_list_push(&s->arena, part, c->argument[1]);
    lap_jinja_list_push(&s->arena, result, lap_jinja_list_value(part));
  }
  return lap_jinja_new_generator(s, result);
}

/* ---- what is compared ---- */

static value key_of(state *s, value item, value path, bool case_sensitive, const value *otherwise) {
  value key = lap_jinja_follow(s, item, path, otherwise);
  return case_sensitive ? key : lap_jinja_ignore_case(s, key);
}

static value path_argument(const call *c, size_t index) {
  return c->given[index] ? c->argument[index] : lap_jinja_none();
}

/* ---- sort ---- */

/* The keys of one item: one for each of the paths between commas. */
static value sort_key(state *s, value item, value paths, bool case_sensitive) {
  list *keys = lap_jinja_list_create(&s->arena, 1);
  if (paths.type != LAP_JINJA_STRING) {
    lap_jinja_list_push(&s->arena, keys, key_of(s, item, paths, case_sensitive, NULL));
    return lap_jinja_list_value(keys);
  }
  static const string comma = {.text = ",", .length = 1};
  list *parts = lap_jinja_split(s, paths.string, &comma, -1, false);
  for (size_t i = 0; i < parts->count; i++)
    lap_jinja_list_push(&s->arena, keys, key_of(s, item, parts->items[i], case_sensitive, NULL));
  return lap_jinja_list_value(keys);
}

static value filter_sort(state *s, call *c) {
  list *items = lap_jinja_collect(s, c->self);
  bool reverse = lap_jinja_integer_argument(s, c, 0, 0) != 0;
  bool case_sensitive = lap_jinja_truth_argument(s, c, 1, false);
  value *keys = lap_jinja_take_array(&s->arena, items->count, sizeof *keys);
  for (size_t i = 0; i < items->count; i++)
    keys[i] = sort_key(s, items->items[i], path_argument(c, 2), case_sensitive);
  lap_jinja_sort(s, items->items, keys, items->count, reverse);
  return lap_jinja_list_value(items);
}

static value filter_dictsort(state *s, call *c) {
  static const string key = {.text = "key", .length = 3};
  const string *by = c->given[1] ? lap_jinja_text_argument(s, c, 1) : &key;
  bool by_value = lap_jinja_text_is(by, "value"), case_sensitive = lap_jinja_truth_argument(s, c, 0, false);
  if (!by_value && !lap_jinja_text_is(by, "key")) lap_jinja_fail(s, "dictsort: by \"key\" or \"value\" only");
  if (c->self.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, c->self);
  if (c->self.type != LAP_JINJA_DICT)
    lap_jinja_fail(s, "dictsort: '%s' object is no mapping", lap_jinja_type_name(c->self));
  const dict *d = c->self.dict;
  list *pairs = lap_jinja_list_create(&s->arena, d->count);
  value *keys = lap_jinja_take_array(&s->arena, d->count, sizeof *keys);
  for (size_t i = 0; i < d->count; i++) {
    const lap_jinja_entry *entry = &d->entries[i];
    lap_jinja_list_push(&s->arena, pairs, lap_jinja_pair(&s->arena, entry->key, entry->value));
    keys[i] = key_of(s, by_value ? entry->value : entry->key, lap_jinja_none(), case_sensitive, NULL);
  }
  lap_jinja_sort(s, pairs->items, keys, pairs->count, lap_jinja_integer_argument(s, c, 2, 0) != 0);
  return lap_jinja_list_value(pairs);
}

/* ---- groupby, unique, min, max, sum ---- */

static value new_group(state *s, value grouper, list *items) {
  value group = lap_jinja_pair(&s->arena, grouper, lap_jinja_list_value(items));
  group.list->group = true;
  return group;
}

static value filter_groupby(state *s, call *c) {
  const value *otherwise = lap_jinja_has_argument(c, 1) ? &c->argument[1] : NULL;
  bool case_sensitive = lap_jinja_truth_argument(s, c, 2, false);
  value path = c->argument[0];
  list *items = lap_jinja_collect(s, c->self), *groups = lap_jinja_list_create(&s->arena, 0), *group = NULL;
  value *keys = lap_jinja_take_array(&s->arena, items->count, sizeof *keys);
  for (size_t i = 0; i < items->count; i++)
    keys[i] = key_of(s, items->items[i], path, case_sensitive, otherwise);
  lap_jinja_sort(s, items->items, keys, items->count, false);
  for (size_t i = 0; i < items->count; i++) {
    if (!group || !lap_jinja_equal(s, keys[i - 1], keys[i])) {
      group = lap_jinja_list_create(&s->arena, 0);
      value grouper = lap_jinja_follow(s, items->items[i], path, otherwise);
      lap_jinja_list_push(&s->arena, groups, new_group(s, grouper, group));
    }
    lap_jinja_list_push(&s->arena, group, items->items[i]);
  }
  return lap_jinja_list_value(groups);
}

static value filter_unique(state *s, call *c) {
  bool case_sensitive = lap_jinja_truth_argument(s, c, 0, false);
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  list *unique = lap_jinja_list_create(&s->arena, 0);
  dict *seen = lap_jinja_dict_create(&s->arena);
  value item;
  while (lap_jinja_next(s, &iterator, &item)) {
    value key = key_of(s, item, path_argument(c, 1), case_sensitive, NULL);
    if (lap_jinja_find(s, seen, key)) continue;
    lap_jinja_put(s, seen, key, item);
    lap_jinja_list_push(&s->arena, unique, item);
  }
  return lap_jinja_new_generator(s, unique);
}

static value best(state *s, call *c, lap_jinja_operation better) {
  bool case_sensitive = lap_jinja_truth_argument(s, c, 0, false);
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  value item, found, found_key;
  if (!lap_jinja_next(s, &iterator, &found))
    return lap_jinja_missing(s, "no aggregated item, the sequence was empty");
  found_key = key_of(s, found, path_argument(c, 1), case_sensitive, NULL);
  while (lap_jinja_next(s, &iterator, &item)) {
    value key = key_of(s, item, path_argument(c, 1), case_sensitive, NULL);
    if (!lap_jinja_ordered(s, better, key, found_key)) continue;
    found = item;
    found_key = key;
  }
  return found;
}

static value filter_min(state *s, call *c) {
  return best(s, c, OPERATION_LESS);
}

static value filter_max(state *s, call *c) {
  return best(s, c, OPERATION_GREATER);
}

static value filter_sum(state *s, call *c) {
  value sum = c->given[1] ? c->argument[1] : lap_jinja_integer(0), item;
  if (sum.type == LAP_JINJA_STRING) lap_jinja_fail(s, "sum() can't sum strings");
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  while (lap_jinja_next(s, &iterator, &item))
    sum = lap_jinja_operate(s, OPERATION_ADD, sum, lap_jinja_follow(s, item, path_argument(c, 0), NULL));
  return sum;
}

const builtin lap_jinja_sequence_filters[] = {
    {"batch", "linecount fill_with?", filter_batch},
    {"count", "", filter_length},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"items", "", filter_items},
    {"last", "", filter_last},
    {"length", "", filter_length},
    {"list", "", filter_list},
    {"max", "case_sensitive? attribute?", filter_max},
    {"min", "case_sensitive? attribute?", filter_min},
    {"reverse", "", filter_reverse},
    {"slice", "slices fill_with?", filter_slice},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"sum", "attribute? start?", filter_sum},
    {"unique", "case_sensitive? attribute?", filter_unique},
    {0}};
