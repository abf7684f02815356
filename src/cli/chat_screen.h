/* chat_screen.h: what the model says, on standard output.
 *
 * On a terminal thoughts are shown, dimmed and apart, and control characters are spelled out, so that no
 * answer and no call moves the cursor or changes a setting. Anywhere else standard output gets the answers as
 * they are and the calls, no thoughts and no escape sequences. */
#ifndef LAP_CLI_CHAT_SCREEN_H
#define LAP_CLI_CHAT_SCREEN_H

#include "lapidary.h"

typedef struct lap_screen {
  bool terminal;
  bool colour; /* thoughts are dimmed: NO_COLOR is not set */
  bool lost;   /* standard output takes no more */
  /* of the answer */
  bool began;
  lap_piece_kind kind; /* of what came last */
  int thought;         /* its number */
  bool line_open;      /* the cursor is not at the beginning of a line */
} lap_screen;

/* `interactive`: somebody sits at the terminal; else nothing is dimmed. */
void lap_screen_open(lap_screen *screen, bool interactive);

/* The next thing that the model says. */
void lap_screen_show(lap_screen *screen, const lap_piece *piece);

/* The answer is over: what follows begins a line. `answered`: there was one, if only an empty one, which is a
 * line too where a program reads. */
void lap_screen_end(lap_screen *screen, bool answered);

#endif
