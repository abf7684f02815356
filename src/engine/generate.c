/* generate.c: prompt in, text out, one token after the other.
 *
 * A token is chosen and said (speaker.h), and only then evaluated, and only if another one is wanted; so the
 * session holds all tokens but the last. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/session.h"
#include "engine/speaker.h"

typedef struct generation {
  lap_session *session;
  const lap_generate_options *options;
  lap_generate_result *result;
  lap_speaker *speaker;
  float *logits;  /* [vocab_size], of the newest token evaluated */
  bool shown;     /* the newest token has brought a piece */
  bool abandoned; /* the caller wants no more */
} generation;

/* ---- text on its way to the caller ----------------------------------------------------------- */

/* A lap_say. */
static bool show(void *context, const lap_piece *piece) {
  generation *g = context;
  g->shown = true;
  if (g->options->text) g->abandoned = !g->options->text(g->options->context, piece->text, piece->length);
  return !g->abandoned;
}

/* Chooses a token and shows its text, be it an empty one: that lets the caller end. Returns the token, or -1
 * if it was the last one. */
static int32_t choose(generation *g) {
  int64_t count;
  const int32_t *tokens = lap_session_tokens(g->session, &count);
  g->shown = false;
  int32_t id = lap_speaker_choose(g->speaker, g->logits, tokens, count);
  if (!g->shown && lap_speaker_spoken(g->speaker)->finish != LAP_FINISH_EOS)
    show(g, &(lap_piece){.kind = LAP_PIECE_TEXT, .text = ""});
  return g->abandoned ? -1 : id;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static lap_status check_options(const lap_generate_options *options, lap_error *error) {
  if (options->max_tokens < 0)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "max_tokens: %lld is negative",
                    (long long)options->max_tokens);
  return LAP_OK;
}

static lap_status eval_prompt(generation *g, const int32_t *ids, int64_t count, lap_error *error) {
  double start = lap_seconds();
  lap_status status = lap_session_eval(g->session, ids, count, 1, g->logits, error);
  if (status == LAP_OK) status = lap_session_end_prompt(g->session, error);
  g->result->prompt_tokens = count;
  g->result->prompt_seconds = lap_seconds() - start;
  return status;
}

static bool reached_limit(const generation *g) {
  int64_t held;
  lap_session_tokens(g->session, &held);
  return lap_speaker_spoken(g->speaker)->tokens == g->options->max_tokens ||
         held >= lap_model_context(g->session->model);
}

static lap_status decode(generation *g, lap_error *error) {
  double start = lap_seconds();
  const lap_spoken *spoken = lap_speaker_spoken(g->speaker);
  lap_status status = LAP_OK;
  int32_t id;
  bool limited = false;
  while (status == LAP_OK && (id = choose(g)) >= 0 && !(limited = reached_limit(g)))
    status = lap_session_eval(g->session, &id, 1, 1, g->logits, error);
  if (status == LAP_OK && !g->abandoned) status = lap_speaker_finish(g->speaker, limited, error);
  g->result->finish = g->abandoned && !spoken->finish ? LAP_FINISH_CALLER : spoken->finish;
  g->result->generated_tokens = spoken->tokens;
  g->result->last_token = spoken->last_token;
  g->result->decode_seconds = lap_seconds() - start;
  return status;
}

lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error) {
  static const lap_generate_options defaults = {0};
  if (!options) options = &defaults;
  *result = (lap_generate_result){.last_token = -1};
  generation g = {.session = session, .options = options, .result = result};
  const lap_speaker_options how = {.model = session->model,
                                   .sampler = sampler,
                                   .stop = options->stop,
                                   .stop_count = options->stop_count,
                                   .ignore_eos = options->ignore_eos,
                                   .show_special = options->show_special,
                                   .say = show,
                                   .context = &g};
  lap_status status = check_options(options, error);
  if (status == LAP_OK) status = lap_speaker_create(&how, &g.speaker, error);
  if (status == LAP_OK) {
    g.logits = malloc((size_t)lap_model_vocab_size(session->model) * sizeof *g.logits);
    if (!g.logits) status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for logits");
  }
  if (status == LAP_OK) status = eval_prompt(&g, ids, count, error);
  if (status == LAP_OK) status = decode(&g, error);
  free(g.logits);
  lap_speaker_destroy(g.speaker);
  return status;
}
