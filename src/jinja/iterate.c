/* iterate.c: what can be gone through, its length, and sorting.
 *
 * Lists and dicts are walked by number, so one that changes while it is iterated is as harmless as any other:
 * the next number exists or it does not. */
#include "jinja/run.h"
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

value lap_jinja_range_item(state *s, const lap_jinja_range *range, size_t index) {
  (void)s;
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
      *out = lap_jinja_range_item(s, range, iterator->next++);
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

size_t lap_jinja_length(state *s, value v) {
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
    case LAP_JINJA_LOOP: {
      value length;
      static const string name = {.text = "length", .length = 6};
      lap_jinja_loop_attribute(s, v, &name, &length);
      return (size_t)length.integer;
    }
    default:
      lap_jinja_fail(s, "object of type '%s' has no len()", lap_jinja_type_name(v));
  }
}

value lap_jinja_new_generator(state *s, list *items) {
  lap_jinja_generator *generator = lap_jinja_take(&s->arena, sizeof *generator);
  *generator = (lap_jinja_generator){.items = items};
  return lap_jinja_object(LAP_JINJA_GENERATOR, generator);
}

/* ---- sorting: merge sort, because comparing can fail and equal items keep their order ---- */

typedef struct sorting {
  state *s;
  value *items, *keys;               /* being sorted */
  value *merged_items, *merged_keys; /* [count], scratch */
  bool reverse;
} sorting;

/* Must the item at `right`, which comes later, go before the one at `left`? */
static bool out_of_order(const sorting *sort, size_t left, size_t right) {
  value a = sort->keys[left], b = sort->keys[right];
  return sort->reverse ? lap_jinja_ordered(sort->s, OPERATION_LESS, a, b)
                       : lap_jinja_ordered(sort->s, OPERATION_LESS, b, a);
}

static void merge(sorting *sort, size_t begin, size_t middle, size_t end) {
  size_t left = begin, right = middle;
  for (size_t i = begin; i < end; i++) {
    bool take_right = left == middle || (right < end && out_of_order(sort, left, right));
    size_t from = take_right ? right++ : left++;
    sort->merged_items[i] = sort->items[from];
    sort->merged_keys[i] = sort->keys[from];
  }
  memcpy(sort->items + begin, sort->merged_items + begin, (end - begin) * sizeof *sort->items);
  memcpy(sort->keys + begin, sort->merged_keys + begin, (end - begin) * sizeof *sort->keys);
}

void lap_jinja_sort(state *s, value *items, value *keys, size_t count, bool reverse) {
  sorting sort = {.s = s, .items = items, .keys = keys, .reverse = reverse};
  sort.merged_items = lap_jinja_take_array(&s->arena, count, sizeof(value));
  sort.merged_keys = lap_jinja_take_array(&s->arena, count, sizeof(value));
  for (size_t width = 1; width < count; width *= 2)
    for (size_t begin = 0; begin + width < count; begin += 2 * width)
      merge(&sort, begin, begin + width, begin + 2 * width < count ? begin + 2 * width : count);
}
