/* inspect_steps.h: a program on paper. */
#ifndef LAP_CLI_INSPECT_STEPS_H
#define LAP_CLI_INSPECT_STEPS_H

#include <stdio.h>

#include "program/program.h"

/* For people, at most 100 columns: buffers and inputs, the steps of each part, the order of the layers, and
 * how often a pass waits. */
void lap_inspect_steps(FILE *out, const lap_program *program);

#endif
