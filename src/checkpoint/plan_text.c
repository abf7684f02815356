/* plan_text.c: every field that decides the forward pass, printed once.
 *
 * A line names its subject (a module by its path in the checkpoint), then pairs of a field's name and its
 * value; fields are called as in plan.h. A module that is not there has no line, so what stands in the
 * other fields of its entry makes no difference. */
#include "checkpoint/plan_text.h"

#include "base/text_buffer.h"

static const char *yes_or_no(bool value) {
  return value ? "yes" : "no";
}

static void add_number(lap_text *out, const char *name, int32_t value) {
  lap_text_add(out, "%s %d\n", name, value);
}

static void add_float(lap_text *out, const char *name, float value) {
  lap_text_add(out, "%s %a\n", name, (double)value);
}

/* ---- model level ---- */

static void add_model(lap_text *out, const lap_plan *plan) {
  add_number(out, "hidden_size", plan->hidden_size);
  add_number(out, "layers", plan->layers);
  add_number(out, "first_sharer", plan->first_sharer);
  add_number(out, "caches", plan->caches);
  add_number(out, "vocab_size", plan->vocab_size);
  add_number(out, "vocab_size_per_layer", plan->vocab_size_per_layer);
  add_number(out, "per_layer_width", plan->per_layer_width);
  add_number(out, "num_experts", plan->num_experts);
  add_number(out, "top_k_experts", plan->top_k_experts);
  add_number(out, "moe_width", plan->moe_width);
  add_float(out, "rms_norm_eps", plan->rms_norm_eps);
  add_float(out, "final_logit_softcapping", plan->final_logit_softcapping);
  add_float(out, "embed_scale", plan->embed_scale);
  add_float(out, "per_layer_embed_scale", plan->per_layer_embed_scale);
  add_float(out, "per_layer_projection_scale", plan->per_layer_projection_scale);
  lap_text_add(out, "tied_head %s\n", yes_or_no(plan->tied_head));
}

static void add_ropes(lap_text *out, const lap_plan *plan) {
  for (int type = 0; type < 2; type++) {
    const lap_rope *rope = &plan->rope[type];
    lap_text_add(out, "rope.%s theta %a factor %a rotated_pairs %d head_dim %d\n",
                 lap_attention_name((lap_attention)type), rope->theta, rope->factor, rope->rotated_pairs,
                 plan->head_dim[type]);
  }
}

/* ---- modules ---- */

/* The rest of a line that begins with the module's name. */
static void add_linear(lap_text *out, const lap_linear *linear) {
  lap_text_add(out, " experts %d out %d in %d bits %d group_size %d dtype %s\n", linear->experts,
               linear->out_features, linear->in_features, linear->bits, linear->group_size,
               lap_dtype_name(linear->dtype));
}

static void add_vector(lap_text *out, const lap_vector *vector) {
  lap_text_add(out, " length %d\n", vector->length);
}

static void add_tables(lap_text *out, const lap_plan *plan) {
  const struct {
    const char *name;
    const lap_linear *linear;
  } linears[] = {{"embed_tokens", &plan->embed},
                 {"embed_tokens_per_layer", &plan->embed_per_layer},
                 {"per_layer_model_projection", &plan->per_layer_projection},
                 {"lm_head", &plan->head}};
  const struct {
    const char *name;
    const lap_vector *vector;
  } vectors[] = {{"norm.weight", &plan->final_norm},
                 {"per_layer_projection_norm.weight", &plan->per_layer_norm}};
  for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
    if (!linears[i].linear->present) continue;
    lap_text_add(out, "%s", linears[i].name);
    add_linear(out, linears[i].linear);
  }
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    if (!vectors[i].vector->present) continue;
    lap_text_add(out, "%s", vectors[i].name);
    add_vector(out, vectors[i].vector);
  }
}

/* ---- a layer ---- */

static void add_layer_fields(lap_text *out, int32_t index, const lap_layer *layer) {
  lap_text_add(out, "layers.%d attention %s sharer %s donor %d exports_kv %s cache %d window %d\n", index,
               lap_attention_name(layer->attention), yes_or_no(layer->sharer), layer->donor,
               yes_or_no(layer->exports_kv), layer->cache, layer->window);
  lap_text_add(out, "layers.%d heads %d kv_heads %d head_dim %d k_eq_v %s kv_bits %d kv_group_size %d\n",
               index, layer->heads, layer->kv_heads, layer->head_dim, yes_or_no(layer->k_eq_v),
               layer->kv_bits, layer->kv_group_size);
  lap_text_add(out, "layers.%d mlp_width %d moe %s layer_scalar %s\n", index, layer->mlp_width,
               yes_or_no(layer->moe), yes_or_no(layer->has_layer_scalar));
}

static void add_layer(lap_text *out, int32_t index, const lap_layer *layer) {
  add_layer_fields(out, index, layer);
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) {
    if (!layer->linear[i].present) continue;
    lap_text_add(out, "layers.%d.%s", index, lap_layer_linear_name((lap_layer_linear)i));
    add_linear(out, &layer->linear[i]);
  }
  for (int i = 0; i < LAP_LAYER_VECTORS; i++) {
    if (!layer->vector[i].present) continue;
    lap_text_add(out, "layers.%d.%s", index, lap_layer_vector_name((lap_layer_vector)i));
    add_vector(out, &layer->vector[i]);
  }
}

lap_status lap_plan_text(const lap_plan *plan, char **text, size_t *length, lap_error *error) {
  lap_text out = {0};
  add_model(&out, plan);
  add_ropes(&out, plan);
  add_tables(&out, plan);
  for (int32_t i = 0; i < plan->layers; i++) add_layer(&out, i, &plan->layer[i]);
  return lap_text_take(&out, text, length, error);
}
