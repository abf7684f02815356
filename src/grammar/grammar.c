/* grammar.c: from a source to rules to a network; and who owns it. */
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/compiled.h"
#include "grammar/gbnf.h"
#include "grammar/schema.h"
#include "grammar/spelling.h"

enum {
  MASK_BYTES = 32 << 20 /* kept for each grammar */
};

/* ---- life -------------------------------------------------------------------------------------- */

void lap_grammar_hold(lap_grammar *grammar) {
  atomic_fetch_add(&grammar->owners, 1);
}

void lap_grammar_release(lap_grammar *grammar) {
  if (!grammar || atomic_fetch_sub(&grammar->owners, 1) > 1) return;
  lap_network_free(&grammar->network);
  lap_mask_cache_destroy(grammar->masks);
  free(grammar);
}

const lap_vocabulary *lap_grammar_vocabulary(const lap_grammar *grammar) {
  return grammar->vocabulary;
}

size_t lap_grammar_bytes(const lap_grammar *grammar) {
  return sizeof *grammar + lap_network_bytes(&grammar->network) + lap_mask_cache_bytes(grammar->masks);
}

/* ---- from rules to a grammar ------------------------------------------------------------------- */

static lap_status token_named(const lap_vocabulary *v, const char *content, int32_t *id, lap_error *error) {
  *id = lap_vocabulary_special(v, content, strlen(content));
  if (*id >= 0) return LAP_OK;
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "grammar: this model's tokenizer has no special token %s",
                  content);
}

/* Puts a thought in front. */
static lap_status add_thoughts(lap_rules *rules, const lap_vocabulary *v, lap_grammar_thoughts thoughts,
                               const lap_expression **body, lap_error *error) {
  int32_t open, close;
  if (thoughts == LAP_THOUGHTS_NONE) return LAP_OK;
  lap_status status = token_named(v, "<|channel>", &open, error);
  if (status == LAP_OK) status = token_named(v, "<channel|>", &close, error);
  if (status != LAP_OK) return status;
  lap_characters all = {0};
  lap_characters_add(&rules->arena, &all, 0, LAP_LAST_CHARACTER);
  const lap_expression *text = lap_expr_repetition(rules, lap_expr_character(rules, &all), 0, LAP_ENDLESS);
  const lap_expression *rest = lap_expr_then(rules, text, lap_expr_token(rules, close));
  if (thoughts == LAP_THOUGHTS_FIRST)
    rest = lap_expr_optional(rules, lap_expr_then(rules, lap_expr_token(rules, open), rest));
  *body = lap_expr_then(rules, rest, *body);
  return LAP_OK;
}

/* Compiles the rules with `body` as the root. */
static lap_status compile(lap_rules *rules, const lap_vocabulary *vocabulary, const lap_expression *body,
                          const void *origin, const char *name, lap_grammar_thoughts thoughts,
                          lap_grammar **out, lap_error *error) {
  lap_status status = add_thoughts(rules, vocabulary, thoughts, &body, error);
  if (status != LAP_OK) return status;
  uint32_t root = lap_rules_add(rules, origin);
  lap_rules_define(rules, root, body);
  status = lap_rules_status(rules, name, error);
  if (status != LAP_OK) return status;
  lap_grammar *grammar = calloc(1, sizeof *grammar);
  if (!grammar) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  atomic_init(&grammar->owners, 1);
  grammar->vocabulary = vocabulary;
  status = lap_network_build(rules, root, name, &grammar->network, error);
  if (status == LAP_OK) status = lap_mask_cache_create(MASK_BYTES, &grammar->masks, error);
  if (status == LAP_OK)
    *out = grammar;
  else
    lap_grammar_release(grammar);
  return status;
}

/* ---- the sources ------------------------------------------------------------------------------- */

lap_status lap_grammar_from_gbnf(const lap_vocabulary *vocabulary, const char *text, size_t length,
                                 const char *name, lap_grammar_thoughts thoughts, lap_grammar **out,
                                 lap_error *error) {
  lap_rules rules;
  uint32_t root;
  *out = NULL;
  lap_rules_init(&rules);
  lap_status status = lap_gbnf_read(&rules, vocabulary, text, length, name, &root, error);
  if (status == LAP_OK)
    status = compile(&rules, vocabulary, lap_expr_call(&rules, root), rules.rules[root].origin, name,
                     thoughts, out, error);
  lap_rules_free(&rules);
  return status;
}

lap_status lap_grammar_from_schema(const lap_vocabulary *vocabulary, const lap_json_document *document,
                                   const lap_json *schema, bool closed, lap_grammar_thoughts thoughts,
                                   lap_grammar **out, lap_error *error) {
  lap_rules rules;
  lap_spelling spelling;
  const lap_expression *value;
  *out = NULL;
  lap_rules_init(&rules);
  lap_spelling_init(&spelling, &rules, -1);
  const lap_schema_reader reader = {.document = document, .spelling = &spelling, .closed = closed};
  lap_status status = lap_schema_read(&reader, schema, &value, error);
  if (status == LAP_OK) status = compile(&rules, vocabulary, value, schema, "schema", thoughts, out, error);
  lap_rules_free(&rules);
  return status;
}

lap_status lap_grammar_json_object(const lap_vocabulary *vocabulary, lap_grammar_thoughts thoughts,
                                   lap_grammar **out, lap_error *error) {
  lap_rules rules;
  lap_spelling spelling;
  *out = NULL;
  lap_rules_init(&rules);
  lap_spelling_init(&spelling, &rules, -1);
  lap_status status = compile(&rules, vocabulary, spelling.object, NULL, "json_object", thoughts, out, error);
  lap_rules_free(&rules);
  return status;
}

/* ---- tool calls -------------------------------------------------------------------------------- */

typedef struct call_tokens {
  int32_t open, close, quote;
} call_tokens;

static lap_status read_tool(const lap_schema_reader *reader, const lap_grammar_tool *tool, call_tokens tokens,
                            const lap_expression **out, lap_error *error) {
  lap_rules *rules = reader->spelling->rules;
  const lap_json *name = tool->name;
  if (!name || name->type != LAP_JSON_STRING || strlen(name->string) != name->length ||
      !lap_spelling_can_key(reader->spelling, name->string))
    return lap_json_fail(reader->document, name, error,
                         "this is no name that a tool call can be written with");
  const lap_expression *arguments;
  lap_status status = lap_schema_read(reader, tool->parameters, &arguments, error);
  if (status != LAP_OK) return status;
  lap_parts parts = {0};
  lap_parts_add(rules, &parts, lap_expr_token(rules, tokens.open));
  lap_parts_add(rules, &parts, lap_expr_text(rules, "call:"));
  lap_parts_add(rules, &parts, lap_expr_text(rules, name->string));
  lap_parts_add(rules, &parts, arguments);
  lap_parts_add(rules, &parts, lap_expr_token(rules, tokens.close));
  *out = lap_expr_sequence(rules, &parts);
  return LAP_OK;
}

static lap_status read_tools(const lap_schema_reader *reader, const lap_grammar_tool *tools, size_t count,
                             call_tokens tokens, bool several, const lap_expression **out, lap_error *error) {
  lap_rules *rules = reader->spelling->rules;
  lap_parts calls = {0};
  lap_status status = LAP_OK;
  for (size_t i = 0; i < count && status == LAP_OK; i++) {
    const lap_expression *call = lap_expr_nothing();
    status = read_tool(reader, &tools[i], tokens, &call, error);
    lap_parts_add(rules, &calls, call);
  }
  *out = lap_expr_choice(rules, &calls);
  if (several) *out = lap_expr_repetition(rules, *out, 1, LAP_ENDLESS);
  return status;
}

lap_status lap_grammar_tool_calls(const lap_vocabulary *vocabulary, const lap_json_document *document,
                                  const lap_grammar_tool *tools, size_t count, bool several,
                                  lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  lap_rules rules;
  lap_spelling spelling;
  call_tokens tokens;
  const lap_expression *calls;
  *out = NULL;
  lap_status status = token_named(vocabulary, "<|tool_call>", &tokens.open, error);
  if (status == LAP_OK) status = token_named(vocabulary, "<tool_call|>", &tokens.close, error);
  if (status == LAP_OK) status = token_named(vocabulary, "<|\"|>", &tokens.quote, error);
  if (status != LAP_OK) return status;
  lap_rules_init(&rules);
  lap_spelling_init(&spelling, &rules, tokens.quote);
  const lap_schema_reader reader = {
      .document = document, .spelling = &spelling, .closed = true, .sorted = true, .only_objects = true};
  status = read_tools(&reader, tools, count, tokens, several, &calls, error);
  if (status == LAP_OK)
    status = compile(&rules, vocabulary, calls, lap_json_root(document), "tools", thoughts, out, error);
  lap_rules_free(&rules);
  return status;
}
