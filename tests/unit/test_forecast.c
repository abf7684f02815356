/* What is forecast from the plan is what happens: bytes of caches, scratch and weights against those of
 * sessions that evaluate so many tokens, and the memory that the machine is said to have against files that
 * say so. */
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/pool.h"
#include "cpu/cpu.h"
#include "engine/forecast.h"
#include "engine/session.h"
#include "forge/forge.h"
#include "support/check.h"
#include "support/checkpoint_writer.h"

#define PEBBLE  SOURCE_DIR "/models/pebble"
#define CONFIGS SOURCE_DIR "/models/configs"

enum {
  MOST_TOKENS = 1200, /* beyond the windows of all checkpoints here, and a piece of a chunk */
  MOST_WANTED = 300
};

static bool is_quick(void) {
  return getenv("LAPIDARY_TEST_QUICK") != NULL;
}

static char *forged(const char *name, int layers, int scale, int bits) {
  lap_error error;
  lap_forge_result result;
  char *directory = make_directory();
  const lap_forge_options options = {.config = path_of("%s/%s.json", CONFIGS, name),
                                     .kv_config = path_of("%s/%s.kv_config.json", CONFIGS, name),
                                     .layers = layers,
                                     .vocab = 384,
                                     .scale = scale,
                                     .bits = bits};
  expect_ok(lap_forge(directory, &options, &result, &error), &error);
  return directory;
}

static lap_model *open_model(const char *directory, lap_kv_mode kv) {
  lap_error error;
  lap_model *model;
  expect_ok(lap_model_open(directory, &(lap_model_options){.kv = kv}, &model, &error), &error);
  return model;
}

static lap_session *open_session(lap_model *model, int threads, int chunk, lap_path path) {
  lap_error error;
  lap_session *session;
  const lap_session_options options = {.threads = threads, .chunk = chunk, .path = path};
  expect_ok(lap_session_create(model, &options, &session, &error), &error);
  return session;
}

/* The logits of the last `wanted` of them are asked for: these rows go through all layers. */
static void eval(lap_session *session, int count, int wanted) {
  static float logits[MOST_WANTED * 2048];
  int32_t ids[MOST_TOKENS];
  lap_error error;
  int vocab = session->model->plan->vocab_size;
  random_source source = {(uint64_t)lap_kv_length(session->sequence->kv)};
  for (int i = 0; i < count; i++) ids[i] = random_below(&source, vocab);
  expect_ok(lap_session_eval(session, ids, count, wanted, logits, &error), &error);
}

static lap_forecast_session described(const lap_model *model, int threads, int chunk, lap_path path) {
  return (lap_forecast_session){.bound = model->bound, .path = path, .threads = threads, .chunk = chunk};
}

static lap_forecast forecast(const lap_forecast_session *session, int64_t tokens) {
  lap_error error;
  lap_forecast out;
  expect_ok(lap_forecast_tokens(session, tokens, &out, &error), &error);
  return out;
}

/* ---- caches and scratch ---- */

/* Evaluates chunk by chunk, with a piece of one at the end, and compares on the way. */
static void compare(lap_model *model, const char *name, int threads, int chunk, int most, lap_path path) {
  const lap_forecast_session described_session = described(model, threads, chunk, path);
  lap_session *session = open_session(model, threads, chunk, path);
  for (int tokens = 0; tokens < most;) {
    int count = most - tokens < chunk ? most - tokens : chunk;
    eval(session, count, 1);
    tokens += count;
    lap_stats stats = lap_session_stats(session);
    lap_forecast expected = forecast(&described_session, tokens);
    if (expected.kv_bytes != stats.kv_bytes || expected.scratch_bytes != stats.scratch_bytes)
      fail_msg("%s, kv %d, %d threads, chunk %d, %d tokens: KV %zu, scratch %zu, forecast %llu and %llu",
               name, model->plan->kv_mode, threads, chunk, tokens, stats.kv_bytes, stats.scratch_bytes,
               (unsigned long long)expected.kv_bytes, (unsigned long long)expected.scratch_bytes);
  }
  lap_session_destroy(session);
}

static void compare_modes(const char *directory, const char *name) {
  static const lap_kv_mode modes[] = {LAP_KV_CONFIG, LAP_KV_PLAIN, LAP_KV_8, LAP_KV_4};
  for (int m = 0; m < (is_quick() ? 1 : 4); m++) {
    lap_model *model = open_model(directory, modes[m]);
    compare(model, name, 2, 512, m == 0 ? MOST_TOKENS : 600, LAP_PATH_AUTO);
    compare(model, name, 1, 60, 7, LAP_PATH_MONOLITH);
    if (m == 0) compare(model, name, 3, 90, 200, LAP_PATH_MONOLITH);
    lap_model_close(model);
  }
}

static void caches_and_scratch_are_what_a_session_holds(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int layers;
  } sizes[] = {{"e2b", 5}, {"26b-a4b", 6}, {"e4b", 7}, {"12b", 6}, {"31b", 6}};
  compare_modes(PEBBLE, "Pebble");
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  compare(model, "Pebble", 2, 1, 200, LAP_PATH_AUTO); /* its window is 128 */
  lap_model_close(model);
  for (int i = 0; i < (is_quick() ? 2 : 5); i++) {
    char *directory = forged(sizes[i].name, sizes[i].layers, 64, 0);
    compare_modes(directory, sizes[i].name);
    remove_directory(directory);
  }
}

/* Not what the session says of itself, but what malloc has given out. */
static void a_session_allocates_what_is_forecast(void **state) {
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  skip();
#endif
#endif
  static const lap_kv_mode modes[] = {LAP_KV_CONFIG, LAP_KV_PLAIN};
  for (int m = 0; m < 2; m++) {
    lap_model *model = open_model(PEBBLE, modes[m]);
    struct mallinfo2 before = mallinfo2();
    lap_session *session = open_session(model, 2, 512, LAP_PATH_AUTO);
    eval(session, 1024, 1);
    eval(session, MOST_TOKENS - 1024, 1);
    struct mallinfo2 after = mallinfo2();
    double allocated = (double)(after.uordblks + after.hblkhd) - (double)(before.uordblks + before.hblkhd);
    const lap_forecast_session s = described(model, 2, 512, LAP_PATH_AUTO);
    lap_forecast expected = forecast(&s, MOST_TOKENS);
    double ratio = (double)(expected.kv_bytes + expected.scratch_bytes) / allocated;
    if (ratio < 0.97 || ratio > 1.03) fail_msg("kv %d: forecast %.3f of what was allocated", modes[m], ratio);
    assert_true(expected.kv_peak_bytes > expected.kv_bytes);
    lap_session_destroy(session);
    lap_model_close(model);
  }
}

/* By the arithmetic of the format, for Pebble's published structure: 8 caches, three of them full. */
static void pebble_in_plain_caches_by_hand(void **state) {
  (void)state;
  lap_model *model = open_model(PEBBLE, LAP_KV_PLAIN);
  const lap_plan *plan = model->plan;
  const lap_forecast_session s = described(model, 1, 512, LAP_PATH_AUTO);
  uint64_t bytes = 0;
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    if (layer->sharer) continue;
    /* Two chunks of 512: the full ones grow to 512 and, as an eighth more is less than what is needed, to
     * 1024; a ring stops at its window less one, and the chunk. */
    uint64_t positions = layer->attention == LAP_SLIDING ? 127 + 512 : 1024;
    bytes += positions * 2 * (uint64_t)(layer->kv_heads * (layer->head_dim * 2 + layer->head_dim / 64 * 4));
  }
  assert_true(plan->caches == 8);
  assert_int_equal(forecast(&s, 1024).kv_bytes, bytes);
  lap_model_close(model);
}

static void the_longest_context_fits_and_one_token_more_does_not(void **state) {
  (void)state;
  static const uint64_t budgets[] = {0,       1000,    600000,   2000000,  4000000, 8000000,
                                     9000001, 9500000, 10000000, 12345678, 14000000};
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  int64_t limit = lap_model_context(model);
  static const int chunks[] = {1, 7, 100, 512};
  for (int c = 0; c < 4; c++)
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
      lap_error error;
      lap_forecast longest, more;
      const lap_forecast_session s = described(model, 2, chunks[c], LAP_PATH_AUTO);
      expect_ok(lap_forecast_longest(&s, budgets[i], &longest, &error), &error);
      assert_true(longest.kv_peak_bytes + longest.scratch_bytes <= budgets[i]);
      assert_in_range(longest.tokens, 0, limit);
      if (longest.tokens == limit) continue;
      more = forecast(&s, longest.tokens + 1);
      assert_true(more.kv_peak_bytes + more.scratch_bytes > budgets[i]);
      if (longest.tokens) assert_int_equal(forecast(&s, longest.tokens).kv_peak_bytes, longest.kv_peak_bytes);
    }
  lap_error error;
  lap_forecast out;
  const lap_forecast_session s = described(model, 2, 512, LAP_PATH_AUTO);
  expect_ok(lap_forecast_longest(&s, UINT64_MAX, &out, &error), &error);
  assert_int_equal(out.tokens, limit);
  assert_int_equal(lap_forecast_tokens(&s, limit + 1, &out, &error), LAP_ERROR_ARGUMENT);
  assert_int_equal(lap_forecast_tokens(&s, 0, &out, &error), LAP_ERROR_ARGUMENT);
  lap_model_close(model);
}

/* ---- weights ---- */

/* Pages of a model's weights are taken away, and given back one by one when somebody reads them. */
static struct {
  unsigned char *begin, *end; /* whole pages */
  size_t page;
  unsigned char *touched; /* by page */
} watched;

static void on_fault(int signal_number, siginfo_t *info, void *context) {
  unsigned char *at = info->si_addr;
  (void)context;
  if (at < watched.begin || at >= watched.end) { /* not ours: happens again, and kills */
    signal(signal_number, SIG_DFL);
    return;
  }
  size_t index = (size_t)(at - watched.begin) / watched.page;
  watched.touched[index] = 1;
  mprotect(watched.begin + index * watched.page, watched.page, PROT_READ);
}

static size_t watched_pages(void) {
  return (size_t)(watched.end - watched.begin) / watched.page;
}

static void watch(const lap_model *model) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int32_t i = 0; i < lap_tensors_count(model->tensors); i++) {
    const lap_tensor *tensor = lap_tensors_at(model->tensors, i);
    uintptr_t begin = (uintptr_t)tensor->data, end = begin + tensor->bytes;
    low = begin < low ? begin : low;
    high = end > high ? end : high;
  }
  watched.page = (size_t)sysconf(_SC_PAGESIZE);
  watched.begin = (unsigned char *)(low / watched.page * watched.page);
  watched.end = (unsigned char *)((high + watched.page - 1) / watched.page * watched.page);
  watched.touched = calloc(watched_pages(), 1);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigemptyset(&action.sa_mask);
  assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
  assert_int_equal(mprotect(watched.begin, watched_pages() * watched.page, PROT_NONE), 0);
}

/* A page that belongs to tables of single rows alone. */
static bool in_table(const lap_model *model, size_t page) {
  const unsigned char *begin = watched.begin + page * watched.page, *end = begin + watched.page;
  const lap_linear *table = &model->plan->embed_per_layer;
  if (!table->present) return false;
  const int32_t parts[] = {table->weight, table->scales, table->biases};
  for (int i = 0; i < (table->bits ? 3 : 1); i++) {
    const lap_tensor *tensor = lap_tensors_at(model->tensors, parts[i]);
    if (tensor->data <= begin && end <= tensor->data + tensor->bytes) return true;
  }
  return false;
}

/* Bytes that were read since watch(), of tables or of the rest. */
static uint64_t end_watch(const lap_model *model, uint64_t *tables) {
  uint64_t rest = 0;
  *tables = 0;
  for (size_t i = 0; i < watched_pages(); i++)
    if (watched.touched[i]) *(in_table(model, i) ? tables : &rest) += watched.page;
  mprotect(watched.begin, watched_pages() * watched.page, PROT_READ);
  signal(SIGSEGV, SIG_DFL);
  free(watched.touched);
  return rest;
}

static void expect_near(const char *name, const char *what, uint64_t forecast_bytes, uint64_t measured) {
  double ratio = (double)forecast_bytes / (double)measured;
  if (ratio < 0.97 || ratio > 1.03)
    fail_msg("%s: %s: forecast %llu, measured %llu", name, what, (unsigned long long)forecast_bytes,
             (unsigned long long)measured);
}

static void compare_weights(const char *directory, const char *name) {
  lap_model *model = open_model(directory, LAP_KV_CONFIG);
  lap_plan_sizes sizes = lap_plan_measure(model->plan);
  uint64_t all = 0, tables;
  for (int32_t i = 0; i < lap_tensors_count(model->tensors); i++)
    all += lap_tensors_at(model->tensors, i)->bytes;
  expect_near(name, "the sum over the tensors", sizes.weights, all);
  lap_session *session = open_session(model, 2, 512, LAP_PATH_AUTO);
  watch(model);
  eval(session, MOST_WANTED, MOST_WANTED);
  for (int i = 0; i < 5; i++) eval(session, 1, 1);
  uint64_t resident = end_watch(model, &tables);
  expect_near(name, "weights that a prompt and decoding read", sizes.weights - sizes.tables, resident);
  assert_true(tables <= sizes.tables + watched.page && (tables > 0) == (sizes.tables > 0));
  watch(model);
  eval(session, 1, 1);
  expect_near(name, "weights that a token reads", sizes.decode, end_watch(model, &tables));
  lap_session_destroy(session);
  lap_model_close(model);
}

static void weights_are_those_that_are_read(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int layers, scale;
  } sizes[] = {{"e2b", 7, 4}, {"e4b", 7, 8}, {"12b", 3, 8}, {"26b-a4b", 2, 4}, {"31b", 2, 16}};
  compare_weights(PEBBLE, "Pebble");
  for (int i = 0; i < (is_quick() ? 2 : 5); i++) {
    char *directory = forged(sizes[i].name, sizes[i].layers, sizes[i].scale, 0);
    compare_weights(directory, sizes[i].name);
    remove_directory(directory);
  }
}

/* At least one page in sixteen of what a token reads (more, where tensors are small), and no table; and
 * nothing more once an evaluation has begun. */
static void warming_touches_what_is_resident(void **state) {
  (void)state;
  lap_model *model = open_model(PEBBLE, LAP_KV_CONFIG);
  lap_plan_sizes sizes = lap_plan_measure(model->plan);
  uint64_t tables, touched;
  if (lap_available_cores() < 2) skip();
  watch(model);
  lap_model_warm(model);
  lap_model_warm(model);
  assert_true(lap_cpu_of(model->bound)->warming.begun);
  pthread_join(lap_cpu_of(model->bound)->warming.thread, NULL);
  lap_cpu_of(model->bound)->warming.begun = false;
  touched = end_watch(model, &tables);
  assert_int_equal(tables, 0);
  assert_true(touched >= (sizes.weights - sizes.tables) / 17 && touched < (sizes.weights - sizes.tables) / 2);

  lap_session *session = open_session(model, 1, 512, LAP_PATH_AUTO);
  eval(session, 1, 1);
  watch(model);
  lap_model_warm(model);
  lap_warming_end(&lap_cpu_of(model->bound)->warming);
  assert_int_equal(end_watch(model, &tables), 0);
  lap_session_destroy(session);
  lap_model_close(model);
}

/* ---- what the machine has ---- */

static void put(const char *root, const char *path, const char *text) {
  char directory[512];
  snprintf(directory, sizeof directory, "%s", path_of("%s/%s", root, path));
  for (char *slash = strchr(directory + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(directory, 0700);
    *slash = '/';
  }
  write_file(root, path, text, strlen(text));
}

static void remove_tree(char *root) {
  assert_int_equal(system(path_of("rm -r %s", root)), 0);
  free(root);
}

static void the_tightest_of_the_kernel_and_the_groups_counts(void **state) {
  (void)state;
  char *root = make_directory();
  assert_int_equal(lap_available_memory(root), 0);
  put(root, "proc/meminfo", "MemTotal:  9000 kB\nMemAvailableX: 1 kB\nMemAvailable:    4000 kB\n");
  assert_int_equal(lap_available_memory(root), 4000 * 1024);
  put(root, "proc/self/cgroup", "0::/outer/inner\n");
  assert_int_equal(lap_available_memory(root), 4000 * 1024);
  put(root, "sys/fs/cgroup/outer/inner/memory.max", "max\n");
  put(root, "sys/fs/cgroup/outer/inner/memory.current", "77\n");
  assert_int_equal(lap_available_memory(root), 4000 * 1024);
  /* 3 MB, of which 2.5 are used, of which 1.25 are file pages. */
  put(root, "sys/fs/cgroup/outer/memory.max", "3000000\n");
  put(root, "sys/fs/cgroup/outer/memory.current", "2500000\n");
  put(root, "sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 1000000\nactive_file 250000\nfile 9\n");
  assert_int_equal(lap_available_memory(root), 1750000);
  put(root, "sys/fs/cgroup/outer/memory.current", "5000000\n");
  assert_int_equal(lap_available_memory(root), 0);
  remove_tree(root);
}

static void control_groups_of_version_1_count_too(void **state) {
  (void)state;
  char *root = make_directory();
  put(root, "proc/meminfo", "MemAvailable: 8000 kB\n");
  put(root, "proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/a/b\n3:memoryless:/c\n0::/\n");
  put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put(root, "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
  assert_int_equal(lap_available_memory(root), 8000 * 1024);
  put(root, "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "5000000\n");
  put(root, "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "2000000\n");
  put(root, "sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 900000\ntotal_inactive_file 500000\n");
  assert_int_equal(lap_available_memory(root), 3500000);
  remove_tree(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(caches_and_scratch_are_what_a_session_holds),
      cmocka_unit_test(a_session_allocates_what_is_forecast),
      cmocka_unit_test(pebble_in_plain_caches_by_hand),
      cmocka_unit_test(the_longest_context_fits_and_one_token_more_does_not),
      cmocka_unit_test(weights_are_those_that_are_read),
      cmocka_unit_test(warming_touches_what_is_resident),
      cmocka_unit_test(the_tightest_of_the_kernel_and_the_groups_counts),
      cmocka_unit_test(control_groups_of_version_1_count_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
