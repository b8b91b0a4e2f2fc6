/* Helpers for tests of sessions: sessions in memory that is filled with NaN, logits computed step
 * by step, saved sessions. */
#ifndef SEQUENCES_H
#define SEQUENCES_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_model.h"

/* Memory that is filled with NaN, so that reads of unwritten floats change results. */
static inline void *filled_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  void *p = tiny_aligned(bytes);
  memset(p, 0xff, bytes);
  return p;
}
static inline void filled_free(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static inline bq_session *session_in(const tiny_model *t, bq_session_options o,
                                     bq_allocator allocator) {
  bq_session *s = NULL;
  if (!CHECK_EQ(bq_session_create(&t->model, &o, allocator, &s, NULL), BQ_OK)) abort();
  return s;
}
static inline bq_session *filled_session(const tiny_model *t, bq_session_options o) {
  return session_in(t, o, (bq_allocator){NULL, filled_alloc, filled_free});
}

static inline size_t sync_to(bq_session *s, const uint32_t *tokens, size_t n) {
  size_t kept = 0;
  CHECK_EQ(bq_session_sync(s, tokens, n, &kept, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  return kept;
}

static inline void append(bq_session *s, uint32_t token) {
  CHECK_EQ(bq_session_append(s, token, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
}

static inline void check_logits(const bq_session *s, const float *expected) {
  const float *actual = bq_session_logits(s);
  if (CHECK(actual != NULL)) CHECK_MEM(actual, expected, s->model->config.vocab * sizeof *expected);
}

typedef struct saved_state {
  uint8_t *bytes; /* from malloc; freed by the test */
  size_t n;
} saved_state;

/* Saves a session in parts of `part` bytes. */
static inline saved_state save_state(const bq_session *s, size_t part) {
  saved_state saved = {NULL, (size_t)bq_session_state_bytes(s)};
  saved.bytes = malloc(saved.n);
  for (size_t at = 0; at < saved.n; at += part) {
    const size_t n = saved.n - at < part ? saved.n - at : part;
    CHECK_EQ(bq_session_save(s, at, saved.bytes + at, n, NULL), BQ_OK);
  }
  return saved;
}

/* Restores a session in parts of `part` bytes. */
static inline bq_status restore_state(bq_session *s, const saved_state *saved, size_t part,
                                      bq_error *err) {
  bq_status status = BQ_MORE;
  for (size_t at = 0; at < saved->n && status == BQ_MORE; at += part)
    status =
        bq_session_restore(s, saved->bytes + at, saved->n - at < part ? saved->n - at : part, err);
  return status;
}

/* Computes the logits after each of n tokens, one token at a time: want[n][vocab]. */
static inline void step_by_step(const tiny_model *t, bq_session_options o, const uint32_t *tokens,
                                uint32_t n, float *expected) {
  const size_t vocab = t->model.config.vocab;
  o.prefill_window = 1;
  bq_session *s = filled_session(t, o);
  for (uint32_t i = 0; i < n; i++) {
    if (i) append(s, tokens[i]);
    else sync_to(s, tokens, 1);
    memcpy(expected + i * vocab, bq_session_logits(s), vocab * sizeof *expected);
  }
  bq_session_free(s);
}

#endif
