/* Any bytes as a saved session, and one that was saved, with any of its bytes changed, before its
 * hash is made or after. What is accepted is computed on.
 *
 * input: u8 mode, u8 size of the pieces. Mode bit 0: patches follow, u16 offset and u8 value each;
 * else the bytes themselves. Bits 1 to 3: the type of the cache. Bit 4: the hash is right. Bit 5: a
 * model with experts, and an adapter for its queries. */
#include <stdlib.h>

#include "session/session.h"
#include "tiny_model.h"

enum { CONTEXT = 20, SAVED = 9, VOCAB = 61 };

static tiny_model models[2]; /* without experts, with them */
static struct saved {
  uint8_t *bytes;
  size_t n;
} saved[2][BQ_KV_COUNT];

enum { LAYERS = 2, HIDDEN = 16, RANK = 3 };
static bq_lora adapter[LAYERS][BQ_ADAPTED_COUNT];

static void require(bool ok) {
  if (!ok) abort();
}

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static void give(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static bq_session *open_session(int which, int kv) {
  bq_session *s;
  bq_session_options o = {.kv_type = (bq_kv_type)kv, .context = CONTEXT};
  require(bq_session_create(&models[which].model, &o, (bq_allocator){NULL, take, give}, &s, NULL) ==
          BQ_OK);
  if (which) require(bq_session_set_adapter(s, &adapter[0][0], 5, NULL) == BQ_OK);
  return s;
}

static void prepare(int which) {
  bq_config c = {.layers = LAYERS,
                 .hidden = HIDDEN,
                 .heads = 2,
                 .ffn = 16,
                 .vocab = VOCAB,
                 .context = CONTEXT,
                 .window = 5,
                 .global_every = 2};
  c.experts = which ? 4 : 0;
  c.experts_used = which ? 2 : 0;
  c.expert_ffn = which ? 8 : 0;
  c.gated = which;
  tiny_create(&models[which], c, which ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32, bq_kernels_best(), false);
  models[which].model.file_id[0] = 1;
  for (int layer = 0; which && layer < LAYERS; layer++)
    adapter[layer][BQ_ADAPTED_Q] =
        (bq_lora){tiny_vector(&models[1], RANK * HIDDEN, 0, 0.1f),
                          tiny_vector(&models[1], RANK * HIDDEN, 0, 0.1f), RANK, 0.5f};
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    static const uint32_t ids[SAVED] = {1, 2, 3, 5, 8, 13, 21, 34, 55};
    bq_session *s = open_session(which, kv);
    require(bq_session_sync(s, ids, SAVED, NULL, NULL) == BQ_OK);
    require(bq_session_run(s, 0, NULL) == BQ_OK);
    saved[which][kv].n = (size_t)bq_session_state_bytes(s);
    saved[which][kv].bytes = malloc(saved[which][kv].n);
    require(bq_session_save(s, 0, saved[which][kv].bytes, saved[which][kv].n, NULL) == BQ_OK);
    bq_session_free(s);
  }
}

static void go_on(bq_session *s) {
  uint32_t token;
  const bq_session_stats stats = bq_session_stats_get(s);
  require(stats.tokens <= CONTEXT && stats.computed <= stats.tokens);
  if (stats.tokens == 0) return;
  require(bq_session_run(s, 0, NULL) == BQ_OK);
  bq_status status = bq_session_sample(s, NULL, NULL, &token, NULL);
  require(status == BQ_NO_TOKEN || (status == BQ_OK && token < VOCAB));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (!models[0].n_owned) prepare(0), prepare(1);
  if (n < 2) return 0;
  const int which = data[0] >> 5 & 1;
  const int kv = data[0] / 2 % 8 % BQ_KV_COUNT;
  const size_t piece = 1 + data[1] * 16u;
  size_t bytes = data[0] & 1 ? saved[which][kv].n : n - 2;
  uint8_t *state = malloc(bytes + 1);
  memcpy(state, data[0] & 1 ? saved[which][kv].bytes : data + 2, bytes);
  for (size_t i = 2; data[0] & 1 && i + 3 <= n; i += 3)
    state[(data[i] | (size_t)data[i + 1] << 8) % bytes] = data[i + 2];
  if (data[0] & 16 && bytes >= 8) {
    const uint64_t hash = bq_xxh64(state, bytes - 8, 0);
    memcpy(state + bytes - 8, &hash, 8);
  }
  bq_session *s = open_session(which, kv);
  bq_status status = BQ_MORE;
  for (size_t at = 0; at < bytes && status == BQ_MORE; at += piece)
    status = bq_session_restore(s, state + at, bytes - at < piece ? bytes - at : piece, NULL);
  if (status == BQ_OK) go_on(s);
  else require(bq_session_stats_get(s).tokens == 0);
  bq_session_free(s);
  free(state);
  return 0;
}
