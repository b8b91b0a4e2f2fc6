/* The struct of a tokenizer: the section's arrays, in place, and look-up tables. */
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
  BQ_TOKENIZER_DROP_SPACE = 32, /* decoded text drops the space of its first token */
  BQ_TOKENIZER_CHARACTERS = 64, /* BPE merges characters, not bytes */
  BQ_TOKENIZER_FUSE_UNKNOWN =
      128,                   /* BPE: adjacent characters outside the vocabulary become one unknown
                                token */
  BQ_TOKENIZER_DOUBLE = 256, /* unigram: scores are added in f64 */
  BQ_TOKENIZER_FLAGS = 511
};

/* Flags of an added token, one that is looked up inside a text (Hugging Face's AddedToken). */
enum {
  BQ_ADDED_LSTRIP = 1,       /* lstrip: includes the white space before it */
  BQ_ADDED_RSTRIP = 2,      /* rstrip: includes the white space after it */
  BQ_ADDED_SINGLE_WORD = 4,       /* single_word: no letter, number or _ is adjacent */
  BQ_ADDED_NORMALIZED = 8, /* normalized: it is looked up in the normalized text */
  BQ_ADDED_ESCAPED_SPACES = 16,   /* a run of spaces that is looked up written as ▁ (U+2581) */
  BQ_ADDED_FLAGS = 31
};

/* An open-addressing table of u32 values with a power of two of slots, at most half of them used;
 * empty ones hold BQ_TOKEN_NONE. Hashes have no secret, so a file may contain entries that collide:
 * if one would lie more than BQ_PROBES slots after its first one the file is refused, and no
 * look-up goes further than the farthest entry. Random hashes stay below 100 for 2^28 entries. */
typedef struct bq_slots {
  uint32_t *slot; /* [mask + 1] */
  uint32_t mask;
  uint32_t farthest; /* maximum distance of an entry from its first slot */
} bq_slots;
enum { BQ_PROBES = 256 };

/* Maximum bytes of a token: looking tokens up in a text takes up to so many steps per byte. */
enum { BQ_TOKEN_BYTES_MAX = 4096 };

struct bq_tokenizer {
  /* Arrays in the section; numbers are little-endian and need not be aligned. */
  const uint8_t *eog;    /* [n_eog] u32 */
  const uint8_t *ends;   /* [tokens] u32 */
  const uint8_t *scores; /* [tokens] f32 */
  const uint8_t *kinds;  /* [tokens] u8 */
  const uint8_t *merges; /* [n_merges][3] u32 */
  const uint8_t *text;
  bq_tokenizer_info info;
  uint32_t flags, n_merges, n_eog;
  uint32_t longest;    /* bytes of the longest token */
  bool words;          /* no token has a space after another character, so words don't interact */
  const bq_split *split; /* byte-level BPE: the section's pattern or GPT-2's */
  bq_split own_split;
  bq_normalizer steps[BQ_NORMALIZERS];
  bq_split_pass stages[BQ_SPLIT_PASSES];
  uint32_t n_normalizers, n_split_passes;
  bool parts; /* the section has normalizers and split passes (parts.h) */
  const uint8_t *rules; /* [n_rules]: u32 id, rising, u32 flags of added tokens */
  uint32_t n_rules;
  bool any_normalized; /* an added token is looked up in normalized texts */
  bool any_written;    /* an added token is looked up as a run of ▁ */
  float unknown_score; /* unigram: score of a character that is no piece */
  uint32_t word_characters; /* WordPiece: longer words are unknown */
  bq_slots by_text;    /* ids; each text once per kind, the lowest id */
  bq_slots by_pair;    /* ranks of merges by (left, right) */
  uint32_t *sorted;    /* ids of the tokens that are looked up inside a text, sorted by text */
  uint32_t n_sorted;
  uint8_t first[256];  /* kinds of the sorted tokens that begin with each byte */
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

/* The id of a kind in `kinds` with exactly this text, whose hash is given; BQ_TOKEN_NONE. */
uint32_t bq_vocab_find_hash(const bq_tokenizer *t, uint32_t hash, const uint8_t *text, size_t bytes,
                            uint32_t kinds);
/* The same, computing the hash. */
uint32_t bq_vocab_find(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds);
/* Rank of the merge of two tokens; BQ_TOKEN_NONE. */
uint32_t bq_vocab_rank(const bq_tokenizer *t, uint32_t left, uint32_t right);
/* Unigram: whether some token begins with the characters of this hash. A Bloom filter: rarely true
 * although none does. */
bool bq_vocab_begins(const bq_tokenizer *t, uint32_t hash);
/* The longest sorted token of a kind in `kinds` at the start of the bytes, and its length. */
uint32_t bq_vocab_match(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds,
                        uint32_t *length);

/* Orders ids by text, then kind, then id. */
void bq_vocab_sort(const bq_tokenizer *t, uint32_t *ids, uint32_t n);

/* Fills the tables of a checked section, whose memory is in place. Returns false if too many
 * entries collide (bq_slots). */
bool bq_vocab_build(bq_tokenizer *t);

/* Output of ids: `count` goes on when there is no more room. */
typedef struct bq_ids {
  uint32_t *ids; /* [capacity] */
  size_t capacity, count;
} bq_ids;

static inline void bq_ids_put(bq_ids *out, uint32_t id) {
  if (id == BQ_TOKEN_NONE) return;
  if (out->count < out->capacity) out->ids[out->count] = id;
  out->count++;
}

/* Copies a text with a space in front, if wanted, and each ▁ (U+2581), which SentencePiece files
 * write for a space, as a space; at most a byte more than the text. Returns the number of bytes. */
size_t bq_spell_spaces(const uint8_t *text, size_t bytes, bool add_space, uint8_t *to);

/* Encodes a normalized text, or a word of one. memory: BQ_MERGE_ARRAYS arrays of u32 for the bytes,
 * and one more for BPE; bq_unigram_scratch for unigram. */
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

/* Encodes a piece outside the vocabulary: as its bytes, or as one unknown token for adjacent ones.
 */
void bq_put_unknown(const bq_tokenizer *t, const uint8_t *text, uint32_t bytes, bool after_unknown,
                    bq_ids *out);

#endif
