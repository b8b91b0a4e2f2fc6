/* The relaxed table: the simd128 table with the matmuls over tiled weights replaced.
 *
 * One relaxed instruction is used, i32x4.relaxed_dot_i8x16_i7x16_add_s: signed bytes times 7-bit
 * ones. Engines may differ only where the second operand exceeds 7 bits or a sum of two products
 * 16 (they may saturate it). Neither happens here: nibbles are 0...15 and meet activations of at
 * most 127, sums of two are at most 3,810; bytes are at most 128 in size and meet *sizes* of
 * activations, 0...127, sums of two are at most 32,512. So the result is the same everywhere.
 * Nothing else may be relaxed: a test disassembles each module. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

#include "kernels/simd.h"

/* Quads are four signed bytes in the order of k: quad j of 8. Behind a block, in the same order,
 * are the sizes of its activations, then the flips of bytes that meet them (dot_signed). */
enum { PANEL_Q = 32, PANEL_MORE = 64 };

/* Sums start from the bits of a float: as floats they are that much too large, and a subtraction
 * goes where a conversion would be in the way of dots. Sums are far below 2^22 in size. */
#define FLOAT_START 0x1.8p23f
enum { SUM_UNIT = 1, SUM_START = 0x4b400000 };

typedef struct constants {
  v128_t nibble;
} constants;

#include "kernels/attend.h"
#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE constants prepare(void) {
  SIMD_CONSTANTS(mask, 0x0f0f0f0f);
  return (constants){wasm_v128_load32_splat(simd_hide(mask))};
}

/* Eight are the fastest with 4-bit weights, and the largest in code. */
INLINE int streams(bq_tile_shape s) {
  return s.bits == 4 && s.block == 32 && !s.min_bytes ? 8 : 4;
}

INLINE v128_t float_of(v128_t sum) {
  return wasm_f32x4_sub(sum, wasm_f32x4_const_splat(FLOAT_START));
}

INLINE v128_t start_of(int bits, int part, int T, const uint8_t *sums) {
  const uint8_t *low_at = sums + 4 * T, *negative = low_at + 4 * T;
  if (bits == 8) return wasm_v128_load32_splat(negative);
  const v128_t none = wasm_i32x4_const_splat(SUM_START);
  v128_t start = wasm_v128_load32_splat(part == LOW ? low_at : sums); /* for 8 too much */
  if (part == LOW) return wasm_i32x4_add(none, wasm_i32x4_shl(start, bits - 4));
  if (part == HIGH) start = wasm_i32x4_sub(start, wasm_v128_load32_splat(low_at));
  if (bits == 4) return start;
  return wasm_i32x4_add(none, wasm_i32x4_shl(wasm_i32x4_sub(start, none), bits - 4));
}

/* A quad of one token times unsigned weights below 128, of four rows. */
INLINE void dot(v128_t a, v128_t w, v128_t *sum) {
  *sum = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w, *sum);
  simd_pin(sum);
}

INLINE v128_t low_nibbles(v128_t w, const constants *c) { return wasm_v128_and(w, c->nibble); }
INLINE v128_t high_nibbles(v128_t w, const constants *c) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), c->nibble);
}

/* Loads stand outside the inner loop, since none is moved across a pin. */
INLINE void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t low = wasm_v128_load32_splat(q + 4 * j), high = wasm_v128_load32_splat(q + 16 + 4 * j);
    UNROLL for (int g = 0; g < G; g++) {
      v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
      if (part & LOW) {
        dot(low, low_nibbles(w0, c), &sum[g][0]);
        dot(low, low_nibbles(w1, c), &sum[g][1]);
      }
      if (part & HIGH) {
        dot(high, high_nibbles(w0, c), &sum[g][0]);
        dot(high, high_nibbles(w1, c), &sum[g][1]);
      }
    }
  }
}

/* w * a = w * |a| for a >= 0, and (~w + 1) * |a| for a < 0: flipping the bits of the weights that
 * meet a negative activation leaves the sum of those |a| to be added: the offset. Each flip makes
 * signed bytes of w + 128, too. */
typedef struct signed_quad {
  v128_t size, flip;
} signed_quad;

/* Quad j of token t of T. */
INLINE signed_quad signed_quad_at(const uint8_t *q, int T, int t, int j) {
  const uint8_t *size = q + T * (PANEL_Q + 16) + 4 * (T * j + t);
  return (signed_quad){wasm_v128_load32_splat(size), wasm_v128_load32_splat(size + T * PANEL_Q)};
}

INLINE void dot_signed(signed_quad a, v128_t w, v128_t *sum) {
  dot(wasm_v128_xor(w, a.flip), a.size, sum);
}

INLINE void put_more(uint8_t *more, size_t bytes, const uint8_t *quads) {
  for (size_t i = 0; i < bytes; i += 16) {
    const v128_t a = wasm_v128_load(quads + i);
    const v128_t negative = wasm_i8x16_shr(a, 7);
    wasm_v128_store(more + i, wasm_i8x16_abs(a));
    wasm_v128_store(more + bytes + i, wasm_v128_xor(negative, wasm_i8x16_const_splat(-128)));
  }
}

INLINE void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
                      const constants *c, v128_t sum[MOST][2]) {
  (void)c;
  UNROLL for (int j = part & LOW ? 0 : 4; j < (part & HIGH ? 8 : 4); j++) {
    const v128_t a = wasm_v128_load32_splat(q + 4 * j);
    const signed_quad s = signed_quad_at(q, 1, 0, j);
    UNROLL for (int g = 0; g < G; g++)
      UNROLL for (int h = 0; h < 2; h++) {
        const v128_t v = wasm_v128_load(w[g] + 32 * j + 16 * h);
        if (bits == 8) dot_signed(s, v, &sum[g][h]);
        else dot(a, v, &sum[g][h]);
      }
  }
}

/* Quad j of each of 2 * P tokens times a vector of rows 0...3 and one of rows 4...7. */
INLINE void dot_quad(int bits, int P, const uint8_t *const *q, int j, v128_t w0, v128_t w1,
                     v128_t (*sum)[2]) {
  UNROLL for (int t = 0; t < 2 * P; t++) {
    if (bits != 8) {
      const v128_t a = wasm_v128_load32_splat(q[t / 2] + 8 * j + 4 * (t % 2));
      dot(a, w0, &sum[t][0]);
      dot(a, w1, &sum[t][1]);
      continue;
    }
    const signed_quad s = signed_quad_at(q[t / 2], 2, t % 2, j);
    dot_signed(s, w0, &sum[t][0]);
    dot_signed(s, w1, &sum[t][1]);
  }
}

INLINE void dot_pairs(int bits, int P, int part, const uint8_t *w, const uint8_t *const *q,
                      const constants *c, v128_t (*sum)[2]) {
  const int from = bits != 4 && part == HIGH ? 4 : 0, to = bits != 4 && part & HIGH ? 8 : 4;
  KEEP_LOOP for (int j = from; j < to; j++) {
    const v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    if (bits != 4) dot_quad(bits, P, q, j, w0, w1, sum);
    else if (part & LOW) dot_quad(4, P, q, j, low_nibbles(w0, c), low_nibbles(w1, c), sum);
    if (bits == 4 && part & HIGH)
      dot_quad(4, P, q, 4 + j, high_nibbles(w0, c), high_nibbles(w1, c), sum);
  }
}

INLINE void quads_of(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]) {
  quads[0] = low;
  quads[1] = high;
}

#ifndef BQ_RARE_MODULE
static const bq_kernels table = {
    .name = "relaxed",
    .matrix = {BQ_FLOAT_TYPES(BQ_SIMD128_FLOAT_ROW) BQ_KERNEL_TYPES(TILED_ROW)},
    .panel_bytes = panel_bytes,
    .quantize = quantize,
    BQ_SIMD128_VECTOR_SLOTS,
    BQ_SIMD128_ATTEND_SLOTS(bq_relaxed_attend_i8, bq_relaxed_attend_i4),
};

const bq_kernels *bq_kernels_relaxed(void) { return &table; }
#endif

#else
const bq_kernels *bq_kernels_relaxed(void) { return NULL; }
#endif
