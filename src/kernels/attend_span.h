/* attend_span.h: the walk over blocks of keys. The arithmetic stands in attention.h and the products.
 *
 * A block is scored for all queries at once (scores of keys that a query does not see are computed
 * and ignored). Values are added for all queries together where every one sees the whole stretch,
 * and query by query where ranges begin or end inside the block; per element the order is the same.
 *
 * The kind of the cache (bits, group size, head size) comes in `kv`; where the caller builds that of
 * constants, they are constants here. Every function is compiled for the instruction set of its file. */
#ifndef LAP_KERNELS_ATTEND_SPAN_H
#define LAP_KERNELS_ATTEND_SPAN_H

#include "kernels/attend.h"
#include "kernels/matmul_int16.h"
#include "kernels/matmul_woven.h"

/* Sets m = -infinity, l = 0, acc = 0. */
LAP_INLINE void lap_attend_begin(const lap_attend_state *state, int queries, const int head_dim) {
  for (int t = 0; t < queries; t++) {
    state->m[t] = -INFINITY;
    state->l[t] = 0.0f;
  }
  memset(state->acc, 0, (size_t)queries * (size_t)head_dim * sizeof(float));
}

/* Scores of eight and more queries at once, whose rows are woven: a body for each usual kind of cache, there
 * once, however often it is called. */
#define LAP_SCORE_WOVEN(bits, group_size)                                                                  \
  static __attribute__((noinline, unused)) void lap_score_woven_##bits##_##group_size(                     \
      const lap_qmatrix *keys, const lap_qrows *x, int first, int count, int n, float *s, size_t stride) { \
    lap_matmul_rows(bits, group_size, keys, x, first, count, 0, n, s, stride);                             \
  }
LAP_SCORE_WOVEN(4, 64)
LAP_SCORE_WOVEN(8, 64)

/* True if queries of this kind are to be woven. */
LAP_INLINE int lap_attend_weaves(const int bits, const int group_size, int queries, const int head_dim) {
  return (bits == 4 || bits == 8) && group_size == 64 && lap_weaves(queries, head_dim);
}

LAP_INLINE void lap_attend_score_codes(const int bits, const int group_size, const lap_qmatrix *keys,
                                       const lap_qrows *x, int first, int count, int n, float *s,
                                       size_t stride) {
  if (!x->woven)
    LAP_ISA(lap_matmul_quantized)(bits, group_size, keys, x, first, count, 0, n, s, stride);
  else if (bits == 4)
    lap_score_woven_4_64(keys, x, first, count, n, s, stride);
  else
    lap_score_woven_8_64(keys, x, first, count, n, s, stride);
}

/* Scores of the n consecutive slots from `slot` for queries first..first+count-1 into s (stride `stride`). */
LAP_INLINE void lap_attend_score(const int bits, const int group_size, const lap_kv_view *kv,
                                 const lap_attend_queries *queries, int first, int count, int64_t slot, int n,
                                 float *s, size_t stride) {
  if (bits == 16) {
    const lap_imatrix keys = {
        .codes = kv->k + (size_t)slot * kv->row_bytes,
        .scales = kv->k_scales + (size_t)slot * kv->scale_bytes,
        .row_bytes = kv->row_bytes,
        .scale_bytes = kv->scale_bytes,
        .cols = kv->head_dim,
        .group_size = group_size,
    };
    LAP_ISA(lap_matmul_int16)
    (&keys, queries->q + (size_t)first * (size_t)kv->head_dim, (size_t)kv->head_dim, count, n, s, stride);
  } else {
    const lap_qmatrix keys = {
        .codes = kv->k + (size_t)slot * kv->row_bytes,
        .scales = kv->k_scales + (size_t)slot * kv->scale_bytes,
        .biases = kv->k_biases + (size_t)slot * kv->scale_bytes,
        .row_bytes = kv->row_bytes,
        .scale_stride = kv->scale_bytes / sizeof(float),
        .cols = kv->head_dim,
        .bits = bits,
        .group_size = group_size,
        .format = LAP_FORMAT_F32,
    };
    lap_attend_score_codes(bits, group_size, &keys, queries->qx, queries->qx_first + first, count, n, s,
                           stride);
  }
}

/* Values of positions [from, to) into the accumulators of queries first..first+count-1. */
LAP_INLINE void lap_attend_add_values(const int bits, const lap_kv_view *kv, int first, int count,
                                      int64_t block, int64_t from, int64_t to, const float *p, float *acc,
                                      float *bias_acc) {
  const int groups = lap_kv_bias_groups(kv);
  while (from < to) {
    int64_t slot;
    int n = (int)lap_slot_run(kv->capacity, from, to, &slot);
    LAP_ISA(lap_values)
    (bits, kv, count, slot, n, p + first * LAP_KEY_BLOCK + (from - block), acc + first * kv->head_dim,
     bias_acc + first * groups);
    from += n;
  }
}

LAP_INLINE void lap_attend_rescale(float *x, const int n, float factor) {
  for (int i = 0; i < n; i++) x[i] *= factor;
}

LAP_INLINE void lap_attend_block(const int bits, const int group_size, const lap_kv_view *kv,
                                 const lap_attend_queries *queries, int64_t block, int64_t begin, int64_t end,
                                 const lap_attend_state *state, float *s, float *bias_acc) {
  const int groups = lap_kv_bias_groups(kv);
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
  for (int64_t at = from; at < to;) {
    int64_t slot;
    int n = (int)lap_slot_run(kv->capacity, at, to, &slot);
    lap_attend_score(bits, group_size, kv, queries, 0, queries->count, slot, n, s + (at - block),
                     LAP_KEY_BLOCK);
    at += n;
  }
  for (int t = 0; t < queries->count; t++) {
    int first = (int)(lap_max64(begin, queries->low[t]) - block),
        last = (int)(lap_min64(end, queries->high[t]) - block);
    if (first >= last) continue;
    float correction =
        LAP_ISA(lap_softmax_block)(s + t * LAP_KEY_BLOCK, first, last, &state->m[t], &state->l[t]);
    if (correction == 1.0f) continue;
    lap_attend_rescale(state->acc + t * kv->head_dim, kv->head_dim, correction);
    lap_attend_rescale(bias_acc + t * groups, groups, correction);
  }
  /* One call in the code, so that the bodies are there once: all queries together, or one by one. */
  const int together = all_from == from && all_to == to;
  const int step = together ? queries->count : 1;
  for (int t = 0; t < queries->count; t += step)
    lap_attend_add_values(bits, kv, t, step, block, together ? from : lap_max64(begin, queries->low[t]),
                          together ? to : lap_min64(end, queries->high[t]), s, state->acc, bias_acc);
}

/* Attends to positions [begin, end), which lie within one span, from an empty state. scratch
 * [lap_attend_scratch]. */
LAP_INLINE void lap_attend_span(const int bits, const int group_size, const lap_kv_view *kv,
                                const lap_attend_queries *queries, int64_t begin, int64_t end,
                                const lap_attend_state *state, float *scratch) {
  const int groups = lap_kv_bias_groups(kv), head_dim = kv->head_dim;
  float *s = scratch;
  float *bias_acc = scratch + queries->count * LAP_KEY_BLOCK;
  memset(scratch, 0, lap_attend_scratch(queries->count, head_dim) * sizeof(float));
  lap_attend_begin(state, queries->count, head_dim);
  for (int64_t block = begin / LAP_KEY_BLOCK * LAP_KEY_BLOCK; block < end; block += LAP_KEY_BLOCK)
    lap_attend_block(bits, group_size, kv, queries, block, lap_max64(block, begin),
                     lap_min64(block + LAP_KEY_BLOCK, end), state, s, bias_acc);
  if (bits == 16) return;
  for (int t = 0; t < queries->count; t++)
    for (int d = 0; d < head_dim; d++) state->acc[t * head_dim + d] += bias_acc[t * groups + d / group_size];
}

/* Folds `later` (the next span) into `state`. */
LAP_INLINE void lap_attend_fold(int queries, const int head_dim, const lap_attend_state *state,
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
    float old_factor = lap_exp_portable(state->m[t] - top), new_factor = lap_exp_portable(later->m[t] - top);
    state->m[t] = top;
    state->l[t] = lap_fma(later->l[t], new_factor, state->l[t] * old_factor);
    for (int d = 0; d < head_dim; d++) acc[d] = lap_fma(more[d], new_factor, acc[d] * old_factor);
  }
}

/* out[t * head_dim + d] = acc / l. */
LAP_INLINE void lap_attend_finish(int queries, const int head_dim, const lap_attend_state *state,
                                  float *out) {
  for (int t = 0; t < queries; t++) {
    float inverse = 1.0f / state->l[t];
    for (int d = 0; d < head_dim; d++) out[t * head_dim + d] = state->acc[t * head_dim + d] * inverse;
  }
}

#endif
