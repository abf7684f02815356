/* openai_chat.c: /v1/chat/completions, and what OpenAI's APIs share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/front.h"
#include "text/tokenizer.h"

/* ---- shared ---------------------------------------------------------------------------------- */

void lap_event_begin(lap_answer *answer, const char *name, lap_json_writer *writer) {
  if (name) lap_text_add(&answer->out, "event: %s\n", name);
  lap_text_append(&answer->out, "data: ", 6);
  lap_write_begin(writer, &answer->out);
}

void lap_event_end(lap_answer *answer, lap_json_writer *writer) {
  lap_write_end(writer);
  lap_text_append(&answer->out, "\n\n", 2);
}

static const char *type_of(lap_failure_kind kind) {
  switch (kind) {
    case LAP_FAILURE_AUTHENTICATION:
      return "authentication_error";
    case LAP_FAILURE_FORBIDDEN:
      return "permission_error";
    case LAP_FAILURE_NOT_FOUND:
      return "not_found_error";
    case LAP_FAILURE_BUSY:
      return "rate_limit_error";
    case LAP_FAILURE_INTERNAL:
    case LAP_FAILURE_UNAVAILABLE:
      return "server_error";
    default:
      return "invalid_request_error";
  }
}

static const char *code_of(lap_failure_kind kind) {
  switch (kind) {
    case LAP_FAILURE_CONTEXT:
      return "context_length_exceeded";
    case LAP_FAILURE_AUTHENTICATION:
      return "invalid_api_key";
    case LAP_FAILURE_BUSY:
      return "rate_limit_exceeded";
    default:
      return NULL;
  }
}

static void write_failure(lap_json_writer *writer, const lap_failure *failure) {
  lap_write_object(writer, NULL);
  lap_write_object(writer, "error");
  lap_write_string(writer, "message", failure->message);
  lap_write_string(writer, "type", type_of(failure->kind));
  lap_write_string(writer, "param", *failure->field ? failure->field : NULL);
  lap_write_string(writer, "code", code_of(failure->kind));
  lap_write_end_object(writer);
  lap_write_end_object(writer);
}

void lap_openai_refuse(lap_text *out, const lap_failure *failure) {
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  write_failure(&writer, failure);
  lap_write_end(&writer);
}

void lap_openai_broken(lap_answer *answer, const lap_failure *failure) {
  lap_json_writer writer;
  lap_event_begin(answer, NULL, &writer);
  write_failure(&writer, failure);
  lap_event_end(answer, &writer);
}

void lap_write_timings(lap_json_writer *writer, const lap_answer *answer) {
  const lap_usage *usage = &answer->usage;
  lap_write_object(writer, "timings");
  lap_write_integer(writer, "prompt_tokens", usage->prompt_tokens);
  lap_write_integer(writer, "cached_tokens", usage->cached_tokens);
  lap_write_real(writer, "prompt_seconds", usage->prompt_seconds, 6);
  lap_write_integer(writer, "tokens", usage->tokens);
  lap_write_real(writer, "decode_seconds", usage->decode_seconds, 6);
  lap_write_string(writer, "path", answer->served->path);
  lap_write_end_object(writer);
}

void lap_openai_write_usage(lap_json_writer *writer, const lap_answer *answer) {
  const lap_usage *usage = &answer->usage;
  lap_write_object(writer, "usage");
  lap_write_integer(writer, "prompt_tokens", usage->prompt_tokens);
  lap_write_integer(writer, "completion_tokens", usage->tokens);
  lap_write_integer(writer, "total_tokens", usage->prompt_tokens + usage->tokens);
  lap_write_object(writer, "prompt_tokens_details");
  lap_write_integer(writer, "cached_tokens", usage->cached_tokens);
  lap_write_end_object(writer);
  lap_write_object(writer, "completion_tokens_details");
  lap_write_integer(writer, "reasoning_tokens", usage->thought_tokens);
  lap_write_end_object(writer);
  lap_write_end_object(writer);
}

void lap_openai_write_head(lap_json_writer *writer, const lap_answer *answer, const char *prefix,
                           const char *object) {
  char id[LAP_ID_BYTES + 16];
  snprintf(id, sizeof id, "%s%s", prefix, answer->id);
  lap_write_object(writer, NULL);
  lap_write_string(writer, "id", id);
  lap_write_string(writer, "object", object);
  lap_write_integer(writer, "created", answer->created);
  lap_write_string(writer, "model", answer->served->name);
}

void lap_openai_end(lap_answer *answer, const char *prefix, const char *object) {
  static const char done[] = "data: [DONE]\n\n";
  lap_json_writer writer;
  if (answer->request.include_usage) {
    lap_event_begin(answer, NULL, &writer);
    lap_openai_write_head(&writer, answer, prefix, object);
    lap_write_array(&writer, "choices");
    lap_write_end_array(&writer);
    lap_openai_write_usage(&writer, answer);
    lap_write_timings(&writer, answer);
    lap_write_end_object(&writer);
    lap_event_end(answer, &writer);
  }
  lap_text_append(&answer->out, done, sizeof done - 1);
}

const char *lap_openai_finish_reason(lap_finish finish) {
  static const char *const words[] = {
      [LAP_FINISH_NONE] = "stop",     [LAP_FINISH_EOS] = "stop",         [LAP_FINISH_STOP] = "stop",
      [LAP_FINISH_LENGTH] = "length", [LAP_FINISH_CALLS] = "tool_calls", [LAP_FINISH_CALLER] = "stop"};
  return words[finish];
}

/* A token may be a part of a character: what is none is replaced, and `bytes` has it all. */
void lap_write_token_text(lap_json_writer *writer, const char *key, const lap_answer *answer, int32_t id) {
  char bytes[LAP_TOKEN_MAX_BYTES], *text = NULL;
  size_t length = 0, capacity = 0;
  size_t count = lap_tokenizer_token_bytes(answer->served->tokenizer, id, bytes);
  lap_detokenizer state = {0};
  if (lap_detokenize_text(&state, bytes, count, &text, &length, &capacity, NULL) != LAP_OK ||
      lap_detokenize_end(&state, &text, &length, &capacity, NULL) != LAP_OK)
    writer->text->failed = true;
  lap_write_bytes(writer, key, text ? text : "", length);
  free(text);
}

static void write_logprob(lap_json_writer *writer, const lap_answer *answer, int32_t id, float logprob) {
  char bytes[LAP_TOKEN_MAX_BYTES];
  size_t count = lap_tokenizer_token_bytes(answer->served->tokenizer, id, bytes);
  lap_write_token_text(writer, "token", answer, id);
  lap_write_real(writer, "logprob", (double)logprob, 9);
  lap_write_array(writer, "bytes");
  for (size_t i = 0; i < count; i++) lap_write_integer(writer, NULL, (unsigned char)bytes[i]);
  lap_write_end_array(writer);
}

void lap_write_notes(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                     size_t first, size_t notes) {
  for (size_t i = first; i < first + notes; i++) {
    const lap_note *note = &choice->note[i];
    lap_write_object(writer, NULL);
    write_logprob(writer, answer, note->id, note->logprob);
    lap_write_array(writer, "top_logprobs");
    for (int32_t k = 0; k < note->top_count; k++) {
      lap_write_object(writer, NULL);
      write_logprob(writer, answer, note->top[k].id, note->top[k].logprob);
      lap_write_end_object(writer);
    }
    lap_write_end_array(writer);
    lap_write_end_object(writer);
  }
}

lap_status lap_openai_read_stream(lap_request *request, lap_error *error) {
  const lap_json *root = lap_json_root(request->body), *options = lap_body_get(request, "stream_options");
  lap_status status = lap_json_get_bool(request->body, root, "stream", &request->stream, error);
  if (status != LAP_OK || !options) return status;
  if (options->type != LAP_JSON_OBJECT)
    return lap_json_fail(request->body, options, error, "must be an object");
  return lap_json_get_bool(request->body, options, "include_usage", &request->include_usage, error);
}

lap_status lap_openai_read_n(lap_request *request, lap_error *error) {
  int64_t n = 1;
  lap_status status =
      lap_json_get_integer(request->body, lap_json_root(request->body), "n", 1, LAP_MAX_CHOICES, &n, error);
  request->n = (int)n;
  return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static lap_status read_logprobs(lap_request *request, lap_error *error) {
  const lap_json *root = lap_json_root(request->body);
  int64_t top = 0;
  lap_status status = lap_json_get_bool(request->body, root, "logprobs", &request->logprobs, error);
  if (status == LAP_OK)
    status = lap_json_get_integer(request->body, root, "top_logprobs", 0, LAP_MAX_TOP_LOGPROBS, &top, error);
  request->top_logprobs = (int)top;
  if (top > 0) request->logprobs = true;
  return status;
}

static lap_status read_tool_choice(lap_request *request, lap_error *error) {
  const lap_json *choice = lap_body_get(request, "tool_choice");
  if (!choice) return LAP_OK;
  if (choice->type == LAP_JSON_OBJECT) {
    const lap_json *function = lap_json_get(request->body, choice, "function");
    const lap_json *name = lap_json_get(request->body, function, "name");
    if (!name || name->type != LAP_JSON_STRING)
      return lap_json_fail(request->body, choice, error, "an object must name a function (function.name)");
    request->tool_choice = LAP_TOOLS_NAMED;
    request->named_tool = name;
    return LAP_OK;
  }
  if (lap_json_is(choice, "none"))
    request->tool_choice = LAP_TOOLS_NONE;
  else if (lap_json_is(choice, "required") || lap_json_is(choice, "any"))
    request->tool_choice = LAP_TOOLS_REQUIRED;
  else if (!lap_json_is(choice, "auto"))
    return lap_json_fail(request->body, choice, error, "must be auto, none, required or an object");
  return LAP_OK;
}

static lap_status read_tools(lap_request *request, lap_error *error) {
  bool parallel = true;
  lap_status status = lap_read_tools(request, request->body, lap_body_get(request, "tools"), error);
  if (status == LAP_OK) status = read_tool_choice(request, error);
  if (status == LAP_OK)
    status = lap_json_get_bool(request->body, lap_json_root(request->body), "parallel_tool_calls", &parallel,
                               error);
  request->single_call = !parallel;
  return status;
}

static lap_status read_messages(lap_request *request, lap_error *error) {
  const lap_json *messages = lap_body_get(request, "messages");
  if (!messages) return lap_fail(error, LAP_ERROR_FORMAT, "request: messages: is missing");
  if (messages->type != LAP_JSON_ARRAY)
    return lap_json_fail(request->body, messages, error, "must be a list");
  request->chat = true;
  request->conversation.document = request->body;
  request->conversation.messages = messages;
  return LAP_OK;
}

static lap_status read(lap_request *request, lap_error *error) {
  static const char *const limits[] = {"max_completion_tokens", "max_tokens", "n_predict", NULL};
  lap_status status = read_messages(request, error);
  if (status == LAP_OK) status = lap_openai_read_stream(request, error);
  if (status == LAP_OK) status = lap_openai_read_n(request, error);
  if (status == LAP_OK) status = lap_read_max_tokens(request, limits, error);
  if (status == LAP_OK) status = lap_read_stops(request, "stop", error);
  if (status == LAP_OK) status = lap_read_sampling(request, error);
  if (status == LAP_OK) status = read_logprobs(request, error);
  if (status == LAP_OK) status = lap_read_thinking(request, lap_body_get(request, "reasoning_effort"), error);
  if (status == LAP_OK) status = lap_read_form(request, lap_body_get(request, "response_format"), error);
  return status == LAP_OK ? read_tools(request, error) : status;
}

/* ---- the whole answer ------------------------------------------------------------------------ */

static void write_call(lap_json_writer *writer, const lap_part *part, bool indexed) {
  char id[LAP_ID_BYTES + 8] = "call_";
  lap_write_object(writer, NULL);
  if (indexed) lap_write_integer(writer, "index", part->order);
  lap_write_string(writer, "id", strcat(id, part->id));
  lap_write_string(writer, "type", "function");
  lap_write_object(writer, "function");
  lap_write_string(writer, "name", part->name);
  lap_write_bytes(writer, "arguments", lap_text_data(&part->text), part->text.length);
  lap_write_end_object(writer);
  lap_write_end_object(writer);
}

static int count_parts(const lap_choice *choice, lap_piece_kind kind) {
  int count = 0;
  for (int i = 0; i < choice->parts; i++) count += choice->part[i].kind == kind;
  return count;
}

/* All parts of a kind as one text. */
static void write_joined(lap_json_writer *writer, const char *key, const lap_choice *choice,
                         lap_piece_kind kind) {
  lap_text joined = {0};
  for (int i = 0; i < choice->parts; i++)
    if (choice->part[i].kind == kind)
      lap_text_append(&joined, lap_text_data(&choice->part[i].text), choice->part[i].text.length);
  if (joined.failed) writer->text->failed = true;
  lap_write_bytes(writer, key, lap_text_data(&joined), joined.length);
  lap_text_free(&joined);
}

static void write_message(lap_json_writer *writer, const lap_choice *choice) {
  int calls = count_parts(choice, LAP_PIECE_CALL);
  lap_write_object(writer, "message");
  lap_write_string(writer, "role", "assistant");
  if (calls && !count_parts(choice, LAP_PIECE_TEXT))
    lap_write_null(writer, "content");
  else
    write_joined(writer, "content", choice, LAP_PIECE_TEXT);
  lap_write_null(writer, "refusal");
  if (count_parts(choice, LAP_PIECE_THOUGHT))
    write_joined(writer, "reasoning_content", choice, LAP_PIECE_THOUGHT);
  if (calls) {
    lap_write_array(writer, "tool_calls");
    for (int i = 0; i < choice->parts; i++)
      if (choice->part[i].kind == LAP_PIECE_CALL) write_call(writer, &choice->part[i], false);
    lap_write_end_array(writer);
  }
  lap_write_end_object(writer);
}

static void write_logprobs(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                           size_t first, size_t notes) {
  if (!answer->request.logprobs) {
    lap_write_null(writer, "logprobs");
    return;
  }
  lap_write_object(writer, "logprobs");
  lap_write_array(writer, "content");
  lap_write_notes(writer, answer, choice, first, notes);
  lap_write_end_array(writer);
  lap_write_null(writer, "refusal");
  lap_write_end_object(writer);
}

static void whole(const lap_answer *answer, lap_text *out) {
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  lap_openai_write_head(&writer, answer, "chatcmpl-", "chat.completion");
  lap_write_array(&writer, "choices");
  for (int i = 0; i < answer->choices; i++) {
    const lap_choice *choice = &answer->choice[i];
    lap_write_object(&writer, NULL);
    lap_write_integer(&writer, "index", i);
    write_message(&writer, choice);
    write_logprobs(&writer, answer, choice, 0, choice->notes);
    lap_write_string(&writer, "finish_reason", lap_openai_finish_reason(choice->finish));
    lap_write_end_object(&writer);
  }
  lap_write_end_array(&writer);
  lap_openai_write_usage(&writer, answer);
  lap_write_timings(&writer, answer);
  lap_write_end_object(&writer);
  lap_write_end(&writer);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void begin_chunk(lap_answer *answer, lap_json_writer *writer, const lap_choice *choice) {
  lap_event_begin(answer, NULL, writer);
  lap_openai_write_head(writer, answer, "chatcmpl-", "chat.completion.chunk");
  lap_write_array(writer, "choices");
  lap_write_object(writer, NULL);
  lap_write_integer(writer, "index", choice->index);
  lap_write_object(writer, "delta");
}

static void end_chunk(lap_answer *answer, lap_json_writer *writer, const lap_choice *choice, size_t first,
                      size_t notes, const char *reason) {
  lap_write_end_object(writer);
  if (notes)
    write_logprobs(writer, answer, choice, first, notes);
  else
    lap_write_null(writer, "logprobs");
  lap_write_string(writer, "finish_reason", reason);
  lap_write_end_object(writer);
  lap_write_end_array(writer);
  if (answer->request.include_usage) lap_write_null(writer, "usage");
  lap_write_end_object(writer);
  lap_event_end(answer, writer);
}

static void begin(lap_answer *answer) {
  lap_json_writer writer;
  for (int i = 0; i < answer->choices; i++) {
    begin_chunk(answer, &writer, &answer->choice[i]);
    lap_write_string(&writer, "role", "assistant");
    lap_write_string(&writer, "content", "");
    end_chunk(answer, &writer, &answer->choice[i], 0, 0, NULL);
  }
}

static void added(lap_answer *answer, lap_choice *choice, lap_part *part, const char *text, size_t length,
                  size_t first, size_t notes) {
  lap_json_writer writer;
  begin_chunk(answer, &writer, choice);
  if (part->kind == LAP_PIECE_CALL) {
    lap_write_array(&writer, "tool_calls");
    write_call(&writer, part, true);
    lap_write_end_array(&writer);
  } else {
    lap_write_bytes(&writer, part->kind == LAP_PIECE_TEXT ? "content" : "reasoning_content", text, length);
  }
  end_chunk(answer, &writer, choice, first, notes, NULL);
}

static void finished(lap_answer *answer, lap_choice *choice) {
  lap_json_writer writer;
  begin_chunk(answer, &writer, choice);
  end_chunk(answer, &writer, choice, 0, 0, lap_openai_finish_reason(choice->finish));
}

static void end(lap_answer *answer) {
  lap_openai_end(answer, "chatcmpl-", "chat.completion.chunk");
}

const lap_front lap_front_chat = {
    .endpoint = "/v1/chat/completions",
    .read = read,
    .refuse = lap_openai_refuse,
    .whole = whole,
    .begin = begin,
    .added = added,
    .finished = finished,
    .end = end,
    .broken = lap_openai_broken,
};
