/* parser_expression.c: expressions, by recursive descent, one function for each level of precedence.
 *
 * The levels are Jinja's, which are not all Python's: `~` binds tighter than `+`, `**` is grouped from the
 * left and weaker than a sign, filters and tests bind to what stands directly before them. */
#include "jinja/parser.h"

typedef lap_jinja_parser parser;
typedef lap_jinja_node node;

static node *parse_or(parser *p);
static node *parse_not(parser *p);
static node *parse_unary(parser *p, bool filters);

static node *new_pair(parser *p, lap_jinja_node_kind kind, uint32_t offset, node *a, node *b) {
  node *n = lap_jinja_new_node(p, kind, offset);
  n->a = a;
  n->b = b;
  return n;
}

/* ---- arguments, attributes, items ---- */

/* An argument `name=value`, or NULL if the next is none. */
static node *parse_keyword(parser *p) {
  if (p->token->type != TOKEN_NAME || p->token[1].type != TOKEN_OPERATOR || strcmp(p->token[1].operator, "="))
    return NULL;
  node *n = lap_jinja_new_node(p, NODE_KEYWORD, p->token->offset);
  n->value = p->token->value;
  p->token += 2;
  n->a = lap_jinja_parse_expression(p);
  return n;
}

static void parse_argument(parser *p, node *call, node ***end, node ***keyword_end) {
  uint32_t offset = p->token->offset;
  bool order = true;
  if (lap_jinja_skip_operator(p, "*")) {
    order = !call->c && !call->d;
    call->c = lap_jinja_parse_expression(p);
  } else if (lap_jinja_skip_operator(p, "**")) {
    order = !call->d;
    call->d = lap_jinja_parse_expression(p);
  } else {
    node *keyword = parse_keyword(p);
    order = keyword ? !call->d : !call->c && !call->d && !call->keywords;
    if (keyword)
      lap_jinja_append_node(keyword_end, keyword);
    else
      lap_jinja_append_node(end, lap_jinja_parse_expression(p));
  }
  if (!order) lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, offset, "an argument in the wrong order");
}

/* Arguments in parentheses, into `call`. */
static void parse_arguments(parser *p, node *call) {
  node **end = &call->items, **keyword_end = &call->keywords;
  lap_jinja_expect_operator(p, "(");
  while (!lap_jinja_at_operator(p, ")")) {
    parse_argument(p, call, &end, &keyword_end);
    if (!lap_jinja_at_operator(p, ")")) lap_jinja_expect_operator(p, ",");
  }
  p->token++;
}

static node *parse_call(parser *p, node *callee) {
  node *n = new_pair(p, NODE_CALL, callee->offset, callee, NULL);
  parse_arguments(p, n);
  return n;
}

static node *parse_attribute(parser *p, node *object) {
  const lap_jinja_token *t = p->token;
  if (t->type == TOKEN_INTEGER) {
    node *index = lap_jinja_new_node(p, NODE_CONSTANT, t->offset);
    index->value = t->value;
    p->token++;
    return new_pair(p, NODE_ITEM, t->offset, object, index);
  }
  node *n = new_pair(p, NODE_ATTRIBUTE, t->offset, object, NULL);
  n->value = lap_jinja_expect_name(p).value;
  return n;
}

static bool at_end_of_bound(const parser *p) {
  return lap_jinja_at_operator(p, ":") || lap_jinja_at_operator(p, "]");
}

static node *parse_bound(parser *p) {
  return at_end_of_bound(p) ? NULL : lap_jinja_parse_expression(p);
}

/* What stands in brackets behind `object`: an index, several (a tuple), or a slice. */
static node *parse_item(parser *p, node *object, uint32_t offset) {
  node *first = parse_bound(p);
  if (lap_jinja_skip_operator(p, ":")) {
    node *n = new_pair(p, NODE_SLICE, offset, object, first);
    n->c = parse_bound(p);
    if (lap_jinja_skip_operator(p, ":")) n->d = parse_bound(p);
    lap_jinja_expect_operator(p, "]");
    return n;
  }
  if (!first) lap_jinja_unexpected(p, "an index");
  if (lap_jinja_at_operator(p, ",")) {
    node *indexes = lap_jinja_new_node(p, NODE_TUPLE, first->offset), **end = &indexes->items;
    lap_jinja_append_node(&end, first);
    while (lap_jinja_skip_operator(p, ","))
      if (!lap_jinja_at_operator(p, "]")) lap_jinja_append_node(&end, lap_jinja_parse_expression(p));
    first = indexes;
  }
  lap_jinja_expect_operator(p, "]");
  return new_pair(p, NODE_ITEM, offset, object, first);
}

/* Attributes, items and calls behind `n`. */
static node *parse_postfix(parser *p, node *n) {
  for (;;) {
    uint32_t offset = p->token->offset;
    if (lap_jinja_skip_operator(p, "."))
      n = parse_attribute(p, n);
    else if (lap_jinja_skip_operator(p, "["))
      n = parse_item(p, n, offset);
    else if (lap_jinja_at_operator(p, "("))
      n = parse_call(p, n);
    else
      return n;
  }
}

/* ---- literals ---- */

static node *parse_list(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_LIST, offset), **end = &n->items;
  while (!lap_jinja_at_operator(p, "]")) {
    lap_jinja_append_node(&end, lap_jinja_parse_expression(p));
    if (!lap_jinja_at_operator(p, "]")) lap_jinja_expect_operator(p, ",");
  }
  p->token++;
  return n;
}

static node *parse_dict(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_DICT, offset), **end = &n->items;
  while (!lap_jinja_at_operator(p, "}")) {
    lap_jinja_append_node(&end, lap_jinja_parse_expression(p));
    lap_jinja_expect_operator(p, ":");
    lap_jinja_append_node(&end, lap_jinja_parse_expression(p));
    if (!lap_jinja_at_operator(p, "}")) lap_jinja_expect_operator(p, ",");
  }
  p->token++;
  return n;
}

/* Literals that follow one another are one string. */
static node *parse_text(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_CONSTANT, offset);
  const lap_jinja_token *first = p->token;
  size_t length = 0;
  for (; p->token->type == TOKEN_TEXT; p->token++) length += p->token->value.string->length;
  n->value = first->value;
  if (p->token - first > 1) {
    char *joined = lap_jinja_take(p->compiler->arena, length);
    length = 0;
    for (; first < p->token; first++) {
      const string *part = first->value.string;
      if (part->length) memcpy(joined + length, part->text, part->length);
      length += part->length;
    }
    n->value = lap_jinja_over(p->compiler->arena, joined, length, true);
  }
  return n;
}

static node *parse_name(parser *p, uint32_t offset) {
  node *n = lap_jinja_new_node(p, NODE_CONSTANT, offset);
  if (lap_jinja_skip_name(p, "true") || lap_jinja_skip_name(p, "True")) {
    n->value = lap_jinja_boolean(true);
  } else if (lap_jinja_skip_name(p, "false") || lap_jinja_skip_name(p, "False")) {
    n->value = lap_jinja_boolean(false);
  } else if (lap_jinja_skip_name(p, "none") || lap_jinja_skip_name(p, "None")) {
    n->value = lap_jinja_none();
  } else {
    n->kind = NODE_NAME;
    n->value = lap_jinja_expect_name(p).value;
    if (p->macro) {
      p->macro->uses_caller |= lap_jinja_text_is(n->value.string, "caller");
      p->macro->uses_varargs |= lap_jinja_text_is(n->value.string, "varargs");
      p->macro->uses_kwargs |= lap_jinja_text_is(n->value.string, "kwargs");
    }
    return n;
  }
  n->value.from_template = true;
  return n;
}

static bool at_tuple_end(const parser *p, const char *end) {
  return p->token->type == TOKEN_PRINT_END || p->token->type == TOKEN_TAG_END ||
         lap_jinja_at_operator(p, ")") || (end && lap_jinja_at_name(p, end));
}

typedef enum tuple_of {
  OF_PRIMARIES,
  OF_CONDITIONS,
  OF_EXPRESSIONS
} tuple_of;

static node *parse_primary(parser *p);

static node *parse_tuple_of(parser *p, tuple_of what, const char *end_name, bool parentheses) {
  node *first = NULL, **end = &first;
  uint32_t offset = p->token->offset;
  bool tuple = false;
  while (!at_tuple_end(p, end_name)) {
    lap_jinja_append_node(&end, what == OF_PRIMARIES    ? parse_primary(p)
                                : what == OF_CONDITIONS ? lap_jinja_parse_expression(p)
                                                        : parse_or(p));
    if (!lap_jinja_skip_operator(p, ",")) break;
    tuple = true;
  }
  if (!tuple && first) return first;
  if (!first && !parentheses) lap_jinja_unexpected(p, "an expression");
  node *n = lap_jinja_new_node(p, NODE_TUPLE, offset);
  n->items = first;
  return n;
}

node *lap_jinja_parse_tuple(parser *p, bool conditions, const char *end) {
  return parse_tuple_of(p, conditions ? OF_CONDITIONS : OF_EXPRESSIONS, end, false);
}

node *lap_jinja_parse_simple_tuple(parser *p, const char *end) {
  return parse_tuple_of(p, OF_PRIMARIES, end, false);
}

static node *parse_parentheses(parser *p) {
  node *n = parse_tuple_of(p, OF_CONDITIONS, NULL, true);
  lap_jinja_expect_operator(p, ")");
  return n;
}

static node *parse_primary(parser *p) {
  const lap_jinja_token *t = p->token;
  node *n = NULL;
  if (t->type == TOKEN_NAME) {
    n = parse_name(p, t->offset);
  } else if (t->type == TOKEN_TEXT) {
    n = parse_text(p, t->offset);
  } else if (t->type == TOKEN_INTEGER || t->type == TOKEN_REAL) {
    n = lap_jinja_new_node(p, NODE_CONSTANT, t->offset);
    n->value = t->value;
    p->token++;
  } else if (lap_jinja_skip_operator(p, "(")) {
    n = parse_parentheses(p);
  } else if (lap_jinja_skip_operator(p, "[")) {
    n = parse_list(p, t->offset);
  } else if (lap_jinja_skip_operator(p, "{")) {
    n = parse_dict(p, t->offset);
  } else {
    lap_jinja_unexpected(p, "an expression");
  }
  return n;
}

/* ---- filters and tests ---- */

/* The builtin that `n` names; an unknown one is remembered, unless it stands in a condition, where a template
 * may have asked before whether it exists. */
static void find_builtin(parser *p, node *n) {
  const lap_jinja_language *language = p->compiler->language;
  n->builtin = n->kind == NODE_FILTER ? lap_jinja_find_filter(language, n->value.string)
                                      : lap_jinja_find_in(language->tests, n->value.string);
  if (!n->builtin && !p->conditional && !p->unknown) p->unknown = n;
}

static node *parse_filter(parser *p, node *input) {
  node *n = new_pair(p, NODE_FILTER, p->token->offset, input, NULL);
  n->value = lap_jinja_expect_name(p).value;
  find_builtin(p, n);
  if (lap_jinja_at_operator(p, "(")) parse_arguments(p, n);
  return n;
}

node *lap_jinja_parse_filters(parser *p, node *input, bool inline_start) {
  while (inline_start || lap_jinja_skip_operator(p, "|")) {
    input = parse_filter(p, input);
    inline_start = false;
  }
  return input;
}

/* May the next token begin the one argument that a test takes without parentheses? */
static bool at_test_argument(const parser *p) {
  switch (p->token->type) {
    case TOKEN_TEXT:
    case TOKEN_INTEGER:
    case TOKEN_REAL:
      return true;
    case TOKEN_NAME:
      return !lap_jinja_at_name(p, "else") && !lap_jinja_at_name(p, "or") && !lap_jinja_at_name(p, "and");
    default:
      return lap_jinja_at_operator(p, "[") || lap_jinja_at_operator(p, "{");
  }
}

static node *parse_test(parser *p, node *input) {
  bool negated = lap_jinja_skip_name(p, "not");
  node *n = new_pair(p, NODE_TEST, p->token->offset, input, NULL);
  n->value = lap_jinja_expect_name(p).value;
  find_builtin(p, n);
  if (lap_jinja_at_operator(p, "(")) {
    parse_arguments(p, n);
  } else if (at_test_argument(p)) {
    if (lap_jinja_at_name(p, "is")) lap_jinja_unexpected(p, "an operator between two tests");
    n->items = parse_postfix(p, parse_primary(p));
  }
  return negated ? new_pair(p, NODE_NOT, n->offset, n, NULL) : n;
}

static node *parse_filters_and_tests(parser *p, node *n) {
  for (;;) {
    if (lap_jinja_skip_operator(p, "|"))
      n = parse_filter(p, n);
    else if (lap_jinja_skip_name(p, "is"))
      n = parse_test(p, n);
    else if (lap_jinja_at_operator(p, "("))
      n = parse_call(p, n);
    else
      return n;
  }
}

/* ---- operators ---- */

/* What a sign or `not`, just stepped over, applies to. */
static node *parse_operand(parser *p, lap_jinja_node_kind kind, uint32_t offset) {
  lap_jinja_enter(p);
  node *n = new_pair(p, kind, offset, kind == NODE_NOT ? parse_not(p) : parse_unary(p, false), NULL);
  lap_jinja_leave(p);
  return n;
}

static node *parse_unary(parser *p, bool filters) {
  uint32_t offset = p->token->offset;
  node *n = lap_jinja_skip_operator(p, "-")   ? parse_operand(p, NODE_NEGATE, offset)
            : lap_jinja_skip_operator(p, "+") ? parse_operand(p, NODE_PLUS, offset)
                                              : parse_primary(p);
  n = parse_postfix(p, n);
  return filters ? parse_filters_and_tests(p, n) : n;
}

typedef struct spelled {
  const char *spelling;
  lap_jinja_operation operation;
} spelled;

/* The operation whose operator is next, which is stepped over; NULL if it is none of these. */
static const spelled *skip_any(parser *p, const spelled *operators) {
  for (; operators->spelling; operators++)
    if (lap_jinja_skip_operator(p, operators->spelling)) return operators;
  return NULL;
}

/* Operands of the level `next` with operators of this level between them, grouped from the left. */
static node *parse_binary(parser *p, const spelled *operators, node *(*next)(parser *)) {
  node *left = next(p);
  for (;;) {
    uint32_t offset = p->token->offset;
    const spelled *found = skip_any(p, operators);
    if (!found) return left;
    left = new_pair(p, NODE_BINARY, offset, left, next(p));
    left->operation = found->operation;
  }
}

static node *parse_sign(parser *p) {
  return parse_unary(p, true);
}

static node *parse_power(parser *p) {
  static const spelled operators[] = {{"**", OPERATION_POWER}, {NULL, 0}};
  return parse_binary(p, operators, parse_sign);
}

static node *parse_product(parser *p) {
  static const spelled operators[] = {{"*", OPERATION_MULTIPLY},
                                      {"/", OPERATION_DIVIDE},
                                      {"//", OPERATION_FLOOR_DIVIDE},
                                      {"%", OPERATION_MODULO},
                                      {NULL, 0}};
  return parse_binary(p, operators, parse_power);
}

static node *parse_concatenation(parser *p) {
  node *first = parse_product(p);
  if (!lap_jinja_at_operator(p, "~")) return first;
  node *n = lap_jinja_new_node(p, NODE_CONCAT, p->token->offset), **end = &n->items;
  lap_jinja_append_node(&end, first);
  while (lap_jinja_skip_operator(p, "~")) lap_jinja_append_node(&end, parse_product(p));
  return n;
}

static node *parse_sum(parser *p) {
  static const spelled operators[] = {{"+", OPERATION_ADD}, {"-", OPERATION_SUBTRACT}, {NULL, 0}};
  return parse_binary(p, operators, parse_concatenation);
}

static bool skip_not_in(parser *p) {
  if (!lap_jinja_at_name(p, "not")) return false;
  p->token++;
  if (lap_jinja_skip_name(p, "in")) return true;
  p->token--;
  return false;
}

/* The comparison that is next, which is stepped over; false if there is none. */
static bool skip_comparison(parser *p, lap_jinja_operation *operation) {
  static const spelled operators[] = {{"==", OPERATION_EQUAL},
                                      {"!=", OPERATION_NOT_EQUAL},
                                      {"<", OPERATION_LESS},
                                      {"<=", OPERATION_LESS_EQUAL},
                                      {">", OPERATION_GREATER},
                                      {">=", OPERATION_GREATER_EQUAL},
                                      {NULL, 0}};
  const spelled *found = skip_any(p, operators);
  if (found)
    *operation = found->operation;
  else if (lap_jinja_skip_name(p, "in"))
    *operation = OPERATION_IN;
  else if (skip_not_in(p))
    *operation = OPERATION_NOT_IN;
  else
    return false;
  return true;
}

static node *parse_comparison(parser *p) {
  node *first = parse_sum(p), *n = NULL, **end = NULL;
  for (;;) {
    uint32_t offset = p->token->offset;
    lap_jinja_operation operation;
    if (!skip_comparison(p, &operation)) return n ? n : first;
    if (!n) {
      n = new_pair(p, NODE_COMPARE, offset, first, NULL);
      end = &n->items;
    }
    node *operand = new_pair(p, NODE_OPERAND, offset, parse_sum(p), NULL);
    operand->operation = operation;
    lap_jinja_append_node(&end, operand);
  }
}

static node *parse_not(parser *p) {
  uint32_t offset = p->token->offset;
  return lap_jinja_skip_name(p, "not") ? parse_operand(p, NODE_NOT, offset) : parse_comparison(p);
}

static node *parse_and(parser *p) {
  node *left = parse_not(p);
  while (lap_jinja_skip_name(p, "and")) left = new_pair(p, NODE_AND, left->offset, left, parse_not(p));
  return left;
}

static node *parse_or(parser *p) {
  node *left = parse_and(p);
  while (lap_jinja_skip_name(p, "or")) left = new_pair(p, NODE_OR, left->offset, left, parse_and(p));
  return left;
}

static node *parse_condition(parser *p) {
  const node *unknown = p->unknown;
  node *n = parse_or(p);
  while (lap_jinja_skip_name(p, "if")) {
    p->unknown = unknown; /* what came before this `if` is in the condition too */
    p->conditional++;
    n = new_pair(p, NODE_CONDITION, n->offset, n, parse_or(p));
    if (lap_jinja_skip_name(p, "else")) n->c = lap_jinja_parse_expression(p);
    p->conditional--;
  }
  return n;
}

node *lap_jinja_parse_expression(parser *p) {
  lap_jinja_enter(p);
  node *n = parse_condition(p);
  lap_jinja_leave(p);
  return n;
}
