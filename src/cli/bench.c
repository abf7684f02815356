/* bench.c: `lapidary bench`: how fast, and how much of what the machine can do that is.
 *
 * Here is the command line and the order of events; src/bench measures and shows. Invariant: what cannot be
 * done (a bad list, a picture that cannot be written) is refused before anything is measured. */
#include "bench/bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/configs.h"
#include "cli/opened.h"
#include "cli/options.h"
#include "cli/support.h"
#include "engine/passes.h"

enum {
  MOST_TOKENS = 1 << 24,
  ITEM_TEXT = 32
};

typedef struct settings {
  const char *model;
  const char *shape;
  const char *directory; /* of the shape's checkpoint */
  int64_t prompt;
  int64_t decode;
  int64_t repeat;
  const char *depth; /* lists, as given */
  const char *threads;
  const char *kv;
  const char *compare;
  bool json;
  bool markdown;
  const char *svg;
} settings;

static const settings defaults = {.prompt = 512, .decode = 64, .repeat = 5, .depth = "0,1024,4096"};

static const lap_option options[] = {
    LAP_MODEL_OPTION(offsetof(settings, model)),
    {.kind = LAP_OPTION_TEXT,
     .name = "shape",
     .argument = "CONFIG",
     .offset = offsetof(settings, shape),
     .choices = lap_config_names,
     .help = "In place of a checkpoint: forge one of random weights, as lapidary forge does, of one of the "
             "public "
             "sizes (" LAP_CONFIG_NAMES ") or of a config.json, and remove it afterwards."},
    {.kind = LAP_OPTION_TEXT,
     .name = "dir",
     .argument = "DIR",
     .offset = offsetof(settings, directory),
     .help = "Where --shape has room for it; default: $TMPDIR, else /tmp."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "prompt",
     .argument = "N",
     .offset = offsetof(settings, prompt),
     .low = 0,
     .high = MOST_TOKENS,
     .help = "Tokens of the prompt that is measured; default: 512. 0 leaves prompts out."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "decode",
     .argument = "N",
     .offset = offsetof(settings, decode),
     .low = 0,
     .high = MOST_TOKENS,
     .help = "Tokens that are decoded one by one; default: 64. 0 leaves decoding out."},
    {.kind = LAP_OPTION_TEXT,
     .name = "depth",
     .argument = "LIST",
     .offset = offsetof(settings, depth),
     .help = "Tokens that the session holds before, for instance 0,4096,32768; default: 0,1024,4096. Depths "
             "beyond the context are skipped."},
    {.kind = LAP_OPTION_TEXT,
     .name = "threads",
     .argument = "LIST",
     .offset = offsetof(settings, threads),
     .help = "Numbers of threads, for instance 1,2; default: the cores available."},
    {.kind = LAP_OPTION_TEXT,
     .name = "kv",
     .argument = "LIST",
     .offset = offsetof(settings, kv),
     .choices = lap_kv_words,
     .help = "KV caches, some of config, plain, 8 and 4, one after the other; default: config."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "repeat",
     .argument = "N",
     .offset = offsetof(settings, repeat),
     .low = 1,
     .high = LAP_BENCH_MAX_ROUNDS,
     .help = "Rounds that are counted; default: 5. One more comes before them and is not."},
    {.kind = LAP_OPTION_TEXT,
     .name = "compare",
     .argument = "LIST",
     .offset = offsetof(settings, compare),
     .help = "Compare by turns, within each round: two forward passes, out of monolith, cut and auto, or "
             "two and more KV caches, out of config, plain, 8 and 4 (in place of --kv). Shows all rates, and "
             "their ratios to those of the first, round by round; for forward passes also the time from the "
             "start of a process to its first token."},
    {.kind = LAP_OPTION_FLAG,
     .name = "json",
     .offset = offsetof(settings, json),
     .help = "Print JSON instead of tables."},
    {.kind = LAP_OPTION_FLAG,
     .name = "markdown",
     .offset = offsetof(settings, markdown),
     .help = "Print Markdown tables."},
    {.kind = LAP_OPTION_TEXT,
     .name = "svg",
     .argument = "FILE",
     .offset = offsetof(settings, svg),
     .help = "Also draw a roofline and the decode rate over depth into FILE."},
    {0}};

/* ---- lists ----------------------------------------------------------------------------------- */

/* Turns one item of a list into a number; false after telling the user what is wrong. */
typedef bool parse_item(const lap_verb *verb, const char *name, const char *text, int64_t *value);

static bool parse_number_in(const lap_verb *verb, const char *name, const char *text, uint64_t low,
                            uint64_t high, int64_t *value) {
  uint64_t number;
  if (lap_parse_unsigned(text, high, &number) && number >= low) {
    *value = (int64_t)number;
    return true;
  }
  lap_usage_error(verb, "--%s: '%s' is not in %llu..%llu", name, text, (unsigned long long)low,
                  (unsigned long long)high);
  return false;
}

static bool parse_depth(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_number_in(verb, name, text, 0, MOST_TOKENS, value);
}

static bool parse_threads(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_number_in(verb, name, text, 1, LAP_MAX_THREADS, value);
}

/* "auto, monolith, cut" */
static void join_words(const char *const *words, char text[96]) {
  text[0] = '\0';
  for (int i = 0; words[i]; i++) {
    size_t length = strlen(text);
    snprintf(text + length, 96 - length, "%s%s", i ? ", " : "", words[i]);
  }
}

static bool find_word(const char *const *words, const char *text, int64_t *index) {
  for (*index = 0; words[*index]; (*index)++)
    if (strcmp(words[*index], text) == 0) return true;
  return false;
}

static bool parse_word(const lap_verb *verb, const char *name, const char *text, const char *const *words,
                       int64_t *value) {
  char known[96];
  if (find_word(words, text, value)) return true;
  join_words(words, known);
  lap_usage_error(verb, "--%s: '%s' is none of %s", name, text, known);
  return false;
}

static bool parse_kv(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_word(verb, name, text, lap_kv_words, value);
}

static bool parse_path(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_word(verb, name, text, lap_path_words, value);
}

/* What stands before the first comma, cut short if it is too long to be right; returns its whole length. */
static size_t copy_item(const char *text, char item[ITEM_TEXT]) {
  size_t length = strcspn(text, ",");
  snprintf(item, ITEM_TEXT, "%.*s", (int)(length < ITEM_TEXT ? length : ITEM_TEXT), text);
  return length;
}

/* Items between commas. One that was there already is left out. */
static bool parse_list(const lap_verb *verb, const char *name, const char *text, parse_item *parse,
                       lap_bench_list *list) {
  for (bool more = true; more;) {
    char item[ITEM_TEXT];
    int64_t value;
    size_t length = copy_item(text, item);
    if (!parse(verb, name, item, &value)) return false;
    bool known = false;
    for (int i = 0; i < list->count; i++) known = known || list->item[i] == value;
    if (!known && list->count == LAP_BENCH_ITEMS) {
      lap_usage_error(verb, "--%s: more than %d items", name, LAP_BENCH_ITEMS);
      return false;
    }
    if (!known) list->item[list->count++] = value;
    more = text[length] == ',';
    text += length + 1;
  }
  return true;
}

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void sort(lap_bench_list *list) {
  qsort(list->item, (size_t)list->count, sizeof list->item[0], by_size);
}

/* ---- what is compared ------------------------------------------------------------------------ */

/* Paths, with each KV setting of --kv; one group for each of these. */
static bool group_by_kv(const lap_verb *verb, const settings *chosen, const lap_bench_list *paths,
                        lap_bench_request *request) {
  lap_bench_list kv = {0};
  if (!parse_list(verb, "kv", chosen->kv ? chosen->kv : lap_kv_words[LAP_KV_CONFIG], parse_kv, &kv))
    return false;
  request->groups = kv.count;
  request->sides = paths->count;
  for (int group = 0; group < kv.count; group++)
    for (int side = 0; side < paths->count; side++)
      request->side[group][side] =
          (lap_bench_side){.kv = (lap_kv_mode)kv.item[group], .path = (lap_path)paths->item[side]};
  return true;
}

static bool compare_paths(const lap_verb *verb, const settings *chosen, lap_bench_request *request) {
  lap_bench_list paths = {0};
  request->compared = LAP_BENCH_PATHS;
  if (!parse_list(verb, "compare", chosen->compare, parse_path, &paths)) return false;
  if (paths.count == 2) return group_by_kv(verb, chosen, &paths, request);
  lap_usage_error(verb, "--compare: '%s' is not two different forward passes", chosen->compare);
  return false;
}

static bool compare_kv(const lap_verb *verb, const settings *chosen, lap_bench_request *request) {
  lap_bench_list kv = {0};
  request->compared = LAP_BENCH_KV;
  if (chosen->kv) {
    lap_usage_error(verb, "--compare: KV caches contradict --kv");
    return false;
  }
  if (!parse_list(verb, "compare", chosen->compare, parse_kv, &kv)) return false;
  if (kv.count < 2) {
    lap_usage_error(verb, "--compare: '%s' is not two different KV caches", chosen->compare);
    return false;
  }
  request->groups = 1;
  request->sides = kv.count;
  for (int side = 0; side < kv.count; side++)
    request->side[0][side] = (lap_bench_side){.kv = (lap_kv_mode)kv.item[side], .path = LAP_PATH_AUTO};
  return true;
}

/* No word stands for a path and for a KV setting: the first one tells what the others have to be. */
static bool choose_sides(const lap_verb *verb, const settings *chosen, lap_bench_request *request) {
  const lap_bench_list no_choice = {.item = {LAP_PATH_AUTO}, .count = 1};
  char first[ITEM_TEXT], paths[96], kv[96];
  int64_t index;
  if (!chosen->compare) return group_by_kv(verb, chosen, &no_choice, request);
  copy_item(chosen->compare, first);
  if (find_word(lap_path_words, first, &index)) return compare_paths(verb, chosen, request);
  if (find_word(lap_kv_words, first, &index)) return compare_kv(verb, chosen, request);
  join_words(lap_path_words, paths);
  join_words(lap_kv_words, kv);
  lap_usage_error(verb, "--compare: '%s' is neither a forward pass (%s) nor a kind of KV caches (%s)", first,
                  paths, kv);
  return false;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void note(const char *message) {
  lap_complain("%s", message);
}

static bool make_request(const lap_verb *verb, const settings *chosen, lap_bench_request *request) {
  static char label[] = "bench";
  *request = (lap_bench_request){
      .isa = lap_model_options_of(LAP_KV_CONFIG).isa,
      .attention = lap_attention_method_asked(),
      .prompt = chosen->prompt,
      .decode = chosen->decode,
      .rounds = (int)chosen->repeat,
      .watcher = {.progress = lap_show_progress,
                  .context = label,
                  .interrupted = lap_interrupted,
                  .note = note},
  };
  if (chosen->shape && chosen->model) {
    lap_usage_error(verb, "--shape: contradicts --model");
    return false;
  }
  if (chosen->directory && !chosen->shape) {
    lap_usage_error(verb, "--dir: goes with --shape");
    return false;
  }
  if (chosen->json && chosen->markdown) {
    lap_usage_error(verb, "--json: contradicts --markdown");
    return false;
  }
  if (!chosen->prompt && !chosen->decode) {
    lap_usage_error(verb, "--prompt 0 and --decode 0: nothing is left to measure");
    return false;
  }
  if (!parse_list(verb, "depth", chosen->depth, parse_depth, &request->depth)) return false;
  if (chosen->threads && !parse_list(verb, "threads", chosen->threads, parse_threads, &request->threads))
    return false;
  if (!chosen->threads) request->threads = (lap_bench_list){.item = {lap_available_cores()}, .count = 1};
  sort(&request->depth);
  sort(&request->threads);
  return choose_sides(verb, chosen, request);
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* Opened before anything is measured, written after: an existing picture is replaced by a whole one or
 * stays, and a new file without one is taken away. */
static lap_status open_picture(const char *path, FILE **file, lap_error *error) {
  *file = path ? fopen(path, "ab") : NULL;
  return !path || *file ? LAP_OK : lap_fail(error, LAP_ERROR_IO, "--svg: %s: %s", path, strerror(errno));
}

static lap_status write_picture(const char *path, FILE *file, const lap_bench_results *results,
                                lap_error *error) {
  /* What has no length (a pipe, a device) refuses, and is written to all the same. */
  if (ftruncate(fileno(file), 0) != 0 && errno != EINVAL)
    return lap_fail(error, LAP_ERROR_IO, "--svg: %s: %s", path, strerror(errno));
  lap_bench_svg(file, results);
  if (fflush(file) == 0 && !ferror(file)) return LAP_OK;
  return lap_fail(error, LAP_ERROR_IO, "--svg: %s: %s", path, strerror(errno));
}

static void close_picture(const char *path, FILE *file) {
  if (!file) return;
  bool empty = fseek(file, 0, SEEK_END) == 0 && ftell(file) == 0;
  fclose(file);
  if (empty && strncmp(path, "/dev/", 5) != 0) remove(path);
}

/* ---- the shape ------------------------------------------------------------------------------- */

static bool show_forging(void *context, int64_t done, int64_t total) {
  (void)done, (void)total;
  return lap_show_part(NULL, context);
}

static lap_status forge_shape(const settings *chosen, lap_bench_shape *shape, lap_error *error) {
  static char part[] = "forging random weights";
  lap_config_sources from;
  signal(SIGXFSZ, SIG_IGN); /* a file over the limit is a failed write like any other */
  lap_status status = lap_find_config(chosen->shape, NULL, &from, error);
  if (status != LAP_OK) return status;
  const lap_forge_options forging = {.config = from.config,
                                     .kv_config = *from.kv_config ? from.kv_config : NULL,
                                     .progress = show_forging,
                                     .context = part};
  status = lap_bench_shape_make(chosen->shape, &forging, chosen->directory, shape, error);
  lap_hide_progress();
  return status;
}

/* ---- starts ---------------------------------------------------------------------------------- */

enum {
  WORD_TEXT = 16
};

typedef struct start_command {
  char path[WORD_TEXT], kv[WORD_TEXT], threads[WORD_TEXT];
  char *argument[16]; /* ended by NULL */
} start_command;

/* `lapidary logits` evaluates one token with the path it is told and writes the logits to /dev/null; the
 * tokenizer is not loaded. */
static void make_start(const lap_bench_startup *startup, lap_path path, char *directory,
                       start_command *command) {
  char *const argument[] = {"lapidary",  "logits",         "--ids",       "2",       "--out",
                            "/dev/null", "--path",         command->path, "--kv",    command->kv,
                            "--threads", command->threads, "--",          directory, NULL};
  snprintf(command->path, sizeof command->path, "%s", lap_path_words[path]);
  snprintf(command->kv, sizeof command->kv, "%s", lap_kv_words[startup->kv]);
  snprintf(command->threads, sizeof command->threads, "%d", startup->threads);
  memcpy(command->argument, argument, sizeof argument);
}

/* With the first KV setting and the most threads. */
static lap_status time_starts(const lap_bench_request *request, lap_bench_startup *startup,
                              lap_error *error) {
  start_command command[LAP_BENCH_SIDES];
  char *const *arguments[LAP_BENCH_SIDES] = {0};
  char *directory = strdup(request->directory);
  if (!directory) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a command");
  startup->kv = request->side[0][0].kv;
  startup->threads = (int)request->threads.item[request->threads.count - 1];
  for (int side = 0; side < request->sides; side++) {
    make_start(startup, request->side[0][side].path, directory, &command[side]);
    arguments[side] = command[side].argument;
  }
  lap_status status = lap_bench_start_processes(request, arguments, startup, error);
  free(directory);
  return status;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static lap_status show(const settings *chosen, const lap_bench_results *results, lap_error *error) {
  if (!chosen->json) {
    lap_bench_text(stdout, results, chosen->markdown);
    return LAP_OK;
  }
  return lap_bench_json(stdout, results) ? LAP_OK
                                         : lap_fail(error, LAP_ERROR_MEMORY, "out of memory for JSON");
}

static lap_status measure(const lap_bench_request *request, lap_bench_results *results, lap_error *error) {
  lap_status status = lap_bench_measure(request, results, error);
  lap_hide_progress();
  if (status != LAP_OK || request->compared != LAP_BENCH_PATHS) return status;
  return time_starts(request, &results->startup, error);
}

static lap_status work(const settings *chosen, lap_bench_request *request, lap_error *error) {
  lap_bench_results results = {0};
  lap_bench_shape shape = {0};
  char *directory = NULL;
  FILE *picture = NULL;
  lap_status status = chosen->shape ? LAP_OK : lap_find_model(chosen->model, &directory, error);
  if (status == LAP_OK) status = open_picture(chosen->svg, &picture, error);
  if (status == LAP_OK && chosen->shape) status = forge_shape(chosen, &shape, error);
  request->directory = chosen->shape ? shape.checkpoint : directory;
  if (status == LAP_OK) status = measure(request, &results, error);
  lap_bench_shape_remove(&shape);
  if (status == LAP_OK) status = show(chosen, &results, error);
  if (status == LAP_OK && picture) status = write_picture(chosen->svg, picture, &results, error);
  close_picture(chosen->svg, picture);
  lap_bench_free(&results);
  free(directory);
  return status;
}

static int bench(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  lap_bench_request request;
  lap_error error;
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, NULL, &count, &code)) return code;
  if (!make_request(verb, &chosen, &request)) return LAP_EXIT_USAGE;
  lap_catch_interrupts();
  lap_status status = work(&chosen, &request, &error);
  if (lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  return status == LAP_OK ? LAP_EXIT_OK : lap_report(&error);
}

const lap_verb lap_verb_bench = {
    .name = "bench",
    .operands = "",
    .max_operands = 0,
    .summary = "Measure speed and memory, against what the machine can do.",
    .description =
        "Measures first what the machine can do: reading a buffer larger than the caches, and multiplying "
        "in f32 and int16, for 1 to the largest number of threads. Then the rates of a prompt and of "
        "decoding at each depth, number of threads and KV setting, in tokens/s, and in bytes or operations "
        "(multiplications with their addition) that the architecture needs, as a percentage of what the "
        "machine can do: of its int16 rate for prompts, of its read rate for decoding. Each figure is the "
        "median of the rounds, with the smallest and the largest.\n\nTokens are drawn at random from a "
        "fixed seed. The KV caches of a depth are kept in a temporary file in $TMPDIR (or /tmp) until the "
        "end. At its defaults a model of 4 GB takes some minutes on two cores.",
    .options = options,
    .run = bench,
};
