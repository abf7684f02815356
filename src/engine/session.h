/* session.h: the inside of a session, for the engine's own files and for tests. */
#ifndef LAP_ENGINE_SESSION_H
#define LAP_ENGINE_SESSION_H

#include "engine/passes.h"

struct lap_session {
  lap_model *model;
  lap_passes passes;
  lap_kv *kv;
  int32_t *tokens; /* [capacity], kv's length of them valid */
  int64_t capacity;
  lap_progress *progress;
  void *progress_context;
};

#endif
