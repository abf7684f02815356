/* plan.h: a checkpoint's structure with every choice resolved.
 *
 * The plan is what the rest of the project knows of a checkpoint: the monolith walks it, the
 * generator prints it, `inspect` shows it. It is pure data: no pointers into mappings (tensors are
 * named by their index in the checkpoint's lap_tensors), so that it can be compared and printed.
 * Nothing outside the plan builder reads config.json.
 *
 * Invariant: a plan that lap_plan_build returned is consistent. Every module that its layer needs is
 * present with the shape that the configuration demands, every linear's packed shape agrees with
 * its bits and group size, every donor precedes its sharers, every product of sizes fits. */
#ifndef LAP_CHECKPOINT_PLAN_H
#define LAP_CHECKPOINT_PLAN_H

#include "checkpoint/module_names.h"
#include "checkpoint/safetensors.h"

/* A linear module: y = x W^T, W [out_features, in_features], or one such matrix for each expert. */
typedef struct lap_linear {
  bool present;
  int32_t out_features;
  int32_t in_features;
  int32_t experts;    /* 1 unless it is a stack of experts */
  int32_t bits;       /* 2, 3, 4, 5, 6, 8; 0 means dense */
  int32_t group_size; /* 32, 64, 128; 0 if dense */
  lap_dtype dtype;    /* dense: of the weight; quantized: of scales and biases. F32, F16 or BF16 */
  int32_t weight;     /* tensor indices; scales and biases are -1 if dense */
  int32_t scales;
  int32_t biases;
} lap_linear;

/* A vector of weights (norms, scalars). */
typedef struct lap_vector {
  bool present;
  int32_t length;
  lap_dtype dtype;
  int32_t tensor;
} lap_vector;

/* "sliding" or "full". */
const char *lap_attention_name(lap_attention attention);
/* The module's path below `layers.N.`, for instance "self_attn.q_proj" (no ".weight"). */
const char *lap_layer_linear_name(lap_layer_linear which);
/* The tensor's path below `layers.N.`, for instance "self_attn.q_norm.weight" or "layer_scalar". */
const char *lap_layer_vector_name(lap_layer_vector which);

/* RoPE of one attention type: pair i (of head_dim/2; partners i and i + head_dim/2) turns by
 * position * theta^(-2i/head_dim) / factor for i < rotated_pairs and stays for the others. */
typedef struct lap_rope {
  double theta;
  double factor;
  int32_t rotated_pairs;
} lap_rope;

typedef struct lap_layer {
  lap_attention attention;
  bool sharer;     /* computes no K and V, reads the donor's */
  int32_t donor;   /* the layer whose cache it reads: itself unless a sharer */
  bool exports_kv; /* some later layer reads its cache */
  int32_t cache;   /* index of the cache that it reads (and, if a donor, writes) */
  int32_t window;  /* keys that a query sees, itself included; 0 = all */
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  bool k_eq_v;           /* v is the raw output of k_proj */
  int32_t kv_bits;       /* 0 = plain cache, else 4 or 8 (2 where kv_config says so is refused) */
  int32_t kv_group_size; /* 0 if plain */
  int32_t mlp_width;
  bool moe;
  bool has_layer_scalar;
  lap_linear linear[LAP_LAYER_LINEARS];
  lap_vector vector[LAP_LAYER_VECTORS];
} lap_layer;

enum {
  LAP_MAX_LAYERS = 1024,
  LAP_MAX_EOS = 32,
  LAP_MAX_SUPPRESS = 64
};

/* Defaults for sampling from generation_config.json. */
typedef struct lap_generation {
  bool do_sample;
  float temperature;
  int32_t top_k; /* 0 = off */
  float top_p;
  float min_p;
  float repetition_penalty;
  int32_t suppress_count;
  int32_t suppress[LAP_MAX_SUPPRESS];
} lap_generation;

typedef struct lap_plan {
  char model_type[32];
  int32_t hidden_size;
  int32_t layers;
  int32_t first_sharer; /* == layers if there is none */
  int32_t caches;       /* number of donor layers */
  int32_t vocab_size;
  int32_t vocab_size_per_layer;
  int32_t per_layer_width; /* hidden_size_per_layer_input; 0 = no per-layer inputs */
  int32_t max_position_embeddings;
  float rms_norm_eps;
  float final_logit_softcapping;    /* 0 = none */
  float embed_scale;                /* sqrt(hidden_size) */
  float per_layer_embed_scale;      /* sqrt(per_layer_width) */
  float per_layer_projection_scale; /* hidden_size^-0.5 */
  int32_t num_experts;
  int32_t top_k_experts;
  int32_t moe_width;
  bool tied_head;
  lap_rope rope[2];    /* by lap_attention */
  int32_t head_dim[2]; /* by lap_attention */
  lap_kv_mode kv_mode;
  bool has_kv_config; /* the directory holds a kv_config.json */
  lap_linear embed;
  lap_linear embed_per_layer;
  lap_linear per_layer_projection;
  lap_linear head; /* == embed if tied */
  lap_vector final_norm;
  lap_vector per_layer_norm; /* per_layer_projection_norm */
  int32_t bos;               /* -1 if none */
  int32_t pad;
  int32_t eos_count;
  int32_t eos[LAP_MAX_EOS]; /* union of config, text_config and generation_config, ascending */
  lap_generation generation;
  lap_layer *layer; /* [layers], owned by the plan */
} lap_plan;

/* The words for lap_kv_mode, in its order, ended by NULL. */
extern const char *const lap_kv_words[];

/* Reads config.json, kv_config.json and generation_config.json of `directory` and matches them with
 * `tensors`. Errors: IO, FORMAT, UNSUPPORTED, MEMORY, each naming file and field.
 * `*out` is the caller's, to be released with lap_plan_free. */
lap_status lap_plan_build(const char *directory, const lap_tensors *tensors, lap_kv_mode kv_mode,
                          lap_plan **out, lap_error *error);

/* The same from texts in memory (kv_config and generation_config may be NULL), for tests and fuzzing. */
lap_status lap_plan_build_memory(const char *config, size_t config_length, const char *kv_config,
                                 size_t kv_config_length, const char *generation_config,
                                 size_t generation_config_length, const lap_tensors *tensors,
                                 lap_kv_mode kv_mode, lap_plan **out, lap_error *error);

void lap_plan_free(lap_plan *plan);

/* Bytes of a linear's tensors in the file. */
uint64_t lap_linear_bytes(const lap_linear *linear);

/* Sums over the plan, in bytes. */
typedef struct lap_plan_sizes {
  uint64_t weights;           /* every tensor that the plan uses */
  uint64_t tables;            /* of these, tables of which a token reads one row and nothing else: per-layer
                                 embeddings, and the embedding where the head has weights of its own */
  uint64_t decode;            /* weights read for one decoded token: all layers, head, one row of each
                                 table, top_k of the experts */
  uint64_t kv_per_token_full; /* growth of the full layers' caches for each token */
  uint64_t kv_per_token_sliding; /* of the sliding layers' caches until their window is full */
} lap_plan_sizes;

lap_plan_sizes lap_plan_measure(const lap_plan *plan);

/* KV bytes of one position in the cache of `layer` (K and V, codes with their scales and biases). */
uint64_t lap_layer_kv_bytes(const lap_layer *layer);

/* KV bytes of a sequence of `tokens` (sliding layers hold at most their window). */
uint64_t lap_plan_kv_bytes(const lap_plan *plan, uint64_t tokens);

#endif
