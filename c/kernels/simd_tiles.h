/* Matmuls over tiled weights, written once for the simd128 and relaxed tables. Each lane belongs to
 * a row: one 16-byte load has weights of 4 rows, activations are splatted, and no sum crosses
 * lanes.
 *
 * For one token (GEMV), several groups of 8 rows are computed at once, which share the loads of
 * activations. Several tokens (GEMM) are computed four at a time, or two (a *pair*): the weights of
 * one group of rows are multiplied with all tokens of a batch before the next ones are loaded.
 *
 * A panel holds pairs of tokens. A last token that follows a multiple of 8 is stored alone; any
 * other odd one is paired with itself. With T tokens (2 or 1) a panel entry is [blocks of 32 k][T *
 * PANEL_TOKEN] bytes; the number of blocks is even, since a tile may cover 64 k. A block holds
 *   T * PANEL_Q bytes of activations, in *quads* of 4 bytes, those of the tokens alternating
 *   [T] f32 scales, in units of 1 / SUM_UNIT
 *   [T] i32 initial sums for nibbles with zero point 8: SUM_START - 8 * (sum over all k)
 *   [T] i32 -8 * (sum over k 0...15)
 *   [T] i32 SUM_START - (sum over negative activations)
 *   [T] f32 factors of minimums: scale * (sum over all k); then over k 0...15; over k 16...31
 *   T * PANEL_EXTRA bytes that the table defines
 * The i32 sums are over activations as integers, in units of SUM_UNIT. So zero points and minimums
 * cost the inner loop nothing.
 *
 * The including file defines the quads and their products (all inlined):
 *   enum { PANEL_Q, PANEL_EXTRA, SUM_UNIT, SUM_START }
 *       bytes of activations, and of extra data, per token and block; the factor of products in a
 *       sum, a power of 2; the bit pattern of a sum of 0
 *   typedef ... constants;  constants prepare(void);
 *       vectors that are loaded once per matmul
 *   GROUPS_AT_ONCE(block, bits, scale_bytes, min_bytes)
 *       groups of rows computed at once for one token, at most MAX_GROUPS: a constant
 *   void make_quads(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]);
 *   void put_panel_extra(uint8_t *more, size_t bytes, const uint8_t *quads);
 *       writes a block's extra data, from all of its quads
 *   v128_t sum_to_f32(int bits, int T, v128_t sum, const constants *c);
 *       converts a sum over weights of `bits` bits, of one token (T = 1) or of a pair (T = 2)
 *   v128_t initial_sum_zero(int bits);
 *   v128_t initial_sum(int bits, int part, int T, const uint8_t *sums);
 *   v128_t initial_sum_sub4(int zero, int T, const uint8_t *sums);
 *       initial sums for types with a minimum; with zero point 8, 64 or 128; with zero point `zero`
 *   void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
 *                    const constants *c, v128_t sum[MAX_GROUPS][2]);
 *   void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
 *                  const constants *c, v128_t sum[MAX_GROUPS][2]);
 *   void dot_codes(int G, int part, const uint8_t *const *w, const uint8_t *q, v128_t table,
 *                  const constants *c, v128_t sum[MAX_GROUPS][2]);
 *   void dot_sub4(bq_tile_shape s, int G, const uint8_t *const *w, const uint8_t *q,
 *                 const constants *c, v128_t sum[MAX_GROUPS][2]);
 *       one token: sum[g][h] += products with rows 4h...4h+3 of group g, whose weights are at w[g];
 *       q is a panel block
 *   void dot_pairs(int bits, int P, int part, const uint8_t *w, const uint8_t *const *q,
 *                  const constants *c, v128_t (*sum)[2]);
 *   const uint8_t *unpack_sub4(bq_tile_shape s, const uint8_t *w, const constants *c,
 *                              uint8_t to[TILE_BYTES_32]);
 *       prepares the weights at w for dot_sub4_pairs, once for all tokens of a batch; returns w, or
 *       `to` with unpacked weights
 *   void dot_sub4_pairs(bq_tile_shape s, int P, const uint8_t *w, const uint8_t *const *q,
 *                       const constants *c, v128_t (*sum)[2]);
 *       pairs: sum[t][h] += products of token t of 2 * P with rows 4h...4h+3 of one group; q[p] is
 *       a panel block of pair p */
#ifndef BQ_KERNELS_SIMD_TILES_H
#define BQ_KERNELS_SIMD_TILES_H

#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "core/tile.h"

/* The part of a block of 32 k that a dot product covers: 0...15, 16...31, or all. */
enum { LOW = 1, HIGH = 2, ALL = LOW | HIGH };
enum { MAX_GROUPS = 8 };                   /* groups of rows computed at once for one token */
enum { MAX_PAIRS = 2 };             /* pairs computed at once; their sums take half of the registers
                                       */
enum { PANEL_SUMS = 28 };            /* bytes of scale and sums, per token and block */
/* Bytes of 32 k of a tile with 7 or 8 bits; LOW is the first half. */
enum { TILE_BYTES_32 = 32 * BQ_TILE_ROWS };
enum { PANEL_TOKEN = PANEL_Q + PANEL_SUMS + PANEL_EXTRA }; /* all bytes per token and block */

INLINE constants prepare(void);
INLINE int unrolled_groups(bq_tile_shape s) {
  (void)s;
  return GROUPS_AT_ONCE(s.block, s.bits, s.scale_bytes, s.min_bytes);
}
INLINE void make_quads(v128_t low, v128_t high, v128_t quads[PANEL_Q / 16]);
INLINE void put_panel_extra(uint8_t *more, size_t bytes, const uint8_t *quads);
INLINE v128_t sum_to_f32(int bits, int T, v128_t sum, const constants *c);
INLINE v128_t initial_sum_zero(int bits);
INLINE v128_t initial_sum_sub4(int zero, int T, const uint8_t *sums);
INLINE void dot_nibbles(int G, int part, const uint8_t *const *w, const uint8_t *q,
                        const constants *c, v128_t sum[MAX_GROUPS][2]);
INLINE void dot_bytes(int G, int bits, int part, const uint8_t *const *w, const uint8_t *q,
                      const constants *c, v128_t sum[MAX_GROUPS][2]);
INLINE void dot_codes(int G, int part, const uint8_t *const *w, const uint8_t *q, v128_t table,
                      const constants *c, v128_t sum[MAX_GROUPS][2]);
INLINE void dot_sub4(bq_tile_shape s, int G, const uint8_t *const *w, const uint8_t *q,
                     const constants *c, v128_t sum[MAX_GROUPS][2]);
INLINE const uint8_t *unpack_sub4(bq_tile_shape s, const uint8_t *w, const constants *c,
                                  uint8_t to[TILE_BYTES_32]);
INLINE void dot_sub4_pairs(bq_tile_shape s, int P, const uint8_t *w, const uint8_t *const *q,
                           const constants *c, v128_t (*sum)[2]);
INLINE v128_t initial_sum(int bits, int part, int T, const uint8_t *sums);
INLINE void dot_pairs(int bits, int P, int part, const uint8_t *w, const uint8_t *const *q,
                      const constants *c, v128_t (*sum)[2]);

INLINE size_t panel_blocks(size_t k) { return (k + 63) / 64 * 2; }

INLINE size_t panel_size(size_t k, size_t tokens) {
  return panel_blocks(k) * (tokens + (tokens % 2 && tokens % BQ_PANEL_TOKENS != 1)) * PANEL_TOKEN;
}

/* Initial sum for weights stored with zero point `zero` (1 or 3): SUM_START - zero * (sum of
 * activations). `sums` stores SUM_START - 8 * (sum of activations). */
INLINE v128_t initial_sum_sub4_i32(int zero, int T, const uint8_t *sums) {
  (void)T;
  const v128_t none = wasm_i32x4_const_splat(SUM_START);
  const v128_t one = wasm_i32x4_shr(wasm_i32x4_sub(wasm_v128_load32_splat(sums), none), 3);
  return wasm_i32x4_add(none, zero == 1 ? one : wasm_i32x4_add(one, wasm_i32x4_shl(one, 1)));
}

/* Number of blocks of 32 columns in a row, without padding of tiles or panel. */
INLINE size_t row_blocks(bq_tile_shape s, size_t cols) {
  const size_t all = bq_tiles_per_row(s, cols) * (s.step / 32);
  return all < panel_blocks(cols) ? all : panel_blocks(cols);
}

typedef struct matmul_constants {
  constants dot;
  simd_f16_constants f16;
  v128_t codes, unit; /* for BQ_CODES: the table; the factor of scales */
} matmul_constants;

/* The tables are constants in the code: modules of rare types can have no data (emscripten.mk). */
INLINE void load_codes(bq_type type, matmul_constants *c) {
#define CODES_OF(NAME, of, ...)                                \
  if (type == BQ_TYPE_##NAME) {                                \
    c->codes = wasm_u8x16_const(BQ_STORED_CODES(__VA_ARGS__)); \
    c->unit = wasm_f32x4_const_splat(of);                      \
  }
  BQ_CODE_TABLES(CODES_OF)
#undef CODES_OF
}

/* `type` is used for BQ_CODES only: types that differ only in their tables share the code. */
INLINE matmul_constants load_matmul_constants(bq_tile_shape s, bq_type type) {
  matmul_constants c = {prepare(), simd_f16_prepare(), simd_zero(), simd_zero()};
  if (s.bits == BQ_CODES) load_codes(type, &c);
  return c;
}

/* Bits of the weights in dot products; codes are looked up before. */
INLINE int dot_bits(bq_tile_shape s) { return s.bits == BQ_CODES ? 7 : (int)s.bits; }

/* Looks up the codes of `part` of 32 k of a tile, and writes the weights as in a tile of 7 bits. */
INLINE void look_up_codes(int part, const uint8_t *codes, v128_t table, uint8_t *to) {
  const v128_t nibble = wasm_i8x16_const_splat(15);
  KEEP_LOOP for (int i = 0; i < TILE_BYTES_32 / 2; i += 16) {
    const v128_t v = wasm_v128_load(codes + i);
    if (part & LOW)
      wasm_v128_store(to + i, wasm_i8x16_swizzle(table, wasm_v128_and(v, nibble)));
    if (part & HIGH)
      wasm_v128_store(to + TILE_BYTES_32 / 2 + i,
                      wasm_i8x16_swizzle(table, wasm_u8x16_shr(v, 4)));
  }
}

/* Loads 8 scales or minimums of `bytes` bytes each. Those of 1 byte are sub-block scales, which are
 * multiplied by the super-block scales in `super`. */
INLINE void load_scales(uint32_t bytes, const uint8_t *p, const v128_t super[2],
                        const matmul_constants *c, v128_t to[2]) {
  if (bytes == 1) {
    const v128_t factors = wasm_i16x8_load8x8(p);
    const v128_t low = wasm_i32x4_extend_low_i16x8(factors);
    const v128_t high = wasm_i32x4_extend_high_i16x8(factors);
    to[0] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(low), super[0]);
    to[1] = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(high), super[1]);
    return;
  }
  UNROLL for (int h = 0; h < 2; h++)
    to[h] = bytes == 2 ? simd_load_f16_finite(p + 8 * h, &c->f16) : wasm_v128_load(p + 16 * h);
}

/* Multiplies 8 f16 scales of a type with BQ_CODES by its unit. */
INLINE void apply_unit(bq_tile_shape s, const matmul_constants *c, v128_t scale[2]) {
  if (s.bits != BQ_CODES) return;
  UNROLL for (int h = 0; h < 2; h++) scale[h] = wasm_f32x4_mul(scale[h], c->unit);
}

/* Super-block scales (K-quants): one f32 per row for scales, one for minimums. */
typedef struct super_scales {
  v128_t scale[2], min[2];
} super_scales;

INLINE void load_super_scales(bq_tile_shape s, const uint8_t *tile, const matmul_constants *c,
                              super_scales *to) {
  load_scales(2, tile, NULL, c, to->scale);
  apply_unit(s, c, to->scale);
  if (s.min_bytes) load_scales(2, tile + 2 * BQ_TILE_ROWS, NULL, c, to->min);
}

/* acc + (float(sum) * a_scale) * w_scale */
INLINE v128_t add_scaled(int bits, int T, v128_t acc, v128_t sum, v128_t a_scale, v128_t w_scale,
                         const constants *c) {
  v128_t dot = wasm_f32x4_mul(sum_to_f32(bits, T, sum, c), a_scale);
  return wasm_f32x4_add(acc, wasm_f32x4_mul(dot, w_scale));
}

/* The initial sum of the dot products over a block, or over `part` of it. */
INLINE v128_t start(bq_tile_shape s, int part, int T, const uint8_t *sums) {
  if (s.min_bytes) return initial_sum_zero((int)s.bits);
  if (bq_is_sub4(s)) return initial_sum_sub4(bq_tile_zero_point(s), T, sums);
  return initial_sum(dot_bits(s), part, T, sums);
}

/* The factor of minimums, splatted: the scaled sum of the activations of `part`. `sums` points to
 * the panel's sums of one of T tokens. */
INLINE v128_t min_factor(int part, int T, const uint8_t *sums) {
  return wasm_v128_load32_splat(sums + (part == ALL ? 12 : part == LOW ? 16 : 20) * T);
}

/* Not inlined, because only the last rows of a matrix need it. */
static __attribute__((noinline)) void store_partial_rows(float *y, v128_t low, v128_t high,
                                                         size_t rows) {
  simd_store_part(y, low, rows < 4 ? rows : 4);
  if (rows > 4) simd_store_part(y + 4, high, rows - 4);
}

/* Stores min(rows, 8) results; rows >= 1. */
INLINE void store_rows(float *y, const v128_t acc[2], size_t rows) {
  if (rows >= BQ_TILE_ROWS) {
    wasm_v128_store(y, acc[0]);
    wasm_v128_store(y + 4, acc[1]);
  } else {
    store_partial_rows(y, acc[0], acc[1], rows);
  }
}

/* --- one token -------------------------------------------------------------------------------- */

/* Adds 32 k of G tiles, or `part` of them. `at`, `scales` and `mins` are the offsets of the
 * weights, scales and minimums in each tile. */
INLINE void add_block(bq_tile_shape s, int G, int part, const uint8_t *const *tile, uint32_t scales,
                      uint32_t mins, uint32_t at, const uint8_t *q, const super_scales *n,
                      const matmul_constants *c, v128_t acc[][2]) {
  v128_t sum[MAX_GROUPS][2], w_scale[2], w_min[2];
  const uint8_t *w[MAX_GROUPS], *sums = q + PANEL_Q + 4;
  const v128_t from = start(s, part, 1, sums);
  UNROLL for (int g = 0; g < G; g++) w[g] = tile[g] + at, sum[g][0] = sum[g][1] = from;
  if (s.bits == BQ_CODES) dot_codes(G, part, w, q, c->codes, &c->dot, sum);
  else if (bq_is_sub4(s)) dot_sub4(s, G, w, q, &c->dot, sum);
  else if (s.bits == 4) dot_nibbles(G, part, w, q, &c->dot, sum);
  else dot_bytes(G, dot_bits(s), part, w, q, &c->dot, sum);
  const v128_t a_scale = wasm_v128_load32_splat(q + PANEL_Q);
  const v128_t a_sum = s.min_bytes ? min_factor(part, 1, sums) : simd_zero();
  UNROLL for (int g = 0; g < G; g++) {
    load_scales(s.scale_bytes, tile[g] + scales, n[g].scale, c, w_scale);
    if (s.scale_bytes == 2) apply_unit(s, c, w_scale);
    if (s.min_bytes) load_scales(s.min_bytes, tile[g] + mins, n[g].min, c, w_min);
    UNROLL for (int h = 0; h < 2; h++) {
      v128_t y = add_scaled(dot_bits(s), 1, acc[g][h], sum[g][h], a_scale, w_scale[h], &c->dot);
      acc[g][h] = s.min_bytes ? wasm_f32x4_add(y, wasm_f32x4_mul(a_sum, w_min[h])) : y;
    }
  }
}

/* Adds 32 k of G tiles, from k on. */
INLINE void add_32(bq_tile_shape s, int G, const uint8_t *const *tile, uint32_t k, const uint8_t *q,
                   const super_scales *n, const matmul_constants *c, v128_t acc[][2]) {
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

/* Adds G whole tiles; `left` blocks of 32 k remain in the row, from these tiles on. */
INLINE void add_tiles(bq_tile_shape s, int G, const uint8_t *const *tile, size_t left,
                      const uint8_t *q, const matmul_constants *c, v128_t acc[][2]) {
  super_scales n[MAX_GROUPS];
  if (s.scale_bytes == 1) {
    UNROLL for (int g = 0; g < G; g++) load_super_scales(s, tile[g], c, &n[g]);
    const uint32_t end = left < s.step / 32 ? (uint32_t)left * 32 : s.step;
    KEEP_LOOP for (uint32_t k = 0; k < end; k += 32, q += PANEL_TOKEN)
      add_32(s, G, tile, k, q, n, c, acc);
    return;
  }
  KEEP_LOOP for (uint32_t k = 0; k < s.step; k += 32, q += PANEL_TOKEN)
    add_32(s, G, tile, k, q, n, c, acc);
}

/* Destination of results: the first `rows` of a group's 8 rows, for the first `n` groups (all, or
 * one; several groups always have 8 rows), `gap` floats apart. */
typedef struct output {
  float *y;
  size_t rows, n, gap;
} output;

/* Computes G groups of 8 rows for one token; their tiles are `gap` bytes apart. */
INLINE void gemv_groups(bq_tile_shape s, int G, const uint8_t *tiles, size_t gap, size_t cols,
                        const uint8_t *panel, const matmul_constants *c, output out) {
  const size_t n_tiles = bq_tiles_per_row(s, cols), blocks = panel_blocks(cols);
  v128_t acc[MAX_GROUPS][2];
  UNROLL for (int g = 0; g < G; g++)
    acc[g][0] = acc[g][1] = simd_zero();
  for (size_t i = 0; i < n_tiles; i++) {
    const uint8_t *tile[MAX_GROUPS];
    UNROLL for (int g = 0; g < G; g++) tile[g] = tiles + (size_t)g * gap;
    add_tiles(s, G, tile, blocks - i * (s.step / 32), panel, c, acc);
    tiles += bq_tile_size(s);
    panel += s.step / 32 * PANEL_TOKEN;
  }
  UNROLL for (int g = 0; g < G; g++)
    if ((size_t)g < out.n)
      store_rows(out.y + (size_t)g * out.gap, acc[g], g > 0 ? BQ_TILE_ROWS : out.rows);
}

/* GEMV: y[rows] for one token. Each weight is used once and is usually read from memory. Reading
 * several distant streams is faster than one, because hardware prefetches each of them (within its
 * 4 KB page), and groups share the work on activations. So the groups of 8 rows are divided into
 * runs, as many as there are unrolled groups, and each pass computes one group of each run. For the
 * remaining groups there is a pass over the last groups, some of which are computed twice. If there
 * are too few groups, or for a partial one, a pass computes one group, repeated. */
INLINE void gemv_one(bq_tile_shape s, const uint8_t *tiles, size_t cols, const uint8_t *panel,
                     const matmul_constants *c, size_t rows, float *y) {
  const size_t all = (size_t)unrolled_groups(s),
               group = bq_tiles_per_row(s, cols) * bq_tile_size(s);
  const size_t full_groups = rows / BQ_TILE_ROWS, run = full_groups / all;
  for (size_t i = 0, next; i * BQ_TILE_ROWS < rows; i = next) {
    size_t first = i, gap = 0, n = 1;
    next = i + 1;
    if (i < run) {
      gap = run;
      n = all;
      if (next == run) next = run * all;
    } else if (run > 0 && i < full_groups) {
      first = full_groups - all;
      gap = 1;
      n = all;
      next = full_groups;
    }
    const size_t left = rows - first * BQ_TILE_ROWS;
    const output out = {y + first * BQ_TILE_ROWS, left < BQ_TILE_ROWS ? left : BQ_TILE_ROWS, n,
                        gap * BQ_TILE_ROWS};
    gemv_groups(s, unrolled_groups(s), tiles + first * group, gap * group, cols, panel, c, out);
  }
}

/* --- several tokens --------------------------------------------------------------------------- */

/* Whether the scales of a block of 32 k are loaded once for all tokens of a batch and kept on the
 * stack. (Compilers don't hoist the loads, because of the stores to sums.) For types with few
 * scales this costs more for a batch of 4 tokens than it saves for 32, so these types reload their
 * scales for every 4 tokens. */
INLINE bool scales_once(bq_tile_shape s) {
  return s.min_bytes || (bq_has_nibbles(s) && s.block == 16);
}

/* Scales and minimums of the block of weight k. Sub-block scales are multiplied by `super`. */
INLINE super_scales block_scales_at(bq_tile_shape s, const uint8_t *tile, uint32_t k,
                                    const super_scales *super, const matmul_constants *c) {
  super_scales to;
  load_scales(s.scale_bytes, tile + bq_tile_scale_at(s, 0, k), super->scale, c, to.scale);
  if (s.scale_bytes == 2) apply_unit(s, c, to.scale);
  if (s.min_bytes) load_scales(s.min_bytes, tile + bq_tile_min_at(s, 0, k), super->min, c, to.min);
  return to;
}

/* Epilogue of a block: adds the dots sum[h] of one token of a pair to its 8 rows. `sums` points to
 * the token's sums in the panel. */
INLINE void add_token(bq_tile_shape s, int part, const uint8_t *sums, const v128_t sum[2],
                      const super_scales *n, const matmul_constants *c, v128_t acc[2]) {
  const v128_t a = wasm_v128_load32_splat(sums - 8);
  const v128_t a_sum = s.min_bytes ? min_factor(part, 2, sums) : simd_zero();
  UNROLL for (int h = 0; h < 2; h++) {
    v128_t y = add_scaled(dot_bits(s), 2, acc[h], sum[h], a, n->scale[h], &c->dot);
    acc[h] = s.min_bytes ? wasm_f32x4_add(y, wasm_f32x4_mul(a_sum, n->min[h])) : y;
  }
}

/* Address of the weights of 32 k of a tile, from k on. Codes are looked up, and weights below 4
 * bits unpacked, to `to`. */
INLINE const uint8_t *weights_at(bq_tile_shape s, int part, const uint8_t *tile, uint32_t k,
                                 const matmul_constants *c, uint8_t to[TILE_BYTES_32]) {
  const uint8_t *w = tile + bq_tile_weights_at(s) + k / 32 * BQ_TILE_ROWS * bq_tile_run_bytes(s);
  if (bq_is_sub4(s)) return unpack_sub4(s, w, &c->dot, to);
  if (s.bits != BQ_CODES) return w;
  look_up_codes(part, w, c->codes, to);
  return to;
}

/* Adds 32 k of a tile, from k on, or `part` of them, times 2 * P tokens: acc[t][h]. `w`: their
 * weights. `loaded`: their scales, if scales_once; otherwise they are loaded here, with super-block
 * scales `super`. Each weight is unpacked once, while it is in a register. */
INLINE void add_pairs(bq_tile_shape s, int P, int part, const uint8_t *tile, uint32_t k,
                      const uint8_t *w, const uint8_t *const *q, const super_scales *super,
                      const super_scales *loaded, const matmul_constants *c, v128_t (*acc)[2]) {
  v128_t sum[2 * MAX_PAIRS][2];
  const uint8_t *sums[2 * MAX_PAIRS];
  UNROLL for (int t = 0; t < 2 * P; t++) {
    sums[t] = q[t / 2] + 2 * PANEL_Q + 8 + 4 * (t % 2);
    sum[t][0] = sum[t][1] = start(s, part, 2, sums[t]);
  }
  if (bq_is_sub4(s)) dot_sub4_pairs(s, P, w, q, &c->dot, sum);
  else dot_pairs(dot_bits(s), P, part, w, q, &c->dot, sum);
  const super_scales n =
      scales_once(s) ? *loaded : block_scales_at(s, tile, k + (part == HIGH ? 16 : 0), super, c);
  UNROLL for (int t = 0; t < 2 * P; t++) add_token(s, part, sums[t], sum[t], &n, c, acc[t]);
}

/* Adds 32 k, in two parts if a block has 16 weights. */
INLINE void add_32_of_pairs(bq_tile_shape s, int P, const uint8_t *tile, uint32_t k,
                            const uint8_t *w, const uint8_t *const *q, const super_scales *super,
                            const super_scales loaded[2], const matmul_constants *c,
                            v128_t (*acc)[2]) {
  if (s.block != 16) {
    add_pairs(s, P, ALL, tile, k, w, q, super, &loaded[0], c, acc);
    return;
  }
  add_pairs(s, P, LOW, tile, k, w, q, super, &loaded[0], c, acc);
  add_pairs(s, P, HIGH, tile, k, w, q, super, &loaded[1], c, acc);
}

/* Adds 32 k of a tile times `tokens` tokens, rounded up to pairs, which are `pair` bytes apart. */
INLINE void add_32_of_batch(bq_tile_shape s, const uint8_t *tile, uint32_t k, const uint8_t *panel,
                            size_t pair, size_t tokens, const super_scales *super,
                            const matmul_constants *c, v128_t (*acc)[2]) {
  super_scales loaded[2];
  if (scales_once(s)) loaded[0] = block_scales_at(s, tile, k, super, c);
  if (scales_once(s) && s.block == 16) loaded[1] = block_scales_at(s, tile, k + 16, super, c);
  /* Types without minimums read the scales from memory, so that V8 has all registers for dot
   * products. With minimums it would spill more. */
  const super_scales *ready = scales_once(s) && !s.min_bytes ? simd_hide(loaded) : loaded;
  uint8_t looked_up[TILE_BYTES_32];
  const uint8_t *w = weights_at(s, ALL, tile, k, c, looked_up);
  KEEP_LOOP for (; tokens > 2; acc += 4, panel += 2 * pair) {
    const uint8_t *const q[] = {panel, panel + pair};
    add_32_of_pairs(s, 2, tile, k, w, q, super, ready, c, acc);
    tokens -= tokens < 4 ? tokens : 4;
  }
  const uint8_t *const q[] = {panel};
  if (tokens) add_32_of_pairs(s, 1, tile, k, w, q, super, ready, c, acc);
}

/* GEMM: acc[t] += a group of 8 rows times 2 to BATCH_TOKENS tokens. Weights are read as one stream:
 * the time between two loads is too long for hardware to prefetch several streams. */
INLINE void gemm_batch(bq_tile_shape s, const uint8_t *tile, size_t cols, const uint8_t *panel,
                       size_t tokens, bq_type type, v128_t (*acc)[2]) {
  const matmul_constants c = load_matmul_constants(s, type);
  const size_t pair = panel_size(cols, 2);
  super_scales n;
  for (size_t left = row_blocks(s, cols); left; tile += bq_tile_size(s)) {
    const size_t blocks = left < s.step / 32 ? left : s.step / 32;
    if (s.scale_bytes == 1) load_super_scales(s, tile, &c, &n);
    KEEP_LOOP for (uint32_t k = 0; k < blocks * 32; k += 32, panel += 2 * PANEL_TOKEN)
      add_32_of_batch(s, tile, k, panel, pair, tokens, &n, &c, acc);
    left -= blocks;
  }
}

typedef void gemm_batch_fn(const uint8_t *tile, size_t cols, const uint8_t *panel, size_t tokens,
                           bq_type type, v128_t (*acc)[2]);
typedef void gemm_pair_fn(const uint8_t *tiles, size_t gap, size_t cols, const uint8_t *panel,
                          bq_type type, v128_t (*acc)[2][2]);

/* Maximum number of tokens that a weight is multiplied with while it is in the L1 cache. */
enum { BATCH_TOKENS = 32 };

/* Stores the results of one group; y points to its first row, of which `rows` exist. */
static __attribute__((noinline)) void store_tokens(float *y, size_t y_stride, size_t tokens,
                                                   v128_t (*acc)[2], size_t rows) {
  for (size_t t = 0; t < tokens; t++) store_rows(y + t * y_stride, acc[t], rows);
}

static __attribute__((noinline)) void matmul_batch(gemm_batch_fn *gemm, size_t group,
                                                   const bq_matrix *m, const bq_batch *a,
                                                   size_t tokens, size_t row0, size_t row1,
                                                   float *y, size_t y_stride) {
  v128_t acc[BATCH_TOKENS][2];
  for (size_t from = 0, n; from < tokens; from += n) {
    n = tokens - from < BATCH_TOKENS ? tokens - from : BATCH_TOKENS;
    for (size_t row = row0; row < row1; row += BQ_TILE_ROWS) {
      memset(acc, 0, (n + n % 2) * sizeof *acc);
      gemm(m->data + row / BQ_TILE_ROWS * group, m->cols, a->panel + panel_size(m->cols, from),
               n, m->type, acc);
      store_tokens(y + from * y_stride + row, y_stride, n, acc, row1 - row);
    }
  }
}

#ifdef HAS_PAIR_KERNEL
#include "kernels/simd_pair.h"
#else
#define PAIR_FN(name, ...)
#define PAIR_OF(name) NULL
INLINE bool is_single_pair(bq_tile_shape s, size_t tokens) { return (void)s, (void)tokens, false; }
INLINE void matmul_pair(gemm_pair_fn *gemm, size_t group, const bq_matrix *m, const bq_batch *a,
                        size_t row0, size_t row1, float *y, size_t y_stride) {
  (void)gemm, (void)group, (void)m, (void)a, (void)row0, (void)row1, (void)y, (void)y_stride;
}
#endif

/* GEMV of `rows` rows, beginning at `tiles`. */
typedef void gemv_fn(const uint8_t *tiles, size_t cols, const uint8_t *panel, bq_type type,
                     size_t rows, float *y);

INLINE void matmul_tiled(bq_tile_shape s, gemv_fn *gemv, gemm_batch_fn *gemm, gemm_pair_fn *pair,
                         const bq_matrix *m, const bq_batch *a, size_t row0, size_t row1, float *y,
                         size_t y_stride) {
  const size_t group = bq_tiles_per_row(s, m->cols) * bq_tile_size(s);
  const size_t alone = a->tokens % BQ_PANEL_TOKENS == 1, last = a->tokens - alone;
  if (is_single_pair(s, last)) matmul_pair(pair, group, m, a, row0, row1, y, y_stride);
  else if (last) matmul_batch(gemm, group, m, a, last, row0, row1, y, y_stride);
  if (!alone) return;
  gemv(m->data + row0 / BQ_TILE_ROWS * group, m->cols, a->panel + panel_size(m->cols, last),
       m->type, row1 - row0, y + last * y_stride + row0);
}

/* Defines the matmul of a type and its entry in the table. GEMV isn't inlined, so that types which
 * differ only in their codes share it. */
#define MATMUL_SLOT(NAME, name, ...)                                                             \
  static __attribute__((noinline)) void gemv_##name(const uint8_t *tiles, size_t cols,           \
                                                    const uint8_t *panel, bq_type type,          \
                                                    size_t rows, float *y) {                     \
    const matmul_constants c = load_matmul_constants(BQ_TILE_SHAPE(__VA_ARGS__), type);          \
    gemv_one(BQ_TILE_SHAPE(__VA_ARGS__), tiles, cols, panel, &c, rows, y);                       \
  }                                                                                              \
  static __attribute__((noinline)) void gemm_batch_##name(                                       \
      const uint8_t *tile, size_t cols, const uint8_t *panel, size_t tokens, bq_type type,       \
      v128_t(*acc)[2]) {                                                                         \
    gemm_batch(BQ_TILE_SHAPE(__VA_ARGS__), tile, cols, panel, tokens, type, acc);                \
  }                                                                                              \
  PAIR_FN(name, __VA_ARGS__)                                                                     \
  static void matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,     \
                            float *y, size_t y_stride) {                                         \
    matmul_tiled(BQ_TILE_SHAPE(__VA_ARGS__), gemv_##name, gemm_batch_##name, PAIR_OF(name), w,   \
                 a, row0, row1, y, y_stride);                                                    \
  }
#ifndef BQ_KERNEL_TYPES /* emscripten.mk defines it for modules that omit some types */
#define BQ_KERNEL_TYPES BQ_TILED_TYPES
#endif
BQ_KERNEL_TYPES(MATMUL_SLOT)
#define TILED_ROW(NAME, name, ...)                           \
  [BQ_TYPE_##NAME] = {matmul_##name, bq_scalar_row_tiled, true, \
                      GROUPS_AT_ONCE(__VA_ARGS__)},

#ifdef BQ_RARE_MODULE /* instead of a table: web/kernels.c adds these to the table of another module
                         */
#define RARE_CASE(NAME, name, ...) \
  case BQ_TYPE_##NAME: return matmul_##name;
bq_matmul_fn *bq_rare_matmul(uint32_t type) {
  switch (type) {
    BQ_KERNEL_TYPES(RARE_CASE)
  default: return NULL;
  }
}
#endif

/* --- activations ---------------------------------------------------------------------------- */

/* 32 quantized activations as signed bytes, k 0...15 and 16...31, and their scale (formulas:
 * kernels.h). */
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

/* The maximum magnitude of 32 numbers. */
INLINE float max_magnitude(const float *x) {
  v128_t half[2] = {simd_zero(), simd_zero()};
  UNROLL for (int i = 0; i < 8; i++)
    half[i % 2] = wasm_f32x4_pmax(half[i % 2], wasm_f32x4_abs(wasm_v128_load(x + 4 * i)));
  v128_t m = wasm_f32x4_pmax(half[0], half[1]);
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
  return wasm_f32x4_extract_lane(m, 0);
}

INLINE quantized quantize_32(const float *x, float max) {
  if (!(max >= 0x1p-100f)) return (quantized){simd_zero(), simd_zero(), 0.0f};
  v128_t inv = wasm_f32x4_splat(127.0f / max);
  return (quantized){round_sixteen(x, inv), round_sixteen(x + 16, inv), max / 127.0f};
}

/* Sums over the 32 activations of a block: all, those of k 0...15, and the negative ones. */
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

/* Writes the scale and sums of token t of T into the block at `block`. */
INLINE void put_scales(uint8_t *block, size_t T, size_t t, quantized a) {
  const byte_sums sums = sum_bytes(a.low, a.high);
  const float scale = a.scale * (1.0f / SUM_UNIT);
  const int32_t all = SUM_START - 8 * SUM_UNIT * sums.all, low = -8 * SUM_UNIT * sums.low;
  const int32_t negative = SUM_START - SUM_UNIT * sums.negative;
  const float scaled[] = {(float)sums.all * a.scale, (float)sums.low * a.scale,
                          (float)(sums.all - sums.low) * a.scale};
  block += T * PANEL_Q + 4 * t;
  memcpy(block, &scale, 4);
  memcpy(block + 4 * T, &all, 4);
  memcpy(block + 8 * T, &low, 4);
  memcpy(block + 12 * T, &negative, 4);
  UNROLL for (int i = 0; i < 3; i++) memcpy(block + (16 + 4 * i) * T, &scaled[i], 4);
}

/* Quantizes one block of T rows to a panel block. The maxima of all rows are computed first,
 * because rounding depends on them. */
INLINE void quantize_block(size_t T, const float *x, size_t x_stride, uint8_t *block) {
  v128_t quads[2][PANEL_Q / 16];
  float max[2];
  UNROLL for (size_t t = 0; t < T; t++) max[t] = max_magnitude(x + t * x_stride);
  UNROLL for (size_t t = 0; t < T; t++) {
    const quantized a = quantize_32(x + t * x_stride, max[t]);
    make_quads(a.low, a.high, quads[t]);
    put_scales(block, T, t, a);
  }
  UNROLL for (int i = 0; i < PANEL_Q / 16; i++) {
    if (T == 1) {
      wasm_v128_store(block + 16 * i, quads[0][i]);
      continue;
    }
    wasm_v128_store(block + 32 * i, wasm_i32x4_shuffle(quads[0][i], quads[1][i], 0, 4, 1, 5));
    wasm_v128_store(block + 32 * i + 16, wasm_i32x4_shuffle(quads[0][i], quads[1][i], 2, 6, 3, 7));
  }
  put_panel_extra(block + T * (PANEL_Q + PANEL_SUMS), T * PANEL_Q, block);
}

/* Copies block b of a row of k activations, padded with zeros. */
static __attribute__((noinline)) void load_row_end(const float *x, size_t b, size_t k, float *to) {
  KEEP_LOOP for (size_t i = 0; i < 32; i++) to[i] = 32 * b + i < k ? x[32 * b + i] : 0;
}

/* Quantizes T rows of k activations. */
INLINE void quantize_rows(size_t T, const float *x, size_t x_stride, size_t k, uint8_t *block) {
  KEEP_LOOP for (size_t b = 0; b < panel_blocks(k); b++, block += T * PANEL_TOKEN) {
    const bool is_whole = b < k / 32;
    float part[64];
    if (!is_whole)
      for (size_t t = 0; t < T; t++) load_row_end(x + t * x_stride, b, k, part + 32 * t);
    quantize_block(T, is_whole ? x + 32 * b : part, is_whole ? x_stride : 32, block);
  }
}

static size_t panel_bytes(size_t k, size_t tokens) { return panel_size(k, tokens); }

/* An odd last token among several is paired with itself. */
static void quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  for (size_t t = 0; t < tokens; t += 2) {
    const float *row = x + t * x_stride;
    uint8_t *to = panel + panel_size(k, t);
    const size_t next = t + 1 < tokens ? x_stride : 0;
    if (next || t % BQ_PANEL_TOKENS) quantize_rows(2, row, next, k, to);
    else quantize_rows(1, row, 0, k, to);
  }
}

#endif
