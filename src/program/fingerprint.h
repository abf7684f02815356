/* fingerprint.h: which cut a plan needs. Whoever makes a cut writes it down, whoever looks for one asks for
 * it; both ask here.
 *
 * A cut belongs to a structure, the plan, and to the sources that made it: the headers that it is compiled
 * with and the generator, whose hash the build computes. Nothing of that is a version kept by hand, so none
 * can be forgotten: where a byte of the sources is another, what was cut before is not used. */
#ifndef LAP_PROGRAM_FINGERPRINT_H
#define LAP_PROGRAM_FINGERPRINT_H

#include "checkpoint/fingerprint.h"

/* The hash of the sources of this library's cuts, 16 hexadecimal digits; in generated code LAP_CUT_SOURCES.
 */
extern const char lap_cut_sources[];

/* The structure alone: what generated text bears, so that it does not change where only a comment of a header
 * does. Errors: MEMORY. */
lap_status lap_cut_structure(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error);

/* The fingerprint of the cut that this library makes and loads for `plan`: of its structure and of the
 * sources. Errors: MEMORY. */
lap_status lap_cut_fingerprint(const lap_plan *plan, char out[LAP_PLAN_FINGERPRINT_BYTES], lap_error *error);

#endif
