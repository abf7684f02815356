/* measure.c: rates of prompt and decode, round by round.
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
#include "bench/bench.h"
#include "engine/passes.h"

/* A checkpoint with one KV setting. Paths are compared over one of them, KV settings need one each. */
typedef struct subject {
  lap_kv_mode kv;
  lap_model *model;
  lap_tensors *tensors;
  lap_plan *plan;
  char snapshot[4096]; /* the sequence of `held` tokens; empty name: none */
  int64_t held;
} subject;

typedef struct bench {
  const lap_bench_request *request;
  lap_bench_results *results;
  int group; /* that is open */
  subject subject[LAP_BENCH_SIDES];
  int32_t *ids; /* by position */
  float *logits;
  uint64_t files_before; /* resident pages of files before the models were opened */
  int64_t done, total;   /* tokens, for the progress */
  lap_error *error;
} bench;

/* One side at work. */
typedef struct runner {
  const subject *subject;
  lap_session *session;
  int64_t depth;
  size_t kv_bytes; /* the most that it held after a sample; a snapshot that is restored may take less again */
} runner;

lap_bench_ceiling lap_bench_ceiling_of(lap_bench_kind kind) {
  return kind == LAP_BENCH_PROMPT ? LAP_BENCH_CEILING_INT16 : LAP_BENCH_CEILING_READ;
}

double lap_bench_work_of_token(const lap_bench_rate *rate, lap_bench_kind kind) {
  return (kind == LAP_BENCH_PROMPT ? rate->cost.operations : rate->cost.bytes) / (double)rate->tokens;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int most_threads(const lap_bench_request *request) {
  return (int)request->threads.item[request->threads.count - 1];
}

static int count_subjects(const lap_bench_request *request) {
  return request->compared == LAP_BENCH_KV ? request->sides : 1;
}

static subject *subject_of(bench *b, int side) {
  return &b->subject[b->request->compared == LAP_BENCH_KV ? side : 0];
}

/* ---- progress and memory --------------------------------------------------------------------- */

static lap_status fail_interrupted(bench *b) {
  return lap_fail(b->error, LAP_ERROR_STATE, "interrupted");
}

static lap_status advance(bench *b, int64_t tokens) {
  const lap_bench_watcher *watcher = &b->request->watcher;
  b->done += tokens;
  return watcher->progress(watcher->context, b->done, b->total) ? LAP_OK : fail_interrupted(b);
}

/* Between the chunks of a sample. */
static bool note_progress(void *context, int64_t done, int64_t total) {
  const bench *b = context;
  const lap_bench_watcher *watcher = &b->request->watcher;
  (void)total;
  return watcher->progress(watcher->context, b->done + done, b->total);
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

/* Models that are open together have touched the same pages, and each counts them. A system that does not
 * tell has touched all that the plan uses, at most. */
static lap_bench_memory memory_of(const bench *b, const runner *r) {
  lap_stats stats = lap_session_stats(r->session);
  uint64_t now = resident_file_bytes(), models = (uint64_t)count_subjects(b->request);
  return (lap_bench_memory){
      .weights = now > b->files_before ? (now - b->files_before) / models
                                       : lap_plan_measure(r->subject->plan).weights,
      .kv = r->kv_bytes,
      .scratch = stats.scratch_bytes,
  };
}

/* ---- sessions -------------------------------------------------------------------------------- */

static lap_status start_runner(bench *b, const subject *from, int threads, lap_path path, int64_t depth,
                               runner *r) {
  const lap_session_options options = {
      .threads = threads, .chunk = LAP_DEFAULT_CHUNK, .path = path, .attention = b->request->attention};
  *r = (runner){.subject = from, .depth = depth};
  lap_status status = lap_session_create(from->model, &options, &r->session, b->error);
  if (status != LAP_OK) return status;
  lap_session_set_progress(r->session, note_progress, b);
  return from->held ? lap_session_restore(r->session, from->snapshot, b->error) : LAP_OK;
}

static lap_status go_back(bench *b, const runner *r) {
  if (lap_session_trim(r->session, r->depth, NULL) == LAP_OK) return LAP_OK;
  return lap_session_restore(r->session, r->subject->snapshot, b->error);
}

static lap_status name_snapshot(subject *of, lap_error *error) {
  const char *directory = getenv("TMPDIR");
  int length = snprintf(of->snapshot, sizeof of->snapshot, "%s/lapidary-bench-XXXXXX",
                        directory && *directory ? directory : "/tmp");
  int file = length < (int)sizeof of->snapshot ? mkstemp(of->snapshot) : -1;
  if (file >= 0) {
    close(file);
    return LAP_OK;
  }
  lap_status status = lap_fail(error, LAP_ERROR_IO, "%s: %s", of->snapshot, strerror(errno));
  of->snapshot[0] = '\0';
  return status;
}

/* Leaves a sequence of `depth` tokens in the snapshot. An empty one is kept as well: to go back to. */
static lap_status reach_depth(bench *b, subject *of, int64_t depth) {
  runner r;
  lap_path path = b->request->side[b->group][0].path;
  lap_status status = start_runner(b, of, most_threads(b->request), path, depth, &r);
  if (status == LAP_OK && depth > of->held) {
    status = lap_session_eval(r.session, b->ids + of->held, depth - of->held, 0, NULL, b->error);
    if (status == LAP_OK) status = advance(b, depth - of->held);
  }
  if (status == LAP_OK) status = lap_session_save(r.session, of->snapshot, b->error);
  of->held = depth;
  lap_session_destroy(r.session);
  return status;
}

/* ---- samples --------------------------------------------------------------------------------- */

static lap_status eval_prompt(bench *b, const runner *r, int64_t tokens) {
  return lap_session_eval(r->session, b->ids + r->depth, tokens, 1, b->logits, b->error);
}

static lap_status eval_one_by_one(bench *b, const runner *r, int64_t tokens) {
  lap_status status = LAP_OK;
  for (int64_t i = 0; i < tokens && status == LAP_OK && !b->request->watcher.interrupted(); i++)
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
  double ceilings[LAP_BENCH_CEILINGS], per_second;
  lap_status status = lap_bench_machine_observe(&b->results->machine, cell->threads, ceilings, b->error);
  if (status == LAP_OK) status = sample_rate(b, r, kind, rate->tokens, &per_second);
  if (status != LAP_OK || round == 0) return status;
  lap_bench_sample_add(&rate->per_second, per_second);
  lap_bench_sample_add(&rate->percent, 100 * per_second * lap_bench_work_of_token(rate, kind) /
                                           ceilings[lap_bench_ceiling_of(kind)]);
  return LAP_OK;
}

static lap_status sample_side(bench *b, lap_bench_cell *cell, int side, runner *r, int round) {
  lap_status status = LAP_OK;
  for (int kind = 0; kind < LAP_BENCH_KINDS && status == LAP_OK; kind++)
    if (cell->rate[side][kind].tokens)
      status = sample_kind(b, cell, r, (lap_bench_kind)kind, round, &cell->rate[side][kind]);
  return status;
}

/* The sides take turns, and turns at going first. */
static lap_status sample_round(bench *b, lap_bench_cell *cell, runner *runners, int round) {
  lap_status status = LAP_OK;
  for (int i = 0; i < b->request->sides && status == LAP_OK; i++) {
    int side = (i + round) % b->request->sides;
    status = sample_side(b, cell, side, &runners[side], round);
  }
  return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static void prepare_cell(bench *b, lap_bench_cell *cell, int64_t depth, int threads) {
  const lap_bench_request *request = b->request;
  *cell = (lap_bench_cell){.group = b->group, .depth = depth, .threads = threads};
  for (int side = 0; side < request->sides; side++) {
    const lap_plan *plan = subject_of(b, side)->plan;
    cell->rate[side][LAP_BENCH_PROMPT] = (lap_bench_rate){
        .tokens = request->prompt,
        .cost = lap_bench_prompt_cost(plan, depth, request->prompt, LAP_DEFAULT_CHUNK),
    };
    cell->rate[side][LAP_BENCH_DECODE] = (lap_bench_rate){
        .tokens = request->decode,
        .cost = lap_bench_decode_cost(plan, depth, request->decode),
    };
  }
}

static void add_ratios(lap_bench_cell *cell, int side, lap_bench_kind kind) {
  const lap_bench_sample *first = &cell->rate[0][kind].per_second;
  for (int round = 0; round < first->count; round++)
    lap_bench_sample_add(&cell->ratio[side][kind],
                         cell->rate[side][kind].per_second.value[round] / first->value[round]);
}

static void finish_cell(const bench *b, lap_bench_cell *cell, const runner *runners) {
  for (int side = 0; side < b->request->sides; side++) {
    lap_stats stats = lap_session_stats(runners[side].session);
    cell->memory[side] = memory_of(b, &runners[side]);
    cell->cut[side] = stats.passes_cut > 0;
    snprintf(b->results->model.isa, sizeof b->results->model.isa, "%s", stats.isa);
    for (int kind = 0; kind < LAP_BENCH_KINDS && side > 0; kind++)
      add_ratios(cell, side, (lap_bench_kind)kind);
  }
}

static lap_status measure_cell(bench *b, int64_t depth, int threads) {
  lap_bench_cell *cell = &b->results->cell[b->results->cells];
  runner runners[LAP_BENCH_SIDES] = {0};
  lap_status status = LAP_OK;
  prepare_cell(b, cell, depth, threads);
  for (int side = 0; side < b->request->sides && status == LAP_OK; side++)
    status = start_runner(b, subject_of(b, side), threads, b->request->side[b->group][side].path, depth,
                          &runners[side]);
  for (int round = 0; round <= b->request->rounds && status == LAP_OK; round++)
    status = sample_round(b, cell, runners, round);
  if (status == LAP_OK) {
    finish_cell(b, cell, runners);
    b->results->cells++;
  }
  for (int side = 0; side < LAP_BENCH_SIDES; side++) lap_session_destroy(runners[side].session);
  return status;
}

static int64_t context_of(const bench *b) {
  return lap_model_context(b->subject[0].model);
}

static lap_status measure_depths(bench *b) {
  const lap_bench_request *request = b->request;
  lap_status status = LAP_OK;
  for (int i = 0; i < request->depth.count && status == LAP_OK; i++) {
    if (request->depth.item[i] + greater(request->prompt, request->decode) > context_of(b)) break;
    for (int j = 0; j < count_subjects(request) && status == LAP_OK; j++)
      status = reach_depth(b, &b->subject[j], request->depth.item[i]);
    for (int j = 0; j < request->threads.count && status == LAP_OK; j++)
      status = measure_cell(b, request->depth.item[i], (int)request->threads.item[j]);
  }
  return status;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void close_group(bench *b) {
  for (int i = 0; i < count_subjects(b->request); i++) {
    subject *s = &b->subject[i];
    lap_model_close(s->model);
    lap_plan_free(s->plan);
    lap_tensors_close(s->tensors);
    s->model = NULL;
    s->plan = NULL;
    s->tensors = NULL;
    s->held = 0;
  }
}

static lap_status open_group(bench *b, int group) {
  const char *directory = b->request->directory;
  lap_status status = LAP_OK;
  b->group = group;
  for (int i = 0; i < count_subjects(b->request) && status == LAP_OK; i++) {
    subject *s = &b->subject[i];
    s->kv = b->request->side[group][i].kv;
    status = lap_tensors_open(directory, &s->tensors, b->error);
    if (status == LAP_OK) status = lap_plan_build(directory, s->tensors, s->kv, &s->plan, b->error);
  }
  b->files_before = resident_file_bytes();
  for (int i = 0; i < count_subjects(b->request) && status == LAP_OK; i++)
    status = lap_model_open(directory, &(lap_model_options){.kv = b->subject[i].kv, .isa = b->request->isa},
                            &b->subject[i].model, b->error);
  return status;
}

/* The same ids in every run: drawn by a 64-bit congruential generator from a fixed seed. */
static lap_status draw_ids(bench *b, int64_t count) {
  uint64_t state = 20260401;
  int32_t vocab = lap_model_vocab_size(b->subject[0].model);
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
  int64_t length = greater(request->prompt, request->decode), context = context_of(b);
  char message[160];
  int fitting = 0;
  while (fitting < request->depth.count && request->depth.item[fitting] + length <= context) fitting++;
  for (int i = fitting; i < request->depth.count; i++) {
    snprintf(message, sizeof message,
             "depth %lld: skipped, with %lld tokens it exceeds the model's context of %lld",
             (long long)request->depth.item[i], (long long)length, (long long)context);
    request->watcher.note(message);
    b->results->skipped.item[b->results->skipped.count++] = request->depth.item[i];
  }
  if (!fitting)
    return lap_fail(b->error, LAP_ERROR_ARGUMENT, "--depth: no depth fits into the model's context of %lld",
                    (long long)context);
  *deepest = request->depth.item[fitting - 1];
  int64_t cells = (int64_t)fitting * request->threads.count;
  int64_t of_cell = request->sides * (request->rounds + 1) * (request->prompt + request->decode);
  b->total = request->groups * (count_subjects(request) * *deepest + cells * of_cell);
  b->results->cell = calloc((size_t)(request->groups * cells), sizeof *b->results->cell);
  return b->results->cell ? LAP_OK : lap_fail(b->error, LAP_ERROR_MEMORY, "out of memory for the results");
}

/* A path that the checkpoint does not have is to be refused now, not after the first depth. */
static lap_status try_paths(bench *b) {
  lap_status status = LAP_OK;
  for (int side = 0; side < b->request->sides && status == LAP_OK; side++) {
    runner r;
    status = start_runner(b, subject_of(b, side), 1, b->request->side[b->group][side].path, 0, &r);
    lap_session_destroy(r.session);
  }
  return status;
}

/* The first look at the ceilings: each number of threads, in turns. */
static lap_status survey_machine(bench *b) {
  lap_bench_machine *machine = &b->results->machine;
  double rates[LAP_BENCH_CEILINGS];
  for (int round = 0; round < b->request->rounds; round++)
    for (int threads = 1; threads <= machine->thread_counts; threads++) {
      lap_status status = lap_bench_machine_observe(machine, threads, rates, b->error);
      if (status != LAP_OK) return status;
      if (b->request->watcher.interrupted()) return fail_interrupted(b);
    }
  return LAP_OK;
}

static void describe_model(lap_bench_model *model, const lap_plan *plan) {
  memcpy(model->type, plan->model_type, sizeof model->type);
  model->layers = plan->layers;
  model->context = plan->max_position_embeddings;
  model->sizes = lap_plan_measure(plan);
}

static lap_status begin(bench *b) {
  int64_t deepest = 0;
  lap_status status = plan_run(b, &deepest);
  if (status == LAP_OK) status = try_paths(b);
  for (int i = 0; i < count_subjects(b->request) && status == LAP_OK; i++)
    status = name_snapshot(&b->subject[i], b->error);
  if (status == LAP_OK) status = draw_ids(b, deepest + greater(b->request->prompt, b->request->decode));
  if (status != LAP_OK) return status;
  describe_model(&b->results->model, b->subject[0].plan);
  status = lap_bench_machine_open(most_threads(b->request), &b->results->machine, b->error);
  return status == LAP_OK ? survey_machine(b) : status;
}

lap_status lap_bench_measure(const lap_bench_request *request, lap_bench_results *results, lap_error *error) {
  bench b = {.request = request, .results = results, .error = error};
  *results = (lap_bench_results){.request = request};
  lap_status status = LAP_OK;
  for (int group = 0; group < request->groups && status == LAP_OK; group++) {
    status = open_group(&b, group);
    if (status == LAP_OK && group == 0) status = begin(&b);
    if (status == LAP_OK) status = measure_depths(&b);
    close_group(&b);
  }
  for (int i = 0; i < count_subjects(request); i++)
    if (b.subject[i].snapshot[0]) unlink(b.subject[i].snapshot);
  free(b.ids);
  free(b.logits);
  return status;
}

void lap_bench_free(lap_bench_results *results) {
  lap_bench_machine_close(&results->machine);
  free(results->cell);
}
