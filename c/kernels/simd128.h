/* Slots of the simd128 table that the relaxed table takes over. */
#ifndef BQ_KERNELS_SIMD128_H
#define BQ_KERNELS_SIMD128_H

#include "kernels/scalar.h"

bq_matmul_fn bq_simd128_matmul_f32, bq_simd128_matmul_f16, bq_simd128_matmul_bf16;
bq_matmul_fn bq_simd128_matmul_bq4_16, bq_simd128_matmul_bq4_32, bq_simd128_matmul_bq4_64;
bq_matmul_fn bq_simd128_matmul_bq4h_32, bq_simd128_matmul_bq8_32;

size_t bq_simd128_panel_bytes(size_t k, size_t tokens);
void bq_simd128_quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel);

bq_tile_rows_fn bq_simd128_tile_bq4_16, bq_simd128_tile_bq4_32, bq_simd128_tile_bq4_64;
bq_tile_rows_fn bq_simd128_tile_bq4h_32, bq_simd128_tile_bq8_32;

void bq_simd128_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y);
void bq_simd128_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                          float *y);
void bq_simd128_add(float *y, const float *x, size_t n);
void bq_simd128_silu_mul(float *gate, const float *up, size_t n);
void bq_simd128_gelu_mul(float *gate, const float *up, size_t n);
void bq_simd128_gelu_erf_mul(float *gate, const float *up, size_t n);
void bq_simd128_relu_mul(float *gate, const float *up, size_t n);
void bq_simd128_rope(float *x, const float *cs, size_t dim, bool adjacent);

/* All slots of a table but `matrix` and what belongs to its panel. */
#define BQ_SIMD128_VECTOR_SLOTS                                                              \
  .rmsnorm = bq_simd128_rmsnorm, .layernorm = bq_simd128_layernorm, .add = bq_simd128_add,   \
  .silu_mul = bq_simd128_silu_mul, .gelu_mul = bq_simd128_gelu_mul,                          \
  .gelu_erf_mul = bq_simd128_gelu_erf_mul, .relu_mul = bq_simd128_relu_mul,                  \
  .rope = bq_simd128_rope,                                                                   \
  .tile_rows = {[BQ_TYPE_BQ4_16] = bq_simd128_tile_bq4_16,                                   \
                [BQ_TYPE_BQ4_32] = bq_simd128_tile_bq4_32,                                   \
                [BQ_TYPE_BQ4_64] = bq_simd128_tile_bq4_64,                                   \
                [BQ_TYPE_BQ4H_32] = bq_simd128_tile_bq4h_32,                                 \
                [BQ_TYPE_BQ8_32] = bq_simd128_tile_bq8_32}

#endif
