/* cost.c: a prompt or a decode step, counted layer by layer.
 *
 * In a prompt nobody asks what the model says after any token but the last. So what later tokens need of
 * the others is their keys and values: layers below the last donor run for all rows, the last donor makes
 * K and V of all rows and the rest for the last one, and the layers behind it, which share K and V, and
 * the head run for the last row alone. */
#include "bench/cost.h"

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Keys that the queries at positions [from, to) see, added up. */
static double keys_seen(const lap_layer *layer, int64_t from, int64_t to) {
  double keys = 0;
  for (int64_t position = from; position < to; position++)
    keys += (double)(layer->window ? lesser(position + 1, layer->window) : position + 1);
  return keys;
}

/* Different keys that they see: what has to be read at least once. */
static double keys_touched(const lap_layer *layer, int64_t from, int64_t to) {
  return (double)(layer->window ? lesser(to, layer->window - 1 + to - from) : to);
}

/* ---- multiplications ------------------------------------------------------------------------- */

static double products_of(const lap_plan *plan, const lap_linear *linear) {
  if (!linear->present) return 0;
  double matrix = (double)linear->out_features * linear->in_features;
  return linear->experts > 1 ? matrix * plan->top_k_experts : matrix;
}

/* K and V of one row. */
static double kv_products(const lap_plan *plan, const lap_layer *layer) {
  if (layer->sharer) return 0;
  return products_of(plan, &layer->linear[LAP_K_PROJ]) +
         (layer->k_eq_v ? 0 : products_of(plan, &layer->linear[LAP_V_PROJ]));
}

/* All other linears of one row, the layer's part of the per-layer projection among them. */
static double other_products(const lap_plan *plan, const lap_layer *layer) {
  double products = (double)plan->per_layer_width * plan->hidden_size;
  for (int i = 0; i < LAP_LAYER_LINEARS; i++)
    if (i != LAP_K_PROJ && i != LAP_V_PROJ) products += products_of(plan, &layer->linear[i]);
  return products;
}

/* Scores and values of the queries at positions [from, to). */
static double attention_products(const lap_layer *layer, int64_t from, int64_t to) {
  return 2.0 * layer->heads * layer->head_dim * keys_seen(layer, from, to);
}

/* Positions [depth, end), of which [first, end) go through all of the layer. */
static double layer_products(const lap_plan *plan, const lap_layer *layer, int64_t depth, int64_t first,
                             int64_t end) {
  return kv_products(plan, layer) * (double)(end - depth) +
         other_products(plan, layer) * (double)(end - first) + attention_products(layer, first, end);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* A chunk of many rows meets as many experts as its rows can choose. */
static double linear_bytes(const lap_plan *plan, const lap_linear *linear, int64_t rows) {
  if (!linear->present) return 0;
  double bytes = (double)lap_linear_bytes(linear);
  if (linear->experts <= 1) return bytes;
  return bytes / linear->experts * (double)lesser(linear->experts, rows * plan->top_k_experts);
}

static double kv_weight_bytes(const lap_plan *plan, const lap_layer *layer) {
  if (layer->sharer) return 0;
  return linear_bytes(plan, &layer->linear[LAP_K_PROJ], 1) +
         (layer->k_eq_v ? 0 : linear_bytes(plan, &layer->linear[LAP_V_PROJ], 1));
}

static double other_weight_bytes(const lap_plan *plan, const lap_layer *layer, int64_t rows) {
  double bytes = linear_bytes(plan, &plan->per_layer_projection, 1) / plan->layers;
  for (int i = 0; i < LAP_LAYER_LINEARS; i++)
    if (i != LAP_K_PROJ && i != LAP_V_PROJ) bytes += linear_bytes(plan, &layer->linear[i], rows);
  return bytes;
}

/* Of one chunk, positions [depth, end), of which [first, end) go through all of the layer. */
static double layer_bytes(const lap_plan *plan, const lap_layer *layer, int64_t depth, int64_t first,
                          int64_t end) {
  double bytes = depth < end ? kv_weight_bytes(plan, layer) : 0;
  if (first == end) return bytes;
  return bytes + other_weight_bytes(plan, layer, end - first) +
         keys_touched(layer, first, end) * (double)lap_layer_kv_bytes(layer);
}

/* ---- stretches ------------------------------------------------------------------------------- */

/* One chunk; `last` if it holds the prompt's last token. */
static lap_bench_cost chunk_cost(const lap_plan *plan, int64_t depth, int64_t end, bool last) {
  lap_bench_cost cost = {0};
  for (int32_t i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    int64_t first = i < plan->first_sharer - 1 ? depth : last ? end - 1 : end;
    cost.operations += layer_products(plan, layer, depth, first, end);
    cost.bytes += layer_bytes(plan, layer, depth, first, end);
  }
  if (!last) return cost;
  cost.operations += products_of(plan, &plan->head);
  cost.bytes += linear_bytes(plan, &plan->head, 1);
  return cost;
}

lap_bench_cost lap_bench_prompt_cost(const lap_plan *plan, int64_t depth, int64_t tokens, int64_t chunk) {
  lap_bench_cost cost = {0};
  for (int64_t done = 0; done < tokens; done += chunk) {
    int64_t end = lesser(done + chunk, tokens);
    lap_bench_cost part = chunk_cost(plan, depth + done, depth + end, end == tokens);
    cost.operations += part.operations;
    cost.bytes += part.bytes;
  }
  return cost;
}

/* A sharer reads the cache of its donor once more: it counts for each layer. */
lap_bench_cost lap_bench_decode_cost(const lap_plan *plan, int64_t depth, int64_t tokens) {
  lap_bench_cost cost = {
      .operations = (double)tokens * products_of(plan, &plan->head),
      .bytes = (double)tokens * (double)lap_plan_measure(plan).decode,
  };
  for (int32_t i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    cost.operations += layer_products(plan, layer, depth, depth, depth + tokens);
    cost.bytes += keys_seen(layer, depth, depth + tokens) * (double)lap_layer_kv_bytes(layer);
  }
  return cost;
}
