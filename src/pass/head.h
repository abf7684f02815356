/* head.h: logits = cap * tanh(head(y) / cap), into the callers' buffers. */
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

/* Caps logits first..last-1 of every row of the product, and looks for those that are not finite. cap 0:
 * none. */
LAP_INLINE void lap_finish_logits(const float cap, const lap_product *p, int first, int last) {
  for (int t = 0; t < p->input_rows; t++) {
    float *y = p->y + (size_t)t * (size_t)p->rows + first;
    if (cap > 0.0f) LAP_ISA(lap_softcap)(y, last - first, cap);
    if (!lap_all_finite(y, last - first)) lap_mark_bad_row(p->pass, p->first_input_row + t);
  }
}

/* The head over `input`, whose rows are those of the pass: rows with neighbouring logits together. With
 * somebody watching, rows that want none are here too. */
static inline void lap_run_head(lap_pass *pass, lap_multiply *multiply, int vocab, int width,
                                const lap_input *input) {
  for (int row = 0; row < pass->rows;) {
    int first = row++;
    float *logits = pass->row[first].logits;
    if (!logits) continue;
    while (row < pass->rows && pass->row[row].logits == logits + (size_t)(row - first) * (size_t)vocab) row++;
    lap_product product = {.multiply = multiply,
                           .weight = &pass->weights->head,
                           .rows = vocab,
                           .cols = width,
                           .input = input,
                           .first_input_row = first,
                           .input_rows = row - first,
                           .y = logits,
                           .pass = pass};
    lap_run_products(pass, &product, 1);
  }
}

#endif
