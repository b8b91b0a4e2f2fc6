#include "format/landing.h"

#include <string.h>

#include "core/cursor.h"
#include "core/quant.h"

enum { BATCH = 65536 }; /* aim of a batch; one group of 8 rows may be longer */

static bool is_float(bq_type type) {
  return type == BQ_TYPE_F32 || type == BQ_TYPE_F16 || type == BQ_TYPE_BF16;
}

static uint32_t scale_bytes(bq_type type) {
  return type == BQ_TYPE_BQ4_16 || type == BQ_TYPE_BQ4_32 || type == BQ_TYPE_BQ4_64 ? 4 : 2;
}

/* Stored bytes of `rows` rows; flat tensors are only asked for whole blocks. */
static uint64_t stored_bytes(const bq_landing *l, uint64_t rows) {
  return bq_type_bytes(l->stored, l->layout, rows, l->cols);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* As many units as fit in BATCH, one at least. */
static uint64_t batch_of(uint64_t unit, uint64_t total) {
  uint64_t units = unit < BATCH ? BATCH / unit : 1;
  return smaller(unit * units, total);
}

/* The type with the largest blocks that don't straddle rows of this length; F32: none. */
static bq_type split_type(uint32_t cols) {
  if (cols % 32 == 0) return BQ_TYPE_BQ4_32;
  return cols % 16 == 0 ? BQ_TYPE_BQ4_16 : BQ_TYPE_F32;
}

bq_landing bq_landing_of(bq_type stored, bq_layout layout, uint32_t rows, uint32_t cols,
                         bool vector) {
  bq_landing l = {.way = BQ_LAND_COPY,
                  .stored = stored,
                  .type = stored,
                  .layout = layout,
                  .rows = rows,
                  .cols = cols,
                  .bytes = bq_type_bytes(stored, layout, rows, cols)};
  const bq_type_facts *f = bq_type_get(stored);
  bool straddles = layout == BQ_FLAT && cols % f->block;
  if (vector) {
    l.type = BQ_TYPE_F32;
    if (stored != BQ_TYPE_F32) l.way = BQ_LAND_WIDEN;
  } else if (straddles) {
    l.type = split_type(cols);
    l.way = l.type == BQ_TYPE_F32 ? BQ_LAND_WIDEN : BQ_LAND_SPLIT;
  } else if (layout != BQ_TILED && f->tile_step) {
    l.way = BQ_LAND_TILE;
  }
  l.engine_bytes = bq_type_bytes(l.type, bq_type_run_layout(l.type), rows, cols);
  /* 8 rows are a multiple of 128 weights wherever rows are split: whole blocks. */
  if (l.way == BQ_LAND_WIDEN) l.batch = batch_of(f->block_bytes, l.bytes);
  if (l.way == BQ_LAND_TILE || l.way == BQ_LAND_SPLIT)
    l.batch = batch_of(stored_bytes(&l, BQ_TILE_ROWS), l.bytes);
  if (l.way == BQ_LAND_SPLIT) l.spare = bq_type_bytes(l.type, BQ_ROWS, BQ_TILE_ROWS, cols);
  return l;
}

void bq_landing_drop(bq_landing *l) {
  l->way = BQ_LAND_DROP;
  l->batch = batch_of(bq_landing_unit(l), l->bytes);
}

/* Blocks of 32 or 64 become blocks of 32 or 16 with the same scale. */
static void split_blocks(const bq_landing *l, const uint8_t *src, size_t n, uint8_t *dst) {
  const uint32_t from = bq_type_get(l->stored)->block_bytes, nibbles = from - 4;
  const uint32_t part = bq_type_get(l->type)->block / 2;
  for (size_t i = 0; i < n; i += from, src += from)
    for (uint32_t j = 0; j < nibbles; j += part, dst += part + 4) {
      memcpy(dst, src + j, part);
      memcpy(dst + part, src + nibbles, 4);
    }
}

static void land_groups(const bq_landing *l, const bq_kernels *k, const uint8_t *staged,
                        uint64_t at, size_t n, uint8_t *tensor, uint8_t *spare) {
  const size_t group = (size_t)stored_bytes(l, BQ_TILE_ROWS);
  const size_t tiles = (size_t)bq_type_bytes(l->type, BQ_TILED, BQ_TILE_ROWS, l->cols);
  const size_t row = (size_t)bq_type_bytes(l->type, BQ_ROWS, 1, l->cols);
  uint64_t first = at / group;
  for (uint8_t *dst = tensor + first * tiles; n; dst += tiles, first++) {
    size_t part = n < group ? n : group;
    uint64_t rows = smaller(l->rows - first * BQ_TILE_ROWS, BQ_TILE_ROWS);
    const uint8_t *src = staged;
    if (l->way == BQ_LAND_SPLIT) {
      split_blocks(l, staged, part, spare);
      src = spare;
    }
    k->tile_rows[l->type](src, row, (size_t)rows, l->cols, dst);
    staged += part;
    n -= part;
  }
}

void bq_land(const bq_landing *l, const bq_kernels *kernels, const uint8_t *staged, uint64_t at,
             size_t n, uint8_t *tensor, uint8_t *spare) {
  if (l->way == BQ_LAND_DROP) return;
  if (l->way != BQ_LAND_WIDEN) {
    land_groups(l, kernels, staged, at, n, tensor, spare);
    return;
  }
  const bq_type_facts *f = bq_type_get(l->stored);
  size_t first = (size_t)(at / f->block_bytes) * f->block, count = n / f->block_bytes * f->block;
  /* The types can't fail, and scales have been looked at: a bad one ends the loading soon. */
  bq_dequantize(l->stored, BQ_ROWS, staged, 1, count, (float *)(void *)tensor + first, NULL);
}

/* --- NaN and infinity ----------------------------------------------------------------------- */

uint32_t bq_landing_unit(const bq_landing *l) {
  const bq_type_facts *f = bq_type_get(l->stored);
  return l->layout == BQ_TILED ? f->tile_bytes : f->block_bytes;
}

/* `count` numbers of `size` (2 or 4) bytes, one after the other. All are looked at before it is
 * known whether one is bad, so that the loop has no branch. */
static bool any_bad16(const uint8_t *p, size_t count, uint16_t exponent) {
  uint16_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    uint16_t v;
    memcpy(&v, p + 2 * i, 2);
    bad |= (uint16_t)-((v & exponent) == exponent);
  }
  return bad;
}

static bool any_bad32(const uint8_t *p, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t v;
    memcpy(&v, p + 4 * i, 4);
    bad |= (uint32_t)-((v & 0x7f800000u) == 0x7f800000u);
  }
  return bad;
}

static bool any_bad(bq_type type, const uint8_t *p, size_t bytes) {
  if (type == BQ_TYPE_F32 || scale_bytes(type) == 4) return any_bad32(p, bytes / 4);
  return any_bad16(p, bytes / 2, type == BQ_TYPE_BF16 ? 0x7f80 : 0x7c00);
}

/* Floats: a run of them at a time, then the one. */
static size_t find_bad_float(bq_type type, const uint8_t *p, size_t n) {
  enum { RUN = 4096 };
  const size_t size = bq_type_get(type)->block_bytes;
  for (size_t i = 0; i < n; i += RUN) {
    size_t run = n - i < RUN ? n - i : RUN;
    if (!any_bad(type, p + i, run)) continue;
    for (;; i += size)
      if (any_bad(type, p + i, size)) return i;
  }
  return n;
}

size_t bq_landing_find_bad(const bq_landing *l, const uint8_t *stored, size_t n) {
  const bq_type type = l->stored;
  if (is_float(type)) return find_bad_float(type, stored, n);
  const bq_type_facts *f = bq_type_get(type);
  const bool tiled = l->layout == BQ_TILED;
  const size_t unit = bq_landing_unit(l), size = scale_bytes(type);
  const size_t scales = tiled ? BQ_TILE_ROWS * f->tile_step / f->block * size : size;
  const size_t first = tiled ? 0 : f->block_bytes - size;
  for (size_t i = first; i < n; i += unit) {
    if (!any_bad(type, stored + i, scales)) continue;
    for (;; i += size)
      if (any_bad(type, stored + i, size)) return i;
  }
  return n;
}
