/* device.h: what a machine must offer to run forward passes. This page and one implementation (src/cpu/cpu.c)
 * are enough to write another.
 *
 * A device has memory that nobody else looks into. It brings the tensors of a plan there once, in whatever
 * order it likes to read them (bind), and runs passes over them with its threads or streams and with scratch
 * memory (a runner). All else is the host's: caches, sequences, snapshots, batches hold addresses and sizes,
 * and ask the device to write, read and copy.
 *
 * Invariant: by the numerics contract (docs/numerics.md) every device gives the same bits; and planes of keys
 * and values have the layout of kv_layout.h everywhere. So a sequence may go on on another device. */
#ifndef LAP_DEVICE_DEVICE_H
#define LAP_DEVICE_DEVICE_H

#include "base/error.h"
#include "checkpoint/plan.h"
#include "device/kv_layout.h"
#include "device/row.h"

/* A byte of a device's memory; 0: none. Sums with offsets are addresses too. Only the device looks through
 * it. */
typedef uintptr_t lap_address;

/* The three begin as follows; what comes after is the implementation's. */
typedef struct lap_device {
  const struct lap_driver *driver;
} lap_device;

typedef struct lap_bound { /* a plan on a device: weights, and code that computes with them; shared by threads
                            */
  lap_device *device;
  const lap_plan *plan;
} lap_bound;

typedef struct lap_runner { /* runs one pass at a time, called by one thread */
  lap_bound *bound;
} lap_runner;

/* What a cache is, and where it stands. */
typedef struct lap_cache_shape {
  int kv_heads;
  int head_dim;
  int64_t window; /* 0 = growing */
  int bits;       /* 4, 8; 16 = plain */
  int group_size; /* 32, 64, 128; plain: lap_plain_group */
} lap_cache_shape;

typedef struct lap_cache_place {
  lap_cache_shape shape;
  lap_address plane[LAP_KV_PLANES];
  int64_t capacity; /* slots */
} lap_cache_place;

/* Sees intermediate rows in the host's memory: "embedding", "per_layer_input", "layer", "router" (indices,
 * then weights, as floats), "final_norm". With a probe every row passes through every layer. */
typedef struct lap_probe {
  void (*see)(void *context, const char *name, int layer, const float *data, int rows, int width);
  void *context;
} lap_probe;

/* A pass. The device may reorder the rows and let those go of which nothing is wanted. */
typedef struct lap_work {
  int rows;
  lap_row *row; /* [rows]; those of a segment follow each other, positions ascend */
  int segments;
  const lap_cache_place *cache; /* [segments, plan->caches], with room for the rows */
  lap_path path;
  const lap_probe *probe; /* NULL: nobody watches */
} lap_work;

typedef struct lap_outcome {
  lap_path served;      /* by the monolith or by the cut */
  int64_t bad_position; /* the first whose logits are not finite, or -1 */
} lap_outcome;

typedef struct lap_device_options {
  const char *isa; /* CPU: the variant of the kernels; NULL: the fastest that runs here */
} lap_device_options;

typedef struct lap_runner_options {
  int threads;           /* CPU: 0 = the cores available to the process */
  const char *attention; /* CPU: the method, "tiled" or "plain"; NULL: as the code that computes chooses */
} lap_runner_options;

typedef struct lap_driver {
  const char *name;

  /* Errors: ARGUMENT, UNSUPPORTED, MEMORY. */
  lap_status (*open)(const lap_device_options *options, lap_device **out, lap_error *error);
  void (*close)(lap_device *device);
  /* Which of its kind it is, in a word: "avx2". */
  const char *(*variant)(const lap_device *device);

  /* Memory, 64-byte aligned, not cleared. A device that fails while it moves bytes says so: IO. */
  lap_status (*allocate)(lap_device *device, size_t bytes, lap_address *out, lap_error *error);
  void (*release)(lap_device *device, lap_address address);
  lap_status (*write)(lap_device *device, lap_address to, const void *from, size_t bytes, lap_error *error);
  lap_status (*read)(lap_device *device, lap_address from, void *to, size_t bytes, lap_error *error);
  lap_status (*copy)(lap_device *device, lap_address from, lap_address to, size_t bytes, lap_error *error);
  /* Bytes that could be allocated; 0: unknown. */
  uint64_t (*available)(lap_device *device);
  /* Plain keys and values of positions first .. end - 1 into a quantized cache, as if written there at once.
   */
  lap_status (*convert)(lap_device *device, const lap_cache_place *from, const lap_cache_place *to,
                        int64_t first, int64_t end, lap_error *error);

  /* Plan and tensors must outlive the result. Tensors NULL: the code alone, to foresee what it takes. Finds
   * the plan's cut, if there is one; that there is none is no error. Errors: MEMORY. */
  lap_status (*bind)(lap_device *device, const lap_plan *plan, const lap_tensors *tensors, lap_bound **out,
                     lap_error *error);
  void (*unbind)(lap_bound *bound);
  /* Begins to bring weights near, in a thread of its own, until the first pass; a no-op where that is no use.
   */
  void (*warm)(lap_bound *bound);
  lap_cut_info (*cut)(const lap_bound *bound);
  /* Takes the cut stored at `path` in place of the one that there is. Errors: FORMAT (with the reason). */
  lap_status (*load_cut)(lap_bound *bound, const char *path, lap_error *error);

  /* Errors: ARGUMENT, MEMORY, IO (threads). */
  lap_status (*open_runner)(lap_bound *bound, const lap_runner_options *options, lap_runner **out,
                            lap_error *error);
  void (*close_runner)(lap_runner *runner);
  int (*threads)(const lap_runner *runner);
  /* Bytes of scratch that the runner holds; and that one of so many threads will hold for work, of which
   * planes and capacities of caches need not be set. */
  size_t (*scratch_held)(const lap_runner *runner);
  size_t (*scratch_for)(const lap_bound *bound, int threads, const lap_work *work);
  /* Makes scratch for the work, so that run cannot fail for want of memory. Errors: MEMORY. */
  lap_status (*reserve)(lap_runner *runner, const lap_work *work, lap_error *error);
  /* Computes. When it returns, keys and values of all rows are in the caches, and what was wanted of a row is
   * where the row says. Errors: IO, of a device that fails. */
  lap_status (*run)(lap_runner *runner, const lap_work *work, lap_outcome *outcome, lap_error *error);
} lap_driver;

/* Opens the device called `name`. Errors: ARGUMENT (no such device), those of open. */
lap_status lap_device_open(const char *name, const lap_device_options *options, lap_device **out,
                           lap_error *error);

#endif
