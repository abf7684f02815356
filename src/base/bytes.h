/* bytes.h: unaligned loads, and the 16-bit float formats.
 *
 * Tensor data in a safetensors file may stand at any address, so every scalar read goes through
 * memcpy, which compiles to one load. Widening bf16 and f16 is exact; narrowing rounds to nearest,
 * ties to even, as MLX does (goldens/ops/bf16.safetensors). */
#ifndef LAP_BASE_BYTES_H
#define LAP_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint16_t lap_load_u16(const void *p) {
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t lap_load_u32(const void *p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint64_t lap_load_u64(const void *p) {
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline float lap_load_f32(const void *p) {
  float v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t lap_f32_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static inline float lap_f32_from_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static inline float lap_bf16_to_f32(uint16_t h) {
  return lap_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t lap_f32_to_bf16(float v) {
  uint32_t bits = lap_f32_bits(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u); /* quiet NaN */
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float lap_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t exponent = (h >> 10) & 0x1fu;
  uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return lap_f32_from_bits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent) return lap_f32_from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  /* Zero and subnormals: mantissa * 2^-24, exact in f32. */
  float magnitude = (float)mantissa * 0x1p-24f;
  return lap_f32_from_bits(sign | lap_f32_bits(magnitude));
}

static inline uint16_t lap_f32_to_f16(float v) {
  uint32_t bits = lap_f32_bits(v);
  uint16_t sign = (uint16_t)((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  if (bits < 0x38800000u) {
    /* Below 2^-14: adding 0.5 puts the value's last kept bit at 2^-24 and rounds it there. */
    float shifted = lap_f32_from_bits(bits) + 0.5f;
    return (uint16_t)(sign | (uint16_t)(lap_f32_bits(shifted) - lap_f32_bits(0.5f)));
  }
  uint32_t rounded = bits + 0xfffu + ((bits >> 13) & 1u) - (112u << 23);
  return (uint16_t)(sign | (rounded >> 13));
}

#endif
