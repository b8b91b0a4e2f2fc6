/* The directory of a prefix: every tensor, where it lies and what it is for (docs/FORMAT.md, TENS).
 * A walk over it checks each entry and allocates nothing. */
#ifndef BQ_DIRECTORY_H
#define BQ_DIRECTORY_H

#include "format/prefix.h"

/* One tensor, found good. */
typedef struct bq_entry {
  bq_tensor_name tensor;
  uint32_t slot;
  bq_type type; /* as stored */
  bq_layout layout;
  uint32_t rows, cols;    /* a vector is one row */
  uint64_t offset, bytes; /* in the file */
  const uint8_t *data;    /* of a tensor that is in the manifest itself; otherwise NULL */
  uint32_t index;         /* in the directory; those with `data` come last */
} bq_entry;

/* Called with each entry in turn. Any status but OK ends the walk with it. */
typedef bq_status bq_entry_fn(void *ctx, const bq_entry *entry, bq_error *err);

/* Walks over all entries of the prefix; OK when none is bad and no tensor is missing. What a
 * manifest lists may still overlap (load/block.c looks). FORMAT, UNSUPPORTED, SHAPE, TRUNCATED. */
bq_status bq_directory_each(const bq_prefix *prefix, bq_entry_fn *fn, void *ctx, bq_error *err);

#endif
