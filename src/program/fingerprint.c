/* fingerprint.c: the plan says what a cut computes, the hash of the sources says how its code is made. */
#include "program/fingerprint.h"

#include "cut_sources.h"

const char lap_cut_sources[] = LAP_CUT_SOURCES;

lap_status lap_cut_structure(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error) {
  return lap_plan_fingerprint(plan, "lapidary cut", out, error);
}

lap_status lap_cut_fingerprint(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error) {
  return lap_plan_fingerprint(plan, lap_cut_sources, out, error);
}
