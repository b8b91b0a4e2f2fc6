/* Tokens and texts of other programs' tokenizers, with their vocabularies.
 * tests/tools/make_tokn.mjs writes the data to a folder: the first argument, $BQ4_TOKENIZERS, or
 * build/tokenizers. Tests that need the shared data are skipped without it. */
#include "core/cursor.h"
#include "text/vocab.h"
#include "tokn.h"

enum { ADD_SPECIAL = 1, PARSE_SPECIAL = 2, ENCODE = 4, DECODE = 8, WORDS = 16 };

static struct {
  const char *folder;
} files = {"build/tokenizers"};

/* Returns the bytes of a file, which the caller frees; NULL if there is no file. */
static uint8_t *read_file(const char *name, const char *ending, size_t *bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.%s", files.folder, name, ending);
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t room = 1 << 16;
  uint8_t *data = malloc(room);
  for (*bytes = 0;;) {
    size_t n = fread(data + *bytes, 1, room - *bytes, file);
    if (n == 0) break;
    *bytes += n;
    if (*bytes == room) data = realloc(data, room *= 2);
  }
  fclose(file);
  return data;
}

static tokn_tokenizer open_file(const char *name) {
  size_t bytes = 0;
  uint8_t *section = read_file(name, "tokn", &bytes);
  if (!section || bytes < 44) {
    free(section);
    return (tokn_tokenizer){0};
  }
  return tokn_open_section(section, bytes,
                           (bq_tokenizer_size){bq_load32(section + 32), bq_load32(section + 36)});
}

typedef struct test_case {
  uint32_t flags, bytes, n;
  const uint8_t *text; /* [bytes] */
  const uint8_t *ids;  /* [n] u32, unaligned */
} test_case;

static bool encodes(const bq_tokenizer *t, const test_case *c) {
  size_t n;
  uint32_t *ids =
      tokn_ids(t, c->text, c->bytes, c->flags & ADD_SPECIAL, c->flags & PARSE_SPECIAL, &n);
  bool same = n == c->n;
  for (size_t i = 0; same && i < n; i++) same = ids[i] == bq_load32(c->ids + 4 * i);
  free(ids);
  return same;
}

static bool decodes(const bq_tokenizer *t, const test_case *c) {
  char *text = malloc(bq_detokenize_limit(t) * (c->n + (size_t)1) + 3);
  bq_detokenizer d = {0};
  size_t n = 0;
  for (uint32_t i = 0; i < c->n; i++)
    n += bq_detokenize(t, &d, bq_load32(c->ids + 4 * (size_t)i), text + n);
  n += bq_detokenize_end(&d, text + n);
  bool same = n == c->bytes && memcmp(text, c->text, n) == 0;
  free(text);
  return same;
}

/* Whether words end at the positions of the case; the encoder requests words one by one, too. */
static bool splits(const bq_tokenizer *t, const test_case *c) {
  bq_splitter s;
  bq_splitter_begin(&s, t->split, c->text, c->bytes);
  size_t at = 0;
  uint32_t n = 0;
  for (; at < c->bytes && n < c->n; n++) {
    at = bq_splitter_next(&s, at);
    if (at != bq_load32(c->ids + 4 * (size_t)n)) return false;
  }
  return at == c->bytes && n == c->n;
}

/* All cases of a vocabulary, at least `minimum` of them. */
static void check_cases(const bq_tokenizer *t, const char *name, uint32_t minimum) {
  size_t bytes = 0;
  uint8_t *data = read_file(name, "cases", &bytes);
  REQUIRE(data);
  bq_cursor at = {data, bytes, 0, false};
  uint32_t count = bq_cursor_u32(&at), encoded = 0, decoded = 0, n_split = 0;
  for (uint32_t i = 0; i < count; i++) {
    test_case c = {
        .flags = bq_cursor_u32(&at), .bytes = bq_cursor_u32(&at), .n = bq_cursor_u32(&at)};
    c.text = bq_cursor_bytes(&at, c.bytes);
    c.ids = bq_cursor_bytes(&at, 4 * (uint64_t)c.n);
    if (!CHECK(!at.bad)) break;
    bool ok = true;
    if (c.flags & ENCODE) ok = encodes(t, &c) && ++encoded;
    if (c.flags & DECODE) ok = decodes(t, &c) && ++decoded && ok;
    if (c.flags & WORDS) ok = splits(t, &c) && ++n_split;
    if (!ok && check_fails(__FILE__, __LINE__))
      printf("%s, case %u: \"%.*s\"\n", name, i, (int)c.bytes, (const char *)c.text);
  }
  CHECK(at.at == at.size);
  CHECK(count >= minimum);
  printf("%s: %u texts to ids, %u ids to texts, %u to words\n", name, encoded, decoded, n_split);
  free(data);
}

static void check_file(const char *name, uint32_t minimum) {
  tokn_tokenizer o = open_file(name);
  if (!CHECK(o.section)) printf("no %s.tokn: run node tests/tools/make_tokn.mjs\n", name);
  if (o.section && CHECK_EQ(o.status, BQ_OK))
    check_cases(o.t, name, minimum);
  else printf("%s\n", o.err.detail);
  tokn_close(&o);
}

/* Whether the folder has the file, which depends on the shared data. */
static bool has_file(const char *name) {
  tokn_tokenizer o = open_file(name);
  tokn_close(&o);
  return o.section != NULL;
}

/* --- the trie of a vocabulary --------------------------------------------------------------- */

/* Accepts ` ?[0-9]*`, with a state for each depth, like a grammar. */
typedef struct automaton {
  uint8_t digits[1 << 16]; /* [depth]: whether the bytes up to this depth have a digit */
  uint64_t steps;
} automaton;

static bool step_digit(bool digits, uint32_t at, uint8_t byte, bool *has_digit) {
  *has_digit = digits || (byte >= '0' && byte <= '9');
  return *has_digit ? byte >= '0' && byte <= '9' : at == 0 && byte == ' ';
}

static bool step_number(void *ctx, uint32_t depth, uint8_t byte) {
  automaton *a = ctx;
  bool has_digit;
  a->steps++;
  if (!step_digit(depth && a->digits[depth], depth, byte, &has_digit)) return false;
  a->digits[depth + 1] = has_digit;
  return true;
}

static bool number_accepts(const uint8_t *text, size_t bytes) {
  bool digits = false;
  for (size_t i = 0; i < bytes; i++)
    if (!step_digit(digits, (uint32_t)i, text[i], &digits)) return false;
  return true;
}

static bool step_all(void *ctx, uint32_t depth, uint8_t byte) {
  (void)ctx, (void)depth, (void)byte;
  return true;
}

static uint32_t bit(const uint32_t *mask, uint32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* Checks that every node occurs once, in order, and that the bytes of its tokens lead to it. */
static void check_nodes(const bq_tokenizer *t, const bq_trie *trie) {
  CHECK_EQ(trie->end[0], trie->nodes);
  for (uint32_t node = 0; node < trie->nodes && !check_state.failures; node++) {
    for (uint32_t i = trie->first[node]; i < trie->first[node + 1]; i++) {
      size_t bytes;
      const uint8_t *text = bq_token_bytes(t, trie->ids[i], &bytes);
      uint32_t at = 0;
      for (size_t j = 0; j < bytes && (at || j == 0); j++) at = bq_trie_child(trie, at, text[j]);
      CHECK_EQ(at, node);
      CHECK_EQ(trie->depth[node], bytes);
    }
    uint32_t previous_byte = 256;
    for (uint32_t child = node + 1; child < trie->end[node]; child = trie->end[child]) {
      CHECK_EQ(trie->depth[child], trie->depth[node] + 1);
      CHECK(previous_byte == 256 || trie->byte[child] > previous_byte);
      previous_byte = trie->byte[child];
    }
    if (node)
      CHECK(trie->first[node] < trie->first[trie->end[node]]); /* every node leads to tokens */
  }
}

/* Compares masks of the trie with single tokens. */
static void check_trie(const bq_tokenizer *t, const char *name) {
  tokn_trie o = tokn_trie_of(t);
  const uint32_t tokens = bq_tokenizer_info_get(t).tokens, words = (tokens + 31) / 32;
  uint32_t *all = calloc(words, 4), *numbers = calloc(words, 4), count = 0;
  automaton *a = calloc(1, sizeof *a);
  check_nodes(t, &o.trie);
  bq_trie_mask(&o.trie, step_all, NULL, all);
  bq_trie_mask(&o.trie, step_number, a, numbers);
  for (uint32_t id = 0; id < tokens; id++) {
    size_t bytes;
    const uint8_t *text = bq_token_bytes(t, id, &bytes);
    CHECK_EQ(bit(all, id), bytes > 0);
    CHECK_EQ(bit(numbers, id), bytes > 0 && number_accepts(text, bytes));
    count += bytes > 0;
  }
  CHECK_EQ(o.trie.tokens, count);
  CHECK(a->steps < o.trie.nodes || o.trie.nodes < 300); /* refused subtrees are skipped */
  printf("%s: %u tokens, %u nodes, %u bytes\n", name, count, o.trie.nodes,
         (uint32_t)bq_trie_bytes(&o.trie));
  free(a);
  free(numbers);
  free(all);
  tokn_trie_free(&o);
}

static void test_tries(void) {
  const char *names[] = {"spm",   "spm-unknown", "bpe",  "bpe-words", "utf8",  "llama-spm",
                         "gpt-2", "r50k",        "tok512", "chat-5m"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tokn_tokenizer o = open_file(names[i]);
    if (o.t) check_trie(o.t, names[i]);
    else CHECK(i > 4); /* the others need the shared data */
    tokn_close(&o);
  }
}

#define SHARED_FILE(test, name, minimum)                \
  static void test(void) {                              \
    if (!has_file(name)) SKIP("needs the shared data"); \
    check_file((name), (minimum));                      \
  }

static void test_sentencepiece(void) { check_file("spm", 400); }
static void test_sentencepiece_without_fallback(void) { check_file("spm-unknown", 300); }
static void test_byte_level(void) { check_file("bpe", 400); }
static void test_byte_level_whole_words(void) { check_file("bpe-words", 400); }
static void test_byte_level_of_llama_3(void) { check_file("bpe-llama-3", 400); }
static void test_splits(void) {
  check_file("split-gpt-2", 600);
  check_file("split-digits", 600);
  check_file("split-llama-3", 600);
  check_file("split-qwen-2", 600);
}
static void test_text_decoder(void) { check_file("utf8", 10000); }
SHARED_FILE(test_llama_spm, "llama-spm", 46)
SHARED_FILE(test_gpt_2, "gpt-2", 46)
SHARED_FILE(test_bert_bge, "bert-bge", 46)
SHARED_FILE(test_gpt_2_files, "gpt-2-files", 110)
SHARED_FILE(test_r50k, "r50k", 110)
SHARED_FILE(test_tok512, "tok512", 1)
SHARED_FILE(test_chat_5m, "chat-5m", 400)

int main(int count, char **arguments) {
  const char *folder = count > 1 ? arguments[1] : getenv("BQ4_TOKENIZERS");
  if (folder) files.folder = folder;
  RUN(test_sentencepiece);
  RUN(test_sentencepiece_without_fallback);
  RUN(test_byte_level);
  RUN(test_byte_level_whole_words);
  RUN(test_byte_level_of_llama_3);
  RUN(test_splits);
  RUN(test_text_decoder);
  RUN(test_tries);
  RUN(test_llama_spm);
  RUN(test_gpt_2);
  RUN(test_bert_bge);
  RUN(test_gpt_2_files);
  RUN(test_r50k);
  RUN(test_tok512);
  RUN(test_chat_5m);
  return check_summary();
}
