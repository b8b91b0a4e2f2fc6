/* TOKN sections of files: every fault is refused with its offset. Sections are in blocks of their
 * exact size, so that sanitizers find reads past the end. */
#include "random.h"
#include "text/vocab.h"
#include "tokn.h"

enum { FILE_OFFSET = 1000 };

/* A small tokenizer with all parts of a section. */
static tokn create_sample(bq_tokenizer_kind kind) {
  tokn d = tokn_new(kind);
  d.flags = TOKN_ADD_BOS | TOKN_ADD_SPACE | TOKN_FALLBACK;
  d.unk = tokn_add(&d, "<unk>", TOKN_UNKNOWN, 0);
  d.bos = tokn_add(&d, "<s>", TOKN_CONTROL, 0);
  d.eos = d.eog[d.n_eog++] = tokn_add(&d, "</s>", TOKN_CONTROL, 0);
  uint32_t h = tokn_add(&d, "h", TOKN_NORMAL, -1), i = tokn_add(&d, "i", TOKN_NORMAL, -2);
  uint32_t hi = tokn_merge(&d, h, i, TOKN_NORMAL);
  tokn_merge(&d, hi, hi, TOKN_NORMAL);
  tokn_add(&d, " hi", TOKN_NORMAL, -0.5f);
  tokn_add(&d, "\n", TOKN_BYTE, 0);
  tokn_add(&d, "<sep>", TOKN_USER, 0);
  tokn_add(&d, "x", TOKN_UNUSED, 0);
  return d;
}

/* The same with a program that splits text into words: letters, or white space up to a line
 * break. */
static tokn create_sample_with_program(void) {
  tokn d = create_sample(BQ_TOKENIZER_BPE);
  tokn_item(&d, 0, " ", 0, 1, 0);
  tokn_item(&d, 2, "", 1, 0, 1);
  tokn_u32(tokn_item(&d, 8, "", 1, 0, 1 + 2) + 24, '\n');
  return d;
}

/* Reads a section, which either works or is refused with a message and an offset within it. */
static bq_status try_section(const uint8_t *bytes, size_t n, bq_tokenizer_size size,
                             uint64_t *offset) {
  uint8_t *section = malloc(n + !n);
  memcpy(section, bytes, n);
  void *memory = aligned_alloc(BQ_ALIGN, (size_t)bq_tokenizer_memory(size));
  bq_tokenizer *t = NULL;
  bq_error err = {0};
  bq_status status = bq_tokenizer_create(section, n, FILE_OFFSET, size, memory, &t, &err);
  CHECK_EQ(bq_tokenizer_create(section, n, FILE_OFFSET, size, memory, &t, NULL), status);
  if (status == BQ_OK) {
    size_t count;
    free(tokn_ids(t, "hi <s>hihi</s>\n\xff<sep>x", 22, true, true, &count));
    char out[200];
    bq_detokenizer d = {0};
    CHECK(bq_detokenize_limit(t) <= sizeof out);
    for (uint32_t id = 0; id <= size.tokens; id++) bq_detokenize(t, &d, id, out);
  } else {
    CHECK(status == BQ_FORMAT || status == BQ_UNSUPPORTED);
    CHECK(err.status == status && err.detail[0]);
    CHECK(err.offset >= FILE_OFFSET && err.offset <= FILE_OFFSET + n);
  }
  if (offset) *offset = status == BQ_OK ? 0 : err.offset - FILE_OFFSET;
  free(memory);
  free(section);
  return status;
}

static void test_truncation(void) {
  for (int kind = BQ_TOKENIZER_SPM; kind <= BQ_TOKENIZER_WORDLIST; kind++) {
    tokn d = create_sample((bq_tokenizer_kind)kind);
    bq_tokenizer_size size = {d.n_tokens, d.n_merges};
    size_t n;
    uint8_t *section = tokn_write(&d, &n);
    for (size_t length = 0; length < n; length++)
      CHECK_EQ(try_section(section, length, size, NULL), BQ_FORMAT);
    CHECK_EQ(try_section(section, n, size, NULL), BQ_OK);
    section = realloc(section, n + 1);
    section[n] = 0;
    uint64_t at;
    CHECK_EQ(try_section(section, n + 1, size, &at), BQ_FORMAT);
    CHECK_EQ(at, n);
    free(section);
  }
}

/* Every byte set to every value: some sections work, the others are refused. */
static void test_every_byte(void) {
  for (int kind = BQ_TOKENIZER_SPM; kind <= BQ_TOKENIZER_WORDLIST; kind++) {
    tokn d = create_sample((bq_tokenizer_kind)kind);
    size_t n;
    uint8_t *section = tokn_write(&d, &n);
    int n_refused = 0;
    for (size_t at = 0; at < n; at++) {
      uint8_t original = section[at];
      for (unsigned value = 0; value < 256; value++) {
        section[at] = (uint8_t)value;
        n_refused +=
            try_section(section, n, (bq_tokenizer_size){d.n_tokens, d.n_merges}, NULL) != BQ_OK;
      }
      section[at] = original;
    }
    CHECK(n_refused > 1000);
    free(section);
  }
}

/* Checks the status and the offset of the error if one number of a section is wrong. */
static void check_wrong_in(const tokn *d, size_t at, uint32_t value, unsigned bytes,
                           bq_status expected, uint64_t expected_at) {
  size_t n;
  uint8_t *section = tokn_write(d, &n);
  for (unsigned i = 0; i < bytes; i++) section[at + i] = (uint8_t)(value >> 8 * i);
  uint64_t offset = 0;
  bq_status status =
      try_section(section, n, (bq_tokenizer_size){d->n_tokens, d->n_merges}, &offset);
  if (!CHECK_EQ(status, expected) || !CHECK_EQ(offset, expected_at))
    printf("for %u at %zu\n", value, at);
  free(section);
}

static void check_wrong(size_t at, uint32_t value, unsigned bytes, bq_status expected,
                        uint64_t expected_at) {
  static tokn d; /* static, since it is too large for the stack */
  d = create_sample(BQ_TOKENIZER_BPE);
  check_wrong_in(&d, at, value, bytes, expected, expected_at);
}

static void check_program(size_t at, uint32_t value, unsigned bytes, bq_status expected,
                          uint64_t expected_at) {
  static tokn d;
  d = create_sample_with_program();
  check_wrong_in(&d, at, value, bytes, expected, expected_at);
}

static void test_program_fields(void) {
  const size_t first = 52, second = first + 32, third = second + 32;
  check_program(8, 1, 4, BQ_OK, 0);
  check_program(8, 3, 4, BQ_UNSUPPORTED, 8);
  check_program(0, BQ_TOKENIZER_SPM, 4, BQ_UNSUPPORTED,
                8); /* this kind does not split text into words */
  check_program(44, 1, 4, BQ_UNSUPPORTED, 44);              /* normalizer */
  check_program(48, 0, 4, BQ_FORMAT, 48);                   /* items */
  check_program(48, 49, 4, BQ_FORMAT, 48);
  check_program(48, UINT32_MAX, 4, BQ_FORMAT, 48);
  check_program(first, 16, 1, BQ_FORMAT, first); /* classes */
  check_program(first + 1, 2, 1, BQ_FORMAT, first); /* min > max */
  check_program(first + 2, 255, 1, BQ_OK, 0);
  check_program(first + 3, 2, 1, BQ_FORMAT, first); /* CUT with a maximum */
  check_program(first + 4, 0x10ffff, 4, BQ_OK, 0);
  check_program(first + 4, 0x110000, 4, BQ_FORMAT, first);
  check_program(first + 12, 'x', 4, BQ_FORMAT, first);  /* after the last code point */
  check_program(first + 20, 16, 1, BQ_FORMAT, first);
  check_program(first + 21, 1, 1, BQ_FORMAT, first);    /* padding */
  check_program(second + 1, 2, 1, BQ_FORMAT, second);   /* min 2 without a limit */
  check_program(second + 3, 8 + 1, 1, BQ_FORMAT, second); /* flags */
  check_program(third + 1, 0, 1, BQ_FORMAT, third);       /* CUT with minimum 0 */
  check_program(third + 3, 1 + 2 + 4, 1, BQ_FORMAT, third); /* cut and spare */
  check_program(third + 3, 2, 1, BQ_FORMAT, third); /* the last item does not end an alternative */
  tokn d = create_sample_with_program();
  size_t n;
  uint8_t *section = tokn_write(&d, &n);
  for (size_t length = 0; length < n; length++)
    CHECK_EQ(try_section(section, length, (bq_tokenizer_size){d.n_tokens, d.n_merges}, NULL),
             BQ_FORMAT);
  free(section);
}

static void test_fields(void) {
  const tokn d = create_sample(BQ_TOKENIZER_BPE);
  const uint32_t v = d.n_tokens;
  const size_t ends = 48, scores = ends + 4 * v, kinds = scores + 4 * v;
  const size_t merges = kinds + (v + 3) / 4 * 4;
  const size_t text = merges + 12 * d.n_merges, n_entries = text + 30;
  check_wrong(0, 0, 4, BQ_UNSUPPORTED, 0);  /* kinds of tokenizer */
  check_wrong(0, 6, 4, BQ_UNSUPPORTED, 0);
  check_wrong(4, 512, 4, BQ_UNSUPPORTED, 4); /* flags */
  check_wrong(4, 0x80000000u, 4, BQ_UNSUPPORTED, 4);
  check_wrong(8, 3, 4, BQ_UNSUPPORTED, 8);  /* pre-tokenizer */
  for (size_t at = 12; at < 28; at += 4) {  /* bos, eos, unk, pad */
    check_wrong(at, v, 4, BQ_FORMAT, at);
    check_wrong(at, UINT32_MAX - 1, 4, BQ_FORMAT, at);
  }
  check_wrong(28, UINT32_MAX, 4, BQ_FORMAT, 28); /* counts */
  check_wrong(28, 0, 4, BQ_FORMAT, n_entries - 4); /* all following fields are 4 bytes earlier */
  check_wrong(32, v + 1, 4, BQ_FORMAT, 32);
  check_wrong(32, 0, 4, BQ_FORMAT, 32);
  check_wrong(36, 1, 4, BQ_FORMAT, 36);
  check_wrong(40, UINT32_MAX, 4, BQ_FORMAT, 28);
  check_wrong(40, 29, 4, BQ_FORMAT, n_entries - 1);
  check_wrong(44, v, 4, BQ_FORMAT, 44); /* tokens that end a generation */
  check_wrong(ends, 6, 4, BQ_OK, 0);
  check_wrong(ends + 4, 4, 4, BQ_FORMAT, ends + 4);          /* decreases */
  check_wrong(ends + 4, UINT32_MAX, 4, BQ_FORMAT, ends + 4); /* beyond the text */
  check_wrong(ends + 4 * (v - 1), 29, 4, BQ_FORMAT, ends + 4 * (v - 1));
  check_wrong(scores + 8, 0x7fc00000u, 4, BQ_FORMAT, scores + 8); /* NaN */
  check_wrong(scores + 8, 0xff800001u, 4, BQ_FORMAT, scores + 8);
  check_wrong(scores + 8, 0xff800000u, 4, BQ_OK, 0);              /* -infinity */
  check_wrong(kinds + 3, 6, 1, BQ_FORMAT, kinds + 3);
  check_wrong(kinds + 5, TOKN_BYTE, 1, BQ_FORMAT, kinds + 5); /* a byte token of two bytes */
  check_wrong(kinds + v, 1, 1, BQ_FORMAT, kinds + v);         /* padding */
  check_wrong(merges, v, 4, BQ_FORMAT, merges);
  check_wrong(merges + 4, UINT32_MAX, 4, BQ_FORMAT, merges + 4);
  check_wrong(merges + 12, 0, 4, BQ_FORMAT, merges + 12 + 8); /* not the text of the two tokens */
  check_wrong(merges + 20, 0, 4, BQ_FORMAT, merges + 12 + 8);
}

/* Sections of random bytes, and of a valid one with many bytes changed. */
static void test_random_sections(void) {
  uint64_t seed = 99;
  for (int round = 0; round < 30000; round++) {
    tokn d = create_sample((bq_tokenizer_kind)(1 + round % 3));
    bq_tokenizer_size size = {d.n_tokens, d.n_merges};
    size_t n;
    uint8_t *section = tokn_write(&d, &n);
    unsigned changes = 1 + random_bits(&seed) % 12;
    for (unsigned i = 0; i < changes; i++) {
      size_t at = random_bits(&seed) % n;
      section[at] =
          random_bits(&seed) % 4 ? (uint8_t)(random_bits(&seed) % 12) : (uint8_t)random_bits(&seed);
    }
    if (round % 10 == 0) {
      for (size_t i = 44; i < n; i++) section[i] = (uint8_t)random_bits(&seed);
      size = (bq_tokenizer_size){1 + random_bits(&seed) % 9, random_bits(&seed) % 5};
    }
    try_section(section, n, size, NULL);
    free(section);
  }
}

static void test_memory(void) {
  CHECK(bq_tokenizer_memory((bq_tokenizer_size){UINT32_MAX, 0}) == UINT64_MAX);
  CHECK(bq_tokenizer_memory((bq_tokenizer_size){1, UINT32_MAX}) == UINT64_MAX);
  CHECK(bq_tokenizer_memory((bq_tokenizer_size){0, 0}) > 0);
  /* 32,000 tokens: 65,536 slots of 4 bytes, the sorted tokens, and at most 8 KiB. */
  CHECK(bq_tokenizer_memory((bq_tokenizer_size){32000, 0}) < 65536 * 4 + 32000 * 4 + 8192);
  bq_tokenizer *t = NULL;
  bq_error err;
  const uint8_t section[44] = {1};
  CHECK_EQ(bq_tokenizer_create(section, 44, 0, (bq_tokenizer_size){UINT32_MAX, 0}, NULL, &t, &err),
           BQ_NOMEM);
  CHECK(!t);
}

/* --- entries that collide --------------------------------------------------------------------- */

/* The hash functions of c/text/vocab.c. */
static uint32_t slot_of_text(const uint8_t *text, size_t bytes) {
  uint32_t h = BQ_HASH_START;
  for (size_t i = 0; i < bytes; i++) h = bq_hash_byte(h, text[i]);
  return h ^ h >> 15;
}
static uint32_t slot_of_pair(uint32_t left, uint32_t right) {
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
  return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32);
}

/* n tokens whose texts all have the same first slot of the table. */
static tokn create_texts_of_one_slot(uint32_t n) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  for (uint32_t v = 0; d.n_tokens < n; v++) {
    const uint8_t text[] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), '_'};
    if (slot_of_text(text, sizeof text) % 1024 == 77)
      tokn_add_bytes(&d, text, sizeof text, TOKN_NORMAL, -1);
  }
  return d;
}

/* All bytes, and n merges whose pairs have eight first slots of the table. */
static tokn create_pairs_of_few_slots(uint32_t n) {
  tokn d = tokn_new(BQ_TOKENIZER_BPE);
  tokn_add_all_bytes(&d, TOKN_NORMAL);
  for (uint32_t v = 0; v < 65536 && d.n_merges < n; v++)
    if (slot_of_pair(v >> 8, v & 255) % 1024 < 8) tokn_merge(&d, v >> 8, v & 255, TOKN_NORMAL);
  CHECK_EQ(d.n_merges, n);
  return d;
}

static void check_collisions(tokn (*make)(uint32_t n), uint32_t n_entries) {
  tokn few_entries = make(n_entries - 60), *many_entries = malloc(sizeof *many_entries);
  tokn_tokenizer open = tokn_open(&few_entries);
  for (uint32_t id = 0; id < few_entries.n_tokens; id++)
    CHECK_EQ(bq_token_find(open.t, (const char *)few_entries.text[id], few_entries.bytes[id]), id);
  for (uint32_t i = 0; i < few_entries.n_merges; i++)
    CHECK_EQ(bq_vocab_rank(open.t, few_entries.merges[i][0], few_entries.merges[i][1]), i);
  CHECK(open.t->by_text.farthest <= BQ_PROBES && open.t->by_pair.farthest <= BQ_PROBES);
  tokn_close(&open);
  *many_entries = make(n_entries);
  size_t bytes;
  uint8_t *section = tokn_write(many_entries, &bytes);
  open = tokn_open_section(section, bytes,
                           (bq_tokenizer_size){many_entries->n_tokens, many_entries->n_merges});
  CHECK_EQ(open.status, BQ_FORMAT);
  CHECK_STR(open.err.detail, "the tokenizer is damaged: more than 256 of its entries collide");
  tokn_close(&open);
  free(many_entries);
}

static void test_collisions(void) {
  check_collisions(create_texts_of_one_slot, 300);
  check_collisions(create_pairs_of_few_slots, 310);
}

static void test_long_tokens(void) {
  tokn d = tokn_new(BQ_TOKENIZER_SPM);
  for (uint32_t i = 0; i < 400; i++) tokn_add(&d, "twenty-four bytes, these", TOKN_NORMAL, 0);
  for (uint32_t longest = 4096; longest < 4098; longest++) {
    size_t bytes;
    uint8_t *section = tokn_write(&d, &bytes);
    for (uint32_t i = 0; i < 400 && 24 * (i + 1) < longest; i++) /* the first token has all bytes */
      tokn_u32(section + 44 + 4 * (size_t)i, longest);
    tokn_tokenizer open = tokn_open_section(section, bytes, (bq_tokenizer_size){d.n_tokens, 0});
    CHECK_EQ(open.status, longest > 4096 ? BQ_FORMAT : BQ_OK);
    if (open.status)
      CHECK_STR(open.err.detail, "the tokenizer is damaged: the text of token 0 is too long");
    tokn_close(&open);
  }
}

int main(void) {
  RUN(test_truncation);
  RUN(test_every_byte);
  RUN(test_fields);
  RUN(test_program_fields);
  RUN(test_random_sections);
  RUN(test_memory);
  RUN(test_collisions);
  RUN(test_long_tokens);
  return check_summary();
}
