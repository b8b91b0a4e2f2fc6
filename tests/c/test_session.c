/* Sessions: any slicing, any waiting for data, any number of threads and any reuse of the KV cache
 * gives the bits that token by token gives. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "session/create.h"
#include "session/session.h"
#include "tiny_model.h"

enum { CONTEXT = 48, VOCAB = 61 };

static const uint32_t prompt[] = {3, 17, 60, 4, 4, 9, 33, 21, 8, 55, 2, 40, 41, 7, 19, 0, 12, 5,
                                  30, 31, 32, 3, 17, 60, 58, 22, 11, 10, 1, 46, 47, 13, 6};
enum { PROMPT = sizeof prompt / sizeof *prompt };

static bq_config llama(void) {
  return (bq_config){.layers = 3,
                     .hidden = 40,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 10,
                     .ffn = 72,
                     .vocab = VOCAB,
                     .context = CONTEXT,
                     .gated = true,
                     .tied = true};
}

/* Three query heads for each of three KV heads: threads share KV heads. */
static bq_config grouped(void) {
  bq_config c = llama();
  c.heads = 9;
  c.kv_heads = 3;
  return c;
}

static bq_config bullet(void) {
  return (bq_config){.layers = 2,
                     .hidden = 36,
                     .heads = 3,
                     .ffn = 50,
                     .vocab = VOCAB,
                     .context = CONTEXT,
                     .norm = BQ_NORM_LAYER,
                     .position = BQ_POSITION_LEARNED,
                     .activation = BQ_GELU,
                     .gated = true};
}

/* Three layers of three kinds: sandwich norms, norms of q and k, windows, two tables of rotations
 * with factors and a layer without, scales and softcaps. */
static bq_config modern(void) {
  bq_config c = llama();
  c.norm_place = BQ_NORM_SANDWICH;
  c.qk_norm = BQ_QK_HEADS;
  c.window = 5;
  c.global_every = 2;
  c.unrotated_every = 3;
  c.local_theta = 500;
  c.rope_scale = 1.5f;
  c.rope_original = CONTEXT / 2;
  c.rope_dim = 6;
  c.attn_scale = 0.2f;
  c.attn_softcap = 3;
  c.logit_softcap = 4;
  c.embed_scale = 3;
  c.residual_scale = 0.5f;
  c.logit_scale = 0.8f;
  c.activation = BQ_GELU_ERF;
  return c;
}

/* One norm for attention and an MLP beside it, ALiBi, norm of the embedding, rows of q and k
 * normed. */
static bq_config parallel(void) {
  bq_config c = bullet();
  c.position = BQ_POSITION_ALIBI;
  c.block = BQ_BLOCK_SHARED;
  c.qk_norm = BQ_QK_ROWS;
  c.alibi_max = 6;
  c.alibi_scale = 0.5f;
  c.qkv_clip = 0.4f;
  c.embed_norm = true;
  c.gated = false;
  return c;
}

/* An encoder: norms after the sum, every token sees all. */
static bq_config encoder(void) {
  bq_config c = bullet();
  c.norm_place = BQ_NORM_POST;
  c.bidirectional = true;
  c.token_types = 2;
  c.embed_norm = true;
  c.activation = BQ_GELU_ERF;
  return c;
}

/* --- an allocator that counts ------------------------------------------------------------- */

static int live_blocks, calls;
static size_t live_bytes, granted; /* as a heap counts them: bq_heap_cost */

static void *count_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  calls++;
  if (bq_heap_cost(bytes) > granted - live_bytes) return NULL;
  size_t *p = tiny_aligned(bytes + BQ_ALIGN); /* its size before it */
  *p = bq_heap_cost(bytes);
  live_blocks++;
  live_bytes += *p;
  return (uint8_t *)p + BQ_ALIGN;
}

static void count_free(void *ctx, void *ptr) {
  (void)ctx;
  if (!ptr) return;
  size_t *p = (size_t *)(void *)((uint8_t *)ptr - BQ_ALIGN);
  live_blocks--;
  live_bytes -= *p;
  free(p);
}

static const bq_allocator counting = {NULL, count_alloc, count_free};

static bq_session *new_session(const tiny_model *t, bq_session_options o) {
  bq_session *s = NULL;
  granted = SIZE_MAX;
  bq_error err = {0};
  if (!CHECK_EQ(bq_session_create(&t->model, &o, counting, &s, &err), BQ_OK)) abort();
  return s;
}

/* Logits after every position, computed token by token: [PROMPT][VOCAB]. */
static float reference[PROMPT][VOCAB];

static void make_reference(const tiny_model *t, bq_session_options o) {
  bq_session *s = new_session(t, o);
  for (size_t i = 0; i < PROMPT; i++) {
    CHECK_EQ(i ? bq_session_append(s, prompt[i], NULL) : bq_session_sync(s, prompt, 1, NULL, NULL),
             BQ_OK);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(reference[i], bq_session_logits(s), sizeof reference[i]);
  }
  bq_session_free(s);
}

static void check_logits(const bq_session *s, size_t position) {
  const float *logits = bq_session_logits(s);
  if (CHECK(logits != NULL)) CHECK_MEM(logits, reference[position], sizeof reference[0]);
}

static uint32_t run_by_slices(bq_session *s, size_t slices) {
  uint32_t calls_made = 1;
  bq_status status;
  while ((status = bq_session_run(s, slices, NULL)) == BQ_MORE) calls_made++;
  CHECK_EQ(status, BQ_OK);
  return calls_made;
}

/* --- tests ---------------------------------------------------------------------------------- */

static void check_slicings(bq_config config, bq_type type, bool biases, bq_session_options o) {
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), biases);
  make_reference(&t, o);
  static const uint32_t cuts[][2] = {{0, 0}, {1, 1}, {7, 3}, {8, 8}, {33, 5}, {20, 33}, {48, 16}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (size_t slices = 0; slices < 4; slices++) {
      o.prefill_window = cuts[i][0];
      o.batch = cuts[i][1];
      bq_session *s = new_session(&t, o);
      size_t kept = 99;
      CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL), BQ_OK);
      CHECK_EQ(kept, 0);
      run_by_slices(s, slices);
      check_logits(s, PROMPT - 1);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_any_slicing_gives_the_same_bits(void) {
  check_slicings(llama(), BQ_TYPE_F32, false, (bq_session_options){.kv_type = BQ_KV_F32});
  check_slicings(llama(), BQ_TYPE_BQ4_32, false, (bq_session_options){.kv_type = BQ_KV_F32});
  check_slicings(llama(), BQ_TYPE_BQ4H_32, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_slicings(llama(), BQ_TYPE_F16, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_slicings(bullet(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_slicings(bullet(), BQ_TYPE_BQ4_16, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_slicings(llama(), BQ_TYPE_BQ4H_32, true, (bq_session_options){.kv_type = BQ_KV_I8});
  check_slicings(llama(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_I4});
  check_slicings(llama(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_I2});
  check_slicings(bullet(), BQ_TYPE_BQ8_32, false, (bq_session_options){.kv_type = BQ_KV_I8});
  check_slicings(bullet(), BQ_TYPE_BQ4_64, true, (bq_session_options){.kv_type = BQ_KV_F32});
}

static void test_any_slicing_of_any_program(void) {
  check_slicings(modern(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_slicings(modern(), BQ_TYPE_F32, false, (bq_session_options){.kv_type = BQ_KV_I8});
  check_slicings(bullet(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_I4});
  check_slicings(parallel(), BQ_TYPE_BQ8_32, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_slicings(encoder(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_F32});
}

static void test_any_slicing_with_finer_activations(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++) {
    const bq_session_options o = {.kv_type = kv, .activations = BQ_ACTIVATIONS_I16};
    check_slicings(llama(), BQ_TYPE_BQ4H_32, true, o);
    check_slicings(bullet(), BQ_TYPE_BQ8_32, false, o);
    check_slicings(modern(), BQ_TYPE_BQ4A_32, true, o);
  }
}

/* Greatest difference between logits over two types of cache, of their greatest size. */
static double apart(bq_config config, bq_kv_type one, bq_kv_type other) {
  float logits[2][VOCAB];
  double most = 0, size = 0;
  for (int i = 0; i < 2; i++) {
    tiny_model t;
    tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), false);
    bq_session *s = new_session(&t, (bq_session_options){.kv_type = i ? other : one});
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(logits[i], bq_session_logits(s), sizeof logits[i]);
    bq_session_free(s);
    tiny_free(&t);
  }
  for (size_t i = 0; i < VOCAB; i++) {
    most = fmax(most, fabs((double)logits[0][i] - (double)logits[1][i]));
    size = fmax(size, fabs((double)logits[0][i]));
  }
  return most / size;
}

/* Queries and keys for few bits are spread alike, whatever a head has: else they differ by more
 * than the logits' size. */
static void test_few_bits_are_near_f32(void) {
  bq_config config = llama();
  for (uint32_t i = 0; i < 5; i++) {
    static const uint32_t dims[] = {8, 10, 24, 32, 48};
    config.head_dim = config.rope_dim = dims[i];
    config.attn_scale = 2;
    const double i8 = apart(config, BQ_KV_F32, BQ_KV_I8);
    const double i4 = apart(config, BQ_KV_F32, BQ_KV_I4);
    const double i2 = apart(config, BQ_KV_F32, BQ_KV_I2);
    if (!CHECK(i8 < 0.15 && i4 > i8 && i4 < 0.7 && i2 > i4 && i2 < 1.2))
      printf("%u dims: %f, %f, %f\n", dims[i], i8, i4, i2);
  }
}

/* Whatever a configuration says reaches the logits: without it they differ. */
static void check_matters(bq_config with, bq_config without) {
  float logits[2][VOCAB];
  for (int i = 0; i < 2; i++) {
    tiny_model t;
    tiny_create(&t, i ? without : with, BQ_TYPE_F32, bq_kernels_best(), false);
    bq_session *s = new_session(&t, (bq_session_options){0});
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(logits[i], bq_session_logits(s), sizeof logits[i]);
    bq_session_free(s);
    tiny_free(&t);
  }
  CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) != 0);
}

static void test_every_part_of_a_program_matters(void) {
#define MATTERS(config, field, value) \
  do {                                \
    bq_config other = config();       \
    other.field = value;              \
    check_matters(config(), other);   \
  } while (0)
  MATTERS(modern, norm_place, BQ_NORM_PRE);
  MATTERS(modern, norm_place, BQ_NORM_POST_BRANCH);
  MATTERS(modern, qk_norm, BQ_QK_PLAIN);
  MATTERS(modern, qk_norm, BQ_QK_ROWS);
  MATTERS(modern, qk_norm, BQ_QK_ROTATED);
  MATTERS(modern, unrotated_every, 0);
  MATTERS(modern, local_theta, 400);
  MATTERS(modern, rope_scale, 0);
  MATTERS(modern, rope_original, 0);
  MATTERS(modern, rope_original, CONTEXT);
  MATTERS(modern, rope_dim, 10);
  MATTERS(modern, attn_scale, 0);
  MATTERS(modern, logit_softcap, 0);
  MATTERS(modern, embed_scale, 0);
  MATTERS(modern, residual_scale, 0);
  MATTERS(modern, logit_scale, 0);
  MATTERS(modern, activation, BQ_GELU);
  MATTERS(parallel, block, BQ_BLOCK_PARALLEL);
  MATTERS(parallel, block, BQ_BLOCK_SEQUENTIAL);
  MATTERS(parallel, embed_norm, false);
  MATTERS(parallel, alibi_max, 0);
  MATTERS(parallel, alibi_scale, 0);
  MATTERS(parallel, qkv_clip, 0);
  MATTERS(encoder, token_types, 0);
  MATTERS(encoder, norm_place, BQ_NORM_PRE);
#undef MATTERS
}

/* What a model computes must not depend on the table either. */
static void check_tables(bq_activations activations) {
  const bq_kernels *tables[] = {bq_kernels_simd128(), bq_kernels_relaxed16(),
                                bq_kernels_relaxed()};
  for (bq_type type = 0; type < BQ_TYPE_COUNT; type++) {
    if (!bq_type_runs((bq_type)type)) continue;
    tiny_model t;
    bq_session_options o = {.kv_type = (bq_kv_type)(type % BQ_KV_COUNT),
                            .activations = activations};
    tiny_create(&t, llama(), type, bq_kernels_scalar(), true);
    make_reference(&t, o);
    o.batch = 5;
    tiny_free(&t);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
      if (!tables[i]) continue;
      tiny_create(&t, llama(), type, tables[i], true);
      bq_session *s = new_session(&t, o);
      bq_session_sync(s, prompt, PROMPT, NULL, NULL);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      check_logits(s, PROMPT - 1);
      bq_session_free(s);
      tiny_free(&t);
    }
  }
}

static void test_tables_agree(void) {
  check_tables(BQ_ACTIVATIONS_I8);
  check_tables(BQ_ACTIVATIONS_I16);
}

/* Logits of a range of positions, whatever the windows and batches, are those of each alone. */
static void test_results_of_many_positions(void) {
  tiny_model t;
  tiny_create(&t, modern(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  make_reference(&t, (bq_session_options){0});
  static const uint32_t cuts[][2] = {{0, 0}, {1, 1}, {7, 3}, {8, 8}, {20, 33}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (uint32_t from = 0; from < PROMPT; from += 4) {
      bq_session *s = new_session(
          &t,
          (bq_session_options){.prefill_window = cuts[i][0], .batch = cuts[i][1], .rows = PROMPT});
      bq_session_sync(s, prompt, PROMPT, NULL, NULL);
      CHECK_EQ(bq_session_results(s, from, NULL), BQ_OK);
      run_by_slices(s, i % 2);
      for (uint32_t p = 0; p < PROMPT; p++) {
        const float *logits = bq_session_result(s, p);
        CHECK_EQ(!logits, p < from);
        if (logits) CHECK_MEM(logits, reference[p], sizeof reference[p]);
      }
      check_logits(s, PROMPT - 1);
      CHECK_EQ(bq_session_results(s, PROMPT - 2, NULL), BQ_OK); /* other ones of what is computed */
      CHECK(bq_session_logits(s) == NULL);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      CHECK(bq_session_result(s, PROMPT - 3) == NULL);
      CHECK_MEM(bq_session_result(s, PROMPT - 2), reference[PROMPT - 2], sizeof reference[0]);
      size_t kept;
      bq_session_sync(s, prompt, 9, &kept, NULL); /* from now on the last only */
      CHECK_EQ(kept, 8);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      CHECK(bq_session_result(s, 7) == NULL);
      check_logits(s, 8);
      bq_session_free(s);
    }
  bq_session *s = new_session(&t, (bq_session_options){.rows = 3});
  bq_session_sync(s, prompt, 8, NULL, NULL);
  CHECK_EQ(bq_session_results(s, 8, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_results(s, 4, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_results(s, 5, NULL), BQ_OK);
  bq_session_free(s);
  tiny_free(&t);
}

/* An exit before the head: the logits are its product with what comes out. */
static void test_hidden_states(void) {
  bq_config configs[] = {llama(), encoder()};
  for (int i = 0; i < 2; i++) {
    tiny_model t;
    tiny_create(&t, configs[i], BQ_TYPE_F32, bq_kernels_best(), false);
    const uint32_t hidden = t.model.config.hidden;
    bq_session *s =
        new_session(&t, (bq_session_options){.rows = PROMPT, .prefill_window = 9, .batch = 4});
    bq_session *h = new_session(
        &t, (bq_session_options){.rows = PROMPT, .prefill_window = 9, .batch = 4, .hidden = true});
    bq_session *both[] = {s, h};
    for (int k = 0; k < 2; k++) {
      bq_session_sync(both[k], prompt, PROMPT, NULL, NULL);
      CHECK_EQ(bq_session_results(both[k], 0, NULL), BQ_OK);
      CHECK_EQ(run_by_slices(both[k], 2) > 1, 1);
    }
    CHECK(bq_session_logits(h) == NULL);
    uint32_t token;
    CHECK_EQ(bq_session_sample(h, NULL, NULL, &token, NULL), BQ_STATE);
    float row[64];
    for (uint32_t p = 0; p < PROMPT; p++) {
      const float *x = bq_session_result(h, p), *logits = bq_session_result(s, p);
      REQUIRE(x && logits);
      t.model.head.ops->row(&t.model.head, p, row);
      float sum = 0;
      for (uint32_t k = 0; k < hidden; k++) sum += row[k] * x[k];
      CHECK(sum - logits[p] < 1e-4f && logits[p] - sum < 1e-4f);
    }
    bq_session_free(s);
    bq_session_free(h);
    tiny_free(&t);
  }
}

static void test_waiting_for_data(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  make_reference(&t, (bq_session_options){0});
  const uint32_t layers = t.model.config.layers;
  /* arrivals: how many calls pass between one stage and the next */
  for (uint32_t pace = 0; pace < 4; pace++)
    for (uint32_t window = 5; window <= 40; window += 35) {
      bq_session *s = new_session(&t, (bq_session_options){.prefill_window = window, .batch = 4});
      bq_session_sync(s, prompt, PROMPT, NULL, NULL);
      t.model.ready = 0;
      uint32_t waits = 0, calls_made = 0;
      for (bq_status status = BQ_MORE; status != BQ_OK;) {
        bq_error err = {0};
        status = bq_session_run(s, pace, &err);
        CHECK(status == BQ_OK || status == BQ_MORE || status == BQ_WANT_DATA);
        if (status == BQ_WANT_DATA) {
          CHECK_EQ(err.status, BQ_WANT_DATA);
          CHECK(bq_session_logits(s) == NULL);
          CHECK(t.model.ready < BQ_READY_ALL(layers));
          waits++;
          t.model.ready++;
        } else if (pace == 3 && ++calls_made % 3 == 0 && t.model.ready < BQ_READY_ALL(layers)) {
          t.model.ready++; /* data that comes while there is still work */
        }
      }
      CHECK(waits >= 1);
      check_logits(s, PROMPT - 1);
      if (pace == 0) CHECK_EQ(waits, layers + 2); /* one wait for each stage */
      CHECK(waits <= layers + 2);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_layers_before_the_last_are_done_when_it_arrives(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = new_session(&t, (bq_session_options){.prefill_window = CONTEXT, .batch = PROMPT});
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  t.model.ready = BQ_READY_LAYER(1);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_WANT_DATA);
  CHECK_EQ(bq_session_stats_get(s).work_units,
           2); /* layers 0 and 1, the whole prompt in one batch */
  t.model.ready = BQ_READY_ALL(3);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  CHECK_EQ(bq_session_stats_get(s).work_units, 4); /* layer 2 and the head */
  bq_session_free(s);
  tiny_free(&t);
}

static void test_prefix_reuse(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  make_reference(&t, (bq_session_options){0});
  bq_session *s = new_session(&t, (bq_session_options){.prefill_window = 8, .batch = 3});
  size_t kept;
  bq_session_sync(s, prompt, 20, &kept, NULL);
  bq_session_run(s, 0, NULL);
  check_logits(s, 19);
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL), BQ_OK); /* a second turn */
  CHECK_EQ(kept, 20);
  bq_session_run(s, 0, NULL);
  check_logits(s, PROMPT - 1);
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL), BQ_OK); /* the same again: at hand */
  CHECK_EQ(kept, PROMPT);
  check_logits(s, PROMPT - 1);
  CHECK_EQ(bq_session_sync(s, prompt, 12, &kept, NULL), BQ_OK); /* back: one position anew */
  CHECK_EQ(kept, 11);
  CHECK(bq_session_logits(s) == NULL);
  bq_session_run(s, 0, NULL);
  check_logits(s, 11);
  uint32_t other[PROMPT]; /* another branch from position 6 on, then back again */
  memcpy(other, prompt, sizeof other);
  other[6] ^= 1;
  bq_session_sync(s, other, PROMPT, &kept, NULL);
  CHECK_EQ(kept, 6);
  bq_session_run(s, 0, NULL);
  CHECK(memcmp(bq_session_logits(s), reference[PROMPT - 1], sizeof reference[0]) != 0);
  bq_session_sync(s, prompt, PROMPT, &kept, NULL);
  CHECK_EQ(kept, 6);
  bq_session_run(s, 0, NULL);
  check_logits(s, PROMPT - 1);
  bq_session_free(s);
  tiny_free(&t);
}

/* Stopping amid a prefill (an abort) and going on with whatever comes next. */
static void test_sync_amid_a_run(void) {
  tiny_model t;
  tiny_create(&t, bullet(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  make_reference(&t, (bq_session_options){0});
  for (size_t stop = 1; stop < 30; stop++) {
    static const size_t next[] = {PROMPT, 5, 12, 20};
    for (size_t i = 0; i < 4; i++) {
      bq_session *s = new_session(&t, (bq_session_options){.prefill_window = 9, .batch = 4});
      bq_session_sync(s, prompt, 20, NULL, NULL);
      bq_session_run(s, stop, NULL);
      CHECK_EQ(bq_session_stats_get(s).work_units <= stop, 1);
      size_t n = next[i], kept;
      CHECK_EQ(bq_session_sync(s, prompt, n, &kept, NULL), BQ_OK);
      CHECK(kept <= n);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      check_logits(s, n - 1);
      bq_session_free(s);
    }
  }
  tiny_free(&t);
}

static void test_append_amid_a_run(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  make_reference(&t, (bq_session_options){0});
  bq_session *s = new_session(&t, (bq_session_options){.prefill_window = 4, .batch = 2});
  bq_session_sync(s, prompt, 1, NULL, NULL);
  for (size_t i = 1; i < PROMPT; i++) {
    bq_session_run(s, i % 5, NULL);
    CHECK_EQ(bq_session_append(s, prompt[i], NULL), BQ_OK);
    CHECK(bq_session_logits(s) == NULL);
  }
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  check_logits(s, PROMPT - 1);
  bq_session_free(s);
  tiny_free(&t);
}

static void run_backwards(void *ctx, void (*fn)(void *, size_t, size_t), void *arg) {
  for (size_t n = *(size_t *)ctx; n-- > 0;) fn(arg, n, *(size_t *)ctx);
}

static void check_threads(bq_config config, bq_type type, bq_session_options o) {
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), true);
  make_reference(&t, o);
  for (size_t threads = 1; threads <= 9; threads++) {
    o.batch = threads % 2 ? 7 : 33;
    o.parallel = (bq_parallel){.ctx = &threads, .run = run_backwards, .threads = threads};
    bq_session *s = new_session(&t, o);
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    check_logits(s, PROMPT - 1);
    /* A token alone is shared out in another way. */
    static const size_t alone[] = {PROMPT, 32, 31, 9, 8, 2, 1};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
      size_t kept;
      bq_session_sync(s, prompt, alone[i] - 1 ? alone[i] - 1 : 1, NULL, NULL);
      bq_session_run(s, 0, NULL);
      bq_session_sync(s, prompt, alone[i], &kept, NULL);
      CHECK_EQ(kept, alone[i] > 1 ? alone[i] - 1 : 1);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      check_logits(s, alone[i] - 1);
    }
    bq_session_free(s);
  }
  tiny_free(&t);
}

/* More slices than the session was made for: a host whose team has grown since. */
static void test_more_slices_than_planned(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  make_reference(&t, (bq_session_options){0});
  size_t team = 9;
  bq_session *s = new_session(
      &t, (bq_session_options){.parallel = {.ctx = &team, .run = run_backwards, .threads = 2}});
  bq_session_sync(s, prompt, PROMPT - 1, NULL, NULL);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  bq_session_append(s, prompt[PROMPT - 1], NULL);
  CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
  check_logits(s, PROMPT - 1);
  bq_session_free(s);
  tiny_free(&t);
}

static bool countdown(void *ctx) {
  uint32_t *left = ctx;
  return (*left)-- == 0;
}

/* Asked between slices only: a run ends after as many of them as were let pass, and goes on as if
 * it had not. */
static void test_a_run_is_stopped_between_slices(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  make_reference(&t, (bq_session_options){0});
  const uint64_t slices = t.model.config.layers + 1;
  for (uint32_t passes = 0; passes <= slices; passes++) {
    uint32_t left = passes;
    bq_session *s = new_session(&t, (bq_session_options){.stop = {&left, countdown}});
    bq_session_sync(s, prompt, PROMPT - 1, NULL, NULL);
    left = UINT32_MAX;
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    const uint64_t before = bq_session_stats_get(s).work_units;
    left = passes;
    bq_session_append(s, prompt[PROMPT - 1], NULL);
    const bool ends = passes + 1 < slices;
    CHECK_EQ(bq_session_run(s, 0, NULL), ends ? BQ_MORE : BQ_OK);
    CHECK_EQ(bq_session_stats_get(s).work_units - before, ends ? passes + 1 : slices);
    left = UINT32_MAX;
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    CHECK_EQ(bq_session_stats_get(s).work_units - before, slices);
    check_logits(s, PROMPT - 1);
    bq_session_free(s);
  }
  tiny_free(&t);
}

static void test_any_number_of_threads_gives_the_same_bits(void) {
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_threads(llama(), BQ_TYPE_BQ8_32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_threads(bullet(), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_F16});
  check_threads(modern(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_threads(parallel(), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I4});
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I2});
  check_threads(modern(), BQ_TYPE_BQ4_32, (bq_session_options){.activations = BQ_ACTIVATIONS_I16});
  for (int kv = 0; kv < BQ_KV_COUNT; kv++)
    check_threads(grouped(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = (bq_kv_type)kv});
}

static void test_errors(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_error err = {0};
  bq_session *s = NULL;
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.context = CONTEXT + 1}, counting, &s,
                             &err),
           BQ_ARGUMENT);
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.kv_type = BQ_KV_COUNT}, counting, &s,
                             &err),
           BQ_ARGUMENT);
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.activations = BQ_ACTIVATIONS_COUNT},
                             counting, &s, &err),
           BQ_ARGUMENT);
  CHECK(s == NULL);
  s = new_session(&t, (bq_session_options){.context = 8});
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_STATE);
  CHECK_EQ(bq_session_sync(s, prompt, 0, NULL, &err), BQ_ARGUMENT);
  CHECK_EQ(bq_session_sync(s, prompt, 9, NULL, &err), BQ_CONTEXT_FULL);
  CHECK_STR(err.detail, "9 tokens do not fit in the context of 8");
  const uint32_t bad[] = {1, VOCAB};
  CHECK_EQ(bq_session_sync(s, bad, 2, NULL, &err), BQ_ARGUMENT);
  CHECK_STR(err.detail, "token 61 at position 1 is outside the vocabulary of 61");
  CHECK_EQ(bq_session_sync(s, prompt, 8, NULL, &err), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_OK);
  uint32_t token = 77;
  CHECK_EQ(bq_session_append(s, 1, &err), BQ_CONTEXT_FULL);
  CHECK(bq_session_logits(s) != NULL); /* what was there is still good */
  CHECK_EQ(bq_session_sample(s, NULL, NULL, &token, &err), BQ_OK);
  CHECK(token < VOCAB);
  bq_session_sync(s, prompt, 3, NULL, NULL);
  CHECK_EQ(bq_session_sample(s, NULL, NULL, &token, &err), BQ_STATE);
  bq_session_free(s);
  tiny_free(&t);
}

static void test_memory_is_planned(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session_options o = {.context = 40, .kv_type = BQ_KV_F16};
  uint64_t kv = 0, bytes = bq_session_memory(&t.model.config, t.model.kernels, &o, &kv);
  CHECK_EQ(kv, 40 * 3 * 2 * 20 * 2); /* context, layers, k and v, kv dim, f16 */
  o.kv_type = BQ_KV_I8;
  const uint64_t i8 = bq_session_memory(&t.model.config, t.model.kernels, &o, &kv);
  CHECK_EQ(kv, 3 * 2 * bq_kv_bytes(BQ_KV_I8, 40, 10));
  /* Whole blocks of each layer, and one to save from. */
  const uint64_t more =
      (3 + 1) * 2 *
      (bq_kv_bytes(BQ_KV_F16, BQ_KV_BLOCK, 10) - bq_kv_bytes(BQ_KV_I8, BQ_KV_BLOCK, 10));
  CHECK_EQ(bytes - i8, more);
  o.kv_type = BQ_KV_F16;
  bq_session *s = NULL;
  granted = (size_t)bytes - 1;
  bq_error err = {0};
  CHECK_EQ(bq_session_create(&t.model, &o, counting, &s, &err), BQ_NO_SESSION);
  CHECK_EQ(live_blocks, 0);
  granted = (size_t)bytes;
  REQUIRE(bq_session_create(&t.model, &o, counting, &s, &err) == BQ_OK);
  CHECK_EQ(live_bytes, bytes);
  calls = 0;
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  bq_session_run(s, 0, NULL);
  for (int i = 0; i < 5; i++) {
    uint32_t id;
    bq_session_sample(s, NULL, NULL, &id, NULL);
    bq_session_append(s, id, NULL);
    bq_session_run(s, 0, NULL);
  }
  CHECK_EQ(calls, 0); /* nothing is allocated per token */
  bq_session_free(s);
  CHECK_EQ(live_blocks, 0);
  bq_config huge = llama();
  huge.layers = 1024;
  huge.kv_heads = huge.heads = 65536;
  huge.head_dim = huge.rope_dim = 65536;
  huge.context = 1u << 24;
  if (sizeof(size_t) == 4)
    CHECK_EQ(bq_session_memory(&huge, t.model.kernels, &(bq_session_options){0}, NULL), UINT64_MAX);
  tiny_free(&t);
}

/* --- what may be picked ----------------------------------------------------------------------- */

static void forbid_below(void *ctx, float *logits, uint32_t vocab) {
  const uint32_t *least = ctx;
  for (uint32_t id = 0; id < vocab && id < *least; id++) logits[id] = -INFINITY;
}

static void test_mask_bias_and_hook(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_error err = {0};
  bq_session *s = new_session(&t, (bq_session_options){0});
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  bq_session_run(s, 0, NULL);
  uint32_t mask[2] = {1u << 7, 0}, token = 99;
  CHECK_EQ(bq_session_sample(s, &(bq_sample_options){.mask = mask}, NULL, &token, &err), BQ_OK);
  CHECK_EQ(token, 7);
  bq_logit_bias bias[] = {{VOCAB - 1, 1e30f}, {VOCAB, 0}};
  bq_sample_options biased = {.bias = bias, .n_bias = 1};
  CHECK_EQ(bq_session_sample(s, &biased, NULL, &token, &err), BQ_OK);
  CHECK_EQ(token, VOCAB - 1);
  biased.n_bias = 2;
  CHECK_EQ(bq_session_sample(s, &biased, NULL, &token, &err), BQ_ARGUMENT);
  CHECK_STR(err.detail, "there is no token 61 to be biased, the vocabulary has 61");
  uint32_t least = VOCAB - 2;
  bq_sample_options hooked = {.hook = {&least, forbid_below}};
  CHECK_EQ(bq_session_sample(s, &hooked, NULL, &token, &err), BQ_OK);
  CHECK(token >= least);
  CHECK(bq_session_logits(s)[0] == -INFINITY); /* the hook's changes stay */
  token = 99;
  CHECK_EQ(bq_session_sample(s, &(bq_sample_options){.mask = mask}, NULL, &token, &err),
           BQ_NO_TOKEN);
  CHECK_EQ(token, 99);
  CHECK_STR(err.detail, "none of 61 tokens may be picked: mask, bias or hook forbid them all");
  bq_session_free(s);
  tiny_free(&t);
}

static void refused_sampling(bq_session *s, bq_sample_options o, const char *detail) {
  bq_error err = {0};
  uint32_t token = 99;
  bq_rng rng = bq_rng_seed(1);
  CHECK_EQ(bq_session_sample(s, &o, &rng, &token, &err), BQ_ARGUMENT);
  if (!CHECK(strstr(err.detail, detail) != NULL)) printf("%s\n", err.detail);
  CHECK_EQ(token, 99);
  CHECK_EQ(rng.state, 1);
}

static void test_sampling_out_of_range(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = new_session(&t, (bq_session_options){0});
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  bq_session_run(s, 0, NULL);
  const float odd[] = {NAN, -1, -INFINITY, -0x1p-149f};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    refused_sampling(s, (bq_sample_options){.temperature = odd[i]}, "temperature is out");
    refused_sampling(s, (bq_sample_options){.top_p = odd[i]}, "top_p is out");
    refused_sampling(s, (bq_sample_options){.min_p = odd[i]}, "min_p is out");
    refused_sampling(s, (bq_sample_options){.repeat_penalty = odd[i]}, "repeat_penalty is out");
  }
  refused_sampling(s, (bq_sample_options){.top_p = 1.5f}, "top_p is out of its range");
  refused_sampling(s, (bq_sample_options){.min_p = INFINITY}, "min_p");
  refused_sampling(s, (bq_sample_options){.repeat_penalty = INFINITY}, "repeat_penalty");
  bq_session_free(s);
  tiny_free(&t);
}

/* How many recent tokens are penalized: none, the last one, all. */
static void test_length_of_the_repetition_window(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_session *s = new_session(&t, (bq_session_options){0});
  const uint32_t tokens[] = {5, 6, 7};
  bq_session_sync(s, tokens, 3, NULL, NULL);
  bq_session_run(s, 0, NULL);
  const bq_logit_bias bias[] = {{5, 2000}, {7, 1000}, {8, 500}};
  static const uint32_t expected[][2] = {{0, 5}, {1, 5}, {2, 5}, {3, 8}, {UINT32_MAX, 8}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    uint32_t token = 99;
    bq_sample_options o = {
        .bias = bias, .n_bias = 3, .repeat_penalty = 100, .repeat_last = expected[i][0]};
    CHECK_EQ(bq_session_sample(s, &o, NULL, &token, NULL), BQ_OK);
    CHECK_EQ(token, expected[i][1]);
  }
  bq_session_free(s);
  tiny_free(&t);
}

/* --- trace and work --------------------------------------------------------------------------- */

typedef struct marks {
  uint32_t count[BQ_STAGE_COUNT], n;
  bq_stage first, last;
  uint32_t last_layer;
} marks;

static void count_mark(void *ctx, bq_stage stage, uint32_t layer) {
  marks *m = ctx;
  if (m->n++ == 0) m->first = stage;
  m->last = stage;
  m->last_layer = layer;
  m->count[stage]++;
}

static void check_marks(const marks *m, uint32_t layers, uint32_t parts, uint32_t heads) {
  static const bq_stage each[] = {BQ_STAGE_QKV, BQ_STAGE_KV, BQ_STAGE_ATTEND, BQ_STAGE_O,
                                  BQ_STAGE_MLP_IN, BQ_STAGE_ACTIVATE, BQ_STAGE_DOWN};
  CHECK_EQ(m->first, BQ_STAGE_HOST);
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    CHECK_EQ(m->count[each[i]], layers * parts);
  CHECK_EQ(m->count[BQ_STAGE_NORM], 4 * layers * parts + heads);
  CHECK_EQ(m->count[BQ_STAGE_HEAD], heads);
  if (heads) CHECK(m->last == BQ_STAGE_HEAD);
}

static void test_every_stage_is_marked(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  for (size_t threads = 1; threads < 4; threads++) {
    marks m = {0};
    bq_session_options o = {
        .prefill_window = 20,
        .batch = 10,
        .trace = {&m, count_mark},
        .parallel = {.ctx = &threads, .run = run_backwards, .threads = threads}};
    bq_session *s = new_session(&t, o);
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(m.n, 0);
    bq_session_run(s, 0, NULL); /* windows of 20 and 13 tokens: four batches */
    check_marks(&m, 3, 4, 1);
    CHECK_EQ(m.count[BQ_STAGE_EMBED], 2);
    m = (marks){0};
    uint32_t id;
    bq_session_sample(s, NULL, NULL, &id, NULL);
    CHECK_EQ(m.count[BQ_STAGE_SAMPLE], 1);
    CHECK_EQ(m.n, 2);
    bq_session_append(s, id, NULL);
    m = (marks){0};
    bq_session_run(s, 2, NULL);
    check_marks(&m, 2, 1, 0);
    CHECK_EQ(m.last_layer, 1);
    bq_session_free(s);
  }
  tiny_free(&t);
}

/* Every weight is read once per batch, the embedding's row once per token, the head once. */
static void test_work_is_counted(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  static const uint32_t shapes[][2] = {{40, 40}, {20, 40}, {20, 40}, {40, 40},
                                       {72, 40}, {72, 40}, {40, 72}};
  uint64_t layer = 0, macs = 0;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    layer += bq_type_bytes(BQ_TYPE_BQ4_32, BQ_TILED, shapes[i][0], shapes[i][1]);
    macs += 3 * shapes[i][0] * shapes[i][1];
  }
  const uint64_t head = bq_type_bytes(BQ_TYPE_BQ4_32, BQ_TILED, VOCAB, 40), row = 2 * 20;
  bq_session *s = new_session(&t, (bq_session_options){.kv_type = BQ_KV_I8});
  bq_session_sync(s, prompt, 8, NULL, NULL);
  bq_session_run(s, 0, NULL);
  bq_work w = bq_session_stats_get(s).work;
  CHECK_EQ(w.weight_bytes, 3 * layer + head + 8 * row); /* eight tokens, one batch */
  CHECK_EQ(w.macs, 8 * macs + VOCAB * 40 + 3 * 36 * 2 * 4 * 10);
  CHECK_EQ(w.kv_bytes, 3 * 2 * 2 * bq_kv_bytes(BQ_KV_I8, 8, 10)); /* written, read */
  for (uint32_t n = 8; n < 12; n++) {
    bq_work before = bq_session_stats_get(s).work;
    bq_session_append(s, 1, NULL);
    bq_session_run(s, 0, NULL);
    w = bq_session_stats_get(s).work;
    CHECK_EQ(w.weight_bytes - before.weight_bytes, 3 * layer + head + row);
    CHECK_EQ(w.macs - before.macs, macs + VOCAB * 40 + 3 * (n + 1) * 2 * 4 * 10);
    CHECK_EQ(w.kv_bytes - before.kv_bytes,
             3 * 2 * (bq_kv_bytes(BQ_KV_I8, 1, 10) + bq_kv_bytes(BQ_KV_I8, n + 1, 10)));
  }
  bq_session_free(s);
  tiny_free(&t);
}

/* Bytes that the products really touched: whole tiles of the rows they were asked for. */
static uint64_t touched;

static void touching_matmul(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
                            float *y, size_t y_stride) {
  touched += bq_type_bytes(w->type, BQ_TILED, (uint32_t)(row1 - row0), w->cols);
  bq_kernels_best()->matrix[w->type].matmul(w, a, row0, row1, y, y_stride);
}

/* What the counters say is what the kernels are given, whoever computes it. */
static void test_touched_is_what_is_counted(void) {
  bq_kernels kernels = *bq_kernels_best();
  kernels.matrix[BQ_TYPE_BQ4_32].matmul = touching_matmul;
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, &kernels, false);
  for (size_t threads = 1; threads < 4; threads++) {
    bq_session *s = new_session(
        &t, (bq_session_options){
                .parallel = {.ctx = &threads, .run = run_backwards, .threads = threads}});
    bq_session_sync(s, prompt, 8, NULL, NULL);
    bq_session_run(s, 0, NULL);
    for (int n = 0; n < 3; n++) {
      const bq_work before = bq_session_stats_get(s).work;
      touched = 0;
      bq_session_append(s, 1, NULL);
      bq_session_run(s, 0, NULL);
      /* The embedding's row is no product. */
      CHECK_EQ(touched, bq_session_stats_get(s).work.weight_bytes - before.weight_bytes - 2 * 20);
    }
    bq_session_free(s);
  }
  tiny_free(&t);
}

int main(void) {
  RUN(test_any_slicing_gives_the_same_bits);
  RUN(test_any_slicing_of_any_program);
  RUN(test_any_slicing_with_finer_activations);
  RUN(test_few_bits_are_near_f32);
  RUN(test_every_part_of_a_program_matters);
  RUN(test_results_of_many_positions);
  RUN(test_hidden_states);
  RUN(test_tables_agree);
  RUN(test_waiting_for_data);
  RUN(test_layers_before_the_last_are_done_when_it_arrives);
  RUN(test_prefix_reuse);
  RUN(test_sync_amid_a_run);
  RUN(test_append_amid_a_run);
  RUN(test_a_run_is_stopped_between_slices);
  RUN(test_any_number_of_threads_gives_the_same_bits);
  RUN(test_more_slices_than_planned);
  RUN(test_errors);
  RUN(test_mask_bias_and_hook);
  RUN(test_sampling_out_of_range);
  RUN(test_length_of_the_repetition_window);
  RUN(test_memory_is_planned);
  RUN(test_every_stage_is_marked);
  RUN(test_work_is_counted);
  RUN(test_touched_is_what_is_counted);
  return check_summary();
}
