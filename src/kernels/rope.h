/* rope.h: rotary position embedding in half-split pairs, and its tables.
 *
 * Pair i of a head is elements i and i + head_dim / 2, turned by position * frequency i. The tables
 * are computed in double with the project's own functions and rounded once, so that they are the
 * same on every machine and exact at any position (error of the angle under 1e-10 at 2^18); the
 * rotation itself is elementwise. */
#ifndef LAP_KERNELS_ROPE_H
#define LAP_KERNELS_ROPE_H

#include "kernels/lanes.h"

/* frequency[i] = theta^(-2i / head_dim) / factor, i < pairs. theta > 0, factor > 0. */
void lap_rope_frequencies(double theta, double factor, int head_dim, int pairs, double *frequency);

/* cosine[i], sine[i] = of position * frequency[i]. position < 2^30. */
void lap_rope_table(const double *frequency, int pairs, int64_t position, float *cosine, float *sine);

/* Turns the first `pairs` pairs of x [head_dim] in place. */
LAP_INLINE void lap_rope_apply(float *x, int head_dim, int pairs, const float *cosine, const float *sine) {
  float *y = x + head_dim / 2;
  for (int i = 0; i < pairs; i++) {
    float a = x[i], b = y[i];
    x[i] = lap_fma(a, cosine[i], -(b * sine[i]));
    y[i] = lap_fma(b, cosine[i], a * sine[i]);
  }
}

#endif
