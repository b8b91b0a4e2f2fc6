/* Reads the prefix of a version 2 file (docs/FORMAT.md §2), for read.c. */
#ifndef BQ_V2_H
#define BQ_V2_H

#include "format/prefix.h"

bq_status bq_v2_read(const bq_prefix_input *in, bool whole, uint64_t *need, bq_prefix *out,
                     bq_error *err);

#endif
