/* Several texts in one pass of a session, for their vectors. Rows of the pass lie one text behind
 * the other; tokens and keys lie where a text alone would have them, moved as a whole to the next
 * multiple of BQ_KV_SCALED: attention adds up in the same order from any of these on, so a text
 * gets the bits that it gets alone. */
#include <string.h>

#include "core/minmax.h"
#include "kernels/kv.h"
#include "session/session.h"

/* Rows of a pass of texts that see what comes after them: all of a layer's products are one batch
 * then, of which more would no longer stay in a processor's cache. */
enum { ROWS_AT_ONCE = 64 };

uint32_t bq_texts_most(const bq_session_options *o) {
  return (o->window + BQ_KV_SCALED - 1) / BQ_KV_SCALED;
}

bq_row bq_text_row(const bq_session *s, uint32_t row) {
  uint32_t i = s->n_texts;
  while (s->texts[--i].row > row) continue;
  const bq_text *text = &s->texts[i];
  return (bq_row){s->members[0].s, text->first, row - text->row, text[1].row - row};
}

/* Where the next text may begin. */
static uint32_t next_first(uint32_t end) {
  return (end + BQ_KV_SCALED - 1) / BQ_KV_SCALED * BQ_KV_SCALED;
}

/* Whether there is room behind the texts, the last of which ends at `end`. */
static bool fits(const bq_session *s, uint32_t end, uint32_t length) {
  const uint32_t rows = s->texts[s->n_texts].row, first = next_first(end);
  if (s->n_texts && s->model->config.bidirectional && rows + length > ROWS_AT_ONCE) return false;
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
  bq_session_clear(s);
  s->n_tokens = s->n_draft = s->from = s->n_texts = 0;
  s->head_unit = s->head_at = 0;
  s->restored = 0;
  s->has_results = false;
  s->pooling = how;
  s->normalize = normalize;
  s->texts[0] = (bq_text){0};
}

static void take_text(bq_session *s, const uint32_t *tokens, uint32_t length, uint32_t end) {
  bq_text *text = &s->texts[s->n_texts++];
  text->first = next_first(end);
  memcpy(s->tokens + text->first, tokens, length * sizeof *tokens);
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
    end = s->texts[s->n_texts].first;
    tokens += lengths[i];
  }
  if (status) s->n_texts = 0;
  *taken = s->n_texts;
  return status;
}
