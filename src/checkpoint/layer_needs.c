/* layer_needs.c: two tables with a condition for each row; the rows that hold are the layer's. */
#include "checkpoint/layer_needs.h"

static void list_linears(const lap_layer_facts *f, lap_layer_needs *needs) {
  int32_t hidden = f->hidden_size, width = f->mlp_width, pli = f->per_layer_width;
  int32_t q = f->heads * f->head_dim, kv = f->kv_heads * f->head_dim;
  bool donor = !f->sharer;
  const struct {
    bool needed;
    lap_needed_linear linear;
  } table[] = {
      {true, {LAP_Q_PROJ, 0, q, hidden}},
      {donor, {LAP_K_PROJ, 0, kv, hidden}},
      {donor && !f->k_eq_v, {LAP_V_PROJ, 0, kv, hidden}},
      {true, {LAP_O_PROJ, 0, hidden, q}},
      {true, {LAP_GATE_PROJ, 0, width, hidden}},
      {true, {LAP_UP_PROJ, 0, width, hidden}},
      {true, {LAP_DOWN_PROJ, 0, hidden, width}},
      {pli > 0, {LAP_PLI_GATE, 0, pli, hidden}},
      {pli > 0, {LAP_PLI_PROJECTION, 0, hidden, pli}},
      {f->moe, {LAP_ROUTER, 0, f->experts, hidden}},
      {f->moe, {LAP_EXPERT_GATE, f->experts, f->expert_width, hidden}},
      {f->moe, {LAP_EXPERT_UP, f->experts, f->expert_width, hidden}},
      {f->moe, {LAP_EXPERT_DOWN, f->experts, hidden, f->expert_width}},
  };
  _Static_assert(sizeof table / sizeof *table == LAP_LAYER_LINEARS, "every linear has a row");
  needs->linears = 0;
  for (int i = 0; i < LAP_LAYER_LINEARS; i++)
    if (table[i].needed) needs->linear[needs->linears++] = table[i].linear;
}

static void list_vectors(const lap_layer_facts *f, lap_layer_needs *needs) {
  int32_t hidden = f->hidden_size;
  const struct {
    bool needed;
    lap_needed_vector vector;
  } table[] = {
      {true, {LAP_INPUT_NORM, hidden}},
      {true, {LAP_POST_ATTENTION_NORM, hidden}},
      {true, {LAP_PRE_FEEDFORWARD_NORM, hidden}},
      {true, {LAP_POST_FEEDFORWARD_NORM, hidden}},
      {f->moe, {LAP_PRE_FEEDFORWARD_NORM_2, hidden}},
      {f->moe, {LAP_POST_FEEDFORWARD_NORM_1, hidden}},
      {f->moe, {LAP_POST_FEEDFORWARD_NORM_2, hidden}},
      {true, {LAP_Q_NORM, f->head_dim}},
      {!f->sharer, {LAP_K_NORM, f->head_dim}},
      {f->per_layer_width > 0, {LAP_POST_PLI_NORM, hidden}},
      {f->layer_scalar, {LAP_LAYER_SCALAR, 1}},
      {f->moe, {LAP_ROUTER_SCALE, hidden}},
      {f->moe, {LAP_PER_EXPERT_SCALE, f->experts}},
  };
  _Static_assert(sizeof table / sizeof *table == LAP_LAYER_VECTORS, "every vector has a row");
  needs->vectors = 0;
  for (int i = 0; i < LAP_LAYER_VECTORS; i++)
    if (table[i].needed) needs->vector[needs->vectors++] = table[i].vector;
}

void lap_layer_needs_list(const lap_layer_facts *facts, lap_layer_needs *needs) {
  list_linears(facts, needs);
  list_vectors(facts, needs);
}
