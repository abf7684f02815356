/* device.c: the machines that this library was built for. A new one is a line here. */
#include "device/device.h"

#include <string.h>

extern const lap_driver lap_cpu_driver; /* src/cpu/cpu.c */

static const lap_driver *const drivers[] = {&lap_cpu_driver};

lap_status lap_device_open(const char *name, const lap_device_options *options, lap_device **out,
                           lap_error *error) {
  *out = NULL;
  for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
    if (strcmp(drivers[i]->name, name) == 0) return drivers[i]->open(options, out, error);
  return lap_fail(error, LAP_ERROR_ARGUMENT, "device: there is no '%s' in this build", name);
}
