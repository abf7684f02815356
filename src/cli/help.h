/* help.h: all verbs, and what describes them together. */
#ifndef LAP_CLI_HELP_H
#define LAP_CLI_HELP_H

#include "cli/options.h"

/* In the order of the help text, ended by NULL. */
extern const lap_verb *const lap_verbs[];

/* NULL if there is none of that name. */
const lap_verb *lap_verb_find(const char *name);

/* What `lapidary --help` prints. */
void lap_print_overview(void);

#endif
