/* monolith.h: the general forward pass, one variant for each instruction set. pass->plan is a lap_plan. */
#ifndef LAP_CPU_MONOLITH_H
#define LAP_CPU_MONOLITH_H

#include "checkpoint/plan.h"
#include "pass/pass.h"

extern const lap_forward_code lap_monolith_portable;
#if defined(__x86_64__)
extern const lap_forward_code lap_monolith_avx2;
extern const lap_forward_code lap_monolith_avx512;
#elif defined(__aarch64__)
extern const lap_forward_code lap_monolith_neon;
#endif

#endif
