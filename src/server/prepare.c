/* prepare.c: prompts, tools' names and grammar of a request.
 *
 * Invariant: what is checked here cannot fail later for reasons that the client could mend, so that an answer
 * that has begun is an answer. */
#include "server/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"
#include "model/model.h"

/* ---- prompts --------------------------------------------------------------------------------- */

static lap_status check_length(const lap_served *served, size_t count, bool *too_long, lap_error *error) {
  if ((int64_t)count < served->context) return LAP_OK;
  *too_long = true;
  return lap_fail(error, LAP_ERROR_ARGUMENT, "the prompt's %zu tokens do not fit in the context of %lld",
                  count, (long long)served->context);
}

lap_status lap_request_render(const lap_served *served, lap_request *request, lap_chat_prompt *out,
                              lap_error *error) {
  if (!served->chat) {
    if (error) *error = served->chat_error;
    return served->chat_error.status;
  }
  request->conversation.allow_special = served->allow_special;
  return lap_chat_render(served->chat, &request->conversation, out, error);
}

static lap_status prepare_chat(const lap_served *served, lap_request *request, lap_error *error) {
  lap_chat_prompt rendered;
  request->prompt = calloc(1, sizeof *request->prompt);
  if (!request->prompt) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompt");
  lap_status status = lap_request_render(served, request, &rendered, error);
  if (status != LAP_OK) return status;
  request->prompt_count = 1;
  request->prompt[0] = (lap_prompt){.ids = rendered.ids, .count = rendered.count};
  rendered.ids = NULL;
  lap_chat_prompt_free(&rendered);
  return LAP_OK;
}

static lap_status take_ids(const lap_served *served, const lap_request *request, const lap_json *list,
                           lap_prompt *prompt, lap_error *error) {
  int32_t vocab = lap_model_vocab_size(served->model);
  prompt->ids = malloc((list->length + 1) * sizeof *prompt->ids);
  if (!prompt->ids) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompt");
  for (const lap_json *one = list->child; one; one = one->next) {
    if (one->type != LAP_JSON_INTEGER) return lap_json_fail(request->body, one, error, "must be a token id");
    if (one->integer < 0 || one->integer >= vocab)
      return lap_json_fail(request->body, one, error, "%lld is not in the vocabulary of %d",
                           (long long)one->integer, vocab);
    prompt->ids[prompt->count++] = (int32_t)one->integer;
  }
  if (prompt->count) return LAP_OK;
  return lap_json_fail(request->body, list, error, "holds no token");
}

static lap_status take_text(const lap_served *served, const lap_request *request, const lap_json *text,
                            lap_prompt *prompt, lap_error *error) {
  lap_status status =
      lap_model_encode(served->model, text->string, text->length, &prompt->ids, &prompt->count, error);
  if (status == LAP_OK && prompt->count == 0)
    status = lap_json_fail(request->body, text, error, "holds no token");
  if (status == LAP_OK && request->echo && !(prompt->text = strndup(text->string, text->length)))
    status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompt");
  return status;
}

static lap_status take_prompt(const lap_served *served, const lap_request *request, const lap_json *raw,
                              lap_prompt *prompt, lap_error *error) {
  if (raw->type == LAP_JSON_STRING) return take_text(served, request, raw, prompt, error);
  if (raw->type == LAP_JSON_ARRAY) return take_ids(served, request, raw, prompt, error);
  return lap_json_fail(request->body, raw, error, "must be a string or a list of token ids");
}

/* One prompt, or a list of them; a list of numbers is one. */
static lap_status prepare_raw(const lap_served *served, lap_request *request, lap_error *error) {
  const lap_json *raw = request->raw;
  bool list = raw->type == LAP_JSON_ARRAY && raw->child && raw->child->type != LAP_JSON_INTEGER;
  size_t count = list ? raw->length : 1;
  if (count * (size_t)request->n > LAP_MAX_CHOICES)
    return lap_json_fail(request->body, raw, error, "%zu prompts times n = %d are more than %d answers",
                         count, request->n, LAP_MAX_CHOICES);
  request->prompt = calloc(count, sizeof *request->prompt);
  if (!request->prompt) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompts");
  lap_status status = LAP_OK;
  for (const lap_json *one = list ? raw->child : raw; one && status == LAP_OK; one = list ? one->next : NULL)
    status = take_prompt(served, request, one, &request->prompt[request->prompt_count++], error);
  return status;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static const lap_json *function_of(const lap_request *request, const lap_json *tool, const char *key) {
  const lap_json_document *document = request->conversation.document;
  return lap_json_get(document, lap_json_get(document, tool, "function"), key);
}

static lap_status keep_names(lap_request *request, lap_error *error) {
  const lap_json *tools = request->conversation.tools;
  if (!tools) return LAP_OK;
  request->tool = calloc(tools->length + 1, sizeof *request->tool);
  if (!request->tool) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
  for (const lap_json *tool = tools->child; tool; tool = tool->next) {
    char *name = strdup(function_of(request, tool, "name")->string);
    if (!name) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
    request->tool[request->tool_count++] = name;
  }
  return LAP_OK;
}

/* Nothing is done for -1. */
static lap_status forbid(lap_request *request, int32_t id, lap_error *error) {
  int32_t count = request->sampling.logit_bias_count;
  if (id < 0) return LAP_OK;
  lap_logit_bias *grown = realloc(request->biases, ((size_t)count + 1) * sizeof *grown);
  if (!grown) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for logit_bias");
  grown[count] = (lap_logit_bias){.id = id, .bias = -100};
  request->biases = grown;
  request->sampling.logit_bias = grown;
  request->sampling.logit_bias_count = count + 1;
  return LAP_OK;
}

/* A grammar's end is one all the same. */
static lap_status forbid_ends(const lap_served *served, lap_request *request, lap_error *error) {
  const lap_plan *plan = served->model->plan;
  lap_status status = LAP_OK;
  if (!request->ignore_eos || request->grammar) return LAP_OK;
  for (int32_t i = 0; i < plan->eos_count && status == LAP_OK; i++)
    status = forbid(request, plan->eos[i], error);
  for (size_t i = 0; i < sizeof served->turn_id / sizeof *served->turn_id && status == LAP_OK; i++)
    status = forbid(request, served->turn_id[i], error);
  return status;
}

/* No call can begin without its control token. */
static lap_status forbid_tokens(const lap_served *served, lap_request *request, lap_error *error) {
  lap_status status = LAP_OK;
  if (request->tool_choice == LAP_TOOLS_NONE) status = forbid(request, served->call_id, error);
  return status == LAP_OK ? forbid_ends(served, request, error) : status;
}

/* ---- grammars -------------------------------------------------------------------------------- */

/* The prompt may end inside of a thought; and where thinking is on, one may come first. */
static lap_grammar_thoughts thoughts_of(const lap_served *served, const lap_request *request) {
  if (!request->chat || served->open_thought_id < 0) return LAP_THOUGHTS_NONE;
  const lap_prompt *prompt = &request->prompt[0];
  for (size_t i = prompt->count; i-- > 0;) {
    if (prompt->ids[i] == served->close_thought_id) break;
    if (prompt->ids[i] == served->open_thought_id) return LAP_THOUGHTS_OPEN;
  }
  return request->conversation.thinking == LAP_THINKING_ON ? LAP_THOUGHTS_FIRST : LAP_THOUGHTS_NONE;
}

static lap_status compile_calls(const lap_request *request, const lap_vocabulary *vocabulary,
                                lap_grammar_thoughts thoughts, lap_grammar **out, lap_error *error) {
  const lap_json *list = request->conversation.tools;
  lap_grammar_tool *tools = calloc(list->length, sizeof *tools);
  if (!tools) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
  size_t count = 0;
  for (const lap_json *tool = list->child; tool; tool = tool->next) {
    const lap_json *name = function_of(request, tool, "name");
    const lap_json *parameters = function_of(request, tool, "parameters");
    if (request->named_tool && !lap_json_is(name, request->named_tool->string)) continue;
    if (parameters && parameters->type == LAP_JSON_NULL) parameters = NULL;
    tools[count++] = (lap_grammar_tool){.name = name, .parameters = parameters};
  }
  bool several = !request->single_call && !request->named_tool;
  lap_status status = lap_grammar_tool_calls(vocabulary, request->conversation.document, tools, count,
                                             several, thoughts, out, error);
  free(tools);
  return status;
}

static lap_status prepare_grammar(const lap_served *served, lap_request *request, lap_error *error) {
  const lap_vocabulary *vocabulary;
  bool calls = request->tool_choice == LAP_TOOLS_REQUIRED || request->tool_choice == LAP_TOOLS_NAMED;
  if (!calls && request->form == LAP_FORM_FREE) return LAP_OK;
  lap_status status = lap_model_vocabulary(served->model, &vocabulary, error);
  if (status != LAP_OK) return status;
  lap_grammar_thoughts thoughts = thoughts_of(served, request);
  const lap_json *source = request->form_source;
  request->calls_instead = request->tool_count > 0 && request->tool_choice == LAP_TOOLS_AUTO;
  if (calls) return compile_calls(request, vocabulary, thoughts, &request->grammar, error);
  if (request->form == LAP_FORM_OBJECT)
    return lap_grammar_json_object(vocabulary, thoughts, &request->grammar, error);
  if (request->form == LAP_FORM_SCHEMA)
    return lap_grammar_from_schema(vocabulary, request->body, source, true, thoughts, &request->grammar,
                                   error);
  return lap_grammar_from_gbnf(vocabulary, source->string, source->length, "request: grammar", thoughts,
                               &request->grammar, error);
}

/* ---- together -------------------------------------------------------------------------------- */

lap_status lap_request_prepare(const lap_served *served, lap_request *request, bool *too_long,
                               lap_error *error) {
  *too_long = false;
  lap_status status =
      request->chat ? prepare_chat(served, request, error) : prepare_raw(served, request, error);
  for (int i = 0; i < request->prompt_count && status == LAP_OK; i++)
    status = check_length(served, request->prompt[i].count, too_long, error);
  if (status == LAP_OK && request->chat) status = keep_names(request, error);
  if (status == LAP_OK) status = prepare_grammar(served, request, error);
  if (status == LAP_OK) status = forbid_tokens(served, request, error);
  if (status == LAP_OK) status = lap_sampling_check(served->model, &request->sampling, error);
  if (status == LAP_OK) lap_request_drop_body(request);
  return status;
}
