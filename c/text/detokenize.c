#include "text/utf8.h"
#include "text/vocab.h"

/* Writes U+FFFD. */
static size_t put_replacement(char *out) {
  memcpy(out, "\xef\xbf\xbd", 3);
  return 3;
}

/* Adds one byte to the pending sequence, and writes the sequence if it is complete. As in the
 * Encoding standard's UTF-8 decoder, if a byte can't continue the pending sequence, that is
 * replaced by one U+FFFD and the byte starts a new one. Returns the number of bytes written. */
static size_t put_byte(bq_detokenizer *d, uint8_t byte, char *out) {
  size_t n = 0;
  if (d->n_pending && !bq_utf8_continues(d->pending[0], d->n_pending, byte)) {
    n += put_replacement(out);
    d->n_pending = 0;
  }
  if (!d->n_pending && !bq_utf8_length(byte)) return n + put_replacement(out + n);
  d->pending[d->n_pending++] = byte;
  if (d->n_pending < bq_utf8_length(d->pending[0])) return n;
  memcpy(out + n, d->pending, d->n_pending);
  n += d->n_pending;
  d->n_pending = 0;
  return n;
}

/* Each byte gives at most one U+FFFD, of 3 bytes, and the pending ones give one more. */
size_t bq_detokenize_limit(const bq_tokenizer *t) { return 3 * (size_t)t->longest + 3; }

size_t bq_detokenize(const bq_tokenizer *t, bq_detokenizer *d, uint32_t id, char *out) {
  size_t bytes, n = 0;
  const uint8_t *text = bq_token_bytes(t, id, &bytes);
  bool first = bytes && !d->started && !d->keep_space;
  bool drop =
      first && t->flags & (BQ_TOKENIZER_ADD_SPACE | BQ_TOKENIZER_DROP_SPACE) && text[0] == ' ';
  if (bytes) d->started = true;
  for (size_t i = drop; i < bytes; i++) n += put_byte(d, text[i], out + n);
  return n;
}

size_t bq_detokenize_end(bq_detokenizer *d, char *out) {
  if (!d->n_pending) return 0;
  d->n_pending = 0;
  return put_replacement(out);
}
