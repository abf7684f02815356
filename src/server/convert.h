/* convert.h: other APIs' conversations, printed as chat completions have them and parsed again.
 *
 * Printing messages costs little beside computing them, and leaves one form for everything that follows. */
#ifndef LAP_SERVER_CONVERT_H
#define LAP_SERVER_CONVERT_H

#include "server/request.h"

/* A document {messages: [...], tools: [...]} being written. An assistant's message is kept open, since what
 * other APIs say in several items (text, thoughts, calls) is one message here. */
typedef struct lap_conversion {
  lap_request *request; /* whose body is read */
  lap_error *error;     /* what went wrong there */
  lap_text text;
  lap_json_writer writer;
  lap_text said, thoughts, calls; /* of the open message */
  int call_count;
  bool open;
} lap_conversion;

/* Makes the conversation of request->body: `add_messages` adds all messages, `add_tool` each of the list
 * `tools`. Errors: theirs; FORMAT (also: nested too deep), MEMORY. */
lap_status lap_convert_request(lap_request *request, lap_status (*add_messages)(lap_conversion *conversion),
                               lap_status (*add_tool)(lap_conversion *conversion, const lap_json *tool),
                               lap_error *error);

/* What is wrong with a value of the body: FORMAT. */
lap_status lap_convert_fail(const lap_conversion *conversion, const lap_json *value, const char *what);
/* lap_read_string, of the body. */
lap_status lap_convert_string(const lap_conversion *conversion, const lap_json *object, const char *key,
                              const lap_json **out);

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

/* A tool of the client's. Errors: FORMAT: the name is none, the description no string. */
lap_status lap_convert_tool(lap_conversion *conversion, const lap_json *name, const lap_json *description,
                            const lap_json *parameters);

#endif
