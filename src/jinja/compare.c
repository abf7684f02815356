/* compare.c: see compare.h. Nested values are compared by recursion, which counts as any other. */
#include "jinja/compare.h"

#include "jinja/iterate.h"

/* ---- equality ---- */

static bool equal_lists(state *s, const list *a, const list *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++)
    if (!lap_jinja_equal(s, a->items[i], b->items[i])) return false;
  return true;
}

static bool equal_dicts(state *s, const dict *a, const dict *b) {
  if (a->count != b->count) return false;
  for (size_t i = 0; i < a->count; i++) {
    const value *other = lap_jinja_find(s, b, a->entries[i].key);
    if (!other || !lap_jinja_equal(s, a->entries[i].value, *other)) return false;
  }
  return true;
}

static bool equal_ranges(const lap_jinja_range *a, const lap_jinja_range *b) {
  return a->count == b->count &&
         (a->count == 0 || (a->start == b->start && (a->count == 1 || a->step == b->step)));
}

static bool equal_objects(state *s, value a, value b) {
  switch (a.type) {
    case LAP_JINJA_UNDEFINED:
    case LAP_JINJA_NONE:
      return true;
    case LAP_JINJA_STRING:
      lap_jinja_step_bytes(s, a.string->length);
      return lap_jinja_same_text(a.string, b.string);
    case LAP_JINJA_LIST:
    case LAP_JINJA_TUPLE:
      return a.list == b.list || equal_lists(s, a.list, b.list);
    case LAP_JINJA_DICT:
      return a.dict == b.dict || equal_dicts(s, a.dict, b.dict);
    case LAP_JINJA_RANGE:
      return equal_ranges(a.object, b.object);
    default:
      return a.object == b.object;
  }
}

bool lap_jinja_equal(state *s, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) return lap_jinja_compare_numbers(a, b) == 0;
  if (a.type != b.type) return false;
  lap_jinja_descend(s);
  bool equal = equal_objects(s, a, b);
  lap_jinja_ascend(s);
  return equal;
}

bool lap_jinja_identical(value a, value b) {
  if (a.type != b.type) return false;
  switch (a.type) {
    case LAP_JINJA_NONE:
      return true;
    case LAP_JINJA_BOOLEAN:
      return a.boolean == b.boolean;
    case LAP_JINJA_INTEGER:
      return a.integer == b.integer;
    case LAP_JINJA_REAL:
      return a.real == b.real;
    case LAP_JINJA_STRING:
      return lap_jinja_same_text(a.string, b.string);
    default:
      return a.object == b.object;
  }
}

/* ---- order ---- */

static bool holds(lap_jinja_operation operation, int difference) {
  switch (operation) {
    case OPERATION_LESS:
      return difference < 0;
    case OPERATION_LESS_EQUAL:
      return difference <= 0;
    case OPERATION_GREATER:
      return difference > 0;
    default:
      return difference >= 0;
  }
}

/* UTF-8 sorts as its characters do. */
static int compare_texts(const string *a, const string *b) {
  size_t common = a->length < b->length ? a->length : b->length;
  int difference = memcmp(a->text, b->text, common);
  return difference ? difference : (a->length > b->length) - (a->length < b->length);
}

/* The first difference decides; where there is none, the lengths do. */
static bool ordered_lists(state *s, lap_jinja_operation operation, const list *a, const list *b) {
  size_t i = 0;
  while (i < a->count && i < b->count && lap_jinja_equal(s, a->items[i], b->items[i])) i++;
  if (i < a->count && i < b->count) return lap_jinja_ordered(s, operation, a->items[i], b->items[i]);
  return holds(operation, (a->count > b->count) - (a->count < b->count));
}

bool lap_jinja_ordered(state *s, lap_jinja_operation operation, value a, value b) {
  if (lap_jinja_is_number(a) && lap_jinja_is_number(b)) {
    int difference = lap_jinja_compare_numbers(a, b);
    lap_jinja_step(s, 1);
    return difference != 2 && holds(operation, difference);
  }
  if (a.type != b.type) lap_jinja_fail_types(s, operation, a, b);
  if (a.type == LAP_JINJA_STRING) {
    lap_jinja_step(s, 1);
    lap_jinja_step_bytes(s, a.string->length < b.string->length ? a.string->length : b.string->length);
    return holds(operation, compare_texts(a.string, b.string));
  }
  if (a.type != LAP_JINJA_LIST && a.type != LAP_JINJA_TUPLE) lap_jinja_fail_types(s, operation, a, b);
  lap_jinja_descend(s);
  bool result = ordered_lists(s, operation, a.list, b.list);
  lap_jinja_ascend(s);
  return result;
}

/* ---- containment ---- */

static bool text_contains(state *s, const string *text, value part) {
  if (part.type != LAP_JINJA_STRING)
    lap_jinja_fail(s, "'in' a string needs a string on its left, not '%s'", lap_jinja_type_name(part));
  lap_jinja_step_bytes(s, text->length);
  return memmem(text->text, text->length, part.string->text, part.string->length) != NULL;
}

static bool iteration_contains(state *s, value container, value item) {
  lap_jinja_iterator iterator = lap_jinja_iterate(s, container);
  value found;
  while (lap_jinja_next(s, &iterator, &found))
    if (lap_jinja_equal(s, found, item)) return true;
  return false;
}

bool lap_jinja_contains(state *s, value container, value item) {
  if (container.type == LAP_JINJA_STRING) return text_contains(s, container.string, item);
  const dict *d = container.type == LAP_JINJA_DICT ? container.dict : NULL;
  if (container.type == LAP_JINJA_VIEW) {
    const lap_jinja_view *view = container.object;
    if (view->kind == VIEW_KEYS) d = view->of;
  }
  if (d) return lap_jinja_find(s, d, item) != NULL;
  return iteration_contains(s, container, item);
}

bool lap_jinja_compare(state *s, lap_jinja_operation operation, value a, value b) {
  switch (operation) {
    case OPERATION_EQUAL:
      return lap_jinja_equal(s, a, b);
    case OPERATION_NOT_EQUAL:
      return !lap_jinja_equal(s, a, b);
    case OPERATION_IN:
      return lap_jinja_contains(s, b, a);
    case OPERATION_NOT_IN:
      return !lap_jinja_contains(s, b, a);
    default:
      return lap_jinja_ordered(s, operation, a, b);
  }
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
