/* bench.c: `lapidary bench`: how fast, and how much of what the machine can do that is.
 *
 * Here is the command line and the order of events; bench_measure.c measures, bench_machine.c finds the
 * ceilings, bench_text.c, bench_json.c and bench_svg.c show. Invariant: what cannot be done (a bad list, a
 * picture that cannot be written) is refused before anything is measured. */
#include "cli/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench_shape.h"
#include "cli/configs.h"
#include "cli/options.h"
#include "cli/support.h"

enum {
  MOST_TOKENS = 1 << 24
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

static const settings defaults = {
    .prompt = 512, .decode = 64, .repeat = 5, .depth = "0,1024,4096", .kv = "config"};

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
     .help = "KV caches, some of config, plain, 8 and 4; default: config."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "repeat",
     .argument = "N",
     .offset = offsetof(settings, repeat),
     .low = 1,
     .high = LAP_MAX_ROUNDS,
     .help = "Rounds that are counted; default: 5. One more comes before them and is not."},
    {.kind = LAP_OPTION_TEXT,
     .name = "compare",
     .argument = "A,B",
     .offset = offsetof(settings, compare),
     .help = "Compare two forward passes, out of monolith, cut and auto, in alternating rounds: rates, their "
             "ratio, and the time from the start of a process to its first token."},
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

static bool parse_word(const lap_verb *verb, const char *name, const char *text, const char *const *words,
                       int64_t *value) {
  for (*value = 0; words[*value]; (*value)++)
    if (strcmp(words[*value], text) == 0) return true;
  char known[96] = "";
  for (int i = 0; words[i]; i++) {
    size_t length = strlen(known);
    snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", words[i]);
  }
  lap_usage_error(verb, "--%s: '%s' is none of %s", name, text, known);
  return false;
}

static bool parse_kv(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_word(verb, name, text, lap_kv_words, value);
}

static bool parse_path(const lap_verb *verb, const char *name, const char *text, int64_t *value) {
  return parse_word(verb, name, text, lap_path_words, value);
}

/* Items between commas. One that was there already is left out. */
static bool parse_list(const lap_verb *verb, const char *name, const char *text, parse_item *parse,
                       lap_bench_list *list) {
  for (bool more = true; more;) {
    char item[32];
    int64_t value;
    size_t length = strcspn(text, ",");
    snprintf(item, sizeof item, "%.*s", (int)(length < sizeof item ? length : sizeof item), text);
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

static bool parse_compared(const lap_verb *verb, const char *text, lap_bench_request *request) {
  lap_bench_list paths = {0};
  request->paths = 1;
  if (!text) return true; /* LAP_PATH_AUTO */
  if (!parse_list(verb, "compare", text, parse_path, &paths)) return false;
  if (paths.count != LAP_BENCH_PATHS) {
    lap_usage_error(verb, "--compare: '%s' is not two different paths", text);
    return false;
  }
  request->paths = LAP_BENCH_PATHS;
  for (int i = 0; i < LAP_BENCH_PATHS; i++) request->path[i] = (lap_path)paths.item[i];
  return true;
}

static bool make_request(const lap_verb *verb, const settings *chosen, lap_bench_request *request) {
  *request =
      (lap_bench_request){.prompt = chosen->prompt, .decode = chosen->decode, .rounds = (int)chosen->repeat};
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
  if (!parse_list(verb, "kv", chosen->kv, parse_kv, &request->kv)) return false;
  if (chosen->threads && !parse_list(verb, "threads", chosen->threads, parse_threads, &request->threads))
    return false;
  if (!chosen->threads) request->threads = (lap_bench_list){.item = {lap_available_cores()}, .count = 1};
  sort(&request->depth);
  sort(&request->threads);
  return parse_compared(verb, chosen->compare, request);
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

/* ---- the verb -------------------------------------------------------------------------------- */

static lap_status show(const settings *chosen, const lap_bench_results *results, lap_error *error) {
  if (!chosen->json) {
    lap_bench_text(stdout, results, chosen->markdown);
    return LAP_OK;
  }
  return lap_bench_json(stdout, results) ? LAP_OK
                                         : lap_fail(error, LAP_ERROR_MEMORY, "out of memory for JSON");
}

static lap_status work(const settings *chosen, lap_bench_request *request, lap_error *error) {
  lap_bench_results results = {0};
  lap_bench_shape shape = {0};
  char *directory = NULL;
  FILE *picture = NULL;
  lap_status status = chosen->shape ? LAP_OK : lap_find_model(chosen->model, &directory, error);
  if (status == LAP_OK) status = open_picture(chosen->svg, &picture, error);
  if (status == LAP_OK && chosen->shape)
    status = lap_bench_shape_make(chosen->shape, chosen->directory, &shape, error);
  request->directory = chosen->shape ? shape.checkpoint : directory;
  if (status == LAP_OK) status = lap_bench_measure(request, &results, error);
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
