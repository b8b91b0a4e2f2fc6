/* i8 attention of the relaxed16 table: i16x8.relaxed_dot_i8x16_i7x16_s, followed by the addition of
 * adjacent 16-bit sums. */
#ifdef __wasm_relaxed_simd__

#include "kernels/relaxed_attend.h"

INLINE void dot(v128_t bytes, v128_t magnitude, v128_t *sum) {
  static const uint32_t ones = 0x00010001;
  const v128_t pairs = wasm_i16x8_relaxed_dot_i8x16_i7x16(bytes, magnitude);
  const v128_t one = wasm_v128_load32_splat(simd_hide(&ones));
  *sum = wasm_i32x4_add(*sum, wasm_i32x4_dot_i16x8(pairs, one));
  simd_pin(sum);
}

void bq_relaxed16_attend_i8(const bq_attend_job *job) { attend_i8(job); }

BQ_KV_PACKED_TYPES(BQ_ATTEND_PACKED, relaxed16)

#else
typedef int no_relaxed_simd; /* a translation unit must declare something */
#endif
