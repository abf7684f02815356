/* Generated, do not edit. Made again by
 *     lapidary cut e2b --emit FILE
 *
 * The forward pass of e2b: 35 layers, hidden 1536, vocabulary 262144, embedding 4g64.
 * Structure c4188b4d8e165de1.
 *
 * Read `forward` at the end first. A kind of layer is named by what it is: it computes its own
 * keys and values (donor) or reads those of another layer (sharer); its attention (sliding, full);
 * its cache (plain, or g64b4 for 4 bits in groups of 64); v or k_is_v; per-layer input (pli); experts
 * (moe); a layer scalar; export, where sharers read its cache; last, where rows without wanted logits
 * leave.
 *
 *     donor_sliding_g64b4_v_pli_scalar                 layer 0-3, 5-8, 10-12
 *     donor_full_g64b8_v_pli_scalar                    layer 4, 9
 *     donor_sliding_g64b4_v_pli_scalar_export          layer 13
 *     donor_full_g64b8_v_pli_scalar_export_last        layer 14
 *     sharer_sliding_g64b4_wide_pli_scalar             layer 15-18, 20-23, 25-28, 30-33
 *     sharer_full_g64b8_wide_pli_scalar                layer 19, 24, 29, 34
 */
#include "pass/head.h"
#include "pass/rows.h"
#include "pass/step.h"
#include "cut_sources.h"

/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */

enum {
  HIDDEN = 1536,
  VOCAB = 262144,
  LAYERS = 35,
  PER_LAYER = 256,
  PAIRS_SLIDING = 128,
  PAIRS_FULL = 64,
  NORMED_FORMS = 2,
  EMBEDDED_FORMS = 2,
  ATTENTION_FORMS = 2,
  MLP_FORMS = 2,
  PER_LAYER_FORMS = 2,
};
#define EPS 0x1.0c6f7ap-20f

/* ---- the arena: where activations stand, in bytes times rows. Gate takes the room of queries, keys
 * and values. ---- */

enum {
  AT_HIDDEN = 0,
  AT_EMBEDDED = 6144,
  AT_EMBEDDED_FORMS = 12288,
  AT_COSINE_SLIDING = 15744,
  AT_SINE_SLIDING = 16256,
  AT_COSINE_FULL = 16768,
  AT_SINE_FULL = 17024,
  AT_NORMED = 17280,
  AT_NORMED_FORMS = 23424,
  AT_PLI = 26880,
  AT_OUTPUT = 17280,
  AT_QUERY = 27904,
  AT_KEY = 44288,
  AT_VALUE = 46336,
  AT_QUERY_FORMS = 48384,
  AT_GATE = 27904,
  AT_GATE_FORMS = 28928,
  AT_TILES = 57344,
  ROW_BYTES = 57408,
};

/* ---- products: rows first..last-1 of y = x W^T, W of so many bits in groups, and columns ---- */

static void multiply_4g64_1536(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 1536, p->weight, p, first, last, p->y);
}

static void multiply_head(const lap_product *p, int first, int last) {
  lap_multiply_head(multiply_4g64_1536, 0x1.ep+4f, p, first, last);
}

static void multiply_4g64_2048(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 2048, p->weight, p, first, last, p->y);
}

static void gate_up_4g64_1536(const lap_product *p, int first, int last) {
  lap_multiply_gated(MLP_FORMS, multiply_4g64_1536, multiply_4g64_1536, p, first, last);
}

static void multiply_4g64_6144(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 6144, p->weight, p, first, last, p->y);
}

static void per_layer_gate_4g64_1536(const lap_product *p, int first, int last) {
  lap_multiply_gated(PER_LAYER_FORMS, multiply_4g64_1536, NULL, p, first, last);
}

static void multiply_4g64_256(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 256, p->weight, p, first, last, p->y);
}

static void multiply_4g64_4096(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 4096, p->weight, p, first, last, p->y);
}

static void multiply_4g64_12288(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 12288, p->weight, p, first, last, p->y);
}

/* ---- row by row ---- */

static void embed(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  float *h = lap_row_at(s, AT_HIDDEN, HIDDEN, row);
  lap_row_embed(4, 64, LAP_FORMAT_BF16, HIDDEN, &s->pass->memory.weights->embed, token, 0x1.3988e2p+5f, h);
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

static void keys_sliding_g64b4(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(1, 256, PAIRS_SLIDING, EPS, 0, 4, 64, lap_row_at(s, AT_KEY, 256, row), lap_row_at(s, AT_VALUE, 256, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row),
               lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_sliding(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(8, 256, PAIRS_SLIDING, EPS, lap_row_at(s, AT_QUERY, 2048, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
}

static void per_layer_input(void *context, int row) {
  const lap_step *s = context;
  const lap_weights *weights = s->pass->memory.weights;
  float table[PER_LAYER];
  lap_table_row(4, 64, LAP_FORMAT_BF16, LAYERS * PER_LAYER, &weights->embed_per_layer, s->pass->row[row].per_layer_id,
                s->layer * PER_LAYER, PER_LAYER, 0x1p+4f, table);
  lap_row_per_layer_input(PER_LAYER, EPS, 0x1.a20bd8p-6f, weights->per_layer_norm, table, lap_row_at(s, AT_PLI, PER_LAYER, row));
}

static void keys_sliding_g64b4_queries_sliding_per_layer_input(void *context, int row) {
  keys_sliding_g64b4(context, row);
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

static void keys_full_g64b8(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(1, 512, PAIRS_FULL, EPS, 0, 8, 64, lap_row_at(s, AT_KEY, 512, row), lap_row_at(s, AT_VALUE, 512, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row),
               lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_full(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(8, 512, PAIRS_FULL, EPS, lap_row_at(s, AT_QUERY, 4096, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void keys_full_g64b8_queries_full_per_layer_input(void *context, int row) {
  keys_full_g64b8(context, row);
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

static void queries_full_per_layer_input(void *context, int row) {
  queries_full(context, row);
  per_layer_input(context, row);
}

static void queries_sliding_per_layer_input(void *context, int row) {
  queries_sliding(context, row);
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

LAP_INLINE lap_attend_shape sliding_g64b4(void) {
  return (lap_attend_shape){.heads = 8, .kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64, .forms = ATTENTION_FORMS};
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
  return (lap_attend_shape){.heads = 8, .kv_heads = 1, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64, .forms = ATTENTION_FORMS};
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

/* ---- kinds of layer ---- */

/* Layer 0-3, 5-8, 10-12. */
static void donor_sliding_g64b4_v_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_1536, LAP_K_PROJ, 256, 1536, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_4g64_1536, LAP_V_PROJ, 256, 1536, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 2048, 1536, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_sliding_g64b4_queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 2048, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_2048, LAP_O_PROJ, 1536, 2048, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 6144, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 6144, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_6144, LAP_DOWN_PROJ, 1536, 6144, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 4, 9. */
static void donor_full_g64b8_v_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_1536, LAP_K_PROJ, 512, 1536, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_4g64_1536, LAP_V_PROJ, 512, 1536, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 4096, 1536, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_full_g64b8_queries_full_per_layer_input, s);
  wide = lap_input_at(s, 4096, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_4096, LAP_O_PROJ, 1536, 4096, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 6144, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 6144, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_6144, LAP_DOWN_PROJ, 1536, 6144, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 13. */
static void donor_sliding_g64b4_v_pli_scalar_export(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_1536, LAP_K_PROJ, 256, 1536, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_4g64_1536, LAP_V_PROJ, 256, 1536, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 2048, 1536, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
  }, 4);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_sliding_g64b4_queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 2048, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_2048, LAP_O_PROJ, 1536, 2048, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 6144, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 6144, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_6144, LAP_DOWN_PROJ, 1536, 6144, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 14. */
static void donor_full_g64b8_v_pli_scalar_export_last(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  if (lap_has_unwanted_rows(p)) {
    /* All later layers read what is stored now: rows that nobody wants logits of end here. */
    /* k, v, q = W norm(h) */
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_1536, LAP_K_PROJ, 512, 1536, &s->normed, AT_KEY),
        lap_step_linear(s, multiply_4g64_1536, LAP_V_PROJ, 512, 1536, &s->normed, AT_VALUE),
    }, 2);
    lap_run_rows(&p->team, p->rows, keys_full_g64b8, s);
    drop_rows(s);
    if (p->rows == 0) return;
    lap_run_rows(&p->team, p->rows, quantize_embedding_norm_input, s);
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 4096, 1536, &s->normed, AT_QUERY),
        lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
    }, 2);
    lap_run_rows(&p->team, p->rows, queries_full_per_layer_input, s);
  } else {
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_1536, LAP_K_PROJ, 512, 1536, &s->normed, AT_KEY),
        lap_step_linear(s, multiply_4g64_1536, LAP_V_PROJ, 512, 1536, &s->normed, AT_VALUE),
        lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 4096, 1536, &s->normed, AT_QUERY),
        lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
    }, 4);
    /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
    lap_run_rows(&p->team, p->rows, keys_full_g64b8_queries_full_per_layer_input, s);
  }
  wide = lap_input_at(s, 4096, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_4096, LAP_O_PROJ, 1536, 4096, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 6144, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 6144, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_6144, LAP_DOWN_PROJ, 1536, 6144, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 15-18, 20-23, 25-28, 30-33. */
static void sharer_sliding_g64b4_wide_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 2048, 1536, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
  }, 2);
  /* q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, queries_sliding_per_layer_input, s);
  wide = lap_input_at(s, 2048, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_2048, LAP_O_PROJ, 1536, 2048, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 12288, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 12288, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_12288, LAP_DOWN_PROJ, 1536, 12288, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 19, 24, 29, 34. */
static void sharer_full_g64b8_wide_pli_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_1536, LAP_Q_PROJ, 4096, 1536, &s->normed, AT_QUERY),
      lap_step_product(s, multiply_4g64_1536, &s->w->pli_rows, 256, 1536, &s->embedded, AT_PLI),
  }, 2);
  /* q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, queries_full_per_layer_input, s);
  wide = lap_input_at(s, 4096, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_4096, LAP_O_PROJ, 1536, 4096, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 12288, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_1536, 12288, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_12288, LAP_DOWN_PROJ, 1536, 12288, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_quantize_stream, s);
  /* h = scalar * (h + norm(W_back (gelu(W_gate h) * pli))) */
  lap_input hidden = s->normed;
  hidden.x = lap_at(s, AT_HIDDEN);
  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_per_layer(s, per_layer_gate_4g64_1536, PER_LAYER, HIDDEN, &hidden, AT_PLI, &wide, 0);
  lap_pass_show(p, "per_layer_input", layer, lap_at(s, AT_PLI), PER_LAYER);
  lap_step_run(s, multiply_4g64_256, LAP_PLI_PROJECTION, 1536, 256, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_per_layer_input_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* ---- the pass ---- */

/* Points everything into the arena, or, without one, adds up its bytes. */
static size_t place(lap_step *s, lap_pass *pass) {
  const lap_attend_shape shapes[] = {
      sliding_g64b4(),
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
  donor_sliding_g64b4_v_pli_scalar(&s, 0, 0);
  donor_sliding_g64b4_v_pli_scalar(&s, 1, 1);
  donor_sliding_g64b4_v_pli_scalar(&s, 2, 2);
  donor_sliding_g64b4_v_pli_scalar(&s, 3, 3);
  donor_full_g64b8_v_pli_scalar(&s, 4, 4);
  donor_sliding_g64b4_v_pli_scalar(&s, 5, 5);
  donor_sliding_g64b4_v_pli_scalar(&s, 6, 6);
  donor_sliding_g64b4_v_pli_scalar(&s, 7, 7);
  donor_sliding_g64b4_v_pli_scalar(&s, 8, 8);
  donor_full_g64b8_v_pli_scalar(&s, 9, 9);
  donor_sliding_g64b4_v_pli_scalar(&s, 10, 10);
  donor_sliding_g64b4_v_pli_scalar(&s, 11, 11);
  donor_sliding_g64b4_v_pli_scalar(&s, 12, 12);
  donor_sliding_g64b4_v_pli_scalar_export(&s, 13, 13);
  donor_full_g64b8_v_pli_scalar_export_last(&s, 14, 14);
  if (p->rows == 0) return;
  sharer_sliding_g64b4_wide_pli_scalar(&s, 15, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 16, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 17, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 18, 13);
  sharer_full_g64b8_wide_pli_scalar(&s, 19, 14);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 20, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 21, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 22, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 23, 13);
  sharer_full_g64b8_wide_pli_scalar(&s, 24, 14);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 25, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 26, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 27, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 28, 13);
  sharer_full_g64b8_wide_pli_scalar(&s, 29, 14);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 30, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 31, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 32, 13);
  sharer_sliding_g64b4_wide_pli_scalar(&s, 33, 13);
  sharer_full_g64b8_wide_pli_scalar(&s, 34, 14);
  lap_pass_show(p, "final_norm", 35, lap_at(&s, AT_NORMED), HIDDEN);
  lap_give_hidden(p, lap_at(&s, AT_NORMED), HIDDEN);
  lap_run_head(p, multiply_head, VOCAB, HIDDEN, &s.normed);
}

static const lap_cut_cache caches[] = {
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 256, .window = 512, .bits = 4, .group_size = 64},
    {.kv_heads = 1, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
};

extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_c4188b4d8e165de1);
const lap_cut LAP_ISA(lap_cut_c4188b4d8e165de1) = {
    .sources = LAP_CUT_SOURCES,
    .structure = "c4188b4d8e165de1",
    .isa = LAP_ISA_NAME,
    .caches = 15,
    .cache = caches,
    .code = {arena_bytes, forward},
};
