/* generate.c: the text of a cut, from top to bottom as its reader sees it.
 *
 * The program says what there is, emit_c.c how each step looks; here stands what is around them: the head of
 * the file, constants, memory, the calls of the layers, and what the library finds in it. */
#include "cut/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cut/emit_c.h"
#include "pass/pass.h"
#include "program/fingerprint.h"

typedef struct generator {
  const lap_plan *plan;
  lap_program *program;
  lap_emitter emitter;
  lap_text beginning, end; /* statements before and after the layers */
  const char **names;      /* [parts]: of the kinds' functions */
} generator;

static bool is_kind(const lap_program_part *part) {
  return part->layer >= 0;
}

static void add_layer_list(const generator *g, int kind, lap_text *text) {
  const lap_program_call *call = g->program->call;
  const char *comma = "";
  for (int i = 1; i < g->program->calls - 1; i++) {
    if (call[i].part != kind) continue;
    int end = i;
    while (call[end + 1].part == kind) end++;
    if (end > i)
      lap_text_add(text, "%s %d-%d", comma, call[i].layer, call[end].layer);
    else
      lap_text_add(text, "%s %d", comma, call[i].layer);
    comma = ",";
    i = end;
  }
}

static void define_kind(generator *g, int index) {
  const lap_program_part *kind = &g->program->part[index];
  lap_text text = {0}, before = {0};
  lap_text_add(&before, "/* Layer");
  add_layer_list(g, index, &before);
  lap_text_add(&before, ". */\nstatic void ");
  lap_text_add(&text,
               "(lap_step *s, int layer, int cache%s) {\n  lap_pass *p = s->pass;\n  lap_input wide;\n"
               "  lap_step_begin(s, layer, cache);\n",
               lap_emit_varies(kind) ? ", const formats *f" : "");
  lap_emit_part(&g->emitter, index, "s", "layer", &text);
  lap_text_add(&text, "}\n");
  if (before.failed) g->emitter.writer.failed = true;
  g->names[index] =
      lap_writer_function(&g->emitter.writer, LAP_SECTION_KINDS, lap_text_data(&before), kind->name, &text);
  lap_text_free(&before);
}

static void define_parts(generator *g) {
  const int last = g->program->parts - 1;
  char layers[16];
  snprintf(layers, sizeof layers, "%d", g->plan->layers);
  lap_emit_head(&g->emitter);
  lap_emit_place_inputs(&g->emitter);
  lap_emit_part(&g->emitter, 0, "&s", "-1", &g->beginning);
  for (int part = 1; part < last; part++) define_kind(g, part);
  lap_emit_part(&g->emitter, last, "&s", layers, &g->end);
}

/* ---- constants ---- */

static void add_constant(lap_text *out, const char *name, int64_t value) {
  if (value >= 0) lap_text_add(out, "  %s = %lld,\n", name, (long long)value);
}

/* Inputs that the model has no products for have no forms to name. */
static bool has_input(const lap_program *program, lap_product_input input) {
  if (input == LAP_INPUT_EMBEDDED || input == LAP_INPUT_PER_LAYER) return program->plan->per_layer_width > 0;
  if (input >= LAP_INPUT_ROUTER) return program->plan->num_experts > 0;
  return true;
}

static void add_sizes(const generator *g, lap_text *out) {
  const lap_plan *plan = g->plan;
  const bool pli = plan->per_layer_width > 0;
  lap_text_add(out,
               "/* ---- sizes; quantized forms of products' inputs are those of pass/parallel.h ---- */\n\n"
               "enum {\n");
  add_constant(out, "HIDDEN", plan->hidden_size);
  add_constant(out, "VOCAB", plan->vocab_size);
  add_constant(out, "LAYERS", plan->layers);
  add_constant(out, "PER_LAYER", pli ? plan->per_layer_width : -1);
  add_constant(out, "PAIRS_SLIDING", plan->rope[LAP_SLIDING].rotated_pairs);
  add_constant(out, "PAIRS_FULL", plan->rope[LAP_FULL].rotated_pairs);
  for (int input = LAP_INPUT_NORMED; input < LAP_INPUTS; input++)
    if (has_input(g->program, (lap_product_input)input))
      lap_text_add(out, "  %s_FORMS = %d,\n", lap_capitals(lap_input_name((lap_product_input)input)).text,
                   g->program->forms[input]);
  lap_text_add(out, "};\n#define EPS %af\n\n", (double)plan->rms_norm_eps);
}

static void add_places(const generator *g, lap_text *out) {
  lap_text_add(out,
               "/* ---- the arena: where activations stand, in bytes times rows. Gate takes the room of "
               "queries, keys\n"
               " * and values. ---- */\n\nenum {\n");
  for (int buffer = 0; buffer < LAP_BUFFERS_OF_ROWS; buffer++) {
    char name[160];
    snprintf(name, sizeof name, "AT_%s", lap_capitals(lap_buffer_name((lap_buffer)buffer)).text);
    add_constant(out, name, g->program->place[buffer].at);
  }
  add_constant(out, "ROW_BYTES", g->program->row_bytes);
  lap_text_add(out, "};\n\n");
}

/* ---- memory ---- */

static const lap_program_step *attention_of(const generator *g, int part) {
  return lap_find_step(g->program, &g->program->part[part], LAP_STEP_ATTEND);
}

static bool same_memory(const lap_heads *a, const lap_heads *b) {
  return a->head_dim == b->head_dim && a->heads == b->heads && a->kv_heads == b->kv_heads &&
         a->window == b->window;
}

/* The memory of attention does not depend on the kind of cache: one shape for each type of layer is enough.
 */
static void add_shapes(generator *g, lap_text *out) {
  for (int part = 1; part < g->program->parts - 1; part++) {
    const lap_program_step *step = attention_of(g, part);
    bool seen = false;
    for (int before = 1; before < part && !seen; before++)
      seen = same_memory(&attention_of(g, before)->heads, &step->heads);
    if (!seen) lap_text_add(out, "      %s(),\n", lap_emit_shape(&g->emitter, step));
  }
}

static bool has_experts(const generator *g) {
  for (int part = 0; part < g->program->parts; part++)
    if (lap_find_step(g->program, &g->program->part[part], LAP_STEP_EXPERTS)) return true;
  return false;
}

static void add_memory(generator *g, lap_text *out) {
  lap_text_add(out,
               "/* Points everything into the arena, or, without one, adds up its bytes. */\n"
               "static size_t place(lap_step *s, lap_pass *pass) {\n"
               "  const lap_attend_shape shapes[] = {\n");
  add_shapes(g, out);
  lap_text_add(
      out,
      "  };\n"
      "  size_t used = (size_t)pass->capacity * ROW_BYTES;\n"
      "  unsigned char *arena = pass->memory.arena;\n"
      "  *s = (lap_step){.pass = pass, .layer = -1};\n"
      "  used += lap_attend_place_memory(shapes, (int)(sizeof shapes / sizeof *shapes), pass, arena ? "
      "arena + used : NULL,\n"
      "                                  &s->attention);\n");
  if (has_experts(g))
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

/* ---- the pass ---- */

static void add_forward(generator *g, lap_text *out) {
  const lap_program *program = g->program;
  lap_text_add(out, "static void forward(lap_pass *p) {\n  lap_step s;\n  place(&s, p);\n%s",
               lap_text_data(&g->beginning));
  for (int i = 1; i < program->calls - 1; i++) {
    const lap_program_call *call = &program->call[i];
    lap_text_add(out, "  %s(&s, %d, %d", g->names[call->part], call->layer, call->cache);
    if (lap_emit_varies(&program->part[call->part])) lap_emit_formats(&g->emitter, call, out);
    lap_text_add(out, ");\n");
    if (lap_find_step(program, &program->part[call->part], LAP_STEP_DROP_ROWS))
      lap_text_add(out, "  if (p->rows == 0) return;\n");
  }
  lap_text_add(out, "%s}\n\n", lap_text_data(&g->end));
}

static void add_entry(const generator *g, const char *structure, lap_text *out) {
  const lap_plan *plan = g->plan;
  lap_text_add(out, "static const lap_cut_cache caches[] = {\n");
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    lap_text_add(out, "    {.kv_heads = %d, .head_dim = %d, .window = %d, .bits = %d, .group_size = %d},\n",
                 layer->kv_heads, layer->head_dim, layer->window, lap_layer_cache_bits(layer),
                 lap_layer_cache_group(layer));
  }
  lap_text_add(out,
               "};\n\n"
               "extern LAP_CUT_EXPORT const lap_cut LAP_ISA(lap_cut_%s);\n"
               "const lap_cut LAP_ISA(lap_cut_%s) = {\n"
               "    .sources = LAP_CUT_SOURCES,\n"
               "    .structure = \"%s\",\n"
               "    .isa = LAP_ISA_NAME,\n"
               "    .caches = %d,\n"
               "    .cache = caches,\n"
               "    .code = {arena_bytes, forward},\n"
               "};\n",
               structure, structure, structure, plan->caches);
}

/* ---- the whole file ---- */

static void add_head_comment(const generator *g, const char *name, const char *structure, lap_text *out) {
  const lap_plan *plan = g->plan;
  const lap_word embed = lap_weight_word(&plan->embed);
  lap_text_add(out,
               "/* Generated, do not edit. Made again by\n *     lapidary cut %.100s --emit FILE\n *\n"
               " * The forward pass of %s: %d layers, hidden %d, vocabulary %d, embedding %s.\n"
               " * Structure %s.\n *\n",
               name, name, plan->layers, plan->hidden_size, plan->vocab_size, embed.text, structure);
  lap_text_add(
      out,
      " * Read `forward` at the end first. A kind of layer is named by what it is: it computes its own\n"
      " * keys and values (donor) or reads those of another layer (sharer); its attention (sliding, full);\n"
      " * its cache (plain, or g64b4 for 4 bits in groups of 64); v or k_is_v; per-layer input (pli); "
      "experts\n"
      " * (moe); a layer scalar; export, where sharers read its cache; last, where rows without wanted "
      "logits\n"
      " * leave.\n *\n");
  for (int part = 0; part < g->program->parts; part++) {
    if (!is_kind(&g->program->part[part])) continue;
    lap_text_add(out, " *     %-48s layer", g->names[part]);
    add_layer_list(g, part, out);
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
  const lap_text *text = &g->emitter.writer.section[section];
  if (!text->length) return;
  if (section_titles[section]) lap_text_add(out, "/* ---- %s ---- */\n\n", section_titles[section]);
  lap_text_add(out, "%s", text->data);
}

static void assemble(generator *g, const char *name, const char *structure, lap_text *out) {
  lap_text forward = {0};
  add_forward(g, &forward); /* may still ask for products */
  add_head_comment(g, name, structure, out);
  lap_text_add(out,
               "%s#include \"pass/head.h\"\n#include \"pass/rows.h\"\n#include \"pass/step.h\"\n"
               "#include \"cut_sources.h\"\n\n",
               has_experts(g) ? "#include \"pass/experts.h\"\n" : "");
  add_sizes(g, out);
  add_places(g, out);
  for (int section = 0; section < LAP_SECTIONS; section++) {
    if (section == LAP_SECTION_KINDS) lap_emit_formats_type(g->program, out);
    add_section(g, (lap_section)section, out);
  }
  lap_text_add(out, "/* ---- the pass ---- */\n\n");
  add_memory(g, out);
  lap_text_add(out, "%s", lap_text_data(&forward));
  if (forward.failed || g->beginning.failed || g->end.failed) g->emitter.writer.failed = true;
  lap_text_free(&forward);
  add_entry(g, structure, out);
}

static lap_status write_source(generator *g, const char *name, lap_text *out, lap_error *error) {
  char structure[LAP_PLAN_FINGERPRINT_BYTES];
  lap_status status = lap_program_build(g->plan, &g->program, error);
  if (status == LAP_OK) status = lap_cut_structure(g->plan, structure, error);
  if (status != LAP_OK) return status;
  g->names = calloc((size_t)g->program->parts, sizeof *g->names);
  if (!g->names) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for generated code");
  g->emitter.program = g->program;
  define_parts(g);
  assemble(g, name, structure, out);
  return lap_writer_status(&g->emitter.writer, error);
}

lap_status lap_cut_generate(const lap_plan *plan, const char *path, char **source, size_t *length,
                            lap_error *error) {
  const char *slash = strrchr(path, '/');
  const char *name = slash && slash[1] ? slash + 1 : path;
  generator g = {.plan = plan};
  lap_text out = {0};
  *source = NULL;
  lap_status status = write_source(&g, name, &out, error);
  if (status == LAP_OK) status = lap_text_take(&out, source, length, error);
  lap_text_free(&out);
  lap_text_free(&g.beginning);
  lap_text_free(&g.end);
  free(g.names);
  lap_writer_free(&g.emitter.writer);
  lap_program_free(g.program);
  return status;
}
