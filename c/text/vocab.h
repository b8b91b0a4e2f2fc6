/* The struct of a tokenizer: pointers to the arrays of its section, and look-up tables. */
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

/* Flags of an added token, that is, a token that is looked up inside a text before it is split
 * (Hugging Face's AddedToken). */
enum {
  BQ_ADDED_LSTRIP = 1,       /* lstrip: includes the white space before it */
  BQ_ADDED_RSTRIP = 2,      /* rstrip: includes the white space after it */
  BQ_ADDED_SINGLE_WORD = 4,       /* single_word: no letter, number or _ is adjacent */
  BQ_ADDED_NORMALIZED = 8, /* normalized: it is looked up in the normalized text */
  BQ_ADDED_ESCAPED_SPACES = 16,   /* a run of spaces, which is looked up as a run of ▁ (U+2581) */
  BQ_ADDED_FLAGS = 31
};

/* An open-addressing table of u32 values. The number of slots is a power of two; at most half of
 * them are used, and empty ones hold BQ_TOKEN_NONE. The hash function has no secret, so a file may
 * contain entries that collide on purpose. A file is rejected if an entry would be more than
 * BQ_PROBES slots after its first slot, and no look-up goes further than the farthest entry. With
 * random hashes the distance is below 100 for 2^28 entries. */
typedef struct bq_slots {
  uint32_t *slot; /* [mask + 1] */
  uint32_t mask;
  uint32_t farthest; /* maximum distance of an entry from its first slot */
} bq_slots;
enum { BQ_PROBES = 256 };

/* Maximum bytes of a token. A look-up of tokens in a text takes up to this many steps per byte. */
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
  bool words;          /* no token has a space after another character, so that words are encoded
                          independently */
  const bq_split *split; /* byte-level BPE: the section's pattern or GPT-2's */
  bq_split own_split;
  bq_normalizer steps[BQ_NORMALIZERS];
  bq_split_pass stages[BQ_SPLIT_PASSES];
  uint32_t n_normalizers, n_split_passes;
  bool parts; /* the section has normalizers and split passes (parts.h) */
  const uint8_t *rules; /* [n_rules]: u32 id, rising, u32 flags of added tokens */
  uint32_t n_rules;
  bool any_normalized; /* an added token is looked up in normalized texts */
  bool any_escaped_spaces; /* an added token is looked up as a run of ▁ */
  float unknown_score; /* unigram: score of a character without a token */
  uint32_t word_characters; /* WordPiece: maximum characters of a word; longer ones are unknown */
  bq_slots by_text;    /* ids; each text once per kind, the lowest id */
  bq_slots by_pair;    /* ranks of merges by (left, right) */
  uint32_t *sorted;    /* ids of the tokens that are looked up inside a text, sorted by text */
  uint32_t n_sorted;
  uint8_t first[256];  /* kinds of the sorted tokens that begin with each byte */
  uint32_t byte[256];  /* the token of a single byte, or BQ_TOKEN_NONE */
};

static inline uint32_t bq_vocab_kind(const bq_tokenizer *t, uint32_t id) { return t->kinds[id]; }

/* Text of a token, id < tokens, in the section. */
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

/* The token of a kind in `kinds` with exactly this text, whose hash is passed, or
 * BQ_TOKEN_NONE. */
uint32_t bq_vocab_find_hash(const bq_tokenizer *t, uint32_t hash, const uint8_t *text, size_t bytes,
                            uint32_t kinds);
/* As bq_vocab_find_hash, but computes the hash. */
uint32_t bq_vocab_find(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds);
/* Rank of the merge of two tokens; BQ_TOKEN_NONE if they do not merge. */
uint32_t bq_vocab_rank(const bq_tokenizer *t, uint32_t left, uint32_t right);
/* Unigram: whether some token begins with the text of this hash. A Bloom filter: rarely true
 * although no token does. */
bool bq_vocab_begins(const bq_tokenizer *t, uint32_t hash);
/* The longest of the sorted tokens of a kind in `kinds` at the start of the bytes, and its length;
 * BQ_TOKEN_NONE if no token matches. */
uint32_t bq_vocab_match(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds,
                        uint32_t *length);

/* Orders ids by text, then kind, then id. */
void bq_vocab_sort(const bq_tokenizer *t, uint32_t *ids, uint32_t n);

/* Fills the tables of a checked section. Returns false if too many entries collide (bq_slots). */
bool bq_vocab_build(bq_tokenizer *t);

/* Output of ids. `count` counts all ids, including those that didn't fit. */
typedef struct bq_ids {
  uint32_t *ids; /* [capacity] */
  size_t capacity, count;
} bq_ids;

static inline void bq_ids_put(bq_ids *out, uint32_t id) {
  if (id == BQ_TOKEN_NONE) return;
  if (out->count < out->capacity) out->ids[out->count] = id;
  out->count++;
}

/* Copies a text, with a space in front if `add_space`, and replaces each ▁ (U+2581), which
 * SentencePiece writes in place of a space, by a space. Returns the number of bytes, at most one
 * more than the text has. */
size_t bq_spell_spaces(const uint8_t *text, size_t bytes, bool add_space, uint8_t *to);

/* The encoders of the kinds of tokenizers: encode a normalized text, or a word of one. memory: for
 * SPM u32 [BQ_MERGE_ARRAYS][bytes], for BPE one array more, for unigram bq_unigram_scratch
 * bytes. */
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

/* Encodes a piece that is not in the vocabulary: as byte tokens, or as one unknown token for all
 * adjacent ones. */
void bq_put_unknown(const bq_tokenizer *t, const uint8_t *text, uint32_t bytes, bool after_unknown,
                    bq_ids *out);

#endif
