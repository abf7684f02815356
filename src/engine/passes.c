/* passes.c: see passes.h. */
#include "engine/passes.h"

lap_status lap_passes_open(const lap_model *model, int threads, int chunk, lap_path path, lap_passes *out,
                           lap_error *error) {
  *out = (lap_passes){.chunk = chunk ? chunk : LAP_DEFAULT_CHUNK};
  if (threads < 0 || threads > LAP_MAX_THREADS)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "threads: %d is not in 1..%d", threads, LAP_MAX_THREADS);
  if (chunk < 0 || chunk > LAP_MAX_CHUNK)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "chunk: %d is not in 1..%d", chunk, LAP_MAX_CHUNK);
  if (path == LAP_PATH_CUT && !model->cut.code)
    return lap_fail(error, LAP_ERROR_UNSUPPORTED, "path cut: %s", model->cut.why);
  lap_status status = lap_pool_create(threads ? threads : lap_available_cores(), &out->pool, error);
  if (status == LAP_OK) status = lap_forward_create(model, out->pool, &out->forward, error);
  if (status == LAP_OK) lap_forward_set_path(out->forward, path);
  return status;
}

void lap_passes_close(lap_passes *passes) {
  lap_forward_destroy(passes->forward);
  lap_pool_destroy(passes->pool);
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
