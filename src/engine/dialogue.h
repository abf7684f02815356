/* dialogue.h: a conversation that goes on: a turn becomes a prompt, the prompt an answer, the answer a part
 * of the next prompt.
 *
 * Each turn is a request of the whole conversation to a batch of one, whose prompt cache has the keys and
 * values of what was said before: what is computed again is what is new, and where the template spells an
 * earlier answer differently (thoughts that it drops) what follows that place. By the numerics contract the
 * answer is that of a fresh session.
 *
 * Invariant: between calls the conversation ends with an answer, however short, or with calls that wait for
 * their results. A turn that did not get there is not in it. */
#ifndef LAP_ENGINE_DIALOGUE_H
#define LAP_ENGINE_DIALOGUE_H

#include "engine/batch.h"
#include "text/chat.h"
#include "text/transcript.h"

typedef struct lap_dialogue lap_dialogue;

/* Asked before each forward pass: `done` of the prompt's `total` tokens are in the caches, all of them once
 * the model answers. False stops the answer. */
typedef bool lap_go_on(void *context, int64_t done, int64_t total);

typedef struct lap_dialogue_options {
  int threads; /* 0: the cores available */
  int chunk;   /* tokens of a prompt between two calls of go_on; 0: the library's */
  lap_path path;
  const char *attention; /* as in lap_session_options */
  int64_t context;       /* tokens, prompt and answer; 0: the model's limit */
  int64_t max_tokens;    /* of an answer; 0: until the model ends or the context is full */
  /* Answer number n of a conversation (of its messages) draws with seed + n: it depends on what was said, not
   * on how often something was tried before. */
  lap_sampling sampling;
  lap_thinking thinking;
  bool allow_special; /* control tokens spelled in messages count as such */
  lap_say *say;       /* gets what the model says, as it comes; returning false stops the answer. Or NULL */
  lap_go_on *go_on;   /* or NULL */
  void *receiver;     /* the context of these two */
} lap_dialogue_options;

typedef enum lap_turn_end {
  LAP_TURN_ANSWERED,
  LAP_TURN_CALLS,   /* lap_dialogue_call; go on with results */
  LAP_TURN_LENGTH,  /* max_tokens */
  LAP_TURN_CONTEXT, /* the context is full */
  LAP_TURN_STOPPED  /* go_on or say said so */
} lap_turn_end;

/* How an answer came about. */
typedef struct lap_turn {
  lap_turn_end end;
  bool taken_back; /* nothing was said: the conversation is as before the turn */
  int64_t prompt_tokens;
  int64_t cached_tokens;    /* of them, that were not computed */
  int64_t evaluated_tokens; /* that were */
  int64_t generated_tokens; /* without the end token */
  double prompt_seconds;
  double decode_seconds;
} lap_turn;

/* The model must outlive it. Errors: those of lap_model_open_chat and lap_batch_create; ARGUMENT (sampling).
 */
lap_status lap_dialogue_create(lap_model *model, const lap_dialogue_options *options, lap_dialogue **out,
                               lap_error *error);
void lap_dialogue_destroy(lap_dialogue *dialogue);

/* Says something to the model and has it answer. Calls that wait are given up first. Errors: FORMAT (the text
 * is not UTF-8), those of the template and of evaluation; the turn is taken back then. */
lap_status lap_dialogue_say(lap_dialogue *dialogue, const char *text, size_t length, lap_turn *turn,
                            lap_error *error);

/* The next call that waits for a result; NULL if there is none. */
const lap_call *lap_dialogue_call(const lap_dialogue *dialogue);
/* Gives it its result: text, or JSON. Errors: FORMAT (the text is not UTF-8), MEMORY. */
lap_status lap_dialogue_result(lap_dialogue *dialogue, const char *text, size_t length, lap_error *error);
/* After all results: the model goes on. Errors: as lap_dialogue_say. */
lap_status lap_dialogue_go_on(lap_dialogue *dialogue, lap_turn *turn, lap_error *error);
/* Gives up the calls that wait: the turn is taken back, unless something was said beside them. True if it is
 * taken back. */
bool lap_dialogue_give_up(lap_dialogue *dialogue);

/* Everything that follows gives up calls that wait. */

/* Begins anew, with the same system message and tools. */
void lap_dialogue_reset(lap_dialogue *dialogue);
/* NULL: none. Errors: FORMAT (not UTF-8), MEMORY. */
lap_status lap_dialogue_set_system(lap_dialogue *dialogue, const char *text, size_t length, lap_error *error);
void lap_dialogue_set_thinking(lap_dialogue *dialogue, lap_thinking thinking);
/* A list of tools, or of functions, from a file. Errors: IO, FORMAT (naming the file and the field), those of
 * the template. */
lap_status lap_dialogue_read_tools(lap_dialogue *dialogue, const char *path, lap_error *error);

/* Writes the conversation, as transcript.h has it, or replaces it by one. A file's tools, if it has any,
 * replace the dialogue's. Errors: IO, FORMAT (naming the file and the field), those of the template; file or
 * conversation have not changed then. */
lap_status lap_dialogue_save(lap_dialogue *dialogue, const char *path, lap_error *error);
lap_status lap_dialogue_load(lap_dialogue *dialogue, const char *path, lap_error *error);

const lap_transcript *lap_dialogue_transcript(const lap_dialogue *dialogue);
lap_batch_stats lap_dialogue_stats(const lap_dialogue *dialogue);
/* The context limit in force. */
int64_t lap_dialogue_context(const lap_dialogue *dialogue);

#endif
