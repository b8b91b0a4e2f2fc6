/* Declarations of the scalar kernels, which are also the entries of other tables that have no
 * faster one. Their contracts are in kernels.h. */
#ifndef BQ_KERNELS_SCALAR_H
#define BQ_KERNELS_SCALAR_H

#include "kernels/attend.h"
#include "kernels/kernels.h"

typedef void bq_matmul_fn(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, float *y,
                          size_t y_stride);
typedef void bq_row_fn(const bq_matrix *w, size_t row, float *y);
#define BQ_X(NAME, name, ...) bq_matmul_fn bq_scalar_matmul_##name;
BQ_FLOAT_TYPES(BQ_X)
BQ_TILED_TYPES(BQ_X)
#undef BQ_X
/* The entry point of a module that holds only kernels of rarely used types (bq4-*-rare.wasm):
 * returns the matmul of a type, or NULL if the module has none. */
typedef bq_matmul_fn *bq_matmul_of(uint32_t type);
bq_matmul_of bq_rare_matmul;

bq_row_fn bq_scalar_row_f32, bq_scalar_row_f16, bq_scalar_row_bf16, bq_scalar_row_tiled;

void bq_scalar_tile_rows(bq_type type, const uint8_t *src, size_t row_bytes, size_t rows,
                         size_t cols, uint8_t *dst);
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
