#include "core/type.h"

/* Bytes of a scale in a row-major block: for sub-blocks, of the super-block's f16. */
#define SCALE_BYTES(bytes) ((bytes) == 1 ? 2 : (bytes))
#define BLOCK(n, scale) ((scale) == 1 ? BQ_SUPER_BLOCK : (n))
/* A tile covers 32 k, or a block where that is longer. */
#define STEP(block) ((block) < 32 ? 32 : (block))
#define WEIGHTS_BYTES(weights, bits) ((weights) * BQ_BLOCK_BITS(bits) / 8)
/* Bytes of the sub-block scales and minimums of `k` weights. */
#define SUB_SCALE_BYTES(k, n, scale, min) ((k) / (n) * (((scale) == 1) + ((min) == 1)))
#define ROW_BYTES(k, n, bits, scale, min)                              \
  (WEIGHTS_BYTES(k, bits) + SUB_SCALE_BYTES(k, n, scale, min) +          \
   (k) / BLOCK(n, scale) * (SCALE_BYTES(scale) + SCALE_BYTES(min)))

#define FLOAT(NAME, text, bytes)  \
  {.name = #text,                 \
   .run = BQ_TYPE_##NAME,         \
   .block = 1,                    \
   .block_bytes = bytes,          \
   .bits = 8 * bytes,             \
   .encoded = true},
#define RUN(NAME, text, n, bits_each, scale, min, can_encode, is_rare)                      \
  {.name = #text,                                                                           \
   .run = BQ_TYPE_##NAME,                                                                   \
   .block = BLOCK(n, scale),                                                                \
   .block_bytes = ROW_BYTES(BLOCK(n, scale), n, bits_each, scale, min),                     \
   .bits = bits_each,                                                                       \
   .sub_block = (scale) == 1 ? (n) : 0,                                                       \
   .scale_at = WEIGHTS_BYTES(BLOCK(n, scale), bits_each) +                                  \
               SUB_SCALE_BYTES(BLOCK(n, scale), n, scale, min),                             \
   .scale_bytes = SCALE_BYTES(scale),                                                       \
   .min_bytes = SCALE_BYTES(min),                                                           \
   .tile_step = STEP(BLOCK(n, scale)),                                                      \
   .tile_bytes = BQ_TILE_ROWS * ROW_BYTES(STEP(BLOCK(n, scale)), n, bits_each, scale, min), \
   .encoded = can_encode,                                                                   \
   .rare = is_rare},
#define TILED(NAME, text, n, bits_each, scale, min) \
  RUN(NAME, text, n, bits_each, scale, min, true, false)
#define RARE(NAME, text, n, bits_each, scale, min) \
  RUN(NAME, text, n, bits_each, scale, min, true, true)
#define IMPORTED(NAME, text, n, bits_each, scale, min) \
  RUN(NAME, text, n, bits_each, scale, min, false, true)
#define STORED(NAME, text, n, bytes, at, scale, min, RUN_TYPE) \
  {.name = #text,                                              \
   .run = BQ_TYPE_##RUN_TYPE,                                  \
   .block = n,                                                 \
   .block_bytes = bytes,                                       \
   .scale_at = at,                                             \
   .scale_bytes = scale,                                       \
   .min_bytes = min},
#define NAMED(NAME, text, n, bytes) \
  {.name = #text, .run = BQ_TYPE_NONE, .block = n, .block_bytes = bytes},

static const bq_type_facts facts[] = {BQ_TYPE_LIST(FLOAT, TILED, RARE, IMPORTED, STORED, NAMED)};

const bq_type_facts *bq_type_get(uint32_t id) { return id < BQ_TYPE_COUNT ? &facts[id] : NULL; }

bq_layout bq_type_compute_layout(bq_type type) {
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
