/* generate.c: the text of a cut, from top to bottom as its reader sees it.
 *
 * One function for each kind of layer; what it calls (products, row tasks, attention) is asked of the
 * writer when it is needed and stands above it. The bodies of those functions are calls of the templates of
 * src/pass with constants: nothing is computed here that the monolith does not compute with the same
 * bodies. */
#include "cut/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cut/layout.h"
#include "cut/writer.h"
#include "pass/pass.h"
#include "program/fingerprint.h"

typedef struct generator {
  const lap_plan *plan;
  lap_cut_layout layout;
  lap_writer writer;
  bool varies; /* some kind has products that differ between its layers */
} generator;

/* ---- words ---- */

static const char *type_capitals(lap_attention attention) {
  return attention == LAP_FULL ? "FULL" : "SLIDING";
}

static const char *format_word(lap_dtype dtype) {
  return dtype == LAP_F32 ? "LAP_FORMAT_F32" : dtype == LAP_F16 ? "LAP_FORMAT_F16" : "LAP_FORMAT_BF16";
}

typedef struct word {
  char text[32];
} word;

typedef struct function_name {
  char text[128];
} function_name;

/* 4g64 for 4 bits in groups of 64; the number format only where it is not the usual one. */
static word weight_word(const lap_linear *linear) {
  static const char *const dense[] = {"f32", "f16", "bf16"};
  static const char *const suffix[] = {"f32", "f16", ""};
  word name;
  int format = linear->dtype == LAP_F32 ? 0 : linear->dtype == LAP_F16 ? 1 : 2;
  if (linear->bits == 0)
    snprintf(name.text, sizeof name.text, "%s", dense[format]);
  else
    snprintf(name.text, sizeof name.text, "%dg%d%s", linear->bits, linear->group_size, suffix[format]);
  return name;
}

static word cache_word(const lap_layer *layer) {
  word name = {"plain"};
  if (layer->kv_bits) snprintf(name.text, sizeof name.text, "g%db%d", layer->kv_group_size, layer->kv_bits);
  return name;
}

/* ---- products ---- */

static void add_weight(lap_text *text, const lap_linear *linear, const char *weight, const char *y) {
  lap_text_add(text, "  lap_multiply_rows(%d, %d, %s, %d, p->%s, p, first, last, p->%s);\n", linear->bits,
               linear->bits ? linear->group_size : 64, format_word(linear->dtype), linear->in_features,
               weight, y);
}

static const char *define_product(generator *g, const lap_linear *linear) {
  lap_text text = {0};
  char name[96];
  snprintf(name, sizeof name, "multiply_%s_%d", weight_word(linear).text, linear->in_features);
  lap_text_add(&text, "(const lap_product *p, int first, int last) {\n");
  add_weight(&text, linear, "weight", "y");
  lap_text_add(&text, "}\n");
  return lap_writer_function(&g->writer, LAP_SECTION_PRODUCTS, "static void ", name, &text);
}

/* gelu(gate x) * (up x), in the forms called `forms`. */
static const char *define_pair(generator *g, const lap_linear *gate, const lap_linear *up, const char *prefix,
                               const char *forms) {
  lap_text text = {0};
  char name[96];
  const word a = weight_word(gate), b = weight_word(up);
  const char *first = define_product(g, gate), *second = define_product(g, up);
  if (strcmp(a.text, b.text) == 0)
    snprintf(name, sizeof name, "%sgate_up_%s_%d", prefix, a.text, gate->in_features);
  else
    snprintf(name, sizeof name, "%sgate_%s_up_%s_%d", prefix, a.text, b.text, gate->in_features);
  lap_text_add(&text,
               "(const lap_product *p, int first, int last) {\n"
               "  lap_multiply_pair(%s, %s, %s, p, first, last);\n}\n",
               forms, first, second);
  return lap_writer_function(&g->writer, LAP_SECTION_PRODUCTS, "static void ", name, &text);
}

static void define_head(generator *g) {
  lap_text text = {0};
  const char *product = define_product(g, &g->plan->head);
  lap_text_add(
      &text,
      "(const lap_product *p, int first, int last) {\n  lap_multiply_head(%s, %af, p, first, last);\n}\n",
      product, (double)g->plan->final_logit_softcapping);
  lap_writer_function(&g->writer, LAP_SECTION_PRODUCTS, "static void ", "multiply_head", &text);
}

/* The products of a layer by the name of the field that carries those which vary. A pair goes by the name of
 * its first linear. */
static const struct product_slot {
  lap_layer_linear which;
  lap_layer_linear second; /* of a pair; else the same */
  const char *field;
} product_slots[] = {
    {LAP_Q_PROJ, LAP_Q_PROJ, "q"},
    {LAP_K_PROJ, LAP_K_PROJ, "k"},
    {LAP_V_PROJ, LAP_V_PROJ, "v"},
    {LAP_O_PROJ, LAP_O_PROJ, "o"},
    {LAP_GATE_PROJ, LAP_UP_PROJ, "gate_up"},
    {LAP_DOWN_PROJ, LAP_DOWN_PROJ, "down"},
    {LAP_PLI_GATE, LAP_PLI_GATE, "per_layer_gate"},
    {LAP_PLI_PROJECTION, LAP_PLI_PROJECTION, "per_layer_back"},
    {LAP_ROUTER, LAP_ROUTER, "router"},
    {LAP_EXPERT_GATE, LAP_EXPERT_UP, "expert_gate_up"},
    {LAP_EXPERT_DOWN, LAP_EXPERT_DOWN, "expert_down"},
};

enum {
  PRODUCT_SLOTS = sizeof product_slots / sizeof *product_slots
};

static bool slot_varies(const lap_cut_kind *kind, const struct product_slot *slot) {
  return kind->varies[slot->which] || kind->varies[slot->second];
}

static const char *define_slot(generator *g, const lap_layer *layer, const struct product_slot *slot) {
  const lap_linear *first = &layer->linear[slot->which], *second = &layer->linear[slot->second];
  if (first == second) return define_product(g, first);
  return slot->which == LAP_GATE_PROJ ? define_pair(g, first, second, "", "MLP_FORMS")
                                      : define_pair(g, first, second, "expert_", "EXPERT_WIDE_FORMS");
}

static bool kind_varies(const lap_cut_kind *kind) {
  for (int i = 0; i < PRODUCT_SLOTS; i++)
    if (slot_varies(kind, &product_slots[i])) return true;
  return false;
}

/* What stands for a product in the kind's function: the function itself, or the field. */
static function_name product_of(generator *g, const lap_cut_kind *kind, lap_layer_linear which) {
  const struct product_slot *slot = product_slots;
  function_name name;
  while (slot->which != which) slot++;
  const char *function = define_slot(g, &g->plan->layer[kind->first], slot);
  if (slot_varies(kind, slot))
    snprintf(name.text, sizeof name.text, "f->%s", slot->field);
  else
    snprintf(name.text, sizeof name.text, "%s", function);
  return name;
}

/* ---- rows ---- */

static const char *define_row(generator *g, const char *name, lap_text *body) {
  lap_text text = {0};
  lap_text_add(&text, "(void *context, int row) {\n  const lap_step *s = context;\n%s}\n",
               body->data ? body->data : "");
  if (body->failed) g->writer.failed = true;
  lap_text_free(body);
  return lap_writer_function(&g->writer, LAP_SECTION_ROWS, "static void ", name, &text);
}

static void define_embedding(generator *g) {
  const lap_plan *plan = g->plan;
  lap_text body = {0};
  if (plan->per_layer_width) {
    lap_text_add(&body,
                 "  lap_input_fill(HIDDEN, EMBEDDED_FORMS, lap_row_at(s, AT_EMBEDDED, HIDDEN, row), "
                 "&s->embedded, row);\n");
    define_row(g, "quantize_embedding", &body);
  }
  lap_text_add(&body,
               "  const lap_row *token = &s->pass->row[row];\n"
               "  float *h = lap_row_at(s, AT_HIDDEN, HIDDEN, row);\n"
               "  lap_row_embed(%d, %d, %s, HIDDEN, &s->pass->memory.weights->embed, token, %af, h);\n",
               plan->embed.bits, plan->embed.bits ? plan->embed.group_size : 64,
               format_word(plan->embed.dtype), (double)plan->embed_scale);
  for (int i = 0; i < 2; i++) {
    const char *type = type_capitals((lap_attention)i);
    lap_text_add(&body,
                 "  lap_rope_table(s->pass->memory.rope_frequency[LAP_%s], PAIRS_%s, token->position,\n"
                 "                 lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row), lap_row_at(s, AT_SINE_%s, "
                 "PAIRS_%s, row));\n",
                 type, type, type, type, type, type);
  }
  if (plan->per_layer_width)
    lap_text_add(&body,
                 "  memcpy(lap_row_at(s, AT_EMBEDDED, HIDDEN, row), h, HIDDEN * sizeof *h);\n"
                 "  quantize_embedding(context, row);\n");
  define_row(g, "embed", &body);
}

/* rms_norm of the stream into the input of products. `norm` is an expression. */
static void add_norm(lap_text *body, const char *norm, const char *forms) {
  lap_text_add(body,
               "  lap_row_norm(HIDDEN, EPS, %s, lap_row_at(s, AT_HIDDEN, HIDDEN, row), %s,\n"
               "               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);\n",
               forms, norm);
}

static void add_back(lap_text *body, const char *norm) {
  lap_text_add(body,
               "  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_OUTPUT, HIDDEN, row), s->w->vector[%s],\n"
               "                   lap_row_at(s, AT_HIDDEN, HIDDEN, row));\n",
               norm);
}

static void add_scalar(lap_text *body) {
  lap_text_add(body,
               "  lap_row_scale(HIDDEN, s->w->vector[LAP_LAYER_SCALAR][0], lap_row_at(s, AT_HIDDEN, HIDDEN, "
               "row));\n");
}

static const char *define_norm(generator *g, const char *name, const char *norm, const char *forms) {
  lap_text body = {0};
  add_norm(&body, norm, forms);
  return define_row(g, name, &body);
}

static const char *define_quantize(generator *g, const char *name, int width, const char *forms,
                                   const char *at) {
  lap_text body = {0};
  lap_text_add(&body,
               "  const lap_input input = lap_input_at(s, %d, %s, %s, %s_FORMS);\n"
               "  lap_input_fill(%d, %s, lap_row_at(s, %s, %d, row), &input, row);\n",
               width, forms, at, at, width, forms, at, width);
  return define_row(g, name, &body);
}

static const char *define_keys(generator *g, const lap_layer *layer) {
  lap_text body = {0};
  char name[96];
  const char *type = type_capitals(layer->attention);
  const int width = layer->kv_heads * layer->head_dim;
  snprintf(name, sizeof name, "keys_%s_%s%s", lap_attention_name(layer->attention), cache_word(layer).text,
           layer->k_eq_v ? "_k_is_v" : "");
  lap_text_add(
      &body,
      "  const lap_row *token = &s->pass->row[row];\n"
      "  lap_row_keys(%d, %d, PAIRS_%s, EPS, %d, %d, %d, lap_row_at(s, AT_KEY, %d, row), lap_row_at(s, "
      "AT_VALUE, %d, row),\n"
      "               s->w->vector[LAP_K_NORM], lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row),\n"
      "               lap_row_at(s, AT_SINE_%s, PAIRS_%s, row), &lap_pass_kv(s->pass, token->segment, "
      "s->cache)->planes,\n"
      "               token->position);\n",
      layer->kv_heads, layer->head_dim, type, layer->k_eq_v, lap_cut_cache_bits(layer),
      lap_cut_cache_group(layer), width, width, type, type, type, type);
  return define_row(g, name, &body);
}

static const char *define_queries(generator *g, const lap_layer *layer) {
  lap_text body = {0};
  char name[96];
  const char *type = type_capitals(layer->attention);
  snprintf(name, sizeof name, "queries_%s", lap_attention_name(layer->attention));
  lap_text_add(
      &body,
      "  lap_row_queries(%d, %d, PAIRS_%s, EPS, lap_row_at(s, AT_QUERY, %d, row), "
      "s->w->vector[LAP_Q_NORM],\n"
      "                  lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row), lap_row_at(s, AT_SINE_%s, PAIRS_%s, "
      "row));\n",
      layer->heads, layer->head_dim, type, layer->heads * layer->head_dim, type, type, type, type);
  return define_row(g, name, &body);
}

static const char *define_add_attention(generator *g) {
  lap_text body = {0};
  add_back(&body, "LAP_POST_ATTENTION_NORM");
  add_norm(&body, "s->w->vector[LAP_PRE_FEEDFORWARD_NORM]", "NORMED_FORMS");
  return define_row(g, "add_attention", &body);
}

static const char *define_add_feed_forward(generator *g, const lap_layer *layer) {
  lap_text body = {0};
  char name[96];
  const bool last = g->plan->per_layer_width == 0; /* of the layer's parts */
  snprintf(name, sizeof name, "add_feed_forward%s%s", layer->moe ? "_and_experts" : "",
           last && layer->has_layer_scalar ? "_scaled" : "");
  if (layer->moe)
    lap_text_add(&body,
                 "  float *dense = lap_row_at(s, AT_OUTPUT, HIDDEN, row);\n"
                 "  LAP_ISA(lap_rms_norm)(dense, s->w->vector[LAP_POST_FEEDFORWARD_NORM_1], HIDDEN, EPS, "
                 "dense);\n"
                 "  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_NORMED, HIDDEN, row), "
                 "s->w->vector[LAP_POST_FEEDFORWARD_NORM_2], dense);\n");
  add_back(&body, "LAP_POST_FEEDFORWARD_NORM");
  if (last && layer->has_layer_scalar) add_scalar(&body);
  if (!last)
    lap_text_add(&body,
                 "  lap_input_fill(HIDDEN, NORMED_FORMS, lap_row_at(s, AT_HIDDEN, HIDDEN, row), &s->normed, "
                 "row);\n");
  return define_row(g, name, &body);
}

static const char *define_gate_per_layer(generator *g) {
  const lap_plan *plan = g->plan;
  lap_text body = {0};
  lap_text_add(
      &body,
      "  const lap_weights *weights = s->pass->memory.weights;\n"
      "  const lap_input input = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);\n"
      "  float table[PER_LAYER], *pli = lap_row_at(s, AT_PLI, PER_LAYER, row), *gate = lap_row_at(s, "
      "AT_GATE, "
      "PER_LAYER, row);\n"
      "  lap_table_row(%d, %d, %s, LAYERS * PER_LAYER, &weights->embed_per_layer, "
      "s->pass->row[row].per_layer_id,\n"
      "                s->layer * PER_LAYER, PER_LAYER, %af, table);\n"
      "  lap_row_per_layer_input(PER_LAYER, EPS, %af, weights->per_layer_norm, table, pli);\n"
      "  LAP_ISA(lap_geglu)(gate, pli, PER_LAYER, gate);\n"
      "  lap_input_fill(PER_LAYER, PER_LAYER_FORMS, gate, &input, row);\n",
      plan->embed_per_layer.bits, plan->embed_per_layer.bits ? plan->embed_per_layer.group_size : 64,
      format_word(plan->embed_per_layer.dtype), (double)plan->per_layer_embed_scale,
      (double)plan->per_layer_projection_scale);
  return define_row(g, "gate_per_layer_input", &body);
}

static const char *define_add_per_layer(generator *g, const lap_layer *layer) {
  lap_text body = {0};
  add_back(&body, "LAP_POST_PLI_NORM");
  if (layer->has_layer_scalar) add_scalar(&body);
  return define_row(g, layer->has_layer_scalar ? "add_per_layer_input_scaled" : "add_per_layer_input", &body);
}

/* ---- attention ---- */

static function_name attend_word(const lap_layer *layer) {
  function_name name;
  snprintf(name.text, sizeof name.text, "%s_%s", lap_attention_name(layer->attention),
           cache_word(layer).text);
  return name;
}

/* Returns the name of the function that gives the shape. */
static const char *define_shape(generator *g, const lap_layer *layer) {
  lap_text text = {0};
  lap_text_add(
      &text,
      "(void) {\n  return (lap_attend_shape){.heads = %d, .kv_heads = %d, .head_dim = %d, .window = %d, "
      ".bits = %d, .group_size = %d};\n}\n",
      layer->heads, layer->kv_heads, layer->head_dim, layer->window, lap_cut_cache_bits(layer),
      lap_cut_cache_group(layer));
  return lap_writer_function(&g->writer, LAP_SECTION_ATTENTION, "LAP_INLINE lap_attend_shape ",
                             attend_word(layer).text, &text);
}

static const char *define_attention(generator *g, const lap_layer *layer) {
  lap_text tile = {0}, fold = {0}, run = {0};
  char name[160];
  const char *shape = define_shape(g, layer);
  snprintf(name, sizeof name, "tile_%s", shape);
  lap_text_add(&tile, "(void *run, int task, int thread) {\n  lap_attend_tile(%s(), run, task, thread);\n}\n",
               shape);
  const char *tile_name = lap_writer_function(&g->writer, LAP_SECTION_ATTENTION, "static void ", name, &tile);
  snprintf(name, sizeof name, "fold_%s", shape);
  lap_text_add(&fold,
               "(void *run, int task, int thread) {\n  (void)thread;\n  lap_attend_fold_spans(%s(), run, "
               "task);\n}\n",
               shape);
  const char *fold_name = lap_writer_function(&g->writer, LAP_SECTION_ATTENTION, "static void ", name, &fold);
  snprintf(name, sizeof name, "attend_%s", shape);
  lap_text_add(
      &run,
      "(const lap_step *s) {\n"
      "  static const lap_attend_code code = {LAP_ATTENTION_TILED, %s, %s};\n"
      "  lap_run_attention(%s(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), s->cache);\n}\n",
      tile_name, fold_name, shape);
  return lap_writer_function(&g->writer, LAP_SECTION_ATTENTION, "static void ", name, &run);
}

/* ---- experts ---- */

static void define_expert_task(generator *g, const char *name, const char *body) {
  lap_text text = {0};
  lap_text_add(&text, "(void *run, int row) {\n  %s(experts_shape(), run, row);\n}\n", body);
  lap_writer_function(&g->writer, LAP_SECTION_EXPERTS, "static void ", name, &text);
}

static void define_experts(generator *g) {
  const lap_plan *plan = g->plan;
  lap_text text = {0};
  lap_text_add(
      &text,
      "(void) {\n  return (lap_experts_shape){.hidden = HIDDEN, .experts = %d, .top_k = %d, .width = "
      "%d, .eps = EPS,\n"
      "                             .router_forms = ROUTER_FORMS, .forms = EXPERT_FORMS, "
      ".wide_forms = EXPERT_WIDE_FORMS, .wide_floats = %d};\n}\n",
      plan->num_experts, plan->top_k_experts, plan->moe_width, g->layout.forms.expert_floats);
  lap_writer_function(&g->writer, LAP_SECTION_EXPERTS, "LAP_INLINE lap_experts_shape ", "experts_shape",
                      &text);
  define_expert_task(g, "norm_router", "lap_experts_norm_router");
  define_expert_task(g, "gather_slot", "lap_experts_gather");
}

/* ---- a kind of layer ---- */

static void add_rows(lap_text *text, const char *indent, const char *task) {
  lap_text_add(text, "%slap_run_rows(&p->team, p->rows, %s, s);\n", indent, task);
}

static const char *const linear_words[LAP_LAYER_LINEARS] = {
    [LAP_Q_PROJ] = "LAP_Q_PROJ",
    [LAP_K_PROJ] = "LAP_K_PROJ",
    [LAP_V_PROJ] = "LAP_V_PROJ",
    [LAP_O_PROJ] = "LAP_O_PROJ",
    [LAP_DOWN_PROJ] = "LAP_DOWN_PROJ",
    [LAP_PLI_GATE] = "LAP_PLI_GATE",
    [LAP_PLI_PROJECTION] = "LAP_PLI_PROJECTION",
};

/* A call of `function`, lap_step_linear or lap_step_run, for one linear. */
static void add_linear(generator *g, lap_text *text, const lap_cut_kind *kind, const char *function,
                       lap_layer_linear which, const char *input, const char *y) {
  const lap_linear *linear = &g->plan->layer[kind->first].linear[which];
  lap_text_add(text, "%s(s, %s, %s, %d, %d, &%s, %s)", function, product_of(g, kind, which).text,
               linear_words[which], linear->out_features, linear->in_features, input, y);
}

static void add_one_product(generator *g, lap_text *text, const lap_cut_kind *kind, lap_layer_linear which,
                            const char *input, const char *y) {
  lap_text_add(text, "  ");
  add_linear(g, text, kind, "lap_step_run", which, input, y);
  lap_text_add(text, ";\n");
}

/* Products of the layer's input: with `keys` K and V, with `queries` Q and the per-layer input's part. */
static void add_input_products(generator *g, lap_text *text, const lap_cut_kind *kind, const char *indent,
                               bool keys, bool queries) {
  const lap_plan *plan = g->plan;
  const lap_layer *layer = &plan->layer[kind->first];
  const struct {
    bool wanted;
    lap_layer_linear which;
    const char *y;
  } list[] = {{keys, LAP_K_PROJ, "AT_KEY"},
              {keys && !layer->k_eq_v, LAP_V_PROJ, "AT_VALUE"},
              {queries, LAP_Q_PROJ, "AT_QUERY"}};
  int count = 0;
  lap_text_add(text, "%slap_run_products(&p->team, (const lap_product[]){\n", indent);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    if (!list[i].wanted) continue;
    lap_text_add(text, "%s    ", indent);
    add_linear(g, text, kind, "lap_step_linear", list[i].which, "s->normed", list[i].y);
    lap_text_add(text, ",\n");
    count++;
  }
  if (queries && plan->per_layer_width) {
    lap_text_add(text, "%s    lap_step_product(s, %s, &s->w->pli_rows, %d, %d, &s->embedded, AT_PLI),\n",
                 indent, define_product(g, &plan->per_layer_projection), plan->per_layer_width,
                 plan->hidden_size);
    count++;
  }
  lap_text_add(text, "%s}, %d);\n", indent, count);
}

static void add_heads(generator *g, lap_text *text, const lap_cut_kind *kind) {
  const lap_layer *layer = &g->plan->layer[kind->first];
  const bool last = kind->first == g->layout.last;
  lap_text_add(text, "  /* %sq = W norm(h) */\n",
               layer->sharer ? "" : (layer->k_eq_v ? "k (v is the same), " : "k, v, "));
  add_rows(text, "  ", define_norm(g, "norm_input", "s->w->vector[LAP_INPUT_NORM]", "NORMED_FORMS"));
  if (last) {
    lap_text_add(text,
                 "  if (lap_has_unwanted_rows(p)) {\n    /* All later layers read what is stored now: "
                 "rows that nobody wants logits of end here. */\n");
    add_input_products(g, text, kind, "    ", true, false);
    add_rows(text, "    ", define_keys(g, layer));
    lap_text_add(text, "    drop_rows(s);\n    if (p->rows == 0) return;\n");
    add_rows(text, "    ", "norm_input");
    add_input_products(g, text, kind, "    ", false, true);
    lap_text_add(text, "  } else {\n");
    add_input_products(g, text, kind, "    ", true, true);
    add_rows(text, "    ", define_keys(g, layer));
    lap_text_add(text, "  }\n");
  } else {
    add_input_products(g, text, kind, "  ", !layer->sharer, true);
    if (!layer->sharer) {
      lap_text_add(text, "  /* k = rope(norm(k)), v = norm(v), into the cache; q = rope(norm(q)) */\n");
      add_rows(text, "  ", define_keys(g, layer));
    }
  }
  add_rows(text, "  ", define_queries(g, layer));
}

static void add_attention(generator *g, lap_text *text, const lap_cut_kind *kind) {
  const lap_layer *layer = &g->plan->layer[kind->first];
  const int width = layer->heads * layer->head_dim;
  char name[64];
  lap_text_add(text, "  %s(s);\n  /* h = h + norm(W attention) */\n", define_attention(g, layer));
  snprintf(name, sizeof name, "quantize_attention_%d", width);
  add_rows(text, "  ", define_quantize(g, name, width, "ATTENTION_FORMS", "AT_QUERY"));
  lap_text_add(text, "  wide = lap_input_at(s, %d, ATTENTION_FORMS, AT_QUERY, AT_QUERY_FORMS);\n", width);
  add_one_product(g, text, kind, LAP_O_PROJ, "wide", "AT_OUTPUT");
  add_rows(text, "  ", define_add_attention(g));
}

static void add_mlp(generator *g, lap_text *text, const lap_cut_kind *kind) {
  const lap_layer *layer = &g->plan->layer[kind->first];
  const int width = layer->mlp_width;
  lap_text_add(text,
               "  /* h = h + norm(W_down (gelu(W_gate y) * W_up y)), y = norm(h) */\n"
               "  wide = lap_input_at(s, %d, MLP_FORMS, AT_GATE, AT_GATE_FORMS);\n"
               "  lap_step_gate_up(s, %s, %d, HIDDEN, &wide, %d);\n",
               width, product_of(g, kind, LAP_GATE_PROJ).text, width, g->layout.forms.mlp_floats);
  add_one_product(g, text, kind, LAP_DOWN_PROJ, "wide", "AT_OUTPUT");
}

static void add_experts(generator *g, lap_text *text, const lap_cut_kind *kind) {
  lap_text_add(text, "  /* and the experts' sum, over a norm of its own */\n");
  add_rows(text, "  ", define_norm(g, "norm_experts", "s->w->vector[LAP_PRE_FEEDFORWARD_NORM_2]", "0"));
  define_experts(g);
  lap_text_add(text, "  const lap_experts_code experts = {norm_router, gather_slot, %s, %s, %s};\n",
               product_of(g, kind, LAP_ROUTER).text, product_of(g, kind, LAP_EXPERT_GATE).text,
               product_of(g, kind, LAP_EXPERT_DOWN).text);
  lap_text_add(
      text,
      "  lap_run_experts(experts_shape(), &experts, p, layer, s->experts, lap_at(s, AT_HIDDEN), lap_at(s, "
      "AT_NORMED));\n");
}

static void add_per_layer_input(generator *g, lap_text *text, const lap_cut_kind *kind) {
  const lap_layer *layer = &g->plan->layer[kind->first];
  lap_text_add(text, "  /* h = %s(h + norm(W_back (gelu(W_gate h) * pli))) */\n",
               layer->has_layer_scalar ? "scalar * " : "");
  lap_text_add(text, "  lap_input hidden = s->normed;\n  hidden.x = lap_at(s, AT_HIDDEN);\n");
  add_one_product(g, text, kind, LAP_PLI_GATE, "hidden", "AT_GATE");
  add_rows(text, "  ", define_gate_per_layer(g));
  lap_text_add(text, "  lap_pass_show(p, \"per_layer_input\", layer, lap_at(s, AT_PLI), PER_LAYER);\n");
  lap_text_add(text, "  wide = lap_input_at(s, PER_LAYER, PER_LAYER_FORMS, AT_GATE, AT_GATE_FORMS);\n");
  add_one_product(g, text, kind, LAP_PLI_PROJECTION, "wide", "AT_OUTPUT");
  add_rows(text, "  ", define_add_per_layer(g, layer));
}

static void add_layer_list(const generator *g, int kind, lap_text *text) {
  const int layers = g->plan->layers;
  const char *comma = "";
  for (int i = 0; i < layers; i++) {
    if (g->layout.kind_of[i] != kind) continue;
    int end = i;
    while (end + 1 < layers && g->layout.kind_of[end + 1] == kind) end++;
    if (end > i)
      lap_text_add(text, "%s %d-%d", comma, i, end);
    else
      lap_text_add(text, "%s %d", comma, i);
    comma = ",";
    i = end;
  }
}

/* Returns the function's name. */
static const char *define_kind(generator *g, int index) {
  lap_cut_kind *kind = &g->layout.kind[index];
  const lap_layer *layer = &g->plan->layer[kind->first];
  lap_text text = {0}, before = {0};
  lap_text_add(&before, "/* Layer");
  add_layer_list(g, index, &before);
  lap_text_add(&before, ". */\nstatic void ");
  lap_text_add(&text,
               "(lap_step *s, int layer, int cache%s) {\n  lap_pass *p = s->pass;\n  lap_input wide;\n"
               "  lap_step_begin(s, layer, cache);\n",
               kind_varies(kind) ? ", const formats *f" : "");
  add_heads(g, &text, kind);
  add_attention(g, &text, kind);
  add_mlp(g, &text, kind);
  if (layer->moe) add_experts(g, &text, kind);
  add_rows(&text, "  ", define_add_feed_forward(g, layer));
  if (g->plan->per_layer_width) add_per_layer_input(g, &text, kind);
  lap_text_add(&text, "  lap_pass_show(p, \"layer\", layer, lap_at(s, AT_HIDDEN), HIDDEN);\n}\n");
  if (before.failed) g->writer.failed = true;
  g->varies = g->varies || kind_varies(kind);
  const char *name =
      lap_writer_function(&g->writer, LAP_SECTION_KINDS, before.data ? before.data : "", kind->name, &text);
  lap_text_free(&before);
  return name;
}

/* ---- the whole file ---- */

static void add_number(lap_text *out, const char *name, long value) {
  if (value >= 0) lap_text_add(out, "  %s = %ld,\n", name, value);
}

static void add_constants(const generator *g, lap_text *out) {
  const lap_plan *plan = g->plan;
  const lap_cut_places *at = &g->layout.at;
  const lap_plan_forms *forms = &g->layout.forms;
  const bool pli = plan->per_layer_width > 0, moe = plan->num_experts > 0;
  const struct {
    const char *name;
    long value;
  } sizes[] = {{"HIDDEN", plan->hidden_size},
               {"VOCAB", plan->vocab_size},
               {"LAYERS", pli ? plan->layers : -1},
               {"PER_LAYER", pli ? plan->per_layer_width : -1},
               {"PAIRS_SLIDING", plan->rope[LAP_SLIDING].rotated_pairs},
               {"PAIRS_FULL", plan->rope[LAP_FULL].rotated_pairs},
               {"NORMED_FORMS", forms->normed},
               {"EMBEDDED_FORMS", pli ? forms->embedded : -1},
               {"ATTENTION_FORMS", forms->attention},
               {"MLP_FORMS", forms->mlp},
               {"PER_LAYER_FORMS", pli ? forms->per_layer : -1},
               {"ROUTER_FORMS", moe ? forms->router : -1},
               {"EXPERT_FORMS", moe ? forms->expert : -1},
               {"EXPERT_WIDE_FORMS", moe ? forms->expert_wide : -1}},
    places[] = {{"AT_HIDDEN", at->hidden},
                {"AT_EMBEDDED", at->embedded},
                {"AT_EMBEDDED_FORMS", at->embedded_forms},
                {"AT_COSINE_SLIDING", at->cosine[LAP_SLIDING]},
                {"AT_SINE_SLIDING", at->sine[LAP_SLIDING]},
                {"AT_COSINE_FULL", at->cosine[LAP_FULL]},
                {"AT_SINE_FULL", at->sine[LAP_FULL]},
                {"AT_NORMED", at->normed},
                {"AT_NORMED_FORMS", at->normed_forms},
                {"AT_PLI", at->pli},
                {"AT_OUTPUT", at->output},
                {"AT_QUERY", at->query},
                {"AT_KEY", at->key},
                {"AT_VALUE", at->value},
                {"AT_QUERY_FORMS", at->query_forms},
                {"AT_GATE", at->gate},
                {"AT_GATE_FORMS", at->gate_forms},
                {"AT_TILES", at->tiles},
                {"ROW_BYTES", at->row_bytes}};
  lap_text_add(out,
               "/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */\n\n"
               "enum {\n");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) add_number(out, sizes[i].name, sizes[i].value);
  lap_text_add(out, "};\n#define EPS %af\n\n", (double)plan->rms_norm_eps);
  lap_text_add(out,
               "/* ---- the arena: where activations stand, in bytes times rows. Gate takes the room of "
               "queries, keys\n"
               " * and values. ---- */\n\nenum {\n");
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    add_number(out, places[i].name, places[i].value);
  lap_text_add(out, "};\n\n");
}

static void add_place_inputs(const generator *g, lap_text *out) {
  lap_text_add(out,
               "static void place_inputs(lap_step *s) {\n"
               "  s->normed = lap_input_at(s, HIDDEN, NORMED_FORMS, AT_NORMED, AT_NORMED_FORMS);\n");
  if (g->plan->per_layer_width)
    lap_text_add(
        out, "  s->embedded = lap_input_at(s, HIDDEN, EMBEDDED_FORMS, AT_EMBEDDED, AT_EMBEDDED_FORMS);\n");
  lap_text_add(out, "}\n\n");
}

static void add_drop_rows(const generator *g, lap_text *out) {
  const bool pli = g->plan->per_layer_width > 0;
  lap_text_add(out,
               "static void drop_rows(lap_step *s) {\n"
               "  const lap_kept kept[] = {{lap_at(s, AT_HIDDEN), HIDDEN},\n"
               "                           {lap_at(s, AT_COSINE_SLIDING), PAIRS_SLIDING},\n"
               "                           {lap_at(s, AT_SINE_SLIDING), PAIRS_SLIDING},\n"
               "                           {lap_at(s, AT_COSINE_FULL), PAIRS_FULL},\n"
               "                           {lap_at(s, AT_SINE_FULL), PAIRS_FULL}%s};\n"
               "  lap_drop_unwanted_rows(s->pass, kept, %d);\n  place_inputs(s);\n%s}\n\n",
               pli ? ",\n                           {lap_at(s, AT_EMBEDDED), HIDDEN}" : "", pli ? 6 : 5,
               pli ? "  lap_run_rows(&s->pass->team, s->pass->rows, quantize_embedding, s);\n" : "");
}

/* The memory of attention does not depend on the kind of cache: one shape for each type of layer is enough.
 */
static void add_memory(generator *g, lap_text *out) {
  const lap_plan *plan = g->plan;
  lap_text_add(out,
               "/* Points everything into the arena, or, without one, adds up its bytes. */\n"
               "static size_t place(lap_step *s, lap_pass *pass) {\n"
               "  const lap_attend_shape shapes[] = {\n");
  for (int k = 0; k < g->layout.kinds; k++) {
    const lap_layer *layer = &plan->layer[g->layout.kind[k].first];
    bool seen = false;
    for (int j = 0; j < k && !seen; j++) {
      const lap_layer *other = &plan->layer[g->layout.kind[j].first];
      seen = other->head_dim == layer->head_dim && other->heads == layer->heads &&
             other->kv_heads == layer->kv_heads && other->window == layer->window;
    }
    if (!seen) lap_text_add(out, "      %s(),\n", define_shape(g, layer));
  }
  lap_text_add(
      out,
      "  };\n"
      "  size_t used = (size_t)pass->capacity * ROW_BYTES;\n"
      "  unsigned char *arena = pass->memory.arena;\n"
      "  *s = (lap_step){.pass = pass};\n"
      "  used += lap_attend_place_memory(shapes, (int)(sizeof shapes / sizeof *shapes), pass, arena ? "
      "arena + used : NULL,\n"
      "                                  &s->attention);\n");
  if (plan->num_experts)
    lap_text_add(out,
                 "  lap_experts_run experts;\n"
                 "  s->experts = arena ? arena + used : NULL;\n"
                 "  used += lap_experts_place(experts_shape(), &experts, NULL);\n");
  lap_text_add(out,
               "  if (!arena) return used;\n"
               "  s->attention.tiles = (lap_tile *)(void *)lap_bytes_at(s, AT_TILES);\n"
               "  place_inputs(s);\n"
               "  return used;\n}\n\n"
               "static size_t arena_bytes(const lap_pass *pass) {\n"
               "  lap_pass sized = *pass;\n"
               "  lap_step s;\n"
               "  sized.memory.arena = NULL;\n"
               "  return place(&s, &sized);\n"
               "}\n\n");
}

static void add_formats(generator *g, lap_text *out, int32_t index) {
  const lap_cut_kind *kind = &g->layout.kind[g->layout.kind_of[index]];
  const char *comma = "";
  lap_text_add(out, ", &(const formats){");
  for (int i = 0; i < PRODUCT_SLOTS; i++) {
    if (!slot_varies(kind, &product_slots[i])) continue;
    lap_text_add(out, "%s.%s = %s", comma, product_slots[i].field,
                 define_slot(g, &g->plan->layer[index], &product_slots[i]));
    comma = ", ";
  }
  lap_text_add(out, "}");
}

static void add_forward(generator *g, const char *const *names, lap_text *out) {
  const lap_plan *plan = g->plan;
  lap_text_add(out,
               "static void forward(lap_pass *p) {\n"
               "  lap_step s;\n"
               "  place(&s, p);\n"
               "  lap_run_rows(&p->team, p->rows, embed, &s);\n"
               "  lap_pass_show(p, \"embedding\", -1, lap_at(&s, AT_HIDDEN), HIDDEN);\n");
  for (int32_t i = 0; i < plan->layers; i++) {
    lap_text_add(out, "  %s(&s, %d, %d", names[g->layout.kind_of[i]], i, plan->layer[i].cache);
    if (kind_varies(&g->layout.kind[g->layout.kind_of[i]])) add_formats(g, out, i);
    lap_text_add(out, ");\n");
    if (i == g->layout.last) lap_text_add(out, "  if (p->rows == 0) return;\n");
  }
  lap_text_add(out,
               "  lap_run_rows(&p->team, p->rows, norm_final, &s);\n"
               "  lap_pass_show(p, \"final_norm\", %d, lap_at(&s, AT_NORMED), HIDDEN);\n"
               "  lap_give_hidden(p, lap_at(&s, AT_NORMED), HIDDEN);\n"
               "  lap_run_head(p, multiply_head, VOCAB, HIDDEN, &s.normed);\n"
               "}\n\n",
               plan->layers);
}

static void add_entry(const generator *g, const char *fingerprint, lap_text *out) {
  const lap_plan *plan = g->plan;
  lap_text_add(out, "static const lap_cut_cache caches[] = {\n");
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    lap_text_add(out, "    {.kv_heads = %d, .head_dim = %d, .window = %d, .bits = %d, .group_size = %d},\n",
                 layer->kv_heads, layer->head_dim, layer->window, lap_cut_cache_bits(layer),
                 lap_cut_cache_group(layer));
  }
  lap_text_add(out,
               "};\n\n"
               "extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_%s);\n"
               "const lap_cut LAP_ISA(lap_cut_%s) = {\n"
               "    .abi = LAP_PASS_ABI,\n"
               "    .contract = LAP_KERNEL_CONTRACT,\n"
               "    .fingerprint = \"%s\",\n"
               "    .isa = LAP_ISA_NAME,\n"
               "    .caches = %d,\n"
               "    .cache = caches,\n"
               "    .code = {arena_bytes, forward},\n"
               "};\n",
               fingerprint, fingerprint, fingerprint, plan->caches);
}

static void add_head_comment(const generator *g, const char *name, const char *fingerprint,
                             const char *const *names, lap_text *out) {
  const lap_plan *plan = g->plan;
  const word embed = weight_word(&plan->embed);
  lap_text_add(out,
               "/* Generated, do not edit. Made again by\n *     lapidary cut %.100s --emit FILE\n *\n"
               " * The forward pass of %s: %d layers, hidden %d, vocabulary %d, embedding %s.\n"
               " * Fingerprint %s; generator %d, pass interface %d, kernel contract %d.\n *\n",
               name, name, plan->layers, plan->hidden_size, plan->vocab_size, embed.text, fingerprint,
               LAP_GENERATOR_VERSION, LAP_PASS_ABI, LAP_KERNEL_CONTRACT);
  lap_text_add(
      out,
      " * Read `forward` at the end first. A kind of layer is named by what it is: it computes its own\n"
      " * keys and values (donor) or reads those of another layer (sharer); its attention (sliding, full);\n"
      " * its cache (plain, or g64b4 for 4 bits in groups of 64); v or k_is_v; per-layer input (pli); "
      "experts\n"
      " * (moe); a layer scalar; export, where sharers read its cache; last, where rows without wanted "
      "logits\n"
      " * leave.\n *\n");
  for (int k = 0; k < g->layout.kinds; k++) {
    lap_text_add(out, " *     %-48s layer", names[k]);
    add_layer_list(g, k, out);
    lap_text_add(out, "\n");
  }
  lap_text_add(out, " */\n");
}

static const char *const section_titles[LAP_SECTIONS] = {
    [LAP_SECTION_PRODUCTS] =
        "products: rows first..last-1 of y = x W^T, W of so many bits in groups, and columns",
    [LAP_SECTION_ROWS] = "row by row",
    [LAP_SECTION_ATTENTION] = "attention",
    [LAP_SECTION_EXPERTS] = "experts",
    [LAP_SECTION_KINDS] = "kinds of layer",
};

static void add_section(const generator *g, lap_section section, lap_text *out) {
  const lap_text *text = &g->writer.section[section];
  if (text->length) lap_text_add(out, "/* ---- %s ---- */\n\n%s", section_titles[section], text->data);
}

static void add_formats_type(const generator *g, lap_text *out) {
  if (!g->varies) return;
  lap_text_add(out,
               "/* Products that differ between layers of one kind, by the bits of their weights. */\n"
               "typedef struct formats {\n");
  for (int i = 0; i < PRODUCT_SLOTS; i++) {
    bool used = false;
    for (int k = 0; k < g->layout.kinds; k++)
      used = used || slot_varies(&g->layout.kind[k], &product_slots[i]);
    if (used) lap_text_add(out, "  lap_multiply *%s;\n", product_slots[i].field);
  }
  lap_text_add(out, "} formats;\n\n");
}

static void assemble(generator *g, const char *name, const char *fingerprint, const char *const *names,
                     lap_text *out) {
  lap_text forward = {0};
  add_forward(g, names, &forward); /* may still ask for products */
  add_head_comment(g, name, fingerprint, names, out);
  lap_text_add(out, "%s#include \"pass/head.h\"\n#include \"pass/rows.h\"\n#include \"pass/step.h\"\n\n",
               g->plan->num_experts > 0 ? "#include \"pass/experts.h\"\n" : "");
  add_constants(g, out);
  add_section(g, LAP_SECTION_PRODUCTS, out);
  add_section(g, LAP_SECTION_ROWS, out);
  add_place_inputs(g, out);
  add_drop_rows(g, out);
  add_section(g, LAP_SECTION_ATTENTION, out);
  add_section(g, LAP_SECTION_EXPERTS, out);
  add_formats_type(g, out);
  add_section(g, LAP_SECTION_KINDS, out);
  lap_text_add(out, "/* ---- the pass ---- */\n\n");
  add_memory(g, out);
  lap_text_add(out, "%s", forward.data ? forward.data : "");
  if (forward.failed) g->writer.failed = true;
  lap_text_free(&forward);
  add_entry(g, fingerprint, out);
}

static lap_status write_source(generator *g, const char *name, lap_text *out, lap_error *error) {
  char fingerprint[LAP_PLAN_FINGERPRINT_BYTES];
  const char **names = calloc((size_t)g->layout.kinds, sizeof *names);
  if (!names) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for generated code");
  lap_status status = lap_cut_fingerprint(g->plan, fingerprint, error);
  if (status == LAP_OK) {
    define_head(g);
    define_embedding(g);
    for (int k = 0; k < g->layout.kinds; k++) names[k] = define_kind(g, k);
    define_norm(g, "norm_final", "s->pass->memory.weights->final_norm", "NORMED_FORMS");
    assemble(g, name, fingerprint, names, out);
    status = lap_writer_status(&g->writer, error);
  }
  free(names);
  return status;
}

lap_status lap_cut_generate(const lap_plan *plan, const char *path, char **source, size_t *length,
                            lap_error *error) {
  const char *slash = strrchr(path, '/');
  const char *name = slash && slash[1] ? slash + 1 : path;
  generator g = {.plan = plan};
  lap_text out = {0};
  *source = NULL;
  lap_status status = lap_cut_lay_out(plan, &g.layout, error);
  if (status == LAP_OK) status = write_source(&g, name, &out, error);
  if (status == LAP_OK) status = lap_text_take(&out, source, length, error);
  lap_text_free(&out);
  lap_writer_free(&g.writer);
  lap_cut_layout_free(&g.layout);
  return status;
}
