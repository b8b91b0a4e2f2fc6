/* Skipped layers: the bits are those of a model without these layers, for any batches and
 * threads. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 64, VOCAB = 61, PROMPT = 40 };

static uint32_t prompt[CONTEXT];

/* Skips the layers whose bits are set in `set`. */
static void skip(bq_session *s, uint32_t set) {
  uint32_t list[4], n = 0;
  for (uint32_t i = 0; i < 4; i++)
    if (set >> i & 1) list[n++] = i;
  CHECK_EQ(bq_session_skip(s, list, n, NULL), BQ_OK);
}

static void sync_to(bq_session *s, uint32_t n, uint64_t expected_reused) {
  size_t reused = 0;
  CHECK_EQ(bq_session_sync(s, prompt, n, &reused, NULL), BQ_OK);
  CHECK_EQ(reused, expected_reused);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
}

static void check_equal(const bq_session *s, const bq_session *expected) {
  const float *actual = bq_session_logits(s);
  if (CHECK(actual != NULL)) CHECK_MEM(actual, bq_session_logits(expected), VOCAB * sizeof *actual);
}

static void run_serially(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  (void)ctx;
  for (size_t i = 0; i < 3; i++) fn(arg, i, 3);
}

/* Skips the layers in `set` of a model with 4 layers. */
static void check_skipped(uint32_t set) {
  tiny_model t, without;
  bq_config c = tiny_llama(VOCAB, CONTEXT);
  c.layers = 4;
  tiny_create(&t, c, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  tiny_create(&without, c, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  uint32_t n_layers = 0;
  for (uint32_t i = 0; i < 4; i++)
    if (!(set >> i & 1)) {
      without.layers[n_layers] = t.layers[i];
      without.layers[n_layers].kv = n_layers; /* the index of the KV cache of this layer */
      n_layers++;
    }
  without.model.config.layers = n_layers;
  without.model.ready = BQ_READY_ALL(n_layers);
  bq_session *expected = tiny_session(&without, (bq_session_options){0});
  sync_to(expected, PROMPT, 0);
  static const bq_session_options cuts[] = {
      {0}, {.prefill_window = 9, .batch = 4}, {.parallel = {.run = run_serially, .threads = 3}}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    bq_session_options o = cuts[i];
    o.forks = 1;
    bq_session *s = tiny_session(&t, o), *fork = NULL;
    sync_to(s, PROMPT, 0);
    skip(s, set);
    CHECK(bq_session_logits(s) == NULL);
    sync_to(s, PROMPT, 0); /* The cache of the previous layers is discarded. */
    check_equal(s, expected);
    skip(s, set);
    sync_to(s, PROMPT, PROMPT);
    sync_to(s, PROMPT - 1, PROMPT - 2);
    CHECK_EQ(bq_session_fork(s, &fork, NULL), BQ_OK);
    sync_to(fork, PROMPT, PROMPT - 1);
    check_equal(fork, expected);
    bq_session_free(fork);
    bq_session_free(s);
  }
  bq_session_free(expected);
  tiny_free(&t);
  tiny_free(&without);
}

static void test_bits_without_skipped_layers(void) {
  check_skipped(1 << 1);
  check_skipped(1 << 0);
  check_skipped(1 << 3 | 1 << 2);
  check_skipped(1 << 0 | 1 << 2);
}

static void test_other_layers_need_another_cache(void) {
  tiny_model t;
  bq_error err = {0};
  tiny_create(&t, tiny_llama(VOCAB, CONTEXT), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t.model.file_id[0] = 1;
  bq_session *a = tiny_session(&t, (bq_session_options){.rows = 2});
  bq_session *b = tiny_session(&t, (bq_session_options){.rows = 2});
  skip(a, 2);
  sync_to(a, PROMPT, 0);
  sync_to(b, PROMPT, 0);
  const size_t n = (size_t)bq_session_state_bytes(a);
  uint8_t *saved = malloc(n);
  CHECK_EQ(bq_session_save(a, 0, saved, n, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(a, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(b, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &b, 1, 0, &err), BQ_ARGUMENT);
  CHECK(strstr(err.detail, "skips other layers") != NULL);
  CHECK_EQ(bq_session_restore(b, saved, n, &err), BQ_MISMATCH);
  CHECK(strstr(err.detail, "another key") != NULL);
  skip(b, 2);
  sync_to(b, PROMPT, 0);
  uint8_t *saved_again = malloc(n); /* without the layer that is skipped now */
  CHECK_EQ(bq_session_save(b, 0, saved_again, n, NULL), BQ_OK);
  CHECK_MEM(saved_again, saved, n);
  free(saved_again);
  CHECK_EQ(bq_session_restore(b, saved, n, &err), BQ_OK);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  CHECK_EQ(bq_session_append(b, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run_with(a, &b, 1, 0, &err), BQ_OK);
  check_equal(a, b);
  CHECK_EQ(bq_session_skip(a, (uint32_t[]){0, 3}, 2, &err),
           BQ_ARGUMENT); /* The model has three layers. */
  CHECK(strstr(err.detail, "no layer 3 to be left out, the model has 3") != NULL);
  check_equal(a, b);
  free(saved);
  bq_session_free(a);
  bq_session_free(b);
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < CONTEXT; i++) prompt[i] = i * 17 % VOCAB;
  RUN(test_bits_without_skipped_layers);
  RUN(test_other_layers_need_another_cache);
  return check_summary();
}
