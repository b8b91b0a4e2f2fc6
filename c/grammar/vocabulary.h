/* A model's tokens, sorted for masks, once for all grammars. Inside a JSON string nearly every
 * token may come; those made of *plain* characters only (what a string may have as it is: whole
 * UTF-8 characters, neither control, nor quote, nor backslash) are one set, or, where few
 * characters are left, one set per number of characters. Only the others are walked through then,
 * and of these the few that are *far*, longer than BQ_NEAR_BYTES, by themselves: how often a
 * character may still come matters to them sooner. */
#ifndef BQ_VOCABULARY_H
#define BQ_VOCABULARY_H

#include "core/arena.h"
#include "text/trie.h"

/* Plain tokens have at most so many characters; longer ones are walked through. */
enum { BQ_PLAIN_LENGTHS = 64, BQ_NEAR_BYTES = 16 };
enum { BQ_TRIE_PLAIN, BQ_TRIE_REST, BQ_TRIE_FAR, BQ_TRIES };

typedef struct bq_vocabulary {
  const bq_tokenizer *tokenizer;
  bq_trie tries[BQ_TRIES];
  uint32_t words;            /* u32 of a mask */
  uint32_t longest;          /* bytes of the longest token */
  uint32_t *plain_mask;      /* [words] */
  uint32_t *by_length;       /* ids of plain tokens, fewest characters first */
  uint32_t length_end[BQ_PLAIN_LENGTHS + 1]; /* behind those of so many characters */
} bq_vocabulary;

/* Sorts the tokens into `ids`, [tokens of the vocabulary], which lasts as long as *v; `spare` is as
 * long. Masks have bits for `size` ids, no fewer than the tokenizer has. */
void bq_vocabulary_sort(const bq_tokenizer *t, uint32_t size, uint32_t *ids, uint32_t *spare,
                        bq_vocabulary *v);
/* Called twice: over an arena that only counts, then over memory. */
void bq_vocabulary_build(bq_vocabulary *v, bq_arena *arena);

/* Sets the bits of the plain tokens of more than `above` characters, and at most so many; none is
 * set yet. */
void bq_vocabulary_plain(const bq_vocabulary *v, uint32_t above, uint32_t characters,
                         uint32_t *mask);
/* The longest token that a text of n > 0 bytes begins with; BQ_TOKEN_NONE. */
uint32_t bq_vocabulary_longest(const bq_vocabulary *v, const uint8_t *text, size_t n);

#endif
