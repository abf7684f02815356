/* iterate.h: what can be gone through, and how much there is of it.
 *
 * A loop is not among these, though it has a length: see loop.h. */
#ifndef LAP_JINJA_ITERATE_H
#define LAP_JINJA_ITERATE_H

#include "jinja/run.h"

typedef struct lap_jinja_iterator {
  value over;
  size_t next;
} lap_jinja_iterator;

bool lap_jinja_iterable(value v);
/* Fails if `v` cannot be iterated. */
lap_jinja_iterator lap_jinja_iterate(state *s, value v);
bool lap_jinja_next(state *s, lap_jinja_iterator *iterator, value *out);
list *lap_jinja_collect(state *s, value v);

/* Is it known how many there are, without going through them? */
bool lap_jinja_sized(value v);
/* How many; fails for what is not sized. */
size_t lap_jinja_count(state *s, value v);
bool lap_jinja_truth(state *s, value v);

value lap_jinja_new_generator(state *s, list *items);
value lap_jinja_range_item(const lap_jinja_range *range, size_t index);
/* Puts all of a mapping, or of a list of pairs. */
void lap_jinja_update(state *s, dict *d, value from);

#endif
