/* format.h: the number formats that kernels read weights and caches in.
 *
 * A mirror of the float members of lap_dtype, so that the kernels include nothing above them. */
#ifndef LAP_KERNELS_FORMAT_H
#define LAP_KERNELS_FORMAT_H

#include "kernels/lanes.h"

typedef enum lap_format {
  LAP_FORMAT_F32,
  LAP_FORMAT_F16,
  LAP_FORMAT_BF16
} lap_format;

LAP_INLINE size_t lap_format_bytes(lap_format format) {
  return format == LAP_FORMAT_F32 ? 4 : 2;
}

/* Element i of an array in `format` at any alignment; widening is exact. */
LAP_INLINE float lap_format_load(lap_format format, const void *array, size_t i) {
  const unsigned char *p = (const unsigned char *)array + i * lap_format_bytes(format);
  switch (format) {
    case LAP_FORMAT_F32:
      return lap_load_f32(p);
    case LAP_FORMAT_F16:
      return lap_f16_to_f32(lap_load_u16(p));
    default:
      return lap_bf16_to_f32(lap_load_u16(p));
  }
}

/* Narrowing rounds to nearest even. */
LAP_INLINE void lap_format_store(lap_format format, void *array, size_t i, float value) {
  unsigned char *p = (unsigned char *)array + i * lap_format_bytes(format);
  if (format == LAP_FORMAT_F32) {
    memcpy(p, &value, 4);
  } else {
    uint16_t h = format == LAP_FORMAT_F16 ? lap_f32_to_f16(value) : lap_f32_to_bf16(value);
    memcpy(p, &h, 2);
  }
}

#ifdef LAP_HAVE_AVX2
/* Elements i..i+7. */
LAP_INLINE __m256 lap_format_load8_avx2(lap_format format, const void *array, size_t i) {
  const unsigned char *p = (const unsigned char *)array + i * lap_format_bytes(format);
  switch (format) {
    case LAP_FORMAT_F32:
      return _mm256_loadu_ps((const float *)(const void *)p);
    case LAP_FORMAT_F16:
      return lap_f16x8_avx2(p);
    default:
      return lap_bf16x8_avx2(p);
  }
}

LAP_INLINE __m128 lap_format_load4_avx2(lap_format format, const void *array, size_t i) {
  const unsigned char *p = (const unsigned char *)array + i * lap_format_bytes(format);
  switch (format) {
    case LAP_FORMAT_F32:
      return _mm_loadu_ps((const float *)(const void *)p);
    case LAP_FORMAT_F16:
      return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)p));
    default:
      return _mm_castsi128_ps(
          _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)), 16));
  }
}
#endif

#ifdef LAP_HAVE_NEON
/* Elements i..i+3. */
LAP_INLINE float32x4_t lap_format_load4_neon(lap_format format, const void *array, size_t i) {
  const unsigned char *p = (const unsigned char *)array + i * lap_format_bytes(format);
  switch (format) {
    case LAP_FORMAT_F32:
      return lap_f32x4_neon(p);
    case LAP_FORMAT_F16:
      return lap_f16x4_neon(p);
    default:
      return lap_bf16x4_neon(p);
  }
}
#endif

#endif
