/* tensors.h: the tensors that a configuration needs, where they stand in the file, how they are drawn. */
#ifndef LAP_FORGE_TENSORS_H
#define LAP_FORGE_TENSORS_H

#include "checkpoint/config.h"
#include "forge/draw.h"

enum {
  LAP_FORGE_MAX_NAME = 128,
  LAP_FORGE_MAX_RANK = 3
};

typedef struct lap_forge_tensor {
  char name[LAP_FORGE_MAX_NAME];
  lap_dtype dtype; /* U32 or BF16 */
  int rank;
  int64_t shape[LAP_FORGE_MAX_RANK];
  uint64_t offset; /* from the beginning of the data */
  uint64_t bytes;
  lap_draw draw;
} lap_forge_tensor;

typedef struct lap_forge_tensors {
  lap_forge_tensor *tensor; /* [count], in the order of the data, without gaps */
  int32_t count, capacity;
  uint64_t bytes; /* of all */
} lap_forge_tensors;

/* `config` must leave nothing open (lap_forge_configure sees to that). `*out` is the caller's, to be
 * released with lap_forge_tensors_free (also after a failure). Errors: FORMAT, MEMORY. */
lap_status lap_forge_list(const lap_config *config, uint64_t seed, lap_forge_tensors *out, lap_error *error);
void lap_forge_tensors_free(lap_forge_tensors *tensors);

/* The head of the safetensors file: length, JSON, blanks up to a multiple of 8. `*out` is malloc'd.
 * Errors: MEMORY. */
lap_status lap_forge_header(const lap_forge_tensors *tensors, char **out, size_t *length, lap_error *error);

#endif
