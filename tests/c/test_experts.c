/* Layers with experts: the result of a token does not depend on the other tokens of its batch or on
 * the number of threads; experts are also selected by scores that are not finite. test_families.c
 * compares the values with other programs. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_model.h"

enum { CONTEXT = 48, VOCAB = 61, TEXT = 33 };

static uint32_t text[TEXT];
static float expected[TEXT][VOCAB];

static bq_config with_experts(uint32_t experts, uint32_t used, uint32_t shared) {
  return (bq_config){.layers = 2,
                     .hidden = 40,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 10,
                     .ffn = 72,
                     .vocab = VOCAB,
                     .context = CONTEXT,
                     .gated = true,
                     .tied = true,
                     .experts = experts,
                     .experts_used = used,
                     .expert_ffn = 72,
                     .shared_ffn = shared,
                     .experts_sum = used % 2};
}

static bq_config without_gates(uint32_t experts, uint32_t used, uint32_t shared) {
  bq_config config = with_experts(experts, used, shared);
  config.gated = false;
  config.activation = BQ_GELU_ERF;
  return config;
}

static bq_config with_sigmoids(uint32_t experts, uint32_t used) {
  bq_config config = with_experts(experts, used, 0);
  config.experts_sigmoid = true;
  return config;
}

/* Runs the parts of all threads one after another, from the last to the first. */
static void run_backwards(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  const size_t threads = *(const size_t *)ctx;
  for (size_t i = threads; i-- > 0;) fn(arg, i, threads);
}

static void compute_reference(const tiny_model *t, bq_session_options o) {
  bq_session *s = tiny_session(t, o);
  for (size_t i = 0; i < TEXT; i++) {
    CHECK_EQ(i ? bq_session_append(s, text[i], NULL) : bq_session_sync(s, text, 1, NULL, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(expected[i], bq_session_logits(s), sizeof expected[i]);
  }
  bq_session_free(s);
}

static void check_prompt(const tiny_model *t, bq_session_options o, size_t work_units) {
  o.rows = TEXT;
  bq_session *s = tiny_session(t, o);
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_request_outputs(s, 0, NULL), BQ_OK);
  bq_status status;
  while ((status = bq_session_run(s, work_units, NULL)) == BQ_MORE) {
  }
  CHECK_EQ(status, BQ_OK);
  for (uint32_t i = 0; i < TEXT; i++)
    CHECK_MEM(bq_session_output(s, i), expected[i], sizeof expected[i]);
  bq_session_free(s);
}

static void check_bits(bq_config config, bq_type type, bq_session_options o) {
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), false);
  compute_reference(&t, o);
  for (o.prefill_window = 1; o.prefill_window <= 40; o.prefill_window += 6) {
    o.batch = 1 + o.prefill_window / 2;
    check_prompt(&t, o, o.prefill_window % 3);
  }
  o.prefill_window = 0;
  for (size_t threads = 1; threads <= 5; threads++) {
    o.parallel = (bq_parallel){.ctx = &threads, .run = run_backwards, .threads = threads};
    o.batch = threads % 2 ? 7 : 33;
    check_prompt(&t, o, 0);
    o.batch = 1;
    check_prompt(&t, o, 0);
  }
  tiny_free(&t);
}

static void test_bits_do_not_depend_on_batches(void) {
  check_bits(with_experts(5, 2, 0), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_bits(with_experts(5, 3, 40), BQ_TYPE_BQ8_32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_bits(with_experts(8, 8, 0), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_F16});
  check_bits(with_experts(1, 1, 24), BQ_TYPE_BQ4A_32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_bits(with_experts(40, 4, 0), BQ_TYPE_F16, (bq_session_options){.kv_type = BQ_KV_F32});
  check_bits(with_sigmoids(6, 2), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_bits(with_sigmoids(7, 3), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_bits(without_gates(5, 2, 0), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_bits(without_gates(6, 3, 40), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_bits(with_experts(5, 3, 40), BQ_TYPE_BQ4_32,
             (bq_session_options){.activations = BQ_ACTIVATIONS_I16});
}

/* Biases select experts and do not change their weights: with all experts selected, biases have no
 * effect. */
static void test_biases_only_select_experts(void) {
  static const float biases[] = {3, -3, 0.5f, 0, -1, 2};
  for (uint32_t used = 2; used <= 6; used += 4) {
    tiny_model t;
    tiny_create(&t, with_sigmoids(6, used), BQ_TYPE_F32, bq_kernels_best(), false);
    for (uint32_t i = 0; i < t.model.config.layers; i++) t.layers[i].module[BQ_ROUTER].b = NULL;
    compute_reference(&t, (bq_session_options){.kv_type = BQ_KV_F32});
    for (uint32_t i = 0; i < t.model.config.layers; i++) t.layers[i].module[BQ_ROUTER].b = biases;
    bq_session *s = tiny_session(&t, (bq_session_options){.kv_type = BQ_KV_F32});
    CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    const bool same = !memcmp(bq_session_logits(s), expected[TEXT - 1], sizeof expected[0]);
    CHECK_EQ(same, used == 6);
    bq_session_free(s);
    tiny_free(&t);
  }
}

/* A layer with a single expert computes the MLP of a model without experts, also without gates and
 * with a bias. */
static void check_one_expert(bq_config config, const float *bias) {
  tiny_model t;
  tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), false);
  for (uint32_t i = 0; i < config.layers; i++) {
    bq_weights *m = t.layers[i].module;
    m[BQ_DOWN].b = bias;
    m[BQ_EXPERT_GATE] = m[BQ_GATE], m[BQ_EXPERT_UP] = m[BQ_UP], m[BQ_EXPERT_DOWN] = m[BQ_DOWN];
  }
  compute_reference(&t, (bq_session_options){0});
  t.model.config.experts = t.model.config.experts_used = t.model.config.expert_ffn = 0;
  bq_model_program(&t.model);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  for (int i = 0; i < VOCAB; i++)
    CHECK(fabsf(bq_session_logits(s)[i] - expected[TEXT - 1][i]) < 1e-4f);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_one_expert_is_an_mlp(void) {
  float bias[40];
  for (int i = 0; i < 40; i++) bias[i] = 0.1f * (float)(i % 7 - 3);
  check_one_expert(with_experts(1, 1, 0), NULL);
  check_one_expert(with_experts(1, 1, 0), bias);
  check_one_expert(without_gates(1, 1, 0), NULL);
  check_one_expert(without_gates(1, 1, 0), bias);
}

static void test_nan_and_infinite_scores(void) {
  tiny_model t;
  static const float scores[] = {NAN, INFINITY, -INFINITY, 0};
  for (size_t i = 0; i < 2 * sizeof scores / sizeof *scores; i++) {
    const bq_config config = i % 2 ? with_sigmoids(6, 3) : with_experts(6, 3, 0);
    tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), false);
    float *router = (float *)(void *)(uintptr_t)t.layers[0].module[BQ_ROUTER].w.data;
    for (int k = 0; k < 4 * 40; k++) router[k] = scores[i / 2]; /* of 4 of the 6 experts */
    bq_session *s = tiny_session(&t, (bq_session_options){0});
    CHECK_EQ(bq_session_sync(s, text, TEXT, NULL, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    if (scores[i / 2] == 0) CHECK(!isnan(bq_session_logits(s)[0]));
    bq_session_free(s);
    tiny_free(&t);
  }
}

static void test_work_counts_used_experts(void) {
  tiny_model t;
  tiny_create(&t, with_experts(6, 2, 0), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  const bq_work token_work = bq_session_work(s, BQ_STAGE_DOWN, 0, 0, 1),
                batch_work = bq_session_work(s, BQ_STAGE_DOWN, 0, 0, 30);
  CHECK_EQ(token_work.macs, 2 * 40 * 72);
  CHECK_EQ(token_work.weight_bytes, 2 * 40 * 72 * 4);
  CHECK_EQ(batch_work.macs, 30 * 2 * 40 * 72);
  CHECK_EQ(batch_work.weight_bytes, 6 * 40 * 72 * 4); /* Each expert is read once. */
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < TEXT; i++) text[i] = i * i * 7 % VOCAB;
  RUN(test_bits_do_not_depend_on_batches);
  RUN(test_biases_only_select_experts);
  RUN(test_one_expert_is_an_mlp);
  RUN(test_nan_and_infinite_scores);
  RUN(test_work_counts_used_experts);
  return check_summary();
}
