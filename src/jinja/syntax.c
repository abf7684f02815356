/* syntax.c: faults are reported with their place in the source. */
#include "jinja/syntax.h"

#include <stdio.h>

/* Line and column, from 1. */
static void locate(const lap_jinja_template *compiled, size_t offset, size_t *line, size_t *column) {
  if (offset > compiled->length) offset = compiled->length;
  const char *begin = compiled->source, *end = begin + offset, *newline;
  *line = 1;
  while ((newline = memchr(begin, '\n', (size_t)(end - begin)))) {
    begin = newline + 1;
    ++*line;
  }
  *column = 1;
  for (; begin < end; begin++) *column += ((unsigned char)*begin & 0xc0) != 0x80;
}

void lap_jinja_report(const lap_jinja_template *compiled, lap_error *error, lap_status status, size_t offset,
                      const char *format, va_list arguments) {
  char what[sizeof error->message];
  vsnprintf(what, sizeof what, format, arguments);
  size_t line, column;
  locate(compiled, offset, &line, &column);
  lap_fail(error, status, "%s:%zu:%zu: %s", compiled->name, line, column, what);
}

void lap_jinja_refuse(lap_jinja_compiler *c, lap_status status, size_t offset, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  lap_jinja_report(c->compiled, c->error, status, offset, format, arguments);
  va_end(arguments);
  c->status = status;
  longjmp(c->failed, 1);
}

const char *lap_jinja_spelling(lap_jinja_operation operation) {
  static const char *const spellings[] = {[OPERATION_ADD] = "+",
                                          [OPERATION_SUBTRACT] = "-",
                                          [OPERATION_MULTIPLY] = "*",
                                          [OPERATION_DIVIDE] = "/",
                                          [OPERATION_FLOOR_DIVIDE] = "//",
                                          [OPERATION_MODULO] = "%",
                                          [OPERATION_POWER] = "**",
                                          [OPERATION_EQUAL] = "==",
                                          [OPERATION_NOT_EQUAL] = "!=",
                                          [OPERATION_LESS] = "<",
                                          [OPERATION_LESS_EQUAL] = "<=",
                                          [OPERATION_GREATER] = ">",
                                          [OPERATION_GREATER_EQUAL] = ">=",
                                          [OPERATION_IN] = "in",
                                          [OPERATION_NOT_IN] = "not in"};
  return spellings[operation];
}
