/* Selects the kernel table of this build. */
#include "kernels/kernels.h"

#ifdef BQ_ONLY_TABLE /* emscripten.mk: no other table is to be linked */
const bq_kernels *BQ_ONLY_TABLE(void);
#endif

const bq_kernels *bq_kernels_best(void) {
#ifdef BQ_ONLY_TABLE
  return BQ_ONLY_TABLE();
#else
  if (bq_kernels_relaxed()) return bq_kernels_relaxed();
  if (bq_kernels_simd128()) return bq_kernels_simd128();
  return bq_kernels_scalar();
#endif
}
