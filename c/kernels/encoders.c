/* The encoders by instruction set. Not in the kernel tables: what computes encodes nothing. */
#include "kernels/encoders.h"

#include <stddef.h>

#ifdef __wasm_simd128__
#include "kernels/simd128.h"
const bq_encoder *bq_encoder_simd128(void) { return &bq_simd128_encoder; }
#else
const bq_encoder *bq_encoder_simd128(void) { return NULL; }
#endif

const bq_encoder *bq_encoder_best(void) {
  return bq_encoder_simd128() ? bq_encoder_simd128() : &bq_scalar_encoder;
}
