#include "core/quant.h"

#include <string.h>

#include "core/half.h"

/* One block between its two forms. Types with one weight per block have no q and no scale. */
enum { MAX_BLOCK = 64 };
typedef struct block {
  int8_t q[MAX_BLOCK];
  float scale; /* as the file can hold it */
} block;

static float magnitude(float x) { return bq_float_of(bq_bits_of(x) & 0x7fffffffu); }
static bool finite(float x) { return (bq_bits_of(x) & 0x7f800000u) != 0x7f800000u; }

static float largest(const float *w, size_t n) {
  float m = 0.0f;
  for (size_t i = 0; i < n; i++) m = magnitude(w[i]) > m ? magnitude(w[i]) : m;
  return m;
}

/* Halves away from zero, as C's roundf; |x| < 2^30. */
static int round_away(float x) {
  int i = (int)x;
  float left = x - (float)i; /* exact */
  return i + (left >= 0.5f) - (left <= -0.5f);
}

static int clip(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

/* A scale of 0 belongs to a block of zeros. */
static void round_block(block *b, const float *w, size_t n, int low, int high) {
  float inverse = b->scale > 0.0f ? 1.0f / b->scale : 0.0f;
  for (size_t i = 0; i < n; i++) b->q[i] = (int8_t)clip(round_away(w[i] * inverse), low, high);
}

static float least_f16(float scale) { return scale < 0x1p-24f ? 0x1p-24f : scale; }

/* `n` weights (the rest of the block is padding), all finite. False: f16 can't hold the scale. */
static bool encode_block(bq_type type, const float *w, size_t n, block *b) {
  float m = largest(w, n);
  memset(b, 0, sizeof *b);
  if (n == 0) return true;
  switch (type) {
  case BQ_TYPE_BQ8_32:
    b->scale = m > 0.0f ? least_f16(bq_f16_to_f32(bq_f32_to_f16(m / 127.0f))) : 0.0f;
    round_block(b, w, n, -127, 127);
    break;
  case BQ_TYPE_BQ4H_32:
    b->scale = least_f16(bq_f16_to_f32(bq_f32_to_f16((m > 1e-8f ? m : 1e-8f) / 7.0f)));
    round_block(b, w, n, -8, 7);
    break;
  default:
    b->scale = (m > 1e-8f ? m : 1e-8f) / 7.0f;
    round_block(b, w, n, -8, 7);
  }
  return finite(b->scale);
}

static bool f16_scale(bq_type type) { return type == BQ_TYPE_BQ4H_32 || type == BQ_TYPE_BQ8_32; }

static void put16(uint8_t *p, uint16_t v) {
  p[0] = (uint8_t)v;
  p[1] = (uint8_t)(v >> 8);
}
static void put32(uint8_t *p, uint32_t v) {
  put16(p, (uint16_t)v);
  put16(p + 2, (uint16_t)(v >> 16));
}
static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }

static void put_scale(bq_type type, float scale, uint8_t *p) {
  if (f16_scale(type)) put16(p, bq_f32_to_f16(scale));
  else put32(p, bq_bits_of(scale));
}
static float get_scale(bq_type type, const uint8_t *p) {
  return f16_scale(type) ? bq_f16_to_f32(get16(p)) : bq_float_of(get32(p));
}

/* --- where a block lies ------------------------------------------------------------------- */

/* Row-major: weights, then the scale. */
static uint32_t row_scale_at(bq_type type) {
  return bq_type_get(type)->block_bytes - (f16_scale(type) ? 2 : 4);
}

static void put_row_block(bq_type type, const block *b, uint8_t *dst) {
  uint32_t n = bq_type_get(type)->block;
  if (type == BQ_TYPE_BQ8_32) memcpy(dst, b->q, n);
  else
    for (uint32_t i = 0; i < n / 2; i++)
      dst[i] = (uint8_t)((b->q[2 * i] & 15) | (b->q[2 * i + 1] & 15) << 4);
  put_scale(type, b->scale, dst + row_scale_at(type));
}

static void get_row_block(bq_type type, const uint8_t *src, block *b) {
  uint32_t n = bq_type_get(type)->block;
  if (type == BQ_TYPE_BQ8_32) memcpy(b->q, src, n);
  else
    for (uint32_t i = 0; i < n; i++) b->q[i] = (int8_t)(((src[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8);
  b->scale = get_scale(type, src + row_scale_at(type));
}

/* Tiles: where in its tile the scale of (row r of 8, weight k of the step) lies. */
static uint32_t tile_scale_at(bq_type type, uint32_t r, uint32_t k) {
  if (f16_scale(type)) return 2 * r;
  return type == BQ_TYPE_BQ4_16 ? k / 16 * 32 + 4 * r : 4 * r;
}

/* Weight bytes are ordered [j][h][r][i], row 4h + r. Four bits: k mod 32 = 4j + i (low nibble) or
 * 16 + 4j + i (high); eight bits: k = 4j + i. */
static uint32_t tile_byte_at(bq_type type, uint32_t r, uint32_t k) {
  uint32_t scales = bq_type_get(type)->tile_bytes - (type == BQ_TYPE_BQ8_32 ? 256
                                                     : type == BQ_TYPE_BQ4_64 ? 256 : 128);
  uint32_t j = type == BQ_TYPE_BQ8_32 ? k / 4 : k % 16 / 4;
  uint32_t run = type == BQ_TYPE_BQ8_32 ? 0 : k / 32 * 128;
  return scales + run + j * 32 + r * 4 + k % 4;
}

static void put_tile_weight(bq_type type, uint8_t *tile, uint32_t r, uint32_t k, int q) {
  uint8_t *p = tile + tile_byte_at(type, r, k);
  if (type == BQ_TYPE_BQ8_32) *p = (uint8_t)(q + 128);
  else if (k % 32 < 16) *p = (uint8_t)((*p & 0xf0) | (q + 8));
  else *p = (uint8_t)((*p & 0x0f) | (q + 8) << 4);
}

static int get_tile_weight(bq_type type, const uint8_t *tile, uint32_t r, uint32_t k) {
  uint8_t byte = tile[tile_byte_at(type, r, k)];
  if (type == BQ_TYPE_BQ8_32) return byte - 128;
  return (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
}

/* The tile of (row, k) in a matrix whose rows have `tiles` tiles. */
static size_t tile_at(const bq_type_facts *f, size_t tiles, size_t row, size_t k) {
  return (row / BQ_TILE_ROWS * tiles + k / f->tile_step) * f->tile_bytes;
}

/* --- whole matrices ----------------------------------------------------------------------- */

static bool plain(bq_type type) {
  return type == BQ_TYPE_F32 || type == BQ_TYPE_F16 || type == BQ_TYPE_BF16;
}

static bq_status check(bq_type type, bq_layout layout, size_t rows, size_t cols, bq_error *err) {
  const bq_type_facts *f = bq_type_get(type);
  if (!f) return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "unknown weight type %u", (uint32_t)type);
  if (!f->runs) return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "no encoder for type %s", f->name);
  if (bq_type_bytes(type, layout, rows, cols) == UINT64_MAX)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "type %s has no such layout or size", f->name);
  if (layout == BQ_FLAT && (uint64_t)rows * cols % f->block != 0)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "blocks of %u don't divide %l weights", f->block,
                   (uint64_t)rows * cols);
  return BQ_OK;
}

static bq_status refuse_weight(const bq_type_facts *f, size_t index, bool is_finite, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, index,
                 is_finite ? "weight %l is too large for type %s" : "weight %l is NaN or infinite (%s)",
                 (uint64_t)index, f->name);
}

static bq_status quantize_plain(bq_type type, const float *src, size_t n, uint8_t *dst,
                                bq_error *err) {
  for (size_t i = 0; i < n; i++) {
    uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(src[i]) : bq_f32_to_bf16(src[i]);
    float back = type == BQ_TYPE_F16 ? bq_f16_to_f32(h) : bq_bf16_to_f32(h);
    if (type == BQ_TYPE_F32) put32(dst + 4 * i, bq_bits_of(src[i]));
    else if (finite(back)) put16(dst + 2 * i, h);
    else return refuse_weight(bq_type_get(type), i, true, err);
  }
  return BQ_OK;
}

static void fill_tiles(bq_type type, uint8_t *dst, size_t tiles) {
  const bq_type_facts *f = bq_type_get(type);
  uint32_t scales = tile_byte_at(type, 0, 0);
  for (size_t i = 0; i < tiles; i++, dst += f->tile_bytes) {
    memset(dst, 0, scales);
    memset(dst + scales, type == BQ_TYPE_BQ8_32 ? 0x80 : 0x88, f->tile_bytes - scales);
  }
}

bq_status bq_quantize(bq_type type, bq_layout layout, const float *src, size_t rows, size_t cols,
                      uint8_t *dst, bq_error *err) {
  bq_status status = check(type, layout, rows, cols, err);
  if (status) return status;
  const bq_type_facts *f = bq_type_get(type);
  const size_t n = rows * cols;
  for (size_t i = 0; i < n; i++)
    if (!finite(src[i])) return refuse_weight(f, i, false, err);
  if (plain(type)) return quantize_plain(type, src, n, dst, err);
  if (layout == BQ_FLAT) {
    cols = n;
    rows = n ? 1 : 0;
  }
  const size_t tiles = layout == BQ_TILED ? (cols + f->tile_step - 1) / f->tile_step : 0;
  if (tiles) fill_tiles(type, dst, (rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS * tiles);
  block b;
  for (size_t r = 0; r < rows; r++) {
    for (size_t k = 0; k < cols; k += f->block) {
      const float *w = src + r * cols + k;
      if (!encode_block(type, w, cols - k < f->block ? cols - k : f->block, &b))
        return refuse_weight(f, r * cols + k, true, err);
      if (layout == BQ_TILED) {
        uint8_t *tile = dst + tile_at(f, tiles, r, k);
        uint32_t in_tile = (uint32_t)(k % f->tile_step), row = r % BQ_TILE_ROWS;
        put_scale(type, b.scale, tile + tile_scale_at(type, row, in_tile));
        for (uint32_t i = 0; i < f->block; i++) put_tile_weight(type, tile, row, in_tile + i, b.q[i]);
      } else {
        put_row_block(type, &b, dst);
        dst += f->block_bytes;
      }
    }
  }
  return BQ_OK;
}

bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err) {
  bq_status status = check(type, layout, rows, cols, err);
  if (status) return status;
  const bq_type_facts *f = bq_type_get(type);
  const size_t n = rows * cols;
  if (plain(type)) {
    for (size_t i = 0; i < n; i++)
      dst[i] = type == BQ_TYPE_F32   ? bq_float_of(get32(src + 4 * i))
               : type == BQ_TYPE_F16 ? bq_f16_to_f32(get16(src + 2 * i))
                                     : bq_bf16_to_f32(get16(src + 2 * i));
    return BQ_OK;
  }
  if (layout == BQ_FLAT) {
    cols = n;
    rows = n ? 1 : 0;
  }
  const size_t tiles = layout == BQ_TILED ? (cols + f->tile_step - 1) / f->tile_step : 0;
  const uint8_t *at = src;
  block b;
  for (size_t r = 0; r < rows; r++) {
    for (size_t k = 0; k < cols; k += f->block) {
      const uint8_t *scale = at + row_scale_at(type);
      if (layout == BQ_TILED) {
        const uint8_t *tile = src + tile_at(f, tiles, r, k);
        uint32_t in_tile = (uint32_t)(k % f->tile_step), row = r % BQ_TILE_ROWS;
        scale = tile + tile_scale_at(type, row, in_tile);
        b.scale = get_scale(type, scale);
        for (uint32_t i = 0; i < f->block; i++)
          b.q[i] = (int8_t)get_tile_weight(type, tile, row, in_tile + i);
      } else {
        get_row_block(type, at, &b);
        at += f->block_bytes;
      }
      if (!finite(b.scale))
        return bq_fail(err, BQ_FORMAT, (uint64_t)(scale - src), "a scale is NaN or infinite (%s)",
                       f->name);
      for (uint32_t i = 0; i < f->block && k + i < cols; i++)
        dst[r * cols + k + i] = (float)b.q[i] * b.scale;
    }
  }
  return BQ_OK;
}
