/* The vocabulary as a trie over bytes, for whoever wants to know which tokens may come next: a
 * grammar, a list of words. A tokenizer needs none, so nobody pays for one who doesn't make it.
 *
 *   uint32_t *ids = ...                      // [tokens of the vocabulary]
 *   bq_trie trie = bq_trie_sort(t, ids);
 *   void *memory = ...                       // bq_trie_bytes(&trie), 4-byte aligned
 *   bq_trie_build(t, memory, &trie);
 *   bq_trie_mask(&trie, step, automaton, mask);
 *
 * Nodes lie in preorder, children by rising byte: node 0 is the root, the first child of a node is
 * the one after it, the next sibling of a node is end[node]. Tokens lie in the same order, so those
 * at a node are ids[first[node]...first[node + 1]), and those of its subtree
 * ids[first[node]...first[end[node]]). */
#ifndef BQ_TRIE_H
#define BQ_TRIE_H

#include "text/tokenizer.h"

/* Tokens are what generation may write: normal, user-defined and single bytes; neither control
 * tokens nor empty ones, nor any longer than this. */
#define BQ_TRIE_LONGEST 65535u

typedef struct bq_trie {
  uint32_t nodes, tokens;
  const uint32_t *ids;   /* [tokens] by text; several may have the same */
  const uint32_t *end;   /* [nodes] behind the last node of its subtree */
  const uint32_t *first; /* [nodes + 1] of a node: its first token in ids */
  const uint16_t *depth; /* [nodes] bytes from the root on */
  const uint8_t *byte;   /* [nodes] the last of them; 0 at the root */
} bq_trie;

/* The tokens in order, in `ids`, which lasts as long as the trie; counts the nodes. Takes
 * O(n log n) comparisons for n tokens. */
bq_trie bq_trie_sort(const bq_tokenizer *t, uint32_t *ids);
/* A trie of some of them, n in that order. */
bq_trie bq_trie_of(const bq_tokenizer *t, const uint32_t *ids, uint32_t n);
/* Bytes of the nodes of a sorted trie. */
uint64_t bq_trie_bytes(const bq_trie *trie);
/* Fills in the nodes, in `memory`. */
void bq_trie_build(const bq_tokenizer *t, void *memory, bq_trie *trie);

/* The child of a node by a byte; 0 when there is none. */
uint32_t bq_trie_child(const bq_trie *trie, uint32_t node, uint8_t byte);

/* Whether `byte` may follow the `depth` bytes before it: of the bytes asked for, the last accepted
 * one at each smaller depth. */
typedef bool bq_trie_step(void *ctx, uint32_t depth, uint8_t byte);
/* Sets the bits of the tokens all of whose bytes are accepted, in a mask as bq_sample_options has
 * it; clears none. */
void bq_trie_mask(const bq_trie *trie, bq_trie_step *step, void *ctx, uint32_t *mask);

#endif
