#include "grammar/vocabulary.h"

#include "text/utf8.h"

/* Number of characters of a plain text; 0 if it isn't plain, or is too long to count. */
static uint32_t plain_characters(const uint8_t *text, size_t bytes) {
  uint32_t characters = 0;
  while (bytes) {
    uint32_t c;
    const unsigned n = bq_utf8_decode(text, bytes, &c);
    if (c == BQ_UTF8_BAD || c < 0x20 || c == '"' || c == '\\') return 0;
    text += n;
    bytes -= n;
    characters++;
  }
  return characters <= BQ_PLAIN_LENGTHS ? characters : 0;
}

static uint32_t characters_of(const bq_tokenizer *t, uint32_t id) {
  size_t bytes;
  const uint8_t *text = bq_token_bytes(t, id, &bytes);
  return plain_characters(text, bytes);
}

static unsigned trie_of(const bq_tokenizer *t, uint32_t id) {
  size_t bytes;
  if (characters_of(t, id)) return BQ_TRIE_PLAIN;
  bq_token_bytes(t, id, &bytes);
  return bytes > BQ_NEAR_BYTES ? BQ_TRIE_FAR : BQ_TRIE_REST;
}

/* Moves the tokens of one trie to the front and returns their number; both parts keep their
 * order. */
static uint32_t move_first(const bq_tokenizer *t, unsigned trie, uint32_t *ids, uint32_t n,
                           uint32_t *spare) {
  uint32_t first = 0, others = 0;
  for (uint32_t i = 0; i < n; i++)
    if (trie_of(t, ids[i]) == trie) ids[first++] = ids[i];
    else spare[others++] = ids[i];
  for (uint32_t i = 0; i < others; i++) ids[first + i] = spare[i];
  return first;
}

void bq_vocabulary_sort(const bq_tokenizer *t, uint32_t size, uint32_t *ids, uint32_t *spare,
                        bq_vocabulary *v) {
  const bq_trie all = bq_trie_sort(t, ids);
  *v = (bq_vocabulary){.tokenizer = t, .words = (size + 31) / 32};
  uint32_t begin = 0;
  for (unsigned trie = 0; trie < BQ_TRIES; trie++) {
    const uint32_t n = move_first(t, trie, ids + begin, all.tokens - begin, spare);
    v->tries[trie] = bq_trie_of(t, ids + begin, n);
    begin += n;
  }
  for (uint32_t i = 0; i < all.tokens; i++) {
    size_t bytes;
    bq_token_bytes(t, ids[i], &bytes);
    if (bytes > v->longest) v->longest = (uint32_t)bytes;
  }
}

/* Counting sort by the number of characters. */
static void sort_by_length(bq_vocabulary *v) {
  const bq_trie *plain = &v->tries[BQ_TRIE_PLAIN];
  uint32_t at[BQ_PLAIN_LENGTHS + 2] = {0};
  for (uint32_t i = 0; i < plain->tokens; i++) at[characters_of(v->tokenizer, plain->ids[i]) + 1]++;
  for (uint32_t n = 1; n < BQ_PLAIN_LENGTHS + 2; n++) at[n] += at[n - 1];
  for (uint32_t i = 0; i < plain->tokens; i++) {
    const uint32_t id = plain->ids[i];
    v->by_length[at[characters_of(v->tokenizer, id)]++] = id;
  }
  for (uint32_t n = 0; n <= BQ_PLAIN_LENGTHS; n++) v->length_end[n] = at[n];
}

static void build_trie(const bq_tokenizer *t, bq_arena *arena, bq_trie *trie) {
  void *memory = bq_arena_take(arena, bq_trie_bytes(trie), 1);
  if (memory) bq_trie_build(t, memory, trie);
}

void bq_vocabulary_build(bq_vocabulary *v, bq_arena *arena) {
  const bq_trie *plain = &v->tries[BQ_TRIE_PLAIN];
  for (unsigned trie = 0; trie < BQ_TRIES; trie++) build_trie(v->tokenizer, arena, &v->tries[trie]);
  v->plain_mask = bq_arena_take(arena, v->words, sizeof *v->plain_mask);
  v->by_length = bq_arena_take(arena, plain->tokens, sizeof *v->by_length);
  if (!arena->base || arena->overflow) return;
  for (uint32_t i = 0; i < v->words; i++) v->plain_mask[i] = 0;
  for (uint32_t i = 0; i < plain->tokens; i++)
    v->plain_mask[plain->ids[i] / 32] |= 1u << plain->ids[i] % 32;
  sort_by_length(v);
}

static uint32_t end_of_length(const bq_vocabulary *v, uint32_t characters) {
  return v->length_end[characters < BQ_PLAIN_LENGTHS ? characters : BQ_PLAIN_LENGTHS];
}

/* Starts from no tokens or from all plain ones, whichever needs fewer changes. */
void bq_vocabulary_plain(const bq_vocabulary *v, uint32_t above, uint32_t characters,
                         uint32_t *mask) {
  const uint32_t n = v->tries[BQ_TRIE_PLAIN].tokens;
  uint32_t i = end_of_length(v, above), end = end_of_length(v, characters);
  if (!above && end > n / 2) {
    for (uint32_t w = 0; w < v->words; w++) mask[w] |= v->plain_mask[w];
    i = end;
    end = n;
  }
  for (; i < end; i++) mask[v->by_length[i] / 32] ^= 1u << v->by_length[i] % 32;
}

uint32_t bq_vocabulary_longest(const bq_vocabulary *v, const uint8_t *text, size_t n) {
  uint32_t longest = BQ_TOKEN_NONE;
  size_t longest_bytes = 0;
  for (unsigned t = 0; t < BQ_TRIES; t++) {
    const bq_trie *trie = &v->tries[t];
    uint32_t node = 0;
    for (size_t i = 0; i < n && (node = bq_trie_child(trie, node, text[i])); i++) {
      if (trie->first[node] == trie->first[node + 1] || i + 1 <= longest_bytes) continue;
      longest = trie->ids[trie->first[node]];
      longest_bytes = i + 1;
    }
  }
  return longest;
}
