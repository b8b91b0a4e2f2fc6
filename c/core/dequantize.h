/* The reference decoder of the weight types (docs/FORMAT.md §1): whole matrices to f32. The loader
 * widens vectors and v1 tensors with it, converters and tests read files with it; the forward pass
 * doesn't use it. */
#ifndef BQ_DEQUANTIZE_H
#define BQ_DEQUANTIZE_H

#include "core/status.h"
#include "core/type.h"

/* src, bq_type_bytes(type, layout, rows, cols) bytes -> dst [rows][cols]. BQ_FLAT requires that the
 * block size divides rows * cols. Returns ARGUMENT for a layout that the type lacks, UNSUPPORTED
 * for a type that this version can't read, and FORMAT for a scale or minimum that is NaN or
 * infinite (offset = its byte in src). */
bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err);

#endif
