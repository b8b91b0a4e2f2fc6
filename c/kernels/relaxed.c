/* The relaxed table: the simd128 table with the matmuls over tiled weights replaced.
 *
 * One relaxed instruction is used, i32x4.relaxed_dot_i8x16_i7x16_add_s, with weights of 0...15 as
 * its second, 7-bit operand. What engines may do differently (saturate sums of two products at 16
 * bits, read the operand as signed or not) can't happen there: a sum of two is at most 3,810. So
 * the result is the same everywhere. Nothing else may be relaxed: tools/ checks each module. */
#include "kernels/kernels.h"

#ifdef __wasm_relaxed_simd__

#include "kernels/simd.h"

/* q: 32 signed bytes, in the order of k. */
enum { PANEL_Q = 32 };

#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

/* w0, w1: unsigned weights below 16 of rows 0...3 and 4...7; a: four activations of the first
 * token. */
INLINE void dot_four(int T, v128_t w0, v128_t w1, const uint8_t *a, v128_t sum[2][GROUP]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t x = wasm_v128_load32_splat(a + t * PANEL_Q);
    sum[0][t] = simd_keep(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, w0, sum[0][t]));
    sum[1][t] = simd_keep(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, w1, sum[1][t]));
  }
}

INLINE v128_t high_nibbles(v128_t w, v128_t nibble) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), nibble);
}

INLINE void dot_nibbles(int T, int which, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t nibble = simd_keep(wasm_i8x16_const_splat(15));
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    if (which & LOW) dot_four(T, wasm_v128_and(w0, nibble), wasm_v128_and(w1, nibble), q + 4 * j, sum);
    if (which & HIGH)
      dot_four(T, high_nibbles(w0, nibble), high_nibbles(w1, nibble), q + 16 + 4 * j, sum);
  }
}

/* A byte is 16 high + low; the offset, -8 sum(q), belongs to the part that is counted 16 times. */
INLINE void dot_bytes(int T, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t nibble = simd_keep(wasm_i8x16_const_splat(15));
  v128_t low[2][GROUP];
  UNROLL for (int t = 0; t < T; t++) low[0][t] = low[1][t] = simd_zero();
  UNROLL for (int j = 0; j < 8; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    dot_four(T, high_nibbles(w0, nibble), high_nibbles(w1, nibble), q + 4 * j, sum);
    dot_four(T, wasm_v128_and(w0, nibble), wasm_v128_and(w1, nibble), q + 4 * j, low);
  }
  UNROLL for (int h = 0; h < 2; h++)
    UNROLL for (int t = 0; t < T; t++)
      sum[h][t] = wasm_i32x4_add(wasm_i32x4_shl(sum[h][t], 4), low[h][t]);
}

INLINE void put_quantized(uint8_t *q, v128_t low, v128_t high) {
  wasm_v128_store(q, low);
  wasm_v128_store(q + 16, high);
}

static size_t panel_bytes(size_t k, size_t tokens) {
  return panel_blocks(k) * tokens * PANEL_TOKEN;
}

static void quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  quantize_panel(x, x_stride, k, tokens, panel, 1.0f, -8);
}

#define MATMUL_SLOT(name, shape)                                                              \
  static void matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, \
                            float *y, size_t y_stride) {                                     \
    matmul_tiled(shape, w, a, row0, row1, y, y_stride);                                      \
  }

MATMUL_SLOT(bq4_16, BQ_SHAPE_BQ4_16)
MATMUL_SLOT(bq4_32, BQ_SHAPE_BQ4_32)
MATMUL_SLOT(bq4_64, BQ_SHAPE_BQ4_64)
MATMUL_SLOT(bq4h_32, BQ_SHAPE_BQ4H_32)
MATMUL_SLOT(bq8_32, BQ_SHAPE_BQ8_32)

static const bq_kernels table = {
    .name = "relaxed",
    .matrix = {[BQ_TYPE_F32] = {bq_simd128_matmul_f32, bq_scalar_row_f32, false},
               [BQ_TYPE_F16] = {bq_simd128_matmul_f16, bq_scalar_row_f16, false},
               [BQ_TYPE_BF16] = {bq_simd128_matmul_bf16, bq_scalar_row_bf16, false},
               [BQ_TYPE_BQ4_16] = {matmul_bq4_16, bq_scalar_row_bq4_16, true},
               [BQ_TYPE_BQ4_32] = {matmul_bq4_32, bq_scalar_row_bq4_32, true},
               [BQ_TYPE_BQ4_64] = {matmul_bq4_64, bq_scalar_row_bq4_64, true},
               [BQ_TYPE_BQ4H_32] = {matmul_bq4h_32, bq_scalar_row_bq4h_32, true},
               [BQ_TYPE_BQ8_32] = {matmul_bq8_32, bq_scalar_row_bq8_32, true}},
    .panel_bytes = panel_bytes,
    .quantize = quantize,
    BQ_SIMD128_VECTOR_SLOTS,
};

const bq_kernels *bq_kernels_relaxed(void) { return &table; }

#else
const bq_kernels *bq_kernels_relaxed(void) { return NULL; }
#endif
