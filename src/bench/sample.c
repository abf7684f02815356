/* sample.c: median, smallest, largest. */
#include "bench/sample.h"

#include <stdlib.h>

void lap_bench_sample_add(lap_bench_sample *sample, double value) {
  if (sample->count < LAP_BENCH_SAMPLE_VALUES) sample->value[sample->count++] = value;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void lap_bench_sort(double *values, size_t count) {
  qsort(values, count, sizeof *values, by_value);
}

/* The value at `rank` (0 = smallest); a copy is sorted, the order measured stays. */
static double ranked(const lap_bench_sample *sample, int rank) {
  lap_bench_sample sorted = *sample;
  if (!sorted.count) return 0;
  lap_bench_sort(sorted.value, (size_t)sorted.count);
  return sorted.value[rank];
}

double lap_bench_sample_median(const lap_bench_sample *sample) {
  int half = sample->count / 2;
  if (sample->count % 2) return ranked(sample, half);
  return sample->count ? (ranked(sample, half - 1) + ranked(sample, half)) / 2 : 0;
}

double lap_bench_sample_min(const lap_bench_sample *sample) {
  return ranked(sample, 0);
}

double lap_bench_sample_max(const lap_bench_sample *sample) {
  return ranked(sample, sample->count - 1);
}

lap_bench_sample lap_bench_sample_scaled(const lap_bench_sample *sample, double factor) {
  lap_bench_sample scaled = {.count = sample->count};
  for (int i = 0; i < sample->count; i++) scaled.value[i] = sample->value[i] * factor;
  return scaled;
}
