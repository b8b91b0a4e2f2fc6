/* Benchmarks that js/ times (border.h): matmuls, to choose the number of threads and to estimate
 * the speed of a model, and empty regions. The matrices are so many that they don't fit in the
 * caches of a core. */
#include <stdatomic.h>
#include <string.h>

#include "border.h"
#include "bq.h"
#include "threads.h"

/* As in sessions, threads get multiples of UNIT_ROWS rows, which kernels compute at once for one
 * token. */
enum {
  MAX_PRODUCTS = 8,
  MAX_TOKENS = 8,
  ROWS = 896,
  COLS = 1024,
  UNIT_ROWS = 8 * BQ_TILE_ROWS
};

typedef struct bench {
  bq_matrix w;
  bq_batch batch;
  uint8_t *weights, *panel; /* [products][matrix] */
  size_t matrix, products;  /* bytes, number */
  float *x, *y;
} bench;

static bench *lay_out(bq_arena *arena, uint32_t products, uint32_t tokens) {
  const bq_kernels *k = bq_kernels_best();
  bench b = {0}, *placed = bq_arena_take(arena, 1, sizeof *placed);
  b.matrix = (size_t)bq_type_bytes(BQ_TYPE_BQ4H_32, BQ_TILED, ROWS, COLS);
  b.products = products < MAX_PRODUCTS ? products : MAX_PRODUCTS;
  b.batch.tokens = tokens < MAX_TOKENS ? tokens : MAX_TOKENS;
  b.weights = bq_arena_take(arena, b.products, b.matrix);
  b.panel = bq_arena_take(arena, k->panel_bytes(COLS, b.batch.tokens), 1);
  b.x = bq_arena_take(arena, b.batch.tokens * COLS, sizeof *b.x);
  b.y = bq_arena_take(arena, b.batch.tokens * ROWS, sizeof *b.y);
  b.w = (bq_matrix){b.weights, ROWS, COLS, BQ_TYPE_BQ4H_32, &k->matrix[BQ_TYPE_BQ4H_32]};
  b.batch = (bq_batch){b.x, COLS, b.panel, b.batch.tokens};
  if (placed) *placed = b;
  return placed;
}

static void multiply_rows(void *arg, size_t thread, size_t threads) {
  const bench *b = arg;
  const bq_parallel p = bqw_parallel();
  const size_t units = ROWS / UNIT_ROWS;
  size_t from = 0, to = units;
  while (threads == 1 ? from == 0 : p.claim(p.ctx, thread, threads, units, &from, &to)) {
    b->w.ops->matmul(&b->w, &b->batch, from * UNIT_ROWS, to * UNIT_ROWS, b->y, ROWS);
    from = to;
  }
}

BQW(uint32_t) bqw_measure_bytes(uint32_t products, uint32_t tokens) {
  bq_arena arena = {0};
  lay_out(&arena, products, tokens);
  return (uint32_t)arena.used;
}

BQW(void) bqw_measure_prepare(uint8_t *block, uint32_t products, uint32_t tokens) {
  bq_arena arena = {block, bqw_measure_bytes(products, tokens), 0, false};
  bench *b = lay_out(&arena, products, tokens);
  memset(b->weights, 0x11, b->products * b->matrix); /* touches the pages, so that the memory is
                                                        really allocated */
  for (size_t i = 0; i < b->batch.tokens * COLS; i++) b->x[i] = i % 3 ? 1.0f : -0.5f;
  bq_kernels_best()->quantize(b->x, COLS, COLS, b->batch.tokens, b->panel);
}

BQW(void) bqw_measure(uint8_t *block) {
  bench b = *(const bench *)(const void *)block;
  const bq_parallel p = bqw_parallel();
  for (size_t i = 0; i < b.products; i++) {
    b.w.data = b.weights + i * b.matrix;
    p.run(p.ctx, multiply_rows, &b);
  }
}

typedef struct counts {
  uint32_t barriers;
  /* number of phases that each thread has finished */
  struct { _Alignas(64) _Atomic uint32_t n; } finished[BQW_THREADS];
  _Atomic uint32_t early; /* times that a thread passed a barrier before all had reached it */
} counts;

static void count_phases(void *arg, size_t thread, size_t threads) {
  counts *c = arg;
  const bq_parallel p = bqw_parallel();
  uint32_t done = atomic_load(&c->finished[thread].n) + 1;
  atomic_store(&c->finished[thread].n, done);
  for (uint32_t i = 0; i < c->barriers; i++) {
    if (threads > 1) p.barrier(p.ctx, thread, threads);
    for (size_t other = 0; other < threads; other++)
      if (atomic_load(&c->finished[other].n) < done) atomic_fetch_add(&c->early, 1);
    atomic_store(&c->finished[thread].n, ++done);
  }
}

BQW(uint32_t) bqw_measure_empty(uint32_t regions, uint32_t barriers) {
  const bq_parallel p = bqw_parallel();
  counts c = {.barriers = barriers};
  while (regions--) p.run(p.ctx, count_phases, &c);
  uint32_t sum = 0;
  for (size_t i = 0; i < BQW_THREADS; i++) sum += c.finished[i].n;
  return c.early ? 0 : sum;
}
