/* Any bytes as a saved session, and a saved session with any of its bytes changed, with a correct
 * hash or without. An accepted session continues.
 *
 * Input: u8 mode, u8 size of the parts. Mode bit 0: patches follow, u16 offset and u8 value each;
 * else the bytes of the session. Bits 1 to 3: the type of the cache. Bit 4: the hash is corrected.
 * Bits 5 to 7: the model (enum kind). */
#include <stdlib.h>

#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

/* Kinds of models: from CONVOLUTION to MAMBA_AND_ATTENTION, the first layer has a recurrent state;
 * in LAYERED, layers share keys and values. EXPERTS has a LoRA adapter for its queries, too. */
typedef enum kind {
  DENSE,
  EXPERTS,
  CONVOLUTION,
  DELTA,
  MAMBA,
  MAMBA_AND_ATTENTION,
  LAYERED,
  KINDS
} kind;
enum { CONTEXT = 20, SAVED = 9, VOCAB = 61 };

static tiny_model models[KINDS];
static struct saved {
  uint8_t *bytes;
  size_t n;
} saved[KINDS][BQ_KV_COUNT];

enum { LAYERS = 2, HIDDEN = 16, RANK = 3 };
static bq_lora adapter[LAYERS][BQ_ADAPTED_COUNT];

static void require(bool ok) {
  if (!ok) abort();
}

static void *allocate(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static void release(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static bq_session *open_session(kind k, int kv) {
  bq_session *s;
  bq_session_options o = {.kv_type = (bq_kv_type)kv, .context = CONTEXT};
  require(bq_session_create(&models[k].model, &o, (bq_allocator){NULL, allocate, release}, &s,
                            NULL) == BQ_OK);
  if (k == EXPERTS) require(bq_session_set_adapter(s, &adapter[0][0], 5, NULL) == BQ_OK);
  return s;
}

static bq_config create_config(kind k) {
  bq_config c = {.layers = LAYERS,
                 .hidden = HIDDEN,
                 .heads = 2,
                 .kv_heads = 2,
                 .head_dim = HIDDEN / 2,
                 .ffn = 16,
                 .vocab = VOCAB,
                 .context = CONTEXT,
                 .gated = k != DENSE};
  switch (k) {
    case CONVOLUTION: return tiny_convolving(c);
    case DELTA: return tiny_delta(c);
    case MAMBA: return tiny_mamba(c, false);
    case MAMBA_AND_ATTENTION:
      return tiny_mamba(c, true);
    case LAYERED: return tiny_layered(c, 5);
    case EXPERTS: c.experts = 4, c.experts_used = 2, c.expert_ffn = 8; break;
    case DENSE:
    case KINDS: break;
  }
  return tiny_windowed(c, 5);
}

static void prepare(kind k) {
  tiny_create(&models[k], create_config(k), k == EXPERTS ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32,
              bq_kernels_best(), false);
  models[k].model.file_id[0] = 1;
  for (int layer = 0; k == EXPERTS && layer < LAYERS; layer++)
    adapter[layer][BQ_ADAPTED_Q] =
        (bq_lora){tiny_vector(&models[EXPERTS], RANK * HIDDEN, 0, 0.1f),
                  tiny_vector(&models[EXPERTS], RANK * HIDDEN, 0, 0.1f), RANK, 0.5f};
  for (int kv = 0; kv < BQ_KV_COUNT; kv++) {
    static const uint32_t ids[SAVED] = {1, 2, 3, 5, 8, 13, 21, 34, 55};
    bq_session *s = open_session(k, kv);
    require(bq_session_sync(s, ids, SAVED, NULL, NULL) == BQ_OK);
    require(bq_session_run(s, 0, NULL) == BQ_OK);
    saved[k][kv].n = (size_t)bq_session_state_bytes(s);
    saved[k][kv].bytes = malloc(saved[k][kv].n);
    require(bq_session_save(s, 0, saved[k][kv].bytes, saved[k][kv].n, NULL) == BQ_OK);
    bq_session_free(s);
  }
}

static void continue_session(bq_session *s) {
  uint32_t token;
  const bq_session_stats stats = bq_session_stats_get(s);
  require(stats.tokens <= CONTEXT && stats.computed <= stats.tokens);
  if (stats.tokens == 0) return;
  require(bq_session_run(s, 0, NULL) == BQ_OK);
  bq_status status = bq_session_sample(s, NULL, NULL, &token, NULL);
  require(status == BQ_NO_TOKEN || (status == BQ_OK && token < VOCAB));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  for (int i = 0; i < KINDS; i++)
    if (!models[i].n_owned) prepare((kind)i);
  if (n < 2) return 0;
  const kind k = (kind)(data[0] >> 5 & 7) % KINDS;
  const int kv = data[0] / 2 % 8 % BQ_KV_COUNT;
  const size_t part = 1 + data[1] * 16u;
  size_t bytes = data[0] & 1 ? saved[k][kv].n : n - 2;
  uint8_t *state = malloc(bytes + 1);
  memcpy(state, data[0] & 1 ? saved[k][kv].bytes : data + 2, bytes);
  for (size_t i = 2; data[0] & 1 && i + 3 <= n; i += 3)
    state[(data[i] | (size_t)data[i + 1] << 8) % bytes] = data[i + 2];
  if (data[0] & 16 && bytes >= 8) {
    const uint64_t hash = bq_xxh64(state, bytes - 8, 0);
    memcpy(state + bytes - 8, &hash, 8);
  }
  bq_session *s = open_session(k, kv);
  bq_status status = BQ_MORE;
  for (size_t at = 0; at < bytes && status == BQ_MORE; at += part)
    status = bq_session_restore(s, state + at, bytes - at < part ? bytes - at : part, NULL);
  if (status == BQ_OK)
    continue_session(s);
  else require(bq_session_stats_get(s).tokens == 0);
  bq_session_free(s);
  free(state);
  return 0;
}
