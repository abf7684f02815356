/* layout.h: what the generator decides before it writes: the kinds of layer, the forms of activations, and
 * where activations stand in the arena. */
#ifndef LAP_CUT_LAYOUT_H
#define LAP_CUT_LAYOUT_H

#include "program/inputs.h"

/* Places in the arena, in bytes for each row; -1 where the model has no such thing. */
typedef struct lap_cut_places {
  long hidden, embedded, embedded_forms, cosine[2], sine[2], normed, normed_forms, pli;
  long output;                         /* takes the place of normed, but where experts read both */
  long query, query_forms, key, value; /* of attention */
  long gate, gate_forms;               /* of feed-forward and per-layer inputs, in the same room */
  long tiles;
  long row_bytes;
} lap_cut_places;

/* Layers that are computed by the same code, but for the bits of their weights. */
typedef struct lap_cut_kind {
  char name[96];                  /* says what it is, for instance donor_sliding_g64b4_v_pli_scalar_export */
  int32_t first;                  /* the first layer of this kind */
  bool varies[LAP_LAYER_LINEARS]; /* bits, group or number format of a linear differ among its layers */
} lap_cut_kind;

typedef struct lap_cut_layout {
  lap_cut_places at;
  lap_plan_forms forms;
  lap_cut_kind *kind; /* [kinds] */
  int kinds;
  int *kind_of; /* [layers] */
  int32_t last; /* the layer at which rows leave that nobody wants logits of: the last donor */
} lap_cut_layout;

/* `*out` is to be released with lap_cut_layout_free, also after a failure. Errors: MEMORY. */
lap_status lap_cut_lay_out(const lap_plan *plan, lap_cut_layout *out, lap_error *error);
void lap_cut_layout_free(lap_cut_layout *layout);

/* Bits and group size of a layer's cache as the kernels count them: plain ones have 16 bits. */
int lap_cut_cache_bits(const lap_layer *layer);
int lap_cut_cache_group(const lap_layer *layer);

#endif
