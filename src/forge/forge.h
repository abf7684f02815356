/* forge.h: a checkpoint of random weights, for any structure that a configuration can describe.
 *
 * Published checkpoints are large and cannot ship with tests and benchmarks; their structure and their
 * size can. A forged checkpoint is read, planned and computed like a published one, and only its text
 * means nothing.
 *
 * Invariant: the bytes depend on the configuration, the options and the seed, not on the number of
 * threads; and what lap_forge leaves in the directory is a checkpoint that lap_plan_build accepts, or
 * nothing. */
#ifndef LAP_FORGE_FORGE_H
#define LAP_FORGE_FORGE_H

#include "base/error.h"

enum {
  LAP_FORGE_DENSE = 16, /* the number of bits that stands for no quantization */
  LAP_FORGE_MAX_SCALE = 64
};

/* Numbers are 0 where the configuration's own value is to stay. */
typedef struct lap_forge_options {
  const char *config;    /* path of a config.json */
  const char *kv_config; /* path of a kv_config.json, or NULL */
  const char *tokenizer; /* path of a tokenizer.json, or NULL */
  uint64_t seed;
  int32_t layers; /* the first ones; fewer sharers, see lap_forge_configure */
  int32_t vocab;
  int32_t scale;          /* divides the widths of hidden state, MLP and experts, up to a multiple of 128 */
  int32_t bits;           /* 2, 3, 4, 5, 6, 8 or LAP_FORGE_DENSE, for every module */
  int32_t group;          /* 32, 64 or 128, for every module */
  int threads;            /* 0 = the cores available; at most 16 are used */
  bool force;             /* write into a directory that is not empty */
  lap_progress *progress; /* called with bytes of weights; false ends with STATE. May be NULL */
  void *context;
} lap_forge_options;

typedef struct lap_forge_result {
  uint64_t bytes; /* of model.safetensors */
  int32_t tensors;
} lap_forge_result;

/* Writes config.json, model.safetensors and the companions that are named into `directory`, which is
 * created if it is not there (its parent must be). Everything is written under names that end in .part
 * and renamed at the end; if anything fails, the files and the directory it made are removed. With
 * `force` the same files of an older checkpoint are replaced, and those removed that would change what
 * the new ones mean (an index of shards, companions that were not named). Memory does not grow with
 * the file. Errors: IO, FORMAT, UNSUPPORTED, ARGUMENT, MEMORY, STATE; the message names file or option. */
lap_status lap_forge(const char *directory, const lap_forge_options *options, lap_forge_result *result,
                     lap_error *error);

/* The plan of the checkpoint that lap_forge would write, without writing it: of the options only what shapes
 * it counts. `*plan` is the caller's. Errors: IO, FORMAT, UNSUPPORTED, ARGUMENT, MEMORY. */
struct lap_plan;
lap_status lap_forge_plan(const lap_forge_options *options, lap_kv_mode kv_mode, struct lap_plan **plan,
                          lap_error *error);

#endif
