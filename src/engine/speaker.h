/* speaker.h: the one that speaks: chooses each next token, and makes of tokens what is said.
 *
 * A speaker says one text: an answer in a chat's format (chat), or raw text. For each token a grammar, if
 * there is one, narrows the logits, the sampler chooses, the output parser (chat) or the detokenizer (raw)
 * makes text of the token, a stop filter holds back what may become a stop string, and what passes is said:
 * pieces of text and of thoughts, calls of tools, in order, each as soon as it is certain. It knows nothing
 * of passes and caches: who evaluates asks it for the next token. */
#ifndef LAP_ENGINE_SPEAKER_H
#define LAP_ENGINE_SPEAKER_H

#include "base/error.h"

typedef struct lap_speaker lap_speaker;

/* Everything that is pointed to must outlive the speaker, but for `prompt` and `sampling`. */
typedef struct lap_speaker_options {
  lap_model *model;
  bool chat;                /* the output parser divides what the model says; else it is all text */
  const char *const *tools; /* chat [tool_count]: names that calls are resolved to (text/output.h) */
  int tool_count;
  const int32_t *prompt; /* chat [prompt_count]: what the text continues; it may end inside a thought */
  size_t prompt_count;
  bool single_call; /* the first call ends it */

  lap_sampler *sampler;         /* or NULL: one is made, */
  const lap_sampling *sampling; /* of this */
  lap_grammar *grammar;         /* what may be said, or NULL: anything */
  bool calls_instead; /* calls may come instead of what the grammar describes, if it describes none */

  const char *const *stop; /* [stop_count]; looked for in each run of text between thoughts and calls */
  int stop_count;
  bool ignore_eos;   /* end tokens of the checkpoint do not end it; that of a grammar's text still does */
  bool show_special; /* raw: control tokens appear as text */
  bool logprobs;     /* pieces of text have notes, each with */
  int top_logprobs;  /* so many of the most probable tokens */

  lap_say *say; /* gets the pieces */
  void *context;
} lap_speaker_options;

/* Where it stands. */
typedef struct lap_spoken {
  lap_finish finish;       /* NONE: it goes on, or was left */
  const char *stop_string; /* FINISH_STOP: which of the options' */
  int64_t tokens;          /* chosen, the end token included */
  int64_t thought_tokens;  /* of them, in thoughts */
  int32_t last_token;      /* the last one chosen; -1: none */
} lap_spoken;

/* Errors: ARGUMENT (stop, sampling), UNSUPPORTED (grammar), MEMORY, and those of loading the tokenizer. */
lap_status lap_speaker_create(const lap_speaker_options *options, lap_speaker **out, lap_error *error);
void lap_speaker_destroy(lap_speaker *speaker);

/* Chooses the next token from `logits` [vocab_size], which are overwritten; `tokens` [count] are prompt and
 * text so far. Says what has become certain by it. Returns the id, or -1 if the text is complete with it;
 * that includes failures, which lap_speaker_finish tells. */
int32_t lap_speaker_choose(lap_speaker *speaker, float *logits, const int32_t *tokens, int64_t count);

/* The same for a token that was chosen elsewhere. */
void lap_speaker_hear(lap_speaker *speaker, int32_t id);

/* The text is over, by itself or, `at_limit`, because no more tokens may come: says what was held back. To be
 * called once; not where the text was given up. Errors: what has gone wrong since the beginning; nothing is
 * said then. */
lap_status lap_speaker_finish(lap_speaker *speaker, bool at_limit, lap_error *error);

const lap_spoken *lap_speaker_spoken(const lap_speaker *speaker);

#endif
