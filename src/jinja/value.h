/* value.h: the values that templates compute with, and the arena that holds them.
 *
 * A value is a tag and a word. Strings, lists and dicts live in an arena and are freed with it, never alone.
 * Strings are immutable UTF-8 and know for every byte whether it came from the template's own literals (or
 * from a value that the caller vouched for) or from context data; that knowledge follows the bytes through
 * every operation. Dicts keep the order of insertion.
 *
 * For callers: build a context in an arena of your own, with the functions below, and hand it to
 * lap_jinja_render, which copies what a template could change; so one context serves any number of renders
 * and threads, as long as nobody builds on. An arena itself is used by one thread at a time. */
#ifndef LAP_JINJA_VALUE_H
#define LAP_JINJA_VALUE_H

#include "base/error.h"
#include "base/json.h"

typedef enum lap_jinja_type {
  LAP_JINJA_UNDEFINED,
  LAP_JINJA_NONE,
  LAP_JINJA_BOOLEAN,
  LAP_JINJA_INTEGER,
  LAP_JINJA_REAL,
  LAP_JINJA_STRING,
  LAP_JINJA_LIST,
  LAP_JINJA_TUPLE, /* the types from here on, but for DICT, appear only while a template runs */
  LAP_JINJA_DICT,
  LAP_JINJA_VIEW,
  LAP_JINJA_RANGE,
  LAP_JINJA_GENERATOR,
  LAP_JINJA_NAMESPACE,
  LAP_JINJA_LOOP,
  LAP_JINJA_CYCLER,
  LAP_JINJA_JOINER,
  LAP_JINJA_MACRO,
  LAP_JINJA_FUNCTION,
  LAP_JINJA_METHOD
} lap_jinja_type;

typedef struct lap_jinja_string lap_jinja_string;
typedef struct lap_jinja_list lap_jinja_list;
typedef struct lap_jinja_dict lap_jinja_dict;

typedef struct lap_jinja_value {
  lap_jinja_type type;
  bool from_template; /* of booleans, numbers and None: the origin of the text that they become */
  union {
    bool boolean;
    int64_t integer;
    double real;
    const lap_jinja_string *string;
    lap_jinja_list *list; /* LIST, TUPLE */
    lap_jinja_dict *dict; /* DICT, NAMESPACE */
    void *object;         /* the others, and UNDEFINED: what is missing */
  };
} lap_jinja_value;

typedef struct lap_jinja_arena lap_jinja_arena;

/* An arena that grows up to `max_bytes`. Errors: MEMORY. */
lap_status lap_jinja_arena_create(size_t max_bytes, lap_jinja_arena **out, lap_error *error);
void lap_jinja_arena_destroy(lap_jinja_arena *arena);

/* Whether a value could not be built for want of memory. The functions below report nothing: the first
 * failure is remembered, its value is undefined, and lap_jinja_render refuses a context of such an arena. */
bool lap_jinja_arena_failed(const lap_jinja_arena *arena);

lap_jinja_value lap_jinja_undefined(void);
lap_jinja_value lap_jinja_none(void);
lap_jinja_value lap_jinja_boolean(bool boolean);
lap_jinja_value lap_jinja_integer(int64_t integer);
lap_jinja_value lap_jinja_real(double real);

/* Copies `text` [length bytes]; bytes that are not UTF-8 count as characters of their own. `trusted` makes
 * the string as good as a literal of the template (bos_token, say); text from users never is. */
lap_jinja_value lap_jinja_text(lap_jinja_arena *arena, const char *text, size_t length, bool trusted);

lap_jinja_value lap_jinja_new_list(lap_jinja_arena *arena);
lap_jinja_value lap_jinja_new_dict(lap_jinja_arena *arena);
/* These do nothing where `container` is no list, or no dict. */
void lap_jinja_append(lap_jinja_arena *arena, lap_jinja_value container, lap_jinja_value item);
/* `key` is terminated and copied; an older value of the same key is replaced in its place. */
void lap_jinja_set(lap_jinja_arena *arena, lap_jinja_value container, const char *key, lap_jinja_value item);
/* The value of `key`; undefined if there is none, or no dict. */
lap_jinja_value lap_jinja_get(lap_jinja_value container, const char *key);

/* A JSON value and all below it. Integers beyond int64_t are doubles, as base/json.h has them, and are
 * printed as Python prints a float (1e+20). Strings are not trusted. */
lap_jinja_value lap_jinja_from_json(lap_jinja_arena *arena, const lap_json *json);

#endif
