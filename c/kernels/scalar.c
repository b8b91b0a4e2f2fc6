/* The scalar table: plain C, the oracle of all the others. */
#include "kernels/attend.h"
#include "kernels/scalar.h"

#define FLOATS(TYPE, name) [BQ_TYPE_##TYPE] = {bq_scalar_matmul_##name, bq_scalar_row_##name, false}
#define TILED(TYPE, name) [BQ_TYPE_##TYPE] = {bq_scalar_matmul_##name, bq_scalar_row_##name, true}

static const bq_kernels table = {
    .name = "scalar",
    .batch_groups = 1,
    .matrix = {FLOATS(F32, f32), FLOATS(F16, f16), FLOATS(BF16, bf16), TILED(BQ4_16, bq4_16),
               TILED(BQ4_32, bq4_32), TILED(BQ4_64, bq4_64), TILED(BQ4H_32, bq4h_32),
               TILED(BQ8_32, bq8_32)},
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
    .tile_rows = {[BQ_TYPE_BQ4_16] = bq_scalar_tile_bq4_16,
                  [BQ_TYPE_BQ4_32] = bq_scalar_tile_bq4_32,
                  [BQ_TYPE_BQ4_64] = bq_scalar_tile_bq4_64,
                  [BQ_TYPE_BQ4H_32] = bq_scalar_tile_bq4h_32,
                  [BQ_TYPE_BQ8_32] = bq_scalar_tile_bq8_32},
};

const bq_kernels *bq_kernels_scalar(void) { return &table; }
