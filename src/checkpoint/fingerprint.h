/* fingerprint.h: which generated forward pass a plan needs. */
#ifndef LAP_CHECKPOINT_FINGERPRINT_H
#define LAP_CHECKPOINT_FINGERPRINT_H

#include "checkpoint/plan.h"

enum {
  LAP_PLAN_FINGERPRINT_BYTES = 17 /* 16 digits and a terminator */
};

/* The first 16 hexadecimal digits, lower case, of the SHA-256 of `versions`, a newline and the plan's text
 * (plan_text.h). `versions` names what else decides the code: the generator's own version, for instance.
 * Errors: MEMORY; then `out` is the empty string. */
lap_status lap_plan_fingerprint(const lap_plan *plan, const char *versions,
                                char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error);

#endif
