/* forge.c: `lapidary forge`: a checkpoint of random weights, of any structure. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "checkpoint/config.h"
#include "cli/configs.h"
#include "cli/options.h"
#include "cli/support.h"
#include "forge/forge.h"

enum {
  NOT_GIVEN = -1,
  MEGABYTE = 1000000
};

static const char *const bits_words[] = {"2", "3", "4", "5", "6", "8", "16", NULL};
static const char *const group_words[] = {"32", "64", "128", NULL};

typedef struct settings {
  uint64_t seed;
  const char *kv_config;
  const char *tokenizer;
  int64_t layers, vocab, scale, threads;
  int bits, group; /* index of a word, or NOT_GIVEN */
  bool force;
} settings;

static const settings defaults = {.bits = NOT_GIVEN, .group = NOT_GIVEN};

static const lap_option options[] = {
    {.kind = LAP_OPTION_SEED,
     .name = "seed",
     .argument = "S",
     .offset = offsetof(settings, seed),
     .help = "The weights' seed; default: 0. Same seed and options, same bytes."},
    {.kind = LAP_OPTION_TEXT,
     .name = "kv-config",
     .argument = "FILE",
     .offset = offsetof(settings, kv_config),
     .help = "The kv_config.json to go with it, or none; default: the one of the named configuration. With "
             "--layers, entries of layers that are gone or share are left out."},
    {.kind = LAP_OPTION_TEXT,
     .name = "tokenizer",
     .argument = "FILE",
     .offset = offsetof(settings, tokenizer),
     .help = "A tokenizer.json to be copied; default: the checkpoint gets none, so it takes ids only."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "layers",
     .argument = "N",
     .offset = offsetof(settings, layers),
     .low = 1,
     .high = LAP_MAX_LAYERS,
     .help = "Only the first N layers. As many at the end share keys and values as is in proportion, or "
             "fewer, so that each finds a donor of its attention type before it."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "vocab",
     .argument = "N",
     .offset = offsetof(settings, vocab),
     .low = 1,
     .high = LAP_MAX_VOCAB,
     .help = "Another vocabulary size; it must hold the token ids that the configuration names."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "scale",
     .argument = "K",
     .offset = offsetof(settings, scale),
     .low = 1,
     .high = LAP_FORGE_MAX_SCALE,
     .help = "Divide the widths of hidden state, MLP and experts by K, up to a multiple of 128. Heads stay."},
    {.kind = LAP_OPTION_CHOICE,
     .name = "bits",
     .argument = "B",
     .offset = offsetof(settings, bits),
     .choices = bits_words,
     .help = "Bits of every module: 2, 3, 4, 5, 6 or 8, or 16 for bfloat16; default: as configured."},
    {.kind = LAP_OPTION_CHOICE,
     .name = "group",
     .argument = "G",
     .offset = offsetof(settings, group),
     .choices = group_words,
     .help = "Group size of every module: 32, 64 or 128; default: as configured."},
    {.kind = LAP_OPTION_INTEGER,
     .name = "threads",
     .argument = "N",
     .offset = offsetof(settings, threads),
     .low = 1,
     .high = LAP_MAX_THREADS,
     .help = "Threads; default: the cores available, 16 at most. Does not change results."},
    {.kind = LAP_OPTION_FLAG,
     .name = "force",
     .offset = offsetof(settings, force),
     .help = "Write into a directory that is not empty and replace the checkpoint in it."},
    {0}};

/* ---- the verb ---- */

static bool show_bytes(void *context, int64_t done, int64_t total) {
  bool *shown = context;
  if (isatty(STDERR_FILENO)) {
    *shown = true;
    fprintf(stderr, "\r%lld of %lld MB\033[K", (long long)(done / MEGABYTE), (long long)(total / MEGABYTE));
  }
  return !lap_interrupted();
}

static int work(const char *operand, const char *directory, const settings *chosen) {
  lap_error error;
  lap_config_sources from;
  lap_forge_result result = {0};
  bool shown = false;
  double start = lap_seconds();
  lap_status status = lap_find_config(operand, chosen->kv_config, &from, &error);
  if (status != LAP_OK) return lap_report(&error);
  lap_forge_options forge_options = {
      .config = from.config,
      .kv_config = *from.kv_config ? from.kv_config : NULL,
      .tokenizer = chosen->tokenizer,
      .seed = chosen->seed,
      .layers = (int32_t)chosen->layers,
      .vocab = (int32_t)chosen->vocab,
      .scale = (int32_t)chosen->scale,
      .bits = chosen->bits == NOT_GIVEN ? 0 : atoi(bits_words[chosen->bits]),     // NOLINT(cert-err34-c)
      .group = chosen->group == NOT_GIVEN ? 0 : atoi(group_words[chosen->group]), // NOLINT(cert-err34-c)
      .threads = (int)chosen->threads,
      .force = chosen->force,
      .progress = show_bytes,
      .context = &shown,
  };
  status = lap_forge(directory, &forge_options, &result, &error);
  if (shown) fputs("\r\033[K", stderr);
  if (status != LAP_OK && lap_interrupted()) return LAP_EXIT_INTERRUPTED;
  if (status != LAP_OK) return lap_report(&error);
  double seconds = lap_seconds() - start, megabytes = (double)result.bytes / MEGABYTE;
  printf("%s: %d tensors, %.1f MB, %.2f s, %.0f MB/s\n", directory, result.tensors, megabytes, seconds,
         megabytes / seconds);
  return LAP_EXIT_OK;
}

static int forge(const lap_verb *verb, int argc, char **argv) {
  settings chosen = defaults;
  const char *operands[2] = {NULL, NULL};
  int count, code;
  if (!lap_parse(verb, argc, argv, &chosen, operands, &count, &code)) return code;
  if (count < 2)
    return lap_usage_error(
        verb, "a configuration (a file, or one of " LAP_CONFIG_NAMES ") and a directory are needed");
  if (!*operands[0] || !*operands[1]) return lap_usage_error(verb, "CONFIG and OUT_DIR: a name is empty");
  lap_catch_interrupts();
  signal(SIGXFSZ, SIG_IGN); /* a file over the limit is a failed write like any other */
  return work(operands[0], operands[1], &chosen);
}

const lap_verb lap_verb_forge = {
    .name = "forge",
    .operands = "CONFIG OUT_DIR",
    .max_operands = 2,
    .summary = "Write a checkpoint of random weights, of any Gemma 4 structure.",
    .description =
        "Reads CONFIG, a config.json or one of the names e2b, e4b, 12b, 26b-a4b and 31b (the public sizes), "
        "and writes into OUT_DIR a checkpoint of that structure in MLX format: config.json, "
        "model.safetensors and, where there is one, kv_config.json. For tests and benchmarks: it has the "
        "size and the speed of a trained model, finite activations and spread logits, and says nothing.\n\n"
        "The files appear under their names when all of them are complete; if anything fails, or after "
        "Ctrl-C, nothing is left. The disk must hold the file, memory need not.",
    .options = options,
    .run = forge,
};
