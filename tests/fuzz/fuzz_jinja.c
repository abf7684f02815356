/* Any bytes as a template and, after a NUL, as the JSON of its context: an error, or text whose runs are
 * whole. */
#include <stdlib.h>
#include <string.h>

#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_output(const lap_jinja_output *out) {
  size_t at = 0;
  for (size_t i = 0; i < out->run_count; i++) {
    if (out->runs[i].begin != at || !out->runs[i].length) abort();
    if (i && out->runs[i].from_template == out->runs[i - 1].from_template) abort();
    at += out->runs[i].length;
  }
  if (at != out->length || out->text[at]) abort();
}

static void check_error(lap_status status, const lap_error *error) {
  if (status != error->status || strncmp(error->message, "fuzz:", 5) != 0 || strchr(error->message, '\n'))
    abort();
}

/* The context that the text says, or an empty one. */
static lap_jinja_value read_context(lap_jinja_arena *arena, const char *text, size_t length) {
  lap_json_document *document;
  if (lap_json_parse(text, length, "context", &document, NULL) != LAP_OK) return lap_jinja_new_dict(arena);
  lap_jinja_value context = lap_jinja_from_json(arena, lap_json_root(document));
  lap_json_free(document);
  return context.type == LAP_JINJA_DICT ? context : lap_jinja_new_dict(arena);
}

static void render(const lap_jinja_template *compiled, const char *context, size_t length) {
  static const struct tm now = {.tm_year = 124, .tm_mday = 1};
  const lap_jinja_options options = {
      .limits = {.output_bytes = 1 << 20, .memory_bytes = 16 << 20, .steps = 200000, .depth = 300},
      .now = &now};
  lap_jinja_arena *arena;
  lap_jinja_output out;
  lap_error error;
  if (lap_jinja_arena_create(16 << 20, &arena, NULL) != LAP_OK) abort();
  lap_status status =
      lap_jinja_render(compiled, arena, read_context(arena, context, length), &options, &out, &error);
  if (status == LAP_OK)
    check_output(&out);
  else
    check_error(status, &error);
  lap_jinja_output_free(&out);
  lap_jinja_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = size ? (const char *)data : "";
  const char *split = memchr(text, '\0', size);
  size_t length = split ? (size_t)(split - text) : size;
  lap_jinja_template *compiled;
  lap_error error;
  lap_status status = lap_jinja_compile(text, length, "fuzz", NULL, &compiled, &error);
  if (status != LAP_OK) {
    check_error(status, &error);
    return 0;
  }
  render(compiled, split ? split + 1 : "", split ? size - length - 1 : 0);
  lap_jinja_free(compiled);
  return 0;
}
