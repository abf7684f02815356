/* forward_state.h: what the parts of a forward pass share. Private to src/model. */
#ifndef LAP_MODEL_FORWARD_STATE_H
#define LAP_MODEL_FORWARD_STATE_H

#include "model/forward.h"

/* One token on its way through the layers. */
typedef struct lap_row {
  int segment;
  int32_t id;
  int64_t position;
  bool wants_logits;
} lap_row;

/* Queries of a tile share the keys that they walk over. */
enum {
  LAP_TILE_QUERIES = 32,
  LAP_EXPERT_TILE_ROWS = 32
};

/* The buffers below, each [rows, width of the widest layer]. */
enum {
  LAP_HIDDEN,
  LAP_EMBEDDED,
  LAP_NORMED,
  LAP_QUERY,
  LAP_KEY,
  LAP_VALUE,
  LAP_GATE,
  LAP_UP,
  LAP_OUTPUT,
  LAP_PLI,
  LAP_COSINE,                /* by attention type */
  LAP_SINE = LAP_COSINE + 2, /* by attention type */
  LAP_INPUT = LAP_SINE + 2,  /* quantized forms of hidden-wide inputs */
  LAP_EMBEDDED_INPUT,
  LAP_WIDE_INPUT,
  LAP_ROWS,
  LAP_SEGMENT_CACHES,
  LAP_BUFFERS
};

struct lap_forward {
  const lap_model *model;
  lap_workspace workspace;
  const lap_probe *probe;

  const lap_segment *segments;
  int segment_count;
  int rows; /* those still on their way */
  lap_row *row;
  const lap_cache **segment_cache; /* of the layer at hand */

  float *hidden;   /* the residual stream */
  float *embedded; /* the scaled embedding, which every layer's per-layer input reads */
  float *normed;   /* a norm's output, the input of products */
  float *query;    /* [rows, heads * head_dim]; attention's output takes its place */
  float *key;      /* [rows, kv_heads * head_dim] */
  float *value;
  float *gate; /* [rows, mlp_width] */
  float *up;
  float *output;    /* [rows, hidden]: what goes back to the stream */
  float *pli;       /* [rows, per_layer_width] */
  float *cosine[2]; /* by attention type, [rows, rotated_pairs] */
  float *sine[2];
  lap_input input;          /* of products with hidden-wide inputs */
  lap_input embedded_input; /* of the per-layer projection */
  lap_input wide_input;     /* of o_proj, down_proj and the per-layer projection back */

  lap_buffer buffer[LAP_BUFFERS];
  lap_buffer attention_scratch; /* one part for each thread */
  lap_buffer attention_states;  /* of spans computed apart */
  lap_buffer tiles;
  lap_buffer expert_memory;
};

/* Makes the buffers of the two functions below large enough for `rows` rows that stand in
 * forward->row. Errors: MEMORY. */
lap_status lap_attend_prepare(lap_forward *forward, int rows, lap_error *error);
lap_status lap_experts_prepare(lap_forward *forward, lap_error *error);

/* Attention of all rows over their sequences' caches (caches[segment]): query is replaced by the
 * output. */
void lap_attend_rows(lap_forward *forward, const lap_layer *layer, const lap_cache *const *caches);

/* The mixture of experts of layer `index` on `normed` (pre_feedforward_layernorm_2 applied), routed by
 * `hidden`: out [rows, hidden]. */
void lap_route_experts(lap_forward *forward, int index, float *out);

#endif
