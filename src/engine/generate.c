/* generate.c: prompt in, text out, one token after the other.
 *
 * A token is sampled, turned into text, and only then evaluated, and only if another one is wanted; so
 * the session holds all tokens but the last. Text goes through two filters before it is shown: the
 * detokenizer holds back bytes of an unfinished character, and `text_filter` what may be the beginning
 * of a stop string.
 *
 * Invariant: what waits in the filter is the longest end of the text so far that begins a stop string.
 * So a stop string that appears stands wholly in the filter, however tokens divide it, and nothing of
 * it has been shown. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/session.h"

/* ---- text on its way to the caller ----------------------------------------------------------- */

typedef struct text_filter {
  const lap_generate_options *options;
  lap_detokenizer detokenizer;
  char *text; /* waiting */
  size_t length;
  size_t capacity;
  bool stopped;   /* a stop string appeared */
  bool abandoned; /* the caller wants no more */
} text_filter;

/* Where the first stop string begins, or the length if there is none. */
static size_t find_stop(const text_filter *filter) {
  size_t first = filter->length;
  for (int i = 0; i < filter->options->stop_count; i++) {
    const char *stop = filter->options->stop[i];
    const char *at = filter->length ? memmem(filter->text, filter->length, stop, strlen(stop)) : NULL;
    if (at && (size_t)(at - filter->text) < first) first = (size_t)(at - filter->text);
  }
  return first;
}

/* True if the text from `at` to its end is the beginning of a stop string. */
static bool may_become_stop(const text_filter *filter, size_t at) {
  size_t length = filter->length - at;
  for (int i = 0; i < filter->options->stop_count; i++) {
    const char *stop = filter->options->stop[i];
    if (length < strlen(stop) && memcmp(filter->text + at, stop, length) == 0) return true;
  }
  return false;
}

static size_t longest_stop(const lap_generate_options *options) {
  size_t longest = 0;
  for (int i = 0; i < options->stop_count; i++) {
    size_t length = strlen(options->stop[i]);
    if (length > longest) longest = length;
  }
  return longest;
}

/* How much of the text can no longer become part of a stop string. */
static size_t decided(const text_filter *filter) {
  size_t longest = longest_stop(filter->options);
  size_t at = filter->length > longest ? filter->length - longest : 0;
  while (at < filter->length && !may_become_stop(filter, at)) at++;
  return at;
}

/* A stop string may begin inside a character; pieces that are shown do not end there. */
static size_t whole_characters(const text_filter *filter, size_t length) {
  if (length == filter->length) return length;
  while (length > 0 && ((unsigned char)filter->text[length] & 0xc0) == 0x80) length--;
  return length;
}

/* Hands over the first `length` bytes. An empty piece is handed over too: it lets the caller end. */
static void show(text_filter *filter, size_t length) {
  length = whole_characters(filter, length);
  if (!filter->options->text) {
    filter->length -= length;
    if (length) memmove(filter->text, filter->text + length, filter->length);
    return;
  }
  if (length == 0) {
    filter->abandoned = !filter->options->text(filter->options->context, "", 0);
    return;
  }
  char after = filter->text[length]; /* at worst the terminator */
  filter->text[length] = '\0';
  filter->abandoned = !filter->options->text(filter->options->context, filter->text, length);
  filter->text[length] = after;
  filter->length -= length;
  memmove(filter->text, filter->text + length, filter->length);
}

/* Shows what has become certain; with `end` all that is left. */
static void pass_on(text_filter *filter, bool end) {
  size_t stop = find_stop(filter);
  filter->stopped = stop < filter->length;
  if (filter->stopped || end)
    show(filter, stop);
  else
    show(filter, decided(filter));
}

/* A vocabulary padded beyond the tokenizer's has ids without text. */
static lap_status add_token(text_filter *filter, const lap_tokenizer *tokenizer, int32_t token,
                            lap_error *error) {
  size_t bytes;
  lap_status status = LAP_OK;
  if (lap_tokenizer_token(tokenizer, token, &bytes))
    status = lap_detokenize(tokenizer, &filter->detokenizer, token, filter->options->show_special,
                            &filter->text, &filter->length, &filter->capacity, error);
  if (status == LAP_OK) pass_on(filter, false);
  return status;
}

static lap_status end_text(text_filter *filter, lap_error *error) {
  if (filter->stopped || filter->abandoned) return LAP_OK;
  lap_status status =
      lap_detokenize_end(&filter->detokenizer, &filter->text, &filter->length, &filter->capacity, error);
  if (status == LAP_OK && filter->length) pass_on(filter, true);
  return status;
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
  if (options->stop_count < 0 || (options->stop_count && !options->stop))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "stop: a list of %d strings", options->stop_count);
  for (int i = 0; i < options->stop_count; i++)
    if (!options->stop[i] || !*options->stop[i])
      return lap_fail(error, LAP_ERROR_ARGUMENT, "stop: string %d is empty", i);
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
  if (g->filter.stopped)
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
  if (g->filter.stopped) g->result->finish = LAP_FINISH_STOP; /* perhaps only now, at the very end */
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
  if (status == LAP_OK) status = lap_model_tokenizer(session->model, &g.tokenizer, error);
  if (status == LAP_OK) {
    g.logits = malloc((size_t)lap_model_vocab_size(session->model) * sizeof *g.logits);
    if (!g.logits) status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for logits");
  }
  if (status == LAP_OK) status = eval_prompt(&g, ids, count, error);
  if (status == LAP_OK) status = decode(&g, error);
  result->last_token = g.token;
  free(g.logits);
  free(g.filter.text);
  return status;
}
