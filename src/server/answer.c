/* answer.c: what the model says becomes the parts of an answer, piece by piece.
 *
 * A run is one choice in the engine, which a speaker (engine/speaker.h) makes pieces of. Each is added to the
 * open part or opens one.
 *
 * Invariants: of a choice's parts only the last can be open; what a front was told of a part, put together,
 * is the part's text; a run's speaker exists only between its first token and its end, since an answer that
 * waits should cost no more than its prompt. */
#include "server/answer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "engine/speaker.h"
#include "server/front.h"

typedef struct lap_run {
  lap_answer *answer;
  lap_choice *choice;
  lap_job *job;
  lap_speaker *speaker;
  bool ended;
  bool open;       /* the last part is */
  int thought;     /* the number of the open part among the thoughts that are said, if it is one */
  lap_error error; /* LAP_OK: none */
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

void lap_answer_destroy(lap_answer *answer) {
  if (!answer) return;
  for (int i = 0; i < answer->choices; i++) {
    lap_speaker_destroy(answer->run[i].speaker);
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
  if (status != LAP_OK && r->error.status == LAP_OK) r->error = *error;
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

/* ---- parts ----------------------------------------------------------------------------------- */

static lap_part *last_part(const run *r) {
  return &r->choice->part[r->choice->parts - 1];
}

static void close_part(run *r) {
  const lap_front *front = r->answer->request.front;
  if (r->open && is_streaming(r->answer) && front->closed) front->closed(r->answer, r->choice, last_part(r));
  r->open = false;
}

static int parts_of_kind(const lap_choice *choice, lap_piece_kind kind) {
  int count = 0;
  for (int i = 0; i < choice->parts; i++) count += choice->part[i].kind == kind;
  return count;
}

static bool open_part(run *r, lap_piece_kind kind, const char *name) {
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
                     .first_note = choice->notes};
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

/* Room for more notes, twice as many if there is none. */
static bool reserve_notes(run *r, size_t more) {
  lap_choice *choice = r->choice;
  if (choice->notes + more <= choice->note_capacity) return true;
  size_t capacity = 2 * choice->note_capacity + more;
  lap_note *grown = realloc(choice->note, capacity * sizeof *grown);
  if (!grown) {
    out_of_memory(r);
    return false;
  }
  choice->note = grown;
  choice->note_capacity = capacity;
  return true;
}

static void add_to_part(run *r, const lap_piece *piece) {
  lap_part *part = last_part(r);
  lap_choice *choice = r->choice;
  const lap_front *front = r->answer->request.front;
  size_t first = choice->notes;
  if (!reserve_notes(r, piece->notes)) return;
  if (piece->notes) memcpy(choice->note + first, piece->note, piece->notes * sizeof *piece->note);
  choice->notes += piece->notes;
  part->notes += piece->notes;
  lap_text_append(&part->text, piece->text, piece->length);
  if (part->text.failed) out_of_memory(r);
  if (is_streaming(r->answer) && front->added)
    front->added(r->answer, choice, part, piece->text, piece->length, first, piece->notes);
}

/* Whether a piece goes on with the open part. */
static bool continues(const run *r, const lap_piece *piece) {
  if (!r->open || last_part(r)->kind != piece->kind) return false;
  return piece->kind == LAP_PIECE_TEXT || piece->index == r->thought;
}

/* A lap_say. */
static bool on_piece(void *context, const lap_piece *piece) {
  run *r = context;
  if (!continues(r, piece) && !open_part(r, piece->kind, piece->name)) return false;
  if (piece->kind == LAP_PIECE_THOUGHT) r->thought = piece->index;
  add_to_part(r, piece);
  if (piece->kind == LAP_PIECE_CALL) close_part(r);
  return r->error.status == LAP_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Choices differ by their seeds. */
static void start(run *r) {
  const lap_request *request = &r->answer->request;
  const lap_prompt *prompt = prompt_of(r);
  lap_sampling sampling = request->sampling;
  sampling.seed += (uint64_t)(r->choice->index % request->n);
  if (r->choice->index % request->n == 0)
    r->answer->usage.cached_tokens += lap_job_get_record(r->job)->cached_tokens;
  const lap_speaker_options how = {.model = r->answer->served->model,
                                   .chat = request->chat,
                                   .tools = (const char *const *)request->tool,
                                   .tool_count = request->tool_count,
                                   .prompt = prompt->ids,
                                   .prompt_count = prompt->count,
                                   .single_call = request->single_call,
                                   .sampling = &sampling,
                                   .grammar = request->grammar,
                                   .calls_instead = request->calls_instead,
                                   .stop = (const char *const *)request->stop,
                                   .stop_count = request->stop_count,
                                   .logprobs = request->logprobs,
                                   .top_logprobs = request->top_logprobs,
                                   .say = on_piece,
                                   .context = r};
  lap_error error;
  note_failure(r, lap_speaker_create(&how, &r->speaker, &error), &error);
}

/* A lap_choose. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  run *r = context;
  if (!r->speaker) start(r);
  if (!r->speaker) return -1;
  int32_t id = lap_speaker_choose(r->speaker, logits, tokens, count);
  flush(r->answer);
  return id;
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
  lap_error error;
  if (!r->speaker) return;
  note_failure(r, lap_speaker_finish(r->speaker, end == LAP_JOB_LENGTH, &error), &error);
  if (r->error.status != LAP_OK) return;
  choice->finish = lap_speaker_spoken(r->speaker)->finish;
  choice->stop_string = lap_speaker_spoken(r->speaker)->stop_string;
  close_part(r);
  begin(r->answer);
  if (is_streaming(r->answer) && front->finished) front->finished(r->answer, choice);
  flush(r->answer);
}

static void add_usage(run *r, const lap_job_record *record) {
  lap_usage *usage = &r->answer->usage;
  if (r->speaker) {
    r->choice->tokens = lap_speaker_spoken(r->speaker)->tokens;
    usage->tokens += r->choice->tokens;
    usage->thought_tokens += lap_speaker_spoken(r->speaker)->thought_tokens;
  }
  if (r->choice->index || record->first_token <= 0) return;
  usage->first_token_seconds = record->first_token - r->answer->arrived;
  usage->prompt_seconds = record->first_token - record->started;
  usage->decode_seconds = record->ended - record->first_token;
}

static void end_run(run *r) {
  r->ended = true;
  r->job = NULL;
  lap_speaker_destroy(r->speaker);
  r->speaker = NULL;
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
