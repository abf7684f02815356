/* select.c: which form of the kernels runs. Results do not depend on it, only speed does. */
#include <stdlib.h>

#include "kernels/kernels.h"

static bool processor_has_avx2(void) {
#if defined(__x86_64__)
  /* Every processor with AVX2 and FMA has F16C, which clang 14 cannot be asked for. */
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

lap_status lap_kernels_select(const lap_kernels **out, lap_error *error) {
  const char *name = getenv("LAPIDARY_ISA");
  *out = &lap_kernels_portable;
  if (name && strcmp(name, "portable") == 0) return LAP_OK;
  if (name && *name && strcmp(name, "avx2") != 0)
    return lap_fail(error, LAP_ERROR_ARGUMENT, "LAPIDARY_ISA: '%s' is not one of portable, avx2", name);
#if defined(__x86_64__)
  if (processor_has_avx2()) *out = &lap_kernels_avx2;
#endif
  if (name && *name && *out == &lap_kernels_portable)
    return lap_fail(error, LAP_ERROR_UNSUPPORTED, "LAPIDARY_ISA: this processor has no %s", name);
  return LAP_OK;
}
