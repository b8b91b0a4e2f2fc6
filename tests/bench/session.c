/* Measures the stages of a forward pass: one JSON line per stage, for prefill and for decode at two
 * depths, with rates by the bytes and operations of each stage.
 *
 *   make -f emscripten.mk bench-kernels
 *   node_modules/.bin/node build/bench-kernels/session.js model.bq4 [kv, f32] [depth, 2032] \
 *     [threads, 1] [table]
 *
 * tools/make_random.mjs writes models with random weights. Decode: medians of STEPS tokens.
 *
 * Threads are simulated: the shares of a phase are computed one after the other. The duration of a
 * phase is the longest median of its shares. So each thread has all caches and the bandwidth of
 * memory for itself, and barriers cost nothing; the number of phases is printed. This shows how
 * evenly the work of a token is divided, on machines with fewer cores. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bq.h"
#include "kernels/kernels.h"

enum { STEPS = 24, NEAR = 128 };

static const char *const STAGES[BQ_STAGE_COUNT] = {"host",     "embed",  "norm", "qkv",
                                                   "kv",       "attend", "o",    "mlp in",
                                                   "activate", "down",   "head", "sample"};

typedef struct times {
  double last, stage[BQ_STAGE_COUNT];
} times;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Simulated threads: seconds of their shares of each phase of the last STEPS tokens, and the stages
 * that the phases belong to. */
enum { MAX_PHASES = 1024, MAX_THREADS = 16 };
static double shares[MAX_PHASES][MAX_THREADS][STEPS];
static bq_stage stage_of[MAX_PHASES];
static size_t n_threads = 1, n_phases, step;
static bool in_phase;

static void run(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg) {
  (void)ctx;
  in_phase = true;
  for (size_t i = 0; i < n_threads; i++) {
    const double start = now();
    fn(arg, i, n_threads);
    if (n_phases < MAX_PHASES) shares[n_phases][i][step] = now() - start;
  }
  n_phases++;
  in_phase = false;
}

static void mark(void *ctx, bq_stage stage, uint32_t layer) {
  times *t = ctx;
  double time = now();
  if (!in_phase && n_phases > 0 && n_phases <= MAX_PHASES) stage_of[n_phases - 1] = stage;
  (void)layer;
  t->stage[stage] += time - t->last;
  t->last = time;
}

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  return aligned_alloc(BQ_ALIGN, (bytes + BQ_ALIGN) / BQ_ALIGN * BQ_ALIGN);
}
static void give(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}
static const bq_allocator allocator = {NULL, take, give};

static const bq_kernels *table_named(const char *name) {
  const bq_kernels *tables[] = {bq_kernels_relaxed(), bq_kernels_relaxed16(), bq_kernels_simd128(),
                                bq_kernels_scalar()};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (tables[i] && !strcmp(tables[i]->name, name)) return tables[i];
  return NULL;
}

static bq_model *load(const char *path, const bq_kernels *kernels) {
  bq_loader *loader = NULL;
  bq_model *model = NULL;
  bq_error err = {0};
  FILE *f = fopen(path, "rb");
  if (!f || bq_loader_create(&(bq_loader_options){.allocator = allocator, .kernels = kernels},
                              &loader, &err))
    return NULL;
  const size_t piece = 1 << 20;
  uint8_t *bytes = malloc(piece);
  for (bq_want want; !bq_loader_want(loader, &want, &err) && want.length;) {
    size_t n = want.length < piece ? (size_t)want.length : piece;
    if (fseek(f, (long)want.offset, SEEK_SET) || fread(bytes, 1, n, f) != n ||
        bq_loader_feed(loader, bytes, n, &err))
      break;
  }
  free(bytes);
  fclose(f);
  return err.status || bq_loader_model(loader, &model, &err) ? NULL : model;
}

static void print(const char *what, const bq_session *s, const double *seconds, uint32_t layers,
                  uint32_t position, uint32_t tokens) {
  double sum = 0;
  for (int i = BQ_STAGE_EMBED; i < BQ_STAGE_COUNT; i++) sum += seconds[i];
  for (int i = BQ_STAGE_EMBED; i < BQ_STAGE_COUNT; i++) {
    if (!(seconds[i] > 0)) continue;
    bq_work w = bq_session_work(s, (bq_stage)i, 0, position, tokens);
    const double times = i == BQ_STAGE_EMBED || i == BQ_STAGE_HEAD ? 1 : layers;
    printf(
        "{\"pass\": \"%s\", \"stage\": \"%s\", \"us\": %.1f, \"share\": %.3f, \"GB_per_s\": %.2f, "
        "\"GMAC_per_s\": %.2f}\n",
        what, STAGES[i], seconds[i] * 1e6, seconds[i] / sum,
        times * (double)(w.weight_bytes + w.kv_bytes) / seconds[i] * 1e-9,
        times * (double)w.macs / seconds[i] * 1e-9);
  }
  printf("{\"pass\": \"%s\", \"stage\": \"all\", \"us\": %.1f}\n", what, sum * 1e6);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sets the seconds of the stages that phases end to the sums of their longest shares, norms and
 * activations included. */
static void add_longest_shares(double *stage) {
  for (int i = BQ_STAGE_NORM; i <= BQ_STAGE_HEAD; i++) stage[i] = 0;
  for (size_t p = 0; p < n_phases && p < MAX_PHASES; p++) {
    double longest = 0;
    for (size_t i = 0; i < n_threads; i++) {
      qsort(shares[p][i], STEPS, sizeof shares[p][i][0], by_size);
      if (shares[p][i][STEPS / 2] > longest) longest = shares[p][i][STEPS / 2];
    }
    stage[stage_of[p]] += longest;
  }
}

static void decode(const char *what, bq_session *s, times *t, uint32_t layers, uint32_t depth) {
  static double all[BQ_STAGE_COUNT][STEPS];
  double median[BQ_STAGE_COUNT];
  for (uint32_t i = 0; i < STEPS; i++) {
    uint32_t id;
    memset(t->stage, 0, sizeof t->stage);
    t->last = now();
    n_phases = 0;
    step = i;
    bq_session_sample(s, NULL, NULL, &id, NULL);
    bq_session_append(s, i, NULL);
    bq_session_run(s, 0, NULL);
    for (int j = 0; j < BQ_STAGE_COUNT; j++) all[j][i] = t->stage[j];
  }
  for (int j = 0; j < BQ_STAGE_COUNT; j++) {
    qsort(all[j], STEPS, sizeof all[j][0], by_size);
    median[j] = all[j][STEPS / 2];
  }
  if (n_threads > 1) add_longest_shares(median);
  print(what, s, median, layers, depth, 1);
  if (n_threads > 1) printf("{\"pass\": \"%s\", \"phases\": %zu}\n", what, n_phases);
}

int main(int argc, char **argv) {
  if (argc < 2) return 1;
  const char *kv = argc > 2 ? argv[2] : "f32";
  bq_model *model = load(argv[1], argc > 5 ? table_named(argv[5]) : NULL);
  if (!model) return 1;
  const bq_config *c = bq_model_config(model);
  uint32_t depth = argc > 3 ? (uint32_t)atoi(argv[3]) : 2032;
  if (depth + STEPS > c->context) depth = c->context - STEPS;
  if (argc > 4) n_threads = (size_t)atoi(argv[4]);
  if (n_threads < 1 || n_threads > MAX_THREADS) return 1;
  times t = {0};
  bq_session *s;
  bq_session_options o = {.kv_type = !strcmp(kv, "i2")    ? BQ_KV_I2
                                     : !strcmp(kv, "i4")  ? BQ_KV_I4
                                     : !strcmp(kv, "i8")  ? BQ_KV_I8
                                     : !strcmp(kv, "f16") ? BQ_KV_F16
                                                          : BQ_KV_F32,
                          .parallel = {.run = run, .threads = n_threads},
                          .trace = {&t, mark}};
  if (bq_session_create(model, &o, allocator, &s, NULL)) return 1;
  uint32_t *ids = calloc(c->context, sizeof *ids);
  for (uint32_t i = 0; i < c->context; i++) ids[i] = i * 7919 % 300;
  const uint32_t prompts[] = {NEAR, 512, depth};
  for (int i = 0; i < 3; i++) {
    ids[0] = (uint32_t)i; /* nothing is kept from the prompt before */
    bq_session_sync(s, ids, prompts[i], NULL, NULL);
    memset(t.stage, 0, sizeof t.stage);
    t.last = now();
    n_phases = 0;
    bq_session_run(s, 0, NULL);
    if (i == 1) print("prefill 512", s, t.stage, c->layers, 0, 512);
    if (i == 0) decode("decode, warming up", s, &t, c->layers, NEAR);
    if (i == 2) decode("decode far", s, &t, c->layers, depth);
  }
  bq_session_sync(s, ids, NEAR, NULL, NULL);
  bq_session_run(s, 0, NULL);
  decode("decode near", s, &t, c->layers, NEAR);
  return 0;
}
