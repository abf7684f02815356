/* rings.h: going back to where a ring has moved on.
 *
 * A growing cache can be trimmed to any length: what was stored before it is still there. A ring overwrites.
 * So what a sequence needs to go back to an earlier length is a copy of its rings as they stood there, and
 * nothing of its growing caches: that copy is a lap_rings.
 *
 * Invariant: caches that go back do so together. Growing caches are never trimmed to a length at which the
 * rings, their own or a copy, are not. */
#ifndef LAP_CACHE_RINGS_H
#define LAP_CACHE_RINGS_H

#include "cache/kv.h"

/* The lengths that a state of the rings serves: its own, and those from `lowest` on, to which it can be
 * trimmed. */
typedef struct lap_reach {
  int64_t length;
  int64_t lowest;
} lap_reach;

/* The largest length <= `wanted` that the state serves, or -1. */
int64_t lap_reach_back(lap_reach reach, int64_t wanted);

/* Of a sequence's own rings, once `count` more positions, for which there is room, are appended. */
lap_reach lap_kv_reach(const lap_kv *kv, int64_t count);

typedef struct lap_rings {
  lap_reach reach;
  int caches;
  lap_cache **cache; /* as in lap_kv; NULL for growing ones */
} lap_rings;

/* Copies the rings as they stand at `length`: the window before it and one position more, so that they serve
 * `length` - 1 too. Errors: STATE (the sequence's rings do not serve `length`), MEMORY. */
lap_status lap_rings_create(const lap_kv *kv, int64_t length, lap_rings **out, lap_error *error);
void lap_rings_destroy(lap_rings *rings);

/* For snapshots: copies that are to be filled. Errors: MEMORY. */
lap_status lap_rings_create_empty(const lap_kv *kv, lap_reach reach, lap_rings **out, lap_error *error);

size_t lap_rings_bytes(const lap_rings *rings);

/* Drops all positions from `length` <= the sequence's on, with the rings taken from `rings`, a copy from this
 * sequence or one that began with the same tokens; NULL: the sequence's own. Errors: STATE (they do not serve
 * `length`), MEMORY; nothing has changed then. */
lap_status lap_kv_rewind(lap_kv *kv, const lap_rings *rings, int64_t length, lap_error *error);

/* A new sequence made of the first `length` positions of `kv`, which stays as it is; as above otherwise. */
lap_status lap_kv_copy(const lap_kv *kv, const lap_rings *rings, int64_t length, lap_kv **out,
                       lap_error *error);

/* Upper bound of lap_kv_bytes for a sequence that grows to `length` in passes of at most `count` tokens. */
size_t lap_kv_most_bytes(const lap_kv *kv, int64_t length, int64_t count);

/* Bytes of a copy of the rings when they have wrapped, and of one position of the growing caches. */
size_t lap_kv_rings_bytes(const lap_kv *kv);
size_t lap_kv_growth_bytes(const lap_kv *kv);

#endif
