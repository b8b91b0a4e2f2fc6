/* Several sessions in one batch: each has the same bits as alone, for any contents of the others,
 * any number of work units per call, and any change of a session during the run. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 64, VOCAB = 61, SESSIONS = 4, WINDOW = 48, ROWS = 8 };

static bq_config llama(void) { return tiny_llama(VOCAB, CONTEXT); }
static bq_config learned(void) { return tiny_learned(llama()); }
static bq_config encoder(void) { return tiny_encoder(llama()); }

/* With a window, a softcap and a scale. */
static bq_config windowed(void) {
  bq_config c = tiny_windowed(llama(), 5);
  c.logit_softcap = 4;
  c.residual_scale = 0.5f;
  return c;
}

static bq_config convolving(void) { return tiny_convolving(llama()); }
static bq_config delta(void) { return tiny_delta(llama()); }
static bq_config mamba(void) { return tiny_mamba(llama(), false); }
static bq_config mamba_and_attention(void) {
  return tiny_mamba(llama(), true);
}
static bq_config layered(void) { return tiny_layered(llama(), 5); }
static bq_config sub_normed(void) { return tiny_sub_normed(llama()); }
static bq_config sinking(void) { return tiny_sinking(llama(), 5); }
static bq_config layered_encoder(void) { return tiny_layered_encoder(llama(), 5); }

static uint32_t test_token(size_t session, size_t at) {
  return (uint32_t)((at * 37 + session * 11 + 5) % VOCAB);
}

/* Sets the sequence of session `i` to n tokens. */
static void sync_to(bq_session *s, size_t i, uint32_t n) {
  uint32_t tokens[CONTEXT];
  for (uint32_t t = 0; t < n; t++) tokens[t] = test_token(i, t);
  CHECK_EQ(bq_session_sync(s, tokens, n, NULL, NULL), BQ_OK);
}

/* Computes the logits of the last `results` positions of session `i` with n tokens, alone. */
static void compute_alone(const tiny_model *t, bq_session_options o, size_t i, uint32_t n,
                          uint32_t results, float *out) {
  bq_session *s = tiny_session(t, o);
  sync_to(s, i, n);
  CHECK_EQ(bq_session_request_outputs(s, n - results, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  for (uint32_t r = 0; r < results; r++)
    memcpy(out + r * VOCAB, bq_session_output(s, n - results + r), VOCAB * sizeof *out);
  bq_session_free(s);
}

static void check_alone(const bq_session *s, const tiny_model *t, bq_session_options o, size_t i,
                        uint32_t n, uint32_t results) {
  float expected[ROWS * VOCAB];
  compute_alone(t, o, i, n, results, expected);
  for (uint32_t r = 0; r < results; r++) {
    const float *actual = bq_session_output(s, n - results + r);
    if (CHECK(actual != NULL)) CHECK_MEM(actual, expected + r * VOCAB, VOCAB * sizeof *actual);
  }
}

typedef struct session_batch {
  tiny_model t;
  bq_session_options o;
  bq_session *s[SESSIONS];
} session_batch;

static void create_batch(session_batch *g, bq_config config, bq_type type, bq_session_options o) {
  tiny_create(&g->t, config, type, bq_kernels_best(), true);
  g->o = o;
  for (size_t i = 0; i < SESSIONS; i++) g->s[i] = tiny_session(&g->t, o);
}

static void free_batch(session_batch *g) {
  for (size_t i = 0; i < SESSIONS; i++) bq_session_free(g->s[i]);
  tiny_free(&g->t);
}

static bq_status run(session_batch *g, size_t work_units) {
  return bq_session_run_with(g->s[0], g->s + 1, SESSIONS - 1, work_units, NULL);
}

static void run_all(session_batch *g, size_t work_units) {
  bq_status status;
  while ((status = run(g, work_units)) == BQ_MORE) continue;
  CHECK_EQ(status, BQ_OK);
}

/* Prompts of several lengths with several outputs, then steps of one token each. */
static void check_batch(bq_config config, bq_type type, bq_session_options o, size_t work_units) {
  static const uint32_t prompts[SESSIONS] = {9, 1, 14, 5}, results[SESSIONS] = {2, 1, 3, 1};
  session_batch g;
  create_batch(&g, config, type, o);
  for (size_t i = 0; i < SESSIONS; i++) {
    sync_to(g.s[i], i, prompts[i]);
    CHECK_EQ(bq_session_request_outputs(g.s[i], prompts[i] - results[i], NULL), BQ_OK);
  }
  run_all(&g, work_units);
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, o, i, prompts[i], results[i]);
  for (uint32_t step = 0; step < 3 && !config.bidirectional; step++) {
    for (size_t i = 0; i < SESSIONS; i++)
      CHECK_EQ(bq_session_append(g.s[i], test_token(i, prompts[i] + step), NULL), BQ_OK);
    run_all(&g, work_units);
    for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, o, i, prompts[i] + step + 1, 1);
  }
  free_batch(&g);
}

static void test_each_session_has_the_same_bits_as_alone(void) {
  for (size_t work_units = 0; work_units < 3; work_units++) {
    const bq_session_options o = {.prefill_window = WINDOW, .rows = ROWS};
    check_batch(llama(), BQ_TYPE_BQ4_32, o, work_units);
    check_batch(windowed(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(convolving(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(delta(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(mamba(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(mamba_and_attention(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(layered(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(layered_encoder(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(sub_normed(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(sinking(), BQ_TYPE_BQ8_32, o, work_units);
    check_batch(learned(), BQ_TYPE_F32, o, work_units);
    check_batch(encoder(), BQ_TYPE_F32, o, work_units);
  }
}

static void test_any_cache_and_batch_size(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++)
    for (uint32_t batch = 1; batch <= 33; batch += 8) {
      bq_session_options o = {
          .prefill_window = WINDOW, .rows = ROWS, .batch = batch, .kv_type = kv};
      check_batch(llama(), BQ_TYPE_BQ4H_32, o, 0);
      o.activations = BQ_ACTIVATIONS_I16;
      check_batch(llama(), BQ_TYPE_BQ4H_32, o, 0);
    }
}

/* Weights are read once for all sessions: a step of four sessions counts the same bytes as a step
 * of one. */
static void test_weights_are_counted_once(void) {
  session_batch g;
  create_batch(&g, llama(), BQ_TYPE_BQ4_32,
               (bq_session_options){.prefill_window = WINDOW, .rows = ROWS});
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 1);
  run_all(&g, 0);
  bq_session *single_session = tiny_session(&g.t, g.o);
  sync_to(single_session, 0, 1);
  CHECK_EQ(bq_session_run(single_session, 0, NULL), BQ_OK);
  const bq_work single_work = bq_session_stats_get(single_session).work,
                batch_work = bq_session_stats_get(g.s[0]).work;
  const uint64_t row = bq_session_work(single_session, BQ_STAGE_EMBED, 0, 0, 1).weight_bytes;
  CHECK_EQ(batch_work.weight_bytes, single_work.weight_bytes + (SESSIONS - 1) * row);
  CHECK_EQ(batch_work.macs, SESSIONS * single_work.macs);
  for (size_t i = 1; i < SESSIONS; i++) CHECK_EQ(bq_session_stats_get(g.s[i]).work.weight_bytes, 0);
  bq_session_free(single_session);
  free_batch(&g);
}

/* Sessions without new tokens do not change. */
static void test_idle_sessions_are_unchanged(void) {
  session_batch g;
  create_batch(&g, llama(), BQ_TYPE_BQ4_32,
               (bq_session_options){.prefill_window = WINDOW, .rows = ROWS});
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 4);
  run_all(&g, 0);
  bq_session_append(g.s[0], test_token(0, 4), NULL);
  bq_session_append(g.s[2], test_token(2, 4), NULL);
  run_all(&g, 0);
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, i % 2 ? 4 : 5, 1);
  free_batch(&g);
}

static void replace_session(session_batch *g, size_t i, uint32_t n) {
  bq_session_free(g->s[i]);
  g->s[i] = tiny_session(&g->t, g->o);
  sync_to(g->s[i], i, n);
}

/* During a run, a session gets another sequence or a token more, is run alone, or freed. */
static void test_changes_during_a_run(void) {
  const bq_session_options options = {.prefill_window = WINDOW, .rows = ROWS};
  enum { SYNC, APPEND, ALONE, FIRST_ALONE, FREE, FIRST_FREE, CHANGES };
  for (int change = 0; change < CHANGES; change++)
    for (size_t work_units = 1; work_units < 4; work_units++) {
      session_batch g;
      create_batch(&g, windowed(), BQ_TYPE_BQ4_32, options);
      uint32_t n[SESSIONS] = {7, 6, 3, 9};
      for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, n[i]);
      CHECK_EQ(run(&g, work_units), BQ_MORE);
      if (change == SYNC) sync_to(g.s[2], 2, n[2] = 2);
      if (change == APPEND) bq_session_append(g.s[1], test_token(1, n[1]++), NULL);
      if (change == ALONE) CHECK_EQ(bq_session_run(g.s[3], 0, NULL), BQ_OK);
      if (change == FIRST_ALONE) CHECK_EQ(bq_session_run(g.s[0], 1, NULL), BQ_MORE);
      if (change == FREE) replace_session(&g, 1, n[1]);
      if (change == FIRST_FREE) replace_session(&g, 0, n[0]);
      run_all(&g, work_units);
      for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, n[i], 1);
      free_batch(&g);
    }
}

/* Forks share blocks of the cache up to the point of the fork, and are computed in one batch. */
static void test_forks_of_one_batch(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  const bq_session_options o = {.prefill_window = WINDOW, .rows = ROWS, .forks = 2};
  bq_session *s[3] = {tiny_session(&t, o)};
  sync_to(s[0], 0, 20);
  CHECK_EQ(bq_session_run(s[0], 0, NULL), BQ_OK);
  for (size_t i = 1; i < 3; i++) CHECK_EQ(bq_session_fork(s[0], &s[i], NULL), BQ_OK);
  uint32_t tokens[CONTEXT];
  for (uint32_t at = 0; at < 20; at++) tokens[at] = test_token(0, at);
  for (uint32_t step = 0; step < 4; step++) {
    for (size_t i = 0; i < 3; i++)
      CHECK_EQ(bq_session_append(s[i], test_token(i + 7, step), NULL), BQ_OK);
    CHECK_EQ(bq_session_run_with(s[0], s + 1, 2, 0, NULL), BQ_OK);
  }
  for (size_t i = 0; i < 3; i++) {
    bq_session *single_session = tiny_session(&t, o);
    for (uint32_t step = 0; step < 4; step++) tokens[20 + step] = test_token(i + 7, step);
    CHECK_EQ(bq_session_sync(single_session, tokens, 24, NULL, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(single_session, 0, NULL), BQ_OK);
    CHECK_MEM(bq_session_logits(s[i]), bq_session_logits(single_session), VOCAB * sizeof(float));
    bq_session_free(single_session);
  }
  for (size_t i = 0; i < 3; i++) bq_session_free(s[i]);
  tiny_free(&t);
}

static void test_refused_batches(void) {
  session_batch g;
  create_batch(&g, llama(), BQ_TYPE_F32, (bq_session_options){.prefill_window = 20, .rows = 4});
  bq_error err;
  CHECK_EQ(run(&g, 0), BQ_STATE); /* without tokens */
  for (size_t i = 0; i < SESSIONS; i++) sync_to(g.s[i], i, 6);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* 24 tokens */
  sync_to(g.s[1], 1, 2);
  CHECK_EQ(bq_session_request_outputs(g.s[2], 4, NULL), BQ_OK);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* 5 outputs */
  CHECK_EQ(bq_session_request_outputs(g.s[2], 5, NULL), BQ_OK);
  bq_session *duplicate[] = {g.s[1], g.s[1]}, *itself[] = {g.s[0]};
  CHECK_EQ(bq_session_run_with(g.s[0], duplicate, 2, 0, &err), BQ_ARGUMENT);
  CHECK_EQ(bq_session_run_with(g.s[0], itself, 1, 0, &err), BQ_ARGUMENT);
  static const bq_session_options options[] = {{.kv_type = BQ_KV_I8},
                                               {.activations = BQ_ACTIVATIONS_I16}};
  for (size_t i = 0; i < 2; i++) {
    bq_session *other = tiny_session(&g.t, options[i]);
    sync_to(other, 0, 1);
    CHECK_EQ(bq_session_run_with(g.s[0], &other, 1, 0, &err), BQ_ARGUMENT);
    CHECK(strstr(err.detail, "session 0") != NULL);
    bq_session_free(other);
  }
  CHECK_EQ(run(&g, 0), BQ_OK);
  CHECK_EQ(run(&g, 0), BQ_ARGUMENT); /* The first session has nothing to run. */
  for (size_t i = 0; i < SESSIONS; i++) check_alone(g.s[i], &g.t, g.o, i, i == 1 ? 2 : 6, 1);
  free_batch(&g);
}

int main(void) {
  RUN(test_each_session_has_the_same_bits_as_alone);
  RUN(test_any_cache_and_batch_size);
  RUN(test_weights_are_counted_once);
  RUN(test_idle_sessions_are_unchanged);
  RUN(test_changes_during_a_run);
  RUN(test_forks_of_one_batch);
  RUN(test_refused_batches);
  return check_summary();
}
