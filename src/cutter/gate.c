/* gate.c: the same calls on two sessions, one for each path.
 *
 * A part is a list of calls (so many tokens, logits of so many of the last). When logits differ, the part is
 * done again up to the call at fault with somebody watching: a hash of every intermediate row, in order,
 * shows where the two begin to differ. */
#include "cutter/gate.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/session.h"

enum {
  CUT,
  MONOLITH,
  SIDES,
  SHORT_PROMPT = 21, /* tokens */
  BEYOND_WINDOW = 37,
  MOST_LOGITS = 64, /* rows of one call */
  DECODED = 12,
  WHOLE_CHUNK = 65536
};

typedef struct call {
  int tokens;
  int wanted; /* logits of the last ones */
} call;

typedef struct part {
  const char *name;
  const call *calls;
  int count;
} part;

typedef struct gate {
  lap_model *model;
  const lap_gate_options *options;
  lap_gate_result *result;
  int32_t *ids; /* [length] */
  int64_t length;
  lap_session *session[SIDES];
  float *logits[SIDES]; /* [MOST_LOGITS, vocab] */
  lap_error *error;
} gate;

/* ---- sessions ---- */

static void close_sessions(gate *g) {
  for (int side = 0; side < SIDES; side++) {
    lap_session_destroy(g->session[side]);
    g->session[side] = NULL;
  }
}

static lap_status open_sessions(gate *g) {
  close_sessions(g);
  for (int side = 0; side < SIDES; side++) {
    const lap_session_options options = {.threads = g->options->threads,
                                         .attention = g->options->attention,
                                         .chunk = WHOLE_CHUNK,
                                         .path = side == CUT ? LAP_PATH_CUT : LAP_PATH_MONOLITH};
    lap_status status = lap_session_create(g->model, &options, &g->session[side], g->error);
    if (status != LAP_OK) return status;
  }
  return LAP_OK;
}

static int64_t position(const gate *g) {
  return lap_kv_length(g->session[CUT]->sequence->kv);
}

static lap_status evaluate(gate *g, int side, const call *c) {
  return lap_session_eval(g->session[side], g->ids + position(g), c->tokens, c->wanted, g->logits[side],
                          g->error);
}

/* Both sides: the monolith first, for position() is the cut's. */
static lap_status evaluate_both(gate *g, const call *c) {
  lap_status status = evaluate(g, MONOLITH, c);
  return status == LAP_OK ? evaluate(g, CUT, c) : status;
}

/* ---- where they differ ---- */

typedef struct sight {
  const char *name;
  int layer;
  uint64_t hash; /* of one row */
} sight;

typedef struct sights {
  sight *list;
  size_t count, capacity;
  bool failed;
} sights;

static uint64_t hash_row(const float *row, int width) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, a word at a time */
  for (int i = 0; i < width; i++) hash = (hash ^ lap_f32_bits(row[i])) * 0x100000001b3u;
  return hash;
}

static void see(void *context, const char *name, int layer, const float *data, int rows, int width) {
  sights *seen = context;
  for (int row = 0; row < rows; row++) {
    if (seen->count == seen->capacity) {
      size_t capacity = 2 * seen->capacity + 1024;
      sight *grown = realloc(seen->list, capacity * sizeof *grown);
      if (!grown) {
        seen->failed = true;
        return;
      }
      seen->list = grown;
      seen->capacity = capacity;
    }
    seen->list[seen->count++] = (sight){name, layer, hash_row(data + (size_t)row * (size_t)width, width)};
  }
}

static lap_status report(const gate *g, const part *p, const sights *seen) {
  size_t count = seen[CUT].count < seen[MONOLITH].count ? seen[CUT].count : seen[MONOLITH].count;
  const char *prefix = "the cut differs from the monolith";
  for (size_t i = 0; i < count; i++) {
    const sight *a = &seen[CUT].list[i], *b = &seen[MONOLITH].list[i];
    if (strcmp(a->name, b->name) == 0 && a->layer == b->layer && a->hash == b->hash) continue;
    if (b->layer < 0 || b->layer >= g->model->plan->layers)
      return lap_fail(g->error, LAP_ERROR_NUMERIC, "%s: %s, %s", prefix, p->name,
                      b->layer < 0 ? "at the embedding" : "at the final norm");
    return lap_fail(g->error, LAP_ERROR_NUMERIC, "%s: %s, first in layer %d (%s)", prefix, p->name, b->layer,
                    b->name);
  }
  return lap_fail(
      g->error, LAP_ERROR_NUMERIC,
      "%s: %s, in the head or where rows leave early: with every row in every layer, all layers agree",
      prefix, p->name);
}

/* Does the calls again; watches the last of them. */
static lap_status find_layer(gate *g, const part *p, int at_fault) {
  sights seen[SIDES] = {{0}};
  lap_status status = open_sessions(g);
  for (int i = 0; status == LAP_OK && i < at_fault; i++) status = evaluate_both(g, &p->calls[i]);
  for (int side = 0; status == LAP_OK && side < SIDES; side++) {
    const lap_probe probe = {see, &seen[side]};
    lap_forward_set_probe(lap_batch_passes(g->session[side]->batch)->forward, &probe);
    const int64_t from = lap_kv_length(g->session[side]->sequence->kv);
    status = lap_session_eval(g->session[side], g->ids + from, p->calls[at_fault].tokens,
                              p->calls[at_fault].wanted, g->logits[side], g->error);
    lap_forward_set_probe(lap_batch_passes(g->session[side]->batch)->forward, NULL);
  }
  if (status == LAP_OK && (seen[CUT].failed || seen[MONOLITH].failed))
    status = lap_fail(g->error, LAP_ERROR_MEMORY, "out of memory for comparing");
  if (status == LAP_OK) status = report(g, p, seen);
  for (int side = 0; side < SIDES; side++) free(seen[side].list);
  return status;
}

/* ---- comparing ---- */

static bool agree(gate *g, const call *c) {
  size_t values = (size_t)c->wanted * (size_t)g->model->plan->vocab_size;
  g->result->logits += (int64_t)values;
  return memcmp(g->logits[CUT], g->logits[MONOLITH], values * sizeof(float)) == 0;
}

static lap_status begin_part(const gate *g, const char *name) {
  if (!g->options->progress || g->options->progress(g->options->context, name)) return LAP_OK;
  return lap_fail(g->error, LAP_ERROR_STATE, "the comparison was ended");
}

static lap_status check_counters(const gate *g, const char *name, int64_t passes) {
  const lap_stats stats = lap_session_stats(g->session[CUT]);
  if (stats.passes_cut == passes && stats.passes_monolith == 0) return LAP_OK;
  return lap_fail(g->error, LAP_ERROR_STATE, "%s: the cut served %lld of %lld passes", name,
                  (long long)stats.passes_cut, (long long)passes);
}

static lap_status run_part(gate *g, const part *p) {
  lap_status status = begin_part(g, p->name);
  if (status == LAP_OK) status = open_sessions(g);
  for (int i = 0; status == LAP_OK && i < p->count; i++) {
    status = evaluate_both(g, &p->calls[i]);
    if (status == LAP_OK && !agree(g, &p->calls[i])) return find_layer(g, p, i);
  }
  g->result->passes += p->count;
  return status == LAP_OK ? check_counters(g, p->name, p->count) : status;
}

/* ---- the parts ---- */

enum {
  MAX_CALLS = 4096
};

static call at_most(int tokens, int wanted) {
  return (call){tokens, wanted < tokens ? wanted : tokens};
}

static int decode(call *calls, int count, int tokens) {
  for (int i = 0; i < tokens; i++) calls[count++] = (call){1, 1};
  return count;
}

/* A few prompt tokens, then one by one past the first growth of the caches. */
static lap_status check_short(gate *g, call *calls) {
  int prompt = g->length < SHORT_PROMPT ? (int)g->length : SHORT_PROMPT;
  int64_t left = g->length - prompt, growth = 64 + 4 - prompt;
  int count = 0;
  calls[count++] = at_most(prompt, MOST_LOGITS);
  count = decode(calls, count, (int)(left < growth ? left : growth));
  return run_part(g, &(part){"a short prompt, then token by token", calls, count});
}

/* Past the window in one chunk, of which few logits are wanted; then across the rings' end. */
static lap_status check_whole(gate *g, call *calls) {
  int64_t prompt = g->length - DECODED > 0 ? g->length - DECODED : g->length;
  int count = 0;
  calls[count++] = at_most((int)prompt, 5);
  count = decode(calls, count, (int)(g->length - prompt));
  return run_part(g,
                  &(part){"a prompt longer than the window in one chunk, then token by token", calls, count});
}

static lap_status check_odd_chunks(gate *g, call *calls) {
  static const int sizes[] = {1, 7, 33, 2, 64, 5, 61};
  int count = 0;
  for (int64_t at = 0; at < g->length && count < MAX_CALLS; count++) {
    int size = sizes[count % (int)(sizeof sizes / sizeof *sizes)];
    if (size > g->length - at) size = (int)(g->length - at);
    calls[count] = at_most(size, MOST_LOGITS);
    at += size;
  }
  return run_part(g, &(part){"a prompt longer than the window in odd chunks", calls, count});
}

static lap_status temporary_file(char path[PATH_MAX], lap_error *error) {
  const char *directory = secure_getenv("TMPDIR");
  if (!directory || !*directory) directory = "/tmp";
  int length = snprintf(path, PATH_MAX, "%s/lapidary-gate-XXXXXX", directory);
  int fd = length < PATH_MAX ? mkstemp(path) : -1;
  if (fd < 0) {
    *path = '\0';
    return lap_fail(error, LAP_ERROR_IO, "%s: a snapshot cannot be written there", directory);
  }
  close(fd);
  return LAP_OK;
}

/* Each side goes on from the other's snapshot. */
static lap_status swap_snapshots(gate *g, char path[SIDES][PATH_MAX]) {
  lap_status status = LAP_OK;
  for (int side = 0; status == LAP_OK && side < SIDES; side++)
    status = lap_session_save(g->session[side], path[side], g->error);
  if (status == LAP_OK) status = open_sessions(g);
  for (int side = 0; status == LAP_OK && side < SIDES; side++)
    status = lap_session_restore(g->session[side], path[SIDES - 1 - side], g->error);
  return status;
}

/* calls[0] is the prompt, before the snapshots. */
static lap_status check_snapshot(gate *g, const part *p, char path[SIDES][PATH_MAX]) {
  lap_status status = open_sessions(g);
  if (status == LAP_OK) status = evaluate_both(g, &p->calls[0]);
  if (status == LAP_OK) status = swap_snapshots(g, path);
  for (int i = 1; status == LAP_OK && i < p->count; i++) {
    status = evaluate_both(g, &p->calls[i]);
    if (status == LAP_OK && !agree(g, &p->calls[i])) return find_layer(g, p, i);
  }
  g->result->passes += p->count;
  return status == LAP_OK ? check_counters(g, p->name, p->count - 1) : status;
}

static lap_status check_snapshots(gate *g, call *calls) {
  const int64_t prompt = g->length - DECODED > 0 ? g->length - DECODED : 1;
  const part p = {"token by token after the other's snapshot", calls,
                  decode(calls, 1, (int)(g->length - prompt))};
  char path[SIDES][PATH_MAX] = {""};
  calls[0] = at_most((int)prompt, 1);
  lap_status status = begin_part(g, p.name);
  for (int side = 0; status == LAP_OK && side < SIDES; side++) status = temporary_file(path[side], g->error);
  if (status == LAP_OK) status = check_snapshot(g, &p, path);
  for (int side = 0; side < SIDES; side++)
    if (*path[side]) unlink(path[side]);
  return status;
}

static lap_status run_all(gate *g) {
  call *calls = malloc(MAX_CALLS * sizeof *calls);
  if (!calls) return lap_fail(g->error, LAP_ERROR_MEMORY, "out of memory for comparing");
  lap_status status = check_short(g, calls);
  if (status == LAP_OK) status = check_odd_chunks(g, calls);
  if (status == LAP_OK) status = check_whole(g, calls);
  if (status == LAP_OK) status = check_snapshots(g, calls);
  free(calls);
  return status;
}

/* Long enough that every ring has wrapped, within the model's context. */
static int64_t tokens_needed(const lap_plan *plan) {
  int64_t longest = 0;
  for (int i = 0; i < plan->layers; i++)
    if (plan->layer[i].window > longest) longest = plan->layer[i].window;
  int64_t tokens = longest + BEYOND_WINDOW + DECODED;
  if (tokens < SHORT_PROMPT + MOST_LOGITS) tokens = SHORT_PROMPT + MOST_LOGITS;
  if (tokens > plan->max_position_embeddings) tokens = plan->max_position_embeddings;
  return tokens < WHOLE_CHUNK ? tokens : WHOLE_CHUNK;
}

static lap_status prepare(gate *g) {
  const lap_plan *plan = g->model->plan;
  size_t values = (size_t)MOST_LOGITS * (size_t)plan->vocab_size;
  uint64_t state = 1;
  g->length = tokens_needed(plan);
  g->ids = malloc((size_t)g->length * sizeof *g->ids);
  for (int side = 0; side < SIDES; side++) g->logits[side] = malloc(values * sizeof(float));
  if (!g->ids || !g->logits[CUT] || !g->logits[MONOLITH])
    return lap_fail(g->error, LAP_ERROR_MEMORY, "out of memory for comparing");
  for (int64_t i = 0; i < g->length; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    g->ids[i] = (int32_t)((state >> 33) % (uint64_t)plan->vocab_size);
  }
  return LAP_OK;
}

lap_status lap_gate_run(lap_model *model, const lap_gate_options *options, lap_gate_result *result,
                        lap_error *error) {
  gate g = {.model = model, .options = options, .result = result, .error = error};
  *result = (lap_gate_result){0};
  lap_status status = prepare(&g);
  if (status == LAP_OK) status = run_all(&g);
  close_sessions(&g);
  for (int side = 0; side < SIDES; side++) free(g.logits[side]);
  free(g.ids);
  return status;
}
