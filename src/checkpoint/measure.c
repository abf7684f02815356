/* measure.c: the bytes of a plan, added up.
 *
 * Sizes follow from the plan alone, not from the files, so that they can be had for a part of a
 * stack (the chosen experts) or of a table (one row). The plan has bounded every factor: no product
 * here comes near 2^64. */
#include "checkpoint/plan.h"

/* Of the cache that stands in memory: scales (and biases, if quantized) are f32, and a plain cache
 * holds 16-bit codes with one scale for each 64 values (32 where the head is no multiple of 64). */
enum {
  CACHE_SCALE_BYTES = 4,
  PLAIN_BITS = 16
};

static uint64_t row_bytes(const lap_linear *linear) {
  uint64_t in = (uint64_t)linear->in_features, element = lap_dtype_bytes(linear->dtype);
  if (!linear->bits) return in * element;
  return in * (uint64_t)linear->bits / 8 + 2 * (in / (uint64_t)linear->group_size) * element;
}

uint64_t lap_linear_bytes(const lap_linear *linear) {
  if (!linear->present) return 0;
  return (uint64_t)linear->experts * (uint64_t)linear->out_features * row_bytes(linear);
}

static uint64_t vector_bytes(const lap_vector *vector) {
  return vector->present ? (uint64_t)vector->length * lap_dtype_bytes(vector->dtype) : 0;
}

static bool is_expert_stack(int which) {
  return which == LAP_EXPERT_GATE || which == LAP_EXPERT_UP || which == LAP_EXPERT_DOWN;
}

static void add_layer(const lap_plan *plan, const lap_layer *layer, lap_plan_sizes *sizes) {
  for (int i = 0; i < LAP_LAYER_LINEARS; i++) {
    const lap_linear *linear = &layer->linear[i];
    uint64_t bytes = lap_linear_bytes(linear);
    sizes->weights += bytes;
    sizes->decode += is_expert_stack(i) && linear->present
                         ? bytes / (uint64_t)linear->experts * (uint64_t)plan->top_k_experts
                         : bytes;
  }
  for (int i = 0; i < LAP_LAYER_VECTORS; i++) {
    uint64_t bytes = vector_bytes(&layer->vector[i]);
    sizes->weights += bytes;
    sizes->decode += bytes;
  }
  if (layer->sharer) return;
  *(layer->attention == LAP_FULL ? &sizes->kv_per_token_full : &sizes->kv_per_token_sliding) +=
      lap_layer_kv_bytes(layer);
}

static void add_table(const lap_linear *table, lap_plan_sizes *sizes) {
  sizes->weights += lap_linear_bytes(table);
  if (table->present) sizes->decode += row_bytes(table);
}

lap_plan_sizes lap_plan_measure(const lap_plan *plan) {
  lap_plan_sizes sizes = {0};
  add_table(&plan->embed, &sizes);
  add_table(&plan->embed_per_layer, &sizes);
  sizes.tables =
      lap_linear_bytes(&plan->embed_per_layer) + (plan->tied_head ? 0 : lap_linear_bytes(&plan->embed));
  uint64_t head = lap_linear_bytes(&plan->head);
  uint64_t always = lap_linear_bytes(&plan->per_layer_projection) + vector_bytes(&plan->final_norm) +
                    vector_bytes(&plan->per_layer_norm);
  sizes.weights += always + (plan->tied_head ? 0 : head);
  sizes.decode += always + head;
  for (int32_t i = 0; i < plan->layers; i++) add_layer(plan, &plan->layer[i], &sizes);
  return sizes;
}

uint64_t lap_layer_kv_bytes(const lap_layer *layer) {
  uint64_t head_dim = (uint64_t)layer->head_dim, plain_group = head_dim % 64 ? 32 : 64;
  uint64_t bits = layer->kv_bits ? (uint64_t)layer->kv_bits : PLAIN_BITS;
  uint64_t group = layer->kv_bits ? (uint64_t)layer->kv_group_size : plain_group;
  uint64_t numbers = layer->kv_bits ? 2 : 1; /* scale and bias, or scale alone */
  uint64_t head = head_dim * bits / 8 + head_dim / group * numbers * CACHE_SCALE_BYTES;
  return 2 * (uint64_t)layer->kv_heads * head;
}

uint64_t lap_plan_kv_bytes(const lap_plan *plan, uint64_t tokens) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    uint64_t window = (uint64_t)layer->window;
    bytes += (window && tokens > window ? window : tokens) * lap_layer_kv_bytes(layer);
  }
  return bytes;
}
