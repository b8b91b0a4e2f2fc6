/* Measures every weight type: bits in memory, rates of decode, prefill and import (types of floats
 * are not converted). Prints a table in Markdown.
 *
 *   make -f emscripten.mk bench-kernels
 *   node_modules/.bin/node build/bench-kernels/types.js [ROUNDS] [MB] [--json]
 *
 * For decode, each compute type multiplies one token with MB (48) of weights; for prefill, 32
 * tokens with weights that stay in the cache; for import, each storage type is converted to tiles.
 * ROUNDS (9) rounds run all of these, in slices of about 100 us. A rate follows from the minimum
 * time of each slice, which other load disturbs least, and is relative to that of bq4h_32. "per
 * byte" is weights/s times bits in memory. --json prints a line for each compute type and table,
 * with us per million weights, for ab.mjs. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/codes.h"
#include "core/half.h"
#include "core/import.h"
#include "core/tile.h"
#include "kernels/kernels.h"

enum {
  COLS = 2048,
  CACHED_ROWS = 96,
  TOKENS = 32,
  SLICE_ROWS = 1024,
  MAX_SLICES = 256,
  GROUPS = 16,
  TABLES = 3
};

/* Rates of a kernel table, in seconds per weight; those of decode also by slice. */
typedef struct rates {
  double slice[MAX_SLICES], decode, prefill;
} rates;

typedef struct run_type {
  bq_type type;
  uint32_t rows;    /* in memory */
  uint8_t *weights; /* the first CACHED_ROWS rows are used for prefill too */
  rates of[TABLES]; /* relaxed, simd128, relaxed16 */
} run_type;

static float x[TOKENS * COLS], *y;
static _Alignas(16) uint8_t panel[1 << 20];
static uint32_t seed = 1;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t next(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

static void keep_least(double *least, double value) {
  if (*least == 0 || value < *least) *least = value;
}

/* Scales and minima near 1/1000: with subnormal products every rate would be a fifth. */
static void fill_blocks(const bq_type_facts *f, uint8_t *blocks, size_t n) {
  for (size_t i = 0; i < n * f->block_bytes; i++) blocks[i] = (uint8_t)next();
  for (size_t i = 0; i < n; i++)
    for (uint32_t at = 0; at < f->scale_bytes + f->min_bytes; at += f->scale_bytes) {
      const float s = 0.001f + (float)(next() % 1000) * 1e-6f;
      const uint16_t h = bq_f32_to_f16(s);
      memcpy(blocks + i * f->block_bytes + f->scale_at + at,
             f->scale_bytes == 2 ? (const void *)&h : (const void *)&s, f->scale_bytes);
    }
}

/* Stores rows without a conversion. */
static bool make_floats(run_type *r, bq_type type, size_t bytes) {
  const size_t size = bq_type_get(type)->block_bytes, n = bytes / size / COLS / 8 * 8 * COLS;
  *r = (run_type){.type = type, .rows = (uint32_t)(n / COLS), .weights = aligned_alloc(64, bytes)};
  for (size_t i = 0; r->weights && i < n; i++) {
    const float value = (float)(next() % 2000) * 1e-5f - 0.01f;
    const uint16_t half = bq_f32_to_f16(value);
    /* The upper half of an f32 is a bf16. */
    const uint8_t *from = type == BQ_TYPE_F16 ? (const uint8_t *)&half
                                              : (const uint8_t *)&value + sizeof value - size;
    memcpy(r->weights + i * size, from, size);
  }
  return r->weights != NULL;
}

static bool make_run_type(run_type *r, bq_type type, size_t bytes) {
  const bq_type_facts *f = bq_type_get(type);
  if (!f->tile_step) return make_floats(r, type, bytes);
  const size_t group = (size_t)bq_type_bytes(type, BQ_TILED, 8, COLS), groups = bytes / group;
  const size_t row = COLS / f->block * f->block_bytes;
  uint8_t *blocks = malloc(8 * row);
  *r = (run_type){.type = type, .rows = (uint32_t)groups * 8, .weights = aligned_alloc(64, bytes)};
  if (!r->weights || !blocks) return false;
  for (size_t i = 0; i < groups; i++) {
    if (i < GROUPS) {
      fill_blocks(f, blocks, 8 * row / f->block_bytes);
      bq_kernels_scalar()->tile_rows(type, blocks, row, 8, COLS, r->weights + i * group);
    } else {
      memcpy(r->weights + i * group, r->weights + i % GROUPS * group, group);
    }
  }
  free(blocks);
  return true;
}

static double multiply(const bq_kernels *k, const run_type *r, size_t row0, size_t row1,
                       size_t tokens) {
  const bq_matrix w = {r->weights, r->rows, COLS, r->type, &k->matrix[r->type]};
  const bq_batch batch = {x, COLS, panel, tokens};
  const double start = now();
  w.ops->matmul(&w, &batch, row0, row1, y, CACHED_ROWS);
  return (now() - start) / ((double)(row1 - row0) * COLS * (double)tokens);
}

static void measure(const bq_kernels *k, run_type *r, rates *of) {
  size_t slices = r->rows / SLICE_ROWS;
  if (slices > MAX_SLICES) slices = MAX_SLICES;
  k->quantize(x, COLS, COLS, 1, panel);
  of->decode = 0;
  for (size_t i = 0; i < slices; i++) {
    keep_least(&of->slice[i], multiply(k, r, i * SLICE_ROWS, (i + 1) * SLICE_ROWS, 1));
    of->decode += of->slice[i] / (double)slices;
  }
  k->quantize(x, COLS, COLS, TOKENS, panel);
  for (int again = 0; again < 15; again++)
    keep_least(&of->prefill, multiply(k, r, 0, CACHED_ROWS, TOKENS));
}

/* Seconds per stored byte. */
static double import(const bq_kernels *k, bq_type type) {
  static uint8_t stored[8 * COLS * 4], blocks[8 * COLS * 4];
  static _Alignas(16) uint8_t tiles[8 * COLS * 4];
  const bq_type_facts *f = bq_type_get(type), *run = bq_type_get(f->run);
  const size_t n = 8 * COLS / f->block, bytes = n * f->block_bytes;
  const size_t row = COLS / run->block * run->block_bytes;
  bq_import_fn *to_blocks = bq_import_of(type, f->run);
  fill_blocks(f, stored, n);
  const double start = now();
  for (int i = 0; i < 64; i++) {
    if (to_blocks) to_blocks(stored, n, blocks);
    k->tile_rows(to_blocks ? f->run : type, to_blocks ? blocks : stored, row, 8, COLS, tiles);
  }
  return (now() - start) / (64 * (double)bytes);
}

static double bits(const bq_type_facts *f) { return 8.0 * f->block_bytes / f->block; }
static double heap_bits(const bq_type_facts *f) {
  return f->tile_step ? 8.0 * f->tile_bytes / (8 * f->tile_step) : bits(f);
}

static const run_type *find(const run_type *runs, size_t n, bq_type type) {
  for (size_t i = 0; i < n; i++)
    if (runs[i].type == type) return &runs[i];
  return NULL;
}

static void print_row(bq_type type, const run_type *r, const run_type *base, double seconds) {
  const bq_type_facts *f = bq_type_get(type), *run = bq_type_get(r->type);
  const double heap = heap_bits(run);
  printf("| %s | %.4g | %s | %.4g |", f->name, bits(f), run->name, heap);
  for (int t = 0; t < TABLES; t++) {
    const double decode = base->of[t].decode / r->of[t].decode;
    const double prefill = base->of[t].prefill / r->of[t].prefill;
    const double bytes = heap / heap_bits(bq_type_get(base->type));
    printf(" %.2f | %.2f | %.2f | %.2f |", decode, decode * bytes, prefill, prefill * bytes);
  }
  if (seconds > 0) printf(" %.2f |\n", 1e-9 / seconds);
  else printf(" – |\n");
}

static void print_lines(const bq_kernels *k, const run_type *r, const rates *of) {
  const char *line = "{\"bench\": \"types\", \"table\": \"%s\", \"of\": \"%s\", \"tokens\": %d, "
                     "\"least_us\": %.3f}\n";
  printf(line, k->name, bq_type_get(r->type)->name, 1, 1e12 * of->decode);
  printf(line, k->name, bq_type_get(r->type)->name, TOKENS, 1e12 * of->prefill);
}

int main(int argc, char **argv) {
#define X(NAME, ...) BQ_TYPE_##NAME,
  static const bq_type all[] = {BQ_FLOAT_TYPES(X) BQ_TILED_TYPES(X)};
  static const bq_type stored[] = {BQ_FLOAT_TYPES(X) BQ_ENCODED_TYPES(X) BQ_STORED_TYPES(X)
                                   BQ_CODE_TABLES(X)};
#undef X
  enum { RUNS = sizeof all / sizeof *all, STORED = sizeof stored / sizeof *stored };
  const int rounds = argc > 1 ? atoi(argv[1]) : 9;
  const size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 48) << 20;
  const bq_kernels *tables[TABLES] = {bq_kernels_relaxed(), bq_kernels_simd128(),
                                      bq_kernels_relaxed16()};
  static run_type runs[RUNS];
  double imports[STORED] = {0};
  for (size_t i = 0; i < TABLES; i++)
    if (!tables[i]) tables[i] = bq_kernels_scalar();
  if (rounds < 1 || bytes < 8u << 20) return 2;
  y = malloc(((size_t)CACHED_ROWS * TOKENS + bytes / COLS * 4) * sizeof *y); /* 2 bits */
  for (size_t i = 0; i < TOKENS * COLS; i++) x[i] = (float)(next() % 2000) * 1e-3f - 1.0f;
  for (size_t i = 0; i < RUNS; i++)
    if (!make_run_type(&runs[i], all[i], bytes)) return 1;
  for (int round = 0; round < rounds; round++)
    for (size_t t = 0; t < TABLES; t++) {
      for (size_t i = 0; i < RUNS; i++) measure(tables[t], &runs[i], &runs[i].of[t]);
      for (size_t i = 0; i < STORED && t == 0; i++)
        if (bq_type_get(bq_type_get(stored[i])->run)->tile_step)
          keep_least(&imports[i], import(tables[t], stored[i]));
    }
  if (argc > 3 && !strcmp(argv[3], "--json")) {
    for (size_t t = 0; t < TABLES; t++)
      for (size_t i = 0; i < RUNS; i++) print_lines(tables[t], &runs[i], &runs[i].of[t]);
    return 0;
  }
  const run_type *base = find(runs, RUNS, BQ_TYPE_BQ4H_32);
  printf("| stored | bits | computed with | bits |");
  for (size_t t = 0; t < TABLES; t++)
    printf(" %s decode | per byte | prefill | per byte |", tables[t]->name);
  printf(" import GB/s |\n|---|---|---|---|");
  for (size_t t = 0; t < TABLES; t++) printf("---|---|---|---|");
  printf("---|\n");
  for (size_t i = 0; i < STORED; i++)
    print_row(stored[i], find(runs, RUNS, bq_type_get(stored[i])->run), base, imports[i]);
  printf("\nbq4h_32, G weights/s in decode and prefill:");
  for (size_t t = 0; t < TABLES; t++)
    printf("%s %s %.1f and %.1f", t ? "," : "", tables[t]->name, 1e-9 / base->of[t].decode,
           1e-9 / base->of[t].prefill);
  printf("; %d rounds, %zu MB\n", rounds, bytes >> 20);
  return 0;
}
