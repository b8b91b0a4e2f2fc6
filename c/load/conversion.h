/* Converts stored tensors to the compute layout, batch by batch as they arrive. */
#ifndef BQ_CONVERSION_H
#define BQ_CONVERSION_H

#include "core/import.h"
#include "kernels/kernels.h"

typedef enum bq_conversion_kind {
  BQ_CONVERT_COPY, /* stored in the compute layout: read directly to the destination */
  BQ_CONVERT_TILE, /* row-major blocks, imported if necessary: every 8 rows become a group of tiles
                      */
  BQ_CONVERT_WIDEN, /* converted to f32: vectors, and v1 blocks that straddle rows irregularly */
  BQ_CONVERT_DROP   /* paged: checked and discarded */
} bq_conversion_kind;

typedef struct bq_conversion {
  bq_conversion_kind kind;
  bq_type stored, type; /* in the file; in the engine */
  bq_layout layout;     /* in the file */
  bq_import_fn *import; /* TILE: import function of the storage type; NULL if none is needed */
  uint32_t rows, cols;
  uint64_t bytes;        /* in the file */
  uint64_t engine_bytes; /* in the engine */
  uint64_t batch;        /* staged bytes that are converted at once; fewer in the last batch */
  uint64_t spare;        /* bytes of scratch that bq_convert needs */
} bq_conversion;

/* Returns the conversion of a tensor, which format/read.c has checked. `vector`: one row, converted
 * to f32. */
bq_conversion bq_conversion_of(bq_type stored, bq_layout layout, uint32_t rows, uint32_t cols,
                               bool vector);

/* Turns a COPY conversion into DROP, for a paged tensor. */
void bq_conversion_drop(bq_conversion *conversion);

/* Converts a batch of `n` staged bytes, which begins at offset `at` of the stored tensor. `tensor`:
 * address of the converted tensor; `spare`: [conversion->spare]. */
void bq_convert(const bq_conversion *conversion, const bq_kernels *kernels, const uint8_t *staged,
                uint64_t at, size_t n, uint8_t *tensor, uint8_t *spare);

/* Size in bytes of the units that are checked: blocks or tiles. It divides a batch and the
 * tensor. */
uint32_t bq_conversion_unit(const bq_conversion *conversion);
/* Checks `n` stored bytes, a multiple of the unit. Returns the offset of the first scale, or weight
 * of a float type, that is NaN or infinite, or in tiles of a 7-bit weight above 127; `n` if all are
 * valid. */
size_t bq_conversion_find_bad(const bq_conversion *conversion, const uint8_t *stored, size_t n);

#endif
