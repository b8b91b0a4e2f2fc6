/* Reads a manifest, which describes a foreign container (docs/FORMAT.md §4), for read.c. */
#ifndef BQ_MANIFEST_H
#define BQ_MANIFEST_H

#include "format/prefix.h"

bq_status bq_manifest_read(const bq_prefix_input *in, bq_prefix *out, bq_error *err);

#endif
