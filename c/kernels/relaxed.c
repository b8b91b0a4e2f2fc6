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

/* q: 32 signed bytes, in the order of k. */
enum { PANEL_Q = 32 };

#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE v128_t dot4(v128_t signed_bytes, v128_t seven_bits, v128_t sum) {
  return simd_keep(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(signed_bytes, seven_bits, sum));
}

/* w0, w1: unsigned weights below 16 of rows 0...3 and 4...7; a: four activations of the first
 * token. */
INLINE void dot_four(int T, v128_t w0, v128_t w1, const uint8_t *a, v128_t sum[2][GROUP]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t x = wasm_v128_load32_splat(a + t * PANEL_Q);
    sum[0][t] = dot4(x, w0, sum[0][t]);
    sum[1][t] = dot4(x, w1, sum[1][t]);
  }
}

INLINE v128_t high_nibbles(v128_t w, v128_t nibble) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), nibble);
}

INLINE void dot_nibbles(int T, int part, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t nibble = simd_keep(wasm_i8x16_const_splat(15));
  UNROLL for (int j = 0; j < 4; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    if (part & LOW)
      dot_four(T, wasm_v128_and(w0, nibble), wasm_v128_and(w1, nibble), q + 4 * j, sum);
    if (part & HIGH)
      dot_four(T, high_nibbles(w0, nibble), high_nibbles(w1, nibble), q + 16 + 4 * j, sum);
  }
}

/* w * a = w * |a| for a >= 0, and (~w + 1) * |a| for a < 0: flipping the bits of the weights that
 * meet a negative activation leaves the sum of those |a| to be added: the offset. */
INLINE void dot_bytes(int T, const uint8_t *w, const uint8_t *q, v128_t sum[2][GROUP]) {
  const v128_t zero = simd_keep(simd_zero());
  const v128_t center = simd_keep(wasm_i8x16_const_splat((int8_t)0x80)); /* w + 128 to signed w */
  UNROLL for (int j = 0; j < 8; j++) {
    v128_t w0 = wasm_v128_load(w + 32 * j), w1 = wasm_v128_load(w + 32 * j + 16);
    UNROLL for (int t = 0; t < T; t++) {
      v128_t a = wasm_v128_load32_splat(q + t * PANEL_Q + 4 * j);
      v128_t size = wasm_i8x16_abs(a), flip = wasm_v128_xor(wasm_i8x16_lt(a, zero), center);
      sum[0][t] = dot4(wasm_v128_xor(w0, flip), size, sum[0][t]);
      sum[1][t] = dot4(wasm_v128_xor(w1, flip), size, sum[1][t]);
    }
  }
}

INLINE void put_quantized(uint8_t *q, v128_t low, v128_t high) {
  wasm_v128_store(q, low);
  wasm_v128_store(q + 16, high);
}

INLINE offsets offsets_of(v128_t low, v128_t high) {
  int32_t low_sum = sum_bytes(low), sum = low_sum + sum_bytes(high);
  v128_t zero = simd_zero();
  return (offsets){-8 * sum, -8 * low_sum,
                   -sum_bytes(wasm_i8x16_min(low, zero)) - sum_bytes(wasm_i8x16_min(high, zero))};
}

static size_t panel_bytes(size_t k, size_t tokens) {
  return panel_blocks(k) * tokens * PANEL_TOKEN;
}

static void quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  quantize_panel(x, x_stride, k, tokens, panel, 1.0f);
}

#define MATMUL_SLOT(name, shape)                                                             \
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
