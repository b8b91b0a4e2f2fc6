/* The clustered LM head: it has the same rows, bit for bit, in another order; a step computes the
 * logits of some clusters, which are the same with any threads and batches. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 64, VOCAB = 269, HIDDEN = 40, PROMPT = 20 };
#define FRACTION 0.3f /* two of nine clusters */

static uint32_t prompt[CONTEXT];
static uint64_t last_bytes; /* length of the last block that was allocated */

static void *allocate(void *ctx, size_t bytes) {
  last_bytes = bytes;
  return tiny_alloc(ctx, bytes);
}
static const bq_allocator allocator = {NULL, allocate, tiny_release};

static void create(tiny_model *t, bq_type type, const bq_kernels *k, bool biases) {
  bq_config c = tiny_llama(VOCAB, CONTEXT);
  c.tied = !biases;
  c.logit_softcap = biases ? 5 : 0;
  c.logit_scale = biases ? 0.5f : 0;
  tiny_create(t, c, type, k, biases);
}

static void free_model(tiny_model *t) {
  tiny_release(NULL, t->model.clusters);
  tiny_free(t);
}

static void cluster(tiny_model *t) {
  REQUIRE(bq_model_cluster(&t->model, allocator, NULL) == BQ_OK);
}

static bq_session *session(const tiny_model *t, bq_session_options o) {
  o.head = FRACTION;
  bq_session *s = tiny_session(t, o);
  bq_session_clusters(s, true);
  return s;
}

static void run(bq_session *s, uint32_t n) {
  CHECK_EQ(bq_session_sync(s, prompt, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
}

static void check_equal(const bq_session *s, const float *expected) {
  const float *actual = bq_session_logits(s);
  if (CHECK(actual != NULL)) CHECK_MEM(actual, expected, VOCAB * sizeof *actual);
}

/* Number of logits that were computed. */
static uint32_t count_logits(const float *logits) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < VOCAB; i++) n += logits[i] >= -1e30f;
  return n;
}

static void test_rows_are_those_of_the_head(void) {
  for (uint32_t type = 0; type < BQ_TYPE_COUNT; type++) {
    if (!bq_kernels_best()->matrix[type].matmul) continue;
    tiny_model t;
    create(&t, (bq_type)type, bq_kernels_best(), false);
    cluster(&t);
    const bq_clusters *c = t.model.clusters;
    CHECK_EQ(last_bytes, bq_clusters_bytes(&t.model.config, (bq_type)type));
    CHECK_EQ(c->n, 9);
    bool seen[VOCAB] = {false};
    for (uint32_t i = 0; i < VOCAB; i++) {
      float actual[HIDDEN], expected[HIDDEN];
      REQUIRE(c->token[i] < VOCAB && !seen[c->token[i]]);
      seen[c->token[i]] = true;
      c->rows.ops->row(&c->rows, i, actual);
      t.model.head.ops->row(&t.model.head, c->token[i], expected);
      CHECK_MEM(actual, expected, sizeof actual);
    }
    free_model(&t);
  }
}

/* Similar rows are in the same cluster: rows that differ along one axis are ordered along it. */
static void test_clusters_have_similar_rows(void) {
  tiny_model t;
  create(&t, BQ_TYPE_F32, bq_kernels_best(), false);
  float *rows = (float *)(uintptr_t)t.model.head.data;
  for (uint32_t i = 0; i < VOCAB; i++)
    for (uint32_t j = 0; j < HIDDEN; j++)
      rows[i * HIDDEN + j] = (float)(i * 7 % VOCAB) * (j % 2 ? 0.01f : -0.02f);
  cluster(&t);
  for (uint32_t i = 0; i < t.model.clusters->n; i++) {
    uint32_t first = VOCAB, last = 0;
    for (uint32_t j = 32 * i; j < 32 * i + 32 && j < VOCAB; j++) {
      const uint32_t place = t.model.clusters->token[j] * 7 % VOCAB;
      first = place < first ? place : first;
      last = place > last ? place : last;
    }
    CHECK(last - first < 32);
  }
  free_model(&t);
}

/* A bq_parallel that runs the parts of three threads one after the other. */
static void in_turn(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  (void)ctx;
  for (size_t i = 0; i < 3; i++) fn(arg, i, 3);
}

static void check_logits(bq_type type, bool biases, bq_activations activations) {
  tiny_model t, scalar;
  create(&t, type, bq_kernels_best(), biases);
  create(&scalar, type, bq_kernels_scalar(), biases);
  cluster(&t);
  cluster(&scalar);
  CHECK_MEM(t.model.clusters->token, scalar.model.clusters->token, VOCAB * sizeof(uint32_t));
  bq_session *all = tiny_session(&t, (bq_session_options){.activations = activations});
  run(all, PROMPT);
  const float *all_logits = bq_session_logits(all);
  bq_session *s = session(&t, (bq_session_options){.activations = activations});
  run(s, PROMPT);
  float some[VOCAB];
  memcpy(some, bq_session_logits(s), sizeof some);
  const uint32_t n = count_logits(some);
  CHECK(n == 64 || n == 45); /* The last cluster has 13 rows. */
  for (uint32_t i = 0; i < VOCAB; i++)
    if (some[i] >= -1e30f)
      CHECK_MEM(&some[i], &all_logits[i], sizeof *some);
    else CHECK(some[i] == -INFINITY);
  static const bq_session_options cuts[] = {
      {.prefill_window = 9, .batch = 4}, {.parallel = {.run = in_turn, .threads = 3}}, {.rows = 5}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    bq_session_options o = cuts[i];
    o.activations = activations;
    bq_session *other = session(i % 2 ? &t : &scalar, o);
    run(other, PROMPT);
    check_equal(other, some);
    bq_session_free(other);
  }
  bq_session_free(all);
  bq_session_free(s);
  free_model(&t);
  free_model(&scalar);
}

static void test_logits_are_exact_or_left_out(void) {
  check_logits(BQ_TYPE_BQ8_32, false, BQ_ACTIVATIONS_I16);
  check_logits(BQ_TYPE_BQ4_32, true, BQ_ACTIVATIONS_I8);
  check_logits(BQ_TYPE_F16, true, BQ_ACTIVATIONS_I8);
}

/* The most probable token is found if its cluster is among those computed. */
static void test_most_choices_are_the_same(void) {
  tiny_model t;
  create(&t, BQ_TYPE_BQ8_32, bq_kernels_best(), false);
  cluster(&t);
  bq_session *all = tiny_session(&t, (bq_session_options){0});
  bq_session *s = session(&t, (bq_session_options){0});
  uint32_t same = 0;
  for (uint32_t n = 1; n <= CONTEXT; n++) {
    uint32_t a = 0, b = 0;
    run(all, n);
    run(s, n);
    CHECK_EQ(bq_session_sample(all, NULL, NULL, &a, NULL), BQ_OK);
    CHECK_EQ(bq_session_sample(s, NULL, NULL, &b, NULL), BQ_OK);
    const bool found = bq_session_logits(s)[a] >= -1e30f;
    CHECK_EQ(a == b, found);
    same += found;
  }
  CHECK(same > CONTEXT * 3 / 10); /* Random rows are hardly similar, so the limit is low. */
  bq_session_free(all);
  bq_session_free(s);
  free_model(&t);
}

/* With draft tokens, several outputs of a run, or several sessions in a batch, each row has its own
 * clusters. */
static void test_several_rows_at_once(void) {
  tiny_model t;
  bq_error err = {0};
  create(&t, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  cluster(&t);
  float one[4][VOCAB];
  bq_session *s = session(&t, (bq_session_options){0});
  for (uint32_t i = 0; i < 4; i++) {
    run(s, PROMPT + i);
    memcpy(one[i], bq_session_logits(s), sizeof *one);
  }
  bq_session *a = session(&t, (bq_session_options){.rows = 4, .forks = 1}), *fork = NULL;
  CHECK_EQ(bq_session_sync(a, prompt, PROMPT + 3, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_request_outputs(a, PROMPT - 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK);
  for (uint32_t i = 0; i < 4; i++)
    CHECK_MEM(bq_session_output(a, PROMPT - 1 + i), one[i], sizeof *one);

  size_t drafted = 0;
  run(a, PROMPT - 1);
  CHECK_EQ(bq_session_append(a, prompt[PROMPT - 1], NULL), BQ_OK);
  CHECK_EQ(bq_session_draft(a, prompt + PROMPT, 3, &drafted, NULL), BQ_OK);
  CHECK_EQ(drafted, 3);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK);
  for (uint32_t i = 0; i < 4; i++) {
    if (i) CHECK_EQ(bq_session_append(a, prompt[PROMPT - 1 + i], NULL), BQ_OK);
    check_equal(a, one[i]);
  }
  CHECK_EQ(bq_session_fork(a, &fork, NULL), BQ_OK);
  run(a, PROMPT - 1);
  run(fork, PROMPT);
  CHECK_EQ(bq_session_append(a, prompt[PROMPT - 1], NULL), BQ_OK);
  CHECK_EQ(bq_session_append(fork, prompt[PROMPT], NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &fork, 1, 0, NULL), BQ_OK);
  check_equal(a, one[0]);
  check_equal(fork, one[1]);

  bq_session_clusters(fork, false);
  CHECK_EQ(bq_session_append(a, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(fork, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &fork, 1, 0, &err), BQ_ARGUMENT);
  CHECK(strstr(err.detail, "another share of the head") != NULL);
  bq_session_free(fork);
  bq_session_free(a);
  bq_session_free(s);
  free_model(&t);
}

static void test_clusters_can_be_turned_off(void) {
  tiny_model t;
  create(&t, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  bq_session *all = tiny_session(&t, (bq_session_options){0});
  run(all, PROMPT);
  bq_session *s = tiny_session(&t, (bq_session_options){.head = FRACTION});
  run(s, PROMPT); /* Clusters are off at first. */
  check_equal(s, bq_session_logits(all));
  cluster(&t);
  const bq_work before = bq_session_stats_get(s).work;
  bq_session_clusters(s, true);
  CHECK(bq_session_logits(s) == NULL);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  CHECK_EQ(count_logits(bq_session_logits(s)) < 65, 1);
  const bq_work some = bq_session_stats_get(s).work;
  bq_session_clusters(s, false);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  check_equal(s, bq_session_logits(all));
  const bq_work full = bq_session_stats_get(s).work;
  CHECK(some.macs - before.macs < full.macs - some.macs);
  bq_session_clusters(all, true); /* This session has no fraction, so the call has no effect. */
  CHECK(bq_session_logits(all) != NULL);
  bq_session_free(s);
  bq_session_free(all);
  free_model(&t);
}

static void *fail_to_allocate(void *ctx, size_t bytes) {
  (void)ctx, (void)bytes;
  return NULL;
}

static void test_refused_calls(void) {
  tiny_model t;
  bq_error err = {0};
  bq_session *s = NULL;
  const bq_allocator none = {NULL, fail_to_allocate, tiny_release};
  create(&t, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  const float fractions[] = {1, -0.1f, NAN};
  for (size_t i = 0; i < 3; i++) {
    const bq_session_options o = {.head = fractions[i]};
    CHECK_EQ(bq_session_create(&t.model, &o, allocator, &s, &err), BQ_ARGUMENT);
    CHECK(strstr(err.detail, "a share of the head") != NULL);
  }
  s = session(&t, (bq_session_options){0});
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_STATE);
  CHECK(strstr(err.detail, "clusters") != NULL);
  CHECK_EQ(bq_model_cluster(&t.model, none, &err), BQ_NOMEM);
  t.model.ready--;
  CHECK_EQ(bq_model_cluster(&t.model, allocator, &err), BQ_STATE);
  t.model.ready++;
  t.model.config.no_head = true;
  CHECK_EQ(bq_model_cluster(&t.model, allocator, &err), BQ_UNSUPPORTED);
  t.model.config.no_head = false;
  CHECK(t.model.clusters == NULL);
  cluster(&t);
  const bq_clusters *clusters = t.model.clusters;
  cluster(&t); /* A second call has no effect. */
  CHECK(t.model.clusters == clusters);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  bq_session_free(s);
  free_model(&t);
}

int main(void) {
  for (uint32_t i = 0; i < CONTEXT; i++) prompt[i] = i * 17 % VOCAB;
  RUN(test_rows_are_those_of_the_head);
  RUN(test_clusters_have_similar_rows);
  RUN(test_logits_are_exact_or_left_out);
  RUN(test_most_choices_are_the_same);
  RUN(test_several_rows_at_once);
  RUN(test_clusters_can_be_turned_off);
  RUN(test_refused_calls);
  return check_summary();
}
