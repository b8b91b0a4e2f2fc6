/* The kernels of this instance: the one table that is linked, and those of rare types, once a
 * module of their own has brought them (bq4-NAME-rare.wasm: c/kernels/simd_tiles.h,
 * js/wasm/optional-kernels.js). Threads share the table, and each has every function at the same
 * index of its own function table. */
#include "api.h"
#include "kernels/scalar.h"

const bq_kernels *BQ_OWN_TABLE(void), *bqw_kernels(void);

static bq_kernels kernels;

const bq_kernels *bqw_kernels(void) {
  if (!kernels.name) kernels = *BQ_OWN_TABLE();
  return &kernels;
}

BQW(void) bqw_add_kernels(uint32_t function) {
  enum { GROUPS = 4 }; /* at once for one token: the most that any rare type has */
  bq_matmul_of *const of = (bq_matmul_of *)(uintptr_t)function;
  bqw_kernels();
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
    bq_matmul_fn *const matmul = of(type);
    if (matmul) kernels.matrix[type] = (bq_matrix_ops){matmul, bq_scalar_row_tiled, true, GROUPS};
  }
}
