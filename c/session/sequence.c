#include "session/sequence.h"

#include <string.h>

#include "core/minmax.h"
#include "session/batch.h"
#include "session/evict.h"

void bq_sequence_discard(bq_session *s) {
  bq_batch_drop(s);
  s->sequence.computed = 0;
  bq_recurrence_clear(&s->recurrence);
  bq_cache_truncate(&s->kv, 0);
  bq_eviction_reset(s);
}

static bq_status check_tokens(const bq_session *s, const uint32_t *tokens, size_t n, size_t total,
                              bq_error *err) {
  if (total > s->options.context)
    return bq_fail(err, BQ_CONTEXT_FULL, BQ_NO_OFFSET,
                   "%l tokens do not fit in the context of %u", (uint64_t)total,
                   s->options.context);
  uint32_t vocab = s->model->config.vocab;
  for (size_t i = 0; i < n; i++)
    if (tokens[i] >= vocab)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "token %u at position %l is outside the vocabulary of %u", tokens[i],
                     (uint64_t)(total - n + i), vocab);
  return BQ_OK;
}

/* Invalidates outputs after a change of the sequence: only its last token gets an output. With
 * bidirectional attention all results are discarded. */
static void sequence_changed(bq_session *s) {
  s->outputs.from = s->sequence.n_tokens - 1;
  s->batch.head_unit = s->batch.head_at = 0;
  s->outputs.ready = false;
  s->outputs.pooling = BQ_POOL_NONE;
  s->restore.bytes = 0;
  bq_batch_split(s);
  if (s->sequence.n_texts) bq_batch_drop(s);
  s->sequence.n_texts = 0;
  if (s->model->config.bidirectional) bq_sequence_discard(s);
}

/* Schedules all positions from `position` on for recomputation. */
static void recompute_from(bq_session *s, uint32_t position) {
  if (s->model->config.bidirectional) position = 0;
  if (s->sequence.computed <= position) return;
  bq_batch_drop(s);
  position = bq_recurrence_floor(&s->recurrence, position);
  /* Blocks that positions from `position` on attend to have been freed (sliding window) or evicted:
   * recompute from the start. */
  if (position < s->eviction.scored || !bq_cache_holds(&s->kv, position)) {
    bq_sequence_discard(s);
    return;
  }
  s->sequence.computed = position;
  bq_recurrence_truncate(&s->recurrence, position);
  bq_cache_truncate(&s->kv, position);
}

void bq_draft_discard(bq_session *s) {
  if (s->sequence.n_draft == 0) return;
  s->sequence.n_draft = 0;
  if (s->part.owner && s->part.start + s->part.length > s->sequence.n_tokens) bq_batch_drop(s);
  if (s->recurrence.floats) recompute_from(s, s->sequence.n_tokens);
  s->sequence.computed = bq_sequence_complete(s);
}

/* --- weights and token types ------------------------------------------------------------------ */

/* Discards everything that was computed with other weights. */
static void discard_all(bq_session *s) {
  bq_draft_discard(s);
  s->outputs.ready = false;
  s->restore.bytes = 0;
  bq_sequence_discard(s);
}

void bq_session_set_key(bq_session *s, uint64_t key) {
  if (key == s->key) return;
  discard_all(s);
  s->key = key;
}

void bq_sequence_second(bq_session *s, uint32_t at) {
  if (at == s->sequence.second) return;
  discard_all(s);
  s->sequence.second = at;
}

bq_status bq_session_skip(bq_session *s, const uint32_t *layers, size_t n, bq_error *err) {
  bq_layer_set set = {0};
  for (size_t i = 0; i < n; i++) {
    if (layers[i] >= s->model->config.layers)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "there is no layer %u to be left out, the model has %u", layers[i],
                     s->model->config.layers);
    set.bits[layers[i] / 32] |= 1u << layers[i] % 32;
  }
  for (uint32_t i = 0; i < s->model->config.layers; i++) {
    const uint32_t kv = s->model->layers[i].kv;
    if (kv != i && bq_layer_set_has(&set, kv) && !bq_layer_set_has(&set, i))
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "layer %u can't be left out: layer %u attends to its keys and values", kv, i);
  }
  if (memcmp(&set, &s->skipped, sizeof set) != 0) discard_all(s);
  s->skipped = set;
  return BQ_OK;
}

void bq_session_clusters(bq_session *s, bool on) {
  if (s->outputs.approximate == on || !(s->options.head > 0)) return;
  s->outputs.approximate = on;
  if (s->sequence.n_tokens) bq_sequence_recompute_last(s);
}

/* --- tokens ----------------------------------------------------------------------------------- */

void bq_sequence_recompute_last(bq_session *s) {
  if (s->sequence.n_tokens == 0) return;
  bq_draft_discard(s);
  sequence_changed(s);
  recompute_from(s, s->outputs.from);
}

bq_status bq_session_sync(bq_session *s, const uint32_t *tokens, size_t n, size_t *kept,
                          bq_error *err) {
  if (n == 0) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "no tokens to sync to");
  bq_status status = check_tokens(s, tokens, n, n, err);
  if (status != BQ_OK) return status;

  bq_draft_discard(s);
  bq_sequence_second(s, 0);
  uint32_t common = 0, limit = bq_min32(s->sequence.n_tokens, (uint32_t)n);
  while (common < limit && s->sequence.tokens[common] == tokens[common]) common++;

  bool unchanged = common == n && n == s->sequence.n_tokens;
  memcpy(s->sequence.tokens + common, tokens + common, (n - common) * sizeof *tokens);
  s->sequence.n_tokens = (uint32_t)n;
  recompute_from(s, common);
  /* An open batch survives only if the new sequence still contains all of its part. */
  if (s->part.owner && common < s->part.start + s->part.length) bq_batch_drop(s);
  if (!unchanged) sequence_changed(s);
  if (!s->outputs.ready) recompute_from(s, s->outputs.from);
  bq_cache_truncate(&s->kv, s->part.owner ? s->part.start + s->part.length : s->sequence.computed);
  if (kept) *kept = s->sequence.computed;
  return BQ_OK;
}

bq_status bq_session_append(bq_session *s, uint32_t token, bq_error *err) {
  bq_status status = check_tokens(s, &token, 1, (size_t)s->sequence.n_tokens + 1, err);
  if (status != BQ_OK) return status;
  if (s->sequence.n_draft && s->outputs.ready &&
      s->sequence.tokens[s->sequence.n_tokens] == token) {
    s->sequence.n_tokens++;
    s->sequence.n_draft--;
    return BQ_OK;
  }
  bq_draft_discard(s);
  s->sequence.tokens[s->sequence.n_tokens++] = token;
  sequence_changed(s);
  return BQ_OK;
}

/* Number of draft tokens for which a run can compute logits. Draft tokens must not need a block of
 * the cache that the sequence doesn't have yet, so that no other session lacks it. */
static uint32_t draft_room(const bq_session *s) {
  const uint32_t left = s->options.context - s->sequence.n_tokens;
  const uint32_t in_block = (BQ_KV_BLOCK - s->sequence.n_tokens % BQ_KV_BLOCK) % BQ_KV_BLOCK;
  if (bq_sequence_pending(s) == 0 || s->sequence.n_tokens - s->outputs.from != 1 ||
      bq_outputs_hidden_states(s) || s->model->config.bidirectional)
    return 0;
  return bq_min32(bq_min32(left, in_block), s->options.rows - 1);
}

bq_status bq_session_draft(bq_session *s, const uint32_t *tokens, size_t n, size_t *taken,
                           bq_error *err) {
  if (s->sequence.n_texts)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "a session of separate texts takes no draft");
  bq_draft_discard(s);
  const uint32_t room = s->sequence.n_tokens ? draft_room(s) : 0;
  if (n > room) n = room;
  bq_status status = check_tokens(s, tokens, n, s->sequence.n_tokens + n, err);
  if (status != BQ_OK) return status;
  memcpy(s->sequence.tokens + s->sequence.n_tokens, tokens, n * sizeof *tokens);
  s->sequence.n_draft = (uint32_t)n;
  if (n) bq_batch_split(s);
  *taken = n;
  return BQ_OK;
}

/* --- requested outputs ------------------------------------------------------------------------ */

/* Requests outputs from position `from` on, or a pooled vector of them. */
static void request_outputs(bq_session *s, uint32_t from, bq_pooling pooling, bool normalize,
                            bool dense) {
  const bool common = s->outputs.from == from && s->outputs.pooling == pooling &&
                    s->outputs.normalize == normalize && s->outputs.dense == dense;
  if (s->outputs.ready && common) return;
  s->outputs.from = from;
  s->outputs.pooling = pooling;
  s->outputs.normalize = normalize;
  s->outputs.dense = dense;
  s->batch.head_unit = s->batch.head_at = 0;
  s->outputs.ready = false;
  bq_batch_split(s);
  recompute_from(s, from);
}

bq_status bq_session_request_outputs(bq_session *s, uint32_t from, bq_error *err) {
  if (from >= s->sequence.n_tokens || s->sequence.n_tokens - from > s->options.rows)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                   "results from position %u on, of %u tokens: the session was made for 1 to %u",
                   from, s->sequence.n_tokens, s->options.rows);
  bq_draft_discard(s);
  request_outputs(s, from, BQ_POOL_NONE, false, false);
  return BQ_OK;
}

bq_status bq_pooling_check(const bq_config *c, bq_pooling *how, bool *labels, bq_error *err) {
  *labels = *how == BQ_POOL_LABELS;
  if (*labels && !c->labels)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "the model has no labels");
  if (*labels) *how = c->pooling ? c->pooling : BQ_POOL_CLS;
  if (*how == BQ_POOL_MEAN || *how == BQ_POOL_CLS || *how == BQ_POOL_LAST) return BQ_OK;
  return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "unknown pooling %u", (uint32_t)*how);
}

bq_status bq_session_pool(bq_session *s, bq_pooling how, bool normalize, bq_error *err) {
  const bq_config *c = &s->model->config;
  bool labels;
  bq_status status = bq_pooling_check(c, &how, &labels, err);
  if (status) return status;
  if (s->sequence.n_tokens == 0)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "the session has no tokens to pool");
  bq_draft_discard(s);
  request_outputs(s, how == BQ_POOL_LAST ? s->sequence.n_tokens - 1 : 0, how, normalize && !labels,
                  bq_config_dense_layers(c) && labels == c->labels);
  return BQ_OK;
}
