/* gbnf.c: recursive descent, one function for each construct.
 *
 * A rule may be called before it is defined: it gets its number when it is first mentioned, and the place of
 * that mention is kept for the message if a definition never comes. The first error ends the reading:
 * `failed` is set, and everything returns. */
#include "grammar/gbnf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_utf8.h"

enum {
  MAX_BYTES = 1 << 20,
  MAX_PARENTHESES = 64,
  MAX_NAME_BYTES = 128
};

typedef struct mention {
  const char *name;
  size_t length;
} mention;

typedef struct reader {
  lap_rules *rules;
  const lap_vocabulary *vocabulary;
  const char *name;
  const char *text, *at, *end;
  int parentheses;
  uint32_t *slots; /* rules + 1 by name, open addressing; 0: free */
  size_t slot_count;
  bool failed;
  lap_status status;
  lap_error *error;
} reader;

/* ---- errors ------------------------------------------------------------------------------------ */

static lap_status fail_at(const char *name, const char *text, const char *at, const char *what,
                          lap_error *error) {
  int line = 1, column = 1;
  for (const char *c = text; c < at; c++, column++)
    if (*c == '\n') line++, column = 0;
  return lap_fail(error, LAP_ERROR_FORMAT, "%s: line %d, column %d: %s", name, line, column, what);
}

static void fail(reader *r, const char *at, const char *what) {
  if (r->failed) return;
  r->failed = true;
  r->status = fail_at(r->name, r->text, at, what, r->error);
}

static void fail_rule(reader *r, mention rule, const char *what) {
  char message[MAX_NAME_BYTES + 80];
  snprintf(message, sizeof message, "rule \"%.*s\" %s", (int)rule.length, rule.name, what);
  fail(r, rule.name, message);
}

/* ---- characters -------------------------------------------------------------------------------- */

static bool at_end(const reader *r) {
  return r->failed || r->at == r->end;
}

static bool next_is(const reader *r, char c) {
  return !at_end(r) && *r->at == c;
}

static bool skip(reader *r, char c) {
  if (!next_is(r, c)) return false;
  r->at++;
  return true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_';
}

/* Blanks and comments, and the ends of lines where the rule goes on behind them. */
static void skip_space(reader *r, bool lines) {
  while (!at_end(r)) {
    if (*r->at == '#') {
      while (!at_end(r) && *r->at != '\n') r->at++;
    } else if (*r->at == ' ' || *r->at == '\t' || (lines && (*r->at == '\n' || *r->at == '\r'))) {
      r->at++;
    } else {
      return;
    }
  }
}

static int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static uint32_t read_hex(reader *r, int digits) {
  uint32_t value = 0;
  const char *begin = r->at;
  for (int i = 0; i < digits; i++) {
    int digit = at_end(r) ? -1 : hex_value(*r->at);
    if (digit < 0) {
      fail(r, begin, "hexadecimal digits are missing in an escape");
      return 0;
    }
    value = value << 4 | (uint32_t)digit;
    r->at++;
  }
  if (value > LAP_LAST_CHARACTER || (value >= 0xd800 && value <= 0xdfff)) fail(r, begin, "no such character");
  return value;
}

static uint32_t read_escape(reader *r) {
  const char *begin = r->at++;
  if (at_end(r)) {
    fail(r, begin, "the text ends in an escape");
    return 0;
  }
  char c = *r->at++;
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'x':
      return read_hex(r, 2);
    case 'u':
      return read_hex(r, 4);
    case 'U':
      return read_hex(r, 8);
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
      return (unsigned char)c;
    default:
      fail(r, begin, "unknown escape");
      return 0;
  }
}

/* One character of a text or a class. */
static uint32_t read_character(reader *r) {
  if (next_is(r, '\\')) return read_escape(r);
  uint32_t code = 0;
  size_t bytes = utf8_decode(r->at, (size_t)(r->end - r->at), &code);
  if (bytes == 0) fail(r, r->at, "invalid UTF-8");
  r->at += bytes;
  return code;
}

/* ---- rules by name ----------------------------------------------------------------------------- */

static const mention *mention_of(const reader *r, uint32_t rule) {
  return r->rules->rules[rule].origin;
}

static size_t find_slot(const reader *r, mention name) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < name.length; i++) hash = (hash ^ (unsigned char)name.name[i]) * 16777619u;
  size_t mask = r->slot_count - 1, at = hash & mask;
  for (; r->slots[at]; at = (at + 1) & mask) {
    const mention *known = mention_of(r, r->slots[at] - 1);
    if (known->length == name.length && memcmp(known->name, name.name, name.length) == 0) break;
  }
  return at;
}

static uint32_t rule_named(reader *r, mention name) {
  size_t slot = find_slot(r, name);
  if (r->slots[slot]) return r->slots[slot] - 1;
  mention *kept = lap_arena_take(&r->rules->arena, sizeof *kept);
  if (!kept || r->rules->count == LAP_MAX_RULES) {
    fail(r, name.name, "too many rules");
    return 0;
  }
  *kept = name;
  uint32_t rule = lap_rules_add(r->rules, kept);
  if (r->rules->failed) {
    fail(r, name.name, "too many rules");
    return 0;
  }
  r->slots[slot] = rule + 1;
  return rule;
}

static mention read_name(reader *r) {
  mention name = {r->at, 0};
  while (!at_end(r) && is_name(*r->at)) r->at++;
  name.length = (size_t)(r->at - name.name);
  if (name.length == 0) fail(r, r->at, "a rule's name is expected");
  if (name.length > MAX_NAME_BYTES) fail(r, name.name, "a rule's name of more than 128 bytes");
  return name;
}

/* ---- expressions ------------------------------------------------------------------------------- */

static const lap_expression *read_choice(reader *r, bool lines);

static const lap_expression *read_text(reader *r) {
  const char *begin = r->at++;
  lap_parts parts = {0};
  while (!at_end(r) && *r->at != '"') {
    unsigned char bytes[4];
    int length = lap_utf8_encode(read_character(r), bytes);
    lap_parts_add(r->rules, &parts, lap_expr_bytes(r->rules, (const char *)bytes, (size_t)length));
  }
  if (!skip(r, '"')) fail(r, begin, "the text has no end (\")");
  return lap_expr_sequence(r->rules, &parts);
}

static const lap_expression *read_class(reader *r) {
  const char *begin = r->at++;
  bool negated = skip(r, '^');
  lap_characters set = {0};
  while (!at_end(r) && *r->at != ']') {
    const char *place = r->at;
    uint32_t first = read_character(r), last = first;
    if (next_is(r, '-') && r->end - r->at > 1 && r->at[1] != ']') {
      r->at++;
      last = read_character(r);
    }
    if (first > last) fail(r, place, "the range of characters goes backwards");
    lap_characters_add(&r->rules->arena, &set, first, last);
  }
  if (!skip(r, ']')) fail(r, begin, "the class of characters has no end (])");
  lap_characters_normalize(&set);
  if (negated) set = lap_characters_inverse(&r->rules->arena, &set);
  return lap_expr_character(r->rules, &set);
}

static const lap_expression *any_character(reader *r) {
  lap_characters all = {0};
  lap_characters_add(&r->rules->arena, &all, 0, LAP_LAST_CHARACTER);
  return lap_expr_character(r->rules, &all);
}

static uint32_t read_number(reader *r) {
  const char *begin = r->at;
  uint64_t value = 0;
  for (; !at_end(r) && is_digit(*r->at); r->at++) {
    value = value * 10 + (uint64_t)(*r->at - '0');
    if (value > LAP_MAX_COUNT) fail(r, begin, "a number above 16777216");
  }
  if (r->at == begin) fail(r, begin, "a number is expected");
  return (uint32_t)value;
}

static const lap_expression *read_token(reader *r) {
  const char *begin = r->at++;
  int32_t id = -1;
  if (skip(r, '[')) {
    uint32_t number = read_number(r);
    bool closed = skip(r, ']') && skip(r, '>');
    if (closed && lap_tokenizer_is_special(r->vocabulary->tokenizer, (int32_t)number)) id = (int32_t)number;
  } else {
    while (!at_end(r) && *r->at != '>' && *r->at != '\n') r->at++;
    if (skip(r, '>')) id = lap_vocabulary_special(r->vocabulary, begin, (size_t)(r->at - begin));
  }
  if (id < 0) fail(r, begin, "not a special token of this model");
  return lap_expr_token(r->rules, id);
}

static const lap_expression *read_parentheses(reader *r) {
  const char *begin = r->at++;
  if (++r->parentheses > MAX_PARENTHESES) fail(r, begin, "more than 64 parentheses in each other");
  skip_space(r, true);
  const lap_expression *inner = read_choice(r, true);
  r->parentheses--;
  if (!skip(r, ')')) fail(r, begin, "the parenthesis has no end");
  return inner;
}

/* What a quantifier refers to; NULL: nothing of that kind begins here. */
static const lap_expression *read_item(reader *r) {
  if (at_end(r)) return NULL;
  switch (*r->at) {
    case '"':
      return read_text(r);
    case '[':
      return read_class(r);
    case '(':
      return read_parentheses(r);
    case '<':
      return read_token(r);
    case '.':
      r->at++;
      return any_character(r);
    default:
      return is_name(*r->at) ? lap_expr_call(r->rules, rule_named(r, read_name(r))) : NULL;
  }
}

/* Behind `{`. */
static void read_bounds(reader *r, uint32_t *min, uint32_t *max) {
  const char *begin = r->at;
  skip_space(r, false);
  *min = *max = read_number(r);
  skip_space(r, false);
  if (skip(r, ',')) {
    skip_space(r, false);
    *max = next_is(r, '}') ? LAP_ENDLESS : read_number(r);
    skip_space(r, false);
  }
  if (!skip(r, '}')) fail(r, begin, "the number of repetitions has no end (})");
  if (*min > *max) fail(r, begin, "the least number of repetitions is above the largest");
}

static const lap_expression *read_quantified(reader *r, const lap_expression *item, bool lines) {
  for (;;) {
    skip_space(r, lines);
    uint32_t min = 0, max = LAP_ENDLESS;
    if (skip(r, '?'))
      max = 1;
    else if (skip(r, '+'))
      min = 1;
    else if (skip(r, '{'))
      read_bounds(r, &min, &max);
    else if (!skip(r, '*'))
      return item;
    if (r->failed) return item;
    item = lap_expr_repetition(r->rules, item, min, max);
  }
}

/* Is this name the beginning of the next rule? Only asked where ends of lines are blanks. */
static bool begins_rule(const reader *r) {
  const char *c = r->at;
  while (c < r->end && is_name(*c)) c++;
  while (c < r->end && (*c == ' ' || *c == '\t')) c++;
  return r->end - c >= 3 && memcmp(c, "::=", 3) == 0;
}

static const lap_expression *read_sequence(reader *r, bool lines) {
  lap_parts parts = {0};
  while (!at_end(r) && !(lines && begins_rule(r))) {
    const lap_expression *item = read_item(r);
    if (!item) break;
    lap_parts_add(r->rules, &parts, read_quantified(r, item, lines));
  }
  return lap_expr_sequence(r->rules, &parts);
}

/* `|`, which may also stand at the beginning of the next line. */
static bool skip_bar(reader *r) {
  const char *begin = r->at;
  skip_space(r, true);
  if (skip(r, '|')) return true;
  r->at = begin;
  return false;
}

static const lap_expression *read_choice(reader *r, bool lines) {
  lap_parts parts = {0};
  do {
    skip_space(r, parts.count > 0 || lines);
    lap_parts_add(r->rules, &parts, read_sequence(r, lines));
  } while (skip_bar(r));
  return lap_expr_choice(r->rules, &parts);
}

/* ---- rules ------------------------------------------------------------------------------------- */

static void read_rule(reader *r) {
  mention name = read_name(r);
  if (r->failed) return;
  uint32_t rule = rule_named(r, name);
  skip_space(r, false);
  if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) {
    fail(r, r->at, "\"::=\" is expected");
    return;
  }
  r->at += 3;
  skip_space(r, true);
  if (!r->failed && r->rules->rules[rule].body) fail_rule(r, name, "is defined twice");
  const lap_expression *body = begins_rule(r) ? lap_expr_empty() : read_choice(r, false);
  lap_rules_define(r->rules, rule, body);
  skip(r, '\r');
  if (!at_end(r) && *r->at != '\n') fail(r, r->at, "this cannot stand here");
}

static void read_all(reader *r) {
  for (skip_space(r, true); !at_end(r); skip_space(r, true)) read_rule(r);
  for (size_t i = 0; i < r->rules->count && !r->failed; i++)
    if (!r->rules->rules[i].body) fail_rule(r, *mention_of(r, (uint32_t)i), "is not defined");
}

/* What is left of a reader for messages after reading. */
typedef struct source {
  const char *name, *text;
} source;

static lap_status refuse(const void *given, const lap_rule *rule, const char *what, lap_error *error) {
  const source *s = given;
  const mention *m = rule->origin;
  char message[MAX_NAME_BYTES + 80];
  snprintf(message, sizeof message, "rule \"%.*s\" %s", (int)m->length, m->name, what);
  return fail_at(s->name, s->text, m->name, message, error);
}

lap_status lap_gbnf_read(lap_rules *rules, const lap_vocabulary *vocabulary, const char *text, size_t length,
                         const char *name, uint32_t *root, lap_error *error) {
  *root = 0;
  if (length > MAX_BYTES) return lap_fail(error, LAP_ERROR_UNSUPPORTED, "%s: more than 1 MiB", name);
  reader r = {.rules = rules, .vocabulary = vocabulary, .name = name, .error = error};
  r.text = r.at = text;
  r.end = text + length;
  r.slot_count = 4 * LAP_MAX_RULES;
  r.slots = calloc(r.slot_count, sizeof *r.slots);
  source *kept = lap_arena_take(&rules->arena, sizeof *kept);
  if (!r.slots || !kept) {
    free(r.slots);
    return lap_fail(error, LAP_ERROR_MEMORY, "%s: out of memory", name);
  }
  *kept = (source){name, text};
  rules->refuse = refuse;
  rules->reader = kept;
  read_all(&r);
  if (!r.failed) {
    uint32_t slot = r.slots[find_slot(&r, (mention){"root", 4})];
    if (slot == 0) fail(&r, r.at, "there is no rule \"root\"");
    *root = slot - 1;
  }
  free(r.slots);
  return r.failed ? r.status : LAP_OK;
}
