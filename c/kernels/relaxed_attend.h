/* Attention over an i8 cache with relaxed dot products, whose second operand must be 0...127
 * (simd_quads.h). Softmax weights are in that range. A query is split into magnitudes and signs:
 * the bits of keys that are multiplied with a negative number are flipped (~k = -k - 1). The
 * missing magnitude is part of the initial sum. The including file defines `dot`. */
#ifndef BQ_KERNELS_RELAXED_ATTEND_H
#define BQ_KERNELS_RELAXED_ATTEND_H

enum { KEY_BYTES = 64, VALUE_BYTES = 32 }; /* a query's magnitudes and sign masks; magnitudes of
                                              weights */
#define UNIT 1.0f

#include "kernels/simd_attend.h"

/* *sum += signed bytes of four rows times magnitudes of at most 7 bits. */
INLINE void dot(v128_t bytes, v128_t magnitude, v128_t *sum);

INLINE void put_values(uint8_t *p, v128_t low, v128_t high) {
  wasm_v128_store(p, low);
  wasm_v128_store(p + 16, high);
}

INLINE void put_keys(uint8_t *p, v128_t low, v128_t high) {
  put_values(p, wasm_i8x16_abs(low), wasm_i8x16_abs(high));
  put_values(p + 32, wasm_i8x16_shr(low, 7), wasm_i8x16_shr(high, 7));
}

INLINE int32_t key_initial_sum(v128_t low, v128_t high) {
  v128_t least = simd_zero();
  low = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(low, least));
  high = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(high, least));
  return -simd_sum_i32(wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(low, high)));
}

INLINE void dot_keys(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                     v128_t sum[BQ_ATTEND_ROWS][2]) {
  UNROLL for (int h = 0; h < H; h++) {
    v128_t magnitude = wasm_v128_load32_splat(quad + KEY_BYTES * h);
    v128_t flip = wasm_v128_load32_splat(quad + KEY_BYTES * h + 32);
    dot(wasm_v128_xor(w0, flip), magnitude, &sum[h][0]);
    dot(wasm_v128_xor(w1, flip), magnitude, &sum[h][1]);
  }
}

INLINE void dot_values(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                       v128_t sum[BQ_ATTEND_ROWS][2]) {
  UNROLL for (int h = 0; h < H; h++) {
    v128_t weight = wasm_v128_load32_splat(quad + VALUE_BYTES * h);
    dot(w0, weight, &sum[h][0]);
    dot(w1, weight, &sum[h][1]);
  }
}

#endif
