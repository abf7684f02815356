/* rows.h: what a pass does row by row: norms, rotations, writing keys and values, per-layer inputs.
 *
 * Bodies for one row; widths and the like are parameters that become constants in generated code.
 * Formulas are those of docs/gemma4.md section 3. */
#ifndef LAP_PASS_ROWS_H
#define LAP_PASS_ROWS_H

#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "pass/parallel.h"

/* h [width] = the embedding that the row brings, or table[id] * scale. */
LAP_INLINE void lap_row_embed(const int bits, const int group_size, const lap_format format, const int width,
                              const lap_weight *table, const lap_row *row, float scale, float *h) {
  if (row->embedding)
    memcpy(h, row->embedding, (size_t)width * sizeof *h);
  else
    lap_table_row(bits, group_size, format, width, table, row->id, 0, width, scale, h);
}

/* y = rms_norm(x; w), and its quantized forms. */
LAP_INLINE void lap_row_norm(const int width, const float eps, const int forms, const float *x,
                             const float *w, float *y, const lap_input *input, int row) {
  LAP_ISA(lap_rms_norm)(x, w, width, eps, y);
  lap_input_fill(width, forms, y, input, row);
}

/* h = h + rms_norm(x; w), x is overwritten. */
LAP_INLINE void lap_row_add_norm(const int width, const float eps, float *x, const float *w, float *h) {
  LAP_ISA(lap_rms_norm)(x, w, width, eps, x);
  for (int i = 0; i < width; i++) h[i] += x[i];
}

LAP_INLINE void lap_row_scale(const int width, float factor, float *x) {
  for (int i = 0; i < width; i++) x[i] *= factor;
}

/* q = rope(rms_norm(q; w)), head by head: q [heads * head_dim]. */
LAP_INLINE void lap_row_queries(const int heads, const int head_dim, const int pairs, const float eps,
                                float *q, const float *w, const float *cosine, const float *sine) {
  for (int head = 0; head < heads; head++, q += head_dim) {
    LAP_ISA(lap_rms_norm)(q, w, head_dim, eps, q);
    lap_rope_apply(q, head_dim, pairs, cosine, sine);
  }
}

/* k = rope(rms_norm(k; w)), v = rms_norm(v) without weights, head by head, and into the cache. Where K
 * equals V, v is made of the raw k. */
LAP_INLINE void lap_row_keys(const int kv_heads, const int head_dim, const int pairs, const float eps,
                             const int k_eq_v, const int bits, const int group_size, float *k, float *v,
                             const float *w, const float *cosine, const float *sine,
                             const lap_kv_planes *planes, int64_t position) {
  for (int head = 0; head < kv_heads; head++, k += head_dim, v += head_dim) {
    LAP_ISA(lap_rms_norm)(k_eq_v ? k : v, NULL, head_dim, eps, v);
    LAP_ISA(lap_rms_norm)(k, w, head_dim, eps, k);
    lap_rope_apply(k, head_dim, pairs, cosine, sine);
    lap_kv_write(bits, group_size, head_dim, kv_heads, planes, position, head, k, v);
  }
}

/* pli = (table row + rms_norm(pli * projection_scale; w)) * 2^-0.5; `table` [width] is scratch that holds
 * the row. */
LAP_INLINE void lap_row_per_layer_input(const int width, const float eps, const float projection_scale,
                                        const float *w, const float *table, float *pli) {
  for (int i = 0; i < width; i++) pli[i] *= projection_scale;
  LAP_ISA(lap_rms_norm)(pli, w, width, eps, pli);
  for (int i = 0; i < width; i++) pli[i] = (pli[i] + table[i]) * 0.70710678118654752f;
}

/* Gives the rows that want it what the final norm made of them: normed [rows, width]. */
static inline void lap_give_hidden(const lap_pass *pass, const float *normed, int width) {
  for (int row = 0; row < pass->rows; row++)
    if (pass->row[row].hidden)
      memcpy(pass->row[row].hidden, normed + (size_t)row * (size_t)width, (size_t)width * sizeof *normed);
}

/* ---- rows that leave ---- */

/* With somebody watching every row goes through every layer. */
static inline bool lap_has_unwanted_rows(const lap_pass *pass) {
  for (int row = 0; row < pass->rows; row++)
    if (!lap_row_is_wanted(&pass->row[row])) return !pass->see;
  return false;
}

/* A buffer of the pass, [rows, width]. */
typedef struct lap_kept {
  float *rows;
  int width;
} lap_kept;

/* Keeps the rows of which something is wanted, and their part of the buffers. */
static inline void lap_drop_unwanted_rows(lap_pass *pass, const lap_kept *buffers, int count) {
  int kept = 0;
  for (int row = 0; row < pass->rows; row++) {
    if (!lap_row_is_wanted(&pass->row[row])) continue;
    if (kept < row) {
      pass->row[kept] = pass->row[row];
      for (int i = 0; i < count; i++)
        memcpy(lap_row_of(buffers[i].rows, kept, buffers[i].width),
               lap_row_of(buffers[i].rows, row, buffers[i].width), (size_t)buffers[i].width * sizeof(float));
    }
    kept++;
  }
  pass->rows = kept;
}

#endif
