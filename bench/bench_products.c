/* bench_products.c: one-row products and decode against the memory's read bandwidth.
 *
 *   bench_products [--threads N] [--repeat R] [--directory DIR]
 *
 * All figures come from one run, in turns: a plain read of a buffer larger than the caches, then the
 * one-row products of a checkpoint (every matrix that a decode step reads, in its order), then whole
 * decode steps. So a machine whose speed drifts slows all of them, and the ratios stand. Two
 * checkpoints: Pebble (models/pebble), which fits in the last cache, and a forged one of 1 GB with the
 * layers of E4B, written to DIR (default build/bench) on first use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/pool.h"
#include "bench/sample.h"
#include "cpu/cpu.h"
#include "engine/session.h"
#include "forge/forge.h"
#include "pass/parallel.h"

static void die(const char *message) {
  fprintf(stderr, "bench_products: %s\n", message);
  exit(1);
}

static void print_sample(const char *name, const lap_bench_sample *s, const char *unit,
                         const lap_bench_sample *of) {
  lap_bench_sample percent = {0};
  printf("%-44s %8.2f %-9s (%.2f to %.2f)", name, lap_bench_sample_median(s), unit, lap_bench_sample_min(s),
         lap_bench_sample_max(s));
  for (int i = 0; of && i < s->count; i++) lap_bench_sample_add(&percent, 100 * s->value[i] / of->value[i]);
  if (of)
    printf("  %5.1f %% of bandwidth (%.1f to %.1f)", lap_bench_sample_median(&percent),
           lap_bench_sample_min(&percent), lap_bench_sample_max(&percent));
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

/* ---- a forged checkpoint ---- */

enum {
  LAYERS = 18,
  HIDDEN = 2560,
  FFN = 10240,
  VOCAB = 32768,
  SLIDING_DIM = 256,
  FULL_DIM = 512
};

static void write_config(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) die("cannot write the configuration");
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
  if (fclose(f) != 0) die("cannot write the configuration");
}

/* Writes the checkpoint unless it is there. */
static void make_checkpoint(const char *directory) {
  char weights[1200], config[1200];
  struct stat info;
  lap_error error;
  lap_forge_result result;
  snprintf(weights, sizeof weights, "%s/model.safetensors", directory);
  snprintf(config, sizeof config, "%s.json", directory);
  if (stat(weights, &info) == 0) return;
  write_config(config);
  const lap_forge_options options = {.config = config};
  lap_status status = lap_forge(directory, &options, &result, &error);
  remove(config);
  if (status != LAP_OK) die(error.message);
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
  lap_bench_sample products, decode;
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
  /* What is compiled for the base instruction set places one order of the codes only, in memory for both; the
   * kernels that run here may be those that read the other one. */
  if (!input.q[0].nibble) input.q[0].nibble = input.q[0].q + input.q[0].padded;
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
  if (threads < 1 || repeat < 1 || repeat > LAP_BENCH_SAMPLE_VALUES)
    die("--threads and --repeat are positive, --repeat at most 256");
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
  lap_bench_sample bandwidth = {0};
  for (int i = 0; i < 2; i++) {
    subjects[i].bytes = bytes_of(subjects[i].model->plan);
    multiply_all(&subjects[i]); /* warms the page cache */
    decode_rate(&subjects[i]);
  }
  for (int i = 0; i < repeat; i++) {
    lap_bench_sample_add(&bandwidth, read_bandwidth(pool, &r));
    for (int j = 0; j < 2; j++) {
      lap_bench_sample_add(&subjects[j].products, product_bandwidth(&subjects[j]));
      lap_bench_sample_add(&subjects[j].decode, decode_rate(&subjects[j]));
    }
  }
  printf("%d threads, %s, %d rounds; median (min to max)\n", threads, kernels->name, repeat);
  print_sample("read bandwidth, 1 GB buffer", &bandwidth, "GB/s", NULL);
  for (int j = 0; j < 2; j++) {
    char name[96];
    subject *s = &subjects[j];
    const lap_bench_sample bytes = lap_bench_sample_scaled(&s->decode, (double)s->bytes * 1e-9);
    snprintf(name, sizeof name, "%s: one-row products, %.1f MB", s->name, (double)s->bytes * 1e-6);
    print_sample(name, &s->products, "GB/s", &bandwidth);
    snprintf(name, sizeof name, "%s: decode, weights read", s->name);
    print_sample(name, &bytes, "GB/s", &bandwidth);
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
