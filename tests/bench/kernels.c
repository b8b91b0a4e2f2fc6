/* Rates of the kernels alone: one JSON line per measurement, for every table this build has.
 *
 *   make -f emscripten.mk bench-kernels
 *   build/native/bench-kernels [MB of weights, 160] [rounds, 7]
 *   node_modules/.bin/node build/bench-kernels/kernels.js [MB] [rounds]
 *
 * `matvec` streams weights from memory, as decode does, next to a plain read of the same bytes in
 * the same round; `matmul` keeps them in the cache, as prefill does. Rounds are interleaved;
 * medians are printed, and the least time, which a busy machine disturbs less. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/half.h"
#include "kernels/kernels.h"

enum {
  COLS = 2048,
  CACHED_ROWS = 512,
  MOST_TOKENS = 32,
  HEAD = 64,
  POSITIONS = 2048,
  MOST_ROUNDS = 99
};

typedef struct bench bench;
struct bench {
  const char *what, *detail;
  const bq_kernels *k;
  void (*run)(bench *b);
  bq_matrix w;
  size_t tokens, repeat;
  double bytes, work; /* of one run: read from memory, multiplications (or elements) */
  double seconds[MOST_ROUNDS];
};

typedef struct buffers {
  float x[MOST_TOKENS * COLS], y[MOST_TOKENS * CACHED_ROWS], ones[COLS], scores[POSITIONS];
  float *wide_y;
  _Alignas(16) uint8_t kv[2 * POSITIONS * HEAD * 4], panel[1 << 20];
  uint8_t *weights;
  size_t weight_bytes;
  uint64_t sink;
} buffers;

static buffers *data;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- what is measured ------------------------------------------------------------------------- */

static void plain_read(bench *b) {
  const uint64_t *p = (const uint64_t *)(const void *)data->weights;
  uint64_t s[8] = {0};
  for (size_t i = 0; i < (size_t)b->bytes / 8; i += 8)
    for (size_t j = 0; j < 8; j++) s[j] ^= p[i + j];
  for (size_t j = 0; j < 8; j++) data->sink ^= s[j];
}

static void matmul(bench *b) {
  bq_batch batch = {data->x, COLS, data->panel, b->tokens};
  if (b->w.ops->quantized) b->k->quantize(data->x, COLS, COLS, b->tokens, data->panel);
  b->w.ops->matmul(&b->w, &batch, 0, b->w.rows, b->tokens > 1 ? data->y : data->wide_y, b->w.rows);
}

static void quantize(bench *b) { b->k->quantize(data->x, COLS, COLS, b->tokens, data->panel); }
static void rmsnorm(bench *b) { b->k->rmsnorm(data->x, data->ones, 1e-5f, COLS, data->y); }
static void softmax(bench *b) {
  memcpy(data->scores, data->x, sizeof data->scores);
  b->k->softmax(data->scores, POSITIONS);
}
static void silu(bench *b) {
  memcpy(data->y, data->x, COLS * sizeof *data->y);
  b->k->silu_mul(data->y, data->ones, COLS);
}
static void attend(bench *b) {
  bq_kv_type type = b->tokens ? BQ_KV_F16 : BQ_KV_F32;
  size_t bytes = (size_t)POSITIONS * HEAD * (type ? 2 : 4);
  bq_kv_view view = {data->kv, data->kv + bytes, HEAD};
  b->k->attend[type](data->x, &view, POSITIONS, HEAD, 0.125f, data->scores, data->y);
}
static void tile_rows(bench *b) {
  size_t row_bytes = COLS / 32 * 20;
  for (size_t r = 0; r < 64; r++)
    b->k->tile_rows[BQ_TYPE_BQ4_32](data->weights + r * 8 * row_bytes, row_bytes, 8, COLS,
                                    data->panel);
}

/* --- set-up ------------------------------------------------------------------------------------- */

static float noise(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(int32_t)*seed * 0x1p-31f;
}

/* Scales near 1/100: with subnormal products every rate would be a fifth. */
static void fill_weights(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  uint32_t seed = 1;
  if (!f->tile_step) {
    for (size_t i = 0; i < data->weight_bytes / f->block_bytes; i++) {
      float w = noise(&seed);
      uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(w) : bq_f32_to_bf16(w);
      memcpy(data->weights + i * f->block_bytes, f->block_bytes == 4 ? (void *)&w : (void *)&h,
             f->block_bytes);
    }
    return;
  }
  const bool half = f->block_bytes % 4;
  const size_t scales = f->tile_step / (f->block < f->tile_step ? f->block : f->tile_step) * 8;
  for (size_t at = 0; at + f->tile_bytes <= data->weight_bytes; at += f->tile_bytes) {
    for (size_t i = 0; i < f->tile_bytes; i++)
      data->weights[at + i] = (uint8_t)(seed = seed * 1664525u + 1013904223u, seed >> 24);
    for (size_t i = 0; i < scales; i++) {
      float s = 0.01f + 0.001f * noise(&seed);
      uint16_t h = bq_f32_to_f16(s);
      if (half) memcpy(data->weights + at + 2 * i, &h, 2);
      else memcpy(data->weights + at + 4 * i, &s, 4);
    }
  }
}

static bench matmul_bench(const char *what, const bq_kernels *k, bq_type type, size_t rows,
                          size_t tokens, size_t repeat) {
  bench b = {.what = what,
             .detail = bq_type_get(type)->name,
             .k = k,
             .run = matmul,
             .tokens = tokens,
             .repeat = repeat};
  b.w = (bq_matrix){data->weights, (uint32_t)rows, COLS, type, &k->matrix[type]};
  b.bytes = (double)bq_type_bytes(type, bq_type_run_layout(type), rows, COLS);
  b.work = (double)rows * COLS * (double)tokens;
  return b;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(bench *b, int rounds) {
  qsort(b->seconds, (size_t)rounds, sizeof *b->seconds, by_size);
  return b->seconds[rounds / 2];
}

static void measure(bench *list, size_t n, int rounds) {
  for (int round = -1; round < rounds; round++) /* the first warms up */
    for (size_t i = 0; i < n; i++) {
      bench *b = &list[i];
      double start = now();
      for (size_t j = 0; j < b->repeat; j++) b->run(b);
      if (round >= 0) b->seconds[round] = (now() - start) / (double)b->repeat;
    }
  /* median() sorts, so that seconds[0] is the least from here on. */
  double read = list[0].run == plain_read ? list[0].bytes / median(&list[0], rounds) : 0;
  for (size_t i = 0; i < n; i++) {
    bench *b = &list[i];
    double s = median(b, rounds);
    printf(
        "{\"bench\": \"%s\", \"table\": \"%s\", \"of\": \"%s\", \"tokens\": %zu, \"us\": %.2f, "
        "\"least_us\": %.2f",
        b->what, b->k ? b->k->name : "", b->detail, b->tokens, s * 1e6, b->seconds[0] * 1e6);
    if (b->bytes > 0) printf(", \"GB_per_s\": %.2f", b->bytes / s * 1e-9);
    if (b->work > 0) printf(", \"G_per_s\": %.2f", b->work / s * 1e-9);
    if (read > 0) printf(", \"of_read\": %.3f", b->bytes / s / read);
    printf("}\n");
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const bq_type types[] = {BQ_TYPE_BQ4_32, BQ_TYPE_BQ4H_32, BQ_TYPE_BQ8_32, BQ_TYPE_BQ4_16,
                                  BQ_TYPE_BQ4_64, BQ_TYPE_F16,     BQ_TYPE_F32};
  const bq_kernels *tables[] = {bq_kernels_relaxed(), bq_kernels_simd128(), bq_kernels_scalar()};
  int rounds = argc > 2 ? atoi(argv[2]) : 7;
  if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 7;
  data = calloc(1, sizeof *data);
  data->weight_bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 160) << 20;
  data->weights = aligned_alloc(64, data->weight_bytes);
  data->wide_y = malloc(data->weight_bytes / COLS * 2 * sizeof(float) + 64);
  if (!data->weights || !data->wide_y) return 1;
  uint32_t seed = 7;
  for (size_t i = 0; i < MOST_TOKENS * COLS; i++) data->x[i] = noise(&seed);
  for (size_t i = 0; i < COLS; i++) data->ones[i] = 1;

  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    bench list[16];
    size_t n = 0;
    fill_weights(types[i]);
    double row_bytes = (double)bq_type_bytes(types[i], bq_type_run_layout(types[i]), 8, COLS) / 8;
    size_t rows = (size_t)((double)data->weight_bytes / row_bytes) & ~(size_t)7;
    list[n++] = (bench){.what = "read",
                        .detail = "plain",
                        .run = plain_read,
                        .tokens = 1,
                        .repeat = 1,
                        .bytes = (double)(data->weight_bytes & ~(size_t)63)};
    for (size_t t = 0; t < 3; t++)
      if (tables[t] && (t < 2 || !tables[1]))
        list[n++] = matmul_bench("matvec", tables[t], types[i], rows, 1, 1);
    measure(list, n, rounds);
    n = 0;
    for (size_t t = 0; t < 3; t++)
      for (size_t tokens = 1; tokens <= MOST_TOKENS; tokens *= tokens == 1 ? 4 : 8)
        if (tables[t] && (t < 2 || !tables[1]))
          list[n++] = matmul_bench("matmul", tables[t], types[i], CACHED_ROWS, tokens, 32 / tokens);
    measure(list, n, rounds);
  }

  fill_weights(BQ_TYPE_BQ4_32);
  for (size_t i = 0; i < 2 * POSITIONS * HEAD; i++) {
    uint16_t h = bq_f32_to_f16(noise(&seed));
    memcpy(data->kv + 4 * i, &h, 2); /* sane both as f16 and as f32 */
    memcpy(data->kv + 4 * i + 2, &h, 2);
  }
  for (size_t t = 0; t < 3; t++) {
    const bq_kernels *k = tables[t];
    if (!k) continue;
    bench list[] = {
        {.what = "quantize",
         .detail = "f32",
         .k = k,
         .run = quantize,
         .tokens = 1,
         .repeat = 200,
         .work = COLS},
        {.what = "quantize",
         .detail = "f32",
         .k = k,
         .run = quantize,
         .tokens = 4,
         .repeat = 50,
         .work = 4 * COLS},
        {.what = "rmsnorm", .detail = "f32", .k = k, .run = rmsnorm, .repeat = 200, .work = COLS},
        {.what = "softmax",
         .detail = "f32",
         .k = k,
         .run = softmax,
         .repeat = 100,
         .work = POSITIONS},
        {.what = "silu_mul", .detail = "f32", .k = k, .run = silu, .repeat = 100, .work = COLS},
        {.what = "attend",
         .detail = "f32",
         .k = k,
         .run = attend,
         .tokens = 0,
         .repeat = 20,
         .bytes = 2.0 * POSITIONS * HEAD * 4,
         .work = 2.0 * POSITIONS * HEAD},
        {.what = "attend",
         .detail = "f16",
         .k = k,
         .run = attend,
         .tokens = 1,
         .repeat = 20,
         .bytes = 2.0 * POSITIONS * HEAD * 2,
         .work = 2.0 * POSITIONS * HEAD},
        {.what = "tile_rows",
         .detail = "bq4_32",
         .k = k,
         .run = tile_rows,
         .repeat = 1,
         .bytes = 512.0 * COLS / 32 * 20,
         .work = 512.0 * COLS},
    };
    measure(list, sizeof list / sizeof *list, rounds);
  }
  return 0;
}
