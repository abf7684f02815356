/* filter_select.c: filters that apply other filters and tests, or look at what is defined.
 *
 * Python computes the lists lazily. Here they are computed at once: the difference shows only in which error
 * comes first. */
#include "jinja/access.h"
#include "jinja/call.h"
#include "jinja/iterate.h"
#include "jinja/path.h"
#include "jinja/tables.h"

static value filter_default(state *s, call *c) {
  value otherwise = c->given[0] ? c->argument[0] : lap_jinja_literal(&s->arena, "", true);
  bool falsy = lap_jinja_truth_argument(s, c, 1, false);
  if (c->self.type == LAP_JINJA_UNDEFINED || (falsy && !lap_jinja_truth(s, c->self))) return otherwise;
  return c->self;
}

static value filter_attr(state *s, call *c) {
  const string *name = lap_jinja_text_argument(s, c, 0);
  value found;
  if (c->self.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, c->self);
  if (lap_jinja_own_attribute(s, c->self, name, &found)) return found;
  return lap_jinja_missing(s, "'%s object' has no attribute '%.*s'", lap_jinja_type_name(c->self),
                           name->length < 100 ? (int)name->length : 100, name->text);
}

static lap_jinja_arguments without_first(const lap_jinja_arguments *arguments, size_t count) {
  lap_jinja_arguments rest = *arguments;
  if (count > rest.count) count = rest.count;
  if (count) rest.positional += count;
  rest.count -= count;
  return rest;
}

/* The filter or test that an argument names. */
static const builtin *named_builtin(state *s, value name, bool filter) {
  if (name.type == LAP_JINJA_UNDEFINED) lap_jinja_fail_undefined(s, name);
  const builtin *found = name.type != LAP_JINJA_STRING ? NULL
                         : filter                      ? lap_jinja_find_filter(s->language, name.string)
                                                       : lap_jinja_find_in(s->language->tests, name.string);
  if (!found && name.type == LAP_JINJA_STRING)
    lap_jinja_fail(s, "no %s is named '%.*s'", filter ? "filter" : "test", (int)name.string->length,
                   name.string->text);
  if (!found) lap_jinja_fail(s, "a %s is named by a string", filter ? "filter" : "test");
  return found;
}

/* ---- map ---- */

static const value *keyword(const call *c, const char *name) {
  for (size_t i = 0; i < c->rest.keyword_count; i++)
    if (lap_jinja_text_is(c->rest.keywords[i].name, name)) return &c->rest.keywords[i].value;
  return NULL;
}

static value filter_map(state *s, call *c) {
  list *mapped = lap_jinja_list_create(&s->arena, 0);
  if (!lap_jinja_truth(s, c->self)) return lap_jinja_new_generator(s, mapped);
  const value *path = c->rest.count ? NULL : keyword(c, "attribute"), *otherwise = keyword(c, "default");
  if (!path && !c->rest.count) lap_jinja_fail(s, "map needs a filter or an attribute");
  if (path && c->rest.keyword_count > 1 + (otherwise != NULL))
    lap_jinja_fail(s, "map got an unexpected argument");
  if (otherwise && otherwise->type == LAP_JINJA_NONE) otherwise = NULL;
  const builtin *filter = path ? NULL : named_builtin(s, c->rest.positional[0], true);
  lap_jinja_arguments arguments = without_first(&c->rest, 1);
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  value item;
  while (lap_jinja_next(s, &iterator, &item))
    lap_jinja_list_push(&s->arena, mapped,
                        path ? lap_jinja_follow(s, item, *path, otherwise)
                             : lap_jinja_call_builtin(s, filter, item, &arguments));
  return lap_jinja_new_generator(s, mapped);
}

/* ---- select and its kin ---- */

/* The items whose test has the result `wanted`; of their attribute, if `attribute`. Without a test, their
 * truth. */
static value select_items(state *s, call *c, bool wanted, bool attribute) {
  list *selected = lap_jinja_list_create(&s->arena, 0);
  if (!lap_jinja_truth(s, c->self)) return lap_jinja_new_generator(s, selected);
  if (attribute && !c->rest.count) lap_jinja_fail(s, "%s needs the name of an attribute", c->name);
  value path = attribute ? c->rest.positional[0] : lap_jinja_none(), item;
  lap_jinja_arguments arguments = without_first(&c->rest, attribute);
  const builtin *test = arguments.count ? named_builtin(s, arguments.positional[0], false) : NULL;
  arguments = without_first(&arguments, 1);
  lap_jinja_iterator iterator = lap_jinja_iterate(s, c->self);
  while (lap_jinja_next(s, &iterator, &item)) {
    value tested = lap_jinja_follow(s, item, path, NULL);
    if (test) tested = lap_jinja_call_builtin(s, test, tested, &arguments);
    if (lap_jinja_truth(s, tested) == wanted) lap_jinja_list_push(&s->arena, selected, item);
  }
  return lap_jinja_new_generator(s, selected);
}

static value filter_select(state *s, call *c) {
  return select_items(s, c, true, false);
}

static value filter_reject(state *s, call *c) {
  return select_items(s, c, false, false);
}

static value filter_selectattr(state *s, call *c) {
  return select_items(s, c, true, true);
}

static value filter_rejectattr(state *s, call *c) {
  return select_items(s, c, false, true);
}

const builtin lap_jinja_select_filters[] = {{"attr", "name", filter_attr},
                                            {"d", "default_value? boolean?", filter_default},
                                            {"default", "default_value? boolean?", filter_default},
                                            {"map", "* **", filter_map},
                                            {"reject", "* **", filter_reject},
                                            {"rejectattr", "* **", filter_rejectattr},
                                            {"select", "* **", filter_select},
                                            {"selectattr", "* **", filter_selectattr},
                                            {0}};
