/* Sessions: the bits are those of computing token by token for any batches, any order of data, any
 * number of threads and any reuse of the KV cache. */
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

/* Three query heads for each of three KV heads, so that threads share KV heads. */
static bq_config grouped_heads(void) {
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
 * with factors, a layer without rotation, scales and softcaps. */
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

/* One norm for attention and the MLP, which run in parallel, ALiBi, a norm of the embedding, and
 * norms of whole rows of q and k. */
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

/* An encoder: norms after the sum, every token attends to all tokens. */
static bq_config encoder(void) {
  bq_config c = bullet();
  c.norm_place = BQ_NORM_POST;
  c.bidirectional = true;
  c.token_types = 2;
  c.embed_norm = true;
  c.activation = BQ_GELU_ERF;
  return c;
}

/* --- an allocator that counts its blocks -------------------------------------------------- */

static int live_blocks, allocations;
static size_t live_bytes, memory_limit; /* as bq_heap_cost() counts them */

static void *count_alloc(void *ctx, size_t bytes) {
  (void)ctx;
  allocations++;
  if (bq_heap_cost(bytes) > memory_limit - live_bytes) return NULL;
  size_t *p = tiny_aligned(bytes + BQ_ALIGN); /* with the size in front of the block */
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

static const bq_allocator counting_allocator = {NULL, count_alloc, count_free};

static bq_session *new_session(const tiny_model *t, bq_session_options o) {
  bq_session *s = NULL;
  memory_limit = SIZE_MAX;
  bq_error err = {0};
  if (!CHECK_EQ(bq_session_create(&t->model, &o, counting_allocator, &s, &err), BQ_OK)) abort();
  return s;
}

/* Logits after every position, computed token by token: [PROMPT][VOCAB]. */
static float reference[PROMPT][VOCAB];

static void compute_reference(const tiny_model *t, bq_session_options o) {
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

static uint32_t run_session(bq_session *s, size_t work_units) {
  uint32_t n_calls = 1;
  bq_status status;
  while ((status = bq_session_run(s, work_units, NULL)) == BQ_MORE) n_calls++;
  CHECK_EQ(status, BQ_OK);
  return n_calls;
}

/* --- tests ---------------------------------------------------------------------------------- */

static void check_batches(bq_config config, bq_type type, bool biases, bq_session_options o) {
  tiny_model t;
  tiny_create(&t, config, type, bq_kernels_best(), biases);
  compute_reference(&t, o);
  static const uint32_t cuts[][2] = {{0, 0}, {1, 1}, {7, 3}, {8, 8}, {33, 5}, {20, 33}, {48, 16}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (size_t work_units = 0; work_units < 4; work_units++) {
      o.prefill_window = cuts[i][0];
      o.batch = cuts[i][1];
      bq_session *s = new_session(&t, o);
      size_t kept = 99;
      CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL), BQ_OK);
      CHECK_EQ(kept, 0);
      run_session(s, work_units);
      check_logits(s, PROMPT - 1);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_bits_do_not_depend_on_batches(void) {
  check_batches(llama(), BQ_TYPE_F32, false, (bq_session_options){.kv_type = BQ_KV_F32});
  check_batches(llama(), BQ_TYPE_BQ4_32, false, (bq_session_options){.kv_type = BQ_KV_F32});
  check_batches(llama(), BQ_TYPE_BQ4H_32, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_batches(llama(), BQ_TYPE_F16, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_batches(bullet(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_batches(bullet(), BQ_TYPE_BQ4_16, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_batches(llama(), BQ_TYPE_BQ4H_32, true, (bq_session_options){.kv_type = BQ_KV_I8});
  check_batches(llama(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_I4});
  check_batches(llama(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_I2});
  check_batches(bullet(), BQ_TYPE_BQ8_32, false, (bq_session_options){.kv_type = BQ_KV_I8});
  check_batches(bullet(), BQ_TYPE_BQ4_64, true, (bq_session_options){.kv_type = BQ_KV_F32});
}

static void test_batches_of_other_configurations(void) {
  check_batches(modern(), BQ_TYPE_BQ4_32, true, (bq_session_options){.kv_type = BQ_KV_F32});
  check_batches(modern(), BQ_TYPE_F32, false, (bq_session_options){.kv_type = BQ_KV_I8});
  check_batches(bullet(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_I4});
  check_batches(parallel(), BQ_TYPE_BQ8_32, true, (bq_session_options){.kv_type = BQ_KV_F16});
  check_batches(encoder(), BQ_TYPE_F32, true, (bq_session_options){.kv_type = BQ_KV_F32});
}

static void test_batches_with_i16_activations(void) {
  for (bq_kv_type kv = 0; kv < BQ_KV_COUNT; kv++) {
    const bq_session_options o = {.kv_type = kv, .activations = BQ_ACTIVATIONS_I16};
    check_batches(llama(), BQ_TYPE_BQ4H_32, true, o);
    check_batches(bullet(), BQ_TYPE_BQ8_32, false, o);
    check_batches(modern(), BQ_TYPE_BQ4A_32, true, o);
  }
}

/* The largest difference between logits with two types of KV cache, relative to the largest
 * logit. */
static double compare_kv_types(bq_config config, bq_kv_type first_type, bq_kv_type other) {
  float logits[2][VOCAB];
  double difference = 0, size = 0;
  for (int i = 0; i < 2; i++) {
    tiny_model t;
    tiny_create(&t, config, BQ_TYPE_F32, bq_kernels_best(), false);
    bq_session *s = new_session(&t, (bq_session_options){.kv_type = i ? other : first_type});
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    memcpy(logits[i], bq_session_logits(s), sizeof logits[i]);
    bq_session_free(s);
    tiny_free(&t);
  }
  for (size_t i = 0; i < VOCAB; i++) {
    difference = fmax(difference, fabs((double)logits[0][i] - (double)logits[1][i]));
    size = fmax(size, fabs((double)logits[0][i]));
  }
  return difference / size;
}

/* Queries and keys have the same Hadamard rotation for any head dimension; otherwise the logits
 * differ by more than their size. */
static void test_caches_of_few_bits_are_near_f32(void) {
  bq_config config = llama();
  for (uint32_t i = 0; i < 5; i++) {
    static const uint32_t dims[] = {8, 10, 24, 32, 48};
    config.head_dim = config.rope_dim = dims[i];
    config.attn_scale = 2;
    const double i8 = compare_kv_types(config, BQ_KV_F32, BQ_KV_I8);
    const double i4 = compare_kv_types(config, BQ_KV_F32, BQ_KV_I4);
    const double i2 = compare_kv_types(config, BQ_KV_F32, BQ_KV_I2);
    if (!CHECK(i8 < 0.15 && i4 > i8 && i4 < 0.7 && i2 > i4 && i2 < 1.2))
      printf("%u dims: %f, %f, %f\n", dims[i], i8, i4, i2);
  }
}

/* Logits with and without a setting are different. */
static void check_difference(bq_config with, bq_config without) {
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

static void test_every_setting_changes_logits(void) {
#define CHECK_DIFFERENCE(config, field, value) \
  do {                                         \
    bq_config other = config();                \
    other.field = value;                       \
    check_difference(config(), other);         \
  } while (0)
  CHECK_DIFFERENCE(modern, norm_place, BQ_NORM_PRE);
  CHECK_DIFFERENCE(modern, norm_place, BQ_NORM_POST_BRANCH);
  CHECK_DIFFERENCE(modern, qk_norm, BQ_QK_PLAIN);
  CHECK_DIFFERENCE(modern, qk_norm, BQ_QK_ROWS);
  CHECK_DIFFERENCE(modern, qk_norm, BQ_QK_ROTATED);
  CHECK_DIFFERENCE(modern, unrotated_every, 0);
  CHECK_DIFFERENCE(modern, local_theta, 400);
  CHECK_DIFFERENCE(modern, rope_scale, 0);
  CHECK_DIFFERENCE(modern, rope_original, 0);
  CHECK_DIFFERENCE(modern, rope_original, CONTEXT);
  CHECK_DIFFERENCE(modern, rope_dim, 10);
  CHECK_DIFFERENCE(modern, attn_scale, 0);
  CHECK_DIFFERENCE(modern, logit_softcap, 0);
  CHECK_DIFFERENCE(modern, embed_scale, 0);
  CHECK_DIFFERENCE(modern, residual_scale, 0);
  CHECK_DIFFERENCE(modern, logit_scale, 0);
  CHECK_DIFFERENCE(modern, activation, BQ_GELU);
  CHECK_DIFFERENCE(parallel, block, BQ_BLOCK_PARALLEL);
  CHECK_DIFFERENCE(parallel, block, BQ_BLOCK_SEQUENTIAL);
  CHECK_DIFFERENCE(parallel, embed_norm, false);
  CHECK_DIFFERENCE(parallel, alibi_max, 0);
  CHECK_DIFFERENCE(parallel, alibi_scale, 0);
  CHECK_DIFFERENCE(parallel, qkv_clip, 0);
  CHECK_DIFFERENCE(encoder, token_types, 0);
  CHECK_DIFFERENCE(encoder, norm_place, BQ_NORM_PRE);
#undef CHECK_DIFFERENCE
}

/* All kernel tables have the same bits as the scalar table. */
static void check_tables(bq_activations activations) {
  const bq_kernels *tables[] = {bq_kernels_simd128(), bq_kernels_relaxed16(),
                                bq_kernels_relaxed()};
  for (bq_type type = 0; type < BQ_TYPE_COUNT; type++) {
    if (!bq_type_runs((bq_type)type)) continue;
    tiny_model t;
    bq_session_options o = {.kv_type = (bq_kv_type)(type % BQ_KV_COUNT),
                            .activations = activations};
    tiny_create(&t, llama(), type, bq_kernels_scalar(), true);
    compute_reference(&t, o);
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

/* The logits of a range of positions are those of single positions, for any windows and batches. */
static void test_outputs_of_many_positions(void) {
  tiny_model t;
  tiny_create(&t, modern(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  compute_reference(&t, (bq_session_options){0});
  static const uint32_t cuts[][2] = {{0, 0}, {1, 1}, {7, 3}, {8, 8}, {20, 33}};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    for (uint32_t from = 0; from < PROMPT; from += 4) {
      bq_session *s = new_session(
          &t,
          (bq_session_options){.prefill_window = cuts[i][0], .batch = cuts[i][1], .rows = PROMPT});
      bq_session_sync(s, prompt, PROMPT, NULL, NULL);
      CHECK_EQ(bq_session_request_outputs(s, from, NULL), BQ_OK);
      run_session(s, i % 2);
      for (uint32_t p = 0; p < PROMPT; p++) {
        const float *logits = bq_session_output(s, p);
        CHECK_EQ(!logits, p < from);
        if (logits) CHECK_MEM(logits, reference[p], sizeof reference[p]);
      }
      check_logits(s, PROMPT - 1);
      CHECK_EQ(bq_session_request_outputs(s, PROMPT - 2, NULL),
               BQ_OK); /* other positions of the computed sequence */
      CHECK(bq_session_logits(s) == NULL);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      CHECK(bq_session_output(s, PROMPT - 3) == NULL);
      CHECK_MEM(bq_session_output(s, PROMPT - 2), reference[PROMPT - 2], sizeof reference[0]);
      size_t kept;
      bq_session_sync(s, prompt, 9, &kept,
                      NULL); /* From here on, only the last position has logits. */
      CHECK_EQ(kept, 8);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      CHECK(bq_session_output(s, 7) == NULL);
      check_logits(s, 8);
      bq_session_free(s);
    }
  bq_session *s = new_session(&t, (bq_session_options){.rows = 3});
  bq_session_sync(s, prompt, 8, NULL, NULL);
  CHECK_EQ(bq_session_request_outputs(s, 8, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_request_outputs(s, 4, NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_session_request_outputs(s, 5, NULL), BQ_OK);
  bq_session_free(s);
  tiny_free(&t);
}

/* The product of the hidden states and the LM head is the logits. */
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
    bq_session *sessions[] = {s, h};
    for (int k = 0; k < 2; k++) {
      bq_session_sync(sessions[k], prompt, PROMPT, NULL, NULL);
      CHECK_EQ(bq_session_request_outputs(sessions[k], 0, NULL), BQ_OK);
      CHECK_EQ(run_session(sessions[k], 2) > 1, 1);
    }
    CHECK(bq_session_logits(h) == NULL);
    uint32_t token;
    CHECK_EQ(bq_session_sample(h, NULL, NULL, &token, NULL), BQ_STATE);
    float row[64];
    for (uint32_t p = 0; p < PROMPT; p++) {
      const float *x = bq_session_output(h, p), *logits = bq_session_output(s, p);
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
  compute_reference(&t, (bq_session_options){0});
  const uint32_t layers = t.model.config.layers;
  /* mode: work units of a call; in mode 3, data also arrives between calls. */
  for (uint32_t mode = 0; mode < 4; mode++)
    for (uint32_t window = 5; window <= 40; window += 35) {
      bq_session *s = new_session(&t, (bq_session_options){.prefill_window = window, .batch = 4});
      bq_session_sync(s, prompt, PROMPT, NULL, NULL);
      t.model.ready = 0;
      uint32_t waits = 0, n_calls = 0;
      for (bq_status status = BQ_MORE; status != BQ_OK;) {
        bq_error err = {0};
        status = bq_session_run(s, mode, &err);
        CHECK(status == BQ_OK || status == BQ_MORE || status == BQ_WANT_DATA);
        if (status == BQ_WANT_DATA) {
          CHECK_EQ(err.status, BQ_WANT_DATA);
          CHECK(bq_session_logits(s) == NULL);
          CHECK(t.model.ready < BQ_READY_ALL(layers));
          waits++;
          t.model.ready++;
        } else if (mode == 3 && ++n_calls % 3 == 0 && t.model.ready < BQ_READY_ALL(layers)) {
          t.model.ready++; /* data that arrives before it is needed */
        }
      }
      CHECK(waits >= 1);
      check_logits(s, PROMPT - 1);
      if (mode == 0) CHECK_EQ(waits, layers + 2); /* one wait for each stage */
      CHECK(waits <= layers + 2);
      bq_session_free(s);
    }
  tiny_free(&t);
}

static void test_layers_run_as_soon_as_they_are_ready(void) {
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
  compute_reference(&t, (bq_session_options){0});
  bq_session *s = new_session(&t, (bq_session_options){.prefill_window = 8, .batch = 3});
  size_t kept;
  bq_session_sync(s, prompt, 20, &kept, NULL);
  bq_session_run(s, 0, NULL);
  check_logits(s, 19);
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL), BQ_OK); /* the continuation */
  CHECK_EQ(kept, 20);
  bq_session_run(s, 0, NULL);
  check_logits(s, PROMPT - 1);
  CHECK_EQ(bq_session_sync(s, prompt, PROMPT, &kept, NULL),
           BQ_OK); /* the same sequence: nothing is computed */
  CHECK_EQ(kept, PROMPT);
  check_logits(s, PROMPT - 1);
  CHECK_EQ(bq_session_sync(s, prompt, 12, &kept, NULL),
           BQ_OK); /* truncated: one position is computed again */
  CHECK_EQ(kept, 11);
  CHECK(bq_session_logits(s) == NULL);
  bq_session_run(s, 0, NULL);
  check_logits(s, 11);
  uint32_t other[PROMPT]; /* other tokens from position 6 on, then the first ones again */
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

/* A prefill that is stopped (an abort), and another sequence after it. */
static void test_sync_during_a_run(void) {
  tiny_model t;
  tiny_create(&t, bullet(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  compute_reference(&t, (bq_session_options){0});
  for (size_t stop = 1; stop < 30; stop++) {
    static const size_t lengths[] = {PROMPT, 5, 12, 20};
    for (size_t i = 0; i < 4; i++) {
      bq_session *s = new_session(&t, (bq_session_options){.prefill_window = 9, .batch = 4});
      bq_session_sync(s, prompt, 20, NULL, NULL);
      bq_session_run(s, stop, NULL);
      CHECK_EQ(bq_session_stats_get(s).work_units <= stop, 1);
      size_t n = lengths[i], kept;
      CHECK_EQ(bq_session_sync(s, prompt, n, &kept, NULL), BQ_OK);
      CHECK(kept <= n);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      check_logits(s, n - 1);
      bq_session_free(s);
    }
  }
  tiny_free(&t);
}

static void test_append_during_a_run(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  compute_reference(&t, (bq_session_options){0});
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
  compute_reference(&t, o);
  for (size_t threads = 1; threads <= 9; threads++) {
    o.batch = threads % 2 ? 7 : 33;
    o.parallel = (bq_parallel){.ctx = &threads, .run = run_backwards, .threads = threads};
    bq_session *s = new_session(&t, o);
    bq_session_sync(s, prompt, PROMPT, NULL, NULL);
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    check_logits(s, PROMPT - 1);
    /* The work of a single token is divided in another way. */
    static const size_t lengths[] = {PROMPT, 32, 31, 9, 8, 2, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      size_t kept;
      bq_session_sync(s, prompt, lengths[i] - 1 ? lengths[i] - 1 : 1, NULL, NULL);
      bq_session_run(s, 0, NULL);
      bq_session_sync(s, prompt, lengths[i], &kept, NULL);
      CHECK_EQ(kept, lengths[i] > 1 ? lengths[i] - 1 : 1);
      CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
      check_logits(s, lengths[i] - 1);
    }
    bq_session_free(s);
  }
  tiny_free(&t);
}

/* A host that runs more threads than the session was created for. */
static void test_more_threads_than_planned(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), true);
  compute_reference(&t, (bq_session_options){0});
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

static bool count_down(void *ctx) {
  uint32_t *left = ctx;
  return (*left)-- == 0;
}

/* The stop function is called between work units only: the run ends after the allowed number of
 * units, and the next run continues. */
static void test_runs_stop_between_work_units(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_BQ4_32, bq_kernels_best(), false);
  compute_reference(&t, (bq_session_options){0});
  const uint64_t work_units = t.model.config.layers + 1;
  for (uint32_t allowed_checks = 0; allowed_checks <= work_units; allowed_checks++) {
    uint32_t left = allowed_checks;
    bq_session *s = new_session(&t, (bq_session_options){.stop = {&left, count_down}});
    bq_session_sync(s, prompt, PROMPT - 1, NULL, NULL);
    left = UINT32_MAX;
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    const uint64_t before = bq_session_stats_get(s).work_units;
    left = allowed_checks;
    bq_session_append(s, prompt[PROMPT - 1], NULL);
    const bool ends = allowed_checks + 1 < work_units;
    CHECK_EQ(bq_session_run(s, 0, NULL), ends ? BQ_MORE : BQ_OK);
    CHECK_EQ(bq_session_stats_get(s).work_units - before, ends ? allowed_checks + 1 : work_units);
    left = UINT32_MAX;
    CHECK_EQ(bq_session_run(s, 0, NULL), BQ_OK);
    CHECK_EQ(bq_session_stats_get(s).work_units - before, work_units);
    check_logits(s, PROMPT - 1);
    bq_session_free(s);
  }
  tiny_free(&t);
}

static void test_bits_do_not_depend_on_threads(void) {
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_threads(llama(), BQ_TYPE_BQ8_32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_threads(bullet(), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_F16});
  check_threads(modern(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_F32});
  check_threads(parallel(), BQ_TYPE_F32, (bq_session_options){.kv_type = BQ_KV_I8});
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I4});
  check_threads(llama(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = BQ_KV_I2});
  check_threads(modern(), BQ_TYPE_BQ4_32, (bq_session_options){.activations = BQ_ACTIVATIONS_I16});
  for (int kv = 0; kv < BQ_KV_COUNT; kv++)
    check_threads(grouped_heads(), BQ_TYPE_BQ4_32, (bq_session_options){.kv_type = (bq_kv_type)kv});
}

static void test_errors(void) {
  tiny_model t;
  tiny_create(&t, llama(), BQ_TYPE_F32, bq_kernels_best(), false);
  bq_error err = {0};
  bq_session *s = NULL;
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.context = CONTEXT + 1},
                             counting_allocator, &s, &err),
           BQ_ARGUMENT);
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.kv_type = BQ_KV_COUNT},
                             counting_allocator, &s, &err),
           BQ_ARGUMENT);
  CHECK_EQ(bq_session_create(&t.model, &(bq_session_options){.activations = BQ_ACTIVATIONS_COUNT},
                             counting_allocator, &s, &err),
           BQ_ARGUMENT);
  CHECK(s == NULL);
  s = new_session(&t, (bq_session_options){.context = 8});
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_STATE);
  CHECK_EQ(bq_session_sync(s, prompt, 0, NULL, &err), BQ_ARGUMENT);
  CHECK_EQ(bq_session_sync(s, prompt, 9, NULL, &err), BQ_CONTEXT_FULL);
  CHECK_STR(err.detail, "9 tokens do not fit in the context of 8");
  const uint32_t tokens[] = {1, VOCAB};
  CHECK_EQ(bq_session_sync(s, tokens, 2, NULL, &err), BQ_ARGUMENT);
  CHECK_STR(err.detail, "token 61 at position 1 is outside the vocabulary of 61");
  CHECK_EQ(bq_session_sync(s, prompt, 8, NULL, &err), BQ_OK);
  CHECK_EQ(bq_session_run(s, 0, &err), BQ_OK);
  uint32_t token = 77;
  CHECK_EQ(bq_session_append(s, 1, &err), BQ_CONTEXT_FULL);
  CHECK(bq_session_logits(s) != NULL); /* The logits are unchanged. */
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
  /* Complete blocks of each layer, and a block for saving. */
  const uint64_t difference =
      (3 + 1) * 2 *
      (bq_kv_bytes(BQ_KV_F16, BQ_KV_BLOCK, 10) - bq_kv_bytes(BQ_KV_I8, BQ_KV_BLOCK, 10));
  CHECK_EQ(bytes - i8, difference);
  o.kv_type = BQ_KV_F16;
  bq_session *s = NULL;
  memory_limit = (size_t)bytes - 1;
  bq_error err = {0};
  CHECK_EQ(bq_session_create(&t.model, &o, counting_allocator, &s, &err), BQ_NO_SESSION);
  CHECK_EQ(live_blocks, 0);
  memory_limit = (size_t)bytes;
  REQUIRE(bq_session_create(&t.model, &o, counting_allocator, &s, &err) == BQ_OK);
  CHECK_EQ(live_bytes, bytes);
  allocations = 0;
  bq_session_sync(s, prompt, PROMPT, NULL, NULL);
  bq_session_run(s, 0, NULL);
  for (int i = 0; i < 5; i++) {
    uint32_t id;
    bq_session_sample(s, NULL, NULL, &id, NULL);
    bq_session_append(s, id, NULL);
    bq_session_run(s, 0, NULL);
  }
  CHECK_EQ(allocations, 0); /* Tokens allocate no memory. */
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

/* --- sampling --------------------------------------------------------------------------------- */

static void forbid_below(void *ctx, float *logits, uint32_t vocab) {
  const uint32_t *min_token = ctx;
  for (uint32_t id = 0; id < vocab && id < *min_token; id++) logits[id] = -INFINITY;
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
  bq_sample_options with_bias = {.bias = bias, .n_bias = 1};
  CHECK_EQ(bq_session_sample(s, &with_bias, NULL, &token, &err), BQ_OK);
  CHECK_EQ(token, VOCAB - 1);
  with_bias.n_bias = 2;
  CHECK_EQ(bq_session_sample(s, &with_bias, NULL, &token, &err), BQ_ARGUMENT);
  CHECK_STR(err.detail, "there is no token 61 to be biased, the vocabulary has 61");
  uint32_t min_token = VOCAB - 2;
  bq_sample_options with_hook = {.hook = {&min_token, forbid_below}};
  CHECK_EQ(bq_session_sample(s, &with_hook, NULL, &token, &err), BQ_OK);
  CHECK(token >= min_token);
  CHECK(bq_session_logits(s)[0] == -INFINITY); /* The changes of the hook stay. */
  token = 99;
  CHECK_EQ(bq_session_sample(s, &(bq_sample_options){.mask = mask}, NULL, &token, &err),
           BQ_NO_TOKEN);
  CHECK_EQ(token, 99);
  CHECK_STR(err.detail, "none of 61 tokens may be picked: mask, bias or hook forbid them all");
  bq_session_free(s);
  tiny_free(&t);
}

static void check_refused_sampling(bq_session *s, bq_sample_options o, const char *detail) {
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
  const float out_of_range[] = {NAN, -1, -INFINITY, -0x1p-149f};
  for (size_t i = 0; i < sizeof out_of_range / sizeof *out_of_range; i++) {
    check_refused_sampling(s, (bq_sample_options){.temperature = out_of_range[i]},
                           "temperature is out");
    check_refused_sampling(s, (bq_sample_options){.top_p = out_of_range[i]}, "top_p is out");
    check_refused_sampling(s, (bq_sample_options){.min_p = out_of_range[i]}, "min_p is out");
    check_refused_sampling(s, (bq_sample_options){.repeat_penalty = out_of_range[i]},
                           "repeat_penalty is out");
  }
  check_refused_sampling(s, (bq_sample_options){.top_p = 1.5f}, "top_p is out of its range");
  check_refused_sampling(s, (bq_sample_options){.min_p = INFINITY}, "min_p");
  check_refused_sampling(s, (bq_sample_options){.repeat_penalty = INFINITY}, "repeat_penalty");
  bq_session_free(s);
  tiny_free(&t);
}

/* repeat_last is the number of recent tokens that are penalized: none, the last one, all. */
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
  static const bq_stage stages[] = {BQ_STAGE_QKV,    BQ_STAGE_KV,       BQ_STAGE_ATTEND, BQ_STAGE_O,
                                    BQ_STAGE_MLP_IN, BQ_STAGE_ACTIVATE, BQ_STAGE_DOWN};
  CHECK_EQ(m->first, BQ_STAGE_HOST);
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
    CHECK_EQ(m->count[stages[i]], layers * parts);
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

/* Weights are counted once per batch, a row of the embedding once per token, the LM head once. */
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

/* Bytes of the rows that kernels have multiplied, in complete tiles. */
static uint64_t computed_bytes;

static void counting_matmul(const bq_matrix *w, const bq_batch *a, size_t row0, size_t row1,
                            float *y, size_t y_stride) {
  computed_bytes += bq_type_bytes(w->type, BQ_TILED, (uint32_t)(row1 - row0), w->cols);
  bq_kernels_best()->matrix[w->type].matmul(w, a, row0, row1, y, y_stride);
}

/* The counters match the work of the kernels for any number of threads. */
static void test_counted_bytes_are_computed_bytes(void) {
  bq_kernels kernels = *bq_kernels_best();
  kernels.matrix[BQ_TYPE_BQ4_32].matmul = counting_matmul;
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
      computed_bytes = 0;
      bq_session_append(s, 1, NULL);
      bq_session_run(s, 0, NULL);
      /* Reading a row of the embedding is no product. */
      CHECK_EQ(computed_bytes,
               bq_session_stats_get(s).work.weight_bytes - before.weight_bytes - 2 * 20);
    }
    bq_session_free(s);
  }
  tiny_free(&t);
}

int main(void) {
  RUN(test_bits_do_not_depend_on_batches);
  RUN(test_batches_of_other_configurations);
  RUN(test_batches_with_i16_activations);
  RUN(test_caches_of_few_bits_are_near_f32);
  RUN(test_every_setting_changes_logits);
  RUN(test_outputs_of_many_positions);
  RUN(test_hidden_states);
  RUN(test_tables_agree);
  RUN(test_waiting_for_data);
  RUN(test_layers_run_as_soon_as_they_are_ready);
  RUN(test_prefix_reuse);
  RUN(test_sync_during_a_run);
  RUN(test_append_during_a_run);
  RUN(test_runs_stop_between_work_units);
  RUN(test_bits_do_not_depend_on_threads);
  RUN(test_more_threads_than_planned);
  RUN(test_errors);
  RUN(test_mask_bias_and_hook);
  RUN(test_sampling_out_of_range);
  RUN(test_length_of_the_repetition_window);
  RUN(test_memory_is_planned);
  RUN(test_every_stage_is_marked);
  RUN(test_work_is_counted);
  RUN(test_counted_bytes_are_computed_bytes);
  return check_summary();
}
