/* bind.h: a plan's modules bound to mapped tensors (pass/weights.h has the structures). */
#ifndef LAP_CPU_BIND_H
#define LAP_CPU_BIND_H

#include "checkpoint/plan.h"
#include "pass/weights.h"

/* Errors: MEMORY. `tensors` must outlive the weights. */
lap_status lap_weights_bind(const lap_plan *plan, const lap_tensors *tensors, lap_weights **out,
                            lap_error *error);
void lap_weights_free(lap_weights *weights);

#endif
