/* Every function of every kernel table has the same bits as the scalar table, and the scalar table
 * is compared with double arithmetic. test_attend.c has the tests of attention. Native builds have
 * the scalar table only; wasm builds have all of them. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/fmath.h"
#include "core/half.h"
#include "core/import.h"
#include "core/dequantize.h"
#include "quant/encode.h"
#include "core/tile.h"
#include "kernels/encoders.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"
#include "random.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const bq_kernels *tables[4]; /* tables[0] is scalar */
static size_t n_tables;

/* All types that tables compute with. */
#define X(NAME, ...) BQ_TYPE_##NAME,
static const bq_type TYPES[] = {BQ_FLOAT_TYPES(X) BQ_TILED_TYPES(X)};
#undef X

static bool check_same(const void *actual, const void *expected, size_t bytes,
                       const char *operation, const bq_kernels *k) {
  bool same = memcmp(actual, expected, bytes) == 0;
  if (!CHECK(same)) printf("  %s of table %s\n", operation, k->name);
  return same;
}

static float *allocate_floats(size_t n) {
  float *p = malloc(n * sizeof *p + 1); /* malloc(0) may be NULL */
  return p;
}

/* Returns memory for weights and panels. */
static void *allocate_aligned(size_t bytes) {
  return aligned_alloc(16, bytes ? (bytes + 15) / 16 * 16 : 16);
}

/* Returns floats with a pattern that no kernel writes; it reveals writes past the end. */
static float *allocate_filled(size_t n) {
  float *p = allocate_floats(n);
  memset(p, 0xa5, n * sizeof *p);
  return p;
}

/* --- matmul --------------------------------------------------------------------------------- */

typedef enum content { RANDOM, EXTREME, CONTENTS } content;

/* Bytes of floats in front of a tile. */
static size_t scales_bytes(const bq_type_facts *f) {
  return (f->scale_bytes + f->min_bytes) * BQ_TILE_ROWS * f->tile_step / f->block;
}

/* Every bit pattern in the weights; scales of both signs, also subnormal f16 ones. EXTREME: the
 * largest sums of products. */
static uint8_t *make_weights(bq_type type, size_t rows, size_t cols, content kind, uint64_t *seed) {
  const bq_type_facts *f = bq_type_get(type);
  size_t bytes = (size_t)bq_type_bytes(type, bq_type_compute_layout(type), rows, cols);
  uint8_t *data = allocate_aligned(bytes);
  if (!f->tile_step) {
    for (size_t i = 0; i < bytes / f->block_bytes; i++) {
      float w = random_float(seed);
      uint16_t h =
          type == BQ_TYPE_F16 ? bq_f32_to_f16(i % 7 ? w : w * 0x1p-15f) : bq_f32_to_bf16(w);
      memcpy(data + i * f->block_bytes, type == BQ_TYPE_F32 ? (void *)&w : (void *)&h,
             f->block_bytes);
    }
    return data;
  }
  const size_t weights_at = bq_tile_weights_at(bq_tile_shape_of(type));
  for (size_t i = 0; i < bytes; i++) {
    data[i] = kind == RANDOM ? (uint8_t)random_bits(seed) : random_bits(seed) % 2 ? 0xff : 0;
    if (f->bits == 7 && i % f->tile_bytes >= weights_at) data[i] &= 127;
  }
  for (size_t tile = 0; tile < bytes; tile += f->tile_bytes)
    for (size_t i = 0; i < scales_bytes(f) / f->scale_bytes; i++) {
      float s = random_float(seed);
      uint16_t h = i % 3 ? bq_f32_to_f16(s) : (uint16_t)(random_bits(seed) & 0x83ff);
      memcpy(data + tile + f->scale_bytes * i, f->scale_bytes == 2 ? (void *)&h : (void *)&s,
             f->scale_bytes);
    }
  return data;
}

static void make_activations(float *x, size_t tokens, size_t stride, content kind, uint64_t *seed) {
  for (size_t i = 0; i < tokens * stride; i++)
    x[i] = kind == RANDOM          ? random_float(seed)
           : random_bits(seed) % 2 ? 3.5f
                                   : -3.5f; /* q = +-127 */
  if (kind == EXTREME) return;
  for (size_t i = 0; i + 40 < tokens * stride; i += 211) {
    /* Some blocks of zeros and of tiny numbers, and outliers. */
    memset(x + i, 0, 32 * sizeof *x);
    if (i % 2) x[i + 20] = 0x1p-101f;
    x[i + 35] = 40;
    x[i + 36] = -0.0f;
  }
}

typedef struct problem {
  bq_matrix w;
  const float *x;
  size_t x_stride, tokens;
} problem;

/* Returns y[tokens][rows + 3]; kernels must not write the last three columns. */
static float *run_matmul(const bq_kernels *k, problem p, size_t row0, size_t row1) {
  size_t stride = p.w.rows + 3;
  float *y = allocate_filled(p.tokens * stride);
  bq_batch batch = {p.x, p.x_stride, NULL, p.tokens};
  void *panel = NULL;
  if (k->matrix[p.w.type].quantized) {
    panel = allocate_aligned(k->panel_bytes(p.w.cols, p.tokens));
    k->quantize(p.x, p.x_stride, p.w.cols, p.tokens, panel);
    batch.panel = panel;
  }
  k->matrix[p.w.type].matmul(&p.w, &batch, row0, row1, y, stride);
  free(panel);
  return y;
}

/* Compares a table with the expected bits: all rows, two ranges of rows as two threads compute
 * them, and single tokens of the batch. */
static void check_matmul(const bq_kernels *k, problem p, const float *expected) {
  size_t stride = p.w.rows + 3, bytes = p.tokens * stride * sizeof(float);
  const char *type = bq_type_get(p.w.type)->name;
  float *y = run_matmul(k, p, 0, p.w.rows);
  if (!check_same(y, expected, bytes, "matmul", k))
    printf("  %s, %u x %u, %zu tokens\n", type, p.w.rows, p.w.cols, p.tokens);
  free(y);
  size_t split = (p.w.rows / 8 + 1) / 2 * 8;
  float *lower = run_matmul(k, p, 0, split), *upper = run_matmul(k, p, split, p.w.rows);
  for (size_t t = 0; t < p.tokens; t++)
    memcpy(lower + t * stride + split, upper + t * stride + split,
           (stride - split) * sizeof *lower);
  check_same(lower, expected, bytes, "matmul in ranges of rows", k);
  free(lower);
  free(upper);
  for (size_t t = 0; t < p.tokens; t += 3) {
    problem single = p;
    single.x += t * p.x_stride;
    single.tokens = 1;
    y = run_matmul(k, single, 0, p.w.rows);
    check_same(y, expected + t * stride, stride * sizeof *y, "matmul of one token of a batch", k);
    free(y);
  }
}

/* Compares with double arithmetic on the decoded weights; the error of a quantized activation is at
 * most half a step of max / 127. */
static void check_scalar_matmul(problem p, const float *y) {
  float *w = allocate_floats((size_t)p.w.rows * p.w.cols);
  CHECK_EQ(bq_dequantize(p.w.type, bq_type_compute_layout(p.w.type), p.w.data, p.w.rows, p.w.cols,
                         w, NULL),
           BQ_OK);
  bool quantized = tables[0]->matrix[p.w.type].quantized;
  for (size_t t = 0; t < p.tokens; t++)
    for (size_t r = 0; r < p.w.rows; r++) {
      const float *x = p.x + t * p.x_stride, *row = w + r * p.w.cols;
      double sum = 0, tolerance = 1e-30;
      for (size_t k0 = 0; k0 < p.w.cols; k0 += 32) {
        size_t end = k0 + 32 < p.w.cols ? k0 + 32 : p.w.cols;
        double most = 0, magnitudes = 0;
        for (size_t k = k0; k < end; k++) {
          most = fmax(most, fabs(x[k]));
          magnitudes += fabs(row[k]);
          sum += (double)row[k] * x[k];
        }
        tolerance += magnitudes * most * ((quantized ? 0.5001 / 127 : 0) + 1e-7 * (double)p.w.cols);
      }
      CHECK(fabs(y[t * (p.w.rows + 3) + r] - sum) <= tolerance);
    }
  free(w);
}

static void check_matmul_case(bq_type type, size_t rows, size_t cols, size_t tokens, content kind,
                              uint64_t *seed) {
  size_t x_stride = cols + 5;
  uint8_t *data = make_weights(type, rows, cols, kind, seed);
  float *x = allocate_floats(tokens * x_stride);
  make_activations(x, tokens, x_stride, kind, seed);
  for (size_t t = 0; t < tokens; t++)
    x[t * x_stride + cols] = NAN; /* past the end: must not be read */
  problem p = {{data, (uint32_t)rows, (uint32_t)cols, type, NULL}, x, x_stride, tokens};
  float *expected = run_matmul(tables[0], p, 0, rows);
  check_scalar_matmul(p, expected);
  for (size_t t = 0; t < tokens; t++)
    for (size_t i = rows; i < rows + 3; i++)
      CHECK_EQ(bq_bits_of(expected[t * (rows + 3) + i]), 0xa5a5a5a5);
  for (size_t i = 0; i < n_tables; i++) check_matmul(tables[i], p, expected);
  free(expected);
  free(x);
  free(data);
}

static const size_t ROWS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 32, 33, 64, 65};
static const size_t COLS[] = {1,  2,  3,  15, 16, 17,  31,  32,  33,
                              48, 63, 64, 65, 96, 128, 129, 160, 257};

static void test_matmul_shapes(void) {
  uint64_t seed = 1;
  for (size_t i = 0; i < COUNT(TYPES); i++)
    for (size_t c = 0; c < COUNT(COLS); c++)
      for (size_t r = 0; r < COUNT(ROWS); r++)
        check_matmul_case(TYPES[i], ROWS[r], COLS[c], 1 + (r + c) % 9, RANDOM, &seed);
}

static void test_matmul_tokens(void) {
  const size_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 70};
  uint64_t seed = 2;
  for (size_t i = 0; i < COUNT(TYPES); i++)
    for (size_t t = 0; t < COUNT(tokens); t++) {
      check_matmul_case(TYPES[i], 19, 97, tokens[t], RANDOM, &seed);
      check_matmul_case(TYPES[i], 24, 576, tokens[t], RANDOM, &seed);
      check_matmul_case(TYPES[i], 40, 800, tokens[t], RANDOM,
                        &seed); /* more than one strip of rows and of tokens */
    }
}

/* Numbers of row tiles that kernels compute several at a time, with every remainder. */
static void test_matmul_many_rows(void) {
  uint64_t seed = 5;
  for (size_t i = 0; i < COUNT(TYPES); i++)
    for (size_t groups = 7; groups < 26; groups++) {
      check_matmul_case(TYPES[i], groups * 8, 96, 1, RANDOM, &seed);
      check_matmul_case(TYPES[i], groups * 8 + 1 + groups % 7, 33, 1 + groups % 5, RANDOM, &seed);
    }
}

static void test_matmul_extremes(void) {
  uint64_t seed = 3;
  for (size_t i = 0; i < COUNT(TYPES); i++)
    for (size_t tokens = 1; tokens < 6; tokens++) {
      check_matmul_case(TYPES[i], 16, 64, tokens, EXTREME, &seed);
      check_matmul_case(TYPES[i], 9, 1536, tokens, EXTREME, &seed);
      check_matmul_case(TYPES[i], 72, 576, tokens, EXTREME, &seed);
    }
}

/* The largest integer sums: all weights at an end of their range, all activations +-127. */
static void test_matmul_saturation(void) {
  float x[2 * 64], sign[2] = {1, -1};
  for (size_t i = 0; i < COUNT(TYPES); i++) {
    bq_type type = TYPES[i];
    if (!bq_type_get(type)->tile_step) continue;
    uint64_t seed = 4;
    uint8_t *data = make_weights(type, 8, 64, RANDOM, &seed);
    for (int s = 0; s < 2; s++)
      for (int byte = 0; byte < 256; byte += 255) {
        for (int k = 0; k < 2 * 64; k++) x[k] = sign[s] * 2.0f;
        const bq_type_facts *f = bq_type_get(type);
        size_t weights_at = bq_tile_weights_at(bq_tile_shape_of(type));
        for (size_t tile = 0; tile < (64 + f->tile_step - 1) / f->tile_step; tile++)
          memset(data + tile * f->tile_bytes + weights_at, f->bits == 7 ? byte & 127 : byte,
                 f->tile_bytes - weights_at);
        problem p = {{data, 8, 64, type, NULL}, x, 64, 2};
        float *expected = run_matmul(tables[0], p, 0, 8);
        check_scalar_matmul(p, expected);
        for (size_t t = 1; t < n_tables; t++) check_matmul(tables[t], p, expected);
        free(expected);
      }
    free(data);
  }
}

/* Blocks whose maximum is near 2^-100, the smallest that is not rounded to zero, or subnormal, or
 * near the largest float, and blocks with NaN. With large weight scales, a value that is not
 * rounded to zero is visible. */
static void test_matmul_odd_activations(void) {
  const float most[] = {0x1p-100f, 0x1.fffffep-101f, 0x1p-101f, 0x1p-126f, 0x1p-149f, 1e-20f, 1e20f,
                        1e30f,     3.4e38f,          0};
  uint64_t seed = 14;
  for (size_t i = 0; i < COUNT(TYPES); i++) {
    if (!tables[0]->matrix[TYPES[i]].quantized) continue;
    uint8_t *data = make_weights(TYPES[i], 8, 32 * COUNT(most), RANDOM, &seed);
    float x[6 * 32 * COUNT(most)];
    for (size_t k = 0; k < COUNT(x); k++) {
      float m = most[k / 32 % COUNT(most)];
      x[k] = k % 32 == 5 ? m : random_float(&seed) * m;
      if (k % 97 == 0) x[k] = NAN;
    }
    /* Token 0 has all blocks; each of tokens 1 to 5 has one block and zeros. */
    for (size_t t = 1; t < 6; t++)
      for (size_t k = 0; k < 32 * COUNT(most); k++)
        if (k / 32 != t - 1) x[t * 32 * COUNT(most) + k] = 0;
    problem p = {{data, 8, 32 * COUNT(most), TYPES[i], NULL}, x, 32 * COUNT(most), 6};
    float *expected = run_matmul(tables[0], p, 0, 8);
    for (size_t t = 2; t < 6; t++)
      for (size_t r = 0; r < 8; r++) CHECK(expected[t * 11 + r] == 0); /* below 2^-100 */
    CHECK(expected[11] != 0);
    for (size_t t = 1; t < n_tables; t++) check_matmul(tables[t], p, expected);
    free(expected);
    free(data);
  }
}

static void test_rows(void) {
  uint64_t seed = 5;
  for (size_t i = 0; i < COUNT(TYPES); i++)
    for (size_t c = 0; c < COUNT(COLS); c++) {
      size_t rows = 11, cols = COLS[c];
      uint8_t *data = make_weights(TYPES[i], rows, cols, RANDOM, &seed);
      float *all = allocate_floats(rows * cols), *y = allocate_filled(cols + 1);
      bq_dequantize(TYPES[i], bq_type_compute_layout(TYPES[i]), data, rows, cols, all, NULL);
      bq_matrix w = {data, (uint32_t)rows, (uint32_t)cols, TYPES[i], NULL};
      for (size_t t = 0; t < n_tables; t++)
        for (size_t r = 0; r < rows; r++) {
          tables[t]->matrix[TYPES[i]].row(&w, r, y);
          check_same(y, all + r * cols, cols * sizeof *y, "row", tables[t]);
          CHECK_EQ(bq_bits_of(y[cols]), 0xa5a5a5a5);
        }
      free(all);
      free(y);
      free(data);
    }
}

/* Every f16 and bf16, infinities and NaNs too, as weights of one row. */
static void test_rows_of_halves(void) {
  uint16_t *data = malloc(65536 * sizeof *data);
  float *y = allocate_floats(65536), *expected = allocate_floats(65536);
  for (uint32_t h = 0; h < 65536; h++) data[h] = (uint16_t)h;
  for (int kind = 0; kind < 2; kind++) {
    bq_type type = kind ? BQ_TYPE_BF16 : BQ_TYPE_F16;
    for (uint32_t h = 0; h < 65536; h++)
      expected[h] = kind ? bq_bf16_to_f32((uint16_t)h) : bq_f16_to_f32((uint16_t)h);
    bq_matrix w = {(uint8_t *)data, 1, 65536, type, NULL};
    for (size_t t = 0; t < n_tables; t++) {
      tables[t]->matrix[type].row(&w, 0, y);
      check_same(y, expected, 65536 * sizeof *y, "row of halves", tables[t]);
    }
  }
  free(data);
  free(y);
  free(expected);
}

static void test_tile_rows(void) {
#define X(NAME, ...) BQ_TYPE_##NAME,
  static const bq_type types[] = {BQ_TILED_TYPES(X) BQ_STORED_TYPES(X)};
#undef X
  uint64_t seed = 6;
  for (size_t i = 0; i < COUNT(types); i++) {
    const bq_type_facts *f = bq_type_get(types[i]);
    if (bq_import_of(types[i], f->run)) continue;
    for (size_t c = 0; c < COUNT(COLS); c++)
      for (size_t rows = 1; rows <= 8; rows++) {
        size_t row_bytes = (COLS[c] + f->block - 1) / f->block * f->block_bytes;
        size_t bytes = (size_t)bq_type_bytes(f->run, BQ_TILED, 8, COLS[c]);
        uint8_t *src = malloc(rows * row_bytes), *actual = malloc(bytes), *expected = malloc(bytes);
        for (size_t b = 0; b < rows * row_bytes; b++) src[b] = (uint8_t)random_bits(&seed);
        memset(expected, 0x11, bytes);
        tables[0]->tile_rows(types[i], src, row_bytes, rows, COLS[c], expected);
        for (size_t t = 1; t < n_tables; t++) {
          memset(actual, 0x22, bytes);
          tables[t]->tile_rows(types[i], src, row_bytes, rows, COLS[c], actual);
          check_same(actual, expected, bytes, "tile_rows", tables[t]);
        }
        free(src);
        free(actual);
        free(expected);
      }
  }
}

/* Weights of all magnitudes, blocks of equal weights and of two values, for every number of
 * weights. */
static void test_scale_search(void) {
  uint64_t seed = 8;
  float w[BQ_SEARCH_BLOCKS][BQ_SEARCH_WEIGHTS], expected[2][BQ_SEARCH_BLOCKS],
      actual[2][BQ_SEARCH_BLOCKS];
  const float *rows[BQ_SEARCH_BLOCKS];
  for (int b = 0; b < BQ_SEARCH_BLOCKS; b++) rows[b] = w[b];
  for (int round = 0; round < 200; round++) {
    const size_t n = 1 + (size_t)round % BQ_SEARCH_WEIGHTS;
    random_floats(&seed, w[0], sizeof w / 4, ldexpf(1, round % 50 - 45));
    for (size_t i = 0; i < n; i++) {
      w[2][i] = 3.0f;
      w[3][i] = i ? 0.25f : -1e-39f;
      w[4][i] += 100.0f;
      w[5][i] = i % 2 ? 1e38f : -1e38f;
    }
    const float top = (float[]){15, 7, 3}[round % 3];
    bq_scalar_encoder.search_scales(rows, n, top, expected[0], expected[1]);
    CHECK(expected[0][2] == 0.0f && expected[1][2] == 3.0f);
    if (!bq_encoder_simd128()) continue;
    bq_encoder_simd128()->search_scales(rows, n, top, actual[0], actual[1]);
    CHECK_MEM(actual, expected, sizeof actual);
  }
}

static void test_max_magnitude(void) {
  uint64_t seed = 10;
  float w[70];
  for (size_t n = 0; n <= 70; n++) {
    random_floats(&seed, w, 70, 1.0f);
    if (n) w[n * 7 % n] = n % 3 ? -3.0f : n % 2 ? INFINITY : -NAN;
    const uint32_t expected = bq_scalar_encoder.max_magnitude_bits(w, n);
    for (size_t i = 0; i < n; i++) CHECK(expected >= (bq_bits_of(w[i]) & 0x7fffffffu));
    if (bq_encoder_simd128()) CHECK_EQ(bq_encoder_simd128()->max_magnitude_bits(w, n), expected);
  }
}

/* Weights are multiples of 1/2; with a scale of 1, they are ties. */
static void test_round(void) {
  uint64_t seed = 9;
  float w[64];
  int8_t expected[64], actual[64];
  for (int round = 0; round < 300; round++) {
    const size_t n = 16 * (1 + (size_t)round % 4);
    const float scale = round % 3 ? 0.5f + (float)(round % 7) : 1.0f;
    const bq_block_range range = {scale, round % 2 ? -3.5f : 0.0f, round % 5 ? 1 / scale : 0.0f,
                                  round % 2 ? 0.0f : -8.0f, round % 2 ? 15.0f : 7.0f};
    random_floats(&seed, w, n, 20.0f);
    for (size_t i = 0; i < n; i += 2) w[i] = (float)(int)(w[i] * 2) / 2;
    bq_encode_errors errors = {1, 2, 0}, simd_errors = errors;
    bq_scalar_encoder.round_block(w, n, &range, expected, &errors);
    if (!bq_encoder_simd128()) continue;
    bq_encoder_simd128()->round_block(w, n, &range, actual, &simd_errors);
    CHECK_MEM(actual, expected, n);
    CHECK_MEM(&simd_errors, &errors, sizeof errors);
    bq_encoder_simd128()->round_block(w, n, &range, actual, NULL);
    CHECK_MEM(actual, expected, n);
  }
}

/* --- vectors -------------------------------------------------------------------------------- */

enum { MAX_LENGTH = 1030 };

static size_t next_size(size_t n) { return n < 70 ? n + 1 : n < 256 ? n + 31 : n + 129; }
#define EACH_SIZE(n) for (size_t n = 1; n <= MAX_LENGTH; n = next_size(n))

/* Fills x with moderate numbers, some tiny ones, and in every eighth call some that overflow
 * exp. */
static void fill_vector(float *x, size_t n, uint64_t *seed) {
  random_floats(seed, x, n, random_bits(seed) % 8 ? 4.0f : 120.0f);
  for (size_t i = 0; i < n; i += 17) x[i] *= 0x1p-30f;
  if (n > 40) x[31] = -0.0f;
}

typedef struct vectors {
  float x[MAX_LENGTH + 1], w[MAX_LENGTH], b[MAX_LENGTH], y[MAX_LENGTH + 1],
      expected[MAX_LENGTH + 1];
} vectors;

static void fill_vectors(vectors *v, size_t n, uint64_t *seed) {
  memset(v, 0xa5, sizeof *v);
  fill_vector(v->x, n, seed);
  fill_vector(v->w, n, seed);
  fill_vector(v->b, n, seed);
}

/* The element after the end must keep the pattern of fill_vectors(). */
static void check_vector(const vectors *v, size_t n, const char *operation, const bq_kernels *k) {
  if (!check_same(v->y, v->expected, n * sizeof(float), operation, k)) printf("  n = %zu\n", n);
  CHECK_EQ(bq_bits_of(v->y[n]), 0xa5a5a5a5);
}

static void test_norms(void) {
  static vectors v;
  uint64_t seed = 7;
  EACH_SIZE(n) {
    fill_vectors(&v, n, &seed);
    for (size_t t = 0; t < n_tables; t++) {
      for (int weights = 0; weights < 2; weights++) {
        const float *w = weights ? v.w : NULL;
        tables[0]->rmsnorm(v.x, w, 1e-5f, n, v.expected);
        tables[t]->rmsnorm(v.x, w, 1e-5f, n, v.y);
        check_vector(&v, n, "rmsnorm", tables[t]);
        memcpy(v.y, v.x, n * sizeof *v.y);
        tables[t]->rmsnorm(v.y, w, 1e-5f, n, v.y);
        check_vector(&v, n, "rmsnorm in place", tables[t]);
      }
      for (int bias = 0; bias < 2; bias++) {
        const float *b = bias ? v.b : NULL;
        tables[0]->layernorm(v.x, v.w, b, 1e-5f, n, v.expected);
        tables[t]->layernorm(v.x, v.w, b, 1e-5f, n, v.y);
        check_vector(&v, n, "layernorm", tables[t]);
        memcpy(v.y, v.x, n * sizeof *v.y);
        tables[t]->layernorm(v.y, v.w, b, 1e-5f, n, v.y);
        check_vector(&v, n, "layernorm in place", tables[t]);
      }
    }
  }
}

static void test_norm_values(void) {
  static vectors v;
  uint64_t seed = 8;
  const size_t n = 576;
  fill_vectors(&v, n, &seed);
  double squares = 0, sum = 0, deviations = 0;
  for (size_t i = 0; i < n; i++) {
    squares += (double)v.x[i] * v.x[i];
    sum += v.x[i];
  }
  for (size_t i = 0; i < n; i++) deviations += pow(v.x[i] - sum / n, 2);
  tables[0]->rmsnorm(v.x, v.w, 1e-5f, n, v.y);
  for (size_t i = 0; i < n; i++)
    CHECK(fabs(v.y[i] - v.x[i] / sqrt(squares / n + 1e-5) * v.w[i]) <= 1e-5);
  tables[0]->rmsnorm(v.x, NULL, 1e-5f, n, v.y);
  for (size_t i = 0; i < n; i++)
    CHECK(fabs(v.y[i] - v.x[i] / sqrt(squares / n + 1e-5)) <= 1e-6);
  tables[0]->layernorm(v.x, v.w, v.b, 1e-5f, n, v.y);
  for (size_t i = 0; i < n; i++)
    CHECK(fabs(v.y[i] - ((v.x[i] - sum / n) / sqrt(deviations / n + 1e-5) * v.w[i] + v.b[i])) <=
          1e-5);
}

typedef void gate_fn(float *gate, const float *up, size_t n);

static void check_gate(size_t n, const char *operation, const vectors *in, gate_fn *reference,
                       gate_fn *gate, const bq_kernels *k) {
  static vectors v;
  for (int with_up = 0; with_up < 2; with_up++) {
    v = *in;
    memcpy(v.expected, v.x, sizeof v.expected);
    memcpy(v.y, v.x, sizeof v.y);
    reference(v.expected, with_up ? v.w : NULL, n);
    gate(v.y, with_up ? v.w : NULL, n);
    check_vector(&v, n, operation, k);
  }
}

static void test_gates(void) {
  static vectors v;
  uint64_t seed = 9;
  EACH_SIZE(n) {
    fill_vectors(&v, n, &seed);
    for (size_t t = 0; t < n_tables; t++) {
      const bq_kernels *k = tables[t], *s = tables[0];
      check_gate(n, "silu_mul", &v, s->silu_mul, k->silu_mul, k);
      check_gate(n, "gelu_mul", &v, s->gelu_mul, k->gelu_mul, k);
      check_gate(n, "gelu_erf_mul", &v, s->gelu_erf_mul, k->gelu_erf_mul, k);
      check_gate(n, "relu_mul", &v, s->relu_mul, k->relu_mul, k);
      memcpy(v.expected, v.x, sizeof v.expected);
      memcpy(v.y, v.x, sizeof v.y);
      s->add(v.expected, v.b, n);
      k->add(v.y, v.b, n);
      check_vector(&v, n, "add", k);
    }
  }
}

/* The points where the exact GELU changes its formula, infinities and NaN. */
static void test_gelu_erf_edges(void) {
  const float middle = BQ_ERF_MIDDLE * 1.41421356f, most = BQ_ERF_MAX * 1.41421356f;
  float x[64] = {0, -0.0f, NAN, INFINITY, -INFINITY, 0x1p-149f, -0x1p-149f, 3e38f, -3e38f};
  for (size_t i = 0; i < 8; i++) {
    x[9 + i] = bq_float_of(bq_bits_of(middle) - 4 + (uint32_t)i);
    x[17 + i] = -x[9 + i];
    x[25 + i] = bq_float_of(bq_bits_of(most) - 4 + (uint32_t)i);
    x[33 + i] = -x[25 + i];
  }
  for (size_t i = 41; i < 64; i++) x[i] = 0.25f * (float)i - 13.0f;
  for (size_t t = 0; t < n_tables; t++) {
    float y[64], expected[64];
    memcpy(expected, x, sizeof x);
    memcpy(y, x, sizeof x);
    tables[0]->gelu_erf_mul(expected, NULL, 64);
    tables[t]->gelu_erf_mul(y, NULL, 64);
    for (size_t i = 0; i < 64; i++)
      if (isnan(expected[i]))
        CHECK(isnan(y[i]));
      else
        CHECK_EQ(bq_bits_of(y[i]), bq_bits_of(expected[i]));
    CHECK(y[0] == 0 && isnan(y[2]) && y[3] == INFINITY && y[7] == 3e38f && y[8] == 0);
  }
}

static void test_gate_values(void) {
  for (float g = -20; g < 20; g += 0.37f) {
    float up = 1.5f, y = g;
    tables[0]->silu_mul(&y, &up, 1);
    CHECK(fabs(y - g / (1 + exp(-g)) * 1.5) <= 1e-6 * (1 + fabs(g)));
    y = g;
    tables[0]->gelu_mul(&y, NULL, 1);
    CHECK(fabs(y - 0.5 * g * (1 + tanh(0.7978845608 * (g + 0.044715 * g * g * g)))) <=
          2e-6 * (1 + fabs(g)));
    y = g;
    tables[0]->gelu_erf_mul(&y, &up, 1);
    CHECK(fabs(y - 0.5 * g * (1 + erf(g * sqrt(0.5))) * 1.5) <= 2e-7 * (1 + fabs(g)));
    y = g;
    tables[0]->relu_mul(&y, &up, 1);
    CHECK(y == (g > 0 ? g * up : 0));
  }
  float nan = NAN;
  for (size_t t = 0; t < n_tables; t++) {
    tables[t]->relu_mul(&nan, NULL, 1);
    CHECK(nan == 0);
    nan = NAN;
  }
  float extremes[] = {-100, 100, -1e30f, 1e30f};
  tables[0]->silu_mul(extremes, NULL, 4);
  CHECK(extremes[0] == 0 && extremes[1] == 100 && extremes[2] == 0 && extremes[3] == 1e30f);
}

static void test_rope(void) {
  static vectors v;
  uint64_t seed = 10;
  for (size_t dim = 2; dim <= 260; dim += 2)
    for (int adjacent = 0; adjacent < 2; adjacent++) {
      fill_vectors(&v, dim, &seed);
      for (size_t t = 0; t < n_tables; t++) {
        memcpy(v.expected, v.x, sizeof v.expected);
        memcpy(v.y, v.x, sizeof v.y);
        tables[0]->rope(v.expected, v.w, dim, adjacent);
        tables[t]->rope(v.y, v.w, dim, adjacent);
        check_vector(&v, dim, "rope", tables[t]);
      }
      for (size_t i = 0; i < dim / 2; i++) {
        size_t a = adjacent ? 2 * i : i, b = adjacent ? a + 1 : a + dim / 2;
        double c = v.w[2 * i], s = v.w[2 * i + 1];
        double tolerance = 1e-6 * (fabs(c) + fabs(s)) * (fabs(v.x[a]) + fabs(v.x[b]));
        CHECK(fabs(v.expected[a] - (v.x[a] * c - v.x[b] * s)) <= tolerance);
        CHECK(fabs(v.expected[b] - (v.x[a] * s + v.x[b] * c)) <= tolerance);
      }
    }
}

/* --- tables --------------------------------------------------------------------------------- */

static void test_tables(void) {
#ifdef __EMSCRIPTEN__
  CHECK(bq_kernels_simd128() != NULL);
#endif
#ifdef BQ_TEST_RELAXED /* this build has relaxed SIMD (emscripten.mk) */
  CHECK(bq_kernels_relaxed() != NULL && bq_kernels_relaxed16() != NULL);
#endif
  CHECK(bq_kernels_best() == tables[n_tables - 1]);
  for (size_t t = 0; t < n_tables; t++) {
    const bq_kernels *k = tables[t];
    for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
      const bq_type_facts *f = bq_type_get(type);
      const bool runs = bq_type_runs((bq_type)type);
      CHECK_EQ(k->matrix[type].matmul != NULL, runs);
      CHECK_EQ(k->matrix[type].row != NULL, runs);
      CHECK_EQ(k->matrix[type].quantized, runs && f->tile_step > 0);
    }
    if (!CHECK(bq_kernels_self_test(k)))
      printf("  self-test of %s: found 0x%016" PRIx64 ", of optional types 0x%016" PRIx64 "\n",
             k->name, bq_kernels_answer(k, false), bq_kernels_answer(k, true));
  }
}

int main(void) {
  const bq_kernels *all[] = {bq_kernels_scalar(), bq_kernels_simd128(), bq_kernels_relaxed16(),
                             bq_kernels_relaxed()};
  printf("tables:");
  for (size_t i = 0; i < COUNT(all); i++)
    if (all[i]) {
      tables[n_tables++] = all[i];
      printf(" %s", all[i]->name);
    }
  printf("\n");
  RUN(test_tables);
  RUN(test_matmul_shapes);
  RUN(test_matmul_tokens);
  RUN(test_matmul_many_rows);
  RUN(test_matmul_extremes);
  RUN(test_matmul_saturation);
  RUN(test_matmul_odd_activations);
  RUN(test_rows);
  RUN(test_rows_of_halves);
  RUN(test_tile_rows);
  RUN(test_scale_search);
  RUN(test_round);
  RUN(test_max_magnitude);
  RUN(test_norms);
  RUN(test_norm_values);
  RUN(test_gates);
  RUN(test_gelu_erf_edges);
  RUN(test_gate_values);
  RUN(test_rope);
  return check_summary();
}
