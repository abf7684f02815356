/* metrics.h: what the server has done, counted for Prometheus. Any thread may count and print. */
#ifndef LAP_SERVER_METRICS_H
#define LAP_SERVER_METRICS_H

#include "base/text_buffer.h"
#include "engine/batch.h"

typedef struct lap_metrics lap_metrics;

/* Errors: MEMORY. */
lap_status lap_metrics_create(lap_metrics **out, lap_error *error);
void lap_metrics_destroy(lap_metrics *metrics);

/* A request has been answered or refused; `endpoint` is a constant that lives as long as the program. */
void lap_metrics_request(lap_metrics *metrics, const char *endpoint, int status);

/* The first token of an answer came after so many seconds; later, that it decoded so many tokens a second. */
void lap_metrics_first_token(lap_metrics *metrics, double seconds);
void lap_metrics_decode_rate(lap_metrics *metrics, double tokens_per_second);

/* Appends everything, with the engine's counts, in Prometheus' text format. */
void lap_metrics_print(lap_metrics *metrics, const lap_batch_stats *engine, int queued, lap_text *out);

#endif
