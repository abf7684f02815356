/* opened.c: from settings to a session. */
#include "cli/opened.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/support.h"

/* A variable that is there and not empty. */
static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

lap_model_options lap_model_options_of(int kv) {
  return (lap_model_options){.kv = (lap_kv_mode)kv, .isa = variable("LAPIDARY_ISA")};
}

const char *lap_attention_method_asked(void) {
  return variable("LAPIDARY_ATTENTION");
}

static void say_path(const lap_model *model, lap_path path) {
  const lap_cut_info cut = lap_model_cut(model);
  if (path == LAP_PATH_MONOLITH)
    fprintf(stderr, "path: monolith, as asked\n");
  else if (cut.available)
    fprintf(stderr, "path: cut %s, %s\n", cut.fingerprint, cut.path ? cut.path : "built in");
  else
    fprintf(stderr, "path: monolith: %s\n", cut.why);
}

lap_status lap_open_model(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                          lap_error *error) {
  *opened = (lap_opened){0};
  const lap_model_options options = lap_model_options_of(settings->kv);
  lap_status status = lap_find_model(directory, &opened->directory, error);
  if (status == LAP_OK) status = lap_model_open(opened->directory, &options, &opened->model, error);
  if (status == LAP_OK && settings->verbose) say_path(opened->model, (lap_path)settings->path);
  return status;
}

lap_status lap_open_engine(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                           lap_error *error) {
  const lap_session_options options = {
      .threads = (int)settings->threads,
      .chunk = (int)settings->chunk,
      .kv_start_prompt = settings->kv_start == 1,
      .path = (lap_path)settings->path,
      .attention = lap_attention_method_asked(),
  };
  lap_status status = lap_open_model(directory, settings, opened, error);
  return status == LAP_OK ? lap_session_create(opened->model, &options, &opened->session, error) : status;
}

void lap_close_opened(lap_opened *opened) {
  lap_session_destroy(opened->session);
  lap_model_close(opened->model);
  free(opened->directory);
}
