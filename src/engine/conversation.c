/* conversation.c: a conversation that goes on: a turn becomes a prompt, the prompt an answer, the answer a
 * part of the next prompt.
 *
 * Each turn is a request of the whole conversation to a batch of one, whose prompt cache has the keys and
 * values of what was said before: what is computed again is what is new, and where the template spells an
 * earlier answer differently (thoughts that it drops) what follows that place. By the numerics contract the
 * answer is that of a fresh session.
 *
 * While the model answers, what it says is collected in `said`; it becomes a message when the answer has
 * ended. Its calls stay there until they have their results.
 *
 * Invariant: the messages from `begin` on are the open turn's; where calls wait, the last message but their
 * `results` is the answer that made them. */
#include "engine/conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "engine/batch.h"
#include "engine/sampler.h"
#include "engine/speaker.h"
#include "grammar/grammar.h"
#include "model/chat.h"

enum {
  MAX_FILE_BYTES = 64 << 20
};

struct lap_conversation {
  lap_model *model;
  lap_chat *chat;
  lap_batch *batch;
  lap_conversation_options options;
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

static lap_status open_batch(lap_conversation *c, lap_error *error) {
  const lap_conversation_options *options = &c->options;
  lap_batch_options how = {.threads = options->threads,
                           .parallel = 1,
                           .chunk = options->chunk,
                           .context = options->context,
                           .path = options->path,
                           .attention = options->attention};
  int64_t context = options->context > 0 ? options->context : lap_model_context(c->model);
  lap_status status = cache_bytes(c->model, context, options->chunk ? options->chunk : LAP_DEFAULT_CHUNK,
                                  &how.cache_bytes, error);
  return status == LAP_OK ? lap_batch_create(c->model, &how, &c->batch, error) : status;
}

lap_status lap_conversation_create(lap_model *model, const lap_conversation_options *options,
                                   lap_conversation **out, lap_error *error) {
  *out = NULL;
  lap_conversation *c = calloc(1, sizeof *c);
  if (!c) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a conversation");
  c->model = model;
  c->options = *options;
  if (options->grammar) lap_grammar_hold(options->grammar);
  lap_status status = lap_model_open_chat(model, &c->chat, error);
  if (status == LAP_OK) status = lap_sampling_check(model, &options->sampling, error);
  if (status == LAP_OK) status = open_batch(c, error);
  if (status == LAP_OK)
    *out = c;
  else
    lap_conversation_destroy(c);
  return status;
}

void lap_conversation_destroy(lap_conversation *c) {
  if (!c) return;
  lap_batch_destroy(c->batch);
  lap_speaker_destroy(c->speaker);
  lap_grammar_release(c->options.grammar);
  free(c->tool_names);
  lap_chat_close(c->chat);
  lap_transcript_free(&c->transcript);
  lap_said_free(&c->said);
  free(c);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static lap_status render(const lap_conversation *c, const lap_json_document *document,
                         const lap_json *messages, const lap_json *tools, lap_chat_prompt *out,
                         lap_error *error) {
  const lap_chat_input input = {.document = document,
                                .messages = messages,
                                .tools = tools,
                                .thinking = c->options.thinking,
                                .allow_special = c->options.allow_special};
  return lap_chat_render(c->chat, &input, out, error);
}

static lap_status render_transcript(const lap_conversation *c, const lap_transcript *transcript,
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
  status = render(c, document, lap_transcript_messages(document),
                  lap_json_get(document, lap_json_root(document), "tools"), out, error);
  lap_json_free(document);
  return status;
}

/* Whether the template takes a conversation. */
static lap_status try_transcript(const lap_conversation *c, const lap_transcript *transcript,
                                 lap_error *error) {
  lap_chat_prompt prompt;
  lap_status status = render_transcript(c, transcript, &prompt, error);
  lap_chat_prompt_free(&prompt);
  return status;
}

/* ---- what the model says --------------------------------------------------------------------- */

/* Ids are unique within a conversation: they say which message it is, and which of its calls. */
static bool add_call(lap_conversation *c, const lap_piece *piece) {
  lap_said *said = &c->said;
  lap_call *grown = realloc(said->call, ((size_t)said->calls + 1) * sizeof *grown);
  if (!grown) return false;
  said->call = grown;
  lap_call *call = &grown[said->calls];
  if (asprintf(&call->id, "call_%d_%d", c->transcript.count, said->calls) < 0) return false;
  call->name = strdup(piece->name);
  call->arguments = strndup(piece->text, piece->length);
  said->calls++; /* also where a copy failed: it is freed with the others */
  return call->name && call->arguments;
}

/* Thoughts become one, a paragraph each. */
static bool add_thought(lap_conversation *c, const lap_piece *piece) {
  lap_text *text = &c->said.reasoning;
  if (piece->index >= c->thoughts && text->length) lap_text_append(text, "\n\n", 2);
  c->thoughts = piece->index + 1;
  lap_text_append(text, piece->text, piece->length);
  return !text->failed;
}

static bool add_content(lap_conversation *c, const lap_piece *piece) {
  lap_text_append(&c->said.content, piece->text, piece->length);
  return !c->said.content.failed;
}

/* A lap_say. */
static bool on_piece(void *context, const lap_piece *piece) {
  lap_conversation *c = context;
  bool added = piece->kind == LAP_PIECE_CALL      ? add_call(c, piece)
               : piece->kind == LAP_PIECE_THOUGHT ? add_thought(c, piece)
                                                  : add_content(c, piece);
  c->lost = c->lost || !added;
  return (!c->options.say || c->options.say(c->options.receiver, piece)) && added;
}

/* A lap_choose. */
static int32_t choose(void *context, float *logits, const int32_t *tokens, int64_t count) {
  lap_conversation *c = context;
  return lap_speaker_choose(c->speaker, logits, tokens, count);
}

/* A lap_job_ended. */
static void on_ended(void *context, const lap_job_record *record) {
  lap_conversation *c = context;
  c->record = *record;
  c->ended = true;
}

static lap_status name_tools(lap_conversation *c, lap_error *error) {
  int tools = c->transcript.tools;
  free(c->tool_names);
  c->tool_names = calloc((size_t)tools + 1, sizeof *c->tool_names);
  if (!c->tool_names) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the tools");
  for (int i = 0; i < tools; i++) c->tool_names[i] = c->transcript.tool[i].name;
  return LAP_OK;
}

static lap_status begin_answer(lap_conversation *c, const lap_chat_prompt *prompt, lap_error *error) {
  lap_said_free(&c->said);
  lap_speaker_destroy(c->speaker);
  c->speaker = NULL;
  c->results = c->thoughts = 0;
  c->lost = c->ended = false;
  lap_status status = name_tools(c, error);
  if (status != LAP_OK) return status;
  lap_sampling sampling = c->options.sampling;
  sampling.seed += (uint64_t)c->transcript.count;
  const lap_speaker_options how = {.model = c->model,
                                   .chat = true,
                                   .tools = c->tool_names,
                                   .tool_count = c->transcript.tools,
                                   .prompt = prompt->ids,
                                   .prompt_count = prompt->count,
                                   .sampling = &sampling,
                                   .grammar = c->options.grammar,
                                   .calls_instead = c->transcript.tools > 0,
                                   .logprobs = c->options.logprobs,
                                   .top_logprobs = c->options.top_logprobs,
                                   .say = on_piece,
                                   .context = c};
  return lap_speaker_create(&how, &c->speaker, error);
}

/* What was left waiting is said; then what has gone wrong, if anything has. */
static lap_status end_answer(lap_conversation *c, lap_error *error) {
  bool failed = c->record.end == LAP_JOB_FAILED;
  if (failed && error) *error = c->record.error;
  if (failed) return c->record.error.status;
  lap_status status = lap_speaker_finish(c->speaker, c->record.end == LAP_JOB_LENGTH, error);
  return c->lost ? lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the answer") : status;
}

static bool goes_on(const lap_conversation *c, const lap_job *job) {
  const lap_job_record *record = lap_job_get_record(job);
  if (!c->options.go_on) return true;
  return c->options.go_on(c->options.receiver, record->cached_tokens + record->evaluated_tokens,
                          record->prompt_tokens);
}

/* Makes an answer to the prompt, until it has ended for whatever reason. */
static lap_status run(lap_conversation *c, const lap_chat_prompt *prompt, lap_error *error) {
  lap_job *job;
  const lap_job_request request = {.ids = prompt->ids,
                                   .count = (int64_t)prompt->count,
                                   .max_tokens = c->options.max_tokens,
                                   .choose = choose,
                                   .ended = on_ended,
                                   .context = c};
  lap_status status = begin_answer(c, prompt, error);
  if (status == LAP_OK) status = lap_batch_submit(c->batch, &request, &job, error);
  if (status != LAP_OK) return status;
  while (!c->ended) {
    if (!goes_on(c, job)) lap_batch_cancel(c->batch, job);
    if (!c->ended) lap_batch_step(c->batch);
  }
  return end_answer(c, error);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static lap_turn_end end_of(const lap_conversation *c) {
  lap_finish finish = lap_speaker_spoken(c->speaker)->finish;
  if (finish == LAP_FINISH_EOS) return LAP_TURN_ANSWERED;
  if (finish == LAP_FINISH_CALLS) return LAP_TURN_CALLS;
  if (finish != LAP_FINISH_LENGTH) return LAP_TURN_STOPPED;
  bool long_enough = c->options.max_tokens && c->record.generated_tokens >= c->options.max_tokens;
  return long_enough ? LAP_TURN_LENGTH : LAP_TURN_CONTEXT;
}

static void describe(const lap_conversation *c, lap_turn *turn) {
  const lap_job_record *record = &c->record;
  turn->end = end_of(c);
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

static void take_back(lap_conversation *c) {
  lap_transcript_cut(&c->transcript, c->begin);
  drop_calls(&c->said);
}

static bool has_words(const lap_said *said) {
  return said->content.length > 0 || said->reasoning.length > 0;
}

/* The answer becomes a message. Calls of one that was cut short are none: more might have come. */
static lap_status keep(lap_conversation *c, lap_turn *turn, lap_error *error) {
  bool whole = turn->end == LAP_TURN_ANSWERED || turn->end == LAP_TURN_CALLS;
  if (!whole) drop_calls(&c->said);
  turn->taken_back = !whole && !has_words(&c->said);
  return turn->taken_back ? LAP_OK : lap_transcript_add_answer(&c->transcript, &c->said, error);
}

static lap_status answer(lap_conversation *c, lap_turn *turn, lap_error *error) {
  lap_chat_prompt prompt;
  *turn = (lap_turn){0};
  lap_status status = render_transcript(c, &c->transcript, &prompt, error);
  if (status == LAP_OK) {
    turn->prompt_tokens = (int64_t)prompt.count;
    if (turn->prompt_tokens >= lap_batch_context(c->batch)) {
      turn->end = LAP_TURN_CONTEXT;
      turn->taken_back = true;
    } else {
      status = run(c, &prompt, error);
      if (status == LAP_OK) {
        describe(c, turn);
        status = keep(c, turn, error);
      }
    }
  }
  lap_chat_prompt_free(&prompt);
  if (status != LAP_OK || turn->taken_back) take_back(c);
  return status;
}

lap_status lap_conversation_say(lap_conversation *c, const char *text, size_t length, lap_turn *turn,
                                lap_error *error) {
  lap_conversation_give_up(c);
  *turn = (lap_turn){0};
  c->begin = c->transcript.count;
  lap_status status = lap_transcript_add_user(&c->transcript, text, length, error);
  return status == LAP_OK ? answer(c, turn, error) : status;
}

const lap_call *lap_conversation_call(const lap_conversation *c) {
  return c->results < c->said.calls ? &c->said.call[c->results] : NULL;
}

lap_status lap_conversation_result(lap_conversation *c, const char *text, size_t length, lap_error *error) {
  const lap_call *call = lap_conversation_call(c);
  if (!call) return lap_fail(error, LAP_ERROR_STATE, "no call waits for a result");
  lap_status status = lap_transcript_add_result(&c->transcript, call, text, length, error);
  if (status == LAP_OK) c->results++;
  return status;
}

lap_status lap_conversation_go_on(lap_conversation *c, lap_turn *turn, lap_error *error) {
  *turn = (lap_turn){0};
  if (!c->said.calls || lap_conversation_call(c))
    return lap_fail(error, LAP_ERROR_STATE, "the model does not wait for results, or not all are there");
  return answer(c, turn, error);
}

bool lap_conversation_give_up(lap_conversation *c) {
  if (!c->said.calls) return false;
  int answer_at = c->transcript.count - c->results - 1;
  drop_calls(&c->said);
  c->results = 0;
  lap_transcript_cut(&c->transcript, answer_at);
  if (has_words(&c->said) && lap_transcript_add_answer(&c->transcript, &c->said, NULL) == LAP_OK)
    return false;
  take_back(c);
  return true;
}

/* ---- the conversation ------------------------------------------------------------------------ */

void lap_conversation_reset(lap_conversation *c) {
  lap_conversation_give_up(c);
  lap_transcript_cut(&c->transcript, c->transcript.has_system ? 1 : 0);
}

lap_status lap_conversation_set_system(lap_conversation *c, const char *text, size_t length,
                                       lap_error *error) {
  lap_conversation_give_up(c);
  return lap_transcript_set_system(&c->transcript, text, length, error);
}

void lap_conversation_set_thinking(lap_conversation *c, lap_thinking thinking) {
  lap_conversation_give_up(c);
  c->options.thinking = thinking;
}

/* The tools alone, as the template would have them with a message. */
static lap_status try_tools(const lap_conversation *c, lap_transcript *tools, lap_error *error) {
  lap_status status = lap_transcript_add_user(tools, "", 0, error);
  if (status == LAP_OK) status = try_transcript(c, tools, error);
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

void lap_conversation_set_grammar(lap_conversation *c, lap_grammar *grammar) {
  lap_conversation_give_up(c);
  if (grammar) lap_grammar_hold(grammar);
  lap_grammar_release(c->options.grammar);
  c->options.grammar = grammar;
}

/* Takes over the document. */
static lap_status take_tools(lap_conversation *c, lap_json_document *document, lap_error *error) {
  lap_transcript read = {0};
  lap_status status = lap_transcript_set_tools(&read, document, lap_json_root(document), error);
  lap_json_free(document);
  if (status == LAP_OK) status = try_tools(c, &read, error);
  if (status == LAP_OK) swap_tools(&c->transcript, &read);
  lap_transcript_free(&read);
  return status;
}

lap_status lap_conversation_set_tools(lap_conversation *c, const char *json, size_t length,
                                      lap_error *error) {
  lap_json_document *document;
  lap_conversation_give_up(c);
  lap_status status = lap_json_parse(json, length, "tools", &document, error);
  return status == LAP_OK ? take_tools(c, document, error) : status;
}

lap_status lap_conversation_read_tools(lap_conversation *c, const char *path, lap_error *error) {
  lap_json_document *document;
  lap_conversation_give_up(c);
  lap_status status = lap_json_read(path, MAX_FILE_BYTES, &document, error);
  return status == LAP_OK ? take_tools(c, document, error) : status;
}

lap_status lap_conversation_save(lap_conversation *c, const char *path, lap_error *error) {
  lap_text text = {0};
  char *json;
  size_t length;
  lap_conversation_give_up(c);
  lap_transcript_print(&c->transcript, &text);
  lap_status status = lap_text_take(&text, &json, &length, error);
  if (status != LAP_OK) return status;
  status = lap_file_write(path, json, length, error);
  free(json);
  return status;
}

/* Reads a conversation, and lets the template judge: first the file's own messages, so that what is wrong is
 * named as it stands there. */
static lap_status read_conversation(const lap_conversation *c, const lap_json_document *document,
                                    lap_transcript *out, lap_error *error) {
  lap_chat_prompt prompt = {0};
  lap_status status = lap_transcript_read(document, out, error);
  if (status != LAP_OK || out->count == 0) return status;
  status = render(c, document, lap_transcript_messages(document), NULL, &prompt, error);
  lap_chat_prompt_free(&prompt);
  return status == LAP_OK && out->tools ? try_transcript(c, out, error) : status;
}

lap_status lap_conversation_load(lap_conversation *c, const char *path, lap_error *error) {
  lap_json_document *document;
  lap_transcript read = {0};
  lap_status status = lap_json_read(path, MAX_FILE_BYTES, &document, error);
  if (status != LAP_OK) return status;
  status = read_conversation(c, document, &read, error);
  lap_json_free(document);
  if (status == LAP_OK) {
    if (!read.tools) swap_tools(&c->transcript, &read);
    lap_transcript_free(&c->transcript);
    c->transcript = read;
    read = (lap_transcript){0};
    drop_calls(&c->said);
    c->results = 0;
  }
  lap_transcript_free(&read);
  return status;
}

const lap_transcript *lap_conversation_transcript(const lap_conversation *c) {
  return &c->transcript;
}

int lap_conversation_messages(const lap_conversation *c) {
  return c->transcript.count;
}

lap_batch_stats lap_conversation_stats(const lap_conversation *c) {
  return lap_batch_get_stats(c->batch);
}

int64_t lap_conversation_context(const lap_conversation *c) {
  return lap_batch_context(c->batch);
}
