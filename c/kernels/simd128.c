/* The simd128 table: what every browser with WebAssembly SIMD runs. */
#include "kernels/kernels.h"

#ifdef __wasm_simd128__

#include "kernels/attend.h"
#include "kernels/simd128.h"

static const bq_kernels table = {
    .name = "simd128",
    .batch_groups = 2,
    .matrix = {[BQ_TYPE_F32] = {bq_simd128_matmul_f32, bq_scalar_row_f32, false},
               [BQ_TYPE_F16] = {bq_simd128_matmul_f16, bq_scalar_row_f16, false},
               [BQ_TYPE_BF16] = {bq_simd128_matmul_bf16, bq_scalar_row_bf16, false},
               [BQ_TYPE_BQ4_16] = {bq_simd128_matmul_bq4_16, bq_scalar_row_bq4_16, true},
               [BQ_TYPE_BQ4_32] = {bq_simd128_matmul_bq4_32, bq_scalar_row_bq4_32, true},
               [BQ_TYPE_BQ4_64] = {bq_simd128_matmul_bq4_64, bq_scalar_row_bq4_64, true},
               [BQ_TYPE_BQ4H_32] = {bq_simd128_matmul_bq4h_32, bq_scalar_row_bq4h_32, true},
               [BQ_TYPE_BQ8_32] = {bq_simd128_matmul_bq8_32, bq_scalar_row_bq8_32, true}},
    .panel_bytes = bq_simd128_panel_bytes,
    .quantize = bq_simd128_quantize,
    BQ_SIMD128_VECTOR_SLOTS,
    BQ_SIMD128_ATTEND_SLOTS(bq_simd128_attend_i8),
};

const bq_kernels *bq_kernels_simd128(void) { return &table; }

#else
const bq_kernels *bq_kernels_simd128(void) { return NULL; }
#endif
