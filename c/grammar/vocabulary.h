/* A model's tokens, sorted for masks, once for all grammars. Inside a JSON string nearly every
 * token is allowed. *Plain* characters are those that a string may contain unescaped: complete
 * UTF-8 characters except controls, quote and backslash. Tokens that consist of plain characters
 * form one set or, if few characters remain, one set per number of characters. Only the other
 * tokens are checked one by one. The few *far* tokens of these, longer than BQ_NEAR_BYTES, are
 * checked separately, because length limits affect them earlier. */
#ifndef BQ_VOCABULARY_H
#define BQ_VOCABULARY_H

#include "core/arena.h"
#include "text/trie.h"

/* Maximum characters of a plain token (longer ones are checked one by one), and maximum bytes of a
 * near token. */
enum { BQ_PLAIN_LENGTHS = 64, BQ_NEAR_BYTES = 16 };
enum { BQ_TRIE_PLAIN, BQ_TRIE_REST, BQ_TRIE_FAR, BQ_TRIES };

typedef struct bq_vocabulary {
  const bq_tokenizer *tokenizer;
  bq_trie tries[BQ_TRIES];
  uint32_t words;            /* number of u32 in a mask */
  uint32_t longest;          /* bytes of the longest token */
  uint32_t *plain_mask;      /* [words] */
  uint32_t *by_length;       /* ids of plain tokens, fewest characters first */
  uint32_t length_end[BQ_PLAIN_LENGTHS + 1]; /* [n]: end, in by_length, of the tokens of n
                                                characters */
} bq_vocabulary;

/* Sorts the tokens into `ids`, [tokens of the vocabulary], which must outlive *v; `spare` has the
 * same size. Masks have bits for `size` ids, at least as many as the tokenizer has. */
void bq_vocabulary_sort(const bq_tokenizer *t, uint32_t size, uint32_t *ids, uint32_t *spare,
                        bq_vocabulary *v);
/* Builds the tries. Called twice: over an arena that only counts, then over memory. */
void bq_vocabulary_build(bq_vocabulary *v, bq_arena *arena);

/* Sets the bits of the plain tokens with more than `above` and at most `characters` characters;
 * none of these bits may be set before. */
void bq_vocabulary_plain(const bq_vocabulary *v, uint32_t above, uint32_t characters,
                         uint32_t *mask);
/* The longest token at the start of a text of n > 0 bytes; BQ_TOKEN_NONE if no token matches. */
uint32_t bq_vocabulary_longest(const bq_vocabulary *v, const uint8_t *text, size_t n);

#endif
