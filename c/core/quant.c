#include "core/quant.h"

#include <string.h>

#include "core/half.h"
#include "core/import.h"
#include "core/tile.h"

/* Weights that share a scale between their two forms. Types with one weight per block have no q and
 * no scale. */
enum { MAX_BLOCK = 64 };
typedef struct block {
  int8_t q[MAX_BLOCK];
  float scale, min; /* as the file can hold them */
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

/* A scale of 0 belongs to a block whose weights are all the same. */
static void round_block(block *b, const float *w, size_t n, int low, int high) {
  float inverse = b->scale > 0.0f ? 1.0f / b->scale : 0.0f;
  for (size_t i = 0; i < n; i++)
    b->q[i] = (int8_t)clip(round_away((w[i] - b->min) * inverse), low, high);
}

static float as_f16(float x) { return bq_f16_to_f32(bq_f32_to_f16(x)); }
static float least_f16(float scale) { return scale < 0x1p-24f ? 0x1p-24f : scale; }

/* Unsigned weights from the least to the largest. */
static bool encode_between(const float *w, size_t n, block *b) {
  float low = w[0], high = w[0];
  for (size_t i = 1; i < n; i++) {
    low = w[i] < low ? w[i] : low;
    high = w[i] > high ? w[i] : high;
  }
  b->min = as_f16(low);
  b->scale = high > b->min ? least_f16(as_f16((high - b->min) / 15.0f)) : 0.0f;
  if (!finite(b->min) || !finite(b->scale)) return false;
  round_block(b, w, n, 0, 15);
  return true;
}

/* `n` weights (the rest of the block is padding), all finite. False: f16 can't hold the scale. */
static bool encode_block(const bq_type_facts *f, const float *w, size_t n, block *b) {
  float m = largest(w, n);
  memset(b, 0, sizeof *b);
  if (n == 0) return true;
  if (f->min_bytes) return encode_between(w, n, b);
  const float top = f->bits == 8 ? 127.0f : 7.0f;
  if (f->bits == 4 && m <= 1e-8f) m = 1e-8f;
  b->scale = m / top;
  if (f->scale_bytes == 2 && m > 0.0f) b->scale = least_f16(as_f16(b->scale));
  if (!finite(b->scale)) return false;
  round_block(b, w, n, f->bits == 8 ? -127 : -8, (int)top);
  return true;
}

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

static void put_scale(uint32_t bytes, float scale, uint8_t *p) {
  if (bytes == 2) put16(p, bq_f32_to_f16(scale));
  if (bytes == 4) put32(p, bq_bits_of(scale));
}

/* --- blocks in a file's bytes ----------------------------------------------------------------- */

/* Row-major: weights, then the scale and the minimum. */
static void put_row_block(const bq_type_facts *f, const block *b, uint8_t *dst) {
  if (f->bits == 8) memcpy(dst, b->q, f->block);
  else
    for (uint32_t i = 0; i < f->block / 2; i++)
      dst[i] = (uint8_t)((b->q[2 * i] & 15) | (b->q[2 * i + 1] & 15) << 4);
  put_scale(f->scale_bytes, b->scale, dst + f->scale_at);
  put_scale(f->min_bytes, b->min, dst + f->scale_at + f->scale_bytes);
}

/* Weight k of a row-major block. */
static int row_weight(bq_tile_shape s, const uint8_t *src, uint32_t k) {
  if (s.bits == 8) return (int8_t)src[k];
  if (s.bits == 7) return (src[k] & 127) - bq_tile_zero(s);
  if (s.scale_bytes == 1)
    return (src[k / 32 * 16 + k % 16] >> k % 32 / 16 * 4 & 15) - bq_tile_zero(s);
  const int nibble = src[k / 2] >> k % 2 * 4 & 15;
  return s.min_bytes ? nibble : (nibble ^ 8) - 8;
}

/* Those from weight k on that share a scale. */
static void get_row_block(const bq_type_facts *f, bq_tile_shape s, const uint8_t *src, uint32_t k,
                          block *b) {
  const uint8_t *scale = src + f->scale_at, *min = scale + f->scale_bytes, *factor = scale;
  for (uint32_t i = 0; i < s.block; i++) b->q[i] = (int8_t)row_weight(s, src, k + i);
  if (f->factors) factor -= f->block / s.block * (1 + s.min_bytes) - k / s.block;
  b->scale = bq_load_factored(factor, s.scale_bytes, scale);
  if (f->factors) factor += f->block / s.block;
  b->min = bq_load_factored(f->factors ? factor : min, s.min_bytes, min);
}

static void put_tile_block(bq_tile_shape s, const block *b, uint8_t *tile, uint32_t r, uint32_t k) {
  put_scale(s.scale_bytes, b->scale, tile + bq_tile_scale_at(s, r, k));
  put_scale(s.min_bytes, b->min, tile + bq_tile_min_at(s, r, k));
  for (uint32_t i = 0; i < s.block; i++) bq_tile_put_weight(s, tile, r, k + i, b->q[i]);
}

static void get_tile_block(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k, block *b) {
  b->scale = bq_tile_scale(s, tile, r, k);
  b->min = bq_tile_min(s, tile, r, k);
  for (uint32_t i = 0; i < s.block; i++) b->q[i] = (int8_t)bq_tile_weight(s, tile, r, k + i);
}

/* --- matrices of blocks ----------------------------------------------------------------------- */

typedef struct grid {
  bq_type type;
  const bq_type_facts *f;
  size_t rows, cols;
  bool tiled;
  size_t run; /* blocks or tiles per row (group) */
  bq_tile_shape shape;
} grid;

static grid make_grid(bq_type type, bq_layout layout, size_t rows, size_t cols) {
  const bq_type_facts *f = bq_type_get(type);
  if (layout == BQ_FLAT) { /* one long row */
    cols *= rows;
    rows = cols ? 1 : 0;
  }
  const bool tiled = layout == BQ_TILED;
  const size_t unit = tiled ? f->tile_step : f->block;
  return (grid){type, f, rows, cols, tiled, (cols + unit - 1) / unit, bq_tile_shape_of(type)};
}

/* Offset of the block, or of the tile with the block, that has weight k of a row. */
static size_t block_at(const grid *g, size_t row, size_t k) {
  if (g->tiled) return (row / BQ_TILE_ROWS * g->run + k / g->f->tile_step) * g->f->tile_bytes;
  return (row * g->run + k / g->f->block) * g->f->block_bytes;
}

static void put_block(const grid *g, const block *b, uint8_t *dst, size_t row, size_t k) {
  dst += block_at(g, row, k);
  if (g->tiled)
    put_tile_block(g->shape, b, dst, row % BQ_TILE_ROWS, (uint32_t)(k % g->shape.step));
  else put_row_block(g->f, b, dst);
}

static void get_block(const grid *g, const uint8_t *src, size_t row, size_t k, block *b) {
  src += block_at(g, row, k);
  if (g->tiled)
    get_tile_block(g->shape, src, row % BQ_TILE_ROWS, (uint32_t)(k % g->shape.step), b);
  else get_row_block(g->f, g->shape, src, (uint32_t)(k % g->f->block), b);
}

/* Offset of the scale that is not finite, or else of the minimum. */
static size_t bad_scale_at(const grid *g, const block *b, size_t row, size_t k) {
  const uint32_t r = row % BQ_TILE_ROWS, in_step = g->tiled ? (uint32_t)(k % g->shape.step) : 0;
  uint32_t scale = g->tiled ? bq_tile_scale_at(g->shape, r, in_step) : g->f->scale_at;
  uint32_t min = g->tiled ? bq_tile_min_at(g->shape, r, in_step) : scale + g->f->scale_bytes;
  if (g->tiled && g->f->factors) scale = 2 * r, min = 2 * (BQ_TILE_ROWS + r);
  return block_at(g, row, k) + (finite(b->scale) ? min : scale);
}

/* Of the `most` from k on. */
static size_t weights_left(const grid *g, size_t k, size_t most) {
  return g->cols - k < most ? g->cols - k : most;
}

/* Weights of q = 0 with scale 0, for the padding that no block writes. */
static void fill_tiles(const grid *g, uint8_t *dst) {
  const uint32_t scales = bq_tile_weights_at(g->shape), bytes = g->f->tile_bytes;
  const size_t tiles = (g->rows + BQ_TILE_ROWS - 1) / BQ_TILE_ROWS * g->run;
  for (size_t i = 0; i < tiles; i++, dst += bytes) {
    memset(dst, 0, scales);
    memset(dst + scales, bq_tile_zeros(g->shape), bytes - scales);
  }
}

/* --- encode and decode ------------------------------------------------------------------------ */

static bq_status check(bq_type type, bq_layout layout, size_t rows, size_t cols, bq_error *err) {
  const bq_type_facts *f = bq_type_get(type);
  if (!f)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "unknown weight type %u", (uint32_t)type);
  if (f->run == BQ_TYPE_NONE)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "this version can't read type %s", f->name);
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
  if (!bq_type_get(type)->encoded)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "no encoder for type %s",
                   bq_type_get(type)->name);
  for (size_t i = 0; i < rows * cols; i++)
    if (!finite(src[i])) return not_finite(type, i, err);
  if (bq_type_is_float(type)) return quantize_plain(type, src, rows * cols, dst, err);

  const grid g = make_grid(type, layout, rows, cols);
  block b;
  if (g.tiled) fill_tiles(&g, dst);
  for (size_t r = 0; r < g.rows; r++)
    for (size_t k = 0; k < g.cols; k += g.f->block) {
      if (!encode_block(g.f, src + r * g.cols + k, weights_left(&g, k, g.f->block), &b))
        return too_large(type, r * g.cols + k, err);
      put_block(&g, &b, dst, r, k);
    }
  return BQ_OK;
}

static bq_status bad_scale(const grid *g, const block *b, size_t row, size_t k, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, bad_scale_at(g, b, row, k), "a %s is NaN or infinite (%s)",
                 finite(b->scale) ? "minimum" : "scale", g->f->name);
}

static float value_of(const bq_type_facts *f, const block *b, size_t i) {
  const float x = (float)b->q[i] * b->scale;
  return f->min_bytes ? x + b->min : x;
}

/* A type that is only stored: each block becomes those of the run type, whose values count. */
static bq_status dequantize_stored(const grid *g, const uint8_t *src, float *dst, bq_error *err) {
  const bq_type_facts *run = bq_type_get(g->f->run);
  const bq_tile_shape shape = bq_tile_shape_of(g->f->run);
  bq_import_fn *import = bq_import_of(g->type, g->f->run);
  uint8_t blocks[BQ_IMPORT_MOST];
  for (size_t r = 0; r < g->rows; r++)
    for (size_t k = 0; k < g->cols; k += g->f->block) {
      const size_t at = block_at(g, r, k), n = weights_left(g, k, g->f->block);
      block b = {.scale = bq_load_scale(src + at + g->f->scale_at, g->f->scale_bytes),
                 .min = bq_load_scale(src + at + g->f->scale_at + g->f->scale_bytes,
                                      g->f->min_bytes)};
      if (!finite(b.scale) || !finite(b.min)) return bad_scale(g, &b, r, k, err);
      import(src + at, 1, blocks);
      for (size_t i = 0; i < n; i++) {
        if (i % shape.block == 0)
          get_row_block(run, shape, blocks + i / run->block * run->block_bytes,
                        (uint32_t)(i % run->block), &b);
        dst[r * g->cols + k + i] = value_of(run, &b, i % shape.block);
      }
    }
  return BQ_OK;
}

bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err) {
  bq_status status = check(type, layout, rows, cols, err);
  if (status) return status;
  if (bq_type_is_float(type)) return dequantize_plain(type, src, rows * cols, dst);

  const grid g = make_grid(type, layout, rows, cols);
  if (!bq_type_runs(type)) return dequantize_stored(&g, src, dst, err);
  block b;
  for (size_t r = 0; r < g.rows; r++)
    for (size_t k = 0; k < g.cols; k += g.shape.block) {
      get_block(&g, src, r, k, &b);
      if (!finite(b.scale) || !finite(b.min)) return bad_scale(&g, &b, r, k, err);
      for (size_t i = 0; i < weights_left(&g, k, g.shape.block); i++) {
        dst[r * g.cols + k + i] = value_of(g.f, &b, i);
      }
    }
  return BQ_OK;
}
