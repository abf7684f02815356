/* Generated, do not edit. Made again by
 *     lapidary cut 31b --emit FILE
 *
 * The forward pass of 31b: 60 layers, hidden 5376, vocabulary 262144, embedding 4g64.
 * Fingerprint e5f89b5257a616d3; generator 1, pass interface 1, kernel contract 1.
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
#include "pass/attend_rows.h"
#include "pass/head.h"
#include "pass/rows.h"

/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */

enum {
  HIDDEN = 5376,
  VOCAB = 262144,
  PAIRS_SLIDING = 128,
  PAIRS_FULL = 64,
  NORMED_FORMS = 3,
  ATTENTION_FORMS = 3,
  MLP_FORMS = 3,
};
#define EPS 0x1.0c6f7ap-20f

/* ---- the arena: where activations stand, in bytes times rows. Gate and up take the room of
 * queries, keys and values. ---- */

enum {
  AT_HIDDEN = 0,
  AT_COSINE_SLIDING = 21504,
  AT_SINE_SLIDING = 22016,
  AT_COSINE_FULL = 22528,
  AT_SINE_FULL = 22784,
  AT_NORMED = 23040,
  AT_NORMED_FORMS = 44544,
  AT_OUTPUT = 67200,
  AT_QUERY = 88704,
  AT_KEY = 154240,
  AT_VALUE = 170624,
  AT_GATE = 88704,
  AT_UP = 174720,
  AT_WIDE_FORMS = 260736,
  AT_TILES = 350784,
  ROW_BYTES = 350848,
};

/* The pass, and the layer at hand: what every task reads. */
typedef struct step {
  lap_pass *pass;
  lap_attend_memory attention;
  lap_input normed; /* a norm's output, or the stream, in quantized form */
  int layer;
  int cache;
  const lap_layer_weights *w;
} step;

LAP_INLINE unsigned char *bytes_at(const step *s, size_t place) {
  return s->pass->arena + (size_t)s->pass->capacity * place;
}

LAP_INLINE float *at(const step *s, size_t place) {
  return (float *)(void *)bytes_at(s, place);
}

LAP_INLINE float *row_at(const step *s, size_t place, const int width, int row) {
  return at(s, place) + (size_t)row * (size_t)width;
}

LAP_INLINE lap_input wide_input(const step *s, const int width, const int forms, size_t place) {
  return lap_input_place(width, forms, at(s, place), bytes_at(s, AT_WIDE_FORMS), s->pass->capacity,
                         lap_weaves(s->pass->rows, width));
}

/* y = x W^T for all rows, W [rows, cols]. */
LAP_INLINE lap_product product_with(const step *s, lap_multiply *multiply, const lap_weight *weight,
                                    int rows, int cols, const lap_input *x, size_t y) {
  return (lap_product){.multiply = multiply, .weight = weight, .rows = rows, .cols = cols, .input = x,
                       .input_rows = s->pass->rows, .y = at(s, y)};
}

LAP_INLINE lap_product product(const step *s, lap_multiply *multiply, lap_layer_linear which, int rows,
                               int cols, const lap_input *x, size_t y) {
  return product_with(s, multiply, &s->w->linear[which], rows, cols, x, y);
}

LAP_INLINE void run_product(const step *s, lap_multiply *multiply, lap_layer_linear which, int rows,
                            int cols, const lap_input *x, size_t y) {
  const lap_product one = product(s, multiply, which, rows, cols, x, y);
  lap_run_products(s->pass, &one, 1);
}

/* gelu(gate y) * up y */
LAP_INLINE void run_gate_up(const step *s, lap_multiply *multiply, int rows, int cols) {
  lap_product pair = product(s, multiply, LAP_GATE_PROJ, rows, cols, &s->normed, AT_GATE);
  pair.second = &s->w->linear[LAP_UP_PROJ];
  pair.second_y = at(s, AT_UP);
  lap_run_products(s->pass, &pair, 1);
}

LAP_INLINE void begin_layer(step *s, int layer, int cache) {
  s->layer = layer;
  s->cache = cache;
  s->w = &s->pass->weights->layer[layer];
}

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
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 5376, p->weight, p, first, last, p->y);
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 5376, p->second, p, first, last, p->second_y);
  lap_join_pair(p, first, last);
}

static void multiply_4g64_21504(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 21504, p->weight, p, first, last, p->y);
}

static void multiply_4g64_16384(const lap_product *p, int first, int last) {
  lap_multiply_rows(4, 64, LAP_FORMAT_BF16, 16384, p->weight, p, first, last, p->y);
}

/* ---- row by row ---- */

static void embed(void *context, int row) {
  const step *s = context;
  const lap_row *token = &s->pass->row[row];
  float *h = row_at(s, AT_HIDDEN, HIDDEN, row);
  lap_table_row(4, 64, LAP_FORMAT_BF16, HIDDEN, &s->pass->weights->embed, token->id, 0, HIDDEN, 0x1.2548ecp+6f, h);
  lap_rope_table(s->pass->rope_frequency[LAP_SLIDING], PAIRS_SLIDING, token->position,
                 row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
  lap_rope_table(s->pass->rope_frequency[LAP_FULL], PAIRS_FULL, token->position,
                 row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void norm_input(void *context, int row) {
  const step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, row_at(s, AT_HIDDEN, HIDDEN, row), s->w->vector[LAP_INPUT_NORM],
               row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void keys_sliding_g64b4(void *context, int row) {
  const step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(16, 256, PAIRS_SLIDING, EPS, 0, 4, 64, row_at(s, AT_KEY, 4096, row), row_at(s, AT_VALUE, 4096, row),
               s->w->vector[LAP_K_NORM], row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row),
               row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row), lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_sliding(void *context, int row) {
  const step *s = context;
  lap_row_queries(32, 256, PAIRS_SLIDING, EPS, row_at(s, AT_QUERY, 8192, row), s->w->vector[LAP_Q_NORM],
                  row_at(s, AT_COSINE_SLIDING, PAIRS_SLIDING, row), row_at(s, AT_SINE_SLIDING, PAIRS_SLIDING, row));
}

static void quantize_attention_8192(void *context, int row) {
  const step *s = context;
  const lap_input wide = wide_input(s, 8192, ATTENTION_FORMS, AT_QUERY);
  lap_input_fill(8192, ATTENTION_FORMS, row_at(s, AT_QUERY, 8192, row), &wide, row);
}

static void add_attention(void *context, int row) {
  const step *s = context;
  lap_row_add_norm(HIDDEN, EPS, row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[LAP_POST_ATTENTION_NORM],
                   row_at(s, AT_HIDDEN, HIDDEN, row));
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, row_at(s, AT_HIDDEN, HIDDEN, row), s->w->vector[LAP_PRE_FEEDFORWARD_NORM],
               row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

static void quantize_mlp_21504(void *context, int row) {
  const step *s = context;
  const lap_input wide = wide_input(s, 21504, MLP_FORMS, AT_GATE);
  lap_input_fill(21504, MLP_FORMS, row_at(s, AT_GATE, 21504, row), &wide, row);
}

static void add_feed_forward_scaled(void *context, int row) {
  const step *s = context;
  lap_row_add_norm(HIDDEN, EPS, row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[LAP_POST_FEEDFORWARD_NORM],
                   row_at(s, AT_HIDDEN, HIDDEN, row));
  lap_row_scale(HIDDEN, s->w->vector[LAP_LAYER_SCALAR][0], row_at(s, AT_HIDDEN, HIDDEN, row));
}

static void keys_full_g64b8_k_is_v(void *context, int row) {
  const step *s = context;
  const lap_row *token = &s->pass->row[row];
  lap_row_keys(4, 512, PAIRS_FULL, EPS, 1, 8, 64, row_at(s, AT_KEY, 2048, row), row_at(s, AT_VALUE, 2048, row),
               s->w->vector[LAP_K_NORM], row_at(s, AT_COSINE_FULL, PAIRS_FULL, row),
               row_at(s, AT_SINE_FULL, PAIRS_FULL, row), lap_pass_kv(s->pass, token->segment, s->cache)->planes,
               token->position);
}

static void queries_full(void *context, int row) {
  const step *s = context;
  lap_row_queries(32, 512, PAIRS_FULL, EPS, row_at(s, AT_QUERY, 16384, row), s->w->vector[LAP_Q_NORM],
                  row_at(s, AT_COSINE_FULL, PAIRS_FULL, row), row_at(s, AT_SINE_FULL, PAIRS_FULL, row));
}

static void quantize_attention_16384(void *context, int row) {
  const step *s = context;
  const lap_input wide = wide_input(s, 16384, ATTENTION_FORMS, AT_QUERY);
  lap_input_fill(16384, ATTENTION_FORMS, row_at(s, AT_QUERY, 16384, row), &wide, row);
}

static void norm_final(void *context, int row) {
  const step *s = context;
  lap_row_norm(HIDDEN, EPS, NORMED_FORMS, row_at(s, AT_HIDDEN, HIDDEN, row), s->pass->weights->final_norm,
               row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);
}

/* How the inputs lie in memory depends on the number of rows still on their way. */
static void place_inputs(step *s) {
  const int capacity = s->pass->capacity, woven = lap_weaves(s->pass->rows, HIDDEN);
  s->normed = lap_input_place(HIDDEN, NORMED_FORMS, at(s, AT_NORMED), bytes_at(s, AT_NORMED_FORMS),
                              capacity, woven);
}

static void drop_rows(step *s) {
  const lap_kept kept[] = {{at(s, AT_HIDDEN), HIDDEN},
                           {at(s, AT_COSINE_SLIDING), PAIRS_SLIDING},
                           {at(s, AT_SINE_SLIDING), PAIRS_SLIDING},
                           {at(s, AT_COSINE_FULL), PAIRS_FULL},
                           {at(s, AT_SINE_FULL), PAIRS_FULL}};
  lap_drop_unwanted_rows(s->pass, kept, 5);
  place_inputs(s);
}

/* ---- attention ---- */

LAP_INLINE lap_attend_shape sliding_g64b4(void) {
  return (lap_attend_shape){.heads = 32, .kv_heads = 16, .head_dim = 256, .window = 1024, .bits = 4, .group_size = 64};
}

static void tile_sliding_g64b4(void *run, int task, int thread) {
  lap_attend_tile(sliding_g64b4(), run, task, thread);
}

static void fold_sliding_g64b4(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(sliding_g64b4(), run, task);
}

static void attend_sliding_g64b4(const step *s) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_sliding_g64b4, fold_sliding_g64b4};
  lap_run_attention(sliding_g64b4(), &code, s->pass, &s->attention, at(s, AT_QUERY), s->cache);
}

LAP_INLINE lap_attend_shape full_g64b8(void) {
  return (lap_attend_shape){.heads = 32, .kv_heads = 4, .head_dim = 512, .window = 0, .bits = 8, .group_size = 64};
}

static void tile_full_g64b8(void *run, int task, int thread) {
  lap_attend_tile(full_g64b8(), run, task, thread);
}

static void fold_full_g64b8(void *run, int task, int thread) {
  (void)thread;
  lap_attend_fold_spans(full_g64b8(), run, task);
}

static void attend_full_g64b8(const step *s) {
  static const lap_attend_code code = {LAP_ATTENTION_TILED, tile_full_g64b8, fold_full_g64b8};
  lap_run_attention(full_g64b8(), &code, s->pass, &s->attention, at(s, AT_QUERY), s->cache);
}

/* ---- kinds of layer ---- */

/* Layer 0-4, 6-10, 12-16, 18-22, 24-28, 30-34, 36-40, 42-46, 48-52, 54-58. */
static void donor_sliding_g64b4_v_scalar(step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  begin_layer(s, layer, cache);
  /* k, v, q = W norm(h) */
  lap_run_rows(p, p->rows, norm_input, s);
  lap_run_products(p, (const lap_product[]){
      product(s, multiply_4g64_5376, LAP_K_PROJ, 4096, 5376, &s->normed, AT_KEY),
      product(s, multiply_4g64_5376, LAP_V_PROJ, 4096, 5376, &s->normed, AT_VALUE),
      product(s, multiply_4g64_5376, LAP_Q_PROJ, 8192, 5376, &s->normed, AT_QUERY),
  }, 3);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(p, p->rows, keys_sliding_g64b4, s);
  lap_run_rows(p, p->rows, queries_sliding, s);
  attend_sliding_g64b4(s);
  /* h = h + norm(W attention) */
  lap_run_rows(p, p->rows, quantize_attention_8192, s);
  wide = wide_input(s, 8192, ATTENTION_FORMS, AT_QUERY);
  run_product(s, multiply_4g64_8192, LAP_O_PROJ, 5376, 8192, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_attention, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  run_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN);
  lap_run_rows(p, p->rows, quantize_mlp_21504, s);
  wide = wide_input(s, 21504, MLP_FORMS, AT_GATE);
  run_product(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_feed_forward_scaled, s);
  lap_pass_show(p, "layer", layer, at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 5, 11, 17, 23, 29, 35, 41, 47, 53. */
static void donor_full_g64b8_k_is_v_scalar(step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  begin_layer(s, layer, cache);
  /* k (v is the same), q = W norm(h) */
  lap_run_rows(p, p->rows, norm_input, s);
  lap_run_products(p, (const lap_product[]){
      product(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
      product(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
  }, 2);
  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */
  lap_run_rows(p, p->rows, keys_full_g64b8_k_is_v, s);
  lap_run_rows(p, p->rows, queries_full, s);
  attend_full_g64b8(s);
  /* h = h + norm(W attention) */
  lap_run_rows(p, p->rows, quantize_attention_16384, s);
  wide = wide_input(s, 16384, ATTENTION_FORMS, AT_QUERY);
  run_product(s, multiply_4g64_16384, LAP_O_PROJ, 5376, 16384, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_attention, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  run_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN);
  lap_run_rows(p, p->rows, quantize_mlp_21504, s);
  wide = wide_input(s, 21504, MLP_FORMS, AT_GATE);
  run_product(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_feed_forward_scaled, s);
  lap_pass_show(p, "layer", layer, at(s, AT_HIDDEN), HIDDEN);
}

/* Layer 59. */
static void donor_full_g64b8_k_is_v_scalar_last(step *s, int layer, int cache) {
  lap_pass *p = s->pass;
  lap_input wide;
  begin_layer(s, layer, cache);
  /* k (v is the same), q = W norm(h) */
  lap_run_rows(p, p->rows, norm_input, s);
  if (lap_has_unwanted_rows(p)) {
    /* All later layers read what is stored now: rows that nobody wants logits of end here. */
    lap_run_products(p, (const lap_product[]){
        product(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
    }, 1);
    lap_run_rows(p, p->rows, keys_full_g64b8_k_is_v, s);
    drop_rows(s);
    if (p->rows == 0) return;
    lap_run_rows(p, p->rows, norm_input, s);
    lap_run_products(p, (const lap_product[]){
        product(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
    }, 1);
  } else {
    lap_run_products(p, (const lap_product[]){
        product(s, multiply_4g64_5376, LAP_K_PROJ, 2048, 5376, &s->normed, AT_KEY),
        product(s, multiply_4g64_5376, LAP_Q_PROJ, 16384, 5376, &s->normed, AT_QUERY),
    }, 2);
    lap_run_rows(p, p->rows, keys_full_g64b8_k_is_v, s);
  }
  lap_run_rows(p, p->rows, queries_full, s);
  attend_full_g64b8(s);
  /* h = h + norm(W attention) */
  lap_run_rows(p, p->rows, quantize_attention_16384, s);
  wide = wide_input(s, 16384, ATTENTION_FORMS, AT_QUERY);
  run_product(s, multiply_4g64_16384, LAP_O_PROJ, 5376, 16384, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_attention, s);
  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */
  run_gate_up(s, gate_up_4g64_5376, 21504, HIDDEN);
  lap_run_rows(p, p->rows, quantize_mlp_21504, s);
  wide = wide_input(s, 21504, MLP_FORMS, AT_GATE);
  run_product(s, multiply_4g64_21504, LAP_DOWN_PROJ, 5376, 21504, &wide, AT_OUTPUT);
  lap_run_rows(p, p->rows, add_feed_forward_scaled, s);
  lap_pass_show(p, "layer", layer, at(s, AT_HIDDEN), HIDDEN);
}

/* ---- the pass ---- */

/* Points everything into the arena, or, without one, adds up its bytes. */
static size_t place(step *s, lap_pass *pass) {
  const lap_attend_shape shapes[] = {
      sliding_g64b4(),
      full_g64b8(),
  };
  size_t used = (size_t)pass->capacity * ROW_BYTES;
  unsigned char *arena = pass->arena;
  *s = (step){.pass = pass};
  used += lap_attend_place_memory(shapes, (int)(sizeof shapes / sizeof *shapes), pass, arena ? arena + used : NULL,
                                  &s->attention);
  if (!arena) return used;
  s->attention.tiles = (lap_tile *)(void *)bytes_at(s, AT_TILES);
  place_inputs(s);
  return used;
}

static size_t arena_bytes(const lap_pass *pass) {
  lap_pass sized = *pass;
  step s;
  sized.arena = NULL;
  return place(&s, &sized);
}

static void forward(lap_pass *p) {
  step s;
  place(&s, p);
  lap_run_rows(p, p->rows, embed, &s);
  lap_pass_show(p, "embedding", -1, at(&s, AT_HIDDEN), HIDDEN);
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
  lap_run_rows(p, p->rows, norm_final, &s);
  lap_pass_show(p, "final_norm", 60, at(&s, AT_NORMED), HIDDEN);
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

extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_e5f89b5257a616d3);
const lap_cut LAP_ISA(lap_cut_e5f89b5257a616d3) = {
    .abi = LAP_PASS_ABI,
    .contract = LAP_KERNEL_CONTRACT,
    .fingerprint = "e5f89b5257a616d3",
    .isa = LAP_ISA_NAME,
    .caches = 60,
    .cache = caches,
    .code = {arena_bytes, forward},
};
