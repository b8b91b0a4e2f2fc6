/* Converts row-major blocks to tiles, while a file is loaded. */
#ifdef __wasm_simd128__

#include <string.h>

#include "kernels/simd.h"
#include "kernels/simd128.h"
#include "core/tile.h"

/* Converts 16 bytes of row-major nibbles (byte i: weight 2i low, 2i + 1 high) to 16 bytes of a tile
 * row (byte i: weight i low, 16 + i high). */
INLINE v128_t reorder_nibbles(v128_t file) {
  v128_t nibble = wasm_i8x16_const_splat(15);
  v128_t even = wasm_v128_and(file, nibble), odd = wasm_u8x16_shr(file, 4);
  v128_t first =
      wasm_i8x16_shuffle(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  v128_t second =
      wasm_i8x16_shuffle(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return wasm_v128_or(first, wasm_i8x16_shl(second, 4));
}

/* The blocks of one row's part of a tile; NULL: padding. */
typedef struct source {
  const uint8_t *block[2]; /* bq4_16 has two blocks to a tile */
} source;

/* The conversion of a row's bytes to a tile's. `flip` converts two's complement to unsigned with a
 * zero point; `mask` clears the top bit of 7-bit weights. `zeros`: a byte of weights of q = 0. */
typedef struct reading {
  v128_t mask, flip, zeros;
  bool reorder, pairs; /* nibbles need reordering; a tile has two blocks of 16 weights */
} reading;

INLINE reading reading_of(bq_tile_shape s, bq_row_shape from) {
  const v128_t zeros = wasm_i8x16_splat((int8_t)bq_tile_zero_byte(s));
  const bool as_tiled = from.split || s.bits == 7;
  return (reading){wasm_i8x16_splat(s.bits == 7 ? 127 : -1),
                   as_tiled && s.bits != 8 ? simd_zero() : zeros, zeros,
                   bq_has_nibbles(s) && !as_tiled, s.block == 16 && s.scale_bytes != 1};
}

/* Returns 16 tile bytes of a row: run `run` of 32 weights (4 bits) or of 16 weights (7 or 8
 * bits). */
INLINE v128_t tile_bytes(const reading *as, source from, int run) {
  const uint8_t *a = from.block[0], *b = from.block[1];
  if (!a) return as->zeros;
  v128_t v;
  if (as->pairs) {
    v = wasm_v128_load64_zero(a);
    if (b) v = wasm_v128_load64_lane(b, v, 1);
  } else {
    v = wasm_v128_load(a + 16 * run);
  }
  if (as->reorder) v = reorder_nibbles(v);
  return wasm_v128_xor(wasm_v128_and(v, as->mask), as->flip);
}

/* Transposes 4 rows of 4 x 4 bytes, so that the bytes with the same j of all rows are adjacent. */
INLINE void put_rows(v128_t r0, v128_t r1, v128_t r2, v128_t r3, uint8_t *dst) {
  v128_t a = wasm_i32x4_shuffle(r0, r1, 0, 4, 1, 5), b = wasm_i32x4_shuffle(r2, r3, 0, 4, 1, 5);
  v128_t c = wasm_i32x4_shuffle(r0, r1, 2, 6, 3, 7), d = wasm_i32x4_shuffle(r2, r3, 2, 6, 3, 7);
  wasm_v128_store(dst, wasm_i64x2_shuffle(a, b, 0, 2));
  wasm_v128_store(dst + 32, wasm_i64x2_shuffle(a, b, 1, 3));
  wasm_v128_store(dst + 64, wasm_i64x2_shuffle(c, d, 0, 2));
  wasm_v128_store(dst + 96, wasm_i64x2_shuffle(c, d, 1, 3));
}

/* Copies the scale (or minimum) of each row's block b: `bytes` (2, 4 or 0) bytes, at offset `at`
 * from the block's first weight. Returns the end of the copies. */
INLINE uint8_t *put_scales(const source rows[8], size_t b, ptrdiff_t at, uint32_t bytes,
                           uint8_t *to) {
  for (size_t r = 0; bytes && r < BQ_TILE_ROWS; r++, to += bytes) {
    const uint8_t *from = rows[r].block[b] ? rows[r].block[b] + at : (const uint8_t[4]){0};
    if (bytes == 4) memcpy(to, from, 4);
    else memcpy(to, from, 2);
  }
  return to;
}

/* Transposes eight sub-block scales of each of 8 rows: first those of sub-block 0 of all rows.
 * Returns the end of the copies. */
INLINE uint8_t *put_sub_scales(const source rows[8], ptrdiff_t at, uint8_t *to) {
  for (size_t r = 0; r < BQ_TILE_ROWS; r++)
    for (size_t i = 0; i < 8; i++)
      to[8 * i + r] = rows[r].block[0] ? rows[r].block[0][at + (ptrdiff_t)i] : 0;
  return to + 64;
}

/* Writes everything before a tile's weights; returns the address of the weights. `at`: offset of a
 * block's scale from its first weight. */
INLINE uint8_t *put_tile_scales(bq_tile_shape s, const source rows[8], ptrdiff_t at,
                                uint8_t *tile) {
  const size_t blocks = bq_tile_blocks(s);
  if (s.scale_bytes == 1) {
    const ptrdiff_t factors = (ptrdiff_t)(blocks * (1 + s.min_bytes));
    tile = put_scales(rows, 0, at, 2, tile);
    tile = put_scales(rows, 0, at + 2, s.min_bytes ? 2 : 0, tile);
    for (ptrdiff_t i = 0; i < factors; i += 8) tile = put_sub_scales(rows, at - factors + i, tile);
    return tile;
  }
  for (size_t b = 0; b < blocks; b++) tile = put_scales(rows, b, at, s.scale_bytes, tile);
  for (size_t b = 0; b < blocks; b++)
    tile = put_scales(rows, b, at + (ptrdiff_t)s.scale_bytes, s.min_bytes, tile);
  return tile;
}

/* Sub-4-bit weights: interleaves groups of 4 bytes of all rows. */
static void put_groups(bq_tile_shape s, const source rows[8], uint8_t *to) {
  const uint32_t none = bq_tile_zero_byte(s) * 0x01010101u;
  for (size_t at = 0; at < s.step / 32 * bq_tile_run_bytes(s); at += 4)
    for (size_t r = 0; r < BQ_TILE_ROWS; r++, to += 4)
      memcpy(to, rows[r].block[0] ? rows[r].block[0] + at : (const void *)&none, 4);
}

void bq_simd128_tile_rows(bq_type type, const uint8_t *src, size_t row_bytes, size_t rows,
                          size_t cols, uint8_t *dst) {
  const bq_tile_shape s = bq_tile_shape_of(bq_type_get(type)->run);
  const bq_row_shape from = bq_row_shape_of(type);
  const reading as = reading_of(s, from);
  const ptrdiff_t scale_at = (ptrdiff_t)from.scale_at - (ptrdiff_t)from.weights_at;
  const size_t per_tile = s.step / from.block, blocks = (cols + from.block - 1) / from.block;
  for (size_t at = 0; at < blocks; at += per_tile, dst += bq_tile_size(s)) {
    source row[BQ_TILE_ROWS] = {{{NULL, NULL}}};
    for (size_t r = 0; r < rows; r++)
      for (size_t b = 0; b < per_tile && at + b < blocks; b++)
        row[r].block[b] = src + r * row_bytes + (at + b) * from.bytes + from.weights_at;
    uint8_t *weights = put_tile_scales(s, row, scale_at, dst);
    if (bq_is_sub4(s)) {
      put_groups(s, row, weights);
      continue;
    }
    KEEP_LOOP for (int run = 0; run < (int)(s.step / 32 * bq_tile_run_bytes(s) / 16); run++)
      UNROLL for (int h = 0; h < 2; h++) {
        const source *r = row + 4 * h;
        put_rows(tile_bytes(&as, r[0], run), tile_bytes(&as, r[1], run),
                 tile_bytes(&as, r[2], run), tile_bytes(&as, r[3], run),
                 weights + run * 128 + h * 16);
      }
  }
}

#else
typedef int no_simd128; /* a translation unit must declare something */
#endif
