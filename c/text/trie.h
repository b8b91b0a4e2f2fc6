/* The vocabulary as a trie over bytes, for finding the tokens that may come next under a grammar or
 * a list of words. Tokenizing doesn't need it.
 *
 *   uint32_t *ids = ...                      // [tokens of the vocabulary]
 *   bq_trie trie = bq_trie_sort(t, ids);
 *   void *memory = ...                       // bq_trie_bytes(&trie), 4-byte aligned
 *   bq_trie_build(t, memory, &trie);
 *   bq_trie_mask(&trie, step, automaton, mask);
 *
 * Nodes lie in preorder, children by rising byte: node 0 is the root, the first child of a node is
 * the next node, its next sibling is end[node]. Tokens lie in the same order, so those at a node
 * are ids[first[node]...first[node + 1]), and those of its subtree
 * ids[first[node]...first[end[node]]). */
#ifndef BQ_TRIE_H
#define BQ_TRIE_H

#include "text/tokenizer.h"

/* The trie has the tokens that may be generated: normal, user-defined and byte tokens; no control
 * tokens, no empty ones, and none longer than this. */
#define BQ_TRIE_LONGEST 65535u

typedef struct bq_trie {
  uint32_t nodes, tokens;
  const uint32_t *ids;   /* [tokens] by text; several may have the same */
  const uint32_t *end;   /* [nodes]: the node after its subtree */
  const uint32_t *first; /* [nodes + 1] of a node: its first token in ids */
  const uint16_t *depth; /* [nodes] bytes from the root on */
  const uint8_t *byte;   /* [nodes] the last of them; 0 at the root */
} bq_trie;

/* Sorts the tokens into `ids`, which must outlive the trie, and counts the nodes: O(n log n)
 * comparisons. */
bq_trie bq_trie_sort(const bq_tokenizer *t, uint32_t *ids);
/* A trie of n of them, in that order. */
bq_trie bq_trie_of(const bq_tokenizer *t, const uint32_t *ids, uint32_t n);
/* Bytes of the nodes of a sorted trie. */
uint64_t bq_trie_bytes(const bq_trie *trie);
/* Fills in the nodes, in `memory`. */
void bq_trie_build(const bq_tokenizer *t, void *memory, bq_trie *trie);

/* The child of a node by a byte; 0: no such child. */
uint32_t bq_trie_child(const bq_trie *trie, uint32_t node, uint8_t byte);

/* Whether `byte` may follow the `depth` bytes that were accepted last at smaller depths. */
typedef bool bq_trie_step(void *ctx, uint32_t depth, uint8_t byte);
/* Sets the bits of the tokens whose bytes are all accepted, in the format of bq_sample_options;
 * clears none. */
void bq_trie_mask(const bq_trie *trie, bq_trie_step *step, void *ctx, uint32_t *mask);

#endif
