/* Eviction by attention: the results match a plain reference that keeps a list of the positions in
 * the cache; the bits do not depend on batches, forks, saving and truncation; wrong options are
 * refused. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "core/hash.h"
#include "reference.h"
#include "session/create.h"
#include "session/evict.h"
#include "session/options.h"
#include "session/session.h"
#include "sequences.h"
#include "tiny_configs.h"
#include "tiny_model.h"

/* Positions are evicted at FULL and at FULL + BQ_KV_BLOCK. */
enum { TRAINED = 880, LONG = 800, VOCAB = 61, WINDOW = BQ_KV_BLOCK, SINKS = 3, PART = 32 };
enum { FULL = WINDOW + BQ_KV_BLOCK };

static uint32_t prompt[TRAINED];

static bq_config llama(void) {
  bq_config c = tiny_llama(VOCAB, TRAINED);
  c.layers = c.heads = c.kv_heads = 2;
  return c;
}

static bq_session_options eviction_options(bq_kv_type kv) {
  return (bq_session_options){.context = TRAINED, .kv_type = kv, .kv_window = WINDOW,
                              .sinks = SINKS, .evict = BQ_EVICT_ATTENTION};
}

/* --- a plain reference ------------------------------------------------------------------------ */

static uint32_t kept[TRAINED], n_kept; /* Positions in the cache, in order. */
static double attention[TRAINED];      /* Of each position, summed over layers and heads. */

/* Attends to all kept positions, each key rotated by its own position. */
static void attend(const vectors *kv, const double *q, uint32_t p, uint32_t at, uint32_t dim,
                   double *y) {
  static double scores[TRAINED];
  double rotated[MAX_DIM], key[MAX_DIM], maximum = -1e300, sum = 0;
  rotate(q, p, dim, rotated);
  for (uint32_t j = 0; j < n_kept; j++) {
    rotate(kv->k[kept[j]] + at, kept[j], dim, key);
    scores[j] = 0;
    for (uint32_t i = 0; i < dim; i++) scores[j] += rotated[i] * key[i] / sqrt(dim);
    maximum = fmax(maximum, scores[j]);
  }
  for (uint32_t j = 0; j < n_kept; j++) sum += scores[j] = exp(scores[j] - maximum);
  for (uint32_t i = 0; i < dim; i++) y[i] = 0;
  for (uint32_t j = 0; j < n_kept; j++) {
    attention[kept[j]] += scores[j] / sum;
    for (uint32_t i = 0; i < dim; i++) y[i] += scores[j] / sum * kv->v[kept[j]][at + i];
  }
}

/* The attention of PART positions that follow each other in the list. */
static double attention_at(uint32_t from) {
  double sum = 0;
  for (uint32_t i = from; i < from + PART; i++) sum += attention[kept[i]];
  return sum;
}

static void evict_parts(void) {
  while (n_kept > WINDOW) {
    uint32_t lowest = PART; /* The part of the sinks is never evicted. */
    for (uint32_t at = PART; at + WINDOW / 2 < n_kept; at += PART)
      if (attention_at(at) < attention_at(lowest)) lowest = at;
    memmove(kept + lowest, kept + lowest + PART, (n_kept - lowest - PART) * sizeof *kept);
    n_kept -= PART;
  }
}

static void test_against_a_plain_reference(void) {
  static vectors kv[2];
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_scalar(), false);
  bq_session *s = filled_session(&t, eviction_options(BQ_KV_F32));
  bq_session *all = filled_session(&t, (bq_session_options){.context = TRAINED});
  double difference = 0;
  bool only_oldest = true; /* Whether the oldest part was evicted. */
  for (uint32_t p = 0; p < LONG; p++) {
    double logits[VOCAB], error = 0;
    if (p % BQ_KV_BLOCK == 0 && p > WINDOW) evict_parts();
    only_oldest = only_oldest && (p != FULL || kept[PART] == BQ_KV_BLOCK + PART);
    kept[n_kept++] = p;
    reference_token(&t, prompt[p], p, kv, attend, logits);
    if (p % 60 != 7 && p % BQ_KV_BLOCK > 1 && p % BQ_KV_BLOCK != BQ_KV_BLOCK - 1) continue;
    sync_to(s, prompt, p + 1);
    sync_to(all, prompt, p + 1);
    for (uint32_t v = 0; v < VOCAB; v++) {
      error = fmax(error, fabs(logits[v] - (double)bq_session_logits(s)[v]));
      difference = fmax(difference, fabs(logits[v] - (double)bq_session_logits(all)[v]));
    }
    if (!CHECK(error < 2e-5)) printf("position %u: %g\n", p, error);
  }
  CHECK(!only_oldest);
  CHECK(difference > 1e-3); /* Evicted positions change the logits. */
  bq_session_free(s);
  bq_session_free(all);
  tiny_free(&t);
}

/* A few sinks keep their whole part, even with no attention. */
static void test_sinks_stay(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_scalar(), false);
  bq_session *s = filled_session(&t, eviction_options(BQ_KV_F32));
  sync_to(s, prompt, FULL);
  for (uint32_t i = 0; i < bq_eviction_groups(&s->options); i++)
    s->eviction.totals[i] = i ? 1u << 30 : 0;
  sync_to(s, prompt, FULL + 1);
  CHECK_EQ(s->kv.evicted, BQ_KV_BLOCK);
  CHECK_EQ(s->eviction.kept[0], 0);
  bq_session_free(s);
  tiny_free(&t);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* Runs the parts of all threads one after another. */
static void run_serially(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  const size_t threads = *(size_t *)ctx;
  for (size_t i = 0; i < threads; i++) fn(arg, i, threads);
}

static float expected[LONG][VOCAB];

static void check_batches(bq_config config, bq_kv_type kv) {
  tiny_model t, scalar;
  tiny_create(&t, config, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  tiny_create(&scalar, config, BQ_TYPE_BQ4_32, bq_kernels_scalar(), false);
  bq_session_options o = eviction_options(kv);
  step_by_step(&t, o, prompt, LONG, &expected[0][0]);
  size_t threads = 3;
  static const uint32_t cuts[][2] = {{0, 0}, {39, 39}, {100, 20}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    const uint32_t n = (uint32_t[]){LONG - 1, FULL + 2, FULL + BQ_KV_BLOCK}[i];
    o.prefill_window = cuts[i][0];
    o.batch = cuts[i][1];
    o.parallel = (bq_parallel){0};
    if (i % 2) o.parallel = (bq_parallel){.run = run_serially, .ctx = &threads, .threads = threads};
    bq_session *s = filled_session(i == 2 ? &scalar : &t, o);
    sync_to(s, prompt, n);
    check_logits(s, expected[n - 1]);
    CHECK_EQ(sync_to(s, prompt, n - 1), n - 2);
    check_logits(s, expected[n - 2]);
    append(s, prompt[n - 1]);
    check_logits(s, expected[n - 1]);
    append(s, prompt[n]); /* At the beginning of a block: after eviction by the attention so far. */
    check_logits(s, expected[n]);
    CHECK_EQ(sync_to(s, prompt, FULL / 2 + 9), 0); /* Evicted positions are computed again. */
    check_logits(s, expected[FULL / 2 + 8]);
    bq_session_free(s);
  }
  tiny_free(&t);
  tiny_free(&scalar);
}

static bq_config windowed(void) {
  return tiny_windowed(llama(), 40);
}

static bq_config alibi(void) {
  bq_config c = llama();
  c.position = BQ_POSITION_ALIBI;
  return c;
}

static void test_bits_do_not_depend_on_batches(void) {
  static const uint64_t hashes[BQ_KV_COUNT] = {
      0x9bec94de193d1097ull, 0x229eaeabf7fbe922ull, 0x0a49ef4f99f1f6bcull, 0x7968430ace06062bull,
      0x53034b5be33f7a2bull}; /* The same in every build. */
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    check_batches(llama(), (bq_kv_type)kv);
    const uint64_t hash = bq_xxh64((const uint8_t *)expected, sizeof expected, 0);
    if (!CHECK_EQ(hash, hashes[kv])) printf("0x%016llxull\n", (unsigned long long)hash);
  }
  check_batches(windowed(), BQ_KV_I8);
  check_batches(tiny_learned(llama()), BQ_KV_F16);
  check_batches(alibi(), BQ_KV_I4);
}

/* Runs that stop inside a window, other texts, and truncation: the attention of discarded tokens
 * does not count. */
static void test_abandoned_runs(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  step_by_step(&t, eviction_options(BQ_KV_I8), prompt, LONG, &expected[0][0]);
  bq_session *s = filled_session(&t, eviction_options(BQ_KV_I8));
  uint32_t other[LONG];
  memcpy(other, prompt, sizeof other);
  for (uint32_t i = 400; i < LONG; i++) other[i] ^= 1;
  CHECK_EQ(bq_session_sync(s, other, 500, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 25, NULL), BQ_MORE);
  CHECK_EQ(sync_to(s, other, 450), BQ_KV_BLOCK);
  CHECK_EQ(sync_to(s, prompt, FULL), 400);
  check_logits(s, expected[FULL - 1]);
  /* The last token is computed again. */
  CHECK_EQ(bq_session_request_outputs(s, FULL - 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_sync(s, other, FULL + 9, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 2, NULL), BQ_MORE);
  sync_to(s, prompt, FULL + 40);
  check_logits(s, expected[FULL + 39]);
  CHECK_EQ(bq_session_sync(s, prompt, LONG, NULL, NULL), BQ_OK);
  while (bq_session_run(s, 1, NULL) == BQ_MORE) continue;
  check_logits(s, expected[LONG - 1]);
  bq_session_free(s);
  tiny_free(&t);
}

/* Correct draft tokens, then wrong ones: the attention of wrong ones does not count. */
static void test_draft_tokens(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  step_by_step(&t, eviction_options(BQ_KV_I8), prompt, LONG, &expected[0][0]);
  bq_session_options o = eviction_options(BQ_KV_I8);
  o.rows = 8;
  bq_session *s = filled_session(&t, o);
  size_t accepted, all = 0;
  sync_to(s, prompt, 300);
  for (uint32_t i = 300; i < FULL + 20; i++) {
    uint32_t draft[7];
    for (uint32_t j = 0; j < 7; j++) draft[j] = prompt[i + 1 + j] ^ (j >= i % 4);
    CHECK_EQ(bq_session_append(s, prompt[i], NULL), BQ_OK);
    if (!bq_session_logits(s)) {
      CHECK_EQ(bq_session_draft(s, draft, 7, &accepted, NULL), BQ_OK);
      all += accepted;
    }
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    check_logits(s, expected[i]);
  }
  CHECK(all > 100);
  for (uint32_t i = FULL + 20; i < LONG; i++) append(s, prompt[i]);
  check_logits(s, expected[LONG - 1]);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_sessions_in_one_batch(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  step_by_step(&t, eviction_options(BQ_KV_I8), prompt, LONG, &expected[0][0]);
  bq_session_options o = eviction_options(BQ_KV_I8);
  o.rows = 2;
  bq_session *a = filled_session(&t, o), *b = filled_session(&t, o);
  bq_error err = {0};
  sync_to(a, prompt, 310);
  sync_to(b, prompt, FULL - 20);
  CHECK_EQ(bq_session_append(a, prompt[310], NULL), BQ_OK);
  CHECK_EQ(bq_session_sync(b, prompt, FULL, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &b, 1, 0, NULL), BQ_OK);
  check_logits(a, expected[310]);
  check_logits(b, expected[FULL - 1]);
  CHECK_EQ(bq_session_append(a, prompt[311], NULL), BQ_OK);
  CHECK_EQ(bq_session_append(b, prompt[FULL], NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(b, &a, 1, 0, NULL), BQ_OK);
  check_logits(a, expected[311]);
  check_logits(b, expected[FULL]);
  /* No window reaches past a position where the cache evicts. */
  sync_to(a, prompt, FULL - 2);
  CHECK_EQ(bq_session_sync(a, prompt, FULL + 2, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(b, prompt[FULL + 1], NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(b, &a, 1, 0, &err), BQ_ARGUMENT);
  CHECK(strstr(err.detail, "past the end of a block") != NULL);
  CHECK_EQ(bq_session_run_with(a, &b, 1, 0, NULL), BQ_ARGUMENT);
  o.evict = BQ_EVICT_OLDEST;
  bq_session *c = filled_session(&t, o);
  sync_to(c, prompt, 8);
  CHECK_EQ(bq_session_append(c, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(b, &c, 1, 0, NULL), BQ_ARGUMENT);
  bq_session_free(a);
  bq_session_free(b);
  bq_session_free(c);
  tiny_free(&t);
}

/* --- forks and saved sessions ----------------------------------------------------------------- */

static uint8_t *save_session(const bq_session *s, size_t *bytes) {
  *bytes = (size_t)bq_session_state_bytes(s);
  uint8_t *saved = malloc(*bytes);
  for (size_t at = 0; at < *bytes; at += 1000) {
    const size_t length = *bytes - at < 1000 ? *bytes - at : 1000;
    CHECK_EQ(bq_session_save(s, at, saved + at, length, NULL), BQ_OK);
  }
  return saved;
}

static void check_copies(bq_config config, bq_kv_type kv, uint32_t n) {
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t.model.file_id[3] = 9;
  bq_session_options o = eviction_options(kv);
  step_by_step(&t, o, prompt, LONG, &expected[0][0]);
  o.forks = 1;
  o.fork_positions = 1;
  size_t threads = 2, bytes, other_bytes;
  bq_session *a = filled_session(&t, o), *b = NULL;
  sync_to(a, prompt, n);
  REQUIRE(bq_session_fork(a, &b, NULL) == BQ_OK);
  append(b, prompt[n] ^ 1);
  uint8_t *saved = save_session(a, &bytes);
  for (uint32_t i = n; i < n + 70; i++) append(a, prompt[i]);
  check_logits(a, expected[n + 69]);
  for (uint32_t i = n; i < n + 70; i++) append(b, prompt[i + 2]); /* Both evict. */
  bq_session_free(a);
  if (n > FULL || n + 70 < FULL) CHECK(sync_to(b, prompt, n + 1) >= n);
  else sync_to(b, prompt, n + 1);
  check_logits(b, expected[n]);
  CHECK_EQ(bq_session_restore(b, saved, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  check_logits(b, expected[n - 1]);
  for (uint32_t i = n; i < n + 70; i++) append(b, prompt[i]);
  check_logits(b, expected[n + 69]);
  bq_session_free(b);
  /* On threads and in other windows, the saved bytes are the same. */
  o.parallel = (bq_parallel){.run = run_serially, .ctx = &threads, .threads = threads};
  o.prefill_window = 77;
  b = filled_session(&t, o);
  sync_to(b, prompt, n);
  uint8_t *other = save_session(b, &other_bytes);
  if (CHECK_EQ(other_bytes, bytes)) CHECK_MEM(other, saved, bytes);
  free(other);
  free(saved);
  bq_session_free(b);
  tiny_free(&t);
}

static void test_forks_and_saved_sessions(void) {
  check_copies(llama(), BQ_KV_I8, 100);
  check_copies(llama(), BQ_KV_I8, FULL);
  check_copies(llama(), BQ_KV_I8, FULL - 20);
  check_copies(llama(), BQ_KV_F32, FULL + 130);
  check_copies(windowed(), BQ_KV_I2, FULL + 130);
}

static void check_refused_state(bq_session *s, uint8_t *saved, size_t bytes, size_t at,
                                uint32_t value, bq_status status) {
  uint32_t original;
  bq_error err = {0};
  memcpy(&original, saved + at, 4);
  memcpy(saved + at, &value, 4);
  if (!CHECK_EQ(bq_session_restore(s, saved, bytes, &err), status)) printf("%s\n", err.detail);
  CHECK_EQ(err.offset, at);
  memcpy(saved + at, &original, 4);
  CHECK_EQ(bq_session_stats_get(s).tokens, 0);
}

static void test_refused_states(void) {
  enum { COMPUTED = 60, KEY = 64, EVICT = 88, SCORED = 92 };
  tiny_model t;
  size_t bytes;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t.model.file_id[3] = 9;
  bq_session *s = filled_session(&t, eviction_options(BQ_KV_I8));
  bq_session *r = filled_session(&t, eviction_options(BQ_KV_I8));
  sync_to(s, prompt, FULL + 30);
  uint8_t *saved = save_session(s, &bytes);
  static const uint32_t wrong_values[] = {0,         1, BQ_KV_BLOCK, FULL + 30, FULL + BQ_KV_BLOCK,
                                          UINT32_MAX};
  for (size_t i = 0; i < sizeof wrong_values / sizeof *wrong_values; i++)
    check_refused_state(r, saved, bytes, SCORED, wrong_values[i], BQ_FORMAT);
  uint32_t zero = 0;
  memcpy(saved + EVICT, &zero, 4); /* The file states eviction of the oldest. */
  bq_error err = {0};
  CHECK_EQ(bq_session_restore(r, saved, bytes, &err), BQ_MISMATCH);
  CHECK(strstr(err.detail, "eviction") != NULL);
  saved[EVICT] = BQ_EVICT_ATTENTION;
  /* Any sums of attention are valid. */
  const size_t attended = (128 + 4 * (FULL + 30) + 63) / 64 * 64;
  memset(saved + attended, 0xff, bq_eviction_groups(&r->options) * 8);
  const uint64_t hash = bq_xxh64(saved, bytes - 8, 0);
  memcpy(saved + bytes - 8, &hash, 8);
  CHECK_EQ(bq_session_restore(r, saved, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(r, 0, NULL), BQ_OK);
  for (uint32_t i = FULL + 30; i < FULL + BQ_KV_BLOCK + 3; i++) append(r, prompt[i]);
  CHECK(bq_session_logits(r) != NULL);
  /* Without eviction by attention, the file has no sums of attention. */
  bq_session *plain = filled_session(&t, (bq_session_options){.kv_type = BQ_KV_I8});
  sync_to(plain, prompt, 300);
  free(saved);
  saved = save_session(plain, &bytes);
  check_refused_state(plain, saved, bytes, SCORED, BQ_KV_BLOCK, BQ_FORMAT);
  free(saved);
  bq_session_free(plain);
  bq_session_free(s);
  bq_session_free(r);
  tiny_free(&t);
}

/* --- memory, and refused options -------------------------------------------------------------- */

static void test_memory_does_not_grow(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  bq_session_options o = eviction_options(BQ_KV_I8);
  uint64_t kv[2];
  bq_session_memory(&t.model.config, t.model.kernels, &o, &kv[0]);
  o.context = 600;
  bq_session_memory(&t.model.config, t.model.kernels, &o, &kv[1]);
  CHECK_EQ(kv[0], kv[1]);
  bq_session *s = filled_session(&t, eviction_options(BQ_KV_I8));
  sync_to(s, prompt, LONG);
  CHECK_EQ(s->kv.pool->classes[0].n_blocks, t.model.config.layers * 2);
  CHECK_EQ(s->kv.pool->classes[0].n_free, 0);
  bq_session_free(s);
  tiny_free(&t);
}

static void check_refused(bq_config config, bq_session_options o, const char *detail) {
  bq_error err = {0};
  bq_session_options out;
  CHECK_EQ(bq_session_options_resolve(&config, &o, &out, &err), BQ_ARGUMENT);
  if (!CHECK(strstr(err.detail, detail) != NULL)) printf("%s\n", err.detail);
}

static void test_refused_options(void) {
  bq_session_options o = eviction_options(BQ_KV_F32), out;
  o.kv_window = 300;
  check_refused(llama(), o,
                "a KV window of 300: to evict by attention it is to be a multiple of 256");
  o.kv_window = o.sinks = 0;
  check_refused(llama(), o, "a KV window of 0: to evict");
  o = eviction_options(BQ_KV_F32);
  o.evict = BQ_EVICT_COUNT;
  check_refused(llama(), o, "unknown way to evict 2");
  o = eviction_options(BQ_KV_F32);
  o.context = TRAINED + 1; /* Positions keep their rotations, which end here. */
  check_refused(llama(), o, "context 881 is larger than the model's own, 880");
  o = eviction_options(BQ_KV_F32);
  o.context = WINDOW; /* Nothing is ever evicted. */
  const bq_config c = llama();
  CHECK_EQ(bq_session_options_resolve(&c, &o, &out, NULL), BQ_OK);
  CHECK_EQ(out.evict, BQ_EVICT_OLDEST);
  CHECK_EQ(out.kv_window, 0);
}

int main(void) {
  for (uint32_t i = 0; i < TRAINED; i++) prompt[i] = (i * 7919 + i * i % 13) % 60;
  RUN(test_against_a_plain_reference);
  RUN(test_sinks_stay);
  RUN(test_bits_do_not_depend_on_batches);
  RUN(test_abandoned_runs);
  RUN(test_draft_tokens);
  RUN(test_sessions_in_one_batch);
  RUN(test_forks_and_saved_sessions);
  RUN(test_refused_states);
  RUN(test_memory_does_not_grow);
  RUN(test_refused_options);
  return check_summary();
}
