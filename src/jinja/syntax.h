/* syntax.h: from source to tokens to a tree.
 *
 * The lexer divides the source into data, tags and what stands in them, and settles all questions of
 * whitespace; the parser then never looks at the source. Both report a fault by jumping out of the
 * compilation: all they hold is the arena, so nothing is lost by it. */
#ifndef LAP_JINJA_SYNTAX_H
#define LAP_JINJA_SYNTAX_H

#include <setjmp.h>

#include "jinja/jinja.h"
#include "jinja/object.h"

enum {
  LAP_JINJA_MAX_SOURCE_BYTES = 1 << 20,
  LAP_JINJA_MAX_NESTING = 100 /* of tags and expressions in the source */
};

typedef struct lap_jinja_builtin lap_jinja_builtin;

/* ---- tokens ---- */

typedef enum lap_jinja_token_type {
  TOKEN_END, /* of the source */
  TOKEN_DATA,
  TOKEN_PRINT_BEGIN,
  TOKEN_PRINT_END,
  TOKEN_TAG_BEGIN,
  TOKEN_TAG_END,
  TOKEN_NAME,
  TOKEN_TEXT,
  TOKEN_INTEGER,
  TOKEN_REAL,
  TOKEN_OPERATOR
} lap_jinja_token_type;

typedef struct lap_jinja_token {
  lap_jinja_token_type type;
  uint32_t offset;  /* in the source */
  char operator[3]; /* OPERATOR, terminated; else "" */
  value value;      /* DATA, NAME, TEXT: a string of the template; INTEGER, REAL */
} lap_jinja_token;

/* ---- the tree ---- */

typedef enum lap_jinja_node_kind {
  /* expressions; what the fields of a node mean in each */
  NODE_CONSTANT,  /* value */
  NODE_NAME,      /* value: the name */
  NODE_LIST,      /* items */
  NODE_TUPLE,     /* items; as a target: targets */
  NODE_DICT,      /* items: keys and values in turn */
  NODE_CONDITION, /* a if b else c; c may be NULL */
  NODE_AND,       /* a, b */
  NODE_OR,        /* a, b */
  NODE_NOT,       /* a */
  NODE_NEGATE,    /* a */
  NODE_PLUS,      /* a */
  NODE_BINARY,    /* a operation b */
  NODE_CONCAT,    /* items */
  NODE_COMPARE,   /* a; items: OPERANDs */
  NODE_OPERAND,   /* operation, a: the right side */
  NODE_ATTRIBUTE, /* a.value */
  NODE_ITEM,      /* a[b] */
  NODE_SLICE,     /* a[b:c:d], each but a may be NULL */
  NODE_CALL,      /* a(items, keywords, *c, **d); c and d may be NULL */
  NODE_FILTER,    /* a | value(...) with arguments as in a call; builtin */
  NODE_TEST,      /* a is value(...), the same */
  NODE_KEYWORD,   /* value=a */
  NODE_CAPTURED,  /* what the block just rendered: the input of a block's filters */
  NODE_MEMBER,    /* target: the attribute `value` of the namespace a, a NAME */
  /* statements */
  NODE_TEXT,         /* value */
  NODE_PRINT,        /* a */
  NODE_IF,           /* items: BRANCHes; otherwise */
  NODE_BRANCH,       /* a: the test; body */
  NODE_FOR,          /* for a in b if c: body; otherwise; flag: recursive; c may be NULL */
  NODE_SET,          /* a: target, b */
  NODE_SET_BLOCK,    /* a: target, b: CAPTURED or filters of it, body */
  NODE_FILTER_BLOCK, /* b: filters of CAPTURED, body */
  NODE_WITH,         /* items: targets and values in turn; body */
  NODE_MACRO,        /* value: the name; items: PARAMETERs; body; uses_... */
  NODE_PARAMETER,    /* value: the name; a: the default or NULL */
  NODE_CALL_BLOCK,   /* a: the CALL; b: a MACRO, the caller */
  NODE_SCOPE,        /* body */
  NODE_BREAK,
  NODE_CONTINUE,
  NODE_DO /* a */
} lap_jinja_node_kind;

typedef enum lap_jinja_operation {
  OPERATION_ADD,
  OPERATION_SUBTRACT,
  OPERATION_MULTIPLY,
  OPERATION_DIVIDE,
  OPERATION_FLOOR_DIVIDE,
  OPERATION_MODULO,
  OPERATION_POWER,
  OPERATION_EQUAL,
  OPERATION_NOT_EQUAL,
  OPERATION_LESS,
  OPERATION_LESS_EQUAL,
  OPERATION_GREATER,
  OPERATION_GREATER_EQUAL,
  OPERATION_IN,
  OPERATION_NOT_IN
} lap_jinja_operation;

typedef struct lap_jinja_node lap_jinja_node;
struct lap_jinja_node {
  lap_jinja_node_kind kind;
  lap_jinja_operation operation;
  bool flag, uses_caller, uses_varargs, uses_kwargs;
  uint32_t offset; /* in the source, for messages */
  value value;
  const lap_jinja_builtin *builtin;
  lap_jinja_node *a, *b, *c, *d;
  lap_jinja_node *items, *keywords, *body, *otherwise; /* linked by `next` */
  lap_jinja_node *next;
};

struct lap_jinja_template {
  arena arena;
  char *name;
  const char *source; /* [length], newlines normalized */
  size_t length;
  lap_jinja_node *body;
};

/* ---- compiling ---- */

typedef struct lap_jinja_compiler {
  lap_jinja_template *compiled;
  arena *arena; /* the template's */
  lap_jinja_syntax syntax;
  lap_jinja_token *tokens; /* the last is END */
  size_t token_count;
  lap_error *error;
  lap_status status;
  jmp_buf failed;
} lap_jinja_compiler;

/* Reports `name:line:column: message` for a place in the source, and does not return. */
_Noreturn void lap_jinja_refuse(lap_jinja_compiler *c, lap_status status, size_t offset, const char *format,
                                ...) __attribute__((format(printf, 4, 5)));

/* Line and column, from 1, of a place in the source; a column is a character. */
void lap_jinja_locate(const lap_jinja_template *compiled, size_t offset, size_t *line, size_t *column);

void lap_jinja_lex(lap_jinja_compiler *c);
void lap_jinja_parse(lap_jinja_compiler *c);

/* ---- the parts of the parser ---- */

typedef struct lap_jinja_parser {
  lap_jinja_compiler *compiler;
  const lap_jinja_token *token; /* the next one */
  int nesting;
  int conditional; /* inside an `if`, where an unknown filter is an error only when it is reached */
  const lap_jinja_node *unknown; /* the first filter or test elsewhere that does not exist */
  int loops;                     /* around this place, inside the same macro */
  lap_jinja_node *macro;         /* the innermost macro or call block */
} lap_jinja_parser;

/* Adds to the list whose end `*end` points to. */
static inline void lap_jinja_append_node(lap_jinja_node ***end, lap_jinja_node *n) {
  **end = n;
  *end = &n->next;
}

lap_jinja_node *lap_jinja_new_node(lap_jinja_parser *p, lap_jinja_node_kind kind, uint32_t offset);
void lap_jinja_enter(lap_jinja_parser *p);
void lap_jinja_leave(lap_jinja_parser *p);
bool lap_jinja_at_operator(const lap_jinja_parser *p, const char *spelling);
bool lap_jinja_at_name(const lap_jinja_parser *p, const char *name);
/* Steps over the token if it is that one. */
bool lap_jinja_skip_operator(lap_jinja_parser *p, const char *spelling);
bool lap_jinja_skip_name(lap_jinja_parser *p, const char *name);
/* Steps over the token, which must be that one. */
void lap_jinja_expect_operator(lap_jinja_parser *p, const char *spelling);
lap_jinja_token lap_jinja_expect_name(lap_jinja_parser *p);
_Noreturn void lap_jinja_unexpected(lap_jinja_parser *p, const char *wanted);

lap_jinja_node *lap_jinja_parse_expression(lap_jinja_parser *p);
/* One expression, or several with commas: a tuple. `conditions`: may `a if b else c` stand here?
 * `end`: a name that ends it, or NULL. */
lap_jinja_node *lap_jinja_parse_tuple(lap_jinja_parser *p, bool conditions, const char *end);
/* Names and literals only, for targets. */
lap_jinja_node *lap_jinja_parse_simple_tuple(lap_jinja_parser *p, const char *end);
/* The filters from here on, applied to `input`; the first without its bar if `inline_start`. */
lap_jinja_node *lap_jinja_parse_filters(lap_jinja_parser *p, lap_jinja_node *input, bool inline_start);

#endif
