/* attend.h: attention of a group of queries over one KV head, span by span.
 *
 * The queries of a call share a KV head: the heads of its group, and in prefill several positions.
 * Each has its own range of positions [low, high) and its own state, so the result of a query does
 * not depend on its company (attention.h states the order of summation). */
#ifndef LAP_KERNELS_ATTEND_H
#define LAP_KERNELS_ATTEND_H

#include "kernels/kernels.h"

static inline int64_t lap_min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int64_t lap_max64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* What a query has seen so far: acc / l is its output. */
typedef struct lap_attend_state {
  float *m;   /* [queries] */
  float *l;   /* [queries] */
  float *acc; /* [queries, head_dim] */
} lap_attend_state;

typedef struct lap_attend_queries {
  int count;
  const float *q;      /* [count, head_dim], read for plain caches */
  const lap_qrows *qx; /* rows qx_first.. read for 4 and 8-bit ones, block = min(64, group) */
  int qx_first;
  const int64_t *low;  /* [count] */
  const int64_t *high; /* [count] */
} lap_attend_queries;

/* Scratch that lap_attend_span needs, in floats. */
size_t lap_attend_scratch(int queries, int head_dim);

/* Sets m = -infinity, l = 0, acc = 0. */
void lap_attend_begin(lap_attend_state *state, int queries, int head_dim);

/* Attends to positions [begin, end), which lie within one span, from an empty state. */
void lap_attend_span(const lap_kernels *kernels, const lap_kv_view *kv, const lap_attend_queries *queries,
                     int64_t begin, int64_t end, lap_attend_state *state, float *scratch);

/* Folds `later` (the next span) into `state`. */
void lap_attend_fold(const lap_kernels *kernels, int queries, int head_dim, lap_attend_state *state,
                     const lap_attend_state *later);

/* out[t * out_stride + d] = acc / l. */
void lap_attend_finish(int queries, int head_dim, const lap_attend_state *state, float *out,
                       size_t out_stride);

#endif
