/* Any bytes as a TOKN section, then any bytes as text and as tokens.
 *
 * Input: u8 mode, u16 bytes of the section, section, text. Mode bit 0: the counts and the kind of
 * the section are corrected, so that most inputs pass the checks of its header. Bit 6: the section
 * has a part with corrected counts. */
#include <stdlib.h>
#include <string.h>

#include "core/cursor.h"
#include "text/normalize.h"
#include "text/split.h"
#include "text/split_passes.h"
#include "text/tokenizer.h"
#include "text/trie.h"

static void require(bool ok) {
  if (!ok) abort();
}

static void put32(uint8_t *at, uint32_t v) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> 8 * i);
}

/* The tokens of a corrected section. */
typedef struct texts {
  const uint8_t *ends, *text;
  uint32_t tokens;
} texts;

static uint32_t find(const texts *t, const uint8_t *text, uint32_t bytes) {
  for (uint32_t id = 0; id < t->tokens; id++) {
    uint32_t begin = id ? bq_load32(t->ends + 4 * (id - 1)) : 0;
    if (bq_load32(t->ends + 4 * id) - begin == bytes && memcmp(t->text + begin, text, bytes) == 0)
      return id;
  }
  return BQ_TOKEN_NONE;
}

/* Writes a merge that creates token `id`: of two other tokens if possible, else of the empty token
 * 0 and itself. */
static void repair_merge(const texts *t, uint8_t *merge, uint32_t id) {
  uint32_t begin = id ? bq_load32(t->ends + 4 * (id - 1)) : 0,
           bytes = bq_load32(t->ends + 4 * id) - begin;
  uint32_t left = 0, right = id;
  for (uint32_t cut = 1; cut < bytes; cut++) {
    uint32_t l = find(t, t->text + begin, cut), r = find(t, t->text + begin + cut, bytes - cut);
    if (l == BQ_TOKEN_NONE || r == BQ_TOKEN_NONE) continue;
    left = l;
    right = r;
  }
  put32(merge, left);
  put32(merge + 4, right);
  put32(merge + 8, id);
}

/* Corrects the counts of the header, so that they fit the section, and the ends of the texts, so
 * that they increase. */
static void repair(uint8_t *section, size_t bytes, uint8_t mode) {
  if (bytes < 44) return;
  uint32_t tokens = 1 + section[32] % 32, merges = section[36] % 8, n_eog = section[28] % 3;
  size_t ends = 44 + 4 * (size_t)n_eog, kinds = ends + 8 * (size_t)tokens;
  size_t merges_at = kinds + (tokens + 3) / 4 * 4, text_at = merges_at + 12 * (size_t)merges;
  if (text_at > bytes) return;
  uint32_t text = (uint32_t)(bytes - text_at);
  put32(section, 1 + (mode >> 1) % 5);
  put32(section + 4, section[4] | (section[5] & 1) << 8);
  put32(section + 8, 0);
  for (size_t at = 12; at < 28; at += 4)
    put32(section + at, section[at] % 2 ? section[at] % tokens : BQ_TOKEN_NONE);
  put32(section + 28, n_eog);
  put32(section + 32, tokens);
  put32(section + 36, merges);
  put32(section + 40, text);
  for (uint32_t i = 0; i < n_eog; i++) put32(section + 44 + 4 * i, section[44 + 4 * i] % tokens);
  uint32_t end = 0;
  for (uint32_t i = 0; i < tokens; i++) {
    uint8_t *at = section + ends + 4 * i;
    uint32_t step = i ? at[0] % 8 : 0;
    end = i + 1 == tokens || step > text - end ? text : end + step;
    put32(at, end);
    uint8_t *kind = section + kinds + i;
    bool single_byte = bq_load32(at) - (i ? bq_load32(at - 4) : 0) == 1;
    *kind = (uint8_t)(*kind % (single_byte ? 6 : 5));
    uint8_t *score = section + ends + 4 * tokens + 4 * i;
    score[3] &= 0x3f; /* no NaN */
  }
  for (size_t at = kinds + tokens; at < merges_at; at++) section[at] = 0;
  for (size_t at = text_at; mode & 32 && at < bytes; at++)
    section[at] = " abc<>\xc3\xa9"[section[at] % 8];
  texts t = {section + ends, section + text_at, tokens};
  for (size_t at = merges_at; at < text_at; at += 12)
    repair_merge(&t, section + at, section[at] % tokens);
}

static void check_text(const bq_tokenizer *t, const char *text, size_t bytes, uint8_t mode) {
  const bq_text_range plain[] = {{0, (uint32_t)bytes / 3}, {(uint32_t)bytes / 2, (uint32_t)bytes}};
  bq_tokenize_options options = {mode & 8, mode & 16, false, bytes & 1, plain, bytes % 3};
  uint64_t need = bq_tokenize_scratch(t, bytes, false);
  if (need > 1 << 26) return; /* Normalization can make a text very long. */
  void *scratch = malloc((size_t)need);
  size_t count = 0, needed;
  require(bq_tokenize(t, text, bytes, &options, scratch, NULL, 0, &count) ==
          (count ? BQ_ARGUMENT : BQ_OK));
  const size_t capacity = count;
  uint32_t *ids = malloc(capacity * sizeof *ids + 1);
  require(bq_tokenize(t, text, bytes, &options, scratch, ids, capacity, &count) == BQ_OK);
  require(count == capacity);
  size_t half_capacity = count / 2;
  uint32_t *first_tokens = malloc(half_capacity * sizeof *first_tokens + 1);
  bq_status status =
      bq_tokenize(t, text, bytes, &options, scratch, first_tokens, half_capacity, &needed);
  require(needed == count && status == (half_capacity < count ? BQ_ARGUMENT : BQ_OK));
  require(memcmp(first_tokens, ids, half_capacity * sizeof *first_tokens) == 0);
  char *out = malloc(bq_detokenize_limit(t));
  bq_detokenizer d = {0};
  for (size_t i = 0; i < count; i++) {
    require(ids[i] < bq_tokenizer_info_get(t).tokens);
    require(bq_detokenize(t, &d, ids[i], out) <= bq_detokenize_limit(t));
  }
  require(bq_detokenize_end(&d, out) <= 3);
  bq_token_find(t, text, bytes);
  free(out);
  free(first_tokens);
  free(ids);
  free(scratch);
}

static void check_ids(const bq_tokenizer *t, const uint8_t *bytes, size_t n) {
  char *out = malloc(bq_detokenize_limit(t));
  bq_detokenizer d = {.keep_space = n & 1};
  for (size_t i = 0; i < n; i++) {
    size_t length;
    bq_token_bytes(t, bytes[i], &length);
    bq_token_ends(t, bytes[i]);
    require(bq_detokenize(t, &d, bytes[i], out) <= bq_detokenize_limit(t));
    require(d.n_pending < 4);
  }
  free(out);
}

/* Any bytes as a program that splits text into words: the words cover the text. */
static void check_split(const uint8_t *data, size_t n) {
  bq_split split = {.n = data[0] % BQ_SPLIT_ITEMS + 1u};
  if (n < 1 + BQ_SPLIT_ITEM_BYTES * (size_t)split.n) return;
  for (uint32_t i = 0; i < split.n; i++)
    if (!bq_split_read(data + 1 + BQ_SPLIT_ITEM_BYTES * (size_t)i, &split.items[i])) return;
  size_t begin = 1 + BQ_SPLIT_ITEM_BYTES * (size_t)split.n, bytes = n - begin;
  uint8_t *text = malloc(bytes + !bytes);
  memcpy(text, data + begin, bytes);
  bq_splitter s;
  bq_splitter_begin(&s, &split, text, bytes);
  for (size_t at = 0, end; at < bytes; at = end) {
    end = bq_splitter_next(&s, at);
    require(end > at && end <= bytes);
  }
  free(text);
}

/* Turns bytes into a split pass of few classes and states; returns its number of bytes. */
static size_t repair_stage(uint8_t *part, size_t size) {
  if (size < 16) return size;
  const uint32_t classes = 1 + part[4] % 4, states = 2 + part[8] % 6, runs = 1 + part[12] % 6;
  const uint32_t columns = classes + 1;
  const size_t table = 16 + 4 * (size_t)runs, need = table + (2 * states * columns + 3) / 4 * 4;
  if (need > size) return size;
  put32(part, part[0] % (BQ_SPLIT_PASS_FLAGS + 1u));
  put32(part + 4, classes);
  put32(part + 8, states);
  put32(part + 12, runs);
  uint32_t first = 0;
  for (uint32_t i = 0; i < runs; i++) {
    uint8_t *run = part + 16 + 4 * (size_t)i;
    put32(run, first << 8 | run[0] % classes);
    first += 1 + run[1] + (i == 3 ? 0x300u : 0);
  }
  for (uint32_t i = 0; i < states * columns; i++) {
    uint8_t *cell = part + table + 2 * (size_t)i;
    const uint32_t state = i / columns;
    cell[1] = state > 1 && cell[1] & 1 ? BQ_SPLIT_PASS_MATCH >> 8 : 0;
    cell[0] = state ? (uint8_t)(cell[0] % states) : 0;
  }
  return need;
}

/* Turns bytes into a character map of SentencePiece, with valid units and texts that end. */
static void repair_charsmap(uint8_t *part, size_t size) {
  if (size < 16) return;
  const uint32_t units = 1 + part[4] % ((uint32_t)(size - 12) / 4);
  put32(part, (uint32_t)size - 4);
  put32(part + 4, 4 * units);
  for (uint32_t i = 0; i < units; i++) {
    uint8_t *unit = part + 8 + 4 * (size_t)i;
    const uint32_t value = unit[3] % 8, label = (uint8_t)" abc<>\xc3\xa9"[unit[0] % 8];
    put32(unit, unit[1] & 1 ? value : label | (unit[1] & 2u) << 7 | unit[2] % units << 10);
  }
  part[size - 1] = 0;
}

/* A part of the input, and its type: normalizers, split passes and the other parts of parts.c. */
typedef struct part {
  uint32_t type;
  uint8_t *bytes; /* malloc */
  size_t size;
  const uint8_t *rest; /* of the input */
  size_t n_rest;
} part;

static part part_of(const uint8_t *data, size_t n) {
  static const uint8_t types[] = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 4, 16, 19};
  size_t size = 4 * (size_t)(data[1] + 256 * (data[2] & 3));
  if (size > n - 4) size = (n - 4) / 4 * 4;
  part p = {types[data[3] / 8 % sizeof types], malloc(size + 1), size, data + 4 + size,
            n - 4 - size};
  memcpy(p.bytes, data + 4, size);
  if (data[0] & 64 && p.type == 16) p.size = repair_stage(p.bytes, size);
  if (data[0] & 64 && p.type == 4) repair_charsmap(p.bytes, size);
  if (data[0] & 64 && p.type == 17 && size >= 4) put32(p.bytes, p.bytes[0]), p.size = 4;
  return p;
}

/* Returns the section with this part, and frees the one without. */
static uint8_t *with_part(uint8_t *section, size_t *bytes, const part *p) {
  uint8_t *out = malloc(*bytes + 12 + p->size);
  memcpy(out, section, 44);
  put32(out + 8, 2);
  put32(out + 44, 1);
  put32(out + 48, p->type);
  put32(out + 52, (uint32_t)p->size);
  memcpy(out + 56, p->bytes, p->size);
  memcpy(out + 56 + p->size, section + 44, *bytes - 44);
  *bytes += 12 + p->size;
  free(section);
  return out;
}

/* Any bytes as a split pass and as a normalizer: words do not overlap, and the text is at most as
 * long as its limit. */
static void check_part(const uint8_t *data, size_t n) {
  if (n < 4) return;
  part p = part_of(data, n);
  const size_t size = p.size;
  size_t bytes = p.n_rest;
  uint8_t *part = malloc(size + 1), *text = malloc(bytes + 1);
  memcpy(part, p.bytes, size);
  memcpy(text, p.rest, bytes);
  free(p.bytes);
  bq_split_pass stage;
  if (bq_split_pass_read(part, size, &stage)) {
    void *scratch = malloc((size_t)bq_multi_splitter_memory(&stage, 1, bytes) + 1);
    bq_multi_splitter c;
    bq_multi_splitter_begin(&c, &stage, 1, text, bytes, scratch);
    size_t previous = 0;
    for (size_t at = 0, begin; bq_multi_splitter_next(&c, &at, &begin); previous = at)
      require(begin >= previous && at > begin && at <= bytes);
    free(scratch);
  }
  bq_normalizer step;
  if (bq_normalizer_read(p.type, part, size, &step)) {
    uint64_t limit = bq_normalize_limit(&step, 1, bytes);
    size_t room = limit < 1 << 20 ? (size_t)limit : 1 << 20;
    uint8_t *buffers[] = {malloc(room + 1), NULL};
    const uint8_t *out = bq_normalize(&step, 1, data[3] & 7, text, &bytes, buffers, room);
    require(out || room < limit);
    require(!out || bytes <= room);
    free(buffers[0]);
  }
  free(text);
  free(part);
}

static bool step_by_bytes(void *ctx, uint32_t depth, uint8_t byte) {
  const uint8_t *accepts = ctx;
  (void)depth;
  return accepts[byte];
}

/* Checks the mask of the tokens whose bytes all occur in the text. */
static void check_trie(const bq_tokenizer *t, const uint8_t *text, size_t n) {
  const uint32_t tokens = bq_tokenizer_info_get(t).tokens;
  uint32_t *ids = malloc(tokens * sizeof *ids), *mask = calloc((tokens + 31) / 32, sizeof *mask);
  bq_trie trie = bq_trie_sort(t, ids);
  void *memory = malloc((size_t)bq_trie_bytes(&trie));
  bq_trie_build(t, memory, &trie);
  require(trie.end[0] == trie.nodes && trie.first[trie.nodes] == trie.tokens);
  uint8_t accepts[256] = {0};
  for (size_t i = 0; i < n; i++) accepts[text[i]] = 1;
  bq_trie_mask(&trie, step_by_bytes, accepts, mask);
  for (uint32_t i = 0; i < trie.tokens; i++) {
    size_t bytes, n_accepted = 0;
    const uint8_t *bytes_of_token = bq_token_bytes(t, trie.ids[i], &bytes);
    while (n_accepted < bytes && accepts[bytes_of_token[n_accepted]]) n_accepted++;
    require((mask[trie.ids[i] / 32] >> trie.ids[i] % 32 & 1) == (n_accepted == bytes));
  }
  free(memory);
  free(mask);
  free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n < 3) return 0;
  check_split(data, n);
  check_part(data, n);
  size_t bytes = bq_load16(data + 1);
  if (bytes > n - 3) bytes = n - 3;
  uint8_t *section = malloc(bytes + 1);
  memcpy(section, data + 3, bytes);
  const uint8_t *text = data + 3 + bytes;
  const size_t n_text = n - 3 - bytes;
  section = realloc(section, bytes + !bytes);
  if (data[0] & 1) repair(section, bytes, data[0]);
  if (data[0] & 64 && bytes >= 44) {
    part p = part_of(data, n);
    section = with_part(section, &bytes, &p);
    free(p.bytes);
  }
  bq_tokenizer_size size = {0};
  if (bytes >= 44)
    size = (bq_tokenizer_size){bq_load32(section + 32) & 0xffff, bq_load32(section + 36) & 0xffff};
  void *memory = aligned_alloc(BQ_ALIGN, (size_t)bq_tokenizer_memory(size));
  bq_tokenizer *t = NULL;
  bq_error err;
  bq_status status = bq_tokenizer_create(section, bytes, 0, size, memory, &t, &err);
  if (status == BQ_OK) {
    check_text(t, (const char *)text, n_text, data[0]);
    check_trie(t, text, n_text);
    check_ids(t, text, n_text);
  } else {
    require((status == BQ_FORMAT || status == BQ_UNSUPPORTED) && err.offset <= bytes);
  }
  free(memory);
  free(section);
  return 0;
}
