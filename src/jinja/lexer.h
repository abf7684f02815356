/* lexer.h: from the source to tokens.
 *
 * The lexer divides the source into data, tags and what stands in them, and settles all questions of
 * whitespace; the parser then never looks at the source. */
#ifndef LAP_JINJA_LEXER_H
#define LAP_JINJA_LEXER_H

#include "jinja/syntax.h"

/* Fills `tokens` of the compilation, or refuses. */
void lap_jinja_lex(lap_jinja_compiler *c);

#endif
