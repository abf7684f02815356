/* inputs.c: each linear adds the form that it reads to the input that it reads. A dense one reads floats. */
#include "program/inputs.h"

#include "kernels/forms.h"

static int form_of(const lap_linear *linear) {
  return linear->present ? lap_form_for(linear->bits, linear->group_size) : 0;
}

static bool is_dense(const lap_linear *linear) {
  return linear->present && linear->bits == 0;
}

lap_plan_forms lap_plan_get_forms(const lap_plan *plan) {
  static const lap_layer_linear of_normed[] = {LAP_Q_PROJ,    LAP_K_PROJ,  LAP_V_PROJ,
                                               LAP_GATE_PROJ, LAP_UP_PROJ, LAP_PLI_GATE};
  lap_plan_forms forms = {.normed = form_of(&plan->head), .embedded = form_of(&plan->per_layer_projection)};
  for (int i = 0; i < plan->layers; i++) {
    const lap_linear *linear = plan->layer[i].linear;
    for (size_t n = 0; n < sizeof of_normed / sizeof *of_normed; n++)
      forms.normed |= form_of(&linear[of_normed[n]]);
    forms.attention |= form_of(&linear[LAP_O_PROJ]);
    forms.mlp |= form_of(&linear[LAP_DOWN_PROJ]);
    forms.mlp_floats = forms.mlp_floats || is_dense(&linear[LAP_DOWN_PROJ]);
    forms.per_layer |= form_of(&linear[LAP_PLI_PROJECTION]);
    forms.router |= form_of(&linear[LAP_ROUTER]);
    forms.expert |= form_of(&linear[LAP_EXPERT_GATE]) | form_of(&linear[LAP_EXPERT_UP]);
    forms.expert_wide |= form_of(&linear[LAP_EXPERT_DOWN]);
    forms.expert_floats = forms.expert_floats || is_dense(&linear[LAP_EXPERT_DOWN]);
  }
  return forms;
}
