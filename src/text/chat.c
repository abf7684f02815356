/* chat.c: from a conversation to token ids, by way of the template.
 *
 * Invariant: a control token in the ids stands where the template wrote it, or where a name that it was given
 * (bos_token and its like) was printed; unless the conversation allows otherwise. The template's output says
 * byte by byte what came from where, and the tokenizer is told. */
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "jinja/jinja.h"
#include "text/chat_messages.h"
#include "text/tokenizer.h"

enum {
  MAX_FILE_BYTES = 16 << 20,
  MAX_CONTEXT_BYTES = 512 << 20
};

/* Names of control tokens that templates are given, as tokenizer_config.json calls them. */
static const char *const token_names[] = {"bos_token", "eos_token", "unk_token",
                                          "pad_token", "sep_token", "cls_token"};
enum {
  TOKEN_NAMES = sizeof token_names / sizeof *token_names
};

struct lap_chat {
  lap_chat_checkpoint checkpoint;
  lap_jinja_template *plain;
  lap_jinja_template *with_tools; /* or NULL: the same */
  bool fold;                      /* see chat_messages.h */
  char *token[TOKEN_NAMES];       /* or NULL */
};

/* ---- the template ---------------------------------------------------------------------------- */

static char *path_in(const lap_chat *chat, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", chat->checkpoint.directory, name) < 0 ? NULL : path;
}

static lap_status out_of_memory(const lap_chat *chat, lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for the chat template",
                  chat->checkpoint.directory);
}

static bool exists(const char *path) {
  return access(path, F_OK) == 0;
}

/* In the one revision that wants results in the assistant's message, no message has the role tool. */
static bool wants_folded_results(const char *source, size_t length) {
  return memmem(source, length, "tool_responses", 14) && !memmem(source, length, "'tool'", 6) &&
         !memmem(source, length, "\"tool\"", 6);
}

static lap_status compile(lap_chat *chat, const char *source, size_t length, const char *name,
                          lap_jinja_template **out, lap_error *error) {
  chat->fold = wants_folded_results(source, length);
  return lap_jinja_compile(source, length, name, NULL, out, error);
}

/* A list of templates with names. */
static lap_status compile_named(lap_chat *chat, const lap_json_document *document, const lap_json *list,
                                const char *path, lap_error *error) {
  for (const lap_json *one = list->child; one; one = one->next) {
    const char *name = NULL;
    lap_status status = lap_json_get_string(document, one, "name", &name, error);
    if (status != LAP_OK) return status;
    const lap_json *source = lap_json_get(document, one, "template");
    if (!name || !source || source->type != LAP_JSON_STRING)
      return lap_json_fail(document, one, error, "must be an object with name and template");
    lap_jinja_template **slot = strcmp(name, "default") == 0    ? &chat->plain
                                : strcmp(name, "tool_use") == 0 ? &chat->with_tools
                                                                : NULL;
    if (!slot) continue;
    if (*slot) return lap_json_fail(document, one, error, "two templates have the name %s", name);
    status = compile(chat, source->string, source->length, path, slot, error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

static lap_status use_config_template(lap_chat *chat, const lap_json_document *document, const char *path,
                                      lap_error *error) {
  const lap_json *template = lap_json_get(document, lap_json_root(document), "chat_template");
  if (!template || template->type == LAP_JSON_NULL) return LAP_OK;
  if (template->type == LAP_JSON_STRING)
    return compile(chat, template->string, template->length, path, &chat->plain, error);
  if (template->type == LAP_JSON_ARRAY) return compile_named(chat, document, template, path, error);
  return lap_json_fail(document, template, error, "must be a string or a list");
}

/* A control token is named by its text, or by an object that holds it. */
static lap_status use_tokens(lap_chat *chat, const lap_json_document *document, lap_error *error) {
  for (int i = 0; i < TOKEN_NAMES; i++) {
    const lap_json *token = lap_json_get(document, lap_json_root(document), token_names[i]);
    if (token && token->type == LAP_JSON_OBJECT) token = lap_json_get(document, token, "content");
    if (!token || token->type == LAP_JSON_NULL) continue;
    if (token->type != LAP_JSON_STRING)
      return lap_json_fail(document, token, error, "must be a string, or an object with content");
    chat->token[i] = strdup(token->string);
    if (!chat->token[i]) return out_of_memory(chat, error);
  }
  return LAP_OK;
}

static lap_status read_config(lap_chat *chat, lap_error *error) {
  char *path = path_in(chat, "tokenizer_config.json");
  if (!path) return out_of_memory(chat, error);
  lap_json_document *document = NULL;
  lap_status status = LAP_OK;
  if (exists(path)) status = lap_json_read(path, MAX_FILE_BYTES, &document, error);
  if (document) {
    status = use_tokens(chat, document, error);
    if (status == LAP_OK && !chat->plain) status = use_config_template(chat, document, path, error);
    lap_json_free(document);
  }
  free(path);
  return status;
}

static lap_status read_template(lap_chat *chat, lap_error *error) {
  char *path = path_in(chat, "chat_template.jinja"), *source;
  size_t length;
  if (!path) return out_of_memory(chat, error);
  lap_status status = LAP_OK;
  if (exists(path)) {
    status = lap_file_read(path, MAX_FILE_BYTES, &source, &length, error);
    if (status == LAP_OK) {
      status = compile(chat, source, length, path, &chat->plain, error);
      free(source);
    }
  }
  free(path);
  return status;
}

/* Without a name in the file, the tokens that the configuration knows by their ids. */
static lap_status name_known_tokens(lap_chat *chat, lap_error *error) {
  const int32_t ids[] = {chat->checkpoint.bos, chat->checkpoint.eos};
  for (int i = 0; i < 2; i++) {
    size_t length;
    const char *text = ids[i] >= 0 ? lap_tokenizer_token(chat->checkpoint.tokenizer, ids[i], &length) : NULL;
    if (chat->token[i] || !text) continue;
    chat->token[i] = strdup(text);
    if (!chat->token[i]) return out_of_memory(chat, error);
  }
  return LAP_OK;
}

lap_status lap_chat_open(const lap_chat_checkpoint *checkpoint, lap_chat **out, lap_error *error) {
  *out = NULL;
  lap_chat *chat = calloc(1, sizeof *chat);
  if (!chat) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", checkpoint->directory);
  chat->checkpoint = *checkpoint;
  lap_status status = read_template(chat, error);
  if (status == LAP_OK) status = read_config(chat, error);
  if (status == LAP_OK && !chat->plain)
    status = lap_fail(error, LAP_ERROR_UNSUPPORTED,
                      "%s: the checkpoint has no chat template (chat_template.jinja, or chat_template in "
                      "tokenizer_config.json)",
                      checkpoint->directory);
  if (status == LAP_OK) status = name_known_tokens(chat, error);
  if (status == LAP_OK)
    *out = chat;
  else
    lap_chat_close(chat);
  return status;
}

void lap_chat_close(lap_chat *chat) {
  if (!chat) return;
  lap_jinja_free(chat->plain);
  lap_jinja_free(chat->with_tools);
  for (int i = 0; i < TOKEN_NAMES; i++) free(chat->token[i]);
  free(chat);
}

/* ---- rendering ------------------------------------------------------------------------------- */

static bool has_tools(const lap_chat_input *conversation) {
  return conversation->tools && conversation->tools->type == LAP_JSON_ARRAY && conversation->tools->child;
}

static void set_names(const lap_chat *chat, const lap_chat_input *conversation, lap_jinja_arena *arena,
                      lap_jinja_value context) {
  for (int i = 0; i < TOKEN_NAMES; i++)
    if (chat->token[i])
      lap_jinja_set(arena, context, token_names[i],
                    lap_jinja_text(arena, chat->token[i], strlen(chat->token[i]), true));
  lap_jinja_set(arena, context, "add_generation_prompt",
                lap_jinja_boolean(!conversation->no_generation_prompt));
  if (conversation->thinking != LAP_THINKING_UNSTATED)
    lap_jinja_set(arena, context, "enable_thinking",
                  lap_jinja_boolean(conversation->thinking == LAP_THINKING_ON));
}

/* Variables of the caller's may be new to the template, or its enable_thinking; not what the rest is made of.
 */
static lap_status set_variables(const lap_chat_input *conversation, lap_jinja_arena *arena,
                                lap_jinja_value context, lap_error *error) {
  const lap_json *variables = conversation->variables;
  if (!variables || variables->type == LAP_JSON_NULL) return LAP_OK;
  if (variables->type != LAP_JSON_OBJECT)
    return lap_json_fail(conversation->document, variables, error, "must be an object");
  for (const lap_json *one = variables->child; one; one = one->next) {
    bool taken = strcmp(one->key, "messages") == 0 || strcmp(one->key, "tools") == 0;
    for (int i = 0; i < TOKEN_NAMES; i++) taken = taken || strcmp(one->key, token_names[i]) == 0;
    if (taken)
      return lap_json_fail(conversation->document, one, error, "this variable is the server's to set");
    lap_jinja_set(arena, context, one->key, lap_jinja_from_json(arena, one));
  }
  return LAP_OK;
}

static lap_status make_context(const lap_chat *chat, const lap_chat_input *conversation,
                               lap_jinja_arena *arena, lap_jinja_value *context, lap_error *error) {
  lap_jinja_value messages, tools = lap_jinja_none();
  *context = lap_jinja_new_dict(arena);
  lap_status status =
      lap_chat_messages(arena, conversation->document, conversation->messages, chat->fold, &messages, error);
  if (status == LAP_OK && has_tools(conversation))
    status = lap_chat_tools(arena, conversation->document, conversation->tools, &tools, error);
  if (status != LAP_OK) return status;
  lap_jinja_set(arena, *context, "messages", messages);
  lap_jinja_set(arena, *context, "tools", tools);
  lap_jinja_set(arena, *context, "documents", lap_jinja_none());
  set_names(chat, conversation, arena, *context);
  return set_variables(conversation, arena, *context, error);
}

static lap_status encode(const lap_chat *chat, const lap_jinja_output *output, bool allow_special,
                         lap_chat_prompt *out, lap_error *error) {
  lap_range *trusted = malloc((output->run_count + 1) * sizeof *trusted);
  if (!trusted) return out_of_memory(chat, error);
  size_t count = 0;
  for (size_t i = 0; i < output->run_count; i++) {
    const lap_jinja_run *run = &output->runs[i];
    if (run->from_template || allow_special)
      trusted[count++] = (lap_range){run->begin, run->begin + run->length};
  }
  lap_status status =
      lap_tokenizer_encode_prompt(chat->checkpoint.tokenizer, chat->checkpoint.bos, output->text,
                                  output->length, trusted, count, &out->ids, &out->count, error);
  free(trusted);
  return status;
}

static lap_status render(const lap_chat *chat, const lap_chat_input *conversation, lap_jinja_arena *arena,
                         lap_jinja_output *output, lap_error *error) {
  lap_jinja_value context;
  lap_status status = make_context(chat, conversation, arena, &context, error);
  if (status != LAP_OK) return status;
  time_t seconds = time(NULL);
  struct tm now;
  const lap_jinja_options options = {.now = localtime_r(&seconds, &now)};
  const lap_jinja_template *template =
      chat->with_tools && has_tools(conversation) ? chat->with_tools : chat->plain;
  return lap_jinja_render(template, arena, context, &options, output, error);
}

lap_status lap_chat_render(const lap_chat *chat, const lap_chat_input *conversation, lap_chat_prompt *out,
                           lap_error *error) {
  lap_jinja_arena *arena;
  lap_jinja_output output = {0};
  *out = (lap_chat_prompt){0};
  lap_status status = lap_jinja_arena_create(MAX_CONTEXT_BYTES, &arena, error);
  if (status != LAP_OK) return status;
  status = render(chat, conversation, arena, &output, error);
  lap_jinja_arena_destroy(arena);
  if (status == LAP_OK) status = encode(chat, &output, conversation->allow_special, out, error);
  if (status == LAP_OK) {
    out->text = output.text;
    out->length = output.length;
    output.text = NULL;
  }
  lap_jinja_output_free(&output);
  return status;
}

void lap_chat_prompt_free(lap_chat_prompt *prompt) {
  free(prompt->text);
  free(prompt->ids);
  *prompt = (lap_chat_prompt){0};
}
