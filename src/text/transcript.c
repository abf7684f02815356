/* transcript.c: messages are printed once, when they are added, and joined when the conversation is. */
#include "text/transcript.h"

#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/json_write.h"

static lap_status out_of_memory(lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the conversation");
}

/* ---- messages -------------------------------------------------------------------------------- */

static lap_status check_text(const char *text, size_t length, lap_error *error) {
  const uint8_t *bad = u8_check((const uint8_t *)text, length);
  if (!bad) return LAP_OK;
  return lap_fail(error, LAP_ERROR_FORMAT, "the text is not UTF-8 at byte %zu",
                  (size_t)(bad - (const uint8_t *)text));
}

static lap_status take(lap_text *json, lap_message *out, lap_error *error) {
  if (lap_text_take(json, &out->json, &out->length, error) == LAP_OK) return LAP_OK;
  return out_of_memory(error);
}

static lap_status make_room(lap_transcript *transcript, lap_error *error) {
  if (transcript->count < transcript->capacity) return LAP_OK;
  int capacity = 2 * transcript->capacity + 16;
  lap_message *grown = realloc(transcript->message, (size_t)capacity * sizeof *grown);
  if (!grown) return out_of_memory(error);
  transcript->message = grown;
  transcript->capacity = capacity;
  return LAP_OK;
}

/* Takes over a text that holds a message. */
static lap_status add(lap_transcript *transcript, lap_text *json, lap_error *error) {
  lap_message message = {0};
  lap_status status = take(json, &message, error);
  if (status == LAP_OK) status = make_room(transcript, error);
  if (status == LAP_OK)
    transcript->message[transcript->count++] = message;
  else
    free(message.json);
  return status;
}

static void begin_message(lap_json_writer *writer, lap_text *json, const char *role) {
  lap_write_begin(writer, json);
  lap_write_object(writer, NULL);
  lap_write_string(writer, "role", role);
}

static void end_message(lap_json_writer *writer) {
  lap_write_end_object(writer);
  lap_write_end(writer);
}

static void write_plain(lap_text *json, const char *role, const char *text, size_t length) {
  lap_json_writer writer;
  begin_message(&writer, json, role);
  lap_write_bytes(&writer, "content", text, length);
  end_message(&writer);
}

lap_status lap_transcript_add_user(lap_transcript *transcript, const char *text, size_t length,
                                   lap_error *error) {
  lap_text json = {0};
  lap_status status = check_text(text, length, error);
  if (status != LAP_OK) return status;
  write_plain(&json, "user", text, length);
  return add(transcript, &json, error);
}

static void write_calls(lap_json_writer *writer, const lap_said *said) {
  lap_write_array(writer, "tool_calls");
  for (int i = 0; i < said->calls; i++) {
    lap_write_object(writer, NULL);
    lap_write_string(writer, "id", said->call[i].id);
    lap_write_string(writer, "type", "function");
    lap_write_object(writer, "function");
    lap_write_string(writer, "name", said->call[i].name);
    lap_write_string(writer, "arguments", said->call[i].arguments);
    lap_write_end_object(writer);
    lap_write_end_object(writer);
  }
  lap_write_end_array(writer);
}

lap_status lap_transcript_add_answer(lap_transcript *transcript, const lap_said *said, lap_error *error) {
  lap_text json = {0};
  lap_json_writer writer;
  begin_message(&writer, &json, "assistant");
  if (said->calls && said->content.length == 0)
    lap_write_null(&writer, "content");
  else
    lap_write_bytes(&writer, "content", lap_text_data(&said->content), said->content.length);
  if (said->reasoning.length)
    lap_write_bytes(&writer, "reasoning_content", said->reasoning.data, said->reasoning.length);
  if (said->calls) write_calls(&writer, said);
  end_message(&writer);
  return add(transcript, &json, error);
}

lap_status lap_transcript_add_result(lap_transcript *transcript, const lap_call *call, const char *text,
                                     size_t length, lap_error *error) {
  lap_text json = {0};
  lap_json_writer writer;
  lap_status status = check_text(text, length, error);
  if (status != LAP_OK) return status;
  begin_message(&writer, &json, "tool");
  lap_write_string(&writer, "tool_call_id", call->id);
  lap_write_string(&writer, "name", call->name);
  lap_write_bytes(&writer, "content", text, length);
  end_message(&writer);
  return add(transcript, &json, error);
}

static void remove_first(lap_transcript *transcript) {
  free(transcript->message[0].json);
  transcript->count--;
  memmove(transcript->message, transcript->message + 1,
          (size_t)transcript->count * sizeof *transcript->message);
}

lap_status lap_transcript_set_system(lap_transcript *transcript, const char *text, size_t length,
                                     lap_error *error) {
  lap_message message = {0};
  lap_status status = text ? check_text(text, length, error) : LAP_OK;
  if (status == LAP_OK && text) {
    lap_text json = {0};
    write_plain(&json, "system", text, length);
    status = take(&json, &message, error);
    if (status == LAP_OK) status = make_room(transcript, error);
  }
  if (status != LAP_OK) {
    free(message.json);
    return status;
  }
  if (transcript->has_system) remove_first(transcript);
  transcript->has_system = text != NULL;
  if (!text) return LAP_OK;
  memmove(transcript->message + 1, transcript->message,
          (size_t)transcript->count * sizeof *transcript->message);
  transcript->message[0] = message;
  transcript->count++;
  return LAP_OK;
}

void lap_transcript_cut(lap_transcript *transcript, int count) {
  while (transcript->count > count) free(transcript->message[--transcript->count].json);
  if (count == 0) transcript->has_system = false;
}

/* ---- tools ----------------------------------------------------------------------------------- */

static void free_tools(lap_tool *tool, int tools) {
  for (int i = 0; i < tools; i++) {
    free(tool[i].name);
    free(tool[i].tool.json);
  }
  free(tool);
}

/* The function of a tool, or what is one itself. */
static lap_status function_of(const lap_json_document *document, const lap_json *tool,
                              const lap_json **function, lap_error *error) {
  *function = tool;
  if (tool->type != LAP_JSON_OBJECT) return lap_json_fail(document, tool, error, "must be an object");
  const lap_json *inner = lap_json_get(document, tool, "function");
  if (inner && inner->type != LAP_JSON_OBJECT)
    return lap_json_fail(document, inner, error, "must be an object");
  if (inner) *function = inner;
  const lap_json *name = lap_json_get(document, *function, "name");
  if (name && name->type == LAP_JSON_STRING && name->length && strlen(name->string) == name->length)
    return LAP_OK;
  return lap_json_fail(document, name ? name : tool, error, "a function must have a name, a string");
}

static lap_status read_tool(const lap_json_document *document, const lap_json *tool, lap_tool *out,
                            lap_error *error) {
  const lap_json *function;
  lap_status status = function_of(document, tool, &function, error);
  if (status != LAP_OK) return status;
  lap_text json = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &json);
  if (function != tool) {
    lap_write_value(&writer, NULL, tool);
  } else {
    lap_write_object(&writer, NULL);
    lap_write_string(&writer, "type", "function");
    lap_write_value(&writer, "function", function);
    lap_write_end_object(&writer);
  }
  lap_write_end(&writer);
  out->name = strdup(lap_json_get(document, function, "name")->string);
  status = take(&json, &out->tool, error);
  return status == LAP_OK && !out->name ? out_of_memory(error) : status;
}

lap_status lap_transcript_set_tools(lap_transcript *transcript, const lap_json_document *document,
                                    const lap_json *list, lap_error *error) {
  if (list->type != LAP_JSON_ARRAY) return lap_json_fail(document, list, error, "must be a list of tools");
  lap_tool *tool = calloc(list->length + 1, sizeof *tool);
  int tools = 0;
  lap_status status = tool ? LAP_OK : out_of_memory(error);
  for (const lap_json *one = list->child; one && status == LAP_OK; one = one->next)
    status = read_tool(document, one, &tool[tools++], error);
  if (status != LAP_OK) {
    free_tools(tool, tools);
    return status;
  }
  free_tools(transcript->tool, transcript->tools);
  transcript->tool = tool;
  transcript->tools = tools;
  return LAP_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void print_list(lap_text *out, const char *name, const lap_message *message) {
  lap_text_add(out, "%s", name);
  lap_text_append(out, message->json, message->length);
}

void lap_transcript_print(const lap_transcript *transcript, lap_text *out) {
  lap_text_add(out, "{\"messages\":[");
  for (int i = 0; i < transcript->count; i++) print_list(out, i ? ",\n" : "\n", &transcript->message[i]);
  lap_text_add(out, "\n]");
  for (int i = 0; i < transcript->tools; i++)
    print_list(out, i ? ",\n" : ",\n\"tools\":[\n", &transcript->tool[i].tool);
  lap_text_add(out, "%s}\n", transcript->tools ? "\n]" : "");
}

const lap_json *lap_transcript_messages(const lap_json_document *document) {
  const lap_json *root = lap_json_root(document);
  return root->type == LAP_JSON_ARRAY ? root : lap_json_get(document, root, "messages");
}

static lap_status read_message(const lap_json_document *document, const lap_json *message,
                               lap_transcript *out, lap_error *error) {
  if (message->type != LAP_JSON_OBJECT) return lap_json_fail(document, message, error, "must be an object");
  const lap_json *role = lap_json_get(document, message, "role");
  if (!role || role->type != LAP_JSON_STRING)
    return lap_json_fail(document, role ? role : message, error, "a message's role must be a string");
  bool system = strcmp(role->string, "system") == 0 || strcmp(role->string, "developer") == 0;
  if (out->count == 0) out->has_system = system;
  lap_text json = {0};
  lap_json_writer writer;
  lap_write_begin(&writer, &json);
  lap_write_value(&writer, NULL, message);
  lap_write_end(&writer);
  return add(out, &json, error);
}

lap_status lap_transcript_read(const lap_json_document *document, lap_transcript *out, lap_error *error) {
  const lap_json *root = lap_json_root(document), *messages = lap_transcript_messages(document);
  const lap_json *tools = lap_json_get(document, root, "tools");
  if (!messages || messages->type != LAP_JSON_ARRAY)
    return lap_json_fail(document, messages ? messages : root, error,
                         messages ? "must be a list" : "holds no conversation: there are no messages");
  lap_status status = LAP_OK;
  for (const lap_json *one = messages->child; one && status == LAP_OK; one = one->next)
    status = read_message(document, one, out, error);
  if (status == LAP_OK && tools && tools->type != LAP_JSON_NULL)
    status = lap_transcript_set_tools(out, document, tools, error);
  if (status != LAP_OK) lap_transcript_free(out);
  return status;
}

/* ---- ends ------------------------------------------------------------------------------------ */

void lap_transcript_free(lap_transcript *transcript) {
  lap_transcript_cut(transcript, 0);
  free(transcript->message);
  free_tools(transcript->tool, transcript->tools);
  *transcript = (lap_transcript){0};
}

void lap_said_free(lap_said *said) {
  lap_text_free(&said->content);
  lap_text_free(&said->reasoning);
  for (int i = 0; i < said->calls; i++) {
    free(said->call[i].id);
    free(said->call[i].name);
    free(said->call[i].arguments);
  }
  free(said->call);
  *said = (lap_said){0};
}
