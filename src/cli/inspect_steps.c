/* inspect_steps.c: what the program says, part by part, a line for each step. Nothing is reckoned here but
 * columns. */
#include "cli/inspect_steps.h"

#include <string.h>

#include "base/text_buffer.h"
#include "kernels/forms.h"

enum {
  DETAILS_COLUMN = 47,
  LAST_COLUMN = 100
};

/* Prints the text from DETAILS_COLUMN on and goes on in the next line, at the same column, where it would be
 * too long: at spaces. Ends the line. */
static void print_wrapped(FILE *out, int column, const char *text) {
  while (*text) {
    int length = (int)strcspn(text, " ");
    if (column > DETAILS_COLUMN && column + 1 + length > LAST_COLUMN)
      column = DETAILS_COLUMN, fprintf(out, "\n%*s", DETAILS_COLUMN, "");
    else if (column > DETAILS_COLUMN)
      column += fprintf(out, " ");
    column += fprintf(out, "%.*s", length, text);
    text += length + (text[length] == ' ');
  }
  fputc('\n', out);
}

/* ---- buffers ---- */

static void print_room(FILE *out, const lap_program *program, int buffer) {
  const lap_place *mine = &program->place[buffer];
  const char *words = "   in the room of ";
  for (int i = 0; i < buffer; i++) {
    const lap_place *other = &program->place[i];
    if (other->at < 0 || mine->at >= other->at + other->bytes || other->at >= mine->at + mine->bytes)
      continue;
    fprintf(out, "%s%s", words, lap_buffer_name((lap_buffer)i));
    words = ", ";
  }
}

static void print_buffers(FILE *out, const lap_program *program) {
  fprintf(out, "Buffers: places in the arena and sizes, in bytes for each row of a pass\n");
  for (int buffer = 0; buffer < LAP_BUFFERS_OF_ROWS; buffer++) {
    const lap_place *place = &program->place[buffer];
    if (place->at < 0) continue;
    fprintf(out, "  %-16s %8lld %8lld", lap_buffer_name((lap_buffer)buffer), (long long)place->at,
            (long long)place->bytes);
    print_room(out, program, buffer);
    fputc('\n', out);
  }
  fprintf(out, "  %-16s %8s %8lld\n", "together", "", (long long)program->row_bytes);
}

static void print_inputs(FILE *out, const lap_program *program) {
  static const struct {
    int form;
    const char *words;
  } list[] = {{LAP_FORM_64, "blocks of 64"},
              {LAP_FORM_64_NIBBLE, "blocks of 64 in nibble order"},
              {LAP_FORM_32, "blocks of 32"},
              {LAP_FORM_32_NIBBLE, "blocks of 32 in nibble order"}};
  fprintf(out, "\nInputs of products: int16 codes, in the forms that weights read\n");
  for (int input = LAP_INPUT_NORMED; input < LAP_INPUTS; input++) {
    const char *comma = "";
    if (!program->forms[input]) continue;
    fprintf(out, "  %-16s ", lap_input_name((lap_product_input)input));
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
      if (!(program->forms[input] & list[i].form)) continue;
      fprintf(out, "%s%s", comma, list[i].words);
      comma = ", ";
    }
    fputc('\n', out);
  }
}

/* ---- steps ---- */

static void add_operands(lap_text *text, const lap_operand *operand, int count) {
  for (int i = 0; i < count; i++)
    lap_text_add(text, "%s%s", i ? ", " : "", lap_buffer_name(operand[i].buffer));
}

static void add_weights(lap_text *text, const lap_program *program, const lap_program_part *part,
                        const lap_program_step *step) {
  for (int i = 0; i < 3 && step->weight[i] != LAP_NO_WEIGHT; i++) {
    const int which = step->weight[i];
    const lap_linear *linear = lap_program_linear(program, part->layer, which);
    lap_text_add(text, "; %s", lap_program_weight_name(which));
    if (which == LAP_WEIGHT_PER_LAYER_ROWS)
      lap_text_add(text, " %dx%d of %d", step->write[0].width, linear->in_features, linear->out_features);
    else
      lap_text_add(text, " %dx%d", linear->out_features, linear->in_features);
    if (which < LAP_LAYER_LINEARS && part->varies[which])
      lap_text_add(text, " bits by layer");
    else if (linear->bits)
      lap_text_add(text, " %dg%d", linear->bits, linear->group_size);
    else
      lap_text_add(text, " dense");
  }
  for (int i = 0; i < 2 && step->vector[i] != LAP_NO_VECTOR; i++)
    lap_text_add(text, "; %s", lap_program_vector_name(step->vector[i]));
}

static void add_heads(lap_text *text, const lap_heads *heads, lap_step_kind kind) {
  char cache[LAP_CACHE_WORD_BYTES];
  if (kind == LAP_STEP_ROTATE_QUERIES)
    lap_text_add(text, "; %d heads of %d", heads->heads, heads->head_dim);
  else if (kind == LAP_STEP_WRITE_KEYS)
    lap_text_add(text, "; %d heads of %d", heads->kv_heads, heads->head_dim);
  else
    lap_text_add(text, "; %d heads of %d over %d", heads->heads, heads->head_dim, heads->kv_heads);
  if (kind == LAP_STEP_ATTEND && heads->window) lap_text_add(text, ", window %d", heads->window);
  if (kind != LAP_STEP_ATTEND) lap_text_add(text, ", %d pairs turn", heads->pairs);
  if (kind == LAP_STEP_WRITE_KEYS && heads->k_eq_v) lap_text_add(text, ", v is k");
  if (kind == LAP_STEP_ROTATE_QUERIES) return;
  lap_cache_word(heads, cache);
  lap_text_add(text, ", %s", cache);
}

static void add_constants(lap_text *text, const lap_program_step *step) {
  switch (step->kind) {
    case LAP_STEP_EMBED:
      lap_text_add(text, "; times %.7g", (double)step->scale[0]);
      break;
    case LAP_STEP_PER_LAYER_ROW:
      lap_text_add(text, "; times %.7g, %.7g", (double)step->scale[0], (double)step->scale[1]);
      break;
    case LAP_STEP_HEAD:
      if (step->scale[0] > 0) lap_text_add(text, "; capped at %.7g", (double)step->scale[0]);
      break;
    case LAP_STEP_EXPERTS:
      lap_text_add(text, "; %d experts, %d for each row", step->experts, step->top_k);
      break;
    case LAP_STEP_WRITE_KEYS:
    case LAP_STEP_ROTATE_QUERIES:
    case LAP_STEP_ATTEND:
      add_heads(text, &step->heads, step->kind);
      break;
    default:
      break;
  }
}

/* `goes_on`: it is not the first of its run. */
static void print_step(FILE *out, const lap_program *program, const lap_program_part *part,
                       const lap_program_step *step, bool goes_on) {
  const int number = (int)(step - &program->step[part->first]) + 1;
  lap_text text = {0};
  add_operands(&text, step->read, step->reads);
  if (step->writes) lap_text_add(&text, "%s-> ", step->reads ? " " : "");
  add_operands(&text, step->write, step->writes);
  add_weights(&text, program, part, step);
  add_constants(&text, step);
  int column = fprintf(out, "  %c%3d  %c %-24s %-12s", step->barrier ? '|' : ' ', number, goes_on ? '+' : ' ',
                       step->name, lap_step_kind_name(step->kind));
  print_wrapped(out, column, lap_text_data(&text));
  lap_text_free(&text);
}

static void print_way(FILE *out, unsigned ways) {
  fprintf(out, "      %s:\n",
          ways == LAP_WAYS           ? "in either case"
          : ways == LAP_WAY_ALL_STAY ? "where all rows stay"
                                     : "where some rows leave");
}

static void print_runs(FILE *out, const lap_program *program, const lap_program_part *part) {
  unsigned ways = LAP_WAYS;
  for (int r = part->first_run; r < part->first_run + part->runs; r++) {
    const lap_program_run *run = &program->run[r];
    const lap_program_step *step = &program->step[run->first];
    if (step->ways != ways) print_way(out, step->ways);
    ways = step->ways;
    for (int i = 0; i < run->steps; i++) print_step(out, program, part, &step[i], i > 0);
  }
}

static void print_counts(FILE *out, lap_program_counts counts) {
  fprintf(out, "%d steps, %d parallel runs, %d barriers needed", counts.steps, counts.runs, counts.barriers);
}

static int first_call(const lap_program *program, int part) {
  int call = 0;
  while (program->call[call].part != part) call++;
  return call;
}

static void print_parts(FILE *out, const lap_program *program) {
  fprintf(out,
          "\nSteps: name, kind, what it reads -> what it writes; weights (rows x columns, bits g group) and\n"
          "constants. A step with + shares the parallel run of the one above it; one with | waits until all\n"
          "threads have done what stands above it. Norms: eps %g.\n",
          (double)program->plan->rms_norm_eps);
  for (int p = 0; p < program->parts; p++) {
    fprintf(out, "\n  %s: ", program->part[p].name);
    print_counts(out, lap_program_count(program, first_call(program, p), 1));
    fputc('\n', out);
    print_runs(out, program, &program->part[p]);
  }
}

/* ---- the pass ---- */

static void print_order(FILE *out, const lap_program *program) {
  fprintf(out, "\nLayers: kind, and the cache that it reads\n");
  for (int c = 1; c < program->calls - 1; c++) {
    const lap_program_call *call = &program->call[c];
    fprintf(out, "  %4d  %-48s %4d\n", call->layer, program->part[call->part].name, call->cache);
  }
}

void lap_inspect_steps(FILE *out, const lap_program *program) {
  print_buffers(out, program);
  print_inputs(out, program);
  print_parts(out, program);
  print_order(out, program);
  fprintf(out, "\nA pass: ");
  print_counts(out, lap_program_count(program, 0, program->calls));
  fputc('\n', out);
}
