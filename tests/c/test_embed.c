/* One vector of a whole sequence: pooled of the hidden states that a run gives one by one, the same
 * bits however the text is cut, whatever the session held before. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 48, VOCAB = 61, HIDDEN = 36, TEXT = 33 };

static uint32_t text[TEXT];
static size_t most_taken; /* of texts, by a pass */

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

static void run(bq_session *s, size_t slices) {
  bq_status status;
  while ((status = bq_session_run(s, slices, NULL)) == BQ_MORE) {}
  CHECK_EQ(status, BQ_OK);
}

static void embed(bq_session *s, const uint32_t *ids, size_t n, bq_pooling how, bool normalize,
                  float out[HIDDEN]) {
  CHECK_EQ(bq_session_sync(s, ids, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_pool(s, how, normalize, NULL), BQ_OK);
  run(s, 1);
  const float *vector = bq_session_vector(s, 0);
  if (!CHECK(vector != NULL)) return;
  memcpy(out, vector, HIDDEN * sizeof *out);
}

/* states[TEXT][HIDDEN] of the text, one by one. */
static void hidden_states(const tiny_model *t, float *states) {
  bq_session *s = tiny_session(t, (bq_session_options){.rows = TEXT, .hidden = true});
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_results(s, 0, NULL), BQ_OK);
  run(s, 0);
  CHECK(bq_session_vector(s, 0) == NULL);
  for (uint32_t i = 0; i < TEXT; i++)
    memcpy(states + i * HIDDEN, bq_session_result(s, i), HIDDEN * sizeof *states);
  bq_session_free(s);
}

static void check_near(const float *got, const double *wanted) {
  for (int k = 0; k < HIDDEN; k++) CHECK(fabs(got[k] - wanted[k]) < 1e-5);
}

static void check_pooling(bq_config config) {
  static float states[TEXT * HIDDEN], got[HIDDEN];
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), true);
  hidden_states(&t, states);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_CLS, false, got);
  CHECK_MEM(got, states, sizeof got);
  embed(s, text, TEXT, BQ_POOL_LAST, false, got);
  CHECK_MEM(got, states + (TEXT - 1) * HIDDEN, sizeof got);
  double mean[HIDDEN] = {0}, length = 0;
  for (int i = 0; i < TEXT * HIDDEN; i++) mean[i % HIDDEN] += states[i] / TEXT;
  embed(s, text, TEXT, BQ_POOL_MEAN, false, got);
  check_near(got, mean);
  for (int k = 0; k < HIDDEN; k++) length += mean[k] * mean[k];
  for (int k = 0; k < HIDDEN; k++) mean[k] /= sqrt(length);
  embed(s, text, TEXT, BQ_POOL_MEAN, true, got);
  check_near(got, mean);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_pooling_is_of_the_states(void) {
  check_pooling(decoder());
  check_pooling(encoder());
}

static void test_a_vector_of_zeros_stays_one(void) {
  static float zeros[HIDDEN], got[HIDDEN];
  tiny_model t;
  tiny_create(&t, decoder(), BQ_TYPE_F32, bq_kernels_best(), true);
  t.model.ln_f_w = zeros;
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  embed(s, text, TEXT, BQ_POOL_MEAN, true, got);
  for (int k = 0; k < HIDDEN; k++) CHECK(got[k] == 0.0f);
  bq_session_free(s);
  tiny_free(&t);
}

static void check_bits(bq_config config, bq_type type, bq_kv_type kv) {
  static float wanted[2][HIDDEN], got[HIDDEN];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  for (int how = BQ_POOL_MEAN; how <= BQ_POOL_LAST; how++) {
    bq_session *alone = tiny_session(&t, (bq_session_options){.kv_type = kv});
    embed(alone, text, TEXT, (bq_pooling)how, true, wanted[0]);
    embed(alone, text + 3, 5, (bq_pooling)how, true, wanted[1]);
    for (uint32_t window = 1; window <= 40; window += 6) {
      bq_session *s = tiny_session(
          &t, (bq_session_options){.prefill_window = window, .batch = window / 2, .kv_type = kv});
      for (int round = 0; round < 2; round++) { /* after each other, and what is kept of both */
        embed(s, text, TEXT, (bq_pooling)how, true, got);
        CHECK_MEM(got, wanted[0], sizeof got);
        embed(s, text + 3, 5, (bq_pooling)how, true, got);
        CHECK_MEM(got, wanted[1], sizeof got);
      }
      bq_session_free(s);
    }
    bq_session_free(alone);
  }
  tiny_free(&t);
}

static void test_the_same_bits_however_cut(void) {
  check_bits(decoder(), BQ_TYPE_BQ4_32, BQ_KV_I8);
  check_bits(decoder(), BQ_TYPE_F32, BQ_KV_F32);
  check_bits(encoder(), BQ_TYPE_BQ8_32, BQ_KV_F32);
  check_bits(encoder(), BQ_TYPE_F32, BQ_KV_I8);
  check_bits(encoder(), BQ_TYPE_F32, BQ_KV_I4);
}

/* Texts of one pass don't know of each other. */
static void check_together(bq_config config, bq_kv_type kv) {
  enum { N = 4 };
  static const uint32_t first[N] = {0, 20, 3, 11}, length[N] = {9, 1, 16, 22};
  static float alone[N][HIDDEN];
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_BQ8_32, bq_kernels_best(), true);
  bq_session *s[N], *one = tiny_session(&t, (bq_session_options){.kv_type = kv});
  for (int how = BQ_POOL_MEAN; how <= BQ_POOL_LAST; how++) {
    for (int i = 0; i < N; i++) {
      embed(one, text + first[i], length[i], (bq_pooling)how, true, alone[i]);
      s[i] = tiny_session(&t, (bq_session_options){.kv_type = kv});
      CHECK_EQ(bq_session_sync(s[i], text + first[i], length[i], NULL, NULL), BQ_OK);
      if (i < N - 1) CHECK_EQ(bq_session_pool(s[i], (bq_pooling)how, true, NULL), BQ_OK);
    }
    CHECK_EQ(bq_session_run_with(s[0], s + 1, N - 1, 0, NULL),
             BQ_ARGUMENT); /* the last is to have a result */
    CHECK_EQ(bq_session_pool(s[N - 1], (bq_pooling)how, true, NULL), BQ_OK);
    bq_status status;
    while ((status = bq_session_run_with(s[0], s + 1, N - 1, 1, NULL)) == BQ_MORE) {}
    CHECK_EQ(status, BQ_OK);
    for (int i = 0; i < N; i++) {
      if (CHECK(bq_session_vector(s[i], 0) != NULL))
        CHECK_MEM(bq_session_vector(s[i], 0), alone[i], sizeof alone[i]);
      bq_session_free(s[i]);
    }
  }
  bq_session_free(one);
  tiny_free(&t);
}

static void test_texts_of_one_pass(void) {
  check_together(decoder(), BQ_KV_I8);
  check_together(encoder(), BQ_KV_F32);
  check_together(encoder(), BQ_KV_I4);
}

/* Several texts in one pass of one session: any of them, in any order, have the bits they have
 * alone. */
static void check_texts(bq_config config, bq_type type, bq_session_options o, size_t slices) {
  enum { N = 7 };
  static const uint32_t length[N] = {9, 1, 16, 22, 33, 5, 3};
  static float alone[N][HIDDEN];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  bq_session *s = tiny_session(&t, o),
             *one = tiny_session(&t, (bq_session_options){.kv_type = o.kv_type});
  for (int how = BQ_POOL_MEAN; how <= BQ_POOL_LAST; how++) {
    for (int i = 0; i < N; i++)
      embed(one, text + TEXT - length[i], length[i], (bq_pooling)how, true, alone[i]);
    for (int begin = 0; begin < N; begin++)
      for (int i = begin; i < N;) {
        uint32_t ids[N * TEXT], lengths[N];
        size_t total = 0, taken = 0;
        for (int k = i; k < N; k++) {
          lengths[k - i] = length[k];
          memcpy(ids + total, text + TEXT - length[k], length[k] * sizeof *ids);
          total += length[k];
        }
        CHECK_EQ(
            bq_session_texts(s, ids, lengths, (size_t)(N - i), (bq_pooling)how, true, &taken, NULL),
            BQ_OK);
        if (!CHECK(taken >= 1 && taken <= (size_t)(N - i))) return;
        CHECK(bq_session_vector(s, 0) == NULL);
        run(s, slices);
        for (size_t k = 0; k < taken; k++)
          if (CHECK(bq_session_vector(s, k) != NULL))
            CHECK_MEM(bq_session_vector(s, k), alone[i + (int)k], sizeof alone[0]);
        CHECK(bq_session_vector(s, taken) == NULL);
        most_taken = taken > most_taken ? taken : most_taken;
        i += (int)taken;
      }
  }
  bq_session_free(one);
  bq_session_free(s);
  tiny_free(&t);
}

static bq_config roomy(bq_config c) {
  c.context = 600;
  return c;
}

/* Two kinds of layers, one with a window; distances instead of rotations. */
static bq_config windowed(void) {
  bq_config c = decoder();
  c.window = 5;
  c.global_every = 2;
  c.local_theta = 500;
  return roomy(c);
}

static bq_config sloped(void) {
  bq_config c = decoder();
  c.position = BQ_POSITION_ALIBI;
  return roomy(c);
}

/* Encoders that see some tokens on both sides, by distance, and whose first layer norms nothing. */
static bq_config sighted(void) {
  bq_config c = encoder();
  c.window = 5;
  c.global_every = 2;
  return roomy(c);
}

static bq_config distant(void) {
  bq_config c = encoder();
  c.position = BQ_POSITION_ALIBI;
  c.bias_buckets = BQ_BIAS_BUCKETS;
  return roomy(c);
}

static bq_config unnormed(void) {
  bq_config c = encoder();
  c.norm_place = BQ_NORM_PRE;
  c.first_unnormed = true;
  return roomy(c);
}

static void test_several_texts_of_a_session(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++)
    for (uint32_t window = 16; window <= 600; window += 292) {
      if (SANITIZED && window != 16 + 292 * ((uint32_t)kv % 3)) continue;
      const bq_session_options o = {.prefill_window = window, .batch = window / 3, .kv_type = kv};
      most_taken = 0;
      check_texts(roomy(decoder()), BQ_TYPE_BQ4_32, o, 1);
      check_texts(windowed(), BQ_TYPE_F32, o, 0);
      check_texts(roomy(tiny_convolving(decoder())), BQ_TYPE_BQ8_32, o, 0);
      check_texts(roomy(tiny_delta(decoder())), BQ_TYPE_BQ8_32, o, 1);
      check_texts(roomy(tiny_mamba(decoder(), false)), BQ_TYPE_BQ8_32, o, 1);
      check_texts(roomy(tiny_mamba(decoder(), true)), BQ_TYPE_BQ8_32, o, 0);
      check_texts(sloped(), BQ_TYPE_BQ8_32, o, 2);
      CHECK(window < 300 || most_taken == 7);
      check_texts(sighted(), BQ_TYPE_F32, o, 1);
      check_texts(distant(), BQ_TYPE_BQ8_32, o, 0);
      check_texts(unnormed(), BQ_TYPE_F32, o, 1);
      check_texts(roomy(encoder()), BQ_TYPE_BQ8_32, o, 1);
    }
  most_taken = 0;
  check_texts(roomy(encoder()), BQ_TYPE_F32, (bq_session_options){0}, 0);
  CHECK(most_taken > 2);
}

/* --- dense layers behind the pooling, and second parts of texts ---------------------------------
 */

enum { DENSE1 = 23, DENSE2 = 53, PARTS = 6 };

/* A vector of the first `n` ids, whose tokens from `second` on are of the second type. */
static void embed_pair(bq_session *s, size_t n, uint32_t second, bq_pooling how, float *out) {
  const uint32_t length = (uint32_t)n;
  size_t taken;
  CHECK_EQ(bq_session_texts(s, text, &length, 1, how, true, &taken, NULL), BQ_OK);
  CHECK_EQ(bq_session_second(s, &second, 1, NULL), BQ_OK);
  run(s, 1);
  const float *vector = bq_session_vector(s, 0);
  if (CHECK(vector != NULL)) memcpy(out, vector, DENSE2 * sizeof *out);
}

/* Texts of one pass have the bits that they have alone, and a long one's don't depend on chunks. */
static void check_pairs(bq_config config, bq_type type, bq_pooling how) {
  static const uint32_t length[PARTS] = {9, 1, 16, 22, 33, 5}, second[PARTS] = {4, 0, 15, 1, 20, 0};
  static float alone[PARTS][DENSE2], chunked[DENSE2];
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  bq_session *one = tiny_session(&t, (bq_session_options){0}),
             *small = tiny_session(&t, (bq_session_options){.prefill_window = 16, .batch = 5});
  for (int i = 0; i < PARTS; i++) {
    embed_pair(one, length[i], second[i], how, alone[i]);
    embed_pair(small, length[i], second[i], how, chunked);
    CHECK_MEM(chunked, alone[i], sizeof chunked);
  }
  uint32_t ids[PARTS * TEXT];
  for (int i = 0; i < PARTS;) {
    size_t total = 0, taken = 0;
    for (int k = i; k < PARTS; total += length[k++])
      memcpy(ids + total, text, length[k] * sizeof *ids);
    CHECK_EQ(bq_session_texts(one, ids, length + i, (size_t)(PARTS - i), how, true, &taken, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_second(one, second + i, taken + 1, NULL), BQ_STATE);
    CHECK_EQ(bq_session_second(one, second + i, taken, NULL), BQ_OK);
    run(one, 0);
    for (size_t k = 0; k < taken; k++)
      CHECK_MEM(bq_session_vector(one, k), alone[i + (int)k], sizeof alone[0]);
    i += (int)taken;
  }
  /* What was computed with a second part is no vector of the text without. */
  embed_pair(one, TEXT, config.token_types > 1 ? 0 : 9, how, chunked);
  CHECK((memcmp(chunked, alone[4], sizeof chunked) != 0) == (config.token_types > 1));
  bq_session_free(small);
  bq_session_free(one);
  tiny_free(&t);
}

static bq_config dense(bq_config c, uint32_t dense1, bq_dense_activation activation) {
  c.dense1 = dense1;
  c.dense2 = DENSE2;
  c.dense_activation = activation;
  return roomy(c);
}

static void test_dense_layers_and_second_parts(void) {
  for (int a = BQ_DENSE_LINEAR; a <= BQ_DENSE_RELU; a++)
    for (int how = BQ_POOL_MEAN; how <= BQ_POOL_LAST; how++) {
      const bq_type type = a % 2 ? BQ_TYPE_BQ8_32 : BQ_TYPE_F32;
      check_pairs(dense(encoder(), DENSE1, (bq_dense_activation)a), type, (bq_pooling)how);
      check_pairs(dense(decoder(), a ? DENSE1 : 0, (bq_dense_activation)a), type, (bq_pooling)how);
    }
}

/* A classifier's logits are asked for by BQ_POOL_LABELS; its vectors are those before them. */
static void test_labels(void) {
  static float plain[HIDDEN], vector[HIDDEN], logits[DENSE2], expected[DENSE2];
  bq_config c = dense(encoder(), 0, BQ_DENSE_LINEAR);
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
  size_t taken;
  const uint32_t length = TEXT;
  CHECK_EQ(bq_session_texts(s, text, &length, 1, BQ_POOL_LABELS, true, &taken, NULL),
           BQ_ARGUMENT);
  bq_session_free(s);
  tiny_free(&t);
}

/* Texts that were asked for are forgotten by whatever comes next; what is wrong is refused. */
static void test_texts_amid_other_work(void) {
  float logits[VOCAB];
  tiny_model t;
  tiny_create(&t, decoder(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = tiny_session(&t, (bq_session_options){.forks = 1}), *fork;
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  run(s, 0);
  memcpy(logits, bq_session_logits(s), sizeof logits);
  const uint32_t lengths[] = {5, 6}, none[] = {3, 0}, strange[] = {VOCAB},
                 long_one[] = {CONTEXT + 1};
  static const uint32_t zeros[CONTEXT + 1];
  size_t taken;
  for (int change = 0; change < 4; change++) {
    CHECK_EQ(bq_session_texts(s, text, lengths, 2, BQ_POOL_MEAN, true, &taken, NULL), BQ_OK);
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
  CHECK_EQ(bq_session_texts(s, text, lengths, 0, BQ_POOL_MEAN, true, &taken, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_texts(s, text, lengths, 2, BQ_POOL_NONE, true, &taken, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_texts(s, zeros, long_one, 1, BQ_POOL_MEAN, true, &taken, NULL),
           BQ_CONTEXT_FULL);
  CHECK(bq_session_logits(s) != NULL); /* nothing has changed */
  CHECK_EQ(bq_session_texts(s, text, none, 2, BQ_POOL_MEAN, true, &taken, NULL), BQ_ARGUMENT);
  const uint32_t one[] = {1};
  CHECK_EQ(bq_session_texts(s, strange, one, 1, BQ_POOL_MEAN, true, &taken, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_STATE);
  bq_session_free(s);
  tiny_free(&t);
}

/* A session that writes may embed in between. */
static void test_between_tokens(void) {
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
  CHECK(bq_session_logits(s) == NULL && bq_session_result(s, TEXT - 1) == NULL);
  CHECK_EQ(bq_session_sample(s, NULL, NULL, &token, NULL), BQ_STATE);
  const uint64_t slices = bq_session_stats_get(s).work_units;
  embed(s, text, TEXT, BQ_POOL_MEAN, true, vector); /* it is there */
  CHECK_EQ(bq_session_stats_get(s).work_units, slices);
  CHECK_EQ(bq_session_results(s, TEXT - 1, NULL), BQ_OK);
  CHECK(bq_session_vector(s, 0) == NULL);
  run(s, 0);
  CHECK_MEM(bq_session_logits(s), logits, sizeof logits);
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < TEXT; i++) text[i] = i * i * 7 % VOCAB;
  RUN(test_pooling_is_of_the_states);
  RUN(test_a_vector_of_zeros_stays_one);
  RUN(test_the_same_bits_however_cut);
  RUN(test_texts_of_one_pass);
  RUN(test_several_texts_of_a_session);
  RUN(test_texts_amid_other_work);
  RUN(test_dense_layers_and_second_parts);
  RUN(test_labels);
  RUN(test_between_tokens);
  return check_summary();
}
