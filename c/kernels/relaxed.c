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

/* Quads are four signed bytes in the order of k: quad j of 8. */
enum { PANEL_Q = 32 };

typedef struct constants {
  v128_t nibble, center, zero;
} constants;

#include "kernels/attend.h"
#include "kernels/simd128.h"
#include "kernels/simd_tiles.h"

INLINE constants prepare(void) {
  static const uint32_t masks[] = {0x0f0f0f0f, 0x80808080, 0};
  const uint32_t *m = simd_hide(masks);
  return (constants){wasm_v128_load32_splat(m), wasm_v128_load32_splat(m + 1),
                     wasm_v128_load32_splat(m + 2)};
}

/* Eight are the fastest with 4-bit weights, and the largest in code. */
INLINE int streams(bq_tile_shape s) { return s.bits == 4 && s.block == 32 ? 8 : 4; }

INLINE v128_t quad(int T, int j, int t, const uint8_t *q) {
  return wasm_v128_load32_splat(q + (j * T + t) * 4);
}

/* Quad j of all tokens times unsigned weights below 16: w0 of rows 0...3, w1 of rows 4...7. */
INLINE void dot_quads(int T, int j, v128_t w0, v128_t w1, const uint8_t *q, v128_t sum[][2]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t a = quad(T, j, t, q);
    sum[t][0] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w0, sum[t][0]);
    sum[t][1] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w1, sum[t][1]);
    simd_pin(&sum[t][0]);
    simd_pin(&sum[t][1]);
  }
}

INLINE v128_t high_nibbles(v128_t w, const constants *c) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), c->nibble);
}

INLINE void dot_nibbles(int G, int T, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    UNROLL for (int g = 0; g < G; g++) {
      v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
      if (part & LOW)
        dot_quads(T, j, wasm_v128_and(w0, c->nibble), wasm_v128_and(w1, c->nibble), q, sum + g * T);
      if (part & HIGH)
        dot_quads(T, 4 + j, high_nibbles(w0, c), high_nibbles(w1, c), q, sum + g * T);
    }
  }
}

/* w * a = w * |a| for a >= 0, and (~w + 1) * |a| for a < 0: flipping the bits of the weights that
 * meet a negative activation leaves the sum of those |a| to be added: the offset. */
INLINE void dot_bytes(int G, int T, const uint8_t *const *w, const uint8_t *q, const constants *c,
                      v128_t sum[MOST][2]) {
  UNROLL for (int j = 0; j < 8; j++) {
    UNROLL for (int t = 0; t < T; t++) {
      v128_t a = quad(T, j, t, q), size = wasm_i8x16_abs(a);
      v128_t flip = wasm_v128_xor(wasm_i8x16_lt(a, c->zero), c->center); /* w + 128 to signed w */
      UNROLL for (int g = 0; g < G; g++) {
        v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
        v128_t w0_flipped = wasm_v128_xor(w0, flip), w1_flipped = wasm_v128_xor(w1, flip);
        v128_t *to = sum[g * T + t];
        to[0] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w0_flipped, size, to[0]);
        to[1] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w1_flipped, size, to[1]);
        simd_pin(&to[0]);
        simd_pin(&to[1]);
      }
    }
  }
}

INLINE void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high) {
  put_four_quads(q, T, low);
  put_four_quads(q + 16 * T, T, high);
}

INLINE offsets offsets_of(byte_sums a) {
  return (offsets){-8 * (a.low + a.high), -8 * a.low, -a.negative};
}

static size_t panel_bytes(size_t k, size_t tokens) {
  return panel_size(k, tokens);
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
    BQ_SIMD128_ATTEND_SLOTS(bq_relaxed_attend_i8),
};

const bq_kernels *bq_kernels_relaxed(void) { return &table; }

#else
const bq_kernels *bq_kernels_relaxed(void) { return NULL; }
#endif
