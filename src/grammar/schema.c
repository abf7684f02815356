/* schema.c: schemas read as conjunctions.
 *
 * What a value has to obey is a list of schemas: `allOf` and `$ref` only add to it, and a member of an object
 * that two of them describe obeys both descriptions. `anyOf` makes one list for each alternative, which has
 * the alternative in it and no longer looks at the `anyOf`. So combinations need no special cases; what is
 * written is one rule for each different list, and recursion is a list that was met before.
 *
 * `oneOf` is read as `anyOf`: that a value fits only one alternative is not enforced. */
#include "grammar/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/formats.h"
#include "grammar/pattern.h"
#include "text/tokenizer_utf8.h"

enum {
  MAX_PARTS = 32,
  MAX_DEPTH = 128,
  MAX_MEMBERS = 1000,
  MAX_VALUES = 5000,
  MAX_LISTS = 1 << 15,
  MAX_STEPS = 1 << 26 /* about as many comparisons of names */
};

enum {
  TYPE_NULL = 1,
  TYPE_BOOLEAN = 2,
  TYPE_INTEGER = 4,
  TYPE_FRACTION = 8, /* numbers that are no integers */
  TYPE_STRING = 16,
  TYPE_ARRAY = 32,
  TYPE_OBJECT = 64,
  TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
  TYPE_ANY = 127
};

/* A schema of a conjunction. */
typedef struct part {
  const lap_json *schema;
  bool any_of_done, one_of_done; /* one of its alternatives is a part of its own */
} part;

typedef struct conjunction {
  part parts[MAX_PARTS];
  int count;
  uint8_t types; /* that the place allows */
  bool never;    /* one of the schemas was `false` */
} conjunction;

/* A conjunction met before. */
typedef struct known {
  const part *parts;
  int count;
  uint8_t types;
  const lap_expression *expression;
} known;

typedef struct compiler {
  const lap_schema_reader *reader;
  const lap_json_document *document;
  const lap_json *root;
  const lap_spelling *spelling;
  lap_rules *rules;
  known *known;
  size_t known_count, known_capacity;
  uint32_t *slots; /* indices into `known` + 1, [2 * MAX_LISTS] */
  int depth;
  size_t steps;
  const lap_json *open[MAX_PARTS]; /* schemas whose references are being followed */
  int open_count;
  lap_error *error;
} compiler;

static lap_status compile(compiler *c, const conjunction *all, const lap_expression **out);

static const lap_json *get(const compiler *c, const lap_json *object, const char *key) {
  return lap_json_get(c->document, object, key);
}

static lap_status refuse(const compiler *c, const lap_json *value, const char *what) {
  return lap_json_fail(c->document, value, c->error, "%s", what);
}

/* Schemas that refer to each other can ask for any amount of work. */
static lap_status spend(compiler *c, const lap_json *place, size_t steps) {
  c->steps += steps;
  return c->steps <= MAX_STEPS ? LAP_OK : refuse(c, place, "its schemas can be combined in too many ways");
}

/* ---- keywords ---------------------------------------------------------------------------------- */

/* Is the value one that makes the keyword say nothing? */
static bool says_nothing(const compiler *c, const lap_json *value) {
  if (value->type == LAP_JSON_BOOL)
    return strcmp(value->key, "uniqueItems") == 0 ? !value->boolean : value->boolean;
  if (value->type != LAP_JSON_OBJECT || strcmp(value->key, "not") == 0) return false;
  const lap_json *type = get(c, value, "type");
  bool names = strcmp(value->key, "propertyNames") == 0 && value->length == 1 && type &&
               type->type == LAP_JSON_STRING && strcmp(type->string, "string") == 0;
  return value->length == 0 || names;
}

/* Keywords that restrict values in a way that is not enforced; all that are not known are remarks. */
static lap_status check_keywords(const compiler *c, const lap_json *schema) {
  static const char *const refused[] = {"not",
                                        "if",
                                        "patternProperties",
                                        "propertyNames",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "dependencies",
                                        "contains",
                                        "uniqueItems",
                                        "unevaluatedItems",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        "maxProperties"};
  for (const lap_json *child = schema->child; child; child = child->next)
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
      if (strcmp(child->key, refused[i]) == 0 && !says_nothing(c, child))
        return refuse(c, child, "this keyword is not supported");
  return LAP_OK;
}

/* Keywords that say something about values, other than by reference. */
static bool restricts(const compiler *c, const lap_json *schema, bool any_of, bool one_of) {
  static const char *const enforced[] = {"type",          "enum",        "const",
                                         "properties",    "required",    "additionalProperties",
                                         "items",         "prefixItems", "unevaluatedProperties",
                                         "minItems",      "maxItems",    "additionalItems",
                                         "minLength",     "maxLength",   "pattern",
                                         "format",        "minimum",     "exclusiveMinimum",
                                         "maximum",       "nullable",    "exclusiveMaximum",
                                         "minProperties", "multipleOf"};
  if ((any_of && get(c, schema, "anyOf")) || (one_of && get(c, schema, "oneOf"))) return true;
  for (size_t i = 0; i < sizeof enforced / sizeof *enforced; i++)
    if (get(c, schema, enforced[i])) return true;
  return false;
}

/* ---- references -------------------------------------------------------------------------------- */

static int hex_value(char digit) {
  const char *digits = "0123456789abcdefABCDEF", *at = digit ? strchr(digits, digit) : NULL;
  if (!at) return -1;
  return at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

/* One step of a JSON pointer in a fragment, up to `/` or the end, with its escapes undone; returns what
 * follows, or NULL if it is malformed or too long. */
static const char *read_step(const char *text, char *step, size_t size) {
  size_t length = 0;
  while (*text && *text != '/') {
    char c = *text++;
    if (c == '%') {
      int high = hex_value(text[0]), low = high < 0 ? -1 : hex_value(text[1]);
      if (low < 0) return NULL;
      c = (char)(high * 16 + low);
      text += 2;
    } else if (c == '~') {
      if (*text != '0' && *text != '1') return NULL;
      c = *text++ == '0' ? '~' : '/';
    }
    if (length + 1 == size) return NULL;
    step[length++] = c;
  }
  step[length] = '\0';
  return text;
}

static const lap_json *child_at(const lap_json *array, const char *step) {
  char *end;
  unsigned long index = strtoul(step, &end, 10);
  if (*step < '0' || *step > '9' || *end) return NULL;
  const lap_json *child = array->child;
  while (child && index-- > 0) child = child->next;
  return child;
}

static lap_status resolve(const compiler *c, const lap_json *reference, const lap_json **out) {
  if (reference->type != LAP_JSON_STRING) return refuse(c, reference, "a reference (a string) is expected");
  const char *text = reference->string;
  const lap_json *at = c->root;
  if (text[0] != '#' || (text[1] != '\0' && text[1] != '/'))
    return refuse(c, reference, "only references into the schema itself are supported (#/...)");
  text++;
  while (at && *text == '/') {
    char step[256];
    text = read_step(text + 1, step, sizeof step);
    if (!text) return refuse(c, reference, "this is no JSON pointer");
    at = at->type == LAP_JSON_ARRAY ? child_at(at, step) : get(c, at, step);
  }
  *out = at;
  return at ? LAP_OK : refuse(c, reference, "this reference leads nowhere");
}

/* ---- conjunctions ------------------------------------------------------------------------------ */

static bool same_part(const part *a, const part *b) {
  return a->schema == b->schema && a->any_of_done == b->any_of_done && a->one_of_done == b->one_of_done;
}

static lap_status add_schema(compiler *c, conjunction *all, const lap_json *schema);

static lap_status add_each(compiler *c, conjunction *all, const lap_json *list) {
  if (list->type != LAP_JSON_ARRAY) return refuse(c, list, "a list of schemas is expected");
  lap_status status = LAP_OK;
  for (const lap_json *child = list->child; child && status == LAP_OK; child = child->next)
    status = add_schema(c, all, child);
  return status;
}

static lap_status add_referenced(compiler *c, conjunction *all, const lap_json *schema) {
  const lap_json *reference = get(c, schema, "$ref"), *target = NULL, *list = get(c, schema, "allOf");
  if (!reference && !list) return LAP_OK;
  for (int i = 0; i < c->open_count; i++)
    if (c->open[i] == schema) return refuse(c, schema, "its references lead back to itself");
  if (c->open_count == MAX_PARTS) return refuse(c, schema, "more than 32 references in a row");
  c->open[c->open_count++] = schema;
  lap_status status = LAP_OK;
  if (reference) status = resolve(c, reference, &target);
  if (status == LAP_OK && target) status = add_schema(c, all, target);
  if (status == LAP_OK && list) status = add_each(c, all, list);
  c->open_count--;
  return status;
}

/* Keeps a schema as a part, if it says something and is not there. */
static lap_status add_part(compiler *c, conjunction *all, part added) {
  if (!restricts(c, added.schema, !added.any_of_done, !added.one_of_done)) return LAP_OK;
  for (int i = 0; i < all->count; i++)
    if (same_part(&all->parts[i], &added)) return LAP_OK;
  if (all->count == MAX_PARTS) return refuse(c, added.schema, "more than 32 schemas for one value");
  all->parts[all->count++] = added;
  return LAP_OK;
}

/* Adds a schema, what it refers to, and what its allOf lists. */
static lap_status add_schema(compiler *c, conjunction *all, const lap_json *schema) {
  if (schema->type == LAP_JSON_BOOL) {
    all->never |= !schema->boolean;
    return LAP_OK;
  }
  if (schema->type != LAP_JSON_OBJECT) return refuse(c, schema, "a schema (an object) is expected");
  lap_status status = spend(c, schema, 16 * (schema->length + 1));
  if (status == LAP_OK) status = check_keywords(c, schema);
  if (status == LAP_OK) status = add_referenced(c, all, schema);
  return status == LAP_OK ? add_part(c, all, (part){.schema = schema}) : status;
}

static uint32_t hash_conjunction(const conjunction *all) {
  uint64_t h = all->types;
  for (int i = 0; i < all->count; i++) {
    const part *p = &all->parts[i];
    h = (h ^ (uintptr_t)p->schema ^ (uint64_t)p->any_of_done << 62 ^ (uint64_t)p->one_of_done << 63) *
        UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
  }
  return (uint32_t)h;
}

static bool is_known(const known *k, const conjunction *all) {
  if (k->count != all->count || k->types != all->types) return false;
  for (int i = 0; i < all->count; i++)
    if (!same_part(&k->parts[i], &all->parts[i])) return false;
  return true;
}

/* The slot of a conjunction, or the free one where it belongs. */
static uint32_t *find_slot(const compiler *c, const conjunction *all) {
  uint32_t mask = 2 * MAX_LISTS - 1, at = hash_conjunction(all) & mask;
  while (c->slots[at] && !is_known(&c->known[c->slots[at] - 1], all)) at = (at + 1) & mask;
  return &c->slots[at];
}

/* ---- types ------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  uint8_t types;
} type_names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
                  {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
                  {"object", TYPE_OBJECT}};

static lap_status read_type_name(const compiler *c, const lap_json *name, uint8_t *types) {
  for (size_t i = 0; name->type == LAP_JSON_STRING && i < sizeof type_names / sizeof *type_names; i++) {
    if (strcmp(name->string, type_names[i].name) != 0) continue;
    *types |= type_names[i].types;
    return LAP_OK;
  }
  return refuse(c, name, "the name of a type is expected");
}

/* A schema that names no type but restricts one is meant for that one. */
static uint8_t implied_types(const compiler *c, const lap_json *schema) {
  static const struct {
    const char *keyword;
    uint8_t types;
  } hints[] = {
      {"properties", TYPE_OBJECT}, {"required", TYPE_OBJECT},         {"additionalProperties", TYPE_OBJECT},
      {"items", TYPE_ARRAY},       {"prefixItems", TYPE_ARRAY},       {"minItems", TYPE_ARRAY},
      {"maxItems", TYPE_ARRAY},    {"pattern", TYPE_STRING},          {"minLength", TYPE_STRING},
      {"maxLength", TYPE_STRING},  {"format", TYPE_STRING},           {"minimum", TYPE_NUMBER},
      {"maximum", TYPE_NUMBER},    {"exclusiveMinimum", TYPE_NUMBER}, {"exclusiveMaximum", TYPE_NUMBER},
      {"multipleOf", TYPE_NUMBER}};
  uint8_t types = 0;
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (get(c, schema, hints[i].keyword)) types |= hints[i].types;
  return types ? types : TYPE_ANY;
}

static lap_status types_of_schema(const compiler *c, const lap_json *schema, uint8_t *types) {
  const lap_json *type = get(c, schema, "type"), *nullable = get(c, schema, "nullable");
  const lap_json *multiple = get(c, schema, "multipleOf");
  lap_status status = LAP_OK;
  *types = 0;
  if (!type) {
    *types = implied_types(c, schema);
  } else if (type->type == LAP_JSON_ARRAY) {
    for (const lap_json *name = type->child; name && status == LAP_OK; name = name->next)
      status = read_type_name(c, name, types);
  } else {
    status = read_type_name(c, type, types);
  }
  if (nullable && nullable->type == LAP_JSON_BOOL && nullable->boolean) *types |= TYPE_NULL;
  if (!multiple || status != LAP_OK) return status;
  bool one = (multiple->type == LAP_JSON_INTEGER || multiple->type == LAP_JSON_REAL) && multiple->real == 1;
  if (!one && *types & TYPE_NUMBER) return refuse(c, multiple, "only 1 is supported");
  *types &= (uint8_t)~TYPE_FRACTION;
  return LAP_OK;
}

static lap_status types_of(const compiler *c, const conjunction *all, uint8_t *types) {
  lap_status status = LAP_OK;
  *types = all->types;
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    uint8_t allowed;
    status = types_of_schema(c, all->parts[i].schema, &allowed);
    *types &= allowed;
  }
  return status;
}

/* ---- bounds ------------------------------------------------------------------------------------ */

/* The smaller or larger of a keyword's values over all parts; what nobody says stays. */
static lap_status read_count(const compiler *c, const conjunction *all, const char *keyword, bool largest,
                             uint32_t *bound) {
  for (int i = 0; i < all->count; i++) {
    const lap_json *value = get(c, all->parts[i].schema, keyword);
    if (!value) continue;
    if ((value->type != LAP_JSON_INTEGER && value->type != LAP_JSON_REAL) || !(value->real >= 0) ||
        value->real != floor(value->real))
      return refuse(c, value, "a count is expected");
    bool enormous = value->real > LAP_MAX_COUNT;
    if (enormous && largest) return refuse(c, value, "more than 16777216 is not supported");
    uint32_t count = enormous ? LAP_ENDLESS : (uint32_t)value->real;
    if (largest ? count > *bound : count < *bound) *bound = count;
  }
  return LAP_OK;
}

static lap_status read_counts(const compiler *c, const conjunction *all, const char *least, const char *most,
                              uint32_t *min, uint32_t *max) {
  *min = 0;
  *max = LAP_ENDLESS;
  lap_status status = read_count(c, all, least, true, min);
  return status == LAP_OK ? read_count(c, all, most, false, max) : status;
}

/* ---- numbers ----------------------------------------------------------------------------------- */

static lap_status narrow(const compiler *c, const lap_json *value, bool low, bool excluded,
                         lap_interval *in) {
  lap_decimal bound;
  if (value->type == LAP_JSON_INTEGER)
    bound = lap_decimal_from_integer(value->integer);
  else if (value->type != LAP_JSON_REAL)
    return refuse(c, value, "a number is expected");
  else if (!lap_decimal_from(value->real, &bound))
    return refuse(c, value, "a number of more than 40 digits in front of the point or behind it");
  lap_decimal *current = low ? &in->low : &in->high;
  bool *is_excluded = low ? &in->low_excluded : &in->high_excluded, *has = low ? &in->has_low : &in->has_high;
  int order = *has ? lap_decimal_compare(&bound, current) : 0;
  if (*has && (low ? order < 0 : order > 0)) return LAP_OK;
  *is_excluded = excluded || (*has && order == 0 && *is_excluded);
  *current = bound;
  *has = true;
  return LAP_OK;
}

/* One bound of one schema. In old drafts the exclusive keyword is a boolean beside the other. */
static lap_status narrow_by(const compiler *c, const lap_json *schema, bool low, lap_interval *in) {
  const lap_json *inclusive = get(c, schema, low ? "minimum" : "maximum");
  const lap_json *exclusive = get(c, schema, low ? "exclusiveMinimum" : "exclusiveMaximum");
  bool flag = exclusive && exclusive->type == LAP_JSON_BOOL;
  lap_status status = LAP_OK;
  if (inclusive) status = narrow(c, inclusive, low, flag && exclusive->boolean, in);
  if (status == LAP_OK && exclusive && !flag) status = narrow(c, exclusive, low, true, in);
  return status;
}

static lap_status read_interval(const compiler *c, const conjunction *all, lap_interval *in) {
  lap_status status = LAP_OK;
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    status = narrow_by(c, all->parts[i].schema, true, in);
    if (status == LAP_OK) status = narrow_by(c, all->parts[i].schema, false, in);
  }
  return status;
}

static lap_status read_number(const compiler *c, const conjunction *all, bool integers,
                              const lap_expression **out) {
  lap_interval in = {.integers = integers};
  lap_status status = read_interval(c, all, &in);
  if (status != LAP_OK) return status;
  if (in.has_low || in.has_high)
    *out = lap_spell_interval(c->rules, &in);
  else
    *out = integers ? c->spelling->integer : c->spelling->number;
  return LAP_OK;
}

/* ---- strings ----------------------------------------------------------------------------------- */

static lap_status read_pattern(const compiler *c, const lap_json *value, const char *text, size_t length,
                               lap_pattern *out) {
  size_t place;
  const char *wrong = lap_pattern_read(c->spelling, text, length, out, &place);
  if (!wrong) return LAP_OK;
  return lap_json_fail(c->document, value, c->error, "character %zu: %s", place + 1, wrong);
}

/* The one pattern that the parts give, `given` NULL if there is none. */
static lap_status find_pattern(const compiler *c, const conjunction *all, const lap_json **given,
                               lap_pattern *out) {
  *given = NULL;
  for (int i = 0; i < 2 * all->count; i++) {
    const lap_json *value = get(c, all->parts[i / 2].schema, i % 2 ? "format" : "pattern");
    if (!value) continue;
    if (value->type != LAP_JSON_STRING) return refuse(c, value, "a string is expected");
    const char *text = i % 2 ? lap_format_pattern(value->string) : value->string;
    if (!text) continue;
    if (*given) return refuse(c, value, "a second pattern or format for one string is not supported");
    *given = value;
    lap_status status = read_pattern(c, value, text, i % 2 ? strlen(text) : value->length, out);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

/* Narrows a pattern to the lengths from min to max. */
static lap_status limit_pattern(const compiler *c, const lap_json *given, lap_pattern *pattern, uint32_t min,
                                uint32_t max) {
  if (pattern->min >= min && pattern->max <= max) return LAP_OK;
  if (!pattern->repeated)
    return refuse(c, given, "minLength or maxLength beside it is only supported for one repeated character");
  if (pattern->min > min) min = pattern->min;
  if (pattern->max < max) max = pattern->max;
  pattern->expression = lap_expr_repetition(c->rules, pattern->repeated, min, max);
  return LAP_OK;
}

static lap_status read_string(const compiler *c, const conjunction *all, const lap_expression **out) {
  uint32_t min, max;
  const lap_json *given;
  lap_pattern pattern;
  lap_status status = read_counts(c, all, "minLength", "maxLength", &min, &max);
  if (status == LAP_OK) status = find_pattern(c, all, &given, &pattern);
  if (status == LAP_OK && given) status = limit_pattern(c, given, &pattern, min, max);
  if (status != LAP_OK) return status;
  if (given)
    *out = lap_spell_string(c->spelling, pattern.expression);
  else if (min == 0 && max == LAP_ENDLESS)
    *out = c->spelling->string;
  else
    *out = lap_spell_string(c->spelling, lap_expr_repetition(c->rules, c->spelling->any_character, min, max));
  return LAP_OK;
}

/* ---- arrays ------------------------------------------------------------------------------------ */

/* The schemas of the first elements, one by one: prefixItems, or items in old drafts. */
static const lap_json *prefix_of(const compiler *c, const lap_json *schema) {
  const lap_json *prefix = get(c, schema, "prefixItems"), *items = get(c, schema, "items");
  if (prefix) return prefix->type == LAP_JSON_ARRAY ? prefix : NULL;
  return items && items->type == LAP_JSON_ARRAY ? items : NULL;
}

static const lap_json *element_schema(const compiler *c, const lap_json *schema, size_t index) {
  const lap_json *prefix = prefix_of(c, schema), *items = get(c, schema, "items");
  if (prefix && index < prefix->length) {
    const lap_json *child = prefix->child;
    while (index-- > 0) child = child->next;
    return child;
  }
  return items && items->type == LAP_JSON_ARRAY ? get(c, schema, "additionalItems") : items;
}

static lap_status read_element(compiler *c, const conjunction *all, size_t index,
                               const lap_expression **out) {
  conjunction element = {.types = TYPE_ANY};
  lap_status status = LAP_OK;
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    const lap_json *schema = element_schema(c, all->parts[i].schema, index);
    if (schema) status = add_schema(c, &element, schema);
  }
  return status == LAP_OK ? compile(c, &element, out) : status;
}

/* Elements that all obey the same, separated, `min` to `max` of them; the first has no comma in front if
 * nothing stands before it. */
static const lap_expression *equal_elements(const compiler *c, const lap_expression *element, bool first,
                                            uint32_t min, uint32_t max) {
  const lap_expression *next = lap_expr_then(c->rules, c->spelling->comma, element);
  if (!first) return lap_expr_repetition(c->rules, next, min, max);
  if (max == 0) return lap_expr_empty();
  uint32_t others = max == LAP_ENDLESS ? max : max - 1;
  const lap_expression *more = lap_expr_repetition(c->rules, next, min > 1 ? min - 1 : 0, others);
  const lap_expression *some = lap_expr_then(c->rules, element, more);
  return min == 0 ? lap_expr_optional(c->rules, some) : some;
}

static uint32_t minus(uint32_t a, uint32_t b) {
  if (a == LAP_ENDLESS) return a;
  return a > b ? a - b : 0;
}

static lap_status read_array(compiler *c, const conjunction *all, const lap_expression **out) {
  uint32_t min, max, count = 0;
  lap_status status = read_counts(c, all, "minItems", "maxItems", &min, &max);
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    const lap_json *prefix = prefix_of(c, all->parts[i].schema);
    if (!prefix) continue;
    if (prefix->length > MAX_MEMBERS) return refuse(c, prefix, "more than 1000 elements");
    if (prefix->length > count) count = (uint32_t)prefix->length;
  }
  *out = lap_expr_nothing();
  if (status != LAP_OK || min > max) return status;
  const lap_expression *element, *rest;
  status = read_element(c, all, count, &element);
  if (status != LAP_OK) return status;
  rest = equal_elements(c, element, count == 0, minus(min, count), minus(max, count));
  for (uint32_t i = count; i-- > 0;) {
    if (i >= max) {
      rest = lap_expr_empty();
      continue;
    }
    status = read_element(c, all, i, &element);
    if (status != LAP_OK) return status;
    rest = lap_expr_then(c->rules, element, rest);
    if (i > 0) rest = lap_expr_then(c->rules, c->spelling->comma, rest);
    if (i >= min) rest = lap_expr_optional(c->rules, rest);
  }
  *out = lap_spell_brackets(c->spelling, rest);
  return LAP_OK;
}

/* ---- objects ----------------------------------------------------------------------------------- */

typedef struct member {
  const char *name;
  const lap_json *place; /* for messages */
  bool required;
} member;

typedef struct members {
  member list[MAX_MEMBERS];
  size_t count;
} members;

static member *find_member(members *m, const char *name) {
  for (size_t i = 0; i < m->count; i++)
    if (strcmp(m->list[i].name, name) == 0) return &m->list[i];
  return NULL;
}

static lap_status add_member(compiler *c, members *m, const char *name, const lap_json *place,
                             bool required) {
  member *there = find_member(m, name);
  if (there) {
    there->required |= required;
    return LAP_OK;
  }
  if (m->count == MAX_MEMBERS) return refuse(c, place, "more than 1000 properties in one object");
  if (!lap_spelling_can_key(c->spelling, name))
    return refuse(c, place, "this name cannot be written in a tool call");
  m->list[m->count++] = (member){name, place, required};
  return spend(c, place, m->count);
}

static lap_status collect_members(compiler *c, const conjunction *all, members *m) {
  lap_status status = LAP_OK;
  for (int i = 0; i < all->count; i++) {
    const lap_json *properties = get(c, all->parts[i].schema, "properties");
    if (properties && properties->type != LAP_JSON_OBJECT)
      return refuse(c, properties, "an object is expected");
    for (const lap_json *p = properties ? properties->child : NULL; p && status == LAP_OK; p = p->next)
      status = add_member(c, m, p->key, p, false);
  }
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    const lap_json *required = get(c, all->parts[i].schema, "required");
    if (!required || required->type == LAP_JSON_BOOL) continue; /* old drafts had it in the member */
    if (required->type != LAP_JSON_ARRAY) return refuse(c, required, "a list of names is expected");
    for (const lap_json *name = required->child; name && status == LAP_OK; name = name->next) {
      if (name->type != LAP_JSON_STRING || strlen(name->string) != name->length)
        return refuse(c, name, "a name is expected");
      status = add_member(c, m, name->string, name, true);
    }
  }
  return status;
}

static lap_status check_min_properties(const compiler *c, const conjunction *all, const members *m) {
  size_t required = 0;
  for (size_t i = 0; i < m->count; i++) required += m->list[i].required;
  for (int i = 0; i < all->count; i++) {
    const lap_json *min = get(c, all->parts[i].schema, "minProperties");
    if (min && !(min->type == LAP_JSON_INTEGER && min->integer <= (int64_t)required))
      return refuse(c, min, "more than the number of required properties is not supported");
  }
  return LAP_OK;
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* As Jinja's dictsort: without regard to case (of ASCII letters). */
static int by_name_without_case(const void *a, const void *b) {
  const member *x = a, *y = b;
  size_t i = 0;
  while (x->name[i] && lower(x->name[i]) == lower(y->name[i])) i++;
  int order = (unsigned char)lower(x->name[i]) - (unsigned char)lower(y->name[i]);
  return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_text(const void *a, const void *b) {
  const char *x, *y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return strcmp(x, y);
}

/* What the parts say about a member: those that list it under its name, the others about any that they do not
 * list. `name` NULL: a member that none of them lists. */
static lap_status member_schemas(compiler *c, const conjunction *all, const char *name, conjunction *out) {
  lap_status status = LAP_OK;
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    const lap_json *schema = all->parts[i].schema, *listed = NULL;
    if (name) listed = get(c, get(c, schema, "properties"), name);
    if (!listed) listed = get(c, schema, "additionalProperties");
    if (listed) status = add_schema(c, out, listed);
  }
  return status;
}

/* May there be members that no part lists? */
static bool has_others(const compiler *c, const conjunction *all) {
  bool listed = false, said = false;
  for (int i = 0; i < all->count; i++) {
    const lap_json *unevaluated = get(c, all->parts[i].schema, "unevaluatedProperties");
    if (unevaluated && unevaluated->type == LAP_JSON_BOOL && !unevaluated->boolean) return false;
    listed |= get(c, all->parts[i].schema, "properties") != NULL;
    said |= get(c, all->parts[i].schema, "additionalProperties") != NULL;
  }
  return said || !listed || !c->reader->closed;
}

static lap_status read_others(compiler *c, const conjunction *all, const members *m,
                              const lap_expression **out) {
  conjunction others = {.types = TYPE_ANY};
  const lap_expression *value;
  *out = lap_expr_nothing();
  if (!has_others(c, all)) return LAP_OK;
  lap_status status = member_schemas(c, all, NULL, &others);
  if (status == LAP_OK) status = compile(c, &others, &value);
  if (status != LAP_OK || value->kind == LAP_NOTHING) return status;
  const char **names = lap_arena_take(&c->rules->arena, (m->count + 1) * sizeof *names);
  if (!names) return LAP_OK; /* the rules have failed */
  for (size_t i = 0; i < m->count; i++) names[i] = m->list[i].name;
  qsort(names, m->count, sizeof *names, by_text);
  const lap_expression *key = lap_spell_other_key(c->spelling, names, m->count);
  uint32_t rule = lap_rules_add(c->rules, all->count ? all->parts[0].schema : c->root);
  lap_rules_define(c->rules, rule, lap_expr_then(c->rules, key, value));
  *out = lap_expr_call(c->rules, rule);
  return LAP_OK;
}

/* One member as a rule of its own, NOTHING if it has no value. */
static lap_status read_member(compiler *c, const conjunction *all, const member *m,
                              const lap_expression **out) {
  conjunction schemas = {.types = TYPE_ANY};
  const lap_expression *value;
  lap_status status = member_schemas(c, all, m->name, &schemas);
  if (status == LAP_OK) status = compile(c, &schemas, &value);
  if (status != LAP_OK) return status;
  *out = value;
  if (value->kind == LAP_NOTHING) return LAP_OK;
  uint32_t rule = lap_rules_add(c->rules, m->place);
  lap_rules_define(c->rules, rule, lap_expr_then(c->rules, lap_spell_key(c->spelling, m->name), value));
  *out = lap_expr_call(c->rules, rule);
  return LAP_OK;
}

static lap_status read_members(compiler *c, const conjunction *all, members *m, const lap_expression **out) {
  lap_parts parts = {0};
  bool optional[MAX_MEMBERS + 1];
  *out = lap_expr_nothing();
  if (c->reader->sorted) qsort(m->list, m->count, sizeof *m->list, by_name_without_case);
  for (size_t i = 0; i < m->count; i++) {
    const lap_expression *written;
    lap_status status = read_member(c, all, &m->list[i], &written);
    if (status != LAP_OK || (written->kind == LAP_NOTHING && m->list[i].required)) return status;
    if (written->kind == LAP_NOTHING || parts.count == MAX_MEMBERS) continue;
    optional[parts.count] = !m->list[i].required;
    lap_parts_add(c->rules, &parts, written);
  }
  const lap_expression *other;
  lap_status status = read_others(c, all, m, &other);
  if (status != LAP_OK) return status;
  if (other->kind != LAP_NOTHING) {
    optional[parts.count] = true;
    lap_parts_add(c->rules, &parts, equal_elements(c, other, true, 1, LAP_ENDLESS));
  }
  const lap_expression *list = lap_expr_list(c->rules, c->spelling->comma, &parts, optional);
  *out = lap_spell_braces(c->spelling, list);
  return LAP_OK;
}

static lap_status read_object(compiler *c, const conjunction *all, const lap_expression **out) {
  members *m = calloc(1, sizeof *m);
  if (!m) return lap_fail(c->error, LAP_ERROR_MEMORY, "grammar: out of memory");
  lap_status status = collect_members(c, all, m);
  if (status == LAP_OK) status = check_min_properties(c, all, m);
  if (status == LAP_OK) status = read_members(c, all, m, out);
  free(m);
  return status;
}

/* ---- given values ------------------------------------------------------------------------------ */

static uint8_t type_of(const lap_json *value) {
  switch (value->type) {
    case LAP_JSON_NULL:
      return TYPE_NULL;
    case LAP_JSON_BOOL:
      return TYPE_BOOLEAN;
    case LAP_JSON_INTEGER:
      return TYPE_INTEGER;
    case LAP_JSON_REAL:
      return value->real == floor(value->real) ? TYPE_INTEGER : TYPE_FRACTION;
    case LAP_JSON_STRING:
      return TYPE_STRING;
    case LAP_JSON_ARRAY:
      return TYPE_ARRAY;
    case LAP_JSON_OBJECT:
      return TYPE_OBJECT;
  }
  return 0;
}

/* Recursion ends with the documents' depth. */
static bool equal(const compiler *c, const lap_json *a, const lap_json *b) {
  bool numbers = type_of(a) & TYPE_NUMBER && type_of(b) & TYPE_NUMBER;
  if (numbers)
    return a->type == b->type && a->type == LAP_JSON_INTEGER ? a->integer == b->integer : a->real == b->real;
  if (a->type != b->type || a->length != b->length || a->boolean != b->boolean) return false;
  if (a->type == LAP_JSON_STRING) return memcmp(a->string, b->string, a->length) == 0;
  for (const lap_json *x = a->child, *y = b->child; x; x = x->next, y = y->next) {
    const lap_json *other = a->type == LAP_JSON_OBJECT ? get(c, b, x->key) : y;
    if (!other || !equal(c, x, other)) return false;
  }
  return true;
}

static bool is_listed(const compiler *c, const lap_json *value, const lap_json *list) {
  for (const lap_json *item = list->child; item; item = item->next)
    if (equal(c, value, item)) return true;
  return false;
}

static size_t count_characters(const lap_json *string) {
  size_t count = 0;
  for (size_t i = 0; i < string->length; i++) count += ((unsigned char)string->string[i] & 0xc0) != 0x80;
  return count;
}

static lap_status number_fits(const compiler *c, const conjunction *all, const lap_json *value, bool *fits) {
  lap_interval in = {0}, bound = {0};
  lap_status status = read_interval(c, all, &in);
  if (status == LAP_OK) status = narrow(c, value, true, false, &bound);
  if (status != LAP_OK) return status;
  int low = in.has_low ? lap_decimal_compare(&bound.low, &in.low) : 1;
  int high = in.has_high ? lap_decimal_compare(&bound.low, &in.high) : -1;
  *fits = (low > 0 || (low == 0 && !in.low_excluded)) && (high < 0 || (high == 0 && !in.high_excluded));
  return LAP_OK;
}

#define MANY_VALUES "more than 5000 values are not supported"

/* Does a given value, one of `source`, obey all that the parts say beside it? Patterns and what is inside of
 * arrays and objects are not looked at, so they are refused there. */
static lap_status fits(compiler *c, const conjunction *all, uint8_t types, const lap_json *value,
                       const lap_json *source, bool *out) {
  static const char *const unseen[] = {"pattern",     "properties", "required", "items",
                                       "prefixItems", "minItems",   "maxItems"};
  *out = (type_of(value) & types) != 0;
  for (int i = 0; i < all->count && *out; i++) {
    const lap_json *schema = all->parts[i].schema, *list = get(c, schema, "enum"),
                   *only = get(c, schema, "const");
    if (list && list->type != LAP_JSON_ARRAY) return refuse(c, list, "a list of values is expected");
    if (list && list->length > MAX_VALUES) return refuse(c, list, MANY_VALUES);
    if (list && spend(c, list, list->length) != LAP_OK) return LAP_ERROR_FORMAT;
    *out = (!list || list == source || is_listed(c, value, list)) && (!only || equal(c, value, only));
    for (size_t k = 0; k < sizeof unseen / sizeof *unseen; k++) {
      const lap_json *keyword = get(c, schema, unseen[k]);
      bool concerned = type_of(value) == (k == 0 ? TYPE_STRING : k < 3 ? TYPE_OBJECT : TYPE_ARRAY);
      if (keyword && concerned)
        return refuse(c, keyword, "this keyword is not supported beside given values");
    }
  }
  if (*out && type_of(value) & TYPE_NUMBER) return number_fits(c, all, value, out);
  if (!*out || value->type != LAP_JSON_STRING) return LAP_OK;
  uint32_t min, max;
  lap_status status = read_counts(c, all, "minLength", "maxLength", &min, &max);
  if (status == LAP_OK) *out = count_characters(value) >= min && count_characters(value) <= max;
  return status;
}

static lap_status read_given(compiler *c, const conjunction *all, const lap_json *first, bool is_list,
                             const lap_expression **out) {
  uint8_t types;
  lap_parts parts = {0};
  lap_status status = types_of(c, all, &types);
  if (status == LAP_OK && is_list && first->type != LAP_JSON_ARRAY)
    return refuse(c, first, "a list of values is expected");
  if (is_list && first->length > MAX_VALUES) return refuse(c, first, MANY_VALUES);
  for (const lap_json *value = is_list ? first->child : first; value && status == LAP_OK;
       value = is_list ? value->next : NULL) {
    bool fit = false;
    status = fits(c, all, types, value, first, &fit);
    if (status == LAP_OK && fit) lap_parts_add(c->rules, &parts, lap_spell_value(c->spelling, value));
  }
  *out = lap_expr_choice(c->rules, &parts);
  return status;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The conjunction in which the alternatives of one part are no longer looked at. */
static lap_status without_alternatives(compiler *c, const conjunction *all, int index, bool one_of,
                                       conjunction *out) {
  lap_status status = LAP_OK;
  *out = (conjunction){.types = all->types};
  for (int i = 0; i < all->count && status == LAP_OK; i++) {
    part p = all->parts[i];
    if (i == index) *(one_of ? &p.one_of_done : &p.any_of_done) = true;
    status = add_part(c, out, p);
  }
  return status;
}

static lap_status read_alternatives(compiler *c, const conjunction *all, int index, const lap_json *list,
                                    bool one_of, const lap_expression **out) {
  lap_parts parts = {0};
  if (list->type != LAP_JSON_ARRAY) return refuse(c, list, "a list of schemas is expected");
  conjunction rest;
  lap_status status = without_alternatives(c, all, index, one_of, &rest);
  for (const lap_json *alternative = list->child; alternative && status == LAP_OK;
       alternative = alternative->next) {
    conjunction with = rest;
    const lap_expression *written = lap_expr_nothing();
    status = add_schema(c, &with, alternative);
    if (status == LAP_OK) status = compile(c, &with, &written);
    lap_parts_add(c->rules, &parts, written);
  }
  *out = lap_expr_choice(c->rules, &parts);
  return status;
}

static lap_status read_types(compiler *c, const conjunction *all, const lap_expression **out) {
  uint8_t types;
  lap_parts parts = {0};
  const lap_expression *written;
  lap_status status = types_of(c, all, &types);
  if (status == LAP_OK && types & TYPE_OBJECT) {
    status = read_object(c, all, &written);
    if (status == LAP_OK) lap_parts_add(c->rules, &parts, written);
  }
  if (status == LAP_OK && types & TYPE_ARRAY) {
    status = read_array(c, all, &written);
    if (status == LAP_OK) lap_parts_add(c->rules, &parts, written);
  }
  if (status == LAP_OK && types & TYPE_STRING) {
    status = read_string(c, all, &written);
    if (status == LAP_OK) lap_parts_add(c->rules, &parts, written);
  }
  if (status == LAP_OK && types & TYPE_NUMBER) {
    status = read_number(c, all, !(types & TYPE_FRACTION), &written);
    if (status == LAP_OK) lap_parts_add(c->rules, &parts, written);
  }
  if (types & TYPE_BOOLEAN) lap_parts_add(c->rules, &parts, c->spelling->boolean);
  if (types & TYPE_NULL) lap_parts_add(c->rules, &parts, c->spelling->null);
  *out = lap_expr_choice(c->rules, &parts);
  return status;
}

static lap_status read_conjunction(compiler *c, const conjunction *all, const lap_expression **out) {
  for (int i = 0; i < all->count; i++) {
    const part *p = &all->parts[i];
    const lap_json *any = p->any_of_done ? NULL : get(c, p->schema, "anyOf");
    const lap_json *one = p->one_of_done ? NULL : get(c, p->schema, "oneOf");
    if (any || one) return read_alternatives(c, all, i, any ? any : one, !any, out);
  }
  for (int i = 0; i < all->count; i++) {
    const lap_json *only = get(c, all->parts[i].schema, "const"),
                   *list = get(c, all->parts[i].schema, "enum");
    if (only || list) return read_given(c, all, only ? only : list, !only, out);
  }
  return read_types(c, all, out);
}

/* A conjunction that was not met before: entered under a rule of its own before it is read. */
static lap_status compile_new(compiler *c, const conjunction *all, uint32_t *slot,
                              const lap_expression **out) {
  const lap_json *place = all->count ? all->parts[0].schema : c->root;
  lap_status status = lap_rules_status(c->rules, "schema", c->error);
  if (status != LAP_OK) return status;
  if (c->known_count == MAX_LISTS) return refuse(c, place, "too many combinations of schemas");
  if (c->depth == MAX_DEPTH) return refuse(c, place, "schemas more than 128 levels deep");
  size_t index = c->known_count;
  part *parts = lap_arena_take(&c->rules->arena, MAX_PARTS * sizeof *parts);
  if (!parts || !lap_reserve(&c->known, index + 1, &c->known_capacity, sizeof *c->known))
    return lap_fail(c->error, LAP_ERROR_MEMORY, "grammar: out of memory for a schema");
  memcpy(parts, all->parts, (size_t)all->count * sizeof *parts);
  uint32_t rule = lap_rules_add(c->rules, place);
  c->known[index] = (known){parts, all->count, all->types, lap_expr_call(c->rules, rule)};
  *slot = (uint32_t)++c->known_count;
  c->depth++;
  status = read_conjunction(c, all, out);
  c->depth--;
  if (status != LAP_OK) return status;
  lap_rules_define(c->rules, rule, *out);
  /* Who comes now may as well have the body, if it is no more than a call or nothing. */
  if ((*out)->kind != LAP_CALL && (*out)->kind != LAP_NOTHING)
    *out = c->known[index].expression;
  else
    c->known[index].expression = *out;
  return LAP_OK;
}

static lap_status compile(compiler *c, const conjunction *all, const lap_expression **out) {
  *out = lap_expr_nothing();
  if (all->never) return LAP_OK;
  *out = c->spelling->value;
  if (all->count == 0 && all->types == TYPE_ANY) return LAP_OK;
  *out = c->spelling->object;
  if (all->count == 0 && all->types == TYPE_OBJECT) return LAP_OK;
  uint32_t *slot = find_slot(c, all);
  if (!*slot) return compile_new(c, all, slot, out);
  *out = c->known[*slot - 1].expression;
  return LAP_OK;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static lap_status refuse_rule(const void *reader, const lap_rule *rule, const char *what, lap_error *error) {
  const lap_schema_reader *r = reader;
  return lap_json_fail(r->document, rule->origin, error, "%s", what);
}

lap_status lap_schema_read(const lap_schema_reader *reader, const lap_json *schema,
                           const lap_expression **out, lap_error *error) {
  compiler c = {.reader = reader,
                .document = reader->document,
                .root = schema,
                .spelling = reader->spelling,
                .rules = reader->spelling->rules,
                .error = error};
  conjunction all = {.types = reader->only_objects ? TYPE_OBJECT : TYPE_ANY};
  c.rules->refuse = refuse_rule;
  c.rules->reader = reader;
  c.slots = calloc(2 * MAX_LISTS, sizeof *c.slots);
  if (!c.slots) return lap_fail(error, LAP_ERROR_MEMORY, "grammar: out of memory for a schema");
  lap_status status = schema ? add_schema(&c, &all, schema) : LAP_OK;
  if (status == LAP_OK) status = compile(&c, &all, out);
  if (status == LAP_OK && (*out)->kind == LAP_NOTHING)
    status = refuse(&c, schema, "there is no value that it allows");
  free(c.known);
  free(c.slots);
  return status;
}
