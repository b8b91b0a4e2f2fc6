/* Errors of the loader: damage, NaN and infinity, overlaps, wrong lengths, no memory, wrong calls.
 * Every error has its byte offset, and all memory is released. */
#include "check.h"
#include "core/tile.h"

#include <stdlib.h>

#include "core/cursor.h"
#include "fixture.h"
#include "model/model.h"

/* A file being loaded. */
typedef struct attempt {
  fixture_memory memory;
  bq_loader *loader;
  bq_error err;
} attempt;

static bq_loader_options options_for(const fixture *f, attempt *a) {
  return (bq_loader_options){.allocator = fixture_allocator(&a->memory),
                             .file_bytes = f->n,
                             .manifest = f->manifest,
                             .manifest_bytes = f->manifest_bytes};
}

static bq_status load(const fixture *f, attempt *a, size_t part) {
  *a = (attempt){0};
  bq_loader_options o = options_for(f, a);
  bq_status status = bq_loader_create(&o, &a->loader, &a->err);
  return status ? status : fixture_feed(f, a->loader, part, &a->err);
}

static void free_attempt(attempt *a) {
  bq_loader_free(a->loader);
  CHECK_EQ(a->memory.used, 0);
  CHECK_EQ(a->memory.blocks, 0);
}

/* A failed loader returns its error in place of a model. */
static void check_no_model(const attempt *a) {
  if (!a->loader) return; /* bq_loader_create() refused the manifest. */
  bq_model *m = NULL;
  bq_error err = {0};
  CHECK_EQ(bq_loader_model(a->loader, &m, &err), a->err.status);
  CHECK_STR(err.detail, a->err.detail);
  CHECK(!m);
}

/* Loads a file that must be refused with this error; later calls return the same error. */
static void check_refused(const fixture *f, size_t part, bq_status expected, uint64_t offset,
                          const char *text) {
  attempt a;
  CHECK_EQ(load(f, &a, part), expected);
  CHECK_EQ(a.err.status, expected);
  CHECK_EQ(a.err.offset, offset);
  if (!CHECK(strstr(a.err.detail, text)))
    printf("expected an error with \"%s\", found \"%s\"\n", text, a.err.detail);
  if (!a.loader) return;
  bq_error second_error = {0};
  bq_want want;
  CHECK_EQ(bq_loader_want(a.loader, &want, &second_error), expected);
  CHECK_EQ(second_error.offset, offset);
  CHECK_STR(second_error.detail, a.err.detail);
  CHECK_EQ(bq_loader_feed(a.loader, f->bytes, 1, NULL), expected);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, NULL), expected);
  free_attempt(&a);
}

/* --- damage --------------------------------------------------------------------------------- */

enum { CHUNK = 1 << 20 };

/* A fixture with two complete chunks and a part of a third. */
static fixture three_chunks(bool sha256) {
  fixture_spec spec = fixture_llama();
  spec.sha256 = sha256;
  spec.config.layers = 1;
  spec.config.vocab = 9000;
  spec.embed_type = BQ_TYPE_F32;
  return fixture_make(&spec);
}

static void check_damaged_chunk(bool sha256) {
  fixture f = three_chunks(sha256);
  CHECK(f.n > f.prefix_bytes + 2 * CHUNK && f.n < f.prefix_bytes + 3 * CHUNK);
  const size_t places[] = {
      0, 1, CHUNK - 1, CHUNK, CHUNK + 1000, 2 * CHUNK, f.n - f.prefix_bytes - 1};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    size_t at = (size_t)f.prefix_bytes + places[i];
    uint64_t chunk = f.prefix_bytes + places[i] / CHUNK * CHUNK;
    f.bytes[at] ^= 1;
    check_refused(&f, i % 2 ? 0 : 9999, BQ_CHECKSUM, chunk, "does not match its hash");
    f.bytes[at] ^= 1;
  }
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_OK);
  free_attempt(&a);
  fixture_free(&f);
}

static void test_damaged_chunk(void) {
  check_damaged_chunk(false);
  check_damaged_chunk(true);
}

/* The chunks before a damaged one can be used. */
static void test_ready_before_damage(void) {
  fixture f = three_chunks(false);
  f.bytes[f.n - 1] ^= 1;
  attempt a;
  bq_model *m = NULL;
  CHECK_EQ(load(&f, &a, 0), BQ_CHECKSUM);
  CHECK_EQ(bq_loader_model(a.loader, &m, NULL), BQ_OK);
  CHECK_EQ(bq_model_ready(m), BQ_READY_LAYER(0));
  free_attempt(&a);
  fixture_free(&f);
}

/* Without hashes, damage is not detected. */
static void test_damage_without_hashes(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = true;
  fixture f = fixture_make(&spec);
  f.bytes[f.tensors[0].offset] ^= 1;
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_OK);
  free_attempt(&a);
  fixture_free(&f);
}

/* --- NaN and infinity ----------------------------------------------------------------------- */

/* Number of bytes of a scale or minimum, or of a weight of a float type. */
static size_t number_bytes(bq_type type) {
  const bq_type_facts *f = bq_type_get(type);
  return bq_type_is_float(type) ? f->block_bytes : f->scale_bytes;
}

/* Offset of number i in the stored tensor; SIZE_MAX: the tensor has fewer numbers. */
static size_t number_offset(const fixture_tensor *t, size_t i) {
  const bq_type_facts *f = bq_type_get(t->type);
  const size_t size = number_bytes(t->type);
  const size_t per_block = (f->scale_bytes + f->min_bytes) / size;
  size_t at = i * size; /* floats */
  if (t->layout == BQ_TILED) {
    size_t per_tile = per_block * 8 * f->tile_step / f->block;
    at = i / per_tile * f->tile_bytes + i % per_tile * size;
  } else if (f->block > 1) {
    at = i / per_block * f->block_bytes + f->scale_at + i % per_block * size;
  }
  return at + size <= t->bytes ? at : SIZE_MAX;
}

static void put_bits(uint8_t *p, size_t size, uint32_t bits) {
  for (size_t i = 0; i < size; i++) p[i] = (uint8_t)(bits >> 8 * i);
}

/* Replaces some numbers of some tensors by NaN and infinity, which are refused, and by the largest
 * finite number, which is accepted. */
static void check_numbers(fixture *f, bool has_hashes) {
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    if (!t->bytes || (i > 3 && i + 3 < f->n_tensors && i % 5)) continue;
    const size_t size = number_bytes(t->type);
    const bool is_f16 = size == 2 && t->type != BQ_TYPE_BF16;
    const uint32_t invalid[] = {size == 4 ? 0x7fc00000u
                                : is_f16  ? 0x7e00
                                          : 0x7fc0, /* NaN */
                                size == 4 ? 0xff800001u
                                : is_f16  ? 0xfc01
                                          : 0xff81, /* another */
                                size == 4 ? 0x7f800000u
                                : is_f16  ? 0x7c00
                                          : 0x7f80, /* infinity */
                                size == 4 ? 0xff800000u
                                : is_f16  ? 0xfc00
                                          : 0xff80};
    const uint32_t max_finite = size == 4 ? 0x7f7fffffu : is_f16 ? 0x7bff : 0x7f7f;
    size_t last = 0;
    while (number_offset(t, last + 1) != SIZE_MAX) last++;
    const size_t numbers[] = {0, 1, last / 2, last};
    for (int k = 0; k < 4; k++) {
      size_t at = number_offset(t, numbers[k]);
      if (at == SIZE_MAX) continue;
      uint8_t *place = f->bytes + t->offset + at, saved[4];
      memcpy(saved, place, size);
      put_bits(place, size, invalid[k]);
      if (has_hashes) {
        check_refused(f, 0, BQ_CHECKSUM, f->prefix_bytes,
                      "hash"); /* The wrong hash is reported first. */
        fixture_seal(f->bytes, f->n);
      }
      check_refused(f, k % 2 ? 1000 : 0, BQ_FORMAT, t->offset + at, t->name);
      put_bits(place, size, max_finite);
      if (has_hashes) fixture_seal(f->bytes, f->n);
      attempt a;
      CHECK_EQ(load(f, &a, 0), BQ_OK);
      free_attempt(&a);
      memcpy(place, saved, size);
      if (has_hashes) fixture_seal(f->bytes, f->n);
    }
  }
}

static void test_invalid_numbers(void) {
  for (int i = 0; i < BQ_TYPE_COUNT; i++)
    for (int tiled = 0; tiled < 2; tiled++) {
      if (bq_type_get((uint32_t)i)->run == BQ_TYPE_NONE) continue;
      fixture_spec spec = fixture_llama();
      spec.config.layers = 1;
      spec.config.hidden = 40;
      spec.type = spec.embed_type = (bq_type)i;
      spec.vector_type = (bq_type)(i % 3);
      spec.layout = tiled ? BQ_TILED : BQ_ROWS;
      spec.no_hashes = i % 2;
      fixture f = fixture_make(&spec);
      check_numbers(&f, !spec.no_hashes);
      fixture_free(&f);
    }
}

/* Kernels rely on weights of 7 bits: any byte of a tile above 127 is refused. */
static void test_weights_above_7_bits(void) {
  static const bq_type types[] = {BQ_TYPE_BQ7A_32, BQ_TYPE_BQ7KA_32, BQ_TYPE_BQ7K_16};
  for (int i = 0; i < 3; i++) {
    fixture_spec spec = fixture_llama();
    spec.config.layers = 1;
    spec.type = spec.embed_type = types[i];
    spec.layout = BQ_TILED;
    spec.no_hashes = true;
    fixture f = fixture_make(&spec);
    const fixture_tensor *t = &f.tensors[f.n_tensors - 3];
    while (t->type != types[i]) t--;
    const uint64_t tile = bq_type_get(types[i])->tile_bytes;
    const uint64_t first = bq_tile_weights_at(bq_tile_shape_of(types[i]));
    const uint64_t places[] = {first, tile - 1, t->bytes - tile + first, t->bytes - 1};
    for (int k = 0; k < 4; k++) {
      uint8_t *place = f.bytes + t->offset + places[k], saved = *place;
      *place = 0x80;
      check_refused(&f, k % 2 ? 1000 : 0, BQ_FORMAT, t->offset + places[k], "above 127");
      *place = saved;
    }
    attempt a;
    CHECK_EQ(load(&f, &a, 0), BQ_OK);
    free_attempt(&a);
    fixture_free(&f);
  }
}

static void test_invalid_numbers_v1(void) {
  for (uint32_t width = 24; width <= 64; width += 8) {
    fixture_spec spec = fixture_bullet();
    spec.version = 1;
    spec.config.layers = 1;
    spec.config.hidden = width;
    spec.block = width % 16 ? 32 : 64;
    spec.scattered = true;
    fixture f = fixture_make(&spec);
    check_numbers(&f, false);
    fixture_free(&f);
  }
}

static void test_invalid_number_in_manifest(void) {
  fixture_spec spec = fixture_llama();
  spec.version = 1;
  spec.config.hidden = 24;
  fixture f = fixture_make(&spec);
  size_t length;
  uint8_t *extra = fixture_section(f.manifest, f.manifest_bytes, "XTRA", &length);
  put_bits(extra + length - 4, 4, 0x7fc00000u);
  check_refused(&f, 0, BQ_FORMAT, BQ_NO_OFFSET, "XTRA: tensor \"ln_f.weight\"");
  attempt a;
  CHECK_EQ(load(&f, &a, 0), BQ_FORMAT);
  check_no_model(&a);
  free_attempt(&a);
  fixture_free(&f);
}

/* --- offsets -------------------------------------------------------------------------------- */

static void test_gaps(void) {
  fixture_spec spec = fixture_llama();
  spec.gap = 128;
  fixture f = fixture_make(&spec);
  const uint64_t places[] = {f.prefix_bytes, f.tensors[1].offset - 1, f.n - 1};
  for (int i = 0; i < 3; i++) {
    f.bytes[places[i]] = 1;
    check_refused(&f, 100, BQ_CHECKSUM, f.prefix_bytes, "hash");
    fixture_seal(f.bytes, f.n);
    check_refused(&f, i ? 0 : 1, BQ_FORMAT, places[i], "between tensors");
    f.bytes[places[i]] = 0;
    fixture_seal(f.bytes, f.n);
  }
  fixture_free(&f);
}

/* The field of the manifest with the offset of the tensor. */
static uint8_t *offset_field(const fixture *f, const fixture_tensor *t) {
  size_t length, name = strlen(t->name);
  uint8_t *at = fixture_section(f->manifest, f->manifest_bytes, "TENS", &length);
  while (memcmp(at, t->name, name) != 0) at++;
  return at + name + 3 + 4 * t->ndims;
}

static void test_overlap(void) {
  for (int i = 0; i < 4; i++) {
    fixture_spec spec = fixture_llama();
    spec.version = i / 2 ? FIXTURE_FOREIGN : 1;
    spec.scattered = i % 2;
    fixture f = fixture_make(&spec);
    const fixture_tensor *a = fixture_find(&f, "h.0.attn.q.weight"),
                         *b = fixture_find(&f, "h.1.mlp.up.weight");
    uint8_t *place = offset_field(&f, b);
    CHECK_EQ(bq_load64(place), b->offset);
    const uint64_t overlapping[] = {a->offset, a->offset + 1, a->offset + a->bytes - 1,
                                    a->offset - b->bytes + 1};
    for (int k = 0; k < 4; k++) {
      for (int j = 0; j < 8; j++) place[j] = (uint8_t)(overlapping[k] >> 8 * j);
      attempt t;
      CHECK_EQ(load(&f, &t, 0), BQ_FORMAT);
      CHECK(strstr(t.err.detail, "overlap"));
      free_attempt(&t);
    }
    fixture_free(&f);
  }
}

/* --- wrong lengths and no memory ------------------------------------------------------------ */

static void store64(uint8_t *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* A header that announces 16 MiB of plan sections and 256 MiB in total: memory grows only with the
 * bytes received. */
static void test_memory_of_announced_header(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  store64(f.bytes + 16, 16u << 20);
  store64(f.bytes + 24, 256u << 20);
  store64(f.bytes + 32, 1ull << 50);
  fixture_seal(f.bytes, 64);
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a);
  o.file_bytes = 0;
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  uint8_t bytes[64] = {0};
  CHECK_EQ(bq_loader_feed(a.loader, f.bytes, 64, &a.err), BQ_OK);
  size_t with_header = a.memory.peak;
  CHECK(with_header < 20000);
  for (int i = 0; i < 1000; i++) CHECK_EQ(bq_loader_feed(a.loader, bytes, 64, &a.err), BQ_OK);
  CHECK(a.memory.peak <= with_header + 3 * 64064);
  free_attempt(&a);

  o.prefix_hint = 1ull << 40; /* An impossible hint allocates nothing, either. */
  a = (attempt){0};
  o.allocator = fixture_allocator(&a.memory);
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK(a.memory.peak < 20000);
  free_attempt(&a);
  fixture_free(&f);
}

/* A file that ends after any of its bytes has no complete model. */
static void test_every_truncation(void) {
  for (uint32_t version = 1; version <= FIXTURE_FOREIGN; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    spec.config.layers = 1;
    spec.config.vocab = 40;
    spec.type = spec.embed_type = BQ_TYPE_BQ4_32;
    fixture f = fixture_make(&spec);
    uint8_t *all = f.bytes;
    size_t n = f.n;
    for (f.n = 1; f.n < n; f.n++) {
      f.bytes = malloc(f.n);
      memcpy(f.bytes, all, f.n);
      attempt a;
      CHECK_EQ(load(&f, &a, 0), BQ_TRUNCATED);
      CHECK_EQ(a.err.offset, f.n);
      free_attempt(&a);

      a = (attempt){0}; /* The file has an unknown size: the loader requests more bytes. */
      bq_loader_options o = options_for(&f, &a);
      o.file_bytes = 0;
      bq_want want = {0};
      bq_model *m;
      CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
      CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_TRUNCATED);
      CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
      CHECK(want.length > 0 && want.offset >= f.n);
      if (bq_loader_model(a.loader, &m, NULL) == BQ_OK) CHECK(bq_model_ready(m) < 3);
      free_attempt(&a);
      free(f.bytes);
    }
    f.bytes = all;
    fixture_free(&f);
  }
}

/* An allocator with at most `blocks_left` blocks of at most `max_bytes` bytes (0: any size). */
typedef struct limited_memory {
  fixture_memory memory;
  int blocks_left;
  size_t max_bytes;
} limited_memory;

static void *limited_alloc(void *ctx, size_t bytes) {
  limited_memory *m = ctx;
  bq_allocator a = fixture_allocator(&m->memory);
  if (m->max_bytes && bytes > m->max_bytes) return NULL;
  return m->blocks_left-- > 0 ? a.alloc(a.ctx, bytes) : NULL;
}

static void limited_free(void *ctx, void *p) {
  limited_memory *m = ctx;
  bq_allocator a = fixture_allocator(&m->memory);
  a.free(a.ctx, p);
}

static void test_no_memory(void) {
  for (uint32_t version = 1; version < 3; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    spec.card_bytes = 20000;
    fixture f = fixture_make(&spec);
    bool loaded = false;
    for (int blocks = 0; !loaded && blocks < 20; blocks++) {
      limited_memory m = {.blocks_left = blocks};
      attempt a = {0};
      bq_loader_options o = options_for(&f, &a);
      o.allocator = (bq_allocator){&m, limited_alloc, limited_free};
      bq_status status = bq_loader_create(&o, &a.loader, &a.err);
      CHECK(status == BQ_OK || !a.loader);
      if (!status) status = fixture_feed(&f, a.loader, 0, &a.err);
      loaded = status == BQ_OK;
      if (!loaded) CHECK_EQ(status, BQ_NOMEM);
      if (!loaded) CHECK(strstr(a.err.detail, "no room"));
      CHECK(!loaded || blocks >= 3);
      bq_loader_free(a.loader);
      CHECK_EQ(m.memory.used, 0);
    }
    CHECK(loaded);
    fixture_free(&f);
  }
}

/* The header of a file with the tensors of the fixture, in the dimensions of `c`. */
static fixture_buffer header_with_config(const fixture *f, const bq_config *c) {
  fixture_buffer plan = {0}, rest = {0}, tens = {0}, conf = fixture_conf(c);
  fixture_u32(&tens, 1);
  fixture_put(&tens, "\0\3f32", 5);
  fixture_u32(&tens, (uint32_t)f->n_tensors);
  uint64_t at = 1 << 16;
  for (size_t i = 0; i < f->n_tensors; i++) {
    const fixture_tensor *t = &f->tensors[i];
    uint64_t weights = 1;
    fixture_u16(&tens, (uint16_t)strlen(t->name));
    fixture_put(&tens, t->name, strlen(t->name));
    fixture_u16(&tens, 0); /* f32, in rows */
    fixture_u8(&tens, (uint8_t)t->ndims);
    for (uint32_t k = 0; k < t->ndims; k++) {
      uint32_t d = t->dims[k], dim = d == 32   ? c->hidden
                                     : d == 48 ? c->ffn
                                     : d == 96 ? c->vocab
                                               : d;
      if (strstr(t->name, "attn") && k == (strstr(t->name, ".o.") ? 1 : 0))
        dim = d; /* heads * head_dim */
      fixture_u32(&tens, dim);
      weights *= dim;
    }
    fixture_u64(&tens, at);
    fixture_u64(&tens, weights * 4);
    at += (weights * 4 + 63) / 64 * 64;
  }
  fixture_put_section(&plan, "CONF", 1, conf.data, conf.n);
  fixture_put_section(&plan, "TENS", 1, tens.data, tens.n);
  fixture_buffer b = fixture_prefix(&plan, &rest, at);
  free(plan.data);
  free(tens.data);
  free(conf.data);
  return b;
}

/* A loader with at most 16 MiB in a block refuses the header with BQ_NOMEM. */
static void check_no_memory(const fixture_buffer *prefix) {
  bq_error err = {0};
  limited_memory m = {.blocks_left = 3,
                      .max_bytes = 16 << 20}; /* A larger block could be only address space. */
  bq_loader_options o = {.allocator = {&m, limited_alloc, limited_free}, .prefix_hint = prefix->n};
  bq_loader *loader;
  bq_model *model = NULL;
  CHECK_EQ(bq_loader_create(&o, &loader, &err), BQ_OK);
  CHECK_EQ(bq_loader_feed(loader, prefix->data, prefix->n, &err), BQ_NOMEM);
  CHECK_EQ(bq_loader_model(loader, &model, NULL), BQ_NOMEM);
  bq_loader_free(loader);
  CHECK_EQ(m.memory.used, 0);
}

/* A model that exceeds any memory is refused by the plan or by the allocator. */
static void test_huge_model(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = spec.no_tokenizer = true;
  fixture f = fixture_make(&spec);
  bq_config c = f.config;
  c.vocab = 1u << 24;
  c.hidden = 65536;
  c.ffn = 1u << 20;
  fixture_buffer b = header_with_config(&f, &c);
  bq_plan plan;
  bq_error err = {0};
  bq_session_options small = {.context = 8};
  bq_status status = bq_plan_make(b.data, b.n, 0, NULL, 0, &small, NULL, &plan, &err);
  CHECK_EQ(status, sizeof(size_t) == 4 ? BQ_NOMEM : BQ_OK);
  if (!status) CHECK(plan.weight_bytes > 8ull << 40 && plan.model_bytes > plan.weight_bytes);
  check_no_memory(&b);
  free(b.data);
  fixture_free(&f);
}

/* Models around 4 GiB, each one row of 96 bytes larger: the size in the plan never overflows. */
static void test_plans_around_4_gib(void) {
  fixture_spec spec = fixture_llama();
  spec.no_hashes = spec.no_tokenizer = spec.config.tied = true;
  spec.config.layers = 10;
  fixture f = fixture_make(&spec);
  bq_config c = f.config;
  c.hidden = 24; /* vectors that BQ_ALIGN does not divide */
  c.ffn = 1u << 20;
  const uint64_t layers = (uint64_t)c.layers * 3 * c.ffn * c.hidden * 4;
  const uint32_t max_bytes = (uint32_t)(((UINT64_C(1) << 32) - layers) / (c.hidden * 4));
  int below = 0, above = 0;
  for (c.vocab = max_bytes - 1400; c.vocab < max_bytes - 1000; c.vocab++) {
    fixture_buffer b = header_with_config(&f, &c);
    bq_plan plan = {0};
    bq_session_options small = {.context = 8, .batch = 1};
    bq_status status = bq_plan_make(b.data, b.n, 0, NULL, 0, &small, NULL, &plan, NULL);
    if (status) CHECK_EQ(status, BQ_NOMEM);
    else
      CHECK(plan.weight_bytes < plan.model_bytes);
    if (!status && plan.model_bytes < UINT64_C(1) << 32)
      below++;
    else above++;
    check_no_memory(&b);
    free(b.data);
  }
  CHECK(sizeof(size_t) > 4 || (below > 50 && above > 50));
  fixture_free(&f);
}

/* --- wrong calls ---------------------------------------------------------------------------- */

static void test_wrong_calls(void) {
  fixture_spec spec = fixture_llama();
  fixture f = fixture_make(&spec);
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a), without_allocator = {0};
  bq_model *m = NULL;
  bq_want want;
  CHECK_EQ(bq_loader_create(&without_allocator, &a.loader, &a.err), BQ_ARGUMENT);
  CHECK_EQ(bq_loader_create(NULL, &a.loader, &a.err), BQ_ARGUMENT);
  CHECK(!a.loader);
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_model(a.loader, &m, &a.err), BQ_STATE);
  CHECK(!m);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, &a.err),
           BQ_ARGUMENT); /* There was no bq_loader_want() before. */
  CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
  CHECK_EQ(want.offset, 0);
  CHECK_EQ(bq_loader_wrote(a.loader, want.dst_bytes + 1, &a.err), BQ_ARGUMENT);
  memcpy(want.dst, f.bytes, want.dst_bytes);
  CHECK_EQ(bq_loader_wrote(a.loader, want.dst_bytes, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_wrote(a.loader, 1, &a.err), BQ_ARGUMENT); /* The buffer was already filled. */
  CHECK_EQ(bq_loader_wrote(a.loader, 0, &a.err), BQ_OK);
  CHECK_EQ(bq_loader_feed(a.loader, NULL, 0, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err),
           BQ_OK); /* The refused calls did not change the loader. */
  CHECK_EQ(bq_loader_model(a.loader, &m, &a.err), BQ_OK);
  CHECK_EQ(bq_model_ready(m), f.config.layers + 2);
  CHECK_EQ(bq_loader_want(a.loader, &want, &a.err), BQ_OK);
  CHECK_EQ(want.length, 0);
  free_attempt(&a);
  bq_loader_free(NULL);
  fixture_free(&f);
}

/* A tokenizer section that the reader of tokenizers refuses. */
static void test_invalid_tokenizer(void) {
  for (uint32_t version = 1; version < 3; version++) {
    fixture_spec spec = fixture_llama();
    spec.version = version;
    fixture f = fixture_make(&spec);
    uint8_t *from = version == 1 ? f.manifest : f.bytes;
    uint8_t *tokn = fixture_section(from, version == 1 ? f.manifest_bytes : f.n, "TOKN", NULL);
    tokn[0] = 9; /* its kind */
    if (version == 2) fixture_seal(f.bytes, f.n);
    check_refused(&f, 0, BQ_UNSUPPORTED, version == 1 ? BQ_NO_OFFSET : (uint64_t)(tokn - from), "");
    attempt a;
    CHECK_EQ(load(&f, &a, 0), BQ_UNSUPPORTED);
    check_no_model(&a);
    free_attempt(&a);
    fixture_free(&f);
  }
}

/* A type whose kernels the table lacks. (The optional kernels have a wasm module of their own.) */
static void test_kernels_missing(void) {
  fixture_spec spec = fixture_llama();
  spec.type = BQ_TYPE_BQ4_16;
  fixture f = fixture_make(&spec);
  bq_kernels kernels = *bq_kernels_best();
  kernels.matrix[BQ_TYPE_BQ4_16] = (bq_matrix_ops){0};
  attempt a = {0};
  bq_loader_options o = options_for(&f, &a);
  o.kernels = &kernels;
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_UNSUPPORTED);
  CHECK(strstr(a.err.detail, "needs the kernels of type bq4_16"));
  check_no_model(&a);
  free_attempt(&a);
  kernels.matrix[BQ_TYPE_BQ4_64] = (bq_matrix_ops){0};
  kernels.matrix[BQ_TYPE_BQ4_16] = bq_kernels_best()->matrix[BQ_TYPE_BQ4_16];
  CHECK_EQ(bq_loader_create(&o, &a.loader, &a.err), BQ_OK);
  CHECK_EQ(fixture_feed(&f, a.loader, 0, &a.err), BQ_OK); /* The file has no tensor of that type. */
  free_attempt(&a);
  fixture_free(&f);
}

int main(void) {
  RUN(test_damaged_chunk);
  RUN(test_ready_before_damage);
  RUN(test_damage_without_hashes);
  RUN(test_invalid_numbers);
  RUN(test_weights_above_7_bits);
  RUN(test_invalid_numbers_v1);
  RUN(test_invalid_number_in_manifest);
  RUN(test_gaps);
  RUN(test_overlap);
  RUN(test_memory_of_announced_header);
  RUN(test_every_truncation);
  RUN(test_no_memory);
  RUN(test_huge_model);
  RUN(test_plans_around_4_gib);
  RUN(test_wrong_calls);
  RUN(test_invalid_tokenizer);
  RUN(test_kernels_missing);
  return check_summary();
}
