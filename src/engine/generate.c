/* generate.c: prompt in, text out, one token after the other.
 *
 * A token is sampled, turned into text, and only then evaluated, and only if another one is wanted; so
 * the session holds all tokens but the last. Text goes through two filters before it is shown: the
 * detokenizer holds back bytes of an unfinished character, and lap_stop what may be the beginning of a stop
 * string. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/session.h"
#include "text/stop.h"

/* ---- text on its way to the caller ----------------------------------------------------------- */

typedef struct text_filter {
  const lap_generate_options *options;
  lap_detokenizer detokenizer;
  lap_stop *stop;
  char *text; /* of the newest token */
  size_t length;
  size_t capacity;
  bool abandoned; /* the caller wants no more */
} text_filter;

/* An empty piece is handed over too: it lets the caller end. */
static void show(text_filter *filter, lap_stop_piece piece) {
  if (filter->options->text)
    filter->abandoned = !filter->options->text(filter->options->context, piece.text, piece.length);
}

static lap_status pass_on(text_filter *filter, lap_error *error) {
  lap_stop_piece piece;
  lap_status status = lap_stop_text(filter->stop, filter->text, filter->length, &piece, error);
  filter->length = 0;
  if (status == LAP_OK) show(filter, piece);
  return status;
}

/* A vocabulary padded beyond the tokenizer's has ids without text. */
static lap_status add_token(text_filter *filter, const lap_tokenizer *tokenizer, int32_t token,
                            lap_error *error) {
  size_t bytes;
  lap_status status = LAP_OK;
  if (lap_tokenizer_token(tokenizer, token, &bytes))
    status = lap_detokenize(tokenizer, &filter->detokenizer, token, filter->options->show_special,
                            &filter->text, &filter->length, &filter->capacity, error);
  return status == LAP_OK ? pass_on(filter, error) : status;
}

static bool is_over(const text_filter *filter) {
  return lap_stop_found(filter->stop) || filter->abandoned;
}

static lap_status end_text(text_filter *filter, lap_error *error) {
  if (is_over(filter)) return LAP_OK;
  lap_status status =
      lap_detokenize_end(&filter->detokenizer, &filter->text, &filter->length, &filter->capacity, error);
  if (status == LAP_OK && filter->length) status = pass_on(filter, error);
  if (status != LAP_OK || is_over(filter)) return status;
  lap_stop_piece rest;
  lap_stop_finish(filter->stop, &rest);
  if (rest.length) show(filter, rest);
  return LAP_OK;
}

static void close_filter(text_filter *filter) {
  lap_stop_destroy(filter->stop);
  free(filter->text);
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef struct generation {
  lap_session *session;
  lap_sampler *sampler;
  const lap_tokenizer *tokenizer;
  const lap_generate_options *options;
  lap_generate_result *result;
  float *logits; /* [vocab_size], of the newest token evaluated */
  int32_t token; /* the newest one generated, -1 before */
  text_filter filter;
} generation;

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

static void sample(generation *g) {
  int64_t count;
  const int32_t *tokens = lap_session_tokens(g->session, &count);
  g->token = lap_sampler_next(g->sampler, g->logits, tokens, count);
  g->result->generated_tokens++;
}

static bool reached_limit(const generation *g) {
  int64_t held;
  lap_session_tokens(g->session, &held);
  return g->result->generated_tokens == g->options->max_tokens ||
         held >= lap_model_context(g->session->model);
}

/* Samples one token and shows its text; true and `finish` if it was the last one. */
static lap_status take_token(generation *g, bool *last, lap_error *error) {
  sample(g);
  *last = true;
  g->result->finish = LAP_FINISH_EOS;
  if (!g->options->ignore_eos && lap_model_is_eos(g->session->model, g->token)) return LAP_OK;
  lap_status status = add_token(&g->filter, g->tokenizer, g->token, error);
  if (status != LAP_OK) return status;
  if (lap_stop_found(g->filter.stop))
    g->result->finish = LAP_FINISH_STOP;
  else if (g->filter.abandoned)
    g->result->finish = LAP_FINISH_CALLER;
  else if (reached_limit(g))
    g->result->finish = LAP_FINISH_LENGTH;
  else
    *last = false;
  return LAP_OK;
}

static lap_status decode(generation *g, lap_error *error) {
  double start = lap_seconds();
  bool last = false;
  lap_status status = LAP_OK;
  while (status == LAP_OK) {
    status = take_token(g, &last, error);
    if (status != LAP_OK || last) break;
    status = lap_session_eval(g->session, &g->token, 1, 1, g->logits, error);
  }
  if (status == LAP_OK) status = end_text(&g->filter, error);
  if (lap_stop_found(g->filter.stop))
    g->result->finish = LAP_FINISH_STOP; /* perhaps only now, at the very end */
  g->result->decode_seconds = lap_seconds() - start;
  return status;
}

lap_status lap_generate(lap_session *session, lap_sampler *sampler, const int32_t *ids, int64_t count,
                        const lap_generate_options *options, lap_generate_result *result, lap_error *error) {
  static const lap_generate_options defaults = {0};
  if (!options) options = &defaults;
  *result = (lap_generate_result){.last_token = -1};
  generation g = {.session = session, .sampler = sampler, .options = options, .result = result, .token = -1};
  g.filter.options = options;
  lap_status status = check_options(options, error);
  if (status == LAP_OK) status = lap_stop_create(options->stop, options->stop_count, &g.filter.stop, error);
  if (status == LAP_OK) status = lap_model_tokenizer(session->model, &g.tokenizer, error);
  if (status == LAP_OK) {
    g.logits = malloc((size_t)lap_model_vocab_size(session->model) * sizeof *g.logits);
    if (!g.logits) status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for logits");
  }
  if (status == LAP_OK) status = eval_prompt(&g, ids, count, error);
  if (status == LAP_OK) status = decode(&g, error);
  result->last_token = g.token;
  free(g.logits);
  close_filter(&g.filter);
  return status;
}
