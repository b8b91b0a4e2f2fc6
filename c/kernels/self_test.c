/* Known-answer test: runs every entry that a token needs on small fixed inputs, and hashes the
 * results. The odd sizes make a matmul use all its widths: 7 tokens are 4 + 2 + 1, 9 rows are 8 +
 * 1.
 */
#include "kernels/self_test.h"

#include <string.h>

#include "core/half.h"
#include "kernels/kv.h"

enum { TOKENS = 7, ROWS = 9, COLS = 72, LENGTH = 45, HEAD = 20, POSITIONS = 6 };

typedef struct workspace {
  uint64_t hash;
  uint32_t seed;
  float x[TOKENS * COLS], y[POSITIONS * HEAD];
  uint8_t file[8 * 280]; /* one group of rows, row-major */
  _Alignas(16) uint8_t weights[2 * 8 * 280], panel[6144];
  _Alignas(16) uint8_t block[BQ_KV_BLOCK * 2 * HEAD * 4];
} workspace;

static void hash(workspace *s, const void *data, size_t n) {
  const uint8_t *p = data;
  for (size_t i = 0; i < n; i++) s->hash = (s->hash ^ p[i]) * 0x100000001b3ull; /* FNV-1a */
}

static uint32_t next(workspace *s) {
  s->seed = s->seed * 1664525u + 1013904223u;
  return s->seed >> 8;
}

static float next_float(workspace *s) { return (float)(int32_t)(next(s) - 0x800000) * 0x1p-23f; }

static void fill(workspace *s, float *x, size_t n) {
  for (size_t i = 0; i < n; i++) x[i] = next_float(s);
}

/* --- matmuls -------------------------------------------------------------------------------- */

static void make_plain(workspace *s, bq_type type) {
  for (size_t i = 0; i < ROWS * COLS; i++) {
    float w = next_float(s);
    uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(w) : bq_f32_to_bf16(w);
    if (type == BQ_TYPE_F32) memcpy(s->weights + 4 * i, &w, 4);
    else memcpy(s->weights + 2 * i, &h, 2);
  }
}

/* Random scale and minimum of block i; some f16 ones are subnormal. */
static void put_scales(workspace *s, const bq_type_facts *f, size_t i, uint8_t *to) {
  for (uint32_t at = 0; at < f->scale_bytes + f->min_bytes; at += f->scale_bytes) {
    float scale = next_float(s);
    uint16_t h = bq_f32_to_f16(i % 3 ? scale : scale * 0x1p-16f);
    memcpy(to + at, f->scale_bytes == 2 ? (void *)&h : (void *)&scale, f->scale_bytes);
  }
}

/* Random row-major blocks with scales and minimums of both signs, then converted to tiles. */
static void make_tiled(const bq_kernels *k, workspace *s, bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  const size_t blocks = (COLS + f->block - 1) / f->block, row_bytes = blocks * f->block_bytes;
  for (size_t row = 0; row < ROWS; row += BQ_TILE_ROWS) {
    size_t rows = ROWS - row < BQ_TILE_ROWS ? ROWS - row : BQ_TILE_ROWS;
    for (size_t i = 0; i < rows * row_bytes; i++) s->file[i] = (uint8_t)next(s);
    for (size_t i = 0; i < rows * blocks; i++)
      put_scales(s, f, i + 1, s->file + i * f->block_bytes + f->scale_at);
    size_t group = (size_t)bq_type_bytes(type, BQ_TILED, BQ_TILE_ROWS, COLS);
    k->tile_rows(type, s->file, row_bytes, rows, COLS, s->weights + row / BQ_TILE_ROWS * group);
  }
}

static void run_matmul(const bq_kernels *k, workspace *s, bq_type type) {
  const bq_matrix w = {s->weights, ROWS, COLS, type, &k->matrix[type]};
  fill(s, s->x, TOKENS * COLS);
  for (size_t i = 0; i < COLS; i++) s->x[i] = i % 3 ? 2.0f : -2.0f; /* quantized to +-127 */
  k->quantize(s->x, COLS, COLS, TOKENS, s->panel);
  const bq_batch batch = {s->x, COLS, s->panel, TOKENS};
  w.ops->matmul(&w, &batch, 0, 8, s->y, ROWS);
  w.ops->matmul(&w, &batch, 8, ROWS, s->y, ROWS);
  hash(s, s->y, TOKENS * ROWS * sizeof *s->y);
  w.ops->row(&w, ROWS - 1, s->x);
  hash(s, s->x, COLS * sizeof *s->x);
}

/* --- the others ------------------------------------------------------------------------------- */

static void run_norms(const bq_kernels *k, workspace *s) {
  const float *w = s->x + COLS, *b = w + COLS;
  fill(s, s->x, 3 * COLS);
  k->rmsnorm(s->x, w, 1e-5f, LENGTH, s->y);
  hash(s, s->y, LENGTH * sizeof *s->y);
  k->rmsnorm(s->x, NULL, 1e-5f, LENGTH, s->y);
  hash(s, s->y, LENGTH * sizeof *s->y);
  k->layernorm(s->x, w, b, 1e-5f, LENGTH, s->y);
  k->add(s->y, s->x, LENGTH);
  hash(s, s->y, LENGTH * sizeof *s->y);
}

static void run_gates(const bq_kernels *k, workspace *s) {
  void (*const gates[])(float *, const float *, size_t) = {k->silu_mul, k->gelu_mul,
                                                           k->gelu_erf_mul, k->relu_mul};
  for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
    fill(s, s->x, 2 * LENGTH);
    for (size_t j = 0; j < LENGTH; j += 2) s->x[j] *= 100.0f;
    gates[i](s->x, s->x + LENGTH, LENGTH);
    hash(s, s->x, LENGTH * sizeof *s->x);
  }
}

static void run_attention(const bq_kernels *k, workspace *s) {
  float *q = s->x, *keys = q + POSITIONS * HEAD, *values = keys + POSITIONS * HEAD;
  for (int type = 0; type < BQ_KV_COUNT; type++) {
    uint8_t *const block = s->block;
    const bq_kv_view kv = {&block, 0, HEAD};
    fill(s, q, 3 * POSITIONS * HEAD);
    memset(s->block, 0, sizeof s->block);
    k->rope(q, values, 16, type == 0);
    k->kv_store[type](&kv, 0, POSITIONS, keys, values, HEAD);
    /* The i8 copy of the head fits in the memory where f32 would store values. */
    void *scratch = bq_kv_bits((bq_kv_type)type) < 8 ? s->block + sizeof s->block / 2 : s->panel;
    const bq_attend_job job = {.kv = kv, .q = q, .y = s->y, .stride = HEAD, .heads = 1,
                               .row1 = POSITIONS, .scale = 3.0f, .scratch = scratch,
                               .window = 4, .softcap = 5.0f, .slopes = values};
    k->attend[type](&job);
    hash(s, s->y, POSITIONS * HEAD * sizeof *s->y);
  }
}

uint64_t bq_kernels_answer(const bq_kernels *k, bool rare) {
  workspace s;
  s.hash = 0xcbf29ce484222325ull;
  s.seed = 1;
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
    if (!k->matrix[type].matmul || bq_type_get(type)->rare != rare) continue;
    if (bq_type_get(type)->tile_step) make_tiled(k, &s, (bq_type)type);
    else make_plain(&s, (bq_type)type);
    run_matmul(k, &s, (bq_type)type);
  }
  if (rare) return s.hash;
  run_norms(k, &s);
  run_gates(k, &s);
  run_attention(k, &s);
  return s.hash;
}

bool bq_kernels_self_test(const bq_kernels *k) {
  if (bq_kernels_answer(k, false) != BQ_KNOWN_ANSWER) return false;
  return !k->matrix[BQ_TYPE_BQ4_16].matmul || bq_kernels_answer(k, true) == BQ_KNOWN_RARE_ANSWER;
}
