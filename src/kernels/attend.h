/* attend.h: attention of a group of queries over one KV head: what goes in and what comes out.
 *
 * The queries of a call share a KV head: the heads of its group, and in prefill several positions.
 * Each has its own range of positions [low, high) and its own state, so the result of a query does
 * not depend on its company (attention.h states the order of summation; attend_span.h walks). */
#ifndef LAP_KERNELS_ATTEND_H
#define LAP_KERNELS_ATTEND_H

#include "kernels/attention.h"
#include "kernels/matmul_quantized.h"

LAP_INLINE int64_t lap_min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

LAP_INLINE int64_t lap_max64(int64_t a, int64_t b) {
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

/* Scratch that attending to a span needs, in floats. */
LAP_INLINE size_t lap_attend_scratch(int queries, int head_dim) {
  return (size_t)queries * (size_t)(LAP_KEY_BLOCK + head_dim / 32);
}

#endif
