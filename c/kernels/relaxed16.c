/* The relaxed16 table: as the relaxed one, for CPUs whose dot products of bytes have sums of 16
 * bits (x86 without VNNI: vpmaddubsw; there the relaxed table's instruction becomes three to five).
 *
 * One relaxed instruction is used, i16x8.relaxed_dot_i8x16_i7x16_s: signed bytes times 7-bit ones,
 * two products a sum, which never saturates here (simd_quads.h). Nibbles are added up in 16 bits
 * over a block: a lane has 16 of its 32 products, at most 16 * 15 * 127 = 30,480. Bytes are widened
 * at once. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

/* Behind the sizes: what a block's sums of 16 bits start from, so that weights of 8 too much are
 * made good before the first product. Per token a pair, for its two lanes of a row: -8 * (sum over
 * k mod 4 of 0 and 1), of 2 and 3; [T] over all, [T] over k 0...15. */
enum { PANEL_MORE = 72 };

/* Two of 16 bits, which add up pairs. */
enum { OWN_CONSTANT = 0x00010001 };
#define SLOW_SUMS 0
#define QUADS UNROLL

#include "kernels/simd_quads.h"

INLINE int streams(bq_tile_shape s) {
  (void)s;
  return 4;
}

/* Sums of nibbles are pairs of 16 bits. On the way they may wrap, but what they end at fits. Ones
 * are in a register, of which one token has none left: there V8 reads them each time. */
INLINE v128_t widen(int T, v128_t pairs, const constants *c) {
  return T == 2 ? wasm_i32x4_dot_i16x8(pairs, c->own) : wasm_i32x4_extadd_pairwise_i16x8(pairs);
}

INLINE v128_t float_of(int bits, int T, v128_t sum, const constants *c) {
  return bits <= 4 ? wasm_f32x4_convert_i32x4(widen(T, sum, c)) : float_of_i32(sum);
}

INLINE v128_t start_of_none(int bits) {
  return bits <= 4 ? simd_zero() : wasm_i32x4_const_splat(SUM_START);
}

INLINE v128_t start_of(int bits, int part, int T, const uint8_t *sums) {
  if (bits > 4) return start_of_i32(bits, part, T, sums);
  const uint8_t *pairs = sums + T * (PANEL_SUMS - 4 + PANEL_SIZES);
  if (part == ALL) return wasm_v128_load32_splat(pairs);
  const v128_t low = wasm_v128_load32_splat(pairs + 4 * T);
  return part == LOW ? low : wasm_i16x8_sub(wasm_v128_load32_splat(pairs), low);
}

INLINE v128_t start_of_small(int zero, int T, const uint8_t *sums) {
  const v128_t one = wasm_i16x8_shr(start_of(4, ALL, T, sums), 3);
  return zero == 1 ? one : wasm_i16x8_add(one, wasm_i16x8_shl(one, 1));
}

/* Quads of one token, or of two in turn. */
INLINE void put_more(uint8_t *more, size_t bytes, const uint8_t *quads) {
  v128_t half[2] = {simd_zero(), simd_zero()};
  put_sizes(more, bytes, quads);
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
