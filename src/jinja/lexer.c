/* lexer.c: the source becomes tokens, and whitespace around tags is dropped as Jinja drops it.
 *
 * Newlines are normalized first, so lines are counted in what is left; offsets refer to that. Between tags
 * everything is data. A tag's sign strips the data before it (`-`), or keeps what lstrip_blocks would take
 * (`+`); the sign of its end does the same for what follows. Inside a tag, its end is only recognised outside
 * of brackets, so a dict literal may end in `}}`. */
#include "jinja/lexer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/number.h"
#include "jinja/unicode.h"

enum {
  MAX_BRACKETS = 2 * LAP_JINJA_MAX_NESTING,
  MAX_CHARACTER_NAME = 128
};

typedef struct lexer {
  lap_jinja_compiler *compiler;
  const char *source;
  size_t length, at;
  size_t token_capacity;
  bool line_starts; /* what was read so far ends a line, or nothing was read */
} lexer;

static bool follows(const lexer *l, size_t at, const char *text) {
  size_t length = strlen(text);
  return l->length - at >= length && !memcmp(l->source + at, text, length);
}

static lap_jinja_token *add_token(lexer *l, lap_jinja_token_type type, size_t offset) {
  lap_jinja_compiler *c = l->compiler;
  if (c->token_count == l->token_capacity) {
    size_t capacity = l->token_capacity ? l->token_capacity * 2 : 256;
    c->tokens =
        lap_jinja_grow(c->arena, c->tokens, c->token_count * sizeof *c->tokens, capacity * sizeof *c->tokens);
    l->token_capacity = capacity;
  }
  lap_jinja_token *token = &c->tokens[c->token_count++];
  *token = (lap_jinja_token){.type = type, .offset = (uint32_t)offset};
  return token;
}

/* ---- data ---- */

static size_t skip_space(const lexer *l, size_t at) {
  while (at < l->length) {
    uint32_t code;
    size_t bytes = lap_jinja_decode(l->source + at, l->length - at, &code);
    if (!lap_jinja_is_space(code)) break;
    at += bytes;
  }
  return at;
}

/* The end of [begin, end) without the whitespace before it. */
static size_t strip_end(const lexer *l, size_t begin, size_t end) {
  while (end > begin) {
    size_t last = begin + lap_jinja_last_character(l->source + begin, end - begin);
    uint32_t code;
    lap_jinja_decode(l->source + last, end - last, &code);
    if (!lap_jinja_is_space(code)) break;
    end = last;
  }
  return end;
}

/* Adds the data before a tag whose sign is `sign` ('-', '+' or 0); `tag`: not a print. */
static void add_data(lexer *l, size_t begin, size_t end, char sign, bool tag) {
  if (sign == '-') {
    end = strip_end(l, begin, end);
  } else if (sign != '+' && l->compiler->syntax.lstrip_blocks && tag) {
    const char *newline = memrchr(l->source + begin, '\n', end - begin);
    size_t line = newline ? (size_t)(newline - l->source) + 1 : begin;
    if ((newline || l->line_starts) && strip_end(l, line, end) == line) end = line;
  }
  if (end > begin) {
    lap_jinja_token *token = add_token(l, TOKEN_DATA, begin);
    token->value = lap_jinja_over(l->compiler->arena, l->source + begin, end - begin, true);
  }
}

/* The sign at `at`, or 0. */
static char sign_at(const lexer *l, size_t at) {
  char c = at < l->length ? l->source[at] : '\0';
  return c == '-' || c == '+' ? c : '\0';
}

/* Steps behind the end of a tag that stands at `at`, with its sign; false if there is none. `trim`: a newline
 * behind it goes as well. */
static bool skip_end(lexer *l, size_t at, const char *end, bool plus, bool trim) {
  char sign = sign_at(l, at);
  if (sign == '+' && !plus) return false;
  if (!follows(l, at + (sign != '\0'), end)) return false;
  at += (sign != '\0') + strlen(end);
  if (sign == '-')
    at = skip_space(l, at);
  else if (!sign && trim && at < l->length && l->source[at] == '\n')
    at++;
  l->line_starts = l->source[at - 1] == '\n';
  l->at = at;
  return true;
}

/* ---- comments and raw blocks ---- */

static void lex_comment(lexer *l, size_t begin, size_t inside) {
  for (size_t at = inside; at < l->length; at++)
    if (skip_end(l, at, "#}", true, l->compiler->syntax.trim_blocks)) return;
  lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, begin, "a comment without its end");
}

/* Is this tag, whose name begins behind `at`, `name` alone? Then its end is stepped over. */
static bool skip_tag(lexer *l, size_t at, const char *name, bool plus, bool trim) {
  at = skip_space(l, at);
  if (!follows(l, at, name)) return false;
  return skip_end(l, skip_space(l, at + strlen(name)), "%}", plus, trim);
}

static void lex_raw(lexer *l, size_t begin) {
  size_t data = l->at;
  for (size_t at = data; at < l->length; at++) {
    if (!follows(l, at, "{%")) continue;
    char sign = sign_at(l, at + 2);
    bool line_starts = l->line_starts; /* as before the data, which is still to be added */
    if (skip_tag(l, at + 2 + (sign != '\0'), "endraw", true, l->compiler->syntax.trim_blocks)) {
      bool ends_line = l->line_starts;
      l->line_starts = line_starts;
      add_data(l, data, at, sign, true);
      l->line_starts = ends_line;
      return;
    }
  }
  lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, begin, "a raw block without its end");
}

/* ---- inside of tags ---- */

static bool digit_of(char c, int base) {
  if (base == 16) return isxdigit((unsigned char)c);
  return c >= '0' && c < '0' + base;
}

/* The end of the digits at `at`, each with an underscore before it or not. */
static size_t skip_digits(const lexer *l, size_t at, int base) {
  size_t end = at;
  while (at < l->length) {
    if (l->source[at] == '_' && at + 1 < l->length) at++;
    if (!digit_of(l->source[at], base)) break;
    end = ++at;
  }
  return end;
}

/* The end of a float that begins at `at`, or 0 if it is an integer. */
static size_t float_end(const lexer *l, size_t at) {
  size_t end = skip_digits(l, at, 10);
  bool fraction = false;
  if (end + 1 < l->length && l->source[end] == '.' && digit_of(l->source[end + 1], 10)) {
    end = skip_digits(l, end + 1, 10);
    fraction = true;
  }
  if (end < l->length && (l->source[end] | 0x20) == 'e') {
    size_t exponent =
        end + 1 + (end + 1 < l->length && (l->source[end + 1] == '+' || l->source[end + 1] == '-'));
    if (exponent < l->length && digit_of(l->source[exponent], 10)) return skip_digits(l, exponent, 10);
  }
  return fraction ? end : 0;
}

static size_t integer_end(const lexer *l, size_t at) {
  if (l->source[at] != '0') return skip_digits(l, at, 10);
  char letter = at + 1 < l->length ? (char)(l->source[at + 1] | 0x20) : '\0';
  int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  size_t end = base ? skip_digits(l, at + 2, base) : 0;
  if (end > at + 2) return end;
  return skip_digits(l, at, 1); /* zeros only */
}

static void lex_number(lexer *l) {
  lap_jinja_compiler *c = l->compiler;
  size_t begin = l->at;
  bool behind_dot = begin > 0 && l->source[begin - 1] == '.';
  size_t end = behind_dot ? 0 : float_end(l, begin);
  bool real = end != 0;
  if (!real) end = integer_end(l, begin);
  lap_jinja_token *token = add_token(l, real ? TOKEN_REAL : TOKEN_INTEGER, begin);
  bool overflow = false, read;
  if (real) {
    token->value = lap_jinja_real(0);
    read = lap_jinja_read_real(l->source + begin, end - begin, &token->value.real);
  } else {
    token->value = lap_jinja_integer(0);
    read = lap_jinja_read_integer(l->source + begin, end - begin, 0, &token->value.integer, &overflow);
  }
  token->value.from_template = true;
  if (!read || overflow) lap_jinja_refuse(c, LAP_ERROR_FORMAT, begin, "a number beyond 64 bits");
  l->at = end;
}

static bool lex_name(lexer *l) {
  size_t at = l->at;
  uint32_t code;
  size_t bytes = lap_jinja_decode(l->source + at, l->length - at, &code);
  if (!lap_jinja_may_begin_name(code)) return false;
  do {
    at += bytes;
    if (at >= l->length) break;
    bytes = lap_jinja_decode(l->source + at, l->length - at, &code);
  } while (lap_jinja_may_continue_name(code));
  lap_jinja_token *token = add_token(l, TOKEN_NAME, l->at);
  token->value = lap_jinja_over(l->compiler->arena, l->source + l->at, at - l->at, true);
  l->at = at;
  return true;
}

/* ---- strings ---- */

/* The number of `digits` digits at *at, which it steps over; refuses fewer. */
static uint32_t escaped_number(lexer *l, size_t *at, size_t end, int base, int digits, bool fewer) {
  uint32_t code = 0;
  int i = 0;
  for (; i < digits && *at < end && digit_of(l->source[*at], base); i++, (*at)++) {
    char c = l->source[*at];
    code = code * (uint32_t)base + (uint32_t)(isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (i < digits && !fewer)
    lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, *at, "an escape with too few digits");
  return code;
}

static uint32_t escaped_name(lexer *l, size_t *at, size_t end) {
  char name[MAX_CHARACTER_NAME];
  const char *close = memchr(l->source + *at, '}', end - *at);
  size_t length = close ? (size_t)(close - l->source) - *at : 0;
  uint32_t code;
  if (length < 2 || length > sizeof name || l->source[*at] != '{')
    lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, *at, "\\N needs a character's name in braces");
  memcpy(name, l->source + *at + 1, length - 1);
  name[length - 1] = '\0';
  if (!lap_jinja_named_character(name, &code))
    lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, *at, "no character is named '%s'", name);
  *at += length + 1;
  return code;
}

/* Writes what the escape at *at, behind its backslash, stands for; returns its bytes, at most 4. Steps over
 * it. No escape gives more bytes than it has itself. */
static size_t unescape(lexer *l, size_t *at, size_t end, char *out) {
  static const char plain[] = "\\'\"abfnrtv", meant[] = "\\'\"\a\b\f\n\r\t\v";
  size_t begin = *at;
  char c = l->source[(*at)++];
  if (c == '\n') return 0;
  const char *found = strchr(plain, c);
  if (found && c) {
    out[0] = meant[found - plain];
    return 1;
  }
  uint32_t code;
  switch (c) {
    case 'x':
      code = escaped_number(l, at, end, 16, 2, false);
      break;
    case 'u':
      code = escaped_number(l, at, end, 16, 4, false);
      break;
    case 'U':
      code = escaped_number(l, at, end, 16, 8, false);
      break;
    case 'N':
      code = escaped_name(l, at, end);
      break;
    default:
      if (digit_of(c, 8)) {
        (*at)--;
        code = escaped_number(l, at, end, 8, 3, true);
        break;
      }
      (*at)--; /* not an escape: the backslash stands for itself */
      out[0] = '\\';
      return 1;
  }
  size_t bytes = code <= 0x10ffff ? lap_jinja_encode(code, out) : 0;
  if (!bytes) lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, begin, "this escape is no character");
  return bytes;
}

static void lex_text(lexer *l, char quote) {
  size_t begin = l->at + 1, end = begin;
  bool escapes = false;
  for (; end < l->length && l->source[end] != quote; end++)
    if (l->source[end] == '\\') {
      escapes = true;
      end++;
    }
  if (end >= l->length) lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, l->at, "a string without its end");
  lap_jinja_token *token = add_token(l, TOKEN_TEXT, l->at);
  const char *text = l->source + begin;
  size_t length = end - begin;
  if (escapes) {
    char *plain = lap_jinja_take(l->compiler->arena, length + 4);
    length = 0;
    for (size_t at = begin; at < end;) {
      if (l->source[at] != '\\') {
        plain[length++] = l->source[at++];
        continue;
      }
      at++;
      length += unescape(l, &at, end, plain + length);
    }
    text = plain;
  }
  token->value = lap_jinja_over(l->compiler->arena, text, length, true);
  l->at = end + 1;
}

/* ---- operators ---- */

static void check_bracket(lexer *l, char operator, char * open, int *depth) {
  if (strchr("([{", operator)) {
    if (*depth == MAX_BRACKETS) lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, l->at, "nested too deep");
    open[(*depth)++] = operator;
  } else if (strchr(")]}", operator)) {
    char expected = operator== ')' ? '(' : operator== ']' ? '[' : '{';
    if (!*depth || open[*depth - 1] != expected)
      lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, l->at, "unexpected '%c'", operator);
    (*depth)--;
  }
}

static bool lex_operator(lexer *l, char *open, int *depth) {
  static const char *const spellings[] = {"//", "**", "==", "!=", ">=", "<="};
  size_t length = 0;
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
    if (follows(l, l->at, spellings[i])) length = 2;
  char c = l->source[l->at];
  if (!length && c && strchr("+-/*%~[](){}><=.:|,;", c)) length = 1;
  if (!length) return false;
  if (length == 1) check_bracket(l, c, open, depth);
  lap_jinja_token *token = add_token(l, TOKEN_OPERATOR, l->at);
  memcpy(token->operator, l->source + l->at, length);
  l->at += length;
  return true;
}

/* What stands in a tag or a print, up to its end, which is stepped over. */
static void lex_inside(lexer *l, size_t begin, bool tag) {
  char open[MAX_BRACKETS];
  int depth = 0;
  const char *end = tag ? "%}" : "}}";
  for (;;) {
    size_t at = l->at;
    if (!depth && at < l->length && skip_end(l, at, end, tag, tag && l->compiler->syntax.trim_blocks)) {
      add_token(l, tag ? TOKEN_TAG_END : TOKEN_PRINT_END, at);
      return;
    }
    at = l->at = skip_space(l, at);
    if (at >= l->length)
      lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, begin, "'%s' without its '%s'", tag ? "{%" : "{{", end);
    if (!depth && (follows(l, at, end) || (sign_at(l, at) && follows(l, at + 1, end)))) {
      if (tag || sign_at(l, at) != '+') continue;
    }
    char c = l->source[at];
    if (c >= '0' && c <= '9')
      lex_number(l);
    else if (c == '\'' || c == '"')
      lex_text(l, c);
    else if (!lex_name(l) && !lex_operator(l, open, &depth))
      lap_jinja_refuse(l->compiler, LAP_ERROR_FORMAT, at, "unexpected character");
  }
}

/* ---- the whole ---- */

/* The next place where a tag, a print or a comment begins; the end if there is none. */
static size_t find_tag(const lexer *l) {
  for (size_t at = l->at; at + 1 < l->length; at++) {
    const char *brace = memchr(l->source + at, '{', l->length - at - 1);
    if (!brace) break;
    at = (size_t)(brace - l->source);
    if (strchr("%{#", brace[1]) && brace[1]) return at;
  }
  return l->length;
}

static void lex_all(lexer *l) {
  while (l->at < l->length) {
    size_t data = l->at, tag = find_tag(l);
    if (tag == l->length) {
      add_token(l, TOKEN_DATA, data)->value =
          lap_jinja_over(l->compiler->arena, l->source + data, tag - data, true);
      break;
    }
    char kind = l->source[tag + 1], sign = sign_at(l, tag + 2);
    size_t inside = tag + 2 + (sign != '\0');
    add_data(l, data, tag, sign, kind != '{');
    l->line_starts = false;
    l->at = inside;
    if (kind == '#') {
      lex_comment(l, tag, inside);
    } else if (kind == '%' && skip_tag(l, inside, "raw", false, false)) {
      lex_raw(l, tag);
    } else {
      add_token(l, kind == '%' ? TOKEN_TAG_BEGIN : TOKEN_PRINT_BEGIN, tag);
      lex_inside(l, tag, kind == '%');
    }
  }
  add_token(l, TOKEN_END, l->length);
}

/* The source with \r\n and \r as \n, and without the last newline if that is asked for. */
static void normalize(lap_jinja_compiler *c) {
  lap_jinja_template *compiled = c->compiled;
  char *out = lap_jinja_take(c->arena, compiled->length + 1);
  size_t length = 0;
  for (size_t i = 0; i < compiled->length; i++) {
    char byte = compiled->source[i];
    if (byte == '\r') {
      if (i + 1 < compiled->length && compiled->source[i + 1] == '\n') continue;
      byte = '\n';
    }
    out[length++] = byte;
  }
  if (length && out[length - 1] == '\n' && !c->syntax.keep_trailing_newline) length--;
  compiled->source = out;
  compiled->length = length;
}

void lap_jinja_lex(lap_jinja_compiler *c) {
  size_t malformed = lap_jinja_find_malformed(c->compiled->source, c->compiled->length);
  if (malformed < c->compiled->length) lap_jinja_refuse(c, LAP_ERROR_FORMAT, malformed, "this is not UTF-8");
  normalize(c);
  lexer l = {
      .compiler = c, .source = c->compiled->source, .length = c->compiled->length, .line_starts = true};
  lex_all(&l);
}
