/* structured.c: grammars from what a caller has as text. */
#include <stdlib.h>

#include "base/text_buffer.h"
#include "grammar/grammar.h"
#include "model/model.h"
#include "text/transcript.h"

lap_status lap_grammar_read_schema(lap_model *model, const char *schema, size_t length,
                                   lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  const lap_vocabulary *vocabulary;
  lap_json_document *document;
  *out = NULL;
  lap_status status = lap_model_vocabulary(model, &vocabulary, error);
  if (status == LAP_OK) status = lap_json_parse(schema, length, "schema", &document, error);
  if (status != LAP_OK) return status;
  status = lap_grammar_from_schema(vocabulary, document, lap_json_root(document), true, thoughts, out, error);
  lap_json_free(document);
  return status;
}

lap_status lap_grammar_read_gbnf(lap_model *model, const char *gbnf, size_t length,
                                 lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  const lap_vocabulary *vocabulary;
  *out = NULL;
  lap_status status = lap_model_vocabulary(model, &vocabulary, error);
  if (status != LAP_OK) return status;
  return lap_grammar_from_gbnf(vocabulary, gbnf, length, "grammar", thoughts, out, error);
}

/* The tools that a caller's list has, all in one form, as a document of their own. */
static lap_status normalise_tools(const char *tools, size_t length, lap_json_document **out,
                                  lap_error *error) {
  lap_json_document *document;
  lap_transcript transcript = {0};
  lap_text text = {0};
  char *json = NULL;
  size_t json_length;
  lap_status status = lap_json_parse(tools, length, "tools", &document, error);
  if (status != LAP_OK) return status;
  status = lap_transcript_set_tools(&transcript, document, lap_json_root(document), error);
  lap_json_free(document);
  lap_transcript_print(&transcript, &text);
  bool some = transcript.tools > 0;
  lap_transcript_free(&transcript);
  if (status == LAP_OK && !some) status = lap_fail(error, LAP_ERROR_FORMAT, "tools: there are none to call");
  if (status == LAP_OK) status = lap_text_take(&text, &json, &json_length, error);
  if (status == LAP_OK) status = lap_json_parse(json, json_length, "tools", out, error);
  lap_text_free(&text);
  free(json);
  return status;
}

static lap_status compile_tools(const lap_vocabulary *vocabulary, const lap_json_document *document,
                                lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  const lap_json *list = lap_json_get(document, lap_json_root(document), "tools");
  lap_grammar_tool *tools = calloc(list->length, sizeof *tools);
  if (!tools) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
  size_t count = 0;
  for (const lap_json *tool = list->child; tool; tool = tool->next) {
    const lap_json *function = lap_json_get(document, tool, "function");
    tools[count++] = (lap_grammar_tool){.name = lap_json_get(document, function, "name"),
                                        .parameters = lap_json_get(document, function, "parameters")};
  }
  lap_status status = lap_grammar_tool_calls(vocabulary, document, tools, count, true, thoughts, out, error);
  free(tools);
  return status;
}

lap_status lap_grammar_read_tools(lap_model *model, const char *tools, size_t length,
                                  lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  const lap_vocabulary *vocabulary;
  lap_json_document *document;
  *out = NULL;
  lap_status status = lap_model_vocabulary(model, &vocabulary, error);
  if (status == LAP_OK) status = normalise_tools(tools, length, &document, error);
  if (status != LAP_OK) return status;
  status = compile_tools(vocabulary, document, thoughts, out, error);
  lap_json_free(document);
  return status;
}
