/* configs.c: where the shipped configurations are. */
#include "cli/configs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "forge/forge.h"

const char *const lap_config_names[] = {"e2b", "e4b", "12b", "26b-a4b", "31b", NULL};

/* Seen from the directory of the program: in the build tree, and installed. */
static const char *const places[] = {"../models/configs", "../share/lapidary/configs"};

bool lap_is_config_name(const char *text) {
  for (const char *const *name = lap_config_names; *name; name++)
    if (!strcmp(*name, text)) return true;
  return false;
}

bool lap_is_config(const char *operand) {
  struct stat info;
  if (!operand) return false;
  return stat(operand, &info) == 0 ? S_ISREG(info.st_mode) : lap_is_config_name(operand);
}

/* Where the shipped configurations are: a path below the program's directory. */
static bool find_configs(const char *name, char path[PATH_MAX]) {
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return false;
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int written = snprintf(path, PATH_MAX, "%s/%s/%s.json", program, places[i], name);
    if (written < PATH_MAX && access(path, R_OK) == 0) return true;
  }
  return false;
}

static bool copy_path(char out[PATH_MAX], const char *path) {
  return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
}

lap_status lap_find_config(const char *operand, const char *kv_config, lap_config_sources *out,
                           lap_error *error) {
  bool named = lap_is_config_name(operand), none = kv_config && !strcmp(kv_config, "none");
  *out = (lap_config_sources){0};
  if (named && !find_configs(operand, out->config))
    return lap_fail(error, LAP_ERROR_IO, "%s.json is not beside the program (%s, %s)", operand, places[0],
                    places[1]);
  if (!named && access(operand, F_OK) != 0)
    return lap_fail(error, LAP_ERROR_IO,
                    "%s: there is no such file, and the named configurations are " LAP_CONFIG_NAMES, operand);
  if (!named && !copy_path(out->config, operand))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "%.100s...: the path is too long", operand);
  if (kv_config && !none && !copy_path(out->kv_config, kv_config))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "--kv-config: the path is too long");
  if (!named || kv_config) return LAP_OK;
  int stem = (int)(strlen(out->config) - strlen(".json"));
  int written = snprintf(out->kv_config, PATH_MAX, "%.*s.kv_config.json", stem, out->config);
  return written < PATH_MAX ? LAP_OK
                            : lap_fail(error, LAP_ERROR_ARGUMENT, "%s: the path is too long", operand);
}

lap_status lap_plan_config(const char *operand, lap_kv_mode kv, lap_plan **out, lap_error *error) {
  lap_config_sources from;
  *out = NULL;
  lap_status status = lap_find_config(operand, NULL, &from, error);
  if (status != LAP_OK) return status;
  const lap_forge_options forge = {.config = from.config,
                                   .kv_config = *from.kv_config ? from.kv_config : NULL};
  return lap_forge_plan(&forge, kv, out, error);
}
