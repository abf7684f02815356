/* generate.c: prompt in, text out, one token after the other.
 *
 * A generation is the only job of its session's batch, and brings the session's sequence; a speaker
 * (speaker.h) chooses and says. A token is said before it is evaluated, and evaluated only if another one is
 * wanted; so the session holds all tokens but the last. */
#include "engine/session.h"
#include "engine/speaker.h"

typedef struct generation {
  const lap_generate_options *options;
  lap_speaker *speaker;
  bool shown;     /* the newest token has brought a piece */
  bool abandoned; /* the caller wants no more */
  bool ended;     /* the job has */
  lap_job_record record;
} generation;

/* ---- the job --------------------------------------------------------------------------------- */

/* A lap_say. */
static bool show(void *context, const lap_piece *piece) {
  generation *g = context;
  g->shown = true;
  if (g->options->text) g->abandoned = !g->options->text(g->options->context, piece->text, piece->length);
  return !g->abandoned;
}

/* A lap_choose. Where a token has no text an empty piece is shown: it lets the caller end. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  generation *g = context;
  g->shown = false;
  int32_t id = lap_speaker_choose(g->speaker, logits, tokens, count);
  if (!g->shown && lap_speaker_spoken(g->speaker)->finish != LAP_FINISH_EOS)
    show(g, &(lap_piece){.kind = LAP_PIECE_TEXT, .text = ""});
  return g->abandoned ? -1 : id;
}

/* A lap_job_ended. */
static void on_ended(void *context, const lap_job_record *record) {
  generation *g = context;
  g->record = *record;
  g->ended = true;
}

/* ---- together -------------------------------------------------------------------------------- */

static bool reading_goes_on(const lap_session *session, const lap_job_record *record) {
  if (record->state != LAP_JOB_PROMPT || !session->progress) return true;
  return session->progress(session->progress_context, record->evaluated_tokens, record->prompt_tokens);
}

/* Runs the job until it has ended. */
static lap_status run(generation *g, const lap_session *session, lap_job *job, lap_error *error) {
  while (!g->ended) {
    lap_batch_step(session->batch);
    if (!g->ended && !reading_goes_on(session, lap_job_get_record(job)))
      lap_batch_cancel(session->batch, job);
  }
  const lap_job_record *record = &g->record;
  if (record->end == LAP_JOB_CANCELLED)
    return lap_fail(error, LAP_ERROR_STATE, "evaluation was ended after %lld of %lld tokens",
                    (long long)record->evaluated_tokens, (long long)record->prompt_tokens);
  if (record->end == LAP_JOB_FAILED) {
    if (error) *error = record->error;
    return record->error.status;
  }
  return g->abandoned ? LAP_OK : lap_speaker_finish(g->speaker, record->end == LAP_JOB_LENGTH, error);
}

static void describe(const generation *g, lap_generate_result *result) {
  const lap_job_record *record = &g->record;
  const lap_spoken *spoken = lap_speaker_spoken(g->speaker);
  double answered = record->first_token > 0 ? record->first_token : record->ended;
  *result = (lap_generate_result){
      .finish = g->abandoned && !spoken->finish ? LAP_FINISH_CALLER : spoken->finish,
      .prompt_tokens = record->prompt_tokens,
      .generated_tokens = spoken->tokens,
      .last_token = spoken->last_token,
      .prompt_seconds = record->started > 0 ? answered - record->started : 0,
      .decode_seconds = record->ended - answered,
  };
}

lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error) {
  static const lap_generate_options defaults = {0};
  if (!options) options = &defaults;
  *result = (lap_generate_result){.last_token = -1};
  generation g = {.options = options};
  const lap_speaker_options how = {.model = session->model,
                                   .sampler = sampler,
                                   .stop = options->stop,
                                   .stop_count = options->stop_count,
                                   .ignore_eos = options->ignore_eos,
                                   .show_special = options->show_special,
                                   .say = show,
                                   .context = &g};
  const lap_job_request request = {.ids = ids,
                                   .count = count,
                                   .sequence = session->sequence,
                                   .max_tokens = options->max_tokens,
                                   .choose = choose,
                                   .ended = on_ended,
                                   .context = &g};
  lap_job *job;
  lap_status status = lap_speaker_create(&how, &g.speaker, error);
  if (status == LAP_OK) status = lap_batch_submit(session->batch, &request, &job, error);
  if (status == LAP_OK) {
    status = run(&g, session, job, error);
    describe(&g, result);
  }
  lap_speaker_destroy(g.speaker);
  return status;
}
