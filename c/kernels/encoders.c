/* Selects the encoder by instruction set. Encoders aren't part of the kernel tables, because the
 * engine never encodes. */
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
