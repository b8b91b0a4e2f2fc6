/* Byte-level BPE (Radford et al. 2019, GPT-2): text is split into words, each byte of a word is a
 * token, and adjacent tokens are merged in the order in which their merges were learned. */
#include "text/merge.h"
#include "text/utf8.h"
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

/* Makes a symbol of each byte. A byte without a token is dropped if there is no unknown token
 * either: its neighbours become adjacent, as in Hugging Face's tokenizers. */
static void split_bytes(bpe *b, bq_merge_list *l, const uint8_t *text) {
  uint32_t symbols = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    uint32_t id = b->t->byte[text[i]];
    if (id == BQ_TOKEN_NONE && b->t->info.unk == BQ_TOKEN_NONE) continue;
    l->next[symbols] = symbols + 1;
    l->prev[symbols] = symbols ? symbols - 1 : 0;
    b->id[symbols++] = id;
  }
  l->n = symbols;
}

/* Makes a symbol of each character; one that is no token becomes its bytes, if each has a token. */
static void split_characters(bpe *b, bq_merge_list *l, const uint8_t *text) {
  uint32_t before = 0;
  for (uint32_t at = 0; at < l->n;) {
    uint32_t code_point, length = bq_utf8_decode(text + at, l->n - at, &code_point);
    uint32_t id = bq_vocab_find(b->t, text + at, length, BQ_KINDS_TEXT);
    bool fall_back = id == BQ_TOKEN_NONE && b->t->flags & BQ_TOKENIZER_BYTE_FALLBACK;
    for (uint32_t i = 0; i < length; i++) fall_back &= b->t->byte[text[at + i]] != BQ_TOKEN_NONE;
    for (uint32_t end = at + length, step = fall_back ? 1 : length; at < end; at += step) {
      l->next[at] = at + step;
      l->prev[at] = before;
      b->id[at] = fall_back ? b->t->byte[text[at]] : id;
      before = at;
    }
  }
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
  if (t->flags & BQ_TOKENIZER_CHARACTERS) split_characters(&b, &l, text);
  else split_bytes(&b, &l, text);
  bq_merge_run(&l, &rules);
  bool fuse = t->flags & BQ_TOKENIZER_FUSE_UNKNOWN, unknown = false;
  for (uint32_t at = 0; at < l.n; at = l.next[at]) {
    bool known = b.id[at] != BQ_TOKEN_NONE;
    if (known || !(fuse && unknown)) bq_ids_put(out, known ? b.id[at] : t->info.unk);
    unknown = !known;
  }
}
