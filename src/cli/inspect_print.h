/* inspect_print.h: a plan on paper. */
#ifndef LAP_CLI_INSPECT_PRINT_H
#define LAP_CLI_INSPECT_PRINT_H

#include <stdio.h>

#include "checkpoint/plan.h"

/* For people, at most 100 columns: summary, a line for each layer, modules with equal lines collapsed,
 * bytes. `context` is the number of positions to reckon the KV caches for; 0 = the model's own limit. */
void lap_inspect_text(FILE *out, const lap_plan *plan, const lap_tensors *tensors, const lap_cut_info *cut,
                      uint64_t context);

/* For programs: everything that the plan holds, every layer and module, as one JSON object.
 * Returns false if it could not be generated (out of memory). */
bool lap_inspect_json(FILE *out, const lap_plan *plan, const lap_tensors *tensors, const lap_cut_info *cut,
                      uint64_t context);

#endif
