/* weights.h: a plan's modules bound to mapped tensors, as the kernels read them.
 *
 * Matrices stay in the mapping. Norms and other vectors, which are small, are widened to f32 once.
 * The structure mirrors the plan: layer[i].linear[LAP_Q_PROJ] belongs to plan->layer[i]. */
#ifndef LAP_MODEL_WEIGHTS_H
#define LAP_MODEL_WEIGHTS_H

#include "checkpoint/plan.h"
#include "kernels/kernels.h"

/* A linear module; of a stack of experts, the first. */
typedef struct lap_weight {
  int rows, cols;
  int bits;  /* 0 = dense */
  int block; /* of the quantized input: 64 or 32; 0 if dense */
  lap_qmatrix quantized;
  lap_dmatrix dense;
  size_t expert_weight_bytes, expert_scale_bytes; /* from one expert to the next */
} lap_weight;

typedef struct lap_layer_weights {
  lap_weight linear[LAP_LAYER_LINEARS];
  lap_weight pli_rows;                    /* this layer's rows of per_layer_projection */
  const float *vector[LAP_LAYER_VECTORS]; /* NULL if absent; router.scale includes hidden^-0.5 */
} lap_layer_weights;

typedef struct lap_weights {
  lap_weight embed, embed_per_layer, per_layer_projection, head;
  const float *final_norm, *per_layer_norm;
  lap_layer_weights *layer;
  float *storage;
} lap_weights;

/* Errors: MEMORY. `tensors` must outlive the weights. */
lap_status lap_weights_bind(const lap_plan *plan, const lap_tensors *tensors, lap_weights **out,
                            lap_error *error);
void lap_weights_free(lap_weights *weights);

/* Rows first .. first + rows - 1 as a matrix of their own. */
lap_weight lap_weight_slice(const lap_weight *weight, int first, int rows);

/* The matrix of expert `expert`. */
lap_weight lap_weight_expert(const lap_weight *stack, int expert);

/* Row `row` of a table, dequantized and multiplied by `scale`: y [cols]. */
void lap_weight_row(const lap_weight *table, int row, float scale, float *y);

/* Elements first .. first + count - 1 of that row; first is a multiple of 8. */
void lap_weight_part(const lap_weight *table, int row, int first, int count, float scale, float *y);

#endif
