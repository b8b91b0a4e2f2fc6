/* i8 attention, written once for the simd128 and relaxed tables. Each lane belongs to one of eight
 * positions (of keys) or eight dims (of values); up to four queries share every load.
 *
 * Queries and softmax weights are prepared as panels: [blocks of 32][queries] of 32 8-bit numbers
 * each, in a layout that the including file defines. Each block ends with the queries' scales,
 * [queries] f32, and, for keys, their initial sums, [queries] i32.
 *
 * The including file defines (all inlined):
 *   enum { KEY_BYTES, VALUE_BYTES }   bytes of 32 numbers, multiples of 32
 *   UNIT                              factor of products in sums: 1 or a power of 2
 *   void put_keys(uint8_t *p, v128_t low, v128_t high);     stores 32 numbers -127...127
 *   void put_values(uint8_t *p, v128_t low, v128_t high);   stores 32 numbers 0...127
 *   int32_t key_initial_sum(v128_t low, v128_t high);       initial value of a sum over 32 numbers
 *   void dot_keys(int H, v128_t w0, v128_t w1, const uint8_t *quad, v128_t sum[4][2]);
 *   void dot_values(...);                                   the same for values
 * dot_*: sum[h][i] += products of query h with the rows 4i...4i+3 of the eight; w0 and w1 hold four
 * bytes of each row, `quad` is the address of quad j in a panel's block: the block plus 4j bytes.
 */
#ifndef BQ_KERNELS_SIMD_ATTEND_H
#define BQ_KERNELS_SIMD_ATTEND_H

#include "kernels/attend.h"
#include "kernels/kv.h"
#include "kernels/simd.h"

INLINE void put_keys(uint8_t *p, v128_t low, v128_t high);
INLINE void put_values(uint8_t *p, v128_t low, v128_t high);
INLINE int32_t key_initial_sum(v128_t low, v128_t high);
INLINE void dot_keys(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                     v128_t sum[BQ_ATTEND_ROWS][2]);
INLINE void dot_values(int H, v128_t w0, v128_t w1, const uint8_t *quad,
                       v128_t sum[BQ_ATTEND_ROWS][2]);

INLINE size_t key_panel(size_t H) { return H * KEY_BYTES + 8 * H; } /* bytes per block */
INLINE size_t value_panel(size_t H) { return H * VALUE_BYTES + 4 * H; }

/* --- quantizing ------------------------------------------------------------------------------- */

/* The maximum magnitude of 32 numbers, in all lanes. */
static __attribute__((noinline)) v128_t max_magnitude(const v128_t x[8]) {
  v128_t m = simd_zero();
  UNROLL for (int i = 0; i < 8; i++) m = wasm_f32x4_pmax(m, wasm_f32x4_abs(x[i]));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
  return wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
}

/* 16 numbers as signed bytes, clamped to least...127; NaN becomes least. */
INLINE v128_t round_sixteen(const v128_t x[4], v128_t inv, v128_t least) {
  v128_t r[4];
  UNROLL for (int i = 0; i < 4; i++) {
    v128_t v = wasm_f32x4_pmax(least, wasm_f32x4_mul(x[i], inv));
    v = wasm_f32x4_pmin(wasm_f32x4_const_splat(127.0f), v);
    r[i] = wasm_i32x4_sub(wasm_f32x4_add(v, wasm_f32x4_const_splat(0x1.8p23f)),
                          wasm_i32x4_const_splat(0x4b400000));
  }
  return wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(r[0], r[1]),
                                 wasm_i16x8_narrow_i32x4(r[2], r[3]));
}

typedef struct quantized {
  v128_t low, high; /* 16 bytes each */
  float scale;
} quantized;

INLINE quantized quantize_32(const v128_t x[8], v128_t least) {
  const float m = wasm_f32x4_extract_lane(max_magnitude(x), 0);
  if (!(m >= 0x1p-100f)) return (quantized){simd_zero(), simd_zero(), 0.0f};
  v128_t inv = wasm_f32x4_splat(127.0f / m);
  return (quantized){round_sixteen(x, inv, least), round_sixteen(x + 4, inv, least), m / 127.0f};
}

/* Floats d...d+31 of n, padded with zeros. */
static __attribute__((noinline)) void load_block(const float *x, size_t d, size_t n,
                                                 v128_t block[8]) {
  KEEP_LOOP for (int i = 0; i < 8; i++)
    block[i] = d + 4 * i < n ? simd_load(x, d + 4 * i, n) : simd_zero();
}

/* Stores query h of H. Like all functions that run once per query, it isn't inlined: only the loops
 * over the cache are worth a copy per H. */
static __attribute__((noinline)) void put_query(const float *q, size_t head_dim, size_t h, size_t H,
                                                uint8_t *panel) {
  for (size_t d = 0; d < head_dim; d += BQ_KV_SCALED, panel += key_panel(H)) {
    v128_t x[8];
    load_block(q, d, head_dim, x);
    const quantized a = quantize_32(x, wasm_f32x4_const_splat(-127.0f));
    put_keys(panel + h * KEY_BYTES, a.low, a.high);
    const float scale = a.scale / UNIT;
    const int32_t offset = key_initial_sum(a.low, a.high);
    memcpy(panel + H * KEY_BYTES + 4 * h, &scale, 4);
    memcpy(panel + H * KEY_BYTES + 4 * (H + h), &offset, 4);
  }
}

/* 16 softmax weights as bytes, at most 127; NaN becomes 0. */
INLINE v128_t round_weights(const v128_t x[4], v128_t inv) {
  v128_t r[4];
  UNROLL for (int i = 0; i < 4; i++) {
    v128_t v = wasm_f32x4_pmax(simd_zero(), wasm_f32x4_mul(x[i], inv));
    r[i] = wasm_i32x4_sub(wasm_f32x4_add(v, wasm_f32x4_const_splat(0x1.8p23f)),
                          wasm_i32x4_const_splat(0x4b400000));
  }
  return wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(r[0], r[1]),
                                 wasm_i16x8_narrow_i32x4(r[2], r[3]));
}

/* Quantizes 32 exponentials times the values' scales. Scales of positions that aren't visible are
 * arbitrary: multiplied by the exponential 0 they give 0 or NaN, and both become 0. */
INLINE quantized quantize_weights(const float *e, const float *scales) {
  v128_t x[8], half[2] = {simd_zero(), simd_zero()};
  UNROLL for (int i = 0; i < 8; i++) {
    x[i] = wasm_f32x4_mul(wasm_v128_load(e + 4 * i), wasm_v128_load(scales + 4 * i));
    half[i % 2] = wasm_f32x4_pmax(half[i % 2], x[i]);
  }
  v128_t m = wasm_f32x4_pmax(half[0], half[1]);
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 2, 3, 0, 1));
  m = wasm_f32x4_pmax(m, wasm_i32x4_shuffle(m, m, 1, 0, 3, 2));
  const float max = wasm_f32x4_extract_lane(m, 0);
  if (!(max >= 0x1p-100f)) return (quantized){simd_zero(), simd_zero(), 0.0f};
  v128_t inv = wasm_f32x4_splat(127.0f / max);
  return (quantized){round_weights(x, inv), round_weights(x + 4, inv), max / 127.0f};
}

/* Converts the scores of query h, which is row `row`, to a panel of weights for `blocks` times 32
 * positions from `base` on. The scores begin at the row's own base; scores after its end are
 * overwritten. Returns 1 / sum of the exponentials. */
static __attribute__((noinline)) float put_weights(const bq_attend_job *job, size_t row,
                                                   size_t base, float *scores, size_t blocks,
                                                   size_t h, size_t H, uint8_t *panel) {
  const size_t own = bq_row_base(job, row), n = bq_row_end(job, row) - own;
  const size_t first = (own - base) / BQ_KV_SCALED, end = first + bq_kv_up(n, BQ_KV_SCALED);
  bq_simd128_adjust_scores(job, row, scores);
  const float inv = 1.0f / bq_simd128_exponentials(scores, n, bq_row_sink(job, row));
  bq_attend_add_sums(job, row, scores, inv);
  for (size_t b = 0; b < blocks; b++, panel += value_panel(H)) {
    quantized w = {simd_zero(), simd_zero(), 0.0f};
    const size_t at = (b - first) * BQ_KV_SCALED;
    if (b >= first && b < end)
      w = quantize_weights(scores + at, bq_kv_scale(&job->kv, own + at));
    put_values(panel + h * VALUE_BYTES, w.low, w.high);
    const float scale = w.scale / UNIT;
    memcpy(panel + H * VALUE_BYTES + 4 * h, &scale, 4);
  }
  return inv;
}

/* --- products --------------------------------------------------------------------------------- */

/* Hides the accumulators from the compiler, so that they stay in memory: the integer sums need the
 * registers. */
INLINE v128_t (*hide_acc(v128_t acc[BQ_ATTEND_ROWS][2]))[2] {
  __asm__("" : "+r"(acc));
  return acc;
}

/* Prefetches 256 bytes: loads a byte of each cache line. */
INLINE void touch(const uint8_t *p) {
  UNROLL for (int i = 0; i < 256; i += 64) (void)*(const volatile uint8_t *)(p + i);
}

/* Adds a block of `quads` groups of 4 dims; the loop over a full block (8) is unrolled. */
INLINE void dot_key_block(int H, const uint8_t *k, size_t quads, const uint8_t *p,
                          v128_t sum[BQ_ATTEND_ROWS][2]) {
  if (quads >= 8) {
    UNROLL for (int j = 0; j < 8; j++)
      dot_keys(H, wasm_v128_load(k + 32 * j), wasm_v128_load(k + 32 * j + 16), p + 4 * j, sum);
  } else {
    KEEP_LOOP for (size_t j = 0; j < quads; j++)
      dot_keys(H, wasm_v128_load(k + 32 * j), wasm_v128_load(k + 32 * j + 16), p + 4 * j, sum);
  }
}

/* Computes scores[h][8g...8g+7] for H queries and all groups g of 8 keys, the first of which holds
 * position `from`. Four streams are read alternately: hardware prefetches each stream, but not
 * beyond its 4 KB page. */
INLINE void score_groups(int H, const bq_kv_view *kv, size_t from, size_t groups,
                         const uint8_t *panel, float scale, float *scores, size_t stride) {
  enum { STREAMS = 4 };
  const simd_f16_constants f16 = simd_f16_prepare();
  const size_t dims = bq_kv_dims(kv->head_dim), blocks = bq_kv_up(dims, BQ_KV_SCALED);
  const size_t apart = bq_kv_up(groups, STREAMS);
  v128_t memory[BQ_ATTEND_ROWS][2], (*acc)[2] = H >= 3 ? hide_acc(memory) : memory;
  for (size_t i = 0, g = 0; i < apart; g = g + apart < groups ? g + apart : ++i) {
    const uint8_t *group = bq_kv_group(kv, from + 8 * g), *k = group + blocks * 16, *p = panel;
    UNROLL for (int h = 0; h < H; h++) acc[h][0] = acc[h][1] = simd_zero();
    for (size_t b = 0; b < blocks; b++, p += key_panel(H)) {
      const uint8_t *scales = p + H * KEY_BYTES;
      const size_t quads = (dims - b * BQ_KV_SCALED) / 4;
      v128_t sum[BQ_ATTEND_ROWS][2];
      UNROLL for (int h = 0; h < H; h++)
        sum[h][0] = sum[h][1] = wasm_v128_load32_splat(scales + 4 * (H + h));
      dot_key_block(H, k, quads, p, sum);
      k += 32 * (quads < 8 ? quads : 8);
      v128_t k0 = simd_load_f16_finite(group + 16 * b, &f16);
      v128_t k1 = simd_load_f16_finite(group + 16 * b + 8, &f16);
      UNROLL for (int h = 0; h < H; h++) {
        v128_t q = wasm_v128_load32_splat(scales + 4 * h);
        v128_t s0 = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[h][0]), q);
        v128_t s1 = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[h][1]), q);
        acc[h][0] = wasm_f32x4_add(acc[h][0], wasm_f32x4_mul(s0, k0));
        acc[h][1] = wasm_f32x4_add(acc[h][1], wasm_f32x4_mul(s1, k1));
      }
    }
    v128_t factor = wasm_f32x4_splat(scale);
    UNROLL for (int h = 0; h < H; h++) {
      wasm_v128_store(scores + h * stride + 8 * g, wasm_f32x4_mul(acc[h][0], factor));
      wasm_v128_store(scores + h * stride + 8 * g + 4, wasm_f32x4_mul(acc[h][1], factor));
    }
  }
}

/* sums[h] += the weighted values of n consecutive tiles. `ahead` is the address of n tiles that are
 * needed next, and are prefetched. */
INLINE void mix_tiles(int H, const uint8_t *tile, size_t n, const uint8_t *ahead,
                      const uint8_t *panel, bool first, v128_t (*sums)[2]) {
  v128_t memory[BQ_ATTEND_ROWS][2], (*acc)[2] = H >= 4 ? hide_acc(memory) : memory;
  UNROLL for (int h = 0; h < H; h++)
    UNROLL for (int i = 0; i < 2; i++) acc[h][i] = first ? simd_zero() : sums[h][i];
  for (; n > 0; n--, tile += BQ_KV_TILE, ahead += BQ_KV_TILE, panel += value_panel(H)) {
    v128_t sum[BQ_ATTEND_ROWS][2];
    touch(ahead);
    UNROLL for (int h = 0; h < H; h++) sum[h][0] = sum[h][1] = simd_zero();
    UNROLL for (int j = 0; j < 8; j++)
      dot_values(H, wasm_v128_load(tile + 32 * j), wasm_v128_load(tile + 32 * j + 16),
                 panel + 4 * j, sum);
    UNROLL for (int h = 0; h < H; h++) {
      v128_t w = wasm_v128_load32_splat(panel + H * VALUE_BYTES + 4 * h);
      UNROLL for (int i = 0; i < 2; i++)
        acc[h][i] = wasm_f32x4_add(acc[h][i],
                                   wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum[h][i]), w));
    }
  }
  UNROLL for (int h = 0; h < H; h++) sums[h][0] = acc[h][0], sums[h][1] = acc[h][1];
}

/* sums[h] = the weighted values of the positions [from, end), [octets][H][8], for the dims from
 * 8 * first to 8 * last; `from` is a multiple of 32. */
INLINE void mix_positions(int H, const bq_kv_view *kv, size_t from, size_t end, size_t first,
                          size_t last, const uint8_t *panel, v128_t *sums) {
  for (size_t at = from, next; at < end; at = next) {
    next = at + BQ_KV_BLOCK - bq_kv_in_block(at);
    const size_t n = bq_kv_up((next < end ? next : end) - at, BQ_KV_SCALED);
    for (size_t g = first; g < last; g++) {
      const uint8_t *tile = bq_kv_tile(kv, at, g), *ahead = tile + BQ_KV_TILES * BQ_KV_TILE;
      if (g + 1 == last) ahead = next < end ? bq_kv_tile(kv, next, first) : tile;
      mix_tiles(H, tile, n, ahead, panel, at == from,
                (v128_t(*)[2])(sums + (g - first) * H * 2));
    }
    panel += n * value_panel(H);
  }
}

/* --- rows ------------------------------------------------------------------------------------- */

INLINE void touch_lines(const uint8_t *p, size_t bytes) {
  KEEP_LOOP for (const uint8_t *end = p + bytes; p < end; p += 64)
    (void)*(const volatile uint8_t *)p;
}

/* Prefetches the data that a token reads of one block. Since its last use, all weights of the model
 * have been read, so it is in no near cache, and hardware prefetching starts late on such short
 * streams. */
static __attribute__((noinline)) void touch_block(const bq_kv_view *kv, size_t from, size_t n) {
  const uint8_t *tile = bq_kv_tile(kv, from, 0);
  touch_lines(bq_kv_group(kv, from), bq_kv_up(n, 8) * bq_kv_group_bytes(kv->head_dim));
  for (size_t dims = 0; dims < kv->head_dim; dims += 8, tile += BQ_KV_TILES * BQ_KV_TILE)
    touch_lines(tile, n * 8);
}

/* Computes all passes of H rows from `row` on, or the part of a pass that job->part names. */
INLINE void attend_rows(int H, const bq_attend_job *job, size_t row) {
  const bq_kv_view *kv = &job->kv;
  const size_t dim = kv->head_dim, base = bq_row_base(job, row), end = bq_row_end(job, row + H - 1);
  const size_t blocks = bq_kv_up(end - base, BQ_KV_SCALED), stride = blocks * BQ_KV_SCALED;
  const bq_attend_part *part = BQ_HAS_THREADS ? job->part : NULL;
  v128_t *sums = job->scratch;
  uint8_t *own = (uint8_t *)(sums + H * bq_kv_dims(dim) / 4);
  float memory[BQ_ATTEND_ROWS], *inv = part ? part->shared : memory;
  float *scores = part ? inv + 4 * H : (float *)(void *)own;
  uint8_t *panel = (uint8_t *)(scores + H * stride);
  if (!part || part->pass == BQ_ATTEND_SCORES) {
    const size_t first = part ? part->from * BQ_KV_SCALED : 0;
    const size_t last = part && part->to < blocks ? part->to * BQ_KV_SCALED : end - base;
    uint8_t *keys = part ? own : panel;
    if (!part && job->row1 - job->row0 <= BQ_ATTEND_ROWS &&
        end - base <= BQ_KV_BLOCK - bq_kv_in_block(base))
      touch_block(kv, base, end - base);
    for (int h = 0; h < H; h++) put_query(bq_row_query(job, row + h), dim, h, H, keys);
    score_groups(H, kv, base + first, bq_kv_up(last - first, 8), keys, job->scale, scores + first,
                 stride);
  }
  if (!part || part->pass == BQ_ATTEND_WEIGHTS) {
    const size_t last = part ? part->to : (size_t)H;
    for (size_t h = part ? part->from : 0; h < last; h++)
      inv[h] = put_weights(job, row + h, base,
                           scores + h * stride + (bq_row_base(job, row + h) - base), blocks, h, H,
                           panel);
  }
  if (!part || part->pass == BQ_ATTEND_VALUES) {
    const size_t first = part ? part->from : 0;
    const size_t last = part ? part->to : bq_kv_dims(dim) / 8;
    const size_t last_dim = part && 8 * last < dim ? 8 * last : dim;
    mix_positions(H, kv, base, end, first, last, panel, sums);
    for (int h = 0; h < H; h++)
      for (size_t d = 8 * first; d < last_dim; d += 4)
        simd_store(bq_row_result(job, row + h),
                   wasm_f32x4_mul(sums[(d / 8 - first) * H * 2 + h * 2 + d / 4 % 2],
                                  wasm_f32x4_splat(inv[h])),
                   d, dim);
  }
}

INLINE void attend_i8(const bq_attend_job *job) {
  size_t row = job->row0;
  for (; row + 4 <= job->row1; row += 4) attend_rows(4, job, row);
  if (row + 3 == job->row1) attend_rows(3, job, row);
  else if (row + 2 == job->row1) attend_rows(2, job, row);
  else if (row + 1 == job->row1) attend_rows(1, job, row);
}

#endif
