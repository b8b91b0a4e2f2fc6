/* SentencePiece BPE: starts from characters, or bytes where the vocabulary lacks a character, and
 * merges the adjacent pieces whose concatenation scores highest (Kudo and Richardson 2018,
 * "SentencePiece"; its src/bpe_model.cc defines ties and unknowns). */
#include "text/merge.h"
#include "text/utf8.h"
#include "text/vocab.h"

typedef struct spm {
  const bq_tokenizer *t;
  const uint8_t *text; /* of the word */
} spm;

/* Maps scores to keys in reverse order: the highest score has the lowest key. The bits of an f32
 * rise with its value if negative ones are inverted and the sign is flipped. */
static uint32_t score_key(uint32_t bits) {
  if (bits == 0x80000000u) bits = 0; /* -0 equals 0 */
  return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static uint32_t pair_key(void *ctx, uint32_t left, uint32_t right, uint32_t end) {
  const spm *s = ctx;
  (void)right;
  uint32_t id = bq_vocab_find(s->t, s->text + left, end - left, BQ_KINDS_TEXT);
  return id == BQ_TOKEN_NONE ? BQ_NO_MERGE : score_key(bq_load32(s->t->scores + 4 * (size_t)id));
}

/* Makes a symbol of each character, and of each byte of no character. */
static void split_characters(bq_merge_list *l, const uint8_t *text) {
  uint32_t before = 0;
  for (uint32_t at = 0; at < l->n;) {
    uint32_t code_point;
    uint32_t next = at + bq_utf8_decode(text + at, l->n - at, &code_point);
    l->next[at] = next;
    l->prev[at] = before;
    before = at;
    at = next;
  }
}

static void encode_word(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t *memory,
                        bool *unknown, bq_ids *out) {
  bq_merge_list l = bq_merge_list_at(memory, n);
  spm s = {t, text};
  bq_merge_rules rules = {pair_key, NULL, &s};
  split_characters(&l, text);
  bq_merge_run(&l, &rules);
  for (uint32_t at = 0; at < n; at = l.next[at]) {
    uint32_t bytes = l.next[at] - at;
    uint32_t id = bq_vocab_find(t, text + at, bytes, BQ_KINDS_TEXT);
    if (id == BQ_TOKEN_NONE) bq_put_unknown(t, text + at, bytes, *unknown, out);
    else bq_ids_put(out, id);
    *unknown = id == BQ_TOKEN_NONE;
  }
}

size_t bq_spell_spaces(const uint8_t *text, size_t bytes, bool add_space, uint8_t *to) {
  size_t n = 0;
  if (add_space) to[n++] = ' ';
  for (size_t i = 0; i < bytes; i++) {
    bool mark = bytes - i >= 3 && text[i] == 0xe2 && text[i + 1] == 0x96 && text[i + 2] == 0x81;
    to[n++] = mark ? ' ' : text[i];
    if (mark) i += 2;
  }
  return n;
}

void bq_spm_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *memory,
                   bq_ids *out) {
  bool unknown = false;
  for (size_t begin = 0, at = 1; begin < bytes; at++) {
    bool border = t->words && at < bytes && text[at] == ' ' && text[at - 1] != ' ';
    if (at < bytes && !border) continue;
    encode_word(t, text + begin, (uint32_t)(at - begin), memory, &unknown, out);
    begin = at;
  }
}
