/* kv_layout.h: how the keys and values of one layer lie in memory, on every device.
 *
 * A cache is a few planes with the same slot numbering, [capacity, kv_heads, row]: the codes of K and V,
 * their scales and, where the codes are affine (4 and 8 bits), their biases. Position p stands in slot p
 * mod capacity. Plain caches hold signed 16-bit codes with a scale for each group (quantize_row.h).
 * Scales and biases are f32 (docs/numerics.md has the reason). Because the layout is the same everywhere,
 * what was stored on one device is read on another. Depends on nothing, so that generated code can include
 * it. */
#ifndef LAP_DEVICE_KV_LAYOUT_H
#define LAP_DEVICE_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum {
  LAP_K_CODES,
  LAP_V_CODES,
  LAP_K_SCALES,
  LAP_V_SCALES,
  LAP_K_BIASES,
  LAP_V_BIASES,
  LAP_KV_PLANES,
  LAP_PLAIN_BITS = 16
};

enum {
  LAP_KERNEL_CONTRACT = 1 /* docs/numerics.md: the bits that every operation gives, and so what caches hold */
};

/* Values of a plain cache that share a scale. */
static inline int lap_plain_group(int head_dim) {
  return head_dim % 64 ? 32 : 64;
}

/* Planes of a cache. */
static inline int lap_kv_plane_count(int bits) {
  return bits == LAP_PLAIN_BITS ? LAP_K_BIASES : LAP_KV_PLANES;
}

/* Bytes of one position of one KV head in plane `index`. */
static inline size_t lap_kv_head_bytes(const int bits, const int group_size, const int head_dim, int index) {
  if (index < LAP_K_SCALES) return (size_t)(head_dim * bits / 8);
  return (size_t)(head_dim / group_size) * sizeof(float);
}

#endif
