/* attend.c: the walk over blocks of keys. The arithmetic stands in attention.h and the products.
 *
 * A block is scored for all queries at once (scores of keys that a query does not see are computed
 * and ignored). Values are added for all queries together where every one sees the whole stretch,
 * and query by query where ranges begin or end inside the block; per element the order is the same. */
#include "kernels/attend.h"

static int max_groups(int head_dim) {
  return head_dim / 32;
}

size_t lap_attend_scratch(int queries, int head_dim) {
  return (size_t)queries * (size_t)(LAP_KEY_BLOCK + max_groups(head_dim));
}

void lap_attend_begin(lap_attend_state *state, int queries, int head_dim) {
  for (int t = 0; t < queries; t++) {
    state->m[t] = -INFINITY;
    state->l[t] = 0.0f;
  }
  memset(state->acc, 0, (size_t)queries * (size_t)head_dim * sizeof(float));
}

/* Scores of positions [from, to) of one block into s, column position - block. */
static void score(const lap_kernels *kernels, const lap_kv_view *kv, const lap_attend_queries *queries,
                  int64_t block, int64_t from, int64_t to, float *s) {
  while (from < to) {
    int64_t slot;
    int n = (int)lap_slot_run(kv->capacity, from, to, &slot);
    float *column = s + (from - block);
    if (kv->bits == 16) {
      lap_imatrix keys = {
          .codes = kv->k + (size_t)slot * kv->row_bytes,
          .scales = kv->k_scales + (size_t)slot * kv->scale_bytes,
          .row_bytes = kv->row_bytes,
          .scale_bytes = kv->scale_bytes,
          .cols = kv->head_dim,
          .group_size = kv->group_size,
      };
      kernels->matmul_int16(&keys, queries->q, (size_t)kv->head_dim, queries->count, n, column,
                            LAP_KEY_BLOCK);
    } else {
      lap_qmatrix keys = {
          .codes = kv->k + (size_t)slot * kv->row_bytes,
          .scales = kv->k_scales + (size_t)slot * kv->scale_bytes,
          .biases = kv->k_biases + (size_t)slot * kv->scale_bytes,
          .row_bytes = kv->row_bytes,
          .scale_stride = kv->scale_bytes / sizeof(float),
          .cols = kv->head_dim,
          .bits = kv->bits,
          .group_size = kv->group_size,
          .format = LAP_FORMAT_F32,
      };
      kernels->matmul_quantized(&keys, queries->qx, queries->qx_first, queries->count, 0, n, column,
                                LAP_KEY_BLOCK);
    }
    from += n;
  }
}

/* Values of positions [from, to) into the accumulators of queries first..first+count-1. */
static void add_values(const lap_kernels *kernels, const lap_kv_view *kv, int first, int count, int64_t block,
                       int64_t from, int64_t to, const float *p, float *acc, float *bias_acc) {
  int groups = lap_kv_bias_groups(kv);
  while (from < to) {
    int64_t slot;
    int n = (int)lap_slot_run(kv->capacity, from, to, &slot);
    kernels->values(kv, count, slot, n, p + first * LAP_KEY_BLOCK + (from - block),
                    acc + first * kv->head_dim, bias_acc + first * groups);
    from += n;
  }
}

static void rescale(float *x, int n, float factor) {
  for (int i = 0; i < n; i++) x[i] *= factor;
}

static void attend_block(const lap_kernels *kernels, const lap_kv_view *kv, const lap_attend_queries *queries,
                         int64_t block, int64_t begin, int64_t end, lap_attend_state *state, float *s,
                         float *bias_acc) {
  int groups = lap_kv_bias_groups(kv);
  int64_t from = INT64_MAX, to = INT64_MIN; /* seen by some query */
  int64_t all_from = begin, all_to = end;   /* seen by every query */
  for (int t = 0; t < queries->count; t++) {
    from = lap_min64(from, queries->low[t]);
    to = lap_max64(to, queries->high[t]);
    all_from = lap_max64(all_from, queries->low[t]);
    all_to = lap_min64(all_to, queries->high[t]);
  }
  from = lap_max64(from, begin);
  to = lap_min64(to, end);
  if (from >= to) return;
  score(kernels, kv, queries, block, from, to, s);
  for (int t = 0; t < queries->count; t++) {
    int first = (int)(lap_max64(begin, queries->low[t]) - block),
        last = (int)(lap_min64(end, queries->high[t]) - block);
    float *row = s + t * LAP_KEY_BLOCK;
    if (first >= last) continue;
    float correction = kernels->softmax_block(row, first, last, &state->m[t], &state->l[t]);
    if (correction == 1.0f) continue;
    rescale(state->acc + t * kv->head_dim, kv->head_dim, correction);
    rescale(bias_acc + t * groups, groups, correction);
  }
  if (all_from == from && all_to == to) {
    add_values(kernels, kv, 0, queries->count, block, from, to, s, state->acc, bias_acc);
    return;
  }
  for (int t = 0; t < queries->count; t++)
    add_values(kernels, kv, t, 1, block, lap_max64(begin, queries->low[t]), lap_min64(end, queries->high[t]),
               s, state->acc, bias_acc);
}

void lap_attend_span(const lap_kernels *kernels, const lap_kv_view *kv, const lap_attend_queries *queries,
                     int64_t begin, int64_t end, lap_attend_state *state, float *scratch) {
  int groups = lap_kv_bias_groups(kv);
  float *s = scratch;
  float *bias_acc = scratch + queries->count * LAP_KEY_BLOCK;
  memset(scratch, 0, lap_attend_scratch(queries->count, kv->head_dim) * sizeof(float));
  lap_attend_begin(state, queries->count, kv->head_dim);
  for (int64_t block = begin / LAP_KEY_BLOCK * LAP_KEY_BLOCK; block < end; block += LAP_KEY_BLOCK)
    attend_block(kernels, kv, queries, block, lap_max64(block, begin), lap_min64(block + LAP_KEY_BLOCK, end),
                 state, s, bias_acc);
  if (!groups) return;
  for (int t = 0; t < queries->count; t++)
    for (int d = 0; d < kv->head_dim; d++)
      state->acc[t * kv->head_dim + d] += bias_acc[t * groups + d / kv->group_size];
}

void lap_attend_fold(const lap_kernels *kernels, int queries, int head_dim, lap_attend_state *state,
                     const lap_attend_state *later) {
  for (int t = 0; t < queries; t++) {
    float *acc = state->acc + t * head_dim;
    const float *more = later->acc + t * head_dim;
    if (later->l[t] == 0.0f) continue;
    if (state->l[t] == 0.0f) {
      state->m[t] = later->m[t];
      state->l[t] = later->l[t];
      memcpy(acc, more, (size_t)head_dim * sizeof(float));
      continue;
    }
    float top = later->m[t] > state->m[t] ? later->m[t] : state->m[t];
    float old_factor = kernels->exp(state->m[t] - top), new_factor = kernels->exp(later->m[t] - top);
    state->m[t] = top;
    state->l[t] = lap_fma(later->l[t], new_factor, state->l[t] * old_factor);
    for (int d = 0; d < head_dim; d++) acc[d] = lap_fma(more[d], new_factor, acc[d] * old_factor);
  }
}

void lap_attend_finish(int queries, int head_dim, const lap_attend_state *state, float *out,
                       size_t out_stride) {
  for (int t = 0; t < queries; t++) {
    float inverse = 1.0f / state->l[t];
    for (int d = 0; d < head_dim; d++)
      out[(size_t)t * out_stride + (size_t)d] = state->acc[t * head_dim + d] * inverse;
  }
}
