/* parser_statement.c: tags become statements. */
#include "jinja/parser.h"

typedef lap_jinja_parser parser;
typedef lap_jinja_node node;

static void expect_tag_end(parser *p) {
  if (p->token->type != TOKEN_TAG_END) lap_jinja_unexpected(p, "'%}'");
  p->token++;
}

/* ---- bodies ---- */

static node *parse_statement(parser *p);

static bool at_any(const parser *p, const char *const *names) {
  for (; names && *names; names++)
    if (lap_jinja_at_name(p, *names)) return true;
  return false;
}

/* Everything up to a tag of one of the names, which is then the next token; up to the end if `ends` is NULL.
 */
static node *parse_nodes(parser *p, const char *const *ends, uint32_t opened, const char *opened_by) {
  node *first = NULL, **end = &first;
  lap_jinja_enter(p);
  for (;;) {
    const lap_jinja_token *t = p->token;
    if (t->type == TOKEN_END) {
      if (ends)
        lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, opened, "'%s' without its '%s'", opened_by,
                         ends[1] ? ends[1] : ends[0]);
      break;
    }
    p->token++;
    if (t->type == TOKEN_DATA) {
      node *n = lap_jinja_new_node(p, NODE_TEXT, t->offset);
      n->value = t->value;
      lap_jinja_append_node(&end, n);
    } else if (t->type == TOKEN_PRINT_BEGIN) {
      node *n = lap_jinja_new_node(p, NODE_PRINT, p->token->offset);
      n->a = lap_jinja_parse_tuple(p, true, NULL);
      if (p->token->type != TOKEN_PRINT_END) lap_jinja_unexpected(p, "'}}'");
      p->token++;
      lap_jinja_append_node(&end, n);
    } else {
      if (at_any(p, ends)) break;
      node *n = parse_statement(p);
      expect_tag_end(p);
      if (n) lap_jinja_append_node(&end, n);
      while (*end) end = &(*end)->next; /* `print a, b` is several */
    }
  }
  lap_jinja_leave(p);
  return first;
}

/* The body of a statement: from behind its tag to a tag of one of the names. */
static node *parse_body(parser *p, const char *const *ends, uint32_t opened, const char *opened_by) {
  lap_jinja_skip_operator(p, ":");
  expect_tag_end(p);
  return parse_nodes(p, ends, opened, opened_by);
}

/* The same with one end, which is stepped over. */
static node *parse_whole_body(parser *p, const char *closing, uint32_t opened, const char *opened_by) {
  const char *const ends[] = {closing, NULL};
  node *body = parse_body(p, ends, opened, opened_by);
  p->token++;
  return body;
}

/* ---- targets of assignments ---- */

static void check_target(parser *p, const node *target) {
  if (target->kind == NODE_TUPLE) {
    for (const node *n = target->items; n; n = n->next) check_target(p, n);
    return;
  }
  if (target->kind != NODE_NAME)
    lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, target->offset, "this cannot be assigned to");
}

static node *parse_target(parser *p, const char *end) {
  node *target = lap_jinja_parse_simple_tuple(p, end);
  check_target(p, target);
  return target;
}

static node *parse_name_target(parser *p) {
  lap_jinja_token t = lap_jinja_expect_name(p);
  node *n = lap_jinja_new_node(p, NODE_NAME, t.offset);
  n->value = t.value;
  if (lap_jinja_text_is(t.value.string, "true") || lap_jinja_text_is(t.value.string, "false") ||
      lap_jinja_text_is(t.value.string, "none") || lap_jinja_text_is(t.value.string, "True") ||
      lap_jinja_text_is(t.value.string, "False") || lap_jinja_text_is(t.value.string, "None"))
    lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, t.offset, "this cannot be assigned to");
  return n;
}

static node *parse_set_target(parser *p) {
  bool member = p->token[0].type == TOKEN_NAME && p->token[1].type == TOKEN_OPERATOR &&
                !strcmp(p->token[1].operator, ".");
  if (!member) return parse_target(p, NULL);
  node *n = lap_jinja_new_node(p, NODE_MEMBER, p->token->offset);
  n->a = parse_name_target(p);
  p->token++;
  n->value = lap_jinja_expect_name(p).value;
  return n;
}

/* ---- statements ---- */

static node *parse_if(parser *p, uint32_t offset) {
  static const char *const ends[] = {"elif", "endif", "else", NULL};
  node *n = lap_jinja_new_node(p, NODE_IF, offset);
  node **end = &n->items;
  p->conditional++;
  do {
    node *branch = lap_jinja_new_node(p, NODE_BRANCH, p->token->offset);
    branch->a = lap_jinja_parse_tuple(p, false, NULL);
    branch->body = parse_body(p, ends, offset, "if");
    lap_jinja_append_node(&end, branch);
  } while (lap_jinja_skip_name(p, "elif"));
  if (lap_jinja_skip_name(p, "else"))
    n->otherwise = parse_whole_body(p, "endif", offset, "if");
  else
    p->token++;
  p->conditional--;
  return n;
}

static node *parse_for(parser *p, uint32_t offset) {
  static const char *const ends[] = {"else", "endfor", NULL};
  node *n = lap_jinja_new_node(p, NODE_FOR, offset);
  n->a = parse_target(p, "in");
  if (!lap_jinja_skip_name(p, "in")) lap_jinja_unexpected(p, "'in'");
  n->b = lap_jinja_parse_tuple(p, false, "recursive");
  if (lap_jinja_skip_name(p, "if")) n->c = lap_jinja_parse_expression(p);
  n->flag = lap_jinja_skip_name(p, "recursive");
  p->loops++;
  n->body = parse_body(p, ends, offset, "for");
  p->loops--;
  if (lap_jinja_skip_name(p, "else"))
    n->otherwise = parse_whole_body(p, "endfor", offset, "for");
  else
    p->token++;
  return n;
}

static node *parse_set(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_SET, offset);
  n->a = parse_set_target(p);
  if (lap_jinja_skip_operator(p, "=")) {
    n->b = lap_jinja_parse_tuple(p, true, NULL);
    return n;
  }
  n->kind = NODE_SET_BLOCK;
  n->b = lap_jinja_parse_filters(p, lap_jinja_new_node(p, NODE_CAPTURED, offset), false);
  n->body = parse_whole_body(p, "endset", offset, "set");
  return n;
}

static node *parse_filter_block(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_FILTER_BLOCK, offset);
  n->b = lap_jinja_parse_filters(p, lap_jinja_new_node(p, NODE_CAPTURED, offset), true);
  n->body = parse_whole_body(p, "endfilter", offset, "filter");
  return n;
}

static node *parse_with(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_WITH, offset);
  node **end = &n->items;
  while (p->token->type != TOKEN_TAG_END) {
    if (n->items) lap_jinja_expect_operator(p, ",");
    lap_jinja_append_node(&end, parse_target(p, NULL));
    lap_jinja_expect_operator(p, "=");
    lap_jinja_append_node(&end, lap_jinja_parse_expression(p));
  }
  n->body = parse_whole_body(p, "endwith", offset, "with");
  return n;
}

/* Parameters in parentheses. */
static void parse_parameters(parser *p, node *macro) {
  node **end = &macro->items;
  bool defaults = false;
  lap_jinja_expect_operator(p, "(");
  while (!lap_jinja_at_operator(p, ")")) {
    if (macro->items) lap_jinja_expect_operator(p, ",");
    node *parameter = lap_jinja_new_node(p, NODE_PARAMETER, p->token->offset);
    parameter->value = parse_name_target(p)->value;
    if (lap_jinja_skip_operator(p, "=")) {
      parameter->a = lap_jinja_parse_expression(p);
      defaults = true;
    } else if (defaults) {
      lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, parameter->offset,
                       "a parameter without a default follows one with a default");
    }
    lap_jinja_append_node(&end, parameter);
  }
  p->token++;
}

/* The body of a macro or a call block. What it uses of caller, varargs and kwargs, the macros around it use
 * too: that is what decides what they accept. */
static void parse_macro_body(parser *p, node *macro, const char *closing, const char *opened_by) {
  node *outer = p->macro;
  int loops = p->loops;
  p->macro = macro;
  p->loops = 0;
  macro->body = parse_whole_body(p, closing, macro->offset, opened_by);
  p->loops = loops;
  p->macro = outer;
  if (outer) {
    outer->uses_caller |= macro->uses_caller;
    outer->uses_varargs |= macro->uses_varargs;
    outer->uses_kwargs |= macro->uses_kwargs;
  }
}

static node *parse_macro(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_MACRO, offset);
  n->value = parse_name_target(p)->value;
  parse_parameters(p, n);
  parse_macro_body(p, n, "endmacro", "macro");
  return n;
}

static node *parse_call_block(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_CALL_BLOCK, offset);
  n->b = lap_jinja_new_node(p, NODE_MACRO, offset);
  n->b->value = lap_jinja_literal(p->compiler->arena, "caller", true);
  if (lap_jinja_at_operator(p, "(")) parse_parameters(p, n->b);
  n->a = lap_jinja_parse_expression(p);
  if (n->a->kind != NODE_CALL)
    lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, n->a->offset, "expected a call");
  parse_macro_body(p, n->b, "endcall", "call");
  return n;
}

static node *parse_print(parser *p, uint32_t offset) {
  node *first = NULL, **end = &first;
  while (p->token->type != TOKEN_TAG_END) {
    if (first) lap_jinja_expect_operator(p, ",");
    node *n = lap_jinja_new_node(p, NODE_PRINT, offset);
    n->a = lap_jinja_parse_expression(p);
    lap_jinja_append_node(&end, n);
  }
  return first;
}

static node *parse_do(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_DO, offset);
  n->a = lap_jinja_parse_tuple(p, true, NULL);
  return n;
}

static node *parse_generation(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_SCOPE, offset);
  int loops = p->loops;
  p->loops = 0; /* a block of its own, as a call block is */
  n->body = parse_whole_body(p, "endgeneration", offset, "generation");
  p->loops = loops;
  return n;
}

static node *parse_jump(parser *p, uint32_t offset, lap_jinja_node_kind kind, const char *name) {
  if (!p->loops) lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, offset, "'%s' outside of a loop", name);
  return lap_jinja_new_node(p, kind, offset);
}

static node *parse_break(parser *p, uint32_t offset) {
  return parse_jump(p, offset, NODE_BREAK, "break");
}

static node *parse_continue(parser *p, uint32_t offset) {
  return parse_jump(p, offset, NODE_CONTINUE, "continue");
}

/* The statement behind a tag's begin, up to the end of its last tag. NULL is an empty one. */
static node *parse_statement(parser *p) {
  static const struct {
    const char *name;
    node *(*parse)(parser *p, uint32_t offset);
  } statements[] = {{"if", parse_if},           {"for", parse_for},
                    {"set", parse_set},         {"macro", parse_macro},
                    {"call", parse_call_block}, {"filter", parse_filter_block},
                    {"with", parse_with},       {"generation", parse_generation},
                    {"break", parse_break},     {"continue", parse_continue},
                    {"do", parse_do},           {"print", parse_print}};
  static const char *const unsupported[] = {"include", "import",     "from", "extends",
                                            "block",   "autoescape", NULL};
  const lap_jinja_token *t = p->token;
  if (t->type != TOKEN_NAME) lap_jinja_unexpected(p, "the name of a tag");
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    if (lap_jinja_skip_name(p, statements[i].name)) return statements[i].parse(p, t->offset);
  lap_jinja_refuse(p->compiler, at_any(p, unsupported) ? LAP_ERROR_UNSUPPORTED : LAP_ERROR_FORMAT, t->offset,
                   "%s tag '%.*s'", at_any(p, unsupported) ? "unsupported" : "unexpected",
                   (int)t->value.string->length, t->value.string->text);
}

void lap_jinja_parse(lap_jinja_compiler *c) {
  parser p = {.compiler = c, .token = c->tokens};
  c->compiled->body = parse_nodes(&p, NULL, 0, NULL);
  if (p.unknown)
    lap_jinja_refuse(c, LAP_ERROR_FORMAT, p.unknown->offset, "no %s is named '%.*s'",
                     p.unknown->kind == NODE_FILTER ? "filter" : "test", (int)p.unknown->value.string->length,
                     p.unknown->value.string->text);
}
