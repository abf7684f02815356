/* speaker.c: from logits to pieces, token by token.
 *
 * Notes wait until the text of their tokens is said, which may be later (stop strings, unfinished characters)
 * or never (control tokens, the layout around thoughts and calls): bytes of notes are counted against bytes
 * of text.
 *
 * Invariants: once `complete`, no token is taken; once `silent`, no piece is said. The stop filter has seen
 * the text since the last thought or call, and holds back the end of it. */
#include "engine/speaker.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_buffer.h"
#include "grammar/matcher.h"
#include "text/output.h"
#include "text/stop.h"
#include "text/tokenizer.h"

struct lap_speaker {
  lap_speaker_options options;
  const lap_tokenizer *tokenizer;
  int32_t call_id, close_thought_id; /* -1: the tokenizer has no such token */
  lap_sampler *sampler;
  lap_sampler *own_sampler; /* NULL: it is the caller's */
  lap_matcher *matcher;     /* NULL: no grammar, or a call came instead */
  bool may_call;            /* a call may come instead of what the grammar describes */
  lap_output *output;       /* chat */
  lap_detokenizer bytes;    /* raw */
  lap_text raw;             /* raw: the text of the newest token */
  lap_stop *stop;           /* NULL: there are no stop strings */
  bool complete;
  bool silent;
  bool in_text; /* the last piece was text */
  int calls;    /* said */
  lap_spoken spoken;
  lap_error error;       /* that has ended it; LAP_OK: none */
  size_t pending_tokens; /* since the last piece of the parser's */

  lap_note *note; /* [notes] that wait for their text */
  size_t notes, note_capacity;
  size_t shown_bytes, noted_bytes; /* of text, and of the notes that were given to it */
};

static void note_failure(lap_speaker *s, lap_status status, const lap_error *error) {
  if (status == LAP_OK || s->error.status != LAP_OK) return;
  s->error = *error;
  s->complete = true;
}

static void complete(lap_speaker *s, lap_finish how) {
  s->complete = true;
  s->spoken.finish = how;
}

/* Nothing is said after this either. */
static void fall_silent(lap_speaker *s, lap_finish how) {
  complete(s, how);
  s->silent = true;
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void add_note(lap_speaker *s, const float *logits, int32_t id) {
  lap_error error;
  if (s->notes == s->note_capacity) {
    size_t capacity = 2 * s->note_capacity + 1;
    lap_note *grown = realloc(s->note, capacity * sizeof *grown);
    if (!grown) {
      note_failure(s, lap_fail(&error, LAP_ERROR_MEMORY, "out of memory for the answer"), &error);
      return;
    }
    s->note = grown;
    s->note_capacity = capacity;
  }
  lap_note *note = &s->note[s->notes++];
  *note = (lap_note){.id = id};
  lap_status status = lap_sampler_logprobs(s->sampler, logits, id, &note->logprob, note->top,
                                           s->options.top_logprobs, &note->top_count, &error);
  note_failure(s, status, &error);
}

/* What was said so far has no more tokens to come: those left over were layout. */
static void drop_notes(lap_speaker *s) {
  s->notes = 0;
  s->noted_bytes = s->shown_bytes;
}

/* How many of the notes that wait make up the text that was shown. */
static size_t count_notes(lap_speaker *s) {
  char bytes[LAP_TOKEN_MAX_BYTES];
  size_t count = 0;
  while (count < s->notes && s->noted_bytes < s->shown_bytes)
    s->noted_bytes += lap_tokenizer_token_bytes(s->tokenizer, s->note[count++].id, bytes);
  return count;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Says a piece with the first `notes` of the notes that wait. */
static void say(lap_speaker *s, lap_piece piece, size_t notes) {
  piece.note = s->note;
  piece.notes = notes;
  s->in_text = piece.kind == LAP_PIECE_TEXT;
  if (!s->options.say(s->options.context, &piece))
    fall_silent(s, s->spoken.finish ? s->spoken.finish : LAP_FINISH_CALLER);
  s->notes -= notes;
  if (s->notes) memmove(s->note, s->note + notes, s->notes * sizeof *s->note);
}

static void say_passed(lap_speaker *s, lap_stop_piece passed) {
  if (passed.length == 0) return;
  s->shown_bytes += passed.length;
  say(s, (lap_piece){.kind = LAP_PIECE_TEXT, .text = passed.text, .length = passed.length}, count_notes(s));
}

static void say_text(lap_speaker *s, const char *text, size_t length) {
  lap_stop_piece passed = {.text = text, .length = length};
  if (s->stop) {
    lap_error error;
    lap_status status = lap_stop_text(s->stop, text, length, &passed, &error);
    note_failure(s, status, &error);
    if (status != LAP_OK) return;
  }
  say_passed(s, passed);
  if (!s->stop || !lap_stop_found(s->stop)) return;
  s->spoken.stop_string = s->options.stop[lap_stop_which(s->stop)];
  fall_silent(s, LAP_FINISH_STOP);
}

/* The run of text does not go on: what the filter held back passes. */
static void end_text(lap_speaker *s) {
  if (!s->stop || lap_stop_found(s->stop)) return;
  lap_stop_piece rest;
  lap_stop_finish(s->stop, &rest);
  say_passed(s, rest);
}

static lap_status start_stop_filter(lap_speaker *s, lap_error *error) {
  lap_stop_destroy(s->stop);
  s->stop = NULL;
  if (s->options.stop_count == 0) return LAP_OK;
  return lap_stop_create(s->options.stop, s->options.stop_count, &s->stop, error);
}

/* A thought or a call: a run of text ends before it and another one begins after it. */
static void say_apart(lap_speaker *s, const lap_piece *piece) {
  lap_error error;
  end_text(s);
  note_failure(s, start_stop_filter(s, &error), &error);
  if (s->silent) return;
  bool call = piece->kind == LAP_PIECE_CALL;
  if (!call) s->spoken.thought_tokens += (int64_t)s->pending_tokens;
  s->calls += call;
  drop_notes(s);
  say(s, *piece, 0);
  if (call && s->options.single_call && !s->silent) fall_silent(s, LAP_FINISH_CALLS);
}

/* A lap_output_sink. */
static void on_piece(void *context, const lap_piece *piece) {
  lap_speaker *s = context;
  if (s->silent) return;
  if (piece->kind == LAP_PIECE_TEXT)
    say_text(s, piece->text, piece->length);
  else
    say_apart(s, piece);
  s->pending_tokens = 0;
}

/* ---- tokens to pieces ------------------------------------------------------------------------ */

static void hear_chat(lap_speaker *s, int32_t id) {
  lap_error error;
  s->pending_tokens++;
  note_failure(s, lap_output_token(s->output, id, &error), &error);
  if (lap_tokenizer_is_special(s->tokenizer, id)) drop_notes(s);
  if (!s->complete && lap_output_ended(s->output)) complete(s, LAP_FINISH_EOS);
}

static void say_raw(lap_speaker *s) {
  if (s->raw.length) say_text(s, s->raw.data, s->raw.length);
  s->raw.length = 0;
}

/* A vocabulary padded beyond the tokenizer's has ids without text. */
static void hear_raw(lap_speaker *s, int32_t id) {
  lap_error error;
  size_t bytes;
  if (!lap_tokenizer_token(s->tokenizer, id, &bytes)) return;
  note_failure(s,
               lap_detokenize(s->tokenizer, &s->bytes, id, s->options.show_special, &s->raw.data,
                              &s->raw.length, &s->raw.capacity, &error),
               &error);
  if (!s->complete) say_raw(s);
}

static bool ends(const lap_speaker *s, int32_t id) {
  bool heeded = !s->options.ignore_eos || s->options.grammar;
  return heeded && lap_model_is_eos(s->options.model, id);
}

static void advance_matcher(lap_speaker *s, int32_t id) {
  lap_error error;
  if (s->may_call && id == s->call_id && !lap_matcher_allows(s->matcher, id)) {
    lap_matcher_destroy(s->matcher);
    s->matcher = NULL;
    return;
  }
  note_failure(s, lap_matcher_accept(s->matcher, id, &error), &error);
  /* Thoughts come first; the answer itself, which could have been a call, begins after them. */
  s->may_call = s->options.calls_instead && id == s->close_thought_id;
}

void lap_speaker_hear(lap_speaker *s, int32_t id) {
  if (s->complete) return;
  s->spoken.tokens++;
  s->spoken.last_token = id;
  if (ends(s, id)) {
    complete(s, LAP_FINISH_EOS);
    return;
  }
  if (s->matcher) advance_matcher(s, id);
  if (s->complete) return;
  if (s->output)
    hear_chat(s, id);
  else
    hear_raw(s, id);
}

/* Where a call may come instead, its first token competes with what the grammar allows. */
static void narrow(lap_speaker *s, float *logits) {
  bool call_competes = s->may_call && s->call_id >= 0;
  float call = call_competes ? logits[s->call_id] : 0;
  lap_error error;
  note_failure(s, lap_matcher_apply(s->matcher, logits, lap_model_vocab_size(s->options.model), &error),
               &error);
  if (call_competes) logits[s->call_id] = call;
}

int32_t lap_speaker_choose(lap_speaker *s, float *logits, const int32_t *tokens, int64_t count) {
  if (s->matcher && !s->complete) narrow(s, logits);
  if (s->complete) return -1;
  int32_t id = lap_sampler_next(s->sampler, logits, tokens, count);
  if (s->options.logprobs && !ends(s, id) && !lap_tokenizer_is_special(s->tokenizer, id))
    add_note(s, logits, id);
  lap_speaker_hear(s, id);
  return s->complete ? -1 : id;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* What parser and detokenizer have held back. */
static void hear_end(lap_speaker *s) {
  lap_error error;
  if (s->output) {
    note_failure(s, lap_output_finish(s->output, &error), &error);
  } else if (!s->silent) {
    note_failure(s, lap_detokenize_end(&s->bytes, &s->raw.data, &s->raw.length, &s->raw.capacity, &error),
                 &error);
    say_raw(s);
  }
}

lap_status lap_speaker_finish(lap_speaker *s, bool at_limit, lap_error *error) {
  if (at_limit) s->spoken.finish = LAP_FINISH_LENGTH;
  if (s->error.status == LAP_OK) hear_end(s);
  if (s->error.status != LAP_OK) {
    if (error) *error = s->error;
    return s->error.status;
  }
  if (!s->silent) end_text(s);
  if (!s->silent && s->notes && s->in_text) say(s, (lap_piece){.kind = LAP_PIECE_TEXT, .text = ""}, s->notes);
  drop_notes(s);
  if (s->spoken.finish == LAP_FINISH_EOS && s->calls) s->spoken.finish = LAP_FINISH_CALLS;
  return LAP_OK;
}

const lap_spoken *lap_speaker_spoken(const lap_speaker *s) {
  return &s->spoken;
}

/* ---- creation -------------------------------------------------------------------------------- */

static int32_t id_of(const lap_tokenizer *tokenizer, const char *text) {
  return lap_tokenizer_id(tokenizer, text, strlen(text));
}

static lap_status make_output(lap_speaker *s, lap_error *error) {
  const lap_speaker_options *options = &s->options;
  const lap_output_options how = {.tokenizer = s->tokenizer,
                                  .tools = options->tools,
                                  .tool_count = options->tool_count,
                                  .sink = on_piece,
                                  .context = s};
  lap_status status = lap_output_create(&how, &s->output, error);
  if (status != LAP_OK) return status;
  return lap_output_prompt(s->output, options->prompt, options->prompt_count, error);
}

static lap_status make_sampler(lap_speaker *s, lap_error *error) {
  s->sampler = s->options.sampler;
  if (s->sampler) return LAP_OK;
  lap_status status = lap_sampler_create(s->options.model, s->options.sampling, &s->own_sampler, error);
  s->sampler = s->own_sampler;
  return status;
}

lap_status lap_speaker_create(const lap_speaker_options *options, lap_speaker **out, lap_error *error) {
  *out = NULL;
  lap_speaker *s = calloc(1, sizeof *s);
  if (!s) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the answer");
  s->options = *options;
  s->spoken.last_token = -1;
  s->may_call = options->calls_instead;
  lap_status status = lap_model_tokenizer(options->model, &s->tokenizer, error);
  if (status == LAP_OK) {
    s->call_id = id_of(s->tokenizer, "<|tool_call>");
    s->close_thought_id = id_of(s->tokenizer, "<channel|>");
    status = make_sampler(s, error);
  }
  if (status == LAP_OK && options->chat) status = make_output(s, error);
  if (status == LAP_OK && options->grammar) status = lap_matcher_create(options->grammar, &s->matcher, error);
  if (status == LAP_OK) status = start_stop_filter(s, error);
  s->options.prompt = NULL;
  s->options.sampling = NULL;
  if (status == LAP_OK)
    *out = s;
  else
    lap_speaker_destroy(s);
  return status;
}

void lap_speaker_destroy(lap_speaker *s) {
  if (!s) return;
  lap_sampler_destroy(s->own_sampler);
  lap_matcher_destroy(s->matcher);
  lap_output_destroy(s->output);
  lap_text_free(&s->raw);
  lap_stop_destroy(s->stop);
  free(s->note);
  free(s);
}
