/* Encoders and decoders of the weight types (docs/FORMAT.md §1). */
#include <math.h>
#include <stdlib.h>

#include "blocks.h"
#include "check.h"
#include "core/half.h"
#include "core/import.h"
#include "core/dequantize.h"
#include "quant/encode.h"
#include "core/tile.h"
#include "kernels/kernels.h"
#include "random.h"

#define X(NAME, ...) BQ_TYPE_##NAME,
static const bq_type BLOCK_TYPES[] = {BQ_ENCODED_TYPES(X)};
static const bq_type STORED_TYPES[] = {BQ_STORED_TYPES(X)};
#undef X
enum {
  N_BLOCK_TYPES = sizeof BLOCK_TYPES / sizeof *BLOCK_TYPES,
  N_STORED_TYPES = sizeof STORED_TYPES / sizeof *STORED_TYPES
};

static bool f16_scales(bq_type type) { return bq_type_get(type)->scale_bytes == 2; }

/* The scale of a row-major block. */
static float load_block_scale(bq_type type, const uint8_t *block) {
  const bq_type_facts *f = bq_type_get(type);
  return bq_load_scale(block + f->scale_at, f->scale_bytes);
}

/* --- known bytes -------------------------------------------------------------------------- */

static void test_known_bytes_of_a_block(void) {
  /* The maximum is 7, so the scale is 1. Halves are rounded away from zero. */
  float w[32] = {7, -7, 0, 1, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f, 0.49f, -0.49f, 6.5f, -6.5f, 3};
  uint8_t block[20];
  const uint8_t expected[20] = {0x97, 0x10, 0xf1, 0xe2, 0xd3, 0x00, 0x97, 0x03, 0,    0,
                                0,    0,    0,    0,    0,    0,    0,    0,    0x80, 0x3f};
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4_32, BQ_ROWS, w, 1, 32, block, NULL), BQ_OK);
  CHECK_MEM(block, expected, sizeof expected);
}

static void test_known_bytes_of_a_tile(void) {
  /* Row r of 8: weight k is (k + r) mod 15 - 7; the scale is 1 in every block. */
  float w[8 * 32];
  for (int r = 0; r < 8; r++)
    for (int k = 0; k < 32; k++) w[r * 32 + k] = (float)((k + r) % 15 - 7);
  uint8_t tile[160];
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4_32, BQ_TILED, w, 8, 32, tile, NULL), BQ_OK);
  for (int r = 0; r < 8; r++) {
    float scale;
    memcpy(&scale, tile + 4 * r, 4);
    CHECK(scale == 1.0f);
    for (int j = 0; j < 4; j++)
      for (int i = 0; i < 4; i++) {
        int byte = tile[32 + j * 32 + r / 4 * 16 + r % 4 * 4 + i];
        CHECK_EQ(byte & 15, (4 * j + i + r) % 15 - 7 + 8);
        CHECK_EQ(byte >> 4, (16 + 4 * j + i + r) % 15 - 7 + 8);
      }
  }
}

static void test_every_nibble(void) {
  for (int scale = -2; scale <= 2; scale++) {
    uint8_t block[20];
    float s = (float)scale * 0.37f, w[32];
    for (int first = 0; first < 256; first += 16) {
      for (int i = 0; i < 16; i++) block[i] = (uint8_t)(first + i);
      memcpy(block + 16, &s, 4);
      CHECK_EQ(bq_dequantize(BQ_TYPE_BQ4_32, BQ_ROWS, block, 1, 32, w, NULL), BQ_OK);
      for (int i = 0; i < 16; i++) {
        int low = block[i] & 15, high = block[i] >> 4;
        CHECK(w[2 * i] == (float)(low < 8 ? low : low - 16) * s);
        CHECK(w[2 * i + 1] == (float)(high < 8 ? high : high - 16) * s);
      }
    }
  }
}

/* --- error bounds --------------------------------------------------------------------------- */

static double squared_error(bq_type type, const float *w, size_t n) {
  uint8_t bytes[20 * 16];
  float decoded[500];
  double sum = 0;
  CHECK_EQ(bq_quantize(type, BQ_ROWS, w, 1, n, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(type, BQ_ROWS, bytes, 1, n, decoded, NULL), BQ_OK);
  for (size_t i = 0; i < n; i++) sum += ((double)w[i] - decoded[i]) * ((double)w[i] - decoded[i]);
  return sum;
}

/* The squared error of the simple symmetric rule: the largest weight becomes the largest level. */
static double simple_symmetric_error(bq_type type, const float *w, size_t n) {
  const int trits = bq_type_get(type)->bits == BQ_TERNARY;
  double sum = 0;
  for (size_t first = 0; first < n; first += 64) {
    const size_t end = first + 64 < n ? first + 64 : n;
    double maximum = 0;
    for (size_t i = first; i < end; i++) maximum = fmax(maximum, fabs(w[i]));
    const double scale = bq_f16_to_f32(bq_f32_to_f16((float)(maximum / (trits ? 1 : 3))));
    for (size_t i = first; i < end; i++) {
      const double x = scale > 0 ? w[i] / scale : 0;
      const double q = trits ? fmin(fmax(round(x), -1), 1)
                             : 2 * fmin(fmax(round((x + 3) / 2), 0), 3) - 3;
      sum += pow(q * scale - w[i], 2);
    }
  }
  return sum;
}

/* The squared error of the simple rule with levels from the smallest weight to the largest. */
static double simple_asymmetric_error(bq_type type, const float *w, size_t n) {
  const size_t block = bq_type_get(type)->block;
  const double top = (1 << bq_type_get(type)->bits) - 1;
  double sum = 0;
  for (size_t first = 0; first < n; first += block) {
    const size_t end = first + block < n ? first + block : n;
    double low = w[first], high = low;
    for (size_t i = first; i < end; i++) low = fmin(low, w[i]), high = fmax(high, w[i]);
    const double min = bq_f16_to_f32(bq_f32_to_f16((float)low));
    const double scale = bq_f16_to_f32(bq_f32_to_f16((float)((high - min) / top)));
    for (size_t i = first; i < end; i++) {
      const double q = scale > 0 ? fmin(fmax(round((w[i] - min) / scale), 0), top) : 0;
      sum += pow(q * scale + min - w[i], 2);
    }
  }
  return sum;
}

/* The error with a search of scales is at most `limit` times the error of the simple rule. */
static void check_search(bq_type type, const float *w, size_t n, double limit) {
  double f32 = 0; /* allowance for rounding in f32 */
  for (size_t i = 0; i < n; i++) f32 += pow(w[i] * 0x1p-22, 2);
  const double simple_error = bq_type_get(type)->min_bytes ? simple_asymmetric_error(type, w, n)
                                                           : simple_symmetric_error(type, w, n);
  const double error = squared_error(type, w, n);
  if (!CHECK(error <= limit * simple_error + f32))
    printf("%s: expected at most %g, found %g\n", bq_type_get(type)->name,
           limit * simple_error + f32, error);
}

/* |error| <= scale / 2, apart from rounding, in every block of one row. */
static void check_error(bq_type type, const float *w, size_t n) {
  const bq_type_facts *f = bq_type_get(type);
  if (f->min_bytes || f->bits < 4) {
    check_search(type, w, n, 1.01); /* Rounding to f16 can increase the error. */
    return;
  }
  size_t blocks = (n + f->block - 1) / f->block;
  uint8_t *bytes = malloc(blocks * f->block_bytes);
  float *decoded = malloc(n * sizeof *decoded);
  CHECK_EQ(bq_quantize(type, BQ_ROWS, w, 1, n, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(type, BQ_ROWS, bytes, 1, n, decoded, NULL), BQ_OK);
  double tolerance = f->bits == 8 ? 1 + 1e-4 : 1 + 1e-5; /* w / scale is up to 127, or 7 */
  for (size_t i = 0; i < n; i++)
    CHECK(fabs((double)w[i] - decoded[i]) <=
          load_block_scale(type, bytes + i / f->block * f->block_bytes) / 2 * tolerance);
  free(bytes);
  free(decoded);
}

static void test_scale_search_reduces_errors(void) {
  uint64_t seed = 15;
  float w[500], part[500];
  for (int round = 0; round < 20; round++) {
    memset(w, 0, sizeof w); /* The sum of three uniform numbers is nearly normal. */
    for (int i = 0; i < 3; i++) {
      random_floats(&seed, part, 500, 0.05f);
      for (int j = 0; j < 500; j++) w[j] += part[j];
    }
    check_search(BQ_TYPE_BQ4A_32, w, 500, 0.85);
    check_search(BQ_TYPE_BQ3A_64, w, 500, 0.9);
    check_search(BQ_TYPE_BQ2A_64, w, 500, 0.7);
    check_search(BQ_TYPE_BQ2_64, w, 500, 0.8);
    check_search(BQ_TYPE_BQT_64, w, 500, 0.8);
  }
}

static void test_error_bound(void) {
  uint64_t seed = 1;
  float w[500];
  for (int t = 0; t < N_BLOCK_TYPES; t++) {
    const bq_type_facts *f = bq_type_get(BLOCK_TYPES[t]);
    const int maximum =
        f->min_bytes || f->bits == BQ_TERNARY ? 11 : 12; /* f16 numbers below 2^16 */
    for (int exponent = f16_scales(BLOCK_TYPES[t]) ? -4 : -20; exponent <= maximum; exponent++) {
      random_floats(&seed, w, 500, ldexpf(1, exponent));
      check_error(BLOCK_TYPES[t], w, 500);
      check_error(BLOCK_TYPES[t], w, 1);
      check_error(BLOCK_TYPES[t], w, 33);
      w[77] = ldexpf(-1, exponent + 4); /* an outlier */
      check_error(BLOCK_TYPES[t], w, 500);
    }
    memset(w, 0, sizeof w);
    check_error(BLOCK_TYPES[t], w, 500);
    w[9] = 1e-30f;
    check_error(BLOCK_TYPES[t], w, 500);
  }
  const float huge[] = {3.4e38f, -3.4e38f, 1e38f, 1, 0};
  check_error(BQ_TYPE_BQ4_16, huge, 5);
  check_error(BQ_TYPE_BQ4_64, huge, 5);
}

/* The errors that an encoder reports are the errors of the decoded weights. */
static void test_reported_errors(void) {
  const bq_layout layouts[] = {BQ_ROWS, BQ_TILED};
  uint64_t seed = 16;
  static float w[17 * 70], decoded[17 * 70];
  static uint8_t bytes[24 * 96 * 4];
  random_floats(&seed, w, 17 * 70, 1);
  for (uint32_t t = 0; t < BQ_TYPE_COUNT; t++)
    for (int l = 0; l < 2; l++) {
      const bq_type type = (bq_type)t;
      if (!bq_type_get(type)->encoded || (layouts[l] == BQ_TILED && bq_type_is_float(type)))
        continue;
      bq_encode_errors reported = {1, 2, 0};
      double sum = 1, squares = 2, maximum = 0;
      CHECK_EQ(bq_encode(type, layouts[l], w, 17, 70, &bq_scalar_encoder, bytes, &reported, NULL),
               BQ_OK);
      CHECK_EQ(bq_dequantize(type, layouts[l], bytes, 17, 70, decoded, NULL), BQ_OK);
      for (int i = 0; i < 17 * 70; i++) {
        const float e = fabsf(w[i] - decoded[i]);
        sum += e;
        squares += (double)e * e;
        maximum = fmax(maximum, e);
      }
      CHECK(fabs(reported.sum / sum - 1) < 1e-6 && fabs(reported.squares / squares - 1) < 1e-6);
      CHECK(reported.max == maximum);
    }
}

static void test_small_f16_scales(void) {
  /* f16 is too coarse for the usual bound: errors are limited, and zeros stay zeros. */
  for (int exponent = -60; exponent < -14; exponent++) {
    float w[32] = {ldexpf(1, exponent), ldexpf(-0.5f, exponent), 0}, decoded[32];
    uint8_t bytes[34];
    for (int t = 0; t < N_BLOCK_TYPES; t++) {
      if (!f16_scales(BLOCK_TYPES[t])) continue;
      CHECK_EQ(bq_quantize(BLOCK_TYPES[t], BQ_ROWS, w, 1, 32, bytes, NULL), BQ_OK);
      CHECK_EQ(bq_dequantize(BLOCK_TYPES[t], BQ_ROWS, bytes, 1, 32, decoded, NULL), BQ_OK);
      CHECK(load_block_scale(BLOCK_TYPES[t], bytes) >= 0x1p-24f);
      const bool without_zero = BLOCK_TYPES[t] == BQ_TYPE_BQ2_64; /* The type has no zero. */
      for (int i = 0; i < 32 && !without_zero; i++)
        CHECK(fabsf(w[i] - decoded[i]) <= fabsf(w[0]) / 2 + 0x1p-22f);
      if (!bq_type_get(BLOCK_TYPES[t])->min_bytes && !without_zero) CHECK(decoded[2] == 0.0f);
    }
  }
  float zeros[32] = {0};
  uint8_t bytes[34];
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ8_32, BQ_ROWS, zeros, 1, 32, bytes, NULL), BQ_OK);
  CHECK(load_block_scale(BQ_TYPE_BQ8_32, bytes) == 0.0f);
}

static void test_float_types(void) {
  float w[70], decoded[70];
  uint8_t bytes[280];
  uint64_t seed = 11;
  random_floats(&seed, w, 70, 3);
  w[3] = -0.0f;
  w[4] = 0x1p-24f;
  CHECK_EQ(bq_quantize(BQ_TYPE_F32, BQ_ROWS, w, 2, 35, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(BQ_TYPE_F32, BQ_ROWS, bytes, 2, 35, decoded, NULL), BQ_OK);
  CHECK_MEM(decoded, w, sizeof w);
  CHECK_EQ(bq_quantize(BQ_TYPE_F16, BQ_FLAT, w, 2, 35, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(BQ_TYPE_F16, BQ_ROWS, bytes, 2, 35, decoded, NULL), BQ_OK);
  for (int i = 0; i < 70; i++) CHECK(decoded[i] == bq_f16_to_f32(bq_f32_to_f16(w[i])));
  CHECK_EQ(bq_quantize(BQ_TYPE_BF16, BQ_ROWS, w, 2, 35, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(BQ_TYPE_BF16, BQ_ROWS, bytes, 2, 35, decoded, NULL), BQ_OK);
  for (int i = 0; i < 70; i++) CHECK(decoded[i] == bq_bf16_to_f32(bq_f32_to_bf16(w[i])));
}

/* --- layouts -------------------------------------------------------------------------------- */

static uint8_t *encode(bq_type type, bq_layout layout, const float *w, size_t rows, size_t cols) {
  uint64_t bytes = bq_type_bytes(type, layout, rows, cols);
  uint8_t *p = malloc((size_t)bytes);
  memset(p, 0xee, (size_t)bytes); /* every byte must be written */
  CHECK_EQ(bq_quantize(type, layout, w, rows, cols, p, NULL), BQ_OK);
  return p;
}

static void check_layouts(bq_type type, const float *w, size_t rows, size_t cols) {
  const bq_type_facts *f = bq_type_get(type);
  uint8_t *row_bytes = encode(type, BQ_ROWS, w, rows, cols);
  uint8_t *tile_bytes = encode(type, BQ_TILED, w, rows, cols);
  size_t n = rows * cols;
  float *a = malloc(n * 4), *b = malloc(n * 4);
  CHECK_EQ(bq_dequantize(type, BQ_ROWS, row_bytes, rows, cols, a, NULL), BQ_OK);
  CHECK_EQ(bq_dequantize(type, BQ_TILED, tile_bytes, rows, cols, b, NULL), BQ_OK);
  CHECK_MEM(a, b, n * 4);

  /* Repacking by kernels has the same bytes as the encoder, with padding. */
  size_t row_size = (cols + f->block - 1) / f->block * f->block_bytes;
  size_t group_size = (size_t)bq_type_bytes(type, BQ_TILED, 8, cols);
  uint8_t *group = malloc(group_size);
  for (size_t r = 0; r < rows; r += 8) {
    size_t rows_left = rows - r < 8 ? rows - r : 8;
    memset(group, 0xee, group_size);
    bq_kernels_scalar()->tile_rows(type, row_bytes + r * row_size, row_size, rows_left, cols,
                                   group);
    CHECK_MEM(group, tile_bytes + r / 8 * group_size, group_size);
  }
  free(group);

  if (n % f->block == 0) {
    uint8_t *flat = encode(type, BQ_FLAT, w, rows, cols);
    uint8_t *one_row = encode(type, BQ_ROWS, w, 1, n);
    CHECK_MEM(flat, one_row, n / f->block * f->block_bytes);
    CHECK_EQ(bq_dequantize(type, BQ_FLAT, flat, rows, cols, a, NULL), BQ_OK);
    CHECK_EQ(bq_dequantize(type, BQ_ROWS, flat, 1, n, b, NULL), BQ_OK);
    CHECK_MEM(a, b, n * 4);
    free(flat);
    free(one_row);
  }
  free(row_bytes);
  free(tile_bytes);
  free(a);
  free(b);
}

static void test_layouts(void) {
  const size_t rows[] = {1, 7, 8, 9, 16, 17},
               cols[] = {1, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 130};
  uint64_t seed = 2;
  float *w = malloc(17 * 130 * 4);
  for (int t = 0; t < N_BLOCK_TYPES; t++)
    for (size_t r = 0; r < 6; r++)
      for (size_t c = 0; c < 12; c++) {
        random_floats(&seed, w, rows[r] * cols[c], 2);
        check_layouts(BLOCK_TYPES[t], w, rows[r], cols[c]);
      }
  free(w);
}

/* --- refusals ------------------------------------------------------------------------------- */

static void check_refused(bq_type type, const float *w, size_t index) {
  uint8_t bytes[4 * 64];
  bq_error err = {BQ_OK, 0, ""};
  CHECK_EQ(bq_quantize(type, BQ_ROWS, w, 1, 64, bytes, &err), BQ_FORMAT);
  CHECK_EQ(err.status, BQ_FORMAT);
  CHECK_EQ(err.offset, index);
}

static void test_refuses_weights(void) {
  const float not_finite[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
    if (!bq_type_get(type)->encoded) continue;
    for (int i = 0; i < 4; i++) {
      float w[64] = {1};
      w[37] = not_finite[i];
      check_refused(type, w, 37);
    }
  }
  float large_weights[64] = {0};
  large_weights[40] = 65536;
  check_refused(BQ_TYPE_F16, large_weights, 40);
  large_weights[40] = 3.4e38f;
  check_refused(BQ_TYPE_BQ4H_32, large_weights, 32); /* the first weight of the block */
  check_refused(BQ_TYPE_BQ8_32, large_weights, 32);
  check_refused(BQ_TYPE_BQ4A_32, large_weights, 32);
  large_weights[40] = -65520; /* The minimum is rounded to infinity. */
  check_refused(BQ_TYPE_BQ4A_32, large_weights, 32);
  large_weights[40] = 0x1.ffp127f;
  check_refused(BQ_TYPE_BF16, large_weights, 40);
}

static void test_refuses_scales(void) {
  const float not_finite[] = {NAN, INFINITY, -INFINITY};
  uint64_t seed = 4;
  float w[9 * 65], decoded[9 * 65];
  random_floats(&seed, w, 9 * 65, 1);
  for (int t = 0; t < N_BLOCK_TYPES; t++)
    for (int i = 0; i < 3; i++) {
      bq_type type = BLOCK_TYPES[t];
      const bq_type_facts *f = bq_type_get(type);
      uint8_t *rows = encode(type, BQ_ROWS, w, 9, 65), *tiles = encode(type, BQ_TILED, w, 9, 65);
      uint16_t f16 = bq_f32_to_f16(not_finite[i]);
      size_t size = f16_scales(type) ? 2 : 4;
      const void *scale = size == 2 ? (const void *)&f16 : (const void *)&not_finite[i];
      size_t in_rows = 2 * f->block_bytes + f->scale_at, in_tiles = 3 * size;
      memcpy(rows + in_rows, scale, size);
      memcpy(tiles + in_tiles, scale, size);
      bq_error err = {BQ_OK, 0, ""};
      CHECK_EQ(bq_dequantize(type, BQ_ROWS, rows, 9, 65, decoded, &err), BQ_FORMAT);
      CHECK_EQ(err.offset, in_rows);
      CHECK_EQ(bq_dequantize(type, BQ_TILED, tiles, 9, 65, decoded, &err), BQ_FORMAT);
      CHECK_EQ(err.offset, in_tiles);
      free(rows);
      free(tiles);
    }
}

static void test_refuses_arguments(void) {
  float w[33] = {0};
  uint8_t bytes[400];
  CHECK_EQ(bq_quantize(BQ_TYPE_F32, BQ_TILED, w, 1, 33, bytes, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4_32, BQ_FLAT, w, 1, 33, bytes, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_dequantize(BQ_TYPE_BQ4_32, BQ_FLAT, bytes, 3, 11, w, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_quantize(BQ_TYPE_Q4_0, BQ_ROWS, w, 1, 32, bytes, NULL), BQ_UNSUPPORTED);
  CHECK_EQ(bq_quantize(BQ_TYPE_Q2S_64, BQ_ROWS, w, 1, 32, bytes, NULL), BQ_UNSUPPORTED);
  CHECK_EQ(bq_dequantize(BQ_TYPE_Q8_0, BQ_TILED, bytes, 8, 32, w, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_dequantize(BQ_TYPE_TERN_64, BQ_ROWS, bytes, 1, 32, w, NULL), BQ_UNSUPPORTED);
  bq_error err;
  CHECK_EQ(bq_dequantize(BQ_TYPE_COUNT, BQ_ROWS, bytes, 1, 32, w, &err), BQ_UNSUPPORTED);
  CHECK_EQ(err.offset, BQ_NO_OFFSET);
}

/* --- stored types --------------------------------------------------------------------------- */

enum { MAX_FILE = 1 << 15 };

/* Blocks and their values, decoded by the Python package gguf
 * (tests/golden/make_gguf_blocks.py). */
typedef struct gguf_file {
  uint32_t blocks, weights, block_bytes;
  const uint8_t *data;
  const float *values;
  _Alignas(4) uint8_t bytes[MAX_FILE];
} gguf_file;

static bool read_gguf(gguf_file *g, bq_type type) {
  char path[64];
  snprintf(path, sizeof path, "tests/golden/gguf_blocks/%s.bin", bq_type_get(type)->name);
  FILE *file = fopen(path, "rb");
  if (!CHECK(file != NULL)) return false;
  const size_t n = fread(g->bytes, 1, sizeof g->bytes, file);
  fclose(file);
  memcpy(&g->blocks, g->bytes, 12); /* blocks, weights, block_bytes */
  g->data = g->bytes + 12;
  const size_t raw = (size_t)g->blocks * g->block_bytes;
  g->values = (const float *)(const void *)(g->data + raw);
  return CHECK_EQ(n, 12 + raw + (size_t)g->blocks * g->weights * 4);
}

/* One row of all blocks, then rows of two blocks whose last 3 weights are padding. */
static void test_stored_values(void) {
  static gguf_file g;
  static float decoded[MAX_FILE / 4];
  static const bq_type floats[] = {BQ_TYPE_F32, BQ_TYPE_F16, BQ_TYPE_BF16};
  for (int t = 0; t < N_STORED_TYPES + 3; t++) {
    const bq_type type = t < 3 ? floats[t] : STORED_TYPES[t - 3];
    if (!read_gguf(&g, type)) continue;
    const size_t n = (size_t)g.blocks * g.weights;
    CHECK_EQ(bq_dequantize(type, BQ_ROWS, g.data, 1, n, decoded, NULL), BQ_OK);
    CHECK_MEM(decoded, g.values, n * 4);
    if (bq_type_is_float(type)) continue;
    CHECK_EQ(g.weights, bq_type_get(type)->block);
    CHECK_EQ(g.block_bytes, bq_type_get(type)->block_bytes);
    const size_t cols = 2 * g.weights - 3;
    CHECK_EQ(bq_dequantize(type, BQ_ROWS, g.data, g.blocks / 2, cols, decoded, NULL), BQ_OK);
    for (size_t r = 0; r < g.blocks / 2; r++)
      CHECK_MEM(decoded + r * cols, g.values + 2 * r * g.weights, cols * 4);
  }
}

/* Blocks of the compute type, and their tiles, have the same values. */
static void test_imported_values(void) {
  static gguf_file g;
  static float decoded[MAX_FILE / 4];
  static uint8_t blocks[MAX_FILE], tiles[MAX_FILE];
  for (int t = 0; t < N_STORED_TYPES; t++) {
    const bq_type type = STORED_TYPES[t], run = bq_type_get(type)->run;
    if (!read_gguf(&g, type)) continue;
    const size_t n = (size_t)g.blocks * g.weights, rows = g.blocks / 4, cols = 4 * g.weights;
    bq_import_fn *import = bq_import_of(type, run);
    if (import) {
      import(g.data, g.blocks, blocks);
      CHECK_EQ(bq_dequantize(run, BQ_ROWS, blocks, 1, n, decoded, NULL), BQ_OK);
      CHECK_MEM(decoded, g.values, n * 4);
    }
    tile_blocks(import ? run : type, import ? blocks : g.data, rows, cols, tiles);
    CHECK_EQ(bq_dequantize(run, BQ_TILED, tiles, rows, cols, decoded, NULL), BQ_OK);
    CHECK_MEM(decoded, g.values, n * 4);
  }
}

/* Every storage type can be converted to its compute type, and fits the buffers of the code. */
static void test_stored_types_fit_buffers(void) {
  for (int t = 0; t < N_STORED_TYPES; t++) {
    const bq_type_facts *f = bq_type_get(STORED_TYPES[t]), *run = bq_type_get(f->run);
    if (!bq_import_of(STORED_TYPES[t], f->run)) CHECK_EQ(f->block_bytes, run->block_bytes);
    CHECK(bq_type_runs(f->run) && run->tile_step);
    CHECK_EQ(f->block % run->block, 0);
    CHECK(f->block / run->block * run->block_bytes <= BQ_IMPORT_MAX_BYTES);
    CHECK(f->scale_at + f->scale_bytes + f->min_bytes <= f->block_bytes);
  }
  CHECK(bq_import_of(BQ_TYPE_BQ4_32, BQ_TYPE_BQ4_32) == NULL);
}

static void test_refuses_stored_scales(void) {
  const uint16_t not_finite[] = {0x7c00, 0xfc00, 0x7e00};
  static const bq_type types[] = {
#define X(NAME, ...) BQ_TYPE_##NAME,
      BQ_STORED_TYPES(X) BQ_TILED_TYPES(X)
#undef X
  };
  uint64_t seed = 22;
  static uint8_t bytes[4 * 280], tiles[8 * 2 * 280];
  static float decoded[2 * 512];
  for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
    const bq_type_facts *f = bq_type_get(types[t]);
    if (f->scale_bytes != 2) continue;
    for (uint32_t at = 0; at < f->scale_bytes + f->min_bytes; at += 2) {
      random_blocks(f, bytes, 4, 1, &seed);
      const size_t scale_at = 2 * f->block_bytes + f->scale_at + at;
      memcpy(bytes + scale_at, &not_finite[t % 3], 2);
      bq_error err = {BQ_OK, 0, ""};
      CHECK_EQ(bq_dequantize(types[t], BQ_ROWS, bytes, 2, 2 * f->block, decoded, &err), BQ_FORMAT);
      CHECK_EQ(err.offset, scale_at);
      if (!f->sub_block) continue;
      tile_blocks(types[t], bytes, 2, 2 * f->block, tiles);
      CHECK_EQ(bq_dequantize(types[t], BQ_TILED, tiles, 2, 2 * f->block, decoded, &err), BQ_FORMAT);
      CHECK_EQ(err.offset, 2 * (1 + 8 * (at / 2))); /* of row 1 in the first tile */
    }
  }
}

/* Minimum -1, scale 0.5: q = 2 (w + 1), from 0 to 15. */
static void test_known_bytes_with_minimum(void) {
  float w[32], decoded[32];
  for (int i = 0; i < 32; i++) w[i] = -1 + (float)(i % 16) * 0.5f;
  uint8_t block[20];
  const uint8_t expected[20] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32,
                                0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x00, 0x38, 0x00, 0xbc};
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4A_32, BQ_ROWS, w, 1, 32, block, NULL), BQ_OK);
  CHECK_MEM(block, expected, sizeof expected);
  CHECK_EQ(bq_dequantize(BQ_TYPE_BQ4A_32, BQ_ROWS, block, 1, 32, decoded, NULL), BQ_OK);
  CHECK(decoded[0] == -1.0f && decoded[5] == 1.5f && decoded[31] == 6.5f);
  for (int i = 0; i < 32; i++) w[i] = 3.25f; /* equal weights have scale 0 */
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4A_32, BQ_ROWS, w, 1, 32, block, NULL), BQ_OK);
  CHECK(load_block_scale(BQ_TYPE_BQ4A_32, block) == 0.0f);
  CHECK_EQ(bq_dequantize(BQ_TYPE_BQ4A_32, BQ_ROWS, block, 1, 32, decoded, NULL), BQ_OK);
  CHECK(decoded[0] == 3.25f && decoded[31] == 3.25f);
}

/* 8 scales, 8 minima, then unsigned nibbles in the order of the other tiles. */
static void test_known_bytes_of_a_tile_with_minimum(void) {
  float w[8 * 32];
  for (int r = 0; r < 8; r++)
    for (int k = 0; k < 32; k++) w[r * 32 + k] = (float)((k + r) % 16 - r);
  uint8_t tile[160];
  CHECK_EQ(bq_type_bytes(BQ_TYPE_BQ4A_32, BQ_TILED, 8, 32), 160);
  CHECK_EQ(bq_quantize(BQ_TYPE_BQ4A_32, BQ_TILED, w, 8, 32, tile, NULL), BQ_OK);
  for (int r = 0; r < 8; r++) {
    CHECK(bq_load_scale(tile + 2 * r, 2) == 1.0f);
    CHECK(bq_load_scale(tile + 16 + 2 * r, 2) == (float)-r);
    for (int j = 0; j < 4; j++)
      for (int i = 0; i < 4; i++) {
        int byte = tile[32 + j * 32 + r / 4 * 16 + r % 4 * 4 + i];
        CHECK_EQ(byte & 15, (4 * j + i + r) % 16);
        CHECK_EQ(byte >> 4, (16 + 4 * j + i + r) % 16);
      }
  }
}

int main(void) {
  RUN(test_known_bytes_of_a_block);
  RUN(test_known_bytes_with_minimum);
  RUN(test_known_bytes_of_a_tile_with_minimum);
  RUN(test_stored_values);
  RUN(test_imported_values);
  RUN(test_stored_types_fit_buffers);
  RUN(test_refuses_stored_scales);
  RUN(test_known_bytes_of_a_tile);
  RUN(test_every_nibble);
  RUN(test_error_bound);
  RUN(test_scale_search_reduces_errors);
  RUN(test_reported_errors);
  RUN(test_small_f16_scales);
  RUN(test_float_types);
  RUN(test_layouts);
  RUN(test_refuses_weights);
  RUN(test_refuses_scales);
  RUN(test_refuses_arguments);
  return check_summary();
}
