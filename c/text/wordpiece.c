/* WordPiece (Wu et al. 2016, as in BERT): takes the longest token at the start of a word, then the
 * longest at the start of the remainder; a word that can't be segmented is unknown as a whole.
 * Word-initial tokens begin with a space, continuing ones don't. */
#include "text/utf8.h"
#include "text/vocab.h"

/* The longest token at the start of n bytes, and its length. */
static uint32_t match_longest(const bq_tokenizer *t, const uint8_t *text, uint32_t n,
                              uint32_t *length) {
  uint32_t hash[BQ_WORD_BYTES], max = n < t->longest ? n : t->longest;
  uint32_t h = BQ_HASH_START;
  for (uint32_t i = 0; i < max; i++) hash[i] = h = bq_hash_byte(h, text[i]);
  for (uint32_t bytes = max; bytes; bytes--) {
    if (bytes < n && (text[bytes] & 0xc0) == 0x80) continue; /* within a character */
    uint32_t id = bq_vocab_find_hash(t, hash[bytes - 1], text, bytes, BQ_KINDS_TEXT);
    if (id == BQ_TOKEN_NONE) continue;
    *length = bytes;
    return id;
  }
  return BQ_TOKEN_NONE;
}

static uint32_t count_characters(const uint8_t *text, size_t bytes) {
  uint32_t n = 0;
  for (size_t i = 0; i < bytes; i++) n += (text[i] & 0xc0) != 0x80;
  return n;
}

void bq_wordpiece_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, bq_ids *out) {
  uint8_t word[BQ_WORD_BYTES];
  uint32_t n = (uint32_t)bytes + 1, length = 0;
  size_t count = out->count;
  bool known = bytes < BQ_WORD_BYTES && count_characters(text, bytes) <= t->word_characters;
  if (known) {
    word[0] = ' ';
    memcpy(word + 1, text, bytes);
  }
  for (uint32_t at = 0; known && at < n; at += length) {
    uint32_t id = match_longest(t, word + at, n - at, &length);
    known = id != BQ_TOKEN_NONE && !(at == 0 && length == 1); /* the space alone is no token */
    if (known) bq_ids_put(out, id);
  }
  if (known) return;
  out->count = count;
  bq_ids_put(out, t->info.unk);
}
