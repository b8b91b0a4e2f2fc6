/* The ids and texts that others' tokenizers give, on their vocabularies. The data is made by
 * tests/tools/make_tokn.mjs and found in a folder: the first argument, $BQ4_TOKENIZERS, or
 * build/tokenizers. What needs the shared data is skipped without it; the rest is always there. */
#include "core/cursor.h"
#include "tokn.h"

enum { ADD_SPECIAL = 1, PARSE_SPECIAL = 2, ENCODE = 4, DECODE = 8 };

static struct {
  const char *folder;
} files = {"build/tokenizers"};

/* The whole file, to be freed; NULL when there is none. */
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

static tokn_open open_file(const char *name) {
  size_t bytes = 0;
  uint8_t *section = read_file(name, "tokn", &bytes);
  if (!section || bytes < 44) {
    free(section);
    return (tokn_open){0};
  }
  return tokn_open_section(section, bytes, (bq_tokenizer_size){bq_load32(section + 32), bq_load32(section + 36)});
}

typedef struct test_case {
  uint32_t flags, bytes, n;
  const uint8_t *text; /* [bytes] */
  const uint8_t *ids;  /* [n] u32, unaligned */
} test_case;

static bool encodes(const bq_tokenizer *t, const test_case *c) {
  size_t n;
  uint32_t *ids = tokn_ids(t, c->text, c->bytes, c->flags & ADD_SPECIAL, c->flags & PARSE_SPECIAL, &n);
  bool same = n == c->n;
  for (size_t i = 0; same && i < n; i++) same = ids[i] == bq_load32(c->ids + 4 * i);
  free(ids);
  return same;
}

static bool decodes(const bq_tokenizer *t, const test_case *c) {
  char *text = malloc(bq_detokenize_limit(t) * (c->n + (size_t)1) + 3);
  bq_detokenizer d = {0};
  size_t n = 0;
  for (uint32_t i = 0; i < c->n; i++) n += bq_detokenize(t, &d, bq_load32(c->ids + 4 * (size_t)i), text + n);
  n += bq_detokenize_end(&d, text + n);
  bool same = n == c->bytes && memcmp(text, c->text, n) == 0;
  free(text);
  return same;
}

/* All cases of a vocabulary, at least `least` of them. */
static void check_cases(const bq_tokenizer *t, const char *name, uint32_t least) {
  size_t bytes = 0;
  uint8_t *data = read_file(name, "cases", &bytes);
  REQUIRE(data);
  bq_cursor at = {data, bytes, 0, false};
  uint32_t count = bq_cursor_u32(&at), encoded = 0, decoded = 0;
  for (uint32_t i = 0; i < count; i++) {
    test_case c = {.flags = bq_cursor_u32(&at), .bytes = bq_cursor_u32(&at), .n = bq_cursor_u32(&at)};
    c.text = bq_cursor_bytes(&at, c.bytes);
    c.ids = bq_cursor_bytes(&at, 4 * (uint64_t)c.n);
    if (!CHECK(!at.bad)) break;
    bool ok = true;
    if (c.flags & ENCODE) ok = encodes(t, &c) && ++encoded;
    if (c.flags & DECODE) ok = decodes(t, &c) && ++decoded && ok;
    if (!ok && check_fails(__FILE__, __LINE__)) printf("%s, case %u: \"%.*s\"\n", name, i, (int)c.bytes, (const char *)c.text);
  }
  CHECK(at.at == at.size);
  CHECK(count >= least);
  printf("%s: %u texts to ids, %u ids to texts\n", name, encoded, decoded);
  free(data);
}

static void check_file(const char *name, uint32_t least) {
  tokn_open o = open_file(name);
  if (!CHECK(o.section)) printf("no %s.tokn: run node tests/tools/make_tokn.mjs\n", name);
  if (o.section && CHECK_EQ(o.status, BQ_OK)) check_cases(o.t, name, least);
  else printf("%s\n", o.err.detail);
  tokn_close(&o);
}

/* Whether the folder was made with the shared data. */
static bool with_shared(const char *name) {
  tokn_open o = open_file(name);
  tokn_close(&o);
  return o.section != NULL;
}

#define SHARED_FILE(test, name, least)                    \
  static void test(void) {                                \
    if (!with_shared(name)) SKIP("needs the shared data"); \
    check_file((name), (least));                          \
  }

static void test_sentencepiece(void) { check_file("spm", 400); }
static void test_sentencepiece_without_fallback(void) { check_file("spm-unknown", 300); }
static void test_byte_level(void) { check_file("bpe", 400); }
static void test_byte_level_whole_words(void) { check_file("bpe-words", 400); }
static void test_text_decoder(void) { check_file("utf8", 10000); }
SHARED_FILE(test_llama_spm, "llama-spm", 46)
SHARED_FILE(test_gpt_2, "gpt-2", 46)
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
  RUN(test_text_decoder);
  RUN(test_llama_spm);
  RUN(test_gpt_2);
  RUN(test_gpt_2_files);
  RUN(test_r50k);
  RUN(test_tok512);
  RUN(test_chat_5m);
  return check_summary();
}
