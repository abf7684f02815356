/* parser.c: the parser's place in the tokens, what may stand there, and new nodes. */
#include "jinja/parser.h"

#include <stdio.h>

typedef lap_jinja_parser parser;
typedef lap_jinja_node node;
node *lap_jinja_new_node(parser *p, lap_jinja_node_kind kind, uint32_t offset) {
  node *n = lap_jinja_take(p->compiler->arena, sizeof *n);
  *n = (node){.kind = kind, .offset = offset};
  return n;
}

void lap_jinja_enter(parser *p) {
  if (++p->nesting > LAP_JINJA_MAX_NESTING)
    lap_jinja_refuse(p->compiler, LAP_ERROR_FORMAT, p->token->offset, "nested too deep (more than %d levels)",
                     LAP_JINJA_MAX_NESTING);
}

void lap_jinja_leave(parser *p) {
  p->nesting--;
}

bool lap_jinja_at_operator(const parser *p, const char *spelling) {
  return p->token->type == TOKEN_OPERATOR && !strcmp(p->token->operator, spelling);
}

bool lap_jinja_at_name(const parser *p, const char *name) {
  return p->token->type == TOKEN_NAME && lap_jinja_text_is(p->token->value.string, name);
}

bool lap_jinja_skip_operator(parser *p, const char *spelling) {
  bool there = lap_jinja_at_operator(p, spelling);
  p->token += there;
  return there;
}

bool lap_jinja_skip_name(parser *p, const char *name) {
  bool there = lap_jinja_at_name(p, name);
  p->token += there;
  return there;
}

void lap_jinja_unexpected(parser *p, const char *wanted) {
  const lap_jinja_token *t = p->token;
  lap_jinja_compiler *c = p->compiler;
  static const char *const names[] = {[TOKEN_END] = "the end of the template",
                                      [TOKEN_DATA] = "text",
                                      [TOKEN_PRINT_BEGIN] = "'{{'",
                                      [TOKEN_PRINT_END] = "'}}'",
                                      [TOKEN_TAG_BEGIN] = "'{%'",
                                      [TOKEN_TAG_END] = "'%}'",
                                      [TOKEN_TEXT] = "a string",
                                      [TOKEN_INTEGER] = "a number",
                                      [TOKEN_REAL] = "a number"};
  if (t->type == TOKEN_NAME)
    lap_jinja_refuse(c, LAP_ERROR_FORMAT, t->offset, "expected %s, got '%.*s'", wanted,
                     (int)t->value.string->length, t->value.string->text);
  if (t->type == TOKEN_OPERATOR)
    lap_jinja_refuse(c, LAP_ERROR_FORMAT, t->offset, "expected %s, got '%s'", wanted, t->operator);
  lap_jinja_refuse(c, LAP_ERROR_FORMAT, t->offset, "expected %s, got %s", wanted, names[t->type]);
}

void lap_jinja_expect_operator(parser *p, const char *spelling) {
  char wanted[8];
  snprintf(wanted, sizeof wanted, "'%s'", spelling);
  if (!lap_jinja_skip_operator(p, spelling)) lap_jinja_unexpected(p, wanted);
}

lap_jinja_token lap_jinja_expect_name(parser *p) {
  if (p->token->type != TOKEN_NAME) lap_jinja_unexpected(p, "a name");
  return *p->token++;
}
