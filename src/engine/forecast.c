/* forecast.c: a prompt, gone through without computing.
 *
 * Invariant: neither KV nor scratch ever shrinks on the way, and both grow with the size of the last chunk.
 * So the longest prompt that stays within a limit ends in the first chunk that exceeds it, and within that
 * chunk it can be searched for by halving. */
#include "engine/forecast.h"

#include "model/forward.h"

/* How far a walk has come. */
typedef struct walk {
  lap_kv_forecast kv;
  lap_forward_forecast scratch;
} walk;

/* The next `count` tokens, in one pass. */
static lap_status step(const lap_forecast_session *session, walk *w, int64_t count, lap_error *error) {
  lap_status status = lap_forward_foresee(session->bound, session->threads, session->path, w->kv.length,
                                          (int)count, &w->scratch, error);
  if (status == LAP_OK) lap_kv_foresee(session->bound->plan, &w->kv, count);
  return status;
}

static uint64_t scratch_bytes(const walk *w) {
  return w->scratch.rows + w->scratch.caches + w->scratch.scratch;
}

static bool exceeds(const walk *w, uint64_t bytes) {
  return w->kv.peak_bytes + scratch_bytes(w) > bytes;
}

static lap_forecast summary(const walk *w) {
  return (lap_forecast){.tokens = w->kv.length,
                        .kv_bytes = w->kv.bytes,
                        .kv_peak_bytes = w->kv.peak_bytes,
                        .scratch_bytes = scratch_bytes(w)};
}

/* Whole chunks, and a last one of what is left, up to `tokens` or to the last step before one that exceeds
 * `bytes`; `*left` says how many tokens that one had, 0 if none exceeds. */
static lap_status go(const lap_forecast_session *session, int64_t tokens, uint64_t bytes, walk *w,
                     int64_t *left, lap_error *error) {
  *left = 0;
  while (w->kv.length < tokens) {
    int64_t rest = tokens - w->kv.length, count = rest < session->chunk ? rest : session->chunk;
    walk next = *w;
    lap_status status = step(session, &next, count, error);
    if (status != LAP_OK) return status;
    if (exceeds(&next, bytes)) {
      *left = count;
      return LAP_OK;
    }
    *w = next;
  }
  return LAP_OK;
}

lap_status lap_forecast_tokens(const lap_forecast_session *session, int64_t tokens, lap_forecast *out,
                               lap_error *error) {
  walk w = {0};
  int64_t left, context = session->bound->plan->max_position_embeddings;
  if (tokens < 1 || tokens > context)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "%lld tokens are not in 1..%lld, the model's context",
                    (long long)tokens, (long long)context);
  lap_status status = go(session, tokens, UINT64_MAX, &w, &left, error);
  *out = summary(&w);
  return status;
}

lap_status lap_forecast_longest(const lap_forecast_session *session, uint64_t bytes, lap_forecast *out,
                                lap_error *error) {
  walk w = {0}, last;
  int64_t high;
  lap_status status = go(session, session->bound->plan->max_position_embeddings, bytes, &w, &high, error);
  last = w;
  /* `low` tokens more than w fit, `high` do not. */
  for (int64_t low = 0; status == LAP_OK && high - low > 1;) {
    int64_t middle = low + (high - low) / 2;
    walk next = w;
    status = step(session, &next, middle, error);
    if (exceeds(&next, bytes)) {
      high = middle;
    } else {
      low = middle;
      last = next;
    }
  }
  *out = summary(&last);
  return status;
}
