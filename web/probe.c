/* A module of its own, of 1 KB: the inner loop of a batch as the relaxed kernels have it and as the
 * SIMD128 kernels have it (dot_pair in c/kernels). The relaxed dot product is one instruction on
 * some machines and several on others, which WebAssembly doesn't tell: js/wasm/features.js times
 * both and loads the faster build. Weights and activations are zeros; a pass stays in the L1
 * cache. */
#include <stdbool.h>

#include "kernels/simd.h"

enum { PASSES = 256, MEMORY = 64 * 16 };
static const uint8_t memory[MEMORY];

INLINE v128_t relaxed_dot(v128_t w, v128_t a, v128_t sum) {
  return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w, sum);
}
INLINE v128_t simd128_dot(v128_t w, v128_t a, v128_t sum) {
  return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, a));
}

/* A block of 32 k: `quads` of two tokens times n vectors of weights. */
INLINE void add_block(bool relaxed, int quads, int n, v128_t *sum) {
  const uint8_t *at = simd_hide(memory);
  UNROLL for (int j = 0; j < quads; j++) {
    v128_t a0 = wasm_v128_load32_splat(at + 8 * j), a1 = wasm_v128_load32_splat(at + 8 * j + 4);
    UNROLL for (int i = 0; i < n; i++) {
      v128_t w = wasm_v128_load(at + 16 * (j * n + i));
      sum[i] = relaxed ? relaxed_dot(w, a0, sum[i]) : simd128_dot(w, a0, sum[i]);
      simd_pin(&sum[i]);
      sum[n + i] = relaxed ? relaxed_dot(w, a1, sum[n + i]) : simd128_dot(w, a1, sum[n + i]);
      simd_pin(&sum[n + i]);
    }
  }
}

/* The same number of multiplications with either dot: of 24 rows at once, or 16. Both are in one
 * function, so that an engine that makes better code of what is used much does it for both at
 * once. */
__attribute__((export_name("multiply"))) int32_t multiply(bool relaxed) {
  v128_t sum[12];
  UNROLL for (int i = 0; i < 12; i++) sum[i] = simd_zero();
  if (relaxed) {
    KEEP_LOOP for (int pass = 0; pass < 2 * PASSES; pass++) add_block(true, 8, 6, sum);
  } else {
    KEEP_LOOP for (int pass = 0; pass < 3 * PASSES; pass++) add_block(false, 16, 4, sum);
  }
  UNROLL for (int i = 1; i < 12; i++) sum[0] = wasm_i32x4_add(sum[0], sum[i]);
  return simd_sum_i32(sum[0]);
}
