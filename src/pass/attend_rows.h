/* attend_rows.h: attention of many rows, divided into tasks, by two methods.
 *
 * Tiled: a tile is up to 32 queries that share a KV head: the heads of its group for one row, or for
 * several consecutive rows of a sequence. With many rows a task is one tile and walks its spans in order;
 * with few rows and a long context a task is one span of one tile, and the spans are folded afterwards.
 * The folds are the same either way (attend_span.h), so are the bits.
 *
 * Plain: a task is one query. It computes its whole row of scores, then walks the weights and the values
 * one key at a time in the order that attention.h writes down, in plain C, without tiles and without spans
 * apart: the check of the other.
 *
 * The task that finishes heads of a row may also quantize them for the product that reads them: a head is
 * whole blocks, so that these lie where no other task writes. In rows woven together neighbours share cache
 * lines, not bytes.
 *
 * The functions for one task take the shape as a parameter: generated code wraps each with its constants. */
#ifndef LAP_PASS_ATTEND_ROWS_H
#define LAP_PASS_ATTEND_ROWS_H

#include "kernels/attend_span.h"
#include "pass/parallel.h"

typedef struct lap_attend_shape {
  int heads, kv_heads, head_dim;
  int window; /* 0 = all */
  int bits;   /* 16 = plain cache */
  int group_size;
  int forms; /* of the output that are made here; 0: none. Else head_dim is a multiple of 64 */
} lap_attend_shape;

enum {
  LAP_TILE_QUERIES = 32,
  LAP_SPLIT_ROWS = 4 /* with more rows than this, tiles alone keep the threads busy */
};

/* Rows first_row..first_row + rows - 1, of one segment. */
typedef struct lap_tile {
  int first_row;
  int rows;
} lap_tile;

/* Memory for attention, in the arena. */
typedef struct lap_attend_memory {
  unsigned char *scratch; /* [threads, scratch_bytes] */
  size_t scratch_bytes;   /* lap_attend_thread_bytes of the largest shape */
  float *states;          /* lap_attend_states_bytes of the largest */
  lap_tile *tiles;        /* [rows] */
} lap_attend_memory;

/* The attention of one layer; what tasks read. */
typedef struct lap_attend_run {
  const lap_pass *pass;
  const lap_attend_shape *shape; /* for tasks that do not know it by heart */
  lap_attend_memory memory;
  float *query;            /* [rows, heads * head_dim]: replaced by the output */
  const lap_input *output; /* whose forms are made, if the shape says so */
  int cache;
  int groups; /* tasks for each tile: KV heads times parts of their head group */
  int spans;  /* 0: a task walks all spans; else the spans that tasks compute apart */
  int64_t first_span;
} lap_attend_run;

/* The tasks of one shape, and the method that is used unless the pass says otherwise. */
typedef struct lap_attend_code {
  lap_attention_method method;
  lap_task *tile; /* lap_attend_tile */
  lap_task *fold; /* lap_attend_fold_spans */
} lap_attend_code;

/* ---- sizes ---- */

/* Query heads of a task. */
LAP_INLINE int lap_attend_heads(const lap_attend_shape s) {
  const int repeats = s.heads / s.kv_heads;
  return repeats < LAP_TILE_QUERIES ? repeats : LAP_TILE_QUERIES;
}

LAP_INLINE int lap_attend_groups(const lap_attend_shape s) {
  const int repeats = s.heads / s.kv_heads, heads = lap_attend_heads(s);
  return s.kv_heads * ((repeats + heads - 1) / heads);
}

/* Queries of the largest tile among `rows` rows. */
LAP_INLINE int lap_attend_tile_queries(const lap_attend_shape s, int rows) {
  const int heads = lap_attend_heads(s), fitting = LAP_TILE_QUERIES / heads;
  return heads * (rows < fitting ? rows : fitting);
}

LAP_INLINE size_t lap_attend_state_floats(int queries, const int head_dim) {
  return (size_t)queries * (size_t)(head_dim + 2);
}

LAP_INLINE lap_attend_state lap_attend_state_at(float *memory, int queries) {
  return (lap_attend_state){.m = memory, .l = memory + queries, .acc = memory + 2 * queries};
}

/* The forms of the queries for codes of this kind; the check reads natural order. */
LAP_INLINE int lap_attend_form(const lap_attend_shape s) {
  const int natural = lap_block_of_group(s.group_size) == 32 ? LAP_FORM_32 : LAP_FORM_64;
  return s.bits == LAP_PLAIN_BITS ? 0 : natural | lap_form_for(s.bits, s.group_size);
}

/* The positions that the rows of a pass see: how many, and the first and the last span. */
static inline int64_t lap_attend_reach(const lap_pass *pass, int window, int64_t *first_span,
                                       int64_t *last_span) {
  int64_t low = INT64_MAX, high = 0, longest = 0;
  for (int i = 0; i < pass->rows; i++) {
    int64_t begin = lap_row_low(&pass->row[i], window), end = lap_row_high(&pass->row[i], window);
    low = lap_min64(low, begin);
    high = lap_max64(high, end);
    longest = lap_max64(longest, end - begin);
  }
  *first_span = low / LAP_KEY_SPAN;
  *last_span = (high - 1) / LAP_KEY_SPAN;
  return longest;
}

/* Scratch that one thread needs. */
static inline size_t lap_attend_thread_bytes(const lap_pass *pass, const lap_attend_shape s) {
  int64_t first, last;
  size_t queries = LAP_TILE_QUERIES * (size_t)s.head_dim * sizeof(float);
  size_t bytes = queries + LAP_TILE_QUERIES * lap_input_row_bytes(s.head_dim, LAP_FORMS_ALL) +
                 (2 * lap_attend_state_floats(LAP_TILE_QUERIES, s.head_dim) +
                  lap_attend_scratch(LAP_TILE_QUERIES, s.head_dim)) *
                     sizeof(float);
  if (pass->attention == LAP_ATTENTION_PLAIN)
    bytes += (size_t)lap_attend_reach(pass, s.window, &first, &last) * sizeof(float);
  return lap_aligned(bytes);
}

/* States of spans that are computed apart. Rows may leave the pass on the way, so a pass of many rows must
 * be ready to end with few. */
static inline size_t lap_attend_states_bytes(const lap_pass *pass, const lap_attend_shape s) {
  int64_t first, last;
  lap_attend_reach(pass, s.window, &first, &last);
  if (first == last || pass->team.threads == 1) return 0;
  int rows = pass->rows < LAP_SPLIT_ROWS ? pass->rows : LAP_SPLIT_ROWS;
  return lap_aligned((size_t)rows * (size_t)lap_attend_groups(s) * (size_t)(last - first + 1) *
                     lap_attend_state_floats(lap_attend_tile_queries(s, rows), s.head_dim) * sizeof(float));
}

/* Memory for attention of all `shapes` of a model (but for `tiles`): points it into `base`, or with NULL adds
 * up its bytes, which it returns. */
static inline size_t lap_attend_place_memory(const lap_attend_shape *shapes, int count, const lap_pass *pass,
                                             unsigned char *base, lap_attend_memory *out) {
  size_t scratch = 0, states = 0;
  for (int i = 0; i < count; i++) {
    size_t mine = lap_attend_thread_bytes(pass, shapes[i]), apart = lap_attend_states_bytes(pass, shapes[i]);
    if (mine > scratch) scratch = mine;
    if (apart > states) states = apart;
  }
  out->scratch_bytes = scratch;
  scratch *= (size_t)pass->team.threads;
  out->scratch = base;
  out->states = base ? (float *)(void *)(base + scratch) : NULL;
  return scratch + states;
}

/* ---- one tile ---- */

typedef struct lap_tile_queries {
  lap_attend_queries queries;
  int64_t low[LAP_TILE_QUERIES], high[LAP_TILE_QUERIES];
  lap_input input;
  float *states[2];
  float *scratch;
} lap_tile_queries;

/* Points the parts of a thread's scratch, for `queries` of them. */
LAP_INLINE float *lap_attend_place(const lap_attend_shape s, const lap_attend_memory *memory, int thread,
                                   int queries, lap_tile_queries *out) {
  unsigned char *at = memory->scratch + (size_t)thread * memory->scratch_bytes;
  float *q = (float *)(void *)at;
  at += LAP_TILE_QUERIES * (size_t)s.head_dim * sizeof(float);
  out->input = lap_input_place(s.head_dim, lap_attend_form(s), q, at, LAP_TILE_QUERIES,
                               lap_attend_weaves(s.bits, s.group_size, queries, s.head_dim));
  at += LAP_TILE_QUERIES * lap_input_row_bytes(s.head_dim, LAP_FORMS_ALL);
  out->states[0] = (float *)(void *)at;
  out->states[1] = out->states[0] + lap_attend_state_floats(LAP_TILE_QUERIES, s.head_dim);
  out->scratch = out->states[1] + lap_attend_state_floats(LAP_TILE_QUERIES, s.head_dim);
  return q;
}

/* The heads of a task: the first query head, their number, their KV head. */
LAP_INLINE int lap_attend_first_head(const lap_attend_shape s, int group, int *heads, int *kv_head) {
  const int repeats = s.heads / s.kv_heads, most = lap_attend_heads(s);
  const int parts = lap_attend_groups(s) / s.kv_heads;
  *kv_head = group / parts;
  int offset = group % parts * most;
  *heads = repeats - offset < most ? repeats - offset : most;
  return *kv_head * repeats + offset;
}

/* Copies the queries of a tile together and quantizes them if the cache is quantized; says what they see. */
LAP_INLINE void lap_attend_gather(const lap_attend_shape s, const lap_attend_run *run, const lap_tile *tile,
                                  int head, int heads, float *q, lap_tile_queries *out, int64_t *low,
                                  int64_t *high) {
  const lap_row *row = run->pass->row;
  int count = 0;
  *low = INT64_MAX;
  *high = 0;
  for (int r = tile->first_row; r < tile->first_row + tile->rows; r++) {
    const float *from = run->query + ((size_t)r * (size_t)s.heads + (size_t)head) * (size_t)s.head_dim;
    memcpy(q + (size_t)count * (size_t)s.head_dim, from, (size_t)heads * (size_t)s.head_dim * sizeof(float));
    const int64_t row_low = lap_row_low(&row[r], s.window), row_high = lap_row_high(&row[r], s.window);
    *low = lap_min64(*low, row_low);
    *high = lap_max64(*high, row_high);
    for (int h = 0; h < heads; h++, count++) {
      out->low[count] = row_low;
      out->high[count] = row_high;
    }
  }
  for (int i = 0; i < count; i++)
    lap_input_fill(s.head_dim, lap_attend_form(s), q + (size_t)i * (size_t)s.head_dim, &out->input, i);
  out->queries = (lap_attend_queries){.count = count,
                                      .q = q,
                                      .qx = &out->input.q[lap_block_of_group(s.group_size) == 32],
                                      .low = out->low,
                                      .high = out->high};
}

/* Puts the outputs of a tile in the place of its queries, and their forms into the output. */
LAP_INLINE void lap_attend_scatter(const lap_attend_shape s, const lap_attend_run *run, const lap_tile *tile,
                                   int head, int heads, const lap_attend_state *state) {
  for (int r = 0; r < tile->rows; r++) {
    const int row = tile->first_row + r, column = head * s.head_dim;
    float *out = run->query + (size_t)row * (size_t)s.heads * (size_t)s.head_dim + column;
    const lap_attend_state part = {state->m + r * heads, state->l + r * heads,
                                   state->acc + (size_t)(r * heads) * (size_t)s.head_dim};
    lap_attend_finish(heads, s.head_dim, &part, out);
    lap_input_fill_columns(s.forms, out, column, heads * s.head_dim, run->output, row);
  }
}

LAP_INLINE lap_kv_view lap_attend_view(const lap_attend_shape s, const lap_attend_run *run,
                                       const lap_tile *tile, int kv_head) {
  return lap_kv_planes_view(
      s.bits, s.group_size, s.head_dim, s.kv_heads,
      &lap_pass_kv(run->pass, run->pass->row[tile->first_row].segment, run->cache)->planes, kv_head);
}

/* The state of one span that a task computes apart. */
LAP_INLINE lap_attend_state lap_attend_span_state(const lap_attend_shape s, const lap_attend_run *run,
                                                  int tile_group, int span) {
  int queries = lap_attend_tile_queries(s, run->pass->rows);
  size_t index = (size_t)tile_group * (size_t)run->spans + (size_t)span;
  return lap_attend_state_at(run->memory.states + index * lap_attend_state_floats(queries, s.head_dim),
                             queries);
}

/* What computes a span: lap_attend_span, into which constants go, or for who has none code that is compiled
 * already. */
typedef void lap_span_function(int bits, int group_size, const lap_kv_view *kv,
                               const lap_attend_queries *queries, int64_t begin, int64_t end,
                               const lap_attend_state *state, float *scratch);

/* Task: one tile, all its spans in order; or one span of it, if they are computed apart. */
LAP_INLINE void lap_attend_tile_by(lap_span_function *attend_span, const lap_attend_shape s,
                                   const lap_attend_run *run, int task, int thread) {
  const int apart = run->spans > 0, tile_group = apart ? task / run->spans : task;
  const lap_tile *tile = &run->memory.tiles[tile_group / lap_attend_groups(s)];
  int heads, kv_head, head = lap_attend_first_head(s, tile_group % lap_attend_groups(s), &heads, &kv_head);
  const lap_kv_view kv = lap_attend_view(s, run, tile, kv_head);
  lap_tile_queries t;
  int64_t low, high;
  float *q = lap_attend_place(s, &run->memory, thread, tile->rows * heads, &t);
  lap_attend_gather(s, run, tile, head, heads, q, &t, &low, &high);
  const lap_attend_state state = apart ? lap_attend_span_state(s, run, tile_group, task % run->spans)
                                       : lap_attend_state_at(t.states[0], t.queries.count),
                         later = lap_attend_state_at(t.states[1], t.queries.count);
  const int64_t first = apart ? run->first_span + task % run->spans : low / LAP_KEY_SPAN,
                last = apart ? first : (high - 1) / LAP_KEY_SPAN;
  for (int64_t span = first; span <= last; span++) {
    attend_span(s.bits, s.group_size, &kv, &t.queries, lap_max64(low, span * LAP_KEY_SPAN),
                lap_min64(high, (span + 1) * LAP_KEY_SPAN), span == first ? &state : &later, t.scratch);
    if (span > first) lap_attend_fold(t.queries.count, s.head_dim, &state, &later);
  }
  if (!apart) lap_attend_scatter(s, run, tile, head, heads, &state);
}

LAP_INLINE void lap_attend_tile(const lap_attend_shape s, const lap_attend_run *run, int task, int thread) {
  lap_attend_tile_by(lap_attend_span, s, run, task, thread);
}

/* Task: all spans of one tile folded together. */
LAP_INLINE void lap_attend_fold_spans(const lap_attend_shape s, const lap_attend_run *run, int task) {
  const lap_tile *tile = &run->memory.tiles[task / lap_attend_groups(s)];
  int heads, kv_head, head = lap_attend_first_head(s, task % lap_attend_groups(s), &heads, &kv_head);
  const lap_attend_state state = lap_attend_span_state(s, run, task, 0);
  for (int span = 1; span < run->spans; span++) {
    const lap_attend_state later = lap_attend_span_state(s, run, task, span);
    lap_attend_fold(heads * tile->rows, s.head_dim, &state, &later);
  }
  lap_attend_scatter(s, run, tile, head, heads, &state);
}

/* ---- the plain method ---- */

/* The scores of n consecutive slots from `slot`. */
static inline void lap_attend_plain_scores(const lap_kv_view *kv, const lap_attend_queries *query,
                                           int64_t slot, int n, float *score) {
  const unsigned char *codes = kv->k + (size_t)slot * kv->row_bytes;
  const unsigned char *scales = kv->k_scales + (size_t)slot * kv->scale_bytes;
  if (kv->bits == LAP_PLAIN_BITS) {
    const lap_imatrix keys = {codes, scales, kv->row_bytes, kv->scale_bytes, kv->head_dim, kv->group_size};
    lap_matmul_int16_portable(&keys, query->q, (size_t)kv->head_dim, 1, n, score, (size_t)n);
  } else {
    const lap_qmatrix keys = {.codes = codes,
                              .scales = scales,
                              .biases = kv->k_biases + (size_t)slot * kv->scale_bytes,
                              .row_bytes = kv->row_bytes,
                              .scale_stride = kv->scale_bytes / sizeof(float),
                              .cols = kv->head_dim,
                              .format = LAP_FORMAT_F32};
    lap_matmul_quantized_portable(kv->bits, kv->group_size, &keys, query->qx, query->qx_first, 1, 0, n, score,
                                  (size_t)n);
  }
}

/* Positions [begin, end) of one span, whose scores are given, from an empty state. */
static inline void lap_attend_plain_span(const lap_kv_view *kv, int64_t begin, int64_t end,
                                         const float *score, const lap_attend_state *state, float *bias_acc) {
  const int groups = lap_kv_bias_groups(kv);
  lap_attend_begin(state, 1, kv->head_dim);
  memset(bias_acc, 0, (size_t)groups * sizeof(float));
  for (int64_t block = begin / LAP_KEY_BLOCK * LAP_KEY_BLOCK; block < end; block += LAP_KEY_BLOCK) {
    int64_t from = lap_max64(begin, block), to = lap_min64(end, block + LAP_KEY_BLOCK);
    float p[LAP_KEY_BLOCK] = {0};
    memcpy(p + (from - block), score + (from - begin), (size_t)(to - from) * sizeof(float));
    float correction =
        lap_softmax_block_portable(p, (int)(from - block), (int)(to - block), state->m, state->l);
    lap_attend_rescale(state->acc, kv->head_dim, correction);
    lap_attend_rescale(bias_acc, groups, correction);
    for (int64_t at = from; at < to; at++)
      lap_values1_portable(kv->bits, kv, at % kv->capacity, 1, p + (at - block), state->acc, bias_acc);
  }
  for (int d = 0; groups && d < kv->head_dim; d++) state->acc[d] += bias_acc[d / kv->group_size];
}

/* Task: one head of one row. A check, so it reads its shape at run time and is there once. */
static inline void lap_attend_plain(const lap_attend_shape s, const lap_attend_run *run, int task,
                                    int thread) {
  const int head = task % s.heads;
  const lap_tile tile = {task / s.heads, 1};
  const lap_kv_view kv = lap_attend_view(s, run, &tile, head / (s.heads / s.kv_heads));
  lap_tile_queries t;
  int64_t low, high;
  float *q = lap_attend_place(s, &run->memory, thread, 1, &t);
  lap_attend_gather(s, run, &tile, head, 1, q, &t, &low, &high);
  float *score = t.scratch + lap_attend_scratch(LAP_TILE_QUERIES, s.head_dim), *bias_acc = t.scratch;
  for (int64_t at = low; at < high;) {
    int64_t slot, n = lap_slot_run(kv.capacity, at, high, &slot);
    lap_attend_plain_scores(&kv, &t.queries, slot, (int)n, score + (at - low));
    at += n;
  }
  const lap_attend_state state = lap_attend_state_at(t.states[0], 1),
                         later = lap_attend_state_at(t.states[1], 1);
  for (int64_t begin = low; begin < high;) {
    int64_t end = lap_min64(high, (begin / LAP_KEY_SPAN + 1) * LAP_KEY_SPAN);
    lap_attend_plain_span(&kv, begin, end, score + (begin - low), begin == low ? &state : &later, bias_acc);
    if (begin > low) lap_attend_fold(1, s.head_dim, &state, &later);
    begin = end;
  }
  lap_attend_scatter(s, run, &tile, head, 1, &state);
}

static inline void lap_attend_plain_task(void *context, int task, int thread) {
  const lap_attend_run *run = (const lap_attend_run *)context;
  lap_attend_shape s = *run->shape;
  const lap_pass_cache *kv = lap_pass_kv(run->pass, run->pass->row[task / s.heads].segment, run->cache);
  s.bits = kv->bits;
  s.group_size = kv->group_size;
  lap_attend_plain(s, run, task, thread);
}

/* ---- all tasks ---- */

/* Consecutive rows of one segment, as many as fill a tile. */
static inline int lap_attend_tiles(const lap_pass *pass, int tile_rows, lap_tile *tiles) {
  int count = 0;
  for (int row = 0; row < pass->rows;) {
    int end = row + 1;
    while (end < pass->rows && end - row < tile_rows && pass->row[end].segment == pass->row[row].segment)
      end++;
    tiles[count++] = (lap_tile){row, end - row};
    row = end;
  }
  return count;
}

/* Attention of all rows over cache `cache` of their segments; `query` is replaced by the output, whose forms
 * go into `output` if the shape has some (else NULL). */
static inline void lap_run_attention(const lap_attend_shape s, const lap_attend_code *code,
                                     const lap_pass *pass, const lap_attend_memory *memory, float *query,
                                     const lap_input *output, int cache) {
  lap_attend_run run = {
      .pass = pass, .shape = &s, .memory = *memory, .query = query, .output = output, .cache = cache};
  if ((pass->attention == LAP_ATTENTION_AUTO ? code->method : pass->attention) == LAP_ATTENTION_PLAIN) {
    lap_team_run(&pass->team, pass->rows * s.heads, lap_attend_plain_task, &run);
    return;
  }
  int groups = lap_attend_groups(s);
  int tiles = lap_attend_tiles(pass, LAP_TILE_QUERIES / lap_attend_heads(s), memory->tiles);
  int64_t last_span;
  lap_attend_reach(pass, s.window, &run.first_span, &last_span);
  if (pass->rows > LAP_SPLIT_ROWS || last_span == run.first_span || pass->team.threads == 1) {
    lap_team_run(&pass->team, tiles * groups, code->tile, &run);
    return;
  }
  run.spans = (int)(last_span - run.first_span + 1);
  lap_team_run(&pass->team, tiles * groups * run.spans, code->tile, &run);
  lap_team_run(&pass->team, tiles * groups, code->fold, &run);
}

#endif
