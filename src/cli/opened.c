/* opened.c: from settings to a session. */
#include "cli/opened.h"

#include <stdlib.h>

#include "cli/support.h"

lap_status lap_open_engine(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                           lap_error *error) {
  const lap_session_options options = {
      .threads = (int)settings->threads,
      .chunk = (int)settings->chunk,
      .kv_start_prompt = settings->kv_start == 1,
  };
  *opened = (lap_opened){0};
  lap_status status = lap_find_model(directory, &opened->directory, error);
  if (status == LAP_OK)
    status = lap_model_open(opened->directory, (lap_kv_mode)settings->kv, &opened->model, error);
  if (status == LAP_OK) status = lap_session_create(opened->model, &options, &opened->session, error);
  return status;
}

void lap_close_opened(lap_opened *opened) {
  lap_session_destroy(opened->session);
  lap_model_close(opened->model);
  free(opened->directory);
}
