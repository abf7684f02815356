/* access.c: see access.h.
 *
 * object.name looks for an attribute first (a method, say), then for an item; object[key] the other way
 * round. What is not there is undefined, and only using it is an error. */
#include "jinja/access.h"

#include "jinja/loop.h"
#include "jinja/text.h"
#include "jinja/unicode.h"

/* ---- attributes ---- */

static value new_method(state *s, value object, const builtin *b) {
  lap_jinja_method *method = lap_jinja_take(&s->arena, sizeof *method);
  *method = (lap_jinja_method){.object = object, .builtin = b};
  return lap_jinja_object(LAP_JINJA_METHOD, method);
}

static bool group_attribute(value group, const string *name, value *out) {
  bool grouper = lap_jinja_text_is(name, "grouper");
  if (!group.list->group || (!grouper && !lap_jinja_text_is(name, "list"))) return false;
  *out = group.list->items[!grouper];
  return true;
}

static bool macro_attribute(state *s, const lap_jinja_macro *macro, const string *name, value *out) {
  const node *definition = macro->definition;
  if (lap_jinja_text_is(name, "name")) {
    *out = definition->value;
  } else if (lap_jinja_text_is(name, "arguments")) {
    list *names = lap_jinja_list_create(&s->arena, 0);
    for (const node *p = definition->items; p; p = p->next) lap_jinja_list_push(&s->arena, names, p->value);
    *out = lap_jinja_tuple_value(names);
  } else if (lap_jinja_text_is(name, "catch_kwargs")) {
    *out = lap_jinja_boolean(definition->uses_kwargs);
  } else if (lap_jinja_text_is(name, "catch_varargs")) {
    *out = lap_jinja_boolean(definition->uses_varargs);
  } else if (lap_jinja_text_is(name, "caller")) {
    *out = lap_jinja_boolean(definition->uses_caller);
  } else {
    return false;
  }
  return true;
}

static bool cycler_attribute(const lap_jinja_cycler *cycler, const string *name, value *out) {
  if (!lap_jinja_text_is(name, "current")) return false;
  *out = cycler->items->items[cycler->next];
  return true;
}

bool lap_jinja_own_attribute(state *s, value object, const string *name, value *out) {
  if (object.type == LAP_JINJA_NAMESPACE) {
    value key = lap_jinja_string_value(name);
    const value *found = lap_jinja_find(s, object.dict, key);
    bool hidden = name->length && name->text[0] == '_';
    if (found) *out = hidden ? lap_jinja_missing(s, "names that begin with _ are hidden") : *found;
    return found != NULL;
  }
  const builtin *method = lap_jinja_find_method(s->language, object, name);
  if (method) {
    *out = new_method(s, object, method);
    return true;
  }
  switch (object.type) {
    case LAP_JINJA_TUPLE:
      return group_attribute(object, name, out);
    case LAP_JINJA_LOOP:
      return lap_jinja_loop_attribute(s, object.object, name, out);
    case LAP_JINJA_MACRO:
      return macro_attribute(s, object.object, name, out);
    case LAP_JINJA_CYCLER:
      return cycler_attribute(object.object, name, out);
    default:
      return false;
  }
}

/* ---- items ---- */

/* Finds element `index`, which counts from the end if it is negative. */
static bool index_of(int64_t index, size_t count, size_t *out) {
  if (index < 0) index += (int64_t)count;
  if (index < 0 || (size_t)index >= count) return false;
  *out = (size_t)index;
  return true;
}

static bool numbered_item(state *s, value object, int64_t number, value *out) {
  size_t index;
  if (object.type == LAP_JINJA_STRING) {
    const string *text = object.string;
    if (!index_of(number, lap_jinja_count(s, object), &index)) return false;
    size_t begin = lap_jinja_byte_offset(text->text, text->length, index);
    uint32_t code;
    *out = lap_jinja_slice(&s->arena, text, begin,
                           lap_jinja_decode(text->text + begin, text->length - begin, &code));
    return true;
  }
  if (object.type == LAP_JINJA_LIST || object.type == LAP_JINJA_TUPLE) {
    if (!index_of(number, object.list->count, &index)) return false;
    *out = object.list->items[index];
    return true;
  }
  if (object.type == LAP_JINJA_RANGE) {
    const lap_jinja_range *range = object.object;
    if (!index_of(number, range->count, &index)) return false;
    *out = lap_jinja_range_item(range, index);
    return true;
  }
  return false;
}

static bool own_item(state *s, value object, value key, value *out) {
  if (object.type == LAP_JINJA_DICT) {
    const value *found = lap_jinja_hashable(key) ? lap_jinja_find(s, object.dict, key) : NULL;
    if (found) *out = *found;
    return found != NULL;
  }
  if (key.type == LAP_JINJA_BOOLEAN) return numbered_item(s, object, key.boolean, out);
  return key.type == LAP_JINJA_INTEGER && numbered_item(s, object, key.integer, out);
}

static value missing_item(state *s, value object, value key) {
  if (key.type == LAP_JINJA_STRING)
    return lap_jinja_missing(s, "'%s object' has no attribute '%.*s'", lap_jinja_type_name(object),
                             key.string->length < 100 ? (int)key.string->length : 100, key.string->text);
  if (key.type == LAP_JINJA_INTEGER)
    return lap_jinja_missing(s, "%s object has no element %lld", lap_jinja_type_name(object),
                             (long long)key.integer);
  return lap_jinja_missing(s, "%s object has no such element", lap_jinja_type_name(object));
}

value lap_jinja_attribute(state *s, value object, const string *name) {
  value found, key = lap_jinja_string_value(name);
  if (object.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, object);
  if (lap_jinja_own_attribute(s, object, name, &found) || own_item(s, object, key, &found)) return found;
  return missing_item(s, object, key);
}

value lap_jinja_item(state *s, value object, value key) {
  value found;
  if (object.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, object);
  if (own_item(s, object, key, &found)) return found;
  if (key.type == LAP_JINJA_STRING && lap_jinja_own_attribute(s, object, key.string, &found)) return found;
  return missing_item(s, object, key);
}

/* ---- slices ---- */

typedef struct bounds {
  int64_t begin, end, step;
  size_t count;
} bounds;

static int64_t bound_of(state *s, value v, int64_t otherwise) {
  if (v.type == LAP_JINJA_NONE) return otherwise;
  if (v.type == LAP_JINJA_BOOLEAN) return v.boolean;
  if (v.type == LAP_JINJA_INTEGER) return v.integer;
  lap_jinja_fail(s, "slice indices must be integers or None, not '%s'", lap_jinja_type_name(v));
}

static int64_t clamp(int64_t v, int64_t length, int64_t low, int64_t high) {
  if (v < 0) v = v < -length ? low : v + length;
  return v < low ? low : v > high ? high : v;
}

/* Which elements of `length` a slice takes; Python's rules for bounds that are missing, negative or beyond.
 */
static bounds find_bounds(state *s, size_t length, value begin, value end, value step) {
  bounds b = {.step = bound_of(s, step, 1)};
  if (b.step == 0) lap_jinja_fail(s, "slice step cannot be zero");
  if (b.step == INT64_MIN) b.step = -INT64_MAX;
  bool forward = b.step > 0;
  int64_t n = (int64_t)length, low = forward ? 0 : -1, high = forward ? n : n - 1;
  b.begin =
      begin.type == LAP_JINJA_NONE ? (forward ? low : high) : clamp(bound_of(s, begin, 0), n, low, high);
  b.end = end.type == LAP_JINJA_NONE ? (forward ? high : low) : clamp(bound_of(s, end, 0), n, low, high);
  if (forward && b.begin < b.end) b.count = (size_t)((b.end - b.begin - 1) / b.step + 1);
  if (!forward && b.end < b.begin) b.count = (size_t)((b.begin - b.end - 1) / -b.step + 1);
  return b;
}

/* Characters of a string, in any order. */
static value pick_characters(state *s, const string *text, size_t length, bounds b) {
  size_t *offsets = lap_jinja_take_array(&s->arena, length + 1, sizeof *offsets);
  lap_jinja_step(s, b.count);
  lap_jinja_step_bytes(s, text->length);
  size_t at = 0;
  uint32_t code;
  for (size_t i = 0; i < length; i++) {
    offsets[i] = at;
    at += lap_jinja_decode(text->text + at, text->length - at, &code);
  }
  offsets[length] = text->length;
  lap_jinja_out out = {0};
  for (size_t i = 0; i < b.count; i++) {
    size_t from = (size_t)(b.begin + (int64_t)i * b.step);
    lap_jinja_add_part(s, &out, text, offsets[from], offsets[from + 1] - offsets[from]);
  }
  return lap_jinja_out_value(s, &out);
}

static value slice_text(state *s, const string *text, size_t length, bounds b) {
  if (b.step != 1) return pick_characters(s, text, length, b);
  size_t begin = lap_jinja_byte_offset(text->text, text->length, (size_t)b.begin);
  size_t bytes = lap_jinja_byte_offset(text->text + begin, text->length - begin, b.count);
  return lap_jinja_slice(&s->arena, text, begin, bytes);
}

static value slice_list(state *s, value v, bounds b) {
  list *l = lap_jinja_list_create(&s->arena, b.count);
  lap_jinja_step(s, b.count);
  for (size_t i = 0; i < b.count; i++)
    lap_jinja_list_push(&s->arena, l, v.list->items[b.begin + (int64_t)i * b.step]);
  return v.type == LAP_JINJA_LIST ? lap_jinja_list_value(l) : lap_jinja_tuple_value(l);
}

static value slice_range(state *s, const lap_jinja_range *range, bounds b) {
  lap_jinja_range *part = lap_jinja_take(&s->arena, sizeof *part);
  *part = (lap_jinja_range){.count = b.count, .from_template = range->from_template};
  if (__builtin_mul_overflow(range->step, b.step, &part->step) ||
      __builtin_mul_overflow(range->step, b.begin, &part->start) ||
      __builtin_mul_overflow(range->step, b.end, &part->stop) ||
      __builtin_add_overflow(range->start, part->start, &part->start) ||
      __builtin_add_overflow(range->start, part->stop, &part->stop))
    lap_jinja_fail(s, "a slice of a range beyond 64 bits");
  return lap_jinja_object(LAP_JINJA_RANGE, part);
}

value lap_jinja_slice_of(state *s, value object, value begin, value end, value step) {
  if (object.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, object);
  bool sliceable = object.type == LAP_JINJA_STRING || object.type == LAP_JINJA_LIST ||
                   object.type == LAP_JINJA_TUPLE || object.type == LAP_JINJA_RANGE;
  if (!sliceable) lap_jinja_fail(s, "'%s' object cannot be sliced", lap_jinja_type_name(object));
  size_t length = lap_jinja_count(s, object);
  bounds b = find_bounds(s, length, begin, end, step);
  if (object.type == LAP_JINJA_STRING) return slice_text(s, object.string, length, b);
  if (object.type == LAP_JINJA_RANGE) return slice_range(s, object.object, b);
  return slice_list(s, object, b);
}
