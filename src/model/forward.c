/* forward.c: the part of a forward pass that is not arithmetic: it lists the rows, makes room, has the device
 * compute, and appends to the caches.
 *
 * Everything that can fail comes first: from the first cache row on, the pass runs through. */
#include "model/forward.h"

#include <stdlib.h>

/* A list that grows. */
typedef struct lap_list {
  void *data;
  size_t bytes;
} lap_list;

struct lap_forward {
  const lap_model *model;
  lap_runner *runner;
  const lap_probe *probe;
  lap_path path;
  lap_path served;
  lap_list rows, caches;
};

/* Makes a list at least `bytes` large. Content is lost when it grows, so the old memory goes first. */
static lap_status need(lap_list *list, size_t bytes, const char *what, lap_error *error) {
  if (bytes <= list->bytes) return LAP_OK;
  free(list->data);
  *list = (lap_list){.data = malloc(bytes)};
  if (!list->data) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory: %s need %zu bytes", what, bytes);
  list->bytes = bytes;
  return LAP_OK;
}

static size_t row_bytes(int64_t rows) {
  return (size_t)rows * sizeof(lap_row);
}

static size_t cache_bytes(const lap_plan *plan, int segments) {
  return (size_t)segments * (size_t)plan->caches * sizeof(lap_cache_place);
}

static lap_status count_rows(const lap_segment *segments, int count, int64_t *rows, lap_error *error) {
  *rows = 0;
  for (int i = 0; i < count; i++) {
    if (segments[i].count < 1)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "segment %d: there is no token to evaluate", i);
    *rows += segments[i].count;
  }
  if (*rows > INT32_MAX / 64)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "%lld rows are too many", (long long)*rows);
  return LAP_OK;
}

/* The rows of a segment as tokens, and what is wanted of them. */
static lap_status list_tokens(const lap_plan *plan, const lap_segment *segment, int index, lap_row *row,
                              lap_error *error) {
  const int64_t begin = lap_kv_length(segment->kv);
  for (int t = 0; t < segment->count; t++) {
    const int32_t id = segment->ids[t];
    if (id < 0 || id >= plan->vocab_size)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "token id %d is not in the vocabulary of %d", id,
                      plan->vocab_size);
    row[t] = lap_token_row(index, id, begin + t);
    if (t < segment->logits_from) continue;
    const size_t wanted = (size_t)(t - segment->logits_from);
    if (segment->logits) row[t].logits = segment->logits + wanted * (size_t)plan->vocab_size;
    if (segment->hidden) row[t].hidden = segment->hidden + wanted * (size_t)plan->hidden_size;
  }
  return LAP_OK;
}

/* Gives the rows of a segment's blocks their embeddings and what they see. */
static lap_status list_blocks(const lap_plan *plan, const lap_segment *segment, lap_row *row,
                              lap_error *error) {
  int end = 0;
  for (int i = 0; i < segment->blocks; i++) {
    const lap_block *block = &segment->block[i];
    if (block->first < end || block->count < 1 || block->count > segment->count - block->first)
      return lap_fail(error, LAP_ERROR_ARGUMENT, "block %d: rows %d and %d more of a segment of %d", i,
                      block->first, block->count, segment->count);
    end = block->first + block->count;
    for (int t = 0; t < block->count; t++) {
      lap_row *own = &row[block->first + t];
      own->embedding = block->embeddings + (size_t)t * (size_t)plan->hidden_size;
      own->per_layer_id = plan->pad < 0 ? 0 : plan->pad;
      if (block->sees_itself) own->end[LAP_SLIDING] = row[end - 1].position + 1;
    }
  }
  return LAP_OK;
}

static lap_status list_rows(const lap_plan *plan, const lap_segment *segments, int count, lap_row *row,
                            lap_error *error) {
  for (int i = 0; i < count; i++) {
    lap_status status = list_tokens(plan, &segments[i], i, row, error);
    if (status == LAP_OK) status = list_blocks(plan, &segments[i], row, error);
    if (status != LAP_OK) return status;
    row += segments[i].count;
  }
  return LAP_OK;
}

static void list_caches(const lap_segment *segments, int count, lap_cache_place *out) {
  for (int i = 0; i < count; i++)
    for (int c = 0; c < segments[i].kv->caches; c++) *out++ = lap_cache_get_place(segments[i].kv->cache[c]);
}

/* Appends the rows to the caches. From the first cache row on nothing can fail but the device itself. */
static lap_status compute(lap_forward *forward, const lap_segment *segments, int count, lap_work *work,
                          lap_error *error) {
  const lap_model *model = forward->model;
  const lap_driver *driver = model->device->driver;
  lap_outcome outcome;
  list_caches(segments, count, forward->caches.data);
  lap_status status = driver->run(forward->runner, work, &outcome, error);
  if (status != LAP_OK) return status;
  forward->served = outcome.served;
  for (int i = 0; i < count; i++) lap_kv_commit(segments[i].kv, segments[i].count);
  if (outcome.bad_position < 0) return LAP_OK;
  return lap_fail(error, LAP_ERROR_NUMERIC,
                  "%s: the weights give logits that are not finite at position %lld", model->directory,
                  (long long)outcome.bad_position);
}

lap_status lap_forward_run(lap_forward *forward, const lap_segment *segments, int count, lap_error *error) {
  const lap_plan *plan = forward->model->plan;
  int64_t rows;
  lap_status status = count_rows(segments, count, &rows, error);
  if (status == LAP_OK) status = need(&forward->rows, row_bytes(rows), "rows", error);
  if (status == LAP_OK) status = need(&forward->caches, cache_bytes(plan, count), "caches", error);
  if (status == LAP_OK) status = list_rows(plan, segments, count, forward->rows.data, error);
  if (status != LAP_OK) return status;
  lap_work work = {.rows = (int)rows,
                   .row = forward->rows.data,
                   .segments = count,
                   .cache = forward->caches.data,
                   .path = forward->path,
                   .probe = forward->probe};
  list_caches(segments, count, forward->caches.data); /* what they are; where they are may change */
  status = forward->model->device->driver->reserve(forward->runner, &work, error);
  for (int i = 0; status == LAP_OK && i < count; i++)
    status = lap_kv_reserve(segments[i].kv, segments[i].count, error);
  return status == LAP_OK ? compute(forward, segments, count, &work, error) : status;
}

/* What need() does to a list. */
static void foresee(size_t *held, size_t bytes) {
  if (bytes > *held) *held = bytes;
}

lap_status lap_forward_foresee(const lap_bound *bound, int threads, lap_path path, int64_t position,
                               int count, lap_forward_forecast *forecast, lap_error *error) {
  const lap_plan *plan = bound->plan;
  lap_row *row = malloc(row_bytes(count));
  lap_cache_place *caches = calloc((size_t)plan->caches, sizeof *caches);
  if (row && caches) {
    for (int i = 0; i < count; i++) row[i] = lap_token_row(0, 0, position + i);
    for (int i = 0; i < plan->layers; i++)
      if (!plan->layer[i].sharer) caches[plan->layer[i].cache].shape = lap_kv_shape(&plan->layer[i], false);
    const lap_work work = {.rows = count, .row = row, .segments = 1, .cache = caches, .path = path};
    foresee(&forecast->rows, row_bytes(count));
    foresee(&forecast->caches, cache_bytes(plan, 1));
    foresee(&forecast->scratch, bound->device->driver->scratch_for(bound, threads, &work));
  }
  const bool enough = row && caches;
  free(row);
  free(caches);
  return enough ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %d rows", count);
}

lap_status lap_forward_create(const lap_model *model, const lap_runner_options *options, lap_forward **out,
                              lap_error *error) {
  *out = calloc(1, sizeof **out);
  if (!*out) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a forward pass");
  (*out)->model = model;
  lap_status status = model->device->driver->open_runner(model->bound, options, &(*out)->runner, error);
  if (status != LAP_OK) {
    free(*out);
    *out = NULL;
  }
  return status;
}

void lap_forward_destroy(lap_forward *forward) {
  if (!forward) return;
  forward->model->device->driver->close_runner(forward->runner);
  free(forward->rows.data);
  free(forward->caches.data);
  free(forward);
}

void lap_forward_set_probe(lap_forward *forward, const lap_probe *probe) {
  forward->probe = probe;
}

void lap_forward_set_path(lap_forward *forward, lap_path path) {
  forward->path = path;
}

lap_path lap_forward_served(const lap_forward *forward) {
  return forward->served;
}

int lap_forward_threads(const lap_forward *forward) {
  return forward->model->device->driver->threads(forward->runner);
}

size_t lap_forward_bytes(const lap_forward *forward) {
  const lap_driver *driver = forward->model->device->driver;
  return forward->rows.bytes + forward->caches.bytes + driver->scratch_held(forward->runner);
}
