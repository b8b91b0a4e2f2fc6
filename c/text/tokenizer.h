/* Tokenizer: converts text to ids and back, by the data of a file's TOKN section.
 *
 * The section is used in place and must outlive the tokenizer. Its hash tables are in memory that
 * the caller provides. The section's layout is drawn in docs/FORMAT.md. No function allocates; the
 * caller passes scratch. */
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

/* Counts that a plan needs before the section has arrived. They are compared with the section when
 * it is read. */
typedef struct bq_tokenizer_size {
  uint32_t tokens, merges;
} bq_tokenizer_size;

/* Bytes of tables besides the section; UINT64_MAX on overflow. */
uint64_t bq_tokenizer_memory(bq_tokenizer_size size);

/* Checks the whole section and builds the tables in `memory` (bq_tokenizer_memory(size) bytes,
 * aligned to BQ_ALIGN). `file_offset`: of the section, for errors. FORMAT; UNSUPPORTED: unknown
 * kind, flag, pre-tokenizer or part. */
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
bool bq_token_ends(const bq_tokenizer *t, uint32_t id);    /* ends generation, such as EOS */
bool bq_token_special(const bq_tokenizer *t, uint32_t id); /* control or unknown: no text */

/* Bytes [begin, end) of a text. */
typedef struct bq_text_range {
  uint32_t begin, end;
} bq_text_range;

typedef struct bq_tokenize_options {
  bool add_special;   /* BOS/EOS as the model's tokenizer adds them */
  bool parse_special; /* "<|user|>" in the text becomes the token; off for untrusted text */
  bool usual;         /* the scratch has the usual size (bq_tokenize_scratch) */
  bool continues;     /* the text continues another one: no prefix is added */
  /* [n_plain] ranges, rising and disjoint. With parse_special, no special token is recognized in a
   * range or across its ends */
  const bq_text_range *plain;
  uint32_t n_plain;
} bq_tokenize_options;

/* Bytes of scratch for texts up to `text_bytes`; UINT64_MAX on overflow. Normalization may enlarge
 * a text many times. The `usual` size suffices for most texts; for others tokenizing returns
 * NOMEM. */
uint64_t bq_tokenize_scratch(const bq_tokenizer *t, uint64_t text_bytes, bool usual);

/* Converts `text`, UTF-8, to ids. Bytes that are not UTF-8 are encoded as well, as characters that
 * are neither letter nor number. User-defined tokens are always recognized. Writes at most
 * `capacity` ids; *count is the number of all ids. ARGUMENT: *count > capacity, or the text is too
 * long; NOMEM. */
bq_status bq_tokenize(const bq_tokenizer *t, const char *text, size_t bytes,
                      const bq_tokenize_options *options, void *scratch, uint32_t *ids,
                      size_t capacity, size_t *count);

/* The bytes of one token in generated text, in the section; *bytes 0 for control and unknown tokens
 * and for ids out of range. */
const uint8_t *bq_token_bytes(const bq_tokenizer *t, uint32_t id, size_t *bytes);
/* The text of one token, special ones included, in the section; *bytes 0 for ids out of range. */
const uint8_t *bq_token_text(const bq_tokenizer *t, uint32_t id, size_t *bytes);
/* The id of the token with exactly this text, special tokens included; BQ_TOKEN_NONE if there is
 * none. */
uint32_t bq_token_find(const bq_tokenizer *t, const char *text, size_t bytes);

/* State of a streaming detokenizer, zeroed to start. It writes only complete UTF-8 sequences; bytes
 * that can't be part of one are replaced by U+FFFD. */
typedef struct bq_detokenizer {
  uint8_t pending[4]; /* an incomplete sequence */
  uint8_t n_pending;
  bool started; /* a token was written: SPM drops only the first token's leading space */
  bool keep_space; /* set by the caller if the text continues another one: no space is dropped */
} bq_detokenizer;

/* Maximum bytes that one call writes, for any token. */
size_t bq_detokenize_limit(const bq_tokenizer *t);
/* Writes the text that the token completes; returns the number of bytes. */
size_t bq_detokenize(const bq_tokenizer *t, bq_detokenizer *d, uint32_t id, char *out);
/* Writes U+FFFD for an incomplete sequence at the end of the text; returns the number of bytes, at
 * most 3. */
size_t bq_detokenize_end(bq_detokenizer *d, char *out);

#endif
