/* session.h: the inside of a session, for the engine's own files and for tests. */
#ifndef LAP_ENGINE_SESSION_H
#define LAP_ENGINE_SESSION_H

#include "engine/batch.h"

struct lap_session {
  lap_model *model;
  lap_batch *batch; /* of one, which keeps nothing */
  lap_sequence *sequence;
  lap_progress *progress;
  void *progress_context;
};

#endif
