/* bench_measure.c: rates of prompt and decode, round by round.
 *
 * To be measured at depth d, a session has to hold d tokens. They are evaluated once for each KV setting,
 * by all threads, and kept as a snapshot in a temporary file: every thread count and path starts from it,
 * and the next depth goes on from it. Back to depth d after a measurement the session is trimmed. Where
 * that is refused, because the measurement was longer than a sliding layer's ring has room for (--prompt
 * above the chunk), the snapshot is restored instead; both leave the same bits, and neither is timed.
 *
 * Each sample is preceded by one of the ceilings: on a machine whose speed drifts, a percentage compares
 * what stood a moment apart, not the beginning of the run with its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/opened.h"
#include "cli/support.h"

typedef struct bench {
  const lap_bench_request *request;
  lap_bench_results *results;
  lap_kv_mode kv; /* of the model and the plan below */
  lap_model *model;
  lap_tensors *tensors;
  lap_plan *plan;
  int32_t *ids; /* by position */
  float *logits;
  char snapshot[4096]; /* the sequence of `held` tokens; empty name: none */
  int64_t held;
  uint64_t files_before; /* resident pages of files before the model was opened */
  int64_t done, total;   /* tokens, for the progress line */
  lap_error *error;
} bench;

typedef struct runner {
  lap_session *session;
  int64_t depth;
  size_t kv_bytes; /* the most that it held after a sample; a snapshot that is restored may take less again */
} runner;

lap_ceiling lap_bench_ceiling_of(lap_bench_kind kind) {
  return kind == LAP_BENCH_PROMPT ? LAP_CEILING_INT16 : LAP_CEILING_READ;
}

double lap_bench_work_of_token(const lap_bench_rate *rate, lap_bench_kind kind) {
  return (kind == LAP_BENCH_PROMPT ? rate->cost.operations : rate->cost.bytes) / (double)rate->tokens;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* ---- progress and memory --------------------------------------------------------------------- */

static lap_status advance(bench *b, int64_t tokens) {
  static char label[] = "bench";
  b->done += tokens;
  if (lap_show_progress(label, b->done, b->total)) return LAP_OK;
  return lap_fail(b->error, LAP_ERROR_STATE, "interrupted");
}

/* Between the chunks of a sample. */
static bool note_progress(void *context, int64_t done, int64_t total) {
  const bench *b = context;
  static char label[] = "bench";
  (void)total;
  return lap_show_progress(label, b->done + done, b->total);
}

/* Pages of mapped files that this process has touched and that are in memory; 0 if unknown. */
static uint64_t resident_file_bytes(void) {
  char line[256];
  unsigned long long kilobytes = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, "RssFile:", 8) == 0) kilobytes = strtoull(line + 8, NULL, 10);
  if (file) fclose(file);
  return kilobytes * 1024;
}

/* A system that does not tell has touched all that the plan uses, at most. */
static lap_bench_memory memory_of(const bench *b, const runner *r) {
  lap_stats stats = lap_session_stats(r->session);
  uint64_t now = resident_file_bytes();
  return (lap_bench_memory){
      .weights = now > b->files_before ? now - b->files_before : lap_plan_measure(b->plan).weights,
      .kv = r->kv_bytes,
      .scratch = stats.scratch_bytes,
  };
}

/* ---- sessions -------------------------------------------------------------------------------- */

static lap_status start_runner(bench *b, int threads, lap_path path, int64_t depth, runner *r) {
  const lap_session_options options = {.threads = threads, .chunk = LAP_BENCH_CHUNK, .path = path};
  *r = (runner){.depth = depth};
  lap_status status = lap_session_create(b->model, &options, &r->session, b->error);
  if (status != LAP_OK) return status;
  lap_session_set_progress(r->session, note_progress, b);
  return b->held ? lap_session_restore(r->session, b->snapshot, b->error) : LAP_OK;
}

static lap_status go_back(bench *b, const runner *r) {
  if (lap_session_trim(r->session, r->depth, NULL) == LAP_OK) return LAP_OK;
  return lap_session_restore(r->session, b->snapshot, b->error);
}

static lap_status name_snapshot(bench *b) {
  const char *directory = getenv("TMPDIR");
  int length = snprintf(b->snapshot, sizeof b->snapshot, "%s/lapidary-bench-XXXXXX",
                        directory && *directory ? directory : "/tmp");
  int file = length < (int)sizeof b->snapshot ? mkstemp(b->snapshot) : -1;
  if (file >= 0) {
    close(file);
    return LAP_OK;
  }
  lap_status status = lap_fail(b->error, LAP_ERROR_IO, "%s: %s", b->snapshot, strerror(errno));
  b->snapshot[0] = '\0';
  return status;
}

/* Leaves a sequence of `depth` tokens in the snapshot. An empty one is kept as well: to go back to. */
static lap_status reach_depth(bench *b, int64_t depth) {
  const lap_bench_list *threads = &b->request->threads;
  runner r;
  lap_status status = start_runner(b, (int)threads->item[threads->count - 1], b->request->path[0], depth, &r);
  if (status == LAP_OK && depth > b->held) {
    status = lap_session_eval(r.session, b->ids + b->held, depth - b->held, 0, NULL, b->error);
    if (status == LAP_OK) status = advance(b, depth - b->held);
  }
  if (status == LAP_OK) status = lap_session_save(r.session, b->snapshot, b->error);
  b->held = depth;
  lap_session_destroy(r.session);
  return status;
}

/* ---- samples --------------------------------------------------------------------------------- */

static lap_status eval_prompt(bench *b, const runner *r, int64_t tokens) {
  return lap_session_eval(r->session, b->ids + r->depth, tokens, 1, b->logits, b->error);
}

static lap_status eval_one_by_one(bench *b, const runner *r, int64_t tokens) {
  lap_status status = LAP_OK;
  for (int64_t i = 0; i < tokens && status == LAP_OK && !lap_interrupted(); i++)
    status = lap_session_eval(r->session, b->ids + r->depth + i, 1, 1, b->logits, b->error);
  return status;
}

/* One token, not timed: threads wake up, and weights that the caches can hold are there again, as between
 * the tokens of a longer text. */
static lap_status settle(bench *b, const runner *r) {
  lap_status status = eval_one_by_one(b, r, 1);
  return status == LAP_OK ? go_back(b, r) : status;
}

/* Tokens a second; the session is at its depth before and after. */
static lap_status sample_rate(bench *b, runner *r, lap_bench_kind kind, int64_t tokens, double *rate) {
  lap_status status = settle(b, r);
  if (status != LAP_OK) return status;
  double start = lap_seconds();
  status = kind == LAP_BENCH_PROMPT ? eval_prompt(b, r, tokens) : eval_one_by_one(b, r, tokens);
  *rate = (double)tokens / (lap_seconds() - start);
  size_t held = lap_session_stats(r->session).kv_bytes;
  if (held > r->kv_bytes) r->kv_bytes = held;
  if (status == LAP_OK) status = go_back(b, r);
  return status == LAP_OK ? advance(b, tokens) : status;
}

/* Round 0 is not counted: it reads the weights from the disk and makes the buffers. */
static lap_status sample_kind(bench *b, const lap_bench_cell *cell, runner *r, lap_bench_kind kind, int round,
                              lap_bench_rate *rate) {
  double ceilings[LAP_CEILINGS], per_second;
  lap_status status = lap_machine_observe(&b->results->machine, cell->threads, ceilings, b->error);
  if (status == LAP_OK) status = sample_rate(b, r, kind, rate->tokens, &per_second);
  if (status != LAP_OK || round == 0) return status;
  lap_sample_add(&rate->per_second, per_second);
  lap_sample_add(&rate->percent, 100 * per_second * lap_bench_work_of_token(rate, kind) /
                                     ceilings[lap_bench_ceiling_of(kind)]);
  return LAP_OK;
}

static lap_status sample_path(bench *b, lap_bench_cell *cell, int path, runner *r, int round) {
  lap_status status = LAP_OK;
  for (int kind = 0; kind < LAP_BENCH_KINDS && status == LAP_OK; kind++)
    if (cell->rate[path][kind].tokens)
      status = sample_kind(b, cell, r, (lap_bench_kind)kind, round, &cell->rate[path][kind]);
  return status;
}

/* The paths take turns, and turns at going first. */
static lap_status sample_round(bench *b, lap_bench_cell *cell, runner *runners, int round) {
  lap_status status = LAP_OK;
  for (int i = 0; i < b->request->paths && status == LAP_OK; i++) {
    int path = (i + round) % b->request->paths;
    status = sample_path(b, cell, path, &runners[path], round);
  }
  return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static void prepare_cell(const bench *b, lap_bench_cell *cell, int64_t depth, int threads) {
  const lap_bench_request *request = b->request;
  const lap_cost prompt = lap_prompt_cost(b->plan, depth, request->prompt, LAP_BENCH_CHUNK);
  const lap_cost decode = lap_decode_cost(b->plan, depth, request->decode);
  *cell = (lap_bench_cell){.kv = b->kv, .depth = depth, .threads = threads};
  for (int path = 0; path < request->paths; path++) {
    cell->rate[path][LAP_BENCH_PROMPT] = (lap_bench_rate){.tokens = request->prompt, .cost = prompt};
    cell->rate[path][LAP_BENCH_DECODE] = (lap_bench_rate){.tokens = request->decode, .cost = decode};
  }
}

static void finish_cell(const bench *b, lap_bench_cell *cell, const runner *runners) {
  for (int path = 0; path < b->request->paths; path++) {
    lap_stats stats = lap_session_stats(runners[path].session);
    cell->memory[path] = memory_of(b, &runners[path]);
    cell->cut[path] = stats.passes_cut > 0;
    snprintf(b->results->model.isa, sizeof b->results->model.isa, "%s", stats.isa);
  }
  if (b->request->paths < 2) return;
  for (int kind = 0; kind < LAP_BENCH_KINDS; kind++)
    for (int round = 0; round < cell->rate[0][kind].per_second.count; round++)
      lap_sample_add(&cell->ratio[kind], cell->rate[1][kind].per_second.value[round] /
                                             cell->rate[0][kind].per_second.value[round]);
}

static lap_status measure_cell(bench *b, int64_t depth, int threads) {
  lap_bench_cell *cell = &b->results->cell[b->results->cells];
  runner runners[LAP_BENCH_PATHS] = {0};
  lap_status status = LAP_OK;
  prepare_cell(b, cell, depth, threads);
  for (int path = 0; path < b->request->paths && status == LAP_OK; path++)
    status = start_runner(b, threads, b->request->path[path], depth, &runners[path]);
  for (int round = 0; round <= b->request->rounds && status == LAP_OK; round++)
    status = sample_round(b, cell, runners, round);
  if (status == LAP_OK) {
    finish_cell(b, cell, runners);
    b->results->cells++;
  }
  for (int path = 0; path < LAP_BENCH_PATHS; path++) lap_session_destroy(runners[path].session);
  return status;
}

static lap_status measure_depths(bench *b) {
  const lap_bench_request *request = b->request;
  lap_status status = LAP_OK;
  b->held = 0;
  for (int i = 0; i < request->depth.count && status == LAP_OK; i++) {
    if (request->depth.item[i] + greater(request->prompt, request->decode) > lap_model_context(b->model))
      break;
    status = reach_depth(b, request->depth.item[i]);
    for (int j = 0; j < request->threads.count && status == LAP_OK; j++)
      status = measure_cell(b, request->depth.item[i], (int)request->threads.item[j]);
  }
  return status;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void close_model(bench *b) {
  lap_model_close(b->model);
  lap_plan_free(b->plan);
  lap_tensors_close(b->tensors);
  b->model = NULL;
  b->plan = NULL;
  b->tensors = NULL;
}

static lap_status open_model(bench *b, lap_kv_mode kv) {
  const char *directory = b->request->directory;
  b->kv = kv;
  lap_status status = lap_tensors_open(directory, &b->tensors, b->error);
  if (status == LAP_OK) status = lap_plan_build(directory, b->tensors, kv, &b->plan, b->error);
  const lap_model_options how = lap_model_options_of(kv);
  b->files_before = resident_file_bytes();
  if (status == LAP_OK) status = lap_model_open(directory, &how, &b->model, b->error);
  return status;
}

/* The same ids in every run: drawn by a 64-bit congruential generator from a fixed seed. */
static lap_status draw_ids(bench *b, int64_t count) {
  uint64_t state = 20260401;
  int32_t vocab = lap_model_vocab_size(b->model);
  b->ids = malloc((size_t)count * sizeof *b->ids);
  b->logits = malloc((size_t)vocab * sizeof *b->logits);
  if (!b->ids || !b->logits)
    return lap_fail(b->error, LAP_ERROR_MEMORY, "out of memory for %lld token ids", (long long)count);
  for (int64_t i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b->ids[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
  }
  return LAP_OK;
}

/* Depths that fit into the context are kept; says which others were asked for. */
static lap_status plan_run(bench *b, int64_t *deepest) {
  const lap_bench_request *request = b->request;
  int64_t length = greater(request->prompt, request->decode), context = lap_model_context(b->model);
  int fitting = 0;
  while (fitting < request->depth.count && request->depth.item[fitting] + length <= context) fitting++;
  for (int i = fitting; i < request->depth.count; i++) {
    lap_complain("depth %lld: skipped, with %lld tokens it exceeds the model's context of %lld",
                 (long long)request->depth.item[i], (long long)length, (long long)context);
    b->results->skipped.item[b->results->skipped.count++] = request->depth.item[i];
  }
  if (!fitting)
    return lap_fail(b->error, LAP_ERROR_ARGUMENT, "--depth: no depth fits into the model's context of %lld",
                    (long long)context);
  *deepest = request->depth.item[fitting - 1];
  int64_t settings = (int64_t)fitting * request->threads.count;
  b->total = request->kv.count * (*deepest + settings * request->paths * (request->rounds + 1) *
                                                 (request->prompt + request->decode));
  b->results->cell = calloc((size_t)(request->kv.count * settings), sizeof *b->results->cell);
  return b->results->cell ? LAP_OK : lap_fail(b->error, LAP_ERROR_MEMORY, "out of memory for the results");
}

/* A path that the checkpoint does not have is to be refused now, not after the first depth. */
static lap_status try_paths(bench *b) {
  lap_status status = LAP_OK;
  for (int path = 0; path < b->request->paths && status == LAP_OK; path++) {
    runner r;
    status = start_runner(b, 1, b->request->path[path], 0, &r);
    lap_session_destroy(r.session);
  }
  return status;
}

static lap_status begin(bench *b) {
  lap_bench_model *model = &b->results->model;
  int64_t deepest = 0;
  lap_status status = plan_run(b, &deepest);
  if (status == LAP_OK) status = try_paths(b);
  if (status == LAP_OK) status = name_snapshot(b);
  if (status == LAP_OK) status = draw_ids(b, deepest + greater(b->request->prompt, b->request->decode));
  if (status != LAP_OK) return status;
  memcpy(model->type, b->plan->model_type, sizeof model->type);
  model->layers = b->plan->layers;
  model->context = b->plan->max_position_embeddings;
  model->sizes = lap_plan_measure(b->plan);
  const lap_bench_list *threads = &b->request->threads;
  status = lap_machine_open((int)threads->item[threads->count - 1], &b->results->machine, b->error);
  if (status == LAP_OK) status = lap_machine_survey(&b->results->machine, b->request->rounds, b->error);
  return status;
}

lap_status lap_bench_measure(const lap_bench_request *request, lap_bench_results *results, lap_error *error) {
  bench b = {.request = request, .results = results, .error = error};
  *results = (lap_bench_results){.request = request};
  lap_status status = LAP_OK;
  for (int i = 0; i < request->kv.count && status == LAP_OK; i++) {
    status = open_model(&b, (lap_kv_mode)request->kv.item[i]);
    if (status == LAP_OK && i == 0) status = begin(&b);
    if (status == LAP_OK) status = measure_depths(&b);
    close_model(&b);
  }
  lap_hide_progress();
  if (b.snapshot[0]) unlink(b.snapshot);
  free(b.ids);
  free(b.logits);
  if (status == LAP_OK && request->paths == 2)
    status = lap_bench_start_processes(request, &results->startup, error);
  return status;
}

void lap_bench_free(lap_bench_results *results) {
  lap_machine_close(&results->machine);
  free(results->cell);
}
