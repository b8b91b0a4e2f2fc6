/* Any bytes as a grammar, and any grammar with numbers in range, with any tokens: time and memory
 * are bounded, and exactly the tokens of a mask are accepted. */
#include <stdlib.h>
#include <string.h>

#include "core/cursor.h"
#include "grammar/matcher.h"
#include "grammars.h"
#include "tokn.h"

static void require(bool ok) {
  if (!ok) abort();
}

static bq_vocabulary *create_vocabulary(void) {
  static bq_vocabulary v;
  static tokn d;
  if (v.tokenizer) return &v;
  d = tokn_new(BQ_TOKENIZER_WORDLIST);
  const char *texts[] = {"ab", "abc", "a\"", "\",", "((", "))", "12", "\xc3\xa9", "x\xc3", "\\n",
                         "abababababababababab", "aaaaaaaaaaaaaaaaaa\""};
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tokn_add(&d, texts[i], TOKN_NORMAL, 0);
  tokn_tokenizer o = tokn_open(&d);
  uint32_t *spare = malloc(4 * d.n_tokens);
  bq_vocabulary_sort(o.t, d.n_tokens, malloc(4 * d.n_tokens), spare, &v);
  free(spare);
  bq_arena arena = {0};
  bq_vocabulary_build(&v, &arena);
  arena = (bq_arena){.base = aligned_alloc(BQ_ALIGN, arena.used), .size = arena.used};
  bq_vocabulary_build(&v, &arena);
  return &v;
}

static void match_tokens(const bq_grammar *g, bq_cursor c) {
  bq_vocabulary *v = create_vocabulary();
  bq_arena arena = {0};
  bq_matcher *m;
  bq_matcher_create(g, v, &arena, &m);
  arena = (bq_arena){.base = aligned_alloc(BQ_ALIGN, arena.used), .size = arena.used};
  bq_matcher_create(g, v, &arena, &m);
  require(!arena.overflow);
  bq_status status = bq_matcher_begin(m, NULL);
  while (status == BQ_OK && bq_cursor_left(&c)) {
    const uint32_t *mask, id = bq_cursor_u16(&c) % (256 + 12);
    uint8_t out[64];
    size_t n;
    bool extends;
    status = bq_matcher_mask(m, &mask, NULL);
    if (status != BQ_OK) break;
    const bool allowed = mask[id / 32] >> id % 32 & 1;
    if (bq_matcher_forced(m, out, sizeof out, &n, NULL) == BQ_OK && n)
      bq_matcher_extends(m, out + n - 1, 1, &extends, NULL);
    bq_matcher_shortest(m, out, sizeof out, &n, NULL);
    bq_matcher_mark(m);
    status = bq_matcher_accept(m, id, NULL);
    require(status == BQ_NOMEM || (status == BQ_OK) == allowed);
    if (status == BQ_ARGUMENT) status = BQ_OK;
  }
  free(arena.base);
}

static void build_grammar(bq_cursor c) {
  static grammars d;
  memset(&d, 0, sizeof d);
  /* The upper bits select the rules that count their characters. */
  const uint8_t head = bq_cursor_u8(&c);
  const uint32_t rules = 1 + head % 4, states = rules + bq_cursor_u8(&c) % 16;
  for (uint32_t i = 0; i < states; i++) {
    if (i < rules) grammars_rule(&d, false);
    if (i < rules && head >> (4 + i) & 1) d.rules[i].flags = BQ_GRAMMAR_LENGTH;
    const uint8_t flags = bq_cursor_u8(&c);
    grammars_state(&d, flags >> 5, (flags & 31) | (uint32_t)(flags >> 6) << 8);
  }
  for (uint32_t i = 0; i < states; i++) {
    const uint8_t counts = bq_cursor_u8(&c);
    for (uint32_t k = 0; k < (counts & 3u); k++) {
      const uint8_t low = bq_cursor_u8(&c), span = bq_cursor_u8(&c);
      grammars_edge(&d, i, low, (uint8_t)(low + (span & 15) < 256 ? low + (span & 15) : 255),
                    (span >> 4) % states);
      if (counts >> (4 + k) & 1) d.edges[i][d.n_edges[i] - 1].range |= BQ_EDGE_BEGINS;
    }
    for (uint32_t k = 0; k < (counts >> 2 & 3u); k++) {
      const uint8_t rule = bq_cursor_u8(&c), times = bq_cursor_u8(&c);
      const uint32_t min = times & 3,
                     max = times & 128 ? BQ_GRAMMAR_NONE : min + 1 + (times >> 2 & 7);
      grammars_call(&d, i, rule & 128 ? BQ_GRAMMAR_NONE : rule % rules, min, max,
                    (rule >> 3) % states);
    }
  }
  size_t n;
  uint8_t *bytes = grammars_write(&d, 0, &n);
  bq_grammar g;
  require(bq_grammar_read(bytes, n, &g, NULL) == BQ_OK);
  match_tokens(&g, c);
  free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  bq_cursor c = {.data = data, .size = size, .at = 1};
  if (data[0] & 1) {
    build_grammar(c);
    return 0;
  }
  const size_t n = size / 2 & ~(size_t)3;
  uint32_t *copy = malloc(n + 4);
  memcpy(copy, data + 1, size > n ? n : size - 1);
  bq_grammar g;
  c.at = size > n ? n + 1 : size;
  if (size > n && bq_grammar_read((const uint8_t *)copy, n, &g, NULL) == BQ_OK) match_tokens(&g, c);
  free(copy);
  return 0;
}
