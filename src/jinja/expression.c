/* expression.c: the expressions of the tree, one function for each kind.
 *
 * They are called through a table, so that none is folded into the others: the stack that a level of nesting
 * takes stays small. */
#include "jinja/expression.h"

#include "jinja/access.h"
#include "jinja/arithmetic.h"
#include "jinja/call.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/operators.h"
#include "jinja/print.h"

/* ---- names and literals ---- */

static value evaluate_constant(state *s, const node *n) {
  (void)s;
  return n->value;
}

static value evaluate_name(state *s, const node *n) {
  for (const lap_jinja_scope *scope = s->scope; scope; scope = scope->outer) {
    const value *found = lap_jinja_find(s, scope->variables, n->value);
    if (found) return *found;
    lap_jinja_step(s, 1);
  }
  const value *found = lap_jinja_find(s, s->context, n->value);
  if (found) return *found;
  const string *name = n->value.string;
  const builtin *function = lap_jinja_find_in(s->language->functions, name);
  if (function && (s->now || strcmp(function->name, "strftime_now") != 0)) {
    lap_jinja_method *method = lap_jinja_take(&s->arena, sizeof *method);
    *method = (lap_jinja_method){.builtin = function};
    return lap_jinja_object(LAP_JINJA_FUNCTION, method);
  }
  return lap_jinja_missing(s, "'%.*s' is undefined", (int)name->length, name->text);
}

static list *evaluate_items(state *s, const node *items) {
  list *l = lap_jinja_list_create(&s->arena, 0);
  for (; items; items = items->next) lap_jinja_list_push(&s->arena, l, lap_jinja_evaluate(s, items));
  return l;
}

static value evaluate_list(state *s, const node *n) {
  return lap_jinja_list_value(evaluate_items(s, n->items));
}

static value evaluate_tuple(state *s, const node *n) {
  return lap_jinja_tuple_value(evaluate_items(s, n->items));
}

static value evaluate_dict(state *s, const node *n) {
  value d = lap_jinja_new_dict(&s->arena);
  for (const node *item = n->items; item; item = item->next->next) {
    value key = lap_jinja_evaluate(s, item), v = lap_jinja_evaluate(s, item->next);
    s->at = item->offset;
    lap_jinja_put(s, d.dict, key, v);
  }
  return d;
}

static value evaluate_captured(state *s, const node *n) {
  (void)n;
  return s->captured;
}

/* ---- operators ---- */

static value evaluate_condition(state *s, const node *n) {
  if (lap_jinja_truth(s, lap_jinja_evaluate(s, n->b))) return lap_jinja_evaluate(s, n->a);
  if (n->c) return lap_jinja_evaluate(s, n->c);
  return lap_jinja_missing(s, "the inline if-expression was false and has no else");
}

static value evaluate_and(state *s, const node *n) {
  value left = lap_jinja_evaluate(s, n->a);
  return lap_jinja_truth(s, left) ? lap_jinja_evaluate(s, n->b) : left;
}

static value evaluate_or(state *s, const node *n) {
  value left = lap_jinja_evaluate(s, n->a);
  return lap_jinja_truth(s, left) ? left : lap_jinja_evaluate(s, n->b);
}

static value evaluate_not(state *s, const node *n) {
  return lap_jinja_boolean(!lap_jinja_truth(s, lap_jinja_evaluate(s, n->a)));
}

static value evaluate_negate(state *s, const node *n) {
  value v = lap_jinja_evaluate(s, n->a);
  s->at = n->offset;
  return lap_jinja_negate(s, v);
}

static value evaluate_plus(state *s, const node *n) {
  value v = lap_jinja_evaluate(s, n->a);
  s->at = n->offset;
  return lap_jinja_positive(s, v);
}

static value evaluate_binary(state *s, const node *n) {
  value left = lap_jinja_evaluate(s, n->a), right = lap_jinja_evaluate(s, n->b);
  s->at = n->offset;
  return lap_jinja_operate(s, n->operation, left, right);
}

static value evaluate_concat(state *s, const node *n) {
  const string *joined = lap_jinja_to_text(s, lap_jinja_evaluate(s, n->items));
  for (const node *item = n->items->next; item; item = item->next) {
    const string *text = lap_jinja_to_text(s, lap_jinja_evaluate(s, item));
    s->at = n->offset;
    joined = lap_jinja_concatenate(s, joined, text).string;
  }
  return lap_jinja_string_value(joined);
}

/* a < b < c is a < b and b < c, with b evaluated once. */
static value evaluate_compare(state *s, const node *n) {
  value left = lap_jinja_evaluate(s, n->a);
  for (const node *operand = n->items; operand; operand = operand->next) {
    value right = lap_jinja_evaluate(s, operand->a);
    s->at = operand->offset;
    if (!lap_jinja_compare(s, operand->operation, left, right)) return lap_jinja_boolean(false);
    left = right;
  }
  return lap_jinja_boolean(true);
}

/* ---- attributes, items, slices ---- */

static value evaluate_attribute(state *s, const node *n) {
  value object = lap_jinja_evaluate(s, n->a);
  s->at = n->offset;
  return lap_jinja_attribute(s, object, n->value.string);
}

static value evaluate_item(state *s, const node *n) {
  value object = lap_jinja_evaluate(s, n->a), key = lap_jinja_evaluate(s, n->b);
  s->at = n->offset;
  return lap_jinja_item(s, object, key);
}

static value evaluate_bound(state *s, const node *n) {
  return n ? lap_jinja_evaluate(s, n) : lap_jinja_none();
}

static value evaluate_slice(state *s, const node *n) {
  value object = lap_jinja_evaluate(s, n->a);
  value begin = evaluate_bound(s, n->b), end = evaluate_bound(s, n->c), step = evaluate_bound(s, n->d);
  s->at = n->offset;
  return lap_jinja_slice_of(s, object, begin, end, step);
}

/* ---- calls, filters, tests ---- */

static void add_keyword(state *s, lap_jinja_arguments *arguments, size_t capacity, const string *name,
                        value v) {
  for (size_t i = 0; i < arguments->keyword_count; i++)
    if (lap_jinja_same_text(arguments->keywords[i].name, name))
      lap_jinja_fail(s, "two values for the argument '%.*s'", (int)name->length, name->text);
  lap_jinja_step(s, arguments->keyword_count);
  if (arguments->keyword_count == capacity) lap_jinja_fail(s, "too many arguments");
  arguments->keywords[arguments->keyword_count++] = (lap_jinja_keyword){.name = name, .value = v};
}

static void evaluate_keywords(state *s, const node *n, lap_jinja_arguments *arguments) {
  value more = n->d ? lap_jinja_evaluate(s, n->d) : lap_jinja_undefined();
  if (n->d && more.type != LAP_JINJA_DICT) lap_jinja_fail(s, "the argument behind ** must be a mapping");
  size_t capacity = n->d ? more.dict->count : 0;
  for (const node *k = n->keywords; k; k = k->next) capacity++;
  if (!capacity) return;
  arguments->keywords = lap_jinja_take_array(&s->arena, capacity, sizeof *arguments->keywords);
  for (const node *k = n->keywords; k; k = k->next) {
    value v = lap_jinja_evaluate(s, k->a);
    add_keyword(s, arguments, capacity, k->value.string, v);
  }
  for (size_t i = 0; n->d && i < more.dict->count; i++) {
    value key = more.dict->entries[i].key;
    if (key.type != LAP_JINJA_STRING) lap_jinja_fail(s, "keywords must be strings");
    add_keyword(s, arguments, capacity, key.string, more.dict->entries[i].value);
  }
}

lap_jinja_arguments lap_jinja_evaluate_arguments(state *s, const node *n) {
  lap_jinja_arguments arguments = {0};
  if (n->items || n->c) {
    list *l = evaluate_items(s, n->items);
    if (n->c) {
      value more = lap_jinja_evaluate(s, n->c), item;
      lap_jinja_iterator iterator = lap_jinja_iterate(s, more);
      while (lap_jinja_next(s, &iterator, &item)) lap_jinja_list_push(&s->arena, l, item);
    }
    arguments.positional = l->items;
    arguments.count = l->count;
  }
  evaluate_keywords(s, n, &arguments);
  return arguments;
}

static value evaluate_call(state *s, const node *n) {
  value callee = lap_jinja_evaluate(s, n->a);
  lap_jinja_arguments arguments = lap_jinja_evaluate_arguments(s, n);
  s->at = n->offset;
  return lap_jinja_call_value(s, callee, &arguments);
}

static value evaluate_builtin(state *s, const node *n) {
  value self = lap_jinja_evaluate(s, n->a);
  lap_jinja_arguments arguments = lap_jinja_evaluate_arguments(s, n);
  s->at = n->offset;
  if (!n->builtin)
    lap_jinja_fail(s, "no %s is named '%.*s'", n->kind == NODE_FILTER ? "filter" : "test",
                   (int)n->value.string->length, n->value.string->text);
  return lap_jinja_call_builtin(s, n->builtin, self, &arguments);
}

value lap_jinja_evaluate(state *s, const node *n) {
  static value (*const evaluators[])(state *, const node *) = {[NODE_CONSTANT] = evaluate_constant,
                                                               [NODE_NAME] = evaluate_name,
                                                               [NODE_LIST] = evaluate_list,
                                                               [NODE_TUPLE] = evaluate_tuple,
                                                               [NODE_DICT] = evaluate_dict,
                                                               [NODE_CONDITION] = evaluate_condition,
                                                               [NODE_AND] = evaluate_and,
                                                               [NODE_OR] = evaluate_or,
                                                               [NODE_NOT] = evaluate_not,
                                                               [NODE_NEGATE] = evaluate_negate,
                                                               [NODE_PLUS] = evaluate_plus,
                                                               [NODE_BINARY] = evaluate_binary,
                                                               [NODE_CONCAT] = evaluate_concat,
                                                               [NODE_COMPARE] = evaluate_compare,
                                                               [NODE_ATTRIBUTE] = evaluate_attribute,
                                                               [NODE_ITEM] = evaluate_item,
                                                               [NODE_SLICE] = evaluate_slice,
                                                               [NODE_CALL] = evaluate_call,
                                                               [NODE_FILTER] = evaluate_builtin,
                                                               [NODE_TEST] = evaluate_builtin,
                                                               [NODE_CAPTURED] = evaluate_captured};
  lap_jinja_descend(s);
  s->at = n->offset;
  value v = evaluators[n->kind](s, n);
  lap_jinja_ascend(s);
  return v;
}
