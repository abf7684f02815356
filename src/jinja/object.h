/* object.h: what values point to, inside this folder.
 *
 * Invariant: everything here lies in one arena, points only to the same arena, to the context that a render
 * copied from or to the template, and so nothing is ever freed alone. A string's `marks`, where it has them,
 * say for each byte whether it is the template's; without marks all bytes are as `from_template` says. */
#ifndef LAP_JINJA_OBJECT_H
#define LAP_JINJA_OBJECT_H

#include <string.h>

#include "jinja/value.h"

/* Short names for this folder. */
typedef lap_jinja_value value;
typedef lap_jinja_string string;
typedef lap_jinja_list list;
typedef lap_jinja_dict dict;
typedef lap_jinja_arena arena;

/* ---- the arena ---- */

typedef struct lap_jinja_chunk lap_jinja_chunk;

struct lap_jinja_arena {
  lap_jinja_chunk *chunk; /* the newest; allocation happens there */
  size_t bytes, max_bytes;
  uint64_t hash_key[2]; /* of the dicts */
  bool failed;
  /* Called in place of failing, if not NULL, and does not return; `refused`: the arena's own limit. */
  void (*exhausted)(void *context, bool refused);
  void *exhausted_context;
};

void lap_jinja_arena_init(arena *a, size_t max_bytes);
void lap_jinja_arena_clear(arena *a);
/* Memory for anything, not cleared; NULL, or no return, if there is none. */
void *lap_jinja_take(arena *a, size_t bytes);
/* `count` elements of `size` bytes; an overflow is a failure like any other. */
void *lap_jinja_take_array(arena *a, size_t count, size_t size);
/* Grows what lap_jinja_take returned, in place where it was the last; the old bytes stay. */
void *lap_jinja_grow(arena *a, void *old, size_t old_bytes, size_t bytes);

/* ---- strings ---- */

/* Room behind a string, so that a text built by repeated concatenation is not copied each time: whoever holds
 * a string that ends at `used` may append in place. Others keep what they see, which never changes. */
typedef struct lap_jinja_buffer {
  char *data;
  unsigned char *marks; /* [capacity] each */
  size_t used, capacity;
} lap_jinja_buffer;

struct lap_jinja_string {
  const char *text; /* [length], not terminated */
  size_t length;
  const unsigned char *marks; /* [length], or NULL */
  bool from_template;
  lap_jinja_buffer *buffer; /* or NULL */
};

/* A string over bytes that live as long as the arena. */
value lap_jinja_over(arena *a, const char *text, size_t length, bool from_template);
/* The same of a terminated C string. */
value lap_jinja_literal(arena *a, const char *text, bool from_template);
/* Part of a string, sharing its bytes. */
value lap_jinja_slice(arena *a, const string *s, size_t begin, size_t length);

static inline value lap_jinja_string_value(const string *s) {
  return (value){.type = LAP_JINJA_STRING, .string = s};
}

static inline bool lap_jinja_same_text(const string *a, const string *b) {
  return a->length == b->length && (a->text == b->text || !memcmp(a->text, b->text, a->length));
}

static inline bool lap_jinja_text_is(const string *s, const char *text) {
  return s->length == strlen(text) && !memcmp(s->text, text, s->length);
}

/* ---- lists and dicts ---- */

struct lap_jinja_list {
  value *items;
  size_t count, capacity;
  bool printing; /* so that a list in itself prints as [...] */
  bool group;    /* a tuple of groupby, with names for its two parts */
};

list *lap_jinja_list_create(arena *a, size_t capacity);
void lap_jinja_list_push(arena *a, list *l, value item);
void lap_jinja_list_reverse(list *l);
value lap_jinja_list_value(list *l);
value lap_jinja_tuple_value(list *l);
value lap_jinja_pair(arena *a, value first, value second);

typedef struct lap_jinja_entry {
  value key, value;
  uint64_t hash; /* kept only if there is a table */
} lap_jinja_entry;

struct lap_jinja_dict {
  lap_jinja_entry *entries; /* in order of insertion */
  size_t count, capacity;
  uint32_t *slot; /* entry + 1 by hash, or 0; NULL while the dict is small */
  size_t slots;
  const uint64_t *hash_key;
  bool printing;
};

dict *lap_jinja_dict_create(arena *a);
/* May `key` be a key? Not if it is or holds something that changes. */
bool lap_jinja_hashable(value key);
/* For hashable keys: where the value is, or NULL. */
value *lap_jinja_dict_find(const dict *d, value key);
void lap_jinja_dict_put(arena *a, dict *d, value key, value item);
/* False if there is no such key. */
bool lap_jinja_dict_remove(dict *d, value key, value *out);
void lap_jinja_dict_clear(dict *d);

static inline bool lap_jinja_is_number(value v) {
  return v.type == LAP_JINJA_BOOLEAN || v.type == LAP_JINJA_INTEGER || v.type == LAP_JINJA_REAL;
}

/* A number as a double, rounded if need be; and one that is not REAL as an integer. */
static inline double lap_jinja_real_of(value v) {
  return v.type == LAP_JINJA_REAL ? v.real : v.type == LAP_JINJA_BOOLEAN ? v.boolean : (double)v.integer;
}

static inline int64_t lap_jinja_integer_of(value v) {
  return v.type == LAP_JINJA_BOOLEAN ? v.boolean : v.integer;
}

/* Compares numbers exactly, whatever their types: -1, 0, 1, or 2 if one is a NaN. */
int lap_jinja_compare_numbers(value a, value b);

#endif
