/* Reads the beginning of a file, or the manifest that stands for it. */
#ifndef BQ_READ_H
#define BQ_READ_H

#include "format/prefix.h"

/* `whole`: all of the prefix (to load), otherwise only what a plan needs. WANT_DATA: *need (> n,
 * and no more than the file can have) bytes are needed. FORMAT, CHECKSUM, TRUNCATED, UNSUPPORTED,
 * SHAPE. */
bq_status bq_prefix_read(const bq_prefix_input *in, bool whole, uint64_t *need, bq_prefix *out,
                         bq_error *err);

#endif
