/* monolith.c: the general forward pass of Gemma 4. It interprets the plan; generated code must equal
 * it to the bit.
 *
 * Read lap_forward_run from the bottom: embed, then the layers, then the head. A layer is attention,
 * feed-forward and, in the E models, the per-layer input, each of the form
 *     stream = stream + norm(block(norm(stream))).
 * Formulas are those of facts/gemma4.md section 3; the order of every sum is in docs/numerics.md.
 *
 * Rows that nobody asked logits of are needed only until the last donor layer has stored their K and
 * V; there they leave the pass. */
#include <stdlib.h>

#include "kernels/rope.h"
#include "model/forward_state.h"

/* ---- rows in parallel ---- */

typedef struct layer_run {
  lap_forward *forward;
  int index;
  const lap_layer *layer;
  const lap_layer_weights *weights;
  const float *norm;   /* weights of the norm that a row task applies */
  const float *source; /* what it reads, [rows, hidden] */
} layer_run;

static float *row_of(float *rows, int row, int width) {
  return rows + (size_t)row * (size_t)width;
}

static void norm_row(void *context, int row) {
  const layer_run *run = context;
  const lap_plan *plan = run->forward->model->plan;
  size_t at = (size_t)row * (size_t)plan->hidden_size;
  run->forward->workspace.kernels->rms_norm(run->source + at, run->norm, plan->hidden_size,
                                            plan->rms_norm_eps, run->forward->normed + at);
}

/* normed = rms_norm(source; norm) for all rows, quantized for the matrices that read it. */
static void norm_rows(layer_run *run, const float *source, const float *norm,
                      const lap_weight *const readers[], int reader_count) {
  lap_forward *forward = run->forward;
  run->source = source;
  run->norm = norm;
  lap_for_rows(&forward->workspace, forward->rows, norm_row, run);
  lap_input_fill(&forward->workspace, &forward->input, forward->normed, forward->rows, readers, reader_count);
}

static void add_norm_row(void *context, int row) {
  const layer_run *run = context;
  const lap_plan *plan = run->forward->model->plan;
  float *output = row_of(run->forward->output, row, plan->hidden_size);
  float *hidden = row_of(run->forward->hidden, row, plan->hidden_size);
  run->forward->workspace.kernels->rms_norm(output, run->norm, plan->hidden_size, plan->rms_norm_eps, output);
  for (int i = 0; i < plan->hidden_size; i++) hidden[i] += output[i];
}

/* stream = stream + rms_norm(output; norm) */
static void add_output(layer_run *run, const float *norm) {
  run->norm = norm;
  lap_for_rows(&run->forward->workspace, run->forward->rows, add_norm_row, run);
}

static lap_product product(const lap_forward *forward, const lap_weight *weight, const lap_input *input,
                           float *y) {
  return (lap_product){.weight = weight,
                       .input = input,
                       .input_rows = forward->rows,
                       .y = y,
                       .y_stride = (size_t)weight->rows};
}

/* ---- embedding ---- */

/* h = embed_tokens[id] * sqrt(hidden) */
static void embed_row(void *context, int row) {
  lap_forward *forward = context;
  const lap_plan *plan = forward->model->plan;
  float *hidden = row_of(forward->hidden, row, plan->hidden_size);
  lap_weight_row(&forward->model->weights->embed, forward->row[row].id, plan->embed_scale, hidden);
  if (plan->per_layer_width)
    memcpy(row_of(forward->embedded, row, plan->hidden_size), hidden,
           (size_t)plan->hidden_size * sizeof(float));
}

static void rope_row(void *context, int row) {
  lap_forward *forward = context;
  for (int type = 0; type < 2; type++) {
    int pairs = forward->model->plan->rope[type].rotated_pairs;
    lap_rope_table(forward->model->rope_frequency[type], pairs, forward->row[row].position,
                   row_of(forward->cosine[type], row, pairs), row_of(forward->sine[type], row, pairs));
  }
}

static void fill_embedded_input(lap_forward *forward) {
  const lap_weight *reader = &forward->model->weights->per_layer_projection;
  if (!forward->model->plan->per_layer_width) return;
  lap_input_fill(&forward->workspace, &forward->embedded_input, forward->embedded, forward->rows, &reader, 1);
}

static void embed(lap_forward *forward) {
  lap_for_rows(&forward->workspace, forward->rows, embed_row, forward);
  lap_for_rows(&forward->workspace, forward->rows, rope_row, forward);
  fill_embedded_input(forward);
}

/* ---- attention ---- */

/* q = rope(rms_norm(q_proj y; q_norm)), head by head */
static void finish_query_row(void *context, int row) {
  const layer_run *run = context;
  lap_forward *forward = run->forward;
  const lap_kernels *kernels = forward->workspace.kernels;
  const lap_layer *layer = run->layer;
  int pairs = forward->model->plan->rope[layer->attention].rotated_pairs;
  for (int head = 0; head < layer->heads; head++) {
    float *q = row_of(forward->query, row, layer->heads * layer->head_dim) + head * layer->head_dim;
    kernels->rms_norm(q, run->weights->vector[LAP_Q_NORM], layer->head_dim,
                      forward->model->plan->rms_norm_eps, q);
    kernels->rope(q, layer->head_dim, pairs, row_of(forward->cosine[layer->attention], row, pairs),
                  row_of(forward->sine[layer->attention], row, pairs));
  }
}

/* k = rope(rms_norm(k_proj y; k_norm)), v = rms_norm(v_proj y) without weights, and into the cache.
 * Where K equals V, v is made of the raw output of k_proj. */
static void store_key_row(void *context, int row) {
  const layer_run *run = context;
  lap_forward *forward = run->forward;
  const lap_kernels *kernels = forward->workspace.kernels;
  const lap_layer *layer = run->layer;
  const lap_row *token = &forward->row[row];
  lap_cache *cache = forward->segments[token->segment].kv->cache[layer->cache];
  float eps = forward->model->plan->rms_norm_eps;
  int pairs = forward->model->plan->rope[layer->attention].rotated_pairs;
  for (int head = 0; head < layer->kv_heads; head++) {
    int at = head * layer->head_dim, width = layer->kv_heads * layer->head_dim;
    float *k = row_of(forward->key, row, width) + at, *v = row_of(forward->value, row, width) + at;
    kernels->rms_norm(layer->k_eq_v ? k : v, NULL, layer->head_dim, eps, v);
    kernels->rms_norm(k, run->weights->vector[LAP_K_NORM], layer->head_dim, eps, k);
    kernels->rope(k, layer->head_dim, pairs, row_of(forward->cosine[layer->attention], row, pairs),
                  row_of(forward->sine[layer->attention], row, pairs));
    lap_cache_write(cache, kernels, token->position, head, k, v);
  }
}

static void move_row(float *rows, int from, int to, int width) {
  memcpy(row_of(rows, to, width), row_of(rows, from, width), (size_t)width * sizeof(float));
}

/* With a probe every row goes through every layer. */
static bool has_unwanted_rows(const lap_forward *forward) {
  for (int row = 0; row < forward->rows; row++)
    if (!forward->row[row].wants_logits) return !forward->probe;
  return false;
}

/* Keeps the rows that somebody wants logits of. */
static void drop_unwanted_rows(lap_forward *forward) {
  const lap_plan *plan = forward->model->plan;
  int kept = 0;
  for (int row = 0; row < forward->rows; row++) {
    if (!forward->row[row].wants_logits) continue;
    if (kept < row) {
      forward->row[kept] = forward->row[row];
      move_row(forward->hidden, row, kept, plan->hidden_size);
      if (plan->per_layer_width) move_row(forward->embedded, row, kept, plan->hidden_size);
      for (int type = 0; type < 2; type++) {
        move_row(forward->cosine[type], row, kept, plan->rope[type].rotated_pairs);
        move_row(forward->sine[type], row, kept, plan->rope[type].rotated_pairs);
      }
    }
    kept++;
  }
  forward->rows = kept;
  if (kept) fill_embedded_input(forward);
}

static void fill_segment_caches(lap_forward *forward, const lap_layer *layer) {
  for (int i = 0; i < forward->segment_count; i++)
    forward->segment_cache[i] = forward->segments[i].kv->cache[layer->cache];
}

/* y = norm(h); q, k, v; h = h + norm(o_proj(attention)). The product of the per-layer input's
 * projection, which reads the embedding, runs beside the first ones. */
static void attention(layer_run *run) {
  lap_forward *forward = run->forward;
  const lap_layer *layer = run->layer;
  const lap_weight *linear = run->weights->linear;
  const lap_weight *q_proj = &linear[LAP_Q_PROJ];
  const lap_weight *k_proj = layer->sharer ? NULL : &linear[LAP_K_PROJ];
  const lap_weight *v_proj = layer->sharer || layer->k_eq_v ? NULL : &linear[LAP_V_PROJ];
  const lap_weight *readers[] = {q_proj, k_proj, v_proj};
  bool dropping = run->index == forward->model->plan->first_sharer - 1 && has_unwanted_rows(forward);
  lap_product products[4];
  int count = 0;

  norm_rows(run, forward->hidden, run->weights->vector[LAP_INPUT_NORM], readers, 3);
  if (k_proj) products[count++] = product(forward, k_proj, &forward->input, forward->key);
  if (v_proj) products[count++] = product(forward, v_proj, &forward->input, forward->value);
  if (dropping) {
    lap_multiply(&forward->workspace, products, count);
    lap_for_rows(&forward->workspace, forward->rows, store_key_row, run);
    drop_unwanted_rows(forward);
    if (forward->rows == 0) return;
    norm_rows(run, forward->hidden, run->weights->vector[LAP_INPUT_NORM], readers, 1);
    count = 0;
    k_proj = NULL;
  }
  products[count++] = product(forward, q_proj, &forward->input, forward->query);
  if (forward->model->plan->per_layer_width)
    products[count++] = product(forward, &run->weights->pli_rows, &forward->embedded_input, forward->pli);
  lap_multiply(&forward->workspace, products, count);
  if (k_proj) lap_for_rows(&forward->workspace, forward->rows, store_key_row, run);
  lap_for_rows(&forward->workspace, forward->rows, finish_query_row, run);

  fill_segment_caches(forward, layer);
  lap_attend_rows(forward, layer, forward->segment_cache);

  const lap_weight *o_proj = &linear[LAP_O_PROJ];
  lap_input_place(&forward->wide_input, forward->buffer[LAP_WIDE_INPUT].data, forward->rows, o_proj->cols);
  lap_input_fill(&forward->workspace, &forward->wide_input, forward->query, forward->rows, &o_proj, 1);
  lap_product out = product(forward, o_proj, &forward->wide_input, forward->output);
  lap_multiply(&forward->workspace, &out, 1);
  add_output(run, run->weights->vector[LAP_POST_ATTENTION_NORM]);
}

/* ---- feed-forward ---- */

static void activate_row(void *context, int row) {
  const layer_run *run = context;
  float *gate = row_of(run->forward->gate, row, run->layer->mlp_width);
  run->forward->workspace.kernels->geglu(gate, row_of(run->forward->up, row, run->layer->mlp_width),
                                         run->layer->mlp_width, gate);
}

/* output = down(gelu(gate y) * up y), y = rms_norm(h; pre_feedforward_layernorm) */
static void mlp(layer_run *run) {
  lap_forward *forward = run->forward;
  const lap_weight *linear = run->weights->linear;
  const lap_weight *gate = &linear[LAP_GATE_PROJ], *up = &linear[LAP_UP_PROJ], *down = &linear[LAP_DOWN_PROJ];
  norm_rows(run, forward->hidden, run->weights->vector[LAP_PRE_FEEDFORWARD_NORM],
            (const lap_weight *[]){gate, up}, 2);
  lap_product products[] = {product(forward, gate, &forward->input, forward->gate),
                            product(forward, up, &forward->input, forward->up)};
  lap_multiply(&forward->workspace, products, 2);
  lap_for_rows(&forward->workspace, forward->rows, activate_row, run);
  lap_input_place(&forward->wide_input, forward->buffer[LAP_WIDE_INPUT].data, forward->rows, down->cols);
  lap_input_fill(&forward->workspace, &forward->wide_input, forward->gate, forward->rows, &down, 1);
  lap_product out = product(forward, down, &forward->wide_input, forward->output);
  lap_multiply(&forward->workspace, &out, 1);
}

/* output = norm_1(output) + norm_2(experts) */
static void join_row(void *context, int row) {
  const layer_run *run = context;
  const lap_plan *plan = run->forward->model->plan;
  const lap_kernels *kernels = run->forward->workspace.kernels;
  float *dense = row_of(run->forward->output, row, plan->hidden_size);
  float *mixed = row_of(run->forward->normed, row, plan->hidden_size);
  kernels->rms_norm(dense, run->weights->vector[LAP_POST_FEEDFORWARD_NORM_1], plan->hidden_size,
                    plan->rms_norm_eps, dense);
  kernels->rms_norm(mixed, run->weights->vector[LAP_POST_FEEDFORWARD_NORM_2], plan->hidden_size,
                    plan->rms_norm_eps, mixed);
  for (int i = 0; i < plan->hidden_size; i++) dense[i] += mixed[i];
}

static void feed_forward(layer_run *run) {
  lap_forward *forward = run->forward;
  mlp(run);
  if (run->layer->moe) {
    norm_rows(run, forward->hidden, run->weights->vector[LAP_PRE_FEEDFORWARD_NORM_2], NULL, 0);
    /* The experts' sum takes the place of their input, tile by tile. */
    lap_route_experts(forward, run->index, forward->normed);
    lap_for_rows(&forward->workspace, forward->rows, join_row, run);
  }
  add_output(run, run->weights->vector[LAP_POST_FEEDFORWARD_NORM]);
}

/* ---- per-layer input ---- */

/* pli = (embed_tokens_per_layer[id] * sqrt(width) + rms_norm(projection * hidden^-0.5)) * 2^-0.5 */
static void combine_pli_row(void *context, int row) {
  const layer_run *run = context;
  lap_forward *forward = run->forward;
  const lap_plan *plan = forward->model->plan;
  int width = plan->per_layer_width;
  float *pli = row_of(forward->pli, row, width);
  const lap_weights *weights = forward->model->weights;
  float table[LAP_MAX_PER_LAYER_WIDTH];
  for (int i = 0; i < width; i++) pli[i] *= plan->per_layer_projection_scale;
  forward->workspace.kernels->rms_norm(pli, weights->per_layer_norm, width, plan->rms_norm_eps, pli);
  lap_weight_part(&weights->embed_per_layer, forward->row[row].id, run->index * width, width,
                  plan->per_layer_embed_scale, table);
  for (int i = 0; i < width; i++) pli[i] = (pli[i] + table[i]) * 0.70710678118654752f;
}

static void gate_pli_row(void *context, int row) {
  const layer_run *run = context;
  int width = run->forward->model->plan->per_layer_width;
  float *gate = row_of(run->forward->gate, row, width);
  run->forward->workspace.kernels->geglu(gate, row_of(run->forward->pli, row, width), width, gate);
}

/* h = h + norm(per_layer_projection(gelu(per_layer_input_gate h) * pli)) */
static void per_layer_input(layer_run *run) {
  lap_forward *forward = run->forward;
  const lap_weight *gate = &run->weights->linear[LAP_PLI_GATE],
                   *back = &run->weights->linear[LAP_PLI_PROJECTION];
  lap_for_rows(&forward->workspace, forward->rows, combine_pli_row, run);
  if (forward->probe)
    forward->probe->see(forward->probe->context, "per_layer_input", run->index, forward->pli, forward->rows,
                        forward->model->plan->per_layer_width);
  lap_input_fill(&forward->workspace, &forward->input, forward->hidden, forward->rows, &gate, 1);
  lap_product in = product(forward, gate, &forward->input, forward->gate);
  lap_multiply(&forward->workspace, &in, 1);
  lap_for_rows(&forward->workspace, forward->rows, gate_pli_row, run);
  lap_input_place(&forward->wide_input, forward->buffer[LAP_WIDE_INPUT].data, forward->rows, back->cols);
  lap_input_fill(&forward->workspace, &forward->wide_input, forward->gate, forward->rows, &back, 1);
  lap_product out = product(forward, back, &forward->wide_input, forward->output);
  lap_multiply(&forward->workspace, &out, 1);
  add_output(run, run->weights->vector[LAP_POST_PLI_NORM]);
}

/* ---- a layer, and the head ---- */

static void layer_forward(lap_forward *forward, int index) {
  const lap_plan *plan = forward->model->plan;
  layer_run run = {.forward = forward,
                   .index = index,
                   .layer = &plan->layer[index],
                   .weights = &forward->model->weights->layer[index]};
  attention(&run);
  if (forward->rows == 0) return;
  feed_forward(&run);
  if (plan->per_layer_width) per_layer_input(&run);
  if (run.layer->has_layer_scalar) {
    float scalar = run.weights->vector[LAP_LAYER_SCALAR][0];
    size_t values = (size_t)forward->rows * (size_t)plan->hidden_size;
    for (size_t i = 0; i < values; i++) forward->hidden[i] *= scalar;
  }
  if (forward->probe)
    forward->probe->see(forward->probe->context, "layer", index, forward->hidden, forward->rows,
                        plan->hidden_size);
}

static bool all_finite(const float *x, int n) {
  uint32_t top = 0;
  for (int i = 0; i < n; i++) {
    uint32_t bits = lap_f32_bits(x[i]) & 0x7fffffffu;
    top = bits > top ? bits : top;
  }
  return top < 0x7f800000u;
}

/* logits = cap * tanh(head(norm(h)) / cap), row by row into the callers' buffers. */
static lap_status head(lap_forward *forward, lap_error *error) {
  const lap_plan *plan = forward->model->plan;
  const lap_weights *weights = forward->model->weights;
  const lap_weight *matrix = &weights->head;
  layer_run run = {.forward = forward};
  norm_rows(&run, forward->hidden, weights->final_norm, &matrix, 1);
  if (forward->probe)
    forward->probe->see(forward->probe->context, "final_norm", plan->layers, forward->normed, forward->rows,
                        plan->hidden_size);
  for (int row = 0; row < forward->rows;) {
    const lap_segment *segment = &forward->segments[forward->row[row].segment];
    int first = row, token = (int)(forward->row[row].position - lap_kv_length(segment->kv));
    while (row < forward->rows && forward->row[row].segment == forward->row[first].segment) row++;
    if (token < segment->logits_from) { /* with a probe, rows that want none are here too */
      first += segment->logits_from - token < row - first ? segment->logits_from - token : row - first;
      token = segment->logits_from;
    }
    if (first == row) continue;
    float *logits = segment->logits + (size_t)(token - segment->logits_from) * (size_t)plan->vocab_size;
    lap_product out = product(forward, matrix, &forward->input, logits);
    out.first_input_row = first;
    out.input_rows = row - first;
    lap_multiply(&forward->workspace, &out, 1);
    for (int i = 0; i < row - first; i++) {
      float *y = logits + (size_t)i * (size_t)plan->vocab_size;
      if (plan->final_logit_softcapping > 0.0f)
        forward->workspace.kernels->softcap(y, plan->vocab_size, plan->final_logit_softcapping);
      if (!all_finite(y, plan->vocab_size))
        return lap_fail(error, LAP_ERROR_NUMERIC,
                        "%s: the weights give logits that are not finite at position %lld",
                        forward->model->directory, (long long)forward->row[first + i].position);
    }
  }
  return LAP_OK;
}

/* ---- the pass ---- */

static lap_status need(lap_forward *forward, int which, int rows, int width, size_t size, lap_error *error) {
  return lap_buffer_need(&forward->buffer[which], (size_t)rows * (size_t)(width ? width : 1), size,
                         "the activations", error);
}

typedef struct widths {
  int query, key, mlp, wide;
} widths;

static widths widest(const lap_plan *plan) {
  widths w = {.wide = plan->per_layer_width, .mlp = plan->per_layer_width};
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    int query = layer->heads * layer->head_dim, key = layer->kv_heads * layer->head_dim;
    if (query > w.query) w.query = query;
    if (key > w.key) w.key = key;
    if (layer->mlp_width > w.mlp) w.mlp = layer->mlp_width;
  }
  if (w.query > w.wide) w.wide = w.query;
  if (w.mlp > w.wide) w.wide = w.mlp;
  return w;
}

static lap_status prepare_buffers(lap_forward *forward, int rows, lap_error *error) {
  const lap_plan *plan = forward->model->plan;
  widths w = widest(plan);
  int hidden = plan->hidden_size;
  const int width[LAP_INPUT] = {
      [LAP_HIDDEN] = hidden,
      [LAP_EMBEDDED] = plan->per_layer_width ? hidden : 0,
      [LAP_NORMED] = hidden,
      [LAP_QUERY] = w.query,
      [LAP_KEY] = w.key,
      [LAP_VALUE] = w.key,
      [LAP_GATE] = w.mlp,
      [LAP_UP] = w.mlp,
      [LAP_OUTPUT] = hidden,
      [LAP_PLI] = plan->per_layer_width,
      [LAP_COSINE] = plan->rope[0].rotated_pairs,
      [LAP_COSINE + 1] = plan->rope[1].rotated_pairs,
      [LAP_SINE] = plan->rope[0].rotated_pairs,
      [LAP_SINE + 1] = plan->rope[1].rotated_pairs,
  };
  float **pointer[LAP_INPUT] = {
      [LAP_HIDDEN] = &forward->hidden,    [LAP_EMBEDDED] = &forward->embedded,
      [LAP_NORMED] = &forward->normed,    [LAP_QUERY] = &forward->query,
      [LAP_KEY] = &forward->key,          [LAP_VALUE] = &forward->value,
      [LAP_GATE] = &forward->gate,        [LAP_UP] = &forward->up,
      [LAP_OUTPUT] = &forward->output,    [LAP_PLI] = &forward->pli,
      [LAP_COSINE] = &forward->cosine[0], [LAP_COSINE + 1] = &forward->cosine[1],
      [LAP_SINE] = &forward->sine[0],     [LAP_SINE + 1] = &forward->sine[1],
  };
  for (int i = 0; i < LAP_INPUT; i++) {
    lap_status status = need(forward, i, rows, width[i], sizeof(float), error);
    if (status != LAP_OK) return status;
    *pointer[i] = forward->buffer[i].data;
  }
  lap_status status = need(forward, LAP_INPUT, 1, 1, lap_input_bytes(rows, hidden), error);
  if (status == LAP_OK)
    status = need(forward, LAP_EMBEDDED_INPUT, 1, 1, lap_input_bytes(rows, hidden), error);
  if (status == LAP_OK) status = need(forward, LAP_WIDE_INPUT, 1, 1, lap_input_bytes(rows, w.wide), error);
  if (status != LAP_OK) return status;
  lap_input_place(&forward->input, forward->buffer[LAP_INPUT].data, rows, hidden);
  lap_input_place(&forward->embedded_input, forward->buffer[LAP_EMBEDDED_INPUT].data, rows, hidden);
  return LAP_OK;
}

/* Lists the rows of all segments. */
static lap_status list_rows(lap_forward *forward, const lap_segment *segments, int count, lap_error *error) {
  const lap_plan *plan = forward->model->plan;
  int64_t rows = 0;
  for (int i = 0; i < count; i++) {
    if (segments[i].count < 1)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "segment %d: there is no token to evaluate", i);
    rows += segments[i].count;
  }
  if (rows > INT32_MAX / 64)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "%lld rows are too many", (long long)rows);
  lap_status status =
      lap_buffer_need(&forward->buffer[LAP_ROWS], (size_t)rows, sizeof(lap_row), "rows", error);
  if (status == LAP_OK)
    status = lap_buffer_need(&forward->buffer[LAP_SEGMENT_CACHES], (size_t)count, sizeof(lap_cache *), "rows",
                             error);
  if (status != LAP_OK) return status;
  forward->row = forward->buffer[LAP_ROWS].data;
  forward->segment_cache = forward->buffer[LAP_SEGMENT_CACHES].data;
  forward->segments = segments;
  forward->segment_count = count;
  forward->rows = 0;
  for (int i = 0; i < count; i++)
    for (int t = 0; t < segments[i].count; t++) {
      int32_t id = segments[i].ids[t];
      if (id < 0 || id >= plan->vocab_size)
        return lap_fail(error, LAP_ERROR_ARGUMENT, "token id %d is not in the vocabulary of %d", id,
                        plan->vocab_size);
      forward->row[forward->rows++] = (lap_row){.segment = i,
                                                .id = id,
                                                .position = lap_kv_length(segments[i].kv) + t,
                                                .wants_logits = t >= segments[i].logits_from};
    }
  return LAP_OK;
}

lap_status lap_forward_run(lap_forward *forward, const lap_segment *segments, int count, lap_error *error) {
  /* Everything that can fail comes first: from the first cache row on, the pass runs through. */
  lap_status status = list_rows(forward, segments, count, error);
  if (status == LAP_OK) status = prepare_buffers(forward, forward->rows, error);
  if (status == LAP_OK) status = lap_attend_prepare(forward, forward->rows, error);
  if (status == LAP_OK) status = lap_experts_prepare(forward, error);
  for (int i = 0; status == LAP_OK && i < count; i++)
    status = lap_kv_reserve(segments[i].kv, segments[i].count, error);
  if (status != LAP_OK) return status;

  embed(forward);
  if (forward->probe)
    forward->probe->see(forward->probe->context, "embedding", -1, forward->hidden, forward->rows,
                        forward->model->plan->hidden_size);
  for (int layer = 0; layer < forward->model->plan->layers && forward->rows > 0; layer++)
    layer_forward(forward, layer);
  if (forward->rows > 0) status = head(forward, error);
  for (int i = 0; i < count; i++) lap_kv_commit(segments[i].kv, segments[i].count);
  return status;
}

lap_status lap_forward_create(const lap_model *model, lap_pool *pool, lap_forward **out, lap_error *error) {
  *out = calloc(1, sizeof **out);
  if (!*out) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a forward pass");
  (*out)->model = model;
  (*out)->workspace = (lap_workspace){pool, model->kernels};
  return LAP_OK;
}

void lap_forward_destroy(lap_forward *forward) {
  if (!forward) return;
  for (int i = 0; i < LAP_BUFFERS; i++) lap_buffer_free(&forward->buffer[i]);
  lap_buffer_free(&forward->attention_scratch);
  lap_buffer_free(&forward->attention_states);
  lap_buffer_free(&forward->tiles);
  lap_buffer_free(&forward->expert_memory);
  free(forward);
}

void lap_forward_set_probe(lap_forward *forward, const lap_probe *probe) {
  forward->probe = probe;
}

size_t lap_forward_bytes(const lap_forward *forward) {
  size_t bytes = forward->attention_scratch.bytes + forward->attention_states.bytes + forward->tiles.bytes +
                 forward->expert_memory.bytes;
  for (int i = 0; i < LAP_BUFFERS; i++) bytes += forward->buffer[i].bytes;
  return bytes;
}
