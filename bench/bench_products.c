/* bench_products.c: one-row products and decode against the memory's read bandwidth.
 *
 *   bench_products [--threads N] [--repeat R] [--directory DIR]
 *
 * All figures come from one run, in turns: a plain read of a buffer larger than the caches, then the
 * one-row products of a checkpoint (every matrix that a decode step reads, in its order), then whole
 * decode steps. So a machine whose speed drifts slows all of them, and the ratios stand. Two
 * checkpoints: Pebble (models/pebble), which fits in the last cache, and a random one of 1 GB with the
 * layers of E4B, written to DIR (default build/bench) on first use. */
#include <errno.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/pool.h"
#include "cpu/cpu.h"
#include "engine/session.h"
#include "pass/parallel.h"

#include <stdio.h>
#include <stdlib.h>

static void die(const char *message) {
  fprintf(stderr, "bench_products: %s\n", message);
  exit(1);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct sample {
  double value[64];
  int count;
} sample;

static void print_sample(const char *name, sample *s, const char *unit, const sample *of) {
  double ratio[64];
  for (int i = 0; of && i < s->count; i++) ratio[i] = 100 * s->value[i] / of->value[i];
  qsort(s->value, (size_t)s->count, sizeof(double), by_value);
  printf("%-44s %8.2f %-9s (%.2f to %.2f)", name, s->value[s->count / 2], unit, s->value[0],
         s->value[s->count - 1]);
  if (of) {
    qsort(ratio, (size_t)s->count, sizeof(double), by_value);
    printf("  %5.1f %% of bandwidth (%.1f to %.1f)", ratio[s->count / 2], ratio[0], ratio[s->count - 1]);
  }
  printf("\n");
}

/* ---- bandwidth ---- */

enum {
  READ_PARTS = 64
};

typedef struct reading {
  const uint64_t *data;
  size_t words; /* of a part */
  uint64_t sums[READ_PARTS];
} reading;

/* Eight sums keep the adds off the path; the prefetch runs as far ahead as the products' does. */
static void read_task(void *context, int task, int thread) {
  reading *r = context;
  (void)thread;
  const uint64_t *p = r->data + (size_t)task * r->words;
  uint64_t s[8] = {0};
  for (size_t i = 0; i < r->words; i += 8) {
    __builtin_prefetch(p + i + 256);
    for (int j = 0; j < 8; j++) s[j] += p[i + (size_t)j];
  }
  r->sums[task] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* GB/s of reading the whole buffer once. */
static double read_bandwidth(lap_pool *pool, reading *r) {
  double start = lap_seconds();
  lap_pool_run(pool, READ_PARTS, read_task, r);
  return (double)(r->words * READ_PARTS * 8) / (lap_seconds() - start) * 1e-9;
}

/* ---- a random checkpoint ---- */

typedef struct writer {
  FILE *header, *data;
  uint64_t offset;
  uint64_t random;
} writer;

static uint64_t next_random(writer *w) {
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random;
}

static void add_entry(writer *w, const char *name, const char *dtype, long rows, long cols, uint64_t bytes) {
  fprintf(w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%ld", w->offset ? "," : "", name, dtype, rows);
  if (cols) fprintf(w->header, ",%ld", cols);
  fprintf(w->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->offset,
          (unsigned long long)(w->offset + bytes));
  w->offset += bytes;
}

static void add_bf16(writer *w, const char *name, long rows, long cols, float value) {
  long n = rows * (cols ? cols : 1);
  uint16_t *row = malloc((size_t)n * 2);
  for (long i = 0; i < n; i++) row[i] = lap_f32_to_bf16(value);
  add_entry(w, name, "BF16", rows, cols, (uint64_t)n * 2);
  fwrite(row, 2, (size_t)n, w->data);
  free(row);
}

/* 4-bit codes at random; scale and bias so that weights have mean 0 and products keep their size. */
static void add_matrix(writer *w, const char *module, long out, long in) {
  char name[160];
  size_t words = (size_t)(out * in / 16);
  uint64_t *codes = malloc(words * 8);
  float scale = 1.0f / (4.6f * sqrtf((float)in));
  for (size_t i = 0; i < words; i++) codes[i] = next_random(w);
  snprintf(name, sizeof name, "model.%s.weight", module);
  add_entry(w, name, "U32", out, in / 8, words * 8);
  fwrite(codes, 8, words, w->data);
  free(codes);
  snprintf(name, sizeof name, "model.%s.scales", module);
  add_bf16(w, name, out, in / 64, scale);
  snprintf(name, sizeof name, "model.%s.biases", module);
  add_bf16(w, name, out, in / 64, -7.5f * scale);
}

enum {
  LAYERS = 18,
  HIDDEN = 2560,
  FFN = 10240,
  VOCAB = 32768,
  SLIDING_DIM = 256,
  FULL_DIM = 512
};

static void add_layer(writer *w, int layer) {
  static const char *const norms[] = {"input_layernorm", "post_attention_layernorm",
                                      "pre_feedforward_layernorm", "post_feedforward_layernorm"};
  int head_dim = layer % 6 == 5 ? FULL_DIM : SLIDING_DIM;
  char module[128];
  const struct {
    const char *name;
    long out, in;
  } matrices[] = {{"self_attn.q_proj", 8 * head_dim, HIDDEN},
                  {"self_attn.k_proj", 2 * head_dim, HIDDEN},
                  {"self_attn.v_proj", 2 * head_dim, HIDDEN},
                  {"self_attn.o_proj", HIDDEN, 8 * head_dim},
                  {"mlp.gate_proj", FFN, HIDDEN},
                  {"mlp.up_proj", FFN, HIDDEN},
                  {"mlp.down_proj", HIDDEN, FFN}};
  for (int i = 0; i < 7; i++) {
    snprintf(module, sizeof module, "layers.%d.%s", layer, matrices[i].name);
    add_matrix(w, module, matrices[i].out, matrices[i].in);
  }
  for (int i = 0; i < 4; i++) {
    snprintf(module, sizeof module, "model.layers.%d.%s.weight", layer, norms[i]);
    add_bf16(w, module, HIDDEN, 0, 1.0f);
  }
  snprintf(module, sizeof module, "model.layers.%d.self_attn.q_norm.weight", layer);
  add_bf16(w, module, head_dim, 0, 0.25f);
  snprintf(module, sizeof module, "model.layers.%d.self_attn.k_norm.weight", layer);
  add_bf16(w, module, head_dim, 0, 0.25f);
}

static void write_config(const char *directory) {
  char path[1200];
  snprintf(path, sizeof path, "%s/config.json", directory);
  FILE *f = fopen(path, "w");
  if (!f) die("cannot write config.json");
  fprintf(
      f,
      "{\"model_type\":\"gemma4_text\",\"hidden_size\":%d,\"num_hidden_layers\":%d,\"intermediate_size\":%d,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":%d,\"global_head_dim\":%d,"
      "\"vocab_size\":%d,\"sliding_window\":512,\"num_kv_shared_layers\":0,\"hidden_size_per_layer_input\":0,"
      "\"use_double_wide_mlp\":false,\"final_logit_softcapping\":30.0,\"eos_token_id\":1,\"layer_types\":[",
      HIDDEN, LAYERS, FFN, SLIDING_DIM, FULL_DIM, VOCAB);
  for (int i = 0; i < LAYERS; i++)
    fprintf(f, "%s\"%s_attention\"", i ? "," : "", i % 6 == 5 ? "full" : "sliding");
  fprintf(f, "],\"quantization\":{\"group_size\":64,\"bits\":4}}\n");
  if (fclose(f) != 0) die("cannot write config.json");
}

/* Writes the checkpoint unless it is there. */
static void make_checkpoint(const char *directory) {
  char path[1200], temporary[1300];
  struct stat info;
  snprintf(path, sizeof path, "%s/model.safetensors", directory);
  if (stat(path, &info) == 0) return;
  if (mkdir(directory, 0777) != 0 && errno != EEXIST) die("cannot create the directory");
  snprintf(temporary, sizeof temporary, "%s.data", path);
  char *header = NULL;
  size_t header_bytes = 0;
  writer w = {.header = open_memstream(&header, &header_bytes),
              .data = fopen(temporary, "w+"),
              .random = 88172645463325252u};
  if (!w.header || !w.data) die("cannot write the checkpoint");
  fputc('{', w.header);
  add_matrix(&w, "embed_tokens", VOCAB, HIDDEN);
  for (int i = 0; i < LAYERS; i++) add_layer(&w, i);
  add_bf16(&w, "model.norm.weight", HIDDEN, 0, 1.0f);
  fputc('}', w.header);
  fclose(w.header);
  FILE *out = fopen(path, "w");
  if (!out) die("cannot write the checkpoint");
  uint64_t length = header_bytes;
  fwrite(&length, 8, 1, out);
  fwrite(header, 1, header_bytes, out);
  rewind(w.data);
  static char block[1 << 20];
  for (size_t n; (n = fread(block, 1, sizeof block, w.data)) > 0;) fwrite(block, 1, n, out);
  fclose(w.data);
  remove(temporary);
  if (fclose(out) != 0) die("cannot write the checkpoint");
  free(header);
  write_config(directory);
}

/* ---- products ---- */

typedef struct subject {
  const char *name;
  lap_model *model;
  lap_session *session;
  lap_team team;
  unsigned char *input; /* memory for the quantized forms of x */
  float *x, *y;
  uint64_t bytes; /* of all matrices of a decode step */
  sample products, decode;
} subject;

static void open_subject(subject *s, const char *name, const char *directory, lap_pool *pool) {
  lap_error error;
  s->team = (lap_team){lap_pool_threads(pool), pool, lap_pool_run};
  lap_session_options options = {.threads = s->team.threads};
  s->name = name;
  if (lap_model_open(directory, NULL, &s->model, &error) != LAP_OK) die(error.message);
  if (lap_session_create(s->model, &options, &s->session, &error) != LAP_OK) die(error.message);
  int widest = s->model->plan->vocab_size;
  for (int l = 0; l < s->model->plan->layers; l++)
    if (s->model->plan->layer[l].mlp_width > widest) widest = s->model->plan->layer[l].mlp_width;
  s->x = aligned_alloc(64, (size_t)widest * 4);
  s->y = aligned_alloc(64, (size_t)widest * 8); /* gate and up beside each other */
  for (int i = 0; i < widest; i++) s->x[i] = sinf((float)i);
  s->input = aligned_alloc(64, lap_aligned(lap_input_row_bytes(widest, LAP_FORMS_ALL)));
}

/* The products of a decode step that read one input run as one batch, as in the forward pass. */
static const struct {
  int first, last;
} batches[] = {{LAP_Q_PROJ, LAP_V_PROJ},     {LAP_O_PROJ, LAP_O_PROJ},
               {LAP_GATE_PROJ, LAP_UP_PROJ}, {LAP_DOWN_PROJ, LAP_DOWN_PROJ},
               {LAP_PLI_GATE, LAP_PLI_GATE}, {LAP_PLI_PROJECTION, LAP_PLI_PROJECTION}};

static const lap_kernels *kernels;

static void multiply(const lap_product *p, int first, int last) {
  kernels->matmul_quantized(&p->weight->quantized, &p->input->q[0], 0, 1, first, last, p->y, (size_t)p->rows);
}

/* All weights here are in groups of 64. */
static void multiply_batch(subject *s, const lap_linear *linear, const lap_weight *weight, int count) {
  const int forms = LAP_FORM_64 | LAP_FORM_64_NIBBLE;
  lap_input input;
  lap_product products[3];
  int n = 0;
  float *y = s->y;
  for (int i = 0; i < count; i++) {
    if (!linear[i].present) continue;
    products[n++] = (lap_product){.multiply = multiply,
                                  .weight = &weight[i],
                                  .rows = weight[i].rows,
                                  .cols = weight[i].cols,
                                  .input = &input,
                                  .input_rows = 1,
                                  .y = y};
    y += weight[i].rows;
  }
  if (n == 0) return;
  /* Quantizing the input belongs to the product: a decode step does it too. */
  kernels = lap_cpu_of(s->model->bound)->kernels;
  input = lap_input_place(products[0].cols, forms, s->x, s->input, 1, 0);
  lap_qrow row = lap_qrows_at(&input.q[0], 0);
  kernels->quantize_row(s->x, products[0].cols, 64, &row);
  lap_run_products(&s->team, products, n);
}

static void multiply_all(subject *s) {
  const lap_plan *plan = s->model->plan;
  const lap_weights *weights = lap_cpu_of(s->model->bound)->weights;
  for (int l = 0; l < plan->layers; l++)
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++)
      multiply_batch(s, &plan->layer[l].linear[batches[b].first], &weights->layer[l].linear[batches[b].first],
                     batches[b].last - batches[b].first + 1);
  multiply_batch(s, &plan->head, &weights->head, 1);
}

/* Bytes of the matrices that multiply_all reads. */
static uint64_t bytes_of(const lap_plan *plan) {
  uint64_t bytes = lap_linear_bytes(&plan->head);
  for (int l = 0; l < plan->layers; l++)
    for (int i = LAP_Q_PROJ; i <= LAP_PLI_PROJECTION; i++)
      if (plan->layer[l].linear[i].present) bytes += lap_linear_bytes(&plan->layer[l].linear[i]);
  return bytes;
}

static double product_bandwidth(subject *s) {
  int rounds = s->bytes < 100000000u ? 100 : 1;
  double start = lap_seconds();
  for (int i = 0; i < rounds; i++) multiply_all(s);
  return (double)s->bytes * rounds / (lap_seconds() - start) * 1e-9;
}

static double decode_rate(subject *s) {
  lap_error error;
  int steps = s->bytes < 100000000u ? 100 : 8;
  int32_t id = 2;
  if (lap_session_trim(s->session, 0, &error) != LAP_OK) {
    lap_session_options options = {.threads = s->team.threads};
    lap_session_destroy(s->session);
    if (lap_session_create(s->model, &options, &s->session, &error) != LAP_OK) die(error.message);
  }
  double start = lap_seconds();
  for (int i = 0; i < steps; i++)
    if (lap_session_eval(s->session, &id, 1, 1, s->y, &error) != LAP_OK) die(error.message);
  return steps / (lap_seconds() - start);
}

int main(int argc, char **argv) {
  int threads = 2, repeat = 7;
  const char *directory = "build/bench";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--threads") == 0)
      threads = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--repeat") == 0)
      repeat = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--directory") == 0)
      directory = argv[i + 1];
    else
      die("usage: bench_products [--threads N] [--repeat R] [--directory DIR]");
  }
  if (threads < 1 || repeat < 1 || repeat > 64) die("--threads and --repeat (at most 64) are positive");
  lap_error error;
  lap_pool *pool;
  reading r = {.words = (size_t)1 << 21};
  uint64_t *buffer = malloc(r.words * READ_PARTS * 8);
  if (!buffer) die("out of memory");
  for (size_t i = 0; i < r.words * READ_PARTS; i++) buffer[i] = i;
  r.data = buffer;
  if (lap_pool_create(threads, &pool, &error) != LAP_OK) die(error.message);
  make_checkpoint(directory);
  subject subjects[2] = {0};
  open_subject(&subjects[0], "Pebble", "models/pebble", pool);
  open_subject(&subjects[1], "1 GB", directory, pool);
  sample bandwidth = {.count = repeat};
  for (int i = 0; i < 2; i++) {
    subjects[i].bytes = bytes_of(subjects[i].model->plan);
    multiply_all(&subjects[i]); /* warms the page cache */
    decode_rate(&subjects[i]);
  }
  for (int i = 0; i < repeat; i++) {
    bandwidth.value[i] = read_bandwidth(pool, &r);
    for (int j = 0; j < 2; j++) {
      subjects[j].products.value[i] = product_bandwidth(&subjects[j]);
      subjects[j].decode.value[i] = decode_rate(&subjects[j]);
    }
  }
  printf("%d threads, %s, %d rounds; median (min to max)\n", threads, kernels->name, repeat);
  sample unsorted = bandwidth;
  print_sample("read bandwidth, 1 GB buffer", &bandwidth, "GB/s", NULL);
  for (int j = 0; j < 2; j++) {
    char name[96];
    subject *s = &subjects[j];
    s->products.count = s->decode.count = repeat;
    sample bytes = {.count = repeat};
    for (int i = 0; i < repeat; i++) bytes.value[i] = s->decode.value[i] * (double)s->bytes * 1e-9;
    snprintf(name, sizeof name, "%s: one-row products, %.1f MB", s->name, (double)s->bytes * 1e-6);
    print_sample(name, &s->products, "GB/s", &unsorted);
    snprintf(name, sizeof name, "%s: decode, weights read", s->name);
    print_sample(name, &bytes, "GB/s", &unsorted);
    snprintf(name, sizeof name, "%s: decode", s->name);
    print_sample(name, &s->decode, "tokens/s", NULL);
    lap_session_destroy(s->session);
    lap_model_close(s->model);
    free(s->x), free(s->y), free(s->input);
  }
  lap_pool_destroy(pool);
  free(buffer);
  return 0;
}
