/* expression.h: rules and their right-hand sides, as the readers of GBNF and JSON schemas build them.
 *
 * The alphabet is bytes and tokens: a special token is a symbol of its own and never matched by the bytes of
 * its content. Expressions are immutable and may be shared, so a rule is a directed graph without cycles;
 * only calls of rules recurse. Everything lives in one arena. Building reports nothing: what fails for want
 * of memory, or by growing beyond a limit, is remembered, and lap_rules_status says so once, at the end. */
#ifndef LAP_GRAMMAR_EXPRESSION_H
#define LAP_GRAMMAR_EXPRESSION_H

#include "base/error.h"
#include "grammar/characters.h"

/* As the most repetitions: any number of them. */
#define LAP_ENDLESS UINT32_MAX

enum {
  LAP_MAX_RULES = 1 << 15,
  LAP_MAX_COUNT = 1 << 24, /* repetitions that are counted */
  /* Of expressions in each other: what walks them recurses. */
  LAP_MAX_EXPRESSION_DEPTH = 1000
};

typedef enum lap_expression_kind {
  LAP_EMPTY,      /* the empty text */
  LAP_NOTHING,    /* no text at all */
  LAP_BYTES,      /* these bytes in a row */
  LAP_CHARACTER,  /* one of a set */
  LAP_TOKEN,      /* a special token */
  LAP_CALL,       /* a rule */
  LAP_SEQUENCE,   /* the parts in a row */
  LAP_CHOICE,     /* one of the parts */
  LAP_REPETITION, /* a part, min to max times */
  LAP_LIST        /* the parts in order with a separator between them, those marked optional or not */
} lap_expression_kind;

typedef struct lap_expression lap_expression;

typedef const lap_expression *const *lap_expression_parts;

struct lap_expression {
  lap_expression_kind kind;
  uint32_t depth;
  uint32_t size; /* nodes of the automaton with calls counted as one, saturating */
  uint32_t count;
  union {
    const char *bytes;                 /* BYTES [count] */
    const lap_character_range *ranges; /* CHARACTER [count] */
    int32_t token;
    uint32_t rule;
    lap_expression_parts parts; /* SEQUENCE, CHOICE, LIST [count] */
    const lap_expression *part; /* REPETITION */
  };
  union {
    struct { /* REPETITION */
      uint32_t min, max;
    };
    struct { /* LIST */
      const lap_expression *separator;
      const bool *optional; /* [count] */
    };
  };
};

typedef struct lap_rule {
  const lap_expression *body; /* NULL: not defined yet */
  const void *origin;         /* for messages: what the reader gave */
} lap_rule;

typedef struct lap_rules {
  lap_arena arena;
  lap_rule *rules;
  size_t count, capacity;
  bool failed;
  /* Fails with a message about a rule, its place and `what` is wrong with it. */
  lap_status (*refuse)(const void *reader, const lap_rule *rule, const char *what, lap_error *error);
  const void *reader;
} lap_rules;

void lap_rules_init(lap_rules *rules);
void lap_rules_free(lap_rules *rules);

/* Errors: MEMORY, UNSUPPORTED (too large), naming `name`. */
lap_status lap_rules_status(const lap_rules *rules, const char *name, lap_error *error);

/* A new rule without a body; returns its number. */
uint32_t lap_rules_add(lap_rules *rules, const void *origin);
void lap_rules_define(lap_rules *rules, uint32_t rule, const lap_expression *body);

/* Parts in the making. Starts as {0}. */
typedef struct lap_parts {
  const lap_expression **items;
  uint32_t count, capacity;
} lap_parts;
void lap_parts_add(lap_rules *rules, lap_parts *parts, const lap_expression *part);

const lap_expression *lap_expr_empty(void);
const lap_expression *lap_expr_nothing(void);
const lap_expression *lap_expr_bytes(lap_rules *rules, const char *bytes, size_t length); /* copied */
const lap_expression *lap_expr_text(lap_rules *rules, const char *text);                  /* terminated */
const lap_expression *lap_expr_character(lap_rules *rules, const lap_characters *set);    /* copied */
const lap_expression *lap_expr_token(lap_rules *rules, int32_t id);
const lap_expression *lap_expr_call(lap_rules *rules, uint32_t rule);
const lap_expression *lap_expr_sequence(lap_rules *rules, const lap_parts *parts);
const lap_expression *lap_expr_choice(lap_rules *rules, const lap_parts *parts);
const lap_expression *lap_expr_repetition(lap_rules *rules, const lap_expression *part, uint32_t min,
                                          uint32_t max);
const lap_expression *lap_expr_list(lap_rules *rules, const lap_expression *separator, const lap_parts *parts,
                                    const bool *optional); /* the marks are copied */

/* Shorthands. */
const lap_expression *lap_expr_optional(lap_rules *rules, const lap_expression *part);
const lap_expression *lap_expr_then(lap_rules *rules, const lap_expression *first,
                                    const lap_expression *second);
const lap_expression *lap_expr_or(lap_rules *rules, const lap_expression *first,
                                  const lap_expression *second);

#endif
