/* output.h: what the model says, divided into content, thoughts and tool calls while it comes.
 *
 * An answer in Gemma 4's format (docs/gemma4.md 6, 6.1) is content, in between
 *   <|channel>thought\n ... \n<channel|>              a thought
 *   <|tool_call>call:NAME{...}<tool_call|>            a call
 * and ends with <turn|>, or with <|tool_response> where a tool is to speak. Markers are recognised by their
 * token ids; a marker for which the tokenizer has no token, and every marker in text that comes without ids,
 * is recognised as it is spelled. Control tokens that are no markers say nothing and are dropped.
 *
 * The text of the events, put together, and the calls do not depend on how the input was divided.
 *
 * White space next to a thought or a call is layout and dropped (unless it is 256 bytes long); of a thought
 * itself, the line break after its name and one before its end are. All other text is kept as it is, but
 * always valid UTF-8 (U+FFFD for broken parts).
 *
 * A call is reported when it is complete: at its end tag, or where another marker or the end of the answer
 * shows that the tag is missing. A body that is no call (tool_call.h) becomes content, markers and all, so
 * nothing of it is lost. What follows a call's arguments is content. A thought ends where a call begins.
 *
 * After the end of the turn nothing is reported. */
#ifndef LAP_TEXT_OUTPUT_H
#define LAP_TEXT_OUTPUT_H

#include "base/error.h"

enum {
  /* A call longer than this is content. It bounds what the parser holds; a context of 262144 tokens has about
   * a quarter of it. */
  LAP_OUTPUT_MAX_CALL = 1 << 22
};

/* Gets the pieces in order, without notes. What they point to is valid during the call. */
typedef void lap_output_sink(void *context, const lap_piece *piece);

typedef struct lap_output lap_output;

typedef struct lap_output_options {
  const lap_tokenizer *tokenizer; /* NULL: only text will come; must outlive the parser */
  /* The names of the tools [tool_count], or NULL: a call to none of them whose name is one behind the last
   * ':' or
   * '.' (call:google:mcp:NAME) is a call to that one. Must outlive the parser. */
  const char *const *tools;
  int tool_count;
  lap_output_sink *sink;
  void *context;
} lap_output_options;

/* Errors: MEMORY. */
lap_status lap_output_create(const lap_output_options *options, lap_output **out, lap_error *error);
void lap_output_destroy(lap_output *output);

/* The prompt that the answer continues: it may end inside a thought (<|channel>thought\n) or a call, and the
 * answer then begins there. Nothing of it is reported, except as the beginning of a call. To be called before
 * anything else, if at all. Errors: MEMORY. */
lap_status lap_output_prompt(lap_output *output, const int32_t *ids, size_t count, lap_error *error);
lap_status lap_output_prompt_text(lap_output *output, const char *text, size_t length, lap_error *error);

/* The next part of the answer: a token (one that the tokenizer does not have says nothing), or text [length;
 * any bytes]. Events that have become certain are reported before the call returns. Errors: MEMORY. */
lap_status lap_output_token(lap_output *output, int32_t id, lap_error *error);
lap_status lap_output_text(lap_output *output, const char *text, size_t length, lap_error *error);

/* The answer is over, by an end token, a stop string or a limit: reports what was held back. To be called
 * once. Errors: MEMORY. */
lap_status lap_output_finish(lap_output *output, lap_error *error);

/* True once the turn has ended by a marker: nothing that the model goes on to say would be reported. (Not
 * every checkpoint lists <|tool_response> among its end tokens.) */
bool lap_output_ended(const lap_output *output);

#endif
