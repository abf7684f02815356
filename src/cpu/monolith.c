/* monolith.c: the general forward pass of Gemma 4. It interprets the plan; generated code must equal
 * it to the bit.
 *
 * Read `forward` from the bottom: embed, then the layers, then the head. A layer is attention,
 * feed-forward and, in the E models, the per-layer input, each of the form
 *     stream = stream + norm(block(norm(stream))).
 * Formulas are those of docs/gemma4.md section 3; the order of every sum is in docs/numerics.md. The steps
 * are those of src/pass, called here with values read from the plan.
 *
 * Rows of which nothing is wanted are needed only until the last donor layer has stored their K and
 * V; there they leave the pass. Compiled once for each instruction set. */
#include "cpu/monolith.h"

#include "cut/layout.h"
#include "kernels/kernels.h"
#include "pass/attend_rows.h"
#include "pass/experts.h"
#include "pass/head.h"
#include "pass/rows.h"

/* The pass, its buffers ([rows, width of the widest layer]), and the layer at hand. */
typedef struct mono {
  lap_pass *pass;
  const lap_plan *plan;
  lap_plan_forms all; /* forms that readers want of each input */
  float *hidden;      /* the residual stream */
  float *embedded;    /* the scaled embedding, which every layer's per-layer input reads */
  float *normed;      /* a norm's output, the input of products */
  float *query;       /* [rows, heads * head_dim]; attention's output takes its place */
  float *key;         /* [rows, kv_heads * head_dim] */
  float *value;
  float *gate;      /* [rows, per_layer_width]; mlp_width, where down is dense */
  float *output;    /* [rows, hidden]: what goes back to the stream */
  float *pli;       /* [rows, per_layer_width] */
  float *cosine[2]; /* by attention type, [rows, rotated_pairs] */
  float *sine[2];
  lap_input input;          /* of products with hidden-wide inputs */
  lap_input embedded_input; /* of the per-layer projection */
  lap_input wide_input;     /* of o_proj, down_proj and the per-layer projection back */
  unsigned char *input_memory, *embedded_memory, *query_memory, *gate_memory;
  lap_attend_memory attend;
  unsigned char *experts;

  int index;
  const lap_layer *layer;
  const lap_layer_weights *weights;
  const float *norm; /* of the row task that runs */
  const float *source;
  int forms, width;
} mono;

/* ---- memory ---- */

/* Of one row. */
typedef struct widths {
  int query, key, gate;
  size_t query_forms, gate_forms; /* bytes */
} widths;

static void at_least(int *width, int other) {
  if (other > *width) *width = other;
}

static void at_least_bytes(size_t *bytes, size_t other) {
  if (other > *bytes) *bytes = other;
}

static widths widest(const lap_plan *plan, const lap_plan_forms *all) {
  widths w = {.gate = plan->per_layer_width,
              .gate_forms = lap_input_row_bytes(plan->per_layer_width, all->per_layer)};
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    at_least(&w.query, layer->heads * layer->head_dim);
    at_least(&w.key, layer->kv_heads * layer->head_dim);
    if (all->mlp_floats) at_least(&w.gate, layer->mlp_width);
    at_least_bytes(&w.query_forms, lap_input_row_bytes(layer->heads * layer->head_dim, all->attention));
    at_least_bytes(&w.gate_forms, lap_input_row_bytes(layer->mlp_width, all->mlp));
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

/* But for its forms. */
static lap_experts_shape experts_shape(const lap_plan *plan) {
  return (lap_experts_shape){.hidden = plan->hidden_size,
                             .experts = plan->num_experts,
                             .top_k = plan->top_k_experts,
                             .width = plan->moe_width,
                             .eps = plan->rms_norm_eps};
}

static lap_experts_shape experts_shape_with_forms(const mono *m) {
  lap_experts_shape shape = experts_shape(m->plan);
  shape.router_forms = m->all.router;
  shape.forms = m->all.expert;
  shape.wide_forms = m->all.expert_wide;
  shape.wide_floats = m->all.expert_floats;
  return shape;
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

static void place_attention(mono *m, unsigned char *base, size_t *used) {
  lap_attend_shape shapes[LAP_MAX_LAYERS];
  int count = list_shapes(m->plan, shapes);
  *used += lap_attend_place_memory(shapes, count, m->pass, base ? base + *used : NULL, &m->attend);
  m->attend.tiles = lap_take(base, used, (size_t)m->pass->capacity * sizeof(lap_tile));
}

/* How the inputs lie in memory depends on the number of rows still on their way. */
static lap_input input_at(const mono *m, int width, int forms, const float *x, unsigned char *memory) {
  return lap_input_place(width, forms, x, memory, m->pass->capacity, lap_weaves(m->pass->rows, width));
}

static void place_inputs(mono *m) {
  const int hidden = m->plan->hidden_size;
  m->input = input_at(m, hidden, m->all.normed, m->normed, m->input_memory);
  m->embedded_input = input_at(m, hidden, m->all.embedded, m->embedded, m->embedded_memory);
}

typedef struct buffer {
  float **at;
  int width;
} buffer;

static void take_buffers(const mono *m, const buffer *list, size_t count, unsigned char *base, size_t *used) {
  for (size_t i = 0; i < count; i++)
    *list[i].at = lap_take(base, used, (size_t)m->pass->capacity * (size_t)list[i].width * sizeof(float));
}

/* Points the buffers into `base`; with NULL it only adds up their bytes. Attention's and feed-forward's take
 * the same room. */
static size_t place(mono *m, lap_pass *pass, unsigned char *base) {
  const lap_plan *plan = pass->plan;
  const int hidden = plan->hidden_size, pli = plan->per_layer_width;
  const size_t rows = (size_t)pass->capacity;
  *m = (mono){.pass = pass, .plan = plan, .all = lap_plan_get_forms(plan)};
  const widths w = widest(plan, &m->all);
  const buffer list[] = {{&m->hidden, hidden},
                         {&m->embedded, pli ? hidden : 0},
                         {&m->normed, hidden},
                         {&m->pli, pli},
                         {&m->cosine[0], plan->rope[0].rotated_pairs},
                         {&m->cosine[1], plan->rope[1].rotated_pairs},
                         {&m->sine[0], plan->rope[0].rotated_pairs},
                         {&m->sine[1], plan->rope[1].rotated_pairs}},
               attention[] = {{&m->query, w.query}, {&m->key, w.key}, {&m->value, w.key}},
               feed_forward[] = {{&m->gate, w.gate}};
  size_t used = 0;
  take_buffers(m, list, sizeof list / sizeof *list, base, &used);
  m->input_memory = lap_take(base, &used, rows * lap_input_row_bytes(hidden, m->all.normed));
  m->embedded_memory = lap_take(base, &used, rows * lap_input_row_bytes(hidden, m->all.embedded));
  m->output = m->normed;   /* which is not read any more when something goes back to the stream, */
  if (plan->num_experts) { /* but by experts */
    lap_experts_run run;
    m->output = lap_take(base, &used, rows * (size_t)hidden * sizeof(float));
    m->experts = lap_take(base, &used, lap_experts_place(experts_shape_with_forms(m), &run, NULL));
  }
  place_attention(m, base, &used);
  size_t of_attention = used, of_feed_forward = used;
  take_buffers(m, attention, sizeof attention / sizeof *attention, base, &of_attention);
  m->query_memory = lap_take(base, &of_attention, rows * w.query_forms);
  take_buffers(m, feed_forward, 1, base, &of_feed_forward);
  m->gate_memory = lap_take(base, &of_feed_forward, rows * w.gate_forms);
  if (base) place_inputs(m);
  return of_attention > of_feed_forward ? of_attention : of_feed_forward;
}

/* ---- products ---- */

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
  lap_multiply_pair(lap_input_forms(p->result), multiply, multiply, p, first, last);
}

static void multiply_head(const lap_product *p, int first, int last) {
  const lap_plan *plan = p->pass->plan;
  lap_multiply_head(multiply, plan->final_logit_softcapping, p, first, last);
}

static lap_product product(const mono *m, const lap_weight *weight, const lap_input *input, float *y) {
  return (lap_product){.multiply = multiply,
                       .weight = weight,
                       .rows = weight->rows,
                       .cols = weight->cols,
                       .input = input,
                       .input_rows = m->pass->rows,
                       .y = y};
}

static void run_product(const mono *m, const lap_weight *weight, const lap_input *input, float *y) {
  lap_product one = product(m, weight, input, y);
  lap_run_products(&m->pass->team, &one, 1);
}

static int form_of(const lap_weight *weight) {
  return lap_form_for(weight->bits, weight->quantized.group_size);
}

/* ---- rows ---- */

static void norm_row(void *context, int row) {
  mono *m = context;
  const lap_plan *plan = m->plan;
  size_t at = (size_t)row * (size_t)plan->hidden_size;
  lap_row_norm(plan->hidden_size, plan->rms_norm_eps, m->forms, m->source + at, m->norm, m->normed + at,
               &m->input, row);
}

/* normed = rms_norm(hidden; norm) for all rows, quantized in `forms`. */
static void norm_rows(mono *m, const float *norm, int forms) {
  m->source = m->hidden;
  m->norm = norm;
  m->forms = forms;
  lap_run_rows(&m->pass->team, m->pass->rows, norm_row, m);
}

static void add_norm_row(void *context, int row) {
  mono *m = context;
  int width = m->plan->hidden_size;
  lap_row_add_norm(width, m->plan->rms_norm_eps, lap_row_of(m->output, row, width), m->norm,
                   lap_row_of(m->hidden, row, width));
}

/* hidden = hidden + rms_norm(output; norm) */
static void add_output(mono *m, const float *norm) {
  m->norm = norm;
  lap_run_rows(&m->pass->team, m->pass->rows, add_norm_row, m);
}

static void quantize_row(void *context, int row) {
  mono *m = context;
  lap_input_fill(m->width, m->forms, m->source + (size_t)row * (size_t)m->width, &m->wide_input, row);
}

/* wide_input = x [rows, reader's columns], its forms in `memory`: room for what its reader wants. */
static void place_wide(mono *m, float *x, unsigned char *memory, const lap_weight *reader) {
  m->source = x;
  m->width = reader->cols;
  m->forms = form_of(reader);
  m->wide_input = input_at(m, m->width, m->forms, x, memory);
}

static void quantize_rows(mono *m, float *x, unsigned char *memory, const lap_weight *reader) {
  place_wide(m, x, memory, reader);
  lap_run_rows(&m->pass->team, m->pass->rows, quantize_row, m);
}

/* ---- embedding ---- */

static lap_format format_of(const lap_weight *weight) {
  return weight->bits ? weight->quantized.format : weight->dense.format;
}

static void embedded_input_row(void *context, int row) {
  mono *m = context;
  int width = m->plan->hidden_size;
  lap_input_fill(width, form_of(&m->pass->memory.weights->per_layer_projection),
                 lap_row_of(m->embedded, row, width), &m->embedded_input, row);
}

/* h = embed_tokens[id] * sqrt(hidden); and the row's RoPE tables. */
static void embed_row(void *context, int row) {
  mono *m = context;
  const lap_plan *plan = m->plan;
  const lap_row *token = &m->pass->row[row];
  float *hidden = lap_row_of(m->hidden, row, plan->hidden_size);
  const lap_weight *table = &m->pass->memory.weights->embed;
  lap_row_embed(table->bits, table->quantized.group_size, format_of(table), plan->hidden_size, table, token,
                plan->embed_scale, hidden);
  for (int type = 0; type < 2; type++) {
    int pairs = plan->rope[type].rotated_pairs;
    lap_rope_table(m->pass->memory.rope_frequency[type], pairs, token->position,
                   lap_row_of(m->cosine[type], row, pairs), lap_row_of(m->sine[type], row, pairs));
  }
  if (!plan->per_layer_width) return;
  memcpy(lap_row_of(m->embedded, row, plan->hidden_size), hidden, (size_t)plan->hidden_size * sizeof(float));
  embedded_input_row(m, row);
}

/* ---- attention ---- */

static void query_row(void *context, int row) {
  mono *m = context;
  const lap_layer *layer = m->layer;
  int pairs = m->plan->rope[layer->attention].rotated_pairs;
  lap_row_queries(layer->heads, layer->head_dim, pairs, m->plan->rms_norm_eps,
                  lap_row_of(m->query, row, layer->heads * layer->head_dim), m->weights->vector[LAP_Q_NORM],
                  lap_row_of(m->cosine[layer->attention], row, pairs),
                  lap_row_of(m->sine[layer->attention], row, pairs));
}

static void key_row(void *context, int row) {
  mono *m = context;
  const lap_layer *layer = m->layer;
  const lap_row *token = &m->pass->row[row];
  int pairs = m->plan->rope[layer->attention].rotated_pairs, width = layer->kv_heads * layer->head_dim;
  const lap_pass_cache *kv = lap_pass_kv(m->pass, token->segment, layer->cache);
  lap_row_keys(layer->kv_heads, layer->head_dim, pairs, m->plan->rms_norm_eps, layer->k_eq_v, kv->bits,
               kv->group_size, lap_row_of(m->key, row, width), lap_row_of(m->value, row, width),
               m->weights->vector[LAP_K_NORM], lap_row_of(m->cosine[layer->attention], row, pairs),
               lap_row_of(m->sine[layer->attention], row, pairs), &kv->planes, token->position);
}

static void drop_rows(mono *m) {
  const lap_plan *plan = m->plan;
  const int pairs[2] = {plan->rope[0].rotated_pairs, plan->rope[1].rotated_pairs};
  const lap_kept kept[] = {{m->hidden, plan->hidden_size}, {m->cosine[0], pairs[0]},
                           {m->sine[0], pairs[0]},         {m->cosine[1], pairs[1]},
                           {m->sine[1], pairs[1]},         {m->embedded, plan->hidden_size}};
  lap_drop_unwanted_rows(m->pass, kept, plan->per_layer_width ? 6 : 5);
  place_inputs(m);
  if (plan->per_layer_width) lap_run_rows(&m->pass->team, m->pass->rows, embedded_input_row, m);
}

/* The tasks of attention over the caches that a tile's segment has. */
static lap_attend_shape shape_of(const lap_attend_run *run, int row) {
  lap_attend_shape shape = *run->shape;
  const lap_pass_cache *kv = lap_pass_kv(run->pass, run->pass->row[row].segment, run->cache);
  shape.bits = kv->bits;
  shape.group_size = kv->group_size;
  return shape;
}

/* By the table's code, as products are: bodies take long to compile. */
static void attend_span(int bits, int group_size, const lap_kv_view *kv, const lap_attend_queries *queries,
                        int64_t begin, int64_t end, const lap_attend_state *state, float *scratch) {
  (void)bits;
  (void)group_size;
  LAP_ISA(lap_kernels).attend_span(kv, queries, begin, end, state, scratch);
}

static void attend_tile(void *context, int task, int thread) {
  const lap_attend_run *run = context;
  int tile = (run->spans ? task / run->spans : task) / lap_attend_groups(*run->shape);
  lap_attend_tile_by(attend_span, shape_of(run, run->memory.tiles[tile].first_row), run, task, thread);
}

static void attend_fold_spans(void *context, int task, int thread) {
  const lap_attend_run *run = context;
  (void)thread;
  lap_attend_fold_spans(*run->shape, run, task);
}

static const lap_attend_code attend_code = {LAP_ATTENTION_TILED, attend_tile, attend_fold_spans};

/* y = norm(h); q, k, v; h = h + norm(o_proj(attention)). The product of the per-layer input's
 * projection, which reads the embedding, runs beside the first ones. */
static void attention(mono *m) {
  const lap_layer *layer = m->layer;
  const lap_weight *linear = m->weights->linear;
  const bool stores = !layer->sharer, has_v = stores && !layer->k_eq_v;
  const bool dropping = m->index == m->plan->first_sharer - 1 && lap_has_unwanted_rows(m->pass);
  int forms = form_of(&linear[LAP_Q_PROJ]), count = 0;
  lap_product products[4];

  if (stores) forms |= form_of(&linear[LAP_K_PROJ]);
  if (has_v) forms |= form_of(&linear[LAP_V_PROJ]);
  norm_rows(m, m->weights->vector[LAP_INPUT_NORM], forms);
  if (stores) products[count++] = product(m, &linear[LAP_K_PROJ], &m->input, m->key);
  if (has_v) products[count++] = product(m, &linear[LAP_V_PROJ], &m->input, m->value);
  if (dropping) {
    lap_run_products(&m->pass->team, products, count);
    lap_run_rows(&m->pass->team, m->pass->rows, key_row, m);
    drop_rows(m);
    if (m->pass->rows == 0) return;
    norm_rows(m, m->weights->vector[LAP_INPUT_NORM], form_of(&linear[LAP_Q_PROJ]));
    count = 0;
  }
  products[count++] = product(m, &linear[LAP_Q_PROJ], &m->input, m->query);
  if (m->plan->per_layer_width)
    products[count++] = product(m, &m->weights->pli_rows, &m->embedded_input, m->pli);
  lap_run_products(&m->pass->team, products, count);
  if (stores && !dropping) lap_run_rows(&m->pass->team, m->pass->rows, key_row, m);
  lap_run_rows(&m->pass->team, m->pass->rows, query_row, m);
  lap_run_attention(attend_shape(layer, 0, 0), &attend_code, m->pass, &m->attend, m->query, layer->cache);
  quantize_rows(m, m->query, m->query_memory, &linear[LAP_O_PROJ]);
  run_product(m, &linear[LAP_O_PROJ], &m->wide_input, m->output);
  add_output(m, m->weights->vector[LAP_POST_ATTENTION_NORM]);
}

/* ---- feed-forward ---- */

/* output = down(gelu(gate y) * up y), y = rms_norm(h; pre_feedforward_layernorm) */
static void mlp(mono *m) {
  const lap_weight *gate = &m->weights->linear[LAP_GATE_PROJ], *up = &m->weights->linear[LAP_UP_PROJ];
  const lap_weight *down = &m->weights->linear[LAP_DOWN_PROJ];
  norm_rows(m, m->weights->vector[LAP_PRE_FEEDFORWARD_NORM], form_of(gate) | form_of(up));
  place_wide(m, m->gate, m->gate_memory, down);
  lap_product pair = product(m, gate, &m->input, down->bits ? NULL : m->gate);
  pair.multiply = multiply_pair;
  pair.second = up;
  pair.result = &m->wide_input;
  lap_run_products(&m->pass->team, &pair, 1);
  run_product(m, down, &m->wide_input, m->output);
}

/* output = norm_1(output) + norm_2(experts) */
static void join_row(void *context, int row) {
  mono *m = context;
  const lap_plan *plan = m->plan;
  float *dense = lap_row_of(m->output, row, plan->hidden_size);
  LAP_ISA(lap_rms_norm)
  (dense, m->weights->vector[LAP_POST_FEEDFORWARD_NORM_1], plan->hidden_size, plan->rms_norm_eps, dense);
  lap_row_add_norm(plan->hidden_size, plan->rms_norm_eps, lap_row_of(m->normed, row, plan->hidden_size),
                   m->weights->vector[LAP_POST_FEEDFORWARD_NORM_2], dense);
}

static void norm_router(void *context, int row) {
  lap_experts_run *run = context;
  lap_experts_shape s = experts_shape(run->pass->plan);
  s.router_forms = form_of(&run->weights->linear[LAP_ROUTER]);
  lap_experts_norm_router(s, run, row);
}

static void gather_slot(void *context, int slot) {
  lap_experts_run *run = context;
  lap_experts_shape s = experts_shape(run->pass->plan);
  s.forms = form_of(&run->weights->linear[LAP_EXPERT_GATE]) | form_of(&run->weights->linear[LAP_EXPERT_UP]);
  lap_experts_gather(s, run, slot);
}

static const lap_experts_code experts_code = {norm_router, gather_slot, multiply, multiply_pair, multiply};

static void feed_forward(mono *m) {
  mlp(m);
  if (m->layer->moe) {
    norm_rows(m, m->weights->vector[LAP_PRE_FEEDFORWARD_NORM_2], 0);
    /* The experts' sum takes the place of their input. */
    lap_run_experts(experts_shape_with_forms(m), &experts_code, m->pass, m->index, m->experts, m->hidden,
                    m->normed);
    lap_run_rows(&m->pass->team, m->pass->rows, join_row, m);
  }
  add_output(m, m->weights->vector[LAP_POST_FEEDFORWARD_NORM]);
}

/* ---- per-layer input ---- */

static void per_layer_input_row(void *context, int row) {
  mono *m = context;
  const lap_plan *plan = m->plan;
  const lap_weights *weights = m->pass->memory.weights;
  const lap_weight *of_table = &weights->embed_per_layer;
  int width = plan->per_layer_width;
  float table[LAP_MAX_PER_LAYER_WIDTH];
  lap_table_row(of_table->bits, of_table->quantized.group_size, format_of(of_table), of_table->cols, of_table,
                m->pass->row[row].per_layer_id, m->index * width, width, plan->per_layer_embed_scale, table);
  lap_row_per_layer_input(width, plan->rms_norm_eps, plan->per_layer_projection_scale,
                          weights->per_layer_norm, table, lap_row_of(m->pli, row, width));
}

static void quantize_hidden_row(void *context, int row) {
  mono *m = context;
  int width = m->plan->hidden_size;
  lap_input_fill(width, m->forms, lap_row_of(m->hidden, row, width), &m->input, row);
}

static void gate_row(void *context, int row) {
  mono *m = context;
  int width = m->plan->per_layer_width;
  float *gate = lap_row_of(m->gate, row, width);
  LAP_ISA(lap_geglu)(gate, lap_row_of(m->pli, row, width), width, gate);
}

/* h = h + norm(per_layer_projection(gelu(per_layer_input_gate h) * pli)),
 * pli = (embed_tokens_per_layer[id] * sqrt(width) + rms_norm(projection * hidden^-0.5)) * 2^-0.5 */
static void per_layer_input(mono *m) {
  const lap_weight *gate = &m->weights->linear[LAP_PLI_GATE], *back = &m->weights->linear[LAP_PLI_PROJECTION];
  lap_run_rows(&m->pass->team, m->pass->rows, per_layer_input_row, m);
  lap_pass_show(m->pass, "per_layer_input", m->index, m->pli, m->plan->per_layer_width);
  m->forms = form_of(gate);
  lap_input of_hidden = m->input;
  of_hidden.x = m->hidden;
  lap_run_rows(&m->pass->team, m->pass->rows, quantize_hidden_row, m);
  run_product(m, gate, &of_hidden, m->gate);
  lap_run_rows(&m->pass->team, m->pass->rows, gate_row, m);
  quantize_rows(m, m->gate, m->gate_memory, back);
  run_product(m, back, &m->wide_input, m->output);
  add_output(m, m->weights->vector[LAP_POST_PLI_NORM]);
}

/* ---- a layer, and the pass ---- */

static void scale_row(void *context, int row) {
  mono *m = context;
  lap_row_scale(m->plan->hidden_size, m->weights->vector[LAP_LAYER_SCALAR][0],
                lap_row_of(m->hidden, row, m->plan->hidden_size));
}

static void layer_forward(mono *m, int index) {
  m->index = index;
  m->layer = &m->plan->layer[index];
  m->weights = &m->pass->memory.weights->layer[index];
  attention(m);
  if (m->pass->rows == 0) return;
  feed_forward(m);
  if (m->plan->per_layer_width) per_layer_input(m);
  if (m->layer->has_layer_scalar) lap_run_rows(&m->pass->team, m->pass->rows, scale_row, m);
  lap_pass_show(m->pass, "layer", index, m->hidden, m->plan->hidden_size);
}

static size_t arena_bytes(const lap_pass *pass) {
  lap_pass sized = *pass;
  mono m;
  return place(&m, &sized, NULL);
}

static void forward(lap_pass *pass) {
  mono m;
  place(&m, pass, pass->memory.arena);
  lap_run_rows(&pass->team, pass->rows, embed_row, &m);
  lap_pass_show(pass, "embedding", -1, m.hidden, m.plan->hidden_size);
  for (int i = 0; i < m.plan->layers && pass->rows > 0; i++) layer_forward(&m, i);
  if (pass->rows == 0) return;
  norm_rows(&m, pass->memory.weights->final_norm, form_of(&pass->memory.weights->head));
  lap_pass_show(pass, "final_norm", m.plan->layers, m.normed, m.plan->hidden_size);
  lap_give_hidden(pass, m.normed, m.plan->hidden_size);
  lap_run_head(pass, multiply_head, m.plan->vocab_size, m.plan->hidden_size, &m.input);
}

const lap_forward_code LAP_ISA(lap_monolith) = {arena_bytes, forward};
