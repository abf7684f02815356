/* openai_responses.c: /v1/responses.
 *
 * Nothing is stored: a conversation is sent whole each time, as with `store: false`. Thoughts are items of
 * type reasoning with their text in content; text is an item of type message with one part; a call of a tool
 * is an item of type function_call. */
#include <string.h>

#include "server/convert.h"
#include "server/front.h"

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_text_part(const lap_json *type) {
  static const char *const types[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (lap_json_is(type, types[i])) return true;
  return false;
}

/* A string, or a list of parts with texts, as one text. */
static lap_status join_text(const lap_conversion *c, const lap_json *content, lap_text *out) {
  if (!content || content->type == LAP_JSON_NULL) return LAP_OK;
  if (content->type == LAP_JSON_STRING) {
    lap_text_append(out, content->string, content->length);
    return LAP_OK;
  }
  if (content->type != LAP_JSON_ARRAY)
    return lap_convert_fail(c, content, "must be a string or a list of parts");
  for (const lap_json *part = content->child; part; part = part->next) {
    const lap_json *type = NULL, *text = NULL;
    if (part->type != LAP_JSON_OBJECT) return lap_convert_fail(c, part, "must be an object with a type");
    lap_status status = lap_convert_string(c, part, "type", &type);
    bool refusal = lap_json_is(type, "refusal");
    if (status == LAP_OK && !refusal && !is_text_part(type))
      status = lap_json_fail(c->request->body, type, c->error,
                             "parts of type %s are not supported, only text", type->string);
    if (status == LAP_OK) status = lap_convert_string(c, part, refusal ? "refusal" : "text", &text);
    if (status != LAP_OK) return status;
    lap_text_append(out, text->string, text->length);
  }
  return LAP_OK;
}

static lap_status add_message(lap_conversion *c, const lap_json *item) {
  const lap_json *role = NULL;
  lap_text text = {0};
  lap_status status = lap_convert_string(c, item, "role", &role);
  if (status == LAP_OK && !lap_json_is(role, "user") && !lap_json_is(role, "assistant") &&
      !lap_json_is(role, "system") && !lap_json_is(role, "developer"))
    status = lap_convert_fail(c, role, "must be user, assistant, system or developer");
  if (status == LAP_OK) status = join_text(c, lap_json_get(c->request->body, item, "content"), &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK && lap_json_is(role, "assistant"))
    lap_convert_said(c, lap_text_data(&text), text.length);
  else if (status == LAP_OK)
    lap_convert_message(c, role->string, lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

static lap_status add_call(lap_conversion *c, const lap_json *item) {
  const lap_json *id = NULL, *name = NULL, *arguments = NULL;
  lap_status status = lap_convert_string(c, item, "call_id", &id);
  if (status == LAP_OK) status = lap_convert_string(c, item, "name", &name);
  if (status == LAP_OK) status = lap_convert_string(c, item, "arguments", &arguments);
  if (status == LAP_OK) lap_convert_call(c, id, name, arguments);
  return status;
}

static lap_status add_result(lap_conversion *c, const lap_json *item) {
  const lap_json *id = NULL;
  lap_text text = {0};
  lap_status status = lap_convert_string(c, item, "call_id", &id);
  if (status == LAP_OK) status = join_text(c, lap_json_get(c->request->body, item, "output"), &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK) lap_convert_result(c, id, lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

static lap_status add_reasoning(lap_conversion *c, const lap_json *item) {
  lap_text text = {0};
  const lap_json *content = lap_json_get(c->request->body, item, "content");
  bool empty = !content || content->type == LAP_JSON_NULL || !content->child;
  lap_status status = join_text(c, empty ? lap_json_get(c->request->body, item, "summary") : content, &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK && text.length) lap_convert_thought(c, lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

static lap_status add_item(lap_conversion *c, const lap_json *item) {
  if (item->type != LAP_JSON_OBJECT) return lap_convert_fail(c, item, "must be an object");
  const lap_json *type = lap_json_get(c->request->body, item, "type");
  if (!type || lap_json_is(type, "message")) return add_message(c, item);
  if (lap_json_is(type, "function_call")) return add_call(c, item);
  if (lap_json_is(type, "function_call_output")) return add_result(c, item);
  if (lap_json_is(type, "reasoning")) return add_reasoning(c, item);
  if (type->type != LAP_JSON_STRING) return lap_convert_fail(c, type, "must be a string");
  return lap_json_fail(c->request->body, type, c->error, "items of type %s are not supported", type->string);
}

static lap_status add_input(lap_conversion *c) {
  const lap_json *instructions = lap_body_get(c->request, "instructions");
  const lap_json *input = lap_body_get(c->request, "input");
  if (instructions && instructions->type != LAP_JSON_STRING)
    return lap_convert_fail(c, instructions, "must be a string");
  if (instructions) lap_convert_message(c, "system", instructions->string, instructions->length);
  if (!input) return lap_fail(c->error, LAP_ERROR_FORMAT, "request: input: is missing");
  if (input->type == LAP_JSON_STRING) {
    lap_convert_message(c, "user", input->string, input->length);
    return LAP_OK;
  }
  if (input->type != LAP_JSON_ARRAY) return lap_convert_fail(c, input, "must be a string or a list of items");
  if (!input->child) return lap_convert_fail(c, input, "holds no item");
  lap_status status = LAP_OK;
  for (const lap_json *item = input->child; item && status == LAP_OK; item = item->next)
    status = add_item(c, item);
  return status;
}

static lap_status add_tool(lap_conversion *c, const lap_json *tool) {
  const lap_json_document *body = c->request->body;
  const lap_json *type = NULL, *name = NULL;
  if (tool->type != LAP_JSON_OBJECT) return lap_convert_fail(c, tool, "must be an object");
  lap_status status = lap_convert_string(c, tool, "type", &type);
  if (status == LAP_OK && !lap_json_is(type, "function"))
    return lap_convert_fail(c, type, "only tools of type function are offered here");
  if (status == LAP_OK) status = lap_convert_string(c, tool, "name", &name);
  if (status != LAP_OK) return status;
  const lap_json *parameters = lap_json_get(body, tool, "parameters");
  if (parameters && parameters->type != LAP_JSON_OBJECT && parameters->type != LAP_JSON_NULL)
    return lap_convert_fail(c, parameters, "must be an object");
  const lap_json *description = lap_json_get(body, tool, "description");
  return lap_convert_tool(c, name, description, parameters);
}

static lap_status read_tool_choice(lap_request *request, lap_error *error) {
  const lap_json *choice = lap_body_get(request, "tool_choice");
  bool parallel = true;
  lap_status status =
      lap_json_get_bool(request->body, lap_json_root(request->body), "parallel_tool_calls", &parallel, error);
  request->single_call = !parallel;
  if (status != LAP_OK || !choice) return status;
  if (choice->type == LAP_JSON_OBJECT) {
    const lap_json *name = lap_json_get(request->body, choice, "name");
    if (!lap_json_is(lap_json_get(request->body, choice, "type"), "function") || !name ||
        name->type != LAP_JSON_STRING)
      return lap_json_fail(request->body, choice, error, "an object must name a function (type, name)");
    request->tool_choice = LAP_TOOLS_NAMED;
    request->named_tool = name;
    return LAP_OK;
  }
  if (lap_json_is(choice, "none"))
    request->tool_choice = LAP_TOOLS_NONE;
  else if (lap_json_is(choice, "required"))
    request->tool_choice = LAP_TOOLS_REQUIRED;
  else if (!lap_json_is(choice, "auto"))
    return lap_json_fail(request->body, choice, error, "must be auto, none, required or an object");
  return LAP_OK;
}

static lap_status read_logprobs(lap_request *request, lap_error *error) {
  const lap_json *include = lap_body_get(request, "include");
  int64_t top = 0;
  if (include && include->type != LAP_JSON_ARRAY)
    return lap_json_fail(request->body, include, error, "must be a list");
  for (const lap_json *one = include ? include->child : NULL; one; one = one->next)
    if (lap_json_is(one, "message.output_text.logprobs")) request->logprobs = true;
  lap_status status = lap_json_get_integer(request->body, lap_json_root(request->body), "top_logprobs", 0,
                                           LAP_MAX_TOP_LOGPROBS, &top, error);
  request->top_logprobs = (int)top;
  if (top > 0) request->logprobs = true;
  return status;
}

/* What needs a store that is not there. */
static lap_status check_unsupported(const lap_request *request, lap_error *error) {
  static const char *const keys[] = {"previous_response_id", "conversation", "prompt"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const lap_json *value = lap_body_get(request, keys[i]);
    if (value)
      return lap_json_fail(request->body, value, error,
                           "nothing is stored here; send the whole conversation");
  }
  bool background = false;
  lap_status status =
      lap_json_get_bool(request->body, lap_json_root(request->body), "background", &background, error);
  if (status == LAP_OK && background)
    status = lap_fail(error, LAP_ERROR_FORMAT, "request: background: is not supported");
  return status;
}

/* A member that the answer repeats, or its default. */
static void repeat(const lap_request *request, lap_json_writer *writer, const char *key, const char *other) {
  const lap_json *value = lap_body_get(request, key);
  if (value)
    lap_write_value(writer, key, value);
  else
    lap_write_raw(writer, key, other, strlen(other));
}

static lap_status note_repeated(lap_request *request, lap_error *error) {
  static const char *const members[][2] = {{"instructions", "null"},
                                           {"max_output_tokens", "null"},
                                           {"metadata", "{}"},
                                           {"parallel_tool_calls", "true"},
                                           {"reasoning", "{\"effort\":null,\"summary\":null}"},
                                           {"temperature", "null"},
                                           {"text", "{\"format\":{\"type\":\"text\"}}"},
                                           {"tool_choice", "\"auto\""},
                                           {"tools", "[]"},
                                           {"top_p", "null"},
                                           {"truncation", "\"disabled\""},
                                           {"user", "null"}};
  lap_text text = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &text);
  lap_write_object(&writer, NULL);
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    repeat(request, &writer, members[i][0], members[i][1]);
  lap_write_end_object(&writer);
  lap_write_end(&writer);
  lap_status status = text.failed
                          ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the request")
                          : lap_json_parse(text.data, text.length, "request", &request->repeated, error);
  lap_text_free(&text);
  return status;
}

static lap_status read_text(lap_request *request, lap_error *error) {
  const lap_json *text = lap_body_get(request, "text");
  if (text && text->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, text, error, "must be an object");
  return lap_read_form(request, lap_json_get(request->body, text, "format"), error);
}

static lap_status read_reasoning(lap_request *request, lap_error *error) {
  const lap_json *reasoning = lap_body_get(request, "reasoning");
  if (reasoning && reasoning->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, reasoning, error, "must be an object");
  return lap_read_thinking(request, lap_json_get(request->body, reasoning, "effort"), error);
}

static lap_status read(lap_request *request, lap_error *error) {
  static const char *const limits[] = {"max_output_tokens", "max_tokens", NULL};
  const lap_json *root = lap_json_root(request->body);
  lap_status status = check_unsupported(request, error);
  if (status == LAP_OK) status = lap_convert_request(request, add_input, add_tool, error);
  if (status == LAP_OK) status = lap_json_get_bool(request->body, root, "stream", &request->stream, error);
  if (status == LAP_OK) status = lap_read_max_tokens(request, limits, error);
  if (status == LAP_OK) status = lap_read_stops(request, "stop", error);
  if (status == LAP_OK) status = lap_read_sampling(request, error);
  if (status == LAP_OK) status = read_logprobs(request, error);
  if (status == LAP_OK) status = read_reasoning(request, error);
  if (status == LAP_OK) status = read_text(request, error);
  if (status == LAP_OK) status = read_tool_choice(request, error);
  return status == LAP_OK ? note_repeated(request, error) : status;
}

/* ---- items ----------------------------------------------------------------------------------- */

static const char *prefix_of(lap_piece_kind kind) {
  static const char *const prefixes[] = {
      [LAP_PIECE_TEXT] = "msg_", [LAP_PIECE_THOUGHT] = "rs_", [LAP_PIECE_CALL] = "fc_"};
  return prefixes[kind];
}

static void write_id(lap_json_writer *writer, const char *key, const char *prefix, const char *id) {
  char joined[LAP_ID_BYTES + 16];
  strcpy(joined, prefix);
  lap_write_string(writer, key, strcat(joined, id));
}

static void write_text_part(lap_json_writer *writer, const char *key, const lap_answer *answer,
                            const lap_choice *choice, const lap_part *part, bool full) {
  bool thought = part->kind == LAP_PIECE_THOUGHT;
  bool some = full && part->text.data;
  lap_write_object(writer, key);
  lap_write_string(writer, "type", thought ? "reasoning_text" : "output_text");
  lap_write_bytes(writer, "text", some ? part->text.data : "", some ? part->text.length : 0);
  if (!thought) {
    lap_write_array(writer, "annotations");
    lap_write_end_array(writer);
    lap_write_array(writer, "logprobs");
    if (full) lap_write_notes(writer, answer, choice, part->first_note, part->notes);
    lap_write_end_array(writer);
  }
  lap_write_end_object(writer);
}

/* An item as it begins, or with all that is in it; `status` is then completed or incomplete. */
static void write_item(lap_json_writer *writer, const char *key, const lap_answer *answer,
                       const lap_choice *choice, const lap_part *part, const char *status) {
  static const char *const types[] = {
      [LAP_PIECE_TEXT] = "message", [LAP_PIECE_THOUGHT] = "reasoning", [LAP_PIECE_CALL] = "function_call"};
  bool full = strcmp(status, "in_progress") != 0;
  lap_write_object(writer, key);
  write_id(writer, "id", prefix_of(part->kind), part->id);
  lap_write_string(writer, "type", types[part->kind]);
  lap_write_string(writer, "status", status);
  if (part->kind == LAP_PIECE_CALL) {
    write_id(writer, "call_id", "call_", part->id);
    lap_write_string(writer, "name", part->name);
    lap_write_bytes(writer, "arguments", full ? lap_text_data(&part->text) : "",
                    full ? part->text.length : 0);
  } else {
    if (part->kind == LAP_PIECE_TEXT) lap_write_string(writer, "role", "assistant");
    if (part->kind == LAP_PIECE_THOUGHT) {
      lap_write_array(writer, "summary");
      lap_write_end_array(writer);
    }
    lap_write_array(writer, "content");
    if (full) write_text_part(writer, NULL, answer, choice, part, true);
    lap_write_end_array(writer);
  }
  lap_write_end_object(writer);
}

/* A part that a limit cut off is the last one, and no call: calls are there whole or not at all. */
static const char *status_of_part(const lap_choice *choice, const lap_part *part) {
  bool last = part == &choice->part[choice->parts - 1];
  return last && choice->finish == LAP_FINISH_LENGTH && part->kind != LAP_PIECE_CALL ? "incomplete"
                                                                                     : "completed";
}

/* ---- responses ------------------------------------------------------------------------------- */

static void write_usage(lap_json_writer *writer, const lap_answer *answer) {
  const lap_usage *usage = &answer->usage;
  lap_write_object(writer, "usage");
  lap_write_integer(writer, "input_tokens", usage->prompt_tokens);
  lap_write_object(writer, "input_tokens_details");
  lap_write_integer(writer, "cached_tokens", usage->cached_tokens);
  lap_write_end_object(writer);
  lap_write_integer(writer, "output_tokens", usage->tokens);
  lap_write_object(writer, "output_tokens_details");
  lap_write_integer(writer, "reasoning_tokens", usage->thought_tokens);
  lap_write_end_object(writer);
  lap_write_integer(writer, "total_tokens", usage->prompt_tokens + usage->tokens);
  lap_write_end_object(writer);
}

static void write_output(lap_json_writer *writer, const lap_answer *answer) {
  const lap_choice *choice = &answer->choice[0];
  lap_text said = {0};
  lap_write_array(writer, "output");
  for (int i = 0; i < choice->parts; i++) {
    const lap_part *part = &choice->part[i];
    write_item(writer, NULL, answer, choice, part, status_of_part(choice, part));
    if (part->kind == LAP_PIECE_TEXT) lap_text_append(&said, lap_text_data(&part->text), part->text.length);
  }
  lap_write_end_array(writer);
  if (said.failed) writer->text->failed = true;
  lap_write_bytes(writer, "output_text", lap_text_data(&said), said.length);
  lap_text_free(&said);
}

static void write_error(lap_json_writer *writer, const lap_failure *failure) {
  if (!failure) {
    lap_write_null(writer, "error");
    return;
  }
  lap_write_object(writer, "error");
  lap_write_string(writer, "code", "server_error");
  lap_write_string(writer, "message", failure->message);
  lap_write_end_object(writer);
}

static void write_repeated(lap_json_writer *writer, const lap_answer *answer) {
  const lap_json *repeated = lap_json_root(answer->request.repeated);
  for (const lap_json *one = repeated->child; one; one = one->next) lap_write_value(writer, one->key, one);
}

static void write_response(lap_json_writer *writer, const char *key, const lap_answer *answer,
                           const char *status, const lap_failure *failure) {
  bool over = strcmp(status, "in_progress") != 0;
  bool cut = strcmp(status, "incomplete") == 0;
  lap_write_object(writer, key);
  write_id(writer, "id", "resp_", answer->id);
  lap_write_string(writer, "object", "response");
  lap_write_integer(writer, "created_at", answer->created);
  lap_write_string(writer, "status", status);
  lap_write_boolean(writer, "background", false);
  write_error(writer, failure);
  if (cut) {
    lap_write_object(writer, "incomplete_details");
    lap_write_string(writer, "reason", "max_output_tokens");
    lap_write_end_object(writer);
  } else {
    lap_write_null(writer, "incomplete_details");
  }
  lap_write_string(writer, "model", answer->served->name);
  if (over) {
    write_output(writer, answer);
    write_usage(writer, answer);
    lap_write_timings(writer, answer);
  } else {
    lap_write_array(writer, "output");
    lap_write_end_array(writer);
    lap_write_null(writer, "usage");
  }
  lap_write_null(writer, "previous_response_id");
  lap_write_boolean(writer, "store", false);
  write_repeated(writer, answer);
  lap_write_end_object(writer);
}

static const char *final_status(const lap_answer *answer) {
  return answer->choice[0].finish == LAP_FINISH_LENGTH ? "incomplete" : "completed";
}

static void whole(const lap_answer *answer, lap_text *out) {
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  write_response(&writer, NULL, answer, final_status(answer), NULL);
  lap_write_end(&writer);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void begin_event(lap_answer *answer, const char *type, lap_json_writer *writer) {
  lap_event_begin(answer, type, writer);
  lap_write_object(writer, NULL);
  lap_write_string(writer, "type", type);
  lap_write_integer(writer, "sequence_number", answer->sequence++);
}

static void end_event(lap_answer *answer, lap_json_writer *writer) {
  lap_write_end_object(writer);
  lap_event_end(answer, writer);
}

static void response_event(lap_answer *answer, const char *type, const char *status,
                           const lap_failure *failure) {
  lap_json_writer writer;
  begin_event(answer, type, &writer);
  write_response(&writer, "response", answer, status, failure);
  end_event(answer, &writer);
}

static void begin(lap_answer *answer) {
  response_event(answer, "response.created", "in_progress", NULL);
  response_event(answer, "response.in_progress", "in_progress", NULL);
}

static int index_of(const lap_choice *choice, const lap_part *part) {
  return (int)(part - choice->part);
}

/* An event about an item, or about its only part. */
static void begin_item_event(lap_answer *answer, const char *type, const lap_choice *choice,
                             const lap_part *part, bool of_part, lap_json_writer *writer) {
  begin_event(answer, type, writer);
  write_id(writer, "item_id", prefix_of(part->kind), part->id);
  lap_write_integer(writer, "output_index", index_of(choice, part));
  if (of_part) lap_write_integer(writer, "content_index", 0);
}

static void item_event(lap_answer *answer, const char *type, const lap_choice *choice, const lap_part *part,
                       const char *status) {
  lap_json_writer writer;
  begin_event(answer, type, &writer);
  lap_write_integer(&writer, "output_index", index_of(choice, part));
  write_item(&writer, "item", answer, choice, part, status);
  end_event(answer, &writer);
}

static void part_event(lap_answer *answer, const char *type, const lap_choice *choice, const lap_part *part,
                       bool full) {
  lap_json_writer writer;
  begin_item_event(answer, type, choice, part, true, &writer);
  write_text_part(&writer, "part", answer, choice, part, full);
  end_event(answer, &writer);
}

static void opened(lap_answer *answer, lap_choice *choice, lap_part *part) {
  item_event(answer, "response.output_item.added", choice, part, "in_progress");
  if (part->kind != LAP_PIECE_CALL) part_event(answer, "response.content_part.added", choice, part, false);
}

static void added(lap_answer *answer, lap_choice *choice, lap_part *part, const char *text, size_t length,
                  size_t first, size_t notes) {
  static const char *const types[] = {[LAP_PIECE_TEXT] = "response.output_text.delta",
                                      [LAP_PIECE_THOUGHT] = "response.reasoning_text.delta",
                                      [LAP_PIECE_CALL] = "response.function_call_arguments.delta"};
  lap_json_writer writer;
  begin_item_event(answer, types[part->kind], choice, part, part->kind != LAP_PIECE_CALL, &writer);
  lap_write_bytes(&writer, "delta", text, length);
  if (part->kind == LAP_PIECE_TEXT) {
    lap_write_array(&writer, "logprobs");
    lap_write_notes(&writer, answer, choice, first, notes);
    lap_write_end_array(&writer);
  }
  end_event(answer, &writer);
}

static void closed(lap_answer *answer, lap_choice *choice, lap_part *part) {
  static const char *const types[] = {[LAP_PIECE_TEXT] = "response.output_text.done",
                                      [LAP_PIECE_THOUGHT] = "response.reasoning_text.done",
                                      [LAP_PIECE_CALL] = "response.function_call_arguments.done"};
  const char *text = lap_text_data(&part->text);
  bool call = part->kind == LAP_PIECE_CALL;
  lap_json_writer writer;
  begin_item_event(answer, types[part->kind], choice, part, !call, &writer);
  if (call) lap_write_string(&writer, "name", part->name);
  lap_write_bytes(&writer, call ? "arguments" : "text", text, part->text.length);
  if (part->kind == LAP_PIECE_TEXT) {
    lap_write_array(&writer, "logprobs");
    lap_write_notes(&writer, answer, choice, part->first_note, part->notes);
    lap_write_end_array(&writer);
  }
  end_event(answer, &writer);
  if (!call) part_event(answer, "response.content_part.done", choice, part, true);
  item_event(answer, "response.output_item.done", choice, part, status_of_part(choice, part));
}

static void end(lap_answer *answer) {
  bool cut = answer->choice[0].finish == LAP_FINISH_LENGTH;
  response_event(answer, cut ? "response.incomplete" : "response.completed", final_status(answer), NULL);
}

static void broken(lap_answer *answer, const lap_failure *failure) {
  response_event(answer, "response.failed", "failed", failure);
}

const lap_front lap_front_responses = {
    .endpoint = "/v1/responses",
    .read = read,
    .refuse = lap_openai_refuse,
    .whole = whole,
    .begin = begin,
    .opened = opened,
    .added = added,
    .closed = closed,
    .end = end,
    .broken = broken,
};
