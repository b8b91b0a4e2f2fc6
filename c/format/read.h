/* Reads the beginning of a file, or the manifest that describes it. Allocates nothing. */
#ifndef BQ_READ_H
#define BQ_READ_H

#include "format/prefix.h"

/* Reads the first in->n bytes. `whole`: all of the prefix (for loading), else only what a plan
 * needs. WANT_DATA: *need (> n, never more than the file can have) bytes are needed. FORMAT,
 * CHECKSUM, TRUNCATED, UNSUPPORTED, SHAPE. */
bq_status bq_prefix_read(const bq_prefix_input *in, bool whole, uint64_t *need, bq_prefix *out,
                         bq_error *err);

#endif
