/* call.c: arguments meet parameters, of builtins and of macros. */
#include <math.h>

#include "jinja/run.h"

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

/* ---- macros ---- */

static bool has_parameter(const node *definition, const char *name) {
  for (const node *p = definition->items; p; p = p->next)
    if (lap_jinja_text_is(p->value.string, name)) return true;
  return false;
}

/* Takes the keyword argument of that name out of `rest`; false if there is none. */
static bool take_keyword(lap_jinja_arguments *rest, const string *name, value *out) {
  for (size_t i = 0; i < rest->keyword_count; i++) {
    if (!lap_jinja_same_text(rest->keywords[i].name, name)) continue;
    *out = rest->keywords[i].value;
    memmove(&rest->keywords[i], &rest->keywords[i + 1],
            (rest->keyword_count - i - 1) * sizeof *rest->keywords);
    rest->keyword_count--;
    return true;
  }
  return false;
}

static void bind_named(state *s, value name, value v) {
  lap_jinja_put(s, s->scope->variables, name, v);
}

static void bind_special(state *s, const char *name, value v) {
  bind_named(s, lap_jinja_literal(&s->arena, name, true), v);
}

/* Parameters first, whatever their defaults need; `rest` keeps what is left over. */
static void bind_parameters(state *s, const node *definition, lap_jinja_arguments *rest) {
  for (const node *p = definition->items; p; p = p->next) {
    value v;
    if (rest->count) {
      v = *rest->positional++;
      rest->count--;
    } else if (!take_keyword(rest, p->value.string, &v)) {
      v = lap_jinja_missing(s, "the parameter '%.*s' was not provided", (int)p->value.string->length,
                            p->value.string->text);
      v.from_template = true; /* marks it as absent, until its default is computed */
    }
    bind_named(s, p->value, v);
  }
  for (const node *p = definition->items; p; p = p->next) {
    value *v = lap_jinja_find(s, s->scope->variables, p->value);
    bool absent = v->type == LAP_JINJA_UNDEFINED && v->from_template;
    v->from_template &= !absent;
    if (absent && p->a) bind_named(s, p->value, lap_jinja_evaluate(s, p->a));
  }
}

/* caller, varargs and kwargs, if the body uses them; what is left is an error. */
static void bind_rest(state *s, const node *definition, lap_jinja_arguments *rest) {
  static const string caller_name = {.text = "caller", .length = 6};
  const string *name = definition->value.string;
  if (definition->uses_caller && !has_parameter(definition, "caller")) {
    value caller;
    if (!take_keyword(rest, &caller_name, &caller)) caller = lap_jinja_missing(s, "no caller is defined");
    bind_special(s, "caller", caller);
  }
  if (definition->uses_kwargs && !has_parameter(definition, "kwargs")) {
    value kwargs = lap_jinja_new_dict(&s->arena);
    for (size_t i = 0; i < rest->keyword_count; i++)
      lap_jinja_put(s, kwargs.dict, lap_jinja_string_value(rest->keywords[i].name), rest->keywords[i].value);
    bind_special(s, "kwargs", kwargs);
  } else if (rest->keyword_count) {
    lap_jinja_fail(s, "macro '%.*s' takes no keyword argument '%.*s'", (int)name->length, name->text,
                   (int)rest->keywords->name->length, rest->keywords->name->text);
  }
  if (definition->uses_varargs && !has_parameter(definition, "varargs")) {
    list *varargs = lap_jinja_list_create(&s->arena, rest->count);
    for (size_t i = 0; i < rest->count; i++) lap_jinja_list_push(&s->arena, varargs, rest->positional[i]);
    bind_special(s, "varargs", lap_jinja_tuple_value(varargs));
  } else if (rest->count) {
    lap_jinja_fail(s, "macro '%.*s' was called with too many arguments", (int)name->length, name->text);
  }
}

static value call_macro(state *s, const lap_jinja_macro *macro, const lap_jinja_arguments *arguments) {
  lap_jinja_arguments rest = *arguments;
  lap_jinja_scope *outer = s->scope;
  lap_jinja_flow flow;
  s->scope = lap_jinja_new_scope(s, macro->scope);
  bind_parameters(s, macro->definition, &rest);
  bind_rest(s, macro->definition, &rest);
  value result = lap_jinja_capture(s, macro->definition->body, s->scope, &flow);
  s->scope = outer;
  return result;
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
      return call_macro(s, callee.object, arguments);
    case LAP_JINJA_LOOP:
      if (arguments->count != 1 || arguments->keyword_count) lap_jinja_fail(s, "loop takes one argument");
      return lap_jinja_call_loop(s, callee, arguments->positional[0]);
    case LAP_JINJA_JOINER:
      return call_joiner(s, callee.object);
    case LAP_JINJA_UNDEFINED:
      lap_jinja_fail_undefined(s, callee);
    default:
      lap_jinja_fail(s, "'%s' object is not callable", lap_jinja_type_name(callee));
  }
}
