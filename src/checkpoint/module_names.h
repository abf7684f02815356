/* module_names.h: the modules of a layer and its two attention types as indices, and limits that code
 * which computes with them relies on.
 *
 * Depends on nothing, so that generated code can include it. */
#ifndef LAP_CHECKPOINT_MODULE_NAMES_H
#define LAP_CHECKPOINT_MODULE_NAMES_H

enum {
  LAP_MAX_TOP_K = 64,            /* experts of a token */
  LAP_MAX_PER_LAYER_WIDTH = 2048 /* a multiple of 32 */
};

typedef enum lap_attention {
  LAP_SLIDING,
  LAP_FULL
} lap_attention;

typedef enum lap_layer_linear {
  LAP_Q_PROJ,
  LAP_K_PROJ,
  LAP_V_PROJ,
  LAP_O_PROJ,
  LAP_GATE_PROJ,
  LAP_UP_PROJ,
  LAP_DOWN_PROJ,
  LAP_PLI_GATE,       /* per_layer_input_gate: hidden to per-layer width */
  LAP_PLI_PROJECTION, /* per_layer_projection: back to hidden */
  LAP_ROUTER,
  LAP_EXPERT_GATE,
  LAP_EXPERT_UP,
  LAP_EXPERT_DOWN,
  LAP_LAYER_LINEARS
} lap_layer_linear;

typedef enum lap_layer_vector {
  LAP_INPUT_NORM,
  LAP_POST_ATTENTION_NORM,
  LAP_PRE_FEEDFORWARD_NORM,
  LAP_POST_FEEDFORWARD_NORM,
  LAP_PRE_FEEDFORWARD_NORM_2,
  LAP_POST_FEEDFORWARD_NORM_1,
  LAP_POST_FEEDFORWARD_NORM_2,
  LAP_Q_NORM,
  LAP_K_NORM,
  LAP_POST_PLI_NORM,
  LAP_LAYER_SCALAR,
  LAP_ROUTER_SCALE,
  LAP_PER_EXPERT_SCALE,
  LAP_LAYER_VECTORS
} lap_layer_vector;

#endif
