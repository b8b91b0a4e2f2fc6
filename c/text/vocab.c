#include "text/vocab.h"

static uint32_t hash_text(const uint8_t *text, size_t bytes) {
  uint32_t h = BQ_HASH_START;
  for (size_t i = 0; i < bytes; i++) h = bq_hash_byte(h, text[i]);
  return h;
}

/* Folds high bits into low bits, since tables use the low ones. */
static uint32_t slot_of(uint32_t hash) { return hash ^ hash >> 15; }

static uint32_t hash_pair(uint32_t left, uint32_t right) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(h >> 32);
}

/* Stores a value in the first free slot from its hash on. Returns false if BQ_PROBES slots are in
 * use. */
static bool insert(bq_slots *s, uint32_t hash, uint32_t value) {
  for (uint32_t i = 0; i <= BQ_PROBES; i++) {
    uint32_t *slot = &s->slot[(hash + i) & s->mask];
    if (*slot != BQ_TOKEN_NONE) continue;
    *slot = value;
    if (i > s->farthest) s->farthest = i;
    return true;
  }
  return false;
}

static bool has_text(const bq_tokenizer *t, uint32_t id, const uint8_t *text, size_t bytes) {
  uint32_t n;
  const uint8_t *own = bq_vocab_text(t, id, &n);
  return n == bytes && memcmp(own, text, bytes) == 0;
}

uint32_t bq_vocab_find(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds) {
  if (bytes == 0 || bytes > t->longest) return BQ_TOKEN_NONE;
  return bq_vocab_find_hash(t, hash_text(text, bytes), text, bytes, kinds);
}

uint32_t bq_vocab_find_hash(const bq_tokenizer *t, uint32_t hash, const uint8_t *text, size_t bytes,
                            uint32_t kinds) {
  const uint32_t first = slot_of(hash);
  for (uint32_t i = 0; i <= t->by_text.farthest; i++) {
    uint32_t id = t->by_text.slot[(first + i) & t->by_text.mask];
    if (id == BQ_TOKEN_NONE) break;
    if (kinds & BQ_KIND(bq_vocab_kind(t, id)) && has_text(t, id, text, bytes)) return id;
  }
  return BQ_TOKEN_NONE;
}

uint32_t bq_vocab_rank(const bq_tokenizer *t, uint32_t left, uint32_t right) {
  const uint32_t first = hash_pair(left, right);
  for (uint32_t i = 0; i <= t->by_pair.farthest; i++) {
    uint32_t rank = t->by_pair.slot[(first + i) & t->by_pair.mask];
    if (rank == BQ_TOKEN_NONE) break;
    if (bq_vocab_merge(t, rank, 0) == left && bq_vocab_merge(t, rank, 1) == right) return rank;
  }
  return BQ_TOKEN_NONE;
}

void bq_put_unknown(const bq_tokenizer *t, const uint8_t *text, uint32_t bytes, bool after_unknown,
                    bq_ids *out) {
  bool fallback = t->flags & BQ_TOKENIZER_BYTE_FALLBACK;
  if (!fallback && !after_unknown) bq_ids_put(out, t->info.unk);
  for (uint32_t i = 0; fallback && i < bytes; i++) {
    uint32_t id = t->byte[text[i]];
    bq_ids_put(out, id == BQ_TOKEN_NONE ? t->info.unk : id);
  }
}

/* --- sorted tokens -------------------------------------------------------------------------- */

/* Orders by text, then kind, then id: a total order. */
static bool sorts_before(const bq_tokenizer *t, uint32_t a, uint32_t b) {
  uint32_t na, nb;
  const uint8_t *ta = bq_vocab_text(t, a, &na), *tb = bq_vocab_text(t, b, &nb);
  int order = memcmp(ta, tb, na < nb ? na : nb);
  if (order) return order < 0;
  if (na != nb) return na < nb;
  uint32_t ka = bq_vocab_kind(t, a), kb = bq_vocab_kind(t, b);
  return ka != kb ? ka < kb : a < b;
}

/* Sifts the value at `at` down in a heap of n, largest on top. */
static void sift_down(const bq_tokenizer *t, uint32_t *heap, uint32_t at, uint32_t n) {
  uint32_t value = heap[at];
  for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && sorts_before(t, heap[child], heap[child + 1])) child++;
    if (!sorts_before(t, value, heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = value;
}

/* Heapsort: it needs no memory and no recursion, and takes O(n log n) in the worst case. */
void bq_vocab_sort(const bq_tokenizer *t, uint32_t *ids, uint32_t n) {
  for (uint32_t i = n / 2; i-- > 0;) sift_down(t, ids, i, n);
  for (uint32_t end = n; end-- > 1;) {
    uint32_t largest = ids[0];
    ids[0] = ids[end];
    ids[end] = largest;
    sift_down(t, ids, 0, end);
  }
}

/* Whether a token's byte number `at` is below `byte`; a token that ends there sorts first. */
static bool byte_below(const bq_tokenizer *t, uint32_t id, uint32_t at, uint32_t byte) {
  uint32_t n;
  const uint8_t *text = bq_vocab_text(t, id, &n);
  return n <= at || text[at] < byte;
}

/* First of sorted[low…high) whose byte number `at` is at least `byte` (0…256). */
static uint32_t lower_bound(const bq_tokenizer *t, uint32_t low, uint32_t high, uint32_t at,
                            uint32_t byte) {
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (byte_below(t, t->sorted[middle], at, byte)) low = middle + 1;
    else high = middle;
  }
  return low;
}

uint32_t bq_vocab_match(const bq_tokenizer *t, const uint8_t *text, size_t bytes, uint32_t kinds,
                        uint32_t *length) {
  uint32_t found = BQ_TOKEN_NONE;
  if (!bytes || !(t->first[text[0]] & kinds)) return found;
  uint32_t low = 0, high = t->n_sorted; /* tokens that share the first `at` bytes with the text */
  for (uint32_t at = 0; at < bytes; at++) {
    low = lower_bound(t, low, high, at, text[at]);
    high = lower_bound(t, low, high, at, text[at] + 1u);
    if (low == high) return found;
    for (uint32_t i = low; i < high; i++) { /* tokens that end here come first, one for each kind */
      uint32_t n;
      bq_vocab_text(t, t->sorted[i], &n);
      if (n > at + 1) break;
      if (!(kinds & BQ_KIND(bq_vocab_kind(t, t->sorted[i])))) continue;
      found = t->sorted[i];
      *length = n;
      break;
    }
  }
  return found;
}

/* --- building ------------------------------------------------------------------------------- */

static bool add_text(bq_tokenizer *t, uint32_t id) {
  uint32_t bytes;
  const uint8_t *text = bq_vocab_text(t, id, &bytes);
  uint32_t kind = bq_vocab_kind(t, id);
  if (bytes == 0 || kind == BQ_TOKEN_BYTE) return true;
  if (bq_vocab_find(t, text, bytes, BQ_KIND(kind)) != BQ_TOKEN_NONE) return true;
  return insert(&t->by_text, slot_of(hash_text(text, bytes)), id);
}

/* Skips merges whose result is a control token: untrusted text must never be encoded as one. */
static bool add_merge(bq_tokenizer *t, uint32_t rank) {
  uint32_t left = bq_vocab_merge(t, rank, 0), right = bq_vocab_merge(t, rank, 1);
  if (BQ_KINDS_HIDDEN & BQ_KIND(bq_vocab_kind(t, bq_vocab_merge(t, rank, 2)))) return true;
  if (bq_vocab_rank(t, left, right) != BQ_TOKEN_NONE) return true;
  return insert(&t->by_pair, hash_pair(left, right), rank);
}

static void add_byte(bq_tokenizer *t, uint32_t id) {
  uint32_t bytes;
  const uint8_t *text = bq_vocab_text(t, id, &bytes);
  bool bytes_are_text = t->info.kind == BQ_TOKENIZER_BPE && !(t->flags & BQ_TOKENIZER_CHARACTERS);
  uint32_t wanted_kinds = bytes_are_text ? BQ_KINDS_TEXT : 0;
  wanted_kinds |= BQ_KIND(BQ_TOKEN_BYTE);
  if (bytes != 1 || !(wanted_kinds & BQ_KIND(bq_vocab_kind(t, id)))) return;
  if (t->byte[text[0]] == BQ_TOKEN_NONE) t->byte[text[0]] = id;
}

static bool space_inside(const uint8_t *text, uint32_t bytes) {
  for (uint32_t i = 1; i < bytes; i++)
    if (text[i] == ' ' && text[i - 1] != ' ') return true;
  return false;
}

/* Builds the sorted table of tokens that are looked up inside a text: special and user-defined
 * ones, and all of a word list. Of equal texts of one kind it keeps the lowest id. */
static void build_sorted(bq_tokenizer *t) {
  uint32_t wanted_kinds = BQ_KINDS_HIDDEN | BQ_KIND(BQ_TOKEN_USER);
  if (t->info.kind == BQ_TOKENIZER_WORDLIST) wanted_kinds |= BQ_KINDS_TEXT;
  uint32_t n = 0, kept = 0;
  for (uint32_t id = 0; id < t->info.tokens; id++) {
    uint32_t bytes;
    const uint8_t *text = bq_vocab_text(t, id, &bytes);
    uint32_t kind = BQ_KIND(bq_vocab_kind(t, id));
    if (bytes == 0 || !(kind & wanted_kinds)) continue;
    t->sorted[n++] = id;
    t->first[text[0]] |= (uint8_t)kind;
  }
  bq_vocab_sort(t, t->sorted, n);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t id = t->sorted[i], bytes;
    const uint8_t *text = bq_vocab_text(t, id, &bytes);
    if (kept && bq_vocab_kind(t, t->sorted[kept - 1]) == bq_vocab_kind(t, id) &&
        has_text(t, t->sorted[kept - 1], text, bytes))
      continue;
    t->sorted[kept++] = id;
  }
  t->n_sorted = kept;
}

/* A Bloom filter of token prefixes, stored in the unused tail of the sorted table; unigram
 * tokenizers have few sorted tokens. Returns the word and bit of a hash. */
static uint32_t *prefix_bit(const bq_tokenizer *t, uint32_t hash, uint32_t *bit) {
  uint32_t words = t->info.tokens - t->n_sorted;
  uint32_t at = (uint32_t)((uint64_t)(hash * 0x9e3779b1u) * words >> 32);
  *bit = 1u << (hash & 31);
  return &t->sorted[t->n_sorted + at];
}

bool bq_vocab_begins(const bq_tokenizer *t, uint32_t hash) {
  uint32_t bit;
  return t->n_sorted < t->info.tokens && *prefix_bit(t, hash, &bit) & bit;
}

static void build_unigram(bq_tokenizer *t) {
  float min_score = 0;
  memset(t->sorted + t->n_sorted, 0, (t->info.tokens - t->n_sorted) * sizeof *t->sorted);
  for (uint32_t id = 0; id < t->info.tokens; id++) {
    if (!(BQ_KIND(bq_vocab_kind(t, id)) & BQ_KINDS_TEXT)) continue;
    uint32_t bytes, h = BQ_HASH_START, bit, bits = bq_load32(t->scores + 4 * (size_t)id);
    float score;
    memcpy(&score, &bits, 4);
    if (score < min_score) min_score = score;
    const uint8_t *text = bq_vocab_text(t, id, &bytes);
    for (uint32_t i = 0; i < bytes; i++) {
      h = bq_hash_byte(h, text[i]);
      if (i + 1 < bytes && (text[i + 1] & 0xc0) == 0x80) continue; /* within a character */
      uint32_t *word = prefix_bit(t, h, &bit);
      *word |= bit;
    }
  }
  t->unknown_score = min_score - 10; /* the same distance as in SentencePiece */
}

bool bq_vocab_build(bq_tokenizer *t) {
  memset(t->by_text.slot, 0xff, ((size_t)t->by_text.mask + 1) * sizeof *t->by_text.slot);
  memset(t->by_pair.slot, 0xff, ((size_t)t->by_pair.mask + 1) * sizeof *t->by_pair.slot);
  memset(t->byte, 0xff, sizeof t->byte);
  t->words = true;
  for (uint32_t id = 0; id < t->info.tokens; id++) {
    uint32_t bytes;
    const uint8_t *text = bq_vocab_text(t, id, &bytes);
    if (bytes > t->longest) t->longest = bytes;
    bool joins = bq_vocab_kind(t, id) == BQ_TOKEN_NORMAL && space_inside(text, bytes);
    if (joins) t->words = false;
  }
  for (uint32_t id = 0; id < t->info.tokens; id++) {
    if (!add_text(t, id)) return false;
    add_byte(t, id);
  }
  for (uint32_t rank = 0; rank < t->n_merges; rank++)
    if (!add_merge(t, rank)) return false;
  build_sorted(t);
  if (t->info.kind == BQ_TOKENIZER_UNIGRAM) build_unigram(t);
  return true;
}
