/* front.h: an API: how its bodies are read and its answers are printed.
 *
 * The functions that print a stream append events to answer->out; any may be NULL. They are called in the
 * order begin, { opened, added..., closed } ..., finished for each choice (those of several choices mixed),
 * end; `broken` ends a stream at any point. */
#ifndef LAP_SERVER_FRONT_H
#define LAP_SERVER_FRONT_H

#include "server/answer.h"

typedef struct lap_front {
  const char *endpoint; /* its path */
  /* Reads request->body. */
  lap_status (*read)(lap_request *request, lap_error *error);
  /* The body of a reply that is no answer. */
  void (*refuse)(lap_text *out, const lap_failure *failure);
  /* The whole answer, as one JSON object. */
  void (*whole)(const lap_answer *answer, lap_text *out);

  void (*begin)(lap_answer *answer);
  void (*opened)(lap_answer *answer, lap_choice *choice, lap_part *part);
  /* `notes` of the choice's notes, from `first` on, belong to this piece of text. */
  void (*added)(lap_answer *answer, lap_choice *choice, lap_part *part, const char *text, size_t length,
                size_t first, size_t notes);
  void (*closed)(lap_answer *answer, lap_choice *choice, lap_part *part);
  void (*finished)(lap_answer *answer, lap_choice *choice);
  void (*end)(lap_answer *answer);
  void (*broken)(lap_answer *answer, const lap_failure *failure);
} lap_front;

extern const lap_front lap_front_chat;        /* openai_chat.c: /v1/chat/completions */
extern const lap_front lap_front_completions; /* openai_completions.c: /v1/completions */
extern const lap_front lap_front_responses;   /* openai_responses.c: /v1/responses */
extern const lap_front lap_front_messages;    /* anthropic.c: /v1/messages */

/* ---- what fronts share ---- */

/* An event of a stream: `event: NAME` unless NULL, and its data, which is written in between. */
void lap_event_begin(lap_answer *answer, const char *name, lap_json_writer *writer);
void lap_event_end(lap_answer *answer, lap_json_writer *writer);

/* {"error": {message, type, param, code}}, as a body and as an event. */
void lap_openai_refuse(lap_text *out, const lap_failure *failure);
void lap_openai_broken(lap_answer *answer, const lap_failure *failure);
/* Begins an object of chat and raw completions, whole or a chunk: id (after `prefix`), object, created,
 * model. */
void lap_openai_write_head(lap_json_writer *writer, const lap_answer *answer, const char *prefix,
                           const char *object);
/* Ends a stream of theirs: usage and timings, if they were asked for, and the mark. */
void lap_openai_end(lap_answer *answer, const char *prefix, const char *object);
/* usage, a member, and finish_reason, of chat and raw completions. */
void lap_openai_write_usage(lap_json_writer *writer, const lap_answer *answer);
const char *lap_openai_finish_reason(lap_finish finish);
/* stream and stream_options; n. */
lap_status lap_openai_read_stream(lap_request *request, lap_error *error);
lap_status lap_openai_read_n(lap_request *request, lap_error *error);

/* A member with seconds, tokens and path, which no API knows and clients may show. */
void lap_write_timings(lap_json_writer *writer, const lap_answer *answer);

/* token, logprob, bytes and top_logprobs of `notes` notes from `first` on, as chat completions have them. */
void lap_write_notes(lap_json_writer *writer, const lap_answer *answer, const lap_choice *choice,
                     size_t first, size_t notes);
/* The text of a token, for these; at most LAP_TOKEN_MAX_BYTES, whatever bytes they are. */
void lap_write_token_text(lap_json_writer *writer, const char *key, const lap_answer *answer, int32_t id);

#endif
