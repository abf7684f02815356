/* forward.h: tokens in, caches filled, logits out.
 *
 * A pass takes rows from one or several sequences (segments); all rows go through the products
 * together, attention looks only into a row's own sequence. By the numerics contract the result of a
 * row does not depend on the others, so prefill, decode and any batch are the same function. */
#ifndef LAP_MODEL_FORWARD_H
#define LAP_MODEL_FORWARD_H

#include "cache/kv.h"
#include "model/model.h"

/* Consecutive rows of a segment that bring embeddings of their own: those of a picture, for instance. */
typedef struct lap_block {
  int first, count;
  const float *embeddings; /* [count, hidden_size], as the stream begins */
  bool sees_itself;        /* in sliding layers each row sees the whole block, as far as a window reaches */
} lap_block;

/* `count` consecutive rows of one sequence, the first at position lap_kv_length(kv). */
typedef struct lap_segment {
  lap_kv *kv;
  const int32_t *ids; /* [count]; those of a block's rows are not looked up, but must be in the vocabulary */
  int count;
  int logits_from; /* rows logits_from .. count - 1 get what is wanted; count = none */
  float *logits;   /* [count - logits_from, vocab_size], the caller's; NULL: no logits are wanted */
  float *hidden;   /* [count - logits_from, hidden_size], rows after the final norm; NULL: not wanted */
  const lap_block *block; /* [blocks], ascending, not overlapping */
  int blocks;
} lap_segment;

typedef struct lap_forward lap_forward;

/* `model` must outlive it. One pass at a time. Errors: those of the device's open_runner. */
lap_status lap_forward_create(const lap_model *model, const lap_runner_options *options, lap_forward **out,
                              lap_error *error);
void lap_forward_destroy(lap_forward *forward);
/* A probe must stay until it is replaced; NULL: nobody watches. */
void lap_forward_set_probe(lap_forward *forward, const lap_probe *probe);

/* AUTO (the default) and CUT: the model's cut where there is one and the caches are what it was cut for, else
 * the monolith. `served` tells which of the two the last pass ran on. */
void lap_forward_set_path(lap_forward *forward, lap_path path);
lap_path lap_forward_served(const lap_forward *forward);

int lap_forward_threads(const lap_forward *forward);

/* Bytes of scratch memory held, the device's and the host's. */
size_t lap_forward_bytes(const lap_forward *forward);

/* What a forward pass will hold, without weights, caches or memory. All zero: before the first one. */
typedef struct lap_forward_forecast {
  size_t rows, caches, scratch;
} lap_forward_forecast;

/* What lap_forward_run of `count` tokens of one sequence from `position` on does to the memory. Errors:
 * MEMORY. */
lap_status lap_forward_foresee(const lap_bound *bound, int threads, lap_path path, int64_t position,
                               int count, lap_forward_forecast *forecast, lap_error *error);

/* Evaluates all segments (distinct kv, at least one token each) and appends them to their caches.
 * Errors: ARGUMENT (an id outside the vocabulary, a block outside its segment), MEMORY: nothing has changed;
 * NUMERIC: logits are not finite (the caches have grown). */
lap_status lap_forward_run(lap_forward *forward, const lap_segment *segments, int count, lap_error *error);

#endif
