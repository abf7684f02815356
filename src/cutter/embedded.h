/* embedded.h: the sources that a cut needs to compile, inside the program, so that an installed one can cut.
 * The table is made when the project is built. */
#ifndef LAP_CUTTER_EMBEDDED_H
#define LAP_CUTTER_EMBEDDED_H

#include "base/embedded.h"

/* Paths are as they are included: "kernels/lanes.h". Ended by an entry without a path. */
extern const lap_embedded lap_embedded_files[];

#endif
