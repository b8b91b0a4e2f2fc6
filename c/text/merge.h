/* Merges adjacent pairs until none can be merged, for both kinds of BPE.
 *
 * A text is a list of symbols, identified by the position of their first byte. A tournament tree
 * over all positions finds the pair with the lowest key (of equal keys the leftmost), so that n
 * bytes take O(n log n) in the worst case. The including file defines the keys. */
#ifndef BQ_MERGE_H
#define BQ_MERGE_H

#include <stddef.h>
#include <stdint.h>

#define BQ_NO_MERGE UINT32_MAX

typedef struct bq_merge_list {
  uint32_t n;     /* bytes */
  uint32_t *next; /* [n], of a symbol: position of the next one; n after the last */
  uint32_t *prev; /* [n], of a symbol: position of the previous one */
  uint32_t *key;  /* [n] of a symbol: key of the pair it begins; BQ_NO_MERGE elsewhere */
  uint32_t *tree; /* [n] node i > 0: position of the best pair below nodes 2i and 2i + 1, where
                     node n + p is position p */
} bq_merge_list;

enum { BQ_MERGE_ARRAYS = 4 }; /* of n u32 each */

static inline bq_merge_list bq_merge_list_at(uint32_t *memory, uint32_t n) {
  return (bq_merge_list){n, memory, memory + n, memory + 2 * (size_t)n, memory + 3 * (size_t)n};
}

static inline uint32_t bq_merge_winner(const bq_merge_list *l, uint32_t node) {
  return node >= l->n ? node - l->n : l->tree[node];
}

static inline void bq_merge_play(bq_merge_list *l, uint32_t node) {
  uint32_t a = bq_merge_winner(l, 2 * node), b = bq_merge_winner(l, 2 * node + 1);
  uint32_t ka = l->key[a], kb = l->key[b];
  l->tree[node] = ka < kb || (ka == kb && a < b) ? a : b;
}

/* The function that returns the key of a pair, and a function that is called after its merge.
 * `left` and `right` are adjacent symbols; `right` ends at `end`. */
typedef struct bq_merge_rules {
  uint32_t (*key)(void *ctx, uint32_t left, uint32_t right, uint32_t end);
  void (*merge)(void *ctx, uint32_t left, uint32_t key); /* may be NULL */
  void *ctx;
} bq_merge_rules;

/* Computes the key of the pair that begins with symbol `left`. */
static inline void bq_merge_update_key(bq_merge_list *l, const bq_merge_rules *rules,
                                       uint32_t left) {
  uint32_t right = l->next[left];
  l->key[left] = right < l->n ? rules->key(rules->ctx, left, right, l->next[right]) : BQ_NO_MERGE;
}

static inline void bq_merge_replay(bq_merge_list *l, uint32_t position) {
  for (uint32_t node = (l->n + position) / 2; node; node /= 2) bq_merge_play(l, node);
}

/* Runs the merges. The caller must have filled in `next` and `prev`: from position 0, next links
 * all symbols. */
static inline void bq_merge_run(bq_merge_list *l, const bq_merge_rules *rules) {
  if (l->n < 2) return;
  for (uint32_t i = 0; i < l->n; i++) l->key[i] = BQ_NO_MERGE;
  for (uint32_t at = 0; at < l->n; at = l->next[at]) bq_merge_update_key(l, rules, at);
  for (uint32_t node = l->n; node-- > 1;) bq_merge_play(l, node);
  for (;;) {
    uint32_t left = l->tree[1], key = l->key[left];
    if (key == BQ_NO_MERGE) return;
    uint32_t right = l->next[left], after = l->next[right];
    l->next[left] = after;
    if (after < l->n) l->prev[after] = left;
    l->key[right] = BQ_NO_MERGE;
    if (rules->merge) rules->merge(rules->ctx, left, key);
    bq_merge_update_key(l, rules, left);
    bq_merge_replay(l, right);
    bq_merge_replay(l, left);
    if (left == 0) continue;
    bq_merge_update_key(l, rules, l->prev[left]);
    bq_merge_replay(l, l->prev[left]);
  }
}

#endif
