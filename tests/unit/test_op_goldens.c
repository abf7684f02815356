/* Operations against MLX's outputs (tests/data/goldens/README.md). Bounds come from what that file
 * states: quantization byte for byte; f32 operations to rounding; products within the noise of int16
 * activations, which is 1.5e-5 of a block's largest value. */
#include <math.h>

#include "kernels/affine.h"
#include "kernels/attend_span.h"
#include "kernels/kernels.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "support/check.h"

static const lap_kernels *kernels;
static const int all_bits[] = {2, 3, 4, 5, 6, 8};
static const int all_groups[] = {32, 64, 128};
static const char *const format_names[] = {"f32", "f16", "bf16"}; /* by lap_format */

static lap_tensors *open_ops(const char *name) {
  return open_golden(path_of(GOLDENS "/ops/%s.safetensors", name));
}

static int select_kernels(void **state) {
  (void)state;
  lap_error error;
  return lap_kernels_select(getenv("LAPIDARY_ISA"), &kernels, &error) == LAP_OK ? 0 : -1;
}

static void affine_quantize_equals_mlx_byte_for_byte(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("quantize");
  int compared = 0;
  for (int f = 0; f < 3; f++) {
    const lap_tensor *in = golden(ops, "in.%s", format_names[f]);
    int rows = (int)in->shape[0], n = (int)in->shape[1];
    float *x = floats_of(in);
    for (int b = 0; b < 6; b++)
      for (int g = 0; g < 3; g++) {
        int bits = all_bits[b], group = all_groups[g];
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%s.b%d.g%d", format_names[f], bits, group);
        const lap_tensor *w = golden(ops, "%s.w", prefix), *scales = golden(ops, "%s.scales", prefix);
        const lap_tensor *biases = golden(ops, "%s.biases", prefix);
        size_t row_bytes = (size_t)(n * bits / 8),
               scale_bytes = (size_t)(n / group) * lap_format_bytes((lap_format)f);
        for (int row = 0; row < rows; row++, compared++) {
          unsigned char codes[128], s[32], t[32];
          kernels->affine_quantize_row(x + row * n, n, bits, group, (lap_format)f, codes, s, t);
          assert_memory_equal(codes, w->data + (size_t)row * row_bytes, row_bytes);
          assert_memory_equal(s, scales->data + (size_t)row * scale_bytes, scale_bytes);
          assert_memory_equal(t, biases->data + (size_t)row * scale_bytes, scale_bytes);
        }
      }
    free(x);
  }
  assert_true(compared == 3 * 6 * 3 * 22);
  lap_tensors_close(ops);
}

/* A quantized golden as a matrix. */
static lap_qmatrix matrix_of(const lap_tensors *ops, const char *prefix, int bits, int group,
                             lap_format format) {
  const lap_tensor *w = golden(ops, "%s.w", prefix);
  int cols = (int)(w->shape[w->rank - 1] * 32 / bits);
  return (lap_qmatrix){.codes = w->data,
                       .scales = golden(ops, "%s.scales", prefix)->data,
                       .biases = golden(ops, "%s.biases", prefix)->data,
                       .row_bytes = (size_t)(cols * bits / 8),
                       .scale_stride = (size_t)(cols / group),
                       .cols = cols,
                       .bits = bits,
                       .group_size = group,
                       .format = format};
}

static void dequantized_weights_equal_mlx_for_every_width(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("quantize");
  for (int b = 0; b < 6; b++)
    for (int g = 0; g < 3; g++) {
      char prefix[32];
      snprintf(prefix, sizeof prefix, "f32.b%d.g%d", all_bits[b], all_groups[g]);
      lap_qmatrix w = matrix_of(ops, prefix, all_bits[b], all_groups[g], LAP_FORMAT_F32);
      float *expected = floats_of(golden(ops, "%s.deq", prefix));
      for (int row = 0; row < 22; row++) {
        int16_t code[128];
        lap_unpack_codes(w.bits, w.codes + (size_t)row * w.row_bytes, 0, w.cols, code);
        for (int i = 0; i < w.cols; i++) {
          size_t at = (size_t)row * w.scale_stride + (size_t)(i / w.group_size);
          /* MLX rounds the product and then the sum. */
          float product = lap_format_load(w.format, w.scales, at) * (float)code[i];
          float value = product + lap_format_load(w.format, w.biases, at);
          assert_true(value == expected[row * w.cols + i]);
        }
      }
      free(expected);
    }
  lap_tensors_close(ops);
}

static void check_product(const lap_qmatrix *w, const float *x, int x_rows, int rows, const float *expected,
                          double bound) {
  int block = w->group_size < 64 ? w->group_size : 64, padded = (w->cols + 63) / 64 * 64;
  size_t blocks = (size_t)x_rows * (size_t)(w->cols / block);
  lap_qrows q = {.q = malloc((size_t)(x_rows * padded) * 2),
                 .nibble = malloc((size_t)(x_rows * padded) * 2),
                 .scale = malloc(blocks * 4),
                 .scaled_sum = malloc(blocks * 4),
                 .sum = malloc(blocks * 4),
                 .cols = w->cols,
                 .padded = padded,
                 .block = block};
  float *y = malloc((size_t)(x_rows * rows) * 4);
  for (int t = 0; t < x_rows; t++) {
    lap_qrow row = lap_qrows_at(&q, t);
    kernels->quantize_row(x + t * w->cols, w->cols, block, &row);
  }
  kernels->matmul_quantized(w, &q, 0, x_rows, 0, rows, y, (size_t)rows);
  double distance = max_distance(y, expected, (int64_t)x_rows * rows),
         scale = rms_of(expected, (int64_t)x_rows * rows);
  if (distance > bound * scale)
    fail_msg("b%d g%d: distance %g at outputs of rms %g", w->bits, w->group_size, distance, scale);
  free(q.q), free(q.nibble), free(q.scale), free(q.scaled_sum), free(q.sum), free(y);
}

static void quantized_products_equal_mlx_for_every_width(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("qmm");
  for (int b = 0; b < 6; b++)
    for (int g = 0; g < 3; g++)
      for (int rows = 1; rows <= 5; rows += 4) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "b%d.g%d", all_bits[b], all_groups[g]);
        lap_qmatrix w = matrix_of(ops, prefix, all_bits[b], all_groups[g], LAP_FORMAT_BF16);
        float *x = floats_of(golden(ops, "%s.x%d", prefix, rows));
        float *expected = floats_of(golden(ops, "%s.x%d.t.f32", prefix, rows));
        check_product(&w, x, rows, 128, expected, 2e-4);
        free(x), free(expected);
      }
  lap_tensors_close(ops);
}

static void expert_products_equal_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("qmm_batched");
  for (int bits = 4; bits <= 8; bits += 4) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "gather.b%d", bits);
    const lap_tensor *w = golden(ops, "%s.w", prefix);
    lap_dtype dtype = golden(ops, "%s.scales", prefix)->dtype;
    int experts = (int)w->shape[0], rows = (int)w->shape[1], cols = (int)(w->shape[2] * 32 / bits);
    int group = cols / (int)golden(ops, "%s.scales", prefix)->shape[2];
    lap_format format = dtype == LAP_F32 ? LAP_FORMAT_F32 : LAP_FORMAT_BF16;
    float *x = floats_of(golden(ops, "%s.x", prefix)),
          *expected = floats_of(golden(ops, "%s.out.f32", prefix));
    int32_t *index = ids_of(golden(ops, "%s.idx", prefix), NULL);
    for (int t = 0; t < 14; t++) {
      assert_true(index[t] >= 0 && index[t] < experts);
      lap_qmatrix m = matrix_of(ops, prefix, bits, group, format);
      m.codes += (size_t)(index[t] * rows) * m.row_bytes;
      m.scales += (size_t)(index[t] * rows) * m.scale_stride * lap_format_bytes(format);
      m.biases += (size_t)(index[t] * rows) * m.scale_stride * lap_format_bytes(format);
      check_product(&m, x + (t / 2) * cols, 1, rows, expected + t * rows, 3e-4);
    }
    free(x), free(expected), free(index);
  }
  lap_tensors_close(ops);
}

static void rms_norm_equals_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("rms_norm");
  static const int widths[] = {128, 192, 256};
  for (int i = 0; i < 3; i++) {
    int n = widths[i];
    float *x = floats_of(golden(ops, "n%d.f32.x", n)), *w = floats_of(golden(ops, "n%d.f32.w", n));
    float *weighted = floats_of(golden(ops, "n%d.f32.weighted", n)),
          *plain = floats_of(golden(ops, "n%d.f32.plain", n));
    float *y = malloc((size_t)n * 4);
    for (int row = 0; row < 6; row++) {
      kernels->rms_norm(x + row * n, w, n, 1e-6f, y);
      for (int j = 0; j < n; j++)
        assert_true(fabsf(y[j] - weighted[row * n + j]) <= 1e-6f * fabsf(weighted[row * n + j]));
      kernels->rms_norm(x + row * n, NULL, n, 1e-6f, y);
      for (int j = 0; j < n; j++)
        assert_true(fabsf(y[j] - plain[row * n + j]) <= 1e-6f * fabsf(plain[row * n + j]));
    }
    free(x), free(w), free(weighted), free(plain), free(y);
  }
  lap_tensors_close(ops);
}

/* MLX multiplies position and frequency in f32: at offset o the angle is off by about o * 1e-7, so the
 * bound grows with the offset. */
static void rope_equals_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("rope");
  int compared = 0;
  for (int32_t i = 0; i < lap_tensors_count(ops); i++) {
    const lap_tensor *expected_tensor = lap_tensors_at(ops, i);
    char type[16];
    int head_dim, offset, end = 0;
    if (sscanf(expected_tensor->name, "%15[a-z].hd%d.f32.off%d%n", type, &head_dim, &offset, &end) < 3)
      continue;
    if (expected_tensor->name[end]) continue;
    bool full = strcmp(type, "proportional") == 0;
    int pairs = full ? head_dim / 8 : head_dim / 2;
    double *frequency = malloc((size_t)pairs * sizeof *frequency);
    float *cosine = malloc((size_t)pairs * 4), *sine = malloc((size_t)pairs * 4);
    lap_rope_frequencies(full ? 1e6 : 1e4, 1.0, head_dim, pairs, frequency);
    float *x = floats_of(golden(ops, "%s.hd%d.f32.x", type, head_dim)),
          *expected = floats_of(expected_tensor);
    for (int head = 0; head < 2; head++)
      for (int t = 0; t < 5; t++) {
        float *row = x + (head * 5 + t) * head_dim;
        lap_rope_table(frequency, pairs, offset + t, cosine, sine);
        kernels->rope(row, head_dim, pairs, cosine, sine);
      }
    double bound = 2e-6 + 3e-7 * offset;
    if (max_distance(x, expected, 10 * head_dim) > bound)
      fail_msg("%s: distance %g", expected_tensor->name, max_distance(x, expected, 10 * head_dim));
    compared++;
    free(frequency), free(cosine), free(sine), free(x), free(expected);
  }
  assert_true(compared >= 12);
  lap_tensors_close(ops);
}

/* The angle itself, against long double arithmetic: under 1e-6 up to position 131072 and beyond. */
static void rope_tables_are_exact_at_long_positions(void **state) {
  (void)state;
  static const int64_t positions[] = {0, 1, 2, 3, 100, 1000, 4095, 65535, 131071, 131072, 262143, 1000000};
  for (int full = 0; full < 2; full++) {
    int head_dim = full ? 512 : 256, pairs = full ? 64 : 128;
    double frequency[128];
    float cosine[128], sine[128];
    lap_rope_frequencies(full ? 1e6 : 1e4, 1.0, head_dim, pairs, frequency);
    for (size_t p = 0; p < sizeof positions / sizeof positions[0]; p++) {
      lap_rope_table(frequency, pairs, positions[p], cosine, sine);
      for (int i = 0; i < pairs; i++) {
        long double angle = (long double)positions[p] * powl(full ? 1e6L : 1e4L, -2.0L * i / head_dim);
        assert_true(fabsl(cosine[i] - cosl(angle)) < 1e-7L);
        assert_true(fabsl(sine[i] - sinl(angle)) < 1e-7L);
      }
    }
  }
}

static void activations_equal_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("act");
  float *x = floats_of(golden(ops, "x.f32")), *y = floats_of(golden(ops, "y.f32"));
  float *gelu = floats_of(golden(ops, "gelu_approx.f32")), *geglu = floats_of(golden(ops, "geglu.f32"));
  float *softcap = floats_of(golden(ops, "softcap30.f32"));
  float one[264], out[264];
  for (int i = 0; i < 264; i++) one[i] = 1.0f;
  kernels->geglu(x, one, 264, out);
  for (int i = 0; i < 264; i++) assert_true(fabsf(out[i] - gelu[i]) <= 1e-6f + 1e-6f * fabsf(gelu[i]));
  kernels->geglu(x, y, 264, out);
  for (int i = 0; i < 264; i++) assert_true(fabsf(out[i] - geglu[i]) <= 1e-6f + 2e-6f * fabsf(geglu[i]));
  memcpy(out, x, sizeof out);
  kernels->softcap(out, 264, 30.0f);
  for (int i = 0; i < 264; i++) assert_true(fabsf(out[i] - softcap[i]) <= 1e-6f * (1 + fabsf(softcap[i])));
  free(x), free(y), free(gelu), free(geglu), free(softcap);
  lap_tensors_close(ops);
}

static void exponential_is_exact_to_two_parts_in_ten_million(void **state) {
  (void)state;
  assert_true(kernels->exp(0.0f) == 1.0f);
  for (float x = -87.0f; x < 88.0f; x += 0.00137f) {
    double expected = exp((double)x);
    assert_true(fabs(kernels->exp(x) - expected) <= 2e-7 * expected);
  }
}

/* softmax.x as 33 keys with one-hot values: the output is the softmax itself. */
static void softmax_equals_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("act");
  float *x = floats_of(golden(ops, "softmax.x.f32")),
        *expected = floats_of(golden(ops, "softmax.precise.f32"));
  for (int row = 0; row < 8; row++) {
    float s[LAP_KEY_BLOCK] = {0}, m = -INFINITY, l = 0;
    memcpy(s, x + row * 33, 33 * sizeof(float));
    kernels->softmax_block(s, 0, 33, &m, &l);
    for (int i = 0; i < 33; i++) assert_true(fabsf(s[i] / l - expected[row * 33 + i]) <= 1e-6f);
    for (int i = 33; i < LAP_KEY_BLOCK; i++) assert_true(s[i] == 0.0f);
  }
  free(x), free(expected);
  lap_tensors_close(ops);
}

static void sixteen_bit_floats_round_as_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("bf16");
  const unsigned char *f32 = golden(ops, "f32_bits")->data, *bf16 = golden(ops, "bf16_bits")->data;
  const unsigned char *f16 = golden(ops, "f16_bits")->data, *back = golden(ops, "bf16_back")->data;
  int64_t n = elements_of(golden(ops, "f32_bits"));
  assert_true(n > 200);
  for (int64_t i = 0; i < n; i++) {
    float x = lap_load_f32(f32 + 4 * i);
    uint16_t b = lap_load_u16(bf16 + 2 * i), h = lap_load_u16(f16 + 2 * i);
    if (isnan(x)) {
      assert_true(isnan(lap_bf16_to_f32(lap_f32_to_bf16(x))) && isnan(lap_f16_to_f32(lap_f32_to_f16(x))));
      continue;
    }
    assert_int_equal(lap_f32_to_bf16(x), b);
    assert_int_equal(lap_f32_to_f16(x), h);
    assert_true(lap_f32_bits(lap_bf16_to_f32(b)) == lap_load_u32(back + 4 * i));
    /* widening f16 is exact: narrowing again gives the same bits */
    assert_int_equal(lap_f32_to_f16(lap_f16_to_f32(h)), h);
  }
  lap_tensors_close(ops);
}

/* ---- attention ---- */

typedef struct geometry {
  int head_dim, heads, kv_heads, queries, keys, window, bits, group;
} geometry;

/* Codes of a plain cache from f32 keys or values. */
static void to_plain(const float *x, int rows, int head_dim, int group, int16_t *codes, float *scales) {
  float scaled_sum[32];
  int32_t sum[32];
  for (int i = 0; i < rows; i++) {
    lap_qrow row = {codes + i * head_dim, NULL, scales + i * (head_dim / group), scaled_sum, sum};
    kernels->quantize_row(x + i * head_dim, head_dim, group, &row);
  }
}

/* One KV head's attention for all queries and heads of its group; out [heads, queries, head_dim]. */
static void attend_head(const geometry *g, const lap_kv_view *kv, int kv_head, const float *q, float *out) {
  int repeats = g->heads / g->kv_heads;
  float *scratch = malloc(lap_attend_scratch(g->queries, g->head_dim) * 4);
  float *m = malloc((size_t)g->queries * 8), *l = m + g->queries;
  float *acc = malloc((size_t)(g->queries * g->head_dim) * 8), *more = acc + g->queries * g->head_dim;
  float *m2 = malloc((size_t)g->queries * 8), *l2 = m2 + g->queries;
  int64_t low[64], high[64];
  int block = kv->group_size < 64 ? 32 : 64, padded = (g->head_dim + 63) / 64 * 64,
      blocks = g->head_dim / block;
  lap_qrows qx = {.q = malloc((size_t)(g->queries * padded) * 2),
                  .nibble = malloc((size_t)(g->queries * padded) * 2),
                  .scale = malloc((size_t)(g->queries * blocks) * 4),
                  .scaled_sum = malloc((size_t)(g->queries * blocks) * 4),
                  .sum = malloc((size_t)(g->queries * blocks) * 4),
                  .cols = g->head_dim,
                  .padded = padded,
                  .block = block};
  for (int t = 0; t < g->queries; t++) {
    high[t] = g->keys - g->queries + t + 1;
    low[t] = g->window && high[t] > g->window ? high[t] - g->window : 0;
  }
  for (int head = kv_head * repeats; head < (kv_head + 1) * repeats; head++) {
    const float *rows = q + head * g->queries * g->head_dim;
    for (int t = 0; t < g->queries; t++) {
      lap_qrow row = lap_qrows_at(&qx, t);
      kernels->quantize_row(rows + t * g->head_dim, g->head_dim, block, &row);
    }
    lap_attend_queries queries = {g->queries, rows, &qx, 0, low, high};
    lap_attend_state state = {m, l, acc}, later = {m2, l2, more};
    lap_attend_begin(&state, g->queries, g->head_dim);
    for (int64_t span = 0; span < g->keys; span += LAP_KEY_SPAN) {
      kernels->attend_span(kv, &queries, span, span + LAP_KEY_SPAN < g->keys ? span + LAP_KEY_SPAN : g->keys,
                           &later, scratch);
      kernels->attend_fold(g->queries, g->head_dim, &state, &later);
    }
    kernels->attend_finish(g->queries, g->head_dim, &state, out + head * g->queries * g->head_dim);
  }
  free(scratch), free(m), free(m2), free(acc);
  free(qx.q), free(qx.nibble), free(qx.scale), free(qx.scaled_sum), free(qx.sum);
}

static void plain_attention_equals_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("sdpa");
  int compared = 0;
  for (int32_t i = 0; i < lap_tensors_count(ops); i++) {
    geometry g = {.bits = 16};
    char base[64];
    int end = 0;
    const char *name = lap_tensors_at(ops, i)->name;
    if (sscanf(name, "hd%d.q%d.kv%d.L%d.T%d.w%d.f32.out%n", &g.head_dim, &g.heads, &g.kv_heads, &g.queries,
               &g.keys, &g.window, &end) < 6 ||
        !end || name[end])
      continue;
    snprintf(base, sizeof base, "%.*s", end - (int)strlen(".out"), name);
    float *q = floats_of(golden(ops, "%s.q", base)), *k = floats_of(golden(ops, "%s.k", base));
    float *v = floats_of(golden(ops, "%s.v", base)), *expected = floats_of(golden(ops, "%s.out", base));
    g.group = 64;
    int groups = g.head_dim / g.group;
    size_t cells = (size_t)(g.keys * g.head_dim);
    int16_t *codes = malloc(cells * 4);
    float *scales = malloc((size_t)(g.keys * groups) * 8);
    float *out = malloc((size_t)(g.heads * g.queries * g.head_dim) * 4);
    for (int head = 0; head < g.kv_heads; head++) {
      to_plain(k + head * g.keys * g.head_dim, g.keys, g.head_dim, g.group, codes, scales);
      to_plain(v + head * g.keys * g.head_dim, g.keys, g.head_dim, g.group, codes + cells,
               scales + g.keys * groups);
      lap_kv_view kv = {.k = (unsigned char *)codes,
                        .v = (unsigned char *)(codes + cells),
                        .k_scales = (unsigned char *)scales,
                        .v_scales = (unsigned char *)(scales + g.keys * groups),
                        .row_bytes = (size_t)g.head_dim * 2,
                        .scale_bytes = (size_t)groups * 4,
                        .capacity = g.keys,
                        .head_dim = g.head_dim,
                        .bits = 16,
                        .group_size = g.group};
      attend_head(&g, &kv, head, q, out);
    }
    double distance = max_distance(out, expected, (int64_t)g.heads * g.queries * g.head_dim);
    if (distance > 2e-3) fail_msg("%s: distance %g", base, distance);
    compared++;
    free(q), free(k), free(v), free(expected), free(codes), free(scales), free(out);
  }
  assert_int_equal(compared, 7);
  lap_tensors_close(ops);
}

static void quantized_attention_equals_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("qsdpa");
  int compared = 0;
  for (int32_t i = 0; i < lap_tensors_count(ops); i++) {
    geometry g = {0};
    char base[80];
    int end = 0;
    const char *name = lap_tensors_at(ops, i)->name;
    if (sscanf(name, "hd%d.q%d.kv%d.L%d.T%d.w%d.b%d.g%d.f32.unfused%n", &g.head_dim, &g.heads, &g.kv_heads,
               &g.queries, &g.keys, &g.window, &g.bits, &g.group, &end) < 8 ||
        !end || name[end])
      continue;
    snprintf(base, sizeof base, "%.*s", end - (int)strlen(".unfused"), name);
    float *q = floats_of(golden(ops, "%s.q", base)), *expected = floats_of(golden(ops, "%s.unfused", base));
    float *out = malloc((size_t)(g.heads * g.queries * g.head_dim) * 4);
    size_t row = (size_t)(g.head_dim * g.bits / 8), scale = (size_t)(g.head_dim / g.group) * 4,
           keys = (size_t)g.keys;
    for (int head = 0; head < g.kv_heads; head++) {
      size_t rows = (size_t)head * keys;
      lap_kv_view kv = {.k = golden(ops, "%s.k.w", base)->data + rows * row,
                        .v = golden(ops, "%s.v.w", base)->data + rows * row,
                        .k_scales = golden(ops, "%s.k.scales", base)->data + rows * scale,
                        .k_biases = golden(ops, "%s.k.biases", base)->data + rows * scale,
                        .v_scales = golden(ops, "%s.v.scales", base)->data + rows * scale,
                        .v_biases = golden(ops, "%s.v.biases", base)->data + rows * scale,
                        .row_bytes = row,
                        .scale_bytes = scale,
                        .capacity = g.keys,
                        .head_dim = g.head_dim,
                        .bits = g.bits,
                        .group_size = g.group};
      attend_head(&g, &kv, head, q, out);
    }
    double distance = max_distance(out, expected, (int64_t)g.heads * g.queries * g.head_dim);
    if (distance > 2e-3) fail_msg("%s: distance %g", base, distance);
    compared++;
    free(q), free(expected), free(out);
  }
  assert_int_equal(compared, 7);
  lap_tensors_close(ops);
}

/* qk and pv of the batched products, through scores and values. */
static void cache_products_equal_mlx(void **state) {
  (void)state;
  lap_tensors *ops = open_ops("qmm_batched");
  int compared = 0;
  for (int32_t i = 0; i < lap_tensors_count(ops); i++) {
    int bits, group, head_dim, kv_heads, repeats, keys, queries, end = 0;
    const char *name = lap_tensors_at(ops, i)->name;
    if (sscanf(name, "attn.b%d.g%d.hd%d.kv%d.rep%d.T%d.L%d.w%n", &bits, &group, &head_dim, &kv_heads,
               &repeats, &keys, &queries, &end) < 7 ||
        !end || name[end])
      continue;
    char base[80];
    snprintf(base, sizeof base, "%.*s", end - 2, name);
    lap_qmatrix all = matrix_of(ops, base, bits, group, LAP_FORMAT_F32);
    float *q = floats_of(golden(ops, "%s.q", base)), *qk = floats_of(golden(ops, "%s.qk", base));
    float *p = floats_of(golden(ops, "%s.p", base)), *pv = floats_of(golden(ops, "%s.pv", base));
    for (int head = 0; head < kv_heads; head++) {
      lap_qmatrix w = all;
      size_t row = (size_t)(head * keys), scale = row * w.scale_stride * 4;
      w.codes += row * w.row_bytes, w.scales += scale, w.biases += scale;
      int n = repeats * queries, groups = head_dim / group;
      check_product(&w, q + head * n * head_dim, n, keys, qk + head * n * keys, 3e-4);
      lap_kv_view kv = {.v = w.codes,
                        .v_scales = w.scales,
                        .v_biases = w.biases,
                        .row_bytes = w.row_bytes,
                        .scale_bytes = w.scale_stride * 4,
                        .capacity = keys,
                        .head_dim = head_dim,
                        .bits = bits,
                        .group_size = group};
      for (int t = 0; t < n; t++) {
        float weights[LAP_KEY_BLOCK] = {0}, acc[512] = {0}, bias_acc[16] = {0};
        memcpy(weights, p + (head * n + t) * keys, (size_t)keys * 4);
        kernels->values(&kv, 1, 0, keys, weights, acc, bias_acc);
        for (int d = 0; d < head_dim; d++) acc[d] += bias_acc[d / group];
        assert_true(groups <= 16 && max_distance(acc, pv + (head * n + t) * head_dim, head_dim) < 2e-5);
      }
    }
    compared++;
    free(q), free(qk), free(p), free(pv);
  }
  assert_true(compared >= 4);
  lap_tensors_close(ops);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(affine_quantize_equals_mlx_byte_for_byte),
      cmocka_unit_test(dequantized_weights_equal_mlx_for_every_width),
      cmocka_unit_test(quantized_products_equal_mlx_for_every_width),
      cmocka_unit_test(expert_products_equal_mlx),
      cmocka_unit_test(rms_norm_equals_mlx),
      cmocka_unit_test(rope_equals_mlx),
      cmocka_unit_test(rope_tables_are_exact_at_long_positions),
      cmocka_unit_test(activations_equal_mlx),
      cmocka_unit_test(exponential_is_exact_to_two_parts_in_ten_million),
      cmocka_unit_test(softmax_equals_mlx),
      cmocka_unit_test(sixteen_bit_floats_round_as_mlx),
      cmocka_unit_test(plain_attention_equals_mlx),
      cmocka_unit_test(quantized_attention_equals_mlx),
      cmocka_unit_test(cache_products_equal_mlx),
  };
  return cmocka_run_group_tests(tests, select_kernels, NULL);
}
