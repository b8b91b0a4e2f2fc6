/* Import: converts blocks of a storage type to blocks of the compute type that the engine uses for
 * it. Both are row-major; a storage block becomes one or several compute blocks. */
#ifndef BQ_IMPORT_H
#define BQ_IMPORT_H

#include "core/type.h"

/* Maximum bytes of the compute blocks of one storage block. */
enum { BQ_IMPORT_MAX_BYTES = 320 };

/* Converts `n` storage blocks. dst has exactly as many bytes as the compute blocks take. */
typedef void bq_import_fn(const uint8_t *src, size_t n, uint8_t *dst);

/* Returns the import function from a storage type to a compute type; NULL if no conversion is
 * needed: blocks of Q4_0, Q4_1 and Q8_0 hold the same numbers as those of the compute type, in
 * another order (bq_row_shape_of). */
bq_import_fn *bq_import_of(bq_type stored, bq_type run);

#endif
