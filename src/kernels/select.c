/* select.c: which variant of the kernels runs. Results do not depend on it, only speed does. */
#include "kernels/kernels.h"

const lap_kernels *const lap_kernels_built[] = {
#if defined(__x86_64__)
#ifdef LAP_WITH_AVX512
    &lap_kernels_avx512,
#endif
    &lap_kernels_avx2,
#elif defined(__aarch64__)
    &lap_kernels_neon, /* every processor of this kind has it */
#endif
    &lap_kernels_portable,
    NULL,
};

bool lap_kernels_run_here(const lap_kernels *kernels) {
#if defined(__x86_64__)
  /* Every processor with AVX2 and FMA has F16C, which clang 14 cannot be asked for. Whether the operating
   * system keeps the registers is part of the answers. */
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (kernels == &lap_kernels_avx2) return avx2;
#ifdef LAP_WITH_AVX512
  if (kernels == &lap_kernels_avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
#endif
#endif
  (void)kernels;
  return true;
}

/* Of any processor. */
static bool is_name(const char *name) {
  static const char *const names[] = {"portable", "avx2", "avx512", "neon"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

lap_status lap_kernels_select(const char *name, const lap_kernels **out, lap_error *error) {
  for (int i = 0; lap_kernels_built[i]; i++) {
    *out = lap_kernels_built[i];
    if (lap_kernels_run_here(*out) && (!name || strcmp(name, (*out)->name) == 0)) return LAP_OK;
  }
  if (!is_name(name)) /* without one, the portable table was given */
    return lap_fail(error, LAP_ERROR_ARGUMENT, "isa: '%s' is not one of portable, avx2, avx512, neon", name);
  return lap_fail(error, LAP_ERROR_UNSUPPORTED, "isa: this processor (or this build) has no %s", name);
}
