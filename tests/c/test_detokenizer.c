/* Detokenization, token by token: only complete UTF-8 sequences are returned, wherever tokens
 * divide them. test_tokenizer_files.c compares the result for ill-formed bytes with TextDecoder. */
#include "random.h"
#include "tokn.h"

/* Whether bytes are well-formed UTF-8, by the ranges of table 3-7 of the Unicode standard. */
static bool well_formed(const char *text, size_t n) {
  const uint8_t *p = (const uint8_t *)text;
  for (size_t i = 0; i < n;) {
    uint8_t a = p[i], b = i + 1 < n ? p[i + 1] : 0, c = i + 2 < n ? p[i + 2] : 0,
            e = i + 3 < n ? p[i + 3] : 0;
    bool tail2 = b >= 0x80 && b <= 0xbf, tail3 = c >= 0x80 && c <= 0xbf,
         tail4 = e >= 0x80 && e <= 0xbf;
    if (a <= 0x7f) i += 1;
    else if (a >= 0xc2 && a <= 0xdf && tail2) i += 2;
    else if (a == 0xe0 && b >= 0xa0 && b <= 0xbf && tail3) i += 3;
    else if (a == 0xed && b >= 0x80 && b <= 0x9f && tail3) i += 3;
    else if (a >= 0xe1 && a <= 0xef && a != 0xed && tail2 && tail3) i += 3;
    else if (a == 0xf0 && b >= 0x90 && b <= 0xbf && tail3 && tail4) i += 4;
    else if (a == 0xf4 && b >= 0x80 && b <= 0x8f && tail3 && tail4) i += 4;
    else if (a >= 0xf1 && a <= 0xf3 && tail2 && tail3 && tail4) i += 4;
    else return false;
  }
  return true;
}

/* Divides `bytes` into tokens in all 2^(n - 1) ways: each gives `expected`, in well-formed
 * parts. */
static void check_cuts(const void *bytes, size_t n, const char *expected, int line) {
  const uint8_t *text = bytes;
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t id[16][17];
  for (size_t from = 0; from < n; from++)
    for (size_t to = from + 1; to <= n; to++)
      id[from][to] = tokn_add_bytes(&d, text + from, to - from, TOKN_NORMAL, 0);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  char *part = malloc(bq_detokenize_limit(o.t));
  for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
    char actual[64] = {0};
    size_t length = 0;
    bq_detokenizer s = {0};
    for (size_t from = 0, to = 1; to <= n; to++) {
      if (to < n && !(cuts >> (to - 1) & 1)) continue;
      size_t written = bq_detokenize(o.t, &s, id[from][to], part);
      if (!well_formed(part, written) && check_fails(__FILE__, line))
        printf("expected a well-formed part, found another one with cuts %x\n", cuts);
      memcpy(actual + length, part, written);
      length += written;
      from = to;
    }
    size_t written = bq_detokenize_end(&s, part);
    if (written > 3 && check_fails(__FILE__, line))
      printf("expected at most 3 bytes at the end, found %zu\n", written);
    memcpy(actual + length, part, written);
    check_str(actual, expected, "text", __FILE__, line);
    if (bq_detokenize_end(&s, part) != 0 && check_fails(__FILE__, line))
      printf("expected no bytes from a second call of bq_detokenize_end\n");
  }
  free(part);
  tokn_close(&o);
}
#define CHECK_CUTS(bytes, expected) check_cuts((bytes), sizeof(bytes) - 1, (expected), __LINE__)

#define BAD "\xef\xbf\xbd"

static void test_complete_sequences(void) {
  CHECK_CUTS("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z");
  CHECK_CUTS("\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8", "\xe0\xa4\xb9\xe0\xa4\xbf\xe0\xa4\xa8");
  CHECK_CUTS("\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"); /* around the surrogates */
  CHECK_CUTS("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
             "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"); /* ends of the planes */
  CHECK_CUTS(BAD BAD, BAD BAD);
}

static void test_ill_formed_bytes(void) {
  CHECK_CUTS("\x80", BAD);
  CHECK_CUTS("a\xff" "b", "a" BAD "b");
  CHECK_CUTS("\xc3", BAD);
  CHECK_CUTS("\xc3(", BAD "(");
  CHECK_CUTS("\xe2\x82", BAD); /* one U+FFFD for an incomplete character */
  CHECK_CUTS("\xe2\x82" "a", BAD "a");
  CHECK_CUTS("\xf0\x9f\x98\xc3\xa9", BAD "\xc3\xa9");
  CHECK_CUTS("\xf0\x9f\x98\xf0\x9f\x98\x80", BAD "\xf0\x9f\x98\x80");
  CHECK_CUTS("\xc0\x80", BAD BAD);               /* overlong */
  CHECK_CUTS("\xe0\x9f\xbf", BAD BAD BAD);
  CHECK_CUTS("\xf0\x8f\xbf\xbf", BAD BAD BAD BAD);
  CHECK_CUTS("\xed\xa0\x80", BAD BAD BAD);       /* a surrogate */
  CHECK_CUTS("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* above U+10FFFF */
  CHECK_CUTS("\xf5\x80\xe2\xe2\x82\xac", BAD BAD BAD "\xe2\x82\xac");
}

/* Random bytes, each as a token: parts are well-formed and not longer than the limit. */
static void test_random_bytes(void) {
  static const uint8_t edge_bytes[] = {'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                       0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed,
                                       0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_BYTE);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  size_t limit = bq_detokenize_limit(o.t);
  uint64_t seed = 7;
  bq_detokenizer s = {0};
  for (int i = 0; i < 200000; i++) {
    char *out = malloc(limit);
    size_t n =
        bq_detokenize(o.t, &s, byte + edge_bytes[random_bits(&seed) % sizeof edge_bytes], out);
    CHECK(n <= limit && s.n_pending < 4 && well_formed(out, n));
    free(out);
  }
  tokn_close(&o);
}

static void check_text(const bq_tokenizer *t, bool keep_space, const uint32_t *ids,
                       const char *expected, int line) {
  char actual[256] = {0};
  size_t n = 0;
  bq_detokenizer s = {.keep_space = keep_space};
  for (; *ids != BQ_TOKEN_NONE; ids++) n += bq_detokenize(t, &s, *ids, actual + n);
  bq_detokenize_end(&s, actual + n);
  check_str(actual, expected, "text", __FILE__, line);
}
#define CHECK_TEXT(t, keep, expected, ...) \
  check_text((t), (keep), TOKN_LIST(__VA_ARGS__), (expected), __LINE__)

/* The leading space of SPM is removed once, and only from the first token of the text. */
static void test_leading_space(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t bos = tokn_add(&d, "<s>", TOKN_CONTROL, 0), hi = tokn_add(&d, " hi", TOKN_NORMAL, 0);
  uint32_t space = tokn_add(&d, " ", TOKN_NORMAL, 0), newline = tokn_add(&d, "\n", TOKN_BYTE, 0);
  uint32_t user = tokn_add(&d, "<sep>", TOKN_USER, 0);
  d.bos = bos;
  tokn_tokenizer plain = tokn_open(&d);
  d.flags = TOKN_ADD_SPACE;
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(plain.t && o.t);
  CHECK_TEXT(o.t, false, "hi hi", hi, hi);
  CHECK_TEXT(o.t, false, "hi", bos, hi);
  CHECK_TEXT(o.t, false, " hi", space, hi);
  CHECK_TEXT(o.t, false, "\n hi", newline, hi);
  CHECK_TEXT(o.t, false, "<sep> hi", user, hi);
  CHECK_TEXT(o.t, false, "", bos, bos);
  CHECK_TEXT(o.t, true, " hi hi", hi, hi);
  CHECK_TEXT(plain.t, false, " hi", hi);
  CHECK_TEXT(o.t, false, "hi", 1000, UINT32_MAX - 1, hi); /* Invalid tokens have no text. */
  tokn_close(&plain);
  tokn_close(&o);
}

int main(void) {
  RUN(test_complete_sequences);
  RUN(test_ill_formed_bytes);
  RUN(test_random_bytes);
  RUN(test_leading_space);
  return check_summary();
}
