/* transcript.h: the messages of a conversation, in the form of OpenAI's chat completions.
 *
 * A message is kept as JSON, as it came: what this program does not know of one that was read from a file is
 * there when it is written again. What a transcript prints is the body of a request to any chat API of that
 * form: messages, and tools if there are any.
 *
 * Invariant: every message and every tool is a JSON object in UTF-8; `has_system` says whether the first
 * message is the system's. A function that fails has changed nothing. */
#ifndef LAP_TEXT_TRANSCRIPT_H
#define LAP_TEXT_TRANSCRIPT_H

#include "base/json.h"
#include "base/text_buffer.h"

typedef struct lap_message {
  char *json;
  size_t length;
} lap_message;

typedef struct lap_tool {
  char *name;
  lap_message tool;
} lap_tool;

/* Starts as {0}. */
typedef struct lap_transcript {
  lap_message *message; /* [count] */
  int count;
  int capacity;
  bool has_system;
  lap_tool *tool; /* [tools] */
  int tools;
} lap_transcript;

/* What an assistant has said. */
typedef struct lap_said {
  lap_text content;
  lap_text reasoning;
  lap_call *call; /* [calls] */
  int calls;
} lap_said;

void lap_transcript_free(lap_transcript *transcript);

/* Adds what a user says. Errors: FORMAT (the text is not UTF-8), MEMORY. */
lap_status lap_transcript_add_user(lap_transcript *transcript, const char *text, size_t length,
                                   lap_error *error);
/* Adds an answer with its calls. Errors: MEMORY. */
lap_status lap_transcript_add_answer(lap_transcript *transcript, const lap_said *said, lap_error *error);
/* Adds the result of a call. Errors: FORMAT (the text is not UTF-8), MEMORY. */
lap_status lap_transcript_add_result(lap_transcript *transcript, const lap_call *call, const char *text,
                                     size_t length, lap_error *error);

/* The system's message; without a text it is taken away. Errors: FORMAT (the text is not UTF-8), MEMORY. */
lap_status lap_transcript_set_system(lap_transcript *transcript, const char *text, size_t length,
                                     lap_error *error);

/* Drops all messages from number `count` on. */
void lap_transcript_cut(lap_transcript *transcript, int count);

/* Appends {"messages":[..],"tools":[..]}, a message a line; failure is remembered in the text. */
void lap_transcript_print(const lap_transcript *transcript, lap_text *out);

/* Replaces the tools by those of a list in `document`, each a tool of OpenAI's form or a function alone.
 * Errors: FORMAT (naming the document and the field), MEMORY. */
lap_status lap_transcript_set_tools(lap_transcript *transcript, const lap_json_document *document,
                                    const lap_json *list, lap_error *error);

/* The conversation that a document holds: an object with `messages` and perhaps `tools`, or a list of
 * messages. `*out` must be empty, and is after a failure. Errors: FORMAT (naming the document and the field),
 * MEMORY. Checked is what is relied on here: lists of objects, each message with a role. */
lap_status lap_transcript_read(const lap_json_document *document, lap_transcript *out, lap_error *error);

/* The messages in such a document; NULL if it has none. */
const lap_json *lap_transcript_messages(const lap_json_document *document);

void lap_said_free(lap_said *said);

#endif
