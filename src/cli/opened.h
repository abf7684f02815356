/* opened.h: a model and a session as the command line wants them; run and logits share it. */
#ifndef LAP_CLI_OPENED_H
#define LAP_CLI_OPENED_H

#include "base/error.h"

typedef struct lap_engine_settings {
  int64_t threads; /* 0 = all cores */
  int64_t chunk;   /* 0 = the library's */
  int kv;          /* lap_kv_mode */
  int kv_start;    /* index into lap_kv_start_words: 1 = prompt */
} lap_engine_settings;

typedef struct lap_opened {
  char *directory;
  lap_model *model;
  lap_session *session;
} lap_opened;

/* Finds (see lap_find_model) and opens the checkpoint, and starts a session. Release with
 * lap_close_opened, also after an error. */
lap_status lap_open_engine(const char *directory, const lap_engine_settings *settings, lap_opened *opened,
                           lap_error *error);
void lap_close_opened(lap_opened *opened);

#endif
