/* Declarations of the attention kernels, for tables that use another table's entries. Their
 * contracts are in kernels.h (`attend`, `kv_store`). */
#ifndef BQ_KERNELS_ATTEND_H
#define BQ_KERNELS_ATTEND_H

#include "kernels/kv.h"

typedef void bq_attend_fn(const bq_attend_job *job);
typedef void bq_kv_store_fn(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                            const float *v, size_t stride);

bq_attend_fn bq_scalar_attend_f32, bq_scalar_attend_f16, bq_scalar_attend_i8, bq_scalar_attend_i4,
    bq_scalar_attend_i2;
bq_kv_store_fn bq_scalar_kv_store_f32, bq_scalar_kv_store_f16, bq_scalar_kv_store_i8,
    bq_scalar_kv_store_i4, bq_scalar_kv_store_i2;

/* Adjusts the scaled scores of a row, which begin at bq_row_base: applies the softcap, the ALiBi
 * slopes and the biases, and sets the scores of positions before bq_row_from to -infinity. `scores`
 * must have space up to a multiple of 4 floats. */
void bq_simd128_adjust_scores(const bq_attend_job *job, size_t row, float *scores);
/* x[i] = exp(x[i] - max), and 0 from n up to the next multiple of BQ_KV_SCALED. Returns the sum,
 * which includes exp(sink - max). */
float bq_simd128_exponentials(float *x, size_t n, float sink);
bq_attend_fn bq_simd128_attend_f32, bq_simd128_attend_f16, bq_simd128_attend_i8,
    bq_simd128_attend_i4, bq_simd128_attend_i2;
bq_kv_store_fn bq_simd128_kv_store_f16, bq_simd128_kv_store_i8;

bq_kv_unpack_fn bq_simd128_kv_unpack;

bq_attend_fn bq_relaxed_attend_i8, bq_relaxed_attend_i4, bq_relaxed_attend_i2,
    bq_relaxed16_attend_i8, bq_relaxed16_attend_i4, bq_relaxed16_attend_i2;

#define BQ_SCALAR_ATTEND_SLOTS                                                                    \
  .attend = {bq_scalar_attend_f32, bq_scalar_attend_f16, bq_scalar_attend_i8,                     \
             bq_scalar_attend_i4, bq_scalar_attend_i2},                                           \
  .kv_store = {bq_scalar_kv_store_f32, bq_scalar_kv_store_f16, bq_scalar_kv_store_i8,             \
               bq_scalar_kv_store_i4, bq_scalar_kv_store_i2}
/* The attention entries of a SIMD table: the integer kernels are `table`'s own, the others are
 * shared. */
#define BQ_SIMD128_ATTEND_SLOTS(table)                                                            \
  .attend = {bq_simd128_attend_f32, bq_simd128_attend_f16, bq_##table##_attend_i8,                \
             bq_##table##_attend_i4, bq_##table##_attend_i2},                                     \
  .kv_store = {bq_scalar_kv_store_f32, bq_simd128_kv_store_f16, bq_simd128_kv_store_i8,           \
               bq_scalar_kv_store_i4, bq_scalar_kv_store_i2}

#endif
