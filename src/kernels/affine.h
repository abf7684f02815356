/* affine.h: MLX's affine quantization of a row.
 *
 * Codes equal `mx.quantize` on its CPU backend byte for byte (goldens/README.md): per group of g
 * values n = 2^bits - 1; scale = max((hi - lo) / n, 1e-7), negative unless |lo| > |hi|; edge = the end
 * of larger magnitude; q0 = rne(edge / scale); if q0 != 0 then scale = edge / q0 and bias = edge, else
 * bias = 0; code = clamp(rne((x - bias) / scale), 0, n) with the unrounded scale and bias, which are
 * stored in `format`. Elementwise but for min and max, so that no order is to be kept.
 *
 * Codes form one LSB-first bit stream. */
#ifndef LAP_KERNELS_AFFINE_H
#define LAP_KERNELS_AFFINE_H

#include "kernels/format.h"

/* Nearest even for any magnitude: floats of 2^23 and more are integers already. */
LAP_INLINE float lap_round_even(float x) {
  float magnitude = fabsf(x);
  if (!(magnitude < 8388608.0f)) return x;
  return copysignf((magnitude + 8388608.0f) - 8388608.0f, x);
}

LAP_INLINE void lap_affine_group(const float *x, int n, int bits, float *scale_out, float *bias_out,
                                 uint8_t *code) {
  const float top = (float)((1 << bits) - 1);
  float low = x[0], high = x[0];
  for (int i = 1; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  int low_is_edge = fabsf(low) > fabsf(high);
  float scale = (high - low) / top;
  scale = scale > 1e-7f ? scale : 1e-7f;
  scale = low_is_edge ? scale : -scale;
  float edge = low_is_edge ? low : high;
  float q0 = lap_round_even(edge / scale);
  float bias = 0.0f;
  if (q0 != 0.0f) {
    scale = edge / q0;
    bias = edge;
  }
  for (int i = 0; i < n; i++) {
    float q = lap_round_even((x[i] - bias) / scale);
    q = q > 0.0f ? q : 0.0f; /* a NaN becomes 0: the fault stays in scale and bias */
    q = q < top ? q : top;
    code[i] = (uint8_t)q;
  }
  *scale_out = scale;
  *bias_out = bias;
}

LAP_INLINE void lap_pack_codes(int bits, const uint8_t *code, int n, unsigned char *packed) {
  if (bits == 8) {
    memcpy(packed, code, (size_t)n);
    return;
  }
  if (bits == 4) {
    for (int i = 0; i < n / 2; i++) packed[i] = (unsigned char)(code[2 * i] | code[2 * i + 1] << 4);
    return;
  }
  uint32_t window = 0;
  int held = 0;
  for (int i = 0; i < n; i++) {
    window |= (uint32_t)code[i] << held;
    held += bits;
    for (; held >= 8; held -= 8, window >>= 8) *packed++ = (unsigned char)window;
  }
}

/* x [n], n a multiple of group_size (at most 128); codes [n * bits / 8]; scales, biases [n / group_size]. */
LAP_INLINE void lap_affine_quantize_row(const float *x, int n, int bits, int group_size, lap_format format,
                                        unsigned char *codes, void *scales, void *biases) {
  for (int g = 0; g < n / group_size; g++) {
    uint8_t code[128];
    float scale, bias;
    lap_affine_group(x + (size_t)g * (size_t)group_size, group_size, bits, &scale, &bias, code);
    lap_format_store(format, scales, (size_t)g, scale);
    lap_format_store(format, biases, (size_t)g, bias);
    lap_pack_codes(bits, code, group_size, codes + (size_t)g * (size_t)(group_size * bits / 8));
  }
}

#endif
