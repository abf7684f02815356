/* inspect.c: `lapidary inspect`: a checkpoint's plan, without computing anything. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/plan.h"
#include "cli/configs.h"
#include "cli/inspect_print.h"
#include "cli/inspect_steps.h"
#include "cli/opened.h"
#include "cli/options.h"
#include "cli/support.h"
#include "model/model.h"

typedef struct settings {
  bool json, steps;
  int64_t context;
  int kv;
} settings;

static const lap_option options[] = {
    {.kind = LAP_OPTION_FLAG,
     .name = "json",
     .offset = offsetof(settings, json),
     .help = "Print JSON instead of a table."},
    {.kind = LAP_OPTION_FLAG,
     .name = "steps",
     .offset = offsetof(settings, steps),
     .help = "Print the forward pass step by step: buffers, what each step reads and writes, barriers."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "context",
     .argument = "N",
     .offset = offsetof(settings, context),
     .low = 1,
     .high = INT32_MAX,
     .help = "Tokens to add up KV memory for; default: the model's context."},
    {.kind = LAP_OPTION_CHOICE,
     .name = "kv",
     .argument = "KIND",
     .offset = offsetof(settings, kv),
     .choices = lap_kv_words,
     .help = "KV caches: config (as the checkpoint's kv_config.json says, the default), plain (16 bits), 8 "
             "or 4 bits."},
    {0}};

static lap_status print_program(const lap_plan *plan, lap_error *error) {
  lap_program *program;
  lap_status status = lap_program_build(plan, &program, error);
  if (status == LAP_OK) lap_inspect_steps(stdout, program);
  lap_program_free(program);
  return status;
}

static lap_status print_plan(const lap_plan *plan, const lap_tensors *tensors, const settings *chosen,
                             lap_error *error) {
  lap_device *device = NULL;
  lap_bound *bound = NULL;
  const lap_model_options how = lap_model_options_of(chosen->kv);
  lap_status status = lap_model_choose_code(plan, &how, &device, &bound, error);
  if (status == LAP_OK) {
    const lap_cut_info cut = device->driver->cut(bound);
    int64_t context = chosen->context ? chosen->context : plan->max_position_embeddings;
    if (chosen->json && !lap_inspect_json(stdout, plan, tensors, &cut, (uint64_t)context))
      status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for JSON");
    if (!chosen->json) lap_inspect_text(stdout, plan, tensors, &cut, (uint64_t)context);
  }
  lap_model_release_code(device, bound);
  return status;
}

static lap_status print_directory(const char *directory, const settings *chosen, lap_error *error) {
  lap_tensors *tensors;
  lap_plan *plan = NULL;
  lap_status status = lap_tensors_open(directory, &tensors, error);
  if (status != LAP_OK) return status;
  status = lap_plan_build(directory, tensors, (lap_kv_mode)chosen->kv, &plan, error);
  if (status == LAP_OK)
    status = chosen->steps ? print_program(plan, error) : print_plan(plan, tensors, chosen, error);
  lap_plan_free(plan);
  lap_tensors_close(tensors);
  return status;
}

static lap_status print_steps_of_config(const char *operand, const settings *chosen, lap_error *error) {
  lap_plan *plan;
  lap_status status = lap_plan_config(operand, (lap_kv_mode)chosen->kv, &plan, error);
  if (status == LAP_OK) status = print_program(plan, error);
  lap_plan_free(plan);
  return status;
}

static lap_status print_model(const char *operand, const settings *chosen, lap_error *error) {
  char *directory = NULL;
  lap_status status = lap_find_model(operand, &directory, error);
  if (status == LAP_OK) status = print_directory(directory, chosen, error);
  free(directory);
  return status;
}

static int inspect(const lap_verb *verb, int argc, char **argv) {
  settings chosen = {0};
  const char *operand = NULL;
  lap_error error;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  if (chosen.json && chosen.steps)
    return lap_usage_error(verb, "--json and --steps exclude each other: steps are printed for people");
  const bool config = chosen.steps && lap_is_config(operand);
  lap_status status =
      config ? print_steps_of_config(operand, &chosen, &error) : print_model(operand, &chosen, &error);
  return status == LAP_OK ? LAP_EXIT_OK : lap_report(&error);
}

const lap_verb lap_verb_inspect = {
    .name = "inspect",
    .operands = "[DIR]",
    .max_operands = 1,
    .summary = "Show a checkpoint's structure, its quantization and its memory.",
    .description =
        "Reads the checkpoint in DIR (default: $LAPIDARY_MODEL, else the bundled model) and prints its plan: "
        "every layer with its role, shapes, bits and KV cache, and what weights and caches take. With "
        "--steps it "
        "prints the program that the plan becomes; then DIR may also be a config.json or one of the "
        "names " LAP_CONFIG_NAMES ".",
    .options = options,
    .run = inspect,
};
