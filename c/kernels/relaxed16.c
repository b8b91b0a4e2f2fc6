/* The relaxed16 table: as the relaxed table, for CPUs whose byte dot products have 16-bit sums (x86
 * without VNNI: vpmaddubsw). On these, the relaxed table's instruction compiles to three to five.
 *
 * It uses one relaxed instruction, i16x8.relaxed_dot_i8x16_i7x16_s: signed bytes times 7-bit
 * numbers, two products per sum, which never saturates here (simd_quads.h). Products of nibbles are
 * accumulated in 16 bits over a block: a lane holds 16 of its 32 products, at most 16 * 15 * 127 =
 * 30,480. Products of bytes are widened to 32 bits immediately. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

/* The extra bytes of a panel block: the magnitudes and sign masks, then the initial 16-bit sums,
 * which subtract the zero point 8 of nibbles. Each is a pair of i16 per token, for the two lanes of
 * a row: -8 * (sum over k mod 4 = 0 and 1), -8 * (sum over k mod 4 = 2 and 3); [T] over all k, then
 * [T] over k 0...15. */
enum { PANEL_EXTRA = 72 };

/* Two 16-bit ones: a dot product with them adds adjacent lanes. */
enum { TABLE_CONSTANT = 0x00010001 };
#define SPLIT_SUMS 0
#define QUAD_LOOP UNROLL
#define GROUPS_AT_ONCE(block, bits, scale_bytes, min_bytes) 4

#include "kernels/simd_quads.h"

/* Converts the 16-bit pairs of nibble sums to i32. Intermediate sums may wrap, but the final ones
 * fit. For pairs, the constant `own` (ones) stays in a register. The loop over one token has no
 * free register, and V8 would load the constant each time. */
INLINE v128_t widen(int T, v128_t pairs, const constants *c) {
  return T == 2 ? wasm_i32x4_dot_i16x8(pairs, c->own) : wasm_i32x4_extadd_pairwise_i16x8(pairs);
}

INLINE v128_t sum_to_f32(int bits, int T, v128_t sum, const constants *c) {
  return bits <= 4 ? wasm_f32x4_convert_i32x4(widen(T, sum, c)) : sum_to_f32_i32(sum);
}

INLINE v128_t initial_sum_zero(int bits) {
  return bits <= 4 ? simd_zero() : wasm_i32x4_const_splat(SUM_START);
}

INLINE v128_t initial_sum(int bits, int part, int T, const uint8_t *sums) {
  if (bits > 4) return initial_sum_i32(bits, part, T, sums);
  const uint8_t *pairs = sums + T * (PANEL_SUMS - 4 + PANEL_MAGNITUDES);
  if (part == ALL) return wasm_v128_load32_splat(pairs);
  const v128_t low = wasm_v128_load32_splat(pairs + 4 * T);
  return part == LOW ? low : wasm_i16x8_sub(wasm_v128_load32_splat(pairs), low);
}

INLINE v128_t initial_sum_sub4(int zero, int T, const uint8_t *sums) {
  const v128_t one = wasm_i16x8_shr(initial_sum(4, ALL, T, sums), 3);
  return zero == 1 ? one : wasm_i16x8_add(one, wasm_i16x8_shl(one, 1));
}

/* `quads` holds the quads of one token, or of two tokens alternately. */
INLINE void put_panel_extra(uint8_t *more, size_t bytes, const uint8_t *quads) {
  v128_t half[2] = {simd_zero(), simd_zero()};
  put_magnitudes(more, bytes, quads);
  for (size_t i = 0; i < bytes; i += 16) {
    const v128_t pairs = wasm_i16x8_extadd_pairwise_i8x16(wasm_v128_load(quads + i));
    half[i >= bytes / 2] = wasm_i16x8_sub(half[i >= bytes / 2], wasm_i16x8_shl(pairs, 3));
  }
  v128_t both = wasm_i16x8_add(half[0], half[1]);
  v128_t sums = wasm_i16x8_add(wasm_i64x2_shuffle(both, half[0], 0, 2),
                               wasm_i64x2_shuffle(both, half[0], 1, 3));
  if (bytes == PANEL_Q) {
    sums = wasm_i16x8_add(wasm_i32x4_shuffle(sums, sums, 0, 2, 0, 2),
                          wasm_i32x4_shuffle(sums, sums, 1, 3, 1, 3));
    wasm_v128_store64_lane(more + 2 * bytes, sums, 0);
    return;
  }
  wasm_v128_store(more + 2 * bytes, sums);
}

INLINE void dot(v128_t a, v128_t w, const constants *c, v128_t *sum) {
  const v128_t pairs = wasm_i16x8_relaxed_dot_i8x16_i7x16(a, w);
  *sum = wasm_i32x4_add(*sum, wasm_i32x4_dot_i16x8(pairs, c->own));
  simd_pin(sum);
}

INLINE void dot_nibble(v128_t a, v128_t w, const constants *c, v128_t *sum) {
  (void)c;
  *sum = wasm_i16x8_add(*sum, wasm_i16x8_relaxed_dot_i8x16_i7x16(a, w));
  simd_pin(sum);
}

#ifndef BQ_RARE_MODULE
static const bq_kernels table = {
    .name = "relaxed16",
    .matrix = {BQ_FLOAT_TYPES(BQ_SIMD128_FLOAT_ROW) BQ_KERNEL_TYPES(TILED_ROW)},
    .panel_bytes = panel_bytes,
    .quantize = quantize,
    BQ_SIMD128_VECTOR_SLOTS,
    BQ_SIMD128_ATTEND_SLOTS(relaxed16),
};

const bq_kernels *bq_kernels_relaxed16(void) { return &table; }
#endif

#else
const bq_kernels *bq_kernels_relaxed16(void) { return NULL; }
#endif
