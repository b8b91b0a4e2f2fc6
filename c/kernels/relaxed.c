/* The relaxed table: the simd128 table with the matmuls over tiled weights replaced.
 *
 * One relaxed instruction is used, i32x4.relaxed_dot_i8x16_i7x16_add_s: signed bytes times 7-bit
 * ones, four products a sum. It is one instruction where a CPU has it (VNNI, Arm's dot products).
 * Engines may differ only where the second operand exceeds 7 bits or a sum of two products 16
 * (they may saturate it). Neither happens here (simd_quads.h), so the result is the same
 * everywhere. Nothing else may be relaxed: a test disassembles each module. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

enum { PANEL_MORE = 64, OWN_CONSTANT = 0 };
#define SLOW_SUMS 1
#define QUADS KEEP_LOOP

#include "kernels/simd_quads.h"

/* Eight are the fastest with 4-bit weights, and the largest in code. */
INLINE int streams(bq_tile_shape s) {
  return s.bits == 4 && s.block == 32 && !s.min_bytes ? 8 : 4;
}

INLINE v128_t float_of(int bits, int T, v128_t sum, const constants *c) {
  (void)bits, (void)T, (void)c;
  return float_of_i32(sum);
}

INLINE v128_t start_of_none(int bits) {
  (void)bits;
  return wasm_i32x4_const_splat(SUM_START);
}

INLINE v128_t start_of(int bits, int part, int T, const uint8_t *sums) {
  return start_of_i32(bits, part, T, sums);
}

INLINE v128_t start_of_small(int zero, int T, const uint8_t *sums) {
  return start_of_small_i32(zero, T, sums);
}

INLINE void put_more(uint8_t *more, size_t bytes, const uint8_t *quads) {
  put_sizes(more, bytes, quads);
}

INLINE void dot(v128_t a, v128_t w, const constants *c, v128_t *sum) {
  (void)c;
  *sum = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w, *sum);
  simd_pin(sum);
}

INLINE void dot_nibble(v128_t a, v128_t w, const constants *c, v128_t *sum) { dot(a, w, c, sum); }

#ifndef BQ_RARE_MODULE
static const bq_kernels table = {
    .name = "relaxed",
    .matrix = {BQ_FLOAT_TYPES(BQ_SIMD128_FLOAT_ROW) BQ_KERNEL_TYPES(TILED_ROW)},
    .panel_bytes = panel_bytes,
    .quantize = quantize,
    BQ_SIMD128_VECTOR_SLOTS,
    BQ_SIMD128_ATTEND_SLOTS(relaxed),
};

const bq_kernels *bq_kernels_relaxed(void) { return &table; }
#endif

#else
const bq_kernels *bq_kernels_relaxed(void) { return NULL; }
#endif
