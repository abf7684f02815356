/* session.c: a sequence in a batch of one.
 *
 * Invariant: between calls no job runs in the batch; the sequence is the session's own, without marks. */
#include "engine/session.h"

#include <stdlib.h>

static lap_status open_batch(lap_session *session, const lap_session_options *options, lap_error *error) {
  const lap_batch_options how = {.threads = options->threads,
                                 .parallel = 1,
                                 .chunk = options->chunk,
                                 .path = options->path,
                                 .attention = options->attention};
  return lap_batch_create(session->model, &how, &session->batch, error);
}

lap_status lap_session_create(lap_model *model, const lap_session_options *options, lap_session **out,
                              lap_error *error) {
  static const lap_session_options defaults = {0};
  if (!options) options = &defaults;
  *out = NULL;
  lap_session *session = calloc(1, sizeof *session);
  if (!session) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a session");
  session->model = model;
  lap_status status = open_batch(session, options, error);
  if (status == LAP_OK)
    status = lap_sequence_create(model->bound, options->kv_start_prompt, &session->sequence, error);
  if (status != LAP_OK) {
    lap_session_destroy(session);
    return status;
  }
  *out = session;
  return LAP_OK;
}

void lap_session_destroy(lap_session *session) {
  if (!session) return;
  lap_batch_destroy(session->batch);
  lap_sequence_destroy(session->sequence);
  free(session);
}

void lap_session_set_progress(lap_session *session, lap_progress *progress, void *context) {
  session->progress = progress;
  session->progress_context = context;
}

lap_status lap_session_eval(lap_session *session, const int32_t *ids, int64_t count, int64_t wanted,
                            float *logits, lap_error *error) {
  const lap_extension extension = {.ids = ids,
                                   .count = count,
                                   .wanted = wanted,
                                   .logits = logits,
                                   .progress = session->progress,
                                   .progress_context = session->progress_context};
  return lap_batch_extend(session->batch, session->sequence, &extension, error);
}

lap_status lap_session_end_prompt(lap_session *session, lap_error *error) {
  return lap_kv_convert(session->sequence->kv, error);
}

const int32_t *lap_session_tokens(const lap_session *session, int64_t *count) {
  *count = lap_sequence_length(session->sequence);
  return lap_sequence_keys(session->sequence).ids;
}

lap_status lap_session_trim(lap_session *session, int64_t length, lap_error *error) {
  int64_t held = lap_sequence_length(session->sequence);
  if (length < 0 || length > held)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "cannot trim to %lld: the session has %lld tokens",
                    (long long)length, (long long)held);
  return lap_kv_trim(session->sequence->kv, length, error);
}

lap_status lap_session_save(const lap_session *session, const char *path, lap_error *error) {
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_status status = lap_model_fingerprint(session->model, fingerprint, error);
  if (status != LAP_OK) return status;
  return lap_kv_save(session->sequence->kv, fingerprint, session->sequence->tokens, path, error);
}

lap_status lap_session_restore(lap_session *session, const char *path, lap_error *error) {
  int32_t *tokens;
  int64_t count;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_sequence *sequence = session->sequence;
  lap_status status = lap_model_fingerprint(session->model, fingerprint, error);
  if (status == LAP_OK) status = lap_kv_load(sequence->kv, fingerprint, path, &tokens, &count, error);
  if (status != LAP_OK) return status;
  free(sequence->tokens);
  sequence->tokens = tokens;
  sequence->capacity = count;
  return LAP_OK;
}

lap_stats lap_session_stats(const lap_session *session) {
  const lap_passes *passes = lap_batch_passes(session->batch);
  return (lap_stats){
      .tokens = lap_sequence_length(session->sequence),
      .kv_bytes = lap_kv_bytes(session->sequence->kv),
      .scratch_bytes = lap_forward_bytes(passes->forward),
      .threads = lap_forward_threads(passes->forward),
      .isa = session->model->device->driver->variant(session->model->device),
      .passes_monolith = passes->monolith,
      .passes_cut = passes->cut,
  };
}
