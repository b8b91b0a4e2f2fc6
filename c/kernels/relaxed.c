/* The relaxed table: the simd128 table with other matmuls over tiled weights.
 *
 * It uses one relaxed instruction, i32x4.relaxed_dot_i8x16_i7x16_add_s: signed bytes times 7-bit
 * numbers, four products per sum. CPUs with VNNI or Arm's dot products have it as one instruction.
 * Its result may depend on the CPU only if the second operand exceeds 7 bits, or if a sum of two
 * products exceeds 16 bits (it may saturate). Neither happens here (simd_quads.h), so results are
 * the same everywhere. No other relaxed instruction may be used: a test disassembles each
 * module. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

enum { PANEL_EXTRA = 64, TABLE_CONSTANT = 0 };
#define SPLIT_SUMS 1
#define QUAD_LOOP KEEP_LOOP

/* Eight groups are fastest for 4-bit weights, but take the most code. */
#define GROUPS_AT_ONCE(block, bits, scale_bytes, min_bytes) \
  ((bits) == 4 && (block) == 32 && !(min_bytes) ? 8 : 4)

#include "kernels/simd_quads.h"

INLINE v128_t sum_to_f32(int bits, int T, v128_t sum, const constants *c) {
  (void)bits, (void)T, (void)c;
  return sum_to_f32_i32(sum);
}

INLINE v128_t initial_sum_zero(int bits) {
  (void)bits;
  return wasm_i32x4_const_splat(SUM_START);
}

INLINE v128_t initial_sum(int bits, int part, int T, const uint8_t *sums) {
  return initial_sum_i32(bits, part, T, sums);
}

INLINE v128_t initial_sum_sub4(int zero, int T, const uint8_t *sums) {
  return initial_sum_sub4_i32(zero, T, sums);
}

INLINE void put_panel_extra(uint8_t *more, size_t bytes, const uint8_t *quads) {
  put_magnitudes(more, bytes, quads);
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
