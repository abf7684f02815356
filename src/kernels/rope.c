/* rope.c: sine, cosine and powers in double, without libm.
 *
 * libm's double functions differ in the last bit between releases and between processors with and
 * without FMA; one differing bit in a table would break the promise of equal bits. So they are
 * written out here from +, -, *, / alone, accurate to a few units of 2^-53.
 *
 * Angles are reduced by multiples of pi/2 with a constant in three parts of 33 bits or fewer, so
 * that the products with a multiple below 2^20 are exact. */
#include "kernels/rope.h"

/* pi/2 in parts whose products with integers up to 2^20 are exact; from fdlibm (e_rem_pio2.c). */
static const double PIO2_1 = 1.57079632673412561417e+00;
static const double PIO2_2 = 6.07710050630396597660e-11;
static const double PIO2_2T = 2.02226624879595063154e-21;
static const double TWO_OVER_PI = 6.36619772367581382433e-01;
static const double LN2_HIGH = 6.93147180369123816490e-01;
static const double LN2_LOW = 1.90821492927058770002e-10;
static const double SHIFTER = 6755399441055744.0; /* 1.5 * 2^52 */

static double round_to_integer(double x) {
  volatile double shifted = x + SHIFTER;
  return shifted - SHIFTER;
}

static double two_to(int exponent) {
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

/* ln x for x > 0: x = 2^k * m, m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)). */
static double natural_log(double x) {
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
  return k * LN2_HIGH + (k * LN2_LOW + 2.0 * s * series);
}

/* e^x for |x| < 700. */
static double exponential(double x) {
  double k = round_to_integer(x * 1.44269504088896338700e+00);
  double r = (x - k * LN2_HIGH) - k * LN2_LOW;
  double sum = 1.0;
  for (int n = 18; n >= 1; n--) sum = 1.0 + r * sum / n;
  return sum * two_to((int)k);
}

/* Taylor series, |r| <= pi/4: the first term left out is under 2^-60. */
static double sine_near_zero(double r) {
  double square = r * r, sum = 1.0;
  for (int n = 20; n >= 2; n -= 2) sum = 1.0 - square * sum / (n * (n + 1));
  return r * sum;
}

static double cosine_near_zero(double r) {
  double square = r * r, sum = 1.0;
  for (int n = 19; n >= 1; n -= 2) sum = 1.0 - square * sum / (n * (n + 1));
  return sum;
}

void lap_rope_frequencies(double theta, double factor, int head_dim, int pairs, double *frequency) {
  double log_theta = natural_log(theta);
  for (int i = 0; i < pairs; i++) frequency[i] = exponential(-2.0 * i / head_dim * log_theta) / factor;
}

void lap_rope_table(const double *frequency, int pairs, int64_t position, float *cosine, float *sine) {
  for (int i = 0; i < pairs; i++) {
    double angle = (double)position * frequency[i];
    double quarter_turns = round_to_integer(angle * TWO_OVER_PI);
    double r = ((angle - quarter_turns * PIO2_1) - quarter_turns * PIO2_2) - quarter_turns * PIO2_2T;
    double s = sine_near_zero(r), c = cosine_near_zero(r);
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
