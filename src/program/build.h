/* build.h: what the files of this folder share while a program is made. */
#ifndef LAP_PROGRAM_BUILD_H
#define LAP_PROGRAM_BUILD_H

#include "program/program.h"

/* Lays the buffers of rows out; reads plan and forms. */
void lap_program_place(lap_program *program);

/* Lists the steps and runs of every part; reads parts' layers, calls, places and forms. Errors: MEMORY. */
lap_status lap_program_list(lap_program *program, lap_error *error);

/* Sets `barrier` of every step; reads all else. */
void lap_program_derive_barriers(lap_program *program);

#endif
