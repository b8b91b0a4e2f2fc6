/* A KV window with attention sinks: the results match a plain reference that keeps lists of visible
 * positions; the bits do not depend on batches, forks, saving and truncation; memory does not grow
 * with the context. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "reference.h"
#include "session/create.h"
#include "session/options.h"
#include "session/session.h"
#include "sequences.h"
#include "tiny_configs.h"
#include "tiny_model.h"

/* The window begins to move after WINDOW positions, and moves by blocks. */
enum { TRAINED = 780, CONTEXT = 900, LONG = 600, VOCAB = 61, WINDOW = 40, SINKS = 3 };
/* The last position before the second move. */
enum { MOVE = 2 * BQ_KV_BLOCK + WINDOW - 1 };

static uint32_t prompt[CONTEXT];

static bq_config llama(void) {
  bq_config c = tiny_llama(VOCAB, TRAINED);
  c.layers = c.heads = c.kv_heads = 2;
  return c;
}

static bq_session_options sink_options(bq_kv_type kv) {
  return (bq_session_options){.context = CONTEXT, .kv_type = kv, .kv_window = WINDOW,
                              .sinks = SINKS};
}

/* --- a plain reference ------------------------------------------------------------------------ */

/* Lists the positions that the token at `p` attends to, and returns their number. */
static uint32_t list_visible(uint32_t p, uint32_t *list) {
  uint32_t from = 0, n = 0;
  while (from + BQ_KV_BLOCK + WINDOW <= p + 1) from += BQ_KV_BLOCK;
  for (uint32_t i = 0; from && i < SINKS; i++) list[n++] = i;
  for (uint32_t i = from; i <= p; i++) list[n++] = i;
  return n;
}

/* Computes a head of the token at p: each key is rotated by its index in the list. */
static void attend(const vectors *kv, const double *q, uint32_t p, uint32_t at, uint32_t dim,
                   double *y) {
  static uint32_t list[CONTEXT];
  static double scores[CONTEXT];
  double rotated[MAX_DIM], key[MAX_DIM], maximum = -1e300, sum = 0;
  const uint32_t n = list_visible(p, list);
  rotate(q, n - 1, dim, rotated);
  for (uint32_t j = 0; j < n; j++) {
    rotate(kv->k[list[j]] + at, j, dim, key);
    scores[j] = 0;
    for (uint32_t i = 0; i < dim; i++) scores[j] += rotated[i] * key[i] / sqrt(dim);
    maximum = fmax(maximum, scores[j]);
  }
  for (uint32_t i = 0; i < dim; i++) y[i] = 0;
  for (uint32_t j = 0; j < n; j++) sum += scores[j] = exp(scores[j] - maximum);
  for (uint32_t j = 0; j < n; j++)
    for (uint32_t i = 0; i < dim; i++) y[i] += scores[j] / sum * kv->v[list[j]][at + i];
}

static void test_against_a_plain_reference(void) {
  static vectors kv[4];
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_scalar(), false);
  const bq_config *c = &t.model.config;
  REQUIRE(c->gated && c->kv_heads * c->head_dim <= MAX_DIM);
  bq_session *s = filled_session(&t, sink_options(BQ_KV_F32));
  bq_session *without_window = filled_session(&t, (bq_session_options){.context = TRAINED});
  double difference = 0;
  for (uint32_t p = 0; p < 820; p++) {
    double logits[VOCAB], error = 0;
    reference_token(&t, prompt[p], p, kv, attend, logits);
    if (p % 60 != 7 && p != MOVE && p != MOVE - 1) continue;
    sync_to(s, prompt, p + 1);
    if (p < TRAINED) sync_to(without_window, prompt, p + 1);
    for (uint32_t v = 0; v < VOCAB; v++) {
      error = fmax(error, fabs(logits[v] - (double)bq_session_logits(s)[v]));
      if (p < TRAINED)
        difference =
            fmax(difference, fabs(logits[v] - (double)bq_session_logits(without_window)[v]));
    }
    if (!CHECK(error < 2e-5)) printf("position %u: %g\n", p, error);
  }
  CHECK(difference > 1e-3); /* Without a window, the logits are different. */
  bq_session_free(s);
  bq_session_free(without_window);
  tiny_free(&t);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* Runs the parts of all threads one after another. */
static void run_serially(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  const size_t threads = *(size_t *)ctx;
  for (size_t i = 0; i < threads; i++) fn(arg, i, threads);
}

static float expected[LONG][VOCAB];

/* Computes the logits of llama() token by token, unless `expected` already has those of `kv`. */
static void step_usual_model(const tiny_model *t, bq_kv_type kv) {
  static bq_kv_type computed_type = BQ_KV_COUNT;
  if (kv != computed_type) step_by_step(t, sink_options(kv), prompt, LONG, &expected[0][0]);
  computed_type = kv;
}

static void check_batches(bq_config config, bq_kv_type kv) {
  tiny_model t, scalar;
  tiny_create(&t, config, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  tiny_create(&scalar, config, BQ_TYPE_BQ4_32, bq_kernels_scalar(), false);
  bq_session_options o = sink_options(kv);
  step_by_step(&t, o, prompt, LONG, &expected[0][0]);
  size_t threads = 3;
  static const uint32_t cuts[][2] = {{0, 0}, {39, 39}, {27, 20}, {33, 1}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (size_t k = 0; k < (i ? 1 : 3); k++) {
      const uint32_t n = (uint32_t[]){LONG - 1, MOVE + 1, MOVE}[(i + k) % 3];
      o.prefill_window = cuts[i][0];
      o.batch = cuts[i][1];
      o.parallel = (bq_parallel){0};
      if (i % 2)
        o.parallel = (bq_parallel){.run = run_serially, .ctx = &threads, .threads = threads};
      bq_session *s = filled_session(i == 2 ? &scalar : &t, o);
      sync_to(s, prompt, n);
      check_logits(s, expected[n - 1]);
      CHECK_EQ(sync_to(s, prompt, n - 1), n - 2);
      check_logits(s, expected[n - 2]);
      append(s, prompt[n - 1]);
      check_logits(s, expected[n - 1]);
      sync_to(s, prompt, n / 2); /* Evicted positions are computed again. */
      check_logits(s, expected[n / 2 - 1]);
      bq_session_free(s);
    }
  tiny_free(&t);
  tiny_free(&scalar);
}

/* Some layers have windows and another table of rotations. */
static bq_config windowed(void) {
  bq_config c = tiny_windowed(llama(), 40);
  c.local_theta = 500;
  return c;
}

static bq_config alibi(void) {
  bq_config c = llama();
  c.position = BQ_POSITION_ALIBI;
  return c;
}

static void test_bits_do_not_depend_on_batches(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) check_batches(llama(), (bq_kv_type)kv);
  check_batches(windowed(), BQ_KV_I8);
  check_batches(windowed(), BQ_KV_I4);
  check_batches(alibi(), BQ_KV_F16);
}

/* A run that stops inside a prefill window, another prompt, and the first one again. */
static void test_abandoned_runs(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  step_usual_model(&t, BQ_KV_I8);
  bq_session *s = filled_session(&t, sink_options(BQ_KV_I8));
  uint32_t other[LONG];
  memcpy(other, prompt, sizeof other);
  for (uint32_t i = 540; i < LONG; i++) other[i] ^= 1;
  sync_to(s, prompt, 530);
  CHECK_EQ(bq_session_sync(s, other, LONG, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 5, NULL), BQ_MORE);
  sync_to(s, prompt, 550);
  check_logits(s, expected[549]);
  /* Correct draft tokens, then wrong ones, near the position where the window moves. */
  bq_session_options o = sink_options(BQ_KV_I8);
  o.rows = 8;
  bq_session *g = filled_session(&t, o);
  sync_to(g, prompt, MOVE - 3);
  for (uint32_t i = MOVE - 3; i < MOVE + 10; i++) {
    uint32_t draft[7];
    size_t accepted;
    for (uint32_t j = 0; j < 7; j++) draft[j] = prompt[i + 1 + j] ^ (j >= i % 4);
    CHECK_EQ(bq_session_append(g, prompt[i], NULL), BQ_OK);
    if (!bq_session_logits(g)) CHECK_EQ(bq_session_draft(g, draft, 7, &accepted, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(g, 0, NULL), BQ_OK);
    check_logits(g, expected[i]);
  }
  bq_session_free(g);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_sessions_in_one_batch(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  step_usual_model(&t, BQ_KV_I8);
  bq_session_options o = sink_options(BQ_KV_I8);
  o.rows = 2;
  bq_session *a = filled_session(&t, o), *b = filled_session(&t, o);
  sync_to(a, prompt, 310);
  sync_to(b, prompt, MOVE - 20);
  CHECK_EQ(bq_session_sync(b, prompt, MOVE + 10, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(a, prompt[310], NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &b, 1, 0, NULL), BQ_OK);
  check_logits(a, expected[310]);
  check_logits(b, expected[MOVE + 9]);
  o.sinks = 2;
  bq_session *c = filled_session(&t, o);
  bq_error err = {0};
  sync_to(c, prompt, 8);
  CHECK_EQ(bq_session_append(c, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(a, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &c, 1, 0, &err), BQ_ARGUMENT);
  CHECK(strstr(err.detail, "KV window") != NULL);
  bq_session_free(a);
  bq_session_free(b);
  bq_session_free(c);
  tiny_free(&t);
}

/* --- forks and saved sessions ----------------------------------------------------------------- */

static void check_copies(bq_kv_type kv, uint32_t n) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t.model.file_id[3] = 9;
  bq_session_options o = sink_options(kv);
  step_usual_model(&t, kv);
  o.forks = 1;
  bq_session *a = filled_session(&t, o), *b = NULL;
  sync_to(a, prompt, n);
  REQUIRE(bq_session_fork(a, &b, NULL) == BQ_OK);
  append(b, prompt[n] ^ 1);
  uint8_t *saved = malloc((size_t)bq_session_state_bytes(a));
  const size_t bytes = (size_t)bq_session_state_bytes(a);
  for (size_t at = 0; at < bytes; at += 1000) {
    const size_t length = bytes - at < 1000 ? bytes - at : 1000;
    CHECK_EQ(bq_session_save(a, at, saved + at, length, NULL), BQ_OK);
  }
  for (uint32_t i = n; i < n + 70; i++) append(a, prompt[i]);
  check_logits(a, expected[n + 69]);
  bq_session_free(a);
  sync_to(b, prompt, n + 1); /* with the sinks of the fork */
  check_logits(b, expected[n]);
  CHECK_EQ(sync_to(b, (uint32_t[]){9, 8, 7, 6, 5}, 5), 0); /* other sinks */
  CHECK_EQ(bq_session_restore(b, saved, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  check_logits(b, expected[n - 1]);
  for (uint32_t i = n; i < n + 70; i++) append(b, prompt[i]);
  check_logits(b, expected[n + 69]);
  /* A saved session cannot be restored with another window. */
  bq_error err = {0};
  o.kv_window = WINDOW - 1;
  bq_session *c = filled_session(&t, o);
  CHECK_EQ(bq_session_restore(c, saved, bytes, &err), BQ_MISMATCH);
  CHECK(strstr(err.detail, "another key (adapter, KV window, sinks, eviction, layers)") != NULL);
  bq_session_free(c);
  o.kv_window = o.sinks = 0;
  o.context = TRAINED;
  c = filled_session(&t, o);
  CHECK_EQ(bq_session_restore(c, saved, bytes, &err), BQ_MISMATCH);
  free(saved);
  bq_session_free(b);
  bq_session_free(c);
  tiny_free(&t);
}

static void test_forks_and_saved_sessions(void) {
  check_copies(BQ_KV_I8, 512);
  check_copies(BQ_KV_I8, MOVE - 50);
  check_copies(BQ_KV_F32, MOVE - 50);
  check_copies(BQ_KV_F32, 2); /* fewer positions than sinks */
  check_copies(BQ_KV_I4, MOVE - 50);
}

/* --- memory, and refused options -------------------------------------------------------------- */

static void test_memory_does_not_grow(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  bq_session_options o = sink_options(BQ_KV_I8);
  uint64_t kv[2];
  const uint64_t bytes = bq_session_memory(&t.model.config, t.model.kernels, &o, &kv[0]);
  o.context = 100 * CONTEXT;
  const uint64_t long_bytes = bq_session_memory(&t.model.config, t.model.kernels, &o, &kv[1]);
  CHECK_EQ(kv[0], kv[1]);
  /* The token sequence and the tables of blocks grow. */
  const uint64_t entries = (99 * CONTEXT + BQ_KV_BLOCK) / BQ_KV_BLOCK * t.model.config.layers;
  CHECK(long_bytes - bytes <= 99 * CONTEXT * 4 + entries * sizeof(void *) + 1024);
  bq_session *s = filled_session(&t, o);
  sync_to(s, prompt, LONG);
  CHECK_EQ(s->kv.pool->classes[0].n_blocks - s->kv.pool->classes[0].n_free, t.model.config.layers);
  CHECK_EQ(s->kv.pool->classes[0].n_blocks, t.model.config.layers * 2);
  bq_session_free(s);
  tiny_free(&t);
}

static void check_refused(bq_config config, bq_session_options o, const char *detail) {
  bq_error err = {0};
  bq_session_options out;
  config.head_dim = 4;
  CHECK_EQ(bq_session_options_resolve(&config, &o, &out, &err), BQ_ARGUMENT);
  if (!CHECK(strstr(err.detail, detail) != NULL)) printf("%s\n", err.detail);
}

static void test_refused_options(void) {
  bq_session_options o = sink_options(BQ_KV_F32), out;
  o.sinks = 33;
  check_refused(llama(), o, "33 sinks with a KV window of 40: at most 32");
  o.sinks = 1, o.kv_window = 0, o.context = 0;
  check_refused(llama(), o, "1 sinks with a KV window of 0: at most 0");
  o = sink_options(BQ_KV_F32);
  o.kv_window = TRAINED - 256; /* positions beyond the context of the model */
  check_refused(llama(), o,
                "context 900 is larger than the model's own, 780, which a KV window of 524 "
                "does not extend: expected at most 780, or a KV window from 1 to 521");
  o.kv_window = TRAINED - BQ_KV_BLOCK - SINKS;
  const bq_config maximum = llama();
  CHECK_EQ(bq_session_options_resolve(&maximum, &o, &out, NULL), BQ_OK);
  o.kv_window++;
  check_refused(llama(), o, "a KV window of 522 does not");
  check_refused(tiny_learned(llama()), sink_options(BQ_KV_F32), "larger than the model's own, 780");
  check_refused(tiny_encoder(llama()), (bq_session_options){.kv_window = 10},
                "sees its text as a whole");
  o = sink_options(BQ_KV_F32);
  o.context = UINT32_MAX;
  check_refused(llama(), o, "context 4294967295 is larger");
  /* A window that covers the context is no window. */
  const bq_config c = llama();
  o = (bq_session_options){.kv_window = TRAINED, .sinks = 4};
  CHECK_EQ(bq_session_options_resolve(&c, &o, &out, NULL), BQ_OK);
  CHECK_EQ(out.kv_window, 0);
  CHECK_EQ(out.sinks, 0);
  const bq_config learned = tiny_learned(llama()); /* learned positions */
  o = (bq_session_options){.kv_window = 300, .sinks = 4};
  CHECK_EQ(bq_session_options_resolve(&learned, &o, &out, NULL), BQ_OK);
  CHECK_EQ(out.kv_window, 300);
}

int main(void) {
  for (uint32_t i = 0; i < CONTEXT; i++) prompt[i] = (i * 7919 + i * i % 13) % 60;
  RUN(test_against_a_plain_reference);
  RUN(test_bits_do_not_depend_on_batches);
  RUN(test_abandoned_runs);
  RUN(test_sessions_in_one_batch);
  RUN(test_forks_and_saved_sessions);
  RUN(test_memory_does_not_grow);
  RUN(test_refused_options);
  return check_summary();
}
