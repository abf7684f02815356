/* table.c: a table is collected first, because a column is as wide as its widest text. */
#include "bench/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct column {
  bool left;
  int width;
} column;

/* Cells fill up row after row; `next` counts them. */
static char *next_cell(lap_bench_table *table) {
  char *last = table->rows ? table->row[table->rows - 1][table->columns - 1] : NULL;
  if (!table->rows || *last) {
    lap_bench_table_row *grown = realloc(table->row, (size_t)(table->rows + 1) * sizeof *grown);
    if (!grown) return NULL;
    table->row = grown;
    memset(table->row[table->rows++], 0, sizeof *grown);
  }
  lap_bench_table_row *row = &table->row[table->rows - 1];
  int at = 0;
  while ((*row)[at][0]) at++;
  return (*row)[at];
}

static void add_text(lap_bench_table *table, const char *text) {
  char *cell = table->failed ? NULL : next_cell(table);
  if (cell)
    snprintf(cell, LAP_BENCH_TABLE_TEXT, "%s", *text ? text : "-"); /* an empty cell would count as unused */
  else
    table->failed = true;
}

void lap_bench_table_begin(lap_bench_table *table, const char *heads) {
  *table = (lap_bench_table){.columns = 1};
  for (const char *c = heads; *c; c++) table->columns += *c == '|';
  for (int i = 0; i < table->columns; i++) {
    char head[LAP_BENCH_TABLE_TEXT];
    size_t length = strcspn(heads, "|");
    snprintf(head, sizeof head, "%.*s", (int)length, heads);
    add_text(table, head);
    heads += length + 1;
  }
}

void lap_bench_table_add(lap_bench_table *table, const char *format, ...) {
  char text[LAP_BENCH_TABLE_TEXT];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  add_text(table, text);
}

static const char *text_of(const lap_bench_table *table, int row, int at) {
  const char *text = table->row[row][at];
  return row == 0 && *text == '<' ? text + 1 : text;
}

static column measure(const lap_bench_table *table, int at) {
  column c = {.left = table->row[0][at][0] == '<'};
  for (int row = 0; row < table->rows; row++) {
    int length = (int)strlen(text_of(table, row, at));
    if (length > c.width) c.width = length;
  }
  return c;
}

static void print_row(const lap_bench_table *table, int row, FILE *out, bool markdown) {
  for (int i = 0; i < table->columns; i++) {
    column c = measure(table, i);
    bool last = i == table->columns - 1 && c.left && !markdown; /* no spaces at a line's end */
    fprintf(out, "%s%*s", markdown ? "| " : "  ", c.left ? last ? 0 : -c.width : c.width,
            text_of(table, row, i));
    if (markdown) fputs(i == table->columns - 1 ? " |" : " ", out);
  }
  fputc('\n', out);
}

static void print_rule(const lap_bench_table *table, FILE *out) {
  for (int i = 0; i < table->columns; i++) fputs(table->row[0][i][0] == '<' ? "|---" : "|---:", out);
  fputs("|\n", out);
}

void lap_bench_table_end(lap_bench_table *table, FILE *out, bool markdown) {
  for (int row = 0; row < table->rows; row++) {
    print_row(table, row, out, markdown);
    if (row == 0 && markdown) print_rule(table, out);
  }
  if (table->failed) fputs("  (out of memory: rows are missing)\n", out);
  free(table->row);
}
