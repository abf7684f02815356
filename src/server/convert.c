/* convert.c: messages written one after the other, the assistant's only when it is known to be over. */
#include "server/convert.h"

#include <string.h>

static void write_text(lap_conversion *c, const char *key, const lap_text *text) {
  if (text->failed) c->text.failed = true;
  lap_write_bytes(&c->writer, key, lap_text_data(text), text->length);
}

static void close_message(lap_conversion *c) {
  if (!c->open) return;
  lap_write_object(&c->writer, NULL);
  lap_write_string(&c->writer, "role", "assistant");
  write_text(c, "content", &c->said);
  if (c->thoughts.length || c->thoughts.failed) write_text(c, "reasoning_content", &c->thoughts);
  if (c->call_count) {
    lap_text_append(&c->calls, "]", 1);
    if (c->calls.failed)
      c->text.failed = true;
    else
      lap_write_raw(&c->writer, "tool_calls", c->calls.data, c->calls.length);
  }
  lap_write_end_object(&c->writer);
  lap_text_free(&c->said);
  lap_text_free(&c->thoughts);
  lap_text_free(&c->calls);
  c->call_count = 0;
  c->open = false;
}

void lap_convert_message(lap_conversion *conversion, const char *role, const char *text, size_t length) {
  close_message(conversion);
  lap_write_object(&conversion->writer, NULL);
  lap_write_string(&conversion->writer, "role", role);
  lap_write_bytes(&conversion->writer, "content", text, length);
  lap_write_end_object(&conversion->writer);
}

void lap_convert_said(lap_conversion *conversion, const char *text, size_t length) {
  conversion->open = true;
  lap_text_append(&conversion->said, text, length);
}

void lap_convert_thought(lap_conversion *conversion, const char *text, size_t length) {
  conversion->open = true;
  lap_text_append(&conversion->thoughts, text, length);
}

void lap_convert_call(lap_conversion *conversion, const lap_json *id, const lap_json *name,
                      const lap_json *arguments) {
  lap_json_writer writer;
  conversion->open = true;
  lap_text_append(&conversion->calls, conversion->call_count++ ? "," : "[", 1);
  lap_write_begin(&writer, &conversion->calls);
  lap_write_object(&writer, NULL);
  if (id) lap_write_value(&writer, "id", id);
  lap_write_string(&writer, "type", "function");
  lap_write_object(&writer, "function");
  lap_write_value(&writer, "name", name);
  if (arguments) lap_write_value(&writer, "arguments", arguments);
  lap_write_end_object(&writer);
  lap_write_end_object(&writer);
  lap_write_end(&writer);
}

void lap_convert_result(lap_conversion *conversion, const lap_json *id, const char *text, size_t length) {
  close_message(conversion);
  lap_write_object(&conversion->writer, NULL);
  lap_write_string(&conversion->writer, "role", "tool");
  if (id) lap_write_value(&conversion->writer, "tool_call_id", id);
  lap_write_bytes(&conversion->writer, "content", text, length);
  lap_write_end_object(&conversion->writer);
}

lap_status lap_convert_fail(const lap_conversion *c, const lap_json *value, const char *what) {
  return lap_json_fail(c->request->body, value, c->error, "%s", what);
}

lap_status lap_convert_string(const lap_conversion *c, const lap_json *object, const char *key,
                              const lap_json **out) {
  return lap_read_string(c->request, object, key, out, c->error);
}

lap_status lap_convert_tool(lap_conversion *c, const lap_json *name, const lap_json *description,
                            const lap_json *parameters) {
  if (name->length == 0 || strlen(name->string) != name->length)
    return lap_convert_fail(c, name, "is no name");
  if (description && description->type != LAP_JSON_STRING && description->type != LAP_JSON_NULL)
    return lap_convert_fail(c, description, "must be a string");
  lap_write_object(&c->writer, NULL);
  lap_write_string(&c->writer, "type", "function");
  lap_write_object(&c->writer, "function");
  lap_write_value(&c->writer, "name", name);
  if (description) lap_write_value(&c->writer, "description", description);
  if (parameters) lap_write_value(&c->writer, "parameters", parameters);
  lap_write_end_object(&c->writer);
  lap_write_end_object(&c->writer);
  return LAP_OK;
}

static lap_status add_tools(lap_conversion *c,
                            lap_status (*add_tool)(lap_conversion *conversion, const lap_json *tool)) {
  const lap_json *tools = lap_body_get(c->request, "tools");
  if (!tools) return LAP_OK;
  if (tools->type != LAP_JSON_ARRAY) return lap_convert_fail(c, tools, "must be a list");
  lap_status status = LAP_OK;
  for (const lap_json *tool = tools->child; tool && status == LAP_OK; tool = tool->next)
    status = add_tool(c, tool);
  return status;
}

/* The document, printed, becomes the request's conversation. */
static lap_status take_document(lap_conversion *c) {
  lap_request *request = c->request;
  if (c->text.failed) return lap_fail(c->error, LAP_ERROR_MEMORY, "out of memory for the conversation");
  lap_status status = lap_json_parse(c->text.data, c->text.length, "request", &request->converted, c->error);
  if (status != LAP_OK) return status;
  const lap_json *root = lap_json_root(request->converted);
  request->chat = true;
  request->conversation.document = request->converted;
  request->conversation.messages = lap_json_get(request->converted, root, "messages");
  return lap_read_tools(request, request->converted, lap_json_get(request->converted, root, "tools"),
                        c->error);
}

lap_status lap_convert_request(lap_request *request, lap_status (*add_messages)(lap_conversion *conversion),
                               lap_status (*add_tool)(lap_conversion *conversion, const lap_json *tool),
                               lap_error *error) {
  lap_conversion c = {.request = request, .error = error};
  lap_write_begin(&c.writer, &c.text);
  lap_write_object(&c.writer, NULL);
  lap_write_array(&c.writer, "messages");
  lap_status status = add_messages(&c);
  if (status == LAP_OK) {
    close_message(&c);
    lap_write_end_array(&c.writer);
    lap_write_array(&c.writer, "tools");
    status = add_tools(&c, add_tool);
  }
  if (status == LAP_OK) {
    lap_write_end_array(&c.writer);
    lap_write_end_object(&c.writer);
  }
  lap_write_end(&c.writer);
  if (status == LAP_OK) status = take_document(&c);
  lap_text_free(&c.text);
  lap_text_free(&c.said);
  lap_text_free(&c.thoughts);
  lap_text_free(&c.calls);
  return status;
}
