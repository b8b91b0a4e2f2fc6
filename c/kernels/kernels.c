#include "kernels/kernels.h"

const bq_kernels *bq_kernels_best(void) {
  if (bq_kernels_relaxed()) return bq_kernels_relaxed();
  if (bq_kernels_simd128()) return bq_kernels_simd128();
  return bq_kernels_scalar();
}

bool bq_kernels_self_test(const bq_kernels *k) { return k != NULL; }
