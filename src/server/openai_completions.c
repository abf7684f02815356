/* openai_completions.c: /v1/completions: raw text goes on. */
#include <string.h>

#include "server/front.h"
#include "text/tokenizer.h"

/* ---- reading --------------------------------------------------------------------------------- */

static lap_status read_prompt(lap_request *request, lap_error *error) {
  const lap_json *prompt = lap_body_get(request, "prompt");
  const lap_json *suffix = lap_body_get(request, "suffix");
  if (!prompt) return lap_fail(error, LAP_ERROR_FORMAT, "request: prompt: is missing");
  if (prompt->type != LAP_JSON_STRING && (prompt->type != LAP_JSON_ARRAY || !prompt->child))
    return lap_json_fail(request->body, prompt, error, "must be a string, a list of strings or of token ids");
  if (suffix && !(suffix->type == LAP_JSON_STRING && suffix->length == 0))
    return lap_json_fail(request->body, suffix, error, "is not supported");
  request->raw = prompt;
  return lap_json_get_bool(request->body, lap_json_root(request->body), "echo", &request->echo, error);
}

/* Here a number: how many alternatives to each token. Some clients send true, as to chat. */
static lap_status read_logprobs(lap_request *request, lap_error *error) {
  const lap_json *value = lap_body_get(request, "logprobs");
  int64_t top = 0;
  if (!value) return LAP_OK;
  request->logprobs = true;
  if (value->type == LAP_JSON_BOOL) {
    request->logprobs = value->boolean;
    return LAP_OK;
  }
  lap_status status = lap_json_get_integer(request->body, lap_json_root(request->body), "logprobs", 0,
                                           LAP_MAX_TOP_LOGPROBS, &top, error);
  request->top_logprobs = (int)top;
  return status;
}

static lap_status read(lap_request *request, lap_error *error) {
  static const char *const limits[] = {"max_tokens", "max_completion_tokens", "n_predict", NULL};
  lap_status status = read_prompt(request, error);
  if (status == LAP_OK) status = lap_openai_read_stream(request, error);
  if (status == LAP_OK) status = lap_openai_read_n(request, error);
  if (status == LAP_OK) status = lap_read_max_tokens(request, limits, error);
  if (status == LAP_OK) status = lap_read_stops(request, "stop", error);
  if (status == LAP_OK) status = lap_read_sampling(request, error);
  if (status == LAP_OK) status = read_logprobs(request, error);
  return status == LAP_OK ? lap_read_form(request, lap_body_get(request, "response_format"), error) : status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static const char *repeated_text(const lap_answer *answer, const lap_choice *choice) {
  const char *text = answer->request.prompt[choice->index / answer->request.n].text;
  return text ? text : "";
}

static void write_tops(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                       size_t first, size_t notes) {
  lap_write_array(writer, "top_logprobs");
  for (size_t i = first; i < first + notes; i++) {
    const lap_note *note = &choice->note[i];
    lap_write_object(writer, NULL);
    for (int32_t k = 0; k < note->top_count; k++) {
      lap_write_token_text(writer, NULL, answer, note->top[k].id); /* the key */
      lap_write_real(writer, NULL, (double)note->top[k].logprob, 9);
    }
    lap_write_end_object(writer);
  }
  lap_write_end_array(writer);
}

/* Offsets count bytes of the answer's text. */
static void write_logprobs(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                           size_t first, size_t notes) {
  char bytes[LAP_TOKEN_MAX_BYTES];
  if (!answer->request.logprobs) {
    lap_write_null(writer, "logprobs");
    return;
  }
  size_t offset = strlen(repeated_text(answer, choice));
  for (size_t i = 0; i < first; i++)
    offset += lap_tokenizer_token_bytes(answer->served->tokenizer, choice->note[i].id, bytes);
  lap_write_object(writer, "logprobs");
  lap_write_array(writer, "tokens");
  for (size_t i = first; i < first + notes; i++)
    lap_write_token_text(writer, NULL, answer, choice->note[i].id);
  lap_write_end_array(writer);
  lap_write_array(writer, "token_logprobs");
  for (size_t i = first; i < first + notes; i++)
    lap_write_real(writer, NULL, (double)choice->note[i].logprob, 9);
  lap_write_end_array(writer);
  write_tops(writer, answer, choice, first, notes);
  lap_write_array(writer, "text_offset");
  for (size_t i = first; i < first + notes; i++) {
    lap_write_integer(writer, NULL, (int64_t)offset);
    offset += lap_tokenizer_token_bytes(answer->served->tokenizer, choice->note[i].id, bytes);
  }
  lap_write_end_array(writer);
  lap_write_end_object(writer);
}

static void write_choice(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                         const char *text, size_t length, size_t first, size_t notes, const char *reason) {
  lap_write_object(writer, NULL);
  lap_write_bytes(writer, "text", text, length);
  lap_write_integer(writer, "index", choice->index);
  write_logprobs(writer, answer, choice, first, notes);
  lap_write_string(writer, "finish_reason", reason);
  lap_write_end_object(writer);
}

static void write_whole_choice(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice) {
  lap_text text = {0};
  const char *repeated = repeated_text(answer, choice);
  lap_text_append(&text, repeated, strlen(repeated));
  for (int i = 0; i < choice->parts; i++)
    lap_text_append(&text, lap_text_data(&choice->part[i].text), choice->part[i].text.length);
  if (text.failed) writer->text->failed = true;
  write_choice(writer, answer, choice, lap_text_data(&text), text.length, 0, choice->notes,
               lap_openai_finish_reason(choice->finish));
  lap_text_free(&text);
}

static void whole(const lap_answer *answer, lap_text *out) {
  lap_json_writer writer;
  lap_write_begin(&writer, out);
  lap_openai_write_head(&writer, answer, "cmpl-", "text_completion");
  lap_write_array(&writer, "choices");
  for (int i = 0; i < answer->choices; i++) write_whole_choice(&writer, answer, &answer->choice[i]);
  lap_write_end_array(&writer);
  lap_openai_write_usage(&writer, answer);
  lap_write_timings(&writer, answer);
  lap_write_end_object(&writer);
  lap_write_end(&writer);
}

static void chunk(lap_answer *answer, const lap_choice *choice, const char *text, size_t length, size_t first,
                  size_t notes, const char *reason) {
  lap_json_writer writer;
  lap_event_begin(answer, NULL, &writer);
  lap_openai_write_head(&writer, answer, "cmpl-", "text_completion");
  lap_write_array(&writer, "choices");
  write_choice(&writer, answer, choice, text, length, first, notes, reason);
  lap_write_end_array(&writer);
  if (answer->request.include_usage) lap_write_null(&writer, "usage");
  lap_write_end_object(&writer);
  lap_event_end(answer, &writer);
}

static void begin(lap_answer *answer) {
  for (int i = 0; i < answer->choices; i++) {
    const char *repeated = repeated_text(answer, &answer->choice[i]);
    if (*repeated) chunk(answer, &answer->choice[i], repeated, strlen(repeated), 0, 0, NULL);
  }
}

static void added(lap_answer *answer, lap_choice *choice, lap_part *part, const char *text, size_t length,
                  size_t first, size_t notes) {
  (void)part;
  chunk(answer, choice, text, length, first, notes, NULL);
}

static void finished(lap_answer *answer, lap_choice *choice) {
  chunk(answer, choice, "", 0, choice->notes, 0, lap_openai_finish_reason(choice->finish));
}

static void end(lap_answer *answer) {
  lap_openai_end(answer, "cmpl-", "text_completion");
}

const lap_front lap_front_completions = {
    .endpoint = "/v1/completions",
    .read = read,
    .refuse = lap_openai_refuse,
    .whole = whole,
    .begin = begin,
    .added = added,
    .finished = finished,
    .end = end,
    .broken = lap_openai_broken,
};
