/* writer.h: a C file in the making: functions are asked for by what they do, and are there once.
 *
 * A function has a name that says what it is and a text after the name. Asked for again with the same text
 * it is the same function; with another text it gets a number. So two layers that need the same code share
 * it, and nobody has to know beforehand which ones do. */
#ifndef LAP_CUT_WRITER_H
#define LAP_CUT_WRITER_H

#include "base/text_buffer.h"

typedef enum lap_section {
  LAP_SECTION_PRODUCTS,
  LAP_SECTION_ROWS,
  LAP_SECTION_INPUTS,
  LAP_SECTION_ATTENTION,
  LAP_SECTION_EXPERTS,
  LAP_SECTION_KINDS,
  LAP_SECTIONS
} lap_section;

typedef struct lap_function {
  char *name;
  char *text;
} lap_function;

typedef struct lap_writer {
  lap_text section[LAP_SECTIONS];
  lap_function *function;
  int functions;
  bool failed; /* out of memory; said once, by lap_writer_status */
} lap_writer;

/* Makes `before` NAME `after` part of the section, unless it is there; returns NAME, `name` or one made of
 * it (valid as long as the writer; "" after a failure). `after` is taken over. */
const char *lap_writer_function(lap_writer *writer, lap_section section, const char *before, const char *name,
                                lap_text *after);

/* Errors: MEMORY, if any addition failed. */
lap_status lap_writer_status(const lap_writer *writer, lap_error *error);
void lap_writer_free(lap_writer *writer);

#endif
