/* head.h: logits = cap * tanh(head(y) / cap), into the callers' buffers, wherever these are. */
#ifndef LAP_PASS_HEAD_H
#define LAP_PASS_HEAD_H

#include "kernels/exponential.h"
#include "pass/parallel.h"

LAP_INLINE bool lap_all_finite(const float *x, int n) {
  uint32_t top = 0;
  for (int i = 0; i < n; i++) {
    uint32_t bits = lap_f32_bits(x[i]) & 0x7fffffffu;
    top = bits > top ? bits : top;
  }
  return top < 0x7f800000u;
}

/* Remembers the first of the rows whose logits are not finite. Called by several threads. */
static inline void lap_mark_bad_row(lap_pass *pass, int64_t row) {
  int64_t seen = __atomic_load_n(&pass->bad_row, __ATOMIC_RELAXED);
  while ((seen < 0 || row < seen) && !__atomic_compare_exchange_n(&pass->bad_row, &seen, row, false,
                                                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

enum {
  LAP_HEAD_TILE = 32, /* rows of x */
  LAP_HEAD_STRIP = 64 /* rows of W */
};

/* Logits first..last-1 of every row of the pass that wants some: capped, and searched for those that are not
 * finite. `multiply` computes the product alone; cap 0: none. Rows may have their logits anywhere, so a tile
 * is computed and then copied. */
LAP_INLINE void lap_multiply_head(lap_multiply *multiply, const float cap, const lap_product *p, int first,
                                  int last) {
  float tile[LAP_HEAD_TILE * LAP_HEAD_STRIP];
  lap_pass *pass = p->pass;
  for (int row = 0; row < pass->rows; row += LAP_HEAD_TILE)
    for (int strip = first; strip < last; strip += LAP_HEAD_STRIP) {
      const int n = last - strip < LAP_HEAD_STRIP ? last - strip : LAP_HEAD_STRIP;
      const lap_weight weight = lap_weight_slice(p->weight, strip, n);
      lap_product part = *p;
      part.weight = &weight;
      part.rows = LAP_HEAD_STRIP;
      part.y = tile;
      part.first_input_row = row;
      part.input_rows = pass->rows - row < LAP_HEAD_TILE ? pass->rows - row : LAP_HEAD_TILE;
      multiply(&part, 0, n);
      for (int t = 0; t < part.input_rows; t++) {
        float *y = tile + t * LAP_HEAD_STRIP, *logits = pass->row[row + t].logits;
        if (!logits) continue;
        if (cap > 0.0f) LAP_ISA(lap_softcap)(y, n, cap);
        if (!lap_all_finite(y, n)) lap_mark_bad_row(pass, row + t);
        memcpy(logits + strip, y, (size_t)n * sizeof *y);
      }
    }
}

static inline bool lap_has_wanted_logits(const lap_pass *pass) {
  for (int row = 0; row < pass->rows; row++)
    if (pass->row[row].logits) return true;
  return false;
}

/* The head over `input`, whose rows are those of the pass, if any of them wants logits. */
static inline void lap_run_head(lap_pass *pass, lap_multiply *multiply, int vocab, int width,
                                const lap_input *input) {
  if (!lap_has_wanted_logits(pass)) return;
  const lap_product product = {.multiply = multiply,
                               .weight = &pass->memory.weights->head,
                               .rows = vocab,
                               .cols = width,
                               .input = input,
                               .input_rows = pass->rows,
                               .pass = pass};
  lap_run_products(&pass->team, &product, 1);
}

#endif
