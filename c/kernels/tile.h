/* Where things lie in a tile of 8 rows (docs/FORMAT.md §1), for code that takes weights one at a
 * time. The SIMD matmuls know the same by heart. */
#ifndef BQ_KERNELS_TILE_H
#define BQ_KERNELS_TILE_H

#include "core/half.h"
#include "core/type.h"

/* What tells the tiled types apart. Passed as a constant to inline functions, so that each type
 * gets its own loop. */
typedef struct bq_tile_shape {
  uint32_t step;       /* k covered by a tile: 32 or 64 */
  uint32_t bits;       /* 4 or 8 */
  uint32_t block;      /* weights that share a scale, at most `step` */
  uint32_t scale_size; /* bytes of a scale: 4 (f32) or 2 (f16) */
} bq_tile_shape;

#define BQ_SHAPE_BQ4_16 ((bq_tile_shape){32, 4, 16, 4})
#define BQ_SHAPE_BQ4_32 ((bq_tile_shape){32, 4, 32, 4})
#define BQ_SHAPE_BQ4_64 ((bq_tile_shape){64, 4, 64, 4})
#define BQ_SHAPE_BQ4H_32 ((bq_tile_shape){32, 4, 32, 2})
#define BQ_SHAPE_BQ8_32 ((bq_tile_shape){32, 8, 32, 2})

static inline uint32_t bq_tile_scale_bytes(bq_tile_shape s) {
  return s.step / s.block * BQ_TILE_ROWS * s.scale_size;
}

static inline uint32_t bq_tile_size(bq_tile_shape s) {
  return bq_tile_scale_bytes(s) + s.step * s.bits; /* 8 rows of step * bits / 8 bytes */
}

static inline size_t bq_tiles_per_row(bq_tile_shape s, size_t cols) {
  return (cols + s.step - 1) / s.step;
}

/* The scale of row r (0...7) and the weights k...k+block-1 of the step. */
static inline float bq_tile_scale(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k) {
  const uint8_t *p = tile + (k / s.block * BQ_TILE_ROWS + r) * s.scale_size;
  if (s.scale_size == 2) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return bq_f16_to_f32(h);
  }
  float f;
  memcpy(&f, p, sizeof f);
  return f;
}

/* The byte of row r that holds weight k of the step: bytes are ordered [j][row][i]. Four bits: runs
 * of 32 k, k mod 32 = 4j + i in the low nibble, 16 + 4j + i in the high one. */
static inline uint32_t bq_tile_byte(bq_tile_shape s, uint32_t r, uint32_t k) {
  uint32_t run = s.bits == 4 ? k / 32 * 128 : 0;
  uint32_t j = s.bits == 4 ? k % 16 / 4 : k / 4;
  return bq_tile_scale_bytes(s) + run + (j * BQ_TILE_ROWS + r) * 4 + k % 4;
}

static inline int bq_tile_weight(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k) {
  uint8_t byte = tile[bq_tile_byte(s, r, k)];
  if (s.bits == 8) return byte - 128;
  return (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
}

#endif
