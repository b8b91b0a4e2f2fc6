/* The part that both relaxed tables share. In a relaxed dot product, activations are the operand of
 * signed bytes, and weights below 128 are the 7-bit operand. Nibbles are 0...15, activations at
 * most 127 in magnitude: sums of two products are at most 3,810. 8-bit weights, at most 128 in
 * magnitude, are multiplied with magnitudes of activations, 0...127: sums of two products are at
 * most 32,512. So no sum of two products saturates, which is the only case in which CPUs may
 * differ.
 *
 * The including file defines, before the #include: enum { PANEL_EXTRA, TABLE_CONSTANT }, the bytes
 * of a token in a block after its scales (PANEL_MAGNITUDES and its own) and a word that becomes the
 * constant `own`; QUAD_LOOP, the unrolling of the loop over four quads of a batch; SPLIT_SUMS, 1 if
 * adding to a sum has a long latency. After it:
 *   void dot(v128_t a, v128_t w, const constants *c, v128_t *sum);
 *       a quad of one token times unsigned weights below 128 of four rows: four sums
 *   void dot_nibble(v128_t a, v128_t w, const constants *c, v128_t *sum);
 *       the same for weights below 16, with sums as initial_sum and sum_to_f32 define them for 4
 *       bits
 * and the other functions that simd_tiles.h requires (all inlined). */
#ifndef BQ_KERNELS_SIMD_QUADS_H
#define BQ_KERNELS_SIMD_QUADS_H

#include "kernels/simd.h"

/* A quad is four signed bytes in the order of k: quad j of 8. After the scales of a block follow,
 * in the same order, the magnitudes of its activations and the sign masks for the weight bytes that
 * are multiplied with them (dot_signed). */
enum { PANEL_Q = 32, PANEL_MAGNITUDES = 64 };

/* Integer sums are biased by 0x4b400000 (1.5 * 2^23 as f32). Reinterpreting them as f32 and
 * subtracting the bias replaces the i32-to-f32 conversion, which competes with the dot products for
 * a port. Sums are far below 2^22 in magnitude. */
#define FLOAT_START 0x1.8p23f
enum { SUM_UNIT = 1, SUM_START = 0x4b400000 };

/* `own` is the including table's TABLE_CONSTANT. */
typedef struct constants {
  v128_t nibble, own;
  v128_t three, six, seven, four; /* masks of each byte */
} constants;

#define HAS_PAIR_KERNEL
#include "kernels/attend.h"
#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE constants prepare(void) {
  SIMD_CONSTANTS(super_scales, 0x0f0f0f0f, TABLE_CONSTANT, 0x03030303, 0x06060606, 0x07070707,
                 0x04040404);
  const uint32_t *n = simd_hide(super_scales);
  return (constants){wasm_v128_load32_splat(n),     wasm_v128_load32_splat(n + 1),
                     wasm_v128_load32_splat(n + 2), wasm_v128_load32_splat(n + 3),
                     wasm_v128_load32_splat(n + 4), wasm_v128_load32_splat(n + 5)};
}

INLINE void dot(v128_t a, v128_t w, const constants *c, v128_t *sum);
INLINE void dot_nibble(v128_t a, v128_t w, const constants *c, v128_t *sum);

INLINE v128_t sum_to_f32_i32(v128_t sum) {
  return wasm_f32x4_sub(sum, wasm_f32x4_const_splat(FLOAT_START));
}

INLINE v128_t initial_sum_i32(int bits, int part, int T, const uint8_t *sums) {
  const uint8_t *low_at = sums + 4 * T, *negative = low_at + 4 * T;
  if (bits == 8) return wasm_v128_load32_splat(negative);
  const v128_t none = wasm_i32x4_const_splat(SUM_START);
  v128_t start = wasm_v128_load32_splat(part == LOW ? low_at : sums); /* zero point 8 */
  if (part == LOW) return wasm_i32x4_add(none, wasm_i32x4_shl(start, bits - 4));
  if (part == HIGH) start = wasm_i32x4_sub(start, wasm_v128_load32_splat(low_at));
  if (bits == 4) return start;
  return wasm_i32x4_add(none, wasm_i32x4_shl(wasm_i32x4_sub(start, none), bits - 4));
}

INLINE v128_t low_nibbles(v128_t w, const constants *c) { return wasm_v128_and(w, c->nibble); }
INLINE v128_t high_nibbles(v128_t w, const constants *c) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), c->nibble);
}

/* Loads are outside the inner loop, because compilers move none across a simd_pin. */
INLINE void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t low = wasm_v128_load32_splat(q + 4 * j), high = wasm_v128_load32_splat(q + 16 + 4 * j);
    UNROLL for (int g = 0; g < G; g++) {
      v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
      if (part & LOW) {
        dot_nibble(low, low_nibbles(w0, c), c, &sum[g][0]);
        dot_nibble(low, low_nibbles(w1, c), c, &sum[g][1]);
      }
      if (part & HIGH) {
        dot_nibble(high, high_nibbles(w0, c), c, &sum[g][0]);
        dot_nibble(high, high_nibbles(w1, c), c, &sum[g][1]);
      }
    }
  }
}

/* As dot_nibbles, with the entries of `table` for the nibbles: weights of 7 bits. */
INLINE void dot_codes(int G, int part, const uint8_t *const *w, const uint8_t *q, v128_t table,
                      const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t low = wasm_v128_load32_splat(q + 4 * j), high = wasm_v128_load32_splat(q + 16 + 4 * j);
    UNROLL for (int g = 0; g < G; g++)
      UNROLL for (int h = 0; h < 2; h++) {
        const v128_t v = wasm_v128_load(w[g] + 32 * j + 16 * h);
        if (part & LOW) dot(low, wasm_i8x16_swizzle(table, low_nibbles(v, c)), c, &sum[g][h]);
        if (part & HIGH) dot(high, wasm_i8x16_swizzle(table, high_nibbles(v, c)), c, &sum[g][h]);
      }
  }
}

/* Quad j of each of 2 * P tokens times a vector of rows 0...3 and one of rows 4...7. */
INLINE void dot_quad(int P, const uint8_t *const *q, int j, v128_t w0, v128_t w1,
                     const constants *c, v128_t (*sum)[2]) {
  UNROLL for (int t = 0; t < 2 * P; t++) {
    const v128_t a = wasm_v128_load32_splat(q[t / 2] + 8 * j + 4 * (t % 2));
    dot_nibble(a, w0, c, &sum[t][0]);
    dot_nibble(a, w1, c, &sum[t][1]);
  }
}

INLINE void dot_nibble_pairs(int P, int part, const uint8_t *w, const uint8_t *const *q,
                             const constants *c, v128_t (*sum)[2]) {
  QUAD_LOOP for (int j = 0; j < 4; j++) {
    const v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    if (part & LOW) dot_quad(P, q, j, low_nibbles(w0, c), low_nibbles(w1, c), c, sum);
    if (part & HIGH) dot_quad(P, q, 4 + j, high_nibbles(w0, c), high_nibbles(w1, c), c, sum);
  }
}

/* A quad of each of two tokens, the first at q, times the low or high nibbles of 32 bytes of each
 * group. */
INLINE void dot_quad_of_pair(const uint8_t *q, int half_of_nibbles, const uint8_t *const *w,
                             const constants *c, v128_t sum[PAIR_GROUPS][2][2]) {
  const v128_t a[] = {wasm_v128_load32_splat(q), wasm_v128_load32_splat(q + 4)};
  UNROLL for (int i = 0; i < 2 * PAIR_GROUPS; i++) {
    const v128_t bytes = wasm_v128_load(w[i / 2] + 16 * (i % 2));
    const v128_t weights = half_of_nibbles == LOW ? low_nibbles(bytes, c) : high_nibbles(bytes, c);
    UNROLL for (int t = 0; t < 2; t++) dot_nibble(a[t], weights, c, &sum[i / 2][t][i % 2]);
  }
}

/* Weights are loaded twice, for their low and their high nibbles: the registers are needed for
 * sums. */
INLINE void dot_nibbles_of_pair(int part, const uint8_t *const *w, const uint8_t *q,
                                const constants *c, v128_t sum[PAIR_GROUPS][2][2]) {
  KEEP_LOOP for (int j = 0; j < 4; j++) {
    const uint8_t *at[PAIR_GROUPS];
    UNROLL for (int g = 0; g < PAIR_GROUPS; g++) at[g] = w[g] + 32 * j;
    if (part & LOW) dot_quad_of_pair(q + 8 * j, LOW, at, c, sum);
    if (part == ALL)
      UNROLL for (int g = 0; g < PAIR_GROUPS; g++) at[g] = simd_hide(at[g]);
    if (part & HIGH) dot_quad_of_pair(q + 8 * (4 + j), HIGH, at, c, sum);
  }
}

/* Sub-4-bit weights (times bq_sub4_unit) from bit `at` on. */
INLINE v128_t field(bq_tile_shape s, v128_t w, int at, const constants *c) {
  const v128_t mask = s.bits == 3 ? c->seven : bq_sub4_unit(s) == 2 ? c->six : c->three;
  const int shift = at + 1 - bq_sub4_unit(s);
  if (shift) w = shift < 0 ? wasm_i16x8_shl(w, -shift) : wasm_u16x8_shr(w, shift);
  return wasm_v128_and(w, mask);
}

/* The fourth weight of a 3-bit triple of bytes: its lower two bits are bits 6-7 of `lower`, its
 * upper bit is bit `at` of `upper`. */
INLINE v128_t join_split_weights(v128_t lower, v128_t upper, int at, const constants *c) {
  return wasm_v128_or(wasm_v128_and(wasm_u16x8_shr(lower, 6), c->three),
                      wasm_v128_and(wasm_u16x8_shr(upper, at - 2), c->four));
}

INLINE void dot_sub4(bq_tile_shape s, int G, const uint8_t *const *w, const uint8_t *q,
                     const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t low = wasm_v128_load32_splat(q + 4 * j), high = wasm_v128_load32_splat(q + 16 + 4 * j);
    const int from = s.bits == 3 ? 0 : j % 2 * 4;
    UNROLL for (int g = 0; g < G; g++) {
      v128_t a[2], b[2];
      UNROLL for (int h = 0; h < 2; h++) {
        const uint8_t *at = w[g] + 16 * h;
        if (s.bits == 3 && j == 3) {
          const v128_t upper = wasm_v128_load(at + 64);
          a[h] = join_split_weights(wasm_v128_load(at), upper, 6, c);
          b[h] = join_split_weights(wasm_v128_load(at + 32), upper, 7, c);
          continue;
        }
        const v128_t v = wasm_v128_load(at + 32 * (s.bits == 3 ? j : j / 2));
        a[h] = field(s, v, from, c);
        b[h] = field(s, v, from + (s.bits == 3 ? 3 : 2), c);
      }
      dot_nibble(low, a[0], c, &sum[g][0]);
      dot_nibble(low, a[1], c, &sum[g][1]);
      dot_nibble(high, b[0], c, &sum[g][0]);
      dot_nibble(high, b[1], c, &sum[g][1]);
    }
  }
}

/* Unpacks sub-4-bit weights to bytes, in the order of quads. Unpacking takes longer than the
 * products of four tokens, so it is done once for all tokens of a batch. */
INLINE const uint8_t *unpack_sub4(bq_tile_shape s, const uint8_t *w, const constants *c,
                                  uint8_t to[TILE_BYTES_32]) {
  KEEP_LOOP for (int i = 0; i < 32; i += 16) {
    const uint8_t *at = w + i;
    UNROLL for (int j = 0; j < 4; j++) {
      const int from = s.bits == 3 ? 0 : j % 2 * 4;
      const v128_t v = wasm_v128_load(at + 32 * (s.bits == 3 ? j % 3 : j / 2));
      v128_t low = field(s, v, from, c), high = field(s, v, from + (s.bits == 3 ? 3 : 2), c);
      if (s.bits == 3 && j == 3) {
        const v128_t upper = wasm_v128_load(at + 64);
        low = join_split_weights(v, upper, 6, c);
        high = join_split_weights(wasm_v128_load(at + 32), upper, 7, c);
      }
      wasm_v128_store(to + i + 32 * j, low);
      wasm_v128_store(to + i + 32 * j + TILE_BYTES_32 / 2, high);
    }
  }
  return to;
}

/* A single pair has few sums. If adding to a sum has a long latency, the second half of the block
 * gets sums of its own. */
INLINE void dot_sub4_pairs(bq_tile_shape s, int P, const uint8_t *w, const uint8_t *const *q,
                           const constants *c, v128_t (*sum)[2]) {
  (void)s;
  v128_t more[2][2] = {{simd_zero(), simd_zero()}, {simd_zero(), simd_zero()}};
  v128_t(*const high)[2] = P == 1 && SPLIT_SUMS ? more : sum;
  KEEP_LOOP for (int j = 0; j < 4; j++, w += 32) {
    const uint8_t *upper = w + TILE_BYTES_32 / 2;
    dot_quad(P, q, j, wasm_v128_load(w), wasm_v128_load(w + 16), c, sum);
    dot_quad(P, q, j + 4, wasm_v128_load(upper), wasm_v128_load(upper + 16), c, high);
  }
  if (high == sum) return;
  UNROLL for (int i = 0; i < 4; i++)
    sum[i / 2][i % 2] = wasm_i32x4_add(sum[i / 2][i % 2], more[i / 2][i % 2]);
}

/* Operands for the product of a signed weight and an activation: w * a = w * |a| for a >= 0, and
 * (~w + 1) * |a| for a < 0. So the bits of weights are flipped where the activation is negative,
 * and the sum of those |a| is part of the initial sum. The mask `flip` also converts w + 128 to
 * signed bytes. */
typedef struct signed_quad {
  v128_t magnitude, flip;
} signed_quad;

/* Quad j of token t of T. */
INLINE signed_quad signed_quad_at(const uint8_t *q, int T, int t, int j) {
  const uint8_t *magnitude = q + T * (PANEL_Q + PANEL_SUMS) + 4 * (T * j + t);
  return (signed_quad){wasm_v128_load32_splat(magnitude),
                       wasm_v128_load32_splat(magnitude + T * PANEL_Q)};
}

INLINE void dot_signed(signed_quad a, v128_t w, const constants *c, v128_t *sum) {
  dot(wasm_v128_xor(w, a.flip), a.magnitude, c, sum);
}

INLINE void put_magnitudes(uint8_t *more, size_t bytes, const uint8_t *quads) {
  for (size_t i = 0; i < bytes; i += 16) {
    const v128_t a = wasm_v128_load(quads + i);
    const v128_t negative = wasm_i8x16_shr(a, 7);
    wasm_v128_store(more + i, wasm_i8x16_abs(a));
    wasm_v128_store(more + bytes + i, wasm_v128_xor(negative, wasm_i8x16_const_splat(-128)));
  }
}

INLINE void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
                      const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = part & LOW ? 0 : 4; j < (part & HIGH ? 8 : 4); j++) {
    const v128_t a = wasm_v128_load32_splat(q + 4 * j);
    const signed_quad s = signed_quad_at(q, 1, 0, j);
    UNROLL for (int g = 0; g < G; g++)
      UNROLL for (int h = 0; h < 2; h++) {
        const v128_t v = wasm_v128_load(w[g] + 32 * j + 16 * h);
        if (bits == 8) dot_signed(s, v, c, &sum[g][h]);
        else dot(a, v, c, &sum[g][h]);
      }
  }
}

/* Quad j of each of 2 * P tokens times a vector of rows 0...3 and one of rows 4...7. */
INLINE void dot_byte_quad(int bits, int P, const uint8_t *const *q, int j, v128_t w0, v128_t w1,
                          const constants *c, v128_t (*sum)[2]) {
  UNROLL for (int t = 0; t < 2 * P; t++) {
    if (bits != 8) {
      const v128_t a = wasm_v128_load32_splat(q[t / 2] + 8 * j + 4 * (t % 2));
      dot(a, w0, c, &sum[t][0]);
      dot(a, w1, c, &sum[t][1]);
      continue;
    }
    const signed_quad s = signed_quad_at(q[t / 2], 2, t % 2, j);
    dot_signed(s, w0, c, &sum[t][0]);
    dot_signed(s, w1, c, &sum[t][1]);
  }
}

INLINE void dot_pairs(int bits, int P, int part, const uint8_t *w, const uint8_t *const *q,
                      const constants *c, v128_t (*sum)[2]) {
  if (bits == 4) {
    dot_nibble_pairs(P, part, w, q, c, sum);
    return;
  }
  KEEP_LOOP for (int j = part & LOW ? 0 : 4; j < (part & HIGH ? 8 : 4); j++)
    dot_byte_quad(bits, P, q, j, wasm_v128_load(w + 32 * j), wasm_v128_load(w + 32 * j + 16), c,
                  sum);
}

INLINE void dot_pair(bq_tile_shape s, int part, const uint8_t *const *w, const uint8_t *q,
                     const constants *c, v128_t sum[PAIR_GROUPS][2][2]) {
  if (s.bits == 4) {
    dot_nibbles_of_pair(part, w, q, c, sum);
    return;
  }
  UNROLL for (int g = 0; g < PAIR_GROUPS; g++) dot_pairs(dot_bits(s), 1, part, w[g], &q, c, sum[g]);
}

INLINE void make_quads(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]) {
  quads[0] = low;
  quads[1] = high;
}

#endif
