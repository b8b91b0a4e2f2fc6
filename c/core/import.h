/* Import: converts blocks of a storage type to blocks of the compute type that the engine uses for
 * it. Both are row-major; a storage block becomes one or several compute blocks. */
#ifndef BQ_IMPORT_H
#define BQ_IMPORT_H

#include "core/type.h"

/* Maximum bytes that one storage block becomes. */
enum { BQ_IMPORT_MAX_BYTES = 320 };

/* Converts `n` storage blocks. dst has exactly as many bytes as the compute blocks take. */
typedef void bq_import_fn(const uint8_t *src, size_t n, uint8_t *dst);

/* The import function of a storage type. Returns NULL if no conversion is needed: Q4_0, Q4_1 and
 * Q8_0 only need re-tiling, because their blocks hold the same numbers as the compute type's, in
 * another order (bq_row_shape_of). */
bq_import_fn *bq_import_of(bq_type stored, bq_type run);

#endif
