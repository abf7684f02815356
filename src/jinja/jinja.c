/* jinja.c: compiling and rendering: where both start, end and fail.
 *
 * Both run with the C locale's decimal point, for their thread only, and end by returning or by a jump back
 * here; what they allocated is in one arena, which is kept (a template) or cleared (a render).
 *
 * No file of this folder includes one above it. From below:
 *   characters, numbers, values; what is built in (builtin.h); places, tokens and the tree (syntax.h)
 *   lexer, parser                                       from the source to the tree
 *   run, text, iterate, compare, loop                   what is shared by all that runs
 *   arithmetic, call, print, format, operators, access  what is done with values
 *   filters, tests, methods, functions                  what templates call by its name
 *   expression, statement, macro                        the tree is evaluated
 * and this file, which fills in the one way up, lap_jinja_language. */
#include "jinja/jinja.h"

#include <locale.h>
#include <stdlib.h>

#include "jinja/lexer.h"
#include "jinja/macro.h"
#include "jinja/parser.h"
#include "jinja/statement.h"
#include "jinja/tables.h"
#include "jinja/text.h"

enum {
  MAX_TEMPLATE_BYTES = 256 << 20 /* of the tree and all: more than the longest source can need */
};

static const lap_jinja_limits default_limits = {
    .output_bytes = 64 << 20, .memory_bytes = 512 << 20, .steps = 200000000, .depth = 1000};

/* ---- the language ---- */

static const builtin *const filters[] = {lap_jinja_text_filters,     lap_jinja_number_filters,
                                         lap_jinja_sequence_filters, lap_jinja_select_filters,
                                         lap_jinja_json_filters,     NULL};

static const lap_jinja_language language = {.filters = filters,
                                            .tests = lap_jinja_tests,
                                            .functions = lap_jinja_functions,
                                            .methods = {[LAP_JINJA_STRING] = lap_jinja_text_methods,
                                                        [LAP_JINJA_LIST] = lap_jinja_list_methods,
                                                        [LAP_JINJA_TUPLE] = lap_jinja_tuple_methods,
                                                        [LAP_JINJA_DICT] = lap_jinja_dict_methods,
                                                        [LAP_JINJA_LOOP] = lap_jinja_loop_methods,
                                                        [LAP_JINJA_CYCLER] = lap_jinja_cycler_methods},
                                            .call_macro = lap_jinja_call_macro,
                                            .call_loop = lap_jinja_call_loop,
                                            .passes = lap_jinja_passes};

/* ---- the locale ---- */

typedef struct plain_locale {
  locale_t plain, previous;
} plain_locale;

static bool enter_plain_locale(plain_locale *l) {
  l->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!l->plain) return false;
  l->previous = uselocale(l->plain);
  return true;
}

static void leave_plain_locale(const plain_locale *l) {
  uselocale(l->previous);
  freelocale(l->plain);
}

/* ---- compiling ---- */

static void compiler_exhausted(void *context, bool refused) {
  lap_jinja_compiler *c = context;
  (void)refused;
  c->status = lap_fail(c->error, LAP_ERROR_MEMORY, "%s: out of memory for a template", c->compiled->name);
  longjmp(c->failed, 1);
}

/* Lexes and parses; in a function of its own, so that the jump crosses no variable that changes. */
static lap_status run_compiler(lap_jinja_compiler *c) {
  if (!setjmp(c->failed)) {
    lap_jinja_lex(c);
    lap_jinja_parse(c);
  }
  return c->status;
}

static lap_status compile_into(lap_jinja_template *compiled, const lap_jinja_syntax *syntax,
                               lap_error *error) {
  static const lap_jinja_syntax transformers = {.trim_blocks = true, .lstrip_blocks = true};
  lap_jinja_compiler c = {.compiled = compiled,
                          .arena = &compiled->arena,
                          .language = &language,
                          .syntax = syntax ? *syntax : transformers,
                          .error = error,
                          .status = LAP_OK};
  if (compiled->length > LAP_JINJA_MAX_SOURCE_BYTES)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s:1:1: the template is longer than %d bytes", compiled->name,
                    LAP_JINJA_MAX_SOURCE_BYTES);
  compiled->arena.exhausted = compiler_exhausted;
  compiled->arena.exhausted_context = &c;
  lap_status status = run_compiler(&c);
  compiled->arena.exhausted = NULL;
  return status;
}

lap_status lap_jinja_compile(const char *source, size_t length, const char *name,
                             const lap_jinja_syntax *syntax, lap_jinja_template **out, lap_error *error) {
  plain_locale l;
  *out = NULL;
  lap_jinja_template *compiled = calloc(1, sizeof *compiled);
  char *copied = strdup(name);
  if (!compiled || !copied || !enter_plain_locale(&l)) {
    free(compiled);
    free(copied);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for a template", name);
  }
  lap_jinja_arena_init(&compiled->arena, MAX_TEMPLATE_BYTES);
  compiled->name = copied;
  compiled->source = source;
  compiled->length = length;
  lap_status status = compile_into(compiled, syntax, error);
  leave_plain_locale(&l);
  if (status == LAP_OK)
    *out = compiled;
  else
    lap_jinja_free(compiled);
  return status;
}

void lap_jinja_free(lap_jinja_template *compiled) {
  if (!compiled) return;
  lap_jinja_arena_clear(&compiled->arena);
  free(compiled->name);
  free(compiled);
}

/* ---- rendering ---- */

static void render_exhausted(void *context, bool refused) {
  state *s = context;
  if (refused)
    lap_jinja_fail_with(s, LAP_ERROR_UNSUPPORTED, "the template needs more than %zu bytes of memory",
                        s->limits.memory_bytes);
  lap_jinja_fail_with(s, LAP_ERROR_MEMORY, "out of memory");
}

static lap_jinja_limits limits_of(const lap_jinja_options *options) {
  lap_jinja_limits l = options ? options->limits : default_limits;
  if (!l.output_bytes) l.output_bytes = default_limits.output_bytes;
  if (!l.memory_bytes) l.memory_bytes = default_limits.memory_bytes;
  if (!l.steps) l.steps = default_limits.steps;
  if (l.depth <= 0) l.depth = default_limits.depth;
  return l;
}

/* The caller's lists and dicts again, in the render's arena, where the template may change them; strings are
 * shared. */
static value copy_of(state *s, value v) {
  if (v.type != LAP_JINJA_LIST && v.type != LAP_JINJA_DICT) return v;
  value copy = v.type == LAP_JINJA_LIST ? lap_jinja_new_list(&s->arena) : lap_jinja_new_dict(&s->arena);
  lap_jinja_descend(s);
  if (v.type == LAP_JINJA_LIST) {
    for (size_t i = 0; i < v.list->count; i++)
      lap_jinja_append(&s->arena, copy, copy_of(s, v.list->items[i]));
  } else {
    for (size_t i = 0; i < v.dict->count; i++)
      lap_jinja_dict_put(&s->arena, copy.dict, v.dict->entries[i].key, copy_of(s, v.dict->entries[i].value));
  }
  lap_jinja_ascend(s);
  return copy;
}

/* Copies the context and executes the template; the jump of an error ends here. */
static lap_status run(state *s, lap_jinja_out *out, value context) {
  if (!setjmp(s->failed)) {
    s->out = out;
    s->context = copy_of(s, context).dict;
    s->scope = lap_jinja_new_scope(s, NULL);
    lap_jinja_execute(s, s->compiled->body);
  }
  return s->status;
}

static size_t count_runs(const lap_jinja_out *out) {
  size_t count = out->length > 0;
  for (size_t i = 1; i < out->length; i++) count += out->marks[i] != out->marks[i - 1];
  return count;
}

static lap_status hand_over(const lap_jinja_out *text, const char *name, lap_jinja_output *out,
                            lap_error *error) {
  size_t count = count_runs(text);
  out->text = malloc(text->length + 1);
  out->runs = malloc((count + 1) * sizeof *out->runs);
  if (!out->text || !out->runs) {
    lap_jinja_output_free(out);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory for %zu bytes of output", name, text->length);
  }
  if (text->length) memcpy(out->text, text->data, text->length);
  out->text[text->length] = '\0';
  out->length = text->length;
  for (size_t i = 0; i < text->length; i++) {
    if (i == 0 || text->marks[i] != text->marks[i - 1])
      out->runs[out->run_count++] = (lap_jinja_run){.begin = i, .from_template = text->marks[i] != 0};
    out->runs[out->run_count - 1].length++;
  }
  return LAP_OK;
}

lap_status lap_jinja_render(const lap_jinja_template *compiled, const lap_jinja_arena *of_context,
                            lap_jinja_value context, const lap_jinja_options *options, lap_jinja_output *out,
                            lap_error *error) {
  *out = (lap_jinja_output){0};
  if (of_context->failed)
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: the context did not fit into memory", compiled->name);
  if (context.type != LAP_JINJA_DICT)
    return lap_fail(error, LAP_ERROR_FORMAT, "%s: the context is no dict", compiled->name);
  plain_locale l;
  if (!enter_plain_locale(&l)) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", compiled->name);
  state s = {.compiled = compiled,
             .language = &language,
             .limits = limits_of(options),
             .now = options ? options->now : NULL,
             .error = error,
             .status = LAP_OK};
  lap_jinja_out text = {.max_bytes = s.limits.output_bytes};
  lap_jinja_arena_init(&s.arena, s.limits.memory_bytes);
  s.arena.exhausted = render_exhausted;
  s.arena.exhausted_context = &s;
  lap_status status = run(&s, &text, context);
  leave_plain_locale(&l);
  if (status == LAP_OK) status = hand_over(&text, compiled->name, out, error);
  lap_jinja_arena_clear(&s.arena);
  return status;
}

void lap_jinja_output_free(lap_jinja_output *output) {
  free(output->text);
  free(output->runs);
  *output = (lap_jinja_output){0};
}
