/* cutter.h: from a checkpoint to a stored cut: generate, compile, prove, store.
 *
 * Invariant: what stands in the user's directory under its final name has passed the gate. It comes there by
 * a rename, so that of two who cut at once each leaves a good object, and one that is interrupted leaves
 * nothing. */
#ifndef LAP_CUTTER_CUTTER_H
#define LAP_CUTTER_CUTTER_H

#include "cutter/gate.h"

typedef struct lap_cutter_result {
  char *path; /* of the stored object; malloc'd, the caller's */
  size_t source_bytes, object_bytes;
  double compile_seconds, gate_seconds;
  lap_gate_result gate;
} lap_cutter_result;

/* Cuts the checkpoint in `directory`. The compiler is $CC or cc; it gets the sources from the program.
 * `gate` are the options of the gate; its progress is called for the compilation too. Errors: those of
 * opening the model; IO (no compiler, no place for the object; the message has the compiler's own first
 * line), and those of the gate: nothing is stored then, and an older object stays. */
lap_status lap_cutter_run(const char *directory, const lap_model_options *options,
                          const lap_gate_options *gate, lap_cutter_result *result, lap_error *error);

/* The generated source for the checkpoint in `directory`, malloc'd. Errors: those of opening the
 * checkpoint, MEMORY. */
lap_status lap_cutter_source(const char *directory, const lap_model_options *options, char **source,
                             size_t *length, lap_error *error);

#endif
