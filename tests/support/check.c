/* check.c: see check.h. */
#include "support/check.h"

#include <locale.h>
#include <math.h>
#include <unistd.h>

#include "base/bytes.h"

const char *path_of(const char *format, ...) {
  static char buffers[8][1024];
  static int next;
  char *buffer = buffers[next++ % 8];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffers[0], format, arguments);
  va_end(arguments);
  return buffer;
}

void expect_ok_at(lap_status status, const lap_error *error, const char *file, int line) {
  if (status == LAP_OK) return;
  print_error("status %d: %s\n", status, error->message);
  _fail(file, line);
}

uint64_t random_bits(random_source *source) {
  uint64_t z = source->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

float random_float(random_source *source, float low, float high) {
  return low + (high - low) * (float)(random_bits(source) >> 40) * 0x1p-24f;
}

int random_below(random_source *source, int n) {
  return (int)(random_bits(source) % (uint64_t)n);
}

lap_tensors *open_golden(const char *path) {
  lap_tensors *tensors;
  lap_error error;
  expect_ok(lap_tensors_open_file(path, &tensors, &error), &error);
  return tensors;
}

const lap_tensor *golden(const lap_tensors *tensors, const char *format, ...) {
  char name[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  int32_t index = lap_tensors_find(tensors, name);
  if (index < 0) fail_msg("golden tensor %s is missing", name);
  return lap_tensors_at(tensors, index);
}

bool has_golden(const lap_tensors *tensors, const char *format, ...) {
  char name[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(name, sizeof name, format, arguments);
  va_end(arguments);
  return lap_tensors_find(tensors, name) >= 0;
}

int64_t elements_of(const lap_tensor *tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor->rank; i++) n *= tensor->shape[i];
  return n;
}

float *floats_of(const lap_tensor *tensor) {
  int64_t n = elements_of(tensor);
  float *out = malloc((size_t)n * sizeof *out);
  for (int64_t i = 0; i < n; i++) {
    const unsigned char *p = tensor->data;
    out[i] = tensor->dtype == LAP_F32   ? lap_load_f32(p + 4 * i)
             : tensor->dtype == LAP_F16 ? lap_f16_to_f32(lap_load_u16(p + 2 * i))
                                        : lap_bf16_to_f32(lap_load_u16(p + 2 * i));
  }
  return out;
}

int32_t *ids_of(const lap_tensor *tensor, int64_t *count) {
  int64_t n = elements_of(tensor);
  int32_t *out = malloc((size_t)n * sizeof *out);
  for (int64_t i = 0; i < n; i++) out[i] = (int32_t)lap_load_u32(tensor->data + 4 * i);
  if (count) *count = n;
  return out;
}

double max_distance(const float *a, const float *b, int64_t n) {
  double top = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - (double)b[i]);
    if (!(d <= top)) top = d; /* a NaN stays */
  }
  return top;
}

double rms_distance(const float *a, const float *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sqrt(sum / (double)n);
}

double rms_of(const float *a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)a[i];
  return sqrt(sum / (double)n);
}

unsigned char *read_all(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  unsigned char *data = malloc(*bytes);
  assert_int_equal(fread(data, 1, *bytes, file), *bytes);
  fclose(file);
  return data;
}

/* No locale need be installed: one of our own is compiled, and of it only the numbers are used. */
bool use_decimal_comma(void) {
  char directory[] = "/tmp/lapidary-locale-XXXXXX";
  assert_non_null(mkdtemp(directory));
  const char *command = path_of(
      "cd %s && printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \"\"\\ngrouping -1\\nEND "
      "LC_NUMERIC\\n' "
      ">source && localedef -c --no-archive -i ./source ./comma 2>/dev/null; test -f comma/LC_NUMERIC",
      directory);
  bool made = system(command) == 0;
  setenv("LOCPATH", directory, 1);
  made = made && setlocale(LC_NUMERIC, "comma");
  unsetenv("LOCPATH");
  assert_int_equal(system(path_of("rm -r %s", directory)), 0);
  return made;
}
