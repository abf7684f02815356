/* statement.c: the statements of the tree, one function for each kind.
 *
 * Variables live in scopes that lie inside one another; a statement assigns to the innermost. The body of a
 * loop, a macro, `with`, `call`, `filter` and a block `set` is a scope of its own; that of an `if` is not. */
#include "jinja/statement.h"

#include "jinja/call.h"
#include "jinja/expression.h"
#include "jinja/print.h"

value lap_jinja_capture(state *s, const node *body, lap_jinja_scope *scope, lap_jinja_flow *flow) {
  lap_jinja_out text = {.max_bytes = s->limits.output_bytes}, *out = s->out;
  lap_jinja_scope *outer = s->scope;
  s->out = &text;
  s->scope = scope;
  *flow = lap_jinja_execute(s, body);
  s->scope = outer;
  s->out = out;
  return lap_jinja_out_value(s, &text);
}

/* ---- assigning ---- */

static void assign(state *s, const node *target, value v);

static void unpack(state *s, const node *targets, value v) {
  size_t wanted = 0, got = 0;
  value item;
  for (const node *t = targets; t; t = t->next) wanted++;
  lap_jinja_iterator iterator = lap_jinja_iterate(s, v);
  for (; targets && lap_jinja_next(s, &iterator, &item); targets = targets->next, got++)
    assign(s, targets, item);
  if (targets) lap_jinja_fail(s, "not enough values to unpack (expected %zu, got %zu)", wanted, got);
  if (lap_jinja_next(s, &iterator, &item))
    lap_jinja_fail(s, "too many values to unpack (expected %zu)", wanted);
}

static void assign_member(state *s, const node *target, value v) {
  value object = lap_jinja_evaluate(s, target->a);
  s->at = target->offset;
  if (object.type != LAP_JINJA_NAMESPACE)
    lap_jinja_fail(s, "cannot assign attribute on non-namespace object");
  lap_jinja_put(s, object.dict, target->value, v);
}

/* In the current scope. */
static void assign(state *s, const node *target, value v) {
  if (target->kind == NODE_TUPLE)
    unpack(s, target->items, v);
  else if (target->kind == NODE_MEMBER)
    assign_member(s, target, v);
  else
    lap_jinja_put(s, s->scope->variables, target->value, v);
}

/* ---- statements ---- */

static lap_jinja_flow execute_text(state *s, const node *n) {
  lap_jinja_add_string(s, s->out, n->value.string);
  return FLOW_NEXT;
}

static lap_jinja_flow execute_print(state *s, const node *n) {
  value v = lap_jinja_evaluate(s, n->a);
  s->at = n->offset;
  lap_jinja_print(s, s->out, v);
  return FLOW_NEXT;
}

static lap_jinja_flow execute_if(state *s, const node *n) {
  for (const node *branch = n->items; branch; branch = branch->next)
    if (lap_jinja_truth(s, lap_jinja_evaluate(s, branch->a))) return lap_jinja_execute(s, branch->body);
  return lap_jinja_execute(s, n->otherwise);
}

static lap_jinja_flow execute_set(state *s, const node *n) {
  value v = lap_jinja_evaluate(s, n->b);
  s->at = n->offset;
  assign(s, n->a, v);
  return FLOW_NEXT;
}

/* Renders the body and applies the filters of the block. */
static value evaluate_block(state *s, const node *n, lap_jinja_flow *flow) {
  s->captured = lap_jinja_capture(s, n->body, lap_jinja_new_scope(s, s->scope), flow);
  return *flow == FLOW_NEXT ? lap_jinja_evaluate(s, n->b) : s->captured;
}

static lap_jinja_flow execute_set_block(state *s, const node *n) {
  lap_jinja_flow flow;
  value v = evaluate_block(s, n, &flow);
  s->at = n->offset;
  if (flow == FLOW_NEXT) assign(s, n->a, v);
  return flow;
}

static lap_jinja_flow execute_filter_block(state *s, const node *n) {
  lap_jinja_flow flow;
  value v = evaluate_block(s, n, &flow);
  s->at = n->offset;
  if (flow == FLOW_NEXT) lap_jinja_print(s, s->out, v);
  return flow;
}

static lap_jinja_flow execute_in(state *s, const node *body, lap_jinja_scope *scope) {
  lap_jinja_scope *outer = s->scope;
  s->scope = scope;
  lap_jinja_flow flow = lap_jinja_execute(s, body);
  s->scope = outer;
  return flow;
}

/* The values are computed outside, so none sees another's target. */
static lap_jinja_flow execute_with(state *s, const node *n) {
  lap_jinja_scope *outer = s->scope, *inner = lap_jinja_new_scope(s, outer);
  for (const node *target = n->items; target; target = target->next->next) {
    value v = lap_jinja_evaluate(s, target->next);
    s->scope = inner;
    assign(s, target, v);
    s->scope = outer;
  }
  return execute_in(s, n->body, inner);
}

static lap_jinja_flow execute_scope(state *s, const node *n) {
  return execute_in(s, n->body, lap_jinja_new_scope(s, s->scope));
}

/* A macro sees the scope it was defined in as it is when it is called. */
static value new_macro(state *s, const node *definition) {
  lap_jinja_macro *macro = lap_jinja_take(&s->arena, sizeof *macro);
  *macro = (lap_jinja_macro){.definition = definition, .scope = s->scope};
  for (lap_jinja_scope *scope = s->scope; scope && !scope->captured; scope = scope->outer)
    scope->captured = true;
  return lap_jinja_object(LAP_JINJA_MACRO, macro);
}

static lap_jinja_flow execute_macro(state *s, const node *n) {
  lap_jinja_put(s, s->scope->variables, n->value, new_macro(s, n));
  return FLOW_NEXT;
}

static lap_jinja_flow execute_call_block(state *s, const node *n) {
  value callee = lap_jinja_evaluate(s, n->a->a);
  lap_jinja_arguments arguments = lap_jinja_evaluate_arguments(s, n->a);
  lap_jinja_keyword *keywords =
      lap_jinja_take_array(&s->arena, arguments.keyword_count + 1, sizeof *keywords);
  for (size_t i = 0; i < arguments.keyword_count; i++) keywords[i] = arguments.keywords[i];
  keywords[arguments.keyword_count++] =
      (lap_jinja_keyword){.name = n->b->value.string, .value = new_macro(s, n->b)};
  arguments.keywords = keywords;
  s->at = n->a->offset;
  lap_jinja_print(s, s->out, lap_jinja_call_value(s, callee, &arguments));
  return FLOW_NEXT;
}

static lap_jinja_flow execute_break(state *s, const node *n) {
  (void)s, (void)n;
  return FLOW_BREAK;
}

static lap_jinja_flow execute_continue(state *s, const node *n) {
  (void)s, (void)n;
  return FLOW_CONTINUE;
}

static lap_jinja_flow execute_do(state *s, const node *n) {
  lap_jinja_evaluate(s, n->a);
  return FLOW_NEXT;
}

/* ---- for ---- */

bool lap_jinja_passes(state *s, const lap_jinja_loop *loop, value item) {
  lap_jinja_scope *outer = s->scope;
  s->scope = lap_jinja_new_scope(s, loop->scope);
  assign(s, loop->definition->a, item);
  bool result = lap_jinja_truth(s, lap_jinja_evaluate(s, loop->definition->c));
  s->scope = outer;
  return result;
}

static lap_jinja_scope *next_scope(state *s, lap_jinja_scope *scope, lap_jinja_scope *outer) {
  if (scope->captured) return lap_jinja_new_scope(s, outer);
  lap_jinja_dict_clear(scope->variables);
  return scope;
}

/* All iterations, in scopes inside `outer`; the `else` if none came to its end. */
static lap_jinja_flow run_loop(state *s, const node *n, value iterable, lap_jinja_scope *outer,
                               int64_t depth0) {
  lap_jinja_loop *loop = lap_jinja_take(&s->arena, sizeof *loop);
  *loop = (lap_jinja_loop){.definition = n,
                           .scope = outer,
                           .iterable = iterable,
                           .iterator = lap_jinja_iterate(s, iterable),
                           .depth0 = depth0};
  value name = lap_jinja_literal(&s->arena, "loop", true);
  lap_jinja_scope *before = s->scope, *scope = lap_jinja_new_scope(s, outer);
  bool completed = false; /* Jinja's own measure: an iteration that was left early does not count */
  lap_jinja_flow flow = FLOW_NEXT;
  for (; flow != FLOW_BREAK && lap_jinja_advance(s, loop); loop->index0++) {
    s->scope = scope = next_scope(s, scope, outer);
    s->at = n->offset;
    assign(s, n->a, loop->current);
    lap_jinja_put(s, scope->variables, name, lap_jinja_object(LAP_JINJA_LOOP, loop));
    flow = lap_jinja_execute(s, n->body);
    completed |= flow == FLOW_NEXT;
  }
  flow = FLOW_NEXT; /* break and continue were this loop's; in `else` they are the outer one's */
  if (!completed && n->otherwise) {
    s->scope = lap_jinja_new_scope(s, outer);
    flow = lap_jinja_execute(s, n->otherwise);
  }
  s->scope = before;
  return flow;
}

static lap_jinja_flow execute_for(state *s, const node *n) {
  value iterable = lap_jinja_evaluate(s, n->b);
  s->at = n->b->offset;
  return run_loop(s, n, iterable, s->scope, 0);
}

value lap_jinja_call_loop(state *s, const lap_jinja_loop *loop, value iterable) {
  if (!loop->definition->flag) lap_jinja_fail(s, "only a loop marked 'recursive' can be called");
  lap_jinja_out text = {.max_bytes = s->limits.output_bytes}, *out = s->out;
  lap_jinja_descend(s);
  s->out = &text;
  run_loop(s, loop->definition, iterable, loop->scope, loop->depth0 + 1);
  s->out = out;
  lap_jinja_ascend(s);
  return lap_jinja_out_value(s, &text);
}

/* ---- all of them ---- */

lap_jinja_flow lap_jinja_execute(state *s, const node *body) {
  static lap_jinja_flow (*const executors[])(state *, const node *) = {
      [NODE_TEXT] = execute_text,
      [NODE_PRINT] = execute_print,
      [NODE_IF] = execute_if,
      [NODE_FOR] = execute_for,
      [NODE_SET] = execute_set,
      [NODE_SET_BLOCK] = execute_set_block,
      [NODE_FILTER_BLOCK] = execute_filter_block,
      [NODE_WITH] = execute_with,
      [NODE_MACRO] = execute_macro,
      [NODE_CALL_BLOCK] = execute_call_block,
      [NODE_SCOPE] = execute_scope,
      [NODE_BREAK] = execute_break,
      [NODE_CONTINUE] = execute_continue,
      [NODE_DO] = execute_do};
  lap_jinja_flow flow = FLOW_NEXT;
  lap_jinja_descend(s);
  for (; body && flow == FLOW_NEXT; body = body->next) {
    lap_jinja_step(s, 1);
    s->at = body->offset;
    flow = executors[body->kind](s, body);
  }
  lap_jinja_ascend(s);
  return flow;
}
