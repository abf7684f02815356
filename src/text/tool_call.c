/* tool_call.c: a reader that walks the body once and prints JSON as it goes, by YAJL's generator.
 *
 * Containers that are open stand on a stack of their own, so nesting costs no C stack and ends at
 * LAP_JSON_MAX_DEPTH. What has been printed is thrown away if the body turns out to be no call.
 *
 * Invariant: between two steps `at` is in the body, everything before it has been read and, if it was a
 * value, printed. A function that returns false has found something that is no call (or memory has run out,
 * which `out.failed` tells). */
#include "text/tool_call.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_gen.h>

#include "base/json.h"
#include "base/text_buffer.h"

typedef struct reader {
  const char *at, *end;
  yajl_gen json;
  lap_text out;                    /* what `json` has printed */
  char closer[LAP_JSON_MAX_DEPTH]; /* of each open container: '}', ']' or, of call:NAME(..), ')' */
  int depth;
} reader;

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* A byte of a word: anything printable, of any script. */
static bool is_word(char c) {
  unsigned char byte = (unsigned char)c;
  return byte > ' ' && byte != 0x7f && byte != LAP_TOOL_CALL_QUOTE;
}

static bool is_quote(char c) {
  return c == '"' || c == '\'' || c == '`' || (unsigned char)c == LAP_TOOL_CALL_QUOTE;
}

static char peek(const reader *r) {
  return r->at < r->end ? *r->at : '\0';
}

static bool take(reader *r, char c) {
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static void skip_space(reader *r) {
  while (r->at < r->end && is_space(*r->at)) r->at++;
}

static bool take_text(reader *r, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(r->end - r->at) < length || memcmp(r->at, text, length) != 0) return false;
  r->at += length;
  return true;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print(void *context, const char *bytes, size_t length) {
  lap_text_append(context, bytes, length);
}

static bool put_string(reader *r, const char *text, size_t length) {
  return yajl_gen_string(r->json, (const unsigned char *)text, length) == yajl_gen_status_ok;
}

/* ---- quoted strings -------------------------------------------------------------------------- */

/* A quote inside plain quotes may be part of the text (say "hi" to him); it ends the string only before one
 * of `stops` or the end. */
static bool ends_string(const reader *r, const char *quote, const char *stops) {
  const char *next = quote + 1;
  while (next < r->end && is_space(*next)) next++;
  return next == r->end || (*next && strchr(stops, *next));
}

static int hex_value(const char *digits, const char *end) {
  if (end - digits < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; i++) {
    const char *hex = "0123456789abcdef0123456789ABCDEF";
    const char *digit = digits[i] ? strchr(hex, digits[i]) : NULL;
    if (!digit) return -1;
    value = value * 16 + (int)(digit - hex) % 16;
  }
  return value;
}

static void append_character(lap_text *out, uint32_t code) {
  static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
  size_t trailing = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  char bytes[4] = {(char)(leads[trailing] | code >> 6 * trailing)};
  for (size_t i = 1; i <= trailing; i++) bytes[i] = (char)(0x80 | (code >> 6 * (trailing - i) & 0x3f));
  lap_text_append(out, bytes, trailing + 1);
}

/* `at` stands behind "\u"; returns the bytes that follow there and belong to the escape, or 0 if it is none.
 * Half a surrogate pair is U+FFFD. */
static size_t append_unicode_escape(lap_text *out, const char *at, const char *end) {
  int first = hex_value(at, end);
  if (first < 0) return 0;
  if (first < 0xd800 || first > 0xdfff) {
    append_character(out, (uint32_t)first);
    return 4;
  }
  int second =
      first < 0xdc00 && end - at >= 10 && at[4] == '\\' && at[5] == 'u' ? hex_value(at + 6, end) : -1;
  if (second < 0xdc00 || second > 0xdfff) {
    append_character(out, 0xfffd);
    return 4;
  }
  append_character(out, 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00));
  return 10;
}

/* JSON's escapes, and \' of Python's; `at` stands behind the backslash. Of anything else the backslash is
 * text. Returns how many bytes were read. */
static size_t append_escape(lap_text *out, const char *at, const char *end) {
  static const char letters[] = "\"\\/'bfnrt", values[] = "\"\\/'\b\f\n\r\t";
  const char *letter = at < end && *at ? strchr(letters, *at) : NULL;
  if (letter) {
    lap_text_append(out, &values[letter - letters], 1);
    return 1;
  }
  size_t read = at < end && *at == 'u' ? append_unicode_escape(out, at + 1, end) : 0;
  if (read) return read + 1;
  lap_text_append(out, "\\", 1);
  return 0;
}

/* The text between plain quotes, with its escapes read unless it is in back-quotes. */
static bool read_plain_quoted(reader *r, const char *stops, lap_text *text) {
  char quote = *r->at++;
  const char *from = r->at;
  for (; r->at < r->end; r->at++) {
    if ((unsigned char)*r->at == LAP_TOOL_CALL_QUOTE) return false;
    bool escape = *r->at == '\\' && quote != '`';
    bool end = *r->at == quote && ends_string(r, r->at, stops);
    if (!escape && !end) continue;
    lap_text_append(text, from, (size_t)(r->at - from));
    if (end) {
      r->at++;
      return true;
    }
    from = r->at + 1 + append_escape(text, r->at + 1, r->end);
    r->at = from - 1;
  }
  return false;
}

static bool put_plain_quoted(reader *r, const char *stops) {
  lap_text text = {0};
  lap_text_append(&text, "", 0);
  bool done = read_plain_quoted(r, stops, &text);
  if (text.failed) r->out.failed = true;
  done = done && !text.failed && put_string(r, text.data, text.length);
  lap_text_free(&text);
  return done;
}

/* A string in any quotes, followed by one of `stops`; `at` stands on the first quote. */
static bool put_quoted(reader *r, const char *stops) {
  if ((unsigned char)*r->at != LAP_TOOL_CALL_QUOTE) return put_plain_quoted(r, stops);
  const char *text = ++r->at;
  const char *quote = memchr(text, LAP_TOOL_CALL_QUOTE, (size_t)(r->end - text));
  if (!quote) return false;
  r->at = quote + 1;
  return put_string(r, text, (size_t)(quote - text));
}

/* ---- bare words ------------------------------------------------------------------------------ */

static const char *skip_digits(const char *at, const char *end) {
  while (at < end && is_digit(*at)) at++;
  return at;
}

/* A number as JSON or Python spells it, printed as JSON does. Leading zeros make a word of it (a code). */
static bool put_number(reader *r, const char *at, const char *end, bool *is_number) {
  const char *sign = at;
  if (at < end && (*at == '-' || *at == '+')) at++;
  const char *whole = at, *point = skip_digits(at, end), *fraction = point;
  if (point < end && *point == '.') fraction = skip_digits(point + 1, end);
  const char *exponent = fraction, *digits = fraction;
  if (exponent < end && (*exponent == 'e' || *exponent == 'E')) {
    digits = exponent + 1;
    if (digits < end && (*digits == '-' || *digits == '+')) digits++;
  }
  bool has_digits = point > whole || fraction > point + 1;
  bool has_exponent = digits > exponent;
  const char *last = has_exponent ? skip_digits(digits, end) : fraction;
  *is_number =
      has_digits && last == end && !(has_exponent && last == digits) && !(point - whole > 1 && *whole == '0');
  if (!*is_number) return false;
  lap_text number = {0};
  if (*sign == '-') lap_text_append(&number, "-", 1);
  lap_text_append(&number, point > whole ? whole : "0", point > whole ? (size_t)(point - whole) : 1);
  if (fraction == point + 1)
    lap_text_append(&number, ".0", 2);
  else
    lap_text_append(&number, point, (size_t)(fraction - point));
  lap_text_append(&number, exponent, (size_t)(end - exponent));
  if (number.failed) r->out.failed = true;
  bool done = !number.failed && yajl_gen_number(r->json, number.data, number.length) == yajl_gen_status_ok;
  lap_text_free(&number);
  return done;
}

static bool is_one_of(const char *word, size_t length, const char *const *list) {
  for (; *list; list++)
    if (strlen(*list) == length && memcmp(*list, word, length) == 0) return true;
  return false;
}

static bool put_word(reader *r, const char *word, size_t length) {
  static const char *const trues[] = {"true", "True", NULL};
  static const char *const falses[] = {"false", "False", NULL};
  static const char *const nulls[] = {"null", "None", "nan",      "-nan",      "NaN",
                                      "inf",  "-inf", "Infinity", "-Infinity", NULL};
  if (is_one_of(word, length, trues)) return yajl_gen_bool(r->json, true) == yajl_gen_status_ok;
  if (is_one_of(word, length, falses)) return yajl_gen_bool(r->json, false) == yajl_gen_status_ok;
  if (is_one_of(word, length, nulls)) return yajl_gen_null(r->json) == yajl_gen_status_ok;
  bool is_number;
  bool done = put_number(r, word, word + length, &is_number);
  return is_number ? done : put_string(r, word, length);
}

/* The words up to one of `stops`, without the spaces around them; false if there are none, or something that
 * does not belong in a word. */
static bool read_words(reader *r, const char *stops, const char **words, size_t *length) {
  const char *begin = r->at;
  while (r->at < r->end && (*r->at == ' ' || (is_word(*r->at) && !strchr(stops, *r->at)))) {
    if (strchr("{[\"", *r->at)) return false;
    r->at++;
  }
  const char *end = r->at;
  while (end > begin && end[-1] == ' ') end--;
  *words = begin;
  *length = (size_t)(end - begin);
  return end > begin;
}

/* ---- members --------------------------------------------------------------------------------- */

static bool open_container(reader *r, char closer) {
  if (r->depth == LAP_JSON_MAX_DEPTH) return false;
  r->closer[r->depth++] = closer;
  return (closer == ']' ? yajl_gen_array_open(r->json) : yajl_gen_map_open(r->json)) == yajl_gen_status_ok;
}

static bool close_container(reader *r) {
  char closer = r->closer[--r->depth];
  return (closer == ']' ? yajl_gen_array_close(r->json) : yajl_gen_map_close(r->json)) == yajl_gen_status_ok;
}

/* After a member: a comma, or what closes the container. */
static bool read_separator(reader *r) {
  skip_space(r);
  return take(r, ',') || (r->at < r->end && *r->at == r->closer[r->depth - 1]);
}

static bool read_key(reader *r) {
  const char *key;
  size_t length;
  if (is_quote(peek(r))) {
    if (!put_quoted(r, ":=")) return false;
  } else if (!read_words(r, ":=,}])(", &key, &length) || !put_string(r, key, length)) {
    return false;
  }
  skip_space(r);
  if (!take(r, ':') && !take(r, '=')) return false;
  skip_space(r);
  return true;
}

static bool read_scalar(reader *r) {
  const char *words;
  size_t length;
  /* In call:NAME(..) the parenthesis ends a word, elsewhere it is part of it. */
  const char *stops = r->closer[0] == ')' ? ",}])" : ",}]";
  if (is_quote(peek(r))) return put_quoted(r, stops);
  if (!read_words(r, stops, &words, &length)) return false;
  skip_space(r); /* a line may end behind it */
  return put_word(r, words, length);
}

/* What the open containers still hold, to the end of the outermost. */
static bool read_members(reader *r) {
  while (r->depth > 0) {
    skip_space(r);
    if (take(r, r->closer[r->depth - 1])) {
      if (!close_container(r) || (r->depth > 0 && !read_separator(r))) return false;
      continue;
    }
    if (r->closer[r->depth - 1] != ']' && !read_key(r)) return false;
    bool opened = true;
    if (take(r, '{'))
      opened = open_container(r, '}');
    else if (take(r, '['))
      opened = open_container(r, ']');
    else if (!read_scalar(r) || !read_separator(r))
      return false;
    if (!opened) return false;
  }
  return true;
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool is_name(char c) {
  return is_word(c) && !strchr("{}[]()<>\"'`,=\\", c);
}

/* Where a parenthesis that belongs to the name ends: one of name characters only, with the arguments' brace
 * or more of the name behind it. NULL: it opens the arguments. */
static const char *skip_name_parenthesis(const char *at, const char *end) {
  for (at++; at < end && is_name(*at);) at++;
  if (at == end || *at != ')' || ++at == end) return NULL;
  return *at == '{' || is_name(*at) ? at : NULL;
}

static bool read_name(reader *r, char **name) {
  const char *begin = r->at;
  while (r->at < r->end) {
    const char *next = is_name(*r->at) ? r->at + 1 : NULL;
    if (*r->at == '(' && r->at > begin) next = skip_name_parenthesis(r->at, r->end);
    if (!next) break;
    r->at = next;
  }
  if (r->at == begin) return false;
  *name = strndup(begin, (size_t)(r->at - begin));
  if (!*name) r->out.failed = true;
  return *name != NULL;
}

static bool read_arguments(reader *r) {
  skip_space(r);
  if (take(r, '{')) return open_container(r, '}') && read_members(r);
  if (!take(r, '(')) return false;
  skip_space(r);
  if (!take(r, '{')) return open_container(r, ')') && read_members(r);
  if (!open_container(r, '}') || !read_members(r)) return false;
  skip_space(r);
  return take(r, ')');
}

static bool read_call(reader *r, char **name) {
  skip_space(r);
  if (!take_text(r, "call:")) return false;
  skip_space(r);
  return read_name(r, name) && read_arguments(r);
}

/* Duplicate keys, a key with a NUL, a number beyond a double: nobody could read these arguments back. */
static lap_status check_arguments(const lap_text *json, bool *good) {
  lap_json_document *document;
  lap_status status = lap_json_parse(json->data, json->length, "arguments", &document, NULL);
  *good = status == LAP_OK;
  lap_json_free(document);
  return status == LAP_ERROR_MEMORY ? status : LAP_OK;
}

lap_status lap_tool_call_read(const char *body, size_t length, lap_tool_call *call, lap_error *error) {
  *call = (lap_tool_call){0};
  reader r = {.at = body, .end = body + length, .json = yajl_gen_alloc(NULL)};
  lap_status status = LAP_OK;
  bool good = r.json && yajl_gen_config(r.json, yajl_gen_print_callback, print, &r.out);
  if (!good) r.out.failed = true;
  good = good && read_call(&r, &call->name);
  if (good && !r.out.failed) status = check_arguments(&r.out, &good);
  if (r.out.failed || status != LAP_OK)
    status = lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a tool call of %zu bytes", length);
  if (status == LAP_OK && good) {
    status = lap_text_take(&r.out, &call->arguments, &call->length, error);
    call->used = (size_t)(r.at - body);
  }
  if (r.json) yajl_gen_free(r.json);
  lap_text_free(&r.out);
  if (status != LAP_OK || !good) lap_tool_call_free(call);
  return status;
}

void lap_tool_call_free(lap_tool_call *call) {
  free(call->name);
  free(call->arguments);
  *call = (lap_tool_call){0};
}
