/* Generated, do not edit. Made again by
 *     lapidary cut pebble --emit FILE
 *
 * The forward pass of pebble: 12 layers, hidden 256, vocabulary 2048, embedding 8g64.
 * Structure f2b59c0633a6a543.
 *
 * Read `forward` at the end first. A kind of layer is named by what it is: it computes its own
 * keys and values (donor) or reads those of another layer (sharer); its attention (sliding, full);
 * its cache (plain, or g64b4 for 4 bits in groups of 64); v or k_is_v; per-layer input (pli); experts
 * (moe); a layer scalar; export, where sharers read its cache; last, where rows without wanted logits
 * leave.
 *
 *     donor_sliding_g64b8_v_pli_scalar                 layer 0, 4
 *     donor_sliding_g64b4_v_pli_scalar                 layer 1, 3, 6
 *     donor_full_g64b8_v_pli_scalar                    layer 2
 *     donor_full_g64b4_v_pli_scalar_export             layer 5
 *     donor_sliding_g64b8_v_pli_scalar_export_last     layer 7
 *     sharer_full_g64b4_pli_scalar                     layer 8, 11
 *     sharer_sliding_g64b8_pli_scalar                  layer 9-10
 */
#include "pass/head.h"
#include "pass/rows.h"
#include "pass/step.h"
#include "cut_sources.h"

/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */

enum {
  HIDDEN = 256,
  VOCAB = 2048,
  LAYERS = 12,
  PER_LAYER = 64,
  PAIRS_SLIDING = 32,
  PAIRS_FULL = 16,
  NORMED_FORMS = 3,
  EMBEDDED_FORMS = 1,
  ATTENTION_FORMS = 2,
  MLP_FORMS = 3,
  PER_LAYER_FORMS = 1,
};
#define EPS 0x1.0c6f7ap-20f

/* ---- the arena: where activations stand, in bytes times rows. Gate takes the room of queries, keys
 * and values. ---- */

enum {
  AT_HIDDEN = 0,
  AT_EMBEDDED = 1024,
  AT_EMBEDDED_FORMS = 2048,
  AT_COSINE_SLIDING = 2752,
  AT_SINE_SLIDING = 2880,
  AT_COSINE_FULL = 3008,
  AT_SINE_FULL = 3072,
  AT_NORMED = 3136,
  AT_NORMED_FORMS = 4160,
  AT_PLI = 5376,
  AT_OUTPUT = 3136,
  AT_QUERY = 5632,
  AT_KEY = 7680,
  AT_VALUE = 8704,
  AT_QUERY_FORMS = 9728,
  AT_GATE = 5632,
  AT_GATE_FORMS = 5888,
  AT_TILES = 10944,
  ROW_BYTES = 11008,
};

/* ---- products: rows first..last-1 of y = x W^T, W of so many bits in groups, and columns ---- */

static void multiply_8g64_256(const lap_product *p, int first, int last) {
  lap_multiply_rows(8, 64, LAP_FORMAT_BF16, 256, p->weight, p, first, last, p->y);
}

static void multiply_head(const lap_product *p, int first, int last) {
  lap_multiply_head(multiply_8g64_256, 0x1.ep+4f, p, first, last);
}

static void multiply_4g64_256(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 256, p->weight, p, first, last, p->y);
}

static void gate_up_4g64_256(const lap_product *p, int first, int last) {
  lap_multiply_gated(MLP_FORMS, multiply_4g64_256, multiply_4g64_256, p, first, last);
}

static void multiply_8g64_768(const lap_product *p, int first, int last) {
  lap_multiply_rows(8, 64, LAP_FORMAT_BF16, 768, p->weight, p, first, last, p->y);
}

static void per_layer_gate_8g64_256(const lap_product *p, int first, int last) {
  lap_multiply_gated(PER_LAYER_FORMS, multiply_8g64_256, NULL, p, first, last);
}

static void multiply_8g64_64(const lap_product *p, int first, int last) {
  lap_multiply_rows(8, 64, LAP_FORMAT_BF16, 64, p->weight, p, first, last, p->y);
}

static void multiply_4g64_512(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 512, p->weight, p, first, last, p->y);
}

static void multiply_4g64_768(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 768, p->weight, p, first, last, p->y);
}

/* ---- row by row ---- */

static void embed(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  float *h = lap_row_at(s, AT_HIDDEN, HIDDEN, row);
  lap_row_embed(8, 64, LAP_FORMAT_BF16, HIDDEN, &s->pass->memory.weights->embed, token, 0x1p+4f, h);
  lap_rope_table(s->pass->memory.rope_frequency[LAP_SLIDING], PAIRS_SLIDING, token->position,
                 lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
  lap_rope_table(s->pass->memory.rope_frequency[LAP_FULL], PAIRS_FULL, token->position,
                 lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
  memcpy(lap_row_at(s, AT_EMBEDDED, HIDDEN, row), h, HIDDEN * sizeof *h);
}

static void quantize_embedding(void *context, int row) {
  const lap_step *s = context;
  lap_input_fill(HIDDEN, EMBEDDED_FORMS, lap_row_at(s, AT_EMBEDDED, HIDDEN, row), &s->embedded, row);
}

static void norm_next(void *context, int row) {
  const lap_step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), lap_step_next_norm(s, LAYERS),
               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void embed_quantize_embedding_norm_next(void *context, int row) {
  embed(context, row);
  quantize_embedding(context, row);
  norm_next(context, row);
}

static void keys_sliding_g64b8(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(2, 64, PAIRS_SLIDING, EPS, 0, 8, 64, lap_row_at(s, AT_KEY, 128, row), lap_row_at(s, AT_VALUE, 128, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row),
               lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_sliding(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(4, 64, PAIRS_SLIDING, EPS, lap_row_at(s, AT_QUERY, 256, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
}

static void per_layer_input(void *context, int row) {
  const lap_step *s = context;
  const lap_weights *weights = s->pass->memory.weights;
  float table[PER_LAYER];
  lap_table_row(4, 64, LAP_FORMAT_BF16, LAYERS * PER_LAYER, &weights->embed_per_layer, s->pass->row[row].per_layer_id,
                s->layer * PER_LAYER, PER_LAYER, 0x1p+3f, table);
  lap_row_per_layer_input(PER_LAYER, EPS, 0x1p-4f, weights->per_layer_norm, table, lap_row_at(s, AT_PLI, PER_LAYER, row));
}

static void keys_sliding_g64b8_queries_sliding_per_layer_input(void *context, int row) {
  keys_sliding_g64b8(context, row);
  queries_sliding(context, row);
  per_layer_input(context, row);
}

static void add_attention(void *context, int row) {
  const lap_step *s = context;
  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[LAP_POST_ATTENTION_NORM],
                   lap_row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void norm_feed_forward(void *context, int row) {
  const lap_step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), s->w->vector[LAP_PRE_FEEDFORWARD_NORM],
               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void add_attention_norm_feed_forward(void *context, int row) {
  add_attention(context, row);
  norm_feed_forward(context, row);
}

static void add_feed_forward(void *context, int row) {
  const lap_step *s = context;
  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[LAP_POST_FEEDFORWARD_NORM],
                   lap_row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void quantize_stream(void *context, int row) {
  const lap_step *s = context;
  lap_input_fill(HIDDEN, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), &s->normed, row);
}

static void add_feed_forward_quantize_stream(void *context, int row) {
  add_feed_forward(context, row);
  quantize_stream(context, row);
}

static void add_per_layer_input(void *context, int row) {
  const lap_step *s = context;
  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[LAP_POST_PLI_NORM],
                   lap_row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void scale(void *context, int row) {
  const lap_step *s = context;
  lap_row_scale(HIDDEN, s->w->vector[LAP_LAYER_SCALAR][0], lap_row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void add_per_layer_input_scale_norm_next(void *context, int row) {
  add_per_layer_input(context, row);
  scale(context, row);
  norm_next(context, row);
}

static void keys_sliding_g64b4(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(2, 64, PAIRS_SLIDING, EPS, 0, 4, 64, lap_row_at(s, AT_KEY, 128, row), lap_row_at(s, AT_VALUE, 128, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row),
               lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void keys_sliding_g64b4_queries_sliding_per_layer_input(void *context, int row) {
  keys_sliding_g64b4(context, row);
  queries_sliding(context, row);
  per_layer_input(context, row);
}

static void keys_full_g64b8(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(2, 128, PAIRS_FULL, EPS, 0, 8, 64, lap_row_at(s, AT_KEY, 256, row), lap_row_at(s, AT_VALUE, 256, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row),
               lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_full(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(4, 128, PAIRS_FULL, EPS, lap_row_at(s, AT_QUERY, 512, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void keys_full_g64b8_queries_full_per_layer_input(void *context, int row) {
  keys_full_g64b8(context, row);
  queries_full(context, row);
  per_layer_input(context, row);
}

static void keys_full_g64b4(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(2, 128, PAIRS_FULL, EPS, 0, 4, 64, lap_row_at(s, AT_KEY, 256, row), lap_row_at(s, AT_VALUE, 256, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row),
               lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void keys_full_g64b4_queries_full_per_layer_input(void *context, int row) {
  keys_full_g64b4(context, row);
  queries_full(context, row);
  per_layer_input(context, row);
}

static void norm_input(void *context, int row) {
  const lap_step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), s->w->vector[LAP_INPUT_NORM],
               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void quantize_embedding_norm_input(void *context, int row) {
  quantize_embedding(context, row);
  norm_input(context, row);
}

static void queries_sliding_per_layer_input(void *context, int row) {
  queries_sliding(context, row);
  per_layer_input(context, row);
}

static void queries_full_per_layer_input(void *context, int row) {
  queries_full(context, row);
  per_layer_input(context, row);
}

static void place_inputs(lap_step *s) {
  s->normed = lap_input_at(s, HIDDEN, NORMED_FORMS, AT_NORMED, AT_NORMED_FORMS);
  s->embedded = lap_input_at(s, HIDDEN, EMBEDDED_FORMS, AT_EMBEDDED, AT_EMBEDDED_FORMS);
}

static void drop_rows(lap_step *s) {
  const lap_kept kept[] = {{lap_at(s, AT_HIDDEN), HIDDEN},
                           {lap_at(s, AT_COSINE_SLIDING), PAIRS_SLIDING},
                           {lap_at(s, AT_SINE_SLIDING), PAIRS_SLIDING},
                           {lap_at(s, AT_COSINE_FULL), PAIRS_FULL},
                           {lap_at(s, AT_SINE_FULL), PAIRS_FULL},
                           {lap_at(s, AT_EMBEDDED), HIDDEN}};
  lap_drop_unwanted_rows(s->pass, kept, 6);
  place_inputs(s);
}

/* ---- attention ---- */

LAP_INLINE lap_attend_shape sliding_g64b8(void) {
  return (lap_attend_shape){.heads = 4, .kv_heads = 2, .head_dim = 64, .window = 128, .bits = 8, .group_size = 64, .forms = ATTENTION_FORMS};
}

static void tile_sliding_g64b8(void *run, int task, int thread) {
  lap_attend_tile(sliding_g64b8(), run, task, thread);
}

static void fold_sliding_g64b8(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(sliding_g64b8(), run, task);
}

static void attend_sliding_g64b8(const lap_step *s, const lap_input *output) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_sliding_g64b8, fold_sliding_g64b8};
  lap_run_attention(sliding_g64b8(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), output, s->cache);
}

LAP_INLINE lap_attend_shape sliding_g64b4(void) {
  return (lap_attend_shape){.heads = 4, .kv_heads = 2, .head_dim = 64, .window = 128, .bits = 4, .group_size = 64, .forms = ATTENTION_FORMS};
}

static void tile_sliding_g64b4(void *run, int task, int thread) {
  lap_attend_tile(sliding_g64b4(), run, task, thread);
}

static void fold_sliding_g64b4(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(sliding_g64b4(), run, task);
}

static void attend_sliding_g64b4(const lap_step *s, const lap_input *output) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_sliding_g64b4, fold_sliding_g64b4};
  lap_run_attention(sliding_g64b4(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), output, s->cache);
}

LAP_INLINE lap_attend_shape full_g64b8(void) {
  return (lap_attend_shape){.heads = 4, .kv_heads = 2, .head_dim = 128, .window = 0, .bits = 8, .group_size = 64, .forms = ATTENTION_FORMS};
}

static void tile_full_g64b8(void *run, int task, int thread) {
  lap_attend_tile(full_g64b8(), run, task, thread);
}

static void fold_full_g64b8(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(full_g64b8(), run, task);
}

static void attend_full_g64b8(const lap_step *s, const lap_input *output) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_full_g64b8, fold_full_g64b8};
  lap_run_attention(full_g64b8(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), output, s->cache);
}

LAP_INLINE lap_attend_shape full_g64b4(void) {
  return (lap_attend_shape){.heads = 4, .kv_heads = 2, .head_dim = 128, .window = 0, .bits = 4, .group_size = 64, .forms = ATTENTION_FORMS};
}

static void tile_full_g64b4(void *run, int task, int thread) {
  lap_attend_tile(full_g64b4(), run, task, thread);
}

static void fold_full_g64b4(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(full_g64b4(), run, task);
}

static void attend_full_g64b4(const lap_step *s, const lap_input *output) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_full_g64b4, fold_full_g64b4};
  lap_run_attention(full_g64b4(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), output, s->cache);
}

/* Products that differ between layers of one kind, by the bits of their weights. */
typedef struct formats {
  lap_multiply *down;
} formats;

/* ---- kinds of layer ---- */

/* Layer 0, 4. */
static void donor_sliding_g64b8_v_pli_scalar(lap_step *s, int layer, int cache, const formats *f) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 128, 256, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 128, 256, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 256, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_sliding_g64b8_queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 256, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_256, LAP_O_PROJ, 256, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, f->down, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 1, 3, 6. */
static void donor_sliding_g64b4_v_pli_scalar(lap_step *s, int layer, int cache, const formats *f) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 128, 256, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 128, 256, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 256, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_sliding_g64b4_queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 256, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_256, LAP_O_PROJ, 256, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, f->down, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 2. */
static void donor_full_g64b8_v_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 256, 256, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 256, 256, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 512, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_full_g64b8_queries_full_per_layer_input, s);
  wide = lap_input_at(s, 512, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_512, LAP_O_PROJ, 256, 512, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_768, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 5. */
static void donor_full_g64b4_v_pli_scalar_export(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 256, 256, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 256, 256, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 512, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_full_g64b4_queries_full_per_layer_input, s);
  wide = lap_input_at(s, 512, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_512, LAP_O_PROJ, 256, 512, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_768, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 7. */
static void donor_sliding_g64b8_v_pli_scalar_export_last(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  if (lap_has_unwanted_rows(p)) {
    /* All later layers read what is stored now: rows that nobody wants logits of end here. */
    /* k, v, q = W norm(h) */
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 128, 256, &s->normed, AT_KEY),
        lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 128, 256, &s->normed, AT_VALUE),
    }, 2);
    lap_run_rows(&p->team, p->rows, keys_sliding_g64b8, s);
    drop_rows(s);
    if (p->rows == 0) return;
    lap_run_rows(&p->team, p->rows, quantize_embedding_norm_input, s);
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 256, 256, &s->normed, AT_QUERY),
        lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
    }, 2);
    lap_run_rows(&p->team, p->rows, queries_sliding_per_layer_input, s);
  } else {
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_256, LAP_K_PROJ, 128, 256, &s->normed, AT_KEY),
        lap_step_linear(s, multiply_8g64_256, LAP_V_PROJ, 128, 256, &s->normed, AT_VALUE),
        lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 256, 256, &s->normed, AT_QUERY),
        lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
    }, 4);
    /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
    lap_run_rows(&p->team, p->rows, keys_sliding_g64b8_queries_sliding_per_layer_input, s);
  }
  wide = lap_input_at(s, 256, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_256, LAP_O_PROJ, 256, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_768, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 8, 11. */
static void sharer_full_g64b4_pli_scalar(lap_step *s, int layer, int cache, const formats *f) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 512, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 2);
  /* q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, queries_full_per_layer_input, s);
  wide = lap_input_at(s, 512, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_512, LAP_O_PROJ, 256, 512, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, f->down, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 9-10. */
static void sharer_sliding_g64b8_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_256, LAP_Q_PROJ, 256, 256, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_8g64_256, &s->w->pli_rows, 64, 256, &s->embedded, AT_PLI),
  }, 2);
  /* q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 256, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_256, LAP_O_PROJ, 256, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 768, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_256, 768, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_768, LAP_DOWN_PROJ, 256, 768, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_8g64_256, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_8g64_64, LAP_PLI_PROJECTION, 256, 64, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* ---- the pass ---- */

/* Points everything into the arena, or, without one, adds up its bytes. */
static size_t place(lap_step *s, lap_pass *pass) {
  const lap_attend_shape shapes[] = {
      sliding_g64b8(),
      full_g64b8(),
  };
  size_t used = (size_t)pass->capacity * ROW_BYTES;
  unsigned char *arena = pass->memory.arena;
  *s = (lap_step){.pass = pass, .layer = -1};
  used += lap_attend_place_memory(shapes, (int)(sizeof shapes / sizeof *shapes), pass, arena ? arena + used : NULL,
                                  &s->attention);
  if (!arena) return used;
  s->attention.tiles = (lap_tile *)(void *)lap_bytes_at(s, AT_TILES);
  place_inputs(s);
  return used;
}

static size_t arena_bytes(const lap_pass *pass) {
  lap_pass sized = *pass;
  lap_step s;
  sized.memory.arena = NULL;
  return place(&s, &sized);
}

static void forward(lap_pass *p) {
  lap_step s;
  place(&s, p);
  lap_run_rows(&p->team, p->rows, embed_quantize_embedding_norm_next, &s);
  lap_pass_show(p, "embedding", -1, lap_at(&s, AT_HIDDEN), HIDDEN);
  donor_sliding_g64b8_v_pli_scalar(&s, 0, 0, &(const formats){.down = multiply_8g64_768});
  donor_sliding_g64b4_v_pli_scalar(&s, 1, 1, &(const formats){.down = multiply_8g64_768});
  donor_full_g64b8_v_pli_scalar(&s, 2, 2);
  donor_sliding_g64b4_v_pli_scalar(&s, 3, 3, &(const formats){.down = multiply_4g64_768});
  donor_sliding_g64b8_v_pli_scalar(&s, 4, 4, &(const formats){.down = multiply_4g64_768});
  donor_full_g64b4_v_pli_scalar_export(&s, 5, 5);
  donor_sliding_g64b4_v_pli_scalar(&s, 6, 6, &(const formats){.down = multiply_4g64_768});
  donor_sliding_g64b8_v_pli_scalar_export_last(&s, 7, 7);
  if (p->rows == 0) return;
  sharer_full_g64b4_pli_scalar(&s, 8, 5, &(const formats){.down = multiply_4g64_768});
  sharer_sliding_g64b8_pli_scalar(&s, 9, 7);
  sharer_sliding_g64b8_pli_scalar(&s, 10, 7);
  sharer_full_g64b4_pli_scalar(&s, 11, 5, &(const formats){.down = multiply_8g64_768});
  lap_pass_show(p, "final_norm", 12, lap_at(&s, AT_NORMED), HIDDEN);
  lap_give_hidden(p, lap_at(&s, AT_NORMED), HIDDEN);
  lap_run_head(p, multiply_head, VOCAB, HIDDEN, &s.normed);
}

static const lap_cut_cache caches[] = {
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 8, .group_size = 64},
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 4, .group_size = 64},
    {.kv_heads = 2, .head_dim = 128, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 4, .group_size = 64},
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 8, .group_size = 64},
    {.kv_heads = 2, .head_dim = 128, .window = 0, .bits = 4, .group_size = 64},
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 4, .group_size = 64},
    {.kv_heads = 2, .head_dim = 64, .window = 128, .bits = 8, .group_size = 64},
};

extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_f2b59c0633a6a543);
const lap_cut LAP_ISA(lap_cut_f2b59c0633a6a543) = {
    .sources = LAP_CUT_SOURCES,
    .structure = "f2b59c0633a6a543",
    .isa = LAP_ISA_NAME,
    .caches = 8,
    .cache = caches,
    .code = {arena_bytes, forward},
};
