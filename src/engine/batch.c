/* batch.c: who goes when, and what becomes of them.
 *
 * A job waits in a list, runs in a slot, and ends. In a slot it has a sequence, of which the tokens so far
 * are evaluated but for the one chosen last. A step admits, plans the rows of each slot, makes room for them,
 * runs the pass, and hands the logits to those that have some.
 *
 * Invariant: between steps, a job in state PROMPT has a beginning of its prompt in its sequence and not all
 * of it; one in state ANSWER has its prompt and all generated tokens but the last, which is `next`. */
#include "engine/batch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
  DEFAULT_PARALLEL = 4,
  DEFAULT_CHUNK_BESIDE = 64,
  WORTH_WAITING = 16, /* tokens that another prompt's beginning must save */
  SPARE_TOKENS = 16   /* a moved sequence may have been so much longer than its prompt */
};
static const uint64_t default_directory_bytes = (uint64_t)8 << 30;

struct lap_job {
  lap_job_request request;
  lap_job_record record;
  int32_t *ids;           /* the prompt's keys */
  lap_origin *origins;    /* NULL: all zero */
  lap_origin next_origin; /* of all that is generated */
  lap_sequence *sequence;
  int64_t before; /* tokens of a sequence that came with the request, in front of the prompt */
  size_t reserved;
  int32_t next;
  int rows;              /* in the pass that is being planned */
  lap_job *following;    /* in the list of those that wait */
  const lap_job *begins; /* the one whose prompt this one waits for */
  bool has_waited;       /* and will not again */
};

struct lap_batch {
  lap_model *model;
  lap_passes passes;
  lap_prompt_cache *cache;
  lap_kv *kv; /* empty: what caches cost */
  int parallel;
  int chunk_beside;
  int64_t context;
  size_t kv_bytes; /* 0: no limit */
  size_t reserved;
  lap_job **slot;       /* [parallel], NULL: free */
  lap_sequence **used;  /* [parallel], theirs; NULL also where the sequence came with the request */
  lap_segment *segment; /* [parallel] */
  float *logits;        /* [parallel, vocab_size] */
  lap_job *waiting;     /* the first */
  lap_batch_stats stats;
};

/* ---- the batch ------------------------------------------------------------------------------- */

static lap_status check_options(const lap_model *model, const lap_batch_options *options, lap_error *error) {
  int64_t most = model->plan->max_position_embeddings;
  if (options->parallel < 0 || options->parallel > LAP_MAX_PARALLEL)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "parallel: %d is not in 1..%d", options->parallel,
                    LAP_MAX_PARALLEL);
  if (options->chunk_beside < 0 || options->chunk_beside > LAP_MAX_CHUNK)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "chunk_beside: %d is not in 1..%d", options->chunk_beside,
                    LAP_MAX_CHUNK);
  if (options->context < 0 || options->context > most)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "context: %lld is not in 1..%lld, the model's limit",
                    (long long)options->context, (long long)most);
  return LAP_OK;
}

static lap_status allocate(lap_batch *batch, lap_error *error) {
  size_t parallel = (size_t)batch->parallel, vocab = (size_t)batch->model->plan->vocab_size;
  batch->slot = calloc(parallel, sizeof(lap_job *));
  batch->used = calloc(parallel, sizeof(lap_sequence *));
  batch->segment = calloc(parallel, sizeof *batch->segment);
  batch->logits = calloc(parallel * vocab, sizeof *batch->logits);
  if (!batch->slot || !batch->used || !batch->segment || !batch->logits)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a batch of %d", batch->parallel);
  return lap_kv_create(batch->model->bound, false, &batch->kv, error);
}

lap_status lap_batch_create(lap_model *model, const lap_batch_options *options, lap_batch **out,
                            lap_error *error) {
  static const lap_batch_options defaults = {0};
  if (!options) options = &defaults;
  *out = NULL;
  lap_status status = check_options(model, options, error);
  if (status != LAP_OK) return status;
  lap_batch *batch = calloc(1, sizeof *batch);
  if (!batch) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a batch");
  batch->model = model;
  batch->parallel = options->parallel ? options->parallel : DEFAULT_PARALLEL;
  batch->context = options->context ? options->context : model->plan->max_position_embeddings;
  batch->kv_bytes = options->kv_bytes;
  const lap_runner_options how = {.threads = options->threads, .attention = options->attention};
  status = lap_passes_open(model, &how, options->chunk, options->path, &batch->passes, error);
  batch->chunk_beside = options->chunk_beside ? options->chunk_beside : DEFAULT_CHUNK_BESIDE;
  if (batch->chunk_beside > batch->passes.chunk) batch->chunk_beside = batch->passes.chunk;
  if (status == LAP_OK) status = allocate(batch, error);
  if (status == LAP_OK)
    status = lap_prompt_cache_create(
        model, options->cache_bytes, options->cache_directory,
        options->directory_bytes ? options->directory_bytes : default_directory_bytes, &batch->cache, error);
  if (status != LAP_OK) {
    lap_batch_destroy(batch);
    return status;
  }
  *out = batch;
  return LAP_OK;
}

int64_t lap_batch_context(const lap_batch *batch) {
  return batch->context;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void leave_list(lap_batch *batch, const lap_job *job) {
  lap_job **at = &batch->waiting;
  while (*at && *at != job) at = &(*at)->following;
  if (!*at) return;
  *at = job->following;
  batch->stats.waiting--;
}

static void leave_slot(lap_batch *batch, const lap_job *job) {
  for (int i = 0; i < batch->parallel; i++) {
    if (batch->slot[i] != job) continue;
    batch->slot[i] = NULL;
    batch->used[i] = NULL;
    batch->reserved -= job->reserved;
    batch->stats.running--;
  }
}

/* Nobody waits for the prompt of a job any more. */
static void release_waiting(const lap_batch *batch, const lap_job *job) {
  for (lap_job *other = batch->waiting; other; other = other->following)
    if (other->begins == job) other->begins = NULL;
}

static void free_job(lap_job *job) {
  if (!job) return;
  free(job->ids);
  free(job->origins);
  free(job);
}

/* That of a job that failed is not kept. */
static void part_with_sequence(lap_batch *batch, const lap_job *job, bool failed) {
  if (job->request.sequence || !job->sequence) return;
  if (failed)
    lap_sequence_destroy(job->sequence);
  else
    lap_prompt_cache_put(batch->cache, job->sequence);
}

/* `error` only where the job has failed. */
static void end(lap_batch *batch, lap_job *job, lap_job_end how, const lap_error *error) {
  leave_list(batch, job);
  leave_slot(batch, job);
  release_waiting(batch, job);
  part_with_sequence(batch, job, how == LAP_JOB_FAILED);
  batch->stats.ended[how]++;
  job->record.state = LAP_JOB_ENDED;
  job->record.end = how;
  if (error) job->record.error = *error;
  job->record.ended = lap_seconds();
  job->request.ended(job->request.context, &job->record);
  free_job(job);
}

void lap_batch_cancel(lap_batch *batch, lap_job *job) {
  end(batch, job, LAP_JOB_CANCELLED, NULL);
}

void lap_batch_destroy(lap_batch *batch) {
  if (!batch) return;
  while (batch->waiting) end(batch, batch->waiting, LAP_JOB_CANCELLED, NULL);
  for (int i = 0; batch->slot && i < batch->parallel; i++)
    if (batch->slot[i]) end(batch, batch->slot[i], LAP_JOB_CANCELLED, NULL);
  lap_prompt_cache_destroy(batch->cache);
  lap_passes_close(&batch->passes);
  lap_kv_destroy(batch->kv);
  free(batch->slot);
  free(batch->used);
  free(batch->segment);
  free(batch->logits);
  free(batch);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

/* Of the sequence that comes with a request. */
static int64_t tokens_before(const lap_job_request *request) {
  return request->sequence ? lap_sequence_length(request->sequence) : 0;
}

/* The most that a request's keys and values can take. */
static size_t need_of(const lap_batch *batch, const lap_job_request *request) {
  int64_t tokens = batch->context, prompt = tokens_before(request) + request->count;
  if (request->max_tokens && request->max_tokens < batch->context - prompt)
    tokens = prompt + request->max_tokens;
  return lap_kv_most_bytes(batch->kv, tokens + SPARE_TOKENS, batch->passes.chunk);
}

/* Whether tokens can follow `before` others. */
static lap_status check_tokens(const lap_batch *batch, int64_t before, const int32_t *ids, int64_t count,
                               lap_error *error) {
  int32_t vocab = batch->model->plan->vocab_size;
  if (count < 1) return lap_fail(error, LAP_ERROR_ARGUMENT, "the prompt has no token");
  if (count > batch->context - before)
    return lap_fail(error, LAP_ERROR_ARGUMENT,
                    before ? "the prompt's %lld tokens exceed the context limit of %lld after %lld others"
                           : "the prompt's %lld tokens exceed the context limit of %lld",
                    (long long)count, (long long)batch->context, (long long)before);
  for (int64_t i = 0; i < count; i++)
    if (ids[i] < 0 || ids[i] >= vocab)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "token %lld: id %d is not in the vocabulary of %d",
                      (long long)i, ids[i], vocab);
  return LAP_OK;
}

static lap_status check_request(const lap_batch *batch, const lap_job_request *request, lap_error *error) {
  if (request->max_tokens < 0)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "max_tokens: %lld is negative",
                    (long long)request->max_tokens);
  lap_status status = check_tokens(batch, tokens_before(request), request->ids, request->count, error);
  if (status != LAP_OK) return status;
  for (int64_t i = 0; request->origins && i < request->count; i++)
    if (!lap_origin_is_valid(&request->origins[i]))
      return lap_fail(error, LAP_ERROR_ARGUMENT, "origin %lld: index %lld", (long long)i,
                      (long long)request->origins[i].index);
  size_t need = need_of(batch, request);
  if (batch->kv_bytes && need > batch->kv_bytes)
    return lap_fail(
        error, LAP_ERROR_ARGUMENT,
        "%lld tokens of prompt and up to %lld of answer may need %zu bytes of KV cache, the limit is %zu",
        (long long)request->count,
        (long long)(request->max_tokens ? request->max_tokens : batch->context - request->count), need,
        batch->kv_bytes);
  return LAP_OK;
}

/* NULL: out of memory. */
static lap_job *make_job(const lap_job_request *request) {
  size_t count = (size_t)request->count;
  const lap_origin *origins = lap_origins_unless_zero(request->origins, request->count);
  lap_job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  job->ids = malloc(count * sizeof *job->ids);
  if (origins) job->origins = malloc(count * sizeof *job->origins);
  if (!job->ids || (origins && !job->origins)) {
    free_job(job);
    return NULL;
  }
  memcpy(job->ids, request->ids, count * sizeof *job->ids);
  if (origins) {
    memcpy(job->origins, origins, count * sizeof *job->origins);
    job->next_origin.adapters = origins[count - 1].adapters;
  }
  job->request = *request;
  job->request.ids = job->ids;
  job->request.origins = job->origins;
  return job;
}

lap_status lap_batch_submit(lap_batch *batch, const lap_job_request *request, lap_job **out,
                            lap_error *error) {
  *out = NULL;
  lap_status status = check_request(batch, request, error);
  if (status != LAP_OK) return status;
  lap_job *job = make_job(request);
  if (!job)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a prompt of %lld tokens",
                    (long long)request->count);
  job->before = tokens_before(request);
  job->has_waited = request->sequence != NULL; /* it reads all of its prompt itself */
  job->reserved = need_of(batch, request);
  job->record.prompt_tokens = request->count;
  job->record.submitted = lap_seconds();
  lap_job **last = &batch->waiting;
  while (*last) last = &(*last)->following;
  *last = job;
  batch->stats.waiting++;
  *out = job;
  return LAP_OK;
}

const lap_job_record *lap_job_get_record(const lap_job *job) {
  return &job->record;
}

static lap_keys prompt_of(const lap_job *job) {
  return (lap_keys){job->ids, job->origins};
}

static int64_t common_prompt(const lap_job *a, const lap_job *b) {
  int64_t most = a->request.count < b->request.count ? a->request.count : b->request.count;
  return lap_keys_common(prompt_of(a), prompt_of(b), most);
}

/* The running job that is about to read more of this one's prompt than can be had now; `*common` of it. */
static lap_job *reader_of(const lap_batch *batch, const lap_job *job, int64_t *common) {
  int64_t best =
      lap_prompt_cache_look(batch->cache, prompt_of(job), job->request.count, batch->used, batch->parallel);
  lap_job *reader = NULL;
  best += WORTH_WAITING - 1;
  for (int i = 0; i < batch->parallel; i++) {
    lap_job *other = batch->slot[i];
    if (!other || other->record.state != LAP_JOB_PROMPT || other->request.sequence) continue;
    int64_t same = common_prompt(job, other);
    if (same == job->request.count) same--; /* one token is left to compute */
    if (same <= best || lap_sequence_length(other->sequence) >= same) continue;
    best = same;
    reader = other;
  }
  *common = best;
  return reader;
}

/* True while a job waits for another to read the beginning of its prompt. */
static bool waits_for_reader(lap_batch *batch, lap_job *job) {
  int64_t common;
  if (!job->has_waited) {
    job->has_waited = true;
    lap_job *reader = reader_of(batch, job, &common);
    if (reader) lap_sequence_want(reader->sequence, common);
    job->begins = reader;
  }
  if (!job->begins) return false;
  common = common_prompt(job, job->begins);
  if (common == job->request.count) common--;
  return lap_sequence_length(job->begins->sequence) < common;
}

/* The sequence that came with the request, or one that has as much of the prompt as can be had. */
static lap_status get_sequence(const lap_batch *batch, lap_job *job, lap_error *error) {
  job->sequence = job->request.sequence;
  if (job->sequence) return LAP_OK;
  return lap_prompt_cache_take(batch->cache, prompt_of(job), job->request.count, batch->used, batch->parallel,
                               &job->sequence, error);
}

static void start(lap_batch *batch, lap_job *job, int slot) {
  lap_error error;
  if (get_sequence(batch, job, &error) != LAP_OK) {
    end(batch, job, LAP_JOB_FAILED, &error);
    return;
  }
  leave_list(batch, job);
  job->begins = NULL;
  batch->slot[slot] = job;
  batch->used[slot] = job->request.sequence ? NULL : job->sequence;
  batch->reserved += job->reserved;
  batch->stats.running++;
  job->record.state = LAP_JOB_PROMPT;
  job->record.cached_tokens = lap_sequence_length(job->sequence) - job->before;
  job->record.started = lap_seconds();
}

static int free_slot(const lap_batch *batch) {
  for (int i = 0; i < batch->parallel; i++)
    if (!batch->slot[i]) return i;
  return -1;
}

static void admit(lap_batch *batch) {
  int slot;
  lap_job *following;
  for (lap_job *job = batch->waiting; job && (slot = free_slot(batch)) >= 0; job = following) {
    following = job->following;
    if (waits_for_reader(batch, job)) continue;
    if (batch->kv_bytes && job->reserved > batch->kv_bytes - batch->reserved) return;
    start(batch, job, slot);
  }
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static int64_t remaining(const lap_job *job) {
  return job->before + job->request.count - lap_sequence_length(job->sequence);
}

/* Divides `budget` rows among the prompts, the shortest first. */
static void divide(lap_job **prompt, int count, int budget) {
  for (int i = 1; i < count; i++) { /* insertion sort: few, and nearly sorted */
    lap_job *moved = prompt[i];
    int at = i;
    for (; at > 0 && remaining(prompt[at - 1]) > remaining(moved); at--) prompt[at] = prompt[at - 1];
    prompt[at] = moved;
  }
  for (int i = 0; i < count; i++) {
    int share = budget / (count - i);
    if (share < 1) share = 1;
    prompt[i]->rows = remaining(prompt[i]) < share ? (int)remaining(prompt[i]) : share;
    budget -= prompt[i]->rows;
  }
}

static void plan_rows(lap_batch *batch) {
  lap_job *prompt[LAP_MAX_PARALLEL];
  int prompts = 0, answers = 0;
  for (int i = 0; i < batch->parallel; i++) {
    lap_job *job = batch->slot[i];
    if (!job) continue;
    if (job->record.state == LAP_JOB_PROMPT) {
      prompt[prompts++] = job;
    } else {
      job->rows = 1;
      answers++;
    }
  }
  divide(prompt, prompts, answers ? batch->chunk_beside : batch->passes.chunk);
}

/* What the job's rows of a pass are, the first of which stands at `position`. */
static lap_keys keys_at(const lap_job *job, int64_t position) {
  if (job->record.state == LAP_JOB_PROMPT) return lap_keys_from(prompt_of(job), position - job->before);
  return (lap_keys){&job->next, &job->next_origin};
}

static lap_segment segment_of(const lap_batch *batch, int slot) {
  const lap_job *job = batch->slot[slot];
  bool answers = job->record.state == LAP_JOB_ANSWER, wanted = answers || job->rows == remaining(job);
  return (lap_segment){
      .kv = job->sequence->kv,
      .ids = keys_at(job, lap_sequence_length(job->sequence)).ids,
      .count = job->rows,
      .logits_from = wanted ? job->rows - 1 : job->rows,
      .logits = batch->logits + (size_t)slot * (size_t)batch->model->plan->vocab_size,
  };
}

/* The prompt is read: caches with a plain start end it. */
static lap_status begin_answer(lap_job *job, lap_error *error) {
  lap_status status = lap_kv_convert(job->sequence->kv, error);
  job->record.state = LAP_JOB_ANSWER;
  job->record.first_token = lap_seconds();
  return status;
}

/* A job goes on: its logits have come. */
static void choose(lap_batch *batch, lap_job *job, float *logits) {
  lap_error error;
  int32_t vocab = batch->model->plan->vocab_size;
  if (job->record.state == LAP_JOB_PROMPT && begin_answer(job, &error) != LAP_OK) {
    end(batch, job, LAP_JOB_FAILED, &error);
    return;
  }
  int64_t length = lap_sequence_length(job->sequence);
  job->next = job->request.choose(job->request.context, logits, job->sequence->tokens, length);
  if (job->next < 0) {
    end(batch, job, LAP_JOB_CHOSEN, NULL);
    return;
  }
  if (job->next >= vocab) {
    lap_fail(&error, LAP_ERROR_ARGUMENT, "id %d was chosen, the vocabulary has %d", job->next, vocab);
    end(batch, job, LAP_JOB_FAILED, &error);
    return;
  }
  batch->stats.generated_tokens++;
  if (++job->record.generated_tokens == job->request.max_tokens || length >= batch->context)
    end(batch, job, LAP_JOB_LENGTH, NULL);
}

static bool all_finite(const float *x, int n) {
  for (int i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* A slot's part of a pass has run. */
static void advance(lap_batch *batch, int slot, const lap_segment *segment, const lap_error *numeric) {
  lap_job *job = batch->slot[slot];
  int64_t first = lap_sequence_length(job->sequence) - segment->count;
  lap_sequence_append(job->sequence, keys_at(job, first), segment->count);
  if (job->record.state == LAP_JOB_PROMPT) {
    job->record.evaluated_tokens += segment->count;
    batch->stats.prompt_tokens += segment->count;
  }
  if (segment->logits_from == segment->count) return;
  if (numeric && !all_finite(segment->logits, batch->model->plan->vocab_size))
    end(batch, job, LAP_JOB_FAILED, numeric);
  else
    choose(batch, job, segment->logits);
}

/* Runs the segments of the slots given. A pass that finds no memory has changed nothing and is tried again
 * for each alone; who fails alone fails. */
static void run(lap_batch *batch, const lap_segment *segment, const int *slot, int count) {
  lap_error error = {0};
  lap_status status = lap_passes_run(&batch->passes, segment, count, &error);
  if (status == LAP_OK || status == LAP_ERROR_NUMERIC) {
    for (int i = 0; i < count; i++) {
      batch->stats.last_rows += segment[i].count;
      advance(batch, slot[i], &segment[i], status == LAP_OK ? NULL : &error);
    }
  } else if (count == 1) {
    end(batch, batch->slot[*slot], LAP_JOB_FAILED, &error);
  } else {
    for (int i = 0; i < count; i++) run(batch, segment + i, slot + i, 1);
  }
}

bool lap_batch_step(lap_batch *batch) {
  int slot[LAP_MAX_PARALLEL], count = 0;
  if (batch->stats.running + batch->stats.waiting == 0) return lap_prompt_cache_write(batch->cache);
  admit(batch);
  plan_rows(batch);
  for (int i = 0; i < batch->parallel; i++) {
    lap_job *job = batch->slot[i];
    lap_error error;
    if (!job) continue;
    lap_keys next = keys_at(job, lap_sequence_length(job->sequence));
    if (lap_prompt_cache_reserve(batch->cache, job->sequence, next, job->rows, &error) != LAP_OK) {
      end(batch, job, LAP_JOB_FAILED, &error);
      continue;
    }
    batch->segment[count] = segment_of(batch, i);
    slot[count++] = i;
  }
  batch->stats.last_rows = 0;
  if (count > 0) run(batch, batch->segment, slot, count);
  return true;
}

/* ---- without a job ---------------------------------------------------------------------------- */

static lap_status extend_by(lap_batch *batch, lap_sequence *sequence, const int32_t *ids, int count,
                            int logits_from, float *logits, lap_error *error) {
  const lap_keys next = {.ids = ids};
  int64_t length = lap_sequence_length(sequence);
  lap_segment segment = {
      .kv = sequence->kv, .ids = ids, .count = count, .logits_from = logits_from, .logits = logits};
  lap_status status = lap_prompt_cache_reserve(batch->cache, sequence, next, count, error);
  if (status == LAP_OK) status = lap_passes_run(&batch->passes, &segment, 1, error);
  if (lap_sequence_length(sequence) > length) lap_sequence_append(sequence, next, count);
  return status;
}

lap_status lap_batch_extend(lap_batch *batch, lap_sequence *sequence, const lap_extension *extension,
                            lap_error *error) {
  int64_t count = extension->count, first_wanted = count - extension->wanted;
  float *logits = extension->logits;
  lap_status status = check_tokens(batch, lap_sequence_length(sequence), extension->ids, count, error);
  if (status != LAP_OK) return status;
  if (extension->wanted < 0 || extension->wanted > count || (extension->wanted && !logits))
    return lap_fail(error, LAP_ERROR_ARGUMENT, "logits of %lld of %lld tokens are wanted",
                    (long long)extension->wanted, (long long)count);
  for (int64_t done = 0; status == LAP_OK && done < count;) {
    int n = count - done < batch->passes.chunk ? (int)(count - done) : batch->passes.chunk;
    int from = first_wanted <= done ? 0 : first_wanted - done < n ? (int)(first_wanted - done) : n;
    status = extend_by(batch, sequence, extension->ids + done, n, from, logits, error);
    if (from < n) logits += (int64_t)(n - from) * batch->model->plan->vocab_size;
    done += n;
    if (status == LAP_OK && done < count && extension->progress &&
        !extension->progress(extension->progress_context, done, count))
      return lap_fail(error, LAP_ERROR_STATE, "evaluation was ended after %lld of %lld tokens",
                      (long long)done, (long long)count);
  }
  return status;
}

lap_model *lap_batch_model(const lap_batch *batch) {
  return batch->model;
}

lap_passes *lap_batch_passes(lap_batch *batch) {
  return &batch->passes;
}

/* ---- figures --------------------------------------------------------------------------------- */

lap_batch_stats lap_batch_get_stats(const lap_batch *batch) {
  lap_batch_stats stats = batch->stats;
  stats.passes_monolith = batch->passes.monolith;
  stats.passes_cut = batch->passes.cut;
  stats.threads = lap_forward_threads(batch->passes.forward);
  stats.kv_reserved = batch->reserved;
  for (int i = 0; i < batch->parallel; i++)
    if (batch->slot[i]) stats.kv_bytes += lap_kv_bytes(batch->slot[i]->sequence->kv);
  stats.scratch_bytes =
      lap_forward_bytes(batch->passes.forward) +
      (size_t)batch->parallel * (size_t)batch->model->plan->vocab_size * sizeof *batch->logits;
  stats.cache = lap_prompt_cache_get_stats(batch->cache);
  return stats;
}
