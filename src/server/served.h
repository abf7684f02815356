/* served.h: the model that a server has, and what all requests share of it. Read-only after opening.
 */
#ifndef LAP_SERVER_SERVED_H
#define LAP_SERVER_SERVED_H

#include "grammar/grammar.h"
#include "text/chat.h"

typedef struct lap_served {
  lap_model *model;
  const lap_tokenizer *tokenizer;
  lap_chat *chat;       /* NULL: the checkpoint has no template */
  lap_error chat_error; /* then: says so */
  char *name;           /* the model's, to clients */
  lap_sampling sampling;
  int64_t context; /* tokens of a request, prompt and answer */
  bool allow_special;
  const char *kv;   /* what the caches are, in the words of the command line */
  const char *path; /* "cut" or "monolith" */
  int64_t created;  /* seconds since 1970 */
  int32_t call_id;  /* tokens of the chat format, or -1 */
  int32_t open_thought_id, close_thought_id;
  int32_t turn_id[3]; /* that end an answer whether they are an end token of the checkpoint or not */
} lap_served;

/* `name` NULL: the directory's. The model must outlive it. Errors: those of the tokenizer, FORMAT (a template
 * that is wrong), MEMORY. */
lap_status lap_served_open(lap_model *model, const char *directory, const char *name, lap_path path,
                           lap_served *out, lap_error *error);
void lap_served_close(lap_served *served);

#endif
