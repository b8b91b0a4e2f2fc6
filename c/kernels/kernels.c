#include "kernels/kernels.h"

const bq_kernels *bq_kernels_best(void) {
  if (bq_kernels_relaxed()) return bq_kernels_relaxed();
#ifdef __wasm_simd128__ /* a module for browsers: the scalar table is not linked at all */
  return bq_kernels_simd128();
#else
  if (bq_kernels_simd128()) return bq_kernels_simd128();
  return bq_kernels_scalar();
#endif
}
