/* sequence.c: see sequence.h. */
#include "engine/sequence.h"

#include <stdlib.h>
#include <string.h>

/* ---- marks ----------------------------------------------------------------------------------- */

static void release_mark(lap_mark *mark) {
  if (--mark->holders > 0) return;
  *mark->total -= lap_rings_bytes(mark->rings);
  lap_rings_destroy(mark->rings);
  free(mark);
}

static void remove_mark(lap_sequence *sequence, int index) {
  release_mark(sequence->mark[index]);
  sequence->marks--;
  memmove(sequence->mark + index, sequence->mark + index + 1,
          (size_t)(sequence->marks - index) * sizeof sequence->mark[0]);
}

static int64_t mark_position(const lap_sequence *sequence, int index) {
  return index < 0 ? 0 : sequence->mark[index]->rings->reach.length;
}

/* The mark that is missed least: the most recent one never is it. */
static int least_useful(const lap_sequence *sequence) {
  int least = 0;
  int64_t smallest = INT64_MAX;
  for (int i = 0; i + 1 < sequence->marks; i++) {
    int64_t gap = mark_position(sequence, i + 1) - mark_position(sequence, i - 1);
    if (gap < smallest) {
      smallest = gap;
      least = i;
    }
  }
  return least;
}

static void insert_mark(lap_sequence *sequence, lap_mark *mark) {
  int at = sequence->marks++;
  for (; at > 0 && mark_position(sequence, at - 1) > mark->rings->reach.length; at--)
    sequence->mark[at] = sequence->mark[at - 1];
  sequence->mark[at] = mark;
}

lap_status lap_sequence_adopt(lap_sequence *sequence, lap_rings *rings, size_t *total, lap_error *error) {
  lap_mark *mark = malloc(sizeof *mark);
  if (!mark) {
    lap_rings_destroy(rings);
    return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a mark");
  }
  *mark = (lap_mark){rings, 1, total};
  *total += lap_rings_bytes(rings);
  if (sequence->marks == LAP_SEQUENCE_MARKS) remove_mark(sequence, least_useful(sequence));
  insert_mark(sequence, mark);
  return LAP_OK;
}

lap_status lap_sequence_mark(lap_sequence *sequence, int64_t position, size_t *total, lap_error *error) {
  lap_rings *rings;
  lap_status status = lap_rings_create(sequence->kv, position, &rings, error);
  return status == LAP_OK ? lap_sequence_adopt(sequence, rings, total, error) : status;
}

bool lap_sequence_drop_mark(lap_sequence *sequence) {
  if (sequence->marks == 0) return false;
  remove_mark(sequence, 0);
  return true;
}

void lap_sequence_want(lap_sequence *sequence, int64_t position) {
  int at = 0;
  while (at < sequence->wanted_count && sequence->wanted[at] < position) at++;
  /* a mark serves the position before its own too */
  if (at < sequence->wanted_count && sequence->wanted[at] <= position + 1) return;
  if (sequence->wanted_count == LAP_SEQUENCE_WANTED) {
    if (at == 0) return;
    memmove(sequence->wanted, sequence->wanted + 1,
            (size_t)--sequence->wanted_count * sizeof sequence->wanted[0]);
    at--;
  }
  memmove(sequence->wanted + at + 1, sequence->wanted + at,
          (size_t)(sequence->wanted_count - at) * sizeof sequence->wanted[0]);
  sequence->wanted[at] = position;
  sequence->wanted_count++;
}

/* A place is due a position early: a mark is to serve the one before its own too. */
int64_t lap_sequence_take_due(lap_sequence *sequence, int64_t count) {
  lap_reach now = lap_kv_reach(sequence->kv, 0), then = lap_kv_reach(sequence->kv, count);
  while (sequence->wanted_count > 0 && sequence->wanted[0] <= then.lowest &&
         sequence->wanted[0] <= now.length) {
    int64_t position = sequence->wanted[0];
    memmove(sequence->wanted, sequence->wanted + 1,
            (size_t)--sequence->wanted_count * sizeof sequence->wanted[0]);
    if (lap_reach_back(now, position) == position) return position;
  }
  return -1;
}

/* ---- sequences ------------------------------------------------------------------------------- */

static lap_sequence *allocate(lap_error *error) {
  lap_sequence *sequence = calloc(1, sizeof *sequence);
  if (!sequence) lap_fail(error, LAP_ERROR_MEMORY, "out of memory for a sequence");
  return sequence;
}

lap_status lap_sequence_create(const lap_bound *bound, bool plain_start, lap_sequence **out,
                               lap_error *error) {
  *out = allocate(error);
  if (!*out) return LAP_ERROR_MEMORY;
  lap_status status = lap_kv_create(bound, plain_start, &(*out)->kv, error);
  if (status != LAP_OK) {
    free(*out);
    *out = NULL;
  }
  return status;
}

void lap_sequence_destroy(lap_sequence *sequence) {
  if (!sequence) return;
  for (int i = 0; i < sequence->marks; i++) release_mark(sequence->mark[i]);
  lap_kv_destroy(sequence->kv);
  free(sequence->tokens);
  free(sequence->origins);
  free(sequence);
}

int64_t lap_sequence_length(const lap_sequence *sequence) {
  return lap_kv_length(sequence->kv);
}

size_t lap_sequence_bytes(const lap_sequence *sequence) {
  size_t key_bytes = sizeof *sequence->tokens + (sequence->origins ? sizeof *sequence->origins : 0);
  return lap_kv_bytes(sequence->kv) + (size_t)sequence->capacity * key_bytes;
}

lap_keys lap_sequence_keys(const lap_sequence *sequence) {
  return (lap_keys){sequence->tokens, sequence->origins};
}

int64_t lap_sequence_common(const lap_sequence *sequence, lap_keys keys, int64_t count) {
  int64_t length = lap_sequence_length(sequence);
  return lap_keys_common(lap_sequence_keys(sequence), keys, count < length ? count : length);
}

/* The mark by which the sequence goes back to the largest length <= `wanted`; NULL: by its own rings. */
static const lap_mark *way_back(const lap_sequence *sequence, int64_t wanted, int64_t *length) {
  const lap_mark *best = NULL;
  lap_reach own = lap_kv_reach(sequence->kv, 0);
  *length = lap_reach_back(own, wanted);
  for (int i = 0; i < sequence->marks; i++) {
    int64_t reached = lap_reach_back(sequence->mark[i]->rings->reach, wanted);
    if (reached <= *length) continue;
    *length = reached;
    best = sequence->mark[i];
  }
  return best;
}

int64_t lap_sequence_reach(const lap_sequence *sequence, int64_t wanted) {
  int64_t length;
  way_back(sequence, wanted, &length);
  return length > 0 ? length : 0;
}

static void drop_origins(lap_sequence *sequence) {
  free(sequence->origins);
  sequence->origins = NULL;
}

static lap_status no_memory(int64_t positions, lap_error *error) {
  return lap_fail(error, LAP_ERROR_MEMORY, "out of memory for the keys of %lld positions",
                  (long long)positions);
}

lap_status lap_sequence_rewind(lap_sequence *sequence, int64_t length, lap_error *error) {
  int64_t reached;
  const lap_mark *mark = way_back(sequence, length, &reached);
  lap_status status = lap_kv_rewind(sequence->kv, mark ? mark->rings : NULL, length, error);
  if (status != LAP_OK) return status;
  while (sequence->marks && mark_position(sequence, sequence->marks - 1) > length)
    remove_mark(sequence, sequence->marks - 1);
  while (sequence->wanted_count && sequence->wanted[sequence->wanted_count - 1] > length)
    sequence->wanted_count--;
  if (!lap_origins_unless_zero(sequence->origins, length)) drop_origins(sequence);
  return LAP_OK;
}

/* Room for `capacity` keys; origins only if there are some or are to be. */
static lap_status reserve_keys(lap_sequence *sequence, int64_t capacity, bool with_origins,
                               lap_error *error) {
  if (capacity > sequence->capacity) {
    int32_t *tokens = realloc(sequence->tokens, (size_t)capacity * sizeof *tokens);
    if (tokens) sequence->tokens = tokens;
    lap_origin *origins = NULL;
    if (sequence->origins) origins = realloc(sequence->origins, (size_t)capacity * sizeof *origins);
    if (origins) sequence->origins = origins;
    if (!tokens || (sequence->origins && !origins)) return no_memory(capacity, error);
    sequence->capacity = capacity;
  }
  if (!with_origins || sequence->origins) return LAP_OK;
  sequence->origins = calloc((size_t)sequence->capacity, sizeof *sequence->origins);
  return sequence->origins ? LAP_OK : no_memory(sequence->capacity, error);
}

static void write_keys(lap_sequence *sequence, int64_t at, lap_keys keys, int64_t count) {
  memcpy(sequence->tokens + at, keys.ids, (size_t)count * sizeof *keys.ids);
  if (!sequence->origins) return;
  if (keys.origins)
    memcpy(sequence->origins + at, keys.origins, (size_t)count * sizeof *keys.origins);
  else
    memset(sequence->origins + at, 0, (size_t)count * sizeof *sequence->origins);
}

lap_status lap_sequence_copy(const lap_sequence *sequence, int64_t length, lap_sequence **out,
                             lap_error *error) {
  int64_t reached;
  const lap_mark *mark = way_back(sequence, length, &reached);
  lap_sequence *copy = *out = allocate(error);
  if (!copy) return LAP_ERROR_MEMORY;
  lap_status status = lap_kv_copy(sequence->kv, mark ? mark->rings : NULL, length, &copy->kv, error);
  lap_keys keys = lap_sequence_keys(sequence);
  keys.origins = lap_origins_unless_zero(keys.origins, length);
  if (status == LAP_OK) status = reserve_keys(copy, length, keys.origins != NULL, error);
  if (status != LAP_OK) {
    lap_sequence_destroy(copy);
    *out = NULL;
    return status;
  }
  if (length > 0) write_keys(copy, 0, keys, length);
  for (; copy->marks < sequence->marks && mark_position(sequence, copy->marks) <= length; copy->marks++) {
    copy->mark[copy->marks] = sequence->mark[copy->marks];
    copy->mark[copy->marks]->holders++;
  }
  return LAP_OK;
}

lap_status lap_sequence_reserve(lap_sequence *sequence, lap_keys next, int64_t count, lap_error *error) {
  int64_t needed = lap_sequence_length(sequence) + count;
  int64_t capacity = needed > sequence->capacity ? needed + needed / 8 + 64 : needed;
  bool with_origins = lap_origins_unless_zero(next.origins, count) != NULL;
  lap_status status = reserve_keys(sequence, capacity, with_origins, error);
  return status == LAP_OK ? lap_kv_reserve(sequence->kv, count, error) : status;
}

void lap_sequence_append(lap_sequence *sequence, lap_keys next, int64_t count) {
  write_keys(sequence, lap_sequence_length(sequence) - count, next, count);
}
