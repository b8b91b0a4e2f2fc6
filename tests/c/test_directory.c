/* The tensor directory: names, shapes, types and offsets; and the tensors of a manifest. */
#include "format/read.h"
#include "prefix_tools.h"

/* An entry of a valid directory; tests apply a `change` to one of the entries. */
typedef struct entry {
  char name[300];
  uint32_t type, layout, ndims, dims[9];
  uint64_t offset, bytes;
} entry;

typedef void change(entry *e);

static void put_entry(fixture_buffer *b, const entry *e) {
  size_t length = strlen(e->name);
  fixture_u16(b, (uint16_t)length);
  fixture_put(b, e->name, length);
  fixture_u8(b, (uint8_t)e->type);
  fixture_u8(b, (uint8_t)e->layout);
  fixture_u8(b, (uint8_t)e->ndims);
  for (uint32_t i = 0; i < e->ndims; i++) fixture_u32(b, e->dims[i]);
  fixture_u64(b, e->offset);
  fixture_u64(b, e->bytes);
}

static void put_type(fixture_buffer *b, uint32_t id, const char *name) {
  fixture_u8(b, (uint8_t)id);
  fixture_u8(b, (uint8_t)strlen(name));
  fixture_put(b, name, strlen(name));
}

static fixture_buffer all_types(void) {
  fixture_buffer b = {0};
  fixture_u32(&b, BQ_TYPE_COUNT);
  for (uint32_t i = 0; i < BQ_TYPE_COUNT; i++) put_type(&b, i, bq_type_get(i)->name);
  return b;
}

/* Reads a directory in which the entry `name` is changed, or left out (`drop`). `types`: the list
 * of types; NULL: all types. */
static bq_status read_with_entry(fixture_spec spec, const char *name, change *apply, bool drop,
                                 const fixture_buffer *types, bq_error *err) {
  spec.no_hashes = true;
  spec.gap = 8192;
  parts p = split_fixture(spec);
  fixture_buffer tens = {0}, plan = {0};
  fixture_buffer all = all_types();
  fixture_put(&tens, types ? types->data : all.data, types ? types->n : all.n);
  fixture_u32(&tens, (uint32_t)p.f.n_tensors - drop);
  for (size_t i = 0; i < p.f.n_tensors; i++) {
    const fixture_tensor *t = &p.f.tensors[i];
    entry e = {.type = t->type,
               .layout = t->layout,
               .ndims = t->ndims,
               .dims = {t->dims[0], t->dims[1]},
               .offset = t->offset,
               .bytes = t->bytes};
    strcpy(e.name, t->name);
    bool match = strcmp(t->name, name) == 0;
    if (match && apply) apply(&e);
    if (!match || !drop) put_entry(&tens, &e);
  }
  size_t conf;
  const uint8_t *conf_bytes = fixture_section(p.f.bytes, p.f.n, "CONF", &conf);
  fixture_put_section(&plan, "CONF", 1, conf_bytes, conf);
  fixture_put_section(&plan, "TENS", 1, tens.data, tens.n);
  free(p.plan.data);
  free(tens.data);
  free(all.data);
  p.plan = plan;
  return read_parts(&p, err);
}

static bq_status read_changed(const char *name, change *apply, bq_error *err) {
  return read_with_entry(fixture_llama(), name, apply, false, NULL, err);
}

static void nothing(entry *e) { (void)e; }
static void rename_foreign(entry *e) { strcpy(e->name, "model.embed_tokens.weight"); }
static void rename_twice(entry *e) { strcpy(e->name, "h.0.attn.k.weight"); }
static void rename_zero(entry *e) { strcpy(e->name, "h.00.attn.v.weight"); }
static void rename_sign(entry *e) { strcpy(e->name, "h.-1.attn.v.weight"); }
static void rename_empty_layer(entry *e) { strcpy(e->name, "h..attn.v.weight"); }
static void rename_long_layer(entry *e) { strcpy(e->name, "h.4294967296.attn.v.weight"); }
static void rename_past(entry *e) { strcpy(e->name, "h.2.attn.v.weight"); }
static void rename_far(entry *e) { strcpy(e->name, "h.999999999.attn.v.weight"); }
static void rename_nothing(entry *e) { e->name[0] = 0; }
static void rename_prefix(entry *e) { strcpy(e->name, "h.0.attn.v.weigh"); }
static void rename_longer(entry *e) { strcpy(e->name, "h.0.attn.v.weight2"); }
static void rename_endless(entry *e) {
  memset(e->name, 'x', 256);
  e->name[256] = 0;
}
static void rename_wpe(entry *e) { strcpy(e->name, "wpe.weight"); }
static void rename_norm_bias(entry *e) { strcpy(e->name, "h.0.ln1.bias"); }
static void unaligned(entry *e) { e->offset += 8; }
static void overlapping(entry *e) { e->offset -= 8192 + 64; }
static void in_prefix(entry *e) { e->offset = 64; }
static void past_end(entry *e) { e->offset += 1 << 20; }
static void beyond_all(entry *e) { e->offset = UINT64_MAX - 63; }
static void three_dims(entry *e) {
  e->ndims = 3;
  e->dims[2] = 1;
}
static void one_dim(entry *e) {
  e->ndims = 1;
  e->dims[0] *= e->dims[1];
}
static void nine_dims(entry *e) { e->ndims = 9; }
static void turned(entry *e) {
  uint32_t t = e->dims[0];
  e->dims[0] = e->dims[1];
  e->dims[1] = t;
}
static void tiled_f32(entry *e) { e->layout = BQ_TILED; }
static void sparse(entry *e) { e->layout = 3; }
static void rename_scale(entry *e) { strcpy(e->name, "h.0.ln1.scale"); }
static void rename_matrix_scale(entry *e) { strcpy(e->name, "h.0.attn.v.scale"); }
static void flat(entry *e) { e->layout = BQ_FLAT; }
static void unlisted(entry *e) { e->type = 200; }
static void vector_bq8(entry *e) { e->type = BQ_TYPE_BQ8_32; }
static void q2s(entry *e) {
  e->type = BQ_TYPE_Q2S_64;
  e->bytes = e->dims[0] * 20;
}
static void future_type(entry *e) { e->type = 77; }

static void test_entries(void) {
  static const struct {
    const char *name;
    change *apply;
    bq_status expected;
    const char *says;
  } cases[] = {
      {"wte.weight", nothing, BQ_OK, ""},
      {"wte.weight", rename_foreign, BQ_FORMAT, "\"model.embed_tokens.weight\""},
      {"h.0.attn.v.weight", rename_twice, BQ_FORMAT, "\"h.0.attn.k.weight\" appears twice"},
      {"h.0.attn.v.weight", rename_zero, BQ_FORMAT, "h.00"},
      {"h.0.attn.v.weight", rename_sign, BQ_FORMAT, "h.-1"},
      {"h.0.attn.v.weight", rename_empty_layer, BQ_FORMAT, "h..attn"},
      {"h.0.attn.v.weight", rename_long_layer, BQ_FORMAT, "h.4294967296"},
      {"h.0.attn.v.weight", rename_past, BQ_SHAPE, "past the last of 2"},
      {"h.0.attn.v.weight", rename_far, BQ_SHAPE, "past the last of 2"},
      {"h.0.attn.v.weight", rename_nothing, BQ_FORMAT, "1...255"},
      {"h.0.attn.v.weight", rename_prefix, BQ_FORMAT, "no model has"},
      {"h.0.attn.v.weight", rename_longer, BQ_FORMAT, "no model has"},
      {"h.0.attn.v.weight", rename_endless, BQ_FORMAT, "1...255"},
      {"h.0.attn.v.weight", rename_wpe, BQ_SHAPE, "of this configuration"},
      {"h.0.ln1.weight", rename_norm_bias, BQ_SHAPE, "of this configuration"},
      {"h.0.attn.v.weight", unaligned, BQ_FORMAT, "multiple of 64"},
      {"h.0.attn.v.weight", overlapping, BQ_FORMAT, "multiple of 64 from"},
      {"wte.weight", in_prefix, BQ_FORMAT, "multiple of 64 from"},
      {"lm_head.weight", past_end, BQ_FORMAT, "the file after"},
      {"lm_head.weight", beyond_all, BQ_FORMAT, "beyond any file"},
      {"h.0.attn.v.weight", three_dims, BQ_SHAPE, "3 dimensions"},
      {"h.0.attn.v.weight", one_dim, BQ_SHAPE, "not (16, 32)"},
      {"h.0.attn.v.weight", nine_dims, BQ_FORMAT, "9 dimensions"},
      {"h.0.attn.v.weight", turned, BQ_SHAPE, "is (32, 16), not (16, 32)"},
      {"h.0.ln1.weight", three_dims, BQ_SHAPE, "3 dimensions"},
      {"h.0.attn.v.weight", tiled_f32, BQ_FORMAT, "no layout 1"},
      {"h.0.attn.v.weight", sparse, BQ_UNSUPPORTED, "sparse (BQ4S)"},
      {"h.0.ln1.weight", rename_scale, BQ_SHAPE, "no tensor \"h.0.ln1.scale\""},
      {"h.0.attn.v.weight", rename_matrix_scale, BQ_SHAPE, "h.0.attn.v.scale\" is (16, 32)"},
      {"h.0.attn.v.weight", flat, BQ_UNSUPPORTED, "layout 2"},
      {"h.0.attn.v.weight", unlisted, BQ_FORMAT, "type 200, which is not listed"},
      {"h.0.ln1.weight", vector_bq8, BQ_UNSUPPORTED, "\"h.0.ln1.weight\" is stored as bq8_32"},
      {"h.0.attn.v.weight", q2s, BQ_UNSUPPORTED, "stored as q2s_64"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bq_error err;
    CHECK_EQ(read_changed(cases[i].name, cases[i].apply, &err), cases[i].expected);
    if (!CHECK(strstr(err.detail, cases[i].says))) printf("%s: %s\n", cases[i].says, err.detail);
  }
}

static void test_missing_tensors(void) {
  fixture_spec llama = fixture_llama(), bullet = fixture_bullet();
  fixture f = fixture_make(&llama);
  bq_error err;
  for (size_t i = 0; i < f.n_tensors; i++) {
    CHECK_EQ(read_with_entry(llama, f.tensors[i].name, NULL, true, NULL, &err), BQ_SHAPE);
    CHECK(strstr(err.detail, f.tensors[i].name) && strstr(err.detail, "missing"));
  }
  fixture_free(&f);
  f = fixture_make(&bullet);
  for (size_t i = 0; i < f.n_tensors; i++) { /* biases are optional */
    bool bias = strstr(f.tensors[i].name, ".bias");
    CHECK_EQ(read_with_entry(bullet, f.tensors[i].name, NULL, true, NULL, &err),
             bias ? BQ_OK : BQ_SHAPE);
  }
  fixture_free(&f);
}

static void test_type_list(void) {
  static const struct {
    uint32_t ids[4];
    const char *names[4];
    bq_status expected;
    const char *says;
  } lists[] = {
      {{0, 77}, {"f32", "q1_turbo"}, BQ_UNSUPPORTED, "type \"q1_turbo\", unknown here"},
      {{0}, {"f32"}, BQ_FORMAT, "type 77, which is not listed"},
      {{0, 77, 77}, {"f32", "a", "a"}, BQ_FORMAT, "listed twice"},
      {{0, 1}, {"f32", "f61"}, BQ_FORMAT, "type 1 is called \"f61\", it is f16"},
      {{0, 1}, {"f32", ""}, BQ_FORMAT, "type 1 is called"},
      {{77}, {""}, BQ_FORMAT, "type 0, which is not listed"},
  };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    fixture_buffer b = {0};
    uint32_t n = 0;
    while (n < 4 && lists[i].names[n]) n++;
    fixture_u32(&b, n);
    for (uint32_t k = 0; k < n; k++) put_type(&b, lists[i].ids[k], lists[i].names[k]);
    bq_error err;
    CHECK_EQ(read_with_entry(fixture_llama(), "h.1.mlp.up.weight", future_type, false, &b, &err),
             lists[i].expected);
    if (!CHECK(strstr(err.detail, lists[i].says))) printf("%s\n", err.detail);
    free(b.data);
  }
}

/* --- manifests ----------------------------------------------------------------------------- */

static bq_status with_manifest(const fixture *f, const uint8_t *manifest, size_t n,
                                bq_error *err) {
  bytes c = copy_of(manifest, n), b = copy_of(f->bytes, f->n);
  bq_prefix p;
  bq_prefix_input in = {b.data, b.n, f->n, n ? c.data : NULL, n};
  uint64_t need;
  *err = (bq_error){0};
  bq_status status = bq_prefix_read(&in, true, &need, &p, err);
  free(c.data);
  free(b.data);
  return status;
}

static void test_manifest(void) {
  fixture_spec spec = fixture_llama();
  spec.version = 1;
  spec.config.hidden = spec.config.ffn = 24;
  spec.config.layers = 1;
  fixture f = fixture_make(&spec);
  bq_error err;
  CHECK_EQ(with_manifest(&f, f.manifest, 0, &err), BQ_UNSUPPORTED);
  CHECK_EQ(with_manifest(&f, f.manifest, f.manifest_bytes, &err), BQ_OK);
  for (size_t n = 1; n < f.manifest_bytes; n++) { /* Complete sections may be missing at the end. */
    bq_status status = with_manifest(&f, f.manifest, n, &err);
    CHECK(status == BQ_FORMAT || status == BQ_SHAPE);
    CHECK_EQ(err.offset, (uint64_t)BQ_NO_OFFSET);
  }
  fixture_buffer longer = {0}; /* a last section without its padding */
  fixture_put(&longer, f.manifest, f.manifest_bytes);
  fixture_put_section(&longer, "ABCD", 0, (const uint8_t *)"abc", 3);
  CHECK_EQ(with_manifest(&f, longer.data, longer.n, &err), BQ_OK);
  CHECK_EQ(with_manifest(&f, longer.data, longer.n - 5, &err), BQ_FORMAT);
  free(longer.data);
  size_t length;
  const uint8_t *extra = fixture_section(f.manifest, f.manifest_bytes, "XTRA", &length);
  const size_t at = (size_t)(extra - f.manifest);
  uint32_t n_listed = bq_load32(f.manifest + at);
  CHECK(n_listed > 0);
  bytes c = copy_of(f.manifest, f.manifest_bytes);
  for (size_t i = at; i + 8 <= at + length; i++)
    for (size_t k = 0; k < EXTREMES; k++) {
      if (i > at + 60 && i % 7) continue;
      memcpy(c.data, f.manifest, c.n);
      store(c.data + i, extremes[k], 4);
      bq_status status = with_manifest(&f, c.data, c.n, &err); /* It does not read weights. */
      CHECK(status == BQ_OK || status == BQ_FORMAT || status == BQ_SHAPE);
      if (i == at && (uint32_t)extremes[k] > n_listed) CHECK_EQ(status, BQ_FORMAT);
    }
  free(c.data);
  fixture_free(&f);
}

/* The flat layout, blocks across rows: three types have it, and blocks have to be complete. */
static void test_flat(void) {
  fixture_spec spec = fixture_llama();
  spec.version = 1;
  spec.config.hidden = 40; /* 32 divides 48 * 40 weights, but not a row of 40. */
  fixture f = fixture_make(&spec);
  const fixture_tensor *t = fixture_find(&f, "h.0.mlp.up.weight");
  CHECK_EQ(t->layout, BQ_FLAT);
  size_t length;
  uint8_t *e = fixture_section(f.manifest, f.manifest_bytes, "TENS", &length);
  while (memcmp(e, t->name, strlen(t->name)) != 0) e++;
  e += strlen(t->name); /* type, layout, ndims, two dims, offset, bytes */
  bq_error err;
  CHECK_EQ(with_manifest(&f, f.manifest, f.manifest_bytes, &err), BQ_OK);
  static const struct {
    uint8_t type;
    uint64_t bytes;
  } cases[] = {{BQ_TYPE_F32, 48 * 40 * 4},
               {BQ_TYPE_BQ4_32, 48 * 40 / 32 * 20 + 20},
               {BQ_TYPE_BQ4_32, 48 * 40 / 32 * 20 - 20}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t saved = e[0];
    e[0] = cases[i].type;
    store(e + 19, cases[i].bytes, 8);
    CHECK_EQ(with_manifest(&f, f.manifest, f.manifest_bytes, &err), BQ_FORMAT);
    e[0] = saved;
  }
  store(e + 19, t->bytes, 8);
  e[1] = 3;
  CHECK_EQ(with_manifest(&f, f.manifest, f.manifest_bytes, &err), BQ_UNSUPPORTED);
  fixture_free(&f);
}

int main(void) {
  RUN(test_entries);
  RUN(test_missing_tensors);
  RUN(test_type_list);
  RUN(test_manifest);
  RUN(test_flat);
  return check_summary();
}
