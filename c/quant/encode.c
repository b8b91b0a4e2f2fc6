/* Encoders: convert f32 matrices, or quantized matrices, to weight types. */
#include <string.h>

#include "core/blocks.h"
#include "quant/encode.h"
#include "core/dequantize.h"

enum { MAX_BLOCK = 64, STRIP = BQ_TILE_ROWS };
_Static_assert((int)BQ_SEARCH_BLOCKS == (int)STRIP, "a strip is searched at once");

/* Up to 8 rows of one column of tiles or blocks: their weights, and the quantized weights. */
typedef struct strip {
  const float *w[STRIP];
  int8_t q[STRIP][MAX_BLOCK];
  float scale[STRIP][4], min[STRIP][4]; /* of each block, as the file stores them */
  float padded[STRIP][MAX_BLOCK];
} strip;

/* --- finite weights --------------------------------------------------------------------------- */

static bq_status not_finite(bq_type type, const float *src, bq_error *err) {
  size_t i = 0;
  while (bq_is_finite(src[i])) i++;
  return bq_fail(err, BQ_FORMAT, i, "weight %l is NaN or infinite (%s)", (uint64_t)i,
                 bq_type_get(type)->name);
}

static bq_status too_large(bq_type type, size_t index, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, index, "weight %l is too large for type %s", (uint64_t)index,
                 bq_type_get(type)->name);
}

/* --- scales and minima ------------------------------------------------------------------------ */

static float as_f16(float x) { return bq_f16_to_f32(bq_f32_to_f16(x)); }
static float clamp_to_min_f16(float scale) { return scale < 0x1p-24f ? 0x1p-24f : scale; }
/* Blocks whose largest weight is below this are encoded as 0, because squares would underflow. */
#define MIN_SEARCHED 0x1p-60f
/* The largest q of types that have a minimum. */
static float top_of(const bq_type_facts *f) { return (float)((1u << f->bits) - 1); }

/* The nearest level of a symmetric sub-4-bit type; a weight in the middle of two levels becomes the
 * upper one. */
static float level_of(const bq_type_facts *f, float x) {
  if (f->bits == BQ_TERNARY) return x < -0.5f ? -1.0f : x < 0.5f ? 0.0f : 1.0f;
  return x < -2.0f ? -3.0f : x < 0.0f ? -1.0f : x < 2.0f ? 1.0f : 3.0f;
}

enum { SUB4_STARTS = 15, SUB4_FITS = 2 };

/* Searches the scale with the least squared error, from starts of 1, 0.95 ... 0.3 times the largest
 * weight: weights are rounded to levels, then the scale is fitted to them by least squares, twice.
 * m, the largest magnitude, is not 0. */
static float search_sub4_scale(const bq_type_facts *f, const float *w, size_t n, float m) {
  const float high = f->bits == BQ_TERNARY ? 1.0f : 3.0f;
  float best = m / high, max = 0.0f;
  for (int i = 0; i < SUB4_STARTS; i++) {
    float scale = m * (1.0f - 0.05f * (float)i) / high;
    for (int fit = 0; fit < SUB4_FITS; fit++) {
      float squares = 0.0f, products = 0.0f;
      const float inverse = 1.0f / scale;
      for (size_t k = 0; k < n; k++) {
        const float q = level_of(f, w[k] * inverse);
        squares += q * q;
        products += q * w[k];
      }
      if (!(squares > 0.0f) || !(products > 0.0f)) break;
      scale = products / squares;
      if (products * scale > max) max = products * scale, best = scale;
    }
  }
  return best;
}

/* The scale of a symmetric type: the largest weight becomes 7 or 127; sub-4-bit types search. */
static float scale_of(const bq_type_facts *f, const bq_encoder *encoder, const float *w, size_t n) {
  float m = bq_float_of(encoder->max_magnitude_bits(w, n));
  if (f->bits == 4 && m <= 1e-8f) m = 1e-8f;
  if (f->bits < 4)
    return m >= MIN_SEARCHED ? clamp_to_min_f16(as_f16(search_sub4_scale(f, w, n, m))) : 0.0f;
  const float scale = m / (f->bits == 8 ? 127.0f : 7.0f);
  return f->scale_bytes == 2 && m > 0.0f ? clamp_to_min_f16(as_f16(scale)) : scale;
}

/* Scale and minimum from the extremes of the block, for blocks whose best fit has a minimum that
 * f16 can't hold. */
static void range_from_extremes(const bq_type_facts *f, strip *s, size_t r, uint32_t b, size_t n) {
  const float *w = s->w[r] + b * f->block;
  float low = w[0], high = w[0];
  for (size_t i = 1; i < n; i++) {
    low = w[i] < low ? w[i] : low;
    high = w[i] > high ? w[i] : high;
  }
  s->min[r][b] = as_f16(low);
  s->scale[r][b] = clamp_to_min_f16(as_f16((high - s->min[r][b]) / top_of(f)));
}

/* Searches scale and minimum of block `b` of every row, `n` weights each. */
static void search_ranges(const bq_type_facts *f, const bq_encoder *encoder, strip *s, size_t rows,
                          uint32_t b, size_t n) {
  const float *w[STRIP], max = top_of(f);
  float scale[STRIP], min[STRIP];
  for (size_t r = 0; r < STRIP; r++) w[r] = s->w[r < rows ? r : 0] + b * f->block;
  encoder->search_scales(w, n, max, scale, min);
  for (size_t r = 0; r < rows; r++) {
    const float top = min[r] + scale[r] * max; /* kept exactly when the minimum is rounded */
    s->min[r][b] = as_f16(min[r]);
    const float rest = (top - s->min[r][b]) / max;
    s->scale[r][b] = rest > 0.0f ? clamp_to_min_f16(as_f16(rest)) : 0.0f;
    if (!bq_is_finite(top)) s->scale[r][b] = top;
    else if (!bq_is_finite(s->min[r][b])) range_from_extremes(f, s, r, b, n);
  }
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Quantizes one block of a row. Returns false if f16 can't hold its scale or minimum. */
static bool encode_block(const bq_type_facts *f, const bq_encoder *encoder, strip *s, size_t r,
                         uint32_t b, size_t n, bq_encode_errors *errors) {
  const float *w = s->w[r] + b * f->block;
  int8_t *q = s->q[r] + b * f->block;
  const float scale = s->scale[r][b], min = s->min[r][b];
  if (!bq_is_finite(scale) || !bq_is_finite(min)) return false;
  bq_block_range range = {scale, min, scale > 0.0f ? 1.0f / scale : 0.0f, -8.0f, 7.0f};
  if (f->bits == 8) range.low = -127.0f, range.high = 127.0f;
  if (f->min_bytes) range.low = 0.0f, range.high = top_of(f);
  if (f->bits == BQ_TERNARY) range.low = -1.0f, range.high = 1.0f;
  const bool odd = f->bits == 2 && !f->min_bytes; /* levels 2 q - 3, q from 0 to 3 */
  if (odd)
    range = (bq_block_range){2.0f * scale, -3.0f * scale, 0.5f * range.inverse, 0.0f, 3.0f};
  if (n == f->block) encoder->round_block(w, n, &range, q, errors);
  else { /* Pad the last block with its minimum so the padding quantizes to 0 and adds no error. */
    float padded[MAX_BLOCK];
    for (size_t i = 0; i < f->block; i++) padded[i] = i < n ? w[i] : range.min;
    encoder->round_block(padded, f->block, &range, q, errors);
    memset(q + n, 0, f->block - n);
  }
  for (size_t i = 0; odd && i < f->block; i++) q[i] = (int8_t)(2 * q[i] - 3);
  return true;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void put_scale(uint32_t bytes, float scale, uint8_t *p) {
  const uint32_t bits = bytes == 2 ? bq_f32_to_f16(scale) : bq_bits_of(scale);
  for (uint32_t i = 0; i < bytes; i++) p[i] = (uint8_t)(bits >> 8 * i);
}

static void put_sub4(bq_tile_shape t, const int8_t *q, uint8_t *dst, size_t gap) {
  const size_t run = bq_tile_run_bytes(t) / 4 * gap;
  for (uint32_t k = 0; k < t.block; k++)
    bq_sub4_put(t, dst + k / 32 * run + k % 4, gap, k,
                 (uint32_t)((q[k] + bq_tile_zero_point(t)) / bq_sub4_unit(t)));
}

/* Writes a row-major block: weights, then the scale and the minimum. */
static void put_row_block(const bq_grid *g, const strip *s, size_t r, uint8_t *dst) {
  const bq_type_facts *f = g->f;
  const int8_t *q = s->q[r];
  if (bq_is_sub4(g->shape)) put_sub4(g->shape, q, dst, 4);
  else if (f->bits == 8) memcpy(dst, q, f->block);
  else
    for (uint32_t i = 0; i < f->block / 2; i++)
      dst[i] = (uint8_t)((q[2 * i] & 15) | (q[2 * i + 1] & 15) << 4);
  put_scale(f->scale_bytes, s->scale[r][0], dst + f->scale_at);
  put_scale(f->min_bytes, s->min[r][0], dst + f->scale_at + f->scale_bytes);
}

/* Writes the weights of one row in the order of bq_tile_byte. */
static void put_tile_weights(bq_tile_shape t, const int8_t *q, uint8_t *dst) {
  const int zero = bq_tile_zero_point(t);
  uint8_t bytes[MAX_BLOCK];
  if (bq_is_sub4(t)) {
    put_sub4(t, q, dst, 4 * BQ_TILE_ROWS);
    return;
  }
  if (t.bits == 8) {
    for (uint32_t k = 0; k < 32; k++) bytes[k] = (uint8_t)(q[k] + zero);
    for (uint32_t j = 0; j < 8; j++) memcpy(dst + 4 * BQ_TILE_ROWS * j, bytes + 4 * j, 4);
    return;
  }
  for (uint32_t k = 0; k < t.step; k += 32, dst += 128) {
    for (uint32_t i = 0; i < 16; i++)
      bytes[i] = (uint8_t)((q[k + i] + zero) | (q[k + 16 + i] + zero) << 4);
    for (uint32_t j = 0; j < 4; j++) memcpy(dst + 4 * BQ_TILE_ROWS * j, bytes + 4 * j, 4);
  }
}

static void put_tile(bq_tile_shape t, const strip *s, uint8_t *tile) {
  for (uint32_t r = 0; r < BQ_TILE_ROWS; r++) {
    for (uint32_t k = 0; k < t.step; k += t.block) {
      put_scale(t.scale_bytes, s->scale[r][k / t.block], tile + bq_tile_scale_at(t, r, k));
      put_scale(t.min_bytes, s->min[r][k / t.block], tile + bq_tile_min_at(t, r, k));
    }
    put_tile_weights(t, s->q[r], tile + bq_tile_weights_at(t) + 4 * r);
  }
}

/* --- matrices --------------------------------------------------------------------------------- */

/* Sets s->w to up to 8 rows of weights, from `row` and column `k` on. Rows that end within the
 * strip are copied, with padding. Returns the number of rows. */
static size_t load_strip(const bq_grid *g, const float *src, size_t row, size_t k, size_t span,
                         strip *s) {
  const size_t rows = g->rows - row < STRIP ? g->rows - row : STRIP;
  const size_t n = g->cols - k < span ? g->cols - k : span;
  if (rows < STRIP || n < span) memset(s, 0, sizeof *s);
  for (size_t r = 0; r < rows; r++) {
    s->w[r] = src + (row + r) * g->cols + k;
    if (n < span) s->w[r] = memcpy(s->padded[r], s->w[r], n * sizeof *src);
  }
  return rows;
}

/* Quantizes a strip. Returns false if encode_block does; *bad is then the index of the first weight
 * of that block. */
static bool encode_strip(const bq_grid *g, const bq_encoder *encoder, strip *s, size_t row,
                         size_t k, size_t span, bq_encode_errors *errors, size_t *bad) {
  const size_t rows = g->rows - row < STRIP ? g->rows - row : STRIP;
  for (uint32_t b = 0; b < span / g->f->block && k + b * g->f->block < g->cols; b++) {
    const size_t first = k + b * g->f->block, n = bq_grid_remaining(g, first, g->f->block);
    if (g->f->min_bytes) search_ranges(g->f, encoder, s, rows, b, n);
    for (size_t r = 0; r < rows; r++) {
      if (!g->f->min_bytes)
        s->scale[r][b] = scale_of(g->f, encoder, s->w[r] + b * g->f->block, n);
      *bad = (row + r) * g->cols + first;
      if (!encode_block(g->f, encoder, s, r, b, n, errors)) return false;
    }
  }
  return true;
}

static bq_status encode_plain(bq_type type, const float *src, size_t n, uint8_t *dst,
                              bq_encode_errors *errors, bq_error *err) {
  const uint32_t bytes = bq_type_get(type)->block_bytes;
  if (type == BQ_TYPE_F32) memcpy(dst, src, n * sizeof *src);
  else
    for (size_t i = 0; i < n; i++) {
      const uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(src[i]) : bq_f32_to_bf16(src[i]);
      const float back = type == BQ_TYPE_F16 ? bq_f16_to_f32(h) : bq_bf16_to_f32(h);
      if (!bq_is_finite(back)) return too_large(type, i, err);
      memcpy(dst + i * bytes, &h, bytes);
      if (!errors) continue;
      const float e = bq_float_of(bq_bits_of(src[i] - back) & 0x7fffffffu);
      errors->sum += e;
      errors->squares += (double)e * e;
      errors->max = e > errors->max ? e : errors->max;
    }
  return BQ_OK;
}

bq_status bq_encode(bq_type type, bq_layout layout, const float *src, size_t rows, size_t cols,
                    const bq_encoder *encoder, uint8_t *dst, bq_encode_errors *errors,
                    bq_error *err) {
  bq_status status = bq_blocks_check(type, layout, rows, cols, err);
  if (status) return status;
  if (!bq_type_get(type)->encoded)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "no encoder for type %s",
                   bq_type_get(type)->name);
  if (!bq_is_finite(bq_float_of(encoder->max_magnitude_bits(src, rows * cols))))
    return not_finite(type, src, err);
  if (bq_type_is_float(type)) return encode_plain(type, src, rows * cols, dst, errors, err);

  const bq_grid g = bq_grid_of(type, layout, rows, cols);
  const size_t span = g.tiled ? g.shape.step : g.f->block;
  strip s = {0};
  size_t bad;
  for (size_t row = 0; row < g.rows; row += STRIP)
    for (size_t k = 0; k < g.cols; k += span) {
      const size_t strip_rows = load_strip(&g, src, row, k, span, &s);
      if (!encode_strip(&g, encoder, &s, row, k, span, errors, &bad))
        return too_large(type, bad, err);
      if (g.tiled) put_tile(g.shape, &s, dst + bq_grid_at(&g, row, k));
      else
        for (size_t r = 0; r < strip_rows; r++)
          put_row_block(&g, &s, r, dst + bq_grid_at(&g, row + r, k));
    }
  return BQ_OK;
}

/* --- quantized matrices ----------------------------------------------------------------------- */

static void load_rounded(const bq_grid *g, const bq_rounded *from, size_t row, size_t rows,
                         size_t k, size_t span, strip *s) {
  const size_t blocks = (g->cols + g->f->block - 1) / g->f->block, first = k / g->f->block;
  memset(s, 0, sizeof *s);
  for (size_t r = 0; r < rows; r++) {
    memcpy(s->q[r], from->q + (row + r) * g->cols + k, bq_grid_remaining(g, k, span));
    for (size_t b = 0; b < span / g->f->block && first + b < blocks; b++) {
      s->scale[r][b] = from->scale[(row + r) * blocks + first + b];
      if (g->f->min_bytes) s->min[r][b] = from->min[(row + r) * blocks + first + b];
    }
  }
}

bq_status bq_encode_rounded(bq_type type, bq_layout layout, const bq_rounded *from, size_t rows,
                            size_t cols, uint8_t *dst, bq_error *err) {
  const bq_status status = bq_blocks_check(type, layout, rows, cols, err);
  if (status) return status;
  if (!bq_type_get(type)->encoded || bq_type_is_float(type) || layout == BQ_FLAT)
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET, "type %s has no rows of blocks to fill",
                   bq_type_get(type)->name);
  const bq_grid g = bq_grid_of(type, layout, rows, cols);
  const size_t span = g.tiled ? g.shape.step : g.f->block;
  strip s;
  for (size_t row = 0; row < g.rows; row += STRIP)
    for (size_t k = 0; k < g.cols; k += span) {
      const size_t strip_rows = g.rows - row < STRIP ? g.rows - row : STRIP;
      load_rounded(&g, from, row, strip_rows, k, span, &s);
      if (g.tiled) put_tile(g.shape, &s, dst + bq_grid_at(&g, row, k));
      else
        for (size_t r = 0; r < strip_rows; r++)
          put_row_block(&g, &s, r, dst + bq_grid_at(&g, row + r, k));
    }
  return BQ_OK;
}
