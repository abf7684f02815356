/* pass.h: what a forward pass is given, and what a cut checkpoint gives: the interface between the library
 * and compiled forward passes, its own and those that it loads.
 *
 * A pass is a question (rows, and what is wanted of them), memory (weights, caches, the arena) and a team of
 * threads. The library lists the rows, reserves the caches and lends memory and threads; the pass computes:
 * everything that can fail has been done before it starts. What was cut before this header or one that it
 * includes was changed is not used any more (program/fingerprint.h). */
#ifndef LAP_PASS_PASS_H
#define LAP_PASS_PASS_H

#include <stdbool.h>

#include "base/task.h"
#include "device/row.h"
#include "kernels/kv_planes.h"
#include "pass/weights.h"

/* A cache of one segment, with room for the segment's rows. */
typedef struct lap_pass_cache {
  lap_kv_planes planes;
  int32_t bits; /* LAP_PLAIN_BITS = plain */
  int32_t group_size;
} lap_pass_cache;

/* How attention is computed; both methods give the same bits (attend_rows.h). */
typedef enum lap_attention_method {
  LAP_ATTENTION_AUTO,  /* as the code that computes chooses */
  LAP_ATTENTION_TILED, /* online softmax over blocks, queries in tiles, spans on several threads */
  LAP_ATTENTION_PLAIN  /* query by query over a full row of scores: the check */
} lap_attention_method;

/* What a pass computes from, and where. */
typedef struct lap_pass_memory {
  const lap_weights *weights;
  const double *rope_frequency[2]; /* by lap_attention, [rotated pairs] */
  const lap_pass_cache *kv;        /* [segments, caches]: segment s, cache c at s * caches + c */
  unsigned char *arena;            /* as many bytes as the pass has asked for; 64-byte aligned */
} lap_pass_memory;

struct lap_plan;

typedef struct lap_pass {
  int rows;     /* those still on their way; the pass may drop rows of which nothing is wanted */
  int capacity; /* rows that buffers hold: those at the start, from eight on up to a multiple of eight */
  lap_row *row; /* [rows] */
  int segments;
  int caches; /* of one segment */
  lap_attention_method attention;

  lap_pass_memory memory;
  lap_team team;

  /* Sees intermediate rows if not NULL: "embedding", "per_layer_input", "layer", "router" (indices, then
   * weights, as floats), "final_norm". Then every row passes through every layer. */
  void (*see)(void *context, const char *name, int layer, const float *data, int rows, int width);
  void *see_context;

  const struct lap_plan *plan; /* for the monolith: generated code knows it by heart */
  int64_t bad_row;             /* result: the first row whose logits are not finite, or -1 */
} lap_pass;

/* A forward pass. */
typedef struct lap_forward_code {
  /* That this pass will need. It reads the rows, capacity, segments, caches, attention, the team's threads
   * and the plan; memory need not be set. */
  size_t (*arena_bytes)(const lap_pass *pass);
  void (*forward)(lap_pass *pass);
} lap_forward_code;

/* What a pass was cut for, of one cache. */
typedef struct lap_cut_cache {
  int32_t kv_heads, head_dim, window, bits, group_size;
} lap_cut_cache;

/* A cut checkpoint. In a shared object and in the library it is the symbol lap_cut_STRUCTURE_ISA. */
typedef struct lap_cut {
  const char *sources;   /* LAP_CUT_SOURCES, of what it was made of (program/fingerprint.h) */
  const char *structure; /* of the plan, 16 hexadecimal digits */
  const char *isa;       /* that it was compiled for: "portable", "avx2", "avx512", "neon" */
  int32_t caches;
  const lap_cut_cache *cache; /* [caches]: a session whose caches differ runs on the monolith */
  lap_forward_code code;
} lap_cut;

#define LAP_CUT_EXPORT __attribute__((visibility("default")))

LAP_INLINE const lap_pass_cache *lap_pass_kv(const lap_pass *pass, int segment, int cache) {
  return &pass->memory.kv[segment * pass->caches + cache];
}

LAP_INLINE void lap_pass_show(const lap_pass *pass, const char *name, int layer, const float *data,
                              int width) {
  if (pass->see) pass->see(pass->see_context, name, layer, data, pass->rows, width);
}

LAP_INLINE float *lap_row_of(float *rows, int row, int width) {
  return rows + (size_t)row * (size_t)width;
}

#endif
