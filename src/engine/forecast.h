/* forecast.h: what a session will take, from the plan alone.
 *
 * Nothing is loaded and nothing allocated but a list of rows: the evaluation of a prompt is gone through
 * chunk by chunk, and the caches and the forward pass say what they would hold, by the functions that they
 * allocate with. So what is forecast is what lap_session_stats says afterwards. */
#ifndef LAP_ENGINE_FORECAST_H
#define LAP_ENGINE_FORECAST_H

#include "device/device.h"

/* A session of a model that need not be open. */
typedef struct lap_forecast_session {
  const lap_bound *bound; /* with or without weights */
  lap_path path;
  int threads;
  int chunk; /* tokens evaluated at once, at least 1 */
} lap_forecast_session;

typedef struct lap_forecast {
  int64_t tokens;
  uint64_t kv_bytes;      /* lap_stats.kv_bytes, when so many tokens have been evaluated at once */
  uint64_t kv_peak_bytes; /* the most on the way there: a cache that grows holds its old memory too */
  uint64_t scratch_bytes; /* lap_stats.scratch_bytes */
} lap_forecast;

/* `tokens` in 1..max_position_embeddings. Errors: ARGUMENT, MEMORY. */
lap_status lap_forecast_tokens(const lap_forecast_session *session, int64_t tokens, lap_forecast *out,
                               lap_error *error);

/* The most tokens for which KV at its peak and scratch stay within `bytes`; out->tokens is 0 if not even one
 * does, and max_position_embeddings at most. Errors: MEMORY. */
lap_status lap_forecast_longest(const lap_forecast_session *session, uint64_t bytes, lap_forecast *out,
                                lap_error *error);

#endif
