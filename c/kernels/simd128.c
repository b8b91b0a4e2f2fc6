/* The simd128 table: matmuls over tiled weights for every browser with WebAssembly SIMD.
 *
 * Weight bytes are read as 16-bit lanes of four nibbles each and masked in place, so that no byte
 * is widened. A nibble at bit 4 or 8 is 16 or 256 times too large. Activations in the panel are
 * shifted left so that all products have the factor 256, and i32x4.dot_i16x8_s accumulates in units
 * of 1/256. Activations are at most 127, so a shifted one fits 16 bits; the sums (at most 256 * 32
 * * 255 * 127) fit 32 bits. The panel's scales include the factor 1/256, which is exact.
 */
#include "kernels/kernels.h"

#ifdef __wasm_simd128__

#include "kernels/simd.h"

/* Quads are pairs of 16-bit activations, in four runs of four. Quad j of each run is for the
 * weights
 *   EVEN_LOW   (q[4j] << 8,      q[4j + 2] << 8)            nibble in bits 0-3
 *   ODD_LOW    (q[4j + 1],       q[4j + 3])                 nibble in bits 8-11
 *   EVEN_HIGH  (q[16 + 4j] << 4, q[16 + 4j + 2] << 4)       nibble in bits 4-7
 *   ODD_HIGH   (q[16 + 4j + 1] << 8, q[16 + 4j + 3] << 8)   nibble in bits 12-15, shifted down */
enum { EVEN_LOW, ODD_LOW, EVEN_HIGH, ODD_HIGH };
enum { PANEL_Q = 64, PANEL_EXTRA = 0, SUM_UNIT = 256, SUM_START = 0 };

typedef struct constants {
  v128_t bits0, bits4, bits8, byte;
  v128_t three, six, seven; /* masks of the lowest bits of 16-bit lanes */
  v128_t lower, upper;      /* masks of the lowest two bits, and of the third bit, of each byte */
} constants;

/* Types with many dot products per group compute fewer groups at once: the code is smaller, but
 * fewer groups share the load of an activation. */
#define GROUPS_AT_ONCE(block, bits, scale_bytes, min_bytes) ((bits) == 7 || (block) == 16 ? 2 : 4)

#include "kernels/attend.h"
#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE constants prepare(void) {
  SIMD_CONSTANTS(masks, 0x000f000f, 0x00f000f0, 0x0f000f00, 0x00ff00ff, 0x00030003, 0x00060006,
                 0x00070007, 0x03030303, 0x04040404);
  const uint32_t *m = simd_hide(masks);
  return (constants){wasm_v128_load32_splat(m), wasm_v128_load32_splat(m + 1),
                     wasm_v128_load32_splat(m + 2), wasm_v128_load32_splat(m + 3),
                     wasm_v128_load32_splat(m + 4), wasm_v128_load32_splat(m + 5),
                     wasm_v128_load32_splat(m + 6), wasm_v128_load32_splat(m + 7),
                     wasm_v128_load32_splat(m + 8)};
}

INLINE v128_t sum_to_f32(int bits, int T, v128_t sum, const constants *c) {
  (void)bits, (void)T, (void)c;
  return wasm_f32x4_convert_i32x4(sum);
}

INLINE v128_t initial_sum_sub4(int zero, int T, const uint8_t *sums) {
  return initial_sum_sub4_i32(zero, T, sums);
}

INLINE v128_t initial_sum_zero(int bits) {
  (void)bits;
  return simd_zero();
}

/* Tiles hold unsigned weights with zero point 8, 64 or 128. The initial sum subtracts it, except
 * for pairs with 8 bits, whose bytes are made signed when loaded. */
INLINE v128_t initial_sum(int bits, int part, int T, const uint8_t *sums) {
  if (T == 2 && bits == 8) return simd_zero();
  v128_t all = wasm_v128_load32_splat(sums), low = wasm_v128_load32_splat(sums + 4 * T);
  v128_t start = part == LOW ? low : part == HIGH ? wasm_i32x4_sub(all, low) : all;
  return wasm_i32x4_shl(start, bits - 4);
}

INLINE void dot(v128_t w, v128_t a, v128_t *sum) {
  *sum = wasm_i32x4_add(*sum, wasm_i32x4_dot_i16x8(w, a));
  simd_pin(sum);
}

/* Quad j of one run times w0 (rows 0...3) and w1 (rows 4...7). */
INLINE void dot_quads(int run, int j, v128_t w0, v128_t w1, const uint8_t *q, v128_t sum[2]) {
  v128_t a = wasm_v128_load32_splat(q + (run * 4 + j) * 4);
  dot(w0, a, &sum[0]);
  dot(w1, a, &sum[1]);
}

INLINE void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int g = 0; g < G; g++) {
      v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
      v128_t *s = sum[g];
      if (part & LOW) {
        dot_quads(EVEN_LOW, j, wasm_v128_and(w0, c->bits0), wasm_v128_and(w1, c->bits0), q, s);
        dot_quads(ODD_LOW, j, wasm_v128_and(w0, c->bits8), wasm_v128_and(w1, c->bits8), q, s);
      }
      if (part & HIGH) {
        dot_quads(EVEN_HIGH, j, wasm_v128_and(w0, c->bits4), wasm_v128_and(w1, c->bits4), q, s);
        dot_quads(ODD_HIGH, j, wasm_u16x8_shr(w0, 12), wasm_u16x8_shr(w1, 12), q, s);
      }
    }
  }
}

/* Shifts sub-4-bit weights (times bq_sub4_unit) to the low bits of each byte. Higher bits are
 * garbage; mask them. */
INLINE v128_t shift_to_low_bits(bq_tile_shape s, v128_t w, int at) {
  const int shift = at + 1 - bq_sub4_unit(s);
  return !shift ? w : shift < 0 ? wasm_i16x8_shl(w, -shift) : wasm_u16x8_shr(w, shift);
}

/* The fourth weight of a 3-bit triple of bytes: its lower two bits are bits 6-7 of `lower`, its
 * upper bit is bit `at` of `upper`. */
INLINE v128_t join_split_weights(v128_t lower, v128_t upper, int at, const constants *c) {
  return wasm_v128_or(wasm_v128_and(wasm_u16x8_shr(lower, 6), c->lower),
                      wasm_v128_and(wasm_u16x8_shr(upper, at - 2), c->upper));
}

/* The weights of quad j (0...3), rows 0...3 and 4...7, and of quad 4 + j, as shift_to_low_bits
 * returns them. */
typedef struct sub4_quads {
  v128_t low[2], high[2];
} sub4_quads;

INLINE sub4_quads sub4_quads_at(bq_tile_shape s, int j, const uint8_t *w, const constants *c) {
  sub4_quads to;
  UNROLL for (int h = 0; h < 2; h++, w += 16) {
    if (s.bits == 3 && j == 3) {
      const v128_t upper = wasm_v128_load(w + 64);
      to.low[h] = join_split_weights(wasm_v128_load(w), upper, 6, c);
      to.high[h] = join_split_weights(wasm_v128_load(w + 32), upper, 7, c);
      continue;
    }
    const v128_t v = wasm_v128_load(w + 32 * (s.bits == 3 ? j : j / 2));
    const int from = s.bits == 3 ? 0 : j % 2 * 4;
    to.low[h] = shift_to_low_bits(s, v, from);
    to.high[h] = shift_to_low_bits(s, v, from + (s.bits == 3 ? 3 : 2));
  }
  return to;
}

/* Moves weights to the nibble that the panel's run `run` is prepared for. */
INLINE v128_t place_in_nibble(bq_tile_shape s, int run, v128_t v, const constants *c) {
  const v128_t bits = s.bits == 3 ? c->seven : bq_sub4_unit(s) == 2 ? c->six : c->three;
  if (run == EVEN_LOW) return wasm_v128_and(v, bits);
  if (run == ODD_LOW) return wasm_v128_and(v, wasm_i16x8_shl(bits, 8));
  if (run == ODD_HIGH) return wasm_v128_and(wasm_u16x8_shr(v, 8), bits);
  return wasm_v128_and(wasm_i16x8_shl(v, 4), wasm_i16x8_shl(bits, 4));
}

INLINE void dot_sub4(bq_tile_shape s, int G, const uint8_t *const *w, const uint8_t *q,
                     const constants *c, v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int g = 0; g < G; g++) {
      const sub4_quads v = sub4_quads_at(s, j, w[g], c);
      UNROLL for (int run = EVEN_LOW; run <= ODD_HIGH; run++) {
        const v128_t *half = run < EVEN_HIGH ? v.low : v.high;
        dot_quads(run, j, place_in_nibble(s, run, half[0], c), place_in_nibble(s, run, half[1], c),
                  q, sum[g]);
      }
    }
}

/* Weight bytes begin at bit 0 or 8 of a lane, but the panel is prepared for nibbles. The products
 * are therefore in units of 1, 1/16 or 1/256. w: 32 bytes of quad j; those of k + 16 are 128 bytes
 * further. */
INLINE void dot_units(int j, const uint8_t *w, const uint8_t *q, v128_t sum[2]) {
  v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
  dot_quads(ODD_LOW, j, wasm_u16x8_shr(w0, 8), wasm_u16x8_shr(w1, 8), q, sum);
}

INLINE void dot_16ths(int j, const uint8_t *w, const uint8_t *q, const constants *c,
                      v128_t sum[2]) {
  v128_t w0 = wasm_v128_load(w + 128), w1 = wasm_v128_load(w + 144);
  dot_quads(EVEN_HIGH, j, wasm_v128_and(w0, c->byte), wasm_v128_and(w1, c->byte), q, sum);
}

INLINE void dot_256ths(int part, int j, const uint8_t *w, const uint8_t *q, const constants *c,
                       v128_t sum[2]) {
  if (part & LOW) {
    v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
    dot_quads(EVEN_LOW, j, wasm_v128_and(w0, c->byte), wasm_v128_and(w1, c->byte), q, sum);
  }
  if (part & HIGH) {
    v128_t w2 = wasm_v128_load(w + 128), w3 = wasm_v128_load(w + 144);
    dot_quads(ODD_HIGH, j, wasm_u16x8_shr(w2, 8), wasm_u16x8_shr(w3, 8), q, sum);
  }
}

/* sum += part * 2^bits, then part = 0 */
INLINE void add_shifted(int G, int bits, v128_t part[MAX_GROUPS][2], v128_t sum[MAX_GROUPS][2]) {
  UNROLL for (int g = 0; g < G; g++) {
    UNROLL for (int h = 0; h < 2; h++) {
      sum[g][h] = wasm_i32x4_add(sum[g][h], wasm_i32x4_shl(part[g][h], bits));
      part[g][h] = simd_zero();
    }
  }
}

/* Computes the three units in separate passes, so that the registers suffice. */
INLINE void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
                      const constants *c, v128_t sum[MAX_GROUPS][2]) {
  v128_t units[MAX_GROUPS][2];
  (void)bits;
  UNROLL for (int g = 0; g < G; g++)
    units[g][0] = units[g][1] = simd_zero();
  if (part & LOW) {
    KEEP_LOOP for (int j = 0; j < 4; j++)
      UNROLL for (int g = 0; g < G; g++) dot_units(j, w[g] + 32 * j, q, units[g]);
    add_shifted(G, 8, units, sum);
  }
  if (part & HIGH) {
    KEEP_LOOP for (int j = 0; j < 4; j++)
      UNROLL for (int g = 0; g < G; g++) dot_16ths(j, w[g] + 32 * j, q, c, units[g]);
    add_shifted(G, 4, units, sum);
  }
  KEEP_LOOP for (int j = 0; j < 4; j++)
    UNROLL for (int g = 0; g < G; g++) dot_256ths(part, j, w[g] + 32 * j, q, c, sum[g]);
}

INLINE void dot_codes(int G, int part, const uint8_t *const *w, const uint8_t *q, v128_t table,
                      const constants *c, v128_t sum[MAX_GROUPS][2]) {
  uint8_t looked_up[MAX_GROUPS][TILE_BYTES_32];
  const uint8_t *at[MAX_GROUPS];
  UNROLL for (int g = 0; g < G; g++) {
    look_up_codes(part, w[g], table, looked_up[g]);
    at[g] = looked_up[g];
  }
  dot_bytes(G, 7, part, at, q, c, sum);
}

/* Quad j of one run, of each of 2 * P tokens, times w0 and w1. */
INLINE void dot_quad(int P, const uint8_t *const *q, int run, int j, v128_t w0, v128_t w1,
                     v128_t (*sum)[2]) {
  UNROLL for (int t = 0; t < 2 * P; t++) {
    const v128_t a = wasm_v128_load32_splat(q[t / 2] + 8 * (run * 4 + j) + 4 * (t % 2));
    dot(w0, a, &sum[t][0]);
    dot(w1, a, &sum[t][1]);
  }
}

/* Returns w: dot_sub4_pairs unpacks the weights itself. */
INLINE const uint8_t *unpack_sub4(bq_tile_shape s, const uint8_t *w, const constants *c,
                                  uint8_t to[TILE_BYTES_32]) {
  (void)s, (void)c, (void)to;
  return w;
}

INLINE void dot_sub4_pairs(bq_tile_shape s, int P, const uint8_t *w, const uint8_t *const *q,
                           const constants *c, v128_t (*sum)[2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    const sub4_quads v = sub4_quads_at(s, j, w, c);
    UNROLL for (int run = EVEN_LOW; run <= ODD_HIGH; run++) {
      const v128_t *half = run < EVEN_HIGH ? v.low : v.high;
      dot_quad(P, q, run, j, place_in_nibble(s, run, half[0], c),
               place_in_nibble(s, run, half[1], c), sum);
    }
  }
}

/* Loads two vectors of weight bytes; 8-bit weights are made signed. */
INLINE void load_bytes(int bits, const uint8_t *w, v128_t v[2]) {
  UNROLL for (int h = 0; h < 2; h++) {
    v[h] = wasm_v128_load(w + 16 * h);
    if (bits == 8) v[h] = wasm_v128_xor(v[h], wasm_i8x16_const_splat(-128));
  }
}

/* Bytes are shifted, with their sign, to the bits where the panel expects nibbles. */
INLINE void dot_pairs(int bits, int P, int part, const uint8_t *w, const uint8_t *const *q,
                      const constants *c, v128_t (*sum)[2]) {
  KEEP_LOOP for (int j = 0; j < 4; j++, w += 32) {
    v128_t v[2];
    load_bytes(bits, w, v);
    if (bits == 4 && part & LOW) {
      dot_quad(P, q, EVEN_LOW, j, wasm_v128_and(v[0], c->bits0), wasm_v128_and(v[1], c->bits0),
               sum);
      dot_quad(P, q, ODD_LOW, j, wasm_v128_and(v[0], c->bits8), wasm_v128_and(v[1], c->bits8),
               sum);
    }
    if (bits == 4 && part & HIGH) {
      dot_quad(P, q, EVEN_HIGH, j, wasm_v128_and(v[0], c->bits4), wasm_v128_and(v[1], c->bits4),
               sum);
      dot_quad(P, q, ODD_HIGH, j, wasm_u16x8_shr(v[0], 12), wasm_u16x8_shr(v[1], 12), sum);
    }
    if (bits != 4 && part & LOW) {
      dot_quad(P, q, EVEN_LOW, j, wasm_i16x8_shr(wasm_i16x8_shl(v[0], 8), 8),
               wasm_i16x8_shr(wasm_i16x8_shl(v[1], 8), 8), sum);
      dot_quad(P, q, ODD_LOW, j, wasm_v128_andnot(v[0], c->byte), wasm_v128_andnot(v[1], c->byte),
               sum);
    }
    if (bits != 4 && part & HIGH) {
      load_bytes(bits, w + 128, v);
      dot_quad(P, q, EVEN_HIGH, j, wasm_i16x8_shr(wasm_i16x8_shl(v[0], 8), 4),
               wasm_i16x8_shr(wasm_i16x8_shl(v[1], 8), 4), sum);
      dot_quad(P, q, ODD_HIGH, j, wasm_i16x8_shr(v[0], 8), wasm_i16x8_shr(v[1], 8), sum);
    }
  }
}

INLINE void put_panel_extra(uint8_t *more, size_t bytes, const uint8_t *quads) {
  (void)more, (void)bytes, (void)quads;
}

INLINE void make_quads(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]) {
  quads[EVEN_LOW] = wasm_i16x8_shl(low, 8);
  quads[ODD_LOW] = wasm_i16x8_shr(low, 8);
  quads[EVEN_HIGH] = wasm_i16x8_shr(wasm_i16x8_shl(high, 8), 4);
  quads[ODD_HIGH] = wasm_v128_and(high, wasm_i16x8_const_splat((int16_t)0xff00));
}

#ifndef BQ_RARE_MODULE
static const bq_kernels table = {
    .name = "simd128",
    .matrix = {BQ_FLOAT_TYPES(BQ_SIMD128_FLOAT_ROW) BQ_KERNEL_TYPES(TILED_ROW)},
    .panel_bytes = panel_bytes,
    .quantize = quantize,
    BQ_SIMD128_VECTOR_SLOTS,
    BQ_SIMD128_ATTEND_SLOTS(simd128),
};

const bq_kernels *bq_kernels_simd128(void) { return &table; }
#endif

#else
const bq_kernels *bq_kernels_simd128(void) { return NULL; }
#endif
