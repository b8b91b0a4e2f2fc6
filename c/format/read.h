/* Reads the beginning of a file, or the manifest that describes it. Allocates nothing. */
#ifndef BQ_READ_H
#define BQ_READ_H

#include "format/prefix.h"

/* Reads and checks the description of a file. `full`: whether to read the complete prefix (for
 * loading) or only the part that a plan needs. WANT_DATA: the first *need bytes of the file are
 * needed (> n, and not more than the file has). FORMAT, CHECKSUM, TRUNCATED, UNSUPPORTED, SHAPE. */
bq_status bq_prefix_read(const bq_prefix_input *in, bool full, uint64_t *need, bq_prefix *out,
                         bq_error *err);

#endif
