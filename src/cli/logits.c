/* logits.c: `lapidary logits`: token ids in, raw logits out, by the way that the caller chooses.
 *
 * The first P ids are evaluated in chunks, the others one by one. Rows are written as soon as they are
 * known, so memory is bounded by one chunk's rows, whatever the length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "cli/npy.h"
#include "cli/opened.h"
#include "cli/options.h"
#include "cli/support.h"

enum {
  NOT_GIVEN = -1
};

typedef struct settings {
  lap_engine_settings engine;
  const char *ids;
  const char *ids_file;
  int64_t decode_from; /* NOT_GIVEN: everything is prefill */
  int64_t last;
  bool all;
  const char *out;
} settings;

static const settings defaults = {
    .decode_from = NOT_GIVEN, .last = NOT_GIVEN, .engine.chunk = LAP_DEFAULT_CHUNK};

static const lap_option options[] = {
    {.kind = LAP_OPTION_TEXT,
     .name = "ids",
     .argument = "IDS",
     .offset = offsetof(settings, ids),
     .help = "The token ids, for instance 2,315,439. Nothing is added, BOS neither."},
    {.kind = LAP_OPTION_TEXT,
     .name = "ids-file",
     .argument = "FILE",
     .offset = offsetof(settings, ids_file),
     .help = "A file with the ids, divided by commas or white space; - for standard input."},
    {.kind = LAP_OPTION_TEXT,
     .letter = 'o',
     .name = "out",
     .argument = "FILE.npy",
     .offset = offsetof(settings, out),
     .help = "Where the array [K, vocab] of float32 goes; - for standard output."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "last",
     .argument = "K",
     .offset = offsetof(settings, last),
     .low = 1,
     .high = INT32_MAX,
     .help = "Write the logits after each of the last K ids; default: 1."},
    {.kind = LAP_OPTION_FLAG,
     .name = "all",
     .offset = offsetof(settings, all),
     .help = "Write the logits after every id."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "decode-from",
     .argument = "P",
     .offset = offsetof(settings, decode_from),
     .low = 0,
     .high = INT32_MAX,
     .help = "Evaluate the first P ids as a prompt, the others one by one; default: all as a prompt."},
    LAP_ENGINE_OPTIONS(offsetof(settings, engine)),
    {0}};

typedef struct job {
  const settings *chosen;
  lap_opened opened;
  int32_t *ids;
  int64_t count;
  int64_t first_row; /* position of the first row to be written */
  lap_npy npy;
  float *rows; /* as many as one chunk can want */
} job;

static lap_status read_ids(job *j, lap_error *error) {
  char *text = NULL;
  const char *name = j->chosen->ids ? "--ids" : j->chosen->ids_file;
  const char *source = j->chosen->ids;
  size_t length = source ? strlen(source) : 0, count;
  lap_status status = LAP_OK;
  if (!source) status = lap_read_whole(j->chosen->ids_file, &text, &length, error);
  if (status == LAP_OK) status = lap_parse_ids(source ? source : text, length, name, &j->ids, &count, error);
  free(text);
  if (status != LAP_OK) return status;
  j->count = (int64_t)count;
  return count ? LAP_OK : lap_fail(error, LAP_ERROR_FORMAT, "%s: there are no ids", name);
}

/* How many ids come by prefill, and which rows are wanted: out of the number of ids. */
static lap_status resolve(const job *j, int64_t *prompt, int64_t *rows, lap_error *error) {
  const settings *chosen = j->chosen;
  *prompt = chosen->decode_from == NOT_GIVEN ? j->count : chosen->decode_from;
  *rows = chosen->all ? j->count : chosen->last == NOT_GIVEN ? 1 : chosen->last;
  if (*prompt > j->count)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--decode-from: %lld is more than the %lld ids",
                    (long long)*prompt, (long long)j->count);
  if (*rows > j->count)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--last: %lld is more than the %lld ids", (long long)*rows,
                    (long long)j->count);
  return LAP_OK;
}

static lap_status allocate_rows(job *j, int64_t rows, lap_error *error) {
  size_t most, bytes, held = (size_t)(rows < j->chosen->engine.chunk ? rows : j->chosen->engine.chunk);
  if (__builtin_mul_overflow(held, (size_t)lap_model_vocab_size(j->opened.model), &most) ||
      __builtin_mul_overflow(most, sizeof *j->rows, &bytes) || !(j->rows = malloc(bytes)))
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %zu rows of logits", held);
  return LAP_OK;
}

/* Evaluates ids `from`..`from + count` in one pass and writes the rows that are wanted of them. */
static lap_status step(job *j, int64_t from, int64_t count, lap_error *error) {
  int64_t wanted = from + count - (j->first_row > from ? j->first_row : from);
  if (wanted < 0) wanted = 0;
  lap_status status = lap_session_eval(j->opened.session, j->ids + from, count, wanted, j->rows, error);
  if (status != LAP_OK) return status;
  size_t values = (size_t)wanted * (size_t)lap_model_vocab_size(j->opened.model);
  status = lap_npy_write(&j->npy, j->rows, values, error);
  static char label[] = "ids";
  if (status == LAP_OK && !lap_show_progress(label, from + count, j->count) && from + count < j->count)
    return lap_fail(error, LAP_ERROR_STATE, "interrupted");
  return status;
}

static lap_status evaluate(job *j, int64_t prompt, lap_error *error) {
  lap_status status = LAP_OK;
  int64_t chunk = j->chosen->engine.chunk;
  for (int64_t at = 0; at < prompt && status == LAP_OK; at += chunk)
    status = step(j, at, prompt - at < chunk ? prompt - at : chunk, error);
  if (status == LAP_OK) status = lap_session_end_prompt(j->opened.session, error);
  for (int64_t at = prompt; at < j->count && status == LAP_OK; at++) status = step(j, at, 1, error);
  return status;
}

static lap_status write_logits(job *j, lap_error *error) {
  int64_t prompt, rows;
  lap_status status = resolve(j, &prompt, &rows, error);
  if (status == LAP_OK) status = allocate_rows(j, rows, error);
  if (status != LAP_OK) return status;
  j->first_row = j->count - rows;
  status = lap_npy_begin(j->chosen->out, rows, lap_model_vocab_size(j->opened.model), &j->npy, error);
  if (status != LAP_OK) return status;
  status = evaluate(j, prompt, error);
  lap_hide_progress();
  lap_status ended = lap_npy_end(&j->npy, status == LAP_OK, error);
  return status == LAP_OK ? ended : status;
}

static int work(job *j, const char *directory) {
  lap_error error;
  lap_status status = read_ids(j, &error);
  if (status == LAP_OK) status = lap_open_engine(directory, &j->chosen->engine, &j->opened, &error);
  if (status == LAP_OK) status = write_logits(j, &error);
  if (status != LAP_OK && lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  /* A closed pipe is lap_finish_output's to judge. */
  if (status != LAP_OK && !ferror(stdout)) return lap_report(&error);
  return status == LAP_OK ? LAP_EXIT_OK : LAP_EXIT_FAILURE;
}

static int logits(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  const char *operand = NULL;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, &operand, &count, &code)) return code;
  if (!chosen.ids == !chosen.ids_file)
    return lap_usage_error(verb, "exactly one of --ids and --ids-file is needed");
  if (!chosen.out) return lap_usage_error(verb, "--out: is needed");
  if (chosen.all && chosen.last != NOT_GIVEN) return lap_usage_error(verb, "--all: contradicts --last");
  lap_catch_interrupts();
  job j = {.chosen = &chosen};
  code = work(&j, operand);
  lap_close_opened(&j.opened);
  free(j.rows);
  free(j.ids);
  return code;
}

const lap_verb lap_verb_logits = {
    .name = "logits",
    .operands = "[DIR]",
    .max_operands = 1,
    .summary = "Write the logits of a sequence of token ids to a NumPy file.",
    .description =
        "Evaluates the ids with the checkpoint in DIR (default: $LAPIDARY_MODEL, else the bundled model): "
        "the "
        "first P as a prompt in chunks of N, the others one by one, and writes what the model says after "
        "each "
        "of the last K as float32 logits [K, vocab]. For tools and tests.",
    .options = options,
    .run = logits,
};
