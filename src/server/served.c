/* served.c: what is made once and used by all requests. */
#include "server/served.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/chat.h"
#include "model/model.h"

static int32_t id_of(const lap_tokenizer *tokenizer, const char *text) {
  return lap_tokenizer_id(tokenizer, text, strlen(text));
}

/* The last part of a path. */
static char *name_of(const char *directory) {
  size_t end = strlen(directory);
  while (end > 1 && directory[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && directory[begin - 1] != '/') begin--;
  return strndup(directory + begin, end - begin);
}

lap_status lap_served_open(lap_model *model, const char *directory, const char *name, lap_path path,
                           lap_served *out, lap_error *error) {
  bool cut = path != LAP_PATH_MONOLITH && lap_model_cut(model).available;
  *out = (lap_served){.model = model,
                      .sampling = lap_model_sampling(model),
                      .context = lap_model_context(model),
                      .kv = lap_kv_words[model->plan->kv_mode],
                      .path = cut ? "cut" : "monolith",
                      .created = (int64_t)time(NULL)};
  out->name = name ? strdup(name) : name_of(directory);
  lap_status status = out->name ? lap_model_tokenizer(model, &out->tokenizer, error)
                                : lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  if (status == LAP_OK) {
    status = lap_model_open_chat(model, &out->chat, &out->chat_error);
    if (status != LAP_OK && error) *error = out->chat_error;
    if (status == LAP_ERROR_UNSUPPORTED) status = LAP_OK; /* raw completions work without */
  }
  if (status == LAP_OK) {
    out->call_id = id_of(out->tokenizer, "<|tool_call>");
    out->open_thought_id = id_of(out->tokenizer, "<|channel>");
    out->close_thought_id = id_of(out->tokenizer, "<channel|>");
    out->turn_id[0] = id_of(out->tokenizer, "<|turn>");
    out->turn_id[1] = id_of(out->tokenizer, "<turn|>");
    out->turn_id[2] = id_of(out->tokenizer, "<|tool_response>");
  } else {
    lap_served_close(out);
  }
  return status;
}

void lap_served_close(lap_served *served) {
  lap_chat_close(served->chat);
  free(served->name);
  *served = (lap_served){0};
}
