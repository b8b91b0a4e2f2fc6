/* The grid of blocks or tiles that a quantized matrix consists of, for encoders and decoders of
 * whole matrices: row-major blocks, tiles, or one flat run of blocks. */
#ifndef BQ_BLOCKS_H
#define BQ_BLOCKS_H

#include "core/status.h"
#include "core/tile.h"
#include "core/type.h"

typedef struct bq_grid {
  bq_type type;
  const bq_type_facts *f;
  size_t rows, cols;
  bool tiled;
  size_t run; /* blocks or tiles per row (group) */
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

/* Offset of the block that holds weight k of a row, or of the tile with that block. */
static inline size_t bq_grid_at(const bq_grid *g, size_t row, size_t k) {
  if (g->tiled) return (row / BQ_TILE_ROWS * g->run + k / g->f->tile_step) * g->f->tile_bytes;
  return (row * g->run + k / g->f->block) * g->f->block_bytes;
}

/* How many of the `most` weights from k on are in the row. */
static inline size_t bq_grid_remaining(const bq_grid *g, size_t k, size_t most) {
  return g->cols - k < most ? g->cols - k : most;
}

static inline bool bq_is_finite(float x) {
  return (bq_bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

/* Checks the arguments of an encoder or decoder. Returns UNSUPPORTED for an unknown or unreadable
 * type, ARGUMENT for a layout that the type lacks or sizes that don't fit. */
bq_status bq_blocks_check(bq_type type, bq_layout layout, size_t rows, size_t cols, bq_error *err);

#endif
