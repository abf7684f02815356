/* layout.c: kinds of layer, forms, places. */
#include "cut/layout.h"

#include <stdio.h>
#include <stdlib.h>

#include "pass/attend_rows.h"

int lap_cut_cache_bits(const lap_layer *layer) {
  return layer->kv_bits ? layer->kv_bits : LAP_PLAIN_BITS;
}

int lap_cut_cache_group(const lap_layer *layer) {
  return layer->kv_bits ? layer->kv_group_size : lap_plain_group(layer->head_dim);
}

/* ---- kinds ---- */

static bool same_format(const lap_linear *a, const lap_linear *b) {
  return a->bits == b->bits && a->group_size == b->group_size && a->dtype == b->dtype;
}

/* The same code, but for the formats of the weights. */
static bool same_kind(const lap_plan *plan, int32_t last, int32_t i, int32_t j) {
  const lap_layer *a = &plan->layer[i], *b = &plan->layer[j];
  for (int which = 0; which < LAP_LAYER_LINEARS; which++) {
    const lap_linear *x = &a->linear[which], *y = &b->linear[which];
    if (x->present != y->present || x->out_features != y->out_features || x->in_features != y->in_features)
      return false;
  }
  return a->attention == b->attention && a->sharer == b->sharer && a->exports_kv == b->exports_kv &&
         a->window == b->window && a->heads == b->heads && a->kv_heads == b->kv_heads &&
         a->head_dim == b->head_dim && a->k_eq_v == b->k_eq_v && a->kv_bits == b->kv_bits &&
         a->kv_group_size == b->kv_group_size && a->mlp_width == b->mlp_width && a->moe == b->moe &&
         a->has_layer_scalar == b->has_layer_scalar && (i == last) == (j == last);
}

static void name_kind(const lap_plan *plan, int32_t index, int32_t last, char *name, size_t size) {
  const lap_layer *layer = &plan->layer[index];
  char cache[32] = "plain";
  if (layer->kv_bits) snprintf(cache, sizeof cache, "g%db%d", layer->kv_group_size, layer->kv_bits);
  snprintf(name, size, "%s_%s_%s%s%s%s%s%s%s%s", layer->sharer ? "sharer" : "donor",
           lap_attention_name(layer->attention), cache,
           layer->sharer ? "" : (layer->k_eq_v ? "_k_is_v" : "_v"),
           layer->mlp_width > plan->layer[0].mlp_width ? "_wide" : "", layer->moe ? "_moe" : "",
           plan->per_layer_width ? "_pli" : "", layer->has_layer_scalar ? "_scalar" : "",
           layer->exports_kv ? "_export" : "", index == last ? "_last" : "");
}

static void find_kinds(const lap_plan *plan, lap_cut_layout *out) {
  for (int32_t i = 0; i < plan->layers; i++) {
    int k = 0;
    while (k < out->kinds && !same_kind(plan, out->last, out->kind[k].first, i)) k++;
    lap_cut_kind *kind = &out->kind[k];
    if (k == out->kinds) {
      out->kinds++;
      kind->first = i;
      name_kind(plan, i, out->last, kind->name, sizeof kind->name);
    }
    out->kind_of[i] = k;
    for (int which = 0; which < LAP_LAYER_LINEARS; which++)
      if (!same_format(&plan->layer[kind->first].linear[which], &plan->layer[i].linear[which]))
        kind->varies[which] = true;
  }
}

/* ---- places ---- */

static long larger(long a, long b) {
  return a > b ? a : b;
}

static long place(long *used, long bytes) {
  long at = *used;
  *used += (long)lap_aligned((size_t)bytes);
  return at;
}

static long floats(int32_t width) {
  return (long)width * (long)sizeof(float);
}

static void find_places(const lap_plan *plan, const lap_plan_forms *forms, lap_cut_places *at) {
  long query = 0, query_forms = 0, key = 0, mlp_forms = 0, used = 0;
  long gate = floats(plan->per_layer_width);
  const bool pli = plan->per_layer_width > 0;
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    const int32_t width = layer->heads * layer->head_dim;
    query = larger(query, floats(width));
    query_forms = larger(query_forms, (long)lap_input_row_bytes(width, forms->attention));
    key = larger(key, floats(layer->kv_heads * layer->head_dim));
    if (forms->mlp_floats) gate = larger(gate, floats(layer->mlp_width));
    mlp_forms = larger(mlp_forms, (long)lap_input_row_bytes(layer->mlp_width, forms->mlp));
  }
  at->hidden = place(&used, floats(plan->hidden_size));
  at->embedded = pli ? place(&used, floats(plan->hidden_size)) : -1;
  at->embedded_forms = pli ? place(&used, (long)lap_input_row_bytes(plan->hidden_size, forms->embedded)) : -1;
  for (int type = 0; type < 2; type++) {
    at->cosine[type] = place(&used, floats(plan->rope[type].rotated_pairs));
    at->sine[type] = place(&used, floats(plan->rope[type].rotated_pairs));
  }
  at->normed = place(&used, floats(plan->hidden_size));
  at->normed_forms = place(&used, (long)lap_input_row_bytes(plan->hidden_size, forms->normed));
  at->pli = pli ? place(&used, floats(plan->per_layer_width)) : -1;
  at->output = plan->num_experts ? place(&used, floats(plan->hidden_size)) : at->normed;
  long attention = used, feed_forward = used;
  at->query = place(&attention, query);
  at->key = place(&attention, key);
  at->value = place(&attention, key);
  at->query_forms = place(&attention, query_forms);
  at->gate = place(&feed_forward, gate);
  at->gate_forms = place(
      &feed_forward, larger(mlp_forms, (long)lap_input_row_bytes(plan->per_layer_width, forms->per_layer)));
  used = larger(attention, feed_forward);
  at->tiles = place(&used, (long)sizeof(lap_tile));
  at->row_bytes = used;
}

lap_status lap_cut_lay_out(const lap_plan *plan, lap_cut_layout *out, lap_error *error) {
  *out = (lap_cut_layout){.last = plan->first_sharer - 1};
  out->kind = calloc((size_t)plan->layers, sizeof *out->kind);
  out->kind_of = calloc((size_t)plan->layers, sizeof *out->kind_of);
  if (!out->kind || !out->kind_of)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for generated code");
  find_kinds(plan, out);
  out->forms = lap_plan_get_forms(plan);
  find_places(plan, &out->forms, &out->at);
  return LAP_OK;
}

void lap_cut_layout_free(lap_cut_layout *layout) {
  free(layout->kind);
  free(layout->kind_of);
  *layout = (lap_cut_layout){0};
}
