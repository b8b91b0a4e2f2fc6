/* Reads the prefix of a version 2 file (docs/FORMAT.md §2). Used by read.c. */
#ifndef BQ_V2_H
#define BQ_V2_H

#include "format/prefix.h"

/* Parameters and statuses as bq_prefix_read. Fills in *out except n_tensors, n_listed and data_end.
 */
bq_status bq_v2_read(const bq_prefix_input *in, bool full, uint64_t *need, bq_prefix *out,
                     bq_error *err);

#endif
