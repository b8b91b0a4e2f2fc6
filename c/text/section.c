#include "text/tokenizer.h"

#include "text/parts.h"

enum {
  HEADER_BYTES = 44,
  PRE_GPT2 = 0,
  PRE_PROGRAM = 1,    /* a pattern follows the header */
  PRE_PARTS = 2,      /* parts follow the header */
  COUNT_MAX = 1 << 28 /* tokens or merges: their tables' indices stay within 32 bits */
};

/* --- memory --------------------------------------------------------------------------------- */

static uint64_t slot_count(uint32_t entries) {
  uint64_t n = 1;
  while (n < 2 * (uint64_t)entries) n *= 2;
  return n;
}

/* Lays out the tokenizer and its tables in the arena. Returns NULL while measuring. */
static bq_tokenizer *lay_out(bq_arena *arena, bq_tokenizer_size size) {
  bq_tokenizer *t = bq_arena_take(arena, 1, sizeof *t);
  uint64_t texts = slot_count(size.tokens), pairs = slot_count(size.merges);
  uint32_t *by_text = bq_arena_take(arena, texts, sizeof *by_text);
  uint32_t *by_pair = bq_arena_take(arena, pairs, sizeof *by_pair);
  uint32_t *sorted = bq_arena_take(arena, size.tokens, sizeof *sorted);
  if (!t || arena->overflow) return NULL;
  memset(t, 0, sizeof *t);
  t->by_text = (bq_slots){by_text, (uint32_t)(texts - 1), 0};
  t->by_pair = (bq_slots){by_pair, (uint32_t)(pairs - 1), 0};
  t->sorted = sorted;
  return t;
}

uint64_t bq_tokenizer_memory(bq_tokenizer_size size) {
  bq_arena arena = {0};
  if (size.tokens > COUNT_MAX || size.merges > COUNT_MAX) return UINT64_MAX;
  lay_out(&arena, size);
  return arena.overflow ? UINT64_MAX : arena.used;
}

/* --- the section ---------------------------------------------------------------------------- */

/* State of checking a section. */
typedef struct reader {
  bq_cursor at;
  uint64_t file_offset;
  bq_error *err;
} reader;

#define DAMAGED "the tokenizer is damaged: "

/* `text` is a format with one %u, for the value. */
static bq_status refuse(const reader *r, size_t at, const char *text, uint32_t value) {
  return bq_fail(r->err, BQ_FORMAT, r->file_offset + at, text, value);
}

static bq_status read_kind(reader *r, bq_tokenizer *t) {
  uint32_t kind = bq_cursor_u32(&r->at), flags = bq_cursor_u32(&r->at), pre = bq_cursor_u32(&r->at);
  if (kind < BQ_TOKENIZER_SPM || kind > BQ_TOKENIZER_WORDPIECE)
    return bq_fail(r->err, BQ_UNSUPPORTED, r->file_offset, "tokenizer of unknown kind %u", kind);
  if (flags & ~(uint32_t)BQ_TOKENIZER_FLAGS)
    return bq_fail(r->err, BQ_UNSUPPORTED, r->file_offset + 4, "tokenizer with unknown flags %u",
                   flags);
  if (pre > PRE_PARTS || (pre == PRE_PROGRAM && kind != BQ_TOKENIZER_BPE))
    return bq_fail(r->err, BQ_UNSUPPORTED, r->file_offset + 8, "unknown pre-tokenizer %u", pre);
  t->split = pre == PRE_PROGRAM ? &t->own_split : &bq_split_gpt2;
  t->parts = pre == PRE_PARTS;
  t->word_characters = BQ_WORD_CHARACTERS;
  t->flags = flags;
  t->info.kind = (bq_tokenizer_kind)kind;
  return BQ_OK;
}

static bq_status read_ids(reader *r, bq_tokenizer *t, uint32_t tokens) {
  uint32_t *const ids[] = {&t->info.bos, &t->info.eos, &t->info.unk, &t->info.pad};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    size_t at = r->at.at;
    *ids[i] = bq_cursor_u32(&r->at);
    if (*ids[i] != BQ_TOKEN_NONE && *ids[i] >= tokens)
      return refuse(r, at, DAMAGED "there is no token %u to be a special one", *ids[i]);
  }
  t->info.add_bos = t->flags & BQ_TOKENIZER_ADD_BOS && t->info.bos != BQ_TOKEN_NONE;
  t->info.add_eos = t->flags & BQ_TOKENIZER_ADD_EOS && t->info.eos != BQ_TOKEN_NONE;
  return BQ_OK;
}

static bq_status check_end_ids(const reader *r, const bq_tokenizer *t, size_t at) {
  for (uint32_t i = 0; i < t->n_eog; i++) {
    uint32_t id = bq_load32(t->eog + 4 * (size_t)i);
    if (id >= t->info.tokens)
      return refuse(r, at + 4 * (size_t)i, DAMAGED "there is no token %u to end texts", id);
  }
  return BQ_OK;
}

static bq_status check_ends(const reader *r, const bq_tokenizer *t, size_t at, uint32_t text) {
  uint32_t before = 0;
  for (uint32_t id = 0; id < t->info.tokens; id++, at += 4) {
    uint32_t end = bq_load32(t->ends + 4 * (size_t)id);
    if (end < before || end > text)
      return refuse(r, at, DAMAGED "the text of token %u has a wrong end", id);
    if (end - before > BQ_TOKEN_BYTES_MAX)
      return refuse(r, at, DAMAGED "the text of token %u is too long", id);
    before = end;
  }
  if (before == text) return BQ_OK;
  return refuse(r, at - 4, DAMAGED "%u bytes follow the last token's text", text - before);
}

static bq_status check_scores(const reader *r, const bq_tokenizer *t, size_t at) {
  for (uint32_t id = 0; id < t->info.tokens; id++, at += 4)
    if ((bq_load32(t->scores + 4 * (size_t)id) & 0x7fffffffu) > 0x7f800000u)
      return refuse(r, at, DAMAGED "the score of token %u is no number", id);
  return BQ_OK;
}

static bq_status check_kinds(const reader *r, const bq_tokenizer *t, size_t at) {
  for (uint32_t id = 0; id < t->info.tokens; id++, at++) {
    uint32_t bytes;
    bq_vocab_text(t, id, &bytes);
    if (t->kinds[id] >= BQ_TOKEN_KINDS)
      return refuse(r, at, DAMAGED "token %u is of an unknown kind", id);
    if (t->kinds[id] == BQ_TOKEN_BYTE && bytes != 1)
      return refuse(r, at, DAMAGED "token %u, of one byte, has another length", id);
  }
  for (size_t i = t->info.tokens; i % 4; i++, at++)
    if (t->kinds[i]) return refuse(r, at, DAMAGED "padding is %u instead of 0", t->kinds[i]);
  return BQ_OK;
}

/* Whether merge `rank` gives the concatenation of its two tokens. */
static bool merge_matches_text(const bq_tokenizer *t, uint32_t rank) {
  uint32_t nl, nr, n;
  const uint8_t *left = bq_vocab_text(t, bq_vocab_merge(t, rank, 0), &nl);
  const uint8_t *right = bq_vocab_text(t, bq_vocab_merge(t, rank, 1), &nr);
  const uint8_t *both = bq_vocab_text(t, bq_vocab_merge(t, rank, 2), &n);
  if (n < nl || n - nl != nr) return false;
  return memcmp(both, left, nl) == 0 && memcmp(both + nl, right, nr) == 0;
}

static bq_status check_merges(const reader *r, const bq_tokenizer *t, size_t at) {
  for (uint32_t rank = 0; rank < t->n_merges; rank++, at += 12) {
    for (uint32_t column = 0; column < 3; column++)
      if (bq_vocab_merge(t, rank, column) >= t->info.tokens)
        return refuse(r, at + 4 * column, DAMAGED "merge %u names a token that isn't there", rank);
    if (!merge_matches_text(t, rank))
      return refuse(r, at + 8, DAMAGED "merge %u doesn't give the text of its token", rank);
  }
  return BQ_OK;
}

/* Reads the pattern that splits text into words, if the section has one. */
static bq_status read_split(reader *r, bq_tokenizer *t) {
  if (t->split != &t->own_split) return BQ_OK;
  size_t at = r->at.at;
  uint32_t normalizer = bq_cursor_u32(&r->at), n = bq_cursor_u32(&r->at);
  if (normalizer)
    return bq_fail(r->err, BQ_UNSUPPORTED, r->file_offset + at, "unknown normalizer %u",
                   normalizer);
  const size_t count_at = r->at.bad ? at : at + 4;
  const uint8_t *items = bq_cursor_bytes(&r->at, BQ_SPLIT_ITEM_BYTES * (uint64_t)n);
  if (!items || n == 0 || n > BQ_SPLIT_ITEMS)
    return refuse(r, count_at, DAMAGED "its pre-tokenizer can't have %u items", n);
  t->own_split.n = n;
  for (uint32_t i = 0; i < n; i++, items += BQ_SPLIT_ITEM_BYTES)
    if (!bq_split_read(items, &t->own_split.items[i]))
      return refuse(r, at + 8 + BQ_SPLIT_ITEM_BYTES * (size_t)i,
                    DAMAGED "item %u of its pre-tokenizer isn't valid", i);
  if (t->own_split.items[n - 1].flags & BQ_SPLIT_LAST) return BQ_OK;
  return refuse(r, at + 8 + BQ_SPLIT_ITEM_BYTES * (size_t)(n - 1),
                DAMAGED "item %u, the last of its pre-tokenizer, ends no alternative", n - 1);
}

/* Finds the arrays after the header and checks every value in them. */
static bq_status read_arrays(reader *r, bq_tokenizer *t, bq_tokenizer_size size) {
  size_t counts_at = r->at.at;
  uint32_t n_eog = bq_cursor_u32(&r->at), tokens = bq_cursor_u32(&r->at);
  uint32_t merges = bq_cursor_u32(&r->at), text = bq_cursor_u32(&r->at);
  if (tokens != size.tokens || tokens == 0 || tokens > COUNT_MAX)
    return refuse(r, counts_at + 4, DAMAGED "it has %u tokens, the plan says otherwise", tokens);
  if (merges != size.merges || merges > COUNT_MAX)
    return refuse(r, counts_at + 8, DAMAGED "it has %u merges, the plan says otherwise", merges);
  bq_status status = read_split(r, t);
  if (status == BQ_OK && t->parts)
    status = bq_parts_read(&r->at, r->file_offset, tokens, t, r->err);
  if (status != BQ_OK) return status;
  size_t eog_at = r->at.at;
  t->eog = bq_cursor_bytes(&r->at, 4 * (uint64_t)n_eog);
  size_t ends_at = r->at.at;
  t->ends = bq_cursor_bytes(&r->at, 4 * (uint64_t)tokens);
  size_t scores_at = r->at.at;
  t->scores = bq_cursor_bytes(&r->at, 4 * (uint64_t)tokens);
  size_t kinds_at = r->at.at;
  t->kinds = bq_cursor_bytes(&r->at, ((uint64_t)tokens + 3) / 4 * 4);
  size_t merges_at = r->at.at;
  t->merges = bq_cursor_bytes(&r->at, 12 * (uint64_t)merges);
  t->text = bq_cursor_bytes(&r->at, text);
  if (r->at.bad)
    return bq_fail(r->err, BQ_FORMAT, r->file_offset + counts_at,
                   DAMAGED "its %u tokens don't fit the section of %l bytes", tokens,
                   (uint64_t)r->at.size);
  if (r->at.at != r->at.size)
    return bq_fail(r->err, BQ_FORMAT, r->file_offset + r->at.at,
                   DAMAGED "it ends %l bytes before its section",
                   (uint64_t)(r->at.size - r->at.at));
  t->info.tokens = tokens;
  t->n_merges = merges;
  t->n_eog = n_eog;
  status = check_end_ids(r, t, eog_at);
  if (status == BQ_OK) status = check_ends(r, t, ends_at, text);
  if (status == BQ_OK) status = check_scores(r, t, scores_at);
  if (status == BQ_OK) status = check_kinds(r, t, kinds_at);
  if (status == BQ_OK) status = check_merges(r, t, merges_at);
  return status;
}

bq_status bq_tokenizer_create(const uint8_t *section, size_t bytes, uint64_t file_offset,
                              bq_tokenizer_size size, void *memory, bq_tokenizer **out,
                              bq_error *err) {
  uint64_t need = bq_tokenizer_memory(size);
  if (need >= SIZE_MAX)
    return bq_fail(err, BQ_NOMEM, file_offset, "%u tokens are too many", size.tokens);
  bq_arena arena = {memory, (size_t)need, 0, false};
  bq_tokenizer *t = lay_out(&arena, size);
  if (!t) return bq_fail(err, BQ_ARGUMENT, BQ_NO_OFFSET, "no memory was passed for the tokenizer");
  reader r = {{section, bytes, 0, false}, file_offset, err};
  if (bytes < HEADER_BYTES)
    return bq_fail(err, BQ_FORMAT, file_offset, DAMAGED "%l bytes hold no header of 44",
                   (uint64_t)bytes);
  bq_status status = read_kind(&r, t);
  if (status == BQ_OK) status = read_ids(&r, t, size.tokens);
  if (status == BQ_OK) status = read_arrays(&r, t, size);
  if (status != BQ_OK) return status;
  if (!bq_vocab_build(t))
    return refuse(&r, 0, DAMAGED "more than %u of its entries collide", BQ_PROBES);
  *out = t;
  return BQ_OK;
}

/* --- facts ---------------------------------------------------------------------------------- */

bq_tokenizer_info bq_tokenizer_info_get(const bq_tokenizer *t) { return t->info; }

bool bq_token_ends(const bq_tokenizer *t, uint32_t id) {
  for (uint32_t i = 0; i < t->n_eog; i++)
    if (bq_load32(t->eog + 4 * (size_t)i) == id) return true;
  return false;
}

bool bq_token_special(const bq_tokenizer *t, uint32_t id) {
  return id < t->info.tokens && BQ_KIND(bq_vocab_kind(t, id)) & BQ_KINDS_HIDDEN;
}

const uint8_t *bq_token_text(const bq_tokenizer *t, uint32_t id, size_t *bytes) {
  uint32_t n = 0;
  const uint8_t *text = id < t->info.tokens ? bq_vocab_text(t, id, &n) : t->text;
  *bytes = n;
  return text;
}

const uint8_t *bq_token_bytes(const bq_tokenizer *t, uint32_t id, size_t *bytes) {
  uint32_t n = 0;
  const uint8_t *text = t->text;
  if (id < t->info.tokens && !bq_token_special(t, id)) text = bq_vocab_text(t, id, &n);
  *bytes = n;
  return text;
}

uint32_t bq_token_find(const bq_tokenizer *t, const char *text, size_t bytes) {
  const uint8_t *p = (const uint8_t *)text;
  uint32_t id = bq_vocab_find(t, p, bytes, BQ_KIND(BQ_TOKEN_KINDS) - 1);
  return id == BQ_TOKEN_NONE && bytes == 1 ? t->byte[p[0]] : id;
}
