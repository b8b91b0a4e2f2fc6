/* Tokenizer: text to ids and back, over the bytes of a file's TOKN section.
 *
 * The section is used in place and must outlive the tokenizer; its hash tables lie in memory that
 * the caller planned. The section's layout is drawn in docs/FORMAT.md. No call allocates; scratch
 * is passed in. */
#ifndef BQ_TOKENIZER_H
#define BQ_TOKENIZER_H

#include "core/arena.h"
#include "core/status.h"

#define BQ_TOKEN_NONE UINT32_MAX

typedef enum bq_tokenizer_kind {
  BQ_TOKENIZER_SPM = 1,      /* SentencePiece BPE: scores, byte fallback */
  BQ_TOKENIZER_BPE = 2,      /* byte-level BPE: a pre-tokenizer and ranked merges */
  BQ_TOKENIZER_WORDLIST = 3, /* greedy longest match over the vocabulary */
  BQ_TOKENIZER_UNIGRAM = 4,  /* SentencePiece unigram: the likeliest pieces */
  BQ_TOKENIZER_WORDPIECE = 5 /* greedy longest match within words, with word-initial and continuing
                                tokens */
} bq_tokenizer_kind;

typedef struct bq_tokenizer bq_tokenizer;

/* Counts that a plan needs before the section has arrived; compared with the section later. */
typedef struct bq_tokenizer_size {
  uint32_t tokens, merges;
} bq_tokenizer_size;

/* Bytes of tables besides the section; UINT64_MAX on overflow. */
uint64_t bq_tokenizer_memory(bq_tokenizer_size size);

/* Checks the whole section (offsets in errors are relative to `file_offset`) and builds the
 * tables in `memory` (bq_tokenizer_memory(size) bytes, BQ_ALIGN aligned).
 * FORMAT, UNSUPPORTED (unknown kind, pre-tokenizer or required flag). */
bq_status bq_tokenizer_create(const uint8_t *section, size_t bytes, uint64_t file_offset,
                              bq_tokenizer_size size, void *memory, bq_tokenizer **out,
                              bq_error *err);

typedef struct bq_tokenizer_info {
  bq_tokenizer_kind kind;
  uint32_t tokens;
  uint32_t bos, eos, unk, pad; /* BQ_TOKEN_NONE where there is none */
  bool add_bos, add_eos;       /* defaults of the model's own tokenizer */
} bq_tokenizer_info;
bq_tokenizer_info bq_tokenizer_info_get(const bq_tokenizer *t);
bool bq_token_ends(const bq_tokenizer *t, uint32_t id);   /* stops generation (eos and its like) */
bool bq_token_special(const bq_tokenizer *t, uint32_t id); /* control, unknown: not shown as text */

/* Bytes [begin, end) of a text. */
typedef struct bq_text_range {
  uint32_t begin, end;
} bq_text_range;

typedef struct bq_tokenize_options {
  bool add_special;   /* BOS/EOS as the model's tokenizer adds them */
  bool parse_special; /* "<|user|>" in the text becomes the token; off for untrusted text */
  bool usual;         /* the scratch has the usual size (bq_tokenize_scratch) */
  bool continues;     /* the text continues another one: no prefix is added */
  /* [n_plain] ranges, rising and disjoint, in which no special token is recognized, nor across
   * their ends, although parse_special is on */
  const bq_text_range *plain;
  uint32_t n_plain;
} bq_tokenize_options;

/* Bytes of scratch for texts up to `text_bytes`; UINT64_MAX on overflow. Normalizing may enlarge a
 * text many times; the `usual` size suffices for most texts, otherwise tokenizing returns NOMEM. */
uint64_t bq_tokenize_scratch(const bq_tokenizer *t, uint64_t text_bytes, bool usual);

/* Ids of `text`, UTF-8. Bytes of no character are kept, as characters that are neither letter nor
 * number. User-defined tokens are always recognized. Writes at most `capacity` ids; *count is the
 * number of all: if it exceeds capacity, ARGUMENT is returned. */
bq_status bq_tokenize(const bq_tokenizer *t, const char *text, size_t bytes,
                      const bq_tokenize_options *options, void *scratch, uint32_t *ids,
                      size_t capacity, size_t *count);

/* Raw bytes of one token, in place; *bytes 0 for control and unknown tokens and for ids out of
 * range. */
const uint8_t *bq_token_bytes(const bq_tokenizer *t, uint32_t id, size_t *bytes);
/* The text of one token, special ones included, in place; *bytes 0 for ids out of range. */
const uint8_t *bq_token_text(const bq_tokenizer *t, uint32_t id, size_t *bytes);
/* The id whose text is exactly this, special tokens included; BQ_TOKEN_NONE. */
uint32_t bq_token_find(const bq_tokenizer *t, const char *text, size_t bytes);

/* Streaming detokenizer: outputs only whole UTF-8 sequences; bytes that can't become one are
 * replaced by U+FFFD. Zero-initialized to start; `pending` holds an unfinished sequence. */
typedef struct bq_detokenizer {
  uint8_t pending[4];
  uint8_t n_pending;
  bool started; /* SPM: the first token's leading space is dropped */
  bool keep_space; /* set by the caller if the text continues another one: no space is dropped */
} bq_detokenizer;

/* Maximum output of one call, for any token. */
size_t bq_detokenize_limit(const bq_tokenizer *t);
size_t bq_detokenize(const bq_tokenizer *t, bq_detokenizer *d, uint32_t id, char *out);
size_t bq_detokenize_end(bq_detokenizer *d, char *out); /* flushes; at most 3 bytes */

#endif
