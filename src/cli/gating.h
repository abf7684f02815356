/* gating.h: what cut and check show while they work. */
#ifndef LAP_CLI_GATING_H
#define LAP_CLI_GATING_H

#include <stdbool.h>

/* A lap_gate_options.progress: shows the part (if one begins) on a terminal's stderr, ends when interrupted.
 */
bool lap_show_part(void *context, const char *part);
/* Takes the line away again. */
void lap_hide_part(void);

#endif
