/* draw.h: the bytes of a forged tensor, any eight of them at a time.
 *
 * The generator is counter-based: word i of a tensor (eight bytes, little-endian) is a function of the
 * tensor's key and i, so any range can be made by any thread in any order. The key comes from the seed
 * and the tensor's name: adding a tensor does not change the others.
 *
 * A word gives 64 bits of packed codes, or four bf16 values of 16 random bits each. The mixing function
 * is that of splitmix64 (Steele, Lea, Flood 2014). */
#ifndef LAP_FORGE_DRAW_H
#define LAP_FORGE_DRAW_H

#include "base/bytes.h"

typedef enum lap_draw_kind {
  LAP_DRAW_CODES,  /* every bit at random: each code of any width is uniform */
  LAP_DRAW_VALUES, /* bf16, uniform in centre +- spread */
  LAP_DRAW_SCALES, /* the same with a random sign, as MLX's quantizer leaves them */
  LAP_DRAW_BIASES  /* bf16, -middle * the group's scale, but for a few percent */
} lap_draw_kind;

typedef struct lap_draw {
  lap_draw_kind kind;
  uint64_t key;
  float centre, spread; /* BIASES: of the scales */
  uint64_t scales_key;  /* BIASES: the key of the scales that they go with */
  float middle;         /* BIASES: the mean code */
} lap_draw;

/* A bias misses the group's middle by up to this share, so that groups have means of their own. */
#define LAP_DRAW_BIAS_SPREAD 0.03f

static inline uint64_t lap_draw_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline uint64_t lap_draw_bits(uint64_t key, uint64_t index) {
  return lap_draw_mix(key + (index + 1) * 0x9e3779b97f4a7c15u);
}

static inline uint64_t lap_draw_key(uint64_t seed, const char *name) {
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return lap_draw_mix(lap_draw_mix(seed + 0x9e3779b97f4a7c15u) ^ hash);
}

/* 15 of the 16 bits, to [-1, 1); the lowest is left for the sign. */
static inline float lap_draw_unit(uint16_t bits) {
  return (float)(bits >> 1) * 0x1p-14f - 1.0f;
}

static inline uint16_t lap_draw_value(const lap_draw *draw, uint16_t bits) {
  return lap_f32_to_bf16(draw->centre + draw->spread * lap_draw_unit(bits));
}

static inline uint16_t lap_draw_scale(const lap_draw *draw, uint16_t bits) {
  return (uint16_t)(lap_draw_value(draw, bits) ^ ((bits & 1u) << 15));
}

static inline uint16_t lap_draw_bias(const lap_draw *draw, uint16_t bits, uint16_t scale_bits) {
  float scale = lap_bf16_to_f32(lap_draw_scale(draw, scale_bits));
  return lap_f32_to_bf16(-draw->middle * scale * (1.0f + LAP_DRAW_BIAS_SPREAD * lap_draw_unit(bits)));
}

static inline uint64_t lap_draw_four_values(const lap_draw *draw, uint64_t index) {
  uint64_t bits = lap_draw_bits(draw->key, index), word = 0;
  for (int i = 0; i < 64; i += 16) word |= (uint64_t)lap_draw_value(draw, (uint16_t)(bits >> i)) << i;
  return word;
}

static inline uint64_t lap_draw_four_scales(const lap_draw *draw, uint64_t index) {
  uint64_t bits = lap_draw_bits(draw->key, index), word = 0;
  for (int i = 0; i < 64; i += 16) word |= (uint64_t)lap_draw_scale(draw, (uint16_t)(bits >> i)) << i;
  return word;
}

static inline uint64_t lap_draw_four_biases(const lap_draw *draw, uint64_t index) {
  uint64_t bits = lap_draw_bits(draw->key, index), word = 0;
  uint64_t scale_bits = lap_draw_bits(draw->scales_key, index);
  for (int i = 0; i < 64; i += 16)
    word |= (uint64_t)lap_draw_bias(draw, (uint16_t)(bits >> i), (uint16_t)(scale_bits >> i)) << i;
  return word;
}

/* Words `first`..`first + count` to `out` [8 * count bytes, any alignment]. */
static inline void lap_draw_words(const lap_draw *draw, uint64_t first, size_t count, unsigned char *out) {
  uint64_t word;
  switch (draw->kind) {
    case LAP_DRAW_CODES:
      for (size_t i = 0; i < count; i++) {
        word = lap_draw_bits(draw->key, first + i);
        memcpy(out + 8 * i, &word, 8);
      }
      break;
    case LAP_DRAW_VALUES:
      for (size_t i = 0; i < count; i++) {
        word = lap_draw_four_values(draw, first + i);
        memcpy(out + 8 * i, &word, 8);
      }
      break;
    case LAP_DRAW_SCALES:
      for (size_t i = 0; i < count; i++) {
        word = lap_draw_four_scales(draw, first + i);
        memcpy(out + 8 * i, &word, 8);
      }
      break;
    case LAP_DRAW_BIASES:
      for (size_t i = 0; i < count; i++) {
        word = lap_draw_four_biases(draw, first + i);
        memcpy(out + 8 * i, &word, 8);
      }
      break;
  }
}

/* Bytes `at`..`at + count` of the tensor. Only the first and the last word may be cut. */
static inline void lap_draw_bytes(const lap_draw *draw, uint64_t at, size_t count, unsigned char *out) {
  unsigned char cut[8];
  size_t skipped = at % 8;
  if (skipped && count) {
    size_t n = count < 8 - skipped ? count : 8 - skipped;
    lap_draw_words(draw, at / 8, 1, cut);
    memcpy(out, cut + skipped, n);
    at += n;
    out += n;
    count -= n;
  }
  lap_draw_words(draw, at / 8, count / 8, out);
  if (count % 8 == 0) return;
  lap_draw_words(draw, (at + count) / 8, 1, cut);
  memcpy(out + count / 8 * 8, cut, count % 8);
}

#endif
