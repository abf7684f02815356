/* cpu.h: the inside of the CPU's device: for its own files, for the cutter, which compiles for it, and for
 * tests and measurements of kernels. Everybody else sees device.h. */
#ifndef LAP_CPU_CPU_H
#define LAP_CPU_CPU_H

#include "cpu/registry.h"
#include "cpu/warming.h"
#include "device/device.h"
#include "kernels/kernels.h"

extern const lap_driver lap_cpu_driver;

typedef struct lap_cpu_device {
  lap_device device;
  const lap_kernels *kernels;
} lap_cpu_device;

/* Read-only once it is bound, but for the thread that warms. */
typedef struct lap_cpu_bound {
  lap_bound bound;
  const lap_kernels *kernels;
  const lap_forward_code *monolith;
  lap_found_cut cut;
  lap_weights *weights;      /* NULL: bound without tensors */
  double *rope_frequency[2]; /* by lap_attention, [rope[].rotated_pairs] */
  const lap_tensors *tensors;
  lap_warming warming;
} lap_cpu_bound;

static inline lap_cpu_bound *lap_cpu_of(const lap_bound *bound) {
  return (lap_cpu_bound *)(uintptr_t)bound;
}

/* Addresses of this device are pointers. */
static inline unsigned char *lap_cpu_pointer(lap_address address) {
  return (unsigned char *)address;
}

/* A cache as kernels read and write it. */
lap_kv_planes lap_cpu_planes(const lap_cache_place *place);

/* The methods of lap_driver that run passes (runner.c). */
lap_status lap_cpu_open_runner(lap_bound *bound, const lap_runner_options *options, lap_runner **out,
                               lap_error *error);
void lap_cpu_close_runner(lap_runner *runner);
int lap_cpu_threads(const lap_runner *runner);
size_t lap_cpu_scratch_held(const lap_runner *runner);
size_t lap_cpu_scratch_for(const lap_bound *bound, int threads, const lap_work *work);
lap_status lap_cpu_reserve(lap_runner *runner, const lap_work *work, lap_error *error);
lap_status lap_cpu_run(lap_runner *runner, const lap_work *work, lap_outcome *outcome, lap_error *error);

#endif
