/* Generated, do not edit. Made again by
 *     lapidary cut 31b --emit FILE
 *
 * The forward pass of 31b: 60 layers, hidden 5376, vocabulary 262144, embedding 4g64.
 * Structure f19aa26c7c3bb9af.
 *
 * Read `forward` at the end first. A kind of layer is named by what it is: it computes its own
 * keys and values (donor) or reads those of another layer (sharer); its attention (sliding, full);
 * its cache (plain, or g64b4 for 4 bits in groups of 64); v or k_is_v; per-layer input (pli); experts
 * (moe); a layer scalar; export, where sharers read its cache; last, where rows without wanted logits
 * leave.
 *
 *     donor_sliding_g64b4_v_scalar                     layer 0-4, 6-10, 12-16, 18-22, 24-28, 30-34, 36-40, 42-46, 48-52, 54-58
 *     donor_full_g64b8_k_is_v_scalar                   layer 5, 11, 17, 23, 29, 35, 41, 47, 53
 *     donor_full_g64b8_k_is_v_scalar_last              layer 59
 */
#include "pass/head.h"
#include "pass/rows.h"
#include "pass/step.h"
#include "cut_sources.h"

/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */

enum {
  HIDDEN = 5376,
  VOCAB = 262144,
  LAYERS = 60,
  PAIRS_SLIDING = 128,
  PAIRS_FULL = 64,
  NORMED_FORMS = 2,
  ATTENTION_FORMS = 2,
  MLP_FORMS = 2,
};
#define EPS 0x1.0c6f7ap-20f

/* ---- the arena: where activations stand, in bytes times rows. Gate takes the room of queries, keys
 * and values. ---- */

enum {
  AT_HIDDEN = 0,
  AT_COSINE_SLIDING = 21504,
  AT_SINE_SLIDING = 22016,
  AT_COSINE_FULL = 22528,
  AT_SINE_FULL = 22784,
  AT_NORMED = 23040,
  AT_NORMED_FORMS = 44544,
  AT_OUTPUT = 23040,
  AT_QUERY = 56448,
  AT_KEY = 121984,
  AT_VALUE = 138368,
  AT_QUERY_FORMS = 154752,
  AT_GATE = 56448,
  AT_GATE_FORMS = 56448,
  AT_TILES = 190592,
  ROW_BYTES = 190656,
};

/* ---- products: rows first..last-1 of y = x W^T, W of so many bits in groups, and columns ---- */

static void multiply_4g64_5376(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 5376, p->weight, p, first, last, p->y);
}

static void multiply_head(const lap_product *p, int first, int last) {
  lap_multiply_head(multiply_4g64_5376, 0x1.ep+4f, p, first, last);
}

static void multiply_4g64_8192(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 8192, p->weight, p, first, last, p->y);
}

static void gate_up_4g64_5376(const lap_product *p, int first, int last) {
  lap_multiply_gated(MLP_FORMS, multiply_4g64_5376, multiply_4g64_5376, p, first, last);
}

static void multiply_4g64_21504(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 21504, p->weight, p, first, last, p->y);
}

static void multiply_4g64_16384(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 16384, p->weight, p, first, last, p->y);
}

/* ---- row by row ---- */

static void embed(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  float *h = lap_row_at(s, AT_HIDDEN, HIDDEN, row);
  lap_row_embed(4, 64, LAP_FORMAT_BF16, HIDDEN, &s->pass->memory.weights->embed, token, 0x1.2548ecp+6f, h);
  lap_rope_table(s->pass->memory.rope_frequency[LAP_SLIDING], PAIRS_SLIDING, token->position,
                 lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
  lap_rope_table(s->pass->memory.rope_frequency[LAP_FULL], PAIRS_FULL, token->position,
                 lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void norm_next(void *context, int row) {
  const lap_step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), lap_step_next_norm(s, LAYERS),
               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void embed_norm_next(void *context, int row) {
  embed(context, row);
  norm_next(context, row);
}

static void keys_sliding_g64b4(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(16, 256, PAIRS_SLIDING, EPS, 0, 4, 64, lap_row_at(s, AT_KEY, 4096, row), lap_row_at(s, AT_VALUE, 4096, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row),
               lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_sliding(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(32, 256, PAIRS_SLIDING, EPS, lap_row_at(s, AT_QUERY, 8192, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), lap_row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
}

static void keys_sliding_g64b4_queries_sliding(void *context, int row) {
  keys_sliding_g64b4(context, row);
  queries_sliding(context, row);
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

static void scale(void *context, int row) {
  const lap_step *s = context;
  lap_row_scale(HIDDEN, s->w->vector[LAP_LAYER_SCALAR][0], lap_row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void add_feed_forward_scale_norm_next(void *context, int row) {
  add_feed_forward(context, row);
  scale(context, row);
  norm_next(context, row);
}

static void keys_full_g64b8_k_is_v(void *context, int row) {
  const lap_step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(4, 512, PAIRS_FULL, EPS, 1, 8, 64, lap_row_at(s, AT_KEY, 2048, row), lap_row_at(s, AT_VALUE, 2048, row),
               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row),
               lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row), &lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_full(void *context, int row) {
  const lap_step *s = context;
  lap_row_queries(32, 512, PAIRS_FULL, EPS, lap_row_at(s, AT_QUERY, 16384, row), s->w->vector[LAP_Q_NORM],
                  lap_row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), lap_row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void keys_full_g64b8_k_is_v_queries_full(void *context, int row) {
  keys_full_g64b8_k_is_v(context, row);
  queries_full(context, row);
}

static void norm_input(void *context, int row) {
  const lap_step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), s->w->vector[LAP_INPUT_NORM],
               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void place_inputs(lap_step *s) {
  s->normed = lap_input_at(s, HIDDEN, NORMED_FORMS, AT_NORMED, AT_NORMED_FORMS);
}

static void drop_rows(lap_step *s) {
  const lap_kept kept[] = {{lap_at(s, AT_HIDDEN), HIDDEN},
                           {lap_at(s, AT_COSINE_SLIDING), PAIRS_SLIDING},
                           {lap_at(s, AT_SINE_SLIDING), PAIRS_SLIDING},
                           {lap_at(s, AT_COSINE_FULL), PAIRS_FULL},
                           {lap_at(s, AT_SINE_FULL), PAIRS_FULL}};
  lap_drop_unwanted_rows(s->pass, kept, 5);
  place_inputs(s);
}

/* ---- attention ---- */

LAP_INLINE lap_attend_shape sliding_g64b4(void) {
  return (lap_attend_shape){.heads = 32, .kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64, .forms = ATTENTION_FORMS};
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
  return (lap_attend_shape){.heads = 32, .kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64, .forms = ATTENTION_FORMS};
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

/* Layer 0-4, 6-10, 12-16, 18-22, 24-28, 30-34, 36-40, 42-46, 48-52, 54-58. */
static void donor_sliding_g64b4_v_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_5376, LAP_K_PROJ, 4096, 5376, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_4g64_5376, LAP_V_PROJ, 4096, 5376, &s->normed, AT_VALUE),
      lap_step_linear(s, multiply_4g64_5376, LAP_Q_PROJ, 8192, 5376, &s->normed, AT_QUERY),
  }, 3);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_sliding_g64b4_queries_sliding, s);
  wide = lap_input_at(s, 8192, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_sliding_g64b4(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_8192, LAP_O_PROJ, 5376, 8192, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 21504, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 5, 11, 17, 23, 29, 35, 41, 47, 53. */
static void donor_full_g64b8_k_is_v_scalar(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  /* k (v is the same), q = W norm(h) */
  lap_run_products(&p->team, (const lap_product[]){
      lap_step_linear(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
      lap_step_linear(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
  }, 2);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(&p->team, p->rows, keys_full_g64b8_k_is_v_queries_full, s);
  wide = lap_input_at(s, 16384, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_16384, LAP_O_PROJ, 5376, 16384, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 21504, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_scale_norm_next, s);
  lap_pass_show(p, "layer", layer, lap_at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 59. */
static void donor_full_g64b8_k_is_v_scalar_last(lap_step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  lap_step_begin(s, layer, cache);
  if (lap_has_unwanted_rows(p)) {
    /* All later layers read what is stored now: rows that nobody wants logits of end here. */
    /* k (v is the same), q = W norm(h) */
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
    }, 1);
    lap_run_rows(&p->team, p->rows, keys_full_g64b8_k_is_v, s);
    drop_rows(s);
    if (p->rows == 0) return;
    lap_run_rows(&p->team, p->rows, norm_input, s);
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
    }, 1);
    lap_run_rows(&p->team, p->rows, queries_full, s);
  } else {
    lap_run_products(&p->team, (const lap_product[]){
        lap_step_linear(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
        lap_step_linear(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
    }, 2);
    /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
    lap_run_rows(&p->team, p->rows, keys_full_g64b8_k_is_v_queries_full, s);
  }
  wide = lap_input_at(s, 16384, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);
  attend_full_g64b8(s, &wide);
  /* h = h + norm(W attention) */
  lap_step_run(s, multiply_4g64_16384, LAP_O_PROJ, 5376, 16384, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_attention_norm_feed_forward, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  wide = lap_input_at(s, 21504, MLP_FORMS, AT_GATE, AT_GATE_FORMS);
  lap_step_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN, &wide, 0);
  lap_step_run(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(&p->team, p->rows, add_feed_forward_scale_norm_next, s);
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
  lap_run_rows(&p->team, p->rows, embed_norm_next, &s);
  lap_pass_show(p, "embedding", -1, lap_at(&s, AT_HIDDEN), HIDDEN);
  donor_sliding_g64b4_v_scalar(&s, 0, 0);
  donor_sliding_g64b4_v_scalar(&s, 1, 1);
  donor_sliding_g64b4_v_scalar(&s, 2, 2);
  donor_sliding_g64b4_v_scalar(&s, 3, 3);
  donor_sliding_g64b4_v_scalar(&s, 4, 4);
  donor_full_g64b8_k_is_v_scalar(&s, 5, 5);
  donor_sliding_g64b4_v_scalar(&s, 6, 6);
  donor_sliding_g64b4_v_scalar(&s, 7, 7);
  donor_sliding_g64b4_v_scalar(&s, 8, 8);
  donor_sliding_g64b4_v_scalar(&s, 9, 9);
  donor_sliding_g64b4_v_scalar(&s, 10, 10);
  donor_full_g64b8_k_is_v_scalar(&s, 11, 11);
  donor_sliding_g64b4_v_scalar(&s, 12, 12);
  donor_sliding_g64b4_v_scalar(&s, 13, 13);
  donor_sliding_g64b4_v_scalar(&s, 14, 14);
  donor_sliding_g64b4_v_scalar(&s, 15, 15);
  donor_sliding_g64b4_v_scalar(&s, 16, 16);
  donor_full_g64b8_k_is_v_scalar(&s, 17, 17);
  donor_sliding_g64b4_v_scalar(&s, 18, 18);
  donor_sliding_g64b4_v_scalar(&s, 19, 19);
  donor_sliding_g64b4_v_scalar(&s, 20, 20);
  donor_sliding_g64b4_v_scalar(&s, 21, 21);
  donor_sliding_g64b4_v_scalar(&s, 22, 22);
  donor_full_g64b8_k_is_v_scalar(&s, 23, 23);
  donor_sliding_g64b4_v_scalar(&s, 24, 24);
  donor_sliding_g64b4_v_scalar(&s, 25, 25);
  donor_sliding_g64b4_v_scalar(&s, 26, 26);
  donor_sliding_g64b4_v_scalar(&s, 27, 27);
  donor_sliding_g64b4_v_scalar(&s, 28, 28);
  donor_full_g64b8_k_is_v_scalar(&s, 29, 29);
  donor_sliding_g64b4_v_scalar(&s, 30, 30);
  donor_sliding_g64b4_v_scalar(&s, 31, 31);
  donor_sliding_g64b4_v_scalar(&s, 32, 32);
  donor_sliding_g64b4_v_scalar(&s, 33, 33);
  donor_sliding_g64b4_v_scalar(&s, 34, 34);
  donor_full_g64b8_k_is_v_scalar(&s, 35, 35);
  donor_sliding_g64b4_v_scalar(&s, 36, 36);
  donor_sliding_g64b4_v_scalar(&s, 37, 37);
  donor_sliding_g64b4_v_scalar(&s, 38, 38);
  donor_sliding_g64b4_v_scalar(&s, 39, 39);
  donor_sliding_g64b4_v_scalar(&s, 40, 40);
  donor_full_g64b8_k_is_v_scalar(&s, 41, 41);
  donor_sliding_g64b4_v_scalar(&s, 42, 42);
  donor_sliding_g64b4_v_scalar(&s, 43, 43);
  donor_sliding_g64b4_v_scalar(&s, 44, 44);
  donor_sliding_g64b4_v_scalar(&s, 45, 45);
  donor_sliding_g64b4_v_scalar(&s, 46, 46);
  donor_full_g64b8_k_is_v_scalar(&s, 47, 47);
  donor_sliding_g64b4_v_scalar(&s, 48, 48);
  donor_sliding_g64b4_v_scalar(&s, 49, 49);
  donor_sliding_g64b4_v_scalar(&s, 50, 50);
  donor_sliding_g64b4_v_scalar(&s, 51, 51);
  donor_sliding_g64b4_v_scalar(&s, 52, 52);
  donor_full_g64b8_k_is_v_scalar(&s, 53, 53);
  donor_sliding_g64b4_v_scalar(&s, 54, 54);
  donor_sliding_g64b4_v_scalar(&s, 55, 55);
  donor_sliding_g64b4_v_scalar(&s, 56, 56);
  donor_sliding_g64b4_v_scalar(&s, 57, 57);
  donor_sliding_g64b4_v_scalar(&s, 58, 58);
  donor_full_g64b8_k_is_v_scalar_last(&s, 59, 59);
  if (p->rows == 0) return;
  lap_pass_show(p, "final_norm", 60, lap_at(&s, AT_NORMED), HIDDEN);
  lap_give_hidden(p, lap_at(&s, AT_NORMED), HIDDEN);
  lap_run_head(p, multiply_head, VOCAB, HIDDEN, &s.normed);
}

static const lap_cut_cache caches[] = {
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64},
    {.kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64},
};

extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_f19aa26c7c3bb9af);
const lap_cut LAP_ISA(lap_cut_f19aa26c7c3bb9af) = {
    .sources = LAP_CUT_SOURCES,
    .structure = "f19aa26c7c3bb9af",
    .isa = LAP_ISA_NAME,
    .caches = 60,
    .cache = caches,
    .code = {arena_bytes, forward},
};
