/* Matmuls over tiled weights, written once for the simd128 and relaxed tables. Rows lie in the
 * lanes: one 16-byte load holds 4 weight bytes of each of 4 rows, activations are splatted, and
 * nothing is ever summed across lanes.
 *
 * A loop takes G groups of 8 rows times T tokens; one of G and T is 1. Tokens share the loads of
 * weights, groups those of activations.
 *
 * A panel holds groups of 4 tokens, the last one filled up, or one token alone if that is what is
 * left. A group of T is [blocks of 32 k][T * PANEL_TOKEN] bytes, the blocks rounded up to an even number since a tile may cover 64 k. A block is T * PANEL_Q
 * bytes of activations in *quads* of 4 bytes, one per token next to each other; then T f32 scales and
 * T i32 offsets each for ALL, LOW and BYTES.
 *
 * The file that includes this says how quads look and multiply (all inlined):
 *   enum { PANEL_Q }     bytes of activations per token and block
 *   typedef ... constants;  constants prepare(void);    made once per matmul
 *   int streams(bq_tile_shape s);    groups that are taken at once for one token, at most MOST
 *   void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high);
 *   offsets offsets_of(byte_sums a);
 *   void dot_nibbles(int G, int T, int part, const uint8_t *const *w, const uint8_t *q,
 *                    const constants *c, v128_t sum[MOST][2]);
 *   void dot_bytes(int G, int T, const uint8_t *const *w, const uint8_t *q, const constants *c,
 *                  v128_t sum[MOST][2]);
 * sum[g * T + t][h] += products of token t with rows 4h...4h+3 of group g, whose weights lie at w[g];
 * q is a panel block. sum starts at the block's offset, which takes back what tiles add to each
 * weight (8 or 128). */
#ifndef BQ_KERNELS_SIMD_TILES_H
#define BQ_KERNELS_SIMD_TILES_H

#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/tile.h"

/* What a dot covers: nibbles of k 0...15, of 16...31, of all 32; or 32 bytes. */
enum { LOW = 1, HIGH = 2, ALL = 3, BYTES = 4 };
enum { TOKENS = 4, MOST = 8 };       /* tokens at once; groups or tokens at once */
enum { PANEL_TOKEN = PANEL_Q + 16 }; /* bytes per token and block */

/* Sums over the 32 activations of a block: of k 0...15, of 16...31, of all that are negative. */
typedef struct byte_sums {
  int32_t low, high, negative;
} byte_sums;

/* What sums over a block's activations start from, in the panel's units. */
typedef struct offsets {
  int32_t all, low, bytes;
} offsets;

INLINE constants prepare(void);
INLINE int streams(bq_tile_shape s);
INLINE void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high);
INLINE offsets offsets_of(byte_sums a);
INLINE void dot_nibbles(int G, int T, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MOST][2]);
INLINE void dot_bytes(int G, int T, const uint8_t *const *w, const uint8_t *q, const constants *c,
                      v128_t sum[MOST][2]);

INLINE size_t panel_blocks(size_t k) { return (k + 63) / 64 * 2; }

/* Tokens that are taken together when `left` are left. */
INLINE size_t group_tokens(size_t left) { return left == 1 ? 1 : TOKENS; }

INLINE size_t panel_size(size_t k, size_t tokens) {
  const size_t whole = tokens / TOKENS * TOKENS;
  return panel_blocks(k) * (whole + (tokens > whole ? group_tokens(tokens - whole) : 0)) *
         PANEL_TOKEN;
}

/* --- products --------------------------------------------------------------------------------- */

INLINE void start_sums(int G, int T, int part, const uint8_t *q, v128_t sum[MOST][2]) {
  UNROLL for (int t = 0; t < T; t++) {
    const uint8_t *all = q + T * (PANEL_Q + 4) + 4 * t, *low = all + 4 * T, *bytes = low + 4 * T;
    v128_t start = wasm_v128_load32_splat(part == BYTES ? bytes : part == LOW ? low : all);
    if (part == HIGH) start = wasm_i32x4_sub(start, wasm_v128_load32_splat(low));
    UNROLL for (int g = 0; g < G; g++) sum[g * T + t][0] = sum[g * T + t][1] = start;
  }
}

/* acc += (float(sum) * a_scale) * w_scale */
INLINE void scale_and_add(int T, const uint8_t *q, v128_t w_scale[2], v128_t sum[][2],
                          v128_t acc[][2]) {
  UNROLL for (int t = 0; t < T; t++) {
    v128_t a_scale = wasm_v128_load32_splat(q + T * PANEL_Q + 4 * t);
    UNROLL for (int h = 0; h < 2; h++) {
      v128_t dot = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[t][h]), a_scale);
      acc[t][h] = wasm_f32x4_add(acc[t][h], wasm_f32x4_mul(dot, w_scale[h]));
    }
  }
}

typedef struct matmul_constants {
  constants dot;
  simd_f16_constants f16;
} matmul_constants;

/* 32 k of G tiles, or `part` of them: weights `at` bytes into each, the scales they belong to
 * `scales` bytes. */
INLINE void add_block(bq_tile_shape s, int G, int T, int part, const uint8_t *const *tile,
                      uint32_t scales, uint32_t at, const uint8_t *q, const matmul_constants *c,
                      v128_t acc[][2]) {
  v128_t sum[MOST][2], w_scale[2];
  const uint8_t *w[MOST];
  UNROLL for (int g = 0; g < G; g++) w[g] = tile[g] + at;
  start_sums(G, T, part, q, sum);
  if (part == BYTES) dot_bytes(G, T, w, q, &c->dot, sum);
  else dot_nibbles(G, T, part, w, q, &c->dot, sum);
  UNROLL for (int g = 0; g < G; g++) {
    UNROLL for (int h = 0; h < 2; h++)
      w_scale[h] = s.scale_size == 2 ? simd_load_f16_finite(tile[g] + scales + 8 * h, &c->f16)
                                     : wasm_v128_load(tile[g] + scales + 16 * h);
    scale_and_add(T, q, w_scale, sum + g * T, acc + g * T);
  }
}

INLINE void add_tiles(bq_tile_shape s, int G, int T, const uint8_t *const *tile, const uint8_t *q,
                      const matmul_constants *c, v128_t acc[][2]) {
  const uint32_t w = bq_tile_scale_bytes(s);
  if (s.bits == 8) {
    add_block(s, G, T, BYTES, tile, 0, w, q, c, acc);
  } else if (s.block == 16) {
    add_block(s, G, T, LOW, tile, 0, w, q, c, acc);
    add_block(s, G, T, HIGH, tile, BQ_TILE_ROWS * 4, w, q, c, acc);
  } else {
    add_block(s, G, T, ALL, tile, 0, w, q, c, acc);
    if (s.step == 64) add_block(s, G, T, ALL, tile, 0, w + 128, q + T * PANEL_TOKEN, c, acc);
  }
}

/* The same memory, out of the compiler's sight: it can't keep it in registers. */
INLINE v128_t (*hide_sums(v128_t sums[MOST][2]))[2] {
  __asm__("" : "+r"(sums));
  return sums;
}

/* Where results go: `rows` of the 8 of each group of rows, of the first `n` groups or tokens (groups:
 * all or 1; several are whole), each `gap` floats behind the one before. */
typedef struct output {
  float *y;
  size_t rows, n, gap;
} output;

/* Rare: a call keeps it out of every loop's code. */
static __attribute__((noinline)) void store_some(float *y, v128_t low, v128_t high, size_t rows) {
  simd_store_part(y, low, rows < 4 ? rows : 4);
  if (rows > 4) simd_store_part(y + 4, high, rows - 4);
}

INLINE void store_rows(float *y, const v128_t acc[2], size_t rows) {
  if (rows == BQ_TILE_ROWS) {
    wasm_v128_store(y, acc[0]);
    wasm_v128_store(y + 4, acc[1]);
  } else {
    store_some(y, acc[0], acc[1], rows);
  }
}

/* G groups of 8 rows, their tiles `gap` bytes apart, times T tokens. */
INLINE void multiply(bq_tile_shape s, int G, int T, const uint8_t *tiles, size_t gap,
                     size_t n_tiles, const uint8_t *panel, const matmul_constants *c, output out) {
  /* The integer sums of four tokens take all registers; in memory the others cost least. */
  v128_t memory[MOST][2], (*acc)[2] = T == TOKENS ? hide_sums(memory) : memory;
  UNROLL for (int i = 0; i < G * T; i++)
    acc[i][0] = acc[i][1] = simd_zero();
  for (size_t i = 0; i < n_tiles; i++) {
    const uint8_t *tile[MOST];
    UNROLL for (int g = 0; g < G; g++) tile[g] = tiles + (size_t)g * gap;
    add_tiles(s, G, T, tile, panel, c, acc);
    tiles += bq_tile_size(s);
    panel += s.step / 32 * T * PANEL_TOKEN;
  }
  UNROLL for (int i = 0; i < G * T; i++)
    if ((size_t)i < out.n)
      store_rows(out.y + (size_t)i * out.gap, acc[i], i > 0 && T == 1 ? BQ_TILE_ROWS : out.rows);
}

/* Rows that one token meets: y[rows]. Each weight is needed once then, and mostly comes from memory.
 * Several streams far apart arrive faster than one: hardware reads each ahead on its own, but none
 * beyond the 4 KB that it is in; and groups share what is done to activations. So the groups of 8
 * rows are cut into as many runs as there are streams, and a pass takes one of each. If some are
 * left, one more pass takes the last of all, several of them again. Too few for that, or less than 8
 * rows: a group alone, in all streams. */
INLINE void multiply_one(bq_tile_shape s, const uint8_t *tiles, size_t n_tiles,
                         const uint8_t *panel, const matmul_constants *c, size_t rows, float *y) {
  const size_t all = (size_t)streams(s), group = n_tiles * bq_tile_size(s);
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
    multiply(s, streams(s), 1, tiles + first * group, gap * group, n_tiles, panel, c, out);
  }
}

INLINE void matmul_tiled(bq_tile_shape s, const bq_matrix *m, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  const size_t n_tiles = bq_tiles_per_row(s, m->cols), group = n_tiles * bq_tile_size(s);
  const size_t grouped = a->tokens % TOKENS == 1 ? a->tokens - 1 : a->tokens;
  const size_t panel_group = panel_size(m->cols, TOKENS);
  const uint8_t *first = m->data + row0 / BQ_TILE_ROWS * group, *tiles = first;
  const matmul_constants c = {prepare(), simd_f16_prepare()};
  if (grouped > 0) {
    for (size_t r = row0; r < row1; r += BQ_TILE_ROWS, tiles += group) {
      const size_t rows = row1 - r < BQ_TILE_ROWS ? row1 - r : BQ_TILE_ROWS;
      const uint8_t *panel = a->panel;
      for (size_t t = 0; t < grouped; t += TOKENS) {
        const size_t left = grouped - t;
        const output out = {y + t * y_stride + r, rows, left < TOKENS ? left : TOKENS, y_stride};
        multiply(s, 1, TOKENS, tiles, 0, n_tiles, panel, &c, out);
        panel += panel_group;
      }
    }
  }
  if (grouped < a->tokens)
    multiply_one(s, first, n_tiles, a->panel + panel_size(m->cols, grouped), &c, row1 - row0,
                 y + grouped * y_stride + row0);
}

/* --- activations ---------------------------------------------------------------------------- */

/* 32 activations as signed bytes, k 0...15 and 16...31, and their scale (formulas: kernels.h). */
typedef struct quantized {
  v128_t low, high;
  float scale;
} quantized;

INLINE v128_t round_four(const float *x, v128_t inv) {
  v128_t v = wasm_f32x4_mul(wasm_v128_load(x), inv);
  v = wasm_f32x4_pmax(wasm_f32x4_const_splat(-127.0f), v); /* NaN becomes -127 */
  v = wasm_f32x4_pmin(wasm_f32x4_const_splat(127.0f), v);
  return wasm_i32x4_sub(wasm_f32x4_add(v, wasm_f32x4_const_splat(0x1.8p23f)),
                        wasm_i32x4_const_splat(0x4b400000));
}

INLINE v128_t round_sixteen(const float *x, v128_t inv) {
  v128_t a = wasm_i16x8_narrow_i32x4(round_four(x, inv), round_four(x + 4, inv));
  v128_t b = wasm_i16x8_narrow_i32x4(round_four(x + 8, inv), round_four(x + 12, inv));
  return wasm_i8x16_narrow_i16x8(a, b);
}

INLINE quantized quantize_32(const float *x) {
  v128_t m = simd_zero();
  UNROLL for (int i = 0; i < 32; i += 4)
    m = wasm_f32x4_pmax(m, wasm_f32x4_abs(wasm_v128_load(x + i)));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
  float most = wasm_f32x4_extract_lane(m, 0);
  if (!(most >= 0x1p-100f)) return (quantized){simd_zero(), simd_zero(), 0.0f};
  v128_t inv = wasm_f32x4_splat(127.0f / most);
  return (quantized){round_sixteen(x, inv), round_sixteen(x + 16, inv), most / 127.0f};
}

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
  v128_t sums =
      wasm_i32x4_add(wasm_i32x4_shuffle(ab, nn, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, nn, 2, 3, 6, 7));
  return (byte_sums){wasm_i32x4_extract_lane(sums, 0), wasm_i32x4_extract_lane(sums, 1),
                     wasm_i32x4_extract_lane(sums, 2)};
}

/* Quad j of 4 goes to q + j * 4 * T. */
INLINE void put_four_quads(uint8_t *q, size_t T, v128_t quads) {
  if (T == 1) {
    wasm_v128_store(q, quads);
    return;
  }
  wasm_v128_store32_lane(q, quads, 0);
  wasm_v128_store32_lane(q + 4 * T, quads, 1);
  wasm_v128_store32_lane(q + 8 * T, quads, 2);
  wasm_v128_store32_lane(q + 12 * T, quads, 3);
}

/* Token t of T of a panel block. */
INLINE void put_block(uint8_t *block, size_t T, size_t t, quantized a, float scale_unit) {
  const offsets o = offsets_of(sum_bytes(a.low, a.high));
  const float scale = a.scale * scale_unit;
  put_quads(block + 4 * t, T, a.low, a.high);
  block += T * PANEL_Q + 4 * t;
  memcpy(block, &scale, 4);
  memcpy(block + 4 * T, &o.all, 4);
  memcpy(block + 8 * T, &o.low, 4);
  memcpy(block + 12 * T, &o.bytes, 4);
}

/* A row of k activations becomes token t of T of a panel group. */
INLINE void quantize_row(const float *x, size_t k, uint8_t *group, size_t T, size_t t,
                         float scale_unit) {
  const size_t blocks = panel_blocks(k), whole = k / 32;
  for (size_t b = 0; b < whole; b++, group += T * PANEL_TOKEN)
    put_block(group, T, t, quantize_32(x + b * 32), scale_unit);
  for (size_t b = whole; b < blocks; b++, group += T * PANEL_TOKEN) {
    float part[32] = {0}; /* the end of the row, padding */
    for (size_t i = b * 32; i < k; i++) part[i - b * 32] = x[i];
    put_block(group, T, t, quantize_32(part), scale_unit);
  }
}

/* The panel's scales are `scale_unit` times what they stand for. */
INLINE void quantize_panel(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel,
                           float scale_unit) {
  for (size_t t0 = 0; t0 < tokens; t0 += TOKENS) {
    uint8_t *group = panel + panel_size(k, t0);
    if (tokens - t0 == 1) quantize_row(x + t0 * x_stride, k, group, 1, 0, scale_unit);
    else
      for (size_t t = 0; t < TOKENS; t++) {
        const size_t from = t0 + t < tokens ? t0 + t : tokens - 1; /* the last one fills up */
        quantize_row(x + from * x_stride, k, group, TOKENS, t, scale_unit);
      }
  }
}

#endif
