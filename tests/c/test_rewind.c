/* Sessions that are truncated (rewound) and then saved, restored or continued have the same bits as
 * sessions that were never longer, with every kind of window, eviction and KV type. Truncation
 * frees some blocks of the cache (cache.c), so these tests truncate to positions where the lower
 * edge of a window crosses from one block to the next. */
#include <string.h>

#include "check.h"
#include "session/session.h"
#include "sequences.h"
#include "tiny_configs.h"
#include "tiny_model.h"

enum { CONTEXT = 720, LONG = 660, VOCAB = 61, ROWS = 32, AHEAD = 24 };

static uint32_t prompt[CONTEXT];
static float expected[LONG]
                     [VOCAB]; /* Logits of each position of `prompt`, computed token by token. */

/* A kind of session, with the positions that its layers keep. */
typedef struct session_kind {
  const char *name;
  uint32_t window;    /* of layer 0, config.window; layer 1 has none */
  uint32_t kv_window; /* of the session */
  uint32_t sinks;
  bq_evict evict;
  uint32_t positions[4]; /* to which the session is truncated */
  /* of layer 0: 1, a short convolution in place of attention; 2, a gated delta net; 3, Mamba-2;
   * 4, Mamba-2 and attention; 5, layers of several shapes */
  int layer_kind;
} session_kind;

/* From position 256 k + w - 1 on, a window of w positions begins in another block. */
static const session_kind kinds[] = {
    {"no window", 0, 0, 0, BQ_EVICT_OLDEST, {1, 255, 256, 513}, 0},
    {"window of a layer", 40, 0, 0, BQ_EVICT_OLDEST, {294, 295, 296, 551}, 0},
    {"long window of a layer", 300, 0, 0, BQ_EVICT_OLDEST, {299, 555, 556, 300}, 0},
    {"KV window", 0, 200, 0, BQ_EVICT_OLDEST, {455, 456, 454, 199}, 0},
    {"KV window and sinks", 0, 40, 3, BQ_EVICT_OLDEST, {295, 2, 551, 296}, 0},
    {"both windows", 40, 300, 3, BQ_EVICT_OLDEST, {295, 555, 299, 551}, 0},
    {"eviction", 0, 256, 3, BQ_EVICT_ATTENTION, {511, 512, 513, 256}, 0},
    {"eviction and a window of a layer", 40, 256, 3, BQ_EVICT_ATTENTION, {512, 551, 295, 514}, 0},
    {"convolutions", 0, 0, 0, BQ_EVICT_OLDEST, {1, 255, 256, 513}, 1},
    {"convolutions and a KV window", 0, 40, 3, BQ_EVICT_OLDEST, {295, 2, 551, 512}, 1},
    {"convolutions and eviction", 0, 256, 3, BQ_EVICT_ATTENTION, {511, 512, 513, 256}, 1},
    {"a delta net", 0, 0, 0, BQ_EVICT_OLDEST, {1, 255, 512, 513}, 2},
    {"Mamba-2", 0, 0, 0, BQ_EVICT_OLDEST, {1, 255, 512, 513}, 3},
    {"Mamba-2 and attention", 0, 0, 0, BQ_EVICT_OLDEST, {1, 255, 512, 513}, 4},
    {"shared keys", 40, 0, 0, BQ_EVICT_OLDEST, {294, 295, 296, 551}, 5},
    {"shared keys and both windows", 40, 300, 3, BQ_EVICT_OLDEST, {295, 555, 299, 551}, 5},
    {"shared keys and eviction", 40, 256, 3, BQ_EVICT_ATTENTION, {512, 551, 295, 514}, 5},
    {"Mamba-2, attention and eviction", 0, 256, 3, BQ_EVICT_ATTENTION, {511, 512, 513, 256}, 4},
};
enum { KINDS = sizeof kinds / sizeof *kinds, POSITIONS = 4 };

static bq_config create_config(const session_kind *k) {
  bq_config c = {.layers = 2,
                 .hidden = 16,
                 .heads = 2,
                 .kv_heads = 2,
                 .head_dim = 4,
                 .ffn = 16,
                 .vocab = VOCAB,
                 .context = CONTEXT,
                 .gated = true,
                 .tied = true};
  if (k->layer_kind == 5) return tiny_layered(c, k->window);
  if (k->layer_kind > 2)
    c = tiny_mamba(c, k->layer_kind == 4);
  else if (k->layer_kind)
    c = k->layer_kind == 2 ? tiny_delta(c) : tiny_convolving(c);
  return k->window ? tiny_windowed(c, k->window) : c;
}

static bq_session_options create_options(const session_kind *k, bq_kv_type kv) {
  return (bq_session_options){
      .kv_type = kv, .kv_window = k->kv_window, .sinks = k->sinks, .evict = k->evict, .rows = ROWS};
}

static void create_model(tiny_model *t, const session_kind *k) {
  tiny_create(t, create_config(k), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  t->model.file_id[3] = 9;
}

/* Ways to truncate a longer sequence to position `at`, followed by n - at tokens that are not
 * computed yet. */
typedef enum rewind_kind {
  BACK_TO_OTHER_TOKENS,
  BACK_TO_FEWER_TOKENS,
  BACK_FOR_RESULTS,
  REWIND_KINDS
} rewind_kind;

static uint32_t rewind_session(bq_session *s, rewind_kind way, uint32_t at) {
  uint32_t other[CONTEXT];
  memcpy(other, prompt, sizeof other);
  for (uint32_t i = at; i < CONTEXT; i++) other[i] ^= way == BACK_TO_OTHER_TOKENS;
  sync_to(s, other, at + AHEAD);
  if (way == BACK_FOR_RESULTS) {
    CHECK_EQ(bq_session_request_outputs(s, at, NULL), BQ_OK);
    return at + AHEAD;
  }
  const uint32_t n = way == BACK_TO_FEWER_TOKENS ? at : at + AHEAD / 2;
  CHECK_EQ(bq_session_sync(s, prompt, n, NULL, NULL), BQ_OK);
  return n;
}

static void check_continuation(bq_session *s, uint32_t n) {
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  check_logits(s, expected[n - 1]);
  for (uint32_t i = n; i < n + 8; i++) append(s, prompt[i]);
  check_logits(s, expected[n + 7]);
}

static void check_rewind(const tiny_model *t, bq_session_options o, rewind_kind way, uint32_t at) {
  bq_session *a = filled_session(t, o), *b = filled_session(t, o);
  const uint32_t n = rewind_session(a, way, at);
  const saved_state saved = save_state(a, 5000);
  sync_to(b, prompt + 1, 300);
  CHECK_EQ(restore_state(b, &saved, 5000, NULL), BQ_OK);
  const saved_state saved_again = save_state(b, 1 << 20);
  CHECK_EQ(saved_again.n, saved.n);
  if (saved_again.n == saved.n) CHECK_MEM(saved_again.bytes, saved.bytes, saved.n);
  check_continuation(a, n);
  check_continuation(b, n);
  free(saved.bytes);
  free(saved_again.bytes);
  bq_session_free(a);
  bq_session_free(b);
}

static void check_kind(const session_kind *k, bq_kv_type kv) {
  tiny_model t;
  create_model(&t, k);
  bq_session_options o = create_options(k, kv);
  step_by_step(&t, o, prompt, LONG, &expected[0][0]);
  for (uint32_t i = 0; i < POSITIONS; i++)
    for (int way = 0; way < REWIND_KINDS; way++) {
      if (SANITIZED && way != (int)(i + (uint32_t)kv) % REWIND_KINDS) continue;
      o.prefill_window = (i + (uint32_t)way) % 2 ? 8 : 0;
      const int failures = check_state.failures;
      check_rewind(&t, o, (rewind_kind)way, k->positions[i]);
      if (check_state.failures > failures)
        printf("%s, KV type %d, way %d, position %u\n", k->name, kv, way, k->positions[i]);
    }
  tiny_free(&t);
}

static void test_rewind_save_continue(void) {
  for (uint32_t i = 0; i < KINDS; i++)
    for (int kv = 0; kv < BQ_KV_COUNT; kv++)
      if (i == 1 || i == 4 || kv == BQ_KV_F32 || kv == BQ_KV_I8)
        check_kind(&kinds[i], (bq_kv_type)kv);
}

/* --- saved bytes ------------------------------------------------------------------------------ */

/* Without eviction, since a truncated session has already evicted more, and without recurrent
 * layers, since a truncated session continues from an earlier state snapshot. */
static void test_saved_bytes_do_not_depend_on_discarded_tokens(void) {
  for (uint32_t i = 0; i < KINDS; i++) {
    const session_kind *k = &kinds[i];
    if (k->evict || k->layer_kind) continue;
    tiny_model t;
    create_model(&t, k);
    bq_session_options o = create_options(k, BQ_KV_I8);
    o.prefill_window = 8;
    const uint32_t at = k->positions[1];
    bq_session *a = filled_session(&t, o), *b = filled_session(&t, o);
    const uint32_t n = rewind_session(a, BACK_TO_OTHER_TOKENS, at);
    sync_to(b, prompt, at);
    CHECK_EQ(bq_session_sync(b, prompt, n, NULL, NULL), BQ_OK);
    CHECK_EQ(bq_session_stats_get(b).computed, at);
    CHECK_EQ(bq_session_stats_get(a).computed, at);
    const saved_state rewound = save_state(a, 1 << 20), direct = save_state(b, 1 << 20);
    if (CHECK_EQ(rewound.n, direct.n)) CHECK_MEM(rewound.bytes, direct.bytes, direct.n);
    free(rewound.bytes);
    free(direct.bytes);
    bq_session_free(a);
    bq_session_free(b);
    tiny_free(&t);
  }
}

/* --- vectors ---------------------------------------------------------------------------------- */

static void check_vector(const tiny_model *t, bq_session_options o, bq_session *s, uint32_t n) {
  CHECK_EQ(bq_session_sync(s, prompt, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_pool(s, BQ_POOL_MEAN, true, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  bq_session *other_session = filled_session(t, o);
  CHECK_EQ(bq_session_sync(other_session, prompt, n, NULL, NULL), BQ_OK);
  CHECK_EQ(bq_session_pool(other_session, BQ_POOL_MEAN, true, NULL), BQ_OK);
  CHECK_EQ(bq_session_run(other_session, 0, NULL), BQ_OK);
  const float *actual = bq_session_vector(s, 0),
              *other_vector = bq_session_vector(other_session, 0);
  if (CHECK(actual && other_vector))
    CHECK_MEM(actual, other_vector, t->model.config.hidden * sizeof *actual);
  bq_session_free(other_session);
}

/* Longer texts with the same beginning as the one before; bq_session_texts() computes texts longer
 * than a window in this way. */
static void test_vectors_of_longer_texts(void) {
  for (uint32_t i = 0; i < KINDS; i++) {
    tiny_model t;
    create_model(&t, &kinds[i]);
    bq_session_options o = create_options(&kinds[i], BQ_KV_I8);
    o.prefill_window = 100;
    bq_session *s = filled_session(&t, o);
    const int failures = check_state.failures;
    static const uint32_t lengths[] = {400, 600, 640, 256, 512, 600, 130, 660};
    for (uint32_t j = 0; j < sizeof lengths / sizeof *lengths; j++)
      check_vector(&t, o, s, lengths[j]);
    if (check_state.failures > failures) printf("%s\n", kinds[i].name);
    bq_session_free(s);
    tiny_free(&t);
  }
}

static void test_texts_longer_than_a_window(void) {
  for (uint32_t i = 0; i < KINDS; i++) {
    tiny_model t;
    create_model(&t, &kinds[i]);
    bq_session_options o = create_options(&kinds[i], BQ_KV_I8);
    o.prefill_window = 100;
    bq_session *s = filled_session(&t, o);
    for (uint32_t n = 400; n <= 640; n += 80) {
      size_t accepted;
      CHECK_EQ(bq_session_texts(s, prompt, &n, 1, BQ_POOL_MEAN, true, &accepted, NULL), BQ_OK);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    }
    bq_session_free(s);
    tiny_free(&t);
  }
}

/* --- random operations ------------------------------------------------------------------------ */

static uint32_t random_below(uint32_t *state, uint32_t n) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % n;
}

/* Applies a random operation to a session; its sequence is a prefix of `prompt` afterwards. */
static void apply_random_operation(bq_session **s, bq_session **spare, uint32_t *random) {
  uint32_t other[CONTEXT];
  const uint32_t n = 1 + random_below(random, LONG - 1), at = random_below(random, n);
  const uint32_t n_tokens = (uint32_t)bq_session_stats_get(*s).tokens;
  switch (random_below(random, 8)) {
    case 0:
      CHECK_EQ(bq_session_sync(*s, prompt, n, NULL, NULL), BQ_OK);
      break;
    case 1:
      if (n_tokens && n_tokens < LONG)
        CHECK_EQ(bq_session_append(*s, prompt[n_tokens], NULL), BQ_OK);
      break;
    case 2: /* another sequence, and back */
      memcpy(other, prompt, sizeof other);
      for (uint32_t i = at; i < n; i++) other[i] ^= 1;
      CHECK_EQ(bq_session_sync(*s, other, n, NULL, NULL), BQ_OK);
      CHECK(bq_session_run(*s, random_below(random, 60), NULL) >= 0);
      CHECK_EQ(bq_session_sync(*s, prompt, n, NULL, NULL), BQ_OK);
      break;
    case 3: /* a few tokens back */
      if (n_tokens > 30)
        CHECK_EQ(bq_session_sync(*s, prompt, n_tokens - random_below(random, 30), NULL, NULL),
                 BQ_OK);
      break;
    case 4:
      if (n_tokens > ROWS)
        CHECK_EQ(bq_session_request_outputs(*s, n_tokens - 1 - random_below(random, ROWS), NULL),
                 BQ_OK);
      break;
    case 5:
      if (n_tokens) CHECK_EQ(bq_session_pool(*s, BQ_POOL_MEAN, false, NULL), BQ_OK);
      break;
    case 6:
      if (n_tokens) CHECK(bq_session_run(*s, 1 + random_below(random, 20), NULL) >= 0);
      break;
    default: { /* saved, and restored in another session with any contents */
      const saved_state saved = save_state(*s, 1 << 20);
      CHECK_EQ(restore_state(*spare, &saved, 4000, NULL), BQ_OK);
      free(saved.bytes);
      bq_session *previous = *s;
      *s = *spare;
      *spare = previous;
    }
  }
}

static void check_random(const session_kind *k, bq_kv_type kv, uint32_t seed) {
  tiny_model t;
  create_model(&t, k);
  bq_session_options o = create_options(k, kv);
  step_by_step(&t, o, prompt, LONG, &expected[0][0]);
  o.prefill_window = seed % 2 ? 20 : 0;
  bq_session *s = filled_session(&t, o), *spare = filled_session(&t, o);
  uint32_t random = seed;
  for (uint32_t i = 0; i < 60; i++) {
    apply_random_operation(&s, &spare, &random);
    const uint32_t n = (uint32_t)bq_session_stats_get(s).tokens;
    if (n == 0 || random_below(&random, 3) == 0) continue;
    if (!CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK)) break;
    if (bq_session_logits(s) &&
        !CHECK(memcmp(bq_session_logits(s), expected[n - 1], sizeof expected[0]) == 0))
      printf("%s, seed %u, step %u\n", k->name, seed, i);
  }
  bq_session_free(s);
  bq_session_free(spare);
  tiny_free(&t);
}

/* The last token computed again, or another one in its place: all earlier positions are reused,
 * also in a restored session, around positions where a window begins in another block. */
static void test_recomputing_the_last_token(void) {
  uint32_t other[CONTEXT];
  for (uint32_t i = 1; i <= 3; i++) {
    const session_kind *k = &kinds[i];
    tiny_model t;
    create_model(&t, k);
    const bq_session_options o = create_options(k, BQ_KV_F32);
    step_by_step(&t, o, prompt, LONG, &expected[0][0]);
    bq_session *s = filled_session(&t, o), *b = filled_session(&t, o);
    const uint32_t edge =
        k->positions[1]; /* near the position where the lower edge of a window crosses blocks */
    for (uint32_t n = edge - 4; n < edge + 6; n++) {
      sync_to(s, prompt, n);
      memcpy(other, prompt, sizeof other);
      other[n - 1] ^= 1;
      CHECK_EQ(sync_to(s, other, n), n - 1);
      CHECK_EQ(sync_to(s, prompt, n), n - 1);
      check_logits(s, expected[n - 1]);
      const saved_state saved = save_state(s, 5000);
      CHECK_EQ(restore_state(b, &saved, 5000, NULL), BQ_OK);
      CHECK(bq_session_stats_get(b).computed >= n - 1); /* Only the last token is computed again. */
      CHECK_EQ(bq_session_run(b, 0, NULL), BQ_OK);
      check_logits(b, expected[n - 1]);
      free(saved.bytes);
    }
    bq_session_free(s);
    bq_session_free(b);
    tiny_free(&t);
  }
}

static void test_random_operations(void) {
  for (uint32_t i = 0; i < KINDS; i++)
    for (uint32_t seed = 1; seed <= (SANITIZED ? 1 : 3); seed++)
      check_random(&kinds[i], (bq_kv_type)((i + seed) % BQ_KV_COUNT), seed);
}

int main(void) {
  for (uint32_t i = 0; i < CONTEXT; i++) prompt[i] = (i * 7919 + i * i % 13) % 60;
  RUN(test_rewind_save_continue);
  RUN(test_saved_bytes_do_not_depend_on_discarded_tokens);
  RUN(test_vectors_of_longer_texts);
  RUN(test_texts_longer_than_a_window);
  RUN(test_recomputing_the_last_token);
  RUN(test_random_operations);
  return check_summary();
}
