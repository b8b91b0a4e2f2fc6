/* Multiplies one matrix of 1511 x 256 in the cache with a vector, as the report of BQ4's source
 * does.
 *
 *   make -f emscripten.mk bench-kernels
 *   node_modules/.bin/node --no-liftoff build/bench-kernels/matvec.js [ROUNDS]
 *
 * Prints a table in Markdown (docs/benchmarks/matvec.md): for each type its bytes in a file and
 * those of f32 relative to them; for each kernel table microseconds per call, quantization of
 * activations included, and calls per second. Values are medians of ROUNDS (9) interleaved rounds.
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/half.h"
#include "kernels/kernels.h"

enum { ROWS = 1511, COLS = 256, MAX_ROUNDS = 99, CALLS = 200 };

static float x[COLS], y[ROWS + 8];
static _Alignas(64) uint8_t weights[(ROWS + 8) * COLS * 4], panel[1 << 14];

static const bq_type TYPES[] = {BQ_TYPE_F32,     BQ_TYPE_F16,     BQ_TYPE_BQ8_32,
                                BQ_TYPE_BQ4A_32, BQ_TYPE_BQ4_32, BQ_TYPE_BQ4H_32};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES, N_TABLES = 4 };
static double times[N_TYPES][N_TABLES][MAX_ROUNDS];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  const double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

/* Weights of any size below 1; scales near 1/100, since subnormal products would be slow. */
static void fill(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof weights; i++)
    weights[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
  const size_t step = f->tile_step ? f->tile_bytes : f->block_bytes;
  const size_t numbers =
      f->tile_step ? 8 * (f->scale_bytes + f->min_bytes) * f->tile_step / f->block : step;
  const size_t width = f->tile_step ? f->scale_bytes : f->block_bytes / f->block;
  for (size_t at = 0; at + step <= sizeof weights; at += step)
    for (size_t i = 0; i < numbers; i += width) {
      seed = seed * 1664525u + 1013904223u;
      const float s = 0.01f + 0.001f * (float)(int32_t)seed * 0x1p-31f;
      const uint16_t h = bq_f32_to_f16(s);
      memcpy(weights + at + i, width == 2 ? (const void *)&h : (const void *)&s, width);
    }
}

/* Seconds of a call. */
static double measure(const bq_kernels *k, bq_type type) {
  const bq_matrix w = {weights, ROWS, COLS, type, &k->matrix[type]};
  const bq_batch batch = {x, COLS, panel, 1};
  const double since = now();
  for (int i = 0; i < CALLS; i++) {
    if (w.ops->quantized) k->quantize(x, COLS, COLS, 1, panel);
    w.ops->matmul(&w, &batch, 0, ROWS, y, ROWS);
  }
  return (now() - since) / CALLS;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 9;
  const bq_kernels *tables[N_TABLES] = {bq_kernels_relaxed(), bq_kernels_relaxed16(),
                                        bq_kernels_simd128(), bq_kernels_scalar()};
  if (rounds < 1 || rounds > MAX_ROUNDS) return 2;
  if (tables[2]) tables[3] = NULL; /* compiled with SIMD in this build, so it would not be scalar */
  for (size_t i = 0; i < COLS; i++) x[i] = (float)((i * 7919) % 1000) * 0.001f - 0.5f;
  for (size_t i = 0; i < N_TYPES; i++) {
    fill(TYPES[i]);
    for (int round = -1; round < rounds; round++) /* the first warms up */
      for (size_t t = 0; t < N_TABLES; t++)
        if (tables[t]) times[i][t][round < 0 ? 0 : round] = measure(tables[t], TYPES[i]);
  }
  printf("| type | KB | times fewer |");
  for (size_t t = 0; t < N_TABLES; t++)
    if (tables[t]) printf(" %s, µs a call | calls/s |", tables[t]->name);
  printf("\n|---|---|---|");
  for (size_t t = 0; t < N_TABLES; t++) printf(tables[t] ? "---|---|" : "");
  const double f32 = (double)bq_type_bytes(BQ_TYPE_F32, BQ_ROWS, ROWS, COLS);
  for (size_t i = 0; i < N_TYPES; i++) {
    const double bytes = (double)bq_type_bytes(TYPES[i], BQ_ROWS, ROWS, COLS);
    printf("\n| %s | %.0f | %.2f |", bq_type_get(TYPES[i])->name, bytes / 1000, f32 / bytes);
    for (size_t t = 0; t < N_TABLES; t++) {
      if (!tables[t]) continue;
      qsort(times[i][t], (size_t)rounds, sizeof times[i][t][0], by_size);
      const double s = times[i][t][rounds / 2];
      printf(" %.1f | %.0f |", s * 1e6, 1 / s);
    }
  }
  printf("\n");
  return 0;
}
