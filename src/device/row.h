/* row.h: one position on its way through the layers: what a forward pass is asked, whatever the machine.
 *
 * A row is a token, or it brings an embedding of its own (a piece of a picture). It says what it may see, so
 * that a block of rows can see each other, and what is wanted of it. Depends on nothing, so that generated
 * code can include it.
 *
 * Invariant: first <= position <= end[i], and at least one position is seen; all of first .. end[i] - 1 are
 * in the row's caches or rows of the same segment and pass. */
#ifndef LAP_DEVICE_ROW_H
#define LAP_DEVICE_ROW_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/module_names.h"

typedef struct lap_row {
  int32_t segment; /* consecutive rows of one sequence; the caches are those of the segment */
  int32_t id;      /* the token; also where a row brings an embedding, so that texts can be counted */
  int32_t
      per_layer_id; /* the row of the per-layer table that is read: the token, or for an embedding padding */
  int32_t adapters; /* which set of adapters; 0 = none */
  const float *embedding; /* [hidden_size], as the stream begins; NULL: the token's, scaled */
  int64_t position;
  int64_t first;  /* the first position that it may see; in sliding layers the window limits it too */
  int64_t end[2]; /* by lap_attention: the end of the positions that it may see, at most a window ahead in
                     sliding layers; position + 1 where a row sees nothing later */
  float *logits;  /* [vocab_size], in the host's memory; NULL: not wanted */
  float *hidden;  /* [hidden_size], the same for the row after the final norm */
} lap_row;

/* A row that sees what was before it, as in plain text. */
static inline lap_row lap_token_row(int32_t segment, int32_t id, int64_t position) {
  return (lap_row){.segment = segment,
                   .id = id,
                   .per_layer_id = id,
                   .position = position,
                   .end = {position + 1, position + 1}};
}

/* The positions low .. high - 1 that a row sees in a layer whose window is `window` (0: a full layer). */
static inline int64_t lap_row_low(const lap_row *row, int window) {
  const int64_t low = window ? row->position + 1 - window : 0;
  return low > row->first ? low : row->first;
}

static inline int64_t lap_row_high(const lap_row *row, int window) {
  if (!window) return row->end[LAP_FULL];
  const int64_t ahead = row->position + window, end = row->end[LAP_SLIDING];
  return end < ahead ? end : ahead;
}

static inline int lap_row_is_wanted(const lap_row *row) {
  return row->logits != NULL || row->hidden != NULL;
}

#endif
