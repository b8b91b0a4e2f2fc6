/* Scalar matmuls and row reads: the canonical orders of kernels.h, written as plainly as possible.
 */
#include <string.h>

#include "core/fmath.h"
#include "core/tile.h"
#include "kernels/scalar.h"

#define INLINE static inline __attribute__((always_inline))

/* --- float weights -------------------------------------------------------------------------- */

typedef enum float_kind { KIND_F32, KIND_F16, KIND_BF16 } float_kind;

INLINE float load_weight(float_kind kind, const uint8_t *row, size_t k) {
  if (kind == KIND_F32) {
    float f;
    memcpy(&f, row + 4 * k, sizeof f);
    return f;
  }
  uint16_t h;
  memcpy(&h, row + 2 * k, sizeof h);
  return kind == KIND_F16 ? bq_f16_to_f32(h) : bq_bf16_to_f32(h);
}

INLINE const uint8_t *float_row(float_kind kind, const bq_matrix *w, size_t row) {
  return w->data + row * w->cols * (kind == KIND_F32 ? 4 : 2);
}

INLINE void matmul_float(float_kind kind, const bq_matrix *w, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  for (size_t r = row0; r < row1; r++) {
    const uint8_t *weights = float_row(kind, w, r);
    for (size_t t = 0; t < a->tokens; t++) {
      const float *x = a->x + t * a->x_stride;
      float lane[4] = {0, 0, 0, 0};
      for (size_t k = 0; k < w->cols; k++) lane[k % 4] += load_weight(kind, weights, k) * x[k];
      y[t * y_stride + r] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }
  }
}

INLINE void row_float(float_kind kind, const bq_matrix *w, size_t row, float *y) {
  const uint8_t *weights = float_row(kind, w, row);
  for (size_t k = 0; k < w->cols; k++) y[k] = load_weight(kind, weights, k);
}

#define FLOAT_SLOTS(NAME, name, bytes)                                                          \
  void bq_scalar_matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, \
                               float *y, size_t y_stride) {                                     \
    matmul_float(KIND_##NAME, w, a, row0, row1, y, y_stride);                                   \
  }                                                                                             \
  void bq_scalar_row_##name(const bq_matrix *w, size_t row, float *y) {                         \
    row_float(KIND_##NAME, w, row, y);                                                          \
  }

BQ_FLOAT_TYPES(FLOAT_SLOTS)

/* --- activations ---------------------------------------------------------------------------- */

/* The scalar panel: [tokens][blocks], blocks rounded up to an even number because a tile may cover
 * 64 weights. */
typedef struct block {
  float scale;
  int8_t q[32];
} block;

static size_t panel_blocks(size_t k) { return (k + 63) / 64 * 2; }

size_t bq_scalar_panel_bytes(size_t k, size_t tokens) {
  return tokens * panel_blocks(k) * sizeof(block);
}

static void quantize_block(const float *x, size_t n, block *b) {
  float m = 0.0f;
  for (size_t i = 0; i < n; i++) {
    float size = bq_float_of(bq_bits_of(x[i]) & 0x7fffffffu);
    m = m < size ? size : m;
  }
  memset(b, 0, sizeof *b);
  if (!(m >= 0x1p-100f)) return;
  b->scale = m / 127.0f;
  float inv = 127.0f / m;
  for (size_t i = 0; i < n; i++) {
    float v = x[i] * inv;
    v = -127.0f < v ? v : -127.0f; /* NaN becomes -127 */
    v = v < 127.0f ? v : 127.0f;
    b->q[i] = (int8_t)(int32_t)(bq_bits_of(v + 0x1.8p23f) - 0x4b400000u);
  }
}

void bq_scalar_quantize(const float *x, size_t x_stride, size_t k, size_t tokens, uint8_t *panel) {
  const size_t blocks = panel_blocks(k);
  block *b = (block *)panel;
  for (size_t t = 0; t < tokens; t++)
    for (size_t i = 0; i < blocks; i++) {
      size_t left = i * 32 < k ? k - i * 32 : 0;
      quantize_block(x + t * x_stride + (left ? i * 32 : 0), left < 32 ? left : 32, b++);
    }
}

/* --- tiled weights -------------------------------------------------------------------------- */

/* Ternary weights need no multiplication. Encoders never write the code for 2, but two bits can
 * hold it. */
INLINE int32_t product(bq_tile_shape s, int32_t a, int32_t w) {
  if (s.bits != BQ_TERNARY) return a * w;
  return w == 0 ? 0 : w < 0 ? -a : w == 1 ? a : a + a;
}

INLINE float dot_row(bq_tile_shape s, const uint8_t *tiles, size_t n_tiles, uint32_t r,
                     const block *a, size_t blocks) {
  const uint32_t shared = s.block < 32 ? s.block : 32; /* weights that share both scales */
  float acc = 0.0f;
  for (size_t i = 0; i < n_tiles; i++, tiles += bq_tile_size(s), a += s.step / 32)
    for (uint32_t k = 0; k < s.step && i * s.step + k < 32 * blocks; k += shared) {
      const block *b = &a[k / 32];
      int32_t dot = 0, sum = 0;
      for (uint32_t j = k; j < k + shared; j++) {
        dot += product(s, b->q[j % 32], bq_tile_weight(s, tiles, r, j));
        sum += b->q[j % 32];
      }
      acc += ((float)dot * b->scale) * bq_tile_scale(s, tiles, r, k);
      if (s.min_bytes) acc += ((float)sum * b->scale) * bq_tile_min(s, tiles, r, k);
    }
  return acc;
}

INLINE void matmul_tiled(bq_tile_shape s, const bq_matrix *w, const bq_batch *a, size_t row0,
                         size_t row1, float *y, size_t y_stride) {
  const size_t tiles = bq_tiles_per_row(s, w->cols), blocks = panel_blocks(w->cols);
  const block *panel = (const block *)a->panel;
  for (size_t r = row0; r < row1; r++) {
    const uint8_t *group = w->data + r / BQ_TILE_ROWS * tiles * bq_tile_size(s);
    for (size_t t = 0; t < a->tokens; t++)
      y[t * y_stride + r] = dot_row(s, group, tiles, r % BQ_TILE_ROWS, panel + t * blocks, blocks);
  }
}

/* The tile shape: a constant, except for types with a table of codes. */
#define SHAPE_OF(w, block, bits, scale, min) \
  ((bits) == BQ_CODES ? bq_tile_shape_of((w)->type) : BQ_TILE_SHAPE(block, bits, scale, min))
#define TILED_SLOT(NAME, name, block, bits, scale, min)                                         \
  void bq_scalar_matmul_##name(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1, \
                               float *y, size_t y_stride) {                                     \
    matmul_tiled(SHAPE_OF(w, block, bits, scale, min), w, a, row0, row1, y, y_stride);          \
  }

BQ_TILED_TYPES(TILED_SLOT)

void bq_scalar_row_tiled(const bq_matrix *w, size_t row, float *y) {
  const bq_tile_shape s = bq_tile_shape_of(w->type);
  const uint8_t *tile =
      w->data + row / BQ_TILE_ROWS * bq_tiles_per_row(s, w->cols) * bq_tile_size(s);
  const uint32_t r = row % BQ_TILE_ROWS;
  const int zero = bq_tile_zero_point(s);
  for (size_t k0 = 0; k0 < w->cols; k0 += s.step, tile += bq_tile_size(s))
    for (uint32_t k = 0; k < s.step && k0 + k < w->cols; k += s.block) {
      /* for 8-bit weights, the most common case */
      const uint8_t *bytes = tile + bq_tile_weights_at(s) + 4 * r;
      const float scale = bq_tile_scale(s, tile, r, k), min = bq_tile_min(s, tile, r, k);
      for (uint32_t i = k; i < k + s.block && k0 + i < w->cols; i++) {
        const int q =
            s.bits == 8 ? bytes[i / 4 * 32 + i % 4] - zero : bq_tile_weight(s, tile, r, i);
        const float x = (float)q * scale;
        y[k0 + i] = s.min_bytes ? x + min : x;
      }
    }
}

/* --- row-major blocks to tiles ---------------------------------------------------------------- */

/* Copies the scales and minimums of a super-block to row r of a tile. `super` points to its f16
 * scale and minimum; the sub-block scales, then the sub-block minimums, are directly before it. */
static void tile_sub_scales(bq_tile_shape s, const uint8_t *super, uint8_t *tile, uint32_t r) {
  const uint8_t *sub_scale = super - bq_tile_blocks(s) * (1 + s.min_bytes);
  for (uint32_t k = 0; k < s.step; k += s.block) tile[bq_tile_scale_at(s, r, k)] = *sub_scale++;
  for (uint32_t k = 0; s.min_bytes && k < s.step; k += s.block)
    tile[bq_tile_min_at(s, r, k)] = *sub_scale++;
  memcpy(tile + 2 * r, super, 2);
  if (s.min_bytes) memcpy(tile + 2 * (BQ_TILE_ROWS + r), super + 2, 2);
}

/* Copies a block into row r of a tile; its weights begin at column k0. */
static void tile_block(bq_tile_shape s, bq_row_shape from, const uint8_t *block, uint8_t *tile,
                       uint32_t r, uint32_t k0) {
  const uint8_t *scale = block + from.scale_at;
  for (uint32_t k = 0; k < from.block; k++)
    bq_tile_put_weight(s, tile, r, k0 + k, bq_row_weight_stored(from, s, block, k));
  if (s.scale_bytes == 1) {
    tile_sub_scales(s, scale, tile, r);
    return;
  }
  memcpy(tile + bq_tile_scale_at(s, r, k0), scale, s.scale_bytes);
  memcpy(tile + bq_tile_min_at(s, r, k0), scale + s.scale_bytes, s.min_bytes);
}

void bq_scalar_tile_rows(bq_type type, const uint8_t *src, size_t row_bytes, size_t rows,
                         size_t cols, uint8_t *dst) {
  const bq_tile_shape s = bq_tile_shape_of(bq_type_get(type)->run);
  const bq_row_shape from = bq_row_shape_of(type);
  const size_t tiles = bq_tiles_per_row(s, cols);
  for (size_t i = 0; i < tiles; i++) {
    uint8_t *tile = dst + i * bq_tile_size(s);
    memset(tile, 0, bq_tile_weights_at(s));
    memset(tile + bq_tile_weights_at(s), bq_tile_zero_byte(s),
           bq_tile_size(s) - bq_tile_weights_at(s));
    for (uint32_t r = 0; r < rows; r++)
      for (uint32_t k = 0; k < s.step && i * s.step + k < cols; k += from.block)
        tile_block(s, from, src + r * row_bytes + (i * s.step + k) / from.block * from.bytes, tile,
                   r, k);
  }
}
