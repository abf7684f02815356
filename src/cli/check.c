/* check.c: `lapidary check`: does the cut of a checkpoint equal the monolith? */
#include <stdio.h>
#include <stdlib.h>

#include "cli/opened.h"
#include "cli/support.h"
#include "cutter/gate.h"

static const lap_option options[] = {LAP_KV_OPTION(0), LAP_THREADS_OPTION(0), {0}};

static lap_status compare(lap_model *model, const lap_engine_settings *chosen, lap_error *error) {
  const lap_gate_options gate = {.threads = (int)chosen->threads, .progress = lap_show_part};
  const lap_cut_info cut = lap_model_cut(model);
  lap_gate_result result;
  if (!cut.available) return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s", cut.why);
  lap_status status = lap_gate_run(model, &gate, &result, error);
  lap_hide_progress();
  if (status == LAP_OK)
    printf("equal      %lld logits to the bit, %lld passes\ncut        %s, %s\n", (long long)result.logits,
           (long long)result.passes, cut.fingerprint, cut.path ? cut.path : "built in");
  return status;
}

static int check(const lap_verb *verb, int argc, char **argv) {
  lap_engine_settings chosen = {0};
  const char *operand = NULL;
  char *directory = NULL;
  lap_model *model = NULL;
  lap_error error;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  const lap_model_options how = lap_model_options_of(chosen.kv);
  lap_catch_interrupts();
  lap_status status = lap_find_model(operand, &directory, &error);
  if (status == LAP_OK) status = lap_model_open(directory, &how, &model, &error);
  if (status == LAP_OK) status = compare(model, &chosen, &error);
  lap_model_close(model);
  free(directory);
  if (status != LAP_OK && lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  return status == LAP_OK ? lap_finish_output(LAP_EXIT_OK) : lap_report(&error);
}

const lap_verb lap_verb_check = {
    .name = "check",
    .operands = "[DIR]",
    .max_operands = 1,
    .summary = "Prove that a checkpoint's cut equals the general forward pass, bit for bit.",
    .description =
        "Runs both on the weights of the checkpoint in DIR (default: $LAPIDARY_MODEL, else the bundled "
        "model): "
        "prompts shorter and longer than the window, in one chunk and in odd ones, single tokens while "
        "caches "
        "grow and rings wrap, and what follows a snapshot. Fails, and names the first layer that differs, if "
        "one logit is not the same.",
    .options = options,
    .run = check,
};
