/* model.h: a checkpoint ready to compute: plan, weights, kernels. Read-only after opening. */
#ifndef LAP_MODEL_MODEL_H
#define LAP_MODEL_MODEL_H

#include <pthread.h>

#include "kernels/kernels.h"
#include "model/monolith.h"
#include "model/registry.h"
#include "model/warming.h"
#include "model/weights.h"
#include "text/tokenizer.h"

enum {
  LAP_MODEL_FINGERPRINT_BYTES = 32
};

struct lap_model {
  char *directory;
  lap_tensors *tensors;
  lap_plan *plan;
  lap_weights *weights;
  const lap_kernels *kernels;
  double *rope_frequency[2]; /* by lap_attention, [rope[].rotated_pairs] */
  const lap_forward_code *monolith;
  lap_found_cut cut;
  lap_tokenizer *tokenizer; /* NULL until first used */
  pthread_mutex_t mutex;    /* of the two below */
  bool has_fingerprint;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
  lap_warming warming;
};

/* Which plan and weights these are, for snapshots. Made on first use, which reads a spread of bytes of every
 * tensor: a program that keeps no snapshot does not wait for that. May be called by several threads.
 * Errors: MEMORY. */
lap_status lap_model_fingerprint(lap_model *model, unsigned char out[LAP_MODEL_FINGERPRINT_BYTES],
                                 lap_error *error);

/* What computes a plan here: kernels, monolith and, where there is one (cut->code), its cut, which is to be
 * released with lap_registry_release, also after an error. Errors: MEMORY, and those of choosing the kernels.
 */
lap_status lap_model_choose_code(const lap_plan *plan, const lap_kernels **kernels,
                                 const lap_forward_code **monolith, lap_found_cut *cut, lap_error *error);

/* The part of lap_model_open that comes after the files: takes over `tensors` and `plan`, also on failure.
 * `name` stands for the directory in messages. Errors: MEMORY, and those of choosing the kernels. */
lap_status lap_model_assemble(const char *name, lap_tensors *tensors, lap_plan *plan, lap_model **out,
                              lap_error *error);

#endif
