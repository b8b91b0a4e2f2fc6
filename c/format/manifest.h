/* Reads a manifest, the description of a foreign container (docs/FORMAT.md §4). Used by read.c. */
#ifndef BQ_MANIFEST_H
#define BQ_MANIFEST_H

#include "format/prefix.h"

/* Fills in *out except n_tensors, n_listed and data_end. FORMAT, UNSUPPORTED. */
bq_status bq_manifest_read(const bq_prefix_input *in, bq_prefix *out, bq_error *err);

#endif
