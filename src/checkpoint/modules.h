/* modules.h: from a module's path to its tensors, shapes checked; and what the quantization map says of it.
 */
#ifndef LAP_CHECKPOINT_MODULES_H
#define LAP_CHECKPOINT_MODULES_H

#include "checkpoint/config.h"

typedef struct lap_modules {
  const lap_config *config;
  const lap_tensors *tensors;
  const char *prefix; /* what stands before `embed_tokens` in this checkpoint's names */
} lap_modules;

/* Finds the prefix. Errors: FORMAT if no embed_tokens is there. */
lap_status lap_modules_open(const lap_config *config, const lap_tensors *tensors, lap_modules *modules,
                            lap_error *error);

/* The tensor `prefix + path + suffix`, or -1. */
int32_t lap_modules_find(const lap_modules *modules, const char *path, const char *suffix);

/* Size of that tensor's first dimension (a packed weight's rows are its true rows), or -1. */
int64_t lap_modules_rows(const lap_modules *modules, const char *path, const char *suffix);

/* What the quantization map says of a module: the defaults, then its override. */
typedef struct lap_quantization {
  bool dense;               /* the map says so: `false` */
  int64_t bits, group_size; /* as stated, not checked; 0 if missing */
  const char *mode;
  const lap_json *entry; /* the module's own, or the map with its defaults; NULL if there is no map */
} lap_quantization;

/* Keys may have any of the prefixes that converters use; `prefix`, the tensors' own, is tried first.
 * Errors: FORMAT (a member of the wrong type). */
lap_status lap_quantization_of(const lap_config *config, const char *prefix, const char *path,
                               lap_quantization *out, lap_error *error);

/* Matches the linear [out_features, in_features] at `path`, or with experts > 0 a stack of them
 * [experts, out_features, in_features]. Errors: FORMAT, UNSUPPORTED, naming the module. */
lap_status lap_modules_linear(const lap_modules *modules, const char *path, int32_t experts,
                              int32_t out_features, int32_t in_features, lap_linear *out, lap_error *error);

/* Matches the vector at `path`, a tensor's whole name below the prefix. */
lap_status lap_modules_vector(const lap_modules *modules, const char *path, int32_t length, lap_vector *out,
                              lap_error *error);

/* The untied head, whose place varies; leaves `out` alone if the checkpoint has none. */
lap_status lap_modules_head(const lap_modules *modules, int32_t out_features, int32_t in_features,
                            lap_linear *out, lap_error *error);

#endif
