/* Text to ids: added and special tokens split the text; the pieces between them are normalized,
 * split and encoded by the tokenizer's kind. */
#include <string.h>

#include "text/merge.h"
#include "text/utf8.h"
#include "text/vocab.h"

enum { TEXT_MAX = 1 << 30 /* bytes of one text, so that positions times two fit 32 bits */ };

/* An entry of the word cache: a word of the text and its ids. */
typedef struct word {
  uint32_t begin, bytes; /* in the text; bytes 0: none */
  uint32_t ids, count;   /* in the output */
} word;

/* Limits of the word cache: longer words are rarely repeated, and so are words of short texts. */
enum { WORD_BYTES = 64, WORDS = 4096, BYTES_PER_WORD = 32, MIN_WORDS = 8 };

/* Number of slots of the word cache: a power of two, or 0. */
static uint32_t word_slots(uint64_t bytes) {
  uint32_t n = WORDS;
  while (n >= MIN_WORDS && n > bytes / BYTES_PER_WORD) n /= 2;
  return n >= MIN_WORDS ? n : 0;
}

/* Layout of the scratch for a text. */
typedef struct layout {
  uint64_t text;   /* maximum bytes of a normalized text */
  uint64_t words;  /* bytes of the word cache, the first area; the other areas follow in this order
                      */
  uint64_t arrays; /* bytes for merging or Viterbi's algorithm */
  uint64_t spaced; /* bytes: the text with a space in front */
  uint64_t seen;   /* bytes that split passes remember */
  uint64_t all;    /* sum; UINT64_MAX: too large */
} layout;

/* usual: with space for a normalized text that is half as large again, which is rarely exceeded. */
static layout lay_out(const bq_tokenizer *t, uint64_t bytes, bool usual) {
  layout l = {.text = bq_normalize_limit(t->steps, t->n_normalizers, bytes), .all = UINT64_MAX};
  uint64_t usual_bytes = bytes + bytes / 2 + 256;
  if (bytes > TEXT_MAX) return l;
  if (usual && l.text > usual_bytes) l.text = usual_bytes;
  if (l.text > TEXT_MAX) return l;
  uint64_t arrays = BQ_MERGE_ARRAYS * sizeof(uint32_t) * (l.text + 1);
  switch (t->info.kind) {
  case BQ_TOKENIZER_SPM: l.arrays = arrays; break;
  case BQ_TOKENIZER_BPE: l.arrays = arrays + sizeof(uint32_t) * (l.text + 1); break;
  case BQ_TOKENIZER_UNIGRAM: l.arrays = bq_unigram_scratch(l.text + 1); break;
  default: break;
  }
  bool spelled = t->info.kind == BQ_TOKENIZER_SPM || t->info.kind == BQ_TOKENIZER_UNIGRAM;
  spelled |= (t->flags & BQ_TOKENIZER_CHARACTERS) != 0;
  l.spaced = spelled ? l.text + 1 : 0;
  l.seen = bq_multi_splitter_memory(t->stages, t->n_split_passes, l.text + 1);
  if (t->n_split_passes || t->info.kind == BQ_TOKENIZER_BPE)
    l.words = word_slots(l.text + 1) * sizeof(word);
  l.all = l.words + l.arrays + l.spaced + l.seen +
          (t->n_normalizers < 2 ? t->n_normalizers : 2) * l.text;
  return l;
}

uint64_t bq_tokenize_scratch(const bq_tokenizer *t, uint64_t text_bytes, bool usual) {
  return lay_out(t, text_bytes, usual).all;
}

/* State of encoding one text. */
typedef struct encoder {
  const bq_tokenizer *t;
  layout layout;
  word *words;
  uint32_t slots;  /* slots of the word cache for the current piece */
  uint8_t *memory; /* scratch after the word cache */
  uint32_t kinds; /* kinds of the tokens that are looked up in the text */
  const bq_text_range *plain; /* [n_plain]: ranges in which no special token is recognized */
  uint32_t n_plain;
  bool no_room;   /* a normalized text exceeded the usual size */
  bq_ids ids;
} encoder;

/* --- between special tokens ------------------------------------------------------------------- */

static void encode_piece(encoder *e, const uint8_t *text, size_t bytes) {
  switch (e->t->info.kind) {
  case BQ_TOKENIZER_SPM: bq_spm_encode(e->t, text, bytes, e->memory, &e->ids); break;
  case BQ_TOKENIZER_BPE:
    bq_bpe_encode_word(e->t, text, (uint32_t)bytes, (void *)e->memory, &e->ids);
    break;
  case BQ_TOKENIZER_WORDLIST: bq_wordlist_encode(e->t, text, bytes, &e->ids); break;
  case BQ_TOKENIZER_UNIGRAM: bq_unigram_encode(e->t, text, bytes, e->memory, &e->ids); break;
  case BQ_TOKENIZER_WORDPIECE: bq_wordpiece_encode(e->t, text, bytes, &e->ids); break;
  }
}

static void copy_ids(bq_ids *ids, const word *w) {
  for (uint32_t i = 0; i < w->count; i++) bq_ids_put(ids, ids->ids[w->ids + i]);
}

/* Encodes a word of `text`, whose ids don't depend on the text around it. */
static void encode_word(encoder *e, const uint8_t *text, size_t begin, size_t end) {
  const size_t bytes = end - begin, previous_character = e->ids.count;
  if (!e->slots || bytes > WORD_BYTES) {
    encode_piece(e, text + begin, bytes);
    return;
  }
  uint32_t hash = BQ_HASH_START;
  for (size_t i = begin; i < end; i++) hash = bq_hash_byte(hash, text[i]);
  word *w = &e->words[(hash ^ hash >> 15) & (e->slots - 1)];
  if (w->bytes == bytes && memcmp(text + w->begin, text + begin, bytes) == 0) {
    copy_ids(&e->ids, w);
    return;
  }
  encode_piece(e, text + begin, bytes);
  if (e->ids.count > e->ids.capacity) return;
  *w = (word){(uint32_t)begin, (uint32_t)bytes, (uint32_t)previous_character,
              (uint32_t)(e->ids.count - previous_character)};
}

/* Byte-level BPE with words from a pattern. */
static void encode_split(encoder *e, const uint8_t *text, size_t bytes) {
  bq_splitter splitter;
  bq_splitter_begin(&splitter, e->t->split, text, bytes);
  for (size_t at = 0, end; at < bytes; at = end) {
    end = bq_splitter_next(&splitter, at);
    encode_word(e, text, at, end);
  }
}

static void begin_words(encoder *e, size_t bytes) {
  e->slots = e->layout.words ? word_slots(bytes) : 0;
  if (e->slots) memset(e->words, 0, e->slots * sizeof *e->words);
}

/* Encodes a normalized text, in the pieces of its split passes. */
static void encode_pieces(encoder *e, const uint8_t *text, size_t bytes) {
  begin_words(e, bytes);
  if (!e->t->parts && e->t->info.kind == BQ_TOKENIZER_BPE) {
    encode_split(e, text, bytes);
    return;
  }
  if (!e->t->n_split_passes) {
    if (bytes) encode_piece(e, text, bytes);
    return;
  }
  bq_multi_splitter cutter;
  bq_multi_splitter_begin(&cutter, e->t->stages, e->t->n_split_passes, text, bytes,
                  e->memory + e->layout.arrays + e->layout.spaced);
  for (size_t at = 0, begin; bq_multi_splitter_next(&cutter, &at, &begin);)
    encode_word(e, text, begin, at);
}

static void encode_parts(encoder *e, const uint8_t *text, size_t bytes, uint32_t position,
                         bool normalized);

/* The first plain range that ends after `at`; index n_plain: no such range. */
static uint32_t plain_from(const encoder *e, size_t at) {
  uint32_t low = 0, high = e->n_plain;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (e->plain[middle].end > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Encodes a normalized text, and looks added tokens up in it. Plain ranges don't apply to its
 * positions; special tokens outside of them were looked up before normalization. */
static void encode_normalized(encoder *e, const uint8_t *text, size_t bytes, uint32_t position,
                              bool has_plain) {
  const uint32_t kinds = e->kinds, n_plain = e->n_plain;
  if (has_plain) e->kinds &= ~(uint32_t)BQ_KINDS_HIDDEN;
  e->n_plain = 0;
  encode_parts(e, text, bytes, position, true);
  e->kinds = kinds;
  e->n_plain = n_plain;
}

/* Encodes bytes [begin, end) of a text: normalizes, splits and encodes them. before_user: a
 * user-defined token follows. It is part of the text, so a space is added in front even if the
 * bytes before it are empty. */
static void encode_text(encoder *e, const uint8_t *text, size_t begin, size_t end,
                        uint32_t position, bool before_user) {
  const bq_tokenizer *t = e->t;
  const uint32_t range = plain_from(e, begin);
  const bool has_plain = range < e->n_plain && e->plain[range].begin < end;
  size_t bytes = end - begin;
  text += begin;
  uint8_t *const spaced = e->memory + e->layout.arrays;
  uint8_t *const free = spaced + e->layout.spaced + e->layout.seen;
  uint8_t *const buffers[] = {free, free + e->layout.text};
  size_t room = (size_t)e->layout.text;
  text = bq_normalize(t->steps, t->n_normalizers, position, text, &bytes, buffers, room);
  if (!text) {
    e->no_room = true;
    return;
  }
  if (e->layout.spaced) {
    bool add = t->flags & BQ_TOKENIZER_ADD_SPACE && position & BQ_TEXT_BEGINS;
    bytes = bq_spell_spaces(text, bytes, add && (bytes || before_user), spaced);
    text = spaced;
  }
  if (t->any_normalized && t->n_normalizers) encode_normalized(e, text, bytes, position, has_plain);
  else encode_pieces(e, text, bytes);
}

/* --- special tokens --------------------------------------------------------------------------- */

static uint32_t rules_of(const bq_tokenizer *t, uint32_t id) {
  uint32_t low = 0, high = t->n_rules;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, own = bq_load32(t->rules + 8 * (size_t)middle);
    if (own == id) return bq_load32(t->rules + 8 * (size_t)middle + 4);
    if (own < id) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* Start of the character that ends at `at` > 0. */
static size_t previous_character(const uint8_t *text, size_t at) {
  size_t begin = at - 1;
  while (begin && at - begin < 4 && (text[begin] & 0xc0) == 0x80) begin--;
  return begin;
}

static uint32_t class_at(const uint8_t *text, size_t at, size_t bytes, unsigned *length) {
  uint32_t code_point;
  *length = bq_utf8_decode(text + at, bytes - at, &code_point);
  return code_point == '_' ? BQ_CHAR_CLASS_LETTER : bq_char_class(code_point);
}

static bool is_word(uint32_t class) {
  return class == BQ_CHAR_CLASS_LETTER || class == BQ_CHAR_CLASS_NUMBER;
}

/* Returns whether the rules of an added token allow it at this position, and extends it over the
 * white space that it includes. */
static bool fit_rules(const uint8_t *text, size_t bytes, uint32_t rules, size_t min_begin,
                      size_t *begin, size_t *end) {
  unsigned length;
  if (rules & BQ_ADDED_SINGLE_WORD) {
    if (*begin && is_word(class_at(text, previous_character(text, *begin), bytes, &length)))
      return false;
    if (*end < bytes && is_word(class_at(text, *end, bytes, &length))) return false;
  }
  while (rules & BQ_ADDED_LSTRIP && *begin > min_begin) {
    size_t at = previous_character(text, *begin);
    if (class_at(text, at, bytes, &length) != BQ_CHAR_CLASS_SPACE) break;
    *begin = at;
  }
  while (rules & BQ_ADDED_RSTRIP && *end < bytes) {
    if (class_at(text, *end, bytes, &length) != BQ_CHAR_CLASS_SPACE) break;
    *end += length;
  }
  return true;
}

/* Longest run of ▁ that is looked up as an added token of spaces. */
enum { MAX_SPACES = 64 };

/* Number of ▁ at the start of the text, at most `max`. */
static uint32_t count_escaped_spaces(const uint8_t *text, size_t bytes, uint32_t max) {
  uint32_t n = 0;
  for (; n < max && bytes >= 3 && !memcmp(text, "\xe2\x96\x81", 3); text += 3, bytes -= 3) n++;
  return n;
}

/* The longest run of ▁ at the start of the text that is an added token of spaces. */
static uint32_t match_escaped_spaces(const bq_tokenizer *t, const uint8_t *text, size_t bytes,
                                     uint32_t *length) {
  uint8_t spaces[MAX_SPACES];
  uint32_t n = count_escaped_spaces(text, bytes, sizeof spaces);
  memset(spaces, ' ', n);
  for (; n; n--) {
    const uint32_t id = bq_vocab_find(t, spaces, n, BQ_KINDS_TEXT);
    if (id == BQ_TOKEN_NONE || !(rules_of(t, id) & BQ_ADDED_ESCAPED_SPACES)) continue;
    *length = 3 * n;
    return id;
  }
  return BQ_TOKEN_NONE;
}

/* The longest token at `at`. Special ones are recognized only outside plain ranges. *range advances
 * to the first plain range that ends after `at`. */
static uint32_t match_at(const encoder *e, const uint8_t *text, size_t at, size_t bytes,
                         uint32_t *range, uint32_t *length) {
  const uint32_t shown = e->kinds & ~(uint32_t)BQ_KINDS_HIDDEN;
  while (*range < e->n_plain && e->plain[*range].end <= at) ++*range;
  if (*range == e->n_plain || e->plain[*range].begin >= bytes)
    return bq_vocab_match(e->t, text + at, bytes - at, e->kinds, length);
  uint32_t id = bq_vocab_match(e->t, text + at, bytes - at, shown, length), outside = 0;
  if (e->plain[*range].begin <= at) return id;
  const size_t room = e->plain[*range].begin - at;
  const uint32_t special = bq_vocab_match(e->t, text + at, room, e->kinds, &outside);
  if (special == BQ_TOKEN_NONE || (id != BQ_TOKEN_NONE && *length > outside)) return id;
  *length = outside;
  return special;
}

/* Encodes a text: added and special tokens, and the parts between them. If the tokenizer adds a
 * space in front of texts, it is added at the beginning and after a control token, but not after
 * user-defined tokens, which are part of a text. */
static void encode_parts(encoder *e, const uint8_t *text, size_t bytes, uint32_t position,
                         bool normalized) {
  const bool two_passes = e->t->any_normalized && e->t->n_normalizers;
  uint32_t part_position = position & ~(uint32_t)BQ_TEXT_ENDS, range = 0;
  size_t done = 0;
  for (size_t at = 0; at < bytes;) {
    uint32_t length = 0, id = match_at(e, text, at, bytes, &range, &length);
    if (id == BQ_TOKEN_NONE && e->t->any_escaped_spaces && !normalized)
      id = match_escaped_spaces(e->t, text + at, bytes - at, &length);
    uint32_t rules = id == BQ_TOKEN_NONE ? 0 : rules_of(e->t, id);
    size_t begin = at, end = at + length;
    bool found = id != BQ_TOKEN_NONE;
    const bool early = e->n_plain && found && bq_token_special(e->t, id);
    if (two_passes && !early) found &= normalized == ((rules & BQ_ADDED_NORMALIZED) != 0);
    if (!found || !fit_rules(text, bytes, rules, done, &begin, &end)) {
      at++;
      continue;
    }
    bool control = bq_token_special(e->t, id);
    if (normalized) encode_pieces(e, text + done, begin - done);
    else if (begin > done || !control)
      encode_text(e, text, done, begin, control ? part_position | BQ_TEXT_ENDS : part_position,
                  !control);
    bq_ids_put(&e->ids, id);
    part_position = control ? BQ_TEXT_BEGINS : 0;
    done = at = end;
  }
  if (normalized) encode_pieces(e, text + done, bytes - done);
  else if (bytes > done) encode_text(e, text, done, bytes, part_position | BQ_TEXT_ENDS, false);
}

bq_status bq_tokenize(const bq_tokenizer *t, const char *text, size_t bytes,
                      const bq_tokenize_options *options, void *scratch, uint32_t *ids,
                      size_t capacity, size_t *count) {
  *count = 0;
  encoder e = {.t = t, .layout = lay_out(t, bytes, options->usual), .words = scratch};
  if (e.layout.all == UINT64_MAX) return BQ_ARGUMENT;
  e.memory = scratch ? (uint8_t *)scratch + e.layout.words : NULL;
  e.ids = (bq_ids){ids, capacity, 0};
  e.kinds = BQ_KIND(BQ_TOKEN_USER) | (options->parse_special ? BQ_KINDS_HIDDEN : 0);
  e.plain = options->plain;
  e.n_plain = options->parse_special ? options->n_plain : 0;
  if (options->add_special && t->info.add_bos) bq_ids_put(&e.ids, t->info.bos);
  encode_parts(&e, (const uint8_t *)text, bytes,
               options->continues ? 0 : BQ_TEXT_BEGINS | BQ_TEXT_FIRST, false);
  if (options->add_special && t->info.add_eos) bq_ids_put(&e.ids, t->info.eos);
  if (e.no_room) return BQ_NOMEM;
  *count = e.ids.count;
  return *count <= capacity ? BQ_OK : BQ_ARGUMENT;
}
