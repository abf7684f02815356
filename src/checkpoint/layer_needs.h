/* layer_needs.h: the modules of a layer and their shapes, from the few facts that decide them.
 *
 * The one list of what a layer consists of: the plan builder matches it with the tensors that are there,
 * the forge draws tensors from it. */
#ifndef LAP_CHECKPOINT_LAYER_NEEDS_H
#define LAP_CHECKPOINT_LAYER_NEEDS_H

#include "checkpoint/plan.h"

typedef struct lap_layer_facts {
  int32_t hidden_size;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  bool sharer; /* no keys and values of its own */
  bool k_eq_v;
  int32_t mlp_width;
  int32_t per_layer_width; /* 0 = no per-layer inputs */
  bool moe;
  int32_t experts; /* this and the next only if moe */
  int32_t expert_width;
  bool layer_scalar;
} lap_layer_facts;

typedef struct lap_needed_linear {
  lap_layer_linear which;
  int32_t experts; /* 0 unless it is a stack of experts */
  int32_t out_features;
  int32_t in_features;
} lap_needed_linear;

typedef struct lap_needed_vector {
  lap_layer_vector which;
  int32_t length;
} lap_needed_vector;

typedef struct lap_layer_needs {
  int linears;
  int vectors;
  lap_needed_linear linear[LAP_LAYER_LINEARS]; /* [linears], in the order of the enumeration */
  lap_needed_vector vector[LAP_LAYER_VECTORS]; /* [vectors], likewise */
} lap_layer_needs;

/* Lists what a layer of these facts needs, and nothing else. */
void lap_layer_needs_list(const lap_layer_facts *facts, lap_layer_needs *needs);

#endif
