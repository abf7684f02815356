/* fuzz_output.c: any bytes as what the model says, divided at any places.
 *
 * The reports must be the same as for the whole, of valid UTF-8, with arguments that are JSON objects. The
 * same bytes as the body of a call must become that call and what follows it, or content to the last byte. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text_buffer.h"
#include "text/output.h"
#include "text/tokenizer.h"
#include "text/tokenizer_utf8.h"
#include "text/tool_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The events as one text, each kind and call after a zero byte and a letter; pieces joined. */
typedef struct report {
  lap_text text;
  int kind, index;
} report;

static void check_utf8(const char *text, size_t length) {
  uint32_t code;
  for (size_t at = 0, bytes; at < length; at += bytes)
    if ((bytes = utf8_decode(text + at, length - at, &code)) == 0) abort();
}

static void check_arguments(const char *text, size_t length) {
  lap_json_document *document;
  if (lap_json_parse(text, length, "fuzz", &document, NULL) != LAP_OK) abort();
  if (lap_json_root(document)->type != LAP_JSON_OBJECT) abort();
  lap_json_free(document);
}

static void note(void *context, const lap_piece *event) {
  report *to = context;
  bool call = event->kind == LAP_PIECE_CALL;
  if (event->length == 0 || strlen(event->text) > event->length) abort();
  check_utf8(event->text, event->length);
  if (call) check_arguments(event->text, event->length);
  if (call || to->kind != (int)event->kind || to->index != event->index)
    lap_text_append(&to->text, &"\0c\0t\0f"[2 * event->kind], 2);
  if (call) lap_text_append(&to->text, event->name, strlen(event->name) + 1);
  lap_text_append(&to->text, event->text, event->length);
  to->kind = (int)event->kind;
  to->index = event->index;
}

static lap_output *begin(report *to, bool in_thought) {
  static const char prompt[] = "<|turn>model\n<|channel>thought\n";
  const lap_output_options options = {.sink = note, .context = to};
  lap_output *output;
  *to = (report){.kind = -1};
  if (lap_output_create(&options, &output, NULL) != LAP_OK) abort();
  if (in_thought && lap_output_prompt_text(output, prompt, sizeof prompt - 1, NULL) != LAP_OK) abort();
  return output;
}

static void feed(lap_output *output, const char *text, size_t length) {
  if (lap_output_text(output, text, length, NULL) != LAP_OK) abort();
}

static void end(lap_output *output) {
  if (lap_output_finish(output, NULL) != LAP_OK || !lap_output_ended(output)) abort();
  lap_output_destroy(output);
}

static void check_cuts(const uint8_t *cuts, const char *text, size_t length, bool in_thought) {
  report whole, pieces;
  lap_output *output = begin(&whole, in_thought);
  feed(output, text, length);
  end(output);
  output = begin(&pieces, in_thought);
  for (size_t at = 0, i = 0, step; at < length; at += step, i++) {
    step = cuts[i % 8] % 32;
    if (i % 8 == 0) step++; /* to arrive at the end */
    if (step > length - at) step = length - at;
    feed(output, text + at, step);
  }
  end(output);
  if (whole.text.length != pieces.text.length) abort();
  if (whole.text.length && memcmp(whole.text.data, pieces.text.data, whole.text.length) != 0) abort();
  lap_text_free(&whole.text);
  lap_text_free(&pieces.text);
}

/* Without '<' the body holds no marker, and no quote. */
static size_t make_body(const char *text, size_t length, char **body) {
  lap_detokenizer state = {0};
  size_t count = 0, capacity = 0;
  char *copy = malloc(length + 1);
  *body = NULL;
  if (!copy) abort();
  for (size_t i = 0; i < length; i++) copy[i] = text[i] == '<' ? '"' : text[i];
  if (lap_detokenize_text(&state, copy, length, body, &count, &capacity, NULL) != LAP_OK ||
      lap_detokenize_end(&state, body, &count, &capacity, NULL) != LAP_OK)
    abort();
  free(copy);
  return count;
}

static void check_body(const char *text, size_t length) {
  char *body;
  report got;
  lap_tool_call call;
  length = make_body(text, length, &body);
  if (lap_tool_call_read(body, length, &call, NULL) != LAP_OK) abort();
  lap_output *output = begin(&got, false);
  feed(output, "<|tool_call>", 12);
  feed(output, body, length);
  feed(output, "<tool_call|>", 12);
  end(output);
  lap_text expected = {0};
  const char *rest = body + call.used, *behind = body + length;
  if (call.name) {
    lap_text_append(&expected, "\0f", 2);
    lap_text_append(&expected, call.name, strlen(call.name) + 1);
    lap_text_append(&expected, call.arguments, call.length);
    /* White space next to the call is layout, on either side of the end tag. */
    while (rest < behind && strchr(" \n\t\r", *rest) && *rest) rest++;
    if (rest < behind) lap_text_append(&expected, "\0c", 2);
    lap_text_append(&expected, rest, (size_t)(behind - rest));
  } else {
    lap_text_append(&expected, "\0c<|tool_call>", 14);
    lap_text_append(&expected, body, length);
    lap_text_append(&expected, "<tool_call|>", 12);
  }
  /* A run of 256 spaces is content even there. */
  bool long_run = length >= 256 && call.name;
  if (!long_run &&
      (expected.length != got.text.length || memcmp(expected.data, got.text.data, expected.length) != 0))
    abort();
  lap_text_free(&expected);
  lap_text_free(&got.text);
  lap_tool_call_free(&call);
  free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 9) return 0;
  const char *text = (const char *)data + 9;
  check_cuts(data + 1, text, size - 9, data[0] & 1);
  check_body(text, size - 9);
  return 0;
}
