/* run.c: `lapidary run`: a prompt continued, shown as it comes.
 *
 * Invariant: standard output gets the text and one newline, nothing else; and the text depends on the
 * prompt, the checkpoint and the options that choose tokens, not on speed, terminal or threads. */
#include <editline/readline.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "cli/opened.h"
#include "cli/options.h"
#include "cli/sampling.h"
#include "cli/support.h"
#include "model/model.h"

enum {
  NOT_GIVEN = -1
};

typedef struct settings {
  lap_engine_settings engine;
  const char *model;
  int64_t max_tokens; /* NOT_GIVEN: until the model ends */
  lap_sampling_settings sampling;
  lap_texts stop;
  bool ignore_eos;
  bool plain;
  bool special;
  bool stats;
  const char *save;
  const char *restore;
} settings;

static const settings defaults = {.max_tokens = NOT_GIVEN, .sampling = LAP_SAMPLING_DEFAULTS};

static const lap_option options[] = {
    LAP_MODEL_OPTION(offsetof(settings, model)),
    {.kind = LAP_OPTION_INTEGER,
     .letter = 'n',
     .name = "max-tokens",
     .argument = "N",
     .offset = offsetof(settings, max_tokens),
     .low = 0,
     .high = INT32_MAX,
     .help = "Generate at most N tokens; 0 only evaluates the prompt. Default: until the model ends the text "
             "or its "
             "context is full."},
    LAP_SAMPLING_OPTIONS(offsetof(settings, sampling)),
    {.kind = LAP_OPTION_TEXTS,
     .name = "stop",
     .argument = "TEXT",
     .offset = offsetof(settings, stop),
     .help = "End before TEXT would appear; may be given again."},
    {.kind = LAP_OPTION_FLAG,
     .name = "ignore-eos",
     .offset = offsetof(settings, ignore_eos),
     .help = "Go on where the model would end."},
    {.kind = LAP_OPTION_FLAG,
     .name = "plain",
     .offset = offsetof(settings, plain),
     .help = "Control tokens spelled in the prompt stay text."},
    {.kind = LAP_OPTION_FLAG,
     .name = "special",
     .offset = offsetof(settings, special),
     .help = "Show control tokens as text."},
    {.kind = LAP_OPTION_FLAG,
     .name = "stats",
     .offset = offsetof(settings, stats),
     .help = "Print speed and memory on standard error afterwards."},
    {.kind = LAP_OPTION_TEXT,
     .name = "save",
     .argument = "FILE",
     .offset = offsetof(settings, save),
     .help = "Afterwards write the prompt and all tokens generated, with their KV caches, to FILE."},
    {.kind = LAP_OPTION_TEXT,
     .name = "restore",
     .argument = "FILE",
     .offset = offsetof(settings, restore),
     .help =
         "Begin with what --save wrote; PROMPT follows it. Without PROMPT the text goes on where it was."},
    LAP_ENGINE_OPTIONS(offsetof(settings, engine)),
    {0}};

typedef struct job {
  const settings *chosen;
  lap_opened opened;
  lap_sampler *sampler;
  char *prompt;
  size_t prompt_length;
  int32_t *ids;
  size_t count;
  lap_generate_result result;
  bool output_lost;
} job;

/* ---- before ---------------------------------------------------------------------------------- */

/* One line from the terminal; the question goes to stderr. */
static lap_status ask_for_prompt(job *j, lap_error *error) {
  setlocale(LC_CTYPE, "");
  rl_outstream = stderr;
  j->prompt = readline("prompt> ");
  if (!j->prompt) return lap_fail(error, LAP_ERROR_ARGUMENT, "there is no prompt");
  j->prompt_length = strlen(j->prompt);
  return LAP_OK;
}

static lap_status read_prompt(job *j, const char *operand, lap_error *error) {
  if (!operand && j->chosen->restore) operand = "";
  if (!operand && isatty(STDIN_FILENO)) return ask_for_prompt(j, error);
  if (!operand || strcmp(operand, "-") == 0) return lap_read_whole("-", &j->prompt, &j->prompt_length, error);
  j->prompt = strdup(operand);
  if (!j->prompt) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the prompt");
  j->prompt_length = strlen(operand);
  return LAP_OK;
}

/* Evaluates the last token of a snapshot again: its logits choose the next one. */
static lap_status take_back_last(job *j, int64_t held, lap_error *error) {
  j->ids[0] = lap_session_tokens(j->opened.session, &held)[held - 1];
  j->count = 1;
  return lap_session_trim(j->opened.session, held - 1, error);
}

/* The prompt's ids; what a snapshot holds begins with BOS already. */
static lap_status encode_prompt(job *j, lap_error *error) {
  const lap_range whole = {0, j->prompt_length};
  lap_status status = lap_model_encode_marked(j->opened.model, j->prompt, j->prompt_length, &whole,
                                              !j->chosen->plain, &j->ids, &j->count, error);
  if (status != LAP_OK) return status;
  int64_t held;
  lap_session_tokens(j->opened.session, &held);
  int32_t bos = lap_model_bos(j->opened.model);
  if (held && j->count && j->ids[0] == bos) memmove(j->ids, j->ids + 1, --j->count * sizeof *j->ids);
  if (j->count) return LAP_OK;
  if (held) return take_back_last(j, held, error);
  return lap_fail(error, LAP_ERROR_ARGUMENT, "the prompt is empty");
}

static lap_status prepare(job *j, const char *operand, lap_error *error) {
  const settings *chosen = j->chosen;
  lap_status status = lap_open_engine(chosen->model, &chosen->engine, &j->opened, error);
  if (status != LAP_OK) return status;
  if (chosen->engine.threads != 1) lap_model_warm(j->opened.model); /* the tokenizer is loaded meanwhile */
  const lap_sampling sampling = lap_sampling_of(&chosen->sampling, j->opened.model);
  status = lap_sampler_create(j->opened.model, &sampling, &j->sampler, error);
  if (status == LAP_OK && chosen->restore)
    status = lap_session_restore(j->opened.session, chosen->restore, error);
  if (status == LAP_OK) status = read_prompt(j, operand, error);
  if (status == LAP_OK) status = encode_prompt(j, error);
  static char label[] = "prompt";
  lap_session_set_progress(j->opened.session, lap_show_progress, label);
  return status;
}

/* ---- generation ------------------------------------------------------------------------------ */

static bool show_piece(void *context, const char *text, size_t length) {
  job *j = context;
  lap_hide_progress();
  if (length) j->output_lost = !lap_put(text, length);
  return !j->output_lost && !lap_interrupted();
}

/* Nothing is generated: only what the prompt leaves in the session is wanted. */
static lap_status evaluate_only(job *j, lap_error *error) {
  double start = lap_seconds();
  lap_status status = lap_session_eval(j->opened.session, j->ids, (int64_t)j->count, 0, NULL, error);
  if (status == LAP_OK) status = lap_session_end_prompt(j->opened.session, error);
  double seconds = lap_seconds() - start;
  j->result.finish = LAP_FINISH_LENGTH;
  j->result.prompt_tokens = (int64_t)j->count;
  j->result.prompt_seconds = seconds;
  return status;
}

static lap_status generate(job *j, lap_error *error) {
  const settings *chosen = j->chosen;
  if (chosen->max_tokens == 0) return evaluate_only(j, error);
  const lap_generate_options how = {
      .max_tokens = chosen->max_tokens == NOT_GIVEN ? 0 : chosen->max_tokens,
      .stop = chosen->stop.item,
      .stop_count = chosen->stop.count,
      .ignore_eos = chosen->ignore_eos,
      .show_special = chosen->special,
      .text = show_piece,
      .context = j,
  };
  lap_status status =
      lap_generate(j->opened.session, j->sampler, j->ids, (int64_t)j->count, &how, &j->result, error);
  lap_hide_progress();
  if (status == LAP_OK || lap_interrupted()) lap_put("\n", 1);
  return status;
}

/* The snapshot is to hold all that was shown, so the last token, which was not evaluated, is now. */
static lap_status save(job *j, lap_error *error) {
  int64_t held;
  lap_session_tokens(j->opened.session, &held);
  lap_status status = LAP_OK;
  if (j->result.last_token >= 0 && held < lap_model_context(j->opened.model))
    status = lap_session_eval(j->opened.session, &j->result.last_token, 1, 0, NULL, error);
  return status == LAP_OK ? lap_session_save(j->opened.session, j->chosen->save, error) : status;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? (double)tokens / seconds : 0;
}

static void print_bytes(const char *what, uint64_t bytes) {
  fprintf(stderr, "%-10s %.1f MiB\n", what, (double)bytes / (1024 * 1024));
}

static void print_stats(const job *j) {
  static const char *const reasons[] = {
      [LAP_FINISH_NONE] = "nothing",  [LAP_FINISH_EOS] = "end token", [LAP_FINISH_STOP] = "stop string",
      [LAP_FINISH_LENGTH] = "length", [LAP_FINISH_CALLS] = "calls",   [LAP_FINISH_CALLER] = "interrupted"};
  const lap_generate_result *r = &j->result;
  lap_stats stats = lap_session_stats(j->opened.session);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  /* The first token comes from the prompt's logits: n tokens take n - 1 steps of decoding. */
  int64_t steps = r->generated_tokens > 1 ? r->generated_tokens - 1 : 0;
  fprintf(stderr, "%-10s %lld tokens in %.3f s, %.1f tokens/s\n", "prompt", (long long)r->prompt_tokens,
          r->prompt_seconds, per_second(r->prompt_tokens, r->prompt_seconds));
  fprintf(stderr, "%-10s %lld tokens in %.3f s, %.1f tokens/s\n", "decode", (long long)steps,
          r->decode_seconds, per_second(steps, r->decode_seconds));
  fprintf(stderr, "%-10s %lld tokens, %s\n", "generated", (long long)r->generated_tokens, reasons[r->finish]);
  print_bytes("kv", stats.kv_bytes);
  print_bytes("scratch", stats.scratch_bytes);
  print_bytes("weights", lap_plan_measure(j->opened.model->plan).weights);
  print_bytes("peak rss", (uint64_t)usage.ru_maxrss * 1024);
  fprintf(stderr, "%-10s %d\n", "threads", stats.threads);
  fprintf(stderr, "%-10s %s\n", "isa", stats.isa);
  fprintf(stderr, "%-10s %lld monolith, %lld cut\n", "passes", (long long)stats.passes_monolith,
          (long long)stats.passes_cut);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int work(job *j, const char *operand) {
  lap_error error;
  lap_status status = prepare(j, operand, &error);
  if (status == LAP_OK) status = generate(j, &error);
  lap_hide_progress();
  if (status == LAP_OK && j->chosen->stats) print_stats(j);
  if (status == LAP_OK && j->chosen->save) status = save(j, &error);
  if (lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  if (status != LAP_OK) return lap_report(&error);
  return LAP_EXIT_OK;
}

static int run(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  const char *operand = NULL;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  if (!lap_check_sampling(verb, &chosen.sampling)) return LAP_EXIT_USAGE;
  lap_catch_interrupts();
  job j = {.chosen = &chosen, .result.last_token = -1};
  code = work(&j, operand);
  lap_sampler_destroy(j.sampler);
  lap_close_opened(&j.opened);
  free(j.prompt);
  free(j.ids);
  return code;
}

const lap_verb lap_verb_run = {
    .name = "run",
    .operands = "[PROMPT|-]",
    .max_operands = 1,
    .summary = "Continue a prompt.",
    .description =
        "Continues PROMPT as raw text and prints what comes, and a newline. Control tokens spelled in the "
        "prompt count "
        "as such, unless --plain is given; the model's BOS stands at its head exactly once. Without PROMPT, "
        "or with -, the prompt is "
        "read from "
        "standard input; without PROMPT on a terminal, it is asked for.\n\nCtrl-C ends the generation; a "
        "second one "
        "ends the program at once.",
    .options = options,
    .run = run,
};
