/* The KV cache in blocks: sessions that fork, layers with a window, sessions that are saved and
 * restored compute the bits that a session of its own computes; and the pool of blocks is what was
 * planned. Prompts are longer than two blocks. */
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

/* Layers 0 and 2 see 40 positions, layer 1 sees all. */
static bq_config local(void) {
  bq_config c = llama();
  c.window = 40;
  c.global_every = 2;
  return c;
}

static void make(tiny_model *t, bq_config config) {
  tiny_create(t, config, BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t->model.file_id[3] = 9;
}

static int live_blocks;

static void *take(void *ctx, size_t bytes) {
  live_blocks++;
  return filled_alloc(ctx, bytes);
}

static void give(void *ctx, void *ptr) {
  if (ptr) live_blocks--;
  filled_free(ctx, ptr);
}

static const bq_allocator allocator = {NULL, take, give};

static bq_session *new_session(const tiny_model *t, bq_session_options o) {
  return session_in(t, o, allocator);
}

static bq_session *fork_of(const bq_session *s) {
  bq_session *f = NULL;
  if (!CHECK_EQ(bq_session_fork(s, &f, NULL), BQ_OK)) abort();
  return f;
}

/* The logits that a session of its own computes for these tokens. */
static void check_fresh(const tiny_model *t, const bq_session *s, const uint32_t *tokens,
                        size_t n) {
  bq_session *own = new_session(
      t, (bq_session_options){.kv_type = s->options.kv_type, .prefill_window = 77, .batch = 20});
  sync_to(own, tokens, n);
  const float *got = bq_session_logits(s), *want = bq_session_logits(own);
  if (CHECK(got && want)) CHECK_MEM(got, want, VOCAB * sizeof *want);
  bq_session_free(own);
}

static uint32_t held(const bq_session *s) {
  return s->kv.pool->shelves[0].n_blocks - s->kv.pool->shelves[0].n_free;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void test_blocks_follow_the_sequence(void) {
  tiny_model t;
  make(&t, llama());
  bq_session *s = new_session(&t, (bq_session_options){.kv_type = BQ_KV_I8});
  CHECK_EQ(held(s), 0);
  sync_to(s, prompt, LONG);
  CHECK_EQ(held(s), 3 * LAYERS);
  check_fresh(&t, s, prompt, LONG);
  CHECK_EQ(sync_to(s, prompt, 257), 256);
  CHECK_EQ(held(s), 2 * LAYERS);
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

static void test_a_key_of_its_own(void) {
  tiny_model t;
  make(&t, llama());
  bq_session *s = new_session(&t, (bq_session_options){0});
  sync_to(s, prompt, 300);
  bq_session_set_key(s, 0);
  CHECK(bq_session_logits(s) != NULL);
  bq_session_set_key(s, 7);
  CHECK(bq_session_logits(s) == NULL);
  CHECK_EQ(sync_to(s, prompt, 300), 0); /* the same tokens, but of another key */
  CHECK_EQ(sync_to(s, prompt, 300), 300);
  bq_session_free(s);
  tiny_free(&t);
}

/* --- windows ---------------------------------------------------------------------------------- */

static void check_windows(bq_kv_type kv) {
  tiny_model t;
  make(&t, local());
  /* One token after the other, none of what is outside the window. */
  bq_session *s = new_session(&t, (bq_session_options){.kv_type = kv, .prefill_window = 1});
  static float want[LONG][VOCAB];
  for (uint32_t i = 0; i < LONG; i++) {
    CHECK_EQ(i ? bq_session_append(s, prompt[i], NULL) : bq_session_sync(s, prompt, 1, NULL, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(want[i], bq_session_logits(s), sizeof want[i]);
  }
  CHECK_EQ(held(s), 3 + 1 + 1); /* of the layers with a window the last block is enough */
  CHECK_EQ(s->kv.pool->shelves[0].n_blocks, 3 + 2 + 2);
  bq_session_free(s);
  static const uint32_t cuts[][2] = {{0, 0}, {300, 7}, {41, 41}, {39, 5}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (uint32_t n = LONG - 1; n > 99; n -= 250) {
      s = new_session(&t, (bq_session_options){
                              .kv_type = kv, .prefill_window = cuts[i][0], .batch = cuts[i][1]});
      sync_to(s, prompt, n);
      CHECK_MEM(bq_session_logits(s), want[n - 1], sizeof want[0]);
      CHECK_EQ(sync_to(s, prompt, n - 1), n - 2); /* a step back stays in the window */
      CHECK_MEM(bq_session_logits(s), want[n - 2], sizeof want[0]);
      sync_to(s, prompt, n / 2); /* further back may be gone, but not unnoticed */
      CHECK_MEM(bq_session_logits(s), want[n / 2 - 1], sizeof want[0]);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_windows(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) check_windows((bq_kv_type)kv);
}

/* Where a window sees everything the model is the one without; with more tokens it is another. */
static void test_a_window_is_seen(void) {
  tiny_model t, all;
  make(&t, local());
  make(&all, llama());
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
  make(&t, config);
  uint32_t other[CONTEXT];
  memcpy(other, prompt, sizeof other);
  for (uint32_t i = at; i < CONTEXT; i++) other[i] ^= 1;
  bq_session *a = new_session(&t, (bq_session_options){.kv_type = kv, .forks = 1});
  sync_to(a, prompt, at);
  const uint32_t before = held(a);
  bq_session *b = fork_of(a);
  CHECK_EQ(held(a), before); /* nothing is copied yet */
  CHECK_MEM(bq_session_logits(b), bq_session_logits(a), VOCAB * sizeof(float));
  for (uint32_t i = at; i < at + 5; i++) { /* both write, in turn */
    CHECK_EQ(bq_session_append(a, prompt[i], NULL), BQ_OK);
    CHECK_EQ(bq_session_append(b, other[i], NULL), BQ_OK);
    CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK);
    CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  }
  CHECK_EQ(held(a), before + (at % BQ_KV_BLOCK ? LAYERS : 2 * LAYERS));
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
  check_fork(local(), BQ_KV_I8, 290, true);
}

/* A fork of a run that isn't done computes the rest for itself. */
static void test_fork_amid_a_run(void) {
  tiny_model t;
  make(&t, llama());
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

/* Forks that were not planned for live on what the pool has left; then the error says what to do,
 * and what was computed is still good. */
static void test_a_pool_that_is_used_up(void) {
  tiny_model t;
  make(&t, llama());
  bq_session *a = new_session(&t, (bq_session_options){0});
  sync_to(a, prompt, 300);
  bq_session *b = fork_of(a);
  bq_error err = {0};
  sync_to(b, prompt, 310); /* the third block of each layer */
  CHECK_EQ(a->kv.pool->shelves[0].n_free, 0);
  CHECK_EQ(bq_session_append(a, 1, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK); /* the only one with its block by now */
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
  make(&t, llama());
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
  /* A heap of what is planned has room for them, and for no more. */
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
    prompt[5] ^= 1; /* nothing is shared, and all have room for a whole context */
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
  make(&t, config);
  bq_session *a = new_session(&t, (bq_session_options){.kv_type = kv});
  sync_to(a, prompt, n + 20); /* what was there before leaves no trace */
  sync_to(a, prompt, n);
  const saved_state saved = save_state(a, 1 << 20), again = save_state(a, 777);
  CHECK_EQ(saved.n, again.n);
  CHECK_MEM(saved.bytes, again.bytes, saved.n);
  bq_session *b = new_session(&t, (bq_session_options){.kv_type = kv, .context = n + 1});
  sync_to(b, prompt + 1, n / 2 + 1);
  CHECK_EQ(restore_state(b, &saved, n == 300 ? 1000 : 1 << 20, NULL), BQ_OK);
  CHECK(bq_session_logits(b) == NULL);
  CHECK_EQ(bq_session_stats_get(b).computed, n - 1);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  CHECK_MEM(bq_session_logits(b), bq_session_logits(a), VOCAB * sizeof(float));
  const saved_state copy = save_state(b, 1 << 20); /* in another context: the same bytes */
  CHECK_EQ(copy.n, saved.n);
  CHECK_MEM(copy.bytes, saved.bytes, saved.n);
  CHECK_EQ(bq_session_append(b, prompt[n], NULL), BQ_OK);
  CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
  check_fresh(&t, b, prompt, n + 1);
  free(copy.bytes);
  free(saved.bytes);
  free(again.bytes);
  bq_session_free(a);
  bq_session_free(b);
  CHECK_EQ(live_blocks, 0);
  tiny_free(&t);
}

static void test_restored_sessions_go_on(void) {
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    check_restored(llama(), (bq_kv_type)kv, 300);
    check_restored(local(), (bq_kv_type)kv, 513);
  }
  check_restored(llama(), BQ_KV_I8, 256);
  check_restored(llama(), BQ_KV_F32, 1);
}

/* Saved amid a prefill: what is complete; and a fork's blocks stay its own. */
static void test_saved_amid_a_run(void) {
  tiny_model t;
  make(&t, llama());
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
  CHECK_EQ(bq_session_run(a, 0, NULL), BQ_OK); /* not disturbed */
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
  CHECK_EQ(held(s), 0);
  saved.bytes[at] = old;
}

static void test_states_that_do_not_fit_are_refused(void) {
  tiny_model t;
  make(&t, llama());
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
  saved.bytes[128 + 4 * 7 + 1] = 1; /* and as somebody wrote it, who knows how to hash */
  const uint64_t hash = bq_xxh64(saved.bytes, saved.n - 8, 0);
  memcpy(saved.bytes + saved.n - 8, &hash, 8);
  CHECK_EQ(restore_state(s, &saved, 64, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "at position 7 is outside the vocabulary") != NULL);
  const saved_state some = {saved.bytes, saved.n - 1};
  CHECK_EQ(restore_state(s, &some, 1000, &err), BQ_MORE); /* and then something else */
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

/* One bit that changed, of the head, the tokens, zeros, the blocks, or the hash itself. */
static void test_damage(void) {
  tiny_model t;
  make(&t, local());
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
  RUN(test_a_key_of_its_own);
  RUN(test_windows);
  RUN(test_a_window_is_seen);
  RUN(test_forks);
  RUN(test_fork_amid_a_run);
  RUN(test_a_pool_that_is_used_up);
  RUN(test_forks_are_planned);
  RUN(test_restored_sessions_go_on);
  RUN(test_saved_amid_a_run);
  RUN(test_states_that_do_not_fit_are_refused);
  RUN(test_damage);
  return check_summary();
}
