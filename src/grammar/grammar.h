/* grammar.h: which texts a model may write, as a compiled object that matchers share.
 *
 * A grammar is made from a GBNF text, from a JSON schema, or for tool calls, for one vocabulary. It is
 * read-only to its users (an inner cache has a lock of its own), may be shared by threads, and is counted:
 * each matcher holds it too.
 *
 * What is accepted, what is ignored and what is refused stands in docs/grammar.md. Errors of the sources are
 * FORMAT or UNSUPPORTED and name the line and column, or the path of the value in its document. Everything
 * that a source can ask for is limited: size, rules, states, and the work of compiling. */
#ifndef LAP_GRAMMAR_GRAMMAR_H
#define LAP_GRAMMAR_GRAMMAR_H

#include "base/json.h"
#include "grammar/vocabulary.h"

/* GBNF as llama.cpp's clients write it; the rule `root` is the text. `name` stands in messages:
 * `name: line 3, column 7: ...`. The vocabulary must outlive the grammar. */
lap_status lap_grammar_from_gbnf(const lap_vocabulary *vocabulary, const char *text, size_t length,
                                 const char *name, lap_grammar_thoughts thoughts, lap_grammar **out,
                                 lap_error *error);

/* A JSON text valid under `schema`, which is part of `document`; `#` in references is the schema. With
 * `closed` objects that list properties and say nothing about others have no others. Neither is needed
 * afterwards. */
lap_status lap_grammar_from_schema(const lap_vocabulary *vocabulary, const lap_json_document *document,
                                   const lap_json *schema, bool closed, lap_grammar_thoughts thoughts,
                                   lap_grammar **out, lap_error *error);

/* Any JSON object. */
lap_status lap_grammar_json_object(const lap_vocabulary *vocabulary, lap_grammar_thoughts thoughts,
                                   lap_grammar **out, lap_error *error);

typedef struct lap_grammar_tool {
  const lap_json *name;       /* a string */
  const lap_json *parameters; /* the schema of its arguments; NULL: any */
} lap_grammar_tool;

/* One call of one of the tools [count >= 1], or with `several` one or more in a row, in Gemma's syntax:
 * `<|tool_call>call:NAME{key:value,...}<tool_call|>`, keys in the order in which the chat template sorts
 * them. All schemas are part of `document`. Objects are closed as above. */
lap_status lap_grammar_tool_calls(const lap_vocabulary *vocabulary, const lap_json_document *document,
                                  const lap_grammar_tool *tools, size_t count, bool several,
                                  lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error);

/* One more owner; lap_grammar_release is one less. */
void lap_grammar_hold(lap_grammar *grammar);

const lap_vocabulary *lap_grammar_vocabulary(const lap_grammar *grammar);

/* Memory of the automata and of the masks kept so far. */
size_t lap_grammar_bytes(const lap_grammar *grammar);

#endif
