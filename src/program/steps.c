/* steps.c: the pass of Gemma 4, step by step: the one place that says in which order a layer is computed, and
 * what each step reads and writes. Which of them share a parallel run follows from that (runs.c).
 *
 * Read `list_layer`. While `ways` is narrowed, what is listed belongs to one of the two ways that a pass may
 * go at the last donor. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/build.h"

enum {
  COLUMNS_STEP = 64 /* lap_input_fill_columns (pass/parallel.h) begins at multiples of it */
};

typedef struct builder {
  lap_program *program;
  const lap_plan *plan;
  lap_program_part *part;
  const lap_layer *layer; /* the first of the kind */
  unsigned ways;
  const char *formula; /* of the step that is listed next */
  int room;
  bool failed; /* out of memory; what is added then goes into the spare one */
  lap_program_step spare;
} builder;

/* ---- the list ---- */

/* Room for one more step. */
static bool make_room(builder *b) {
  lap_program *program = b->program;
  if (program->steps < b->room) return true;
  const int room = b->room + 64;
  lap_program_step *grown = realloc(program->step, (size_t)room * sizeof *grown);
  if (!grown) return false;
  program->step = grown;
  b->room = room;
  return true;
}

static lap_program_step *add(builder *b, lap_step_kind kind, lap_division division, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* The new step is valid until the next one is added. */
static lap_program_step *add(builder *b, lap_step_kind kind, lap_division division, const char *name, ...) {
  va_list arguments;
  b->failed = b->failed || !make_room(b);
  lap_program_step *step = b->failed ? &b->spare : &b->program->step[b->program->steps++];
  *step = (lap_program_step){.kind = kind,
                             .division = division,
                             .formula = b->formula,
                             .ways = b->ways,
                             .weight = {LAP_NO_WEIGHT, LAP_NO_WEIGHT, LAP_NO_WEIGHT},
                             .vector = {LAP_NO_VECTOR, LAP_NO_VECTOR},
                             .eps = b->plan->rms_norm_eps};
  va_start(arguments, name);
  vsnprintf(step->name, sizeof step->name, name, arguments);
  va_end(arguments);
  b->formula = NULL;
  b->part->steps++;
  return step;
}

static void begin_part(builder *b, lap_program_part *part) {
  b->part = part;
  part->first = b->program->steps;
  b->layer = part->layer < 0 ? NULL : &b->plan->layer[part->layer];
  b->ways = LAP_WAYS;
}

/* ---- operands ---- */

static lap_operand floats(lap_buffer buffer, int32_t width) {
  return (lap_operand){.buffer = buffer, .width = width};
}

static void reads(lap_program_step *step, lap_buffer buffer, int32_t width) {
  step->read[step->reads++] = floats(buffer, width);
}

static void writes(lap_program_step *step, lap_buffer buffer, int32_t width) {
  step->write[step->writes++] = floats(buffer, width);
}

static void changes(lap_program_step *step, lap_buffer buffer, int32_t width) {
  reads(step, buffer, width);
  writes(step, buffer, width);
}

static lap_buffer buffer_of_forms(lap_product_input input) {
  switch (input) {
    case LAP_INPUT_NORMED:
      return LAP_BUFFER_NORMED_FORMS;
    case LAP_INPUT_EMBEDDED:
      return LAP_BUFFER_EMBEDDED_FORMS;
    case LAP_INPUT_ATTENTION:
      return LAP_BUFFER_QUERY_FORMS;
    default:
      return LAP_BUFFER_GATE_FORMS;
  }
}

static void writes_forms(lap_program_step *step, lap_product_input input, int32_t width) {
  step->write[step->writes++] =
      (lap_operand){.buffer = buffer_of_forms(input), .width = width, .forms = input};
}

/* Whether the weight is dense, or quantized, in some layer of the part. */
static bool has_format(const builder *b, int weight, bool dense) {
  const lap_program *program = b->program;
  if (weight >= LAP_LAYER_LINEARS) return (lap_program_linear(program, 0, weight)->bits == 0) == dense;
  for (int c = 0; c < program->calls; c++)
    if (&program->part[program->call[c].part] == b->part &&
        (lap_program_linear(program, program->call[c].layer, weight)->bits == 0) == dense)
      return true;
  return false;
}

/* A product reads floats for dense weights, forms for quantized ones. */
static void reads_input(const builder *b, lap_program_step *step, lap_buffer buffer, lap_product_input input,
                        int32_t width) {
  step->input = (lap_operand){.buffer = buffer, .width = width, .forms = input};
  const int second = step->weight[1] == LAP_NO_WEIGHT ? step->weight[0] : step->weight[1];
  if (has_format(b, step->weight[0], true) || has_format(b, second, true)) reads(step, buffer, width);
  if (has_format(b, step->weight[0], false) || has_format(b, second, false))
    step->read[step->reads++] =
        (lap_operand){.buffer = buffer_of_forms(input), .width = width, .forms = input};
}

/* ---- steps ---- */

static lap_heads heads_of(const builder *b) {
  const lap_layer *layer = b->layer;
  return (lap_heads){.attention = layer->attention,
                     .heads = layer->heads,
                     .kv_heads = layer->kv_heads,
                     .head_dim = layer->head_dim,
                     .pairs = b->plan->rope[layer->attention].rotated_pairs,
                     .window = layer->window,
                     .k_eq_v = layer->k_eq_v,
                     .bits = lap_layer_cache_bits(layer),
                     .group_size = lap_layer_cache_group(layer)};
}

static void reads_rope(lap_program_step *step) {
  const bool full = step->heads.attention == LAP_FULL;
  reads(step, full ? LAP_BUFFER_COSINE_FULL : LAP_BUFFER_COSINE_SLIDING, step->heads.pairs);
  reads(step, full ? LAP_BUFFER_SINE_FULL : LAP_BUFFER_SINE_SLIDING, step->heads.pairs);
}

static void list_norm(builder *b, const char *name, int vector, lap_product_input input) {
  lap_program_step *step = add(b, LAP_STEP_NORM, LAP_BY_ROWS, "norm_%s", name);
  step->vector[0] = vector;
  reads(step, LAP_BUFFER_HIDDEN, b->plan->hidden_size);
  writes(step, LAP_BUFFER_NORMED, b->plan->hidden_size);
  if (input) writes_forms(step, input, b->plan->hidden_size);
}

static void list_product(builder *b, const char *name, int weight, lap_buffer x, lap_product_input input,
                         lap_buffer y) {
  const lap_linear *linear = lap_program_linear(b->program, b->part->layer, weight);
  lap_program_step *step = add(b, LAP_STEP_PRODUCT, LAP_BY_OUTPUTS, "%s", name);
  step->weight[0] = weight;
  reads_input(b, step, x, input, linear->in_features);
  writes(step, y, weight == LAP_WEIGHT_PER_LAYER_ROWS ? b->plan->per_layer_width : linear->out_features);
}

static void list_quantize(builder *b, const char *name, lap_buffer x, lap_product_input input,
                          int32_t width) {
  lap_program_step *step = add(b, LAP_STEP_QUANTIZE, LAP_BY_ROWS, "quantize_%s", name);
  reads(step, x, width);
  writes_forms(step, input, width);
}

/* Back to the stream. */
static void list_add(builder *b, const char *name, int vector) {
  lap_program_step *step = add(b, LAP_STEP_ADD_NORM, LAP_BY_ROWS, "add_%s", name);
  step->vector[0] = vector;
  changes(step, LAP_BUFFER_OUTPUT, b->plan->hidden_size);
  changes(step, LAP_BUFFER_HIDDEN, b->plan->hidden_size);
}

static void list_scale(builder *b) {
  lap_program_step *step = add(b, LAP_STEP_SCALE, LAP_BY_ROWS, "scale");
  step->vector[0] = LAP_LAYER_SCALAR;
  changes(step, LAP_BUFFER_HIDDEN, b->plan->hidden_size);
}

static void show(builder *b, const char *name, lap_buffer buffer, int32_t width) {
  lap_program_step *step = add(b, LAP_STEP_SHOW, LAP_BY_ONE, "show_%s", name);
  step->shown = name;
  reads(step, buffer, width);
}

/* ---- attention ---- */

static const char *formula_of_input(const lap_layer *layer) {
  if (layer->sharer) return "q = W norm(h)";
  return layer->k_eq_v ? "k (v is the same), q = W norm(h)" : "k, v, q = W norm(h)";
}

/* The norm with which the next layer, or the end of the pass, begins: each row's own, so that it goes on
 * where this layer ends. */
static void list_next_norm(builder *b) {
  list_norm(b, "next", LAP_VECTOR_NEXT_NORM, LAP_INPUT_NORMED);
}

static void list_key_products(builder *b) {
  list_product(b, "key", LAP_K_PROJ, LAP_BUFFER_NORMED, LAP_INPUT_NORMED, LAP_BUFFER_KEY);
  if (!b->layer->k_eq_v)
    list_product(b, "value", LAP_V_PROJ, LAP_BUFFER_NORMED, LAP_INPUT_NORMED, LAP_BUFFER_VALUE);
}

/* The projection of the per-layer input reads the embedding, so it can run beside the first products. */
static void list_query_products(builder *b) {
  list_product(b, "query", LAP_Q_PROJ, LAP_BUFFER_NORMED, LAP_INPUT_NORMED, LAP_BUFFER_QUERY);
  if (b->plan->per_layer_width)
    list_product(b, "per_layer_rows", LAP_WEIGHT_PER_LAYER_ROWS, LAP_BUFFER_EMBEDDED, LAP_INPUT_EMBEDDED,
                 LAP_BUFFER_PLI);
}

static void list_keys(builder *b) {
  const int32_t width = b->layer->kv_heads * b->layer->head_dim;
  const lap_heads heads = heads_of(b);
  char cache[LAP_CACHE_WORD_BYTES];
  lap_cache_word(&heads, cache);
  lap_program_step *step = add(b, LAP_STEP_WRITE_KEYS, LAP_BY_ROWS, "keys_%s_%s%s",
                               lap_attention_name(heads.attention), cache, heads.k_eq_v ? "_k_is_v" : "");
  step->heads = heads;
  step->vector[0] = LAP_K_NORM;
  changes(step, LAP_BUFFER_KEY, width);
  writes(step, LAP_BUFFER_VALUE, width);
  if (!heads.k_eq_v) reads(step, LAP_BUFFER_VALUE, width);
  reads_rope(step);
  writes(step, LAP_BUFFER_CACHE, width);
}

static void list_drop_rows(builder *b) {
  const lap_plan *plan = b->plan;
  const int32_t sliding = plan->rope[LAP_SLIDING].rotated_pairs, full = plan->rope[LAP_FULL].rotated_pairs;
  lap_program_step *step = add(b, LAP_STEP_DROP_ROWS, LAP_BY_ONE, "drop_rows");
  changes(step, LAP_BUFFER_HIDDEN, plan->hidden_size);
  changes(step, LAP_BUFFER_COSINE_SLIDING, sliding);
  changes(step, LAP_BUFFER_SINE_SLIDING, sliding);
  changes(step, LAP_BUFFER_COSINE_FULL, full);
  changes(step, LAP_BUFFER_SINE_FULL, full);
  if (plan->per_layer_width) changes(step, LAP_BUFFER_EMBEDDED, plan->hidden_size);
}

static void list_quantize_embedding(builder *b) {
  if (b->plan->per_layer_width)
    list_quantize(b, "embedding", LAP_BUFFER_EMBEDDED, LAP_INPUT_EMBEDDED, b->plan->hidden_size);
}

static void list_queries(builder *b) {
  lap_program_step *step =
      add(b, LAP_STEP_ROTATE_QUERIES, LAP_BY_ROWS, "queries_%s", lap_attention_name(b->layer->attention));
  step->heads = heads_of(b);
  step->vector[0] = LAP_Q_NORM;
  changes(step, LAP_BUFFER_QUERY, b->layer->heads * b->layer->head_dim);
  reads_rope(step);
}

/* The per-layer input, but for its gate, needs nothing but its product, which ran beside those of queries. */
static void list_per_layer_row(builder *b) {
  const lap_plan *plan = b->plan;
  if (!plan->per_layer_width) return;
  lap_program_step *step = add(b, LAP_STEP_PER_LAYER_ROW, LAP_BY_ROWS, "per_layer_input");
  step->weight[0] = LAP_WEIGHT_EMBED_PER_LAYER;
  step->vector[0] = LAP_VECTOR_PER_LAYER_NORM;
  step->scale[0] = plan->per_layer_embed_scale;
  step->scale[1] = plan->per_layer_projection_scale;
  changes(step, LAP_BUFFER_PLI, plan->per_layer_width);
}

/* Products, keys and queries of rows that all stay. */
static void list_input(builder *b) {
  if (!b->layer->sharer) list_key_products(b);
  list_query_products(b);
  b->formula = b->layer->sharer ? "q = rope(norm(q))"
                                : "k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q))";
  if (!b->layer->sharer) list_keys(b);
  list_queries(b);
  list_per_layer_row(b);
}

/* All later layers read what the last donor stores: a pass may go on with few rows from there. How forms lie
 * depends on the number of rows, so those that stay are made again. */
static void list_last_donor(builder *b) {
  b->ways = LAP_WAY_ROWS_LEAVE;
  list_key_products(b);
  list_keys(b);
  list_drop_rows(b);
  list_quantize_embedding(b);
  list_norm(b, "input", LAP_INPUT_NORM, LAP_INPUT_NORMED);
  list_query_products(b);
  list_queries(b);
  list_per_layer_row(b);
  b->ways = LAP_WAY_ALL_STAY;
  list_input(b);
  b->ways = LAP_WAYS;
}

/* Where a head is whole blocks, attention quantizes what it computes itself. */
static bool quantizes_output(const builder *b) {
  return b->program->forms[LAP_INPUT_ATTENTION] != 0 && b->layer->head_dim % COLUMNS_STEP == 0;
}

static void list_attend(builder *b) {
  const lap_heads heads = heads_of(b);
  char cache[LAP_CACHE_WORD_BYTES];
  lap_cache_word(&heads, cache);
  lap_program_step *step =
      add(b, LAP_STEP_ATTEND, LAP_BY_TILES, "attend_%s_%s", lap_attention_name(heads.attention), cache);
  step->heads = heads;
  changes(step, LAP_BUFFER_QUERY, heads.heads * heads.head_dim);
  reads(step, LAP_BUFFER_CACHE, heads.kv_heads * heads.head_dim);
  writes(step, LAP_BUFFER_TILES, 0);
  if (quantizes_output(b)) writes_forms(step, LAP_INPUT_ATTENTION, heads.heads * heads.head_dim);
}

static void list_attention(builder *b) {
  b->formula = formula_of_input(b->layer);
  if (b->part->layer == b->program->last_donor)
    list_last_donor(b);
  else
    list_input(b);
  list_attend(b);
  if (b->program->forms[LAP_INPUT_ATTENTION] && !quantizes_output(b))
    list_quantize(b, "attention", LAP_BUFFER_QUERY, LAP_INPUT_ATTENTION,
                  b->layer->heads * b->layer->head_dim);
  b->formula = "h = h + norm(W attention)";
  list_product(b, "attention_back", LAP_O_PROJ, LAP_BUFFER_QUERY, LAP_INPUT_ATTENTION, LAP_BUFFER_OUTPUT);
  list_add(b, "attention", LAP_POST_ATTENTION_NORM);
}

/* ---- feed-forward ---- */

static void list_gate_up(builder *b) {
  b->formula = "h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h)";
  lap_program_step *step = add(b, LAP_STEP_PAIR, LAP_BY_OUTPUTS, "gate_up");
  step->weight[0] = LAP_GATE_PROJ;
  step->weight[1] = LAP_UP_PROJ;
  reads_input(b, step, LAP_BUFFER_NORMED, LAP_INPUT_NORMED, b->plan->hidden_size);
  if (b->program->mlp_floats) writes(step, LAP_BUFFER_GATE, b->layer->mlp_width);
  writes_forms(step, LAP_INPUT_MLP, b->layer->mlp_width);
}

static void list_experts(builder *b) {
  const lap_plan *plan = b->plan;
  b->formula = "and the experts' sum, over a norm of its own";
  lap_program_step *step = add(b, LAP_STEP_EXPERTS, LAP_BY_STAGES, "experts");
  step->weight[0] = LAP_ROUTER;
  step->weight[1] = LAP_EXPERT_GATE;
  step->weight[2] = LAP_EXPERT_DOWN;
  step->vector[0] = LAP_ROUTER_SCALE;
  step->vector[1] = LAP_PER_EXPERT_SCALE;
  step->experts = plan->num_experts;
  step->top_k = plan->top_k_experts;
  step->expert_width = plan->moe_width;
  reads(step, LAP_BUFFER_HIDDEN, plan->hidden_size);
  changes(step, LAP_BUFFER_NORMED, plan->hidden_size);
  writes(step, LAP_BUFFER_EXPERTS, 0);
}

static void list_join_experts(builder *b) {
  lap_program_step *step = add(b, LAP_STEP_JOIN_EXPERTS, LAP_BY_ROWS, "join_experts");
  step->vector[0] = LAP_POST_FEEDFORWARD_NORM_1;
  step->vector[1] = LAP_POST_FEEDFORWARD_NORM_2;
  changes(step, LAP_BUFFER_OUTPUT, b->plan->hidden_size);
  changes(step, LAP_BUFFER_NORMED, b->plan->hidden_size);
}

/* The experts read floats in the place of those that feed-forward reads: where that reads forms alone, both
 * are made at once. */
static void list_feed_forward(builder *b) {
  const bool moe = b->layer->moe;
  const bool at_once = !has_format(b, LAP_GATE_PROJ, true) && !has_format(b, LAP_UP_PROJ, true);
  list_norm(b, "feed_forward", LAP_PRE_FEEDFORWARD_NORM, LAP_INPUT_NORMED);
  if (moe && at_once) list_norm(b, "experts", LAP_PRE_FEEDFORWARD_NORM_2, LAP_INPUT_NONE);
  list_gate_up(b);
  list_product(b, "down", LAP_DOWN_PROJ, LAP_BUFFER_GATE, LAP_INPUT_MLP, LAP_BUFFER_OUTPUT);
  if (moe && !at_once) list_norm(b, "experts", LAP_PRE_FEEDFORWARD_NORM_2, LAP_INPUT_NONE);
  if (moe) list_experts(b);
  if (moe) list_join_experts(b);
  list_add(b, "feed_forward", LAP_POST_FEEDFORWARD_NORM);
}

/* ---- per-layer input ---- */

/* gelu(gate h) * pli goes to the next product as feed-forward's pair does: in its forms, as floats only where
 * a dense weight reads them. */
static void list_per_layer_gate(builder *b) {
  const int32_t width = b->plan->per_layer_width;
  lap_program_step *step = add(b, LAP_STEP_PER_LAYER_GATE, LAP_BY_OUTPUTS, "per_layer_gate");
  step->weight[0] = LAP_PLI_GATE;
  reads_input(b, step, LAP_BUFFER_HIDDEN, LAP_INPUT_NORMED, b->plan->hidden_size);
  reads(step, LAP_BUFFER_PLI, width);
  if (has_format(b, LAP_PLI_PROJECTION, true)) writes(step, LAP_BUFFER_GATE, width);
  writes_forms(step, LAP_INPUT_PER_LAYER, width);
}

static void list_per_layer_input(builder *b) {
  list_quantize(b, "stream", LAP_BUFFER_HIDDEN, LAP_INPUT_NORMED, b->plan->hidden_size);
  b->formula = b->layer->has_layer_scalar ? "h = scalar * (h + norm(W_back (gelu(W_gate h) * pli)))"
                                          : "h = h + norm(W_back (gelu(W_gate h) * pli))";
  list_per_layer_gate(b);
  show(b, "per_layer_input", LAP_BUFFER_PLI, b->plan->per_layer_width);
  list_product(b, "per_layer_back", LAP_PLI_PROJECTION, LAP_BUFFER_GATE, LAP_INPUT_PER_LAYER,
               LAP_BUFFER_OUTPUT);
  list_add(b, "per_layer_input", LAP_POST_PLI_NORM);
}

/* ---- parts ---- */

static void list_layer(builder *b) {
  list_attention(b);
  list_feed_forward(b);
  if (b->plan->per_layer_width) list_per_layer_input(b);
  if (b->layer->has_layer_scalar) list_scale(b);
  show(b, "layer", LAP_BUFFER_HIDDEN, b->plan->hidden_size);
  list_next_norm(b);
}

static void list_beginning(builder *b) {
  const lap_plan *plan = b->plan;
  lap_program_step *step = add(b, LAP_STEP_EMBED, LAP_BY_ROWS, "embed");
  step->weight[0] = LAP_WEIGHT_EMBED;
  step->scale[0] = plan->embed_scale;
  writes(step, LAP_BUFFER_HIDDEN, plan->hidden_size);
  writes(step, LAP_BUFFER_COSINE_SLIDING, plan->rope[LAP_SLIDING].rotated_pairs);
  writes(step, LAP_BUFFER_SINE_SLIDING, plan->rope[LAP_SLIDING].rotated_pairs);
  writes(step, LAP_BUFFER_COSINE_FULL, plan->rope[LAP_FULL].rotated_pairs);
  writes(step, LAP_BUFFER_SINE_FULL, plan->rope[LAP_FULL].rotated_pairs);
  if (plan->per_layer_width) writes(step, LAP_BUFFER_EMBEDDED, plan->hidden_size);
  list_quantize_embedding(b);
  show(b, "embedding", LAP_BUFFER_HIDDEN, plan->hidden_size);
  list_next_norm(b);
}

static void list_end(builder *b) {
  const lap_plan *plan = b->plan;
  show(b, "final_norm", LAP_BUFFER_NORMED, plan->hidden_size);
  lap_program_step *step = add(b, LAP_STEP_GIVE_HIDDEN, LAP_BY_ONE, "give_hidden");
  reads(step, LAP_BUFFER_NORMED, plan->hidden_size);
  writes(step, LAP_BUFFER_GIVEN, plan->hidden_size);
  step = add(b, LAP_STEP_HEAD, LAP_BY_OUTPUTS, "head");
  step->weight[0] = LAP_WEIGHT_HEAD;
  step->scale[0] = plan->final_logit_softcapping;
  reads_input(b, step, LAP_BUFFER_NORMED, LAP_INPUT_NORMED, plan->hidden_size);
  writes(step, LAP_BUFFER_LOGITS, plan->vocab_size);
}

lap_status lap_program_list(lap_program *program, lap_error *error) {
  builder b = {.program = program, .plan = program->plan};
  for (int i = 0; i < program->parts; i++) {
    begin_part(&b, &program->part[i]);
    if (i == 0)
      list_beginning(&b);
    else if (i == program->parts - 1)
      list_end(&b);
    else
      list_layer(&b);
  }
  return b.failed ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the list of steps") : LAP_OK;
}
