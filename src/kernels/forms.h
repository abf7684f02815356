/* forms.h: how many bytes the quantized forms of an input take, and which form a product reads.
 *
 * An input of products stands in memory in the forms that its readers want: int16 codes in blocks of 64 or 32
 * (quantize_row.h), in natural order or in that of 4-bit weights. Sizes are the same for every instruction
 * set and need no kernel, so that whoever lays memory out can know them. */
#ifndef LAP_KERNELS_FORMS_H
#define LAP_KERNELS_FORMS_H

#include "kernels/lanes.h"

enum {
  LAP_ALIGNMENT = 64
};

LAP_INLINE size_t lap_aligned(size_t bytes) {
  return (bytes + LAP_ALIGNMENT - 1) / LAP_ALIGNMENT * LAP_ALIGNMENT;
}

/* What readers of activations want: codes in natural order, or, for 4-bit weights, in the order that the
 * instruction set's products with those read. */
enum {
  LAP_FORM_64 = 1, /* blocks of 64 */
  LAP_FORM_64_NIBBLE = 2,
  LAP_FORM_32 = 4,
  LAP_FORM_32_NIBBLE = 8,
  LAP_FORMS_ALL = 15
};

/* The block of the input for weights in groups of `group_size`. */
LAP_INLINE int lap_block_of_group(int group_size) {
  return group_size < 64 ? group_size : 64;
}

/* The form for a reader with weights of `bits` (0 = dense) in groups of `group_size`. */
LAP_INLINE int lap_form_for(int bits, int group_size) {
  if (bits == 0) return 0;
  if (lap_block_of_group(group_size) == 32) return bits == 4 ? LAP_FORM_32_NIBBLE : LAP_FORM_32;
  return bits == 4 ? LAP_FORM_64_NIBBLE : LAP_FORM_64;
}

LAP_INLINE int lap_padded(int width) {
  return (width + 63) / 64 * 64;
}

/* Products with 4-bit weights read the columns behind the last 64 in natural order. */
LAP_INLINE int lap_wants_natural(const int width, const int natural, const int nibble) {
  return natural || (nibble && width % 64 != 0);
}

/* Bytes for each row of one block size: every array begins on a cache line whatever the rows. The same for
 * every instruction set, so that generated code can know them. */
LAP_INLINE size_t lap_form_row_bytes(const int width, const int block, const int natural, const int nibble) {
  const size_t codes = (size_t)lap_padded(width) * sizeof(int16_t);
  const int orders = (nibble != 0) + lap_wants_natural(width, natural, nibble);
  return orders ? (size_t)orders * codes + 3 * lap_aligned((size_t)(width / block) * sizeof(float)) : 0;
}

LAP_INLINE size_t lap_input_row_bytes(const int width, const int forms) {
  return lap_form_row_bytes(width, 64, forms & LAP_FORM_64, forms & LAP_FORM_64_NIBBLE) +
         lap_form_row_bytes(width, 32, forms & LAP_FORM_32, forms & LAP_FORM_32_NIBBLE);
}

#endif
