/* config.h: the fields of config.json, typed and in range, before they meet the tensors.
 *
 * Internal to the plan builder. Fields whose absence has to be resolved by the tensors at hand keep
 * LAP_ABSENT; all others hold the file's value or the default of published Gemma 4 configurations. */
#ifndef LAP_CHECKPOINT_CONFIG_H
#define LAP_CHECKPOINT_CONFIG_H

#include "base/json.h"
#include "checkpoint/plan.h"

enum {
  LAP_ABSENT = -1,
  LAP_MAX_VOCAB = 4194304
};

typedef struct lap_config_rope {
  bool proportional;
  double theta;
  double factor;
  double partial; /* share of the head that turns */
} lap_config_rope;

typedef struct lap_config {
  const lap_json_document *document;
  const lap_json *root;
  const lap_json *text;         /* text_config, or the root of a text-only configuration */
  const lap_json *quantization; /* NULL if the file has none */
  const char *model_type;
  int32_t hidden_size;
  int32_t layers;
  int32_t intermediate_size;
  int32_t heads;
  int32_t kv_heads;
  int32_t global_kv_heads; /* or ABSENT */
  int32_t head_dim[2];     /* by lap_attention */
  int32_t sliding_window;
  int32_t sliding_window_pattern;
  int32_t shared_layers;        /* or ABSENT */
  int32_t per_layer_width;      /* or ABSENT */
  int32_t vocab_size;           /* or ABSENT */
  int32_t vocab_size_per_layer; /* or ABSENT */
  int32_t max_position_embeddings;
  int32_t num_experts; /* 0 if none */
  int32_t top_k_experts;
  int32_t moe_width;
  int32_t double_wide_mlp; /* 0, 1 or ABSENT */
  int32_t moe;             /* 0, 1 or ABSENT */
  bool tied;
  bool k_eq_v;
  double rms_norm_eps;
  double softcap; /* 0 = none */
  lap_config_rope rope[2];
  lap_attention layer_type[LAP_MAX_LAYERS];
} lap_config;

/* Reads the document, which must outlive `config`. Errors: FORMAT, UNSUPPORTED. */
lap_status lap_config_read(const lap_json_document *document, lap_config *config, lap_error *error);

/* lap_json_fail for what is well-formed but not computed: UNSUPPORTED. */
lap_status lap_config_unsupported(const lap_json_document *document, const lap_json *value, lap_error *error,
                                  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
