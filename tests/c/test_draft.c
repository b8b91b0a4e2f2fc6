/* Draft tokens: with any draft tokens, and any calls between drafting and their check, each token
 * has the same logits as without drafts. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 320, VOCAB = 61, ROWS = 6 };

static bq_config llama(void) { return tiny_llama(VOCAB, CONTEXT); }
static bq_config learned(void) { return tiny_learned(llama()); }
static bq_config encoder(void) { return tiny_encoder(llama()); }

/* Recurrent states cannot be truncated: after a wrong draft token, positions are computed again
 * from the beginning of the batch. */
static bq_config convolving(void) { return tiny_convolving(llama()); }
static bq_config delta(void) { return tiny_delta(llama()); }
static bq_config mamba(void) { return tiny_mamba(llama(), false); }
static bq_config mamba_beside(void) { return tiny_mamba(llama(), true); }
static bq_config layered(void) { return tiny_layered(llama(), 5); }

/* The window is shorter than the drafts. */
static bq_config windowed(void) { return tiny_windowed(llama(), 3); }

static uint32_t token(uint32_t at) { return (at * 37 + at / 7 * 5 + 11) % VOCAB; }

/* Sets the sequence to the first n of these tokens. */
static void sync_to(bq_session *s, uint32_t n) {
  uint32_t ids[CONTEXT];
  for (uint32_t t = 0; t < n; t++) ids[t] = token(t);
  CHECK_EQ(bq_session_sync(s, ids, n, NULL, NULL), BQ_OK);
}

/* Runs a session in calls of `work_units` work units; 0: in one call. */
static void run(bq_session *s, size_t work_units) {
  bq_status status;
  while ((status = bq_session_run(s, work_units, NULL)) == BQ_MORE) continue;
  CHECK_EQ(status, BQ_OK);
}

/* Drafts the n tokens after the first `at`; those from number `wrong` on are wrong. Returns the
 * number of draft tokens that the session has accepted. */
static size_t draft(bq_session *s, uint32_t at, uint32_t n, uint32_t wrong) {
  uint32_t ids[CONTEXT];
  size_t taken = 99;
  for (uint32_t i = 0; i < n; i++) ids[i] = (token(at + i) + (i >= wrong ? 1 : 0)) % VOCAB;
  CHECK_EQ(bq_session_draft(s, ids, n, &taken, NULL), BQ_OK);
  return taken;
}

static void check_same(const bq_session *s, const bq_session *plain) {
  const float *actual = bq_session_logits(s), *expected = bq_session_logits(plain);
  if (CHECK(actual && expected)) CHECK_MEM(actual, expected, VOCAB * sizeof *actual);
  CHECK_EQ(bq_session_stats_get(s).tokens, bq_session_stats_get(plain).tokens);
  CHECK_EQ(bq_session_stats_get(s).computed, bq_session_stats_get(plain).computed);
}

typedef struct twins {
  tiny_model t;
  bq_session *s, *plain; /* only `s` gets draft tokens */
} twins;

static void open_twins(twins *w, bq_config config, bq_type type, bq_session_options o) {
  tiny_create(&w->t, config, type, bq_kernels_best(), true);
  w->plain = tiny_session(&w->t, o);
  o.rows = ROWS;
  w->s = tiny_session(&w->t, o);
}

static void close_twins(twins *w) {
  bq_session_free(w->s);
  bq_session_free(w->plain);
  tiny_free(&w->t);
}

static void prompt(twins *w, uint32_t n) {
  sync_to(w->s, n);
  sync_to(w->plain, n);
  run(w->s, 0);
  run(w->plain, 0);
}

/* Appends the token after the first `at` to both. */
static void append(twins *w, uint32_t at) {
  CHECK_EQ(bq_session_append(w->s, token(at), NULL), BQ_OK);
  CHECK_EQ(bq_session_append(w->plain, token(at), NULL), BQ_OK);
}

/* Drafts of every length, wrong from every place on. */
static void check_drafts(bq_config config, bq_type type, bq_session_options o, size_t work_units) {
  twins w;
  open_twins(&w, config, type, o);
  uint32_t at = 9;
  prompt(&w, at);
  for (uint32_t n = 0; n < ROWS; n++)
    for (uint32_t wrong = 0; wrong <= n; wrong++) {
      append(&w, at++);
      CHECK_EQ(draft(w.s, at, n, wrong), n);
      run(w.s, work_units);
      run(w.plain, 0);
      check_same(w.s, w.plain);
      const uint64_t before = bq_session_stats_get(w.s).work_units;
      for (uint32_t i = 0; i < wrong; i++) { /* Right draft tokens are computed already. */
        append(&w, at++);
        run(w.s, work_units);
        run(w.plain, 0);
        check_same(w.s, w.plain);
      }
      CHECK_EQ(bq_session_stats_get(w.s).work_units, before);
    }
  close_twins(&w);
}

static void test_logits_are_those_without_drafts(void) {
  for (size_t work_units = 0; work_units < 3; work_units++) {
    check_drafts(llama(), BQ_TYPE_BQ4_32, (bq_session_options){0}, work_units);
    check_drafts(windowed(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8}, work_units);
    check_drafts(convolving(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8},
                 work_units);
    check_drafts(delta(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8}, work_units);
    check_drafts(mamba(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8}, work_units);
    check_drafts(mamba_beside(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8},
                 work_units);
    check_drafts(layered(), BQ_TYPE_BQ8_32, (bq_session_options){.prefill_window = 8}, work_units);
    check_drafts(learned(), BQ_TYPE_F32, (bq_session_options){.batch = 2}, work_units);
  }
}

static void test_with_every_cache_type(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++) {
    bq_session_options o = {.kv_type = kv};
    check_drafts(windowed(), BQ_TYPE_BQ4H_32, o, 0);
    o.activations = BQ_ACTIVATIONS_I16;
    check_drafts(llama(), BQ_TYPE_BQ4H_32, o, 1);
  }
}

/* Calls between drafting and the end of the run. */
static void test_other_calls_after_drafting(void) {
  enum { SYNC, SHORTER, RESULTS, DRAFT, FORK, SAVE, KEY, RUN_WITH, CHANGES };
  for (int change = 0; change < CHANGES; change++)
    for (size_t work_units = 0; work_units < 3; work_units++) { /* 0: the run is complete */
      twins w;
      open_twins(&w, windowed(), BQ_TYPE_BQ4_32,
                 (bq_session_options){.forks = 1, .prefill_window = 16});
      uint8_t id[BQ_FILE_ID_BYTES] = {7};
      memcpy(w.t.model.file_id, id, sizeof id);
      prompt(&w, 20);
      append(&w, 20);
      CHECK_EQ(draft(w.s, 21, 4, 3), 4);
      if (work_units)
        CHECK_EQ(bq_session_run(w.s, work_units, NULL), BQ_MORE);
      else run(w.s, 0);
      bq_session *other = NULL;
      uint32_t n = 21;
      if (change == SYNC) sync_to(w.s, 21);
      if (change == SHORTER) sync_to(w.s, n = 17), sync_to(w.plain, 17);
      if (change == RESULTS) CHECK_EQ(bq_session_request_outputs(w.s, 19, NULL), BQ_OK);
      if (change == DRAFT) draft(w.s, 21, 2, 0);
      if (change == KEY) bq_session_set_key(w.s, 5), bq_session_set_key(w.plain, 5);
      if (change == FORK) CHECK_EQ(bq_session_fork(w.s, &other, NULL), BQ_OK);
      if (change == SAVE) {
        run(w.s, 0);
        run(w.plain, 0);
        static uint8_t saved[1 << 20], expected[1 << 20];
        const size_t bytes = (size_t)bq_session_state_bytes(w.s);
        CHECK_EQ(bytes, bq_session_state_bytes(w.plain));
        CHECK_EQ(bq_session_save(w.s, 0, saved, bytes, NULL), BQ_OK);
        CHECK_EQ(bq_session_save(w.plain, 0, expected, bytes, NULL), BQ_OK);
        CHECK_MEM(saved, expected, bytes);
        while (bq_session_restore(w.s, saved, bytes, NULL) == BQ_MORE)
          if (bq_session_restore(w.s, saved, 0, NULL) == BQ_OK) break;
      }
      if (change == RUN_WITH) {
        other = tiny_session(&w.t, (bq_session_options){.prefill_window = 16});
        sync_to(other, 3);
        CHECK_EQ(bq_session_append(w.s, token(n), NULL), BQ_OK);
        CHECK_EQ(bq_session_append(w.plain, token(n++), NULL), BQ_OK);
        if (bq_session_logits(w.s) == NULL)
          CHECK_EQ(bq_session_run_with(w.s, &other, 1, 0, NULL), BQ_OK);
      }
      for (; n < 27; n++) {
        run(w.s, work_units);
        run(w.plain, 0);
        check_same(w.s, w.plain);
        if (other && change == FORK) {
          run(other, 0);
          check_same(other, w.plain);
          CHECK_EQ(bq_session_append(other, token(n), NULL), BQ_OK);
        }
        append(&w, n);
        draft(w.s, n + 1, 3, n % 4);
      }
      bq_session_free(other);
      close_twins(&w);
    }
}

/* A draft ends at the end of the context, and of the cache block in which the sequence ends. */
static void test_drafts_end_with_the_block(void) {
  twins w;
  open_twins(&w, llama(), BQ_TYPE_BQ4_32, (bq_session_options){0});
  CHECK_EQ(draft(w.s, 0, 3, 3), 0); /* there is no token yet */
  prompt(&w, 10);
  CHECK_EQ(draft(w.s, 10, 3, 3), 0); /* All tokens are computed. */
  append(&w, 10);
  CHECK_EQ(draft(w.s, 11, 40, 40), ROWS - 1);
  CHECK_EQ(draft(w.plain, 11, 1, 1), 0);
  prompt(&w, BQ_KV_BLOCK - 3);
  append(&w, BQ_KV_BLOCK - 3);
  CHECK_EQ(draft(w.s, BQ_KV_BLOCK - 2, 5, 5), 2);
  prompt(&w, BQ_KV_BLOCK - 1);
  append(&w, BQ_KV_BLOCK - 1);
  CHECK_EQ(draft(w.s, BQ_KV_BLOCK, 5, 5), 0);
  prompt(&w, CONTEXT - 3);
  append(&w, CONTEXT - 3);
  CHECK_EQ(draft(w.s, CONTEXT - 2, 5, 5), 2);
  for (uint32_t at = CONTEXT - 2;; at++) {
    run(w.s, 0);
    run(w.plain, 0);
    check_same(w.s, w.plain);
    if (at == CONTEXT) break;
    append(&w, at);
  }
  CHECK_EQ(bq_session_append(w.s, 1, NULL), BQ_CONTEXT_FULL);
  close_twins(&w);
}

static void test_sessions_without_drafts(void) {
  tiny_model t;
  size_t taken = 99;
  const uint32_t bad[] = {1, VOCAB};
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), true);
  bq_session *s = tiny_session(&t, (bq_session_options){.rows = ROWS, .hidden = true});
  sync_to(s, 5);
  CHECK_EQ(draft(s, 5, 2, 2), 0);
  bq_session_free(s);
  s = tiny_session(&t, (bq_session_options){.rows = ROWS});
  sync_to(s, 5);
  CHECK_EQ(bq_session_draft(s, bad, 2, &taken, NULL), BQ_ARGUMENT);
  CHECK_EQ(taken, 99);
  CHECK_EQ(bq_session_request_outputs(s, 2, NULL), BQ_OK);
  CHECK_EQ(draft(s, 5, 2, 2), 0);
  const uint32_t length = 3;
  CHECK_EQ(bq_session_texts(s, bad, &length, 0, BQ_POOL_MEAN, true, &taken, NULL), BQ_ARGUMENT);
  const uint32_t text[] = {1, 2, 3};
  CHECK_EQ(bq_session_texts(s, text, &length, 1, BQ_POOL_MEAN, true, &taken, NULL), BQ_OK);
  CHECK_EQ(bq_session_draft(s, bad, 1, &taken, NULL), BQ_STATE);
  bq_session_free(s);
  tiny_free(&t);
  tiny_create(&t, encoder(), BQ_TYPE_F32, bq_kernels_best(), true);
  s = tiny_session(&t, (bq_session_options){.rows = ROWS});
  sync_to(s, 5);
  CHECK_EQ(draft(s, 5, 2, 2), 0);
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  RUN(test_logits_are_those_without_drafts);
  RUN(test_with_every_cache_type);
  RUN(test_other_calls_after_drafting);
  RUN(test_drafts_end_with_the_block);
  RUN(test_sessions_without_drafts);
  return check_summary();
}
