/* json.c: YAJL's events become a tree in an arena, and a table finds members.
 *
 * One hash table for the whole document is keyed by (parent, key): it refuses duplicates while
 * parsing and serves lap_json_get afterwards, so an object of a million members costs no more per
 * member than one of three. The hash is SipHash with a random key, because keys come from files and
 * a file must not be able to choose its collisions.
 *
 * Invariant: every node but the root has a parent whose child list holds it, in the order of the
 * text; every member of an object is in the table. Nothing recurses: depth is bounded while parsing
 * and paths are walked upwards. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/file.h"
#include "base/siphash.h"

/* Values in a document: far above any tokenizer or header, low enough that a hostile file of single
 * digits cannot ask for many times its size in nodes. */
enum {
  MAX_VALUES = 8 << 20
};
enum {
  ARENA_CHUNK_BYTES = 64 << 10,
  ARENA_ALIGNMENT = 16
};
enum {
  MAX_SHOWN_KEY = 120,
  MAX_SHOWN_PATH = 240,
  MAX_NUMBER_BYTES = 512
};

typedef struct chunk {
  struct chunk *next;
  size_t used, capacity;
  _Alignas(ARENA_ALIGNMENT) unsigned char data[];
} chunk;

struct lap_json_document {
  const char *file;
  chunk *arena;
  lap_json *root;
  uint64_t hash_key[2];
  const lap_json **slot; /* open addressing, a power of two */
  size_t slots, members;
};

/* ---- arena ---- */

static void *arena_take(lap_json_document *document, size_t bytes) {
  bytes = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
  chunk *current = document->arena;
  if (!current || current->capacity - current->used < bytes) {
    size_t capacity = bytes > ARENA_CHUNK_BYTES ? bytes : ARENA_CHUNK_BYTES;
    chunk *fresh = malloc(sizeof *fresh + capacity);
    if (!fresh) return NULL;
    *fresh = (chunk){.next = current, .capacity = capacity};
    document->arena = current = fresh;
  }
  void *taken = current->data + current->used;
  current->used += bytes;
  return taken;
}

static char *arena_string(lap_json_document *document, const void *bytes, size_t length) {
  char *copy = arena_take(document, length + 1);
  if (!copy) return NULL;
  memcpy(copy, bytes, length);
  copy[length] = '\0';
  return copy;
}

/* ---- the table of members ---- */

static uint64_t hash_member(const lap_json_document *document, const lap_json *parent, const char *key) {
  return lap_siphash(document->hash_key, (uint64_t)(uintptr_t)parent, key, strlen(key));
}

/* The slot that holds the member, or the free one where it belongs. */
static size_t find_slot(const lap_json_document *document, const lap_json *parent, const char *key) {
  size_t mask = document->slots - 1;
  size_t at = (size_t)hash_member(document, parent, key) & mask;
  for (; document->slot[at]; at = (at + 1) & mask)
    if (document->slot[at]->parent == parent && !strcmp(document->slot[at]->key, key)) break;
  return at;
}

static bool grow_table(lap_json_document *document) {
  lap_json_document larger = *document;
  larger.slots = document->slots ? document->slots * 2 : 64;
  larger.slot = calloc(larger.slots, sizeof *larger.slot);
  if (!larger.slot) return false;
  for (size_t i = 0; i < document->slots; i++) {
    const lap_json *member = document->slot[i];
    if (member) larger.slot[find_slot(&larger, member->parent, member->key)] = member;
  }
  free(document->slot);
  *document = larger;
  return true;
}

/* ---- messages ---- */

/* Bytes of `text` to show: at most `limit`, not ending inside a character. */
static int shown_length(const char *text, size_t limit) {
  size_t length = strnlen(text, limit + 1);
  if (length <= limit) return (int)length;
  for (length = limit; length && ((unsigned char)text[length] & 0xc0) == 0x80;) length--;
  return (int)length;
}

static size_t index_in_parent(const lap_json *value) {
  size_t index = 0;
  for (const lap_json *sibling = value->parent->child; sibling != value; sibling = sibling->next) index++;
  return index;
}

/* Appends `.key` or `[index]` to a path of `used` bytes and returns the new length. */
static size_t append_step(char *path, size_t size, size_t used, const char *key, size_t index) {
  if (used >= size) return used;
  int n;
  if (!key) {
    n = snprintf(path + used, size - used, "[%zu]", index);
  } else {
    int shown = shown_length(key, MAX_SHOWN_KEY);
    n = snprintf(path + used, size - used, "%s%.*s%s", used ? "." : "", shown, key, key[shown] ? "..." : "");
  }
  return used + (size_t)n;
}

/* Writes `a.b[3].key`; `key` may be NULL. A path longer than `size` is cut. */
static void write_path(char *path, size_t size, const lap_json *value, const char *key) {
  const lap_json *step[LAP_JSON_MAX_DEPTH + 1];
  int steps = 0;
  size_t used = 0;
  path[0] = '\0';
  for (; value && value->parent; value = value->parent) step[steps++] = value;
  while (steps--)
    used =
        append_step(path, size, used, step[steps]->key, step[steps]->key ? 0 : index_in_parent(step[steps]));
  if (key) append_step(path, size, used, key, 0);
}

static lap_status fail_member(const lap_json_document *document, const lap_json *object, const char *key,
                              lap_error *error, const char *what) {
  char path[MAX_SHOWN_PATH];
  write_path(path, sizeof path, object, key);
  return lap_fail(error, LAP_ERROR_FORMAT, "%s: %s: %s", document->file, path, what);
}

lap_status lap_json_fail(const lap_json_document *document, const lap_json *value, lap_error *error,
                         const char *format, ...) {
  char path[MAX_SHOWN_PATH], what[sizeof error->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  write_path(path, sizeof path, value, NULL);
  return lap_fail(error, LAP_ERROR_FORMAT, "%s: %s%s%s", document->file, path, path[0] ? ": " : "", what);
}

/* ---- building the tree ---- */

typedef struct builder {
  lap_json_document *document;
  lap_json *open;                         /* the array or object whose children are being read */
  lap_json *last[LAP_JSON_MAX_DEPTH + 1]; /* the last child of each open one */
  int depth;
  const char *key; /* of the next value, if `open` is an object */
  size_t values;
  locale_t c_locale;
  lap_error *error;
  lap_status status;
} builder;

static int out_of_memory(builder *b) {
  b->status = lap_fail(b->error, LAP_ERROR_MEMORY, "%s: out of memory", b->document->file);
  return 0;
}

static int refuse(builder *b, const char *key, const char *what) {
  b->status = fail_member(b->document, b->open, key, b->error, what);
  return 0;
}

/* Enters the value in the table of its object; fails for a duplicate key. */
static int add_member(builder *b, lap_json *value) {
  lap_json_document *document = b->document;
  if (document->members * 2 >= document->slots && !grow_table(document)) return out_of_memory(b);
  size_t at = find_slot(document, value->parent, value->key);
  if (document->slot[at]) return refuse(b, value->key, "this key occurs twice");
  document->slot[at] = value;
  document->members++;
  return 1;
}

/* A new node, linked to its parent; NULL if the parse must stop. */
static lap_json *add_value(builder *b, lap_json_type type) {
  if (++b->values > MAX_VALUES) {
    refuse(b, b->key, "too many values in one document");
    return NULL;
  }
  lap_json *value = arena_take(b->document, sizeof *value);
  if (!value) {
    out_of_memory(b);
    return NULL;
  }
  *value = (lap_json){.type = type, .key = b->key, .parent = b->open};
  b->key = NULL;
  if (!b->open) {
    b->document->root = value;
    return value;
  }
  if (value->key && !add_member(b, value)) return NULL;
  if (b->last[b->depth])
    b->last[b->depth]->next = value;
  else
    b->open->child = value;
  b->last[b->depth] = value;
  b->open->length++;
  return value;
}

static int on_null(void *context) {
  return add_value(context, LAP_JSON_NULL) != NULL;
}

static int on_boolean(void *context, int boolean) {
  lap_json *value = add_value(context, LAP_JSON_BOOL);
  if (!value) return 0;
  value->boolean = boolean != 0;
  return 1;
}

/* The exact value of an integer's text, if it is one and fits. */
static bool exact_integer(const char *text, int64_t *out) {
  bool negative = *text == '-';
  int64_t value = 0;
  for (const char *c = text + negative; *c; c++) {
    if (*c < '0' || *c > '9') return false;
    int digit = *c - '0';
    if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return false;
  }
  *out = value;
  return true;
}

static int on_number(void *context, const char *text, size_t length) {
  builder *b = context;
  char copy[MAX_NUMBER_BYTES + 1];
  if (length > MAX_NUMBER_BYTES) return refuse(b, b->key, "a number of more than 512 digits");
  memcpy(copy, text, length);
  copy[length] = '\0';
  lap_json *value = add_value(b, LAP_JSON_REAL);
  if (!value) return 0;
  if (exact_integer(copy, &value->integer)) {
    value->type = LAP_JSON_INTEGER;
    value->real = (double)value->integer;
    return 1;
  }
  value->integer = 0;
  value->real = strtod_l(copy, NULL, b->c_locale);
  if (!isfinite(value->real)) {
    b->status = lap_json_fail(b->document, value, b->error, "%.40s is beyond the range of a double", copy);
    return 0;
  }
  return 1;
}

static int on_string(void *context, const unsigned char *text, size_t length) {
  builder *b = context;
  lap_json *value = add_value(b, LAP_JSON_STRING);
  if (!value) return 0;
  value->string = arena_string(b->document, text, length);
  value->length = length;
  return value->string ? 1 : out_of_memory(b);
}

static int on_key(void *context, const unsigned char *text, size_t length) {
  builder *b = context;
  b->key = arena_string(b->document, text, length);
  if (!b->key) return out_of_memory(b);
  /* A key is a terminated string to everyone else: a NUL inside would hide the rest of it. */
  return strlen(b->key) == length ? 1 : refuse(b, b->key, "a key holds a NUL character");
}

static int open_container(builder *b, lap_json_type type) {
  if (b->depth == LAP_JSON_MAX_DEPTH) return refuse(b, b->key, "nested too deep (more than 64 levels)");
  lap_json *value = add_value(b, type);
  if (!value) return 0;
  b->open = value;
  b->last[++b->depth] = NULL;
  return 1;
}

static int on_start_object(void *context) {
  return open_container(context, LAP_JSON_OBJECT);
}

static int on_start_array(void *context) {
  return open_container(context, LAP_JSON_ARRAY);
}

static int on_end(void *context) {
  builder *b = context;
  b->open = b->open->parent;
  b->depth--;
  return 1;
}

/* ---- parsing ---- */

static lap_status syntax_error(builder *b, yajl_handle parser, size_t position) {
  unsigned char *text = yajl_get_error(parser, 0, NULL, 0);
  if (text) text[strcspn((const char *)text, "\n")] = '\0';
  lap_status status = lap_fail(b->error, LAP_ERROR_FORMAT, "%s: not valid JSON near byte %zu: %.100s",
                               b->document->file, position, text ? (const char *)text : "syntax error");
  if (text) yajl_free_error(parser, text);
  return status;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of `\uXXXX` at `text`, or -1 if no such escape stands there. */
static int escaped_unit(const char *text, const char *end) {
  if (end - text < 6 || text[0] != '\\' || text[1] != 'u') return -1;
  int unit = 0;
  for (int i = 2; i < 6; i++) {
    int digit = hex_digit(text[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/* YAJL turns half a surrogate pair into `?` and swallows the character after it, or into bytes that
 * are not UTF-8: refuse it first. Backslashes stand only in strings, so no tokenizing is needed. */
static const char *find_lone_surrogate(const char *text, size_t length) {
  const char *end = text + length;
  for (const char *at = text; at < end && (at = memchr(at, '\\', (size_t)(end - at))); at += 2) {
    int unit = escaped_unit(at, end);
    if (unit >= 0xd800 && unit <= 0xdbff) {
      int low = escaped_unit(at + 6, end);
      if (low < 0xdc00 || low > 0xdfff) return at;
      at += 6;
    } else if (unit >= 0xdc00 && unit <= 0xdfff) {
      return at;
    }
    if (end - at < 2) break;
  }
  return NULL;
}

static lap_status run_parser(builder *b, const char *text, size_t length) {
  static const yajl_callbacks callbacks = {
      .yajl_null = on_null,
      .yajl_boolean = on_boolean,
      .yajl_number = on_number,
      .yajl_string = on_string,
      .yajl_start_map = on_start_object,
      .yajl_map_key = on_key,
      .yajl_end_map = on_end,
      .yajl_start_array = on_start_array,
      .yajl_end_array = on_end,
  };
  const char *surrogate = find_lone_surrogate(text, length);
  if (surrogate)
    return lap_fail(b->error, LAP_ERROR_FORMAT, "%s: half a surrogate pair at byte %zu", b->document->file,
                    (size_t)(surrogate - text));
  yajl_handle parser = yajl_alloc(&callbacks, NULL, b);
  if (!parser) {
    out_of_memory(b);
    return b->status;
  }
  yajl_status parsed = yajl_parse(parser, (const unsigned char *)text, length);
  size_t position = yajl_get_bytes_consumed(parser);
  if (parsed == yajl_status_ok) {
    parsed = yajl_complete_parse(parser);
    position = length;
  }
  if (parsed == yajl_status_error || (parsed == yajl_status_client_canceled && b->status == LAP_OK))
    b->status = syntax_error(b, parser, position);
  yajl_free(parser);
  return b->status;
}

static lap_json_document *new_document(const char *file) {
  lap_json_document *document = calloc(1, sizeof *document);
  if (!document) return NULL;
  lap_siphash_key(document->hash_key, document);
  document->file = arena_string(document, file, strlen(file));
  if (document->file && grow_table(document)) return document;
  lap_json_free(document);
  return NULL;
}

lap_status lap_json_parse(const char *text, size_t length, const char *file, lap_json_document **out,
                          lap_error *error) {
  *out = NULL;
  builder b = {.document = new_document(file), .error = error};
  if (!b.document) return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", file);
  b.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  lap_status status = b.c_locale ? run_parser(&b, text, length)
                                 : lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", file);
  if (b.c_locale) freelocale(b.c_locale);
  if (status != LAP_OK) {
    lap_json_free(b.document);
    return status;
  }
  *out = b.document;
  return LAP_OK;
}

/* ---- reading a file ---- */

lap_status lap_json_read(const char *path, size_t max_bytes, lap_json_document **out, lap_error *error) {
  char *text;
  size_t bytes;
  *out = NULL;
  lap_status status = lap_file_read(path, max_bytes, &text, &bytes, error);
  if (status != LAP_OK) return status;
  status = bytes ? lap_json_parse(text, bytes, path, out, error)
                 : lap_fail(error, LAP_ERROR_FORMAT, "%s: the file is empty", path);
  free(text);
  return status;
}

void lap_json_free(lap_json_document *document) {
  if (!document) return;
  while (document->arena) {
    chunk *next = document->arena->next;
    free(document->arena);
    document->arena = next;
  }
  free(document->slot);
  free(document);
}

/* ---- reading the tree ---- */

const lap_json *lap_json_root(const lap_json_document *document) {
  return document->root;
}

const lap_json *lap_json_get(const lap_json_document *document, const lap_json *object, const char *key) {
  if (!object || object->type != LAP_JSON_OBJECT) return NULL;
  return document->slot[find_slot(document, object, key)];
}

/* The member, or NULL if it is missing or null. */
static const lap_json *get_value(const lap_json_document *document, const lap_json *object, const char *key) {
  const lap_json *value = lap_json_get(document, object, key);
  return value && value->type != LAP_JSON_NULL ? value : NULL;
}

lap_status lap_json_get_integer(const lap_json_document *document, const lap_json *object, const char *key,
                                int64_t min, int64_t max, int64_t *out, lap_error *error) {
  const lap_json *value = get_value(document, object, key);
  if (!value) return LAP_OK;
  if (value->type != LAP_JSON_INTEGER) return lap_json_fail(document, value, error, "must be an integer");
  if (value->integer < min || value->integer > max)
    return lap_json_fail(document, value, error, "%lld is outside %lld..%lld", (long long)value->integer,
                         (long long)min, (long long)max);
  *out = value->integer;
  return LAP_OK;
}

lap_status lap_json_get_real(const lap_json_document *document, const lap_json *object, const char *key,
                             double min, double max, double *out, lap_error *error) {
  const lap_json *value = get_value(document, object, key);
  if (!value) return LAP_OK;
  if (value->type != LAP_JSON_INTEGER && value->type != LAP_JSON_REAL)
    return lap_json_fail(document, value, error, "must be a number");
  if (!(value->real >= min && value->real <= max))
    return lap_json_fail(document, value, error, "%g is outside %g..%g", value->real, min, max);
  *out = value->real;
  return LAP_OK;
}

lap_status lap_json_get_bool(const lap_json_document *document, const lap_json *object, const char *key,
                             bool *out, lap_error *error) {
  const lap_json *value = get_value(document, object, key);
  if (!value) return LAP_OK;
  if (value->type != LAP_JSON_BOOL) return lap_json_fail(document, value, error, "must be true or false");
  *out = value->boolean;
  return LAP_OK;
}

lap_status lap_json_get_string(const lap_json_document *document, const lap_json *object, const char *key,
                               const char **out, lap_error *error) {
  const lap_json *value = get_value(document, object, key);
  if (!value) return LAP_OK;
  if (value->type != LAP_JSON_STRING) return lap_json_fail(document, value, error, "must be a string");
  if (strlen(value->string) != value->length)
    return lap_json_fail(document, value, error, "holds a NUL character");
  *out = value->string;
  return LAP_OK;
}
