/* Several sessions in one pass: each gets the bits that it gets alone, whatever the others compute,
 * however the pass is cut, and whatever happens to one of them amid it. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 64, VOCAB = 61, SESSIONS = 4, WINDOW = 48, ROWS = 8 };

static bq_config llama(void) { return tiny_llama(VOCAB, CONTEXT); }
static bq_config learned(void) { return tiny_learned(llama()); }
static bq_config encoder(void) { return tiny_encoder(llama()); }

/* With softcaps and scales, too. */
static bq_config windowed(void) {
  bq_config c = tiny_windowed(llama(), 5);
  c.logit_softcap = 4;
  c.residual_scale = 0.5f;
  return c;
}

static bq_config convolving(void) { return tiny_convolving(llama()); }
static bq_config delta(void) { return tiny_delta(llama()); }
static bq_config mamba(void) { return tiny_mamba(llama(), false); }
static bq_config mamba_beside(void) { return tiny_mamba(llama(), true); }
static bq_config layered(void) { return tiny_layered(llama(), 5); }
static bq_config sub_normed(void) { return tiny_sub_normed(llama()); }
static bq_config layered_encoder(void) { return tiny_layered_encoder(llama(), 5); }

static uint32_t token(size_t session, size_t at) {
  return (uint32_t)((at * 37 + session * 11 + 5) % VOCAB);
}

/* A sequence of n tokens of session `i`. */
static void sync_to(bq_session *s, size_t i, uint32_t n) {
  uint32_t ids[CONTEXT];
  for (uint32_t t = 0; t < n; t++) ids[t] = token(i, t);
  CHECK_EQ(bq_session_sync(s, ids, n, NULL, NULL), BQ_OK);
}

/* What session `i` with n tokens gives alone, its last `results` positions. */
static void alone(const tiny_model *t, bq_session_options o, size_t i, uint32_t n, uint32_t results,
                  float *out) {
  bq_session *s = tiny_session(t, o);
  sync_to(s, i, n);
  CHECK_EQ(bq_session_results(s, n - results, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  for (uint32_t r = 0; r < results; r++)
    memcpy(out + r * VOCAB, bq_session_result(s, n - results + r), VOCAB * sizeof *out);
  bq_session_free(s);
}

static void check_alone(const bq_session *s, const tiny_model *t, bq_session_options o, size_t i,
                        uint32_t n, uint32_t results) {
  float expected[ROWS * VOCAB];
  alone(t, o, i, n, results, expected);
  for (uint32_t r = 0; r < results; r++) {
    const float *actual = bq_session_result(s, n - results + r);
    if (CHECK(actual != NULL)) CHECK_MEM(actual, expected + r * VOCAB, VOCAB * sizeof *actual);
  }
}

typedef struct group {
  tiny_model t;
  bq_session_options o;
  bq_session *s[SESSIONS];
} group;

static void open_group(group *g, bq_config config, bq_type type, bq_session_options o) {
  tiny_create(&g->t, config, type, bq_kernels_best(), true);
  g->o = o;
  for (size_t i = 0; i < SESSIONS; i++) g->s[i] = tiny_session(&g->t, o);
}

static void close_group(group *g) {
  for (size_t i = 0; i < SESSIONS; i++) bq_session_free(g->s[i]);
  tiny_free(&g->t);
}

static bq_status run(group *g, size_t slices) {
  return bq_session_run_with(g->s[0], g->s + 1, SESSIONS - 1, slices, NULL);
}

static void run_all(group *g, size_t slices) {
  bq_status status;
  while ((status = run(g, slices)) == BQ_MORE) continue;
  CHECK_EQ(status, BQ_OK);
}

/* Prompts of several lengths with several results, then steps of a token each. */
static void check_group(bq_config config, bq_type type, bq_session_options o, size_t slices) {
  static const uint32_t prompts[SESSIONS] = {9, 1, 14, 5}, results[SESSIONS] = {2, 1, 3, 1};
  group g;
  open_group(&g, config, type, o);
  for (size_t i = 0; i < SESSIONS; i++) {
    sync_to(g.s[i], i, prompts[i]);
    CHECK_EQ(bq_session_results(g.s[i], prompts[i] - results[i], NULL), BQ_OK);
  }
  run_all(&g, slices);
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, o, i, prompts[i], results[i]);
  for (uint32_t step = 0; step < 3 && !config.bidirectional; step++) {
    for (size_t i = 0; i < SESSIONS; i++)
      CHECK_EQ(bq_session_append(g.s[i], token(i, prompts[i] + step), NULL), BQ_OK);
    run_all(&g, slices);
    for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, o, i, prompts[i] + step + 1, 1);
  }
  close_group(&g);
}

static void test_each_has_the_bits_it_has_alone(void) {
  for (size_t slices = 0; slices < 3; slices++) {
    const bq_session_options o = {.prefill_window = WINDOW, .rows = ROWS};
    check_group(llama(), BQ_TYPE_BQ4_32, o, slices);
    check_group(windowed(), BQ_TYPE_BQ8_32, o, slices);
    check_group(convolving(), BQ_TYPE_BQ8_32, o, slices);
    check_group(delta(), BQ_TYPE_BQ8_32, o, slices);
    check_group(mamba(), BQ_TYPE_BQ8_32, o, slices);
    check_group(mamba_beside(), BQ_TYPE_BQ8_32, o, slices);
    check_group(layered(), BQ_TYPE_BQ8_32, o, slices);
    check_group(layered_encoder(), BQ_TYPE_BQ8_32, o, slices);
    check_group(sub_normed(), BQ_TYPE_BQ8_32, o, slices);
    check_group(learned(), BQ_TYPE_F32, o, slices);
    check_group(encoder(), BQ_TYPE_F32, o, slices);
  }
}

static void test_with_any_cache_and_any_batch(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++)
    for (uint32_t batch = 1; batch <= 33; batch += 8) {
      bq_session_options o = {
          .prefill_window = WINDOW, .rows = ROWS, .batch = batch, .kv_type = kv};
      check_group(llama(), BQ_TYPE_BQ4H_32, o, 0);
      o.activations = BQ_ACTIVATIONS_I16;
      check_group(llama(), BQ_TYPE_BQ4H_32, o, 0);
    }
}

/* Weights are read once for all: a step of four sessions counts as many bytes of them as one. */
static void test_weights_are_counted_once(void) {
  group g;
  open_group(&g, llama(), BQ_TYPE_BQ4_32,
             (bq_session_options){.prefill_window = WINDOW, .rows = ROWS});
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 1);
  run_all(&g, 0);
  bq_session *one = tiny_session(&g.t, g.o);
  sync_to(one, 0, 1);
  CHECK_EQ(bq_session_run(one, 0, NULL), BQ_OK);
  const bq_work work = bq_session_stats_get(one).work, all = bq_session_stats_get(g.s[0]).work;
  const uint64_t row = bq_session_work(one, BQ_STAGE_EMBED, 0, 0, 1).weight_bytes;
  CHECK_EQ(all.weight_bytes, work.weight_bytes + (SESSIONS - 1) * row);
  CHECK_EQ(all.macs, SESSIONS * work.macs);
  for (size_t i = 1; i < SESSIONS; i++) CHECK_EQ(bq_session_stats_get(g.s[i]).work.weight_bytes, 0);
  bq_session_free(one);
  close_group(&g);
}

/* Who has nothing to run is left as it is. */
static void test_done_ones_are_left_out(void) {
  group g;
  open_group(&g, llama(), BQ_TYPE_BQ4_32,
             (bq_session_options){.prefill_window = WINDOW, .rows = ROWS});
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 4);
  run_all(&g, 0);
  bq_session_append(g.s[0], token(0, 4), NULL);
  bq_session_append(g.s[2], token(2, 4), NULL);
  run_all(&g, 0);
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, i % 2 ? 4 : 5, 1);
  close_group(&g);
}

static void renew(group *g, size_t i, uint32_t n) {
  bq_session_free(g->s[i]);
  g->s[i] = tiny_session(&g->t, g->o);
  sync_to(g->s[i], i, n);
}

/* Amid a pass: one is given another sequence, gets a token more, is run alone or freed. */
static void test_changes_amid_a_pass(void) {
  const bq_session_options options = {.prefill_window = WINDOW, .rows = ROWS};
  enum { SYNC, APPEND, ALONE, FIRST_ALONE, FREE, FIRST_FREE, CHANGES };
  for (int change = 0; change < CHANGES; change++)
    for (size_t slices = 1; slices < 4; slices++) {
      group g;
      open_group(&g, windowed(), BQ_TYPE_BQ4_32, options);
      uint32_t n[SESSIONS] = {7, 6, 3, 9};
      for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, n[i]);
      CHECK_EQ(run(&g, slices), BQ_MORE);
      if (change == SYNC) sync_to(g.s[2], 2, n[2] = 2);
      if (change == APPEND) bq_session_append(g.s[1], token(1, n[1]++), NULL);
      if (change == ALONE) CHECK_EQ(bq_session_run(g.s[3], 0, NULL), BQ_OK);
      if (change == FIRST_ALONE) CHECK_EQ(bq_session_run(g.s[0], 1, NULL), BQ_MORE);
      if (change == FREE) renew(&g, 1, n[1]);
      if (change == FIRST_FREE) renew(&g, 0, n[0]);
      run_all(&g, slices);
      for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, n[i], 1);
      close_group(&g);
    }
}

/* Sessions that share blocks of the cache, computed together from where they part. */
static void test_forks_together(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  const bq_session_options o = {.prefill_window = WINDOW, .rows = ROWS, .forks = 2};
  bq_session *s[3] = {tiny_session(&t, o)};
  sync_to(s[0], 0, 20);
  CHECK_EQ(bq_session_run(s[0], 0, NULL), BQ_OK);
  for (size_t i = 1; i < 3; i++) CHECK_EQ(bq_session_fork(s[0], &s[i], NULL), BQ_OK);
  uint32_t ids[CONTEXT];
  for (uint32_t at = 0; at < 20; at++) ids[at] = token(0, at);
  for (uint32_t step = 0; step < 4; step++) {
    for (size_t i = 0; i < 3; i++)
      CHECK_EQ(bq_session_append(s[i], token(i + 7, step), NULL), BQ_OK);
    CHECK_EQ(bq_session_run_with(s[0], s + 1, 2, 0, NULL), BQ_OK);
  }
  for (size_t i = 0; i < 3; i++) {
    bq_session *one = tiny_session(&t, o);
    for (uint32_t step = 0; step < 4; step++) ids[20 + step] = token(i + 7, step);
    CHECK_EQ(bq_session_sync(one, ids, 24, NULL, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(one, 0, NULL), BQ_OK);
    CHECK_MEM(bq_session_logits(s[i]), bq_session_logits(one), VOCAB * sizeof(float));
    bq_session_free(one);
  }
  for (size_t i = 0; i < 3; i++) bq_session_free(s[i]);
  tiny_free(&t);
}

static void test_what_does_not_fit_is_refused(void) {
  group g;
  open_group(&g, llama(), BQ_TYPE_F32, (bq_session_options){.prefill_window = 20, .rows = 4});
  bq_error err;
  CHECK_EQ(run(&g, 0), BQ_STATE); /* without tokens */
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 6);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* 24 tokens */
  sync_to(g.s[1], 1, 2);
  CHECK_EQ(bq_session_results(g.s[2], 4, NULL), BQ_OK);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* 5 results */
  CHECK_EQ(bq_session_results(g.s[2], 5, NULL), BQ_OK);
  bq_session *twice[] = {g.s[1], g.s[1]}, *itself[] = {g.s[0]};
  CHECK_EQ(bq_session_run_with(g.s[0], twice, 2, 0, &err), BQ_ARGUMENT);
  CHECK_EQ(bq_session_run_with(g.s[0], itself, 1, 0, &err), BQ_ARGUMENT);
  static const bq_session_options others[] = {{.kv_type = BQ_KV_I8},
                                              {.activations = BQ_ACTIVATIONS_I16}};
  for (size_t i = 0; i < 2; i++) {
    bq_session *other = tiny_session(&g.t, others[i]);
    sync_to(other, 0, 1);
    CHECK_EQ(bq_session_run_with(g.s[0], &other, 1, 0, &err), BQ_ARGUMENT);
    CHECK(strstr(err.detail, "session 0") != NULL);
    bq_session_free(other);
  }
  CHECK_EQ(run(&g, 0), BQ_OK);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* the first has nothing to run */
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, i == 1 ? 2 : 6, 1);
  close_group(&g);
}

int main(void) {
  RUN(test_each_has_the_bits_it_has_alone);
  RUN(test_with_any_cache_and_any_batch);
  RUN(test_weights_are_counted_once);
  RUN(test_done_ones_are_left_out);
  RUN(test_changes_amid_a_pass);
  RUN(test_forks_together);
  RUN(test_what_does_not_fit_is_refused);
  return check_summary();
}
