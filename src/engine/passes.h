/* passes.h: what a session and a batch share: threads, a forward pass that runs on them, and a count of which
 * code served. */
#ifndef LAP_ENGINE_PASSES_H
#define LAP_ENGINE_PASSES_H

#include "model/forward.h"

enum {
  LAP_DEFAULT_CHUNK = 512,
  LAP_MAX_CHUNK = 65536
};

/* What people call the values of lap_path, in its order, ended by NULL. */
extern const char *const lap_path_words[];

typedef struct lap_passes {
  lap_forward *forward;
  int chunk;        /* tokens of a prompt that are evaluated at once */
  int64_t monolith; /* passes that have run, by path */
  int64_t cut;
} lap_passes;

/* `chunk` 0: the default. To be released with lap_passes_close, also after
 * a failure. Errors: ARGUMENT, UNSUPPORTED (LAP_PATH_CUT, and there is no cut), MEMORY, IO (threads). */
lap_status lap_passes_open(const lap_model *model, const lap_runner_options *options, int chunk,
                           lap_path path, lap_passes *out, lap_error *error);
void lap_passes_close(lap_passes *passes);

/* lap_forward_run. */
lap_status lap_passes_run(lap_passes *passes, const lap_segment *segments, int count, lap_error *error);

#endif
