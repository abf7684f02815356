/* call.c: arguments meet the parameters of builtins. */
#include "jinja/call.h"

#include "jinja/iterate.h"

/* ---- builtins ---- */

typedef struct signature {
  string names[LAP_JINJA_MAX_PARAMETERS];
  size_t count, required;
  bool more, more_keywords;
} signature;

static signature read_signature(const char *parameters) {
  signature sig = {0};
  bool optional = false;
  while (*parameters) {
    size_t length = strcspn(parameters, " ");
    if (*parameters == '*') {
      if (length == 2)
        sig.more_keywords = true;
      else
        sig.more = true;
    } else {
      optional |= parameters[length - 1] == '?';
      sig.names[sig.count++] =
          (string){.text = parameters, .length = length - (parameters[length - 1] == '?')};
      sig.required += !optional;
    }
    parameters += length;
    parameters += strspn(parameters, " ");
  }
  return sig;
}

static void bind_positional(state *s, call *c, const signature *sig, const lap_jinja_arguments *arguments) {
  size_t named = arguments->count < sig->count ? arguments->count : sig->count;
  for (size_t i = 0; i < named; i++) {
    c->argument[i] = arguments->positional[i];
    c->given[i] = true;
  }
  if (arguments->count == named) return;
  if (!sig->more)
    lap_jinja_fail(s, "%s takes at most %zu arguments, got %zu", c->name, sig->count, arguments->count);
  c->rest.positional = arguments->positional + named;
  c->rest.count = arguments->count - named;
}

static void bind_keyword(state *s, call *c, const signature *sig, const lap_jinja_arguments *arguments,
                         size_t index) {
  const lap_jinja_keyword *k = &arguments->keywords[index];
  for (size_t i = 0; i < sig->count; i++) {
    if (!lap_jinja_same_text(k->name, &sig->names[i])) continue;
    if (c->given[i])
      lap_jinja_fail(s, "%s got two values for the argument '%.*s'", c->name, (int)k->name->length,
                     k->name->text);
    c->argument[i] = k->value;
    c->given[i] = true;
    return;
  }
  if (!sig->more_keywords)
    lap_jinja_fail(s, "%s has no argument named '%.*s'", c->name, (int)k->name->length, k->name->text);
  if (!c->rest.keywords)
    c->rest.keywords = lap_jinja_take_array(&s->arena, arguments->keyword_count, sizeof *c->rest.keywords);
  c->rest.keywords[c->rest.keyword_count++] = *k;
}

value lap_jinja_call_builtin(state *s, const builtin *b, value self, const lap_jinja_arguments *arguments) {
  call c = {.name = b->name, .self = self};
  signature sig = read_signature(b->parameters);
  bind_positional(s, &c, &sig, arguments);
  for (size_t i = 0; i < arguments->keyword_count; i++) bind_keyword(s, &c, &sig, arguments, i);
  for (size_t i = 0; i < sig.required; i++)
    if (!c.given[i])
      lap_jinja_fail(s, "%s needs the argument '%.*s'", c.name, (int)sig.names[i].length, sig.names[i].text);
  return b->call(s, &c);
}

/* ---- reading arguments ---- */

bool lap_jinja_has_argument(const call *c, size_t index) {
  return c->given[index] && c->argument[index].type != LAP_JINJA_NONE;
}

const string *lap_jinja_text_argument(state *s, const call *c, size_t index) {
  value v = c->argument[index];
  if (v.type == LAP_JINJA_UNDEFINED && v.object) lap_jinja_fail_undefined(s, v);
  if (v.type != LAP_JINJA_STRING)
    lap_jinja_fail(s, "%s: argument %zu must be a string, not '%s'", c->name, index + 1,
                   lap_jinja_type_name(v));
  return v.string;
}

int64_t lap_jinja_as_integer(state *s, value v) {
  if (v.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, v);
  if (v.type == LAP_JINJA_BOOLEAN) return v.boolean;
  if (v.type != LAP_JINJA_INTEGER)
    lap_jinja_fail(s, "an integer is required, not '%s'", lap_jinja_type_name(v));
  return v.integer;
}

int64_t lap_jinja_integer_argument(state *s, const call *c, size_t index, int64_t otherwise) {
  return c->given[index] ? lap_jinja_as_integer(s, c->argument[index]) : otherwise;
}

bool lap_jinja_truth_argument(state *s, const call *c, size_t index, bool otherwise) {
  return c->given[index] ? lap_jinja_truth(s, c->argument[index]) : otherwise;
}

/* ---- everything that can be called ---- */

static value call_joiner(state *s, lap_jinja_joiner *joiner) {
  value result = joiner->used ? joiner->separator : lap_jinja_literal(&s->arena, "", true);
  joiner->used = true;
  return result;
}

value lap_jinja_call_value(state *s, value callee, const lap_jinja_arguments *arguments) {
  switch (callee.type) {
    case LAP_JINJA_FUNCTION:
    case LAP_JINJA_METHOD: {
      const lap_jinja_method *method = callee.object;
      return lap_jinja_call_builtin(s, method->builtin, method->object, arguments);
    }
    case LAP_JINJA_MACRO:
      return s->language->call_macro(s, callee.object, arguments);
    case LAP_JINJA_LOOP:
      if (arguments->count != 1 || arguments->keyword_count) lap_jinja_fail(s, "loop takes one argument");
      return s->language->call_loop(s, callee.object, arguments->positional[0]);
    case LAP_JINJA_JOINER:
      return call_joiner(s, callee.object);
    case LAP_JINJA_UNDEFINED:
      lap_jinja_fail_undefined(s, callee);
    default:
      lap_jinja_fail(s, "'%s' object is not callable", lap_jinja_type_name(callee));
  }
}
