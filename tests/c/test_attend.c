/* Attention and KV cache of every kernel table compared with the scalar table, bit for bit, and the
 * scalar table with double arithmetic. Native builds have only the scalar table. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/half.h"
#include "kernels/kernels.h"
#include "kernels/kv.h"
#include "model/config.h"
#include "random.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const bq_kernels *tables[4]; /* tables[0] is scalar */
static size_t n_tables;

#define X(table, NAME, name, ...) #name,
static const char *const TYPE_NAMES[] = {BQ_KV_TYPES(X, )};
#undef X

static bool check_same(const void *actual, const void *expected, size_t bytes, const char *what,
                       const bq_kernels *k) {
  bool same = memcmp(actual, expected, bytes) == 0;
  if (!CHECK(same)) printf("  %s of table %s\n", what, k->name);
  return same;
}

/* Allocates `bytes` bytes filled with `value`, 16-byte aligned, followed by 64 guard bytes, which
 * free_guarded checks. */
static void *alloc_guarded(size_t bytes, int value) {
  uint8_t *p = aligned_alloc(16, (bytes + 64 + 15) / 16 * 16);
  memset(p, value, bytes);
  memset(p + bytes, 0xa5, 64);
  return p;
}

static void free_guarded(void *p, size_t bytes) {
  for (size_t i = 0; i < 64; i++)
    if (!CHECK_EQ(((uint8_t *)p)[bytes + i], 0xa5)) break;
  free(p);
}

/* --- one problem ------------------------------------------------------------------------------ */

typedef struct problem {
  bq_kv_type type;
  size_t positions, dim, heads, tokens; /* `tokens` of the positions are queries */
  float *k, *v; /* [positions][dim + 3] */
  float *q;     /* [tokens][heads * dim + 5] */
  size_t window, full; /* as in bq_attend_job */
  float softcap;
  const float *slopes;
  const float *sinks;
  const float *biases;
  bool counts; /* attention sums are computed */
  bool levels; /* keys and values are among the 16 levels of i4 */
} problem;

/* Biases of scores: the bucket of each distance, and the biases of each bucket for up to 5
 * heads. */
static uint8_t bucket_of[2 * BQ_BIAS_FAR + 1];
static float biases[BQ_BIAS_BUCKETS * 6];

static size_t q_stride(const problem *p) { return p->heads * p->dim + 5; }
static size_t y_count(const problem *p) { return p->tokens * q_stride(p); }

static problem make_problem(bq_kv_type type, size_t positions, size_t dim, size_t heads,
                            size_t tokens, uint64_t *seed) {
  problem p = {.type = type, .positions = positions, .dim = dim, .heads = heads, .tokens = tokens};
  p.k = malloc(positions * (dim + 3) * sizeof *p.k);
  p.v = malloc(positions * (dim + 3) * sizeof *p.v);
  p.q = malloc(y_count(&p) * sizeof *p.q);
  random_floats(seed, p.k, positions * (dim + 3), 2);
  random_floats(seed, p.v, positions * (dim + 3), 2);
  random_floats(seed, p.q, y_count(&p), 2);
  return p;
}

static void free_problem(problem *p) {
  free(p->k);
  free(p->v);
  free(p->q);
}

enum { BLOCKS = 4, OFFSET = 48, PARTS = BLOCKS * BQ_KV_BLOCK / BQ_KV_SCALED };

/* Blocks of a KV cache, each allocated by itself; NULL if there is none. */
typedef struct cache {
  uint8_t *blocks[BLOCKS];
  uint32_t dim;
} cache;

static size_t block_bytes(const problem *p) {
  return OFFSET + (size_t)bq_kv_bytes(p->type, BQ_KV_BLOCK, p->dim);
}

static bq_kv_view view_of(const cache *c) { return (bq_kv_view){c->blocks, OFFSET, c->dim}; }

static void free_cache(const problem *p, cache *c) {
  for (size_t b = 0; b < BLOCKS; b++)
    if (c->blocks[b]) free_guarded(c->blocks[b], block_bytes(p));
}

static void check_same_cache(const problem *p, const cache *actual, const cache *expected,
                             const char *what, const bq_kernels *k) {
  for (size_t b = 0; b < BLOCKS && expected->blocks[b]; b++)
    if (!check_same(actual->blocks[b], expected->blocks[b], block_bytes(p), what, k)) return;
}

/* A cache with all positions; bytes of unused slots are `junk`. */
static cache make_cache(const bq_kernels *k, const problem *p, int junk) {
  cache c = {.dim = (uint32_t)p->dim};
  if (!CHECK(p->positions <= BLOCKS * BQ_KV_BLOCK)) abort();
  for (size_t b = 0; b * BQ_KV_BLOCK < p->positions; b++)
    c.blocks[b] = alloc_guarded(block_bytes(p), junk);
  const bq_kv_view kv = view_of(&c);
  for (size_t j = 0, n; j < p->positions; j += n) { /* 1 to 5 positions at a time */
    n = 1 + j % 5;
    if (n > p->positions - j) n = p->positions - j;
    k->kv_store[p->type](&kv, j, n, p->k + j * (p->dim + 3), p->v + j * (p->dim + 3), p->dim + 3);
  }
  return c;
}

/* The attention sums of each token, with an element after them that is never written. */
static uint32_t attention_sums[BLOCKS * BQ_KV_BLOCK][PARTS + 1];

/* Runs a job with guarded scratch memory. */
static void run_job(const bq_kernels *k, const problem *p, bq_attend_job job) {
  size_t bytes = (size_t)bq_attend_scratch(p->type, p->positions, p->dim);
  job.scratch = alloc_guarded(bytes, 0xff);
  k->attend[p->type](&job);
  free_guarded(job.scratch, bytes);
}

static bq_attend_job job_of(const problem *p, const cache *c, size_t row0, size_t row1, float *y) {
  bq_attend_job job = {.kv = view_of(c),
                       .q = p->q,
                       .y = y,
                       .stride = q_stride(p),
                       .heads = p->heads,
                       .position = p->positions - p->tokens,
                       .row0 = row0,
                       .row1 = row1,
                       .scale = 0.3f,
                       .window = p->window,
                       .full = p->full,
                       .softcap = p->softcap,
                       .slopes = p->slopes,
                       .sinks = p->sinks,
                       .biases = p->biases,
                       .bias_stride = 6,
                       .bias_buckets = bucket_of};
  if (p->counts) job.attention_sums = attention_sums[0], job.attention_sums_stride = PARTS + 1;
  return job;
}

static void attend_rows(const bq_kernels *k, const problem *p, const cache *c, size_t row0,
                        size_t row1, float *y) {
  run_job(k, p, job_of(p, c, row0, row1, y));
}

/* Computes all rows in the three passes, each in ranges of units from the last to the first, since
 * threads may compute them in any order. */
static void attend_in_passes(const bq_kernels *k, const problem *p, const cache *c, float *y,
                             uint64_t *seed) {
  const size_t row_bytes = (size_t)bq_attend_shared(p->positions), all = p->tokens * p->heads;
  for (size_t row = 0, rows; row < all; row += rows) {
    rows = p->heads - row % p->heads; /* the remaining rows of the token */
    if (rows > BQ_ATTEND_ROWS) rows = BQ_ATTEND_ROWS;
    bq_attend_job job = job_of(p, c, row, row + rows, y);
    bq_attend_part part = {.shared = alloc_guarded(rows * row_bytes, 0xff)};
    job.part = &part;
    const size_t seen = bq_row_end(&job, row) - bq_row_base(&job, row);
    const size_t units[] = {bq_kv_up(seen, BQ_KV_SCALED), rows, bq_kv_dims(p->dim) / 8};
    for (int pass = 0; pass < 3; pass++)
      for (part.to = units[pass]; part.to > 0; part.to = part.from) {
        part.pass = (bq_attend_pass)(BQ_ATTEND_SCORES + pass);
        part.from = part.to - 1 - random_bits(seed) % part.to;
        run_job(k, p, job);
      }
    free_guarded(part.shared, rows * row_bytes);
  }
}

/* Computes all rows; bytes between rows stay 0xa5. */
static float *attend(const bq_kernels *k, const problem *p, const cache *c) {
  float *y = malloc(y_count(p) * sizeof *y);
  memset(y, 0xa5, y_count(p) * sizeof *y);
  attend_rows(k, p, c, 0, p->tokens * p->heads, y);
  return y;
}

/* Compares results with double arithmetic on the values before they were stored. */
static void check_values(const problem *p, const float *y) {
  const double limits[] = {2e-5, 2e-2, 0.12, p->levels ? 0.12 : 1.2, 3.5};
  const double tolerance = limits[p->type];
  double *score = malloc(p->positions * sizeof *score);
  for (size_t row = 0; row < p->tokens * p->heads; row++) {
    const size_t t = row / p->heads, n = p->positions - p->tokens + t + 1, stride = p->dim + 3;
    const size_t at = t * q_stride(p) + row % p->heads * p->dim;
    const size_t from = p->window && p->window < n ? n - p->window : 0;
    size_t end = p->full ? p->full : n;
    if (p->full && p->window && n - 1 + p->window < end) end = n - 1 + p->window;
    double max = p->sinks ? p->sinks[row % p->heads] : -INFINITY, sum = 0;
    for (size_t j = from; j < end; j++) {
      score[j] = 0;
      for (size_t d = 0; d < p->dim; d++)
        score[j] += (double)p->q[at + d] * p->k[j * stride + d] * 0.3;
      if (p->softcap > 0) score[j] = p->softcap * tanh(score[j] / p->softcap);
      const double away = (double)j - (double)(n - 1);
      if (p->slopes) score[j] -= p->slopes[row % p->heads] * fabs(away);
      if (p->biases)
        score[j] += p->biases[bucket_of[(int)fmax(-128, fmin(128, away)) + 128] * 6 +
                              row % p->heads];
      max = fmax(max, score[j]);
    }
    if (p->sinks) sum = exp(p->sinks[row % p->heads] - max);
    for (size_t j = from; j < end; j++) sum += score[j] = exp(score[j] - max);
    for (size_t d = 0; d < p->dim; d++) {
      double expected = 0;
      for (size_t j = from; j < end; j++) expected += score[j] / sum * p->v[j * stride + d];
      if (!CHECK(fabs(y[at + d] - expected) <= tolerance)) {
        printf("  %s, %zu positions, head of %zu: expected %g, found %g\n", TYPE_NAMES[p->type], n,
               p->dim, expected, (double)y[at + d]);
        free(score);
        return;
      }
    }
  }
  free(score);
}

static void check_problem(const problem *p) {
  const size_t bytes = y_count(p) * sizeof(float), rows = p->tokens * p->heads;
  cache scalar = make_cache(tables[0], p, 0xff);
  float *expected = attend(tables[0], p, &scalar);
  check_values(p, expected);
  for (size_t t = 0; t < p->tokens; t++)
    for (size_t i = p->heads * p->dim; i < q_stride(p); i++)
      CHECK_EQ(bq_bits_of(expected[t * q_stride(p) + i]), 0xa5a5a5a5);
  for (size_t t = 0; t < n_tables; t++) {
    const bq_kernels *k = tables[t];
    cache own = make_cache(k, p, 0xff);
    check_same_cache(p, &own, &scalar, "kv_store", k);
    float *y = attend(k, p, &own);
    if (!check_same(y, expected, bytes, "attend", k))
      printf("  %s, %zu positions, head of %zu, %zu heads, %zu tokens\n", TYPE_NAMES[p->type],
             p->positions, p->dim, p->heads, p->tokens);
    /* Rows one by one, from the last to the first, with other bytes in unused slots of the
     * cache. */
    cache other = make_cache(k, p, 0x3c);
    memset(y, 0xa5, bytes);
    for (size_t row = rows; row-- > 0;) attend_rows(k, p, &other, row, row + 1, y);
    check_same(y, expected, bytes, "attend, row by row", k);
    if (p->type == BQ_KV_I8) {
      uint64_t seed = rows;
      memset(y, 0xa5, bytes);
      attend_in_passes(k, p, &other, y, &seed);
      check_same(y, expected, bytes, "attend, in passes", k);
    }
    free(y);
    free_cache(p, &own);
    free_cache(p, &other);
  }
  free(expected);
  free_cache(p, &scalar);
}

static void test_attend(void) {
  const size_t positions[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100};
  const size_t dims[] = {1, 2, 3, 4, 6, 8, 10, 16, 20, 31, 32, 33, 36, 48, 64, 80, 100, 128, 256};
  uint64_t seed = 12;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (size_t d = 0; d < COUNT(dims); d++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t heads = 1 + random_bits(&seed) % 5;
        const size_t limit = positions[p] < 7 ? positions[p] : 7;
        problem a = make_problem((bq_kv_type)type, positions[p], dims[d], heads,
                                 1 + random_bits(&seed) % limit, &seed);
        check_problem(&a);
        free_problem(&a);
      }
}

/* Windows that begin anywhere in a block of the cache and in 32 positions, scores with a soft cap,
 * slopes, biases or sinks, and rows that attend to later positions. */
static void test_kinds_of_attention(void) {
  static const float slopes[] = {0.5f, 0.25f, -0.125f, 0.0625f, 1.0f};
  static const float sinks[] = {-1.5f, 9.0f, 0.0f, -200.0f, 2.5f};
  const size_t positions[] = {3, 33, 70, 255, 256, 257, 300, 515, 600};
  const size_t dims[] = {4, 7, 20, 64}, windows[] = {0, 1, 2, 31, 32, 45, 256, 290};
  uint64_t seed = 19;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (size_t w = 0; w < COUNT(windows); w++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t heads = 1 + random_bits(&seed) % 5;
        const size_t limit = positions[p] < 9 ? positions[p] : 9;
        problem a = make_problem((bq_kv_type)type, positions[p], dims[random_bits(&seed) % 4],
                                 heads, 1 + random_bits(&seed) % limit, &seed);
        const uint32_t kind = random_bits(&seed) >> 8;
        a.window = windows[w];
        if (kind % 4 == 0) a.full = a.positions;
        if (kind / 4 % 2) a.softcap = 1.5f;
        if (kind / 8 % 2) a.slopes = slopes;
        if (kind / 16 % 2) a.biases = biases;
        if (kind / 32 % 2) a.sinks = sinks;
        check_problem(&a);
        free_problem(&a);
      }
}

/* Attention sums are the same in every table, and about the same with double arithmetic. */
static void check_attention_sums(const problem *p) {
  static uint32_t expected[COUNT(attention_sums)][PARTS + 1];
  for (size_t t = 0; t < 3 * n_tables; t++) {
    const bq_kernels *k = tables[t % n_tables];
    cache c = make_cache(k, p, 0x3c);
    memset(attention_sums, 0, sizeof attention_sums);
    float *y = malloc(y_count(p) * sizeof *y);
    uint64_t seed = t;
    if (t < n_tables) attend_rows(k, p, &c, 0, p->tokens * p->heads, y);
    else if (t >= 2 * n_tables && p->type == BQ_KV_I8) attend_in_passes(k, p, &c, y, &seed);
    else /* row by row */
      for (size_t row = p->tokens * p->heads; row-- > 0;) attend_rows(k, p, &c, row, row + 1, y);
    free(y);
    if (t == 0) memcpy(expected, attention_sums, sizeof attention_sums);
    check_same(attention_sums, expected, sizeof attention_sums, "attention sums", k);
    free_cache(p, &c);
  }
  for (size_t t = 0; t < p->tokens; t++) {
    const size_t end = p->full ? p->full : p->positions - p->tokens + t + 1;
    const size_t from = p->window && p->window < end && !p->full ? end - p->window : 0;
    uint64_t all = 0;
    for (size_t i = 0; i <= PARTS; i++) {
      all += expected[t][i];
      if (i * BQ_KV_SCALED >= end || (i + 1) * BQ_KV_SCALED <= from) CHECK_EQ(expected[t][i], 0);
    }
    CHECK(all <= p->heads * 65540 && all + p->heads * (PARTS + 4) >= p->heads * 65536);
  }
  if (p->type != BQ_KV_F32 || p->heads > 1 || p->tokens > 1 || p->window || p->slopes) return;
  double part[PARTS] = {0}, sum = 0;
  for (size_t j = 0; j < p->positions; j++) {
    double score = 0;
    for (size_t d = 0; d < p->dim; d++)
      score += (double)p->q[d] * (double)p->k[j * (p->dim + 3) + d] * 0.3;
    part[j / BQ_KV_SCALED] += exp(score);
    sum += exp(score);
  }
  for (size_t i = 0; i < PARTS; i++) CHECK(fabs(expected[0][i] - part[i] / sum * 65536) < 2);
}

static void test_attention_sums(void) {
  static const float slopes[] = {0.5f, 0.25f, -0.125f, 0.0625f, 1.0f};
  const size_t positions[] = {1, 31, 32, 33, 255, 256, 257, 300, 600};
  uint64_t seed = 23;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (int kind = 0; kind < 4; kind++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t limit = positions[p] < 9 ? positions[p] : 9;
        problem a = make_problem((bq_kv_type)type, positions[p], 20, kind ? 5 : 1,
                                 kind ? 1 + random_bits(&seed) % limit : 1, &seed);
        a.counts = true;
        if (kind == 2) a.window = 45;
        if (kind == 3) a.slopes = slopes;
        check_attention_sums(&a);
        free_problem(&a);
      }
}

/* Results do not depend on the blocks outside the window, nor on the values of their positions. */
static void test_positions_outside_the_window_do_not_matter(void) {
  enum { POSITIONS = 700, WINDOW = 150, FROM = POSITIONS - 3 - WINDOW + 1 };
  uint64_t seed = 20;
  for (int type = 0; type < BQ_KV_COUNT; type++) {
    problem p = make_problem((bq_kv_type)type, POSITIONS, 20, 3, 3, &seed);
    p.window = WINDOW;
    cache all = make_cache(tables[0], &p, 0);
    float *expected = attend(tables[0], &p, &all);
    for (size_t i = 0; i < FROM * (p.dim + 3); i++) p.k[i] = p.v[i] = 1e30f;
    for (size_t t = 0; t < n_tables; t++) {
      cache some = make_cache(tables[t], &p, 0xff);
      for (size_t b = 0; b < FROM / BQ_KV_BLOCK; b++) {
        free_guarded(some.blocks[b], block_bytes(&p));
        some.blocks[b] = NULL;
      }
      float *y = attend(tables[t], &p, &some);
      check_same(y, expected, y_count(&p) * sizeof *y, "attend with a window", tables[t]);
      free(y);
      free_cache(&p, &some);
    }
    free(expected);
    free_cache(&p, &all);
    free_problem(&p);
  }
}

/* A result does not depend on later positions, nor on the time at which they were stored. */
static void test_later_positions_do_not_matter(void) {
  uint64_t seed = 15;
  for (int type = 0; type < BQ_KV_COUNT; type++)
    for (size_t n = 1; n < 70; n += 4) {
      problem all = make_problem((bq_kv_type)type, n + 40, 20, 3, n + 40, &seed);
      cache full = make_cache(tables[0], &all, 0);
      float *expected = attend(tables[0], &all, &full);
      problem some = all;
      some.positions = some.tokens = n;
      for (size_t t = 0; t < n_tables; t++) {
        cache part = make_cache(tables[t], &some, 0);
        float *y = attend(tables[t], &some, &part);
        check_same(y, expected, y_count(&some) * sizeof *y, "attend without later positions",
                   tables[t]);
        free(y);
        free_cache(&some, &part);
      }
      free(expected);
      free_cache(&all, &full);
      free_problem(&all);
    }
}

/* Values that are levels of i4 have the same error as with i8, in any dim. */
static void test_sixteen_levels(void) {
  const size_t dims[] = {2, 20, 32, 33, 64, 80};
  uint64_t seed = 21;
  for (size_t i = 0; i < COUNT(dims); i++) {
    problem p = make_problem(BQ_KV_I4, 300, dims[i], 3, 2, &seed);
    p.levels = true;
    for (size_t j = 0; j < p.positions; j++)
      for (size_t d = 0; d < p.dim + 3; d++) {
        const size_t at = j * (p.dim + 3) + d;
        const float last = p.dim % 32 == 1 && d == p.dim - 1 ? 15.0f : 0.0f;
        const float c = d % 32 < 2 ? (d % 32 ? -15.0f : 15.0f) : last;
        p.k[at] = 2.0f / 15 * (c != 0.0f ? c : 2.0f * (float)(random_bits(&seed) % 16) - 15);
        p.v[at] = 2.0f / 15 * (c != 0.0f ? c : 2.0f * (float)(random_bits(&seed) % 16) - 15);
      }
    check_problem(&p);
    free_problem(&p);
  }
}

/* With a single position the result is its value: the error of 32 dims is at most half a step, plus
 * two roundings of integers. */
static void check_steps(bq_kv_type type, double parts) {
  const size_t dims[] = {1, 8, 31, 32, 64, 80};
  uint64_t seed = 22;
  for (size_t i = 0; i < COUNT(dims); i++) {
    problem p = make_problem(type, 1, dims[i], 1, 1, &seed);
    cache c = make_cache(tables[0], &p, 0);
    float *y = attend(tables[0], &p, &c);
    double maximum = 0;
    for (size_t d = 0; d < p.dim; d++) maximum = fmax(maximum, fabs((double)p.v[d]));
    for (size_t d = 0; d < p.dim; d++) {
      double low = p.dim % 32 ? 0 : 9, high = p.dim % 32 ? 0 : -9; /* padded with zeros */
      for (size_t e = d / 32 * 32; e < d / 32 * 32 + 32 && e < p.dim; e++) {
        low = fmin(low, (double)p.v[e]);
        high = fmax(high, (double)p.v[e]);
      }
      const double off = fabs((double)y[d] - (double)p.v[d]), unit = maximum / 127;
      if (!CHECK(off <= (high - low) / parts / 2 + 2 * unit)) printf("  %zu of %zu\n", d, p.dim);
    }
    free(y);
    free_cache(&p, &c);
    free_problem(&p);
  }
}

static void test_error_is_at_most_half_a_step(void) {
  check_steps(BQ_KV_I4, 15);
  check_steps(BQ_KV_I2, 4);
}

/* The largest sums of integers: all values are +-127, and all weights are equal. */
static void test_extremes(void) {
  uint64_t seed = 17;
  for (int round = 0; round < 24; round++) {
    problem p = make_problem((bq_kv_type)(BQ_KV_I8 + round / 8), 64, 128, 4, 1, &seed);
    for (size_t i = 0; i < p.positions * (p.dim + 3); i++) {
      p.k[i] = round & 1 ? 2.0f : -2.0f;
      p.v[i] = round & 4 ? -3.0f : 3.0f;
    }
    for (size_t i = 0; i < y_count(&p); i++) p.q[i] = round & 2 ? 1.0f : -1.0f;
    check_problem(&p);
    free_problem(&p);
  }
}

/* One position has nearly all of the weight: the weights of the others are below half a step. */
static void test_one_dominant_position(void) {
  uint64_t seed = 18;
  for (size_t position = 0; position < 80; position += 13) {
    problem p = make_problem(BQ_KV_I8, 80, 32, 2, 1, &seed);
    for (size_t d = 0; d < p.dim; d++) p.k[position * (p.dim + 3) + d] = 8 * p.q[d];
    check_problem(&p);
    free_problem(&p);
  }
}

/* Values too large for f16 are stored and read as infinity. */
static void test_infinity(void) {
  uint64_t seed = 16;
  problem p = make_problem(BQ_KV_F16, 9, 8, 1, 1, &seed);
  p.v[4 * (p.dim + 3) + 3] = 1e6f;
  p.v[7 * (p.dim + 3) + 6] = -1e6f;
  cache c = make_cache(tables[0], &p, 0xff);
  float *expected = attend(tables[0], &p, &c);
  CHECK(expected[3] == INFINITY && expected[6] == -INFINITY);
  for (size_t t = 1; t < n_tables; t++) {
    float *y = attend(tables[t], &p, &c);
    check_same(y, expected, 8 * sizeof *y, "attend with infinities", tables[t]);
    free(y);
  }
  free(expected);
  free_cache(&p, &c);
  free_problem(&p);
}

/* --- storing ---------------------------------------------------------------------------------- */

/* Random bits (NaN, infinity, subnormal numbers), and in every other round finite numbers of very
 * different sizes. */
static void test_store_any_float(void) {
  uint64_t seed = 13;
  for (int type = 0; type < BQ_KV_COUNT; type++)
    for (size_t dim = 1; dim < 70; dim++)
      for (int round = 0; round < 30; round++) {
        problem p = make_problem((bq_kv_type)type, 11, dim, 1, 1, &seed);
        for (size_t i = 0; i < p.positions * (dim + 3); i++) {
          p.k[i] = bq_float_of(random_bits(&seed));
          p.v[i] = bq_float_of(random_bits(&seed));
          if (round % 2 == 0) continue;
          p.k[i] = ldexpf(random_float(&seed), (int)(random_bits(&seed) % 48) - 30);
          p.v[i] = ldexpf(random_float(&seed), -(int)(i / (dim + 3)) * 11);
        }
        cache expected = make_cache(tables[0], &p, 0);
        for (size_t t = 1; t < n_tables; t++) {
          cache actual = make_cache(tables[t], &p, 0);
          check_same_cache(&p, &actual, &expected, "kv_store of any float", tables[t]);
          free_cache(&p, &actual);
        }
        free_cache(&p, &expected);
        free_problem(&p);
      }
}

static void test_store_floats(void) {
  uint64_t seed = 14;
  problem p = make_problem(BQ_KV_F32, 5, 7, 1, 1, &seed);
  cache c = make_cache(tables[0], &p, 0);
  for (size_t j = 0; j < 5; j++) {
    CHECK_MEM(c.blocks[0] + OFFSET + j * 28, p.k + j * 10, 28);
    CHECK_MEM(c.blocks[0] + OFFSET + (BQ_KV_BLOCK + j) * 28, p.v + j * 10, 28);
  }
  free_cache(&p, &c);
  p.type = BQ_KV_F16;
  c = make_cache(tables[0], &p, 0);
  const uint16_t *h = (const uint16_t *)(const void *)(c.blocks[0] + OFFSET);
  for (size_t i = 0; i < 7; i++) {
    CHECK_EQ(h[4 * 7 + i], bq_f32_to_f16(p.k[4 * 10 + i]));
    CHECK_EQ(h[BQ_KV_BLOCK * 7 + i], bq_f32_to_f16(p.v[i]));
  }
  free_cache(&p, &c);
  free_problem(&p);
}

static void test_sizes(void) {
  CHECK_EQ(bq_kv_bytes(BQ_KV_F32, 2048, 64), 2048 * 64 * 4 * 2);
  CHECK_EQ(bq_kv_bytes(BQ_KV_F16, 2048, 64), 2048 * 64 * 2 * 2);
  CHECK_EQ(bq_kv_bytes(BQ_KV_I8, 2048, 64), 2048 * (64 + 2 * 2 + 64 + 4));
  CHECK_EQ(bq_kv_bytes(BQ_KV_F16, 1, 1), 16); /* a multiple of 16 */
  for (int type = 0; type < BQ_KV_COUNT; type++)
    CHECK_EQ(bq_kv_bytes((bq_kv_type)type, UINT64_MAX / 2, 64), UINT64_MAX);
  CHECK_EQ(bq_kv_bytes(BQ_KV_I4, 2048, 64), 2048 * (64 / 2 + 2 * 4 + 64 / 2 + 2 * 2 + 4));
  CHECK_EQ(bq_kv_bytes(BQ_KV_I2, 2048, 64), 2048 * (64 / 4 + 2 * 4 + 64 / 4 + 2 * 2 + 4));
  for (int type = 0; type < BQ_KV_COUNT; type++)
    CHECK_EQ(bq_attend_scratch((bq_kv_type)type, UINT64_MAX / 2, 64), UINT64_MAX);
}

int main(void) {
  const bq_kernels *all[] = {bq_kernels_scalar(), bq_kernels_simd128(), bq_kernels_relaxed16(),
                             bq_kernels_relaxed()};
  for (size_t i = 0; i < COUNT(all); i++)
    if (all[i]) tables[n_tables++] = all[i];
  for (size_t i = 0; i < COUNT(bucket_of); i++) bucket_of[i] = (uint8_t)(i * 7 % BQ_BIAS_BUCKETS);
  for (size_t i = 0; i < COUNT(biases); i++) biases[i] = (float)(i * 37 % 19) / 8 - 1;
  RUN(test_attend);
  RUN(test_kinds_of_attention);
  RUN(test_attention_sums);
  RUN(test_positions_outside_the_window_do_not_matter);
  RUN(test_later_positions_do_not_matter);
  RUN(test_sixteen_levels);
  RUN(test_error_is_at_most_half_a_step);
  RUN(test_extremes);
  RUN(test_one_dominant_position);
  RUN(test_infinity);
  RUN(test_store_any_float);
  RUN(test_store_floats);
  RUN(test_sizes);
  return check_summary();
}
