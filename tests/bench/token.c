/* The arithmetic of one decoded token alone: all matrices of a model, one after the other in
 * memory, each multiplied with one vector; and a plain read of the same bytes.
 * tools/bench/pages/limit.js compares a complete decode step with it, in the same browser.
 *
 *   make -f emscripten.mk bench-token
 *
 * Like the shipped modules it has no malloc and no clock: the page provides the memory. */
#include <stddef.h>
#include <string.h>

#include "core/half.h"
#include "kernels/kernels.h"
#include "plain_read.h"

#define EXPORT(type) __attribute__((visibility("default"), used)) type

enum { MAX_COLS = 8192, MATRICES = 7 };

typedef struct shape {
  uint32_t layers, hidden, kv, ffn, vocab;
  bq_type type, head; /* of the layers, of embedding and head */
} shape;

static struct {
  shape s;
  const bq_kernels *k;
  uint8_t *weights;
  size_t bytes;
  float *y; /* [vocab] */
  uint64_t sink;
} data;

static float x[MAX_COLS];
static _Alignas(16) uint8_t panel[MAX_COLS * 8];

typedef void (*visit)(bq_type type, uint32_t rows, uint32_t cols, size_t at);

static size_t each(visit f, bq_type type, uint32_t rows, uint32_t cols, size_t at) {
  if (f) f(type, rows, cols, at);
  return at + (size_t)bq_type_bytes(type, bq_type_compute_layout(type), rows, cols);
}

/* Every matrix in the order in which a token meets them; returns the bytes of all. */
static size_t walk(const shape *s, visit f) {
  const uint32_t dims[MATRICES][2] = {
      {s->hidden, s->hidden}, {s->kv, s->hidden},  {s->kv, s->hidden}, {s->hidden, s->hidden},
      {s->ffn, s->hidden},    {s->ffn, s->hidden}, {s->hidden, s->ffn}};
  size_t at = 0;
  for (uint32_t layer = 0; layer < s->layers; layer++)
    for (int i = 0; i < MATRICES; i++) at = each(f, s->type, dims[i][0], dims[i][1], at);
  return each(f, s->head, s->vocab, s->hidden, at);
}

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* Any weights, scales near 1/100: with subnormal products every rate would be a fifth. */
static void fill(bq_type type, uint32_t rows, uint32_t cols, size_t at) {
  const bq_type_facts *f = bq_type_get(type);
  const size_t bytes = (size_t)bq_type_bytes(type, bq_type_compute_layout(type), rows, cols);
  const bool half = f->block_bytes % 4;
  const size_t scales = f->tile_step / (f->block < f->tile_step ? f->block : f->tile_step) * 8;
  uint32_t seed = (uint32_t)at | 1;
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    const uint32_t word = next(&seed) ^ seed >> 16;
    memcpy(data.weights + at + i, &word, 4);
  }
  for (size_t tile = at; tile + f->tile_bytes <= at + bytes; tile += f->tile_bytes)
    for (size_t i = 0; i < scales; i++) {
      const float scale = 0.01f + 0.001f * ((float)(next(&seed) >> 8) * 0x1p-24f);
      const uint16_t short_scale = bq_f32_to_f16(scale);
      if (half) memcpy(data.weights + tile + 2 * i, &short_scale, 2);
      else memcpy(data.weights + tile + 4 * i, &scale, 4);
    }
}

static void multiply(bq_type type, uint32_t rows, uint32_t cols, size_t at) {
  const bq_matrix w = {data.weights + at, rows, cols, type, &data.k->matrix[type]};
  const bq_batch batch = {x, cols, panel, 1};
  w.ops->matmul(&w, &batch, 0, rows, data.y, rows);
}

static shape shape_of(uint32_t layers, uint32_t hidden, uint32_t kv, uint32_t ffn, uint32_t vocab,
                      uint32_t type, uint32_t head) {
  return (shape){layers, hidden, kv, ffn, vocab, (bq_type)type, (bq_type)head};
}

static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* Bytes of weights; room for [vocab] floats lies after them. */
EXPORT(uint32_t)
token_bytes(uint32_t layers, uint32_t hidden, uint32_t kv, uint32_t ffn, uint32_t vocab,
            uint32_t type, uint32_t head) {
  const shape s = shape_of(layers, hidden, kv, ffn, vocab, type, head);
  return (uint32_t)walk(&s, NULL);
}

/* Fills the memory from `at` on with weights. table: which one multiplies, by TABLES of
 * js/wasm/build-choice.js. */
EXPORT(void)
token_set_up(uint32_t layers, uint32_t hidden, uint32_t kv, uint32_t ffn, uint32_t vocab,
             uint32_t type, uint32_t head, uint8_t *at, uint32_t table) {
  data.s = shape_of(layers, hidden, kv, ffn, vocab, type, head);
#ifdef BENCH_SIMD128 /* for engines that refuse a module with instructions they don't know */
  (void)table;
  data.k = bq_kernels_simd128();
#else
  data.k = table == 0   ? bq_kernels_simd128()
           : table == 1 ? bq_kernels_relaxed()
                        : bq_kernels_relaxed16();
#endif
  data.weights = at;
  data.bytes = walk(&data.s, NULL);
  data.y = (float *)(void *)(at + aligned(data.bytes));
  walk(&data.s, fill);
  uint32_t seed = 7;
  for (size_t i = 0; i < MAX_COLS; i++) x[i] = (float)(int32_t)next(&seed) * 0x1p-31f;
  data.k->quantize(x, MAX_COLS, ffn, 1, panel);
}

EXPORT(void) token_multiply(uint32_t times) {
  while (times--) walk(&data.s, multiply);
}

EXPORT(uint32_t) token_read(uint32_t times) {
  while (times--) data.sink = plain_read(data.weights, data.bytes / 8 & ~(size_t)7, data.sink);
  return (uint32_t)data.sink;
}

/* The cost of loading a file of version 1 in addition to copying: rows of BQ4_32 blocks become
 * tiles. The first
 * half of the weights is the file, the second what becomes of it. Returns the bytes of file that
 * one time takes. */
EXPORT(uint32_t) token_tile(uint32_t times) {
  enum { COLS = 576, GROUP = 8 };
  const size_t row = (size_t)bq_type_bytes(BQ_TYPE_BQ4_32, BQ_ROWS, 1, COLS), group = GROUP * row;
  const size_t tiles = (size_t)bq_type_bytes(BQ_TYPE_BQ4_32, BQ_TILED, GROUP, COLS);
  const size_t groups = data.bytes / 2 / (group > tiles ? group : tiles);
  uint8_t *to = data.weights + aligned(data.bytes / 2);
  while (times--)
    for (size_t i = 0; i + 1 < groups; i++)
      data.k->tile_rows(BQ_TYPE_BQ4_32, data.weights + i * group, row, GROUP, COLS, to + i * tiles);
  return (uint32_t)((groups - 1) * group);
}
