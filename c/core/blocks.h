/* The grid of blocks or tiles of a quantized matrix, for encoders and decoders of whole matrices.
 * The blocks are row-major (BQ_ROWS), in tiles (BQ_TILED), or one run over all rows (BQ_FLAT). */
#ifndef BQ_BLOCKS_H
#define BQ_BLOCKS_H

#include "core/status.h"
#include "core/tile.h"
#include "core/type.h"

typedef struct bq_grid {
  bq_type type;
  const bq_type_facts *f;
  size_t rows, cols; /* BQ_FLAT: one row with all weights */
  bool tiled;
  size_t run; /* blocks per row, or tiles per group of 8 rows */
  bq_tile_shape shape; /* of the compute type */
} bq_grid;

static inline bq_grid bq_grid_of(bq_type type, bq_layout layout, size_t rows, size_t cols) {
  const bq_type_facts *f = bq_type_get(type);
  if (layout == BQ_FLAT) { /* one long row */
    cols *= rows;
    rows = cols ? 1 : 0;
  }
  const bool tiled = layout == BQ_TILED;
  const size_t unit = tiled ? f->tile_step : f->block;
  return (bq_grid){type, f, rows, cols, tiled, (cols + unit - 1) / unit,
                   bq_tile_shape_of(f->run)};
}

/* Offset in bytes of the block that holds weight k of a row, or of the tile with that block. */
static inline size_t bq_grid_at(const bq_grid *g, size_t row, size_t k) {
  if (g->tiled) return (row / BQ_TILE_ROWS * g->run + k / g->f->tile_step) * g->f->tile_bytes;
  return (row * g->run + k / g->f->block) * g->f->block_bytes;
}

/* Number of weights from k on in the row, at most `max`. */
static inline size_t bq_grid_remaining(const bq_grid *g, size_t k, size_t max) {
  return g->cols - k < max ? g->cols - k : max;
}

static inline bool bq_is_finite(float x) {
  return (bq_bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

/* Checks the arguments of an encoder or decoder. Returns UNSUPPORTED for an unknown or unreadable
 * type, ARGUMENT for a layout that the type lacks or sizes that don't fit. */
bq_status bq_blocks_check(bq_type type, bq_layout layout, size_t rows, size_t cols, bq_error *err);

#endif
