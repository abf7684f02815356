/* safetensors.h: the tensors of a checkpoint, mapped, never copied.
 *
 * A set is one file or the shards that an index names. Opening checks every header entry (dtype,
 * dims, offsets, no overlap, nothing past the end, no gap) before any address is formed, so a
 * lap_tensor that exists can be read whole. Data may stand at any alignment: read it with the
 * unaligned loads of base/bytes.h. */
#ifndef LAP_CHECKPOINT_SAFETENSORS_H
#define LAP_CHECKPOINT_SAFETENSORS_H

#include "base/error.h"

typedef enum lap_dtype {
  LAP_F32,
  LAP_F16,
  LAP_BF16,
  LAP_U32,
  LAP_U8,
  LAP_I32,
  LAP_I64,
  LAP_OTHER /* known to the format (F64, I16, F8_E4M3, ...) but used by no text model */
} lap_dtype;

enum {
  LAP_MAX_RANK = 8
};

typedef struct lap_tensor {
  const char *name;
  const char *file; /* path of the file that holds it, for messages */
  lap_dtype dtype;
  int rank;
  int64_t shape[LAP_MAX_RANK];
  const unsigned char *data; /* into the mapping */
  uint64_t bytes;
} lap_tensor;

typedef struct lap_tensors lap_tensors;

/* `F32` ... as the format spells it. */
const char *lap_dtype_name(lap_dtype dtype);

/* Bytes of one element; 0 for LAP_OTHER. */
size_t lap_dtype_bytes(lap_dtype dtype);

/* Opens DIRECTORY/model.safetensors, or, if DIRECTORY/model.safetensors.index.json exists, the
 * shards that its weight_map names (file names without a path; each tensor must stand in the shard
 * that the map says). Errors: IO, FORMAT, MEMORY. */
lap_status lap_tensors_open(const char *directory, lap_tensors **out, lap_error *error);

/* Opens one safetensors file. Errors as above. */
lap_status lap_tensors_open_file(const char *path, lap_tensors **out, lap_error *error);

/* Checks a header and builds the table over `file_bytes` bytes at `data`, which stay the caller's
 * and must outlive the set; what the file functions and the fuzzer call. */
lap_status lap_tensors_open_memory(const unsigned char *data, uint64_t file_bytes, const char *name,
                                   lap_tensors **out, lap_error *error);

void lap_tensors_close(lap_tensors *tensors);

/* Sorted by name; an index is stable for the life of the set. */
int32_t lap_tensors_count(const lap_tensors *tensors);
const lap_tensor *lap_tensors_at(const lap_tensors *tensors, int32_t index);

/* The index of `name`, or -1. */
int32_t lap_tensors_find(const lap_tensors *tensors, const char *name);

/* Bytes of all files of the set. */
uint64_t lap_tensors_file_bytes(const lap_tensors *tensors);

#endif
