/* LoRA adapters: logits are those of a model with merged weights, with any number of threads and
 * work units; sessions with different adapters, or without one, use the same model alternately. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_model.h"

enum { LAYERS = 2, HIDDEN = 32, QUERY = 32, KV = 16, FFN = 48, VOCAB = 61, CONTEXT = 80, N = 70 };

static const uint8_t modules[BQ_ADAPTED_COUNT] = {BQ_Q, BQ_K, BQ_V, BQ_O, BQ_GATE, BQ_UP, BQ_DOWN};

static uint32_t prompt[N];

static void create_model(tiny_model *t, bq_type type, const bq_kernels *kernels) {
  const bq_config config = {.layers = LAYERS, .hidden = HIDDEN, .heads = 4, .kv_heads = 2,
                            .head_dim = 8, .ffn = FFN, .vocab = VOCAB, .context = CONTEXT,
                            .gated = true};
  tiny_create(t, config, type, kernels, true);
  t->model.file_id[0] = 5;
}

typedef struct adapter {
  bq_lora parts[LAYERS][BQ_ADAPTED_COUNT];
} adapter;

/* An adapter of ranks 3 to 9, without a part for K of layer 1. */
static void make_adapter(tiny_model *t, adapter *out, uint32_t seed) {
  t->random = seed;
  for (uint32_t l = 0; l < LAYERS; l++)
    for (uint32_t i = 0; i < BQ_ADAPTED_COUNT; i++) {
      const bq_matrix *w = &t->layers[l].module[modules[i]].w;
      const uint32_t rank = l == 1 && i == BQ_ADAPTED_K ? 0 : 3 + i;
      out->parts[l][i] = (bq_lora){
          tiny_vector(t, (size_t)rank * w->cols + 1, 0, 0.5f),
          tiny_vector(t, (size_t)rank * w->rows + 1, 0, 0.5f), rank, 0.25f * (float)(i + 1)};
    }
}

/* Adds the products of an adapter to f32 weights. */
static void merge(tiny_model *t, const adapter *a) {
  for (uint32_t l = 0; l < LAYERS; l++)
    for (uint32_t i = 0; i < BQ_ADAPTED_COUNT; i++) {
      const bq_matrix *w = &t->layers[l].module[modules[i]].w;
      const bq_lora *p = &a->parts[l][i];
      float *values = (float *)(void *)(uintptr_t)w->data;
      for (uint32_t r = 0; r < w->rows; r++)
        for (uint32_t c = 0; c < w->cols; c++) {
          double sum = 0;
          for (uint32_t k = 0; k < p->rank; k++)
            sum += (double)p->b[r * p->rank + k] * (double)p->a[k * w->cols + c];
          values[r * w->cols + c] += (float)(sum * (double)p->scale);
        }
    }
}

static const float *logits_of(bq_session *s, uint32_t n) {
  CHECK_EQ(bq_session_sync(s, prompt, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  return bq_session_logits(s);
}

/* The largest absolute difference. */
static float difference(const float *a, const float *b) {
  float maximum = 0;
  for (uint32_t i = 0; i < VOCAB; i++) {
    const float d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    if (d > maximum) maximum = d;
  }
  return maximum;
}

static void set_adapter(bq_session *s, const adapter *a, uint64_t key) {
  CHECK_EQ(bq_session_set_adapter(s, a ? a->parts[0] : NULL, key, NULL), BQ_OK);
}

static void test_merged_weights(void) {
  tiny_model plain, merged;
  adapter a;
  create_model(&plain, BQ_TYPE_F32, bq_kernels_best());
  create_model(&merged, BQ_TYPE_F32, bq_kernels_best());
  make_adapter(&plain, &a, 3);
  merge(&merged, &a);
  bq_session *s = tiny_session(&plain, (bq_session_options){.batch = 7, .prefill_window = 20});
  bq_session *expected = tiny_session(&merged, (bq_session_options){0});
  bq_session *without = tiny_session(&plain, (bq_session_options){0});
  set_adapter(s, &a, 1);
  for (uint32_t n = 1; n <= N; n++) {
    const float *wanted = logits_of(expected, n);
    CHECK(difference(logits_of(s, n), wanted) < 1e-4f);
    CHECK(difference(logits_of(without, n), wanted) > 1e-2f);
  }
  bq_session_free(s), bq_session_free(expected), bq_session_free(without);
  tiny_free(&plain), tiny_free(&merged);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* A bq_parallel that runs the parts of all threads one after the other. */
static void one_by_one(void *ctx, void (*fn)(void *arg, size_t thread, size_t threads), void *arg) {
  const size_t threads = *(const size_t *)ctx;
  for (size_t i = 0; i < threads; i++) fn(arg, i, threads);
}

static void check_bits(bq_type type, bq_activations activations) {
  tiny_model scalar, best;
  adapter a;
  create_model(&scalar, type, bq_kernels_scalar());
  create_model(&best, type, bq_kernels_best());
  make_adapter(&best, &a, 3);
  bq_session *s = tiny_session(&scalar, (bq_session_options){.activations = activations});
  float expected[VOCAB];
  set_adapter(s, &a, 1);
  memcpy(expected, logits_of(s, N), sizeof expected);
  bq_session_free(s);
  for (uint32_t batch = 1; batch <= 33; batch += 8)
    for (size_t threads = 1; threads <= 3; threads++) {
      s = tiny_session(&best,
                       (bq_session_options){
                           .activations = activations,
                           .batch = batch,
                           .prefill_window = 40,
                           .parallel = {.ctx = &threads, .run = one_by_one, .threads = threads}});
      set_adapter(s, &a, 1);
      logits_of(s, 13);
      CHECK_MEM(logits_of(s, N), expected, sizeof expected);
      bq_session_free(s);
    }
  tiny_free(&scalar), tiny_free(&best);
}

static void test_the_same_bits(void) {
  check_bits(BQ_TYPE_F32, BQ_ACTIVATIONS_I8);
  check_bits(BQ_TYPE_BQ4_32, BQ_ACTIVATIONS_I8);
  check_bits(BQ_TYPE_BQ4_32, BQ_ACTIVATIONS_I16);
}

/* --- sessions --------------------------------------------------------------------------------- */

static void test_sessions_with_different_adapters(void) {
  tiny_model t;
  adapter a, b;
  float of_a[VOCAB], of_b[VOCAB], of_none[VOCAB];
  create_model(&t, BQ_TYPE_BQ4_32, bq_kernels_best());
  make_adapter(&t, &a, 3);
  make_adapter(&t, &b, 4);
  bq_session *s = tiny_session(&t, (bq_session_options){0});
  bq_session *fresh = tiny_session(&t, (bq_session_options){0});
  memcpy(of_none, logits_of(fresh, N), sizeof of_none);
  set_adapter(s, &a, 1);
  memcpy(of_a, logits_of(s, N), sizeof of_a);
  size_t kept = 1;
  set_adapter(s, &b, 2);
  CHECK_EQ(bq_session_sync(s, prompt, N, &kept, NULL), BQ_OK);
  CHECK_EQ(kept, 0); /* The same tokens were computed with another adapter. */
  memcpy(of_b, logits_of(s, N), sizeof of_b);
  CHECK(difference(of_a, of_b) > 1e-2f);
  set_adapter(s, NULL, 0);
  CHECK_MEM(logits_of(s, N), of_none, sizeof of_none);
  set_adapter(s, &a, 1), set_adapter(fresh, &b, 2);
  logits_of(s, 30), logits_of(fresh, 40);
  CHECK_MEM(logits_of(s, N), of_a, sizeof of_a);
  CHECK_MEM(logits_of(fresh, N), of_b, sizeof of_b);
  bq_session *const others[] = {fresh};
  CHECK_EQ(bq_session_append(s, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(fresh, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(s, others, 1, 0, NULL), BQ_ARGUMENT);
  bq_session_free(s), bq_session_free(fresh);
  tiny_free(&t);
}

static void test_forks_and_saved_sessions(void) {
  tiny_model t;
  adapter a;
  create_model(&t, BQ_TYPE_BQ4_32, bq_kernels_best());
  make_adapter(&t, &a, 3);
  bq_session *s = tiny_session(&t, (bq_session_options){.forks = 1}), *fork = NULL;
  set_adapter(s, &a, 1);
  logits_of(s, 40);
  CHECK_EQ(bq_session_fork(s, &fork, NULL), BQ_OK);
  const float *expected = logits_of(s, N);
  size_t kept = 0;
  CHECK_EQ(bq_session_sync(fork, prompt, N, &kept, NULL), BQ_OK);
  CHECK_EQ(kept, 40);
  CHECK_MEM(logits_of(fork, N), expected, VOCAB * sizeof *expected);
  const size_t bytes = (size_t)bq_session_state_bytes(s);
  uint8_t *saved = malloc(bytes);
  CHECK_EQ(bq_session_save(s, 0, saved, bytes, NULL), BQ_OK);
  bq_session *other = tiny_session(&t, (bq_session_options){0});
  CHECK_EQ(bq_session_restore(other, saved, bytes, NULL), BQ_MISMATCH);
  set_adapter(other, &a, 1);
  CHECK_EQ(bq_session_restore(other, saved, bytes, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(other, 0, NULL), BQ_OK);
  CHECK_MEM(bq_session_logits(other), expected, VOCAB * sizeof *expected);
  free(saved);
  bq_session_free(fork), bq_session_free(s), bq_session_free(other);
  tiny_free(&t);
}

static size_t max_bytes;

/* Fails for blocks larger than max_bytes. */
static void *allocate_limited(void *ctx, size_t bytes) {
  (void)ctx;
  return bytes <= max_bytes ? tiny_aligned(bytes) : NULL;
}

static void test_refused_adapters(void) {
  tiny_model t;
  adapter a;
  bq_error err;
  bq_session *s;
  create_model(&t, BQ_TYPE_F32, bq_kernels_best());
  make_adapter(&t, &a, 3);
  max_bytes = SIZE_MAX;
  const bq_allocator limited = {NULL, allocate_limited, tiny_release};
  CHECK_EQ(bq_session_create(&t.model, NULL, limited, &s, NULL), BQ_OK);
  float expected[VOCAB];
  memcpy(expected, logits_of(s, N), sizeof expected);
  max_bytes = 100;
  CHECK_EQ(bq_session_set_adapter(s, a.parts[0], 1, &err), BQ_NO_SESSION);
  CHECK(strstr(err.detail, "needs 1920 bytes more") != NULL); /* gate and up: 32 * (7 + 8) floats */
  CHECK_MEM(bq_session_logits(s), expected, sizeof expected);
  t.model.config.gated = false;
  bq_model_program(&t.model);
  CHECK_EQ(bq_session_set_adapter(s, a.parts[0], 1, &err), BQ_SHAPE);
  CHECK(strstr(err.detail, "layer 0") != NULL);
  bq_session_free(s);
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < N; i++) prompt[i] = (i * 7 + 3) % VOCAB;
  RUN(test_merged_weights);
  RUN(test_the_same_bits);
  RUN(test_sessions_with_different_adapters);
  RUN(test_forks_and_saved_sessions);
  RUN(test_refused_adapters);
  return check_summary();
}
