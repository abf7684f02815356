/* anthropic.c: /v1/messages. */
#include <string.h>

#include "server/convert.h"
#include "server/front.h"

/* ---- reading --------------------------------------------------------------------------------- */

static lap_status type_of(const lap_conversion *c, const lap_json *block, const lap_json **type) {
  if (block->type != LAP_JSON_OBJECT) return lap_convert_fail(c, block, "must be an object with a type");
  return lap_convert_string(c, block, "type", type);
}

/* Text, or blocks of text, as one text. */
static lap_status join_text(const lap_conversion *c, const lap_json *content, lap_text *out) {
  if (!content || content->type == LAP_JSON_NULL) return LAP_OK;
  if (content->type == LAP_JSON_STRING) {
    lap_text_append(out, content->string, content->length);
    return LAP_OK;
  }
  if (content->type != LAP_JSON_ARRAY)
    return lap_convert_fail(c, content, "must be a string or a list of blocks");
  for (const lap_json *block = content->child; block; block = block->next) {
    const lap_json *type = NULL, *text = NULL;
    lap_status status = type_of(c, block, &type);
    if (status == LAP_OK && !lap_json_is(type, "text"))
      status = lap_json_fail(c->request->body, type, c->error, "blocks of type %s are not supported here",
                             type->string);
    if (status == LAP_OK) status = lap_convert_string(c, block, "text", &text);
    if (status != LAP_OK) return status;
    if (out->length && block != content->child) lap_text_append(out, "\n", 1);
    lap_text_append(out, text->string, text->length);
  }
  return LAP_OK;
}

static lap_status add_result(lap_conversion *c, const lap_json *block) {
  const lap_json *id = NULL;
  lap_text text = {0};
  lap_status status = lap_convert_string(c, block, "tool_use_id", &id);
  if (status == LAP_OK) status = join_text(c, lap_json_get(c->request->body, block, "content"), &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK) lap_convert_result(c, id, lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

/* Blocks of a user: results of tools, and text. Runs of text are one message. */
static lap_status add_user_block(lap_conversion *c, const lap_json *block, lap_text *text) {
  const lap_json *type = NULL, *said = NULL;
  lap_status status = type_of(c, block, &type);
  if (status != LAP_OK) return status;
  if (lap_json_is(type, "text")) {
    status = lap_convert_string(c, block, "text", &said);
    if (status != LAP_OK) return status;
    if (text->length) lap_text_append(text, "\n", 1);
    lap_text_append(text, said->string, said->length);
    return LAP_OK;
  }
  if (!lap_json_is(type, "tool_result"))
    return lap_json_fail(c->request->body, type, c->error, "blocks of type %s are not supported",
                         type->string);
  if (text->length) lap_convert_message(c, "user", text->data, text->length);
  text->length = 0;
  return add_result(c, block);
}

static lap_status add_call(lap_conversion *c, const lap_json *block) {
  const lap_json *id = NULL, *name = NULL, *input = lap_json_get(c->request->body, block, "input");
  lap_status status = lap_convert_string(c, block, "id", &id);
  if (status == LAP_OK) status = lap_convert_string(c, block, "name", &name);
  if (status == LAP_OK && input && input->type != LAP_JSON_OBJECT)
    status = lap_convert_fail(c, input, "must be an object");
  if (status == LAP_OK) lap_convert_call(c, id, name, input);
  return status;
}

static lap_status add_assistant_block(lap_conversion *c, const lap_json *block) {
  const lap_json *type = NULL, *text = NULL;
  lap_status status = type_of(c, block, &type);
  if (status != LAP_OK) return status;
  if (lap_json_is(type, "tool_use")) return add_call(c, block);
  if (lap_json_is(type, "redacted_thinking")) return LAP_OK; /* nothing in it that this model thought */
  bool thought = lap_json_is(type, "thinking");
  if (!thought && !lap_json_is(type, "text"))
    return lap_json_fail(c->request->body, type, c->error, "blocks of type %s are not supported",
                         type->string);
  status = lap_convert_string(c, block, thought ? "thinking" : "text", &text);
  if (status != LAP_OK) return status;
  if (thought)
    lap_convert_thought(c, text->string, text->length);
  else
    lap_convert_said(c, text->string, text->length);
  return LAP_OK;
}

static lap_status add_user(lap_conversion *c, const char *role, const lap_json *content) {
  if (content->type == LAP_JSON_STRING) {
    lap_convert_message(c, role, content->string, content->length);
    return LAP_OK;
  }
  lap_text text = {0};
  lap_status status = LAP_OK;
  for (const lap_json *block = content->child; block && status == LAP_OK; block = block->next)
    status = add_user_block(c, block, &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK && text.length) lap_convert_message(c, role, lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

static lap_status add_assistant(lap_conversion *c, const lap_json *content) {
  lap_convert_said(c, "", 0);
  if (content->type == LAP_JSON_STRING) {
    lap_convert_said(c, content->string, content->length);
    return LAP_OK;
  }
  lap_status status = LAP_OK;
  for (const lap_json *block = content->child; block && status == LAP_OK; block = block->next)
    status = add_assistant_block(c, block);
  return status;
}

static lap_status add_message(lap_conversion *c, const lap_json *message) {
  const lap_json *role = NULL;
  if (message->type != LAP_JSON_OBJECT) return lap_convert_fail(c, message, "must be an object");
  lap_status status = lap_convert_string(c, message, "role", &role);
  if (status != LAP_OK) return status;
  const lap_json *content = lap_json_get(c->request->body, message, "content");
  if (!content) return lap_convert_fail(c, message, "content is missing");
  if (content->type != LAP_JSON_STRING && content->type != LAP_JSON_ARRAY)
    return lap_convert_fail(c, content, "must be a string or a list of blocks");
  if (lap_json_is(role, "assistant")) return add_assistant(c, content);
  if (lap_json_is(role, "user") || lap_json_is(role, "system")) return add_user(c, role->string, content);
  return lap_convert_fail(c, role, "must be user or assistant");
}

static lap_status add_system(lap_conversion *c) {
  const lap_json *system = lap_body_get(c->request, "system");
  lap_text text = {0};
  lap_status status = join_text(c, system, &text);
  if (text.failed) c->text.failed = true;
  if (status == LAP_OK && text.length) lap_convert_message(c, "system", lap_text_data(&text), text.length);
  lap_text_free(&text);
  return status;
}

static lap_status add_messages(lap_conversion *c) {
  const lap_json *messages = lap_body_get(c->request, "messages");
  if (!messages) return lap_fail(c->error, LAP_ERROR_FORMAT, "request: messages: is missing");
  if (messages->type != LAP_JSON_ARRAY) return lap_convert_fail(c, messages, "must be a list");
  if (!messages->child) return lap_convert_fail(c, messages, "holds no message");
  lap_status status = add_system(c);
  for (const lap_json *one = messages->child; one && status == LAP_OK; one = one->next)
    status = add_message(c, one);
  return status;
}

static lap_status add_tool(lap_conversion *c, const lap_json *tool) {
  const lap_json_document *body = c->request->body;
  if (tool->type != LAP_JSON_OBJECT) return lap_convert_fail(c, tool, "must be an object");
  const lap_json *type = lap_json_get(body, tool, "type"), *name = NULL;
  if (type && type->type != LAP_JSON_NULL && !lap_json_is(type, "custom"))
    return lap_convert_fail(c, type, "only tools of the client's own (type custom) are offered here");
  lap_status status = lap_convert_string(c, tool, "name", &name);
  if (status != LAP_OK) return status;
  const lap_json *schema = lap_json_get(body, tool, "input_schema");
  if (schema && schema->type != LAP_JSON_OBJECT) return lap_convert_fail(c, schema, "must be an object");
  const lap_json *description = lap_json_get(body, tool, "description");
  return lap_convert_tool(c, name, description, schema);
}

static lap_status read_tool_choice(lap_request *request, lap_error *error) {
  const lap_json *choice = lap_body_get(request, "tool_choice");
  if (!choice) return LAP_OK;
  const lap_json *type = lap_json_get(request->body, choice, "type");
  if (lap_json_is(type, "any")) {
    request->tool_choice = LAP_TOOLS_REQUIRED;
  } else if (lap_json_is(type, "none")) {
    request->tool_choice = LAP_TOOLS_NONE;
  } else if (lap_json_is(type, "tool")) {
    const lap_json *name = lap_json_get(request->body, choice, "name");
    if (!name || name->type != LAP_JSON_STRING)
      return lap_json_fail(request->body, choice, error, "must name a tool (name)");
    request->tool_choice = LAP_TOOLS_NAMED;
    request->named_tool = name;
  } else if (!lap_json_is(type, "auto")) {
    return lap_json_fail(request->body, type ? type : choice, error,
                         "the type must be auto, any, tool or none");
  }
  return lap_json_get_bool(request->body, choice, "disable_parallel_tool_use", &request->single_call, error);
}

static lap_status read_thinking(lap_request *request, lap_error *error) {
  const lap_json *thinking = lap_body_get(request, "thinking");
  const lap_json *output = lap_body_get(request, "output_config");
  if (output && output->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, output, error, "must be an object");
  if (thinking) {
    const lap_json *type = lap_json_get(request->body, thinking, "type");
    bool off = lap_json_is(type, "disabled");
    if (!off && !lap_json_is(type, "enabled") && !lap_json_is(type, "adaptive"))
      return lap_json_fail(request->body, type ? type : thinking, error,
                           "the type must be enabled, adaptive or disabled");
    request->conversation.thinking = off ? LAP_THINKING_OFF : LAP_THINKING_ON;
  }
  return lap_read_thinking(request, NULL, error);
}

static lap_status read_form(lap_request *request, lap_error *error) {
  const lap_json *format = lap_json_get(request->body, lap_body_get(request, "output_config"), "format");
  return lap_read_form(request, format ? format : lap_body_get(request, "output_format"), error);
}

static lap_status read(lap_request *request, lap_error *error) {
  static const char *const limits[] = {"max_tokens", NULL};
  const lap_json *root = lap_json_root(request->body);
  lap_status status = lap_convert_request(request, add_messages, add_tool, error);
  if (status == LAP_OK) status = lap_json_get_bool(request->body, root, "stream", &request->stream, error);
  if (status == LAP_OK) status = lap_read_max_tokens(request, limits, error);
  if (status == LAP_OK) status = lap_read_stops(request, "stop_sequences", error);
  if (status == LAP_OK) status = lap_read_sampling(request, error);
  if (status == LAP_OK) status = read_thinking(request, error);
  if (status == LAP_OK) status = read_form(request, error);
  return status == LAP_OK ? read_tool_choice(request, error) : status;
}

/* ---- refusals -------------------------------------------------------------------------------- */

static const char *type_of_failure(lap_failure_kind kind) {
  switch (kind) {
    case LAP_FAILURE_AUTHENTICATION:
      return "authentication_error";
    case LAP_FAILURE_FORBIDDEN:
      return "permission_error";
    case LAP_FAILURE_NOT_FOUND:
      return "not_found_error";
    case LAP_FAILURE_TOO_LARGE:
      return "request_too_large";
    case LAP_FAILURE_BUSY:
      return "rate_limit_error";
    case LAP_FAILURE_INTERNAL:
      return "api_error";
    case LAP_FAILURE_UNAVAILABLE:
      return "overloaded_error";
    default:
      return "invalid_request_error";
  }
}

static void write_failure(lap_json_writer *writer, const lap_failure *failure) {
  lap_write_object(writer, NULL);
  lap_write_string(writer, "type", "error");
  lap_write_object(writer, "error");
  lap_write_string(writer, "type", type_of_failure(failure->kind));
  lap_write_string(writer, "message", failure->message);
  lap_write_end_object(writer);
  lap_write_end_object(writer);
}

static void refuse(lap_text *out, const lap_failure *failure) {
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  write_failure(&writer, failure);
  lap_write_end(&writer);
}

static void broken(lap_answer *answer, const lap_failure *failure) {
  lap_json_writer writer;
  lap_event_begin(answer, "error", &writer);
  write_failure(&writer, failure);
  lap_event_end(answer, &writer);
}

/* ---- printing -------------------------------------------------------------------------------- */

static const char *stop_reason(const lap_choice *choice) {
  static const char *const words[] = {[LAP_FINISH_NONE] = NULL,
                                      [LAP_FINISH_EOS] = "end_turn",
                                      [LAP_FINISH_STOP] = "stop_sequence",
                                      [LAP_FINISH_LENGTH] = "max_tokens",
                                      [LAP_FINISH_CALLS] = "tool_use",
                                      [LAP_FINISH_CALLER] = "end_turn"};
  return words[choice->finish];
}

/* Tokens that came out of the cache are not counted as input here. */
static void write_usage(lap_json_writer *writer, const lap_answer *answer, int64_t tokens) {
  const lap_usage *usage = &answer->usage;
  lap_write_object(writer, "usage");
  lap_write_integer(writer, "input_tokens", usage->prompt_tokens - usage->cached_tokens);
  lap_write_integer(writer, "cache_creation_input_tokens", 0);
  lap_write_integer(writer, "cache_read_input_tokens", usage->cached_tokens);
  lap_write_integer(writer, "output_tokens", tokens);
  lap_write_end_object(writer);
}

static void write_head(lap_json_writer *writer, const lap_answer *answer) {
  char id[LAP_ID_BYTES + 8] = "msg_";
  lap_write_string(writer, "id", strcat(id, answer->id));
  lap_write_string(writer, "type", "message");
  lap_write_string(writer, "role", "assistant");
  lap_write_string(writer, "model", answer->served->name);
}

/* A block as it begins (empty), or with all that is in it. */
static void write_block(lap_json_writer *writer, const char *key, const lap_part *part, bool full) {
  char id[LAP_ID_BYTES + 8] = "toolu_";
  const char *text = full ? lap_text_data(&part->text) : "";
  size_t length = full ? part->text.length : 0;
  lap_write_object(writer, key);
  switch (part->kind) {
    case LAP_PIECE_TEXT:
      lap_write_string(writer, "type", "text");
      lap_write_bytes(writer, "text", text, length);
      break;
    case LAP_PIECE_THOUGHT:
      lap_write_string(writer, "type", "thinking");
      lap_write_bytes(writer, "thinking", text, length);
      lap_write_string(writer, "signature", "");
      break;
    case LAP_PIECE_CALL:
      lap_write_string(writer, "type", "tool_use");
      lap_write_string(writer, "id", strcat(id, part->id));
      lap_write_string(writer, "name", part->name);
      lap_write_raw(writer, "input", full ? text : "{}", full ? length : 2);
      break;
  }
  lap_write_end_object(writer);
}

static void whole(const lap_answer *answer, lap_text *out) {
  const lap_choice *choice = &answer->choice[0];
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  lap_write_object(&writer, NULL);
  write_head(&writer, answer);
  lap_write_array(&writer, "content");
  for (int i = 0; i < choice->parts; i++) write_block(&writer, NULL, &choice->part[i], true);
  lap_write_end_array(&writer);
  lap_write_string(&writer, "stop_reason", stop_reason(choice));
  lap_write_string(&writer, "stop_sequence", choice->stop_string);
  write_usage(&writer, answer, answer->usage.tokens);
  lap_write_timings(&writer, answer);
  lap_write_end_object(&writer);
  lap_write_end(&writer);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void begin_event(lap_answer *answer, const char *type, lap_json_writer *writer) {
  lap_event_begin(answer, type, writer);
  lap_write_object(writer, NULL);
  lap_write_string(writer, "type", type);
}

static void end_event(lap_answer *answer, lap_json_writer *writer) {
  lap_write_end_object(writer);
  lap_event_end(answer, writer);
}

static void begin(lap_answer *answer) {
  lap_json_writer writer;
  begin_event(answer, "message_start", &writer);
  lap_write_object(&writer, "message");
  write_head(&writer, answer);
  lap_write_array(&writer, "content");
  lap_write_end_array(&writer);
  lap_write_null(&writer, "stop_reason");
  lap_write_null(&writer, "stop_sequence");
  write_usage(&writer, answer, 0);
  lap_write_end_object(&writer);
  end_event(answer, &writer);
}

static int index_of(const lap_choice *choice, const lap_part *part) {
  return (int)(part - choice->part);
}

static void opened(lap_answer *answer, lap_choice *choice, lap_part *part) {
  lap_json_writer writer;
  begin_event(answer, "content_block_start", &writer);
  lap_write_integer(&writer, "index", index_of(choice, part));
  write_block(&writer, "content_block", part, false);
  end_event(answer, &writer);
}

static void write_delta(lap_answer *answer, const lap_choice *choice, const lap_part *part, const char *type,
                        const char *key, const char *text, size_t length) {
  lap_json_writer writer;
  begin_event(answer, "content_block_delta", &writer);
  lap_write_integer(&writer, "index", index_of(choice, part));
  lap_write_object(&writer, "delta");
  lap_write_string(&writer, "type", type);
  lap_write_bytes(&writer, key, text, length);
  lap_write_end_object(&writer);
  end_event(answer, &writer);
}

static void added(lap_answer *answer, lap_choice *choice, lap_part *part, const char *text, size_t length,
                  size_t first, size_t notes) {
  static const char *const types[][2] = {[LAP_PIECE_TEXT] = {"text_delta", "text"},
                                         [LAP_PIECE_THOUGHT] = {"thinking_delta", "thinking"},
                                         [LAP_PIECE_CALL] = {"input_json_delta", "partial_json"}};
  (void)first;
  (void)notes;
  write_delta(answer, choice, part, types[part->kind][0], types[part->kind][1], text, length);
}

static void closed(lap_answer *answer, lap_choice *choice, lap_part *part) {
  lap_json_writer writer;
  if (part->kind == LAP_PIECE_THOUGHT)
    write_delta(answer, choice, part, "signature_delta", "signature", "", 0);
  begin_event(answer, "content_block_stop", &writer);
  lap_write_integer(&writer, "index", index_of(choice, part));
  end_event(answer, &writer);
}

static void end(lap_answer *answer) {
  const lap_choice *choice = &answer->choice[0];
  lap_json_writer writer;
  begin_event(answer, "message_delta", &writer);
  lap_write_object(&writer, "delta");
  lap_write_string(&writer, "stop_reason", stop_reason(choice));
  lap_write_string(&writer, "stop_sequence", choice->stop_string);
  lap_write_end_object(&writer);
  write_usage(&writer, answer, answer->usage.tokens);
  lap_write_timings(&writer, answer);
  end_event(answer, &writer);
  begin_event(answer, "message_stop", &writer);
  end_event(answer, &writer);
}

const lap_front lap_front_messages = {
    .endpoint = "/v1/messages",
    .read = read,
    .refuse = refuse,
    .whole = whole,
    .begin = begin,
    .opened = opened,
    .added = added,
    .closed = closed,
    .end = end,
    .broken = broken,
};
