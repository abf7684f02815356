/* chat.h: a conversation to a prompt, by the checkpoint's own chat template.
 *
 * The template (chat_template.jinja, else what tokenizer_config.json holds) is compiled once. Conversations
 * come in the form of OpenAI's chat completions, as JSON; templates expect a slightly other one, so messages
 * and tools are normalised first (chat_messages.h). What the template writes, and the names of the control
 * tokens that it is given, may become control tokens; what comes from messages and tools stays text. */
#ifndef LAP_TEXT_CHAT_H
#define LAP_TEXT_CHAT_H

#include "base/json.h"

typedef struct lap_chat lap_chat;

/* What a chat needs of a checkpoint. */
typedef struct lap_chat_checkpoint {
  const char *directory;
  const lap_tokenizer *tokenizer;
  int32_t bos, eos; /* -1: none */
} lap_chat_checkpoint;

/* Directory and tokenizer must outlive `*out`, which is read-only and may be shared by threads. Errors:
 * UNSUPPORTED (the checkpoint has no template), FORMAT (template or tokenizer_config.json), IO, MEMORY. */
lap_status lap_chat_open(const lap_chat_checkpoint *checkpoint, lap_chat **out, lap_error *error);
void lap_chat_close(lap_chat *chat);

typedef struct lap_chat_input {
  const lap_json_document *document; /* of all that follows */
  const lap_json *messages;          /* an array */
  const lap_json *tools;             /* an array, or NULL: none */
  const lap_json *variables;         /* more for the template (chat_template_kwargs): an object, or NULL */
  lap_thinking thinking;             /* its variable enable_thinking, unless `variables` has it */
  bool no_generation_prompt;         /* the prompt ends with the last message */
  bool allow_special;                /* control tokens spelled in messages and tools count as such */
} lap_chat_input;

typedef struct lap_chat_prompt {
  char *text; /* [length], then a terminator */
  size_t length;
  int32_t *ids; /* [count], beginning with the checkpoint's BOS exactly once */
  size_t count;
} lap_chat_prompt;

/* `*out` is to be freed, and empty after an error. Errors: FORMAT (a message or a tool, naming its path),
 * ARGUMENT (the template refused the conversation), UNSUPPORTED (images, audio; a limit), MEMORY. */
lap_status lap_chat_render(const lap_chat *chat, const lap_chat_input *conversation, lap_chat_prompt *out,
                           lap_error *error);
void lap_chat_prompt_free(lap_chat_prompt *prompt);

#endif
