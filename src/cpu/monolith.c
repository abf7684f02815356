/* monolith.c: the general forward pass of Gemma 4. It interprets the plan; generated code must equal
 * it to the bit.
 *
 * Read it from the bottom: embed, then the layers, then the head. A layer is attention, feed-forward and, in
 * the E models, the per-layer input, each one
 *     stream = stream + norm(block(norm(stream))).
 * Formulas are those of docs/gemma4.md section 3; the order of every sum is in docs/numerics.md. The bodies
 * are those of src/pass and src/kernels, called here with values read from the plan; which of them, in which
 * order and on which buffers is told here once more and without help, so that the gate compares two tellings.
 *
 * Every function says what it reads and writes in its arguments. Work on rows and products is divided over
 * the pass's team; a row's part of it gets its arguments in a structure, since a task has one. Rows of which
 * nothing is wanted are needed only until the last donor layer has stored their K and V; there they leave the
 * pass. Compiled once for each instruction set. */
#include "cpu/monolith.h"

#include "kernels/kernels.h"
#include "pass/attend_rows.h"
#include "pass/experts.h"
#include "pass/head.h"
#include "pass/rows.h"
#include "program/inputs.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Where activations stand: each is [rows, width], the widths those of the widest layer. Attention's and
 * feed-forward's take the same room. */
typedef struct arena {
  float *hidden;   /* [hidden_size]: the residual stream */
  float *embedded; /* [hidden_size]: the scaled embedding, which every layer's per-layer input reads */
  float *normed;   /* [hidden_size]: a norm's output, the input of products */
  float *output;   /* [hidden_size]: what goes back to the stream */
  float *query;    /* [heads * head_dim]; attention's output takes its place */
  float *key;      /* [kv_heads * head_dim] */
  float *value;
  float *gate;      /* [per_layer_width]; [mlp_width] where down is dense */
  float *pli;       /* [per_layer_width]: the per-layer input */
  float *cosine[2]; /* [rotated_pairs], by attention type */
  float *sine[2];
  unsigned char *normed_forms, *embedded_forms, *query_forms, *gate_forms; /* quantized forms of these */
  lap_attend_memory attention;
  unsigned char *experts;
} arena;

/* Of one row. */
typedef struct widths {
  int query, key, gate;
  size_t query_forms, gate_forms; /* bytes */
} widths;

static int larger(int a, int b) {
  return a > b ? a : b;
}

static size_t larger_bytes(size_t a, size_t b) {
  return a > b ? a : b;
}

static widths widest(const lap_plan *plan, const lap_plan_forms *forms) {
  widths w = {.gate = plan->per_layer_width,
              .gate_forms = lap_input_row_bytes(plan->per_layer_width, forms->per_layer)};
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    const int query = layer->heads * layer->head_dim;
    w.query = larger(w.query, query);
    w.key = larger(w.key, layer->kv_heads * layer->head_dim);
    if (forms->mlp_floats) w.gate = larger(w.gate, layer->mlp_width);
    w.query_forms = larger_bytes(w.query_forms, lap_input_row_bytes(query, forms->attention));
    w.gate_forms = larger_bytes(w.gate_forms, lap_input_row_bytes(layer->mlp_width, forms->mlp));
  }
  return w;
}

static lap_attend_shape attend_shape(const lap_layer *layer, int bits, int group_size) {
  return (lap_attend_shape){.heads = layer->heads,
                            .kv_heads = layer->kv_heads,
                            .head_dim = layer->head_dim,
                            .window = layer->window,
                            .bits = bits,
                            .group_size = group_size};
}

static lap_experts_shape experts_shape(const lap_plan *plan) {
  const lap_plan_forms forms = lap_plan_get_forms(plan);
  return (lap_experts_shape){.hidden = plan->hidden_size,
                             .experts = plan->num_experts,
                             .top_k = plan->top_k_experts,
                             .width = plan->moe_width,
                             .eps = plan->rms_norm_eps,
                             .router_forms = forms.router,
                             .forms = forms.expert,
                             .wide_forms = forms.expert_wide,
                             .wide_floats = forms.expert_floats};
}

/* The distinct shapes of the model's attention: two, in every published one. */
static int list_shapes(const lap_plan *plan, lap_attend_shape shapes[LAP_MAX_LAYERS]) {
  int count = 0;
  for (int i = 0; i < plan->layers; i++) {
    const lap_attend_shape shape = attend_shape(&plan->layer[i], 0, 0);
    int j = 0;
    while (j < count && memcmp(&shapes[j], &shape, sizeof shape) != 0) j++;
    if (j == count) shapes[count++] = shape;
  }
  return count;
}

static float *take_rows(const lap_pass *pass, int width, unsigned char *base, size_t *used) {
  return lap_take(base, used, (size_t)pass->capacity * (size_t)width * sizeof(float));
}

static unsigned char *take_forms(const lap_pass *pass, size_t row_bytes, unsigned char *base, size_t *used) {
  return lap_take(base, used, (size_t)pass->capacity * row_bytes);
}

static void place_attention_memory(arena *a, const lap_pass *pass, unsigned char *base, size_t *used) {
  lap_attend_shape shapes[LAP_MAX_LAYERS];
  const int count = list_shapes(pass->plan, shapes);
  *used += lap_attend_place_memory(shapes, count, pass, base ? base + *used : NULL, &a->attention);
  a->attention.tiles = lap_take(base, used, (size_t)pass->capacity * sizeof(lap_tile));
}

/* Points everything into `base`; with NULL it only adds up the bytes, which it returns. */
static size_t place(arena *a, const lap_pass *pass, unsigned char *base) {
  const lap_plan *plan = pass->plan;
  const int hidden = plan->hidden_size, pli = plan->per_layer_width;
  const lap_plan_forms forms = lap_plan_get_forms(plan);
  const widths w = widest(plan, &forms);
  size_t used = 0;
  *a = (arena){0};
  a->hidden = take_rows(pass, hidden, base, &used);
  a->embedded = take_rows(pass, pli ? hidden : 0, base, &used);
  a->normed = take_rows(pass, hidden, base, &used);
  a->pli = take_rows(pass, pli, base, &used);
  for (int type = 0; type < 2; type++) {
    a->cosine[type] = take_rows(pass, plan->rope[type].rotated_pairs, base, &used);
    a->sine[type] = take_rows(pass, plan->rope[type].rotated_pairs, base, &used);
  }
  a->normed_forms = take_forms(pass, lap_input_row_bytes(hidden, forms.normed), base, &used);
  a->embedded_forms = take_forms(pass, lap_input_row_bytes(hidden, forms.embedded), base, &used);
  a->output = a->normed;   /* which is not read any more when something goes back to the stream, */
  if (plan->num_experts) { /* but by experts */
    lap_experts_run run;
    a->output = take_rows(pass, hidden, base, &used);
    a->experts = lap_take(base, &used, lap_experts_place(experts_shape(plan), &run, NULL));
  }
  place_attention_memory(a, pass, base, &used);
  size_t of_attention = used, of_feed_forward = used;
  a->query = take_rows(pass, w.query, base, &of_attention);
  a->key = take_rows(pass, w.key, base, &of_attention);
  a->value = take_rows(pass, w.key, base, &of_attention);
  a->query_forms = take_forms(pass, w.query_forms, base, &of_attention);
  a->gate = take_rows(pass, w.gate, base, &of_feed_forward);
  a->gate_forms = take_forms(pass, w.gate_forms, base, &of_feed_forward);
  return larger_bytes(of_attention, of_feed_forward);
}

static const lap_layer_weights *weights_of(const lap_pass *pass, int index) {
  return &pass->memory.weights->layer[index];
}

/* ---- inputs: activations with the forms that products read ---- */

/* How forms lie in memory depends on the number of rows still on their way. */
static lap_input input_of(const lap_pass *pass, int width, int forms, const float *x, unsigned char *memory) {
  return lap_input_place(width, forms, x, memory, pass->capacity, lap_weaves(pass->rows, width));
}

static lap_input normed_input(const lap_pass *pass, const arena *a) {
  return input_of(pass, pass->plan->hidden_size, lap_plan_get_forms(pass->plan).normed, a->normed,
                  a->normed_forms);
}

static lap_input embedded_input(const lap_pass *pass, const arena *a) {
  return input_of(pass, pass->plan->hidden_size, lap_plan_get_forms(pass->plan).embedded, a->embedded,
                  a->embedded_forms);
}

typedef struct quantize_args {
  const float *x; /* [rows, input->width] */
  const lap_input *input;
} quantize_args;

static void quantize_row(void *context, int row) {
  const quantize_args *args = context;
  const int width = args->input->width;
  lap_input_fill(width, lap_input_forms(args->input), args->x + (size_t)row * (size_t)width, args->input,
                 row);
}

/* input = the forms of x */
static void quantize(const lap_pass *pass, const float *x, const lap_input *input) {
  quantize_args args = {x, input};
  lap_run_rows(&pass->team, pass->rows, quantize_row, &args);
}

/* ---- norms ---- */

typedef struct norm_args {
  const float *x, *weight;
  float *y;
  const lap_input *input; /* y's forms; NULL: none are wanted */
  int width;
  float eps;
} norm_args;

static void norm_row(void *context, int row) {
  const norm_args *args = context;
  const size_t at = (size_t)row * (size_t)args->width;
  lap_row_norm(args->width, args->eps, args->input ? lap_input_forms(args->input) : 0, args->x + at,
               args->weight, args->y + at, args->input, row);
}

/* y = rms_norm(x; weight), and its forms */
static void norm(const lap_pass *pass, const float *x, const float *weight, float *y,
                 const lap_input *input) {
  norm_args args = {x, weight, y, input, pass->plan->hidden_size, pass->plan->rms_norm_eps};
  lap_run_rows(&pass->team, pass->rows, norm_row, &args);
}

static void add_norm_row(void *context, int row) {
  const norm_args *args = context;
  lap_row_add_norm(args->width, args->eps, (float *)(uintptr_t)args->x + (size_t)row * (size_t)args->width,
                   args->weight, lap_row_of(args->y, row, args->width));
}

/* stream = stream + rms_norm(x; weight); x is overwritten */
static void add_norm(const lap_pass *pass, float *x, const float *weight, float *stream) {
  norm_args args = {x, weight, stream, NULL, pass->plan->hidden_size, pass->plan->rms_norm_eps};
  lap_run_rows(&pass->team, pass->rows, add_norm_row, &args);
}

/* ---- products ---- */

/* Rows first .. last - 1 of W, by the table's code: bodies take long to compile. */
static void multiply(const lap_product *p, int first, int last) {
  const lap_weight *w = p->weight;
  const lap_kernels *kernels = &LAP_ISA(lap_kernels);
  if (w->bits)
    kernels->matmul_quantized(&w->quantized, &p->input->q[w->block == 64 ? 0 : 1], p->first_input_row,
                              p->input_rows, first, last, p->y, (size_t)p->rows);
  else
    kernels->matmul_dense(&w->dense, p->input->x + (size_t)p->first_input_row * (size_t)w->cols,
                          (size_t)w->cols, p->input_rows, first, last, p->y, (size_t)p->rows);
}

static void multiply_pair(const lap_product *p, int first, int last) {
  lap_multiply_gated(lap_input_forms(p->result), multiply, multiply, p, first, last);
}

static void multiply_head(const lap_product *p, int first, int last) {
  lap_multiply_head(multiply, p->pass->plan->final_logit_softcapping, p, first, last);
}

/* y = x W^T */
static lap_product product(const lap_pass *pass, const lap_weight *weight, const lap_input *x, float *y) {
  return (lap_product){.multiply = multiply,
                       .weight = weight,
                       .rows = weight->rows,
                       .cols = weight->cols,
                       .input = x,
                       .input_rows = pass->rows,
                       .y = y};
}

static void run_product(const lap_pass *pass, const lap_weight *weight, const lap_input *x, float *y) {
  const lap_product one = product(pass, weight, x, y);
  lap_run_products(&pass->team, &one, 1);
}

/* ---- embedding ------------------------------------------------------------------------------- */

static lap_format format_of(const lap_weight *weight) {
  return weight->bits ? weight->quantized.format : weight->dense.format;
}

typedef struct embed_args {
  const lap_pass *pass;
  const arena *a;
} embed_args;

/* h = embed_tokens[id] * sqrt(hidden), or what the row brings; and the row's RoPE tables */
static void embed_row(void *context, int row) {
  const embed_args *args = context;
  const lap_plan *plan = args->pass->plan;
  const lap_row *token = &args->pass->row[row];
  const lap_weight *table = &args->pass->memory.weights->embed;
  float *hidden = lap_row_of(args->a->hidden, row, plan->hidden_size);
  lap_row_embed(table->bits, table->quantized.group_size, format_of(table), plan->hidden_size, table, token,
                plan->embed_scale, hidden);
  for (int type = 0; type < 2; type++) {
    const int pairs = plan->rope[type].rotated_pairs;
    lap_rope_table(args->pass->memory.rope_frequency[type], pairs, token->position,
                   lap_row_of(args->a->cosine[type], row, pairs),
                   lap_row_of(args->a->sine[type], row, pairs));
  }
  if (plan->per_layer_width)
    memcpy(lap_row_of(args->a->embedded, row, plan->hidden_size), hidden,
           (size_t)plan->hidden_size * sizeof *hidden);
}

static void quantize_embedding(const lap_pass *pass, const arena *a) {
  if (!pass->plan->per_layer_width) return;
  const lap_input input = embedded_input(pass, a);
  quantize(pass, a->embedded, &input);
}

static void embed(const lap_pass *pass, const arena *a) {
  embed_args args = {pass, a};
  lap_run_rows(&pass->team, pass->rows, embed_row, &args);
  quantize_embedding(pass, a);
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct layer_args {
  const lap_pass *pass;
  const arena *a;
  int index; /* of the layer */
} layer_args;

/* q = rope(rms_norm(q)), head by head */
static void query_row(void *context, int row) {
  const layer_args *args = context;
  const lap_plan *plan = args->pass->plan;
  const lap_layer *layer = &plan->layer[args->index];
  const int type = layer->attention, pairs = plan->rope[type].rotated_pairs;
  lap_row_queries(layer->heads, layer->head_dim, pairs, plan->rms_norm_eps,
                  lap_row_of(args->a->query, row, layer->heads * layer->head_dim),
                  weights_of(args->pass, args->index)->vector[LAP_Q_NORM],
                  lap_row_of(args->a->cosine[type], row, pairs), lap_row_of(args->a->sine[type], row, pairs));
}

/* k = rope(rms_norm(k)), v = rms_norm(v), head by head, into the cache */
static void key_row(void *context, int row) {
  const layer_args *args = context;
  const lap_plan *plan = args->pass->plan;
  const lap_layer *layer = &plan->layer[args->index];
  const lap_row *token = &args->pass->row[row];
  const lap_pass_cache *kv = lap_pass_kv(args->pass, token->segment, layer->cache);
  const int type = layer->attention, pairs = plan->rope[type].rotated_pairs;
  const int width = layer->kv_heads * layer->head_dim;
  lap_row_keys(layer->kv_heads, layer->head_dim, pairs, plan->rms_norm_eps, layer->k_eq_v, kv->bits,
               kv->group_size, lap_row_of(args->a->key, row, width), lap_row_of(args->a->value, row, width),
               weights_of(args->pass, args->index)->vector[LAP_K_NORM],
               lap_row_of(args->a->cosine[type], row, pairs), lap_row_of(args->a->sine[type], row, pairs),
               &kv->planes, token->position);
}

/* The shape of attention over the caches that a tile's segment has. */
static lap_attend_shape shape_of(const lap_attend_run *run, int row) {
  lap_attend_shape shape = *run->shape;
  const lap_pass_cache *kv = lap_pass_kv(run->pass, run->pass->row[row].segment, run->cache);
  shape.bits = kv->bits;
  shape.group_size = kv->group_size;
  return shape;
}

/* By the table's code, as products are. */
static void attend_span(int bits, int group_size, const lap_kv_view *kv, const lap_attend_queries *queries,
                        int64_t begin, int64_t end, const lap_attend_state *state, float *scratch) {
  (void)bits;
  (void)group_size;
  LAP_ISA(lap_kernels).attend_span(kv, queries, begin, end, state, scratch);
}

static void attend_tile(void *context, int task, int thread) {
  const lap_attend_run *run = context;
  const int tile = (run->spans ? task / run->spans : task) / lap_attend_groups(*run->shape);
  lap_attend_tile_by(attend_span, shape_of(run, run->memory.tiles[tile].first_row), run, task, thread);
}

static void attend_fold_spans(void *context, int task, int thread) {
  const lap_attend_run *run = context;
  (void)thread;
  lap_attend_fold_spans(*run->shape, run, task);
}

static const lap_attend_code attend_code = {LAP_ATTENTION_TILED, attend_tile, attend_fold_spans};

/* The rows of which nothing is wanted leave, with their part of what later layers read. */
static void drop_rows(lap_pass *pass, const arena *a) {
  const lap_plan *plan = pass->plan;
  const int pairs[2] = {plan->rope[0].rotated_pairs, plan->rope[1].rotated_pairs};
  const lap_kept kept[] = {{a->hidden, plan->hidden_size}, {a->cosine[0], pairs[0]},
                           {a->sine[0], pairs[0]},         {a->cosine[1], pairs[1]},
                           {a->sine[1], pairs[1]},         {a->embedded, plan->hidden_size}};
  lap_drop_unwanted_rows(pass, kept, plan->per_layer_width ? 6 : 5);
  quantize_embedding(pass, a);
}

/* k, v = W norm(stream): products that may run beside others; returns how many. */
static int key_products(const lap_pass *pass, const arena *a, int index, const lap_input *normed,
                        lap_product out[2]) {
  const lap_layer_weights *w = weights_of(pass, index);
  out[0] = product(pass, &w->linear[LAP_K_PROJ], normed, a->key);
  if (pass->plan->layer[index].k_eq_v) return 1;
  out[1] = product(pass, &w->linear[LAP_V_PROJ], normed, a->value);
  return 2;
}

/* q = W norm(stream), and the layer's part of the per-layer input, which reads the embedding. */
static int query_products(const lap_pass *pass, const arena *a, int index, const lap_input *normed,
                          const lap_input *embedded, lap_product out[2]) {
  const lap_layer_weights *w = weights_of(pass, index);
  out[0] = product(pass, &w->linear[LAP_Q_PROJ], normed, a->query);
  if (!pass->plan->per_layer_width) return 1;
  out[1] = product(pass, &w->pli_rows, embedded, a->pli);
  return 2;
}

static void write_keys(const lap_pass *pass, const arena *a, int index) {
  layer_args args = {pass, a, index};
  lap_run_rows(&pass->team, pass->rows, key_row, &args);
}

static void rotate_queries(const lap_pass *pass, const arena *a, int index) {
  layer_args args = {pass, a, index};
  lap_run_rows(&pass->team, pass->rows, query_row, &args);
}

/* q, k, v of norm(stream); k and v into the cache. All later layers read what the last donor stores: there
 * the rows leave of which nothing is wanted, and only the others have queries. */
static void make_heads(lap_pass *pass, const arena *a, int index) {
  const lap_layer_weights *w = weights_of(pass, index);
  const bool stores = !pass->plan->layer[index].sharer;
  const bool leaving = index == pass->plan->first_sharer - 1 && lap_has_unwanted_rows(pass);
  lap_input normed = normed_input(pass, a);
  lap_product products[4];
  int count = 0;
  norm(pass, a->hidden, w->vector[LAP_INPUT_NORM], a->normed, &normed);
  if (stores) count = key_products(pass, a, index, &normed, products);
  if (leaving) {
    lap_run_products(&pass->team, products, count);
    write_keys(pass, a, index);
    drop_rows(pass, a);
    if (pass->rows == 0) return;
    normed = normed_input(pass, a);
    norm(pass, a->hidden, w->vector[LAP_INPUT_NORM], a->normed, &normed);
    count = 0;
  }
  const lap_input embedded = embedded_input(pass, a);
  count += query_products(pass, a, index, &normed, &embedded, products + count);
  lap_run_products(&pass->team, products, count);
  if (stores && !leaving) write_keys(pass, a, index);
  rotate_queries(pass, a, index);
}

/* stream = stream + norm(o_proj(attention(q, k, v))) */
static void attention(lap_pass *pass, const arena *a, int index) {
  const lap_layer *layer = &pass->plan->layer[index];
  const lap_layer_weights *w = weights_of(pass, index);
  const int width = layer->heads * layer->head_dim;
  make_heads(pass, a, index);
  if (pass->rows == 0) return;
  lap_run_attention(attend_shape(layer, 0, 0), &attend_code, pass, &a->attention, a->query, NULL,
                    layer->cache);
  const lap_input attended =
      input_of(pass, width, lap_plan_get_forms(pass->plan).attention, a->query, a->query_forms);
  quantize(pass, a->query, &attended);
  run_product(pass, &w->linear[LAP_O_PROJ], &attended, a->output);
  add_norm(pass, a->output, w->vector[LAP_POST_ATTENTION_NORM], a->hidden);
}

/* ---- feed-forward ---------------------------------------------------------------------------- */

/* output = down(gelu(gate y) * up y), y = rms_norm(stream) */
static void mlp(const lap_pass *pass, const arena *a, int index) {
  const lap_layer_weights *w = weights_of(pass, index);
  const lap_weight *down = &w->linear[LAP_DOWN_PROJ];
  const lap_plan_forms forms = lap_plan_get_forms(pass->plan);
  const lap_input normed = normed_input(pass, a),
                  gated = input_of(pass, down->cols, forms.mlp, a->gate, a->gate_forms);
  norm(pass, a->hidden, w->vector[LAP_PRE_FEEDFORWARD_NORM], a->normed, &normed);
  lap_product pair = product(pass, &w->linear[LAP_GATE_PROJ], &normed, forms.mlp_floats ? a->gate : NULL);
  pair.multiply = multiply_pair;
  pair.second = &w->linear[LAP_UP_PROJ];
  pair.result = &gated;
  lap_run_products(&pass->team, &pair, 1);
  run_product(pass, down, &gated, a->output);
}

static void norm_router(void *context, int row) {
  lap_experts_run *run = context;
  lap_experts_norm_router(experts_shape(run->pass->plan), run, row);
}

static void gather_slot(void *context, int slot) {
  lap_experts_run *run = context;
  lap_experts_gather(experts_shape(run->pass->plan), run, slot);
}

static const lap_experts_code experts_code = {norm_router, gather_slot, multiply, multiply_pair, multiply};

/* output = norm_1(output) + norm_2(experts), of one row */
static void join_row(void *context, int row) {
  const layer_args *args = context;
  const lap_plan *plan = args->pass->plan;
  const lap_layer_weights *w = weights_of(args->pass, args->index);
  float *dense = lap_row_of(args->a->output, row, plan->hidden_size);
  LAP_ISA(lap_rms_norm)
  (dense, w->vector[LAP_POST_FEEDFORWARD_NORM_1], plan->hidden_size, plan->rms_norm_eps, dense);
  lap_row_add_norm(plan->hidden_size, plan->rms_norm_eps, lap_row_of(args->a->normed, row, plan->hidden_size),
                   w->vector[LAP_POST_FEEDFORWARD_NORM_2], dense);
}

/* output = norm_1(output) + norm_2(experts(norm(stream))), the experts chosen by the stream itself */
static void experts(const lap_pass *pass, const arena *a, int index) {
  layer_args args = {pass, a, index};
  norm(pass, a->hidden, weights_of(pass, index)->vector[LAP_PRE_FEEDFORWARD_NORM_2], a->normed, NULL);
  /* The experts' sum takes the place of their input. */
  lap_run_experts(experts_shape(pass->plan), &experts_code, pass, index, a->experts, a->hidden, a->normed);
  lap_run_rows(&pass->team, pass->rows, join_row, &args);
}

/* stream = stream + norm(mlp, and experts where there are some) */
static void feed_forward(const lap_pass *pass, const arena *a, int index) {
  mlp(pass, a, index);
  if (pass->plan->layer[index].moe) experts(pass, a, index);
  add_norm(pass, a->output, weights_of(pass, index)->vector[LAP_POST_FEEDFORWARD_NORM], a->hidden);
}

/* ---- per-layer input ------------------------------------------------------------------------- */

/* pli = (embed_tokens_per_layer[id] * sqrt(width) + rms_norm(pli * hidden^-0.5)) * 2^-0.5 */
static void per_layer_input_row(void *context, int row) {
  const layer_args *args = context;
  const lap_plan *plan = args->pass->plan;
  const lap_weights *weights = args->pass->memory.weights;
  const lap_weight *table = &weights->embed_per_layer;
  const int width = plan->per_layer_width;
  float entry[LAP_MAX_PER_LAYER_WIDTH];
  lap_table_row(table->bits, table->quantized.group_size, format_of(table), table->cols, table,
                args->pass->row[row].per_layer_id, args->index * width, width, plan->per_layer_embed_scale,
                entry);
  lap_row_per_layer_input(width, plan->rms_norm_eps, plan->per_layer_projection_scale,
                          weights->per_layer_norm, entry, lap_row_of(args->a->pli, row, width));
}

/* gate = gelu(gate) * pli */
static void gate_row(void *context, int row) {
  const layer_args *args = context;
  const int width = args->pass->plan->per_layer_width;
  float *gate = lap_row_of(args->a->gate, row, width);
  LAP_ISA(lap_geglu)(gate, lap_row_of(args->a->pli, row, width), width, gate);
}

/* stream = stream + norm(per_layer_projection(gelu(per_layer_input_gate stream) * pli)) */
static void per_layer_input(const lap_pass *pass, const arena *a, int index) {
  const lap_layer_weights *w = weights_of(pass, index);
  const int width = pass->plan->per_layer_width;
  layer_args args = {pass, a, index};
  lap_run_rows(&pass->team, pass->rows, per_layer_input_row, &args);
  lap_pass_show(pass, "per_layer_input", index, a->pli, width);
  lap_input stream = normed_input(pass, a); /* its forms take the room of the norm's, which was read */
  stream.x = a->hidden;
  quantize(pass, a->hidden, &stream);
  run_product(pass, &w->linear[LAP_PLI_GATE], &stream, a->gate);
  lap_run_rows(&pass->team, pass->rows, gate_row, &args);
  const lap_input gated =
      input_of(pass, width, lap_plan_get_forms(pass->plan).per_layer, a->gate, a->gate_forms);
  quantize(pass, a->gate, &gated);
  run_product(pass, &w->linear[LAP_PLI_PROJECTION], &gated, a->output);
  add_norm(pass, a->output, w->vector[LAP_POST_PLI_NORM], a->hidden);
}

/* ---- a layer, and the pass ------------------------------------------------------------------- */

static void scale_row(void *context, int row) {
  const layer_args *args = context;
  const int width = args->pass->plan->hidden_size;
  lap_row_scale(width, weights_of(args->pass, args->index)->vector[LAP_LAYER_SCALAR][0],
                lap_row_of(args->a->hidden, row, width));
}

/* stream = scalar * stream */
static void scale(const lap_pass *pass, const arena *a, int index) {
  layer_args args = {pass, a, index};
  lap_run_rows(&pass->team, pass->rows, scale_row, &args);
}

static void layer_forward(lap_pass *pass, const arena *a, int index) {
  attention(pass, a, index);
  if (pass->rows == 0) return;
  feed_forward(pass, a, index);
  if (pass->plan->per_layer_width) per_layer_input(pass, a, index);
  if (pass->plan->layer[index].has_layer_scalar) scale(pass, a, index);
  lap_pass_show(pass, "layer", index, a->hidden, pass->plan->hidden_size);
}

/* logits = cap * tanh(head(norm(stream)) / cap) */
static void head(lap_pass *pass, const arena *a) {
  const lap_plan *plan = pass->plan;
  const lap_input normed = normed_input(pass, a);
  norm(pass, a->hidden, pass->memory.weights->final_norm, a->normed, &normed);
  lap_pass_show(pass, "final_norm", plan->layers, a->normed, plan->hidden_size);
  lap_give_hidden(pass, a->normed, plan->hidden_size);
  lap_run_head(pass, multiply_head, plan->vocab_size, plan->hidden_size, &normed);
}

static size_t arena_bytes(const lap_pass *pass) {
  arena a;
  return place(&a, pass, NULL);
}

static void forward(lap_pass *pass) {
  arena a;
  place(&a, pass, pass->memory.arena);
  embed(pass, &a);
  lap_pass_show(pass, "embedding", -1, a.hidden, pass->plan->hidden_size);
  for (int i = 0; i < pass->plan->layers && pass->rows > 0; i++) layer_forward(pass, &a, i);
  if (pass->rows > 0) head(pass, &a);
}

const lap_forward_code LAP_ISA(lap_monolith) = {arena_bytes, forward};
