/* syntax.h: tokens, the tree, and the compilation that turns one into the other.
 *
 * lexer.h and parser.h report a fault by jumping out of the compilation: all they hold is the arena, so
 * nothing is lost by it. */
#ifndef LAP_JINJA_SYNTAX_H
#define LAP_JINJA_SYNTAX_H

#include <setjmp.h>
#include <stdarg.h>

#include "jinja/builtin.h"
#include "jinja/options.h"

enum {
  LAP_JINJA_MAX_SOURCE_BYTES = 1 << 20,
  LAP_JINJA_MAX_NESTING = 100 /* of tags and expressions in the source */
};

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

typedef struct lap_jinja_template lap_jinja_template;
typedef struct lap_jinja_node lap_jinja_node;
struct lap_jinja_node {
  lap_jinja_node_kind kind;
  lap_jinja_operation operation;
  bool flag, uses_caller, uses_varargs, uses_kwargs;
  uint32_t offset; /* in the source, for messages */
  value value;
  const builtin *builtin;
  lap_jinja_node *a, *b, *c, *d;
  lap_jinja_node *items, *keywords, *body, *otherwise; /* linked by `next` */
  lap_jinja_node *next;
};

/* What a template is compiled to. */
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
  const lap_jinja_language *language;
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

/* Fills `error` with `name:line:column: message` for a place in the source; both count from 1, and a column
 * is a character. */
void lap_jinja_report(const lap_jinja_template *compiled, lap_error *error, lap_status status, size_t offset,
                      const char *format, va_list arguments);

/* An operation as templates spell it, for messages. */
const char *lap_jinja_spelling(lap_jinja_operation operation);

#endif
