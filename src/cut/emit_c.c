/* emit_c.c: from top to bottom: words, products, what is done row by row, attention, experts, statements; the
 * table of templates; a part.
 *
 * Text that is printed stands here as it will look. */
#include "cut/emit_c.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- words ---- */

lap_word lap_weight_word(const lap_linear *linear) {
  static const char *const dense[] = {"f32", "f16", "bf16"};
  static const char *const suffix[] = {"f32", "f16", ""};
  lap_word name;
  int format = linear->dtype == LAP_F32 ? 0 : linear->dtype == LAP_F16 ? 1 : 2;
  if (linear->bits == 0)
    snprintf(name.text, sizeof name.text, "%s", dense[format]);
  else
    snprintf(name.text, sizeof name.text, "%dg%d%s", linear->bits, linear->group_size, suffix[format]);
  return name;
}

lap_word lap_capitals(const char *name) {
  lap_word word;
  size_t i = 0;
  for (; name[i] && i < sizeof word.text - 1; i++) word.text[i] = (char)toupper((unsigned char)name[i]);
  word.text[i] = '\0';
  return word;
}

static lap_word place_word(lap_buffer buffer) {
  lap_word word;
  snprintf(word.text, sizeof word.text, "AT_%.64s", lap_capitals(lap_buffer_name(buffer)).text);
  return word;
}

static lap_word forms_word(lap_product_input input) {
  lap_word word;
  snprintf(word.text, sizeof word.text, "%.64s_FORMS", lap_capitals(lap_input_name(input)).text);
  return word;
}

/* A width that has a name where it is written as one: the stream's, a row's RoPE, the per-layer input's. */
static const char *width_word(lap_buffer buffer) {
  switch (buffer) {
    case LAP_BUFFER_COSINE_SLIDING:
    case LAP_BUFFER_SINE_SLIDING:
      return "PAIRS_SLIDING";
    case LAP_BUFFER_COSINE_FULL:
    case LAP_BUFFER_SINE_FULL:
      return "PAIRS_FULL";
    case LAP_BUFFER_PLI:
      return "PER_LAYER";
    default:
      return "HIDDEN";
  }
}

static const char *type_capitals(lap_attention attention) {
  return attention == LAP_FULL ? "FULL" : "SLIDING";
}

static const char *format_word(lap_dtype dtype) {
  return dtype == LAP_F32 ? "LAP_FORMAT_F32" : dtype == LAP_F16 ? "LAP_FORMAT_F16" : "LAP_FORMAT_BF16";
}

static const char *linear_word(int weight) {
  static const char *const words[LAP_LAYER_LINEARS] = {
      [LAP_Q_PROJ] = "LAP_Q_PROJ",       [LAP_K_PROJ] = "LAP_K_PROJ",
      [LAP_V_PROJ] = "LAP_V_PROJ",       [LAP_O_PROJ] = "LAP_O_PROJ",
      [LAP_DOWN_PROJ] = "LAP_DOWN_PROJ", [LAP_PLI_PROJECTION] = "LAP_PLI_PROJECTION",
  };
  return words[weight];
}

static const char *vector_word(int vector) {
  static const char *const words[] = {
      [LAP_INPUT_NORM] = "s->w->vector[LAP_INPUT_NORM]",
      [LAP_POST_ATTENTION_NORM] = "s->w->vector[LAP_POST_ATTENTION_NORM]",
      [LAP_PRE_FEEDFORWARD_NORM] = "s->w->vector[LAP_PRE_FEEDFORWARD_NORM]",
      [LAP_POST_FEEDFORWARD_NORM] = "s->w->vector[LAP_POST_FEEDFORWARD_NORM]",
      [LAP_PRE_FEEDFORWARD_NORM_2] = "s->w->vector[LAP_PRE_FEEDFORWARD_NORM_2]",
      [LAP_POST_FEEDFORWARD_NORM_1] = "s->w->vector[LAP_POST_FEEDFORWARD_NORM_1]",
      [LAP_POST_FEEDFORWARD_NORM_2] = "s->w->vector[LAP_POST_FEEDFORWARD_NORM_2]",
      [LAP_Q_NORM] = "s->w->vector[LAP_Q_NORM]",
      [LAP_K_NORM] = "s->w->vector[LAP_K_NORM]",
      [LAP_POST_PLI_NORM] = "s->w->vector[LAP_POST_PLI_NORM]",
      [LAP_LAYER_SCALAR] = "s->w->vector[LAP_LAYER_SCALAR]",
      [LAP_VECTOR_NEXT_NORM] = "lap_step_next_norm(s, LAYERS)",
      [LAP_VECTOR_PER_LAYER_NORM] = "weights->per_layer_norm",
  };
  return words[vector];
}

static bool writes(const lap_program_step *step, lap_buffer buffer) {
  for (int i = 0; i < step->writes; i++)
    if (step->write[i].buffer == buffer) return true;
  return false;
}

const lap_program_step *lap_find_step(const lap_program *program, const lap_program_part *part,
                                      lap_step_kind kind) {
  for (int i = 0; i < part->steps; i++)
    if (program->step[part->first + i].kind == kind) return &program->step[part->first + i];
  return NULL;
}

/* ---- products ---- */

static const char *define_product(lap_emitter *e, const lap_linear *linear) {
  lap_text text = {0};
  char name[192];
  snprintf(name, sizeof name, "multiply_%s_%d", lap_weight_word(linear).text, linear->in_features);
  lap_text_add(&text,
               "(const lap_product *p, int first, int last) {\n"
               "  lap_multiply_rows(%d, %d, %s, %d, p->weight, p, first, last, p->y);\n}\n",
               linear->bits, linear->bits ? linear->group_size : 64, format_word(linear->dtype),
               linear->in_features);
  return lap_writer_function(&e->writer, LAP_SECTION_PRODUCTS, "static void ", name, &text);
}

/* gelu(gate x) times what `up` says, "NULL" or a product, in the forms of `result`. */
static const char *define_gated(lap_emitter *e, const char *name, lap_product_input result, const char *gate,
                                const char *up) {
  lap_text text = {0};
  lap_text_add(&text,
               "(const lap_product *p, int first, int last) {\n"
               "  lap_multiply_gated(%s, %s, %s, p, first, last);\n}\n",
               forms_word(result).text, gate, up);
  return lap_writer_function(&e->writer, LAP_SECTION_PRODUCTS, "static void ", name, &text);
}

static const char *define_pair(lap_emitter *e, const lap_linear *gate, const lap_linear *up,
                               const char *prefix, lap_product_input result) {
  char name[320];
  const lap_word a = lap_weight_word(gate), b = lap_weight_word(up);
  const char *first = define_product(e, gate), *second = define_product(e, up);
  if (strcmp(a.text, b.text) == 0)
    snprintf(name, sizeof name, "%sgate_up_%s_%d", prefix, a.text, gate->in_features);
  else
    snprintf(name, sizeof name, "%sgate_%s_up_%s_%d", prefix, a.text, b.text, gate->in_features);
  return define_gated(e, name, result, first, second);
}

static const char *define_per_layer_gate(lap_emitter *e, const lap_linear *gate) {
  char name[192];
  snprintf(name, sizeof name, "per_layer_gate_%s_%d", lap_weight_word(gate).text, gate->in_features);
  return define_gated(e, name, LAP_INPUT_PER_LAYER, define_product(e, gate), "NULL");
}

void lap_emit_head(lap_emitter *e) {
  const lap_program *program = e->program;
  const lap_program_step *step = lap_find_step(program, &program->part[program->parts - 1], LAP_STEP_HEAD);
  lap_text text = {0};
  const char *product = define_product(e, lap_program_linear(program, -1, step->weight[0]));
  lap_text_add(&text,
               "(const lap_product *p, int first, int last) {\n"
               "  lap_multiply_head(%s, %af, p, first, last);\n}\n",
               product, (double)step->scale[0]);
  lap_writer_function(&e->writer, LAP_SECTION_PRODUCTS, "static void ", "multiply_head", &text);
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

static bool slot_varies(const lap_program_part *kind, const struct product_slot *slot) {
  return kind->varies[slot->which] || kind->varies[slot->second];
}

static const char *define_slot(lap_emitter *e, int32_t layer, const struct product_slot *slot) {
  const lap_linear *first = lap_program_linear(e->program, layer, slot->which);
  const lap_linear *second = lap_program_linear(e->program, layer, slot->second);
  switch (slot->which) {
    case LAP_GATE_PROJ:
      return define_pair(e, first, second, "", LAP_INPUT_MLP);
    case LAP_EXPERT_GATE:
      return define_pair(e, first, second, "expert_", LAP_INPUT_EXPERT_WIDE);
    case LAP_PLI_GATE:
      return define_per_layer_gate(e, first);
    default:
      return define_product(e, first);
  }
}

bool lap_emit_varies(const lap_program_part *kind) {
  for (int i = 0; i < PRODUCT_SLOTS; i++)
    if (slot_varies(kind, &product_slots[i])) return true;
  return false;
}

void lap_emit_formats_type(const lap_program *program, lap_text *out) {
  bool any = false;
  for (int p = 0; p < program->parts; p++) any = any || lap_emit_varies(&program->part[p]);
  if (!any) return;
  lap_text_add(out,
               "/* Products that differ between layers of one kind, by the bits of their weights. */\n"
               "typedef struct formats {\n");
  for (int i = 0; i < PRODUCT_SLOTS; i++) {
    bool used = false;
    for (int p = 0; p < program->parts; p++) used = used || slot_varies(&program->part[p], &product_slots[i]);
    if (used) lap_text_add(out, "  lap_multiply *%s;\n", product_slots[i].field);
  }
  lap_text_add(out, "} formats;\n\n");
}

void lap_emit_formats(lap_emitter *e, const lap_program_call *call, lap_text *out) {
  const lap_program_part *kind = &e->program->part[call->part];
  const char *comma = "";
  lap_text_add(out, ", &(const formats){");
  for (int i = 0; i < PRODUCT_SLOTS; i++) {
    if (!slot_varies(kind, &product_slots[i])) continue;
    lap_text_add(out, "%s.%s = %s", comma, product_slots[i].field,
                 define_slot(e, call->layer, &product_slots[i]));
    comma = ", ";
  }
  lap_text_add(out, "}");
}

/* What stands for a product in the part's text: the function itself, or the field. */
static lap_word product_of(lap_emitter *e, int weight) {
  const struct product_slot *slot = product_slots;
  lap_word name;
  if (weight >= LAP_LAYER_LINEARS) {
    snprintf(name.text, sizeof name.text, "%s",
             define_product(e, lap_program_linear(e->program, -1, weight)));
    return name;
  }
  while ((int)slot->which != weight) slot++;
  const char *function = define_slot(e, e->part->layer, slot);
  if (slot_varies(e->part, slot))
    snprintf(name.text, sizeof name.text, "f->%s", slot->field);
  else
    snprintf(name.text, sizeof name.text, "%s", function);
  return name;
}

/* ---- inputs of products ---- */

/* The forms that all layers use have a place in lap_step. */
static const char *resident_forms(lap_product_input forms) {
  if (forms == LAP_INPUT_NORMED) return "s->normed";
  return forms == LAP_INPUT_EMBEDDED ? "s->embedded" : NULL;
}

/* An input is there, but for the stream, which only has its forms where a norm's output has them. */
static const char *resident_input(const lap_operand *input) {
  return input->buffer == LAP_BUFFER_HIDDEN ? NULL : resident_forms(input->forms);
}

/* Statements after which the variable `wide` is the input. */
static void set_wide(lap_emitter *e, const lap_operand *input, lap_text *out) {
  const lap_word place = place_word(input->buffer);
  if (e->wide.buffer == input->buffer && e->wide.forms == input->forms && e->wide.width == input->width)
    return;
  e->wide = *input;
  if (input->forms == LAP_INPUT_PER_LAYER)
    lap_text_add(out, "%swide = lap_input_at(s, PER_LAYER, ", e->indent);
  else
    lap_text_add(out, "%swide = lap_input_at(s, %d, ", e->indent, input->width);
  lap_text_add(out, "%s, %s, %s_FORMS);\n", forms_word(input->forms).text, place.text, place.text);
}

/* The name of the input, after statements that make it where it has no place of its own. */
static const char *name_input(lap_emitter *e, const lap_operand *input, lap_text *out) {
  const char *resident = resident_input(input);
  if (resident) return resident;
  if (input->buffer != LAP_BUFFER_HIDDEN) {
    set_wide(e, input, out);
    return "wide";
  }
  lap_text_add(out, "%slap_input hidden = s->normed;\n%shidden.x = lap_at(s, AT_HIDDEN);\n", e->indent,
               e->indent);
  return "hidden";
}

void lap_emit_place_inputs(lap_emitter *e) {
  lap_text text = {0};
  lap_text_add(&text,
               "(lap_step *s) {\n"
               "  s->normed = lap_input_at(s, HIDDEN, NORMED_FORMS, AT_NORMED, AT_NORMED_FORMS);\n");
  if (e->program->place[LAP_BUFFER_EMBEDDED].at >= 0)
    lap_text_add(&text,
                 "  s->embedded = lap_input_at(s, HIDDEN, EMBEDDED_FORMS, AT_EMBEDDED, "
                 "AT_EMBEDDED_FORMS);\n");
  lap_text_add(&text, "}\n");
  lap_writer_function(&e->writer, LAP_SECTION_INPUTS, "static void ", "place_inputs", &text);
}

/* ---- row by row: what a row function says for a step ---- */

static void row_embed(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  const lap_linear *table = lap_program_linear(e->program, -1, step->weight[0]);
  lap_text_add(body,
               "  const lap_row *token = &s->pass->row[row];\n"
               "  float *h = lap_row_at(s, AT_HIDDEN, HIDDEN, row);\n"
               "  lap_row_embed(%d, %d, %s, HIDDEN, &s->pass->memory.weights->embed, token, %af, h);\n",
               table->bits, table->bits ? table->group_size : 64, format_word(table->dtype),
               (double)step->scale[0]);
  for (int i = 0; i < 2; i++) {
    const char *type = type_capitals((lap_attention)i);
    lap_text_add(body,
                 "  lap_rope_table(s->pass->memory.rope_frequency[LAP_%s], PAIRS_%s, token->position,\n"
                 "                 lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row), lap_row_at(s, AT_SINE_%s, "
                 "PAIRS_%s, row));\n",
                 type, type, type, type, type, type);
  }
  if (writes(step, LAP_BUFFER_EMBEDDED))
    lap_text_add(body, "  memcpy(lap_row_at(s, AT_EMBEDDED, HIDDEN, row), h, HIDDEN * sizeof *h);\n");
}

static void row_norm(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  (void)e;
  lap_text_add(body,
               "  lap_row_norm(HIDDEN, EPS, %s, lap_row_at(s, AT_HIDDEN, HIDDEN, row), %s,\n"
               "               lap_row_at(s, AT_NORMED, HIDDEN, row), &s->normed, row);\n",
               writes(step, LAP_BUFFER_NORMED_FORMS) ? "NORMED_FORMS" : "0", vector_word(step->vector[0]));
}

static void row_write_keys(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  const lap_heads *heads = &step->heads;
  const char *type = type_capitals(heads->attention);
  const int32_t width = heads->kv_heads * heads->head_dim;
  (void)e;
  lap_text_add(
      body,
      "  const lap_row *token = &s->pass->row[row];\n"
      "  lap_row_keys(%d, %d, PAIRS_%s, EPS, %d, %d, %d, lap_row_at(s, AT_KEY, %d, row), lap_row_at(s, "
      "AT_VALUE, %d, row),\n"
      "               %s, lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row),\n"
      "               lap_row_at(s, AT_SINE_%s, PAIRS_%s, row), &lap_pass_kv(s->pass, token->segment, "
      "s->cache)->planes,\n"
      "               token->position);\n",
      heads->kv_heads, heads->head_dim, type, heads->k_eq_v, heads->bits, heads->group_size, width, width,
      vector_word(step->vector[0]), type, type, type, type);
}

static void row_rotate_queries(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  const lap_heads *heads = &step->heads;
  const char *type = type_capitals(heads->attention);
  (void)e;
  lap_text_add(body,
               "  lap_row_queries(%d, %d, PAIRS_%s, EPS, lap_row_at(s, AT_QUERY, %d, row), %s,\n"
               "                  lap_row_at(s, AT_COSINE_%s, PAIRS_%s, row), lap_row_at(s, AT_SINE_%s, "
               "PAIRS_%s, row));\n",
               heads->heads, heads->head_dim, type, heads->heads * heads->head_dim,
               vector_word(step->vector[0]), type, type, type, type);
}

static void row_quantize(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  const lap_operand *x = &step->read[0];
  const lap_word forms = forms_word(step->write[0].forms), place = place_word(x->buffer);
  const char *input = resident_forms(step->write[0].forms);
  (void)e;
  if (input)
    lap_text_add(body, "  lap_input_fill(HIDDEN, %s, lap_row_at(s, %s, HIDDEN, row), &%s, row);\n",
                 forms.text, place.text, input);
  else
    lap_text_add(body,
                 "  const lap_input input = lap_input_at(s, %d, %s, %s, %s_FORMS);\n"
                 "  lap_input_fill(%d, %s, lap_row_at(s, %s, %d, row), &input, row);\n",
                 x->width, forms.text, place.text, place.text, x->width, forms.text, place.text, x->width);
}

static void row_add_norm(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  (void)e;
  lap_text_add(body,
               "  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_OUTPUT, HIDDEN, row), %s,\n"
               "                   lap_row_at(s, AT_HIDDEN, HIDDEN, row));\n",
               vector_word(step->vector[0]));
}

static void row_join_experts(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  (void)e;
  lap_text_add(body,
               "  float *dense = lap_row_at(s, AT_OUTPUT, HIDDEN, row);\n"
               "  LAP_ISA(lap_rms_norm)(dense, %s, HIDDEN, EPS, dense);\n"
               "  lap_row_add_norm(HIDDEN, EPS, lap_row_at(s, AT_NORMED, HIDDEN, row), %s, dense);\n",
               vector_word(step->vector[0]), vector_word(step->vector[1]));
}

static void row_per_layer_input(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  const lap_linear *table = lap_program_linear(e->program, -1, step->weight[0]);
  lap_text_add(
      body,
      "  const lap_weights *weights = s->pass->memory.weights;\n"
      "  float table[PER_LAYER];\n"
      "  lap_table_row(%d, %d, %s, LAYERS * PER_LAYER, &weights->embed_per_layer, "
      "s->pass->row[row].per_layer_id,\n"
      "                s->layer * PER_LAYER, PER_LAYER, %af, table);\n"
      "  lap_row_per_layer_input(PER_LAYER, EPS, %af, %s, table, lap_row_at(s, AT_PLI, PER_LAYER, row));\n",
      table->bits, table->bits ? table->group_size : 64, format_word(table->dtype), (double)step->scale[0],
      (double)step->scale[1], vector_word(step->vector[0]));
}

static void row_scale(lap_emitter *e, const lap_program_step *step, lap_text *body) {
  (void)e;
  lap_text_add(body, "  lap_row_scale(HIDDEN, %s[0], lap_row_at(s, AT_HIDDEN, HIDDEN, row));\n",
               vector_word(step->vector[0]));
}

/* ---- attention ---- */

const char *lap_emit_shape(lap_emitter *e, const lap_program_step *step) {
  const lap_heads *heads = &step->heads;
  lap_text text = {0};
  char name[64], cache[LAP_CACHE_WORD_BYTES];
  lap_cache_word(heads, cache);
  snprintf(name, sizeof name, "%s_%s", lap_attention_name(heads->attention), cache);
  lap_text_add(
      &text,
      "(void) {\n  return (lap_attend_shape){.heads = %d, .kv_heads = %d, .head_dim = %d, .window = %d, "
      ".bits = %d, .group_size = %d, .forms = %s};\n}\n",
      heads->heads, heads->kv_heads, heads->head_dim, heads->window, heads->bits, heads->group_size,
      writes(step, LAP_BUFFER_QUERY_FORMS) ? "ATTENTION_FORMS" : "0");
  return lap_writer_function(&e->writer, LAP_SECTION_ATTENTION, "LAP_INLINE lap_attend_shape ", name, &text);
}

static const char *define_attention(lap_emitter *e, const lap_program_step *step) {
  lap_text tile = {0}, fold = {0}, run = {0};
  char name[160];
  const char *shape = lap_emit_shape(e, step);
  snprintf(name, sizeof name, "tile_%s", shape);
  lap_text_add(&tile, "(void *run, int task, int thread) {\n  lap_attend_tile(%s(), run, task, thread);\n}\n",
               shape);
  const char *tile_name = lap_writer_function(&e->writer, LAP_SECTION_ATTENTION, "static void ", name, &tile);
  snprintf(name, sizeof name, "fold_%s", shape);
  lap_text_add(&fold,
               "(void *run, int task, int thread) {\n  (void)thread;\n  lap_attend_fold_spans(%s(), run, "
               "task);\n}\n",
               shape);
  const char *fold_name = lap_writer_function(&e->writer, LAP_SECTION_ATTENTION, "static void ", name, &fold);
  snprintf(name, sizeof name, "attend_%s", shape);
  lap_text_add(
      &run,
      "(const lap_step *s, const lap_input *output) {\n"
      "  static const lap_attend_code code = {LAP_ATTENTION_TILED, %s, %s};\n"
      "  lap_run_attention(%s(), &code, s->pass, &s->attention, lap_at(s, AT_QUERY), output, s->cache);\n}\n",
      tile_name, fold_name, shape);
  return lap_writer_function(&e->writer, LAP_SECTION_ATTENTION, "static void ", name, &run);
}

/* ---- experts ---- */

static void define_expert_task(lap_emitter *e, const char *name, const char *body) {
  lap_text text = {0};
  lap_text_add(&text, "(void *run, int row) {\n  %s(experts_shape(), run, row);\n}\n", body);
  lap_writer_function(&e->writer, LAP_SECTION_EXPERTS, "static void ", name, &text);
}

static void define_experts(lap_emitter *e, const lap_program_step *step) {
  lap_text text = {0};
  lap_text_add(
      &text,
      "(void) {\n  return (lap_experts_shape){.hidden = HIDDEN, .experts = %d, .top_k = %d, .width = "
      "%d, .eps = EPS,\n"
      "                             .router_forms = ROUTER_FORMS, .forms = EXPERT_FORMS, "
      ".wide_forms = EXPERT_WIDE_FORMS, .wide_floats = %d};\n}\n",
      step->experts, step->top_k, step->expert_width, e->program->expert_floats);
  lap_writer_function(&e->writer, LAP_SECTION_EXPERTS, "LAP_INLINE lap_experts_shape ", "experts_shape",
                      &text);
  define_expert_task(e, "norm_router", "lap_experts_norm_router");
  define_expert_task(e, "gather_slot", "lap_experts_gather");
}

/* ---- statements: what a part says for a run ---- */

static void run_rows(lap_emitter *e, const lap_program_run *run, lap_text *out);

/* One product: lap_step_linear as an element of a list, lap_step_run as a call. */
static void add_product(lap_emitter *e, const char *function, const lap_program_step *step, const char *input,
                        lap_text *out) {
  const lap_word product = product_of(e, step->weight[0]), y = place_word(step->write[0].buffer);
  if (step->weight[0] == LAP_WEIGHT_PER_LAYER_ROWS)
    lap_text_add(out, "lap_step_product(s, %s, &s->w->pli_rows", product.text);
  else
    lap_text_add(out, "%s(s, %s, %s", function, product.text, linear_word(step->weight[0]));
  lap_text_add(out, ", %d, %d, &%s, %s)", step->write[0].width, step->input.width, input, y.text);
}

static void run_products(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  if (!resident_input(&step->input)) { /* such a product is alone in its run */
    const char *input = name_input(e, &step->input, out);
    lap_text_add(out, "%s", e->indent);
    add_product(e, "lap_step_run", step, input, out);
    lap_text_add(out, ";\n");
    return;
  }
  lap_text_add(out, "%slap_run_products(&p->team, (const lap_product[]){\n", e->indent);
  for (int i = 0; i < run->steps; i++) {
    lap_text_add(out, "%s    ", e->indent);
    add_product(e, "lap_step_linear", &step[i], resident_input(&step[i].input), out);
    lap_text_add(out, ",\n");
  }
  lap_text_add(out, "%s}, %d);\n", e->indent, run->steps);
}

static void run_pair(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  const int32_t width = step->write[0].width;
  set_wide(e, &(lap_operand){.buffer = LAP_BUFFER_GATE, .width = width, .forms = LAP_INPUT_MLP}, out);
  lap_text_add(out, "%slap_step_gate_up(s, %s, %d, HIDDEN, &wide, %d);\n", e->indent,
               product_of(e, step->weight[0]).text, width, writes(step, LAP_BUFFER_GATE));
}

static void run_per_layer_gate(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  const lap_operand result = {
      .buffer = LAP_BUFFER_GATE, .width = e->program->plan->per_layer_width, .forms = LAP_INPUT_PER_LAYER};
  const char *input = name_input(e, &step->input, out);
  set_wide(e, &result, out);
  lap_text_add(out, "%slap_step_gate_per_layer(s, %s, PER_LAYER, HIDDEN, &%s, AT_PLI, &wide, %d);\n",
               e->indent, product_of(e, step->weight[0]).text, input, writes(step, LAP_BUFFER_GATE));
}

static void run_attend(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  const bool forms = writes(step, LAP_BUFFER_QUERY_FORMS);
  if (forms)
    set_wide(e,
             &(lap_operand){.buffer = LAP_BUFFER_QUERY,
                            .width = step->heads.heads * step->heads.head_dim,
                            .forms = LAP_INPUT_ATTENTION},
             out);
  lap_text_add(out, "%s%s(s, %s);\n", e->indent, define_attention(e, step), forms ? "&wide" : "NULL");
}

static void define_drop_rows(lap_emitter *e, const lap_program_step *step) {
  lap_text text = {0};
  const char *open = "{";
  lap_text_add(&text, "(lap_step *s) {\n  const lap_kept kept[] = ");
  for (int i = 0; i < step->reads; i++, open = ",\n                           ")
    lap_text_add(&text, "%s{lap_at(s, %s), %s}", open, place_word(step->read[i].buffer).text,
                 width_word(step->read[i].buffer));
  lap_text_add(&text, "};\n  lap_drop_unwanted_rows(s->pass, kept, %d);\n  place_inputs(s);\n}\n",
               step->reads);
  lap_writer_function(&e->writer, LAP_SECTION_INPUTS, "static void ", "drop_rows", &text);
}

static void run_drop_rows(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  define_drop_rows(e, &e->program->step[run->first]);
  lap_text_add(out, "%sdrop_rows(s);\n%sif (p->rows == 0) return;\n", e->indent, e->indent);
}

static void run_experts(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  define_experts(e, step);
  const lap_word down = product_of(e, step->weight[2]), gate_up = product_of(e, step->weight[1]),
                 router = product_of(e, step->weight[0]);
  lap_text_add(out, "%sconst lap_experts_code experts = {norm_router, gather_slot, %s, %s, %s};\n", e->indent,
               router.text, gate_up.text, down.text);
  lap_text_add(out,
               "%slap_run_experts(experts_shape(), &experts, p, layer, s->experts, lap_at(s, AT_HIDDEN), "
               "lap_at(s, AT_NORMED));\n",
               e->indent);
}

static void run_give_hidden(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_operand *given = &e->program->step[run->first].read[0];
  lap_text_add(out, "%slap_give_hidden(p, lap_at(%s, %s), HIDDEN);\n", e->indent, e->self,
               place_word(given->buffer).text);
}

static void run_head(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  (void)run;
  lap_text_add(out, "%slap_run_head(p, multiply_head, VOCAB, HIDDEN, &s.normed);\n", e->indent);
}

static void run_show(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  lap_text_add(out, "%slap_pass_show(p, \"%s\", %s, lap_at(%s, %s), %s);\n", e->indent, step->shown, e->layer,
               e->self, place_word(step->read[0].buffer).text, width_word(step->read[0].buffer));
}

/* ---- the templates ---- */

/* What is done row by row has a template for the body of a row function; all else has one for the statements
 * of its run. */
static const struct template {
  void (*row)(lap_emitter * e, const lap_program_step *step, lap_text *body);
  void (*run)(lap_emitter * e, const lap_program_run *run, lap_text *out);
}
templates[LAP_STEP_KINDS] = {
    [LAP_STEP_EMBED] = {row_embed, run_rows},
    [LAP_STEP_NORM] = {row_norm, run_rows},
    [LAP_STEP_PRODUCT] = {NULL, run_products},
    [LAP_STEP_WRITE_KEYS] = {row_write_keys, run_rows},
    [LAP_STEP_DROP_ROWS] = {NULL, run_drop_rows},
    [LAP_STEP_ROTATE_QUERIES] = {row_rotate_queries, run_rows},
    [LAP_STEP_ATTEND] = {NULL, run_attend},
    [LAP_STEP_QUANTIZE] = {row_quantize, run_rows},
    [LAP_STEP_ADD_NORM] = {row_add_norm, run_rows},
    [LAP_STEP_PAIR] = {NULL, run_pair},
    [LAP_STEP_EXPERTS] = {NULL, run_experts},
    [LAP_STEP_JOIN_EXPERTS] = {row_join_experts, run_rows},
    [LAP_STEP_PER_LAYER_ROW] = {row_per_layer_input, run_rows},
    [LAP_STEP_PER_LAYER_GATE] = {NULL, run_per_layer_gate},
    [LAP_STEP_SCALE] = {row_scale, run_rows},
    [LAP_STEP_GIVE_HIDDEN] = {NULL, run_give_hidden},
    [LAP_STEP_HEAD] = {NULL, run_head},
    [LAP_STEP_SHOW] = {NULL, run_show},
};

static const char *define_row(lap_emitter *e, const lap_program_step *step) {
  lap_text text = {0};
  lap_text_add(&text, "(void *context, int row) {\n  const lap_step *s = context;\n");
  templates[step->kind].row(e, step, &text);
  lap_text_add(&text, "}\n");
  return lap_writer_function(&e->writer, LAP_SECTION_ROWS, "static void ", step->name, &text);
}

/* A row function that calls those of the steps, one after the other; its name is theirs. */
static const char *define_rows(lap_emitter *e, const lap_program_step *step, int steps) {
  lap_text text = {0}, name = {0};
  lap_text_add(&text, "(void *context, int row) {\n");
  for (int i = 0; i < steps; i++) {
    const char *function = define_row(e, &step[i]);
    lap_text_add(&text, "  %s(context, row);\n", function);
    lap_text_add(&name, "%s%s", i ? "_" : "", function);
  }
  lap_text_add(&text, "}\n");
  e->writer.failed = e->writer.failed || name.failed;
  const char *defined =
      lap_writer_function(&e->writer, LAP_SECTION_ROWS, "static void ", lap_text_data(&name), &text);
  lap_text_free(&name);
  return defined;
}

static void run_rows(lap_emitter *e, const lap_program_run *run, lap_text *out) {
  const lap_program_step *step = &e->program->step[run->first];
  lap_text_add(out, "%slap_run_rows(&p->team, p->rows, %s, %s);\n", e->indent,
               run->steps == 1 ? define_row(e, step) : define_rows(e, step, run->steps), e->self);
}

/* ---- a part ---- */

/* From the runs of one way to those of another. */
static void turn(lap_emitter *e, unsigned from, unsigned to, lap_text *out) {
  if (from == to) return;
  if (to == LAP_WAY_ROWS_LEAVE)
    lap_text_add(out,
                 "  if (lap_has_unwanted_rows(p)) {\n    /* All later layers read what is stored now: "
                 "rows that nobody wants logits of end here. */\n");
  else
    lap_text_add(out, to == LAP_WAYS ? "  }\n" : "  } else {\n");
  e->indent = to == LAP_WAYS ? "  " : "    ";
}

void lap_emit_part(lap_emitter *e, int part, const char *self, const char *layer, lap_text *out) {
  const lap_program *program = e->program;
  unsigned ways = LAP_WAYS;
  e->part = &program->part[part];
  e->self = self;
  e->layer = layer;
  e->indent = "  ";
  e->wide = (lap_operand){.buffer = LAP_BUFFERS};
  for (int i = 0; i < e->part->runs; i++) {
    const lap_program_run *run = &program->run[e->part->first_run + i];
    const lap_program_step *step = &program->step[run->first];
    turn(e, ways, step->ways, out);
    ways = step->ways;
    for (int j = 0; j < run->steps; j++)
      if (step[j].formula) lap_text_add(out, "%s/* %s */\n", e->indent, step[j].formula);
    templates[step->kind].run(e, run, out);
  }
}
