/* The kernel table of this instance: a copy of the linked table, to which bqw_add_kernels adds the
 * optional kernels. These are in a module of their own (bq4-NAME-rare.wasm: c/kernels/simd_tiles.h,
 * js/wasm/optional-kernels.js). All threads share the table: each has every function at the same
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
  enum { GROUPS = 4 }; /* row tiles that a kernel computes at once for one token, at most */
  bq_matmul_of *const matmul_of = (bq_matmul_of *)(uintptr_t)function;
  bqw_kernels();
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
    bq_matmul_fn *const matmul = matmul_of(type);
    if (matmul) kernels.matrix[type] = (bq_matrix_ops){matmul, bq_scalar_row_tiled, true, GROUPS};
  }
}
