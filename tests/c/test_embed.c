/* Embeddings: the vector of a sequence is pooled from the hidden states that a run returns one by
 * one, with the same bits for any batch size and any earlier text of the session. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 48, VOCAB = 61, HIDDEN = 36, TEXT = 33 };

static uint32_t text[TEXT];
static size_t max_texts; /* The most texts that a batch accepted. */

static bq_config decoder(void) {
  return (bq_config){.layers = 3,
                     .hidden = HIDDEN,
                     .heads = 3,
                     .ffn = 50,
                     .vocab = VOCAB,
                     .context = CONTEXT,
                     .gated = true,
                     .tied = true};
}

static bq_config encoder(void) {
  return (bq_config){.layers = 2,
                     .hidden = HIDDEN,
                     .heads = 3,
                     .ffn = 50,
                     .vocab = VOCAB,
                     .context = CONTEXT,
                     .norm = BQ_NORM_LAYER,
                     .position = BQ_POSITION_LEARNED,
                     .activation = BQ_GELU_ERF,
                     .norm_place = BQ_NORM_POST,
                     .bidirectional = true,
                     .embed_norm = true,
                     .token_types = 2,
                     .no_head = true};
}

static void run(bq_session *s, size_t work_units) {
  bq_status status;
  while ((status = bq_session_run(s, work_units, NULL)) == BQ_MORE) {
  }
  CHECK_EQ(status, BQ_OK);
}

static void embed(bq_session *s, const uint32_t *ids, size_t n, bq_pooling pooling, bool normalize,
                  float out[HIDDEN]) {
  CHECK_EQ(bq_session_sync(s, ids, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_pool(s, pooling, normalize, NULL), BQ_OK);
  run(s, 1);
  const float *vector = bq_session_vector(s, 0);
  if (!CHECK(vector != NULL)) return;
  memcpy(out, vector, HIDDEN * sizeof *out);
}

/* Computes the hidden states of the text, one by one: states[TEXT][HIDDEN]. */
static void hidden_states(const tiny_model *t, float *states) {
  bq_session *s = tiny_session(t, (bq_session_options){.rows = TEXT, .hidden = true});
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_request_outputs(s, 0, NULL), BQ_OK);
  run(s, 0);
  CHECK(bq_session_vector(s, 0) == NULL);
  for (uint32_t i = 0; i < TEXT; i++)
    memcpy(states + i * HIDDEN, bq_session_output(s, i), HIDDEN * sizeof *states);
  bq_session_free(s);
}

static void check_near(const float *vector, const double *expected) {
  for (int k = 0; k < HIDDEN; k++) CHECK(fabs(vector[k] - expected[k]) < 1e-5);
}

static void check_pooling(bq_config config) {
  static float states[TEXT * HIDDEN], vector[HIDDEN];
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), true);
  hidden_states(&t, states);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_CLS, false, vector);
  CHECK_MEM(vector, states, sizeof vector);
  embed(s, text, TEXT, BQ_POOL_LAST, false, vector);
  CHECK_MEM(vector, states + (TEXT - 1) * HIDDEN, sizeof vector);
  double mean[HIDDEN] = {0}, length = 0;
  for (int i = 0; i < TEXT * HIDDEN; i++) mean[i % HIDDEN] += states[i] / TEXT;
  embed(s, text, TEXT, BQ_POOL_MEAN, false, vector);
  check_near(vector, mean);
  for (int k = 0; k < HIDDEN; k++) length += mean[k] * mean[k];
  for (int k = 0; k < HIDDEN; k++) mean[k] /= sqrt(length);
  embed(s, text, TEXT, BQ_POOL_MEAN, true, vector);
  check_near(vector, mean);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_pooling_of_hidden_states(void) {
  check_pooling(decoder());
  check_pooling(encoder());
}

static void test_zero_vector_stays_zero(void) {
  static float zeros[HIDDEN], vector[HIDDEN];
  tiny_model t;
  tiny_create(&t, decoder(), BQ_TYPE_F32, bq_kernels_best(), true);
  t.model.ln_f_w = zeros;
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_MEAN, true, vector);
  for (int k = 0; k < HIDDEN; k++) CHECK(vector[k] == 0.0f);
  bq_session_free(s);
  tiny_free(&t);
}

static void check_bits(bq_config config, bq_type type, bq_kv_type kv) {
  static float expected[2][HIDDEN], vector[HIDDEN];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  for (int pooling = BQ_POOL_MEAN; pooling <= BQ_POOL_LAST; pooling++) {
    bq_session *alone = tiny_session(&t, (bq_session_options){.kv_type = kv});
    embed(alone, text, TEXT, (bq_pooling)pooling, true, expected[0]);
    embed(alone, text + 3, 5, (bq_pooling)pooling, true, expected[1]);
    for (uint32_t window = 1; window <= 40; window += 6) {
      bq_session *s = tiny_session(
          &t, (bq_session_options){.prefill_window = window, .batch = window / 2, .kv_type = kv});
      for (int round = 0; round < 2; round++) { /* Two texts in turn share no prefix. */
        embed(s, text, TEXT, (bq_pooling)pooling, true, vector);
        CHECK_MEM(vector, expected[0], sizeof vector);
        embed(s, text + 3, 5, (bq_pooling)pooling, true, vector);
        CHECK_MEM(vector, expected[1], sizeof vector);
      }
      bq_session_free(s);
    }
    bq_session_free(alone);
  }
  tiny_free(&t);
}

static void test_bits_do_not_depend_on_batches(void) {
  check_bits(decoder(), BQ_TYPE_BQ4_32, BQ_KV_I8);
  check_bits(decoder(), BQ_TYPE_F32, BQ_KV_F32);
  check_bits(encoder(), BQ_TYPE_BQ8_32, BQ_KV_F32);
  check_bits(encoder(), BQ_TYPE_F32, BQ_KV_I8);
  check_bits(encoder(), BQ_TYPE_F32, BQ_KV_I4);
}

/* The texts of one batch do not change each other's vectors. */
static void check_batch(bq_config config, bq_kv_type kv) {
  enum { N = 4 };
  static const uint32_t first[N] = {0, 20, 3, 11}, length[N] = {9, 1, 16, 22};
  static float alone[N][HIDDEN];
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_BQ8_32, bq_kernels_best(), true);
  bq_session *s[N], *session = tiny_session(&t, (bq_session_options){.kv_type = kv});
  for (int pooling = BQ_POOL_MEAN; pooling <= BQ_POOL_LAST; pooling++) {
    for (int i = 0; i < N; i++) {
      embed(session, text + first[i], length[i], (bq_pooling)pooling, true, alone[i]);
      s[i] = tiny_session(&t, (bq_session_options){.kv_type = kv});
      CHECK_EQ(bq_session_sync(s[i], text + first[i], length[i], NULL, NULL), BQ_OK);
      if (i < N - 1) CHECK_EQ(bq_session_pool(s[i], (bq_pooling)pooling, true, NULL), BQ_OK);
    }
    CHECK_EQ(bq_session_run_with(s[0], s + 1, N - 1, 0, NULL),
             BQ_ARGUMENT); /* The last session has to have an output. */
    CHECK_EQ(bq_session_pool(s[N - 1], (bq_pooling)pooling, true, NULL), BQ_OK);
    bq_status status;
    while ((status = bq_session_run_with(s[0], s + 1, N - 1, 1, NULL)) == BQ_MORE) {}
    CHECK_EQ(status, BQ_OK);
    for (int i = 0; i < N; i++) {
      if (CHECK(bq_session_vector(s[i], 0) != NULL))
        CHECK_MEM(bq_session_vector(s[i], 0), alone[i], sizeof alone[i]);
      bq_session_free(s[i]);
    }
  }
  bq_session_free(session);
  tiny_free(&t);
}

static void test_sessions_of_one_batch(void) {
  check_batch(decoder(), BQ_KV_I8);
  check_batch(encoder(), BQ_KV_F32);
  check_batch(encoder(), BQ_KV_I4);
}

/* Several texts in one batch of one session: each has the same bits as alone, for any first
 * text. */
static void check_texts(bq_config config, bq_type type, bq_session_options o, size_t work_units) {
  enum { N = 7 };
  static const uint32_t length[N] = {9, 1, 16, 22, 33, 5, 3};
  static float alone[N][HIDDEN];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  bq_session *s = tiny_session(&t, o),
             *session = tiny_session(&t, (bq_session_options){.kv_type = o.kv_type});
  for (int pooling = BQ_POOL_MEAN; pooling <= BQ_POOL_LAST; pooling++) {
    for (int i = 0; i < N; i++)
      embed(session, text + TEXT - length[i], length[i], (bq_pooling)pooling, true, alone[i]);
    for (int begin = 0; begin < N; begin++)
      for (int i = begin; i < N;) {
        uint32_t ids[N * TEXT], lengths[N];
        size_t total = 0, accepted = 0;
        for (int k = i; k < N; k++) {
          lengths[k - i] = length[k];
          memcpy(ids + total, text + TEXT - length[k], length[k] * sizeof *ids);
          total += length[k];
        }
        CHECK_EQ(bq_session_texts(s, ids, lengths, (size_t)(N - i), (bq_pooling)pooling, true,
                                  &accepted, NULL),
                 BQ_OK);
        if (!CHECK(accepted >= 1 && accepted <= (size_t)(N - i))) return;
        CHECK(bq_session_vector(s, 0) == NULL);
        run(s, work_units);
        for (size_t k = 0; k < accepted; k++)
          if (CHECK(bq_session_vector(s, k) != NULL))
            CHECK_MEM(bq_session_vector(s, k), alone[i + (int)k], sizeof alone[0]);
        CHECK(bq_session_vector(s, accepted) == NULL);
        max_texts = accepted > max_texts ? accepted : max_texts;
        i += (int)accepted;
      }
  }
  bq_session_free(session);
  bq_session_free(s);
  tiny_free(&t);
}

static bq_config with_long_context(bq_config c) {
  c.context = 600;
  return c;
}

/* Layers with a window and layers without. */
static bq_config windowed_decoder(void) {
  bq_config c = decoder();
  c.window = 5;
  c.global_every = 2;
  c.local_theta = 500;
  return with_long_context(c);
}

static bq_config alibi_decoder(void) {
  bq_config c = decoder();
  c.position = BQ_POSITION_ALIBI;
  return with_long_context(c);
}

/* An encoder with a window on both sides of each token. */
static bq_config windowed_encoder(void) {
  bq_config c = encoder();
  c.window = 5;
  c.global_every = 2;
  return with_long_context(c);
}

static bq_config biased_encoder(void) {
  bq_config c = encoder();
  c.position = BQ_POSITION_ALIBI;
  c.bias_buckets = BQ_BIAS_BUCKETS;
  return with_long_context(c);
}

static bq_config encoder_without_first_norm(void) {
  bq_config c = encoder();
  c.norm_place = BQ_NORM_PRE;
  c.first_unnormed = true;
  return with_long_context(c);
}

static void test_texts_of_one_batch(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++)
    for (uint32_t window = 16; window <= 600; window += 292) {
      if (SANITIZED && window != 16 + 292 * ((uint32_t)kv % 3)) continue;
      const bq_session_options o = {.prefill_window = window, .batch = window / 3, .kv_type = kv};
      max_texts = 0;
      check_texts(with_long_context(decoder()), BQ_TYPE_BQ4_32, o, 1);
      check_texts(windowed_decoder(), BQ_TYPE_F32, o, 0);
      check_texts(with_long_context(tiny_convolving(decoder())), BQ_TYPE_BQ8_32, o, 0);
      check_texts(with_long_context(tiny_delta(decoder())), BQ_TYPE_BQ8_32, o, 1);
      check_texts(with_long_context(tiny_mamba(decoder(), false)), BQ_TYPE_BQ8_32, o, 1);
      check_texts(with_long_context(tiny_mamba(decoder(), true)), BQ_TYPE_BQ8_32, o, 0);
      check_texts(alibi_decoder(), BQ_TYPE_BQ8_32, o, 2);
      CHECK(window < 300 || max_texts == 7);
      check_texts(windowed_encoder(), BQ_TYPE_F32, o, 1);
      check_texts(biased_encoder(), BQ_TYPE_BQ8_32, o, 0);
      check_texts(encoder_without_first_norm(), BQ_TYPE_F32, o, 1);
      check_texts(with_long_context(encoder()), BQ_TYPE_BQ8_32, o, 1);
    }
  max_texts = 0;
  check_texts(with_long_context(encoder()), BQ_TYPE_F32, (bq_session_options){0}, 0);
  CHECK(max_texts > 2);
}

/* --- dense layers after the pooling, and second parts of texts -------------------------------- */

enum { DENSE1 = 23, DENSE2 = 53, PARTS = 6 };

/* Computes the vector of the first `n` tokens; those from `second` on are of the second type. */
static void embed_pair(bq_session *s, size_t n, uint32_t second, bq_pooling pooling, float *out) {
  const uint32_t length = (uint32_t)n;
  size_t accepted;
  CHECK_EQ(bq_session_texts(s, text, &length, 1, pooling, true, &accepted, NULL), BQ_OK);
  CHECK_EQ(bq_session_second(s, &second, 1, NULL), BQ_OK);
  run(s, 1);
  const float *vector = bq_session_vector(s, 0);
  if (CHECK(vector != NULL)) memcpy(out, vector, DENSE2 * sizeof *out);
}

/* The texts of one batch have the same bits as alone, and those of a long text do not depend on the
 * size of the prefill window. */
static void check_pairs(bq_config config, bq_type type, bq_pooling pooling) {
  static const uint32_t length[PARTS] = {9, 1, 16, 22, 33, 5}, second[PARTS] = {4, 0, 15, 1, 20, 0};
  static float alone[PARTS][DENSE2], chunked[DENSE2];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  bq_session *session = tiny_session(&t, (bq_session_options){0}),
             *small = tiny_session(&t, (bq_session_options){.prefill_window = 16, .batch = 5});
  for (int i = 0; i < PARTS; i++) {
    embed_pair(session, length[i], second[i], pooling, alone[i]);
    embed_pair(small, length[i], second[i], pooling, chunked);
    CHECK_MEM(chunked, alone[i], sizeof chunked);
  }
  uint32_t ids[PARTS * TEXT];
  for (int i = 0; i < PARTS;) {
    size_t total = 0, accepted = 0;
    for (int k = i; k < PARTS; total += length[k++])
      memcpy(ids + total, text, length[k] * sizeof *ids);
    CHECK_EQ(bq_session_texts(session, ids, length + i, (size_t)(PARTS - i), pooling, true,
                              &accepted, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_second(session, second + i, accepted + 1, NULL), BQ_STATE);
    CHECK_EQ(bq_session_second(session, second + i, accepted, NULL), BQ_OK);
    run(session, 0);
    for (size_t k = 0; k < accepted; k++)
      CHECK_MEM(bq_session_vector(session, k), alone[i + (int)k], sizeof alone[0]);
    i += (int)accepted;
  }
  /* A vector that was computed with a second part is not reused for the text without one. */
  embed_pair(session, TEXT, config.token_types > 1 ? 0 : 9, pooling, chunked);
  CHECK((memcmp(chunked, alone[4], sizeof chunked) != 0) == (config.token_types > 1));
  bq_session_free(small);
  bq_session_free(session);
  tiny_free(&t);
}

static bq_config with_dense_layers(bq_config c, uint32_t dense1, bq_dense_activation activation) {
  c.dense1 = dense1;
  c.dense2 = DENSE2;
  c.dense_activation = activation;
  return with_long_context(c);
}

static void test_dense_layers_and_second_parts(void) {
  for (int a = BQ_DENSE_LINEAR; a <= BQ_DENSE_RELU; a++)
    for (int pooling = BQ_POOL_MEAN; pooling <= BQ_POOL_LAST; pooling++) {
      const bq_type type = a % 2 ? BQ_TYPE_BQ8_32 : BQ_TYPE_F32;
      check_pairs(with_dense_layers(encoder(), DENSE1, (bq_dense_activation)a), type,
                  (bq_pooling)pooling);
      check_pairs(with_dense_layers(decoder(), a ? DENSE1 : 0, (bq_dense_activation)a), type,
                  (bq_pooling)pooling);
    }
}

/* BQ_POOL_LABELS returns the logits of a classifier; other poolings return the vector before its
 * linear layer. */
static void test_labels(void) {
  static float plain[HIDDEN], vector[HIDDEN], logits[DENSE2], expected[DENSE2];
  bq_config c = with_dense_layers(encoder(), 0, BQ_DENSE_LINEAR);
  c.labels = true;
  c.pooling = BQ_POOL_MEAN;
  tiny_model t;
  tiny_create(&t, c, BQ_TYPE_F32, bq_kernels_best(), true);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_MEAN, false, vector);
  embed_pair(s, TEXT, 0, BQ_POOL_LABELS, logits);
  for (int i = 0; i < DENSE2; i++) {
    const float *row = (const float *)(const void *)t.model.dense2.w.data + (size_t)i * HIDDEN;
    double sum = t.model.dense2.b[i];
    for (int k = 0; k < HIDDEN; k++) sum += (double)row[k] * (double)vector[k];
    expected[i] = (float)sum;
    CHECK(fabs(expected[i] - logits[i]) < 1e-4);
  }
  bq_session_free(s);
  tiny_free(&t);
  c.dense2 = 0, c.labels = false;
  tiny_create(&t, c, BQ_TYPE_F32, bq_kernels_best(), true);
  s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_MEAN, false, plain);
  CHECK_MEM(plain, vector, sizeof plain);
  size_t accepted;
  const uint32_t length = TEXT;
  CHECK_EQ(bq_session_texts(s, text, &length, 1, BQ_POOL_LABELS, true, &accepted, NULL),
           BQ_ARGUMENT);
  bq_session_free(s);
  tiny_free(&t);
}

/* The next call to the session discards the texts of a batch; wrong arguments are refused. */
static void test_texts_between_other_calls(void) {
  float logits[VOCAB];
  tiny_model t;
  tiny_create(&t, decoder(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = tiny_session(&t, (bq_session_options){.forks = 1}), *fork;
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  run(s, 0);
  memcpy(logits, bq_session_logits(s), sizeof logits);
  const uint32_t lengths[] = {5, 6}, with_empty_text[] = {3, 0}, outside_vocabulary[] = {VOCAB},
                 beyond_context[] = {CONTEXT + 1};
  static const uint32_t zeros[CONTEXT + 1];
  size_t accepted;
  for (int change = 0; change < 4; change++) {
    CHECK_EQ(bq_session_texts(s, text, lengths, 2, BQ_POOL_MEAN, true, &accepted, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(s, 1, NULL), BQ_MORE);
    CHECK(bq_session_vector(s, 0) == NULL && bq_session_logits(s) == NULL);
    if (change == 1) run(s, 0);
    if (change == 2) {
      run(s, 0);
      CHECK_EQ(bq_session_fork(s, &fork, NULL), BQ_OK);
      CHECK(bq_session_vector(fork, 0) == NULL && bq_session_vector(s, 1) != NULL);
      CHECK_EQ(bq_session_run(fork, 0, NULL), BQ_STATE);
      bq_session_free(fork);
    }
    if (change == 3) {
      CHECK_EQ(bq_session_append(s, text[0], NULL), BQ_OK);
      run(s, 0);
      CHECK_EQ(bq_session_stats_get(s).tokens, 1);
    }
    CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
    run(s, 0);
    CHECK_MEM(bq_session_logits(s), logits, sizeof logits);
  }
  CHECK_EQ(bq_session_texts(s, text, lengths, 0, BQ_POOL_MEAN, true, &accepted, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_texts(s, text, lengths, 2, BQ_POOL_NONE, true, &accepted, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_texts(s, zeros, beyond_context, 1, BQ_POOL_MEAN, true, &accepted, NULL),
           BQ_CONTEXT_FULL);
  CHECK(bq_session_logits(s) != NULL); /* The session is unchanged. */
  CHECK_EQ(bq_session_texts(s, text, with_empty_text, 2, BQ_POOL_MEAN, true, &accepted, NULL),
           BQ_ARGUMENT);
  const uint32_t single[] = {1};
  CHECK_EQ(bq_session_texts(s, outside_vocabulary, single, 1, BQ_POOL_MEAN, true, &accepted, NULL),
           BQ_ARGUMENT);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_STATE);
  bq_session_free(s);
  tiny_free(&t);
}

/* A session can compute an embedding between two tokens of a generation. */
static void test_embedding_between_tokens(void) {
  float logits[VOCAB], vector[HIDDEN];
  tiny_model t;
  tiny_create(&t, decoder(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  CHECK_EQ(bq_session_pool(s, BQ_POOL_MEAN, true, NULL), BQ_STATE);
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  run(s, 0);
  memcpy(logits, bq_session_logits(s), sizeof logits);
  CHECK_EQ(bq_session_pool(s, BQ_POOL_NONE, true, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_pool(s, (bq_pooling)4, true, NULL), BQ_ARGUMENT);
  CHECK(bq_session_logits(s) != NULL);
  embed(s, text, TEXT, BQ_POOL_MEAN, true, vector);
  uint32_t token;
  CHECK(bq_session_logits(s) == NULL && bq_session_output(s, TEXT - 1) == NULL);
  CHECK_EQ(bq_session_sample(s, NULL, NULL, &token, NULL), BQ_STATE);
  const uint64_t work_units = bq_session_stats_get(s).work_units;
  embed(s, text, TEXT, BQ_POOL_MEAN, true, vector); /* The vector exists already. */
  CHECK_EQ(bq_session_stats_get(s).work_units, work_units);
  CHECK_EQ(bq_session_request_outputs(s, TEXT - 1, NULL), BQ_OK);
  CHECK(bq_session_vector(s, 0) == NULL);
  run(s, 0);
  CHECK_MEM(bq_session_logits(s), logits, sizeof logits);
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < TEXT; i++) text[i] = i * i * 7 % VOCAB;
  RUN(test_pooling_of_hidden_states);
  RUN(test_zero_vector_stays_zero);
  RUN(test_bits_do_not_depend_on_batches);
  RUN(test_sessions_of_one_batch);
  RUN(test_texts_of_one_batch);
  RUN(test_texts_between_other_calls);
  RUN(test_dense_layers_and_second_parts);
  RUN(test_labels);
  RUN(test_embedding_between_tokens);
  return check_summary();
}
