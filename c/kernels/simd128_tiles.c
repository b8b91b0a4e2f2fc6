/* Matmuls over tiled weights without relaxed SIMD.
 *
 * Weight bytes are taken as 16-bit lanes, four nibbles each, and masked in place: no byte is ever
 * widened. A nibble that stays 4 or 8 bits up counts 16 or 256 times too much, so the panel's
 * activations are shifted by what is missing to 256, and i32x4.dot_i16x8_s adds everything up in
 * units of 1/256. Activations are at most 127, so a shifted one fits 16 bits; the sums (at most
 * 256 * 32 * 255 * 127) fit 32. That factor goes into the panel's scales, which is exact. */
#ifdef __wasm_simd128__

#include "kernels/simd.h"

/* Quads are pairs of 16 bits. Four runs of four; quad j of each belongs to the weights
 *   EVEN_LOW   (q[4j] << 8,      q[4j + 2] << 8)            nibble in bits 0-3
 *   ODD_LOW    (q[4j + 1],       q[4j + 3])                 nibble in bits 8-11
 *   EVEN_HIGH  (q[16 + 4j] << 4, q[16 + 4j + 2] << 4)       nibble in bits 4-7
 *   ODD_HIGH   (q[16 + 4j + 1] << 8, q[16 + 4j + 3] << 8)   nibble in bits 12-15, shifted down */
enum { EVEN_LOW, ODD_LOW, EVEN_HIGH, ODD_HIGH };
enum { PANEL_Q = 64 };

typedef struct constants {
  v128_t bits0, bits4, bits8, byte;
} constants;

#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE constants prepare(void) {
  static const uint32_t masks[] = {0x000f000f, 0x00f000f0, 0x0f000f00, 0x00ff00ff};
  const uint32_t *m = simd_hide(masks);
  return (constants){wasm_v128_load32_splat(m), wasm_v128_load32_splat(m + 1),
                     wasm_v128_load32_splat(m + 2), wasm_v128_load32_splat(m + 3)};
}

INLINE int streams(bq_tile_shape s) {
  (void)s;
  return 4;
}

/* One run's quad j of all tokens times w0 (rows 0...3) and w1 (rows 4...7). */
INLINE void dot_quads(int T, int run, int j, v128_t w0, v128_t w1, const uint8_t *q,
                      v128_t sum[][2]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t a = wasm_v128_load32_splat(q + ((run * 4 + j) * T + t) * 4);
    sum[t][0] = wasm_i32x4_add(sum[t][0], wasm_i32x4_dot_i16x8(w0, a));
    sum[t][1] = wasm_i32x4_add(sum[t][1], wasm_i32x4_dot_i16x8(w1, a));
    simd_pin(&sum[t][0]);
    simd_pin(&sum[t][1]);
  }
}

INLINE void dot_low(int T, int j, const uint8_t *w, const uint8_t *q, const constants *c,
                    v128_t sum[][2]) {
  v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
  dot_quads(T, EVEN_LOW, j, wasm_v128_and(w0, c->bits0), wasm_v128_and(w1, c->bits0), q, sum);
  dot_quads(T, ODD_LOW, j, wasm_v128_and(w0, c->bits8), wasm_v128_and(w1, c->bits8), q, sum);
}

INLINE void dot_high(int T, int j, const uint8_t *w, const uint8_t *q, const constants *c,
                     v128_t sum[][2]) {
  v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
  dot_quads(T, EVEN_HIGH, j, wasm_v128_and(w0, c->bits4), wasm_v128_and(w1, c->bits4), q, sum);
  dot_quads(T, ODD_HIGH, j, wasm_u16x8_shr(w0, 12), wasm_u16x8_shr(w1, 12), q, sum);
}

/* One token: all of a load's nibbles while they are at hand. More: two passes, for which the
 * registers suffice. */
INLINE void dot_nibbles(int G, int T, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]) {
  if (T == 1 && part == ALL) {
    UNROLL for (int j = 0; j < 4; j++) {
      UNROLL for (int g = 0; g < G; g++) {
        dot_low(T, j, w[g], q, c, sum + g);
        dot_high(T, j, w[g], q, c, sum + g);
      }
    }
    return;
  }
  if (part & LOW) {
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int g = 0; g < G; g++) dot_low(T, j, w[g], q, c, sum + g * T);
  }
  if (part & HIGH) {
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int g = 0; g < G; g++) dot_high(T, j, w[g], q, c, sum + g * T);
  }
}

/* Whole bytes lie 0 or 8 bits up, but meet activations prepared for nibbles: their products count in
 * units of 1, 1/16 and 1/256. w: 32 bytes of quad j; the second 16 k lie 128 bytes on. */
INLINE void dot_units(int T, int j, const uint8_t *w, const uint8_t *q, v128_t sum[][2]) {
  v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
  dot_quads(T, ODD_LOW, j, wasm_u16x8_shr(w0, 8), wasm_u16x8_shr(w1, 8), q, sum);
}

INLINE void dot_16ths(int T, int j, const uint8_t *w, const uint8_t *q, const constants *c,
                      v128_t sum[][2]) {
  v128_t w0 = wasm_v128_load(w + 128), w1 = wasm_v128_load(w + 144);
  dot_quads(T, EVEN_HIGH, j, wasm_v128_and(w0, c->byte), wasm_v128_and(w1, c->byte), q, sum);
}

INLINE void dot_256ths(int T, int j, const uint8_t *w, const uint8_t *q, const constants *c,
                       v128_t sum[][2]) {
  v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
  v128_t w2 = wasm_v128_load(w + 128), w3 = wasm_v128_load(w + 144);
  dot_quads(T, EVEN_LOW, j, wasm_v128_and(w0, c->byte), wasm_v128_and(w1, c->byte), q, sum);
  dot_quads(T, ODD_HIGH, j, wasm_u16x8_shr(w2, 8), wasm_u16x8_shr(w3, 8), q, sum);
}

/* sum += part * 2^bits, then part = 0 */
INLINE void take_over(int n, int bits, v128_t part[MOST][2], v128_t sum[MOST][2]) {
  UNROLL for (int i = 0; i < n; i++) {
    UNROLL for (int h = 0; h < 2; h++) {
      sum[i][h] = wasm_i32x4_add(sum[i][h], wasm_i32x4_shl(part[i][h], bits));
      part[i][h] = simd_zero();
    }
  }
}

/* One group of rows and one token: one pass. More: three, as in dot_nibbles. */
INLINE void dot_bytes(int G, int T, const uint8_t *const *w, const uint8_t *q, const constants *c,
                      v128_t sum[MOST][2]) {
  v128_t part[MOST][2], units[MOST][2];
  UNROLL for (int i = 0; i < G * T; i++)
    part[i][0] = part[i][1] = units[i][0] = units[i][1] = simd_zero();
  if (G * T == 1) {
    UNROLL for (int j = 0; j < 4; j++) {
      dot_units(T, j, w[0] + 32 * j, q, units);
      dot_16ths(T, j, w[0] + 32 * j, q, c, part);
      dot_256ths(T, j, w[0] + 32 * j, q, c, sum);
    }
    take_over(1, 8, units, sum);
    take_over(1, 4, part, sum);
    return;
  }
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int g = 0; g < G; g++) dot_units(T, j, w[g] + 32 * j, q, part + g * T);
  take_over(G * T, 8, part, sum);
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int g = 0; g < G; g++) dot_16ths(T, j, w[g] + 32 * j, q, c, part + g * T);
  take_over(G * T, 4, part, sum);
  UNROLL for (int j = 0; j < 4; j++)
    UNROLL for (int g = 0; g < G; g++) dot_256ths(T, j, w[g] + 32 * j, q, c, sum + g * T);
}

INLINE void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high) {
  v128_t odd = wasm_v128_and(high, wasm_i16x8_const_splat((int16_t)0xff00));
  put_four_quads(q + EVEN_LOW * 16 * T, T, wasm_i16x8_shl(low, 8));
  put_four_quads(q + ODD_LOW * 16 * T, T, wasm_i16x8_shr(low, 8));
  put_four_quads(q + EVEN_HIGH * 16 * T, T, wasm_i16x8_shr(wasm_i16x8_shl(high, 8), 4));
  put_four_quads(q + ODD_HIGH * 16 * T, T, odd);
}

INLINE offsets offsets_of(byte_sums a) {
  const int32_t sum = a.low + a.high;
  return (offsets){-8 * 256 * sum, -8 * 256 * a.low, -128 * 256 * sum};
}

size_t bq_simd128_panel_bytes(size_t k, size_t tokens) {
  return panel_size(k, tokens);
}

void bq_simd128_quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  quantize_panel(x, x_stride, k, tokens, panel, 0x1p-8f);
}

#define MATMUL_SLOT(name, shape)                                                                 \
  void bq_simd128_matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, \
                                float *y, size_t y_stride) {                                     \
    matmul_tiled(shape, w, a, row0, row1, y, y_stride);                                          \
  }

MATMUL_SLOT(bq4_16, BQ_SHAPE_BQ4_16)
MATMUL_SLOT(bq4_32, BQ_SHAPE_BQ4_32)
MATMUL_SLOT(bq4_64, BQ_SHAPE_BQ4_64)
MATMUL_SLOT(bq4h_32, BQ_SHAPE_BQ4H_32)
MATMUL_SLOT(bq8_32, BQ_SHAPE_BQ8_32)

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
