/* format.h: text made after a pattern: `pattern % values`, pattern.format(...), JSON, dates. */
#ifndef LAP_JINJA_FORMAT_H
#define LAP_JINJA_FORMAT_H

#include "jinja/text.h"

/* Python's `pattern % values`. */
value lap_jinja_format_percent(state *s, const string *pattern, value values);
/* Python's pattern.format(...). */
value lap_jinja_format_braces(state *s, const string *pattern, const lap_jinja_arguments *arguments);

/* How a number or a text is fitted into a field. */
typedef struct lap_jinja_field {
  char align;            /* '<', '>', '^', '=' (between sign and digits), or 0 for the type's own */
  const string *fill;    /* one character; NULL is a space */
  size_t width;          /* in characters */
  int64_t precision;     /* -1: none */
  char sign;             /* '+', ' ' or '-': only for negative ones */
  bool alternate, zeros; /* '#', '0' */
  char grouping;         /* ',' or '_' between thousands, or 0 */
  char conversion;       /* the type: d, x, f, s ...; 0 for none given */
} lap_jinja_field;

/* The character of a code, for %c; fails if there is none. */
const string *lap_jinja_character(state *s, int64_t code);

/* `text` in a field, aligned to the left if nothing else is asked for. */
void lap_jinja_add_field(state *s, lap_jinja_out *out, const string *text, const lap_jinja_field *field,
                         char align);
/* A number, spelled as `field` asks: its conversion is one of d, x, X, o, b, e, E, f, F, g, G. */
void lap_jinja_add_number_field(state *s, lap_jinja_out *out, value number, const lap_jinja_field *field);

#endif
