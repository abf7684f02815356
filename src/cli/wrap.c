/* wrap.c: see wrap.h. */
#include "cli/wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
  TEXT_WIDTH = 80,
  LEFT_WIDTH = 26,
  INDENT = 2
};

void lap_print_wrapped(const char *text, size_t column, size_t indent) {
  bool first = true;
  while (*text) {
    if (*text == '\n') { /* an empty line divides paragraphs */
      printf("\n\n%*s", (int)indent, "");
      column = indent;
      first = true;
      text += strspn(text, "\n");
    }
    size_t length = strcspn(text, " \n");
    if (!first && column + 1 + length > TEXT_WIDTH) {
      printf("\n%*s", (int)indent, "");
      column = indent;
      first = true;
    }
    column += (size_t)printf("%s%.*s", first ? "" : " ", (int)length, text);
    first = false;
    text += length;
    text += strspn(text, " ");
  }
  putchar('\n');
}

void lap_print_entry(const char *left, const char *text) {
  size_t column = (size_t)printf("%*s%s", INDENT, "", left);
  if (column + 2 > LEFT_WIDTH) {
    putchar('\n');
    column = 0;
  }
  printf("%*s", (int)(LEFT_WIDTH - column), "");
  lap_print_wrapped(text, LEFT_WIDTH, LEFT_WIDTH);
}
