/* The KV cache in blocks: forked sessions, layers with a window, and saved and restored sessions
 * compute the same bits as a new session; and the pool of blocks has the planned size. Prompts are
 * longer than two blocks. */
#include <string.h>

#include "check.h"
#include "core/hash.h"
#include "session/cache.h"
#include "session/create.h"
#include "session/options.h"
#include "session/session.h"
#include "sequences.h"
#include "tiny_model.h"

enum { CONTEXT = 700, VOCAB = 61, LONG = 600, LAYERS = 3 };

static uint32_t prompt[CONTEXT];

static bq_config llama(void) {
  return (bq_config){.layers = LAYERS, .hidden = 16, .heads = 2, .kv_heads = 2, .head_dim = 4,
                     .ffn = 16, .vocab = VOCAB, .context = CONTEXT, .gated = true, .tied = true};
}

/* Layers 0 and 2 have a window of 40 positions, layer 1 has none. */
static bq_config windowed(void) {
  bq_config c = llama();
  c.window = 40;
  c.global_every = 2;
  return c;
}

static void create_model(tiny_model *t, bq_config config) {
  tiny_create(t, config, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t->model.file_id[3] = 9;
}

static int live_blocks;

static void *allocate(void *ctx, size_t bytes) {
  live_blocks++;
  return filled_alloc(ctx, bytes);
}

static void release(void *ctx, void *ptr) {
  if (ptr) live_blocks--;
  filled_free(ctx, ptr);
}

static const bq_allocator allocator = {NULL, allocate, release};

static bq_session *new_session(const tiny_model *t, bq_session_options o) {
  return session_in(t, o, allocator);
}

static bq_session *fork_of(const bq_session *s) {
  bq_session *f = NULL;
  if (!CHECK_EQ(bq_session_fork(s, &f, NULL), BQ_OK)) abort();
  return f;
}

/* Compares the logits with those of a new session for these tokens. */
static void check_fresh(const tiny_model *t, const bq_session *s, const uint32_t *tokens,
                        size_t n) {
  bq_session *own = new_session(
      t, (bq_session_options){.kv_type = s->options.kv_type, .prefill_window = 77, .batch = 20});
  sync_to(own, tokens, n);
  const float *actual = bq_session_logits(s), *expected = bq_session_logits(own);
  if (CHECK(actual && expected)) CHECK_MEM(actual, expected, VOCAB * sizeof *expected);
  bq_session_free(own);
}

/* Number of blocks of the pool that are in use. */
static uint32_t used_blocks(const bq_session *s) {
  return s->kv.pool->classes[0].n_blocks - s->kv.pool->classes[0].n_free;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void test_blocks_follow_the_sequence(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_session *s = new_session(&t, (bq_session_options){.kv_type = BQ_KV_I8});
  CHECK_EQ(used_blocks(s), 0);
  sync_to(s, prompt, LONG);
  CHECK_EQ(used_blocks(s), 3 * LAYERS);
  check_fresh(&t, s, prompt, LONG);
  CHECK_EQ(sync_to(s, prompt, 257), 256);
  CHECK_EQ(used_blocks(s), 2 * LAYERS);
  check_fresh(&t, s, prompt, 257);
  for (uint32_t i = 257; i < 520; i++) {
    CHECK_EQ(bq_session_append(s, prompt[i], NULL), BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  }
  check_fresh(&t, s, prompt, 520);
  bq_session_free(s);
  CHECK_EQ(live_blocks, 0);
  tiny_free(&t);
}

static void test_another_key_empties_the_session(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_session *s = new_session(&t, (bq_session_options){0});
  sync_to(s, prompt, 300);
  bq_session_set_key(s, 0);
  CHECK(bq_session_logits(s) != NULL);
  bq_session_set_key(s, 7);
  CHECK(bq_session_logits(s) == NULL);
  CHECK_EQ(sync_to(s, prompt, 300), 0); /* The same tokens have another key. */
  CHECK_EQ(sync_to(s, prompt, 300), 300);
  bq_session_free(s);
  tiny_free(&t);
}

/* --- windows ---------------------------------------------------------------------------------- */

static void check_windows(bq_kv_type kv) {
  tiny_model t;
  create_model(&t, windowed());
  /* The expected logits are computed one token after the other. */
  bq_session *s = new_session(&t, (bq_session_options){.kv_type = kv, .prefill_window = 1});
  static float expected[LONG][VOCAB];
  for (uint32_t i = 0; i < LONG; i++) {
    CHECK_EQ(i ? bq_session_append(s, prompt[i], NULL) : bq_session_sync(s, prompt, 1, NULL, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(expected[i], bq_session_logits(s), sizeof expected[i]);
  }
  CHECK_EQ(used_blocks(s), 3 + 1 + 1); /* Layers with a window need only the last block. */
  CHECK_EQ(s->kv.pool->classes[0].n_blocks, 3 + 2 + 2);
  bq_session_free(s);
  static const uint32_t cuts[][2] = {{0, 0}, {300, 7}, {41, 41}, {39, 5}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (uint32_t n = LONG - 1; n > 99; n -= 250) {
      s = new_session(&t, (bq_session_options){
                              .kv_type = kv, .prefill_window = cuts[i][0], .batch = cuts[i][1]});
      sync_to(s, prompt, n);
      CHECK_MEM(bq_session_logits(s), expected[n - 1], sizeof expected[0]);
      CHECK_EQ(sync_to(s, prompt, n - 1), n - 2); /* The window is complete one position earlier. */
      CHECK_MEM(bq_session_logits(s), expected[n - 2], sizeof expected[0]);
      sync_to(s, prompt, n / 2); /* Keys evicted since then are computed again. */
      CHECK_MEM(bq_session_logits(s), expected[n / 2 - 1], sizeof expected[0]);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_windows(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) check_windows((bq_kv_type)kv);
}

/* Up to the length of the window, logits are those of the model without one; then they differ. */
static void test_windows_change_logits(void) {
  tiny_model t, all;
  create_model(&t, windowed());
  create_model(&all, llama());
  bq_session *s = new_session(&t, (bq_session_options){0});
  sync_to(s, prompt, 40);
  check_fresh(&all, s, prompt, 40);
  sync_to(s, prompt, 41);
  bq_session *own = new_session(&all, (bq_session_options){0});
  sync_to(own, prompt, 41);
  CHECK(memcmp(bq_session_logits(s), bq_session_logits(own), VOCAB * sizeof(float)) != 0);
  bq_session_free(s);
  bq_session_free(own);
  tiny_free(&t);
  tiny_free(&all);
}

/* --- forks ------------------------------------------------------------------------------------ */

static void check_fork(bq_config config, bq_kv_type kv, uint32_t at, bool parent_first) {
  tiny_model t;
  create_model(&t, config);
  uint32_t other[CONTEXT];
  memcpy(other, prompt, sizeof other);
  for (uint32_t i = at; i < CONTEXT; i++) other[i] ^= 1;
  bq_session *a = new_session(&t, (bq_session_options){.kv_type = kv, .forks = 1});
  sync_to(a, prompt, at);
  const uint32_t before = used_blocks(a);
  bq_session *b = fork_of(a);
  CHECK_EQ(used_blocks(a), before); /* No block is copied before a write. */
  CHECK_MEM(bq_session_logits(b), bq_session_logits(a), VOCAB * sizeof(float));
  for (uint32_t i = at; i < at + 5; i++) { /* Both sessions write alternately. */
    CHECK_EQ(bq_session_append(a, prompt[i], NULL), BQ_OK);
    CHECK_EQ(bq_session_append(b, other[i], NULL), BQ_OK);
    CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  }
  CHECK_EQ(used_blocks(a), before + (at % BQ_KV_BLOCK ? LAYERS : 2 * LAYERS));
  check_fresh(&t, a, prompt, at + 5);
  check_fresh(&t, b, other, at + 5);
  bq_session *last = parent_first ? b : a;
  bq_session_free(parent_first ? a : b);
  sync_to(last, parent_first ? other : prompt, CONTEXT);
  check_fresh(&t, last, parent_first ? other : prompt, CONTEXT);
  bq_session_free(last);
  CHECK_EQ(live_blocks, 0);
  tiny_free(&t);
}

static void test_forks(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    check_fork(llama(), (bq_kv_type)kv, 300, kv % 2);
    check_fork(llama(), (bq_kv_type)kv, 256, kv % 2 == 0);
  }
  check_fork(windowed(), BQ_KV_I8, 290, true);
}

/* A fork of a session whose run is not complete computes the rest itself. */
static void test_fork_during_a_run(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_session *a =
      new_session(&t, (bq_session_options){.forks = 1, .prefill_window = 128, .batch = 64});
  bq_session_sync(a, prompt, 400, NULL, NULL);
  CHECK_EQ(bq_session_run(a, 15, NULL), BQ_MORE);
  bq_session *b = fork_of(a);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK);
  check_fresh(&t, a, prompt, 400);
  check_fresh(&t, b, prompt, 400);
  bq_session_free(a);
  bq_session_free(b);
  tiny_free(&t);
}

/* Forks that were not planned use free blocks of the pool. Without a free block the call fails with
 * a hint, and computed positions stay valid. */
static void test_exhausted_pool(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_session *a = new_session(&t, (bq_session_options){0});
  sync_to(a, prompt, 300);
  bq_session *b = fork_of(a);
  bq_error err = {0};
  sync_to(b, prompt, 310); /* the third block of each layer */
  CHECK_EQ(a->kv.pool->classes[0].n_free, 0);
  CHECK_EQ(bq_session_append(a, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK); /* Its last block is no longer shared. */
  CHECK_EQ(bq_session_sync(a, prompt, 600, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(a, 0, &err), BQ_NOMEM);
  CHECK(strstr(err.detail, "raise `forks` or `forkPositions`") != NULL);
  check_fresh(&t, b, prompt, 310);
  bq_session_free(b);
  CHECK_EQ(bq_session_run(a, 0, &err), BQ_OK);
  check_fresh(&t, a, prompt, 600);
  bq_session_free(a);
  tiny_free(&t);
}

static void test_forks_are_planned(void) {
  tiny_model t;
  create_model(&t, llama());
  const bq_config *c = &t.model.config;
  uint64_t kv[3], used;
  bq_session_options o = {.context = 512, .fork_positions = 512};
  const uint64_t one = bq_session_memory(c, t.model.kernels, &o, &used);
  kv[0] = bq_kv_pool_bytes(c, &o);
  CHECK_EQ(used, LAYERS * 2 * bq_kv_bytes(BQ_KV_F32, 512, 4));
  o.forks = 2;
  const uint64_t three = bq_session_memory(c, t.model.kernels, &o, NULL);
  kv[1] = bq_kv_pool_bytes(c, &o);
  o.fork_positions = 1;
  kv[2] = bq_kv_pool_bytes(c, &o);
  const uint64_t block = 2 * bq_kv_bytes(BQ_KV_F32, BQ_KV_BLOCK, 4);
  CHECK(kv[1] - kv[0] >= 2 * 2 * LAYERS * block && kv[1] - kv[0] < 2 * 2 * LAYERS * block + 256);
  CHECK(kv[2] - kv[0] >= 2 * LAYERS * block && kv[2] - kv[0] < 2 * LAYERS * block + 256);
  /* A heap of the planned size has memory for these sessions, and not for another one. */
  uint8_t *region = tiny_aligned((size_t)three + bq_heap_overhead() + BQ_ALIGN);
  bq_heap *heap = bq_heap_create(region, (size_t)three + bq_heap_overhead());
  bq_session *s[3], *more;
  bq_error err = {0};
  CHECK(one < three);
  o.fork_positions = 0;
  REQUIRE(bq_session_create(&t.model, &o, bq_heap_allocator(heap), &s[0], &err) == BQ_OK);
  sync_to(s[0], prompt, 10);
  for (int i = 1; i < 3; i++) REQUIRE(bq_session_fork(s[0], &s[i], &err) == BQ_OK);
  CHECK_EQ(bq_session_fork(s[0], &more, &err), BQ_NO_SESSION);
  CHECK(strstr(err.detail, "raise `sessions` or `forks`") != NULL);
  for (int i = 0; i < 3; i++) {
    prompt[5] ^= 1; /* No block is shared, and each session can fill its context. */
    sync_to(s[i], prompt, 512);
    check_fresh(&t, s[i], prompt, 512);
  }
  prompt[5] ^= 1;
  for (int i = 0; i < 3; i++) bq_session_free(s[i]);
  CHECK_EQ(bq_heap_used(heap), bq_heap_overhead());
  o.forks = BQ_FORKS_MAX + 1;
  CHECK_EQ(bq_session_create(&t.model, &o, allocator, &s[0], &err), BQ_ARGUMENT);
  free(region);
  tiny_free(&t);
}

/* --- saved sessions --------------------------------------------------------------------------- */

static void check_restored(bq_config config, bq_kv_type kv, uint32_t n) {
  tiny_model t;
  create_model(&t, config);
  bq_session *a = new_session(&t, (bq_session_options){.kv_type = kv});
  sync_to(a, prompt, n + 20); /* Removed positions do not change the saved bytes. */
  sync_to(a, prompt, n);
  const saved_state saved = save_state(a, 1 << 20), in_parts = save_state(a, 777);
  CHECK_EQ(saved.n, in_parts.n);
  CHECK_MEM(saved.bytes, in_parts.bytes, saved.n);
  bq_session *b = new_session(&t, (bq_session_options){.kv_type = kv, .context = n + 1});
  sync_to(b, prompt + 1, n / 2 + 1);
  CHECK_EQ(restore_state(b, &saved, n == 300 ? 1000 : 1 << 20, NULL), BQ_OK);
  CHECK(bq_session_logits(b) == NULL);
  CHECK_EQ(bq_session_stats_get(b).computed, n - 1);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  CHECK_MEM(bq_session_logits(b), bq_session_logits(a), VOCAB * sizeof(float));
  const saved_state copy = save_state(b, 1 << 20); /* The bytes do not depend on the context. */
  CHECK_EQ(copy.n, saved.n);
  CHECK_MEM(copy.bytes, saved.bytes, saved.n);
  CHECK_EQ(bq_session_append(b, prompt[n], NULL), BQ_OK);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  check_fresh(&t, b, prompt, n + 1);
  free(copy.bytes);
  free(saved.bytes);
  free(in_parts.bytes);
  bq_session_free(a);
  bq_session_free(b);
  CHECK_EQ(live_blocks, 0);
  tiny_free(&t);
}

static void test_restored_sessions_continue(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    check_restored(llama(), (bq_kv_type)kv, 300);
    check_restored(windowed(), (bq_kv_type)kv, 513);
  }
  check_restored(llama(), BQ_KV_I8, 256);
  check_restored(llama(), BQ_KV_F32, 1);
}

/* A session saved during a prefill has the positions that are complete. */
static void test_saved_during_a_run(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_session *a = new_session(&t, (bq_session_options){.prefill_window = 100, .batch = 50});
  bq_session_sync(a, prompt, 500, NULL, NULL);
  CHECK_EQ(bq_session_run(a, 17, NULL), BQ_MORE);
  const uint64_t computed = bq_session_stats_get(a).computed;
  CHECK(computed >= 100 && computed < 300);
  const saved_state saved = save_state(a, 1 << 20);
  bq_session *b = new_session(&t, (bq_session_options){0});
  CHECK_EQ(restore_state(b, &saved, 1 << 20, NULL), BQ_OK);
  CHECK_EQ(bq_session_stats_get(b).computed, computed);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  check_fresh(&t, b, prompt, 500);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK); /* Saving does not change the session. */
  check_fresh(&t, a, prompt, 500);
  free(saved.bytes);
  bq_session_free(a);
  bq_session_free(b);
  tiny_free(&t);
}

static void check_refused(bq_session *s, saved_state saved, size_t at, uint8_t value,
                          bq_status status, const char *detail) {
  const uint8_t old = saved.bytes[at];
  bq_error err = {0};
  saved.bytes[at] = value;
  CHECK_EQ(restore_state(s, &saved, 64, &err), status);
  CHECK(strstr(err.detail, detail) != NULL);
  CHECK_EQ(bq_session_stats_get(s).tokens, 0);
  CHECK_EQ(used_blocks(s), 0);
  saved.bytes[at] = old;
}

static void test_states_that_do_not_fit_are_refused(void) {
  tiny_model t;
  create_model(&t, llama());
  bq_error err = {0};
  bq_session *s = new_session(&t, (bq_session_options){.context = 300});
  sync_to(s, prompt, 260);
  uint8_t byte;
  CHECK_EQ(bq_session_save(s, bq_session_state_bytes(s), &byte, 1, &err), BQ_ARGUMENT);
  CHECK_EQ(bq_session_save(s, UINT64_MAX, &byte, 1, &err), BQ_ARGUMENT);
  saved_state saved = save_state(s, 1 << 20);
  check_refused(s, saved, 1, 'x', BQ_FORMAT, "no saved session");
  check_refused(s, saved, 4, 2, BQ_UNSUPPORTED, "another version (layout 2");
  check_refused(s, saved, 8 + 3, 1, BQ_MISMATCH, "another model");
  check_refused(s, saved, 24, BQ_KV_I8, BQ_MISMATCH, "KV cache type 2, this one has 0");
  check_refused(s, saved, 28, 4, BQ_MISMATCH, "layers 4");
  check_refused(s, saved, 44, 9, BQ_MISMATCH, "window 9");
  check_refused(s, saved, 48, 7, BQ_MISMATCH, "rotations for sessions above 7, this one has 0");
  check_refused(s, saved, 52, 1, BQ_MISMATCH, "type of activations 1, this one has 0");
  check_refused(s, saved, 57, 2, BQ_CONTEXT_FULL, "516 tokens");
  check_refused(s, saved, 61, 2, BQ_FORMAT, "516 positions are computed of 260 tokens");
  check_refused(s, saved, 60, 5, BQ_FORMAT, "261 positions are computed of 260 tokens");
  check_refused(s, saved, 71, 1, BQ_MISMATCH, "another key");
  check_refused(s, saved, 128 + 4 * 7 + 1, 1, BQ_FORMAT, "damaged");
  saved.bytes[128 + 4 * 7 + 1] = 1; /* An invalid token with a valid hash. */
  const uint64_t hash = bq_xxh64(saved.bytes, saved.n - 8, 0);
  memcpy(saved.bytes + saved.n - 8, &hash, 8);
  CHECK_EQ(restore_state(s, &saved, 64, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "at position 7 is outside the vocabulary") != NULL);
  const saved_state some = {saved.bytes, saved.n - 1};
  CHECK_EQ(restore_state(s, &some, 1000, &err), BQ_MORE); /* The last byte is missing. */
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_STATE);
  sync_to(s, prompt, 270);
  check_fresh(&t, s, prompt, 270);
  saved.bytes = realloc(saved.bytes, saved.n + 1);
  saved.n++;
  CHECK_EQ(restore_state(s, &saved, saved.n, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "1 bytes follow") != NULL);
  sync_to(s, prompt, 20);
  memset(t.model.file_id, 0, sizeof t.model.file_id);
  CHECK_EQ(bq_session_save(s, 0, saved.bytes, 64, &err), BQ_UNSUPPORTED);
  free(saved.bytes);
  bq_session_free(s);
  CHECK_EQ(live_blocks, 0);
  tiny_free(&t);
}

/* A changed bit in the header, the tokens, zeros, the blocks, or the hash is detected. */
static void test_damage(void) {
  tiny_model t;
  create_model(&t, windowed());
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    bq_session *s = new_session(&t, (bq_session_options){.kv_type = (bq_kv_type)kv});
    sync_to(s, prompt, 20);
    saved_state saved = save_state(s, 1 << 20);
    size_t step;
    for (size_t at = 0; at < saved.n; at += step) {
      step = at < 260 || at + 137 > saved.n ? 1 : 127;
      bq_error err = {0};
      saved.bytes[at] ^= (uint8_t)(1 << at % 8);
      const bq_status status = restore_state(s, &saved, saved.n, &err);
      CHECK(status != BQ_OK);
      if (at >= 128) CHECK_EQ(status, BQ_FORMAT);
      CHECK_EQ(bq_session_stats_get(s).tokens, 0);
      saved.bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    CHECK_EQ(restore_state(s, &saved, saved.n, NULL), BQ_OK);
    free(saved.bytes);
    bq_session_free(s);
  }
  tiny_free(&t);
}

int main(void) {
  for (uint32_t i = 0; i < CONTEXT; i++) prompt[i] = (i * 7919 + i * i % 13) % 60;
  RUN(test_blocks_follow_the_sequence);
  RUN(test_another_key_empties_the_session);
  RUN(test_windows);
  RUN(test_windows_change_logits);
  RUN(test_forks);
  RUN(test_fork_during_a_run);
  RUN(test_exhausted_pool);
  RUN(test_forks_are_planned);
  RUN(test_restored_sessions_continue);
  RUN(test_saved_during_a_run);
  RUN(test_states_that_do_not_fit_are_refused);
  RUN(test_damage);
  return check_summary();
}
