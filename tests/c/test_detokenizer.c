/* Ids back to text, token by token: only whole UTF-8 sequences come out, wherever they are cut.
 * What ill-formed bytes become is compared with TextDecoder in test_tokenizer_files.c. */
#include "random.h"
#include "tokn.h"

/* Reads well-formed UTF-8 by the ranges of table 3-7, written out; false for anything else. */
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

/* Cuts `bytes` into tokens in all 2^(n - 1) ways: every way gives `want`, in well-formed pieces. */
static void check_cuts(const void *bytes, size_t n, const char *want, int line) {
  const uint8_t *text = bytes;
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t id[16][17];
  for (size_t from = 0; from < n; from++)
    for (size_t to = from + 1; to <= n; to++)
      id[from][to] = tokn_add_bytes(&d, text + from, to - from, TOKN_NORMAL, 0);
  tokn_open o = tokn_opened(&d);
  REQUIRE(o.t);
  char *piece = malloc(bq_detokenize_limit(o.t));
  for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
    char got[64] = {0};
    size_t length = 0;
    bq_detokenizer s = {0};
    for (size_t from = 0, to = 1; to <= n; to++) {
      if (to < n && !(cuts >> (to - 1) & 1)) continue;
      size_t written = bq_detokenize(o.t, &s, id[from][to], piece);
      if (!well_formed(piece, written) && check_fails(__FILE__, line))
        printf("ill-formed piece, cuts %x\n", cuts);
      memcpy(got + length, piece, written);
      length += written;
      from = to;
    }
    size_t written = bq_detokenize_end(&s, piece);
    if (written > 3 && check_fails(__FILE__, line)) printf("%zu bytes at the end\n", written);
    memcpy(got + length, piece, written);
    check_str(got, want, "text", __FILE__, line);
    if (bq_detokenize_end(&s, piece) != 0 && check_fails(__FILE__, line)) printf("a second end\n");
  }
  free(piece);
  tokn_close(&o);
}
#define CHECK_CUTS(bytes, want) check_cuts((bytes), sizeof(bytes) - 1, (want), __LINE__)

#define BAD "\xef\xbf\xbd"

static void test_whole_sequences(void) {
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
  CHECK_CUTS("\xe2\x82", BAD);                   /* one for what might have become a character */
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

/* Random bytes, each a token: as long as promised and well-formed at every step. */
static void test_random_bytes(void) {
  static const uint8_t interesting[] = {'a',  0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                        0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed,
                                        0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_BYTE);
  tokn_open o = tokn_opened(&d);
  REQUIRE(o.t);
  size_t limit = bq_detokenize_limit(o.t);
  uint64_t seed = 7;
  bq_detokenizer s = {0};
  for (int i = 0; i < 200000; i++) {
    char *out = malloc(limit);
    size_t n =
        bq_detokenize(o.t, &s, byte + interesting[random_bits(&seed) % sizeof interesting], out);
    CHECK(n <= limit && s.n_pending < 4 && well_formed(out, n));
    free(out);
  }
  tokn_close(&o);
}

static void check_text(const bq_tokenizer *t, bool keep_space, const uint32_t *ids,
                       const char *want, int line) {
  char got[256] = {0};
  size_t n = 0;
  bq_detokenizer s = {.keep_space = keep_space};
  for (; *ids != BQ_TOKEN_NONE; ids++) n += bq_detokenize(t, &s, *ids, got + n);
  bq_detokenize_end(&s, got + n);
  check_str(got, want, "text", __FILE__, line);
}
#define CHECK_TEXT(t, keep, want, ...) \
  check_text((t), (keep), TOKN_LIST(__VA_ARGS__), (want), __LINE__)

/* The space that SPM puts in front goes again, once, and only from the text's first token. */
static void test_space_in_front(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t bos = tokn_add(&d, "<s>", TOKN_CONTROL, 0), hi = tokn_add(&d, " hi", TOKN_NORMAL, 0);
  uint32_t space = tokn_add(&d, " ", TOKN_NORMAL, 0), newline = tokn_add(&d, "\n", TOKN_BYTE, 0);
  uint32_t user = tokn_add(&d, "<sep>", TOKN_USER, 0);
  d.bos = bos;
  tokn_open plain = tokn_opened(&d);
  d.flags = TOKN_ADD_SPACE;
  tokn_open o = tokn_opened(&d);
  REQUIRE(plain.t && o.t);
  CHECK_TEXT(o.t, false, "hi hi", hi, hi);
  CHECK_TEXT(o.t, false, "hi", bos, hi);
  CHECK_TEXT(o.t, false, " hi", space, hi);
  CHECK_TEXT(o.t, false, "\n hi", newline, hi);
  CHECK_TEXT(o.t, false, "<sep> hi", user, hi);
  CHECK_TEXT(o.t, false, "", bos, bos);
  CHECK_TEXT(o.t, true, " hi hi", hi, hi);
  CHECK_TEXT(plain.t, false, " hi", hi);
  CHECK_TEXT(o.t, false, "hi", 1000, UINT32_MAX - 1, hi); /* ids out of range say nothing */
  tokn_close(&plain);
  tokn_close(&o);
}

int main(void) {
  RUN(test_whole_sequences);
  RUN(test_ill_formed_bytes);
  RUN(test_random_bytes);
  RUN(test_space_in_front);
  return check_summary();
}
