/* macro.c: arguments meet the parameters of macros. */
#include "jinja/macro.h"

#include "jinja/expression.h"
#include "jinja/statement.h"

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

value lap_jinja_call_macro(state *s, const lap_jinja_macro *macro, const lap_jinja_arguments *arguments) {
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
