/* service.h: the engine's thread, and the queue in front of it.
 *
 * Any thread may submit an answer; one thread, the service's own, drives the batch: between forward passes it
 * takes in what was submitted, and drops what nobody reads any more. The queue is bounded: what does not fit
 * is refused at once. */
#ifndef LAP_SERVER_SERVICE_H
#define LAP_SERVER_SERVICE_H

#include "server/answer.h"
#include "server/metrics.h"

typedef struct lap_service lap_service;

typedef struct lap_service_options {
  lap_batch_options batch;
  int max_queue; /* sequences that wait, beyond those that run */
} lap_service_options;

/* Starts the thread. The model and the metrics must outlive it. Errors: those of lap_batch_create, IO (the
 * thread). */
lap_status lap_service_open(lap_model *model, const lap_service_options *options, lap_metrics *metrics,
                            lap_service **out, lap_error *error);

/* Finishes what there is within `seconds`, cancels the rest and ends the thread. All answers are over then.
 */
void lap_service_stop(lap_service *service, double seconds);
void lap_service_close(lap_service *service);

typedef enum lap_admission {
  LAP_ADMITTED, /* the answer is the service's */
  LAP_QUEUE_FULL,
  LAP_TOO_MANY, /* more choices than ever fit */
  LAP_STOPPING
} lap_admission;

lap_admission lap_service_submit(lap_service *service, lap_answer *answer);

/* Somebody has stopped reading: the service looks who, soon. */
void lap_service_look(lap_service *service);

/* The context limit in force. */
int64_t lap_service_context(const lap_service *service);

typedef struct lap_service_stats {
  lap_batch_stats batch;
  int queued; /* sequences that wait, in the batch or in front of it */
} lap_service_stats;

/* As of the last forward pass. */
lap_service_stats lap_service_get_stats(lap_service *service);

#endif
