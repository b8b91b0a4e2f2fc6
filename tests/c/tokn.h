/* Writes TOKN sections (docs/FORMAT.md) of tokenizers described in C, and opens them.
 *
 *   tokn d = tokn_new(BQ_TOKENIZER_SPM);
 *   uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, -1);
 *   tokn_tokenizer t = tokn_open(&d);     // t.t is the tokenizer
 *   ...
 *   tokn_close(&t);
 *
 * It shares no code with the readers under test, and ends the program if a limit is exceeded. */
#ifndef TOKN_H
#define TOKN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "text/tokenizer.h"
#include "text/trie.h"

enum { TOKN_NORMAL, TOKN_UNKNOWN, TOKN_CONTROL, TOKN_USER, TOKN_UNUSED, TOKN_BYTE };
enum { TOKN_ADD_BOS = 1, TOKN_ADD_EOS = 2, TOKN_ADD_SPACE = 4, TOKN_FALLBACK = 8, TOKN_WORDS = 16 };
enum { TOKN_MAX = 1200, TOKN_TEXT = 24, TOKN_ITEMS = 50 };

typedef struct tokn {
  uint32_t kind, flags, pre, bos, eos, unk, pad;
  uint32_t n_eog, eog[4];
  uint32_t n_tokens, bytes[TOKN_MAX], kinds[TOKN_MAX];
  uint8_t text[TOKN_MAX][TOKN_TEXT];
  float score[TOKN_MAX];
  uint32_t n_merges, merges[TOKN_MAX][3];
  uint32_t normalizer, n_items; /* used if pre is 1 */
  uint8_t items[TOKN_ITEMS][32];
} tokn;

static inline tokn tokn_new(bq_tokenizer_kind kind) {
  tokn d;
  memset(&d, 0, sizeof d);
  d.kind = (uint32_t)kind;
  d.bos = d.eos = d.unk = d.pad = BQ_TOKEN_NONE;
  return d;
}

static inline uint32_t tokn_add_bytes(tokn *d, const void *text, size_t bytes, uint32_t kind,
                                      float score) {
  if (d->n_tokens == TOKN_MAX || bytes > TOKN_TEXT) abort();
  uint32_t id = d->n_tokens++;
  memcpy(d->text[id], text, bytes);
  d->bytes[id] = (uint32_t)bytes;
  d->kinds[id] = kind;
  d->score[id] = score;
  return id;
}

static inline uint32_t tokn_add(tokn *d, const char *text, uint32_t kind, float score) {
  return tokn_add_bytes(d, text, strlen(text), kind, score);
}

/* Adds a token for each byte, in order; returns the first one. */
static inline uint32_t tokn_add_all_bytes(tokn *d, uint32_t kind) {
  for (unsigned i = 0; i < 256; i++) tokn_add_bytes(d, &(uint8_t){(uint8_t)i}, 1, kind, 0);
  return d->n_tokens - 256;
}

/* Adds the token with the texts of two others, and the merge that creates it. */
static inline uint32_t tokn_merge(tokn *d, uint32_t left, uint32_t right, uint32_t kind) {
  uint8_t joined[2 * TOKN_TEXT];
  memcpy(joined, d->text[left], d->bytes[left]);
  memcpy(joined + d->bytes[left], d->text[right], d->bytes[right]);
  uint32_t id = tokn_add_bytes(d, joined, d->bytes[left] + d->bytes[right], kind, 0);
  uint32_t *merge = d->merges[d->n_merges++];
  merge[0] = left;
  merge[1] = right;
  merge[2] = id;
  return id;
}

static inline uint8_t *tokn_u32(uint8_t *at, uint32_t v) {
  for (int i = 0; i < 4; i++) *at++ = (uint8_t)(v >> 8 * i);
  return at;
}

/* Adds an item of a program that splits text into words: characters of some classes, and `points`,
 * at most four ASCII characters, which belong to the item exactly if their class does not. */
static inline uint8_t *tokn_item(tokn *d, uint32_t classes, const char *points, uint32_t min,
                                 uint32_t max, uint32_t flags) {
  if (d->n_items == TOKN_ITEMS) abort();
  d->pre = 1;
  uint8_t *item = d->items[d->n_items++];
  memset(item, 0xff, 32);
  memset(item + 20, 0, 4);
  const uint32_t head[] = {classes, min, max, flags};
  for (size_t i = 0; i < 4; i++) item[i] = (uint8_t)head[i];
  for (size_t i = 0; points[i]; i++) tokn_u32(item + 4 + 4 * i, (uint8_t)points[i]);
  return item;
}

/* Returns the section, which the caller frees. */
static inline uint8_t *tokn_write(const tokn *d, size_t *bytes) {
  uint32_t text = 0;
  for (uint32_t i = 0; i < d->n_tokens; i++) text += d->bytes[i];
  size_t kinds = (d->n_tokens + 3u) / 4 * 4;
  size_t program = d->pre == 1 ? 8 + 32 * (size_t)d->n_items : 0;
  *bytes = 44 + program + 4 * (size_t)d->n_eog + 8 * (size_t)d->n_tokens + kinds +
           12 * (size_t)d->n_merges + text;
  uint8_t *section = calloc(1, *bytes), *at = section;
  if (!section) abort();
  const uint32_t header[] = {d->kind, d->flags, d->pre, d->bos, d->eos, d->unk, d->pad,
                             d->n_eog, d->n_tokens, d->n_merges, text};
  for (size_t i = 0; i < 11; i++) at = tokn_u32(at, header[i]);
  if (program) {
    at = tokn_u32(tokn_u32(at, d->normalizer), d->n_items);
    memcpy(at, d->items, program - 8);
    at += program - 8;
  }
  for (uint32_t i = 0; i < d->n_eog; i++) at = tokn_u32(at, d->eog[i]);
  uint32_t end = 0;
  for (uint32_t i = 0; i < d->n_tokens; i++) at = tokn_u32(at, end += d->bytes[i]);
  for (uint32_t i = 0; i < d->n_tokens; i++) {
    uint32_t bits;
    memcpy(&bits, &d->score[i], 4);
    at = tokn_u32(at, bits);
  }
  for (uint32_t i = 0; i < d->n_tokens; i++) at[i] = (uint8_t)d->kinds[i];
  at += kinds;
  for (uint32_t i = 0; i < d->n_merges; i++)
    for (int j = 0; j < 3; j++) at = tokn_u32(at, d->merges[i][j]);
  for (uint32_t i = 0; i < d->n_tokens; i++) {
    memcpy(at, d->text[i], d->bytes[i]);
    at += d->bytes[i];
  }
  return section;
}

typedef struct tokn_tokenizer {
  uint8_t *section;
  void *memory;
  bq_tokenizer *t; /* NULL: refused, see err */
  bq_status status;
  bq_error err;
} tokn_tokenizer;

/* The result owns the section. */
static inline tokn_tokenizer tokn_open_section(uint8_t *section, size_t bytes,
                                               bq_tokenizer_size size) {
  tokn_tokenizer o = {.section = section};
  o.memory = aligned_alloc(BQ_ALIGN, (size_t)bq_tokenizer_memory(size));
  if (!o.memory) abort();
  o.status = bq_tokenizer_create(section, bytes, 0, size, o.memory, &o.t, &o.err);
  return o;
}

static inline tokn_tokenizer tokn_open(const tokn *d) {
  size_t bytes;
  uint8_t *section = tokn_write(d, &bytes);
  tokn_tokenizer o =
      tokn_open_section(section, bytes, (bq_tokenizer_size){d->n_tokens, d->n_merges});
  if (!CHECK_EQ(o.status, BQ_OK)) printf("%s\n", o.err.detail);
  return o;
}

static inline void tokn_close(tokn_tokenizer *o) {
  free(o->memory);
  free(o->section);
}

/* The trie of a tokenizer, in memory of exactly bq_trie_bytes(). */
typedef struct tokn_trie {
  uint32_t *ids;
  void *memory;
  bq_trie trie;
} tokn_trie;

static inline tokn_trie tokn_trie_of(const bq_tokenizer *t) {
  tokn_trie o = {.ids = malloc(bq_tokenizer_info_get(t).tokens * sizeof *o.ids)};
  o.trie = bq_trie_sort(t, o.ids);
  o.memory = malloc((size_t)bq_trie_bytes(&o.trie));
  bq_trie_build(t, o.memory, &o.trie);
  return o;
}

static inline void tokn_trie_free(tokn_trie *o) {
  free(o->ids);
  free(o->memory);
}

/* Returns the tokens of a text, which the caller frees. The scratch memory has exactly
 * bq_tokenize_scratch() bytes. */
static inline uint32_t *tokn_ids(const bq_tokenizer *t, const void *text, size_t bytes,
                                 bool add_special, bool parse_special, size_t *count) {
  bq_tokenize_options options = {.add_special = add_special, .parse_special = parse_special};
  void *scratch = malloc((size_t)bq_tokenize_scratch(t, bytes, false));
  if (bq_tokenize(t, text, bytes, &options, scratch, NULL, 0, count) > BQ_ARGUMENT) abort();
  size_t n = *count;
  uint32_t *ids = malloc(n * sizeof *ids + 1);
  CHECK_EQ(bq_tokenize(t, text, bytes, &options, scratch, ids, n, count), BQ_OK);
  CHECK_EQ(*count, n);
  free(scratch);
  return ids;
}

/* Checks the tokens of a text against a list that ends with BQ_TOKEN_NONE. */
static inline void tokn_check(const bq_tokenizer *t, const void *text, size_t bytes,
                              bool add_special, bool parse_special, const uint32_t *expected,
                              const char *file, int line) {
  size_t n, n_expected = 0;
  uint32_t *ids = tokn_ids(t, text, bytes, add_special, parse_special, &n);
  while (expected[n_expected] != BQ_TOKEN_NONE) n_expected++;
  bool same = n == n_expected && memcmp(ids, expected, n * sizeof *ids) == 0;
  if (!same && check_fails(file, line)) {
    printf("tokens of \"%.*s\": expected", (int)bytes, (const char *)text);
    for (size_t i = 0; i < n_expected; i++) printf(" %u", expected[i]);
    printf(", found");
    for (size_t i = 0; i < n; i++) printf(" %u", ids[i]);
    printf("\n");
  }
  free(ids);
}

#define TOKN_LIST(...) ((const uint32_t[]){__VA_ARGS__, BQ_TOKEN_NONE})
#define CHECK_PLAIN(t, text, ...) \
  tokn_check((t), (text), strlen(text), false, false, TOKN_LIST(__VA_ARGS__), __FILE__, __LINE__)
#define CHECK_PARSED(t, text, ...) \
  tokn_check((t), (text), strlen(text), false, true, TOKN_LIST(__VA_ARGS__), __FILE__, __LINE__)
#define CHECK_FRAMED(t, text, ...) \
  tokn_check((t), (text), strlen(text), true, false, TOKN_LIST(__VA_ARGS__), __FILE__, __LINE__)
#define CHECK_NO_IDS(t, text)                                                                      \
  tokn_check((t), (text), strlen(text), false, false, (const uint32_t[]){BQ_TOKEN_NONE}, __FILE__, \
             __LINE__)

#endif
