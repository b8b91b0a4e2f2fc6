/* Import: how blocks of a type that is only stored become those of a type that the engine computes
 * with. Both are row-major; a stored block becomes one or several. */
#ifndef BQ_IMPORT_H
#define BQ_IMPORT_H

#include "core/type.h"

/* The most bytes that one stored block becomes. */
enum { BQ_IMPORT_MAX_BYTES = 320 };

/* `n` stored blocks; dst has room for as many weights, exactly. */
typedef void bq_import_fn(const uint8_t *src, size_t n, uint8_t *dst);

/* NULL: there is none. Of stored types Q4_0, Q4_1 and Q8_0 have none: their blocks hold what those
 * of the run type do, elsewhere (bq_row_shape_of). */
bq_import_fn *bq_import_of(bq_type stored, bq_type run);

#endif
