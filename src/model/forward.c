/* forward.c: the part of a forward pass that is not arithmetic: it lists the rows, makes room, chooses the
 * code that computes, and appends to the caches.
 *
 * Everything that can fail comes first: from the first cache row on, the pass runs through. */
#include "model/forward.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/matmul_woven.h"

typedef struct lap_buffer {
  void *data;
  size_t bytes;
} lap_buffer;

struct lap_forward {
  const lap_model *model;
  lap_pool *pool;
  const lap_probe *probe;
  lap_path path;
  lap_path served;
  lap_attention_method attention;
  lap_buffer rows, caches, arena;
};

enum {
  ALIGNMENT = 64,
  HUGE_PAGE = 2 << 20
};

/* A pass walks through its arena many times: huge pages, where the system lends them, spare it page walks. */
static void advise_huge_pages(void *data, size_t bytes) {
  uintptr_t begin = ((uintptr_t)data + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  uintptr_t end = ((uintptr_t)data + bytes) / HUGE_PAGE * HUGE_PAGE;
  if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

static size_t rounded(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Makes `buffer` at least `bytes` large. Content is lost when it grows, so the old memory goes first. */
static lap_status need(lap_buffer *buffer, size_t bytes, const char *what, lap_error *error) {
  if (bytes <= buffer->bytes) return LAP_OK;
  free(buffer->data);
  *buffer = (lap_buffer){.data = aligned_alloc(ALIGNMENT, rounded(bytes))};
  if (!buffer->data)
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory: %s need %zu bytes", what, bytes);
  buffer->bytes = rounded(bytes);
  advise_huge_pages(buffer->data, buffer->bytes);
  return LAP_OK;
}

static size_t row_bytes(int64_t rows) {
  return (size_t)rows * sizeof(lap_row);
}

static size_t cache_bytes(const lap_plan *plan, int segments) {
  return (size_t)segments * (size_t)plan->caches * sizeof(lap_pass_cache);
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

/* Rows that buffers of a pass of `rows` have room for. */
static int capacity_for(int rows) {
  return rows < LAP_WEAVE ? rows : (rows + LAP_WEAVE - 1) / LAP_WEAVE * LAP_WEAVE;
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

static lap_status list_rows(const lap_plan *plan, const lap_segment *segments, int count, lap_pass *pass,
                            lap_error *error) {
  for (int i = 0; i < count; i++) {
    lap_row *row = pass->row + pass->rows;
    lap_status status = list_tokens(plan, &segments[i], i, row, error);
    if (status == LAP_OK) status = list_blocks(plan, &segments[i], row, error);
    if (status != LAP_OK) return status;
    pass->rows += segments[i].count;
  }
  pass->capacity = capacity_for(pass->rows);
  return LAP_OK;
}

static void list_caches(const lap_segment *segments, int count, int caches, lap_pass_cache *out) {
  for (int i = 0; i < count; i++)
    for (int c = 0; c < caches; c++) {
      const lap_cache *cache = segments[i].kv->cache[c];
      const lap_cache_shape *shape = lap_cache_get_shape(cache);
      *out++ = (lap_pass_cache){*lap_cache_memory(cache), shape->bits, shape->group_size};
    }
}

/* The guard: the live caches are those that the code was cut for. */
static bool fits(const lap_cut *cut, const lap_segment *segments, int count) {
  for (int i = 0; i < count; i++) {
    if (segments[i].kv->caches != cut->caches) return false;
    for (int c = 0; c < cut->caches; c++) {
      const lap_cache_shape *live = lap_cache_get_shape(segments[i].kv->cache[c]);
      const lap_cut_cache *shape = &cut->cache[c];
      if (live->kv_heads != shape->kv_heads || live->head_dim != shape->head_dim ||
          live->window != shape->window || live->bits != shape->bits || live->group_size != shape->group_size)
        return false;
    }
  }
  return true;
}

static const lap_forward_code *choose(lap_forward *forward, const lap_segment *segments, int count) {
  const lap_model *model = forward->model;
  bool cut = forward->path != LAP_PATH_MONOLITH && model->cut.code && fits(model->cut.code, segments, count);
  forward->served = cut ? LAP_PATH_CUT : LAP_PATH_MONOLITH;
  return cut ? &model->cut.code->code : model->monolith;
}

lap_status lap_forward_run(lap_forward *forward, const lap_segment *segments, int count, lap_error *error) {
  const lap_model *model = forward->model;
  const lap_plan *plan = model->plan;
  int64_t rows;
  lap_status status = count_rows(segments, count, &rows, error);
  if (status != LAP_OK) return status;
  status = need(&forward->rows, row_bytes(rows), "rows", error);
  if (status == LAP_OK) status = need(&forward->caches, cache_bytes(plan, count), "caches", error);
  if (status != LAP_OK) return status;
  lap_pass pass = {.row = forward->rows.data,
                   .segments = count,
                   .caches = plan->caches,
                   .attention = forward->attention,
                   .memory = {.weights = model->weights,
                              .rope_frequency = {model->rope_frequency[0], model->rope_frequency[1]},
                              .kv = forward->caches.data},
                   .team = {lap_pool_threads(forward->pool), forward->pool, lap_pool_run},
                   .see = forward->probe ? forward->probe->see : NULL,
                   .see_context = forward->probe ? forward->probe->context : NULL,
                   .plan = plan,
                   .bad_row = -1};
  status = list_rows(plan, segments, count, &pass, error);
  if (status != LAP_OK) return status;
  const lap_forward_code *code = choose(forward, segments, count);
  status = need(&forward->arena, code->arena_bytes(&pass), "the activations", error);
  for (int i = 0; status == LAP_OK && i < count; i++)
    status = lap_kv_reserve(segments[i].kv, segments[i].count, error);
  if (status != LAP_OK) return status;

  list_caches(segments, count, plan->caches, forward->caches.data);
  pass.memory.arena = forward->arena.data;
  code->forward(&pass);
  for (int i = 0; i < count; i++) lap_kv_commit(segments[i].kv, segments[i].count);
  if (pass.bad_row < 0) return LAP_OK;
  return lap_fail(error, LAP_ERROR_NUMERIC,
                  "%s: the weights give logits that are not finite at position %lld", model->directory,
                  (long long)pass.row[pass.bad_row].position);
}

/* What need() does to a buffer. */
static void foresee(size_t *held, size_t bytes) {
  if (bytes > *held) *held = rounded(bytes);
}

lap_status lap_forward_foresee(const lap_plan *plan, const lap_forward_code *code, int threads,
                               int64_t position, int count, lap_forward_forecast *forecast,
                               lap_error *error) {
  lap_row *row = malloc(row_bytes(count));
  if (!row) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for %d rows", count);
  for (int i = 0; i < count; i++) row[i] = lap_token_row(0, 0, position + i);
  const lap_pass pass = {.rows = count,
                         .capacity = capacity_for(count),
                         .row = row,
                         .segments = 1,
                         .caches = plan->caches,
                         .team.threads = threads,
                         .plan = plan};
  foresee(&forecast->rows, row_bytes(count));
  foresee(&forecast->caches, cache_bytes(plan, 1));
  foresee(&forecast->arena, code->arena_bytes(&pass));
  free(row);
  return LAP_OK;
}

/* Both methods give the same bits: this is for those who want to see that. */
static lap_status read_attention(lap_attention_method *out, lap_error *error) {
  const char *name = getenv("LAPIDARY_ATTENTION");
  *out = LAP_ATTENTION_AUTO;
  if (!name || !*name) return LAP_OK;
  if (strcmp(name, "tiled") == 0)
    *out = LAP_ATTENTION_TILED;
  else if (strcmp(name, "plain") == 0)
    *out = LAP_ATTENTION_PLAIN;
  else
    return lap_fail(error, LAP_ERROR_ARGUMENT, "LAPIDARY_ATTENTION: '%s' is not one of tiled, plain", name);
  return LAP_OK;
}

lap_status lap_forward_create(const lap_model *model, lap_pool *pool, lap_forward **out, lap_error *error) {
  lap_attention_method attention;
  *out = NULL;
  lap_status status = read_attention(&attention, error);
  if (status != LAP_OK) return status;
  *out = calloc(1, sizeof **out);
  if (!*out) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a forward pass");
  (*out)->model = model;
  (*out)->pool = pool;
  (*out)->attention = attention;
  return LAP_OK;
}

void lap_forward_destroy(lap_forward *forward) {
  if (!forward) return;
  free(forward->rows.data);
  free(forward->caches.data);
  free(forward->arena.data);
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

size_t lap_forward_bytes(const lap_forward *forward) {
  return forward->rows.bytes + forward->caches.bytes + forward->arena.bytes;
}
