/* compare.h: equality, order, containment and sorting, as Python has them. */
#ifndef LAP_JINJA_COMPARE_H
#define LAP_JINJA_COMPARE_H

#include "jinja/run.h"

bool lap_jinja_equal(state *s, value a, value b);
/* Python's `is`, as far as a template can tell. */
bool lap_jinja_identical(value a, value b);
bool lap_jinja_contains(state *s, value container, value item);
/* LESS, LESS_EQUAL, GREATER, GREATER_EQUAL; fails for types that have no order. */
bool lap_jinja_ordered(state *s, lap_jinja_operation operation, value a, value b);
/* Any comparison. */
bool lap_jinja_compare(state *s, lap_jinja_operation operation, value a, value b);
/* Stable; by `keys` [count], which move along. */
void lap_jinja_sort(state *s, value *items, value *keys, size_t count, bool reverse);

#endif
