/* Matmuls over tiled weights, written once for the simd128 and relaxed tables. Rows lie in the
 * lanes: one 16-byte load holds 4 weight bytes of each of 4 rows, activations are splatted, and
 * nothing is ever summed across lanes. Weights are read as one stream, front to back.
 *
 * A panel holds groups of 4, 2 and 1 tokens. A group of T is [blocks of 32 k][T * PANEL_TOKEN]
 * bytes, the blocks rounded up to an even number since a tile may cover 64 k. A block is T * PANEL_Q
 * bytes of activations in *quads* of 4 bytes, one per token next to each other; then T f32 scales and
 * T i32 offsets each for ALL, LOW and BYTES.
 *
 * The file that includes this says how quads look and multiply (all inlined):
 *   enum { PANEL_Q }     bytes of activations per token and block
 *   typedef ... constants;  constants prepare(void);    made once per matmul
 *   void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high);
 *   offsets offsets_of(byte_sums a);
 *   void dot_nibbles(int T, int part, const uint8_t *w, const uint8_t *q, const constants *c,
 *                    v128_t sum[4][2]);
 *   void dot_bytes(int T, const uint8_t *w, const uint8_t *q, const constants *c, v128_t sum[4][2]);
 * sum[t][h] += products of token t with rows 4h...4h+3; q is a panel block. sum starts at the
 * block's offset, which takes back what tiles add to each weight (8 or 128). */
#ifndef BQ_KERNELS_SIMD_TILES_H
#define BQ_KERNELS_SIMD_TILES_H

#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/tile.h"

/* What a dot covers: nibbles of k 0...15, of 16...31, of all 32; or 32 bytes. */
enum { LOW = 1, HIGH = 2, ALL = 3, BYTES = 4 };
enum { GROUP = 4 };                  /* most tokens at once: 8 sums */
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
INLINE void put_quads(uint8_t *q, size_t T, v128_t low, v128_t high);
INLINE offsets offsets_of(byte_sums a);
INLINE void dot_nibbles(int T, int part, const uint8_t *w, const uint8_t *q, const constants *c,
                        v128_t sum[GROUP][2]);
INLINE void dot_bytes(int T, const uint8_t *w, const uint8_t *q, const constants *c,
                      v128_t sum[GROUP][2]);

INLINE size_t panel_blocks(size_t k) { return (k + 63) / 64 * 2; }

/* Tokens that are taken together when `left` are left. */
INLINE size_t group_tokens(size_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/* --- products --------------------------------------------------------------------------------- */

INLINE void start_sums(int T, int part, const uint8_t *q, v128_t sum[GROUP][2]) {
  UNROLL for (int t = 0; t < T; t++) {
    const uint8_t *all = q + T * (PANEL_Q + 4) + 4 * t, *low = all + 4 * T, *bytes = low + 4 * T;
    v128_t start = wasm_v128_load32_splat(part == BYTES ? bytes : part == LOW ? low : all);
    if (part == HIGH) start = wasm_i32x4_sub(start, wasm_v128_load32_splat(low));
    sum[t][0] = sum[t][1] = start;
  }
}

/* acc += (float(sum) * a_scale) * w_scale */
INLINE void scale_and_add(int T, const uint8_t *q, v128_t w_scale[2], v128_t sum[GROUP][2],
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
  const uint8_t *end; /* of all weights */
} matmul_constants;

/* 32 k of a tile, or `part` of them, which the given scales belong to. */
INLINE void add_block(bq_tile_shape s, int T, int part, const uint8_t *scales, const uint8_t *w,
                      const uint8_t *q, const matmul_constants *c, v128_t acc[][2]) {
  v128_t sum[GROUP][2], w_scale[2];
  start_sums(T, part, q, sum);
  if (part == BYTES) dot_bytes(T, w, q, &c->dot, sum);
  else dot_nibbles(T, part, w, q, &c->dot, sum);
  UNROLL for (int h = 0; h < 2; h++)
    w_scale[h] = s.scale_size == 2 ? simd_load_f16_finite(scales + 8 * h, &c->f16)
                                   : wasm_v128_load(scales + 16 * h);
  scale_and_add(T, q, w_scale, sum, acc);
}

INLINE void add_tile(bq_tile_shape s, int T, const uint8_t *tile, const uint8_t *q,
                     const matmul_constants *c, v128_t acc[][2]) {
  const uint8_t *w = tile + bq_tile_scale_bytes(s);
  if (s.bits == 8) {
    add_block(s, T, BYTES, tile, w, q, c, acc);
  } else if (s.block == 16) {
    add_block(s, T, LOW, tile, w, q, c, acc);
    add_block(s, T, HIGH, tile + BQ_TILE_ROWS * 4, w, q, c, acc);
  } else {
    add_block(s, T, ALL, tile, w, q, c, acc);
    if (s.step == 64) add_block(s, T, ALL, tile, w + 128, q + T * PANEL_TOKEN, c, acc);
  }
}

/* The same memory, out of the compiler's sight: it can't keep it in registers. */
INLINE v128_t (*hide_sums(v128_t sums[GROUP][2]))[2] {
  __asm__("" : "+r"(sums));
  return sums;
}

/* One token needs each weight once, mostly from memory. Loading a byte of each line a little ahead
 * helps the hardware, which by itself stops prefetching at the end of every 4 KB. */
INLINE void touch_ahead(bq_tile_shape s, const uint8_t *tile, const uint8_t *end) {
  enum { AHEAD = 1024, LINE = 64 };
  const uint8_t *p = (size_t)(end - tile) > AHEAD + bq_tile_size(s) ? tile + AHEAD : tile;
  UNROLL for (uint32_t i = 0; i < bq_tile_size(s); i += LINE)
    (void)*(const volatile uint8_t *)(p + i);
}

/* 8 rows times T tokens; `rows` of the 8 are stored. */
INLINE void multiply_group(bq_tile_shape s, int T, const uint8_t *tiles, size_t n_tiles,
                           const uint8_t *panel, const matmul_constants *c, size_t rows, float *y,
                           size_t y_stride) {
  /* The integer sums of four tokens take all registers; in memory the others cost least. */
  v128_t memory[GROUP][2], (*acc)[2] = T == GROUP ? hide_sums(memory) : memory;
  UNROLL for (int t = 0; t < T; t++)
    acc[t][0] = acc[t][1] = simd_zero();
  for (size_t i = 0; i < n_tiles; i++) {
    if (T == 1) touch_ahead(s, tiles, c->end);
    add_tile(s, T, tiles, panel, c, acc);
    tiles += bq_tile_size(s);
    panel += s.step / 32 * T * PANEL_TOKEN;
  }
  UNROLL for (int t = 0; t < T; t++, y += y_stride) {
    if (rows == BQ_TILE_ROWS) {
      wasm_v128_store(y, acc[t][0]);
      wasm_v128_store(y + 4, acc[t][1]);
    } else {
      simd_store_part(y, acc[t][0], rows < 4 ? rows : 4);
      if (rows > 4) simd_store_part(y + 4, acc[t][1], rows - 4);
    }
  }
}

INLINE void matmul_tiled(bq_tile_shape s, const bq_matrix *m, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  const size_t n_tiles = bq_tiles_per_row(s, m->cols), blocks = panel_blocks(m->cols);
  const size_t group = n_tiles * bq_tile_size(s);
  const matmul_constants c = {
      prepare(), simd_f16_prepare(),
      m->data + (m->rows + (size_t)BQ_TILE_ROWS - 1) / BQ_TILE_ROWS * group};
  const uint8_t *tiles = m->data + row0 / BQ_TILE_ROWS * group;
  for (size_t r = row0; r < row1; r += BQ_TILE_ROWS, tiles += group) {
    const size_t rows = row1 - r < BQ_TILE_ROWS ? row1 - r : BQ_TILE_ROWS;
    for (size_t t = 0, n; t < a->tokens; t += n) {
      const uint8_t *panel = a->panel + t * blocks * PANEL_TOKEN;
      float *out = y + t * y_stride + r;
      n = group_tokens(a->tokens - t);
      if (n == 4) multiply_group(s, 4, tiles, n_tiles, panel, &c, rows, out, y_stride);
      else if (n == 2) multiply_group(s, 2, tiles, n_tiles, panel, &c, rows, out, y_stride);
      else multiply_group(s, 1, tiles, n_tiles, panel, &c, rows, out, y_stride);
    }
  }
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
  const size_t group_of_one = panel_blocks(k) * PANEL_TOKEN;
  for (size_t t0 = 0, T; t0 < tokens; t0 += T, panel += T * group_of_one) {
    T = group_tokens(tokens - t0);
    if (T == 1) quantize_row(x + t0 * x_stride, k, panel, 1, 0, scale_unit);
    else
      for (size_t t = 0; t < T; t++)
        quantize_row(x + (t0 + t) * x_stride, k, panel, T, t, scale_unit);
  }
}

#endif
