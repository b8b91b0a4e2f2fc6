/* Layout of a tile of 8 rows (docs/FORMAT.md §1), for code that reads or writes one weight at a
 * time. The SIMD matmuls have the same layout built in. */
#ifndef BQ_TILE_H
#define BQ_TILE_H

#include "core/codes.h"
#include "core/half.h"
#include "core/type.h"

/* The properties by which tiled types differ. Fast code passes the shape as a constant to inline
 * functions, so that each type gets a loop of its own. */
typedef struct bq_tile_shape {
  uint32_t step;        /* k covered by a tile: 32, 64 or, with sub-blocks, 256 */
  uint32_t bits;        /* 4; 8; 7: bytes below 128; 3, 2 and BQ_TERNARY: sub-4-bit weights;
                           BQ_CODES: codes of a table */
  uint32_t block;       /* weights that share a scale, at most `step` */
  uint32_t scale_bytes; /* 4: f32; 2: f16; 1: a sub-block scale, a multiple of the super-block's f16
                           */
  uint32_t min_bytes;   /* the same for the minimum; 0: no minimum, and weights are signed */
  const bq_code_table *codes; /* for BQ_CODES; NULL in constant shapes, which several types share */
} bq_tile_shape;

/* Tile shape from a row of BQ_TILED_TYPES. */
#define BQ_TILE_STEP(block, scale_bytes) \
  ((scale_bytes) == 1 ? BQ_SUPER_BLOCK : (block) < 32 ? 32 : (block))
#define BQ_TILE_SHAPE(block, bits, scale_bytes, min_bytes) \
  ((bq_tile_shape){BQ_TILE_STEP(block, scale_bytes), bits, block, scale_bytes, min_bytes, NULL})

static inline bq_tile_shape bq_tile_shape_of(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  const bq_code_table *codes = f->bits == BQ_CODES ? bq_code_table_of(type) : NULL;
  if (f->sub_block)
    return (bq_tile_shape){f->tile_step, f->bits, f->sub_block, 1, f->min_bytes ? 1 : 0, codes};
  return (bq_tile_shape){f->tile_step, f->bits, f->block, f->scale_bytes, f->min_bytes, codes};
}

static inline uint32_t bq_tile_blocks(bq_tile_shape s) { return s.step / s.block; }

/* A tile consists of the f16 super-block scales and minimums (if the type has sub-blocks), scales,
 * minimums, weights. */
static inline uint32_t bq_tile_scales_at(bq_tile_shape s) {
  return s.scale_bytes == 1 ? BQ_TILE_ROWS * 2 * (1 + s.min_bytes) : 0;
}
static inline uint32_t bq_tile_mins_at(bq_tile_shape s) {
  return bq_tile_scales_at(s) + bq_tile_blocks(s) * BQ_TILE_ROWS * s.scale_bytes;
}
static inline uint32_t bq_tile_weights_at(bq_tile_shape s) {
  return bq_tile_mins_at(s) + bq_tile_blocks(s) * BQ_TILE_ROWS * s.min_bytes;
}
/* Bytes of 32 weights of a row. */
static inline uint32_t bq_tile_run_bytes(bq_tile_shape s) { return 4 * BQ_BLOCK_BITS(s.bits); }
static inline uint32_t bq_tile_size(bq_tile_shape s) {
  return bq_tile_weights_at(s) + s.step / 32 * BQ_TILE_ROWS * bq_tile_run_bytes(s);
}

static inline size_t bq_tiles_per_row(bq_tile_shape s, size_t cols) {
  return (cols + s.step - 1) / s.step;
}

/* Offset in the tile of the scale (or minimum) of row r (0...7) for the block that holds weight k.
 */
static inline uint32_t bq_tile_scale_at(bq_tile_shape s, uint32_t r, uint32_t k) {
  return bq_tile_scales_at(s) + (k / s.block * BQ_TILE_ROWS + r) * s.scale_bytes;
}
static inline uint32_t bq_tile_min_at(bq_tile_shape s, uint32_t r, uint32_t k) {
  return bq_tile_mins_at(s) + (k / s.block * BQ_TILE_ROWS + r) * s.min_bytes;
}

static inline bool bq_is_sub4(bq_tile_shape s) { return s.bits < 4; }
/* Whether a byte holds two weights or two codes. */
static inline bool bq_has_nibbles(bq_tile_shape s) { return s.bits == 4 || s.bits == BQ_CODES; }

/* Offset of the byte of row r that holds weight k: bytes are ordered [j][row][i]. With nibbles,
 * each run of 32 k has k mod 32 = 4j + i in the low ones and 16 + 4j + i in the high ones. */
static inline uint32_t bq_tile_byte(bq_tile_shape s, uint32_t r, uint32_t k) {
  uint32_t run = bq_has_nibbles(s) ? k / 32 * 128 : 0;
  uint32_t j = bq_has_nibbles(s) ? k % 16 / 4 : k / 4;
  return bq_tile_weights_at(s) + run + (j * BQ_TILE_ROWS + r) * 4 + k % 4;
}

/* Zero point: the number that a tile stores for a weight of 0. Symmetric 2-bit weights have no 0:
 * they are 2 * stored - 3. Codes are not numbers; the entries of their table have the zero point
 * BQ_CODE_ZERO. */
static inline int bq_tile_zero_point(bq_tile_shape s) {
  if (s.min_bytes || s.bits == BQ_CODES) return 0;
  return s.bits == BQ_TERNARY ? 1 : s.bits == 2 ? 3 : 1 << (s.bits - 1);
}
/* A byte of zero weights, for padding. Symmetric 2-bit types and some tables of codes have no zero;
 * any value works there, because the activations or the scale are 0. */
static inline uint8_t bq_tile_zero_byte(bq_tile_shape s) {
  if (bq_is_sub4(s)) return s.min_bytes ? 0 : 0x55;
  if (s.bits == BQ_CODES) return 0;
  return s.min_bytes ? 0 : s.bits == 8 ? 0x80 : s.bits == 7 ? 0x40 : 0x88;
}

/* Factor of the stored number of a sub-4-bit weight: weight = stored * unit - zero point. */
static inline int bq_sub4_unit(bq_tile_shape s) { return s.bits == 2 && !s.min_bytes ? 2 : 1; }
/* Sub-4-bit weights are in groups of 4 bytes. In a row-major block the groups are adjacent; in a
 * tile the groups of the other rows are between them. Byte i of a group holds bits of the weights
 * 4j + i. From the lowest bits on, with two bits: group 0 has j = 0, 4, 1, 5; group 1 has j = 2, 6,
 * 3, 7. With three bits: group 0 has j = 0, 4; group 1 has j = 1, 5; group 2 has j = 2, 6; in the
 * upper two bits group 0 has the lower bits of j = 3, group 1 the lower bits of j = 7, group 2 the
 * upper bit of each.
 *
 * p: byte i of group 0 of the 32 weights that include weight k; gap: bytes from a group to the
 * next. */
static inline int bq_sub4_get(bq_tile_shape s, const uint8_t *p, size_t gap, uint32_t k) {
  const uint32_t j = k % 16 / 4, high = k % 32 / 16;
  if (s.bits != 3) return p[j / 2 * gap] >> (j % 2 * 4 + high * 2) & 3;
  if (j < 3) return p[j * gap] >> 3 * high & 7;
  return p[high * gap] >> 6 | (p[2 * gap] >> (6 + high) & 1) << 2;
}
static inline void bq_sub4_put_bits(uint8_t *p, uint32_t at, uint32_t bits, uint32_t value) {
  const uint32_t mask = ((1u << bits) - 1) << at;
  *p = (uint8_t)((*p & ~mask) | value << at);
}
static inline void bq_sub4_put(bq_tile_shape s, uint8_t *p, size_t gap, uint32_t k,
                               uint32_t stored) {
  const uint32_t j = k % 16 / 4, high = k % 32 / 16;
  if (s.bits != 3) bq_sub4_put_bits(p + j / 2 * gap, j % 2 * 4 + high * 2, 2, stored);
  else if (j < 3) bq_sub4_put_bits(p + j * gap, 3 * high, 3, stored);
  else {
    bq_sub4_put_bits(p + high * gap, 6, 2, stored & 3);
    bq_sub4_put_bits(p + 2 * gap, 6 + high, 1, stored >> 2);
  }
}
/* Offset in a tile of byte i of group 0 of row r, for weight k. */
static inline uint32_t bq_sub4_at(bq_tile_shape s, uint32_t r, uint32_t k) {
  return bq_tile_weights_at(s) + k / 32 * BQ_TILE_ROWS * bq_tile_run_bytes(s) + r * 4 + k % 4;
}

/* Inlined even where clang would not, so that scalar matmuls don't test the type for each weight.
 */
static inline __attribute__((always_inline)) int bq_tile_weight(bq_tile_shape s,
                                                                const uint8_t *tile, uint32_t r,
                                                                uint32_t k) {
  if (bq_is_sub4(s))
    return bq_sub4_get(s, tile + bq_sub4_at(s, r, k), 4 * BQ_TILE_ROWS, k) * bq_sub4_unit(s) -
           bq_tile_zero_point(s);
  uint8_t byte = tile[bq_tile_byte(s, r, k)];
  int q = !bq_has_nibbles(s) ? byte : k % 32 < 16 ? byte & 15 : byte >> 4;
  return s.bits == BQ_CODES ? s.codes->stored[q] - BQ_CODE_ZERO : q - bq_tile_zero_point(s);
}

/* Writes a weight to a tile. `weight`: for BQ_CODES, its code. */
static inline void bq_tile_put_weight(bq_tile_shape s, uint8_t *tile, uint32_t r, uint32_t k,
                                      int weight) {
  if (bq_is_sub4(s)) {
    bq_sub4_put(s, tile + bq_sub4_at(s, r, k), 4 * BQ_TILE_ROWS, k,
                 (uint32_t)((weight + bq_tile_zero_point(s)) / bq_sub4_unit(s)));
    return;
  }
  uint8_t *byte = tile + bq_tile_byte(s, r, k);
  const int q = weight + bq_tile_zero_point(s);
  if (!bq_has_nibbles(s)) *byte = (uint8_t)q;
  else if (k % 32 < 16) *byte = (uint8_t)((*byte & 0xf0) | q);
  else *byte = (uint8_t)((*byte & 0x0f) | q << 4);
}

/* Layout of a row-major block: of a compute type, or of a storage type that needs no import. Tiles
 * are made from such blocks. */
typedef struct bq_row_shape {
  uint32_t block, bytes;
  uint32_t weights_at;
  uint32_t scale_at; /* the minimum follows it, sub-block scales precede it */
  bool split;        /* 32 nibbles: byte i holds weights i and 16 + i, both as a tile stores them */
} bq_row_shape;

static inline bq_row_shape bq_row_shape_of(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  const uint32_t in_front = f->run == type ? 0 : f->scale_bytes + f->min_bytes;
  return (bq_row_shape){f->block, f->block_bytes, in_front, f->scale_at, in_front || f->sub_block};
}

/* Weight k of a row-major block, for BQ_CODES its code; s: the shape of the compute type. */
static inline int bq_row_weight_stored(bq_row_shape r, bq_tile_shape s, const uint8_t *block,
                                       uint32_t k) {
  const uint8_t *w = block + r.weights_at;
  if (bq_is_sub4(s))
    return bq_sub4_get(s, w + k / 32 * bq_tile_run_bytes(s) + k % 4, 4, k) * bq_sub4_unit(s) -
           bq_tile_zero_point(s);
  if (s.bits == 8) return (int8_t)w[k];
  if (s.bits == 7) return (w[k] & 127) - bq_tile_zero_point(s);
  if (r.split) return (w[k / 32 * 16 + k % 16] >> k % 32 / 16 * 4 & 15) - bq_tile_zero_point(s);
  const int nibble = w[k / 2] >> k % 2 * 4 & 15;
  return s.min_bytes || s.bits == BQ_CODES ? nibble : (nibble ^ 8) - 8;
}
static inline int bq_row_weight(bq_row_shape r, bq_tile_shape s, const uint8_t *block, uint32_t k) {
  const int stored = bq_row_weight_stored(r, s, block, k);
  return s.bits == BQ_CODES ? s.codes->stored[stored] - BQ_CODE_ZERO : stored;
}

/* Reads a scale or minimum of `bytes` (4, 2 or 0) bytes; 0 bytes read as 0. */
static inline float bq_load_scale(const uint8_t *p, uint32_t bytes) {
  if (bytes == 2) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return bq_f16_to_f32(h);
  }
  float f = 0.0f;
  memcpy(&f, p, bytes);
  return f;
}
/* Reads a scale or, if bytes is 1, multiplies a sub-block scale by the super-block's f16 at
 * `super`: exact, since an f16 has 11 bits and a sub-block scale 8. */
static inline float bq_load_sub_scale(const uint8_t *p, uint32_t bytes, const uint8_t *super) {
  return bytes == 1 ? bq_load_scale(super, 2) * (float)(int8_t)*p : bq_load_scale(p, bytes);
}

/* Power of 2 by which a type's scales are multiplied, without rounding. */
static inline float bq_scale_unit(bq_tile_shape s) {
  return s.bits == BQ_CODES ? s.codes->unit : 1.0f;
}

/* Scale and minimum of row r for the block that holds weight k. */
static inline float bq_tile_scale(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k) {
  return bq_load_sub_scale(tile + bq_tile_scale_at(s, r, k), s.scale_bytes, tile + 2 * r) *
         bq_scale_unit(s);
}
static inline float bq_tile_min(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k) {
  return bq_load_sub_scale(tile + bq_tile_min_at(s, r, k), s.min_bytes,
                          tile + 2 * (BQ_TILE_ROWS + r));
}

#endif
