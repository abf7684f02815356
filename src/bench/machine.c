/* machine.c: ceilings, measured.
 *
 * The work is cut into more tasks than threads, so that a thread which loses its core for a while does
 * not leave the others waiting for a large share. A pass takes some ten milliseconds, as short as other work
 * that gets in its way; so passes are repeated for a twentieth of a second and the best one counts: a ceiling
 * is what the machine can do. A thread that has just started may share a core with another for a while: that
 * time begins when all have taken part. */
#include "bench/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
  READ_PARTS = 128,
  CACHES_READ = 8, /* the buffer in sizes of all caches: they keep little of it from pass to pass */
  TASKS_OF_THREAD = 8
};
static const size_t LEAST_READ = (size_t)256 << 20;
static const double TASK_SECONDS = 0.001;
static const double CEILING_SECONDS = 0.05, PATIENCE_SECONDS = 1.0;

/* ---- tasks ----------------------------------------------------------------------------------- */

typedef struct measurement {
  const lap_bench_machine *machine;
  lap_bench_ceiling which;
  bool took_part[LAP_MAX_THREADS];
  uint64_t result[LAP_MAX_THREADS]; /* by thread; wanted by nobody; keeps the work from being left out */
} measurement;

static size_t part_bytes(const lap_bench_machine *machine) {
  return machine->buffer_bytes / READ_PARTS;
}

static uint64_t do_work(const lap_bench_machine *machine, lap_bench_ceiling which, int task) {
  const lap_bench_peak *peak = machine->peak;
  int64_t passes = machine->passes[which];
  switch (which) {
    case LAP_BENCH_CEILING_READ:
      return peak->read(machine->buffer + (size_t)task * part_bytes(machine), part_bytes(machine));
    case LAP_BENCH_CEILING_F32:
      return (uint64_t)(int64_t)peak->multiply_f32(machine->f32, passes);
    case LAP_BENCH_CEILING_INT16:
      return (uint64_t)peak->multiply_int16(machine->int16, passes);
    case LAP_BENCH_CEILINGS:
      break;
  }
  return 0;
}

static void measure_task(void *context, int task, int thread) {
  measurement *m = context;
  m->took_part[thread] = true;
  m->result[thread] = do_work(m->machine, m->which, task);
}

static void fill_task(void *context, int task, int thread) {
  const lap_bench_machine *machine = context;
  (void)thread;
  memset(machine->buffer + (size_t)task * part_bytes(machine), task + 1, part_bytes(machine));
}

static void empty_task(void *context, int task, int thread) {
  (void)context, (void)task, (void)thread;
}

static bool all_took_part(const measurement *m, int threads) {
  for (int i = 0; i < threads; i++)
    if (!m->took_part[i]) return false;
  return true;
}

static double measure(const lap_bench_machine *machine, lap_bench_ceiling which, lap_pool *pool) {
  measurement m = {.machine = machine, .which = which};
  bool reads = which == LAP_BENCH_CEILING_READ;
  int tasks = reads ? READ_PARTS : lap_pool_threads(pool) * TASKS_OF_THREAD;
  double multiplications = (double)tasks * (double)machine->passes[which] * (double)LAP_BENCH_PEAK_WORK;
  lap_pool_run(pool, tasks, empty_task, NULL); /* the threads have started and are awake */
  double start = lap_seconds(), end = start + PATIENCE_SECONDS, best = INFINITY;
  while (start < end) {
    memset(m.took_part, 0, sizeof m.took_part);
    lap_pool_run(pool, tasks, measure_task, &m);
    const double now = lap_seconds();
    if (now - start < best) best = now - start;
    if (end > start + CEILING_SECONDS && all_took_part(&m, lap_pool_threads(pool)))
      end = start + CEILING_SECONDS;
    start = now;
  }
  return (reads ? (double)machine->buffer_bytes : multiplications) / best;
}

lap_status lap_bench_machine_observe(lap_bench_machine *machine, int threads,
                                     double rates[LAP_BENCH_CEILINGS], lap_error *error) {
  lap_pool *pool;
  lap_status status = lap_pool_create(threads, &pool, error);
  if (status != LAP_OK) return status;
  /* What nothing is a percentage of comes first: threads that have just started on one core move apart. */
  static const lap_bench_ceiling order[LAP_BENCH_CEILINGS] = {LAP_BENCH_CEILING_F32, LAP_BENCH_CEILING_INT16,
                                                              LAP_BENCH_CEILING_READ};
  for (int i = 0; i < LAP_BENCH_CEILINGS; i++) {
    rates[order[i]] = measure(machine, order[i], pool);
    lap_bench_sample_add(&machine->ceiling[threads - 1][order[i]], rates[order[i]]);
  }
  lap_pool_destroy(pool);
  return LAP_OK;
}

lap_status lap_bench_machine_observe_reads(const lap_bench_machine *machine, int threads, int rounds,
                                           lap_bench_sample *rates, lap_error *error) {
  lap_pool *pool;
  lap_status status = lap_pool_create(threads, &pool, error);
  if (status != LAP_OK) return status;
  measure(machine, LAP_BENCH_CEILING_F32, pool); /* as above */
  for (int i = 0; i < rounds; i++)
    lap_bench_sample_add(rates, measure(machine, LAP_BENCH_CEILING_READ, pool));
  lap_pool_destroy(pool);
  return LAP_OK;
}

/* ---- before ---------------------------------------------------------------------------------- */

/* "model name" of /proc/cpuinfo, or the architecture's. */
static void name_processor(char name[96]) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(name, 96, "unknown processor");
  while (file && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    snprintf(name, 96, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    break;
  }
  if (file) fclose(file);
}

/* One line of a file of sysfs about the third cache of a processor; false if there is none. */
static bool read_cache_file(long processor, const char *name, char line[256]) {
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/cache/index3/%s", processor, name);
  FILE *file = fopen(path, "r");
  bool got = file && fgets(line, 256, file);
  if (file) fclose(file);
  return got;
}

/* Processors in a map such as "00000000,0000000f". */
static int count_processors(const char *map) {
  int count = 0;
  for (; *map; map++) {
    const char digit[] = {*map, '\0'};
    count += __builtin_popcountl(strtoul(digit, NULL, 16));
  }
  return count;
}

/* All third caches together: each processor adds its share of the one that it uses. sysconf, which asks
 * the processor, also counts those that a virtual machine has no part in. */
static size_t cache_bytes(void) {
  char line[256];
  size_t kilobytes = 0;
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  for (long i = 0; i < processors; i++) {
    if (!read_cache_file(i, "size", line)) continue;
    size_t size = strtoul(line, NULL, 10);
    int sharers = read_cache_file(i, "shared_cpu_map", line) ? count_processors(line) : 1;
    kilobytes += size / (size_t)(sharers > 0 ? sharers : 1);
  }
  return kilobytes * 1024;
}

/* But no more than an eighth of the memory, which the checkpoint needs too. */
static size_t choose_buffer_bytes(void) {
  size_t bytes = CACHES_READ * cache_bytes(), unit = (size_t)READ_PARTS * LAP_BENCH_PEAK_READ_STEP;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  size_t memory = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 8 * LEAST_READ;
  if (bytes < LEAST_READ) bytes = LEAST_READ;
  if (bytes > memory / 8) bytes = memory / 8;
  return (bytes + unit - 1) / unit * unit;
}

static void fill_operands(lap_bench_machine *machine) {
  for (int i = 0; i < LAP_BENCH_PEAK_OPERANDS * LAP_BENCH_PEAK_LENGTH; i++) {
    machine->int16[i] = (int16_t)(i % 101 - 50);
    machine->f32[i] = (float)(i % 101 - 50) * 0.01f;
  }
}

/* As many passes as take TASK_SECONDS, or twice that: found by doubling. */
static void calibrate(lap_bench_machine *machine, lap_bench_ceiling which) {
  int64_t *passes = &machine->passes[which];
  volatile uint64_t result;
  double seconds = 0;
  for (*passes = 8; seconds < TASK_SECONDS / 2; *passes *= 2) {
    double start = lap_seconds();
    result = do_work(machine, which, 0);
    seconds = lap_seconds() - start;
  }
  (void)result;
}

lap_status lap_bench_machine_open(int most_threads, lap_bench_machine *machine, lap_error *error) {
  lap_pool *pool;
  *machine = (lap_bench_machine){.cores = lap_available_cores(),
                                 .peak = lap_bench_peak_select(),
                                 .buffer_bytes = choose_buffer_bytes(),
                                 .thread_counts = most_threads};
  name_processor(machine->processor);
  size_t operands = (size_t)LAP_BENCH_PEAK_OPERANDS * LAP_BENCH_PEAK_LENGTH;
  machine->buffer = aligned_alloc(64, machine->buffer_bytes);
  machine->f32 = aligned_alloc(64, operands * sizeof *machine->f32);
  machine->int16 = aligned_alloc(64, operands * sizeof *machine->int16);
  machine->ceiling = calloc((size_t)most_threads, sizeof *machine->ceiling);
  if (!machine->buffer || !machine->f32 || !machine->int16 || !machine->ceiling)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a buffer of %zu bytes to read from",
                    machine->buffer_bytes);
  fill_operands(machine);
  calibrate(machine, LAP_BENCH_CEILING_F32);
  calibrate(machine, LAP_BENCH_CEILING_INT16);
  lap_status status = lap_pool_create(most_threads, &pool, error);
  if (status != LAP_OK) return status;
  /* By all threads, so that with several memories (NUMA) the buffer lies in all of them. */
  lap_pool_run(pool, READ_PARTS, fill_task, machine);
  lap_pool_destroy(pool);
  return LAP_OK;
}

void lap_bench_machine_close(lap_bench_machine *machine) {
  free(machine->buffer);
  free(machine->f32);
  free(machine->int16);
  free(machine->ceiling);
}
