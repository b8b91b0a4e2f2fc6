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

/* A quad of one token times unsigned weights below 128: w0 of rows 0...3, w1 of rows 4...7. */
INLINE void dot_quad(v128_t a, v128_t w0, v128_t w1, v128_t sum[2]) {
  sum[0] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w0, sum[0]);
  sum[1] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, w1, sum[1]);
  simd_pin(&sum[0]);
  simd_pin(&sum[1]);
}

INLINE v128_t low_nibbles(v128_t w, const constants *c) { return wasm_v128_and(w, c->nibble); }
INLINE v128_t high_nibbles(v128_t w, const constants *c) {
  return wasm_v128_and(wasm_u16x8_shr(w, 4), c->nibble);
}

/* Loads stand outside the inner loops, since none is moved across a pin. */
INLINE void dot_nibbles(int G, int T, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]) {
  UNROLL for (int j = 0; j < 4; j++) {
    if (T == 1) {
      v128_t low = quad(1, j, 0, q), high = quad(1, 4 + j, 0, q);
      UNROLL for (int g = 0; g < G; g++) {
        v128_t w0 = wasm_v128_load(w[g] + 32 * j), w1 = wasm_v128_load(w[g] + 32 * j + 16);
        if (part & LOW) dot_quad(low, low_nibbles(w0, c), low_nibbles(w1, c), sum[g]);
        if (part & HIGH) dot_quad(high, high_nibbles(w0, c), high_nibbles(w1, c), sum[g]);
      }
      continue;
    }
    v128_t w0 = wasm_v128_load(w[0] + 32 * j), w1 = wasm_v128_load(w[0] + 32 * j + 16);
    v128_t low0 = low_nibbles(w0, c), low1 = low_nibbles(w1, c);
    v128_t high0 = high_nibbles(w0, c), high1 = high_nibbles(w1, c);
    if (part & LOW)
      UNROLL for (int t = 0; t < T; t++) dot_quad(quad(T, j, t, q), low0, low1, sum[t]);
    if (part & HIGH)
      UNROLL for (int t = 0; t < T; t++) dot_quad(quad(T, 4 + j, t, q), high0, high1, sum[t]);
  }
}

/* w * a = w * |a| for a >= 0, and (~w + 1) * |a| for a < 0: flipping the bits of the weights that
 * meet a negative activation leaves the sum of those |a| to be added: the offset. */
typedef struct signed_quad {
  v128_t size, flip; /* flip: from w + 128 to signed w, too */
} signed_quad;

INLINE signed_quad signed_quad_of(v128_t a, const constants *c) {
  return (signed_quad){wasm_i8x16_abs(a), wasm_v128_xor(wasm_i8x16_lt(a, c->zero), c->center)};
}

INLINE void dot_signed(signed_quad a, v128_t w0, v128_t w1, v128_t sum[2]) {
  v128_t w0_flipped = wasm_v128_xor(w0, a.flip), w1_flipped = wasm_v128_xor(w1, a.flip);
  sum[0] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w0_flipped, a.size, sum[0]);
  sum[1] = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w1_flipped, a.size, sum[1]);
  simd_pin(&sum[0]);
  simd_pin(&sum[1]);
}

INLINE void dot_bytes(int G, int T, const uint8_t *const *w, const uint8_t *q, const constants *c,
                      v128_t sum[MOST][2]) {
  UNROLL for (int j = 0; j < 8; j++) {
    if (T == 1) {
      signed_quad a = signed_quad_of(quad(1, j, 0, q), c);
      UNROLL for (int g = 0; g < G; g++)
        dot_signed(a, wasm_v128_load(w[g] + 32 * j), wasm_v128_load(w[g] + 32 * j + 16), sum[g]);
      continue;
    }
    v128_t w0 = wasm_v128_load(w[0] + 32 * j), w1 = wasm_v128_load(w[0] + 32 * j + 16);
    UNROLL for (int t = 0; t < T; t++)
      dot_signed(signed_quad_of(quad(T, j, t, q), c), w0, w1, sum[t]);
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
