/* Byte-level BPE (Radford et al. 2019, GPT-2): the text is cut into words, each byte of a word is
 * a token, and the neighbours whose merge was learned first merge first. */
#include "text/merge.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"
#include "text/vocab.h"

static bq_char class_of(uint32_t code_point) {
  if (code_point == BQ_UTF8_BAD) return BQ_CHAR_OTHER;
  uint32_t low = 0, high = BQ_CHAR_RUNS; /* the run is in [low, high) */
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (bq_char_runs[middle] >> 2 <= code_point) low = middle;
    else high = middle;
  }
  return (bq_char)(bq_char_runs[low] & 3);
}

typedef struct run {
  bq_char class;
  size_t bytes; /* of all its characters; 0 at the end of the text */
  size_t last;  /* of its last character */
} run;

/* The characters of one class that the text begins with. */
static run run_at(const uint8_t *text, size_t n) {
  run r = {BQ_CHAR_OTHER, 0, 0};
  while (r.bytes < n) {
    uint32_t code_point;
    unsigned length = bq_utf8_decode(text + r.bytes, n - r.bytes, &code_point);
    bq_char class = class_of(code_point);
    if (r.bytes && class != r.class) break;
    r.class = class;
    r.bytes += length;
    r.last = length;
  }
  return r;
}

/* 's 't 're 've 'm 'll 'd */
static size_t contraction(const uint8_t *text, size_t n) {
  if (n < 2 || text[0] != '\'') return 0;
  uint8_t a = text[1], b = n > 2 ? text[2] : 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return two ? 3 : 0;
}

/* Bytes of the word that n >= 1 bytes begin with, as GPT-2 cuts them:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * White space before a word leaves its last character to it, which joins if it is a space. */
static size_t word_bytes(const uint8_t *text, size_t n) {
  size_t bytes = contraction(text, n);
  if (bytes) return bytes;
  size_t space = text[0] == ' ';
  run r = run_at(text + space, n - space);
  if (r.bytes && r.class != BQ_CHAR_SPACE) return space + r.bytes;
  if (space) r = run_at(text, n);
  return r.bytes < n && r.bytes > r.last ? r.bytes - r.last : r.bytes;
}

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

static void encode_word(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t *memory,
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
  for (size_t at = 0; at < bytes;) {
    size_t n = word_bytes(text + at, bytes - at);
    encode_word(t, text + at, (uint32_t)n, scratch, out);
    at += n;
  }
}
