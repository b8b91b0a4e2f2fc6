/* A module of its own, of 1 KB: the inner loop of a GEMM as in each kernel table (the dots of pairs
 * in c/kernels). A relaxed dot product compiles to one instruction or to several, which WebAssembly
 * doesn't reveal, so js/wasm/build-choice.js times all loops and loads the fastest build. Weights
 * and activations are zeros; a pass stays in the L1 cache. */
#include "kernels/simd.h"

enum { PASSES = 256, MEMORY = 64 * 16 };
static const uint8_t memory[MEMORY];

/* As js/wasm/build-choice.js numbers them. */
enum { SIMD128, RELAXED, RELAXED16 };

INLINE v128_t dot(int table, v128_t w, v128_t a, v128_t sum) {
  if (table == RELAXED) return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w, sum);
  if (table == RELAXED16) return wasm_i16x8_add(sum, wasm_i16x8_relaxed_dot_i8x16_i7x16(a, w));
  return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, a));
}

/* A block of 32 k: `quads` of two tokens times n vectors of weights. */
INLINE void add_block(int table, int quads, int n, v128_t *sum) {
  const uint8_t *at = simd_hide(memory);
  UNROLL for (int j = 0; j < quads; j++) {
    v128_t a0 = wasm_v128_load32_splat(at + 8 * j), a1 = wasm_v128_load32_splat(at + 8 * j + 4);
    UNROLL for (int i = 0; i < n; i++) {
      v128_t w = wasm_v128_load(at + 16 * (j * n + i));
      sum[i] = dot(table, w, a0, sum[i]);
      simd_pin(&sum[i]);
      sum[n + i] = dot(table, w, a1, sum[n + i]);
      simd_pin(&sum[n + i]);
    }
  }
}

/* Runs the same number of multiplications with any dot: 24 rows at once, or 16. All loops are in
 * one function, so that an engine that optimizes hot functions later treats them alike. */
__attribute__((export_name("multiply"))) int32_t multiply(int32_t table) {
  v128_t sum[12];
  UNROLL for (int i = 0; i < 12; i++) sum[i] = simd_zero();
  if (table == RELAXED) {
    KEEP_LOOP for (int pass = 0; pass < 2 * PASSES; pass++) add_block(RELAXED, 8, 6, sum);
  } else if (table == RELAXED16) {
    KEEP_LOOP for (int pass = 0; pass < 2 * PASSES; pass++) add_block(RELAXED16, 8, 6, sum);
  } else {
    KEEP_LOOP for (int pass = 0; pass < 3 * PASSES; pass++) add_block(SIMD128, 16, 4, sum);
  }
  UNROLL for (int i = 1; i < 12; i++) sum[0] = wasm_i32x4_add(sum[0], sum[i]);
  return simd_sum_i32(sum[0]);
}
