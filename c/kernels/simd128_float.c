/* Matmuls over f32, f16 and bf16 weights, in blocks of rows and tokens, so that a loaded vector is
 * used several times. Each (row, token) has its own four lanes, in the canonical order of
 * kernels.h. */
#ifdef __wasm_simd128__

#include <string.h>

#include "kernels/simd.h"
#include "kernels/simd128.h"

typedef enum float_kind { KIND_F32 = 4, KIND_F16 = 2, KIND_BF16 = 3 } float_kind;

INLINE size_t weight_bytes(float_kind kind) { return kind == KIND_F32 ? 4 : 2; }

INLINE v128_t widen(float_kind kind, const uint8_t *p, const simd_f16_constants *c) {
  return kind == KIND_F32   ? wasm_v128_load(p)
         : kind == KIND_F16 ? simd_load_f16_finite(p, c)
                            : simd_load_bf16(p);
}

/* The first n (1...3) weights at p, padded with zeros. Not inlined, because it runs once per row.
 */
static __attribute__((noinline)) v128_t widen_part(float_kind kind, const uint8_t *p, size_t n) {
  const simd_f16_constants c = simd_f16_prepare();
  uint8_t part[16] = {0};
  memcpy(part, p, n * weight_bytes(kind));
  return widen(kind, part, &c);
}

/* sum[r][t] += w[r] * x[t] over one vector. */
INLINE void add_products(int T, const v128_t *w, const v128_t *x, v128_t sum[4][2]) {
  UNROLL for (int r = 0; r < 4; r++) {
    UNROLL for (int t = 0; t < T; t++)
      sum[r][t] = wasm_f32x4_add(sum[r][t], wasm_f32x4_mul(w[r], x[t]));
  }
}

/* Multiplies 4 rows by T tokens. If there are fewer than 4 rows, the last one is computed
 * repeatedly and the extra sums are discarded. */
INLINE void multiply_block(float_kind kind, int T, const uint8_t *w, size_t rows, size_t cols,
                           const float *x, size_t x_stride, float *y, size_t y_stride) {
  const size_t row_bytes = cols * weight_bytes(kind), whole = cols & ~(size_t)3;
  const simd_f16_constants c = simd_f16_prepare();
  const uint8_t *row[4];
  v128_t sum[4][2], wv[4], xv[2];
  UNROLL for (size_t r = 0; r < 4; r++) {
    row[r] = w + (r < rows ? r : rows - 1) * row_bytes;
    sum[r][0] = sum[r][1] = simd_zero();
  }
  for (size_t k = 0; k < whole; k += 4) {
    UNROLL for (int r = 0; r < 4; r++) wv[r] = widen(kind, row[r] + k * weight_bytes(kind), &c);
    UNROLL for (int t = 0; t < T; t++) xv[t] = wasm_v128_load(x + t * x_stride + k);
    add_products(T, wv, xv, sum);
  }
  if (whole < cols) {
    UNROLL for (int r = 0; r < 4; r++)
      wv[r] = widen_part(kind, row[r] + whole * weight_bytes(kind), cols - whole);
    UNROLL for (int t = 0; t < T; t++)
      xv[t] = widen_part(KIND_F32, (const uint8_t *)(x + t * x_stride + whole), cols - whole);
    add_products(T, wv, xv, sum);
  }
  UNROLL for (int t = 0; t < T; t++)
    simd_store(y + t * y_stride, simd_sum_4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]), 0, rows);
}

INLINE void matmul_float(float_kind kind, const bq_matrix *m, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  for (size_t r = row0; r < row1; r += 4) {
    const uint8_t *w = m->data + r * m->cols * weight_bytes(kind);
    const float *x = a->x;
    float *to = y + r;
    size_t t = 0;
    for (; t + 2 <= a->tokens; t += 2, x += 2 * a->x_stride, to += 2 * y_stride)
      multiply_block(kind, 2, w, row1 - r, m->cols, x, a->x_stride, to, y_stride);
    if (t < a->tokens)
      multiply_block(kind, 1, w, row1 - r, m->cols, x, a->x_stride, to, y_stride);
  }
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
