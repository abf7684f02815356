/* session.c: one sequence: its tokens, its caches, and the passes that extend both.
 *
 * Invariant: the number of tokens is the length of the caches. A chunk is appended to both or to
 * neither. */
#include "engine/session.h"

#include <stdlib.h>
#include <string.h>

lap_status lap_session_create(lap_model *model, const lap_session_options *options, lap_session **out,
                              lap_error *error) {
  static const lap_session_options defaults = {0};
  if (!options) options = &defaults;
  *out = NULL;
  lap_session *session = calloc(1, sizeof *session);
  if (!session) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a session");
  session->model = model;
  const lap_runner_options how = {.threads = options->threads, .attention = options->attention};
  lap_status status = lap_passes_open(model, &how, options->chunk, options->path, &session->passes, error);
  if (status == LAP_OK) status = lap_kv_create(model->bound, options->kv_start_prompt, &session->kv, error);
  if (status != LAP_OK) {
    lap_session_destroy(session);
    return status;
  }
  *out = session;
  return LAP_OK;
}

void lap_session_destroy(lap_session *session) {
  if (!session) return;
  lap_kv_destroy(session->kv);
  lap_passes_close(&session->passes);
  free(session->tokens);
  free(session);
}

void lap_session_set_progress(lap_session *session, lap_progress *progress, void *context) {
  session->progress = progress;
  session->progress_context = context;
}

static lap_status reserve_tokens(lap_session *session, int64_t count, lap_error *error) {
  int64_t needed = lap_kv_length(session->kv) + count;
  if (needed <= session->capacity) return LAP_OK;
  int64_t capacity = needed + needed / 2 + 64;
  int32_t *tokens = realloc(session->tokens, (size_t)capacity * sizeof *tokens);
  if (!tokens) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %lld tokens", (long long)capacity);
  session->tokens = tokens;
  session->capacity = capacity;
  return LAP_OK;
}

static lap_status eval_chunk(lap_session *session, const int32_t *ids, int count, int logits_from,
                             float *logits, lap_error *error) {
  int64_t length = lap_kv_length(session->kv);
  lap_segment segment = {
      .kv = session->kv, .ids = ids, .count = count, .logits_from = logits_from, .logits = logits};
  lap_status status = lap_passes_run(&session->passes, &segment, 1, error);
  if (lap_kv_length(session->kv) > length) memcpy(session->tokens + length, ids, (size_t)count * sizeof *ids);
  return status;
}

lap_status lap_session_eval(lap_session *session, const int32_t *ids, int64_t count, int64_t wanted,
                            float *logits, lap_error *error) {
  int64_t length = lap_kv_length(session->kv), context = session->model->plan->max_position_embeddings;
  if (count < 1) return lap_fail(error, LAP_ERROR_ARGUMENT, "there is no token to evaluate");
  if (wanted < 0 || wanted > count || (wanted && !logits))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "logits of %lld of %lld tokens are wanted", (long long)wanted,
                    (long long)count);
  if (count > context - length)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "%lld tokens after %lld exceed the model's context of %lld",
                    (long long)count, (long long)length, (long long)context);
  for (int64_t i = 0; i < count; i++)
    if (ids[i] < 0 || ids[i] >= session->model->plan->vocab_size)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "token %lld: id %d is not in the vocabulary of %d",
                      (long long)i, ids[i], session->model->plan->vocab_size);
  lap_status status = reserve_tokens(session, count, error);
  int64_t first_wanted = count - wanted;
  for (int64_t done = 0; status == LAP_OK && done < count;) {
    int n = count - done < session->passes.chunk ? (int)(count - done) : session->passes.chunk;
    int64_t from = first_wanted > done ? first_wanted - done : 0;
    status = eval_chunk(session, ids + done, n, from < n ? (int)from : n, logits, error);
    if (from < n && logits) logits += (n - from) * session->model->plan->vocab_size;
    done += n;
    if (status == LAP_OK && session->progress && done < count &&
        !session->progress(session->progress_context, done, count))
      return lap_fail(error, LAP_ERROR_STATE, "evaluation was ended after %lld of %lld tokens",
                      (long long)done, (long long)count);
  }
  return status;
}

lap_status lap_session_end_prompt(lap_session *session, lap_error *error) {
  return lap_kv_convert(session->kv, error);
}

const int32_t *lap_session_tokens(const lap_session *session, int64_t *count) {
  *count = lap_kv_length(session->kv);
  return session->tokens;
}

lap_status lap_session_trim(lap_session *session, int64_t length, lap_error *error) {
  if (length < 0 || length > lap_kv_length(session->kv))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "cannot trim to %lld: the session has %lld tokens",
                    (long long)length, (long long)lap_kv_length(session->kv));
  return lap_kv_trim(session->kv, length, error);
}

lap_status lap_session_save(const lap_session *session, const char *path, lap_error *error) {
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_status status = lap_model_fingerprint(session->model, fingerprint, error);
  if (status != LAP_OK) return status;
  return lap_kv_save(session->kv, fingerprint, session->tokens, path, error);
}

lap_status lap_session_restore(lap_session *session, const char *path, lap_error *error) {
  int32_t *tokens;
  int64_t count;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_status status = lap_model_fingerprint(session->model, fingerprint, error);
  if (status == LAP_OK) status = lap_kv_load(session->kv, fingerprint, path, &tokens, &count, error);
  if (status != LAP_OK) return status;
  free(session->tokens);
  session->tokens = tokens;
  session->capacity = count;
  return LAP_OK;
}

lap_stats lap_session_stats(const lap_session *session) {
  return (lap_stats){
      .tokens = lap_kv_length(session->kv),
      .kv_bytes = lap_kv_bytes(session->kv),
      .scratch_bytes = lap_forward_bytes(session->passes.forward),
      .threads = lap_forward_threads(session->passes.forward),
      .isa = session->model->device->driver->variant(session->model->device),
      .passes_monolith = session->passes.monolith,
      .passes_cut = session->passes.cut,
  };
}
