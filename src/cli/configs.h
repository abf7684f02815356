/* configs.h: the shipped configurations by name: e2b, e4b, 12b, 26b-a4b, 31b. */
#ifndef LAP_CLI_CONFIGS_H
#define LAP_CLI_CONFIGS_H

#include <limits.h>

#include "checkpoint/plan.h"

#define LAP_CONFIG_NAMES "e2b, e4b, 12b, 26b-a4b, 31b"

/* The same, ended by NULL. */
extern const char *const lap_config_names[];

/* Paths of a configuration; an empty kv_config stands for none. */
typedef struct lap_config_sources {
  char config[PATH_MAX], kv_config[PATH_MAX];
} lap_config_sources;

bool lap_is_config_name(const char *text);

/* A directory is a checkpoint; a name or a file is a configuration without weights. NULL is neither. */
bool lap_is_config(const char *operand);

/* `operand` is a name or a file; `kv_config` a file, "none", or NULL: the one that goes with the name.
 * Errors: IO (not found), ARGUMENT. */
lap_status lap_find_config(const char *operand, const char *kv_config, lap_config_sources *out,
                           lap_error *error);

/* The plan of a configuration, with its kv_config if it is one of the names. `*out` is the caller's, to be
 * released with lap_plan_free. Errors: those of lap_find_config and lap_forge_plan. */
lap_status lap_plan_config(const char *operand, lap_kv_mode kv, lap_plan **out, lap_error *error);

#endif
