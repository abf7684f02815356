/* session.h: the inside of a session, for the engine's own files and for tests. */
#ifndef LAP_ENGINE_SESSION_H
#define LAP_ENGINE_SESSION_H

#include "model/forward.h"

struct lap_session {
  lap_model *model;
  lap_pool *pool;
  lap_forward *forward;
  lap_kv *kv;
  int chunk;
  int32_t *tokens; /* [capacity], kv's length of them valid */
  int64_t capacity;
  lap_progress *progress;
  void *progress_context;
  int64_t passes_monolith;
  int64_t passes_cut;
};

#endif
