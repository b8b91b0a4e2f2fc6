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
  default: b->scale = (m > 1e-8f ? m : 1e-8f) / 7.0f; round_block(b, w, n, -8, 7);
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

/* --- blocks in a file's bytes ----------------------------------------------------------------- */

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
  uint32_t size = f16_scale(type) ? 2 : 4;
  return (k / bq_type_get(type)->block * BQ_TILE_ROWS + r) * size;
}

/* Weight bytes are ordered [j][h][r][i], row 4h + r. Four bits: k mod 32 = 4j + i (low nibble) or
 * 16 + 4j + i (high); eight bits: k = 4j + i. */
static uint32_t tile_byte_at(bq_type type, uint32_t r, uint32_t k) {
  uint32_t scales = tile_scale_at(type, 0, bq_type_get(type)->tile_step);
  if (type == BQ_TYPE_BQ8_32) return scales + (k / 4 * BQ_TILE_ROWS + r) * 4 + k % 4;
  return scales + k / 32 * 128 + (k % 16 / 4 * BQ_TILE_ROWS + r) * 4 + k % 4;
}

static void put_tile_block(bq_type type, const block *b, uint8_t *tile, uint32_t r, uint32_t k) {
  put_scale(type, b->scale, tile + tile_scale_at(type, r, k));
  for (uint32_t i = 0; i < bq_type_get(type)->block; i++) {
    uint8_t *p = tile + tile_byte_at(type, r, k + i);
    if (type == BQ_TYPE_BQ8_32) *p = (uint8_t)(b->q[i] + 128);
    else if ((k + i) % 32 < 16) *p = (uint8_t)((*p & 0xf0) | (b->q[i] + 8));
    else *p = (uint8_t)((*p & 0x0f) | (b->q[i] + 8) << 4);
  }
}

static void get_tile_block(bq_type type, const uint8_t *tile, uint32_t r, uint32_t k, block *b) {
  b->scale = get_scale(type, tile + tile_scale_at(type, r, k));
  for (uint32_t i = 0; i < bq_type_get(type)->block; i++) {
    uint8_t byte = tile[tile_byte_at(type, r, k + i)];
    if (type == BQ_TYPE_BQ8_32) b->q[i] = (int8_t)(byte - 128);
    else b->q[i] = (int8_t)(((k + i) % 32 < 16 ? byte & 15 : byte >> 4) - 8);
  }
}

/* --- matrices of blocks ----------------------------------------------------------------------- */

typedef struct grid {
  bq_type type;
  const bq_type_facts *f;
  size_t rows, cols;
  size_t run;    /* blocks or tiles per row (group) */
  uint32_t tile; /* bytes of a tile; 0: row-major */
} grid;

static grid make_grid(bq_type type, bq_layout layout, size_t rows, size_t cols) {
  const bq_type_facts *f = bq_type_get(type);
  if (layout == BQ_FLAT) { /* one long row */
    cols *= rows;
    rows = cols ? 1 : 0;
  }
  const bool tiled = layout == BQ_TILED;
  const size_t unit = tiled ? f->tile_step : f->block;
  return (grid){type, f, rows, cols, (cols + unit - 1) / unit, tiled ? f->tile_bytes : 0};
}

/* Offset of the block, or of the tile with the block, that has weight k of a row. */
static size_t block_at(const grid *g, size_t row, size_t k) {
  if (g->tile) return (row / BQ_TILE_ROWS * g->run + k / g->f->tile_step) * g->tile;
  return (row * g->run + k / g->f->block) * g->f->block_bytes;
}

static void put_block(const grid *g, const block *b, uint8_t *dst, size_t row, size_t k) {
  dst += block_at(g, row, k);
  if (g->tile) put_tile_block(g->type, b, dst, row % BQ_TILE_ROWS, (uint32_t)(k % g->f->tile_step));
  else put_row_block(g->type, b, dst);
}

static void get_block(const grid *g, const uint8_t *src, size_t row, size_t k, block *b) {
  src += block_at(g, row, k);
  if (g->tile) get_tile_block(g->type, src, row % BQ_TILE_ROWS, (uint32_t)(k % g->f->tile_step), b);
  else get_row_block(g->type, src, b);
}

static size_t scale_at(const grid *g, size_t row, size_t k) {
  uint32_t in_block =
      g->tile ? tile_scale_at(g->type, row % BQ_TILE_ROWS, (uint32_t)(k % g->f->tile_step))
              : row_scale_at(g->type);
  return block_at(g, row, k) + in_block;
}

static size_t block_weights(const grid *g, size_t k) {
  return g->cols - k < g->f->block ? g->cols - k : g->f->block;
}

/* Weights of value 0 with scale 0, for the padding that no block writes. */
static void fill_tiles(const grid *g, uint8_t *dst) {
  const uint32_t scales = tile_byte_at(g->type, 0, 0);
  const size_t tiles = (g->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS * g->run;
  for (size_t i = 0; i < tiles; i++, dst += g->tile) {
    memset(dst, 0, scales);
    memset(dst + scales, g->type == BQ_TYPE_BQ8_32 ? 0x80 : 0x88, g->tile - scales);
  }
}

/* --- encode and decode ------------------------------------------------------------------------ */

static bool plain(bq_type type) {
  return type == BQ_TYPE_F32 || type == BQ_TYPE_F16 || type == BQ_TYPE_BF16;
}

static bq_status check(bq_type type, bq_layout layout, size_t rows, size_t cols, bq_error *err) {
  const bq_type_facts *f = bq_type_get(type);
  if (!f)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "unknown weight type %u", (uint32_t)type);
  if (!f->runs)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "no encoder for type %s", f->name);
  if (bq_type_bytes(type, layout, rows, cols) == UINT64_MAX)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "type %s has no such layout or size", f->name);
  if (layout == BQ_FLAT && (uint64_t)rows * cols % f->block != 0)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "blocks of %u don't divide %l weights", f->block,
                   (uint64_t)rows * cols);
  return BQ_OK;
}

static bq_status not_finite(bq_type type, size_t index, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, index, "weight %l is NaN or infinite (%s)", (uint64_t)index,
                 bq_type_get(type)->name);
}

static bq_status too_large(bq_type type, size_t index, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, index, "weight %l is too large for type %s", (uint64_t)index,
                 bq_type_get(type)->name);
}

static bq_status quantize_plain(bq_type type, const float *src, size_t n, uint8_t *dst,
                                bq_error *err) {
  for (size_t i = 0; i < n; i++) {
    uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(src[i]) : bq_f32_to_bf16(src[i]);
    float back = type == BQ_TYPE_F16 ? bq_f16_to_f32(h) : bq_bf16_to_f32(h);
    if (type == BQ_TYPE_F32) put32(dst + 4 * i, bq_bits_of(src[i]));
    else if (finite(back)) put16(dst + 2 * i, h);
    else return too_large(type, i, err);
  }
  return BQ_OK;
}

static bq_status dequantize_plain(bq_type type, const uint8_t *src, size_t n, float *dst) {
  for (size_t i = 0; i < n; i++)
    dst[i] = type == BQ_TYPE_F32   ? bq_float_of(get32(src + 4 * i))
             : type == BQ_TYPE_F16 ? bq_f16_to_f32(get16(src + 2 * i))
                                   : bq_bf16_to_f32(get16(src + 2 * i));
  return BQ_OK;
}

bq_status bq_quantize(bq_type type, bq_layout layout, const float *src, size_t rows, size_t cols,
                      uint8_t *dst, bq_error *err) {
  bq_status status = check(type, layout, rows, cols, err);
  if (status) return status;
  for (size_t i = 0; i < rows * cols; i++)
    if (!finite(src[i])) return not_finite(type, i, err);
  if (plain(type)) return quantize_plain(type, src, rows * cols, dst, err);

  const grid g = make_grid(type, layout, rows, cols);
  block b;
  if (g.tile) fill_tiles(&g, dst);
  for (size_t r = 0; r < g.rows; r++)
    for (size_t k = 0; k < g.cols; k += g.f->block) {
      if (!encode_block(type, src + r * g.cols + k, block_weights(&g, k), &b))
        return too_large(type, r * g.cols + k, err);
      put_block(&g, &b, dst, r, k);
    }
  return BQ_OK;
}

bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err) {
  bq_status status = check(type, layout, rows, cols, err);
  if (status) return status;
  if (plain(type)) return dequantize_plain(type, src, rows * cols, dst);

  const grid g = make_grid(type, layout, rows, cols);
  block b;
  for (size_t r = 0; r < g.rows; r++)
    for (size_t k = 0; k < g.cols; k += g.f->block) {
      get_block(&g, src, r, k, &b);
      if (!finite(b.scale))
        return bq_fail(err, BQ_FORMAT, scale_at(&g, r, k), "a scale is NaN or infinite (%s)",
                       g.f->name);
      for (size_t i = 0; i < block_weights(&g, k); i++)
        dst[r * g.cols + k + i] = (float)b.q[i] * b.scale;
    }
  return BQ_OK;
}
