/* attend_rows.c: attention of many rows, cut into tasks.
 *
 * A tile is up to 32 queries that share a KV head: the heads of its group for one row, or for several
 * consecutive rows of a sequence. With many rows a task is one tile and walks its spans in order; with
 * few rows and a long context a task is one span of one tile, and the spans are folded afterwards. The
 * folds are the same either way (attend.h), so are the bits. */
#include "kernels/attend.h"
#include "model/forward_state.h"

typedef struct tile {
  int first_row;
  int rows;
} tile;

typedef struct attend_run {
  lap_forward *forward;
  const lap_layer *layer;
  const lap_cache *const *caches; /* by segment */
  const tile *tiles;
  int groups;      /* tasks for each tile: KV heads times parts of their head group */
  int group_heads; /* query heads of a task */
  int spans;       /* 0: a task walks all spans; else the spans that tasks compute apart */
  int64_t first_span;
} attend_run;

enum {
  SPLIT_ROWS = 4
}; /* with more rows than this, tiles alone keep the threads busy */

static int heads_of_task(const lap_layer *layer) {
  int repeats = layer->heads / layer->kv_heads;
  return repeats < LAP_TILE_QUERIES ? repeats : LAP_TILE_QUERIES;
}

static int groups_of(const lap_layer *layer) {
  int repeats = layer->heads / layer->kv_heads, heads = heads_of_task(layer);
  return layer->kv_heads * ((repeats + heads - 1) / heads);
}

static size_t state_floats(int queries, int head_dim) {
  return (size_t)queries * (size_t)(head_dim + 2);
}

static lap_attend_state state_at(float *memory, int queries) {
  return (lap_attend_state){.m = memory, .l = memory + queries, .acc = memory + 2 * queries};
}

/* Queries of the largest tile among `rows` rows. */
static int tile_queries_of(const lap_layer *layer, int rows) {
  int heads = heads_of_task(layer), fitting = LAP_TILE_QUERIES / heads;
  return heads * (rows < fitting ? rows : fitting);
}

/* ---- one task ---- */

typedef struct tile_queries {
  lap_attend_queries queries;
  int64_t low[LAP_TILE_QUERIES], high[LAP_TILE_QUERIES];
  lap_input input;
  float *states[2];
  float *scratch;
} tile_queries;

static size_t scratch_bytes(int head_dim) {
  size_t queries = (size_t)LAP_TILE_QUERIES * (size_t)head_dim * sizeof(float);
  size_t bytes =
      queries + lap_input_bytes(LAP_TILE_QUERIES, head_dim) +
      (2 * state_floats(LAP_TILE_QUERIES, head_dim) + lap_attend_scratch(LAP_TILE_QUERIES, head_dim)) *
          sizeof(float);
  return (bytes + 63) / 64 * 64;
}

/* The heads of a task: first query head, count. */
static int first_head(const attend_run *run, int group, int *heads, int *kv_head) {
  int repeats = run->layer->heads / run->layer->kv_heads;
  int parts = run->groups / run->layer->kv_heads;
  *kv_head = group / parts;
  int offset = group % parts * run->group_heads;
  *heads = repeats - offset < run->group_heads ? repeats - offset : run->group_heads;
  return *kv_head * repeats + offset;
}

/* Copies the queries of a tile together and quantizes them if the cache is quantized. */
static void gather(const attend_run *run, const tile *t, int group, int thread, int bits, int group_size,
                   tile_queries *out) {
  lap_forward *forward = run->forward;
  int head_dim = run->layer->head_dim, heads, kv_head;
  int head = first_head(run, group, &heads, &kv_head);
  unsigned char *memory =
      (unsigned char *)forward->attention_scratch.data + (size_t)thread * scratch_bytes(head_dim);
  float *q = (float *)(void *)memory;
  memory += (size_t)LAP_TILE_QUERIES * (size_t)head_dim * sizeof(float);
  lap_input_place(&out->input, memory, LAP_TILE_QUERIES, head_dim);
  memory += lap_input_bytes(LAP_TILE_QUERIES, head_dim);
  out->states[0] = (float *)(void *)memory;
  out->states[1] = out->states[0] + state_floats(LAP_TILE_QUERIES, head_dim);
  out->scratch = out->states[1] + state_floats(LAP_TILE_QUERIES, head_dim);
  int count = 0;
  for (int r = 0; r < t->rows; r++) {
    size_t row = (size_t)t->first_row + (size_t)r;
    int64_t position = forward->row[row].position;
    const float *from = forward->query + (row * (size_t)run->layer->heads + (size_t)head) * (size_t)head_dim;
    memcpy(q + (size_t)count * (size_t)head_dim, from, (size_t)heads * (size_t)head_dim * sizeof(float));
    for (int h = 0; h < heads; h++, count++) {
      out->high[count] = position + 1;
      out->low[count] = run->layer->window ? lap_max64(0, position + 1 - run->layer->window) : 0;
    }
  }
  int form = bits != 16 && lap_block_of_group(group_size) == 32;
  out->queries = (lap_attend_queries){
      .count = count, .q = q, .qx = &out->input.q[form], .low = out->low, .high = out->high};
  if (bits == 16) return;
  for (int i = 0; i < count; i++) {
    lap_qrow row = lap_qrows_at(&out->input.q[form], i);
    if (bits != 4) row.nibble = NULL;
    forward->workspace.kernels->quantize_row(q + (size_t)i * (size_t)head_dim, head_dim,
                                             out->input.q[form].block, &row);
  }
}

/* Puts the outputs of a tile in the place of its queries. */
static void scatter(const attend_run *run, const tile *t, int group, const lap_attend_state *state) {
  int head_dim = run->layer->head_dim, heads, kv_head;
  int head = first_head(run, group, &heads, &kv_head);
  for (int r = 0; r < t->rows; r++) {
    size_t row = (size_t)t->first_row + (size_t)r;
    float *to = run->forward->query + (row * (size_t)run->layer->heads + (size_t)head) * (size_t)head_dim;
    lap_attend_state part = {state->m + r * heads, state->l + r * heads,
                             state->acc + (size_t)(r * heads) * (size_t)head_dim};
    lap_attend_finish(heads, head_dim, &part, to, (size_t)head_dim);
  }
}

static void seen_range(const tile_queries *q, int64_t *low, int64_t *high) {
  *low = q->low[0];
  *high = q->high[0];
  for (int i = 1; i < q->queries.count; i++) {
    *low = lap_min64(*low, q->low[i]);
    *high = lap_max64(*high, q->high[i]);
  }
}

static void whole_task(void *context, int task, int thread) {
  const attend_run *run = context;
  const lap_kernels *kernels = run->forward->workspace.kernels;
  const tile *t = &run->tiles[task / run->groups];
  int group = task % run->groups, head_dim = run->layer->head_dim, heads, kv_head;
  first_head(run, group, &heads, &kv_head);
  lap_kv_view kv = lap_cache_view(run->caches[run->forward->row[t->first_row].segment], kv_head);
  tile_queries q;
  gather(run, t, group, thread, kv.bits, kv.group_size, &q);
  lap_attend_state state = state_at(q.states[0], q.queries.count),
                   later = state_at(q.states[1], q.queries.count);
  int64_t low, high;
  seen_range(&q, &low, &high);
  int64_t span = low / LAP_KEY_SPAN;
  lap_attend_span(kernels, &kv, &q.queries, low, lap_min64(high, (span + 1) * LAP_KEY_SPAN), &state,
                  q.scratch);
  for (span++; span * LAP_KEY_SPAN < high; span++) {
    lap_attend_span(kernels, &kv, &q.queries, span * LAP_KEY_SPAN, lap_min64(high, (span + 1) * LAP_KEY_SPAN),
                    &later, q.scratch);
    lap_attend_fold(kernels, q.queries.count, head_dim, &state, &later);
  }
  scatter(run, t, group, &state);
}

/* The state of one span of a tile, in the memory that lap_attend_prepare made. */
static lap_attend_state span_state(const attend_run *run, int tile_group, int span) {
  int queries = tile_queries_of(run->layer, run->forward->rows);
  size_t index = (size_t)tile_group * (size_t)run->spans + (size_t)span;
  return state_at(
      (float *)run->forward->attention_states.data + index * state_floats(queries, run->layer->head_dim),
      queries);
}

static void span_task(void *context, int task, int thread) {
  const attend_run *run = context;
  int tile_group = task / run->spans, heads, kv_head;
  int group = tile_group % run->groups;
  const tile *t = &run->tiles[tile_group / run->groups];
  first_head(run, group, &heads, &kv_head);
  lap_kv_view kv = lap_cache_view(run->caches[run->forward->row[t->first_row].segment], kv_head);
  tile_queries q;
  gather(run, t, group, thread, kv.bits, kv.group_size, &q);
  lap_attend_state state = span_state(run, tile_group, task % run->spans);
  int64_t low, high, span = run->first_span + task % run->spans;
  seen_range(&q, &low, &high);
  lap_attend_span(run->forward->workspace.kernels, &kv, &q.queries, lap_max64(low, span * LAP_KEY_SPAN),
                  lap_min64(high, (span + 1) * LAP_KEY_SPAN), &state, q.scratch);
}

static void fold_task(void *context, int task, int thread) {
  const attend_run *run = context;
  (void)thread;
  int head_dim = run->layer->head_dim, heads, kv_head;
  const tile *t = &run->tiles[task / run->groups];
  first_head(run, task % run->groups, &heads, &kv_head);
  lap_attend_state state = span_state(run, task, 0);
  for (int span = 1; span < run->spans; span++) {
    lap_attend_state later = span_state(run, task, span);
    lap_attend_fold(run->forward->workspace.kernels, heads * t->rows, head_dim, &state, &later);
  }
  scatter(run, t, task % run->groups, &state);
}

/* ---- all tasks ---- */

/* Consecutive rows of one segment, as many as fill LAP_TILE_QUERIES. */
static int make_tiles(const lap_forward *forward, int tile_rows, tile *tiles) {
  int count = 0;
  for (int row = 0; row < forward->rows;) {
    int end = row + 1;
    while (end < forward->rows && end - row < tile_rows &&
           forward->row[end].segment == forward->row[row].segment)
      end++;
    tiles[count++] = (tile){row, end - row};
    row = end;
  }
  return count;
}

/* The spans that the rows of this pass see in `layer`. */
static int64_t span_range(const lap_forward *forward, const lap_layer *layer, int64_t *first) {
  int64_t low = INT64_MAX, high = 0;
  for (int i = 0; i < forward->rows; i++) {
    int64_t end = forward->row[i].position + 1;
    low = lap_min64(low, layer->window ? lap_max64(0, end - layer->window) : 0);
    high = lap_max64(high, end);
  }
  *first = low / LAP_KEY_SPAN;
  return (high + LAP_KEY_SPAN - 1) / LAP_KEY_SPAN - *first;
}

static bool splits(const lap_forward *forward, int64_t spans) {
  return forward->rows <= SPLIT_ROWS && spans > 1 && lap_pool_threads(forward->workspace.pool) > 1;
}

/* Of the states that a pass may need when it splits: rows may leave the pass on the way, so a pass of
 * many rows must be ready to end with few. */
static size_t states_bytes(const lap_forward *forward, const lap_layer *layer, int rows) {
  int64_t first, spans = span_range(forward, layer, &first);
  if (spans <= 1 || lap_pool_threads(forward->workspace.pool) == 1) return 0;
  if (rows > SPLIT_ROWS) rows = SPLIT_ROWS;
  return (size_t)rows * (size_t)groups_of(layer) * (size_t)spans *
         state_floats(tile_queries_of(layer, rows), layer->head_dim) * sizeof(float);
}

lap_status lap_attend_prepare(lap_forward *forward, int rows, lap_error *error) {
  const lap_plan *plan = forward->model->plan;
  size_t scratch = 0, states = 0;
  for (int i = 0; i < plan->layers; i++) {
    const lap_layer *layer = &plan->layer[i];
    size_t bytes = scratch_bytes(layer->head_dim);
    if (bytes > scratch) scratch = bytes;
    bytes = states_bytes(forward, layer, rows);
    if (bytes > states) states = bytes;
  }
  lap_status status =
      lap_buffer_need(&forward->attention_scratch, (size_t)lap_pool_threads(forward->workspace.pool), scratch,
                      "attention", error);
  if (status == LAP_OK) status = lap_buffer_need(&forward->attention_states, 1, states, "attention", error);
  if (status == LAP_OK)
    status = lap_buffer_need(&forward->tiles, (size_t)rows, sizeof(tile), "attention", error);
  return status;
}

void lap_attend_rows(lap_forward *forward, const lap_layer *layer, const lap_cache *const *caches) {
  int heads = heads_of_task(layer);
  int tile_rows = LAP_TILE_QUERIES / heads;
  attend_run run = {.forward = forward,
                    .layer = layer,
                    .caches = caches,
                    .tiles = forward->tiles.data,
                    .groups = groups_of(layer),
                    .group_heads = heads};
  int tiles = make_tiles(forward, tile_rows, forward->tiles.data);
  int64_t spans = span_range(forward, layer, &run.first_span);
  if (!splits(forward, spans)) {
    lap_pool_run(forward->workspace.pool, tiles * run.groups, whole_task, &run);
    return;
  }
  run.spans = (int)spans;
  lap_pool_run(forward->workspace.pool, tiles * run.groups * run.spans, span_task, &run);
  lap_pool_run(forward->workspace.pool, tiles * run.groups, fold_task, &run);
}
