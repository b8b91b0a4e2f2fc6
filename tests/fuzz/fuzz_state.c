/* Any bytes as a saved session, and one that was saved, with any of its bytes changed, before its
 * hash is made or after. What is accepted is computed on.
 *
 * input: u8 mode, u8 size of the pieces. Mode bit 0: patches follow, u16 offset and u8 value each;
 * else the bytes themselves. Bits 1 to 3: the type of the cache. Bit 4: the hash is right. Bits 5
 * to 7: the model (enum kind). */
#include <stdlib.h>

#include "session/session.h"
#include "tiny_configs.h"
#include "tiny_model.h"

/* Models by what their layers keep of a sequence: from CONVOLUTION to MAMBA_BESIDE the first layer
 * has a recurrent state, in LAYERED layers share keys and values. EXPERTS has an adapter for its
 * queries, too. */
typedef enum kind { DENSE, EXPERTS, CONVOLUTION, DELTA, MAMBA, MAMBA_BESIDE, LAYERED, KINDS } kind;
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

static void *take(void *ctx, size_t bytes) {
  (void)ctx;
  return tiny_aligned(bytes);
}
static void give(void *ctx, void *ptr) {
  (void)ctx;
  free(ptr);
}

static bq_session *open_session(kind which, int kv) {
  bq_session *s;
  bq_session_options o = {.kv_type = (bq_kv_type)kv, .context = CONTEXT};
  require(bq_session_create(&models[which].model, &o, (bq_allocator){NULL, take, give}, &s, NULL) ==
          BQ_OK);
  if (which == EXPERTS) require(bq_session_set_adapter(s, &adapter[0][0], 5, NULL) == BQ_OK);
  return s;
}

static bq_config config_of(kind which) {
  bq_config c = {.layers = LAYERS,
                 .hidden = HIDDEN,
                 .heads = 2,
                 .kv_heads = 2,
                 .head_dim = HIDDEN / 2,
                 .ffn = 16,
                 .vocab = VOCAB,
                 .context = CONTEXT,
                 .gated = which != DENSE};
  switch (which) {
    case CONVOLUTION: return tiny_convolving(c);
    case DELTA: return tiny_delta(c);
    case MAMBA: return tiny_mamba(c, false);
    case MAMBA_BESIDE: return tiny_mamba(c, true);
    case LAYERED: return tiny_layered(c, 5);
    case EXPERTS: c.experts = 4, c.experts_used = 2, c.expert_ffn = 8; break;
    case DENSE:
    case KINDS: break;
  }
  return tiny_windowed(c, 5);
}

static void prepare(kind which) {
  tiny_create(&models[which], config_of(which), which == EXPERTS ? BQ_TYPE_BQ4_32 : BQ_TYPE_F32,
              bq_kernels_best(), false);
  models[which].model.file_id[0] = 1;
  for (int layer = 0; which == EXPERTS && layer < LAYERS; layer++)
    adapter[layer][BQ_ADAPTED_Q] =
        (bq_lora){tiny_vector(&models[EXPERTS], RANK * HIDDEN, 0, 0.1f),
                  tiny_vector(&models[EXPERTS], RANK * HIDDEN, 0, 0.1f), RANK, 0.5f};
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
  for (int i = 0; i < KINDS; i++)
    if (!models[i].n_owned) prepare((kind)i);
  if (n < 2) return 0;
  const kind which = (kind)(data[0] >> 5 & 7) % KINDS;
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
