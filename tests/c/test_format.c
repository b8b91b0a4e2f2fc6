/* Headers: the load plan of a valid header; invalid headers are refused. */
#include "prefix_tools.h"

/* Returns the kinds of fixtures one after another; false at the end. */
static bool next_spec(int *i, fixture_spec *spec) {
  int n = (*i)++;
  if (n == 8) return false;
  *spec = n & 1 ? fixture_bullet() : fixture_llama();
  spec->type = spec->embed_type = BQ_TYPE_BQ4_32;
  spec->version = n & 2 ? 1 : 2;
  spec->layout = n & 4 ? BQ_TILED : BQ_ROWS;
  spec->scattered = n & 4;
  spec->config.layers = 1;
  spec->config.vocab = 40;
  spec->config.tied = n == 5;
  if (n == 6)
    spec->config.hidden = spec->config.ffn = 24; /* v1: manifest tensors, straddling blocks */
  return true;
}

/* --- valid files ---------------------------------------------------------------------------- */

static void test_plan(void) {
  fixture_spec spec;
  for (int i = 0; next_spec(&i, &spec);) {
    fixture f = fixture_make(&spec);
    bq_plan plan;
    bq_error err = {0};
    uint64_t need = 0;
    bytes b = copy_of(f.bytes, (size_t)f.prefix_bytes);
    bq_session_options options = {.context = 16};
    CHECK_EQ(bq_plan_make(b.data, b.n, f.n, f.manifest, f.manifest_bytes, &options, &need, &plan,
                          &err),
             BQ_OK);
    CHECK_EQ(plan.foreign, spec.version == 1);
    CHECK_EQ(plan.file_bytes, f.n);
    CHECK_EQ(plan.prefix_bytes, plan.foreign ? 0 : f.prefix_bytes);
    CHECK_EQ(plan.config.hidden, spec.config.hidden);
    CHECK_EQ(plan.config.tokens, f.config.tokens);
    uint64_t weights = 0;
    for (size_t t = 0; t < f.n_tensors; t++) {
      const fixture_tensor *x = &f.tensors[t];
      uint32_t rows = x->ndims == 2 ? x->dims[0] : 1, cols = x->dims[x->ndims - 1];
      weights += bq_conversion_of(x->type, x->layout, rows, cols, x->ndims == 1).engine_bytes;
    }
    CHECK_EQ(plan.weight_bytes, weights);
    CHECK(plan.model_bytes > weights && plan.model_bytes % BQ_ALIGN == 0);
    uint64_t kv = 2ull * 16 * spec.config.layers * spec.config.kv_heads * spec.config.head_dim * 4;
    CHECK_EQ(plan.kv_bytes, kv);
    CHECK(plan.session_bytes > kv);
    need = 0; /* The plan sections need more than 100 bytes; a manifest is complete. */
    CHECK_EQ(
        bq_plan_make(b.data, 100, f.n, f.manifest, f.manifest_bytes, NULL, &need, &plan, &err),
        plan.foreign ? BQ_OK : BQ_WANT_DATA);
    CHECK(plan.foreign ? need == 0 : need > 100 && need <= f.prefix_bytes);
    CHECK_EQ(
        bq_plan_make(b.data, b.n, 0, f.manifest, f.manifest_bytes, &options, &need, &plan, &err),
        BQ_OK);
    CHECK_EQ(plan.file_bytes, f.n); /* Other containers: the end of the last tensor. */
    options.context = spec.config.context + 1;
    CHECK_EQ(bq_plan_make(b.data, b.n, f.n, f.manifest, f.manifest_bytes, &options, &need, &plan,
                          &err),
             BQ_ARGUMENT);
    CHECK_EQ(
        bq_plan_make(b.data, b.n, f.n, f.manifest, f.manifest_bytes, NULL, NULL, &plan, NULL),
        BQ_OK);
    free(b.data);
    fixture_free(&f);
  }
}

/* The first n bytes, for every n, return either the number of needed bytes or the plan. */
static void test_every_length(void) {
  fixture_spec spec;
  for (int i = 0; next_spec(&i, &spec);) {
    fixture f = fixture_make(&spec);
    size_t plan_end = f.manifest ? 0 : 64 + (size_t)bq_load64(f.bytes + 16);
    for (int all_sections = 0; all_sections < 2; all_sections++) {
      size_t required = all_sections && !f.manifest ? (size_t)f.prefix_bytes : plan_end;
      for (size_t n = 0; n <= required; n++) {
        bytes b = copy_of(f.bytes, n);
        bq_error err;
        uint64_t need = 0;
        bq_status status = read_prefix(b, n % 2 ? f.n : 0, &f, all_sections, &need, &err);
        CHECK_EQ(status, n < required ? BQ_WANT_DATA : BQ_OK);
        if (n < required) CHECK(need > n && need <= required);
        free(b.data);
      }
    }
    fixture_free(&f);
  }
}

/* A file that ends after n bytes, for every n. */
static void test_every_truncation(void) {
  fixture_spec spec;
  for (int i = 0; next_spec(&i, &spec);) {
    fixture f = fixture_make(&spec);
    for (size_t n = 1; n < f.n; n += n < f.prefix_bytes + 64 ? 1 : 61) {
      bytes b = copy_of(f.bytes, n);
      bq_error err;
      uint64_t need = 0;
      CHECK_EQ(read_prefix(b, n, &f, true, &need, &err), BQ_TRUNCATED);
      CHECK_EQ(err.offset, n);
      free(b.data);
      b = copy_of(f.bytes, f.n); /* Bytes after the stated end of the file are not read. */
      CHECK_EQ(read_prefix(b, n, &f, true, &need, &err), BQ_TRUNCATED);
      CHECK_EQ(err.offset, n);
      free(b.data);
    }
    fixture_free(&f);
  }
}

/* --- invalid files -------------------------------------------------------------------------- */

/* Every changed bit of a v2 header is refused. */
static void test_every_changed_bit(void) {
  fixture_spec spec = fixture_llama();
  spec.config.layers = 1;
  fixture f = fixture_make(&spec);
  bytes b = copy_of(f.bytes, (size_t)f.prefix_bytes);
  for (size_t i = 0; i < 8 * b.n; i += i < 512 ? 1 : 5) {
    b.data[i / 8] ^= (uint8_t)(1 << i % 8);
    bq_error err;
    uint64_t need = 0;
    bq_status status = read_prefix(b, f.n, &f, true, &need, &err);
    if (i < 4 * 8) CHECK_EQ(status, BQ_FORMAT);
    else if (i < 8 * 8)
      CHECK(status == BQ_UNSUPPORTED || status == BQ_FORMAT); /* another version */
    else CHECK(status == BQ_CHECKSUM || (status == BQ_FORMAT && strstr(err.detail, "checksum")));
    b.data[i / 8] ^= (uint8_t)(1 << i % 8);
  }
  free(b.data);
  fixture_free(&f);
}

/* Writes every extreme value from `min_refused` on, and neighbors of the original value, to the
 * `size` bytes at `at`, corrects the checksums, and expects an error of the header. */
static void check_extremes_from(uint64_t min_refused, const fixture *f, size_t at, int size) {
  uint64_t mask = size == 8 ? UINT64_MAX : (1ull << 8 * size) - 1, original = 0;
  for (int i = 0; i < size; i++) original |= (uint64_t)f->bytes[at + i] << 8 * i;
  for (size_t i = 0; i < EXTREMES + 6; i++) {
    const uint64_t neighbors[] = {original - 1,  original + 1, original - 64,
                                  original + 64, original * 2, original ^ 1};
    uint64_t value = (i < EXTREMES ? extremes[i] : neighbors[i - EXTREMES]) & mask;
    if (value == original || value < min_refused) continue;
    bytes b = copy_of(f->bytes, f->n);
    store(b.data + at, value, size);
    fixture_seal(b.data, b.n);
    bq_error err;
    uint64_t need = 0;
    bq_status status = read_prefix(b, f->n, f, true, &need, &err);
    bool refused = status == BQ_FORMAT || status == BQ_UNSUPPORTED || status == BQ_SHAPE ||
                   status == BQ_TRUNCATED || status == BQ_CHECKSUM;
    if (!CHECK(refused))
      printf("bytes %zu...%zu = %llu: %s %s\n", at, at + (size_t)size, (unsigned long long)value,
             bq_status_name(status), err.detail);
    CHECK(err.offset == BQ_NO_OFFSET || err.offset <= f->n);
    free(b.data);
  }
}

static void check_extremes(const fixture *f, size_t at, int size) {
  check_extremes_from(0, f, at, size);
}

static void test_header_extremes(void) {
  static const struct {
    size_t at;
    int size;
  } fields[] = {{0, 4}, {4, 4}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 8}};
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    check_extremes(&f, fields[i].at, fields[i].size);
  fixture_free(&f);
}

/* The largest lengths of a header are accepted; one step more is refused. */
static void test_header_limits(void) {
  static const struct {
    size_t at;
    uint64_t limit, step;
  } fields[] = {{16, 16u << 20, 8}, {24, 256u << 20, 64}, {32, 1ull << 53, 1}};
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  bytes b = copy_of(f.bytes, 64);
  store(b.data + 16, 24, 8);
  store(b.data + 24, 256u << 20, 8);
  store(b.data + 32, 1ull << 40, 8);
  for (int i = 0; i < 3; i++)
    for (int beyond = 0; beyond < 2; beyond++) {
      uint64_t before = bq_load64(b.data + fields[i].at), need = 0;
      bq_error err;
      store(b.data + fields[i].at, fields[i].limit + (beyond ? fields[i].step : 0), 8);
      fixture_seal(b.data, 64);
      CHECK_EQ(read_prefix(b, 0, NULL, true, &need, &err), beyond ? BQ_FORMAT : BQ_WANT_DATA);
      if (beyond) CHECK_EQ(err.offset, fields[i].at);
      store(b.data + fields[i].at, before, 8);
    }
  free(b.data);
  fixture_free(&f);
}

/* Every number of the tensor directory. The configuration or the other numbers determine each. */
static void test_directory_extremes(void) {
  fixture_spec spec = fixture_bullet();
  spec.config.layers = 1;
  spec.type = BQ_TYPE_BQ8_32;
  fixture f = fixture_make(&spec);
  size_t length, at = (size_t)(fixture_section(f.bytes, f.n, "TENS", &length) - f.bytes);
  check_extremes(&f, at - 8, 8); /* length of the section */
  size_t end = at + length;
  check_extremes(&f, at, 4);
  uint32_t types = bq_load32(f.bytes + at);
  for (at += 4; types; types--) {
    check_extremes(&f, at, 2); /* id and length of the name */
    at += 2 + f.bytes[at + 1];
  }
  check_extremes(&f, at, 4);
  for (at += 4; at < end;) {
    check_extremes(&f, at, 2);
    at += 2 + bq_load16(f.bytes + at);
    check_extremes(&f, at, 1); /* type */
    check_extremes_from(f.bytes[at] == BQ_TYPE_F32 ? 0 : 2, &f, at + 1,
                        1);        /* layout: both can have the same number of bytes */
    check_extremes(&f, at + 2, 1); /* ndims */
    uint32_t ndims = f.bytes[at + 2];
    at += 3;
    for (; ndims; ndims--, at += 4) check_extremes(&f, at, 4);
    check_extremes(&f, at, 8);
    check_extremes(&f, at + 8, 8);
    at += 16;
  }
  fixture_free(&f);
}

/* Extreme values in every field of TENS in a manifest. */
static void test_manifest_extremes(void) {
  fixture_spec spec = fixture_llama();
  spec.version = FIXTURE_FOREIGN;
  spec.scattered = true;
  spec.config.layers = 1;
  fixture f = fixture_make(&spec);
  size_t length;
  uint8_t *tens = fixture_section(f.manifest, f.manifest_bytes, "TENS", &length);
  bytes saved = copy_of(tens, length), file = copy_of(f.bytes, f.n);
  for (size_t at = 0; at + 8 <= length; at++)
    for (size_t i = 0; i < EXTREMES; i++)
      for (int width = 1; width <= 8; width *= 2) {
        if (at > 120 && at % 11) continue;
        store(tens + at, extremes[i], width);
        bq_error err;
        uint64_t need = 0;
        bq_status status = read_prefix(file, f.n, &f, true, &need, &err);
        CHECK(status == BQ_OK || status == BQ_FORMAT || status == BQ_TRUNCATED ||
              status == BQ_SHAPE || status == BQ_UNSUPPORTED);
        if (status) CHECK(err.offset == (status == BQ_TRUNCATED ? f.n : BQ_NO_OFFSET));
        memcpy(tens + at, saved.data + at, 8);
      }
  free(file.data);
  free(saved.data);
  fixture_free(&f);
}

/* A tensor of another container can have any offset within the file. */
static void test_manifest_offsets(void) {
  fixture_spec spec = fixture_llama();
  spec.version = FIXTURE_FOREIGN;
  fixture f = fixture_make(&spec);
  const fixture_tensor *last = &f.tensors[f.n_tensors - 1];
  size_t length;
  uint8_t *offset_field =
      fixture_section(f.manifest, f.manifest_bytes, "TENS", &length) + length - 16;
  CHECK_EQ(bq_load64(offset_field), last->offset);
  const uint64_t valid[] = {0, 1, last->offset, f.n - last->bytes};
  const uint64_t invalid[] = {f.n - last->bytes + 1,
                              f.n,
                              UINT64_C(1) << 53,
                              (UINT64_C(1) << 53) + 1,
                              UINT64_MAX - last->bytes,
                              UINT64_MAX - last->bytes + 1,
                              UINT64_MAX};
  bytes no_bytes = copy_of(f.bytes, 0);
  bq_error err;
  uint64_t need;
  for (int i = 0; i < 4; i++) {
    store(offset_field, valid[i], 8);
    CHECK_EQ(read_prefix(no_bytes, f.n, &f, true, &need, &err), BQ_OK);
  }
  for (int i = 0; i < 7; i++) {
    store(offset_field, invalid[i], 8);
    bool beyond = invalid[i] > UINT64_C(1) << 53;
    CHECK_EQ(read_prefix(no_bytes, f.n, &f, true, &need, &err), beyond ? BQ_FORMAT : BQ_TRUNCATED);
    CHECK_EQ(read_prefix(no_bytes, 0, &f, true, &need, &err), beyond ? BQ_FORMAT : BQ_OK);
  }
  free(no_bytes.data);
  fixture_free(&f);
}

/* A billion tensors. */
static void test_billion_tensors(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  uint64_t need = 0;
  bq_error err;
  size_t length;
  uint8_t *tens = fixture_section(f.bytes, f.n, "TENS", &length);
  for (uint32_t types = bq_load32(tens), at = 4;; types--) {
    if (!types) {
      store(tens + at, 1000000000, 4);
      break;
    }
    at += 2u + tens[at + 1];
  }
  fixture_seal(f.bytes, f.n);
  bytes b = copy_of(f.bytes, (size_t)f.prefix_bytes);
  CHECK_EQ(read_prefix(b, 0, NULL, false, &need, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "1000000000 tensors"));
  free(b.data);
  fixture_free(&f);
}

static void test_file_size(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  bytes b = copy_of(f.bytes, (size_t)f.prefix_bytes);
  uint64_t need;
  bq_error err;
  CHECK_EQ(read_prefix(b, f.n + 1, NULL, true, &need, &err),
           BQ_FORMAT); /* longer than the header states */
  CHECK_EQ(err.offset, f.n);
  CHECK_EQ(read_prefix(b, f.n - 1, NULL, true, &need, &err), BQ_TRUNCATED);
  CHECK_EQ(err.offset, f.n - 1);
  free(b.data);
  fixture_free(&f);
}

/* --- sections ------------------------------------------------------------------------------- */

static uint8_t *section_header(fixture_buffer *run, const char *tag) {
  return fixture_section(run->data, run->n, tag, NULL) - 16;
}

/* Reads an ACTQ section that announces `n` steps, followed by these bytes. */
static bq_status read_with_activations(uint32_t flags, uint32_t n, const void *bytes, size_t size,
                                       bq_error *err) {
  parts p = parts_with_gap();
  fixture_buffer b = {0};
  fixture_u32(&b, n);
  fixture_put(&b, bytes, size);
  fixture_put_section(&p.rest, "ACTQ", flags, b.data, n == UINT32_MAX && !size ? 3 : b.n);
  free(b.data);
  return read_parts(&p, err);
}

/* ACTQ is for other engines: it is checked, and refused if the file requires it. */
static void test_activations(void) {
  bq_error err;
  const uint8_t valid[] = {2, 0, 'a', 'b', 0, 0, 0x80, 0x3f, 1, 0, 'c', 1, 0, 0, 0};
  CHECK_EQ(read_with_activations(0, 2, valid, sizeof valid, &err), BQ_OK);
  CHECK_EQ(read_with_activations(0, 0, valid, 0, &err), BQ_OK);
  CHECK_EQ(read_with_activations(1, 2, valid, sizeof valid, &err), BQ_UNSUPPORTED);
  CHECK(strstr(err.detail, "ACTQ"));
  for (size_t n = 0; n < sizeof valid; n++)
    CHECK_EQ(read_with_activations(0, 2, valid, n, &err), BQ_FORMAT);
  CHECK_EQ(read_with_activations(0, 1, valid, sizeof valid, &err), BQ_FORMAT);
  CHECK_EQ(read_with_activations(0, 3, valid, sizeof valid, &err), BQ_FORMAT);
  CHECK_EQ(read_with_activations(0, UINT32_MAX, valid, sizeof valid, &err), BQ_FORMAT);
  CHECK_EQ(read_with_activations(0, UINT32_MAX, valid, 0, &err), BQ_FORMAT);
  const uint32_t invalid[] = {0, 0x80000000u, 0xbf800000u, 0x7f800000u, 0x7fc00000u};
  for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
    uint8_t row[] = {1,
                     0,
                     'a',
                     (uint8_t)invalid[i],
                     (uint8_t)(invalid[i] >> 8),
                     (uint8_t)(invalid[i] >> 16),
                     (uint8_t)(invalid[i] >> 24)};
    CHECK_EQ(read_with_activations(0, 1, row, sizeof row, &err), BQ_FORMAT);
  }
  const uint8_t nameless[] = {0, 0, 0, 0, 0x80, 0x3f};
  CHECK_EQ(read_with_activations(0, 1, nameless, sizeof nameless, &err), BQ_FORMAT);
}

static void test_sections(void) {
  bq_error err;
  const uint8_t payload[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  parts p = parts_with_gap();
  CHECK_EQ(read_parts(&p, &err), BQ_OK);

  p = parts_with_gap(); /* An unknown optional section is skipped. */
  fixture_put_section(&p.plan, "ABCD", 0, payload, 9);
  fixture_put_section(&p.rest, "EFGH", 0, payload, 0);
  fixture_put_section(&p.rest, "XTRA", 0, payload, 9); /* XTRA belongs to manifests only. */
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "XTRA is in the wrong place"));
  p = parts_with_gap();
  fixture_put_section(&p.plan, "ABCD", 0, payload, 9);
  fixture_put_section(&p.rest, "EFGH", 0, payload, 0);
  CHECK_EQ(read_parts(&p, &err), BQ_OK);

  for (int run = 0; run < 2; run++) {
    p = parts_with_gap();
    fixture_put_section(run ? &p.rest : &p.plan, "ABCD", 1, payload, 9);
    CHECK_EQ(read_parts(&p, &err), BQ_UNSUPPORTED);
    CHECK(strstr(err.detail, "requires section ABCD"));
    p = parts_with_gap();
    fixture_put_section(run ? &p.rest : &p.plan, "ABCD", 2, payload, 9);
    CHECK_EQ(read_parts(&p, &err), BQ_UNSUPPORTED);
    p = parts_with_gap();
    fixture_put_section(run ? &p.rest : &p.plan, "AB\tD", 0, payload, 9);
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
    p = parts_with_gap(); /* padding */
    fixture_put_section(run ? &p.rest : &p.plan, "ABCD", 0, payload, 9);
    fixture_buffer *b = run ? &p.rest : &p.plan;
    b->data[b->n - 1] = 1;
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
    CHECK(strstr(err.detail, "padding"));
    p = parts_with_gap(); /* too few bytes for a section */
    for (int i = 0; i < 8; i++) fixture_u8(run ? &p.rest : &p.plan, 'A');
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  }

  p = parts_with_gap(); /* A section that appears twice, in the same or in different runs of
                           sections. */
  fixture_put_section(&p.plan, "LICE", 0, payload, 3);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "LICE appears twice"));
  p = parts_with_gap();
  fixture_put_section(&p.plan, "ABCD", 0, payload, 3);
  fixture_put_section(&p.rest, "ABCD", 0, payload, 3);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  p = parts_with_gap();
  fixture_put_section(&p.rest, "TOKN", 0, payload, 3);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);

  static const char *const plan_only[] = {"SUM8", "TOKN", "CHAT", "HASH"};
  for (size_t i = 0; i < 4; i++) {
    p = parts_with_gap();
    fixture_put_section(&p.plan, plan_only[i], 0, payload, 8);
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
    CHECK(strstr(err.detail, "wrong place"));
  }
  p = parts_with_gap();
  memcpy(section_header(&p.plan, "LICE"), "Lice", 4);
  fixture_put_section(&p.rest, "LICE", 0, payload, 8);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);

  static const char *const required_tags[] = {"CONF", "TENS"};
  for (size_t i = 0; i < 2; i++) {
    p = parts_with_gap();
    uint8_t *header = section_header(&p.plan, required_tags[i]);
    memcpy(header, "none", 4);
    header[4] = 0;
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
    CHECK(strstr(err.detail, required_tags[i]));
  }
}

static void test_section_lengths(void) {
  static const uint64_t lengths[] = {
      16, 1ull << 32, UINT64_MAX - 15, UINT64_MAX - 7, UINT64_MAX - 6, UINT64_MAX};
  bq_error err;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    parts p = parts_with_gap();
    fixture_put_section(&p.rest, "ABCD", 0, NULL, 0);
    store(p.rest.data + p.rest.n - 8, lengths[i], 8);
    CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
    CHECK(strstr(err.detail, "ABCD announces"));
  }
}

static void test_many_sections(void) {
  bq_error err;
  for (int n = 64; n < 66; n++) {
    parts p = parts_with_gap(); /* CONF LICE TENS NAME TOKN CHAT CARD: 7 */
    for (int i = 7; i < n; i++) {
      char tag[5] = {'A', 'A', (char)('A' + i / 26), (char)('A' + i % 26), 0};
      fixture_put_section(&p.rest, tag, 0, NULL, 0);
    }
    CHECK_EQ(read_parts(&p, &err), n <= 64 ? BQ_OK : BQ_FORMAT);
  }
}

static void test_tokenizer_and_config_agree(void) {
  bq_error err;
  parts p = parts_with_gap();
  memcpy(section_header(&p.rest, "TOKN"), "none", 4);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "no TOKN"));
  fixture_spec spec = fixture_llama();
  spec.no_hashes = spec.no_tokenizer = true;
  spec.gap = 8192;
  p = split_fixture(spec);
  fixture_put_section(&p.rest, "TOKN", 0, (const uint8_t *)"abc", 3);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "0 tokens"));
  p = parts_with_gap(); /* The plan sections suffice to refuse this number of merges. */
  uint8_t *record = section_header(&p.plan, "CONF") + 16;
  while (bq_load16(record) != 33) record += 8;
  store(record + 4, 1u << 24, 4);
  CHECK_EQ(read_parts(&p, &err), BQ_FORMAT);
  CHECK(strstr(err.detail, "more than the prefix can hold"));
}

static void test_hash_section(void) {
  bq_error err;
  for (int i = 0; i < 8; i++) {
    static const uint32_t kinds[] = {1, 2, 2, 1, 1, 1, 3, 1}, chunk[] = {0, 0, 0, 0, 0, 1, 0, 0};
    static const size_t hashes[] = {8, 32, 8, 0, 16, 8, 8, 0},
                        missing_bytes[] = {0, 0, 0, 0, 0, 0, 0, 4};
    static const bq_status expected[] = {BQ_OK,     BQ_OK,          BQ_FORMAT,      BQ_FORMAT,
                                         BQ_FORMAT, BQ_UNSUPPORTED, BQ_UNSUPPORTED, BQ_FORMAT};
    parts p = parts_with_gap();
    fixture_buffer b = {0};
    fixture_u32(&b, kinds[i]);
    fixture_u32(&b, (1 << 20) + chunk[i]);
    for (size_t k = 0; k < hashes[i]; k++) fixture_u8(&b, 1);
    fixture_put_section(&p.rest, "HASH", 0, b.data, b.n - missing_bytes[i]);
    free(b.data);
    CHECK_EQ(read_parts(&p, &err), expected[i]);
  }
}

int main(void) {
  RUN(test_plan);
  RUN(test_every_length);
  RUN(test_every_truncation);
  RUN(test_every_changed_bit);
  RUN(test_header_extremes);
  RUN(test_header_limits);
  RUN(test_directory_extremes);
  RUN(test_manifest_extremes);
  RUN(test_manifest_offsets);
  RUN(test_billion_tensors);
  RUN(test_file_size);
  RUN(test_activations);
  RUN(test_sections);
  RUN(test_section_lengths);
  RUN(test_many_sections);
  RUN(test_tokenizer_and_config_agree);
  RUN(test_hash_section);
  return check_summary();
}
