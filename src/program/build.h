/* build.h: what the files of this folder share while a program is made. */
#ifndef LAP_PROGRAM_BUILD_H
#define LAP_PROGRAM_BUILD_H

#include "program/program.h"

/* Lays the buffers of rows out; reads plan and forms. */
void lap_program_place(lap_program *program);

/* Lists the steps of every part; reads parts' layers, calls, places and forms. Errors: MEMORY. */
lap_status lap_program_list(lap_program *program, lap_error *error);

/* True if of two steps in one call one writes what the other touches, and not each thread its own rows alone.
 * A step that shows rows reads them. */
bool lap_program_conflict(const lap_program *program, const lap_program_step *a, const lap_program_step *b);

/* Groups the steps of every part into runs; reads steps and places. Steps that show rows may move behind
 * others. Errors: MEMORY. */
lap_status lap_program_derive_runs(lap_program *program, lap_error *error);

/* Sets `barrier` of the first step of runs; reads all else. */
void lap_program_derive_barriers(lap_program *program);

#endif
