/* stop.h: text on its way to a reader, ended where one of several strings first appears.
 *
 * Text is let through as soon as it can no longer become part of a stop string, however it was divided:
 * nothing of one is ever let through, and nothing waits longer than it must. The string that is complete
 * first counts; of several that are complete with the same byte, the one that begins first. Time is linear in
 * the text for each string, whatever they hold. One filter for one text. */
#ifndef LAP_TEXT_STOP_H
#define LAP_TEXT_STOP_H

#include "base/error.h"

typedef struct lap_stop lap_stop;

/* `strings` [count] are copied; with none everything passes at once. Errors: ARGUMENT (a string is missing or
 * empty, the count negative, naming `stop`), MEMORY. */
lap_status lap_stop_create(const char *const *strings, int count, lap_stop **out, lap_error *error);
void lap_stop_destroy(lap_stop *stop);

/* A part of a text, and what of it passes. */
typedef struct lap_stop_piece {
  const char *text; /* terminated; valid until the next call */
  size_t length;    /* may be 0 */
} lap_stop_piece;

/* The next part of the text: UTF-8 in whole characters; pieces that pass are too, also where a stop string
 * begins inside a character. Nothing passes after a stop string. Errors: MEMORY. */
lap_status lap_stop_text(lap_stop *stop, const char *text, size_t length, lap_stop_piece *piece,
                         lap_error *error);

/* The text is over: what waited passes. */
void lap_stop_finish(lap_stop *stop, lap_stop_piece *piece);

/* True if a stop string has appeared. */
bool lap_stop_found(const lap_stop *stop);

/* The number of the one that has, in the order in which they were given; -1: none. */
int lap_stop_which(const lap_stop *stop);

#endif
