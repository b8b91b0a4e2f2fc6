/* Several texts in one forward batch (packed sequences), for their pooled vectors. Implements of
 * bq.h: bq_session_texts. In the batch, the rows of the texts follow each other. In the token array
 * and the cache, each text begins at a multiple of BQ_KV_SCALED. Attention sums in the same order
 * from each of these positions on, so a text gets the same bits as alone. */
#include <string.h>

#include "core/minmax.h"
#include "kernels/kv.h"
#include "session/sequence.h"

/* Maximum rows of a batch of texts with bidirectional attention. Such a batch is one micro-batch,
 * and more rows would not fit in the CPU's cache. */
enum { ROWS_AT_ONCE = 64 };

/* First position at which the next text may begin. */
static uint32_t next_first(uint32_t end) {
  return (end + BQ_KV_SCALED - 1) / BQ_KV_SCALED * BQ_KV_SCALED;
}

/* Whether another text fits after the texts so far, the last of which ends at `end`. */
static bool fits(const bq_session *s, uint32_t end, uint32_t length) {
  const uint32_t rows = s->sequence.texts[s->sequence.n_texts].row, first = next_first(end);
  if (s->sequence.n_texts && s->model->config.bidirectional && rows + length > ROWS_AT_ONCE)
    return false;
  return first <= s->options.prefill_window && length <= s->options.prefill_window - first;
}

static bq_status check_text(const bq_session *s, const uint32_t *tokens, uint32_t length, size_t i,
                            bq_error *err) {
  const uint32_t vocab = s->model->config.vocab;
  if (length == 0)
    return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "text %l has no tokens", (uint64_t)i);
  for (uint32_t t = 0; t < length; t++)
    if (tokens[t] >= vocab)
      return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET,
                     "token %u of text %l is outside the vocabulary of %u", tokens[t], (uint64_t)i,
                     vocab);
  return BQ_OK;
}

/* A text that is too long for one window becomes the sequence. */
static bq_status run_as_sequence(bq_session *s, const uint32_t *tokens, uint32_t length,
                                 bq_pooling how, bool normalize, bq_error *err) {
  bq_status status = bq_session_sync(s, tokens, length, NULL, err);
  return status ? status : bq_session_pool(s, how, normalize, err);
}

/* Discards the sequence or the texts of the session, and sets the requested outputs. */
static void begin_texts(bq_session *s, bq_pooling how, bool normalize, bool labels) {
  const bq_config *c = &s->model->config;
  bq_sequence_discard(s);
  s->sequence.n_tokens = s->sequence.n_draft = s->outputs.from = s->sequence.n_texts = 0;
  s->batch.head_unit = s->batch.head_at = 0;
  s->restore.bytes = 0;
  s->outputs.ready = false;
  s->outputs.pooling = how;
  s->outputs.normalize = normalize && !labels;
  s->outputs.dense = bq_config_dense_layers(c) && labels == c->labels;
  s->sequence.second = 0;
  s->sequence.texts[0] = (bq_text){0};
}

static void add_text(bq_session *s, const uint32_t *tokens, uint32_t length, uint32_t end) {
  bq_text *text = &s->sequence.texts[s->sequence.n_texts++];
  text->first = next_first(end);
  memcpy(s->sequence.tokens + text->first, tokens, length * sizeof *tokens);
  text[1] = (bq_text){text->row + length, text->first + length, 0};
}

bq_status bq_session_texts(bq_session *s, const uint32_t *tokens, const uint32_t *lengths,
                           size_t n, bq_pooling how, bool normalize, size_t *taken, bq_error *err) {
  if (n == 0) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "there are no texts");
  bool labels;
  bq_pooling pooling = how;
  bq_status status = bq_pooling_check(&s->model->config, &pooling, &labels, err);
  if (status) return status;
  *taken = 1;
  if (lengths[0] > s->options.prefill_window)
    return run_as_sequence(s, tokens, lengths[0], how, normalize, err);
  begin_texts(s, pooling, normalize, labels);
  uint32_t end = 0;
  for (size_t i = 0; i < n && fits(s, end, lengths[i]); i++) {
    status = check_text(s, tokens, lengths[i], i, err);
    if (status) break;
    add_text(s, tokens, lengths[i], end);
    end = s->sequence.texts[s->sequence.n_texts].first;
    tokens += lengths[i];
  }
  if (status) s->sequence.n_texts = 0;
  *taken = s->sequence.n_texts;
  return status;
}

bq_status bq_session_second(bq_session *s, const uint32_t *at, size_t n, bq_error *err) {
  const size_t texts = s->sequence.n_texts ? s->sequence.n_texts : 1;
  if (n != texts || s->outputs.pooling == BQ_POOL_NONE)
    return bq_fail(err, BQ_STATE, BQ_NO_OFFSET, "second parts of %l texts, expected %l",
                   (uint64_t)n, (uint64_t)texts);
  for (size_t i = 0; i < n && s->sequence.n_texts; i++) s->sequence.texts[i].second = at[i];
  if (!s->sequence.n_texts) bq_sequence_second(s, at[0]);
  return BQ_OK;
}
