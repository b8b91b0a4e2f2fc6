/* Declarations of the attention kernels, for tables that use another table's entries. Their
 * contracts are in kernels.h (`attend`, `kv_store`). */
#ifndef BQ_KERNELS_ATTEND_H
#define BQ_KERNELS_ATTEND_H

#include "kernels/kv.h"

typedef void bq_attend_fn(const bq_attend_job *job);
typedef void bq_kv_store_fn(const bq_kv_view *kv, size_t position, size_t tokens, const float *k,
                            const float *v, size_t stride);

/* The entries of the scalar table, and those of SIMD tables as far as they have them. */
#define BQ_X(table, NAME, name, ...)                                                              \
  bq_attend_fn bq_scalar_attend_##name, bq_simd128_attend_##name, bq_relaxed_attend_##name,       \
      bq_relaxed16_attend_##name;                                                                 \
  bq_kv_store_fn bq_scalar_kv_store_##name, bq_simd128_kv_store_##name;
BQ_KV_TYPES(BQ_X, )
#undef BQ_X

/* Adjusts the scaled scores of a row, which begin at bq_row_base: applies the softcap, the ALiBi
 * slopes and the biases, and sets the scores of positions before bq_row_from to -infinity. `scores`
 * must have space up to a multiple of 4 floats. */
void bq_simd128_adjust_scores(const bq_attend_job *job, size_t row, float *scores);
/* x[i] = exp(x[i] - max), and 0 from n up to the next multiple of BQ_KV_SCALED. Returns the sum,
 * which includes exp(sink - max). */
float bq_simd128_exponentials(float *x, size_t n, float sink);
bq_kv_unpack_fn bq_simd128_kv_unpack;
/* Defines attention of a SIMD table over a packed cache, with the table's attention over i8. */
#define BQ_ATTEND_PACKED(table, NAME, name, ...)                                                  \
  void bq_##table##_attend_##name(const bq_attend_job *job) {                                     \
    bq_attend_unpacked(job, BQ_KV_##NAME, bq_simd128_kv_unpack, bq_##table##_attend_i8);          \
  }

#define BQ_SCALAR_ATTEND(table, NAME, name, ...) bq_scalar_attend_##name,
#define BQ_SCALAR_STORE(table, NAME, name, ...) bq_scalar_kv_store_##name,
#define BQ_SCALAR_ATTEND_SLOTS                                                                    \
  .attend = {BQ_KV_TYPES(BQ_SCALAR_ATTEND, )}, .kv_store = {BQ_KV_TYPES(BQ_SCALAR_STORE, )}

/* The attention entries of a SIMD table. */
#define BQ_ATTEND_SCALAR(table, name) bq_scalar_attend_##name,
#define BQ_ATTEND_SIMD128(table, name) bq_simd128_attend_##name,
#define BQ_ATTEND_OWN(table, name) bq_##table##_attend_##name,
#define BQ_STORE_SCALAR(name) bq_scalar_kv_store_##name,
#define BQ_STORE_SIMD128(name) bq_simd128_kv_store_##name,
#define BQ_SIMD_ATTEND(table, NAME, name, bits, attend, store) BQ_ATTEND_##attend(table, name)
#define BQ_SIMD_STORE(table, NAME, name, bits, attend, store) BQ_STORE_##store(name)
#define BQ_SIMD128_ATTEND_SLOTS(table)                                                            \
  .attend = {BQ_KV_TYPES(BQ_SIMD_ATTEND, table)}, .kv_store = {BQ_KV_TYPES(BQ_SIMD_STORE, table)}

#endif
