/* The ABI of bq4-grammar.wasm, called by js/text/grammar/machine.js. It is a module of its own,
 * fetched with the first grammar, with its own growing memory: it can neither damage an engine nor
 * use memory that was planned for it. Pointers are u32. A function that fails returns 0 (counts:
 * -1); bqg_status and bqg_detail then return the reason. */
#include "grammar/matcher.h"

#define EXPORT(name) __attribute__((export_name(#name)))

extern uint8_t __heap_base;
enum { PAGE = 65536 };

static struct {
  uintptr_t used; /* end of allocated memory; 0: nothing is allocated */
  bq_error error;
} module;

EXPORT(bqg_status) const char *bqg_status(void) { return bq_status_name(module.error.status); }
EXPORT(bqg_detail) const char *bqg_detail(void) { return module.error.detail; }

/* Allocates memory, which is never freed. Returns NULL if the memory can't grow. */
EXPORT(bqg_take) void *bqg_take(uint32_t bytes) {
  uint64_t at = module.used ? module.used : (uintptr_t)&__heap_base;
  at = (at + BQ_ALIGN - 1) / BQ_ALIGN * BQ_ALIGN;
  const uint64_t pages = (at + bytes + PAGE - 1) / PAGE, have = __builtin_wasm_memory_size(0);
  if (pages > 65536 || (pages > have && __builtin_wasm_memory_grow(0, pages - have) == SIZE_MAX)) {
    bq_fail(&module.error, BQ_NOMEM, BQ_NO_OFFSET, "%u bytes for a grammar can't be had", bytes);
    return NULL;
  }
  module.used = (uintptr_t)(at + bytes);
  return (void *)(uintptr_t)at;
}

/* Creates the vocabulary of a TOKN section, whose bytes must stay in place. size: logits of the
 * model. */
EXPORT(bqg_vocabulary)
bq_vocabulary *bqg_vocabulary(const uint8_t *section, uint32_t bytes, uint32_t tokens,
                              uint32_t merges, uint32_t size) {
  const bq_tokenizer_size counts = {tokens, merges};
  const uint64_t memory = bq_tokenizer_memory(counts);
  if (size < tokens) size = tokens;
  bq_tokenizer *t;
  void *tables = memory < UINT32_MAX ? bqg_take((uint32_t)memory) : NULL;
  if (!tables || bq_tokenizer_create(section, bytes, 0, counts, tables, &t, &module.error) != BQ_OK)
    return NULL;
  bq_vocabulary *v = bqg_take(sizeof *v);
  uint32_t *ids = bqg_take(4 * tokens), *spare = bqg_take(4 * tokens);
  if (!v || !ids || !spare) return NULL;
  bq_vocabulary_sort(t, size, ids, spare, v);
  bq_arena arena = {0};
  bq_vocabulary_build(v, &arena);
  arena = (bq_arena){.base = bqg_take((uint32_t)arena.used), .size = arena.used};
  if (!arena.base) return NULL;
  bq_vocabulary_build(v, &arena);
  return v;
}

/* Returns the size of a matcher for a grammar, in bytes; 0 on failure. */
EXPORT(bqg_matcher_bytes)
uint32_t bqg_matcher_bytes(const bq_vocabulary *v, const uint8_t *grammar, uint32_t bytes) {
  bq_grammar g;
  if (bq_grammar_read(grammar, bytes, &g, &module.error) != BQ_OK) return 0;
  bq_arena arena = {0};
  bq_matcher *m;
  bq_arena_take(&arena, 1, sizeof g);
  bq_matcher_create(&g, v, &arena, &m);
  return (uint32_t)arena.used;
}

/* Creates a matcher in `size` bytes of memory. */
EXPORT(bqg_matcher)
bq_matcher *bqg_matcher(const bq_vocabulary *v, const uint8_t *grammar, uint32_t bytes,
                        void *memory, uint32_t size) {
  bq_arena arena = {.base = memory, .size = size};
  bq_matcher *m = NULL;
  bq_grammar *g = bq_arena_take(&arena, 1, sizeof *g);
  if (!g || bq_grammar_read(grammar, bytes, g, &module.error) != BQ_OK) return NULL;
  bq_matcher_create(g, v, &arena, &m);
  return m;
}

EXPORT(bqg_begin) uint32_t bqg_begin(bq_matcher *m) {
  return bq_matcher_begin(m, &module.error) == BQ_OK;
}

/* Returns the sum of 1 (the text may end here) and 2 (it may continue). */
EXPORT(bqg_state) uint32_t bqg_state(const bq_matcher *m) {
  return (bq_matcher_complete(m) ? 1u : 0) | (bq_matcher_continues(m) ? 2u : 0);
}

EXPORT(bqg_mask) const uint32_t *bqg_mask(bq_matcher *m) {
  const uint32_t *mask = NULL;
  return bq_matcher_mask(m, &mask, &module.error) == BQ_OK ? mask : NULL;
}

EXPORT(bqg_accept) uint32_t bqg_accept(bq_matcher *m, uint32_t id) {
  return bq_matcher_accept(m, id, &module.error) == BQ_OK;
}

EXPORT(bqg_mark) void bqg_mark(bq_matcher *m) { bq_matcher_mark(m); }
EXPORT(bqg_return) void bqg_return(bq_matcher *m) { bq_matcher_return(m); }

EXPORT(bqg_forced) int32_t bqg_forced(bq_matcher *m, uint8_t *out, uint32_t capacity) {
  size_t n;
  return bq_matcher_forced(m, out, capacity, &n, &module.error) == BQ_OK ? (int32_t)n : -1;
}

EXPORT(bqg_extends) int32_t bqg_extends(bq_matcher *m, const uint8_t *tail, uint32_t n) {
  bool extends;
  return bq_matcher_extends(m, tail, n, &extends, &module.error) == BQ_OK ? extends : -1;
}

EXPORT(bqg_least) uint32_t bqg_least(const bq_matcher *m) { return bq_matcher_least(m); }

EXPORT(bqg_shortest) int32_t bqg_shortest(bq_matcher *m, uint8_t *out, uint32_t capacity) {
  size_t n;
  return bq_matcher_shortest(m, out, capacity, &n, &module.error) == BQ_OK ? (int32_t)n : -1;
}

/* Returns the address of a token's text; *bytes = its length. */
EXPORT(bqg_token) const uint8_t *bqg_token(const bq_vocabulary *v, uint32_t id, uint32_t *bytes) {
  size_t n;
  const uint8_t *text = bq_token_bytes(v->tokenizer, id, &n);
  *bytes = (uint32_t)n;
  return text;
}

EXPORT(bqg_longest)
uint32_t bqg_longest(const bq_vocabulary *v, const uint8_t *text, uint32_t n) {
  return bq_vocabulary_longest(v, text, n);
}
