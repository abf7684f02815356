/* gbnf.h: the reader of GBNF, the notation for grammars that llama.cpp's clients send.
 *
 *   name ::= "text" [a-z] [^"\n] . ( a | b )* c+ d? e{2} f{1,} g{1,3}   # a comment
 *
 * A rule goes to the end of its line, and on where an alternative or a parenthesis is open. Escapes in texts
 * and classes: \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH. `.` is any character. `<text>` is the special
 * token of that content, `<[id]>` the one of that id. */
#ifndef LAP_GRAMMAR_GBNF_H
#define LAP_GRAMMAR_GBNF_H

#include "grammar/expression.h"
#include "grammar/vocabulary.h"

/* Adds the rules of a text; `*root` is the number of the rule `root`. `name` must live as long as the rules.
 * Errors: FORMAT, `name: line L, column C: ...`. */
lap_status lap_gbnf_read(lap_rules *rules, const lap_vocabulary *vocabulary, const char *text, size_t length,
                         const char *name, uint32_t *root, lap_error *error);

#endif
