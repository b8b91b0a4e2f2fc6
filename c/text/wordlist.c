/* Word list: repeatedly takes the longest token at the current position. A character that begins no
 * token becomes its byte tokens, if there are any, else unknown. */
#include "text/utf8.h"
#include "text/vocab.h"

static uint32_t put_unknown(const bq_tokenizer *t, const uint8_t *text, size_t bytes, bq_ids *out) {
  if (t->byte[text[0]] != BQ_TOKEN_NONE) {
    bq_ids_put(out, t->byte[text[0]]);
    return 1;
  }
  uint32_t code_point;
  bq_ids_put(out, t->info.unk);
  return bq_utf8_decode(text, bytes, &code_point);
}

void bq_wordlist_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, bq_ids *out) {
  for (size_t at = 0; at < bytes;) {
    uint32_t length = 0;
    uint32_t id = bq_vocab_match(t, text + at, bytes - at, BQ_KINDS_TEXT, &length);
    if (id == BQ_TOKEN_NONE) length = put_unknown(t, text + at, bytes - at, out);
    else bq_ids_put(out, id);
    at += length;
  }
}
