/* Matmuls over tiled weights, written once for the simd128 and relaxed tables. Rows lie in the
 * lanes: one 16-byte load holds weights of each of 4 rows, activations are splatted, and nothing is
 * ever summed across lanes.
 *
 * One token takes weights out of the tiles, several groups of 8 rows at once, which share the loads
 * of activations. Of more tokens two are taken at once, a *pair*; for all pairs weights are
 * unpacked once, a *strip* of several groups of rows.
 *
 * A panel holds pairs, then one token alone if that is what is left. With T tokens (2 or 1) each is
 * [blocks of 32 k][T * PANEL_TOKEN] bytes, the blocks rounded up to an even number since a tile may
 * cover 64 k. A block is T * PANEL_Q bytes of activations in *quads* of 4 bytes, one per token next
 * to each other; then [T] f32 scales, in units of 1 / SUM_UNIT; then of the activations as
 * integers, in SUM_UNIT, [T] i32 each: what dots of nibbles that are 8 too much start from,
 * SUM_START - 8 * (sum over all); -8 * (sum over k 0...15); SUM_START - (sum over those that are
 * negative). So a block's sums cost its dots nothing.
 *
 * The file that includes this says how quads look and multiply (all inlined):
 *   enum { PANEL_Q, SUM_UNIT, SUM_START }  bytes of activations per token and block; what one
 *                                          counts in the sums of dots, a power of 2; the bits
 *                                          that they start from
 *   enum { MOST_GROUPS, STRIP_BLOCKS }     groups of rows and blocks of k of a strip, which lies
 *                                          on the stack: a thread has 64 KB
 *   typedef ... constants;  constants prepare(void);    made once per matmul
 *   int streams(bq_tile_shape s);    groups that are taken at once for one token, at most MOST
 *   int strip_groups(int bits);      groups of a strip, at most MOST_GROUPS
 *   void quads_of(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]);
 *   v128_t float_of(v128_t sum);     as f32
 *   void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
 *                    const constants *c, v128_t sum[MOST][2]);
 *   void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
 *                  const constants *c, v128_t sum[MOST][2]);
 *   void unpack(bq_tile_shape s, const uint8_t *w, const constants *c, v128_t *to, int step);
 *   v128_t start_of(int bits, int part, int T, const uint8_t *sums);    of one of T tokens
 *   void dot_pair(int bits, int n, const v128_t *w, const uint8_t *quad, const constants *c,
 *                 v128_t *sum);
 * One token: sum[g][h] += products with rows 4h...4h+3 of group g, whose weights lie at w[g]; q is
 * a panel block. Pairs: `unpack` makes what meets quad j of rows 4h... of a group to[j * step + h];
 * sum[t * n + i] += products of token t with w[i]. Both start at start_of, which takes back what
 * tiles add to each signed weight (8, 64 or 128); at start_of_none, where there are minima. */
#ifndef BQ_KERNELS_SIMD_TILES_H
#define BQ_KERNELS_SIMD_TILES_H

#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "core/tile.h"

/* The k of 32 that a dot covers: 0...15, 16...31, all. */
enum { LOW = 1, HIGH = 2, ALL = LOW | HIGH };
enum { MOST = 8 };                   /* groups of one token at once */
enum { PANEL_TOKEN = PANEL_Q + 16 }; /* bytes per token and block */
enum { QUADS = PANEL_Q / 4 };

INLINE constants prepare(void);
INLINE int streams(bq_tile_shape s);
INLINE int strip_groups(int bits);
INLINE void quads_of(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]);
INLINE v128_t float_of(v128_t sum);
INLINE void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]);
INLINE void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
                      const constants *c, v128_t sum[MOST][2]);
INLINE void unpack(bq_tile_shape s, const uint8_t *w, const constants *c, v128_t *to, int step);
INLINE v128_t start_of(int bits, int part, int T, const uint8_t *sums);
INLINE void dot_pair(int bits, int n, const v128_t *w, const uint8_t *quad, const constants *c,
                     v128_t *sum);

INLINE size_t panel_blocks(size_t k) { return (k + 63) / 64 * 2; }

INLINE size_t panel_size(size_t k, size_t tokens) {
  return panel_blocks(k) * tokens * PANEL_TOKEN;
}

typedef struct matmul_constants {
  constants dot;
  simd_f16_constants f16;
} matmul_constants;

/* 8 scales or minima of `bytes` bytes each; factors are those of `numbers`. */
INLINE void load_scales(uint32_t bytes, const uint8_t *p, const v128_t numbers[2],
                        const matmul_constants *c, v128_t to[2]) {
  if (bytes == 1) {
    const v128_t factors = wasm_i16x8_load8x8(p);
    const v128_t low = wasm_i32x4_extend_low_i16x8(factors);
    const v128_t high = wasm_i32x4_extend_high_i16x8(factors);
    to[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(low), numbers[0]);
    to[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(high), numbers[1]);
    return;
  }
  UNROLL for (int h = 0; h < 2; h++)
    to[h] = bytes == 2 ? simd_load_f16_finite(p + 8 * h, &c->f16) : wasm_v128_load(p + 16 * h);
}

/* What factors of a tile multiply: of scales, of minima. */
typedef struct numbers {
  v128_t scale[2], min[2];
} numbers;

INLINE void load_numbers(bq_tile_shape s, const uint8_t *tile, const matmul_constants *c,
                         numbers *to) {
  load_scales(2, tile, NULL, c, to->scale);
  if (s.min_bytes) load_scales(2, tile + 2 * BQ_TILE_ROWS, NULL, c, to->min);
}

/* acc + (float(sum) * a_scale) * w_scale */
INLINE v128_t add_scaled(v128_t acc, v128_t sum, v128_t a_scale, v128_t w_scale) {
  v128_t dot = wasm_f32x4_mul(float_of(sum), a_scale);
  return wasm_f32x4_add(acc, wasm_f32x4_mul(dot, w_scale));
}

/* What dots of weights that have a minimum start from. */
INLINE v128_t start_of_none(void) { return wasm_i32x4_const_splat(SUM_START); }

/* float(sum over activations of `part`) * a_scale, each of four lanes; `sums` as the panel has
 * those of one of T tokens. */
INLINE v128_t scaled_sum(int part, int T, const uint8_t *sums, v128_t a_scale) {
  v128_t low = wasm_v128_load32_splat(sums + 4 * T), less;
  if (part == LOW) less = wasm_i32x4_sub(simd_zero(), low);
  else less = wasm_i32x4_sub(start_of_none(), wasm_v128_load32_splat(sums));
  if (part == HIGH) less = wasm_i32x4_add(less, low);
  return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(wasm_i32x4_shr(less, 3)), a_scale);
}

/* Rare: a call keeps it out of every loop's code. */
static __attribute__((noinline)) void store_some(float *y, v128_t low, v128_t high, size_t rows) {
  simd_store_part(y, low, rows < 4 ? rows : 4);
  if (rows > 4) simd_store_part(y + 4, high, rows - 4);
}

/* `rows` (at least 1) or 8, whatever is less. */
INLINE void store_rows(float *y, const v128_t acc[2], size_t rows) {
  if (rows >= BQ_TILE_ROWS) {
    wasm_v128_store(y, acc[0]);
    wasm_v128_store(y + 4, acc[1]);
  } else {
    store_some(y, acc[0], acc[1], rows);
  }
}

/* --- one token -------------------------------------------------------------------------------- */

/* 32 k of G tiles, or `part` of them: weights `at` bytes into each, the scales and minima they
 * belong to `scales` and `mins` bytes. */
INLINE void add_block(bq_tile_shape s, int G, int part, const uint8_t *const *tile, uint32_t scales,
                      uint32_t mins, uint32_t at, const uint8_t *q, const numbers *n,
                      const matmul_constants *c, v128_t acc[][2]) {
  v128_t sum[MOST][2], w_scale[2], w_min[2];
  const uint8_t *w[MOST], *sums = q + PANEL_Q + 4;
  const v128_t start = s.min_bytes ? start_of_none() : start_of((int)s.bits, part, 1, sums);
  UNROLL for (int g = 0; g < G; g++) w[g] = tile[g] + at, sum[g][0] = sum[g][1] = start;
  if (s.bits == 4) dot_nibbles(G, part, w, q, &c->dot, sum);
  else dot_bytes(G, (int)s.bits, part, w, q, &c->dot, sum);
  const v128_t a_scale = wasm_v128_load32_splat(q + PANEL_Q);
  const v128_t a_sum = s.min_bytes ? scaled_sum(part, 1, sums, a_scale) : simd_zero();
  UNROLL for (int g = 0; g < G; g++) {
    load_scales(s.scale_bytes, tile[g] + scales, n[g].scale, c, w_scale);
    if (s.min_bytes) load_scales(s.min_bytes, tile[g] + mins, n[g].min, c, w_min);
    UNROLL for (int h = 0; h < 2; h++) {
      v128_t y = add_scaled(acc[g][h], sum[g][h], a_scale, w_scale[h]);
      acc[g][h] = s.min_bytes ? wasm_f32x4_add(y, wasm_f32x4_mul(a_sum, w_min[h])) : y;
    }
  }
}

/* 32 k of G tiles, those from k on. */
INLINE void add_run(bq_tile_shape s, int G, const uint8_t *const *tile, uint32_t k,
                    const uint8_t *q, const numbers *n, const matmul_constants *c,
                    v128_t acc[][2]) {
  const uint32_t w = bq_tile_weights_at(s) + k / 32 * BQ_TILE_ROWS * bq_tile_run_bytes(s);
  const uint32_t scales = bq_tile_scale_at(s, 0, k), mins = bq_tile_min_at(s, 0, k);
  if (s.block != 16) {
    add_block(s, G, ALL, tile, scales, mins, w, q, n, c, acc);
    return;
  }
  add_block(s, G, LOW, tile, scales, mins, w, q, n, c, acc);
  add_block(s, G, HIGH, tile, scales + BQ_TILE_ROWS * s.scale_bytes,
            mins + BQ_TILE_ROWS * s.min_bytes, w, q, n, c, acc);
}

/* G tiles, of which `left` of the blocks of 32 k and those behind it count. */
INLINE void add_tiles(bq_tile_shape s, int G, const uint8_t *const *tile, size_t left,
                      const uint8_t *q, const matmul_constants *c, v128_t acc[][2]) {
  numbers n[MOST];
  if (s.scale_bytes == 1) {
    UNROLL for (int g = 0; g < G; g++) load_numbers(s, tile[g], c, &n[g]);
    const uint32_t end = left < s.step / 32 ? (uint32_t)left * 32 : s.step;
    KEEP_LOOP for (uint32_t k = 0; k < end; k += 32, q += PANEL_TOKEN)
      add_run(s, G, tile, k, q, n, c, acc);
    return;
  }
  add_run(s, G, tile, 0, q, n, c, acc);
  if (s.step == 64) add_run(s, G, tile, 32, q + PANEL_TOKEN, n, c, acc);
}

/* Where results go: `rows` of the 8 of each group of rows, of the first `n` groups (all or 1;
 * several are whole), each `gap` floats behind the one before. */
typedef struct output {
  float *y;
  size_t rows, n, gap;
} output;

/* G groups of 8 rows, their tiles `gap` bytes apart. */
INLINE void multiply(bq_tile_shape s, int G, const uint8_t *tiles, size_t gap, size_t cols,
                     const uint8_t *panel, const matmul_constants *c, output out) {
  const size_t n_tiles = bq_tiles_per_row(s, cols), blocks = panel_blocks(cols);
  v128_t acc[MOST][2];
  UNROLL for (int g = 0; g < G; g++)
    acc[g][0] = acc[g][1] = simd_zero();
  for (size_t i = 0; i < n_tiles; i++) {
    const uint8_t *tile[MOST];
    UNROLL for (int g = 0; g < G; g++) tile[g] = tiles + (size_t)g * gap;
    add_tiles(s, G, tile, blocks - i * (s.step / 32), panel, c, acc);
    tiles += bq_tile_size(s);
    panel += s.step / 32 * PANEL_TOKEN;
  }
  UNROLL for (int g = 0; g < G; g++)
    if ((size_t)g < out.n)
      store_rows(out.y + (size_t)g * out.gap, acc[g], g > 0 ? BQ_TILE_ROWS : out.rows);
}

/* Rows that one token meets: y[rows]. Each weight is needed once then, and mostly comes from
 * memory. Several streams far apart arrive faster than one: hardware reads each ahead on its own,
 * but none beyond the 4 KB that it is in; and groups share what is done to activations. So the
 * groups of 8 rows are cut into as many runs as there are streams, and a pass takes one of each. If
 * some are left, one more pass takes the last of all, several of them again. Too few for that, or
 * less than 8 rows: a group alone, in all streams. */
INLINE void multiply_one(bq_tile_shape s, const uint8_t *tiles, size_t cols, const uint8_t *panel,
                         const matmul_constants *c, size_t rows, float *y) {
  const size_t all = (size_t)streams(s), group = bq_tiles_per_row(s, cols) * bq_tile_size(s);
  const size_t whole = rows / BQ_TILE_ROWS, run = whole / all;
  for (size_t i = 0, next; i * BQ_TILE_ROWS < rows; i = next) {
    size_t first = i, gap = 0, n = 1;
    next = i + 1;
    if (i < run) {
      gap = run;
      n = all;
      if (next == run) next = run * all;
    } else if (run > 0 && i < whole) {
      first = whole - all;
      gap = 1;
      n = all;
      next = whole;
    }
    const size_t left = rows - first * BQ_TILE_ROWS;
    const output out = {y + first * BQ_TILE_ROWS, left < BQ_TILE_ROWS ? left : BQ_TILE_ROWS, n,
                        gap * BQ_TILE_ROWS};
    multiply(s, streams(s), tiles + first * group, gap * group, cols, panel, c, out);
  }
}

/* --- pairs of tokens -------------------------------------------------------------------------- */

/* A strip is [blocks of 32 k][QUADS + numbers][groups][2] vectors: what dots take of 4 rows each,
 * then their scales and minima, of which there are two where k 0...15 and 16...31 have their own.
 * As many blocks as stay in the L1 cache beside a pair's activations, as many tokens as make
 * unpacking cheap. */
enum {
  STRIP_TOKENS = 32,
  STRIP_VECTORS = STRIP_BLOCKS * (QUADS + 4) * 2 * MOST_GROUPS
};

/* Scales of a block, then minima. */
INLINE int strip_halves(bq_tile_shape s) { return s.block == 16 ? 2 : 1; }
INLINE int strip_vectors(bq_tile_shape s) { /* per block */
  return (QUADS + strip_halves(s) * (s.min_bytes ? 2 : 1)) * 2 * strip_groups((int)s.bits);
}

/* 32 weights from k on of a tile become a group's part of a strip's block. */
INLINE void unpack_run(bq_tile_shape s, const uint8_t *tile, uint32_t k, const numbers *n,
                       const matmul_constants *c, v128_t *to) {
  const int step = 2 * strip_groups((int)s.bits), halves = strip_halves(s);
  const uint32_t run = k / 32 * BQ_TILE_ROWS * bq_tile_run_bytes(s);
  unpack(s, tile + bq_tile_weights_at(s) + run, &c->dot, to, step);
  to += QUADS * step;
  UNROLL for (int i = 0; i < halves; i++) {
    const uint32_t at = k + 16 * (uint32_t)i;
    load_scales(s.scale_bytes, tile + bq_tile_scale_at(s, 0, at), n->scale, c, to + i * step);
    if (s.min_bytes)
      load_scales(s.min_bytes, tile + bq_tile_min_at(s, 0, at), n->min, c,
                  to + (halves + i) * step);
  }
}

/* `blocks` of 32 k of a group of rows become its part of a strip. */
INLINE void unpack_tiles(bq_tile_shape s, const uint8_t *tile, size_t blocks, v128_t *to) {
  const matmul_constants c = {prepare(), simd_f16_prepare()};
  numbers n;
  KEEP_LOOP for (; blocks; tile += bq_tile_size(s)) {
    if (s.scale_bytes != 1) {
      UNROLL for (uint32_t k = 0; k < s.step; k += 32, to += strip_vectors(s))
        unpack_run(s, tile, k, &n, &c, to);
      blocks -= s.step / 32;
      continue;
    }
    load_numbers(s, tile, &c, &n);
    KEEP_LOOP for (uint32_t k = 0; k < s.step && blocks; k += 32, to += strip_vectors(s), blocks--)
      unpack_run(s, tile, k, &n, &c, to);
  }
}

/* acc[t * n + i] += products of n vectors of a strip, or of `part` of its k. More sums than these
 * would not find registers; fewer wait for each other, since a dot takes some five cycles. */
INLINE void add_pair(bq_tile_shape s, int part, int n, const v128_t *w, const uint8_t *q,
                     const constants *c, v128_t *acc) {
  const int from = part == HIGH ? QUADS / 2 : 0, to = part == LOW ? QUADS / 2 : QUADS;
  const v128_t *scale = w + (QUADS + (part == HIGH)) * n, *min = scale + strip_halves(s) * n;
  const uint8_t *a_scale = q + 2 * PANEL_Q, *sums = a_scale + 8;
  v128_t sum[4 * MOST_GROUPS];
  UNROLL for (int t = 0; t < 2; t++) {
    const v128_t start =
        s.min_bytes ? start_of_none() : start_of((int)s.bits, part, 2, sums + 4 * t);
    UNROLL for (int i = 0; i < n; i++) sum[t * n + i] = start;
  }
  UNROLL for (int j = from; j < to; j++)
    dot_pair((int)s.bits, n, w + j * n, q + 8 * j, c, sum);
  UNROLL for (int t = 0; t < 2; t++) {
    const v128_t a = wasm_v128_load32_splat(a_scale + 4 * t);
    const v128_t a_sum = s.min_bytes ? scaled_sum(part, 2, sums + 4 * t, a) : simd_zero();
    UNROLL for (int i = 0; i < n; i++) {
      v128_t y = add_scaled(acc[t * n + i], sum[t * n + i], a, scale[i]);
      acc[t * n + i] = s.min_bytes ? wasm_f32x4_add(y, wasm_f32x4_mul(a_sum, min[i])) : y;
    }
  }
}

/* A pair's `blocks` of a strip. The sums of dots take all registers, so the others are in
 * memory. */
INLINE void multiply_pair(bq_tile_shape s, const v128_t *strip, size_t blocks, const uint8_t *panel,
                          v128_t *acc) {
  const constants c = prepare();
  const int n = 2 * strip_groups((int)s.bits);
  KEEP_LOOP for (size_t b = 0; b < blocks; b++, strip += strip_vectors(s)) {
    if (s.block == 16) {
      add_pair(s, LOW, n, strip, panel, &c, acc);
      add_pair(s, HIGH, n, strip, panel, &c, acc);
    } else {
      add_pair(s, ALL, n, strip, panel, &c, acc);
    }
    panel += 2 * PANEL_TOKEN;
  }
}

typedef void pair_fn(const v128_t *strip, size_t blocks, const uint8_t *panel, v128_t *acc);

/* One function for all types whose strips look the same. */
#define PAIRS(name, block, bits, min)                                                \
  static __attribute__((noinline)) void name(const v128_t *strip, size_t blocks,     \
                                             const uint8_t *panel, v128_t *acc) {    \
    multiply_pair(BQ_TILE_SHAPE(block, bits, 0, min), strip, blocks, panel, acc);    \
  }
PAIRS(pair_nibbles, 32, 4, 0)
PAIRS(pair_halves, 16, 4, 0)
PAIRS(pair_minima, 32, 4, 1)
PAIRS(pair_half_minima, 16, 4, 1)
PAIRS(pair_half_bytes, 16, 7, 0)
PAIRS(pair_bytes, 32, 8, 0)
#define PAIR_OF(block, bits, min)                                                     \
  ((min) ? (block) == 16 ? pair_half_minima : pair_minima                             \
   : (bits) == 8 ? pair_bytes                                                         \
   : (block) != 16 ? pair_nibbles : (bits) == 7 ? pair_half_bytes : pair_halves)

typedef struct strip_type {
  bq_tile_shape shape;
  void (*unpack)(const uint8_t *tile, size_t blocks, v128_t *to);
  pair_fn *multiply;
} strip_type;

/* Up to `groups` groups of rows times `tokens`; those that are missing are the last one again. */
static void multiply_strip(const strip_type *type, const bq_matrix *m, const uint8_t *panel,
                           size_t tokens, size_t row, size_t left, float *y, size_t y_stride) {
  v128_t strip[STRIP_VECTORS], acc[STRIP_TOKENS * 2 * MOST_GROUPS];
  const bq_tile_shape s = type->shape;
  const size_t groups = (size_t)strip_groups((int)s.bits), per_tile = s.step / 32;
  const size_t n_tiles = bq_tiles_per_row(s, m->cols), padded = panel_blocks(m->cols);
  const size_t blocks = n_tiles * per_tile < padded ? n_tiles * per_tile : padded;
  const uint8_t *tiles = m->data + row / BQ_TILE_ROWS * n_tiles * bq_tile_size(s);
  memset(acc, 0, tokens * 2 * groups * sizeof *acc);
  for (size_t at = 0; at < blocks; at += STRIP_BLOCKS) {
    const size_t n = blocks - at < STRIP_BLOCKS ? blocks - at : STRIP_BLOCKS;
    const uint8_t *q = panel + at * 2 * PANEL_TOKEN;
    for (size_t g = 0, tile = at / per_tile; g < groups; g++) {
      type->unpack(tiles + tile * bq_tile_size(s), n, strip + 2 * g);
      if ((g + 1) * BQ_TILE_ROWS < left) tile += n_tiles;
    }
    for (size_t t = 0; t < tokens; t += 2, q += panel_size(m->cols, 2))
      type->multiply(strip, n, q, acc + t * 2 * groups);
  }
  for (size_t t = 0; t < tokens; t++)
    for (size_t g = 0; g < groups && g * BQ_TILE_ROWS < left; g++)
      store_rows(y + t * y_stride + row + g * BQ_TILE_ROWS, acc + (t * groups + g) * 2,
                 left - g * BQ_TILE_ROWS);
}

static __attribute__((noinline)) void matmul_pairs(const strip_type *type, const bq_matrix *m,
                                                   const bq_batch *a, size_t row0, size_t row1,
                                                   float *y, size_t y_stride) {
  const size_t rows = (size_t)strip_groups((int)type->shape.bits) * BQ_TILE_ROWS;
  for (size_t t = 0, n; t + 1 < a->tokens; t += n) {
    n = (a->tokens - t) / 2 * 2;
    if (n > STRIP_TOKENS) n = STRIP_TOKENS;
    for (size_t r = row0; r < row1; r += rows)
      multiply_strip(type, m, a->panel + panel_size(m->cols, t), n, r, row1 - r, y + t * y_stride,
                     y_stride);
  }
}

INLINE void matmul_tiled(const strip_type *type, const bq_matrix *m, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  const bq_tile_shape s = type->shape;
  const size_t group = bq_tiles_per_row(s, m->cols) * bq_tile_size(s), last = a->tokens - 1;
  const uint8_t *tiles = m->data + row0 / BQ_TILE_ROWS * group;
  if (a->tokens > 1) matmul_pairs(type, m, a, row0, row1, y, y_stride);
  if (a->tokens % 2 == 0) return;
  const matmul_constants c = {prepare(), simd_f16_prepare()};
  multiply_one(s, tiles, m->cols, a->panel + panel_size(m->cols, last), &c, row1 - row0,
               y + last * y_stride + row0);
}

/* The matmul of a type, and its row of the table. */
#define MATMUL_SLOT(NAME, name, block, bits, scale, min)                                         \
  _Static_assert(STRIP_BLOCKS * 32 % BQ_TILE_STEP(block, scale) == 0, "strips have whole tiles"); \
  static void unpack_##name(const uint8_t *tile, size_t blocks, v128_t *to) {                    \
    unpack_tiles(BQ_TILE_SHAPE(block, bits, scale, min), tile, blocks, to);                      \
  }                                                                                              \
  static void matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,     \
                            float *y, size_t y_stride) {                                         \
    static const strip_type type = {BQ_TILE_SHAPE(block, bits, scale, min), unpack_##name,       \
                                    PAIR_OF(block, bits, min)};                                  \
    matmul_tiled(&type, w, a, row0, row1, y, y_stride);                                          \
  }
BQ_TILED_TYPES(MATMUL_SLOT)
#define TILED_ROW(NAME, name, ...) [BQ_TYPE_##NAME] = {matmul_##name, bq_scalar_row_tiled, true},

/* --- activations ---------------------------------------------------------------------------- */

/* 32 activations as signed bytes, k 0...15 and 16...31, and their scale (formulas: kernels.h). */
typedef struct quantized {
  v128_t low, high;
  float scale;
} quantized;

INLINE v128_t round_four(const float *x, v128_t inv) {
  v128_t v = wasm_f32x4_mul(wasm_v128_load(x), inv);
  v = wasm_f32x4_pmax(wasm_f32x4_const_splat(-127.0f), v); /* NaN becomes -127 */
  return wasm_i32x4_sub(wasm_f32x4_add(v, wasm_f32x4_const_splat(0x1.8p23f)),
                        wasm_i32x4_const_splat(0x4b400000));
}

INLINE v128_t round_sixteen(const float *x, v128_t inv) {
  v128_t a = wasm_i16x8_narrow_i32x4(round_four(x, inv), round_four(x + 4, inv));
  v128_t b = wasm_i16x8_narrow_i32x4(round_four(x + 8, inv), round_four(x + 12, inv));
  return wasm_i8x16_narrow_i16x8(a, b);
}

/* The largest size of 32 numbers. */
INLINE float largest_of(const float *x) {
  v128_t half[2] = {simd_zero(), simd_zero()};
  UNROLL for (int i = 0; i < 8; i++)
    half[i % 2] = wasm_f32x4_pmax(half[i % 2], wasm_f32x4_abs(wasm_v128_load(x + 4 * i)));
  v128_t m = wasm_f32x4_pmax(half[0], half[1]);
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
  return wasm_f32x4_extract_lane(m, 0);
}

INLINE quantized quantize_32(const float *x, float most) {
  if (!(most >= 0x1p-100f)) return (quantized){simd_zero(), simd_zero(), 0.0f};
  v128_t inv = wasm_f32x4_splat(127.0f / most);
  return (quantized){round_sixteen(x, inv), round_sixteen(x + 16, inv), most / 127.0f};
}

/* Over the 32 activations of a block: all, k 0...15, those that are negative. */
typedef struct byte_sums {
  int32_t all, low, negative;
} byte_sums;

INLINE byte_sums sum_bytes(v128_t low, v128_t high) {
  v128_t zero = simd_zero();
  v128_t a = wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(low));
  v128_t b = wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(high));
  v128_t n = wasm_i32x4_extadd_pairwise_i16x8(
      wasm_i16x8_add(wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(low, zero)),
                     wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(high, zero))));
  v128_t ab =
      wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 2, 6), wasm_i32x4_shuffle(a, b, 1, 5, 3, 7));
  v128_t nn = wasm_i32x4_add(n, wasm_i32x4_shuffle(n, n, 1, 0, 3, 2));
  v128_t sums = wasm_i32x4_add(wasm_i32x4_shuffle(ab, nn, 0, 1, 4, 5),
                               wasm_i32x4_shuffle(ab, nn, 2, 3, 6, 7));
  const int32_t first = wasm_i32x4_extract_lane(sums, 0);
  return (byte_sums){first + wasm_i32x4_extract_lane(sums, 1), first,
                     wasm_i32x4_extract_lane(sums, 2)};
}

/* Token t of T: the quads of a block that begins at `block`. */
INLINE void put_scales(uint8_t *block, size_t T, size_t t, quantized a) {
  const byte_sums sums = sum_bytes(a.low, a.high);
  const float scale = a.scale * (1.0f / SUM_UNIT);
  const int32_t all = SUM_START - 8 * SUM_UNIT * sums.all, low = -8 * SUM_UNIT * sums.low;
  const int32_t negative = SUM_START - SUM_UNIT * sums.negative;
  block += T * PANEL_Q + 4 * t;
  memcpy(block, &scale, 4);
  memcpy(block + 4 * T, &all, 4);
  memcpy(block + 8 * T, &low, 4);
  memcpy(block + 12 * T, &negative, 4);
}

/* N blocks of T rows become those of a pair or a token alone. The largest numbers of several are
 * looked for first: what is rounded has to wait for them. */
INLINE void quantize_blocks(size_t T, size_t N, const float *x, size_t x_stride, uint8_t *block) {
  float most[2][4];
  UNROLL for (size_t b = 0; b < N; b++)
    UNROLL for (size_t t = 0; t < T; t++) most[t][b] = largest_of(x + t * x_stride + 32 * b);
  UNROLL for (size_t b = 0; b < N; b++, block += T * PANEL_TOKEN) {
    v128_t quads[2][PANEL_Q / 16];
    UNROLL for (size_t t = 0; t < T; t++) {
      const quantized a = quantize_32(x + t * x_stride + 32 * b, most[t][b]);
      quads_of(a.low, a.high, quads[t]);
      put_scales(block, T, t, a);
    }
    UNROLL for (int i = 0; i < PANEL_Q / 16; i++) {
      if (T == 1) {
        wasm_v128_store(block + 16 * i, quads[0][i]);
        continue;
      }
      wasm_v128_store(block + 32 * i, wasm_i32x4_shuffle(quads[0][i], quads[1][i], 0, 4, 1, 5));
      wasm_v128_store(block + 32 * i + 16,
                      wasm_i32x4_shuffle(quads[0][i], quads[1][i], 2, 6, 3, 7));
    }
  }
}

/* Rows of k activations, T of them. */
INLINE void quantize_rows(size_t T, const float *x, size_t x_stride, size_t k, uint8_t *block) {
  const size_t blocks = panel_blocks(k), whole = k / 32;
  size_t b = 0;
  KEEP_LOOP for (; b < whole; b++)
    quantize_blocks(T, 1, x + 32 * b, x_stride, block + b * T * PANEL_TOKEN);
  KEEP_LOOP for (; b < blocks; b++) { /* the end of the rows, padding */
    float part[64] = {0};
    for (size_t t = 0; t < T; t++)
      for (size_t i = b * 32; i < k && i < b * 32 + 32; i++)
        part[32 * t + i - b * 32] = x[t * x_stride + i];
    quantize_blocks(T, 1, part, 32, block + b * T * PANEL_TOKEN);
  }
}

static size_t panel_bytes(size_t k, size_t tokens) { return panel_size(k, tokens); }

static void quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  size_t t = 0;
  for (; t + 2 <= tokens; t += 2)
    quantize_rows(2, x + t * x_stride, x_stride, k, panel + panel_size(k, t));
  if (t < tokens) quantize_rows(1, x + t * x_stride, 0, k, panel + panel_size(k, t));
}

#endif
