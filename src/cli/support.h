/* support.h: what the verbs share: messages, standard output, interruption, finding the model, input. */
#ifndef LAP_CLI_SUPPORT_H
#define LAP_CLI_SUPPORT_H

#include "base/error.h"

/* Prints `lapidary: MESSAGE` on stderr; returns LAP_EXIT_FAILURE. */
int lap_report(const lap_error *error);
int lap_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- standard output ---- */

/* Writes to stdout, at once unless it is a file. False if that failed: stop then, lap_finish_output
 * knows what to say. */
bool lap_put(const char *text, size_t length);

/* Flushes stdout; returns `code`, or LAP_EXIT_FAILURE if anything written to it was lost (said on
 * stderr, unless the reader of a pipe has gone). */
int lap_finish_output(int code);

/* ---- interruption and progress ---- */

/* From now on the first Ctrl-C only sets a flag; the second one kills. */
void lap_catch_interrupts(void);
bool lap_interrupted(void);

/* A lap_progress: shows a line on a terminal's stderr, ends when interrupted. */
bool lap_show_progress(void *label, int64_t done, int64_t total);
/* A lap_gate_options.progress: the same with the part that begins, if one does. */
bool lap_show_part(void *context, const char *part);
/* Takes the line away again, if there is one. */
void lap_hide_progress(void);

/* ---- input ---- */

/* The checkpoint directory: `given`, or $LAPIDARY_MODEL, or the bundled model. malloc'd.
 * Errors: IO (no bundled model is there), MEMORY. */
lap_status lap_find_model(const char *given, char **out, lap_error *error);

/* A whole file, "-" for stdin; `*text` is malloc'd and terminated. Errors: IO, MEMORY. */
lap_status lap_read_whole(const char *path, char **text, size_t *length, lap_error *error);

/* Token ids in decimal, divided by commas or white space; `*ids` is malloc'd. `name` is for messages.
 * Errors: FORMAT, MEMORY. */
lap_status lap_parse_ids(const char *text, size_t length, const char *name, int32_t **ids, size_t *count,
                         lap_error *error);

#endif
