/* check.h: what the tests share: cmocka, goldens, random numbers, distances. */
#ifndef LAP_TESTS_CHECK_H
#define LAP_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after the four headers that cmocka wants before it */
#include <cmocka.h>

#include "base/json.h"
#include "checkpoint/safetensors.h"

#define GOLDENS SOURCE_DIR "/tests/data/goldens"

/* A path made of its parts, in one of eight static buffers. */
const char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the test with the error's message. */
void expect_ok_at(lap_status status, const lap_error *error, const char *file, int line);
#define expect_ok(status, error) expect_ok_at(status, error, __FILE__, __LINE__)

/* splitmix64 */
typedef struct random_source {
  uint64_t state;
} random_source;
uint64_t random_bits(random_source *source);
/* Uniform in [low, high). */
float random_float(random_source *source, float low, float high);
int random_below(random_source *source, int n);

/* Golden tensors; a missing one fails the test. */
lap_tensors *open_golden(const char *path);
const lap_tensor *golden(const lap_tensors *tensors, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool has_golden(const lap_tensors *tensors, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t elements_of(const lap_tensor *tensor);
/* The tensor in f32, malloc'd. */
float *floats_of(const lap_tensor *tensor);
int32_t *ids_of(const lap_tensor *tensor, int64_t *count);

double max_distance(const float *a, const float *b, int64_t n);
double rms_distance(const float *a, const float *b, int64_t n);
double rms_of(const float *a, int64_t n);

/* From here on numbers have a decimal comma, as in much of Europe; setlocale(LC_NUMERIC, "C") ends it.
 * False if the system cannot make such a locale. */
bool use_decimal_comma(void);

/* A whole file, malloc'd; fails the test if it cannot be read. */
unsigned char *read_all(const char *path, size_t *bytes);

#endif
