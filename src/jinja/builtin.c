/* builtin.c: finding what is built in, by its name. */
#include "jinja/builtin.h"

const builtin *lap_jinja_find_in(const builtin *table, const string *name) {
  for (; table->name; table++)
    if (lap_jinja_text_is(name, table->name)) return table;
  return NULL;
}

const builtin *lap_jinja_find_filter(const lap_jinja_language *language, const string *name) {
  const builtin *found = NULL;
  for (const builtin *const *table = language->filters; *table && !found; table++)
    found = lap_jinja_find_in(*table, name);
  return found;
}

const builtin *lap_jinja_find_method(const lap_jinja_language *language, value object, const string *name) {
  const builtin *methods = language->methods[object.type];
  return methods ? lap_jinja_find_in(methods, name) : NULL;
}
