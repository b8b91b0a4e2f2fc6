/* Byte-level BPE (Radford et al. 2019, GPT-2): the text is cut into words, each byte of a word is
 * a token, and the neighbours whose merge was learned first merge first. */
#include "text/merge.h"
#include "text/vocab.h"

typedef struct bpe {
  const bq_tokenizer *t;
  uint32_t *id; /* [n] of a symbol: its token */
} bpe;

static uint32_t pair_key(void *ctx, uint32_t left, uint32_t right, uint32_t end) {
  const bpe *b = ctx;
  (void)end;
  return bq_vocab_rank(b->t, b->id[left], b->id[right]);
}

static void merge_pair(void *ctx, uint32_t left, uint32_t key) {
  const bpe *b = ctx;
  b->id[left] = bq_vocab_merge(b->t, key, 2);
}

void bq_bpe_encode_word(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t *memory,
                        bq_ids *out) {
  if (t->flags & BQ_TOKENIZER_IGNORE_MERGES) {
    uint32_t whole = bq_vocab_find(t, text, n, BQ_KINDS_TEXT);
    if (whole != BQ_TOKEN_NONE) {
      bq_ids_put(out, whole);
      return;
    }
  }
  bq_merge_list l = bq_merge_list_at(memory, n);
  bpe b = {t, memory + BQ_MERGE_ARRAYS * (size_t)n};
  bq_merge_rules rules = {pair_key, merge_pair, &b};
  for (uint32_t i = 0; i < n; i++) {
    l.next[i] = i + 1;
    l.prev[i] = i ? i - 1 : 0;
    b.id[i] = t->byte[text[i]];
  }
  bq_merge_run(&l, &rules);
  for (uint32_t at = 0; at < n; at = l.next[at])
    bq_ids_put(out, b.id[at] == BQ_TOKEN_NONE ? t->info.unk : b.id[at]);
}

void bq_bpe_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *scratch,
                   bq_ids *out) {
  bq_splitter splitter;
  bq_splitter_begin(&splitter, t->split, text, bytes);
  for (size_t at = 0, end; at < bytes; at = end) {
    end = bq_splitter_next(&splitter, at);
    bq_bpe_encode_word(t, text + at, (uint32_t)(end - at), scratch, out);
  }
}
