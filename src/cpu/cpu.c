/* cpu.c: the processor as a device: its memory is the host's, an address is a pointer, and weights stay in
 * the files that are mapped. runner.c runs the passes. */
#include "cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/bind.h"
#include "cpu/monolith.h"
#include "kernels/rope.h"
#include "program/fingerprint.h"

static const lap_cpu_device *inside(const lap_device *device) {
  return (const lap_cpu_device *)device;
}

/* ---- the device ---- */

static lap_status open(const lap_device_options *options, lap_device **out, lap_error *error) {
  *out = NULL;
  lap_cpu_device *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a device");
  cpu->device.driver = &lap_cpu_driver;
  lap_status status = lap_kernels_select(options ? options->isa : NULL, &cpu->kernels, error);
  if (status == LAP_OK)
    *out = &cpu->device;
  else
    free(cpu);
  return status;
}

static void close(lap_device *device) {
  free(device);
}

static const char *variant(const lap_device *device) {
  return inside(device)->kernels->name;
}

/* ---- memory ---- */

enum {
  ALIGNMENT = 64
};

static lap_status allocate(lap_device *device, size_t bytes, lap_address *out, lap_error *error) {
  (void)device;
  void *data = bytes > SIZE_MAX - ALIGNMENT
                   ? NULL
                   : aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
  *out = (lap_address)data;
  return data ? LAP_OK : lap_fail(error, LAP_ERROR_MEMORY, "out of memory: %zu bytes", bytes);
}

static void release(lap_device *device, lap_address address) {
  (void)device;
  free(lap_cpu_pointer(address));
}

static lap_status write(lap_device *device, lap_address to, const void *from, size_t bytes,
                        lap_error *error) {
  (void)device, (void)error;
  memcpy(lap_cpu_pointer(to), from, bytes);
  return LAP_OK;
}

static lap_status read(lap_device *device, lap_address from, void *to, size_t bytes, lap_error *error) {
  (void)device, (void)error;
  memcpy(to, lap_cpu_pointer(from), bytes);
  return LAP_OK;
}

static lap_status copy(lap_device *device, lap_address from, lap_address to, size_t bytes, lap_error *error) {
  (void)device, (void)error;
  memcpy(lap_cpu_pointer(to), lap_cpu_pointer(from), bytes);
  return LAP_OK;
}

static uint64_t available(lap_device *device) {
  (void)device;
  return lap_available_memory("");
}

/* ---- caches ---- */

lap_kv_planes lap_cpu_planes(const lap_cache_place *place) {
  lap_kv_planes planes = {.capacity = place->capacity};
  for (int i = 0; i < LAP_KV_PLANES; i++) planes.plane[i] = lap_cpu_pointer(place->plane[i]);
  return planes;
}

static void convert_position(const lap_kernels *kernels, const lap_cache_place *from,
                             const lap_cache_place *to, int64_t position) {
  const lap_cache_shape *plain = &from->shape, *quantized = &to->shape;
  const lap_kv_planes source = lap_cpu_planes(from), target = lap_cpu_planes(to);
  float k[LAP_MAX_HEAD_DIM], v[LAP_MAX_HEAD_DIM];
  for (int head = 0; head < plain->kv_heads; head++) {
    const lap_kv_view view =
        lap_kv_planes_view(plain->bits, plain->group_size, plain->head_dim, plain->kv_heads, &source, head);
    const size_t row = (size_t)(position % from->capacity) * view.row_bytes;
    const size_t scale = (size_t)(position % from->capacity) * view.scale_bytes;
    for (int d = 0; d < plain->head_dim; d++) {
      const int at = 4 * (d / view.group_size);
      k[d] = lap_load_f32(view.k_scales + scale + at) * lap_code_at(LAP_PLAIN_BITS, view.k + row, d);
      v[d] = lap_load_f32(view.v_scales + scale + at) * lap_code_at(LAP_PLAIN_BITS, view.v + row, d);
    }
    kernels->kv_write(quantized->bits, quantized->group_size, quantized->head_dim, quantized->kv_heads,
                      &target, position, head, k, v);
  }
}

static lap_status convert(lap_device *device, const lap_cache_place *from, const lap_cache_place *to,
                          int64_t first, int64_t end, lap_error *error) {
  (void)error;
  for (int64_t position = first; position < end; position++)
    convert_position(inside(device)->kernels, from, to, position);
  return LAP_OK;
}

/* ---- models ---- */

static lap_status make_frequencies(lap_cpu_bound *cpu, lap_error *error) {
  const lap_plan *plan = cpu->bound.plan;
  for (int type = 0; type < 2; type++) {
    const lap_rope *rope = &plan->rope[type];
    cpu->rope_frequency[type] = malloc((size_t)(rope->rotated_pairs + 1) * sizeof(double));
    if (!cpu->rope_frequency[type])
      return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the RoPE tables");
    lap_rope_frequencies(rope->theta, rope->factor, plan->head_dim[type], rope->rotated_pairs,
                         cpu->rope_frequency[type]);
  }
  return LAP_OK;
}

static const lap_forward_code *monolith_for(const lap_kernels *kernels) {
#if defined(__x86_64__)
#ifdef LAP_WITH_AVX512
  if (kernels == &lap_kernels_avx512) return &lap_monolith_avx512;
#endif
  if (kernels == &lap_kernels_avx2) return &lap_monolith_avx2;
#elif defined(__aarch64__)
  if (kernels == &lap_kernels_neon) return &lap_monolith_neon;
#endif
  (void)kernels;
  return &lap_monolith_portable;
}

static void unbind(lap_bound *bound) {
  lap_cpu_bound *cpu = lap_cpu_of(bound);
  if (!cpu) return;
  lap_warming_end(&cpu->warming);
  lap_registry_release(&cpu->cut);
  for (int type = 0; type < 2; type++) free(cpu->rope_frequency[type]);
  lap_weights_free(cpu->weights);
  free(cpu);
}

static lap_status bind(lap_device *device, const lap_plan *plan, const lap_tensors *tensors, lap_bound **out,
                       lap_error *error) {
  *out = NULL;
  lap_cpu_bound *cpu = calloc(1, sizeof *cpu);
  if (!cpu) return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a model");
  cpu->bound = (lap_bound){device, plan};
  cpu->kernels = inside(device)->kernels;
  cpu->monolith = monolith_for(cpu->kernels);
  cpu->tensors = tensors;
  lap_status status = lap_cut_fingerprint(plan, cpu->cut.fingerprint, error);
  if (status == LAP_OK) status = lap_cut_structure(plan, cpu->cut.structure, error);
  if (status == LAP_OK) lap_registry_find(cpu->kernels->name, &cpu->cut);
  if (status == LAP_OK && tensors) status = lap_weights_bind(plan, tensors, &cpu->weights, error);
  if (status == LAP_OK) status = make_frequencies(cpu, error);
  if (status == LAP_OK)
    *out = &cpu->bound;
  else
    unbind(&cpu->bound);
  return status;
}

static void warm(lap_bound *bound) {
  lap_cpu_bound *cpu = lap_cpu_of(bound);
  if (cpu->tensors) lap_warming_begin(&cpu->warming, bound->plan, cpu->tensors);
}

static lap_cut_info cut(const lap_bound *bound) {
  const lap_found_cut *found = &lap_cpu_of(bound)->cut;
  return (lap_cut_info){.fingerprint = found->fingerprint,
                        .available = found->code != NULL,
                        .path = found->path,
                        .why = found->why};
}

static lap_status load_cut(lap_bound *bound, const char *path, lap_error *error) {
  lap_cpu_bound *cpu = lap_cpu_of(bound);
  lap_found_cut found = {0};
  memcpy(found.fingerprint, cpu->cut.fingerprint, sizeof found.fingerprint);
  memcpy(found.structure, cpu->cut.structure, sizeof found.structure);
  if (!lap_registry_load(path, cpu->kernels->name, &found))
    return lap_fail(error, LAP_ERROR_FORMAT, "%s", found.why);
  lap_registry_release(&cpu->cut);
  cpu->cut = found;
  return LAP_OK;
}

const lap_driver lap_cpu_driver = {
    .name = "cpu",
    .open = open,
    .close = close,
    .variant = variant,
    .allocate = allocate,
    .release = release,
    .write = write,
    .read = read,
    .copy = copy,
    .available = available,
    .convert = convert,
    .bind = bind,
    .unbind = unbind,
    .warm = warm,
    .cut = cut,
    .load_cut = load_cut,
    .open_runner = lap_cpu_open_runner,
    .close_runner = lap_cpu_close_runner,
    .threads = lap_cpu_threads,
    .scratch_held = lap_cpu_scratch_held,
    .scratch_for = lap_cpu_scratch_for,
    .reserve = lap_cpu_reserve,
    .run = lap_cpu_run,
};
