/* registry.h: which cut belongs to a checkpoint, and where it comes from.
 *
 * Two homes: the cuts that are compiled into the library, and the user's directory of shared objects that
 * `lapidary cut` stores, $XDG_CACHE_HOME/lapidary/FINGERPRINT/cut_ISA.so (~/.cache without the variable). A
 * stored object ends with a seal: what it is for, and the SHA-256 of all that stands before. It is loaded
 * only if it is a regular file that nobody but its owner, who is the user or root, can have written, in
 * directories of which the same is true, and if the seal is right: an object that is not whole never reaches
 * the dynamic linker. Anything else is not an error: the monolith runs, and `why` says the reason. */
#ifndef LAP_CPU_REGISTRY_H
#define LAP_CPU_REGISTRY_H

#include "base/error.h"
#include "checkpoint/fingerprint.h"
#include "pass/pass.h"

enum {
  LAP_CUT_SEAL_BYTES = 64,
  LAP_CUT_WHY = 320
};

typedef struct lap_found_cut {
  char fingerprint[LAP_PLAN_FINGERPRINT_BYTES]; /* program/fingerprint.h */
  char structure[LAP_PLAN_FINGERPRINT_BYTES];
  const lap_cut *code;   /* NULL: there is none */
  void *handle;          /* of a loaded object */
  char *path;            /* of a loaded object, malloc'd; NULL if built in */
  char why[LAP_CUT_WHY]; /* there is none: the reason, in one line */
} lap_found_cut;

/* Looks for the cut of `found->fingerprint` and `found->structure` for the instruction set `isa`: built in
 * first, then stored. */
void lap_registry_find(const char *isa, lap_found_cut *found);

/* Loads the object at `path` for the same, as lap_registry_find does; true on success. */
bool lap_registry_load(const char *path, const char *isa, lap_found_cut *found);

/* Nobody but the user and root can have put an object at `path`: the directory that it stands in and the one
 * above are theirs alone. Else false, and found->why is the reason. */
bool lap_registry_trusts(const char *path, lap_found_cut *found);

void lap_registry_release(lap_found_cut *found);

/* The directory of all stored cuts, or of one (`fingerprint`, else NULL), malloc'd; NULL if there is no home
 * for them (neither variable is set) or no memory. */
char *lap_registry_directory(const char *fingerprint);

/* Where the stored cut for an instruction set belongs, malloc'd; NULL as above. */
char *lap_registry_object(const char *fingerprint, const char *isa);

/* The seal of an object of `bytes` bytes at `data`. */
void lap_registry_seal(const char *fingerprint, const unsigned char *data, size_t bytes,
                       unsigned char seal[LAP_CUT_SEAL_BYTES]);

#endif
