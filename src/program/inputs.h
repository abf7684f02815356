/* inputs.h: which quantized forms each input of products has: what its readers want, over all layers. */
#ifndef LAP_PROGRAM_INPUTS_H
#define LAP_PROGRAM_INPUTS_H

#include "checkpoint/plan.h"

/* The forms (kernels/forms.h) of each input: the union over the layers. */
typedef struct lap_plan_forms {
  int normed, embedded, attention, mlp, per_layer, router, expert, expert_wide;
  bool mlp_floats, expert_floats; /* some layer's down is dense, and reads floats */
} lap_plan_forms;

lap_plan_forms lap_plan_get_forms(const lap_plan *plan);

#endif
