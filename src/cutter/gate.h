/* gate.h: proof that a cut equals the monolith.
 *
 * Both paths run on the same weights and every logit that they give is compared, bit for bit: prompts shorter
 * and longer than the window, in one chunk and in odd ones; single tokens while a growing cache grows and
 * across a ring's end; and what follows a snapshot, each path going on from the other's. The counters must
 * show that the cut has served every pass of its side. */
#ifndef LAP_CUTTER_GATE_H
#define LAP_CUTTER_GATE_H

#include "base/error.h"

typedef struct lap_gate_options {
  int threads;           /* 0 = the cores available */
  const char *attention; /* as in lap_session_options */
  /* Called before each part with what it is; false ends with STATE. May be NULL. */
  bool (*progress)(void *context, const char *part);
  void *context;
} lap_gate_options;

typedef struct lap_gate_result {
  int64_t logits; /* compared */
  int64_t passes; /* of the cut */
} lap_gate_result;

/* Errors: NUMERIC (they differ; the message names the part and the first layer that differs), UNSUPPORTED
 * (the model has no cut), STATE (the cut did not serve a pass; ended by progress), IO (snapshots),
 * MEMORY. */
lap_status lap_gate_run(lap_model *model, const lap_gate_options *options, lap_gate_result *result,
                        lap_error *error);

#endif
