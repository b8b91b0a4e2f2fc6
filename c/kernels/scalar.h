/* The scalar table's slots, for its own table and for the tables that reuse them. */
#ifndef BQ_KERNELS_SCALAR_H
#define BQ_KERNELS_SCALAR_H

#include "kernels/attend.h"
#include "kernels/kernels.h"

typedef void bq_matmul_fn(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, float *y,
                          size_t y_stride);
typedef void bq_row_fn(const bq_matrix *w, size_t row, float *y);
typedef void bq_tile_rows_fn(const uint8_t *src, size_t row_bytes, size_t rows, size_t cols,
                             uint8_t *dst);

bq_matmul_fn bq_scalar_matmul_f32, bq_scalar_matmul_f16, bq_scalar_matmul_bf16;
bq_matmul_fn bq_scalar_matmul_bq4_16, bq_scalar_matmul_bq4_32, bq_scalar_matmul_bq4_64;
bq_matmul_fn bq_scalar_matmul_bq4h_32, bq_scalar_matmul_bq8_32;

bq_row_fn bq_scalar_row_f32, bq_scalar_row_f16, bq_scalar_row_bf16;
bq_row_fn bq_scalar_row_bq4_16, bq_scalar_row_bq4_32, bq_scalar_row_bq4_64;
bq_row_fn bq_scalar_row_bq4h_32, bq_scalar_row_bq8_32;

bq_tile_rows_fn bq_scalar_tile_bq4_16, bq_scalar_tile_bq4_32, bq_scalar_tile_bq4_64;
bq_tile_rows_fn bq_scalar_tile_bq4h_32, bq_scalar_tile_bq8_32;

size_t bq_scalar_panel_bytes(size_t k, size_t tokens);
void bq_scalar_quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel);

void bq_scalar_rmsnorm(const float *x, const float *w, float eps, size_t n, float *y);
void bq_scalar_layernorm(const float *x, const float *w, const float *b, float eps, size_t n,
                         float *y);
void bq_scalar_add(float *y, const float *x, size_t n);
void bq_scalar_silu_mul(float *gate, const float *up, size_t n);
void bq_scalar_gelu_mul(float *gate, const float *up, size_t n);
void bq_scalar_gelu_erf_mul(float *gate, const float *up, size_t n);
void bq_scalar_relu_mul(float *gate, const float *up, size_t n);
void bq_scalar_rope(float *x, const float *cs, size_t dim, bool adjacent);

#endif
