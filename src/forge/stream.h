/* stream.h: drawn tensors into a file, by all threads at once. */
#ifndef LAP_FORGE_STREAM_H
#define LAP_FORGE_STREAM_H

#include "forge/forge.h"
#include "forge/tensors.h"

/* Writes the data of `tensors` to `fd` from file offset `begin` on. `path` is for messages; of the
 * options the threads and the progress count. Errors: IO, MEMORY, ARGUMENT, STATE (ended by progress). */
lap_status lap_forge_stream(int fd, const char *path, uint64_t begin, const lap_forge_tensors *tensors,
                            const lap_forge_options *options, lap_error *error);

#endif
