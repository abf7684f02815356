/* convert.h: other APIs' conversations, printed as chat completions have them and parsed again.
 *
 * Printing messages costs little beside computing them, and leaves one form for everything that follows. */
#ifndef LAP_SERVER_CONVERT_H
#define LAP_SERVER_CONVERT_H

#include "server/request.h"

/* A document {messages: [...], tools: [...]} being written. An assistant's message is kept open, since what
 * other APIs say in several items (text, thoughts, calls) is one message here. */
typedef struct lap_conversion {
  lap_text text;
  lap_json_writer writer;
  lap_text said, thoughts, calls; /* of the open message */
  int call_count;
  bool open;
} lap_conversion;

void lap_convert_begin(lap_conversion *conversion);

/* A message of a role other than the assistant's. */
void lap_convert_message(lap_conversion *conversion, const char *role, const char *text, size_t length);

/* Additions to the assistant's message. */
void lap_convert_said(lap_conversion *conversion, const char *text, size_t length);
void lap_convert_thought(lap_conversion *conversion, const char *text, size_t length);
/* `arguments` is an object, or a string that holds one. */
void lap_convert_call(lap_conversion *conversion, const lap_json *id, const lap_json *name,
                      const lap_json *arguments);

/* What a tool answered. */
void lap_convert_result(lap_conversion *conversion, const lap_json *id, const char *text, size_t length);

/* Tools come behind all messages, between these two. */
void lap_convert_tools(lap_conversion *conversion);
void lap_convert_tool(lap_conversion *conversion, const lap_json *name, const lap_json *description,
                      const lap_json *parameters);

/* Ends the document and makes it the request's conversation. Errors: MEMORY; FORMAT (nested too deep). */
lap_status lap_convert_end(lap_conversion *conversion, lap_request *request, lap_error *error);
void lap_convert_drop(lap_conversion *conversion);

#endif
