/* cost.h: what a stretch of tokens costs, by the plan: the least that any implementation of this
 * architecture has to multiply, and the weights and KV that it reads. Rates are shown against this, so
 * superfluous work lowers a percentage and never raises it. */
#ifndef LAP_BENCH_COST_H
#define LAP_BENCH_COST_H

#include "checkpoint/plan.h"

typedef struct lap_bench_cost {
  double operations; /* multiplications, each with its addition, of linears and attention */
  double bytes;      /* weights and KV read */
} lap_bench_cost;

/* `tokens` one by one after `depth` others, the logits of each. */
lap_bench_cost lap_bench_decode_cost(const lap_plan *plan, int64_t depth, int64_t tokens);

/* `tokens` in chunks after `depth` others, the logits of the last. */
lap_bench_cost lap_bench_prompt_cost(const lap_plan *plan, int64_t depth, int64_t tokens, int64_t chunk);

#endif
