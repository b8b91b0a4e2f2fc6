/* The vocabulary as a trie over bytes. It is used to find the tokens that are allowed next by a
 * grammar or a list of words; tokenizing doesn't use it.
 *
 *   uint32_t *ids = ...                      // [tokens of the vocabulary]
 *   bq_trie trie = bq_trie_sort(t, ids);
 *   void *memory = ...                       // bq_trie_bytes(&trie), 4-byte aligned
 *   bq_trie_build(t, memory, &trie);
 *   bq_trie_mask(&trie, step, automaton, mask);
 *
 * Nodes are in preorder, children by rising byte: node 0 is the root, the first child of a node is
 * the next node, its next sibling is end[node]. Tokens are in the same order, so those at a node
 * are ids[first[node]...first[node + 1]), and those of its subtree
 * ids[first[node]...first[end[node]]). */
#ifndef BQ_TRIE_H
#define BQ_TRIE_H

#include "text/tokenizer.h"

/* Maximum bytes of a token in the trie. The trie has the tokens that may be generated: normal,
 * user-defined and byte tokens, except empty and longer ones. */
#define BQ_TRIE_LONGEST 65535u

typedef struct bq_trie {
  uint32_t nodes, tokens;
  const uint32_t *ids;   /* [tokens] sorted by text; several may have the same text */
  const uint32_t *end;   /* [nodes]: the node after its subtree */
  const uint32_t *first; /* [nodes + 1] of a node: its first token in ids */
  const uint16_t *depth; /* [nodes] bytes from the root on */
  const uint8_t *byte;   /* [nodes] the last of them; 0 at the root */
} bq_trie;

/* Sorts the tokens into `ids`, which must outlive the trie, and counts the nodes: O(n log n)
 * comparisons. */
bq_trie bq_trie_sort(const bq_tokenizer *t, uint32_t *ids);
/* Counts the nodes of a trie of n tokens, which must be sorted as by bq_trie_sort. */
bq_trie bq_trie_of(const bq_tokenizer *t, const uint32_t *ids, uint32_t n);
/* Bytes of the nodes of a sorted trie. */
uint64_t bq_trie_bytes(const bq_trie *trie);
/* Fills in the nodes, in `memory`. */
void bq_trie_build(const bq_tokenizer *t, void *memory, bq_trie *trie);

/* The child of a node for a byte; 0: no such child. */
uint32_t bq_trie_child(const bq_trie *trie, uint32_t node, uint8_t byte);

/* Returns whether `byte` is accepted at index `depth`, after the bytes that were accepted last at
 * smaller depths. */
typedef bool bq_trie_step(void *ctx, uint32_t depth, uint8_t byte);
/* Sets the bits of the tokens whose bytes are all accepted, in the format of
 * bq_sample_options.mask; clears none. */
void bq_trie_mask(const bq_trie *trie, bq_trie_step *step, void *ctx, uint32_t *mask);

#endif
