/* tiny_model.h: weights for the fuzzers of configurations: three layers of width 32 that hold every
 * module a configuration may ask for, so that sharing, per-layer inputs and experts can be turned on
 * and off by the text alone. */
#ifndef LAP_TESTS_TINY_MODEL_H
#define LAP_TESTS_TINY_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cut/generate.h"
#include "model/forward.h"

#define TINY_CONFIG                                                                               \
  "{\"model_type\":\"gemma4\",\"text_config\":{\"hidden_size\":32,\"num_hidden_layers\":3,"       \
  "\"intermediate_size\":32,\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":32," \
  "\"global_head_dim\":32,\"num_kv_shared_layers\":1,\"hidden_size_per_layer_input\":32,"         \
  "\"enable_moe_block\":true,\"num_experts\":2,\"top_k_experts\":1,\"moe_intermediate_size\":32," \
  "\"use_double_wide_mlp\":false,\"layer_types\":[\"sliding_attention\",\"full_attention\","      \
  "\"sliding_attention\"]},\"eos_token_id\":[1],\"quantization\":{\"group_size\":32,\"bits\":4,"  \
  "\"mode\":\"affine\",\"model.embed_tokens\":{\"group_size\":32,\"bits\":8},\"model.norm\":false}}"

typedef struct tiny_file {
  FILE *header;
  unsigned long long data_bytes;
} tiny_file;

static void tiny_tensor(tiny_file *file, const char *name, const char *dtype, int size, const char *shape,
                        int count) {
  unsigned long long end = file->data_bytes + (unsigned long long)size * (unsigned long long)count;
  fprintf(file->header, "%s\"model.%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%llu,%llu]}",
          file->data_bytes ? "," : "", name, dtype, shape, file->data_bytes, end);
  file->data_bytes = end;
}

static void tiny_vector(tiny_file *file, const char *name, int length) {
  char shape[32];
  snprintf(shape, sizeof shape, "[%d]", length);
  tiny_tensor(file, name, "BF16", 2, shape, length);
}

/* bits 0 = dense; experts 0 = a single matrix. */
static void tiny_linear(tiny_file *file, const char *name, int experts, int out, int in, int bits) {
  const struct {
    const char *suffix, *dtype;
    int size, columns;
  } part[] = {{"weight", bits ? "U32" : "BF16", bits ? 4 : 2, bits ? in * bits / 32 : in},
              {"scales", "BF16", 2, in / 32},
              {"biases", "BF16", 2, in / 32}};
  for (int i = 0; i < (bits ? 3 : 1); i++) {
    char full[128], shape[64];
    snprintf(full, sizeof full, "%s.%s", name, part[i].suffix);
    if (experts)
      snprintf(shape, sizeof shape, "[%d,%d,%d]", experts, out, part[i].columns);
    else
      snprintf(shape, sizeof shape, "[%d,%d]", out, part[i].columns);
    tiny_tensor(file, full, part[i].dtype, part[i].size, shape,
                (experts ? experts : 1) * out * part[i].columns);
  }
}

static void tiny_layer(tiny_file *file, int index) {
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) {
    lap_layer_linear which = (lap_layer_linear)i;
    int experts = which >= LAP_EXPERT_GATE ? 2 : 0;
    int out = which == LAP_Q_PROJ ? 64 : which == LAP_ROUTER ? 2 : 32, in = which == LAP_O_PROJ ? 64 : 32;
    char name[96];
    snprintf(name, sizeof name, "layers.%d.%s", index, lap_layer_linear_name(which));
    tiny_linear(file, name, experts, out, in, which == LAP_UP_PROJ ? 0 : 4);
  }
  for (int i = 0; i < LAP_LAYER_VECTORS; i++) {
    lap_layer_vector which = (lap_layer_vector)i;
    char name[96];
    snprintf(name, sizeof name, "layers.%d.%s", index, lap_layer_vector_name(which));
    tiny_vector(file, name, which == LAP_LAYER_SCALAR ? 1 : which == LAP_PER_EXPERT_SCALE ? 2 : 32);
  }
}

/* The file, made once and alive until the process ends. */
static const unsigned char *tiny_bytes(size_t *total) {
  static unsigned char *bytes;
  static size_t made;
  *total = made;
  if (bytes) return bytes;
  char *header = NULL;
  size_t length;
  tiny_file file = {.header = open_memstream(&header, &length)};
  if (!file.header) abort();
  fprintf(file.header, "{");
  tiny_linear(&file, "embed_tokens", 0, 32, 32, 8);
  tiny_linear(&file, "embed_tokens_per_layer", 0, 32, 96, 4);
  tiny_linear(&file, "per_layer_model_projection", 0, 96, 32, 0);
  tiny_linear(&file, "lm_head", 0, 32, 32, 4);
  tiny_vector(&file, "per_layer_projection_norm.weight", 32);
  tiny_vector(&file, "norm.weight", 32);
  for (int i = 0; i < 3; i++) tiny_layer(&file, i);
  fprintf(file.header, "}");
  fclose(file.header);
  *total = made = 8 + length + file.data_bytes;
  bytes = malloc(made);
  if (!bytes) abort();
  memset(bytes, 0x3c, made); /* as bf16 0.011: products stay small, and nothing is zero */
  uint64_t header_bytes = length;
  memcpy(bytes, &header_bytes, 8);
  memcpy(bytes + 8, header, length);
  free(header);
  return bytes;
}

/* A set over it, the caller's. */
static lap_tensors *tiny_tensors(void) {
  lap_error error;
  lap_tensors *tensors;
  size_t bytes;
  const unsigned char *data = tiny_bytes(&bytes);
  if (lap_tensors_open_memory(data, bytes, "tiny", &tensors, &error) != LAP_OK) abort();
  return tensors;
}

/* Computes with an accepted plan, a few tokens at once and one alone: whatever it says, nothing may be read
 * that is not there. Takes over both. */
static void evaluate_plan(lap_tensors *tensors, lap_plan *plan) {
  lap_error error;
  lap_model *model;
  lap_forward *forward;
  lap_kv *kv;
  char *source;
  if (lap_cut_generate(plan, "tiny", &source, NULL, &error) != LAP_OK) abort();
  free(source);
  if (lap_model_assemble("tiny", tensors, plan, NULL, &model, &error) != LAP_OK) abort();
  if (lap_forward_create(model, &(lap_runner_options){.threads = 1}, &forward, &error) != LAP_OK) abort();
  if (lap_kv_create(model->bound, false, &kv, &error) != LAP_OK) abort();
  const int32_t ids[] = {0, plan->vocab_size - 1, plan->vocab_size / 2, 0};
  float *logits = malloc((size_t)plan->vocab_size * sizeof *logits);
  if (!logits) abort();
  for (int i = 0; i < 2; i++) {
    const lap_segment segment = {
        .kv = kv, .ids = i ? ids + 3 : ids, .count = i ? 1 : 3, .logits_from = i ? 0 : 2, .logits = logits};
    lap_status status = lap_forward_run(forward, &segment, 1, &error);
    if (status != LAP_OK && status != LAP_ERROR_NUMERIC) abort();
  }
  free(logits);
  lap_kv_destroy(kv);
  lap_forward_destroy(forward);
  lap_model_close(model);
}

/* What a plan promises, whatever text it came from. */
static void check_plan(const lap_plan *plan) {
  if (plan->caches < 1 || plan->first_sharer < 1 || plan->first_sharer > plan->layers) abort();
  for (int32_t i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->cache < 0 || layer->cache >= plan->caches || layer->donor > i) abort();
    if (plan->layer[layer->donor].sharer || plan->layer[layer->donor].attention != layer->attention) abort();
    if (layer->kv_heads < 1 || layer->heads % layer->kv_heads || layer->head_dim % 32) abort();
    if (layer->kv_bits && layer->head_dim % layer->kv_group_size) abort();
  }
  for (int32_t i = 0; i < plan->eos_count; i++)
    if (plan->eos[i] < 0 || plan->eos[i] >= plan->vocab_size || (i && plan->eos[i] <= plan->eos[i - 1]))
      abort();
  lap_plan_sizes sizes = lap_plan_measure(plan);
  if (!sizes.weights || !lap_plan_kv_bytes(plan, 1000)) abort();
}

#endif
