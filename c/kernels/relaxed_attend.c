/* i8 attention of the relaxed table: i32x4.relaxed_dot_i8x16_i7x16_add_s only. */
#ifdef __wasm_relaxed_simd__

#include "kernels/relaxed_attend.h"

INLINE void dot(v128_t bytes, v128_t magnitude, v128_t *sum) {
  *sum = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(bytes, magnitude, *sum);
  simd_pin(sum);
}

void bq_relaxed_attend_i8(const bq_attend_job *job) { attend_i8(job); }

BQ_KV_PACKED_TYPES(BQ_ATTEND_PACKED, relaxed)

#else
typedef int no_relaxed_simd; /* a translation unit must declare something */
#endif
