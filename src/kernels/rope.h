/* rope.h: rotary position embedding in half-split pairs, and its tables.
 *
 * Pair i of a head is elements i and i + head_dim / 2, turned by position * frequency i. The tables
 * are computed in double with the project's own functions and rounded once, so that they are the
 * same on every machine and exact at any position (error of the angle under 1e-10 at 2^18); the
 * rotation itself is elementwise.
 *
 * libm's double functions differ in the last bit between releases and between processors with and
 * without FMA; one differing bit in a table would break the promise of equal bits. So they are
 * written out here from +, -, *, / alone, accurate to a few units of 2^-53. Angles are reduced by multiples
 * of pi/2 with a constant in three parts of 33 bits or fewer, so that the products with a multiple below
 * 2^20 are exact. */
#ifndef LAP_KERNELS_ROPE_H
#define LAP_KERNELS_ROPE_H

#include "kernels/lanes.h"

/* pi/2 in parts whose products with integers up to 2^20 are exact; from fdlibm (e_rem_pio2.c). */
#define LAP_PIO2_1        1.57079632673412561417e+00
#define LAP_PIO2_2        6.07710050630396597660e-11
#define LAP_PIO2_2T       2.02226624879595063154e-21
#define LAP_TWO_OVER_PI   6.36619772367581382433e-01
#define LAP_ROPE_LN2_HIGH 6.93147180369123816490e-01
#define LAP_ROPE_LN2_LOW  1.90821492927058770002e-10
#define LAP_ROPE_SHIFTER  6755399441055744.0 /* 1.5 * 2^52 */

static inline double lap_rope_round(double x) {
  volatile double shifted = x + LAP_ROPE_SHIFTER;
  return shifted - LAP_ROPE_SHIFTER;
}

static inline double lap_rope_two_to(int exponent) {
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* ln x for x > 0: x = 2^k * m, m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)). */
static inline double lap_rope_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int k = (int)(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    k++;
  }
  double s = (m - 1.0) / (m + 1.0);
  double square = s * s;
  double series = 0.0;
  for (int n = 27; n >= 1; n -= 2) series = series * square + 1.0 / n;
  return k * LAP_ROPE_LN2_HIGH + (k * LAP_ROPE_LN2_LOW + 2.0 * s * series);
}

/* e^x for |x| < 700. */
static inline double lap_rope_exp(double x) {
  double k = lap_rope_round(x * 1.44269504088896338700e+00);
  double r = (x - k * LAP_ROPE_LN2_HIGH) - k * LAP_ROPE_LN2_LOW;
  double sum = 1.0;
  for (int n = 18; n >= 1; n--) sum = 1.0 + r * sum / n;
  return sum * lap_rope_two_to((int)k);
}

/* Taylor series, |r| <= pi/4: the first term left out is under 2^-60. */
static inline double lap_rope_sine(double r) {
  double square = r * r, sum = 1.0;
  for (int n = 20; n >= 2; n -= 2) sum = 1.0 - square * sum / (n * (n + 1));
  return r * sum;
}

static inline double lap_rope_cosine(double r) {
  double square = r * r, sum = 1.0;
  for (int n = 19; n >= 1; n -= 2) sum = 1.0 - square * sum / (n * (n + 1));
  return sum;
}

/* frequency[i] = theta^(-2i / head_dim) / factor, i < pairs. theta > 0, factor > 0. */
static inline void lap_rope_frequencies(double theta, double factor, int head_dim, int pairs,
                                        double *frequency) {
  double log_theta = lap_rope_log(theta);
  for (int i = 0; i < pairs; i++) frequency[i] = lap_rope_exp(-2.0 * i / head_dim * log_theta) / factor;
}

/* cosine[i], sine[i] = of position * frequency[i]. position < 2^30. */
static inline void lap_rope_table(const double *frequency, int pairs, int64_t position, float *cosine,
                                  float *sine) {
  for (int i = 0; i < pairs; i++) {
    double angle = (double)position * frequency[i];
    double quarter_turns = lap_rope_round(angle * LAP_TWO_OVER_PI);
    double r =
        ((angle - quarter_turns * LAP_PIO2_1) - quarter_turns * LAP_PIO2_2) - quarter_turns * LAP_PIO2_2T;
    double s = lap_rope_sine(r), c = lap_rope_cosine(r);
    switch ((int64_t)quarter_turns & 3) {
      case 0:
        cosine[i] = (float)c, sine[i] = (float)s;
        break;
      case 1:
        cosine[i] = (float)-s, sine[i] = (float)c;
        break;
      case 2:
        cosine[i] = (float)-c, sine[i] = (float)-s;
        break;
      default:
        cosine[i] = (float)s, sine[i] = (float)-c;
    }
  }
}

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
