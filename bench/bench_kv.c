/* bench_kv.c: what the format of the KV caches costs or brings in decoding.
 *
 * Usage: bench_kv MODEL [DEPTH [ROUNDS [TOKENS]]]
 *
 * For each KV setting a session takes the same DEPTH tokens; then they decode TOKENS tokens each, by turns,
 * for ROUNDS rounds, and go back. A machine's speed drifts by more than the settings differ: only neighbours
 * in time can be compared, so each round gives one ratio to the plain caches of the same round. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "lapidary.h"

enum {
  SETTINGS = 4,
  MAX_ROUNDS = 99
};

static const lap_kv_mode modes[SETTINGS] = {LAP_KV_PLAIN, LAP_KV_8, LAP_KV_4, LAP_KV_CONFIG};
static const char *const names[SETTINGS] = {"plain", "8", "4", "config"};

typedef struct runner {
  lap_model *model;
  lap_session *session;
  double rate[MAX_ROUNDS];
} runner;

static void expect(lap_status status, const lap_error *error) {
  if (status == LAP_OK) return;
  fprintf(stderr, "bench_kv: %s\n", error->message);
  exit(1);
}

static int64_t number(int argc, char **argv, int index, int64_t otherwise, int64_t high) {
  if (argc <= index) return otherwise;
  char *end;
  intmax_t value = strtoimax(argv[index], &end, 10);
  if (*end || value < 1 || value > high) {
    fprintf(stderr, "bench_kv: '%s' is not a number from 1 to %" PRId64 "\n", argv[index], high);
    exit(2);
  }
  return value;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_spread(double *values, int count, const char *end) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  printf("%8.3f (%.3f to %.3f)%s", values[count / 2], values[0], values[count - 1], end);
}

/* The same ids in every run (a 64-bit congruential generator). */
static int32_t *draw_ids(int64_t count, int32_t vocab) {
  uint64_t state = 20260401;
  int32_t *ids = malloc((size_t)count * sizeof *ids);
  for (int64_t i = 0; ids && i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
  }
  return ids;
}

static double decode(runner *r, const int32_t *ids, int64_t depth, int64_t tokens, float *logits) {
  lap_error error;
  double start = lap_seconds();
  for (int64_t i = 0; i < tokens; i++)
    expect(lap_session_eval(r->session, ids + depth + i, 1, 1, logits, &error), &error);
  double seconds = lap_seconds() - start;
  expect(lap_session_trim(r->session, depth, &error), &error);
  return (double)tokens / seconds;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fputs("usage: bench_kv MODEL [DEPTH [ROUNDS [TOKENS]]]\n", stderr);
    return 2;
  }
  int64_t depth = number(argc, argv, 2, 4096, 1 << 24), tokens = number(argc, argv, 4, 16, 4096);
  int rounds = (int)number(argc, argv, 3, 9, MAX_ROUNDS);
  runner runners[SETTINGS] = {0};
  lap_error error;
  int32_t *ids = NULL;
  float *logits = NULL;
  for (int k = 0; k < SETTINGS; k++) {
    runner *r = &runners[k];
    expect(lap_model_open(argv[1], &(lap_model_options){.kv = modes[k]}, &r->model, &error), &error);
    if (!ids) ids = draw_ids(depth + tokens, lap_model_vocab_size(r->model));
    if (!logits) logits = malloc((size_t)lap_model_vocab_size(r->model) * sizeof *logits);
    if (!ids || !logits) expect(lap_fail(&error, LAP_ERROR_MEMORY, "out of memory"), &error);
    expect(lap_session_create(r->model, NULL, &r->session, &error), &error);
    expect(lap_session_eval(r->session, ids, depth, 0, NULL, &error), &error);
  }
  for (int round = -1; round < rounds; round++) /* the first is not counted */
    for (int i = 0; i < SETTINGS; i++) {
      int k = (i + round + 1) % SETTINGS;
      double rate = decode(&runners[k], ids, depth, tokens, logits);
      if (round >= 0) runners[k].rate[round] = rate;
    }
  printf("decode at depth %" PRId64 ", %" PRId64 " tokens by turns, median (min to max) of %d rounds\n",
         depth, tokens, rounds);
  puts("kv        tokens/s                        ratio to plain");
  for (int k = SETTINGS - 1; k >= 0; k--) { /* plain last: printing sorts */
    double ratio[MAX_ROUNDS];
    for (int round = 0; round < rounds; round++)
      ratio[round] = runners[k].rate[round] / runners[0].rate[round];
    printf("%-8s ", names[k]);
    print_spread(runners[k].rate, rounds, " ");
    print_spread(ratio, rounds, "\n");
  }
  for (int k = 0; k < SETTINGS; k++) {
    lap_session_destroy(runners[k].session);
    lap_model_close(runners[k].model);
  }
  free(ids);
  free(logits);
  return 0;
}
