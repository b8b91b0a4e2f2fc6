/* Grammars and their matcher: each mask agrees with trying every token; limits; invalid
 * grammars. */
#include "grammar/matcher.h"
#include "grammar/unique.h"
#include "grammars.h"
#include "random.h"
#include "tokn.h"

/* --- a vocabulary and a matcher over it ------------------------------------------------------ */

typedef struct vocabulary {
  tokn_tokenizer tokenizer;
  uint32_t *ids, *spare;
  void *memory;
  bq_vocabulary v;
} vocabulary;

static vocabulary open_vocabulary(void) {
  static tokn d;
  d = tokn_new(BQ_TOKENIZER_WORDLIST);
  const char *texts[] = {"ab", "abc", "abcdefgh", "a\"", "\",", "\"}", "{\"", "((", "()", "))",
                         ")(", "12", "a1", "\xc3\xa9", "\xc3\xa9\xc3\xa9", "\xc3\xa9\"", "\xc3",
                         "x\xc3", "\\n", "b\\\"", "\n\n",
                         /* Long tokens, with and without special characters. */
                         "abcdefghabcdefghabcdefgh", "aaaaaaaaaaaaaaaaaaaa\"",
                         "aaaaaaaa\\naaaaaaaa\"", "\n                \n"};
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tokn_add(&d, texts[i], TOKN_NORMAL, 0);
  tokn_add(&d, "<end>", TOKN_CONTROL, 0);
  vocabulary o = {.tokenizer = tokn_open(&d)};
  o.ids = malloc(d.n_tokens * sizeof *o.ids);
  o.spare = malloc(d.n_tokens * sizeof *o.spare);
  bq_vocabulary_sort(o.tokenizer.t, d.n_tokens + 40, o.ids, o.spare, &o.v);
  bq_arena arena = {0};
  bq_vocabulary_build(&o.v, &arena);
  arena = (bq_arena){.base = o.memory = aligned_alloc(BQ_ALIGN, arena.used), .size = arena.used};
  bq_vocabulary_build(&o.v, &arena);
  CHECK(!arena.overflow && arena.used == arena.size);
  return o;
}

static void close_vocabulary(vocabulary *o) {
  tokn_close(&o->tokenizer);
  free(o->ids);
  free(o->spare);
  free(o->memory);
}

typedef struct open_grammar {
  uint8_t *bytes;
  bq_grammar g;
  void *memory;
  bq_matcher *m;
} open_grammar;

/* Fills *o in place, since a matcher points to its grammar. */
static void create_matcher(open_grammar *o, const vocabulary *v, const grammars *d) {
  size_t n;
  o->bytes = grammars_write(d, 0, &n);
  CHECK_EQ(bq_grammar_read(o->bytes, n, &o->g, NULL), BQ_OK);
  bq_arena arena = {0};
  bq_matcher_create(&o->g, &v->v, &arena, &o->m);
  arena = (bq_arena){.base = o->memory = aligned_alloc(BQ_ALIGN, arena.used), .size = arena.used};
  bq_matcher_create(&o->g, &v->v, &arena, &o->m);
  CHECK(!arena.overflow && arena.used == arena.size);
}

static void free_matcher(open_grammar *o) {
  free(o->bytes);
  free(o->memory);
}

static bool in_mask(const uint32_t *mask, uint32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* --- grammars -------------------------------------------------------------------------------- */

/* A string of min to max characters in quotes: printable ones, \n and \". */
static grammars quoted_string(uint32_t min, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  uint32_t a = grammars_state(&d, min + 2, false), b = grammars_state(&d, min + 1, false);
  uint32_t c = grammars_state(&d, 1, false), end = grammars_state(&d, 0, true);
  uint32_t rule = grammars_rule(&d, true);
  uint32_t s = grammars_state(&d, 1, false), lead_byte = grammars_state(&d, 1, false);
  uint32_t escape = grammars_state(&d, 1, false), end_of_rule = grammars_state(&d, 0, true);
  grammars_edge(&d, a, '"', '"', b);
  grammars_call(&d, b, rule, min, max, c);
  grammars_edge(&d, c, '"', '"', end);
  grammars_edge(&d, s, 0x20, 0x21, end_of_rule);
  grammars_edge(&d, s, 0x23, 0x5b, end_of_rule);
  grammars_edge(&d, s, 0x5d, 0x7f, end_of_rule);
  grammars_edge(&d, s, 0xc3, 0xc3, lead_byte); /* The vocabulary has no other characters. */
  grammars_edge(&d, lead_byte, 0x80, 0xbf, end_of_rule);
  grammars_edge(&d, s, '\\', '\\', escape);
  grammars_edge(&d, escape, 'n', 'n', end_of_rule);
  grammars_edge(&d, escape, '"', '"', end_of_rule);
  return d;
}

/* A list of different strings in quotes with at most `max` letters from `low` to b. */
static grammars unique_list(uint8_t low, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  const uint32_t a = grammars_state(&d, 2, BQ_STATE_LIST), b = grammars_state(&d, 1, 0);
  const uint32_t c = grammars_state(&d, 1, BQ_STATE_SHUT);
  const uint32_t end = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t item = grammars_rule(&d, false);
  const uint32_t open = grammars_state(&d, 2, BQ_STATE_OPEN), contents = grammars_state(&d, 1, 0);
  const uint32_t close = grammars_state(&d, 1, BQ_STATE_CLOSE);
  const uint32_t end_of_item = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t more_items = grammars_rule(&d, false);
  const uint32_t comma = grammars_state(&d, 3, 0), next_item = grammars_state(&d, 2, 0);
  const uint32_t end_of_rule = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t letter = grammars_rule(&d, false);
  const uint32_t l = grammars_state(&d, 1, 0), m = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  grammars_edge(&d, a, '[', '[', b);
  grammars_call(&d, b, item, 0, 1, c);
  grammars_call(&d, b, item, 1, 1, end_of_rule);
  grammars_call(&d, end_of_rule, more_items, 0, BQ_GRAMMAR_NONE, c);
  d.flags[end_of_rule] = 0;
  d.least[end_of_rule] = 1;
  grammars_edge(&d, c, ']', ']', end);
  grammars_edge(&d, open, '"', '"', contents);
  grammars_call(&d, contents, letter, 0, max, close);
  grammars_edge(&d, close, '"', '"', end_of_item);
  grammars_edge(&d, comma, ',', ',', next_item);
  grammars_call(&d, next_item, item, 1, 1, end_of_item);
  grammars_edge(&d, l, low, 'b', m);
  return d;
}

/* A string of min to max characters in quotes: letters, and a ] after each é and [. */
static grammars string_with_length(uint32_t min, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  const uint32_t a = grammars_state(&d, min + 2, 0), b = grammars_state(&d, min + 1, 0);
  const uint32_t c = grammars_state(&d, 1, 0), end = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t rule = grammars_rule(&d, false);
  const uint32_t s = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t lead_byte = grammars_state(&d, 2, 1 << 8), open = grammars_state(&d, 1, 1 << 8);
  d.rules[rule].flags = BQ_GRAMMAR_LENGTH;
  grammars_edge(&d, a, '"', '"', b);
  grammars_call(&d, b, rule, min, max, c);
  grammars_edge(&d, c, '"', '"', end);
  grammars_begin(&d, s, 'a', 'z', s);
  grammars_begin(&d, s, 0xc3, 0xc3, lead_byte);
  grammars_edge(&d, lead_byte, 0x80, 0xbf, open);
  grammars_begin(&d, s, '[', '[', open);
  grammars_begin(&d, open, 'a', 'z', open);
  grammars_begin(&d, open, ']', ']', s);
  return d;
}

/* S = "(" S ")" S | nothing, or a left-recursive form of it. */
static grammars nested_parentheses(bool left_recursive) {
  grammars d = {0};
  const uint32_t rule = grammars_rule(&d, false);
  uint32_t a = grammars_state(&d, 0, true), b = grammars_state(&d, 1, false);
  uint32_t c = grammars_state(&d, 1, false), e = grammars_state(&d, 0, false);
  uint32_t end = grammars_state(&d, 0, true);
  grammars_edge(&d, a, '(', '(', b);
  if (left_recursive) grammars_call(&d, a, rule, 1, 1, c);
  grammars_call(&d, b, rule, 1, 1, c);
  grammars_edge(&d, c, ')', ')', e);
  grammars_call(&d, e, rule, 1, 1, end);
  return d;
}

/* --- tests ----------------------------------------------------------------------------------- */

/* Accepts random tokens; at each step, a token is in the mask exactly if the matcher accepts it. */
static void check_masks(const vocabulary *v, const grammars *d, uint64_t seed) {
  open_grammar o;
  create_matcher(&o, v, d);
  for (int step = 0; step < 60 && bq_matcher_continues(o.m); step++) {
    const uint32_t *mask;
    uint32_t allowed[400], n = 0, tokens = bq_tokenizer_info_get(v->tokenizer.t).tokens;
    REQUIRE(bq_matcher_mask(o.m, &mask, NULL) == BQ_OK);
    uint32_t copy[16];
    REQUIRE(v->v.words <= 16);
    memcpy(copy, mask, v->v.words * sizeof *mask);
    bq_matcher_mark(o.m);
    for (uint32_t id = 0; id < tokens; id++) {
      const bool accepted = bq_matcher_accept(o.m, id, NULL) == BQ_OK;
      bq_matcher_return(o.m);
      CHECK_EQ(in_mask(copy, id), accepted);
      if (accepted) allowed[n++] = id;
    }
    REQUIRE(n > 0);
    uint8_t end[256];
    size_t bytes;
    CHECK_EQ(bq_matcher_shortest(o.m, end, sizeof end, &bytes, NULL), BQ_OK);
    CHECK(o.g.lists ? bytes <= bq_matcher_least(o.m) : bytes == bq_matcher_least(o.m));
    CHECK_EQ(bq_matcher_accept(o.m, allowed[random_bits(&seed) % n], NULL), BQ_OK);
  }
  free_matcher(&o);
}

static void test_masks(void) {
  vocabulary v = open_vocabulary();
  const uint32_t limits[][2] = {{0, BQ_GRAMMAR_NONE}, {0, 3},   {2, 2},
                                {0, 40},              {5, 30},  {20, BQ_GRAMMAR_NONE},
                                {0, 200},             {24, 24}, {18, 21}};
  for (uint64_t seed = 1; seed < 5; seed++) {
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
      grammars d = quoted_string(limits[i][0], limits[i][1]);
      check_masks(&v, &d, seed);
      d = string_with_length(limits[i][0], limits[i][1]);
      check_masks(&v, &d, seed);
    }
    grammars d = nested_parentheses(false);
    check_masks(&v, &d, seed);
  }
  close_vocabulary(&v);
}

/* The step counter starts again at 2^32. */
static void test_step_counter_overflow(void) {
  vocabulary v = open_vocabulary();
  grammars d = quoted_string(0, 1 << 20);
  open_grammar o;
  create_matcher(&o, &v, &d);
  REQUIRE(bq_matcher_accept(o.m, '"', NULL) == BQ_OK);
  for (uint32_t i = 0; i < 600000; i++) REQUIRE(bq_matcher_accept(o.m, 'a', NULL) == BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '\n', NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_OK);
  CHECK(bq_matcher_complete(o.m));
  free_matcher(&o);
  close_vocabulary(&v);
}

/* Items so short that the list ends once all of them are used. */
static void test_lists_of_unique_items(void) {
  vocabulary v = open_vocabulary();
  for (uint64_t seed = 1; seed < 9; seed++) {
    grammars d = unique_list('b', BQ_GRAMMAR_NONE);
    check_masks(&v, &d, seed);
    d = unique_list('a', BQ_GRAMMAR_NONE);
    check_masks(&v, &d, seed);
    d = unique_list('A', 2);
    check_masks(&v, &d, seed);
  }
  grammars d = unique_list('a', BQ_GRAMMAR_NONE);
  open_grammar o;
  create_matcher(&o, &v, &d);
  for (const char *c = "[\"a\",\"b\",\"a"; *c; c++)
    REQUIRE(bq_matcher_accept(o.m, (uint8_t)*c, NULL) == BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_ARGUMENT);
  uint8_t end[16];
  size_t n;
  CHECK_EQ(bq_matcher_shortest(o.m, end, sizeof end, &n, NULL), BQ_OK);
  CHECK(n == 3 && memcmp(end, "a\"]", 3) == 0);
  CHECK_EQ(bq_matcher_accept(o.m, 'a', NULL), BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_OK);
  free_matcher(&o);
  close_vocabulary(&v);
}

static void test_forced_bytes(void) {
  vocabulary v = open_vocabulary();
  grammars d = {0};
  grammars_rule(&d, false);
  const char *text = "abcd";
  for (uint32_t i = 0; i < 5; i++) grammars_state(&d, 4 - i, i == 4);
  for (uint32_t i = 0; i < 4; i++) grammars_edge(&d, i, (uint8_t)text[i], (uint8_t)text[i], i + 1);
  grammars_edge(&d, 4, '1', '2', 4);
  open_grammar o;
  create_matcher(&o, &v, &d);
  uint8_t out[16];
  size_t n;
  bool extends;
  CHECK_EQ(bq_matcher_forced(o.m, out, sizeof out, &n, NULL), BQ_OK);
  CHECK(n == 4 && memcmp(out, text, 4) == 0);
  CHECK_EQ(bq_matcher_extends(o.m, (const uint8_t *)"d", 1, &extends, NULL), BQ_OK);
  CHECK(!extends); /* No token consists of d and a digit. */
  CHECK_EQ(bq_matcher_forced(o.m, out, 2, &n, NULL), BQ_OK);
  CHECK_EQ(n, 2);
  CHECK_EQ(bq_matcher_extends(o.m, (const uint8_t *)"ab", 2, &extends, NULL), BQ_OK);
  CHECK(extends); /* by the token abc */
  CHECK_EQ(bq_matcher_accept(o.m, 'b', NULL), BQ_ARGUMENT);
  CHECK(!bq_matcher_complete(o.m) && bq_matcher_continues(o.m));
  for (size_t i = 0; i < 4; i++) CHECK_EQ(bq_matcher_accept(o.m, (uint8_t)text[i], NULL), BQ_OK);
  CHECK(bq_matcher_complete(o.m) && bq_matcher_continues(o.m));
  CHECK_EQ(bq_matcher_begin(o.m, NULL), BQ_OK);
  CHECK(!bq_matcher_complete(o.m));
  free_matcher(&o);
  close_vocabulary(&v);
}

/* Whether the text of a list of unique items is accepted. */
static bool accepts_unique_items(const char *text) {
  static bq_unique_node nodes[BQ_UNIQUE_NODES];
  bq_unique u = {0};
  for (; *text; text++) {
    const uint32_t marks = *text == '[' ? BQ_STATE_LIST : *text == '"' ? BQ_STATE_OPEN : 0;
    if (!bq_unique_step(&u, nodes, marks, (uint8_t)*text)) return false;
  }
  return true;
}

static void test_escapes_in_items(void) {
  CHECK(accepts_unique_items("[\"a\",\"b\"]"));
  CHECK(!accepts_unique_items("[\"a\",\"a\"]"));
  CHECK(!accepts_unique_items(
      "[\"\\\\\",\"a\",\"a\"]")); /* The second backslash does not escape the quote. */
  CHECK(!accepts_unique_items("[\"\\\\\",\"\\\\\"]"));
  CHECK(accepts_unique_items("[\"\\\"\",\"a\"]"));
  CHECK(!accepts_unique_items("[\"\\\"\",\"a\",\"\\\"\"]"));
}

/* After the first byte there are two alternatives. */
static void test_alternatives_are_not_forced(void) {
  vocabulary v = open_vocabulary();
  grammars d = {0};
  grammars_rule(&d, false);
  for (uint32_t i = 0; i < 3; i++) grammars_state(&d, 2 - i, i == 2);
  grammars_edge(&d, 0, 'a', 'a', 1);
  grammars_edge(&d, 1, 'b', 'b', 2);
  grammars_edge(&d, 1, 'd', 'd', 2);
  open_grammar o;
  create_matcher(&o, &v, &d);
  uint8_t out[16];
  size_t n;
  CHECK_EQ(bq_matcher_forced(o.m, out, sizeof out, &n, NULL), BQ_OK);
  CHECK(n == 1 && out[0] == 'a');
  free_matcher(&o);
  close_vocabulary(&v);
}

/* Endless recursion, and calls deeper than the stack. */
static void test_limits(void) {
  vocabulary v = open_vocabulary();
  grammars d = nested_parentheses(true);
  open_grammar o;
  create_matcher(&o, &v, &d);
  bq_error err = {0};
  CHECK_EQ(bq_matcher_begin(o.m, &err), BQ_NOMEM);
  CHECK_STR(err.detail, "the grammar has too many ways open at once, or calls too deep");
  free_matcher(&o);
  d = nested_parentheses(false);
  create_matcher(&o, &v, &d);
  bq_status status = BQ_OK;
  uint32_t depth = 0;
  while (status == BQ_OK && depth < 1 << 20) {
    status = bq_matcher_accept(o.m, '(', &err);
    depth += status == BQ_OK;
  }
  CHECK_EQ(status, BQ_NOMEM);
  CHECK(depth > 10000);
  for (uint32_t i = 0; i < depth; i++) REQUIRE(bq_matcher_accept(o.m, ')', NULL) == BQ_OK);
  CHECK(bq_matcher_complete(o.m));
  CHECK_EQ(bq_matcher_accept(o.m, ')', NULL), BQ_ARGUMENT);
  free_matcher(&o);
  close_vocabulary(&v);
}

static void test_invalid_grammars(void) {
  grammars d = quoted_string(0, 3);
  size_t n;
  uint8_t *bytes = grammars_write(&d, 0, &n);
  bq_grammar g;
  bq_error err;
  CHECK_EQ(bq_grammar_read(bytes, n, &g, &err), BQ_OK);
  for (size_t short_by = 1; short_by <= n; short_by++)
    CHECK(bq_grammar_read(bytes, n - short_by, &g, &err) != BQ_OK);
  /* Every number that is too large is refused, except the maximum number of calls. */
  const size_t max_calls_at = n - 8;
  for (size_t at = 0; at + 4 <= n; at += 4) {
    uint8_t original[4];
    memcpy(original, bytes + at, 4);
    memcpy(bytes + at, "\xfe\xff\xff\xff", 4);
    CHECK_EQ(bq_grammar_read(bytes, n, &g, &err) != BQ_OK, at != max_calls_at);
    memcpy(bytes + at, original, 4);
  }
  free(bytes);
}

int main(void) {
  RUN(test_masks);
  RUN(test_step_counter_overflow);
  RUN(test_lists_of_unique_items);
  RUN(test_forced_bytes);
  RUN(test_alternatives_are_not_forced);
  RUN(test_escapes_in_items);
  RUN(test_limits);
  RUN(test_invalid_grammars);
  return check_summary();
}
