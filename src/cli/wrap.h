/* wrap.h: prose and lists for the terminal, in lines of 80 columns. */
#ifndef LAP_CLI_WRAP_H
#define LAP_CLI_WRAP_H

#include <stddef.h>

/* Prints words, the first at column `column`; further lines are indented by `indent`. A newline in `text`
 * divides paragraphs. Ends with a newline. */
void lap_print_wrapped(const char *text, size_t column, size_t indent);

/* Prints a name and, beside it or below it where it is long, what it means. */
void lap_print_entry(const char *left, const char *text);

#endif
