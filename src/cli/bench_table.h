/* bench_table.h: rows of short texts, printed in columns or as Markdown. */
#ifndef LAP_CLI_BENCH_TABLE_H
#define LAP_CLI_BENCH_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum {
  LAP_TABLE_COLUMNS = 8,
  LAP_TABLE_TEXT = 48
};

typedef char lap_table_row[LAP_TABLE_COLUMNS][LAP_TABLE_TEXT];

typedef struct lap_table {
  int columns;
  int rows; /* the head is row 0 */
  lap_table_row *row;
  bool failed; /* out of memory: rows are missing, lap_table_end says so */
} lap_table;

/* `heads`: the columns' names, divided by '|'; a name that begins with '<' makes its column flush left. */
void lap_table_begin(lap_table *table, const char *heads);

/* The next cell, from left to right; a new row begins by itself. */
void lap_table_add(lap_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints and releases it. */
void lap_table_end(lap_table *table, FILE *out, bool markdown);

#endif
