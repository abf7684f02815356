/* configuration.h: the forged checkpoint's configuration: the given one with the options applied. */
#ifndef LAP_FORGE_CONFIGURATION_H
#define LAP_FORGE_CONFIGURATION_H

#include "checkpoint/config.h"
#include "forge/forge.h"

typedef struct lap_forge_configuration {
  char *text; /* what config.json will say */
  size_t length;
  lap_json_document *document; /* of that text; messages about it name the given file */
  lap_config config;           /* of that document; nothing in it that forging needs is ABSENT */
} lap_forge_configuration;

/* Reads options->config and applies the options. Members that they do not touch stay.
 *
 * Fewer layers: the first ones, and of the layers at the end that share keys and values in proportion
 * (rounded down), less if otherwise a sharer would have no donor of its attention type before it.
 * `*out` is the caller's, to be released with lap_forge_configuration_free (also after a failure).
 * Errors: IO, FORMAT, UNSUPPORTED, ARGUMENT, MEMORY. */
lap_status lap_forge_configure(const lap_forge_options *options, lap_forge_configuration *out,
                               lap_error *error);
void lap_forge_configuration_free(lap_forge_configuration *configuration);

/* The text of kv_config.json for that configuration, malloc'd: options->kv_config without the entries of
 * layers that options->layers has removed or made sharers. Errors: IO, FORMAT, MEMORY. */
lap_status lap_forge_kv_config(const lap_forge_options *options, const lap_config *config, char **text,
                               size_t *length, lap_error *error);

#endif
