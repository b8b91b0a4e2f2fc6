/* How stored tensors become what the engine computes with, piece by piece as they arrive. */
#ifndef BQ_CONVERSION_H
#define BQ_CONVERSION_H

#include "core/import.h"
#include "kernels/kernels.h"

typedef enum bq_conversion_kind {
  BQ_CONVERT_COPY, /* stored as computed with: bytes go straight to their place */
  BQ_CONVERT_TILE, /* row-major blocks, imported if need be: every 8 rows become a group of tiles */
  BQ_CONVERT_WIDEN, /* becomes f32: vectors, and v1 blocks that straddle rows anywhere */
  BQ_CONVERT_DROP   /* paged: looked at, not kept */
} bq_conversion_kind;

typedef struct bq_conversion {
  bq_conversion_kind kind;
  bq_type stored, type; /* in the file, in the engine */
  bq_layout layout;     /* in the file */
  bq_import_fn *import; /* TILE: of stored blocks; NULL where they are those of `type` */
  uint32_t rows, cols;
  uint64_t bytes;        /* in the file */
  uint64_t engine_bytes; /* in the engine */
  uint64_t batch;        /* staged bytes converted at once (the last batch may be shorter) */
  uint64_t spare;        /* work space beside the staged bytes */
} bq_conversion;

/* `vector`: one row that becomes f32. The arguments have been checked (prefix.c). */
bq_conversion bq_conversion_of(bq_type stored, bq_layout layout, uint32_t rows, uint32_t cols,
                               bool vector);

/* Makes a conversion that was COPY one for a paged tensor. */
void bq_conversion_drop(bq_conversion *conversion);

/* Converts `n` staged bytes, a batch, that begin `at` bytes into the tensor. `tensor` is its first
 * byte in the engine; `spare` is conversion->spare bytes. */
void bq_convert(const bq_conversion *conversion, const bq_kernels *kernels, const uint8_t *staged,
                uint64_t at, size_t n, uint8_t *tensor, uint8_t *spare);

/* Bytes that must be there together to be checked; they divide a batch and the tensor. */
uint32_t bq_conversion_unit(const bq_conversion *conversion);
/* Looks for a scale, or a weight of float types, that is NaN or infinite in `n` stored bytes, whole
 * units; or, in tiles, a weight of 7 bits that has 8. Returns where it lies among them, or `n`. */
size_t bq_conversion_find_bad(const bq_conversion *conversion, const uint8_t *stored, size_t n);

#endif
