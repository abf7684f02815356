/* Any bytes as a safetensors file: an error, or a table whose every tensor can be read whole. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_table(const lap_tensors *tensors) {
  unsigned sum = 0;
  for (int32_t i = 0; i < lap_tensors_count(tensors); i++) {
    const lap_tensor *tensor = lap_tensors_at(tensors, i);
    if (lap_tensors_find(tensors, tensor->name) != i || tensor->rank > LAP_MAX_RANK) abort();
    for (uint64_t b = 0; b < tensor->bytes; b++) sum += tensor->data[b];
  }
  volatile unsigned sink = sum;
  (void)sink;
}

/* The file is the input behind a header length: as the input has it if its first bit is set, else one
 * that fits, so that the fuzzer's effort goes into the header and not into eight bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lap_error error;
  lap_tensors *tensors;
  if (size < 10) return 0;
  uint8_t *file = malloc(size);
  if (!file) return 0;
  memcpy(file, data, size);
  if (!(data[0] & 1)) {
    size_t text = 10;
    while (text < size && data[text] != '\0') text++;
    uint64_t header = text - 8;
    memcpy(file, &header, sizeof header);
    file[8] = file[9] = ' ';
  }
  if (lap_tensors_open_memory(file, size, "fuzz", &tensors, &error) == LAP_OK) {
    check_table(tensors);
    lap_tensors_close(tensors);
  }
  free(file);
  return 0;
}
