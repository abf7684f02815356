/* generate.c: prompt in, text out, one token after the other, in a batch.
 *
 * A generation is a job of a batch; a speaker (speaker.h) chooses and says. A token is said before it is
 * evaluated, and evaluated only if another one is wanted. That of a session is the only job of the session's
 * batch and brings the session's sequence; so the session holds all tokens but the last.
 *
 * Invariant: a speaker exists only between a generation's first token and its end, since one that waits
 * should cost no more than its prompt. */
#include <stdlib.h>

#include "engine/session.h"
#include "engine/speaker.h"

typedef void receive(void *context, const lap_generate_result *result, const lap_error *error);

typedef struct generation {
  lap_model *model;
  lap_generate_options options;
  lap_sampler *sampler; /* or NULL, and */
  lap_sampling sampling;
  lap_speaker *speaker;
  bool shown;      /* the newest token has brought a piece */
  bool abandoned;  /* the caller wants no more */
  lap_error error; /* the speaker could not be made; LAP_OK: it could */
  receive *ended;
  void *receiver; /* its context */
} generation;

/* ---- a generation as a job ------------------------------------------------------------------- */

/* A lap_say. */
static bool show(void *context, const lap_piece *piece) {
  generation *g = context;
  g->shown = true;
  if (g->options.text) g->abandoned = !g->options.text(g->options.context, piece->text, piece->length);
  return !g->abandoned;
}

static lap_status make_speaker(generation *g, lap_error *error) {
  const lap_speaker_options how = {.model = g->model,
                                   .sampler = g->sampler,
                                   .sampling = &g->sampling,
                                   .grammar = g->options.grammar,
                                   .stop = g->options.stop,
                                   .stop_count = g->options.stop_count,
                                   .ignore_eos = g->options.ignore_eos,
                                   .show_special = g->options.show_special,
                                   .say = show,
                                   .context = g};
  return lap_speaker_create(&how, &g->speaker, error);
}

/* A lap_choose. Where a token has no text an empty piece is shown: it lets the caller end. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  generation *g = context;
  if (!g->speaker && make_speaker(g, &g->error) != LAP_OK) return -1;
  g->shown = false;
  int32_t id = lap_speaker_choose(g->speaker, logits, tokens, count);
  if (!g->shown && lap_speaker_spoken(g->speaker)->finish != LAP_FINISH_EOS)
    show(g, &(lap_piece){.kind = LAP_PIECE_TEXT, .text = ""});
  return g->abandoned ? -1 : id;
}

/* Says what was held back, if the text has come to an end; then what has gone wrong, if anything has. */
static lap_status finish(generation *g, const lap_job_record *record, lap_error *error) {
  const lap_error *fault = record->end == LAP_JOB_FAILED ? &record->error : &g->error;
  *error = (lap_error){.status = LAP_OK};
  if (fault->status != LAP_OK) *error = *fault;
  if (fault->status != LAP_OK || g->abandoned || record->end == LAP_JOB_CANCELLED) return fault->status;
  return lap_speaker_finish(g->speaker, record->end == LAP_JOB_LENGTH, error);
}

static lap_generate_result describe(const generation *g, const lap_job_record *record) {
  static const lap_spoken nothing = {.last_token = -1};
  const lap_spoken *spoken = g->speaker ? lap_speaker_spoken(g->speaker) : &nothing;
  double answered = record->first_token > 0 ? record->first_token : record->ended;
  bool left = g->abandoned || record->end == LAP_JOB_CANCELLED;
  return (lap_generate_result){
      .finish = left && !spoken->finish ? LAP_FINISH_CALLER : spoken->finish,
      .prompt_tokens = record->prompt_tokens,
      .cached_tokens = record->cached_tokens,
      .generated_tokens = spoken->tokens,
      .last_token = spoken->last_token,
      .prompt_seconds = record->started > 0 ? answered - record->started : 0,
      .decode_seconds = record->ended - answered,
  };
}

static void free_generation(generation *g) {
  lap_speaker_destroy(g->speaker);
  free(g);
}

/* A lap_job_ended. */
static void on_ended(void *context, const lap_job_record *record) {
  generation *g = context;
  lap_error error;
  finish(g, record, &error);
  const lap_generate_result result = describe(g, record);
  if (g->ended) g->ended(g->receiver, &result, &error);
  free_generation(g);
}

/* A speaker says what is wrong with the options. */
static lap_status check(generation *g, lap_error *error) {
  lap_status status = make_speaker(g, error);
  lap_speaker_destroy(g->speaker);
  g->speaker = NULL;
  return status;
}

/* Submits a generation like `like`; `sequence` as in lap_job_request. */
static lap_status submit(lap_batch *batch, const generation *like, const int32_t *ids, int64_t count,
                         lap_sequence *sequence, lap_job **job, lap_error *error) {
  generation *g = malloc(sizeof *g);
  if (!g) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a request");
  *g = *like;
  g->model = lap_batch_model(batch);
  const lap_job_request request = {.ids = ids,
                                   .count = count,
                                   .sequence = sequence,
                                   .max_tokens = g->options.max_tokens,
                                   .choose = choose,
                                   .ended = on_ended,
                                   .context = g};
  lap_status status = check(g, error);
  if (status == LAP_OK) status = lap_batch_submit(batch, &request, job, error);
  if (status != LAP_OK) free_generation(g);
  return status;
}

lap_status lap_batch_generate(lap_batch *batch, const lap_batch_request *request, lap_job **job,
                              lap_error *error) {
  const generation like = {.options = request->options,
                           .sampling = request->sampling,
                           .ended = request->ended,
                           .receiver = request->options.context};
  lap_job *made;
  lap_status status = submit(batch, &like, request->ids, request->count, NULL, &made, error);
  if (job) *job = status == LAP_OK ? made : NULL;
  return status;
}

/* ---- in a session ---------------------------------------------------------------------------- */

typedef struct outcome {
  lap_generate_result *result;
  lap_error error;
  bool ended;
} outcome;

/* A receive. */
static void take_outcome(void *context, const lap_generate_result *result, const lap_error *error) {
  outcome *o = context;
  *o->result = *result;
  o->error = *error;
  o->ended = true;
}

/* Runs the job until it has ended; the progress callback may end it while the prompt is read. */
static void run(lap_session *session, lap_job *job, outcome *o) {
  const lap_job_record *record = lap_job_get_record(job);
  while (!o->ended) {
    lap_batch_step(session->batch);
    if (o->ended || record->state != LAP_JOB_PROMPT || !session->progress) continue;
    int64_t done = record->evaluated_tokens, total = record->prompt_tokens;
    if (session->progress(session->progress_context, done, total)) continue;
    lap_batch_cancel(session->batch, job);
    lap_fail(&o->error, LAP_ERROR_STATE, "evaluation was ended after %lld of %lld tokens", (long long)done,
             (long long)total);
  }
}

lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error) {
  outcome o = {.result = result};
  const generation like = {.options = options ? *options : (lap_generate_options){0},
                           .sampler = sampler,
                           .ended = take_outcome,
                           .receiver = &o};
  lap_job *job;
  *result = (lap_generate_result){.last_token = -1};
  lap_status status = submit(session->batch, &like, ids, count, session->sequence, &job, error);
  if (status != LAP_OK) return status;
  run(session, job, &o);
  if (error && o.error.status != LAP_OK) *error = o.error;
  return o.error.status;
}
