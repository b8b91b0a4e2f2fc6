/* Encoders of the weight types (docs/FORMAT.md §1), whole matrices at a time: from f32 weights, or
 * from integers, scales and minimums that the caller has chosen (round.h). Converters and tests use
 * them; the forward pass doesn't. The decoder is core/dequantize.h. */
#ifndef BQ_ENCODE_H
#define BQ_ENCODE_H

#include "core/status.h"
#include "core/type.h"
#include "quant/encoder.h"

/* Encodes src, f32 [rows][cols], to dst, bq_type_bytes(type, layout, rows, cols) bytes. BQ_FLAT
 * requires that the block size divides rows * cols. `encoder` may be that of any instruction set:
 * all give the same bits. Unless `errors` is NULL, the errors are added to it, so that it can
 * accumulate the errors of all pieces of a tensor. Returns ARGUMENT for a layout that the type
 * lacks, UNSUPPORTED for a type without an encoder, and FORMAT for a weight that is NaN or infinite
 * or that f16 can't hold (offset = its index). */
bq_status bq_encode(bq_type type, bq_layout layout, const float *src, size_t rows, size_t cols,
                    const bq_encoder *encoder, uint8_t *dst, bq_encode_errors *errors,
                    bq_error *err);

/* bq_encode with the scalar encoder and without errors. */
static inline bq_status bq_quantize(bq_type type, bq_layout layout, const float *src, size_t rows,
                                    size_t cols, uint8_t *dst, bq_error *err) {
  return bq_encode(type, layout, src, rows, cols, &bq_scalar_encoder, dst, NULL, err);
}

/* A quantized matrix. A row has `blocks` = cols / block size, rounded up. */
typedef struct bq_rounded {
  int8_t *q;    /* [rows][cols]: signed integers, or unsigned ones in types with a minimum */
  float *scale; /* [rows][blocks] */
  float *min;   /* [rows][blocks]; not read in types without a minimum */
} bq_rounded;

/* Lays a quantized matrix out as bq_encode does. Scales and minimums that f16 can't hold exactly
 * are rounded. Returns ARGUMENT and UNSUPPORTED as bq_encode does. */
bq_status bq_encode_rounded(bq_type type, bq_layout layout, const bq_rounded *from, size_t rows,
                            size_t cols, uint8_t *dst, bq_error *err);

#endif
