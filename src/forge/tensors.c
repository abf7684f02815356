/* tensors.c: the modules of a structure, their shapes and their distributions.
 *
 * A layer's modules come from the list that the plan builder matches too; it checks all names and shapes
 * afterwards against the same configuration, so a difference between the two cannot stay. The distributions
 * keep every activation near 1 whatever the depth and the widths:
 *  - a linear's weights have mean 0 and standard deviation 1/sqrt(in), so a normed input gives an output
 *    of standard deviation 1; each branch is normed again before it joins the residual stream, and the
 *    layer scalar (0.6 to 1) keeps that stream from growing with depth;
 *  - q_norm and k_norm are head_dim^-1/4, so the products of queries and keys, which nothing scales, have
 *    standard deviation 1;
 *  - the router's input is multiplied by hidden^-1/2; router.scale takes that back, so experts differ;
 *  - tables are read by rows and multiplied by the root of a row's width, which gives 1 again;
 *  - the final norm is 3: with the tied head of standard deviation 1/sqrt(hidden), logits before the soft
 *    cap then have 3, a spread like that of trained models. */
#include "forge/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/layer_needs.h"
#include "checkpoint/modules.h"

#define MAX_BYTES     (UINT64_C(1) << 46)
#define VECTOR_SPREAD 0.25f /* of the centre */
#define SCALE_SPREAD  0.25f /* of the centre, between the groups of a quantized module */
#define LAYER_SCALAR  0.8f
#define FINAL_NORM    3.0f

typedef struct builder {
  const lap_config *config;
  lap_forge_tensors *list;
  const char *prefix;
  uint64_t seed;
  lap_status status; /* the first failure; what comes after it adds nothing */
  lap_error *error;
} builder;

static lap_forge_tensor *add_tensor(builder *b, const char *name, lap_dtype dtype, int rank,
                                    const int64_t *shape) {
  lap_forge_tensors *list = b->list;
  if (b->status != LAP_OK) return NULL;
  if (list->count == list->capacity) {
    int32_t capacity = 2 * list->capacity + 256;
    lap_forge_tensor *grown = realloc(list->tensor, (size_t)capacity * sizeof *grown);
    if (!grown) {
      b->status = lap_fail(b->error, LAP_ERROR_MEMORY, "out of memory for the list of tensors");
      return NULL;
    }
    list->tensor = grown;
    list->capacity = capacity;
  }
  lap_forge_tensor *tensor = &list->tensor[list->count];
  *tensor = (lap_forge_tensor){.dtype = dtype, .rank = rank, .bytes = lap_dtype_bytes(dtype)};
  snprintf(tensor->name, sizeof tensor->name, "%s", name);
  /* The configuration's limits keep one tensor below 2^54 bytes, so the sum is checked in time. */
  for (int i = 0; i < rank; i++) {
    tensor->shape[i] = shape[i];
    tensor->bytes *= (uint64_t)shape[i];
  }
  list->bytes += tensor->bytes;
  if (list->bytes > MAX_BYTES) {
    b->status = lap_json_fail(b->config->document, NULL, b->error, "describes more than 64 TiB of weights");
    return NULL;
  }
  list->count++;
  tensor->draw.key = lap_draw_key(b->seed, tensor->name);
  return tensor;
}

/* ---- vectors ---- */

static void add_vector(builder *b, const char *path, int64_t length, float centre, float spread) {
  char name[LAP_FORGE_MAX_NAME];
  snprintf(name, sizeof name, "%s%s", b->prefix, path);
  lap_forge_tensor *tensor = add_tensor(b, name, LAP_BF16, 1, &length);
  if (!tensor) return;
  tensor->draw.kind = LAP_DRAW_VALUES;
  tensor->draw.centre = centre;
  tensor->draw.spread = spread;
}

/* ---- linears ---- */

typedef struct quantization {
  int64_t bits; /* 0 = dense */
  int64_t group;
} quantization;

typedef struct matrix {
  int64_t experts; /* 0 = not a stack */
  int64_t rows, columns;
  float deviation; /* of the weights */
} matrix;

static lap_status look_up(const builder *b, const char *path, int64_t columns, quantization *out) {
  const lap_config *config = b->config;
  lap_quantization said;
  *out = (quantization){0};
  lap_status status = lap_quantization_of(config, b->prefix, path, &said, b->error);
  if (status != LAP_OK || !said.entry || said.dense) return status;
  if (said.bits < 2 || said.bits > 8 || said.group_size < 32 || said.group_size > 128)
    return lap_json_fail(config->document, said.entry, b->error,
                         "bits %lld and group_size %lld are not 2 to 8 and 32 to 128, for %s%s",
                         (long long)said.bits, (long long)said.group_size, b->prefix, path);
  *out = (quantization){.bits = said.bits, .group = said.group_size};
  if (columns % out->group == 0) return LAP_OK;
  return lap_json_fail(config->document, said.entry, b->error,
                       "group_size: %lld does not divide the %lld inputs of %s%s", (long long)out->group,
                       (long long)columns, b->prefix, path);
}

static lap_forge_tensor *add_part(builder *b, const char *prefix, const char *path, const char *suffix,
                                  lap_dtype dtype, const matrix *m, int64_t columns) {
  char name[LAP_FORGE_MAX_NAME];
  int64_t shape[] = {m->experts, m->rows, columns};
  snprintf(name, sizeof name, "%s%s%s", prefix, path, suffix);
  return add_tensor(b, name, dtype, m->experts ? 3 : 2, m->experts ? shape : shape + 1);
}

/* Uniform codes 0..n-1 have standard deviation sqrt((n^2 - 1) / 12) and mean (n - 1) / 2. */
static void add_quantized(builder *b, const char *prefix, const char *path, const matrix *m,
                          const quantization *q) {
  float codes = (float)(1 << q->bits);
  float scale = m->deviation / sqrtf((codes * codes - 1) / 12);
  lap_forge_tensor *part = add_part(b, prefix, path, ".weight", LAP_U32, m, m->columns * q->bits / 32);
  if (part) part->draw.kind = LAP_DRAW_CODES;
  part = add_part(b, prefix, path, ".scales", LAP_BF16, m, m->columns / q->group);
  if (!part) return;
  part->draw.kind = LAP_DRAW_SCALES;
  part->draw.centre = scale;
  part->draw.spread = SCALE_SPREAD * scale;
  lap_draw scales = part->draw;
  part = add_part(b, prefix, path, ".biases", LAP_BF16, m, m->columns / q->group);
  if (!part) return;
  uint64_t key = part->draw.key;
  part->draw = scales;
  part->draw.kind = LAP_DRAW_BIASES;
  part->draw.scales_key = scales.key;
  part->draw.key = key;
  part->draw.middle = (codes - 1) / 2;
}

/* `prefix` is the tensors' own; the head's differs. */
static void add_matrix(builder *b, const char *prefix, const char *path, matrix m) {
  quantization q;
  if (b->status != LAP_OK) return;
  b->status = look_up(b, path, m.columns, &q);
  if (b->status != LAP_OK) return;
  if (q.bits) {
    add_quantized(b, prefix, path, &m, &q);
    return;
  }
  lap_forge_tensor *weight = add_part(b, prefix, path, ".weight", LAP_BF16, &m, m.columns);
  if (!weight) return;
  weight->draw.kind = LAP_DRAW_VALUES;
  weight->draw.spread = m.deviation * sqrtf(3); /* a uniform distribution's half width */
}

static void add_linear(builder *b, const char *path, int64_t experts, int64_t rows, int64_t columns) {
  add_matrix(b, b->prefix, path, (matrix){experts, rows, columns, 1 / sqrtf((float)columns)});
}

/* ---- a layer ---- */

static lap_layer_facts facts_of_layer(const lap_config *config, int32_t index) {
  bool full = config->layer_type[index] == LAP_FULL;
  bool sharer = index >= config->layers - config->shared_layers;
  bool own_count = full && config->k_eq_v && config->global_kv_heads != LAP_ABSENT;
  return (lap_layer_facts){
      .hidden_size = config->hidden_size,
      .heads = config->heads,
      .kv_heads = own_count ? config->global_kv_heads : config->kv_heads,
      .head_dim = config->head_dim[full ? LAP_FULL : LAP_SLIDING],
      .sharer = sharer,
      .k_eq_v = full && config->k_eq_v,
      .mlp_width = config->intermediate_size * (sharer && config->double_wide_mlp == 1 ? 2 : 1),
      .per_layer_width = config->per_layer_width,
      .moe = config->moe == 1,
      .experts = config->num_experts,
      .expert_width = config->moe_width,
      .layer_scalar = true,
  };
}

static float centre_of(lap_layer_vector which, const lap_layer_facts *facts) {
  switch (which) {
    case LAP_Q_NORM:
    case LAP_K_NORM:
      return powf((float)facts->head_dim, -0.25f);
    case LAP_LAYER_SCALAR:
      return LAYER_SCALAR;
    case LAP_ROUTER_SCALE:
      return sqrtf((float)facts->hidden_size);
    default:
      return 1;
  }
}

static void add_layer(builder *b, int32_t index) {
  lap_layer_facts facts = facts_of_layer(b->config, index);
  lap_layer_needs needs;
  char path[LAP_FORGE_MAX_NAME];
  lap_layer_needs_list(&facts, &needs);
  for (int i = 0; i < needs.linears; i++) {
    const lap_needed_linear *n = &needs.linear[i];
    snprintf(path, sizeof path, "layers.%d.%s", index, lap_layer_linear_name(n->which));
    add_linear(b, path, n->experts, n->out_features, n->in_features);
  }
  for (int i = 0; i < needs.vectors; i++) {
    const lap_needed_vector *n = &needs.vector[i];
    float centre = centre_of(n->which, &facts);
    snprintf(path, sizeof path, "layers.%d.%s", index, lap_layer_vector_name(n->which));
    add_vector(b, path, n->length, centre, VECTOR_SPREAD * centre);
  }
}

/* ---- all ---- */

static void add_model_level(builder *b) {
  const lap_config *config = b->config;
  int32_t hidden = config->hidden_size, width = config->per_layer_width, all = config->layers * width;
  add_linear(b, "embed_tokens", 0, config->vocab_size, hidden);
  add_vector(b, "norm.weight", hidden, FINAL_NORM, VECTOR_SPREAD * FINAL_NORM);
  if (!config->tied) {
    float deviation = 1 / sqrtf((float)hidden);
    const char *prefix = config->text == config->root ? "" : "language_model.";
    add_matrix(b, prefix, "lm_head", (matrix){0, config->vocab_size, hidden, deviation});
  }
  if (!width) return;
  add_matrix(b, b->prefix, "embed_tokens_per_layer",
             (matrix){0, config->vocab_size_per_layer, all, 1 / sqrtf((float)width)});
  add_linear(b, "per_layer_model_projection", 0, all, hidden);
  add_vector(b, "per_layer_projection_norm.weight", width, 1, VECTOR_SPREAD);
}

/* Wider elements first, as the format's reference writer does, so that every tensor is aligned. */
static int by_width_and_name(const void *a, const void *b) {
  const lap_forge_tensor *x = a, *y = b;
  size_t left = lap_dtype_bytes(x->dtype), right = lap_dtype_bytes(y->dtype);
  if (left != right) return left > right ? -1 : 1;
  return strcmp(x->name, y->name);
}

lap_status lap_forge_list(const lap_config *config, uint64_t seed, lap_forge_tensors *out, lap_error *error) {
  *out = (lap_forge_tensors){0};
  builder b = {.config = config,
               .list = out,
               .seed = seed,
               .error = error,
               .prefix = config->text == config->root ? "model." : "language_model.model."};
  add_model_level(&b);
  for (int32_t i = 0; i < config->layers && b.status == LAP_OK; i++) add_layer(&b, i);
  if (b.status != LAP_OK) return b.status;
  qsort(out->tensor, (size_t)out->count, sizeof *out->tensor, by_width_and_name);
  uint64_t offset = 0;
  for (int32_t i = 0; i < out->count; i++) {
    out->tensor[i].offset = offset;
    offset += out->tensor[i].bytes;
  }
  return LAP_OK;
}

void lap_forge_tensors_free(lap_forge_tensors *tensors) {
  free(tensors->tensor);
  *tensors = (lap_forge_tensors){0};
}

static void put_tensor(FILE *out, const lap_forge_tensor *tensor) {
  fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name, lap_dtype_name(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) fprintf(out, "%s%lld", i ? "," : "", (long long)tensor->shape[i]);
  unsigned long long begin = tensor->offset, end = begin + tensor->bytes;
  fprintf(out, "],\"data_offsets\":[%llu,%llu]}", begin, end);
}

lap_status lap_forge_header(const lap_forge_tensors *tensors, char **out, size_t *length, lap_error *error) {
  uint64_t json_bytes = 0;
  *out = NULL;
  FILE *stream = open_memstream(out, length);
  if (!stream) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the header");
  fwrite(&json_bytes, sizeof json_bytes, 1, stream);
  fputs("{\"__metadata__\":{\"format\":\"mlx\"}", stream);
  for (int32_t i = 0; i < tensors->count; i++) put_tensor(stream, &tensors->tensor[i]);
  fputc('}', stream);
  while (ftell(stream) % 8) fputc(' ', stream);
  bool failed = ferror(stream) != 0;
  if (fclose(stream) != 0 || failed) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the header");
  json_bytes = *length - sizeof json_bytes;
  memcpy(*out, &json_bytes, sizeof json_bytes);
  return LAP_OK;
}
