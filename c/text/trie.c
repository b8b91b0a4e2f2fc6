#include "text/trie.h"

#include "text/vocab.h"

static bool is_in_trie(const bq_tokenizer *t, uint32_t id) {
  const uint32_t kinds = BQ_KINDS_TEXT | BQ_KIND(BQ_TOKEN_USER) | BQ_KIND(BQ_TOKEN_BYTE);
  uint32_t bytes;
  bq_vocab_text(t, id, &bytes);
  return bytes && bytes <= BQ_TRIE_LONGEST && kinds & BQ_KIND(bq_vocab_kind(t, id));
}

/* Length of the common prefix of two tokens. */
static uint32_t shared_bytes(const bq_tokenizer *t, uint32_t a, uint32_t b) {
  uint32_t na, nb, n = 0;
  const uint8_t *ta = bq_vocab_text(t, a, &na), *tb = bq_vocab_text(t, b, &nb);
  while (n < na && n < nb && ta[n] == tb[n]) n++;
  return n;
}

bq_trie bq_trie_of(const bq_tokenizer *t, const uint32_t *ids, uint32_t n) {
  bq_trie trie = {.nodes = 1, .tokens = n, .ids = ids};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t bytes;
    bq_vocab_text(t, ids[i], &bytes);
    trie.nodes += bytes - (i ? shared_bytes(t, ids[i - 1], ids[i]) : 0);
  }
  return trie;
}

bq_trie bq_trie_sort(const bq_tokenizer *t, uint32_t *ids) {
  uint32_t n = 0;
  for (uint32_t id = 0; id < t->info.tokens; id++)
    if (is_in_trie(t, id)) ids[n++] = id;
  bq_vocab_sort(t, ids, n);
  return bq_trie_of(t, ids, n);
}

uint64_t bq_trie_bytes(const bq_trie *trie) {
  return (uint64_t)trie->nodes * (4 + 4 + 2 + 1) + 4;
}

void bq_trie_build(const bq_tokenizer *t, void *memory, bq_trie *trie) {
  uint32_t *end = memory, *first = end + trie->nodes;
  uint16_t *depth = (uint16_t *)(first + trie->nodes + 1);
  uint8_t *byte = (uint8_t *)(depth + trie->nodes);
  uint32_t nodes = 1;
  first[0] = depth[0] = byte[0] = 0;
  for (uint32_t i = 0; i < trie->tokens; i++) {
    uint32_t bytes;
    const uint8_t *text = bq_vocab_text(t, trie->ids[i], &bytes);
    for (uint32_t at = i ? shared_bytes(t, trie->ids[i - 1], trie->ids[i]) : 0; at < bytes; at++) {
      first[nodes] = i;
      depth[nodes] = (uint16_t)(at + 1);
      byte[nodes++] = text[at];
    }
  }
  first[nodes] = trie->tokens;
  /* From the last node on: a subtree ends at the next node that is no deeper. */
  for (uint32_t node = nodes; node-- > 0;) {
    uint32_t next = node + 1;
    while (next < nodes && depth[next] > depth[node]) next = end[next];
    end[node] = next;
  }
  trie->end = end;
  trie->first = first;
  trie->depth = depth;
  trie->byte = byte;
}

uint32_t bq_trie_child(const bq_trie *trie, uint32_t node, uint8_t byte) {
  const uint32_t end = trie->end[node];
  uint32_t child = node + 1;
  while (child < end && trie->byte[child] < byte) child = trie->end[child];
  return child < end && trie->byte[child] == byte ? child : 0;
}

void bq_trie_mask(const bq_trie *trie, bq_trie_step *step, void *ctx, uint32_t *mask) {
  for (uint32_t node = 1; node < trie->nodes;) {
    if (!step(ctx, trie->depth[node] - 1u, trie->byte[node])) {
      node = trie->end[node];
      continue;
    }
    for (uint32_t i = trie->first[node]; i < trie->first[node + 1]; i++)
      mask[trie->ids[i] / 32] |= 1u << trie->ids[i] % 32;
    node++;
  }
}
