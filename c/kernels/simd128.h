/* Declarations of the simd128 kernels that the relaxed tables use too. Their contracts are in
 * kernels.h. */
#ifndef BQ_KERNELS_SIMD128_H
#define BQ_KERNELS_SIMD128_H

#include "quant/encoder.h"
#include "kernels/scalar.h"

#define BQ_X(NAME, name, ...) bq_matmul_fn bq_simd128_matmul_##name;
BQ_FLOAT_TYPES(BQ_X)
#undef BQ_X

void bq_simd128_tile_rows(bq_type type, const uint8_t *src, size_t row_bytes, size_t rows,
                          size_t cols, uint8_t *dst);

extern const bq_encoder bq_simd128_encoder;

void bq_simd128_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y);
void bq_simd128_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                          float *y);
void bq_simd128_add(float *y, const float *x, size_t n);
void bq_simd128_silu_mul(float *gate, const float *up, size_t n);
void bq_simd128_gelu_mul(float *gate, const float *up, size_t n);
void bq_simd128_gelu_erf_mul(float *gate, const float *up, size_t n);
void bq_simd128_relu_mul(float *gate, const float *up, size_t n);
void bq_simd128_rope(float *x, const float *cs, size_t dim, bool adjacent);

#define BQ_SIMD128_FLOAT_ROW(NAME, name, ...) \
  [BQ_TYPE_##NAME] = {bq_simd128_matmul_##name, bq_scalar_row_##name, false, 0},

/* All entries of a SIMD table except `matrix` and those that depend on the panel layout. */
#define BQ_SIMD128_VECTOR_SLOTS                                                              \
  .rmsnorm = bq_simd128_rmsnorm, .layernorm = bq_simd128_layernorm, .add = bq_simd128_add,   \
  .silu_mul = bq_simd128_silu_mul, .gelu_mul = bq_simd128_gelu_mul,                          \
  .gelu_erf_mul = bq_simd128_gelu_erf_mul, .relu_mul = bq_simd128_relu_mul,                  \
  .rope = bq_simd128_rope, .tile_rows = bq_simd128_tile_rows

#endif
