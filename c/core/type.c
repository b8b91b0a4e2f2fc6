#include "core/type.h"

static const bq_type_facts facts[] = {
#define BQ_X(name, text, block, bytes, step, tile, runs) {text, block, bytes, step, tile, runs},
    BQ_TYPE_LIST(BQ_X)
#undef BQ_X
};

const bq_type_facts *bq_type_get(uint32_t id) { return id < BQ_TYPE_COUNT ? &facts[id] : NULL; }

bq_layout bq_type_run_layout(bq_type type) {
  return facts[type].tile_step ? BQ_TILED : BQ_ROWS;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
  return b && a > (UINT64_MAX - 1) / b ? UINT64_MAX : a * b;
}

/* a / unit rounded up, without overflow. */
static uint64_t units(uint64_t a, uint64_t unit) { return a / unit + (a % unit != 0); }

uint64_t bq_type_bytes(bq_type type, bq_layout layout, uint64_t rows, uint64_t cols) {
  const bq_type_facts *f = &facts[type];
  switch (layout) {
  case BQ_ROWS: return multiply(rows, multiply(units(cols, f->block), f->block_bytes));
  case BQ_FLAT: {
    uint64_t n = multiply(rows, cols);
    return n == UINT64_MAX ? n : multiply(units(n, f->block), f->block_bytes);
  }
  case BQ_TILED:
    if (!f->tile_step) return UINT64_MAX;
    return multiply(units(rows, BQ_TILE_ROWS), multiply(units(cols, f->tile_step), f->tile_bytes));
  }
  return UINT64_MAX;
}
