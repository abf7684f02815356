/* tokenizer_load.c: reads a tokenizer.json into the tables of tokenizer_tables.h.
 *
 * YAJL calls back for every value of the file; no tree is built. A stack of frames (one for each
 * open object or array) says where in the document the reader stands; `known_fields` lists the
 * members that mean something there and the JSON types that they may have. Everything else is
 * skipped. Fields come in any order (merges before the vocabulary, say), so tokens and rules are only
 * collected while reading; ids are checked and looked up when the whole file has been read.
 *
 * Invariant of a loaded tokenizer: every id belongs to one string, every string is valid UTF-8 and
 * at most LAP_TOKEN_MAX_BYTES long, the content of a merged token is that of its parts in a row, and
 * there is an id for any byte (its byte token, or unk). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_parse.h>

#include "base/file.h"
#include "text/tokenizer_tables.h"
#include "text/tokenizer_utf8.h"

enum {
  MAX_DEPTH = 64,
  MAX_FILE_BYTES = 1 << 28
};

/* ---- where the reader stands ----------------------------------------------------------------- */

typedef enum place {
  ROOT,         /* {                                                  */
  ADDED_TOKENS, /*   "added_tokens": [                                */
  ADDED_TOKEN,  /*     {"id", "content", flags}                       */
  STEP,         /*   "normalizer", "pre_tokenizer", "decoder": {"type", */
  STEPS,        /*     of a "Sequence": [ steps ]                     */
  PATTERN,      /*     "pattern": {"String"}                          */
  MODEL,        /*   "model": {                                       */
  VOCAB,        /*     "vocab": {content: id}                         */
  MERGES,       /*     "merges": [ "left right" or                    */
  MERGE,        /*       ["left", "right"]                            */
  SKIPPED       /* something without meaning for this program         */
} place;

typedef enum role {
  NORMALIZER,
  PRE_TOKENIZER,
  DECODER
} role;

typedef enum field {
  F_UNKNOWN,
  F_ADDED_TOKENS,
  F_NORMALIZER,
  F_PRE_TOKENIZER,
  F_DECODER,
  F_MODEL,
  F_ID,
  F_CONTENT,
  F_SPECIAL,
  F_NORMALIZED,
  F_REFUSED_FLAG,
  F_STEP_TYPE,
  F_STEP_PATTERN,
  F_STEP_CONTENT,
  F_INVERT,
  F_STEPS,
  F_STRING,
  F_REGEX,
  F_MODEL_TYPE,
  F_UNK_TOKEN,
  F_AFFIX,
  F_DROPOUT,
  F_FUSE_UNK,
  F_BYTE_FALLBACK,
  F_IGNORE_MERGES,
  F_VOCAB,
  F_MERGES
} field;

enum {
  IS_NULL = 1,
  IS_BOOL = 2,
  IS_NUMBER = 4,
  IS_STRING = 8,
  IS_ARRAY = 16,
  IS_OBJECT = 32,
  IS_ANY = 63
};

typedef struct known_field {
  const char *key;
  place place;
  field field;
  int types;
} known_field;

static const known_field known_fields[] = {
    {"added_tokens", ROOT, F_ADDED_TOKENS, IS_ARRAY | IS_NULL},
    {"normalizer", ROOT, F_NORMALIZER, IS_OBJECT | IS_NULL},
    {"pre_tokenizer", ROOT, F_PRE_TOKENIZER, IS_OBJECT | IS_NULL},
    {"decoder", ROOT, F_DECODER, IS_OBJECT | IS_NULL},
    {"model", ROOT, F_MODEL, IS_OBJECT},
    {"id", ADDED_TOKEN, F_ID, IS_NUMBER},
    {"content", ADDED_TOKEN, F_CONTENT, IS_STRING},
    {"special", ADDED_TOKEN, F_SPECIAL, IS_BOOL},
    {"normalized", ADDED_TOKEN, F_NORMALIZED, IS_BOOL},
    {"lstrip", ADDED_TOKEN, F_REFUSED_FLAG, IS_BOOL},
    {"rstrip", ADDED_TOKEN, F_REFUSED_FLAG, IS_BOOL},
    {"single_word", ADDED_TOKEN, F_REFUSED_FLAG, IS_BOOL},
    {"type", STEP, F_STEP_TYPE, IS_STRING},
    {"pattern", STEP, F_STEP_PATTERN, IS_ANY},
    {"content", STEP, F_STEP_CONTENT, IS_ANY},
    {"invert", STEP, F_INVERT, IS_BOOL},
    {"normalizers", STEP, F_STEPS, IS_ARRAY},
    {"pretokenizers", STEP, F_STEPS, IS_ARRAY},
    {"decoders", STEP, F_STEPS, IS_ARRAY},
    {"String", PATTERN, F_STRING, IS_STRING},
    {"Regex", PATTERN, F_REGEX, IS_STRING},
    {"type", MODEL, F_MODEL_TYPE, IS_STRING},
    {"unk_token", MODEL, F_UNK_TOKEN, IS_STRING | IS_NULL},
    {"continuing_subword_prefix", MODEL, F_AFFIX, IS_STRING | IS_NULL},
    {"end_of_word_suffix", MODEL, F_AFFIX, IS_STRING | IS_NULL},
    {"dropout", MODEL, F_DROPOUT, IS_NUMBER | IS_NULL},
    {"fuse_unk", MODEL, F_FUSE_UNK, IS_BOOL | IS_NULL},
    {"byte_fallback", MODEL, F_BYTE_FALLBACK, IS_BOOL | IS_NULL},
    {"ignore_merges", MODEL, F_IGNORE_MERGES, IS_BOOL | IS_NULL},
    {"vocab", MODEL, F_VOCAB, IS_OBJECT},
    {"merges", MODEL, F_MERGES, IS_ARRAY},
};
enum {
  KNOWN_FIELDS = sizeof known_fields / sizeof known_fields[0]
};

/* What a pattern or replacement is; no others than these two have a meaning here. */
typedef enum step_text {
  NO_TEXT,
  SPACE,
  SPACE_MARK,
  OTHER_TEXT
} step_text;

typedef struct frame {
  place place;
  bool is_array;
  uint32_t index;           /* of an array: elements before the current one */
  char key[48];             /* of an object: the current key, cut to fit */
  const known_field *field; /* what the current key means here, or NULL */
  uint32_t seen;            /* bits by index in known_fields: the key has appeared */
  uint32_t present;         /* bits by field: it has a value that is not null */
  char type[24];            /* STEP */
  step_text pattern, content;
} frame;

typedef struct added_token {
  uint32_t string;
  int32_t id;
  bool special, normalized;
} added_token;

/* A rule's two contents stand one after the other in `merge_text`, so what they join to is there too. */
typedef struct merge_rule {
  uint32_t offset;
  uint16_t left_bytes, right_bytes;
} merge_rule;

typedef struct reader {
  const char *name;
  lap_error *error;
  lap_status status;
  lap_tokenizer *tokenizer;

  frame frames[MAX_DEPTH];
  int depth;
  role role; /* of the step that is open */
  bool replaces_spaces, restores_spaces;

  uint32_t vocab_string; /* number of the current key of model.vocab */
  uint32_t vocab_count;
  size_t longest; /* bytes of the longest token in model.vocab */
  int32_t highest_id;
  added_token *added;
  uint32_t added_count, added_capacity;
  added_token entry; /* the one that is open */
  merge_rule *merges;
  uint32_t merge_count, merge_capacity;
  merge_rule rule; /* the one that is open */
  char *merge_text;
  uint32_t merge_bytes, merge_text_capacity;
  bool byte_fallback;
  bool has_unk;
  uint32_t unk_string;
} reader;

/* A value that is neither array nor object. */
typedef struct scalar {
  int type;
  bool boolean;
  const char *text; /* STRING and NUMBER */
  size_t length;
} scalar;

/* ---- errors ---------------------------------------------------------------------------------- */

/* Where the reader stands, as `model.merges[17][0]`. */
static void format_path(const reader *r, char *out, size_t size) {
  snprintf(out, size, "%s",
           r->depth > 0 && (r->frames[0].is_array || r->frames[0].key[0]) ? "" : "top level");
  for (int i = 0; i < r->depth; i++) {
    const frame *f = &r->frames[i];
    size_t at = strlen(out);
    if (f->is_array)
      snprintf(out + at, size - at, "[%u]", f->index);
    else
      snprintf(out + at, size - at, "%s%s", at && f->key[0] ? "." : "", f->key);
  }
}

/* Records the first error; returns 0, which makes YAJL stop. */
static int refuse(reader *r, lap_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(reader *r, lap_status status, const char *format, ...) {
  char path[160], what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  format_path(r, path, sizeof path);
  r->status = lap_fail(r->error, status, "%s: %s: %s", r->name, path, what);
  return 0;
}

/* The same for a member of the open object that is missing or is judged late. */
static int refuse_member(reader *r, const char *key, lap_status status, const char *what, const char *value) {
  snprintf(r->frames[r->depth - 1].key, sizeof r->frames[0].key, "%s", key);
  return value ? refuse(r, status, "\"%s\" %s", value, what) : refuse(r, status, "%s", what);
}

static int no_memory(reader *r) {
  r->status = lap_fail(r->error, LAP_ERROR_MEMORY, "%s: out of memory", r->name);
  return 0;
}

/* How many of `length` bytes to show in a message: about 40, whole characters. */
static int shown(const char *text, size_t length) {
  if (length <= 40) return (int)length;
  size_t bytes = 40;
  while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80) bytes--;
  return (int)bytes;
}

static void copy_cut(char *out, size_t size, const char *text, size_t length) {
  size_t bytes = (size_t)shown(text, length);
  if (bytes > size - 1) bytes = size - 1;
  memcpy(out, text, bytes);
  out[bytes] = '\0';
}

static const char *string_text(const reader *r, uint32_t number) {
  return r->tokenizer->strings.text + r->tokenizer->strings.tokens[number].offset;
}

/* ---- helpers for values ---------------------------------------------------------------------- */

static bool equals(const scalar *value, const char *text) {
  return value->length == strlen(text) && memcmp(value->text, text, value->length) == 0;
}

static bool is_utf8(const char *text, size_t length) {
  uint32_t code;
  for (size_t i = 0, bytes; i < length; i += bytes) {
    bytes = (unsigned char)text[i] < 0x80 ? 1 : utf8_decode(text + i, length - i, &code);
    if (bytes == 0) return false;
  }
  return true;
}

static int check_length(reader *r, size_t length) {
  if (length <= LAP_TOKEN_MAX_BYTES) return 1;
  return refuse(r, LAP_ERROR_UNSUPPORTED, "token of %zu bytes, longer than %d", length, LAP_TOKEN_MAX_BYTES);
}

/* YAJL checks UTF-8 only loosely (surrogates and overlong forms pass), hence the check of each new
 * string. */
static int number_string(reader *r, const char *text, size_t length, uint32_t *number) {
  if (!check_length(r, length)) return 0;
  uint32_t before = r->tokenizer->strings.count;
  if (lap_token_strings_add(&r->tokenizer->strings, text, length, number, NULL) != LAP_OK)
    return no_memory(r);
  if (*number == before && !is_utf8(text, length))
    return refuse(r, LAP_ERROR_FORMAT, "token is not valid UTF-8");
  return 1;
}

static int read_id(reader *r, const scalar *value, int32_t *id) {
  bool negative = value->length > 0 && value->text[0] == '-';
  int64_t number = 0;
  for (size_t i = negative; i < value->length; i++) {
    if (value->text[i] < '0' || value->text[i] > '9')
      return refuse(r, LAP_ERROR_FORMAT, "must be an integer");
    if (number <= LAP_TOKEN_MAX_ID) number = number * 10 + (value->text[i] - '0');
  }
  if (negative || number > LAP_TOKEN_MAX_ID)
    return refuse(r, LAP_ERROR_FORMAT, "id %.*s is not within 0..%d", shown(value->text, value->length),
                  value->text, LAP_TOKEN_MAX_ID);
  *id = (int32_t)number;
  return 1;
}

/* Makes room for more than `count` elements of `size` bytes. */
static bool make_room(void **array, uint32_t count, uint32_t *capacity, size_t size) {
  if (count < *capacity) return true;
  uint32_t larger = 2 * count + 256;
  void *grown = realloc(*array, larger * size);
  if (!grown) return false;
  *array = grown;
  *capacity = larger;
  return true;
}

/* ---- model ----------------------------------------------------------------------------------- */

static int read_vocab_entry(reader *r, const scalar *value) {
  lap_token *token = &r->tokenizer->strings.tokens[r->vocab_string];
  if (token->flags & LAP_TOKEN_IN_VOCAB) return refuse(r, LAP_ERROR_FORMAT, "appears twice");
  if (!read_id(r, value, &token->id)) return 0;
  token->flags |= LAP_TOKEN_IN_VOCAB;
  if (token->length > r->longest) r->longest = token->length;
  if (token->id > r->highest_id) r->highest_id = token->id;
  r->vocab_count++;
  return 1;
}

/* Appends a part of the open merge to `merge_text`. */
static int keep_merge_text(reader *r, const char *text, size_t length, uint16_t *bytes) {
  if (!check_length(r, length)) return 0;
  void *array = r->merge_text;
  if (!make_room(&array, r->merge_bytes + LAP_TOKEN_MAX_BYTES, &r->merge_text_capacity, 1))
    return no_memory(r);
  r->merge_text = array;
  memcpy(r->merge_text + r->merge_bytes, text, length);
  r->merge_bytes += (uint32_t)length;
  *bytes = (uint16_t)length;
  return 1;
}

static int read_merge_part(reader *r, uint32_t index, const scalar *value) {
  if (index == 0) r->rule.offset = r->merge_bytes;
  if (index >= 2) return 1; /* reported at the end of the array */
  return keep_merge_text(r, value->text, value->length,
                         index == 0 ? &r->rule.left_bytes : &r->rule.right_bytes);
}

static int keep_merge(reader *r) {
  void *array = r->merges;
  if (!make_room(&array, r->merge_count, &r->merge_capacity, sizeof *r->merges)) return no_memory(r);
  r->merges = array;
  r->merges[r->merge_count++] = r->rule;
  return 1;
}

/* The older spelling "left right"; tokens of this form hold no space. */
static int read_merge_string(reader *r, const scalar *value) {
  const char *space = memchr(value->text, ' ', value->length);
  const char *end = value->text + value->length;
  if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
    return refuse(r, LAP_ERROR_FORMAT, "must be two tokens with one space between them");
  const scalar left = {.text = value->text, .length = (size_t)(space - value->text)};
  const scalar right = {.text = space + 1, .length = (size_t)(end - space - 1)};
  return read_merge_part(r, 0, &left) && read_merge_part(r, 1, &right) && keep_merge(r);
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static int keep_added_token(reader *r) {
  void *array = r->added;
  if (!make_room(&array, r->added_count, &r->added_capacity, sizeof *r->added)) return no_memory(r);
  r->added = array;
  r->added[r->added_count++] = r->entry;
  if (r->entry.id > r->highest_id) r->highest_id = r->entry.id;
  return 1;
}

static bool has(const frame *f, field which) {
  return f->present >> which & 1;
}

static int end_added_token(reader *r, const frame *f) {
  if (!has(f, F_ID)) return refuse_member(r, "id", LAP_ERROR_FORMAT, "missing", NULL);
  if (!has(f, F_CONTENT)) return refuse_member(r, "content", LAP_ERROR_FORMAT, "missing", NULL);
  /* A normalized token is sought after the spaces have been replaced. Where its content has neither
   * a space nor the mark, that is the same as in the text as given. */
  const char *content = string_text(r, r->entry.string);
  size_t length = r->tokenizer->strings.tokens[r->entry.string].length;
  if (r->entry.normalized && (memchr(content, ' ', length) || memmem(content, length, LAP_SPACE_MARK, 3)))
    return refuse_member(r, "normalized", LAP_ERROR_UNSUPPORTED,
                         "true is not supported for content with spaces", NULL);
  return keep_added_token(r);
}

/* ---- normalizer, pre_tokenizer, decoder ------------------------------------------------------ */

static step_text step_text_of(const scalar *value) {
  if (equals(value, " ")) return SPACE;
  return equals(value, LAP_SPACE_MARK) ? SPACE_MARK : OTHER_TEXT;
}

static bool replaces(const frame *f, step_text pattern, step_text content) {
  return strcmp(f->type, "Replace") == 0 && f->pattern == pattern && f->content == content;
}

/* Only the steps of Gemma's files are known; any other one would change the text. The Split on " "
 * finds no space after the normalizer, whatever its behavior. */
static int end_step(reader *r, const frame *f) {
  if (!has(f, F_STEP_TYPE)) return refuse_member(r, "type", LAP_ERROR_FORMAT, "missing", NULL);
  if (strcmp(f->type, "Sequence") == 0) return 1;
  switch (r->role) {
    case NORMALIZER:
      if (!replaces(f, SPACE, SPACE_MARK)) break;
      r->replaces_spaces = true;
      return 1;
    case PRE_TOKENIZER:
      if (strcmp(f->type, "Split") != 0 || f->pattern != SPACE) break;
      return 1;
    case DECODER:
      if (replaces(f, SPACE_MARK, SPACE)) return r->restores_spaces = true;
      if (strcmp(f->type, "ByteFallback") == 0) return r->tokenizer->decodes_bytes = true;
      if (strcmp(f->type, "Fuse") == 0) return 1;
      break;
  }
  return refuse_member(r, "type", LAP_ERROR_UNSUPPORTED, "with these settings is not supported", f->type);
}

/* ---- members --------------------------------------------------------------------------------- */

static int read_bool(reader *r, const scalar *value, const frame *f) {
  switch (f->field->field) {
    case F_SPECIAL:
      r->entry.special = value->boolean;
      return 1;
    case F_NORMALIZED:
      r->entry.normalized = value->boolean;
      return 1;
    case F_FUSE_UNK:
      r->tokenizer->fuse_unk = value->boolean;
      return 1;
    case F_BYTE_FALLBACK:
      r->byte_fallback = value->boolean;
      return 1;
    default: /* lstrip, rstrip, single_word, invert, ignore_merges */
      return value->boolean ? refuse(r, LAP_ERROR_UNSUPPORTED, "true is not supported") : 1;
  }
}

static int read_string(reader *r, const scalar *value, frame *f) {
  switch (f->field->field) {
    case F_CONTENT:
      return number_string(r, value->text, value->length, &r->entry.string);
    case F_UNK_TOKEN:
      r->has_unk = true;
      return number_string(r, value->text, value->length, &r->unk_string);
    case F_STEP_TYPE:
      copy_cut(f->type, sizeof f->type, value->text, value->length);
      return 1;
    case F_STEP_PATTERN:
      f->pattern = step_text_of(value);
      return 1;
    case F_STEP_CONTENT:
      f->content = step_text_of(value);
      return 1;
    case F_STRING:
      r->frames[r->depth - 2].pattern = step_text_of(value);
      return 1;
    case F_REGEX:
      r->frames[r->depth - 2].pattern = OTHER_TEXT;
      return 1;
    case F_MODEL_TYPE:
      if (equals(value, "BPE")) return 1;
      return refuse(r, LAP_ERROR_UNSUPPORTED, "\"%.*s\" is not supported, only \"BPE\"",
                    shown(value->text, value->length), value->text);
    case F_AFFIX:
      return value->length == 0 ? 1 : refuse(r, LAP_ERROR_UNSUPPORTED, "is not supported");
    default:
      return 1;
  }
}

static int read_number(reader *r, const scalar *value, const frame *f) {
  if (f->field->field == F_ID) return read_id(r, value, &r->entry.id);
  if (f->field->field == F_DROPOUT && strspn(value->text, "0.") < value->length)
    return refuse(r, LAP_ERROR_UNSUPPORTED, "is not supported");
  return 1;
}

static const char *type_names(int types) {
  switch (types & ~IS_NULL) {
    case IS_BOOL:
      return "true or false";
    case IS_NUMBER:
      return "a number";
    case IS_STRING:
      return "a string";
    case IS_ARRAY:
      return "an array";
    default:
      return "an object";
  }
}

/* The types that the value at the reader's position may have. */
static int allowed_types(const frame *f) {
  switch (f->place) {
    case ADDED_TOKENS:
    case STEPS:
      return IS_OBJECT;
    case VOCAB:
      return IS_NUMBER;
    case MERGES:
      return IS_STRING | IS_ARRAY;
    case MERGE:
      return IS_STRING;
    case SKIPPED:
      return IS_ANY;
    default:
      return f->field ? f->field->types : IS_ANY;
  }
}

static int check_type(reader *r, int type) {
  if (r->depth == 0) return type == IS_OBJECT ? 1 : refuse(r, LAP_ERROR_FORMAT, "must be an object");
  frame *f = &r->frames[r->depth - 1];
  int allowed = allowed_types(f);
  if (!(type & allowed)) {
    if (f->place == MERGES) return refuse(r, LAP_ERROR_FORMAT, "must be a string or an array of two strings");
    return refuse(r, LAP_ERROR_FORMAT, "must be %s", type_names(allowed));
  }
  if (!f->is_array && f->field && type != IS_NULL) f->present |= 1u << f->field->field;
  return 1;
}

static int read_scalar(reader *r, const scalar *value) {
  if (!check_type(r, value->type)) return 0;
  frame *f = &r->frames[r->depth - 1];
  int go_on = 1;
  if (f->place == MERGE)
    go_on = read_merge_part(r, f->index, value);
  else if (f->place == MERGES)
    go_on = read_merge_string(r, value);
  else if (f->place == VOCAB)
    go_on = read_vocab_entry(r, value);
  else if (f->place != SKIPPED && f->field && value->type == IS_BOOL)
    go_on = read_bool(r, value, f);
  else if (f->place != SKIPPED && f->field && value->type == IS_NUMBER)
    go_on = read_number(r, value, f);
  else if (f->place != SKIPPED && f->field && value->type == IS_STRING)
    go_on = read_string(r, value, f);
  f->index++;
  return go_on;
}

/* What an array or object is that begins at the reader's position. */
static place place_within(reader *r, const frame *f) {
  if (f->place == ADDED_TOKENS) return ADDED_TOKEN;
  if (f->place == STEPS) return STEP;
  if (f->place == MERGES) return MERGE;
  switch (f->field ? f->field->field : F_UNKNOWN) {
    case F_ADDED_TOKENS:
      return ADDED_TOKENS;
    case F_NORMALIZER:
      r->role = NORMALIZER;
      return STEP;
    case F_PRE_TOKENIZER:
      r->role = PRE_TOKENIZER;
      return STEP;
    case F_DECODER:
      r->role = DECODER;
      return STEP;
    case F_MODEL:
      return MODEL;
    case F_STEPS:
      return STEPS;
    case F_STEP_PATTERN:
      return PATTERN;
    case F_VOCAB:
      return VOCAB;
    case F_MERGES:
      return MERGES;
    default:
      return SKIPPED;
  }
}

static int enter(reader *r, bool is_array) {
  if (!check_type(r, is_array ? IS_ARRAY : IS_OBJECT)) return 0;
  if (r->depth == MAX_DEPTH) return refuse(r, LAP_ERROR_FORMAT, "nested deeper than %d", MAX_DEPTH);
  place within = r->depth == 0 ? ROOT : place_within(r, &r->frames[r->depth - 1]);
  if (within == PATTERN && is_array) within = SKIPPED;
  if (within == ADDED_TOKEN) r->entry = (added_token){0};
  frame *f = &r->frames[r->depth++];
  f->place = within;
  f->is_array = is_array;
  f->index = 0;
  f->key[0] = '\0';
  f->field = NULL;
  f->seen = f->present = 0;
  f->type[0] = '\0';
  f->pattern = f->content = NO_TEXT;
  return 1;
}

static int end_model(reader *r, const frame *f) {
  if (!has(f, F_MODEL_TYPE)) return refuse_member(r, "type", LAP_ERROR_FORMAT, "missing", NULL);
  if (!has(f, F_VOCAB)) return refuse_member(r, "vocab", LAP_ERROR_FORMAT, "missing", NULL);
  if (!has(f, F_MERGES)) return refuse_member(r, "merges", LAP_ERROR_FORMAT, "missing", NULL);
  return 1;
}

static int end_root(reader *r, const frame *f) {
  if (!has(f, F_MODEL)) return refuse_member(r, "model", LAP_ERROR_FORMAT, "missing", NULL);
  if (!r->replaces_spaces)
    return refuse_member(r, "normalizer", LAP_ERROR_UNSUPPORTED,
                         "must replace \" \" by \"" LAP_SPACE_MARK "\"", NULL);
  if (!r->restores_spaces)
    return refuse_member(r, "decoder", LAP_ERROR_UNSUPPORTED, "must replace \"" LAP_SPACE_MARK "\" by \" \"",
                         NULL);
  return 1;
}

static int leave(reader *r) {
  const frame *f = &r->frames[r->depth - 1];
  int go_on = 1;
  if (f->place == ADDED_TOKEN) go_on = end_added_token(r, f);
  if (f->place == STEP) go_on = end_step(r, f);
  if (f->place == MODEL) go_on = end_model(r, f);
  if (f->place == ROOT) go_on = end_root(r, f);
  if (!go_on) return 0;
  r->depth--;
  if (f->place == MERGE && f->index != 2)
    return refuse(r, LAP_ERROR_FORMAT, "must be an array of two strings");
  if (f->place == MERGE && !keep_merge(r)) return 0;
  if (r->depth > 0) r->frames[r->depth - 1].index++;
  return 1;
}

/* ---- YAJL's callbacks ------------------------------------------------------------------------ */

static int on_null(void *context) {
  return read_scalar(context, &(scalar){.type = IS_NULL});
}

static int on_bool(void *context, int value) {
  return read_scalar(context, &(scalar){.type = IS_BOOL, .boolean = value != 0});
}

static int on_number(void *context, const char *text, size_t length) {
  return read_scalar(context, &(scalar){.type = IS_NUMBER, .text = text, .length = length});
}

static int on_string(void *context, const unsigned char *text, size_t length) {
  return read_scalar(context, &(scalar){.type = IS_STRING, .text = (const char *)text, .length = length});
}

static int on_key(void *context, const unsigned char *key, size_t length) {
  reader *r = context;
  frame *f = &r->frames[r->depth - 1];
  const char *text = (const char *)key;
  copy_cut(f->key, sizeof f->key, text, length);
  if (f->place == VOCAB) return number_string(r, text, length, &r->vocab_string);
  f->field = NULL;
  if (f->place == SKIPPED) return 1;
  for (uint32_t i = 0; i < KNOWN_FIELDS; i++) {
    if (known_fields[i].place != f->place ||
        !equals(&(scalar){.text = text, .length = length}, known_fields[i].key))
      continue;
    if (f->seen >> i & 1) return refuse(r, LAP_ERROR_FORMAT, "appears twice");
    f->seen |= 1u << i;
    f->field = &known_fields[i];
  }
  return 1;
}

static int on_start_object(void *context) {
  return enter(context, false);
}

static int on_start_array(void *context) {
  return enter(context, true);
}

static int on_end(void *context) {
  return leave(context);
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Where a tokenizer.json comes from: memory, or an open file. */
typedef struct source {
  const char *name;
  const char *text; /* NULL: the file */
  int descriptor;
  size_t length;
} source;

enum {
  PIECE = 1 << 16
};

/* The next `bytes` of the text, which has been read up to `at`: where they are, or NULL and an error. */
static const char *next_piece(const source *from, size_t at, size_t bytes, char room[PIECE],
                              lap_error *error) {
  if (from->text) return from->text + at;
  return lap_file_read_exactly(from->descriptor, from->name, room, bytes, error) == LAP_OK ? room : NULL;
}

static lap_status say_syntax_error(const reader *r, yajl_handle parser, size_t position) {
  unsigned char *text = yajl_get_error(parser, 0, NULL, 0);
  const char *what = text ? (const char *)text : "not JSON";
  lap_status status = lap_fail(r->error, LAP_ERROR_FORMAT, "%s: byte %zu: %.*s", r->name, position,
                               (int)strcspn(what, "\n"), what);
  if (text) yajl_free_error(parser, text);
  return status;
}

/* Parses the text as it is, for the position of its first error. */
static lap_status locate_syntax_error(const reader *r, const char *text, size_t length) {
  yajl_handle parser = yajl_alloc(NULL, NULL, NULL);
  if (!parser) return lap_fail(r->error, LAP_ERROR_MEMORY, "%s: out of memory", r->name);
  yajl_status parsed = yajl_parse(parser, (const unsigned char *)text, length);
  size_t position = parsed == yajl_status_ok ? length : yajl_get_bytes_consumed(parser);
  if (parsed == yajl_status_ok) yajl_complete_parse(parser);
  lap_status status = say_syntax_error(r, parser, position);
  yajl_free(parser);
  return status;
}

static lap_status syntax_error(const reader *r, const source *from) {
  char *text;
  size_t length;
  if (from->text) return locate_syntax_error(r, from->text, from->length);
  lap_status status = lap_file_read(from->name, MAX_FILE_BYTES, &text, &length, r->error);
  if (status == LAP_OK) status = locate_syntax_error(r, text, length);
  free(text);
  return status;
}

static lap_status feed(reader *r, yajl_handle parser, const source *from) {
  char room[PIECE];
  yajl_status parsed = yajl_status_ok;
  for (size_t at = 0, bytes; at < from->length && parsed == yajl_status_ok; at += bytes) {
    bytes = from->length - at < PIECE ? from->length - at : PIECE;
    const char *piece = next_piece(from, at, bytes, room, r->error);
    if (!piece) return LAP_ERROR_IO;
    parsed = yajl_parse(parser, (const unsigned char *)piece, bytes);
  }
  if (parsed == yajl_status_ok) parsed = yajl_complete_parse(parser);
  if (r->status != LAP_OK || parsed == yajl_status_ok) return r->status;
  return syntax_error(r, from);
}

static lap_status parse(reader *r, const source *from) {
  static const yajl_callbacks callbacks = {
      .yajl_null = on_null,
      .yajl_boolean = on_bool,
      .yajl_number = on_number,
      .yajl_string = on_string,
      .yajl_start_map = on_start_object,
      .yajl_map_key = on_key,
      .yajl_end_map = on_end,
      .yajl_start_array = on_start_array,
      .yajl_end_array = on_end,
  };
  yajl_handle parser = yajl_alloc(&callbacks, NULL, r);
  if (!parser) return lap_fail(r->error, LAP_ERROR_MEMORY, "%s: out of memory", r->name);
  lap_status status = feed(r, parser, from);
  yajl_free(parser);
  return status;
}

/* ---- tables of ids --------------------------------------------------------------------------- */

static lap_status no_memory_status(const reader *r) {
  return lap_fail(r->error, LAP_ERROR_MEMORY, "%s: out of memory", r->name);
}

/* Quotes a token in a message: two arguments for "\"%.*s\"". */
#define QUOTED(r, number) \
  shown(string_text(r, number), r->tokenizer->strings.tokens[number].length), string_text(r, number)

static lap_status build_vocab_ids(reader *r) {
  lap_tokenizer *t = r->tokenizer;
  if (r->vocab_count == 0) return lap_fail(r->error, LAP_ERROR_FORMAT, "%s: model.vocab: empty", r->name);
  t->size = r->highest_id + 1;
  t->by_id = malloc((size_t)t->size * sizeof *t->by_id);
  if (!t->by_id) return no_memory_status(r);
  for (int32_t i = 0; i < t->size; i++) t->by_id[i] = UINT32_MAX;
  for (uint32_t i = 0; i < t->strings.count; i++) {
    const lap_token *token = &t->strings.tokens[i];
    if (!(token->flags & LAP_TOKEN_IN_VOCAB)) continue;
    uint32_t other = t->by_id[token->id];
    if (other != UINT32_MAX)
      return lap_fail(r->error, LAP_ERROR_FORMAT, "%s: model.vocab: \"%.*s\" and \"%.*s\" both have id %d",
                      r->name, QUOTED(r, other), QUOTED(r, i), token->id);
    t->by_id[token->id] = i;
  }
  return LAP_OK;
}

static lap_status build_added_ids(reader *r) {
  lap_tokenizer *t = r->tokenizer;
  size_t bytes[2] = {0, 0};
  for (uint32_t i = 0; i < r->added_count; i++) {
    const added_token *added = &r->added[i];
    lap_token *token = &t->strings.tokens[added->string];
    uint32_t other = t->by_id[added->id];
    if (other != UINT32_MAX && other != added->string)
      return lap_fail(r->error, LAP_ERROR_FORMAT,
                      "%s: added_tokens[%u].id: \"%.*s\" and \"%.*s\" both have id %d", r->name, i,
                      QUOTED(r, other), QUOTED(r, added->string), added->id);
    if (token->id >= 0 && token->id != added->id)
      return lap_fail(r->error, LAP_ERROR_FORMAT,
                      "%s: added_tokens[%u].id: \"%.*s\" has id %d here and %d elsewhere", r->name, i,
                      QUOTED(r, added->string), added->id, token->id);
    t->by_id[added->id] = added->string;
    token->id = added->id;
    token->flags |= LAP_TOKEN_ADDED | (added->special ? LAP_TOKEN_SPECIAL : 0);
    bytes[added->normalized] += token->length;
  }
  for (int i = 0; i < 4; i++)
    if (lap_trie_init(&t->added[i / 2][i % 2], bytes[i / 2], t->strings.seed, NULL) != LAP_OK)
      return no_memory_status(r);
  for (uint32_t i = 0; i < r->added_count; i++) {
    const added_token *added = &r->added[i];
    const lap_token *token = &t->strings.tokens[added->string];
    bool special = token->flags & LAP_TOKEN_SPECIAL;
    lap_trie_add(&t->added[added->normalized][special], string_text(r, added->string), token->length,
                 added->id);
  }
  return LAP_OK;
}

static uint32_t first_character(const char *text, size_t length) {
  uint32_t code = 0;
  if (length > 0) utf8_decode(text, length, &code);
  return code;
}

static uint32_t last_character(const char *text, size_t length) {
  size_t at = length;
  while (at > 0 && ((unsigned char)text[--at] & 0xc0) == 0x80) continue;
  return first_character(text + at, length - at);
}

/* Rules are resolved in blocks, so that the cache misses of a block's lookups overlap: half a million
 * rules with five lookups each are most of the work of loading that is not parsing. */
enum {
  BLOCK = 64
};

static lap_status unknown_token(const reader *r, uint32_t rank, const char *text, size_t length) {
  return lap_fail(r->error, LAP_ERROR_FORMAT, "%s: model.merges[%u]: \"%.*s\" is not in model.vocab", r->name,
                  rank, shown(text, length), text);
}

/* The id of a query's answer, or -1 if it is no token of the vocabulary. */
static int32_t answered_id(const reader *r, const lap_string_query *query) {
  const lap_token *token = query->number == UINT32_MAX ? NULL : &r->tokenizer->strings.tokens[query->number];
  return token && token->flags & LAP_TOKEN_IN_VOCAB ? token->id : -1;
}

static size_t joined_bytes(const merge_rule *rule) {
  return (size_t)rule->left_bytes + rule->right_bytes;
}

static bool join_to_the_same(const reader *r, const merge_rule *a, const merge_rule *b) {
  return joined_bytes(a) == joined_bytes(b) &&
         memcmp(r->merge_text + a->offset, r->merge_text + b->offset, joined_bytes(a)) == 0;
}

/* Finds the tokens of the rules first..first+count-1: left parts, right parts, and what they join to, for
 * which Gemma's files list all rules in a row: it is sought once. Where that is a special token it is -1:
 * trusted text has none of its content left to join, other text must not arrive at it. */
static lap_status resolve_block(const reader *r, uint32_t first, uint32_t count, lap_merge out[BLOCK]) {
  const merge_rule *rules = r->merges + first;
  lap_string_query queries[3 * BLOCK];
  uint32_t parts[BLOCK], joined[BLOCK], asked = 0;
  for (uint32_t i = 0; i < count; i++) {
    const char *text = r->merge_text + rules[i].offset;
    if (i > 0 && join_to_the_same(r, &rules[i - 1], &rules[i])) {
      joined[i] = joined[i - 1];
    } else {
      joined[i] = asked++;
      queries[joined[i]] = (lap_string_query){.text = text, .length = joined_bytes(&rules[i])};
    }
    parts[i] = asked;
    queries[asked++] = (lap_string_query){.text = text, .length = rules[i].left_bytes};
    queries[asked++] = (lap_string_query){.text = text + rules[i].left_bytes, .length = rules[i].right_bytes};
  }
  lap_token_strings_find_all(&r->tokenizer->strings, queries, asked);
  for (uint32_t i = 0; i < count; i++) {
    const lap_string_query *of_rule[] = {&queries[parts[i]], &queries[parts[i] + 1], &queries[joined[i]]};
    int32_t ids[3];
    for (int part = 0; part < 3; part++) {
      ids[part] = answered_id(r, of_rule[part]);
      if (ids[part] < 0) return unknown_token(r, first + i, of_rule[part]->text, of_rule[part]->length);
    }
    const bool special = r->tokenizer->strings.tokens[of_rule[2]->number].flags & LAP_TOKEN_SPECIAL;
    out[i] = (lap_merge){
        .left = ids[0], .right = ids[1], .rank = (int32_t)(first + i), .merged = special ? -1 : ids[2]};
  }
  return LAP_OK;
}

static void note_boundary(const reader *r, const merge_rule *rule) {
  const char *right = r->merge_text + rule->offset + rule->left_bytes;
  lap_merges_note_boundary(&r->tokenizer->merges, last_character(right - rule->left_bytes, rule->left_bytes),
                           first_character(right, rule->right_bytes));
}

static lap_status build_merges(reader *r) {
  lap_merges *merges = &r->tokenizer->merges;
  if (lap_merges_init(merges, r->merge_count, r->tokenizer->strings.seed, NULL) != LAP_OK)
    return no_memory_status(r);
  for (uint32_t first = 0, count; first < r->merge_count; first += count) {
    count = r->merge_count - first < BLOCK ? r->merge_count - first : BLOCK;
    lap_merge block[BLOCK];
    lap_status status = resolve_block(r, first, count, block);
    if (status != LAP_OK) return status;
    for (uint32_t i = 0; i < count; i++) lap_merges_prefetch(merges, block[i].left, block[i].right);
    for (uint32_t i = 0; i < count; i++) {
      if (block[i].merged < 0) continue;
      lap_merges_set(merges, block[i]);
      note_boundary(r, &r->merges[first + i]);
    }
  }
  return LAP_OK;
}

static int32_t vocab_id(const lap_tokenizer *t, const char *text, size_t length) {
  uint32_t number = lap_token_strings_find(&t->strings, text, length);
  if (number == UINT32_MAX || !(t->strings.tokens[number].flags & LAP_TOKEN_IN_VOCAB)) return -1;
  return t->strings.tokens[number].id;
}

static lap_status build_unk(reader *r) {
  lap_tokenizer *t = r->tokenizer;
  const lap_token *unk = &t->strings.tokens[r->unk_string];
  if (!(unk->flags & LAP_TOKEN_IN_VOCAB))
    return lap_fail(r->error, LAP_ERROR_FORMAT, "%s: model.unk_token: \"%.*s\" is not in model.vocab",
                    r->name, QUOTED(r, r->unk_string));
  t->unk = unk->id;
  t->unk_first = first_character(string_text(r, r->unk_string), unk->length);
  t->unk_last = last_character(string_text(r, r->unk_string), unk->length);
  return LAP_OK;
}

/* The ids with which merging begins, for single bytes and unknown characters. */
static lap_status build_base_ids(reader *r) {
  lap_tokenizer *t = r->tokenizer;
  t->unk = -1;
  if (r->has_unk) {
    lap_status status = build_unk(r);
    if (status != LAP_OK) return status;
  }
  for (int byte = 0; byte < 256; byte++) {
    char name[8], character = (char)byte;
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    t->bytes[byte] = r->byte_fallback ? vocab_id(t, name, 6) : -1;
    if (t->bytes[byte] < 0 && t->unk < 0)
      return lap_fail(r->error, LAP_ERROR_FORMAT, "%s: model.unk_token: missing, and so is byte token %s",
                      r->name, name);
    if (byte < 128) t->ascii[byte] = lap_character_id(t, &character, 1);
  }
  return LAP_OK;
}

/* ---- public ---------------------------------------------------------------------------------- */

static lap_status load(reader *r, const source *from) {
  /* Gemma's files hold about one string for 127 bytes; at 64 the table need not grow. */
  if (lap_token_strings_init(&r->tokenizer->strings, from->length / 64, NULL) != LAP_OK)
    return no_memory_status(r);
  lap_status status = parse(r, from);
  if (status == LAP_OK) status = build_vocab_ids(r);
  if (status == LAP_OK) status = build_added_ids(r);
  if (status == LAP_OK) status = build_merges(r);
  if (status == LAP_OK) status = build_base_ids(r);
  return status;
}

static lap_status open_source(const source *from, lap_tokenizer **out, lap_error *error) {
  *out = NULL;
  if (from->length > MAX_FILE_BYTES)
    return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: file of %zu bytes, larger than %d", from->name,
                    from->length, MAX_FILE_BYTES);
  reader *r = calloc(1, sizeof *r);
  lap_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
  lap_status status = LAP_OK;
  if (!r || !tokenizer) {
    status = lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", from->name);
    goto cleanup;
  }
  r->name = from->name;
  r->error = error;
  r->tokenizer = tokenizer;
  r->highest_id = -1;
  status = load(r, from);
  if (status != LAP_OK) goto cleanup;
  *out = tokenizer;
  tokenizer = NULL;
cleanup:
  if (r) {
    free(r->added);
    free(r->merges);
    free(r->merge_text);
  }
  free(r);
  lap_tokenizer_close(tokenizer);
  return status;
}

lap_status lap_tokenizer_open_memory(const char *text, size_t length, const char *name, lap_tokenizer **out,
                                     lap_error *error) {
  const source from = {.name = name, .text = text ? text : "", .length = length};
  return open_source(&from, out, error);
}

lap_status lap_tokenizer_open(const char *path, lap_tokenizer **out, lap_error *error) {
  int descriptor;
  uint64_t bytes;
  *out = NULL;
  lap_status status = lap_file_open(path, &descriptor, &bytes, error);
  if (status != LAP_OK) return status;
  const source from = {.name = path, .descriptor = descriptor, .length = (size_t)bytes};
  status = open_source(&from, out, error);
  close(descriptor);
  return status;
}
