/* A benchmark module of 1 KB: the inner loop of a GEMM of each kernel table (the dot products of
 * c/kernels/simd_pair.h). A relaxed dot product compiles to one instruction or to several, and
 * WebAssembly doesn't reveal which. js/wasm/build-choice.js therefore times all loops and loads the
 * fastest build. Weights and activations are zeros; their memory fits in the L1 cache. */
#include "kernels/simd.h"

enum { PASSES = 256, MEMORY = 64 * 16 };
static const uint8_t memory[MEMORY];

/* Kernel tables, in the numbering of js/wasm/build-choice.js. */
enum { SIMD128, RELAXED, RELAXED16 };

INLINE v128_t dot(int table, v128_t w, v128_t a, v128_t sum) {
  if (table == RELAXED) return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w, sum);
  if (table == RELAXED16) return wasm_i16x8_add(sum, wasm_i16x8_relaxed_dot_i8x16_i7x16(a, w));
  return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, a));
}

/* Multiplies a block: `quads` groups of four columns of two tokens by n vectors of weights each. */
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

/* Runs the loop of a table, 24 or 16 rows at once; the number of multiplications is the same for
 * all. All loops are in one function, so that a JavaScript engine that optimizes hot functions
 * later optimizes them at the same time. */
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
