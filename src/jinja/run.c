/* run.c: failing, counting, and the small things that every part of evaluation needs. */
#include "jinja/run.h"

#include <stdio.h>

enum {
  BYTES_OF_A_STEP = 32
};

static void fail_at(state *s, lap_status status, const char *format, va_list arguments) {
  lap_jinja_report(s->compiled, s->error, status, s->at, format, arguments);
  s->status = status;
}

void lap_jinja_fail_with(state *s, lap_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_at(s, status, format, arguments);
  va_end(arguments);
  longjmp(s->failed, 1);
}

void lap_jinja_fail(state *s, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_at(s, LAP_ERROR_FORMAT, format, arguments);
  va_end(arguments);
  longjmp(s->failed, 1);
}

void lap_jinja_step(state *s, uint64_t steps) {
  if (steps > s->limits.steps - s->steps)
    lap_jinja_fail_with(s, LAP_ERROR_UNSUPPORTED, "the template takes more than %llu steps",
                        (unsigned long long)s->limits.steps);
  s->steps += steps;
}

void lap_jinja_step_bytes(state *s, size_t bytes) {
  lap_jinja_step(s, bytes / BYTES_OF_A_STEP);
}

void lap_jinja_descend(state *s) {
  lap_jinja_step(s, 1);
  if (++s->depth > s->limits.depth)
    lap_jinja_fail_with(s, LAP_ERROR_UNSUPPORTED, "nested too deep (more than %d levels)", s->limits.depth);
}

void lap_jinja_ascend(state *s) {
  s->depth--;
}

value lap_jinja_missing(state *s, const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char *copy = lap_jinja_take(&s->arena, strlen(what) + 1);
  memcpy(copy, what, strlen(what) + 1);
  return lap_jinja_object(LAP_JINJA_UNDEFINED, copy);
}

void lap_jinja_fail_undefined(state *s, value missing) {
  lap_jinja_fail(s, "%s", missing.object ? (const char *)missing.object : "an undefined value is used");
}

/* The parts of a tuple are nested no deeper than a key may be. */
static void step_key(state *s, value key) {
  if (key.type == LAP_JINJA_STRING) lap_jinja_step_bytes(s, key.string->length);
  if (key.type != LAP_JINJA_TUPLE) return;
  lap_jinja_step(s, key.list->count);
  for (size_t i = 0; i < key.list->count; i++) step_key(s, key.list->items[i]);
}

static void check_key(state *s, value key) {
  if (!lap_jinja_hashable(key)) lap_jinja_fail(s, "unhashable type: '%s'", lap_jinja_type_name(key));
  step_key(s, key);
}

value *lap_jinja_find(state *s, const dict *d, value key) {
  check_key(s, key);
  return lap_jinja_dict_find(d, key);
}

void lap_jinja_put(state *s, dict *d, value key, value item) {
  check_key(s, key);
  lap_jinja_dict_put(&s->arena, d, key, item);
}

const char *lap_jinja_type_name(value v) {
  static const char *const names[] = {
      [LAP_JINJA_UNDEFINED] = "Undefined", [LAP_JINJA_NONE] = "NoneType",
      [LAP_JINJA_BOOLEAN] = "bool",        [LAP_JINJA_INTEGER] = "int",
      [LAP_JINJA_REAL] = "float",          [LAP_JINJA_STRING] = "str",
      [LAP_JINJA_LIST] = "list",           [LAP_JINJA_TUPLE] = "tuple",
      [LAP_JINJA_DICT] = "dict",           [LAP_JINJA_VIEW] = "dict view",
      [LAP_JINJA_RANGE] = "range",         [LAP_JINJA_GENERATOR] = "generator",
      [LAP_JINJA_NAMESPACE] = "Namespace", [LAP_JINJA_LOOP] = "LoopContext",
      [LAP_JINJA_CYCLER] = "Cycler",       [LAP_JINJA_JOINER] = "Joiner",
      [LAP_JINJA_MACRO] = "Macro",         [LAP_JINJA_FUNCTION] = "function",
      [LAP_JINJA_METHOD] = "method"};
  return names[v.type];
}

lap_jinja_scope *lap_jinja_new_scope(state *s, lap_jinja_scope *outer) {
  lap_jinja_scope *scope = lap_jinja_take(&s->arena, sizeof *scope);
  *scope = (lap_jinja_scope){.variables = lap_jinja_dict_create(&s->arena), .outer = outer};
  return scope;
}

void lap_jinja_fail_types(state *s, lap_jinja_operation operation, value a, value b) {
  if (a.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, a);
  if (b.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, b);
  lap_jinja_fail(s, "unsupported types for %s: '%s' and '%s'", lap_jinja_spelling(operation),
                 lap_jinja_type_name(a), lap_jinja_type_name(b));
}
