/* text_operation.h: what filters and methods do with strings. Every result keeps the origin of what it took.
 */
#ifndef LAP_JINJA_TEXT_OPERATION_H
#define LAP_JINJA_TEXT_OPERATION_H

#include "jinja/run.h"

typedef enum lap_jinja_casing {
  CASING_UPPER,
  CASING_LOWER,
  CASING_FOLD,
  CASING_SWAP,
  CASING_CAPITALIZE, /* the first character, the rest lower */
  CASING_TITLE,      /* str.title: after every character without case */
  CASING_WORDS       /* the filter: at the begin, after whitespace and -({[< */
} lap_jinja_casing;

value lap_jinja_change_case(state *s, const string *text, lap_jinja_casing casing);

/* str.isupper, str.islower: a letter with case, and none of the other case. */
bool lap_jinja_has_case(state *s, const string *text, bool upper);

/* Removes characters of `characters` (NULL: whitespace) at the ends. */
value lap_jinja_strip(state *s, const string *text, const string *characters, bool left, bool right);

/* The first `count` occurrences; all if it is negative. */
value lap_jinja_replace(state *s, const string *text, const string *old, const string *new, int64_t count);

/* A string in the middle of `width` characters, with Python's choice where the rest is odd. */
value lap_jinja_center(state *s, const string *text, int64_t width, const string *fill);

/* At a separator, or at whitespace (NULL); at most `max` times, if not negative; from the right. */
list *lap_jinja_split(state *s, const string *text, const string *separator, int64_t max, bool right);
list *lap_jinja_split_lines(state *s, const string *text, bool keep_ends);

/* All items, each as str() has it; fails for others if `strict`. */
value lap_jinja_join(state *s, const string *separator, value items, bool strict);

/* Where `part` is found in [begin, end), or SIZE_MAX; the last place if `last`. */
size_t lap_jinja_find_text(state *s, const string *text, size_t begin, size_t end, const string *part,
                           bool last);

#endif
