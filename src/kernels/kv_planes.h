/* kv_planes.h: how the keys and values of one layer lie in memory, and how a position is written.
 *
 * The layout is that of kv_layout.h. Bits, group size and head counts are parameters: constants in generated
 * code. */
#ifndef LAP_KERNELS_KV_PLANES_H
#define LAP_KERNELS_KV_PLANES_H

#include "device/kv_layout.h"
#include "kernels/affine.h"
#include "kernels/attention.h"
#include "kernels/quantize_row.h"

enum {
  LAP_PLAIN_BLOCKS = LAP_MAX_HEAD_DIM / 32
};

typedef struct lap_kv_planes {
  unsigned char *plane[LAP_KV_PLANES]; /* plain caches have no biases */
  int64_t capacity;
} lap_kv_planes;

/* What a kernel needs to read KV head `kv_head` of `kv_heads`. */
LAP_INLINE lap_kv_view lap_kv_planes_view(const int bits, const int group_size, const int head_dim,
                                          const int kv_heads, const lap_kv_planes *planes, int kv_head) {
  const size_t codes = lap_kv_head_bytes(bits, group_size, head_dim, LAP_K_CODES);
  const size_t scales = lap_kv_head_bytes(bits, group_size, head_dim, LAP_K_SCALES);
  const size_t head = (size_t)kv_head;
  lap_kv_view view = {
      .k = planes->plane[LAP_K_CODES] + head * codes,
      .v = planes->plane[LAP_V_CODES] + head * codes,
      .k_scales = planes->plane[LAP_K_SCALES] + head * scales,
      .v_scales = planes->plane[LAP_V_SCALES] + head * scales,
      .row_bytes = (size_t)kv_heads * codes,
      .scale_bytes = (size_t)kv_heads * scales,
      .capacity = planes->capacity,
      .head_dim = head_dim,
      .bits = bits,
      .group_size = group_size,
  };
  if (bits != LAP_PLAIN_BITS) {
    view.k_biases = planes->plane[LAP_K_BIASES] + head * scales;
    view.v_biases = planes->plane[LAP_V_BIASES] + head * scales;
  }
  return view;
}

/* int16 in blocks, as activations are quantized; the sums that go with those are not kept. */
LAP_INLINE void lap_kv_write_plain(const int group_size, const int head_dim, const float *x,
                                   unsigned char *codes, unsigned char *scales) {
  int16_t q[LAP_MAX_HEAD_DIM];
  float scale[LAP_PLAIN_BLOCKS], scaled_sum[LAP_PLAIN_BLOCKS];
  int32_t sum[LAP_PLAIN_BLOCKS];
  lap_qrow row = {.q = q, .scale = scale, .scaled_sum = scaled_sum, .sum = sum};
  if (group_size == 64) {
    LAP_ISA(lap_quantize_row)(x, head_dim, 64, &row);
  } else {
    LAP_ISA(lap_quantize_row)(x, head_dim, 32, &row);
  }
  memcpy(codes, q, (size_t)head_dim * sizeof *q);
  memcpy(scales, scale, (size_t)(head_dim / group_size) * sizeof *scale);
}

/* Writes K and V [head_dim] of one KV head at `position`. */
LAP_INLINE void lap_kv_write(const int bits, const int group_size, const int head_dim, const int kv_heads,
                             const lap_kv_planes *planes, int64_t position, int kv_head, const float *k,
                             const float *v) {
  const size_t slot = (size_t)(position % planes->capacity);
  unsigned char *at[LAP_KV_PLANES];
  for (int i = 0; i < lap_kv_plane_count(bits); i++) {
    const size_t bytes = lap_kv_head_bytes(bits, group_size, head_dim, i);
    at[i] = planes->plane[i] + (slot * (size_t)kv_heads + (size_t)kv_head) * bytes;
  }
  if (bits == LAP_PLAIN_BITS) {
    lap_kv_write_plain(group_size, head_dim, k, at[LAP_K_CODES], at[LAP_K_SCALES]);
    lap_kv_write_plain(group_size, head_dim, v, at[LAP_V_CODES], at[LAP_V_SCALES]);
    return;
  }
  lap_affine_quantize_row(k, head_dim, bits, group_size, LAP_FORMAT_F32, at[LAP_K_CODES], at[LAP_K_SCALES],
                          at[LAP_K_BIASES]);
  lap_affine_quantize_row(v, head_dim, bits, group_size, LAP_FORMAT_F32, at[LAP_V_CODES], at[LAP_V_SCALES],
                          at[LAP_V_BIASES]);
}

#endif
