/* Grammars and their matcher: masks against every token tried by itself; limits; bad grammars. */
#include "grammar/matcher.h"
#include "grammar/unique.h"
#include "grammars.h"
#include "random.h"
#include "tokn.h"

/* --- a vocabulary and a matcher over it ------------------------------------------------------ */

typedef struct vocabulary {
  tokn_open tokenizer;
  uint32_t *ids, *spare;
  void *memory;
  bq_vocabulary v;
} vocabulary;

static vocabulary open_vocabulary(void) {
  static tokn d;
  d = tokn_new(BQ_TOKENIZER_WORDLIST);
  const char *texts[] = {"ab",         "abc",  "abcdefgh", "a\"",      "\",",
                         "\"}",        "{\"",  "((",       "()",       "))",
                         ")(",         "12",   "a1",       "\xc3\xa9", "\xc3\xa9\xc3\xa9",
                         "\xc3\xa9\"", "\xc3", "x\xc3",    "\\n",      "b\\\"",
                         "\n\n",
                         /* far ones, plain and not */
                         "abcdefghabcdefghabcdefgh", "aaaaaaaaaaaaaaaaaaaa\"",
                         "aaaaaaaa\\naaaaaaaa\"", "\n                \n"};
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) tokn_add(&d, texts[i], TOKN_NORMAL, 0);
  tokn_add(&d, "<end>", TOKN_CONTROL, 0);
  vocabulary o = {.tokenizer = tokn_opened(&d)};
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

typedef struct matching {
  uint8_t *bytes;
  bq_grammar g;
  void *memory;
  bq_matcher *m;
} matching;

/* Fills *o: a matcher points to its grammar. */
static void open_matching(matching *o, const vocabulary *v, const grammars *d) {
  size_t n;
  o->bytes = grammars_write(d, 0, &n);
  CHECK_EQ(bq_grammar_read(o->bytes, n, &o->g, NULL), BQ_OK);
  bq_arena arena = {0};
  bq_matcher_create(&o->g, &v->v, &arena, &o->m);
  arena = (bq_arena){.base = o->memory = aligned_alloc(BQ_ALIGN, arena.used), .size = arena.used};
  bq_matcher_create(&o->g, &v->v, &arena, &o->m);
  CHECK(!arena.overflow && arena.used == arena.size);
}

static void close_matching(matching *o) {
  free(o->bytes);
  free(o->memory);
}

static bool in_mask(const uint32_t *mask, uint32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* --- grammars -------------------------------------------------------------------------------- */

/* "…" of min to max characters: plain ones and \n, \". */
static grammars quoted(uint32_t min, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  uint32_t a = grammars_state(&d, min + 2, false), b = grammars_state(&d, min + 1, false);
  uint32_t c = grammars_state(&d, 1, false), end = grammars_state(&d, 0, true);
  uint32_t rule = grammars_rule(&d, true);
  uint32_t s = grammars_state(&d, 1, false), two = grammars_state(&d, 1, false);
  uint32_t escape = grammars_state(&d, 1, false), done = grammars_state(&d, 0, true);
  grammars_edge(&d, a, '"', '"', b);
  grammars_call(&d, b, rule, min, max, c);
  grammars_edge(&d, c, '"', '"', end);
  grammars_edge(&d, s, 0x20, 0x21, done);
  grammars_edge(&d, s, 0x23, 0x5b, done);
  grammars_edge(&d, s, 0x5d, 0x7f, done);
  grammars_edge(&d, s, 0xc3, 0xc3, two); /* of the others the vocabulary has none whole */
  grammars_edge(&d, two, 0x80, 0xbf, done);
  grammars_edge(&d, s, '\\', '\\', escape);
  grammars_edge(&d, escape, 'n', 'n', done);
  grammars_edge(&d, escape, '"', '"', done);
  return d;
}

/* A list of different strings in quotes: from `low` to b, at most so many characters. */
static grammars different(uint8_t low, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  const uint32_t a = grammars_state(&d, 2, BQ_STATE_LIST), b = grammars_state(&d, 1, 0);
  const uint32_t c = grammars_state(&d, 1, BQ_STATE_SHUT);
  const uint32_t end = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t item = grammars_rule(&d, false);
  const uint32_t open = grammars_state(&d, 2, BQ_STATE_OPEN), in = grammars_state(&d, 1, 0);
  const uint32_t close = grammars_state(&d, 1, BQ_STATE_CLOSE);
  const uint32_t behind = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t more = grammars_rule(&d, false);
  const uint32_t comma = grammars_state(&d, 3, 0), next = grammars_state(&d, 2, 0);
  const uint32_t done = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t letter = grammars_rule(&d, false);
  const uint32_t l = grammars_state(&d, 1, 0), m = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  grammars_edge(&d, a, '[', '[', b);
  grammars_call(&d, b, item, 0, 1, c);
  grammars_call(&d, b, item, 1, 1, done);
  grammars_call(&d, done, more, 0, BQ_GRAMMAR_NONE, c);
  d.flags[done] = 0;
  d.least[done] = 1;
  grammars_edge(&d, c, ']', ']', end);
  grammars_edge(&d, open, '"', '"', in);
  grammars_call(&d, in, letter, 0, max, close);
  grammars_edge(&d, close, '"', '"', behind);
  grammars_edge(&d, comma, ',', ',', next);
  grammars_call(&d, next, item, 1, 1, behind);
  grammars_edge(&d, l, low, 'b', m);
  return d;
}

/* "…" of letters, each é and [ of which is followed by a ], of min to max characters. */
static grammars measured(uint32_t min, uint32_t max) {
  grammars d = {0};
  grammars_rule(&d, false);
  const uint32_t a = grammars_state(&d, min + 2, 0), b = grammars_state(&d, min + 1, 0);
  const uint32_t c = grammars_state(&d, 1, 0), end = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t rule = grammars_rule(&d, false);
  const uint32_t s = grammars_state(&d, 0, BQ_STATE_ACCEPTS);
  const uint32_t two = grammars_state(&d, 2, 1 << 8), open = grammars_state(&d, 1, 1 << 8);
  d.rules[rule].flags = BQ_GRAMMAR_LENGTH;
  grammars_edge(&d, a, '"', '"', b);
  grammars_call(&d, b, rule, min, max, c);
  grammars_edge(&d, c, '"', '"', end);
  grammars_begin(&d, s, 'a', 'z', s);
  grammars_begin(&d, s, 0xc3, 0xc3, two);
  grammars_edge(&d, two, 0x80, 0xbf, open);
  grammars_begin(&d, s, '[', '[', open);
  grammars_begin(&d, open, 'a', 'z', open);
  grammars_begin(&d, open, ']', ']', s);
  return d;
}

/* S = "(" S ")" S | nothing, or what it has instead. */
static grammars nested(bool left) {
  grammars d = {0};
  const uint32_t rule = grammars_rule(&d, false);
  uint32_t a = grammars_state(&d, 0, true), b = grammars_state(&d, 1, false);
  uint32_t c = grammars_state(&d, 1, false), e = grammars_state(&d, 0, false);
  uint32_t end = grammars_state(&d, 0, true);
  grammars_edge(&d, a, '(', '(', b);
  if (left) grammars_call(&d, a, rule, 1, 1, c);
  grammars_call(&d, b, rule, 1, 1, c);
  grammars_edge(&d, c, ')', ')', e);
  grammars_call(&d, e, rule, 1, 1, end);
  return d;
}

/* --- tests ----------------------------------------------------------------------------------- */

/* Walks at random; at each step each token is in the mask exactly if it is accepted by itself. */
static void check_masks(const vocabulary *v, const grammars *d, uint64_t seed) {
  matching o;
  open_matching(&o, v, d);
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
  close_matching(&o);
}

static void test_masks(void) {
  vocabulary v = open_vocabulary();
  const uint32_t limits[][2] = {{0, BQ_GRAMMAR_NONE}, {0, 3},   {2, 2},
                                {0, 40},              {5, 30},  {20, BQ_GRAMMAR_NONE},
                                {0, 200},             {24, 24}, {18, 21}};
  for (uint64_t seed = 1; seed < 5; seed++) {
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
      grammars d = quoted(limits[i][0], limits[i][1]);
      check_masks(&v, &d, seed);
      d = measured(limits[i][0], limits[i][1]);
      check_masks(&v, &d, seed);
    }
    grammars d = nested(false);
    check_masks(&v, &d, seed);
  }
  close_vocabulary(&v);
}

/* So many steps that their number begins anew, at 2^32. */
static void test_many_steps(void) {
  vocabulary v = open_vocabulary();
  grammars d = quoted(0, 1 << 20);
  matching o;
  open_matching(&o, &v, &d);
  REQUIRE(bq_matcher_accept(o.m, '"', NULL) == BQ_OK);
  for (uint32_t i = 0; i < 600000; i++) REQUIRE(bq_matcher_accept(o.m, 'a', NULL) == BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '\n', NULL), BQ_ARGUMENT);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_OK);
  CHECK(bq_matcher_complete(o.m));
  close_matching(&o);
  close_vocabulary(&v);
}

/* Items so short that they repeat soon, and can't go on where nothing else is left. */
static void test_lists(void) {
  vocabulary v = open_vocabulary();
  for (uint64_t seed = 1; seed < 9; seed++) {
    grammars d = different('b', BQ_GRAMMAR_NONE);
    check_masks(&v, &d, seed);
    d = different('a', BQ_GRAMMAR_NONE);
    check_masks(&v, &d, seed);
    d = different('A', 2);
    check_masks(&v, &d, seed);
  }
  grammars d = different('a', BQ_GRAMMAR_NONE);
  matching o;
  open_matching(&o, &v, &d);
  for (const char *c = "[\"a\",\"b\",\"a"; *c; c++)
    REQUIRE(bq_matcher_accept(o.m, (uint8_t)*c, NULL) == BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_ARGUMENT);
  uint8_t end[16];
  size_t n;
  CHECK_EQ(bq_matcher_shortest(o.m, end, sizeof end, &n, NULL), BQ_OK);
  CHECK(n == 3 && memcmp(end, "a\"]", 3) == 0);
  CHECK_EQ(bq_matcher_accept(o.m, 'a', NULL), BQ_OK);
  CHECK_EQ(bq_matcher_accept(o.m, '"', NULL), BQ_OK);
  close_matching(&o);
  close_vocabulary(&v);
}

static void test_forced(void) {
  vocabulary v = open_vocabulary();
  grammars d = {0};
  grammars_rule(&d, false);
  const char *text = "abcd";
  for (uint32_t i = 0; i < 5; i++) grammars_state(&d, 4 - i, i == 4);
  for (uint32_t i = 0; i < 4; i++) grammars_edge(&d, i, (uint8_t)text[i], (uint8_t)text[i], i + 1);
  grammars_edge(&d, 4, '1', '2', 4);
  matching o;
  open_matching(&o, &v, &d);
  uint8_t out[16];
  size_t n;
  bool extends;
  CHECK_EQ(bq_matcher_forced(o.m, out, sizeof out, &n, NULL), BQ_OK);
  CHECK(n == 4 && memcmp(out, text, 4) == 0);
  CHECK_EQ(bq_matcher_extends(o.m, (const uint8_t *)"d", 1, &extends, NULL), BQ_OK);
  CHECK(!extends); /* no token has d and a digit */
  CHECK_EQ(bq_matcher_forced(o.m, out, 2, &n, NULL), BQ_OK);
  CHECK_EQ(n, 2);
  CHECK_EQ(bq_matcher_extends(o.m, (const uint8_t *)"ab", 2, &extends, NULL), BQ_OK);
  CHECK(extends); /* abc */
  CHECK_EQ(bq_matcher_accept(o.m, 'b', NULL), BQ_ARGUMENT);
  CHECK(!bq_matcher_complete(o.m) && bq_matcher_continues(o.m));
  for (size_t i = 0; i < 4; i++) CHECK_EQ(bq_matcher_accept(o.m, (uint8_t)text[i], NULL), BQ_OK);
  CHECK(bq_matcher_complete(o.m) && bq_matcher_continues(o.m));
  CHECK_EQ(bq_matcher_begin(o.m, NULL), BQ_OK);
  CHECK(!bq_matcher_complete(o.m));
  close_matching(&o);
  close_vocabulary(&v);
}

/* Whether a list's text may be written, whose items have to differ. */
static bool differ(const char *text) {
  static bq_unique_node nodes[BQ_UNIQUE_NODES];
  bq_unique u = {0};
  for (; *text; text++) {
    const uint32_t marks = *text == '[' ? BQ_STATE_LIST : *text == '"' ? BQ_STATE_OPEN : 0;
    if (!bq_unique_step(&u, nodes, marks, (uint8_t)*text)) return false;
  }
  return true;
}

static void test_escapes_in_items(void) {
  CHECK(differ("[\"a\",\"b\"]"));
  CHECK(!differ("[\"a\",\"a\"]"));
  CHECK(!differ("[\"\\\\\",\"a\",\"a\"]")); /* the second backslash escapes no quote */
  CHECK(!differ("[\"\\\\\",\"\\\\\"]"));
  CHECK(differ("[\"\\\"\",\"a\"]"));
  CHECK(!differ("[\"\\\"\",\"a\",\"\\\"\"]"));
}

/* Bytes beside each other are an edge, others are several. */
static void test_not_forced(void) {
  vocabulary v = open_vocabulary();
  grammars d = {0};
  grammars_rule(&d, false);
  for (uint32_t i = 0; i < 3; i++) grammars_state(&d, 2 - i, i == 2);
  grammars_edge(&d, 0, 'a', 'a', 1);
  grammars_edge(&d, 1, 'b', 'b', 2);
  grammars_edge(&d, 1, 'd', 'd', 2);
  matching o;
  open_matching(&o, &v, &d);
  uint8_t out[16];
  size_t n;
  CHECK_EQ(bq_matcher_forced(o.m, out, sizeof out, &n, NULL), BQ_OK);
  CHECK(n == 1 && out[0] == 'a');
  close_matching(&o);
  close_vocabulary(&v);
}

/* Calls without end, and calls deeper than there is room for. */
static void test_limits(void) {
  vocabulary v = open_vocabulary();
  grammars d = nested(true);
  matching o;
  open_matching(&o, &v, &d);
  bq_error err = {0};
  CHECK_EQ(bq_matcher_begin(o.m, &err), BQ_NOMEM);
  CHECK_STR(err.detail, "the grammar has too many ways open at once, or calls too deep");
  close_matching(&o);
  d = nested(false);
  open_matching(&o, &v, &d);
  bq_status status = BQ_OK;
  uint32_t deep = 0;
  while (status == BQ_OK && deep < 1 << 20) {
    status = bq_matcher_accept(o.m, '(', &err);
    deep += status == BQ_OK;
  }
  CHECK_EQ(status, BQ_NOMEM);
  CHECK(deep > 10000);
  for (uint32_t i = 0; i < deep; i++) REQUIRE(bq_matcher_accept(o.m, ')', NULL) == BQ_OK);
  CHECK(bq_matcher_complete(o.m));
  CHECK_EQ(bq_matcher_accept(o.m, ')', NULL), BQ_ARGUMENT);
  close_matching(&o);
  close_vocabulary(&v);
}

static void test_bad_grammars(void) {
  grammars d = quoted(0, 3);
  size_t n;
  uint8_t *bytes = grammars_write(&d, 0, &n);
  bq_grammar g;
  bq_error err;
  CHECK_EQ(bq_grammar_read(bytes, n, &g, &err), BQ_OK);
  for (size_t short_by = 1; short_by <= n; short_by++)
    CHECK(bq_grammar_read(bytes, n - short_by, &g, &err) != BQ_OK);
  /* Every number made too large is found, but for a limit of calls. */
  const size_t most_times = n - 8;
  for (size_t at = 0; at + 4 <= n; at += 4) {
    uint8_t kept[4];
    memcpy(kept, bytes + at, 4);
    memcpy(bytes + at, "\xfe\xff\xff\xff", 4);
    CHECK_EQ(bq_grammar_read(bytes, n, &g, &err) != BQ_OK, at != most_times);
    memcpy(bytes + at, kept, 4);
  }
  free(bytes);
}

int main(void) {
  RUN(test_masks);
  RUN(test_many_steps);
  RUN(test_lists);
  RUN(test_forced);
  RUN(test_not_forced);
  RUN(test_escapes_in_items);
  RUN(test_limits);
  RUN(test_bad_grammars);
  return check_summary();
}
