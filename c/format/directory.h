/* The directory of a prefix: every tensor, where it lies and what it is for (docs/FORMAT.md, TENS).
 * A walk over it checks each entry and allocates nothing:
 *
 *   bq_directory d;
 *   status = bq_directory_begin(&d, prefix, err);
 *   for (bool done = false; !status && !done;) status = bq_directory_next(&d, &entry, &done, err); */
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
} bq_entry;

typedef struct bq_directory {
  const bq_prefix *prefix;
  bq_binding binding;
  size_t at;         /* of the next entry in the section that is read */
  uint32_t index;    /* of the next entry, over both sections */
  uint32_t n;        /* entries in all */
  uint32_t listed;   /* of them in TENS; the rest is in XTRA */
  uint8_t types[32]; /* ids that TENS lists, as bits */
  uint64_t end;      /* highest file offset where a tensor ends, so far */
} bq_directory;

/* FORMAT. */
bq_status bq_directory_begin(bq_directory *d, const bq_prefix *prefix, bq_error *err);
/* OK with *done behind the last entry, when no tensor is missing. What a manifest lists may still
 * overlap (home.c looks). FORMAT, UNSUPPORTED, SHAPE, TRUNCATED. */
bq_status bq_directory_next(bq_directory *d, bq_entry *entry, bool *done, bq_error *err);

#endif
