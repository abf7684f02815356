/* bench_grammar.c: what enforcing a grammar costs.
 *
 * Usage: bench_grammar TOKENIZER.json [SCHEMA.json DOCUMENT.json]
 *
 * Builds the vocabulary, compiles the schema, and follows the document's tokens, asking for the mask at each:
 * once with an empty cache, once more with what the first time left there. For json_object, for a schema with
 * many strings, and for the one given. Prints milliseconds of processor time (there is one thread, and
 * nothing is waited for) and KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "bench/sample.h"
#include "grammar/matcher.h"

static const char schema_text[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\","
    "\"minimum\":0},"
    "\"email\":{\"type\":\"string\",\"maxLength\":64},\"tags\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"},"
    "\"maxItems\":8},\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},"
    "\"city\":"
    "{\"enum\":[\"Oslo\",\"Bergen\",\"Trondheim\"]}},\"required\":[\"street\",\"city\"],"
    "\"additionalProperties\":false}},\"required\":[\"name\",\"age\",\"email\",\"tags\",\"address\"],"
    "\"additionalProperties\":false}";
static const char document_text[] =
    "{\n  \"name\": \"Ada Lovelace, countess of the analytical engine\",\n  \"age\": 36,\n  \"email\": "
    "\"ada.lovelace@analytical-engine.example\",\n  \"tags\": [\"mathematics\", \"poetry\", \"the first "
    "program\"],\n  \"address\": {\n    \"street\": \"St James's Square 12, \\\"the corner house\\\"\",\n    "
    "\"city\": \"Oslo\"\n  }\n}";

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void give_up(const char *message) {
  fprintf(stderr, "bench_grammar: %s\n", message);
  exit(1);
}

static void expect(lap_status status, const lap_error *error) {
  if (status != LAP_OK) give_up(error->message);
}

/* Follows the text; prints the median and the largest of the times for one mask, and their mean. */
static void follow(const char *what, lap_grammar *grammar, const int32_t *ids, size_t count) {
  lap_error error;
  lap_matcher *matcher;
  const lap_vocabulary *v = lap_grammar_vocabulary(grammar);
  uint64_t *bits = malloc(lap_vocabulary_words(v) * sizeof *bits);
  double *times = malloc((count + 1) * sizeof *times), total = 0, accept = 0;
  if (!bits || !times) give_up("out of memory");
  expect(lap_matcher_create(grammar, &matcher, &error), &error);
  for (size_t i = 0; i < count; i++) {
    double start = cpu_seconds();
    expect(lap_matcher_mask(matcher, bits, &error), &error);
    times[i] = cpu_seconds() - start;
    total += times[i];
    start = cpu_seconds();
    expect(lap_matcher_accept(matcher, ids[i], &error), &error);
    accept += cpu_seconds() - start;
  }
  if (!lap_matcher_is_complete(matcher)) give_up("the document ends too early");
  lap_bench_sort(times, count);
  printf("  %-10s %5zu tokens: mask %7.3f median %7.3f mean %7.3f largest, accept %7.4f mean (ms)\n", what,
         count, times[count / 2] * 1e3, total / (double)count * 1e3, times[count - 1] * 1e3,
         accept / (double)count * 1e3);
  lap_matcher_destroy(matcher);
  free(bits);
  free(times);
}

static void measure(const char *what, lap_grammar *grammar, double seconds, const lap_tokenizer *tokenizer,
                    const char *text, size_t length) {
  lap_error error;
  int32_t *ids;
  size_t count;
  printf("%s: compiled in %.3f ms, %zu KiB\n", what, seconds * 1e3, lap_grammar_bytes(grammar) >> 10);
  expect(lap_tokenizer_encode(tokenizer, text, length, false, &ids, &count, &error), &error);
  follow("cold", grammar, ids, count);
  follow("warm", grammar, ids, count);
  printf("  with masks %zu KiB\n", lap_grammar_bytes(grammar) >> 10);
  free(ids);
  lap_grammar_release(grammar);
}

static void measure_schema(const char *what, const lap_vocabulary *v, const char *schema,
                           size_t schema_length, const char *text, size_t length) {
  lap_error error;
  lap_json_document *document;
  lap_grammar *grammar;
  expect(lap_json_parse(schema, schema_length, "schema", &document, &error), &error);
  double start = cpu_seconds();
  expect(lap_grammar_from_schema(v, document, lap_json_root(document), false, LAP_THOUGHTS_NONE, &grammar,
                                 &error),
         &error);
  measure(what, grammar, cpu_seconds() - start, v->tokenizer, text, length);
  lap_json_free(document);
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 4) give_up("usage: bench_grammar TOKENIZER.json [SCHEMA.json DOCUMENT.json]");
  lap_error error;
  lap_tokenizer *tokenizer;
  lap_vocabulary *v;
  lap_grammar *grammar;
  const int32_t eos = 1;
  expect(lap_tokenizer_open(argv[1], &tokenizer, &error), &error);
  double start = cpu_seconds();
  expect(lap_vocabulary_create(tokenizer, &eos, 1, &v, &error), &error);
  printf("vocabulary: %d ids, %u nodes, built in %.3f ms, %zu KiB\n", v->size, v->node_count,
         (cpu_seconds() - start) * 1e3, lap_vocabulary_bytes(v) >> 10);
  start = cpu_seconds();
  expect(lap_grammar_json_object(v, LAP_THOUGHTS_NONE, &grammar, &error), &error);
  measure("json_object", grammar, cpu_seconds() - start, tokenizer, document_text, sizeof document_text - 1);
  measure_schema("schema", v, schema_text, sizeof schema_text - 1, document_text, sizeof document_text - 1);
  if (argc == 4) {
    char *schema, *text;
    size_t schema_length, length;
    expect(lap_file_read(argv[2], 1 << 26, &schema, &schema_length, &error), &error);
    expect(lap_file_read(argv[3], 1 << 26, &text, &length, &error), &error);
    measure_schema(argv[2], v, schema, schema_length, text, length);
    free(schema);
    free(text);
  }
  lap_vocabulary_destroy(v);
  lap_tokenizer_close(tokenizer);
  return 0;
}
