/* words.c: names, for people and for text that is generated. */
#include <stdio.h>

#include "device/kv_layout.h"
#include "program/program.h"

const char *lap_step_kind_name(lap_step_kind kind) {
  static const char *const names[LAP_STEP_KINDS] = {
      [LAP_STEP_EMBED] = "embed",
      [LAP_STEP_NORM] = "norm",
      [LAP_STEP_PRODUCT] = "product",
      [LAP_STEP_WRITE_KEYS] = "write keys",
      [LAP_STEP_DROP_ROWS] = "drop rows",
      [LAP_STEP_ROTATE_QUERIES] = "rotate",
      [LAP_STEP_ATTEND] = "attend",
      [LAP_STEP_QUANTIZE] = "quantize",
      [LAP_STEP_ADD_NORM] = "add norm",
      [LAP_STEP_PAIR] = "pair",
      [LAP_STEP_EXPERTS] = "experts",
      [LAP_STEP_JOIN_EXPERTS] = "join experts",
      [LAP_STEP_PER_LAYER_ROW] = "layer input",
      [LAP_STEP_PER_LAYER_GATE] = "gate",
      [LAP_STEP_SCALE] = "scale",
      [LAP_STEP_GIVE_HIDDEN] = "give hidden",
      [LAP_STEP_HEAD] = "head",
      [LAP_STEP_SHOW] = "show",
  };
  return names[kind];
}

const char *lap_buffer_name(lap_buffer buffer) {
  static const char *const names[LAP_BUFFERS] = {
      [LAP_BUFFER_HIDDEN] = "hidden",
      [LAP_BUFFER_EMBEDDED] = "embedded",
      [LAP_BUFFER_EMBEDDED_FORMS] = "embedded_forms",
      [LAP_BUFFER_COSINE_SLIDING] = "cosine_sliding",
      [LAP_BUFFER_SINE_SLIDING] = "sine_sliding",
      [LAP_BUFFER_COSINE_FULL] = "cosine_full",
      [LAP_BUFFER_SINE_FULL] = "sine_full",
      [LAP_BUFFER_NORMED] = "normed",
      [LAP_BUFFER_NORMED_FORMS] = "normed_forms",
      [LAP_BUFFER_PLI] = "pli",
      [LAP_BUFFER_OUTPUT] = "output",
      [LAP_BUFFER_QUERY] = "query",
      [LAP_BUFFER_KEY] = "key",
      [LAP_BUFFER_VALUE] = "value",
      [LAP_BUFFER_QUERY_FORMS] = "query_forms",
      [LAP_BUFFER_GATE] = "gate",
      [LAP_BUFFER_GATE_FORMS] = "gate_forms",
      [LAP_BUFFER_TILES] = "tiles",
      [LAP_BUFFER_CACHE] = "cache",
      [LAP_BUFFER_EXPERTS] = "experts",
      [LAP_BUFFER_GIVEN] = "given",
      [LAP_BUFFER_LOGITS] = "logits",
  };
  return names[buffer];
}

const char *lap_input_name(lap_product_input input) {
  static const char *const names[LAP_INPUTS] = {
      [LAP_INPUT_NONE] = "",
      [LAP_INPUT_NORMED] = "normed",
      [LAP_INPUT_EMBEDDED] = "embedded",
      [LAP_INPUT_ATTENTION] = "attention",
      [LAP_INPUT_MLP] = "mlp",
      [LAP_INPUT_PER_LAYER] = "per_layer",
      [LAP_INPUT_ROUTER] = "router",
      [LAP_INPUT_EXPERT] = "expert",
      [LAP_INPUT_EXPERT_WIDE] = "expert_wide",
  };
  return names[input];
}

const char *lap_program_weight_name(int weight) {
  switch (weight) {
    case LAP_WEIGHT_EMBED:
      return "embed_tokens";
    case LAP_WEIGHT_EMBED_PER_LAYER:
      return "embed_tokens_per_layer";
    case LAP_WEIGHT_PER_LAYER_ROWS:
      return "per_layer_model_projection";
    case LAP_WEIGHT_HEAD:
      return "lm_head";
    default:
      return lap_layer_linear_name((lap_layer_linear)weight);
  }
}

const char *lap_program_vector_name(int vector) {
  switch (vector) {
    case LAP_VECTOR_NEXT_NORM:
      return "input_layernorm.weight of the next layer, or norm.weight";
    case LAP_VECTOR_PER_LAYER_NORM:
      return "per_layer_projection_norm.weight";
    default:
      return lap_layer_vector_name((lap_layer_vector)vector);
  }
}

void lap_cache_word(const lap_heads *heads, char out[LAP_CACHE_WORD_BYTES]) {
  if (heads->bits == LAP_PLAIN_BITS)
    snprintf(out, LAP_CACHE_WORD_BYTES, "plain");
  else
    snprintf(out, LAP_CACHE_WORD_BYTES, "g%db%d", heads->group_size, heads->bits);
}

int32_t lap_layer_cache_bits(const lap_layer *layer) {
  return layer->kv_bits ? layer->kv_bits : LAP_PLAIN_BITS;
}

int32_t lap_layer_cache_group(const lap_layer *layer) {
  return layer->kv_bits ? layer->kv_group_size : lap_plain_group(layer->head_dim);
}
