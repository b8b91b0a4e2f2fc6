/* Measures batches of a few tokens relative to one token, with weights from memory, as for draft
 * tokens and for sessions that share a batch.
 *
 *   make -f emscripten.mk bench-kernels
 *   node_modules/.bin/node --no-liftoff build/bench-kernels/few.js [ROUNDS] [MB] [ONLY]
 *
 * Multiplies matrices of 1536 rows with SmolLM2's columns (576 and 1536), one after the other in
 * MB (64) of weights of each type, with each number of tokens (COUNTS) in each of ROUNDS (9)
 * rounds. Prints G weights/s of one token, and the time of each batch relative to one token. Both
 * follow from the minimum time of each matrix, which other load disturbs least. Quantization of
 * activations is not included. ONLY selects tables and types whose "table type" contains it. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/half.h"
#include "kernels/kernels.h"

enum { ROWS = 1536, MAX_COLS = 1536, MAX_TOKENS = 33, MAX_MATRICES = 512 };

static const size_t COUNTS[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
enum { N_COUNTS = sizeof COUNTS / sizeof *COUNTS };
static float x[MAX_TOKENS * MAX_COLS], y[MAX_TOKENS * ROWS];
static _Alignas(16) uint8_t panel[1 << 18];
static double least[MAX_TOKENS][MAX_MATRICES];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Scales near 1/100: with subnormal products every rate would be a fifth. */
static void fill(bq_type type, uint8_t *to, size_t bytes) {
  const bq_type_facts *f = bq_type_get(type);
  const size_t numbers = 8 * (f->scale_bytes + f->min_bytes) * f->tile_step / f->block;
  uint32_t seed = 1;
  for (size_t at = 0; at + f->tile_bytes <= bytes; at += f->tile_bytes) {
    for (size_t i = 0; i < f->tile_bytes; i++)
      to[at + i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (size_t i = 0; i < numbers; i += f->scale_bytes) {
      seed = seed * 1664525u + 1013904223u;
      const float s = 0.01f + 0.001f * (float)(int32_t)seed * 0x1p-31f;
      const uint16_t h = bq_f32_to_f16(s);
      memcpy(to + at + i, f->scale_bytes == 2 ? (const void *)&h : (const void *)&s,
             f->scale_bytes);
    }
  }
}

/* least[t - 1][i]: the least time that matrix i took with t tokens. */
static void pass(const bq_kernels *k, bq_type type, uint32_t cols, const uint8_t *weights, size_t n,
                 size_t tokens) {
  const size_t each = (size_t)bq_type_bytes(type, BQ_TILED, ROWS, cols);
  const bq_batch batch = {x, cols, panel, tokens};
  k->quantize(x, cols, cols, tokens, panel);
  for (size_t i = 0; i < n; i++) {
    const bq_matrix w = {weights + i * each, ROWS, cols, type, &k->matrix[type]};
    const double since = now();
    w.ops->matmul(&w, &batch, 0, ROWS, y, ROWS);
    const double s = now() - since;
    if (s < least[tokens - 1][i]) least[tokens - 1][i] = s;
  }
}

static void measure(const bq_kernels *k, bq_type type, uint32_t cols, const uint8_t *weights,
                    size_t bytes, int rounds) {
  size_t n = bytes / (size_t)bq_type_bytes(type, BQ_TILED, ROWS, cols);
  if (n > MAX_MATRICES) n = MAX_MATRICES;
  for (size_t t = 0; t < MAX_TOKENS; t++)
    for (size_t i = 0; i < n; i++) least[t][i] = 1e9;
  for (int round = 0; round < rounds; round++)
    for (size_t t = 0; t < N_COUNTS; t++) pass(k, type, cols, weights, n, COUNTS[t]);
  double all[MAX_TOKENS] = {0};
  for (size_t t = 0; t < MAX_TOKENS; t++)
    for (size_t i = 0; i < n; i++) all[t] += least[t][i];
  printf("%-8s %-8s %4u  %5.1f G/s ", k->name, bq_type_get(type)->name, cols,
         (double)n * ROWS * cols / all[0] * 1e-9);
  for (size_t t = 0; t < N_COUNTS; t++) printf(" %5.2f", all[COUNTS[t] - 1] / all[0]);
  printf("\n");
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 9;
  const size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 20;
  const bq_kernels *tables[] = {bq_kernels_relaxed(), bq_kernels_relaxed16(),
                                bq_kernels_simd128()};
  const bq_type types[] = {BQ_TYPE_BQ4H_32, BQ_TYPE_BQ4A_32, BQ_TYPE_BQ8_32,
                           BQ_TYPE_BQ4_32,  BQ_TYPE_BQ3A_64, BQ_TYPE_BQ2A_64};
  uint8_t *weights = aligned_alloc(64, bytes);
  if (!weights) return 1;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = (float)((i * 7919) % 1000) * 0.001f - 0.5f;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    fill(types[i], weights, bytes);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
      char name[32];
      if (!tables[t]) continue;
      snprintf(name, sizeof name, "%s %s", tables[t]->name, bq_type_get(types[i])->name);
      if (argc > 3 && !strstr(name, argv[3])) continue;
      measure(tables[t], types[i], 576, weights, bytes, rounds);
      measure(tables[t], types[i], 1536, weights, bytes, rounds);
    }
  }
  return 0;
}
