/* Sizes of caches and of attention's scratch: the same for every table. */
#include "kernels/kv.h"

#include "core/type.h"

enum { MOST_POSITIONS = 1 << 28, MOST_DIM = 1 << 20 }; /* no product overflows 64 bits */

uint64_t bq_kv_bytes(bq_kv_type type, uint64_t positions, uint64_t head_dim) {
  if (positions > MOST_POSITIONS || head_dim > MOST_DIM) return UINT64_MAX;
  if (type != BQ_KV_I8)
    return (2 * positions * head_dim * bq_kv_element(type) + 15) / 16 * 16;
  const uint64_t dims = (head_dim + 7) / 8 * 8, k_blocks = (head_dim + 31) / 32;
  const uint64_t groups = (positions + 7) / 8, blocks = (positions + 31) / 32;
  return groups * (16 * k_blocks + 8 * dims) + blocks * 32 * (sizeof(float) + dims);
}

/* Per row: scores, weights as 16-bit numbers and their scales, the query likewise. For f16: a block
 * of 32 positions widened; for i8 that is room for sums. */
uint64_t bq_attend_scratch(uint64_t positions, uint64_t head_dim) {
  if (positions > MOST_POSITIONS || head_dim > MOST_DIM) return UINT64_MAX;
  const uint64_t p = (positions + 31) / 32 * 32, d = (head_dim + 31) / 32 * 32;
  const uint64_t row = p * (sizeof(float) + 2) + p / 8 + d * 2 + d / 4;
  return BQ_ATTEND_ROWS * row + BQ_KV_SCALED * d * sizeof(float);
}
