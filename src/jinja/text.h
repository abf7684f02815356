/* text.h: a string under construction, with the origin of each byte.
 *
 * The only way to make new text: whoever adds bytes says where they come from. */
#ifndef LAP_JINJA_TEXT_H
#define LAP_JINJA_TEXT_H

#include "jinja/run.h"

/* Starts as {0}. */
typedef struct lap_jinja_out {
  char *data;
  unsigned char *marks; /* 1 = the template's */
  size_t length, capacity;
  size_t max_bytes; /* of the text; 0 = what memory allows */
} lap_jinja_out;

void lap_jinja_add(state *s, lap_jinja_out *out, const char *text, size_t length, bool from_template);
/* A terminated text that the interpreter makes: it counts as context. */
void lap_jinja_add_made(state *s, lap_jinja_out *out, const char *text);
void lap_jinja_add_string(state *s, lap_jinja_out *out, const string *text);
/* Bytes [begin, begin + length) of a string. */
void lap_jinja_add_part(state *s, lap_jinja_out *out, const string *text, size_t begin, size_t length);
/* `count` times the same text. */
void lap_jinja_add_repeated(state *s, lap_jinja_out *out, const string *text, size_t count);
void lap_jinja_add_spaces(state *s, lap_jinja_out *out, size_t count);

/* A string of spaces; none if `count` is negative. */
const string *lap_jinja_new_spaces(state *s, int64_t count);

/* Was byte `index` the template's? */
bool lap_jinja_mark_at(const string *text, size_t index);

/* The text as a value; `out` may go on growing, the value stays. */
value lap_jinja_out_value(state *s, const lap_jinja_out *out);

#endif
