/* iterate.c: what can be gone through, and how much there is of it.
 *
 * Lists and dicts are walked by number, so one that changes while it is iterated is as harmless as any other:
 * the next number exists or it does not. */
#include "jinja/iterate.h"

#include "jinja/unicode.h"

bool lap_jinja_iterable(value v) {
  switch (v.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_STRING:
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
    case LAP_JINJA_DICT:
    case LAP_JINJA_VIEW:
    case LAP_JINJA_RANGE:
    case LAP_JINJA_GENERATOR:
      return true;
    default:
      return false;
  }
}

lap_jinja_iterator lap_jinja_iterate(state *s, value v) {
  if (!lap_jinja_iterable(v)) lap_jinja_fail(s, "'%s' object is not iterable", lap_jinja_type_name(v));
  return (lap_jinja_iterator){.over = v};
}

value lap_jinja_range_item(const lap_jinja_range *range, size_t index) {
  value v = lap_jinja_integer(range->start + (int64_t)index * range->step);
  v.from_template = range->from_template;
  return v;
}

static value view_item(state *s, const lap_jinja_view *view, size_t index) {
  const lap_jinja_entry *entry = &view->of->entries[index];
  return view->kind == VIEW_KEYS     ? entry->key
         : view->kind == VIEW_VALUES ? entry->value
                                     : lap_jinja_pair(&s->arena, entry->key, entry->value);
}

static bool next_character(state *s, lap_jinja_iterator *iterator, value *out) {
  const string *text = iterator->over.string;
  if (iterator->next >= text->length) return false;
  uint32_t code;
  size_t bytes = lap_jinja_decode(text->text + iterator->next, text->length - iterator->next, &code);
  *out = lap_jinja_slice(&s->arena, text, iterator->next, bytes);
  iterator->next += bytes;
  return true;
}

bool lap_jinja_next(state *s, lap_jinja_iterator *iterator, value *out) {
  value over = iterator->over;
  lap_jinja_step(s, 1);
  switch (over.type) {
    case LAP_JINJA_STRING:
      return next_character(s, iterator, out);
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
      if (iterator->next >= over.list->count) return false;
      *out = over.list->items[iterator->next++];
      return true;
    case LAP_JINJA_DICT:
      if (iterator->next >= over.dict->count) return false;
      *out = over.dict->entries[iterator->next++].key;
      return true;
    case LAP_JINJA_VIEW: {
      const lap_jinja_view *view = over.object;
      if (iterator->next >= view->of->count) return false;
      *out = view_item(s, view, iterator->next++);
      return true;
    }
    case LAP_JINJA_RANGE: {
      const lap_jinja_range *range = over.object;
      if (iterator->next >= range->count) return false;
      *out = lap_jinja_range_item(range, iterator->next++);
      return true;
    }
    case LAP_JINJA_GENERATOR: {
      lap_jinja_generator *generator = over.object;
      if (generator->next >= generator->items->count) return false;
      *out = generator->items->items[generator->next++];
      return true;
    }
    default:
      return false;
  }
}

list *lap_jinja_collect(state *s, value v) {
  lap_jinja_iterator iterator = lap_jinja_iterate(s, v);
  list *l = lap_jinja_list_create(&s->arena, 0);
  value item;
  while (lap_jinja_next(s, &iterator, &item)) lap_jinja_list_push(&s->arena, l, item);
  return l;
}

bool lap_jinja_sized(value v) {
  return lap_jinja_iterable(v) && v.type != LAP_JINJA_GENERATOR;
}

size_t lap_jinja_count(state *s, value v) {
  switch (v.type) {
    case LAP_JINJA_UNDEFINED:
      return 0;
    case LAP_JINJA_STRING:
      lap_jinja_step_bytes(s, v.string->length);
      return lap_jinja_count_characters(v.string->text, v.string->length);
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
      return v.list->count;
    case LAP_JINJA_DICT:
      return v.dict->count;
    case LAP_JINJA_VIEW:
      return ((const lap_jinja_view *)v.object)->of->count;
    case LAP_JINJA_RANGE:
      return ((const lap_jinja_range *)v.object)->count;
    default:
      lap_jinja_fail(s, "object of type '%s' has no len()", lap_jinja_type_name(v));
  }
}

value lap_jinja_new_generator(state *s, list *items) {
  lap_jinja_generator *generator = lap_jinja_take(&s->arena, sizeof *generator);
  *generator = (lap_jinja_generator){.items = items};
  return lap_jinja_object(LAP_JINJA_GENERATOR, generator);
}

bool lap_jinja_truth(state *s, value v) {
  switch (v.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_NONE:
      return false;
    case LAP_JINJA_BOOLEAN:
      return v.boolean;
    case LAP_JINJA_INTEGER:
      return v.integer != 0;
    case LAP_JINJA_REAL:
      return v.real != 0;
    case LAP_JINJA_STRING:
      return v.string->length != 0;
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
    case LAP_JINJA_DICT:
    case LAP_JINJA_VIEW:
    case LAP_JINJA_RANGE:
      return lap_jinja_count(s, v) != 0;
    default:
      return true;
  }
}

void lap_jinja_update(state *s, dict *d, value from) {
  if (from.type == LAP_JINJA_DICT) {
    lap_jinja_step(s, from.dict->count);
    for (size_t i = 0; i < from.dict->count; i++)
      lap_jinja_put(s, d, from.dict->entries[i].key, from.dict->entries[i].value);
    return;
  }
  lap_jinja_iterator iterator = lap_jinja_iterate(s, from);
  value pair;
  while (lap_jinja_next(s, &iterator, &pair)) {
    const list *parts = lap_jinja_collect(s, pair);
    if (parts->count != 2)
      lap_jinja_fail(s, "a dict is made of pairs; this element has length %zu", parts->count);
    lap_jinja_put(s, d, parts->items[0], parts->items[1]);
  }
}
