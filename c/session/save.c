/* Saved sessions: a sequence and its KV cache as bytes. Implements of bq.h: bq_session_state_bytes,
 * save, restore.
 *
 *   head    128 bytes, below
 *   tokens  u32 [tokens], zeros up to a multiple of 64
 *   sinks   f32, as in the session, if any position is computed
 *   attention, if eviction is by attention (evict.c) and a position is computed: `totals`, then
 *           `by_query`, [computed - scored][groups], zeros up to a multiple of 64
 *   states  of recurrent layers (recurrence.h), f32: the snapshot after STATES positions, if there
 *           is one, and the one after all computed positions; zeros up to a multiple of 64
 *   blocks  of each layer, those that the next positions attend to: from `computed` on, or from
 *           `computed` - 1 on if all tokens are computed (cache.h)
 *   hash    u64, XXH64 of all bytes before it. It detects damage, not forgery: all numbers that
 *           address memory are checked as well
 *
 * Numbers are little-endian; the layout of blocks is in kernels/kv.h. Positions of the last block
 * that are not computed are zeros, and so are blocks of skipped layers. So the bytes depend only on
 * the sequence, the model and the cache type, and not on the session's context or its earlier
 * sequences. */
#include <string.h>

#include "core/cursor.h"
#include "core/hash.h"
#include "session/evict.h"
#include "session/sequence.h"

enum { HEAD = BQ_STATE_HEAD, HASH = BQ_STATE_HASH, LAYOUT = 4, ID = BQ_FILE_ID_BYTES };
/* Offsets in the head. The fields between them are u32. */
enum {
  MAGIC = 0,
  VERSION = 4,
  FILE_ID = 8,
  FACTS = FILE_ID + ID,
  TOKENS = 56,
  COMPUTED = 60,
  KEY = 64,
  KV_WINDOW = 72,
  SINKS = 76,
  SKIPPED = 80, /* a hash of the set of skipped layers; 0: none is skipped */
  EVICT = 88,
  KEYS_END = 92,
  SCORED = 92,
  STATES = 96 /* positions of an earlier snapshot of recurrent layers; 0: none is saved */
};
enum { N_FACTS = (TOKENS - FACTS) / 4 };

static void put32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* Names of the facts that determine the layout of blocks. They must be equal in both sessions. */
static const char *const fact_names[N_FACTS] = {"KV cache type",
                                                "number of layers",
                                                "KV heads",
                                                "size of a head",
                                                "block of positions",
                                                "window",
                                                "rotations for sessions above",
                                                "type of activations"};

static void facts_of(const bq_session *s, uint32_t facts[N_FACTS]) {
  const bq_config *c = &s->model->config;
  const bool rotates_long = bq_config_long(c, bq_attention_span(&s->options));
  const uint32_t list[N_FACTS] = {(uint32_t)s->options.kv_type, c->layers, c->kv_heads,
                                  c->head_dim, BQ_KV_BLOCK, c->window,
                                  rotates_long ? c->rope_original : 0,
                                  (uint32_t)s->options.activations};
  memcpy(facts, list, sizeof list);
}

static void put64(uint8_t *p, uint64_t v) {
  put32(p, (uint32_t)v);
  put32(p + 4, (uint32_t)(v >> 32));
}


static uint64_t skipped_of(const bq_session *s) {
  const bq_layer_set none = {0};
  if (memcmp(&s->skipped, &none, sizeof none) == 0) return 0;
  return bq_xxh64((const uint8_t *)s->skipped.bits, sizeof s->skipped.bits, 0);
}

/* Number of positions that are saved. It is 0 until all sinks are computed. */
static uint32_t computed_of(const bq_session *s) {
  const uint32_t computed = bq_recurrence_floor(&s->recurrence, bq_sequence_complete(s));
  return computed < bq_moved_sinks(&s->options) ? 0 : computed;
}

static void make_head(const bq_session *s, uint8_t head[HEAD]) {
  uint32_t facts[N_FACTS];
  facts_of(s, facts);
  memset(head, 0, HEAD);
  memcpy(head + MAGIC, "BQ4S", 4);
  put32(head + VERSION, LAYOUT);
  memcpy(head + FILE_ID, s->model->file_id, ID);
  for (int i = 0; i < N_FACTS; i++) put32(head + FACTS + 4 * i, facts[i]);
  put32(head + TOKENS, s->sequence.n_tokens);
  put32(head + COMPUTED, computed_of(s));
  put64(head + KEY, s->key);
  put64(head + SKIPPED, skipped_of(s));
  put32(head + KV_WINDOW, s->options.kv_window);
  put32(head + SINKS, s->options.sinks);
  put32(head + EVICT, (uint32_t)s->options.evict);
  put32(head + SCORED, s->eviction.scored);
  put32(head + STATES, bq_recurrence_saved_block(&s->recurrence, computed_of(s)));
}

/* Whether `scored` is possible. The last token's attention isn't accumulated, because it is
 * recomputed after restore. */
static bool scored_fits(const bq_session *s, uint32_t scored, uint32_t computed, uint32_t tokens) {
  const uint32_t max_scored = computed && computed == tokens ? computed - 1 : computed;
  if (!s->options.evict) return scored == 0;
  return scored % BQ_KV_BLOCK == 0 && scored <= max_scored && computed - scored <= BQ_KV_BLOCK;
}

static bq_status check_head(const bq_session *s, const uint8_t head[HEAD], bq_error *err) {
  uint32_t facts[N_FACTS];
  facts_of(s, facts);
  if (memcmp(head + MAGIC, "BQ4S", 4) != 0)
    return bq_fail(err, BQ_FORMAT, MAGIC, "the bytes are no saved session");
  if (bq_load32(head + VERSION) != LAYOUT)
    return bq_fail(err, BQ_UNSUPPORTED, VERSION,
                   "the session was saved by another version (layout %u, not %u): save it again",
                   bq_load32(head + VERSION), (uint32_t)LAYOUT);
  if (memcmp(head + FILE_ID, s->model->file_id, ID) != 0)
    return bq_fail(err, BQ_MISMATCH, FILE_ID, "the session was saved with another model");
  for (int i = 0; i < N_FACTS; i++)
    if (bq_load32(head + FACTS + 4 * i) != facts[i])
      return bq_fail(err, BQ_MISMATCH, (uint64_t)(FACTS + 4 * i),
                     "the session was saved with %s %u, this one has %u", fact_names[i],
                     bq_load32(head + FACTS + 4 * i), facts[i]);
  uint8_t own[HEAD];
  make_head(s, own);
  if (memcmp(head + KEY, own + KEY, KEYS_END - KEY) != 0)
    return bq_fail(err, BQ_MISMATCH, KEY,
                   "the session was saved under another key (adapter, KV window, sinks, eviction, "
                   "layers)");
  const uint32_t tokens = bq_load32(head + TOKENS), computed = bq_load32(head + COMPUTED);
  if (tokens > s->options.context)
    return bq_fail(err, BQ_CONTEXT_FULL, TOKENS,
                   "the %u tokens of the saved session do not fit in the context of %u", tokens,
                   s->options.context);
  if (computed > tokens)
    return bq_fail(err, BQ_FORMAT, COMPUTED, "%u positions are computed of %u tokens", computed,
                   tokens);
  const uint32_t states = bq_load32(head + STATES);
  if (states && (!s->recurrence.floats || !computed ||
                 states != (computed - 1) / BQ_KV_BLOCK * BQ_KV_BLOCK))
    return bq_fail(err, BQ_FORMAT, STATES,
                   "a snapshot after %u positions does not fit %u computed ones", states, computed);
  const uint32_t scored = bq_load32(head + SCORED);
  if (scored_fits(s, scored, computed, tokens)) return BQ_OK;
  return bq_fail(err, BQ_FORMAT, SCORED,
                 "the attention of %u positions is added up, of %u that are computed", scored,
                 computed);
}

/* --- layout of a state ------------------------------------------------------------------------ */

static uint64_t sinks_at(uint32_t tokens) { /* offset of the sinks */
  return ((uint64_t)HEAD + 4 * (uint64_t)tokens + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
}

static uint64_t attention_at(const bq_session *s, uint32_t tokens, uint32_t computed) {
  return sinks_at(tokens) + (computed ? bq_sinks_floats(s) * sizeof *s->sink_cache.kv : 0);
}
static uint64_t totals_bytes(const bq_session *s, uint32_t computed) {
  return computed ? bq_eviction_groups(&s->options) * sizeof *s->eviction.totals : 0;
}
static uint64_t by_query_bytes(const bq_session *s, uint32_t computed) {
  return (uint64_t)(computed - s->eviction.scored) * bq_eviction_groups(&s->options) *
         sizeof *s->eviction.by_query;
}

static uint64_t aligned(uint64_t bytes) { return (bytes + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN; }

/* Offset of the states of recurrent layers. */
static uint64_t states_at(const bq_session *s, uint32_t tokens, uint32_t computed) {
  return attention_at(s, tokens, computed) +
         aligned(totals_bytes(s, computed) + by_query_bytes(s, computed));
}
static uint64_t states_bytes(const bq_session *s, uint32_t computed) {
  const bool block = bq_recurrence_saved_block(&s->recurrence, computed) > 0;
  const uint64_t snapshots = (computed > 0) + block;
  return snapshots * s->recurrence.floats * sizeof(float);
}

/* Offset of the first block. */
static uint64_t blocks_at(const bq_session *s, uint32_t tokens, uint32_t computed) {
  return states_at(s, tokens, computed) + aligned(states_bytes(s, computed));
}

static uint64_t hash_at(const bq_session *s, uint32_t tokens, uint32_t computed) {
  return blocks_at(s, tokens, computed) +
         bq_cache_saved_bytes(&s->kv, computed, tokens);
}

uint64_t bq_session_state_bytes(const bq_session *s) {
  return hash_at(s, s->sequence.n_tokens, computed_of(s)) + HASH;
}

/* A run of bytes of the state that is contiguous in the session. */
typedef struct piece {
  uint8_t *data;
  uint64_t bytes;
  uint32_t zeros; /* of a block: its last `zeros` positions are not computed */
  uint32_t layer; /* of the block */
  size_t in;      /* index of the first byte in the block */
} piece;

/* The states from `in` bytes on. */
static piece states_piece(const bq_session *s, uint32_t computed, uint64_t in) {
  const uint64_t bytes = s->recurrence.floats * sizeof(float);
  const uint32_t block = bq_recurrence_saved_block(&s->recurrence, computed);
  const uint32_t position = block && in < bytes ? block : computed;
  float *states = bq_recurrence_find(&s->recurrence, position);
  bq_assert(states);
  return (piece){.data = (uint8_t *)states + in % bytes, .bytes = bytes - in % bytes};
}

/* The run that begins at offset `at` of the state. `ends` is the memory of the head and the hash;
 * `padding` has BQ_ALIGN bytes. */
static piece piece_at(const bq_session *s, uint32_t tokens, uint32_t computed, uint64_t at,
                      uint8_t *ends, uint8_t *padding) {
  const uint64_t tokens_end = HEAD + 4 * (uint64_t)tokens, padded = sinks_at(tokens);
  const uint64_t first = blocks_at(s, tokens, computed);
  if (at < HEAD) return (piece){.data = ends + at, .bytes = HEAD - at};
  if (at < tokens_end)
    return (piece){.data = (uint8_t *)s->sequence.tokens + (at - HEAD), .bytes = tokens_end - at};
  if (at < padded) return (piece){.data = padding, .bytes = padded - at};
  const uint64_t sinks_end = attention_at(s, tokens, computed);
  const uint64_t totals_end = sinks_end + totals_bytes(s, computed);
  const uint64_t by_query_end = totals_end + by_query_bytes(s, computed);
  if (at < sinks_end)
    return (piece){.data = (uint8_t *)s->sink_cache.kv + (at - padded), .bytes = sinks_end - at};
  if (at < totals_end)
    return (piece){.data = (uint8_t *)s->eviction.totals + (at - sinks_end),
                   .bytes = totals_end - at};
  if (at < by_query_end)
    return (piece){.data = (uint8_t *)s->eviction.by_query + (at - totals_end),
                   .bytes = by_query_end - at};
  const uint64_t states = states_at(s, tokens, computed);
  const uint64_t states_end = states + states_bytes(s, computed);
  if (at < states) return (piece){.data = padding, .bytes = states - at};
  if (at < states_end) return states_piece(s, computed, at - states);
  if (at < first) return (piece){.data = padding, .bytes = first - at};
  const uint64_t hash = hash_at(s, tokens, computed);
  if (at >= hash) return (piece){.data = ends + HEAD + (at - hash), .bytes = HASH - (at - hash)};
  const bq_saved_block b = bq_cache_block(&s->kv, computed, tokens, at - first);
  const bool skipped = bq_layer_set_has(&s->skipped, b.layer);
  return (piece){b.data + b.in, b.bytes - b.in, skipped ? BQ_KV_BLOCK : b.rest, b.layer, b.in};
}

/* --- save ------------------------------------------------------------------------------------- */

/* A copy of a block with zeros at its last positions. */
static uint8_t *cleared_copy(const bq_session *s, uint32_t layer, const uint8_t *block,
                             uint32_t last) {
  const bq_config *c = &s->model->config;
  const uint32_t size_class = bq_kv_class_of(c, layer);
  const size_t place = BQ_KV_BLOCK - last, dim = bq_config_head_dim(c, size_class);
  uint8_t *copy = s->kv.pool->spare;
  float *zeros = s->scratch.buffer[BQ_BUFFER_K]; /* [batch][kv_heads * head_dim], unused between
                                                    work units */
  memcpy(copy, block, s->kv.pool->classes[size_class].block_bytes);
  memset(zeros, 0, dim * sizeof *zeros);
  for (uint32_t h = 0; h < bq_config_kv_heads(c, size_class); h++) {
    const bq_kv_view view = {&copy, h * s->kv.head_bytes[size_class], dim};
    s->model->kernels->kv_store[s->options.kv_type](&view, place, last, zeros, zeros, 0);
  }
  return copy;
}

/* The saved bytes at one offset, valid until the next call. */
static piece saved_at(const bq_session *s, uint64_t at, uint8_t *ends, uint8_t *padding) {
  piece p = piece_at(s, s->sequence.n_tokens, computed_of(s), at, ends, padding);
  if (p.zeros) p.data = cleared_copy(s, p.layer, p.data - p.in, p.zeros) + p.in;
  return p;
}

static uint64_t hash_of(const bq_session *s, uint64_t bytes, uint8_t *ends, uint8_t *padding) {
  bq_xxh64_state hash;
  bq_xxh64_begin(&hash, 0);
  for (uint64_t at = 0; at < bytes;) {
    const piece p = saved_at(s, at, ends, padding);
    bq_xxh64_add(&hash, p.data, (size_t)p.bytes);
    at += p.bytes;
  }
  return bq_xxh64_end(&hash);
}

bq_status bq_session_save(const bq_session *s, uint64_t at, uint8_t *out, size_t n, bq_error *err) {
  const uint64_t total = bq_session_state_bytes(s);
  uint8_t ends[HEAD + HASH], padding[BQ_ALIGN] = {0};
  if (!bq_model_file_id(s->model))
    return bq_fail(err, BQ_UNSUPPORTED, BQ_NO_OFFSET,
                   "the model's file has no id, by which a saved session would be known to belong "
                   "to it");
  if (at > total || n > total - at)
    return bq_fail(err, BQ_ARGUMENT, at, "a saved session of %l bytes has no %l at %l", total,
                   (uint64_t)n, at);
  make_head(s, ends);
  if (at + n > total - HASH) put64(ends + HEAD, hash_of(s, total - HASH, ends, padding));
  while (n > 0) {
    const piece p = saved_at(s, at, ends, padding);
    const size_t count = p.bytes < n ? (size_t)p.bytes : n;
    memcpy(out, p.data, count);
    out += count;
    at += count;
    n -= count;
  }
  return BQ_OK;
}

/* --- restore ---------------------------------------------------------------------------------- */

/* Empties the session: it has no tokens until the state is complete. */
static void begin_restore(bq_session *s) {
  s->sequence.n_tokens = s->sequence.n_draft = s->sequence.n_texts = 0;
  s->outputs.ready = false;
  bq_sequence_discard(s);
  bq_xxh64_begin(&s->restore.hash, 0);
}

static bq_status fail_restore(bq_session *s, bq_status status) {
  s->restore.bytes = 0;
  bq_sequence_discard(s);
  return status;
}

static bq_status end_restore(bq_session *s, bq_error *err) {
  const uint32_t tokens = bq_load32(s->restore.ends + TOKENS), vocab = s->model->config.vocab;
  if (bq_load64(s->restore.ends + HEAD) != bq_xxh64_end(&s->restore.hash))
    return fail_restore(s, bq_fail(err, BQ_FORMAT, BQ_NO_OFFSET,
                           "the saved session is damaged, its bytes have another hash: fetch it "
                           "again, or save it again"));
  for (uint32_t i = 0; i < tokens; i++)
    if (s->sequence.tokens[i] >= vocab)
      return fail_restore(s, bq_fail(err, BQ_FORMAT, HEAD + 4 * (uint64_t)i,
                             "token %u at position %u is outside the vocabulary of %u",
                             s->sequence.tokens[i], i, vocab));
  s->restore.bytes = 0;
  s->sequence.n_tokens = tokens;
  s->sequence.computed = bq_load32(s->restore.ends + COMPUTED);
  bq_sequence_recompute_last(s);
  return BQ_OK;
}

/* Checks the head when it has arrived, and allocates the blocks that follow. */
static bq_status allocate_blocks(bq_session *s, bq_error *err) {
  bq_status status = check_head(s, s->restore.ends, err);
  if (status) return fail_restore(s, status);
  bq_eviction_resume(s, bq_load32(s->restore.ends + SCORED));
  bq_recurrence_fill(&s->recurrence, bq_load32(s->restore.ends + STATES),
                     bq_load32(s->restore.ends + COMPUTED));
  status = bq_cache_fill(&s->kv, bq_load32(s->restore.ends + COMPUTED),
                         bq_load32(s->restore.ends + TOKENS), err);
  return status ? fail_restore(s, status) : BQ_OK;
}

bq_status bq_session_restore(bq_session *s, const uint8_t *bytes, size_t n, bq_error *err) {
  uint8_t padding[BQ_ALIGN];
  if (s->restore.bytes == 0) begin_restore(s);
  for (uint64_t total = UINT64_MAX;;) {
    uint32_t tokens = 0, computed = 0;
    if (s->restore.bytes >= HEAD) {
      tokens = bq_load32(s->restore.ends + TOKENS);
      computed = bq_load32(s->restore.ends + COMPUTED);
      total = hash_at(s, tokens, computed) + HASH;
    }
    if (s->restore.bytes == total && n == 0) return end_restore(s, err);
    if (s->restore.bytes == total)
      return fail_restore(s, bq_fail(err, BQ_FORMAT, total, "%l bytes follow the saved session",
                             (uint64_t)n));
    if (n == 0) return BQ_MORE;
    const piece p = piece_at(s, tokens, computed, s->restore.bytes, s->restore.ends, padding);
    const size_t count = p.bytes < n ? (size_t)p.bytes : n;
    memcpy(p.data, bytes, count);
    if (s->restore.bytes < total - HASH) bq_xxh64_add(&s->restore.hash, bytes, count);
    bytes += count;
    n -= count;
    const bool opens = s->restore.bytes < HEAD && s->restore.bytes + count == HEAD;
    s->restore.bytes += count;
    bq_status status = opens ? allocate_blocks(s, err) : BQ_OK;
    if (status) return status;
  }
}
