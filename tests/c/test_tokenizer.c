/* Tokenization with small vocabularies, whose tokens can be checked by hand. */
#include "random.h"
#include "text/unicode_tables.h"
#include "text/vocab.h"
#include "tokn.h"

/* --- SentencePiece BPE ---------------------------------------------------------------------- */

typedef struct spm {
  tokn d;
  uint32_t unk, bos, eos, sep, byte; /* byte: the token of byte 0, if there are byte tokens */
  uint32_t space, a, b, c, ab, bc, space_a, space_ab;
} spm;

static spm make_spm(uint32_t flags) {
  spm v = {.d = tokn_new(BQ_TOKENIZER_SPM)};
  v.d.flags = flags;
  v.d.unk = v.unk = tokn_add(&v.d, "<unk>", TOKN_UNKNOWN, 0);
  v.d.bos = v.bos = tokn_add(&v.d, "<s>", TOKN_CONTROL, 0);
  v.d.eos = v.eos = tokn_add(&v.d, "</s>", TOKN_CONTROL, 0);
  v.sep = tokn_add(&v.d, "<sep>", TOKN_USER, 0);
  if (flags & TOKN_FALLBACK) v.byte = tokn_add_all_bytes(&v.d, TOKN_BYTE);
  v.space = tokn_add(&v.d, " ", TOKN_NORMAL, -10);
  v.a = tokn_add(&v.d, "a", TOKN_NORMAL, -10);
  v.b = tokn_add(&v.d, "b", TOKN_NORMAL, -10);
  v.c = tokn_add(&v.d, "c", TOKN_NORMAL, -10);
  v.ab = tokn_add(&v.d, "ab", TOKN_NORMAL, -2);
  v.bc = tokn_add(&v.d, "bc", TOKN_NORMAL, -1);
  v.space_a = tokn_add(&v.d, " a", TOKN_NORMAL, -3);
  v.space_ab = tokn_add(&v.d, " ab", TOKN_NORMAL, -4);
  return v;
}

static void test_spm_merges_by_score(void) {
  spm v = make_spm(0);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "ab", v.ab);
  CHECK_PLAIN(o.t, "abc", v.a, v.bc); /* bc has a higher score than ab */
  CHECK_PLAIN(o.t, " ab", v.space_ab);
  CHECK_PLAIN(o.t, " abc", v.space_a, v.bc);
  CHECK_PLAIN(o.t, "abab", v.ab, v.ab);
  CHECK_PLAIN(o.t, "a b", v.a, v.space, v.b);
  CHECK_NO_IDS(o.t, "");
  tokn_close(&o);
}

/* Of pairs with equal scores, the leftmost is merged first. */
static void test_spm_ties(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, 0);
  uint32_t aa = tokn_add(&d, "aa", TOKN_NORMAL, -0.0f);
  uint32_t b = tokn_add(&d, "b", TOKN_NORMAL, 0);
  uint32_t ab = tokn_add(&d, "ab", TOKN_NORMAL, 0.0f);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "aaa", aa, a);
  CHECK_PLAIN(o.t, "aab", aa, b);
  CHECK_PLAIN(o.t, "aaab", aa, ab);
  tokn_close(&o);
}

static void test_spm_space_in_front(void) {
  spm v = make_spm(TOKN_ADD_SPACE);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "ab", v.space_ab);
  CHECK_PLAIN(o.t, " ab", v.space, v.space_ab);
  CHECK_PLAIN(o.t, "\xe2\x96\x81" "ab", v.space, v.space_ab); /* ▁ is a space */
  CHECK_PLAIN(o.t, "b<sep>ab", v.space, v.b, v.sep, v.ab);
  CHECK_PLAIN(o.t, "<sep>ab", v.space, v.sep, v.ab);
  CHECK_PARSED(o.t, "<s>ab</s>ab", v.bos, v.space_ab, v.eos, v.space_ab);
  CHECK_PARSED(o.t, "<s><sep>", v.bos, v.space, v.sep);
  CHECK_PARSED(o.t, "<s>", v.bos);
  CHECK_NO_IDS(o.t, "");
  tokn_close(&o);
}

/* Control, unknown and unused tokens are no result of merging, and no intermediate step. */
static void test_spm_merges_only_text_tokens(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, 0), b = tokn_add(&d, "b", TOKN_NORMAL, 0);
  uint32_t c = tokn_add(&d, "c", TOKN_NORMAL, 0), abc = tokn_add(&d, "abc", TOKN_NORMAL, 0);
  tokn_add(&d, "ab", TOKN_CONTROL, 9);
  tokn_add(&d, "bc", TOKN_UNUSED, 8);
  tokn_add(&d, "ca", TOKN_UNKNOWN, 7);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "ab", a, b);
  CHECK_PLAIN(o.t, "abca", a, b, c, a);
  CHECK_EQ(bq_token_find(o.t, "abc", 3), abc);
  tokn_close(&o);
}

/* With tokens of several words, the text is not split into words first. */
static void test_spm_across_words(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, -5), space = tokn_add(&d, " ", TOKN_NORMAL, -5);
  uint32_t a_space = tokn_add(&d, "a ", TOKN_NORMAL, -2),
           a_a = tokn_add(&d, "a a", TOKN_NORMAL, -1);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "a a", a_a);
  CHECK_PLAIN(o.t, "a  a", a_space, space, a);
  tokn_close(&o);
}

/* Adjacent characters that the vocabulary lacks are one unknown token. */
static void test_spm_unknown(void) {
  spm v = make_spm(0);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "xyz", v.unk);
  CHECK_PLAIN(o.t, "xayz", v.unk, v.a, v.unk);
  CHECK_PLAIN(o.t, "\xff\xe0\x80" "a", v.unk, v.a);
  v.d.unk = BQ_TOKEN_NONE;
  tokn_tokenizer without_unknown = tokn_open(&v.d);
  CHECK_PLAIN(without_unknown.t, "xay", v.a);
  tokn_close(&without_unknown);
  tokn_close(&o);
}

static void test_spm_byte_fallback(void) {
  spm v = make_spm(TOKN_FALLBACK);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "\xc3\xa9" "a", v.byte + 0xc3, v.byte + 0xa9, v.a);
  CHECK_PLAIN(o.t, "a\n", v.a, v.byte + '\n');
  /* An invalid byte is a token of its own, and the text after it is tokenized as usual. */
  CHECK_PLAIN(o.t, "\xc3" "ab", v.byte + 0xc3, v.ab);
  CHECK_PLAIN(o.t, "\xe2\x96", v.byte + 0xe2, v.byte + 0x96);
  CHECK_PLAIN(o.t, "\xf0\x9f\x98" "b", v.byte + 0xf0, v.byte + 0x9f, v.byte + 0x98, v.b);
  tokn_check(o.t, "a\0a", 3, false, false, TOKN_LIST(v.a, v.byte, v.a), __FILE__, __LINE__);
  tokn_close(&o);
}

/* --- special tokens ------------------------------------------------------------------------- */

static void test_special_tokens(void) {
  spm v = make_spm(TOKN_FALLBACK);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  size_t n;
  CHECK_PARSED(o.t, "a<s>b", v.a, v.bos, v.b);
  CHECK_PARSED(o.t, "<unk>", v.unk);
  CHECK_PLAIN(o.t, "<s>", v.byte + '<', v.byte + 's',
              v.byte + '>'); /* plain text, not a control token */
  CHECK_PLAIN(o.t, "a<sep>b", v.a, v.sep, v.b);
  CHECK_PLAIN(o.t, "<sep", v.byte + '<', v.byte + 's', v.byte + 'e', v.byte + 'p');
  CHECK_EQ(bq_token_find(o.t, "</s>", 4), v.eos);
  CHECK_EQ(bq_token_find(o.t, "</s", 3), BQ_TOKEN_NONE);
  CHECK_EQ(bq_token_find(o.t, "", 0), BQ_TOKEN_NONE);
  CHECK_EQ(bq_token_find(o.t, "a", 1), v.a); /* not the byte token */
  CHECK_EQ(bq_token_find(o.t, "\n", 1), v.byte + '\n');
  CHECK(bq_token_special(o.t, v.bos) && bq_token_special(o.t, v.unk));
  CHECK(!bq_token_special(o.t, v.sep) && !bq_token_special(o.t, v.a) &&
        !bq_token_special(o.t, 100000));
  bq_token_bytes(o.t, v.bos, &n);
  CHECK_EQ(n, 0);
  bq_token_bytes(o.t, 100000, &n);
  CHECK_EQ(n, 0);
  const uint8_t *text = bq_token_bytes(o.t, v.sep, &n);
  CHECK(n == 5 && memcmp(text, "<sep>", 5) == 0);
  tokn_close(&o);
}

/* The leftmost match is used, and of those the longest, also if a longer token almost matches. */
static void test_special_tokens_overlap(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t shorter = tokn_add(&d, "<<", TOKN_USER, 0), longer = tokn_add(&d, "<<<<", TOKN_USER, 0);
  uint32_t other = tokn_add(&d, "<>", TOKN_USER, 0), control = tokn_add(&d, "<<x", TOKN_CONTROL, 0);
  tokn_add(&d, "<<", TOKN_USER, 0); /* a duplicate: the lowest token is used */
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "<<<<", longer);
  CHECK_PLAIN(o.t, "<<<", shorter, byte + '<');
  CHECK_PLAIN(o.t, "<<>", shorter, byte + '>');
  CHECK_PLAIN(o.t, "x<>", byte + 'x', other);
  CHECK_PLAIN(o.t, "<<x", shorter, byte + 'x');
  CHECK_PARSED(o.t, "<<x", control);
  CHECK_PARSED(o.t, "<<<x", shorter, byte + '<', byte + 'x');
  tokn_close(&o);
}

static void test_bos_and_eos(void) {
  spm v = make_spm(TOKN_ADD_BOS | TOKN_ADD_EOS);
  v.d.eog[v.d.n_eog++] = v.eos;
  v.d.eog[v.d.n_eog++] = v.sep;
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  bq_tokenizer_info info = bq_tokenizer_info_get(o.t);
  CHECK(info.add_bos && info.add_eos);
  CHECK_EQ(info.bos, v.bos);
  CHECK_EQ(info.eos, v.eos);
  CHECK_EQ(info.unk, v.unk);
  CHECK_EQ(info.pad, BQ_TOKEN_NONE);
  CHECK_EQ(info.tokens, v.d.n_tokens);
  CHECK_EQ(info.kind, BQ_TOKENIZER_SPM);
  CHECK_FRAMED(o.t, "a", v.bos, v.a, v.eos);
  CHECK_FRAMED(o.t, "", v.bos, v.eos);
  CHECK(bq_token_ends(o.t, v.eos) && bq_token_ends(o.t, v.sep) && !bq_token_ends(o.t, v.a));
  v.d.bos = v.d.eos = BQ_TOKEN_NONE;
  tokn_tokenizer without_unknown = tokn_open(&v.d);
  CHECK(!bq_tokenizer_info_get(without_unknown.t).add_bos &&
        !bq_tokenizer_info_get(without_unknown.t).add_eos);
  CHECK_FRAMED(without_unknown.t, "a", v.a);
  tokn_close(&without_unknown);
  tokn_close(&o);
}

static void test_capacity(void) {
  spm v = make_spm(TOKN_ADD_BOS);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  uint32_t scratch[64], ids[4] = {7, 7, 7, 7};
  size_t count = 99;
  bq_tokenize_options options = {.add_special = true};
  CHECK(bq_tokenize_scratch(o.t, 3, false) <= sizeof scratch);
  CHECK_EQ(bq_tokenize(o.t, "cba", 3, &options, scratch, ids, 2, &count), BQ_ARGUMENT);
  CHECK_EQ(count, 4);
  CHECK_EQ(ids[0], v.bos);
  CHECK_EQ(ids[1], v.c);
  CHECK_EQ(ids[2], 7);
  CHECK_EQ(bq_tokenize(o.t, "cba", 3, &options, scratch, ids, 4, &count), BQ_OK);
  CHECK_EQ(ids[3], v.a);
  CHECK_EQ(bq_tokenize(o.t, NULL, 0, &options, NULL, NULL, 0, &count), BQ_ARGUMENT);
  CHECK_EQ(count, 1);
  CHECK(bq_tokenize_scratch(o.t, 1ull << 40, false) == UINT64_MAX);
  tokn_close(&o);
}

/* Tokenizes a text with one plain range; *first and *last: its outer tokens. Returns the number of
 * tokens. */
static size_t outer_tokens(const bq_tokenizer *t, const char *text, bq_text_range plain,
                           bool continues, uint32_t *first, uint32_t *last) {
  bq_tokenize_options options = {false, true, false, continues, &plain, plain.end > plain.begin};
  const size_t bytes = strlen(text);
  void *scratch = malloc((size_t)bq_tokenize_scratch(t, bytes, false));
  uint32_t ids[64];
  size_t count = 0;
  CHECK_EQ(bq_tokenize(t, text, bytes, &options, scratch, ids, 64, &count), BQ_OK);
  free(scratch);
  *first = count ? ids[0] : BQ_TOKEN_NONE;
  *last = count ? ids[count - 1] : BQ_TOKEN_NONE;
  return count;
}

static void test_plain_ranges(void) {
  spm v = make_spm(TOKN_ADD_SPACE);
  tokn_tokenizer o = tokn_open(&v.d);
  REQUIRE(o.t);
  uint32_t first, last;
  const bq_text_range without_unknown = {0, 0}, at_end = {3, 8}, at_beginning = {0, 4};
  const bq_text_range edge = {7, 8}, inside = {4, 5};
  outer_tokens(o.t, "<s>a</s>", without_unknown, false, &first, &last);
  CHECK(first == v.bos && last == v.eos);
  outer_tokens(o.t, "<s>a</s>", at_end, false, &first, &last);
  CHECK(first == v.bos && last != v.eos);
  outer_tokens(o.t, "<s>a</s>", at_beginning, false, &first, &last);
  CHECK(first != v.bos && last == v.eos);
  /* No special token crosses the end of a range. */
  outer_tokens(o.t, "<s>a</s>", edge, false, &first, &last);
  CHECK(first == v.bos && last != v.eos);
  outer_tokens(o.t, "<s>a</s>", inside, false, &first, &last);
  CHECK(first == v.bos && last != v.eos);
  /* A text that continues another one has no space in front. */
  CHECK_EQ(outer_tokens(o.t, "a", without_unknown, true, &first, &last), 1);
  CHECK_EQ(first, v.a);
  outer_tokens(o.t, "a", without_unknown, false, &first, &last);
  CHECK(first != v.a);
  size_t n;
  CHECK_EQ(*(const char *)bq_token_text(o.t, v.bos, &n), '<');
  CHECK_EQ(n, 3);
  bq_token_text(o.t, 100000, &n);
  CHECK_EQ(n, 0);
  tokn_close(&o);
}

/* --- byte-level BPE ------------------------------------------------------------------------- */

/* Checks the words of the pre-tokenizer, with a vocabulary that has a token for each word. '|'
 * separates the words. */
static void check_words(const char *cut, const char *file, int line) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  d.flags = TOKN_WORDS;
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t expected[32];
  uint8_t text[256];
  size_t n = 0, words = 0;
  for (const char *from = cut; *from; words++) {
    size_t bytes = strcspn(from, "|");
    memcpy(text + n, from, bytes);
    n += bytes;
    expected[words] = bytes == 1 ? (uint8_t)*from : tokn_add_bytes(&d, from, bytes, TOKN_NORMAL, 0);
    from += bytes + (from[bytes] == '|');
  }
  expected[words] = BQ_TOKEN_NONE;
  for (size_t i = 0; i < words; i++) /* equal words have the lowest token */
    for (size_t j = 0; j < i; j++)
      if (expected[i] != BQ_TOKEN_NONE && d.bytes[expected[i]] == d.bytes[expected[j]] &&
          memcmp(d.text[expected[i]], d.text[expected[j]], d.bytes[expected[i]]) == 0)
        expected[i] = expected[j];
  tokn_tokenizer o = tokn_open(&d);
  if (o.t) tokn_check(o.t, text, n, false, false, expected, file, line);
  tokn_close(&o);
}
#define CHECK_WORDS(cut) check_words((cut), __FILE__, __LINE__)

static void test_gpt2_words(void) {
  CHECK_WORDS("Hello| world");
  CHECK_WORDS("it|'s| they|'ll| we|'ve| I|'m| he|'d| don|'t| you|'re");
  CHECK_WORDS("IT|'|S| x|''|s| '|s");
  CHECK_WORDS("'s|x");
  CHECK_WORDS("'|r");
  CHECK_WORDS("'|l| '|ll");
  CHECK_WORDS("a|1|b| 12| !?| a|!");
  CHECK_WORDS("a|  | b|   ");    /* The last space belongs to the word after it, if there is one. */
  CHECK_WORDS("a|\n|b|\n|\n|b"); /* only for spaces */
  CHECK_WORDS("a| \n |\n|b|\t|1| \t| c");
  CHECK_WORDS(" | a");
  CHECK_WORDS("\n ");
  CHECK_WORDS(
      "\xc3\xa9t\xc3\xa9| \xd0\xb4\xd0\xb0|\xe3\x80\x80|\xe4\xbb\x8a\xe5\xa4\xa9|\xef\xbc\x8c");
  CHECK_WORDS("\xe0\xa4\xb9|\xe0\xa4\xbf|\xe0\xa4\xa8"); /* a vowel sign is no letter */
  CHECK_WORDS("x|\xc2\xb2\xe2\x85\xa7|\xe2\x82\xac|5");   /* ² and Ⅷ are numbers */
  CHECK_WORDS("a|\xc2\xa0|b|\xc2\x85|1|\xe2\x80\x83| b"); /* white space that is not ASCII */
  CHECK_WORDS(" \xf0\x9f\x98\x80\xe2\x80\x8d|a");
  CHECK_WORDS("a|\xff\xfe|b| \xc3|1|\xe2\x82"); /* invalid bytes are no letters */
  CHECK_WORDS("\xed\xa0\x80| x|\xc0\xaf!|y");   /* and neither are surrogates and overlong forms */
}

static void test_bpe_merges_by_rank(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t bc = tokn_merge(&d, byte + 'b', byte + 'c', TOKN_NORMAL);
  uint32_t ab = tokn_merge(&d, byte + 'a', byte + 'b', TOKN_NORMAL);
  uint32_t aa = tokn_merge(&d, byte + 'a', byte + 'a', TOKN_NORMAL);
  uint32_t aab = tokn_merge(&d, byte + 'a', ab, TOKN_NORMAL);
  memcpy(d.merges[d.n_merges++], d.merges[0], 12); /* a duplicate merge is ignored */
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "abc", byte + 'a', bc);
  CHECK_PLAIN(o.t, "abab", ab, ab);
  CHECK_PLAIN(o.t, "aab", aab);
  CHECK_PLAIN(o.t, "aaa", aa, byte + 'a');
  CHECK_PLAIN(o.t, "a b", byte + 'a', byte + ' ', byte + 'b');
  CHECK_PLAIN(o.t, "\xff\x80", byte + 0xff, byte + 0x80);
  tokn_check(o.t, "a\0b", 3, false, false, TOKN_LIST(byte + 'a', byte, byte + 'b'), __FILE__,
             __LINE__);
  CHECK_NO_IDS(o.t, "");
  tokn_close(&o);
}

/* Text never becomes a control token, even if a merge leads to one. */
static void test_bpe_never_merges_into_control(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t end = tokn_merge(&d, byte + '<', byte + '>', TOKN_CONTROL);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "<>", byte + '<', byte + '>');
  CHECK_PARSED(o.t, "<>", end);
  tokn_close(&o);
}

static void test_bpe_ignore_merges(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t byte = tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t word = tokn_add(&d, " dog", TOKN_NORMAL, 0);
  tokn_tokenizer without = tokn_open(&d);
  d.flags = TOKN_WORDS;
  tokn_tokenizer with = tokn_open(&d);
  REQUIRE(without.t && with.t);
  CHECK_PLAIN(with.t, " dog", word);
  CHECK_PLAIN(without.t, " dog", byte + ' ', byte + 'd', byte + 'o', byte + 'g');
  tokn_close(&without);
  tokn_close(&with);
}

static void test_bpe_missing_bytes(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, 0), unk = tokn_add(&d, "?", TOKN_UNKNOWN, 0);
  tokn_tokenizer without_unknown = tokn_open(&d);
  d.unk = unk;
  tokn_tokenizer with_unknown = tokn_open(&d);
  REQUIRE(without_unknown.t && with_unknown.t);
  CHECK_PLAIN(without_unknown.t, "abba", a, a);
  CHECK_PLAIN(with_unknown.t, "abba", a, unk, unk, a);
  tokn_close(&without_unknown);
  tokn_close(&with_unknown);
}

/* --- merging, compared with a simple algorithm ------------------------------------------------ */

/* Merges the best of all pairs until none is left. Returns the number of tokens. */
static size_t simple_bpe(const tokn *d, uint32_t *ids, size_t n) {
  for (;;) {
    uint32_t best = d->n_merges;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++)
      for (uint32_t m = 0; m < best; m++)
        if (d->merges[m][0] == ids[i] && d->merges[m][1] == ids[i + 1]) {
          best = m;
          at = i;
        }
    if (best == d->n_merges) return n;
    ids[at] = d->merges[best][2];
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
}

static size_t simple_spm(const tokn *d, uint32_t *ids, size_t n) {
  for (;;) {
    uint32_t best = BQ_TOKEN_NONE;
    size_t at = 0;
    for (size_t i = 0; i + 1 < n; i++)
      for (uint32_t id = 0; id < d->n_tokens; id++) {
        uint32_t left = d->bytes[ids[i]], right = d->bytes[ids[i + 1]];
        if (d->bytes[id] == left + right && memcmp(d->text[id], d->text[ids[i]], left) == 0 &&
            memcmp(d->text[id] + left, d->text[ids[i + 1]], right) == 0 &&
            (best == BQ_TOKEN_NONE || d->score[id] > d->score[best])) {
          best = id;
          at = i;
        }
      }
    if (best == BQ_TOKEN_NONE) return n;
    ids[at] = best;
    memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
    n--;
  }
}

/* Vocabularies over three letters, with random merges, and words of all lengths. */
static void check_against_simple_merging(bq_tokenizer_kind kind) {
  uint64_t seed = 12345;
  for (int round = 0; round < 60; round++) {
    tokn d = tokn_new(kind);
    for (int i = 0; i < 3; i++) tokn_add_bytes(&d, &"abc"[i], 1, TOKN_NORMAL, 0);
    for (int i = 0; i < 25; i++) {
      uint32_t left = random_bits(&seed) % d.n_tokens, right = random_bits(&seed) % d.n_tokens;
      uint8_t both[2 * TOKN_TEXT];
      uint32_t bytes = d.bytes[left] + d.bytes[right];
      if (bytes > TOKN_TEXT) continue;
      memcpy(both, d.text[left], d.bytes[left]);
      memcpy(both + d.bytes[left], d.text[right], d.bytes[right]);
      bool exists = false;
      for (uint32_t id = 0; id < d.n_tokens; id++)
        if (d.bytes[id] == bytes && memcmp(d.text[id], both, bytes) == 0) exists = true;
      if (exists) continue;
      uint32_t id = tokn_merge(&d, left, right, TOKN_NORMAL);
      d.score[id] = (float)(random_bits(&seed) % 8) - 4;
    }
    uint32_t merges = d.n_merges;
    if (kind == BQ_TOKENIZER_SPM) d.n_merges = 0;
    tokn_tokenizer o = tokn_open(&d);
    REQUIRE(o.t);
    d.n_merges = merges;
    for (size_t n = 1; n < 40; n++) {
      uint8_t text[40];
      uint32_t expected[41];
      for (size_t i = 0; i < n; i++) {
        expected[i] = random_bits(&seed) % 3;
        text[i] = (uint8_t)('a' + expected[i]);
      }
      size_t count =
          kind == BQ_TOKENIZER_SPM ? simple_spm(&d, expected, n) : simple_bpe(&d, expected, n);
      expected[count] = BQ_TOKEN_NONE;
      tokn_check(o.t, text, n, false, false, expected, __FILE__, __LINE__);
    }
    tokn_close(&o);
  }
}

static void test_bpe_against_simple_merging(void) {
  check_against_simple_merging(BQ_TOKENIZER_BPE);
}
static void test_spm_against_simple_merging(void) {
  check_against_simple_merging(BQ_TOKENIZER_SPM);
}

/* Words that are repeated in a long text have the same tokens as alone, also beyond the capacity of
 * the output. */
static void test_repeated_words(void) {
  enum { N = 20000, WORD = 12 };
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  uint64_t seed = 99;
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  uint32_t last = 0;
  for (int i = 0; i < 40; i++) { /* over the letters a to d */
    uint32_t left = i % 3 ? 'a' + random_bits(&seed) % 4 : (last ? last : 'a');
    last = tokn_merge(&d, left, 'a' + random_bits(&seed) % 4, TOKN_NORMAL);
  }
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  uint8_t *text = malloc(N);
  uint32_t *expected = malloc(N * sizeof *expected), *actual = malloc(N * sizeof *actual);
  size_t n = 0, count = 0, n_found = 0;
  while (n < N - WORD) {
    uint8_t word[WORD] = {' '};
    const size_t bytes = 1 + random_bits(&seed) % 5, kinds = n < N / 2 ? 2 : 4;
    for (size_t i = 1; i <= bytes; i++) word[i] = (uint8_t)('a' + random_bits(&seed) % kinds);
    size_t n_word_tokens = 0;
    uint32_t *ids = tokn_ids(o.t, (char *)word, bytes + 1, false, false, &n_word_tokens);
    memcpy(expected + count, ids, n_word_tokens * sizeof *ids);
    memcpy(text + n, word, bytes + 1);
    count += n_word_tokens;
    n += bytes + 1;
    free(ids);
  }
  uint32_t *ids = tokn_ids(o.t, (char *)text, n, false, false, &n_found);
  CHECK_EQ(n_found, count);
  CHECK_MEM(ids, expected, count * sizeof *ids);
  const size_t room = count / 2;
  void *scratch = malloc((size_t)bq_tokenize_scratch(o.t, n, false));
  memset(actual, 0xff, N * sizeof *actual);
  bq_tokenize_options options = {0};
  CHECK_EQ(bq_tokenize(o.t, (char *)text, n, &options, scratch, actual, room, &n_found),
           BQ_ARGUMENT);
  CHECK_EQ(n_found, count);
  CHECK_MEM(actual, expected, room * sizeof *actual);
  CHECK_EQ(actual[room], UINT32_MAX);
  free(scratch);
  free(ids);
  free(actual);
  free(expected);
  free(text);
  tokn_close(&o);
}

/* Compares the class of every code point with a scan of all runs of the table. */
static void test_classes_of_characters(void) {
  uint32_t c = 0, class = 0, first = 0;
  for (size_t at = 0; at < BQ_CHAR_BYTES;) {
    const uint8_t *run = bq_char_runs + at;
    const uint32_t step = run[0] & 63;
    first += step < 62 ? step : step == 62 ? 62u + run[1] : run[1] + 256u * run[2];
    at += step < 62 ? 1 : step - 60;
    for (; c < first; c++) CHECK_EQ(bq_char_class(c), class);
    class = run[0] >> 6;
  }
  for (; c < 0x110000; c++) CHECK_EQ(bq_char_class(c), class);
}

/* A word of 300,000 letters; an algorithm with quadratic time would take hours. */
static void test_long_words(void) {
  enum { N = 300000 };
  char *text = malloc(N);
  memset(text, 'a', N);
  for (int kind = BQ_TOKENIZER_SPM; kind <= BQ_TOKENIZER_UNIGRAM; kind++) {
    tokn d = tokn_new((bq_tokenizer_kind)kind);
    uint32_t id = tokn_add(&d, "a", TOKN_NORMAL, -4);
    for (int i = 1; i <= 4; i++) {
      id = tokn_merge(&d, id, id, TOKN_NORMAL);
      d.score[id] = (float)-i;
    }
    tokn_tokenizer o = tokn_open(&d);
    size_t n = 0;
    uint32_t *ids = tokn_ids(o.t, text, N, false, false, &n);
    CHECK_EQ(n, N / 16);
    CHECK_EQ(ids[0], id);
    free(ids);
    tokn_close(&o);
  }
  free(text);
}

/* Of segmentations with equal scores, the one whose last token begins first. */
static void test_unigram_ties(void) {
  tokn d = tokn_new(BQ_TOKENIZER_UNIGRAM);
  uint32_t a = tokn_add(&d, "a", TOKN_NORMAL, -1), aa = tokn_add(&d, "aa", TOKN_NORMAL, -2);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  CHECK_PLAIN(o.t, "aa", aa);
  CHECK_PLAIN(o.t, "aaa", a, aa);
  CHECK_PLAIN(o.t, "aaaa", aa, aa);
  tokn_close(&o);
}

/* --- word list ------------------------------------------------------------------------------ */

static void test_wordlist(void) {
  tokn d = tokn_new(BQ_TOKENIZER_WORDLIST);
  uint32_t the = tokn_add(&d, "the", TOKN_NORMAL, 0), th = tokn_add(&d, "th", TOKN_NORMAL, 0);
  uint32_t there = tokn_add(&d, "there", TOKN_NORMAL, 0), e = tokn_add(&d, "e", TOKN_NORMAL, 0);
  uint32_t accent = tokn_add(&d, "\xc3\xa9", TOKN_NORMAL, 0),
           unk = tokn_add(&d, "<unk>", TOKN_UNKNOWN, 0);
  tokn_add(&d, "the", TOKN_NORMAL, 0); /* a duplicate: the lowest token is used */
  tokn_add(&d, "", TOKN_NORMAL, 0);
  tokn_tokenizer without_unknown = tokn_open(&d);
  d.unk = unk;
  tokn_tokenizer with_unknown = tokn_open(&d);
  uint32_t newline = tokn_add(&d, "\n", TOKN_BYTE, 0);
  tokn_add(&d, "\n", TOKN_BYTE, 0);
  tokn_tokenizer byte = tokn_open(&d);
  REQUIRE(without_unknown.t && with_unknown.t && byte.t);
  CHECK_PLAIN(with_unknown.t, "there", there);
  CHECK_PLAIN(with_unknown.t, "thee", the, e);
  CHECK_PLAIN(with_unknown.t, "therthe", the, unk, the);
  CHECK_PLAIN(with_unknown.t, "tth\xc3\xa9", unk, th, accent);
  CHECK_PLAIN(with_unknown.t,
              "\xe4\xbb\x8a"
              "e",
              unk, e); /* a character, not its bytes */
  CHECK_PLAIN(with_unknown.t,
              "\xff\xc3"
              "e",
              unk, unk, e);
  CHECK_PLAIN(without_unknown.t, "x the\ne", the, e);
  CHECK_PLAIN(byte.t, "e\nx", e, newline, unk);
  CHECK_PARSED(with_unknown.t, "<unk>e", unk, e);
  CHECK_NO_IDS(with_unknown.t, "");
  tokn_close(&without_unknown);
  tokn_close(&with_unknown);
  tokn_close(&byte);
}

/* --- programs that split text into words ------------------------------------------------------ */

enum { OTHER = 1, LETTER = 2, NUMBER = 4, SPACE = 8 };
enum { LAST = 1, CUT = 2, SPARE = 4 };

/* Checks the words of a text; `expected` has | between them. */
static void check_program(const bq_tokenizer *t, const char *text, const char *expected) {
  const size_t bytes = strlen(text);
  char actual[200], *to = actual;
  bq_splitter s;
  bq_splitter_begin(&s, t->split, (const uint8_t *)text, bytes);
  for (size_t at = 0, end; at < bytes; at = end) {
    end = bq_splitter_next(&s, at);
    if (at) *to++ = '|';
    memcpy(to, text + at, end - at);
    to += end - at;
  }
  *to = 0;
  CHECK_STR(actual, expected);
}

static void test_split_program(void) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  tokn_item(&d, NUMBER, "_", 2, 3, LAST);              /* two or three numbers, or _ */
  tokn_item(&d, 0, "<", 1, 1, 0);                      /* <letters>, without backtracking */
  tokn_item(&d, LETTER, "z", 0, 0, 0);                 /* z is excluded */
  tokn_item(&d, 0, ">", 1, 1, LAST);
  uint8_t *cut = tokn_item(&d, SPACE, "", 1, 0, CUT | LAST);
  tokn_u32(cut + 24, '\n');
  uint8_t *spare = tokn_item(&d, SPACE, "", 1, 0, SPARE | LAST);
  spare[20] = NUMBER;
  tokn_item(&d, LETTER, "", 0, 0, LAST);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  check_program(o.t, "12345678", "123|456|78");
  check_program(o.t, "1234", "123|4"); /* a single number matches no item: one character */
  check_program(o.t, "1_2_", "1_2|_");
  check_program(o.t, "<ab><>", "<ab>|<>");
  check_program(o.t, "<ab<az>", "<|ab|<|az|>");
  check_program(o.t, " \n  \n  a", " \n  \n| | |a");
  check_program(o.t, "   a", "  | |a");
  check_program(o.t, "   1", "   |1");
  check_program(o.t, "   ", "   ");
  check_program(o.t, "a\xff\xc3\xa9" "b\xe2\x82", "a|\xff|\xc3\xa9" "b|\xe2|\x82");
  tokn_close(&o);
}

/* Letters up to a line break that the text lacks: a splitter that measured runs for every word
 * would read 300,000 x 300,000 / 2 characters. */
static void test_split_reads_a_text_once(void) {
  enum { LONG = 300000 };
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  tokn_item(&d, LETTER, "", 1, 0, 0);
  tokn_item(&d, 0, "\n", 1, 1, LAST);
  tokn_u32(tokn_item(&d, LETTER, "", 1, 0, CUT | LAST) + 24, '\n');
  tokn_item(&d, LETTER, "", 1, 1, LAST);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  char *text = malloc(LONG);
  memset(text, 'a', LONG);
  bq_splitter s;
  bq_splitter_begin(&s, o.t->split, (const uint8_t *)text, LONG);
  for (size_t at = 0; at < LONG && !check_state.failures; at++)
    CHECK_EQ(bq_splitter_next(&s, at), at + 1);
  free(text);
  tokn_close(&o);
}

/* --- trie ----------------------------------------------------------------------------------- */

static void test_trie(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  uint32_t b = tokn_add(&d, "b", TOKN_NORMAL, 0), the = tokn_add(&d, "the", TOKN_NORMAL, 0);
  uint32_t byte = tokn_add(&d, "b", TOKN_BYTE, 0), user = tokn_add(&d, "then", TOKN_USER, 0);
  tokn_add(&d, "", TOKN_NORMAL, 0);
  tokn_add(&d, "</s>", TOKN_CONTROL, 0);
  tokn_add(&d, "th", TOKN_UNUSED, 0);
  tokn_add(&d, "to", TOKN_UNKNOWN, 0);
  uint32_t duplicate = tokn_add(&d, "the", TOKN_NORMAL, 0);
  tokn_tokenizer o = tokn_open(&d);
  REQUIRE(o.t);
  tokn_trie built = tokn_trie_of(o.t);
  const bq_trie *trie = &built.trie;
  CHECK_EQ(trie->tokens, 5);
  CHECK_EQ(trie->nodes, 6); /* root, b, t, th, the, then */
  uint32_t at_b = bq_trie_child(trie, 0, 'b'), t = bq_trie_child(trie, 0, 't');
  uint32_t e = bq_trie_child(trie, bq_trie_child(trie, t, 'h'), 'e');
  CHECK_EQ(trie->first[at_b + 1] - trie->first[at_b], 2);
  CHECK_EQ(trie->ids[trie->first[at_b]], b);
  CHECK_EQ(trie->ids[trie->first[at_b] + 1], byte);
  CHECK_EQ(trie->first[t + 1] - trie->first[t], 0);
  CHECK_EQ(trie->ids[trie->first[e]], the);
  CHECK_EQ(trie->ids[trie->first[e] + 1], duplicate);
  CHECK_EQ(trie->ids[trie->first[bq_trie_child(trie, e, 'n')]], user);
  CHECK_EQ(bq_trie_child(trie, e, 'm'), 0);
  CHECK_EQ(bq_trie_child(trie, at_b, 't'), 0);
  CHECK_EQ(bq_trie_child(trie, 0, 'z'), 0);
  tokn_trie_free(&built);
  tokn_close(&o);
  d = tokn_new(BQ_TOKENIZER_SPM);
  tokn_add(&d, "</s>", TOKN_CONTROL, 0);
  o = tokn_open(&d);
  built = tokn_trie_of(o.t);
  CHECK_EQ(built.trie.nodes, 1);
  CHECK_EQ(built.trie.end[0], 1);
  CHECK_EQ(bq_trie_child(&built.trie, 0, 0), 0);
  tokn_trie_free(&built);
  tokn_close(&o);
}

int main(void) {
  RUN(test_spm_merges_by_score);
  RUN(test_spm_ties);
  RUN(test_spm_space_in_front);
  RUN(test_spm_merges_only_text_tokens);
  RUN(test_spm_across_words);
  RUN(test_spm_unknown);
  RUN(test_spm_byte_fallback);
  RUN(test_special_tokens);
  RUN(test_special_tokens_overlap);
  RUN(test_bos_and_eos);
  RUN(test_capacity);
  RUN(test_plain_ranges);
  RUN(test_gpt2_words);
  RUN(test_bpe_merges_by_rank);
  RUN(test_bpe_never_merges_into_control);
  RUN(test_bpe_ignore_merges);
  RUN(test_bpe_missing_bytes);
  RUN(test_bpe_against_simple_merging);
  RUN(test_spm_against_simple_merging);
  RUN(test_repeated_words);
  RUN(test_classes_of_characters);
  RUN(test_long_words);
  RUN(test_unigram_ties);
  RUN(test_wordlist);
  RUN(test_split_program);
  RUN(test_split_reads_a_text_once);
  RUN(test_trie);
  return check_summary();
}
