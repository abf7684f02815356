/* chat_input.h: what the user types, in whole texts, and Ctrl-C.
 *
 * On a terminal lines are edited with libedit, with a history that may be kept in a file, and a pasted text
 * counts as typed in one piece, line breaks included. Elsewhere lines are read as they come, without prompts.
 * In both a line that ends with a backslash goes on in the next one, and lines between two lines of """ are
 * one text, whatever they hold.
 *
 * On a terminal signals are events: they are blocked in all threads and read where somebody waits or asks, so
 * nothing is interrupted in the middle. For that, lap_input_open must come before any thread. */
#ifndef LAP_CLI_CHAT_INPUT_H
#define LAP_CLI_CHAT_INPUT_H

#include "base/text_buffer.h"

typedef struct lap_input lap_input;

typedef struct lap_input_options {
  bool history; /* kept in a file */
} lap_input_options;

/* Errors: MEMORY, IO (signals). */
lap_status lap_input_open(const lap_input_options *options, lap_input **out, lap_error *error);
void lap_input_close(lap_input *input);

/* Whether somebody sits at a terminal: prompts, notices and progress are wanted. */
bool lap_input_is_interactive(const lap_input *input);

typedef enum lap_input_kind {
  LAP_INPUT_TEXT,      /* one line, or several joined by backslashes */
  LAP_INPUT_BLOCK,     /* what stood between two lines of """ */
  LAP_INPUT_CANCELLED, /* Ctrl-C */
  LAP_INPUT_OVER,      /* the end of the input, or a signal to leave */
  LAP_INPUT_WRONG      /* not a text, or a block without an end: said; nothing more is to be had */
} lap_input_kind;

/* The next text; `*text` [length], without the last line break, is valid until the next call. `remember`: it
 * goes into the history. */
lap_input_kind lap_input_read(lap_input *input, const char *prompt, bool remember, const char **text,
                              size_t *length);

/* True if Ctrl-C was pressed, or a signal to leave came, since the last call or since reading ended. */
bool lap_input_interrupted(lap_input *input);

/* The signal to leave that has come, or 0. */
int lap_input_signal(const lap_input *input);

#endif
