/* model.h: a checkpoint ready to compute: its plan, and the plan on a device. Read-only after opening. */
#ifndef LAP_MODEL_MODEL_H
#define LAP_MODEL_MODEL_H

#include <pthread.h>

#include "device/device.h"
#include "grammar/vocabulary.h"
#include "text/tokenizer.h"

enum {
  LAP_MODEL_FINGERPRINT_BYTES = 32
};

struct lap_model {
  char *directory;
  lap_tensors *tensors;
  lap_plan *plan;
  lap_device *device;
  lap_bound *bound;
  lap_tokenizer *tokenizer;   /* NULL until first used */
  pthread_mutex_t mutex;      /* of the three below */
  lap_vocabulary *vocabulary; /* NULL until first used */
  bool has_fingerprint;
  unsigned char fingerprint[LAP_MODEL_FINGERPRINT_BYTES];
};

/* Which plan and weights these are, for snapshots. Made on first use, which reads a spread of bytes of every
 * tensor: a program that keeps no snapshot does not wait for that. May be called by several threads.
 * Errors: MEMORY. */
lap_status lap_model_fingerprint(lap_model *model, unsigned char out[LAP_MODEL_FINGERPRINT_BYTES],
                                 lap_error *error);

/* The vocabulary that grammars are compiled for, made on first use; the model's. May be called by several
 * threads once the tokenizer is loaded. Errors: MEMORY, and those of lap_model_tokenizer. */
lap_status lap_model_vocabulary(lap_model *model, const lap_vocabulary **out, lap_error *error);

/* A device and a plan's code on it, without weights: what passes would take, and whether there is a cut.
 * `*device` and `*bound` are to be released with lap_model_release_code, also after an error. Errors: those
 * of the device. */
lap_status lap_model_choose_code(const lap_plan *plan, const lap_model_options *options, lap_device **device,
                                 lap_bound **bound, lap_error *error);
void lap_model_release_code(lap_device *device, lap_bound *bound);

/* The part of lap_model_open that comes after the files: takes over `tensors` and `plan`, also on failure.
 * `name` stands for the directory in messages. Errors: MEMORY, and those of the device. */
lap_status lap_model_assemble(const char *name, lap_tensors *tensors, lap_plan *plan,
                              const lap_model_options *options, lap_model **out, lap_error *error);

#endif
