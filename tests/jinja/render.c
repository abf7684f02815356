/* render.c: renders templates for tests/jinja/compare.
 *
 * jinja_render LIST: each line of LIST is `OPTIONS TEMPLATE CONTEXT`, separated by tabs: options are letters
 * (t: trim_blocks, l: lstrip_blocks, k: keep_trailing_newline), then two files. For each line it prints
 * `STATUS LENGTH\n` and LENGTH bytes: the text, or the message of the error that STATUS is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "jinja/jinja.h"

enum {
  MAX_FILE_BYTES = 64 << 20,
  MAX_CONTEXT_BYTES = 256 << 20
};

static void print(lap_status status, const char *text, size_t length) {
  printf("%d %zu\n", (int)status, length);
  fwrite(text, 1, length, stdout);
}

static lap_status render_with(const lap_jinja_template *compiled, const lap_json_document *document,
                              lap_jinja_output *out, lap_error *error) {
  /* The moment that compare tells Python too. */
  static const struct tm now = {.tm_year = 124,
                                .tm_mon = 6,
                                .tm_mday = 26,
                                .tm_hour = 9,
                                .tm_min = 5,
                                .tm_sec = 7,
                                .tm_wday = 5,
                                .tm_yday = 207};
  lap_jinja_options options = {.now = &now};
  lap_jinja_arena *arena;
  lap_status status = lap_jinja_arena_create(MAX_CONTEXT_BYTES, &arena, error);
  if (status != LAP_OK) return status;
  lap_jinja_value context = lap_jinja_from_json(arena, lap_json_root(document));
  status = lap_jinja_render(compiled, arena, context, &options, out, error);
  lap_jinja_arena_destroy(arena);
  return status;
}

static lap_status render(const char *letters, const char *template_path, const char *context_path,
                         lap_jinja_output *out, lap_error *error) {
  lap_jinja_syntax syntax = {.trim_blocks = strchr(letters, 't'),
                             .lstrip_blocks = strchr(letters, 'l'),
                             .keep_trailing_newline = strchr(letters, 'k')};
  char *source;
  size_t length;
  lap_jinja_template *compiled;
  lap_json_document *document;
  lap_status status = lap_file_read(template_path, MAX_FILE_BYTES, &source, &length, error);
  if (status != LAP_OK) return status;
  status = lap_jinja_compile(source, length, "template", &syntax, &compiled, error);
  free(source);
  if (status != LAP_OK) return status;
  status = lap_json_read(context_path, MAX_FILE_BYTES, &document, error);
  if (status == LAP_OK) {
    status = render_with(compiled, document, out, error);
    lap_json_free(document);
  }
  lap_jinja_free(compiled);
  return status;
}

int main(int argc, char **argv) {
  char line[8192];
  FILE *cases = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (!cases) {
    fprintf(stderr, "usage: %s LIST\n", argv[0]);
    return 2;
  }
  while (fgets(line, sizeof line, cases)) {
    char *rest = line, *options = strsep(&rest, "\t"), *template_path = strsep(&rest, "\t"),
         *context_path = strsep(&rest, "\n");
    lap_jinja_output out = {0};
    lap_error error = {0};
    if (!context_path) break;
    lap_status status = render(options, template_path, context_path, &out, &error);
    print(status, status == LAP_OK ? out.text : error.message,
          status == LAP_OK ? out.length : strlen(error.message));
    lap_jinja_output_free(&out);
  }
  fclose(cases);
  return 0;
}
