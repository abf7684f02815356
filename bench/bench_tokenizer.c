/* bench_tokenizer.c: how fast tokenizer.json loads and text is encoded.
 *
 * Usage: bench_tokenizer TOKENIZER.json [TEXTFILE]
 *
 * Each line is minimum, median and maximum of five repeats: seconds for loading, and MB/s (10^6 bytes
 * per second) for 1 MB of ordinary text (the file's, or sentences from a fixed word list), for 300 kB
 * of it without spaces and newlines, where nothing but the vocabulary bounds a piece, and for 200,000
 * letters "a", where nothing does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/sample.h"
#include "text/tokenizer.h"

enum {
  REPEATS = 5,
  TEXT_BYTES = 1000000,
  DENSE_BYTES = 300000,
  LETTERS = 200000
};

static void report(const char *what, const lap_bench_sample *values, const char *unit) {
  printf("%-34s %8.3f %8.3f %8.3f %s\n", what, lap_bench_sample_min(values), lap_bench_sample_median(values),
         lap_bench_sample_max(values), unit);
}

static void give_up(const char *message) {
  fprintf(stderr, "bench_tokenizer: %s\n", message);
  exit(1);
}

static lap_tokenizer *open_tokenizer(const char *path) {
  lap_error error = {0};
  lap_tokenizer *tokenizer;
  if (lap_tokenizer_open(path, &tokenizer, &error) != LAP_OK) give_up(error.message);
  return tokenizer;
}

static void measure_load(const char *path) {
  lap_bench_sample values = {0};
  for (int i = 0; i < REPEATS; i++) {
    double start = lap_seconds();
    lap_tokenizer *tokenizer = open_tokenizer(path);
    lap_bench_sample_add(&values, lap_seconds() - start);
    lap_tokenizer_close(tokenizer);
  }
  report("load", &values, "s");
}

static void measure_encode(const lap_tokenizer *tokenizer, const char *what, const char *text,
                           size_t length) {
  lap_bench_sample values = {0};
  size_t count = 0;
  for (int i = 0; i < REPEATS; i++) {
    lap_error error = {0};
    int32_t *ids;
    double start = lap_seconds();
    if (lap_tokenizer_encode(tokenizer, text, length, true, &ids, &count, &error) != LAP_OK)
      give_up(error.message);
    lap_bench_sample_add(&values, 1e-6 * (double)length / (lap_seconds() - start));
    free(ids);
  }
  char line[64];
  snprintf(line, sizeof line, "%s, %zu tokens", what, count);
  report(line, &values, "MB/s");
}

/* The same sentences on every machine. */
static size_t make_text(char *text, size_t size) {
  static const char *const words[] = {
      "the",    "of",        "and",        "to",          "water", "in",      "is",        "that",
      "it's",   "was",       "government", "for",         "on",    "are",     "as",        "with",
      "his",    "they",      "at",         "mountain",    "this",  "from",    "I",         "have",
      "or",     "by",        "one",        "had",         "not",   "but",     "what",      "all",
      "were",   "when",      "we",         "there",       "can",   "an",      "your",      "which",
      "their",  "said",      "if",         "do",          "will",  "each",    "about",     "how",
      "up",     "algorithm", "out",        "them",        "then",  "she",     "many",      "some",
      "so",     "these",     "would",      "other",       "into",  "has",     "more",      "two",
      "like",   "him",       "see",        "temperature", "time",  "could",   "no",        "make",
      "than",   "first",     "been",       "its",         "who",   "now",     "people",    "my",
      "made",   "over",      "did",        "down",        "only",  "way",     "find",      "use",
      "may",    "1984",      "long",       "little",      "very",  "after",   "called",    "just",
      "where",  "most",      "know",       "function",    "café",  "int32_t", "Reykjavík", "unforgiving",
      "x += 1", "parallel",  "(note)",     "lapidary"};
  enum {
    WORDS = sizeof words / sizeof words[0]
  };
  uint64_t random = 1;
  size_t at = 0;
  for (int in_sentence = 0; at + 64 < size; in_sentence++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const char *end = " ";
    if (in_sentence > 4 && (random >> 40) % 8 == 0) {
      end = (random >> 50) % 5 == 0 ? ".\n\n" : (random >> 50) % 5 == 1 ? "? " : ". ";
      in_sentence = 0;
    }
    at += (size_t)snprintf(text + at, size - at, "%s%s", words[(random >> 33) % WORDS], end);
  }
  return at;
}

static size_t read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "rb");
  if (!file) give_up(path);
  size_t length = fread(text, 1, size, file);
  fclose(file);
  return length;
}

/* The text without spaces and newlines, once more from the start if it is too short. */
static size_t drop_spaces(const char *text, size_t length, char *out, size_t size) {
  size_t kept = 0, kept_before = size;
  while (kept < size && kept != kept_before) {
    kept_before = kept;
    for (size_t i = 0; i < length && kept < size; i++)
      if (text[i] != ' ' && text[i] != '\n') out[kept++] = text[i];
  }
  return kept;
}

int main(int argc, char **argv) {
  if (argc < 2) give_up("usage: bench_tokenizer TOKENIZER.json [TEXTFILE]");
  char *text = malloc(TEXT_BYTES), *dense = malloc(DENSE_BYTES), *letters = malloc(LETTERS);
  if (!text || !dense || !letters) give_up("out of memory");
  size_t length = argc > 2 ? read_text(argv[2], text, TEXT_BYTES) : make_text(text, TEXT_BYTES);
  memset(letters, 'a', LETTERS);

  printf("%-34s %8s %8s %8s\n", argv[1], "min", "median", "max");
  measure_load(argv[1]);
  lap_tokenizer *tokenizer = open_tokenizer(argv[1]);
  measure_encode(tokenizer, "text", text, length);
  measure_encode(tokenizer, "no space", dense, drop_spaces(text, length, dense, DENSE_BYTES));
  measure_encode(tokenizer, "letters a", letters, LETTERS);
  lap_tokenizer_close(tokenizer);
  free(text);
  free(dense);
  free(letters);
  return 0;
}
