/* pattern.c: recursive descent over the pattern; sets of characters are spelled as the strings are.
 *
 * What is read carries the least and the largest number of characters that it matches, so that a length limit
 * beside the pattern can be seen to hold anyway. */
#include "grammar/pattern.h"

#include <string.h>

#include "text/tokenizer_utf8.h"

enum {
  MAX_GROUPS = 32
};

typedef struct reader {
  const lap_spelling *spelling;
  lap_rules *rules;
  const char *text, *at, *end;
  int groups;
  const char *wrong;
  size_t place;
} reader;

static void fail(reader *r, const char *what) {
  if (r->wrong) return;
  r->wrong = what;
  r->place = (size_t)(r->at - r->text);
}

static bool at_end(const reader *r) {
  return r->wrong || r->at == r->end;
}

static bool next_is(const reader *r, char c) {
  return !at_end(r) && *r->at == c;
}

static bool skip(reader *r, char c) {
  if (!next_is(r, c)) return false;
  r->at++;
  return true;
}

/* ---- sets -------------------------------------------------------------------------------------- */

static void add(reader *r, lap_characters *set, uint32_t first, uint32_t last) {
  lap_characters_add(&r->rules->arena, set, first, last);
}

/* The set of \d, \w or \s; with a capital letter its inverse. False: the letter is none of these. */
static bool add_named_set(reader *r, lap_characters *set, char letter) {
  lap_characters named = {0};
  char lower = (char)(letter | 0x20);
  if (lower == 'd' || lower == 'w') add(r, &named, '0', '9');
  if (lower == 'w') {
    add(r, &named, 'A', 'Z');
    add(r, &named, '_', '_');
    add(r, &named, 'a', 'z');
  }
  if (lower == 's') {
    static const uint32_t spaces[][2] = {
        {9, 13},          {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) add(r, &named, spaces[i][0], spaces[i][1]);
  }
  if (named.count == 0) return false;
  lap_characters_normalize(&named);
  if (letter != lower) named = lap_characters_inverse(&r->rules->arena, &named);
  for (uint32_t i = 0; i < named.count; i++) add(r, set, named.ranges[i].first, named.ranges[i].last);
  return true;
}

static uint32_t read_hex(reader *r, int digits) {
  uint32_t value = 0;
  int read = 0;
  for (; !at_end(r) && (digits == 0 || read < digits); read++, r->at++) {
    const char *known = "0123456789abcdefABCDEF", *digit = *r->at ? strchr(known, *r->at) : NULL;
    if (!digit || value > LAP_LAST_CHARACTER) break;
    uint32_t ordinal = (uint32_t)(digit - known);
    value = value << 4 | (ordinal < 16 ? ordinal : ordinal - 6);
  }
  if (read == 0 || (digits && read < digits)) fail(r, "hexadecimal digits are missing");
  if (value > LAP_LAST_CHARACTER || (value >= 0xd800 && value <= 0xdfff)) fail(r, "no such character");
  return value;
}

/* Behind the backslash: one character. */
static uint32_t read_escape(reader *r) {
  if (at_end(r)) {
    fail(r, "nothing follows the backslash");
    return 0;
  }
  char c = *r->at++;
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '0':
      return 0;
    case 'x':
      return read_hex(r, 2);
    case 'u':
      if (skip(r, '{')) {
        uint32_t code = read_hex(r, 0);
        if (!skip(r, '}')) fail(r, "\"}\" is expected");
        return code;
      }
      return read_hex(r, 4);
    default:
      break;
  }
  bool letter =
      ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '1' && c <= '9') || (unsigned char)c >= 0x80;
  if (letter) {
    r->at--;
    fail(r, "an escape that is not supported");
  }
  return (unsigned char)c;
}

static uint32_t read_character(reader *r) {
  uint32_t code = 0;
  size_t bytes = utf8_decode(r->at, (size_t)(r->end - r->at), &code);
  if (bytes == 0) fail(r, "invalid UTF-8");
  r->at += bytes;
  return code;
}

/* One end of a range in a class; false: it was a named set, which is no end. */
static bool read_class_character(reader *r, lap_characters *set, uint32_t *code) {
  if (!skip(r, '\\')) {
    *code = read_character(r);
    return true;
  }
  if (!at_end(r) && add_named_set(r, set, *r->at)) {
    r->at++;
    return false;
  }
  *code = skip(r, 'b') ? '\b' : read_escape(r);
  return true;
}

/* Behind `[`. */
static lap_characters read_class(reader *r) {
  lap_characters set = {0};
  bool negated = skip(r, '^');
  while (!at_end(r) && *r->at != ']') {
    uint32_t first = 0, last = 0;
    if (!read_class_character(r, &set, &first)) continue;
    last = first;
    if (r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
      r->at++;
      if (!read_class_character(r, &set, &last)) {
        add(r, &set, '-', '-'); /* "a-\d" */
        last = first;
      }
    }
    if (first > last) fail(r, "the range of characters goes backwards");
    add(r, &set, first, last);
  }
  if (!skip(r, ']')) fail(r, "the class has no end (])");
  lap_characters_normalize(&set);
  return negated ? lap_characters_inverse(&r->rules->arena, &set) : set;
}

static lap_characters any_but_line_ends(reader *r) {
  lap_characters set = {0};
  add(r, &set, '\n', '\n');
  add(r, &set, '\r', '\r');
  add(r, &set, 0x2028, 0x2029);
  lap_characters_normalize(&set);
  return lap_characters_inverse(&r->rules->arena, &set);
}

/* ---- expressions ------------------------------------------------------------------------------- */

static lap_pattern read_choice(reader *r);

static lap_pattern one_of(reader *r, const lap_characters *set) {
  const lap_expression *character = lap_spell_character(r->spelling, set);
  return (lap_pattern){character, 1, 1, character};
}

/* Behind `(`. */
static lap_pattern read_group(reader *r) {
  if (++r->groups > MAX_GROUPS) fail(r, "more than 32 groups in each other");
  if (skip(r, '?')) {
    bool named = next_is(r, '<') && r->end - r->at > 1 && r->at[1] != '=' && r->at[1] != '!';
    if (named)
      while (!at_end(r) && !skip(r, '>')) r->at++;
    else if (!skip(r, ':'))
      fail(r, "look-around is not supported");
  }
  lap_pattern inner = read_choice(r);
  if (!skip(r, ')')) fail(r, "the group has no end");
  r->groups--;
  return inner;
}

static lap_pattern read_item(reader *r) {
  lap_characters set = {0};
  if (skip(r, '(')) return read_group(r);
  if (skip(r, '[')) {
    set = read_class(r);
  } else if (skip(r, '.')) {
    set = any_but_line_ends(r);
  } else if (skip(r, '\\')) {
    if (!at_end(r) && add_named_set(r, &set, *r->at)) {
      r->at++;
    } else {
      uint32_t code = read_escape(r);
      add(r, &set, code, code);
    }
    lap_characters_normalize(&set);
  } else if (next_is(r, '^') || next_is(r, '$')) {
    fail(r, "an anchor that is not at an end of the pattern");
  } else if (strchr("*+?{", *r->at) && *r->at) {
    fail(r, "there is nothing to repeat");
  } else {
    uint32_t code = read_character(r);
    add(r, &set, code, code);
  }
  return one_of(r, &set);
}

static uint32_t read_number(reader *r) {
  uint64_t value = 0;
  const char *begin = r->at;
  for (; !at_end(r) && *r->at >= '0' && *r->at <= '9'; r->at++) {
    value = value * 10 + (uint64_t)(*r->at - '0');
    if (value > LAP_MAX_COUNT) fail(r, "a number above 16777216");
  }
  if (r->at == begin) fail(r, "a number is expected");
  return (uint32_t)value;
}

static uint32_t times(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return a == LAP_ENDLESS || b == LAP_ENDLESS || a > LAP_MAX_COUNT / b ? LAP_ENDLESS : a * b;
}

static uint32_t plus(uint32_t a, uint32_t b) {
  return a > LAP_MAX_COUNT || b > LAP_MAX_COUNT ? LAP_ENDLESS : a + b;
}

/* A quantifier, if there is one. */
static lap_pattern read_quantified(reader *r) {
  lap_pattern item = read_item(r);
  uint32_t min = 0, max = LAP_ENDLESS;
  if (skip(r, '?')) {
    max = 1;
  } else if (skip(r, '+')) {
    min = 1;
  } else if (skip(r, '{')) {
    min = max = read_number(r);
    if (skip(r, ',')) max = next_is(r, '}') ? LAP_ENDLESS : read_number(r);
    if (!skip(r, '}')) fail(r, "\"}\" is expected");
    if (min > max) fail(r, "the least number of repetitions is above the largest");
  } else if (!skip(r, '*')) {
    return item;
  }
  skip(r, '?'); /* as few as possible: the same set of strings */
  bool single = item.repeated && item.min == 1 && item.max == 1;
  return (lap_pattern){lap_expr_repetition(r->rules, item.expression, min, max), times(item.min, min),
                       times(item.max, max), single ? item.repeated : NULL};
}

static bool ends_alternative(const reader *r) {
  return at_end(r) || *r->at == '|' || *r->at == ')';
}

static lap_pattern read_row(reader *r) {
  lap_parts parts = {0};
  lap_pattern all = {0};
  while (!ends_alternative(r)) {
    bool last = r->groups == 0 && (r->end - r->at == 1 || r->at[1] == '|');
    if (*r->at == '$' && last) break;
    lap_pattern next = read_quantified(r);
    all.repeated = parts.count == 0 ? next.repeated : NULL;
    lap_parts_add(r->rules, &parts, next.expression);
    all.min = plus(all.min, next.min);
    all.max = plus(all.max, next.max);
  }
  all.expression = lap_expr_sequence(r->rules, &parts);
  return all;
}

/* An alternative of the whole pattern: what has no anchor may go on with anything. */
static lap_pattern read_anchored(reader *r) {
  const lap_expression *anything = lap_expr_repetition(r->rules, r->spelling->any_character, 0, LAP_ENDLESS);
  bool begins = skip(r, '^');
  lap_pattern row = read_row(r);
  bool ends = skip(r, '$');
  if (!begins) row.expression = lap_expr_then(r->rules, anything, row.expression);
  if (!ends) row.expression = lap_expr_then(r->rules, row.expression, anything);
  if (!begins || !ends) {
    row.max = LAP_ENDLESS;
    row.repeated = NULL;
  }
  return row;
}

static lap_pattern read_choice(reader *r) {
  lap_parts parts = {0};
  lap_pattern all = {.min = LAP_ENDLESS};
  do {
    lap_pattern next = r->groups > 0 ? read_row(r) : read_anchored(r);
    all.repeated = parts.count == 0 ? next.repeated : NULL;
    lap_parts_add(r->rules, &parts, next.expression);
    if (next.min < all.min) all.min = next.min;
    if (next.max > all.max) all.max = next.max;
  } while (skip(r, '|'));
  all.expression = lap_expr_choice(r->rules, &parts);
  return all;
}

const char *lap_pattern_read(const lap_spelling *spelling, const char *text, size_t length, lap_pattern *out,
                             size_t *place) {
  reader r = {.spelling = spelling, .rules = spelling->rules, .text = text, .at = text, .end = text + length};
  *out = read_choice(&r);
  if (!at_end(&r)) fail(&r, "a parenthesis that was not opened");
  *place = r.place;
  return r.wrong;
}
