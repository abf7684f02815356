/* answer.c: from logits to the parts of an answer, token by token.
 *
 * A run is one choice in the engine. For each of its tokens: the grammar narrows the logits, the sampler
 * chooses, the output parser (chat) or the detokenizer (raw text) makes text of it, the stop filter holds
 * back what may become a stop string, and what passes is added to the open part.
 *
 * Invariants: of a choice's parts only the last can be open; what a front was told of a part, put together,
 * is the part's text; a run's machinery exists only between its first token and its end, since an answer that
 * waits should cost no more than its prompt. */
#include "server/answer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "grammar/matcher.h"
#include "server/front.h"
#include "text/output.h"
#include "text/stop.h"
#include "text/tokenizer.h"

typedef struct lap_run {
  lap_answer *answer;
  lap_choice *choice;
  lap_job *job;
  bool started, ended;
  lap_error error; /* of the machinery; LAP_OK: none */

  lap_sampler *sampler;
  lap_matcher *matcher;  /* or NULL: no grammar, or a call came instead */
  bool may_call;         /* a call may come instead of what the grammar describes */
  lap_output *output;    /* chat */
  lap_detokenizer bytes; /* raw */
  lap_stop *stop;
  lap_text held;  /* what the stop filter holds back, and the stop string once it is found */
  bool open;      /* the last part is */
  int thought;    /* the parser's number of the open part, if that is a thought */
  bool complete;  /* no more tokens are wanted */
  bool silent;    /* nothing more is to be said: a stop string or the only call has come */
  lap_ending how; /* the end, as far as it is known */

  size_t pending_notes;  /* of the choice's last notes: not yet given to a piece of text */
  size_t pending_tokens; /* since the last event */
  size_t shown_bytes, noted_bytes;
} run;

/* ---- creation -------------------------------------------------------------------------------- */

static void make_id(char *id) {
  static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  unsigned char bytes[24];
  if (getrandom(bytes, sizeof bytes, 0) < 0) memset(bytes, 0, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) id[i] = digits[bytes[i] % 36];
  id[sizeof bytes] = '\0';
}

lap_status lap_answer_create(const lap_served *served, lap_request *request, lap_reply *reply,
                             lap_answer **out, lap_error *error) {
  int choices = request->n * request->prompt_count;
  lap_answer *answer = calloc(1, sizeof *answer);
  *out = answer;
  if (!answer) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for an answer");
  answer->served = served;
  answer->request = *request;
  *request = (lap_request){0};
  answer->created = (int64_t)time(NULL);
  answer->arrived = answer->written = lap_seconds();
  answer->choice = calloc((size_t)choices, sizeof *answer->choice);
  answer->run = calloc((size_t)choices, sizeof *answer->run);
  make_id(answer->id);
  if (!answer->choice || !answer->run) {
    lap_answer_destroy(answer);
    *out = NULL;
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for an answer");
  }
  answer->reply = lap_reply_hold(reply);
  answer->choices = answer->running = choices;
  for (int i = 0; i < choices; i++) {
    answer->choice[i].index = i;
    answer->run[i] = (run){.answer = answer, .choice = &answer->choice[i]};
    if (i % answer->request.n == 0)
      answer->usage.prompt_tokens += (int64_t)answer->request.prompt[i / answer->request.n].count;
  }
  return LAP_OK;
}

static void free_choice(lap_choice *choice) {
  for (int i = 0; i < choice->parts; i++) {
    lap_text_free(&choice->part[i].text);
    free(choice->part[i].name);
  }
  free(choice->part);
  free(choice->note);
}

static void stop_machinery(run *r) {
  lap_sampler_destroy(r->sampler);
  lap_matcher_destroy(r->matcher);
  lap_output_destroy(r->output);
  lap_stop_destroy(r->stop);
  lap_text_free(&r->held);
  r->sampler = NULL;
  r->matcher = NULL;
  r->output = NULL;
  r->stop = NULL;
}

void lap_answer_destroy(lap_answer *answer) {
  if (!answer) return;
  for (int i = 0; i < answer->choices; i++) {
    stop_machinery(&answer->run[i]);
    free_choice(&answer->choice[i]);
  }
  free(answer->choice);
  free(answer->run);
  lap_text_free(&answer->out);
  lap_request_free(&answer->request);
  lap_reply_release(answer->reply);
  free(answer);
}

static const lap_prompt *prompt_of(const run *r) {
  return &r->answer->request.prompt[r->choice->index / r->answer->request.n];
}

static void note_failure(run *r, lap_status status, const lap_error *error) {
  if (status == LAP_OK || r->error.status != LAP_OK) return;
  r->error = *error;
  r->complete = true;
}

static void out_of_memory(run *r) {
  lap_error error;
  note_failure(r, lap_fail(&error, LAP_ERROR_MEMORY, "out of memory for the answer"), &error);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static bool is_streaming(const lap_answer *answer) {
  return answer->streaming && !answer->failed;
}

static void fail_for_memory(lap_answer *answer) {
  lap_failure failure;
  lap_text_free(&answer->out);
  lap_failure_set(&failure, LAP_FAILURE_UNAVAILABLE, "out of memory for the answer");
  lap_answer_fail(answer, &failure);
}

/* Hands on what the front has printed. A stream that lost a piece has failed. */
static void flush(lap_answer *answer) {
  if (answer->out.failed) fail_for_memory(answer);
  if (answer->streaming && answer->out.length) {
    lap_reply_write(answer->reply, answer->out.data, answer->out.length);
    answer->written = lap_seconds();
    answer->out.length = 0;
  }
}

static void begin(lap_answer *answer) {
  if (answer->begun || !is_streaming(answer)) return;
  answer->begun = true;
  if (answer->request.front->begin) answer->request.front->begin(answer);
}

void lap_answer_open(lap_answer *answer) {
  if (!answer->request.stream || answer->streaming || answer->failed) return;
  lap_reply_header(answer->reply, "Cache-Control", "no-cache");
  lap_reply_begin(answer->reply, 200, "text/event-stream; charset=utf-8");
  answer->streaming = true;
}

void lap_answer_ping(lap_answer *answer) {
  static const char comment[] = ": waiting\n\n";
  if (!is_streaming(answer)) return;
  lap_reply_write(answer->reply, comment, sizeof comment - 1);
  answer->written = lap_seconds();
}

/* ---- notes ----------------------------------------------------------------------------------- */

static void add_note(run *r, const float *logits, int32_t id) {
  lap_choice *choice = r->choice;
  if ((choice->notes & (choice->notes + 1)) == 0) { /* room for twice as many, and one */
    lap_note *grown = realloc(choice->note, (2 * choice->notes + 1) * sizeof *grown);
    if (!grown) {
      out_of_memory(r);
      return;
    }
    choice->note = grown;
  }
  lap_note *note = &choice->note[choice->notes];
  lap_error error;
  *note = (lap_note){.id = id};
  lap_status status = lap_sampler_logprobs(r->sampler, logits, id, &note->logprob, note->top,
                                           r->answer->request.top_logprobs, &note->top_count, &error);
  note_failure(r, status, &error);
  choice->notes++;
  r->pending_notes++;
}

/* What was said so far has no more tokens to come: those left over were layout. */
static void drop_pending_notes(run *r) {
  r->choice->notes -= r->pending_notes;
  r->pending_notes = 0;
  r->noted_bytes = r->shown_bytes;
}

/* How many of the pending notes make up the text that was shown. */
static size_t take_notes(run *r, bool all) {
  char bytes[LAP_TOKEN_MAX_BYTES];
  size_t taken = 0;
  if (!r->pending_notes) return 0;
  const lap_note *pending = r->choice->note + (r->choice->notes - r->pending_notes);
  while (taken < r->pending_notes && (all || r->noted_bytes < r->shown_bytes)) {
    r->noted_bytes += lap_tokenizer_token_bytes(r->answer->served->tokenizer, pending[taken].id, bytes);
    taken++;
  }
  r->pending_notes -= taken;
  return taken;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static lap_part *last_part(const run *r) {
  return &r->choice->part[r->choice->parts - 1];
}

static void close_part(run *r) {
  const lap_front *front = r->answer->request.front;
  if (r->open && is_streaming(r->answer) && front->closed) front->closed(r->answer, r->choice, last_part(r));
  r->open = false;
}

static int parts_of_kind(const lap_choice *choice, lap_part_kind kind) {
  int count = 0;
  for (int i = 0; i < choice->parts; i++) count += choice->part[i].kind == kind;
  return count;
}

static bool open_part(run *r, lap_part_kind kind, const char *name) {
  lap_choice *choice = r->choice;
  const lap_front *front = r->answer->request.front;
  close_part(r);
  if ((choice->parts & (choice->parts + 1)) == 0) {
    lap_part *grown = realloc(choice->part, (2 * (size_t)choice->parts + 1) * sizeof *grown);
    if (!grown) {
      out_of_memory(r);
      return false;
    }
    choice->part = grown;
  }
  lap_part *part = &choice->part[choice->parts];
  *part = (lap_part){.kind = kind,
                     .order = parts_of_kind(choice, kind),
                     .name = name ? strdup(name) : NULL,
                     .first_note = choice->notes - r->pending_notes};
  if (name && !part->name) {
    out_of_memory(r);
    return false;
  }
  make_id(part->id);
  choice->parts++;
  r->open = true;
  begin(r->answer);
  if (is_streaming(r->answer) && front->opened) front->opened(r->answer, choice, part);
  return true;
}

static void add_to_part(run *r, const char *text, size_t length, size_t notes) {
  lap_part *part = last_part(r);
  const lap_front *front = r->answer->request.front;
  size_t first = part->first_note + part->notes;
  part->notes += notes;
  lap_text_append(&part->text, text, length);
  if (part->text.failed) out_of_memory(r);
  if (is_streaming(r->answer) && front->added)
    front->added(r->answer, r->choice, part, text, length, first, notes);
}

static bool is_open(const run *r, lap_part_kind kind) {
  return r->open && last_part(r)->kind == kind;
}

static void show_text(run *r, const char *text, size_t length) {
  if (length == 0) return;
  if (!is_open(r, LAP_PART_TEXT) && !open_part(r, LAP_PART_TEXT, NULL)) return;
  r->shown_bytes += length;
  add_to_part(r, text, length, take_notes(r, false));
}

/* ---- stop strings ---------------------------------------------------------------------------- */

/* Which stop string it was: of those in the text held back the one that was complete first. */
static void find_stop_string(run *r) {
  const lap_request *request = &r->answer->request;
  const char *best = NULL;
  for (int i = 0; i < request->stop_count; i++) {
    size_t length = strlen(request->stop[i]);
    const char *at = memmem(r->held.data, r->held.length, request->stop[i], length);
    if (!at || (best && at + length > best)) continue;
    if (best && at + length == best && length < strlen(r->choice->stop_string)) continue;
    best = at + length;
    r->choice->stop_string = request->stop[i];
  }
}

/* Of the text held back, `length` bytes pass. */
static void forget_held(run *r, size_t length) {
  if (length > r->held.length) length = r->held.length;
  r->held.length -= length;
  memmove(r->held.data, r->held.data + length, r->held.length);
}

static void say_text(run *r, const char *text, size_t length) {
  lap_stop_piece piece = {.text = text, .length = length};
  if (r->stop) {
    lap_error error;
    lap_text_append(&r->held, text, length);
    if (r->held.failed) {
      out_of_memory(r);
      return;
    }
    note_failure(r, lap_stop_text(r->stop, text, length, &piece, &error), &error);
    if (r->error.status != LAP_OK) return;
    forget_held(r, piece.length);
  }
  show_text(r, piece.text, piece.length);
  if (!r->stop || !lap_stop_found(r->stop)) return;
  find_stop_string(r);
  r->complete = r->silent = true;
  r->how = LAP_ENDING_STRING;
}

/* Text does not go on: what the filter held back passes. */
static void end_text(run *r) {
  if (!r->stop || lap_stop_found(r->stop)) return;
  lap_stop_piece piece;
  lap_stop_finish(r->stop, &piece);
  show_text(r, piece.text, piece.length);
  r->held.length = 0;
}

static void start_stop_filter(run *r) {
  const lap_request *request = &r->answer->request;
  lap_error error;
  lap_stop_destroy(r->stop);
  r->stop = NULL;
  if (request->stop_count == 0) return;
  lap_status status =
      lap_stop_create((const char *const *)request->stop, request->stop_count, &r->stop, &error);
  note_failure(r, status, &error);
}

/* ---- what the parser says -------------------------------------------------------------------- */

static void say_thought(run *r, const lap_output_event *event) {
  bool same = is_open(r, LAP_PART_THOUGHT) && r->thought == event->index;
  r->choice->thought_tokens += (int64_t)r->pending_tokens;
  drop_pending_notes(r);
  if (!same && !open_part(r, LAP_PART_THOUGHT, NULL)) return;
  r->thought = event->index;
  add_to_part(r, event->text, event->length, 0);
}

static void say_call(run *r, const lap_output_event *event) {
  drop_pending_notes(r);
  if (!open_part(r, LAP_PART_CALL, event->name)) return;
  add_to_part(r, event->text, event->length, 0);
  close_part(r);
  if (r->answer->request.single_call) {
    r->complete = r->silent = true;
    r->how = LAP_ENDING_CALLS;
  }
}

static void on_event(void *context, const lap_output_event *event) {
  run *r = context;
  if (r->silent) return;
  if (event->kind == LAP_OUTPUT_CONTENT) {
    say_text(r, event->text, event->length);
  } else {
    end_text(r);
    start_stop_filter(r);
    if (event->kind == LAP_OUTPUT_THOUGHT)
      say_thought(r, event);
    else
      say_call(r, event);
  }
  r->pending_tokens = 0;
}

static void hear_raw(run *r, int32_t id, lap_error *error) {
  char *text = NULL;
  size_t length = 0, capacity = 0, bytes;
  if (!lap_tokenizer_token(r->answer->served->tokenizer, id, &bytes)) return;
  lap_status status =
      lap_detokenize(r->answer->served->tokenizer, &r->bytes, id, false, &text, &length, &capacity, error);
  if (status == LAP_OK && length) say_text(r, text, length);
  note_failure(r, status, error);
  free(text);
}

static void hear(run *r, int32_t id) {
  lap_error error;
  r->pending_tokens++;
  if (!r->output) {
    hear_raw(r, id, &error);
    return;
  }
  note_failure(r, lap_output_token(r->output, id, &error), &error);
  if (lap_tokenizer_is_special(r->answer->served->tokenizer, id)) drop_pending_notes(r);
  if (!r->complete && lap_output_ended(r->output)) {
    r->complete = true;
    r->how = LAP_ENDING_TURN;
  }
}

static void hear_end(run *r) {
  lap_error error;
  if (r->output) {
    note_failure(r, lap_output_finish(r->output, &error), &error);
  } else if (r->started && !r->silent) {
    char *text = NULL;
    size_t length = 0, capacity = 0;
    lap_status status = lap_detokenize_end(&r->bytes, &text, &length, &capacity, &error);
    if (status == LAP_OK && length) say_text(r, text, length);
    note_failure(r, status, &error);
    free(text);
  }
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Choices differ by their seeds. */
static lap_status make_sampler(run *r, lap_error *error) {
  lap_sampling sampling = r->answer->request.sampling;
  sampling.seed += (uint64_t)(r->choice->index % r->answer->request.n);
  return lap_sampler_create(r->answer->served->model, &sampling, &r->sampler, error);
}

static lap_status make_output(run *r, lap_error *error) {
  const lap_request *request = &r->answer->request;
  const lap_output_options options = {.tokenizer = r->answer->served->tokenizer,
                                      .tools = (const char *const *)request->tool,
                                      .tool_count = request->tool_count,
                                      .sink = on_event,
                                      .context = r};
  lap_status status = lap_output_create(&options, &r->output, error);
  const lap_prompt *prompt = prompt_of(r);
  return status == LAP_OK ? lap_output_prompt(r->output, prompt->ids, prompt->count, error) : status;
}

static void start(run *r) {
  const lap_request *request = &r->answer->request;
  lap_error error;
  r->started = true;
  if (r->choice->index % request->n == 0)
    r->answer->usage.cached_tokens += lap_job_get_record(r->job)->cached_tokens;
  lap_status status = make_sampler(r, &error);
  if (status == LAP_OK && request->chat) status = make_output(r, &error);
  if (status == LAP_OK && request->grammar)
    status = lap_matcher_create(request->grammar, &r->matcher, &error);
  note_failure(r, status, &error);
  r->may_call = request->calls_instead;
  start_stop_filter(r);
}

/* Where a call may come instead, its first token competes with what the grammar allows. */
static void narrow(run *r, float *logits) {
  int32_t call_id = r->answer->served->call_id;
  float call = r->may_call && call_id >= 0 ? logits[call_id] : 0;
  lap_error error;
  note_failure(r,
               lap_matcher_apply(r->matcher, logits, lap_model_vocab_size(r->answer->served->model), &error),
               &error);
  if (r->may_call && call_id >= 0) logits[call_id] = call;
}

static void advance_matcher(run *r, int32_t id) {
  const lap_served *served = r->answer->served;
  lap_error error;
  if (r->may_call && id == served->call_id) {
    lap_matcher_destroy(r->matcher);
    r->matcher = NULL;
    return;
  }
  note_failure(r, lap_matcher_accept(r->matcher, id, &error), &error);
  /* Thoughts come first; the answer itself, which could have been a call, begins after them. */
  r->may_call = r->answer->request.calls_instead && id == served->close_thought_id;
}

/* A lap_choose. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  run *r = context;
  if (!r->started) start(r);
  if (r->matcher && !r->complete) narrow(r, logits);
  if (r->complete) return -1;
  int32_t id = lap_sampler_next(r->sampler, logits, tokens, count);
  r->choice->tokens++;
  if (lap_model_is_eos(r->answer->served->model, id)) {
    r->complete = true;
    r->how = LAP_ENDING_TURN;
    return -1;
  }
  bool shown = !lap_tokenizer_is_special(r->answer->served->tokenizer, id);
  if (r->answer->request.logprobs && shown) add_note(r, logits, id);
  if (r->matcher && !r->complete) advance_matcher(r, id);
  if (!r->complete) hear(r, id);
  flush(r->answer);
  return r->complete ? -1 : id;
}

/* ---- the end --------------------------------------------------------------------------------- */

bool lap_answer_is_over(const lap_answer *answer) {
  return answer->running == 0;
}

void lap_answer_fail(lap_answer *answer, const lap_failure *failure) {
  if (answer->failed) return;
  answer->failure = *failure;
  answer->failed = true;
}

static void fail_with(lap_answer *answer, const lap_error *error) {
  lap_failure failure;
  lap_failure_from(&failure, error);
  /* What the client could mend was refused before. */
  if (failure.kind == LAP_FAILURE_INVALID) failure.kind = LAP_FAILURE_INTERNAL;
  lap_answer_fail(answer, &failure);
}

static void reply_failed(lap_answer *answer) {
  const lap_front *front = answer->request.front;
  lap_text_free(&answer->out);
  if (answer->streaming) {
    if (front->broken) front->broken(answer, &answer->failure);
    flush(answer);
    lap_reply_end(answer->reply);
    return;
  }
  front->refuse(&answer->out, &answer->failure);
  lap_reply_send(answer->reply, lap_failure_status(answer->failure.kind), "application/json",
                 lap_text_data(&answer->out), answer->out.length);
}

static void reply_whole(lap_answer *answer) {
  answer->request.front->whole(answer, &answer->out);
  if (answer->out.failed) {
    fail_for_memory(answer);
    reply_failed(answer);
    return;
  }
  lap_reply_send(answer->reply, 200, "application/json", answer->out.data, answer->out.length);
}

static void reply(lap_answer *answer) {
  if (answer->failed) {
    reply_failed(answer);
  } else if (answer->streaming) {
    begin(answer);
    if (answer->request.front->end) answer->request.front->end(answer);
    flush(answer);
    if (answer->failed)
      reply_failed(answer);
    else
      lap_reply_end(answer->reply);
  } else {
    reply_whole(answer);
  }
}

/* Text that was left waiting, and the last part's end. */
static void finish_choice(run *r, lap_job_end end) {
  lap_choice *choice = r->choice;
  const lap_front *front = r->answer->request.front;
  if (end == LAP_JOB_LENGTH) r->how = LAP_ENDING_LENGTH;
  hear_end(r);
  if (!r->silent) end_text(r);
  if (!r->silent && r->pending_notes && is_open(r, LAP_PART_TEXT)) add_to_part(r, "", 0, take_notes(r, true));
  drop_pending_notes(r);
  bool calls = r->how == LAP_ENDING_TURN && parts_of_kind(choice, LAP_PART_CALL);
  choice->ending = calls ? LAP_ENDING_CALLS : r->how;
  close_part(r);
  begin(r->answer);
  if (is_streaming(r->answer) && front->finished) front->finished(r->answer, choice);
  flush(r->answer);
}

static void add_usage(run *r, const lap_job_record *record) {
  lap_usage *usage = &r->answer->usage;
  usage->tokens += r->choice->tokens;
  usage->thought_tokens += r->choice->thought_tokens;
  if (r->choice->index || record->first_token <= 0) return;
  usage->first_token_seconds = record->first_token - r->answer->arrived;
  usage->prompt_seconds = record->first_token - record->started;
  usage->decode_seconds = record->ended - record->first_token;
}

static void end_run(run *r) {
  r->ended = true;
  r->job = NULL;
  stop_machinery(r);
  if (--r->answer->running == 0) reply(r->answer);
}

/* A lap_job_ended. */
static void on_ended(void *context, const lap_job_record *record) {
  run *r = context;
  if (record->end == LAP_JOB_FAILED) note_failure(r, record->error.status, &record->error);
  if (record->end == LAP_JOB_CANCELLED && r->error.status == LAP_OK)
    lap_fail(&r->error, LAP_ERROR_STATE, "the request was cancelled");
  if (r->error.status == LAP_OK && !r->answer->failed) finish_choice(r, record->end);
  if (r->error.status != LAP_OK) fail_with(r->answer, &r->error);
  add_usage(r, record);
  end_run(r);
}

lap_job_request lap_answer_job(lap_answer *answer, int choice) {
  run *r = &answer->run[choice];
  const lap_prompt *prompt = prompt_of(r);
  return (lap_job_request){.ids = prompt->ids,
                           .count = (int64_t)prompt->count,
                           .max_tokens = answer->request.max_tokens,
                           .choose = choose,
                           .ended = on_ended,
                           .context = r};
}

void lap_answer_set_job(lap_answer *answer, int choice, lap_job *job) {
  if (!answer->run[choice].ended) answer->run[choice].job = job;
}

lap_job *lap_answer_get_job(const lap_answer *answer, int choice) {
  return answer->run[choice].job;
}

void lap_answer_refuse(lap_answer *answer, int choice, const lap_error *error) {
  lap_failure failure;
  lap_failure_from(&failure, error);
  lap_answer_fail(answer, &failure);
  end_run(&answer->run[choice]);
}
