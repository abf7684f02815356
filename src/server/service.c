/* service.c: the loop of the engine's thread.
 *
 * Invariant: an answer is in exactly one list: `arrived` (under the lock) until the thread takes it, then
 * `live` (the thread's own) until all its choices have ended. `held` counts the sequences of both, and is
 * what the queue's bound is checked against. */
#include "server/service.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/front.h"

enum {
  PING_SECONDS = 10,
  IDLE_MILLISECONDS = 1000 /* how long the thread sleeps at most */
};

struct lap_service {
  lap_batch *batch; /* the thread's own */
  lap_metrics *metrics;
  int capacity; /* sequences, running and waiting */
  int parallel;
  int64_t context;
  lap_answer *live; /* the thread's own */
  pthread_t thread;
  bool running;

  pthread_mutex_t lock;
  pthread_cond_t wake;
  lap_answer *arrived, **arrived_end;
  int held;
  bool look;        /* a client has gone, or something arrived */
  bool stopping;    /* nothing new is taken */
  double stop_time; /* then: when the rest is cancelled */
  lap_batch_stats stats;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void submit_choices(lap_service *service, lap_answer *answer) {
  for (int i = 0; i < answer->choices; i++) {
    lap_error error;
    lap_job *job;
    lap_job_request request = lap_answer_job(answer, i);
    lap_status status =
        answer->failed ? LAP_ERROR_STATE : lap_batch_submit(service->batch, &request, &job, &error);
    if (answer->failed) lap_fail(&error, LAP_ERROR_STATE, "another answer to the same request failed");
    if (status == LAP_OK)
      lap_answer_set_job(answer, i, job);
    else
      lap_answer_refuse(answer, i, &error);
  }
  lap_answer_open(answer);
}

static void cancel_choices(lap_service *service, lap_answer *answer) {
  for (int i = 0; i < answer->choices; i++) {
    lap_job *job = lap_answer_get_job(answer, i);
    if (job) lap_batch_cancel(service->batch, job);
  }
}

static void take_arrived(lap_service *service) {
  pthread_mutex_lock(&service->lock);
  lap_answer *arrived = service->arrived;
  service->arrived = NULL;
  service->arrived_end = &service->arrived;
  service->look = false;
  pthread_mutex_unlock(&service->lock);
  while (arrived) {
    lap_answer *answer = arrived;
    arrived = answer->next;
    answer->next = service->live;
    service->live = answer;
    submit_choices(service, answer);
  }
}

/* A client has gone, or a choice has failed: nobody needs the others. */
static void drop_abandoned(lap_service *service) {
  for (lap_answer *answer = service->live; answer; answer = answer->next) {
    if (lap_answer_is_over(answer)) continue;
    if (!answer->failed && lap_reply_gone(answer->reply)) {
      lap_failure failure;
      lap_failure_set(&failure, LAP_FAILURE_GONE, "the client has gone");
      lap_answer_fail(answer, &failure);
    }
    if (answer->failed)
      cancel_choices(service, answer);
    else if (lap_seconds() - answer->written > PING_SECONDS)
      lap_answer_ping(answer);
  }
}

static void cancel_all(lap_service *service) {
  lap_failure failure;
  lap_failure_set(&failure, LAP_FAILURE_UNAVAILABLE, "the server is shutting down");
  for (lap_answer *answer = service->live; answer; answer = answer->next) {
    lap_answer_fail(answer, &failure);
    cancel_choices(service, answer);
  }
}

static void count_answer(lap_service *service, const lap_answer *answer) {
  const lap_usage *usage = &answer->usage;
  bool refused = answer->failed && (!answer->streaming || answer->failure.kind == LAP_FAILURE_GONE);
  lap_metrics_request(service->metrics, answer->request.front->endpoint,
                      refused ? lap_failure_status(answer->failure.kind) : 200);
  if (usage->first_token_seconds <= 0) return;
  lap_metrics_first_token(service->metrics, usage->first_token_seconds);
  int64_t steps = answer->choice[0].tokens - 1;
  if (steps > 0 && usage->decode_seconds > 0)
    lap_metrics_decode_rate(service->metrics, (double)steps / usage->decode_seconds);
}

static int release_finished(lap_service *service) {
  int released = 0;
  for (lap_answer **at = &service->live; *at;) {
    lap_answer *answer = *at;
    if (!lap_answer_is_over(answer)) {
      at = &answer->next;
      continue;
    }
    *at = answer->next;
    released += answer->choices;
    count_answer(service, answer);
    lap_answer_destroy(answer);
  }
  return released;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct timespec soon(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_sec += IDLE_MILLISECONDS / 1000;
  return time;
}

/* Takes note of what has ended; rests if there is nothing to do. False: the thread is to end. */
static bool settle(lap_service *service, int released, bool busy) {
  pthread_mutex_lock(&service->lock);
  service->held -= released;
  service->stats = lap_batch_get_stats(service->batch);
  const struct timespec until = soon();
  while (!busy && !service->look && !service->stopping)
    if (pthread_cond_timedwait(&service->wake, &service->lock, &until) == ETIMEDOUT) break;
  bool on = !service->stopping || service->held > 0;
  pthread_mutex_unlock(&service->lock);
  return on;
}

static bool is_late(lap_service *service) {
  pthread_mutex_lock(&service->lock);
  bool late = service->stopping && lap_seconds() >= service->stop_time;
  pthread_mutex_unlock(&service->lock);
  return late;
}

static void *work(void *context) {
  lap_service *service = context;
  bool on = true;
  while (on) {
    take_arrived(service);
    drop_abandoned(service);
    if (is_late(service)) cancel_all(service);
    bool busy = lap_batch_step(service->batch);
    on = settle(service, release_finished(service), busy);
  }
  return NULL;
}

/* ---- from outside ---------------------------------------------------------------------------- */

static lap_status start_thread(lap_service *service, lap_error *error) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&service->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&service->lock, NULL);
  int code = pthread_create(&service->thread, NULL, work, service);
  service->running = code == 0;
  if (code) return lap_fail(error, LAP_ERROR_IO, "the engine's thread cannot be started: %s", strerror(code));
  return LAP_OK;
}

lap_status lap_service_open(lap_model *model, const lap_service_options *options, lap_metrics *metrics,
                            lap_service **out, lap_error *error) {
  *out = NULL;
  lap_service *service = calloc(1, sizeof *service);
  if (!service) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the server");
  service->metrics = metrics;
  service->arrived_end = &service->arrived;
  lap_status status = lap_batch_create(model, &options->batch, &service->batch, error);
  if (status == LAP_OK) {
    service->context = lap_batch_context(service->batch);
    service->parallel = options->batch.parallel;
    service->capacity = options->batch.parallel + options->max_queue;
    service->stats = lap_batch_get_stats(service->batch);
    status = start_thread(service, error);
  }
  if (status == LAP_OK)
    *out = service;
  else
    lap_service_close(service);
  return status;
}

void lap_service_stop(lap_service *service, double seconds) {
  if (!service->running) return;
  pthread_mutex_lock(&service->lock);
  service->stopping = true;
  service->stop_time = lap_seconds() + seconds;
  pthread_cond_signal(&service->wake);
  pthread_mutex_unlock(&service->lock);
  pthread_join(service->thread, NULL);
  service->running = false;
}

void lap_service_close(lap_service *service) {
  if (!service) return;
  bool started = service->capacity > 0;
  lap_service_stop(service, 0);
  lap_batch_destroy(service->batch);
  if (started) {
    pthread_cond_destroy(&service->wake);
    pthread_mutex_destroy(&service->lock);
  }
  free(service);
}

lap_admission lap_service_submit(lap_service *service, lap_answer *answer) {
  pthread_mutex_lock(&service->lock);
  lap_admission admission = service->stopping                                     ? LAP_STOPPING
                            : answer->choices > service->capacity                 ? LAP_TOO_MANY
                            : service->held + answer->choices > service->capacity ? LAP_QUEUE_FULL
                                                                                  : LAP_ADMITTED;
  if (admission == LAP_ADMITTED) {
    answer->next = NULL;
    *service->arrived_end = answer;
    service->arrived_end = &answer->next;
    service->held += answer->choices;
    service->look = true;
    pthread_cond_signal(&service->wake);
  }
  pthread_mutex_unlock(&service->lock);
  return admission;
}

void lap_service_look(lap_service *service) {
  pthread_mutex_lock(&service->lock);
  service->look = true;
  pthread_cond_signal(&service->wake);
  pthread_mutex_unlock(&service->lock);
}

int64_t lap_service_context(const lap_service *service) {
  return service->context;
}

lap_service_stats lap_service_get_stats(lap_service *service) {
  pthread_mutex_lock(&service->lock);
  lap_service_stats stats = {.batch = service->stats};
  stats.queued = service->held - service->stats.running;
  pthread_mutex_unlock(&service->lock);
  return stats;
}
