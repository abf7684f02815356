/* companions.h: the files beside config.json, read into a plan. Internal to the plan builder. */
#ifndef LAP_CHECKPOINT_COMPANIONS_H
#define LAP_CHECKPOINT_COMPANIONS_H

#include "base/json.h"
#include "checkpoint/plan.h"

/* The defaults for sampling that published files state. */
void lap_generation_defaults(lap_generation *generation);

/* generation_config.json: sampling, suppressed tokens; the plan's vocabulary must be known.
 * Errors: FORMAT. */
lap_status lap_generation_read(const lap_json_document *document, lap_plan *plan, lap_error *error);

/* Adds the ids of `object`'s eos_token_id (an id, a list, or nothing) to the plan's, kept ascending.
 * Errors: FORMAT, also for a list that is empty: it would say that nothing ever ends. */
lap_status lap_plan_add_eos(const lap_json_document *document, const lap_json *object, lap_plan *plan,
                            lap_error *error);

/* kv_config.json: cache bits for each donor layer. Layers must be planned. Errors: FORMAT. */
lap_status lap_kv_config_read(const lap_json_document *document, lap_plan *plan, lap_error *error);

/* Every donor the same bits. */
void lap_kv_uniform(lap_plan *plan, int32_t bits);

/* Sharers show what their donor's cache is. */
void lap_kv_copy_to_sharers(lap_plan *plan);

#endif
