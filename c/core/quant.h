/* Reference encoders and decoders of the weight types (docs/FORMAT.md §1), whole
 * matrices at a time. Converters and tests use them; the forward pass does not. */
#ifndef BQ_QUANT_H
#define BQ_QUANT_H

#include "core/encoder.h"
#include "core/status.h"
#include "core/type.h"

/* src [rows][cols] f32 -> dst, bq_type_bytes(type, layout, rows, cols) bytes. BQ_FLAT asks that
 * the block divides rows * cols. `encoder`: any table's; they give the same bits. errors: NULL, or
 * added to, so that pieces of a tensor sum up. ARGUMENT: a layout the type lacks. UNSUPPORTED: a
 * type without encoder. FORMAT: a NaN or infinite weight (offset = its index) or one f16 can't
 * hold. */
bq_status bq_encode(bq_type type, bq_layout layout, const float *src, size_t rows, size_t cols,
                    const bq_encoder *encoder, uint8_t *dst, bq_encode_errors *errors,
                    bq_error *err);

static inline bq_status bq_quantize(bq_type type, bq_layout layout, const float *src, size_t rows,
                                    size_t cols, uint8_t *dst, bq_error *err) {
  return bq_encode(type, layout, src, rows, cols, &bq_scalar_encoder, dst, NULL, err);
}

/* The inverse; the same statuses. FORMAT: a scale that is NaN or infinite (offset = its byte). */
bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err);

#endif
