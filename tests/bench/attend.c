/* Rates of attention alone: one JSON line per cache type, table and batch.
 *
 *   make -f emscripten.mk bench-kernels
 *   build/native/bench-attend [positions, 2048] [rounds, 7]
 *   node_modules/.bin/node build/bench-kernels/attend.js [positions] [rounds]
 *
 * One pass goes over the caches of KV heads of 64, as one token of a model with 30 layers and
 * 3 KV heads does, so that they come from memory as they do there. Rounds are interleaved, medians
 * are printed and the least time. `us` is one pass; MACs count keys and values. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

enum { LAYERS = 30, KV_HEADS = 3, HEAD = 64, MAX_TOKENS = 16, MAX_HEADS = 3, MAX_ROUNDS = 99 };

typedef struct bench {
  const bq_kernels *k;
  bq_kv_type type;
  size_t tokens, heads; /* of one job */
  double seconds[MAX_ROUNDS];
} bench;

/* [layers][blocks][KV heads], as a session has them; `table` has the blocks of each layer. */
static size_t positions, blocks, head_bytes[BQ_KV_COUNT];
static uint8_t **tables[BQ_KV_COUNT], *scratch;
static float q[MAX_TOKENS * MAX_HEADS * HEAD], y[MAX_TOKENS * MAX_HEADS * HEAD];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(float *x, size_t n) {
  static uint32_t seed = 1;
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(int32_t)seed * 0x1p-31f;
  }
}

static bq_kv_view view_of(bq_kv_type type, size_t i) {
  return (bq_kv_view){tables[type] + i / KV_HEADS * blocks, i % KV_HEADS * head_bytes[type], HEAD};
}

static bool make_caches(bq_kv_type type) {
  static float kv[2 * HEAD];
  blocks = (positions + BQ_KV_BLOCK - 1) / BQ_KV_BLOCK;
  head_bytes[type] = (size_t)bq_kv_bytes(type, BQ_KV_BLOCK, HEAD);
  tables[type] = calloc(LAYERS * blocks, sizeof *tables[type]);
  for (size_t i = 0; i < LAYERS * blocks; i++)
    if (!(tables[type][i] = aligned_alloc(64, KV_HEADS * head_bytes[type]))) return false;
  for (size_t i = 0; i < LAYERS * KV_HEADS; i++) {
    const bq_kv_view view = view_of(type, i);
    for (size_t j = 0; j < positions; j++) {
      fill(kv, 2 * HEAD);
      bq_kernels_best()->kv_store[type](&view, j, 1, kv, kv + HEAD, HEAD);
    }
  }
  return true;
}

static void pass(const bench *b) {
  for (size_t i = 0; i < LAYERS * KV_HEADS; i++) {
    bq_attend_job job = {
        .kv = view_of(b->type, i),
        .q = q,
        .y = y,
        .stride = b->heads * HEAD,
        .heads = b->heads,
        .position = positions - b->tokens,
        .row1 = b->heads * b->tokens,
        .scale = 0.125f,
        .scratch = scratch};
    b->k->attend[b->type](&job);
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, z = *(const double *)b;
  return (x > z) - (x < z);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"f32", "f16", "i8", "i4", "i2"};
  static const size_t shapes[][2] = {{1, 1}, {1, 3}, {16, 3}}; /* tokens, heads */
  const bq_kernels *kernels[] = {bq_kernels_relaxed(), bq_kernels_relaxed16(),
                                 bq_kernels_simd128(), bq_kernels_scalar()};
  static bench list[48];
  size_t n = 0;
  positions = (size_t)(argc > 1 ? atoi(argv[1]) : 2048);
  int rounds = argc > 2 ? atoi(argv[2]) : 7;
  if (positions < MAX_TOKENS || rounds < 1 || rounds > MAX_ROUNDS) return 1;
  const size_t room = (size_t)bq_attend_scratch(BQ_KV_I4, positions, HEAD); /* the most */
  scratch = aligned_alloc(64, (room + 63) / 64 * 64);
  fill(q, sizeof q / sizeof *q);
  for (int type = 0; type < BQ_KV_COUNT; type++) {
    if (!make_caches((bq_kv_type)type)) return 1;
    for (size_t t = 0; t < 4; t++)
      for (size_t s = 0; s < 3; s++)
        if (kernels[t] && (t < 3 || !kernels[2]))
          list[n++] = (bench){kernels[t], (bq_kv_type)type, shapes[s][0], shapes[s][1], {0}};
  }
  for (int round = -1; round < rounds; round++) /* the first warms up */
    for (size_t i = 0; i < n; i++) {
      double start = now();
      pass(&list[i]);
      if (round >= 0) list[i].seconds[round] = now() - start;
    }
  for (size_t i = 0; i < n; i++) {
    bench *b = &list[i];
    qsort(b->seconds, (size_t)rounds, sizeof *b->seconds, by_size);
    double s = b->seconds[rounds / 2];
    double macs = 2.0 * LAYERS * KV_HEADS * HEAD * (double)(b->heads * b->tokens * positions);
    printf(
        "{\"bench\": \"attend\", \"table\": \"%s\", \"kv\": \"%s\", \"tokens\": %zu, \"heads\": "
        "%zu, "
        "\"us\": %.1f, \"least_us\": %.1f, \"GMAC_per_s\": %.2f, \"GB_per_s\": %.2f}\n",
        b->k->name, names[b->type], b->tokens, b->heads, s * 1e6, b->seconds[0] * 1e6,
        macs / s * 1e-9,
        (double)(LAYERS * KV_HEADS * bq_kv_bytes(b->type, positions, HEAD)) / s * 1e-9);
  }
  return 0;
}
