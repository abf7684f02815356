/* fuzz_request.c: bodies of all four APIs: read, and their conversations made into a template's values. The
 * first byte chooses the API. */
#include <stdint.h>
#include <stdlib.h>

#include "jinja/value.h"
#include "server/front.h"
#include "text/chat_messages.h"

enum {
  MAX_ARENA_BYTES = 64 << 20
};

static void convert(const lap_chat_input *conversation, bool fold) {
  lap_jinja_arena *arena;
  lap_jinja_value value;
  lap_error error;
  if (lap_jinja_arena_create(MAX_ARENA_BYTES, &arena, &error) != LAP_OK) return;
  if (conversation->messages)
    lap_chat_messages(arena, conversation->document, conversation->messages, fold, &value, &error);
  if (conversation->tools) lap_chat_tools(arena, conversation->document, conversation->tools, &value, &error);
  lap_jinja_arena_destroy(arena);
}

/* What cannot be read must be refused in words that are JSON. */
static void refuse(const lap_front *front, const lap_error *error) {
  lap_failure failure;
  lap_text text = {0};
  lap_json_document *document;
  lap_failure_from(&failure, error);
  front->refuse(&text, &failure);
  if (text.failed || lap_json_parse(text.data, text.length, "refusal", &document, NULL) != LAP_OK) abort();
  lap_json_free(document);
  lap_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const lap_front *const fronts[] = {&lap_front_chat, &lap_front_completions, &lap_front_responses,
                                            &lap_front_messages};
  static const lap_sampling defaults = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};
  if (size == 0) return 0;
  const lap_front *front = fronts[data[0] % 4];
  lap_request request;
  lap_error error;
  lap_status status = lap_request_read(front, (const char *)data + 1, size - 1, &defaults, &request, &error);
  if (status == LAP_OK)
    convert(&request.conversation, data[0] & 4);
  else
    refuse(front, &error);
  lap_request_free(&request);
  return 0;
}
