/* The directory of a prefix: every tensor, its position and its slot (docs/FORMAT.md, TENS). A walk
 * over it checks each entry and allocates nothing. */
#ifndef BQ_DIRECTORY_H
#define BQ_DIRECTORY_H

#include "format/prefix.h"

/* A tensor that has passed all checks. */
typedef struct bq_entry {
  bq_tensor_name tensor;
  uint32_t slot;
  bq_type type; /* as stored */
  bq_layout layout;
  uint32_t rows, cols;    /* a vector is one row */
  uint64_t offset, bytes; /* in the file */
  const uint8_t *data;    /* the data of a tensor in the manifest itself; else NULL */
  uint32_t index;         /* index in the directory; those with `data` come last */
} bq_entry;

/* Called with each entry in turn. Any status except OK ends the walk and is returned. */
typedef bq_status bq_entry_fn(void *ctx, const bq_entry *entry, bq_error *err);

/* Calls `fn` for each entry of the prefix, in order, and checks that no tensor is missing. Tensors
 * of a manifest may still overlap (load/block.c checks that). FORMAT, UNSUPPORTED, SHAPE,
 * TRUNCATED.
 */
bq_status bq_directory_each(const bq_prefix *prefix, bq_entry_fn *fn, void *ctx, bq_error *err);

#endif
