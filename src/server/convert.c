/* convert.c: messages written one after the other, the assistant's only when it is known to be over. */
#include "server/convert.h"

void lap_convert_begin(lap_conversion *conversion) {
  *conversion = (lap_conversion){0};
  lap_write_begin(&conversion->writer, &conversion->text);
  lap_write_object(&conversion->writer, NULL);
  lap_write_array(&conversion->writer, "messages");
}

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

void lap_convert_tools(lap_conversion *conversion) {
  close_message(conversion);
  lap_write_end_array(&conversion->writer);
  lap_write_array(&conversion->writer, "tools");
}

void lap_convert_tool(lap_conversion *conversion, const lap_json *name, const lap_json *description,
                      const lap_json *parameters) {
  lap_write_object(&conversion->writer, NULL);
  lap_write_string(&conversion->writer, "type", "function");
  lap_write_object(&conversion->writer, "function");
  lap_write_value(&conversion->writer, "name", name);
  if (description) lap_write_value(&conversion->writer, "description", description);
  if (parameters) lap_write_value(&conversion->writer, "parameters", parameters);
  lap_write_end_object(&conversion->writer);
  lap_write_end_object(&conversion->writer);
}

lap_status lap_convert_end(lap_conversion *conversion, lap_request *request, lap_error *error) {
  lap_write_end_array(&conversion->writer);
  lap_write_end_object(&conversion->writer);
  lap_write_end(&conversion->writer);
  if (conversion->text.failed) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the conversation");
  lap_status status =
      lap_json_parse(conversion->text.data, conversion->text.length, "request", &request->converted, error);
  if (status != LAP_OK) return status;
  const lap_json *root = lap_json_root(request->converted);
  request->chat = true;
  request->conversation.document = request->converted;
  request->conversation.messages = lap_json_get(request->converted, root, "messages");
  return lap_read_tools(request, request->converted, lap_json_get(request->converted, root, "tools"), error);
}

void lap_convert_drop(lap_conversion *conversion) {
  lap_write_end(&conversion->writer);
  lap_text_free(&conversion->text);
  lap_text_free(&conversion->said);
  lap_text_free(&conversion->thoughts);
  lap_text_free(&conversion->calls);
}
