/* Several texts in one pass of a session, for their vectors. Rows of the pass lie one text behind
 * the other; tokens and keys lie where a text alone would have them, moved as a whole to the next
 * multiple of BQ_KV_SCALED: attention adds up in the same order from any of these on, so a text
 * gets the bits that it gets alone. */
#include <string.h>

#include "core/minmax.h"
#include "kernels/kv.h"
#include "session/sequence.h"

/* Rows of a pass of texts that see what comes after them: all of a layer's products are one batch
 * then, of which more would no longer stay in a processor's cache. */
enum { ROWS_AT_ONCE = 64 };

/* Where the next text may begin. */
static uint32_t next_first(uint32_t end) {
  return (end + BQ_KV_SCALED - 1) / BQ_KV_SCALED * BQ_KV_SCALED;
}

/* Whether there is room behind the texts, the last of which ends at `end`. */
static bool fits(const bq_session *s, uint32_t end, uint32_t length) {
  const uint32_t rows = s->sequence.texts[s->sequence.n_texts].row, first = next_first(end);
  if (s->sequence.n_texts && s->model->config.bidirectional && rows + length > ROWS_AT_ONCE)
    return false;
  return first <= s->options.window && length <= s->options.window - first;
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

/* A text that no pass has room for in one window: the timeline. */
static bq_status one_text(bq_session *s, const uint32_t *tokens, uint32_t length, bq_pooling how,
                          bool normalize, bq_error *err) {
  bq_status status = bq_session_sync(s, tokens, length, NULL, err);
  return status ? status : bq_session_pool(s, how, normalize, err);
}

/* Gives up what the session held. */
static void begin(bq_session *s, bq_pooling how, bool normalize) {
  bq_sequence_discard(s);
  s->sequence.n_tokens = s->sequence.n_draft = s->outputs.from = s->sequence.n_texts = 0;
  s->batch.head_unit = s->batch.head_at = 0;
  s->restore.bytes = 0;
  s->outputs.ready = false;
  s->outputs.pooling = how;
  s->outputs.normalize = normalize;
  s->sequence.texts[0] = (bq_text){0};
}

static void take_text(bq_session *s, const uint32_t *tokens, uint32_t length, uint32_t end) {
  bq_text *text = &s->sequence.texts[s->sequence.n_texts++];
  text->first = next_first(end);
  memcpy(s->sequence.tokens + text->first, tokens, length * sizeof *tokens);
  text[1] = (bq_text){text->row + length, text->first + length};
}

bq_status bq_session_texts(bq_session *s, const uint32_t *tokens, const uint32_t *lengths,
                           size_t n, bq_pooling how, bool normalize, size_t *taken, bq_error *err) {
  if (n == 0) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "there are no texts");
  bq_status status = bq_pooling_check(how, err);
  if (status) return status;
  *taken = 1;
  if (lengths[0] > s->options.window) return one_text(s, tokens, lengths[0], how, normalize, err);
  begin(s, how, normalize);
  uint32_t end = 0;
  for (size_t i = 0; i < n && fits(s, end, lengths[i]); i++) {
    status = check_text(s, tokens, lengths[i], i, err);
    if (status) break;
    take_text(s, tokens, lengths[i], end);
    end = s->sequence.texts[s->sequence.n_texts].first;
    tokens += lengths[i];
  }
  if (status) s->sequence.n_texts = 0;
  *taken = s->sequence.n_texts;
  return status;
}
