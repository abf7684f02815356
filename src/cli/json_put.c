/* json_put.c: see json_put.h. */
#include "cli/json_put.h"

#include <string.h>

static void write_out(void *context, const char *text, size_t length) {
  fwrite(text, 1, length, context);
}

yajl_gen lap_json_begin(FILE *out) {
  yajl_gen g = yajl_gen_alloc(NULL);
  if (!g) return NULL;
  yajl_gen_config(g, yajl_gen_beautify, 1);
  yajl_gen_config(g, yajl_gen_indent_string, "  ");
  yajl_gen_config(g, yajl_gen_print_callback, write_out, out);
  yajl_gen_map_open(g);
  return g;
}

void lap_json_end(yajl_gen g) {
  yajl_gen_map_close(g);
  yajl_gen_free(g);
}

void lap_json_put_string(yajl_gen g, const char *text) {
  yajl_gen_string(g, (const unsigned char *)text, strlen(text));
}

void lap_json_put_text(yajl_gen g, const char *key, const char *value) {
  lap_json_put_string(g, key);
  lap_json_put_string(g, value);
}

void lap_json_put_integer(yajl_gen g, const char *key, int64_t value) {
  lap_json_put_string(g, key);
  yajl_gen_integer(g, value);
}

void lap_json_put_bool(yajl_gen g, const char *key, bool value) {
  lap_json_put_string(g, key);
  yajl_gen_bool(g, value);
}

void lap_json_put_measured(yajl_gen g, const char *key, double value) {
  char text[32];
  lap_json_put_string(g, key);
  snprintf(text, sizeof text, "%.6g", value);
  yajl_gen_number(g, text, strlen(text));
}

void lap_json_open(yajl_gen g, const char *key) {
  lap_json_put_string(g, key);
  yajl_gen_map_open(g);
}
