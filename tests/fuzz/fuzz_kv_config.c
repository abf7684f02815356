/* Any text as kv_config.json: an error, or a plan that keeps its promises. */
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char config[] = TINY_CONFIG;
  lap_error error;
  lap_plan *plan;
  lap_tensors *tensors = tiny_tensors();
  lap_status status = lap_plan_build_memory(config, sizeof config - 1, size ? (const char *)data : "", size,
                                            NULL, 0, tensors, LAP_KV_CONFIG, &plan, &error);
  if (status == LAP_OK) {
    check_plan(plan);
    evaluate_plan(tensors, plan);
    return 0;
  } else if (!strstr(error.message, "kv_config.json")) {
    abort(); /* the configuration itself is good */
  }
  lap_tensors_close(tensors);
  return 0;
}
