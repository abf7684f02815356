/* runner.c: a team of threads and an arena that passes run on; which of the two codes computes a pass.
 *
 * Invariant: between lap_cpu_reserve for some work and lap_cpu_run of it nothing changes, so that the arena
 * is as large as the code asks for. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "cpu/cpu.h"
#include "cpu/monolith.h"
#include "kernels/matmul_woven.h"

typedef struct cpu_runner {
  lap_runner runner;
  lap_pool *pool;
  lap_attention_method attention;
  void *scratch; /* the caches of the pass, then its arena */
  size_t bytes;
} cpu_runner;

static const cpu_runner *inside(const lap_runner *runner) {
  return (const cpu_runner *)runner;
}

/* ---- runners ---- */

static lap_status read_method(const char *name, lap_attention_method *out, lap_error *error) {
  *out = LAP_ATTENTION_AUTO;
  if (!name) return LAP_OK;
  if (strcmp(name, "tiled") == 0)
    *out = LAP_ATTENTION_TILED;
  else if (strcmp(name, "plain") == 0)
    *out = LAP_ATTENTION_PLAIN;
  else
    return lap_fail(error, LAP_ERROR_ARGUMENT, "attention: '%s' is not one of tiled, plain", name);
  return LAP_OK;
}

lap_status lap_cpu_open_runner(lap_bound *bound, const lap_runner_options *options, lap_runner **out,
                               lap_error *error) {
  *out = NULL;
  cpu_runner *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a runner");
  cpu->runner.bound = bound;
  int threads = options->threads ? options->threads : lap_available_cores();
  lap_status status = read_method(options->attention, &cpu->attention, error);
  if (status == LAP_OK) status = lap_pool_create(threads, &cpu->pool, error);
  if (status == LAP_OK)
    *out = &cpu->runner;
  else
    free(cpu);
  return status;
}

void lap_cpu_close_runner(lap_runner *runner) {
  if (!runner) return;
  lap_pool_destroy(inside(runner)->pool);
  free(inside(runner)->scratch);
  free(runner);
}

int lap_cpu_threads(const lap_runner *runner) {
  return lap_pool_threads(inside(runner)->pool);
}

size_t lap_cpu_scratch_held(const lap_runner *runner) {
  return inside(runner)->bytes;
}

/* ---- which code ---- */

/* The guard: the live caches are those that the code was cut for. */
static bool fits(const lap_cut *cut, const lap_work *work, int caches) {
  if (caches != cut->caches) return false;
  for (int i = 0; i < work->segments * caches; i++) {
    const lap_cache_shape *live = &work->cache[i].shape;
    const lap_cut_cache *shape = &cut->cache[i % caches];
    if (live->kv_heads != shape->kv_heads || live->head_dim != shape->head_dim ||
        live->window != shape->window || live->bits != shape->bits || live->group_size != shape->group_size)
      return false;
  }
  return true;
}

static const lap_cut *choose_cut(const lap_bound *bound, const lap_work *work) {
  const lap_cut *cut = lap_cpu_of(bound)->cut.code;
  return work->path != LAP_PATH_MONOLITH && cut && fits(cut, work, bound->plan->caches) ? cut : NULL;
}

static const lap_forward_code *code_of(const lap_bound *bound, const lap_cut *cut) {
  return cut ? &cut->code : lap_cpu_of(bound)->monolith;
}

/* ---- passes ---- */

enum {
  ALIGNMENT = 64,
  HUGE_PAGE = 2 << 20
};

static size_t rounded(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Rows that buffers of a pass of `rows` have room for. */
static int capacity_for(int rows) {
  return rows < LAP_WEAVE ? rows : (rows + LAP_WEAVE - 1) / LAP_WEAVE * LAP_WEAVE;
}

/* The question; memory and the pool are to follow. */
static lap_pass pass_of(const lap_plan *plan, const lap_work *work, int threads) {
  return (lap_pass){.rows = work->rows,
                    .capacity = capacity_for(work->rows),
                    .row = work->row,
                    .segments = work->segments,
                    .caches = plan->caches,
                    .team.threads = threads,
                    .see = work->probe ? work->probe->see : NULL,
                    .see_context = work->probe ? work->probe->context : NULL,
                    .plan = plan,
                    .bad_row = -1};
}

static size_t cache_bytes(const lap_plan *plan, const lap_work *work) {
  return rounded((size_t)work->segments * (size_t)plan->caches * sizeof(lap_pass_cache));
}

static size_t scratch_bytes(const lap_bound *bound, int threads, lap_attention_method attention,
                            const lap_work *work) {
  lap_pass pass = pass_of(bound->plan, work, threads);
  pass.attention = attention;
  return cache_bytes(bound->plan, work) +
         rounded(code_of(bound, choose_cut(bound, work))->arena_bytes(&pass));
}

size_t lap_cpu_scratch_for(const lap_bound *bound, int threads, const lap_work *work) {
  return scratch_bytes(bound, threads, LAP_ATTENTION_AUTO, work);
}

/* A pass walks through its arena many times: huge pages, where the system lends them, spare it page walks. */
static void advise_huge_pages(void *data, size_t bytes) {
  uintptr_t begin = ((uintptr_t)data + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  uintptr_t end = ((uintptr_t)data + bytes) / HUGE_PAGE * HUGE_PAGE;
  if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

/* Content is lost when scratch grows, so the old memory goes first. */
lap_status lap_cpu_reserve(lap_runner *runner, const lap_work *work, lap_error *error) {
  cpu_runner *cpu = (cpu_runner *)runner;
  size_t bytes = scratch_bytes(runner->bound, lap_cpu_threads(runner), cpu->attention, work);
  if (bytes <= cpu->bytes) return LAP_OK;
  free(cpu->scratch);
  cpu->bytes = 0;
  cpu->scratch = aligned_alloc(ALIGNMENT, bytes);
  if (!cpu->scratch)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory: the activations need %zu bytes", bytes);
  cpu->bytes = bytes;
  advise_huge_pages(cpu->scratch, bytes);
  return LAP_OK;
}

static const lap_pass_cache *list_caches(const lap_plan *plan, const lap_work *work, lap_pass_cache *out) {
  for (int i = 0; i < work->segments * plan->caches; i++) {
    const lap_cache_place *place = &work->cache[i];
    out[i] = (lap_pass_cache){lap_cpu_planes(place), place->shape.bits, place->shape.group_size};
  }
  return out;
}

lap_status lap_cpu_run(lap_runner *runner, const lap_work *work, lap_outcome *outcome, lap_error *error) {
  (void)error;
  const cpu_runner *cpu = inside(runner);
  lap_cpu_bound *bound = lap_cpu_of(runner->bound);
  const lap_plan *plan = runner->bound->plan;
  const lap_cut *cut = choose_cut(runner->bound, work);
  lap_pass pass = pass_of(plan, work, lap_cpu_threads(runner));
  pass.attention = cpu->attention;
  pass.team = (lap_team){lap_cpu_threads(runner), cpu->pool, lap_pool_run};
  pass.memory = (lap_pass_memory){.weights = bound->weights,
                                  .rope_frequency = {bound->rope_frequency[0], bound->rope_frequency[1]},
                                  .kv = list_caches(plan, work, cpu->scratch),
                                  .arena = (unsigned char *)cpu->scratch + cache_bytes(plan, work)};
  lap_warming_stop(&bound->warming);
  code_of(runner->bound, cut)->forward(&pass);
  outcome->served = cut ? LAP_PATH_CUT : LAP_PATH_MONOLITH;
  outcome->bad_position = pass.bad_row < 0 ? -1 : pass.row[pass.bad_row].position;
  return LAP_OK;
}
