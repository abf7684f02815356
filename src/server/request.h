/* request.h: what clients ask for, whatever the API that they ask in.
 *
 * Each API has a file that reads its bodies into a lap_request and prints answers in its own form (front.h).
 * Conversations are brought into one form, that of chat completions, which src/text/chat.h takes. Reading
 * knows no model; lap_request_prepare (prepare.h) then makes tokens and a grammar of it.
 *
 * Errors of reading are FORMAT or UNSUPPORTED and begin with `request: PATH: `, PATH being the field as the
 * client wrote it. Fields that are not known are ignored. */
#ifndef LAP_SERVER_REQUEST_H
#define LAP_SERVER_REQUEST_H

#include "base/json_write.h"
#include "grammar/grammar.h"
#include "text/chat.h"

enum {
  LAP_MAX_CHOICES = 16, /* of one request: prompts times n */
  LAP_MAX_STOPS = 16,
  LAP_MAX_TOOLS = 512
};

struct lap_front;

typedef enum lap_tool_choice {
  LAP_TOOLS_AUTO,
  LAP_TOOLS_NONE,
  LAP_TOOLS_REQUIRED,
  LAP_TOOLS_NAMED
} lap_tool_choice;

typedef enum lap_form {
  LAP_FORM_FREE,
  LAP_FORM_OBJECT, /* some JSON object */
  LAP_FORM_SCHEMA,
  LAP_FORM_GRAMMAR /* GBNF */
} lap_form;

/* Token ids of one prompt; where the answer begins. */
typedef struct lap_prompt {
  int32_t *ids; /* [count] */
  size_t count;
  char *text; /* that was asked to be repeated in front of the answer, or NULL */
} lap_prompt;

typedef struct lap_request {
  const struct lap_front *front;
  lap_json_document *body;      /* until it is prepared */
  lap_json_document *converted; /* the conversation, where the body has it in another form; until then too */

  bool stream;
  bool include_usage; /* of a stream */
  int n;              /* answers to each prompt */
  int64_t max_tokens; /* 0: until the model ends or the context is full */
  bool ignore_eos;    /* the model does not end */
  lap_sampling sampling;
  lap_logit_bias *biases; /* [sampling.logit_bias_count], the request's */
  bool seeded;
  bool logprobs;
  int top_logprobs;
  char *stop[LAP_MAX_STOPS];
  int stop_count;

  bool chat;                   /* else: raw text */
  lap_chat_input conversation; /* chat */
  lap_tool_choice tool_choice;
  const lap_json *named_tool; /* LAP_TOOLS_NAMED: a string */
  bool single_call;           /* at most one call in an answer */
  lap_form form;
  const lap_json *form_source; /* a schema, or a GBNF text; of `body` */
  const lap_json *raw;         /* not chat: a string, ids, or a list of these */
  bool echo;

  lap_json_document *repeated; /* an object: members of the answer that repeat the request; or NULL */

  /* By lap_request_prepare. */
  lap_prompt *prompt; /* [prompt_count] */
  int prompt_count;
  char **tool; /* [tool_count]: names */
  int tool_count;
  lap_grammar *grammar; /* or NULL */
  bool calls_instead;   /* the answer may be calls of tools, to which the grammar does not apply */
} lap_request;

/* Reads a body [length bytes] of an API; `defaults` is what sampling starts from. `*out` is to be freed, also
 * after an error. Errors: FORMAT, UNSUPPORTED, MEMORY. */
lap_status lap_request_read(const struct lap_front *front, const char *body, size_t length,
                            const lap_sampling *defaults, lap_request *out, lap_error *error);
/* Gives up the body, when nothing of it is needed any more. */
void lap_request_drop_body(lap_request *request);
void lap_request_free(lap_request *request);

/* ---- parts of reading that APIs share; they read members of the body ---- */

/* temperature, top_p, top_k, min_p, seed, the penalties and logit_bias, by all the names in use. */
lap_status lap_read_sampling(lap_request *request, lap_error *error);

/* A string or a list of strings. */
lap_status lap_read_stops(lap_request *request, const char *key, lap_error *error);

/* max_tokens by the first of `keys` (ended by NULL) that is there. */
lap_status lap_read_max_tokens(lap_request *request, const char *const *keys, lap_error *error);

/* enable_thinking, chat_template_kwargs; and reasoning_effort at `effort`, which may be NULL. */
lap_status lap_read_thinking(lap_request *request, const lap_json *effort, lap_error *error);

/* A format as {type: text, json_object, json_schema}; a schema stands at json_schema.schema, or beside the
 * type. Also the member `grammar` of the body. */
lap_status lap_read_form(lap_request *request, const lap_json *format, lap_error *error);

/* Tools for the conversation, in the form of chat completions; NULL or null: none. */
lap_status lap_read_tools(lap_request *request, const lap_json_document *document, const lap_json *tools,
                          lap_error *error);

/* The member of the body, or NULL if it is missing or null. */
const lap_json *lap_body_get(const lap_request *request, const char *key);

/* A member of an object in the body that must be there and a string. */
lap_status lap_read_string(const lap_request *request, const lap_json *object, const char *key,
                           const lap_json **out, lap_error *error);

bool lap_json_is(const lap_json *value, const char *text);

#endif
