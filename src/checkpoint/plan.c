/* plan.c: the configuration and the tensors become a plan.
 *
 * The order matters: model level first (vocabulary, per-layer inputs), then each layer in ascending
 * order, so that a sharer finds its donor planned, then what depends on the vocabulary (token ids) and
 * on the layers (cache kinds). Where the configuration leaves something open the tensors decide;
 * where both speak they must agree. Nothing is guessed afterwards: a plan that was returned needs no
 * further checks.
 *
 * What the tensors decide, when the field is missing or null:
 *  - hidden_size_per_layer_input: the length of per_layer_projection_norm if there is a per-layer
 *    table, else 0. (The reference loader's default of 256 would demand modules that are not there.)
 *  - num_kv_shared_layers: the layers at the end that hold no k_proj. If all hold one, nothing tells
 *    sharers from donors, and the reference loader's default counts: 20, for the E models that have
 *    per-layer inputs and more layers than that.
 *  - use_double_wide_mlp: whether a sharer's gate_proj has twice intermediate_size rows.
 *  - enable_moe_block: whether layer 0 has a router.
 *  - vocabulary sizes: the rows of the tables. */
#include "checkpoint/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/companions.h"
#include "checkpoint/layer_needs.h"
#include "checkpoint/modules.h"

const char *const lap_kv_words[] = {"config", "plain", "8", "4", NULL};

enum {
  MAX_JSON_BYTES = 64 << 20,
  MAX_PATH_BELOW_LAYER = 96,
  DEFAULT_SHARED_LAYERS = 20
};

static const char *const linear_names[LAP_LAYER_LINEARS] = {
    [LAP_Q_PROJ] = "self_attn.q_proj",
    [LAP_K_PROJ] = "self_attn.k_proj",
    [LAP_V_PROJ] = "self_attn.v_proj",
    [LAP_O_PROJ] = "self_attn.o_proj",
    [LAP_GATE_PROJ] = "mlp.gate_proj",
    [LAP_UP_PROJ] = "mlp.up_proj",
    [LAP_DOWN_PROJ] = "mlp.down_proj",
    [LAP_PLI_GATE] = "per_layer_input_gate",
    [LAP_PLI_PROJECTION] = "per_layer_projection",
    [LAP_ROUTER] = "router.proj",
    [LAP_EXPERT_GATE] = "experts.switch_glu.gate_proj",
    [LAP_EXPERT_UP] = "experts.switch_glu.up_proj",
    [LAP_EXPERT_DOWN] = "experts.switch_glu.down_proj",
};

static const char *const vector_names[LAP_LAYER_VECTORS] = {
    [LAP_INPUT_NORM] = "input_layernorm.weight",
    [LAP_POST_ATTENTION_NORM] = "post_attention_layernorm.weight",
    [LAP_PRE_FEEDFORWARD_NORM] = "pre_feedforward_layernorm.weight",
    [LAP_POST_FEEDFORWARD_NORM] = "post_feedforward_layernorm.weight",
    [LAP_PRE_FEEDFORWARD_NORM_2] = "pre_feedforward_layernorm_2.weight",
    [LAP_POST_FEEDFORWARD_NORM_1] = "post_feedforward_layernorm_1.weight",
    [LAP_POST_FEEDFORWARD_NORM_2] = "post_feedforward_layernorm_2.weight",
    [LAP_Q_NORM] = "self_attn.q_norm.weight",
    [LAP_K_NORM] = "self_attn.k_norm.weight",
    [LAP_POST_PLI_NORM] = "post_per_layer_input_norm.weight",
    [LAP_LAYER_SCALAR] = "layer_scalar",
    [LAP_ROUTER_SCALE] = "router.scale",
    [LAP_PER_EXPERT_SCALE] = "router.per_expert_scale",
};

const char *lap_attention_name(lap_attention attention) {
  return attention == LAP_FULL ? "full" : "sliding";
}

const char *lap_layer_linear_name(lap_layer_linear which) {
  return linear_names[which];
}

const char *lap_layer_vector_name(lap_layer_vector which) {
  return vector_names[which];
}

typedef struct builder {
  const lap_config *config;
  lap_modules modules;
  lap_plan *plan;
  lap_error *error;
} builder;

typedef char layer_path[MAX_PATH_BELOW_LAYER];

static const char *path_in_layer(int32_t index, const char *name, layer_path path) {
  snprintf(path, sizeof(layer_path), "layers.%d.%s", index, name);
  return path;
}

static int64_t rows_in_layer(const builder *b, int32_t index, const char *name) {
  layer_path path;
  return lap_modules_rows(&b->modules, path_in_layer(index, name, path), ".weight");
}

/* ---- model level ---- */

static int32_t rows_or(const builder *b, const char *path, int32_t fallback) {
  int64_t rows = lap_modules_rows(&b->modules, path, ".weight");
  return rows >= 1 && rows <= LAP_MAX_VOCAB ? (int32_t)rows : fallback;
}

static lap_status plan_per_layer_width(builder *b) {
  lap_plan *plan = b->plan;
  plan->per_layer_width = b->config->per_layer_width;
  if (plan->per_layer_width == LAP_ABSENT) {
    bool table = lap_modules_find(&b->modules, "embed_tokens_per_layer", ".weight") >= 0;
    plan->per_layer_width = table ? rows_or(b, "per_layer_projection_norm", 256) : 0;
  }
  if (plan->per_layer_width % 32 || plan->per_layer_width > LAP_MAX_PER_LAYER_WIDTH)
    return lap_config_unsupported(b->config->document, b->config->text, b->error,
                                  "hidden_size_per_layer_input: %d is not a multiple of 32 of at most %d",
                                  plan->per_layer_width, (int)LAP_MAX_PER_LAYER_WIDTH);
  return LAP_OK;
}

static void plan_ropes(builder *b) {
  for (int type = 0; type < 2; type++) {
    const lap_config_rope *rope = &b->config->rope[type];
    int32_t head_dim = b->config->head_dim[type];
    b->plan->head_dim[type] = head_dim;
    b->plan->rope[type] = (lap_rope){
        .theta = rope->theta,
        .factor = rope->factor,
        .rotated_pairs = rope->proportional ? (int32_t)(rope->partial * head_dim / 2) : head_dim / 2,
    };
  }
}

static void plan_constants(builder *b) {
  const lap_config *config = b->config;
  lap_plan *plan = b->plan;
  snprintf(plan->model_type, sizeof plan->model_type, "%s", config->model_type);
  plan->hidden_size = config->hidden_size;
  plan->layers = config->layers;
  plan->max_position_embeddings = config->max_position_embeddings;
  plan->rms_norm_eps = (float)config->rms_norm_eps;
  plan->final_logit_softcapping = (float)config->softcap;
  plan->embed_scale = (float)sqrt(config->hidden_size);
  plan->per_layer_projection_scale = (float)(1 / sqrt(config->hidden_size));
  plan->per_layer_embed_scale = (float)sqrt(plan->per_layer_width);
  plan->vocab_size =
      config->vocab_size != LAP_ABSENT ? config->vocab_size : rows_or(b, "embed_tokens", LAP_MAX_VOCAB);
}

static lap_status plan_moe(builder *b) {
  const lap_config *config = b->config;
  bool moe = config->moe == LAP_ABSENT ? rows_in_layer(b, 0, linear_names[LAP_ROUTER]) >= 0 : config->moe;
  if (!moe) return LAP_OK;
  const struct {
    const char *name;
    int32_t value;
  } needed[] = {{"num_experts", config->num_experts},
                {"top_k_experts", config->top_k_experts},
                {"moe_intermediate_size", config->moe_width}};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i].value < 1)
      return lap_json_fail(config->document, config->text, b->error,
                           "%s: missing or 0, but the model has experts (enable_moe_block)", needed[i].name);
  if (config->top_k_experts > config->num_experts)
    return lap_json_fail(config->document, config->text, b->error, "top_k_experts: %d of only %d experts",
                         config->top_k_experts, config->num_experts);
  b->plan->num_experts = config->num_experts;
  b->plan->top_k_experts = config->top_k_experts;
  b->plan->moe_width = config->moe_width;
  return LAP_OK;
}

static lap_status match_tables(builder *b) {
  lap_plan *plan = b->plan;
  const lap_modules *modules = &b->modules;
  int32_t hidden = plan->hidden_size;
  lap_status status =
      lap_modules_linear(modules, "embed_tokens", 0, plan->vocab_size, hidden, &plan->embed, b->error);
  if (status == LAP_OK)
    status = lap_modules_vector(modules, "norm.weight", hidden, &plan->final_norm, b->error);
  if (status != LAP_OK) return status;
  plan->head = plan->embed;
  plan->tied_head = true;
  if (b->config->tied) return LAP_OK;
  lap_linear head = {0};
  status = lap_modules_head(modules, plan->vocab_size, hidden, &head, b->error);
  if (status != LAP_OK || !head.present) return status;
  plan->head = head;
  plan->tied_head = false;
  return LAP_OK;
}

static lap_status match_per_layer_inputs(builder *b) {
  lap_plan *plan = b->plan;
  const lap_modules *modules = &b->modules;
  int32_t width = plan->per_layer_width, all = plan->layers * width;
  if (!width) return LAP_OK;
  plan->vocab_size_per_layer = b->config->vocab_size_per_layer != LAP_ABSENT
                                   ? b->config->vocab_size_per_layer
                                   : rows_or(b, "embed_tokens_per_layer", plan->vocab_size);
  if (plan->vocab_size_per_layer < plan->vocab_size)
    return lap_json_fail(b->config->document, b->config->text, b->error,
                         "vocab_size_per_layer_input: %d is smaller than vocab_size %d: tokens from there on "
                         "would have no per-layer input",
                         plan->vocab_size_per_layer, plan->vocab_size);
  lap_status status = lap_modules_linear(modules, "embed_tokens_per_layer", 0, plan->vocab_size_per_layer,
                                         all, &plan->embed_per_layer, b->error);
  if (status == LAP_OK)
    status = lap_modules_linear(modules, "per_layer_model_projection", 0, all, plan->hidden_size,
                                &plan->per_layer_projection, b->error);
  if (status == LAP_OK)
    status = lap_modules_vector(modules, "per_layer_projection_norm.weight", width, &plan->per_layer_norm,
                                b->error);
  return status;
}

static void plan_sharing(builder *b) {
  lap_plan *plan = b->plan;
  int32_t shared = b->config->shared_layers;
  if (shared == LAP_ABSENT) {
    shared = 0;
    while (shared < plan->layers - 1 &&
           rows_in_layer(b, plan->layers - 1 - shared, linear_names[LAP_K_PROJ]) < 0)
      shared++;
    if (!shared && plan->per_layer_width && plan->layers > DEFAULT_SHARED_LAYERS)
      shared = DEFAULT_SHARED_LAYERS;
  }
  plan->first_sharer = plan->layers - shared;
}

/* ---- one layer ---- */

/* The full layers' own count of KV heads applies with attention_k_eq_v; without, files have been seen
 * that state it all the same, and then k_proj shows which of the two counts is meant. */
static int32_t full_kv_heads(const builder *b, int32_t index) {
  const lap_config *config = b->config;
  if (config->global_kv_heads == LAP_ABSENT) return config->kv_heads;
  if (config->k_eq_v) return config->global_kv_heads;
  int64_t rows = rows_in_layer(b, index, linear_names[LAP_K_PROJ]);
  return rows == (int64_t)config->global_kv_heads * config->head_dim[LAP_FULL] ? config->global_kv_heads
                                                                               : config->kv_heads;
}

static lap_status become_sharer(builder *b, int32_t index, lap_layer *layer) {
  lap_plan *plan = b->plan;
  int32_t donor = plan->first_sharer - 1;
  while (donor >= 0 && plan->layer[donor].attention != layer->attention) donor--;
  if (donor < 0)
    return lap_json_fail(
        b->config->document, b->config->text, b->error,
        "num_kv_shared_layers: layer %d shares keys and values, but none of the %d layers that "
        "compute them is of its attention type",
        index, plan->first_sharer);
  layer->sharer = true;
  layer->donor = donor;
  layer->cache = plan->layer[donor].cache;
  layer->kv_heads = plan->layer[donor].kv_heads;
  plan->layer[donor].exports_kv = true;
  return LAP_OK;
}

static lap_status plan_attention(builder *b, int32_t index, lap_layer *layer) {
  const lap_config *config = b->config;
  layer->attention = config->layer_type[index];
  layer->window = layer->attention == LAP_SLIDING ? config->sliding_window : 0;
  layer->heads = config->heads;
  layer->head_dim = config->head_dim[layer->attention];
  if (index >= b->plan->first_sharer) return become_sharer(b, index, layer);
  layer->donor = index;
  layer->cache = b->plan->caches++;
  layer->kv_heads = layer->attention == LAP_FULL ? full_kv_heads(b, index) : config->kv_heads;
  layer->k_eq_v = config->k_eq_v && layer->attention == LAP_FULL;
  return LAP_OK;
}

static int32_t mlp_width(const builder *b, int32_t index, const lap_layer *layer) {
  int32_t width = b->config->intermediate_size, wide = b->config->double_wide_mlp;
  if (!layer->sharer) return width;
  if (wide == LAP_ABSENT) wide = rows_in_layer(b, index, linear_names[LAP_GATE_PROJ]) == 2 * (int64_t)width;
  return wide ? 2 * width : width;
}

static void list_needs(const lap_plan *plan, const lap_layer *layer, lap_layer_needs *needs) {
  const lap_layer_facts facts = {
      .hidden_size = plan->hidden_size,
      .heads = layer->heads,
      .kv_heads = layer->kv_heads,
      .head_dim = layer->head_dim,
      .sharer = layer->sharer,
      .k_eq_v = layer->k_eq_v,
      .mlp_width = layer->mlp_width,
      .per_layer_width = plan->per_layer_width,
      .moe = layer->moe,
      .experts = plan->num_experts,
      .expert_width = plan->moe_width,
      .layer_scalar = layer->has_layer_scalar,
  };
  lap_layer_needs_list(&facts, needs);
}

static lap_status match_layer(builder *b, int32_t index, lap_layer *layer) {
  lap_layer_needs needs;
  layer_path path;
  lap_status status = LAP_OK;
  list_needs(b->plan, layer, &needs);
  for (int i = 0; i < needs.linears && status == LAP_OK; i++) {
    const lap_needed_linear *n = &needs.linear[i];
    status = lap_modules_linear(&b->modules, path_in_layer(index, linear_names[n->which], path), n->experts,
                                n->out_features, n->in_features, &layer->linear[n->which], b->error);
  }
  for (int i = 0; i < needs.vectors && status == LAP_OK; i++) {
    const lap_needed_vector *n = &needs.vector[i];
    status = lap_modules_vector(&b->modules, path_in_layer(index, vector_names[n->which], path), n->length,
                                &layer->vector[n->which], b->error);
  }
  return status;
}

static lap_status plan_layer(builder *b, int32_t index) {
  lap_layer *layer = &b->plan->layer[index];
  lap_status status = plan_attention(b, index, layer);
  if (status != LAP_OK) return status;
  layer_path path;
  layer->mlp_width = mlp_width(b, index, layer);
  layer->moe = b->plan->num_experts > 0;
  layer->has_layer_scalar =
      lap_modules_find(&b->modules, path_in_layer(index, vector_names[LAP_LAYER_SCALAR], path), "") >= 0;
  return match_layer(b, index, layer);
}

static lap_status plan_layers(builder *b) {
  lap_plan *plan = b->plan;
  plan->layer = calloc((size_t)plan->layers, sizeof *plan->layer);
  if (!plan->layer) return lap_fail(b->error, LAP_ERROR_MEMORY, "out of memory for the plan");
  for (int32_t i = 0; i < plan->layers; i++) {
    lap_status status = plan_layer(b, i);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

/* ---- tokens, sampling, caches ---- */

/* The first of the places that says one. */
static lap_status plan_token(builder *b, const lap_json_document *generation, const char *key, int32_t *out) {
  const lap_config *config = b->config;
  int64_t id = -1, last = b->plan->vocab_size - 1;
  lap_status status = lap_json_get_integer(config->document, config->text, key, 0, last, &id, b->error);
  if (status == LAP_OK && id < 0)
    status = lap_json_get_integer(config->document, config->root, key, 0, last, &id, b->error);
  if (status == LAP_OK && id < 0 && generation)
    status = lap_json_get_integer(generation, lap_json_root(generation), key, 0, last, &id, b->error);
  *out = (int32_t)id;
  return status;
}

static lap_status plan_tokens(builder *b, const lap_json_document *generation) {
  const lap_config *config = b->config;
  lap_status status = plan_token(b, generation, "bos_token_id", &b->plan->bos);
  if (status == LAP_OK) status = plan_token(b, generation, "pad_token_id", &b->plan->pad);
  if (status == LAP_OK) status = lap_plan_add_eos(config->document, config->root, b->plan, b->error);
  if (status == LAP_OK) status = lap_plan_add_eos(config->document, config->text, b->plan, b->error);
  lap_generation_defaults(&b->plan->generation);
  if (status == LAP_OK && generation) status = lap_generation_read(generation, b->plan, b->error);
  return status;
}

static lap_status plan_caches(builder *b, const lap_json_document *kv_config) {
  lap_plan *plan = b->plan;
  lap_status status = LAP_OK;
  if (plan->kv_mode == LAP_KV_CONFIG && kv_config)
    status = lap_kv_config_read(kv_config, plan, b->error);
  else if (plan->kv_mode == LAP_KV_8)
    lap_kv_uniform(plan, 8);
  else if (plan->kv_mode == LAP_KV_4)
    lap_kv_uniform(plan, 4);
  if (status == LAP_OK) lap_kv_copy_to_sharers(plan);
  return status;
}

/* ---- building ---- */

/* The parsed files; those that are not there, or not to be read, are NULL. */
typedef struct documents {
  lap_json_document *config, *kv_config, *generation;
  bool has_kv_config;
} documents;

static void free_documents(documents *d) {
  lap_json_free(d->config);
  lap_json_free(d->kv_config);
  lap_json_free(d->generation);
}

static lap_status fill_plan(builder *b, const documents *d) {
  lap_status status = lap_modules_open(b->config, b->modules.tensors, &b->modules, b->error);
  if (status == LAP_OK) status = plan_per_layer_width(b);
  if (status != LAP_OK) return status;
  plan_constants(b);
  plan_ropes(b);
  status = plan_moe(b);
  if (status == LAP_OK) status = match_tables(b);
  if (status == LAP_OK) status = match_per_layer_inputs(b);
  if (status != LAP_OK) return status;
  plan_sharing(b);
  status = plan_layers(b);
  if (status == LAP_OK) status = plan_tokens(b, d->generation);
  if (status == LAP_OK) status = plan_caches(b, d->kv_config);
  return status;
}

static lap_status build(const documents *d, const lap_tensors *tensors, lap_kv_mode kv_mode, lap_plan **out,
                        lap_error *error) {
  lap_plan *plan = calloc(1, sizeof *plan);
  lap_config *config = calloc(1, sizeof *config);
  builder b = {.config = config, .modules = {.tensors = tensors}, .plan = plan, .error = error};
  lap_status status = plan && config ? lap_config_read(d->config, config, error)
                                     : lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the plan");
  if (status != LAP_OK) goto cleanup;
  plan->kv_mode = kv_mode;
  plan->has_kv_config = d->has_kv_config;
  status = fill_plan(&b, d);
  if (status != LAP_OK) goto cleanup;
  *out = plan;
  plan = NULL;
cleanup:
  lap_plan_free(plan);
  free(config);
  return status;
}

static lap_status parse_optional(const char *text, size_t length, const char *name, lap_json_document **out,
                                 lap_error *error) {
  return text ? lap_json_parse(text, length, name, out, error) : LAP_OK;
}

lap_status lap_plan_build_memory(const char *config, size_t config_length, const char *kv_config,
                                 size_t kv_config_length, const char *generation_config,
                                 size_t generation_config_length, const lap_tensors *tensors,
                                 lap_kv_mode kv_mode, lap_plan **out, lap_error *error) {
  documents d = {.has_kv_config = kv_config != NULL};
  *out = NULL;
  lap_status status = lap_json_parse(config, config_length, "config.json", &d.config, error);
  if (status == LAP_OK)
    status = parse_optional(generation_config, generation_config_length, "generation_config.json",
                            &d.generation, error);
  if (status == LAP_OK && kv_mode == LAP_KV_CONFIG)
    status = parse_optional(kv_config, kv_config_length, "kv_config.json", &d.kv_config, error);
  if (status == LAP_OK) status = build(&d, tensors, kv_mode, out, error);
  free_documents(&d);
  return status;
}

/* Reads DIRECTORY/name. An optional file may be missing; with `wanted` false only its presence is
 * noted, so that a broken one cannot stop a mode that has no use for it. */
static lap_status read_file(const char *directory, const char *name, bool optional, bool wanted,
                            bool *present, lap_json_document **out, lap_error *error) {
  char *path;
  if (asprintf(&path, "%s/%s", directory, name) < 0)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", directory);
  *present = access(path, F_OK) == 0;
  lap_status status = LAP_OK;
  if (wanted && (*present || !optional)) status = lap_json_read(path, MAX_JSON_BYTES, out, error);
  free(path);
  return status;
}

lap_status lap_plan_build(const char *directory, const lap_tensors *tensors, lap_kv_mode kv_mode,
                          lap_plan **out, lap_error *error) {
  documents d = {0};
  bool present;
  *out = NULL;
  lap_status status = read_file(directory, "config.json", false, true, &present, &d.config, error);
  if (status == LAP_OK)
    status = read_file(directory, "generation_config.json", true, true, &present, &d.generation, error);
  if (status == LAP_OK)
    status = read_file(directory, "kv_config.json", true, kv_mode == LAP_KV_CONFIG, &d.has_kv_config,
                       &d.kv_config, error);
  if (status == LAP_OK) status = build(&d, tensors, kv_mode, out, error);
  free_documents(&d);
  return status;
}

void lap_plan_free(lap_plan *plan) {
  if (!plan) return;
  free(plan->layer);
  free(plan);
}
