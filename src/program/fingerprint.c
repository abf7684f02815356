/* fingerprint.c: the plan says what a cut computes, the versions say how its code is made. */
#include "program/fingerprint.h"

#include <stdio.h>

#include "pass/pass.h"

lap_status lap_cut_fingerprint(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error) {
  char versions[96];
  snprintf(versions, sizeof versions, "lapidary cut: generator %d, pass %d, kernels %d",
           LAP_GENERATOR_VERSION, LAP_PASS_ABI, LAP_KERNEL_CONTRACT);
  return lap_plan_fingerprint(plan, versions, out, error);
}
