/* options.h: what whoever compiles and renders templates may choose. */
#ifndef LAP_JINJA_OPTIONS_H
#define LAP_JINJA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* How whitespace around tags is treated; Jinja's options of these names. */
typedef struct lap_jinja_syntax {
  bool trim_blocks, lstrip_blocks, keep_trailing_newline;
} lap_jinja_syntax;

typedef struct lap_jinja_limits {
  size_t output_bytes; /* of the rendered text; 0 = 64 MiB */
  size_t memory_bytes; /* of all values; 0 = 512 MiB */
  uint64_t steps;      /* a step is an expression, a statement, an element or a few dozen bytes of text;
                          0 = 200 million, some seconds */
  int depth;           /* of evaluation, through macros; 0 = 1000, which needs less than 1 MiB of stack */
} lap_jinja_limits;

typedef struct lap_jinja_options {
  lap_jinja_limits limits;
  const struct tm *now; /* what strftime_now tells; NULL = a template sees no such function */
} lap_jinja_options;

#endif
