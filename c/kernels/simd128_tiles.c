/* Matmuls over tiled weights without relaxed SIMD.
 *
 * Weight bytes are taken as 16-bit lanes, four nibbles each, and masked in place: no byte is ever
 * widened. A nibble that stays 4 or 8 bits up counts 16 or 256 times too much, so the panel's
 * activations are shifted by what is missing to 256, and i32x4.dot_i16x8_s adds everything up in
 * units of 1/256. Activations are at most 127, so a shifted one fits 16 bits; the sums (at most
 * 256 * 32 * 255 * 127) fit 32. That factor goes into the panel's scales, which is exact. */
#ifdef __wasm_simd128__

#include "kernels/simd.h"

/* Four vectors of 16-bit pairs; 32-bit lane j of each belongs to the weights
 *   EVEN_LOW   (q[4j] << 8,      q[4j + 2] << 8)        nibble in bits 0-3
 *   EVEN_HIGH  (q[16 + 4j] << 4, q[16 + 4j + 2] << 4)   nibble in bits 4-7
 *   ODD_LOW    (q[4j + 1],       q[4j + 3])             nibble in bits 8-11
 *   ODD_HIGH   (q[16 + 4j + 1] << 8, q[16 + 4j + 3] << 8)   nibble in bits 12-15, shifted down */
enum { EVEN_LOW = 0, EVEN_HIGH = 16, ODD_LOW = 32, ODD_HIGH = 48, PANEL_Q = 64 };

#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

/* w0, w1: weights of rows 0...3 and 4...7 as 16-bit lanes; pair: of the first token. */
INLINE void dot_pairs(int T, v128_t w0, v128_t w1, const uint8_t *pair, v128_t sum[2][GROUP]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t a = wasm_v128_load32_splat(pair + t * PANEL_Q);
    sum[0][t] = simd_keep(wasm_i32x4_add(sum[0][t], wasm_i32x4_dot_i16x8(w0, a)));
    sum[1][t] = simd_keep(wasm_i32x4_add(sum[1][t], wasm_i32x4_dot_i16x8(w1, a)));
  }
}

INLINE void dot_nibbles(int T, int part, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t bits0 = simd_keep(wasm_i16x8_const_splat(0x000f));
  const v128_t bits4 = simd_keep(wasm_i16x8_const_splat(0x00f0));
  const v128_t bits8 = simd_keep(wasm_i16x8_const_splat(0x0f00));
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    const uint8_t *a = q + 4 * j;
    if (part & LOW) {
      dot_pairs(T, wasm_v128_and(w0, bits0), wasm_v128_and(w1, bits0), a + EVEN_LOW, sum);
      dot_pairs(T, wasm_v128_and(w0, bits8), wasm_v128_and(w1, bits8), a + ODD_LOW, sum);
    }
    if (part & HIGH) {
      dot_pairs(T, wasm_v128_and(w0, bits4), wasm_v128_and(w1, bits4), a + EVEN_HIGH, sum);
      dot_pairs(T, wasm_u16x8_shr(w0, 12), wasm_u16x8_shr(w1, 12), a + ODD_HIGH, sum);
    }
  }
}

/* Whole bytes lie 0 or 8 bits up, but meet activations prepared for nibbles: three units of sums,
 * brought together at the end. */
INLINE void dot_bytes(int T, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t byte = simd_keep(wasm_i16x8_const_splat(0x00ff));
  v128_t units[2][GROUP], sixteenths[2][GROUP];
  UNROLL for (int t = 0; t < T; t++)
    units[0][t] = units[1][t] = sixteenths[0][t] = sixteenths[1][t] = simd_zero();
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    const uint8_t *a = q + 4 * j;
    dot_pairs(T, wasm_v128_and(w0, byte), wasm_v128_and(w1, byte), a + EVEN_LOW, sum);
    dot_pairs(T, wasm_u16x8_shr(w0, 8), wasm_u16x8_shr(w1, 8), a + ODD_LOW, units);
  }
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t w0 = wasm_v128_load(w + 128 + 32 * j), w1 = wasm_v128_load(w + 128 + 32 * j + 16);
    const uint8_t *a = q + 4 * j;
    dot_pairs(T, wasm_u16x8_shr(w0, 8), wasm_u16x8_shr(w1, 8), a + ODD_HIGH, sum);
    dot_pairs(T, wasm_v128_and(w0, byte), wasm_v128_and(w1, byte), a + EVEN_HIGH, sixteenths);
  }
  UNROLL for (int h = 0; h < 2; h++) {
    UNROLL for (int t = 0; t < T; t++) {
      sum[h][t] = wasm_i32x4_add(sum[h][t], wasm_i32x4_shl(units[h][t], 8));
      sum[h][t] = wasm_i32x4_add(sum[h][t], wasm_i32x4_shl(sixteenths[h][t], 4));
    }
  }
}

INLINE void put_quantized(uint8_t *q, v128_t low, v128_t high) {
  wasm_v128_store(q + EVEN_LOW, wasm_i16x8_shl(low, 8));
  wasm_v128_store(q + EVEN_HIGH, wasm_i16x8_shr(wasm_i16x8_shl(high, 8), 4));
  wasm_v128_store(q + ODD_LOW, wasm_i16x8_shr(low, 8));
  wasm_v128_store(q + ODD_HIGH, wasm_v128_and(high, wasm_i16x8_const_splat((int16_t)0xff00)));
}

INLINE offsets offsets_of(v128_t low, v128_t high) {
  int32_t low_sum = sum_bytes(low), sum = low_sum + sum_bytes(high);
  return (offsets){-8 * 256 * sum, -8 * 256 * low_sum, -128 * 256 * sum};
}

size_t bq_simd128_panel_bytes(size_t k, size_t tokens) {
  return panel_blocks(k) * tokens * PANEL_TOKEN;
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
