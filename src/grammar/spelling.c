/* spelling.c: the two syntaxes, piece by piece.
 *
 * White space, strings and free values are rules, so that all places where they stand share what is known
 * about them; what is short is written in place. */
#include "grammar/spelling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_utf8.h"

enum {
  MAX_INDENT = 32
};

static const lap_expression *text(const lap_spelling *s, const char *t) {
  return lap_expr_text(s->rules, t);
}

static const lap_expression *range(lap_rules *rules, const char *pairs) {
  lap_characters set = {0};
  for (; pairs[0] && pairs[1]; pairs += 2)
    lap_characters_add(&rules->arena, &set, (unsigned char)pairs[0], (unsigned char)pairs[1]);
  lap_characters_normalize(&set);
  return lap_expr_character(rules, &set);
}

/* The parts in a row; the list ends with NULL. */
static const lap_expression *row(lap_rules *rules, const lap_expression *const *items) {
  lap_parts parts = {0};
  for (; *items; items++) lap_parts_add(rules, &parts, *items);
  return lap_expr_sequence(rules, &parts);
}
#define ROW(rules, ...) row(rules, (const lap_expression *const[]){__VA_ARGS__, NULL})

static const lap_expression *as_rule(lap_rules *rules, const lap_expression *body) {
  uint32_t rule = lap_rules_add(rules, NULL);
  lap_rules_define(rules, rule, body);
  return lap_expr_call(rules, rule);
}

/* ---- characters of strings --------------------------------------------------------------------- */

static const lap_expression *any_json_character(const lap_spelling *s) {
  lap_rules *rules = s->rules;
  const lap_expression *hex = range(rules, "09afAF");
  const lap_expression *two = ROW(rules, hex, hex), *three = ROW(rules, two, hex);
  /* A code unit that is no surrogate, or a pair of them: half a pair is no character. */
  const lap_expression *unit = lap_expr_or(rules, ROW(rules, range(rules, "09acACefEF"), three),
                                           ROW(rules, range(rules, "ddDD"), range(rules, "07"), two));
  const lap_expression *high = ROW(rules, range(rules, "ddDD"), range(rules, "89abAB"), two);
  const lap_expression *low = ROW(rules, range(rules, "ddDD"), range(rules, "cfCF"), two);
  const lap_expression *units = lap_expr_or(rules, unit, ROW(rules, high, text(s, "\\u"), low));
  const lap_expression *letter = range(rules, "\"\"\\\\//bbffnnrrtt");
  const lap_expression *escape = lap_expr_or(rules, letter, lap_expr_then(rules, text(s, "u"), units));
  return lap_expr_or(rules, lap_expr_character(rules, &s->plain),
                     lap_expr_then(rules, text(s, "\\"), escape));
}

/* Escapes of control characters in JSON, by character; others are \u00XX. */
static const char *short_escape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return NULL;
  }
}

static void add_escape(const lap_spelling *s, lap_parts *parts, uint32_t code) {
  char escape[8];
  const char *known = short_escape(code);
  snprintf(escape, sizeof escape, "\\u%04x", code & 0xffffu);
  lap_parts_add(s->rules, parts, text(s, known ? known : escape));
}

const lap_expression *lap_spell_character(const lap_spelling *s, const lap_characters *set) {
  lap_characters plain = lap_characters_common(&s->rules->arena, set, &s->plain);
  lap_parts parts = {0};
  lap_parts_add(s->rules, &parts, lap_expr_character(s->rules, &plain));
  for (uint32_t code = 0; s->json && code <= '\\'; code++)
    if (!lap_characters_hold(&s->plain, code) && lap_characters_hold(set, code)) add_escape(s, &parts, code);
  return lap_expr_choice(s->rules, &parts);
}

const lap_expression *lap_spell_string(const lap_spelling *s, const lap_expression *content) {
  return ROW(s->rules, s->quote, content, s->quote);
}

/* ---- given values ------------------------------------------------------------------------------ */

static const lap_expression *spell_text(const lap_spelling *s, const char *t, size_t length) {
  lap_parts parts = {0};
  size_t plain = 0; /* bytes in front of `i` that stand for themselves */
  for (size_t i = 0; i <= length; i++) {
    bool special = i < length && s->json && ((unsigned char)t[i] < 0x20 || t[i] == '"' || t[i] == '\\');
    if (i < length && !special) {
      plain++;
      continue;
    }
    lap_parts_add(s->rules, &parts, lap_expr_bytes(s->rules, t + i - plain, plain));
    if (special) add_escape(s, &parts, (unsigned char)t[i]);
    plain = 0;
  }
  return lap_expr_sequence(s->rules, &parts);
}

static const lap_expression *spell_number(const lap_spelling *s, const lap_json *value) {
  char number[64];
  if (value->type == LAP_JSON_INTEGER) {
    snprintf(number, sizeof number, "%lld", (long long)value->integer);
    return text(s, number);
  }
  lap_decimal d;
  if (!lap_decimal_from(value->real, &d)) return lap_expr_nothing();
  char decimal[2 * LAP_MAX_DECIMAL + 8];
  snprintf(decimal, sizeof decimal, "%s%s%s%s", d.negative ? "-" : "", d.digits, d.fraction[0] ? "." : "",
           d.fraction);
  return text(s, decimal);
}

/* The children of an array or object; documents are at most LAP_JSON_MAX_DEPTH deep. */
static const lap_expression *spell_children(const lap_spelling *s, const lap_json *value) {
  lap_parts parts = {0};
  for (const lap_json *child = value->child; child; child = child->next) {
    if (parts.count > 0) lap_parts_add(s->rules, &parts, s->comma);
    if (value->type == LAP_JSON_OBJECT) lap_parts_add(s->rules, &parts, lap_spell_key(s, child->key));
    lap_parts_add(s->rules, &parts, lap_spell_value(s, child));
  }
  return lap_expr_sequence(s->rules, &parts);
}

const lap_expression *lap_spell_value(const lap_spelling *s, const lap_json *value) {
  switch (value->type) {
    case LAP_JSON_NULL:
      return s->null;
    case LAP_JSON_BOOL:
      return text(s, value->boolean ? "true" : "false");
    case LAP_JSON_INTEGER:
    case LAP_JSON_REAL:
      return spell_number(s, value);
    case LAP_JSON_STRING:
      return lap_spell_string(s, spell_text(s, value->string, value->length));
    case LAP_JSON_ARRAY:
      return lap_spell_brackets(s, spell_children(s, value));
    case LAP_JSON_OBJECT:
      return lap_spell_braces(s, spell_children(s, value));
  }
  return lap_expr_nothing();
}

/* ---- keys -------------------------------------------------------------------------------------- */

bool lap_spelling_can_key(const lap_spelling *s, const char *key) {
  if (s->json) return true;
  for (const char *c = key; *c; c++)
    if ((unsigned char)*c <= ' ' || strchr(":,{}[]<>\"", *c)) return false;
  return key[0] != '\0';
}

const lap_expression *lap_spell_key(const lap_spelling *s, const char *key) {
  const lap_expression *spelled = spell_text(s, key, strlen(key));
  return lap_expr_then(s->rules, s->json ? lap_spell_string(s, spelled) : spelled, s->colon);
}

/* Characters of keys that are not given: in a tool call those of names. */
static lap_characters key_characters(const lap_spelling *s) {
  if (s->json) return s->plain;
  lap_characters set = {0};
  const char *pairs = "azAZ09__--..$$";
  for (; *pairs; pairs += 2)
    lap_characters_add(&s->rules->arena, &set, (unsigned char)pairs[0], (unsigned char)pairs[1]);
  lap_characters_normalize(&set);
  return set;
}

static const lap_expression *any_key_character(const lap_spelling *s) {
  lap_characters set = key_characters(s);
  return s->json ? s->any_character : lap_expr_character(s->rules, &set);
}

/* What may follow the first `depth` bytes that the keys [count] have in common, so that the whole is none of
 * them. Keys with escapes are not spelled here: an escape could hide one of the given keys. Once a key is
 * different from all of them, the rest is free. */
static const lap_expression *other_rest(const lap_spelling *s, const char *const *keys, size_t count,
                                        size_t depth) {
  lap_rules *rules = s->rules;
  lap_characters set = key_characters(s), taken = {0};
  lap_parts parts = {0};
  bool is_key = count > 0 && keys[0][depth] == '\0';
  if (depth > 0 && !is_key) lap_parts_add(rules, &parts, lap_expr_empty());
  for (size_t i = is_key, end; i < count && !rules->failed; i = end) {
    const char *rest = keys[i] + depth;
    uint32_t code = 0;
    size_t bytes = utf8_decode(rest, strlen(rest), &code);
    for (end = i + 1; end < count && strncmp(keys[end] + depth, rest, bytes) == 0;) end++;
    lap_characters_add(&rules->arena, &taken, code, code);
    const lap_expression *more = other_rest(s, keys + i, end - i, depth + bytes);
    lap_parts_add(rules, &parts, lap_expr_then(rules, spell_text(s, rest, bytes), more));
  }
  lap_characters_normalize(&taken);
  taken = lap_characters_inverse(&rules->arena, &taken);
  set = lap_characters_common(&rules->arena, &set, &taken);
  const lap_expression *free = lap_expr_repetition(rules, any_key_character(s), 0, LAP_ENDLESS);
  lap_parts_add(rules, &parts, lap_expr_then(rules, lap_expr_character(rules, &set), free));
  return lap_expr_choice(rules, &parts);
}

const lap_expression *lap_spell_other_key(const lap_spelling *s, const char *const *keys, size_t count) {
  if (count == 0) return s->free_key;
  const lap_expression *key = other_rest(s, keys, count, 0);
  return lap_expr_then(s->rules, s->json ? lap_spell_string(s, key) : key, s->colon);
}

/* ---- containers -------------------------------------------------------------------------------- */

static const lap_expression *enclose(const lap_spelling *s, const char *open, const lap_expression *content,
                                     const char *close) {
  return ROW(s->rules, text(s, open), s->space, content, s->space, text(s, close));
}

const lap_expression *lap_spell_braces(const lap_spelling *s, const lap_expression *content) {
  return enclose(s, "{", content, "}");
}

const lap_expression *lap_spell_brackets(const lap_spelling *s, const lap_expression *content) {
  return enclose(s, "[", content, "]");
}

/* ---- the pieces -------------------------------------------------------------------------------- */

static const lap_expression *white_space(lap_rules *rules) {
  const lap_expression *indent = lap_expr_repetition(rules, range(rules, "  \t\t"), 0, MAX_INDENT);
  const lap_expression *space =
      lap_expr_or(rules, lap_expr_text(rules, " "), lap_expr_then(rules, lap_expr_text(rules, "\n"), indent));
  return lap_expr_optional(rules, as_rule(rules, space));
}

/* Items with commas between them, or none. */
static const lap_expression *separated(const lap_spelling *s, const lap_expression *item) {
  const lap_expression *more =
      lap_expr_repetition(s->rules, lap_expr_then(s->rules, s->comma, item), 0, LAP_ENDLESS);
  return lap_expr_optional(s->rules, lap_expr_then(s->rules, item, more));
}

static void init_values(lap_spelling *s) {
  lap_rules *rules = s->rules;
  uint32_t value = lap_rules_add(rules, NULL);
  s->value = lap_expr_call(rules, value);
  s->array = as_rule(rules, lap_spell_brackets(s, separated(s, s->value)));
  const lap_expression *member = as_rule(rules, lap_expr_then(rules, s->free_key, s->value));
  s->object = as_rule(rules, lap_spell_braces(s, separated(s, member)));
  const lap_expression *const kinds[] = {s->object, s->array, s->string, s->number, s->boolean, s->null};
  lap_parts parts = {0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) lap_parts_add(rules, &parts, kinds[i]);
  lap_rules_define(rules, value, lap_expr_choice(rules, &parts));
}

static const lap_expression *free_key(const lap_spelling *s) {
  const lap_expression *key = lap_expr_repetition(s->rules, any_key_character(s), 1, LAP_ENDLESS);
  if (!s->json) return lap_expr_then(s->rules, key, s->colon);
  return lap_expr_then(s->rules, s->string, s->colon);
}

void lap_spelling_init(lap_spelling *s, lap_rules *rules, int32_t quote) {
  *s = (lap_spelling){.rules = rules, .json = quote < 0};
  s->quote = s->json ? lap_expr_text(rules, "\"") : lap_expr_token(rules, quote);
  s->space = s->json ? white_space(rules) : lap_expr_empty();
  s->comma = lap_expr_then(rules, lap_expr_text(rules, ","), s->space);
  s->colon = lap_expr_then(rules, lap_expr_text(rules, ":"), s->space);
  lap_characters forbidden = {0};
  lap_characters_add(&rules->arena, &forbidden, 0, s->json ? 0x1f : 0);
  if (s->json) lap_characters_add(&rules->arena, &forbidden, '"', '"');
  if (s->json) lap_characters_add(&rules->arena, &forbidden, '\\', '\\');
  s->plain = lap_characters_inverse(&rules->arena, &forbidden);
  s->any_character = s->json ? any_json_character(s) : lap_expr_character(rules, &s->plain);
  s->string =
      as_rule(rules, lap_spell_string(s, lap_expr_repetition(rules, s->any_character, 0, LAP_ENDLESS)));
  s->integer = as_rule(rules, lap_spell_any_number(rules, true));
  s->number = as_rule(rules, lap_spell_any_number(rules, false));
  s->boolean = lap_expr_or(rules, lap_expr_text(rules, "true"), lap_expr_text(rules, "false"));
  s->null = lap_expr_text(rules, "null");
  s->free_key = free_key(s);
  init_values(s);
}
