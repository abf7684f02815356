/* spelling.h: how values are written: as JSON, or in the syntax of Gemma's tool calls.
 *
 * In a tool call keys are bare, strings stand between two special tokens and have no escapes, and there is no
 * white space. In JSON white space is allowed behind `{ [ , :` and in front of `} ]`, one blank or one line
 * end with up to 32 blanks or tabs, so that a model cannot fill its answer with it.
 *
 * Numbers have at most 18 digits in front of the point, 17 behind it and 2 in the exponent: what readers
 * hold without overflow. */
#ifndef LAP_GRAMMAR_SPELLING_H
#define LAP_GRAMMAR_SPELLING_H

#include "base/json.h"
#include "grammar/expression.h"

typedef struct lap_spelling {
  lap_rules *rules;
  bool json;
  const lap_expression *quote;
  const lap_expression *space;         /* where white space may stand */
  const lap_expression *comma, *colon; /* with what space may follow */
  const lap_expression *any_character; /* one character of a string, in all its spellings */
  const lap_expression *string, *integer, *number, *boolean, *null;
  const lap_expression *value, *object, *array; /* any */
  const lap_expression *free_key;
  lap_characters plain; /* characters that stand for themselves in strings */
} lap_spelling;

/* `quote` is the token that encloses strings; -1: JSON. */
void lap_spelling_init(lap_spelling *spelling, lap_rules *rules, int32_t quote);

/* One character of a string out of a set, in its shortest spelling. */
const lap_expression *lap_spell_character(const lap_spelling *spelling, const lap_characters *set);

/* A string of this content, which is an expression made of characters. */
const lap_expression *lap_spell_string(const lap_spelling *spelling, const lap_expression *content);

/* This value, and nothing else. */
const lap_expression *lap_spell_value(const lap_spelling *spelling, const lap_json *value);

/* A key and the colon behind it. */
const lap_expression *lap_spell_key(const lap_spelling *spelling, const char *key);

/* Can the key be written? In a tool call it must not hold what ends a key. */
bool lap_spelling_can_key(const lap_spelling *spelling, const char *key);

/* Any key but these [count], which are sorted by strcmp, and the colon. */
const lap_expression *lap_spell_other_key(const lap_spelling *spelling, const char *const *keys,
                                          size_t count);

/* `{` members `}` and `[` items `]`; `content` may match the empty text. */
const lap_expression *lap_spell_braces(const lap_spelling *spelling, const lap_expression *content);
const lap_expression *lap_spell_brackets(const lap_spelling *spelling, const lap_expression *content);

/* Numbers in an interval. `*_excluded`: the bound itself is not part of it. A bound is a decimal number of at
 * most LAP_MAX_DECIMAL digits on each side of the point. */
enum {
  LAP_MAX_DECIMAL = 40
};

typedef struct lap_decimal {
  bool negative;
  char digits[LAP_MAX_DECIMAL + 1];   /* in front of the point, without leading zeros but for 0 itself */
  char fraction[LAP_MAX_DECIMAL + 1]; /* behind it, without zeros at its end */
} lap_decimal;

typedef struct lap_interval {
  bool has_low, has_high;
  lap_decimal low, high;
  bool low_excluded, high_excluded;
  bool integers; /* only those */
} lap_interval;

/* The shortest decimal number that reads as `value`; false if it has too many digits. */
bool lap_decimal_from(double value, lap_decimal *out);
lap_decimal lap_decimal_from_integer(int64_t value);
int lap_decimal_compare(const lap_decimal *a, const lap_decimal *b);

/* (numbers.c) */
const lap_expression *lap_spell_interval(lap_rules *rules, const lap_interval *interval);
const lap_expression *lap_spell_any_number(lap_rules *rules, bool integers);

#endif
