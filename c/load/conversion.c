#include "load/conversion.h"

#include <string.h>

#include "core/cursor.h"
#include "core/minmax.h"
#include "core/dequantize.h"
#include "core/tile.h"

enum { BATCH = 65536 }; /* target size of a batch; one group of 8 rows may be larger */

/* Stored bytes of `rows` rows. For a flat tensor, these rows must consist of whole blocks. */
static uint64_t stored_bytes(const bq_conversion *l, uint64_t rows) {
  return bq_type_bytes(l->stored, l->layout, rows, l->cols);
}

/* Bytes of the units that fit in BATCH, at least one and at most `total`. */
static uint64_t batch_of(uint64_t unit, uint64_t total) {
  uint64_t units = unit < BATCH ? BATCH / unit : 1;
  return bq_min64(unit * units, total);
}

/* Compute type for v1 blocks that straddle rows: the one with the largest blocks that divide rows
 * of this length; F32 if no such type exists. */
static bq_type straddling_type(uint32_t cols) {
  if (cols % 32 == 0) return BQ_TYPE_BQ4_32;
  return cols % 16 == 0 ? BQ_TYPE_BQ4_16 : BQ_TYPE_F32;
}

/* Bytes of the row-major compute blocks of `bytes` bytes of storage blocks. */
static uint64_t imported_bytes(const bq_conversion *l, uint64_t bytes) {
  const bq_type_facts *from = bq_type_get(l->stored), *to = bq_type_get(l->type);
  return bytes / from->block_bytes * (from->block / to->block) * to->block_bytes;
}

bq_conversion bq_conversion_of(bq_type stored, bq_layout layout, uint32_t rows, uint32_t cols,
                               bool vector) {
  const bq_type_facts *f = bq_type_get(stored);
  bq_conversion l = {.kind = BQ_CONVERT_COPY,
                     .stored = stored,
                     .type = f->run,
                     .layout = layout,
                     .rows = rows,
                     .cols = cols,
                     .bytes = bq_type_bytes(stored, layout, rows, cols)};
  if (layout == BQ_FLAT && cols % f->block) l.type = straddling_type(cols);
  if (vector) l.type = BQ_TYPE_F32;
  if (l.type == BQ_TYPE_F32 && stored != BQ_TYPE_F32)
    l.kind = BQ_CONVERT_WIDEN;
  else if (layout != bq_type_compute_layout(l.type) && !bq_type_is_float(l.type))
    l.kind = BQ_CONVERT_TILE;
  l.engine_bytes = bq_type_bytes(l.type, bq_type_compute_layout(l.type), rows, cols);
  if (l.kind == BQ_CONVERT_WIDEN) l.batch = batch_of(f->block_bytes, l.bytes);
  if (l.kind != BQ_CONVERT_TILE) return l;
  /* Where blocks straddle rows, 8 rows are a multiple of 128 weights, that is, of whole blocks. */
  l.batch = batch_of(stored_bytes(&l, BQ_TILE_ROWS), l.bytes);
  l.import = bq_import_of(stored, l.type);
  if (l.import) l.spare = imported_bytes(&l, stored_bytes(&l, BQ_TILE_ROWS));
  return l;
}

void bq_conversion_drop(bq_conversion *l) {
  l->kind = BQ_CONVERT_DROP;
  l->batch = batch_of(bq_conversion_unit(l), l->bytes);
}

static void convert_groups(const bq_conversion *l, const bq_kernels *k, const uint8_t *staged,
                           uint64_t at, size_t n, uint8_t *tensor, uint8_t *spare) {
  const size_t group = (size_t)stored_bytes(l, BQ_TILE_ROWS);
  const size_t tiles = (size_t)bq_type_bytes(l->type, BQ_TILED, BQ_TILE_ROWS, l->cols);
  const size_t row = (size_t)(l->import ? imported_bytes(l, group) : group) / BQ_TILE_ROWS;
  uint64_t first = at / group;
  for (uint8_t *dst = tensor + first * tiles; n; dst += tiles, first++) {
    size_t part = n < group ? n : group;
    uint64_t rows = bq_min64(l->rows - first * BQ_TILE_ROWS, BQ_TILE_ROWS);
    if (l->import) l->import(staged, part / bq_type_get(l->stored)->block_bytes, spare);
    k->tile_rows(l->import ? l->type : l->stored, l->import ? spare : staged, row, (size_t)rows,
                 l->cols, dst);
    staged += part;
    n -= part;
  }
}

void bq_convert(const bq_conversion *l, const bq_kernels *kernels, const uint8_t *staged,
                uint64_t at, size_t n, uint8_t *tensor, uint8_t *spare) {
  if (l->kind == BQ_CONVERT_DROP) return;
  if (l->kind == BQ_CONVERT_TILE) {
    convert_groups(l, kernels, staged, at, n, tensor, spare);
    return;
  }
  const bq_type_facts *f = bq_type_get(l->stored);
  size_t first = (size_t)(at / f->block_bytes) * f->block, count = n / f->block_bytes * f->block;
  /* This can't fail for these types, except by a bad scale, which has been recorded and will end
   * loading. */
  bq_dequantize(l->stored, BQ_ROWS, staged, 1, count, (float *)(void *)tensor + first, NULL);
}

/* --- NaN and infinity ----------------------------------------------------------------------- */

enum { FLOATS_AT_ONCE = 4096 }; /* bytes */

static uint32_t number_bytes(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  return bq_type_is_float(type) ? f->block_bytes : f->scale_bytes;
}

uint32_t bq_conversion_unit(const bq_conversion *l) {
  const bq_type_facts *f = bq_type_get(l->stored);
  return l->layout == BQ_TILED ? f->tile_bytes : f->block_bytes;
}

/* Whether one of `count` numbers of 2 (or 4) bytes has all bits of its exponent set. The loop reads
 * all of them, so that it has no branch. */
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

/* Whether `bytes` bytes of numbers have one that is NaN or infinite. The numbers are weights of a
 * float type, or scales and minimums. */
static bool any_bad(bq_type type, const uint8_t *p, size_t bytes) {
  if (number_bytes(type) == 4) return any_bad32(p, bytes / 4);
  return any_bad16(p, bytes / 2, type == BQ_TYPE_BF16 ? 0x7f80 : 0x7c00);
}

/* Offset of the first number that is NaN or infinite; there must be one. */
static size_t first_bad(bq_type type, const uint8_t *p) {
  size_t i = 0;
  while (!any_bad(type, p + i, number_bytes(type))) i += number_bytes(type);
  return i;
}

/* Index of the first of n bytes that is above 127, or n. */
static size_t first_large(const uint8_t *p, size_t n) {
  uint8_t all = 0;
  for (size_t i = 0; i < n; i++) all |= p[i];
  if (all < 128) return n;
  size_t i = 0;
  while (p[i] < 128) i++;
  return i;
}

size_t bq_conversion_find_bad(const bq_conversion *l, const uint8_t *stored, size_t n) {
  const bq_type_facts *f = bq_type_get(l->stored);
  const bool tiled = l->layout == BQ_TILED, floats = bq_type_is_float(l->stored);
  size_t unit = bq_conversion_unit(l), first = f->scale_at, bytes = f->scale_bytes + f->min_bytes;
  if (tiled) {
    first = 0;
    bytes *= BQ_TILE_ROWS * f->tile_step / f->block;
  }
  if (floats) unit = bytes = FLOATS_AT_ONCE;
  for (size_t i = 0; i < n; i += unit) {
    size_t run = floats && n - i < bytes ? n - i : bytes;
    if (any_bad(l->stored, stored + i + first, run))
      return i + first + first_bad(l->stored, stored + i + first);
    if (!tiled || f->bits != 7) continue;
    const size_t weights = bq_tile_weights_at(bq_tile_shape_of(l->stored));
    const size_t bad = first_large(stored + i + weights, unit - weights);
    if (bad < unit - weights) return i + weights + bad;
  }
  return n;
}
