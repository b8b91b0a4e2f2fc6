/* The parts of a tokenizer besides its vocabulary: normalizers, split passes, added tokens. */
#include "text/parts.h"

enum {
  PARTS = 32,
  PART_STAGE = 16,
  PART_WORDS = 17, /* u32 characters of the longest word that WordPiece looks up */
  PART_RULES = 18  /* flags of added tokens: u32 id, rising, u32 flags */
};

static bool read_words(const uint8_t *bytes, size_t n, bq_tokenizer *t) {
  if (n != 4) return false;
  t->word_characters = bq_load32(bytes);
  return t->word_characters <= BQ_WORD_CHARACTERS;
}

static bool read_rules(const uint8_t *bytes, size_t n, bq_tokenizer *t, uint32_t tokens) {
  t->rules = bytes;
  t->n_rules = (uint32_t)(n / 8);
  uint32_t next = 0;
  for (uint32_t i = 0; i < t->n_rules; i++, bytes += 8) {
    uint32_t id = bq_load32(bytes), rules = bq_load32(bytes + 4);
    if (id < next || id >= tokens || rules > BQ_ADDED_FLAGS) return false;
    t->any_normalized |= rules & BQ_ADDED_NORMALIZED;
    t->any_escaped_spaces |= rules & BQ_ADDED_ESCAPED_SPACES;
    next = id + 1;
  }
  return n % 8 == 0;
}

/* Reads a part of a known type. Returns false if it isn't valid, or one too many. */
static bool read_part(uint32_t type, const uint8_t *bytes, size_t n, bq_tokenizer *t,
                      uint32_t tokens) {
  if (type == PART_WORDS) return read_words(bytes, n, t);
  if (type == PART_RULES) return read_rules(bytes, n, t, tokens);
  if (type == PART_STAGE)
    return t->n_split_passes < BQ_SPLIT_PASSES &&
           bq_split_pass_read(bytes, n, &t->stages[t->n_split_passes++]);
  return t->n_normalizers < BQ_NORMALIZERS &&
         bq_normalizer_read(type, bytes, n, &t->steps[t->n_normalizers++]);
}

bq_status bq_parts_read(bq_cursor *at, uint64_t file_offset, uint32_t tokens, bq_tokenizer *t,
                        bq_error *err) {
  uint64_t start = file_offset + at->at;
  const uint32_t n = bq_cursor_u32(at);
  if (at->bad || n > PARTS)
    return bq_fail(err, BQ_FORMAT, start, "the tokenizer is damaged: it can't have %u parts", n);
  for (uint32_t i = 0; i < n; i++) {
    start = file_offset + at->at;
    const uint32_t type = bq_cursor_u32(at), size = bq_cursor_u32(at);
    const uint8_t *bytes = bq_cursor_bytes(at, size);
    if (!bytes || size % 4)
      return bq_fail(err, BQ_FORMAT, start, "the tokenizer is damaged: its part %u is too long", i);
    if ((type == 0 || type >= BQ_NORMALIZER_TYPES) && (type < PART_STAGE || type > PART_RULES))
      return bq_fail(err, BQ_UNSUPPORTED, start, "tokenizer with a part of unknown type %u", type);
    if (!read_part(type, bytes, size, t, tokens))
      return bq_fail(err, BQ_FORMAT, start, "the tokenizer is damaged: its part %u isn't valid", i);
  }
  return BQ_OK;
}
