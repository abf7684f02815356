/* warming.c: the weights of a plan, one page in sixteen, in the order in which a pass reads them.
 *
 * Linux maps the neighbours of a page that is touched, those that are in memory, up to 64 KiB around it: so
 * one byte for each 64 KiB takes nearly all faults. Tables of which a token reads single rows are left alone.
 */
#include "cpu/warming.h"

#include "base/memory.h"
#include "base/pool.h"

enum {
  STEP = 64 << 10
};

static void touch(const lap_warming *warming, int32_t index) {
  if (index < 0) return;
  const lap_tensor *tensor = lap_tensors_at(warming->tensors, index);
  const volatile unsigned char *data = tensor->data;
  for (uint64_t at = 0; at < tensor->bytes; at += STEP) {
    if (atomic_load_explicit(&warming->stop, memory_order_relaxed)) return;
    (void)data[at];
  }
}

static void touch_linear(const lap_warming *warming, const lap_linear *linear) {
  if (!linear->present) return;
  touch(warming, linear->weight);
  if (linear->bits == 0) return;
  touch(warming, linear->scales);
  touch(warming, linear->biases);
}

static void *warm(void *context) {
  const lap_warming *warming = context;
  const lap_plan *plan = warming->plan;
  touch_linear(warming, &plan->per_layer_projection);
  for (int32_t i = 0; i < plan->layers; i++)
    for (int which = 0; which < LAP_LAYER_LINEARS; which++)
      touch_linear(warming, &plan->layer[i].linear[which]);
  touch_linear(warming, &plan->head);
  return NULL;
}

static bool fits(const lap_plan *plan) {
  const lap_plan_sizes sizes = lap_plan_measure(plan);
  return sizes.weights - sizes.tables <= lap_available_memory("");
}

void lap_warming_begin(lap_warming *warming, const lap_plan *plan, const lap_tensors *tensors) {
  if (warming->begun || lap_available_cores() < 2 || !fits(plan)) return;
  warming->plan = plan;
  warming->tensors = tensors;
  warming->begun = pthread_create(&warming->thread, NULL, warm, warming) == 0;
}

void lap_warming_stop(lap_warming *warming) {
  if (!atomic_load_explicit(&warming->stop, memory_order_relaxed))
    atomic_store_explicit(&warming->stop, true, memory_order_relaxed);
}

void lap_warming_end(lap_warming *warming) {
  lap_warming_stop(warming);
  if (warming->begun) pthread_join(warming->thread, NULL);
  warming->begun = false;
}
