/* generate.h: a plan as C: the forward pass of one checkpoint.
 *
 * Everything that the plan decides is decided here; what is left to run time are token ids, positions,
 * the number of rows, the caches' lengths and the number of threads. The text is a function of the
 * arguments alone, so that what is generated twice is equal to the byte. */
#ifndef LAP_CUT_GENERATE_H
#define LAP_CUT_GENERATE_H

#include "checkpoint/fingerprint.h"
#include "checkpoint/plan.h"

enum {
  LAP_GENERATOR_VERSION = 2 /* of the text that comes out */
};

/* The fingerprint of the cut that this library makes and loads for `plan`: of the plan and of the versions
 * of the generator, of the pass interface and of the kernel contract. Errors: MEMORY. */
lap_status lap_cut_fingerprint(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error);

/* The C source. The last part of `path` says in its head which checkpoint it belongs to and how it is made
 * again. `*source` [*length] is malloc'd, terminated and the caller's. Errors: MEMORY. */
lap_status lap_cut_generate(const lap_plan *plan, const char *path, char **source, size_t *length,
                            lap_error *error);

#endif
