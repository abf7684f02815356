/* fingerprint.h: which cut a plan needs. Whoever makes a cut writes it down, whoever looks for one asks for
 * it; both ask here. */
#ifndef LAP_PROGRAM_FINGERPRINT_H
#define LAP_PROGRAM_FINGERPRINT_H

#include "checkpoint/fingerprint.h"

enum {
  LAP_GENERATOR_VERSION = 2 /* of the text that comes out of src/cut */
};

/* The fingerprint of the cut that this library makes and loads for `plan`: of the plan and of the versions
 * of the generator, of the pass interface and of the kernel contract. Errors: MEMORY. */
lap_status lap_cut_fingerprint(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error);

#endif
