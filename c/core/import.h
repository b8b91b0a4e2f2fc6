/* Import: how blocks of a type that is only stored become those of a type that the engine computes
 * with. Both are row-major; a stored block becomes one or several. */
#ifndef BQ_IMPORT_H
#define BQ_IMPORT_H

#include "core/type.h"

/* The most bytes that one stored block becomes. */
enum { BQ_IMPORT_MOST = 320 };

/* `n` stored blocks; dst has room for as many weights, exactly. */
typedef void bq_import_fn(const uint8_t *src, size_t n, uint8_t *dst);

/* NULL: there is none. */
bq_import_fn *bq_import_of(bq_type stored, bq_type run);

#endif
