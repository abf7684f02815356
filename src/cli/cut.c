/* cut.c: `lapidary cut`: a checkpoint becomes a program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/configs.h"
#include "cli/opened.h"
#include "cli/support.h"
#include "cut/generate.h"
#include "cutter/cutter.h"

typedef struct settings {
  lap_engine_settings engine;
  const char *emit;
} settings;

static const lap_option options[] = {
    {.kind = LAP_OPTION_TEXT,
     .name = "emit",
     .argument = "FILE",
     .offset = offsetof(settings, emit),
     .help = "Write the generated C to FILE (- for standard output) instead of compiling it."},
    LAP_KV_OPTION(offsetof(settings, engine)),
    LAP_THREADS_OPTION(offsetof(settings, engine)),
    {0}};

/* ---- the source alone ---- */

static lap_status source_of_config(const char *operand, lap_kv_mode kv, char **source, size_t *length,
                                   lap_error *error) {
  lap_plan *plan = NULL;
  lap_status status = lap_plan_config(operand, kv, &plan, error);
  if (status == LAP_OK) status = lap_cut_generate(plan, operand, source, length, error);
  lap_plan_free(plan);
  return status;
}

static lap_status write_source(const char *path, const char *source, size_t length, lap_error *error) {
  if (strcmp(path, "-") == 0) {
    lap_put(source, length); /* lap_finish_output says what went wrong */
    return LAP_OK;
  }
  FILE *file = fopen(path, "w");
  if (!file) return lap_fail(error, LAP_ERROR_IO, "--emit: %s: cannot be written", path);
  bool written = fwrite(source, 1, length, file) == length;
  if (fclose(file) == 0 && written) return LAP_OK;
  return lap_fail(error, LAP_ERROR_IO, "--emit: %s: cannot be written", path);
}

static int emit(const char *operand, const settings *chosen) {
  lap_error error;
  char *source = NULL, *directory = NULL;
  size_t length = 0;
  const lap_model_options how = lap_model_options_of(chosen->engine.kv);
  lap_status status;
  if (lap_is_config(operand)) {
    status = source_of_config(operand, how.kv, &source, &length, &error);
  } else {
    status = lap_find_model(operand, &directory, &error);
    if (status == LAP_OK) status = lap_cutter_source(directory, &how, &source, &length, &error);
  }
  if (status == LAP_OK) status = write_source(chosen->emit, source, length, &error);
  free(source);
  free(directory);
  return status == LAP_OK ? lap_finish_output(LAP_EXIT_OK) : lap_report(&error);
}

/* ---- the whole way ---- */

static int cut_directory(const char *operand, const settings *chosen) {
  lap_error error;
  char *directory = NULL;
  lap_cutter_result result = {0};
  const lap_gate_options gate = {.threads = (int)chosen->engine.threads,
                                 .attention = lap_attention_method_asked(),
                                 .progress = lap_show_part};
  const lap_model_options how = lap_model_options_of(chosen->engine.kv);
  lap_status status = lap_find_model(operand, &directory, &error);
  if (status == LAP_OK) status = lap_cutter_run(directory, &how, &gate, &result, &error);
  lap_hide_progress();
  free(directory);
  if (status != LAP_OK && lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  if (status != LAP_OK) return lap_report(&error);
  printf("generated  %.1f kB of C\ncompiled   %.1f kB in %.1f s\n", (double)result.source_bytes * 1e-3,
         (double)result.object_bytes * 1e-3, result.compile_seconds);
  printf("proved     %lld logits equal to the bit, %lld passes, %.1f s\nstored     %s\n",
         (long long)result.gate.logits, (long long)result.gate.passes, result.gate_seconds, result.path);
  free(result.path);
  return lap_finish_output(LAP_EXIT_OK);
}

static int cut(const lap_verb *verb, int argc, char **argv) {
  settings chosen = {0};
  const char *operand = NULL;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  if (chosen.emit) return emit(operand, &chosen);
  if (lap_is_config(operand))
    return lap_usage_error(verb, "%s: is a configuration without weights: only --emit FILE is possible",
                           operand);
  lap_catch_interrupts();
  return cut_directory(operand, &chosen);
}

const lap_verb lap_verb_cut = {
    .name = "cut",
    .operands = "[DIR]",
    .max_operands = 1,
    .summary = "Turn a checkpoint into a program: generate, compile, prove and store its forward pass.",
    .description =
        "Generates straight-line C for the checkpoint in DIR (default: $LAPIDARY_MODEL, else the bundled "
        "model) "
        "and its KV setting, compiles it with $CC or cc, runs it against the monolith until every logit has "
        "proved equal to the bit, and stores it below $XDG_CACHE_HOME/lapidary (~/.cache/lapidary). From "
        "then "
        "on it is used for every checkpoint of that structure. What does not pass is not stored.\n\n"
        "With --emit, DIR may also be a config.json or one of the names " LAP_CONFIG_NAMES ".",
    .options = options,
    .run = cut,
};
