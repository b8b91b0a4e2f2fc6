/* Conversions between f16, bf16 and f32. Widening is exact for all 65,536 values, subnormals and
 * infinities included; narrowing rounds to nearest even; NaN stays NaN. */
#ifndef BQ_HALF_H
#define BQ_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bq_bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static inline float bq_float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static inline float bq_f16_to_f32(uint16_t h) {
  /* After the shift, the exponent is 112 too small, because f32 has another bias. The
   * multiplication corrects it and normalizes subnormals. */
  uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
  uint32_t u = bq_bits_of(bq_float_of(magnitude) * 0x1p112f);
  if (magnitude >= 0x0f800000u) u |= 0x7f800000u; /* infinity, NaN */
  return bq_float_of(u | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t bq_f32_to_f16(float f) {
  uint32_t u = bq_bits_of(f), sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (u >> 13 & 0x3ffu)); /* quiet NaN */
  if (u >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);                     /* >= 2^16 */
  if (u < 0x38800000u) /* below 2^-14: next to 0.5 the unit in the last place is 2^-24 */
    return (uint16_t)(sign | (bq_bits_of(bq_float_of(u) + 0.5f) - 0x3f000000u));
  u += 0xfffu + (u >> 13 & 1u);
  return (uint16_t)(sign | (u - 0x38000000u) >> 13); /* from 65,520 on the carry gives infinity */
}

static inline float bq_bf16_to_f32(uint16_t h) { return bq_float_of((uint32_t)h << 16); }

static inline uint16_t bq_f32_to_bf16(float f) {
  uint32_t u = bq_bits_of(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u); /* quiet NaN */
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

#endif
