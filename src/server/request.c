/* request.c: what all APIs read in the same way.
 *
 * Clients of several servers name the same thing differently; all of the names are read, by every API. */
#include "server/request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/front.h"

enum {
  MAX_BIASES = 4096,
  MAX_TEMPERATURE = 100,
  MAX_PENALTY = 2,
  MAX_BIAS = 100
};

bool lap_json_is(const lap_json *value, const char *text) {
  return value && value->type == LAP_JSON_STRING && strcmp(value->string, text) == 0;
}

const lap_json *lap_body_get(const lap_request *request, const char *key) {
  const lap_json *value = lap_json_get(request->body, lap_json_root(request->body), key);
  return value && value->type != LAP_JSON_NULL ? value : NULL;
}

lap_status lap_read_string(const lap_request *request, const lap_json *object, const char *key,
                           const lap_json **out, lap_error *error) {
  *out = lap_json_get(request->body, object, key);
  if (*out && (*out)->type == LAP_JSON_STRING) return LAP_OK;
  if (*out) return lap_json_fail(request->body, *out, error, "must be a string");
  return lap_json_fail(request->body, object, error, "%s is missing", key);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static lap_status read_float(const lap_request *request, const char *key, double low, double high, float *out,
                             lap_error *error) {
  double value = (double)*out;
  lap_status status =
      lap_json_get_real(request->body, lap_json_root(request->body), key, low, high, &value, error);
  *out = (float)value;
  return status;
}

/* Minus one, too, says "off" to several servers. */
static lap_status read_top_k(lap_request *request, lap_error *error) {
  int64_t value = request->sampling.top_k;
  lap_status status = lap_json_get_integer(request->body, lap_json_root(request->body), "top_k", -1,
                                           INT32_MAX, &value, error);
  request->sampling.top_k = value < 0 ? 0 : (int32_t)value;
  return status;
}

static lap_status read_repeat_last(lap_request *request, const char *key, lap_error *error) {
  int64_t value = request->sampling.repeat_last;
  lap_status status =
      lap_json_get_integer(request->body, lap_json_root(request->body), key, 0, INT32_MAX, &value, error);
  request->sampling.repeat_last = (int32_t)value;
  return status;
}

/* Without a seed each request gets one of its own. */
static lap_status read_seed(lap_request *request, lap_error *error) {
  const lap_json *seed = lap_body_get(request, "seed");
  if (!seed) {
    if (getrandom(&request->sampling.seed, sizeof request->sampling.seed, 0) < 0) request->sampling.seed = 0;
    return LAP_OK;
  }
  if (seed->type != LAP_JSON_INTEGER) return lap_json_fail(request->body, seed, error, "must be an integer");
  request->sampling.seed = (uint64_t)seed->integer;
  request->seeded = true;
  return LAP_OK;
}

static lap_status read_bias(const lap_request *request, const lap_json *one, lap_logit_bias *bias,
                            lap_error *error) {
  char *end;
  long long id = strtoll(one->key, &end, 10);
  if (*end || end == one->key || id < 0 || id > INT32_MAX)
    return lap_json_fail(request->body, one, error, "the key is no token id");
  if (one->type != LAP_JSON_INTEGER && one->type != LAP_JSON_REAL)
    return lap_json_fail(request->body, one, error, "must be a number");
  if (!(one->real >= -MAX_BIAS && one->real <= MAX_BIAS))
    return lap_json_fail(request->body, one, error, "%g is outside %d..%d", one->real, -MAX_BIAS, MAX_BIAS);
  *bias = (lap_logit_bias){.id = (int32_t)id, .bias = (float)one->real};
  return LAP_OK;
}

static lap_status read_biases(lap_request *request, lap_error *error) {
  const lap_json *map = lap_body_get(request, "logit_bias");
  if (!map) return LAP_OK;
  if (map->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, map, error, "must be an object from token ids to numbers");
  if (map->length > MAX_BIASES)
    return lap_json_fail(request->body, map, error, "has more than %d members", MAX_BIASES);
  request->biases = malloc((map->length + 1) * sizeof *request->biases);
  if (!request->biases) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for logit_bias");
  lap_status status = LAP_OK;
  int32_t count = 0;
  for (const lap_json *one = map->child; one && status == LAP_OK; one = one->next)
    status = read_bias(request, one, &request->biases[count++], error);
  request->sampling.logit_bias = request->biases;
  request->sampling.logit_bias_count = count;
  return status;
}

lap_status lap_read_sampling(lap_request *request, lap_error *error) {
  lap_sampling *s = &request->sampling;
  const struct {
    const char *key;
    double low, high;
    float *out;
  } numbers[] = {
      {"temperature", 0, MAX_TEMPERATURE, &s->temperature},
      {"top_p", 0, 1, &s->top_p},
      {"min_p", 0, 1, &s->min_p},
      {"repeat_penalty", 0.01, 100, &s->repeat_penalty},
      {"repetition_penalty", 0.01, 100, &s->repeat_penalty},
      {"presence_penalty", -MAX_PENALTY, MAX_PENALTY, &s->presence_penalty},
      {"frequency_penalty", -MAX_PENALTY, MAX_PENALTY, &s->frequency_penalty},
  };
  lap_status status = LAP_OK;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == LAP_OK; i++)
    status = read_float(request, numbers[i].key, numbers[i].low, numbers[i].high, numbers[i].out, error);
  if (status == LAP_OK) status = read_top_k(request, error);
  if (status == LAP_OK) status = read_repeat_last(request, "repeat_last_n", error);
  if (status == LAP_OK) status = read_repeat_last(request, "repetition_context_size", error);
  if (status == LAP_OK) status = read_seed(request, error);
  return status == LAP_OK ? read_biases(request, error) : status;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static lap_status add_stop(lap_request *request, const lap_json *stop, lap_error *error) {
  if (stop->type != LAP_JSON_STRING)
    return lap_json_fail(request->body, stop, error, "must be a string or a list of strings");
  if (stop->length == 0 || strlen(stop->string) != stop->length)
    return lap_json_fail(request->body, stop, error, "is empty or holds a NUL character");
  if (request->stop_count == LAP_MAX_STOPS)
    return lap_json_fail(request->body, stop, error, "more than %d strings", LAP_MAX_STOPS);
  char *copy = strdup(stop->string);
  if (!copy) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a stop string");
  request->stop[request->stop_count++] = copy;
  return LAP_OK;
}

lap_status lap_read_stops(lap_request *request, const char *key, lap_error *error) {
  const lap_json *stop = lap_body_get(request, key);
  if (!stop) return LAP_OK;
  if (stop->type != LAP_JSON_ARRAY) return add_stop(request, stop, error);
  lap_status status = LAP_OK;
  for (const lap_json *one = stop->child; one && status == LAP_OK; one = one->next)
    status = add_stop(request, one, error);
  return status;
}

/* Minus one means no limit to clients of llama.cpp. */
lap_status lap_read_max_tokens(lap_request *request, const char *const *keys, lap_error *error) {
  for (; *keys; keys++) {
    const lap_json *value = lap_body_get(request, *keys);
    if (!value) continue;
    if (value->type == LAP_JSON_INTEGER && value->integer == -1) return LAP_OK;
    return lap_json_get_integer(request->body, lap_json_root(request->body), *keys, 1, INT64_MAX,
                                &request->max_tokens, error);
  }
  return LAP_OK;
}

/* ---- thoughts -------------------------------------------------------------------------------- */

static lap_status read_effort(lap_request *request, const lap_json *effort, lap_error *error) {
  if (!effort || effort->type == LAP_JSON_NULL) return LAP_OK;
  if (effort->type != LAP_JSON_STRING) return lap_json_fail(request->body, effort, error, "must be a string");
  bool off = lap_json_is(effort, "none") || lap_json_is(effort, "minimal");
  request->conversation.thinking = off ? LAP_THINKING_OFF : LAP_THINKING_ON;
  return LAP_OK;
}

lap_status lap_read_thinking(lap_request *request, const lap_json *effort, lap_error *error) {
  lap_chat_input *conversation = &request->conversation;
  lap_status status = read_effort(request, effort, error);
  if (status != LAP_OK) return status;
  const lap_json *root = lap_json_root(request->body);
  bool enabled = conversation->thinking == LAP_THINKING_ON;
  status = lap_json_get_bool(request->body, root, "enable_thinking", &enabled, error);
  if (status != LAP_OK) return status;
  conversation->variables = lap_body_get(request, "chat_template_kwargs");
  if (conversation->variables && conversation->variables->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, conversation->variables, error, "must be an object");
  bool stated = lap_body_get(request, "enable_thinking");
  const lap_json *inner = lap_json_get(request->body, conversation->variables, "enable_thinking");
  if (inner && inner->type == LAP_JSON_BOOL) {
    stated = true;
    enabled = inner->boolean;
  }
  if (stated) conversation->thinking = enabled ? LAP_THINKING_ON : LAP_THINKING_OFF;
  return LAP_OK;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static lap_status read_schema(lap_request *request, const lap_json *format, lap_error *error) {
  const lap_json *holder = lap_json_get(request->body, format, "json_schema");
  if (holder && holder->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, holder, error, "must be an object");
  const lap_json *schema = lap_json_get(request->body, holder ? holder : format, "schema");
  if (!schema || schema->type == LAP_JSON_NULL)
    return lap_json_fail(request->body, holder ? holder : format, error, "a schema is missing (schema)");
  if (schema->type != LAP_JSON_OBJECT && schema->type != LAP_JSON_BOOL)
    return lap_json_fail(request->body, schema, error, "must be an object");
  request->form = LAP_FORM_SCHEMA;
  request->form_source = schema;
  return LAP_OK;
}

static lap_status read_grammar(lap_request *request, lap_error *error) {
  const lap_json *grammar = lap_body_get(request, "grammar");
  if (!grammar) return LAP_OK;
  if (grammar->type != LAP_JSON_STRING)
    return lap_json_fail(request->body, grammar, error, "must be a string");
  if (grammar->length == 0) return LAP_OK;
  if (request->form != LAP_FORM_FREE)
    return lap_json_fail(request->body, grammar, error, "contradicts the format that is asked for, too");
  request->form = LAP_FORM_GRAMMAR;
  request->form_source = grammar;
  return LAP_OK;
}

lap_status lap_read_form(lap_request *request, const lap_json *format, lap_error *error) {
  if (format && format->type != LAP_JSON_NULL) {
    if (format->type != LAP_JSON_OBJECT)
      return lap_json_fail(request->body, format, error, "must be an object");
    const lap_json *type = lap_json_get(request->body, format, "type");
    if (!type || type->type != LAP_JSON_STRING)
      return lap_json_fail(request->body, type ? type : format, error, "the type must be a string");
    lap_status status = LAP_OK;
    bool object = lap_json_is(type, "json_object");
    if (lap_json_is(type, "json_schema") || (object && lap_json_get(request->body, format, "schema")))
      status = read_schema(request, format, error);
    else if (object)
      request->form = LAP_FORM_OBJECT;
    else if (!lap_json_is(type, "text"))
      status = lap_json_fail(request->body, type, error, "%s is none of text, json_object, json_schema",
                             type->string);
    if (status != LAP_OK) return status;
  }
  return read_grammar(request, error);
}

/* ---- tools ----------------------------------------------------------------------------------- */

static lap_status check_tool(const lap_json_document *document, const lap_json *tool, lap_error *error) {
  if (tool->type != LAP_JSON_OBJECT) return lap_json_fail(document, tool, error, "must be an object");
  const lap_json *type = lap_json_get(document, tool, "type");
  if (type && !lap_json_is(type, "function"))
    return lap_json_fail(document, type, error, "only tools of type function are offered here");
  const lap_json *function = lap_json_get(document, tool, "function");
  if (!function || function->type != LAP_JSON_OBJECT)
    return lap_json_fail(document, function ? function : tool, error, "a function must be an object");
  const lap_json *name = lap_json_get(document, function, "name");
  if (!name || name->type != LAP_JSON_STRING || name->length == 0 || strlen(name->string) != name->length)
    return lap_json_fail(document, name ? name : function, error, "a function's name must be a string");
  const lap_json *parameters = lap_json_get(document, function, "parameters");
  if (parameters && parameters->type != LAP_JSON_OBJECT && parameters->type != LAP_JSON_NULL)
    return lap_json_fail(document, parameters, error, "must be an object");
  return LAP_OK;
}

lap_status lap_read_tools(lap_request *request, const lap_json_document *document, const lap_json *tools,
                          lap_error *error) {
  if (!tools || tools->type == LAP_JSON_NULL) return LAP_OK;
  if (tools->type != LAP_JSON_ARRAY) return lap_json_fail(document, tools, error, "must be a list");
  if (tools->length > LAP_MAX_TOOLS)
    return lap_json_fail(document, tools, error, "more than %d tools", LAP_MAX_TOOLS);
  lap_status status = LAP_OK;
  for (const lap_json *tool = tools->child; tool && status == LAP_OK; tool = tool->next)
    status = check_tool(document, tool, error);
  if (tools->child) request->conversation.tools = tools;
  return status;
}

/* A choice that needs tools needs them to be there. */
static lap_status check_tool_choice(const lap_request *request, lap_error *error) {
  const lap_chat_input *conversation = &request->conversation;
  if (request->tool_choice != LAP_TOOLS_REQUIRED && request->tool_choice != LAP_TOOLS_NAMED) return LAP_OK;
  if (!conversation->tools)
    return lap_fail(error, LAP_ERROR_FORMAT, "request: tool_choice: there are no tools to choose from");
  if (request->form != LAP_FORM_FREE)
    return lap_fail(error, LAP_ERROR_FORMAT,
                    "request: tool_choice: an answer that must be a call has no other format");
  if (request->tool_choice != LAP_TOOLS_NAMED) return LAP_OK;
  for (const lap_json *tool = conversation->tools->child; tool; tool = tool->next) {
    const lap_json *function = lap_json_get(conversation->document, tool, "function");
    if (lap_json_is(lap_json_get(conversation->document, function, "name"), request->named_tool->string))
      return LAP_OK;
  }
  return lap_json_fail(request->body, request->named_tool, error, "no tool has the name %s",
                       request->named_tool->string);
}

/* ---- the request ----------------------------------------------------------------------------- */

lap_status lap_request_read(const lap_front *front, const char *body, size_t length,
                            const lap_sampling *defaults, lap_request *out, lap_error *error) {
  *out = (lap_request){.front = front, .n = 1, .sampling = *defaults};
  if (length == 0) return lap_fail(error, LAP_ERROR_FORMAT, "request: the body is empty");
  lap_status status = lap_json_parse(body, length, "request", &out->body, error);
  if (status != LAP_OK) return status;
  if (lap_json_root(out->body)->type != LAP_JSON_OBJECT)
    return lap_fail(error, LAP_ERROR_FORMAT, "request: the body must be a JSON object");
  status = front->read(out, error);
  if (status == LAP_OK)
    status = lap_json_get_bool(out->body, lap_json_root(out->body), "ignore_eos", &out->ignore_eos, error);
  return status == LAP_OK ? check_tool_choice(out, error) : status;
}

void lap_request_drop_body(lap_request *request) {
  lap_json_free(request->body);
  lap_json_free(request->converted);
  request->body = request->converted = NULL;
  request->conversation = (lap_chat_input){.thinking = request->conversation.thinking};
  request->named_tool = request->form_source = request->raw = NULL;
}

void lap_request_free(lap_request *request) {
  lap_request_drop_body(request);
  free(request->biases);
  for (int i = 0; i < request->stop_count; i++) free(request->stop[i]);
  for (int i = 0; i < request->prompt_count; i++) {
    free(request->prompt[i].ids);
    free(request->prompt[i].text);
  }
  for (int i = 0; i < request->tool_count; i++) free(request->tool[i]);
  free(request->prompt);
  free(request->tool);
  lap_json_free(request->repeated);
  lap_grammar_release(request->grammar);
  *request = (lap_request){0};
}
