/* Any text as config.json (and, after a NUL, as generation_config.json): an error, or a plan that keeps
 * its promises. */
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lap_error error;
  lap_plan *plan;
  lap_tensors *tensors = tiny_tensors();
  const char *text = (const char *)data;
  const char *split = size ? memchr(text, '\0', size) : NULL;
  size_t config = split ? (size_t)(split - text) : size;
  const char *generation = split ? split + 1 : NULL;
  lap_status status = lap_plan_build_memory(size ? text : "", config, NULL, 0, generation,
                                            split ? size - config - 1 : 0, tensors, LAP_KV_8, &plan, &error);
  if (status == LAP_OK) {
    check_plan(plan);
    evaluate_plan(tensors, plan);
    return 0;
  }
  lap_tensors_close(tensors);
  return 0;
}
