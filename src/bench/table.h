/* table.h: rows of short texts, printed in columns or as Markdown. */
#ifndef LAP_BENCH_TABLE_H
#define LAP_BENCH_TABLE_H

#include <stdbool.h>
#include <stdio.h>

enum {
  LAP_BENCH_TABLE_COLUMNS = 8,
  LAP_BENCH_TABLE_TEXT = 48
};

typedef char lap_bench_table_row[LAP_BENCH_TABLE_COLUMNS][LAP_BENCH_TABLE_TEXT];

typedef struct lap_bench_table {
  int columns;
  int rows; /* the head is row 0 */
  lap_bench_table_row *row;
  bool failed; /* out of memory: rows are missing, lap_bench_table_end says so */
} lap_bench_table;

/* `heads`: the columns' names, divided by '|'; a name that begins with '<' makes its column flush left. */
void lap_bench_table_begin(lap_bench_table *table, const char *heads);

/* The next cell, from left to right; a new row begins by itself. */
void lap_bench_table_add(lap_bench_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints and releases it. */
void lap_bench_table_end(lap_bench_table *table, FILE *out, bool markdown);

#endif
