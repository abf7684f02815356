/* schema.h: JSON schemas as expressions. What is supported stands in docs/grammar.md. */
#ifndef LAP_GRAMMAR_SCHEMA_H
#define LAP_GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "grammar/spelling.h"

typedef struct lap_schema_reader {
  const lap_json_document *document;
  const lap_spelling *spelling;
  bool closed;       /* objects that list properties and say nothing about others have no others */
  bool sorted;       /* members in the order of Jinja's dictsort, else as the schema lists them */
  bool only_objects; /* the value itself must be an object */
} lap_schema_reader;

/* The values valid under `schema`, a part of the document and what `#` in its references means; NULL is a
 * schema that allows anything. Sets how the rules report left recursion. `reader` must live as long as the
 * rules. Errors: FORMAT or UNSUPPORTED, naming the path in the document; MEMORY is left to lap_rules_status.
 */
lap_status lap_schema_read(const lap_schema_reader *reader, const lap_json *schema,
                           const lap_expression **out, lap_error *error);

#endif
