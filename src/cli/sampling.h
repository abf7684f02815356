/* sampling.h: how the next token is chosen, as options of the command line: what run and chat share. */
#ifndef LAP_CLI_SAMPLING_H
#define LAP_CLI_SAMPLING_H

#include "cli/options.h"
#include "lapidary.h"

/* What is negative was not given: the checkpoint's default. */
typedef struct lap_sampling_settings {
  bool greedy;
  double temperature;
  int64_t top_k;
  double top_p;
  double min_p;
  double repeat_penalty;
  int64_t repeat_last;
  uint64_t seed;
} lap_sampling_settings;

#define LAP_SAMPLING_DEFAULTS \
  { .temperature = -1, .top_k = -1, .top_p = -1, .min_p = -1, .repeat_penalty = -1, .repeat_last = -1 }

/* The rows of an option table for settings that hold lap_sampling_settings at `offset`. */
#define LAP_SAMPLING_OPTIONS(at)                                                                            \
  {.kind = LAP_OPTION_FLAG,                                                                                 \
   .name = "greedy",                                                                                        \
   .offset = (at) + offsetof(lap_sampling_settings, greedy),                                                \
   .help = "Always take the most probable token; the same as --temperature 0."},                            \
      {.kind = LAP_OPTION_NUMBER,                                                                           \
       .name = "temperature",                                                                               \
       .argument = "T",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, temperature),                                       \
       .low = 0,                                                                                            \
       .high = 1000,                                                                                        \
       .help =                                                                                              \
           "Temperature. Its default and those of the next four are the checkpoint's "                      \
           "(generation_config.json)."},                                                                    \
      {.kind = LAP_OPTION_INTEGER,                                                                          \
       .name = "top-k",                                                                                     \
       .argument = "K",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, top_k),                                             \
       .low = 0,                                                                                            \
       .high = INT32_MAX,                                                                                   \
       .help = "Draw from the K most probable tokens; 0 = from all."},                                      \
      {.kind = LAP_OPTION_NUMBER,                                                                           \
       .name = "top-p",                                                                                     \
       .argument = "P",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, top_p),                                             \
       .low = 0,                                                                                            \
       .high = 1,                                                                                           \
       .help = "Draw from the fewest tokens that together have this probability; 1 = off."},                \
      {.kind = LAP_OPTION_NUMBER,                                                                           \
       .name = "min-p",                                                                                     \
       .argument = "P",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, min_p),                                             \
       .low = 0,                                                                                            \
       .high = 1,                                                                                           \
       .help = "Drop tokens less probable than P times the most probable one; 0 = off."},                   \
      {.kind = LAP_OPTION_NUMBER,                                                                           \
       .name = "repeat-penalty",                                                                            \
       .argument = "R",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, repeat_penalty),                                    \
       .low = 0.01,                                                                                         \
       .high = 100,                                                                                         \
       .help =                                                                                              \
           "Make recent tokens less likely: positive logits are divided by R, negative ones multiplied; 1 " \
           "= off."},                                                                                       \
      {.kind = LAP_OPTION_INTEGER,                                                                          \
       .name = "repeat-last",                                                                               \
       .argument = "N",                                                                                     \
       .offset = (at) + offsetof(lap_sampling_settings, repeat_last),                                       \
       .low = 0,                                                                                            \
       .high = INT32_MAX,                                                                                   \
       .help = "Tokens that the penalty looks back on; default: 64."},                                      \
  {                                                                                                         \
    .kind = LAP_OPTION_SEED, .name = "seed", .argument = "S",                                               \
    .offset = (at) + offsetof(lap_sampling_settings, seed),                                                 \
    .help = "Seed of the random numbers; default: 0. The same seed gives the same text."                    \
  }

/* False, and the user is told, where options contradict each other. */
bool lap_check_sampling(const lap_verb *verb, const lap_sampling_settings *settings);

/* The checkpoint's defaults, and what was given. */
lap_sampling lap_sampling_of(const lap_sampling_settings *settings, const lap_model *model);

#endif
