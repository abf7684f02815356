/* sequence.h: tokens with their caches, that can go back.
 *
 * What stands at a position is its key (cache/key.h): an id, and an origin where the id does not say it all.
 *
 * A sequence that has answered one request may serve another whose tokens begin the same. For that it goes
 * back to where the two part, or near it. How far its own rings reach back, sequences need nothing; beyond,
 * they need marks: copies of the rings (cache/rings.h). Marks cost memory and are taken late: positions worth
 * going back to are only noted, and copied before the pass that would overwrite them.
 *
 * Invariant: the number of tokens is the length of the caches; marks ascend and stand at or before it;
 * origins are kept only once a position has one that is not zero, and then for all positions. */
#ifndef LAP_ENGINE_SEQUENCE_H
#define LAP_ENGINE_SEQUENCE_H

#include "cache/key.h"
#include "cache/rings.h"

enum {
  LAP_SEQUENCE_MARKS = 8,
  LAP_SEQUENCE_WANTED = 16
};

/* Sequences that are copies of each other hold the same marks. */
typedef struct lap_mark {
  lap_rings *rings;
  int holders;
  size_t *total; /* bytes of all marks, which this one adds to while it lives */
} lap_mark;

typedef struct lap_sequence {
  lap_kv *kv;
  int32_t *tokens;     /* [capacity] */
  lap_origin *origins; /* [capacity], or NULL: all zero */
  int64_t capacity;
  lap_mark *mark[LAP_SEQUENCE_MARKS];
  int marks;
  int64_t wanted[LAP_SEQUENCE_WANTED]; /* positions worth a mark, ascending */
  int wanted_count;
} lap_sequence;

/* An empty one; `plain_start` as for lap_kv_create. Errors: MEMORY. */
lap_status lap_sequence_create(const lap_bound *bound, bool plain_start, lap_sequence **out,
                               lap_error *error);
void lap_sequence_destroy(lap_sequence *sequence);

int64_t lap_sequence_length(const lap_sequence *sequence);
/* Of caches and keys, without marks. */
size_t lap_sequence_bytes(const lap_sequence *sequence);

/* Valid until the sequence changes. */
lap_keys lap_sequence_keys(const lap_sequence *sequence);

/* How many of `keys` [count] the sequence begins with. */
int64_t lap_sequence_common(const lap_sequence *sequence, lap_keys keys, int64_t count);

/* The largest length <= `wanted` that the sequence can go back to. */
int64_t lap_sequence_reach(const lap_sequence *sequence, int64_t wanted);

/* Goes back to `length`, one that lap_sequence_reach gives; marks and wishes beyond go. Errors: MEMORY;
 * nothing has changed then. */
lap_status lap_sequence_rewind(lap_sequence *sequence, int64_t length, lap_error *error);

/* A new sequence of the first `length` tokens, one that lap_sequence_reach gives, with the marks up to there.
 * Errors: MEMORY. */
lap_status lap_sequence_copy(const lap_sequence *sequence, int64_t length, lap_sequence **out,
                             lap_error *error);

/* Room for `next` [count]. Errors: MEMORY. */
lap_status lap_sequence_reserve(lap_sequence *sequence, lap_keys next, int64_t count, lap_error *error);

/* After a pass has appended `next` [count] to the caches, for which there was room: the keys. */
void lap_sequence_append(lap_sequence *sequence, lap_keys next, int64_t count);

/* Notes a position worth going back to, reached already or not. */
void lap_sequence_want(lap_sequence *sequence, int64_t position);

/* The first noted position that appending `count` tokens, for which there is room, would put out of reach; it
 * is noted no more. -1: there is none. */
int64_t lap_sequence_take_due(lap_sequence *sequence, int64_t count);

/* Sets a mark at `position`, which the rings still serve. Where there are too many, the one whose neighbours
 * are nearest to each other goes. Errors: MEMORY. */
lap_status lap_sequence_mark(lap_sequence *sequence, int64_t position, size_t *total, lap_error *error);

/* The same with a copy of the rings that there is: it is the sequence's then, or destroyed on failure. */
lap_status lap_sequence_adopt(lap_sequence *sequence, lap_rings *rings, size_t *total, lap_error *error);

/* Drops the first mark; false if there is none. */
bool lap_sequence_drop_mark(lap_sequence *sequence);

#endif
