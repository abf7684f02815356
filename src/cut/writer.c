/* writer.c: a list of functions, searched from the front: a file has some dozens. */
#include "cut/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const lap_function *find(const lap_writer *writer, const char *name) {
  for (int i = 0; i < writer->functions; i++)
    if (strcmp(writer->function[i].name, name) == 0) return &writer->function[i];
  return NULL;
}

enum {
  NAME_BYTES = 128
};

/* The name under which `text` is, or is to be: NAME, NAME_2, NAME_3 ... */
static const lap_function *settle(const lap_writer *writer, const char *name, const char *text,
                                  char chosen[NAME_BYTES]) {
  snprintf(chosen, NAME_BYTES, "%.100s", name);
  for (int number = 2;; number++) {
    const lap_function *there = find(writer, chosen);
    if (!there || strcmp(there->text, text) == 0) return there;
    snprintf(chosen, NAME_BYTES, "%.100s_%d", name, number);
  }
}

static const lap_function *append(lap_writer *writer, const char *name, char *text) {
  lap_function *grown = realloc(writer->function, (size_t)(writer->functions + 1) * sizeof *grown);
  if (grown) writer->function = grown;
  char *copy = grown ? strdup(name) : NULL;
  if (!copy) return NULL;
  writer->function[writer->functions] = (lap_function){copy, text};
  return &writer->function[writer->functions++];
}

const char *lap_writer_function(lap_writer *writer, lap_section section, const char *before, const char *name,
                                lap_text *after) {
  char chosen[NAME_BYTES], *text;
  lap_error ignored;
  if (lap_text_take(after, &text, NULL, &ignored) != LAP_OK) {
    writer->failed = true;
    return "";
  }
  const lap_function *function = settle(writer, name, text, chosen);
  if (function) {
    free(text);
    return function->name;
  }
  function = append(writer, chosen, text);
  if (!function) {
    free(text);
    writer->failed = true;
    return "";
  }
  lap_text_add(&writer->section[section], "%s%s%s\n", before, chosen, text);
  return function->name;
}

lap_status lap_writer_status(const lap_writer *writer, lap_error *error) {
  bool failed = writer->failed;
  for (int i = 0; i < LAP_SECTIONS; i++) failed = failed || writer->section[i].failed;
  return failed ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for generated code") : LAP_OK;
}

void lap_writer_free(lap_writer *writer) {
  for (int i = 0; i < LAP_SECTIONS; i++) lap_text_free(&writer->section[i]);
  for (int i = 0; i < writer->functions; i++) {
    free(writer->function[i].name);
    free(writer->function[i].text);
  }
  free(writer->function);
}
