/* The inside of a tokenizer: the section's arrays in place, and tables to look things up. */
#ifndef BQ_VOCAB_H
#define BQ_VOCAB_H

#include "core/cursor.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/split_passes.h"
#include "text/tokenizer.h"

typedef enum bq_token_kind {
  BQ_TOKEN_NORMAL = 0,
  BQ_TOKEN_UNKNOWN = 1,
  BQ_TOKEN_CONTROL = 2,
  BQ_TOKEN_USER = 3,
  BQ_TOKEN_UNUSED = 4,
  BQ_TOKEN_BYTE = 5,
  BQ_TOKEN_KINDS
} bq_token_kind;

/* Sets of kinds, for look-ups. */
#define BQ_KIND(kind) (1u << (kind))
#define BQ_KINDS_TEXT BQ_KIND(BQ_TOKEN_NORMAL)
#define BQ_KINDS_HIDDEN (BQ_KIND(BQ_TOKEN_UNKNOWN) | BQ_KIND(BQ_TOKEN_CONTROL))

enum {
  BQ_TOKENIZER_ADD_BOS = 1,
  BQ_TOKENIZER_ADD_EOS = 2,
  BQ_TOKENIZER_ADD_SPACE = 4,
  BQ_TOKENIZER_BYTE_FALLBACK = 8,
  BQ_TOKENIZER_IGNORE_MERGES = 16,
  BQ_TOKENIZER_DROP_SPACE = 32, /* shown texts begin without the space of their first token */
  BQ_TOKENIZER_CHARACTERS = 64, /* BPE merges characters, not bytes */
  BQ_TOKENIZER_FUSE_UNKNOWN =
      128,                   /* BPE: neighbours outside the vocabulary are one unknown token */
  BQ_TOKENIZER_DOUBLE = 256, /* unigram: scores are added in f64 */
  BQ_TOKENIZER_FLAGS = 511
};

/* What holds for a token that is looked for in texts. */
enum {
  BQ_ADDED_LSTRIP = 1,       /* it takes the white space before it */
  BQ_ADDED_RSTRIP = 2,      /* and behind it */
  BQ_ADDED_SINGLE_WORD = 4,       /* no letter, number or _ is beside it */
  BQ_ADDED_NORMALIZED = 8, /* it is looked for in the normalized text */
  BQ_ADDED_ESCAPED_SPACES = 16,   /* a row of spaces: it is looked for written as ▁ (U+2581) */
  BQ_ADDED_FLAGS = 31
};

/* An open-addressing table of u32 values, a power of two of slots, at most half of them taken;
 * empty ones hold BQ_TOKEN_NONE. Hashes have no secret, so a file can be written whose entries
 * collide: none lies more than BQ_PROBES slots behind its first one, or the file is refused, and no
 * look-up goes further than the farthest entry. Random hashes stay below 100 for 2^28 entries. */
typedef struct bq_slots {
  uint32_t *slot; /* [mask + 1] */
  uint32_t mask;
  uint32_t farthest; /* slots between an entry and its first one, at most */
} bq_slots;
enum { BQ_PROBES = 256 };

/* Bytes of a token: what looks for tokens in a text takes up to so many steps for each byte. */
enum { BQ_TOKEN_BYTES_MAX = 4096 };

struct bq_tokenizer {
  /* In the section; numbers are little-endian and need not be aligned. */
  const uint8_t *eog;    /* [n_eog] u32 */
  const uint8_t *ends;   /* [tokens] u32 */
  const uint8_t *scores; /* [tokens] f32 */
  const uint8_t *kinds;  /* [tokens] u8 */
  const uint8_t *merges; /* [n_merges][3] u32 */
  const uint8_t *text;
  bq_tokenizer_info info;
  uint32_t flags, n_merges, n_eog;
  uint32_t longest;    /* bytes of the longest token */
  bool words;          /* no token has a space after something else: words don't interact */
  const bq_split *split; /* byte-level BPE: the section's or one of ours */
  bq_split own_split;
  bq_normalizer steps[BQ_NORMALIZERS];
  bq_split_pass stages[BQ_SPLIT_PASSES];
  uint32_t n_normalizers, n_split_passes;
  bool parts; /* the section brings those */
  const uint8_t *rules; /* [n_rules]: u32 id, rising, u32 rules */
  uint32_t n_rules;
  bool any_normalized; /* a token is looked for in normalized texts */
  bool any_written;    /* one is looked for as rows of ▁ */
  float unknown_score; /* unigram: of a character that is no piece */
  uint32_t word_characters; /* WordPiece: a longer word is unknown */
  bq_slots by_text;    /* ids; every text once per kind, the lowest id */
  bq_slots by_pair;    /* ranks of merges by (left, right) */
  uint32_t *sorted;    /* ids in order of their texts: what is looked for inside a text */
  uint32_t n_sorted;
  uint8_t first[256];  /* kinds of the sorted tokens that begin with a byte */
  uint32_t byte[256];  /* the token of a single byte; BQ_TOKEN_NONE */
};

static inline uint32_t bq_vocab_kind(const bq_tokenizer *t, uint32_t id) { return t->kinds[id]; }

/* Text of id < tokens, in place. */
static inline const uint8_t *bq_vocab_text(const bq_tokenizer *t, uint32_t id, uint32_t *bytes) {
  uint32_t begin = id ? bq_load32(t->ends + 4 * ((size_t)id - 1)) : 0;
  *bytes = bq_load32(t->ends + 4 * (size_t)id) - begin;
  return t->text + begin;
}

static inline uint32_t bq_vocab_merge(const bq_tokenizer *t, uint32_t rank, uint32_t column) {
  return bq_load32(t->merges + 12 * (size_t)rank + 4 * column);
}

/* FNV-1a, byte by byte. */
#define BQ_HASH_START 2166136261u
static inline uint32_t bq_hash_byte(uint32_t hash, uint8_t byte) {
  return (hash ^ byte) * 16777619u;
}

/* The id of a kind in `kinds` whose text is exactly this, with its hash; BQ_TOKEN_NONE. */
uint32_t bq_vocab_find_hash(const bq_tokenizer *t, uint32_t hash, const uint8_t *text, size_t bytes,
                            uint32_t kinds);
/* The same without the hash. */
uint32_t bq_vocab_find(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds);
/* Rank of the merge of two tokens; BQ_TOKEN_NONE. */
uint32_t bq_vocab_rank(const bq_tokenizer *t, uint32_t left, uint32_t right);
/* Unigram: whether some token begins with the characters of this hash (or, rarely, though none
 * does). */
bool bq_vocab_begins(const bq_tokenizer *t, uint32_t hash);
/* The longest sorted token of a kind in `kinds` that the bytes begin with, and its length. */
uint32_t bq_vocab_match(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds,
                        uint32_t *length);

/* Orders ids by text, then kind, then id. */
void bq_vocab_sort(const bq_tokenizer *t, uint32_t *ids, uint32_t n);

/* Fills the tables of a checked section; their memory is in place. False: too many entries have the
 * same hash (bq_slots). */
bool bq_vocab_build(bq_tokenizer *t);

/* Ids on their way out: counts on when there is no more room. */
typedef struct bq_ids {
  uint32_t *ids; /* [capacity] */
  size_t capacity, count;
} bq_ids;

static inline void bq_ids_put(bq_ids *out, uint32_t id) {
  if (id == BQ_TOKEN_NONE) return;
  if (out->count < out->capacity) out->ids[out->count] = id;
  out->count++;
}

/* Text with a space in front if wanted, and ▁ (U+2581), which is how files of SentencePiece write a
 * space, as one; at most a byte more than the text. Returns the bytes. */
size_t bq_spell_spaces(const uint8_t *text, size_t bytes, bool add_space, uint8_t *to);

/* Ids of a normalized text, or of a word of one. memory: BQ_MERGE_ARRAYS arrays of u32 for the
 * bytes, and one more for BPE; bq_unigram_scratch for unigram. */
void bq_spm_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *memory,
                   bq_ids *out);
void bq_bpe_encode_word(const bq_tokenizer *t, const uint8_t *text, uint32_t n, uint32_t *memory,
                        bq_ids *out);
void bq_wordlist_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, bq_ids *out);
uint64_t bq_unigram_scratch(uint64_t bytes);
void bq_unigram_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, void *memory,
                       bq_ids *out);
enum { BQ_WORD_CHARACTERS = 255, BQ_WORD_BYTES = 4 * BQ_WORD_CHARACTERS + 1 };
void bq_wordpiece_encode(const bq_tokenizer *t, const uint8_t *text, size_t bytes, bq_ids *out);

/* A piece outside the vocabulary: its bytes, or one unknown token for neighbours of that sort. */
void bq_put_unknown(const bq_tokenizer *t, const uint8_t *text, uint32_t bytes, bool after_unknown,
                    bq_ids *out);

#endif
