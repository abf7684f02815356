/* passes.c: see passes.h. */
#include "engine/passes.h"

const char *const lap_path_words[] = {"auto", "monolith", "cut", NULL};

lap_status lap_passes_open(const lap_model *model, const lap_runner_options *options, int chunk,
                           lap_path path, lap_passes *out, lap_error *error) {
  *out = (lap_passes){.chunk = chunk ? chunk : LAP_DEFAULT_CHUNK};
  if (chunk < 0 || chunk > LAP_MAX_CHUNK)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "chunk: %d is not in 1..%d", chunk, LAP_MAX_CHUNK);
  const lap_cut_info cut = lap_model_cut(model);
  if (path == LAP_PATH_CUT && !cut.available)
    return lap_fail(error, LAP_ERROR_UNSUPPORTED, "path cut: %s", cut.why);
  lap_status status = lap_forward_create(model, options, &out->forward, error);
  if (status == LAP_OK) lap_forward_set_path(out->forward, path);
  return status;
}

void lap_passes_close(lap_passes *passes) {
  lap_forward_destroy(passes->forward);
}

lap_status lap_passes_run(lap_passes *passes, const lap_segment *segments, int count, lap_error *error) {
  lap_status status = lap_forward_run(passes->forward, segments, count, error);
  if (status != LAP_OK && status != LAP_ERROR_NUMERIC) return status;
  if (lap_forward_served(passes->forward) == LAP_PATH_CUT)
    passes->cut++;
  else
    passes->monolith++;
  return status;
}
