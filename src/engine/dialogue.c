/* dialogue.c: see dialogue.h.
 *
 * While the model answers, what it says is collected in `said`; it becomes a message when the answer has
 * ended. Its calls stay there until they have their results.
 *
 * Invariant: the messages from `begin` on are the open turn's; where calls wait, the last message but their
 * `results` is the answer that made them. */
#include "engine/dialogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cache/rings.h"
#include "engine/passes.h"
#include "engine/sampler.h"
#include "engine/speaker.h"
#include "model/chat.h"
#include "model/model.h"

enum {
  MAX_FILE_BYTES = 64 << 20
};

struct lap_dialogue {
  lap_model *model;
  lap_chat *chat;
  lap_batch *batch;
  lap_dialogue_options options;
  lap_transcript transcript;
  int begin;     /* messages before the open turn */
  lap_said said; /* the last answer */
  int results;   /* of its calls, that are there */

  /* of the answer that is being made */
  lap_speaker *speaker;
  const char **tool_names; /* [transcript.tools], the transcript's: what calls are resolved to */
  int thoughts;            /* that have begun */
  bool lost;               /* there was no memory for a piece */
  bool ended;              /* the job has */
  lap_job_record record;
};

/* ---- creation -------------------------------------------------------------------------------- */

/* What the prompt cache may hold: the conversation and a copy of it, since an answer that the template spells
 * differently parts from what is held; but no more than half of the memory. */
static lap_status cache_bytes(const lap_model *model, int64_t context, int chunk, size_t *out,
                              lap_error *error) {
  lap_kv *kv;
  lap_status status = lap_kv_create(model->bound, false, &kv, error);
  if (status != LAP_OK) return status;
  uint64_t most = lap_kv_most_bytes(kv, context, chunk) + (uint64_t)context * sizeof(int32_t);
  most = 2 * (most + LAP_SEQUENCE_MARKS * lap_kv_rings_bytes(kv));
  uint64_t available = lap_available_memory("") / 2;
  *out = available && available < most ? available : most;
  lap_kv_destroy(kv);
  return LAP_OK;
}

static lap_status open_batch(lap_dialogue *d, lap_error *error) {
  const lap_dialogue_options *options = &d->options;
  lap_batch_options how = {.threads = options->threads,
                           .parallel = 1,
                           .chunk = options->chunk,
                           .context = options->context,
                           .path = options->path,
                           .attention = options->attention};
  int64_t context = options->context > 0 ? options->context : lap_model_context(d->model);
  lap_status status = cache_bytes(d->model, context, options->chunk ? options->chunk : LAP_DEFAULT_CHUNK,
                                  &how.cache_bytes, error);
  return status == LAP_OK ? lap_batch_create(d->model, &how, &d->batch, error) : status;
}

lap_status lap_dialogue_create(lap_model *model, const lap_dialogue_options *options, lap_dialogue **out,
                               lap_error *error) {
  *out = NULL;
  lap_dialogue *d = calloc(1, sizeof *d);
  if (!d) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a conversation");
  d->model = model;
  d->options = *options;
  lap_status status = lap_model_open_chat(model, &d->chat, error);
  if (status == LAP_OK) status = lap_sampling_check(model, &options->sampling, error);
  if (status == LAP_OK) status = open_batch(d, error);
  if (status == LAP_OK)
    *out = d;
  else
    lap_dialogue_destroy(d);
  return status;
}

void lap_dialogue_destroy(lap_dialogue *d) {
  if (!d) return;
  lap_batch_destroy(d->batch);
  lap_speaker_destroy(d->speaker);
  free(d->tool_names);
  lap_chat_close(d->chat);
  lap_transcript_free(&d->transcript);
  lap_said_free(&d->said);
  free(d);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static lap_status render(const lap_dialogue *d, const lap_json_document *document, const lap_json *messages,
                         const lap_json *tools, lap_chat_prompt *out, lap_error *error) {
  const lap_conversation conversation = {.document = document,
                                         .messages = messages,
                                         .tools = tools,
                                         .thinking = d->options.thinking,
                                         .allow_special = d->options.allow_special};
  return lap_chat_render(d->chat, &conversation, out, error);
}

static lap_status render_transcript(const lap_dialogue *d, const lap_transcript *transcript,
                                    lap_chat_prompt *out, lap_error *error) {
  lap_text text = {0};
  char *json;
  size_t length;
  lap_json_document *document;
  *out = (lap_chat_prompt){0};
  lap_transcript_print(transcript, &text);
  lap_status status = lap_text_take(&text, &json, &length, error);
  if (status != LAP_OK) return status;
  status = lap_json_parse(json, length, "conversation", &document, error);
  free(json);
  if (status != LAP_OK) return status;
  status = render(d, document, lap_transcript_messages(document),
                  lap_json_get(document, lap_json_root(document), "tools"), out, error);
  lap_json_free(document);
  return status;
}

/* Whether the template takes a conversation. */
static lap_status try_transcript(const lap_dialogue *d, const lap_transcript *transcript, lap_error *error) {
  lap_chat_prompt prompt;
  lap_status status = render_transcript(d, transcript, &prompt, error);
  lap_chat_prompt_free(&prompt);
  return status;
}

/* ---- what the model says --------------------------------------------------------------------- */

/* Ids are unique within a conversation: they say which message it is, and which of its calls. */
static bool add_call(lap_dialogue *d, const lap_piece *piece) {
  lap_said *said = &d->said;
  lap_call *grown = realloc(said->call, ((size_t)said->calls + 1) * sizeof *grown);
  if (!grown) return false;
  said->call = grown;
  lap_call *call = &grown[said->calls];
  if (asprintf(&call->id, "call_%d_%d", d->transcript.count, said->calls) < 0) return false;
  call->name = strdup(piece->name);
  call->arguments = strndup(piece->text, piece->length);
  said->calls++; /* also where a copy failed: it is freed with the others */
  return call->name && call->arguments;
}

/* Thoughts become one, a paragraph each. */
static bool add_thought(lap_dialogue *d, const lap_piece *piece) {
  lap_text *text = &d->said.reasoning;
  if (piece->index >= d->thoughts && text->length) lap_text_append(text, "\n\n", 2);
  d->thoughts = piece->index + 1;
  lap_text_append(text, piece->text, piece->length);
  return !text->failed;
}

static bool add_content(lap_dialogue *d, const lap_piece *piece) {
  lap_text_append(&d->said.content, piece->text, piece->length);
  return !d->said.content.failed;
}

/* A lap_say. */
static bool on_piece(void *context, const lap_piece *piece) {
  lap_dialogue *d = context;
  bool added = piece->kind == LAP_PIECE_CALL      ? add_call(d, piece)
               : piece->kind == LAP_PIECE_THOUGHT ? add_thought(d, piece)
                                                  : add_content(d, piece);
  d->lost = d->lost || !added;
  return (!d->options.say || d->options.say(d->options.receiver, piece)) && added;
}

/* A lap_choose. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  lap_dialogue *d = context;
  return lap_speaker_choose(d->speaker, logits, tokens, count);
}

/* A lap_job_ended. */
static void on_ended(void *context, const lap_job_record *record) {
  lap_dialogue *d = context;
  d->record = *record;
  d->ended = true;
}

static lap_status name_tools(lap_dialogue *d, lap_error *error) {
  int tools = d->transcript.tools;
  free(d->tool_names);
  d->tool_names = calloc((size_t)tools + 1, sizeof *d->tool_names);
  if (!d->tool_names) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
  for (int i = 0; i < tools; i++) d->tool_names[i] = d->transcript.tool[i].name;
  return LAP_OK;
}

static lap_status begin_answer(lap_dialogue *d, const lap_chat_prompt *prompt, lap_error *error) {
  lap_said_free(&d->said);
  lap_speaker_destroy(d->speaker);
  d->speaker = NULL;
  d->results = d->thoughts = 0;
  d->lost = d->ended = false;
  lap_status status = name_tools(d, error);
  if (status != LAP_OK) return status;
  lap_sampling sampling = d->options.sampling;
  sampling.seed += (uint64_t)d->transcript.count;
  const lap_speaker_options how = {.model = d->model,
                                   .chat = true,
                                   .tools = d->tool_names,
                                   .tool_count = d->transcript.tools,
                                   .prompt = prompt->ids,
                                   .prompt_count = prompt->count,
                                   .sampling = &sampling,
                                   .say = on_piece,
                                   .context = d};
  return lap_speaker_create(&how, &d->speaker, error);
}

/* What was left waiting is said; then what has gone wrong, if anything has. */
static lap_status end_answer(lap_dialogue *d, lap_error *error) {
  bool failed = d->record.end == LAP_JOB_FAILED;
  if (failed && error) *error = d->record.error;
  if (failed) return d->record.error.status;
  lap_status status = lap_speaker_finish(d->speaker, d->record.end == LAP_JOB_LENGTH, error);
  return d->lost ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the answer") : status;
}

static bool goes_on(const lap_dialogue *d, const lap_job *job) {
  const lap_job_record *record = lap_job_get_record(job);
  if (!d->options.go_on) return true;
  return d->options.go_on(d->options.receiver, record->cached_tokens + record->evaluated_tokens,
                          record->prompt_tokens);
}

/* Makes an answer to the prompt, until it has ended for whatever reason. */
static lap_status run(lap_dialogue *d, const lap_chat_prompt *prompt, lap_error *error) {
  lap_job *job;
  const lap_job_request request = {.ids = prompt->ids,
                                   .count = (int64_t)prompt->count,
                                   .max_tokens = d->options.max_tokens,
                                   .choose = choose,
                                   .ended = on_ended,
                                   .context = d};
  lap_status status = begin_answer(d, prompt, error);
  if (status == LAP_OK) status = lap_batch_submit(d->batch, &request, &job, error);
  if (status != LAP_OK) return status;
  while (!d->ended) {
    if (!goes_on(d, job)) lap_batch_cancel(d->batch, job);
    if (!d->ended) lap_batch_step(d->batch);
  }
  return end_answer(d, error);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static lap_turn_end end_of(const lap_dialogue *d) {
  lap_finish finish = lap_speaker_spoken(d->speaker)->finish;
  if (finish == LAP_FINISH_EOS) return LAP_TURN_ANSWERED;
  if (finish == LAP_FINISH_CALLS) return LAP_TURN_CALLS;
  if (finish != LAP_FINISH_LENGTH) return LAP_TURN_STOPPED;
  bool long_enough = d->options.max_tokens && d->record.generated_tokens >= d->options.max_tokens;
  return long_enough ? LAP_TURN_LENGTH : LAP_TURN_CONTEXT;
}

static void describe(const lap_dialogue *d, lap_turn *turn) {
  const lap_job_record *record = &d->record;
  turn->end = end_of(d);
  turn->cached_tokens = record->cached_tokens;
  turn->evaluated_tokens = record->evaluated_tokens;
  turn->generated_tokens = record->generated_tokens;
  double answered = record->first_token > 0 ? record->first_token : record->ended;
  if (record->started > 0) turn->prompt_seconds = answered - record->started;
  turn->decode_seconds = record->ended - answered;
}

static void drop_calls(lap_said *said) {
  lap_said calls = {.call = said->call, .calls = said->calls};
  said->call = NULL;
  said->calls = 0;
  lap_said_free(&calls);
}

static void take_back(lap_dialogue *d) {
  lap_transcript_cut(&d->transcript, d->begin);
  drop_calls(&d->said);
}

static bool has_words(const lap_said *said) {
  return said->content.length > 0 || said->reasoning.length > 0;
}

/* The answer becomes a message. Calls of one that was cut short are none: more might have come. */
static lap_status keep(lap_dialogue *d, lap_turn *turn, lap_error *error) {
  bool whole = turn->end == LAP_TURN_ANSWERED || turn->end == LAP_TURN_CALLS;
  if (!whole) drop_calls(&d->said);
  turn->taken_back = !whole && !has_words(&d->said);
  return turn->taken_back ? LAP_OK : lap_transcript_add_answer(&d->transcript, &d->said, error);
}

static lap_status answer(lap_dialogue *d, lap_turn *turn, lap_error *error) {
  lap_chat_prompt prompt;
  *turn = (lap_turn){0};
  lap_status status = render_transcript(d, &d->transcript, &prompt, error);
  if (status == LAP_OK) {
    turn->prompt_tokens = (int64_t)prompt.count;
    if (turn->prompt_tokens >= lap_batch_context(d->batch)) {
      turn->end = LAP_TURN_CONTEXT;
      turn->taken_back = true;
    } else {
      status = run(d, &prompt, error);
      if (status == LAP_OK) {
        describe(d, turn);
        status = keep(d, turn, error);
      }
    }
  }
  lap_chat_prompt_free(&prompt);
  if (status != LAP_OK || turn->taken_back) take_back(d);
  return status;
}

lap_status lap_dialogue_say(lap_dialogue *d, const char *text, size_t length, lap_turn *turn,
                            lap_error *error) {
  lap_dialogue_give_up(d);
  *turn = (lap_turn){0};
  d->begin = d->transcript.count;
  lap_status status = lap_transcript_add_user(&d->transcript, text, length, error);
  return status == LAP_OK ? answer(d, turn, error) : status;
}

const lap_call *lap_dialogue_call(const lap_dialogue *d) {
  return d->results < d->said.calls ? &d->said.call[d->results] : NULL;
}

lap_status lap_dialogue_result(lap_dialogue *d, const char *text, size_t length, lap_error *error) {
  const lap_call *call = lap_dialogue_call(d);
  if (!call) return lap_fail(error, LAP_ERROR_STATE, "no call waits for a result");
  lap_status status = lap_transcript_add_result(&d->transcript, call, text, length, error);
  if (status == LAP_OK) d->results++;
  return status;
}

lap_status lap_dialogue_go_on(lap_dialogue *d, lap_turn *turn, lap_error *error) {
  *turn = (lap_turn){0};
  if (!d->said.calls || lap_dialogue_call(d))
    return lap_fail(error, LAP_ERROR_STATE, "the model does not wait for results, or not all are there");
  return answer(d, turn, error);
}

bool lap_dialogue_give_up(lap_dialogue *d) {
  if (!d->said.calls) return false;
  int answer_at = d->transcript.count - d->results - 1;
  drop_calls(&d->said);
  d->results = 0;
  lap_transcript_cut(&d->transcript, answer_at);
  if (has_words(&d->said) && lap_transcript_add_answer(&d->transcript, &d->said, NULL) == LAP_OK)
    return false;
  take_back(d);
  return true;
}

/* ---- the conversation ------------------------------------------------------------------------ */

void lap_dialogue_reset(lap_dialogue *d) {
  lap_dialogue_give_up(d);
  lap_transcript_cut(&d->transcript, d->transcript.has_system ? 1 : 0);
}

lap_status lap_dialogue_set_system(lap_dialogue *d, const char *text, size_t length, lap_error *error) {
  lap_dialogue_give_up(d);
  return lap_transcript_set_system(&d->transcript, text, length, error);
}

void lap_dialogue_set_thinking(lap_dialogue *d, lap_thinking thinking) {
  lap_dialogue_give_up(d);
  d->options.thinking = thinking;
}

/* The tools alone, as the template would have them with a message. */
static lap_status try_tools(const lap_dialogue *d, lap_transcript *tools, lap_error *error) {
  lap_status status = lap_transcript_add_user(tools, "", 0, error);
  if (status == LAP_OK) status = try_transcript(d, tools, error);
  lap_transcript_cut(tools, 0);
  return status;
}

static void swap_tools(lap_transcript *a, lap_transcript *b) {
  const lap_transcript kept = *a;
  a->tool = b->tool;
  a->tools = b->tools;
  b->tool = kept.tool;
  b->tools = kept.tools;
}

lap_status lap_dialogue_read_tools(lap_dialogue *d, const char *path, lap_error *error) {
  lap_json_document *document;
  lap_transcript read = {0};
  lap_dialogue_give_up(d);
  lap_status status = lap_json_read(path, MAX_FILE_BYTES, &document, error);
  if (status != LAP_OK) return status;
  status = lap_transcript_set_tools(&read, document, lap_json_root(document), error);
  lap_json_free(document);
  if (status == LAP_OK) status = try_tools(d, &read, error);
  if (status == LAP_OK) swap_tools(&d->transcript, &read);
  lap_transcript_free(&read);
  return status;
}

lap_status lap_dialogue_save(lap_dialogue *d, const char *path, lap_error *error) {
  lap_text text = {0};
  char *json;
  size_t length;
  lap_dialogue_give_up(d);
  lap_transcript_print(&d->transcript, &text);
  lap_status status = lap_text_take(&text, &json, &length, error);
  if (status != LAP_OK) return status;
  status = lap_file_write(path, json, length, error);
  free(json);
  return status;
}

/* Reads a conversation, and lets the template judge: first the file's own messages, so that what is wrong is
 * named as it stands there. */
static lap_status read_conversation(const lap_dialogue *d, const lap_json_document *document,
                                    lap_transcript *out, lap_error *error) {
  lap_chat_prompt prompt = {0};
  lap_status status = lap_transcript_read(document, out, error);
  if (status != LAP_OK || out->count == 0) return status;
  status = render(d, document, lap_transcript_messages(document), NULL, &prompt, error);
  lap_chat_prompt_free(&prompt);
  return status == LAP_OK && out->tools ? try_transcript(d, out, error) : status;
}

lap_status lap_dialogue_load(lap_dialogue *d, const char *path, lap_error *error) {
  lap_json_document *document;
  lap_transcript read = {0};
  lap_status status = lap_json_read(path, MAX_FILE_BYTES, &document, error);
  if (status != LAP_OK) return status;
  status = read_conversation(d, document, &read, error);
  lap_json_free(document);
  if (status == LAP_OK) {
    if (!read.tools) swap_tools(&d->transcript, &read);
    lap_transcript_free(&d->transcript);
    d->transcript = read;
    read = (lap_transcript){0};
    drop_calls(&d->said);
    d->results = 0;
  }
  lap_transcript_free(&read);
  return status;
}

const lap_transcript *lap_dialogue_transcript(const lap_dialogue *d) {
  return &d->transcript;
}

lap_batch_stats lap_dialogue_stats(const lap_dialogue *d) {
  return lap_batch_get_stats(d->batch);
}

int64_t lap_dialogue_context(const lap_dialogue *d) {
  return lap_batch_context(d->batch);
}
