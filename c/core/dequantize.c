#include "core/dequantize.h"

#include <string.h>

#include "core/blocks.h"
#include "core/half.h"
#include "core/import.h"

/* The weights that share a scale, unpacked. */
enum { MAX_BLOCK = 64 };
typedef struct block {
  int8_t q[MAX_BLOCK];
  float scale, min; /* the values that the file holds */
} block;

/* --- blocks in a file's bytes ----------------------------------------------------------------- */

/* Unpacks the weights that share a scale with weight k. */
static void get_row_block(bq_row_shape r, bq_tile_shape s, const uint8_t *src, uint32_t k,
                          block *b) {
  /* types with a minimum have an f16 scale */
  const uint8_t *scale = src + r.scale_at, *min = scale + 2;
  const uint8_t *sub_scale = scale, *sub_min = min;
  for (uint32_t i = 0; i < s.block; i++) b->q[i] = (int8_t)bq_row_weight(r, s, src, k + i);
  if (s.scale_bytes == 1) {
    const uint32_t n = r.block / s.block;
    sub_scale = scale - n * (1 + s.min_bytes) + k / s.block;
    sub_min = sub_scale + n;
  }
  b->scale = bq_load_sub_scale(sub_scale, s.scale_bytes, scale) * bq_scale_unit(s);
  b->min = bq_load_sub_scale(sub_min, s.min_bytes, min);
}

static void get_tile_block(bq_tile_shape s, const uint8_t *tile, uint32_t r, uint32_t k, block *b) {
  b->scale = bq_tile_scale(s, tile, r, k);
  b->min = bq_tile_min(s, tile, r, k);
  for (uint32_t i = 0; i < s.block; i++) b->q[i] = (int8_t)bq_tile_weight(s, tile, r, k + i);
}

/* --- matrices of blocks ----------------------------------------------------------------------- */

static void get_block(const bq_grid *g, const uint8_t *src, size_t row, size_t k, block *b) {
  src += bq_grid_at(g, row, k);
  if (g->tiled)
    get_tile_block(g->shape, src, row % BQ_TILE_ROWS, (uint32_t)(k % g->shape.step), b);
  else get_row_block(bq_row_shape_of(g->type), g->shape, src, (uint32_t)(k % g->f->block), b);
}

/* Offset of the number that is not finite: the scale or the minimum. */
static size_t bad_scale_at(const bq_grid *g, const block *b, size_t row, size_t k) {
  const uint32_t r = row % BQ_TILE_ROWS, in_step = g->tiled ? (uint32_t)(k % g->shape.step) : 0;
  uint32_t scale = g->tiled ? bq_tile_scale_at(g->shape, r, in_step) : g->f->scale_at;
  uint32_t min = g->tiled ? bq_tile_min_at(g->shape, r, in_step) : scale + g->f->scale_bytes;
  if (g->tiled && g->f->sub_block) scale = 2 * r, min = 2 * (BQ_TILE_ROWS + r);
  return bq_grid_at(g, row, k) + (bq_is_finite(b->scale) ? min : scale);
}

bq_status bq_blocks_check(bq_type type, bq_layout layout, size_t rows, size_t cols,
                          bq_error *err) {
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

/* One loop per type, so that compilers vectorize it. */
static bq_status dequantize_plain(bq_type type, const uint8_t *restrict src, size_t n,
                                  float *restrict dst) {
  if (type == BQ_TYPE_F32) memcpy(dst, src, n * sizeof *dst);
  else if (type == BQ_TYPE_F16)
    for (size_t i = 0; i < n; i++) dst[i] = bq_load_scale(src + 2 * i, 2);
  else
    for (size_t i = 0; i < n; i++) {
      uint16_t h;
      memcpy(&h, src + 2 * i, sizeof h);
      dst[i] = bq_bf16_to_f32(h);
    }
  return BQ_OK;
}

static bq_status bad_scale(const bq_grid *g, const block *b, size_t row, size_t k, bq_error *err) {
  return bq_fail(err, BQ_FORMAT, bad_scale_at(g, b, row, k), "a %s is NaN or infinite (%s)",
                 bq_is_finite(b->scale) ? "minimum" : "scale", g->f->name);
}

static float value_of(bq_tile_shape s, const block *b, size_t i) {
  const float x = (float)b->q[i] * b->scale;
  return s.min_bytes ? x + b->min : x;
}

/* Each storage block is converted to blocks of the compute type, whose values are the result. */
static bq_status dequantize_imported(const bq_grid *g, const uint8_t *src, float *dst,
                                     bq_error *err) {
  const bq_row_shape run = bq_row_shape_of(g->f->run);
  bq_import_fn *import = bq_import_of(g->type, g->f->run);
  uint8_t blocks[BQ_IMPORT_MAX_BYTES];
  for (size_t r = 0; r < g->rows; r++)
    for (size_t k = 0; k < g->cols; k += g->f->block) {
      const size_t at = bq_grid_at(g, r, k), n = bq_grid_remaining(g, k, g->f->block);
      block b = {.scale = bq_load_scale(src + at + g->f->scale_at, g->f->scale_bytes),
                 .min = bq_load_scale(src + at + g->f->scale_at + g->f->scale_bytes,
                                      g->f->min_bytes)};
      if (!bq_is_finite(b.scale) || !bq_is_finite(b.min)) return bad_scale(g, &b, r, k, err);
      import(src + at, 1, blocks);
      for (size_t i = 0; i < n; i++) {
        if (i % g->shape.block == 0) get_row_block(run, g->shape, blocks, (uint32_t)i, &b);
        dst[r * g->cols + k + i] = value_of(g->shape, &b, i % g->shape.block);
      }
    }
  return BQ_OK;
}

bq_status bq_dequantize(bq_type type, bq_layout layout, const uint8_t *src, size_t rows,
                        size_t cols, float *dst, bq_error *err) {
  bq_status status = bq_blocks_check(type, layout, rows, cols, err);
  if (status) return status;
  if (bq_type_is_float(type)) return dequantize_plain(type, src, rows * cols, dst);

  const bq_grid g = bq_grid_of(type, layout, rows, cols);
  if (bq_import_of(type, g.f->run)) return dequantize_imported(&g, src, dst, err);
  block b;
  for (size_t r = 0; r < g.rows; r++)
    for (size_t k = 0; k < g.cols; k += g.shape.block) {
      get_block(&g, src, r, k, &b);
      if (!bq_is_finite(b.scale) || !bq_is_finite(b.min)) return bad_scale(&g, &b, r, k, err);
      for (size_t i = 0; i < bq_grid_remaining(&g, k, g.shape.block); i++) {
        dst[r * g.cols + k + i] = value_of(g.shape, &b, i);
      }
    }
  return BQ_OK;
}
