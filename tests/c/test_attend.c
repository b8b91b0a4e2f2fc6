/* Attention and KV cache of every table against the scalar table, bit for bit, and the scalar table
 * against plain double arithmetic. Natively only scalar exists; as wasm, the others too. */
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

static const char *const TYPE_NAMES[] = {"f32", "f16", "i8", "i4", "i2"};
_Static_assert(COUNT(TYPE_NAMES) == BQ_KV_COUNT, "a name for each");

static bool check_same(const void *got, const void *want, size_t bytes, const char *what,
                       const bq_kernels *k) {
  bool same = memcmp(got, want, bytes) == 0;
  if (!CHECK(same)) printf("  %s of table %s\n", what, k->name);
  return same;
}

/* `bytes` of one value, 16-byte aligned, followed by 64 bytes that must stay as they are. */
static void *guarded(size_t bytes, int value) {
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
  const float *biases;
  bool counts; /* what is attended to */
  bool levels; /* keys and values are of the 16 that i4 holds */
} problem;

/* Biases of scores: buckets of distances, and of each one for up to five heads. */
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

/* Blocks that lie anywhere; NULL where there is none. */
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

static void check_same_cache(const problem *p, const cache *got, const cache *want,
                             const char *what, const bq_kernels *k) {
  for (size_t b = 0; b < BLOCKS && want->blocks[b]; b++)
    if (!check_same(got->blocks[b], want->blocks[b], block_bytes(p), what, k)) return;
}

/* What lies in no position's place is `junk`. */
static cache make_cache(const bq_kernels *k, const problem *p, int junk) {
  cache c = {.dim = (uint32_t)p->dim};
  if (!CHECK(p->positions <= BLOCKS * BQ_KV_BLOCK)) abort();
  for (size_t b = 0; b * BQ_KV_BLOCK < p->positions; b++)
    c.blocks[b] = guarded(block_bytes(p), junk);
  const bq_kv_view kv = view_of(&c);
  for (size_t j = 0, n; j < p->positions; j += n) { /* some at once */
    n = 1 + j % 5;
    if (n > p->positions - j) n = p->positions - j;
    k->kv_store[p->type](&kv, j, n, p->k + j * (p->dim + 3), p->v + j * (p->dim + 3), p->dim + 3);
  }
  return c;
}

/* Of each token, and one that nobody writes to. */
static uint32_t attention_sums[BLOCKS * BQ_KV_BLOCK][PARTS + 1];

/* Runs a job with scratch of its own. */
static void run_job(const bq_kernels *k, const problem *p, bq_attend_job job) {
  size_t bytes = (size_t)bq_attend_scratch(p->type, p->positions, p->dim);
  job.scratch = guarded(bytes, 0xff);
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

/* All rows in passes, each of them in ranges of units, backwards, as threads may do them. */
static void attend_in_passes(const bq_kernels *k, const problem *p, const cache *c, float *y,
                             uint64_t *seed) {
  const size_t row_bytes = (size_t)bq_attend_shared(p->positions), all = p->tokens * p->heads;
  for (size_t row = 0, rows; row < all; row += rows) {
    rows = p->heads - row % p->heads; /* of the token */
    if (rows > BQ_ATTEND_ROWS) rows = BQ_ATTEND_ROWS;
    bq_attend_job job = job_of(p, c, row, row + rows, y);
    bq_attend_part part = {.shared = guarded(rows * row_bytes, 0xff)};
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

/* All rows; what belongs to no row stays 0xa5. */
static float *attend(const bq_kernels *k, const problem *p, const cache *c) {
  float *y = malloc(y_count(p) * sizeof *y);
  memset(y, 0xa5, y_count(p) * sizeof *y);
  attend_rows(k, p, c, 0, p->tokens * p->heads, y);
  return y;
}

/* Against double arithmetic on the numbers before they were stored. */
static void check_values(const problem *p, const float *y) {
  const double most[] = {2e-5, 2e-2, 0.12, p->levels ? 0.12 : 1.2, 3.5}, slack = most[p->type];
  double *score = malloc(p->positions * sizeof *score);
  for (size_t row = 0; row < p->tokens * p->heads; row++) {
    const size_t t = row / p->heads, n = p->positions - p->tokens + t + 1, stride = p->dim + 3;
    const size_t at = t * q_stride(p) + row % p->heads * p->dim;
    const size_t from = p->window && p->window < n ? n - p->window : 0;
    size_t end = p->full ? p->full : n;
    if (p->full && p->window && n - 1 + p->window < end) end = n - 1 + p->window;
    double max = -INFINITY, sum = 0;
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
    for (size_t j = from; j < end; j++) sum += score[j] = exp(score[j] - max);
    for (size_t d = 0; d < p->dim; d++) {
      double want = 0;
      for (size_t j = from; j < end; j++) want += score[j] / sum * p->v[j * stride + d];
      if (!CHECK(fabs(y[at + d] - want) <= slack)) {
        printf("  %s, %zu positions, head of %zu: %g, not %g\n", TYPE_NAMES[p->type], n, p->dim,
               (double)y[at + d], want);
        free(score);
        return;
      }
    }
  }
  free(score);
}

static void check_problem(const problem *p) {
  const size_t bytes = y_count(p) * sizeof(float), rows = p->tokens * p->heads;
  cache stored = make_cache(tables[0], p, 0xff);
  float *want = attend(tables[0], p, &stored);
  check_values(p, want);
  for (size_t t = 0; t < p->tokens; t++)
    for (size_t i = p->heads * p->dim; i < q_stride(p); i++)
      CHECK_EQ(bq_bits_of(want[t * q_stride(p) + i]), 0xa5a5a5a5);
  for (size_t t = 0; t < n_tables; t++) {
    const bq_kernels *k = tables[t];
    cache own = make_cache(k, p, 0xff);
    check_same_cache(p, &own, &stored, "kv_store", k);
    float *y = attend(k, p, &own);
    if (!check_same(y, want, bytes, "attend", k))
      printf("  %s, %zu positions, head of %zu, %zu heads, %zu tokens\n", TYPE_NAMES[p->type],
             p->positions, p->dim, p->heads, p->tokens);
    /* Rows one by one, backwards, over a cache whose unused places hold something else. */
    cache other = make_cache(k, p, 0x3c);
    memset(y, 0xa5, bytes);
    for (size_t row = rows; row-- > 0;) attend_rows(k, p, &other, row, row + 1, y);
    check_same(y, want, bytes, "attend, row by row", k);
    if (p->type == BQ_KV_I8) {
      uint64_t seed = rows;
      memset(y, 0xa5, bytes);
      attend_in_passes(k, p, &other, y, &seed);
      check_same(y, want, bytes, "attend, in passes", k);
    }
    free(y);
    free_cache(p, &own);
    free_cache(p, &other);
  }
  free(want);
  free_cache(p, &stored);
}

static void test_attend(void) {
  const size_t positions[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100};
  const size_t dims[] = {1, 2, 3, 4, 6, 8, 10, 16, 20, 31, 32, 33, 36, 48, 64, 80, 100, 128, 256};
  uint64_t seed = 12;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (size_t d = 0; d < COUNT(dims); d++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t heads = 1 + random_bits(&seed) % 5, most = positions[p] < 7 ? positions[p] : 7;
        problem a = make_problem((bq_kv_type)type, positions[p], dims[d], heads,
                                 1 + random_bits(&seed) % most, &seed);
        check_problem(&a);
        free_problem(&a);
      }
}

/* Windows that begin anywhere in a block of the cache and in 32 positions, scores that are bent,
 * and rows that see what comes after them. */
static void test_kinds_of_attention(void) {
  static const float slopes[] = {0.5f, 0.25f, -0.125f, 0.0625f, 1.0f};
  const size_t positions[] = {3, 33, 70, 255, 256, 257, 300, 515, 600};
  const size_t dims[] = {4, 7, 20, 64}, windows[] = {0, 1, 2, 31, 32, 45, 256, 290};
  uint64_t seed = 19;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (size_t w = 0; w < COUNT(windows); w++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t heads = 1 + random_bits(&seed) % 5, most = positions[p] < 9 ? positions[p] : 9;
        problem a = make_problem((bq_kv_type)type, positions[p], dims[random_bits(&seed) % 4],
                                 heads, 1 + random_bits(&seed) % most, &seed);
        const uint32_t kind = random_bits(&seed) >> 8;
        a.window = windows[w];
        if (kind % 4 == 0) a.full = a.positions;
        if (kind / 4 % 2) a.softcap = 1.5f;
        if (kind / 8 % 2) a.slopes = slopes;
        if (kind / 16 % 2) a.biases = biases;
        check_problem(&a);
        free_problem(&a);
      }
}

/* What is attended to: the same numbers by every table, of which doubles make about the same. */
static void check_mass(const problem *p) {
  static uint32_t want[COUNT(attention_sums)][PARTS + 1];
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
    if (t == 0) memcpy(want, attention_sums, sizeof attention_sums);
    check_same(attention_sums, want, sizeof attention_sums, "mass", k);
    free_cache(p, &c);
  }
  for (size_t t = 0; t < p->tokens; t++) {
    const size_t end = p->full ? p->full : p->positions - p->tokens + t + 1;
    const size_t from = p->window && p->window < end && !p->full ? end - p->window : 0;
    uint64_t all = 0;
    for (size_t i = 0; i <= PARTS; i++) {
      all += want[t][i];
      if (i * BQ_KV_SCALED >= end || (i + 1) * BQ_KV_SCALED <= from) CHECK_EQ(want[t][i], 0);
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
  for (size_t i = 0; i < PARTS; i++) CHECK(fabs(want[0][i] - part[i] / sum * 65536) < 2);
}

static void test_mass(void) {
  static const float slopes[] = {0.5f, 0.25f, -0.125f, 0.0625f, 1.0f};
  const size_t positions[] = {1, 31, 32, 33, 255, 256, 257, 300, 600};
  uint64_t seed = 23;
  for (size_t p = 0; p < COUNT(positions); p++)
    for (int kind = 0; kind < 4; kind++)
      for (int type = 0; type < BQ_KV_COUNT; type++) {
        const size_t most = positions[p] < 9 ? positions[p] : 9;
        problem a = make_problem((bq_kv_type)type, positions[p], 20, kind ? 5 : 1,
                                 kind ? 1 + random_bits(&seed) % most : 1, &seed);
        a.counts = true;
        if (kind == 2) a.window = 45;
        if (kind == 3) a.slopes = slopes;
        check_mass(&a);
        free_problem(&a);
      }
}

/* Neither the blocks outside a window nor what the positions there hold matter. */
static void test_positions_out_of_sight_do_not_matter(void) {
  enum { POSITIONS = 700, WINDOW = 150, FROM = POSITIONS - 3 - WINDOW + 1 };
  uint64_t seed = 20;
  for (int type = 0; type < BQ_KV_COUNT; type++) {
    problem p = make_problem((bq_kv_type)type, POSITIONS, 20, 3, 3, &seed);
    p.window = WINDOW;
    cache all = make_cache(tables[0], &p, 0);
    float *want = attend(tables[0], &p, &all);
    for (size_t i = 0; i < FROM * (p.dim + 3); i++) p.k[i] = p.v[i] = 1e30f;
    for (size_t t = 0; t < n_tables; t++) {
      cache some = make_cache(tables[t], &p, 0xff);
      for (size_t b = 0; b < FROM / BQ_KV_BLOCK; b++) {
        free_guarded(some.blocks[b], block_bytes(&p));
        some.blocks[b] = NULL;
      }
      float *y = attend(tables[t], &p, &some);
      check_same(y, want, y_count(&p) * sizeof *y, "attend with a window", tables[t]);
      free(y);
      free_cache(&p, &some);
    }
    free(want);
    free_cache(&p, &all);
    free_problem(&p);
  }
}

/* A result doesn't depend on positions after its own, nor on when they were stored. */
static void test_later_positions_do_not_matter(void) {
  uint64_t seed = 15;
  for (int type = 0; type < BQ_KV_COUNT; type++)
    for (size_t n = 1; n < 70; n += 4) {
      problem all = make_problem((bq_kv_type)type, n + 40, 20, 3, n + 40, &seed);
      cache whole = make_cache(tables[0], &all, 0);
      float *want = attend(tables[0], &all, &whole);
      problem some = all;
      some.positions = some.tokens = n;
      for (size_t t = 0; t < n_tables; t++) {
        cache part = make_cache(tables[t], &some, 0);
        float *y = attend(tables[t], &some, &part);
        check_same(y, want, y_count(&some) * sizeof *y, "attend without later positions",
                   tables[t]);
        free(y);
        free_cache(&some, &part);
      }
      free(want);
      free_cache(&all, &whole);
      free_problem(&all);
    }
}

/* Numbers that 4 bits hold come back as 8 bits have them, wherever they lie. */
static void test_sixteen_levels(void) {
  const size_t dims[] = {2, 20, 32, 33, 64, 80};
  uint64_t seed = 21;
  for (size_t i = 0; i < COUNT(dims); i++) {
    problem p = make_problem(BQ_KV_I4, 300, dims[i], 3, 2, &seed);
    p.levels = true;
    for (size_t j = 0; j < p.positions; j++)
      for (size_t d = 0; d < p.dim + 3; d++) {
        const size_t at = j * (p.dim + 3) + d;
        const float most = p.dim % 32 == 1 && d == p.dim - 1 ? 15.0f : 0.0f;
        const float c = d % 32 < 2 ? (d % 32 ? -15.0f : 15.0f) : most;
        p.k[at] = 2.0f / 15 * (c != 0.0f ? c : 2.0f * (float)(random_bits(&seed) % 16) - 15);
        p.v[at] = 2.0f / 15 * (c != 0.0f ? c : 2.0f * (float)(random_bits(&seed) % 16) - 15);
      }
    check_problem(&p);
    free_problem(&p);
  }
}

/* Of one position alone a value comes back: 32 dims are off by half a step at most, and by what two
 * roundings of integers make of it. */
static void check_steps(bq_kv_type type, double parts) {
  const size_t dims[] = {1, 8, 31, 32, 64, 80};
  uint64_t seed = 22;
  for (size_t i = 0; i < COUNT(dims); i++) {
    problem p = make_problem(type, 1, dims[i], 1, 1, &seed);
    cache c = make_cache(tables[0], &p, 0);
    float *y = attend(tables[0], &p, &c);
    double most = 0;
    for (size_t d = 0; d < p.dim; d++) most = fmax(most, fabs((double)p.v[d]));
    for (size_t d = 0; d < p.dim; d++) {
      double low = p.dim % 32 ? 0 : 9, high = p.dim % 32 ? 0 : -9; /* padded with zeros */
      for (size_t e = d / 32 * 32; e < d / 32 * 32 + 32 && e < p.dim; e++) {
        low = fmin(low, (double)p.v[e]);
        high = fmax(high, (double)p.v[e]);
      }
      const double off = fabs((double)y[d] - (double)p.v[d]), unit = most / 127;
      if (!CHECK(off <= (high - low) / parts / 2 + 2 * unit)) printf("  %zu of %zu\n", d, p.dim);
    }
    free(y);
    free_cache(&p, &c);
    free_problem(&p);
  }
}

static void test_half_a_step(void) {
  check_steps(BQ_KV_I4, 15);
  check_steps(BQ_KV_I2, 4);
}

/* The largest sums of integers: everything +-127, and weights that are all the same. */
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

/* One position with nearly all weight: the others of its block are below half a step. */
static void test_one_loud_position(void) {
  uint64_t seed = 18;
  for (size_t loud = 0; loud < 80; loud += 13) {
    problem p = make_problem(BQ_KV_I8, 80, 32, 2, 1, &seed);
    for (size_t d = 0; d < p.dim; d++) p.k[loud * (p.dim + 3) + d] = 8 * p.q[d];
    check_problem(&p);
    free_problem(&p);
  }
}

/* f16 holds infinity, which must be read back as such. */
static void test_infinity(void) {
  uint64_t seed = 16;
  problem p = make_problem(BQ_KV_F16, 9, 8, 1, 1, &seed);
  p.v[4 * (p.dim + 3) + 3] = 1e6f;
  p.v[7 * (p.dim + 3) + 6] = -1e6f;
  cache c = make_cache(tables[0], &p, 0xff);
  float *want = attend(tables[0], &p, &c);
  CHECK(want[3] == INFINITY && want[6] == -INFINITY);
  for (size_t t = 1; t < n_tables; t++) {
    float *y = attend(tables[t], &p, &c);
    check_same(y, want, 8 * sizeof *y, "attend with infinities", tables[t]);
    free(y);
  }
  free(want);
  free_cache(&p, &c);
  free_problem(&p);
}

/* --- storing ---------------------------------------------------------------------------------- */

/* Any pattern of bits: NaN, infinity, subnormal; and every other round moderate numbers, far apart.
 */
static void test_store_anything(void) {
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
        cache want = make_cache(tables[0], &p, 0);
        for (size_t t = 1; t < n_tables; t++) {
          cache got = make_cache(tables[t], &p, 0);
          check_same_cache(&p, &got, &want, "kv_store of anything", tables[t]);
          free_cache(&p, &got);
        }
        free_cache(&p, &want);
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
  RUN(test_mass);
  RUN(test_positions_out_of_sight_do_not_matter);
  RUN(test_later_positions_do_not_matter);
  RUN(test_sixteen_levels);
  RUN(test_half_a_step);
  RUN(test_extremes);
  RUN(test_one_loud_position);
  RUN(test_infinity);
  RUN(test_store_anything);
  RUN(test_store_floats);
  RUN(test_sizes);
  return check_summary();
}
