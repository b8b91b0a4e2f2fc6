/* Random blocks and tiles, for types without an encoder. */
#ifndef TEST_BLOCKS_H
#define TEST_BLOCKS_H

#include <string.h>

#include "core/half.h"
#include "core/type.h"
#include "kernels/kernels.h"
#include "random.h"

/* Writes n row-major blocks; scales and minima are f16 in [-limit, limit). */
static inline void random_blocks(const bq_type_facts *f, uint8_t *bytes, size_t n, float limit,
                                 uint64_t *seed) {
  for (size_t i = 0; i < n * f->block_bytes; i++) bytes[i] = (uint8_t)random_bits(seed);
  for (size_t i = 0; i < n; i++)
    for (uint32_t at = 0; at < f->scale_bytes + f->min_bytes; at += 2) {
      const uint16_t h = bq_f32_to_f16(random_float(seed) * limit);
      memcpy(bytes + i * f->block_bytes + f->scale_at + at, &h, 2);
    }
}

/* Repacks rows of such blocks to tiles. */
static inline void tile_blocks(bq_type type, const uint8_t *blocks, size_t rows, size_t cols,
                               uint8_t *tiles) {
  const bq_type_facts *f = bq_type_get(type);
  const size_t row = (cols + f->block - 1) / f->block * f->block_bytes;
  for (size_t r = 0; r < rows; r += 8) {
    bq_kernels_scalar()->tile_rows(type, blocks + r * row, row, rows - r < 8 ? rows - r : 8, cols,
                                   tiles);
    tiles += bq_type_bytes(f->run, BQ_TILED, 8, cols);
  }
}

#endif
