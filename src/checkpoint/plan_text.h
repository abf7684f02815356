/* plan_text.h: a plan as a text, for people and for fingerprints. */
#ifndef LAP_CHECKPOINT_PLAN_TEXT_H
#define LAP_CHECKPOINT_PLAN_TEXT_H

#include "checkpoint/plan.h"

/* Everything in the plan that decides what a forward pass generated for it looks like, a line for each
 * thing, in a fixed order; floats in hexadecimal, so none is rounded. The same code serves all plans of one
 * text. Left out is what only says where the weights stand (tensors' indices; dtypes of vectors, which are
 * widened when they are loaded), and what no forward pass sees (token ids, sampling, model_type, the trained
 * context, how the cache bits were chosen).
 * `*text` [*length] is malloc'd, terminated and the caller's. Errors: MEMORY. */
lap_status lap_plan_text(const lap_plan *plan, char **text, size_t *length, lap_error *error);

#endif
