/* Matmuls over f32, f16 and bf16 weights: rows and tokens in blocks, so that a vector once loaded
 * is used several times. Each (row, token) has its own four lanes, as kernels.h orders the sum. */
#ifdef __wasm_simd128__

#include "kernels/simd.h"
#include "kernels/simd128.h"

typedef enum float_kind { KIND_F32 = 4, KIND_F16 = 2, KIND_BF16 = 3 } float_kind;

INLINE size_t weight_bytes(float_kind kind) { return kind == KIND_F32 ? 4 : 2; }

INLINE v128_t widen(float_kind kind, const uint8_t *p, const simd_f16_constants *c) {
  return kind == KIND_F32   ? wasm_v128_load(p)
         : kind == KIND_F16 ? simd_load_f16_finite(p, c)
                            : simd_load_bf16(p);
}

/* The first n (1...3) weights at p, then zeros. */
INLINE v128_t widen_part(float_kind kind, const uint8_t *p, size_t n, const simd_f16_constants *c) {
  uint8_t part[16] = {0};
  for (size_t i = 0; i < n * weight_bytes(kind); i++) part[i] = p[i];
  return widen(kind, part, c);
}

/* sum[r][t] += w[r] * x[t] over one vector. */
INLINE void add_products(int R, int T, const v128_t *w, const v128_t *x, v128_t sum[4][2]) {
  UNROLL for (int r = 0; r < R; r++) {
    UNROLL for (int t = 0; t < T; t++)
      sum[r][t] = wasm_f32x4_add(sum[r][t], wasm_f32x4_mul(w[r], x[t]));
  }
}

/* R (4 or 1) rows times T tokens. */
INLINE void multiply_block(float_kind kind, int R, int T, const uint8_t *w, size_t cols,
                           const float *x, size_t x_stride, float *y, size_t y_stride) {
  const size_t row_bytes = cols * weight_bytes(kind), whole = cols & ~(size_t)3;
  const simd_f16_constants c = simd_f16_prepare();
  v128_t sum[4][2], wv[4], xv[2];
  UNROLL for (int r = 0; r < 4; r++)
    sum[r][0] = sum[r][1] = simd_zero();
  for (size_t k = 0; k < whole; k += 4) {
    UNROLL for (int r = 0; r < R; r++)
      wv[r] = widen(kind, w + r * row_bytes + k * weight_bytes(kind), &c);
    UNROLL for (int t = 0; t < T; t++)
      xv[t] = wasm_v128_load(x + t * x_stride + k);
    add_products(R, T, wv, xv, sum);
  }
  if (whole < cols) {
    UNROLL for (int r = 0; r < R; r++)
      wv[r] = widen_part(kind, w + r * row_bytes + whole * weight_bytes(kind), cols - whole, &c);
    UNROLL for (int t = 0; t < T; t++)
      xv[t] = simd_load_part(x + t * x_stride + whole, cols - whole);
    add_products(R, T, wv, xv, sum);
  }
  UNROLL for (int t = 0; t < T; t++) {
    if (R == 4)
      wasm_v128_store(y + t * y_stride, simd_sum_4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
    else y[t * y_stride] = simd_sum(sum[0][t]);
  }
}

INLINE void multiply_rows(float_kind kind, int R, const uint8_t *w, size_t cols, const bq_batch *a,
                          float *y, size_t y_stride) {
  size_t t = 0;
  const float *x = a->x;
  for (; t + 2 <= a->tokens; t += 2, x += 2 * a->x_stride, y += 2 * y_stride)
    multiply_block(kind, R, 2, w, cols, x, a->x_stride, y, y_stride);
  if (t < a->tokens) multiply_block(kind, R, 1, w, cols, x, a->x_stride, y, y_stride);
}

INLINE void matmul_float(float_kind kind, const bq_matrix *m, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  const size_t row_bytes = m->cols * weight_bytes(kind);
  size_t r = row0;
  for (; r + 4 <= row1; r += 4)
    multiply_rows(kind, 4, m->data + r * row_bytes, m->cols, a, y + r, y_stride);
  for (; r < row1; r++)
    multiply_rows(kind, 1, m->data + r * row_bytes, m->cols, a, y + r, y_stride);
}

#define MATMUL_SLOT(NAME, name, bytes)                                                           \
  void bq_simd128_matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, \
                                float *y, size_t y_stride) {                                     \
    matmul_float(KIND_##NAME, w, a, row0, row1, y, y_stride);                                      \
  }

BQ_FLOAT_TYPES(MATMUL_SLOT)

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
