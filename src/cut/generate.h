/* generate.h: a plan as C: the forward pass of one checkpoint.
 *
 * Everything that the plan decides is decided here; what is left to run time are token ids, positions,
 * the number of rows, the caches' lengths and the number of threads. The text is a function of the
 * arguments alone, so that what is generated twice is equal to the byte. */
#ifndef LAP_CUT_GENERATE_H
#define LAP_CUT_GENERATE_H

#include "checkpoint/plan.h"

/* The C source. The last part of `path` says in its head which checkpoint it belongs to and how it is made
 * again. `*source` [*length] is malloc'd, terminated and the caller's. Errors: MEMORY. */
lap_status lap_cut_generate(const lap_plan *plan, const char *path, char **source, size_t *length,
                            lap_error *error);

#endif
