/* loop.h: the `loop` that the body of a `for` sees, and where it is in its iterable. statement.c makes one
 * for each `for` that it executes. */
#ifndef LAP_JINJA_LOOP_H
#define LAP_JINJA_LOOP_H

#include "jinja/iterate.h"

typedef struct lap_jinja_loop {
  const node *definition;
  lap_jinja_scope *scope; /* around the loop */
  value iterable;
  lap_jinja_iterator iterator;
  bool filtered; /* what the iterator gives was filtered already */
  value before, current, after;
  bool has_after;
  size_t index0, length;
  bool has_length;
  int64_t depth0;
  value last_changed; /* a tuple, or undefined before the first call of changed() */
} lap_jinja_loop;

/* Makes the next item that passes the loop's condition `current`; false if there is none. */
bool lap_jinja_advance(state *s, lap_jinja_loop *loop);

/* An attribute of `loop`, or false. */
bool lap_jinja_loop_attribute(state *s, lap_jinja_loop *loop, const string *name, value *out);

/* len(): as lap_jinja_count has it, and of a loop, how many iterations it has in all. */
size_t lap_jinja_length(state *s, value v);

#endif
