/* Rates of the kernels alone, for every table this build has.
 *
 *   make -f emscripten.mk bench-kernels
 *   build/native/bench-kernels [--mb N] [--rounds N] [--only TEXT] [--json]
 *   node_modules/.bin/node build/bench-kernels/kernels.js ...
 *
 * `matvec` streams N MB (160) of weights, as decode does, next to a plain read of as many bytes in
 * the same round, each type from memory of its own; `matmul` keeps them in the cache, as prefill
 * does; `step` runs the kernels of one token through a 135M model; attention is in attend.c. Rounds
 * (7) are interleaved; medians are printed, and the least time, which a busy machine disturbs less.
 * --only keeps measurements whose "name table type" contains TEXT. One JSON line per measurement;
 * --json prints the summary that docs/log/speed.md explains. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/half.h"
#include "kernels/kernels.h"
#include "plain_read.h"

enum {
  COLS = 2048,
  CACHED_ROWS = 512,
  MAX_TOKENS = 32,
  HEAD = 64,
  MAX_ROUNDS = 99,
  MAX_RESULTS = 160,
  STREAMS = 3
};

typedef struct bench bench;
struct bench {
  const char *what, *detail;
  const bq_kernels *k;
  void (*run)(bench *b);
  bq_matrix w;
  size_t n, tokens, repeat; /* n: floats that a vector kernel takes */
  double bytes, work;       /* of one run: read from memory, multiplications (or elements) */
  double seconds[MAX_ROUNDS];
};

typedef struct result {
  const char *what, *table, *type;
  size_t tokens;
  double seconds, gb_per_s, g_per_s, of_read; /* medians */
} result;

typedef struct buffers {
  float x[MAX_TOKENS * COLS], y[MAX_TOKENS * CACHED_ROWS], ones[COLS];
  float *wide_y;
  _Alignas(16) uint8_t panel[1 << 20];
  uint8_t *weights; /* STREAMS areas of weight_bytes each */
  size_t weight_bytes;
  uint64_t sink;
  int rounds;
  bool summary; /* no lines, a summary at the end */
  const char *only;
  result results[MAX_RESULTS];
  size_t n_results;
} buffers;

static buffers *data;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- measured operations ---------------------------------------------------------------------- */

static void read_weights(bench *b) {
  data->sink = plain_read(data->weights, (size_t)b->bytes / 8, data->sink);
}

/* Quantization is a measurement of its own. */
static void matmul(bench *b) {
  bq_batch batch = {data->x, COLS, data->panel, b->tokens};
  b->w.ops->matmul(&b->w, &batch, 0, b->w.rows, b->tokens > 1 ? data->y : data->wide_y, b->w.rows);
}

static void quantize(bench *b) { b->k->quantize(data->x, COLS, b->n, b->tokens, data->panel); }
static void rmsnorm(bench *b) { b->k->rmsnorm(data->x, data->ones, 1e-5f, b->n, data->y); }
static void layernorm(bench *b) {
  b->k->layernorm(data->x, data->ones, data->ones, 1e-5f, b->n, data->y);
}
static void add(bench *b) { b->k->add(data->y, data->ones, b->n); }
static void rope(bench *b) {
  for (size_t i = 0; i < b->n; i += HEAD) b->k->rope(data->y + i, data->ones, HEAD, false);
}
/* The gate is restored each time, or it would sink to subnormals: a copy is in the figure. */
static void silu(bench *b) {
  memcpy(data->y, data->x, b->n * sizeof *data->y);
  b->k->silu_mul(data->y, data->ones, b->n);
}
static void gelu(bench *b) {
  memcpy(data->y, data->x, b->n * sizeof *data->y);
  b->k->gelu_mul(data->y, data->ones, b->n);
}
/* Key and value of one head at one position. */
static void store_one(const bq_kernels *k, const float *x) {
  static _Alignas(64) uint8_t block[BQ_KV_BLOCK * 3 * HEAD];
  uint8_t *const blocks[] = {block};
  const bq_kv_view kv = {blocks, 0, HEAD};
  k->kv_store[BQ_KV_I8](&kv, 0, 1, x, x + HEAD, HEAD);
}
static void kv_store(bench *b) { store_one(b->k, data->x); }
static void tile_rows(bench *b) {
  size_t row_bytes = COLS / 32 * 20;
  for (size_t r = 0; r < 64; r++)
    b->k->tile_rows(BQ_TYPE_BQ4_32, data->weights + r * 8 * row_bytes, row_bytes, 8, COLS,
                                    data->panel);
}

/* --- one token through a 135M model ----------------------------------------------------------- */

enum { HIDDEN = 576, FFN = 1536, LAYERS = 30, KV = 192, VOCAB = 49152 };

/* y = W x of all matrices: BQ4H_32 in the layers, BQ8_32 in the head. Each lies after the one
 * before it, so that all are read from where a model of that size would lie. */
static const struct {
  uint32_t rows, cols;
} LAYER_MATRICES[] = {{HIDDEN, HIDDEN}, {KV, HIDDEN},  {KV, HIDDEN}, {HIDDEN, HIDDEN},
                      {FFN, HIDDEN},    {FFN, HIDDEN}, {HIDDEN, FFN}};
enum { N_TABLES = 4 };
enum { N_MATRICES = sizeof LAYER_MATRICES / sizeof *LAYER_MATRICES };

static size_t step_matmul(const bq_kernels *k, bq_type type, uint32_t rows, uint32_t cols,
                          size_t at) {
  const bq_matrix w = {data->weights + at, rows, cols, type, &k->matrix[type]};
  const bq_batch batch = {data->x, cols, data->panel, 1};
  w.ops->matmul(&w, &batch, 0, rows, data->wide_y, rows);
  return (size_t)bq_type_bytes(type, BQ_TILED, rows, cols);
}

static void step_matmuls(bench *b) {
  size_t at = 0;
  for (size_t layer = 0; layer < LAYERS; layer++)
    for (size_t i = 0; i < N_MATRICES; i++)
      at +=
          step_matmul(b->k, BQ_TYPE_BQ4H_32, LAYER_MATRICES[i].rows, LAYER_MATRICES[i].cols, at);
  step_matmul(b->k, BQ_TYPE_BQ8_32, VOCAB, HIDDEN, at);
}

/* All other operations of a token, without attention. */
static void step_others(bench *b) {
  const bq_kernels *k = b->k;
  for (size_t layer = 0; layer < LAYERS; layer++) {
    k->rmsnorm(data->x, data->ones, 1e-5f, HIDDEN, data->y);
    k->quantize(data->y, HIDDEN, HIDDEN, 1, data->panel);
    for (size_t h = 0; h < HIDDEN + KV; h += HEAD) k->rope(data->y + h, data->ones, HEAD, false);
    for (size_t h = 0; h < KV; h += HEAD) store_one(k, data->x + 2 * h);
    k->quantize(data->x, HIDDEN, HIDDEN, 1, data->panel);
    k->add(data->y, data->x, HIDDEN);
    k->rmsnorm(data->x, data->ones, 1e-5f, HIDDEN, data->y);
    k->quantize(data->y, HIDDEN, HIDDEN, 1, data->panel);
    memcpy(data->y, data->x, FFN * sizeof *data->y); /* stands for the gate's matmul */
    k->silu_mul(data->y, data->ones, FFN);
    k->quantize(data->y, FFN, FFN, 1, data->panel);
    k->add(data->y, data->x, HIDDEN);
  }
  k->rmsnorm(data->x, data->ones, 1e-5f, HIDDEN, data->y);
  k->quantize(data->y, HIDDEN, HIDDEN, 1, data->panel);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static float noise(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(int32_t)*seed * 0x1p-31f;
}

/* Scales near 1/100: with subnormal products every rate would be a fifth. */
static void fill_weights(bq_type type, size_t from, size_t to) {
  const bq_type_facts *f = bq_type_get(type);
  uint32_t seed = 1;
  if (!f->tile_step) {
    for (size_t at = from; at + f->block_bytes <= to; at += f->block_bytes) {
      float w = noise(&seed);
      uint16_t h = type == BQ_TYPE_F16 ? bq_f32_to_f16(w) : bq_f32_to_bf16(w);
      memcpy(data->weights + at, f->block_bytes == 4 ? (void *)&w : (void *)&h, f->block_bytes);
    }
    return;
  }
  const bool half = f->block_bytes % 4;
  const size_t scales = f->tile_step / (f->block < f->tile_step ? f->block : f->tile_step) * 8;
  for (size_t at = from; at + f->tile_bytes <= to; at += f->tile_bytes) {
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
  b.bytes = (double)bq_type_bytes(type, bq_type_compute_layout(type), rows, COLS);
  b.work = (double)rows * COLS * (double)tokens;
  return b;
}

/* Over n floats of each of `tokens` rows. */
static bench vector_bench(const char *what, const bq_kernels *k, void (*run)(bench *), size_t n,
                          size_t tokens) {
  return (bench){.what = what,
                 .detail = "f32",
                 .k = k,
                 .run = run,
                 .n = n,
                 .tokens = tokens,
                 .repeat = 200,
                 .work = (double)(n * tokens)};
}

/* --- measuring -------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(bench *b) {
  qsort(b->seconds, (size_t)data->rounds, sizeof *b->seconds, by_size);
  return b->seconds[data->rounds / 2];
}

static bool wanted(const bench *b) {
  char name[96];
  snprintf(name, sizeof name, "%s %s %s", b->what, b->k ? b->k->name : "", b->detail);
  return !data->only || strstr(name, data->only) || b->run == read_weights;
}

static void report(bench *b, double read) {
  const double s = median(b); /* sorts: seconds[0] is the least from here on */
  result r = {b->what, b->k ? b->k->name : "", b->detail, b->tokens, s, 0, 0, 0};
  if (b->bytes > 0) r.gb_per_s = b->bytes / s * 1e-9;
  if (b->work > 0) r.g_per_s = b->work / s * 1e-9;
  if (b->bytes > 0 && read > 0) r.of_read = b->bytes / s / read;
  if (data->n_results < MAX_RESULTS) data->results[data->n_results++] = r;
  if (data->summary) return;
  printf("{\"bench\": \"%s\", \"table\": \"%s\", \"of\": \"%s\", \"tokens\": %zu, \"us\": %.2f, "
         "\"least_us\": %.2f",
         r.what, r.table, r.type, r.tokens, s * 1e6, b->seconds[0] * 1e6);
  if (b->bytes > 0) printf(", \"GB_per_s\": %.2f", r.gb_per_s);
  if (b->work > 0) printf(", \"G_per_s\": %.2f", r.g_per_s);
  if (b->run != matmul && b->work > 0) printf(", \"ns_per_element\": %.3f", s / b->work * 1e9);
  if (r.of_read > 0) printf(", \"of_read\": %.3f", r.of_read);
  printf("}\n");
}

static void measure(bench *list, size_t n) {
  size_t kept = 0, others = 0;
  for (size_t i = 0; i < n; i++)
    if (wanted(&list[i])) {
      others += list[i].run != read_weights;
      list[kept++] = list[i];
    }
  if (!others) return;
  for (int round = -1; round < data->rounds; round++) /* the first warms up */
    for (size_t i = 0; i < kept; i++) {
      bench *b = &list[i];
      if (b->k && b->run == matmul && b->w.ops->quantized)
        b->k->quantize(data->x, COLS, COLS, b->tokens, data->panel);
      double start = now();
      for (size_t j = 0; j < b->repeat; j++) b->run(b);
      if (round >= 0) b->seconds[round] = (now() - start) / (double)b->repeat;
    }
  double read = list[0].run == read_weights ? list[0].bytes / median(&list[0]) : 0;
  for (size_t i = 0; i < kept; i++) report(&list[i], read);
  fflush(stdout);
}

/* --- the summary ------------------------------------------------------------------------------ */

static const result *find(const char *what, const char *table, const char *type, size_t tokens) {
  for (size_t i = 0; i < data->n_results; i++) {
    const result *r = &data->results[i];
    if (!strcmp(r->what, what) && !strcmp(r->table, table) && r->tokens == tokens &&
        (!type || !strcmp(r->type, type)))
      return r;
  }
  return NULL;
}

static void print_matrix_summary(const char *type, const char *table) {
  const result *stream = find("matvec", table, type, 1), *one = find("matmul", table, type, 1),
               *batch = find("matmul", table, type, 32), *best = find("matvec", "relaxed", type, 1);
  if (!stream || !one || !batch) return;
  printf(",\n  {\"type\": \"%s\", \"table\": \"%s\", \"matvec_GB_per_s\": %.2f, "
         "\"matvec_G_weights_per_s\": %.2f, \"of_read\": %.3f, \"of_relaxed\": %.3f, "
         "\"cached_G_weights_per_s\": %.2f, \"batch_GMAC_per_s\": %.2f}",
         type, table, stream->gb_per_s, stream->g_per_s, stream->of_read,
         best ? stream->g_per_s / best->g_per_s : 1.0, one->g_per_s, batch->g_per_s);
}

static void print_summary(const bq_type *types, size_t n_types, const bq_kernels *const *tables) {
  const result *read = find("read", "", NULL, 1);
  printf("{\"weights_MB\": %zu, \"rounds\": %d, \"read_GB_per_s\": %.2f, \"matrices\": [",
         data->weight_bytes >> 20, data->rounds, read ? read->gb_per_s : 0.0);
  printf("\n  {\"type\": \"plain\", \"table\": \"read\", \"of_read\": 1}");
  for (size_t i = 0; i < n_types; i++)
    for (size_t t = 0; t < N_TABLES; t++)
      if (tables[t]) print_matrix_summary(bq_type_get(types[i])->name, tables[t]->name);
  printf("],\n \"step_135M\": [");
  bool first = true;
  for (size_t t = 0; t < N_TABLES; t++) {
    if (!tables[t]) continue;
    const result *all = find("step", tables[t]->name, "matmuls", 1),
                 *others = find("step", tables[t]->name, "others", 1);
    if (!all || !others) continue;
    printf("%s\n  {\"table\": \"%s\", \"matmul_us\": %.1f, \"others_us\": %.1f, "
           "\"others_share\": %.4f}",
           first ? "" : ",", tables[t]->name, all->seconds * 1e6, others->seconds * 1e6,
           others->seconds / (all->seconds + others->seconds));
    first = false;
  }
  printf("]}\n");
}

/* --- groups of measurements ------------------------------------------------------------------- */

/* From memory: `n_types` types, one in each area, and a plain read, all in every round. */
static void measure_streams(const bq_type *types, size_t n_types, const bq_kernels *const *tables) {
  bench list[1 + N_TABLES * STREAMS];
  size_t n = 0;
  list[n++] = (bench){.what = "read",
                      .detail = "plain",
                      .run = read_weights,
                      .tokens = 1,
                      .repeat = 1,
                      .bytes = (double)(data->weight_bytes & ~(size_t)63)};
  for (size_t i = 0; i < n_types; i++) {
    const size_t from = i * data->weight_bytes;
    fill_weights(types[i], from, from + data->weight_bytes);
    double row_bytes =
        (double)bq_type_bytes(types[i], bq_type_compute_layout(types[i]), 8, COLS) / 8;
    size_t rows = (size_t)((double)data->weight_bytes / row_bytes) & ~(size_t)7;
    for (size_t t = 0; t < N_TABLES; t++) {
      if (!tables[t]) continue;
      list[n] = matmul_bench("matvec", tables[t], types[i], rows, 1, 1);
      list[n++].w.data += from;
    }
  }
  measure(list, n);
}

static void measure_cached(bq_type type, const bq_kernels *const *tables) {
  bench list[16];
  size_t n = 0;
  const bq_layout layout = bq_type_compute_layout(type);
  fill_weights(type, 0, (size_t)bq_type_bytes(type, layout, CACHED_ROWS, COLS));
  for (size_t t = 0; t < N_TABLES; t++)
    for (size_t tokens = 1; tokens <= MAX_TOKENS; tokens *= tokens == 1 ? 4 : 8)
      if (tables[t])
        list[n++] = matmul_bench("matmul", tables[t], type, CACHED_ROWS, tokens, 64 / tokens);
  measure(list, n);
}

static void measure_step(const bq_kernels *const *tables) {
  size_t layers = 0, head = (size_t)bq_type_bytes(BQ_TYPE_BQ8_32, BQ_TILED, VOCAB, HIDDEN);
  for (size_t i = 0; i < N_MATRICES; i++)
    layers += LAYERS * (size_t)bq_type_bytes(BQ_TYPE_BQ4H_32, BQ_TILED, LAYER_MATRICES[i].rows,
                                             LAYER_MATRICES[i].cols);
  if (layers + head > data->weight_bytes) return;
  fill_weights(BQ_TYPE_BQ4H_32, 0, layers);
  fill_weights(BQ_TYPE_BQ8_32, layers, layers + head);
  bench list[2 * N_TABLES];
  size_t n = 0;
  for (size_t t = 0; t < N_TABLES; t++) {
    if (!tables[t]) continue;
    bench all = {.what = "step",
                 .detail = "matmuls",
                 .k = tables[t],
                 .run = step_matmuls,
                 .tokens = 1,
                 .repeat = 1,
                 .bytes = (double)(layers + head)};
    bench others = all;
    others.detail = "others";
    others.run = step_others;
    others.repeat = 10;
    others.bytes = 0;
    list[n++] = all;
    list[n++] = others;
  }
  measure(list, n);
}

static void measure_vectors(const bq_kernels *k) {
  bench list[] = {
      vector_bench("quantize", k, quantize, COLS, 1),
      vector_bench("quantize", k, quantize, COLS, 4),
      vector_bench("rmsnorm", k, rmsnorm, HIDDEN, 1),
      vector_bench("layernorm", k, layernorm, HIDDEN, 1),
      vector_bench("add", k, add, HIDDEN, 1),
      vector_bench("rope", k, rope, HIDDEN, 1),
      vector_bench("silu_mul", k, silu, FFN, 1),
      vector_bench("gelu_mul", k, gelu, FFN, 1),
      vector_bench("kv_store", k, kv_store, HEAD, 1),
      {.what = "tile_rows",
       .detail = "bq4_32",
       .k = k,
       .run = tile_rows,
       .repeat = 1,
       .bytes = 512.0 * COLS / 32 * 20,
       .work = 512.0 * COLS},
  };
  measure(list, sizeof list / sizeof *list);
}

static bool read_options(int argc, char **argv) {
  size_t mb = 160;
  data->rounds = 7;
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--json")) data->summary = true;
    else if (!strcmp(argv[i], "--mb")) mb = (size_t)atoi(value), i++;
    else if (!strcmp(argv[i], "--rounds")) data->rounds = atoi(value), i++;
    else if (!strcmp(argv[i], "--only")) data->only = value, i++;
    else return false;
  }
  data->weight_bytes = mb << 20;
  return mb >= 8 && mb <= 1024 && data->rounds > 0 && data->rounds <= MAX_ROUNDS;
}

int main(int argc, char **argv) {
  static const bq_type types[] = {BQ_TYPE_BQ4_32, BQ_TYPE_BQ4H_32, BQ_TYPE_BQ8_32, BQ_TYPE_BQ4_16,
                                  BQ_TYPE_BQ4_64, BQ_TYPE_F16,     BQ_TYPE_F32};
  const size_t n_types = sizeof types / sizeof *types;
  const bq_kernels *tables[N_TABLES] = {bq_kernels_relaxed(), bq_kernels_relaxed16(),
                                        bq_kernels_simd128(), bq_kernels_scalar()};
  if (tables[2]) tables[3] = NULL; /* compiled with SIMD in this build, so it would not be scalar */
  data = calloc(1, sizeof *data);
  if (!data || !read_options(argc, argv)) {
    fprintf(stderr, "usage: [--mb 8...1024] [--rounds 1...%d] [--only TEXT] [--json]\n",
            MAX_ROUNDS);
    return 2;
  }
  data->weights = aligned_alloc(64, STREAMS * data->weight_bytes);
  data->wide_y = malloc(data->weight_bytes / COLS * 2 * sizeof(float) + VOCAB * sizeof(float));
  if (!data->weights || !data->wide_y) return 1;
  uint32_t seed = 7;
  for (size_t i = 0; i < MAX_TOKENS * COLS; i++) data->x[i] = noise(&seed);
  for (size_t i = 0; i < COLS; i++) data->ones[i] = 1;
  for (size_t i = 0; i < n_types; i += STREAMS)
    measure_streams(types + i, n_types - i < STREAMS ? n_types - i : STREAMS, tables);
  for (size_t i = 0; i < n_types; i++) measure_cached(types[i], tables);
  measure_step(tables);
  for (size_t t = 0; t < N_TABLES; t++)
    if (tables[t]) measure_vectors(tables[t]);
  if (data->summary) print_summary(types, n_types, tables);
  return 0;
}
