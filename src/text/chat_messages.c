/* chat_messages.c: from the clients' JSON to the template's values, field by field.
 *
 * What is not named here is passed on as it is. Recursion follows schemas, whose depth and number of nodes
 * are limited (references can repeat a part of the document any number of times). */
#include "text/chat_messages.h"

#include <string.h>

#include "base/text_buffer.h"

enum {
  MAX_SCHEMA_DEPTH = 32,
  MAX_SCHEMA_NODES = 20000,
  MAX_POINTER = 256
};

static bool is_string(const lap_json *value) {
  return value && value->type == LAP_JSON_STRING;
}

static bool is(const lap_json *value, const char *text) {
  return is_string(value) && strcmp(value->string, text) == 0;
}

static bool is_null(const lap_json *value) {
  return !value || value->type == LAP_JSON_NULL;
}

static lap_jinja_value text_of(lap_jinja_arena *arena, const lap_json *string) {
  return lap_jinja_text(arena, string->string, string->length, false);
}

static lap_jinja_value word(lap_jinja_arena *arena, const char *text) {
  return lap_jinja_text(arena, text, strlen(text), false);
}

/* ---- schemas --------------------------------------------------------------------------------- */

typedef struct schemas {
  lap_jinja_arena *arena;
  const lap_json_document *document;
  const lap_json *root; /* what `#` refers to */
  int nodes;
  lap_error *error;
  lap_status status;
} schemas;

static const char *type_of_value(const lap_json *value) {
  static const char *const names[] = {
      [LAP_JSON_NULL] = "null",     [LAP_JSON_BOOL] = "boolean",  [LAP_JSON_INTEGER] = "integer",
      [LAP_JSON_REAL] = "number",   [LAP_JSON_STRING] = "string", [LAP_JSON_ARRAY] = "array",
      [LAP_JSON_OBJECT] = "object",
  };
  return names[value->type];
}

/* What "#/a/b" points to; NULL if nothing. Keys that a pointer must escape are not found. */
static const lap_json *follow(const schemas *s, const char *pointer) {
  if (*pointer++ != '#') return NULL;
  const lap_json *at = s->root;
  while (at && *pointer == '/') {
    char key[MAX_POINTER];
    size_t length = strcspn(++pointer, "/");
    if (length >= sizeof key) return NULL;
    memcpy(key, pointer, length);
    key[length] = '\0';
    at = lap_json_get(s->document, at, key);
    pointer += length;
  }
  return *pointer ? NULL : at;
}

/* The alternative that stands for all: the first that is not null. */
static const lap_json *first_alternative(const schemas *s, const lap_json *schema, bool *nullable) {
  static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
  const lap_json *found = NULL;
  for (size_t i = 0; i < sizeof lists / sizeof *lists && !found; i++) {
    const lap_json *list = lap_json_get(s->document, schema, lists[i]);
    if (!list || list->type != LAP_JSON_ARRAY) continue;
    for (const lap_json *one = list->child; one; one = one->next) {
      if (is(lap_json_get(s->document, one, "type"), "null"))
        *nullable = true;
      else if (!found)
        found = one;
    }
  }
  return found;
}

/* The type that a schema states; NULL if none. */
static const char *stated_type(const schemas *s, const lap_json *schema, bool *nullable) {
  const lap_json *type = lap_json_get(s->document, schema, "type");
  if (is_string(type)) return type->string;
  const char *found = NULL;
  if (type && type->type == LAP_JSON_ARRAY)
    for (const lap_json *one = type->child; one; one = one->next) {
      if (is(one, "null"))
        *nullable = true;
      else if (!found && is_string(one))
        found = one->string;
    }
  return found;
}

static const char *implied_type(const schemas *s, const lap_json *schema) {
  const lap_json *values = lap_json_get(s->document, schema, "enum");
  const lap_json *constant = lap_json_get(s->document, schema, "const");
  if (values && values->type == LAP_JSON_ARRAY && values->child) return type_of_value(values->child);
  if (constant) return type_of_value(constant);
  if (lap_json_get(s->document, schema, "properties")) return "object";
  if (lap_json_get(s->document, schema, "items")) return "array";
  return "string";
}

static void add_schema(schemas *s, lap_jinja_value dict, const lap_json *schema, int depth);

static lap_jinja_value schema_of(schemas *s, const lap_json *schema, int depth) {
  lap_jinja_value dict = lap_jinja_new_dict(s->arena);
  add_schema(s, dict, schema, depth);
  return dict;
}

static lap_jinja_value properties_of(schemas *s, const lap_json *properties, int depth) {
  lap_jinja_value dict = lap_jinja_new_dict(s->arena);
  for (const lap_json *one = properties->child; one && s->status == LAP_OK; one = one->next)
    lap_jinja_set(s->arena, dict, one->key, schema_of(s, one, depth));
  return dict;
}

static bool stands_elsewhere(const char *key) {
  static const char *const keys[] = {"type", "$ref", "anyOf", "oneOf", "allOf", "$defs", "definitions"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(keys[i], key) == 0) return true;
  return false;
}

static void add_members(schemas *s, lap_jinja_value dict, const lap_json *schema, int depth) {
  for (const lap_json *one = schema->child; one && s->status == LAP_OK; one = one->next) {
    if (stands_elsewhere(one->key)) continue;
    lap_jinja_value value;
    if (strcmp(one->key, "properties") == 0 && one->type == LAP_JSON_OBJECT)
      value = properties_of(s, one, depth + 1);
    else if (strcmp(one->key, "items") == 0 && one->type == LAP_JSON_OBJECT)
      value = schema_of(s, one, depth + 1);
    else
      value = lap_jinja_from_json(s->arena, one);
    lap_jinja_set(s->arena, dict, one->key, value);
  }
}

/* A schema's members, over those of what it refers to. */
static void add_schema(schemas *s, lap_jinja_value dict, const lap_json *schema, int depth) {
  if (++s->nodes > MAX_SCHEMA_NODES || depth > MAX_SCHEMA_DEPTH) {
    if (s->status == LAP_OK)
      s->status = lap_fail(s->error, LAP_ERROR_UNSUPPORTED,
                           "tools: a schema is deeper than %d levels or larger than %d nodes",
                           MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES);
    return;
  }
  bool nullable = false;
  if (schema->type == LAP_JSON_OBJECT) {
    const lap_json *reference = lap_json_get(s->document, schema, "$ref");
    const lap_json *target =
        is_string(reference) ? follow(s, reference->string) : first_alternative(s, schema, &nullable);
    if (target) add_schema(s, dict, target, depth + 1);
    add_members(s, dict, schema, depth);
  }
  const char *type = schema->type == LAP_JSON_OBJECT ? stated_type(s, schema, &nullable) : NULL;
  if (!type && lap_jinja_get(dict, "type").type == LAP_JINJA_UNDEFINED) type = implied_type(s, schema);
  if (type) lap_jinja_set(s->arena, dict, "type", word(s->arena, type));
  if (nullable) lap_jinja_set(s->arena, dict, "nullable", lap_jinja_boolean(true));
}

/* ---- tools ----------------------------------------------------------------------------------- */

static lap_status add_function(schemas *s, const lap_json *function, lap_jinja_value dict) {
  const lap_json *name = lap_json_get(s->document, function, "name");
  if (!is_string(name))
    return lap_json_fail(s->document, name ? name : function, s->error, "a function's name must be a string");
  for (const lap_json *one = function->child; one; one = one->next) {
    bool parameters = strcmp(one->key, "parameters") == 0;
    if (parameters && one->type == LAP_JSON_NULL) continue;
    if (parameters && one->type != LAP_JSON_OBJECT)
      return lap_json_fail(s->document, one, s->error, "must be an object");
    s->root = one;
    lap_jinja_set(s->arena, dict, one->key,
                  parameters ? schema_of(s, one, 0) : lap_jinja_from_json(s->arena, one));
    if (s->status != LAP_OK) return s->status;
  }
  return LAP_OK;
}

static lap_status add_tool(schemas *s, const lap_json *tool, lap_jinja_value list) {
  if (tool->type != LAP_JSON_OBJECT) return lap_json_fail(s->document, tool, s->error, "must be an object");
  const lap_json *type = lap_json_get(s->document, tool, "type");
  if (type && !is(type, "function"))
    return lap_json_fail(s->document, type, s->error, "only tools of type function are offered");
  const lap_json *function = lap_json_get(s->document, tool, "function");
  if (!function || function->type != LAP_JSON_OBJECT)
    return lap_json_fail(s->document, function ? function : tool, s->error, "a function must be an object");
  lap_jinja_value dict = lap_jinja_new_dict(s->arena), inner = lap_jinja_new_dict(s->arena);
  lap_jinja_set(s->arena, dict, "type", word(s->arena, "function"));
  lap_jinja_set(s->arena, dict, "function", inner);
  lap_jinja_append(s->arena, list, dict);
  return add_function(s, function, inner);
}

lap_status lap_chat_tools(lap_jinja_arena *arena, const lap_json_document *document, const lap_json *tools,
                          lap_jinja_value *out, lap_error *error) {
  schemas s = {.arena = arena, .document = document, .error = error, .status = LAP_OK};
  *out = lap_jinja_new_list(arena);
  if (tools->type != LAP_JSON_ARRAY) return lap_json_fail(document, tools, error, "must be a list");
  lap_status status = LAP_OK;
  for (const lap_json *tool = tools->child; tool && status == LAP_OK; tool = tool->next)
    status = add_tool(&s, tool, *out);
  return status;
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct conversation {
  lap_jinja_arena *arena;
  const lap_json_document *document;
  lap_jinja_value names;     /* dict: a call's id to its tool's name */
  lap_jinja_value responses; /* list of the last assistant's message, if results are folded */
  lap_error *error;
} conversation;

/* A text that may be JSON: the object that it holds, or undefined. */
static lap_jinja_value object_in(lap_jinja_arena *arena, const char *text, size_t length) {
  lap_json_document *document;
  size_t blank = strspn(text, " \t\r\n");
  if (blank >= length || text[blank] != '{') return lap_jinja_undefined();
  if (lap_json_parse(text, length, "text", &document, NULL) != LAP_OK) return lap_jinja_undefined();
  lap_jinja_value value = lap_jinja_from_json(arena, lap_json_root(document));
  lap_json_free(document);
  return value;
}

/* The text of a part of a message. */
static lap_status text_of_part(const conversation *c, const lap_json *part, const lap_json **text) {
  if (part->type != LAP_JSON_OBJECT)
    return lap_json_fail(c->document, part, c->error, "must be an object with a type");
  const lap_json *type = lap_json_get(c->document, part, "type");
  if (!is_string(type))
    return lap_json_fail(c->document, type ? type : part, c->error, "a part's type must be a string");
  bool refusal = is(type, "refusal");
  if (!refusal && !is(type, "text") && !is(type, "input_text") && !is(type, "output_text"))
    return lap_json_fail(c->document, part, c->error, "parts of type %s are not supported, only text",
                         type->string);
  *text = lap_json_get(c->document, part, refusal ? "refusal" : "text");
  if (is_string(*text)) return LAP_OK;
  return lap_json_fail(c->document, *text ? *text : part, c->error, "a part's text must be a string");
}

static lap_status join_parts(const conversation *c, const lap_json *content, lap_jinja_value *out) {
  lap_text joined = {0};
  lap_status status = LAP_OK;
  lap_text_append(&joined, "", 0);
  for (const lap_json *part = content->child; part && status == LAP_OK; part = part->next) {
    const lap_json *text;
    status = text_of_part(c, part, &text);
    if (status == LAP_OK) lap_text_append(&joined, text->string, text->length);
  }
  if (status == LAP_OK && joined.failed)
    status = lap_fail(c->error, LAP_ERROR_MEMORY, "out of memory for a message");
  if (status == LAP_OK) *out = lap_jinja_text(c->arena, joined.data ? joined.data : "", joined.length, false);
  lap_text_free(&joined);
  return status;
}

static lap_status list_parts(const conversation *c, const lap_json *content, lap_jinja_value *out) {
  *out = lap_jinja_new_list(c->arena);
  for (const lap_json *part = content->child; part; part = part->next) {
    const lap_json *text;
    lap_status status = text_of_part(c, part, &text);
    if (status != LAP_OK) return status;
    lap_jinja_value dict = lap_jinja_new_dict(c->arena);
    lap_jinja_set(c->arena, dict, "type", word(c->arena, "text"));
    lap_jinja_set(c->arena, dict, "text", text_of(c->arena, text));
    lap_jinja_append(c->arena, *out, dict);
  }
  return LAP_OK;
}

static lap_status content_of(const conversation *c, const lap_json *content, const char *role,
                             lap_jinja_value *out) {
  bool tool = strcmp(role, "tool") == 0;
  *out = lap_jinja_none();
  if (is_null(content)) return LAP_OK;
  if (content->type == LAP_JSON_STRING) {
    *out = tool ? object_in(c->arena, content->string, content->length) : lap_jinja_undefined();
    if (out->type == LAP_JINJA_UNDEFINED) *out = text_of(c->arena, content);
    return LAP_OK;
  }
  if (content->type == LAP_JSON_OBJECT && tool) {
    *out = lap_jinja_from_json(c->arena, content);
    return LAP_OK;
  }
  if (content->type != LAP_JSON_ARRAY)
    return lap_json_fail(c->document, content, c->error, "must be a string or a list of parts");
  bool one = content->length == 1 || tool || strcmp(role, "assistant") == 0;
  return one ? join_parts(c, content, out) : list_parts(c, content, out);
}

static lap_status arguments_of(const conversation *c, const lap_json *arguments, lap_jinja_value *out) {
  *out = lap_jinja_new_dict(c->arena);
  if (is_null(arguments)) return LAP_OK;
  if (arguments->type == LAP_JSON_OBJECT) {
    *out = lap_jinja_from_json(c->arena, arguments);
    return LAP_OK;
  }
  if (arguments->type != LAP_JSON_STRING)
    return lap_json_fail(c->document, arguments, c->error, "must be JSON in a string, or an object");
  if (arguments->length == 0) return LAP_OK;
  *out = object_in(c->arena, arguments->string, arguments->length);
  if (out->type == LAP_JINJA_UNDEFINED) *out = text_of(c->arena, arguments);
  return LAP_OK;
}

static lap_status add_call(conversation *c, const lap_json *call, lap_jinja_value list) {
  const lap_json *function = lap_json_get(c->document, call, "function");
  const lap_json *name = lap_json_get(c->document, function, "name");
  const lap_json *id = lap_json_get(c->document, call, "id");
  if (!is_string(name))
    return lap_json_fail(c->document, name ? name : call, c->error,
                         "a call must have a function with a name");
  lap_jinja_value arguments;
  lap_status status = arguments_of(c, lap_json_get(c->document, function, "arguments"), &arguments);
  if (status != LAP_OK) return status;
  lap_jinja_value dict = lap_jinja_new_dict(c->arena), inner = lap_jinja_new_dict(c->arena);
  if (is_string(id)) {
    lap_jinja_set(c->arena, dict, "id", text_of(c->arena, id));
    lap_jinja_set(c->arena, c->names, id->string, text_of(c->arena, name));
  }
  lap_jinja_set(c->arena, inner, "name", text_of(c->arena, name));
  lap_jinja_set(c->arena, inner, "arguments", arguments);
  lap_jinja_set(c->arena, dict, "type", word(c->arena, "function"));
  lap_jinja_set(c->arena, dict, "function", inner);
  lap_jinja_append(c->arena, list, dict);
  return LAP_OK;
}

static lap_status add_calls(conversation *c, const lap_json *calls, lap_jinja_value dict) {
  if (is_null(calls)) return LAP_OK;
  if (calls->type != LAP_JSON_ARRAY) return lap_json_fail(c->document, calls, c->error, "must be a list");
  lap_jinja_value list = lap_jinja_new_list(c->arena);
  lap_status status = LAP_OK;
  for (const lap_json *call = calls->child; call && status == LAP_OK; call = call->next)
    status = add_call(c, call, list);
  if (status == LAP_OK && calls->child) lap_jinja_set(c->arena, dict, "tool_calls", list);
  return status;
}

static lap_status role_of(const conversation *c, const lap_json *message, const char **role) {
  if (message->type != LAP_JSON_OBJECT)
    return lap_json_fail(c->document, message, c->error, "must be an object");
  const lap_json *given = lap_json_get(c->document, message, "role");
  if (!is_string(given))
    return lap_json_fail(c->document, given ? given : message, c->error, "a message's role must be a string");
  *role = is(given, "developer") ? "system" : is(given, "function") ? "tool" : given->string;
  static const char *const known[] = {"system", "user", "assistant", "tool"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i], *role) == 0) return LAP_OK;
  return lap_json_fail(c->document, given, c->error, "%s is no role", given->string);
}

static bool is_handled(const char *key) {
  static const char *const keys[] = {"role", "content", "tool_calls", "reasoning", "reasoning_content"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(keys[i], key) == 0) return true;
  return false;
}

static void add_rest(const conversation *c, const lap_json *message, lap_jinja_value dict) {
  for (const lap_json *one = message->child; one; one = one->next)
    if (!is_handled(one->key)) lap_jinja_set(c->arena, dict, one->key, lap_jinja_from_json(c->arena, one));
  const lap_json *reasoning = lap_json_get(c->document, message, "reasoning_content");
  if (!is_string(reasoning)) reasoning = lap_json_get(c->document, message, "reasoning");
  if (!is_string(reasoning) || reasoning->length == 0) return;
  lap_jinja_set(c->arena, dict, "reasoning", text_of(c->arena, reasoning));
  lap_jinja_set(c->arena, dict, "reasoning_content", text_of(c->arena, reasoning));
}

static void name_result(const conversation *c, const lap_json *message, lap_jinja_value dict) {
  const lap_json *id = lap_json_get(c->document, message, "tool_call_id");
  if (is_string(lap_json_get(c->document, message, "name")) || !is_string(id)) return;
  lap_jinja_value name = lap_jinja_get(c->names, id->string);
  if (name.type != LAP_JINJA_UNDEFINED) lap_jinja_set(c->arena, dict, "name", name);
}

static void fold_result(const conversation *c, lap_jinja_value result) {
  lap_jinja_value dict = lap_jinja_new_dict(c->arena), name = lap_jinja_get(result, "name");
  if (name.type != LAP_JINJA_UNDEFINED) lap_jinja_set(c->arena, dict, "name", name);
  lap_jinja_set(c->arena, dict, "response", lap_jinja_get(result, "content"));
  lap_jinja_append(c->arena, c->responses, dict);
}

static lap_status add_message(conversation *c, const lap_json *message, bool fold, lap_jinja_value list) {
  const char *role = "";
  lap_jinja_value content, dict = lap_jinja_new_dict(c->arena);
  lap_status status = role_of(c, message, &role);
  if (status == LAP_OK) status = content_of(c, lap_json_get(c->document, message, "content"), role, &content);
  if (status != LAP_OK) return status;
  bool tool = strcmp(role, "tool") == 0;
  lap_jinja_set(c->arena, dict, "role", word(c->arena, role));
  lap_jinja_set(c->arena, dict, "content", content);
  add_rest(c, message, dict);
  status = add_calls(c, lap_json_get(c->document, message, "tool_calls"), dict);
  if (tool) name_result(c, message, dict);
  if (tool && fold && c->responses.type == LAP_JINJA_LIST) {
    fold_result(c, dict);
    return status;
  }
  c->responses = lap_jinja_undefined();
  if (fold && strcmp(role, "assistant") == 0) {
    c->responses = lap_jinja_new_list(c->arena);
    lap_jinja_set(c->arena, dict, "tool_responses", c->responses);
  }
  lap_jinja_append(c->arena, list, dict);
  return status;
}

lap_status lap_chat_messages(lap_jinja_arena *arena, const lap_json_document *document,
                             const lap_json *messages, bool fold, lap_jinja_value *out, lap_error *error) {
  conversation c = {.arena = arena,
                    .document = document,
                    .names = lap_jinja_new_dict(arena),
                    .responses = lap_jinja_undefined(),
                    .error = error};
  *out = lap_jinja_new_list(arena);
  if (messages->type != LAP_JSON_ARRAY) return lap_json_fail(document, messages, error, "must be a list");
  if (!messages->child) return lap_json_fail(document, messages, error, "holds no message");
  lap_status status = LAP_OK;
  for (const lap_json *one = messages->child; one && status == LAP_OK; one = one->next)
    status = add_message(&c, one, fold, *out);
  return status;
}
