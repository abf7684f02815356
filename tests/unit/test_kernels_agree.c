/* Every variant of every operation gives the bits of the portable one.
 *
 * Kinds (bits, groups, caches) go round with the number of the trial, so that LAPIDARY_TEST_QUICK, which is
 * for emulated processors, leaves none of them out. */
#include <math.h>

#include "kernels/kernels.h"
#include "support/check.h"

/* All that are built but the portable one, which is the last. */
static const lap_kernels *const *const variants = lap_kernels_built;
static const lap_kernels *const reference = &lap_kernels_portable;

static int trials(int all, int quick) {
  return getenv("LAPIDARY_TEST_QUICK") ? quick : all;
}

/* Widths and groups of weights: in every other trial those of published checkpoints, with 1 to 20 groups in a
 * row, which instruction sets have bodies of their own for, and then all in turn. */
typedef struct weight_kind {
  int bits, group, groups;
} weight_kind;

static weight_kind kind_of_trial(int trial, random_source *source) {
  static const int widths[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
  const int turn = trial / 2;
  if (trial % 2) return (weight_kind){turn % 2 ? 4 : 8, 64, 1 + turn / 2 % 20};
  return (weight_kind){widths[turn % 6], groups[turn / 6 % 3], 1 + random_below(source, 20)};
}

static float *random_row(random_source *source, int n) {
  float *x = malloc((size_t)(n ? n : 1) * sizeof *x);
  float scale = powf(10.0f, random_float(source, -6, 6));
  for (int i = 0; i < n; i++) x[i] = random_float(source, -scale, scale);
  return x;
}

static unsigned char *random_bytes(random_source *source, size_t n) {
  unsigned char *bytes = malloc(n);
  for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)random_bits(source);
  return bytes;
}

/* Scales of sane magnitude in any format. */
static unsigned char *random_scales(random_source *source, size_t n, lap_format format) {
  unsigned char *scales = malloc(n * 4);
  for (size_t i = 0; i < n; i++) lap_format_store(format, scales, i, random_float(source, -0.1f, 0.1f));
  return scales;
}

static void rows_have_equal_bits_in_every_form(void **state) {
  (void)state;
  random_source source = {1};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(300, 60); trial++) {
      int n = 1 + random_below(&source, 700);
      float *x = random_row(&source, n), *w = random_row(&source, n);
      float *a = malloc((size_t)n * 4), *b = malloc((size_t)n * 4);
      reference->rms_norm(x, trial % 3 ? w : NULL, n, 1e-6f, a);
      variants[f]->rms_norm(x, trial % 3 ? w : NULL, n, 1e-6f, b);
      assert_memory_equal(a, b, (size_t)n * 4);
      reference->geglu(x, w, n, a);
      variants[f]->geglu(x, w, n, b);
      assert_memory_equal(a, b, (size_t)n * 4);
      memcpy(a, x, (size_t)n * 4);
      memcpy(b, x, (size_t)n * 4);
      reference->softcap(a, n, 30.0f);
      variants[f]->softcap(b, n, 30.0f);
      assert_memory_equal(a, b, (size_t)n * 4);
      int half = n / 2;
      reference->rope(a, 2 * half, half, x, w);
      variants[f]->rope(b, 2 * half, half, x, w);
      assert_memory_equal(a, b, (size_t)(2 * half) * 4);
      free(x), free(w), free(a), free(b);
    }
  }
}

static void exponential_edges_have_equal_bits(void **state) {
  (void)state;
  const float edges[] = {0.0f,   -0.0f,   1.0f,      -1.0f,  88.3f,    88.4f,  89.0f,   90.0f,  1e30f,
                         -86.9f, -87.0f,  -87.1f,    -1e30f, INFINITY, 1e-30f, -1e-30f, 0.624f, 0.625f,
                         0.626f, -0.625f, -INFINITY, NAN,    1e-45f,   3e38f,  -3e38f,  10.0f,  -10.0f};
  enum {
    N = sizeof edges / sizeof edges[0]
  };
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int i = 0; i < N; i++) {
      /* copies, so that the vector part runs; y = 1 keeps gelu itself */
      float x[16], one[16], a[16], b[16];
      for (int j = 0; j < 16; j++) x[j] = edges[i], one[j] = 1.0f;
      reference->geglu(x, one, 16, a);
      variants[f]->geglu(x, one, 16, b);
      for (int j = 0; j < 16; j++)
        assert_true(lap_f32_bits(a[j]) == lap_f32_bits(b[j]) || (isnan(a[j]) && isnan(b[j])));
      memcpy(a, x, sizeof x), memcpy(b, x, sizeof x);
      reference->softcap(a, 16, 30.0f);
      variants[f]->softcap(b, 16, 30.0f);
      for (int j = 0; j < 16; j++)
        assert_true(lap_f32_bits(a[j]) == lap_f32_bits(b[j]) || (isnan(a[j]) && isnan(b[j])));
    }
  }
}

typedef struct quantized_rows {
  lap_qrows q;
  float *x;
  int rows;
} quantized_rows;

static quantized_rows quantize(const lap_kernels *kernels, const float *x, int rows, int n, int block) {
  quantized_rows r = {.rows = rows};
  int padded = (n + 63) / 64 * 64;
  r.q = (lap_qrows){.cols = n, .padded = padded, .block = block};
  size_t blocks = (size_t)rows * (size_t)(n / block);
  r.q.q = calloc((size_t)rows * (size_t)padded, 2);
  r.q.nibble = calloc((size_t)rows * (size_t)padded, 2);
  r.q.scale = calloc(blocks, 4);
  r.q.scaled_sum = calloc(blocks, 4);
  r.q.sum = calloc(blocks, 4);
  for (int t = 0; t < rows; t++) {
    lap_qrow row = lap_qrows_at(&r.q, t);
    kernels->quantize_row(x + (size_t)t * (size_t)n, n, block, &row);
  }
  return r;
}

static void release(quantized_rows *r) {
  free(r->q.q), free(r->q.nibble), free(r->q.scale), free(r->q.scaled_sum), free(r->q.sum);
}

static void quantized_rows_have_equal_bits_in_every_form(void **state) {
  (void)state;
  random_source source = {2};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(200, 60); trial++) {
      int block = trial % 2 ? 64 : 32, n = block * (1 + random_below(&source, 20));
      float *x = random_row(&source, n);
      if (trial % 7 == 0) memset(x, 0, (size_t)block * 4);
      if (trial % 11 == 0) x[random_below(&source, n)] = NAN;
      if (trial % 13 == 0) x[random_below(&source, n)] = INFINITY;
      if (trial % 17 == 0)
        for (int i = 0; i < n; i++) x[i] *= 1e-36f;
      quantized_rows a = quantize(reference, x, 1, n, block), b = quantize(variants[f], x, 1, n, block);
      size_t cells = (size_t)a.q.padded * 2, blocks = (size_t)(n / block) * 4;
      assert_memory_equal(a.q.q, b.q.q, cells);
      assert_memory_equal(a.q.nibble, b.q.nibble, cells);
      assert_memory_equal(a.q.sum, b.q.sum, blocks);
      for (int i = 0; i < n / block; i++) {
        assert_true(lap_f32_bits(a.q.scale[i]) == lap_f32_bits(b.q.scale[i]) || isnan(a.q.scale[i]));
        assert_true(isnan(a.q.scale[i]) == isnan(b.q.scale[i]));
      }
      release(&a), release(&b);
      free(x);
    }
  }
}

static void quantized_products_have_equal_bits_in_every_form(void **state) {
  (void)state;
  random_source source = {3};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(400, 80); trial++) {
      const weight_kind kind = kind_of_trial(trial, &source);
      int bits = kind.bits, group = kind.group, cols = group * kind.groups;
      int rows = 1 + random_below(&source, trials(40, 12));
      int x_rows = 1 + random_below(&source, 9);
      lap_format format = (lap_format)random_below(&source, 3);
      size_t row_bytes = (size_t)(cols * bits / 8), scales = (size_t)rows * (size_t)(cols / group);
      /* Exactly as many bytes as the matrix has: a read past the end is the sanitizer's to find. */
      lap_qmatrix w = {.codes = random_bytes(&source, (size_t)rows * row_bytes),
                       .scales = random_scales(&source, scales, format),
                       .biases = random_scales(&source, scales, format),
                       .row_bytes = row_bytes,
                       .scale_stride = (size_t)(cols / group),
                       .cols = cols,
                       .bits = bits,
                       .group_size = group,
                       .format = format};
      float *x = random_row(&source, x_rows * cols);
      quantized_rows q = quantize(reference, x, x_rows, cols, group < 64 ? group : 64);
      size_t out = (size_t)(x_rows * rows) * 4;
      float *a = calloc(1, out), *b = calloc(1, out);
      int first = random_below(&source, rows);
      reference->matmul_quantized(&w, &q.q, 0, x_rows, first, rows, a, (size_t)rows);
      variants[f]->matmul_quantized(&w, &q.q, 0, x_rows, first, rows, b, (size_t)rows);
      assert_memory_equal(a, b, out);
      free((void *)(uintptr_t)w.codes), free((void *)(uintptr_t)w.scales), free((void *)(uintptr_t)w.biases);
      free(x), free(a), free(b);
      release(&q);
    }
  }
}

/* Rows woven together against the same rows one after the other, any part of them. */
static void woven_products_have_equal_bits(void **state) {
  (void)state;
  random_source source = {7};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(300, 72); trial++) {
      const weight_kind kind = kind_of_trial(trial, &source);
      int bits = kind.bits, group = kind.group;
      int block = group < 64 ? group : 64, cols = 128 * (1 + random_below(&source, trials(9, 4)));
      int rows = 1 + random_below(&source, trials(40, 20)), x_rows = 1 + random_below(&source, 75);
      int held = (x_rows + LAP_WEAVE - 1) / LAP_WEAVE * LAP_WEAVE;
      lap_format format = (lap_format)random_below(&source, 3);
      size_t row_bytes = (size_t)(cols * bits / 8), scales = (size_t)rows * (size_t)(cols / group);
      lap_qmatrix w = {.codes = random_bytes(&source, (size_t)rows * row_bytes),
                       .scales = random_scales(&source, scales, format),
                       .biases = random_scales(&source, scales, format),
                       .row_bytes = row_bytes,
                       .scale_stride = (size_t)(cols / group),
                       .cols = cols,
                       .bits = bits,
                       .group_size = group,
                       .format = format};
      float *x = random_row(&source, held * cols);
      quantized_rows q = quantize(reference, x, x_rows, cols, block);
      quantized_rows woven = quantize(reference, x, held, cols, block); /* for its memory */
      lap_qrows lean = woven.q; /* without the order that nobody reads */
      lean.woven = 1;
      if (bits == 4)
        lean.q = NULL;
      else
        lean.nibble = NULL;
      for (int t = 0; t < held; t++)
        variants[f]->quantize_woven(x + (size_t)t * (size_t)cols, cols, block, &lean, t);
      int x_first = random_below(&source, x_rows), count = 1 + random_below(&source, x_rows - x_first);
      int first = random_below(&source, rows);
      size_t out = (size_t)(count * rows) * 4;
      float *a = calloc(1, out), *b = calloc(1, out);
      reference->matmul_quantized(&w, &q.q, x_first, count, first, rows, a, (size_t)rows);
      variants[f]->matmul_quantized(&w, &lean, x_first, count, first, rows, b, (size_t)rows);
      assert_memory_equal(a, b, out);
      free((void *)(uintptr_t)w.codes), free((void *)(uintptr_t)w.scales), free((void *)(uintptr_t)w.biases);
      free(x), free(a), free(b);
      release(&q), release(&woven);
    }
  }
}

static void dense_products_have_equal_bits_in_every_form(void **state) {
  (void)state;
  random_source source = {4};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(200, 30); trial++) {
      lap_format format = (lap_format)random_below(&source, 3);
      int cols = 1 + random_below(&source, 300), rows = 1 + random_below(&source, 30);
      int x_rows = 1 + random_below(&source, 9);
      unsigned char *weight = malloc((size_t)(rows * cols) * lap_format_bytes(format));
      for (int i = 0; i < rows * cols; i++)
        lap_format_store(format, weight, (size_t)i, random_float(&source, -1, 1));
      lap_dmatrix w = {weight, (size_t)cols * lap_format_bytes(format), cols, format};
      float *x = random_row(&source, x_rows * cols);
      size_t out = (size_t)(x_rows * rows) * 4;
      float *a = malloc(out), *b = malloc(out);
      reference->matmul_dense(&w, x, (size_t)cols, x_rows, 0, rows, a, (size_t)rows);
      variants[f]->matmul_dense(&w, x, (size_t)cols, x_rows, 0, rows, b, (size_t)rows);
      assert_memory_equal(a, b, out);
      free(weight), free(x), free(a), free(b);
    }
  }
}

/* Attention of a few queries with ragged ranges over a ring of any kind. */
static void attention_has_equal_bits_in_every_form_and_company(void **state) {
  (void)state;
  random_source source = {5};
  for (int f = 0; variants[f] != reference; f++) {
    if (!lap_kernels_run_here(variants[f])) continue;
    for (int trial = 0; trial < trials(60, 24); trial++) {
      static const int kinds[] = {4, 8, 16};
      int bits = kinds[trial % 3], head_dim = trial % 8 < 2 ? 256 : 32 * (1 + random_below(&source, 4));
      int group = bits != 16 && head_dim % 64 == 0 && trial % 2 ? 64 : 32;
      int capacity = 20 + random_below(&source, 300), count = 1 + random_below(&source, 9);
      size_t row_bytes = (size_t)(head_dim * bits / 8),
             scales = (size_t)capacity * (size_t)(head_dim / group);
      lap_kv_view kv = {.k = random_bytes(&source, (size_t)capacity * row_bytes),
                        .v = random_bytes(&source, (size_t)capacity * row_bytes),
                        .k_scales = random_scales(&source, scales, LAP_FORMAT_F32),
                        .k_biases = random_scales(&source, scales, LAP_FORMAT_F32),
                        .v_scales = random_scales(&source, scales, LAP_FORMAT_F32),
                        .v_biases = random_scales(&source, scales, LAP_FORMAT_F32),
                        .row_bytes = row_bytes,
                        .scale_bytes = (size_t)(head_dim / group) * 4,
                        .capacity = capacity,
                        .head_dim = head_dim,
                        .bits = bits,
                        .group_size = group};
      int64_t low[16], high[16];
      int64_t begin = 512 + random_below(&source, 100), end = begin + 1 + random_below(&source, capacity - 1);
      if (end > 1024) end = 1024;
      for (int t = 0; t < count; t++) {
        low[t] = begin + random_below(&source, (int)(end - begin));
        high[t] = low[t] + 1 + random_below(&source, (int)(end - low[t]));
      }
      float *q = malloc((size_t)(count * head_dim) * 4);
      for (int i = 0; i < count * head_dim; i++) q[i] = random_float(&source, -1, 1);
      quantized_rows qx = quantize(reference, q, count, head_dim, group < 64 ? 32 : 64);
      float *scratch = malloc(lap_attend_scratch(count, head_dim) * 4);
      float m[3][16], l[3][16];
      float *acc[3];
      for (int i = 0; i < 3; i++) acc[i] = malloc((size_t)(count * head_dim) * 4);
      lap_attend_queries together = {count, q, &qx.q, 0, low, high};
      lap_attend_state a = {m[0], l[0], acc[0]}, b = {m[1], l[1], acc[1]};
      reference->attend_span(&kv, &together, begin, end, &a, scratch);
      variants[f]->attend_span(&kv, &together, begin, end, &b, scratch);
      for (int t = 0; t < count; t++) { /* and alone */
        lap_attend_queries alone = {1, q + t * head_dim, &qx.q, t, low + t, high + t};
        lap_attend_state c = {m[2] + t, l[2] + t, acc[2] + t * head_dim};
        variants[f]->attend_span(&kv, &alone, begin, end, &c, scratch);
      }
      for (int i = 1; i < 3; i++) {
        assert_memory_equal(m[0], m[i], (size_t)count * 4);
        assert_memory_equal(l[0], l[i], (size_t)count * 4);
        assert_memory_equal(acc[0], acc[i], (size_t)(count * head_dim) * 4);
      }
      for (int i = 0; i < 3; i++) free(acc[i]);
      free(scratch), free(q);
      release(&qx);
      const void *planes[] = {kv.k, kv.v, kv.k_scales, kv.k_biases, kv.v_scales, kv.v_biases};
      for (int i = 0; i < 6; i++) free((void *)(uintptr_t)planes[i]);
    }
  }
}

/* Which variants the other tests compare: all that are built, and it is said which this processor cannot run.
 */
static void every_form_that_is_built_runs_here(void **state) {
  (void)state;
  int compared = 0, left_out = 0;
  for (int f = 0; variants[f] != reference; f++) {
    const bool runs = lap_kernels_run_here(variants[f]);
    print_message("%s: %s\n", variants[f]->name, runs ? "compared" : "NOT COMPARED, this processor lacks it");
    compared += runs, left_out += !runs;
  }
  if (left_out) skip();
#if defined(__x86_64__) || defined(__aarch64__)
  assert_true(compared > 0);
#endif
}

static void the_environment_names_a_form_and_a_wrong_name_is_an_error(void **state) {
  (void)state;
  static const char *const names[] = {"portable", "avx2", "avx512", "neon"};
  static const char *const wrong[] = {"avx", "avx2 ", "AVX2", "portable,avx2", "best"};
  const lap_kernels *kernels, *best = NULL;
  lap_error error;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const lap_kernels *named = NULL;
    for (int f = 0; variants[f]; f++) {
      if (!lap_kernels_run_here(variants[f])) continue;
      if (!best) best = variants[f];
      if (strcmp(variants[f]->name, names[i]) == 0) named = variants[f];
    }
    assert_int_equal(lap_kernels_select(names[i], &kernels, &error), named ? LAP_OK : LAP_ERROR_UNSUPPORTED);
    if (named)
      assert_ptr_equal(kernels, named);
    else
      assert_non_null(
          strstr(error.message, path_of("isa: this processor (or this build) has no %s", names[i])));
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(lap_kernels_select(wrong[i], &kernels, &error), LAP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, path_of("isa: '%s' is not one of", wrong[i])));
  }
  expect_ok(lap_kernels_select(NULL, &kernels, &error), &error);
  assert_ptr_equal(kernels, best);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_form_that_is_built_runs_here),
      cmocka_unit_test(the_environment_names_a_form_and_a_wrong_name_is_an_error),
      cmocka_unit_test(rows_have_equal_bits_in_every_form),
      cmocka_unit_test(exponential_edges_have_equal_bits),
      cmocka_unit_test(quantized_rows_have_equal_bits_in_every_form),
      cmocka_unit_test(quantized_products_have_equal_bits_in_every_form),
      cmocka_unit_test(woven_products_have_equal_bits),
      cmocka_unit_test(dense_products_have_equal_bits_in_every_form),
      cmocka_unit_test(attention_has_equal_bits_in_every_form_and_company),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
