/* sample.h: values of one quantity, measured again and again.
 *
 * What is shown of them is the median with the smallest and the largest: the mean of a rate on a machine
 * that others use too says more about the others. */
#ifndef LAP_BENCH_SAMPLE_H
#define LAP_BENCH_SAMPLE_H

#include <stddef.h>

enum {
  LAP_BENCH_MAX_ROUNDS = 64,
  LAP_BENCH_SAMPLE_VALUES = 256
};

typedef struct lap_bench_sample {
  double value[LAP_BENCH_SAMPLE_VALUES]; /* in the order measured */
  int count;
} lap_bench_sample;

/* Keeps the first LAP_BENCH_SAMPLE_VALUES values. */
void lap_bench_sample_add(lap_bench_sample *sample, double value);

/* Of an even number the mean of the two in the middle; 0 where there are none. */
double lap_bench_sample_median(const lap_bench_sample *sample);
double lap_bench_sample_min(const lap_bench_sample *sample);
double lap_bench_sample_max(const lap_bench_sample *sample);

/* Ascending, in place: for more values than a sample holds. */
void lap_bench_sort(double *values, size_t count);

/* Every value times `factor`: the same quantity in another unit. */
lap_bench_sample lap_bench_sample_scaled(const lap_bench_sample *sample, double factor);

#endif
