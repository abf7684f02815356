/* pattern.h: regular expressions of JSON schemas (`pattern`), as far as they describe whole strings.
 *
 * Alternatives, groups, quantifiers (greedy or not), classes, `.`, \d \w \s and their inverses, \t \n \r \f
 * \v \0 \xHH \uHHHH \u{H...}. `^` and `$` at the ends of the pattern or of one of its outermost alternatives;
 * where they are missing anything may stand. Refused: look-around, back references, \b, \p. */
#ifndef LAP_GRAMMAR_PATTERN_H
#define LAP_GRAMMAR_PATTERN_H

#include "grammar/spelling.h"

typedef struct lap_pattern {
  const lap_expression *expression; /* the contents of strings that match */
  uint32_t min, max;                /* bounds for the number of their characters; LAP_ENDLESS: none */
  const lap_expression *repeated;   /* if not NULL the whole is this, one character, min to max times */
} lap_pattern;

/* Returns NULL, or what is wrong with the pattern, in static words, and the byte of the place. */
const char *lap_pattern_read(const lap_spelling *spelling, const char *text, size_t length, lap_pattern *out,
                             size_t *place);

#endif
