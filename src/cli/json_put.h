/* json_put.h: a JSON object on its way out: what the verbs that print one share. Integers up to 2^63 - 1,
 * text in UTF-8. */
#ifndef LAP_CLI_JSON_PUT_H
#define LAP_CLI_JSON_PUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>

/* Begins an object that is printed to `out`, indented; NULL if out of memory. */
yajl_gen lap_json_begin(FILE *out);
void lap_json_end(yajl_gen g);

/* A key, or a string in an array. */
void lap_json_put_string(yajl_gen g, const char *text);

void lap_json_put_text(yajl_gen g, const char *key, const char *value);
void lap_json_put_integer(yajl_gen g, const char *key, int64_t value);
void lap_json_put_bool(yajl_gen g, const char *key, bool value);
/* Six digits: more than any measurement is good for. */
void lap_json_put_measured(yajl_gen g, const char *key, double value);

/* Opens an object under `key`; yajl_gen_map_close ends it. */
void lap_json_open(yajl_gen g, const char *key);

#endif
