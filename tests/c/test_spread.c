/* Tensor parallelism: products whose rows are computed by other hosts have the same bits as on one
 * host, for any model, batch and number of hosts, and work of a discarded run is ignored. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 64, VOCAB = 61, N = 21, DECODED = 3, WINDOW = 16, BATCH = 8 };

static bq_config llama(void) { return tiny_llama(VOCAB, CONTEXT); }

/* Computes a part of a product from copies, like a host that does not share memory. */
static void compute_part(const bq_kernels *k, bq_spread work) {
  uint8_t *panel = tiny_aligned(work.panel_bytes);
  float *scratch = tiny_aligned(bq_spread_scratch(&work) * sizeof *scratch);
  memcpy(panel, work.panel, work.panel_bytes);
  work.panel = panel;
  float *y[BQ_SPREAD_MAX];
  const bq_spread original = work;
  void *weights[BQ_SPREAD_MAX];
  for (uint32_t i = 0; i < work.n; i++) {
    weights[i] = tiny_aligned(work.list[i].bytes);
    memcpy(weights[i], original.list[i].weights, work.list[i].bytes);
    y[i] = tiny_aligned((size_t)work.tokens * work.list[i].rows * sizeof *y[i]);
    work.list[i].weights = weights[i];
    work.list[i].y = y[i];
    work.list[i].stride = work.list[i].rows;
  }
  bq_spread_multiply(k, &work, scratch);
  for (uint32_t i = 0; i < work.n; i++) {
    const size_t rows = work.list[i].rows;
    for (uint32_t t = 0; t < work.tokens; t++)
      memcpy(original.list[i].y + t * original.list[i].stride, y[i] + t * rows,
             rows * sizeof *y[i]);
    free(weights[i]);
    free(y[i]);
  }
  free(scratch);
  free(panel);
}

/* Runs the session with this number of hosts; returns the number of products they computed. */
static uint32_t run(bq_session *s, uint32_t hosts, size_t work_units) {
  bq_spread work;
  uint32_t n_requests = 0;
  for (bq_status status; (status = bq_session_run(s, work_units, NULL)) != BQ_OK;) {
    if (status == BQ_MORE) continue;
    if (!CHECK_EQ(status, BQ_WANT_DATA)) break;
    for (uint32_t i = hosts; i-- > 0;)
      if (CHECK(bq_session_spread(s, i, hosts, &work))) compute_part(s->model->kernels, work);
    bq_session_spread_done(s);
    n_requests++;
  }
  CHECK(!bq_session_spread(s, 0, 1, &work));
  return n_requests;
}

static uint32_t test_token(uint32_t at) {
  return (at * 37 + 5) % VOCAB;
}

/* Computes the logits of a prompt and of each token after it. Returns the number of products that
 * hosts computed. */
static uint32_t decode(const tiny_model *t, bq_session_options o, uint32_t hosts, size_t work_units,
                       float *logits) {
  uint32_t tokens[N], n_requests = 0;
  bq_session *s = tiny_session(t, o);
  for (uint32_t i = 0; i < N; i++) tokens[i] = test_token(i);
  CHECK_EQ(bq_session_sync(s, tokens, N, NULL, NULL), BQ_OK);
  for (uint32_t i = 0; i < DECODED; i++) {
    if (i > 0) CHECK_EQ(bq_session_append(s, test_token(N + i), NULL), BQ_OK);
    n_requests += run(s, hosts, work_units);
    const float *actual = bq_session_logits(s);
    if (CHECK(actual != NULL)) memcpy(logits + i * VOCAB, actual, VOCAB * sizeof *logits);
  }
  bq_session_free(s);
  return n_requests;
}

static void check_model(bq_config config, bq_type type, bq_activations activations) {
  float expected[DECODED * VOCAB], actual[DECODED * VOCAB];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  bq_session_options o = {.prefill_window = WINDOW, .batch = BATCH, .activations = activations};
  CHECK_EQ(decode(&t, o, 1, 0, expected), 0);
  for (o.spread = 1; o.spread <= BATCH; o.spread += BATCH - 1)
    for (uint32_t hosts = 1; hosts <= 4; hosts++) {
      memset(actual, 0, sizeof actual);
      const uint32_t n_requests = decode(&t, o, hosts, hosts % 3, actual);
      CHECK_MEM(actual, expected, sizeof actual);
      CHECK(bq_type_is_float(type) == (n_requests == 0));
    }
  tiny_free(&t);
}

static void test_bits_of_any_model(void) {
  for (bq_activations a = 0; a < BQ_ACTIVATIONS_COUNT; a++) {
    check_model(llama(), BQ_TYPE_BQ4H_32, a);
    check_model(tiny_windowed(llama(), 5), BQ_TYPE_BQ8_32, a);
    check_model(tiny_learned(llama()), BQ_TYPE_BQ4_32, a);
  }
  check_model(llama(), BQ_TYPE_F32, BQ_ACTIVATIONS_I8); /* Float products are not distributed. */
}

/* `spread` is the smallest batch that is distributed. */
static void test_small_batches_are_not_distributed(void) {
  float logits[DECODED * VOCAB];
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  const bq_session_options o = {.prefill_window = WINDOW, .batch = BATCH, .spread = BATCH};
  /* 21 tokens have two batches of 8, each with four products of three layers. */
  CHECK_EQ(decode(&t, o, 2, 0, logits), 2 * 4 * 3);
  tiny_free(&t);
}

/* A change of the sequence discards the work: results that arrive later are ignored. */
static void test_discarded_work(void) {
  uint32_t tokens[N];
  bq_spread work;
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  bq_session *s = tiny_session(&t, (bq_session_options){.prefill_window = WINDOW, .spread = 1});
  bq_session *reference = tiny_session(&t, (bq_session_options){.prefill_window = WINDOW});
  for (uint32_t i = 0; i < N; i++) tokens[i] = test_token(i);
  CHECK(!bq_session_spread(s, 0, 1, &work));
  CHECK_EQ(bq_session_sync(s, tokens, N, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_WANT_DATA);
  CHECK(bq_session_spread(s, 0, 2, &work));
  CHECK(!bq_session_spread(s, 2, 2, &work));
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_WANT_DATA); /* The hosts have not finished. */
  tokens[2] = 1;
  CHECK_EQ(bq_session_sync(s, tokens, 4, NULL, NULL), BQ_OK);
  bq_session_spread_done(s); /* There is no work any more. */
  CHECK(!bq_session_spread(s, 0, 2, &work));
  (void)run(s, 2, 0);
  CHECK_EQ(bq_session_sync(reference, tokens, 4, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(reference, 0, NULL), BQ_OK);
  CHECK_MEM(bq_session_logits(s), bq_session_logits(reference), VOCAB * sizeof(float));
  bq_session_free(reference);
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  RUN(test_bits_of_any_model);
  RUN(test_small_batches_are_not_distributed);
  RUN(test_discarded_work);
  return check_summary();
}
