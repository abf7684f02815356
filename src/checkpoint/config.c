/* config.c: config.json, read once, field by field.
 *
 * A configuration is nested (text fields in `text_config`) or flat. Any optional field may be missing
 * or null; the defaults are those that published files and their reference loader agree on. Whatever
 * would change the mathematics in a way that the forward pass does not compute is refused here. */
#include "checkpoint/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

lap_status lap_config_unsupported(const lap_json_document *document, const lap_json *value, lap_error *error,
                                  const char *format, ...) {
  char what[sizeof error->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  lap_json_fail(document, value, error, "%s", what);
  if (error) error->status = LAP_ERROR_UNSUPPORTED;
  return LAP_ERROR_UNSUPPORTED;
}

/* ---- what kind of model ---- */

static lap_status check_model_type(const lap_config *config, const lap_json *object, lap_error *error) {
  static const char *const known[] = {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"};
  const char *type = NULL;
  lap_status status = lap_json_get_string(config->document, object, "model_type", &type, error);
  if (status != LAP_OK || !type) return status;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(type, known[i])) return LAP_OK;
  return lap_config_unsupported(config->document, lap_json_get(config->document, object, "model_type"), error,
                                "'%.60s' is not a Gemma 4 text model (gemma4, gemma4_text, gemma4_unified, "
                                "gemma4_unified_text)",
                                type);
}

static lap_status find_parts(lap_config *config, lap_error *error) {
  const lap_json_document *document = config->document;
  config->root = lap_json_root(document);
  if (config->root->type != LAP_JSON_OBJECT)
    return lap_json_fail(document, NULL, error, "the configuration must be a JSON object");
  const lap_json *nested = lap_json_get(document, config->root, "text_config");
  config->text = nested && nested->type != LAP_JSON_NULL ? nested : config->root;
  if (config->text->type != LAP_JSON_OBJECT)
    return lap_json_fail(document, nested, error, "must be an object");
  lap_status status = lap_json_get_string(document, config->root, "model_type", &config->model_type, error);
  if (status != LAP_OK) return status;
  if (!config->model_type) return lap_json_fail(document, NULL, error, "model_type: missing");
  status = check_model_type(config, config->root, error);
  return status == LAP_OK ? check_model_type(config, config->text, error) : status;
}

/* Converters write the map twice under two names; either will do. */
static lap_status find_quantization(lap_config *config, lap_error *error) {
  static const char *const names[] = {"quantization", "quantization_config"};
  for (size_t i = 0; i < 2; i++) {
    const lap_json *map = lap_json_get(config->document, config->root, names[i]);
    if (!map || map->type == LAP_JSON_NULL) continue;
    if (map->type != LAP_JSON_OBJECT) return lap_json_fail(config->document, map, error, "must be an object");
    config->quantization = map;
    return LAP_OK;
  }
  return LAP_OK;
}

static lap_status refuse_other_mathematics(const lap_config *config, lap_error *error) {
  const lap_json_document *document = config->document;
  const char *activation = "gelu_pytorch_tanh";
  bool bias = false;
  lap_status status = lap_json_get_string(document, config->text, "hidden_activation", &activation, error);
  if (status == LAP_OK) status = lap_json_get_bool(document, config->text, "attention_bias", &bias, error);
  if (status != LAP_OK) return status;
  if (strcmp(activation, "gelu_pytorch_tanh"))
    return lap_config_unsupported(document, lap_json_get(document, config->text, "hidden_activation"), error,
                                  "'%.40s'; only gelu_pytorch_tanh is computed", activation);
  if (bias)
    return lap_config_unsupported(document, lap_json_get(document, config->text, "attention_bias"), error,
                                  "projections with a bias are not computed");
  /* "vision" concerns image tokens only; anything else would change the mask of text. */
  const lap_json *both = lap_json_get(document, config->text, "use_bidirectional_attention");
  if (!both || both->type == LAP_JSON_NULL || (both->type == LAP_JSON_BOOL && !both->boolean)) return LAP_OK;
  if (both->type == LAP_JSON_STRING && !strcmp(both->string, "vision")) return LAP_OK;
  return lap_config_unsupported(document, both, error, "only causal text attention is computed");
}

/* ---- numbers ---- */

enum {
  REQUIRED = INT32_MIN
};

typedef struct integer_field {
  const char *key;
  size_t offset;
  int32_t min, max, fallback;
} integer_field;

#define FIELD(member) offsetof(lap_config, member)

static const integer_field integer_fields[] = {
    {"hidden_size", FIELD(hidden_size), 1, 65536, REQUIRED},
    {"num_hidden_layers", FIELD(layers), 1, LAP_MAX_LAYERS, REQUIRED},
    {"intermediate_size", FIELD(intermediate_size), 1, 1 << 20, REQUIRED},
    {"num_attention_heads", FIELD(heads), 1, 4096, REQUIRED},
    {"num_key_value_heads", FIELD(kv_heads), 1, 4096, REQUIRED},
    {"num_global_key_value_heads", FIELD(global_kv_heads), 1, 4096, LAP_ABSENT},
    {"head_dim", FIELD(head_dim[LAP_SLIDING]), 1, 1024, 256},
    {"global_head_dim", FIELD(head_dim[LAP_FULL]), 1, 1024, 512},
    {"sliding_window", FIELD(sliding_window), 1, 1 << 24, 512},
    {"sliding_window_pattern", FIELD(sliding_window_pattern), 1, LAP_MAX_LAYERS, 5},
    {"num_kv_shared_layers", FIELD(shared_layers), 0, INT32_MAX, LAP_ABSENT},
    {"hidden_size_per_layer_input", FIELD(per_layer_width), 0, LAP_MAX_PER_LAYER_WIDTH, LAP_ABSENT},
    {"vocab_size", FIELD(vocab_size), 1, LAP_MAX_VOCAB, LAP_ABSENT},
    {"vocab_size_per_layer_input", FIELD(vocab_size_per_layer), 1, LAP_MAX_VOCAB, LAP_ABSENT},
    {"max_position_embeddings", FIELD(max_position_embeddings), 1, 1 << 30, 131072},
    {"num_experts", FIELD(num_experts), 0, 65536, 0},
    {"top_k_experts", FIELD(top_k_experts), 0, LAP_MAX_TOP_K, 0},
    /* Earlier revisions say expert_intermediate_size. */
    {"expert_intermediate_size", FIELD(moe_width), 0, 1 << 20, 0},
    {"moe_intermediate_size", FIELD(moe_width), 0, 1 << 20, LAP_ABSENT},
};

#undef FIELD

static lap_status read_integer_field(lap_config *config, const integer_field *field, lap_error *error) {
  int64_t value = field->fallback;
  lap_status status =
      lap_json_get_integer(config->document, config->text, field->key, field->min, field->max, &value, error);
  if (status != LAP_OK) return status;
  if (value == REQUIRED)
    return lap_json_fail(config->document, config->text, error, "%s: missing", field->key);
  int32_t narrow = (int32_t)value;
  memcpy((char *)config + field->offset, &narrow, sizeof narrow);
  return LAP_OK;
}

static lap_status read_integers(lap_config *config, lap_error *error) {
  for (size_t i = 0; i < sizeof integer_fields / sizeof *integer_fields; i++) {
    int32_t width_so_far = config->moe_width;
    lap_status status = read_integer_field(config, &integer_fields[i], error);
    if (status != LAP_OK) return status;
    if (config->moe_width == LAP_ABSENT) config->moe_width = width_so_far;
  }
  if (config->vocab_size != LAP_ABSENT || config->text == config->root) return LAP_OK;
  int64_t vocab = LAP_ABSENT;
  lap_status status =
      lap_json_get_integer(config->document, config->root, "vocab_size", 1, LAP_MAX_VOCAB, &vocab, error);
  config->vocab_size = (int32_t)vocab;
  return status;
}

/* 0, 1, or LAP_ABSENT if missing or null. */
static lap_status read_tristate(const lap_config *config, const char *key, int32_t *out, lap_error *error) {
  const lap_json *member = lap_json_get(config->document, config->text, key);
  bool value = false;
  lap_status status = lap_json_get_bool(config->document, config->text, key, &value, error);
  *out = !member || member->type == LAP_JSON_NULL ? LAP_ABSENT : value;
  return status;
}

static lap_status read_others(lap_config *config, lap_error *error) {
  const lap_json_document *document = config->document;
  config->tied = true;
  lap_status status = lap_json_get_bool(document, config->root, "tie_word_embeddings", &config->tied, error);
  if (status == LAP_OK)
    status = lap_json_get_bool(document, config->text, "tie_word_embeddings", &config->tied, error);
  if (status == LAP_OK)
    status = lap_json_get_bool(document, config->text, "attention_k_eq_v", &config->k_eq_v, error);
  if (status == LAP_OK)
    status = read_tristate(config, "use_double_wide_mlp", &config->double_wide_mlp, error);
  if (status == LAP_OK) status = read_tristate(config, "enable_moe_block", &config->moe, error);
  config->rms_norm_eps = 1e-6;
  if (status == LAP_OK)
    status =
        lap_json_get_real(document, config->text, "rms_norm_eps", 1e-30, 1, &config->rms_norm_eps, error);
  /* Missing means the published 30, null means none. */
  const lap_json *softcap = lap_json_get(document, config->text, "final_logit_softcapping");
  config->softcap = softcap && softcap->type == LAP_JSON_NULL ? 0 : 30;
  if (status == LAP_OK)
    status =
        lap_json_get_real(document, config->text, "final_logit_softcapping", 0, 1e6, &config->softcap, error);
  return status;
}

static lap_status check_heads(const lap_config *config, lap_error *error) {
  static const char *const names[] = {"head_dim", "global_head_dim"};
  for (int type = 0; type < 2; type++)
    if (config->head_dim[type] % 32)
      return lap_json_fail(config->document, config->text, error, "%s: %d is not a multiple of 32",
                           names[type], config->head_dim[type]);
  if (config->heads % config->kv_heads)
    return lap_json_fail(config->document, config->text, error,
                         "num_key_value_heads: %d does not divide num_attention_heads %d", config->kv_heads,
                         config->heads);
  if (config->global_kv_heads != LAP_ABSENT && config->heads % config->global_kv_heads)
    return lap_json_fail(config->document, config->text, error,
                         "num_global_key_value_heads: %d does not divide num_attention_heads %d",
                         config->global_kv_heads, config->heads);
  if (config->shared_layers >= config->layers)
    return lap_json_fail(config->document, config->text, error,
                         "num_kv_shared_layers: %d leaves none of the %d layers to share from",
                         config->shared_layers, config->layers);
  return LAP_OK;
}

/* ---- layer types and RoPE ---- */

static const char *const type_names[] = {[LAP_SLIDING] = "sliding_attention", [LAP_FULL] = "full_attention"};

static lap_status read_layer_types(lap_config *config, lap_error *error) {
  const lap_json *types = lap_json_get(config->document, config->text, "layer_types");
  if (!types || types->type == LAP_JSON_NULL) {
    /* Older files give the period only; its last layer is the full one. */
    int32_t period = config->sliding_window_pattern;
    for (int32_t i = 0; i < config->layers; i++)
      config->layer_type[i] = i % period == period - 1 ? LAP_FULL : LAP_SLIDING;
    return LAP_OK;
  }
  if (types->type != LAP_JSON_ARRAY) return lap_json_fail(config->document, types, error, "must be an array");
  if (types->length != (size_t)config->layers)
    return lap_json_fail(config->document, types, error, "has %zu entries, but num_hidden_layers is %d",
                         types->length, config->layers);
  int32_t i = 0;
  for (const lap_json *type = types->child; type; type = type->next, i++) {
    if (type->type != LAP_JSON_STRING)
      return lap_json_fail(config->document, type, error, "must be a string");
    if (!strcmp(type->string, type_names[LAP_SLIDING]))
      config->layer_type[i] = LAP_SLIDING;
    else if (!strcmp(type->string, type_names[LAP_FULL]))
      config->layer_type[i] = LAP_FULL;
    else
      return lap_config_unsupported(config->document, type, error, "unknown attention type '%.40s'",
                                    type->string);
  }
  return LAP_OK;
}

static lap_status read_rope_type(const lap_config *config, const lap_json *object, lap_config_rope *rope,
                                 lap_error *error) {
  const char *type = rope->proportional ? "proportional" : "default";
  lap_status status = lap_json_get_string(config->document, object, "rope_type", &type, error);
  if (status != LAP_OK) return status;
  rope->proportional = !strcmp(type, "proportional");
  if (!rope->proportional && strcmp(type, "default"))
    return lap_config_unsupported(config->document, lap_json_get(config->document, object, "rope_type"),
                                  error, "'%.40s'; only default and proportional are computed", type);
  return LAP_OK;
}

static lap_status read_rope(const lap_config *config, const lap_json *object, lap_config_rope *rope,
                            lap_error *error) {
  const lap_json_document *document = config->document;
  if (object->type != LAP_JSON_OBJECT) return lap_json_fail(document, object, error, "must be an object");
  lap_status status = read_rope_type(config, object, rope, error);
  rope->partial = rope->proportional ? 0.25 : 1;
  if (status == LAP_OK)
    status = lap_json_get_real(document, object, "rope_theta", 1e-6, 1e12, &rope->theta, error);
  if (status == LAP_OK)
    status = lap_json_get_real(document, object, "partial_rotary_factor", 1e-6, 1, &rope->partial, error);
  if (status == LAP_OK && rope->proportional)
    status = lap_json_get_real(document, object, "factor", 1e-6, 1e6, &rope->factor, error);
  if (status != LAP_OK) return status;
  /* A partial default RoPE would take its exponents from the rotated width: another function. */
  if (!rope->proportional && rope->partial != 1)
    return lap_config_unsupported(document, lap_json_get(document, object, "partial_rotary_factor"), error,
                                  "%g with rope_type default is not computed", rope->partial);
  return LAP_OK;
}

static lap_status read_ropes(lap_config *config, lap_error *error) {
  config->rope[LAP_SLIDING] = (lap_config_rope){.theta = 1e4, .factor = 1, .partial = 1};
  config->rope[LAP_FULL] =
      (lap_config_rope){.proportional = true, .theta = 1e6, .factor = 1, .partial = 0.25};
  const lap_json *parameters = lap_json_get(config->document, config->text, "rope_parameters");
  if (!parameters || parameters->type == LAP_JSON_NULL) return LAP_OK;
  if (parameters->type != LAP_JSON_OBJECT)
    return lap_json_fail(config->document, parameters, error, "must be an object");
  for (int type = 0; type < 2; type++) {
    const lap_json *object = lap_json_get(config->document, parameters, type_names[type]);
    if (!object || object->type == LAP_JSON_NULL) continue;
    lap_status status = read_rope(config, object, &config->rope[type], error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

lap_status lap_config_read(const lap_json_document *document, lap_config *config, lap_error *error) {
  *config = (lap_config){.document = document};
  lap_status status = find_parts(config, error);
  if (status == LAP_OK) status = find_quantization(config, error);
  if (status == LAP_OK) status = refuse_other_mathematics(config, error);
  if (status == LAP_OK) status = read_integers(config, error);
  if (status == LAP_OK) status = read_others(config, error);
  if (status == LAP_OK) status = check_heads(config, error);
  if (status == LAP_OK) status = read_layer_types(config, error);
  if (status == LAP_OK) status = read_ropes(config, error);
  return status;
}
