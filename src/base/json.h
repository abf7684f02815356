/* json.h: a JSON document as a tree that knows where each value stands.
 *
 * YAJL parses (strict grammar, UTF-8 checked, no recursion); this module keeps the values, rejects
 * duplicate keys and documents nested deeper than LAP_JSON_MAX_DEPTH, and reads typed fields with
 * an error that names file and field. Integers are exact int64_t; `1.5`, `1e3` and integers that do
 * not fit are LAP_JSON_REAL. All nodes and strings belong to the document. */
#ifndef LAP_BASE_JSON_H
#define LAP_BASE_JSON_H

#include "base/error.h"

enum {
  LAP_JSON_MAX_DEPTH = 64
};

typedef enum lap_json_type {
  LAP_JSON_NULL,
  LAP_JSON_BOOL,
  LAP_JSON_INTEGER,
  LAP_JSON_REAL,
  LAP_JSON_STRING,
  LAP_JSON_ARRAY,
  LAP_JSON_OBJECT
} lap_json_type;

typedef struct lap_json {
  lap_json_type type;
  bool boolean;            /* BOOL */
  int64_t integer;         /* INTEGER */
  double real;             /* REAL, and the value of INTEGER too */
  const char *string;      /* STRING, terminated; may hold inner NULs, see length */
  size_t length;           /* STRING: bytes; ARRAY and OBJECT: number of children */
  const char *key;         /* name in the parent object, terminated, or NULL */
  struct lap_json *parent; /* NULL for the root */
  struct lap_json *child;  /* ARRAY and OBJECT: first child */
  struct lap_json *next;   /* next sibling */
} lap_json;

typedef struct lap_json_document lap_json_document;

/* Parses `text` [length bytes]. `file` is copied and used in messages only.
 * Errors: FORMAT (syntax, half a surrogate pair, a duplicate key or one that holds a NUL, depth, a number
 * beyond a double, more than 2^23 values), MEMORY. */
lap_status lap_json_parse(const char *text, size_t length, const char *file, lap_json_document **out,
                          lap_error *error);

/* Reads and parses a whole file of at most `max_bytes`. Errors: IO, FORMAT, MEMORY. */
lap_status lap_json_read(const char *path, size_t max_bytes, lap_json_document **out, lap_error *error);

void lap_json_free(lap_json_document *document);

const lap_json *lap_json_root(const lap_json_document *document);

/* The member `key` of an object, or NULL if `object` is NULL, no object, or has no such key.
 * O(1) amortised for objects with many members. */
const lap_json *lap_json_get(const lap_json_document *document, const lap_json *object, const char *key);

/* Fails with `file: path.to.value: <formatted message>`. */
lap_status lap_json_fail(const lap_json_document *document, const lap_json *value, lap_error *error,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Typed members of an object. A missing or null member leaves `*out` as it is and succeeds: the
 * caller puts the default there first. A value of another type or outside [min, max] fails with
 * FORMAT and names the field. */
lap_status lap_json_get_integer(const lap_json_document *document, const lap_json *object, const char *key,
                                int64_t min, int64_t max, int64_t *out, lap_error *error);
lap_status lap_json_get_real(const lap_json_document *document, const lap_json *object, const char *key,
                             double min, double max, double *out, lap_error *error);
lap_status lap_json_get_bool(const lap_json_document *document, const lap_json *object, const char *key,
                             bool *out, lap_error *error);
lap_status lap_json_get_string(const lap_json_document *document, const lap_json *object, const char *key,
                               const char **out, lap_error *error);

#endif
