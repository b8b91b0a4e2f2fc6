/* The scalar table: plain C, the reference of all other tables. */
#include "kernels/attend.h"
#include "kernels/scalar.h"

#define FLOAT(NAME, name, ...) \
  [BQ_TYPE_##NAME] = {bq_scalar_matmul_##name, bq_scalar_row_##name, false, 0},
#define TILED(NAME, name, ...) \
  [BQ_TYPE_##NAME] = {bq_scalar_matmul_##name, bq_scalar_row_tiled, true, 0},

static const bq_kernels table = {
    .name = "scalar",
    .matrix = {BQ_FLOAT_TYPES(FLOAT) BQ_TILED_TYPES(TILED)},
    .panel_bytes = bq_scalar_panel_bytes,
    .quantize = bq_scalar_quantize,
    .rmsnorm = bq_scalar_rmsnorm,
    .layernorm = bq_scalar_layernorm,
    .add = bq_scalar_add,
    .silu_mul = bq_scalar_silu_mul,
    .gelu_mul = bq_scalar_gelu_mul,
    .gelu_erf_mul = bq_scalar_gelu_erf_mul,
    .relu_mul = bq_scalar_relu_mul,
    .rope = bq_scalar_rope,
    BQ_SCALAR_ATTEND_SLOTS,
    .tile_rows = bq_scalar_tile_rows,
};

const bq_kernels *bq_kernels_scalar(void) { return &table; }
